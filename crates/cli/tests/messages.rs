//! Messages and exit status where the files don't matter: bad command lines, closed and full
//! outputs, locales, and options without effect here.
//!
//! Everything is compared with GNU cp if it has the option; newer wording is spelled out.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use haul_testkit::duel::Duel;
use haul_testkit::message::normalise;
use haul_testkit::program::WAYS;
use haul_testkit::run::{RunEnding, TestRun};
use haul_testkit::spec::{EntrySpec, Spec, SpecKind};
use haul_testkit::{CopyProgram, Release, RunOutcome, Sandbox, note, program, require};

fn prepare(folder: &Path) -> io::Result<()> {
    let nodes = vec![
        EntrySpec::new(0, "d", SpecKind::Directory).mode(0o750).modified(1_000_000_000, 1),
        EntrySpec::new(1, "sub", SpecKind::Directory).modified(1_000_000_001, 2),
        EntrySpec::new(0, "n", SpecKind::Directory),
        EntrySpec::file(0, "a", 1, 100).mode(0o640).modified(1_100_000_000, 5),
        EntrySpec::file(0, "b", 2, 200),
        EntrySpec::file(1, "x", 3, 300),
        EntrySpec::new(0, "link", SpecKind::Symlink("a".into())),
        EntrySpec::new(0, "to-d", SpecKind::Symlink("d".into())),
        EntrySpec::file(0, "caf\u{e9} it's\n\u{2028}x", 3, 30),
    ];
    Spec { nodes }.build(folder)
}

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

fn run_all(lines: &[&str]) {
    require!(CopyProgram::needs_gnu());
    let duel = Duel::with_gnu(program!()).unwrap();
    let mut failures = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let own: Vec<OsString> = WAYS[index % WAYS.len()].iter().map(OsString::from).collect();
        let verdict = duel.run(&prepare, &words(line), &own).unwrap();
        assert!(!verdict.standard_hung(), "GNU cp hung on {line}");
        if !verdict.complaints.is_empty() {
            failures.push(format!("cp {line}\n{}", verdict.report()));
        }
    }
    note!("{} command lines, {} different from GNU cp", lines.len(), failures.len());
    assert!(failures.is_empty(), "{} lines differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn contexts_are_declined_as_by_gnu() {
    require!(
        Path::new("/sys/fs/selinux/enforce").exists().then(|| "needs a kernel without SELinux".to_owned())
    );
    run_all(&[
        "-Z a new",
        "-rZ d new",
        "-aZ d new",
        "-Za d new",
        "--context a new",
        "--cont a new",
        "--context=x a new",
        "--context= a new",
        "--context=x --context=y a b n",
        "--context=x missing new",
        "--context=x --nonsense a new",
        "--nonsense --context=x a new",
        "--context=x",
        "--context=x a",
        "-Z --context=x -a d new",
        "--preserve=context a new",
        "--preserve=context -Z a new",
        "--context=x --preserve=context a new",
        "--preserve=mode,context a new",
        "--preserve=all a new",
        "--preserve=context --no-preserve=context a new",
        "-a d new",
    ]);
}

#[test]
fn slashes_are_stripped_as_by_gnu() {
    run_all(&[
        "--strip-trailing-slashes a/ n",
        "--strip-trailing-slashes a/ new",
        "--strip-trailing-slashes a// link/ n",
        "--strip-trailing-slashes -v a/ n",
        "--strip-trailing-slashes -P link/ n",
        "--strip-trailing-slashes -P link/ new",
        "--strip-trailing-slashes -P to-d/ n",
        "--strip-trailing-slashes -rv to-d/ n",
        "--strip-trailing-slashes -rv to-d/ new",
        "--strip-trailing-slashes -rv d// n",
        "--strip-trailing-slashes -t n -v a/ b/",
        "--strip-trailing-slashes missing/ n",
        "--strip-trailing-slashes d/ n",
        "--strip-tr -rv d/. n",
        "--strip -r d/sub/.. n",
        "a/ n",
        "-P to-d/ n",
        "-rv to-d/ n",
        "-rv d// n//",
        "-rv d/sub/.. n",
        "-v a n//",
        "-rv d n//",
    ]);
}

#[test]
fn bad_lines_are_refused_as_by_gnu() {
    run_all(&[
        "--attributes-only=x a new",
        "--copy-contents=x a new",
        "--parents=x a n",
        "--strip-trailing-slashes=x a n",
        "--attributes-only",
        "--copy-contents a",
        "--parents",
        "--parents a",
        "--parents a b",
        "--parents a new",
        "--parents a b c n/missing",
        "--parents -T a n",
        "--parents -T a b n",
        "--parents -t n -T a",
        "--parents -t missing a",
        "--par a n",
        "--pa a n",
        "--p a n",
        "--co a n",
        "--con a new",
        "--cop a new",
        "--s a n",
        "--st a n",
        "--a a n",
        "--at a new",
        "--ar d new",
        "-Zz a new",
        "-Z=x a new",
    ]);
}

/// Runs a command line in a directory of its own, with the run modified by `condition`.
fn under(program: &CopyProgram, line: &str, condition: &dyn Fn(TestRun) -> TestRun) -> RunOutcome {
    let sandbox = Sandbox::in_memory().unwrap();
    prepare(sandbox.path()).unwrap();
    condition(program.run().args(words(line)).in_folder(sandbox.path())).finish().unwrap()
}

#[test]
fn outputs_that_take_nothing_are_reported_as_by_gnu() {
    require!(CopyProgram::needs_gnu());
    let ours = program!();
    require!(ours.needs_haul());
    let gnu = CopyProgram::gnu().unwrap();
    let full = |run: TestRun| run.stdout_to(Path::new("/dev/full"));
    let no_output = |run: TestRun| run.without_stdout();
    let no_errors = |run: TestRun| run.without_stderr();
    let conditions: [(&str, &dyn Fn(TestRun) -> TestRun); 3] =
        [("full output", &full), ("closed output", &no_output), ("closed errors", &no_errors)];
    let lines = [
        "-v a new",
        "a new",
        "-rv d n",
        "missing new",
        "-v missing new",
        "a a n",
        "--nonsense",
        "--help",
        "--version",
    ];
    for line in lines {
        for (name, condition) in &conditions {
            let (expected, found) = (under(&gnu, line, condition), under(&ours, line, condition));
            assert_eq!(found.ending, expected.ending, "cp {line}, {name}: {}", found.errors());
            assert_eq!(normalise(&found.stderr), normalise(&expected.stderr), "cp {line}, {name}");
        }
    }
}

#[test]
fn help_and_version_are_printed_and_nothing_is_copied() {
    let ours = program!();
    require!(ours.needs_haul());
    for line in ["--help", "--version", "--help a new", "-v --version a new", "--context=x --hel a new"] {
        let outcome = under(&ours, line, &|run| run);
        assert_eq!(outcome.ending, RunEnding::Exited(0), "{line}");
        let said = if line.contains("--hel") {
            "Usage: haul cp [OPTION]... [-T] SOURCE DEST\n"
        } else {
            "cp (haul) "
        };
        assert!(outcome.printed().starts_with(said), "{line}: {}", outcome.printed());
        assert_eq!(outcome.stderr.is_empty(), !line.contains("context"), "{line}: {}", outcome.errors());
    }
}

#[test]
fn names_are_quoted_by_the_locale() {
    require!(CopyProgram::needs_gnu());
    let (ours, gnu) = (program!(), CopyProgram::gnu().unwrap());
    // C exists everywhere. Any number of the others may be installed.
    let locales =
        ["C", "POSIX", "C.UTF-8", "en_US", "en_US.UTF-8", "de_DE@euro", "no_SUCH.UTF-8", "", "UTF-8"];
    let variables = [("LC_ALL", ""), ("LC_CTYPE", "LC_ALL"), ("LANG", "LC_ALL")];
    for locale in locales {
        for (variable, emptied) in variables {
            let run = |program: &CopyProgram| {
                let sandbox = Sandbox::in_memory().unwrap();
                prepare(sandbox.path()).unwrap();
                let mut run = program.run().args([
                    "-v",
                    "--",
                    "caf\u{e9} it's\n\u{2028}x",
                    "a\u{e9}",
                    "missing \u{e9}",
                    "n",
                ]);
                if !emptied.is_empty() {
                    run = run.env(emptied, "");
                }
                run.env(variable, locale).in_folder(sandbox.path()).finish().unwrap()
            };
            let (expected, found) = (run(&gnu), run(&ours));
            let place = format!("{variable}={locale}");
            assert_eq!(normalise(&found.stdout), normalise(&expected.stdout), "{place}");
            assert_eq!(normalise(&found.stderr), normalise(&expected.stderr), "{place}");
        }
    }
}

/// GNU cp prints a `--debug` line since 9.2. Expects the wording of 9.10 for each method, and
/// haul's remark on standard error. If `HAUL_GNU_CP` names such a release, its line is
/// compared too.
#[test]
fn debug_names_the_method_of_each_copy() {
    let ours = program!();
    require!(ours.needs_haul());
    let theirs = CopyProgram::gnu().filter(|gnu| gnu.release() >= Some(Release(9, 10)));
    let sandbox = Sandbox::in_memory().unwrap();
    fs::write(sandbox.join("short"), "some").unwrap();
    fs::write(sandbox.join("zeros"), [0; 5000]).unwrap();
    fs::write(sandbox.join("long"), vec![b'x'; 1 << 20]).unwrap();
    fs::write(sandbox.join("empty"), "").unwrap();
    fs::File::create(sandbox.join("hole")).unwrap().set_len(1 << 20).unwrap();
    fs::write(sandbox.join("tail"), "some").unwrap();
    fs::File::options().write(true).open(sandbox.join("tail")).unwrap().set_len(1 << 20).unwrap();
    for (options, source, words, remark) in DEBUG {
        if source.starts_with('/') && !Path::new(source).exists() {
            note!("{source} is left out: it is not here");
            continue;
        }
        let line = words.split_once('/').and_then(|(offload, rest)| {
            let (reflink, sparse) = rest.split_once('/')?;
            Some(format!("copy offload: {offload}, reflink: {reflink}, sparse detection: {sparse}"))
        });
        for program in theirs.iter().chain([&ours]) {
            let run = program.run().args(options.split_whitespace()).args(["--debug", source, "target"]);
            let outcome = run.in_folder(sandbox.path()).finish().unwrap();
            let case = format!("{options} {source}");
            assert!(outcome.succeeded(), "{case}: {}", outcome.errors());
            let printed = outcome.printed();
            let mut lines = printed.lines();
            assert_eq!(lines.next(), Some(format!("'{source}' -> 'target'").as_str()), "{case}");
            assert_eq!((lines.next(), lines.next()), (line.as_deref(), None), "{case}");
            if program.is_haul() && !remark.is_empty() {
                let errors = outcome.errors();
                assert!(errors.contains(&format!("{source}: {remark}")), "{case}: {errors}");
            }
            fs::remove_file(sandbox.join("target")).unwrap();
        }
    }
    // tmpfs has no reflinks, so this is an error. GNU cp prints its line after errors too.
    for (options, target, reflink) in [
        ("--reflink=always", "target", "unsupported"),
        ("--reflink=always", "missing/target", "unknown"),
        ("--reflink=auto", "missing/target", "unknown"),
        ("--reflink=never", "missing/target", "no"),
    ] {
        let line = format!("copy offload: unknown, reflink: {reflink}, sparse detection: unknown\n");
        for program in theirs.iter().chain([&ours]) {
            let run = program.run().args(["--debug", options, "short", target]).in_folder(sandbox.path());
            let outcome = run.finish().unwrap();
            let printed = outcome.printed();
            assert_eq!(outcome.ending, RunEnding::Exited(1), "{options} {target}");
            assert!(printed.contains(&line), "{options} {target}: {printed}");
        }
    }
}

/// Options, source, GNU's words (copy offload, reflink, sparse detection; empty if no data is
/// copied), and the start of haul's remark.
const DEBUG: [(&str, &str, &str, &str); 33] = [
    ("", "short", "yes/unsupported/no", "copied in the kernel; without --debug in blocks, as it is short"),
    ("", "zeros", "yes/unsupported/no", "copied in the kernel; without --debug in blocks, as it is short"),
    ("", "long", "yes/unsupported/no", "copied in the kernel\n"),
    ("", "empty", "unknown/unsupported/no", "has no data to copy\n"),
    ("", "hole", "unknown/unsupported/SEEK_HOLE", "has no data to copy\n"),
    (
        "",
        "tail",
        "yes/unsupported/SEEK_HOLE",
        "copied in the kernel; without --debug in blocks, as it has holes",
    ),
    ("", "/proc/version", "unsupported/unsupported/no", "copied in blocks, as the kernel cannot copy it\n"),
    // The file occupies no blocks, so it seems to have holes; the filesystem reports none.
    (
        "",
        "/sys/kernel/profiling",
        "unsupported/unsupported/no",
        "copied in blocks, as the kernel cannot copy it\n",
    ),
    ("--sparse=always", "/sys/kernel/profiling", "avoided/unsupported/zeros", ""),
    ("--reflink=auto --sparse=auto", "short", "yes/unsupported/no", ""),
    ("--reflink=never", "short", "avoided/no/no", "copied in blocks\n"),
    ("--reflink=never", "long", "avoided/no/no", ""),
    ("--reflink=never", "empty", "avoided/no/no", "has no data to copy\n"),
    ("--reflink=never", "hole", "unknown/no/SEEK_HOLE", ""),
    ("--reflink=never", "tail", "avoided/no/SEEK_HOLE", ""),
    ("--reflink=never", "/proc/version", "avoided/no/no", ""),
    ("--sparse=always", "short", "avoided/unsupported/zeros", ""),
    ("--sparse=always", "zeros", "avoided/unsupported/zeros", ""),
    ("--sparse=always", "empty", "avoided/unsupported/zeros", ""),
    ("--sparse=always", "hole", "unknown/unsupported/SEEK_HOLE", ""),
    ("--sparse=always", "tail", "avoided/unsupported/SEEK_HOLE + zeros", "copied in blocks\n"),
    ("--sparse=always", "/proc/version", "avoided/unsupported/zeros", ""),
    ("--sparse=always --reflink=never", "empty", "avoided/no/zeros", ""),
    ("--sparse=always --reflink=never", "tail", "avoided/no/SEEK_HOLE + zeros", ""),
    ("--sparse=always --reflink=never", "hole", "unknown/no/SEEK_HOLE", ""),
    ("--sparse=never", "short", "avoided/no/no", ""),
    ("--sparse=never", "long", "avoided/no/no", ""),
    ("--sparse=never", "empty", "avoided/no/no", ""),
    ("--sparse=never", "/proc/version", "avoided/no/no", ""),
    ("--attributes-only", "short", "", ""),
    ("-l", "short", "", ""),
    ("-s", "short", "", ""),
    ("-f", "short", "yes/unsupported/no", ""),
];
