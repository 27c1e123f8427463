//! `-g`, `--progress`: shows the progress of the copy on standard error.
//!
//! A thread samples the counters ten times a second and draws; the copy itself does nothing for it.
//! Nothing is drawn in the first second, so short copies stay silent. On a terminal one line is
//! redrawn in place, and removed while a message is written ([`ProgressDisplay::while_hidden`]) and
//! at the end. Elsewhere (`--progress=always`) a plain line is printed every second. Some terminals
//! also show the percentage in their tab or in the taskbar ([`taskbar`]).
//!
//! Percentage and time left are shown once the total is known. Counting begins when the first
//! picture is due ([`ProgressDisplay::wait_until_shown`]), so a short copy does not pay for it
//! either.
//!
//! The percentage never decreases, and the line fits a terminal 60 columns wide. On a narrower one
//! the amounts go, and 40 columns still have percentage, rate and time left.
//!
//! Invariant: whoever writes to the terminal holds the screen's lock, so a message never lands in
//! the middle of a drawing (test: `a_message_is_written_on_a_line_of_its_own`).

mod line;
mod status;
mod taskbar;
mod view;

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use haul_flow::{SlowRank, Tally, lock};

use crate::events::ProgressTick;
use crate::flags::When;
use crate::run_log::RunLog;
use line::TerminalLine;
pub(crate) use status::StatusLine;
use taskbar::Taskbar;
pub(crate) use view::Total;
use view::{Picture, ProgressView};

/// Delay before the first picture; shorter copies show nothing.
const SILENT: Duration = Duration::from_secs(1);
/// Interval between drawings on a terminal.
const REDRAW: Duration = Duration::from_millis(100);
/// Interval between plain lines.
const NEXT_LINE: Duration = Duration::from_secs(1);

/// Provides a run's figures.
pub(crate) trait FigureSource: Send + Sync {
    /// Returns the counts so far.
    fn done(&self) -> Tally;

    /// Returns the total, once it is counted.
    fn total(&self) -> Option<Total>;

    /// Returns the number of workers, once there are any.
    fn workers(&self) -> Option<usize> {
        None
    }

    /// Returns true while the run waits for space on a full file system.
    fn is_paused(&self) -> bool {
        false
    }

    /// Returns the ranks that are slow now.
    fn slow_ranks(&self) -> Vec<SlowRank> {
        Vec::new()
    }
}

/// Options of the progress display.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProgressOptions {
    pub(crate) when: When,
    /// True if slow ranks have lines of their own.
    pub(crate) slow_ranks: bool,
}

/// A run's progress display, active until [`ProgressDisplay::finish`].
pub(crate) struct ProgressDisplay {
    screen: Arc<Screen>,
    drawer: Mutex<Option<JoinHandle<()>>>,
}

/// State shared with the drawing thread.
struct Screen {
    state: Mutex<ScreenState>,
    changed: Condvar,
    /// Set under the lock of `state`, so that waiters on `changed` notice.
    over: AtomicBool,
}

struct ScreenState {
    canvas: Canvas,
    /// True if slow ranks have lines of their own.
    slow_ranks: bool,
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

impl ProgressDisplay {
    /// Shows progress on standard error, if the options ask for it there. If its thread can't be
    /// started, there is no display.
    pub(crate) fn begin(options: ProgressOptions, source: Arc<dyn FigureSource>) -> Option<Self> {
        let terminal = io::stderr().is_terminal();
        let canvas = match options.when {
            When::Never => return None,
            When::Auto | When::Always if terminal => {
                let line = TerminalLine::new(Box::new(io::stderr()), haul_sys::terminal_columns);
                Canvas::Terminal(line.with_taskbar(Taskbar::of_terminal()))
            }
            When::Auto => return None,
            When::Always => Canvas::Lines(Box::new(io::stderr())),
        };
        Some(Self::on(canvas, source, options.slow_ranks))
    }

    /// Records progress in a run log, whether or not it is shown.
    pub(crate) fn in_run_log(run_log: Arc<RunLog>, source: Arc<dyn FigureSource>) -> Self {
        Self::on(Canvas::Log(run_log), source, false)
    }

    fn on(canvas: Canvas, source: Arc<dyn FigureSource>, slow_ranks: bool) -> Self {
        let state = Mutex::new(ScreenState { canvas, slow_ranks, shown: false });
        let screen = Arc::new(Screen { state, changed: Condvar::new(), over: AtomicBool::new(false) });
        let drawer = std::thread::Builder::new().name("progress".to_owned()).spawn({
            let screen = Arc::clone(&screen);
            move || screen.draw_until_over(&*source)
        });
        Self { screen, drawer: Mutex::new(drawer.ok()) }
    }

    /// Writes something else to the terminal, with the progress line out of the way.
    pub(crate) fn while_hidden<R>(&self, write: impl FnOnce() -> R) -> R {
        let mut state = self.screen.lock();
        match &mut state.canvas {
            Canvas::Terminal(line) => line.while_hidden(write),
            Canvas::Lines(_) | Canvas::Log(_) => write(),
        }
    }

    /// Waits until something is shown or the run ends; returns true if it is shown.
    pub(crate) fn wait_until_shown(&self) -> bool {
        let changed = &self.screen.changed;
        let is_over = || self.screen.over.load(Ordering::Relaxed);
        let waiting = |state: &mut ScreenState| !state.shown && !is_over();
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

impl Drop for ProgressDisplay {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Screen {
    fn lock(&self) -> MutexGuard<'_, ScreenState> {
        lock(&self.state)
    }

    fn draw_until_over(&self, source: &dyn FigureSource) {
        let began = Instant::now();
        let mut view = ProgressView::default();
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
            let (done, total, elapsed) = (source.done(), source.total(), began.elapsed());
            view.is_paused = source.is_paused();
            let state_now = &mut *state;
            pause = match &mut state_now.canvas {
                Canvas::Log(run_log) => {
                    let waits_for_room = view.is_paused;
                    run_log.progress(&ProgressTick { elapsed, done, total, waits_for_room });
                    NEXT_LINE
                }
                canvas => {
                    let slow = if state_now.slow_ranks { source.slow_ranks() } else { Vec::new() };
                    let below = view::lines_of(slow);
                    canvas.show(&Picture { below, ..view.look(done, total, elapsed) })
                }
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
                for line in [&picture.text].into_iter().chain(&picture.below) {
                    writer.write_all(format!("{line}\n").as_bytes()).unwrap_or_default();
                }
                NEXT_LINE
            }
            Self::Log(_) => NEXT_LINE,
        }
    }

    fn end(&mut self) {
        if let Self::Terminal(line) = self {
            line.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use indicatif::{InMemoryTerm, TermLike as _};

    use super::*;

    const COLUMNS: usize = 60;

    fn done(finished: u64, bytes: u64) -> Tally {
        Tally { discovered: finished + 10, finished, files: finished, bytes, ..Tally::default() }
    }

    /// A run with figures set by the test, which is notified when they are read.
    struct Script {
        done: Tally,
        looked: Mutex<mpsc::Sender<()>>,
    }

    impl FigureSource for Script {
        fn done(&self) -> Tally {
            self.looked.lock().unwrap().send(()).unwrap_or_default();
            self.done
        }

        fn total(&self) -> Option<Total> {
            Some(Total { entries: 4, bytes: 4_000_000 })
        }
    }

    fn shown_on(canvas: Canvas) -> (ProgressDisplay, mpsc::Receiver<()>) {
        let (looked, looks) = mpsc::channel();
        let source = Script { done: done(1, 1_000_000), looked: Mutex::new(looked) };
        (ProgressDisplay::on(canvas, Arc::new(source), true), looks)
    }

    /// Writes to a terminal in memory.
    pub(super) struct InMemory(pub(super) InMemoryTerm);

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
    fn a_message_is_written_on_a_line_of_its_own() {
        let terminal = InMemoryTerm::new(10, 60);
        let (progress, looks) = shown_on(on(&terminal));
        // The second sample comes after the first drawing.
        looks.recv().unwrap();
        looks.recv().unwrap();
        let before = progress.while_hidden(|| {
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

    /// A run with a slow rank.
    struct Stuck(Mutex<mpsc::Sender<()>>);

    impl FigureSource for Stuck {
        fn done(&self) -> Tally {
            self.0.lock().unwrap().send(()).unwrap_or_default();
            done(1, 1_000_000)
        }

        fn total(&self) -> Option<Total> {
            None
        }

        fn slow_ranks(&self) -> Vec<SlowRank> {
            vec![SlowRank { rank: 3, host: "node7".to_owned(), since: Duration::from_secs(90) }]
        }
    }

    #[test]
    fn slow_ranks_go_with_the_line_at_the_end() {
        let terminal = InMemoryTerm::new(10, 60);
        terminal.write_line("cp: a message").unwrap();
        let (looked, looks) = mpsc::channel();
        let progress = ProgressDisplay::on(on(&terminal), Arc::new(Stuck(Mutex::new(looked))), true);
        // The second sample comes after the first drawing.
        looks.recv().unwrap();
        looks.recv().unwrap();
        let drawn = {
            let _no_drawing = progress.screen.lock();
            terminal.contents()
        };
        assert!(drawn.contains("rank 3 on node7: nothing completed for 1:30"), "{drawn}");
        progress.finish();
        assert_eq!(terminal.contents(), "cp: a message");
    }

    #[test]
    fn a_short_copy_shows_nothing() {
        let terminal = InMemoryTerm::new(10, 60);
        let (progress, looks) = shown_on(on(&terminal));
        progress.while_hidden(|| terminal.write_line("cp: a message").unwrap());
        progress.finish();
        assert_eq!(terminal.contents(), "cp: a message");
        assert!(looks.try_recv().is_err());
    }

    /// Sends written lines to the test.
    struct LineChannel(mpsc::Sender<Vec<u8>>);

    impl Write for LineChannel {
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
        let (progress, _looks) = shown_on(Canvas::Lines(Box::new(LineChannel(written))));
        let line = String::from_utf8(lines.recv().unwrap()).unwrap();
        progress.finish();
        assert!(line.starts_with(" 25% 1.00/4.00 MB 1 files "), "{line}");
        assert!(line.ends_with('\n') && line.matches('\n').count() == 1, "{line}");
    }
}
