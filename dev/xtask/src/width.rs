//! Checks that comments and prose are at most 100 columns wide. `rustfmt` wraps code only.

use fs_err as fs;

use crate::steps::{StepFailure, known_files, say, workspace};

/// Maximum width of a comment line or a line of prose, in columns.
const COLUMNS_MAX: usize = 100;

/// Checks the comments of every Rust, TOML and shell file, and the prose of every Markdown file,
/// that git knows.
pub(crate) fn check() -> Result<(), StepFailure> {
    let workspace = workspace();
    let mut count = 0;
    for path in known_files()? {
        let Some(prose) = prose_of(&path) else { continue };
        let text = fs::read_to_string(workspace.join(&path))?;
        for number in too_wide(&text, prose) {
            say(&format!("{path}:{number}: wider than {COLUMNS_MAX} columns"));
            count += 1;
        }
    }
    match count {
        0 => Ok(()),
        _ => Err(StepFailure(format!("wrap {count} lines of comments and prose at {COLUMNS_MAX} columns"))),
    }
}

/// Lines of a file that are prose.
#[derive(Clone, Copy, Debug)]
enum Prose {
    /// Lines that start with this.
    Comments(&'static str),
    /// All lines.
    Markdown,
}

fn prose_of(path: &str) -> Option<Prose> {
    match path.rsplit_once('.').map_or(path, |(_, end)| end) {
        "rs" => Some(Prose::Comments("//")),
        "toml" | "ci/run" => Some(Prose::Comments("#")),
        "md" => Some(Prose::Markdown),
        _ => None,
    }
}

/// Returns the numbers of the lines to wrap: not code blocks, not rows of tables, and not words
/// that can't be broken, such as links.
fn too_wide(text: &str, prose: Prose) -> Vec<usize> {
    let mut is_code = false;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line_text = match prose {
            Prose::Markdown => line.trim_start(),
            Prose::Comments(start) => match line.trim_start().strip_prefix(start) {
                Some(rest) => rest.trim_start_matches(['/', '!', '#']).trim_start(),
                None => {
                    is_code = false;
                    continue;
                }
            },
        };
        if line_text.starts_with("```") {
            is_code = !is_code;
        }
        let width = line.chars().count();
        let indent = width - line_text.chars().count();
        let can_break = line_text.split_whitespace().all(|word| indent + word.chars().count() < COLUMNS_MAX);
        if width > COLUMNS_MAX && !is_code && !line_text.starts_with('|') && can_break {
            found.push(index + 1);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_prose_is_found_and_nothing_else() {
        let wide = "word ".repeat(25);
        let link = format!("[a link](https://{})", "x".repeat(100));
        let markdown = format!("{wide}\n- {wide}\n| {wide} |\n{link}\nshort\n```\n{wide}\n```\n{wide}\n");
        assert_eq!(too_wide(&markdown, Prose::Markdown), [1, 2, 9]);
        let rust = format!(
            "let code = \"{wide}\";\n    //! {wide}\n/// ```\n/// {wide}\n/// ```\n// {wide}\n///\n// {}\n",
            "x".repeat(120)
        );
        assert_eq!(too_wide(&rust, Prose::Comments("//")), [2, 6]);
        assert_eq!(too_wide(&format!("name = 1\n# {wide}\n"), Prose::Comments("#")), [2]);
        // Columns, not bytes.
        assert_eq!(too_wide(&format!("{}\n", "ä ".repeat(50)), Prose::Markdown), [0; 0]);
    }
}
