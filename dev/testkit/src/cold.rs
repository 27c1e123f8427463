//! Evicts files from the page cache.
//!
//! Written data is flushed to disk first, because only clean pages can be dropped. Dropping them is
//! advice that the kernel may ignore: a test that depends on it checks that it worked.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use rustix::fs::{Advice, fadvise};

/// Evicts a file, or every file below a directory, from the page cache.
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
