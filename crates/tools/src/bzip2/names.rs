//! What files are called when they are compressed, and when they are not any more.

/// Endings of compressed files, and what takes their place.
const SUFFIXES: [(&str, &str); 4] = [(".bz2", ""), (".bz", ""), (".tbz2", ".tar"), (".tbz", ".tar")];

/// Returns the ending that says that a file is compressed, if it has one.
pub(super) fn suffix(name: &[u8]) -> Option<&'static str> {
    SUFFIXES.iter().map(|(suffix, _)| *suffix).find(|suffix| name.ends_with(suffix.as_bytes()))
}

/// Returns the name of a file when it is compressed.
pub(super) fn compressed(name: &[u8]) -> Vec<u8> {
    [name, b".bz2"].concat()
}

/// Returns the name of a compressed file when it is not any more, and whether its name says so.
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
