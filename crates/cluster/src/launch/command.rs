//! Command line that starts the ranks, chosen from the environment, the programs on `PATH`, and the
//! user's options.
//!
//! ```text
//!  --launcher given ─────────────────────────────► that one, by its family
//!  an mpirun or mpiexec next to --mpi-lib ───────► that one
//!  one on PATH, of the library's family ─────────► that one: program and library belong together
//!  only srun, in a Slurm allocation ─────────────► srun, with the --mpi it offers for the library
//! ```
//!
//! Guarantees: only rank 0 gets standard input, and ranks are not bound to processors. More ranks
//! than processors are allowed on a plain host, but not in an allocation, which has a fixed size.
//!
//! Launchers treat the two pipes differently (found by experiment):
//!
//! - MPICH's (Hydra) kills the job if rank 0 doesn't read fast enough ("process reading stdin too
//!   slowly"), because it writes to a pipe without blocking. So at most
//!   [`StartLine::stdin_window`] bytes may be in flight. Standard input of other ranks never
//!   reaches EOF: they must not read it.
//! - Slurm's srun by default forwards standard input to all ranks, and buffers output by lines.

use std::collections::HashSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::attempt_hosts::HostRanks;
use super::family::LauncherFamily;
use super::launcher_arguments::{LauncherArguments, Variables};

/// Maximum bytes in flight to rank 0 for a launcher that doesn't block: a quarter of a pipe,
/// because small writes leave its pages half empty.
const HYDRA_WINDOW: usize = 16 << 10;

/// First step id reserved by Slurm: the batch script, or the shell of an allocation.
const SLURM_OWN_STEPS: u32 = 0xffff_fff0;

/// Programs that start ranks, most common names first.
const LAUNCHERS: [&str; 5] = ["mpirun", "mpiexec", "mpiexec.hydra", "mpirun.openmpi", "mpiexec.mpich"];

/// A batch system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// Slurm.
    Slurm,
    /// PBS, in any variant.
    Pbs,
}

/// Hosts that a batch system has allocated to this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The batch system.
    pub system: System,
    /// The job's id.
    pub id: String,
    /// Number of ranks it has room for, if known.
    pub slots: Option<u32>,
    /// Number of hosts, if known.
    pub hosts: Option<u32>,
    /// True if this process is itself a task of a step, which other steps would wait for.
    pub within_step: bool,
}

/// Processes and threads per rank on a small host: its workers, the library's, the launcher's.
const TASKS_EACH: u32 = 16;

/// Properties of this process's environment that affect how ranks are started.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The allocation of this process.
    pub allocation: Option<Allocation>,
    /// Number of ranks of the job, if this process is one of them.
    pub ranks: Option<u32>,
    path: OsString,
    libraries: OsString,
    agent: Option<PathBuf>,
    root: bool,
    /// Environment variables that affect Open MPI's rank placement.
    open_mpi: Variables,
    /// Maximum processes and threads on this host, if known.
    tasks_max: Option<u32>,
}

impl Surroundings {
    /// Examines the environment of this process.
    #[must_use]
    pub fn of_process() -> Self {
        let root = rustix::process::geteuid().is_root();
        let limit = |name: &str| fs::read_to_string(name).ok()?.trim().parse::<u32>().ok();
        let limits = ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"];
        let tasks_max = limits.into_iter().filter_map(limit).min();
        Self { root, tasks_max, ..Self::of(|name| env::var_os(name)) }
    }

    /// Examines an environment, and the files it names. Assumes that the user is not root.
    #[must_use]
    pub fn of(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let number = |name: &str| variable(name)?.to_str()?.parse::<u32>().ok();
        let sizes = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"];
        // A job of one rank may be the shell that a batch system opened for its user.
        let ranks = sizes.into_iter().find_map(number).filter(|ranks| *ranks > 1);
        let filled = |name: &str| variable(name).filter(|value| !value.is_empty());
        Self {
            allocation: slurm(&variable).or_else(|| pbs(&variable)),
            ranks,
            path: variable("PATH").unwrap_or_default(),
            libraries: variable("LD_LIBRARY_PATH").unwrap_or_default(),
            agent: filled("HAUL_AGENT").map(PathBuf::from),
            root: false,
            open_mpi: Variables::of(&variable),
            tasks_max: None,
        }
    }

    /// Finds a program on `PATH`.
    #[must_use]
    pub fn find(&self, program: &str) -> Option<PathBuf> {
        let candidates = env::split_paths(&self.path).map(|folder| folder.join(program));
        candidates.into_iter().find(|candidate| is_program(candidate))
    }

    /// Finds the program that starts ranks by default, and its family.
    #[must_use]
    pub fn launcher(&self) -> Option<(PathBuf, LauncherFamily)> {
        find_launcher(self, None)
    }

    /// Returns the number of ranks available at once: only if this process holds an allocation and
    /// is not a rank itself.
    #[must_use]
    pub fn ranks_at_hand(&self) -> Option<u32> {
        let allocation = self.allocation.as_ref().filter(|allocation| !allocation.within_step)?;
        allocation.slots.filter(|_| self.ranks.is_none())
    }

    /// Returns the batch systems with programs on `PATH`, preferred first; none inside a batch job.
    pub fn batch_systems(&self) -> impl Iterator<Item = System> {
        let programs = [("sbatch", System::Slurm), ("qsub", System::Pbs)].into_iter();
        let there = |(program, _): &(&str, System)| self.allocation.is_none() && self.find(program).is_some();
        programs.filter(there).map(|(_, system)| system)
    }

    /// Returns the program that ranks run: `own`, unless `HAUL_AGENT` names another.
    #[must_use]
    pub fn agent(&self, own: &Path) -> PathBuf {
        self.agent.clone().unwrap_or_else(|| own.to_owned())
    }

    /// True if a library is in one of the directories that the dynamic loader searches.
    fn has_library(&self, name: &str) -> bool {
        const FOLDERS: [&str; 6] = [
            "/usr/lib/x86_64-linux-gnu",
            "/usr/lib/aarch64-linux-gnu",
            "/usr/lib64",
            "/usr/lib",
            "/usr/local/lib",
            "/usr/local/lib64",
        ];
        let folders = env::split_paths(&self.libraries).chain(FOLDERS.map(PathBuf::from));
        folders.into_iter().any(|folder| folder.join(name).exists())
    }
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn slurm(variable: &impl Fn(&str) -> Option<OsString>) -> Option<Allocation> {
    let text = |name: &str| variable(name)?.into_string().ok().filter(|text| !text.is_empty());
    let id = text("SLURM_JOB_ID").or_else(|| text("SLURM_JOBID"))?;
    let number = |name: &str| text(name)?.parse().ok();
    let slots = text("SLURM_TASKS_PER_NODE").and_then(|counts| sum_of_counts(&counts));
    Some(Allocation {
        system: System::Slurm,
        id,
        slots: slots.or_else(|| number("SLURM_NTASKS")),
        hosts: number("SLURM_JOB_NUM_NODES").or_else(|| number("SLURM_NNODES")),
        within_step: number("SLURM_STEP_ID").is_some_and(|step| step < SLURM_OWN_STEPS),
    })
}

/// Adds up Slurm's counts per host: `2(x3),1` is 7.
fn sum_of_counts(counts: &str) -> Option<u32> {
    counts.split(',').try_fold(0u32, |sum, item| {
        let (count, times) = match item.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')')?.parse::<u32>().ok()?),
            None => (item, 1),
        };
        sum.checked_add(count.parse::<u32>().ok()?.checked_mul(times)?)
    })
}

fn pbs(variable: &impl Fn(&str) -> Option<OsString>) -> Option<Allocation> {
    let id = variable("PBS_JOBID")?.into_string().ok().filter(|text| !text.is_empty())?;
    // The file has one line per rank, with its host.
    let list = variable("PBS_NODEFILE").and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    let lines: Vec<_> = list.lines().filter(|line| !line.trim().is_empty()).collect();
    let hosts: HashSet<_> = lines.iter().collect();
    let count = |amount: usize| u32::try_from(amount).ok().filter(|amount| *amount > 0);
    let (slots, hosts) = (count(lines.len()), count(hosts.len()));
    Some(Allocation { system: System::Pbs, id, slots, hosts, within_step: false })
}

/// The ranks to start.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// Number of ranks.
    pub ranks: u32,
    /// Program of each rank.
    pub program: &'a Path,
    /// Its arguments.
    pub arguments: &'a [OsString],
    /// Its environment, on every host.
    pub environment: &'a [(&'a str, OsString)],
    /// The user's launcher.
    pub launcher: Option<&'a [OsString]>,
    /// The user's MPI library.
    pub library: Option<&'a Path>,
    /// Hosts, with room for all ranks; empty to let the launcher choose.
    pub places: &'a [HostRanks],
}

/// The command line that starts a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartLine {
    /// Family of the launcher.
    pub family: LauncherFamily,
    /// The words, starting with the program.
    pub words: Vec<OsString>,
    /// Environment of the launcher.
    pub environment: Vec<(String, OsString)>,
    /// Maximum bytes in flight to rank 0, if there is a limit.
    pub stdin_window: Option<usize>,
}

/// Why no ranks can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchRefusal {
    /// No launcher was found.
    NoLauncher,
    /// The user's launcher can't be run.
    CannotRun {
        /// The program.
        program: PathBuf,
        /// The reason.
        why: String,
    },
    /// The allocation is too small.
    TooManyClients {
        /// Number of clients requested.
        clients: u32,
        /// Number of ranks the allocation has room for.
        slots: u32,
        /// The job that owns the allocation.
        job: String,
    },
    /// This host can't run that many processes.
    TooManyForHost {
        /// Number of clients requested.
        clients: u32,
        /// Number of ranks it has room for.
        room: u32,
    },
    /// The user's launcher is given a different number of ranks.
    OtherCount {
        /// Number of clients requested.
        clients: u32,
        /// Number in the launcher's options.
        given: String,
    },
    /// This process is already one of several ranks.
    WithinJob {
        /// Number of ranks.
        ranks: u32,
    },
}

impl fmt::Display for LaunchRefusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLauncher => {
                write!(out, "no program to start MPI ranks: looked for {} on PATH", LAUNCHERS.join(", "))
            }
            Self::CannotRun { program, why } => write!(out, "cannot run {}: {why}", program.display()),
            Self::TooManyClients { clients, slots, job } => {
                write!(out, "{clients} clients are too many: job {job} has room for {slots}")
            }
            Self::TooManyForHost { clients, room } => {
                write!(out, "{clients} clients are too many for this host, which has room for {room}")
            }
            Self::OtherCount { clients, given } => {
                write!(out, "the launcher was asked for {given} ranks, not {clients}")
            }
            Self::WithinJob { ranks } => {
                write!(out, "this is already one of {ranks} ranks: it cannot start others")
            }
        }
    }
}

impl std::error::Error for LaunchRefusal {}

/// Determines the command line.
///
/// # Errors
/// If there is no launcher, or not enough room for the ranks.
pub fn start_line(surroundings: &Surroundings, wanted: &Wanted<'_>) -> Result<StartLine, LaunchRefusal> {
    if let Some(ranks) = surroundings.ranks {
        return Err(LaunchRefusal::WithinJob { ranks });
    }
    if let Some(words) = wanted.launcher {
        let program = PathBuf::from(words.first().cloned().unwrap_or_default());
        let family = LauncherFamily::of_program(&program)
            .map_err(|error| LaunchRefusal::CannotRun { program, why: error.to_string() })?;
        if let Some(given) =
            LauncherArguments(words.to_vec()).count(family).filter(|given| *given != wanted.ranks.to_string())
        {
            return Err(LaunchRefusal::OtherCount { clients: wanted.ranks, given });
        }
        return Ok(line_of(surroundings, wanted, family, words.to_vec()));
    }
    if let Some(Allocation { slots: Some(slots), id, .. }) = &surroundings.allocation
        && wanted.ranks > *slots
    {
        return Err(LaunchRefusal::TooManyClients { clients: wanted.ranks, slots: *slots, job: id.clone() });
    }
    // Refused at once: given far too many ranks, `mpirun` starts processes for minutes before it
    // fails.
    let room = surroundings.tasks_max.map(|tasks| tasks / TASKS_EACH);
    if let Some(room) = room.filter(|room| surroundings.allocation.is_none() && wanted.ranks > *room) {
        return Err(LaunchRefusal::TooManyForHost { clients: wanted.ranks, room });
    }
    let (program, family) = find_launcher(surroundings, wanted.library).ok_or(LaunchRefusal::NoLauncher)?;
    Ok(line_of(surroundings, wanted, family, vec![program.into_os_string()]))
}

/// Finds a launcher of the library's family; without a library, any launcher.
fn find_launcher(surroundings: &Surroundings, library: Option<&Path>) -> Option<(PathBuf, LauncherFamily)> {
    let folder_beside = |library: &Path| Some(library.parent()?.parent()?.join("bin"));
    let adjacent = library.and_then(folder_beside).into_iter();
    let adjacent = adjacent.flat_map(|folder| LAUNCHERS.map(|name| folder.join(name)));
    let on_path = LAUNCHERS.iter().filter_map(|name| surroundings.find(name));
    let family_wanted = library.and_then(LauncherFamily::of_library);
    let fitting = adjacent.filter(|program| is_program(program)).chain(on_path).find_map(|program| {
        let family = LauncherFamily::of_program(&program).ok()?;
        (family != LauncherFamily::Other && family.fits(family_wanted)).then_some((program, family))
    });
    let in_slurm = surroundings.allocation.as_ref().is_some_and(|found| found.system == System::Slurm);
    fitting.or_else(|| Some((surroundings.find("srun").filter(|_| in_slurm)?, LauncherFamily::Srun)))
}

/// Builds the command line: the launcher's words, its options, then the rank's command.
fn line_of(
    surroundings: &Surroundings,
    wanted: &Wanted<'_>,
    family: LauncherFamily,
    words: Vec<OsString>,
) -> StartLine {
    let mut given = LauncherArguments(words).without_count(family);
    let mut environment: Vec<(String, OsString)> =
        wanted.environment.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    // Hosts chosen explicitly have room for their ranks.
    let oversubscribed = surroundings.allocation.is_none() && wanted.places.is_empty();
    let ranks = wanted.ranks.to_string();
    if !wanted.places.is_empty() && family.chooses_hosts() {
        given = given.without_hosts();
        given.0.extend(host_words(family, wanted.places));
        // Slurm may still consider the lost job's step active, because a dead host doesn't report
        // its end.
        environment.push(("SLURM_OVERLAP".to_owned(), "1".into()));
    }
    let add = |words: &mut Vec<OsString>, more: &[&str]| words.extend(more.iter().map(OsString::from));
    match family {
        LauncherFamily::OpenMpi4 | LauncherFamily::OpenMpi5 => {
            // Open MPI otherwise refuses to run as root.
            if surroundings.root && !given.has(&["allow-run-as-root"]) {
                add(&mut given.0, &["--allow-run-as-root"]);
            }
            if oversubscribed {
                given.oversubscribe(&surroundings.open_mpi, family == LauncherFamily::OpenMpi4);
            }
            // By default Open MPI binds each rank to some of the processors (one core each, if
            // there are only two ranks), which all its workers would share.
            given.unbind(&surroundings.open_mpi);
            let words = &mut given.0;
            add(words, &["-n", &ranks]);
            for (name, value) in wanted.environment {
                add(words, &["-x"]);
                words.push(joined(name, value));
            }
            // Waiting ranks must yield a shared processor. Open MPI forwards this variable to
            // every host.
            environment.push(("OMPI_MCA_mpi_yield_when_idle".to_owned(), "1".into()));
        }
        LauncherFamily::Mpich => {
            for (name, value) in wanted.environment {
                given.0.extend([OsString::from("-genv"), OsString::from(name), value.clone()]);
            }
            given.0.extend([OsString::from("-n"), ranks.into()]);
        }
        LauncherFamily::Srun => {
            let words = &mut given.0;
            let chosen = words.iter().any(|word| word.to_string_lossy().starts_with("--mpi"));
            if !chosen && let Some(way) = srun_way(surroundings, wanted.library, words) {
                words.push(format!("--mpi={way}").into());
            }
            words.push(format!("--ntasks={ranks}").into());
            // Only rank 0 reads the link, nothing of it may wait in srun's buffers, and a lost rank
            // has to end the job, as it does with `mpirun`.
            words.extend(["--input=0", "--unbuffered", "--kill-on-bad-exit=1"].map(OsString::from));
        }
        LauncherFamily::Other => add(&mut given.0, &["-n", &ranks]),
    }
    let LauncherArguments(mut words) = given;
    words.push(wanted.program.as_os_str().to_owned());
    words.extend(wanted.arguments.iter().cloned());
    let stdin_window = (family == LauncherFamily::Mpich).then_some(HYDRA_WINDOW);
    StartLine { family, words, environment, stdin_window }
}

/// Returns the options that select hosts.
fn host_words(family: LauncherFamily, places: &[HostRanks]) -> Vec<OsString> {
    let list = |write: fn(&HostRanks) -> String| places.iter().map(write).collect::<Vec<_>>().join(",");
    let counted = || list(|place| format!("{}:{}", place.host, place.ranks));
    let words = match family {
        LauncherFamily::OpenMpi4 | LauncherFamily::OpenMpi5 => vec!["--host".to_owned(), counted()],
        LauncherFamily::Mpich => vec!["-hosts".to_owned(), counted()],
        LauncherFamily::Srun => {
            let names = list(|place| place.host.clone());
            vec![format!("--nodes={}", places.len()), format!("--nodelist={names}")]
        }
        LauncherFamily::Other => Vec::new(),
    };
    words.into_iter().map(OsString::from).collect()
}

fn joined(name: &str, value: &OsStr) -> OsString {
    let mut word = OsString::from(name);
    word.push("=");
    word.push(value);
    word
}

/// Chooses the `--mpi` plugin of srun: PMIx for Open MPI, PMI-2 for MPICH's family.
fn srun_way(surroundings: &Surroundings, library: Option<&Path>, words: &[OsString]) -> Option<&'static str> {
    let program = words.first()?;
    let output = Command::new(program).arg("--mpi=list").stdin(Stdio::null()).output().ok()?;
    // Releases differ in which stream they print the list to.
    let offered = [output.stdout, output.stderr].concat();
    let offered = String::from_utf8_lossy(&offered);
    let is_offered = |way: &&str| offered.split_whitespace().any(|word| word.trim_end_matches(',') == *way);
    let open_mpi = match library.and_then(LauncherFamily::of_library) {
        Some(family) => family != LauncherFamily::Mpich,
        // Open MPI's name; MPICH's family has other numbers (`LauncherFamily::of_library`).
        None => surroundings.has_library("libmpi.so.40"),
    };
    let order = if open_mpi { ["pmix", "pmi2"] } else { ["pmi2", "pmix"] };
    order.into_iter().find(|way| is_offered(way))
}

#[cfg(test)]
mod tests;
