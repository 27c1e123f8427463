//! Families of programs that start ranks.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

/// Launcher family: each takes different options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LauncherFamily {
    /// Open MPI up to release 4.
    OpenMpi4,
    /// Open MPI from release 5 on.
    OpenMpi5,
    /// MPICH and its derivatives (Hydra).
    Mpich,
    /// Slurm's srun.
    Srun,
    /// Unknown launcher; it gets `-n`.
    Other,
}

impl LauncherFamily {
    /// Determines the family from a program's version output.
    #[must_use]
    pub fn of_version(text: &str) -> Self {
        // Under other names, Open MPI's launcher prints the name of its runtime.
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

    pub(super) fn of_program(program: &Path) -> std::io::Result<Self> {
        // srun reads its configuration before it prints its version.
        if program.file_name() == Some(OsStr::new("srun")) {
            return Ok(Self::Srun);
        }
        let output = Command::new(program).arg("--version").stdin(Stdio::null()).output()?;
        Ok(Self::of_version(&String::from_utf8_lossy(&output.stdout)))
    }

    /// Determines the family from the name of a library, if possible.
    pub(super) fn of_library(library: &Path) -> Option<Self> {
        let name = library.file_name()?.to_str()?;
        let begins = |start: &str| name.starts_with(start);
        match () {
            () if begins("libmpi.so.40") || begins("libmpi.so.80") => Some(Self::OpenMpi4),
            () if begins("libmpi.so.12") || begins("libmpich") || begins("libmpi_abi") => Some(Self::Mpich),
            () => None,
        }
    }

    /// True if the launcher has an option to select hosts.
    #[must_use]
    pub fn chooses_hosts(self) -> bool {
        self != Self::Other
    }

    pub(super) fn fits(self, library: Option<Self>) -> bool {
        match library {
            Some(Self::Mpich) => self == Self::Mpich,
            Some(_) => matches!(self, Self::OpenMpi4 | Self::OpenMpi5),
            None => true,
        }
    }
}
