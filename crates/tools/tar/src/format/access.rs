//! Access lists as text: from the kernel's form (`system.posix_acl_access`) to that
//! of `SCHILY.acl.access`.

/// Version of the kernel's form: `POSIX_ACL_XATTR_VERSION` of `linux/posix_acl_xattr.h`.
const VERSION: u32 = 2;

/// Formats an access list, one entry per line; `None` if its form is unknown. `user` and `group`
/// return the names of numbers.
#[must_use]
pub fn access_text(
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

#[cfg(test)]
mod tests {
    use super::*;

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
