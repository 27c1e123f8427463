//! `--stats`: counts and costs of a run, as a table for people or one JSON object for programs.
//!
//! Processor times and peak memory are the kernel's figures for the whole process, read from
//! `/proc`. If that is not mounted they are omitted.

use std::time::Duration;

use haul_flow::{RunInfo, Tally};
use serde::Serialize;

use crate::amounts;

/// Ticks per second in `/proc/self/stat`: the kernel converts to this unit on every architecture
/// that Rust's standard library runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// Statistics of one run. The field names are those of the JSON object.
#[derive(Debug, Serialize)]
pub(crate) struct Statistics {
    files: u64,
    directories: u64,
    symlinks: u64,
    specials: u64,
    hard_links: u64,
    skipped: u64,
    excluded: u64,
    unchanged: u64,
    changed: u64,
    mended: u64,
    deleted: u64,
    reflinked: u64,
    retried: u64,
    verified: u64,
    repaired: u64,
    problems: u64,
    bytes: u64,
    seconds: f64,
    bytes_per_second: u64,
    files_per_second: u64,
    user_seconds: Option<f64>,
    system_seconds: Option<f64>,
    peak_memory_bytes: Option<u64>,
    engine: Option<&'static str>,
    jobs: Option<usize>,
}

impl Statistics {
    /// Collects the statistics of a finished run: counts, problems reported, duration, and its
    /// resources if it got that far.
    pub(crate) fn of_run(tally: Tally, problems: u64, took: Duration, run_info: Option<RunInfo>) -> Self {
        let seconds = took.as_secs_f64();
        let processor =
            std::fs::read_to_string("/proc/self/stat").ok().and_then(|text| processor_seconds(&text));
        let status = std::fs::read_to_string("/proc/self/status").ok();
        Self {
            files: tally.files,
            directories: tally.directories,
            symlinks: tally.symlinks,
            specials: tally.specials,
            hard_links: tally.hard_links,
            skipped: tally.skipped,
            excluded: tally.excluded,
            unchanged: tally.unchanged,
            changed: tally.changed,
            mended: tally.mended,
            deleted: tally.deleted,
            reflinked: tally.reflinked,
            retried: tally.retried,
            verified: tally.verified,
            repaired: tally.repaired,
            problems,
            bytes: tally.bytes,
            seconds,
            bytes_per_second: per_second(tally.bytes, seconds),
            files_per_second: per_second(tally.files, seconds),
            user_seconds: processor.map(|(user, _)| user),
            system_seconds: processor.map(|(_, system)| system),
            peak_memory_bytes: status.and_then(|text| peak_memory_bytes(&text)),
            engine: run_info.map(|run_info| run_info.engine),
            jobs: run_info.map(|run_info| run_info.jobs),
        }
    }

    pub(crate) fn table(&self) -> String {
        let counts = [
            ("files", self.files),
            ("directories", self.directories),
            ("symbolic links", self.symlinks),
            ("special files", self.specials),
            ("hard links", self.hard_links),
            ("skipped", self.skipped),
            ("excluded", self.excluded),
            ("unchanged", self.unchanged),
            ("changed", self.changed),
            ("mended", self.mended),
            ("deleted", self.deleted),
            ("reflinked", self.reflinked),
            ("retried", self.retried),
            ("verified", self.verified),
            ("repaired", self.repaired),
            ("problems", self.problems),
        ];
        let always = ["files", "directories"];
        let mut rows = counts
            .into_iter()
            .filter(|(name, amount)| *amount > 0 || always.contains(name))
            .map(|(name, amount)| (name, amount.to_string()))
            .collect::<Vec<_>>();
        rows.push(("bytes", format!("{} ({})", self.bytes, amounts::bytes(self.bytes))));
        rows.push(("seconds", format!("{:.3}", self.seconds)));
        let rates = (amounts::bytes(self.bytes_per_second), amounts::count(self.files_per_second));
        rows.push(("rate", format!("{}/s, {} files/s", rates.0, rates.1)));
        if let Some((user, system)) = self.user_seconds.zip(self.system_seconds) {
            rows.push(("processors", format!("{user:.2} s user, {system:.2} s system")));
        }
        if let Some(peak) = self.peak_memory_bytes {
            rows.push(("peak memory", amounts::bytes(peak)));
        }
        if let Some((engine, jobs)) = self.engine.zip(self.jobs) {
            rows.push(("engine", engine.to_owned()));
            rows.push(("jobs", jobs.to_string()));
        }
        rows.into_iter().map(|(name, value)| format!("{name:<16}{value}\n")).collect()
    }

    /// Formats the most important figures for a line of a log.
    pub(crate) fn summary(&self) -> String {
        let Self { files, bytes, problems, seconds, .. } = self;
        format!("files: {files}, bytes: {bytes}, problems: {problems}, seconds: {seconds:.3}")
    }

    /// Formats one JSON object on one line.
    pub(crate) fn json(&self) -> String {
        // Serialization can't fail: the object holds numbers and one word.
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

/// Divides; a run too short to have a rate has rate 0.
fn per_second(amount: u64, seconds: f64) -> u64 {
    if seconds > 0.0 { (amount as f64 / seconds) as u64 } else { 0 }
}

/// Reads user and system time from `/proc/self/stat`: the eleventh and twelfth fields after the
/// state, which follows the command's name in parentheses. The name may contain a parenthesis, so
/// the last one counts.
fn processor_seconds(text: &str) -> Option<(f64, f64)> {
    let (_, fields) = text.rsplit_once(')')?;
    let mut ticks = fields.split_ascii_whitespace().skip(11).map(|field| field.parse::<f64>().ok());
    Some((ticks.next()?? / TICKS_PER_SECOND, ticks.next()?? / TICKS_PER_SECOND))
}

/// Reads peak resident memory from `/proc/self/status`.
fn peak_memory_bytes(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics() -> Statistics {
        let tally = Tally { files: 3, directories: 1, bytes: 3_000_000, skipped: 2, ..Tally::default() };
        Statistics::of_run(tally, 1, Duration::from_millis(1500), Some(RunInfo { engine: "sync", jobs: 4 }))
    }

    #[test]
    fn the_table_holds_what_there_is_to_say() {
        let table = statistics().table();
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(
            &lines[..4],
            ["files           3", "directories     1", "skipped         2", "problems        1"]
        );
        assert_eq!(lines[4], "bytes           3000000 (3.00 MB)");
        assert_eq!(lines[5], "seconds         1.500");
        assert_eq!(lines[6], "rate            2.00 MB/s, 2 files/s");
        assert_eq!(&lines[lines.len() - 2..], ["engine          sync", "jobs            4"]);
        assert!(!table.contains("hard links"), "{table}");
    }

    #[test]
    fn the_json_object_is_one_line_with_every_figure() {
        let json = statistics().json();
        assert_eq!(json.matches('\n').count(), 1);
        let object: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(object["files"], 3);
        assert_eq!(object["problems"], 1);
        assert_eq!(object["bytes_per_second"], 2_000_000);
        assert_eq!(object["jobs"], 4);
        assert!(object["peak_memory_bytes"].as_u64().unwrap() > 100_000);
        assert!(object["system_seconds"].as_f64().unwrap() >= 0.0);
    }

    #[test]
    fn the_kernels_accounts_are_read() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 250 125 0 0 20 0 1 0";
        assert_eq!(processor_seconds(stat), Some((2.5, 1.25)));
        assert_eq!(processor_seconds("7 (a"), None);
        assert_eq!(peak_memory_bytes("VmPeak:\t 9 kB\nVmHWM:\t    1024 kB\n"), Some(1 << 20));
        assert_eq!(peak_memory_bytes("VmPeak:\t 9 kB\n"), None);
    }
}
