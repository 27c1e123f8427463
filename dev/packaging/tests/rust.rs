//! The Rust library: the example in docs/library.md is that of the crate, and does what it says.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use haul_packaging::{run, workspace};
use haul_testkit::examples::in_language;

#[test]
fn the_example_of_the_page_backs_up_a_tree() {
    let file = workspace().join("crates/haul/examples/back_up.rs");
    let code = fs::read_to_string(file).unwrap().replace("#![allow(clippy::print_stdout)]\n\n", "");
    let page = fs::read_to_string(workspace().join("docs/library.md")).unwrap();
    assert_eq!(in_language(&page, "rust"), [code]);

    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path();
    fs::create_dir_all(tree.join("project/below")).unwrap();
    fs::write(tree.join("project/below/file"), "content").unwrap();
    let example = example();
    // The second time the backup is there, and has a file that the project doesn't.
    for _ in 0..2 {
        let hash = "3fba5250be9ac259c56e7250c526bc83bacb4be825f2799d3d59e5b4878dd74e";
        let printed = run(Command::new(&example).current_dir(tree)).unwrap();
        assert_eq!(printed, format!("1 files, 7 bytes\n{hash}  backup/below/file\n"));
        let entries = fs::read_dir(tree.join("backup")).unwrap();
        let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["below"]);
        fs::write(tree.join("backup/old"), "").unwrap();
    }
}

/// Returns the program, which `cargo test --workspace` builds before any test runs.
fn example() -> PathBuf {
    let built = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples/back_up");
    if !built.is_file() {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--profile=test", "--package=haul", "--features=sum"]);
        run(cargo.arg("--example=back_up").current_dir(workspace())).unwrap();
    }
    built
}
