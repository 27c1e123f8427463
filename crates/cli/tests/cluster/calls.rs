//! Cost of a new file for a metadata server, with one rank and with one process.
//!
//! The stand-in counts its operations. Only operations on names matter here: each waits for the
//! server, and all but `tmpfile` lock the directory.

use std::fs;

use haul_testkit::compare::compare_paths;
use haul_testkit::mpi::{Mpi, MpiKind};
use haul_testkit::standin::{self, Standin};
use haul_testkit::{Facts, Sandbox, program, require};

use crate::start::{Way, script};

const DIRECTORIES: usize = 4;
const FILES: u64 = 200;

/// Operations on names, as the stand-in calls them.
const OPERATIONS: [&str; 7] = ["lookup", "create", "tmpfile", "link", "rename", "unlink", "mknod"];

/// Returns how often each operation is made for one of many new files.
fn operations(options: &[&str], ranks: Option<u32>) -> Vec<(&'static str, u64)> {
    // Names and attributes that a client knows stay known, so that only new ones are counted.
    let standin = Standin::start(1, &[&["--cache-time=1000s"], options].concat()).unwrap();
    let (from, to) = (standin.client(0).join("from"), standin.client(0).join("to"));
    for number in 0..FILES {
        let directory = from.join(format!("d{}", number as usize % DIRECTORIES));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(format!("f{number}")), [7; 100]).unwrap();
    }
    let counts = || OPERATIONS.map(|name| standin.count(&format!("metadata.{name}")).unwrap());
    let before = counts();
    let sandbox = Sandbox::in_memory().unwrap();
    let copy = match ranks {
        None => program!(),
        Some(ranks) => script(&sandbox, &Mpi::find(MpiKind::OpenMpi4).unwrap(), Way::Clients(ranks), &[]),
    };
    copy.run().args(["-rT", "-j2"]).arg(&from).arg(&to).succeed().unwrap();
    let counted = counts();
    let found = compare_paths(&from, &to, Facts::CONTENT).unwrap();
    assert!(found.list.is_empty(), "{:?}", found.list);
    let per_file = OPERATIONS.into_iter().zip(before.into_iter().zip(counted));
    let per_file = per_file.map(|(name, (before, after))| (name, (after - before) / FILES));
    per_file.filter(|(_, count)| *count > 0).collect()
}

#[test]
fn a_rank_makes_one_operation_more_for_a_new_file_than_one_process() {
    require!(standin::needed(), MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let unnamed = ["--unnamed-files"];
    let alone = vec![("lookup", 1), ("create", 1)];
    assert_eq!(operations(&unnamed, None), alone);
    assert_eq!(operations(&[], None), alone);
    assert_eq!(operations(&unnamed, Some(1)), [("lookup", 1), ("tmpfile", 1), ("link", 1)]);
    // The kernel looks up both names before it makes the one, and before it gives the other.
    assert_eq!(operations(&[], Some(1)), [("lookup", 2), ("create", 1), ("rename", 1)]);
}
