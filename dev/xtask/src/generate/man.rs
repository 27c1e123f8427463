//! Manual pages: the prose in `templates/`, combined with generated options.

use super::definitions::{Argument, CommandDefinition, FlagDefinition};
use super::inserted;

/// Date of the last substantial change to the pages.
const DATE: &str = "2026-11-22";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Generates the page for `haul`.
pub(super) fn haul(commands: &[CommandDefinition]) -> String {
    let described = commands
        .iter()
        .map(|command| format!(".TP\n.B {}\n{}.\n", escaped(&command.name), sentence(&command.about)))
        .collect();
    let head = head("haul", "copy file trees, many files at once");
    page(include_str!("templates/haul.1.in"), [("head", head), ("commands", described)])
}

pub(super) fn cp(commands: &[CommandDefinition]) -> String {
    let flags = || commands.iter().filter(|command| command.name == "cp").flat_map(|command| &command.flags);
    let parts = [("head", head("haul-cp", "copy files and directories, many at once"))];
    page(include_str!("templates/haul-cp.1.in"), parts.into_iter().chain(options(flags)))
}

pub(super) fn spdcp(commands: &[CommandDefinition]) -> String {
    let flags = commands.iter().filter(|command| command.name == "spdcp").flat_map(|command| &command.flags);
    let head = head("spdcp", "copy files and directories with many hosts");
    page(include_str!("templates/spdcp.1.in"), [("head", head), ("options", flags.map(option).collect())])
}

/// Generates the page for `haul bench`.
pub(super) fn bench(commands: &[CommandDefinition]) -> String {
    let below =
        || commands.iter().filter(|command| command.name == "bench").flat_map(|command| &command.commands);
    let described = |command: &CommandDefinition| {
        let operands = command.operands.iter().filter(|operand| !operand.words.is_empty()).map(operand);
        let entries: String = operands.chain(command.flags.iter().map(option)).collect();
        format!(".SS haul bench {}\n{}.\n{entries}", escaped(&command.name), sentence(&command.about))
    };
    let parts = [
        ("head", head("haul-bench", "create test trees and benchmark copy programs")),
        ("synopsis", below().map(bench_synopsis).collect()),
        ("commands", below().map(described).collect()),
    ];
    page(include_str!("templates/haul-bench.1.in"), parts)
}

/// Generates a tool's page entirely from its definition.
pub(super) fn tool(command: &CommandDefinition) -> String {
    let name = escaped(&command.name);
    let synopsis = command.synopsis.iter().map(|way| format!(".SY haul\\~{name}\n{}\n.YS\n", escaped(way)));
    let parts = [
        ("head", head(&format!("haul-{}", command.name), &command.about)),
        ("synopsis", synopsis.collect()),
        ("description", paragraphs(&command.description)),
        ("notes", notes(&command.notes)),
    ];
    let headed = |(part, entries): (&'static str, String)| match part {
        _ if entries.is_empty() => (part, entries),
        "own" => (part, format!(".SS Options of haul\n{entries}")),
        "cluster" => (part, format!(".SS Running on many hosts, by MPI\n{entries}")),
        _ => (part, entries),
    };
    let options = options(|| command.flags.iter()).map(headed);
    page(include_str!("templates/tool.1.in"), parts.into_iter().chain(options))
}

/// Returns the entries of GNU's options, haul's own, and those for many hosts.
fn options<'a, I: Iterator<Item = &'a FlagDefinition>>(flags: impl Fn() -> I) -> [(&'static str, String); 3] {
    let entries =
        |wanted: fn(&FlagDefinition) -> bool| flags().filter(|flag| wanted(flag)).map(option).collect();
    [
        ("gnu", entries(|flag| flag.gnu)),
        ("own", entries(|flag| !flag.gnu && !flag.cluster)),
        ("cluster", entries(|flag| flag.cluster)),
    ]
}

fn page(prose: &str, parts: impl IntoIterator<Item = (&'static str, String)>) -> String {
    filled(&inserted(prose, parts))
}

/// Formats text with paragraphs separated by empty lines.
fn paragraphs(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|paragraph| sentence_line(&paragraph.replace('\n', " ")));
    paragraphs.collect::<Vec<_>>().join(".PP\n")
}

/// Formats a line so that it can't be taken for a roff request.
fn sentence_line(text: &str) -> String {
    let text = escaped(text.trim());
    let guard = if text.starts_with(['.', '\'']) { "\\&" } else { "" };
    format!("{guard}{text}\n")
}

/// Formats text under headings. A heading is an unindented line that ends with a colon. Indented
/// lines are not filled.
fn notes(notes: &str) -> String {
    let mut text = String::new();
    // Indentation of the previous line; `None` after a heading.
    let mut before = None;
    for line in notes.lines().filter(|line| !line.trim().is_empty()) {
        let indented = line.starts_with(' ');
        if let (Some(heading), false) = (line.strip_suffix(':'), indented) {
            text += &format!(".SH {}\n", escaped(&heading.to_uppercase()));
            before = None;
            continue;
        }
        if before.is_some_and(|before| before || indented) {
            text += ".br\n";
        }
        text += &sentence_line(line);
        before = Some(indented);
    }
    text
}

/// Wraps text lines to keep the page's source narrow. The reader's program fills them again.
fn filled(page: &str) -> String {
    const WIDTH: usize = 78;
    let mut text = String::new();
    for line in page.lines() {
        let mut used = 0;
        for (index, word) in line.split(' ').enumerate() {
            if index > 0 && used + 1 + word.len() > WIDTH && !line.starts_with('.') {
                text.push('\n');
                used = 0;
                // Not a request, although it starts a line.
                text.push_str(if word.starts_with('.') { "\\&" } else { "" });
            } else if index > 0 {
                text.push(' ');
                used += 1;
            }
            text.push_str(word);
            used += word.len();
        }
        text.push('\n');
    }
    text
}

fn bench_synopsis(command: &CommandDefinition) -> String {
    let operands: String =
        command.operands.iter().map(|operand| format!(".I {}\n", escaped(&operand.name))).collect();
    format!(".SY haul\\~bench\\~{}\n.RI [ OPTION ]\\|.\\|.\\|.\\&\n{operands}.YS\n", escaped(&command.name))
}

fn head(name: &str, about: &str) -> String {
    let upper = escaped(&name.to_uppercase());
    format!(
        ".\\\" Generated from the options' definitions: cargo xtask gen.
.TH {upper} 1 {DATE} \"haul {VERSION}\" \"User Commands\"
.SH NAME
{} \\- {about}
.SH SYNOPSIS
",
        escaped(name)
    )
}

fn option(flag: &FlagDefinition) -> String {
    // The argument stands with the last name.
    let mut forms: Vec<String> = flag.forms().iter().map(|form| bold(form)).collect();
    if let (Some(argument), Some(last)) = (&flag.argument, forms.last_mut()) {
        let name = escaped(&argument.name);
        *last += &match (flag.long().is_some(), argument.optional) {
            (true, true) => format!("[=\\fI{name}\\fR]"),
            (true, false) => format!("=\\fI{name}\\fR"),
            (false, _) => format!(" \\fI{name}\\fR"),
        };
    }
    format!(".TP\n{}\n{}.\n", forms.join(", "), sentence(&flag.help))
}

/// Formats an operand with fixed values as a list entry.
fn operand(operand: &Argument) -> String {
    format!(".TP\n.I {}\nOne of {}.\n", escaped(&operand.name), escaped(&operand.words.join(", ")))
}

fn bold(text: &str) -> String {
    format!("\\fB{}\\fR", escaped(text))
}

/// Formats a help text as a sentence without the full stop, so that it can't be taken for
/// a roff request.
fn sentence(help: &str) -> String {
    let mut letters = help.trim_end_matches('.').chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    let text = escaped(&(first + letters.as_str()));
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

/// Escapes text so that roff prints it literally.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\e")
        .replace('-', r"\-")
        .replace('\'', r"\(aq")
        .replace('~', r"\(ti")
        .replace('^', r"\(ha")
}

#[cfg(test)]
mod tests {
    use super::super::definitions::tests::sample;
    use super::*;

    #[test]
    fn a_tool_has_a_page_from_its_definition() {
        let mut commands = sample();
        commands[0].synopsis = vec!["[OPTION]... FILE".to_owned()];
        commands[0].description = "One.\n\n.Two\nlines.".to_owned();
        commands[0].notes = "Exit status:\n  0 if all is well\n  1 if not\n\nMore:\nText.".to_owned();
        let text = tool(&commands[0]);
        for part in [
            ".SY haul\\~cp\n[OPTION]... FILE\n.YS\n",
            ".SH DESCRIPTION\nOne.\n.PP\n\\&.Two lines.\n",
            ".SH EXIT STATUS\n0 if all is well\n.br\n1 if not\n.SH MORE\nText.\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn each_kind_of_option_has_its_entry() {
        let text = cp(&sample());
        for entry in [
            ".TP\n\\fB\\-a\\fR, \\fB\\-\\-archive\\fR\nIt\\(aqs [all]: kept.\n",
            ".TP\n\\fB\\-t\\fR, \\fB\\-\\-target\\-directory\\fR=\\fIDIRECTORY\\fR\nInto \\-d.\n",
            ".TP\n\\fB\\-\\-reflink\\fR[=\\fIWHEN\\fR]\nShare.\n",
            ".SS Options of haul\n",
        ] {
            assert!(text.contains(entry), "{entry}\n{text}");
        }
        assert_eq!(sentence(".x"), "\\&.x");
    }
}
