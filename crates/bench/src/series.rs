//! A series of paired runs: the engine of every benchmark here.
//!
//! ```text
//!   round 0 (thrown away)   A B C
//!   round 1                 A B C        one run:  ready the ground ─► run and measure ─► sync ─► verify
//!   ...                     A B C
//! ```
//!
//! The candidates take turns, so that whatever the machine does in the background falls on all of them,
//! and figures of one series can be divided by each other. The first round is run and thrown away: it
//! loads the programs, and the images get most of their blocks on the disk below.
//!
//! A candidate that fails once (by its exit status, by the sync after it, by its copy) is out: it has no
//! time, and the reason is kept.
//!
//! It knows nothing of what is compared or how it is shown: [`crate::compare`] is its first user.

use std::process::Stdio;
use std::time::Duration;

use serde::Serialize;

use crate::candidates::Candidate;
use crate::error::Result;
use crate::ground::{CacheState, Ground, sync};
use crate::interrupt::Interrupt;
use crate::measure::{Measured, Usage, measure};
use crate::programs;
use crate::verify::{self, Digest};

/// How many differences of a wrong copy are told.
const DIFFERENCES_TOLD: usize = 3;

/// Says how a series is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Rounds that count, after the one that does not.
    pub(crate) rounds: u32,
    /// The source's cache state at the start of every run.
    pub(crate) cache: CacheState,
    /// How long a run may take.
    pub(crate) limit: Duration,
    /// What source and copies must hold.
    pub(crate) expected: Digest,
}

/// One run of one candidate.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Run {
    /// The candidate's label.
    pub(crate) candidate: String,
    /// Its round; 0 is the one that does not count.
    pub(crate) round: u32,
    /// What the command used.
    pub(crate) usage: Usage,
    /// From the start of the command to the return of the sync after it.
    pub(crate) seconds_with_sync: f64,
    /// Why it has no time, if it has none.
    pub(crate) failure: Option<String>,
}

/// Runs a series and returns its runs in their order; `observe` sees each when it is done.
///
/// # Errors
///
/// What makes the ground useless, and an interruption; never a candidate's failure.
pub(crate) fn run(
    ground: &mut Ground,
    candidates: &[Candidate],
    plan: &Plan,
    interrupt: &Interrupt,
    observe: &mut dyn FnMut(&Run),
) -> Result<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    for round in 0..=plan.rounds {
        for candidate in candidates {
            let is_out = |run: &Run| run.candidate == candidate.label && run.failure.is_some();
            if runs.iter().any(is_out) {
                continue;
            }
            ground.ready(plan.cache, plan.expected, interrupt)?;
            let run = run_once(ground, candidate, plan, round, interrupt)?;
            observe(&run);
            runs.push(run);
        }
    }
    Ok(runs)
}

fn run_once(
    ground: &Ground,
    candidate: &Candidate,
    plan: &Plan,
    round: u32,
    interrupt: &Interrupt,
) -> Result<Run> {
    let said = programs::scratch()?;
    let mut command = candidate.command(&ground.source_tree(), &ground.target_tree());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(programs::share(&said)?);
    let measured = measure(&mut command, plan.limit, interrupt)?;
    let synced = sync(ground.target_top());
    let seconds_with_sync = measured.started.elapsed().as_secs_f64();
    // The clock is stopped. From here on, time does not matter.
    let failure = match (ended_badly(&measured, || programs::text_of(said))?, synced) {
        (Some(failure), _) => Some(failure),
        (None, Err(error)) => Some(format!("its data did not reach the disk: {error}")),
        (None, Ok(())) => wrong_copy(ground, plan.expected, interrupt)?,
    };
    Ok(Run { candidate: candidate.label.clone(), round, usage: measured.usage, seconds_with_sync, failure })
}

/// Says how a command ended, and its first message, unless it ended well.
fn ended_badly(measured: &Measured, said: impl FnOnce() -> Result<String>) -> Result<Option<String>> {
    let Some(failure) = measured.ending.failure() else { return Ok(None) };
    let said = said()?;
    Ok(Some(match said.lines().map(str::trim).find(|line| !line.is_empty()) {
        Some(message) => format!("{failure}: {message}"),
        None => failure,
    }))
}

/// Says what is wrong with the copy; nothing when it is right.
fn wrong_copy(ground: &Ground, expected: Digest, interrupt: &Interrupt) -> Result<Option<String>> {
    let (source, copy) = (ground.source_tree(), ground.target_tree());
    // A copy that cannot be read (there is none, for one) is the candidate's failure and not ours.
    let why = match verify::digest(&copy, interrupt) {
        Ok(digest) if digest == expected => return Ok(None),
        Ok(_) => verify::differences(&source, &copy, DIFFERENCES_TOLD, interrupt)?.join("; "),
        Err(error) if error.is_interruption() => return Err(error),
        Err(error) => error.to_string(),
    };
    Ok(Some(format!("wrong copy: {why}")))
}
