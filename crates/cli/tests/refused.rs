//! Refused resources: descriptors, engines, system calls.
//!
//! The copy is the same with less. Only an engine requested by name is not replaced: if the kernel
//! refuses it, the run ends with a message that names it, before anything is touched. Left to
//! choose, haul falls back to another engine and reports that under `--debug`.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use haul_testkit::compare::compare_paths;
use haul_testkit::mount::Mount;
use haul_testkit::program::{ENGINES, WAYS, each_engine, matrix};
use haul_testkit::run::RunEnding;
use haul_testkit::sandbox::remove_tree;
use haul_testkit::spec::{EntrySpec, Spec};
use haul_testkit::verdict::{CopyVerdict, judge_refusal};
use haul_testkit::{
    Facts, Sandbox, TestRun, cold, everything, libc, needs, note, program, random_tree, require,
};

/// `__NR_cachestat`, which libc doesn't define yet.
const CACHESTAT: i64 = 451;

type Way = Vec<&'static str>;

/// The usual option sets, each engine, and haul's own choice.
fn all_ways() -> Vec<Way> {
    WAYS.iter().map(|way| way.to_vec()).chain(each_engine()).chain([Way::new()]).collect()
}

/// Returns the option sets that don't use an engine.
fn without(engine: &str, ways: Vec<Way>) -> Vec<Way> {
    ways.into_iter().filter(|way| !way.contains(&engine)).collect()
}

/// Returns every engine with several blocks in flight and these switches.
fn switched(switches: &[&'static str]) -> Vec<Way> {
    let several = matrix().into_iter().filter(|way| way.contains(&"--ops=multi"));
    several.map(|way| [&way[..], switches, &["--reflink=never"]].concat()).collect()
}

type Condition<'a> = &'a dyn Fn(TestRun) -> TestRun;

/// Copies the tree of everything under a condition, and asserts that there are no messages and that
/// the copy equals an unrestricted one.
///
/// `trees.rs` checks that the unrestricted copy is right.
fn copies_everything_in(sandbox: &Sandbox, condition: Condition<'_>, ways: &[Way], what: &str) {
    let [source, expected, target] = ["source", "expected", "target"].map(|name| sandbox.join(name));
    everything::spec().build(&source).unwrap();
    let shape = random_tree::RandomTreeLimits { entries: 300, ..random_tree::RandomTreeLimits::default() };
    random_tree::tree(11, shape).build(&source.join("random")).unwrap();
    let copied = program!().run().args(["-a", "-T"]).args([&source, &expected]).finish().unwrap();
    assert!(copied.succeeded(), "{}", copied.errors());
    for way in ways {
        remove_tree(&target);
        let run = program!().run_with(way).args(["-a", "-T"]).args([&source, &target]);
        let outcome = condition(run).finish().unwrap();
        assert!(outcome.succeeded(), "{what} {way:?}: {:?} {:.500}", outcome.ending, outcome.errors());
        assert_eq!(outcome.errors(), "", "{what} {way:?}");
        let differences = compare_paths(&expected, &target, Facts::PRESERVED).unwrap();
        assert!(differences.is_empty(), "{what} {way:?}: {differences}");
    }
}

/// Like [`copies_everything_in`], in memory.
fn copies_everything(condition: Condition<'_>, ways: &[Way], what: &str) {
    require!(needs::root());
    copies_everything_in(&Sandbox::in_memory().unwrap(), condition, ways, what);
}

/// Like [`copies_everything_in`], on a disk that supports direct I/O.
fn copies_everything_on_disk(condition: Condition<'_>, ways: &[Way], what: &str) {
    require!(needs::loop_mount("ext4"));
    let disk = Mount::image("ext4", 192 << 20).unwrap();
    copies_everything_in(&Sandbox::below(disk.path()).unwrap(), condition, ways, what);
}

#[test]
fn few_descriptors_are_enough() {
    for count in [64, 32, 20, 12] {
        copies_everything(&|run| run.open_files(count), &all_ways(), &format!("ulimit -n {count}"));
    }
}

#[test]
fn a_refused_engine_changes_nothing_for_the_others() {
    for error in [libc::EPERM, libc::ENOSYS, libc::ENOMEM] {
        let ways = without("--engine=io-uring", all_ways());
        let what = format!("io_uring refused with {error}");
        copies_everything(&|run| run.without_io_uring(error), &ways, &what);
        let ways = without("--engine=kernel-aio", each_engine());
        let what = format!("kernel AIO refused with {error}");
        copies_everything(&|run| run.without_kernel_aio(error), &ways, &what);
    }
}

/// Keeps the program from creating threads.
fn without_threads(run: TestRun) -> TestRun {
    // A filter can't read `clone3`'s flags, which are in memory. Without it, libc falls back
    // to `clone`.
    let thread = u32::try_from(libc::CLONE_THREAD).unwrap();
    run.refusing(&[libc::SYS_clone3], libc::ENOSYS).refusing_bits(libc::SYS_clone, 0, thread, libc::EAGAIN)
}

/// The C library can't create threads; requests that it rejects are done synchronously.
#[test]
fn posix_aio_does_without_threads() {
    let ways = ["--ops=single", "--ops=multi", "--ops=batch"]
        .map(|ops| vec!["--engine=posix-aio", ops, "-j1", "--block-size=16K", "--reflink=never"]);
    copies_everything(&without_threads, &ways, "no threads");
}

/// Like a limit on processes or memory: nothing waits for the workers that couldn't start.
#[test]
fn without_threads_the_first_worker_does_everything() {
    let ways: Vec<_> = all_ways().into_iter().map(|way| [way, vec!["-j8"]].concat()).collect();
    copies_everything(&without_threads, &ways, "no workers");
    let sandbox = Sandbox::in_memory().unwrap();
    let ours = program!();
    require!(ours.needs_haul());
    small_files().build(&sandbox.join("source")).unwrap();
    let run = ours.run().args(["-r", "-j8", "--debug", "source", "target"]).in_folder(sandbox.path());
    let outcome = without_threads(run).finish().unwrap();
    assert!(outcome.succeeded(), "{:?} {}", outcome.ending, outcome.errors());
    assert!(outcome.errors().contains("worker 1 could not be started"), "{}", outcome.errors());
}

#[test]
fn optional_calls_refused_change_nothing() {
    // By number where libc has no name yet: openat2, fchmodat2, setxattrat to removexattrat.
    let newer: [i64; 6] = [437, 452, 463, 464, 465, 466];
    for error in [libc::EPERM, libc::ENOSYS] {
        let refuse = |run: TestRun| run.refusing(&newer, error);
        copies_everything(&refuse, &all_ways(), &format!("newer calls refused with {error}"));
        let refuse = |run: TestRun| run.refusing(&[libc::SYS_copy_file_range, libc::SYS_close_range], error);
        copies_everything(&refuse, &all_ways(), &format!("copy_file_range refused with {error}"));
        let refuse = |run: TestRun| run.refusing(&[libc::SYS_preadv2, libc::SYS_pwritev2], error);
        copies_everything(&refuse, &all_ways(), &format!("preadv2 refused with {error}"));
        // Sandboxes older than the call refuse it like this.
        let refuse = |run: TestRun| run.refusing(&[libc::SYS_statx], error);
        copies_everything(&refuse, &all_ways(), &format!("statx refused with {error}"));
    }
    let advice = [libc::SYS_fallocate, libc::SYS_fadvise64, libc::SYS_ioctl];
    copies_everything(&|run| run.refusing(&advice, libc::EOPNOTSUPP), &all_ways(), "advice refused");
}

#[test]
fn linux_4_18_is_enough() {
    // All system calls since then have the numbers from `pidfd_send_signal` (5.1) on.
    let since: Vec<i64> = (libc::SYS_pidfd_send_signal..500).collect();
    let refuse = |run: TestRun| run.refusing(&since, libc::ENOSYS);
    copies_everything(&refuse, &without("--engine=io-uring", all_ways()), "calls since Linux 4.18 refused");
}

#[test]
fn what_switches_ask_for_is_refused_and_changes_nothing() {
    let reserve = |run: TestRun| run.refusing(&[libc::SYS_fallocate], libc::EOPNOTSUPP);
    copies_everything_on_disk(&reserve, &switched(&["--fallocate"]), "fallocate refused");
    for error in [libc::EPERM, libc::ENOSYS] {
        for (calls, what) in [
            (&[CACHESTAT][..], "cachestat"),
            (&[libc::SYS_sync_file_range, libc::SYS_fadvise64], "sync_file_range"),
            (&[libc::SYS_preadv2, libc::SYS_pwritev2], "preadv2"),
        ] {
            let what = format!("{what} refused with {error}");
            copies_everything_on_disk(&|run| run.refusing(calls, error), &switched(&["--drop-cache"]), &what);
        }
    }
}

#[test]
fn the_way_past_the_page_cache_refused_changes_nothing() {
    // Filters on the flags of `fcntl` and the mask of `statx`, each in its own argument.
    let direct = u32::try_from(libc::O_DIRECT).unwrap();
    let alignment = libc::STATX_DIOALIGN;
    let conditions: [(Condition<'_>, &str); 4] = [
        (&|run| run.refusing_bits(libc::SYS_fcntl, 2, direct, libc::EINVAL), "O_DIRECT"),
        (&|run| run.refusing_bits(libc::SYS_statx, 3, alignment, libc::EINVAL), "STATX_DIOALIGN"),
        (&|run| run.refusing(&[libc::SYS_preadv2, libc::SYS_pwritev2], libc::ENOSYS), "preadv2"),
        (&|run| run, "nothing"),
    ];
    for (condition, what) in conditions {
        copies_everything_on_disk(condition, &switched(&["--direct"]), &format!("{what} refused"));
    }
}

/// Small files, enough of them for haul to want a ring when none is cached.
fn small_files() -> Spec {
    Spec {
        nodes: (0..200)
            .map(|index| EntrySpec::file(0, format!("file-{index}"), index, 100 * index + 1))
            .collect(),
    }
}

/// A refused engine is an error before anything is touched, if requested by name.
#[test]
fn an_engine_asked_for_by_name_is_not_replaced() {
    require!(needs::root());
    let sandbox = Sandbox::in_memory().unwrap();
    let ours = program!();
    require!(ours.needs_haul());
    let [source, older, target] = ["source", "older", "target"].map(|name| sandbox.join(name));
    small_files().build(&source).unwrap();
    Spec { nodes: vec![EntrySpec::file(0, "file-7", 99, 5000), EntrySpec::file(0, "own", 98, 100)] }
        .build(&older)
        .unwrap();
    let submit = [libc::SYS_io_submit];
    let conditions: [(&str, &str, Condition<'_>); 9] = [
        ("io-uring", "EPERM", &|run| run.without_io_uring(libc::EPERM)),
        ("io-uring", "ENOSYS", &|run| run.without_io_uring(libc::ENOSYS)),
        ("io-uring", "ENOMEM", &|run| run.refusing(&[libc::SYS_io_uring_setup], libc::ENOMEM)),
        ("kernel-aio", "EPERM", &|run| run.without_kernel_aio(libc::EPERM)),
        ("kernel-aio", "ENOSYS", &|run| run.without_kernel_aio(libc::ENOSYS)),
        ("kernel-aio", "EAGAIN: fs.aio-max-nr", &|run| run.refusing(&[libc::SYS_io_setup], libc::EAGAIN)),
        ("kernel-aio", "EPERM on use", &|run| run.refusing(&submit, libc::EPERM)),
        ("kernel-aio", "ENOSYS on use", &|run| run.refusing(&submit, libc::ENOSYS)),
        ("kernel-aio", "no eventfd", &|run| run.refusing(&[libc::SYS_eventfd2], libc::EMFILE)),
    ];
    for (engine, what, condition) in conditions {
        let forced = format!("--engine={engine}");
        for way in matrix().into_iter().filter(|way| way[0] == forced) {
            for onto_older in [false, true] {
                remove_tree(&target);
                if onto_older {
                    let copied = ours.run().args(["-a", "-T"]).args([&older, &target]).finish().unwrap();
                    assert!(copied.succeeded());
                }
                let run = ours.run_with(&way).args(["-r", "-T"]).args([&source, &target]);
                let outcome = condition(run).finish().unwrap();
                let verdict = judge_refusal(&outcome, engine, || match onto_older {
                    false if target.exists() => Err("the target was made".to_owned()),
                    false => Ok(haul_testkit::Differences::default()),
                    true => {
                        compare_paths(&older, &target, Facts::PRESERVED).map_err(|error| error.to_string())
                    }
                });
                let said = outcome.errors();
                assert_eq!(
                    verdict,
                    Some(Ok(CopyVerdict::Reported)),
                    "{what} {way:?}: {:?} {said}",
                    outcome.ending
                );
                assert!(said.contains(&format!("'{engine}'")), "{what} {way:?}: {said}");
            }
        }
    }
}

/// Copies cold data as the user nobody with haul's choice of engine, and returns the
/// `--debug` output.
fn copy_cold(sandbox: &Sandbox, condition: Condition<'_>) -> String {
    let (source, target) = (sandbox.join("source"), sandbox.join("target"));
    cold::make(&source).unwrap();
    remove_tree(&target);
    fs::create_dir(&target).unwrap();
    fs::set_permissions(&target, PermissionsExt::from_mode(0o777)).unwrap();
    let ours = haul_testkit::CopyProgram::at(&sandbox.join("haul"));
    let run = ours.run_with(&["--debug", "-j1"]).args(["-r", "-T"]).args([&source, &target]);
    let outcome = condition(run.as_nobody()).finish().unwrap();
    assert_eq!(outcome.ending, RunEnding::Exited(0), "{}", outcome.errors());
    let differences = compare_paths(&source, &target, Facts::CONTENT).unwrap();
    assert!(differences.is_empty(), "{differences}");
    format!("{}{}", outcome.printed(), outcome.errors())
}

/// Left to choose, haul wants a ring for small files on a disk. If refused, it goes on without one
/// and reports why.
#[test]
fn a_ring_that_haul_would_choose_is_refused() {
    require!(needs::loop_mount("ext4"), needs::io_uring());
    let ours = program!();
    require!(ours.needs_haul());
    let disk = Mount::image("ext4", 1 << 30).unwrap();
    let sandbox = Sandbox::below(disk.path()).unwrap();
    // Lets nobody reach the directory below the disk's root.
    fs::set_permissions(disk.path(), PermissionsExt::from_mode(0o755)).unwrap();
    ours.publish(sandbox.path()).unwrap();
    small_files().build(&sandbox.join("source")).unwrap();
    let allowed = copy_cold(&sandbox, &|run| run);
    if !allowed.contains("the data is not cached") {
        haul_testkit::skip!("needs a kernel that drops pages from its cache when advised to");
    }
    assert!(allowed.contains("switches to io-uring"), "{allowed}");
    let refusals: [(&str, Condition<'_>); 4] = [
        ("EPERM", &|run| run.without_io_uring(libc::EPERM)),
        ("ENOSYS", &|run| run.without_io_uring(libc::ENOSYS)),
        ("ENOMEM", &|run| run.refusing(&[libc::SYS_io_uring_setup], libc::ENOMEM)),
        ("memlock 0", &|run| run.locked_memory(0)),
    ];
    for (what, refuse) in refusals {
        let said = copy_cold(&sandbox, refuse);
        let line = said.lines().find(|line| line.contains("the data is not cached"));
        let line = line.unwrap_or_else(|| panic!("{what}: no line about the engine:\n{said}"));
        // Newer kernels don't count a ring as locked memory.
        let says_why = line.contains("refused") && line.contains("sync");
        assert!(says_why || what == "memlock 0", "{what}: {line}");
        note!("a ring refused by {what}: {line}");
    }
}

/// A run creates its engines one by one; one that is refused after the first is replaced.
#[test]
fn every_engine_can_be_refused_its_memory() {
    require!(needs::root());
    let sandbox = Sandbox::in_memory().unwrap();
    let (source, target) = (sandbox.join("source"), sandbox.join("target"));
    small_files().build(&source).unwrap();
    fs::set_permissions(sandbox.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let ours = program!().publish(sandbox.path()).unwrap();
    for engine in ENGINES {
        remove_tree(&target);
        let run = ours.run_with(&[engine, "-j4"]).args(["-r", "-T"]).args([&source, &target]);
        let outcome = run.locked_memory(0).as_nobody().finish().unwrap();
        let name = engine.trim_start_matches("--engine=");
        let untouched = || if target.exists() { Err("touched".to_owned()) } else { Ok(Default::default()) };
        match judge_refusal(&outcome, name, untouched) {
            Some(verdict) => assert_eq!(verdict, Ok(CopyVerdict::Reported), "{engine}"),
            None => {
                assert!(outcome.succeeded(), "{engine}: {:?} {}", outcome.ending, outcome.errors());
                assert!(
                    compare_paths(Path::new(&source), &target, Facts::CONTENT).unwrap().is_empty(),
                    "{engine}"
                );
            }
        }
    }
}

/// A clone that fails because the disk is full or broken is an error, as in GNU cp since 9.2, and
/// is not retried with another method. A filesystem without clones, or a sandbox that forbids them,
/// only means a fallback.
#[test]
fn a_clone_that_meets_a_full_disk_is_an_error() {
    let ours = program!();
    require!(ours.needs_haul(), needs::tool("strace"));
    for (error, number, ends_well) in [
        ("ENOSPC", libc::ENOSPC, false),
        ("EIO", libc::EIO, false),
        ("EDQUOT", libc::EDQUOT, false),
        ("ENOMEM", libc::ENOMEM, false),
        ("EOPNOTSUPP", libc::EOPNOTSUPP, true),
        ("EPERM", libc::EPERM, true),
        ("EINVAL", libc::EINVAL, true),
    ] {
        let sandbox = Sandbox::in_memory().unwrap();
        fs::write(sandbox.join("a"), "data").unwrap();
        let strace = needs::find_tool("strace").unwrap();
        let inject = format!("inject=ioctl:error={error}");
        let options = ["-f", "-qq", "-o", "log", "-e", "trace=ioctl", "-e", &inject, "--"];
        let run = ours
            .run()
            .args(["a", "b"])
            .in_folder(sandbox.path())
            .behind(&strace, options.map(Into::into).into());
        let outcome = run.finish().unwrap();
        let log = fs::read_to_string(sandbox.join("log")).unwrap();
        assert!(log.contains("FICLONE") && log.contains("INJECTED"), "{error}: no clone was tried:\n{log}");
        if ends_well {
            assert!(outcome.succeeded(), "{error}: {}", outcome.errors());
            assert_eq!(fs::read(sandbox.join("b")).unwrap(), b"data", "{error}");
        } else {
            let words = std::io::Error::from_raw_os_error(number).to_string();
            let words = words.split(" (").next().unwrap();
            let expected = format!("failed to clone 'b' from 'a': {words}");
            assert_eq!(outcome.ending, RunEnding::Exited(1), "{error}");
            assert!(outcome.errors().contains(&expected), "{error}: {}", outcome.errors());
            assert!(!sandbox.join("b").exists(), "{error}");
        }
    }
}
