//! `haul bzip2`, also called as bzip2, bunzip2 and bzcat: flags and environment, lowered and run.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use haul_bzip2::{Action, Making, Options, TROUBLE};
use haul_flow::Config;
use haul_sys::reason;

use super::{AppletCall, CliTool};
use crate::cluster::stdout_is_terminal;
use crate::flags::Action::Plain;
use crate::flags::{AppletCommand, Arguments, SharedArguments, Sharing};
use crate::messages;
use crate::option_files::is_descriptor;
use crate::progress::Total;
use crate::report::{Console, complain};
use crate::signals;
use crate::task::{CliTask, Executors};

pub(super) const TOOL: CliTool = CliTool {
    name: "bzip2",
    programs: &["bzip2", "bunzip2", "bzcat"],
    about: "compress and decompress .bz2 files; also as bunzip2 and bzcat",
    document: || COMMAND.document(),
    main,
};

/// Minimum width of names in `--verbose` output: that of standard input. Longer names push the
/// figures to the right.
const LONGEST_NAME_MIN: usize = 7;

static COMMAND: AppletCommand<Bzip2Arguments> = AppletCommand {
    usage: &["[OPTION]... [FILE]..."],
    about: "\
Compress or decompress files, in place: .bz2 is added to or removed from their names. Without FILE, or with -c, write to \
standard output.",
    sections: &[("", FLAGS)],
    sharing: Sharing::All,
    notes: "\
Invoked as bunzip2, it decompresses; as bzcat, it decompresses to standard output. The environment \
variables BZIP2 and BZIP may hold options.

All workers compress or decompress the blocks of a file at once, whatever program made it; the output is what bzip2 itself \
could have written. Files of several blocks are processed one or two at a time, smaller ones all at once.

Exit status is 0 if all went well, 1 if a file was not processed (not found, output exists, ...), 2 if compressed data is \
corrupt.",
};

type Bzip2Flag = crate::flags::FlagSpec<Bzip2Arguments>;

static FLAGS: &[Bzip2Flag] = &[
    Bzip2Flag::gnu("-d --decompress", Plain(|line| line.mode = Some(Mode::Decompress)), "decompress"),
    Bzip2Flag::gnu(
        "-z --compress",
        Plain(|line| line.mode = Some(Mode::Compress)),
        "compress, even if invoked as bunzip2 or bzcat",
    ),
    Bzip2Flag::gnu("-k --keep", Plain(|line| line.keep = true), "keep the input files"),
    Bzip2Flag::gnu(
        "-f --force",
        Plain(|line| line.force = true),
        "overwrite existing output files, follow symbolic links, process files with several hard links, and with -dc \
         copy files that are not compressed",
    ),
    Bzip2Flag::gnu(
        "-t --test",
        Plain(|line| line.mode = Some(Mode::Test)),
        "check that the files can be decompressed",
    ),
    Bzip2Flag::gnu(
        "-c --stdout",
        Plain(|line| line.stdout = true),
        "write to standard output, and keep the input files",
    ),
    Bzip2Flag::gnu("-q --quiet", Plain(|line| line.quiet = true), "print only important errors"),
    Bzip2Flag::gnu(
        "-v --verbose",
        Plain(|line| line.verbose = line.verbose.saturating_add(1)),
        "print the result for each file; twice, with details",
    ),
    Bzip2Flag::own(
        "-r --recursive",
        Plain(|line| line.recursive = true),
        "process all files below directories: those without the suffix to compress, those with it to decompress",
    ),
    Bzip2Flag::gnu(
        "-s --small",
        Plain(|line| line.small = true),
        "use less memory: blocks of at most 200,000 bytes",
    ),
    Bzip2Flag::gnu("-1 --fast", Plain(|line| line.level = 1), "use blocks of at most 100k"),
    Bzip2Flag::gnu("-2", Plain(|line| line.level = 2), "use blocks of at most 200k"),
    Bzip2Flag::gnu("-3", Plain(|line| line.level = 3), "use blocks of at most 300k"),
    Bzip2Flag::gnu("-4", Plain(|line| line.level = 4), "use blocks of at most 400k"),
    Bzip2Flag::gnu("-5", Plain(|line| line.level = 5), "use blocks of at most 500k"),
    Bzip2Flag::gnu("-6", Plain(|line| line.level = 6), "use blocks of at most 600k"),
    Bzip2Flag::gnu("-7", Plain(|line| line.level = 7), "use blocks of at most 700k"),
    Bzip2Flag::gnu("-8", Plain(|line| line.level = 8), "use blocks of at most 800k"),
    Bzip2Flag::gnu("-9 --best", Plain(|line| line.level = 9), "use blocks of at most 900k (the default)"),
    Bzip2Flag::gnu("--repetitive-fast", Plain(|line| line.redundant.push("fast")), ""),
    Bzip2Flag::gnu("--repetitive-best", Plain(|line| line.redundant.push("best")), ""),
    Bzip2Flag::help("-h --help"),
    Bzip2Flag::version("-L -V --license --version"),
];

/// Operation on files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Compress,
    Decompress,
    Test,
}

#[derive(Debug)]
struct Bzip2Arguments {
    shared: SharedArguments,
    files: Vec<OsString>,
    /// The last of `-d`, `-z` and `-t`, or of their long forms if there are any.
    mode: Option<Mode>,
    stdout: bool,
    force: bool,
    keep: bool,
    recursive: bool,
    small: bool,
    quiet: bool,
    verbose: u8,
    level: u8,
    /// Flags of old versions.
    redundant: Vec<&'static str>,
}

impl Default for Bzip2Arguments {
    fn default() -> Self {
        Self {
            shared: SharedArguments::default(),
            files: Vec::new(),
            mode: None,
            stdout: false,
            force: false,
            keep: false,
            recursive: false,
            small: false,
            quiet: false,
            verbose: 0,
            level: 9,
            redundant: Vec::new(),
        }
    }
}

impl Arguments for Bzip2Arguments {
    const LONG_FLAGS_LAST: bool = true;

    fn shared(&mut self) -> &mut SharedArguments {
        &mut self.shared
    }

    fn operand(&mut self, word: &OsStr) {
        // To bzip2 this is a flag without a letter.
        if word != "-" {
            self.files.push(word.to_owned());
        }
    }

    fn rest(&mut self, words: &[OsString]) {
        // After the first `--`, bzip2 drops the other ones, and `-` is a file.
        self.files.extend(words.iter().filter(|word| *word != "--").cloned());
    }
}

impl Bzip2Arguments {
    /// Lowers the flags, for a program called `name`.
    fn options(&self, name: &str) -> Options {
        let level = if self.small { self.level.min(2) } else { self.level };
        let usual = if name == "bzip2" { Mode::Compress } else { Mode::Decompress };
        let action = match self.mode.unwrap_or(usual) {
            Mode::Test => Action::Test,
            Mode::Decompress => Action::Decompress,
            Mode::Compress => Action::Compress { level },
        };
        Options {
            action,
            to_output: self.stdout || name == "bzcat",
            output_is_terminal: stdout_is_terminal(),
            keep: self.keep,
            force: self.force,
            recursive: self.recursive,
            quiet: self.quiet,
            verbosity: self.verbose,
            longest_name: self.files.iter().map(|file| file.len()).fold(LONGEST_NAME_MIN, usize::max),
        }
    }

    /// Returns the error for a combination that makes no sense.
    fn doubt(&self, options: &Options) -> Option<&'static str> {
        let one_output = options.to_output && options.action != Action::Test;
        // Without files, bzcat is no different from bunzip2, and may test.
        let has_output = self.stdout || (options.to_output && !self.files.is_empty());
        match () {
            () if options.action == Action::Test && has_output => Some("-c and -t cannot be used together."),
            () if one_output && self.recursive => Some("-c and -r cannot be used together."),
            () if one_output && self.shared.run.hosts.clients.is_some() => {
                Some("--clients cannot be used with -c: several hosts cannot write to one standard output.")
            }
            () if self.files.is_empty() && self.shared.run.hosts.clients.is_some() => {
                Some("--clients needs files: several hosts cannot read one standard input.")
            }
            () if self.files.is_empty() && self.shared.selection_flag().is_some() => {
                Some("the options that select files need a directory: standard input is one stream.")
            }
            () => None,
        }
    }
}

/// Returns the flags in the environment; later ones take precedence.
fn flags_of_environment() -> Vec<OsString> {
    let words = |variable: &str| {
        let value = std::env::var_os(variable).unwrap_or_default();
        let words = value.as_bytes().split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        words.map(|word| OsStr::from_bytes(word).to_owned()).collect::<Vec<_>>()
    };
    [words("BZIP2"), words("BZIP")].concat()
}

struct Bzip2Task {
    options: Options,
    files: Vec<CString>,
    place: Option<OsString>,
}

impl CliTask for Bzip2Task {
    fn run(&self, executor: &impl Executors, config: &Config, console: &Console) -> u8 {
        let making = Making::default();
        let makes_files =
            !self.options.to_output && self.options.action != Action::Test && !self.files.is_empty();
        // If no file is being made, a signal does what it does to any program.
        let guard = makes_files.then(|| {
            let making = making.clone();
            signals::before_end(move || making.abandon())
        });
        if let Some(Err(why)) = &guard {
            console
                .remark(&format!("an incomplete output file will remain if haul is killed: {}", reason(why)));
        }
        let status = haul_bzip2::run(executor, &self.files, &self.options, config, &making, console);
        drop(guard);
        status
    }

    fn needs_descriptors(&self) -> bool {
        self.files.is_empty()
            || self.files.iter().any(|file| is_descriptor(OsStr::from_bytes(file.to_bytes())))
    }

    fn operands(&self) -> Vec<&CStr> {
        self.files.iter().map(CString::as_c_str).collect()
    }

    fn shared_path(&self) -> Option<&Path> {
        self.place.as_ref().map(Path::new)
    }

    fn count_total(&self, _over: &AtomicBool, _report: &dyn haul_flow::Reporter) -> Option<Total> {
        None
    }
}

fn main(call: &AppletCall<'_>) -> ExitCode {
    let words = [flags_of_environment().as_slice(), call.words].concat();
    let line = match call.read(&COMMAND, &words, TROUBLE) {
        Ok(line) => line,
        Err(status) => return status,
    };
    for which in line.redundant.iter().filter(|_| call.prints_messages()) {
        let remark = format!("--repetitive-{which} is redundant in versions 0.9.5 and above");
        complain(&call.messages().debug(&remark));
    }
    let options = line.options(call.name);
    if let Some(doubt) = line.doubt(&options) {
        return call.refuse_with(TROUBLE, || {
            complain(&call.messages().wrong_usage(doubt));
        });
    }
    let place = line.files.first().cloned();
    let named = line.files.into_iter().map(|file| CString::new(file.into_vec()));
    let Ok(files) = named.collect() else {
        return call.refuse_with(TROUBLE, || {
            complain(&call.messages().wrong_usage("a name contains a NUL byte"));
        });
    };
    let messages = call.messages().with_sentences(messages::flow::in_bzip2);
    call.run_anywhere(messages, &line.shared.run, &Bzip2Task { options, files, place })
}
