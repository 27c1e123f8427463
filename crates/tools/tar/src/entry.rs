//! Entries that become members, and the values of their headers.

use std::ffi::CString;
use std::sync::{Arc, Mutex, OnceLock};

use haul_flow::{DirHandle, FileKey, lock};
use haul_sys::{Mode, Stat};

use super::format::{FormatMisfit, HeaderFields, MemberKind, SparseMap, encode};
use super::options::{Options, Represented};

pub(super) struct TarEntry {
    pub(super) name: CString,
    pub(super) stat: Stat,
    pub(super) kind: MemberKind,
    /// True if the name is a symbolic link that was followed.
    pub(super) followed: bool,
    /// Length of its headers, in bytes.
    pub(super) header_bytes: u32,
    pub(super) extra: Option<Box<Extra>>,
    /// Contents, if it is a directory that is visited.
    pub(super) listing: Option<Arc<DirectoryListing>>,
}

/// Attributes that few entries have.
#[derive(Clone, Debug, Default)]
pub(super) struct Extra {
    pub(super) link: Vec<u8>,
    /// Extended attributes and access lists, as extended header records.
    pub(super) records: Vec<(Vec<u8>, Vec<u8>)>,
    /// Data ranges, and the same as text, if the file is stored without its holes.
    pub(super) map: Option<(SparseMap, Vec<u8>)>,
}

/// A directory that was visited, or the parent directory of an operand.
pub(super) struct DirectoryListing {
    /// Path before the names in it, as the user would write it.
    pub(super) prefix: Vec<u8>,
    /// Bytes of the prefix that are not in members' names; `None` in an operand's parent, where it
    /// depends on the operand.
    pub(super) stripped: Option<usize>,
    /// True if directories in it are archived without their contents.
    pub(super) no_recursion: bool,
    /// Device that the operand is on, once known.
    pub(super) device: OnceLock<u64>,
    /// Handle of the directory, once everything in it was examined.
    pub(super) held: OnceLock<Arc<DirHandle>>,
    /// Number in the order of the one-pass writer (`order.rs`).
    pub(super) number: OnceLock<usize>,
    pub(super) entries: Mutex<Vec<TarEntry>>,
}

impl DirectoryListing {
    pub(super) fn operand_parent(prefix: &[u8]) -> Self {
        Self {
            prefix: prefix.to_vec(),
            stripped: None,
            no_recursion: false,
            device: OnceLock::new(),
            held: OnceLock::new(),
            number: OnceLock::new(),
            entries: Mutex::default(),
        }
    }

    pub(super) fn add(&self, entry: TarEntry) {
        lock(&self.entries).push(entry);
    }
}

impl TarEntry {
    /// Creates an entry; `None` if its type cannot be archived.
    pub(super) fn new(name: CString, stat: Stat) -> Option<Self> {
        let kind = MemberKind::of_file(stat.kind)?;
        Some(Self { name, stat, kind, followed: false, header_bytes: 0, extra: None, listing: None })
    }

    /// Returns its data ranges, if it is stored without its holes.
    pub(super) fn map(&self) -> Option<&(SparseMap, Vec<u8>)> {
        self.extra.as_ref()?.map.as_ref()
    }

    /// Returns the number of bytes stored after its headers.
    pub(super) fn stored_bytes(&self) -> u64 {
        match (self.kind, self.map()) {
            (MemberKind::Regular, Some((map, text))) => map.stored_bytes(text.len()),
            (MemberKind::Regular, None) => self.stat.size,
            _ => 0,
        }
    }

    /// True if the file has other names, which may be members as well.
    pub(super) fn may_be_linked(&self) -> bool {
        self.kind != MemberKind::Directory && self.stat.links > 1
    }

    /// Returns a key that distinguishes its file from all others in the run.
    pub(super) fn file_key(&self) -> FileKey {
        FileKey::from(&self.stat)
    }

    /// Makes it a hard link to an earlier member.
    pub(super) fn link_to(&mut self, member: Vec<u8>) {
        let records = self.extra.take().map(|extra| extra.records).unwrap_or_default();
        self.kind = MemberKind::HardLink;
        self.extra = Some(Box::new(Extra { link: member, records, map: None }));
    }

    pub(super) fn link(&self) -> &[u8] {
        self.extra.as_ref().map(|extra| extra.link.as_slice()).unwrap_or_default()
    }

    /// Returns its mode in the archive.
    pub(super) fn mode(&self, options: &Options) -> Mode {
        let is_directory = self.kind == MemberKind::Directory;
        // Without the type bits: only the low twelve bits are a mode.
        let changed =
            options.mode.iter().fold(self.stat.mode, |mode, change| change.apply(mode, is_directory));
        changed.and(Mode::new(0o7777))
    }

    pub(super) fn encode(
        &self,
        path: &[u8],
        options: &Options,
        owners: &OwnerNames,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatMisfit> {
        let (owner, owner_name) = owners.owner(self.stat.owner);
        let (group, group_name) = owners.group(self.stat.group);
        let extra = self.extra.as_deref();
        let member = HeaderFields {
            path,
            kind: self.kind,
            mode: self.mode(options).bits(),
            owner,
            group,
            owner_name,
            group_name,
            size: self.stored_bytes(),
            sparse_size: self.map().map(|(map, _)| map.size),
            modified: options.modified.unwrap_or(self.stat.modified),
            link: self.link(),
            device: self.stat.device_number,
            records: extra.map(|extra| extra.records.as_slice()).unwrap_or_default(),
        };
        encode(options.format, &member, out)
    }

    /// Computes the length of its headers.
    pub(super) fn measure(
        &mut self,
        path: &[u8],
        options: &Options,
        owners: &OwnerNames,
    ) -> Result<(), FormatMisfit> {
        let mut headers = Vec::with_capacity(1536);
        self.encode(path, options, owners, &mut headers)?;
        self.header_bytes = headers.len() as u32;
        Ok(())
    }
}

/// Names of users or groups by number, each looked up once. The chains only grow, so reading them
/// needs no lock.
struct NameCache([OnceLock<Box<InternedName>>; CHAINS]);

/// Number of chains. Most trees have fewer users, so a name is usually the first in its chain.
const CHAINS: usize = 1024;

/// A name, and the rest of its chain.
struct InternedName {
    number: u32,
    name: Vec<u8>,
    next: OnceLock<Box<InternedName>>,
}

impl Drop for InternedName {
    fn drop(&mut self) {
        // Iterative, because a chain can be longer than the stack is deep.
        let mut next = self.next.take();
        while let Some(mut name) = next {
            next = name.next.take();
        }
    }
}

impl NameCache {
    fn new() -> Self {
        Self([const { OnceLock::new() }; CHAINS])
    }

    /// Returns a name, which is empty if the number has none.
    fn name(&self, number: u32, ask: impl Fn(u32) -> Option<Vec<u8>>) -> &[u8] {
        let new = || {
            Box::new(InternedName { number, name: ask(number).unwrap_or_default(), next: OnceLock::new() })
        };
        let mut entry = self.0[number as usize % CHAINS].get_or_init(new);
        while entry.number != number {
            entry = entry.next.get_or_init(new);
        }
        &entry.name
    }
}

/// Owners of members: names by number, and the owners that replace them.
pub(super) struct OwnerNames {
    users: NameCache,
    groups: NameCache,
    owner: Option<Represented>,
    group: Option<Represented>,
    numbers_only: bool,
}

impl OwnerNames {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            users: NameCache::new(),
            groups: NameCache::new(),
            owner: options.owner.clone(),
            group: options.group.clone(),
            numbers_only: options.numeric_owner,
        }
    }

    /// Returns the number and name of a file's owner in the archive.
    pub(super) fn owner(&self, number: u32) -> (u32, &[u8]) {
        self.represented(number, self.owner.as_ref(), |number| self.users.name(number, haul_sys::user_name))
    }

    /// Returns the number and name of a file's group in the archive.
    pub(super) fn group(&self, number: u32) -> (u32, &[u8]) {
        self.represented(number, self.group.as_ref(), |number| self.groups.name(number, haul_sys::group_name))
    }

    fn represented<'a>(
        &'a self,
        number: u32,
        instead: Option<&'a Represented>,
        name: impl FnOnce(u32) -> &'a [u8],
    ) -> (u32, &'a [u8]) {
        let shown = instead.and_then(|instead| instead.number).unwrap_or(number);
        match instead {
            _ if self.numbers_only => (shown, b""),
            Some(Represented { name, .. }) => (shown, name),
            None => (shown, name(number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn each_name_is_asked_for_once() {
        let (names, asked) = (NameCache::new(), Cell::new(0));
        let ask = |number| {
            asked.set(asked.get() + 1);
            (number % 2 == 0).then(|| format!("user {number}").into_bytes())
        };
        // All but the last are in one chain.
        for number in [7, 7 + CHAINS as u32, 7 + 7 * CHAINS as u32, 8].repeat(2) {
            let name = if number % 2 == 0 { format!("user {number}") } else { String::new() };
            assert_eq!(names.name(number, ask), name.as_bytes());
        }
        assert_eq!(asked.get(), 4);
    }

    #[test]
    fn a_long_chain_ends_without_calls_as_deep() {
        let before = |next| InternedName { number: 0, name: Vec::new(), next };
        let chain =
            (0..1_000_000).fold(before(OnceLock::new()), |name, _| before(OnceLock::from(Box::new(name))));
        drop(chain);
    }
}
