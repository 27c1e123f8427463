//! A control group with a memory limit.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::{TestRun, wait};

/// Where the groups of version 1 and of version 2 are.
const VERSIONS: [(&str, &str); 2] =
    [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];

/// A control group, removed on drop.
#[derive(Debug)]
pub struct MemoryGroup {
    folder: PathBuf,
}

impl MemoryGroup {
    /// Creates a group that may use so many bytes of memory.
    pub fn new(bytes: u64) -> io::Result<Self> {
        let mut refused = io::Error::other("no control groups");
        for (mount, limit) in VERSIONS {
            // In version 2, limits have to be enabled for groups below the root.
            fs::write(Path::new(mount).join("cgroup.subtree_control"), "+memory").unwrap_or_default();
            let folder = Path::new(mount).join(format!("haul-test-{}", std::process::id()));
            match fs::create_dir(&folder) {
                Err(error) => refused = error,
                Ok(()) => {
                    let group = Self { folder };
                    match fs::write(group.folder.join(limit), bytes.to_string()) {
                        Ok(()) => return Ok(group),
                        Err(error) => refused = error,
                    }
                }
            }
        }
        Err(refused)
    }

    /// Returns the run, to take place in this group.
    pub fn around(&self, run: TestRun) -> TestRun {
        let enter = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", self.folder.display());
        run.behind(Path::new("/bin/sh"), ["-c", &enter, "sh"].map(OsString::from).into())
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // The kernel refuses while it is still ending the group's last process.
        wait::until(std::time::Duration::from_secs(5), || fs::remove_dir(&self.folder).is_ok());
    }
}
