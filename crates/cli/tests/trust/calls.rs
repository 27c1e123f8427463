//! Counts the system calls that make flushing and verifying fast.

use std::fs::{self, File};

use haul_testkit::mount::Mount;
use haul_testkit::strace::{TracedCall, record};
use haul_testkit::{CopyProgram, Sandbox, TestRun, needs, program, random, require};

use super::TEMPORARY;

/// Counts the calls of this name, with `flag` among their arguments, of a copy of `source` in the
/// file system to `target` beside it.
fn count(ours: &CopyProgram, disk: &Mount, options: &[&str], (call, flag): (&str, &str)) -> usize {
    haul_testkit::sandbox::remove_tree(&disk.join("target"));
    let run = ours.run().args(["-rT", "-j1", "--engine=sync"]).args(options);
    let run = run.args([disk.join("source"), disk.join("target")]);
    let (outcome, calls) = record(run, call, &disk.join("log")).unwrap();
    assert!(outcome.succeeded(), "{}", outcome.errors());
    let has_flag = |arguments: &[String]| arguments.iter().any(|argument| argument.contains(flag));
    calls.iter().filter(|call| has_flag(&call.arguments)).count()
}

#[test]
fn a_large_file_is_written_to_disk_while_it_is_copied() {
    let ours = program!();
    require!(ours.needs_haul(), needs::tool("strace"), needs::root(), needs::loop_mount("ext4"));
    let disk = Mount::image("ext4", 192 << 20).unwrap();
    fs::create_dir(disk.join("source")).unwrap();
    fs::write(disk.join("source/large"), random::bytes(1, 64 << 20)).unwrap();
    fs::write(disk.join("source/small"), "small").unwrap();
    let flushes = ("sync_file_range", "SYNC_FILE_RANGE_WRITE");
    assert_eq!(count(&ours, &disk, &[], flushes), 0);
    for options in [["--fsync"].as_slice(), &["--fsync", "--reflink=never"], &["--verify"], &["--resume"]] {
        assert_eq!(count(&ours, &disk, options, flushes), 8, "{options:?}");
    }
}

/// With `--atomic` a new link gets its name when it is complete. In a directory that the run has
/// made nothing else has that name, and none is left to be removed.
#[test]
fn new_links_are_named_by_one_call() {
    let ours = program!();
    require!(ours.needs_haul(), needs::tool("strace"));
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script("mkdir s; ln -s elsewhere s/entry-1; mkfifo s/entry-2").unwrap();
    // A sync looks before it decides about an entry.
    for (words, looks) in [("sync", 1), ("cp -rT --atomic", 0)] {
        sandbox.script("rm -rf t").unwrap();
        let run = TestRun::new(ours.path()).args(words.split(' ')).args(["s", "t"]);
        let all = "renameat,renameat2,unlinkat,statx,newfstatat,fstatat64";
        let (outcome, calls) = record(run.in_folder(sandbox.path()), all, &sandbox.join("log")).unwrap();
        assert!(outcome.succeeded(), "{words}: {}", outcome.errors());
        let is_about = |name: &str, call: &&TracedCall| {
            let is_in_target = call.descriptor_path(0).is_some_and(|path| path.ends_with("/t"));
            is_in_target && call.arguments.iter().any(|argument| argument.contains(name))
        };
        let names = |name: &str| -> Vec<_> {
            calls.iter().filter(|call| is_about(name, call)).map(|call| call.name.as_str()).collect()
        };
        for entry in ["entry-1", "entry-2"] {
            let names = names(entry);
            assert!(names.len() == looks + 1 && names.ends_with(&["renameat2"]), "{words}: {names:?}");
        }
        assert!(!names(TEMPORARY).contains(&"unlinkat"), "{words}");
    }
}

#[test]
fn targets_are_read_ahead_when_they_are_verified() {
    const FILES: usize = 100;
    let ours = program!();
    require!(ours.needs_haul(), needs::tool("strace"), needs::root(), needs::loop_mount("ext4"));
    let disk = Mount::image("ext4", 64 << 20).unwrap();
    fs::create_dir(disk.join("source")).unwrap();
    for number in 0..FILES {
        fs::write(disk.join(format!("source/{number}")), random::bytes(number as u64, 5000)).unwrap();
    }
    let cached = haul_sys::cached_bytes(File::open(disk.join("source/1")).unwrap());
    require!(cached.err().map(|error| format!("needs cachestat: {error}")));
    let ahead = ("fadvise64", "POSIX_FADV_WILLNEED");
    for options in [["--verify"].as_slice(), &["--verify", "--atomic", "--fsync"], &["--verify=both"]] {
        // All but the first.
        assert_eq!(count(&ours, &disk, options, ahead), FILES - 1, "{options:?}");
    }
    assert_eq!(count(&ours, &disk, &["--verify=stream"], ahead), 0);
}
