//! `--resume` and `--journal`: what is done and unchanged is not copied again, and everything else
//! is.

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use haul_testkit::change::{change_quietly, replace_quietly};
use haul_testkit::mount::{Mount, POWER_TOOL};
use haul_testkit::program::ENGINES;
use haul_testkit::random::{IndexedRandom, Rng, seed, seeded};
use haul_testkit::sandbox::remove_tree;
use haul_testkit::spec::{EntrySpec, Spec, SpecKind};
use haul_testkit::{CopyProgram, Facts, RunOutcome, Sandbox, compare, libc, needs, note, program, require};

use super::build;

/// Longer than any tick of a file system's clock: an entry that was changed a moment before it is
/// copied is not recorded.
const SETTLED: Duration = Duration::from_millis(50);

/// A source and a target in one directory, and the command that copies one to the other.
struct Scene {
    ours: CopyProgram,
    sandbox: Sandbox,
    options: Vec<&'static str>,
}

impl Scene {
    fn new(ours: CopyProgram, options: &[&'static str]) -> Self {
        Self { ours, sandbox: Sandbox::in_memory().unwrap(), options: options.to_vec() }
    }

    fn source(&self) -> PathBuf {
        self.sandbox.join("source")
    }

    fn target(&self) -> PathBuf {
        self.sandbox.join("target")
    }

    fn run(&self) -> RunOutcome {
        self.run_with(&[])
    }

    fn run_with(&self, more: &[&str]) -> RunOutcome {
        std::thread::sleep(SETTLED);
        let run = self.ours.run().args(&self.options).arg("--stats=json").args(more);
        run.args(["source", "target"]).in_folder(self.sandbox.path()).finish().unwrap()
    }

    /// Runs the command. It must succeed without messages and leave a target that equals the
    /// source. Returns how many entries were copied, unchanged, and changed.
    fn succeed(&self, what: &str) -> [u64; 3] {
        let outcome = self.run();
        assert!(outcome.succeeded() && outcome.errors().is_empty(), "{what}: {}", outcome.errors());
        let facts = Facts::CONTENT | Facts::MODE | Facts::MODIFIED | Facts::LINKS;
        let differences = compare::compare_paths(&self.source(), &self.target(), facts).unwrap();
        assert!(differences.is_empty(), "{what}: {differences}");
        counts(&outcome)
    }
}

/// Returns how many entries were copied, unchanged, and changed.
fn counts(outcome: &RunOutcome) -> [u64; 3] {
    let printed = outcome.printed();
    let count = |name: &str| {
        let (_, after) = printed.split_once(&format!("\"{name}\":")).unwrap();
        after.split([',', '}']).next().unwrap().parse::<u64>().unwrap()
    };
    let copied = ["files", "symlinks", "specials", "hard_links"].map(count).iter().sum();
    [copied, count("unchanged"), count("changed")]
}

/// Builds a tree with every kind of entry, and returns how many are not directories.
fn build_all_kinds(root: &Path) -> u64 {
    build(root, &[[0, 100, 4096, 20_000, 300_000].as_slice(); 40].concat(), 1);
    fs::write(root.join("large"), vec![7; 5 << 20]).unwrap();
    let node = |name: &str, kind| EntrySpec::new(0, name, kind);
    let nodes = vec![
        node("link", SpecKind::Symlink(b"large".to_vec())),
        node("fifo", SpecKind::Fifo),
        node("socket", SpecKind::Socket),
    ];
    Spec { nodes }.build(&root.join("special")).unwrap();
    for (number, first) in ["folder-0/file-4", "folder-1/file-1", "large"].iter().enumerate() {
        for name in 0..3 {
            fs::hard_link(root.join(first), root.join(format!("folder-{name}/linked-{number}"))).unwrap();
        }
    }
    201 + 3 + 9
}

/// Builds more files than are recorded at once.
fn build_many(folder: &Path) {
    fs::create_dir(folder).unwrap();
    (0..6000).for_each(|number| fs::write(folder.join(format!("{number}")), "content").unwrap());
}

/// Names of temporary files and journals below a directory.
fn hidden(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(".haul") {
            found.push(entry.path());
        } else if entry.file_type().unwrap().is_dir() {
            found.extend(hidden(&entry.path()));
        }
    }
    found
}

/// When each entry below a directory was last changed, directories left out.
fn changes(root: &Path) -> BTreeMap<PathBuf, (i64, i64)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            let facts = entry.metadata().unwrap();
            if facts.is_dir() {
                folders.push(entry.path());
            } else {
                found.insert(entry.path(), (facts.ctime(), facts.ctime_nsec()));
            }
        }
    }
    found
}

#[test]
fn a_rerun_over_an_unchanged_tree_copies_nothing_and_says_so() {
    let ours = program!();
    require!(ours.needs_haul());
    for engine in ENGINES {
        let scene = Scene::new(program!(), &["-a", "--journal=journal", engine]);
        let entries = build_all_kinds(&scene.source());
        assert_eq!(scene.succeed("first"), [entries, 0, 0], "{engine}");
        let before = changes(&scene.target());
        assert_eq!(scene.succeed("second"), [0, entries, 0], "{engine}");
        assert!(changes(&scene.target()) == before, "{engine}: an unchanged entry was touched");
        let told = scene.ours.run().args(&scene.options).args(["source", "target"]);
        let told = told.in_folder(scene.sandbox.path()).succeed().unwrap().printed();
        assert_eq!(told, format!("nothing to copy: all {entries} entries are as recorded in journal\n"));
        assert_eq!(hidden(scene.sandbox.path()), Vec::<PathBuf>::new());
    }
}

/// A change that a rerun must notice, on either side.
type Change = fn(&Path);

const CHANGES: &[(&str, Change)] = &[
    ("changed quietly", |path| change_quietly(path).unwrap()),
    ("replaced quietly", |path| replace_quietly(path).unwrap()),
    ("truncated", |path| {
        let size = fs::metadata(path).unwrap().len();
        File::options().write(true).open(path).unwrap().set_len(size / 2).unwrap();
    }),
    ("with another time", |path| {
        let times = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(7));
        File::options().write(true).open(path).unwrap().set_times(times).unwrap();
    }),
    ("with another mode", |path| fs::set_permissions(path, fs::Permissions::from_mode(0o604)).unwrap()),
];

#[test]
fn what_changed_since_it_was_recorded_is_copied_again() {
    let ours = program!();
    require!(ours.needs_haul());
    for options in [["-a"].as_slice(), &["-a", "--atomic", "--fsync"], &["-a", "--verify=stream"]] {
        let scene = Scene::new(program!(), &[options, &["--journal=journal"]].concat());
        let entries = build_all_kinds(&scene.source());
        scene.succeed("first");
        for (what, change) in CHANGES {
            for root in [scene.source(), scene.target()] {
                change(&root.join("folder-3/file-3"));
                change(&root.join("folder-2/file-2"));
                // It has four names. Of such a target the ctime doesn't count.
                let is_unnoticed = *what == "changed quietly" && root == scene.target();
                if !is_unnoticed {
                    change(&root.join("folder-0/file-4"));
                }
                let [copied, unchanged, changed] = scene.succeed(what);
                assert_eq!(copied + unchanged, entries, "{what}, {root:?}");
                let expected = if is_unnoticed { 2..=2 } else { 3..=6 };
                assert!(
                    expected.contains(&copied) && expected.contains(&changed),
                    "{what}, {root:?}: {copied} copied, {changed} changed"
                );
                assert_eq!(scene.succeed(what), [0, entries, 0], "{what}, {root:?}");
            }
        }
        // Removed from the target: a file, a name of one, a link, a directory.
        // The file is copied again if the removed one of its three names comes first.
        for (name, names) in [("folder-3/file-3", 1), ("folder-1/linked-0", 3), ("special/link", 1)] {
            fs::remove_file(scene.target().join(name)).unwrap();
            let [copied, unchanged, _] = scene.succeed(name);
            assert!((1..=names).contains(&copied), "{name}: {copied}");
            assert_eq!(copied + unchanged, entries, "{name}");
        }
        remove_tree(&scene.target().join("folder-2"));
        assert!(scene.succeed("a directory")[0] > 40);
        // Another link, and a name that is a file of its own now.
        fs::remove_file(scene.source().join("special/link")).unwrap();
        symlink("elsewhere", scene.source().join("special/link")).unwrap();
        let name = scene.target().join("folder-1/linked-2");
        fs::remove_file(&name).unwrap();
        fs::copy(scene.source().join("large"), &name).unwrap();
        scene.succeed("a link and a name");
        assert!(scene.target().join("special/fifo").metadata().unwrap().file_type().is_fifo());
        assert_eq!(scene.succeed("at the end"), [0, entries, 0]);
    }
}

/// Options of the copies that are killed.
const KILLED: &[&[&str]] = &[
    &["-a", "-j1"],
    &["-a", "--atomic", "--fsync", "-j1"],
    &["-a", "--no-atomic", "-j3"],
    &["-au", "-j1"],
    &["-an", "-j1"],
    &["-a", "--verify=stream", "--engine=io-uring", "-j1"],
    &["-a", "--engine=posix-aio"],
    &["-a", "--engine=kernel-aio", "--ops=multi"],
    &["-a", "--engine=retry"],
];

/// Whenever a copy is killed, and whatever then changes: the same command completes it, and its
/// hidden journal is gone.
#[test]
fn after_any_kills_the_same_command_completes_the_copy() {
    let ours = program!();
    require!(ours.needs_haul());
    let kills = needs::count_from("HAUL_KILLS", if needs::is_full_run() { 300 } else { 20 });
    let mut random = seeded(seed("resumed copies", None));
    let (mut killed, mut skipped) = (0, 0);
    let mut usual = Duration::from_millis(60);
    for round in 0.. {
        let options = KILLED[round % KILLED.len()];
        let scene = Scene::new(program!(), &[options, &["--resume"]].concat());
        build_all_kinds(&scene.source());
        build_many(&scene.source().join("many"));
        let into = round % 3 == 0;
        if into {
            fs::create_dir(scene.target()).unwrap();
            fs::rename(scene.source(), scene.sandbox.join("tree")).unwrap();
        }
        let run = || {
            let source = if into { "tree" } else { "source" };
            let run = scene.ours.run().args(&scene.options).args(["--stats=json", source, "target"]);
            run.in_folder(scene.sandbox.path())
        };
        std::thread::sleep(SETTLED);
        let mut is_complete = false;
        for _ in 0..random.random_range(1..=3) {
            let running = run().start().unwrap();
            std::thread::sleep(usual.mul_f64(random.random_range(0.0..1.0)));
            running.signal(libc::SIGKILL).unwrap_or_default();
            let outcome = running.finish().unwrap();
            // It may have been killed when all was done.
            let has_begun = scene.target().exists() && !into || scene.target().join("tree").exists();
            is_complete = outcome.succeeded() || has_begun && hidden(scene.sandbox.path()).is_empty();
            if is_complete {
                break;
            }
            killed += 1;
        }
        let copy = if into { scene.target().join("tree") } else { scene.target() };
        let source = if into { scene.sandbox.join("tree") } else { scene.source() };
        // With -n and -u, what is there is kept by request.
        if !is_complete && options[0] == "-a" {
            // One with a single name: of others the target's ctime doesn't count.
            let name = format!("folder-{}/file-{}", round % 4, round % 4 + 8);
            let (_, change) = CHANGES.choose(&mut random).unwrap();
            for root in [&source, &copy] {
                if root.join(&name).exists() && random.random() {
                    change(&root.join(&name));
                }
            }
            std::thread::sleep(SETTLED);
        }
        // After a success, the same command would copy the tree into the target.
        if !is_complete {
            let outcome = run().succeed().unwrap();
            usual = usual.max(outcome.took);
            skipped += counts(&outcome)[1];
        }
        let facts = Facts::CONTENT | Facts::MODE | Facts::MODIFIED | Facts::LINKS;
        let differences = compare::compare_paths(&source, &copy, facts).unwrap();
        assert!(differences.is_empty(), "round {round}, {options:?}: {differences}");
        assert_eq!(hidden(scene.sandbox.path()), Vec::<PathBuf>::new(), "round {round}, {options:?}");
        // On a busy machine few copies get so far.
        if killed >= kills && (skipped > 0 || killed >= 10 * kills) {
            break;
        }
    }
    note!("{killed} copies killed, {skipped} entries not copied again");
    assert!(skipped > 0, "no killed copy had recorded anything");
}

/// A power cut in the middle: the journal never vouches for data that is lost.
#[test]
fn after_a_power_cut_the_same_command_completes_the_copy() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool(POWER_TOOL));
    let cuts = if needs::is_full_run() { 100 } else { 5 };
    let mut random = seeded(seed("resumed after power cuts", None));
    for (kind, bytes) in [("ext4", 192 << 20), ("xfs", 320 << 20)] {
        require!(needs::loop_mount(kind));
        let (mut usual, mut skipped) = (Duration::ZERO, 0);
        for cut in 0..=10 * cuts {
            if cut > cuts && skipped > 0 {
                break;
            }
            let sandbox = Sandbox::in_memory().unwrap();
            let source = sandbox.join("source");
            build(&source, &[[0, 100, 4096, 20_000, 300_000].as_slice(); 20].concat(), 1);
            build_many(&source.join("many"));
            std::thread::sleep(SETTLED);
            let mount = Mount::image(kind, bytes).unwrap();
            let target = mount.join("target");
            let copy = || ours.run().args(["-a", "-j1", "--resume", "--stats=json"]).args([&source, &target]);
            let running = copy().start().unwrap();
            if cut > 0 {
                // Complete entries are recorded, and the journal is flushed, once a second.
                for _ in 0..2 {
                    std::thread::sleep(usual.mul_f64(random.random_range(0.0..0.3)));
                    running.signal(libc::SIGSTOP).unwrap_or_default();
                    std::thread::sleep(Duration::from_millis(1050));
                    running.signal(libc::SIGCONT).unwrap_or_default();
                }
                std::thread::sleep(usual.mul_f64(random.random_range(0.0..0.5)));
                running.signal(libc::SIGKILL).unwrap_or_default();
            }
            let outcome = running.finish().unwrap();
            if cut == 0 {
                usual = outcome.took;
            }
            // It may have been killed when all was done.
            let is_complete = target.exists() && hidden(mount.path()).is_empty();
            if outcome.succeeded() || is_complete {
                // Nothing promises that it survives, and the same command would copy the tree into
                // the target.
                continue;
            }
            mount.cut_power().unwrap();
            let outcome = copy().finish().unwrap();
            assert!(outcome.succeeded(), "{kind}: {}", outcome.errors());
            skipped += counts(&outcome)[1];
            let facts = Facts::CONTENT | Facts::MODE | Facts::MODIFIED;
            let differences = compare::compare_paths(&source, &target, facts).unwrap();
            assert!(differences.is_empty(), "{kind}: {differences}");
            assert_eq!(hidden(mount.path()), Vec::<PathBuf>::new());
        }
        assert!(skipped > 0, "{kind}: no interrupted copy had recorded anything that survived");
        note!("{kind}: {skipped} entries not copied again after power cuts");
    }
}

/// GNU's rule holds without a journal: the second copy of a directory goes into the first one.
#[test]
fn a_target_that_the_interrupted_run_made_is_the_target_of_the_next() {
    let ours = program!();
    require!(ours.needs_haul());
    let scene = Scene::new(program!(), &["-r", "--resume"]);
    build(&scene.source(), &[100; 8], 1);
    let refused = scene.source().join("folder-1/refused");
    symlink("refused", &refused).unwrap();
    // With -L the link to itself can't be copied.
    assert_eq!(scene.run_with(&["-L"]).status(), Some(1));
    let journals = hidden(scene.sandbox.path());
    assert_eq!(journals.len(), 1);
    assert_eq!(fs::metadata(&journals[0]).unwrap().mode() & 0o777, 0o600);
    fs::remove_file(&refused).unwrap();
    let outcome = scene.run_with(&["-L"]);
    assert!(outcome.succeeded(), "{}", outcome.errors());
    assert_eq!(counts(&outcome), [0, 8, 0]);
    assert!(!scene.target().join("source").exists());
    assert_eq!(hidden(scene.sandbox.path()), Vec::<PathBuf>::new());
    assert!(scene.run_with(&["-L"]).succeeded());
    assert!(scene.target().join("source").is_dir());
}

/// The directory that has the hidden journal gets the source's times all the same.
#[test]
fn the_hidden_journal_leaves_no_trace_in_the_times_of_a_directory() {
    let ours = program!();
    require!(ours.needs_haul());
    for operands in [["-aT", "source"], ["-a", "source/."]] {
        let scene = Scene::new(program!(), &[]);
        build(&scene.source(), &[100; 8], 1);
        fs::create_dir(scene.target()).unwrap();
        let run = scene.ours.run().args(operands).args(["--resume", "target"]);
        run.in_folder(scene.sandbox.path()).succeed().unwrap();
        let modified = |path: PathBuf| fs::metadata(path).unwrap().modified().unwrap();
        assert_eq!(modified(scene.target()), modified(scene.source()), "{operands:?}");
        assert_eq!(hidden(scene.sandbox.path()), Vec::<PathBuf>::new());
    }
}

/// A run that never began leaves nothing hidden.
#[test]
fn the_hidden_journal_of_a_run_without_work_is_removed() {
    let ours = program!();
    require!(ours.needs_haul());
    let scene = Scene::new(program!(), &["-r", "--resume"]);
    assert_eq!(scene.run().status(), Some(1));
    assert_eq!(hidden(scene.sandbox.path()), Vec::<PathBuf>::new());
}

#[test]
fn a_journal_that_cannot_be_used_is_refused_before_anything_is_touched() {
    let ours = program!();
    require!(ours.needs_haul());
    let scene = Scene::new(program!(), &["-r", "--journal=journal"]);
    build(&scene.source(), &[100; 8], 1);
    let journal = scene.sandbox.join("journal");
    let refuse = |why: &str| {
        let content = fs::read(&journal).unwrap_or_default();
        let outcome = scene.run();
        assert_eq!(outcome.status(), Some(1), "{why}");
        assert!(outcome.errors().contains(why), "{}", outcome.errors());
        assert_eq!(outcome.errors().lines().count(), 1);
        assert!(!scene.target().exists() && fs::read(&journal).unwrap_or_default() == content);
    };
    fs::write(&journal, "haul journal 2\n").unwrap();
    refuse("another release of haul wrote it; remove it");
    fs::write(&journal, "a letter to my aunt").unwrap();
    refuse("it is not a journal");
    fs::remove_file(&journal).unwrap();
    let other = || scene.ours.run().args(["-a", "--journal=journal", "source/folder-0", "other"]);
    other().in_folder(scene.sandbox.path()).succeed().unwrap();
    refuse("it is the journal of another copy");
    // Where it begins to say which copy it belongs to.
    File::options().write(true).open(&journal).unwrap().set_len(25).unwrap();
    refuse("its beginning is damaged; remove it");
    fs::remove_file(&journal).unwrap();
    other().in_folder(scene.sandbox.path()).succeed().unwrap();
    let file = File::open(&journal).unwrap();
    file.try_lock().unwrap();
    refuse("another run is using it");
    drop(file);
    fs::remove_file(&journal).unwrap();
    fs::create_dir(&journal).unwrap();
    refuse("Is a directory");
}

#[test]
fn a_damaged_journal_is_reported_once_and_what_it_has_lost_is_copied_again() {
    let ours = program!();
    require!(ours.needs_haul());
    let scene = Scene::new(program!(), &["-a", "--journal=journal"]);
    build(&scene.source(), &[100; 3000], 1);
    scene.succeed("first");
    let journal = scene.sandbox.join("journal");
    let mut content = fs::read(&journal).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    fs::write(&journal, content).unwrap();
    let outcome = scene.run();
    let errors = outcome.errors();
    assert!(outcome.succeeded() && errors.lines().count() == 1 && errors.contains("damaged"), "{errors}");
    let [copied, unchanged, _] = counts(&outcome);
    assert!(copied > 0 && unchanged > 0 && copied + unchanged == 3000, "{copied} {unchanged}");
    assert_eq!(scene.succeed("repaired"), [0, 3000, 0]);
}

/// The copy is complete all the same.
#[test]
fn a_journal_on_a_full_disk_is_an_error() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root());
    let scene = Scene::new(program!(), &["-a"]);
    build(&scene.source(), &[100; 3000], 1);
    let small = Mount::memory(8192).unwrap();
    fs::write(small.join("ballast"), vec![0; 4096]).unwrap();
    let journal = format!("--journal={}", small.join("journal").display());
    let outcome = scene.run_with(&[&journal]);
    let errors = outcome.errors();
    assert_eq!(outcome.status(), Some(1), "{errors}");
    assert!(errors.contains("cannot be written: No space left on device"), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    let differences = compare::compare_paths(&scene.source(), &scene.target(), Facts::CONTENT).unwrap();
    assert!(differences.is_empty(), "{differences}");
}

/// An entry that was changed a moment ago may change again without a trace in its times.
#[test]
fn a_source_that_was_just_written_is_not_recorded() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    let copy = || {
        let run = ours.run().args(["-a", "--journal=journal", "--stats=json", "source", "target"]);
        counts(&run.in_folder(sandbox.path()).succeed().unwrap())
    };
    let source = sandbox.join("source");
    let mut was_copied_again = false;
    for _ in 0..200 {
        fs::write(&source, "content").unwrap();
        copy();
        was_copied_again |= copy()[0] == 1;
        if was_copied_again {
            break;
        }
    }
    assert!(was_copied_again);
}

#[test]
fn options_that_contradict_a_journal_are_refused() {
    let ours = program!();
    require!(ours.needs_haul());
    let scene = Scene::new(program!(), &["-r"]);
    build(&scene.source(), &[100; 8], 1);
    for journal in ["--journal=journal", "--resume"] {
        for other in [&["-i"][..], &["--backup"], &["--manifest=manifest"], &["-u", "--no-atomic"]] {
            let outcome = scene.run_with(&[&[journal], other].concat());
            assert_eq!(outcome.status(), Some(1), "{journal} {other:?}");
            assert!(!scene.target().exists(), "{journal} {other:?}");
            assert_eq!(hidden(scene.sandbox.path()), Vec::<PathBuf>::new());
        }
    }
    assert_eq!(scene.run_with(&["--journal=journal", "--resume"]).status(), Some(1));
}

#[test]
fn attributes_alone_are_given_to_the_file_itself() {
    let ours = program!();
    require!(ours.needs_haul());
    for options in [&["--resume"][..], &["--journal=journal"]] {
        let sandbox = Sandbox::in_memory().unwrap();
        let script = "
            mkdir s t; echo new >s/f; chmod 640 s/f; echo old content >t/f; chmod 604 t/f; touch -d 2001-01-01 t/f";
        sandbox.script(script).unwrap();
        let run = ours.run().args(options).args(["-u", "--attributes-only", "--preserve=mode", "s/f", "t/f"]);
        let outcome = run.in_folder(sandbox.path()).finish().unwrap();
        assert!(outcome.succeeded(), "{options:?}: {}", outcome.errors());
        let mode = fs::metadata(sandbox.join("t/f")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640, "{options:?}");
        assert_eq!(fs::read_to_string(sandbox.join("t/f")).unwrap(), "old content\n", "{options:?}");
        assert_eq!(fs::read_dir(sandbox.join("t")).unwrap().count(), 1, "{options:?}");
    }
}
