//! Results of the measurements, and whether haul's own choice is slower than a forced setting.

use serde::Serialize;

use super::settings::AUTO;
use crate::machine::MachineFacts;
use crate::statistics::Summary;

/// Maximum accepted ratio of the time with haul's own choice to that of the best forced setting.
pub(crate) const RATIO_MAX: f64 = 1.05;

/// Everything that was measured: the content of the JSON.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct AutoFindings {
    pub(crate) machine: MachineFacts,
    /// First line of `haul --version`.
    pub(crate) version: String,
    pub(crate) rounds: u32,
    pub(crate) rounds_again: u32,
    pub(crate) scale: f64,
    pub(crate) seed: u64,
    /// Sets, with what is in them.
    pub(crate) sets: Vec<(&'static str, &'static str)>,
    pub(crate) columns: Vec<Column>,
    pub(crate) cells: Vec<Cell>,
}

/// A file system, in one state of the cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Column {
    /// The file system, or "latency".
    pub(crate) file_system: String,
    /// The state of the cache, or how long every request takes.
    pub(crate) state: String,
    /// Why nothing was measured.
    pub(crate) skipped: Option<String>,
}

impl Column {
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.file_system, self.state)
    }
}

/// The runs over one set on one file system.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cell {
    pub(crate) set: &'static str,
    /// Index of its column.
    pub(crate) column: usize,
    /// Settings, haul's own choice first.
    pub(crate) timings: Vec<Timing>,
    /// Later runs of haul's own choice and the setting that seemed best.
    pub(crate) again: Option<[Timing; 2]>,
    pub(crate) comparison: Option<ForcedComparison>,
}

/// Seconds of one setting, one for each round.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Timing {
    pub(crate) setting: &'static str,
    pub(crate) seconds: Vec<f64>,
}

impl Timing {
    pub(crate) fn new(setting: &'static str) -> Timing {
        Timing { setting, seconds: Vec::new() }
    }

    pub(crate) fn median(&self) -> Option<f64> {
        Summary::of(self.seconds.iter().copied()).map(|summary| summary.median)
    }
}

/// haul's own choice and the best forced setting.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct ForcedComparison {
    pub(crate) best: &'static str,
    /// Median of haul's own choice, divided by that of the best.
    pub(crate) ratio: f64,
    /// True if the ratio is over [`RATIO_MAX`] and outside the noise.
    pub(crate) is_behind: bool,
}

impl ForcedComparison {
    /// Compares paired runs.
    ///
    /// The difference is outside the noise if haul's own choice was slower in eight of nine rounds.
    /// If both were as fast, chance would make that so in 2 % of cells (sign test).
    pub(crate) fn of(auto: &Timing, best: &Timing) -> Option<ForcedComparison> {
        let ratio = auto.median()? / best.median()?;
        let rounds = auto.seconds.iter().zip(&best.seconds);
        let slower = rounds.filter(|(auto, best)| auto > best).count();
        let is_behind = ratio > RATIO_MAX && slower * 9 >= auto.seconds.len() * 8;
        Some(ForcedComparison { best: best.setting, ratio, is_behind })
    }
}

impl Cell {
    pub(crate) fn new(
        set: &'static str,
        column: usize,
        settings: impl Iterator<Item = &'static str>,
    ) -> Cell {
        Cell { set, column, timings: settings.map(Timing::new).collect(), again: None, comparison: None }
    }

    /// Adds a run.
    pub(crate) fn note(&mut self, setting: &str, seconds: f64) {
        if let Some(timing) = self.timings.iter_mut().find(|timing| timing.setting == setting) {
            timing.seconds.push(seconds);
        }
    }

    /// Compares haul's own choice with the fastest of the others.
    pub(crate) fn compare(&mut self) {
        let best = self.timings.iter().filter(|timing| timing.setting != AUTO);
        let best = best.filter_map(|timing| Some((timing, timing.median()?)));
        let best = best.min_by(|one, other| one.1.total_cmp(&other.1));
        let auto = self.timings.iter().find(|timing| timing.setting == AUTO);
        self.comparison = auto.zip(best).and_then(|(auto, (best, _))| ForcedComparison::of(auto, best));
    }

    /// Judges by later runs only. The fastest of many settings is the fastest partly by chance.
    pub(crate) fn compare_again(&mut self, again: [Timing; 2]) {
        let [auto, best] = &again;
        self.comparison = ForcedComparison::of(auto, best);
        self.again = Some(again);
    }
}

impl AutoFindings {
    pub(crate) fn cell(&self, set: &str, column: usize) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.set == set && cell.column == column)
    }

    /// Returns the cells in which haul's own choice is behind, and the number of compared cells.
    pub(crate) fn behind(&self) -> (Vec<&Cell>, usize) {
        let compared = || self.cells.iter().filter_map(|cell| Some((cell, cell.comparison?)));
        let behind = compared().filter(|(_, comparison)| comparison.is_behind);
        (behind.map(|(cell, _)| cell).collect(), compared().count())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn timing(setting: &'static str, seconds: &[f64]) -> Timing {
        Timing { setting, seconds: seconds.to_vec() }
    }

    fn compared(auto: &[f64], best: &[f64]) -> ForcedComparison {
        ForcedComparison::of(&timing(AUTO, auto), &timing("sync", best)).unwrap()
    }

    #[test]
    fn behind_is_slower_in_eight_of_nine_rounds_and_by_more_than_the_limit() {
        assert!(compared(&[1.2, 1.2, 1.2], &[1.0, 1.1, 1.0]).is_behind);
        // Within the limit.
        assert!(!compared(&[1.04, 1.04, 1.04], &[1.0, 1.0, 1.0]).is_behind);
        // Faster in one round.
        assert!(!compared(&[1.2, 1.2, 1.2], &[1.0, 1.3, 1.0]).is_behind);
        let mut best = [1.0; 9];
        best[0] = 1.3;
        assert!(compared(&[1.2; 9], &best).is_behind);
        best[1] = 1.3;
        assert!(!compared(&[1.2; 9], &best).is_behind);
        assert_eq!(ForcedComparison::of(&timing(AUTO, &[]), &timing("sync", &[1.0])), None);
    }

    #[test]
    fn a_cell_is_judged_by_its_later_runs() {
        let mut cell = Cell::new("many", 0, [AUTO, "sync", "io-uring"].into_iter());
        for (setting, seconds) in [(AUTO, 1.2), ("sync", 1.0), ("io-uring", 1.1)] {
            cell.note(setting, seconds);
        }
        cell.compare();
        let first = cell.comparison.unwrap();
        assert_eq!((first.best, first.is_behind), ("sync", true));
        cell.compare_again([timing(AUTO, &[1.0]), timing("sync", &[1.0])]);
        assert!(!cell.comparison.unwrap().is_behind);
    }

    /// Two sets over three columns: one behind, one slower within the noise, one faster; one column
    /// skipped.
    pub(crate) fn example() -> AutoFindings {
        let column = |file_system: &str, state: &str, skipped: Option<&str>| Column {
            file_system: file_system.to_owned(),
            state: state.to_owned(),
            skipped: skipped.map(str::to_owned),
        };
        let cell = |set, column, auto: &[f64]| {
            let timings = vec![timing(AUTO, auto), timing("sync", &[0.1, 0.1, 0.1])];
            let mut cell = Cell { set, column, timings, again: None, comparison: None };
            cell.compare();
            cell
        };
        AutoFindings {
            machine: MachineFacts {
                kernel: "6.18".to_owned(),
                processor: "a processor".to_owned(),
                processors: 2,
                memory_bytes: 1 << 30,
                date: "2026-01-01".to_owned(),
            },
            version: "haul 1.0".to_owned(),
            rounds: 3,
            rounds_again: 5,
            scale: 1.0,
            seed: 1,
            sets: vec![("many", "many files"), ("one", "one file")],
            columns: vec![
                column("ext4", "cold", None),
                column("ext4", "warm", None),
                column("xfs", "cold", Some("mkfs.xfs is needed & was not found")),
            ],
            cells: vec![
                cell("many", 0, &[0.13, 0.13, 0.13]),
                cell("many", 1, &[0.09, 0.12, 0.12]),
                cell("one", 0, &[0.08, 0.08, 0.08]),
            ],
        }
    }
}
