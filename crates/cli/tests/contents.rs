//! `--attributes-only`, and `--copy-contents` for FIFOs.
//!
//! Compared with GNU cp. Where nothing may be read, the system calls are checked too.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use haul_testkit::duel::Duel;
use haul_testkit::everything::{ACCESS_ACL, DEFAULT_ACL};
use haul_testkit::message::normalise;
use haul_testkit::program::WAYS;
use haul_testkit::run::RunEnding;
use haul_testkit::spec::{EntrySpec, Spec, SpecKind, acl};
use haul_testkit::strace::record;
use haul_testkit::{CopyProgram, Sandbox, libc, needs, note, program, require};

/// Builds the directory that every command line starts in. Directories count from 1: d, d/sub, n,
/// n/d, listed.
fn prepare(folder: &Path) -> io::Result<()> {
    let nodes = vec![
        EntrySpec::new(0, "d", SpecKind::Directory).mode(0o750).modified(1_000_000_000, 1),
        EntrySpec::new(1, "sub", SpecKind::Directory).mode(0o2711).modified(1_000_000_001, 2).owner(10, 20),
        EntrySpec::new(0, "n", SpecKind::Directory).modified(1_000_000_004, 5),
        EntrySpec::new(3, "d", SpecKind::Directory).modified(1_000_000_002, 3),
        EntrySpec::new(0, "listed", SpecKind::Directory).attribute(DEFAULT_ACL, acl(0o750, 8, 7)),
        EntrySpec::file(0, "a", 1, 1000).mode(0o640).modified(1_100_000_000, 5).owner(10, 20),
        EntrySpec::file(0, "b", 2, 2000).mode(0o604),
        EntrySpec::file(0, "setuid", 2, 100).mode(0o6755).owner(10, 20),
        EntrySpec::file(0, "marked", 3, 300)
            .attribute("user.kept", "value")
            .attribute(ACCESS_ACL, acl(0o640, 7, 5)),
        EntrySpec::file(1, "x", 6, 600).modified(1_100_000_000, 6),
        EntrySpec::file(2, "y", 7, 70_000).mode(0o600),
        EntrySpec::file(4, "x", 9, 90).mode(0o444),
        EntrySpec::new(0, "hard", SpecKind::HardLink(0)),
        EntrySpec::new(1, "hard", SpecKind::HardLink(0)),
        EntrySpec::new(1, "link", SpecKind::Symlink("x".into())),
        EntrySpec::new(0, "link", SpecKind::Symlink("a".into())),
        EntrySpec::new(0, "dangling", SpecKind::Symlink("nowhere".into())),
        EntrySpec::new(0, "old-link", SpecKind::Symlink("a".into())).modified(1_000_000_000, 1),
        EntrySpec::new(0, "old-other", SpecKind::Symlink("b".into())).modified(1_000_000_000, 1),
        EntrySpec::new(1, "socket", SpecKind::Socket).mode(0o640),
    ];
    Spec { nodes }.build(folder)
}

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

const ATTRIBUTES_ONLY: &[&str] = &[
    "a new",
    "-v a new",
    "a b",
    "-v a b",
    "-p a new",
    "-p a b",
    "-a a b",
    "--preserve=mode a b",
    "--preserve=timestamps a b",
    "--preserve=ownership a new",
    "--preserve=xattr marked new",
    "--preserve=xattr marked b",
    "-p marked new",
    "-p marked b",
    "-a marked n",
    "a listed",
    "-p a listed",
    "-a marked a listed",
    "setuid new",
    "-p setuid new",
    "-p setuid b",
    "--no-preserve=mode setuid new",
    "-p --no-preserve=mode setuid new",
    "a a",
    "a hard",
    "a n b n",
    "a dangling",
    "a link",
    "link new",
    "-p link new",
    "-P link new",
    "-P link b",
    "-Pf link b",
    "-P link old-link",
    "-Pu link old-link",
    "-Puv link old-link",
    "-auv link old-link",
    "-Pu link old-other",
    "-Puf link old-other",
    "-d a hard n",
    "-d a hard d n",
    "-r d new",
    "-a d new",
    "-a d n",
    "-r d n",
    "-rv d new",
    "-rL d new",
    "-rp d new",
    "-r --preserve=links d hard new",
    "d new",
    "missing new",
    "a n/missing/f",
    "a new/",
    "-T a n",
    "--reflink a new",
    "--reflink=always -p a b",
    "--reflink=never a new",
    "--sparse=always a new",
    "--sparse=never a b",
    "--copy-contents -p a b",
    "-l a new",
    "-s a new",
    "-n a b",
    "-f a b",
    "-x -r d new",
    "d/socket new",
    "-r d/socket new",
    "-rp d/socket b",
    "-rfp d/socket b",
];

#[test]
fn attributes_only_as_by_gnu() {
    require!(CopyProgram::needs_gnu(), needs::root());
    let duel = Duel::with_gnu(program!()).unwrap();
    let mut failures = Vec::new();
    for (index, line) in ATTRIBUTES_ONLY.iter().enumerate() {
        let own: Vec<OsString> = WAYS[index % WAYS.len()].iter().map(OsString::from).collect();
        let line = format!("--attributes-only {line}");
        let verdict = duel.run(&prepare, &words(&line), &own).unwrap();
        assert!(!verdict.standard_hung(), "GNU cp hung on {line}");
        if !verdict.complaints.is_empty() {
            failures.push(format!("cp {line}\n{}", verdict.report()));
        }
    }
    note!("--attributes-only: {} command lines, {} different", ATTRIBUTES_ONLY.len(), failures.len());
    assert!(failures.is_empty(), "{} lines differ:\n{}", failures.len(), failures.join("\n"));
}

/// GNU cp opens the source, so an unreadable one is refused.
#[test]
fn attributes_only_of_what_may_not_be_read_is_refused() {
    require!(needs::root());
    let mut said = Vec::new();
    for program in [program!(), CopyProgram::gnu().unwrap_or(program!())] {
        let sandbox = Sandbox::in_memory().unwrap();
        fs::set_permissions(sandbox.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let program = program.publish(sandbox.path()).unwrap();
        for (name, mode) in [("closed", 0o200), ("open", 0o604), ("shared", 0o440)] {
            Spec { nodes: vec![EntrySpec::file(0, name, 1, 10).mode(mode)] }.build(sandbox.path()).unwrap();
        }
        fs::create_dir(sandbox.join("n")).unwrap();
        fs::set_permissions(sandbox.join("n"), fs::Permissions::from_mode(0o777)).unwrap();
        let run = program.run().args(["--attributes-only", "closed", "open", "shared", "n"]);
        let outcome = run.as_nobody().in_folder(sandbox.path()).finish().unwrap();
        assert_eq!(outcome.ending, RunEnding::Exited(1), "{}", outcome.errors());
        assert!(sandbox.join("n/open").exists() && !sandbox.join("n/closed").exists());
        said.push(normalise(&outcome.stderr));
    }
    assert_eq!(said[0], said[1]);
}

/// Counts the calls to copy `files` files, excluding locks and memory management.
fn count_calls(sandbox: &Sandbox, options: &[&str], files: usize) -> usize {
    let (source, target) = (sandbox.join(format!("source-{files}")), sandbox.join("target"));
    if !source.exists() {
        let nodes = (0..files).map(|index| EntrySpec::file(0, format!("file-{index}"), 1, 1000)).collect();
        Spec { nodes }.build(&source).unwrap();
    }
    haul_testkit::sandbox::remove_tree(&target);
    let run = program!().run_with(&["-j1"]).args(options).arg("-T").args([&source, &target]);
    let (outcome, calls) = record(run, "all", &sandbox.join("log")).unwrap();
    assert!(outcome.succeeded(), "{}", outcome.errors());
    assert_eq!(fs::read_dir(&target).unwrap().count(), files);
    let idle =
        ["futex", "sched_yield", "mmap", "munmap", "brk", "madvise", "clock_nanosleep", "restart_syscall"];
    calls.iter().filter(|call| !idle.contains(&call.name.as_str())).count()
}

#[test]
fn attributes_only_costs_few_calls_for_a_new_file() {
    const FILES: usize = 300;
    require!(needs::tool("strace"), program!().needs_haul());
    let sandbox = Sandbox::on_disk().unwrap();
    for (options, most) in [(&["-r", "--attributes-only"][..], 2.05), (&["-a", "--attributes-only"], 8.2)] {
        let (few, many) = (count_calls(&sandbox, options, FILES), count_calls(&sandbox, options, 2 * FILES));
        let each = (many as f64 - few as f64) / FILES as f64;
        note!("calls for a new file, {options:?}: {each:.2}");
        assert!(each >= 1.0 && each <= most, "{options:?}: {each} calls for each file");
    }
}

/// Runs a command line in a directory with FIFOs, while a thread writes into one of them.
fn with_writers(program: &CopyProgram, own: &[&str], line: &str) -> (haul_testkit::RunOutcome, Sandbox) {
    let sandbox = Sandbox::in_memory().unwrap();
    let nodes = vec![
        EntrySpec::new(0, "d", SpecKind::Directory),
        EntrySpec::new(0, "n", SpecKind::Directory),
        EntrySpec::new(1, "fifo", SpecKind::Fifo).mode(0o640).modified(1_000_000_000, 1),
        EntrySpec::file(1, "file", 1, 100),
        EntrySpec::new(1, "link", SpecKind::Symlink("file".into())),
        EntrySpec::file(2, "fifo", 3, 30),
    ];
    Spec { nodes }.build(sandbox.path()).unwrap();
    let fifo = sandbox.join("d/fifo");
    let writer = std::thread::spawn(move || fs::write(fifo, "through the pipe"));
    let run = program.run_with(own).args(words(line)).in_folder(sandbox.path());
    let outcome = run.within(Duration::from_secs(20)).finish().unwrap();
    // Unblocks the writer if nobody read the FIFO.
    let reader = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(sandbox.join("d/fifo"))
        .unwrap();
    writer.join().unwrap().unwrap_or_default();
    drop(reader);
    (outcome, sandbox)
}

#[test]
fn contents_of_fifos_are_copied_as_by_gnu() {
    require!(CopyProgram::needs_gnu());
    let gnu = CopyProgram::gnu().unwrap();
    let facts = |sandbox: &Sandbox, path: &str| {
        let path = sandbox.join(path);
        let metadata = fs::symlink_metadata(&path).ok()?;
        let kept = metadata.mtime() == 1_000_000_000;
        let content = metadata.is_file().then(|| fs::read(&path).unwrap());
        Some((metadata.mode(), metadata.file_type().is_fifo(), kept, content))
    };
    let lines = [
        "-r --copy-contents d new",
        "-rv --copy-contents d new",
        "-a --copy-contents d new",
        "-rp --copy-contents d new",
        "-rL --copy-contents d new",
        "-rvT --copy-contents d n",
        "-rvL --copy-contents -T d n",
        "-r d new",
        "--copy-contents d/fifo new",
        "d/fifo new",
        "-v d/fifo new",
        "-p d/fifo new",
        "-p d/fifo n",
        "-vp d/fifo n",
        "-P d/fifo n",
        "-vP d/fifo n",
        "--no-preserve=mode d/fifo new",
    ];
    for (index, line) in lines.iter().enumerate() {
        let (expected, theirs) = with_writers(&gnu, &[], line);
        let (found, ours) = with_writers(&program!(), &WAYS[index % WAYS.len()], line);
        assert_eq!(found.ending, expected.ending, "cp {line}: {}", found.errors());
        assert_eq!(normalise(&found.stdout), normalise(&expected.stdout), "cp {line}");
        assert_eq!(normalise(&found.stderr), normalise(&expected.stderr), "cp {line}");
        for path in ["new", "new/fifo", "new/file", "new/link", "n/fifo", "n/file"] {
            assert_eq!(facts(&ours, path), facts(&theirs, path), "cp {line}: {path}");
        }
    }
}

#[test]
fn a_fifo_in_a_tree_is_written_at_the_pace_of_its_reader() {
    // Read only once the pipe is full.
    let script = "
        mkdir -p s t; head -c 1000000 /dev/urandom >s/f; mkfifo t/f
        exec 3<>t/f
        { sleep 0.2; timeout 20 head -c 1000000 <&3 >read; } &
        cp -r s/. t
        wait; cmp s/f read";
    for way in WAYS {
        let sandbox = Sandbox::in_memory().unwrap();
        let program = program!();
        let copy = program.is_haul().then_some("cp").into_iter().chain(way).collect::<Vec<_>>().join(" ");
        let script = script.replace("cp -r", &format!("{} {copy} -r", program.path().display()));
        sandbox.script(&format!("set -e\n{script}")).unwrap();
    }
}

/// Zeros arrive in pieces of any length, and only whole blocks become holes.
#[test]
fn holes_are_made_in_the_copy_of_a_pipe() {
    let script = "
        { head -c 1000000 /dev/zero; sleep 0.1; echo middle; head -c 70000 /dev/urandom; sleep 0.1
          head -c 700001 /dev/zero; } >whole
        { head -c 1000003 whole; sleep 0.1; tail -c +1000004 whole; } | cp --sparse=always /dev/stdin copy
        cmp whole copy
        [ $(stat -c %b copy) -lt 400 ]
        head -c 3000000 /dev/urandom >longer; cp whole longer
        cat whole | cp --sparse=always /dev/stdin longer
        cmp whole longer
        cat whole | cp --sparse=always /dev/stdin /dev/stdout | cmp - whole
        cat whole | cp --sparse=never /dev/stdin copy
        [ $(stat -c %b copy) -gt 3000 ]";
    for way in WAYS {
        let sandbox = Sandbox::in_memory().unwrap();
        let program = program!();
        let copy = program.is_haul().then_some("cp").into_iter().chain(way).collect::<Vec<_>>().join(" ");
        let script = script.replace("cp --", &format!("{} {copy} --", program.path().display()));
        sandbox.script(&format!("set -e -o pipefail\n{script}")).unwrap();
    }
}
