//! Sources that are written to while they are copied: `--if-changed`.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haul_testkit::program::each_engine;
use haul_testkit::{CopyProgram, RunOutcome, Sandbox, note, program, require, wait};

const BYTES: usize = 64 << 20;

/// When the writer of a source stops.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writes {
    /// Soon after the copy has begun.
    Once,
    /// Never.
    Always,
}

/// Copies a file while somebody writes to it.
fn copied_meanwhile(ours: &CopyProgram, options: &[&str], writes: Writes) -> (RunOutcome, bool) {
    copied_in(&Sandbox::in_memory().unwrap(), ours, options, writes)
}

fn copied_in(sandbox: &Sandbox, ours: &CopyProgram, options: &[&str], writes: Writes) -> (RunOutcome, bool) {
    let [source, target] = ["source", "target"].map(|name| sandbox.join(name));
    fs::write(&source, vec![0xff; BYTES]).unwrap();
    let is_over = AtomicBool::new(false);
    let outcome = std::thread::scope(|threads| {
        threads.spawn(|| write_to(&source, &target, writes, &is_over));
        let outcome = ours.run().args(options).arg("--no-atomic").args([&source, &target]).finish().unwrap();
        is_over.store(true, Ordering::Relaxed);
        outcome
    });
    let is_same = fs::read(&source).unwrap() == fs::read(&target).unwrap();
    (outcome, is_same)
}

fn write_to(source: &Path, target: &Path, writes: Writes, is_over: &AtomicBool) {
    let file = File::options().write(true).append(false).open(source).unwrap();
    let begun = || fs::metadata(target).is_ok_and(|target| target.len() > 0);
    wait::until(Duration::from_secs(20), || begun() || is_over.load(Ordering::Relaxed));
    let mut number = 0;
    while !is_over.load(Ordering::Relaxed) && (number == 0 || writes == Writes::Always) {
        number += 1;
        // At the end, so that no copy has passed it, and at the beginning, which it has.
        file.write_all_at(&[number as u8; 100], BYTES as u64 - 100).unwrap();
        file.write_all_at(&[number as u8; 100], 0).unwrap();
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn a_source_that_changes_is_reported_or_copied_again() {
    let ours = program!();
    require!(ours.needs_haul());
    let mut differed = false;
    for engine in each_engine() {
        let run = |options: &[&str], writes| {
            let options: Vec<_> = options.iter().copied().chain(engine.iter().copied()).collect();
            copied_meanwhile(&ours, &options, writes)
        };
        for options in [[].as_slice(), &["--if-changed=ignore"]] {
            let (outcome, is_same) = run(options, Writes::Once);
            assert!(outcome.succeeded(), "{engine:?} {options:?}: {}", outcome.errors());
            differed |= !is_same;
        }
        let changed =
            |outcome: &RunOutcome| outcome.errors().ends_with("source' changed while it was copied\n");
        let (outcome, _) = run(&["--if-changed=warn"], Writes::Once);
        assert!(outcome.status() == Some(1) && changed(&outcome), "{engine:?}: {}", outcome.errors());
        let (outcome, is_same) = run(&["--if-changed=retry", "--stats=json"], Writes::Once);
        assert!(outcome.succeeded() && is_same, "{engine:?}: {} {is_same}", outcome.errors());
        assert!(outcome.printed().contains("\"retried\":1"), "{engine:?}: {}", outcome.printed());
        let (outcome, _) = run(&["--if-changed=retry=2", "--stats=json"], Writes::Always);
        assert!(outcome.status() == Some(1) && changed(&outcome), "{engine:?}: {}", outcome.errors());
        assert!(outcome.printed().contains("\"retried\":2"), "{engine:?}: {}", outcome.printed());
    }
    note!("copies without --if-changed differed from their sources: {differed}");
    assert!(differed, "nothing was written at the right moment");
}

#[test]
fn a_source_that_stands_still_is_copied_once() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    let [source, target] = ["source", "target"].map(|name| sandbox.join(name));
    super::build(&source, &[0, 1, 100_000, 3 << 20], 1);
    for options in [["-r"].as_slice(), &["-rT", "--sparse=always"], &["-aT", "--atomic"]] {
        let run =
            ours.run().args(options).args(["--if-changed=retry", "--stats=json"]).args([&source, &target]);
        let outcome = run.finish().unwrap();
        assert!(outcome.succeeded(), "{options:?}: {}", outcome.errors());
        assert!(outcome.printed().contains("\"retried\":0"), "{}", outcome.printed());
        assert_eq!(super::contents(&source), super::contents(&target), "{options:?}");
    }
}

/// If a file is copied again, its hash is that of the data read the last time.
#[test]
fn the_hash_of_a_file_that_changed_is_of_its_last_copy() {
    let ours = program!();
    require!(ours.needs_haul());
    for hash in ["--hash=blake3", "--hash=xxh64"] {
        let sandbox = Sandbox::in_memory().unwrap();
        let list = sandbox.join("SUMS");
        let manifest = format!("--manifest={}", list.display());
        let options = ["--if-changed=retry", "--stats=json", hash, manifest.as_str()];
        let (outcome, is_same) = copied_in(&sandbox, &ours, &options, Writes::Once);
        assert!(outcome.succeeded() && is_same, "{hash}: {}", outcome.errors());
        assert!(outcome.printed().contains("\"retried\":1"), "{hash}: {}", outcome.printed());
        let check =
            Command::new(ours.path()).args(["sum", "-c", "--quiet", hash]).arg(&list).output().unwrap();
        assert!(check.status.success(), "{hash}: {check:?}");
    }
}

/// The size of what the kernel writes as it is read is 0 in `/proc`, and a page in `/sys`.
#[test]
fn a_file_whose_size_means_nothing_has_not_changed() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    let target = sandbox.join("target");
    for source in ["/proc/version", "/sys/kernel/mm/transparent_hugepage/enabled"].map(Path::new) {
        if !source.exists() {
            haul_testkit::skip!("needs files made by the kernel");
        }
        for option in ["--if-changed=warn", "--if-changed=retry", "--verify", "--verify=both"] {
            let run = ours.run().arg(option).arg(source).arg(&target);
            let outcome = run.finish().unwrap();
            assert!(outcome.succeeded(), "{option} {source:?}: {}", outcome.errors());
            assert!(!outcome.errors().contains("changed"), "{option} {source:?}: {}", outcome.errors());
            assert_eq!(fs::read(source).unwrap(), fs::read(&target).unwrap(), "{option}");
        }
    }
}
