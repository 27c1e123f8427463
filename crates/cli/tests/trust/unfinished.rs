//! Leftovers of a killed copy that the next run completes or removes: attributes of directories
//! that it made, and its temporary files.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use haul_testkit::{CopyProgram, Facts, Sandbox, TestRun, compare, libc, needs, program, require, wait};

use super::TEMPORARY;

/// Some megabytes in directories with several modes, the last of which can't be written to. Each
/// file is long enough to have no name until it is complete.
const SOURCE: &str = "
    mkdir -p s/a/b s/c s/private s/closed
    for i in . a a/b c private closed; do
        head -c 1100000 /dev/urandom >s/$i/f1; head -c 1100000 /dev/urandom >s/$i/f2
    done
    chmod 755 s s/a s/a/b; chmod 775 s/c; chmod 700 s/private; chmod 555 s/closed
    touch -d 2001-01-01 s/a/b s/a s/c s/private s/closed s; sleep 0.1";

/// Command line of a test's copies, from `s` to the directory whose name is added.
struct Case {
    options: &'static [&'static str],
    operands: &'static [&'static str],
    has_times: bool,
}

const CASES: &[Case] = &[
    Case { options: &["-a", "--strict"], operands: &["-T", "s"], has_times: true },
    Case { options: &["-a", "--no-preserve=mode"], operands: &["-T", "s"], has_times: true },
    Case { options: &["-a", "--no-preserve=mode", "--strict"], operands: &["s"], has_times: true },
    Case { options: &["-r"], operands: &["s"], has_times: false },
    Case { options: &["-r", "--no-preserve=mode"], operands: &["s"], has_times: false },
    Case { options: &["-a", "--parents"], operands: PARENTS, has_times: true },
    Case { options: &["-a", "--parents", "--strict"], operands: PARENTS, has_times: true },
    Case { options: &["-a", "--parents", "--no-preserve=mode"], operands: PARENTS, has_times: true },
    Case { options: &["-r", "--parents"], operands: PARENTS, has_times: false },
];

const PARENTS: &[&str] = &["s/closed/f1", "s/a/b/f1", "s/a/f1", "s/c/f1", "s/private/f1", "s/f1", "s/f2"];

/// The directories that each case makes below the target.
const MADE: &[&str] = &["a/b", "c", "private", "closed"];

fn needs_birth_times() -> Option<String> {
    let sandbox = Sandbox::in_memory().unwrap();
    let has_none = fs::metadata(sandbox.path()).unwrap().created().is_err();
    has_none.then(|| "a file system with birth times is needed".to_owned())
}

/// Starts a run that takes some seconds, and kills it when all `made` are there and one has a file:
/// by then each of them is recorded.
fn kill_when_made(run: TestRun, made: &[PathBuf]) {
    let running = run.arg("--bwlimit=6M").start().unwrap();
    let has_file = |path: &PathBuf| ["f1", "f2"].iter().any(|name| path.join(name).exists());
    let is_begun = || made.iter().all(|path| path.exists()) && made.iter().any(has_file);
    let are_made = wait::until(wait::AFTERMATH_MAX, is_begun);
    running.signal(libc::SIGKILL).unwrap();
    let outcome = running.finish().unwrap();
    assert!(are_made && !outcome.succeeded(), "{made:?}: {}", outcome.errors());
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// Compares the tree with an uninterrupted copy to another directory.
fn assert_as_uninterrupted(sandbox: &Sandbox, has_times: bool, what: &str) {
    let times = Facts::MODIFIED | Facts::DIRECTORY_MODIFIED;
    let facts = Facts::CONTENT | Facts::MODE | if has_times { times } else { Facts::empty() };
    let differences = compare::compare_paths(&sandbox.join("whole"), &sandbox.join("t"), facts).unwrap();
    assert!(differences.is_empty(), "{what}: {differences}");
}

#[test]
fn the_directories_of_a_killed_copy_get_their_attributes() {
    let ours = program!();
    require!(ours.needs_haul(), needs_birth_times());
    for (index, case) in CASES.iter().enumerate() {
        let sandbox = Sandbox::in_memory().unwrap();
        sandbox.script(SOURCE).unwrap();
        let is_parents = case.operands == PARENTS;
        if is_parents {
            sandbox.script("mkdir t whole; touch -d 2001-01-01 t whole").unwrap();
        }
        let journal = ["--resume", "--journal=journal"][index % 2];
        let copy = |to: &str| {
            let run = ours.run().args(case.options).args(case.operands).arg(to).umask(0o002);
            run.in_folder(sandbox.path())
        };
        copy("whole").succeed().unwrap();
        let top = sandbox.join(if is_parents { "t/s" } else { "t" });
        let made: Vec<PathBuf> = MADE.iter().map(|name| top.join(name)).collect();
        kill_when_made(copy("t").arg(journal), &made);
        let outcome = copy("t").arg(journal).finish().unwrap();
        let what = format!("{:?} {journal}", case.options);
        assert!(outcome.succeeded() && outcome.errors().is_empty(), "{what}: {}", outcome.errors());
        if is_parents {
            sandbox.script("touch -d 2001-01-01 t whole").unwrap();
        }
        assert_as_uninterrupted(&sandbox, case.has_times, &what);
    }
}

#[test]
fn a_directory_that_was_there_first_keeps_its_mode() {
    let ours = program!();
    require!(ours.needs_haul(), needs_birth_times());
    for options in [&["-a", "--strict"][..], &["-a", "--no-preserve=mode"], &["-r"]] {
        let sandbox = Sandbox::in_memory().unwrap();
        sandbox.script(&format!("{SOURCE}; mkdir -p t/a; chmod 700 t t/a")).unwrap();
        let copy = || {
            let run = ours.run().args(options).args(["--resume", "-T", "s", "t"]).umask(0o022);
            run.in_folder(sandbox.path())
        };
        let made = |name: &str| sandbox.join("t").join(name);
        kill_when_made(copy(), &MADE.iter().map(|name| made(name)).collect::<Vec<_>>());
        copy().succeed().unwrap();
        assert_eq!([mode(&sandbox.join("t")), mode(&made("a"))], [0o700; 2], "{options:?}");
        assert_eq!(mode(&made("a/b")), 0o755, "{options:?}");
    }
}

/// After a complete copy with a journal that stays, its directories are like any others.
#[test]
fn a_complete_copy_has_no_unfinished_directories() {
    let ours = program!();
    require!(ours.needs_haul(), needs_birth_times());
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script(SOURCE).unwrap();
    let copy = || {
        let run = ours.run().args(["-r", "--journal=journal", "s", "t"]).umask(0o022);
        run.in_folder(sandbox.path()).succeed().unwrap()
    };
    copy();
    for name in ["t", "t/a"] {
        fs::set_permissions(sandbox.join(name), fs::Permissions::from_mode(0o710)).unwrap();
    }
    copy();
    assert_eq!([mode(&sandbox.join("t")), mode(&sandbox.join("t/a"))], [0o710; 2]);
}

/// True if a running copy has a file under a temporary name.
fn has_temporary(folder: &Path) -> bool {
    fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with(TEMPORARY) || has_temporary(&entry.path())
    })
}

/// Kills a copy that has a file under a temporary name.
fn kill_with_temporary(ours: &CopyProgram, sandbox: &Sandbox) {
    let copy = ours.run().args(["-a", "-u", "--resume", "--bwlimit=2M", "-T", "s", "t"]);
    let running = copy.in_folder(sandbox.path()).start().unwrap();
    let has_begun = wait::until(wait::AFTERMATH_MAX, || has_temporary(&sandbox.join("t")));
    running.signal(libc::SIGKILL).unwrap();
    running.finish().unwrap();
    assert!(has_begun && has_temporary(&sandbox.join("t")));
}

/// A container that is started again has another host name, and often another pid namespace.
#[test]
fn a_resumed_copy_removes_the_temporary_files_of_another_host() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("unshare"));
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script(SOURCE).unwrap();
    kill_with_temporary(&ours, &sandbox);
    let script = "echo elsewhere >/proc/sys/kernel/hostname && exec \"$HAUL\" cp -a -u --resume -T s t";
    let run = TestRun::new(Path::new("unshare")).args(["--uts", "sh", "-c", script]);
    run.env("HAUL", ours.path()).in_folder(sandbox.path()).succeed().unwrap();
    let differences =
        compare::compare_paths(&sandbox.join("s"), &sandbox.join("t"), Facts::PRESERVED).unwrap();
    assert!(differences.is_empty(), "{differences}");
}
