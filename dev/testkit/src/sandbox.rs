//! A private directory for one test, removed on drop.
//!
//! Most tests work in memory (`/dev/shm`) because they create thousands of small trees. A test that
//! needs a disk file system uses [`Sandbox::on_disk`]. The directory is world-readable, because
//! some tests run the program as another user.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// In-memory directory in which tests work.
pub const MEMORY: &str = "/dev/shm";

/// A directory that is removed on drop.
#[derive(Debug)]
pub struct Sandbox {
    path: PathBuf,
}

impl Sandbox {
    /// Creates a directory in memory, or in the temporary directory if there is no `/dev/shm`.
    pub fn in_memory() -> io::Result<Self> {
        let memory = Path::new(MEMORY);
        if memory.is_dir() { Self::below(memory) } else { Self::on_disk() }
    }

    /// Creates a directory in the temporary directory (`TMPDIR`), usually on the root file system.
    pub fn on_disk() -> io::Result<Self> {
        Self::below(&std::env::temp_dir())
    }

    /// Creates a directory below `parent`.
    pub fn below(parent: &Path) -> io::Result<Self> {
        let path = tempfile::Builder::new().prefix("haul-test-").tempdir_in(parent)?.keep();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(Self { path })
    }

    /// Adopts an existing directory, which is removed on drop.
    pub fn adopt(path: PathBuf) -> Self {
        Self { path }
    }

    /// Runs a shell script in the directory, which stops at the first failing command.
    pub fn script(&self, script: &str) -> io::Result<()> {
        crate::mount::run(Command::new("bash").args(["-ec", script]).current_dir(&self.path)).map(drop)
    }

    /// Returns the directory's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a name in the directory.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        remove_tree(&self.path);
    }
}

/// Removes a tree of any depth, including unwritable directories, as far as possible.
///
/// `rm` descends any number of levels with few descriptors.
pub fn remove_tree(path: &Path) {
    let removed = quietly(Command::new("rm").arg("-rf").arg("--").arg(path));
    if !removed && path.exists() {
        // An ordinary user can't empty directories without write permission.
        quietly(Command::new("chmod").args(["-R", "u+rwx", "--"]).arg(path));
        quietly(Command::new("rm").arg("-rf").arg("--").arg(path));
    }
}

fn quietly(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_is_gone_after_its_test() {
        let sandbox = Sandbox::in_memory().unwrap();
        let path = sandbox.path().to_owned();
        fs::create_dir_all(path.join("a/b")).unwrap();
        fs::set_permissions(path.join("a"), fs::Permissions::from_mode(0o000)).unwrap();
        drop(sandbox);
        assert!(!path.exists());
    }
}
