//! Every applet, under each of its names, prints its version and rejects unknown options.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::OsStr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use haul_testkit::Sandbox;

fn built() -> PathBuf {
    std::env::var_os("HAUL_BIN").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_haul")), PathBuf::from)
}

fn run<S: AsRef<OsStr>>(program: &Path, words: &[S]) -> Output {
    Command::new(program).args(words).env("LC_ALL", "C").stdin(Stdio::null()).output().unwrap()
}

/// Each applet and its exit status on a usage error.
const APPLETS: [(&str, i32); 9] = [
    ("cp", 1),
    ("bzip2", 1),
    ("bunzip2", 1),
    ("bzcat", 1),
    ("spdcp", 1),
    ("tar", 2),
    ("grep", 2),
    ("cmp", 2),
    ("each", 2),
];

#[test]
fn every_command_tells_its_version_by_every_name() {
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
    told("bench", run(&built(), &["bench", "--version"]));
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
