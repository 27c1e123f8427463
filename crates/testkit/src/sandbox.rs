//! A private folder for one test, removed at its end.
//!
//! Most tests live in memory (`/dev/shm`) because they make thousands of small trees. A test about a disk file system asks
//! for [`Sandbox::on_disk`]. The folder is readable by everybody, because some tests run the program as another user.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Names the folder in memory where tests work.
pub const MEMORY: &str = "/dev/shm";

/// A folder that is removed when the value is dropped.
#[derive(Debug)]
pub struct Sandbox {
    path: PathBuf,
}

impl Sandbox {
    /// Makes a folder in memory, or in the temporary folder where there is no `/dev/shm`.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn in_memory() -> io::Result<Self> {
        let memory = Path::new(MEMORY);
        if memory.is_dir() { Self::below(memory) } else { Self::on_disk() }
    }

    /// Makes a folder in the temporary folder (`TMPDIR`), which is on the root file system as a rule.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn on_disk() -> io::Result<Self> {
        Self::below(&std::env::temp_dir())
    }

    /// Makes a folder below `parent`.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn below(parent: &Path) -> io::Result<Self> {
        let path = tempfile::Builder::new().prefix("haul-test-").tempdir_in(parent)?.keep();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(Self { path })
    }

    /// Takes a folder that is there, to be removed like one that was made.
    #[must_use]
    pub fn adopt(path: PathBuf) -> Self {
        Self { path }
    }

    /// Runs a script of the shell in the folder, which ends where a command fails.
    ///
    /// # Errors
    /// When there is no shell, or a command failed.
    pub fn script(&self, script: &str) -> io::Result<()> {
        crate::mount::run(Command::new("bash").args(["-ec", script]).current_dir(&self.path)).map(drop)
    }

    /// Gives the folder's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the path of a name inside.
    #[must_use]
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        remove_tree(&self.path);
    }
}

/// Removes a tree of any depth, with directories that forbid it, as far as possible.
///
/// The command `rm` is used because it goes down any number of levels with few descriptors.
pub fn remove_tree(path: &Path) {
    let removed = quietly(Command::new("rm").arg("-rf").arg("--").arg(path));
    if !removed && path.exists() {
        // An ordinary user cannot empty directories whose mode forbids it.
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
