//! Selects the applet, by the program's name or its first argument.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::flags;
use crate::tools::{self, CliTool, TOOLS};

/// Copy commands, which help lists before the other tools; those in `AROUND` come after.
const COPY: [(&str, &str); 3] = [
    ("cp", "copy files and directories; also when called as cp"),
    ("sync", "make a directory tree equal to another"),
    ("spdcp", "copy with many hosts, submitting a batch job if needed; also as spdcp"),
];
const AROUND: [(&str, &str); 2] = [
    ("bench", "create test trees and benchmark copy programs"),
    ("help", "show help for haul or for a command"),
];

/// The applet that a call selects.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Applet {
    /// A copy; messages begin with `program`.
    Copy {
        program: &'static str,
        words: Vec<OsString>,
    },
    /// A copy of the entries that differ.
    Sync {
        words: Vec<OsString>,
    },
    /// A copy with the options of `spdcp`.
    Spdcp {
        program: &'static str,
        words: Vec<OsString>,
    },
    Tool {
        tool: &'static CliTool,
        name: &'static str,
        /// True if called by that name alone, not as `haul NAME`.
        stands_in: bool,
        words: Vec<OsString>,
    },
    /// A rank, started by another process of the run.
    Rank {
        words: Vec<OsString>,
    },
    Bench {
        words: Vec<OsString>,
    },
    Help,
    Version,
    /// All commands as data.
    Definitions,
    /// No command: an error.
    Nothing,
    Unknown {
        word: OsString,
    },
}

impl Applet {
    /// Selects the applet from the program's name and arguments.
    pub(crate) fn of_call(call: impl IntoIterator<Item = OsString>) -> Self {
        let mut call = call.into_iter();
        let own_name = call.next().unwrap_or_default();
        match command_of(&own_name) {
            Some("cp") => return Self::Copy { program: "cp", words: call.collect() },
            Some("spdcp") => return Self::Spdcp { program: "spdcp", words: call.collect() },
            Some(name) => {
                if let Some((tool, name)) = tools::standing_in_for(name) {
                    return Self::Tool { tool, name, stands_in: true, words: call.collect() };
                }
            }
            None => {}
        }
        let Some(command) = call.next() else { return Self::Nothing };
        Self::of_command(command, call.collect())
    }

    fn of_command(command: OsString, mut words: Vec<OsString>) -> Self {
        match command.to_str() {
            Some("cp") => Self::Copy { program: "haul cp", words },
            Some("sync") => Self::Sync { words },
            Some("spdcp") => Self::Spdcp { program: "haul spdcp", words },
            Some("bench") => Self::Bench { words },
            Some("help") if words.is_empty() => Self::Help,
            Some("help") => {
                let command = words.remove(0);
                Self::of_command(command, vec![OsString::from("--help")])
            }
            Some("--help" | "-h") => Self::Help,
            Some("--version" | "-V") => Self::Version,
            Some("--rank") => Self::Rank { words },
            Some("--definitions") => Self::Definitions,
            name => match name.and_then(tools::named) {
                Some((tool, name)) => Self::Tool { tool, name, stands_in: false, words },
                None => Self::Unknown { word: command },
            },
        }
    }
}

/// Returns the command that the program's name stands for, if any.
pub(crate) fn command_of(name: &OsStr) -> Option<&'static str> {
    let called = Path::new(name).file_name()?;
    // A program called sync flushes file systems.
    let copies = COPY.into_iter().map(|(name, _)| name).filter(|name| *name != "sync");
    let programs = TOOLS.iter().flat_map(|tool| tool.programs.iter().copied());
    copies.chain(programs).find(|command| called == *command)
}

/// Returns the commands, each with its purpose.
pub(crate) fn commands() -> impl Iterator<Item = (&'static str, &'static str)> {
    let tools = TOOLS.iter().map(|tool| (tool.name, tool.about));
    COPY.into_iter().chain(tools).chain(AROUND)
}

pub(crate) fn help() -> String {
    let commands = commands().map(|(name, about)| format!("  {name:<8}{about}\n")).collect::<String>();
    format!(
        "Usage: haul COMMAND [ARGUMENT]...
  or:  haul --help | --version
Copies file trees as fast as the hardware allows.

Commands:
{commands}
See 'haul COMMAND --help' for more information on a command.
"
    )
}

/// Returns the error for an unknown command, with a suggestion if one is close.
pub(crate) fn unknown(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let quoted = word.escape_debug();
    let distances = commands().map(|(name, _)| (flags::edits(&word, name), name));
    // Of equally close commands, the first one in the help.
    let meant = match distances.min_by_key(|(distance, _)| *distance) {
        Some((1..=2, name)) => format!("Did you mean '{name}'?\n"),
        _ => String::new(),
    };
    format!("haul: unknown command '{quoted}'\n{meant}{}", pointer_to_help())
}

pub(crate) fn nothing() -> String {
    format!("haul: missing command\n{}", pointer_to_help())
}

fn pointer_to_help() -> &'static str {
    "Try 'haul --help' for more information.\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(call: &[&str]) -> Applet {
        Applet::of_call(call.iter().map(OsString::from))
    }

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn a_program_called_cp_is_cp() {
        let wanted = Applet::Copy { program: "cp", words: words(&["cp", "x"]) };
        assert_eq!(of(&["/some/where/cp", "cp", "x"]), wanted);
    }

    #[test]
    fn a_program_called_spdcp_is_spdcp() {
        let wanted = Applet::Spdcp { program: "spdcp", words: words(&["-s", "4"]) };
        assert_eq!(of(&["/some/where/spdcp", "-s", "4"]), wanted);
        let wanted = Applet::Spdcp { program: "haul spdcp", words: words(&["--help"]) };
        assert_eq!(of(&["haul", "spdcp", "--help"]), wanted);
        assert_eq!(of(&["haul", "help", "spdcp"]), wanted);
    }

    #[test]
    fn otherwise_the_first_word_is_the_command() {
        assert_eq!(of(&["haul", "cp", "-r"]), Applet::Copy { program: "haul cp", words: words(&["-r"]) });
        assert_eq!(of(&["haul", "bench"]), Applet::Bench { words: Vec::new() });
        assert_eq!(of(&["haul", "help", "bench"]), Applet::Bench { words: words(&["--help"]) });
        assert_eq!(of(&["haul", "help"]), Applet::Help);
        assert_eq!(of(&["haul", "--version"]), Applet::Version);
        assert_eq!(of(&["haul", "--definitions"]), Applet::Definitions);
        assert_eq!(of(&["haul"]), Applet::Nothing);
        assert_eq!(of(&[]), Applet::Nothing);
        assert_eq!(of(&["haul", "help", "co"]), Applet::Unknown { word: "co".into() });
    }

    #[test]
    fn a_slip_is_recognised() {
        assert!(unknown(OsStr::new("cpp")).contains("Did you mean 'cp'?"));
        assert!(unknown(OsStr::new("bnech")).contains("Did you mean 'bench'?"));
        assert!(!unknown(OsStr::new("rclone")).contains("Did you mean"));
        assert!(unknown(OsStr::new("a\nb")).starts_with("haul: unknown command 'a\\nb'\n"));
    }
}
