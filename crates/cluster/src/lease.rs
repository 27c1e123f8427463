//! Leases end the ranks that the launch process can't kill before others get their work.
//!
//! The launch process kills the ranks of a lost job on its own host. Those on other hosts may be
//! out of reach, or stopped, and continue later. So each of them lives on a lease
//! ([`haul_sys::Lease`]), which the launch process extends through rank 0:
//!
//! ```text
//! launch process                    rank 0                            another rank
//!                      ◄─ Alive(A) ─ every INTERVAL
//! last_received = now ── Lease(A) ─► own lease ends at A + duration
//!                                                     ◄─ Alive(B) ─── every INTERVAL
//!                                    ── Lease(B, what is left) ─────► own lease ends at B + left
//! ```
//!
//! A and B are times of the sender's clock at the moment of sending, so a delay only shortens a
//! lease.
//!
//! Invariant: every lease ends at most [`duration`] after the launch process last received a
//! message: an answer grants no more than that, counted from when the heartbeat was sent, and rank
//! 0 passes on no more than it has left. The launch process waits for [`expires_after`] from that
//! message, which is longer by more than clocks differ, and then starts the next attempt (tests:
//! `cluster/tests/items.rs`, `cli/tests/cluster/hosts.rs`).

use std::time::Duration;

/// Returns the interval of heartbeats, each of which asks for the lease to be extended. Missing one
/// or two is harmless.
pub(crate) fn interval(silence: Duration) -> Duration {
    silence / 12
}

/// Returns the duration of a lease.
pub(crate) fn duration(silence: Duration) -> Duration {
    silence / 3 * 2
}

/// Returns the time after the launch process's last received message when all leases are over.
pub(crate) fn expires_after(silence: Duration) -> Duration {
    silence / 4 * 3
}
