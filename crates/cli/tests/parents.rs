//! `--parents`: sources keep their whole name below the target.
//!
//! GNU cp and haul run each command line in identical directories, as in `operands.rs`. What GNU cp
//! gets wrong has tests of its own below: times of directories shared by several operands,
//! directories without write permission, and the owner of a directory behind a link (GNU cp changes
//! the link's).

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use haul_testkit::duel::Duel;
use haul_testkit::everything::{ACCESS_ACL, DEFAULT_ACL};
use haul_testkit::program::WAYS;
use haul_testkit::snapshot::read_attributes;
use haul_testkit::spec::{EntrySpec, Spec, SpecKind, acl};
use haul_testkit::strace::record;
use haul_testkit::{CopyProgram, Facts, Sandbox, Snapshot, compare, needs, note, program, require};

/// Builds the directory that every command line starts in. Directories count from 1: a, a/b, a/b/c,
/// new, old, old/a, blocked, linked, elsewhere, listed.
fn prepare(folder: &Path) -> io::Result<()> {
    let nodes = vec![
        EntrySpec::new(0, "a", SpecKind::Directory).mode(0o2751).modified(1_000_000_000, 1).owner(10, 20),
        EntrySpec::new(1, "b", SpecKind::Directory).mode(0o1777).modified(1_000_000_001, 2).owner(11, 21),
        EntrySpec::new(2, "c", SpecKind::Directory).mode(0o500).modified(1_000_000_002, 3),
        EntrySpec::new(0, "new", SpecKind::Directory),
        EntrySpec::new(0, "old", SpecKind::Directory),
        EntrySpec::new(5, "a", SpecKind::Directory).mode(0o700).modified(1_000_000_003, 4),
        EntrySpec::new(0, "blocked", SpecKind::Directory),
        EntrySpec::new(0, "linked", SpecKind::Directory),
        EntrySpec::new(0, "elsewhere", SpecKind::Directory),
        EntrySpec::new(0, "listed", SpecKind::Directory).attribute(DEFAULT_ACL, acl(0o750, 8, 7)),
        EntrySpec::file(0, "f", 1, 100).modified(1_100_000_000, 5),
        EntrySpec::file(1, "f", 2, 200).mode(0o640),
        EntrySpec::file(2, "f", 3, 300).modified(1_100_000_001, 6).owner(12, 22),
        EntrySpec::file(3, "f", 4, 400).mode(0o600),
        EntrySpec::file(3, "g", 5, 500),
        EntrySpec::new(3, "link", SpecKind::Symlink("f".into())),
        EntrySpec::new(0, "hard", SpecKind::HardLink(3)),
        EntrySpec::new(0, "to-b", SpecKind::Symlink("a/b".into())),
        EntrySpec::file(7, "a", 6, 60),
        EntrySpec::new(8, "a", SpecKind::Symlink("../elsewhere".into())),
        EntrySpec::new(8, "to-b", SpecKind::Symlink("nowhere".into())),
        EntrySpec::new(8, "f", SpecKind::Symlink("../f".into())),
    ];
    Spec { nodes }.build(folder)
}

const LINES: &[&str] = &[
    "-rp f/. linked",
    "-rp f/x linked",
    "-rp f/x/y linked",
    "-rp f/x/y new",
    "-rp a/f/x blocked",
    "-rp a/f/x new",
    "-r a/f/x/y new",
    "a/b/f new",
    "-v a/b/f new",
    "-v a/b/c/f a/f new",
    "-v a/b/c/f a/b/c/g a/b/f new",
    "a//b///f new",
    "-v a//b///f new",
    "-v ./a/./b/f new",
    "-v a/b/../b/f new",
    "-v a/b/../../f new",
    "-rv a/b/c/ new",
    "-rv a/b/c// new//",
    "-rv a/b/.. new",
    "-rv a/b/c/. new",
    "-v a/b/c/. new",
    "-rv a/b/c/. a/b/c/f new",
    "-rv a/. old",
    "-r a new",
    "-a a new",
    "-rv to-b/c new",
    "-v to-b/f new",
    "-v to-b/f linked",
    "-r to-b new",
    "-r to-b/ new",
    "-v a/b/c/link new",
    "-P a/b/c/link new",
    "-d a/b/c/link new",
    "-H a/b/c/link new",
    "f new",
    "f new/",
    "f new//",
    "a/b/f f new",
    "a/b/f new/new",
    "a/b/f f",
    "a/b/f",
    "-T a/b/f new",
    "-T f new/f",
    "-t new a/b/f",
    "-t new f a/f",
    "-t f a/f",
    "--path a/b/f new",
    "--pa -v a/b/f new",
    "missing/f new",
    "a/missing/f new",
    "a/missing new",
    "a/b/missing new",
    "a/b/missing a/b/f new",
    "-a a/b/missing/x new",
    "-p a/missing/x a/b/f new",
    "--preserve=ownership a/b/missing/x a/f new",
    "f/x new",
    "a/f/x new",
    "a/f/x old",
    "a/f blocked",
    "a/b/f blocked",
    "-p a/b/f blocked",
    "a/f linked",
    "a/b/f linked",
    "-p --no-preserve=ownership a/b/f linked",
    "a/b/f old",
    "-p a/f old",
    "-p a/b/f old",
    "-a a/b/c/f old",
    "-p a/b/f new",
    "-a a/b/c new",
    "-a a/b/c/f new",
    "--preserve=mode a/b/c/f new",
    "--preserve=mode a/b/c/f old",
    "--preserve=ownership a/b/c/f new",
    "--preserve=ownership a/b/c/f old",
    "--preserve=timestamps a/b/c/f new",
    "--preserve=timestamps a/b/c/f old",
    "--no-preserve=mode a/b/c/f new",
    "-p --no-preserve=mode a/b/c/f new",
    "-a --no-preserve=ownership a/b/c/f new",
    "a/b/c/f listed",
    "-p a/b/c/f listed",
    "-a a/b/c/f listed",
    "--preserve=mode a/b/c/f listed",
    "--preserve=ownership a/b/c/f listed",
    "-l a/b/c/f new",
    "-lv a/b/c/f hard new",
    "-rl a/b new",
    "-s a/b/c/f new",
    "-s a/b/c/f .",
    "-v a/b/c/f .",
    "-r a .",
    "-d hard a/b/c/f new",
    "-n a/b/f old",
    "-f a/b/f old",
    "a/b/f a/b/f new",
    "-v a/b/f a/b//f new",
    "-rv a a/b/f new",
    "-r a/b/f a/b new",
    "a/b/c new",
    "a/b/c a/b/f new",
    "-rx a/b/c new",
    "--strip-trailing-slashes -rv a/b/c/ new",
    "--strip-trailing-slashes a/f/ new",
    "a/f/ new",
    "-r a/b a/b/f/new",
    "--attributes-only a/b/c/f new",
];

fn words(line: &str) -> Vec<OsString> {
    std::iter::once("--parents").chain(line.split_whitespace()).map(OsString::from).collect()
}

#[test]
fn whole_names_below_the_target_as_by_gnu() {
    require!(CopyProgram::needs_gnu(), needs::root());
    let duel = Duel::with_gnu(program!()).unwrap();
    let mut failures = Vec::new();
    for (index, line) in LINES.iter().enumerate() {
        let own: Vec<OsString> = WAYS[index % WAYS.len()].iter().map(OsString::from).collect();
        let verdict = duel.run(&prepare, &words(line), &own).unwrap();
        assert!(!verdict.standard_hung(), "GNU cp hung on {line}");
        if !verdict.complaints.is_empty() {
            failures.push(format!("cp --parents {line}\n{}", verdict.report()));
        }
    }
    note!("--parents: {} command lines, {} different from GNU cp", LINES.len(), failures.len());
    assert!(failures.is_empty(), "{} lines differ:\n{}", failures.len(), failures.join("\n"));
}

/// GNU cp sets the times of a shared directory after the first operand, and the second changes
/// them again.
#[test]
fn directories_that_several_operands_share_keep_their_attributes() {
    require!(needs::root());
    let ours = program!();
    require!(ours.needs_haul());
    for way in WAYS {
        let sandbox = Sandbox::in_memory().unwrap();
        prepare(sandbox.path()).unwrap();
        let operands = ["a/b/c/f", "a/b/f", "a/f", "a/b/c/g", "a//b/c/link", "./a/b/c/missing"];
        let run = ours.run_with(&way).args(["-a", "--parents"]).args(operands).arg("new");
        let outcome = run.in_folder(sandbox.path()).finish().unwrap();
        assert_eq!(outcome.errors().lines().count(), 1, "{}", outcome.errors());
        let facts = Facts::PRESERVED.difference(Facts::LINKS);
        let expected = Snapshot::take(&sandbox.join("a"), facts).unwrap();
        let found = Snapshot::take(&sandbox.join("new/a"), facts).unwrap();
        let differences = compare(&expected, &found, facts).unwrap();
        assert!(differences.is_empty(), "{way:?}: {differences}");
    }
}

/// GNU cp removes write permission after the first operand, then can't copy the second.
#[test]
fn a_directory_that_may_not_be_written_takes_every_operand() {
    require!(needs::root());
    let ours = program!();
    require!(ours.needs_haul());
    for options in [&["--parents"][..], &["--parents", "-p"], &["--parents", "--preserve=mode"]] {
        let sandbox = Sandbox::in_memory().unwrap();
        fs::set_permissions(sandbox.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let program = ours.publish(sandbox.path()).unwrap();
        let nodes = vec![
            EntrySpec::new(0, "closed", SpecKind::Directory),
            EntrySpec::new(1, "below", SpecKind::Directory).mode(0o555),
            EntrySpec::new(0, "new", SpecKind::Directory).mode(0o777),
            EntrySpec::file(1, "one", 1, 10),
            EntrySpec::file(2, "two", 2, 20),
            EntrySpec::file(1, "three", 3, 30),
        ];
        Spec { nodes }.build(sandbox.path()).unwrap();
        fs::set_permissions(sandbox.join("closed"), fs::Permissions::from_mode(0o555)).unwrap();
        let run = program.run().args(options).args(["closed/one", "closed/below/two", "closed/three", "new"]);
        let outcome = run.as_nobody().in_folder(sandbox.path()).finish().unwrap();
        assert!(outcome.succeeded(), "{options:?}: {}", outcome.errors());
        for name in ["closed", "closed/below"] {
            let mode = fs::metadata(sandbox.join("new").join(name)).unwrap().mode();
            assert_eq!(mode & 0o7777, 0o555, "{options:?}: {name}");
        }
    }
}

/// An ACL that a target directory inherits and its source lacks is removed; the source's ACL
/// is set.
#[test]
fn access_lists_of_directories_on_the_way_are_the_sources() {
    require!(needs::root());
    let sandbox = Sandbox::in_memory().unwrap();
    let nodes = vec![
        EntrySpec::new(0, "plain", SpecKind::Directory).mode(0o750),
        EntrySpec::new(1, "listed", SpecKind::Directory)
            .attribute(ACCESS_ACL, acl(0o750, 9, 5))
            .attribute(DEFAULT_ACL, acl(0o700, 10, 4))
            .attribute("user.kept", "not on the way"),
        EntrySpec::file(2, "file", 1, 10).mode(0o640),
        EntrySpec::new(0, "new", SpecKind::Directory).attribute(DEFAULT_ACL, acl(0o777, 8, 7)),
    ];
    Spec { nodes }.build(sandbox.path()).unwrap();
    let run = program!().run().args(["-p", "--parents", "plain/listed/file", "new"]);
    run.in_folder(sandbox.path()).succeed().unwrap();
    for name in ["plain", "plain/listed", "plain/listed/file"] {
        let mut expected = read_attributes(&sandbox.join(name)).unwrap();
        expected.remove(&b"user.kept"[..]);
        let found = read_attributes(&sandbox.join("new").join(name)).unwrap();
        assert_eq!(found, expected, "{name}");
        let mode = |path: &Path| fs::metadata(path).unwrap().mode();
        assert_eq!(mode(&sandbox.join("new").join(name)), mode(&sandbox.join(name)), "{name}");
    }
}

/// True if a call looks up names relative to an open directory.
fn takes_names(call: &str) -> bool {
    let named = [
        "openat",
        "newfstatat",
        "statx",
        "fchmodat2",
        "setxattrat",
        "getxattrat",
        "listxattrat",
        "removexattrat",
    ];
    named.contains(&call) || call.ends_with("at")
}

#[test]
fn the_owner_goes_to_the_directory_and_not_to_a_link_to_it() {
    require!(needs::root());
    let ours = program!();
    require!(ours.needs_haul());
    let linked = Sandbox::in_memory().unwrap();
    prepare(linked.path()).unwrap();
    ours.run().args(words("-p a/b/f linked")).in_folder(linked.path()).succeed().unwrap();
    let owner = |name: &str| fs::symlink_metadata(linked.join(name)).unwrap().uid();
    assert_eq!((owner("elsewhere"), owner("linked/a"), owner("elsewhere/b")), (10, 0, 11));
}

/// Below the target, every call names a single component in an open directory.
#[test]
fn nothing_below_the_target_is_reached_by_a_path() {
    require!(needs::tool("strace"), needs::root());
    let ours = program!();
    require!(ours.needs_haul());
    for target in ["new", "old"] {
        let sandbox = Sandbox::in_memory().unwrap();
        prepare(sandbox.path()).unwrap();
        let whole = sandbox.join(target);
        let run =
            ours.run_with(&["--engine=sync"]).args(["-a", "--parents", "a/b/c", "a//b/f", "a/f"]).arg(&whole);
        let (outcome, calls) =
            record(run.in_folder(sandbox.path()), "file,desc", &sandbox.join("log")).unwrap();
        assert!(outcome.succeeded(), "{}", outcome.errors());
        let mut below = 0;
        for call in &calls {
            for (directory, name) in if takes_names(&call.name) { &[(0, 1), (2, 3)][..] } else { &[] } {
                let (directory, name) = (*directory, *name);
                let (Some(base), Some(text)) = (call.descriptor_path(directory), call.path(name)) else {
                    continue;
                };
                let text = String::from_utf8_lossy(&text).into_owned();
                let path = Path::new(base).join(&text);
                if path != whole && path.starts_with(&whole) && !text.is_empty() {
                    below += 1;
                    let single = !text.contains('/') && !call.at_working_directory(directory);
                    assert!(single, "more than one component: {}", call.line());
                }
            }
            let by_path = call
                .path(0)
                .is_some_and(|path| Path::new(&*String::from_utf8_lossy(&path)).starts_with(&whole));
            let is_target = call.path(0).is_some_and(|path| path == whole.as_os_str().as_encoded_bytes());
            assert!(!by_path || is_target || call.name == "execve", "a path: {}", call.line());
        }
        note!("--parents into {target}: {below} names below the target");
        assert!(below > 10, "the audit saw next to nothing: {below}");
    }
}

/// The copy of one operand is the source of the next, or the other way round.
#[test]
fn operands_that_meet_are_copied_in_order() {
    let ours = program!();
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox
        .script(
            "mkdir a z; for n in $(seq 30); do
                head -c 3000000 /dev/zero | tr '\\0' a >a/$n; head -c 3000000 /dev/zero | tr '\\0' z >z/$n; done",
        )
        .unwrap();
    let pairs = |first: &str, second: &str| -> Vec<String> {
        (1..=30).flat_map(|n| [format!("{first}/{n}"), format!("{second}/{n}")]).collect()
    };
    for (before, operands, copied) in [
        ("mkdir d", pairs("a", "d/a"), "a"),
        ("mkdir d; cp -r z d/a", pairs("a", "d/a"), "a"),
        ("mkdir d; cp -r z d/a", pairs("d/a", "a"), "z"),
        ("mkdir d; cp -r z d/a; ln -s a d/z", pairs("z", "a"), ""),
    ] {
        for jobs in ["-j1", "-j4", "-j8"] {
            sandbox.script(&format!("rm -rf d; {before}")).unwrap();
            let run = ours.run().args([jobs, "--parents"]).args(&operands).arg("d").in_folder(sandbox.path());
            let outcome = run.finish().unwrap();
            assert!(outcome.succeeded(), "{before} {jobs}: {}", outcome.errors());
            sandbox.script("diff -rq a d/a").unwrap();
            if !copied.is_empty() {
                sandbox.script(&format!("diff -rq {copied} d/d/a")).unwrap();
            }
        }
    }
}
