//! Selects the xattrs a copy gets, from `/etc/xattr.conf`, the file that libattr and so GNU
//! cp read.
//!
//! A line has a pattern (`fnmatch`, no flags) and `skip` or `permissions`; `#` starts a comment
//! between words. The last matching line wins, and an unmatched xattr is copied. libattr rejects
//! the whole file for one bad line, or a missing final newline, and then copies every xattr.

use std::ffi::{CStr, CString};

use super::object::{ACCESS_LIST, DEFAULT_ACCESS_LIST};
use haul_sys::{Errno, Error, Operation, matches_pattern, read_path};

/// Path of the file.
pub(super) const PATH: &CStr = c"/etc/xattr.conf";

/// Maximum size of the file, in bytes.
const LIST_BYTES_MAX: usize = 1 << 20;

/// The xattrs of a source that its copy gets, with ACLs kept apart.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct SourceXattrs {
    pub(super) plain: Vec<(CString, Vec<u8>)>,
    pub(super) access_list: Option<Vec<u8>>,
    pub(super) default_access_list: Option<Vec<u8>>,
    /// Other kinds of ACLs: they belong to the mode.
    pub(super) permissions: Vec<(CString, Vec<u8>)>,
    /// True if an ACL could not be read, which was reported.
    pub(super) lacks_permissions: bool,
    /// True if some could not be listed or read: the source may have what the target has.
    pub(super) is_incomplete: bool,
}

impl SourceXattrs {
    pub(super) fn is_empty(&self) -> bool {
        self.plain.is_empty()
            && self.permissions.is_empty()
            && self.access_list.is_none()
            && self.default_access_list.is_none()
            && !self.lacks_permissions
    }

    /// Returns all of them, with their names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&CStr, &[u8])> {
        let lists = [(ACCESS_LIST, &self.access_list), (DEFAULT_ACCESS_LIST, &self.default_access_list)];
        let lists = lists.into_iter().filter_map(|(key, list)| Some((key, list.as_deref()?)));
        let others = self.plain.iter().chain(&self.permissions);
        others.map(|(key, value)| (key.as_c_str(), value.as_slice())).chain(lists)
    }
}

/// Treatment of an xattr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum XattrAction {
    /// Copy it if xattrs are preserved.
    Copy,
    /// Never copy it.
    Skip,
    /// Copy it after the mode, if that is preserved: it is a file system's ACL.
    Permissions,
}

/// The parsed rules.
#[derive(Debug, Default)]
pub(super) struct XattrRules(Vec<(CString, XattrAction)>);

impl XattrRules {
    /// Reads the file; a missing one has no rules.
    ///
    /// # Errors
    /// The kernel's, or `EINVAL` for a bad line.
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
        // Text after the last newline may be a comment, but not a rule.
        without_comment(unended).filter(Vec::is_empty)?;
        Some(Self(rules))
    }

    /// Returns the action for the xattr `key`.
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

/// Splits a line into words, up to a comment. `None` if the comment starts inside the pattern.
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
