//! The ways to start a copy by several processes, as programs that the tests can run in the place of haul.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use haul_testkit::mpi::{Kind, Mpi};
use haul_testkit::{Program, Sandbox, program};

/// A way to start a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// `haul cp --clients N …`
    Clients(u32),
    /// `mpirun -n N haul cp …`
    Ranks(u32),
}

/// What launchers print when a rank has ended with another status than 0: blocks between lines.
const CHATTER: &str = "sed -e '/^------/,/^------/d' -e '/^======/,/^======/d' -e '/^YOUR APPLICATION TERMINATED/d' \
                       -e '/^This typically refers/d' -e '/^Please see the FAQ/d' -e '/^\\[.*PMIx\\|^\\[.*PRTE/d' -e '/^$/d'";

/// The library that a job of an installation does not find by itself.
pub(crate) fn explicit(mpi: &Mpi) -> Option<String> {
    (mpi.kind() == Kind::Mpich5).then(|| format!("--mpi-lib={}", mpi.library().display()))
}

/// The library of an installation beside whose launcher there are others, or that is named by its path.
pub(crate) fn library(mpi: &Mpi) -> String {
    format!("--mpi-lib={}", mpi.library().display())
}

/// Writes a program that can be called as `haul` is (`SCRIPT TOOL …`) or as `cp`, and has several processes work.
pub(crate) fn script(sandbox: &Sandbox, mpi: &Mpi, way: Way, own: &[&str]) -> Program {
    let haul = fs::canonicalize(program!().path()).unwrap();
    let (haul, launcher) = (haul.display(), mpi.launcher().display());
    let mut text = String::from("#!/bin/sh\ntool=cp\n[ \"${0##*/}\" = cp ] || { tool=$1; shift; }\n");
    for (name, value) in mpi.environment() {
        writeln!(text, "export {name}='{value}'").unwrap();
    }
    // The directory of the tools that stand for `cp` is no place to find a launcher in.
    let own = own.join(" ");
    match way {
        Way::Clients(clients) => {
            let library = library(mpi);
            writeln!(
                text,
                "exec {haul} $tool --clients={clients} --launcher={launcher} {library} {own} \"$@\""
            )
            .unwrap();
        }
        Way::Ranks(ranks) => {
            let library = explicit(mpi).unwrap_or_default();
            writeln!(
                text,
                "errors=$(mktemp)\n\
                 {launcher} -n {ranks} {haul} $tool {library} {own} \"$@\" 2>\"$errors\"\n\
                 status=$?\n{CHATTER} \"$errors\" >&2\nrm \"$errors\"\nexit $status"
            )
            .unwrap();
        }
    }
    let path = sandbox.join(format!("haul-{:?}-{way:?}", mpi.kind()).replace(['(', ')'], ""));
    write_program(&path, &text);
    Program::at(&path)
}

/// Writes a script. By another process, so that no test that starts one meanwhile keeps it busy.
pub(crate) fn write_program(path: &Path, text: &str) {
    let write = "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\"";
    let status = Command::new("sh").args(["-c", write]).arg(path).arg(text).status();
    assert!(status.unwrap().success());
}

/// A process of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) id: u32,
    /// The name of its program.
    pub(crate) program: String,
    /// Its rank, if it has one.
    pub(crate) rank: Option<u32>,
    /// Whether it is a rank that a launch process has started.
    pub(crate) is_agent: bool,
}

/// Lists the processes of this machine that have `HAUL_TEST=mark` in their environment and still run.
pub(crate) fn relatives(mark: &str) -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter_map(|id| relative(id, mark)).collect()
}

fn relative(id: u32, mark: &str) -> Option<Process> {
    let read = |name: &str| fs::read(format!("/proc/{id}/{name}")).unwrap_or_default();
    let environment = read("environ");
    let variables: Vec<_> =
        environment.split(|byte| *byte == 0).filter_map(|text| std::str::from_utf8(text).ok()).collect();
    let value = |name: &str| variables.iter().find_map(|text| text.strip_prefix(name)?.strip_prefix('='));
    if value("HAUL_TEST") != Some(mark) {
        return None;
    }
    let words = read("cmdline");
    let mut words = words.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let program = PathBuf::from(words.next()?.as_ref());
    let ranks = ["OMPI_COMM_WORLD_RANK", "PMI_RANK"];
    let rank = ranks.into_iter().find_map(value).and_then(|rank| rank.parse().ok());
    let program = program.file_name()?.to_str()?.to_owned();
    Some(Process { id, program, rank, is_agent: words.any(|word| word == "--rank") })
}
