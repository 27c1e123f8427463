//! The tools beside the copy, each in a file: its flags, what they come to, and its messages.
//!
//! [`TOOLS`] is the one list of them: personalities, help, completions, manual pages and what ranks can do follow from it.

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
    /// What it is called: `haul NAME`.
    pub(crate) name: &'static str,
    /// Names of programs in whose place it can stand; as commands of haul they are known as well.
    pub(crate) programs: &'static [&'static str],
    /// What it is for.
    pub(crate) about: &'static str,
    /// Its flags.
    pub(crate) flags: fn() -> Command,
    /// Does what a call asks for.
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

/// Columns of help, as in the other commands' help, wherever it goes.
const HELP_WIDTH: usize = 79;

/// The tools, in the order of haul's help.
pub(crate) const TOOLS: &[Tool] = &[bzip2::TOOL, compare::TOOL, each::TOOL, grep::TOOL, tar::TOOL];

/// A call of a tool.
pub(crate) struct Call<'a> {
    /// The tool.
    pub(crate) tool: &'static Tool,
    /// The name by which it was called: the tool's, or that of one of the programs in whose place it stands.
    pub(crate) name: &'static str,
    /// Whether it was called by that name alone, rather than as `haul NAME`.
    pub(crate) stands_in: bool,
    /// The words behind the name.
    pub(crate) words: &'a [OsString],
}

impl Call<'_> {
    /// Returns the program's name in messages.
    pub(crate) fn program(&self) -> String {
        if self.stands_in { self.name.to_owned() } else { format!("haul {}", self.name) }
    }

    /// Returns what words messages.
    pub(crate) fn messages(&self) -> Messages {
        Messages::new(&self.program(), Charset::of_process())
    }

    /// Reads the flags; what is wrong with them is told, and ends with the exit status `trouble`.
    pub(crate) fn read<A: FromArgMatches>(&self, trouble: u8) -> Read<A> {
        self.read_words(self.words, trouble)
    }

    /// Reads flags from other words than those of the call, for a tool that understands them in more ways.
    pub(crate) fn read_words<A: FromArgMatches>(&self, words: &[OsString], trouble: u8) -> Read<A> {
        let command = (self.tool.flags)().bin_name(self.program()).term_width(HELP_WIDTH);
        let command = command.display_name(format!("{} (haul)", self.name));
        let is_rank = !self.stands_in && crate::cluster::is_under_launcher();
        shared::parse(command, &self.messages(), (words, is_rank), trouble)
    }

    /// Does work. A script under mpirun that calls a program by its own name means that each of its processes does what it
    /// names.
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

/// Finds the tool that is called by a name, and the name.
pub(crate) fn named(name: &str) -> Option<(&'static Tool, &'static str)> {
    let names = |tool: &'static Tool| std::iter::once(tool.name).chain(tool.programs.iter().copied());
    TOOLS.iter().find_map(|tool| names(tool).find(|known| *known == name).map(|known| (tool, known)))
}

/// Finds the tool that stands in the place of a program.
pub(crate) fn in_place_of(program: &str) -> Option<(&'static Tool, &'static str)> {
    named(program).filter(|(tool, name)| tool.programs.contains(name))
}
