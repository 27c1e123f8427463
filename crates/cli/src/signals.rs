//! Cleans up before a signal ends the program, which then dies of that signal.
//!
//! A signal that the parent process has set to ignored, as nohup(1) does, stays ignored.

use haul_flow::lock;
use std::io;
use std::sync::{Arc, Mutex, mpsc};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Held by the code that a signal may interrupt. Once a signal has arrived, dropping it blocks
/// until the program has ended.
pub(crate) struct SignalGuard(Arc<Mutex<()>>);

impl Drop for SignalGuard {
    fn drop(&mut self) {
        drop(lock(&self.0));
    }
}

/// Calls `act` before a signal ends the program, now or at any later time.
///
/// # Errors
/// When the handlers can't be installed, or the thread can't be started.
pub(crate) fn before_end(act: impl FnOnce() + Send + 'static) -> io::Result<SignalGuard> {
    let ignored = ignored();
    let is_handled = |signal: &i32| ignored & (1 << (signal - 1)) == 0;
    let handled: Vec<_> = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(is_handled).collect();
    let ending = Arc::new(Mutex::new(()));
    let guard = SignalGuard(Arc::clone(&ending));
    if handled.is_empty() {
        return Ok(guard);
    }
    let (send, receive) = mpsc::channel::<Signals>();
    // Start the thread first and never stop it: a caught signal that nobody handles would
    // do nothing.
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let Ok(mut signals) = receive.recv() else { return };
        if let Some(signal) = signals.forever().next() {
            let _ending = ending.lock();
            act();
            // This ends the program.
            signal_hook::low_level::emulate_default_handler(signal).unwrap_or_default();
        }
    })?;
    send.send(Signals::new(handled)?).map_err(io::Error::other)?;
    Ok(guard)
}

/// Returns the ignored signals as a mask whose lowest bit is signal 1 (proc_pid_status(5)). Without
/// /proc none are assumed.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
