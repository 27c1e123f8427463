//! A process that holds a lease on a file, as a file server does for its clients.
//!
//! The kernel asks for the lease back when somebody opens the file, by `SIGIO`. The holder gives way a moment later: that
//! delay is the situation under test, as an open that does not wait fails during it.

use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::{needs, wait};

/// How long a holder that was asked may take to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// Who may open the file without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// Readers: the holder has it open to read (`F_RDLCK`).
    Read,
    /// Nobody: the holder alone has it open (`F_WRLCK`).
    Write,
}

/// The holder. Without unsafe code there is no `F_SETLEASE` in Rust, so it is Python's.
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

/// A lease that is held; ends with the value.
#[derive(Debug)]
pub struct Holder {
    child: Child,
}

/// Gives the reason why leases cannot be held here, for [`require!`](crate::require).
#[must_use]
pub fn needs_leases() -> Option<String> {
    let off = std::fs::read_to_string("/proc/sys/fs/leases-enable").is_ok_and(|text| text.trim() == "0");
    needs::tool("python3").or_else(|| off.then(|| "needs leases (fs.leases-enable is 0)".to_owned()))
}

impl Holder {
    /// Takes the lease, and returns when it is held.
    ///
    /// # Errors
    /// When it cannot be held.
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

    /// True if somebody asked for the lease and the holder gave it back.
    #[must_use]
    pub fn was_broken(mut self) -> bool {
        // The holder ends after it gave way. One that nobody asked never ends.
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
        // Both fail when it has ended by itself.
        self.child.kill().unwrap_or_default();
        drop(self.child.wait());
    }
}
