//! Process-wide kernel state: limits, umask, identity.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::time::Duration;

use rustix::fs::{Mode as RawMode, OFlags};
use rustix::process::{Resource, Rlimit};
use rustix::thread::CapabilitySet;
use rustix::time::{ClockId, clock_gettime};

use crate::data::{read_path, write_stream};
use crate::error::Result;
use crate::fd::Fd;
use crate::interposer::interposer;
use crate::open::{Open, open_path};
use crate::stat::{Mode, Timestamp, stat_path};

/// Returns the maximum number of open descriptors.
#[must_use]
pub fn descriptor_limit() -> usize {
    let limit = rustix::process::getrlimit(Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

/// Raises the soft descriptor limit towards the hard limit, to at most `wanted`, and returns the
/// resulting limit.
///
/// If the kernel refuses, the limit stays as it was; the caller works within the returned limit.
pub fn raise_descriptor_limit(wanted: usize) -> usize {
    let limits = rustix::process::getrlimit(Resource::Nofile);
    let hard = limits.maximum.unwrap_or(u64::MAX);
    let soft = limits.current.unwrap_or(u64::MAX);
    let raised = hard.min(wanted as u64);
    if raised > soft {
        let new = Rlimit { current: Some(raised), maximum: limits.maximum };
        if rustix::process::setrlimit(Resource::Nofile, new).is_err() {
            return descriptor_limit();
        }
    }
    descriptor_limit()
}

/// Returns the address space limit, in bytes, if there is one.
#[must_use]
pub fn address_space_limit() -> Option<u64> {
    rustix::process::getrlimit(Resource::As).current
}

/// Blocks all signals in the calling thread, and in threads that it starts later, except those
/// that report faults.
pub fn block_signals() {
    const FAULTS: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT];
    let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: passes room for a set, which the call fills.
    unsafe { libc::sigfillset(signals.as_mut_ptr()) };
    // SAFETY: `sigfillset` initialised it; with a valid address it doesn't fail.
    let mut signals = unsafe { signals.assume_init() };
    for fault in FAULTS {
        // SAFETY: passes an initialised set.
        unsafe { libc::sigdelset(&raw mut signals, fault) };
    }
    // It fails only if the first argument is invalid.
    // SAFETY: passes an initialised set, and no room for the previous one, which isn't needed.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, std::ptr::null_mut()) };
}

/// Grows the descriptor table to hold `count` descriptors. Call it before starting threads.
///
/// The kernel grows the table as descriptors are opened. If threads share it, each growth waits for
/// an RCU grace period (`synchronize_rcu` in `expand_fdtable`, `fs/file.c`), measured as 10 ms in
/// the middle of an `openat`. A table that is large enough from the start never waits.
///
/// Failure costs only that time, so it isn't reported.
pub fn widen_descriptor_table(count: usize) {
    let last = count.min(descriptor_limit()).saturating_sub(1);
    let Ok(last) = i32::try_from(last) else { return };
    let Ok(any) = rustix::fs::open(c"/", OFlags::PATH | OFlags::CLOEXEC, RawMode::empty()) else { return };
    // Duplicating to number `last` grows the table; the descriptor itself is closed at once.
    drop(rustix::io::fcntl_dupfd_cloexec(&any, last));
}

/// Gives the calling thread, and the threads and processes that it starts from now on, the lowest
/// processor priority and the idle I/O scheduling class, like `nice -n 19 ionice -c 3`.
///
/// # Errors
/// If the kernel refuses either.
pub fn lower_priority() -> io::Result<()> {
    /// `IOPRIO_WHO_PROCESS`, and `IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0)` (ioprio_set(2)).
    const PROCESS: libc::c_int = 1;
    const IDLE: libc::c_int = 3 << 13;
    rustix::process::nice(19)?;
    // The C library has no function for it.
    // SAFETY: the arguments are numbers; 0 is the calling thread.
    match unsafe { libc::syscall(libc::SYS_ioprio_set, PROCESS, 0, IDLE) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets the process's umask. Call before other threads create files.
pub fn set_umask(mask: Mode) {
    rustix::process::umask(RawMode::from_raw_mode(mask.bits()));
}

/// Returns the process's umask.
///
/// umask(2) can only return the mask by replacing it, which would race with threads that create
/// files. So in a process with several threads it is read from `/proc/self/status` (Linux 4.7),
/// if `/proc` is mounted.
#[must_use]
pub fn umask() -> Mode {
    let known = if is_single_threaded() { None } else { umask_from_proc() };
    known.unwrap_or_else(|| {
        // Files that another thread creates in the meantime should get too few permissions rather
        // than too many.
        let mask = rustix::process::umask(RawMode::from_raw_mode(0o077));
        rustix::process::umask(mask);
        Mode::new(mask.as_raw_mode())
    })
}

/// Returns true if the process is known to have one thread. glibc 2.32 and later keep track of it
/// (`sys/single_threaded.h`).
fn is_single_threaded() -> bool {
    // SAFETY: passes a NUL-terminated string.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()) };
    let flag = NonNull::new(address.cast::<u8>());
    // SAFETY: it is a `char`. The library writes it when the first thread is started, so not while
    // there is only this one.
    flag.is_some_and(|flag| unsafe { flag.as_ptr().read_volatile() } != 0)
}

fn umask_from_proc() -> Option<Mode> {
    umask_in(&read_path(c"/proc/self/status", usize::MAX).ok()?)
}

fn umask_in(status: &[u8]) -> Option<Mode> {
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Umask:"))?;
    let digits = std::str::from_utf8(line.trim_ascii()).ok()?;
    u32::from_str_radix(digits, 8).ok().map(Mode::new)
}

/// Sets the SELinux context of files created by the calling thread and by threads it starts later.
///
/// # Errors
/// Any error from writing `/proc/thread-self/attr/fscreate`: `EINVAL` if the policy doesn't know
/// the context, `ENOENT` if there is no SELinux.
pub fn set_creation_label(context: &CStr) -> Result<()> {
    let file = open_path(c"/proc/thread-self/attr/fscreate", Open::WRITE)?;
    // In a single write: the kernel rejects partial ones (`proc_pid_attr_write` in fs/proc/base.c).
    write_stream(&file, context.to_bytes_with_nul())?;
    file.close()
}

/// The effective user and group of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The effective user id.
    pub user: u32,
    /// The effective group id.
    pub group: u32,
}

/// Returns the effective user and group of the process.
#[must_use]
pub fn effective_identity() -> Credentials {
    Credentials { user: rustix::process::geteuid().as_raw(), group: rustix::process::getegid().as_raw() }
}

/// The effective capabilities of the process (capabilities(7)): what it may do regardless of a
/// file's owner and mode. In a container, root may lack some.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities(CapabilitySet);

impl Capabilities {
    /// Returns those of the calling thread.
    #[must_use]
    pub fn effective() -> Self {
        // fakeroot fakes the user but not the capabilities. Trust the fake user.
        let known = rustix::thread::capabilities(None).ok().filter(|_| interposer().is_none());
        Self(match known {
            Some(sets) if is_in_initial_user_namespace() => sets.effective,
            // The mode still limits access to files whose owner or group isn't mapped into the
            // namespace (`privileged_wrt_inode_uidgid` in the kernel's kernel/capability.c).
            Some(sets) => {
                let access = CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::DAC_READ_SEARCH);
                sets.effective.difference(access)
            }
            None if effective_identity().user == 0 => CapabilitySet::all(),
            None => CapabilitySet::empty(),
        })
    }

    /// Returns true if it may read and search everything.
    #[must_use]
    pub fn read_all(self) -> bool {
        self.0.intersects(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH)
    }

    /// Returns true if it may write to everything.
    #[must_use]
    pub fn write_all(self) -> bool {
        self.0.contains(CapabilitySet::DAC_OVERRIDE)
    }

    /// Returns true if it may set modes and times of other users' files.
    #[must_use]
    pub fn change_all(self) -> bool {
        self.0.contains(CapabilitySet::FOWNER)
    }

    /// Returns true if files keep their set-id bits when it writes to them.
    #[must_use]
    pub fn keep_set_id(self) -> bool {
        self.0.contains(CapabilitySet::FSETID)
    }

    /// Returns true if it may set an extended attribute whose name begins with `security.`.
    #[must_use]
    pub fn set_security(self, key: &CStr) -> bool {
        let needed = match key == c"security.capability" {
            true => CapabilitySet::SETFCAP,
            false => CapabilitySet::SYS_ADMIN,
        };
        self.0.contains(needed)
    }
}

/// Returns true if the process is known to be in the initial user namespace, where every user and
/// group is mapped.
fn is_in_initial_user_namespace() -> bool {
    /// `PROC_USER_INIT_INO` (include/linux/proc_ns.h).
    const INITIAL: u64 = 0xEFFF_FFFD;
    let namespace = stat_path::<&Fd>(None, c"/proc/self/ns/user", true);
    namespace.is_ok_and(|namespace| namespace.identity.inode == INITIAL)
}

/// Returns true if the process is a member of the group, and so may set it on its own files. If
/// the list of groups can't be read, only the effective group counts.
#[must_use]
pub fn is_in_group(group: u32) -> bool {
    let groups = rustix::process::getgroups().unwrap_or_default();
    effective_identity().group == group || groups.iter().any(|own| own.as_raw() == group)
}

/// Returns the time of the last tick. No new file gets an earlier timestamp.
#[must_use]
pub fn clock() -> Timestamp {
    read(ClockId::RealtimeCoarse)
}

/// Returns the time now: no file is stamped with a later one.
#[must_use]
pub fn precise_clock() -> Timestamp {
    read(ClockId::Realtime)
}

/// CPU usage of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Processor time of all its threads.
    pub processor_time: Duration,
    /// Voluntary context switches: a thread gave up its processor because it had to wait.
    pub waits: u64,
}

/// Returns the CPU usage of this process.
#[must_use]
pub fn usage() -> Usage {
    let mut used = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `used` is as large as what the call writes. It can't fail: `RUSAGE_SELF` is known.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, used.as_mut_ptr()) };
    // SAFETY: all zeros are a valid value too.
    let used = unsafe { used.assume_init() };
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.cast_unsigned()) + Duration::from_micros(time.tv_usec.cast_unsigned())
    };
    Usage { processor_time: time(used.ru_utime) + time(used.ru_stime), waits: used.ru_nvcsw.cast_unsigned() }
}

fn read(clock: ClockId) -> Timestamp {
    let now = clock_gettime(clock);
    Timestamp { seconds: now.tv_sec, nanoseconds: u32::try_from(now.tv_nsec).unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_umask_is_read_and_stays() {
        let mut command = std::process::Command::new("sh");
        let set = command.args(["-c", "umask"]).output().unwrap().stdout;
        let set = u32::from_str_radix(std::str::from_utf8(&set).unwrap().trim(), 8).unwrap();
        assert_eq!(umask(), Mode::new(set));
        assert_eq!(umask_from_proc().unwrap_or(umask()), Mode::new(set));
    }

    #[test]
    fn the_umask_is_the_line_of_that_name() {
        assert_eq!(umask_in(b"Name:\tUmask: 7\nUmask:\t0027\nState:\tR\n"), Some(Mode::new(0o027)));
        assert_eq!(umask_in(b"Name:\tcp\nState:\tR\n"), None);
        assert_eq!(umask_in(b""), None);
    }
}
