//! Snapshots by `haul sync`: `--link-dest` shares files with earlier copies, which stay as they
//! are, and `--backup-dir` keeps replaced and deleted files.

#![allow(clippy::unwrap_used, clippy::panic)]

mod sync_command;

use std::ffi::OsString;
use std::fs::FileTimes;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use haul_testkit::mount::Mount;
use haul_testkit::random::{self, IndexedRandom, Rng, seeded};
use haul_testkit::random_tree::{self, RandomTreeLimits};
use haul_testkit::strace::record;
use haul_testkit::{CopyProgram, RunOutcome, Sandbox, TestRun, compare, needs, program, require};

use sync_command::{FACTS, succeed, sync, take};

/// Returns the names below `root` that are names of the file of that name below `earlier`.
fn linked(root: &Path, earlier: &Path) -> Vec<String> {
    let names = walkdir::WalkDir::new(root).sort_by_file_name().min_depth(1).into_iter();
    let names = names.filter_map(|entry| {
        let path = entry.unwrap().into_path();
        let below = path.strip_prefix(root).unwrap();
        let (here, there) = (path.symlink_metadata().ok()?, earlier.join(below).symlink_metadata().ok()?);
        let is_one = !here.is_dir() && here.ino() == there.ino();
        is_one.then(|| below.to_string_lossy().into_owned())
    });
    names.collect()
}

#[test]
fn what_is_linked_is_what_rsync_links() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("rsync"), needs::tool("setfattr"));
    let cases = if needs::is_full_run() { 500 } else { 50 };
    let seed = random::seed("snapshots", Some(20_261_126));
    for case in 0..cases {
        let mut random = seeded(seed.wrapping_add(case));
        let sandbox = Sandbox::in_memory().unwrap();
        let tree =
            random_tree::tree(random.random(), RandomTreeLimits { entries: 40, file_bytes_max: 20_000 });
        tree.build(&sandbox.join("s")).unwrap();
        sandbox.script("cp -a s monday").unwrap();
        let entries = walkdir::WalkDir::new(sandbox.join("s")).min_depth(1).into_iter();
        let entries: Vec<_> = entries.map(|entry| entry.unwrap().into_path()).collect();
        for _ in 0..8 {
            let Some(path) = entries.choose(&mut random) else { continue };
            let Ok(there) = path.symlink_metadata() else { continue };
            let number = random.random_range(1..9);
            let line = match random.random_range(0..6) {
                0 if there.is_file() => format!("echo {number} > \"$P\""),
                1 => format!("touch -h -d @{number}000 \"$P\""),
                2 if !there.is_symlink() => format!("chmod 64{} \"$P\"", number % 8),
                3 => format!("chown -h {number} \"$P\""),
                4 if there.is_file() => format!("setfattr -n user.k -v {number} \"$P\""),
                5 => "rm -rf \"$P\"".to_owned(),
                _ => continue,
            };
            let ran = Command::new("sh").args(["-c", &line]).env("P", path).status().unwrap();
            assert!(ran.success(), "{line} {path:?}");
        }
        let before = take(&sandbox, "monday");
        succeed(&ours, sandbox.path(), "--link-dest=../monday s tuesday");
        let rsync = "rsync -aHAX --modify-window=-1 --link-dest=../monday s/ theirs/";
        sandbox.script(rsync).unwrap();
        let label = format!("seed {seed}, case {case}");
        let monday = sandbox.join("monday");
        let [we, they] = ["tuesday", "theirs"].map(|name| linked(&sandbox.join(name), &monday));
        assert_eq!(we, they, "{label}");
        for (name, expected) in [("monday", &before), ("tuesday", &take(&sandbox, "s"))] {
            let differences = compare(expected, &take(&sandbox, name), FACTS).unwrap();
            assert!(differences.is_empty(), "{label}, {name}: {differences}");
        }
        // Again, after changes to attributes alone: the earlier copy keeps its own.
        sandbox.script("chmod -R u+x s; find s -type f -exec chown 3:4 {} +").unwrap();
        succeed(&ours, sandbox.path(), "--link-dest=../monday s tuesday");
        for (name, expected) in [("monday", &before), ("tuesday", &take(&sandbox, "s"))] {
            let differences = compare(expected, &take(&sandbox, name), FACTS).unwrap();
            assert!(differences.is_empty(), "{label}, {name} again: {differences}");
        }
    }
}

fn scene(script: &str) -> Sandbox {
    let sandbox = Sandbox::in_memory().unwrap();
    let script = format!("mkdir -p s/d; echo 1 >s/a; echo 2 >s/d/b; ln s/a s/d/twin; ln -s a s/l; {script}");
    sandbox.script(&script).unwrap();
    sandbox
}

#[test]
fn nothing_is_opened_for_what_is_linked() {
    let ours = program!();
    require!(ours.needs_haul(), needs::tool("strace"));
    let sandbox = scene("rm s/d/twin; for n in 11 12 13 14 15; do echo $n >s/d/$n; done; cp -a s monday");
    let run = TestRun::new(ours.path()).args(["sync", "--link-dest=../monday", "s", "tuesday"]);
    let run = run.in_folder(sandbox.path());
    let (outcome, calls) = record(run, "file,desc", &sandbox.join("log")).unwrap();
    assert!(outcome.succeeded(), "{}", outcome.errors());
    for number in 11..=15 {
        let name = format!("\"{number}\"");
        let calls = calls.iter().filter(|call| call.arguments.contains(&name));
        let mut names: Vec<_> = calls.map(|call| call.name.as_str()).collect();
        names.sort_unstable();
        // The target is looked up first, and last to see what was linked.
        assert_eq!(names, ["linkat", "statx", "statx", "statx", "statx"], "{number}");
    }
    let linked = linked(&sandbox.join("tuesday"), &sandbox.join("monday"));
    assert_eq!(linked, ["a", "d/11", "d/12", "d/13", "d/14", "d/15", "d/b", "l"]);
}

#[test]
fn the_first_of_several_directories_that_has_a_file_is_taken() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = scene("cp -a s one; cp -a s two; echo other >one/d/b; rm two/l");
    let two = sandbox.join("two").display().to_string();
    succeed(&ours, sandbox.path(), &format!("--link-dest=../one --link-dest={two} s new"));
    let new = sandbox.join("new");
    assert_eq!(linked(&new, &sandbox.join("one")), ["a", "d/twin", "l"]);
    assert_eq!(linked(&new, &sandbox.join("two")), ["d/b"]);
}

#[test]
fn a_dry_run_links_nothing_and_foresees_the_links() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = scene("cp -a s one; echo changed >s/d/b");
    let run = |line: &str| sync(&ours, sandbox.path(), line).printed();
    let dry = run("-n -i --link-dest=../one s new");
    assert!(!sandbox.join("new").exists());
    let mut real: Vec<_> = run("-i --link-dest=../one s new").lines().map(str::to_owned).collect();
    real.sort();
    let mut dry: Vec<_> = dry.lines().map(str::to_owned).collect();
    dry.sort();
    assert_eq!(dry, real);
    assert!(real.iter().any(|line| line == ">f+++++++++ d/b"), "{real:?}");
    assert!(!real.iter().any(|line| line.starts_with(">f+++++++++ a") || line.starts_with("cL")), "{real:?}");
}

#[test]
fn a_snapshot_is_made_again_after_it_became_the_latest() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = scene("mkdir before; cp -a s before/s; cp -a s monday; ln -sfn monday latest");
    for (change, again) in
        [("true", ""), ("chmod 600 s/d/b; echo 55 >s/d/b; echo 6 >s/new", "-n "), ("true", "")]
    {
        sandbox.script(change).unwrap();
        succeed(&ours, sandbox.path(), &format!("{again}--link-dest=../latest s tuesday"));
        sandbox.script("ln -sfn tuesday latest").unwrap();
    }
    let differences = compare(&take(&sandbox, "s"), &take(&sandbox, "tuesday"), FACTS).unwrap();
    assert!(differences.is_empty(), "{differences}");
    // What it shares with the one before wasn't changed.
    let differences = compare(&take(&sandbox, "before/s"), &take(&sandbox, "monday"), FACTS).unwrap();
    assert!(differences.is_empty(), "{differences}");
    assert!(linked(&sandbox.join("tuesday"), &sandbox.join("monday")).contains(&"a".to_owned()));
}

#[test]
fn a_directory_that_is_no_earlier_copy_is_refused_and_a_missing_one_is_reported() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = scene("cp -a s one; mkdir -p t/in; echo >file");
    for (line, why) in [
        ("--link-dest=../file s t", "not a directory"),
        ("--link-dest=in s t", "is inside TARGET"),
        ("--link-dest=one s t", "does not exist"),
        ("--link-dest=/proc s t", "another file system"),
        ("--link-dest= s t", "--link-dest"),
        ("--link-dest=../one --inplace s t", "--inplace"),
        ("--link-dest=../one --existing s t", "--existing"),
    ] {
        let outcome = sync(&ours, sandbox.path(), line);
        assert!(outcome.errors().contains(why), "{line}: {}", outcome.errors());
        let is_copied = why == "does not exist";
        assert_eq!(outcome.succeeded(), is_copied, "{line}");
        assert_eq!(sandbox.join("t/a").exists(), is_copied, "{line}");
        sandbox.script("rm -rf t/d t/a").unwrap();
    }
}

/// Returns the files below a directory with their contents, and the modes of its directories.
fn kept(root: &Path) -> Vec<(String, String)> {
    let names = walkdir::WalkDir::new(root).sort_by_file_name().min_depth(1).into_iter();
    let of = |entry: walkdir::DirEntry| {
        let there = entry.path().symlink_metadata().unwrap();
        let below = entry.path().strip_prefix(root).unwrap().to_string_lossy().into_owned();
        let content = match there.file_type() {
            kind if kind.is_dir() => format!("{:o} {}", there.mode() & 0o7777, there.uid()),
            kind if kind.is_symlink() => entry.path().read_link().unwrap().display().to_string(),
            _ => std::fs::read_to_string(entry.path()).unwrap(),
        };
        (below, content)
    };
    names.map(|entry| of(entry.unwrap())).collect()
}

/// Makes the file `target`, with the time `@1000`, so that the time at which it changed ends in a
/// zero, as every tenth does by chance.
fn make_changed_at_round_time(target: &Path) {
    std::fs::write(target, "old").unwrap();
    loop {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let file = std::fs::File::options().append(true).open(target).unwrap();
        file.set_times(FileTimes::new().set_modified(time).set_accessed(time)).unwrap();
        if target.metadata().unwrap().ctime_nsec() % 10 == 0 {
            return;
        }
    }
}

#[test]
fn a_file_that_is_a_few_nanoseconds_newer_is_copied() {
    let ours = program!();
    require!(ours.needs_haul());
    let make = |sandbox: &Sandbox| {
        sandbox
            .script("mkdir s t e; echo new >s/f; truncate -s 3 s/f; touch -d @1000.000000005 s/f")
            .unwrap();
    };
    let is_copied = |sandbox: &Sandbox, name: &str, how: &str| {
        assert_eq!(std::fs::read(sandbox.join(name)).unwrap(), b"new", "{how}");
    };
    for line in ["-pu s/f t", "-au s/f t", "-aT --update=older s t"] {
        let sandbox = Sandbox::in_memory().unwrap();
        make(&sandbox);
        make_changed_at_round_time(&sandbox.join("t/f"));
        let run = ours.run().args(line.split(' ')).in_folder(sandbox.path());
        run.succeed().unwrap();
        is_copied(&sandbox, "t/f", line);
    }
    for (line, old) in [
        ("s t", "t/f"),
        ("--backup-dir=../e s t", "t/f"),
        ("--update s t", "t/f"),
        ("--link-dest=../e s t", "e/f"),
    ] {
        let sandbox = Sandbox::in_memory().unwrap();
        make(&sandbox);
        make_changed_at_round_time(&sandbox.join(old));
        succeed(&ours, sandbox.path(), line);
        is_copied(&sandbox, "t/f", line);
    }
}

/// The kernel drops the nanoseconds of the first second that a file system can store.
#[test]
fn a_time_in_the_first_second_is_the_same_in_the_next_sync() {
    let ours = program!();
    for file_system in ["ext4", "xfs"] {
        require!(ours.needs_haul(), needs::loop_mount(file_system));
        let sandbox = Sandbox::in_memory().unwrap();
        let mount = Mount::image(file_system, 320 << 20).unwrap();
        sandbox.script("mkdir s; echo x >s/f; touch -d @-2147483647.999999999 s/f").unwrap();
        let line = format!("-i s {}", mount.join("t").display());
        assert!(succeed(&ours, sandbox.path(), &line).contains(">f+++++++++ f\n"));
        assert_eq!(succeed(&ours, sandbox.path(), &line), "", "{file_system}");
    }
}

#[test]
fn what_is_replaced_or_deleted_is_kept_where_rsync_keeps_it() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("rsync"));
    let sandbox = scene(
        "cp -a s t; mkdir -p t/old/deep t/d/sub; echo x >t/old/deep/f; ln -s q t/old/link; echo y >t/d/sub/g
         chmod 751 t/old; chown 3 t/old/deep; echo same >t/extra; cp -a t theirs
         echo new and longer >s/d/b; ln -sfn elsewhere s/l",
    );
    succeed(&ours, sandbox.path(), "--delete --backup-dir=../kept s t");
    sandbox.script("rsync -aHAX --delete --backup-dir=../rsyncs --backup s/ theirs/").unwrap();
    let differences = compare(&take(&sandbox, "s"), &take(&sandbox, "t"), FACTS).unwrap();
    assert!(differences.is_empty(), "{differences}");
    let (we, they) = (kept(&sandbox.join("kept")), kept(&sandbox.join("rsyncs")));
    assert_eq!(we, they);
    let names: Vec<_> = we.iter().map(|(name, _)| name.as_str()).collect();
    let expected =
        ["d", "d/b", "d/sub", "d/sub/g", "extra", "l", "old", "old/deep", "old/deep/f", "old/link"];
    assert_eq!(names, expected);
    // Again, into the same directory: the later files take the place of the earlier ones.
    sandbox.script("echo third >s/d/b; touch -d @5 s/d/b").unwrap();
    succeed(&ours, sandbox.path(), "--delete --backup-dir=../kept s t");
    assert_eq!(std::fs::read_to_string(sandbox.join("kept/d/b")).unwrap(), "new and longer\n");
    assert!(!kept(sandbox.path()).iter().any(|(name, _)| name.contains(".haul-")));
}

/// Of two names of a file, a killed run has replaced one, whose original is kept. The next run
/// makes one a link to the other, in the order in which it finds them.
#[test]
fn what_a_killed_run_has_kept_is_not_replaced_by_what_it_made() {
    let ours = program!();
    require!(ours.needs_haul());
    for (made, due) in [("a", "b"), ("b", "a")] {
        let sandbox = Sandbox::in_memory().unwrap();
        let script = format!(
            "mkdir s t kept; echo new >s/a; ln s/a s/b; cp -p s/a t/{made}; echo old-{made} >kept/{made}; echo old-{due} >t/{due}"
        );
        sandbox.script(&script).unwrap();
        succeed(&ours, sandbox.path(), "-j1 --backup-dir=../kept s t");
        let content = |name: &str| std::fs::read_to_string(sandbox.join("kept").join(name)).unwrap();
        assert_eq!([content("a"), content("b")], ["old-a\n", "old-b\n"], "{made}");
        let differences = compare(&take(&sandbox, "s"), &take(&sandbox, "t"), FACTS).unwrap();
        assert!(differences.is_empty(), "{made}: {differences}");
    }
}

#[test]
fn nothing_is_replaced_or_deleted_that_cannot_be_kept() {
    let ours = program!();
    require!(ours.needs_haul());
    // There is no room in the name for a number.
    let long = "x".repeat(255);
    let sandbox = scene(&format!(
        "cp -a s t; echo 3 >s/d/{long}; cp -a s/d/{long} t/d; mkdir -p kept/d/{long}; echo extra >t/{long}; mkdir kept/{long}"
    ));
    sandbox.script(&format!("echo other >s/d/{long}; echo other and longer >s/a")).unwrap();
    let outcome = sync(&ours, sandbox.path(), "--backup-dir=../kept s t");
    let errors = outcome.errors();
    assert!(errors.contains("cannot backup 't/d/xxx") && !outcome.succeeded(), "{errors}");
    assert_eq!(std::fs::read(sandbox.join("t/d").join(&long)).unwrap(), b"3\n");
    // The rest was done.
    assert_eq!(std::fs::read(sandbox.join("t/a")).unwrap(), b"other and longer\n");
    assert_eq!(std::fs::read(sandbox.join("kept/a")).unwrap(), b"1\n");
    sandbox.script(&format!("rm s/d/{long} t/d/{long}")).unwrap();
    let outcome = sync(&ours, sandbox.path(), "--delete --backup-dir=../kept s t");
    let errors = outcome.errors();
    assert!(errors.contains("cannot remove 't/xxx") && !outcome.succeeded(), "{errors}");
    assert!(sandbox.join("t").join(&long).exists());
}

/// Runs a sync of which strace makes calls fail.
fn sync_failing(ours: &CopyProgram, folder: &Path, failing: &[&str], line: &str) -> RunOutcome {
    let inject = failing.iter().flat_map(|what| ["-e".to_owned(), format!("inject={what}")]);
    let quiet = ["-f", "-qq", "-o", "/dev/null"].map(str::to_owned);
    let arguments = quiet.into_iter().chain(inject).chain(["--".to_owned()]).map(OsString::from).collect();
    let run = TestRun::new(ours.path()).args(["sync", "--jobs=1", "--engine=sync"]).args(line.split(' '));
    let run = run.env("LC_ALL", "C").in_folder(folder);
    run.behind(&needs::find_tool("strace").unwrap(), arguments).finish().unwrap()
}

/// As for another user's file (`fs.protected_hardlinks`), and everywhere on FAT.
#[test]
fn where_files_have_one_name_what_is_replaced_keeps_it_until_the_new_one_is_complete() {
    let ours = program!();
    require!(ours.needs_haul(), needs::tool("strace"));
    let read = |sandbox: &Sandbox, name: &str| std::fs::read_to_string(sandbox.join(name)).unwrap();
    for no_link in ["linkat:error=EPERM", "linkat:error=EMLINK", "linkat:error=EOPNOTSUPP"] {
        for (make, failing) in [
            ("echo new >s/f", "pwrite64,write:error=ENOSPC:when=1"),
            ("echo new >s/f", "fchmod:error=EIO"),
            ("ln -s new s/f", "symlinkat:error=ENOSPC"),
            ("mkfifo s/f", "mknodat:error=ENOSPC"),
        ] {
            let sandbox = Sandbox::in_memory().unwrap();
            sandbox.script(&format!("mkdir s t; echo old >t/f; touch -d @5 t/f; {make}")).unwrap();
            let outcome =
                sync_failing(&ours, sandbox.path(), &[no_link, failing], "--backup-dir=../kept s t");
            assert_eq!(outcome.status(), Some(1), "{no_link} {failing}: {}", outcome.errors());
            assert_eq!(read(&sandbox, "t/f"), "old\n", "{no_link} {failing}: {}", outcome.errors());
        }
        // Every night, and the second one finds the backup of the first.
        let sandbox = Sandbox::in_memory().unwrap();
        sandbox.script("mkdir s t; echo first >t/f; ln -s first t/link").unwrap();
        for (new, old) in [("second one", "first"), ("third", "second one"), ("the last", "third")] {
            sandbox.script(&format!("echo {new} >s/f; ln -sfn {new:?} s/link")).unwrap();
            let outcome = sync_failing(&ours, sandbox.path(), &[no_link], "--backup-dir=../kept s t");
            assert!(outcome.succeeded(), "{no_link} {new}: {}", outcome.errors());
            assert_eq!(read(&sandbox, "t/f"), format!("{new}\n"));
            assert_eq!(read(&sandbox, "kept/f"), format!("{old}\n"));
            assert_eq!(sandbox.join("kept/link").read_link().unwrap(), Path::new(old));
        }
        let names = kept(sandbox.path()).into_iter().map(|(name, _)| name);
        assert!(!names.into_iter().any(|name| name.contains(".haul-")));
    }
}

#[test]
fn the_directory_of_a_backup_is_complete_or_missing() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("strace"));
    for failing in ["fchown:error=EDQUOT:when=1", "fchmod:error=EIO:when=2"] {
        let sandbox = Sandbox::in_memory().unwrap();
        sandbox.script("mkdir -p s/d t/d; echo new >s/d/f; echo older >t/d/f; chown 5:6 s/d t/d").unwrap();
        // The first to be made is the backup itself, like the target.
        sandbox.script("chown 3:4 s t; chmod 751 s t").unwrap();
        let outcome = sync_failing(&ours, sandbox.path(), &[failing], "--backup-dir=../kept s t");
        assert!(outcome.errors().contains("cannot backup 't/d/f'"), "{failing}: {}", outcome.errors());
        succeed(&ours, sandbox.path(), "--backup-dir=../kept s t");
        for (name, wanted) in [("kept", (3, 4, 0o751)), ("kept/d", (5, 6, 0o755))] {
            let stat = std::fs::metadata(sandbox.join(name)).unwrap();
            assert_eq!((stat.uid(), stat.gid(), stat.mode() & 0o7777), wanted, "{failing}: {name}");
        }
    }
}

#[test]
fn a_backup_waits_for_room_and_is_then_like_any_other() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("strace"));
    // After two directories that are there, that of the backup is made.
    for failing in ["mkdirat:error=ENOSPC:when=3..4", "fchown:error=EDQUOT:when=1"] {
        for scene in ["echo new >s/d/f; echo older >t/d/f", "echo extra >t/d/f"] {
            let sandbox = Sandbox::in_memory().unwrap();
            sandbox
                .script(&format!("mkdir -p s/d t/d; {scene}; chown 5:6 s/d t/d; chmod 751 s/d t/d"))
                .unwrap();
            let line = "--on-full=pause --delete --really --backup-dir=../kept s t";
            let outcome = sync_failing(&ours, sandbox.path(), &[failing], line);
            let errors = outcome.errors();
            assert!(outcome.succeeded(), "{failing} {scene}: {errors}");
            let said = ["no space left for 't/d/f': waiting\n", "space is available again: continuing\n"];
            assert_eq!(errors.replace("haul sync: ", ""), said.concat(), "{failing} {scene}");
            let stat = std::fs::metadata(sandbox.join("kept/d")).unwrap();
            assert_eq!((stat.uid(), stat.gid(), stat.mode() & 0o7777), (5, 6, 0o751), "{failing} {scene}");
            assert!(sandbox.join("kept/d/f").exists(), "{failing} {scene}");
        }
    }
}

#[test]
fn a_backup_opens_each_directory_of_a_deep_tree_once() {
    let ours = program!();
    require!(ours.needs_haul(), needs::tool("strace"));
    let levels = 200;
    for scene in ["echo x >t/$p/f", "echo new >s/$p/f; echo older >t/$p/f"] {
        let opened = |options: &[&str]| {
            let sandbox = Sandbox::in_memory().unwrap();
            let make = "p=.; mkdir s t; for i in $(seq LEVELS); do p=$p/d; mkdir s/$p t/$p; done";
            sandbox.script(&format!("{}; {scene}", make.replace("LEVELS", &levels.to_string()))).unwrap();
            let run =
                TestRun::new(ours.path()).args(["sync", "--jobs=1", "--delete", "--really"]).args(options);
            let run = run.args(["s", "t"]).in_folder(sandbox.path());
            let (outcome, calls) = record(run, "openat", &sandbox.join("log")).unwrap();
            assert!(outcome.succeeded(), "{}", outcome.errors());
            calls.len()
        };
        let (without, with) = (opened(&[]), opened(&["--backup-dir=../kept"]));
        assert!(with < without + 10 * levels, "{scene}: {with} files opened, {without} without a backup");
    }
}

#[test]
fn what_was_kept_under_another_type_is_moved_aside() {
    let ours = program!();
    require!(ours.needs_haul());
    // Deleted and replaced, where a directory was kept, and where a file was.
    let kept =
        "mkdir -p kept/v kept/r; echo 1 >kept/v/x; echo 2 >kept/r/x; echo 3 >kept/w; echo 4 >kept/w.~1~";
    let sandbox =
        scene(&format!("cp -a s t; {kept}; echo v >t/v; echo r >t/r; mkdir t/w; echo w >t/w/y; ln -s a s/r"));
    succeed(&ours, sandbox.path(), "--delete --backup-dir=../kept s t");
    assert_eq!(succeed(&ours, sandbox.path(), "-i --delete --backup-dir=../kept s t"), "");
    let content = |name: &str| std::fs::read_to_string(sandbox.join("kept").join(name)).unwrap();
    let found = ["v", "v.~1~/x", "r", "r.~1~/x", "w/y", "w.~1~", "w.~2~"].map(content);
    assert_eq!(found.concat(), "v\n1\nr\n2\nw\n4\n3\n");
}

#[test]
fn few_descriptors_are_enough_to_keep_files_of_many_directories() {
    let ours = program!();
    require!(ours.needs_haul());
    for count in [12, 20, 64] {
        let sandbox = Sandbox::in_memory().unwrap();
        let make = "for i in $(seq 100); do mkdir -p s/a/$i/in t/a/$i/in t/extra/$i; echo 1 >t/extra/$i/f
            echo new >s/a/$i/in/f; echo 1 >t/a/$i/in/f; done";
        sandbox.script(make).unwrap();
        let words = ["sync", "--delete", "--really", "--max-delete=100%", "--backup-dir=../kept", "s", "t"];
        let run = TestRun::new(ours.path()).args(words).open_files(count).in_folder(sandbox.path());
        let outcome = run.finish().unwrap();
        assert!(outcome.succeeded(), "{count} descriptors: {}", outcome.errors());
        let files = kept(&sandbox.join("kept")).into_iter().filter(|(name, _)| name.ends_with("/f"));
        assert_eq!(files.count(), 200, "{count} descriptors");
        assert!(!sandbox.join("t/extra").exists(), "{count} descriptors");
    }
}

#[test]
fn a_directory_that_cannot_keep_files_is_refused() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = scene("cp -a s t; echo >file; echo other >s/a; mkdir -p earlier/in; ln -s none/kept away");
    for (line, why) in [
        ("--link-dest=../earlier --backup-dir=../earlier s t", "must not be the directory of --link-dest"),
        ("--link-dest=../earlier --backup-dir=../earlier/in s t", "must not be the directory of --link-dest"),
        ("--link-dest=../earlier/in --backup-dir=../earlier s t", "must not be the directory of --link-dest"),
        ("--backup-dir=. s t", "must not be"),
        ("--backup-dir=sub s t", "must not be"),
        ("--backup-dir=../s/kept s t", "must not be"),
        ("--backup-dir=.. s t", "must not be"),
        ("--backup-dir=../file s t", "not a directory"),
        ("--backup-dir=../no/such s t", "No such file"),
        // The disk that it is on isn't mounted.
        ("--backup-dir=../away s t", "No such file"),
        ("--backup-dir=/proc/x s t", "another file system"),
        ("--backup-dir= s t", "--backup-dir"),
        ("--backup-dir=../kept --inplace s t", "--inplace"),
    ] {
        let outcome = sync(&ours, sandbox.path(), line);
        assert!(outcome.errors().contains(why), "{line}: {}", outcome.errors());
        assert!(!outcome.succeeded(), "{line}");
        assert_eq!(std::fs::read(sandbox.join("t/a")).unwrap(), b"1\n", "{line}");
    }
    // A dry run makes nothing, nor does a run that keeps nothing.
    succeed(&ours, sandbox.path(), "-n --backup-dir=../kept s t");
    assert!(!sandbox.join("kept").exists());
    sandbox.script("rm -r t; cp -a s t").unwrap();
    succeed(&ours, sandbox.path(), "--backup-dir=../kept s t");
    assert!(!sandbox.join("kept").exists());
}
