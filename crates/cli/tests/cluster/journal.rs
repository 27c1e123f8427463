//! Reruns with a journal: changed files are copied again, unchanged ones are left alone, no hidden
//! file remains, and no two runs share a journal.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use haul_testkit::change::{change_quietly, replace_quietly};
use haul_testkit::mpi::{Mpi, MpiKind};
use haul_testkit::needs;
use haul_testkit::random::{self, IndexedRandom, Rng, seeded};
use haul_testkit::rustix::process::{Pid, Signal, kill_process};
use haul_testkit::spec::{self, EntrySpec, Spec};
use haul_testkit::standin::{self, Standin};
use haul_testkit::{Sandbox, TestRun, note, program, require};

use crate::kills::{FILES, Scene, Victim, changes, describe, of_full};
use crate::start::{Way, script};

/// Runs the scene's command. It must succeed without messages and leave a tree that equals
/// the source.
fn succeed(scene: &Scene, what: &str) {
    let outcome = scene.start(&[]).finish().unwrap();
    let wrong = scene.wrong(false);
    assert!(outcome.succeeded() && wrong.is_empty(), "{what}: {}", describe(&outcome, &wrong));
    assert_eq!(outcome.errors(), "", "{what}");
}

fn nothing_hidden(folder: &Path) {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let hidden: Vec<_> = names.filter(|name| name.starts_with(".haul")).collect();
    assert!(hidden.is_empty(), "{hidden:?}");
}

/// Only the ranks see what they copy. A copy stays all the same if its name is that of a process
/// that has ended.
#[test]
fn a_copy_by_ranks_stays_whatever_its_name_is() {
    require!(MpiKind::OpenMpi4.needed());
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    let own = haul_sys::temporary_name().into_string().unwrap();
    let mut parts: Vec<_> = own.split('-').collect();
    // Process ids have at most 22 bits.
    parts[3] = "4194305";
    let name = parts.join("-");
    for (words, runs) in [
        ("cp --atomic s/N s/b t/", 1),
        ("cp --atomic -r s/. t/", 1),
        ("cp --atomic -r a/. s/. t/", 1),
        ("cp --journal=J s/N s/b t/", 2),
    ] {
        let sandbox = Sandbox::in_memory().unwrap();
        sandbox.script(&format!("mkdir a s t; echo precious >s/{name}; echo b >s/b; echo a >a/a")).unwrap();
        let haul = script(&sandbox, &mpi, Way::Clients(2), &[]);
        for _ in 0..runs {
            let words = words.replace('N', &name);
            let run = TestRun::new(haul.path()).args(words.split(' ')).in_folder(sandbox.path());
            run.within(Duration::from_secs(60)).finish().unwrap();
            let copy = fs::read_to_string(sandbox.join("t").join(&name)).unwrap_or_default();
            assert_eq!(copy, "precious\n", "{words}");
        }
    }
}

/// A change that a rerun must notice.
type Change = fn(&Path);

const CHANGES: &[(&str, Change)] = &[
    ("removed", |path| fs::remove_file(path).unwrap()),
    ("changed quietly", |path| change_quietly(path).unwrap()),
    ("replaced quietly", |path| replace_quietly(path).unwrap()),
    ("longer", |path| {
        let size = fs::metadata(path).unwrap().len();
        File::options().write(true).open(path).unwrap().set_len(size + 1).unwrap();
    }),
    ("with another time", |path| {
        let times = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(7));
        File::options().write(true).open(path).unwrap().set_times(times).unwrap();
    }),
    ("with another mode", |path| {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o604)).unwrap();
    }),
    ("a symbolic link", |path| {
        fs::remove_file(path).unwrap();
        symlink("elsewhere", path).unwrap();
    }),
];

/// Each way in which an entry's source or target can change after it was recorded, for small and
/// large files.
#[test]
fn what_changed_since_it_was_recorded_is_copied_again() {
    require!(MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    let scene = Scene::new(&mpi, Way::Clients(3), &["--journal=journal"], 600);
    symlink("f0", scene.from().join("d0/link")).unwrap();
    succeed(&scene, "first");
    let before = changes(&scene.to());
    succeed(&scene, "unchanged");
    assert_eq!(before.difference(&changes(&scene.to())).count(), 0, "unchanged files were copied again");
    let mut number = 300;
    for (what, change) in CHANGES {
        for root in [scene.to(), scene.from()] {
            number += 1;
            let small = root.join(format!("d{}/f{number}", number % 12));
            // A file removed from the source stays in the target, and a target that is a link is
            // written through, as usual.
            let skipped = ("removed", scene.from()) == (*what, root.clone())
                || ("a symbolic link", scene.to()) == (*what, root.clone());
            if !skipped {
                change(&small);
            }
            if !skipped && *what != "a symbolic link" {
                change(&root.join("d1/large1"));
            }
        }
        succeed(&scene, what);
    }
    fs::remove_file(scene.from().join("d0/link")).unwrap();
    symlink("f12", scene.from().join("d0/link")).unwrap();
    fs::remove_dir_all(scene.to().join("d3")).unwrap();
    fs::write(scene.from().join("d4/new"), "new").unwrap();
    succeed(&scene, "a link, a directory, a new file");
    nothing_hidden(scene.sandbox.path());
}

/// Their target directory may be open for resolving names only, which can't be flushed.
#[test]
fn file_operands_are_recorded() {
    require!(MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script("mkdir s to; echo 1 >s/a; echo 2 >s/b; ln -s a s/link").unwrap();
    let copy = |option: &str| {
        let copy = script(&sandbox, &mpi, Way::Clients(2), &[]);
        let run = copy.run().args(["-P", option, "s/a", "s/b", "s/link", "to"]);
        let outcome = run.in_folder(sandbox.path()).finish().unwrap();
        assert_eq!((outcome.errors().as_str(), outcome.status()), ("", Some(0)), "{option}");
        changed(&sandbox.join("to"))
    };
    for option in ["--journal=journal", "--resume"] {
        let first = copy(option);
        assert_eq!(first.len(), 3);
        // The journal of --resume is removed when the copy is complete.
        assert!(copy(option) == first || option == "--resume", "{option}");
    }
}

/// Returns the entries of a directory, and when each was last changed.
fn changed(folder: &Path) -> BTreeMap<OsString, (i64, i64)> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let changed = |entry: &fs::DirEntry| {
        let facts = entry.metadata().unwrap();
        (facts.ctime(), facts.ctime_nsec())
    };
    entries.map(|entry| (entry.file_name(), changed(&entry))).collect()
}

/// On FUSE each entry is flushed by itself, though only regular files can be opened for that.
#[test]
fn links_and_special_files_on_fuse_are_not_copied_again() {
    require!(standin::needed(), MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    let (standin, sandbox) = (Standin::start(1, &[]).unwrap(), Sandbox::in_memory().unwrap());
    let node = |name: &str, kind| EntrySpec::new(0, name, kind);
    let nodes = vec![
        EntrySpec::file(0, "file", 1, 1000),
        node("link", spec::SpecKind::Symlink(b"file".to_vec())),
        node("fifo", spec::SpecKind::Fifo),
        node("socket", spec::SpecKind::Socket),
        node("device", spec::SpecKind::CharacterDevice(1, 3)),
    ];
    Spec { nodes }.build(&sandbox.join("from")).unwrap();
    let to = standin.client(0).join("to");
    let copy = script(&sandbox, &mpi, Way::Clients(2), &["--journal=journal"]);
    let run = || {
        let run = copy.run().args(["-aT", "from"]).arg(&to).in_folder(sandbox.path());
        run.within(Duration::from_secs(60)).succeed().unwrap();
        changed(&to)
    };
    let first = run();
    assert_eq!(first.len(), 5);
    assert_eq!(run(), first);
}

/// If a journal is in use, or not of this release, the run reports that and touches nothing.
#[test]
fn a_journal_that_cannot_be_used_is_refused_before_anything_is_touched() {
    require!(MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    let scene = Scene::new(&mpi, Way::Clients(2), &["--journal=journal"], 10);
    let journal = scene.sandbox.join("journal");
    let refuse = |why: &str| {
        let content = fs::read(&journal).unwrap();
        let outcome = scene.start(&[]).finish().unwrap();
        assert_eq!(outcome.status(), Some(1), "{}", outcome.errors());
        assert!(outcome.errors().contains(why), "{}", outcome.errors());
        assert_eq!(outcome.errors().lines().count(), 1);
        assert!(!scene.to().exists() && fs::read(&journal).unwrap() == content);
        nothing_hidden(scene.sandbox.path());
    };
    fs::write(&journal, "haul journal 1\n").unwrap();
    refuse("another release of haul wrote it; remove it");
    fs::write(&journal, "a letter to my aunt").unwrap();
    refuse("it is not a journal");
    fs::write(&journal, "").unwrap();
    let file = File::open(&journal).unwrap();
    file.try_lock().unwrap();
    refuse("another run is using it");
    drop(file);
    succeed(&scene, "nobody uses it");
}

/// Two identical commands at once. The first one is stopped midway, so the second can't be
/// too late.
#[test]
fn of_two_runs_with_one_journal_the_second_is_refused() {
    require!(MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    let scene = Scene::new(&mpi, Way::Clients(2), &["--journal=journal"], FILES);
    let first = scene.start(&[]);
    let launch = || scene.find(Victim::Launch).filter(|_| scene.to().exists());
    let mut process = None;
    assert!(haul_testkit::wait::until(Duration::from_secs(30), || {
        process = launch();
        process.is_some()
    }));
    let pid = Pid::from_raw(i32::try_from(process.unwrap().id).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let second = scene.start(&[]).finish().unwrap();
    kill_process(pid, Signal::CONT).unwrap();
    let first = first.finish().unwrap();
    assert_eq!(second.status(), Some(1), "{}", second.errors());
    assert!(second.errors().contains("another run is using it"), "{}", second.errors());
    let wrong = scene.wrong(false);
    assert!(first.succeeded() && wrong.is_empty(), "{}", describe(&first, &wrong));
}

fn hidden(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(".haul-") {
            found.push(entry.path());
        } else if entry.file_type().unwrap().is_dir() {
            found.extend(hidden(&entry.path()));
        }
    }
    found
}

/// Whichever processes die, however often: the last run copies everything and leaves
/// nothing behind.
#[test]
fn after_any_kills_a_rerun_ends_with_the_whole_tree_and_nothing_hidden() {
    require!(needs::root(), MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    let seed = random::seed("journal", Some(5)) * 1_000_000 + 3000;
    let (mut left, mut kills) = (0, 0);
    let count = of_full(200, 4);
    for round in 0.. {
        let mut random = seeded(seed + round);
        let scene = Scene::new(&mpi, Way::Clients(3), &["--journal=journal"], FILES);
        // A foreign file whose name resembles a temporary name is no leftover.
        let foreign = scene.from().join(".haul-0123456789abcdef-0123456789abcdef-1-1");
        fs::write(&foreign, "").unwrap();
        for _ in 0..random.random_range(1..=3) {
            let victims = [Victim::Launch, Victim::Launch, Victim::Launcher, Victim::Rank];
            let victim = *victims.choose(&mut random).unwrap();
            let when = random.random_range(0..FILES);
            let running = scene.start(&[]);
            kills +=
                usize::from(scene.kill(victim, when, Duration::from_micros(random.random_range(0..30_000))));
            running.finish().unwrap();
            left += hidden(&scene.to()).len().saturating_sub(1);
            if random.random() {
                scene.nobody_stays();
            }
        }
        // Sometimes, the source changes between runs.
        let changed = scene.from().join(format!("d{}/large{}", 1, 0));
        if changed.exists() && random.random() {
            change_quietly(&changed).unwrap();
        }
        succeed(&scene, &format!("round {round}, seed {seed}"));
        nothing_hidden(scene.sandbox.path());
        assert_eq!(hidden(&scene.to()).len(), 1, "seed {seed}, round {round}");
        scene.nobody_stays();
        if kills >= count {
            break;
        }
    }
    note!("{kills} processes killed, {left} files left behind and removed (seed {seed})");
}

/// A temporary file is removed only if its name proves that it belongs to this journal's run.
#[test]
fn leftovers_that_are_not_provably_ours_stay() {
    require!(MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    let scene = Scene::new(&mpi, Way::Clients(2), &["--journal=journal"], 100);
    let running = scene.start(&["--debug"]);
    assert!(running.finish().unwrap().succeeded());
    // After the magic, the record's header and its type, the run's number is the first field.
    let journal = fs::read(scene.sandbox.join("journal")).unwrap();
    let number = u64::from_le_bytes(journal[15 + 6 + 1..][..8].try_into().unwrap());
    let name = |rest: &str| scene.to().join(format!("d1/.haul-{number:016x}-{rest}"));
    let ours = [name("0123456789abcdef-1-1"), name("ffffffffffffffff-12-3")];
    ours.iter().for_each(|path| fs::write(path, "").unwrap());
    let token = scene.sandbox.join(format!(".haul-token-{number:016x}-0123456789abcdef"));
    fs::write(&token, "").unwrap();
    let others = [
        name("0123456789abcdef-1"),
        name("0123456789abcde-1-1"),
        name("0123456789abcdef-1-1-1"),
        name("0123456789abcdef-1-x"),
        name("0123456789abcdef--1"),
        scene.to().join(format!("d1/.haul-{:016x}-0123456789abcdef-1-1", number ^ 1)),
    ];
    others.iter().for_each(|path| fs::write(path, "").unwrap());
    let (link, folder, twin) =
        (name("1111111111111111-1-1"), name("2222222222222222-1-1"), name("3333333333333333-1-1"));
    symlink("f1", &link).unwrap();
    // No directory ever has a temporary name.
    fs::create_dir(&folder).unwrap();
    let aside = scene.sandbox.join("aside");
    fs::write(&aside, "").unwrap();
    fs::hard_link(&aside, &twin).unwrap();
    let outcome = scene.start(&[]).finish().unwrap();
    assert!(outcome.succeeded(), "{}", outcome.errors());
    let is_there = |path: &PathBuf| path.symlink_metadata().is_ok();
    let ours = ours.iter().chain([&link, &twin]);
    assert!(!ours.into_iter().any(is_there) && !token.exists(), "{:?}", hidden(scene.sandbox.path()));
    assert!(others.iter().chain([&folder]).all(is_there), "{:?}", hidden(&scene.to()));
    assert_eq!(fs::metadata(aside).unwrap().nlink(), 1);
}

/// The token that shows whether all ranks see the target leaves no trace in it, not even a time.
#[test]
fn a_copy_with_nothing_to_do_keeps_the_times_of_its_target() {
    require!(MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    let copy = script(&sandbox, &Mpi::find(MpiKind::OpenMpi4).unwrap(), Way::Clients(2), &[]);
    for name in ["from", "to"] {
        fs::create_dir(sandbox.join(name)).unwrap();
        fs::write(sandbox.join(name).join("file"), name).unwrap();
    }
    let modified = || ["", "to"].map(|name| fs::metadata(sandbox.join(name)).unwrap().modified().unwrap());
    let before = modified();
    let outcome = copy.run().args(["-rn", "from/.", "to"]).in_folder(sandbox.path()).finish().unwrap();
    assert!(outcome.succeeded(), "{}", outcome.errors());
    assert_eq!(modified(), before);
}

/// A segment of a large file, which a copy on one machine records.
const SEGMENT: u64 = 128 << 20;

/// Ranks go on with a large file that one process began. With `--verify` they move all of it: what
/// that process wrote was to be compared in the end.
#[test]
fn ranks_finish_a_large_file_that_one_process_began() {
    require!(MpiKind::OpenMpi4.needed(), program!().needs_haul());
    const SIZE: u64 = 2 * SEGMENT + 5000;
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    for (options, left) in [(["-a"].as_slice(), SIZE - SEGMENT), (&["-a", "--verify"], SIZE)] {
        let sandbox = Sandbox::in_memory().unwrap();
        fs::create_dir(sandbox.join("from")).unwrap();
        fs::write(sandbox.join("from/large"), random::bytes(1, SIZE)).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let arguments = [options, &["-T", "--journal=journal", "--stats=json", "from", "to"]].concat();
        let alone = program!().run().args(&arguments).in_folder(sandbox.path());
        assert!(!alone.file_bytes(SEGMENT + SEGMENT / 2).finish().unwrap().succeeded());
        assert_eq!(fs::read_dir(sandbox.join("to")).unwrap().count(), 1, "{options:?}");
        let ranks = script(&sandbox, &mpi, Way::Clients(2), &[]).run();
        let outcome = ranks.args(&arguments).in_folder(sandbox.path()).finish().unwrap();
        assert!(outcome.succeeded(), "{options:?}: {}", outcome.errors());
        let bytes = format!("\"bytes\":{left},");
        assert!(outcome.printed().contains(&bytes), "{options:?}: {}", outcome.printed());
        assert!(fs::read(sandbox.join("from/large")).unwrap() == fs::read(sandbox.join("to/large")).unwrap());
        assert_eq!(fs::read_dir(sandbox.join("to")).unwrap().count(), 1, "{options:?}");
    }
}
