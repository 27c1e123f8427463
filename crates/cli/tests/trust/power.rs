//! Power cuts: after exit status 0 with `--fsync` nothing is missing, and with `--atomic` no name
//! ever has a part of a file.

use std::fs;
use std::path::Path;
use std::time::Duration;

use haul_testkit::mount::{Mount, POWER_TOOL};
use haul_testkit::random::Rng;
use haul_testkit::random::{seed, seeded};
use haul_testkit::{
    CopyProgram, Facts, Sandbox, TestRun, compare, libc, needs, note, program, require, strace,
};

use super::{Contents, build, contents, parts};

const FILE_SYSTEMS: [(&str, u64); 2] = [("ext4", 192 << 20), ("xfs", 320 << 20)];

fn sizes() -> Vec<u64> {
    (0..300).map(|index| [0, 100, 4096, 20_000, 300_000][index % 5]).chain([3 << 20; 4]).collect()
}

/// Copies to a new file system, cuts the power at once, and returns the differences from the
/// source.
fn lost(
    ours: &CopyProgram,
    file_system: (&str, u64),
    options: &[&str],
    source: &Path,
) -> compare::Differences {
    let mount = Mount::image(file_system.0, file_system.1).unwrap();
    let target = mount.join("target");
    ours.run().args(options).args([source, &target]).succeed().unwrap();
    mount.cut_power().unwrap();
    fs::create_dir_all(&target).unwrap();
    let facts = Facts::CONTENT | Facts::MODE | Facts::MODIFIED;
    compare::compare_paths(source, &target, facts).unwrap()
}

#[test]
fn after_success_a_power_cut_loses_nothing() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool(POWER_TOOL));
    let sandbox = Sandbox::in_memory().unwrap();
    let source = sandbox.join("source");
    build(&source, &sizes(), 1);
    std::os::unix::fs::symlink("folder-0", source.join("link")).unwrap();
    for file_system in FILE_SYSTEMS {
        require!(needs::loop_mount(file_system.0));
        for options in [
            ["-a", "--fsync"].as_slice(),
            &["-a", "--fsync=each"],
            &["-a", "--fsync", "--atomic"],
            &["-a", "--fsync=each", "--atomic", "-j1"],
        ] {
            let differences = lost(&ours, file_system, options, &source);
            assert!(differences.is_empty(), "{file_system:?} {options:?}: {differences}");
        }
        let differences = lost(&ours, file_system, &["-a"], &source);
        assert!(!differences.is_empty(), "{file_system:?} loses nothing without --fsync either");
    }
}

/// Cuts the power in the middle of a copy over an older one.
#[test]
fn a_power_cut_leaves_the_old_or_the_new_file() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool(POWER_TOOL));
    let runs = if needs::is_full_run() { 100 } else { 6 };
    let sandbox = Sandbox::in_memory().unwrap();
    let [older, source] = ["older", "source"].map(|name| sandbox.join(name));
    build(&older, &sizes(), 1000);
    build(&source, &[sizes(), sizes()].concat(), 1);
    let [old, new] = [&older, &source].map(|tree| contents(tree));
    let mut random = seeded(seed("power cuts", None));
    for file_system in FILE_SYSTEMS {
        require!(needs::loop_mount(file_system.0));
        let (mut seen, mut usual) = ((0, 0), Duration::ZERO);
        let mut run = 0;
        // The first copy isn't interrupted. Where the machine was busy during that one, all of the
        // cuts may come too late, so they go on until one is in the middle.
        while run <= runs || (seen.0 == 0 && run <= 10 * runs) {
            let mount = Mount::image(file_system.0, file_system.1).unwrap();
            let target = mount.join("target");
            ours.run().args(["-a", "--fsync"]).args([&older, &target]).succeed().unwrap();
            let copy = ours.run().args(["-rT", "--atomic", "--fsync"]).args([&source, &target]);
            let running = copy.start().unwrap();
            if run > 0 {
                // Mostly late: the names come last. And everywhere: each has its own part.
                let part = f64::from((run - 1) % runs) + random.random_range(0.0f64..1.0);
                std::thread::sleep(usual.mul_f64((1.2 * part / f64::from(runs)).sqrt()));
                // It may have ended already.
                running.signal(libc::SIGKILL).unwrap_or_default();
            }
            // No process may have files open when the file system is unmounted.
            let took = running.finish().unwrap().took;
            if run == 0 {
                usual = took;
            }
            mount.cut_power().unwrap();
            let found = contents(&target);
            assert_eq!(parts(&found, &[&old, &new]), Vec::<&str>::new(), "{file_system:?}");
            assert!(old.keys().all(|name| found.contains_key(name)), "a file is missing");
            let are = |tree: &Contents| {
                found
                    .iter()
                    .filter(|(name, content)| !content.is_empty() && tree.get(*name) == Some(content))
                    .count()
            };
            seen = (seen.0 + are(&old), seen.1 + are(&new));
            assert!(run > 0 || are(&old) == 0, "{file_system:?}: a finished copy left old files");
            run += 1;
        }
        assert!(seen.0 > 0 && seen.1 > 0, "{file_system:?}: no power cut in the middle");
        let cuts = run - 1;
        note!("{}: {} old and {} new files after {cuts} power cuts", file_system.0, seen.0, seen.1);
    }
}

/// A link leads to a file system that the copy doesn't otherwise know.
#[test]
fn a_file_behind_a_link_is_flushed_where_it_is() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool(POWER_TOOL), needs::loop_mount("ext4"));
    let sandbox = Sandbox::in_memory().unwrap();
    let mount = Mount::image("ext4", 64 << 20).unwrap();
    fs::write(sandbox.join("file"), "content").unwrap();
    fs::write(mount.join("copy"), "").unwrap();
    std::os::unix::fs::symlink(mount.join("copy"), sandbox.join("link")).unwrap();
    let copy = |options: &[&str]| {
        let run = ours.run().args(options).args(["file", "link"]).in_folder(sandbox.path());
        run.succeed().unwrap();
        mount.cut_power().unwrap();
        fs::read_to_string(mount.join("copy")).unwrap_or_default()
    };
    assert_eq!(copy(&["--fsync"]), "content");
    fs::write(sandbox.join("file"), "other").unwrap();
    assert_ne!(copy(&[]), "other", "nothing is lost without --fsync either");
}

/// The number of flushes doesn't depend on the number of files.
#[test]
fn a_copy_is_flushed_with_few_calls() {
    let ours = program!();
    require!(ours.needs_haul(), needs::tool("strace"));
    let sandbox = Sandbox::on_disk().unwrap();
    let source = sandbox.join("source");
    build(&source, &sizes(), 1);
    let flushes = |options: &[&str]| {
        let target = sandbox.join("target");
        haul_testkit::sandbox::remove_tree(&target);
        let run = ours.run().args(options).args([&source, &target]);
        let (outcome, calls) = strace::record(run, "fsync,fdatasync,syncfs", &sandbox.join("log")).unwrap();
        assert!(outcome.succeeded(), "{options:?}: {}", outcome.errors());
        let count = |name: &str| calls.iter().filter(|call| call.name == name && !call.failed()).count();
        (count("syncfs"), count("fsync") + count("fdatasync"))
    };
    assert_eq!(flushes(&["-a"]), (0, 0));
    let (whole, each) = flushes(&["-a", "--fsync=each"]);
    // Each file, four directories and the tree, and the directory that it is in.
    assert_eq!((whole, each), (0, sizes().len() + 6));
    // Attributes alone are flushed too: of new files, of existing ones, and where they differ.
    assert_eq!(flushes(&["-a", "--fsync=each", "--attributes-only"]), (0, sizes().len() + 6));
    let again = |command: &[&str]| {
        let run = TestRun::new(ours.path()).args(command).args(["-j1", "--fsync=each"]);
        let run = run.args([&source, &sandbox.join("target")]);
        let (outcome, calls) = strace::record(run, "fsync", &sandbox.join("log")).unwrap();
        assert!(outcome.succeeded(), "{command:?}: {}", outcome.errors());
        calls.iter().filter(|call| !call.failed()).count()
    };
    assert!(again(&["cp", "-aT", "--attributes-only"]) >= sizes().len());
    sandbox.script("find target -type f -exec chmod 600 {} +").unwrap();
    ours.run().arg("-aT").args([&source, &sandbox.join("target")]).succeed().unwrap();
    sandbox.script("find target -type f -exec chmod 600 {} +").unwrap();
    assert!(again(&["sync"]) >= sizes().len());
    // The file, the two directories that --parents makes, the entry of each, and the place of the
    // file.
    let folders = sandbox.join("target");
    fs::create_dir_all(&folders).unwrap();
    let run = ours.run().args(["--parents", "--fsync=each", "source/folder-1/file-1", "target"]);
    let run = run.in_folder(sandbox.path());
    let (outcome, calls) = strace::record(run, "fsync", &sandbox.join("log")).unwrap();
    assert!(outcome.succeeded(), "{}", outcome.errors());
    assert_eq!(calls.iter().filter(|call| !call.failed()).count(), 6);
    let kind = haul_testkit::rustix::fs::statfs(sandbox.path()).unwrap().f_type as u64;
    const OVERLAY: u64 = 0x794c_7630;
    require!((![0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, OVERLAY].contains(&kind)).then(|| {
        "the directory for temporary files is on a file system that is flushed file by file".to_owned()
    }));
    assert_eq!(flushes(&["-a", "--fsync"]), (1, 0));
    let (whole, each) = flushes(&["-a", "--fsync", "--atomic", "-j1"]);
    assert_eq!((whole, each), (2, 0));
}
