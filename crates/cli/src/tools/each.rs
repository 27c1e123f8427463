//! `haul each`: runs a command for every matching file.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory, Parser};
use haul_each::{Halt, Kinds, Options, Outcome, Running, Size};
use haul_flow::{Config, Report};
use haul_sys::stat_path;

use super::{Call, Tool};
use crate::messages::{self, reason};
use crate::report::{Console, complain};
use crate::shared::{Read, Shared};
use crate::signals;
use crate::work::{Executors, RunOptions, Work};

pub(super) const TOOL: Tool = Tool {
    name: "each",
    programs: &[],
    about: "run a command for every file that matches, many at once",
    flags: Line::command,
    main,
};

/// Exit status if any command failed.
const SOME_FAILED: u8 = 1;
/// Exit status if anything else went wrong.
const TROUBLE: u8 = 2;

/// Run a command for every file below the roots that matches, many at once.
///
/// In the words of the command, {} stands for the file's path, {.} for that without its extension,
/// {/} for its last component, {//} for its directory, and {/.} for the last component without
/// extension. Without any of them the path is the last word. What a command writes is passed on
/// when it has ended, whole.
#[derive(Debug, Parser)]
#[command(
    name = "haul each",
    args_override_self = true,
    disable_version_flag = true,
    version,
    override_usage = "haul each [OPTION]... ROOT... -- COMMAND [WORD]...",
    after_help = "\
Exit status is 0 if every command ended with 0, 1 if some did not (they are listed at the end), 2 if anything else went wrong.

Examples:
  haul each --name '*.png' photos -- optipng -quiet {}
  haul each --shell logs -- 'gzip -t {} || echo {} is broken'
  haul each --block 16M access.log -- grep -c ' 500 '
  haul each --clients 64 --name '*.dat' /scratch/run -- ./analyse {} {.}.result"
)]
struct Line {
    /// Where to look for files; or files
    #[arg(value_name = "ROOT", required = true)]
    roots: Vec<OsString>,
    /// The command and its words
    #[arg(value_name = "COMMAND", required = true, last = true)]
    command: Vec<OsString>,
    /// Only files with a name that matches PATTERN, or another one given so
    #[arg(long, value_name = "PATTERN")]
    name: Vec<String>,
    /// Leave out what has a name that matches PATTERN, and all below it
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Only entries of these types: files, directories, symbolic links
    #[arg(long = "type", value_name = "LIST", value_delimiter = ',', value_parser = ["f", "d", "l"], default_value = "f")]
    kinds: Vec<String>,
    /// Only files of more bytes than N with +N, of fewer with -N, else of N bytes; N may end in K,
    /// M, G
    #[arg(long, value_name = "[+-]N", value_parser = size, allow_hyphen_values = true)]
    size: Option<Size>,
    /// Only what was modified after FILE was
    #[arg(long, value_name = "FILE")]
    newer: Option<OsString>,
    /// Follow symbolic links
    #[arg(short = 'L', long)]
    dereference: bool,
    /// Have sh run the words as one script, in which paths are quoted
    #[arg(long)]
    shell: bool,
    /// Run one command for up to N files; a word with a place for the path is there for each, in a
    /// script a place is for all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), default_value_t = 1,
        hide_default_value = true, conflicts_with = "block")]
    batch: u32,
    /// Feed each file in blocks of about SIZE, cut at ends of lines, to a command each, and join
    /// what they write
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    block: Option<u64>,
    /// Pass on what the commands write in the order of the paths, the same in every run and over
    /// ranks, rather than as they end
    #[arg(long, value_name = "ORDER", value_parser = ["path"], require_equals = true)]
    sort: Option<String>,
    /// When a command fails, begin no more; or end those that run as well
    #[arg(long, value_name = "WHEN", value_parser = ["soon", "now"], require_equals = true)]
    halt: Option<String>,
    /// Show the commands instead of running them
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    shared: Shared,
    /// Print the version
    #[arg(long, action = clap::ArgAction::Version)]
    version: Option<bool>,
}

/// Parses a number of bytes.
fn bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'M')) => (&text[..at], 20),
        Some((at, 'G')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let number = digits.parse::<u64>().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let bytes =
        number.and_then(|number| number.checked_mul(1 << shift)).filter(|bytes| *bytes <= i64::MAX as u64);
    bytes.ok_or_else(|| "must be a number of bytes, like 4096, 16K or 1M".to_owned())
}

fn size(text: &str) -> Result<Size, String> {
    match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(rest), _) => bytes(rest).map(Size::Above),
        (_, Some(rest)) => bytes(rest).map(Size::Below),
        _ => bytes(text).map(Size::Exactly),
    }
}

impl Line {
    /// Lowers the parsed flags.
    ///
    /// # Errors
    /// The error for an invalid value.
    fn options(&self) -> Result<Options, String> {
        let newer = self.newer.as_ref().map(|name| {
            let path = c_string(name)?;
            let looked = stat_path::<&haul_sys::Fd>(None, &path, true);
            looked.map(|stat| stat.modified).map_err(|cause| format!("cannot stat {name:?}: {cause}"))
        });
        let kind = |letter: &String| match letter.as_str() {
            "d" => Kinds::DIRECTORIES,
            "l" => Kinds::LINKS,
            _ => Kinds::FILES,
        };
        Ok(Options {
            command: self.command.iter().map(|word| word.as_bytes().to_vec()).collect(),
            shell: self.shell,
            names: self.name.clone(),
            exclude: self.exclude.clone(),
            kinds: self.kinds.iter().map(kind).collect(),
            size: self.size,
            newer: newer.transpose()?,
            dereference: self.dereference,
            halt: match self.halt.as_deref() {
                Some("soon") => Halt::Soon,
                Some(_) => Halt::Now,
                None => Halt::Never,
            },
            sorted: self.sort.is_some(),
            dry_run: self.dry_run,
            block_bytes: self.block,
            batch: self.batch as usize,
        })
    }
}

fn c_string(name: &OsStr) -> Result<CString, String> {
    CString::new(name.to_owned().into_vec()).map_err(|_| "a name contains a NUL byte".to_owned())
}

fn main(call: &Call<'_>) -> ExitCode {
    let line = match call.read::<Line>(TROUBLE) {
        Read::Asked(line) => line,
        Read::Over(status) => return status,
    };
    let messages = call.messages().saying(messages::each::of_flow);
    let roots: Result<Vec<_>, _> = line.roots.iter().map(|root| c_string(root)).collect();
    match roots.and_then(|roots| Ok(Commands { roots, options: line.options()? })) {
        Ok(work) => call.carry_out(messages, &RunOptions::from(&line.shared), &work),
        Err(why) => {
            complain(&messages.wrong_usage(&why));
            ExitCode::from(TROUBLE)
        }
    }
}

/// Running commands as [`Work`].
struct Commands {
    roots: Vec<CString>,
    options: Options,
}

impl Work for Commands {
    fn done_by(&self, executor: &impl Executors, config: &Config, console: &Console) -> u8 {
        let running = Arc::new(Running::default());
        let to_end = Arc::clone(&running);
        let ear = signals::before_end(move || to_end.abandon());
        if let Err(why) = &ear {
            console
                .remark(&format!("commands that are running will go on if haul is killed: {}", reason(why)));
        }
        let outcome = haul_each::run_by(executor, &self.roots, &self.options, config, &running, console);
        drop(ear);
        match outcome {
            Ok(Outcome::Success) => 0,
            Ok(Outcome::SomeFailed) => SOME_FAILED,
            Ok(Outcome::Trouble) => TROUBLE,
            Err(problem) => {
                console.problem(problem);
                TROUBLE
            }
        }
    }

    fn exit_status(&self, status: u8, trouble: bool) -> u8 {
        if trouble { TROUBLE } else { status }
    }

    fn place(&self) -> Option<&Path> {
        self.roots.first().map(|root| Path::new(OsStr::from_bytes(root.to_bytes())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_understood_and_nothing_else_is() {
        assert_eq!(bytes("16K"), Ok(16 << 10));
        assert_eq!(size("+1M"), Ok(Size::Above(1 << 20)));
        assert_eq!(size("-7"), Ok(Size::Below(7)));
        assert_eq!(size("0"), Ok(Size::Exactly(0)));
        for wrong in ["", "K", "+-1", "1T", "0x10", "99999999999G", "1 M"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_command_begins_behind_two_dashes() {
        let line =
            Line::try_parse_from(["haul each", "-j2", "a", "b", "--", "wc", "-l", "--", "{}"]).unwrap();
        assert_eq!(line.roots, ["a", "b"]);
        assert_eq!(line.command, ["wc", "-l", "--", "{}"]);
        assert_eq!(line.options().unwrap().kinds, Kinds::FILES);
        assert!(Line::try_parse_from(["haul each", "a"]).is_err());
    }

    #[test]
    fn of_flags_that_are_repeated_the_last_counts_or_all_do() {
        let words = ["haul each", "-LL", "--batch=2", "--batch=3", "--name=x", "--name=y", "-j1", "-j2"];
        let line =
            Line::try_parse_from(words.into_iter().chain(["--type=f", "--type=d", "a", "--", "b"])).unwrap();
        assert_eq!((line.batch, line.name.len()), (3, 2));
        assert_eq!(line.options().unwrap().kinds, Kinds::FILES | Kinds::DIRECTORIES);
    }
}
