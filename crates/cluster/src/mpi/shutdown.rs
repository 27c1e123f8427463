//! End of a job: no rank finalizes MPI before all have reached their end.
//!
//! Libraries promise that themselves, but some stop progressing messages while they wait: with
//! MPICH 5, a rank in `MPI_Finalize` blocked in a read, while acknowledgements that others waited
//! for were still in its queue (seen with 8 ranks on 2 processors). Others spin. So the ranks first
//! agree, by messages and without spinning: each reports to rank 0 that its messages have left, and
//! when all have, rank 0 answers each.
//!
//! A rank sends its message with this tag when it has nothing else in flight, and only rank 0's
//! answers follow. So at that point only answers are in flight, and each rank gets exactly one.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::flight::Flight;
use super::library::{self, Library};
use crate::suspend_detector::Deadline;
use crate::transport::{Broken, Rank};

/// Tag of these messages.
const TAG: i32 = 1;

/// Minimum and maximum interval between polls.
const PAUSE: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(2)];

/// Waits for all ranks to get here, until `deadline`.
pub(super) fn agree(library: &Library, rank: Rank, size: u32, deadline: &mut Deadline) -> Result<(), Broken> {
    let others = || (0..size).map(Rank).filter(|other| *other != rank);
    if rank == Rank::MASTER {
        receive_all(library, size - 1, deadline)?;
        send_all(library, others(), deadline)
    } else {
        send_all(library, std::iter::once(Rank::MASTER), deadline)?;
        receive_all(library, 1, deadline)
    }
}

/// Polls until `is_so` returns true.
pub(super) fn until(
    deadline: &mut Deadline,
    mut is_so: impl FnMut() -> Result<bool, Broken>,
) -> Result<(), Broken> {
    let [mut pause, most] = PAUSE;
    while !is_so()? {
        if deadline.has_passed(Instant::now()) {
            let why = "other ranks did not finish, or did not receive their messages".to_owned();
            return Err(Broken::Transport { doing: "ending MPI", why });
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(most);
    }
    Ok(())
}

/// Finalizes MPI, or exits the process if that takes longer than `limit`.
pub(super) fn guarded(library: &Library, limit: Duration, status: u8) -> Result<(), Broken> {
    let (done, is_done) = channel::<()>();
    let guard = std::thread::Builder::new().spawn(move || {
        if is_done.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            library::exit_now(status);
        }
    });
    let ended = library.finish();
    drop(done);
    // If the guard thread could not be created, `finish` has still returned by itself.
    if let Ok(guard) = guard {
        guard.join().unwrap_or_default();
    }
    ended
}

fn send_all(
    library: &Library,
    to: impl Iterator<Item = Rank>,
    deadline: &mut Deadline,
) -> Result<(), Broken> {
    let mut flights = Vec::new();
    for rank in to {
        flights.push(Flight::send(library, rank, TAG, vec![0])?);
    }
    until(deadline, || all_done(library, &mut flights))
}

fn receive_all(library: &Library, count: u32, deadline: &mut Deadline) -> Result<(), Broken> {
    let mut flights = Vec::new();
    until(deadline, || {
        while let Some(matched) = library.probe(TAG)? {
            flights.push(Flight::receive(library, matched)?);
        }
        Ok(flights.len() == count as usize && all_done(library, &mut flights)?)
    })
}

fn all_done(library: &Library, flights: &mut [Flight]) -> Result<bool, Broken> {
    for flight in flights {
        if !flight.is_done(library)? {
            return Ok(false);
        }
    }
    Ok(true)
}
