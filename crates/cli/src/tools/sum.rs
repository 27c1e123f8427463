//! `haul sum`: computes and checks hashes of files and trees.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::ExitCode;

use haul_flow::{Config, Problem, Reporter};
use haul_sum::{Algorithm, CheckOptions, Format, HashListing, Options, Printed, SumOperand, SumOutcome};

use super::{AppletCall, CliTool};
use crate::flags::Action::{AnyValue, Plain, Required};
use crate::flags::values::{HASH, MANIFEST_FORMAT, check_manifest};
use crate::flags::{AppletCommand, Arguments, FlagError, FlagSpec, SharedArguments, Sharing};
use crate::manifest;
use crate::messages;
use crate::option_files::is_descriptor_path;
use crate::report::Console;
use crate::task::{CliTask, Executors};

pub(super) const TOOL: CliTool = CliTool {
    name: "sum",
    programs: &[],
    about: "compute hashes of files and trees, and check them",
    document: || COMMAND.document(),
    main,
};

/// Exit status if anything could not be read, or is not right.
const TROUBLE: u8 = 1;

static COMMAND: AppletCommand<SumArguments> = AppletCommand {
    usage: &["[OPTION]... [FILE|DIRECTORY]...", "-c [OPTION]... [MANIFEST]..."],
    about: "\
Print the hash of each file, and of each file below each directory; or check the files that manifests list. Without an \
operand, or where it is -, read standard input.",
    sections: &[("", FLAGS), ("With --check", CHECK_FLAGS)],
    sharing: Sharing::All,
    notes: "\
Directories are entered recursively. Below them only regular files are hashed, and symbolic links are not followed; links, \
FIFOs and devices named on the command line are read. The hashes are listed in the order of the operands, and below a \
directory sorted by path, whatever the number of workers. The file of --output is not hashed itself, nor the one it replaces.

The hash blake3 is computed from the parts of a large file by all workers, and is what b3sum prints. The others need a \
file's bytes in order: they are computed for many files at once.

Manifests that --check understands are those that haul sum writes in any format, and those of b3sum, sha256sum, md5sum and \
xxhsum, also with --tag. Names in them are relative to the current directory. The kind of hash is taken from the tag, else from \
--hash, else from the number of digits: 16 for xxh64, 32 for md5, 64 for blake3 or sha256. With 64 digits, a file is FAILED \
if neither matches.

Exit status is 0 if all files were read, and with --check if all are right; else 1.

Examples:
  haul sum --output=SUMS project
  haul sum --check --quiet SUMS
  haul sum --hash=sha256 *.iso > SHA256SUMS; sha256sum -c SHA256SUMS",
};

static FLAGS: &[FlagSpec<SumArguments>] = &[
    FlagSpec::gnu(
        "--hash",
        Required("NAME", |line, value| value.choose(HASH).map(|algorithm| line.algorithm = Some(algorithm))),
        "compute the hash NAME: blake3 (the default), xxh128, xxh64, sha256, or md5; with --check, for lines that \
         don't say which",
    ),
    FlagSpec::gnu(
        "--manifest-format",
        Required("NAME", |line, value| {
            value.choose(MANIFEST_FORMAT).map(|format| line.formats.push(("--manifest-format", format)))
        }),
        "list the hashes in this form: b3sum (the default: hash and name, as all such programs print them), bsd (with the \
         name of the hash), json (an object on each line), or mhl (an ASC Media Hash List, with xxh128, xxh64 or md5)",
    ),
    FlagSpec::gnu(
        "--tag",
        Plain(|line| line.formats.push(("--tag", Format::Bsd))),
        "the same as --manifest-format=bsd",
    ),
    FlagSpec::gnu(
        "-z --zero",
        Plain(|line| line.zero = true),
        "end each line with NUL, not newline, and don't escape names",
    ),
    FlagSpec::gnu(
        "-o --output",
        AnyValue("FILE", |line, value| line.output = Some(value.os())),
        "write to FILE; it appears, or is replaced, when it is complete",
    ),
    FlagSpec::gnu(
        "-L --dereference",
        Plain(|line| line.dereference = true),
        "follow symbolic links below directories",
    ),
    FlagSpec::gnu(
        "-c --check",
        Plain(|line| line.check = true),
        "read manifests, and check the files that they list",
    ),
    FlagSpec::help("-h --help"),
    FlagSpec::version("--version"),
];

static CHECK_FLAGS: &[FlagSpec<SumArguments>] = &[
    FlagSpec::gnu(
        "--ignore-missing",
        Plain(|line| {
            line.needs_check("--ignore-missing");
            line.ignore_missing = true;
        }),
        "do not fail or report for missing files",
    ),
    FlagSpec::gnu(
        "--quiet",
        Plain(|line| line.prints("--quiet", Printed::Failures)),
        "don't print OK for each verified file",
    ),
    FlagSpec::gnu(
        "--status",
        Plain(|line| line.prints("--status", Printed::Nothing)),
        "print nothing about the files, only set the exit status",
    ),
    FlagSpec::gnu(
        "--strict",
        Plain(|line| {
            line.needs_check("--strict");
            line.checks.strict = true;
        }),
        "fail if a line is improperly formatted",
    ),
    FlagSpec::gnu(
        "-w --warn",
        Plain(|line| line.prints("--warn", Printed::BadLines)),
        "report each line that is improperly formatted",
    ),
];

#[derive(Debug, Default)]
struct SumArguments {
    shared: SharedArguments,
    operands: Vec<OsString>,
    algorithm: Option<Algorithm>,
    /// The formats that are asked for, and their flags.
    formats: Vec<(&'static str, Format)>,
    zero: bool,
    output: Option<OsString>,
    dereference: bool,
    check: bool,
    ignore_missing: bool,
    checks: CheckOptions,
    /// First flag that needs `--check`.
    without_check: Option<&'static str>,
}

impl Arguments for SumArguments {
    fn shared(&mut self) -> &mut SharedArguments {
        &mut self.shared
    }

    fn operand(&mut self, word: &OsStr) {
        self.operands.push(word.to_owned());
    }
}

impl SumArguments {
    /// Records the first flag that is meaningless without `--check`.
    fn needs_check(&mut self, flag: &'static str) {
        self.without_check.get_or_insert(flag);
    }

    fn prints(&mut self, flag: &'static str, printed: Printed) {
        self.needs_check(flag);
        self.checks.printed = printed;
    }

    fn lower(self) -> Result<SumTask, FlagError> {
        let format = self.formats.last().map_or(Format::default(), |(_, format)| *format);
        let algorithm = self.algorithm.unwrap_or_default();
        self.doubt(format, algorithm)?;
        let name = |name: OsString| CString::new(name.into_vec()).map_err(|_| FlagError::NulInName);
        let named = self.operands.into_iter().map(|word| match word.as_bytes() {
            b"-" => Ok(SumOperand::Input),
            _ => name(word).map(SumOperand::Path),
        });
        let mut named = named.collect::<Result<Vec<_>, _>>()?;
        if named.is_empty() {
            named.push(SumOperand::Input);
        }
        let output = self.output.map(name).transpose()?;
        let mut options = Options::of(algorithm);
        (options.dereference, options.ignore_missing) = (self.dereference, self.ignore_missing);
        let aim = match self.check {
            true => Aim::Check(CheckOptions { hint: self.algorithm, ..self.checks }),
            false => Aim::Sum(
                Box::new(HashListing { format, zero: self.zero, creator: manifest::creator() }),
                output,
            ),
        };
        Ok(SumTask { named, options, aim })
    }

    /// Refuses combinations that make no sense.
    fn doubt(&self, format: Format, algorithm: Algorithm) -> Result<(), FlagError> {
        let mut formats = self.formats.iter();
        if let Some((flag, first)) = formats.next()
            && let Some((other, _)) = formats.find(|(other, format)| other != flag && format != first)
        {
            return Err(FlagError::Exclusive { flag, other });
        }
        if let (Some(flag), false) = (self.without_check, self.check) {
            return Err(FlagError::Requires { flag, other: "--check" });
        }
        let of_listing = [
            (self.formats.first().map(|(flag, _)| *flag), self.check, "--check"),
            (self.zero.then_some("--zero"), self.check, "--check"),
            (self.output.as_ref().map(|_| "--output"), self.check, "--check"),
            (self.dereference.then_some("--dereference"), self.check, "--check"),
            (self.zero.then_some("--zero"), format == Format::Mhl, "--manifest-format=mhl"),
        ];
        if let (Some(flag), true) = (self.shared.selection_flag(), self.check) {
            return Err(FlagError::Useless { flag, other: "--check" });
        }
        if let Some(flag) = self.shared.selection_flag()
            && self.operands.iter().all(|operand| operand == "-")
        {
            return Err(FlagError::Sentence(format!(
                "{flag} has no effect on standard input: name a directory"
            )));
        }
        if self.shared.run.reads_input && self.operands.iter().any(|operand| operand == "-") {
            return Err(FlagError::Sentence("standard input can be read only once".to_owned()));
        }
        for (flag, is_useless, other) in of_listing {
            if let (Some(flag), true) = (flag, is_useless) {
                return Err(FlagError::Useless { flag, other });
            }
        }
        check_manifest(format, algorithm)
    }
}

fn main(call: &AppletCall<'_>) -> ExitCode {
    let line = match call.read(&COMMAND, call.words, TROUBLE) {
        Ok(line) => line,
        Err(status) => return status,
    };
    let run_options = line.shared.run.clone();
    match line.lower() {
        Ok(work) => {
            call.run_anywhere(call.messages().with_sentences(messages::flow::in_sum), &run_options, &work)
        }
        Err(error) => call.refuse(&error, TROUBLE),
    }
}

struct SumTask {
    named: Vec<SumOperand>,
    options: Options,
    aim: Aim,
}

enum Aim {
    /// List hashes, in a file if one is named.
    Sum(Box<HashListing>, Option<CString>),
    Check(CheckOptions),
}

impl SumTask {
    fn sum(
        &self,
        executor: &impl Executors,
        listing: &HashListing,
        output: Option<&CString>,
        config: &Config,
        console: &Console,
    ) -> Result<SumOutcome, Problem> {
        let output = output.map(|path| manifest::create_file(path, console)).transpose()?;
        let (manifest, _guard) = output.unzip();
        haul_sum::sum_by(executor, &self.named, &self.options, (listing, manifest), config, console)
    }
}

impl CliTask for SumTask {
    fn run(&self, executor: &impl Executors, config: &Config, console: &Console) -> u8 {
        let outcome = match &self.aim {
            Aim::Sum(listing, output) => self.sum(executor, listing, output.as_ref(), config, console),
            Aim::Check(checks) => {
                haul_sum::check_by(executor, &self.named, &self.options, *checks, config, console)
            }
        };
        match outcome {
            Ok(SumOutcome::Success) => 0,
            Ok(SumOutcome::Failure) => TROUBLE,
            Err(problem) => {
                console.problem(problem);
                TROUBLE
            }
        }
    }

    fn manifest_file(&self) -> Option<(&'static str, &Path)> {
        match &self.aim {
            Aim::Sum(_, Some(output)) => Some(("--output", Path::new(OsStr::from_bytes(output.to_bytes())))),
            Aim::Sum(..) | Aim::Check(_) => None,
        }
    }

    fn needs_descriptors(&self) -> bool {
        self.named.iter().any(|named| match named {
            SumOperand::Path(path) => is_descriptor_path(path.to_bytes()),
            SumOperand::Input => true,
        })
    }

    fn operands(&self) -> Vec<&CStr> {
        let paths = self.named.iter().filter_map(|named| match named {
            SumOperand::Path(path) => Some(path.as_c_str()),
            SumOperand::Input => None,
        });
        paths.collect()
    }

    fn shared_path(&self) -> Option<&Path> {
        let path = self.named.iter().find_map(|named| match named {
            SumOperand::Path(path) => Some(Path::new(OsStr::from_bytes(path.to_bytes()))),
            SumOperand::Input => None,
        });
        path.or(Some(Path::new(".")))
    }
}
