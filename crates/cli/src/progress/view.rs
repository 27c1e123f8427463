//! Snapshot of a run's progress: amounts, rate and time left.

use std::cmp::Reverse;
use std::time::Duration;

use haul_flow::{SlowRank, Tally};

use crate::amounts;

/// Time constant of the average rate shown.
const RATE_MEMORY: Duration = Duration::from_secs(5);
/// Cost of an entry in bytes that take as long to copy. Without it, a tree of small files would
/// seem to stand still.
const ENTRY_WORK: u64 = 64 << 10;
/// Maximum number of lines about slow ranks.
const SLOW_RANKS_SHOWN: usize = 6;
/// Shown instead of the rate while the run waits for free space.
const PAUSED: &str = "paused: disk full";
/// Steps of the bar.
pub(super) const STEPS: u64 = 1000;

/// Total amount to copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Total {
    pub(crate) entries: u64,
    /// Bytes of regular files.
    pub(crate) bytes: u64,
}

/// Content of the display at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Picture {
    /// Position of the bar, of [`STEPS`], if the total is known.
    pub(super) steps: Option<u64>,
    /// Text next to the bar, at most 52 characters.
    pub(crate) text: String,
    /// The same without the least important parts, at most 32 characters.
    pub(super) short: String,
    /// Lines below it.
    pub(super) below: Vec<String>,
}

/// State kept from picture to picture.
#[derive(Debug, Default)]
pub(crate) struct ProgressView {
    /// Furthest position shown.
    steps: u64,
    /// Last sample: its time and amounts.
    last: Option<(Duration, Pace)>,
    /// Amounts per second.
    rate: Pace,
    /// True while the run waits for free space.
    pub(crate) is_paused: bool,
}

/// Amounts done, in all or per second.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    bytes: f64,
    work: f64,
}

impl ProgressView {
    /// Returns the picture of a run at a moment, and measures its rate.
    pub(crate) fn look(&mut self, done: Tally, total: Option<Total>, now: Duration) -> Picture {
        let work_done = work(done.finished, done.bytes);
        self.measure(Pace { bytes: done.bytes as f64, work: work_done as f64 }, now);
        let files = amounts::count(done.files);
        let rate = match self.is_paused {
            true => PAUSED.to_owned(),
            false => format!("{}/s", amounts::bytes(self.rate.bytes as u64)),
        };
        let Some(total) = total else {
            let found = amounts::count(done.discovered);
            let copied = amounts::bytes(done.bytes);
            let text = format!("{copied} {files} files of {found} found {rate}");
            let short = format!("{copied} {rate}");
            return Picture { steps: None, text, short, below: Vec::new() };
        };
        // The tree may have grown since it was counted.
        let work_total = work(total.entries, total.bytes).max(work_done).max(1);
        let steps = u128::from(work_done) * u128::from(STEPS) / u128::from(work_total);
        self.steps = self.steps.max(u64::try_from(steps).unwrap_or(STEPS));
        let percent = self.steps * 100 / STEPS;
        let copied = amounts::bytes_of(done.bytes, total.bytes.max(done.bytes));
        // Too early for an estimate.
        let left = if self.steps > 0 && !self.is_paused {
            self.time_left(work_total - work_done)
        } else {
            String::new()
        };
        Picture {
            steps: Some(self.steps),
            text: format!("{percent:>3}% {copied} {files} files {rate}{left}"),
            short: format!("{percent:>3}% {rate}{left}"),
            below: Vec::new(),
        }
    }

    /// Updates the rate, an average that weights recent samples most.
    fn measure(&mut self, done: Pace, now: Duration) {
        let (before, had) = self.last.unwrap_or_default();
        let seconds = (now - before).as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        let weight = match self.last {
            None => 1.0,
            Some(_) => seconds / (seconds + RATE_MEMORY.as_secs_f64()),
        };
        let blend = |rate: f64, done: f64, had: f64| rate + weight * ((done - had).max(0.0) / seconds - rate);
        self.rate = Pace {
            bytes: blend(self.rate.bytes, done.bytes, had.bytes),
            work: blend(self.rate.work, done.work, had.work),
        };
        self.last = Some((now, done));
    }

    fn time_left(&self, work_left: u64) -> String {
        match Duration::try_from_secs_f64(work_left as f64 / self.rate.work) {
            Ok(left) => format!(" ETA {}", amounts::time(left)),
            Err(_) => String::new(),
        }
    }
}

/// Returns a line for each slow rank, the slowest first, and at most [`SLOW_RANKS_SHOWN`] lines.
pub(super) fn lines_of(mut slow: Vec<SlowRank>) -> Vec<String> {
    slow.sort_by_key(|rank| (Reverse(rank.since), rank.rank));
    let shown = if slow.len() > SLOW_RANKS_SHOWN { SLOW_RANKS_SHOWN - 1 } else { slow.len() };
    let others = slow.split_off(shown).len();
    let line = |SlowRank { rank, host, since }: SlowRank| {
        format!("rank {rank} on {host}: nothing completed for {}", amounts::time(since))
    };
    let more = (others > 0).then(|| format!("and {others} more ranks"));
    slow.into_iter().map(line).chain(more).collect()
}

/// Combines entries and bytes in one measure.
fn work(entries: u64, bytes: u64) -> u64 {
    bytes.saturating_add(entries.saturating_mul(ENTRY_WORK))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COLUMNS: usize = 60;

    fn done(finished: u64, bytes: u64) -> Tally {
        Tally { discovered: finished + 10, finished, files: finished, bytes, ..Tally::default() }
    }

    proptest! {
        /// Counts only grow, but by any amount at any time, even past the total.
        #[test]
        fn percent_never_goes_backwards_and_lines_fit(
            is_paused: bool,
            moments in prop::collection::vec((0..1u64 << 45, 0..1u64 << 20, 0..100_000u64, prop::option::of(0..1u64 << 50)), 1..30),
        ) {
            let mut view = ProgressView { is_paused, ..ProgressView::default() };
            let mut now = Duration::ZERO;
            let (mut files, mut bytes, mut steps) = (0, 0, 0);
            for (more_bytes, more_files, milliseconds, total) in moments {
                now += Duration::from_millis(milliseconds);
                files += more_files;
                bytes += more_bytes;
                let total = total.map(|bytes| Total { entries: bytes >> 20, bytes });
                let picture = view.look(done(files, bytes), total, now);
                prop_assert!(picture.steps.unwrap_or(steps) >= steps);
                prop_assert!(picture.steps.unwrap_or(0) <= STEPS);
                prop_assert!(picture.text.chars().count() + 7 < COLUMNS, "{}", picture.text);
                prop_assert!(picture.short.chars().count() + 7 < 40, "{}", picture.short);
                steps = picture.steps.unwrap_or(steps);
            }
        }
    }

    #[test]
    fn a_picture_shows_percent_bytes_files_rate_and_time_left() {
        let mut view = ProgressView::default();
        let total = Some(Total { entries: 100, bytes: 1_000_000_000 });
        let first = view.look(done(25, 250_000_000), total, Duration::from_secs(5));
        assert_eq!(first.text, " 25% 0.25/1.00 GB 25 files 50.0 MB/s ETA 0:15");
        assert_eq!(first.steps, Some(250));
        let grown = view.look(
            done(25, 250_000_000),
            Some(Total { entries: 200, bytes: 2_000_000_000 }),
            Duration::from_secs(5),
        );
        assert_eq!(grown.text, " 25% 0.25/2.00 GB 25 files 50.0 MB/s ETA 0:35");
        let all = view.look(done(100, 1_000_000_000), total, Duration::from_secs(20));
        assert!(all.text.starts_with("100% 1.00/1.00 GB 100 files "), "{}", all.text);
        assert!(all.text.ends_with(" ETA 0:00"), "{}", all.text);
    }

    #[test]
    fn until_the_whole_is_counted_there_is_no_percent() {
        let picture = ProgressView::default().look(done(25, 250_000_000), None, Duration::from_secs(5));
        assert_eq!(
            picture,
            Picture {
                steps: None,
                text: "250 MB 25 files of 35 found 50.0 MB/s".to_owned(),
                short: "250 MB 50.0 MB/s".to_owned(),
                below: Vec::new(),
            }
        );
    }

    #[test]
    fn the_slowest_ranks_come_first_and_not_all_of_many() {
        let slow = |(rank, seconds)| {
            let since = Duration::from_secs(seconds);
            SlowRank { rank, host: format!("n{rank}"), since }
        };
        let lines = |ranks: &[(u32, u64)]| lines_of(ranks.iter().copied().map(slow).collect());
        let two = ["rank 2 on n2: nothing completed for 1:30", "rank 1 on n1: nothing completed for 0:07"];
        assert_eq!(lines(&[(1, 7), (2, 90)]), two);
        let many = lines(&[7; 9].map(|seconds| (1, seconds)));
        assert_eq!((many.len(), many[5].as_str()), (6, "and 4 more ranks"));
        assert_eq!(lines(&[]), [""; 0]);
    }

    #[test]
    fn a_paused_run_shows_why_instead_of_a_rate() {
        let mut view = ProgressView { is_paused: true, ..ProgressView::default() };
        let text = |total, view: &mut ProgressView| {
            view.look(done(25, 250_000_000), total, Duration::from_secs(5)).text
        };
        assert_eq!(text(None, &mut view), "250 MB 25 files of 35 found paused: disk full");
        let total = Some(Total { entries: 100, bytes: 1_000_000_000 });
        assert_eq!(text(total, &mut view), " 25% 0.25/1.00 GB 25 files paused: disk full");
        view.is_paused = false;
        assert!(text(total, &mut view).contains("/s"));
    }
}
