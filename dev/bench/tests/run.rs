//! Tests all of `run` over real images: each study at a small scale, with the built haul if there
//! is one, and with a fake haul that refuses an engine or makes wrong copies.
//!
//! Times are not checked, only that every figure is there or has its reason. The tests need root
//! and loop devices, and are skipped without them.

#![expect(clippy::unwrap_used, reason = "a test stops at whatever it did not expect, its own parts included")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use haul_testkit::program::write_script;
use haul_testkit::{needs, require};
use serde_json::Value;
use tempfile::TempDir;

/// Everything a study produced.
struct Ran {
    output: Output,
    json: Value,
    csv: String,
    html: String,
}

fn bench() -> Command {
    Command::new(env!("CARGO_BIN_EXE_haul-bench"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a study with images on disk; the usual temporary directory may be in memory.
fn run(line: &str, haul: &Path) -> Ran {
    let (work, results) = (tempfile::tempdir_in("/var/tmp").unwrap(), tempfile::tempdir().unwrap());
    let file = |name: &str| results.path().join(name);
    let mut command = bench();
    command.arg("run").args(line.split(' ')).arg("--work").arg(work.path());
    if !line.starts_with("s2 ") {
        command.arg("--haul").arg(haul);
    }
    for kind in ["json", "csv", "html"] {
        command.arg(format!("--{kind}")).arg(file(kind));
    }
    let output = command.output().unwrap();
    let left: Vec<PathBuf> = fs::read_dir(work.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
    let read = |name: &str| fs::read_to_string(file(name)).unwrap_or_default();
    let json = serde_json::from_str(&read("json")).unwrap_or(Value::Null);
    Ran { output, json, csv: read("csv"), html: read("html") }
}

/// Makes a fake haul. `body` sees the arguments after `haul cp` as its own, with the last two in
/// `$source` and `$target`.
fn stand_in(body: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("haul");
    let script = format!(
        "#!/bin/sh\n\
         [ \"$1\" = --version ] && exec echo 'haul 0.1.0'\n\
         for word; do source=$target; target=$word; done\n{body}\n"
    );
    write_script(&path, &script).unwrap();
    (folder, path)
}

/// Finds the haul built with the tests, or the one that HAUL_BIN names.
fn built_haul() -> Option<PathBuf> {
    let here = std::env::current_exe().unwrap();
    let beside = here.parent().unwrap().parent().unwrap().join("haul");
    let path = std::env::var_os("HAUL_BIN").map_or(beside, PathBuf::from);
    path.is_file().then_some(path)
}

/// Asserts that every setting has figures or a reason, and that all reports have the same number of
/// lines. Returns the lines with their parts.
fn lines(ran: &Ran, study: &str, rounds: u64) -> Vec<(String, Value)> {
    assert_eq!(ran.json["study"], study, "{}", text(&ran.output.stderr));
    let mut lines = Vec::new();
    for part in ran.json["parts"].as_array().unwrap() {
        for line in part["lines"].as_array().unwrap() {
            let timed = &line["timed"];
            if timed.is_object() {
                assert_eq!(timed["value"]["count"], rounds, "{line}");
                assert!(timed["value"]["mean"].as_f64().unwrap() > 0.0, "{line}");
                assert_eq!(line["runs"].as_array().unwrap().len() as u64, rounds + 1, "{line}");
            } else {
                assert!(!line["failed"].as_str().unwrap().is_empty(), "{line}");
            }
            lines.push((part["name"].as_str().unwrap().to_owned(), line.clone()));
        }
    }
    let published = ran.json["published"].as_array().unwrap().len();
    assert_eq!(ran.csv.matches(",measured,").count(), lines.len());
    assert_eq!(ran.csv.matches(",published,").count(), published);
    assert!(roxmltree::Document::parse(ran.html.strip_prefix("<!DOCTYPE html>\n").unwrap()).is_ok());
    assert!(text(&ran.output.stdout).contains(&format!("{study}: ")));
    lines
}

fn find<'a>(lines: &'a [(String, Value)], part: &str, id: &str) -> &'a Value {
    &lines.iter().find(|(name, line)| name == part && line["id"] == id).unwrap().1
}

#[test]
fn an_engine_that_is_refused_has_a_reason_and_the_others_have_figures() {
    require!(needs::loop_mount("ext4"));
    let refuse = "case \"$*\" in *kernel-aio*--direct*) echo 'no such engine' >&2; exit 1;; esac";
    let (_folder, haul) = stand_in(&format!("{refuse}\nexec cp -r \"$source\" \"$target\""));
    let ran = run("s1 --scale 0.2 --rounds 2 --only depth-2/4K,depth-4/8K", &haul);
    assert!(ran.output.status.success(), "{}", text(&ran.output.stderr));
    let lines = lines(&ran, "s1", 2);
    assert_eq!(lines.len(), 10);
    assert_eq!(find(&lines, "depth-2/4K", "k-D")["failed"], "exit status 1: no such engine");
    let posix = find(&lines, "depth-4/8K", "posix");
    assert_eq!(posix["timed"]["test"]["against"], "cp");
    assert!((0.0..=1.0).contains(&posix["timed"]["test"]["welch"]["p"].as_f64().unwrap()), "{posix}");
    assert!(posix["command"].as_str().unwrap().contains("--engine=posix-aio --block-size=4096"), "{posix}");
    // Reported in all outputs.
    for said in [&text(&ran.output.stdout), &ran.html, &ran.csv] {
        assert!(said.contains("no such engine"), "{said}");
    }
}

#[test]
fn a_study_of_rates_needs_no_haul_and_takes_none() {
    require!(needs::loop_mount("ext4"));
    let none = Path::new("/nothing/there");
    let ran = run("s2 --scale 0.001 --rounds 1 --only random-read,sequential-write,sync,io-uring", none);
    assert!(ran.output.status.success(), "{}", text(&ran.output.stderr));
    let lines = lines(&ran, "s2", 1);
    assert_eq!(lines.len(), 4);
    assert!(find(&lines, "random-read", "sync")["command"].as_str().unwrap().starts_with("haul-bench aio "));
    let written = &find(&lines, "sequential-write", "sync")["timed"];
    let [plain, synced] = ["value", "with_sync"].map(|which| written[which]["mean"].as_f64().unwrap());
    assert!(synced < plain, "{written}");
    let refused = bench().args(["run", "s2", "--haul", "haul"]).output().unwrap();
    assert!(text(&refused.stderr).contains("--haul has no part in s2"), "{}", text(&refused.stderr));
}

#[test]
fn a_wrong_copy_fails_the_study_and_an_earlier_one_can_be_reported_again() {
    require!(needs::loop_mount("ext4"));
    let wrong = "cp -r \"$source\" \"$target\"; echo more >> \"$target/f00000\"";
    let (_folder, haul) = stand_in(wrong);
    let ran = run("s4 --scale 0.001 --rounds 1 --ablate --only broad,broad-ablated,cp,haul,1-thread", &haul);
    assert_eq!(ran.output.status.code(), Some(1));
    let lines = lines(&ran, "s4", 1);
    assert_eq!(lines.len(), 4);
    let failed = find(&lines, "broad", "haul")["failed"].as_str().unwrap();
    assert!(failed.starts_with("wrong copy: f00000 has 300005 bytes"), "{failed}");
    assert!(find(&lines, "broad", "cp")["timed"].is_object());
    let results = tempfile::tempdir().unwrap();
    let (json, html) = (results.path().join("json"), results.path().join("html"));
    serde_json::to_writer(File::create(&json).unwrap(), &ran.json).unwrap();
    let again = |study: &str| {
        bench().args(["run", study, "--from"]).arg(&json).arg("--html").arg(&html).output().unwrap()
    };
    assert_eq!(text(&again("s4").stdout), text(&ran.output.stdout));
    assert_eq!(fs::read_to_string(&html).unwrap(), ran.html);
    assert!(text(&again("s1").stderr).contains("is of s4, not s1"));
}

#[test]
fn every_study_runs_with_the_haul_that_was_built() {
    require!(needs::loop_mount("ext4"));
    let Some(haul) = built_haul() else { haul_testkit::skip!("haul was not built beside the tests") };
    for (study, line, least) in [
        ("s1", "s1 --scale 0.2 --rounds 1 --only depth-8/64K", 5),
        ("s2", "s2 --scale 0.001 --rounds 1 --only sequential-read,sync,io-uring,io-uring/direct", 3),
        ("s3", "s3 --scale 0.0001 --rounds 1 --only small,depth-buffered,cp,haul,sync/direct,io-uring/8", 6),
        ("s4", "s4 --scale 0.001 --rounds 1 --ablate --only deep,deep-ablated,cp,haul,1-thread", 4),
    ] {
        let ran = run(line, &haul);
        assert!(ran.output.status.success(), "{line}: {}", text(&ran.output.stderr));
        let lines = lines(&ran, study, 1);
        assert_eq!(lines.len(), least, "{line}");
        for (part, line) in lines.iter().filter(|(_, line)| line["id"] == "haul" || line["id"] == "cp") {
            assert!(line["timed"].is_object(), "{part} {line}");
        }
    }
}

#[test]
fn what_cannot_be_run_is_refused_before_anything_is_made() {
    require!(needs::root());
    let (_folder, haul) = stand_in("exit 1");
    for (line, expected) in [
        ("s1 --scale 0", "--scale must be greater than 0"),
        ("s1 --ablate", "--ablate belongs to s4"),
        ("s3 --only robocopy", "'robocopy' is neither a part of s3"),
        ("s2 --scale 1e9", "the images need about"),
        ("s4 --scale 1e9", "more bytes than can be counted"),
    ] {
        let ran = run(line, &haul);
        assert_eq!(ran.output.status.code(), Some(1), "{line}");
        assert!(text(&ran.output.stderr).contains(expected), "{line}: {}", text(&ran.output.stderr));
        assert_eq!(ran.json, Value::Null);
    }
}
