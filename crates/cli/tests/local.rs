//! A copy on one machine executes nothing of what is there for several: every function that runs is
//! listed by valgrind.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs;

use haul_testkit::{Sandbox, needs, program, require};

/// Where the code for several processes is.
const DISTRIBUTED: [&str; 3] =
    ["crates/cluster/src/", "crates/tools/copy/src/distributed/", "crates/flow/src/owner.rs"];

/// Source files that a run on one machine may execute: plain values that options are stored in.
const VALUES: [&str; 1] = ["crates/cluster/src/options.rs"];

/// Lists the source files in which callgrind saw something executed, inlined functions too.
fn executed(profile: &str) -> BTreeSet<String> {
    let (mut names, mut executed) = (HashMap::new(), BTreeSet::new());
    let mut file = String::new();
    for line in profile.lines() {
        let Some((key, value)) = line.split_once('=') else {
            // A line of costs: those of the file that was named last.
            if line.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-' | '*')) {
                executed.insert(file.clone());
            }
            continue;
        };
        if !matches!(key, "fl" | "fi" | "fe" | "cfi" | "cfl") {
            continue;
        }
        let (number, name) = value.split_once(' ').unwrap_or((value, ""));
        if !name.is_empty() {
            names.insert(number.to_owned(), name.to_owned());
        }
        if !key.starts_with('c') {
            file = names.get(number).cloned().unwrap_or_default();
        }
    }
    executed
}

#[test]
fn a_local_copy_executes_nothing_of_the_distributed_half() {
    let program = program!();
    require!(needs::tool("valgrind"));
    let valgrind = needs::find_tool("valgrind").unwrap();
    let sandbox = Sandbox::in_memory().unwrap();
    for directory in ["from", "from/below"] {
        fs::create_dir(sandbox.join(directory)).unwrap();
        (0..4)
            .for_each(|number| fs::write(sandbox.join(format!("{directory}/{number}")), "content").unwrap());
    }
    let profile = sandbox.join("profile");
    let out = format!("--callgrind-out-file={}", profile.display());
    let head = ["--quiet", "--tool=callgrind", &out].map(OsString::from);
    // Into a new directory, onto what is there, and past it.
    let verified = ["--verify=stream", "--manifest=list"];
    for options in [&["-a"][..], &[&["-r"], &verified[..]].concat(), &[&["-rn"], &verified[..]].concat()] {
        let run = program.run_with(&["--engine=sync"]).args(options).args(["-T", "from", "to"]);
        let outcome = run.in_folder(sandbox.path()).behind(&valgrind, head.to_vec()).finish().unwrap();
        assert_eq!((outcome.status(), outcome.errors()), (Some(0), String::new()), "{options:?}");
        let files = executed(&fs::read_to_string(&profile).unwrap());
        let runs = |part: &str| files.iter().any(|file| file.contains(part));
        assert!(
            runs("crates/flow/src/run/worker.rs") && runs("crates/tools/copy/src/place.rs"),
            "{files:#?}"
        );
        let distributed: Vec<_> = files
            .iter()
            .filter(|file| DISTRIBUTED.iter().any(|part| file.contains(part)))
            .filter(|file| !VALUES.iter().any(|part| file.contains(part)))
            .collect();
        assert!(distributed.is_empty(), "{options:?}: a copy on one machine executed {distributed:#?}");
    }
}
