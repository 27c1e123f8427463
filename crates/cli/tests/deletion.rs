//! `haul sync --delete`: each test is a way in which others have deleted what nobody wanted to
//! lose.

#![allow(clippy::unwrap_used, clippy::panic)]

mod sync_command;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use haul_testkit::flip::Flipper;
use haul_testkit::mount::Mount;
use haul_testkit::random::{self, Rng, seeded};
use haul_testkit::strace::record;
use haul_testkit::{Facts, RunOutcome, Sandbox, Snapshot, TestRun, compare, needs, note, program, require};

use sync_command::{fail, paths, succeed, sync};

/// Returns the paths below a directory, sorted.
fn names(root: &Path) -> Vec<String> {
    let relative = |path: PathBuf| path.strip_prefix(root).unwrap().display().to_string();
    paths(root).into_iter().map(relative).collect()
}

fn sandbox(script: &str) -> Sandbox {
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script(script).unwrap();
    sandbox
}

fn assert_equal(one: &Path, other: &Path, what: &str) {
    let take = |path: &Path| Snapshot::take(path, Facts::PRESERVED).unwrap();
    let differences = compare(&take(one), &take(other), Facts::PRESERVED).unwrap();
    assert!(differences.is_empty(), "{what}: {differences}");
}

/// A source, and a target with something more of every kind.
const SCENE: &str = "
    mkdir -p s/a/b s/c; for n in 1 2 3; do echo $n >s/a/$n; echo $n >s/a/b/$n; echo $n >s/c/$n; done; ln -s 1 s/a/link
    cp -a s t; mkdir -p t/x/y/z t/a/more; echo x >t/x/f; echo y >t/x/y/z/f; ln -s ../../s t/x/link; mkfifo t/a/fifo
    echo e >t/extra; ln t/extra t/a/more/extra; rm -r s/c; echo file >s/c; touch -d @7 t t/a";

#[test]
fn the_target_has_what_the_source_has_and_nothing_else() {
    let ours = program!();
    require!(ours.needs_haul());
    for options in ["", "-j1 ", "--inplace ", "-c ", "--max-delete=100% "] {
        let sandbox = sandbox(SCENE);
        succeed(&ours, sandbox.path(), &format!("{options}--delete s t"));
        assert_equal(&sandbox.join("s"), &sandbox.join("t"), options);
    }
    // Without it nothing goes.
    let sandbox = sandbox(&format!("{SCENE}; rm s/c; mkdir s/c"));
    let before = names(&sandbox.join("t"));
    succeed(&ours, sandbox.path(), "s t");
    assert_eq!(names(&sandbox.join("t")), before);
}

#[test]
fn a_dry_run_says_what_the_run_then_deletes_and_changes_nothing() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("strace"));
    let lines = |text: String| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    for options in
        ["", "--exclude=more ", "--delete-excluded --exclude=1 ", "--exclude=[xy] ", "--max-delete=1 "]
    {
        let sandbox = sandbox(SCENE);
        let before = Snapshot::take(sandbox.path(), Facts::PRESERVED).unwrap();
        let words = format!("sync -n {options}--delete s t");
        let run = TestRun::new(ours.path()).args(words.split(' ')).in_folder(sandbox.path());
        let log = Sandbox::in_memory().unwrap();
        let (dry, calls) = record(run, "file,desc", &log.join("log")).unwrap();
        let after = Snapshot::take(sandbox.path(), Facts::PRESERVED).unwrap();
        let differences = compare(&before, &after, Facts::PRESERVED).unwrap();
        assert!(differences.is_empty(), "{options}: {differences}");
        let writes = ["unlink", "unlinkat", "rmdir", "rename", "renameat", "renameat2", "utimensat"];
        let write = calls.iter().find(|call| writes.contains(&call.name.as_str()));
        assert!(write.is_none(), "{options}: {write:?}");
        let real = sync(&ours, sandbox.path(), &format!("-v {options}--delete s t"));
        let shown = |run: &RunOutcome| (run.status(), lines(run.printed()), lines(run.errors()));
        if options == "--max-delete=1 " {
            // Only the deletion shows that it can't make way.
            assert_eq!((dry.status(), real.status()), (Some(1), Some(1)));
            continue;
        }
        assert_eq!(shown(&dry), shown(&real), "{options}");
        assert_eq!(succeed(&ours, sandbox.path(), &format!("-v {options}--delete s t")), "", "{options}");
    }
}

#[test]
fn after_any_error_nothing_is_deleted() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root());
    let sandbox = Sandbox::in_memory().unwrap();
    let ours = ours.publish(sandbox.path()).unwrap();
    fs::set_permissions(sandbox.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // Errors to provoke, and the messages.
    let nothing = "nothing was deleted from 't', because of the errors above\n";
    let cases = [
        ("chmod 0 s/a", format!("cannot access 's/a': Permission denied\n{nothing}")),
        ("chmod 0 s/a/1; rm t/a/1", format!("cannot open 's/a/1' for reading: Permission denied\n{nothing}")),
        (
            "touch of-root; rm s/a/1; echo new >s/a/new",
            format!(
                "cannot create regular file 't/a/new': Permission denied\n\
                preserving times for 't/a': Operation not permitted\n{nothing}"
            ),
        ),
        ("chmod 0 t/x", format!("cannot list directory 't/x': Permission denied\n{nothing}")),
        ("chmod 300 t/x/y", format!("cannot list directory 't/x/y': Permission denied\n{nothing}")),
    ];
    for (script, message) in cases {
        sandbox
            .script(&format!(
                "rm -rf f; mkdir f; cd f; {SCENE}; rm s/c; {script}; chown -R 65534:65534 .
                if [ -e of-root ]; then chown 0 t/a; fi"
            ))
            .unwrap();
        let before = names(&sandbox.join("f/t"));
        let run = TestRun::new(ours.path()).args(["sync", "--delete", "s", "t"]).env("LC_ALL", "C");
        let outcome = run.as_nobody().in_folder(&sandbox.join("f")).finish().unwrap();
        assert_eq!(outcome.status(), Some(1), "{script}");
        assert_eq!(outcome.errors().replace("haul sync: ", ""), message, "{script}");
        let after = names(&sandbox.join("f/t"));
        assert!(before.iter().all(|name| after.contains(name)), "{script}: {before:?} {after:?}");
    }
}

#[test]
fn what_is_left_out_is_protected() {
    let ours = program!();
    require!(ours.needs_haul());
    let scene = "mkdir -p s/a/b s/cache t/a/b t/a/old/keep t/cache; echo 1 >s/a/1; echo '*.log' >s/.gitignore
        printf 'Signature: 8a477f597d28d172789f06886806bc55' >s/cache/CACHEDIR.TAG
        echo 1 >t/a/1; for f in t/x.log t/a/x.log t/a/b/x t/a/old/x.log t/a/old/keep/y t/cache/old; do echo x >$f; done
        head -c 5000 /dev/zero >t/a/large; touch -d @1000 t/a/b/x";
    // The rules, and what stays beside what the source has.
    let all = [
        "a/b/x",
        "a/large",
        "a/old",
        "a/old/keep",
        "a/old/keep/y",
        "a/old/x.log",
        "a/x.log",
        "cache/old",
        "x.log",
    ];
    let cases: &[(&str, &[&str])] = &[
        ("", &[]),
        ("--exclude=*", &all),
        ("--exclude=*.log", &["a/old", "a/old/x.log", "a/x.log", "x.log"]),
        ("--exclude=/x.log", &["x.log"]),
        ("--exclude=/a/old/keep/y", &["a/old", "a/old/keep", "a/old/keep/y"]),
        ("--exclude=keep/", &["a/old", "a/old/keep", "a/old/keep/y"]),
        ("--exclude=old/", &["a/old", "a/old/keep", "a/old/keep/y", "a/old/x.log"]),
        ("--gitignore", &["a/old", "a/old/x.log", "a/x.log", "x.log"]),
        // The rules of the file hold although it isn't copied.
        ("--gitignore --exclude=.gitignore", &["a/old", "a/old/x.log", "a/x.log", "x.log"]),
        ("--exclude-caches", &["cache/old"]),
        (
            "--min-size=100",
            &["a/b/x", "a/old", "a/old/keep", "a/old/keep/y", "a/old/x.log", "a/x.log", "cache/old", "x.log"],
        ),
        ("--max-size=100", &["a/large"]),
        ("--newer-than=2000-01-01", &["a/b/x"]),
        ("--delete-excluded --exclude=*.log", &[]),
        ("--delete-excluded --gitignore", &[]),
    ];
    for (options, stay) in cases {
        let sandbox = sandbox(scene);
        let line = format!("{options} --delete s t");
        succeed(&ours, sandbox.path(), line.trim_start());
        let there = names(&sandbox.join("t"));
        let left: Vec<_> = all.iter().filter(|name| there.iter().any(|there| there == *name)).collect();
        assert_eq!(left, stay.iter().collect::<Vec<_>>(), "{options}");
    }
    // An excluded entry that both trees have is deleted only with --delete-excluded.
    let sandbox = sandbox("mkdir s; touch s/f s/g; cp -a s t");
    succeed(&ours, sandbox.path(), "--delete --exclude=g s t");
    assert_eq!(names(&sandbox.join("t")), ["f", "g"]);
    succeed(&ours, sandbox.path(), "--delete-excluded --exclude=g s t");
    assert_eq!(names(&sandbox.join("t")), ["f"]);
    assert_eq!(names(&sandbox.join("s")), ["f", "g"]);
}

#[test]
fn an_empty_or_missing_source_deletes_nothing() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = sandbox("mkdir s t full; touch t/precious full/.haul-x full/x");
    let empty = "'s' has nothing to copy, so nothing was deleted from 't' (--really overrides this)\n";
    let missing = "cannot stat 'missing': No such file or directory\n\
        nothing was deleted from 't', because of the errors above\n";
    for (line, message) in [
        ("--delete s t", empty),
        ("-n --delete s t", empty),
        ("--delete missing t", missing),
        ("--delete --really missing t", missing),
    ] {
        assert_eq!(fail(&ours, sandbox.path(), line), message, "{line}");
        assert_eq!(names(&sandbox.join("t")), ["precious"]);
    }
    let left_out = "'full' has nothing to copy, so nothing was deleted from 't' (--really overrides this)\n";
    assert_eq!(fail(&ours, sandbox.path(), "--delete-excluded --exclude=* full t"), left_out);
    succeed(&ours, sandbox.path(), "--delete s new");
    succeed(&ours, sandbox.path(), "--delete s new");
    succeed(&ours, sandbox.path(), "--delete --really s t");
    assert_eq!(names(&sandbox.join("t")), Vec::<String>::new());
}

#[test]
fn more_than_the_limit_is_not_deleted_in_part() {
    let ours = program!();
    require!(ours.needs_haul());
    let scene = "mkdir -p s/d t/d t/old/deep; for n in $(seq 12); do touch s/$n t/$n; done
        for n in $(seq 9); do touch t/old/$n; done; touch t/old/deep/x t/d/x";
    // 13 of 25 entries: old, deep, 10 files below them, and d/x; 12 files and d stay.
    let message =
        "nothing was deleted: it would be 13 of the 26 entries of 't' (--max-delete sets the limit)\n";
    for (limit, deletes) in
        [("", true), ("12", false), ("13", true), ("0", false), ("49%", false), ("50%", true), ("100%", true)]
    {
        let sandbox = sandbox(scene);
        let before = names(&sandbox.join("t"));
        let options = if limit.is_empty() { String::new() } else { format!("--max-delete={limit} ") };
        let line = format!("{options}--delete s t");
        if deletes {
            succeed(&ours, sandbox.path(), &line);
            assert_equal(&sandbox.join("s"), &sandbox.join("t"), limit);
        } else {
            assert_eq!(fail(&ours, sandbox.path(), &line), message, "{limit}");
            assert_eq!(names(&sandbox.join("t")), before, "{limit}");
        }
    }
    // Of more than 1,000, more than half by default. What the copy makes doesn't count.
    let sandbox = sandbox("mkdir s t; (cd s; seq 3000 | xargs touch); (cd t; seq 5001 6200 | xargs touch)");
    let message = fail(&ours, sandbox.path(), "--delete s t");
    assert!(message.contains("it would be 1200 of the 1200 entries"), "{message}");
    succeed(&ours, sandbox.path(), "--delete --max-delete=1200 s t");
    assert_equal(&sandbox.join("s"), &sandbox.join("t"), "many");
}

#[test]
fn bad_limits_and_useless_options_are_refused() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = sandbox("mkdir s t; touch s/f t/x; echo f >list");
    for line in [
        "--delete --max-delete=101% s t",
        "--delete --max-delete=-1 s t",
        "--delete --max-delete=many s t",
        "--delete --max-delete=% s t",
        "--max-delete=1 s t",
        "--really s t",
        "--delete --files-from=list s t",
        "--delete --backup s t",
    ] {
        let message = fail(&ours, sandbox.path(), line);
        assert!(message.ends_with("Try 'haul sync --help' for more information.\n"), "{line}: {message}");
        assert_eq!(names(&sandbox.join("t")), ["x"], "{line}");
    }
}

#[test]
fn roots_and_the_home_directory_ask_for_more() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root());
    let sandbox = sandbox("mkdir s home; touch s/f home/x; ln -s home link");
    let refused = |target: &str, what: &str| {
        let run = TestRun::new(ours.path()).args(["sync", "-n", "--delete", "s", target]).env("LC_ALL", "C");
        let outcome = run.env("HOME", sandbox.join("home")).in_folder(sandbox.path()).finish().unwrap();
        let message = format!("haul sync: '{target}' is {what}: to delete there, add --really\n");
        assert_eq!((outcome.status(), outcome.errors()), (Some(1), message));
    };
    // Every source is inside it.
    let nested = "'s' and '/' are one directory, or one is inside the other\n";
    assert_eq!(fail(&ours, sandbox.path(), "-n --delete s /"), nested);
    for home in ["home", "home/", "link", "./s/../home"] {
        refused(home, "your home directory");
    }
    let mount = Mount::memory(1 << 20).unwrap();
    fs::write(mount.join("x"), "x").unwrap();
    let target = mount.path().display().to_string();
    refused(&target, "the root of a mounted file system");
    succeed(&ours, sandbox.path(), &format!("--delete --really s {target}"));
    assert_eq!(names(mount.path()), ["f"]);
}

#[test]
fn nothing_is_deleted_on_another_file_system() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root());
    let sandbox = sandbox("mkdir -p s t/x/mnt t/y other; touch s/f t/g other/precious");
    let mount = |script: &str| sandbox.script(script).unwrap();
    for how in ["mount -t tmpfs none t/x/mnt; touch t/x/mnt/precious", "mount --bind other t/x/mnt"] {
        mount(how);
        let message = fail(&ours, sandbox.path(), "--delete s t");
        let kept = names(&sandbox.join("t"));
        // Rules can leave it out, and so can -x.
        mount("touch t/g");
        succeed(&ours, sandbox.path(), "--delete -x s t");
        let left = names(&sandbox.join("t"));
        mount("touch t/g");
        succeed(&ours, sandbox.path(), "--delete --exclude=mnt s t");
        assert_eq!(names(&sandbox.join("t")), left);
        mount("umount t/x/mnt; mkdir -p t/y; touch t/g");
        assert_eq!(
            message,
            "cannot remove 't/x/mnt', as it is on another file system or something is mounted there\nnothing was deleted from 't', because of the errors above\n"
        );
        assert_eq!(kept, ["f", "g", "x", "x/mnt", "x/mnt/precious", "y"]);
        assert_eq!(left, ["f", "x", "x/mnt", "x/mnt/precious"]);
    }
    // A directory that both have may be a mount, in which the same holds as anywhere, unless the
    // copy stays on one file system.
    for how in ["mount -t tmpfs none t/y; touch t/y/precious", "mount --bind other t/y"] {
        mount(&format!("mkdir -p s/y t/y; {how}"));
        succeed(&ours, sandbox.path(), "--delete -x s t");
        let kept = names(&sandbox.join("t/y"));
        mount("umount t/y; rm -r s/y t/y; mkdir -p t/x/mnt");
        assert_eq!(kept, ["precious"], "{how}");
    }
    mount("mkdir s/x; mount -t tmpfs none s/x; touch t/x/old; rm -r t/x/mnt");
    succeed(&ours, sandbox.path(), "--delete -x s t");
    let one = names(&sandbox.join("t"));
    succeed(&ours, sandbox.path(), "--delete s t");
    mount("umount s/x");
    assert_eq!(
        (one, names(&sandbox.join("t"))),
        (["f", "x", "x/old"].map(str::to_owned).to_vec(), ["f", "x"].map(str::to_owned).to_vec())
    );
}

#[test]
fn links_are_removed_and_never_followed() {
    let ours = program!();
    require!(ours.needs_haul());
    let scene =
        "mkdir -p s/d s/e outside/d; touch s/d/f outside/precious outside/d/precious; ln -s d s/l; cp -a s t
        ln -s ../outside t/link; ln -s ../../outside t/d/link; rm -r t/e; ln -s ../outside t/e";
    for options in ["", "-L "] {
        let sandbox = sandbox(scene);
        succeed(&ours, sandbox.path(), &format!("{options}--delete s t"));
        assert_eq!(names(&sandbox.join("outside")), ["d", "d/precious", "precious"]);
        let expected: &[&str] =
            if options.is_empty() { &["d", "d/f", "e", "l"] } else { &["d", "d/f", "e", "l", "l/f"] };
        assert_eq!(names(&sandbox.join("t")), expected, "{options}");
    }
}

#[test]
fn files_of_running_copies_and_own_output_stay() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox =
        sandbox("mkdir -p s t/logs; touch s/f t/logs/old t/.haul-0000000000000000-0000000000000000-1-1-1");
    let shell = format!("{} sync -v --delete s t >t/log 2>t/logs/errors", ours.path().display());
    sandbox.script(&shell).unwrap();
    let expected = [".haul-0000000000000000-0000000000000000-1-1-1", "f", "log", "logs", "logs/errors"];
    assert_eq!(names(&sandbox.join("t")), expected);
    assert_eq!(fs::read_to_string(sandbox.join("t/log")).unwrap().lines().count(), 2);
    sandbox.script("rm t/log t/logs/errors; rmdir t/logs").unwrap();
    // The socket is there as long as the command runs.
    assert_eq!(succeed(&ours, sandbox.path(), "-v --delete --control=t/socket s t"), "");
}

/// Result of a deletion while one of the directories was swapped with a link that leads outside.
struct Race {
    outcome: RunOutcome,
    swaps: u64,
    /// True if anything outside is gone.
    has_lost: bool,
    label: String,
}

/// Swapped directories: two that only the target has, and one that both trees have.
const SWAPPED: [&str; 3] = ["t/extra", "t/extra/sub", "t/both"];

/// Runs a command that deletes, in a race.
fn race(run: TestRun, swapped: &str) -> Race {
    let sandbox = sandbox(
        "mkdir -p s/both outside/sub; touch s/both/f; cp -a s t; mkdir -p t/extra/sub
        (cd t/extra; seq 40 | xargs touch); (cd t/extra/sub; seq 40 | xargs touch); (cd t/both; seq 40 | xargs touch)
        (cd outside; seq 40 | xargs touch); (cd outside/sub; seq 40 | xargs touch); touch outside/f
        ln -s $PWD/outside link",
    );
    let before = names(&sandbox.join("outside"));
    let flipper = Flipper::start(&sandbox.join(swapped), &sandbox.join("link")).unwrap();
    let outcome = run.in_folder(sandbox.path()).within(Duration::from_secs(10)).finish().unwrap();
    // It ends with an error if the directory goes.
    let swaps = flipper.stop().unwrap_or(2);
    let has_lost = names(&sandbox.join("outside")) != before;
    Race { swaps, has_lost, label: format!("{swapped}: {}", outcome.errors()), outcome }
}

#[test]
fn a_directory_swapped_for_a_link_is_never_entered() {
    let ours = program!();
    require!(ours.needs_haul());
    let runs = needs::count_from("HAUL_RACE_RUNS", if needs::is_full_run() { 1000 } else { 300 });
    let (mut swaps, mut removed) = (0, 0);
    for run in 0..runs {
        let jobs = ["-j1", "-j4"][run / 3 % 2];
        let sync = TestRun::new(ours.path()).args(["sync", jobs, "--delete", "s", "t"]);
        let race = race(sync, SWAPPED[run % 3]);
        swaps += race.swaps;
        removed += usize::from(race.outcome.succeeded());
        assert!(!race.outcome.crashed() && !race.has_lost, "{jobs}, {}", race.label);
    }
    note!("{runs} runs, {swaps} swaps, {removed} runs succeeded");
    assert!(swaps > 2 * runs as u64, "the race did not run");
}

/// Shows that the race above is one: what others lose in it is printed.
#[test]
fn others_in_the_same_race() {
    let runs = if needs::is_full_run() { 1000 } else { 30 };
    let others = [("rsync", "-a --delete s/ t/"), ("rm", "-rf t/extra t/both")];
    for (name, words) in others {
        require!(needs::tool(name));
        let run = |run: usize| race(TestRun::new(Path::new(name)).args(words.split(' ')), SWAPPED[run % 3]);
        let races: Vec<_> = (0..runs).map(run).collect();
        let lost = races.iter().filter(|race| race.has_lost).count();
        let swaps: u64 = races.iter().map(|race| race.swaps).sum();
        note!("{name} {words}: {runs} runs, {swaps} swaps, {lost} lost files outside");
    }
}

#[test]
fn killed_anywhere_and_run_again_the_trees_are_equal() {
    let ours = program!();
    require!(ours.needs_haul());
    let scene = "mkdir s t; for n in $(seq 200); do mkdir -p s/$n t/$n/old/x; echo $n >s/$n/f; echo y >t/$n/old/x/y; done
        cp s/1/f t/1/f; for n in $(seq 50); do rm -r t/$n; mkdir -p t/x$n/a; touch t/x$n/a/b; done
        for n in 101 102; do rm -r s/$n; echo file >s/$n; done";
    let kills = if needs::is_full_run() { 100 } else { 12 };
    let mut random = seeded(random::seed("kills", Some(8)));
    for _ in 0..kills {
        let sandbox = sandbox(scene);
        let mut sync = Command::new(ours.path());
        sync.args(["sync", "--delete", "--max-delete=100%", "s", "t"]).current_dir(sandbox.path());
        let mut child = sync.spawn().unwrap();
        std::thread::sleep(Duration::from_micros(random.random_range(0..40_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        succeed(&ours, sandbox.path(), "--delete --max-delete=100% s t");
        assert_equal(&sandbox.join("s"), &sandbox.join("t"), "killed");
    }
}

#[test]
fn the_target_may_be_in_the_source_and_the_other_way_round_is_refused() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = sandbox("mkdir -p s/d s/backup/old; touch s/d/f s/backup/old/x");
    succeed(&ours, sandbox.path(), "--delete --exclude=/backup s s/backup");
    assert_eq!(names(&sandbox.join("s")), ["backup", "backup/d", "backup/d/f", "d", "d/f"]);
    let message = fail(&ours, sandbox.path(), "--delete s/d s");
    assert_eq!(message, "'s/d' and 's' are one directory, or one is inside the other\n");
}

#[test]
fn a_source_that_is_mounted_in_the_target_stays() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root());
    for place in ["t/src", "t/a/src"] {
        let sandbox = sandbox(&format!("mkdir -p s {place}; echo data >s/f; touch t/extra"));
        sandbox.script(&format!("mount --bind s {place}")).unwrap();
        let message = fail(&ours, sandbox.path(), "--delete s t");
        sandbox.script(&format!("umount {place}")).unwrap();
        let expected = format!(
            "cannot remove '{place}', as it is part of SOURCE\nnothing was deleted from 't', because of the errors above\n"
        );
        assert_eq!(message, expected);
        assert!(sandbox.join("s/f").exists() && sandbox.join("t/extra").exists());
    }
}

#[test]
fn statistics_count_what_was_deleted() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = sandbox(SCENE);
    let deleted = names(&sandbox.join("t")).len() - names(&sandbox.join("s")).len() + 1;
    let shown = succeed(&ours, sandbox.path(), "--stats=json --delete s t");
    let statistics: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(statistics["deleted"].as_u64(), Some(deleted as u64), "{statistics}");
    assert_eq!(statistics["files"].as_u64(), Some(1), "{statistics}");
    let inode = |path: PathBuf| fs::symlink_metadata(path).unwrap().ino();
    assert_ne!(inode(sandbox.join("s/c")), inode(sandbox.join("t/c")));
}

/// A rule for a directory keeps it, although the source has a link of its name, which the rule
/// doesn't leave out.
#[test]
fn a_directory_that_rules_keep_makes_no_way() {
    let ours = program!();
    require!(ours.needs_haul());
    let script = "
        mkdir -p s t/modules/m; echo modules/ >s/.gitignore; ln -s elsewhere s/modules; echo made >t/modules/m/index";
    for options in ["--gitignore", "--exclude=modules/"] {
        let sandbox = sandbox(script);
        let errors = fail(&ours, sandbox.path(), &format!("--delete {options} s t"));
        assert!(errors.contains("t/modules"), "{options}: {errors}");
        assert!(sandbox.join("t/modules/m/index").exists(), "{options}");
        succeed(&ours, sandbox.path(), &format!("--delete --delete-excluded {options} s t"));
        assert!(sandbox.join("t/modules").is_symlink(), "{options}");
    }
}

#[test]
fn a_directory_makes_no_way_for_a_file_that_is_not_copied() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = sandbox("mkdir -p s t/d; head -c 5000 /dev/zero >big; ln -s ../big s/d; echo 1 >t/d/p");
    succeed(&ours, sandbox.path(), "-L --delete --max-size=1000 s t");
    assert!(sandbox.join("t/d/p").exists());
    succeed(&ours, sandbox.path(), "-L --delete --max-size=5000 s t");
    assert!(sandbox.join("t/d").is_file());
}

#[test]
fn what_waits_for_a_deletion_is_reported_once() {
    let ours = program!();
    require!(ours.needs_haul());
    let script = "
        mkdir -p s t/way; echo 1 >s/way; echo p >t/way/p; echo old >s/n; touch -d @1000 s/n; echo newer >t/n";
    let sandbox = sandbox(script);
    let outcome = sync(&ours, sandbox.path(), "-u --delete --log-file=s/log --stats=json s t");
    assert!(outcome.succeeded(), "{}", outcome.errors());
    assert_eq!(outcome.errors().lines().count(), 1, "{}", outcome.errors());
    let statistics: serde_json::Value = serde_json::from_str(&outcome.printed()).unwrap();
    assert_eq!(statistics["skipped"], 1, "{statistics}");
}

#[test]
fn only_what_waits_for_a_deletion_is_copied_after_it() {
    let ours = program!();
    require!(ours.needs_haul());
    // Without times, a file differs however often it is copied.
    let script = "mkdir -p s/d t/b t/d/e; echo newer >s/f; echo x >s/b; ln s/b s/d/name; echo y >s/d/e
        echo old >t/f; echo z >t/b/z; touch t/d/e/q";
    let sandbox = sandbox(script);
    let said =
        succeed(&ours, sandbox.path(), "-v --delete --backup-dir=../kept --no-preserve=timestamps s t");
    let mut copied: Vec<_> = said.lines().filter(|line| line.contains(" -> ")).collect();
    copied.sort_unstable();
    let each = ["b", "d/e", "d/name", "f"].map(|name| format!("'s/{name}' -> 't/{name}'"));
    assert_eq!(copied, each);
    assert_eq!(fs::read_to_string(sandbox.join("kept/f")).unwrap(), "old\n");
    assert_eq!(names(&sandbox.join("kept")), ["b", "b/z", "d", "d/e", "d/e/q", "f"]);
    let inode = |name: &str| fs::metadata(sandbox.join(name)).unwrap().ino();
    assert_eq!(inode("t/b"), inode("t/d/name"));
}
