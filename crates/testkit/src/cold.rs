//! Files whose data is on the disk and not in memory.
//!
//! What was written is brought to the disk, for only clean pages can be dropped, and then dropped from the page cache. That
//! is advice, which a kernel may leave alone: a test that depends on it looks whether it was taken.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use rustix::fs::{Advice, fadvise};

/// Takes the data of a file, or of every file below a directory, out of the page cache.
///
/// # Errors
/// When something cannot be opened, listed or written.
pub fn make(path: &Path) -> io::Result<()> {
    let kind = fs::symlink_metadata(path)?.file_type();
    if kind.is_dir() {
        return fs::read_dir(path)?.try_for_each(|entry| make(&entry?.path()));
    }
    if !kind.is_file() {
        return Ok(());
    }
    let file = File::open(path)?;
    file.sync_all()?;
    Ok(fadvise(&file, 0, None, Advice::DontNeed)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sandbox;

    #[test]
    fn contents_survive_being_dropped() {
        let sandbox = Sandbox::on_disk().unwrap();
        fs::create_dir(sandbox.join("below")).unwrap();
        fs::write(sandbox.join("below/f"), "kept").unwrap();
        std::os::unix::fs::symlink("nowhere", sandbox.join("link")).unwrap();
        make(sandbox.path()).unwrap();
        assert_eq!(fs::read(sandbox.join("below/f")).unwrap(), b"kept");
        assert!(make(&sandbox.join("missing")).is_err());
    }
}
