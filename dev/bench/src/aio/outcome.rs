//! Results of the engines: rows of a table that fits in 100 columns, and the JSON.

use serde::Serialize;

use crate::aio::settings::{AccessPattern, AioSettings, TransferKind};
use crate::machine::MachineFacts;
use crate::names::ValueName;
use crate::statistics::Summary;

/// Results of one benchmark; the content of `--json`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct AioReport {
    pub(crate) machine: MachineFacts,
    pub(crate) settings: AioSettings,
    /// False if the kernel could not confirm in every round that the file was not cached at all.
    pub(crate) cache_checked: bool,
    /// Engines that the kernel refused.
    pub(crate) refused: Vec<UnavailableEngine>,
    /// One row per pattern, kind and engine.
    pub(crate) results: Vec<EngineFigures>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct UnavailableEngine {
    pub(crate) engine: &'static str,
    pub(crate) why: String,
}

/// Figures of one engine with one pattern and kind.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct EngineFigures {
    pub(crate) engine: &'static str,
    pub(crate) pattern: AccessPattern,
    pub(crate) kind: TransferKind,
    /// True if the page cache was bypassed.
    pub(crate) direct: bool,
    /// Maximum number of records in flight at once, in any round.
    pub(crate) in_flight_max: usize,
    /// Mean of the rounds, in 10^6 bytes per second.
    pub(crate) megabytes_per_second: f64,
    /// Their sample standard deviation; `None` with one round.
    pub(crate) deviation: Option<f64>,
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// Every counted round, in 10^6 bytes per second.
    pub(crate) rounds: Vec<f64>,
    /// Writes without O_SYNC only: seconds of the fsync after each round, which the figures above
    /// do not include.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) fsync_seconds: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) speed: f64,
    /// Seconds of the fsync afterwards, if there was one.
    pub(crate) fsync_seconds: Option<f64>,
    pub(crate) in_flight_max: usize,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Rounds {
    speeds: Vec<f64>,
    fsync_seconds: Vec<f64>,
    in_flight_max: usize,
}

impl Rounds {
    pub(crate) fn push(&mut self, round: Round) {
        self.speeds.push(round.speed);
        self.fsync_seconds.extend(round.fsync_seconds);
        self.in_flight_max = self.in_flight_max.max(round.in_flight_max);
    }

    /// Summarises the rounds, or returns `None` if there are none.
    pub(crate) fn row(
        self,
        engine: &'static str,
        pattern: AccessPattern,
        kind: TransferKind,
        direct: bool,
    ) -> Option<EngineFigures> {
        let Summary { mean, deviation, min, max, .. } = Summary::of(self.speeds.iter().copied())?;
        Some(EngineFigures {
            engine,
            pattern,
            kind,
            direct,
            in_flight_max: self.in_flight_max,
            megabytes_per_second: mean,
            deviation,
            min,
            max,
            rounds: self.speeds,
            fsync_seconds: self.fsync_seconds,
        })
    }
}

pub(crate) fn heading(report: &AioReport) -> String {
    let AioSettings {
        file_bytes, record_bytes, records, depth, per_iteration, max_submit, alignment, ..
    } = report.settings;
    let MachineFacts { kernel, processor, processors, date, .. } = &report.machine;
    let through = if report.settings.direct { "direct" } else { "buffered" };
    let rounds = report.settings.rounds;
    let mut out = format!(
        "{file_bytes} bytes in {records} records of {record_bytes}, aligned to {alignment}; seed {}; {through}\n\
         depth {depth}, {per_iteration} an iteration, at most {max_submit} a submission; mean of {rounds} rounds\n\
         {date}; Linux {kernel}; {processors} processors ({processor})\n",
        report.settings.seed
    );
    for UnavailableEngine { engine, why } in &report.refused {
        out.push_str(&format!("{engine}: not measured: {why}\n"));
    }
    let columns =
        ["engine", "pattern", "kind", "cache", "MB/s", "deviation", "min–max", "fsync s", "in flight"];
    format!("{out}\n{}", line(&columns.map(str::to_owned)))
}

pub(crate) fn row(row: &EngineFigures) -> String {
    let fsync = Summary::of(row.fsync_seconds.iter().copied());
    let none = || "-".to_owned();
    line(&[
        row.engine.to_owned(),
        row.pattern.name(),
        row.kind.name(),
        if row.direct { "direct" } else { "buffered" }.to_owned(),
        speed(row.megabytes_per_second),
        row.deviation.map_or_else(none, speed),
        format!("{}–{}", speed(row.min), speed(row.max)),
        fsync.map_or_else(none, |fsync| format!("{:.2}", fsync.mean)),
        row.in_flight_max.to_string(),
    ])
}

/// Widths of the columns. Names are left-aligned, figures right-aligned.
const WIDTHS: [usize; 9] = [12, 12, 12, 9, 9, 11, 17, 8, 10];

const NAMES: usize = 4;

fn line(cells: &[String; 9]) -> String {
    let mut out = String::new();
    for (index, (cell, width)) in cells.iter().zip(WIDTHS).enumerate() {
        out.push_str(&if index < NAMES { format!("{cell:<width$}") } else { format!("{cell:>width$}") });
    }
    out.push('\n');
    out
}

/// Formats 10^6 bytes per second with about three significant digits.
pub(crate) fn speed(value: f64) -> String {
    let decimals = match value {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(speeds: &[f64], fsync_seconds: &[f64]) -> Rounds {
        Rounds { speeds: speeds.to_vec(), fsync_seconds: fsync_seconds.to_vec(), in_flight_max: 32_768 }
    }

    #[test]
    fn the_mean_is_that_of_the_rounds() {
        let one = rounds(&[10.0, 20.0, 60.0], &[])
            .row("sync", AccessPattern::Random, TransferKind::Read, true)
            .unwrap();
        assert_eq!((one.megabytes_per_second, one.min, one.max), (30.0, 10.0, 60.0));
        assert!((one.deviation.unwrap() - 700_f64.sqrt()).abs() < 1e-9);
        assert!(Rounds::default().row("sync", AccessPattern::Random, TransferKind::Read, true).is_none());
    }

    #[test]
    fn columns_are_straight_and_fit_in_a_hundred() {
        let long = [12_345.6, 23_456.7];
        let wide = rounds(&long, &[100.25, 100.75]);
        let wide = wide.row("kernel-aio", AccessPattern::Sequential, TransferKind::SyncWrite, false).unwrap();
        let thin =
            rounds(&[1.234], &[]).row("sync", AccessPattern::Random, TransferKind::Read, true).unwrap();
        let (wide, thin) = (row(&wide), row(&thin));
        assert_eq!(wide.chars().count(), thin.chars().count());
        assert!(wide.trim_end().chars().count() <= 100, "{wide}");
        let words: Vec<&str> = thin.split_whitespace().collect();
        assert_eq!(words, ["sync", "random", "read", "direct", "1.23", "-", "1.23–1.23", "-", "32768"]);
        assert!(wide.contains("kernel-aio  sequential  sync-write  buffered "), "{wide}");
        assert!(wide.contains("12346–23457") && wide.contains("100.50"), "{wide}");
    }
}
