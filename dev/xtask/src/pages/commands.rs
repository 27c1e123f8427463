//! Checks that the options which pages name for commands of haul exist.
//!
//! In all pages that is code that begins with `haul COMMAND`. In the tables of `docs/from-*.md` the
//! first column has the options of the other program, so all other code is haul's.

use std::collections::{BTreeMap, BTreeSet};

use fs_err as fs;

use super::markdown::Page;
use crate::steps::{StepFailure, workspace};

/// Long options by command.
type CommandOptions = BTreeMap<String, BTreeSet<String>>;

/// Returns a line for each option that is in no help text.
pub(super) fn mistakes(pages: &BTreeMap<String, Page>) -> Result<Vec<String>, StepFailure> {
    let options = read()?;
    let any: BTreeSet<_> = options.values().flatten().cloned().collect();
    let mut mistakes = Vec::new();
    for (path, page) in pages {
        let is_table_of_options = path.starts_with("docs/from-");
        for code in &page.code {
            let unknown = if let Some((command, words)) = command_of(&code.text) {
                let Some(known) = options.get(command) else { continue };
                unknown(words, known)
            } else if is_table_of_options && code.column.is_some_and(|column| column > 0) {
                unknown(&code.text, &any)
            } else {
                continue;
            };
            mistakes
                .extend(unknown.iter().map(|option| format!("{path}: no option {option}: {}", code.text)));
        }
    }
    Ok(mistakes)
}

/// Reads the long options from the help text of each command.
fn read() -> Result<CommandOptions, StepFailure> {
    let mut options = CommandOptions::new();
    for entry in fs::read_dir(workspace().join("docs/help"))? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        options.insert(name, long_options(&fs::read_to_string(&path)?).map(str::to_owned).collect());
    }
    if options.values().all(BTreeSet::is_empty) {
        return Err(StepFailure("docs/help has no options".to_owned()));
    }
    Ok(options)
}

/// Returns the command and the words after it, if code is a command of haul. What is before it on
/// the line, such as a prompt or `mpirun -n 8`, doesn't matter.
fn command_of(code: &str) -> Option<(&str, &str)> {
    let is_start = |at: usize| at == 0 || code[..at].ends_with([' ', '=', '`', '(']);
    let (at, _) = code.match_indices("haul ").find(|(at, _)| is_start(*at))?;
    let words = &code[at + "haul ".len()..];
    let (command, words) = words.split_once(' ')?;
    // Another command follows, or a comment, or what `haul each` runs.
    let end =
        [" | ", " > ", " && ", " || ", "; ", " # ", " -- "].iter().filter_map(|end| words.find(end)).min();
    Some((command, &words[..end.unwrap_or(words.len())]))
}

fn unknown(words: &str, known: &BTreeSet<String>) -> Vec<String> {
    long_options(words).filter(|option| !known.contains(*option)).map(str::to_owned).collect()
}

/// Returns the words of a text that are long options, without values.
fn long_options(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|letter: char| letter.is_whitespace() || "'\"`|,;:()[]=".contains(letter));
    words.filter(|word| word.strip_prefix("--").is_some_and(|name| name.starts_with(char::is_alphabetic)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_the_command_lacks_is_found() {
        let options = read().map_err(|failure| failure.to_string());
        let known = options.as_ref().ok().and_then(|options| options.get("sync"));
        let found = |text| {
            let (command, words) = command_of(text)?;
            (command == "sync").then(|| unknown(words, known.unwrap_or(&BTreeSet::new())))
        };
        assert_eq!(found("$ haul sync --delete --exclude='*.o' A B # --no"), Some(vec![]));
        assert_eq!(found("haul sync --partial A B | x --y"), Some(vec!["--partial".to_owned()]));
        assert_eq!(found("rsync --partial A B"), None);
        assert_eq!(found("mpirun -n 4 haul sync --fsync=end --warp=9 A B"), Some(vec!["--warp".to_owned()]));
    }
}
