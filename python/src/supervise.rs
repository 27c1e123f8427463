//! Runs work in a thread of its own, while the calling thread serves Python.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use haul::flow::{OutputLine, Reporter, Standard, lock};
use haul::{CancelToken, Problem, Tally};
use haul_sys::block_signals;
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;

/// Interval at which the calling thread checks for signals.
const SIGNALS_EVERY: Duration = Duration::from_millis(20);

/// Minimum time between two calls of `progress`.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Sum of the counts of a run.
#[derive(Default)]
pub(crate) struct TallySum(Mutex<Tally>);

impl TallySum {
    fn now(&self) -> Tally {
        *lock(&self.0)
    }
}

impl Reporter for TallySum {
    fn count(&self, more: Tally) {
        *lock(&self.0) += more;
    }
    fn problem(&self, _: Problem) {}
    fn line(&self, _: OutputLine) {}
    fn output(&self, _: Standard, _: &[u8]) {}
    fn debug(&self, _: &str) {}
}

/// Runs `work` and returns its result. An exception, from a signal handler or `progress`, cancels
/// the work, and is raised once the work has ended.
///
/// # Errors
/// The exception that `progress` raised, or an error if no thread can be started.
pub(crate) fn supervise<T: Send + 'static>(
    py: Python<'_>,
    cancel: &CancelToken,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(&TallySum) -> T + Send + 'static,
) -> PyResult<T> {
    let counts = Arc::new(TallySum::default());
    let (sender, mut receiver) = channel();
    let thread = {
        let counts = Arc::clone(&counts);
        let run = move || {
            // Python's handlers would interrupt system calls of the copy. The mask is that of this
            // thread and of those it starts: the calling thread's never changes, whenever a signal
            // comes.
            block_signals();
            // Nobody waits any more only if the interpreter is gone.
            sender.send(work(&counts)).unwrap_or_default();
        };
        Builder::new().name("haul".to_owned()).spawn(run).map_err(PyOSError::new_err)?
    };
    // From here on every error waits for the thread.
    let mut server = Server { progress, called: Instant::now(), counts };
    let mut raised = None;
    let outcome = loop {
        let answer;
        (receiver, answer) = py.detach(move || {
            let answer = receiver.recv_timeout(SIGNALS_EVERY);
            (receiver, answer)
        });
        match answer {
            Ok(outcome) => break Some(outcome),
            Err(RecvTimeoutError::Disconnected) => break None,
            Err(RecvTimeoutError::Timeout) => {}
        }
        // After an exception, Python's handlers still run, but nothing they raise is more urgent.
        if let Err(exception) = server.serve(py) {
            cancel.cancel();
            raised.get_or_insert(exception);
            server.progress = None;
        }
    };
    let joined = py.detach(|| thread.join());
    if let Some(exception) = raised {
        return Err(exception);
    }
    let failed = || PyRuntimeError::new_err("the copy panicked");
    let outcome = outcome.filter(|_| joined.is_ok()).ok_or_else(failed)?;
    py.check_signals()?;
    server.call(py)?;
    Ok(outcome)
}

/// Work of the calling thread between two waits.
struct Server {
    progress: Option<Py<PyAny>>,
    called: Instant,
    counts: Arc<TallySum>,
}

impl Server {
    fn serve(&mut self, py: Python<'_>) -> PyResult<()> {
        py.check_signals()?;
        if self.called.elapsed() >= PROGRESS_EVERY { self.call(py) } else { Ok(()) }
    }

    fn call(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(progress) = &self.progress else { return Ok(()) };
        let Tally { files, directories, symlinks, bytes, discovered, finished, .. } = self.counts.now();
        progress.call1(py, (files, directories, symlinks, bytes, discovered, finished))?;
        self.called = Instant::now();
        Ok(())
    }
}
