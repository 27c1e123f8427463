//! Checks for what a test requires of the machine.
//!
//! Each function returns `None` if the need is met, or the reason to skip,
//! for [`require!`](crate::require).

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A generous bound on the AIO operations of all tests that run concurrently.
const AIO_OPERATIONS: u64 = 16_384;

/// A program for `python3 -c`, with arguments `DIRECTORY COMMAND...`: runs a command that can list
/// this directory, what is below it, and no other; or do there only what `LANDLOCK_RIGHT` names
/// instead (landlock(7)).
pub const LANDLOCK: &str = r#"
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(function, *arguments):
    result = function(*arguments)
    if result < 0:
        sys.exit("landlock: " + os.strerror(ctypes.get_errno()))
    return result
READ_DIR, PATH_BENEATH, NO_NEW_PRIVS = "8", 1, 38
right = int(os.environ.get("LANDLOCK_RIGHT", READ_DIR))
CREATE, ADD, RESTRICT = 444, 445, 446
ruleset = call(libc.syscall, CREATE, struct.pack("=Q", right), ctypes.c_size_t(8), 0)
directory = os.open(sys.argv[1], os.O_PATH)
call(libc.syscall, ADD, ruleset, PATH_BENEATH, struct.pack("=Qi", right, directory), 0)
call(libc.prctl, NO_NEW_PRIVS, 1, 0, 0, 0)
call(libc.syscall, RESTRICT, ruleset, 0)
os.execvp(sys.argv[2], sys.argv[2:])
"#;

/// Checks that the test runs as root.
#[must_use]
pub fn root() -> Option<String> {
    (!rustix::process::geteuid().is_root()).then(|| "needs root".to_owned())
}

/// Checks that a command is installed.
#[must_use]
pub fn tool(name: &str) -> Option<String> {
    find_tool(name).is_none().then(|| format!("needs the command {name}"))
}

/// Checks that Python has a module.
#[must_use]
pub fn python_module(name: &str) -> Option<String> {
    let import = format!("import {name}");
    let has_it = Command::new("python3").args(["-c", &import]).output().is_ok_and(|it| it.status.success());
    (!has_it).then(|| format!("needs the Python module {name}"))
}

/// Checks that the kernel has Landlock with the right to list directories, and Python can use it.
#[must_use]
pub fn landlock() -> Option<String> {
    let outcome = Command::new("python3").args(["-c", LANDLOCK, "/", "true"]).output();
    (!outcome.is_ok_and(|it| it.status.success())).then(|| "needs Landlock and Python".to_owned())
}

/// Checks that this run is a full one (`HAUL_FULL=1`).
#[must_use]
pub fn full_run() -> Option<String> {
    (!is_full_run()).then(|| "takes long: runs with HAUL_FULL=1".to_owned())
}

/// Checks that loop devices are available and that the kernel and `mkfs` support the file system.
#[must_use]
pub fn loop_mount(file_system: &str) -> Option<String> {
    root()
        .or_else(|| tool("losetup"))
        .or_else(|| tool(&format!("mkfs.{file_system}")))
        .or_else(|| (!Path::new("/dev/loop-control").exists()).then(|| "needs loop devices".to_owned()))
        .or_else(|| {
            let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
            let listed = known.split_whitespace().any(|word| word == file_system);
            (!listed).then(|| format!("needs {file_system} in the kernel"))
        })
}

/// Checks that the kernel lets this user create a ring.
#[must_use]
pub fn io_uring() -> Option<String> {
    // `kernel.io_uring_disabled` isn't enough: containers block the call with seccomp.
    io_uring::IoUring::new(1).err().map(|error| format!("needs io_uring ({error})"))
}

/// Checks that the kernel supports AIO and has contexts left.
#[must_use]
pub fn kernel_aio() -> Option<String> {
    let number =
        |name: &str| std::fs::read_to_string(format!("/proc/sys/fs/{name}")).ok()?.trim().parse::<u64>().ok();
    match (number("aio-nr"), number("aio-max-nr")) {
        (Some(taken), Some(most)) if most.saturating_sub(taken) >= AIO_OPERATIONS => None,
        (Some(_), Some(most)) => {
            Some(format!("needs kernel AIO (fs.aio-max-nr is {most}, and most of it taken)"))
        }
        _ => Some("needs kernel AIO".to_owned()),
    }
}

/// Checks that the C library is one whose AIO haul uses.
#[must_use]
pub fn posix_aio() -> Option<String> {
    (!cfg!(target_env = "gnu")).then(|| "needs glibc".to_owned())
}

/// Returns true if this is a full run: `HAUL_FULL` is set, and neither empty nor `0`.
#[must_use]
pub fn is_full_run() -> bool {
    std::env::var_os("HAUL_FULL").is_some_and(|value| !value.is_empty() && value != "0")
}

/// Returns a number of runs or cases from the environment, or the default.
#[must_use]
pub fn count_from(variable: &str, default: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Finds a command on `PATH`, or in the system directories that ordinary users lack there.
#[must_use]
pub fn find_tool(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from))
        .map(|folder| folder.join(name.as_ref()))
        .find(|candidate| candidate.is_file())
}
