//! Follows a job to its end.
//!
//! The job directory is polled more often than the batch system, which serves many users; failed
//! queries are repeated at growing intervals. The job has ended when the status file is in the job
//! directory. It is lost only if the batch system says that it has ended and no status appears.
//!
//! A status that shows a signal isn't final: that is how the processes of a job die that is
//! cancelled, exceeds its time limit or loses a host, and after losing a host a job starts again.
//! Both sides may see the job directory through caches, so the status gets time to appear.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::job_directory::JobDirectory;
use super::{BatchError, BatchEvent, BatchListener, BatchOrder, BatchOutcome, BatchState, Over};

/// Interval between polls of the job directory.
const LOOK: Duration = Duration::from_millis(200);
/// Interval between queries to the batch system.
const ASK: Duration = Duration::from_secs(1);
/// Maximum interval when it doesn't answer.
const ASK_MAX: Duration = Duration::from_secs(30);
/// Maximum delay of the status after the job has ended: the job directory may be cached, on NFS
/// for instance.
const LAG: Duration = Duration::from_secs(5);
/// Maximum time for a cancelled job to be gone.
const CANCEL_PATIENCE: Duration = Duration::from_secs(120);
/// A status above this means that a signal ended the command, usually the batch system's.
pub(super) const SIGNALLED: i32 = 128;
/// Maximum bytes passed on at a time.
const PIECE: u64 = 64 << 10;

/// Signals that end following: ^C, SIGTERM and SIGHUP, except those ignored when this
/// process started.
#[derive(Debug)]
pub struct Signals {
    /// Number of the last signal, or 0.
    last: Arc<AtomicUsize>,
    registered: Vec<signal_hook::SigId>,
}

impl Signals {
    /// Installs the handlers.
    ///
    /// # Errors
    /// If a handler can't be installed.
    pub fn listen() -> io::Result<Self> {
        let mut signals = Self { last: Arc::default(), registered: Vec::new() };
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        // A signal that was ignored at the start stays so, as under `nohup`.
        for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(&status, *signal)) {
            let number = usize::try_from(signal).unwrap_or_default();
            let last = Arc::clone(&signals.last);
            signals.registered.push(signal_hook::flag::register_usize(signal, last, number)?);
        }
        Ok(signals)
    }

    /// Returns an instance that no signal reaches, only [`Signals::raise`].
    #[must_use]
    pub fn none() -> Self {
        Self { last: Arc::default(), registered: Vec::new() }
    }

    /// Acts as if the signal had arrived.
    pub fn raise(&self, signal: i32) {
        self.last.store(usize::try_from(signal).unwrap_or_default(), Ordering::SeqCst);
    }

    /// Returns the last signal once, if there was one.
    fn take(&self) -> Option<i32> {
        let number = self.last.swap(0, Ordering::SeqCst);
        i32::try_from(number).ok().filter(|number| *number > 0)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}

/// True if a signal is ignored, according to the content of `/proc/self/status`.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

/// A growing file of the job directory, and the offset up to which it was passed on.
struct Tail {
    name: &'static str,
    passed: u64,
}

impl Tail {
    /// Passes on the appended data. Data that can't be read now is read next time.
    fn pass(&mut self, job_directory: &JobDirectory, mut take: impl FnMut(&[u8])) {
        let Ok(mut file) = File::open(job_directory.file(self.name)) else { return };
        if file.seek(SeekFrom::Start(self.passed)).is_err() {
            return;
        }
        let mut piece = Vec::new();
        while file.by_ref().take(PIECE).read_to_end(&mut piece).is_ok_and(|read| read > 0) {
            take(&piece);
            self.passed += piece.len() as u64;
            piece.clear();
        }
    }
}

/// State of following a job.
struct Following<'a> {
    directory: &'a JobDirectory,
    out: Tail,
    err: Tail,
    progress: Vec<u8>,
    /// The job's last state, and whether the job had begun before.
    known: Option<(BatchState, bool)>,
}

impl Following<'_> {
    /// Passes on new content of the job directory.
    fn look(&mut self, listener: &mut dyn BatchListener) {
        self.out.pass(self.directory, |bytes| listener.output(bytes));
        self.err.pass(self.directory, |bytes| listener.error(bytes));
        let progress = fs::read(self.directory.file("progress")).unwrap_or_default();
        if !progress.is_empty() && progress != self.progress {
            listener.progress(&progress);
            self.progress = progress;
        }
    }

    /// Reports the job's state if it has changed.
    fn report_state(&mut self, state: BatchState, listener: &mut dyn BatchListener) {
        let has_begun = matches!(state, BatchState::Waiting(_)) && self.directory.file("begun").exists();
        let event = match &state {
            BatchState::Waiting(reason) if has_begun => BatchEvent::Requeued(reason.clone()),
            BatchState::Waiting(reason) => BatchEvent::Waiting(reason.clone()),
            BatchState::Running => BatchEvent::Running,
            BatchState::Over(_) | BatchState::Unknown => return,
        };
        let known = Some((state, has_begun));
        if known != self.known {
            listener.event(event);
            self.known = known;
        }
    }
}

/// Follows a job to its end.
pub(super) fn follow(
    order: &BatchOrder,
    job: &str,
    job_directory: &JobDirectory,
    signals: &Signals,
    listener: &mut dyn BatchListener,
) -> Result<BatchOutcome, BatchError> {
    let tail = |name| Tail { name, passed: 0 };
    let mut following = Following {
        directory: job_directory,
        out: tail("out"),
        err: tail("err"),
        progress: Vec::new(),
        known: None,
    };
    let (mut asked, mut pause) = (Instant::now(), Duration::ZERO);
    let mut over: Option<(Over, Instant)> = None;
    loop {
        if let Some(signal) = signals.take() {
            let gone = cancel(order, job, signals, listener);
            following.look(listener);
            return Ok(BatchOutcome::Interrupted { job: job.to_owned(), signal, gone });
        }
        // Read the status first: everything written before it is visible by then.
        let status = job_directory.status()?;
        following.look(listener);
        if let Some(status) = status.filter(|status| *status <= SIGNALLED) {
            return Ok(BatchOutcome::Finished(status));
        }
        // A command ended by a signal is only done when its job is: the batch system knows who
        // killed it, or starts the job again.
        match (&over, status) {
            (Some((Over::Well | Over::Failed(_), _)), Some(status)) => {
                return Ok(BatchOutcome::Finished(status));
            }
            (Some((over, since)), _) if since.elapsed() >= LAG => {
                return Ok(lost(job, job_directory, over.clone()));
            }
            _ => {}
        }
        if asked.elapsed() >= pause {
            asked = Instant::now();
            match order.queue().state(order, job) {
                // The first answer counts: the status has had time to appear since then.
                Ok(BatchState::Over(how)) => over = over.or_else(|| Some((how, Instant::now()))),
                Ok(BatchState::Unknown) => {
                    let how = Over::Failed("the batch system does not know it any more".to_owned());
                    over = over.or_else(|| Some((how, Instant::now())));
                }
                Ok(state) => {
                    following.report_state(state, listener);
                    // It was requeued after all.
                    over = None;
                }
                Err(error) => {
                    listener.event(BatchEvent::Unanswered(error));
                    pause = (pause * 2).clamp(ASK, ASK_MAX);
                    continue;
                }
            }
            pause = ASK;
        }
        thread::sleep(LOOK);
    }
}

fn lost(job: &str, job_directory: &JobDirectory, over: Over) -> BatchOutcome {
    BatchOutcome::Lost { job: job.to_owned(), over, job_directory: job_directory.folder().to_owned() }
}

/// Cancels a job and waits until it is gone, or until another signal arrives. Returns true if it
/// is gone.
fn cancel(order: &BatchOrder, job: &str, signals: &Signals, listener: &mut dyn BatchListener) -> bool {
    listener.event(BatchEvent::Cancelling);
    let deadline = Instant::now() + CANCEL_PATIENCE;
    let mut cancelled = false;
    while Instant::now() < deadline {
        if !cancelled {
            match order.queue().cancel(order, job) {
                Ok(()) => cancelled = true,
                Err(error) => listener.event(BatchEvent::NotCancelled(error)),
            }
        }
        // Asked even if cancelling failed: the job may have ended by itself.
        if matches!(order.queue().state(order, job), Ok(BatchState::Over(_) | BatchState::Unknown)) {
            return true;
        }
        if signals.take().is_some() {
            return false;
        }
        thread::sleep(LOOK);
    }
    false
}
