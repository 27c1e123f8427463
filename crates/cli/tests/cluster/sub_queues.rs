//! Directories in which ranks work: all of them until the end, as the sub-queues of rank 0's queue
//! have one directory each.

use std::collections::{BTreeSet, HashMap};
use std::fs;

use haul_testkit::mpi::{Mpi, MpiKind};
use haul_testkit::strace::parse;
use haul_testkit::{Sandbox, needs, note, program, require};

use crate::start::{Way, agent, script};

const RANKS: u32 = 3;

/// Fewer than sub-queues. Assigned by hash, two or more would share one nineteen times in
/// twenty, and be all that is left at the end.
const DIRECTORIES: usize = 20;

const FILES: usize = 600;

#[test]
fn ranks_work_in_all_directories_until_the_end() {
    require!(MpiKind::OpenMpi4.needed(), program!().needs_haul(), needs::tool("strace"));
    // On a busy machine the walk may not be ahead of the ranks, so retry.
    let most = (0..4).map(|_| last_directories()).find(|count| *count >= DIRECTORIES * 3 / 4);
    assert!(most.is_some(), "the last tenth was never in most directories");
}

/// Copies a tree, and returns the number of directories that the last tenth of the files is in.
fn last_directories() -> usize {
    let sandbox = Sandbox::in_memory().unwrap();
    for directory in 0..DIRECTORIES {
        let directory = sandbox.join(format!("from/{directory}"));
        fs::create_dir_all(&directory).unwrap();
        (0..FILES).for_each(|file| fs::write(directory.join(file.to_string()), "").unwrap());
    }
    // A new file gets its name by this call.
    let agent =
        agent(&sandbox, "set -- strace -f -qq -y --seccomp-bpf -e trace=linkat -o calls.$rank -- \"$@\"");
    let copy = script(&sandbox, &Mpi::find(MpiKind::OpenMpi4).unwrap(), Way::Clients(RANKS), &[]);
    let run = copy.run().args(["-rT", "from", "to"]).in_folder(sandbox.path()).env("HAUL_AGENT", &agent);
    let outcome = run.finish().unwrap();
    assert!(outcome.succeeded(), "{}", outcome.errors());
    let (mut files, mut last) = (0, BTreeSet::new());
    for rank in 0..RANKS {
        let log = fs::read(sandbox.join(format!("calls.{rank}"))).unwrap();
        let calls = parse(&String::from_utf8_lossy(&log));
        let named: Vec<_> = calls.iter().filter(|call| !call.failed()).collect();
        files += named.len();
        let directories = named[named.len() * 9 / 10..].iter().filter_map(|call| call.descriptor_path(2));
        let mut counts = HashMap::new();
        directories.for_each(|directory| *counts.entry(directory.to_owned()).or_insert(0) += 1);
        note!("rank {rank}: {} files, the last tenth of them in {} directories", named.len(), counts.len());
        last.extend(counts.into_keys());
    }
    note!("in {} directories together", last.len());
    assert_eq!(files, DIRECTORIES * FILES);
    last.len()
}
