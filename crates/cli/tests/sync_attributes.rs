//! `haul sync`: attributes that can't be kept, and those of files that other trees have too.

#![allow(clippy::unwrap_used, clippy::panic)]

mod sync_command;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use haul_testkit::mount::Mount;
use haul_testkit::{Facts, Sandbox, TestRun, compare, needs, program, require};

use sync_command::{FACTS, paths, scene, succeed, sync, take};

/// Returns the paths below a directory, sorted.
fn names_below(root: &Path) -> Vec<String> {
    let relative = |path: PathBuf| path.strip_prefix(root).unwrap().display().to_string();
    paths(root).into_iter().map(relative).collect()
}

/// An ordinary user's read-only directories are made writable during the sync, like in rsync.
#[test]
fn read_only_directories_of_an_ordinary_user_are_kept_equal() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root());
    for options in ["-i --delete", "-i --delete --no-preserve=mode", "-i --delete --backup-dir=../kept"] {
        let sandbox = Sandbox::in_memory().unwrap();
        let as_nobody = |command: &str| {
            let run = TestRun::new(Path::new("/bin/sh")).args(["-c", command]).as_nobody();
            run.in_folder(sandbox.path()).succeed().unwrap();
        };
        sandbox.script("chmod 777 .").unwrap();
        as_nobody(
            "umask 022; mkdir -p s/ro/below s/none; cd s; echo 1 >ro/old; echo 2 >ro/changed; ln ro/old ro/name
            mkdir ro/type; echo 3 >none/f; cd ..; cp -a s t; mkdir -p t/ro/extra/in; echo x >t/ro/extra/in/f
            echo 4 >s/ro/changed; echo 5 >s/ro/below/new; rmdir s/ro/type; echo 6 >s/ro/type; rm s/ro/name
            chmod -R a-w s/ro t; chmod 500 t/none",
        );
        let sync = |line: &str| {
            let run = TestRun::new(ours.path()).arg("sync").args(line.split(' ')).env("LC_ALL", "C");
            let outcome = run.as_nobody().in_folder(sandbox.path()).finish().unwrap();
            assert!(outcome.succeeded(), "{line}: {}", outcome.errors());
            assert!(outcome.errors().is_empty(), "{line}: {}", outcome.errors());
            outcome.printed()
        };
        let sorted = |printed: &str| {
            let mut lines: Vec<_> = printed.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let modes =
            || ["t", "t/ro", "t/none"].map(|name| fs::metadata(sandbox.join(name)).unwrap().mode() & 0o7777);
        let before = modes();
        let dry = sync(&format!("-j1 -n {options} s t"));
        assert_eq!(before, modes());
        let printed = sync(&format!("-j1 {options} s t"));
        assert_eq!(sorted(&dry), sorted(&printed));
        assert!(printed.contains("*deleting   ro/extra/in/f\n"), "{printed}");
        match options.contains("mode") {
            true => assert_eq!(before, modes()),
            false => assert_eq!(modes(), [0o755, 0o555, 0o755]),
        }
        let (s, t) = (sandbox.join("s"), sandbox.join("t"));
        let differences =
            haul_testkit::compare::compare_paths(&s, &t, Facts::CONTENT | Facts::MODIFIED).unwrap();
        assert!(differences.is_empty(), "{options}: {differences}");
        assert_eq!(sync(&format!("{options} s t")), "", "{options}");
        // Nothing can be listed here before the copy makes it readable.
        as_nobody("chmod 0 t/none; echo more >>s/none/f");
        sync("s t");
        assert_eq!(fs::read(t.join("none/f")).unwrap(), b"3\nmore\n");
        assert_eq!(modes(), [0o755, 0o555, 0o755]);
    }
}

/// Attributes of a file belong to all of its names.
#[test]
fn names_that_only_the_target_shares_are_parted_before_attributes_are_set() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("setfattr"));
    for change in ["chmod 600 s/a", "chown 5:6 s/a", "setfattr -n user.k -v 1 s/a", "touch -h -d @9 s/link"] {
        // `a` and `b` were one file. The target has a copy with the same files.
        let sandbox = scene("rm s/a s/twin -r; mkdir s/d; echo 1 >s/a; ln s/a s/b; ln -s a s/link");
        succeed(&ours, sandbox.path(), "s t");
        sandbox.script(&format!("cp -al t kept; cp -p s/b s/new; mv s/new s/b; {change}")).unwrap();
        let before = sync_command::take(&sandbox, "kept");
        succeed(&ours, sandbox.path(), "s t");
        let differences = compare(&before, &sync_command::take(&sandbox, "kept"), FACTS).unwrap();
        assert!(differences.is_empty(), "{change}: {differences}");
        // Where no attributes differ, they stay names of one file, as with rsync.
        let [s, t] = ["s", "t"].map(|tree| sync_command::take(&sandbox, tree));
        let differences = compare(&s, &t, FACTS.difference(Facts::LINKS)).unwrap();
        assert!(differences.is_empty(), "{change}: {differences}");
        assert_eq!(succeed(&ours, sandbox.path(), "-i s t"), "", "{change}");
    }
}

#[test]
fn what_is_only_replaced_for_its_other_names_has_no_other_content() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox
        .script(
            "mkdir s; echo x >s/f; ln -s f s/l; mkfifo s/p; touch -h -d @5 s/*; cp -a s t
            ln t/f f; ln -P t/l l; ln t/p p; chmod 600 s/f s/p; touch -h -d @7 s/l",
        )
        .unwrap();
    for options in ["-n -i -c s t", "-i -c s t"] {
        let printed = succeed(&ours, sandbox.path(), options);
        let mut lines: Vec<_> = printed.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, [">f...p..... f", "cL..t...... l -> f", "cS...p..... p"], "{options}");
    }
}

#[test]
fn attributes_that_the_target_cannot_store_are_reported_once_and_are_no_difference() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("setfattr"));
    let (sandbox, mount) = (Sandbox::in_memory().unwrap(), Mount::without_attributes().unwrap());
    sandbox
        .script("mkdir -p s/d; for f in s/1 s/d/2 s/d/3; do echo >$f; setfattr -n user.k -v 1 $f; done")
        .unwrap();
    std::os::unix::fs::symlink(mount.path(), sandbox.join("m")).unwrap();
    let lost = |line: &str| {
        let outcome = sync(&ours, sandbox.path(), line);
        assert!(outcome.succeeded(), "{line}: {}", outcome.errors());
        assert_eq!(outcome.errors().matches("can't store all extended attributes").count(), 1, "{line}");
        assert_eq!(outcome.errors().lines().count(), 1, "{line}");
        outcome.printed()
    };
    assert_eq!(lost("-i s m/t").lines().count(), 5);
    assert_eq!(lost("-i s m/t"), "");
    assert_eq!(lost("-i --link-dest=../t s m/later"), "cd+++++++++ ./\ncd+++++++++ d/\n");
    assert_eq!(fs::metadata(mount.join("later/d/2")).unwrap().nlink(), 2);
}

/// An ordinary user gives no files away, and so no set-id bits. Times beyond those of the target's
/// file system become its first or last one.
#[test]
fn what_cannot_be_kept_is_no_difference() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("setfattr"), needs::loop_mount("ext4"));
    let (sandbox, mount) = (Sandbox::in_memory().unwrap(), Mount::image("ext4", 32 << 20).unwrap());
    sandbox
        .script(&format!(
            "mkdir -p s/shared s/tmp; echo 1 >s/program; echo 2 >s/old; ln -s old s/link; chown -R 1:50 s
            chmod 2775 s/shared; chmod 1777 s/tmp; chmod 6755 s/program; touch -h -d 1601-01-01 s/old s/link
            setfattr -n security.capability -v 0x0100000200000000000000000000000000000000 s/old
            touch -d 2500-01-01 s/tmp; chmod 777 . {}; ln -s {} m",
            mount.path().display(),
            mount.path().display()
        ))
        .unwrap();
    let sync = |line: &str| {
        let run = TestRun::new(ours.path()).arg("sync").args(line.split(' ')).env("LC_ALL", "C");
        let outcome = run.as_nobody().in_folder(sandbox.path()).finish().unwrap();
        assert!(outcome.succeeded() && outcome.errors().is_empty(), "{line}: {}", outcome.errors());
        outcome.printed()
    };
    assert_eq!(sync("-i s m/t").lines().count(), 6);
    assert_eq!((sync("-n -i s m/t"), sync("-i s m/t")), (String::new(), String::new()));
    sync("--link-dest=../t s m/later");
    assert_eq!(fs::metadata(mount.join("later/old")).unwrap().nlink(), 2);
}

#[test]
fn directories_with_access_lists_are_not_touched_if_they_are_the_same() {
    let ours = program!();
    require!(ours.needs_haul(), needs::tool("setfacl"));
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox
        .script("mkdir -p s/d s/e s/f; setfacl -m u:7:rx s/d; setfacl -d -m u:7:rx s/e; setfacl -m u:7:rx,d:u:8:r s/f")
        .unwrap();
    succeed(&ours, sandbox.path(), "s t");
    let changed =
        || ["d", "e", "f"].map(|name| fs::metadata(sandbox.join("t").join(name)).unwrap().ctime_nsec());
    let before = changed();
    assert_eq!(succeed(&ours, sandbox.path(), "-i s t"), "");
    assert_eq!(changed(), before);
    sandbox.script("setfacl -m u:7:r s/d; setfacl -k s/e; setfacl -b s/f").unwrap();
    assert_eq!(succeed(&ours, sandbox.path(), "-i s t").lines().count(), 3);
    assert_eq!(succeed(&ours, sandbox.path(), "-n -i s t"), "");
}

#[test]
fn what_a_user_cannot_give_is_no_difference() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root());
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script("mkdir -p s/d; echo x >s/d/f; chown -R 5:6 s; chmod 777 .").unwrap();
    let sync = |line: &str| {
        let run = TestRun::new(ours.path()).arg("sync").args(line.split(' ')).env("LC_ALL", "C");
        let outcome = run.as_nobody().in_folder(sandbox.path()).finish().unwrap();
        assert!(outcome.succeeded() && outcome.errors().is_empty(), "{}", outcome.errors());
        outcome.printed()
    };
    assert_eq!(sync("-i s t").lines().count(), 3);
    assert_eq!((sync("-n -i s t"), sync("-i s t")), (String::new(), String::new()));
}

#[test]
fn directories_that_the_copy_makes_accessible_are_so_for_the_deletion() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root());
    let sandbox = Sandbox::in_memory().unwrap();
    let ours = ours.publish(sandbox.path()).unwrap();
    fs::set_permissions(sandbox.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let scene = "rm -rf f; mkdir f; cd f; mkdir -p s/d/e t/d/e t/d/x/y; echo 1 >s/d/e/f; touch t/d/e/old t/d/old t/d/x/y/z";
    for (closed, options) in [
        ("300 t/d", ""),
        ("600 t/d", ""),
        ("0 t/d t/d/e", ""),
        ("100 t/d/e", ""),
        ("0 t/d", "--no-preserve=mode "),
    ] {
        let what = format!("{options}{closed}");
        sandbox.script(&format!("{scene}; chown -R 65534 .; chmod {closed}")).unwrap();
        let haul = |line: &str| {
            let run = TestRun::new(ours.path()).arg("sync").args(line.split(' ')).env("LC_ALL", "C");
            run.as_nobody().in_folder(&sandbox.join("f")).finish().unwrap()
        };
        let mode = |name: &str| fs::metadata(sandbox.join(name)).unwrap().mode() & 0o7777;
        let before = (mode("f/t/d"), names_below(&sandbox.join("f/t")));
        let dry = haul(&format!("-n {options}--delete s t"));
        assert_eq!(dry.status(), Some(0), "{what}: {}", dry.errors());
        assert!(dry.errors().contains("cannot foresee what changes in 't/d"), "{what}: {}", dry.errors());
        // More than the limit, after the survey has looked everywhere.
        let refused = haul(&format!("{options}--delete --max-delete=0 s t"));
        assert_eq!(refused.status(), Some(1), "{what}: {}", refused.errors());
        assert!(refused.errors().contains("it would be 5 of"), "{what}: {}", refused.errors());
        sandbox.script(&format!("cd f; rm t/d/e/f; chmod {closed}")).unwrap();
        assert_eq!((mode("f/t/d"), names_below(&sandbox.join("f/t"))), before, "{what}");
        let real = haul(&format!("{options}--delete s t"));
        assert_eq!((real.errors().as_str(), real.status()), ("", Some(0)), "{what}");
        assert_eq!(names_below(&sandbox.join("f/t")), ["d", "d/e", "d/e/f"], "{what}");
        let expected = if options.is_empty() { mode("f/s/d") } else { before.0 };
        assert_eq!(mode("f/t/d"), expected, "{what}");
    }
}

/// Also in place, and where links aren't preserved: the other names may be in an earlier copy.
#[test]
fn files_with_other_names_are_never_written_to() {
    let ours = program!();
    require!(ours.needs_haul());
    let changes = [
        "echo new >s/f",
        "echo OLD >s/f",
        "chmod 600 s/f",
        "touch -d @2000 s/f",
        "setfattr -n user.a -v b s/f",
    ];
    for (change, options) in changes.iter().flat_map(|change| {
        ["", "--no-preserve=links ", "--inplace ", "--inplace --no-preserve=links "].map(|how| (change, how))
    }) {
        let what = format!("{options}{change}");
        let sandbox = Sandbox::in_memory().unwrap();
        let script = "mkdir s t earlier; echo old >s/f; echo other >s/g; chmod 644 s/f; touch -d @1000 s/f
            cp -p s/f earlier/f; ln earlier/f t/f; ln earlier/f t/g";
        sandbox.script(&format!("{script}; {change}")).unwrap();
        let before = take(&sandbox, "earlier");
        succeed(&ours, sandbox.path(), &format!("-c {options}s t"));
        let differences =
            compare(&before, &take(&sandbox, "earlier"), FACTS.difference(Facts::LINKS)).unwrap();
        assert!(differences.is_empty(), "{what}: {differences}");
        let differences = compare(&take(&sandbox, "s"), &take(&sandbox, "t"), FACTS).unwrap();
        assert!(differences.is_empty(), "{what}: {differences}");
    }
}

/// Until a replacement is complete, the old entry stays: a device can't be made by an ordinary
/// user, and for the file there is no room.
#[test]
fn what_cannot_be_replaced_stays() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root());
    for options in ["", "--inplace ", "--inplace --no-preserve=links "] {
        let sandbox = Sandbox::in_memory().unwrap();
        let script = "mkdir s t; mknod s/x c 1 3; mknod s/p b 7 9; echo keep >t/x; ln -s keep t/p; chown -h 65534 t t/*";
        sandbox.script(script).unwrap();
        let before = take(&sandbox, "t");
        let run = TestRun::new(ours.path()).arg("sync").args(format!("{options}s t").split(' '));
        let outcome = run.env("LC_ALL", "C").as_nobody().in_folder(sandbox.path()).finish().unwrap();
        assert_eq!(outcome.errors().matches("cannot create special file").count(), 2, "{options}");
        let differences = compare(&before, &take(&sandbox, "t"), Facts::CONTENT).unwrap();
        assert!(differences.is_empty(), "{options}: {differences}");

        let mount = Mount::memory(1 << 20).unwrap();
        let script = format!(
            "mkdir l; head -c 4M /dev/zero >l/f; cd {}; echo keep >f; ln f other",
            mount.path().display()
        );
        sandbox.script(&script).unwrap();
        let outcome = sync(&ours, sandbox.path(), &format!("{options}l {}", mount.path().display()));
        assert!(outcome.errors().contains("No space left on device"), "{options}: {}", outcome.errors());
        let found = names_below(mount.path());
        let content = fs::read(mount.join("f")).unwrap_or_default();
        assert_eq!(
            (content.as_slice(), found),
            (&b"keep\n"[..], vec!["f".to_owned(), "other".to_owned()]),
            "{options}"
        );
    }
}

#[test]
fn xattrs_of_an_ordinary_users_read_only_files_are_kept_equal() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("setfattr"), needs::tool("getfattr"));
    let sandbox = Sandbox::on_disk().unwrap();
    sandbox.script("chmod 777 .").unwrap();
    let as_nobody = |program: &Path, words: &[&str]| {
        let run = TestRun::new(program).args(words).env("LC_ALL", "C").as_nobody();
        let outcome = run.in_folder(sandbox.path()).finish().unwrap();
        assert_eq!((outcome.status(), outcome.errors().as_str()), (Some(0), ""), "{words:?}");
        outcome.printed()
    };
    let script = |script: &str| as_nobody(Path::new("/bin/sh"), &["-c", script]);
    script(
        "mkdir s t; for name in changed new writable extra; do echo x >s/$name; done; cp -p s/* t
        setfattr -n user.k -v 4 s/changed; setfattr -n user.k -v 3 t/changed; setfattr -n user.k -v 4 s/new
        setfattr -n user.k -v 4 s/writable; setfattr -n user.k -v 3 t/extra; chmod 444 s/* t/*; chmod 644 s/writable",
    );
    as_nobody(ours.path(), &["sync", "s", "t"]);
    let attributes = |tree: &str| script(&format!("cd {tree}; getfattr -d *; stat -c '%a %n' *"));
    assert_eq!(attributes("t"), attributes("s"));
    assert_eq!(as_nobody(ours.path(), &["sync", "-i", "s", "t"]), "");
}
