//! Other spellings of tar's options: bundles of letters without a hyphen, and lists in files.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use haul_sys::reason;

use crate::option_files::OptionFiles;

/// Splits the first word if it is a bundle of letters: each letter becomes an option of its own,
/// followed by its argument, the next unused word.
pub(super) fn unbundled(words: &[OsString], takes_argument: impl Fn(u8) -> bool) -> Vec<OsString> {
    let Some((bundle, mut rest)) = words.split_first() else { return Vec::new() };
    let letters = bundle.as_bytes();
    if letters.first().is_none_or(|first| *first == b'-') || !letters.iter().all(u8::is_ascii_alphabetic) {
        return words.to_vec();
    }
    let mut apart = Vec::new();
    for letter in letters {
        apart.push(OsString::from_vec(vec![b'-', *letter]));
        if takes_argument(*letter)
            && let Some((argument, others)) = rest.split_first()
        {
            apart.push(argument.clone());
            rest = others;
        }
    }
    apart.extend_from_slice(rest);
    apart
}

pub(super) fn c_string(word: &OsStr) -> Result<CString, String> {
    CString::new(word.as_bytes()).map_err(|_| "a name contains a NUL byte".to_owned())
}

/// Reads the lines of a file. Empty ones are skipped.
pub(super) fn lines(files: OptionFiles, file: &OsStr) -> Result<Vec<Vec<u8>>, String> {
    let text = text(files, file)?;
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    Ok(lines.map(<[u8]>::to_vec).collect())
}

/// Reads a file.
pub(super) fn text(files: OptionFiles, file: &OsStr) -> Result<Vec<u8>, String> {
    let text = files.read(Path::new(file));
    text.map_err(|cause| format!("{}: Cannot read: {}", file.to_string_lossy(), reason(&cause)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn a_bundle_is_taken_apart() {
        let apart = |of: &[&str]| unbundled(&words(of), |letter| b"fCITX".contains(&letter));
        assert_eq!(apart(&["cvf", "x", "y"]), words(&["-c", "-v", "-f", "x", "y"]));
        assert_eq!(apart(&["xfC", "a", "d", "m"]), words(&["-x", "-f", "a", "-C", "d", "m"]));
        assert_eq!(apart(&["-cf", "x", "y"]), words(&["-cf", "x", "y"]));
        assert_eq!(apart(&["--list"]), words(&["--list"]));
        assert_eq!(apart(&["cf"]), words(&["-c", "-f"]));
        assert_eq!(apart(&[]), words(&[]));
    }
}
