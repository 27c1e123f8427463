//! Prints a status line for `SIGUSR1`: the text of the progress line, even if that isn't shown.
//!
//! A short run only installs a handler that sets a flag, which is one system call. The thread that
//! waits for the signal is started by the first count after a second, and begins with the flag.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use haul_flow::lock;
use signal_hook::consts::SIGUSR1;
use signal_hook::iterator::{Handle, Signals};

use super::view::ProgressView;
use super::{FigureSource, ProgressDisplay};
use crate::messages::Messages;
use crate::report::complain;

/// Age of a run at which the thread is started.
const THREAD_AFTER: Duration = Duration::from_secs(1);

/// Status lines of a run, until [`StatusLine::end`].
pub(crate) struct StatusLine {
    began: Instant,
    /// True once the thread was started, or isn't needed any more.
    is_decided: AtomicBool,
    /// The thread's state, until the thread starts and takes it.
    printer: Mutex<Option<Printer>>,
    thread: Mutex<Option<(Handle, JoinHandle<()>)>>,
}

impl StatusLine {
    /// Installs the handler. Lines are written with `progress` out of the way.
    ///
    /// # Errors
    /// When the handler can't be installed.
    pub(crate) fn begin(
        messages: Messages,
        figures: Arc<dyn FigureSource>,
        progress: Option<Arc<ProgressDisplay>>,
    ) -> io::Result<Self> {
        let began = Instant::now();
        let was_requested = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGUSR1, Arc::clone(&was_requested))?;
        let printer = Printer { began, was_requested, messages, figures, progress };
        Ok(Self {
            began,
            is_decided: AtomicBool::new(false),
            printer: Mutex::new(Some(printer)),
            thread: Mutex::default(),
        })
    }

    /// Starts the thread if the run is old enough. Called with every count, so it is cheap.
    pub(crate) fn watch(&self) {
        if self.is_decided.load(Ordering::Relaxed)
            || self.began.elapsed() < THREAD_AFTER
            || self.is_decided.swap(true, Ordering::Relaxed)
        {
            return;
        }
        let Some(printer) = lock(&self.printer).take() else { return };
        // Without the thread there are just no lines: the flag's handler makes the signal harmless.
        let Ok(signals) = Signals::new([SIGUSR1]) else { return };
        let handle = signals.handle();
        let thread =
            std::thread::Builder::new().name("status".to_owned()).spawn(move || printer.run(signals));
        *lock(&self.thread) = thread.ok().map(|thread| (handle, thread));
    }

    /// Ends the thread, if there is one.
    pub(crate) fn end(&self) {
        self.is_decided.store(true, Ordering::Relaxed);
        let thread = lock(&self.thread).take();
        if let Some((handle, thread)) = thread {
            handle.close();
            // It cannot fail, and if it did, only the copy would count.
            thread.join().unwrap_or_default();
        }
    }
}

struct Printer {
    began: Instant,
    /// True if the signal has arrived before the thread was started.
    was_requested: Arc<AtomicBool>,
    messages: Messages,
    figures: Arc<dyn FigureSource>,
    progress: Option<Arc<ProgressDisplay>>,
}

impl Printer {
    /// Prints a line for every signal.
    fn run(self, mut signals: Signals) {
        // Its rate is the average since the last line, or since the run began.
        let mut view = ProgressView::default();
        // A signal while the thread was being started is in both, and gets one line.
        let missed = self.was_requested.load(Ordering::Relaxed).then_some(SIGUSR1);
        let caught: Vec<_> = signals.pending().chain(missed).take(1).collect();
        for _ in caught.into_iter().chain(signals.forever()) {
            view.is_paused = self.figures.is_paused();
            let picture = view.look(self.figures.done(), self.figures.total(), self.began.elapsed());
            let line = self.messages.debug(picture.text.trim_start());
            match &self.progress {
                Some(progress) => progress.while_hidden(|| complain(&line)),
                None => complain(&line),
            };
        }
    }
}
