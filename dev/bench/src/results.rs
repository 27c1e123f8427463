//! Results of a comparison: the runs and their statistics. This is the content of the JSON.

use serde::Serialize;

use crate::candidates::{BOUND, Candidate, GNU, HAUL};
use crate::ground::{CacheState, ImageLayout};
use crate::machine::MachineFacts;
use crate::series::SeriesRun;
use crate::shapes::Totals;
use crate::statistics::Summary;
use crate::verify::Digest;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct CompareReport {
    pub(crate) machine: MachineFacts,
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) layout: ImageLayout,
    pub(crate) rounds: u32,
    /// The series that were finished.
    pub(crate) series: Vec<Series>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Series {
    pub(crate) workload: MeasuredTree,
    pub(crate) cache: CacheState,
    /// Results, in the order of the candidates.
    pub(crate) outcomes: Vec<SeriesOutcome>,
    pub(crate) runs: Vec<SeriesRun>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct MeasuredTree {
    pub(crate) name: String,
    pub(crate) totals: Totals,
    /// Seed of a generated tree; `None` for a real directory.
    pub(crate) seed: Option<u64>,
    /// Digest of the contents: equal digests mean identical trees.
    pub(crate) digest: Digest,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct SeriesOutcome {
    pub(crate) id: &'static str,
    pub(crate) candidate: String,
    /// Its figures, or the reason it has none.
    #[serde(flatten)]
    pub(crate) figures: SeriesFigures,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SeriesFigures {
    Timed(Timed),
    Failed(String),
}

/// Figures of a candidate whose copies were all correct.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Timed {
    pub(crate) seconds: Summary,
    /// Seconds to the return of the sync after it.
    pub(crate) seconds_with_sync: Summary,
    pub(crate) cpu_seconds: Summary,
    pub(crate) memory_peak_bytes: u64,
    /// Lowest peak that could have been measured.
    pub(crate) memory_floor_bytes: u64,
    /// Median of GNU cp divided by this candidate's median; `None` if GNU cp has no time.
    pub(crate) ratio_to_gnu: Option<f64>,
}

impl Series {
    /// Returns how many processors the rest of the machine kept busy while candidates ran.
    pub(crate) fn processors_elsewhere(&self) -> f64 {
        let sum = |value: fn(&SeriesRun) -> f64| {
            self.runs.iter().filter(|run| run.round > 0).map(value).sum::<f64>()
        };
        let seconds = sum(|run| run.usage.seconds);
        if seconds > 0.0 { sum(|run| run.usage.elsewhere_seconds) / seconds } else { 0.0 }
    }
}

impl SeriesOutcome {
    pub(crate) fn timed(&self) -> Option<&Timed> {
        match &self.figures {
            SeriesFigures::Timed(timed) => Some(timed),
            SeriesFigures::Failed(_) => None,
        }
    }
}

pub(crate) fn outcomes(candidates: &[Candidate], runs: &[SeriesRun]) -> Vec<SeriesOutcome> {
    let mut outcomes: Vec<SeriesOutcome> = candidates
        .iter()
        .map(|candidate| {
            let own: Vec<&SeriesRun> = runs.iter().filter(|run| run.candidate == candidate.label).collect();
            SeriesOutcome { id: candidate.id, candidate: candidate.label.clone(), figures: figures(&own) }
        })
        .collect();
    let gnu = outcomes.iter().find(|outcome| outcome.id == GNU).and_then(SeriesOutcome::timed);
    let gnu = gnu.map(|timed| timed.seconds.median);
    for outcome in &mut outcomes {
        if let SeriesFigures::Timed(timed) = &mut outcome.figures {
            timed.ratio_to_gnu = gnu.map(|gnu| gnu / timed.seconds.median);
        }
    }
    outcomes
}

fn figures(runs: &[&SeriesRun]) -> SeriesFigures {
    if let Some(failure) = runs.iter().find_map(|run| run.failure.clone()) {
        return SeriesFigures::Failed(failure);
    }
    let counted = || runs.iter().filter(|run| run.round > 0);
    let summary = |value: fn(&SeriesRun) -> f64| Summary::of(counted().map(|run| value(run)));
    let all = (
        summary(|run| run.usage.seconds),
        summary(|run| run.seconds_with_sync),
        summary(|run| run.usage.user_seconds + run.usage.system_seconds),
    );
    let (Some(seconds), Some(seconds_with_sync), Some(cpu_seconds)) = all else {
        return SeriesFigures::Failed("it was not run".to_owned());
    };
    let most = |value: fn(&SeriesRun) -> u64| counted().map(|run| value(run)).max().unwrap_or_default();
    SeriesFigures::Timed(Timed {
        seconds,
        seconds_with_sync,
        cpu_seconds,
        memory_peak_bytes: most(|run| run.usage.memory_peak_bytes),
        memory_floor_bytes: most(|run| run.usage.memory_floor_bytes),
        ratio_to_gnu: None,
    })
}

/// Returns the fastest candidate other than haul and GNU cp, with its median seconds.
pub(crate) fn best_rival(outcomes: &[SeriesOutcome]) -> Option<(&str, f64)> {
    outcomes
        .iter()
        .filter(|outcome| outcome.id != HAUL && outcome.id != GNU && !outcome.id.starts_with(BOUND))
        .filter_map(|outcome| Some((outcome.candidate.as_str(), outcome.timed()?.seconds.median)))
        .min_by(|one, other| one.1.total_cmp(&other.1))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::measure::Usage;

    /// Makes a run of `seconds`, half of them CPU time, with as much again for the sync.
    pub(crate) fn run(candidate: &str, round: u32, seconds: f64) -> SeriesRun {
        let usage = Usage {
            seconds,
            user_seconds: seconds / 4.0,
            system_seconds: seconds / 4.0,
            memory_peak_bytes: 5_000_000 + u64::from(round),
            memory_floor_bytes: 1_000_000,
            elsewhere_seconds: seconds / 10.0,
        };
        let candidate = candidate.to_owned();
        SeriesRun { candidate, round, usage, seconds_with_sync: seconds * 2.0, failure: None }
    }

    /// Makes a candidate that cannot be run.
    pub(crate) fn candidate(id: &'static str, label: &str) -> Candidate {
        Candidate::unreal(id, label)
    }

    #[test]
    fn the_first_round_does_not_count() {
        let runs =
            [run("GNU cp", 0, 100.0), run("GNU cp", 1, 2.0), run("GNU cp", 2, 4.0), run("GNU cp", 3, 3.0)];
        let outcomes = outcomes(&[candidate(GNU, "GNU cp")], &runs);
        let timed = outcomes[0].timed().unwrap();
        assert_eq!((timed.seconds.median, timed.seconds.min, timed.seconds.max), (3.0, 2.0, 4.0));
        assert_eq!(timed.seconds_with_sync.median, 6.0);
        assert_eq!(timed.cpu_seconds.median, 1.5);
        assert_eq!(timed.memory_peak_bytes, 5_000_003);
        assert_eq!(timed.ratio_to_gnu, Some(1.0));
    }

    #[test]
    fn one_failure_takes_the_time_away() {
        let mut runs = [run("GNU cp", 0, 1.0), run("GNU cp", 1, 2.0), run("xcp", 0, 1.0), run("xcp", 1, 1.0)];
        runs[1].failure = Some("exit status 1".to_owned());
        let outcomes = outcomes(&[candidate(GNU, "GNU cp"), candidate("xcp", "xcp")], &runs);
        assert!(matches!(&outcomes[0].figures, SeriesFigures::Failed(why) if why == "exit status 1"));
        assert_eq!(outcomes[1].timed().unwrap().ratio_to_gnu, None);
    }

    #[test]
    fn the_best_rival_is_neither_haul_nor_gnu_cp_nor_a_bound_nor_one_that_failed() {
        let mut runs = vec![
            run("haul", 1, 1.0),
            run("GNU cp", 1, 1.5),
            run("cpz", 1, 1.7),
            run("fcp", 1, 3.0),
            run("xcp", 1, 2.0),
            run("bound", 1, 0.5),
        ];
        runs[2].failure = Some("wrong copy".to_owned());
        let candidates = [
            (HAUL, "haul"),
            (GNU, "GNU cp"),
            ("cpz", "cpz"),
            ("fcp", "fcp"),
            ("xcp", "xcp"),
            ("bound", "bound"),
        ]
        .map(|(id, label)| candidate(id, label));
        assert_eq!(best_rival(&outcomes(&candidates, &runs)), Some(("xcp", 2.0)));
    }
}
