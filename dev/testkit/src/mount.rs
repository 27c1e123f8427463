//! File systems for a test, mounted as long as a value lives.
//!
//! An image file in memory is formatted, attached to a loop device and mounted. Right after the
//! mount, the loop device is detached lazily, so that a single `umount` frees everything. Dropping
//! a [`Mount`] unmounts it, even if the test panics. If a test process is killed, its mounts
//! remain. Their directories contain its process ID, and the next mount created removes those whose
//! process is gone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sandbox::MEMORY;
use crate::{needs, wait};

const PREFIX: &str = "haul-mount-";

/// The program that [`Mount::cut_power`] uses, for [`needs::tool`].
pub const POWER_TOOL: &str = "xfs_io";

/// Number of mounts made by this process, for unique directory names.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A mounted file system, unmounted on drop.
#[derive(Debug)]
pub struct Mount {
    folder: PathBuf,
    point: PathBuf,
    /// Type of the file system in the image, if it is in one.
    file_system: String,
}

impl Mount {
    /// Creates and mounts an image of `ext4`, `xfs` or `btrfs`. Check [`needs::loop_mount`] first.
    pub fn image(file_system: &str, bytes: u64) -> io::Result<Self> {
        let mut mount = Self::prepare()?;
        file_system.clone_into(&mut mount.file_system);
        let image = mount.image_path();
        fs::File::create(&image)?.set_len(bytes)?;
        // Only mkfs.ext4 asks before formatting something that isn't a device. It also defaults to
        // 1 KiB blocks on small images, unlike any real disk, which would limit extended
        // attributes to that size.
        let options: &[&str] = if file_system == "ext4" { &["-q", "-F", "-b", "4096"] } else { &["-q"] };
        run(Command::new(tool(&format!("mkfs.{file_system}"))).args(options).arg(&image))?;
        mount.attach()?;
        Ok(mount)
    }

    /// Returns the path of the image, if there is one.
    pub fn image_path(&self) -> PathBuf {
        self.folder.join("image")
    }

    fn attach(&self) -> io::Result<()> {
        let device = run(Command::new(tool("losetup")).args(["--find", "--show"]).arg(self.image_path()))?;
        let device = device.trim();
        let arguments = ["-t", &self.file_system, device];
        let mounted = run(Command::new(tool("mount")).args(arguments).arg(&self.point));
        // The device stays until the file system is unmounted, or goes at once if mounting failed.
        run(Command::new(tool("losetup")).args(["--detach", device]))?;
        mounted.map(drop)
    }

    /// Cuts the power of an ext4 or xfs image, and mounts it again: what is only in memory is lost.
    /// Needs [`POWER_TOOL`]. Nothing on it may be open.
    pub fn cut_power(&self) -> io::Result<()> {
        // Without writing the log back. ext4 takes the same ioctl.
        run(Command::new(tool(POWER_TOOL)).args(["-x", "-c", "shutdown"]).arg(&self.point))?;
        run(Command::new(tool("umount")).arg(&self.point))?;
        // A copy of the mount in another mount namespace keeps the file system alive, and xfs
        // refuses to mount it twice.
        let is_attached = || {
            let devices = run(Command::new(tool("losetup")).arg("--associated").arg(self.image_path()));
            devices.map_or(true, |devices| !devices.trim().is_empty())
        };
        if !wait::until(wait::AFTERMATH_MAX, || !is_attached()) {
            return Err(io::Error::other(format!("{} is still mounted somewhere", self.point.display())));
        }
        self.attach()
    }

    /// Mounts a tmpfs.
    pub fn memory(bytes: u64) -> io::Result<Self> {
        let mount = Self::prepare()?;
        let options = format!("size={bytes}");
        run(Command::new(tool("mount")).args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&mount.point))?;
        Ok(mount)
    }

    /// Mounts an in-memory file system without extended attributes (ramfs).
    pub fn without_attributes() -> io::Result<Self> {
        let mount = Self::prepare()?;
        run(Command::new(tool("mount")).args(["-t", "ramfs", "ramfs"]).arg(&mount.point))?;
        Ok(mount)
    }

    /// Returns the mount point.
    pub fn path(&self) -> &Path {
        &self.point
    }

    /// Returns the path of a name on the file system.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.point.join(name)
    }

    /// Makes the file system read-only from now on.
    pub fn make_read_only(&self) -> io::Result<()> {
        self.remount("ro")
    }

    /// Changes the mount options, like `mount -o remount,...`.
    pub fn remount(&self, options: &str) -> io::Result<()> {
        let options = format!("remount,{options}");
        run(Command::new(tool("mount")).args(["-o", &options]).arg(&self.point)).map(drop)
    }

    /// Returns the number of bytes free for root.
    pub fn free_bytes(&self) -> io::Result<u64> {
        let status = rustix::fs::statvfs(&self.point)?;
        Ok(status.f_bfree * status.f_frsize)
    }

    fn prepare() -> io::Result<Self> {
        let memory = Path::new(MEMORY);
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        remove_orphans(&parent);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
        let point = folder.join("mounted");
        fs::create_dir_all(&point)?;
        Ok(Self { folder, point, file_system: String::new() })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        take_down(&self.folder);
    }
}

fn take_down(folder: &Path) {
    let point = folder.join("mounted");
    if is_mounted(&point) && run(Command::new(tool("umount")).arg(&point)).is_err() {
        // A file there is still open. A lazy unmount hides the mount now, and frees it after
        // the last close.
        if let Err(error) = run(Command::new(tool("umount")).arg("--lazy").arg(&point)) {
            crate::note!("cannot unmount {}: {error}", point.display());
            return;
        }
    }
    for result in [fs::remove_dir(&point), fs::remove_dir_all(folder)] {
        if let Err(error) = result
            && error.kind() != io::ErrorKind::NotFound
        {
            crate::note!("cannot remove {}: {error}", folder.display());
        }
    }
}

fn remove_orphans(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            take_down(&entry.path());
        }
    }
}

/// Returns true if `point` is a mount point.
pub(crate) fn is_mounted(point: &Path) -> bool {
    mounted_below(point).iter().any(|mounted| mounted == point)
}

/// Lists the mount points at and below `folder`, newest first.
pub(crate) fn mounted_below(folder: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = table.lines().rev().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
    points.filter(|point| point.starts_with(folder)).collect()
}

fn tool(name: &str) -> PathBuf {
    needs::find_tool(name).unwrap_or_else(|| PathBuf::from(name))
}

/// Runs a command and returns its standard output. An error contains its standard error.
pub(crate) fn run(command: &mut Command) -> io::Result<String> {
    let output = wait::for_output(command, wait::AFTERMATH_MAX)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(io::Error::other(format!("{command:?}: {}: {}", output.status, said.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_come_and_go() {
        for (file_system, mebibytes) in [("ext4", 24), ("xfs", 320), ("btrfs", 128)] {
            crate::require!(needs::loop_mount(file_system));
            let mount = Mount::image(file_system, mebibytes << 20).unwrap();
            fs::write(mount.join("f"), "here").unwrap();
            assert!(mount.free_bytes().unwrap() < mebibytes << 20);
            let folder = mount.folder.clone();
            drop(mount);
            assert!(!folder.exists());
        }
    }

    #[test]
    fn a_panic_unmounts() {
        crate::require!(needs::root());
        let folder = std::thread::spawn(|| {
            let mount = Mount::memory(1 << 20).unwrap();
            mount.make_read_only().unwrap();
            assert!(fs::write(mount.join("f"), "x").is_err());
            std::panic::panic_any(mount.folder.clone());
        })
        .join()
        .unwrap_err();
        let folder = folder.downcast::<PathBuf>().unwrap();
        assert!(!folder.exists());
    }
}
