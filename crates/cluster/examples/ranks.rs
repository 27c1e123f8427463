//! Ranks for the MPI tests, and for measuring an MPI.
//!
//! ```text
//! mpirun -n 4 ranks exchange COUNT [LIBRARY]    all-to-all with COUNT messages each, checked
//! mpirun -n 2 ranks speed          [LIBRARY]    messages/s and bytes/s from rank 0 to 1 and back
//! mpirun -n 2 ranks stray          [LIBRARY]    sends to a missing rank, and too much; exchanges
//! mpirun -n 3 ranks beat           [LIBRARY]    heartbeats to rank 0, which prints whom it hears
//! ```
//!
//! Exit status: 0, or 3 if MPI was refused, or 1 if something failed. Every line begins with
//! `rank R of N`, or with `refused: ` if MPI was refused. In that case ranks exit with 0 if
//! `HAUL_EXPECT_REFUSAL` is set, because a launcher kills the other ranks when one fails, before
//! they have printed their lines.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use haul_cluster::mpi::World;
use haul_cluster::transport::{Rank, Transport};
use haul_testkit::random::{Rng, seeded};

type Outcome = Result<(), String>;

/// Minimum and maximum interval between polls.
const PAUSE: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(1)];

/// Interval between heartbeats.
const BEAT: Duration = Duration::from_millis(50);

/// Time after which a silent rank is given up.
const SILENCE: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (mode, rest) = match arguments.split_first() {
        Some((mode, rest)) => (mode.as_str(), rest),
        None => ("", &[][..]),
    };
    let (count, library) = match (mode, rest) {
        ("exchange", [count, rest @ ..]) => (count.parse().unwrap_or(0), rest.first()),
        _ => (0, rest.first()),
    };
    let library = library.map(PathBuf::from);
    let mut world = match World::open(library.as_deref()) {
        Ok(world) => world,
        Err(refusal) => {
            say(&format!("refused: {refusal}"));
            let expected = std::env::var_os("HAUL_EXPECT_REFUSAL").is_some();
            return ExitCode::from(if expected { 0 } else { 3 });
        }
    };
    let done = match mode {
        "exchange" => exchange(&mut world, count),
        "speed" => speed(&mut world),
        "stray" => stray(&mut world),
        "beat" => beat(&mut world),
        _ => Err(format!("no such thing to do: {mode}")),
    };
    let ended = done.and_then(|()| world.finish_or_exit(0).map_err(|error| error.to_string()));
    let Err(error) = ended else { return ExitCode::SUCCESS };
    say(&format!("failed: {error}"));
    ExitCode::FAILURE
}

/// Prints a line with one write, so that the launcher doesn't mix it with others.
fn say(line: &str) {
    io::stdout().write_all(format!("{line}\n").as_bytes()).unwrap_or_default();
}

fn print_rank(world: &World, what: &str) {
    say(&format!("rank {} of {}: {what}", world.rank().0, world.size()));
}

/// Polling interval that grows while nothing happens, like that of a job's event loop.
struct Patience(Duration);

impl Patience {
    fn new() -> Self {
        Self(PAUSE[0])
    }

    fn wait(&mut self) {
        std::thread::sleep(self.0);
        self.0 = (self.0 * 2).min(PAUSE[1]);
    }
}

/// Waits for the next message.
fn next(world: &mut World) -> Result<(Rank, Vec<u8>), String> {
    let mut patience = Patience::new();
    loop {
        if let Some(message) = world.receive().map_err(|error| error.to_string())? {
            return Ok(message);
        }
        patience.wait();
    }
}

/// Creates the message with this number from one rank to another. One in thirty is large.
fn message(from: Rank, to: Rank, number: u64) -> Vec<u8> {
    let mut random = seeded((u64::from(from.0) << 48) ^ (u64::from(to.0) << 32) ^ number);
    let most = if number % 30 == 29 { 3 << 20 } else { [0, 1, 200, 5_000, 70_000][(number % 5) as usize] };
    let mut bytes = vec![0; random.random_range(most.min(1)..=most)];
    random.fill(&mut bytes[..]);
    bytes
}

fn exchange(world: &mut World, count: u64) -> Outcome {
    let (me, ranks) = (world.rank(), world.size());
    let mut heard: BTreeMap<Rank, u64> = BTreeMap::new();
    let (mut bytes, mut sent, mut received) = (0, 0, 0);
    let expected = count * u64::from(ranks);
    let mut patience = Patience::new();
    while received < expected || sent < count {
        if sent < count {
            for to in (0..ranks).map(Rank) {
                world.send(to, message(me, to, sent)).map_err(|error| error.to_string())?;
            }
            sent += 1;
        }
        let Some((from, got)) = world.receive().map_err(|error| error.to_string())? else {
            if sent == count {
                patience.wait();
            }
            continue;
        };
        patience = Patience::new();
        let number = heard.entry(from).or_default();
        if got != message(from, me, *number) {
            return Err(format!("message {number} from rank {} is not what it sent", from.0));
        }
        *number += 1;
        received += 1;
        bytes += got.len();
    }
    let same = heard.len() == ranks as usize && heard.values().all(|number| *number == count);
    if count > 0 && (!same || world.receive().map_err(|error| error.to_string())?.is_some()) {
        return Err(format!("heard {heard:?}, and not {count} of each"));
    }
    let about = format!("{} on {}, {}", world.version(), world.host(), world.abi());
    print_rank(world, &format!("{received} messages, {bytes} bytes; {about}"));
    Ok(())
}

fn stray(world: &mut World) -> Outcome {
    let nobody = Rank(world.size());
    match world.send(nobody, vec![1]) {
        Ok(()) => return Err(format!("a message to rank {} was sent", nobody.0)),
        Err(error) => print_rank(world, &error.to_string()),
    }
    // Zeroed memory that nobody touches uses no pages.
    let neighbour = Rank((world.rank().0 + 1) % world.size());
    match world.send(neighbour, vec![0; 1 << 31]) {
        Ok(()) => return Err("a message that is too long was sent".to_owned()),
        Err(error) => print_rank(world, &error.to_string()),
    }
    exchange(world, 3)
}

/// Sends messages back and forth: one at a time, then many small ones, then large ones.
fn speed(world: &mut World) -> Outcome {
    for (what, count, length, under_way) in [
        ("there and back", 2_000, 64, 1),
        ("small, 64 under way", 100_000, 64, 64),
        ("1 MiB, 8 under way", 400, 1 << 20, 8),
    ] {
        let begun = Instant::now();
        if world.rank() == Rank::MASTER {
            let (mut sent, mut answered) = (0, 0);
            while answered < count {
                while sent < count && sent - answered < under_way {
                    world.send(Rank(1), vec![7; length]).map_err(|error| error.to_string())?;
                    sent += 1;
                }
                next(world)?;
                answered += 1;
            }
            let took = begun.elapsed().as_secs_f64();
            let (rate, mebibytes) =
                (f64::from(count) / took, f64::from(count) * length as f64 / took / f64::from(1 << 20));
            print_rank(world, &format!("{what}: {rate:.0} messages/s, {mebibytes:.1} MiB/s"));
        } else {
            for _ in 0..count {
                next(world)?;
                world.send(Rank::MASTER, vec![8]).map_err(|error| error.to_string())?;
            }
        }
    }
    Ok(())
}

/// Rank 0 prints `hears R` when it first hears from a rank, and `misses R` when the rank
/// becomes silent.
fn beat(world: &mut World) -> Outcome {
    let mut heard: BTreeMap<Rank, Instant> = BTreeMap::new();
    loop {
        if world.rank() != Rank::MASTER {
            world.send(Rank::MASTER, vec![1]).map_err(|error| error.to_string())?;
        }
        while let Some((from, _)) = world.receive().map_err(|error| error.to_string())? {
            if heard.insert(from, Instant::now()).is_none() {
                print_rank(world, &format!("hears {}", from.0));
            }
        }
        let silent: Vec<_> =
            heard.iter().filter(|(_, last)| last.elapsed() > SILENCE).map(|(rank, _)| *rank).collect();
        for rank in silent {
            heard.remove(&rank);
            print_rank(world, &format!("misses {}", rank.0));
        }
        world.advance_sends().map_err(|error| error.to_string())?;
        std::thread::sleep(BEAT);
    }
}
