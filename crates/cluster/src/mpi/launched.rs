//! The launcher's environment variables.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use haul_sys::keep_from_children;

use crate::batch::job_directory::VARIABLE as JOB_DIRECTORY_VARIABLE;

/// This process as one of several that a launcher started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launched {
    /// Number of ranks, if the launcher says.
    pub ranks: Option<u32>,
    /// Rank of this process.
    pub rank: u32,
    /// True if all ranks are on this host. Determined only where `one_host` needs it.
    pub on_one_host: bool,
    /// Name of the launcher, for messages.
    pub by: &'static str,
    /// Library family that is likely to understand the launcher.
    pub(super) family: LibraryFamily,
}

/// Family of MPI libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LibraryFamily {
    /// Open MPI.
    OpenMpi,
    /// MPICH and its descendants, and libraries with the standard ABI.
    Mpich,
    /// Unknown: any library may match.
    Any,
}

/// Variables of each launcher, innermost launcher first: Open MPI and MPICH start their helpers
/// with `srun`, so Slurm's variables may describe the helpers.
const LAUNCHERS: [(&str, &str, &str, LibraryFamily); 3] = [
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "Open MPI's mpirun", LibraryFamily::OpenMpi),
    ("PMI_SIZE", "PMI_RANK", "mpiexec (PMI)", LibraryFamily::Mpich),
    ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun", LibraryFamily::Any),
];

/// Variables of which every launcher sets at least one. Without any of them, skip [`launched`].
pub const LAUNCHER_VARIABLES: [&str; 4] =
    ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "PMIX_RANK"];

/// Beginnings of the names of variables by which a launcher makes a process a rank. `SLURM_STEP_ID`
/// is not one of them: that its hosts are taken by a step is true of the children too.
const OF_RANK: &[&str] = &[
    "OMPI_COMM_WORLD_",
    "OMPI_UNIVERSE_",
    "OMPI_APP_CTX_",
    "OMPI_NUM_APP_CTX",
    "OMPI_FIRST_RANKS",
    "OMPI_FILE_LOCATION",
    "OMPI_COMMAND",
    "OMPI_ARGV",
    "OMPI_WORLD_",
    "OMPI_LIBDIR_LOC",
    "OMPI_TOOL_NAME",
    "OMPI_VERSION",
    // The parameters that Open MPI hands to its ranks: an `mpirun` of version 4 that finds them
    // fails. The others with this prefix are the user's.
    "OMPI_MCA_PREFIXES",
    "OMPI_MCA_cpu_type",
    "OMPI_MCA_num_procs",
    "OMPI_MCA_ess",
    "OMPI_MCA_hwloc_base_binding_policy",
    "OMPI_MCA_initial_wdir",
    "OMPI_MCA_mpi_oversubscribe",
    "OMPI_MCA_orte_app_num",
    "OMPI_MCA_orte_bound_at_launch",
    "OMPI_MCA_orte_ess_",
    "OMPI_MCA_orte_hnp_uri",
    "OMPI_MCA_orte_jobfam_session_dir",
    "OMPI_MCA_orte_launch",
    "OMPI_MCA_orte_local_daemon_uri",
    "OMPI_MCA_orte_num_nodes",
    "OMPI_MCA_orte_precondition_transports",
    "OMPI_MCA_orte_tmpdir_base",
    "OMPI_MCA_orte_top_session_dir",
    "OMPI_MCA_pmix",
    "OMPI_MCA_shmem_RUNTIME_",
    "PMIX_",
    "PMI_",
    "PRTE_LAUNCHED",
    "PRTE_SHARED_FS",
    "HYDI_",
    "MPI_LOCAL",
    "MV2_COMM_WORLD_",
    "SLURM_STEP_NUM_",
    "SLURM_PROCID",
    "SLURM_LOCALID",
];

/// True if an environment variable makes this process a rank, or the command of a followed batch
/// job. A child that inherited it would join the ranks' job, or report its own progress as the
/// job's.
#[must_use]
pub fn is_of_process(name: &OsStr) -> bool {
    name == JOB_DIRECTORY_VARIABLE || (is_of_rank(name) && launched().is_some())
}

/// True if launchers set this variable for each rank. It means nothing in other processes.
fn is_of_rank(name: &OsStr) -> bool {
    let begins = |prefix: &&str| name.as_encoded_bytes().starts_with(prefix.as_bytes());
    // Parameters of PMIx are the user's.
    OF_RANK.iter().any(begins) && !begins(&"PMIX_MCA_")
}

/// Keeps children from inheriting the socket to MPICH's launcher, which would take the end of a
/// rank for that of its last child.
pub(super) fn keep_launcher_socket() {
    let number = std::env::var("PMI_FD").ok().and_then(|text| text.parse().ok());
    if let Some(number) = number.filter(|number| *number > 2) {
        keep_from_children(number);
    }
}

/// Determines from the environment whether this process is a rank of a job.
///
/// A Slurm step with one task doesn't count, because an interactive shell in an allocation is one.
#[must_use]
pub fn launched() -> Option<Launched> {
    launched_in(&|name| std::env::var_os(name))
}

pub(super) fn launched_in(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<Launched> {
    let number = |name: &str| variable(name)?.to_str()?.trim().parse::<u32>().ok();
    let by_pmix = number("PMIX_RANK");
    let here = number("OMPI_COMM_WORLD_LOCAL_SIZE");
    for (size, rank, by, family) in LAUNCHERS {
        let (Some(ranks), Some(rank)) = (number(size), number(rank)) else { continue };
        if family == LibraryFamily::Any && ranks == 1 && by_pmix.is_none() {
            return None;
        }
        let on_one_host = match family {
            LibraryFamily::Any => number("SLURM_STEP_NUM_NODES") == Some(1),
            LibraryFamily::OpenMpi => here == Some(ranks),
            LibraryFamily::Mpich => false,
        };
        return Some(Launched { ranks: Some(ranks), rank, on_one_host, by, family });
    }
    let by = "a PMIx launcher";
    by_pmix.map(|rank| Launched { ranks: None, rank, on_one_host: false, by, family: LibraryFamily::Any })
}

/// Returns possible names of the library, most likely first.
pub(super) fn library_names(family: LibraryFamily) -> &'static [&'static str] {
    match family {
        LibraryFamily::OpenMpi => &["libmpi.so.40", "libmpi.so"],
        LibraryFamily::Mpich => &["libmpi_abi.so.1", "libmpi.so.12", "libmpich.so.12", "libmpi.so"],
        LibraryFamily::Any => {
            &["libmpi.so.40", "libmpi_abi.so.1", "libmpi.so.12", "libmpich.so.12", "libmpi.so"]
        }
    }
}

/// Returns directories where the launcher's own libraries are likely to be, for installations that
/// the dynamic loader doesn't know, such as a Python wheel or an environment module.
pub(super) fn library_folders(launcher: Option<&Path>) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    folders.extend(std::env::var_os("OPAL_PREFIX").map(|prefix| PathBuf::from(prefix).join("lib")));
    folders.extend(std::env::var_os("I_MPI_ROOT").map(|root| PathBuf::from(root).join("lib")));
    if let Some(bin) = launcher.and_then(Path::parent)
        && let Some(prefix) = bin.parent()
    {
        folders.extend(["lib", "lib64", "lib/release"].map(|name| prefix.join(name)));
    }
    folders.retain(|folder| folder.is_dir());
    folders
}

/// Finds the launcher's program among the ancestors of this process.
pub(super) fn launcher() -> Option<PathBuf> {
    /// Maximum ancestors to inspect: shells and wrappers may stand between launcher and rank.
    const GENERATIONS: usize = 8;
    const NAMES: [&str; 8] =
        ["orted", "orterun", "prted", "prterun", "hydra_pmi_proxy", "mpiexec", "mpiexec.hydra", "mpirun"];
    let mut process = std::process::id();
    for _ in 0..GENERATIONS {
        process = parent_of(process)?;
        // `exe` of another user's process (a batch system's) is not readable.
        let Ok(program) = std::fs::read_link(format!("/proc/{process}/exe")) else { continue };
        let name = program.file_name()?.to_str()?;
        if NAMES.contains(&name) {
            return Some(program);
        }
    }
    None
}

fn parent_of(process: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    parent.trim().parse().ok().filter(|parent| *parent > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Option<(Option<u32>, u32, LibraryFamily)> {
        let found = launched_in(&|name| {
            variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| value.into())
        });
        found.map(|launched| (launched.ranks, launched.rank, launched.family))
    }

    #[test]
    fn each_launcher_is_known_by_its_variables() {
        let open_mpi = [("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_RANK", "3"), ("PMIX_RANK", "3")];
        assert_eq!(read(&open_mpi), Some((Some(4), 3, LibraryFamily::OpenMpi)));
        assert_eq!(read(&[("PMI_SIZE", "2"), ("PMI_RANK", "0")]), Some((Some(2), 0, LibraryFamily::Mpich)));
        let slurm = [("SLURM_STEP_NUM_TASKS", "3"), ("SLURM_PROCID", "1")];
        assert_eq!(read(&slurm), Some((Some(3), 1, LibraryFamily::Any)));
        assert_eq!(read(&[("PMIX_RANK", "5")]), Some((None, 5, LibraryFamily::Any)));
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[("PMI_SIZE", "many"), ("PMI_RANK", "0")]), None);
    }

    #[test]
    fn no_child_inherits_what_makes_a_rank() {
        let read = LAUNCHERS.iter().flat_map(|(size, rank, ..)| [*size, *rank]).chain(LAUNCHER_VARIABLES);
        let others =
            ["OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_STEP_NUM_NODES", "PMI_FD", "OMPI_MCA_ess_base_vpid"];
        for name in read.chain(others) {
            assert!(is_of_rank(OsStr::new(name)), "{name}");
        }
        assert!(is_of_process(OsStr::new("HAUL_SPOOL")));
        for name in ["PATH", "SLURM_JOB_ID", "SLURM_STEP_ID", "HAUL_OPTIONS", "LD_LIBRARY_PATH"] {
            assert!(!is_of_rank(OsStr::new(name)), "{name}");
        }
        for name in ["OMPI_CC", "OMPI_MCA_btl", "OMPI_ALLOW_RUN_AS_ROOT", "PMIX_MCA_ptl"] {
            assert!(!is_of_rank(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn an_inner_launcher_counts_the_ranks() {
        let inside = [
            ("SLURM_STEP_NUM_TASKS", "2"),
            ("SLURM_PROCID", "1"),
            ("OMPI_COMM_WORLD_SIZE", "16"),
            ("OMPI_COMM_WORLD_RANK", "9"),
        ];
        assert_eq!(read(&inside), Some((Some(16), 9, LibraryFamily::OpenMpi)));
    }

    #[test]
    fn a_shell_in_an_allocation_is_no_rank() {
        assert_eq!(read(&[("SLURM_STEP_NUM_TASKS", "1"), ("SLURM_PROCID", "0")]), None);
        // A batch script has a task number, but is no step of tasks.
        assert_eq!(read(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")]), None);
    }
}
