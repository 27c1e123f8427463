//! Tests the program by its command line: what it answers, and which haul it measures.

#![expect(clippy::unwrap_used, reason = "a test stops at whatever it did not expect, its own parts included")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use haul_testkit::program::write_script;
use haul_testkit::{needs, require};
use serde_json::Value;

const BENCH: &str = env!("CARGO_BIN_EXE_haul-bench");

fn run(words: &[&str]) -> Output {
    Command::new(BENCH).args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_tree_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    let output = run(&["make", "many", tree.to_str().unwrap(), "--scale", "0.002", "--directories", "1"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "many: 100 files, 1 directories, 409600 bytes (seed 1)\n");
    let directory = fs::read_dir(tree).unwrap().next().unwrap().unwrap();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 100);
}

#[test]
fn help_and_version_succeed_and_a_wrong_command_line_fails() {
    let version = run(&["--version"]);
    assert!(version.status.success());
    assert_eq!(text(&version.stdout), format!("haul-bench {}\n", env!("CARGO_PKG_VERSION")));
    let help = run(&["--help"]);
    assert!(help.status.success() && text(&help.stdout).contains("Usage: haul-bench <COMMAND>"));
    for words in [&[][..], &["mkae"], &["make", "many"], &["--definitions", "x"]] {
        let output = run(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        assert!(output.stdout.is_empty() && text(&output.stderr).contains("Usage: haul-bench"), "{words:?}");
    }
}

#[test]
fn the_definitions_have_every_subcommand() {
    let definitions: Value = serde_json::from_slice(&run(&["--definitions"]).stdout).unwrap();
    let names: Vec<_> = definitions["commands"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["make", "compare", "auto", "run", "start", "aio", "tools", "simulate"]);
}

/// A script takes haul's place, and copies with the given command.
#[test]
fn small_copies_are_timed_and_a_wrong_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let haul = folder.path().join("haul");
    let start = |copy: &str| {
        let version = "[ \"$1\" != --version ] || { echo haul 0.1.0; exit; }";
        write_script(&haul, &format!("#!/bin/sh\n{version}\nshift\n{copy}\n")).unwrap();
        let work = folder.path().to_str().unwrap();
        run(&["start", "--runs", "2", "--work", work, "--haul", haul.to_str().unwrap()])
    };
    let output = start("exec cp \"$@\"");
    let (printed, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{errors}");
    for line in ["One file, ", "20 files in a directory, ", "\n| haul | ", "\n| GNU cp | ", "; 2 runs each"] {
        assert!(printed.contains(line), "{line}: {printed}");
    }
    for (copy, message) in [("echo other >\"$2\"", "haul copied wrong"), ("exit 3", "haul: exit status: 3")] {
        let output = start(copy);
        assert_eq!(output.status.code(), Some(1), "{copy}");
        assert!(text(&output.stderr).contains(message), "{copy}: {}", text(&output.stderr));
    }
    // Only the script: what was made for the runs is removed after an error too.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn the_haul_that_was_called_is_measured_or_the_one_beside_or_the_one_on_path() {
    require!(needs::loop_mount("ext4"));
    let folder = tempfile::tempdir().unwrap();
    let (beside, on_path) = (folder.path().join("beside"), folder.path().join("on_path"));
    let program = beside.join("haul-bench");
    for place in [&beside, &on_path] {
        fs::create_dir(place).unwrap();
        // The refusal of a program that is not haul names it, before anything is made.
        write_script(&place.join("haul"), "#!/bin/sh\necho no haul 1.0\n").unwrap();
    }
    // By another process, like a script: the program runs at once.
    assert!(Command::new("cp").arg(BENCH).arg(&program).status().unwrap().success());
    for name in ["losetup", "mount", "umount", "mkfs.ext4"] {
        symlink(needs::find_tool(name).unwrap(), on_path.join(name)).unwrap();
    }
    let refusal = |called: Option<&Path>| {
        let mut command = Command::new(&program);
        command
            .args(["compare", "many", "--only", "haul"])
            .env("PATH", &on_path)
            .env_remove("HAUL_BENCH_HAUL");
        text(&command.envs(called.map(|called| ("HAUL_BENCH_HAUL", called))).output().unwrap().stderr)
    };
    let names = |haul: &Path| format!("haul-bench: {} is not haul", haul.display());
    let called = on_path.join("haul");
    assert!(refusal(Some(&called)).starts_with(&names(&called)));
    assert!(refusal(None).starts_with(&names(&beside.join("haul"))));
    fs::remove_file(beside.join("haul")).unwrap();
    assert!(refusal(None).starts_with(&names(&on_path.join("haul"))));
    fs::remove_file(on_path.join("haul")).unwrap();
    assert!(refusal(None).starts_with("haul-bench: haul is neither beside haul-bench nor on PATH"));
}
