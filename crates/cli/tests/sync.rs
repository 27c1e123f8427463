//! `haul sync`: the target gets what is missing or differs, and nothing else is touched.
//! `rsync.rs` compares it with rsync.

#![allow(clippy::unwrap_used, clippy::panic)]

mod sync_command;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use haul_testkit::random::{self, Rng, seeded};
use haul_testkit::strace::{TracedCall, record};
use haul_testkit::{Facts, Sandbox, Snapshot, TestRun, compare, needs, program, require, wait};

use sync_command::{FACTS, fail, paths, scene, succeed, sync};

/// Changes to a target of [`scene`].
const CHANGES: &str = "
    echo other >t/a/1; touch -d @7 t/a/1; echo newer >t/a/b/3; touch -d @4000000000 t/a/b/3; chmod 700 t/a/2; touch -d @1 t/a/b/1; rm t/a/link t/twin; mkdir t/twin
    ln -sf elsewhere t/dangling; echo x >t/extra; rm -r t/empty; echo y >t/empty; rm t/fifo; echo z >t/fifo
    touch -h -d @5 t/dangling; chown 5:6 t/a/3; rm t/a/b/2";

#[test]
fn what_is_the_same_is_neither_opened_nor_changed() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("strace"), needs::tool("setfattr"));
    let sandbox = scene("for n in $(seq 100); do echo $n >s/empty/$n; done");
    succeed(&ours, sandbox.path(), "s t");
    let times = |root: &Path| -> Vec<_> {
        let changed = |path: PathBuf| {
            let there = fs::symlink_metadata(&path).unwrap();
            (path, there.ctime(), there.ctime_nsec())
        };
        paths(root).into_iter().map(changed).collect()
    };
    let before = times(&sandbox.join("t"));
    let run = TestRun::new(ours.path()).args(["sync", "s", "t"]).in_folder(sandbox.path());
    let (outcome, calls) = record(run, "all", &sandbox.join("log")).unwrap();
    assert!(outcome.succeeded(), "{}", outcome.errors());
    assert_eq!(times(&sandbox.join("t")), before);
    // By name, or before Linux 6.13 through `/proc`. An strace that doesn't know `listxattrat`
    // prints its number.
    let is_list = |call: &&TracedCall| ["listxattrat", "syscall_0x1d1", "llistxattr"].contains(&&*call.name);
    for number in 5..=100 {
        let name = format!("\"{number}\"");
        let of = calls.iter().filter(|call| call.arguments.contains(&name) && !is_list(call));
        let names: Vec<_> = of.map(|call: &TracedCall| call.name.as_str()).collect();
        assert_eq!(names, ["statx", "statx"], "{number}");
    }
    // Of all that is no directory and no further name, in both trees; of the file that has an
    // attribute, only the source's; of the file with several names twice, as they might be names of
    // other files in the source.
    let files = paths(&sandbox.join("s")).len() - 3 - 2;
    assert_eq!(calls.iter().filter(is_list).count(), 2 * files - 1 + 2);
    let statistics = succeed(&ours, sandbox.path(), "--stats=json s t");
    let statistics: serde_json::Value = serde_json::from_str(&statistics).unwrap();
    // All but the four directories.
    let count = paths(&sandbox.join("s")).len() - 3;
    assert_eq!(statistics["unchanged"].as_u64(), Some(count as u64), "{statistics}");
    assert_eq!([&statistics["files"], &statistics["mended"]], [0, 0], "{statistics}");
}

#[test]
fn attributes_are_mended_without_copying() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("setfattr"));
    let sandbox = scene("");
    succeed(&ours, sandbox.path(), "s t");
    let inode = |name: &str| fs::symlink_metadata(sandbox.join(name)).unwrap().ino();
    let before = ["t/a/2", "t/a/3", "t/dangling", "t/fifo"].map(inode);
    sandbox
        .script(
            "chmod 600 s/a/2; setfattr -n user.key -v new s/a/2; setfattr -n user.more -v m s/a/3
            chown 3:4 t/a/3; touch -h -d @77 t/dangling; chmod 7 t/fifo",
        )
        .unwrap();
    let shown = succeed(&ours, sandbox.path(), "-v s t");
    assert_eq!(shown.lines().count(), 4, "{shown}");
    assert!(shown.lines().all(|line| line.ends_with(" (attributes)")), "{shown}");
    assert_eq!(["t/a/2", "t/a/3", "t/dangling", "t/fifo"].map(inode), before);
    let take = |name: &str| Snapshot::take(&sandbox.join(name), Facts::PRESERVED).unwrap();
    let differences = compare(&take("s"), &take("t"), Facts::PRESERVED).unwrap();
    assert!(differences.is_empty(), "{differences}");
    // Also what somebody else has done to the target's.
    sandbox.script("setfattr -n user.other -v x t/a/2; setfattr -x user.more t/a/3").unwrap();
    let shown = succeed(&ours, sandbox.path(), "-v s t");
    assert_eq!(shown.lines().count(), 2, "{shown}");
    let differences = compare(&take("s"), &take("t"), Facts::PRESERVED).unwrap();
    assert!(differences.is_empty(), "{differences}");
}

#[test]
fn a_dry_run_says_what_the_run_then_does() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("setfattr"));
    let lines = |text: String| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let options = ["", "-c ", "-u ", "--inplace ", "-L ", "--exclude=a "];
    for (options, how) in options.iter().flat_map(|options| [(options, "-v -j1"), (options, "-i -j1")]) {
        let sandbox = scene(&format!("cp -a s t; {CHANGES}; chmod 640 s/a/4; rm s/dangling"));
        let before = Snapshot::take(sandbox.path(), Facts::PRESERVED).unwrap();
        let dry = lines(succeed(&ours, sandbox.path(), &format!("-n {how} {options}s t")));
        let after = Snapshot::take(sandbox.path(), Facts::PRESERVED).unwrap();
        let differences = compare(&before, &after, Facts::PRESERVED).unwrap();
        assert!(differences.is_empty(), "{options}: {differences}");
        let real = lines(succeed(&ours, sandbox.path(), &format!("{how} {options}s t")));
        assert_eq!(dry, real, "{how} {options}");
        // A second run has nothing to do.
        assert_eq!(succeed(&ours, sandbox.path(), &format!("{how} {options}s t")), "", "{options}");
    }
}

#[test]
fn links_in_the_target_are_replaced_and_never_followed() {
    let ours = program!();
    require!(ours.needs_haul());
    for options in ["", "--inplace ", "-L "] {
        let sandbox = Sandbox::in_memory().unwrap();
        sandbox
            .script(
                "mkdir -p s/d t outside; echo new >s/d/f; echo new >s/g; echo precious >outside/f
                ln -s ../outside t/d; ln -s ../outside/f t/g; touch -d @1 s/g",
            )
            .unwrap();
        succeed(&ours, sandbox.path(), &format!("{options}s t"));
        assert_eq!(fs::read(sandbox.join("outside/f")).unwrap(), b"precious\n");
        assert_eq!(fs::read_dir(sandbox.join("outside")).unwrap().count(), 1);
        assert_eq!(fs::read(sandbox.join("t/d/f")).unwrap(), b"new\n");
        assert_eq!(fs::read(sandbox.join("t/g")).unwrap(), b"new\n");
        assert!(!fs::symlink_metadata(sandbox.join("t/g")).unwrap().is_symlink());
    }
}

#[test]
fn a_directory_that_is_not_empty_is_never_replaced() {
    let ours = program!();
    require!(ours.needs_haul());
    for options in ["", "-n ", "--inplace "] {
        let sandbox = Sandbox::in_memory().unwrap();
        sandbox.script("mkdir -p s t/f t/g; echo new >s/f; echo new >s/g; echo old >t/f/precious").unwrap();
        let message = fail(&ours, sandbox.path(), &format!("{options}s t"));
        assert_eq!(message, "cannot overwrite directory 't/f' with non-directory 's/f'\n");
        assert_eq!(fs::read(sandbox.join("t/f/precious")).unwrap(), b"old\n");
        assert_eq!(fs::metadata(sandbox.join("t/g")).unwrap().is_dir(), options == "-n ");
    }
}

#[test]
fn an_existing_file_is_replaced_as_a_whole_unless_in_place() {
    let ours = program!();
    require!(ours.needs_haul());
    for (options, keeps) in [("", false), ("--inplace ", true)] {
        let sandbox = Sandbox::in_memory().unwrap();
        sandbox.script("mkdir s t; echo new >s/f; echo longer >t/f; chmod 400 t/f").unwrap();
        let inode = || fs::metadata(sandbox.join("t/f")).unwrap().ino();
        let before = inode();
        succeed(&ours, sandbox.path(), &format!("{options}s t"));
        assert_eq!(inode() == before, keeps, "{options}");
        assert_eq!(fs::read(sandbox.join("t/f")).unwrap(), b"new\n");
    }
}

#[test]
fn times_may_differ_by_the_window_and_newer_files_may_stay() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox
        .script("mkdir s t; echo a >s/f; echo b >t/f; touch -d @1000.9 s/f; touch -d @1002.8 t/f")
        .unwrap();
    let content = || fs::read(sandbox.join("t/f")).unwrap();
    for line in ["--modify-window=2 s t", "-u s t"] {
        assert_eq!(
            (succeed(&ours, sandbox.path(), &format!("-v {line}")), content()),
            (String::new(), b"b\n".to_vec())
        );
    }
    succeed(&ours, sandbox.path(), "--modify-window=1 s t");
    assert_eq!(content(), b"a\n");
    // The same size and time: only the content shows it.
    sandbox.script("echo c >s/f; touch -d @1000.9 s/f").unwrap();
    succeed(&ours, sandbox.path(), "s t");
    assert_eq!(content(), b"a\n");
    succeed(&ours, sandbox.path(), "--checksum s t");
    assert_eq!(content(), b"c\n");
}

/// SOURCE has one file under several names; TARGET has newer ones under some of them.
#[test]
fn newer_files_stay_whatever_names_the_source_has_for_them() {
    let ours = program!();
    require!(ours.needs_haul());
    for newer in ["a", "b", "c", "a b", "b c", "a b c"] {
        // In either order of the names.
        for names in ["a b c", "c b a"] {
            let sandbox = Sandbox::in_memory().unwrap();
            let script = format!(
                "mkdir s t; set -- {names}; echo old >s/$1; ln s/$1 s/$2; ln s/$1 s/$3; touch -d @1000 s/$1
                for name in {newer}; do echo precious $name >t/$name; done"
            );
            sandbox.script(&script).unwrap();
            let dry = succeed(&ours, sandbox.path(), "-n -i -u -j1 s t");
            assert_eq!(succeed(&ours, sandbox.path(), "-i -u -j1 s t"), dry, "{newer}");
            for name in ["a", "b", "c"] {
                let content = fs::read_to_string(sandbox.join("t").join(name)).unwrap();
                let expected =
                    if newer.contains(name) { format!("precious {name}\n") } else { "old\n".to_owned() };
                assert_eq!(content, expected, "newer: {newer}; {name}");
            }
            assert_eq!(succeed(&ours, sandbox.path(), "-i -u s t"), "", "{newer}");
        }
    }
}

#[test]
fn a_dry_run_foresees_directories_in_the_place_of_anything() {
    let ours = program!();
    require!(ours.needs_haul());
    for old in ["echo x >t/a", "ln -s other t/a", "ln -s nowhere t/a", "ln -s a t/a", "mkfifo t/a"] {
        let sandbox = Sandbox::in_memory().unwrap();
        let source = "mkdir -p s/a/b; echo 1 >s/a/1; ln s/a/1 s/a/b/2; ln -s 1 s/a/link; mkfifo s/a/fifo";
        sandbox.script(&format!("{source}; mkdir -p t/other/b t/extra; echo y >t/other/1; {old}")).unwrap();
        let dry = succeed(&ours, sandbox.path(), "-n -i -j1 --delete s t");
        assert_eq!(succeed(&ours, sandbox.path(), "-i -j1 --delete s t"), dry, "{old}");
        assert!(dry.contains(">f+++++++++ a/1\n") && dry.contains("*deleting   extra/\n"), "{dry}");
        assert_eq!(succeed(&ours, sandbox.path(), "-i --delete s t"), "", "{old}");
    }
}

#[test]
fn what_is_in_the_place_of_a_refused_directory_stays() {
    let ours = program!();
    require!(ours.needs_haul());
    for options in
        ["", "-n ", "-n -i ", "--existing ", "--ignore-existing ", "--delete ", "--backup-dir=../kept "]
    {
        for there in ["echo precious >t/l", "ln -s elsewhere t/l", "mkdir t/l"] {
            let sandbox = Sandbox::in_memory().unwrap();
            sandbox.script(&format!("mkdir s t; ln -s . s/l; {there}")).unwrap();
            let before = sync_command::take(&sandbox, "t");
            let errors = fail(&ours, sandbox.path(), &format!("{options}-L s t"));
            assert!(
                errors.starts_with("cannot copy cyclic symbolic link 's/l'\n"),
                "{options}{there}: {errors}"
            );
            let differences = compare(
                &before,
                &sync_command::take(&sandbox, "t"),
                FACTS.difference(Facts::DIRECTORY_MODIFIED),
            )
            .unwrap();
            assert!(differences.is_empty(), "{options}{there}: {differences}");
            assert!(!sandbox.join("kept").exists(), "{options}{there}");
        }
    }
}

#[test]
fn operands_that_cannot_be_made_equal_are_refused_before_anything_is_touched() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script("mkdir -p s/in t; echo x >s/f; echo y >t/f; echo z >file; ln -s s link").unwrap();
    let take = || Snapshot::take(sandbox.path(), Facts::PRESERVED).unwrap();
    let before = take();
    let nested = |one: &str, other: &str| {
        format!("'{one}' and '{other}' are one directory, or one is inside the other\n")
    };
    let local = |name: &str| {
        let only = "no such directory; haul sync is local only";
        format!("'{name}': {only} (for a name with a colon, write ./NAME)\n")
    };
    for (line, message) in [
        ("s s", nested("s", "s")),
        ("s/ link/", nested("s/", "link/")),
        ("s s/in", nested("s", "s/in")),
        ("s s/new", nested("s", "s/new")),
        ("s/in s", nested("s/in", "s")),
        ("s/in .", nested("s/in", ".")),
        ("file t", "'file': not a directory\n".to_owned()),
        ("s file", "'file': not a directory\n".to_owned()),
        ("host:s t", local("host:s")),
        ("rsync://host/s t", local("rsync://host/s")),
        ("s user@host:t", local("user@host:t")),
        ("missing t", "cannot stat 'missing': No such file or directory\n".to_owned()),
        ("s t/no/where", "cannot create directory 't/no/where': No such file or directory\n".to_owned()),
        (
            "s",
            "missing destination file operand after 's'\nTry 'haul sync --help' for more information.\n"
                .to_owned(),
        ),
        ("s t t", "extra operand 't'\nTry 'haul sync --help' for more information.\n".to_owned()),
    ] {
        assert_eq!(fail(&ours, sandbox.path(), line), message, "{line}");
        let differences = compare(&before, &take(), Facts::PRESERVED).unwrap();
        assert!(differences.is_empty(), "{line}: {differences}");
    }
}

#[test]
fn a_target_that_is_a_link_to_a_directory_is_that_directory() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script("mkdir -p s/d real; echo x >s/d/f; ln -s real link; ln -s s source").unwrap();
    succeed(&ours, sandbox.path(), "source link");
    // Only a name that doesn't exist may be one of another host.
    succeed(&ours, sandbox.path(), "s ./host:t");
    succeed(&ours, sandbox.path(), "host:t host:t/../link");
    assert_eq!(fs::read(sandbox.join("real/d/f")).unwrap(), b"x\n");
    assert!(fs::symlink_metadata(sandbox.join("link")).unwrap().is_symlink());
}

#[test]
fn only_what_exists_or_only_what_is_missing_is_copied() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("setfattr"));
    let names = |sandbox: &Sandbox| {
        let short = |path: &Path| path.strip_prefix(sandbox.join("t")).unwrap().display().to_string();
        let mut names: Vec<_> = paths(&sandbox.join("t")).iter().map(|path| short(path)).collect();
        names.sort();
        names
    };
    let script = "mkdir t t/a t/fifo t/full; echo old >t/a/1; echo x >t/empty; echo more >t/more
        mkdir s/full.d; echo y >s/full; echo z >t/full/in";
    for delete in ["", "--delete "] {
        let sandbox = scene("mkdir -p s/way/in t; echo 1 >s/way/f; touch t/way");
        let dry = succeed(&ours, sandbox.path(), &format!("-n -i {delete}--existing s t"));
        assert!(dry.ends_with("cd+++++++++ way/\n"), "{delete}{dry}");
        assert_eq!(succeed(&ours, sandbox.path(), &format!("-i {delete}--existing s t")), dry, "{delete}");
        let sandbox = scene(script);
        let before = names(&sandbox);
        // A directory that isn't empty is never replaced: nothing might take its place.
        let message = fail(&ours, sandbox.path(), &format!("{delete}--existing s t"));
        assert!(message.starts_with("cannot overwrite directory 't/full'"), "{message}");
        assert_eq!(names(&sandbox), before, "{delete}");
        assert_eq!(fs::read(sandbox.join("t/a/1")).unwrap(), b"1\n");
        assert!(!fs::symlink_metadata(sandbox.join("t/fifo")).unwrap().is_dir());

        let sandbox = scene(script);
        let dry = succeed(&ours, sandbox.path(), &format!("-n {delete}--ignore-existing s t"));
        let real = succeed(&ours, sandbox.path(), &format!("-v {delete}--ignore-existing s t"));
        assert_eq!(dry.lines().count(), real.lines().count(), "{dry}{real}");
        assert_eq!(fs::read(sandbox.join("t/a/1")).unwrap(), b"old\n");
        assert_eq!(fs::read(sandbox.join("t/empty")).unwrap(), b"x\n");
        assert_eq!(fs::read(sandbox.join("t/full/in")).unwrap(), b"z\n");
        assert_eq!(fs::read(sandbox.join("t/a/b/4")).unwrap(), b"4\n");
        assert_eq!(sandbox.join("t/more").exists(), delete.is_empty());
    }
}

#[test]
fn exit_statuses_are_rsyncs_if_asked_for() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script("mkdir -p s t/f full; touch s/f t/f/in full/f; echo missing >list").unwrap();
    for (line, status) in [
        ("full new", 0),
        ("full/ new", 0),
        ("s t", 23),
        ("missing t", 23),
        ("--delete --max-delete=0 full t", 23),
        ("--no-such-option s t", 1),
        // A list names what was never there.
        ("--files-from=list full new", 23),
    ] {
        let outcome = sync(&ours, sandbox.path(), &format!("--rsync-status {line}"));
        assert_eq!(outcome.status(), Some(status), "{line}: {}", outcome.errors());
    }
}

#[test]
fn killed_anywhere_and_run_again_the_trees_are_equal() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("setfattr"));
    let more = "for n in $(seq 300); do mkdir s/d$n; head -c 20000 /dev/zero >s/d$n/f; echo $n >s/d$n/g; done
        mkdir t; cp -a s/a s/d1?? t; find t -name g -exec sh -c 'echo old >$1' x {} ';'
        cp -a s monday; rm -r monday/d2??; echo other >monday/d1/g";
    let kills = if needs::is_full_run() { 100 } else { 12 };
    let mut random = seeded(random::seed("kills", Some(7)));
    for options in ["", "--inplace", "--link-dest=../monday", "--backup-dir=../kept"] {
        for _ in 0..kills / 4 {
            let sandbox = scene(more);
            let take = |name: &str| Snapshot::take(&sandbox.join(name), FACTS).unwrap();
            let monday = take("monday");
            let mut sync = Command::new(ours.path());
            sync.args(["sync"]).args(options.split_whitespace()).args(["s", "t"]);
            let mut child = sync.current_dir(sandbox.path()).spawn().unwrap();
            std::thread::sleep(Duration::from_micros(random.random_range(0..60_000)));
            child.kill().unwrap();
            child.wait().unwrap();
            succeed(&ours, sandbox.path(), format!("{options} s t").trim());
            for (expected, found) in [(&take("s"), &take("t")), (&monday, &take("monday"))] {
                let differences = compare(expected, found, FACTS).unwrap();
                assert!(differences.is_empty(), "{options}: {differences}");
            }
            if options.starts_with("--backup") {
                // By the killed run or by the second one.
                let old = "test $(cat kept/d1??/g | grep -c old) = 100";
                sandbox.script(old).unwrap();
            }
        }
    }
}

#[test]
fn a_target_inside_its_source_is_left_out_if_the_user_says_so() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script("mkdir -p s/d s/backup; echo x >s/d/f; touch s/x").unwrap();
    succeed(&ours, sandbox.path(), "--exclude=/backup s s/backup");
    assert_eq!(paths(&sandbox.join("s/backup")).len(), 3);
    let message = fail(&ours, sandbox.path(), "--exclude=x s s/d");
    assert_eq!(message, "cannot copy a directory, 's', into itself, 's/d'\n");
}

#[test]
fn a_target_that_is_its_source_stays() {
    let ours = program!();
    require!(ours.needs_haul());
    for options in ["", "-c ", "-L ", "--inplace ", "-u "] {
        let sandbox = Sandbox::in_memory().unwrap();
        sandbox.script("mkdir -p s/d; echo x >s/f; echo y >s/d/g; ln -s f s/l; cp -al s t").unwrap();
        if options == "-L " {
            sandbox.script("rm t/l s/d/g; ln -s ../../t/d/g s/d/g").unwrap();
        }
        let shown = succeed(&ours, sandbox.path(), &format!("-v {options}s t"));
        assert_eq!(shown.lines().count(), usize::from(options == "-L "), "{options}: {shown}");
        for (name, content) in [("f", b"x\n"), ("d/g", b"y\n")] {
            let inode = |tree: &str| fs::metadata(sandbox.join(tree).join(name)).unwrap().ino();
            assert_eq!(inode("s"), inode("t"), "{options}{name}");
            assert_eq!(fs::read(sandbox.join("t").join(name)).unwrap(), content, "{options}{name}");
        }
    }
}

/// An equal number of names doesn't prove that they are names of the same file.
#[test]
fn files_with_several_names_get_their_own_attributes() {
    let ours = program!();
    require!(ours.needs_haul());
    for options in ["", "-j1 ", "-c "] {
        let sandbox = Sandbox::in_memory().unwrap();
        let script = "
            mkdir -p s/d t; for n in secret public; do echo x >s/$n; ln s/$n s/d/$n; done
            chmod 600 s/secret; chmod 644 s/public; touch -d @1000 s/secret s/public
            echo x >t/secret; ln t/secret t/public; chmod 640 t/public; touch -d @1000 t/public
            echo x >s/f; ln s/f f.of.s; cp -p s/f t/f; ln t/f f.of.t; chmod 600 s/f";
        sandbox.script(script).unwrap();
        let before = fs::metadata(sandbox.join("f.of.t")).unwrap().mode();
        succeed(&ours, sandbox.path(), &format!("{options}s t"));
        let trees = ["s", "t"].map(|name| Snapshot::take(&sandbox.join(name), FACTS).unwrap());
        let differences = compare(&trees[0], &trees[1], FACTS.difference(Facts::LINKS)).unwrap();
        assert!(differences.is_empty(), "{options}: {differences}");
        let inode = |name: &str| fs::metadata(sandbox.join(name)).unwrap().ino();
        for name in ["secret", "public"] {
            assert_eq!(inode(&format!("t/{name}")), inode(&format!("t/d/{name}")), "{options}: {name}");
        }
        assert_eq!(fs::metadata(sandbox.join("f.of.t")).unwrap().mode(), before, "{options}");
    }
}

#[test]
fn what_is_replaced_is_kept_however_the_target_is_written() {
    let ours = program!();
    require!(ours.needs_haul());
    let read = |path: PathBuf| fs::read_to_string(&path).unwrap_or_else(|error| format!("{path:?}: {error}"));
    for target in ["t", "t/", "t//", "./t/", "FOLDER/t/"] {
        let sandbox = Sandbox::in_memory().unwrap();
        // The target has a directory of its own name.
        let script = "
            mkdir -p s/t t/t; echo new >s/f; echo newer >s/t/f; echo old >t/f; echo older >t/t/f; echo x >t/t/extra
            touch -d @1000 t/f t/t/f; echo aaa >s/a; ln s/a s/b; touch -d @1000 s/a; cp -p s/a t/a; echo bbb >t/b
            touch -d @1000 t/b";
        sandbox.script(script).unwrap();
        let target = target.replace("FOLDER", &sandbox.path().display().to_string());
        let changes = succeed(&ours, sandbox.path(), &format!("-i --delete --backup-dir=../kept s {target}"));
        let kept = ["f", "t/f", "t/extra"].map(|name| read(sandbox.join("kept").join(name)));
        assert_eq!(kept, ["old\n", "older\n", "x\n"], "{target}");
        assert!(changes.contains("*deleting   t/extra\n"), "{target}: {changes}");
        let is_below =
            |line: &str| ["f", "t/f", "a => b", "b => a", "t/extra", "t/", "./"].contains(&&line[12..]);
        assert!(changes.lines().all(is_below), "{target}: {changes}");
        // By size and time both are as the source; one became another name of the other one.
        let names = ["kept/a", "kept/b"].map(|name| sandbox.join(name));
        let replaced: Vec<_> = names.into_iter().filter(|path| path.exists()).map(read).collect();
        let stays = read(sandbox.join("t/a"));
        assert_eq!(replaced, [if stays == "aaa\n" { "bbb\n" } else { "aaa\n" }], "{target}");
    }
}

#[test]
fn a_comparison_that_is_stopped_proves_nothing() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    // Sparse files of 4 GiB, which differ in the last byte.
    let script = "
        mkdir s t; for f in s/f t/f; do truncate -s 4G $f; done; printf A >>s/f; printf B >>t/f
        touch -d @1000 s/f; touch -d @2000 t/f";
    sandbox.script(script).unwrap();
    let words = ["sync", "--checksum", "--control=socket", "s", "t"];
    let running = TestRun::new(ours.path()).args(words).in_folder(sandbox.path()).start().unwrap();
    let socket = sandbox.join("socket");
    assert!(wait::until(Duration::from_secs(30), || socket.exists()));
    std::thread::sleep(Duration::from_millis(100));
    let stop = TestRun::new(ours.path()).args(["ctl", "socket", "stop"]).in_folder(sandbox.path());
    assert!(stop.finish().unwrap().succeeded());
    let outcome = running.finish().unwrap();
    assert!(!outcome.succeeded(), "{}", outcome.errors());
    assert_eq!(fs::metadata(sandbox.join("t/f")).unwrap().mtime(), 2000);
}

/// Below a directory whose path is too long for the kernel, nothing could be checked.
#[test]
fn trees_whose_absolute_paths_are_unknown_are_refused() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    let script = "
        n=$(printf 'd%.0s' $(seq 200)); for i in $(seq 21); do mkdir $n; cd ./$n; done
        mkdir s t; echo new >s/f; echo old >t/f; \"$HAUL\" sync --backup-dir=../kept s t 2>$LOG; echo $? >>$LOG; cat t/f >>$LOG";
    let log = sandbox.join("log");
    let mut shell = Command::new("bash");
    shell.args(["-c", script]).env("HAUL", ours.path()).env("LOG", &log).env("LC_ALL", "C");
    assert!(shell.current_dir(sandbox.path()).status().unwrap().success());
    let said = fs::read_to_string(&log).unwrap();
    assert_eq!(said, "haul sync: 's': cannot determine its absolute path: File name too long\n1\nold\n");
}

/// As with rsync: GNU cp prints the line before it opens the source.
#[test]
fn what_cannot_be_opened_has_no_line() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root());
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox
        .script("chmod 777 .; mkdir s t; echo x >s/f; echo old >t/f; chmod 0 s/f; chown -R 65534 s t; touch -d @1 s t")
        .unwrap();
    let run = TestRun::new(ours.path()).args(["sync", "-i", "s", "t"]).env("LC_ALL", "C").as_nobody();
    let outcome = run.in_folder(sandbox.path()).finish().unwrap();
    let wanted = "haul sync: cannot open 's/f' for reading: Permission denied\n";
    assert_eq!((outcome.printed().as_str(), outcome.errors().as_str()), ("", wanted));
}
