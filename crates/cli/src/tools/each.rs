//! `haul each`: runs a command for every matching file.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use haul_each::{EachOutcome, Halt, Kinds, Options, Running, Size};
use haul_flow::{Config, Reporter};
use haul_sys::{reason, stat_path};

use super::{AppletCall, CliTool};
use crate::flags::Action::{AnyValue, Plain, Required};
use crate::flags::values::{Bounds, Words};
use crate::flags::{AppletCommand, Arguments, FlagError, FlagSpec, SharedArguments, Sharing, Value};
use crate::messages::{self, Charset};
use crate::option_files::is_descriptor_path;
use crate::report::Console;
use crate::signals;
use crate::task::{CliTask, Executors};

pub(super) const TOOL: CliTool = CliTool {
    name: "each",
    programs: &[],
    about: "run a command for every file that matches, many at once",
    document: || COMMAND.document(),
    main,
};

/// Exit status if any command failed.
const SOME_FAILED: u8 = 1;
/// Exit status if anything else went wrong.
const TROUBLE: u8 = 2;

static COMMAND: AppletCommand<EachArguments> = AppletCommand {
    usage: &["[OPTION]... ROOT... -- COMMAND [WORD]..."],
    about: "\
Run a command for every matching file below the roots, many at once.

In the words of the command, {} is replaced by the file's path, {.} by the path without its extension, {/} by its last \
component, {//} by its directory, and {/.} by the last component without extension. If there is no placeholder, the path is \
appended. The output of a command is passed on as a whole, when it has ended.",
    sections: &[("", FLAGS)],
    sharing: Sharing::All,
    notes: "\
Exit status is 0 if every command exited with 0, 1 if some did not (they are listed at the end), 2 if trouble.

Examples:
  haul each --name '*.png' photos -- optipng -quiet {}
  haul each --shell logs -- 'gzip -t {} || echo {} is broken'
  haul each --block 16M access.log -- grep -c ' 500 '
  haul each --clients 64 --name '*.dat' /scratch/run -- ./analyse {} {.}.result",
};

const KINDS: &Words<Kinds> = &[("f", Kinds::FILES), ("d", Kinds::DIRECTORIES), ("l", Kinds::LINKS)];
const HALTS: &Words<Halt> = &[("soon", Halt::Soon), ("now", Halt::Now)];
const BATCH: Bounds = Bounds { least: 1, most: u32::MAX as usize, text: "1 to 4294967295" };
const BYTES: Bounds = Bounds { least: 0, most: i64::MAX as usize, text: "0 to 8E" };

static FLAGS: &[FlagSpec<EachArguments>] = &[
    FlagSpec::gnu(
        "--name",
        AnyValue("PATTERN", |line, value| line.names.push(value.text())),
        "match only names that match PATTERN; if repeated, any of them",
    ),
    FlagSpec::gnu(
        "--type",
        Required("LIST", |line, value| {
            let kinds = value.choose_each(KINDS)?.into_iter().collect();
            line.kinds = Some(line.kinds.unwrap_or(Kinds::empty()) | kinds);
            Ok(())
        }),
        "match only entries of these types, separated by commas: f (files; the default), d (directories), l (symbolic \
         links)",
    ),
    FlagSpec::gnu(
        "--size",
        Required("[+-]N", |line, value| size(value).map(|size| line.size = Some(size))),
        "match only files of more than N bytes (+N), fewer (-N), or exactly N; N may have a unit: K, M, G",
    ),
    FlagSpec::gnu(
        "--newer",
        AnyValue("FILE", |line, value| {
            line.shared.run.needs_descriptors |= is_descriptor_path(value.bytes);
            line.newer = Some(value.os());
        }),
        "match only entries modified more recently than FILE",
    ),
    FlagSpec::gnu("-L --dereference", Plain(|line| line.dereference = true), "follow symbolic links"),
    FlagSpec::gnu(
        "--shell",
        Plain(|line| line.shell = true),
        "run the words as an sh script, in which each path is one word, quoted or not",
    ),
    FlagSpec::gnu(
        "--batch",
        Required("N", |line, value| value.count(BATCH).map(|batch| line.batch = Some(batch))),
        "run one command for up to N files; a word with a placeholder is repeated for each, and in a script a \
         placeholder stands for all",
    ),
    FlagSpec::gnu(
        "--block",
        Required("SIZE", |line, value| value.size(BYTES).map(|bytes| line.block = Some(bytes as u64))),
        "split each file into blocks of about SIZE at line ends, feed each to a command, and join the outputs",
    ),
    FlagSpec::gnu(
        "--sort",
        Required("ORDER", |line, value| value.choose(&[("path", true)]).map(|sorted| line.sorted = sorted)),
        "print the outputs in this order: path, which is the same in every run; by default, in the order in which commands \
         end",
    ),
    FlagSpec::gnu(
        "--halt",
        Required("WHEN", |line, value| value.choose(HALTS).map(|halt| line.halt = Some(halt))),
        "when a command fails: soon (start no more) or now (also end those that are running)",
    ),
    FlagSpec::gnu(
        "--dry-run",
        Plain(|line| line.dry_run = true),
        "print the commands instead of running them",
    ),
    FlagSpec::help("-h --help"),
    FlagSpec::version("--version"),
];

#[derive(Debug, Default)]
struct EachArguments {
    shared: SharedArguments,
    roots: Vec<OsString>,
    command: Vec<OsString>,
    names: Vec<String>,
    kinds: Option<Kinds>,
    size: Option<Size>,
    newer: Option<OsString>,
    dereference: bool,
    shell: bool,
    batch: Option<usize>,
    block: Option<u64>,
    sorted: bool,
    halt: Option<Halt>,
    dry_run: bool,
}

impl Arguments for EachArguments {
    fn shared(&mut self) -> &mut SharedArguments {
        &mut self.shared
    }

    fn operand(&mut self, word: &OsStr) {
        self.roots.push(word.to_owned());
    }

    fn rest(&mut self, words: &[OsString]) {
        self.command = words.to_vec();
    }
}

/// Parses a comparison with a number of bytes.
fn size(value: Value<'_>) -> Result<Size, FlagError> {
    let (compare, bytes): (fn(u64) -> Size, _) = match value.bytes {
        [b'+', bytes @ ..] => (Size::Above, bytes),
        [b'-', bytes @ ..] => (Size::Below, bytes),
        bytes => (Size::Exactly, bytes),
    };
    Value { bytes, ..value }.size(BYTES).map(|bytes| compare(bytes as u64))
}

impl EachArguments {
    fn lower(self) -> Result<EachTask, FlagError> {
        if self.roots.is_empty() {
            return Err(FlagError::Missing { operand: "ROOT" });
        }
        if self.command.is_empty() {
            return Err(FlagError::Missing { operand: "COMMAND" });
        }
        if self.batch.is_some() && self.block.is_some() {
            return Err(FlagError::Exclusive { flag: "--batch", other: "--block" });
        }
        // A block is part of a file's content.
        if self.block.is_some() && self.kinds.is_some_and(|kinds| kinds != Kinds::FILES) {
            return Err(FlagError::Exclusive { flag: "--block", other: "--type" });
        }
        // The workers race for files, so the files that share a command aren't deterministic.
        if self.batch.is_some_and(|batch| batch > 1) && self.sorted {
            return Err(FlagError::Exclusive { flag: "--batch", other: "--sort" });
        }
        let newer = self.newer.map(|name| {
            let path = c_string(name.clone())?;
            let looked = stat_path::<&haul_sys::Fd>(None, &path, true);
            let failed = |cause| FlagError::Sentence(format!("cannot stat {name:?}: {cause}"));
            looked.map(|stat| stat.modified).map_err(failed)
        });
        let options = Options {
            command: self.command.into_iter().map(OsString::into_vec).collect(),
            shell: self.shell,
            names: self.names,
            utf8: Charset::of_process() == Charset::Utf8,
            kinds: self.kinds.unwrap_or(Kinds::FILES),
            size: self.size,
            newer: newer.transpose()?,
            dereference: self.dereference,
            halt: self.halt.unwrap_or(Halt::Never),
            sorted: self.sorted,
            dry_run: self.dry_run,
            block_bytes: self.block,
            batch: self.batch.unwrap_or(1),
        };
        Ok(EachTask { roots: self.roots.into_iter().map(c_string).collect::<Result<_, _>>()?, options })
    }
}

fn c_string(name: OsString) -> Result<CString, FlagError> {
    CString::new(name.into_vec()).map_err(|_| FlagError::NulInName)
}

fn main(call: &AppletCall<'_>) -> ExitCode {
    let line = match call.read(&COMMAND, call.words, TROUBLE) {
        Ok(line) => line,
        Err(status) => return status,
    };
    let run_options = line.shared.run.clone();
    match line.lower() {
        Ok(work) => {
            call.run_anywhere(call.messages().with_sentences(messages::flow::in_each), &run_options, &work)
        }
        Err(error) => call.refuse(&error, TROUBLE),
    }
}

struct EachTask {
    roots: Vec<CString>,
    options: Options,
}

impl CliTask for EachTask {
    fn run(&self, executor: &impl Executors, config: &Config, console: &Console) -> u8 {
        let running = Arc::new(Running::default());
        let to_end = Arc::clone(&running);
        let guard = signals::before_end(move || to_end.abandon());
        if let Err(why) = &guard {
            console.remark(&format!("running commands will survive if haul is killed: {}", reason(why)));
        }
        let outcome = haul_each::run_by(executor, &self.roots, &self.options, config, &running, console);
        drop(guard);
        match outcome {
            Ok(EachOutcome::Success) => 0,
            Ok(EachOutcome::SomeFailed) => SOME_FAILED,
            Ok(EachOutcome::Trouble) => TROUBLE,
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
        self.roots.iter().map(CString::as_c_str).collect()
    }

    fn shared_path(&self) -> Option<&Path> {
        self.roots.first().map(|root| Path::new(OsStr::from_bytes(root.to_bytes())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<EachArguments, FlagError> {
        let mut line = EachArguments::default();
        let words: Vec<_> = words.iter().map(OsString::from).collect();
        COMMAND.parse(&mut line, &words, false).map(|_| line)
    }

    #[test]
    fn amounts_are_understood_and_nothing_else_is() {
        let size = |text: &str| size(Value { flag: "--size", bytes: text.as_bytes(), word: 0 });
        assert_eq!(size("+1M"), Ok(Size::Above(1 << 20)));
        assert_eq!(size("-7"), Ok(Size::Below(7)));
        assert_eq!(size("0"), Ok(Size::Exactly(0)));
        for wrong in ["", "K", "+-1", "1t", "0x10", "99999999999G", "1 M"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_command_begins_behind_two_dashes() {
        let line = read(&["-j2", "a", "b", "--", "wc", "-l", "--", "{}"]).unwrap();
        assert_eq!(line.roots, ["a", "b"]);
        assert_eq!(line.command, ["wc", "-l", "--", "{}"]);
        assert_eq!(line.lower().unwrap().options.kinds, Kinds::FILES);
        assert!(read(&["a"]).unwrap().lower().is_err());
    }

    #[test]
    fn of_flags_that_are_repeated_the_last_counts_or_all_do() {
        let words = ["-LL", "--batch=2", "--batch=3", "--name=x", "--name=y", "-j1", "-j2"];
        let line = read(&[&words[..], &["--type=f", "--type=d", "a", "--", "b"]].concat()).unwrap();
        assert_eq!((line.batch, line.names.len()), (Some(3), 2));
        assert_eq!(line.lower().unwrap().options.kinds, Kinds::FILES | Kinds::DIRECTORIES);
    }
}
