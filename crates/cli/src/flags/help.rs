//! Help text, generated from the flag table in GNU's layout.

use super::table::TABLE;
use super::{Action, Flag, Owner, values};

/// Column where the text of a flag begins.
const TEXT_COLUMN: usize = 31;
/// Maximum length of a line.
const WIDTH: usize = 79;

/// Explains the exit status.
const STATUS: &str = "The exit status is 0 if everything was copied, and 1 if anything was not: standard error then says what.";

/// Returns the help of `cp`, called as `program`.
pub(crate) fn help(program: &str) -> String {
    let mut text = format!(
        "Usage: {program} [OPTION]... [-T] SOURCE DEST
  or:  {program} [OPTION]... SOURCE... DIRECTORY
  or:  {program} [OPTION]... -t DIRECTORY SOURCE...
Copies SOURCE to DEST, or each SOURCE into DIRECTORY, many files at once.

An argument that a long option requires, its short form requires too.
"
    );
    let section = |owner| TABLE.iter().filter(move |flag| flag.owner == owner && !flag.help.is_empty());
    section(Owner::Gnu).for_each(|flag| text.push_str(&entry(flag)));
    text.push_str("\nOptions beyond those of GNU cp:\n");
    section(Owner::Haul).filter(|flag| !flag.cluster).for_each(|flag| text.push_str(&entry(flag)));
    text.push_str("\nTo copy with many hosts, by MPI:\n");
    section(Owner::Haul).filter(|flag| flag.cluster).for_each(|flag| text.push_str(&entry(flag)));
    text.push('\n');
    text.push_str(&wrap(STATUS, 0, 0));
    text
}

/// Formats one flag.
fn entry(flag: &Flag) -> String {
    let letters = flag.letters.chars().map(|letter| format!("-{letter}")).collect::<Vec<_>>().join(", ");
    let long = long_form(flag);
    let head = match (letters.is_empty(), long.is_empty()) {
        (true, _) => format!("      {long}"),
        (false, true) => format!("  {letters}"),
        (false, false) => format!("  {letters}, {long}"),
    };
    // As in GNU's help, a head too long for its column is followed by two spaces.
    let gap = TEXT_COLUMN.saturating_sub(head.len()).max(2);
    let first_column = head.len() + gap;
    format!("{head}{}{}", " ".repeat(gap), wrap(&text(flag), first_column, TEXT_COLUMN + 2))
}

/// Returns a flag's help, with placeholders filled in.
pub(super) fn text(flag: &Flag) -> String {
    flag.help.replace("{engines}", &engines())
}

fn long_form(flag: &Flag) -> String {
    match (flag.long, flag.action) {
        ("", _) => String::new(),
        (long, Action::Plain(_)) => format!("--{long}"),
        (long, Action::Required(argument, _)) => format!("--{long}={argument}"),
        (long, Action::Optional(argument, _)) => format!("--{long}[={argument}]"),
    }
}

/// Lists the engines for a sentence.
fn engines() -> String {
    let mut names = values::engines().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let last = names.pop().unwrap_or_default();
    format!("{} or {last}", names.join(", "))
}

/// Wraps `text`. The first line starts in `column`, the others are indented by `indent`.
pub(super) fn wrap(text: &str, column: usize, indent: usize) -> String {
    let mut lines = String::new();
    let mut used = column;
    let mut first_word = true;
    for word in text.split(' ') {
        if !first_word && used + 1 + word.len() > WIDTH {
            lines.push('\n');
            lines.push_str(&" ".repeat(indent));
            used = indent;
        } else if !first_word {
            lines.push(' ');
            used += 1;
        }
        lines.push_str(word);
        used += word.len();
        first_word = false;
    }
    lines.push('\n');
    lines
}
