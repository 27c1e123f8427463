//! Layouts on a striped filesystem: what is kept, changed on request, and reported.
//!
//! The Lustre stand-in is mounted, and `HAUL_TEST_STRIPED` tells haul to treat it as Lustre. With
//! `--copy-layout` a copy has its source's striping, pool and components. `--reduce-stripes` and
//! `--no-stripe-offset` change them accordingly. If the filesystem gives another layout, that is
//! reported once; the content is always right. Without these options, and on other filesystems, no
//! layout is read or set.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::Path;

use haul_testkit::compare::compare_paths;
use haul_testkit::mpi::Mpi;
use haul_testkit::random::bytes;
use haul_testkit::run::{RunOutcome, TestRun};
use haul_testkit::rustix::fs::{XattrFlags, fsetxattr, getxattr, setxattr};
use haul_testkit::strace::record;
use haul_testkit::{Facts, Sandbox, Standin, libc, mpi, needs, program, require, standin};

const LOV: &str = "lustre.lov";
const ANY: u16 = 0xffff;
const MEBIBYTE: u64 = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    end: u64,
    stripe_bytes: u32,
    count: u16,
    first: u16,
    pool: &'static str,
}

const PLAIN: Part = Part { end: u64::MAX, stripe_bytes: 2 << 20, count: 3, first: 2, pool: "" };

fn body(part: &Part) -> Vec<u8> {
    let magic: u32 = if part.pool.is_empty() { 0x0bd1_0bd0 } else { 0x0bd3_0bd0 };
    let mut out = magic.to_le_bytes().to_vec();
    out.extend([1, 0, 0, 0]);
    out.resize(24, 0);
    out.extend(part.stripe_bytes.to_le_bytes());
    out.extend(part.count.to_le_bytes());
    out.extend(part.first.to_le_bytes());
    if !part.pool.is_empty() {
        let mut name = part.pool.as_bytes().to_vec();
        name.resize(16, 0);
        out.extend(name);
    }
    out
}

/// Encodes a request for these components; a single one that covers the whole file is a
/// plain layout.
fn value(parts: &[Part]) -> Vec<u8> {
    if let [only] = parts
        && only.end == u64::MAX
    {
        return body(only);
    }
    let bodies: Vec<_> = parts.iter().map(body).collect();
    let mut offset = 32 + 48 * parts.len();
    let size = offset + bodies.iter().map(Vec::len).sum::<usize>();
    let mut out = 0x0bd6_0bd0_u32.to_le_bytes().to_vec();
    out.extend(u32::try_from(size).unwrap().to_le_bytes());
    out.resize(14, 0);
    out.extend(u16::try_from(parts.len()).unwrap().to_le_bytes());
    out.resize(32, 0);
    let mut start = 0_u64;
    for (part, body) in parts.iter().zip(&bodies) {
        out.extend([0; 8]);
        out.extend(start.to_le_bytes());
        out.extend(part.end.to_le_bytes());
        out.extend(u32::try_from(offset).unwrap().to_le_bytes());
        out.extend(u32::try_from(body.len()).unwrap().to_le_bytes());
        out.resize(out.len() + 16, 0);
        (start, offset) = (part.end, offset + body.len());
    }
    bodies.iter().for_each(|body| out.extend(body));
    out
}

/// Reads a layout back. A component without objects yet reports the requested first target.
fn layout(path: &Path) -> Option<Vec<Part>> {
    let mut room = vec![0; 64 << 10];
    let length = getxattr(path, LOV, &mut room[..]).ok()?;
    room.truncate(length);
    let word = |at: usize, bytes: usize| {
        room[at..at + bytes].iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
    };
    let part = |at: usize, length: usize, end| {
        let pooled = word(at, 4) == 0x0bd3_0bd0;
        let header = if pooled { 48 } else { 32 };
        let first = if length > header { word(at + header + 20, 4) } else { word(at + 30, 2) };
        let pool = if pooled { &room[at + 32..at + 48] } else { &[] };
        Part {
            end,
            stripe_bytes: word(at + 24, 4) as u32,
            count: word(at + 28, 2) as u16,
            first: first as u16,
            pool: if pool.starts_with(b"fast\0") { "fast" } else { "" },
        }
    };
    if word(0, 4) != 0x0bd6_0bd0 {
        return Some(vec![part(0, length, u64::MAX)]);
    }
    let entries = (0..word(14, 2) as usize).map(|index| 32 + 48 * index);
    let parts =
        entries.map(|at| part(word(at + 24, 4) as usize, word(at + 28, 4) as usize, word(at + 16, 8)));
    Some(parts.collect())
}

/// Creates a file with a layout, like Lustre's own tools.
fn make(path: &Path, parts: &[Part], length: u64) {
    let flags = libc::O_NOCTTY | libc::O_ASYNC;
    let mut file = OpenOptions::new().write(true).create_new(true).custom_flags(flags).open(path).unwrap();
    fsetxattr(&file, LOV, &value(parts), XattrFlags::empty()).unwrap();
    file.write_all(&bytes(1, length)).unwrap();
}

fn copy(options: &[&str], source: &Path, target: &Path) -> RunOutcome {
    let run = program!().run_with(options).env("HAUL_TEST_STRIPED", "lustre").arg(source).arg(target);
    run.finish().unwrap()
}

fn standin(clients: usize, targets: u16) -> Standin {
    Standin::start(clients, &[&format!("--targets={targets}"), "--pool=fast=1-3"]).unwrap()
}

fn is_ready() -> Option<String> {
    standin::needed().or_else(|| program!().needs_haul())
}

#[test]
fn stripes_pools_and_components_survive() {
    require!(is_ready());
    let standin = standin(1, 6);
    let root = standin.client(0);
    let composite = vec![
        Part { end: 4 * MEBIBYTE, stripe_bytes: 1 << 20, count: 1, first: 4, pool: "" },
        Part { end: 16 * MEBIBYTE, count: 2, first: 0, ..PLAIN },
        Part { end: u64::MAX, count: 3, first: ANY, pool: "fast", ..PLAIN },
    ];
    let cases = [
        ("plain", vec![PLAIN]),
        ("pool", vec![Part { pool: "fast", count: 2, first: 3, ..PLAIN }]),
        ("wide", vec![Part { count: 6, stripe_bytes: 1 << 16, first: 5, ..PLAIN }]),
        ("composite", composite),
    ];
    for (name, parts) in &cases {
        make(&root.join(name), parts, 5 * MEBIBYTE + 7);
        for engine in ["--engine=sync", "--engine=io-uring"] {
            let target = root.join(format!("{name}{engine}"));
            let outcome = copy(&["--copy-layout", engine], &root.join(name), &target);
            assert!(outcome.succeeded() && outcome.errors().is_empty(), "{name}: {}", outcome.errors());
            assert_eq!(layout(&target).as_ref(), Some(parts), "{name}");
            assert_eq!(fs::read(&target).unwrap(), bytes(1, 5 * MEBIBYTE + 7), "{name}");
        }
    }
}

#[test]
fn stripes_are_reduced_and_the_first_target_left_free() {
    require!(is_ready());
    let standin = standin(1, 6);
    let root = standin.client(0);
    // The filesystem places its first free choice on target 0.
    let cases: [(&str, u64, u16, u16); 5] = [
        ("--reduce-stripes", 2 * MEBIBYTE, 1, 2),
        ("--reduce-stripes", 2 * MEBIBYTE + 1, 2, 2),
        ("--reduce-stripes", 30 * MEBIBYTE, 3, 2),
        ("--reduce-stripes", 0, 1, 2),
        ("--no-stripe-offset", 7 * MEBIBYTE, 3, 0),
    ];
    for (index, (option, length, count, first)) in cases.into_iter().enumerate() {
        let (source, target) = (root.join(format!("s{index}")), root.join(format!("t{index}")));
        make(&source, &[PLAIN], length);
        let outcome = copy(&["--copy-layout", option], &source, &target);
        assert!(outcome.succeeded() && outcome.errors().is_empty(), "{option}: {}", outcome.errors());
        assert_eq!(layout(&target), Some(vec![Part { count, first, ..PLAIN }]), "{option} {length}");
        assert_eq!(fs::read(&target).unwrap(), bytes(1, length));
    }
}

/// Both changes at once: through `spdcp`'s letters, and with ranks moving ranges of a file whose
/// layout differs from its source's.
#[test]
fn both_changes_of_a_layout_hold_for_spdcp_and_over_ranks() {
    require!(is_ready(), mpi::MpiKind::OpenMpi4.needed());
    let mpi = Mpi::find(mpi::MpiKind::OpenMpi4).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let spdcp = folder.path().join("spdcp");
    symlink(fs::canonicalize(program!().path()).unwrap(), &spdcp).unwrap();
    let ranks = [&mpi.options(3)[..], &["--range-size=2M".to_owned()]].concat();
    let long = ["--copy-layout", "--reduce-stripes", "--no-stripe-offset"];
    let cases = [
        (TestRun::new(&spdcp).args(["-c", "-n"]), 3 * MEBIBYTE, 2),
        (TestRun::new(&spdcp).args(["-c", "-n"]), 17 * MEBIBYTE, 3),
        (program!().run().args(&ranks).args(long), 3 * MEBIBYTE, 2),
        (program!().run().args(&ranks).args(long), 17 * MEBIBYTE, 3),
    ];
    for (index, (run, length, count)) in cases.into_iter().enumerate() {
        // A new stand-in for each case, so its first choice is target 0, or 1 after the ranks'
        // token file.
        let standin = standin(1, 6);
        let [source, target] = ["source", "target"].map(|name| standin.client(0).join(name));
        make(&source, &[PLAIN], length);
        let run = mpi.with(run);
        let run = run.env("HAUL_TEST_STRIPED", "lustre").arg(&source).arg(&target);
        let outcome = run.finish().unwrap();
        assert!(outcome.succeeded() && outcome.errors().is_empty(), "{index}: {}", outcome.errors());
        assert_eq!(
            layout(&target),
            Some(vec![Part { count, first: if index < 2 { 0 } else { 1 }, ..PLAIN }]),
            "{index}"
        );
        assert!(fs::read(&target).unwrap() == bytes(1, length), "{index}: other bytes");
    }
}

#[test]
fn what_a_smaller_file_system_gives_instead_is_reported_once() {
    require!(is_ready());
    let (large, small) = (standin(1, 8), standin(1, 4));
    let source = large.client(0).join("d");
    fs::create_dir(&source).unwrap();
    for index in 0..3 {
        make(&source.join(format!("f{index}")), &[Part { count: 8, first: index, ..PLAIN }], 100);
    }
    // The filesystem refuses a target that it doesn't have, and haul falls back to another.
    make(&source.join("g"), &[Part { count: 1, first: 7, ..PLAIN }], 100);
    let target = small.client(0).join("d");
    let outcome = copy(&["--copy-layout", "-r"], &source, &target);
    assert!(outcome.succeeded());
    let said = outcome.errors();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(
        said.contains("layout of '") && said.contains(" instead of ") || said.contains("another"),
        "{said}"
    );
    assert_eq!(layout(&target.join("f1")), Some(vec![Part { count: 4, first: 1, ..PLAIN }]));
    assert_eq!(layout(&target.join("g")).unwrap()[0].count, 1);
    assert!(compare_paths(&source, &target, Facts::CONTENT).unwrap().is_empty());
    fs::remove_dir_all(&target).unwrap();
    let said = copy(&["--copy-layout", "-r", "--debug"], &source, &target);
    let said = said.printed() + &said.errors();
    assert_eq!(said.matches("layout differs from the source's: ").count(), 4, "{said}");
}

#[test]
fn a_layout_that_is_refused_costs_no_data() {
    require!(is_ready());
    let standin = standin(1, 4);
    let root = standin.client(0);
    make(&root.join("source"), &[PLAIN], 3 * MEBIBYTE);
    standin.fail("* setxattr target EOPNOTSUPP\n").unwrap();
    let outcome = copy(&["--copy-layout"], &root.join("source"), &root.join("target"));
    assert!(outcome.succeeded(), "{}", outcome.errors());
    assert_eq!(outcome.errors().lines().count(), 1, "{}", outcome.errors());
    assert_eq!(layout(&root.join("target")).unwrap()[0].count, 1);
    assert_eq!(fs::read(root.join("target")).unwrap(), bytes(1, 3 * MEBIBYTE));
}

#[test]
fn directories_hand_their_layouts_on_only_when_asked() {
    require!(is_ready());
    let standin = standin(1, 4);
    let root = standin.client(0);
    fs::create_dir_all(root.join("source/below")).unwrap();
    let parts = [Part { count: 2, first: ANY, ..PLAIN }];
    setxattr(root.join("source/below"), LOV, &value(&parts), XattrFlags::empty()).unwrap();
    fs::write(root.join("source/below/f"), "content").unwrap();
    let copied = |options: &[&str], name: &str| {
        let outcome = copy(options, &root.join("source"), &root.join(name));
        assert!(outcome.succeeded() && outcome.errors().is_empty(), "{options:?}: {}", outcome.errors());
        layout(&root.join(name).join("below"))
    };
    assert_eq!(copied(&["-r", "--copy-layout"], "with"), Some(parts.to_vec()));
    assert_eq!(layout(&root.join("with/below/f")).unwrap()[0].count, 2);
    let before = standin.count("metadata.setxattr").unwrap();
    assert_eq!(copied(&["-a"], "without"), None);
    assert_eq!(
        standin.count("metadata.setxattr").unwrap(),
        before,
        "nothing of the layout is an attribute to copy"
    );
    assert_eq!(layout(&root.join("without/below/f")).unwrap()[0].count, 1);
}

#[test]
fn other_file_systems_are_asked_once_and_left_alone() {
    require!(needs::tool("strace"), program!().needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    fs::create_dir(sandbox.join("source")).unwrap();
    for index in 0..50 {
        File::create(sandbox.join(format!("source/f{index}"))).unwrap().write_all(b"content").unwrap();
    }
    for (option, asked) in [("--copy-layout", 1), ("--force", 0)] {
        let target = option.trim_matches('-');
        // Looking for cached data asks for the type too, on a tmpfs.
        let options = ["--engine=sync", "-j1", "--no-readahead", "-r", option, "-T", "source", target];
        let run = program!().run_with(&options).in_folder(sandbox.path());
        let (outcome, calls) = record(run, "fstatfs,fgetxattr,fsetxattr", &sandbox.join("log")).unwrap();
        assert!(outcome.succeeded(), "{}", outcome.errors());
        let names: Vec<_> = calls.iter().map(|call| call.name.as_str()).collect();
        assert_eq!(names, vec!["fstatfs"; asked], "{option}");
    }
}

/// Returns how many operations of each kind `haul sync` makes for one of `files` files.
fn operations_of_sync(standin: &Standin, files: u64, (from, to): (&Path, &Path)) -> [u64; 4] {
    let kinds = ["lookup", "listxattr", "getxattr", "setxattr"];
    let counts = || kinds.map(|kind| standin.count(&format!("metadata.{kind}")).unwrap());
    let before = counts();
    let run =
        TestRun::new(program!().path()).env("HAUL_TEST_STRIPED", "lustre").arg("sync").arg(from).arg(to);
    run.succeed().unwrap();
    let mut made = counts();
    made.iter_mut().zip(before).for_each(|(after, before)| *after = (*after - before) / files);
    made
}

#[test]
fn the_file_systems_own_attributes_cost_sync_nothing() {
    require!(is_ready());
    const FILES: u64 = 50;
    let standin = standin(1, 4);
    let (from, to) = (standin.client(0).join("from"), standin.client(0).join("to"));
    fs::create_dir(&from).unwrap();
    (0..FILES).for_each(|number| fs::write(from.join(number.to_string()), "content").unwrap());
    operations_of_sync(&standin, FILES, (&from, &to));
    // Source and target are each looked up for the `stat`, and again for the list: all have the
    // attributes of a layout, which are not read.
    assert_eq!(operations_of_sync(&standin, FILES, (&from, &to)), [4, 2, 0, 0]);
    // The user's own are.
    setxattr(from.join("7"), "user.new", b"value", XattrFlags::empty()).unwrap();
    operations_of_sync(&standin, FILES, (&from, &to));
    let mut value = [0; 9];
    assert_eq!(getxattr(to.join("7"), "user.new", &mut value[..]), Ok(5));
}
