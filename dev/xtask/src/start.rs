//! `start`: finds the functions that a small copy calls, for the linker to put side by side.
//!
//! The kernel maps the pages around one that is touched, so functions that are scattered over the
//! program cost page faults and memory (docs/measurements/start.md). valgrind sees every function
//! that is called; `crates/cli/start.ld` names their sections. Where a name no longer matches, its
//! function stays where the linker would have put it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use fs_err as fs;

use crate::steps::{StepFailure, cargo, output_of, run, say, workspace};

const SCRIPT: &str = "crates/cli/start.ld";
const ABOUT: &str =
    "/* Functions that a copy of one file and of a small tree call, side by side: fewer page faults
   and less memory at the start (docs/measurements/start.md). Written by 'cargo xtask start'. The
   asterisks stand for what depends on the compiler. */\n";

/// Rewrites the linker script.
pub(crate) fn start() -> Result<(), StepFailure> {
    say("==> functions called by a small copy");
    run(&mut cargo(&["build", "--locked", "--release", "--package", "haul-cli"]))?;
    let program = workspace().join("target/release/haul");
    let work = workspace().join("target/start");
    let tree = work.join("tree");
    fs::create_dir_all(&tree)?;
    for name in 0..20 {
        fs::write(tree.join(name.to_string()), "contents")?;
    }
    fs::write(work.join("file"), "contents")?;
    let mut patterns = BTreeSet::new();
    for operands in [["file", "copy"].as_slice(), &["-r", "tree", "trees"], &["-a", "tree", "archive"]] {
        patterns.extend(called(&program, &work, operands)?);
    }
    fs::remove_dir_all(&work)?;
    let sections: String =
        patterns.iter().map(|name| format!("    *(.text.{name} .text.unlikely.{name})\n")).collect();
    let script =
        format!("{ABOUT}SECTIONS\n{{\n  .text.start : {{\n{sections}  }}\n}}\nINSERT BEFORE .text;\n");
    fs::write(workspace().join(SCRIPT), script)?;
    say(&format!("wrote {SCRIPT}: {} functions", patterns.len()));
    Ok(())
}

/// Returns the patterns of the functions that `cp` with `operands` calls.
fn called(program: &Path, work: &Path, operands: &[&str]) -> Result<Vec<String>, StepFailure> {
    let profile = work.join("profile");
    let mut out = OsStr::new("--callgrind-out-file=").to_owned();
    out.push(&profile);
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--tool=callgrind", "--demangle=no"]).arg(out).arg(program).arg("cp");
    output_of(valgrind.args(operands).current_dir(work))?;
    // "fn=(12) name" at the first mention, "cfn=" if as a callee; 'n is a depth of recursion.
    let profile = fs::read_to_string(profile)?;
    let names =
        profile.lines().filter_map(|line| line.split_once("fn=(")?.1.split_once(") ")).map(|(_, name)| name);
    let names = names.map(|name| name.split('\'').next().unwrap_or(name));
    Ok(names.filter(|name| name.starts_with("_R")).map(pattern).collect())
}

/// Returns a mangled name with asterisks for the crates' hashes, and for the references back into
/// the name, which depend on the length of those.
/// (Format: <https://doc.rust-lang.org/rustc/symbol-mangling/v0.html>.)
fn pattern(name: &str) -> String {
    let mut pattern = String::new();
    let mut rest = name;
    while let Some(at) = rest.find(['C', 'B']) {
        let (before, reference) = rest.split_at(at);
        pattern.push_str(before);
        let (kind, hash) = reference.split_at(if reference.starts_with("Cs") { 2 } else { 1 });
        pattern.push_str(kind);
        rest = match hash.split_once('_') {
            Some((hash, after)) if kind != "C" && hash.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                pattern.push_str("*_");
                after
            }
            _ => hash,
        };
    }
    pattern + rest
}
