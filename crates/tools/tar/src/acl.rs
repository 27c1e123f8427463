//! Access lists: between the kernel's form (`system.posix_acl_access`) and the text of extended
//! headers (`SCHILY.acl.access`).

/// Version of the kernel's form: `POSIX_ACL_XATTR_VERSION` of `linux/posix_acl_xattr.h`.
const VERSION: u32 = 2;
/// Number in entries that name nobody (`ACL_UNDEFINED_ID`).
const NOBODY: u32 = u32::MAX;
/// Maximum entries of one list: more than any file system accepts.
const ENTRIES_MAX: usize = 8192;

/// Formats an access list, one entry per line; `None` if its form is unknown. `user` and `group`
/// return the names of numbers.
pub(crate) fn access_text(
    list: &[u8],
    user: impl Fn(u32) -> Option<Vec<u8>>,
    group: impl Fn(u32) -> Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    let (version, entries) = list.split_first_chunk()?;
    if u32::from_le_bytes(*version) != VERSION || entries.len() % 8 != 0 {
        return None;
    }
    let mut text = Vec::new();
    for entry in entries.chunks_exact(8) {
        let number = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        let named = |name: Option<Vec<u8>>| name.unwrap_or_else(|| number.to_string().into_bytes());
        let (begin, qualifier): (&[u8], _) = match u16::from_le_bytes([entry[0], entry[1]]) {
            0x01 => (b"user", Vec::new()),
            0x02 => (b"user", named(user(number))),
            0x04 => (b"group", Vec::new()),
            0x08 => (b"group", named(group(number))),
            0x10 => (b"mask", Vec::new()),
            0x20 => (b"other", Vec::new()),
            _ => return None,
        };
        let rights = [(4, b'r'), (2, b'w'), (1, b'x')]
            .map(|(bit, letter)| if entry[2] & bit == 0 { b'-' } else { letter });
        text.extend([begin, b":", &qualifier, b":", &rights, b"\n"].concat());
    }
    Some(text)
}

pub(crate) trait NameLookup {
    fn user(&self, name: &[u8]) -> Option<u32>;
    fn group(&self, name: &[u8]) -> Option<u32>;
}

/// Converts a list to the kernel's form. Entries are separated by commas or newlines; each is a
/// tag, a name or number, permissions, and optionally a number. `None` if the text is not a list,
/// or names somebody unknown here.
pub(crate) fn kernel_form(text: &[u8], names: &impl NameLookup) -> Option<Vec<u8>> {
    let mut entries = Vec::new();
    for entry in text.split(|byte| matches!(byte, b',' | b'\n')) {
        let entry = entry.split(|byte| *byte == b'#').next().unwrap_or_default().trim_ascii();
        if !entry.is_empty() {
            entries.push(read(entry, names)?);
        }
    }
    if entries.is_empty() || entries.len() > ENTRIES_MAX {
        return None;
    }
    // The kernel requires them in the order of their tags, then of their numbers.
    entries.sort_unstable();
    let mut list = VERSION.to_le_bytes().to_vec();
    for (tag, id, rights) in entries {
        list.extend_from_slice(&tag.to_le_bytes());
        list.extend_from_slice(&rights.to_le_bytes());
        list.extend_from_slice(&id.to_le_bytes());
    }
    Some(list)
}

/// Parses one entry: tag, number and permissions, as the kernel numbers them.
fn read(entry: &[u8], names: &impl NameLookup) -> Option<(u16, u32, u16)> {
    let mut fields = entry.split(|byte| *byte == b':').map(<[u8]>::trim_ascii);
    let (tag, who, rights) = (fields.next()?, fields.next()?, fields.next());
    // `mask` and `other` are written with one colon or two.
    let (who, rights) = match rights {
        Some(rights) => (who, rights),
        None if matches!(tag, b"mask" | b"m" | b"other" | b"o") => (&b""[..], who),
        None => return None,
    };
    let number = fields.next().and_then(decimal);
    let rights = rights.iter().try_fold(0_u16, |bits, byte| match byte {
        b'r' => Some(bits | 4),
        b'w' => Some(bits | 2),
        b'x' => Some(bits | 1),
        b'-' => Some(bits),
        _ => None,
    })?;
    let id = |found: Option<u32>| found.or(number).or_else(|| decimal(who));
    Some(match (tag, who) {
        (b"user" | b"u", b"") => (0x01, NOBODY, rights),
        (b"user" | b"u", name) => (0x02, id(names.user(name))?, rights),
        (b"group" | b"g", b"") => (0x04, NOBODY, rights),
        (b"group" | b"g", name) => (0x08, id(names.group(name))?, rights),
        (b"mask" | b"m", b"") => (0x10, NOBODY, rights),
        (b"other" | b"o", b"") => (0x20, NOBODY, rights),
        _ => return None,
    })
}

fn decimal(digits: &[u8]) -> Option<u32> {
    crate::read::sparse::decimal(digits).and_then(|value| u32::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct KnownNames;

    impl NameLookup for KnownNames {
        fn user(&self, name: &[u8]) -> Option<u32> {
            (name == b"lisa").then_some(500)
        }
        fn group(&self, _: &[u8]) -> Option<u32> {
            None
        }
    }

    #[test]
    fn a_list_is_made_in_the_kernels_order() {
        let text = b"other::r--,user::rw-,user:lisa:r-x:7,group::r--,group:12:-w-,mask:rwx";
        let entry = |tag: u8, rights: u8, id: u32| [&[tag, 0, rights, 0][..], &id.to_le_bytes()].concat();
        let expected = [
            vec![2, 0, 0, 0],
            entry(1, 6, NOBODY),
            entry(2, 5, 500),
            entry(4, 4, NOBODY),
            entry(8, 2, 12),
            entry(16, 7, NOBODY),
            entry(32, 4, NOBODY),
        ];
        assert_eq!(kernel_form(text, &KnownNames), Some(expected.concat()));
        assert_eq!(
            kernel_form(b"user::rw-\ngroup::r-- # words\nother::---\n", &KnownNames).unwrap().len(),
            4 + 24
        );
    }

    #[test]
    fn what_is_no_list_is_none() {
        for text in [
            &b""[..],
            b"user",
            b"user:",
            b"user:nobody-here:rwx",
            b"user::q",
            b"x::rwx",
            b"mask:1:rwx",
            b"\0",
        ] {
            assert_eq!(kernel_form(text, &KnownNames), None, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn a_list_is_written_as_lines() {
        let mut list = VERSION.to_le_bytes().to_vec();
        for (tag, rights, number) in
            [(1_u16, 6_u16, u32::MAX), (2, 4, 1000), (8, 5, 7), (16, 7, u32::MAX), (32, 0, 0)]
        {
            list.extend([tag.to_le_bytes(), rights.to_le_bytes()].concat());
            list.extend(number.to_le_bytes());
        }
        let text = access_text(&list, |_| Some(b"someone".to_vec()), |_| None);
        let wanted = b"user::rw-\nuser:someone:r--\ngroup:7:r-x\nmask::rwx\nother::---\n";
        assert_eq!(text.as_deref(), Some(wanted.as_slice()));
        assert_eq!(access_text(&list[..9], |_| None, |_| None), None);
        assert_eq!(access_text(&[0; 12], |_| None, |_| None), None);
    }
}
