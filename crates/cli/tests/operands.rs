//! Command lines, word for word.
//!
//! GNU cp and the program under test run each line of the tables in identical directories. Status,
//! messages, output, and the resulting directory (sources included) must match. The tables are
//! about operands and the options that affect them: SRC DEST and SRC... DIR, trailing slashes, `.`
//! and `..`, valid and dangling links, and what may replace what.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use haul_testkit::duel::Duel;
use haul_testkit::spec::{EntrySpec, Spec, SpecKind};
use haul_testkit::{CopyProgram, Sandbox, needs, note, program, require, tests, wait};

/// Builds the directory that every command line starts in. Directories count from 1: d, d/sub, e,
/// n, m, m/a, deep, deep/er.
fn prepare(folder: &Path) -> io::Result<()> {
    let link = |name: &str, leads_to: &str| EntrySpec::new(0, name, SpecKind::Symlink(leads_to.into()));
    let nodes = vec![
        EntrySpec::new(0, "d", SpecKind::Directory).mode(0o750).modified(1_000_000_000, 1),
        EntrySpec::new(1, "sub", SpecKind::Directory).modified(1_000_000_001, 2),
        EntrySpec::new(0, "e", SpecKind::Directory).modified(1_000_000_002, 3),
        EntrySpec::new(0, "n", SpecKind::Directory).modified(1_000_000_003, 4),
        EntrySpec::new(0, "m", SpecKind::Directory),
        EntrySpec::new(5, "a", SpecKind::Directory),
        EntrySpec::new(0, "deep", SpecKind::Directory),
        EntrySpec::new(7, "er", SpecKind::Directory).mode(0o1777),
        EntrySpec::file(0, "a", 1, 1000).mode(0o640).modified(1_100_000_000, 5).owner(10, 20),
        EntrySpec::file(0, "b", 2, 2000).mode(0o604),
        EntrySpec::file(0, "empty", 2, 0),
        EntrySpec::file(0, "setuid", 2, 100).mode(0o6755).owner(10, 20),
        EntrySpec::file(0, "ro", 3, 300).mode(0o444),
        EntrySpec::file(0, "sp ace", 4, 40),
        EntrySpec::file(0, "quo'te", 4, 40),
        EntrySpec::file(0, "new\nline", 4, 40),
        EntrySpec::file(0, "bytes\u{7f}é", 4, 40),
        EntrySpec::file(0, "-dash", 5, 50),
        EntrySpec::file(1, "x", 6, 600).modified(1_100_000_000, 6),
        EntrySpec::file(1, "y", 7, 70_000),
        EntrySpec::file(2, "z", 8, 800).mode(0o600),
        EntrySpec::new(1, "link", SpecKind::Symlink("x".into())),
        EntrySpec::file(4, "x", 9, 90),
        EntrySpec::file(5, "d", 9, 91),
        EntrySpec::new(0, "hard", SpecKind::HardLink(0)),
        EntrySpec::new(1, "hard", SpecKind::HardLink(0)),
        EntrySpec::new(0, "fifo", SpecKind::Fifo).mode(0o640),
        EntrySpec::new(0, "socket", SpecKind::Socket),
        link("link", "a"),
        link("link2", "link"),
        link("links", "e"),
        link("to-d", "d"),
        link("dangling", "nowhere"),
        link("loop", "loop"),
        EntrySpec::new(3, "to-x", SpecKind::Symlink("../d/x".into())),
        EntrySpec::file(5, "sub", 9, 92),
    ];
    Spec { nodes }.build(folder)
}

const ONE_TO_ONE: &[&str] = &[
    "a new",
    "a b",
    "empty b",
    "a n",
    "a n/",
    "a n/.",
    "a new/",
    "a b/",
    "a b/c",
    "a n/missing/f",
    "b/ a",
    "a ./a",
    "a a",
    "a hard",
    "a link",
    "link a",
    "link link2",
    "-P link a",
    "-d link a",
    "-a link a",
    "-f a a",
    "-f a hard",
    "-l a hard",
    "-l a a",
    "-s a a",
    "-a a hard",
    "a m",
    "-f a m",
    "-T a m/a",
    "-T a n",
    "-T a new",
    "-T a e/",
    "d new",
    "d a",
    "-r d a",
    "-rf d a",
    "-r d m",
    "ro a",
    "a ro",
    "-f a ro",
    "-p setuid a",
    "setuid new",
    "-a setuid new",
    "missing new",
    "missing n",
    "a socket",
    "socket new",
    "-r socket new",
    "-r fifo new",
    "-a fifo b",
    "-a fifo n",
];

const MANY_TO_ONE: &[&str] = &[
    // A directory whose copy failed is copied if it is named or reached again.
    "-r d d/. m",
    "-r d ./d d/ m",
    "-r d/sub d n m",
    "-r d/sub d d/. m",
    "-r --parents d ./d n",
    "-r d d/. n",
    "-r d/. d n",
    "-r d/sub d n",
    "-r d d/sub n",
    // A source inside a directory onto which another source is copied.
    "-r d n/../m/d m",
    "-r m/a m/d d .",
    "-rT d/sub d/.",
    "-r d/sub m/sub d d",
    "",
    "a",
    "-r",
    "a b d",
    "a b d/",
    "a b b",
    "a b new",
    "a b new/",
    "missing a b d",
    "a missing n",
    "d a n",
    "-r d a e",
    "-r d e n",
    "a d/x n",
    "d/x n/x d/sub",
    "-f d/x n/x d/sub",
    "-r d n e",
    "a a e",
    "a ./a e",
    "-r d d e",
    "-r d d/ e",
    "-r d/. d e",
    "-t n a b",
    "-t n",
    "-t new a",
    "-t b a",
    "-t missing/deep a",
    "-tn a",
    "--target-directory=n a b",
    "--target-directory n a",
    "-t n -T a",
    "-t n -t e a",
    "-T a b n",
    "-T a",
    "-rT d n",
    "-rT d new",
    "-rT d a",
    "-rT a d",
    "-- -dash n",
    "-dash n",
    "./-dash n",
    "link link2 n",
    "-d link link2 n",
    "a hard n",
    "-d a hard n",
    "-a a hard d n",
    "--preserve=links a hard n",
];

const DIRECTORIES: &[&str] = &[
    "-r d new",
    "-R d new",
    "-a d new",
    "-a d n",
    "-r d n",
    "-r d/ new",
    "-r d/ n",
    "-r d new/",
    "-r d/. n",
    "-r d/. new",
    "-r d/sub/.. n",
    "-r d/sub/. d",
    "-r d new/deeper",
    "-r d n/missing/f",
    "-rT d d",
    "-r d links",
    "-rT d links",
    "-a deep new",
    "-r -x d new",
    "-rv d new",
    "-av d new",
    "-rv d n",
    "-r a/ new",
    "-r missing/ new",
    ". n",
    "-r d/x/. n",
    "-r m n",
    "-r d/. m",
    "-a n new",
    "-aT d/. new",
];

const LINKS: &[&str] = &[
    "dangling new",
    "-P dangling new",
    "-d dangling new",
    "-L dangling new",
    "-r dangling new",
    "-rL dangling new",
    "-rH dangling new",
    "-a dangling n",
    "a dangling",
    "-f a dangling",
    "-T a dangling",
    "-P a dangling",
    "-a a dangling",
    "-r d dangling",
    "loop new",
    "-P loop new",
    "a loop",
    "-rL loop new",
    "-r to-d new",
    "-rP to-d new",
    "-rL to-d new",
    "-rH to-d new",
    "-rL to-d/ new",
    "-r to-d/ new",
    "-R to-d/. new",
    "to-d new",
    "-H link new",
    "-L link new",
    "-P link new",
    "link new",
    "link2 new",
    "-r link2 new",
    "-rL d new",
    "-rLd d new",
    "-rdL d new",
    "-rPL n new",
    "a links",
    "-P link links",
    "-P to-d e",
    "-PT to-d e",
    "-PT link b",
    "-PT to-d links",
    "-P -f link dangling",
    "-l a new",
    "-l a b",
    "-lf a b",
    "-l link new",
    "-lL link new",
    "-lP link new",
    "-l d new",
    "-lr d new",
    "-la d new",
    "-lr d n",
    "-lrf d n",
    "-s a new",
    "-s a b",
    "-sf a b",
    "-s a n",
    "-s d/x new",
    "-s d/x n",
    "-s a ./new",
    "-sr d new",
    "-s missing new",
    "-ls a new",
    "-sl a new",
    "-lv a new",
    "-sv a new",
];

const OPTIONS: &[&str] = &[
    "-n a b",
    "-n a new",
    "-nf a b",
    "-fn a b",
    "-rn d n",
    "-n a m",
    "-n a a",
    "-nv a b",
    "-v a new",
    "-v a b d",
    "-v socket new",
    "-v socket b",
    "-rv --copy-contents socket new",
    "-v a b missing n",
    "-vf a ro",
    "-v -l a b n",
    "-p a new",
    "-p a b",
    "-p a ro",
    "--preserve a new",
    "--preserve=mode,timestamps a new",
    "--preserve=ownership a new",
    "--preserve=all a new",
    "--preserve=xattr a new",
    "--preserve=bogus a new",
    "--preserve=mode,bogus a new",
    "--preserve= a new",
    "--preserve=mo a new",
    "-p --no-preserve=mode setuid new",
    "-p --no-preserve=timestamps,ownership setuid new",
    "--no-preserve=mode setuid new",
    "--no-preserve=mode -p setuid new",
    "-a --no-preserve=all d new",
    "-a --no-preserve=links a hard n",
    "--no-preserve a new",
    "--no-preserve=bogus a new",
    "--sparse=always a new",
    "--sparse=never a new",
    "--sparse=auto a new",
    "--sparse=bogus a new",
    "--sparse a new",
    "--reflink=auto a new",
    "--reflink=never a new",
    "--reflink=bogus a new",
    "--reflink --sparse=always a new",
    "--reflink=never --sparse=always a new",
    "--no-such-option a new",
    "-y a new",
    "-ry a new",
    "--recursive=yes d new",
    "--rec d new",
    "--verb a new",
    "--target=n a",
    "--no-t a new",
    "--no-d link new",
    "--deref link new",
    "--pres=mode a new",
    "--arch d new",
    "--lin a new",
    "--sym a new",
    "--forc a ro",
    "--one -r d new",
    "--spar=never a new",
    "-rR d new",
    "-aR --verbose d new",
    "-dpR d new",
    "-r -- d new",
    "a new -v",
    "a -v b d",
    "a -- -v",
];

/// Lines for which only messages and status are compared, not the trees.
///
/// GNU cp stops reading a directory once it meets its own target in it, so how much it has
/// copied depends on the order of the entries. Before release 9.2 it also left an empty file if
/// a clone failed.
const WORDS_ONLY: &[&str] = &[
    "-r d d",
    "-r d d/",
    "-r d d/inside",
    "-r d d/sub",
    "-r d d/sub/inside",
    "-a d d",
    "-r d to-d",
    "-r to-d d",
    "-r d ./d",
    "-r deep/.. n",
    "-r . n",
    "-r . new",
    "-a . d/sub/new",
    "-r m/. .",
    "--reflink a new",
    "--reflink=always a new",
    "--reflink=always a b",
];

/// Operands that don't survive splitting at blanks.
fn odd_operands() -> Vec<Vec<&'static [u8]>> {
    vec![
        vec![b"sp ace", b"n"],
        vec![b"-v", b"sp ace", b"quo'te", b"n"],
        vec![b"-v", b"new\nline", "bytes\u{7f}é".as_bytes(), b"n"],
        vec![b"-v", b"a", b"n/\xff\x01"],
        vec![b"missing one", b"n"],
        vec![b"missing'quote", b"n"],
        vec![b"missing'quote\"both", b"n"],
        vec![b"missing\nline", b"n"],
        vec![b"missing\xff", b"n"],
        vec![b"missing\x1b[31m", b"n"],
        vec![b"a", b""],
        vec![b"", b"n"],
        vec![b"a", b"b", b""],
        vec![b"-t", b"", b"a"],
        vec![b"a", &[b'l'; 256]],
        vec![&[b'l'; 256], b"n"],
        vec![b"a", &[b'l'; 5000]],
    ]
}

fn words(lines: &[&str]) -> Vec<Vec<OsString>> {
    lines.iter().map(|line| line.split_whitespace().map(OsString::from).collect()).collect()
}

/// Runs all command lines and reports each one that differs from GNU cp.
fn run_all(lines: impl IntoIterator<Item = Vec<OsString>>, trees_too: bool) {
    require!(CopyProgram::needs_gnu());
    let duel = Duel::with_gnu(program!()).unwrap();
    let mut failures = Vec::new();
    let mut count = 0;
    for (index, line) in lines.into_iter().enumerate() {
        // Alternate engines: the result must not depend on the engine.
        let engine = if index % 2 == 0 { "--engine=sync" } else { "--engine=io-uring" };
        let mut verdict = duel.run(&prepare, &line, &[engine.into()]).unwrap();
        if !trees_too {
            verdict.compare_words_only();
        }
        assert!(!verdict.standard_hung(), "GNU cp hung on {line:?}: take the line out");
        count += 1;
        if !verdict.complaints.is_empty() {
            failures.push(format!("cp {line:?}  [{engine}]\n{}", verdict.report()));
        }
    }
    note!("{count} command lines, {} different from GNU cp", failures.len());
    assert!(count > 0);
    assert!(
        failures.is_empty(),
        "{} of {count} command lines differ:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

tests! {
    one_source_to_one_target => run_all(words(ONE_TO_ONE), true);
    many_sources_and_target_directories => run_all(words(MANY_TO_ONE), true);
    directories_and_their_edges => run_all(words(DIRECTORIES), true);
    links_in_sources_and_targets => run_all(words(LINKS), true);
    options_and_their_mistakes => run_all(words(OPTIONS), true);
    copies_into_themselves_and_clones_that_fail => run_all(words(WORDS_ONLY), false);
}

#[test]
fn names_that_need_quoting() {
    require!(CopyProgram::needs_gnu());
    let lines = odd_operands();
    let bytes = |word: &[u8]| OsString::from_vec(word.to_vec());
    run_all(lines.into_iter().map(|line| line.into_iter().map(bytes).collect()), true);
}

#[test]
fn a_program_called_cp_speaks_as_cp() {
    require!(CopyProgram::needs_gnu());
    let ours = program!();
    require!(ours.needs_haul());
    let folder = haul_testkit::Sandbox::on_disk().unwrap();
    let path = folder.join("cp");
    std::os::unix::fs::symlink(fs::canonicalize(ours.path()).unwrap(), &path).unwrap();
    let outcome =
        CopyProgram::at(&path).run().args(["missing", "new"]).in_folder(folder.path()).finish().unwrap();
    assert_eq!(outcome.errors(), "cp: cannot stat 'missing': No such file or directory\n");
    assert_eq!(outcome.status(), Some(1));
    let outcome = ours.run().args(["missing", "new"]).in_folder(folder.path()).finish().unwrap();
    assert_eq!(outcome.errors(), "haul cp: cannot stat 'missing': No such file or directory\n");
}

/// A copy that waits for the other end of a FIFO keeps nothing else from being copied, whichever
/// comes first.
#[test]
fn a_fifo_without_another_end_stops_nothing_else() {
    require!(needs::tool("mkfifo"));
    let ours = program!();
    require!(ours.needs_haul());
    for (line, at_target) in [
        ("s/d/fifo s/d/a s/d/b to", false),
        ("s/d/a s/d/fifo s/d/b to", false),
        ("-r --copy-contents s/d to", false),
        ("s/d/fifo s/d/a s/d/b to", true),
    ] {
        let sandbox = Sandbox::in_memory().unwrap();
        let [source, target] = ["s/d", "to"].map(|name| sandbox.join(name));
        fs::create_dir_all(&source).unwrap();
        fs::create_dir(&target).unwrap();
        let fifo = if at_target { target.join("fifo") } else { source.join("fifo") };
        let files = if at_target { &["a", "b", "fifo"][..] } else { &["a", "b"] };
        files.iter().for_each(|name| fs::write(source.join(name), "content").unwrap());
        // The last to be made is the first in the listing of a tmpfs.
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let arrives = |name: &str| {
            let places = [target.join(name), target.join("d").join(name)];
            let is_whole = |place: &PathBuf| fs::read(place).is_ok_and(|copy| copy == b"content");
            wait::until(Duration::from_secs(20), || places.iter().any(is_whole))
        };
        let run = ours.run().arg("-j2").args(line.split(' ')).in_folder(sandbox.path());
        let running = run.within(Duration::from_secs(60)).start().unwrap();
        let open = || wait::for_reader(&fifo, Duration::from_secs(20)).unwrap();
        // The copy waits for bytes, or else for the other end to be opened.
        let opened = (!at_target && !line.starts_with("-r")).then(open);
        let all_arrived = arrives("a") && arrives("b");
        let read =
            at_target.then(|| Command::new("timeout").arg("20").arg("cat").arg(&fifo).output().unwrap());
        if !at_target {
            opened.unwrap_or_else(open).write_all(b"content").unwrap();
        }
        let outcome = running.finish().unwrap();
        assert!(all_arrived && outcome.succeeded(), "{line}: {all_arrived}, {}", outcome.errors());
        let copy = target.join(if line.starts_with("-r") { "d/fifo" } else { "fifo" });
        let content = read.map_or_else(|| fs::read(copy).unwrap(), |read| read.stdout);
        assert_eq!(content, b"content", "{line}");
    }
}

/// Only regular files have blocks to share, so nothing is written to a device.
#[test]
fn shared_blocks_are_refused_for_anything_but_regular_files() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script("echo a >a").unwrap();
    for (source, target) in
        [("/dev/null", "new"), ("a", "/dev/null"), ("/dev/stdin", "new"), ("/dev/zero", "a")]
    {
        let run = ours.run().args(["--reflink=always", source, target]).in_folder(sandbox.path());
        let outcome = run.input(b"text").finish().unwrap();
        let message = format!("failed to clone '{target}' from '{source}': ");
        assert!(outcome.errors().contains(&message), "{}", outcome.errors());
        assert_eq!((outcome.status(), sandbox.join("new").exists()), (Some(1), false), "{source}");
    }
}

/// `/proc/self/comm` calls itself a regular file, but refuses to be written at an offset.
#[test]
fn kernel_files_without_offsets_are_written_as_by_gnu_cp() {
    let ours = program!();
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script("echo name >name").unwrap();
    let outcome = ours.run().args(["name", "/proc/self/comm"]).in_folder(sandbox.path()).finish().unwrap();
    assert_eq!((outcome.errors().as_str(), outcome.status()), ("", Some(0)));
}
