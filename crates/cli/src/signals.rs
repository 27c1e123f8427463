//! Signals that end the program: something is done before, and then it ends by the signal.
//!
//! What whoever started it has it ignore, as nohup(1) does, it goes on to ignore.

use std::io;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Held by whoever ends the program because of a signal. When this goes, and a signal has come, the program does not go on.
pub(crate) struct Ear(Arc<Mutex<()>>);

impl Drop for Ear {
    fn drop(&mut self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Has something done before a signal ends the program, now or at any time later.
///
/// # Errors
/// When the signals cannot be had, or no thread.
pub(crate) fn before_end(act: impl FnOnce() + Send + 'static) -> io::Result<Ear> {
    let ignored = ignored();
    let is_heard = |signal: &i32| ignored & (1 << (signal - 1)) == 0;
    let heard: Vec<_> = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(is_heard).collect();
    let ending = Arc::new(Mutex::new(()));
    let ear = Ear(Arc::clone(&ending));
    if heard.is_empty() {
        return Ok(ear);
    }
    let (send, receive) = mpsc::channel::<Signals>();
    // The thread first, and for good: signals that were asked for and have nobody who hears them would do nothing.
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let Ok(mut signals) = receive.recv() else { return };
        if let Some(signal) = signals.forever().next() {
            let _ending = ending.lock();
            act();
            // Ends the program.
            signal_hook::low_level::emulate_default_handler(signal).unwrap_or_default();
        }
    })?;
    send.send(Signals::new(heard)?).map_err(io::Error::other)?;
    Ok(ear)
}

/// Returns the signals that are ignored, as a mask of which the first bit is signal 1 (proc_pid_status(5)). Without /proc they
/// are taken to be none.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
