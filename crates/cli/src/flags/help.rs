//! Help text, generated from the flag tables in GNU's layout.

use super::{AppletCommand, Arguments, Spec, values};

/// Column where the text of a flag begins.
const TEXT_COLUMN: usize = 31;
const WIDTH: usize = 79;

impl<T: Arguments> AppletCommand<T> {
    /// Returns the help of the applet, called as `program`.
    pub(crate) fn help(&self, program: &str) -> String {
        let mut text = String::new();
        for (index, form) in self.usage.iter().enumerate() {
            let lead = if index == 0 { "Usage:" } else { "  or: " };
            text.push_str(&format!("{lead} {program} {form}\n"));
        }
        text.push_str(&paragraphs(self.about));
        let specs: Vec<Spec> = self.specs().into_iter().filter(|spec| !spec.help.is_empty()).collect();
        let mut sections = Vec::new();
        specs.iter().for_each(|spec| {
            if !sections.contains(&spec.section) {
                sections.push(spec.section);
            }
        });
        for section in sections {
            text.push('\n');
            if !section.is_empty() {
                text.push_str(&format!("{section}:\n"));
            }
            specs.iter().filter(|spec| spec.section == section).for_each(|spec| text.push_str(&entry(spec)));
        }
        if !self.notes.is_empty() {
            text.push('\n');
            text.push_str(&paragraphs(self.notes));
        }
        text
    }
}

/// Wraps each line of a text; indented lines are left alone.
fn paragraphs(text: &str) -> String {
    let line = |line: &str| if line.starts_with(' ') { format!("{line}\n") } else { wrap(line, 0, 0) };
    text.lines().map(line).collect()
}

fn entry(spec: &Spec) -> String {
    let mut names: Vec<String> = spec.listed().map(str::to_owned).collect();
    // The argument stands with the last name, as in GNU's help.
    if let (Some((argument, optional)), Some(last)) = (spec.argument, names.last_mut())
        && last != "-NUM"
    {
        match (last.starts_with("--"), optional) {
            (true, true) => last.push_str(&format!("[={argument}]")),
            (true, false) => last.push_str(&format!("={argument}")),
            (false, _) => last.push_str(&format!(" {argument}")),
        }
    }
    let indent = if names.first().is_some_and(|name| name.starts_with("--")) { 6 } else { 2 };
    let head = format!("{}{}", " ".repeat(indent), names.join(", "));
    // A head too long for its column is followed by two spaces, like in GNU's help.
    let gap = TEXT_COLUMN.saturating_sub(head.len()).max(2);
    let first_column = head.len() + gap;
    format!("{head}{}{}", " ".repeat(gap), wrap(&text(spec), first_column, TEXT_COLUMN + 2))
}

/// Returns a flag's help, with placeholders filled in.
pub(super) fn text(spec: &Spec) -> String {
    spec.help.replace("{engines}", &engines())
}

/// Lists the engines for a sentence.
fn engines() -> String {
    let mut names = values::engines().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let last = names.pop().unwrap_or_default();
    format!("{} or {last}", names.join(", "))
}

/// Wraps `text`. The first line starts in `column`, the others are indented by `indent`.
fn wrap(text: &str, column: usize, indent: usize) -> String {
    let mut lines = String::new();
    let mut used = column;
    for (index, word) in text.split(' ').enumerate() {
        if index > 0 && used + 1 + word.len() > WIDTH {
            lines.push('\n');
            lines.push_str(&" ".repeat(indent));
            used = indent;
        } else if index > 0 {
            lines.push(' ');
            used += 1;
        }
        lines.push_str(word);
        used += word.len();
    }
    lines.push('\n');
    lines
}
