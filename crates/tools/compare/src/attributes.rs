//! Compares attributes: mode, owner, times, extended attributes, holes.

use std::collections::BTreeMap;
use std::ffi::CStr;

use haul_flow::{Context, Entry};
use haul_striping::{FileSystems, is_placement};
use haul_sys::{Errno, Error, Fd, FileRef, FileType, Seek, Stat, seek};

use super::CompareKind;
use super::Comparer;
use super::counterpart::{StatPair, difference, second_path};
use super::difference::{FoundDifference, Has, Side, What};
use super::options::Attributes;

/// The SELinux label, which is not compared: a copy gets the label of its location.
const SECURITY_LABEL: &CStr = c"security.selinux";

type Xattrs = BTreeMap<Vec<u8>, Vec<u8>>;

/// Reads the extended attributes to compare: not the SELinux label, nor those that hold a file's
/// layout.
fn read_xattrs(file: FileRef<'_>, systems: &FileSystems, device: u64) -> Result<Xattrs, Error> {
    let names = file.list_xattrs()?;
    let how = systems.striped(file.descriptor(), device);
    let mut xattrs = Xattrs::new();
    for key in names.iter() {
        if key == SECURITY_LABEL || is_placement(how, key) {
            continue;
        }
        match file.get_xattr(key) {
            Ok(value) => {
                xattrs.insert(key.to_bytes().to_vec(), value);
            }
            // Removed since it was listed.
            Err(cause) if cause.is(Errno::NODATA) => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(xattrs)
}

impl Comparer {
    /// Compares the requested attributes of an entry and its counterpart. Those that are not in
    /// `pair` are skipped for a file that is not held.
    pub(super) fn attributes(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        pair: &StatPair,
        [first, second]: [Option<FileRef<'_>>; 2],
    ) -> Vec<FoundDifference> {
        let asked = self.options.attributes;
        if asked.is_empty() {
            return Vec::new();
        }
        let mut differences = Vec::new();
        of_stat(asked, pair, |what| differences.push(difference(entry, what)));
        let trouble = |kind: CompareKind, path: Vec<u8>, cause: Error| Self::trouble(cx, kind, path, cause);
        if asked.contains(Attributes::XATTR) {
            let read = |file: Option<FileRef<'_>>, device| {
                file.map_or(Ok(Xattrs::new()), |file| read_xattrs(file, &self.systems, device))
            };
            let xattrs = (read(first, pair.first.identity.device), read(second, pair.second.identity.device));
            match xattrs {
                (Ok(first), Ok(second)) => {
                    of_xattrs(&first, &second, |what| differences.push(difference(entry, what)));
                }
                (Err(cause), _) => trouble(CompareKind::CannotReadXattrs, entry.path(), cause),
                (_, Err(cause)) => trouble(CompareKind::CannotReadXattrs, second_path(entry), cause),
            }
        }
        if let (true, Some(FileRef::Open(first)), Some(FileRef::Open(second))) =
            (asked.contains(Attributes::HOLES), first, second)
            && pair.first.kind == FileType::Regular
        {
            match holes_differ((first, second), pair.first.size.min(pair.second.size)) {
                Ok(None) => {}
                Ok(Some(at)) => differences.push(difference(entry, What::Holes(at))),
                Err(cause) => trouble(CompareKind::ErrorReading, entry.path(), cause),
            }
        }
        differences
    }
}

/// Compares the attributes in two `stat` results.
fn of_stat(asked: Attributes, StatPair { first, second }: &StatPair, mut emit: impl FnMut(What)) {
    let both = |of: fn(&Stat) -> (u32, u32)| (of(first), of(second));
    // The mode of a symbolic link is meaningless.
    if asked.contains(Attributes::MODE) && first.kind != FileType::Symlink && first.mode != second.mode {
        emit(What::Mode(first.mode.bits(), second.mode.bits()));
    }
    let (first_owner, second_owner) = both(|stat| (stat.owner, stat.group));
    if asked.contains(Attributes::OWNERSHIP) && first_owner != second_owner {
        emit(What::Owner(first_owner, second_owner));
    }
    if asked.contains(Attributes::TIMESTAMPS) && first.modified != second.modified {
        let [first, second] = [first, second].map(|stat| (stat.modified.seconds, stat.modified.nanoseconds));
        emit(What::Modified(first, second));
    }
}

fn of_xattrs(first: &Xattrs, second: &Xattrs, mut emit: impl FnMut(What)) {
    for (key, value) in first {
        match second.get(key) {
            None => emit(What::Xattr(key.clone(), Has::Only(Side::First))),
            Some(other) if other != value => emit(What::Xattr(key.clone(), Has::Both)),
            Some(_) => {}
        }
    }
    for key in second.keys().filter(|key| !first.contains_key(*key)) {
        emit(What::Xattr(key.clone(), Has::Only(Side::Second)));
    }
}

/// Returns the first byte that is in a hole of only one of two files.
fn holes_differ((first, second): (&Fd, &Fd), size: u64) -> Result<Option<u64>, Error> {
    let mut position = 0;
    let mut what = Seek::Data;
    while position < size {
        let (one, other) = (next(first, what, position, size)?, next(second, what, position, size)?);
        if one != other {
            return Ok(Some(one.min(other)));
        }
        position = one;
        what = if matches!(what, Seek::Data) { Seek::Hole } else { Seek::Data };
    }
    Ok(None)
}

/// Returns the start of the next data or hole. If the file system doesn't know, everything is data.
pub(super) fn next(file: &Fd, what: Seek, position: u64, size: u64) -> Result<u64, Error> {
    match seek(file, what, position) {
        Ok(entry) => Ok(entry.unwrap_or(size).min(size)),
        Err(cause) if cause.is(Errno::INVAL) || cause.is(Errno::OPNOTSUPP) => {
            Ok(if matches!(what, Seek::Data) { position } else { size })
        }
        Err(cause) => Err(cause),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_of_one_side_and_other_values_are_told() {
        let of = |pairs: &[(&[u8], &[u8])]| -> Xattrs {
            pairs.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
        };
        let mut emitted = Vec::new();
        of_xattrs(
            &of(&[(b"a", b"1"), (b"b", b"1"), (b"c", b"1")]),
            &of(&[(b"b", b"1"), (b"c", b"2"), (b"d", b"")]),
            |what| {
                emitted.push(what);
            },
        );
        let wanted = [
            What::Xattr(b"a".to_vec(), Has::Only(Side::First)),
            What::Xattr(b"c".to_vec(), Has::Both),
            What::Xattr(b"d".to_vec(), Has::Only(Side::Second)),
        ];
        assert_eq!(emitted, wanted);
    }
}
