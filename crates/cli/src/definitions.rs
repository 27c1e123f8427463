//! All commands as data: what completions and manual pages are generated from, by `cargo xtask gen`.

use clap::CommandFactory;
use serde::Serialize;

use crate::bench::Bench;
use crate::flags::{self, Argument, Definition};
use crate::personality;

/// A command and what may stand behind it.
#[derive(Serialize)]
struct Command {
    name: String,
    about: String,
    flags: Vec<Definition>,
    operands: Vec<Argument>,
    commands: Vec<Command>,
}

/// Writes them as JSON.
///
/// # Errors
/// When they cannot be written as JSON, which is a mistake of the program.
pub(crate) fn json() -> Result<String, serde_json::Error> {
    let commands = personality::commands().map(|(name, about)| match name {
        "bench" => Command { about: about.to_owned(), ..of_clap(&mut Bench::command(), name) },
        _ => Command {
            name: name.to_owned(),
            about: about.to_owned(),
            flags: match name {
                "cp" => flags::definitions(),
                "spdcp" => flags::definitions_of_spdcp(),
                _ => Vec::new(),
            },
            operands: if name == "help" { vec![any_command()] } else { Vec::new() },
            commands: Vec::new(),
        },
    });
    serde_json::to_string_pretty(&commands.collect::<Vec<_>>()).map(|text| text + "\n")
}

/// Says what `haul help` may be asked about.
fn any_command() -> Argument {
    let words = personality::commands().map(|(name, _)| name).filter(|name| *name != "help");
    Argument {
        name: "COMMAND".to_owned(),
        optional: true,
        words: words.map(str::to_owned).collect(),
        list: false,
    }
}

fn of_clap(command: &mut clap::Command, name: &str) -> Command {
    command.build();
    let visible = || command.get_arguments().filter(|argument| !argument.is_hide_set());
    Command {
        name: name.to_owned(),
        about: command.get_about().map(ToString::to_string).unwrap_or_default(),
        flags: visible().filter(|argument| !argument.is_positional()).map(flag_of_clap).collect(),
        operands: visible()
            .filter(|argument| argument.is_positional())
            .filter_map(argument_of_clap)
            .collect(),
        commands: command
            .get_subcommands()
            .filter(|below| below.get_name() != "help")
            .map(|below| of_clap(&mut below.clone(), below.get_name()))
            .collect(),
    }
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
        cluster: false,
    }
}

fn argument_of_clap(argument: &clap::Arg) -> Option<Argument> {
    let takes = argument.get_action().takes_values();
    let name = argument.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    let words = argument.get_possible_values().iter().map(|word| word.get_name().to_owned()).collect();
    takes.then(|| Argument {
        name: name.unwrap_or_default(),
        optional: false,
        words,
        list: argument.get_value_delimiter().is_some(),
    })
}
