//! Ways to start a copy by several processes, as scripts that the tests run in place of haul.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use haul_testkit::mpi::{Mpi, MpiKind};
use haul_testkit::program::write_script;
use haul_testkit::{CopyProgram, Sandbox, program};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// `haul cp --clients N …`
    Clients(u32),
    /// `mpirun -n N haul cp …`
    Ranks(u32),
}

/// Filters out what launchers print when a rank exits with a nonzero status: blocks between rulers.
const CHATTER: &str = "sed -e '/^------/,/^------/d' -e '/^======/,/^======/d' -e '/^YOUR APPLICATION TERMINATED/d' \
                       -e '/^This typically refers/d' -e '/^Please see the FAQ/d' -e '/^\\[.*PMIx\\|^\\[.*PRTE/d' -e '/^$/d'";

/// Option for the library, if a job can't find that of this installation by itself.
pub(crate) fn explicit(mpi: &Mpi) -> Option<String> {
    (mpi.kind() == MpiKind::Mpich5).then(|| format!("--mpi-lib={}", mpi.library().display()))
}

/// Option for the library, where other libraries sit beside the launcher or the path must
/// be explicit.
pub(crate) fn library(mpi: &Mpi) -> String {
    format!("--mpi-lib={}", mpi.library().display())
}

/// Writes a script that is called like `haul` (`SCRIPT TOOL …`) or like `cp`, and runs
/// several processes.
pub(crate) fn script(sandbox: &Sandbox, mpi: &Mpi, way: Way, own: &[&str]) -> CopyProgram {
    let haul = fs::canonicalize(program!().path()).unwrap();
    let (haul, launcher) = (haul.display(), mpi.launcher().display());
    let mut text = String::from("#!/bin/sh\ntool=cp\n[ \"${0##*/}\" = cp ] || { tool=$1; shift; }\n");
    for (name, value) in mpi.environment() {
        writeln!(text, "export {name}='{value}'").unwrap();
    }
    // The launcher gets a whole path: the directory of programs that stand in for `cp` has none.
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
    write_script(&path, &text).unwrap();
    CopyProgram::at(&path)
}

/// Writes a program that ranks of Open MPI run in place of haul (`HAUL_AGENT`): this shell code,
/// and then `$@`, which is haul with its arguments. `$rank` is the rank's number, and the working
/// directory the sandbox.
pub(crate) fn agent(sandbox: &Sandbox, code: &str) -> PathBuf {
    let path = sandbox.join("agent");
    let haul = fs::canonicalize(program!().path()).unwrap();
    let (haul, folder) = (haul.display(), sandbox.path().display());
    let text = format!(
        "#!/bin/sh\nset -e\nset -- '{haul}' \"$@\"\nrank=$OMPI_COMM_WORLD_RANK\ncd '{folder}'\n{code}\nexec \"$@\"\n"
    );
    write_script(&path, &text).unwrap();
    path
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) id: u32,
    pub(crate) program: String,
    pub(crate) rank: Option<u32>,
    /// True for a rank that a launch process started.
    pub(crate) is_agent: bool,
}

/// Lists this machine's running processes with `HAUL_TEST=mark` in their environment.
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
