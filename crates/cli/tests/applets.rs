//! Every applet, under each of its names, prints its version and rejects unknown options.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use haul_testkit::Sandbox;
use haul_testkit::program::write_script;

fn built() -> PathBuf {
    std::env::var_os("HAUL_BIN").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_haul")), PathBuf::from)
}

fn run<S: AsRef<OsStr>>(program: &Path, words: &[S]) -> Output {
    Command::new(program).args(words).env("LC_ALL", "C").stdin(Stdio::null()).output().unwrap()
}

/// Each applet and its exit status on a usage error.
const APPLETS: [(&str, i32); 11] = [
    ("cp", 1),
    ("bzip2", 1),
    ("bunzip2", 1),
    ("bzcat", 1),
    ("spdcp", 1),
    ("tar", 2),
    ("grep", 2),
    ("cmp", 2),
    ("each", 2),
    ("sum", 1),
    ("ctl", 1),
];

#[test]
fn every_command_prints_its_version_by_every_name() {
    let sandbox = Sandbox::in_memory().unwrap();
    let told = |name: &str, output: Output| {
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let first = printed.lines().next().unwrap_or_default();
        assert!(first.contains("haul") && first.contains(env!("CARGO_PKG_VERSION")), "{name}: {printed}");
        assert!(name == "haul" || first.contains(name), "{name}: {printed}");
    };
    for (name, _) in APPLETS {
        told(name, run(&built(), &[name, "--version"]));
    }
    told("haul", run(&built(), &["--version"]));
    for name in ["cp", "bzip2", "bunzip2", "bzcat", "spdcp"] {
        let link = sandbox.join(name);
        symlink(built(), &link).unwrap();
        told(name, run(&link, &["--version"]));
    }
    for letter in ["-V", "-L", "--license"] {
        told("bzip2", run(&sandbox.join("bzip2"), &[letter]));
    }
}

#[test]
fn every_command_refuses_options_it_does_not_have() {
    for (name, status) in APPLETS {
        for option in ["--no-such-option", "-\u{e9}"] {
            let output = run(&built(), &[name, option, "file", "file"]);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(status), "{name} {option}: {errors}");
            assert!(errors.contains("option") && output.stdout.is_empty(), "{name} {option}: {errors}");
        }
    }
    // Options of the GNU programs that haul does not implement.
    for words in [
        &["tar", "-cV", "label", "file"][..],
        &["tar", "-rf", "archive"],
        &["tar", "-cMf", "archive", "file"],
        &["cmp", "-l", "a", "b"],
    ] {
        let output = run(&built(), words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn bench_runs_the_program_beside_haul_or_on_path_or_says_how_to_get_it() {
    let sandbox = Sandbox::on_disk().unwrap();
    let (haul, beside, on_path) =
        (sandbox.join("here/haul"), sandbox.join("here/haul-bench"), sandbox.join("path/haul-bench"));
    for folder in ["here", "path"] {
        fs::create_dir(sandbox.join(folder)).unwrap();
    }
    // A copy, so that no other program is beside it.
    assert!(Command::new("cp").arg(built()).arg(&haul).status().unwrap().success());
    let bench = |words: &[&str]| {
        let mut command = Command::new(&haul);
        command.args(words).env("PATH", sandbox.join("path")).stdin(Stdio::null());
        let output = command.output().unwrap();
        let texts = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (output.status.code().unwrap(), texts)
    };
    let script = |name: &str| format!("#!/bin/sh\necho {name} \"$HAUL_BENCH_HAUL\" \"$#\" \"$@\"\nexit 3\n");
    let answer =
        |name: &str, words: &str| (3, [format!("{name} {} {words}\n", haul.display()), String::new()]);

    for words in [&["bench", "make", "many", "tree"][..], &["bench", "--help"], &["help", "bench"]] {
        let (status, [printed, errors]) = bench(words);
        assert_eq!((status, printed.as_str()), (1, ""), "{words:?}");
        assert!(
            errors.starts_with("haul bench: haul-bench is neither beside haul nor on PATH; "),
            "{errors}"
        );
        assert!(errors.contains("cargo install --path dev/bench"), "{errors}");
    }
    write_script(&on_path, &script("path")).unwrap();
    assert_eq!(bench(&["bench", "make", "a b"]), answer("path", "2 make a b"));
    assert_eq!(bench(&["help", "bench"]), answer("path", "1 --help"));
    write_script(&beside, &script("beside")).unwrap();
    assert_eq!(bench(&["bench"]), answer("beside", "0"));
    fs::set_permissions(&beside, Permissions::from_mode(0o644)).unwrap();
    let (status, [_, errors]) = bench(&["bench"]);
    assert_eq!(status, 1);
    assert!(errors.starts_with(&format!("haul bench: cannot run {}: ", beside.display())), "{errors}");
}
