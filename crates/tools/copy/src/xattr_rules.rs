//! Which extended attributes a copy gets: `/etc/xattr.conf`, the list that libattr and through it GNU cp read.
//!
//! A line is a pattern (`fnmatch`, no flags) and `skip` or `permissions`; `#` begins a comment between words; of lines that
//! match, the last holds. An attribute of no line is copied. libattr refuses the whole list for one wrong line, or where
//! the last line does not end, and then copies every attribute.

use std::ffi::{CStr, CString};

use haul_sys::{Errno, Error, Operation, matches_pattern, read_path};

/// The list's name.
pub(super) const PATH: &CStr = c"/etc/xattr.conf";

/// Maximum size of the list, in bytes.
const LIST_BYTES_MAX: usize = 1 << 20;

/// What becomes of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum XattrAction {
    /// It is copied when attributes are preserved.
    Copy,
    /// It is never copied.
    Skip,
    /// It is copied when the mode is preserved, after it: an access list of a file system.
    Permissions,
}

/// The list, as read.
#[derive(Debug, Default)]
pub(super) struct XattrRules(Vec<(CString, XattrAction)>);

impl XattrRules {
    /// Reads the list; none is one without lines.
    ///
    /// # Errors
    /// The kernel's, and `EINVAL` for a wrong line.
    pub(super) fn read() -> Result<Self, Error> {
        match read_path(PATH, LIST_BYTES_MAX) {
            Ok(text) => Self::parse(&text)
                .ok_or_else(|| Error::new(Operation::Read, format!("{PATH:?}"), Errno::INVAL)),
            Err(cause) if cause.is(Errno::NOENT) => Ok(Self::default()),
            Err(cause) => Err(cause),
        }
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let mut rules = Vec::new();
        let mut lines: Vec<_> = text.split(|byte| *byte == b'\n').collect();
        let unended = lines.pop().unwrap_or_default();
        for line in lines {
            let words = without_comment(line)?;
            match words[..] {
                [] => {}
                [pattern, action] => rules.push((CString::new(pattern).ok()?, of_name(action)?)),
                _ => return None,
            }
        }
        // What follows the last newline may be a comment, but no rule.
        without_comment(unended).filter(Vec::is_empty)?;
        Some(Self(rules))
    }

    /// Returns what becomes of the attribute `key`.
    pub(super) fn action(&self, key: &CStr) -> XattrAction {
        let rule = self.0.iter().rev().find(|(pattern, _)| matches_pattern(pattern, key));
        rule.map_or(XattrAction::Copy, |(_, action)| *action)
    }
}

fn of_name(name: &[u8]) -> Option<XattrAction> {
    match name {
        b"skip" => Some(XattrAction::Skip),
        b"permissions" => Some(XattrAction::Permissions),
        _ => None,
    }
}

/// Cuts a line into words, up to a comment. `None` if the comment begins within the pattern.
fn without_comment(line: &[u8]) -> Option<Vec<&[u8]>> {
    let end = line.iter().position(|byte| *byte == b'#');
    let text = &line[..end.unwrap_or(line.len())];
    let words: Vec<_> =
        text.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty()).collect();
    (end.is_none() || words.len() != 1).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_that_matches_holds() {
        let text = b"# list\n\nuser.a*\tskip # why\n  user.ab permissions#\nuser.[xy]? skip\nuser.\\* skip\n";
        let rules = XattrRules::parse(text).unwrap();
        let action = |key: &CStr| rules.action(key);
        assert_eq!(action(c"user.a"), XattrAction::Skip);
        assert_eq!(action(c"user.a/b"), XattrAction::Skip);
        assert_eq!(action(c"user.ab"), XattrAction::Permissions);
        assert_eq!(action(c"user.xy"), XattrAction::Skip);
        assert_eq!(action(c"user.x"), XattrAction::Copy);
        assert_eq!(action(c"user.*"), XattrAction::Skip);
        assert_eq!(action(c"security.selinux"), XattrAction::Copy);
    }

    #[test]
    fn one_wrong_line_spoils_the_list_as_in_libattr() {
        let wrong: [&[u8]; 6] = [
            b"user.a drop\n",
            b"user.a\n",
            b"user.a skip\nuser.b skip",
            b"user.a#x skip\n",
            b"user.a skip x\n",
            b"user.a # skip\n",
        ];
        for text in wrong {
            assert!(XattrRules::parse(text).is_none(), "{:?}", String::from_utf8_lossy(text));
        }
        for text in [&b""[..], b"# only", b"\n \t\n", b"user.a skip\n# end"] {
            assert!(XattrRules::parse(text).is_some(), "{:?}", String::from_utf8_lossy(text));
        }
    }
}
