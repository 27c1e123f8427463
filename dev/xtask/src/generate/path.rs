//! The newcomer's path in ARCHITECTURE: the numbers of lines in its table.
//!
//! A row names a file and the items to read in it, and ends with their lines:
//!
//! ```text
//! | `flow/src/run/file.rs` | `enum State`, `Opening::begin`, `release` | 42 |
//! ```
//!
//! An item is a function (`name`, or `Type::name` for one in an `impl`) or the beginning of the
//! line where it is declared (`trait Tool`). Its lines run from there to the closing brace.

use std::path::Path;

use crate::steps::StepFailure;

/// Line before the first row of the table.
const BEGIN: &str = "| file | read | lines |";

/// Returns `text` with the numbers that the sources in `crates` give, in each row and in the total.
pub(super) fn counted(text: &str, crates: &Path) -> Result<String, StepFailure> {
    let (mut lines, mut is_inside, mut total) = (Vec::new(), false, 0);
    for line in text.lines() {
        is_inside = line == BEGIN || (is_inside && line.starts_with('|'));
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        lines.push(match cells.as_slice() {
            ["", "total", "", _, ""] if is_inside => format!("| total | | {total} |"),
            ["", file, items, _, ""] if is_inside && file.starts_with('`') => {
                let count = lines_of(crates, file, items)?;
                total += count;
                format!("| {file} | {items} | {count} |")
            }
            _ => line.to_owned(),
        });
    }
    Ok(lines.join("\n") + "\n")
}

fn lines_of(crates: &Path, file: &str, items: &str) -> Result<usize, StepFailure> {
    let source = fs_err::read_to_string(crates.join(file.trim_matches('`')))?;
    let source: Vec<_> = source.lines().collect();
    let count = |item: &str| {
        let missing = || StepFailure(format!("ARCHITECTURE.md names {item}, which {file} doesn't have"));
        item_lines(&source, item).ok_or_else(missing)
    };
    items.split(',').map(|item| count(item.trim().trim_matches('`'))).sum()
}

/// Returns the number of lines of an item in a source file.
fn item_lines(source: &[&str], item: &str) -> Option<usize> {
    let (owner, name) = item.split_once("::").map_or((None, item), |(owner, name)| (Some(owner), name));
    let after = match owner {
        None => 0,
        Some(owner) => {
            let is_impl = |line: &&str| line.starts_with("impl") && names(line, owner);
            source.iter().position(is_impl)?
        }
    };
    let declares = |line: &str| {
        let line = line.trim_start();
        let line = line
            .strip_prefix("pub")
            .map_or(line, |rest| rest.trim_start_matches(|letter| letter != ' ').trim_start());
        match name.contains(' ') {
            true => line.strip_prefix(name).is_some_and(|rest| !rest.starts_with(is_word)),
            false => line
                .strip_prefix("fn ")
                .is_some_and(|rest| rest.strip_prefix(name).is_some_and(|rest| !rest.starts_with(is_word))),
        }
    };
    // A method's declaration in a trait has no body.
    let start = after + source[after..].iter().position(|line| declares(line) && !line.ends_with(';'))?;
    let indent = &source[start][..source[start].len() - source[start].trim_start().len()];
    let end = format!("{indent}}}");
    if source[start].ends_with('}') {
        return Some(1);
    }
    Some(source[start..].iter().position(|line| *line == end)? + 1)
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Returns true if `line` has `word` as a whole word.
fn names(line: &str, word: &str) -> bool {
    line.split(|letter| !is_word(letter)).any(|part| part == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "pub enum State {\n    One,\n    fn none() {}\n}\n\nimpl<T> State<T> {\n    fn begin() {\n    }\n}\n\n\
        impl Other {\n    pub(super) fn begin(\n        self,\n    ) {\n        1;\n    }\n}\n";

    #[test]
    fn an_item_reaches_to_its_closing_brace() {
        let lines: Vec<_> = SOURCE.lines().collect();
        let count = |item| item_lines(&lines, item);
        assert_eq!((count("enum State"), count("none")), (Some(4), Some(1)));
        assert_eq!((count("begin"), count("Other::begin")), (Some(2), Some(5)));
        assert_eq!((count("enum Sta"), count("beg"), count("Other::end")), (None, None, None));
    }

    #[test]
    fn rows_and_total_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.rs"), SOURCE).unwrap();
        let text = |rows: [&str; 3]| {
            let [a, b, total] = rows;
            format!(
                "x | 1 |\n{BEGIN}\n|---|---|---:|\n| `a.rs` | `State::begin`, `Other::begin` | {a} |\n\
                | `a.rs` | `enum State` | {b} |\n| total | | {total} |\n\n| `b.rs` | c | 1 |\n"
            )
        };
        let counted = counted(&text(["0", "", "9"]), folder.path()).unwrap();
        assert_eq!(counted, text(["7", "4", "11"]));
    }
}
