//! Leases: a rank that the launch process can't kill has ended before others get its work.
//!
//! The launch process kills the ranks of a lost job on its own host. Others may be out of reach, or
//! stopped, and go on later. So each of them lives on a lease ([`haul_sys::Lease`]), which the
//! launch process extends through rank 0:
//!
//! ```text
//! launch process                    rank 0                            another rank
//!                      ◄─ Alive(A) ─ every INTERVAL
//! last_received = now ── Lease(A) ─► own lease ends at A + LASTS
//!                                                     ◄─ Alive(B) ─── every INTERVAL
//!                                    ── Lease(B, what is left) ─────► own lease ends at B + left
//! ```
//!
//! A and B are times of the sender's clock at the moment of sending, so a delay only shortens a
//! lease.
//!
//! Invariant: every lease ends at most [`lasts`] after the launch process last received a message,
//! because no answer promises more, counted from before it was asked for, and rank 0 passes on no
//! more than it has left. The launch process waits for [`over_after`] from there, which is longer
//! by more than clocks differ, and then starts the next attempt (tests: `cluster/tests/items.rs`,
//! `cli/tests/cluster/hosts.rs`).

use std::time::Duration;

/// Returns the interval at which a process asks for its lease to be extended. One lost interval, or
/// two, don't matter.
pub(crate) fn interval(silence: Duration) -> Duration {
    silence / 12
}

/// Returns how long a lease lasts.
pub(crate) fn lasts(silence: Duration) -> Duration {
    silence / 3 * 2
}

/// Returns the time after the launch process's last received message when all leases are over.
pub(crate) fn over_after(silence: Duration) -> Duration {
    silence / 4 * 3
}
