//! Bad input: entries that are missing, forbidden, full, changing or cyclic.
//!
//! Each case gets a GNU-style message that names the entry and exit status 1; everything else is
//! copied, and nothing hangs. GNU cp runs alongside where it has an answer. Where it doesn't (it
//! would hang, or follow a link), the test states the right result.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use haul_testkit::compare::{About, compare_paths};
use haul_testkit::duel::Duel;
use haul_testkit::message::{normalise, quoted_names};
use haul_testkit::mount::Mount;
use haul_testkit::program::{WAYS, each_engine, matrix};
use haul_testkit::run::RunEnding;
use haul_testkit::sandbox::remove_tree;
use haul_testkit::spec::{EntrySpec, Spec, SpecKind};
use haul_testkit::standin::{self, Standin};
use haul_testkit::verdict::{CopyVerdict, judge};
use haul_testkit::{CopyProgram, Facts, Sandbox, Snapshot, compare, needs, note, program, require};

/// Runs one command line alongside GNU cp with each of `WAYS`, and fails on any difference.
fn same_as_gnu(prepare: &dyn Fn(&Path) -> io::Result<()>, arguments: &[&str], status: i32) {
    compare_with_gnu(prepare, arguments, status, true);
}

/// Runs alongside GNU cp; compares trees only if GNU cp's result is independent of directory order.
fn compare_with_gnu(
    prepare: &dyn Fn(&Path) -> io::Result<()>,
    arguments: &[&str],
    status: i32,
    trees_too: bool,
) {
    require!(CopyProgram::needs_gnu());
    let duel = Duel::with_gnu(program!()).unwrap();
    for way in WAYS {
        let own: Vec<OsString> = way.iter().map(OsString::from).collect();
        let mut verdict = duel.run(prepare, arguments, &own).unwrap();
        if !trees_too {
            verdict.compare_words_only();
        }
        assert_eq!(
            verdict.standard.ending,
            RunEnding::Exited(status),
            "GNU cp {arguments:?}: {}",
            verdict.standard.errors()
        );
        assert!(verdict.complaints.is_empty(), "cp {arguments:?} {way:?}\n{}", verdict.report());
    }
}

fn plain_tree() -> Spec {
    let mut nodes =
        vec![EntrySpec::new(0, "one", SpecKind::Directory), EntrySpec::new(1, "two", SpecKind::Directory)];
    nodes.extend(
        (0..30)
            .map(|index| EntrySpec::file(index, format!("file-{index}"), index as u64, 300 * index as u64)),
    );
    Spec { nodes }
}

#[test]
fn a_missing_source_is_named_and_the_others_are_copied() {
    let prepare = |folder: &Path| plain_tree().build(&folder.join("source"));
    same_as_gnu(&prepare, &["-r", "missing", "source", "also missing", "target"], 1);
    same_as_gnu(
        &|folder| {
            prepare(folder)?;
            fs::create_dir(folder.join("target"))
        },
        &["-r", "missing", "source", "also missing", "target"],
        1,
    );
}

#[test]
fn a_target_inside_of_its_source_is_refused() {
    let prepare = |folder: &Path| plain_tree().build(&folder.join("source"));
    for target in ["source/new", "source", "source/one", "source/one/two/new"] {
        // GNU cp stops when it reaches its target; how much it has copied by then is a matter
        // of chance.
        compare_with_gnu(&prepare, &["-r", "source", target], 1, false);
    }
    let linked = |folder: &Path| {
        prepare(folder)?;
        std::os::unix::fs::symlink("source/one", folder.join("link"))
    };
    compare_with_gnu(&linked, &["-r", "source", "link"], 1, false);
}

#[test]
fn the_same_file_is_not_copied_onto_itself() {
    let prepare = |folder: &Path| {
        fs::write(folder.join("file"), "precious")?;
        fs::hard_link(folder.join("file"), folder.join("hard"))?;
        std::os::unix::fs::symlink("file", folder.join("soft"))
    };
    for target in ["file", "./file", "hard", "soft"] {
        same_as_gnu(&prepare, &["file", target], 1);
        same_as_gnu(&prepare, &["-f", "file", target], 1);
    }
    same_as_gnu(&prepare, &["soft", "file"], 1);
    same_as_gnu(&prepare, &["-a", "soft", "soft"], 1);
}

#[test]
fn cycles_of_links_end() {
    let cycles = |folder: &Path| {
        let link = |parent, name: &str, to: &str| EntrySpec::new(parent, name, SpecKind::Symlink(to.into()));
        let mut nodes = plain_tree().nodes;
        nodes.extend([
            link(0, "self", "self"),
            link(0, "here", "."),
            link(2, "up", ".."),
            link(1, "ping", "pong"),
            link(1, "pong", "ping"),
        ]);
        Spec { nodes }.build(&folder.join("source"))
    };
    same_as_gnu(&cycles, &["-rL", "source", "target"], 1);
    same_as_gnu(&cycles, &["-r", "source", "target"], 0);
}

#[test]
fn a_directory_that_cannot_be_read_is_named() {
    require!(needs::root());
    let sandbox = Sandbox::in_memory().unwrap();
    let (source, target) = (sandbox.join("source"), sandbox.join("target"));
    let mut nodes = plain_tree().nodes;
    let closed = ["closed", "unlisted"];
    nodes.push(EntrySpec::new(0, closed[0], SpecKind::Directory).mode(0o000));
    nodes.push(EntrySpec::file(3, "inside", 1, 10));
    nodes.push(EntrySpec::new(0, closed[1], SpecKind::Directory).mode(0o711));
    nodes.push(EntrySpec::file(0, "secret", 1, 10).mode(0o600));
    Spec { nodes }.build(&source).unwrap();
    let programs =
        [program!(), CopyProgram::gnu().unwrap_or(program!())].map(|p| p.publish(sandbox.path()).unwrap());
    let mut results = Vec::new();
    for (index, program) in programs.iter().enumerate() {
        for way in WAYS {
            remove_tree(&target);
            fs::create_dir(&target).unwrap();
            fs::set_permissions(&target, fs::Permissions::from_mode(0o777)).unwrap();
            let run = program.run_with(&way).args(["-r", "-T", "source", "target"]).in_folder(sandbox.path());
            let outcome = run.as_nobody().finish().unwrap();
            assert_eq!(outcome.ending, RunEnding::Exited(1), "{}", outcome.errors());
            let mut names: Vec<_> =
                normalise(&outcome.stderr).iter().flat_map(|line| quoted_names(line)).collect();
            names.sort();
            assert_eq!(
                names,
                [&b"source/closed"[..], b"source/secret", b"source/unlisted"],
                "{}",
                outcome.errors()
            );
            // Everything else was copied.
            let facts = Facts::CONTENT;
            let differences = compare_paths(&source, &target, facts).unwrap();
            let lost: Vec<_> = differences
                .list
                .iter()
                .filter(|d| d.about == About::Missing)
                .map(|d| d.path.clone())
                .collect();
            assert!(
                lost.iter().all(|path| path.starts_with(b"closed") || path == b"secret"),
                "{differences}"
            );
            results.push((index, normalise(&outcome.stderr)));
        }
    }
    let (ours, theirs): (Vec<_>, Vec<_>) = results.into_iter().partition(|(index, _)| *index == 0);
    for ((_, ours), (_, theirs)) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
}

/// Runs a script as nobody, where root has run `prepare`, with each of `WAYS` and GNU cp as `cp`.
/// Asserts the same status and messages, and returns GNU cp's status.
fn same_for_nobody(prepare: &str, line: &str) -> Option<i32> {
    let run = |program: &CopyProgram, way: &[&str]| {
        let sandbox = Sandbox::in_memory().unwrap();
        let program = program.publish(sandbox.path()).unwrap();
        sandbox.script(prepare).unwrap();
        let words = line.split_whitespace();
        let outcome =
            program.run_with(way).args(words).in_folder(sandbox.path()).as_nobody().finish().unwrap();
        (outcome.status(), normalise(&outcome.stderr))
    };
    let expected = run(&CopyProgram::gnu().unwrap(), &[]);
    for way in WAYS {
        assert_eq!(run(&program!(), &way), expected, "{prepare}: cp {line} {way:?}");
    }
    expected.0
}

#[test]
fn another_users_file_is_named_once() {
    require!(needs::root(), CopyProgram::needs_gnu());
    let prepare = "
        umask 0; mkdir -m 777 s t t/s t/s/d; mkdir s/d; for f in s/f s/d/g; do echo new >$f; echo old >t/$f; done
        chown -R nobody s; chmod 600 s/f; chmod -R 777 t";
    for attributes in ["timestamps", "mode", "mode,timestamps", "ownership,timestamps", "all", "xattr"] {
        let status = same_for_nobody(prepare, &format!("-r --preserve={attributes} s t"));
        assert_eq!(status, Some(i32::from(attributes != "xattr")), "{attributes}");
    }
    for line in ["-p s/f t/s", "-a s t", "-rp s t", "-r s t"] {
        same_for_nobody(prepare, line);
    }
}

#[test]
fn what_a_directory_lists_but_does_not_let_reach_is_named() {
    require!(needs::root(), CopyProgram::needs_gnu());
    let prepare = "
        mkdir s s/d; echo a >s/f; ln -s f s/link; mkfifo s/pipe; touch s/d/g; chown -R nobody s; chmod 600 s
        mkdir -m 777 t";
    for line in
        ["-r s t", "-a s t", "-rL s t", "-rl s t", "-r --attributes-only s t", "s/f t", "-f s/f s/link t"]
    {
        assert_eq!(same_for_nobody(prepare, line), Some(1), "{line}");
    }
}

#[test]
fn a_read_only_target_is_named() {
    require!(needs::root());
    let mount = Mount::memory(16 << 20).unwrap();
    fs::create_dir(mount.join("old")).unwrap();
    fs::write(mount.join("old/file-0"), "kept").unwrap();
    mount.make_read_only().unwrap();
    let sandbox = Sandbox::in_memory().unwrap();
    plain_tree().build(&sandbox.join("source")).unwrap();
    let (ours, gnu) = (program!(), CopyProgram::gnu());
    for arguments in [vec!["-r", "source"], vec!["-a", "-T", "source"], vec!["source/file-0"]] {
        for target in ["old", "new"] {
            let run = |program: &CopyProgram, way: &[&str]| {
                let run = program.run_with(way).args(&arguments).arg(mount.join(target));
                run.in_folder(sandbox.path()).finish().unwrap()
            };
            let expected = gnu.as_ref().map(|gnu| run(gnu, &[]));
            for way in WAYS {
                let outcome = run(&ours, &way);
                assert_eq!(outcome.ending, RunEnding::Exited(1), "{}", outcome.errors());
                if let Some(expected) = &expected {
                    assert_eq!(
                        normalise(&outcome.stderr),
                        normalise(&expected.stderr),
                        "{arguments:?} {target} {way:?}"
                    );
                }
            }
        }
    }
    assert_eq!(fs::read(mount.join("old/file-0")).unwrap(), b"kept");
}

/// Copies more than fits onto a 24 MiB filesystem. Each failed entry is reported once; whatever
/// still fits is copied.
#[test]
fn a_full_disk_loses_nothing_in_silence() {
    require!(needs::loop_mount("ext4"));
    let sandbox = Sandbox::in_memory().unwrap();
    let source = sandbox.join("source");
    let mut nodes = vec![
        EntrySpec::new(0, "large", SpecKind::Directory),
        EntrySpec::new(0, "small", SpecKind::Directory),
    ];
    nodes.extend((0..5).map(|index| EntrySpec::file(1, format!("large-{index}"), index, 9 << 20)));
    nodes.extend((0..60).map(|index| EntrySpec::file(2, format!("small-{index}"), index, 10_000)));
    Spec { nodes }.build(&source).unwrap();
    let expected = Snapshot::take(&source, Facts::CONTENT).unwrap();
    for way in WAYS {
        let mount = Mount::image("ext4", 24 << 20).unwrap();
        let target = mount.join("target");
        let outcome = program!().run_with(&way).args(["-r", "-T"]).args([&source, &target]).finish().unwrap();
        let differences =
            compare(&expected, &Snapshot::take(&target, Facts::CONTENT).unwrap(), Facts::CONTENT).unwrap();
        let verdict = judge(&outcome, &expected, &differences, [&source, &target]);
        assert_eq!(verdict, Ok(CopyVerdict::Reported), "{way:?}");
        let lines = normalise(&outcome.stderr);
        for difference in &differences.list {
            let whole = target.join(String::from_utf8(difference.path.clone()).unwrap());
            let whole = whole.to_str().unwrap();
            let about =
                lines.iter().filter(|line| quoted_names(line).iter().any(|name| name == whole.as_bytes()));
            assert_eq!(about.count(), 1, "one message for {whole}, {way:?}:\n{}", lines.join("\n"));
        }
        assert!(lines.iter().all(|line| line.ends_with(": No space left on device")), "{lines:?}");
        assert_eq!(lines.len(), differences.list.len(), "{lines:?}\n{differences}");
        // ext4 reserves about half a MiB that it counts as free, and a large file that did not fit
        // had some of the rest until it was removed.
        let free = mount.free_bytes().unwrap();
        let small_lost = differences.list.iter().filter(|d| d.path.starts_with(b"small/")).count();
        note!(
            "full disk {way:?}: {} of 65 files named, {small_lost} of them small, {free} bytes still free",
            lines.len()
        );
        assert!(
            small_lost == 0 || free < 10 << 20,
            "{small_lost} small files are missing, and {free} bytes are free"
        );
    }
}

#[test]
fn names_of_any_bytes_and_of_255_bytes() {
    let prepare = |folder: &Path| {
        let names = haul_testkit::everything::odd_name_list();
        let files = names.iter().map(|name| EntrySpec::file(0, name.clone(), 1, 10));
        let mut nodes: Vec<EntrySpec> = files.collect();
        nodes.push(EntrySpec::new(0, "sub", SpecKind::Directory));
        nodes.extend(names.iter().map(|name| EntrySpec::new(1, name.clone(), SpecKind::Directory)));
        Spec { nodes }.build(&folder.join("source"))
    };
    same_as_gnu(&prepare, &["-a", "source", "target"], 0);
    same_as_gnu(&prepare, &["-rv", "source", "target"], 0);
    // A directory of each name is in the way, so each name appears in a message.
    let in_the_way = |folder: &Path| {
        prepare(folder)?;
        let names = haul_testkit::everything::odd_name_list();
        let nodes = names.into_iter().map(|name| EntrySpec::new(0, name, SpecKind::Directory)).collect();
        Spec { nodes }.build(&folder.join("target"))
    };
    same_as_gnu(&in_the_way, &["-rT", "source", "target"], 1);
}

/// GNU cp would wait forever for a reader. Either result is right: the file replaces the FIFO, or a
/// message names it.
#[test]
fn backups_of_long_names_have_gnus_names() {
    require!(CopyProgram::needs_gnu());
    let duel = Duel::with_gnu(program!()).unwrap();
    let endings = ["", "~", ".~1~", ".~9~"];
    for (length, there) in (250..=255).flat_map(|length| [(length, 1), (length, endings.len())]) {
        let name = "n".repeat(length);
        let prepare = |folder: &Path| {
            fs::write(folder.join("source"), "new")?;
            let names = endings[..there].iter().map(|ending| format!("{name}{ending}"));
            names.filter(|name| name.len() <= 255).try_for_each(|name| fs::write(folder.join(&name), &name))
        };
        for options in [&["-b"][..], &["--backup=numbered"], &["-b", "-S", ".x"]] {
            let verdict = duel.run(&prepare, &[options, &["source", &name]].concat(), &[]).unwrap();
            assert!(verdict.complaints.is_empty(), "{length} {options:?}\n{}", verdict.report());
        }
    }
}

#[test]
fn a_fifo_where_the_target_file_goes_is_no_trap() {
    let ours = program!();
    require!(ours.needs_haul());
    for way in WAYS {
        for options in [&["-r"][..], &["-a"], &["-rf"]] {
            let sandbox = Sandbox::in_memory().unwrap();
            plain_tree().build(&sandbox.join("source")).unwrap();
            Spec { nodes: vec![EntrySpec::new(0, "file-0", SpecKind::Fifo)] }
                .build(&sandbox.join("target"))
                .unwrap();
            let run = ours.run_with(&way).args(options).args(["-T", "source", "target"]);
            let outcome = run.in_folder(sandbox.path()).within(Duration::from_secs(10)).finish().unwrap();
            assert!(!outcome.crashed(), "{way:?} {options:?}: {:?} {}", outcome.ending, outcome.errors());
            let facts = Facts::CONTENT;
            let expected = Snapshot::take(&sandbox.join("source"), facts).unwrap();
            let found = Snapshot::take(&sandbox.join("target"), facts).unwrap();
            let differences = compare(&expected, &found, facts).unwrap();
            judge(&outcome, &expected, &differences, [Path::new("source"), Path::new("target")]).unwrap();
        }
    }
}

#[test]
fn files_of_the_kernel_without_a_size_are_copied_whole() {
    let sandbox = Sandbox::in_memory().unwrap();
    let sources = [
        "/proc/version",
        "/proc/filesystems",
        "/proc/sys/kernel/ostype",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    ];
    let sources: Vec<_> =
        sources.into_iter().filter(|path| fs::read(path).is_ok_and(|bytes| !bytes.is_empty())).collect();
    assert!(sources.len() >= 2, "no kernel files here");
    for way in WAYS {
        for options in [&[][..], &["-r"], &["--sparse=always"], &["--reflink=never"]] {
            let target = sandbox.join("target");
            remove_tree(&target);
            fs::create_dir(&target).unwrap();
            let outcome =
                program!().run_with(&way).args(options).args(&sources).arg(&target).finish().unwrap();
            assert!(outcome.succeeded(), "{way:?} {options:?}: {}", outcome.errors());
            for source in &sources {
                let copied = target.join(Path::new(source).file_name().unwrap());
                assert_eq!(
                    fs::read(copied).unwrap(),
                    fs::read(source).unwrap(),
                    "{source} {way:?} {options:?}"
                );
            }
        }
    }
}

/// Changes the source as fast as possible until `stop` is set, counting rounds.
fn disturb(source: &Path, stop: &AtomicBool, rounds: &AtomicU64) -> io::Result<()> {
    while !stop.load(Ordering::Relaxed) {
        let round = rounds.fetch_add(1, Ordering::Relaxed);
        // Each version of a file repeats one letter, so that a mixture is visible.
        let letter = b'a' + u8::try_from(round % 26).unwrap_or(0);
        let replacement = source.join("new");
        fs::write(&replacement, vec![letter; 50_000])?;
        fs::rename(&replacement, source.join("replaced"))?;
        let grown = fs::OpenOptions::new().write(true).open(source.join("resized"))?;
        grown.set_len(if round.is_multiple_of(2) { 10 } else { 200_000 })?;
        fs::write(source.join("vanishing"), "now you see me")?;
        fs::remove_file(source.join("vanishing"))?;
        fs::rename(source.join("folder"), source.join("moved"))?;
        fs::rename(source.join("moved"), source.join("folder"))?;
    }
    Ok(())
}

#[test]
fn a_source_that_changes_and_vanishes_during_the_run() {
    let ways = WAYS.iter().map(|way| way.to_vec()).chain(matrix()).collect();
    copy_while_it_changes(&Sandbox::in_memory().unwrap(), ways);
}

/// With direct I/O, several whole-sector transfers in flight reach a file's end.
#[test]
fn a_source_that_changes_while_it_is_read_past_the_page_cache() {
    require!(needs::loop_mount("ext4"));
    let disk = Mount::image("ext4", 64 << 20).unwrap();
    let direct = matrix().into_iter().map(|way| [&way[..], &["--direct", "--reflink=never"]].concat());
    copy_while_it_changes(&Sandbox::below(disk.path()).unwrap(), direct.collect());
}

/// Copies a source repeatedly while it changes, cycling through the option sets.
fn copy_while_it_changes(sandbox: &Sandbox, ways: Vec<Vec<&'static str>>) {
    let (source, target) = (sandbox.join("source"), sandbox.join("target"));
    let mut nodes = plain_tree().nodes;
    nodes.push(EntrySpec::new(0, "folder", SpecKind::Directory));
    nodes.extend((0..20).map(|index| EntrySpec::file(3, format!("in-folder-{index}"), 1, 100)));
    nodes.extend(["replaced", "resized"].map(|name| EntrySpec::new(0, name, SpecKind::File(Vec::new()))));
    Spec { nodes }.build(&source).unwrap();
    let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut errors = 0;
    std::thread::scope(|scope| {
        let attacker = scope.spawn(|| disturb(&source, &stop, &rounds));
        for index in 0..needs::count_from("HAUL_RACE_RUNS", 300) {
            remove_tree(&target);
            let way = &ways[index % ways.len()];
            let option = ["-r", "-a", "-rL"][index % 3];
            let run = program!().run_with(way).args([option, "-T"]).args([&source, &target]);
            let outcome = run.within(Duration::from_secs(10)).finish().unwrap();
            if outcome.crashed() || !matches!(outcome.ending, RunEnding::Exited(0 | 1)) {
                stop.store(true, Ordering::Relaxed);
                panic!("{way:?} {option}: {:?} {}", outcome.ending, outcome.errors());
            }
            errors += usize::from(!outcome.succeeded());
            let fault = look_at_disturbed(&source, &target, &outcome);
            if let Some(fault) = fault {
                stop.store(true, Ordering::Relaxed);
                panic!("{way:?} {option}: {fault}; messages: {}", outcome.errors());
            }
        }
        stop.store(true, Ordering::Relaxed);
        attacker.join().unwrap().unwrap();
    });
    let rounds = rounds.load(Ordering::Relaxed);
    note!("changing source: {rounds} rounds of changes, {errors} runs reported an error");
    assert!(rounds > 300, "the source hardly changed: {rounds} rounds");
}

/// Returns what is wrong with a copy of the changing source, if anything.
fn look_at_disturbed(source: &Path, target: &Path, outcome: &haul_testkit::RunOutcome) -> Option<String> {
    // Status 1 needs a message, and entries that nobody changed must be right.
    if !outcome.succeeded() && outcome.stderr.is_empty() {
        return Some("status 1 without a message".to_owned());
    }
    for index in 0..30 {
        let folder = ["", "one", "one/two"][index % 3];
        let name = Path::new(folder).join(format!("file-{index}"));
        if fs::read(source.join(&name)).unwrap() != fs::read(target.join(&name)).unwrap_or_default() {
            return Some(format!("{} was left alone and is not right", name.display()));
        }
    }
    let disturbed = ["new", "replaced", "resized", "vanishing", "folder", "moved"];
    for line in normalise(&outcome.stderr) {
        if !disturbed.iter().any(|name| line.contains(&format!("/{name}"))) {
            return Some(format!("a message about something that was left alone: {line}"));
        }
    }
    let replaced = fs::read(target.join("replaced")).unwrap_or_default();
    if replaced.iter().any(|byte| *byte != replaced[0]) {
        return Some("a file holds bytes of two versions".to_owned());
    }
    let resized = fs::metadata(target.join("resized")).map_or(0, |metadata| metadata.len());
    (resized > 200_000).then(|| format!("a file has {resized} bytes and never had more than 200000"))
}

/// A file system in which `name` opens without offsets, and which doesn't shorten `stuck`.
fn odd_files(bytes: usize) -> Standin {
    let standin = Standin::start(1, &[]).unwrap();
    let content: Vec<u8> = (0..bytes).map(|index| (index / 7) as u8).collect();
    fs::write(standin.client(0).join("stream"), content).unwrap();
    fs::write(standin.client(0).join("stuck"), "old").unwrap();
    standin.fail("* open stream NO_OFFSETS\n* setattr stuck EACCES\n").unwrap();
    standin
}

#[test]
fn files_without_offsets_are_copied_whole() {
    require!(standin::needed());
    let sandbox = Sandbox::in_memory().unwrap();
    for bytes in [5, 70_000, 9_000_000] {
        let standin = odd_files(bytes);
        let source = standin.client(0).join("stream");
        let file = fs::File::open(&source).unwrap();
        assert!(file.read_at(&mut [0], 0).is_err(), "the file has offsets");
        let mut expected = Vec::new();
        { &file }.read_to_end(&mut expected).unwrap();
        assert_eq!(expected.len(), bytes);
        let options = [&[][..], &["-a"], &["-r"], &["--sparse=always"], &["--verify"], &["-j1"]];
        for way in matrix().into_iter().chain([Vec::new()]) {
            for options in options {
                let target = sandbox.join("target");
                remove_tree(&target);
                let run = program!().run_with(&way).args(options).arg(&source).arg(&target);
                let outcome = run.finish().unwrap();
                assert!(outcome.succeeded(), "{bytes} {way:?} {options:?}: {}", outcome.errors());
                assert!(fs::read(&target).unwrap() == expected, "{bytes} {way:?} {options:?}");
            }
        }
    }
}

#[test]
fn a_target_that_cannot_be_emptied_is_replaced_by_force() {
    require!(standin::needed(), CopyProgram::needs_gnu());
    let standin = odd_files(5);
    let target = standin.client(0).join("stuck");
    let sandbox = Sandbox::in_memory().unwrap();
    fs::write(sandbox.join("source"), "new").unwrap();
    let run = |program: &CopyProgram, way: &[&str], option: &str| {
        let words = [Path::new("source"), &target];
        let outcome =
            program.run_with(way).arg(option).args(words).in_folder(sandbox.path()).finish().unwrap();
        let result = (outcome.status(), normalise(&outcome.stderr), fs::read(&target).unwrap());
        // The fault is about the name that the file was made with.
        remove_tree(&target);
        fs::write(&target, "old").unwrap();
        result
    };
    for option in ["--reflink=auto", "-f", "-b", "--remove-destination"] {
        let expected = run(&CopyProgram::gnu().unwrap(), &[], option);
        assert_eq!(expected.0 == Some(1), option == "--reflink=auto", "{option}: {expected:?}");
        for way in WAYS {
            assert_eq!(run(&program!(), &way, option), expected, "{option} {way:?}");
        }
    }
}

#[test]
fn a_file_that_has_no_data_yet_is_waited_for() {
    let log = Path::new("/proc/kmsg");
    require!(needs::root(), (!log.exists()).then(|| "needs /proc/kmsg".to_owned()));
    let sandbox = Sandbox::in_memory().unwrap();
    for way in each_engine() {
        // The first copy may still find messages. Neither ends.
        for _ in 0..2 {
            let run = program!().run_with(&way).arg(log).arg(sandbox.join("target"));
            let outcome = run.within(Duration::from_millis(300)).finish().unwrap();
            assert_eq!(outcome.ending, RunEnding::Hung, "{way:?}: {}", outcome.errors());
        }
    }
}
