//! The example in ARCHITECTURE.md: the page matches the file, and the program does what the
//! page says.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::Path;
use std::process::Command;

use haul_testkit::mpi::example;
use haul_testkit::{Sandbox, TestRun};

const PAGE: &str = include_str!("../../../ARCHITECTURE.md");
const EXAMPLE: &str = include_str!("../examples/lines.rs");

const LINES_MAX: usize = 50;

/// Returns the code in the page's section about tools.
fn code() -> Vec<&'static str> {
    let section = PAGE.split("\n## ").find(|section| section.starts_with("Write a tool\n")).unwrap();
    section.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

#[test]
fn the_page_shows_the_example() {
    assert_eq!(code().concat(), EXAMPLE);
    let tool = code().into_iter().find(|part| part.contains("impl Tool for")).unwrap();
    let lines = tool.lines().filter(|line| !line.trim().is_empty()).count();
    assert!(lines <= LINES_MAX, "the tool has {lines} lines");
}

#[test]
fn the_example_counts_what_wc_counts() {
    let program = example("haul-cli", "lines").unwrap();
    let sandbox = Sandbox::in_memory().unwrap();
    for (name, text) in [("a", "1\n2\n"), ("b/c", "no end"), ("b/d/e", ""), ("b/d/f", "x\n")] {
        let path = sandbox.join("tree").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.repeat(50_000)).unwrap();
    }
    let outcome = TestRun::new(&program).args(["tree", "tree/a"]).in_folder(sandbox.path()).finish().unwrap();
    let lines = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(|line| line.trim().to_owned()).collect();
        lines.sort();
        lines
    };
    let counted = Command::new("sh")
        .args(["-c", "find tree tree/a -type f -exec wc -l {} \\;"])
        .current_dir(sandbox.path())
        .output()
        .unwrap();
    assert_eq!(lines(&outcome.printed()), lines(&String::from_utf8(counted.stdout).unwrap()));
    assert_eq!(outcome.status(), Some(0));
    let outcome =
        TestRun::new(Path::new(&program)).args(["missing"]).in_folder(sandbox.path()).finish().unwrap();
    assert_eq!(outcome.status(), Some(1));
    assert_eq!(outcome.errors(), "lines: cannot stat 'missing': No such file or directory\n");
}
