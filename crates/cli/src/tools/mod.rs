//! The tools other than the copy, one file each: flags, lowering and messages.
//!
//! [`TOOLS`] is the only list of them: applets, help, completions and manual pages follow from it.

mod bzip2;
mod compare;
mod each;
mod grep;
mod tar;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Command, FromArgMatches};

use crate::messages::{Charset, Messages};
use crate::shared::{self, Read};
use crate::work::{self, RunOptions, Work};

/// A tool as the command line knows it.
pub(crate) struct Tool {
    /// Its name: `haul NAME`.
    pub(crate) name: &'static str,
    /// Programs it can stand in for; their names are also commands of haul.
    pub(crate) programs: &'static [&'static str],
    /// One-line description.
    pub(crate) about: &'static str,
    /// Its flags.
    pub(crate) flags: fn() -> Command,
    /// Runs a call.
    pub(crate) main: fn(&Call<'_>) -> ExitCode,
}

impl PartialEq for Tool {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Tool {}

impl std::fmt::Debug for Tool {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name)
    }
}

/// Width of help, in columns: as in the other commands' help, wherever it is printed.
const HELP_WIDTH: usize = 79;

/// The tools, in help order.
pub(crate) const TOOLS: &[Tool] = &[bzip2::TOOL, compare::TOOL, each::TOOL, grep::TOOL, tar::TOOL];

/// A call of a tool.
pub(crate) struct Call<'a> {
    /// The tool.
    pub(crate) tool: &'static Tool,
    /// Name it was called by: the tool's, or that of a program it stands in for.
    pub(crate) name: &'static str,
    /// True if called by that name alone, not as `haul NAME`.
    pub(crate) stands_in: bool,
    /// The arguments.
    pub(crate) words: &'a [OsString],
}

impl Call<'_> {
    /// Returns the program's name in messages.
    pub(crate) fn program(&self) -> String {
        if self.stands_in { self.name.to_owned() } else { format!("haul {}", self.name) }
    }

    pub(crate) fn messages(&self) -> Messages {
        Messages::new(&self.program(), Charset::of_process())
    }

    /// Parses the flags. Errors are reported, and exit with status `trouble`.
    pub(crate) fn read<A: FromArgMatches>(&self, trouble: u8) -> Read<A> {
        self.read_words(self.words, trouble)
    }

    /// Parses other arguments than the call's, for a tool with further ways to write them.
    pub(crate) fn read_words<A: FromArgMatches>(&self, words: &[OsString], trouble: u8) -> Read<A> {
        let command = (self.tool.flags)().bin_name(self.program()).term_width(HELP_WIDTH);
        let command = command.display_name(format!("{} (haul)", self.name));
        let is_rank = !self.stands_in && crate::cluster::is_under_launcher();
        shared::parse(command, &self.messages(), (words, is_rank), trouble)
    }

    /// Runs work. A script under mpirun that calls a program by its own name means one run in
    /// each process.
    pub(crate) fn carry_out(
        &self,
        messages: Messages,
        run_options: &RunOptions,
        work: &impl Work,
    ) -> ExitCode {
        if self.stands_in && run_options.hosts.clients.is_none() {
            return work::by(messages, run_options, None, work);
        }
        work::carry_out(messages, run_options, work)
    }
}

/// Finds the tool with this name, or that of one of its programs.
pub(crate) fn named(name: &str) -> Option<(&'static Tool, &'static str)> {
    let names = |tool: &'static Tool| std::iter::once(tool.name).chain(tool.programs.iter().copied());
    TOOLS.iter().find_map(|tool| names(tool).find(|known| *known == name).map(|known| (tool, known)))
}

/// Finds the tool that can stand in for a program.
pub(crate) fn in_place_of(program: &str) -> Option<(&'static Tool, &'static str)> {
    named(program).filter(|(tool, name)| tool.programs.contains(name))
}
