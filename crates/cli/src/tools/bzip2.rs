//! `haul bzip2`, also called as bzip2, bunzip2 and bzcat: flags and environment, lowered and run.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, CommandFactory, FromArgMatches, Parser};
use haul_bzip2::{Action, Making, Options, TROUBLE};
use haul_flow::Config;

use super::{Call, Tool};
use crate::messages::{self, reason};
use crate::progress::Whole;
use crate::report::{Console, complain};
use crate::shared::{Read, Shared};
use crate::signals;
use crate::work::{Executors, RunOptions, Work};

pub(super) const TOOL: Tool = Tool {
    name: "bzip2",
    programs: &["bzip2", "bunzip2", "bzcat"],
    about: "compress and decompress files, in the format of bzip2; also as bunzip2 and bzcat",
    flags: || Line::command(),
    main,
};

/// Minimum width of names in `--verbose` output: that of standard input. Longer names push the
/// figures to the right.
const LONGEST_NAME_MIN: usize = 7;

/// Compress files by sorting their blocks, or decompress them: files take the places of others,
/// with .bz2 added to their names or taken away. Without files, or with -c, what comes is written
/// to standard output.
#[derive(Parser, Debug)]
#[command(
    name = "haul bzip2",
    version,
    args_override_self = true,
    after_help = "Called as bunzip2 it decompresses, called as bzcat it decompresses to standard output. Flags may also stand in the \
        environment variables BZIP2 and BZIP.\n\n\
        The blocks of a file are compressed, or decompressed, by all workers at once, whatever program has made it; the result is what \
        bzip2 itself could have written. Files of several blocks are worked on one or two at a time, others all at once.\n\n\
        Exit status: 0 if all was done, 1 if something was not (no such file, output exists, ...), 2 if compressed data is \
        wrong, 3 is not used."
)]
struct Line {
    /// Decompress
    #[arg(short = 'd', long, overrides_with_all = ["compress", "test"])]
    decompress: bool,
    /// Compress, also if called as bunzip2 or bzcat
    #[arg(short = 'z', long, overrides_with_all = ["decompress", "test"])]
    compress: bool,
    /// Find out whether files can be decompressed, and write nothing
    #[arg(short = 't', long, overrides_with_all = ["decompress", "compress"])]
    test: bool,
    /// Write to standard output, and keep the inputs
    #[arg(short = 'c', long)]
    stdout: bool,
    /// Replace outputs that exist; do what links lead to, and files with several names; pass on
    /// what is not compressed with -d
    #[arg(short = 'f', long)]
    force: bool,
    /// Keep the inputs
    #[arg(short = 'k', long)]
    keep: bool,
    /// Do all files in directories that are named, and below them: those that have the suffix, or
    /// have it not
    #[arg(short = 'r', long)]
    recursive: bool,
    /// Use blocks of at most 200,000 bytes, which takes less memory
    #[arg(short = 's', long)]
    small: bool,
    /// Tell only of errors that matter
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Tell what became of each file
    #[arg(short = 'v', long, action = ArgAction::Count)]
    verbose: u8,
    /// As bzip2 did until version 0.9.5
    #[arg(long, hide = true)]
    repetitive_fast: bool,
    /// As bzip2 did until version 0.9.5
    #[arg(long, hide = true)]
    repetitive_best: bool,
    /// Show the version
    #[arg(short = 'L', long, action = ArgAction::Version)]
    license: Option<bool>,
    #[command(flatten)]
    level: Level,
    #[command(flatten)]
    shared: Shared,
    /// Files to be done
    #[arg(value_name = "FILE")]
    files: Vec<OsString>,
}

/// Block size, from flags of which the last one counts.
#[derive(Debug)]
struct Level(u8);

/// The flags, in order.
const LEVELS: [&str; 9] = ["1", "2", "3", "4", "5", "6", "7", "8", "9"];

impl Args for Level {
    fn augment_args(command: Command) -> Command {
        let flags = LEVELS.into_iter().map(|level| {
            let default = if level == "9" { " (default)" } else { "" };
            let flag = Arg::new(level)
                .help(format!("Use blocks of {level}00,000 bytes{default}"))
                .short(level.chars().next())
                .action(ArgAction::SetTrue)
                .overrides_with_all(LEVELS);
            match level {
                "1" => flag.long("fast"),
                "9" => flag.long("best"),
                _ => flag,
            }
        });
        command.args(flags)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Level {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = (1..).zip(LEVELS).find(|(_, level)| matches.get_flag(level));
        Ok(Self(given.map_or(9, |(level, _)| level)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Line {
    /// Lowers the flags, for a program called `name`.
    fn options(&self, name: &str) -> Options {
        let level = if self.small { self.level.0.min(2) } else { self.level.0 };
        let decompresses = name != "bzip2" && !self.compress;
        let action = match () {
            () if self.test => Action::Test,
            () if self.decompress || decompresses => Action::Decompress,
            () => Action::Compress { level },
        };
        Options {
            action,
            to_output: self.stdout || name == "bzcat",
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
        match () {
            () if self.test && self.stdout => Some("-c and -t cannot be used together."),
            () if one_output && self.recursive => Some("-c and -r cannot be used together."),
            () if one_output && self.shared.clients.is_some() => {
                Some("--clients cannot be used with -c: several hosts cannot write to one standard output.")
            }
            () if self.files.is_empty() && self.shared.clients.is_some() => {
                Some("--clients needs files: several hosts cannot read one standard input.")
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

/// A bzip2 run as [`Work`].
struct Files {
    options: Options,
    files: Vec<CString>,
    place: Option<OsString>,
}

impl Work for Files {
    fn done_by(&self, executor: &impl Executors, config: &Config, console: &Console) -> u8 {
        let making = Making::default();
        let makes_files =
            !self.options.to_output && self.options.action != Action::Test && !self.files.is_empty();
        // If no file is being made, a signal does what it does to any program.
        let ear = makes_files.then(|| {
            let making = making.clone();
            signals::before_end(move || making.abandon())
        });
        if let Some(Err(why)) = &ear {
            console
                .remark(&format!("an incomplete output file will remain if haul is killed: {}", reason(why)));
        }
        let status = haul_bzip2::run(executor, &self.files, &self.options, config, &making, console);
        drop(ear);
        status
    }

    fn place(&self) -> Option<&Path> {
        self.place.as_ref().map(Path::new)
    }

    fn count_ahead(&self, _over: &AtomicBool) -> Option<Whole> {
        None
    }
}

fn main(call: &Call<'_>) -> ExitCode {
    let words = [flags_of_environment().as_slice(), call.words].concat();
    let mut line: Line = match call.read_words(&words, TROUBLE) {
        Read::Asked(line) => line,
        Read::Over(status) => return status,
    };
    // To bzip2 these are flags without a letter.
    line.files.retain(|file| file != "-");
    let redundant = [("fast", line.repetitive_fast), ("best", line.repetitive_best)];
    for (which, _) in redundant.into_iter().filter(|(_, given)| *given) {
        let remark = format!("--repetitive-{which} is redundant in versions 0.9.5 and above");
        complain(&call.messages().debug(&remark));
    }
    let options = line.options(call.name);
    if let Some(doubt) = line.doubt(&options) {
        complain(&call.messages().wrong_usage(doubt));
        return ExitCode::from(TROUBLE);
    }
    let place = line.files.first().cloned();
    let named = line.files.into_iter().map(|file| CString::new(file.into_vec()));
    let Ok(files) = named.collect() else {
        complain(&call.messages().wrong_usage("a name contains a NUL byte"));
        return ExitCode::from(TROUBLE);
    };
    let messages = call.messages().saying(messages::bzip2::of_flow);
    call.carry_out(messages, &RunOptions::from(&line.shared), &Files { options, files, place })
}
