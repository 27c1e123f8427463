//! Files on which another process holds a lease, like Samba and `nfsd` for their clients.
//!
//! The holder releases the lease a moment after the break. Like GNU cp, every applet waits
//! for that.

#![allow(clippy::unwrap_used)]

use std::fs;

use haul_testkit::lease::{Holder, Lease, needs_leases};
use haul_testkit::program::ENGINES;
use haul_testkit::{CopyProgram, Sandbox, TestRun, needs, program, require};

/// Runs a command while a lease is held on `leased`, and asserts that it broke the lease
/// and succeeded.
fn succeeds(sandbox: &Sandbox, leased: &str, lease: Lease, run: TestRun) -> String {
    let holder = Holder::start(&sandbox.join(leased), lease).unwrap();
    let what = format!("{leased} {lease:?}: {run:?}");
    let outcome = run.in_folder(sandbox.path()).finish().unwrap();
    assert!(outcome.succeeded(), "{what}: {}", outcome.errors());
    assert!(holder.was_broken(), "nobody asked for the lease: {what}");
    outcome.printed()
}

/// Copies from a leased source in a tree, and to a leased target.
fn copies_once(run: &dyn Fn() -> TestRun) {
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script("mkdir -p s; echo one >s/f; echo two >s/g; echo old and longer >t").unwrap();
    succeeds(&sandbox, "s/g", Lease::Write, run().args(["-rT", "s", "new"]));
    assert_eq!(fs::read_to_string(sandbox.join("new/g")).unwrap(), "two\n");
    succeeds(&sandbox, "t", Lease::Read, run().args(["s/f", "t"]));
    assert_eq!(fs::read_to_string(sandbox.join("t")).unwrap(), "one\n");
}

/// Copies from leased sources and to leased targets, alone and in trees.
fn copies(run: &dyn Fn() -> TestRun) {
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script("mkdir -p s/d; echo one >s/d/f; echo two >s/d/g; cp -r s t").unwrap();
    let content = |name: &str| fs::read_to_string(sandbox.join(name)).unwrap();
    succeeds(&sandbox, "s/d/f", Lease::Write, run().args(["s/d/f", "alone"]));
    assert_eq!(content("alone"), "one\n");
    succeeds(&sandbox, "s/d/g", Lease::Write, run().args(["-rT", "s", "new"]));
    assert_eq!(content("new/d/g"), "two\n");
    for lease in [Lease::Read, Lease::Write] {
        fs::write(sandbox.join("t/d/f"), "old and longer").unwrap();
        succeeds(&sandbox, "t/d/f", lease, run().args(["s/d/f", "t/d/f"]));
        assert_eq!(content("t/d/f"), "one\n");
        fs::write(sandbox.join("t/d/g"), "old and longer").unwrap();
        succeeds(&sandbox, "t/d/g", lease, run().args(["-aT", "s", "t"]));
        assert_eq!(content("t/d/g"), "two\n");
    }
}

#[test]
fn every_engine_waits_for_leases_as_gnu_cp_does() {
    require!(needs_leases());
    if let Some(gnu) = CopyProgram::gnu() {
        copies(&|| gnu.run());
    }
    let program = program!();
    copies(&|| program.run());
    for engine in ENGINES {
        copies_once(&|| program.run_with(&[engine]));
    }
}

#[test]
fn what_changes_names_and_attributes_waits_for_leases() {
    require!(needs_leases());
    let program = program!();
    let ways: [&[&str]; 5] = [
        &["--remove-destination", "s", "t"],
        &["--backup=simple", "s", "t"],
        &["--attributes-only", "-p", "s", "t"],
        &["-lf", "s", "t"],
        &["-sf", "s", "t"],
    ];
    for way in ways {
        let sandbox = Sandbox::in_memory().unwrap();
        sandbox.script("echo one >s; chmod 640 s; touch -d @1000000000 s; echo two >t").unwrap();
        let copy = || program.run().args(way);
        // Not all of these break the lease: a file may be replaced under its holder.
        let holder = Holder::start(&sandbox.join("t"), Lease::Write).unwrap();
        let outcome = copy().in_folder(sandbox.path()).finish().unwrap();
        assert!(outcome.succeeded(), "{way:?}: {}", outcome.errors());
        drop(holder);
        let holder = Holder::start(&sandbox.join("s"), Lease::Read).unwrap();
        let outcome = copy().in_folder(sandbox.path()).finish().unwrap();
        assert!(outcome.succeeded(), "{way:?}: {}", outcome.errors());
        drop(holder);
    }
}

#[test]
fn every_tool_waits_for_leases() {
    require!(needs_leases());
    let program = program!();
    require!(program.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script("mkdir d e; echo line >d/f; cp d/f e/f; echo line >g").unwrap();
    let haul = |arguments: &[&str]| TestRun::new(program.path()).args(arguments);
    let waits = |leased: &str, arguments: &[&str]| succeeds(&sandbox, leased, Lease::Write, haul(arguments));
    waits("d/f", &["cmp", "d/f", "e/f"]);
    waits("e/f", &["cmp", "d", "e"]);
    assert_eq!(waits("d/f", &["grep", "-c", "line", "d/f"]), "1\n");
    assert_eq!(waits("d/f", &["grep", "-rc", "line", "d"]), "d/f:1\n");
    waits("d/f", &["tar", "-cf", "a.tar", "d"]);
    assert_eq!(waits("a.tar", &["tar", "-tf", "a.tar"]), "d/\nd/f\n");
    waits("a.tar", &["tar", "-cf", "a.tar", "d"]);
    waits("d/f", &["tar", "-xf", "a.tar", "--overwrite"]);
    waits("g", &["bzip2", "-k", "g"]);
    waits("g.bz2", &["bzip2", "-dkf", "g.bz2"]);
    assert_eq!(waits("d/f", &["each", "d/f", "--", "cat"]), "line\n");
}

/// Without `/proc`, any wait could hang if a FIFO took the file's place, so the open fails instead.
#[test]
fn without_proc_the_reason_is_reported() {
    require!(needs_leases(), needs::root(), needs::tool("unshare"));
    let program = program!();
    require!(program.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    fs::write(sandbox.join("s"), "text").unwrap();
    let holder = Holder::start(&sandbox.join("s"), Lease::Write).unwrap();
    let script = "umount -l /proc; exec \"$@\"";
    let run = TestRun::new(&needs::find_tool("unshare").unwrap()).args(["-m", "sh", "-c", script, "sh"]);
    let run = run.arg(program.path()).args(["cp", "s", "t"]).in_folder(sandbox.path());
    let outcome = run.finish().unwrap();
    assert_eq!(outcome.status(), Some(1));
    let reason = "cannot open 's' for reading: Resource temporarily unavailable";
    assert!(outcome.errors().contains(reason), "{}", outcome.errors());
    assert!(holder.was_broken());
}
