//! The command: words with placeholders for paths.
//!
//! The placeholders are GNU parallel's: `{}` is the path, `{.}` the path without its last
//! extension, `{/}` its last component, `{//}` its directory, `{/.}` the last component without
//! extension. If there is no placeholder, the path is appended. No shell is involved unless
//! requested; then the words form a script, and paths are quoted in it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Vec<u8>),
    Place(Place),
}

/// The part of a path that a placeholder stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Path,
    WithoutExtension,
    Name,
    Directory,
    NameWithoutExtension,
}

const PLACES: [(&[u8], Place); 5] = [
    (b"{}", Place::Path),
    (b"{.}", Place::WithoutExtension),
    (b"{/}", Place::Name),
    (b"{//}", Place::Directory),
    (b"{/.}", Place::NameWithoutExtension),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    words: Vec<Vec<Part>>,
    /// True if the words are a shell script.
    shell: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WithoutPlace {
    Append,
    Leave,
}

impl Command {
    pub(super) fn new(words: &[Vec<u8>], shell: bool, without_place: WithoutPlace) -> Self {
        let mut words: Vec<_> = words.iter().map(|word| parts(word)).collect();
        let has_place = words.iter().flatten().any(|part| matches!(part, Part::Place(_)));
        if !has_place && without_place == WithoutPlace::Append {
            words.push(vec![Part::Place(Place::Path)]);
        }
        Self { words, shell }
    }

    /// Returns the program's name, if it is the same for all paths.
    pub(super) fn program(&self) -> Option<&[u8]> {
        match self.words.first()?.as_slice() {
            _ if self.shell => Some(b"sh"),
            [Part::Text(name)] => Some(name),
            _ => None,
        }
    }

    /// Substitutes paths. A word with a placeholder is repeated for each path; in a script, a
    /// placeholder expands to all paths.
    pub(super) fn for_paths(&self, paths: &[Vec<u8>]) -> Vec<OsString> {
        let words = if self.shell {
            let in_script = |place: Place| {
                paths.iter().map(|path| quoted(&place.of(path))).collect::<Vec<_>>().join(&b' ')
            };
            let script: Vec<_> = self.words.iter().map(|word| fill(word, in_script)).collect();
            vec![b"sh".to_vec(), b"-c".to_vec(), script.join(&b' ')]
        } else {
            self.words.iter().flat_map(|word| for_each(word, paths)).collect()
        };
        words.into_iter().map(OsString::from_vec).collect()
    }
}

/// Substitutes each path in a word, or returns the word once if it has no placeholder.
fn for_each(word: &[Part], paths: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let has_place = word.iter().any(|part| matches!(part, Part::Place(_)));
    let paths = if has_place { paths } else { &paths[..paths.len().min(1)] };
    paths.iter().map(|path| fill(word, |place| place.of(path))).collect()
}

fn fill(word: &[Part], of: impl Fn(Place) -> Vec<u8>) -> Vec<u8> {
    let parts = word.iter().map(|part| match part {
        Part::Text(text) => text.clone(),
        Part::Place(place) => of(*place),
    });
    parts.collect::<Vec<_>>().concat()
}

impl Place {
    fn of(self, path: &[u8]) -> Vec<u8> {
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

fn parts(word: &[u8]) -> Vec<Part> {
    let mut parts = Vec::new();
    let (mut text, mut rest) = (Vec::new(), word);
    while let Some(first) = rest.first() {
        match PLACES.iter().find(|(mark, _)| rest.starts_with(mark)) {
            Some((mark, place)) => {
                if !text.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut text)));
                }
                parts.push(Part::Place(*place));
                rest = &rest[mark.len()..];
            }
            None => {
                text.push(*first);
                rest = &rest[1..];
            }
        }
    }
    if !text.is_empty() || parts.is_empty() {
        parts.push(Part::Text(text));
    }
    parts
}

pub(super) fn quoted(word: &[u8]) -> Vec<u8> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+=,:@%".contains(byte);
    if !word.is_empty() && word.iter().all(is_plain) {
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
        let command = Command::new(&command, shell, WithoutPlace::Append);
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
    fn a_shell_gets_one_script_with_the_path_quoted() {
        let told = words(&["wc", "-l <", "{}"], true, &["it's; rm -rf"]);
        assert_eq!(told, ["sh", "-c", "wc -l < 'it'\\''s; rm -rf'"]);
        let batch = words(&["cat {} |", "sort", "-o x{/.}"], true, &["d/a b.c", "d"]);
        assert_eq!(batch, ["sh", "-c", "cat 'd/a b.c' d | sort -o x'a b' d"]);
    }
}
