//! MPI jobs on several hosts, and the effect of a host that is cut off.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot prepare what it needs fails")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use haul_testkit::hosts::{self, Hosts};
use haul_testkit::mpi::{Mpi, MpiKind, example};
use haul_testkit::{Sandbox, require, wait};

/// Maximum time of any job here; one that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

fn ranks() -> PathBuf {
    example("haul-cluster", "ranks").expect("the example program")
}

/// Returns the path of an installation's library if its jobs don't find it by themselves.
fn explicit(mpi: &Mpi) -> Option<PathBuf> {
    (mpi.kind() == MpiKind::Mpich5).then(|| mpi.library().to_owned())
}

/// All-to-all between six ranks on three hosts. Two ranks report the name of each host.
fn messages_cross_hosts(kind: MpiKind) {
    let mpi = Mpi::find(kind).unwrap();
    let three = Hosts::new(3).expect("three hosts");
    let job = three.job(&mpi, 6, &ranks()).expect("a job").args(["exchange", "32"]).args(explicit(&mpi));
    let outcome = job.within(LIMIT).finish().expect("a launcher");
    let printed = outcome.printed();
    // MPICH 4 may hang in its finalizer after the ranks have printed everything. They then exit
    // without it, which its launcher may report as a failure.
    assert!(outcome.succeeded() || kind == MpiKind::Mpich4, "{printed}\n{}", outcome.errors());
    assert!(outcome.took < LIMIT / 2, "{:?}", outcome.took);
    for host in three.names() {
        assert_eq!(printed.matches(&format!(" on {host}, ")).count(), 2, "{host}: {printed}");
    }
    assert_eq!(printed.matches(": 192 messages, ").count(), 6, "{printed}");
}

/// Rank 0 misses the rank on the host that is cut off and still hears the other, unless the library
/// ends the job. Either way all processes can be killed.
fn a_host_that_is_cut_off_is_silent(kind: MpiKind) {
    let mpi = Mpi::find(kind).unwrap();
    let three = Hosts::new(3).expect("three hosts");
    let sandbox = Sandbox::in_memory().expect("a folder");
    let said = sandbox.join("said");
    std::fs::write(&said, "").expect("a file");
    let says = |line: &str| {
        let said = std::fs::read_to_string(&said).unwrap_or_default();
        said.lines().any(|printed| printed == format!("rank 0 of 3: {line}"))
    };
    let job = three.job(&mpi, 3, &ranks()).expect("a job").arg("beat").args(explicit(&mpi));
    let running = job.stdout_to(&said).within(LIMIT).start().expect("a launcher");
    assert!(
        wait::until(LIMIT, || says("hears 1") && says("hears 2")),
        "{:?}",
        std::fs::read_to_string(&said)
    );
    let before: BTreeSet<u32> = three.processes("h3").expect("processes").into_iter().collect();
    assert!(!before.is_empty());
    three.cut("h3").expect("a port to take down");
    // A library may notice the loss and end the job instead; the launcher is then a zombie.
    let status = format!("/proc/{}/stat", running.process());
    let has_ended = || std::fs::read_to_string(&status).is_ok_and(|status| status.contains(") Z "));
    assert!(wait::until(LIMIT, || says("misses 2") || has_ended()));
    assert!(!says("misses 1"));
    for host in three.names() {
        three.kill_all(&host).expect("processes that die");
        assert_eq!(three.processes(&host).expect("processes"), []);
    }
    let outcome = running.finish().expect("the launcher's end");
    assert!(!outcome.succeeded());
}

/// Creates a module of tests for each installation.
macro_rules! under {
    ($($module:ident $kind:ident: $($test:ident)*;)*) => { $(mod $module {
        use super::*;
        $(#[test] fn $test() {
            require!(hosts::needed(), MpiKind::$kind.needed());
            super::$test(MpiKind::$kind);
        })*
    })* };
}

under! {
    open_mpi_4 OpenMpi4: messages_cross_hosts a_host_that_is_cut_off_is_silent;
    open_mpi_5 OpenMpi5: messages_cross_hosts;
    mpich_4 Mpich4: messages_cross_hosts a_host_that_is_cut_off_is_silent;
    mpich_5 Mpich5: messages_cross_hosts;
    standard_abi Standard: messages_cross_hosts;
}
