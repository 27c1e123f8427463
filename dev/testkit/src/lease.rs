//! A process that holds a lease on a file, as a file server does for its clients.
//!
//! When somebody opens the file, the kernel sends `SIGIO` to ask for the lease. The holder releases
//! it a moment later. Tests rely on that delay, during which a nonblocking open fails.

use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::{needs, wait};

/// Maximum time for the holder to exit after a request.
const PATIENCE: Duration = Duration::from_secs(20);

/// Type of lease, which decides who may open the file without a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// Readers may: the holder has it open for reading (`F_RDLCK`).
    Read,
    /// Nobody may: only the holder has it open (`F_WRLCK`).
    Write,
}

/// The holder's program, in Python, because Rust offers `F_SETLEASE` only with unsafe code.
const HOLDER: &str = r#"
import fcntl, os, signal, sys, time
kind = sys.argv[2]
file = os.open(sys.argv[1], os.O_RDONLY if kind == "Read" else os.O_RDWR)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGIO])
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK if kind == "Read" else fcntl.F_WRLCK)
print("held", flush=True)
signal.sigwait([signal.SIGIO])
time.sleep(0.1)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
"#;

/// A lease, released on drop.
#[derive(Debug)]
pub struct Holder {
    child: Child,
}

/// Returns the reason leases can't be held here, for [`require!`](crate::require).
#[must_use]
pub fn needs_leases() -> Option<String> {
    let off = std::fs::read_to_string("/proc/sys/fs/leases-enable").is_ok_and(|text| text.trim() == "0");
    needs::tool("python3").or_else(|| off.then(|| "needs leases (fs.leases-enable is 0)".to_owned()))
}

impl Holder {
    /// Acquires the lease, and returns once it is held.
    pub fn start(file: &Path, lease: Lease) -> io::Result<Self> {
        let mut child = Command::new("python3")
            .args(["-c", HOLDER])
            .arg(file)
            .arg(format!("{lease:?}"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or_else(|| io::Error::other("no standard output"))?;
        let holder = Self { child };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        if line == "held\n" { Ok(holder) } else { Err(io::Error::other("the lease was refused")) }
    }

    /// Returns true if somebody requested the lease and the holder released it.
    pub fn was_broken(mut self) -> bool {
        // The holder exits after releasing the lease. Without a request it never exits.
        let mut ended = None;
        let found = wait::until(PATIENCE, || {
            ended = self.child.try_wait().ok().flatten();
            ended.is_some()
        });
        found && ended.is_some_and(|status| status.success())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // Both fail if it has already exited.
        self.child.kill().unwrap_or_default();
        drop(self.child.wait());
    }
}
