//! The command: words with placeholders for paths.
//!
//! The placeholders are GNU parallel's: `{}` is the path, `{.}` the path without its last
//! extension, `{/}` its last component, `{//}` its directory, `{/.}` the last component without
//! extension. If there is no placeholder, the path is appended. No shell is involved unless
//! requested; then the words form a script (`script.rs`).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use haul_flow::Problem;

use super::script::Script;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WordPart {
    Text(Vec<u8>),
    Place(PathPart),
}

/// The part of a path that a placeholder stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathPart {
    Path,
    WithoutExtension,
    Name,
    Directory,
    NameWithoutExtension,
}

pub(super) const PLACES: [(&[u8], PathPart); 5] = [
    (b"{}", PathPart::Path),
    (b"{.}", PathPart::WithoutExtension),
    (b"{/}", PathPart::Name),
    (b"{//}", PathPart::Directory),
    (b"{/.}", PathPart::NameWithoutExtension),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CommandTemplate {
    Words(Vec<Vec<WordPart>>),
    Script(Script),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WithoutPlace {
    Append,
    Leave,
}

impl CommandTemplate {
    /// # Errors
    /// If a path can't be put into the script.
    pub(super) fn new(words: &[Vec<u8>], shell: bool, without_place: WithoutPlace) -> Result<Self, Problem> {
        let mut words = words.to_vec();
        let has_place = |word: &Vec<u8>| parts(word).iter().any(|part| matches!(part, WordPart::Place(_)));
        if without_place == WithoutPlace::Append && !words.iter().any(has_place) {
            words.push(b"{}".to_vec());
        }
        Ok(match shell {
            true => Self::Script(Script::new(&words)?),
            false => Self::Words(words.iter().map(|word| parts(word)).collect()),
        })
    }

    /// Returns the program's name, if it is the same for all paths.
    pub(super) fn program(&self) -> Option<&[u8]> {
        match self {
            Self::Script(_) => Some(b"sh"),
            Self::Words(words) => match words.first()?.as_slice() {
                [WordPart::Text(name)] => Some(name),
                _ => None,
            },
        }
    }

    /// Substitutes paths. A word with a placeholder is repeated for each path; in a script, a
    /// placeholder expands to all paths.
    pub(super) fn for_paths(&self, paths: &[Vec<u8>]) -> Vec<OsString> {
        let words = match self {
            Self::Script(script) => vec![b"sh".to_vec(), b"-c".to_vec(), script.for_paths(paths)],
            Self::Words(words) => words.iter().flat_map(|word| for_each(word, paths)).collect(),
        };
        words.into_iter().map(OsString::from_vec).collect()
    }
}

/// Substitutes each path in a word, or returns the word once if it has no placeholder.
fn for_each(word: &[WordPart], paths: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let has_place = word.iter().any(|part| matches!(part, WordPart::Place(_)));
    let paths = if has_place { paths } else { &paths[..paths.len().min(1)] };
    paths.iter().map(|path| fill(word, |place| place.of(path))).collect()
}

fn fill(word: &[WordPart], of: impl Fn(PathPart) -> Vec<u8>) -> Vec<u8> {
    let parts = word.iter().map(|part| match part {
        WordPart::Text(text) => text.clone(),
        WordPart::Place(place) => of(*place),
    });
    parts.collect::<Vec<_>>().concat()
}

impl PathPart {
    /// Returns the text that the placeholder stands for.
    pub(super) fn of(self, path: &[u8]) -> Vec<u8> {
        let trimmed = match path.iter().rposition(|byte| *byte != b'/') {
            Some(last) => &path[..=last],
            None => &path[..path.len().min(1)],
        };
        let slash = trimmed.iter().rposition(|byte| *byte == b'/');
        let name = slash.map_or(trimmed, |slash| &trimmed[slash + 1..]);
        let without_extension = |text: &[u8]| {
            // A leading dot does not start an extension.
            let first = text.len() - name.len();
            let dot = text.iter().rposition(|byte| *byte == b'.').filter(|dot| *dot > first);
            text[..dot.unwrap_or(text.len())].to_vec()
        };
        match self {
            Self::Path => path.to_vec(),
            Self::WithoutExtension => without_extension(trimmed),
            Self::Name if name.is_empty() => trimmed.to_vec(),
            Self::Name => name.to_vec(),
            Self::NameWithoutExtension => without_extension(name),
            Self::Directory => match slash {
                None => b".".to_vec(),
                Some(0) => b"/".to_vec(),
                Some(slash) => trimmed[..slash].to_vec(),
            },
        }
    }
}

fn parts(word: &[u8]) -> Vec<WordPart> {
    let mut parts = Vec::new();
    let (mut text, mut rest) = (Vec::new(), word);
    while let Some(first) = rest.first() {
        match PLACES.iter().find(|(mark, _)| rest.starts_with(mark)) {
            Some((mark, place)) => {
                if !text.is_empty() {
                    parts.push(WordPart::Text(std::mem::take(&mut text)));
                }
                parts.push(WordPart::Place(*place));
                rest = &rest[mark.len()..];
            }
            None => {
                text.push(*first);
                rest = &rest[1..];
            }
        }
    }
    if !text.is_empty() || parts.is_empty() {
        parts.push(WordPart::Text(text));
    }
    parts
}

/// True if a word means itself to the shell, in quotes or not.
pub(super) fn is_plain(word: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+=,:@%".contains(byte);
    !word.is_empty() && word.iter().all(is_plain)
}

pub(super) fn quoted(word: &[u8]) -> Vec<u8> {
    if is_plain(word) {
        return word.to_vec();
    }
    let mut quoted = vec![b'\''];
    for byte in word {
        match byte {
            b'\'' => quoted.extend_from_slice(b"'\\''"),
            other => quoted.push(*other),
        }
    }
    quoted.push(b'\'');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &[&str], shell: bool, paths: &[&str]) -> Vec<String> {
        let command: Vec<_> = command.iter().map(|word| word.as_bytes().to_vec()).collect();
        let paths: Vec<_> = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
        let command = CommandTemplate::new(&command, shell, WithoutPlace::Append).unwrap();
        command.for_paths(&paths).into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn places_are_those_of_gnu_parallel() {
        let all = ["c", "{}", "{.}", "{/}", "{//}", "{/.}", "x{/}.{}y", "{"];
        let of = |path: &str| words(&all, false, &[path])[1..6].to_vec();
        assert_eq!(of("d.e/f.tar.gz"), ["d.e/f.tar.gz", "d.e/f.tar", "f.tar.gz", "d.e", "f.tar"]);
        assert_eq!(of("d.e/f"), ["d.e/f", "d.e/f", "f", "d.e", "f"]);
        assert_eq!(of(".hidden"), [".hidden", ".hidden", ".hidden", ".", ".hidden"]);
        assert_eq!(of("/a"), ["/a", "/a", "a", "/", "a"]);
        assert_eq!(of("/"), ["/", "/", "/", "/", ""]);
        assert_eq!(words(&all, false, &["d/f"])[6..], ["xf.d/fy", "{"]);
    }

    #[test]
    fn a_command_without_a_place_gets_the_paths_at_its_end() {
        assert_eq!(words(&["cat", "-n"], false, &["a b", "c"]), ["cat", "-n", "a b", "c"]);
        assert_eq!(words(&["cp", "{}", "to"], false, &["a", "b"]), ["cp", "a", "b", "to"]);
        assert_eq!(words(&["cp", "", "{}"], false, &["a"]), ["cp", "", "a"]);
    }

    #[test]
    fn a_shell_gets_one_script_with_the_path_in_a_variable() {
        let result = words(&["wc", "-l <", "{}"], true, &["it's; rm -rf"]);
        let script = "haul_path1='it'\\''s; rm -rf'; wc -l < \"${haul_path1}\"";
        assert_eq!(result, ["sh", "-c", script]);
        let batch = words(&["cat {} |", "sort", "-o x{/.}"], true, &["d/a b.c", "d/e"]);
        let script = "haul_path1='d/a b.c'; haul_name_stem1='a b'; haul_name_stem2=e; \
                      cat \"${haul_path1}\" d/e | sort -o x\"${haul_name_stem1}\" \"${haul_name_stem2}\"";
        assert_eq!(batch, ["sh", "-c", script]);
    }
}
