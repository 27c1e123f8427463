//! All commands as data, from which `cargo xtask gen` generates completions and manual pages.

use crate::applet;
use crate::flags::{self, Argument, Documented};
use crate::tools;

/// Serializes all commands as JSON.
///
/// # Errors
/// When serialization fails, which is a bug.
pub(crate) fn json() -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(&commands()).map(|text| text + "\n")
}

/// Describes all commands.
pub(crate) fn commands() -> Vec<Documented> {
    applet::commands().map(|(name, about)| describe(name, about)).collect()
}

fn describe(name: &str, about: &str) -> Documented {
    let tool = tools::named(name).map(|(tool, _)| tool);
    let documented = match (name, tool) {
        (_, Some(tool)) => (tool.document)(),
        ("cp", _) => flags::COMMAND.document(),
        ("sync", _) => flags::sync::COMMAND.document(),
        ("spdcp", _) => flags::spdcp::COMMAND.document(),
        ("help", _) => Documented { operands: vec![any_command()], ..Documented::default() },
        // Those of "bench" are in haul-bench --definitions.
        _ => Documented::default(),
    };
    let programs = match name {
        "cp" | "spdcp" => vec![name.to_owned()],
        _ => tool.map_or(&[][..], |tool| tool.programs).iter().map(|&name| name.to_owned()).collect(),
    };
    Documented { name: name.to_owned(), about: about.to_owned(), programs, ..documented }
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
