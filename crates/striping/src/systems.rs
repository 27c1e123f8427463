//! Detection of file systems that stripe files.
//!
//! Detection uses the file system type, which takes one call, and never an attribute alone:
//! ceph-fuse answers to `lustre.lov` as a Lustre with the default layout would. The result is
//! cached for each device, so each is queried once in a run.

use std::sync::{PoisonError, RwLock};

use haul_sys::{Fd, file_system_type, magic, mount_type};

/// Mount type of ceph-fuse.
const CEPH_IN_USER_SPACE: &[u8] = b"fuse.ceph-fuse";
/// For tests only. With the value `lustre`, file systems in user space count as Lustre, so that one
/// can stand in for it.
const STAND_IN: &str = "HAUL_TEST_STRIPED";

/// Striping interface of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Striped {
    /// Not at all, or in an unknown way.
    No,
    /// Like Lustre.
    Lustre,
    /// Like CephFS.
    Ceph,
}

/// The file systems that a run has met.
#[derive(Debug)]
pub struct FileSystems {
    known: RwLock<Vec<(u64, Striped)>>,
    stand_in: bool,
}

impl Default for FileSystems {
    fn default() -> Self {
        let stand_in = std::env::var_os(STAND_IN).is_some_and(|kind| kind == "lustre");
        Self { known: RwLock::default(), stand_in }
    }
}

impl FileSystems {
    /// Returns how the file system of `file` stripes files. `device` is the file's device.
    #[must_use]
    pub fn striped(&self, file: &Fd, device: u64) -> Striped {
        let find =
            |known: &[(u64, Striped)]| known.iter().find(|(met, _)| *met == device).map(|(_, how)| *how);
        if let Some(how) = find(&self.known.read().unwrap_or_else(PoisonError::into_inner)) {
            return how;
        }
        // Not under the lock: a remote file system may take its time to answer.
        let how = self.look(file, device);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if find(&known).is_none() {
            known.push((device, how));
        }
        how
    }

    /// Determines the kind of file system. One that doesn't even report its type counts as
    /// not striped.
    fn look(&self, file: &Fd, device: u64) -> Striped {
        match file_system_type(file) {
            Ok(magic::LUSTRE) => Striped::Lustre,
            Ok(magic::CEPH) => Striped::Ceph,
            Ok(magic::FUSE)
                if mount_type(device).is_ok_and(|name| name.as_deref() == Some(CEPH_IN_USER_SPACE)) =>
            {
                Striped::Ceph
            }
            Ok(magic::FUSE) if self.stand_in => Striped::Lustre,
            _ => Striped::No,
        }
    }
}

#[cfg(test)]
mod tests {
    use haul_sys::{Open, open_path, stat};

    use super::*;

    #[test]
    fn an_ordinary_file_system_is_not_striped_and_asked_once() {
        let file = open_path(c"/proc", Open::DIRECTORY).unwrap();
        let device = stat(&file).unwrap().identity.device;
        let systems = FileSystems { known: RwLock::default(), stand_in: true };
        assert_eq!(systems.striped(&file, device), Striped::No);
        systems.known.write().unwrap()[0].1 = Striped::Lustre;
        assert_eq!(systems.striped(&file, device), Striped::Lustre);
    }
}
