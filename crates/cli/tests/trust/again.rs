//! A copy that is killed at one of its system calls: whatever it has made by then, the same command
//! completes it, as if it had never been interrupted.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use haul_testkit::change::change_quietly;
use haul_testkit::{CopyProgram, Facts, Sandbox, TestRun, compare, libc, needs, program, require};

use super::TEMPORARY;

/// Calls that create an entry, give it something, or name it, and those that come between.
const CALLS: &[&str] = &[
    "openat",
    "write",
    "mkdirat",
    "mknodat",
    "symlinkat",
    "linkat",
    "fchownat",
    "fchmod",
    "fchmodat",
    "utimensat",
    "syncfs",
    "renameat2",
    "unlinkat",
];

/// One entry of each kind, with attributes that no new entry has; a file with several names, and
/// some that nobody may write to.
const SOURCE: &str = "
    umask 022; mkdir -p s/folder/closed; cd s
    for name in a b folder/c folder/closed/d; do head -c 5000 /dev/urandom >$name; done
    ln a folder/linked; ln a linked; chmod 444 b folder/closed/d
    mkfifo folder/fifo fifo; chmod 666 folder/fifo fifo; ln -s a link; ln -s nowhere folder/link
    if [ $(id -u) = 0 ]; then chown -h 5:6 b fifo link folder/fifo folder/link; fi
    touch -h -d 2001-01-01 a b folder/* folder/closed/d fifo link; chmod 555 folder/closed
    touch -d 2001-01-01 folder/closed folder .; sleep 0.1";

/// True if a run was killed at the `number`th of its calls of this name.
fn is_killed(run: TestRun, (call, number): (&str, usize)) -> bool {
    let strace = needs::find_tool("strace").unwrap();
    let (trace, inject) = (format!("trace={call}"), format!("inject={call}:signal=KILL:when={number}"));
    let options = ["-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject, "--"];
    let outcome = run.behind(&strace, options.map(Into::into).into()).finish().unwrap();
    assert!(outcome.succeeded() || outcome.crashed() || outcome.status() == Some(128 + libc::SIGKILL));
    !outcome.succeeded()
}

/// Returns the run of a command as root or, if that is possible, as an ordinary user.
fn copy(ours: &CopyProgram, sandbox: &Sandbox, options: &[&str], is_ordinary: bool) -> TestRun {
    let run = ours.run().args(["-j1", "-T", "--resume"]).args(options).args(["s", "t"]);
    let run = run.in_folder(sandbox.path()).umask(0);
    if is_ordinary && needs::root().is_none() { run.as_nobody() } else { run }
}

fn needs_birth_times() -> Option<String> {
    let sandbox = Sandbox::in_memory().unwrap();
    let has_none = fs::metadata(sandbox.path()).unwrap().created().is_err();
    has_none.then(|| "a file system with birth times is needed".to_owned())
}

/// Builds the source, and in every other case a target that was there before.
fn build(is_ordinary: bool, has_target: bool) -> Sandbox {
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script(SOURCE).unwrap();
    if has_target {
        sandbox.script("mkdir t").unwrap();
    }
    if is_ordinary && needs::root().is_none() {
        sandbox.script("chown -hR 65534:65534 . ; chmod 777 .").unwrap();
    }
    sandbox
}

/// True if a journal is left, beside the target or in it.
fn has_journal(sandbox: &Sandbox) -> bool {
    let is_journal = |name: std::ffi::OsString| name.to_string_lossy().starts_with(".haul-resume-");
    let listed = [".", "t"].map(|folder| fs::read_dir(sandbox.join(folder)));
    listed.into_iter().flatten().flatten().flatten().any(|entry| is_journal(entry.file_name()))
}

/// What the copy of a tree must have in the end.
fn assert_complete(sandbox: &Sandbox, facts: Facts, what: &str) {
    // Other tests look for those.
    sandbox.script(&format!("find t -name '{TEMPORARY}*' ! -type d -delete")).unwrap();
    let differences = compare::compare_paths(&sandbox.join("s"), &sandbox.join("t"), facts).unwrap();
    assert!(differences.is_empty(), "{what}: {differences}");
}

/// What a copy with `-a` preserves. Not the times of directories that leftovers are removed from.
const PRESERVED: Facts = Facts::PRESERVED.difference(Facts::DIRECTORY_MODIFIED);

/// Kills a copy at each of its calls, at the first ones of a kind if the run isn't a full one.
fn kill_everywhere(options: &[&str], is_ordinary: bool, facts: Facts) {
    // In a place that anybody may run it from.
    let place = Sandbox::in_memory().unwrap();
    let ours = program!().publish(place.path()).unwrap();
    let numbers_max = if needs::is_full_run() { 1000 } else { 4 };
    let mut killed = 0;
    for call in CALLS {
        for number in 1..=numbers_max {
            let sandbox = build(is_ordinary, (number + call.len()) % 2 == 0);
            let run = || copy(&ours, &sandbox, options, is_ordinary);
            if !is_killed(run(), (call, number)) {
                break;
            }
            // The journal is removed last: the same command is a new one then.
            if !has_journal(&sandbox) && sandbox.join("t/folder").exists() {
                continue;
            }
            killed += 1;
            let what = format!("{options:?}, killed at {call} {number}");
            let outcome = run().finish().unwrap();
            assert!(outcome.succeeded() && outcome.errors().is_empty(), "{what}: {}", outcome.errors());
            assert_complete(&sandbox, facts, &what);
        }
    }
    assert!(killed >= 10, "{options:?}: {killed} copies were killed");
}

#[test]
fn what_a_killed_copy_made_is_not_left_alone_as_if_it_had_been_there() {
    let ours = program!();
    require!(ours.needs_haul(), needs::tool("strace"), needs_birth_times());
    for options in [&["-an"][..], &["-au"], &["-a", "--update=none-fail"], &["-an", "--verify=stream"]] {
        kill_everywhere(options, false, PRESERVED);
    }
}

#[test]
fn what_a_killed_copy_made_can_be_replaced_by_an_ordinary_user() {
    let ours = program!();
    require!(ours.needs_haul(), needs::tool("strace"), needs_birth_times());
    for options in
        [&["-a"][..], &["-a", "--no-atomic"], &["-af", "--atomic"], &["-a", "--remove-destination"]]
    {
        kill_everywhere(options, true, PRESERVED);
    }
    kill_everywhere(&["-r"], true, Facts::CONTENT | Facts::MODE);
}

/// The content of files that have their names is not believed before it is verified.
#[test]
fn a_file_that_was_named_and_not_verified_is_copied_again() {
    let ours = program!();
    require!(ours.needs_haul(), needs::tool("strace"), needs_birth_times());
    let mut changed = 0;
    for option in ["-an", "-au"] {
        for number in 2..8 {
            let sandbox = build(false, number % 2 == 0);
            let run = || copy(&ours, &sandbox, &[option, "--verify=stream"], false);
            assert!(is_killed(run(), ("renameat2", number)));
            for name in ["a", "linked", "folder/c", "folder/linked"] {
                let path = sandbox.join("t").join(name);
                changed += usize::from(path.exists() && change_quietly(&path).is_ok());
            }
            run().succeed().unwrap();
            assert_complete(&sandbox, PRESERVED, option);
        }
    }
    assert!(changed > 0, "no copy was killed when a file was named");
}

/// In a directory that a killed copy made, what others have written since is theirs.
#[test]
fn what_others_wrote_after_the_kill_is_left_alone() {
    let ours = program!();
    require!(ours.needs_haul(), needs::tool("strace"), needs_birth_times());
    let (mut changed, mut added) = (0, 0);
    for option in ["-an", "-au"] {
        for number in 1..20 {
            let sandbox = build(false, false);
            let run = || copy(&ours, &sandbox, &[option], false);
            if !is_killed(run(), ("renameat2", number)) {
                break;
            }
            let path = sandbox.join("t/folder/c");
            let content = fs::read(&path).ok();
            let there = if content.is_some() { &mut changed } else { &mut added };
            *there += 1;
            fs::create_dir_all(sandbox.join("t/folder")).unwrap();
            fs::write(&path, [content.as_deref().unwrap_or_default(), b"mine"].concat()).unwrap();
            run().succeed().unwrap();
            assert!(fs::read(&path).unwrap().ends_with(b"mine"), "{option}, killed at {number}");
        }
    }
    assert!(changed > 0 && added > 0, "{changed} changed, {added} added");
}

/// A copy that ends with an error records what it has completed. Others may change that later.
#[test]
fn what_a_failed_copy_completed_is_like_any_other_entry() {
    let ours = program!();
    require!(ours.needs_haul(), needs::tool("setfacl"), needs_birth_times());
    let script = "mkdir -p s/sub s/bad t; echo 1 >s/sub/changed; echo x >s/sub/private; ln -s 1 s/sub/link
        echo x >t/bad; sleep 0.1";
    for option in ["-rn", "-ru", "-r", "-a", "-r --no-atomic"] {
        let sandbox = Sandbox::in_memory().unwrap();
        sandbox.script(script).unwrap();
        let copy = || {
            let run = ours.run().args(option.split(' ')).args(["--journal=journal", "-T", "s", "t"]);
            let outcome = run.in_folder(sandbox.path()).finish().unwrap();
            let errors = outcome.errors();
            assert!(errors.contains("'t/bad'") && errors.lines().count() == 1, "{option}: {errors}");
        };
        copy();
        let change = "chmod 600 t/sub/private; setfacl -m u:7:r t/sub/private; ln t/sub/private t/kept
            echo 2 >s/sub/changed; ln -sfn 2 s/sub/link; touch -h -d 2001-01-01 s/sub/changed s/sub/link";
        sandbox.script(change).unwrap();
        let look = || {
            let found = fs::symlink_metadata(sandbox.join("t/sub/private")).unwrap();
            (found.ino(), found.nlink(), found.mode() & 0o7777)
        };
        let before = look();
        copy();
        let replaces = !matches!(option, "-rn" | "-ru");
        let content = fs::read_to_string(sandbox.join("t/sub/changed")).unwrap();
        let link = fs::read_link(sandbox.join("t/sub/link")).unwrap();
        assert_eq!(
            (content.trim(), link.to_str()),
            if replaces { ("2", Some("2")) } else { ("1", Some("1")) }
        );
        // With -a it gets the mode of its source, and other names are cut off, as by GNU cp.
        if option != "-a" {
            assert_eq!(look(), before, "{option}");
        }
    }
}

/// A journal that records nothing new still says that the target directory is the copy itself.
#[test]
fn a_copy_that_fails_again_and_again_stays_at_its_place() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root());
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script("mkdir s; echo content >s/f; chmod 0 s/f; chown -R 65534 s; chmod 777 .").unwrap();
    let ours = ours.publish(sandbox.path()).unwrap();
    let run = || ours.run().args(["-r", "--resume", "s", "t"]).in_folder(sandbox.path()).as_nobody();
    for attempt in 1..=3 {
        assert_eq!(run().finish().unwrap().status(), Some(1), "{attempt}");
    }
    sandbox.script("chmod 644 s/f").unwrap();
    run().succeed().unwrap();
    assert_complete(&sandbox, Facts::CONTENT | Facts::MODE, "at last");
    assert!(!has_journal(&sandbox));
}

/// A link needs no stamp: it leads to its source, or it doesn't.
#[test]
fn links_that_a_killed_copy_made_are_not_in_the_way() {
    const ENTRIES: usize = 9;
    let ours = program!();
    require!(ours.needs_haul(), needs::tool("strace"), needs_birth_times());
    let modes = [&["-rs"][..], &["-rsp"], &["-as"], &["-rl"], &["-rs", "--update=none-fail"], &["-rln"]];
    for (options, journal) in modes.iter().flat_map(|mode| ["--resume", "--journal=j"].map(|j| (mode, j))) {
        let sandbox = Sandbox::in_memory().unwrap();
        let script = format!("mkdir s; touch -d 2001-01-01 s/{{1..{ENTRIES}}}");
        sandbox.script(&script).unwrap();
        let run = || {
            let run = ours.run().args(*options).args([journal, "-j1", "-T"]);
            run.arg(sandbox.join("s")).arg("t").in_folder(sandbox.path())
        };
        let call = if options[0].contains('l') { "linkat" } else { "symlinkat" };
        assert!(is_killed(run(), (call, 5)), "{options:?}");
        let outcome = run().finish().unwrap();
        assert!(outcome.succeeded() && outcome.errors().is_empty(), "{options:?}: {}", outcome.errors());
        assert_eq!(fs::read_dir(sandbox.join("t")).unwrap().count(), ENTRIES, "{options:?}");
        if journal == "--resume" {
            assert!(!has_journal(&sandbox), "{options:?}");
        } else {
            let printed = run().succeed().unwrap().printed();
            assert!(printed.contains("nothing to copy: all 9 entries"), "{options:?}: {printed}");
        }
    }
}

/// A copy whose journal can't be begun, or only a part of its first record, leaves no file that was
/// not there, and none that the next run refuses.
#[test]
fn a_journal_that_cannot_be_begun_leaves_nothing() {
    let ours = program!();
    require!(ours.needs_haul(), needs::tool("prlimit"));
    for (options, before) in [("--resume", ""), ("--journal=t/J", ""), ("--journal=t/J", "J")] {
        for bytes in [0, 10] {
            let sandbox = Sandbox::in_memory().unwrap();
            sandbox.script("mkdir s t; echo x >s/f; touch -d 2001-01-01 t").unwrap();
            if !before.is_empty() {
                fs::write(sandbox.join("t").join(before), "").unwrap();
            }
            let times = || fs::metadata(sandbox.join("t")).unwrap().modified().unwrap();
            let changed = times();
            let run = || ours.run().args(["-r", options, "s", "t"]).in_folder(sandbox.path());
            let limited = format!("trap '' XFSZ; exec prlimit --fsize={bytes} \"$@\"");
            let limited = ["-c", &limited, "sh"].map(OsString::from).to_vec();
            let outcome = run().behind(Path::new("/bin/sh"), limited).finish().unwrap();
            let what = format!("{options}, {before:?}, {bytes}: {}", outcome.errors());
            assert!(outcome.errors().contains("File too large"), "{what}");
            let left = fs::read_dir(sandbox.join("t")).unwrap().map(|entry| entry.unwrap());
            let left: Vec<_> =
                left.map(|entry| (entry.file_name(), entry.metadata().unwrap().len())).collect();
            let expected = (!before.is_empty()).then(|| (OsString::from(before), 0));
            assert_eq!(left, Vec::from_iter(expected), "{what}");
            assert!(times() == changed || options != "--resume", "{what}");
            run().succeed().unwrap();
        }
    }
}
