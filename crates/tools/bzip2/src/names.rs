//! File names before and after compression.

/// Suffixes of compressed files, and their replacements.
const SUFFIXES: [(&str, &str); 4] = [(".bz2", ""), (".bz", ""), (".tbz2", ".tar"), (".tbz", ".tar")];

/// Returns the suffix of a compressed file's name, if it has one.
pub(super) fn suffix(name: &[u8]) -> Option<&'static str> {
    SUFFIXES.iter().map(|(suffix, _)| *suffix).find(|suffix| name.ends_with(suffix.as_bytes()))
}

/// Returns the name of the compressed file.
pub(super) fn compressed(name: &[u8]) -> Vec<u8> {
    [name, b".bz2"].concat()
}

/// Returns the name of the decompressed file, and true if the suffix was known.
pub(super) fn decompressed(name: &[u8]) -> (Vec<u8>, bool) {
    for (suffix, instead) in SUFFIXES {
        if let Some(stem) = name.strip_suffix(suffix.as_bytes()) {
            return ([stem, instead.as_bytes()].concat(), true);
        }
    }
    ([name, b".out"].concat(), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_by_their_suffixes() {
        let of = |name: &[u8]| {
            let (name, known) = decompressed(name);
            (String::from_utf8(name).unwrap(), known)
        };
        assert_eq!(of(b"a.bz2"), ("a".to_owned(), true));
        assert_eq!(of(b"a.tbz"), ("a.tar".to_owned(), true));
        assert_eq!(of(b"a.gz"), ("a.gz.out".to_owned(), false));
        assert_eq!((suffix(b"a.tbz2"), suffix(b"a.bz2x")), (Some(".tbz2"), None));
        assert_eq!(compressed(b"a"), b"a.bz2");
    }
}
