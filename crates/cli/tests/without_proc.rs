//! A machine without `/proc`, as in a chroot: everything but what needs it works.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use haul_testkit::{Facts, RunOutcome, Sandbox, Snapshot, TestRun, compare, needs, program, require};

/// A tree with everything that has no form that can be opened.
const SCENE: &str = "
    mkdir -p s/d s/closed x t6; echo x >s/f; echo x >x/f; setfattr -n user.a -v b x/f; chmod 640 s/f; ln -s f s/link; ln s/f s/hard; mkfifo s/fifo
    setfattr -n user.c -v d s/d; chmod 0 s/closed; touch -h -d @1000 s/* s";

/// Runs a script where `/proc` is not mounted.
fn without_proc(haul: &Path, sandbox: &Sandbox, script: &str) -> RunOutcome {
    let script = format!("umount -l /proc && [ ! -e /proc/self ] || exit 99\n{script}");
    let run = TestRun::new(Path::new("unshare")).args(["--mount", "sh", "-c", &script]);
    run.env("HAUL", haul).env("LC_ALL", "C").in_folder(sandbox.path()).finish().unwrap()
}

#[test]
fn trees_are_copied_synced_and_compared_without_proc() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("unshare"), needs::tool("setfattr"));
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script(SCENE).unwrap();
    let lines = [
        "cp -a s t1",
        "cp -a --atomic --strict s t2",
        "cp -a x t4",
        "cp -a --parents x/f t6",
        "sync x t5",
        "sync x t5",
        "sync s t3",
        // Once more, when all of it is there.
        "sync --delete s t3",
        "sync --backup-dir=../kept s t3",
        "cmp s t1",
        "tar -cf s.tar s",
        "sum -o sums s/f",
    ];
    for line in lines {
        let outcome = without_proc(ours.path(), &sandbox, &format!("exec \"$HAUL\" {line}"));
        assert_eq!((outcome.errors().as_str(), outcome.status()), ("", Some(0)), "{line}");
    }
    let facts = Facts::PRESERVED.difference(Facts::HOLES);
    let take = |name: &str| Snapshot::take(&sandbox.join(name), facts).unwrap();
    for (source, target) in [("s", "t1"), ("s", "t2"), ("s", "t3"), ("x", "t4"), ("x", "t5"), ("x", "t6/x")] {
        let differences = compare(&take(source), &take(target), facts).unwrap();
        assert!(differences.is_empty(), "{target}: {differences}");
    }
}

#[test]
fn what_needs_proc_is_an_error_that_says_so() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("unshare"), needs::tool("setfattr"));
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script("mkdir s; ln -s f s/link; setfattr -h -n trusted.a -v b s/link").unwrap();
    let outcome = without_proc(ours.path(), &sandbox, "exec \"$HAUL\" cp -a s t");
    let message = "haul cp: listing attributes of 's/link': Bad file descriptor (/proc is not mounted)\n";
    let older = message.replace("Bad file descriptor", "No such file or directory");
    assert!([message, &older].contains(&&*outcome.errors()), "{}", outcome.errors());
    assert_eq!(outcome.status(), Some(1));
    // One failure has one message.
    sandbox.script("mkfifo s/fifo; cp -a s u; rm s/link u/link; setfattr -n trusted.a -v b u/fifo").unwrap();
    let outcome = without_proc(ours.path(), &sandbox, "exec \"$HAUL\" sync s u");
    let message = "haul sync: setting attributes for 'u/fifo': ";
    let errors = outcome.errors();
    assert!(errors.starts_with(message) && errors.lines().count() == 1, "{errors}");
}

/// As nohup(1) has it.
#[test]
fn ignored_signals_stay_ignored_without_proc() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("unshare"));
    let sandbox = Sandbox::in_memory().unwrap();
    let script = "mkfifo p; trap '' HUP; \"$HAUL\" cp --atomic --fsync p f & exec 3>p; echo x >&3; sleep 1; kill -HUP $!
        exec 3>&-; wait $!";
    let outcome = without_proc(ours.path(), &sandbox, script);
    assert_eq!((outcome.status(), outcome.errors().as_str()), (Some(0), ""));
    assert_eq!(std::fs::read(sandbox.join("f")).unwrap(), b"x\n");
}
