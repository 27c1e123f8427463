//! What the process was started with: its standard streams.
//!
//! The Rust runtime opens `/dev/null` on those of the descriptors 0 to 2 that are closed, before `main` runs, so that no
//! file of the program gets such a number. What is then written to a closed standard output vanishes without an error, and a
//! closed standard input seems to be an empty one.
//! So the descriptors are looked at even earlier, among the constructors that the C library runs; and so is what `SIGPIPE` does,
//! which the runtime then ignores.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use serde::{Deserialize, Serialize};

use crate::error::{Errno, Result};
use crate::fd::Fd;
use crate::gate;
use crate::operation::Operation;

/// One of the streams that a process is started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Standard {
    /// Standard output.
    Output = 1,
    /// Standard error.
    Error = 2,
}

/// The descriptor of standard input.
const INPUT: i32 = 0;

/// A bit for each descriptor that was closed. Written once, before `main` and before there are threads.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Whether `SIGPIPE` was ignored. Written at the same time.
static IGNORES_BROKEN_PIPES: AtomicBool = AtomicBool::new(false);

#[used]
// SAFETY: the section holds pointers to functions of the C calling convention, which the C library calls once each, before
// `main`; arguments they are called with beyond those they declare are ignored under that convention.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    if cfg!(miri) {
        // Miri does not implement signals.
        return;
    }
    for number in INPUT..=Standard::Error as i32 {
        // SAFETY: passes numbers; asking for flags changes nothing.
        let answer = unsafe { libc::fcntl(number, libc::F_GETFD, 0) };
        // A filter may forbid to ask, which says nothing of the descriptor.
        if answer == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EBADF) {
            CLOSED.fetch_or(1 << number, Ordering::Relaxed);
        }
    }
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: passes no new action, and room for the one there is.
    unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: an action of zeros is one, and what the call wrote is another.
    let action = unsafe { action.assume_init() };
    IGNORES_BROKEN_PIPES.store(action.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
}

/// Has the process end in silence (`SIGPIPE`) when it writes to a pipe that nobody reads any more, as programs do that are not
/// Rust's; unless it was started by one that ignores that, which then wants to see an error.
///
/// Nothing in the process may then depend on such an error, nor be left half done by such an end.
pub fn end_at_broken_pipe() {
    if IGNORES_BROKEN_PIPES.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: passes numbers, of which the second is no function but stands for the default.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Tells whether a standard stream was closed when the process was started.
#[must_use]
pub fn was_closed(stream: Standard) -> bool {
    CLOSED.load(Ordering::Relaxed) & (1 << stream as u8) != 0
}

/// Returns a descriptor of a standard stream that is written to: a further one, so that it can be closed, and its close looked at.
///
/// # Errors
/// The kernel's; `EBADF` when the stream was closed when the process was started.
pub fn standard_stream(stream: Standard) -> Result<Fd> {
    gate::call(
        Operation::Fcntl,
        || {
            if was_closed(stream) {
                return Err(Errno::BADF);
            }
            match stream {
                Standard::Output => rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3),
                Standard::Error => rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3),
            }
        },
        || format!("{}, F_DUPFD_CLOEXEC, 3", stream as u8),
    )
    .map(Fd::new)
}

/// Returns a descriptor of standard input: a further one, so that it can be closed.
///
/// # Errors
/// The kernel's; `EBADF` when it was closed when the process was started.
pub fn standard_input() -> Result<Fd> {
    let was_closed = CLOSED.load(Ordering::Relaxed) & (1 << INPUT) != 0;
    gate::call(
        Operation::Fcntl,
        || match was_closed {
            true => Err(Errno::BADF),
            false => rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3),
        },
        || "0, F_DUPFD_CLOEXEC, 3".to_owned(),
    )
    .map(Fd::new)
}
