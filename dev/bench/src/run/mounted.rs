//! A file system that is already mounted, once per client (`--mounts`): CephFS, Lustre, or any
//! other shared file system.
//!
//! The only assumption is that all mounts show the same files. The study works in a directory of
//! its own, which is removed at the end. The kernel's caches are dropped before a run; the caches
//! of a client in user space are out of reach.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use haul_sys::mount_type;

use crate::error::{Error, Result};

/// Definitions for the report: a cold cache, and a rate.
pub(crate) const COLD: &str = "what the kernel held in memory was dropped before every run (clients in user space may hold more); every \
     copy was read back and compared; a rate is that until every client has synchronised every file of the copy";

/// Describes the file system the study runs on.
pub(crate) fn place(mounts: &[PathBuf]) -> String {
    let first = mounts.first().map(PathBuf::as_path).unwrap_or(Path::new(""));
    let kind = fs::metadata(first).ok().and_then(|found| mount_type(found.dev()).ok().flatten());
    let kind = kind.map_or_else(|| "unknown type".into(), |kind| String::from_utf8_lossy(&kind).into_owned());
    format!(
        "a file system of {kind} at {}, {} mounts in all, one for each client; what it can do at most is not known",
        first.display(),
        mounts.len()
    )
}

/// Refuses paths that cannot be accessed, and two paths to the same mount.
pub(crate) fn check(mounts: &[PathBuf]) -> Result<()> {
    let mut devices: Vec<(u64, &Path)> = Vec::new();
    for mount in mounts {
        let device = fs::metadata(mount).map_err(Error::doing("look at", mount))?.dev();
        if let Some((_, known)) = devices.iter().find(|(known, _)| *known == device) {
            return Err(Error::Refused(format!(
                "--mounts: {} and {} are one mount, and each client needs its own",
                known.display(),
                mount.display()
            )));
        }
        devices.push((device, mount));
    }
    Ok(())
}

/// Creates a directory on the first mount, and checks that the others show it.
pub(crate) fn make_directory(mounts: &[PathBuf]) -> Result<PathBuf> {
    let Some(first) = mounts.first() else { return Err(Error::Refused("--mounts names none".to_owned())) };
    let made = tempfile::Builder::new().prefix("haul-bench-").tempdir_in(first);
    let made = made.map_err(Error::doing("create a directory in", first))?;
    let name = made.path().file_name().unwrap_or_default().to_owned();
    if let Some(other) = mounts.iter().find(|mount| !mount.join(&name).is_dir()) {
        return Err(Error::Refused(format!(
            "--mounts: what is made in {} is not seen in {}",
            first.display(),
            other.display()
        )));
    }
    Ok(made.keep())
}

pub(crate) fn drop_caches() -> Result<()> {
    let switch = Path::new("/proc/sys/vm/drop_caches");
    fs::write(switch, "3").map_err(Error::doing("write", switch))
}

/// Synchronises everything each client wrote of a tree, all clients at once. `roots` are the tree
/// as each client sees it.
pub(crate) fn synchronise(roots: &[PathBuf]) -> Result<()> {
    std::thread::scope(|scope| {
        let clients: Vec<_> = roots.iter().map(|root| scope.spawn(|| synchronise_tree(root))).collect();
        clients.into_iter().try_for_each(|client| match client.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

fn synchronise_tree(path: &Path) -> Result<()> {
    let file = File::open(path).map_err(Error::doing("open", path))?;
    let found = file.metadata().map_err(Error::doing("look at", path))?;
    if found.is_dir() {
        for entry in fs::read_dir(path).map_err(Error::doing("list", path))? {
            synchronise_tree(&entry.map_err(Error::doing("list", path))?.path())?;
        }
    }
    file.sync_all().map_err(Error::doing("synchronise", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_mount_twice_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mounts = [folder.path().to_owned(), folder.path().join(".")];
        assert!(check(&mounts[..1]).is_ok());
        let refusal = check(&mounts).unwrap_err().to_string();
        assert!(refusal.contains("are one mount, and each client needs its own"), "{refusal}");
    }

    #[test]
    fn mounts_of_two_file_systems_are_refused_and_nothing_is_left() {
        let [one, other] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let mounts = [one.path().to_owned(), other.path().to_owned()];
        let refusal = make_directory(&mounts).unwrap_err().to_string();
        assert!(refusal.contains("is not seen in"), "{refusal}");
        assert_eq!(fs::read_dir(one.path()).unwrap().count(), 0);
        let made = make_directory(&mounts[..1]).unwrap();
        assert_eq!(made.parent(), Some(one.path()));
    }

    #[test]
    fn every_client_synchronises_what_it_sees() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("below")).unwrap();
        fs::write(folder.path().join("below/file"), "content").unwrap();
        let roots = [folder.path().to_owned(), folder.path().join("below")];
        assert!(synchronise(&roots).is_ok());
        assert!(synchronise(&[roots[0].clone(), folder.path().join("missing")]).is_err());
    }
}
