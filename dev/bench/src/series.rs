//! Runs series of paired runs, the core of every benchmark here.
//!
//! ```text
//!   round 0 (discarded)  A B C
//!   round 1              B C A     one run:  prepare test bed ─► run and measure ─► sync ─► verify
//!   ...                  C A B
//! ```
//!
//! The candidates take turns, so background activity hits all of them alike and figures of one
//! series can be compared as ratios. The first round is discarded: it loads the programs, and it
//! makes the images allocate most of their blocks on the disk below.
//!
//! A candidate that fails once (exit status, sync, or copy) drops out: it gets no time, and the
//! reason for the failure is kept.
//!
//! This module knows neither what is compared nor how results are shown.

use std::process::Stdio;
use std::time::Duration;

use serde::Serialize;

use crate::candidates::Candidate;
use crate::error::Result;
use crate::ground::{CacheState, ImageGround, sync};
use crate::interrupt::Interrupt;
use crate::measure::{Usage, measure};
use crate::programs;
use crate::verify::{self, Digest};

/// Maximum number of differences reported for a wrong copy.
const DIFFERENCES_PRINTED_MAX: usize = 3;

/// Parameters of a series.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeriesPlan {
    /// Rounds counted, after the discarded first round.
    pub(crate) rounds: u32,
    /// Cache state of the source at the start of every run.
    pub(crate) cache: CacheState,
    /// Time limit of a run.
    pub(crate) limit: Duration,
    /// Digest that the source and every copy must have.
    pub(crate) expected: Digest,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct SeriesRun {
    /// Label of the candidate.
    pub(crate) candidate: String,
    /// Round number; round 0 is discarded.
    pub(crate) round: u32,
    pub(crate) usage: Usage,
    /// Time from the start of the command to the return of the sync after it.
    pub(crate) seconds_with_sync: f64,
    /// Why the candidate has no time, if it failed.
    pub(crate) failure: Option<String>,
}

/// Runs a series and returns its runs in order; `observe` is called after each run.
///
/// # Errors
///
/// A failure of the test bed, or an interruption; never a failure of a candidate.
pub(crate) fn run(
    ground: &mut ImageGround,
    candidates: &[Candidate],
    plan: &SeriesPlan,
    interrupt: &Interrupt,
    observe: &mut dyn FnMut(&SeriesRun),
) -> Result<Vec<SeriesRun>> {
    let mut runs: Vec<SeriesRun> = Vec::new();
    for round in 0..=plan.rounds {
        for candidate in order(candidates, round) {
            let is_out = |run: &SeriesRun| run.candidate == candidate.label && run.failure.is_some();
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

/// Returns the candidates in the order of a round: each round begins with the next one, and after
/// all had their turn the direction changes. A run may
/// depend on the one before it (docs/measurements/README.md).
fn order(candidates: &[Candidate], round: u32) -> Vec<&Candidate> {
    let (round, count) = (round as usize, candidates.len());
    let mut order: Vec<&Candidate> = candidates.iter().collect();
    order.rotate_left(round % count.max(1));
    if round / count.max(1) % 2 == 1 {
        order.reverse();
    }
    order
}

fn run_once(
    ground: &ImageGround,
    candidate: &Candidate,
    plan: &SeriesPlan,
    round: u32,
    interrupt: &Interrupt,
) -> Result<SeriesRun> {
    let said = programs::scratch()?;
    let mut command = candidate.command(&ground.source_tree(), &ground.target_tree());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(programs::share(&said)?);
    let measured = measure(&mut command, plan.limit, interrupt)?;
    let synced = sync(ground.target_top());
    let seconds_with_sync = measured.started.elapsed().as_secs_f64();
    // The clock has stopped; what follows may be slow.
    let failure = match (measured.failure(&programs::text_of(said)?), synced) {
        (Some(failure), _) => Some(failure),
        (None, Err(error)) => Some(format!("its data did not reach the disk: {error}")),
        (None, Ok(())) => wrong_copy(ground, plan.expected, interrupt)?,
    };
    Ok(SeriesRun {
        candidate: candidate.label.clone(),
        round,
        usage: measured.usage,
        seconds_with_sync,
        failure,
    })
}

/// Describes what is wrong with the copy, or returns `None` if it is correct.
fn wrong_copy(ground: &ImageGround, expected: Digest, interrupt: &Interrupt) -> Result<Option<String>> {
    let (source, copy) = (ground.source_tree(), ground.target_tree());
    // An unreadable or missing copy is the candidate's failure, not an error of the benchmark.
    let why = match verify::digest(&copy, interrupt) {
        Ok(digest) if digest == expected => return Ok(None),
        Ok(_) => verify::differences(&source, &copy, DIFFERENCES_PRINTED_MAX, interrupt)?.join("; "),
        Err(error) if error.is_interruption() => return Err(error),
        Err(error) => error.to_string(),
    };
    Ok(Some(format!("wrong copy: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_candidate_begins_and_follows_each_other_equally_often() {
        let candidates = ["a", "b", "c"].map(|label| Candidate::unreal("cp", label));
        let orders: Vec<String> = (0..6)
            .map(|round| order(&candidates, round).iter().map(|one| one.label.as_str()).collect())
            .collect();
        assert_eq!(orders, ["abc", "bca", "cab", "cba", "acb", "bac"]);
        assert_eq!(order(&[], 1).len(), 0);
    }
}
