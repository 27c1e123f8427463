//! `SIGUSR1` prints how far a run is, and is handled by commands of haul only.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_testkit::{RunEnding, RunOutcome, Sandbox, TestRun, libc, wait};

/// Bytes of the source. At 1 MiB a second the copy takes at least two seconds, and the thread that
/// prints is started after one.
const BYTES: usize = 3 << 20;

const BEGUN_MAX: Duration = Duration::from_secs(60);

fn built() -> PathBuf {
    fs::canonicalize(env!("CARGO_BIN_EXE_haul")).unwrap()
}

/// Copies slowly, and sends the signal once the copy has begun.
fn signalled(program: &Path, words: &[&str]) -> (RunOutcome, Sandbox) {
    let sandbox = Sandbox::in_memory().unwrap();
    fs::write(sandbox.join("source"), vec![1; BYTES]).unwrap();
    let run = TestRun::new(program).args(words).args(["--bwlimit=1M", "source", "target"]);
    let running = run.in_folder(sandbox.path()).start().unwrap();
    assert!(wait::until(BEGUN_MAX, || sandbox.join("target").exists()), "no target");
    running.signal(libc::SIGUSR1).unwrap();
    (running.finish().unwrap(), sandbox)
}

/// True for a line such as `haul cp: 1.05 MB 0 files of 1 found 1.05 MB/s`.
fn is_status(line: &str) -> bool {
    line.starts_with("haul cp: ") && line.contains("MB") && line.contains(" files") && line.ends_with("/s")
}

#[test]
fn a_signal_prints_a_line_whether_or_not_progress_is_shown() {
    for progress in ["never", "always"] {
        let (outcome, sandbox) = signalled(&built(), &["cp", &format!("--progress={progress}")]);
        assert!(outcome.succeeded(), "{progress}: {}", outcome.errors());
        let errors = outcome.errors();
        let lines: Vec<_> = errors.lines().filter(|line| line.starts_with("haul cp: ")).collect();
        assert_eq!(lines.len(), 1, "{progress}: {errors}");
        // The total is counted only for progress.
        let is_shown = is_status(lines[0]) || (progress == "always" && lines[0].contains("% "));
        assert!(is_shown, "{progress}: {errors}");
        assert_eq!(outcome.stdout, b"");
        assert_eq!(fs::read(sandbox.join("target")).unwrap(), vec![1; BYTES]);
    }
}

#[test]
fn the_signal_ends_a_program_called_cp_as_it_ends_gnu_s() {
    let sandbox = Sandbox::in_memory().unwrap();
    let cp = sandbox.join("cp");
    symlink(built(), &cp).unwrap();
    let (outcome, _) = signalled(&cp, &[]);
    assert_eq!(outcome.ending, RunEnding::Signalled(libc::SIGUSR1));
    assert_eq!(outcome.errors(), "");
}
