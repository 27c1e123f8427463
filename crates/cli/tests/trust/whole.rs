//! Never a part of a file under its name: killed copies, and full disks.

use std::fs;
use std::path::Path;
use std::time::Duration;

use haul_testkit::mount::Mount;
use haul_testkit::program::ENGINES;
use haul_testkit::random::Rng;
use haul_testkit::random::{seed, seeded};
use haul_testkit::sandbox::remove_tree;
use haul_testkit::{CopyProgram, Sandbox, libc, needs, note, program, require, strace, wait};

use super::{Contents, build, contents, parts, temporary_names};

/// Files of a tree that takes some milliseconds to copy: small ones among large ones.
fn sizes() -> Vec<u64> {
    let small = (0..400).map(|index| [0, 100, 4096, 20_000, 300_000][index % 5]);
    small.chain([8 << 20; 12]).collect()
}

/// Starts a copy and kills it after a random part of the time it usually takes. Returns what is
/// then in the target.
fn killed(
    program: &CopyProgram,
    options: &[&str],
    (source, target): (&Path, &Path),
    after: Duration,
) -> Contents {
    let running = program.run().args(options).arg(source).arg(target).start().unwrap();
    std::thread::sleep(after);
    // It may have ended already.
    running.signal(libc::SIGKILL).unwrap_or_default();
    running.finish().unwrap();
    if target.is_dir() { contents(target) } else { Contents::new() }
}

/// Kills a copy at random moments. Returns in how many runs a part of a file had the file's name,
/// and in how many a temporary name was left.
fn runs_with_parts(
    program: &CopyProgram,
    options: &[&str],
    runs: usize,
    is_judged: impl Fn(&str, u64) -> bool,
) -> (usize, usize) {
    let sandbox = Sandbox::in_memory().unwrap();
    let (source, target) = (sandbox.join("source"), sandbox.join("target"));
    build(&source, &sizes(), 1);
    let whole = contents(&source);
    program.run().args(options).args([&source, &target]).succeed().unwrap();
    remove_tree(&target);
    let usual = program.run().args(options).args([&source, &target]).succeed().unwrap().took;
    let mut random = seeded(seed(format!("killed copies {options:?}"), None));
    let (mut with_parts, mut with_names) = (0, 0);
    for _ in 0..runs {
        remove_tree(&target);
        let after = usual.mul_f64(random.random_range(0.0..1.1));
        let found = killed(program, options, (&source, &target), after);
        let judged = parts(&found, &[&whole]);
        let judged = judged.into_iter().filter(|name| is_judged(name, whole[*name].len() as u64)).count();
        with_parts += usize::from(judged > 0);
        with_names += usize::from(temporary_names(&found) > 0);
        // The same command again, told to keep what is there and newer, completes the tree.
        if judged == 0 && is_judged("", 0) {
            program.run().args(options).args(["-u", "-T"]).args([&source, &target]).succeed().unwrap();
            let completed = contents(&target);
            assert!(
                parts(&completed, &[&whole]).is_empty()
                    && whole.keys().all(|name| completed.contains_key(name))
            );
        }
    }
    (with_parts, with_names)
}

fn any_file(_: &str, _: u64) -> bool {
    true
}

#[test]
fn a_killed_copy_leaves_no_part_of_a_file() {
    let ours = program!();
    require!(ours.needs_haul());
    let runs = needs::count_from("HAUL_KILLS", if needs::is_full_run() { 300 } else { 30 });
    for engine in ENGINES {
        let options = ["-r", "--atomic", engine];
        let (with_parts, with_names) = runs_with_parts(&ours, &options, runs / ENGINES.len(), any_file);
        // A new file has no name at all until it is complete.
        assert_eq!((with_parts, with_names), (0, 0), "{options:?}");
    }
    let (with_parts, _) = runs_with_parts(&ours, &["-r", "--atomic", "--fsync"], runs / 5, any_file);
    assert_eq!(with_parts, 0, "with --fsync");
    let (with_parts, _) = runs_with_parts(&ours, &["-r", "--no-atomic"], runs, any_file);
    note!("parts of files after {with_parts} of {runs} killed copies with --no-atomic");
    assert!(with_parts > 0, "no copy was killed at the right moment");
}

/// Without any option this holds for the files a part of which may pass for the whole.
#[test]
fn a_killed_copy_of_a_tree_leaves_no_part_of_a_large_file() {
    let ours = program!();
    require!(ours.needs_haul());
    let runs = needs::count_from("HAUL_KILLS", if needs::is_full_run() { 300 } else { 30 });
    let is_large = |_: &str, bytes: u64| bytes >= 1 << 20;
    for options in [["-r"].as_slice(), &["-a"]] {
        assert_eq!(runs_with_parts(&ours, options, runs, is_large), (0, 0), "{options:?}");
    }
    let (with_parts, _) = runs_with_parts(&ours, &["-r", "--no-atomic"], runs, is_large);
    assert!(with_parts > 0, "no copy was killed at the right moment");
}

/// A copy removes the temporary files that a killed run of it left, but not those of others.
#[test]
fn leftovers_of_killed_copies_are_removed_by_the_next_one() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    let [source, target] = ["source", "target"].map(|name| sandbox.join(name));
    build(&source, &sizes(), 1);
    // By root, files get their owners before their names.
    sandbox.script("chown -R 5:6 source/folder-1 source/folder-2 2>/dev/null || true").unwrap();
    let copy = || ours.run().args(["-aT", "--atomic", "--fsync"]).args([&source, &target]);
    let usual = copy().succeed().unwrap().took;
    let mut random = seeded(seed("leftovers", None));
    let left = wait::until(Duration::from_secs(60), || {
        let after = usual.mul_f64(random.random_range(0.2..1.0));
        let found = killed(&ours, &["-aT", "--atomic", "--fsync"], (&source, &target), after);
        temporary_names(&found) > 0
    });
    assert!(left, "no copy was killed at the right moment");
    let foreign = target.join("folder-0/.haul-0123456789abcdef-0123456789abcdef-1-1-1");
    fs::write(&foreign, "of another host").unwrap();
    // By default nothing is listed for this.
    ours.run().arg("-aT").args([&source, &target]).succeed().unwrap();
    assert!(temporary_names(&contents(&target)) > 1);
    copy().succeed().unwrap();
    fs::remove_file(&foreign).unwrap();
    assert!(contents(&target) == contents(&source));
}

/// Kills a copy over an older one: each file is the old or the new one.
#[test]
fn a_killed_copy_over_an_older_one_leaves_the_old_or_the_new_file() {
    let ours = program!();
    require!(ours.needs_haul());
    let runs = if needs::is_full_run() { 300 } else { 20 };
    let sandbox = Sandbox::in_memory().unwrap();
    let [older, source, target] = ["older", "source", "target"].map(|name| sandbox.join(name));
    build(&older, &sizes(), 1000);
    build(&source, &sizes(), 1);
    let [old, new] = [&older, &source].map(|tree| contents(tree));
    let mut random = seeded(seed("killed copies over older ones", None));
    let mut seen = (0, 0);
    for run in 0..runs {
        remove_tree(&target);
        ours.run().arg("-a").args([&older, &target]).succeed().unwrap();
        let options: &[&str] =
            if run % 2 == 0 { &["-aT", "--atomic"] } else { &["-rT", "--atomic", "--fsync"] };
        let after = Duration::from_micros(random.random_range(0..60_000));
        let found = killed(&ours, options, (&source, &target), after);
        assert_eq!(parts(&found, &[&old, &new]), Vec::<&str>::new(), "{options:?}");
        assert!(old.keys().all(|name| found.contains_key(name)), "a file is missing");
        seen.0 += old.iter().filter(|(name, content)| found[*name] == **content).count();
        seen.1 += new.iter().filter(|(name, content)| found[*name] == **content).count();
    }
    note!("{} old and {} new files after {runs} killed copies", seen.0, seen.1);
    assert!(seen.0 > 0 && seen.1 > 0);
}

#[test]
fn a_full_disk_leaves_no_part_of_a_file() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root());
    let sandbox = Sandbox::in_memory().unwrap();
    let source = sandbox.join("source");
    build(&source, &sizes(), 1);
    let whole = contents(&source);
    let mut left_parts = false;
    for options in [["-r"].as_slice(), &["-a", "-j1"], &["-r", "--atomic"], &["-r", "--no-atomic"]] {
        for mebibytes in [2, 15, 51] {
            let small = Mount::memory(mebibytes << 20).unwrap();
            let target = small.join("target");
            let outcome = ours.run().args(options).args([&source, &target]).finish().unwrap();
            let errors = outcome.errors();
            assert_eq!(outcome.status(), Some(1), "{options:?}: {errors}");
            assert!(errors.contains("No space left on device"), "{options:?}: {errors}");
            let found = contents(&target);
            let parts = parts(&found, &[&whole]);
            if options.contains(&"--no-atomic") {
                left_parts |= !parts.is_empty();
            } else {
                assert_eq!(parts, Vec::<&str>::new(), "{options:?}, {mebibytes} MiB");
            }
            assert_eq!(temporary_names(&found), 0);
            // Everything that isn't there was reported, by name.
            for name in whole.keys().filter(|name| !found.contains_key(*name)) {
                let folder = name.split('/').next().unwrap();
                assert!(errors.contains(name) || errors.contains(&format!("{folder}'")), "{name}: {errors}");
            }
        }
    }
    assert!(left_parts, "--no-atomic left no part of a file, so the disk was not full at the right moment");
}

/// Where a file must have a name, it has a temporary one.
#[test]
fn without_unnamed_files_a_temporary_name_is_used() {
    let ours = program!();
    require!(ours.needs_haul(), needs::tool("strace"));
    let sandbox = Sandbox::in_memory().unwrap();
    let [source, target] = ["source", "target"].map(|name| sandbox.join(name));
    build(&source, &sizes()[..40], 1);
    fs::write(source.join("large"), vec![7; 2 << 20]).unwrap();
    let whole = contents(&source);
    let unnamed = libc::O_TMPFILE as u32 & !(libc::O_DIRECTORY as u32);
    // To a new directory, and over what is there then.
    for (options, renamed) in [(["-a", "-T"], 1), (["-aT", "--atomic"], whole.len())] {
        let run = ours.run().args(options).args([&source, &target]);
        let run = run.refusing_bits(libc::SYS_openat, 2, unnamed, libc::EOPNOTSUPP);
        let (outcome, calls) = strace::record(run, "renameat2,renameat", &sandbox.join("log")).unwrap();
        assert!(outcome.succeeded(), "{options:?}: {}", outcome.errors());
        assert!(contents(&target) == whole, "{options:?}");
        assert_eq!(calls.len(), renamed, "{options:?}");
    }
}

#[test]
fn a_signal_ends_a_copy_without_a_trace_of_the_current_files() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    let [source, target] = ["source", "target"].map(|name| sandbox.join(name));
    build(&source, &[64 << 20; 4], 1);
    let whole = contents(&source);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        remove_tree(&target);
        let running = ours.run().arg("-r").args([&source, &target]).start().unwrap();
        wait::until(Duration::from_secs(10), || target.join("folder-3").is_dir());
        running.signal(signal).unwrap_or_default();
        running.finish().unwrap();
        let found = contents(&target);
        assert_eq!((parts(&found, &[&whole]).len(), temporary_names(&found)), (0, 0), "signal {signal}");
    }
}
