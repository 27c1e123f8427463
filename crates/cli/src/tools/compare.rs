//! `haul cmp`: compares two trees or two files.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::ExitCode;

use haul_compare::{Attributes, CompareOutcome, DifferenceListing, Operands, Options};
use haul_flow::{Config, Reporter};
use haul_sum::{Algorithm, CompareOptions};

use super::{AppletCall, CliTool};
use crate::flags::Action::{AnyValue, Optional, Plain, Required};
use crate::flags::values::{HASH, Words};
use crate::flags::{AppletCommand, Arguments, FlagError, FlagSpec, SharedArguments, Sharing};
use crate::messages;
use crate::option_files::is_descriptor;
use crate::report::Console;
use crate::task::{CliTask, Executors};

pub(super) const TOOL: CliTool = CliTool {
    name: "cmp",
    programs: &[],
    about: "compare two trees or two files",
    document: || COMMAND.document(),
    main,
};

/// Exit status if the two differ.
const DIFFERENT: u8 = 1;
/// Exit status if anything could not be compared.
const TROUBLE: u8 = 2;

/// Attributes by name, as in `cp --preserve`.
const ATTRIBUTES: &Words<Attributes> = &[
    ("mode", Attributes::MODE),
    ("ownership", Attributes::OWNERSHIP),
    ("timestamps", Attributes::TIMESTAMPS),
    ("links", Attributes::LINKS),
    ("xattr", Attributes::XATTR),
    ("holes", Attributes::HOLES),
    ("all", ALL),
];

const ALL: Attributes = Attributes::all().difference(Attributes::HOLES);

static COMMAND: AppletCommand<CompareArguments> = AppletCommand {
    usage: &["[OPTION]... FIRST SECOND", "--manifest=FILE [OPTION]... TREE"],
    about: "Compare two trees or two files, or a tree and a manifest, and list the differences.",
    sections: &[("", FLAGS)],
    sharing: Sharing::All,
    notes: "\
Names, types, contents and targets of symbolic links are always compared. In trees, devices are compared by their numbers, \
FIFOs and sockets by their type. FIFOs and devices named on the command line are read to the end; - is standard input. \
If both are the same file, it is not read. A file compared with a directory is compared with the file of that name in it. \
An entry is skipped only if the options skip it in both trees; if they skip two files that are named, that is trouble.

With --manifest, every file that FILE lists is hashed, and must have its hash; a regular file in TREE that FILE doesn't \
list is a difference too. FILE may have any form that 'haul sum --check' understands. Names in it are relative to TREE, \
unless all of them begin with TREE as it is given here. FILE itself, if it is in TREE, is passed over.

Exit status is 0 if both are the same, 1 if they differ, 2 if trouble.

Examples:
  haul cmp project /backup/project
  haul cmp --attributes --json source copy
  haul cmp -q a.iso b.iso && echo same
  haul sum -o SUMS project; haul cmp --manifest=SUMS project",
};

static FLAGS: &[FlagSpec<CompareArguments>] = &[
    FlagSpec::gnu(
        "--attributes",
        Optional("LIST", |line, value| {
            match value {
                Some(value) => line.options.attributes.extend(value.choose_each(ATTRIBUTES)?),
                None => line.options.attributes |= ALL,
            }
            Ok(())
        }),
        "also compare these attributes, separated by commas: mode, ownership, timestamps, links, xattr, holes, all (all \
         but holes; the default for LIST)",
    ),
    FlagSpec::gnu(
        "-q -s --quiet --silent",
        Plain(|line| line.listings.push(("--quiet", DifferenceListing::Nothing))),
        "list nothing, and stop at the first difference",
    ),
    FlagSpec::gnu(
        "--brief",
        Plain(|line| line.listings.push(("--brief", DifferenceListing::Brief))),
        "list which entries differ, one per line, but not how, like 'diff -rq'",
    ),
    FlagSpec::gnu(
        "--json",
        Plain(|line| line.listings.push(("--json", DifferenceListing::Json))),
        "list each difference as a JSON object on its own line",
    ),
    FlagSpec::gnu("-L --dereference", Plain(|line| line.options.dereference = true), "follow symbolic links"),
    FlagSpec::gnu(
        "-x --exclude",
        Required("GLOB", |line, value| line.shared.add_rule("", value)),
        "skip entries that match GLOB, in .gitignore syntax, on both sides",
    ),
    FlagSpec::gnu(
        "--one-file-system",
        Plain(|line| line.options.one_file_system = true),
        "stay on the file systems of FIRST and SECOND",
    ),
    FlagSpec::gnu(
        "--direct",
        Plain(|line| line.options.direct = true),
        "read files from the device, bypassing the page cache; fail where that is impossible",
    ),
    FlagSpec::gnu(
        "--manifest",
        AnyValue("FILE", |line, value| line.manifest = Some(value.os())),
        "compare TREE with the hashes in FILE, a manifest such as 'haul sum' writes",
    ),
    FlagSpec::gnu(
        "--hash",
        Required("NAME", |line, value| value.choose(HASH).map(|algorithm| line.algorithm = Some(algorithm))),
        "with --manifest, the algorithm of hashes that don't name one: blake3, xxh128, xxh64, sha256, or md5",
    ),
    FlagSpec::help("-h --help"),
    FlagSpec::version("--version"),
];

#[derive(Debug, Default)]
struct CompareArguments {
    shared: SharedArguments,
    operands: Vec<OsString>,
    options: Options,
    manifest: Option<OsString>,
    algorithm: Option<Algorithm>,
    /// The forms of the list that are asked for, and their flags.
    listings: Vec<(&'static str, DifferenceListing)>,
}

impl Arguments for CompareArguments {
    fn shared(&mut self) -> &mut SharedArguments {
        &mut self.shared
    }

    fn operand(&mut self, word: &OsStr) {
        self.operands.push(word.to_owned());
    }
}

impl CompareArguments {
    fn lower(self) -> Result<CompareTask, FlagError> {
        let mut listings = self.listings.iter();
        let (flag, listing) = listings.next().copied().unwrap_or(("", DifferenceListing::Full));
        if let Some((other, _)) = listings.find(|(other, _)| *other != flag) {
            return Err(FlagError::Exclusive { flag, other });
        }
        if self.algorithm.is_some() {
            return Err(FlagError::Requires { flag: "--hash", other: "--manifest" });
        }
        let mut names = self.operands.into_iter().map(OsString::into_vec);
        let (Some(first), Some(second)) = (names.next(), names.next()) else {
            return Err(FlagError::Missing { operand: "operand: two names are compared" });
        };
        if let Some(operand) = names.next() {
            return Err(FlagError::Extra { operand });
        }
        let name = |name| CString::new(name).map_err(|_| FlagError::NulInName);
        let operands = Operands { first: name(first)?, second: name(second)? };
        Ok(CompareTask { operands, options: Options { listing, ..self.options } })
    }
}

impl CompareArguments {
    /// Lowers the flags of a comparison with `manifest`.
    fn lower_manifest(self, manifest: OsString) -> Result<ManifestComparison, FlagError> {
        let Options { attributes, listing: _, dereference, direct, one_file_system } = self.options;
        let full_only = [
            ("--attributes", !attributes.is_empty()),
            ("--direct", direct),
            ("--one-file-system", one_file_system),
            ("--brief", self.listings.iter().any(|(_, listing)| *listing == DifferenceListing::Brief)),
            ("--json", self.listings.iter().any(|(_, listing)| *listing == DifferenceListing::Json)),
        ];
        let unused = full_only.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag);
        if let Some(flag) = unused.or_else(|| self.shared.selection_flag()) {
            return Err(FlagError::Useless { flag, other: "--manifest" });
        }
        let mut names = self.operands.into_iter().map(OsString::into_vec);
        let Some(tree) = names.next() else { return Err(FlagError::Missing { operand: "operand: a tree" }) };
        if let Some(operand) = names.next() {
            return Err(FlagError::Extra { operand });
        }
        let name = |name| CString::new(name).map_err(|_| FlagError::NulInName);
        let options = CompareOptions { hint: self.algorithm, dereference, quiet: !self.listings.is_empty() };
        Ok(ManifestComparison { manifest: name(manifest.into_vec())?, tree: name(tree)?, options })
    }
}

fn main(call: &AppletCall<'_>) -> ExitCode {
    let mut line = match call.read(&COMMAND, call.words, TROUBLE) {
        Ok(line) => line,
        Err(status) => return status,
    };
    let run_options = line.shared.run.clone();
    if let Some(manifest) = line.manifest.take() {
        return match line.lower_manifest(manifest) {
            Ok(work) => {
                call.run_anywhere(call.messages().with_sentences(messages::flow::in_sum), &run_options, &work)
            }
            Err(error) => call.refuse(&error, TROUBLE),
        };
    }
    match line.lower() {
        Ok(work) => {
            call.run_anywhere(call.messages().with_sentences(messages::flow::in_compare), &run_options, &work)
        }
        Err(error) => call.refuse(&error, TROUBLE),
    }
}

/// A comparison of a tree with a manifest.
struct ManifestComparison {
    manifest: CString,
    tree: CString,
    options: CompareOptions,
}

impl CliTask for ManifestComparison {
    fn run(&self, executor: &impl Executors, config: &Config, console: &Console) -> u8 {
        let paths = (self.manifest.as_c_str(), self.tree.as_c_str());
        match haul_sum::compare_by(executor, paths, &self.options, config, console) {
            Ok(haul_sum::ManifestComparison::Same) => 0,
            Ok(haul_sum::ManifestComparison::Different) => DIFFERENT,
            Ok(haul_sum::ManifestComparison::Failure) => TROUBLE,
            Err(problem) => {
                console.problem(problem);
                TROUBLE
            }
        }
    }

    fn exit_status(&self, status: u8, trouble: bool) -> u8 {
        if trouble { TROUBLE } else { status }
    }

    fn operands(&self) -> Vec<&CStr> {
        vec![&self.manifest, &self.tree]
    }

    fn shared_path(&self) -> Option<&Path> {
        Some(Path::new(OsStr::from_bytes(self.tree.to_bytes())))
    }
}

struct CompareTask {
    operands: Operands,
    options: Options,
}

impl CliTask for CompareTask {
    fn run(&self, executor: &impl Executors, config: &Config, console: &Console) -> u8 {
        match haul_compare::run_by(executor, &self.operands, &self.options, config, console) {
            Ok(CompareOutcome::Same) => 0,
            Ok(CompareOutcome::Different) => DIFFERENT,
            Ok(CompareOutcome::Failure) => TROUBLE,
            Err(problem) => {
                console.problem(problem);
                TROUBLE
            }
        }
    }

    fn exit_status(&self, status: u8, trouble: bool) -> u8 {
        if trouble { TROUBLE } else { status }
    }

    fn needs_descriptors(&self) -> bool {
        self.operands().into_iter().any(|operand| is_descriptor(OsStr::from_bytes(operand.to_bytes())))
    }

    fn operands(&self) -> Vec<&CStr> {
        vec![&self.operands.first, &self.operands.second]
    }

    fn shared_path(&self) -> Option<&Path> {
        Some(Path::new(OsStr::from_bytes(self.operands.second.to_bytes())))
    }
}
