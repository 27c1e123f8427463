//! The command line as data, in the form of `haul --definitions`: `cargo xtask gen` makes
//! completions and the manual page of it.

use clap::builder::StyledStr;
use clap::{Arg, Command};
use serde_json::{Value, json};

pub(crate) fn of(command: &Command) -> Value {
    let (operands, flags): (Vec<&Arg>, Vec<&Arg>) =
        command.get_arguments().filter(|argument| !argument.is_hide_set()).partition(|it| it.is_positional());
    json!({
        "name": command.get_name(),
        "about": text(command.get_about()),
        "flags": flags.into_iter().map(flag).collect::<Vec<_>>(),
        "operands": operands.into_iter().map(argument).collect::<Vec<_>>(),
        "commands": command.get_subcommands().map(of).collect::<Vec<_>>(),
    })
}

fn flag(flag: &Arg) -> Value {
    let takes_value = flag.get_action().takes_values();
    let shows_default = takes_value && !flag.is_hide_default_value_set();
    let defaults: Vec<_> = flag.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let mut help = text(flag.get_help());
    if shows_default && !defaults.is_empty() {
        help += &format!(" [default: {}]", defaults.join(","));
    }
    json!({
        "letters": flag.get_short().into_iter().collect::<Vec<_>>(),
        "long": flag.get_long().unwrap_or_default(),
        "argument": takes_value.then(|| argument(flag)),
        "help": help,
        "gnu": false,
        "cluster": false,
    })
}

fn argument(argument: &Arg) -> Value {
    let values = argument.get_possible_values();
    json!({
        "name": argument.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str()),
        "optional": argument.get_num_args().is_some_and(|number| number.min_values() == 0)
            && !argument.is_positional(),
        "words": values.iter().map(|value| value.get_name()).collect::<Vec<_>>(),
        "list": argument.get_value_delimiter().is_some(),
    })
}

fn text(help: Option<&StyledStr>) -> String {
    help.map(ToString::to_string).unwrap_or_default()
}
