//! Options that change how a copy is made: what they promise beyond the same result.
//!
//! An impossible value is an error that names the possible ones, before anything is touched.
//! `--direct` reports the files that go through the page cache after all. `--drop-cache` leaves the
//! page cache as it found it, and so does a file too large for it. `--fallocate` and `--direct`
//! lose nothing on a full disk. `trees.rs` checks that results don't change.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs::{self, File};
use std::path::Path;

use haul_testkit::compare::compare_paths;
use haul_testkit::memory_group::MemoryGroup;
use haul_testkit::message::normalise;
use haul_testkit::mount::Mount;
use haul_testkit::program::{ENGINES, OPS, matrix};
use haul_testkit::run::RunEnding;
use haul_testkit::sandbox::remove_tree;
use haul_testkit::spec::{EntrySpec, PieceSpec, Spec, SpecKind};
use haul_testkit::standin::{self, Standin};
use haul_testkit::verdict::{CopyVerdict, judge};
use haul_testkit::{Facts, Sandbox, Snapshot, cold, compare, libc, needs, program, require};

#[test]
fn an_impossible_value_is_refused_before_anything_is_touched() {
    let ours = program!();
    require!(ours.needs_haul());
    let sizes = "512 to 1G";
    let depths = "1 to 4096";
    let cases: [(&[&str], &[&str]); 18] = [
        (&["--block-size=0"], &[sizes]),
        (&["--block-size=511"], &[sizes]),
        (&["--block-size=1000000000000000000"], &[sizes]),
        (&["--block-size=2G"], &[sizes]),
        (&["--block-size=-1"], &[sizes]),
        (&["--queue-depth=0"], &[depths]),
        (&["--queue-depth=1000000000"], &[depths]),
        (&["--look-ahead=0"], &[depths]),
        (&["-j", "0"], &["1 to 1024"]),
        (&["--engine=nonsense"], &["auto", "sync", "io-uring", "posix-aio", "kernel-aio", "retry"]),
        (&["--bwlimit=fast"], &["500K"]),
        (&["--bwlimit=-1"], &["500K"]),
        (&["--iops-limit=-1"], &["whole number"]),
        (&["--iops-limit=1K"], &["whole number"]),
        (&["--max-latency=3600001"], &["whole number from 0 to 3600000"]),
        (&["--ops=x"], &["single", "multi", "batch"]),
        (&["--direct", "--block-size=1000"], &["a multiple of 512"]),
        (&["--block-size=513", "--direct"], &["a multiple of 512"]),
    ];
    let sandbox = Sandbox::in_memory().unwrap();
    fs::write(sandbox.join("source"), "new").unwrap();
    fs::write(sandbox.join("older"), "older").unwrap();
    for (options, possible) in cases {
        for target in ["target", "older"] {
            let run = ours.run().args(options).args(["source", target]).in_folder(sandbox.path());
            let outcome = run.finish().unwrap();
            let said = outcome.errors();
            assert_eq!(outcome.ending, RunEnding::Exited(1), "{options:?}: {said}");
            assert!(possible.iter().all(|words| said.contains(words)), "{options:?}: {said}");
            let typed = options.iter().filter_map(|option| option.split_once('=')).next_back();
            let wrong = typed.map_or("0", |(_, value)| value);
            let named = said.contains(&format!("'{wrong}'")) || options[0] == "--block-size=513";
            assert!(named, "{options:?}: the value is not named: {said}");
        }
        assert!(!sandbox.join("target").exists(), "{options:?}");
        assert_eq!(fs::read(sandbox.join("older")).unwrap(), b"older", "{options:?}");
    }
}

/// Files of several blocks, with and without a partial last sector.
fn files() -> Spec {
    let lengths = [0, 1, 511, 4096, 5000, 65_536, 200_000, 262_144, 1_048_577];
    let file = |(index, bytes): (u64, u64)| EntrySpec::file(0, format!("file-{bytes}"), index, bytes);
    Spec { nodes: (0..).zip(lengths).map(file).collect() }
}

/// Copies with `--direct --debug` in every configuration, and returns the output of each.
fn copy_directly(sandbox: &Sandbox, refused: bool) -> Vec<(Vec<&'static str>, String)> {
    let (source, target) = (sandbox.join("source"), sandbox.join("target"));
    let mut said = Vec::new();
    for way in matrix() {
        remove_tree(&target);
        let run = program!().run_with(&way).args(["--direct", "--debug", "--reflink=never", "-r", "-T"]);
        let run = run.args([&source, &target]);
        let direct = u32::try_from(libc::O_DIRECT).unwrap();
        let run = if refused { run.refusing_bits(libc::SYS_fcntl, 2, direct, libc::EINVAL) } else { run };
        let outcome = run.finish().unwrap();
        assert!(outcome.succeeded(), "{way:?}: {:?} {}", outcome.ending, outcome.errors());
        let differences = compare_paths(&source, &target, Facts::CONTENT).unwrap();
        assert!(differences.is_empty(), "{way:?}: {differences}");
        said.push((way, format!("{}{}", outcome.printed(), outcome.errors())));
    }
    said
}

/// Counts the lines about a file that contain `what`.
fn lines_about(said: &str, what: &str) -> usize {
    said.lines().filter(|line| line.contains("/file-") && line.contains(what)).count()
}

const BUFFERED: &str = "through the page cache";

/// Older kernels refuse direct I/O on tmpfs. Newer ones accept it, though there is no cache
/// to bypass.
#[test]
fn direct_in_memory_copies_and_says_what_was_refused() {
    require!(program!().needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    files().build(&sandbox.join("source")).unwrap();
    let with_data = files().nodes.len() - 1;
    for (way, said) in copy_directly(&sandbox, true) {
        assert!(lines_about(&said, BUFFERED) >= with_data, "{way:?}:\n{said}");
    }
    let takes_direct = {
        use std::os::unix::fs::OpenOptionsExt;
        let mut options = fs::OpenOptions::new();
        options.read(true).custom_flags(libc::O_DIRECT).open(sandbox.join("source/file-4096")).is_ok()
    };
    for (way, said) in copy_directly(&sandbox, false) {
        let lines = lines_about(&said, BUFFERED);
        assert!(takes_direct || lines >= with_data, "{way:?}:\n{said}");
    }
}

#[test]
fn direct_on_a_disk_goes_past_the_page_cache() {
    require!(program!().needs_haul(), needs::loop_mount("ext4"));
    let disk = Mount::image("ext4", 64 << 20).unwrap();
    let sandbox = Sandbox::below(disk.path()).unwrap();
    let source = sandbox.join("source");
    files().build(&source).unwrap();
    if let Err(reason) = cached(&source.join("file-4096")) {
        haul_testkit::skip!("{reason}");
    }
    cold::make(&source).unwrap();
    for (way, said) in copy_directly(&sandbox, false) {
        assert_eq!(lines_about(&said, BUFFERED), 0, "{way:?}:\n{said}");
        // The comparison has read the copies, so only the source's pages prove anything.
        cold::make(&source).unwrap();
    }
    let target = sandbox.join("target");
    for (engine, ops) in ENGINES.iter().flat_map(|engine| OPS.map(|ops| (*engine, ops))) {
        remove_tree(&target);
        let run = program!().run_with(&[engine, ops, "--direct", "--reflink=never", "--block-size=16K"]);
        let outcome = run.args(["-r", "-T"]).args([&source, &target]).finish().unwrap();
        assert!(outcome.succeeded(), "{engine} {ops}: {}", outcome.errors());
        for node in files().nodes {
            let name = String::from_utf8(node.name).unwrap();
            assert_eq!(cached(&source.join(&name)), Ok(0), "{engine} {ops}: {name} came into the page cache");
            // Only the last bytes, which fill no sector, are written through the cache.
            let tail = cached(&target.join(&name)).unwrap();
            let page = if file_bytes(&node.kind).is_multiple_of(4096) { 0 } else { 4096 };
            assert!(tail <= page, "{engine} {ops}: {tail} bytes of the copy of {name} are in memory");
        }
    }
}

fn file_bytes(kind: &SpecKind) -> u64 {
    let SpecKind::File(pieces) = kind else { return 0 };
    let length = |piece: &PieceSpec| match piece {
        PieceSpec::Data { bytes, .. } | PieceSpec::Hole(bytes) | PieceSpec::Zeros(bytes) => *bytes,
    };
    pieces.iter().map(length).sum()
}

/// Returns how many bytes of a file are in the page cache, or why that is unknown.
fn cached(path: &Path) -> Result<u64, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    haul_sys::cached_bytes(&file).map_err(|error| format!("needs cachestat: {error}"))
}

/// On file systems with locks for many directories at once, a copy begins with one worker per
/// processor, unless their number was given.
#[test]
fn locks_of_the_file_system_make_a_copy_begin_with_half_of_the_workers() {
    require!(program!().needs_haul());
    for (file_system, has_locks) in [("xfs", true), ("btrfs", true), ("ext4", false)] {
        require!(needs::loop_mount(file_system));
        let disk = Mount::image(file_system, 400 << 20).unwrap();
        let sandbox = Sandbox::below(disk.path()).unwrap();
        sandbox.script("mkdir source; echo text >source/file").unwrap();
        for (jobs, begins_with_half) in [(None, has_locks), (Some("--jobs=4"), false)] {
            let run = program!().run_with(&["--debug"]).args(jobs).args(["-r", "source", "target"]);
            let outcome = run.in_folder(sandbox.path()).finish().unwrap();
            let output = [outcome.printed(), outcome.errors()].concat();
            assert_eq!(output.contains("starting with half of the workers"), begins_with_half, "{output}");
            remove_tree(&sandbox.join("target"));
        }
    }
}

/// Cold source files stay cold, warm ones stay warm, and no copy stays in memory.
#[test]
fn drop_cache_leaves_the_page_cache_as_it_was_found() {
    require!(program!().needs_haul());
    for file_system in ["ext4", "xfs"] {
        require!(needs::loop_mount(file_system));
        let disk = Mount::image(file_system, 400 << 20).unwrap();
        let sandbox = Sandbox::below(disk.path()).unwrap();
        let (source, target) = (sandbox.join("source"), sandbox.join("target"));
        let spec = files();
        spec.build(&source).unwrap();
        let names: Vec<_> =
            spec.nodes.iter().map(|node| String::from_utf8(node.name.clone()).unwrap()).collect();
        let warm = ["file-5000", "file-200000"];
        let count = |folder: &Path| {
            names.iter().map(|name| cached(&folder.join(name))).collect::<Result<Vec<_>, _>>()
        };
        if let Err(reason) = count(&source) {
            haul_testkit::skip!("{reason}");
        }
        let several = ["--ops=multi", "--block-size=16K", "--reflink=never"];
        let ways = ENGINES.iter().flat_map(|engine| [vec![*engine], [&[*engine], &several[..]].concat()]);
        for way in ways {
            remove_tree(&target);
            cold::make(&source).unwrap();
            assert_eq!(count(&source).unwrap().iter().sum::<u64>(), 0, "the source is not cold");
            for name in warm {
                fs::read(source.join(name)).unwrap();
            }
            let before = count(&source).unwrap();
            assert!(before.iter().sum::<u64>() >= 5000 + 200_000, "nothing is warm: {before:?}");
            let run = program!().run_with(&way).args(["--drop-cache", "-r", "-T"]).args([&source, &target]);
            let outcome = run.finish().unwrap();
            assert!(outcome.succeeded(), "{way:?}: {}", outcome.errors());
            let about = |bytes: &[u64]| names.iter().cloned().zip(bytes.iter().copied()).collect::<Vec<_>>();
            let (after, copies) = (count(&source).unwrap(), count(&target).unwrap());
            assert_eq!(about(&before), about(&after), "{file_system} {way:?}: the source's pages");
            assert_eq!(
                copies.iter().sum::<u64>(),
                0,
                "{file_system} {way:?}: in memory: {:?}",
                about(&copies)
            );
            let differences = compare_paths(&source, &target, Facts::CONTENT).unwrap();
            assert!(differences.is_empty(), "{file_system} {way:?}: {differences}");
        }
    }
}

/// Copies more than fits, with preallocation, direct I/O or both: every failure is reported
/// by name.
#[test]
fn a_full_disk_with_space_reserved_or_past_the_cache_loses_nothing_in_silence() {
    require!(program!().needs_haul(), needs::loop_mount("ext4"));
    let sandbox = Sandbox::in_memory().unwrap();
    let source = sandbox.join("source");
    let mut nodes = vec![
        EntrySpec::new(0, "large", SpecKind::Directory),
        EntrySpec::new(0, "small", SpecKind::Directory),
    ];
    nodes.push(EntrySpec::file(1, "larger-than-the-disk", 9, 40 << 20));
    nodes.extend((0..4).map(|index| EntrySpec::file(1, format!("large-{index}"), index, 9 << 20)));
    nodes.extend((0..20).map(|index| EntrySpec::file(2, format!("small-{index}"), index, 10_000)));
    Spec { nodes }.build(&source).unwrap();
    let expected = Snapshot::take(&source, Facts::CONTENT).unwrap();
    let disk = Mount::image("ext4", 24 << 20).unwrap();
    let target = disk.join("target");
    let switches: [&[&str]; 3] = [&["--fallocate"], &["--direct"], &["--fallocate", "--direct"]];
    for (way, switches) in matrix().into_iter().zip(switches.into_iter().cycle()) {
        remove_tree(&target);
        let way = [&way[..3], switches, &["--block-size=64K", "--reflink=never"]].concat();
        let outcome = program!().run_with(&way).args(["-r", "-T"]).args([&source, &target]).finish().unwrap();
        let found = Snapshot::take(&target, Facts::CONTENT).unwrap();
        let differences = compare(&expected, &found, Facts::CONTENT).unwrap();
        let verdict = judge(&outcome, &expected, &differences, [&source, &target]);
        assert_eq!(verdict, Ok(CopyVerdict::Reported), "{way:?}");
        let lines = normalise(&outcome.stderr);
        assert!(lines.iter().all(|line| line.ends_with(": No space left on device")), "{way:?}: {lines:?}");
        assert_eq!(lines.len(), differences.list.len(), "{way:?}: {lines:?}\n{differences}");
    }
}

/// Where every call takes a millisecond, more workers are started than processors can use, unless
/// their number is given.
#[test]
fn a_slow_file_system_gets_more_workers() {
    require!(standin::needed());
    let ours = program!();
    require!(ours.needs_haul());
    let standin = Standin::start(1, &["--metadata-latency=1ms", "--latency=1ms"]).unwrap();
    let [source, target] = ["source", "target"].map(|name| standin.client(0).join(name));
    let folders = (0..4).map(|index| EntrySpec::new(0, format!("folder-{index}"), SpecKind::Directory));
    let files =
        (0..64).map(|index| EntrySpec::file(1 + index % 4, format!("file-{index}"), index as u64, 500));
    Spec { nodes: folders.chain(files).collect() }.build(&source).unwrap();
    for (own, has_more) in [(&["--engine=auto"], true), (&["-j3"], false), (&["--engine=sync"], true)] {
        let run = ours.run().args(["--debug", "-r", "-T"]).args(own).args([&source, &target]);
        let outcome = run.finish().unwrap();
        assert!(outcome.succeeded(), "{own:?}: {}", outcome.errors());
        let said = outcome.printed() + &outcome.errors();
        assert_eq!(said.contains("starting more"), has_more, "{own:?}: {said}");
        let differences = compare_paths(&source, &target, Facts::CONTENT).unwrap();
        assert!(differences.is_empty(), "{own:?}: {differences}");
        remove_tree(&target);
    }
}

#[test]
fn workers_rest_while_metadata_calls_take_too_long() {
    require!(standin::needed());
    let ours = program!();
    require!(ours.needs_haul());
    let standin = Standin::start(1, &["--metadata-latency=2ms"]).unwrap();
    // A fast source must not hide a slow target.
    let sandbox = Sandbox::in_memory().unwrap();
    let (source, target) = (sandbox.join("source"), standin.client(0).join("target"));
    let files = (0..100).map(|index| EntrySpec::file(0, format!("file-{index}"), index, 500));
    Spec { nodes: files.collect() }.build(&source).unwrap();
    for (latency, rest) in [("1", true), ("60000", false)] {
        let run = ours.run().args(["--debug", "-r", "-T", "-j4"]).arg(format!("--max-latency={latency}"));
        let outcome = run.args([&source, &target]).finish().unwrap();
        assert!(outcome.succeeded(), "{latency}: {}", outcome.errors());
        let said = outcome.printed() + &outcome.errors();
        assert_eq!(said.contains("metadata latency"), rest, "{latency}: {said}");
        assert_eq!(said.contains("from 2 workers to 1\n"), rest, "{latency}: {said}");
        let differences = compare_paths(&source, &target, Facts::CONTENT).unwrap();
        assert!(differences.is_empty(), "{latency}: {differences}");
        remove_tree(&target);
    }
}

/// A file larger than the dirty data that the kernel allows leaves nothing in the page cache, to
/// the same file system or another, and whatever was cached of its source stays.
#[test]
fn a_file_that_outgrows_the_page_cache_leaves_nothing_there() {
    const BYTES: u64 = 100 << 20;
    require!(program!().needs_haul(), needs::loop_mount("ext4"));
    // A fifth of this may be dirty.
    let group = match MemoryGroup::new(300 << 20) {
        Ok(group) => group,
        Err(error) => haul_testkit::skip!("needs a control group for memory: {error}"),
    };
    let (disk, other) = (Mount::image("ext4", 400 << 20).unwrap(), Mount::image("ext4", 200 << 20).unwrap());
    let source = disk.join("source");
    Spec { nodes: vec![EntrySpec::file(0, "source", 1, BYTES)] }.build(disk.path()).unwrap();
    if let Err(reason) = cached(&source) {
        haul_testkit::skip!("{reason}");
    }
    let cases: [(&[&str], bool); 3] =
        [(&[], true), (&["--sparse=always"], true), (&["--engine=sync"], false)];
    for (options, drops) in cases {
        for folder in [disk.path(), other.path()] {
            let target = folder.join("target");
            cold::make(&source).unwrap();
            let run = program!().run().args(options).args([&source, &target]);
            let outcome = group.around(run).finish().unwrap();
            assert!(outcome.succeeded(), "{options:?}: {}", outcome.errors());
            // The kernel drops a page when it has been written.
            fs::File::open(&target).unwrap().sync_all().unwrap();
            let (left, copied) = (cached(&source).unwrap(), cached(&target).unwrap());
            // The first block is looked for in the cache.
            let is_empty = left <= 1 << 20 && copied <= 1 << 20;
            assert_eq!(is_empty, drops, "{options:?} {}: {left} and {copied} bytes", folder.display());
            assert_eq!(fs::read(&source).unwrap(), fs::read(&target).unwrap(), "{options:?}");
            fs::remove_file(&target).unwrap();
        }
    }
}

#[test]
fn a_limited_copy_takes_at_least_the_time_that_the_limit_allows() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    // 2.5 MB: a large file, and small ones.
    sandbox
        .script("mkdir s; head -c 1500000 /dev/urandom >s/f; for n in $(seq 100); do head -c 10000 s/f >s/$n; done")
        .unwrap();
    let ways = [
        "--engine=sync -j1",
        "--engine=sync -j4 --sparse=never",
        "--engine=retry -j4",
        "--engine=posix-aio --ops=multi -j2",
        "--block-size=1M",
    ];
    let ways = ways.into_iter().chain(needs::io_uring().is_none().then_some("--engine=io-uring -j4"));
    for way in ways {
        remove_tree(&sandbox.join("t"));
        let began = std::time::Instant::now();
        let run = ours.run().args(way.split(' ')).args(["--bwlimit=2MB", "-r", "s", "t"]);
        let outcome = run.in_folder(sandbox.path()).finish().unwrap();
        // 1.25 s, but for what is made up for.
        assert!(began.elapsed().as_secs_f64() > 1.0, "{way}: {:?}", began.elapsed());
        assert!(outcome.succeeded(), "{way}: {}", outcome.errors());
        let differences = compare_paths(&sandbox.join("s"), &sandbox.join("t"), Facts::CONTENT);
        assert!(differences.unwrap().is_empty(), "{way}");
    }
}

#[test]
fn a_run_with_limited_operations_takes_at_least_their_time() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    // 63 entries, of which 40 are files with one block, one is a file of ten blocks and twenty are
    // links: 113 operations.
    sandbox
        .script(
            "mkdir -p s/d; head -c 40960 /dev/urandom >s/f; for n in $(seq 40); do head -c 999 s/f >s/$n; done; \
             for n in $(seq 20); do ln -s x s/d/$n; done",
        )
        .unwrap();
    let ways = ["--engine=sync -j1", "--engine=sync -j4", "--engine=posix-aio --ops=multi -j2"];
    let ways = ways.into_iter().chain(needs::io_uring().is_none().then_some("--engine=io-uring -j4"));
    for way in ways {
        remove_tree(&sandbox.join("t"));
        let began = std::time::Instant::now();
        let run =
            ours.run().args(way.split(' ')).args(["--reflink=never", "--sparse=never", "--block-size=4K"]);
        let outcome =
            run.args(["--iops-limit=100", "-r", "s", "t"]).in_folder(sandbox.path()).finish().unwrap();
        assert!(began.elapsed().as_secs_f64() > 1.0, "{way}: {:?}", began.elapsed());
        assert!(outcome.succeeded(), "{way}: {}", outcome.errors());
        let differences = compare_paths(&sandbox.join("s"), &sandbox.join("t"), Facts::CONTENT);
        assert!(differences.unwrap().is_empty(), "{way}");
    }
}
