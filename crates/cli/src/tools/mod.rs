//! The tools other than the copy, and `ctl`, one file each: flags, lowering and messages.
//!
//! [`TOOLS`] is the only list of them: applets, help, completions and manual pages follow from it.

mod bzip2;
mod compare;
mod ctl;
mod each;
mod grep;
mod sum;
mod tar;

use std::ffi::OsString;
use std::process::ExitCode;

use haul_flow::Contents;

use crate::flags::{
    self, AppletCommand, Arguments, Documented, Environment, FlagError, Information, Sharing,
};
use crate::messages::Messages;
use crate::own_files;
use crate::report::{complain, complain_of_usage, print_information};
use crate::task::{CliTask, RunOptions};
use crate::work;

/// A tool as the command line knows it.
pub(crate) struct CliTool {
    /// Its name: `haul NAME`.
    pub(crate) name: &'static str,
    /// Programs it can stand in for; their names are also commands of haul.
    pub(crate) programs: &'static [&'static str],
    /// One-line description.
    pub(crate) about: &'static str,
    /// Describes its command line for generators.
    pub(crate) document: fn() -> Documented,
    pub(crate) main: fn(&AppletCall<'_>) -> ExitCode,
}

impl PartialEq for CliTool {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for CliTool {}

impl std::fmt::Debug for CliTool {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name)
    }
}

/// The tools, in help order.
pub(crate) const TOOLS: &[CliTool] =
    &[bzip2::TOOL, compare::TOOL, each::TOOL, grep::TOOL, sum::TOOL, tar::TOOL, ctl::TOOL];

pub(crate) struct AppletCall<'a> {
    pub(crate) tool: &'static CliTool,
    /// Name it was called by: the tool's, or that of a program it stands in for.
    pub(crate) name: &'static str,
    /// True if called by that name alone, not as `haul NAME`.
    pub(crate) stands_in: bool,
    pub(crate) words: &'a [OsString],
}

impl AppletCall<'_> {
    /// Returns the program's name in messages.
    pub(crate) fn program(&self) -> String {
        if self.stands_in { self.name.to_owned() } else { format!("haul {}", self.name) }
    }

    pub(crate) fn messages(&self) -> Messages {
        Messages::in_locale(&self.program())
    }

    /// Parses the arguments `words`. Otherwise, help was printed or an error reported, and the exit
    /// status is returned; that of an error is `trouble`.
    pub(crate) fn read<T: Arguments + Default>(
        &self,
        command: &AppletCommand<T>,
        words: &[OsString],
        trouble: u8,
    ) -> Result<T, ExitCode> {
        // A mistake in settings that don't concern a command must not stop it: what `ctl` controls
        // runs already.
        let has_defaults = !self.stands_in && command.sharing != Sharing::Nothing;
        let environment = match has_defaults {
            true => Environment::of_command(self.tool.name),
            false => Environment::of_stand_in(),
        };
        // bzip2 is no GNU program, and haul's own commands are the same everywhere.
        let posixly_correct = environment.posixly_correct && matches!(self.tool.name, "grep" | "tar");
        let mut line = T::default();
        let preset = command.preset(&mut line, &environment);
        let parsed = command.parse(&mut line, words, posixly_correct);
        let parsed = flags::after_preset(preset, parsed).and_then(|information| {
            if information.is_none() {
                line.shared().check_job("--clients", environment.is_rank)?;
                line.shared().read_list(Contents::All)?;
            }
            Ok(information)
        });
        match parsed {
            Ok(None) => Ok(line),
            Ok(Some(_)) if !self.prints_messages() => Err(ExitCode::SUCCESS),
            Ok(Some(Information::Help)) => {
                Err(print_information(self.messages(), &command.help(&self.program())))
            }
            Ok(Some(Information::Version)) => {
                let version = format!("{} (haul) {}\n", self.name, env!("CARGO_PKG_VERSION"));
                Err(print_information(self.messages(), &version))
            }
            Err(error) => Err(self.refuse(&error, trouble)),
        }
    }

    /// Reports a command-line error, and returns the exit status `trouble`.
    pub(crate) fn refuse(&self, error: &FlagError, trouble: u8) -> ExitCode {
        self.refuse_with(trouble, || complain_of_usage(&self.messages(), error))
    }

    /// Returns the exit status `trouble` after `report` has been called, in one of several ranks.
    pub(crate) fn refuse_with(&self, trouble: u8, report: impl FnOnce()) -> ExitCode {
        let status = ExitCode::from(trouble);
        if self.stands_in {
            report();
            return status;
        }
        crate::cluster::refuse(status, report)
    }

    /// True if this process reports command-line errors: of several ranks, only one does.
    pub(crate) fn prints_messages(&self) -> bool {
        self.stands_in || crate::cluster::prints_messages()
    }

    /// Runs work. A script under mpirun that calls a program by its own name means one run in
    /// each process.
    pub(crate) fn run_anywhere(
        &self,
        messages: Messages,
        run_options: &RunOptions,
        work: &impl CliTask,
    ) -> ExitCode {
        if let Err(why) = own_files::check(run_options, work) {
            return self.refuse_with(work.exit_status(0, true), || {
                complain(&messages.debug(&why));
            });
        }
        if self.stands_in && run_options.hosts.clients.is_none() {
            return work::run_in(messages, run_options, None, work);
        }
        work::run_anywhere(messages, run_options, work)
    }
}

/// Finds the tool with this name, or that of one of its programs.
pub(crate) fn named(name: &str) -> Option<(&'static CliTool, &'static str)> {
    let names = |tool: &'static CliTool| std::iter::once(tool.name).chain(tool.programs.iter().copied());
    TOOLS.iter().find_map(|tool| names(tool).find(|known| *known == name).map(|known| (tool, known)))
}

/// Finds the tool that can stand in for a program.
pub(crate) fn standing_in_for(program: &str) -> Option<(&'static CliTool, &'static str)> {
    named(program).filter(|(tool, name)| tool.programs.contains(name))
}
