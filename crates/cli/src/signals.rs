//! Cleans up before a signal ends the program, which then dies of that signal.
//!
//! A signal that the parent process has set to ignored, as nohup(1) does, stays ignored.

use std::io;
use std::sync::{Arc, Mutex, mpsc};

use haul_flow::lock;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

/// Minimum limit of descriptors with which some can be spared for signals.
const DESCRIPTORS_MIN: usize = 64;

type Cleanup = Box<dyn FnOnce() + Send>;

/// Cleanups to run before a signal ends the program. The list is global because dispositions are:
/// if several threads cleaned up, the first to finish would end the program before the others had.
static ENDING: Mutex<SignalState> = Mutex::new(SignalState { has_thread: false, cleanups: Vec::new() });

/// Locked from the arrival of a signal to the end of the program.
struct SignalState {
    has_thread: bool,
    cleanups: Vec<Cleanup>,
}

/// Held by the code that a signal may interrupt. Once a signal has arrived, dropping it blocks
/// until the program has ended.
pub(crate) struct SignalGuard(());

impl Drop for SignalGuard {
    fn drop(&mut self) {
        drop(lock(&ENDING));
    }
}

/// Calls `cleanup` before a signal ends the program, now or at any later time.
///
/// # Errors
/// When the handlers can't be installed, or the thread can't be started.
pub(crate) fn before_end(cleanup: impl FnOnce() + Send + 'static) -> io::Result<SignalGuard> {
    let mut ending = lock(&ENDING);
    if !ending.has_thread {
        start_thread()?;
        ending.has_thread = true;
    }
    ending.cleanups.push(Box::new(cleanup));
    Ok(SignalGuard(()))
}

/// Arranges for temporary entries to be removed before a signal ends the program.
pub(crate) fn remove_temporary_entries() {
    // If that fails, a signal leaves them, as SIGKILL does: a later run removes them.
    if haul_sys::descriptor_limit() >= DESCRIPTORS_MIN {
        drop(before_end(haul_flow::remove_temporary_entries));
    }
}

/// Ends the program as a signal does.
pub(crate) fn end_by(signal: i32) {
    let mut ending = lock(&ENDING);
    std::mem::take(&mut ending.cleanups).into_iter().for_each(|cleanup| cleanup());
    // This ends the program.
    signal_hook::low_level::emulate_default_handler(signal).unwrap_or_default();
}

fn start_thread() -> io::Result<()> {
    let signals = [SIGHUP, SIGINT, SIGQUIT, SIGTERM].into_iter();
    let handled: Vec<_> = signals.filter(|signal| !haul_sys::ignores_signal(*signal)).collect();
    if handled.is_empty() {
        return Ok(());
    }
    let (send, receive) = mpsc::channel::<Signals>();
    // Start the thread first and never stop it: a caught signal that nobody handles would
    // do nothing.
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let Ok(mut signals) = receive.recv() else { return };
        if let Some(signal) = signals.forever().next() {
            end_by(signal);
        }
    })?;
    send.send(Signals::new(handled)?).map_err(io::Error::other)
}

/// Makes `SIGUSR1` do nothing in a rank: the launch process prints the status of the run.
pub(crate) fn ignore_status_requests() {
    // If that fails, the signal ends the rank, as it ends any program.
    signal_hook::flag::register(SIGUSR1, Arc::default()).ok();
}
