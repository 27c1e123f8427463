//! Copies on a real CephFS: layouts, trees, and files copied jointly by several processes, each
//! with its own mount.
//!
//! The cluster is one monitor, three in-memory OSDs, a metadata server and three mounts, shared by
//! the tests that run at the same time. With `--copy-layout` a copy has its source's striping, pool
//! and namespace, even if its directory sets another layout; without it, it inherits the
//! directory's. What another cluster lacks is reported once. `spdcp -c` and `-n` behave as
//! docs/cluster.md says. The copy always matches GNU cp's.
//!
//! haul recognises Ceph by the filesystem type: only one test sets `HAUL_TEST_STRIPED`.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use haul_testkit::ceph::{self, Cluster, OTHER_POOL, POOL};
use haul_testkit::compare::compare_paths;
use haul_testkit::message::normalise;
use haul_testkit::mpi::{Mpi, MpiKind};
use haul_testkit::program::{ENGINES, write_script};
use haul_testkit::random::bytes;
use haul_testkit::run::{RunOutcome, TestRun};
use haul_testkit::rustix::fs::{XattrFlags, getxattr, setxattr};
use haul_testkit::rustix::io::Errno;
use haul_testkit::strace::record;
use haul_testkit::{Ceph, CopyProgram, Facts, Sandbox, everything, needs, program, require};

const OF_FILE: &str = "ceph.file.layout";
const OF_DIRECTORY: &str = "ceph.dir.layout";
/// Default layout of a new file.
const USUAL: &str = "stripe_unit=4194304 stripe_count=1 object_size=4194304 pool=data";
/// 64 KiB stripes over three objects of 1 MiB.
const STRIPED: &str = "stripe_unit=65536 stripe_count=3 object_size=1048576";
const MEBIBYTE: u64 = 1 << 20;
const LIMIT: Duration = Duration::from_secs(60);

/// The shared cluster, alive while any test uses it, and a directory of this test's own.
struct Ground {
    ceph: Arc<Ceph>,
    name: String,
}

impl Ground {
    fn new() -> Self {
        static RUNNING: Mutex<Weak<Ceph>> = Mutex::new(Weak::new());
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let ceph = running.upgrade().unwrap_or_else(|| {
            let started = Arc::new(Ceph::start(Cluster { clients: 3, ..Cluster::default() }).unwrap());
            *running = Arc::downgrade(&started);
            started
        });
        let name = format!("ground-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        fs::create_dir(ceph.client(0).join(&name)).unwrap();
        Self { ceph, name }
    }

    fn join(&self, name: &str) -> PathBuf {
        self.ceph.client(0).join(&self.name).join(name)
    }
}

/// The striped layout in the pool `data`.
fn striped() -> String {
    format!("{STRIPED} pool={POOL}")
}

fn give(path: &Path, key: &str, layout: &str) {
    setxattr(path, key, layout.as_bytes(), XattrFlags::empty()).unwrap();
}

fn layout(path: &Path, key: &str) -> Option<String> {
    let mut room = vec![0; 1024];
    match getxattr(path, key, &mut room[..]) {
        Ok(length) => Some(String::from_utf8(room[..length].to_vec()).unwrap()),
        Err(Errno::NODATA) => None,
        Err(errno) => panic!("{}: {errno}", path.display()),
    }
}

fn of_file(path: &Path) -> String {
    layout(path, OF_FILE).unwrap()
}

fn make(path: &Path, layout: &str, length: u64) {
    fs::write(path, "").unwrap();
    give(path, OF_FILE, layout);
    fs::write(path, bytes(1, length)).unwrap();
}

fn copy(options: &[&str], source: &Path, target: &Path) -> RunOutcome {
    program!().run_with(options).arg(source).arg(target).within(LIMIT).finish().unwrap()
}

/// Copies, and asserts success without any message.
fn copy_well(options: &[&str], source: &Path, target: &Path) {
    let outcome = copy(options, source, target);
    assert!(outcome.succeeded() && outcome.errors().is_empty(), "{options:?}: {}", outcome.errors());
}

macro_rules! needed {
    () => {
        require!(ceph::needed(), program!().needs_haul());
    };
}

#[test]
fn stripes_pools_and_namespaces_survive() {
    needed!();
    let ground = Ground::new();
    let cases = [
        ("usual", USUAL.to_owned()),
        ("striped", striped()),
        ("pool", format!("{STRIPED} pool={OTHER_POOL}")),
        ("namespace", format!("{STRIPED} pool={OTHER_POOL} pool_namespace=part")),
        ("wide", "stripe_unit=65536 stripe_count=20 object_size=65536 pool=data".to_owned()),
    ];
    let length = 3 * MEBIBYTE + 7;
    for (name, asked) in &cases {
        let source = ground.join(name);
        make(&source, asked, length);
        assert_eq!(&of_file(&source), asked);
        for engine in ENGINES {
            let target = ground.join(&format!("{name}{engine}"));
            copy_well(&["--copy-layout", engine], &source, &target);
            assert_eq!(&of_file(&target), asked, "{name} {engine}");
            assert_eq!(fs::read(&target).unwrap(), bytes(1, length), "{name} {engine}");
        }
        let target = ground.join(&format!("{name}-inherits"));
        copy_well(&[], &source, &target);
        assert_eq!((of_file(&target).as_str(), fs::read(&target).unwrap()), (USUAL, bytes(1, length)));
    }
}

#[test]
fn the_bytes_are_in_the_objects_of_the_layout() {
    needed!();
    let ground = Ground::new();
    let (source, target) = (ground.join("source"), ground.join("target"));
    make(&source, &format!("{STRIPED} pool={OTHER_POOL}"), 4 * MEBIBYTE);
    copy_well(&["--copy-layout"], &source, &target);
    fs::File::open(&target).unwrap().sync_all().unwrap();
    let inode = fs::metadata(&target).unwrap().ino();
    // Three objects of 1 MiB are full; the rest is striped over three more.
    assert_eq!(ground.ceph.objects(OTHER_POOL, inode).unwrap(), 6);
}

/// Unless the file is synced, a changed layout blocks writers for up to five seconds.
#[test]
fn a_layout_is_set_only_where_it_differs_and_synchronised_then() {
    needed!();
    require!(needs::tool("strace"));
    let (ground, folder) = (Ground::new(), Sandbox::in_memory().unwrap());
    for (name, asked, before_writing) in [
        ("usual", USUAL.to_owned(), &["pwrite64"][..]),
        ("other", striped(), &["fsetxattr", "fsync", "pwrite64"]),
    ] {
        make(&ground.join(name), &asked, 100);
        let run = program!().run_with(&["--copy-layout", "--engine=sync"]).arg(ground.join(name));
        let run = run.arg(ground.join(&format!("{name}-copy")));
        let (outcome, calls) = record(run, "fsetxattr,fsync,pwrite64", &folder.join(name)).unwrap();
        assert!(outcome.succeeded(), "{}", outcome.errors());
        let names: Vec<_> = calls.iter().map(|call| call.name.as_str()).collect();
        assert_eq!(names, before_writing, "{name}");
    }
}

/// A new file starts with the layout of its directory, namespace included.
#[test]
fn what_a_directory_hands_down_is_replaced() {
    needed!();
    let ground = Ground::new();
    let into = ground.join("into");
    fs::create_dir(&into).unwrap();
    let handed_down = "stripe_unit=1048576 stripe_count=2 object_size=2097152 pool=fast pool_namespace=part";
    give(&into, OF_DIRECTORY, handed_down);
    fs::create_dir(ground.join("tree")).unwrap();
    give(&ground.join("tree"), OF_DIRECTORY, &striped());
    make(&ground.join("tree/file"), USUAL, 100);
    copy_well(&["-r", "--copy-layout"], &ground.join("tree"), &into);
    assert_eq!(of_file(&into.join("tree/file")), USUAL);
    assert_eq!(layout(&into.join("tree"), OF_DIRECTORY), Some(striped()));
    copy_well(&["-a"], &ground.join("tree"), &into.join("plain"));
    assert_eq!(of_file(&into.join("plain/file")), handed_down);
    assert_eq!(layout(&into.join("plain"), OF_DIRECTORY), None);
}

#[test]
fn directories_hand_their_layouts_on_only_when_asked() {
    needed!();
    let ground = Ground::new();
    let source = ground.join("source");
    fs::create_dir_all(source.join("below")).unwrap();
    let asked = format!("{STRIPED} pool={OTHER_POOL}");
    give(&source.join("below"), OF_DIRECTORY, &asked);
    fs::write(source.join("below/file"), "content").unwrap();
    assert_eq!(of_file(&source.join("below/file")), asked);
    for (options, name, expected) in
        [(&["-r", "--copy-layout"][..], "with", Some(asked.clone())), (&["-a"], "without", None)]
    {
        copy_well(options, &source, &ground.join(name));
        let below = ground.join(name).join("below");
        assert_eq!(layout(&below, OF_DIRECTORY), expected, "{name}");
        assert_eq!(of_file(&below.join("file")), expected.unwrap_or_else(|| USUAL.to_owned()));
        assert!(compare_paths(&source, &ground.join(name), Facts::CONTENT).unwrap().is_empty());
    }
}

/// A file too short for all its stripes gets fewer objects. Ceph always places the first object.
#[test]
fn spdcp_reduces_stripes_and_leaves_the_first_target_to_ceph() {
    needed!();
    let ground = Ground::new();
    let folder = Sandbox::in_memory().unwrap();
    let spdcp = folder.join("spdcp");
    symlink(fs::canonicalize(program!().path()).unwrap(), &spdcp).unwrap();
    for (number, (option, length, stripes)) in [
        ("-c", 0, 1),
        ("-c", 65_536, 1),
        ("-c", 65_537, 2),
        ("-c", MEBIBYTE, 3),
        ("-n", 100, 3),
        ("-p", 100, 3),
    ]
    .into_iter()
    .enumerate()
    {
        let (source, target) = (ground.join(&format!("s{number}")), ground.join(&format!("t{number}")));
        make(&source, &striped(), length);
        let outcome = TestRun::new(&spdcp).arg(option).arg(&source).arg(&target).finish().unwrap();
        assert!(outcome.succeeded() && outcome.errors().is_empty(), "{option}: {}", outcome.errors());
        let expected = striped().replace("count=3", &format!("count={stripes}"));
        assert_eq!((of_file(&target), fs::read(&target).unwrap()), (expected, bytes(1, length)), "{option}");
    }
}

#[test]
fn what_another_cluster_has_not_is_reported_once() {
    needed!();
    let ground = Ground::new();
    let other = Ceph::start(Cluster { daemons: 1, clients: 1, has_other_pool: false }).unwrap();
    let source = ground.join("source");
    fs::create_dir(&source).unwrap();
    give(&source, OF_DIRECTORY, &format!("{STRIPED} pool={OTHER_POOL}"));
    for number in 0..3 {
        fs::write(source.join(format!("file-{number}")), bytes(number, 200_000)).unwrap();
    }
    make(&source.join("there"), USUAL, 100);
    let target = other.client(0).join("target");
    let outcome = copy(&["-r", "--copy-layout"], &source, &target);
    let told = outcome.errors();
    assert!(outcome.succeeded() && told.lines().count() == 1 && told.ends_with(": another pool\n"), "{told}");
    // The striping is kept nevertheless.
    assert_eq!(layout(&target, OF_DIRECTORY), Some(striped()));
    assert_eq!(of_file(&target.join("file-1")), striped());
    assert_eq!(of_file(&target.join("there")), USUAL);
    assert!(compare_paths(&source, &target, Facts::CONTENT).unwrap().is_empty());
    let memory = Sandbox::in_memory().unwrap();
    copy_well(&["-r", "--copy-layout"], &source, &memory.join("target"));
    assert!(compare_paths(&source, &memory.join("target"), Facts::CONTENT).unwrap().is_empty());
    copy_well(&["-r", "--copy-layout"], &memory.join("target"), &ground.join("back"));
    assert_eq!(of_file(&ground.join("back/file-1")), USUAL);
}

/// Ceph answers `lustre.lov` too; it must not be mistaken for Lustre, not even with a
/// stand-in configured.
#[test]
fn ceph_is_known_by_its_type() {
    needed!();
    let ground = Ground::new();
    let (source, target) = (ground.join("source"), ground.join("target"));
    make(&source, &striped(), 100);
    let run = program!().run_with(&["--copy-layout"]).env("HAUL_TEST_STRIPED", "lustre");
    assert!(run.arg(&source).arg(&target).finish().unwrap().succeeded());
    assert_eq!(of_file(&target), striped());
}

/// Copies a tree of everything to Ceph, within it and back, alongside GNU cp.
#[test]
fn trees_are_as_gnu_cp_makes_them() {
    needed!();
    require!(CopyProgram::needs_gnu());
    let (ground, memory) = (Ground::new(), Sandbox::in_memory().unwrap());
    everything::spec().build(&memory.join("tree")).unwrap();
    // ceph-fuse doesn't report holes: reading the zeros of this file would take an hour.
    fs::remove_file(memory.join("tree/sub/sub/deep/hole-huge")).unwrap();
    fs::create_dir(ground.join("gnu")).unwrap();
    let facts = Facts::PRESERVED - Facts::HOLES;
    let run = |program: TestRun, source: &Path, folder: &Path| {
        let outcome =
            program.arg("-aT").arg(source).arg("to").in_folder(folder).within(LIMIT).finish().unwrap();
        (outcome.status(), normalise(&outcome.stderr))
    };
    let gnu = CopyProgram::gnu().unwrap();
    let expected = run(gnu.run(), &memory.join("tree"), &ground.join("gnu"));
    let on_ceph = ground.join("gnu/to");
    for engine in ENGINES {
        for (source, step, parent) in [
            (memory.join("tree"), "to", ground.join(engine)),
            (on_ceph.clone(), "on", ground.join(&format!("{engine}-again"))),
            (on_ceph.clone(), "from", memory.join(engine)),
        ] {
            fs::create_dir(&parent).unwrap();
            let ended = run(program!().run_with(&[engine]), &source, &parent);
            let what = format!("{engine} {step}");
            match step {
                "to" => assert_eq!(ended, expected, "{what}"),
                _ => assert_eq!(ended.0, Some(0), "{what}: {:?}", ended.1),
            }
            let differences = compare_paths(&on_ceph, &parent.join("to"), facts).unwrap();
            assert!(differences.is_empty(), "{what}: {differences}");
        }
    }
}

/// Writes the program that ranks run. Each rank mounts its own client over the first one's path and
/// records the device number.
fn write_agent(folder: &Sandbox, ceph: &Ceph) -> PathBuf {
    let haul = fs::canonicalize(program!().path()).unwrap();
    let path = folder.join("agent");
    let text = format!(
        "#!/bin/sh\nexec unshare --mount sh -ec '\n\
           mount --bind \"$0$OMPI_COMM_WORLD_RANK\" \"$1\"\n\
           stat -c %d \"$1\" > \"$2/device-$OMPI_COMM_WORLD_RANK\"\n\
           shift 2\nexec \"$@\"' '{}' '{}' '{}' '{}' \"$@\"\n",
        ceph.client(0).display().to_string().trim_end_matches('0'),
        ceph.client(0).display(),
        folder.path().display(),
        haul.display(),
    );
    write_script(&path, &text).unwrap();
    path
}

#[test]
fn ranks_with_mounts_of_their_own_make_the_same_copy() {
    needed!();
    require!(MpiKind::OpenMpi4.needed());
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    let (ground, folder) = (Ground::new(), Sandbox::in_memory().unwrap());
    let agent = write_agent(&folder, &ground.ceph);
    let source = ground.join("source");
    fs::create_dir_all(source.join("small")).unwrap();
    for number in 0..60 {
        fs::write(source.join(format!("small/{number}")), bytes(number, 10 * number)).unwrap();
    }
    make(&source.join("striped"), &format!("{STRIPED} pool={OTHER_POOL}"), 20 * MEBIBYTE + 1);
    make(&source.join("objects"), USUAL, 20 * MEBIBYTE);
    for (options, name) in [(&["-a", "--copy-layout"][..], "kept"), (&["-r"], "inherited")] {
        let target = ground.join(name);
        let launcher = format!("--launcher={}", mpi.launcher().display());
        let run =
            program!().run().args(["--clients=3", &launcher, "--range-size=1M", "--debug"]).args(options);
        let run = mpi.with(run);
        let run = run.env("HAUL_AGENT", &agent).arg("-T").arg(&source).arg(&target);
        let outcome = run.umask(0o022).within(LIMIT).finish().unwrap();
        let told = outcome.errors();
        assert!(outcome.succeeded(), "{name}: {told}");
        // 20 MiB in objects of 4 MiB, and of 1 MiB.
        let objects =
            if name == "kept" { ["on 5 stripes", "on 21 stripes"] } else { ["on 5 stripes", "on 6 stripes"] };
        for each in objects {
            assert!(
                told.lines().any(|line| line.contains(": a team of ") && line.contains(each)),
                "{each}: {told}"
            );
        }
        let facts =
            if name == "kept" { Facts::PRESERVED } else { Facts::CONTENT | Facts::MODE } - Facts::HOLES;
        let differences = compare_paths(&source, &target, facts).unwrap();
        assert!(differences.is_empty(), "{name}: {differences}");
        let asked = format!("{STRIPED} pool={OTHER_POOL}");
        assert_eq!(of_file(&target.join("striped")), if name == "kept" { &asked } else { USUAL });
    }
    let devices = (0..3).map(|rank| fs::read_to_string(folder.join(format!("device-{rank}"))).unwrap());
    let expected: Vec<_> = ground.ceph.mounts().map(|mount| fs::metadata(mount).unwrap().dev()).collect();
    assert_eq!(devices.map(|device| device.trim().parse().unwrap()).collect::<Vec<u64>>(), expected);
}
