//! Signal dispositions of child processes.
//!
//! An ignored signal stays ignored across `exec`. Under nohup(1), or in the background of a shell
//! without job control, every program a test starts would ignore SIGHUP or SIGINT. A handler does
//! not survive `exec`. So this process installs a no-op handler for each signal it inherited as
//! ignored, and its children get the defaults.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// Makes child processes started from now on get the default action for terminating signals.
///
/// A [`TestRun`](crate::TestRun) does this automatically.
pub fn restore_for_children() -> io::Result<()> {
    static DONE: OnceLock<Result<(), io::ErrorKind>> = OnceLock::new();
    DONE.get_or_init(|| handle_ignored().map_err(|error| error.kind())).map_err(io::Error::from)
}

fn handle_ignored() -> io::Result<()> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        if mask & (1 << (signal - 1)) != 0 {
            signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use crate::run::{RunEnding, TestRun};

    #[test]
    #[ignore = "run by `programs_find_signals_at_their_defaults`, in a process that ignores them"]
    fn in_a_process_that_ignores_signals() {
        for signal in [1, 2, 3, 15] {
            let script = format!("kill -{signal} $$");
            let outcome = TestRun::new(Path::new("/bin/sh")).args(["-c", &script]).finish().unwrap();
            assert_eq!(outcome.ending, RunEnding::Signalled(signal));
        }
    }

    #[test]
    fn programs_find_signals_at_their_defaults() {
        let test = "signals::tests::in_a_process_that_ignores_signals";
        let output = Command::new("sh")
            .args(["-c", "trap '' HUP INT QUIT TERM; exec \"$0\" --exact --ignored \"$1\""])
            .arg(std::env::current_exe().unwrap())
            .arg(test)
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
    }
}
