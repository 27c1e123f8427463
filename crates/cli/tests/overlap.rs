//! `haul sync` where SOURCE and TARGET are parts of each other, and only mounts make their paths
//! differ: nothing in SOURCE may be lost, whatever the options.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use haul_testkit::{RunOutcome, Sandbox, TestRun, needs, program, require};

/// A way in which two trees overlap.
struct Layout {
    name: &'static str,
    /// Makes the trees.
    script: &'static str,
    mounts: &'static str,
    /// SOURCE and TARGET.
    operands: &'static str,
    /// Directories with files of SOURCE, without mounts.
    source: &'static [&'static str],
    /// A directory in these that only TARGET is.
    target: &'static str,
}

const LAYOUTS: &[Layout] = &[
    Layout {
        name: "two names of one directory",
        script: "mkdir -p s/d v; echo k >s/k; echo x >s/x.tmp; echo y >s/d/y.tmp",
        mounts: "mount --bind s v",
        operands: "v s",
        source: &["s"],
        target: "-",
    },
    Layout {
        name: "SOURCE in TARGET",
        script: "mkdir -p t/s/s/old t/s/p m; echo 1 >t/s/f; echo 2 >t/s/p/f; echo 3 >t/s/s/f; echo 4 >t/s/s/old/f",
        mounts: "mount --bind t/s m",
        operands: "m t",
        source: &["t/s"],
        target: "-",
    },
    Layout {
        name: "SOURCE in a mount of what is in TARGET",
        script: "mkdir -p t/x/s/x/s m; echo 1 >t/x/s/f; echo 2 >t/x/s/x/s/f",
        mounts: "mount --bind t/x m",
        operands: "m/s t",
        source: &["t/x/s"],
        target: "-",
    },
    Layout {
        name: "TARGET in SOURCE",
        script: "mkdir -p s/d/t/d/t s/d/t/e s/e m; echo 1 >s/f; echo 2 >s/d/f; echo 3 >s/d/t/f; echo 4 >s/e/g",
        mounts: "mount --bind s/d m",
        operands: "s m/t",
        source: &["s"],
        target: "s/d/t",
    },
    Layout {
        name: "a new TARGET in SOURCE",
        script: "mkdir -p s/d m; echo 1 >s/f; echo 2 >s/d/f",
        mounts: "mount --bind s/d m",
        operands: "s m/t",
        source: &["s"],
        target: "s/d/t",
    },
    Layout {
        name: "a directory of SOURCE mounted in TARGET",
        script: "mkdir -p s/a s/b t/a; echo 1 >s/a/f; echo 2 >s/b/f; echo 3 >s/b/g",
        mounts: "mount --bind s/b t/a",
        operands: "s t",
        source: &["s"],
        target: "-",
    },
    Layout {
        name: "a directory of SOURCE mounted in its own place in TARGET, and a part of that elsewhere",
        script: "mkdir -p s/a/c s/x t/a t/x; echo 1 >s/a/f; echo 2 >s/a/c/g; echo 3 >s/x/h",
        mounts: "mount --bind s/a t/a; mount --bind s/a/c t/x",
        operands: "s t",
        source: &["s"],
        target: "-",
    },
    Layout {
        name: "one around SOURCE mounted in TARGET",
        script: "mkdir -p p/s/a/s t/a; echo 1 >p/s/f; echo 2 >p/s/a/s/f",
        mounts: "mount --bind p t/a",
        operands: "p/s t",
        source: &["p/s"],
        target: "-",
    },
    Layout {
        name: "a directory of TARGET mounted in SOURCE",
        script: "mkdir -p s/x s/m t/x; echo 1 >s/x/f; echo 2 >t/x/f; echo 3 >t/x/g",
        mounts: "mount --bind t/x s/m",
        operands: "s t",
        source: &["s", "t/x"],
        target: "-",
    },
    Layout {
        name: "a file of SOURCE mounted in TARGET",
        script: "mkdir -p s t; echo 1 >s/f; echo 22 >s/g; touch t/f",
        mounts: "mount --bind s/g t/f",
        operands: "s t",
        source: &["s"],
        target: "-",
    },
];

const OPTIONS: &[&str] = &[
    "",
    "--inplace -c",
    "--delete --really",
    "-n --delete",
    "--delete --delete-excluded --exclude=*.tmp",
    "--delete --existing",
];

/// Runs a script in a mount namespace of its own.
fn with_mounts(haul: &Path, sandbox: &Sandbox, script: &str) -> RunOutcome {
    let run = TestRun::new(Path::new("unshare")).args(["--mount", "sh", "-efc", script]);
    run.env("HAUL", haul).env("LC_ALL", "C").in_folder(sandbox.path()).finish().unwrap()
}

/// Returns the files in directories with their contents, without those below `left_out`.
fn files(sandbox: &Sandbox, roots: &[&str], left_out: &str) -> BTreeMap<PathBuf, io::Result<String>> {
    let left_out = sandbox.join(left_out);
    let entries = roots.iter().flat_map(|root| walkdir::WalkDir::new(sandbox.join(root)));
    let paths = entries.map(|entry| entry.unwrap().into_path());
    let files = paths.filter(|path| path.is_file() && !path.starts_with(&left_out));
    files.map(|path| (path.clone(), fs::read_to_string(path))).collect()
}

#[test]
fn trees_that_only_mounts_keep_apart_lose_nothing() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("unshare"));
    for layout in LAYOUTS {
        let Layout { name, script, mounts, operands, source, target } = layout;
        for (options, proc) in
            OPTIONS.iter().flat_map(|options| [(options, ""), (options, "umount -l /proc;")])
        {
            let what = format!("{name}: {proc} {options}");
            let sandbox = Sandbox::in_memory().unwrap();
            sandbox.script(script).unwrap();
            let before = files(&sandbox, source, target);
            let command = format!("{mounts}; {proc} exec \"$HAUL\" sync {options} {operands}");
            let outcome = with_mounts(ours.path(), &sandbox, &command);
            let after = files(&sandbox, source, target);
            // Without /proc, what is mounted further down shows only in a deletion.
            let is_known = proc.is_empty();
            for (path, content) in before {
                let now = after.get(&path);
                let is_as_before = || now.is_some_and(|now| now.as_ref().ok() == content.as_ref().ok());
                assert!(if is_known { is_as_before() } else { now.is_some() }, "{what}: {path:?} is {now:?}");
            }
            assert!(!is_known || outcome.status() == Some(1), "{what}: {}", outcome.errors());
        }
    }
}

/// What the selection leaves out of both trees is no overlap.
#[test]
fn what_is_left_out_may_be_mounted_anywhere() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("unshare"));
    for (script, line) in [
        // A backup on the disk that it is of, with a second mount of the whole disk.
        ("mkdir -p s/backup s/m; mount --bind s s/m", "--exclude=/backup --exclude=/m s s/m/backup"),
        // The root of a system, with a directory of the running one.
        ("mkdir -p s/home t/home; mount --bind s/home t/home", "--exclude=/home s t"),
        // Mounts in both trees, of two directories of one file system.
        ("mkdir -p s/m t/m x y; mount --bind x s/m; mount --bind y t/m", "s t"),
        // A mount that has nothing in its place in SOURCE.
        ("mkdir -p s/a t/b; mount --bind s/a t/b", "s t"),
    ] {
        for delete in ["", "--delete --existing"] {
            let sandbox = Sandbox::in_memory().unwrap();
            let script = format!("mkdir s; echo 1 >s/f; {script}; exec \"$HAUL\" sync {delete} {line}");
            if !delete.is_empty() && script.contains("t/b") {
                continue;
            }
            let outcome = with_mounts(ours.path(), &sandbox, &script);
            assert_eq!((outcome.errors().as_str(), outcome.status()), ("", Some(0)), "{script}");
        }
    }
}

/// A new root beside the running one, with parts of that mounted in it.
#[test]
fn a_part_of_source_in_its_own_place_counts_as_equal() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("unshare"));
    let kept = ["big/c/f", "big/f.tmp", "conf/file"];
    for options in [
        "",
        "-x",
        "--inplace -c",
        "--ignore-existing",
        "--existing",
        "-n",
        "--delete-excluded --exclude=*.tmp",
    ] {
        for proc in ["", "umount -l /proc;"] {
            let what = format!("{options} {proc}");
            let sandbox = Sandbox::in_memory().unwrap();
            let script = format!(
                "mkdir -p s/dev s/conf s/big/c t; echo 1 >s/conf/file; echo 2 >s/big/c/f; echo 3 >s/big/f.tmp
                cp -a s/. t; mkdir t/extra; mount -t tmpfs dev s/dev; echo 4 >s/dev/node
                mount --bind s/dev t/dev; mount --bind s/big t/big; mount --bind s/conf/file t/conf/file
                {proc} exec \"$HAUL\" sync --delete {options} s t"
            );
            let outcome = with_mounts(ours.path(), &sandbox, &script);
            assert!(kept.iter().all(|path| sandbox.join("s").join(path).exists()), "{what}");
            // What would have to be deleted in SOURCE is an error.
            let is_refused = options.contains("excluded");
            let told = match is_refused {
                true => "cannot remove 't/big/f.tmp', as it is part of SOURCE",
                false => "",
            };
            let errors = outcome.errors();
            assert!(errors.contains(told) && errors.is_empty() != is_refused, "{what}: {errors}");
            assert_eq!(outcome.status(), Some(i32::from(is_refused)), "{what}");
            assert_eq!(sandbox.join("t/extra").exists(), is_refused || options == "-n", "{what}");
        }
    }
}
