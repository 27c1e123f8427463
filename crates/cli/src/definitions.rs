//! All commands as data, from which `cargo xtask gen` generates completions and manual pages.

use serde::Serialize;

use crate::applet;
use crate::flags::{self, Argument, Definition};
use crate::shared::HOSTS;
use crate::tools;

/// A command and its arguments.
#[derive(Default, Serialize)]
struct Command {
    name: String,
    /// Programs it can stand in for.
    programs: Vec<String>,
    about: String,
    /// Longer description.
    description: String,
    /// Usage, one line per form.
    synopsis: Vec<String>,
    /// Help after the flags: paragraphs under headings that end in a colon.
    notes: String,
    flags: Vec<Definition>,
    operands: Vec<Argument>,
}

/// Serializes all commands as JSON.
///
/// # Errors
/// When serialization fails, which is a bug.
pub(crate) fn json() -> Result<String, serde_json::Error> {
    let commands = applet::commands().map(|(name, about)| match name {
        name if let Some((tool, _)) = tools::named(name) => {
            let programs = tool.programs.iter().copied().map(str::to_owned).collect();
            Command { about: about.to_owned(), programs, ..of_clap(&mut (tool.flags)(), name) }
        }
        _ => Command {
            name: name.to_owned(),
            about: about.to_owned(),
            flags: match name {
                "cp" => flags::definitions(),
                "spdcp" => flags::definitions_of_spdcp(),
                // Those of "bench" are in haul-bench --definitions.
                _ => Vec::new(),
            },
            programs: if matches!(name, "cp" | "spdcp") { vec![name.to_owned()] } else { Vec::new() },
            operands: if name == "help" { vec![any_command()] } else { Vec::new() },
            ..Command::default()
        },
    });
    serde_json::to_string_pretty(&commands.collect::<Vec<_>>()).map(|text| text + "\n")
}

/// Returns the argument of `haul help`.
fn any_command() -> Argument {
    let words = applet::commands().map(|(name, _)| name).filter(|name| *name != "help");
    Argument {
        name: "COMMAND".to_owned(),
        optional: true,
        words: words.map(str::to_owned).collect(),
        list: false,
    }
}

fn of_clap(command: &mut clap::Command, name: &str) -> Command {
    command.build();
    let synopsis = synopsis(command);
    let visible = || command.get_arguments().filter(|argument| !argument.is_hide_set());
    Command {
        name: name.to_owned(),
        programs: Vec::new(),
        about: command.get_about().map(ToString::to_string).unwrap_or_default(),
        description: command.get_long_about().map(ToString::to_string).unwrap_or_default(),
        synopsis,
        notes: command.get_after_help().map(ToString::to_string).unwrap_or_default(),
        flags: visible().filter(|argument| !argument.is_positional()).map(flag_of_clap).collect(),
        operands: visible()
            .filter(|argument| argument.is_positional())
            .filter_map(argument_of_clap)
            .collect(),
    }
}

/// Returns a command's usage forms, without the program's name.
fn synopsis(command: &mut clap::Command) -> Vec<String> {
    let usage = command.render_usage().to_string();
    let ways = usage.trim_start_matches("Usage:").lines().map(str::trim).filter(|line| !line.is_empty());
    ways.map(|way| way.split_once(' ').map_or("", |(_, behind)| behind).to_owned()).collect()
}

fn flag_of_clap(argument: &clap::Arg) -> Definition {
    let usual = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect::<Vec<_>>();
    let hidden =
        usual.is_empty() || argument.is_hide_default_value_set() || argument_of_clap(argument).is_none();
    let usual = if hidden { String::new() } else { format!(" [default: {}]", usual.join(",")) };
    Definition {
        letters: argument.get_short().into_iter().collect(),
        long: argument.get_long().unwrap_or_default().to_owned(),
        argument: argument_of_clap(argument),
        help: argument.get_help().map(ToString::to_string).unwrap_or_default() + &usual,
        gnu: false,
        cluster: argument.get_help_heading() == Some(HOSTS),
    }
}

fn argument_of_clap(argument: &clap::Arg) -> Option<Argument> {
    let takes = argument.get_action().takes_values();
    let name = argument.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    let words = argument.get_possible_values().iter().map(|word| word.get_name().to_owned()).collect();
    takes.then(|| Argument {
        name: name.unwrap_or_default(),
        optional: argument.get_num_args().is_some_and(|number| number.min_values() == 0)
            && !argument.is_positional(),
        words,
        list: argument.get_value_delimiter().is_some(),
    })
}
