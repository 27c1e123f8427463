//! Changes to files that their size and modification time don't show.

use std::fs::{self, File, FileTimes};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Changes a byte and restores the old modification time.
pub fn change_quietly(path: &Path) -> io::Result<()> {
    let before = fs::metadata(path)?;
    let file = File::options().write(true).open(path)?;
    file.write_all_at(b"#", before.len() / 2)?;
    file.set_times(FileTimes::new().set_modified(before.modified()?))
}

/// Replaces a file by another of the same size, mode and modification time.
pub fn replace_quietly(path: &Path) -> io::Result<()> {
    let before = fs::metadata(path)?;
    let other = path.with_extension("other");
    let length = usize::try_from(before.len()).map_err(io::Error::other)?;
    fs::write(&other, vec![b'#'; length])?;
    fs::set_permissions(&other, before.permissions())?;
    let times = FileTimes::new().set_modified(before.modified()?);
    File::options().write(true).open(&other)?.set_times(times)?;
    fs::rename(other, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_changes_keep_size_and_time() {
        let sandbox = crate::Sandbox::in_memory().unwrap();
        let path = sandbox.join("file");
        fs::write(&path, "content").unwrap();
        let before = fs::metadata(&path).unwrap();
        for change in [change_quietly, replace_quietly] {
            change(&path).unwrap();
            let now = fs::metadata(&path).unwrap();
            assert_eq!((now.len(), now.modified().unwrap()), (before.len(), before.modified().unwrap()));
            assert_ne!(fs::read(&path).unwrap(), b"content");
        }
    }
}
