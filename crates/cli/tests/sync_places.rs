//! `haul sync` where a path, the environment or the kernel says less than usual about what SOURCE
//! and TARGET are: its safety checks work all the same, or it refuses to run. Also what an
//! interrupted sync leaves, and entries that vanish.

#![allow(clippy::unwrap_used, clippy::panic)]

mod sync_command;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use haul_testkit::strace::{TracedCall, record};
use haul_testkit::{RunOutcome, Sandbox, TestRun, libc, needs, program, require};

use sync_command::{fail, succeed};

/// Returns the files below a directory with their contents.
fn files(root: &Path) -> BTreeMap<PathBuf, String> {
    let entries = walkdir::WalkDir::new(root).into_iter().map(|entry| entry.unwrap().into_path());
    let files = entries.filter(|path| path.is_file());
    files.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// Runs a script in a mount namespace of its own.
fn with_mounts(haul: &Path, sandbox: &Sandbox, script: &str, condition: Condition) -> RunOutcome {
    let run = TestRun::new(Path::new("unshare")).args(["--mount", "sh", "-efc", script]);
    let run = run.env("HAUL", haul).env("LC_ALL", "C").env("HOME", sandbox.join("home"));
    condition(run).in_folder(sandbox.path()).finish().unwrap()
}

type Condition = fn(TestRun) -> TestRun;

#[test]
fn nothing_is_touched_if_the_trees_have_no_absolute_paths() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("setpriv"));
    let lines = [
        "@s @t",
        "--delete @s @t",
        "--delete --backup-dir=../bk @s @t",
        "--link-dest=../old @s @t",
        "--delete @s @new",
        // SOURCE is in TARGET, or around it.
        "--delete @s/sub @s",
        "@s/sub @s",
        "@s @s/new",
        // The home directory.
        "--delete @s @home",
    ];
    let places = [
        // As with `sudo -u` or `su`.
        ("below a directory that this user can't search", "chmod 700 ..", ""),
        ("in a deleted directory", "mkdir gone; cd gone; rmdir ../gone", "../"),
    ];
    for (place, script, up) in places {
        for line in lines {
            let sandbox = Sandbox::in_memory().unwrap();
            let scene = "mkdir -p p/w; cd p/w; mkdir -p s/sub t bk old home; echo new >s/f; echo 1 >s/sub/f
                echo OLD >t/f; echo GONE >t/g; touch -d 2001-1-1 t/f; cp -p s/f old/f; echo x >home/x";
            sandbox.script(&format!("{scene}; chown -R 65534:65534 .")).unwrap();
            let before = files(sandbox.path());
            let line = line.replace('@', up);
            let command = format!(
                "cd p/w; export HOME=$PWD/home; {script}
                exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$HAUL\" sync {line}"
            );
            let run = TestRun::new(Path::new("sh")).args(["-efc", &command]).env("HAUL", ours.path());
            let outcome = run.in_folder(sandbox.path()).finish().unwrap();
            let what = format!("{place}: {line}: {}", outcome.errors());
            assert_eq!(outcome.status(), Some(1), "{what}");
            assert!(outcome.errors().contains(": cannot determine its absolute path: "), "{what}");
            assert_eq!(files(sandbox.path()), before, "{what}");
        }
    }
}

/// `HOME` may be missing, or that of another user.
#[test]
fn the_home_directory_is_known_without_the_environment() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("unshare"));
    for environment in ["-u HOME", "HOME=/nowhere"] {
        let sandbox = Sandbox::in_memory().unwrap();
        sandbox.script("mkdir s home; echo 1 >s/f; echo x >home/x").unwrap();
        // A mount, so that a failing test shows a different message instead of doing any harm.
        let script =
            format!("mount --bind home ~root; exec env {environment} \"$HAUL\" sync -n --delete s ~root");
        let outcome = with_mounts(ours.path(), &sandbox, &script, |run| run);
        let is_refused =
            outcome.errors().ends_with("is your home directory: to delete there, add --really\n");
        assert!(is_refused && outcome.status() == Some(1), "{environment}: {}", outcome.errors());
    }
}

/// Without `statx`, or before Linux 5.8, the kernel doesn't say where mounts are. All are bind
/// mounts of the same file system, so device numbers don't say it either.
#[test]
fn mounts_are_known_without_statx() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("unshare"));
    let scene =
        "mkdir -p home s/both t/both t/extra/sub precious/x; echo 1 >precious/x/doc; echo 2 >precious/g
        echo a >s/a; echo b >s/both/f; echo c >t/c";
    let cases = [
        ("a directory of both", "t/both", "-x --delete s t"),
        ("the counterpart of SOURCE's root", "t", "--delete s t"),
        ("a directory that only TARGET has", "t/extra", "--delete s t"),
        ("a directory deeper in it", "t/extra/sub", "--delete s t"),
        ("the same, left out", "t/extra/sub", "-x --delete s t"),
    ];
    let conditions: [(&str, Condition); 3] = [
        ("nothing", |run| run),
        ("ENOSYS", |run| run.refusing(&[libc::SYS_statx], libc::ENOSYS)),
        ("EPERM", |run| run.refusing(&[libc::SYS_statx], libc::EPERM)),
    ];
    for (case, point, line) in cases {
        let mut expected = None;
        for (refused, condition) in conditions {
            for proc in ["", "umount -l /proc;"] {
                let sandbox = Sandbox::in_memory().unwrap();
                sandbox.script(scene).unwrap();
                let precious = files(&sandbox.join("precious"));
                let script = format!("mount --bind precious {point}; {proc} exec \"$HAUL\" sync {line}");
                let outcome = with_mounts(ours.path(), &sandbox, &script, condition);
                let what = format!("{case}, {refused} refused, {proc} {line}: {}", outcome.errors());
                let mut left = files(&sandbox.join("precious"));
                // Without -x the copy adds to a mount, which is no loss.
                left.retain(|path, _| precious.contains_key(path));
                assert_eq!(left, precious, "{what}");
                let below = sandbox.path().to_owned();
                let is_known = refused == "nothing" || proc.is_empty();
                if !is_known {
                    assert_eq!(outcome.status(), Some(1), "{what}");
                    continue;
                }
                let names = files(&sandbox.join("t")).into_keys();
                let names = names.map(|path| path.strip_prefix(&below).unwrap().to_owned());
                let result = (outcome.status(), outcome.errors(), names.collect::<Vec<_>>());
                assert_eq!(*expected.get_or_insert_with(|| result.clone()), result, "{what}");
            }
        }
    }
}

/// The names of a deep tree are removed from the bottom up, when few of its directories are open.
#[test]
fn a_deep_directory_is_deleted_without_opening_its_parents_from_the_top() {
    let ours = program!();
    require!(ours.needs_haul(), needs::tool("strace"));
    const LEVELS: usize = 300;
    let sandbox = Sandbox::in_memory().unwrap();
    let script = format!("mkdir s t; echo 1 >s/f; mkdir -p t/$(printf 'd/%.0s' $(seq {LEVELS}))");
    sandbox.script(&script).unwrap();
    let line = ["sync", "-j1", "--delete", "--really", "--max-delete=100%", "s", "t"];
    let run = TestRun::new(ours.path()).args(line).open_files(64).in_folder(sandbox.path());
    let (outcome, calls) = record(run, "openat,unlinkat", &sandbox.join("log")).unwrap();
    assert!(outcome.succeeded(), "{}", outcome.errors());
    let count = |name: &str| calls.iter().filter(|call| call.name == name).count();
    assert_eq!(count("unlinkat"), LEVELS);
    // Three passes: the survey, one that counts, and one that deletes.
    assert!(count("openat") < 10 * LEVELS, "{} openat", count("openat"));
}

/// In place, a part of a file has a newer time than its source, and the name of the whole.
#[test]
fn a_sync_in_place_that_failed_is_completed_by_the_next() {
    let ours = program!();
    require!(ours.needs_haul());
    let message = fail(&ours, Path::new("/"), "--inplace -u s t");
    assert!(message.contains("--inplace") && message.contains("--update"), "{message}");
    for options in ["--inplace", "--inplace --ignore-existing"] {
        let sandbox = Sandbox::in_memory().unwrap();
        sandbox.script("mkdir s t; head -c 3000000 /dev/urandom >s/new; touch -d @7 s/new").unwrap();
        let run = TestRun::new(ours.path()).arg("sync").args(options.split(' ')).args(["s", "t"]);
        let outcome = run.in_folder(sandbox.path()).file_bytes(1 << 20).finish().unwrap();
        assert!(!outcome.succeeded(), "{options}");
        succeed(&ours, sandbox.path(), &format!("{options} s t"));
        sandbox.script("cmp s/new t/new").unwrap();
    }
}

/// With `--ignore-existing` nobody would give it its owner later.
#[test]
fn what_a_sync_creates_has_its_attributes_before_its_name() {
    let ours = program!();
    require!(ours.needs_haul(), needs::tool("strace"));
    for (make, calls) in
        [("mkfifo s/new", "mknodat"), ("ln -s x s/new", "symlinkat"), ("echo x >s/new", "openat")]
    {
        for options in ["", "--inplace", "--inplace --ignore-existing"] {
            let sandbox = Sandbox::in_memory().unwrap();
            sandbox.script(&format!("mkdir s t; {make}")).unwrap();
            let line = ["sync", "-j1", "--engine=sync"].into_iter().chain(options.split_whitespace());
            let run = TestRun::new(ours.path()).args(line.chain(["s", "t"])).in_folder(sandbox.path());
            let (outcome, calls) = record(run, calls, &sandbox.join("log")).unwrap();
            assert!(outcome.succeeded(), "{make}, {options}: {}", outcome.errors());
            let has = |call: &TracedCall, text| call.arguments.iter().any(|argument| argument.contains(text));
            let creates = |call: &&TracedCall| call.name != "openat" || has(call, "O_CREAT");
            let named = calls.iter().filter(creates).find(|call| has(call, "\"new\""));
            assert!(named.is_none(), "{make}, {options}: {named:?}");
            assert!(sandbox.join("t/new").symlink_metadata().is_ok(), "{make}, {options}");
        }
    }
}

#[test]
fn a_link_that_vanishes_counts_as_vanished() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script("mkdir s; ln -s x s/link").unwrap();
    let run = TestRun::new(ours.path()).args(["sync", "--rsync-status", "s", "t"]);
    let run = run.in_folder(sandbox.path()).refusing(&[libc::SYS_readlinkat], libc::ENOENT);
    let outcome = run.finish().unwrap();
    assert_eq!(outcome.status(), Some(24), "{}", outcome.errors());
}

/// The kernel resolves what follows a symbolic link.
#[test]
fn the_directory_of_backups_may_be_behind_a_link() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script("mkdir -p p/real q s t; ln -s ../p/real q/link; echo new >s/f; echo older >t/f").unwrap();
    succeed(&ours, sandbox.path(), "--backup-dir=../q/link/../kept s t");
    sandbox.script("test \"$(cat p/kept/f)\" = older; test ! -e q/kept").unwrap();
}

/// TARGET doesn't exist yet, so the kernel can't go up from it.
#[test]
fn the_earlier_copy_is_found_from_a_target_that_is_missing() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script("mkdir s; echo x >s/f; cp -a s monday").unwrap();
    for (target, given) in [("a", "../monday"), ("b", "./../monday"), ("c", "./../././monday/.")] {
        succeed(&ours, sandbox.path(), &format!("--link-dest={given} s {target}"));
        sandbox.script(&format!("test monday/f -ef {target}/f")).unwrap();
    }
}

#[test]
fn a_link_that_rules_for_directories_leave_in_keeps_the_source_from_being_empty() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script("mkdir s t real; touch real/f t/old; ln -s ../real s/x").unwrap();
    succeed(&ours, sandbox.path(), "-L --delete --exclude=x/ s t");
    sandbox.script("test -e t/x/f; test ! -e t/old").unwrap();
}
