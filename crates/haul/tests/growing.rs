//! Files that grow while they are copied, or hashed: they are read to EOF, as by `cp` and
//! `sha256sum`. They grow at a certain event of the run, not at a certain time.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use haul::flow::{OutputLine, Reporter, Standard, Tally};
use haul::options::{Atomic, IfChanged, Reflink, Sparse, Verify};
use haul::{Config, Copy, CopyOptions, Problem};
use haul_engine::Ops;
use haul_testkit::{Sandbox, needs, record_skip};

/// Length of a block.
const BLOCK: usize = 256 << 10;

/// Bytes that are appended: more than a block.
const MORE: usize = BLOCK + 1001;

/// The event at which the files grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// Each when its target was created, after its `fstat`.
    Created,
    /// All when the first bytes are counted.
    Counted,
}

/// Appends to files at an event, once to each.
struct Grower {
    event: Event,
    files: Mutex<Vec<PathBuf>>,
}

impl Grower {
    fn new(event: Event, files: &[PathBuf]) -> Self {
        Self { event, files: Mutex::new(files.to_vec()) }
    }

    fn grow(&self, event: Event, is_meant: impl Fn(&Path) -> bool) {
        if event != self.event {
            return;
        }
        let mut files = self.files.lock().unwrap();
        for path in files.extract_if(.., |path| is_meant(path)) {
            let more: Vec<u8> = (0..MORE).map(|index| (index % 253) as u8).collect();
            File::options().append(true).open(path).unwrap().write_all(&more).unwrap();
        }
    }
}

impl Reporter for Grower {
    fn count(&self, more: Tally) {
        if more.bytes > 0 {
            self.grow(Event::Counted, |_| true);
        }
    }
    fn line(&self, line: OutputLine) {
        self.grow(Event::Created, |path| line.names[0] == path.as_os_str().as_encoded_bytes());
    }
    fn problem(&self, problem: Problem) {
        panic!("{problem}");
    }
    fn output(&self, _: Standard, _: &[u8]) {}
    fn debug(&self, _: &str) {}
}

/// Makes files of these sizes, and one with holes, the last of which is at its end.
fn files(folder: &Path, sizes: &[usize]) -> Vec<PathBuf> {
    fs::create_dir(folder).unwrap();
    let sparse = folder.join("sparse");
    let file = File::create(&sparse).unwrap();
    file.set_len(12 << 20).unwrap();
    file.write_all_at(&[1; 5 << 20], 1 << 20).unwrap();
    let full = sizes.iter().map(|size| {
        let path = folder.join(size.to_string());
        fs::write(&path, (0..*size).map(|index| (index % 251) as u8).collect::<Vec<_>>()).unwrap();
        path
    });
    full.chain([sparse]).collect()
}

/// The engines by name, with several operations for each file and without.
fn ways() -> Vec<(&'static str, Option<Ops>)> {
    let mut ways = vec![("auto", None), ("sync", None), ("retry", None)];
    let engines = [
        ("io-uring", needs::io_uring()),
        ("kernel-aio", needs::kernel_aio()),
        ("posix-aio", needs::posix_aio()),
    ];
    for (engine, refused) in engines {
        match refused {
            Some(reason) => record_skip!("{reason}"),
            None => ways.extend(
                [None, Some(Ops::Single), Some(Ops::Multi), Some(Ops::Batch)].map(|ops| (engine, ops)),
            ),
        }
    }
    ways
}

/// A change of the options, and of the use of the machine.
type Variant = (&'static str, fn(&mut CopyOptions, &mut Config));

const VARIANTS: [Variant; 10] = [
    ("default", |_, _| {}),
    ("no sharing", |options, _| options.reflink = Reflink::Never),
    ("sparse", |options, _| options.sparse = Sparse::Always),
    ("not sparse", |options, _| options.sparse = Sparse::Never),
    ("direct", |options, config| {
        (options.reflink, config.switches.direct) = (Reflink::Never, true);
    }),
    ("allocated", |_, config| config.switches.allocate = true),
    ("dropped", |_, config| config.switches.drop_cache = true),
    ("not ahead", |options, config| {
        (options.reflink, config.switches.read_ahead) = (Reflink::Never, false);
    }),
    ("verified", |options, _| (options.verify, options.atomic) = (Verify::Stream, Atomic::Always)),
    ("again", |options, _| options.if_changed = IfChanged::Retry(1)),
];

/// Copies files that grow at an event, and asserts that the copies have all of them.
fn assert_whole(event: Event, (name, change): Variant, (engine, ops): (&str, Option<Ops>), sizes: &[usize]) {
    // Where no blocks are shared: that would copy a file at once.
    let folder = if name == "direct" { Sandbox::on_disk() } else { Sandbox::in_memory() }.unwrap();
    let source = folder.join("source");
    let paths = files(&source, sizes);
    let target = folder.join("target");
    let mut config = Config { engine: engine.parse().unwrap(), ops, jobs: Some(2), ..Config::default() };
    change(&mut CopyOptions::default(), &mut config);
    let copy = Copy::exactly(&source, &target).recursive().config(config).options(|options| {
        options.verbose = true;
        change(options, &mut Config::default());
    });
    let grower = Grower::new(event, &paths);
    let what = format!("{event:?}, {name}, {engine} {ops:?}");
    copy.run_with(&grower).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(grower.files.lock().unwrap().is_empty(), "{what}: nothing has grown");
    for path in paths {
        let copied = fs::read(target.join(path.file_name().unwrap())).unwrap();
        let original = fs::read(&path).unwrap();
        assert!(copied == original, "{what}: {path:?} has {} of {} bytes", copied.len(), original.len());
    }
}

#[test]
fn what_is_appended_once_the_target_exists_is_copied() {
    // The first block of the others may have been read, to EOF, before their target was created.
    for variant in VARIANTS {
        for way in ways() {
            assert_whole(Event::Created, variant, way, &[BLOCK, BLOCK + 1, 300_000, (2 << 20) + 13]);
        }
    }
}

#[test]
fn what_is_appended_while_a_large_file_is_copied_is_copied() {
    for variant in VARIANTS {
        for way in ways() {
            assert_whole(Event::Counted, variant, way, &[(9 << 20) + 13]);
        }
    }
}

/// Several workers: the one that moves the last range mustn't take its end for the file's.
#[test]
fn what_is_appended_while_several_ranges_are_copied_is_copied() {
    for way in ways().into_iter().filter(|(_, ops)| ops.is_none()) {
        assert_whole(Event::Counted, VARIANTS[1], way, &[(160 << 20) + 13]);
    }
}

#[cfg(feature = "sum")]
#[test]
fn what_is_appended_while_a_file_is_hashed_is_hashed() {
    use haul::{Algorithm, Sum};
    for algorithm in [Algorithm::Blake3, Algorithm::Sha256] {
        // Read by the engine, and in pieces or in order.
        for size in [4 << 20, (9 << 20) + 13] {
            for jobs in [1, 2] {
                let folder = tempfile::tempdir().unwrap();
                let path = files(&folder.path().join("source"), &[size]).remove(0);
                let config = Config { jobs: Some(jobs), ..Config::default() };
                let sum = Sum::new([&path]).algorithm(algorithm).config(config);
                let grower = Grower::new(Event::Counted, std::slice::from_ref(&path));
                let hashed = sum.run_with(&grower).unwrap().files.remove(0);
                let expected = sum.run().unwrap().files.remove(0);
                assert_eq!(hashed.bytes, Some((size + MORE) as u64), "{algorithm:?}, {size}, {jobs}");
                assert!(hashed.digest == expected.digest, "{algorithm:?}, {size}, {jobs}");
            }
        }
    }
}
