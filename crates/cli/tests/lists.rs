//! `--files-from`: nothing below the operands is looked at but what a list names.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::Path;

use haul_testkit::{CopyProgram, RunOutcome, Sandbox, TestRun, needs, program, require};

/// Runs a copy of `s` to `t` with a list of names, and returns the outcome.
fn copy_listed(ours: &CopyProgram, sandbox: &Sandbox, options: &[&str], list: &[u8]) -> RunOutcome {
    let run = ours.run_with(options).args(["s", "t"]).in_folder(sandbox.path()).input(list);
    run.finish().unwrap()
}

const LISTED: &str =
    "mkdir -p s/a/b s/c; touch s/a/x s/a/y s/a/b/z s/c/w s/v; chmod 700 s/a; touch -d @1000 s/a s/a/b s";

/// Names of the files and directories below `t`.
fn made(sandbox: &Sandbox) -> Vec<String> {
    let walk = walkdir::WalkDir::new(sandbox.join("t")).min_depth(1).sort_by_file_name().into_iter();
    let path = |entry: walkdir::DirEntry| entry.path().strip_prefix(sandbox.join("t")).unwrap().to_owned();
    walk.map(|entry| path(entry.unwrap()).to_str().unwrap().to_owned()).collect()
}

#[test]
fn of_a_list_of_names_exactly_those_are_copied() {
    let ours = program!();
    require!(ours.needs_haul());
    let cases: [(&[&str], &[u8], &[&str]); 8] = [
        (&["-a", "--files-from=-"], b"a/x\n\n./v\na/b/z\na/x\n", &["a", "a/b", "a/b/z", "a/x", "v"]),
        (&["--files0-from=-"], b"a/x\0v\0", &["a", "a/x", "v"]),
        (&["--null", "--files-from=-"], b"a//x", &["a", "a/x"]),
        // A byte order mark is no part of the first name.
        (&["--files-from=-"], b"\xef\xbb\xbfa/x\nv\n", &["a", "a/x", "v"]),
        // -a alone doesn't include the contents of a listed directory, like in rsync.
        (&["-a", "--files-from=-"], b"a\na/b/z", &["a", "a/b", "a/b/z"]),
        (&["-ar", "--files-from=-"], b"a\nc/", &["a", "a/b", "a/b/z", "a/x", "a/y", "c", "c/w"]),
        (&["-r", "--files-from=-"], b".", &["a", "a/b", "a/b/z", "a/x", "a/y", "c", "c/w", "v"]),
        (&["-a", "--files-from=-", "--exclude=x", "--exclude=c/"], b"a/x\na/y\nc/w", &["a", "a/y"]),
    ];
    for (options, list, wanted) in cases {
        let sandbox = Sandbox::in_memory().unwrap();
        sandbox.script(LISTED).unwrap();
        let outcome = copy_listed(&ours, &sandbox, options, list);
        assert!(outcome.succeeded(), "{options:?}: {}", outcome.errors());
        assert_eq!(made(&sandbox), wanted, "{options:?}");
        if options[0] == "-a" && wanted.contains(&"a") {
            let of = |name: &str| fs::metadata(sandbox.join(name)).unwrap();
            assert_eq!(
                of("t/a").modified().unwrap(),
                of("s/a").modified().unwrap(),
                "directories are as with -a"
            );
            assert_eq!(of("t/a").permissions(), of("s/a").permissions());
        }
    }
}

#[test]
fn a_list_that_leads_elsewhere_is_refused_before_anything_is_touched() {
    let ours = program!();
    require!(ours.needs_haul());
    let cases: [(&[&str], &[u8], &str); 12] = [
        (&["-i", "--files-from=-"], b"v\n", "--interactive needs standard input"),
        (&["--exclude-from=-", "-i"], b"v\n", "--interactive needs standard input"),
        (&["--files-from=-", "--exclude-from=-"], b"v\n", "standard input can be read only once"),
        (&["--exclude-from=-", "--exclude-from=-"], b"v\n", "standard input can be read only once"),
        (&["--files-from=-"], b"v\n../secret\n", "name 2 leads out of SOURCE: '../secret'"),
        (&["--files-from=-"], b"a/../../x", "name 1 leads out of SOURCE"),
        (&["--files-from=-"], b"/etc/passwd", "name 1 is absolute"),
        (&["--files0-from=-"], b"v\0\0c", "name 2 is empty"),
        (&["--files-from=-"], b"v\0c", "name 1 contains a NUL; use --null"),
        (&["--files-from=/no/such/list"], b"", "/no/such/list: No such file or directory"),
        (&["--files-from=-", "--parents"], b"v", "--parents"),
        (&["--null"], b"", "--files-from"),
    ];
    for (options, list, message) in cases {
        let sandbox = Sandbox::in_memory().unwrap();
        sandbox.script(LISTED).unwrap();
        let outcome = copy_listed(&ours, &sandbox, options, list);
        assert_eq!(outcome.status(), Some(1), "{options:?}");
        assert!(outcome.errors().contains(message), "{options:?}: {}", outcome.errors());
        assert!(!sandbox.join("t").exists(), "{options:?}");
    }
}

#[test]
fn a_listed_name_that_is_missing_or_behind_a_link_is_an_error_and_the_others_are_copied() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script(&format!("{LISTED}; mkdir secret; touch secret/key; ln -s ../secret s/link")).unwrap();
    let outcome = copy_listed(
        &ours,
        &sandbox,
        &["-a", "--files-from=-"],
        b"v\nmissing\nlink/key\nv/below/1\nv/below/2\na/x",
    );
    let mut errors: Vec<_> = outcome.errors().lines().map(str::to_owned).collect();
    errors.sort();
    let wanted = [
        "haul cp: cannot stat 's/link/key': Not a directory",
        "haul cp: cannot stat 's/missing': No such file or directory",
        "haul cp: cannot stat 's/v/below/1': Not a directory",
        "haul cp: cannot stat 's/v/below/2': Not a directory",
    ];
    assert_eq!((outcome.status(), errors.as_slice()), (Some(1), &wanted.map(str::to_owned)[..]));
    assert_eq!(made(&sandbox), ["a", "a/x", "v"]);
    fs::write(sandbox.join("file"), "x").unwrap();
    let run = ours.run_with(&["--files-from=-"]).args(["file", "u"]).in_folder(sandbox.path()).input(b"v");
    let outcome = run.finish().unwrap();
    assert_eq!(outcome.errors(), "haul cp: cannot stat 'file': Not a directory\n");
}

#[test]
fn a_name_that_is_missing_in_a_directory_that_is_copied_as_a_whole_is_an_error() {
    let ours = program!();
    require!(ours.needs_haul());
    for list in [&b"a\na/x\na/none\na/b/none/z\na/x/w\na/b\n"[..], b".\na/none\na/b/none\na/x/w"] {
        let sandbox = Sandbox::in_memory().unwrap();
        sandbox.script(LISTED).unwrap();
        let outcome = copy_listed(&ours, &sandbox, &["-r", "--files-from=-"], list);
        let mut errors: Vec<_> = outcome.errors().lines().map(str::to_owned).collect();
        errors.sort();
        let wanted = [
            "haul cp: cannot stat 's/a/b/none': No such file or directory",
            "haul cp: cannot stat 's/a/none': No such file or directory",
            "haul cp: cannot stat 's/a/x/w': Not a directory",
        ];
        assert_eq!((outcome.status(), errors.as_slice()), (Some(1), &wanted.map(str::to_owned)[..]));
        assert!(["a/x", "a/y", "a/b/z"].iter().all(|name| made(&sandbox).contains(&name.to_string())));
    }
}

#[test]
fn every_tool_takes_lists() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script(&format!("{LISTED}; cp -r s t; touch t/new t/a/new")).unwrap();
    let haul = |words: &[&str], list: &[u8]| {
        TestRun::new(ours.path()).args(words).in_folder(sandbox.path()).input(list).finish().unwrap()
    };
    let summed = haul(&["sum", "--files-from=-", "s"], b"a/x\nc");
    let names: Vec<_> =
        summed.printed().lines().map(|line| line.split("  ").nth(1).unwrap().to_owned()).collect();
    assert_eq!(names, ["s/a/x", "s/c/w"], "{}", summed.errors());
    for words in [&["sum", "--files-from=-"][..], &["sum", "--exclude-from=-", "-", "s"]] {
        assert_eq!(haul(words, b"v\n").status(), Some(1), "{words:?}");
    }
    let echoed = haul(&["each", "--sort=path", "--files-from=-", "s", "--", "echo"], b"a/b\nv");
    assert_eq!(echoed.printed(), "s/a/b/z\ns/v\n", "{}", echoed.errors());
    assert_eq!(haul(&["cmp", "--files-from=-", "s", "t"], b"a/x\nc").status(), Some(0));
    let whole = haul(&["cmp", "--files-from=-", "s", "t"], b"a");
    assert_eq!((whole.status(), whole.printed().as_str()), (Some(1), "Only in t/a: new\n"));
}

/// By its name it is `/dev/null` then.
#[test]
fn a_closed_standard_stream_is_not_an_empty_file() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script("echo y >y; ln -s /dev/fd/0 link").unwrap();
    for line in [
        "cp /dev/stdin t <&-",
        "cp link t <&-",
        "cp y /dev/stdout >&-",
        "sum /dev/stdin <&-",
        "cmp /dev/stdin y <&-",
        "grep y /dev/stdin <&-",
        "tar -tf /dev/stdin <&-",
        "bzip2 -c /dev/stdin <&-",
    ] {
        let script = format!("LC_ALL=C {} {line}", ours.path().display());
        let run = TestRun::new("/bin/bash".as_ref()).args(["-c", &script]).in_folder(sandbox.path());
        let outcome = run.finish().unwrap();
        assert!(!outcome.succeeded() && outcome.printed().is_empty(), "{line}");
        assert!(outcome.errors().contains("Bad file descriptor"), "{line}: {}", outcome.errors());
        assert!(!sandbox.join("t").exists(), "{line}");
    }
}

/// By its name it has no lines then.
#[test]
fn a_list_from_a_closed_standard_input_is_an_error() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script("mkdir s; touch s/a; ln -s /dev/stdin link; tar -cf a.tar s").unwrap();
    for line in [
        "cp -r --exclude-from=FILE s t",
        "cp -r --files-from=FILE s t",
        "cp -r --files0-from=FILE s t",
        "sum --exclude-from=FILE s",
        "grep -f FILE s/a",
        "grep -r --exclude-from=FILE x s",
        "tar -cf t -T FILE",
        "tar -cf t -X FILE s",
        "tar -tf a.tar -T FILE",
    ] {
        for file in ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "link"] {
            let line = line.replace("FILE", file);
            let script = format!("LC_ALL=C {} {line} <&-", ours.path().display());
            let run = TestRun::new("/bin/bash".as_ref()).args(["-c", &script]).in_folder(sandbox.path());
            let outcome = run.finish().unwrap();
            assert!(!outcome.succeeded(), "{line}: {}", outcome.printed());
            assert!(outcome.errors().contains("Bad file descriptor"), "{line}: {}", outcome.errors());
            assert!(!sandbox.join("t").exists(), "{line}");
        }
    }
}

#[test]
fn listed_names_on_another_file_system_are_errors_if_only_one_is_copied() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root());
    for command in ["cp -axT", "sync -x"] {
        let sandbox = Sandbox::in_memory().unwrap();
        sandbox.script("mkdir -p s/m t; echo m/f >list; echo m >>list; echo f >>list; touch s/f").unwrap();
        let script = format!(
            "mount -t tmpfs none s/m && echo x >s/m/f && exec \"$0\" {command} --files-from=list s t"
        );
        let words = ["-m", "sh", "-c", &script, ours.path().to_str().unwrap()];
        let outcome =
            TestRun::new(Path::new("unshare")).args(words).in_folder(sandbox.path()).finish().unwrap();
        let (name, _) = command.split_once(' ').unwrap();
        let wanted = format!("haul {name}: cannot stat 's/m/f': Invalid cross-device link\n");
        assert_eq!((outcome.status(), outcome.errors()), (Some(1), wanted));
        assert_eq!(made(&sandbox), ["f", "m"]);
    }
}
