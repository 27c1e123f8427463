//! Which command line starts the ranks: found from the environment, the programs on `PATH`, and what the user said.
//!
//! ```text
//!  --launcher given ─────────────────────────────► that, by its family
//!  an mpirun or mpiexec beside --mpi-lib ────────► that
//!  one on PATH, of the library's family ─────────► that: program and library belong together
//!  only srun, in an allocation of Slurm ─────────► that, with the --mpi it offers for the library there is
//! ```
//!
//! What it promises of the line: rank 0 alone gets standard input; nothing is bound to processors; more ranks than processors
//! are fine on a plain host, and refused in an allocation, which says how many it is for.
//!
//! What launchers do to the two pipes, found by trying:
//!
//! - MPICH's (Hydra) ends the job when rank 0 has not read what it was sent ("process reading stdin too slowly"): it writes to
//!   a pipe without waiting. So no more than [`StartLine::stdin_window`] bytes may be on their way unread. Standard input of
//!   other ranks has no end there: they must not read it.
//! - Slurm's srun gives standard input to all ranks, unless told which, and keeps what they write until a line ends, unless told
//!   not to.

use std::collections::HashSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::given::{Given, Variables};
use super::places::Place;

/// Bytes that may be on their way to rank 0 unread where the launcher does not wait: a quarter of a pipe, whose pages small
/// writes leave half empty.
const HYDRA_WINDOW: usize = 16 << 10;

/// From this number on steps of Slurm are no user's: the batch script, the shell of an allocation.
const SLURM_OWN_STEPS: u32 = 0xffff_fff0;

/// Programs that start ranks, the usual names first.
const LAUNCHERS: [&str; 5] = ["mpirun", "mpiexec", "mpiexec.hydra", "mpirun.openmpi", "mpiexec.mpich"];

/// Whose hosts these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// Slurm.
    Slurm,
    /// PBS, in any of its forms.
    Pbs,
}

/// Hosts that a batch system gave to this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Whose they are.
    pub system: System,
    /// The job's id.
    pub id: String,
    /// Ranks it is for, if it says.
    pub slots: Option<u32>,
    /// Hosts, if it says.
    pub hosts: Option<u32>,
    /// Whether this process is itself one of the tasks that were started in it, which others would wait for.
    pub within_step: bool,
}

/// Processes and threads that a rank has on a small host: its workers, what the library needs, what starts it.
const TASKS_EACH: u32 = 16;

/// What of this process's surroundings bears on how ranks are started.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The allocation it is in.
    pub allocation: Option<Allocation>,
    /// How many ranks the job has that it is one of.
    pub ranks: Option<u32>,
    path: OsString,
    libraries: OsString,
    agent: Option<PathBuf>,
    root: bool,
    /// What the environment says of how Open MPI places ranks.
    open_mpi: Variables,
    /// How many processes and threads this host can have, if it says.
    tasks_max: Option<u32>,
}

impl Surroundings {
    /// Looks at the environment of this process.
    #[must_use]
    pub fn of_process() -> Self {
        let root = rustix::process::geteuid().is_root();
        let limit = |name: &str| fs::read_to_string(name).ok()?.trim().parse::<u32>().ok();
        let limits = ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"];
        let tasks_max = limits.into_iter().filter_map(limit).min();
        Self { root, tasks_max, ..Self::of(|name| env::var_os(name)) }
    }

    /// Looks at an environment, and the files it names. The user is taken for an ordinary one.
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

    /// Finds the program that starts ranks where the user names none, and whose it is.
    #[must_use]
    pub fn launcher(&self) -> Option<(PathBuf, Family)> {
        find_launcher(self, None)
    }

    /// Returns how many ranks can be had at once, as this process holds an allocation for them and is no rank itself.
    #[must_use]
    pub fn ranks_at_hand(&self) -> Option<u32> {
        let allocation = self.allocation.as_ref().filter(|allocation| !allocation.within_step)?;
        allocation.slots.filter(|_| self.ranks.is_none())
    }

    /// Returns the batch systems whose programs are on `PATH`, the preferred first; none where this is a job of one.
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

    /// Finds a library in the folders where the loader looks.
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

/// Adds up counts of hosts as Slurm writes them: `2(x3),1` is 7.
fn sum_of_counts(counts: &str) -> Option<u32> {
    counts.split(',').try_fold(0u32, |sum, part| {
        let (count, times) = match part.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')')?.parse::<u32>().ok()?),
            None => (part, 1),
        };
        sum.checked_add(count.parse::<u32>().ok()?.checked_mul(times)?)
    })
}

fn pbs(variable: &impl Fn(&str) -> Option<OsString>) -> Option<Allocation> {
    let id = variable("PBS_JOBID")?.into_string().ok().filter(|text| !text.is_empty())?;
    // One line for each rank: the host it is to run on.
    let list = variable("PBS_NODEFILE").and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    let lines: Vec<_> = list.lines().filter(|line| !line.trim().is_empty()).collect();
    let hosts: HashSet<_> = lines.iter().collect();
    let count = |amount: usize| u32::try_from(amount).ok().filter(|amount| *amount > 0);
    let (slots, hosts) = (count(lines.len()), count(hosts.len()));
    Some(Allocation { system: System::Pbs, id, slots, hosts, within_step: false })
}

/// Whose launcher a program is: they take different options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Open MPI, up to release 4.
    OpenMpi4,
    /// Open MPI from release 5 on.
    OpenMpi5,
    /// MPICH and those made from it: Hydra.
    Mpich,
    /// Slurm's srun.
    Srun,
    /// One that is not known. It gets `-n`.
    Other,
}

impl Family {
    /// Tells the family from what a program says of its version.
    #[must_use]
    pub fn of_version(text: &str) -> Self {
        // By its other names, Open MPI's launcher calls itself by what it is made of.
        let release = ["(Open MPI) ", "(OpenRTE) "].iter().find_map(|name| text.split_once(name));
        if let Some((_, release)) = release {
            let major = release.split('.').next().and_then(|major| major.trim().parse::<u32>().ok());
            return if major.unwrap_or(0) >= 5 { Self::OpenMpi5 } else { Self::OpenMpi4 };
        }
        if text.contains("(PRRTE) ") {
            return Self::OpenMpi5;
        }
        let is_mpich = ["HYDRA", "Intel(R) MPI", "MPICH", "MVAPICH"].iter().any(|name| text.contains(name));
        match text.trim_start() {
            _ if is_mpich => Self::Mpich,
            start if start.starts_with("slurm") => Self::Srun,
            _ => Self::Other,
        }
    }

    fn of_program(program: &Path) -> std::io::Result<Self> {
        // srun reads its configuration before it tells its version.
        if program.file_name() == Some(OsStr::new("srun")) {
            return Ok(Self::Srun);
        }
        let output = Command::new(program).arg("--version").stdin(Stdio::null()).output()?;
        Ok(Self::of_version(&String::from_utf8_lossy(&output.stdout)))
    }

    /// Tells the family from the name of a library, if that says it.
    fn of_library(library: &Path) -> Option<Self> {
        let name = library.file_name()?.to_str()?;
        let begins = |start: &str| name.starts_with(start);
        match () {
            () if begins("libmpi.so.40") || begins("libmpi.so.80") => Some(Self::OpenMpi4),
            () if begins("libmpi.so.12") || begins("libmpich") || begins("libmpi_abi") => Some(Self::Mpich),
            () => None,
        }
    }

    /// Tells whether it can be told which hosts to use.
    #[must_use]
    pub fn chooses_hosts(self) -> bool {
        self != Self::Other
    }

    fn fits(self, library: Option<Self>) -> bool {
        match library {
            Some(Self::Mpich) => self == Self::Mpich,
            Some(_) => matches!(self, Self::OpenMpi4 | Self::OpenMpi5),
            None => true,
        }
    }
}

/// What is to be started.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// How many ranks.
    pub ranks: u32,
    /// What each of them runs.
    pub program: &'a Path,
    /// With what arguments.
    pub arguments: &'a [OsString],
    /// What each gets in its environment, on every host.
    pub environment: &'a [(&'a str, OsString)],
    /// The user's own launcher.
    pub launcher: Option<&'a [OsString]>,
    /// The user's own library.
    pub library: Option<&'a Path>,
    /// The hosts it is to be on, which take all ranks; none where the launcher chooses.
    pub places: &'a [Place],
}

/// The command line that starts a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartLine {
    /// Whose launcher it is.
    pub family: Family,
    /// The words, the program first.
    pub words: Vec<OsString>,
    /// What the launcher gets in its environment.
    pub environment: Vec<(String, OsString)>,
    /// Bytes that may be on their way to rank 0 unread, where there is a bound.
    pub stdin_window: Option<usize>,
}

/// Why no ranks can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No program that starts ranks was found.
    NoLauncher,
    /// The program that was named cannot be run.
    CannotRun {
        /// Which.
        program: PathBuf,
        /// Why.
        why: String,
    },
    /// The allocation is for fewer.
    TooManyClients {
        /// Clients that were asked for.
        clients: u32,
        /// Ranks the allocation is for.
        slots: u32,
        /// The job that has the allocation.
        job: String,
    },
    /// This host cannot have so many processes.
    TooManyForHost {
        /// Clients that were asked for.
        clients: u32,
        /// Ranks it has room for.
        room: u32,
    },
    /// The user's own launcher is told another number of ranks.
    OtherCount {
        /// Clients that were asked for.
        clients: u32,
        /// What the launcher's words say.
        given: String,
    },
    /// This process is itself one of several ranks.
    WithinJob {
        /// How many there are.
        ranks: u32,
    },
}

impl fmt::Display for Refusal {
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
                write!(out, "the launcher is told to start {given} ranks, which are not {clients}")
            }
            Self::WithinJob { ranks } => {
                write!(out, "this is already one of {ranks} ranks: it cannot start others")
            }
        }
    }
}

impl std::error::Error for Refusal {}

/// Finds the command line.
///
/// # Errors
/// When there is no launcher, or the ranks have no room.
pub fn start_line(surroundings: &Surroundings, wanted: &Wanted<'_>) -> Result<StartLine, Refusal> {
    if let Some(ranks) = surroundings.ranks {
        return Err(Refusal::WithinJob { ranks });
    }
    if let Some(words) = wanted.launcher {
        let program = PathBuf::from(words.first().cloned().unwrap_or_default());
        let family = Family::of_program(&program)
            .map_err(|error| Refusal::CannotRun { program, why: error.to_string() })?;
        if let Some(given) =
            Given(words.to_vec()).count(family).filter(|given| *given != wanted.ranks.to_string())
        {
            return Err(Refusal::OtherCount { clients: wanted.ranks, given });
        }
        return Ok(line_of(surroundings, wanted, family, words.to_vec()));
    }
    if let Some(Allocation { slots: Some(slots), id, .. }) = &surroundings.allocation
        && wanted.ranks > *slots
    {
        return Err(Refusal::TooManyClients { clients: wanted.ranks, slots: *slots, job: id.clone() });
    }
    let room = surroundings.tasks_max.map(|tasks| tasks / TASKS_EACH);
    if let Some(room) = room.filter(|room| surroundings.allocation.is_none() && wanted.ranks > *room) {
        return Err(Refusal::TooManyForHost { clients: wanted.ranks, room });
    }
    let (program, family) = find_launcher(surroundings, wanted.library).ok_or(Refusal::NoLauncher)?;
    Ok(line_of(surroundings, wanted, family, vec![program.into_os_string()]))
}

/// Finds a launcher of the library's family; without a library, any.
fn find_launcher(surroundings: &Surroundings, library: Option<&Path>) -> Option<(PathBuf, Family)> {
    let folder_beside = |library: &Path| Some(library.parent()?.parent()?.join("bin"));
    let beside = library.and_then(folder_beside).into_iter();
    let beside = beside.flat_map(|folder| LAUNCHERS.map(|name| folder.join(name)));
    let on_path = LAUNCHERS.iter().filter_map(|name| surroundings.find(name));
    let family_wanted = library.and_then(Family::of_library);
    let fitting = beside.filter(|program| is_program(program)).chain(on_path).find_map(|program| {
        let family = Family::of_program(&program).ok()?;
        (family != Family::Other && family.fits(family_wanted)).then_some((program, family))
    });
    let in_slurm = surroundings.allocation.as_ref().is_some_and(|found| found.system == System::Slurm);
    fitting.or_else(|| Some((surroundings.find("srun").filter(|_| in_slurm)?, Family::Srun)))
}

/// Writes the line: the launcher's words, its options, then what the ranks run.
fn line_of(
    surroundings: &Surroundings,
    wanted: &Wanted<'_>,
    family: Family,
    words: Vec<OsString>,
) -> StartLine {
    let mut given = Given(words).without_count(family);
    let mut environment: Vec<(String, OsString)> =
        wanted.environment.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    // Hosts that are chosen have room for what they get.
    let crowded = surroundings.allocation.is_none() && wanted.places.is_empty();
    let ranks = wanted.ranks.to_string();
    if !wanted.places.is_empty() && family.chooses_hosts() {
        given = given.without_hosts();
        given.0.extend(host_words(family, wanted.places));
        // To Slurm the job that was lost may still be there, as a host that is gone does not say that its part is over.
        environment.push(("SLURM_OVERLAP".to_owned(), "1".into()));
    }
    let add = |words: &mut Vec<OsString>, more: &[&str]| words.extend(more.iter().map(OsString::from));
    match family {
        Family::OpenMpi4 | Family::OpenMpi5 => {
            if surroundings.root && !given.has(&["allow-run-as-root"]) {
                add(&mut given.0, &["--allow-run-as-root"]);
            }
            if crowded {
                given.crowd(&surroundings.open_mpi, family == Family::OpenMpi4);
            }
            given.unbind(&surroundings.open_mpi);
            let words = &mut given.0;
            add(words, &["-n", &ranks]);
            for (name, value) in wanted.environment {
                add(words, &["-x"]);
                words.push(joined(name, value));
            }
            // Ranks that share a processor must not keep it while they wait. Open MPI takes this to every host.
            environment.push(("OMPI_MCA_mpi_yield_when_idle".to_owned(), "1".into()));
        }
        Family::Mpich => {
            for (name, value) in wanted.environment {
                given.0.extend([OsString::from("-genv"), OsString::from(name), value.clone()]);
            }
            given.0.extend([OsString::from("-n"), ranks.into()]);
        }
        Family::Srun => {
            let words = &mut given.0;
            let chosen = words.iter().any(|word| word.to_string_lossy().starts_with("--mpi"));
            if !chosen && let Some(way) = srun_way(surroundings, wanted.library, words) {
                words.push(format!("--mpi={way}").into());
            }
            words.push(format!("--ntasks={ranks}").into());
            words.extend(["--input=0", "--unbuffered", "--kill-on-bad-exit=1"].map(OsString::from));
        }
        Family::Other => add(&mut given.0, &["-n", &ranks]),
    }
    let Given(mut words) = given;
    words.push(wanted.program.as_os_str().to_owned());
    words.extend(wanted.arguments.iter().cloned());
    let stdin_window = (family == Family::Mpich).then_some(HYDRA_WINDOW);
    StartLine { family, words, environment, stdin_window }
}

/// Says on which hosts a job is to be.
fn host_words(family: Family, places: &[Place]) -> Vec<OsString> {
    let list = |write: fn(&Place) -> String| places.iter().map(write).collect::<Vec<_>>().join(",");
    let counted = || list(|place| format!("{}:{}", place.host, place.ranks));
    let words = match family {
        Family::OpenMpi4 | Family::OpenMpi5 => vec!["--host".to_owned(), counted()],
        Family::Mpich => vec!["-hosts".to_owned(), counted()],
        Family::Srun => {
            let names = list(|place| place.host.clone());
            vec![format!("--nodes={}", places.len()), format!("--nodelist={names}")]
        }
        Family::Other => Vec::new(),
    };
    words.into_iter().map(OsString::from).collect()
}

fn joined(name: &str, value: &OsStr) -> OsString {
    let mut word = OsString::from(name);
    word.push("=");
    word.push(value);
    word
}

/// Chooses how srun and the library find each other: Open MPI by PMIx, MPICH's family by PMI 2.
fn srun_way(surroundings: &Surroundings, library: Option<&Path>, words: &[OsString]) -> Option<&'static str> {
    let program = words.first()?;
    let output = Command::new(program).arg("--mpi=list").stdin(Stdio::null()).output().ok()?;
    // Releases differ in where they print it.
    let offered = [output.stdout, output.stderr].concat();
    let offered = String::from_utf8_lossy(&offered);
    let is_offered = |way: &&str| offered.split_whitespace().any(|word| word.trim_end_matches(',') == *way);
    let open_mpi = match library.and_then(Family::of_library) {
        Some(family) => family != Family::Mpich,
        None => surroundings.has_library("libmpi.so.40"),
    };
    let order = if open_mpi { ["pmix", "pmi2"] } else { ["pmi2", "pmix"] };
    order.into_iter().find(|way| is_offered(way))
}

#[cfg(test)]
mod tests;
