//! Tests all of `auto` over an ext4 image and in memory, with a fake haul that is GNU cp, and one
//! that copies wrong.
//!
//! The trees are tiny, and times are not checked, only that every cell has its figures or its
//! reason. The tests need root and loop devices, and are skipped without them.

#![expect(clippy::unwrap_used, reason = "a test stops at whatever it did not expect, its own parts included")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use haul_testkit::program::write_script;
use haul_testkit::{needs, require};
use serde_json::Value;
use tempfile::TempDir;

/// Everything one measurement produced.
struct Ran {
    output: Output,
    json: Value,
    markdown: String,
    svg: String,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Makes a fake haul that ignores what GNU cp doesn't know. `after` sees the copy in `$target`.
fn fake_haul(after: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("haul");
    let script = format!(
        "#!/bin/sh\n\
         [ \"$1\" = --version ] && exec echo 'haul 0.1.0'\n\
         for word; do\n\
         case $word in -r|-a) mode=$word;; /*) source=$target; target=$word;; esac\n\
         done\n\
         cp $mode \"$source\" \"$target\"\n{after}\n"
    );
    write_script(&path, &script).unwrap();
    (folder, path)
}

/// Runs a measurement with images on disk; the usual temporary directory may be in memory.
fn run(line: &str, haul: &Path) -> Ran {
    let (work, results) = (tempfile::tempdir_in("/var/tmp").unwrap(), tempfile::tempdir().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_haul-bench"));
    command.arg("auto").args(line.split(' ')).arg("--work").arg(work.path()).arg("--haul").arg(haul);
    command.args(["--standin", "/no/standin"]);
    for kind in ["json", "markdown", "svg"] {
        command.arg(format!("--{kind}")).arg(results.path().join(kind));
    }
    let output = command.output().unwrap();
    let left: Vec<PathBuf> = fs::read_dir(work.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(work.path().file_name().unwrap().to_str().unwrap()), "{mounts}");
    let read = |name: &str| fs::read_to_string(results.path().join(name)).unwrap_or_default();
    let json = serde_json::from_str(&read("json")).unwrap_or(Value::Null);
    Ran { output, json, markdown: read("markdown"), svg: read("svg") }
}

const SMALL: &str = "--scale 0.005 --rounds 1 --rounds-again 1";

#[test]
fn every_cell_has_figures_or_a_reason() {
    require!(needs::loop_mount("ext4"));
    let (_folder, haul) = fake_haul("");
    let line = "--trees half-cached,hard-links,one --file-systems ext4,tmpfs --latency 1ms";
    let ran = run(&format!("{SMALL} {line}"), &haul);
    assert!(ran.output.status.success(), "{}", text(&ran.output.stderr));
    let cells = ran.json["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 3 * 3);
    for cell in cells {
        let timings = cell["timings"].as_array().unwrap();
        assert_eq!(timings[0]["setting"], "auto");
        assert!(timings.len() >= 6, "{cell}");
        assert!(timings.iter().all(|timing| timing["seconds"].as_array().unwrap().len() == 1), "{cell}");
        assert!(cell["comparison"]["ratio"].as_f64().unwrap() > 0.0);
        let more_runs = cell["again"].as_array().map(|pair| pair[1]["seconds"].as_array().unwrap().len());
        assert!(more_runs.is_none_or(|count| count == 1), "{cell}");
    }
    let heads = "| auto / best | ext4 cold | ext4 warm | tmpfs warm | latency 1 ms |";
    assert!(ran.markdown.contains(heads), "{}", ran.markdown);
    for name in ["half-cached", "hard-links", "one"] {
        let row = ran.markdown.lines().find(|line| line.starts_with(&format!("| {name} |"))).unwrap();
        assert!(row.ends_with(" – |") && row.matches('–').count() == 1, "{row}");
    }
    assert!(ran.markdown.contains("- latency 1 ms was skipped: cannot find /no/standin"), "{}", ran.markdown);
    let svg = roxmltree::Document::parse(&ran.svg).unwrap();
    let names: Vec<&str> = svg.descendants().filter_map(|node| node.text()).collect();
    assert!(
        ["half-cached", "tmpfs", "cold", "latency, ms", "1"].iter().all(|name| names.contains(name)),
        "{names:?}"
    );
    assert_eq!(text(&ran.output.stdout), "");
}

#[test]
fn a_wrong_copy_ends_the_measurement() {
    require!(needs::root());
    let (_folder, haul) = fake_haul("rm \"$target/d000/f00000\"");
    let ran = run(&format!("{SMALL} --trees many --file-systems tmpfs --latency 0"), &haul);
    assert_eq!(ran.output.status.code(), Some(1));
    let said = text(&ran.output.stderr);
    let why = "haul-bench: tmpfs warm, many, auto: wrong copy: d000/f00000 is missing";
    assert!(said.contains(why), "{said}");
    assert_eq!(ran.json["cells"].as_array().unwrap().len(), 0);
}

#[test]
fn a_wrong_name_is_answered_with_all_names() {
    let (_folder, haul) = fake_haul("");
    let said = text(&run("--trees many,flta", &haul).output.stderr);
    assert!(said.contains("--trees: 'flta' is none of many, flat, tiny"), "{said}");
}
