//! Accounts for intentional changes between releases of GNU cp. haul follows the newest.
//!
//! Tests compare with the installed GNU cp, of any release. Results of an older release are
//! converted here, and only here, to those of the newest, and each conversion names the release
//! that changed the behavior. Releases 9.2 to 9.4 differ from those before and after in status and
//! messages of skipped files (`-n`, `-v`), so they can't be used for comparison.

use crate::message::is_prompt;

/// A release of GNU coreutils: major and minor number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(pub u32, pub u32);

/// The first release that exits with status 1 if the user declines (`-i`).
const DECLINING_FAILS: Release = Release(9, 2);
/// The first release with the current messages for files not overwritten and for rejected backups.
const WORDS: Release = Release(9, 5);

/// The first release that copies short runs of zeros next to holes as data.
const HOLES: Release = Release(9, 2);

/// Message for backups combined with `-n`, before [`WORDS`] and now.
const BACKUP_AND_SKIP: [&str; 2] = [
    "cp: options --backup and --no-clobber are mutually exclusive",
    "cp: --backup is mutually exclusive with -n or --update=none-fail",
];
/// Releases before [`WORDS`] end the message here; newer ones add the source's name.
const NOT_A_DIRECTORY: &str = " with non-directory";

impl Release {
    /// Parses the first line of `cp --version`. Returns `None` if it isn't GNU cp.
    pub fn of_version(said: &[u8]) -> Option<Self> {
        let said = String::from_utf8_lossy(said);
        let number = said.strip_prefix("cp (GNU coreutils) ")?.lines().next()?.trim();
        let (major, minor) = number.split_once('.')?;
        let digits = minor.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(minor.len());
        Some(Self(major.parse().ok()?, minor[..digits].parse().ok()?))
    }

    /// Returns true if results of this release can be converted to those of the newest.
    pub fn is_standard(self) -> bool {
        self < DECLINING_FAILS || self >= WORDS
    }

    /// Returns true if this release finds the same holes as haul. Later ones find fewer.
    pub fn leaves_the_usual_holes(self) -> bool {
        self < HOLES
    }

    /// Converts lines to what this release and the newest have in common.
    pub fn common_words(self, lines: Vec<String>) -> Vec<String> {
        if self >= WORDS {
            return lines;
        }
        let common = |line: String| match line.find(NOT_A_DIRECTORY) {
            Some(at) if line.starts_with("cp: cannot overwrite directory ") => {
                line[..at + NOT_A_DIRECTORY.len()].to_owned()
            }
            _ if line == BACKUP_AND_SKIP[0] => BACKUP_AND_SKIP[1].to_owned(),
            _ => line,
        };
        lines.into_iter().map(common).collect()
    }

    /// Returns the status of the newest release for a run in which this one exited with `status`,
    /// printed `lines` and was answered `answers`.
    pub fn newest_status(self, status: i32, lines: &[String], answers: &[u8]) -> i32 {
        let asked = lines.iter().filter(|line| is_prompt(line)).count();
        let agreed = answers
            .split(|byte| *byte == b'\n')
            .take(asked)
            .filter(|answer| matches!(answer.first(), Some(b'y' | b'Y')))
            .count();
        if self < DECLINING_FAILS && status == 0 && agreed < asked { 1 } else { status }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_and_ordered() {
        let read = |said: &str| Release::of_version(said.as_bytes());
        assert_eq!(read("cp (GNU coreutils) 9.1\nCopyright\n"), Some(Release(9, 1)));
        assert_eq!(read("cp (GNU coreutils) 9.11.3-dirty\n"), Some(Release(9, 11)));
        assert_eq!(read("cp (uutils coreutils) 0.1\n"), None);
        assert!(Release(9, 1) < Release(9, 11) && Release(8, 32).is_standard());
        assert!(!Release(9, 3).is_standard() && Release(9, 11).is_standard());
    }

    #[test]
    fn declining_is_an_error_since_9_2() {
        let asked = ["cp: overwrite 'a'?".to_owned(), "cp: overwrite 'b'?".to_owned()];
        assert_eq!(Release(9, 1).newest_status(0, &asked, b"y\nn\n"), 1);
        assert_eq!(Release(9, 1).newest_status(0, &asked, b"y\n"), 1);
        assert_eq!(Release(9, 1).newest_status(0, &asked, b"y\nY\n"), 0);
        assert_eq!(Release(9, 1).newest_status(0, &[], b"n\n"), 0);
        assert_eq!(Release(9, 7).newest_status(0, &asked, b"n\n"), 0);
    }

    #[test]
    fn words_are_those_in_common() {
        let old = vec![
            BACKUP_AND_SKIP[0].to_owned(),
            "cp: cannot overwrite directory 'a' with non-directory".into(),
        ];
        let new = vec![
            BACKUP_AND_SKIP[1].to_owned(),
            "cp: cannot overwrite directory 'a' with non-directory 'b'".into(),
        ];
        let release = Release(9, 1);
        assert_eq!(release.common_words(old.clone()), release.common_words(new.clone()));
        assert_ne!(Release(9, 7).common_words(old), Release(9, 7).common_words(new));
    }
}
