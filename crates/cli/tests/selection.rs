//! Choosing entries: `--exclude` and its kin, for every tool that has them.
//!
//! Git decides what its patterns mean: random trees and rules are copied, and the files that arrive
//! must be those that `git ls-files` lists.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use haul_testkit::run::TestRun;
use haul_testkit::strace::record;
use haul_testkit::{CopyProgram, Facts, Sandbox, Snapshot, compare, needs, program, require};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Words that rules and names are made of.
const NAMES: [&str; 14] =
    ["a", "b", "ab", "a.o", "b.o", "abc", "x y", "\u{e9}", "{a,b}", "[a]", "-", "#a", "!a", "a]"];
const PATTERNS: [&str; 32] = [
    "a",
    "b",
    "ab",
    "a.o",
    "x y",
    "\u{e9}",
    "{a,b}",
    "\\[a\\]",
    "*",
    "*",
    "?",
    "??",
    "**",
    "**",
    "*.o",
    "a*",
    "*b",
    "a**b",
    "***",
    "\\\\*",
    "[ab]",
    "[!a]",
    "[^a]*",
    "[a-c]b",
    "[]a]",
    "[[:alpha:]]",
    "[[:punct:]]*",
    "[-a]",
    "\\a",
    "\\#a",
    "\\!a",
    "[a\\]]",
];

/// Parts of bracket expressions, also of invalid ones.
const BRACKET_PARTS: [&str; 18] = [
    "a",
    "b",
    "c",
    "z",
    "-",
    "-",
    "-",
    "]",
    "[",
    "!",
    "^",
    "\\\\",
    "\\]",
    "\\-",
    "\\a",
    ":",
    "[:alpha:]",
    "[:punct:]",
];

/// Characters that those match.
const CHARACTERS: [&str; 11] = ["a", "b", "c", "z", "-", "]", "[", "!", "^", "\\", ":"];

fn name() -> impl Strategy<Value = String> {
    let short = prop::collection::vec(prop::sample::select(&CHARACTERS[..]), 1..3);
    prop_oneof![
        2 => prop::sample::select(&NAMES[..]).prop_map(str::to_owned),
        1 => short.prop_map(|characters| characters.concat()),
    ]
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(name(), 1..4).prop_map(|names| names.join("/"))
}

fn pattern() -> impl Strategy<Value = String> {
    let parts = prop::collection::vec(prop::sample::select(&BRACKET_PARTS[..]), 1..6);
    let (before, after) = (
        prop::sample::select(&["", "", "*", "[^"][..]),
        prop::sample::select(&["", "", "*", "]", "\\]"][..]),
    );
    prop_oneof![
        3 => prop::sample::select(&PATTERNS[..]).prop_map(str::to_owned),
        1 => (before, parts, after).prop_map(|(before, parts, after)| format!("{before}[{}]{after}", parts.concat())),
    ]
}

fn rule() -> impl Strategy<Value = String> {
    let parts = prop::collection::vec(pattern(), 1..4);
    let (before, after) = (
        prop::sample::select(&["", "", "", "!", "/", "!/"][..]),
        prop::sample::select(&["", "", "/", "/**", " ", "\\ "][..]),
    );
    (before, parts, after).prop_map(|(before, parts, after)| format!("{before}{}{after}", parts.join("/")))
}

fn rules(most: usize) -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(rule(), 0..most)
}

/// Makes a file for each path that isn't below another one.
fn make(root: &Path, paths: &[String]) {
    for path in paths {
        let path = root.join(path);
        if fs::create_dir_all(path.parent().unwrap()).is_ok() && !path.exists() {
            fs::write(path, "content").unwrap();
        }
    }
}

/// Returns the paths of all files below `root`.
fn files(root: &Path) -> BTreeSet<PathBuf> {
    let walk = walkdir::WalkDir::new(root).into_iter().map(Result::unwrap);
    let files = walk.filter(|entry| !entry.file_type().is_dir());
    files.map(|entry| entry.path().strip_prefix(root).unwrap().to_owned()).collect()
}

/// Returns the paths of the files that git would list, with rules from its command line.
fn listed_by_git(root: &Path, options: &[&str]) -> BTreeSet<PathBuf> {
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
        command.env("GIT_DIR", root.with_extension("git")).env("GIT_WORK_TREE", root);
        let output = command.current_dir(root).args(words).output().unwrap();
        assert!(output.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["init", "--quiet"]);
    let words = [&["ls-files", "--others", "-z"], options].concat();
    git(&words).split_terminator('\0').map(PathBuf::from).collect()
}

#[test]
fn git_decides() {
    let ours = program!();
    require!(ours.needs_haul(), needs::tool("git"));
    let cases = if needs::is_full_run() { 2000 } else { 150 };
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let paths = prop::collection::vec(path(), 1..40);
    let files_of_rules = prop::collection::vec((path(), rules(4)), 0..3);
    let (compared, refused) = (Cell::new(0), Cell::new(0));
    let outcome = runner.run(&(paths, rules(6), files_of_rules), |(paths, rules, more)| {
        let sandbox = Sandbox::in_memory().unwrap();
        let source = sandbox.join("source");
        fs::create_dir(&source).unwrap();
        make(&source, &paths);
        for (path, rules) in more {
            let directory = source.join(path);
            let directory = directory.ancestors().find(|path| path.is_dir()).unwrap();
            fs::write(directory.join(".gitignore"), rules.join("\n")).unwrap();
        }
        let file = sandbox.join("rules");
        fs::write(&file, rules.join("\n")).unwrap();
        let from = vec![format!("--exclude-from={}", file.display())];
        let mut words: Vec<_> = rules.iter().map(|rule| format!("--exclude={rule}")).collect();
        // Rules from a file come after those of .gitignore files in git.
        words.push("--gitignore".to_owned());
        for options in [from, words] {
            let target = sandbox.join("target");
            let outcome = ours.run_with(&options).args(["-rT"]).args([&source, &target]).finish().unwrap();
            let for_git: Vec<_> = options
                .iter()
                .map(|word| if word == "--gitignore" { "--exclude-per-directory=.gitignore" } else { word })
                .collect();
            // git ignores invalid patterns, and haul refuses them (see below), like inclusions
            // without exclusions.
            if outcome.errors().contains("invalid pattern") || outcome.errors().contains("--include") {
                refused.set(refused.get() + 1);
                continue;
            }
            prop_assert!(outcome.succeeded(), "{}", outcome.errors());
            let (kept, wanted) = (files(&target), listed_by_git(&source, &for_git));
            prop_assert!(kept == wanted, "kept {kept:#?}, git keeps {wanted:#?}, all {:#?}", files(&source));
            fs::remove_dir_all(target).unwrap();
            compared.set(compared.get() + 1);
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(compared.get() > 10 * refused.get(), "{compared:?} compared, {refused:?} refused");
}

/// Makes a small project.
fn project(folder: &Path) -> PathBuf {
    let paths = [
        "main.c",
        "main.o",
        "keep.o",
        "docs/a.pdf",
        "docs/old/b.pdf",
        "build/x.c",
        "src/build/y.c",
        "src/z.o",
        "TODO",
        "src/notes.txt",
    ];
    let root = folder.join("project");
    fs::create_dir(&root).unwrap();
    make(&root, &paths.map(str::to_owned));
    root
}

/// Copies the project with these options, and returns the files of the copy.
fn copied(ours: &CopyProgram, options: &[&str]) -> Vec<String> {
    let sandbox = Sandbox::in_memory().unwrap();
    let (source, target) = (project(sandbox.path()), sandbox.join("copy"));
    let outcome = ours.run_with(options).arg("-r").args([&source, &target]).finish().unwrap();
    assert!(outcome.succeeded(), "{options:?}: {}", outcome.errors());
    files(&target).iter().map(|path| path.to_str().unwrap().to_owned()).collect()
}

#[test]
fn a_rule_with_a_nul_is_refused() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    fs::create_dir(sandbox.join("s")).unwrap();
    fs::write(sandbox.join("rules"), "x\na\0b\n").unwrap();
    let run = ours.run_with(&["-r", "--exclude-from=rules", "s", "t"]).in_folder(sandbox.path());
    let outcome = run.finish().unwrap();
    assert_eq!(outcome.status(), Some(1));
    assert!(outcome.errors().contains("invalid pattern"), "{}", outcome.errors());
}

/// As in git: only spaces are nothing.
#[test]
fn a_rule_may_be_a_tab() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script("mkdir s; touch s/a \"s/$(printf '\\t')\"; printf '\\t\\n  \\n\\r\\n' >rules").unwrap();
    let run = ours.run_with(&["-r", "--exclude-from=rules", "s", "t"]).in_folder(sandbox.path());
    run.succeed().unwrap();
    assert_eq!(files(&sandbox.join("t")).into_iter().collect::<Vec<_>>(), [PathBuf::from("a")]);
}

#[test]
fn a_rule_without_effect_is_named_as_it_was_typed() {
    let ours = program!();
    require!(ours.needs_haul());
    for (option, told) in [
        ("--exclude=!", "invalid argument '!' for '--exclude'"),
        ("--exclude=!x", "--exclude='!GLOB' includes, so it needs a rule that excludes"),
        ("--include=x", "option '--include' has no effect without '--exclude'"),
    ] {
        let outcome = ours.run_with(&["-r", option]).args(["s", "t"]).finish().unwrap();
        assert_eq!(outcome.status(), Some(1), "{option}");
        assert!(outcome.errors().contains(told), "{option}: {}", outcome.errors());
    }
}

#[test]
fn of_all_rules_the_last_that_matches_decides() {
    let ours = program!();
    require!(ours.needs_haul());
    let all = copied(&ours, &[]);
    let without = |left_out: &[&str]| -> Vec<String> {
        all.iter().filter(|path| !left_out.iter().any(|part| path.contains(part))).cloned().collect()
    };
    let cases: &[(&[&str], Vec<String>)] = &[
        (&["--exclude=*.o"], without(&[".o"])),
        (&["--exclude=*.o", "--include=keep.o"], without(&["main.o", "z.o"])),
        (&["--include=keep.o", "--exclude=*.o"], without(&[".o"])),
        (&["--exclude=!x", "--exclude=build/"], without(&["build/"])),
        (&["--exclude=/build"], without(&["build/x.c"])),
        (&["--exclude=docs/*", "--include=docs/old"], without(&["a.pdf"])),
        (&["--exclude=docs", "--include=docs/old"], without(&["docs"])),
        (
            &["--exclude=*", "--include=*/", "--include=*.pdf"],
            vec!["docs/a.pdf".into(), "docs/old/b.pdf".into()],
        ),
        (&["--exclude", "TODO", "--exclude", "src/**"], without(&["TODO", "src"])),
        // The directory that was named is entered.
        (&["--exclude=project"], all.clone()),
    ];
    for (options, wanted) in cases {
        assert_eq!(&copied(&ours, options), wanted, "{options:?}");
    }
}

#[test]
fn rules_come_from_files_and_standard_input_too() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    let (source, rules) = (project(sandbox.path()), sandbox.join("rules"));
    fs::write(&rules, "\u{feff}# a comment\r\n*.o\r\n\r\n!keep.o\n").unwrap();
    for (name, input) in [(rules.to_str().unwrap(), &b""[..]), ("-", b"*.o\n!keep.o")] {
        let target = sandbox.join("copy");
        let run = ours.run_with(&["--exclude-from", name, "--exclude=TODO"]).arg("-r");
        let outcome = run.args([&source, &target]).input(input).finish().unwrap();
        assert!(outcome.succeeded(), "{}", outcome.errors());
        let kept = files(&target);
        for (name, is_kept) in [("keep.o", true), ("main.o", false), ("TODO", false), ("main.c", true)] {
            assert_eq!(kept.contains(Path::new(name)), is_kept, "{name}");
        }
        fs::remove_dir_all(target).unwrap();
    }
}

#[test]
fn a_directory_that_is_left_out_is_not_opened() {
    require!(needs::tool("strace"));
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    let source = project(sandbox.path());
    let run = ours.run_with(&["--exclude=build/", "--exclude=*.o"]).arg("-r").arg(&source).arg("copy");
    let (outcome, calls) = record(run.in_folder(sandbox.path()), "file", &sandbox.join("log")).unwrap();
    assert!(outcome.succeeded(), "{}", outcome.errors());
    let touches = |name: &str| {
        calls.iter().any(|call| call.path(1).is_some_and(|path| path.ends_with(name.as_bytes())))
    };
    assert!(touches("docs") && touches("main.c"), "the trace shows names");
    assert!(!touches("build") && !touches("main.o"));
}

#[test]
fn sizes_and_ages_are_those_of_regular_files() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox
        .script(
            "mkdir -p s/d; for n in 0 1 1023 1024 1025; do head -c $n /dev/zero >s/$n; done; ln -s 1025 s/link; mkfifo s/fifo
             touch -d @1000 s/0; touch -d @2000 s/1; touch -d '2 days ago' s/1023",
        )
        .unwrap();
    let kept = |options: &[&str]| -> Vec<String> {
        let target = sandbox.join("t");
        let run = ours.run_with(options).args(["-r", "s", "t"]).in_folder(sandbox.path());
        let outcome = run.finish().unwrap();
        assert!(outcome.succeeded(), "{options:?}: {}", outcome.errors());
        // Directories, links and FIFOs have no size that means anything.
        assert!(target.join("d").is_dir() && target.join("fifo").exists());
        assert!(target.join("link").is_symlink() || options.contains(&"-l"), "-l follows it");
        let names = files(&target).into_iter().map(|path| path.to_str().unwrap().to_owned());
        let names = names.filter(|name| name.parse::<u32>().is_ok()).collect();
        fs::remove_dir_all(target).unwrap();
        names
    };
    assert_eq!(kept(&["--min-size=1K"]), ["1024", "1025"]);
    assert_eq!(kept(&["--max-size=1K"]), ["0", "1", "1023", "1024"]);
    assert_eq!(kept(&["--min-size=1", "--max-size=1KB"]), ["1"]);
    assert_eq!(kept(&["--newer-than=@1000"]), ["1", "1023", "1024", "1025"]);
    assert_eq!(kept(&["--older-than=@2000"]), ["0"]);
    assert_eq!(kept(&["--newer-than=1d"]), ["1024", "1025"]);
    assert_eq!(kept(&["--older-than=1d"]), ["0", "1", "1023"]);
    assert_eq!(kept(&["--newer-than=./s/1"]), ["1023", "1024", "1025"]);
    assert_eq!(kept(&["--min-size=1K", "-l"]), ["1024", "1025"]);
}

#[test]
fn files_that_were_named_are_chosen_like_others_and_directories_are_entered() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script("mkdir d t; touch a.o b.c d/a.o d/b.c; head -c 2000 /dev/zero >big").unwrap();
    let run = ours.run_with(&["--exclude=*.o", "--exclude=d", "--max-size=1K"]);
    let outcome = run.args(["-r", "a.o", "b.c", "big", "d", "t"]).in_folder(sandbox.path()).finish().unwrap();
    assert!(outcome.succeeded(), "{}", outcome.errors());
    let kept: Vec<_> = files(&sandbox.join("t")).into_iter().collect();
    assert_eq!(kept, [PathBuf::from("b.c"), PathBuf::from("d/b.c")]);
}

#[test]
fn of_a_cache_only_the_tag_is_kept() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    let tag = "Signature: 8a477f597d28d172789f06886806bc55";
    for (directory, text) in [("cache", tag), ("other", "Signature: something else")] {
        fs::create_dir_all(sandbox.join("s").join(directory).join("below")).unwrap();
        fs::write(sandbox.join("s").join(directory).join("data"), "x").unwrap();
        fs::write(sandbox.join("s").join(directory).join("CACHEDIR.TAG"), text).unwrap();
    }
    let run = ours.run_with(&["--exclude-caches"]).args(["-r", "s", "t"]).in_folder(sandbox.path());
    assert!(run.finish().unwrap().succeeded());
    let kept: Vec<_> = files(&sandbox.join("t")).into_iter().collect();
    assert_eq!(kept, ["cache/CACHEDIR.TAG", "other/CACHEDIR.TAG", "other/data"].map(PathBuf::from));
    assert!(!sandbox.join("t/cache/below").exists() && sandbox.join("t/other/below").exists());
}

#[test]
fn an_ignore_file_that_cannot_be_used_is_reported() {
    let ours = program!();
    require!(ours.needs_haul(), needs::tool("mkfifo"));
    let special = "ignoring 's/.gitignore': it is not a regular file\n";
    let cases = [
        ("mkfifo s/.gitignore", special, 1),
        ("mkdir s/.gitignore", special, 1),
        ("ln -s x s/.gitignore; echo '*' >s/x", special, 1),
        ("ln -s /dev/zero s/.gitignore", special, 1),
        ("ln -s nowhere s/.gitignore", special, 1),
        ("truncate -s 1G s/.gitignore", "ignoring 's/.gitignore': it is larger than 16 MiB\n", 1),
        ("printf 'a[\\nx\\n' >s/.gitignore", "'s/.gitignore:1': ignoring the invalid pattern 'a['", 0),
        ("printf '\\377*\\nx\\n' >s/.gitignore", "'s/.gitignore:1': ignoring the invalid pattern ", 0),
    ];
    for (script, message, status) in cases {
        let sandbox = Sandbox::in_memory().unwrap();
        sandbox.script(&format!("mkdir s; echo y >s/y; {script}")).unwrap();
        let run = ours.run_with(&["--gitignore"]).args(["-r", "s", "t"]).in_folder(sandbox.path());
        let outcome = run.finish().unwrap();
        assert_eq!(outcome.status(), Some(status), "{script}: {}", outcome.errors());
        assert!(outcome.errors().contains(message), "{script}: {}", outcome.errors());
        assert_eq!(outcome.errors().lines().count(), 1, "{}", outcome.errors());
        assert!(sandbox.join("t/y").exists());
    }
}

#[test]
fn an_ignore_file_that_cannot_be_read_is_reported() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script("mkdir s; echo y >s/y; echo y >s/.gitignore; chmod 0 s/.gitignore; chmod 777 .").unwrap();
    let [patterns, file] =
        ["cannot read the patterns in 's/.gitignore'", "cannot open 's/.gitignore' for reading"];
    let options = ["--gitignore", "--exclude=.gitignore"];
    for (options, messages) in [(&options[..1], vec![patterns, file]), (&options[..], vec![patterns])] {
        let run = ours.run_with(options).args(["-r", "s", "t"]).in_folder(sandbox.path());
        let run = if needs::root().is_none() { run.as_nobody() } else { run };
        let (status, errors) = run.finish().map(|outcome| (outcome.status(), outcome.errors())).unwrap();
        assert_eq!((status, errors.lines().count()), (Some(1), messages.len()), "{errors}");
        assert!(messages.iter().all(|message| errors.contains(message)), "{errors}");
        assert!(sandbox.join("t/y").exists());
    }
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_is_touched() {
    let ours = program!();
    require!(ours.needs_haul());
    let cases: &[(&[&str], &str)] = &[
        (&["--exclude=a["], "invalid pattern 'a['"),
        (&["--exclude=./build"], "invalid pattern './build'"),
        (&["--exclude="], "--exclude"),
        (&["--exclude=\u{80}"], ""),
        (&["--include=*.c"], "--exclude"),
        (&["--exclude-from=/no/such/file"], "/no/such/file: No such file or directory"),
        (&["--min-size=2K", "--max-size=1K"], "--max-size"),
        (&["--min-size=1X"], "'1X'"),
        (&["--newer-than=yesterday"], "'yesterday'"),
        (&["--newer-than=1h", "--older-than=2h"], "--older-than"),
        (&["--newer-than=./missing"], "cannot stat"),
    ];
    for (options, message) in cases {
        let sandbox = Sandbox::in_memory().unwrap();
        project(sandbox.path());
        let run = ours.run_with(options).args(["-r", "project", "t"]).in_folder(sandbox.path());
        let outcome = run.finish().unwrap();
        if message.is_empty() {
            continue;
        }
        assert_eq!(outcome.status(), Some(1), "{options:?}");
        assert!(outcome.errors().contains(message), "{options:?}: {}", outcome.errors());
        assert!(!sandbox.join("t").exists(), "{options:?}");
    }
}

#[test]
fn a_hundred_thousand_rules_are_like_one() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    let names: Vec<_> = (0..100_000).map(|number| format!("name{number}")).collect();
    fs::write(sandbox.join("rules"), names.join("\n")).unwrap();
    fs::create_dir(sandbox.join("s")).unwrap();
    for name in ["name0", "name99999", "name100000", "other"] {
        fs::write(sandbox.join("s").join(name), "x").unwrap();
    }
    let run = ours.run_with(&["--exclude-from=rules"]).args(["-r", "s", "t"]).in_folder(sandbox.path());
    let outcome = run.finish().unwrap();
    assert!(outcome.succeeded(), "{}", outcome.errors());
    let kept: Vec<_> = files(&sandbox.join("t")).into_iter().collect();
    assert_eq!(kept, ["name100000", "other"].map(PathBuf::from));
}

#[test]
fn every_tool_chooses_alike() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    let source = project(sandbox.path());
    fs::write(source.join("src/.gitignore"), "notes.txt\n").unwrap();
    symlink("main.c", source.join("link")).unwrap();
    let options = ["--exclude=*.o", "--include=keep.o", "--exclude=build/", "--gitignore", "--max-size=1M"];
    let haul = |words: &[&str]| {
        TestRun::new(ours.path()).args(words).args(options).in_folder(sandbox.path()).finish().unwrap()
    };
    let wanted = ["TODO", "docs/a.pdf", "docs/old/b.pdf", "keep.o", "main.c", "src/.gitignore"];
    let names = |printed: String| -> Vec<String> {
        let names = printed.lines().map(|line| line.rsplit("project/").next().unwrap().to_owned());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    };
    let summed = haul(&["sum", "project"]);
    assert_eq!(names(summed.printed()), wanted, "{}", summed.errors());
    let mut words: Vec<&str> = vec!["each", "project"];
    words.extend(options);
    let run = TestRun::new(ours.path()).args(&words).args(["--", "echo"]).in_folder(sandbox.path());
    assert_eq!(names(run.finish().unwrap().printed()), wanted);
    // A copy is the same as its source as far as both are chosen, and differs otherwise.
    assert!(haul(&["cp", "-r", "project", "copy"]).succeeded());
    assert!(haul(&["cmp", "project", "copy"]).succeeded());
    fs::write(sandbox.join("copy/more.o"), "x").unwrap();
    assert!(haul(&["cmp", "project", "copy"]).succeeded());
    fs::write(sandbox.join("copy/more.c"), "x").unwrap();
    assert_eq!(haul(&["cmp", "project", "copy"]).status(), Some(1));
    let run = TestRun::new(ours.path()).args(["cmp", "project", "copy"]).in_folder(sandbox.path());
    assert!(run.finish().unwrap().printed().contains("Only in project: build"));
}

#[test]
fn a_list_is_copied_as_rsync_does() {
    let ours = program!();
    require!(ours.needs_haul(), needs::tool("rsync"));
    let cases = if needs::is_full_run() { 1000 } else { 60 };
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let inputs =
        (prop::collection::vec(path(), 1..20), prop::collection::vec(any::<prop::sample::Index>(), 0..8));
    let outcome = runner.run(&(inputs, any::<[bool; 2]>()), |((paths, chosen), [takes_contents, syncs])| {
        let sandbox = Sandbox::in_memory().unwrap();
        fs::create_dir(sandbox.join("s")).unwrap();
        make(&sandbox.join("s"), &paths);
        sandbox.script("find s -depth -exec touch -h -d @1000000000 {} + ; chmod -R go-rx s").unwrap();
        let walk = walkdir::WalkDir::new(sandbox.join("s")).min_depth(1).into_iter();
        let there: Vec<_> = walk.map(|entry| entry.unwrap().into_path()).collect();
        let name = |index: &prop::sample::Index| index.get(&there).strip_prefix(sandbox.join("s")).unwrap();
        // To rsync, a name that begins with # is a comment.
        let names: Vec<_> =
            chosen.iter().map(|index| format!("./{}", name(index).to_str().unwrap())).collect();
        fs::write(sandbox.join("list"), names.join("\0")).unwrap();
        let options = if takes_contents { "-ar" } else { "-a" };
        let mut rsync = Command::new("rsync");
        rsync.args([options, "--from0", "--files-from=list", "s/", "theirs/"]);
        assert!(rsync.current_dir(sandbox.path()).status().unwrap().success());
        let command = if syncs { "sync" } else { "cp" };
        let run = TestRun::new(ours.path()).args([command, "--files0-from=list", options, "s", "ours"]);
        let outcome = run.in_folder(sandbox.path()).finish().unwrap();
        prop_assert!(outcome.succeeded(), "{}", outcome.errors());
        // rsync leaves the attributes of the target itself alone, haul does as cp -aT.
        sandbox.script("mkdir -p theirs; touch -d @1 ours theirs; chmod 755 ours theirs").unwrap();
        let take = |name: &str| Snapshot::take(&sandbox.join(name), Facts::PRESERVED).unwrap();
        let differences = compare(&take("theirs"), &take("ours"), Facts::PRESERVED).unwrap();
        prop_assert!(differences.is_empty(), "{names:?} {command} {options}: {differences}");
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn bzip2_selects_nothing_from_standard_input() {
    let haul = program!();
    require!(haul.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script("echo a.txt >list; echo data >a.txt").unwrap();
    for words in [&["--files-from=list"][..], &["--exclude=*.txt"], &["-k", "--min-size=1"]] {
        let run = TestRun::new(haul.path()).arg("bzip2").args(words).input(b"data").in_folder(sandbox.path());
        let outcome = run.finish().unwrap();
        assert!(!outcome.succeeded() && outcome.printed().is_empty(), "{words:?}");
        assert!(outcome.errors().contains("standard input is one stream"), "{}", outcome.errors());
    }
}
