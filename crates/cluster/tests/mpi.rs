//! Messages between the ranks of real MPI jobs, under every installation on this machine.
//!
//! The ranks run the example program `ranks`, which checks and prints what it receives; the tests
//! check its output.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot prepare what it needs fails")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_testkit::mpi::{Mpi, MpiKind, example};
use haul_testkit::run::TestRun;
use haul_testkit::{RunOutcome, Sandbox, needs, require, skip};

/// Maximum time of any job here; one that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Expecting {
    World,
    Refusal,
}

fn ranks() -> PathBuf {
    example("haul-cluster", "ranks").expect("the example program")
}

fn run(mpi: &Mpi, count: u32, arguments: &[&str], expecting: Expecting) -> RunOutcome {
    let job = mpi.job(count, &ranks()).args(arguments).within(LIMIT);
    let job = if expecting == Expecting::Refusal { job.env("HAUL_EXPECT_REFUSAL", "1") } else { job };
    job.finish().expect("a launcher that can be run")
}

/// Returns the path of an installation's library if its jobs don't find it by themselves.
fn explicit(mpi: &Mpi) -> Vec<&str> {
    match mpi.kind() {
        MpiKind::Mpich5 => mpi.library().to_str().into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Returns the end of the ranks' lines, which proves that the requested library is in use.
fn abi(kind: MpiKind) -> &'static str {
    match kind {
        MpiKind::OpenMpi4 | MpiKind::OpenMpi5 => ", Open MPI",
        MpiKind::Mpich4 | MpiKind::Mpich5 => ", MPICH",
        MpiKind::Standard => ", the standard ABI",
    }
}

/// Returns the lines that begin with `prefix`, without it, sorted.
fn lines(outcome: &RunOutcome, prefix: &str) -> Vec<String> {
    let printed = outcome.printed();
    let lines = printed.lines().filter_map(|line| line.strip_prefix(prefix));
    let mut lines: Vec<_> = lines.map(str::to_owned).collect();
    lines.sort();
    lines
}

fn everything(outcome: &RunOutcome) -> String {
    format!("{:?}\n{}\n{}", outcome.ending, outcome.printed(), outcome.errors())
}

/// All-to-all: thousands of messages of 0 bytes to 3 MiB. The ranks check contents and order.
fn messages_arrive(kind: MpiKind) {
    let mpi = Mpi::find(kind).unwrap();
    for (count, each) in [(1, 1_000), (2, 250), (4, 90), (8, 32)] {
        let each_text = each.to_string();
        let arguments = [vec!["exchange", &each_text], explicit(&mpi)].concat();
        let outcome = run(&mpi, count, &arguments, Expecting::World);
        assert!(outcome.succeeded(), "{}", everything(&outcome));
        let printed = lines(&outcome, "rank ");
        assert_eq!(printed.len(), count as usize, "{}", everything(&outcome));
        for (rank, line) in printed.iter().enumerate() {
            let begin = format!("{rank} of {count}: {} messages, ", each * count);
            assert!(line.starts_with(&begin) && line.ends_with(abi(kind)), "{line}\nis not {begin}");
        }
    }
}

/// The sender gets the error, and messages still work.
fn what_cannot_be_sent_is_an_error(kind: MpiKind) {
    let mpi = Mpi::find(kind).unwrap();
    let outcome = run(&mpi, 2, &[vec!["stray"], explicit(&mpi)].concat(), Expecting::World);
    assert!(outcome.succeeded(), "{}", everything(&outcome));
    let printed = outcome.printed();
    assert_eq!(printed.matches("there is no rank 2 among 2").count(), 2, "{}", everything(&outcome));
    let too_long = "sending a message: a message of 2147483648 bytes is longer than 2147483647";
    assert_eq!(printed.matches(too_long).count(), 2, "{}", everything(&outcome));
    assert_eq!(printed.matches(": 6 messages").count(), 2, "{}", everything(&outcome));
}

/// A library that doesn't know the launcher takes each rank for the only one. All ranks must
/// refuse it.
fn the_library_of_another_mpi_is_refused(kind: MpiKind) {
    let mpi = Mpi::find(kind).unwrap();
    let installed = Mpi::installed();
    let mut others = installed.iter().filter(|other| other.kind().family() != kind.family()).peekable();
    if others.peek().is_none() {
        skip!("needs an MPI of another family than {}", kind.name());
    }
    for other in others {
        let library = other.library().to_str().expect("a path that is text");
        let outcome = run(&mpi, 3, &["exchange", "5", library], Expecting::Refusal);
        let printed = lines(&outcome, "refused: ");
        if matches!(other.kind(), MpiKind::Mpich5 | MpiKind::Standard) {
            // MPICH 5 detects that Open MPI launched it, prints a page of text and exits.
            let ended = printed.is_empty() && !outcome.succeeded() && !outcome.printed().contains("messages");
            assert!(ended, "{}", everything(&outcome));
            continue;
        }
        assert_eq!(printed.len(), 3, "{}: {}", other.kind().name(), everything(&outcome));
        for line in printed {
            let says = line.starts_with("the launcher says 3 ranks, but ")
                && line.ends_with(" says 1: it belongs to another MPI")
                && line.contains(library);
            assert!(says, "{line}");
        }
    }
}

/// Each rank refuses a file that is not an MPI library, before MPI is initialised.
fn what_is_no_library_is_refused(kind: MpiKind) {
    let mpi = Mpi::find(kind).unwrap();
    let sandbox = Sandbox::in_memory().expect("a folder");
    let (words, nothing, missing) = (sandbox.join("words"), sandbox.join("nothing"), sandbox.join("missing"));
    std::fs::write(&words, "not a library\n".repeat(100)).expect("a file");
    std::fs::write(&nothing, "").expect("a file");
    let cannot = |path: &Path, why: &str| format!("cannot open the MPI library '{}': {why}", path.display());
    for (library, expected) in [
        (words.as_path(), cannot(&words, "invalid ELF header")),
        (&nothing, cannot(&nothing, "file too short")),
        (&missing, cannot(&missing, "No such file or directory")),
        (
            Path::new("libm.so.6"),
            "'libm.so.6' is not a usable MPI library: it has no MPI_Initialized".to_owned(),
        ),
    ] {
        let library = library.to_str().expect("a path that is text");
        let outcome = run(&mpi, 2, &["exchange", "5", library], Expecting::Refusal);
        assert_eq!(lines(&outcome, "refused: "), [expected.clone(), expected], "{}", everything(&outcome));
    }
}

/// On one host, ranks don't look for fast networks, which would take Open MPI longer than the rest
/// of its startup. The user's settings win.
fn ranks_of_one_host_look_for_no_network(kind: MpiKind) {
    require!(needs::tool("strace"));
    let mpi = Mpi::find(kind).unwrap();
    let opened_with = |own: &[&str]| {
        let logs = Sandbox::in_memory().expect("a folder");
        let run = TestRun::new(Path::new("/usr/bin/env"))
            .args(["-u", "OMPI_MCA_pml", "-u", "OMPI_MCA_btl"])
            .args(own);
        let run =
            run.arg(mpi.launcher()).args(["-n", "2", "strace", "-ff", "-qq", "-e", "trace=openat", "-o"]);
        let run = mpi.environment().iter().fold(run, |run, (name, value)| run.env(name, value));
        let run = run.arg(logs.join("log")).arg(ranks()).args(["exchange", "1"]).within(LIMIT);
        let outcome = run.finish().expect("a launcher that can be run");
        assert!(outcome.succeeded(), "{}", everything(&outcome));
        let logs = std::fs::read_dir(logs.path()).expect("logs").map(|log| log.expect("a log").path());
        let calls: String = logs.map(|log| std::fs::read_to_string(log).expect("a log")).collect();
        let opened = |item: &str| calls.lines().filter(|call| call.contains(item)).count();
        assert!(opened("mca_pml_ob1.so") >= 2, "{calls}");
        opened("mca_pml_ucx.so") + opened("mca_mtl_ofi.so") + opened("mca_btl_openib.so")
    };
    assert_eq!(opened_with(&[]), 0);
    assert!(opened_with(&["OMPI_MCA_pml=^cm"]) >= 2);
}

/// Creates a module of tests for each installation.
macro_rules! under {
    ($($module:ident $kind:ident: $($test:ident)*;)*) => { $(mod $module {
        use super::*;
        $(#[test] fn $test() {
            require!(MpiKind::$kind.needed());
            super::$test(MpiKind::$kind);
        })*
    })* };
}

under! {
    open_mpi_4 OpenMpi4: messages_arrive what_cannot_be_sent_is_an_error
        the_library_of_another_mpi_is_refused what_is_no_library_is_refused ranks_of_one_host_look_for_no_network;
    open_mpi_5 OpenMpi5: messages_arrive what_cannot_be_sent_is_an_error
        the_library_of_another_mpi_is_refused;
    mpich_4 Mpich4: messages_arrive what_cannot_be_sent_is_an_error
        the_library_of_another_mpi_is_refused what_is_no_library_is_refused;
    mpich_5 Mpich5: messages_arrive what_cannot_be_sent_is_an_error;
    standard_abi Standard: messages_arrive what_cannot_be_sent_is_an_error
        the_library_of_another_mpi_is_refused;
}
