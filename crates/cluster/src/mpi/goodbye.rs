//! The end of a job: no rank ends MPI before all have come to their end.
//!
//! Libraries promise that themselves, but some stop moving messages while they wait for it: with MPICH 5, a rank that ended MPI
//! was waiting for the others in a read, with the acknowledgements that their last messages waited for still in its queue
//! (seen with 8 ranks on 2 processors). Others spin. So the ranks agree first, by messages and without spinning: each tells rank
//! 0 that its messages have left, and when all have, rank 0 tells each.
//!
//! Each message of this tag is sent when its sender has nothing else on its way, and only rank 0's answers follow the last of
//! them; so at the answer nothing but answers is on its way, and each rank gets exactly one.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::flight::Flight;
use super::library::{self, Library};
use crate::transport::{Broken, Rank};

/// The tag of these messages.
const TAG: i32 = 1;

/// Between two looks, at first and at most.
const PAUSE: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(2)];

/// Waits for all ranks to come here, and no longer than until `deadline`.
pub(super) fn agree(library: &Library, rank: Rank, size: u32, deadline: Instant) -> Result<(), Broken> {
    let others = || (0..size).map(Rank).filter(|other| *other != rank);
    if rank == Rank::MASTER {
        hear(library, size - 1, deadline)?;
        say(library, others(), deadline)
    } else {
        say(library, std::iter::once(Rank::MASTER), deadline)?;
        hear(library, 1, deadline)
    }
}

/// Looks again and again, with pauses, until something is so.
pub(super) fn until(
    deadline: Instant,
    mut is_so: impl FnMut() -> Result<bool, Broken>,
) -> Result<(), Broken> {
    let [mut pause, most] = PAUSE;
    while !is_so()? {
        if Instant::now() >= deadline {
            let why = "other ranks do not end, or do not take what was sent to them".to_owned();
            return Err(Broken { doing: "ending MPI", why });
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(most);
    }
    Ok(())
}

/// Ends MPI, or the process when that takes longer than `limit`.
pub(super) fn guarded(library: &Library, limit: Duration, status: u8) -> Result<(), Broken> {
    let (done, is_done) = channel::<()>();
    let guard = std::thread::Builder::new().spawn(move || {
        if is_done.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            library::exit_now(status);
        }
    });
    let ended = library.finish();
    drop(done);
    // Without a thread to guard it, the library had to come back by itself, and did.
    if let Ok(guard) = guard {
        guard.join().unwrap_or_default();
    }
    ended
}

fn say(library: &Library, to: impl Iterator<Item = Rank>, deadline: Instant) -> Result<(), Broken> {
    let mut flights = Vec::new();
    for rank in to {
        flights.push(Flight::send(library, rank, TAG, vec![0])?);
    }
    until(deadline, || all_done(library, &mut flights))
}

fn hear(library: &Library, count: u32, deadline: Instant) -> Result<(), Broken> {
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
