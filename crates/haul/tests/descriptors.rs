//! Copies leave descriptors to the program, and to each other.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use haul::Copy;

/// Set in the process that copies, which has a limit of descriptors.
const WITHIN_LIMIT: &str = "HAUL_TEST_WITHIN_LIMIT";

const COPIES: usize = 8;

/// Makes more directories than there are descriptors.
fn tree(source: &Path) {
    for index in 0..600 {
        let folder = source.join((index % 30).to_string()).join(index.to_string());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("file"), "content").unwrap();
    }
}

#[test]
fn copies_at_the_same_time_and_a_program_with_open_files_have_enough_descriptors() {
    if std::env::var_os(WITHIN_LIMIT).is_none() {
        let name = std::thread::current().name().unwrap().to_owned();
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -n 256 && exec \"$0\" --exact \"$1\""]);
        shell.arg(std::env::current_exe().unwrap()).arg(name).env(WITHIN_LIMIT, "1");
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    tree(&source);
    let copy = |name: usize| {
        let summary = Copy::exactly(&source, folder.path().join(name.to_string())).recursive().run().unwrap();
        assert_eq!(summary.tally.files, 600);
    };
    std::thread::scope(|threads| {
        (0..COPIES).for_each(|name| {
            drop(threads.spawn({
                let copy = &copy;
                move || copy(name)
            }))
        })
    });

    let open: Vec<_> = (0..150).map(|_| File::open("/dev/null").unwrap()).collect();
    copy(COPIES);
    drop(open);
}
