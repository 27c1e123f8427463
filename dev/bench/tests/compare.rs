//! Tests all of `compare` over real images: with GNU cp, with rivals that fail or cheat,
//! and interrupted.
//!
//! The trees are tiny. The tests need root and loop devices, and are skipped without them.

#![expect(clippy::unwrap_used, reason = "a test stops at whatever it did not expect, its own parts included")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use haul_testkit::program::write_script;
use haul_testkit::{needs, require, wait};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

fn bench(arguments: &[&str], work: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_haul-bench"));
    command.args(arguments).arg("--work").arg(work);
    command
}

/// Creates a directory on disk for the images: the usual temporary directory may be in memory.
fn work() -> TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run(arguments: &[&str], work: &Path) -> (Output, Value) {
    let json = work.join("results.json");
    let output = bench(arguments, work).arg("--json").arg(&json).output().unwrap();
    let value = serde_json::from_reader(File::open(&json).unwrap()).unwrap_or(Value::Null);
    fs::remove_file(&json).unwrap();
    (output, value)
}

/// Asserts that a comparison in `work` left no image, loop device or mount behind.
fn assert_clean(work: &Path) {
    let left: Vec<PathBuf> = fs::read_dir(work).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
    let name = work.file_name().unwrap().to_str().unwrap();
    // If somebody else has the device open while it is detached (for example losetup in another
    // test), it goes away when they close it.
    let mut loops = String::new();
    let gone = wait::until(Duration::from_secs(60), || {
        loops = text(&Command::new("losetup").arg("--all").output().unwrap().stdout);
        !loops.contains(name)
    });
    assert!(gone, "{loops}");
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(name), "{mounts}");
}

fn script(folder: &Path, name: &str, body: &str) {
    let path = folder.join(name);
    let text = format!("#!/bin/sh\n[ \"$1\" = --version ] && exec echo {name} 1.0\n{body}\n");
    write_script(&path, &text).unwrap();
}

#[test]
fn gnu_cp_is_measured_cold_and_warm_and_nothing_is_left() {
    require!(needs::loop_mount("ext4"));
    let work = work();
    let line = ["compare", "many", "--scale", "0.01", "--only", "cp", "--rounds", "2"];
    let (output, results) = run(&line, work.path());
    let (table, progress) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{progress}");
    assert!(table.contains("many: 500 files, 5 directories, 2,048,000 bytes, seed 1"), "{table}");
    assert_eq!(table.lines().filter(|row| row.starts_with("GNU cp  ")).count(), 2, "{table}");
    for (index, cache) in ["cold", "warm"].into_iter().enumerate() {
        let series = &results["series"][index];
        assert_eq!(series["cache"], cache);
        // One round more is run than counted.
        assert_eq!(series["runs"].as_array().unwrap().len(), 3);
        let timed = &series["outcomes"][0]["timed"];
        assert_eq!(timed["seconds"]["count"], 2);
        assert!(timed["seconds"]["median"].as_f64().unwrap() > 0.0);
        assert!(timed["seconds_with_sync"]["median"].as_f64() > timed["seconds"]["median"].as_f64());
        assert!(timed["memory_peak_bytes"].as_u64().unwrap() > 500_000);
        assert_eq!(timed["ratio_to_gnu"], 1.0);
    }
    assert_clean(work.path());
}

#[test]
fn rivals_that_fail_or_lie_have_no_time() {
    require!(needs::loop_mount("ext4"));
    let (work, rivals) = (work(), tempfile::tempdir().unwrap());
    script(rivals.path(), "fcp", "echo 'fcp: no luck today' >&2; exit 3");
    script(
        rivals.path(),
        "cpz",
        "cp -r \"$1\" \"$2\"; printf X | dd of=\"$2/d001/f00002\" conv=notrunc status=none",
    );
    script(rivals.path(), "wcp", "exit 0");
    let folder = rivals.path().to_str().unwrap();
    let line = ["compare", "many", "--scale", "0.002", "--only", "cp,fcp,cpz,wcp", "--directories", "1000"];
    let line =
        [&line[..], &["--rounds", "1", "--cache", "warm", "--same-fs", "--rivals-path", folder]].concat();
    let (output, results) = run(&line, work.path());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let outcomes = results["series"][0]["outcomes"].as_array().unwrap();
    let of = |id: &str| outcomes.iter().find(|outcome| outcome["id"] == id).unwrap();
    assert!(of("cp")["timed"]["seconds"]["median"].is_number());
    assert_eq!(of("fcp")["failed"], "exit status 3: fcp: no luck today");
    assert_eq!(of("cpz")["failed"], "wrong copy: d001/f00002 has other content");
    let nothing_made = of("wcp")["failed"].as_str().unwrap();
    assert!(
        nothing_made.starts_with("wrong copy: ") && nothing_made.contains("No such file"),
        "{nothing_made}"
    );
    // A candidate that failed once is not run again.
    let runs = results["series"][0]["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2 + 3);
    assert_clean(work.path());
}

#[test]
fn a_terminated_comparison_cleans_up() {
    require!(needs::loop_mount("ext4"));
    let (work, rivals) = (work(), tempfile::tempdir().unwrap());
    // Never ends by itself, and reports when it has started.
    script(rivals.path(), "wcp", &format!("echo begun > {}; exec sleep 1000", pipe(rivals.path()).display()));
    let folder = rivals.path().to_str().unwrap();
    let line = ["compare", "many", "--scale", "0.002", "--only", "wcp", "--rivals-path", folder];
    let mut child: Child = bench(&line, work.path()).stderr(Stdio::piped()).spawn().unwrap();
    let mut begun = String::new();
    BufReader::new(File::open(pipe(rivals.path())).unwrap()).read_line(&mut begun).unwrap();
    assert_eq!(begun, "begun\n");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(said.any(|line| line.unwrap() == "haul-bench: interrupted"));
    assert_clean(work.path());
}

/// Returns a named pipe, created on the first call.
fn pipe(folder: &Path) -> PathBuf {
    let path = folder.join("pipe");
    if !path.exists() {
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
    }
    path
}

#[test]
fn an_ordinary_user_gets_the_reason() {
    require!(needs::root());
    require!(needs::tool("setpriv"));
    let work = work();
    let inner = bench(&["compare", "many", "--only", "cp"], work.path());
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
    let output = command.arg(inner.get_program()).args(inner.get_args()).output().unwrap();
    // If that user may not even execute the program, setpriv fails first; nothing to test then.
    if output.status.code() == Some(126) {
        haul_testkit::skip!("the build directory is not open to an ordinary user");
    }
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("which only root may do; nothing was done"),
        "{}",
        text(&output.stderr)
    );
    assert_clean(work.path());
}
