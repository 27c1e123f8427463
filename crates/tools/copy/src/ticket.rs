//! Tickets: the data with which another process, or a later run, opens an incomplete target.

use std::ffi::{CStr, CString};

use haul_sys::{Errno, Error, Fd, Open, Operation, Stat, TEMPORARY_PREFIX, Timestamp, open, stat};

/// Identifies a file that is being created, and the source it is a copy of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    /// The target's name, in its directory.
    name: CString,
    /// The source's inode number, size and modification time.
    source: [u64; 4],
    /// The source's change time. A later run requires it to be unchanged; ranks that join do not:
    /// a new name or mode does not make it another file.
    changed: [u64; 2],
    /// The target's inode number.
    target: u64,
    /// Epoch of a target that was there before and that others may write to, so that no later run
    /// trusts its content. A symbolic link of its name is followed.
    epoch: Option<u32>,
}

impl Ticket {
    /// Ticket of a target with a temporary name.
    pub(super) fn temporary(name: CString, source: &Stat, target: &Stat) -> Self {
        let (source, changed) = (fingerprint(source), time(source.changed));
        Self { name, source, changed, target: target.identity.inode, epoch: None }
    }

    /// Ticket of a target that existed before.
    #[cfg(feature = "distributed")]
    pub(super) fn in_place(name: CString, source: &Stat, target: &Stat, epoch: u32) -> Self {
        Self { epoch: Some(epoch), ..Self::temporary(name, source, target) }
    }

    /// Packs it: eight numbers, little-endian, and the name.
    pub(super) fn pack(&self) -> Vec<u8> {
        let Self { name, source, changed, target, epoch } = self;
        // 0 is no epoch: they begin at 1.
        let rest = [*target, u64::from(epoch.unwrap_or(0))];
        let numbers = source.iter().chain(changed).chain(&rest);
        numbers.flat_map(|number| number.to_le_bytes()).chain(name.to_bytes().iter().copied()).collect()
    }

    /// Unpacks a ticket; `None` if the bytes are something else.
    pub(super) fn unpack(packed: &[u8]) -> Option<Self> {
        let (numbers, name) = packed.split_first_chunk::<64>()?;
        let number = |index: usize| u64::from_le_bytes(numbers.as_chunks().0[index]);
        let name =
            CString::new(name).ok().filter(|name| !name.is_empty() && !name.to_bytes().contains(&b'/'))?;
        Some(Self {
            name,
            source: [0, 1, 2, 3].map(number),
            changed: [4, 5].map(number),
            target: number(6),
            epoch: u32::try_from(number(7)).ok().filter(|epoch| *epoch > 0),
        })
    }

    /// True if this is the source, with the same content.
    #[cfg(feature = "distributed")]
    pub(super) fn is_of(&self, source: &Stat) -> bool {
        self.source == fingerprint(source)
    }

    /// True if this is the source, and nothing about it has changed.
    pub(super) fn is_of_unchanged(&self, source: &Stat) -> bool {
        self.source == fingerprint(source) && self.changed == time(source.changed)
    }

    /// True if this is the target, under whatever name.
    pub(super) fn is_of_target(&self, target: &Stat) -> bool {
        self.target == target.identity.inode
    }

    pub(super) fn name(&self) -> &CStr {
        &self.name
    }

    /// Epoch of a target that was there before.
    #[cfg(feature = "distributed")]
    pub(super) fn epoch(&self) -> Option<u32> {
        self.epoch
    }

    pub(super) fn is_temporary(&self) -> bool {
        self.name.to_bytes().starts_with(TEMPORARY_PREFIX.as_bytes())
    }

    /// Opens the target. Another user may own its directory and may have replaced the file.
    ///
    /// # Errors
    /// `ESTALE` if it is not the file that the ticket's writer had open; otherwise the kernel's.
    pub(super) fn open(&self, directory: &Fd, how: Open) -> Result<Fd, Error> {
        let how = if self.epoch.is_some() { how.following() } else { how };
        let file = open(directory, &self.name, how)?;
        match self.is_of_target(&stat(&file)?) {
            true => Ok(file),
            false => Err(Error::new(Operation::Openat, format!("{:?}", self.name), Errno::STALE)),
        }
    }
}

fn fingerprint(source: &Stat) -> [u64; 4] {
    let [seconds, nanoseconds] = time(source.modified);
    [source.identity.inode, source.size, seconds, nanoseconds]
}

fn time(time: Timestamp) -> [u64; 2] {
    [time.seconds.cast_unsigned(), u64::from(time.nanoseconds)]
}
