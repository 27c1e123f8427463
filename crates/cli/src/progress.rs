//! `-g`, `--progress`: shows on standard error how far the copy is.
//!
//! A thread samples the counters ten times a second and draws; the copy itself does nothing for it.
//! Nothing is drawn in the first second, so short copies stay silent. On a terminal one line is
//! redrawn in place, and removed while a message is written ([`Progress::beside`]) and at the end.
//! Elsewhere (`--progress=always`) a plain line is printed every second.
//!
//! Percentage and time left are shown once the total is known. Counting begins when the first
//! picture is due ([`Progress::wait_until_shown`]), so a short copy does not pay for it either.
//!
//! The percentage never decreases, and the line fits a terminal 60 columns wide. On a narrower one
//! the amounts go, and 40 columns still have percentage, rate and time left.
//!
//! Invariant: whoever writes to the terminal holds the screen's lock, so a message never lands in
//! the middle of a drawing (test: `a_message_is_written_on_a_line_of_its_own`).

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use haul_flow::Tally;
use haul_flow::lock;

use crate::amounts;
use crate::events::ProgressTick;
use crate::flags::When;
use crate::run_log::RunLog;

/// Delay before the first picture; shorter copies show nothing.
const SILENT: Duration = Duration::from_secs(1);
/// Interval between drawings on a terminal.
const REDRAW: Duration = Duration::from_millis(100);
/// Interval between plain lines.
const NEXT_LINE: Duration = Duration::from_secs(1);
/// Time constant of the average rate shown.
const RATE_MEMORY: Duration = Duration::from_secs(5);
/// Cost of an entry in bytes that take as long to copy. Without it, a tree of small files would
/// seem to stand still.
const ENTRY_WORK: u64 = 64 << 10;
/// Shown instead of the rate while the run waits for room.
const PAUSED: &str = "paused: disk full";
/// Steps of the bar.
const STEPS: u64 = 1000;
/// Width of the bar, in columns.
const BAR: usize = 6;
/// Shown in turn while the total is not known.
const SPINNER: [&str; 4] = ["-", "\\", "|", "/"];
/// Clears a terminal's current line from the cursor on (ECMA-48, EL).
const CLEAR: &str = "\r\x1b[K";

/// Total amount to copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Whole {
    pub(crate) entries: u64,
    /// Bytes of regular files.
    pub(crate) bytes: u64,
}

/// Provides a run's figures.
pub(crate) trait Source: Send + Sync {
    /// Returns what is done so far.
    fn done(&self) -> Tally;

    /// Returns the total, once it is counted.
    fn whole(&self) -> Option<Whole>;

    /// Returns the number of workers, once there are any.
    fn workers(&self) -> Option<usize> {
        None
    }

    /// Returns true while the run waits for room on a full file system.
    fn is_paused(&self) -> bool {
        false
    }
}

/// A run's progress display, active until [`Progress::finish`].
pub(crate) struct Progress {
    screen: Arc<Screen>,
    drawer: Mutex<Option<JoinHandle<()>>>,
}

/// State shared with the drawing thread.
struct Screen {
    state: Mutex<State>,
    changed: Condvar,
    /// Set under the lock of `state`, so that waiters on `changed` notice.
    over: AtomicBool,
}

struct State {
    canvas: Canvas,
    /// True once anything was shown.
    shown: bool,
}

/// Where pictures are drawn.
enum Canvas {
    /// One line of a terminal, redrawn in place.
    Terminal(TerminalLine),
    /// Plain lines.
    Lines(Box<dyn Write + Send>),
    Log(Arc<RunLog>),
}

impl Progress {
    /// Shows progress on standard error, if wanted there. Without a thread there is just
    /// no display.
    pub(crate) fn begin(when: When, source: Arc<dyn Source>) -> Option<Self> {
        let terminal = io::stderr().is_terminal();
        let canvas = match when {
            When::Never => return None,
            When::Auto | When::Always if terminal => {
                Canvas::Terminal(TerminalLine::new(Box::new(io::stderr()), haul_sys::terminal_columns))
            }
            When::Auto => return None,
            When::Always => Canvas::Lines(Box::new(io::stderr())),
        };
        Some(Self::on(canvas, source))
    }

    /// Records progress in a run log, whatever is shown.
    pub(crate) fn in_run_log(run_log: Arc<RunLog>, source: Arc<dyn Source>) -> Self {
        Self::on(Canvas::Log(run_log), source)
    }

    fn on(canvas: Canvas, source: Arc<dyn Source>) -> Self {
        let state = Mutex::new(State { canvas, shown: false });
        let screen = Arc::new(Screen { state, changed: Condvar::new(), over: AtomicBool::new(false) });
        let drawer = std::thread::Builder::new().name("progress".to_owned()).spawn({
            let screen = Arc::clone(&screen);
            move || screen.draw_until_over(&*source)
        });
        Self { screen, drawer: Mutex::new(drawer.ok()) }
    }

    /// Writes something else to the terminal, with the progress line out of the way.
    pub(crate) fn beside<R>(&self, write: impl FnOnce() -> R) -> R {
        let mut state = self.screen.lock();
        match &mut state.canvas {
            Canvas::Terminal(line) => line.beside(write),
            Canvas::Lines(_) | Canvas::Log(_) => write(),
        }
    }

    /// Waits until something is shown or the run ends; returns true if it is shown.
    pub(crate) fn wait_until_shown(&self) -> bool {
        let changed = &self.screen.changed;
        let is_over = || self.screen.over.load(Ordering::Relaxed);
        let waiting = |state: &mut State| !state.shown && !is_over();
        let state = changed.wait_while(self.screen.lock(), waiting).unwrap_or_else(PoisonError::into_inner);
        state.shown && !is_over()
    }

    /// Returns the flag that is set when the run ends.
    pub(crate) fn over(&self) -> &AtomicBool {
        &self.screen.over
    }

    /// Removes the display and stops drawing.
    pub(crate) fn finish(&self) {
        let state = self.screen.lock();
        self.screen.over.store(true, Ordering::Relaxed);
        drop(state);
        self.screen.changed.notify_all();
        let drawer = lock(&self.drawer).take();
        if let Some(drawer) = drawer {
            // The thread cannot fail, and if it did, only the copy would count.
            drawer.join().unwrap_or_default();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Screen {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn draw_until_over(&self, source: &dyn Source) {
        let began = Instant::now();
        let mut view = View::default();
        let mut pause = SILENT;
        let mut state = self.lock();
        loop {
            let is_over = || self.over.load(Ordering::Relaxed);
            let waited = self.changed.wait_timeout_while(state, pause, |_| !is_over());
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if is_over() {
                state.canvas.end();
                return;
            }
            let (done, whole, elapsed) = (source.done(), source.whole(), began.elapsed());
            view.is_paused = source.is_paused();
            pause = match &mut state.canvas {
                Canvas::Log(run_log) => {
                    let waits_for_room = view.is_paused;
                    run_log.progress(&ProgressTick { elapsed, done, whole, waits_for_room });
                    NEXT_LINE
                }
                canvas => canvas.show(&view.look(done, whole, elapsed)),
            };
            if !state.shown {
                state.shown = true;
                self.changed.notify_all();
            }
        }
    }
}

impl Canvas {
    /// Shows a picture; returns how long it stays.
    fn show(&mut self, picture: &Picture) -> Duration {
        match self {
            Self::Terminal(line) => {
                line.draw(picture);
                REDRAW
            }
            Self::Lines(writer) => {
                // If progress can't be printed, neither can this error.
                writer.write_all(format!("{}\n", picture.text).as_bytes()).unwrap_or_default();
                NEXT_LINE
            }
            Self::Log(_) => NEXT_LINE,
        }
    }

    fn end(&mut self) {
        if let Self::Terminal(line) = self {
            line.clear();
            line.text.clear();
        }
    }
}

/// One line of a terminal, redrawn in place. If it can't be written, neither can that error.
struct TerminalLine {
    terminal: Box<dyn Write + Send>,
    /// Returns the terminal's width, which may change at any time.
    columns: fn() -> usize,
    drawings: usize,
    /// What the line shows; empty before the first drawing and after the last.
    text: String,
    /// The same for a terminal that is too narrow.
    short: String,
}

impl TerminalLine {
    fn new(terminal: Box<dyn Write + Send>, columns: fn() -> usize) -> Self {
        Self { terminal, columns, drawings: 0, text: String::new(), short: String::new() }
    }

    fn draw(&mut self, picture: &Picture) {
        let begin = match picture.steps {
            Some(steps) => bar(steps),
            None => SPINNER[self.drawings % SPINNER.len()].to_owned(),
        };
        self.drawings += 1;
        self.text = format!("{begin} {}", picture.text);
        self.short = format!("{begin} {}", picture.short);
        self.redraw();
    }

    fn beside<R>(&mut self, write: impl FnOnce() -> R) -> R {
        self.clear();
        let written = write();
        self.redraw();
        written
    }

    fn redraw(&mut self) {
        if !self.text.is_empty() {
            // In the last column some terminals begin the next line.
            let columns = (self.columns)().saturating_sub(1);
            let fits = self.text.chars().count() <= columns;
            let text = if fits { &self.text } else { &self.short };
            let text = text.chars().take(columns).collect::<String>();
            self.write(&format!("{CLEAR}{text}"));
        }
    }

    fn clear(&mut self) {
        if !self.text.is_empty() {
            self.write(CLEAR);
        }
    }

    fn write(&mut self, text: &str) {
        self.terminal.write_all(text.as_bytes()).and_then(|()| self.terminal.flush()).unwrap_or_default();
    }
}

/// Returns a bar that is full at [`STEPS`].
fn bar(steps: u64) -> String {
    let full = usize::try_from(steps).unwrap_or_default() * BAR / STEPS as usize;
    let tip = if full < BAR { ">" } else { "" };
    format!("{:<BAR$}", "=".repeat(full.min(BAR)) + tip)
}

/// Content of the display at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Picture {
    /// Position of the bar, of [`STEPS`], if the total is known.
    steps: Option<u64>,
    /// Text beside the bar, at most 52 characters.
    text: String,
    /// The same without what matters least, at most 32 characters.
    short: String,
}

/// State kept from picture to picture.
#[derive(Debug, Default)]
struct View {
    /// Furthest position shown.
    steps: u64,
    /// Last sample: its time and amounts.
    last: Option<(Duration, Pace)>,
    /// Amounts per second.
    rate: Pace,
    /// True while the run waits for room.
    is_paused: bool,
}

/// Amounts done, in all or per second.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    bytes: f64,
    work: f64,
}

impl View {
    fn look(&mut self, done: Tally, whole: Option<Whole>, now: Duration) -> Picture {
        let work_done = work(done.finished, done.bytes);
        self.measure(Pace { bytes: done.bytes as f64, work: work_done as f64 }, now);
        let files = amounts::count(done.files);
        let rate = match self.is_paused {
            true => PAUSED.to_owned(),
            false => format!("{}/s", amounts::bytes(self.rate.bytes as u64)),
        };
        let Some(whole) = whole else {
            let found = amounts::count(done.discovered);
            let copied = amounts::bytes(done.bytes);
            let text = format!("{copied} {files} files of {found} found {rate}");
            return Picture { steps: None, text, short: format!("{copied} {rate}") };
        };
        // The tree may have grown since it was counted.
        let work_whole = work(whole.entries, whole.bytes).max(work_done).max(1);
        let steps = u128::from(work_done) * u128::from(STEPS) / u128::from(work_whole);
        self.steps = self.steps.max(u64::try_from(steps).unwrap_or(STEPS));
        let percent = self.steps * 100 / STEPS;
        let copied = amounts::bytes_of(done.bytes, whole.bytes.max(done.bytes));
        // Too early for an estimate.
        let left = if self.steps > 0 && !self.is_paused {
            self.time_left(work_whole - work_done)
        } else {
            String::new()
        };
        Picture {
            steps: Some(self.steps),
            text: format!("{percent:>3}% {copied} {files} files {rate}{left}"),
            short: format!("{percent:>3}% {rate}{left}"),
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

/// Combines entries and bytes in one measure.
fn work(entries: u64, bytes: u64) -> u64 {
    bytes.saturating_add(entries.saturating_mul(ENTRY_WORK))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use indicatif::{InMemoryTerm, TermLike as _};
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
            let mut view = View { is_paused, ..View::default() };
            let mut now = Duration::ZERO;
            let (mut files, mut bytes, mut steps) = (0, 0, 0);
            for (more_bytes, more_files, milliseconds, whole) in moments {
                now += Duration::from_millis(milliseconds);
                files += more_files;
                bytes += more_bytes;
                let whole = whole.map(|bytes| Whole { entries: bytes >> 20, bytes });
                let picture = view.look(done(files, bytes), whole, now);
                prop_assert!(picture.steps.unwrap_or(steps) >= steps);
                prop_assert!(picture.steps.unwrap_or(0) <= STEPS);
                prop_assert!(picture.text.chars().count() + 7 < COLUMNS, "{}", picture.text);
                prop_assert!(picture.short.chars().count() + 7 < 40, "{}", picture.short);
                steps = picture.steps.unwrap_or(steps);
            }
        }
    }

    #[test]
    fn a_picture_tells_percent_bytes_files_rate_and_time_left() {
        let mut view = View::default();
        let whole = Some(Whole { entries: 100, bytes: 1_000_000_000 });
        let first = view.look(done(25, 250_000_000), whole, Duration::from_secs(5));
        assert_eq!(first.text, " 25% 0.25/1.00 GB 25 files 50.0 MB/s ETA 0:15");
        assert_eq!(first.steps, Some(250));
        let grown = view.look(
            done(25, 250_000_000),
            Some(Whole { entries: 200, bytes: 2_000_000_000 }),
            Duration::from_secs(5),
        );
        assert_eq!(grown.text, " 25% 0.25/2.00 GB 25 files 50.0 MB/s ETA 0:35");
        let all = view.look(done(100, 1_000_000_000), whole, Duration::from_secs(20));
        assert!(all.text.starts_with("100% 1.00/1.00 GB 100 files "), "{}", all.text);
        assert!(all.text.ends_with(" ETA 0:00"), "{}", all.text);
    }

    #[test]
    fn until_the_whole_is_counted_there_is_no_percent() {
        let picture = View::default().look(done(25, 250_000_000), None, Duration::from_secs(5));
        assert_eq!(
            picture,
            Picture {
                steps: None,
                text: "250 MB 25 files of 35 found 50.0 MB/s".to_owned(),
                short: "250 MB 50.0 MB/s".to_owned(),
            }
        );
    }

    #[test]
    fn a_paused_run_shows_why_instead_of_a_rate() {
        let mut view = View { is_paused: true, ..View::default() };
        let text =
            |whole, view: &mut View| view.look(done(25, 250_000_000), whole, Duration::from_secs(5)).text;
        assert_eq!(text(None, &mut view), "250 MB 25 files of 35 found paused: disk full");
        let whole = Some(Whole { entries: 100, bytes: 1_000_000_000 });
        assert_eq!(text(whole, &mut view), " 25% 0.25/1.00 GB 25 files paused: disk full");
        view.is_paused = false;
        assert!(text(whole, &mut view).contains("/s"));
    }

    /// A run with figures set by the test, which is notified when they are read.
    struct Script {
        done: Tally,
        looked: Mutex<mpsc::Sender<()>>,
    }

    impl Source for Script {
        fn done(&self) -> Tally {
            self.looked.lock().unwrap().send(()).unwrap_or_default();
            self.done
        }

        fn whole(&self) -> Option<Whole> {
            Some(Whole { entries: 4, bytes: 4_000_000 })
        }
    }

    fn shown_on(canvas: Canvas) -> (Progress, mpsc::Receiver<()>) {
        let (looked, looks) = mpsc::channel();
        let source = Script { done: done(1, 1_000_000), looked: Mutex::new(looked) };
        (Progress::on(canvas, Arc::new(source)), looks)
    }

    /// Writes to a terminal in memory.
    struct InMemory(InMemoryTerm);

    impl Write for InMemory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write_str(str::from_utf8(bytes).unwrap()).map(|()| bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            self.0.flush()
        }
    }

    fn on(terminal: &InMemoryTerm) -> Canvas {
        Canvas::Terminal(TerminalLine::new(Box::new(InMemory(terminal.clone())), || COLUMNS))
    }

    #[test]
    fn a_line_is_no_longer_than_the_terminal_is_wide() {
        let terminal = InMemoryTerm::new(10, 20);
        let mut line = TerminalLine::new(Box::new(InMemory(terminal.clone())), || 20);
        let mut draw = |steps, text: &str, short: &str| {
            line.draw(&Picture { steps, text: text.to_owned(), short: short.to_owned() });
        };
        draw(None, &"a".repeat(30), &"b".repeat(30));
        assert_eq!(terminal.contents(), format!("- {}", "b".repeat(17)));
        draw(Some(500), "half", "");
        assert_eq!(terminal.contents(), "===>   half");
        draw(Some(STEPS), "all", "");
        assert_eq!(terminal.contents(), "====== all");
        line.clear();
        assert_eq!(terminal.contents(), "");
    }

    #[test]
    fn a_message_is_written_on_a_line_of_its_own() {
        let terminal = InMemoryTerm::new(10, 60);
        let (progress, looks) = shown_on(on(&terminal));
        // The second sample comes after the first drawing.
        looks.recv().unwrap();
        looks.recv().unwrap();
        let before = progress.beside(|| {
            let contents = terminal.contents();
            terminal.write_line("cp: a message").unwrap();
            contents
        });
        assert_eq!(before, "", "the bar stands while a message is written");
        looks.recv().unwrap();
        looks.recv().unwrap();
        // A sample precedes its drawing: without the lock, this could be the moment the line
        // is cleared.
        let drawn = {
            let _no_drawing = progress.screen.lock();
            terminal.contents()
        };
        let lines: Vec<_> = drawn.lines().collect();
        assert_eq!(lines[0], "cp: a message");
        assert!(lines[1].starts_with("=>") && lines[1].contains(" 25% 1.00/4.00 MB 1 files "), "{drawn}");
        progress.finish();
        assert_eq!(terminal.contents(), "cp: a message");
    }

    #[test]
    fn a_short_copy_shows_nothing() {
        let terminal = InMemoryTerm::new(10, 60);
        let (progress, looks) = shown_on(on(&terminal));
        progress.beside(|| terminal.write_line("cp: a message").unwrap());
        progress.finish();
        assert_eq!(terminal.contents(), "cp: a message");
        assert!(looks.try_recv().is_err());
    }

    /// Sends what is written to the test.
    struct Lines(mpsc::Sender<Vec<u8>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.send(bytes.to_vec()).map_err(io::Error::other).map(|()| bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn without_a_terminal_there_are_whole_plain_lines() {
        let (written, lines) = mpsc::channel();
        let (progress, _looks) = shown_on(Canvas::Lines(Box::new(Lines(written))));
        let line = String::from_utf8(lines.recv().unwrap()).unwrap();
        progress.finish();
        assert!(line.starts_with(" 25% 1.00/4.00 MB 1 files "), "{line}");
        assert!(line.ends_with('\n') && line.matches('\n').count() == 1, "{line}");
    }
}
