//! Replacements for the PBS commands `qsub`, `qstat` and `qdel`. Jobs are processes on this host.
//!
//! Tests trigger what PBS does to jobs on its own: [`Pbs::exceed_walltime`], [`Pbs::requeue`],
//! [`Pbs::release`]. The directory `jobs` holds a job's script (`ID.script`), the directory and
//! environment of its submission (`ID.folder`, `ID.environment`), its first process (`ID.pid`), and
//! what `qstat` reports (`ID.exit`, `ID.queued`).

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::program::write_script;
use crate::slurm::{all_processes, contains, read_of, signal};
use crate::wait;

/// Maximum time for a job's processes to exit.
const END_MAX: Duration = Duration::from_secs(20);

/// Exit status of a job that exceeded its walltime (`JOB_EXEC_KILL_WALLTIME`).
const WALLTIME_EXCEEDED: &str = "-29";

/// The commands, as shell scripts without their first lines.
const PROGRAMS: [(&str, &str); 4] = [
    (
        "qsub",
        "grep -q '^#PBS -q closed' script && { echo 'qsub: Queue is not enabled' >&2; exit 1; }\n\
         id=$(($(ls \"$jobs\" | grep -c 'script$') + 1)).standin\ncp script \"$jobs/$id.script\"\npwd >\"$jobs/$id.folder\"\n\
         export -p >\"$jobs/$id.environment\"\nbegin-job $id\necho $id\n",
    ),
    (
        "begin-job",
        "cd \"$(cat \"$jobs/$1.folder\")\" && . \"$jobs/$1.environment\" || exit\n\
         PBS_JOBID=$1 PBS_NODEFILE=\"$jobs/../nodes\" PBS_STANDIN=\"$jobs\" \
         setsid sh -c 'echo $$ >\"$1\"; exec sh script' sh \"$jobs/$1.pid\" </dev/null >>log 2>&1 &\n",
    ),
    (
        "qstat",
        "for id; do :; done\nstate() { printf 'Job Id: %s\\n    job_state = %s\\n' $id \"$1\"; }\n\
         pid=$(cat \"$jobs/$id.pid\" 2>/dev/null)\n\
         if [ -z \"$pid\" ] || [ -f \"$jobs/$id.queued\" ]; then state Q; echo '    comment = Not Running'; exit; fi\n\
         if kill -0 $pid 2>/dev/null; then state R; exit; fi\n\
         if [ \"$1\" = -x ]; then state F; echo \"    Exit_status = $(cat \"$jobs/$id.exit\" 2>/dev/null || echo 271)\"; exit; fi\n\
         echo \"qstat: $id Job has finished, use -x or -H to obtain historical job information\" >&2; exit 35\n",
    ),
    ("qdel", "kill -s TERM -- -$(cat \"$jobs/$1.pid\")\n"),
];

/// A simulated PBS.
#[derive(Debug)]
pub struct Pbs {
    folder: tempfile::TempDir,
}

impl Pbs {
    /// Creates the commands. Jobs get the hosts `nodes`, one per rank.
    pub fn new(nodes: &[&str]) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        for name in ["bin", "jobs"] {
            fs::create_dir(folder.path().join(name))?;
        }
        let pbs = Self { folder };
        let lines: String = nodes.iter().map(|node| format!("{node}\n")).collect();
        fs::write(pbs.folder.path().join("nodes"), lines)?;
        for (name, body) in PROGRAMS {
            let (jobs, bin) = (pbs.jobs(), pbs.bin());
            let head = format!("#!/bin/sh\njobs='{}'\nPATH='{}':$PATH\n", jobs.display(), bin.display());
            write_script(&pbs.bin().join(name), &(head + body))?;
        }
        Ok(pbs)
    }

    /// Returns the directory with the commands.
    pub fn bin(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    /// Returns a `PATH` with these commands first.
    pub fn path(&self) -> OsString {
        let mut path = self.bin().into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        path
    }

    fn jobs(&self) -> PathBuf {
        self.folder.path().join("jobs")
    }

    fn file(&self, job: &str, what: &str) -> PathBuf {
        self.jobs().join(format!("{job}.{what}"))
    }

    /// Returns a job's script as submitted.
    pub fn script(&self, job: &str) -> String {
        fs::read_to_string(self.file(job, "script")).unwrap_or_default()
    }

    /// Lists the submitted jobs.
    pub fn submitted(&self) -> Vec<String> {
        let names = fs::read_dir(self.jobs()).into_iter().flatten().flatten().map(|entry| entry.file_name());
        let job = |name: OsString| name.to_str()?.strip_suffix(".script").map(str::to_owned);
        let mut jobs: Vec<_> = names.filter_map(job).collect();
        jobs.sort();
        jobs
    }

    /// Lists the running processes of a job.
    pub fn processes_of(&self, job: &str) -> Vec<Pid> {
        let standin = format!("PBS_STANDIN={}\0", self.jobs().display());
        let of_job = |pid: &Pid| {
            let environment = read_of(*pid, "environ");
            contains(&environment, standin.as_bytes())
                && contains(&environment, format!("PBS_JOBID={job}\0").as_bytes())
        };
        all_processes().filter(of_job).collect()
    }

    /// Ends a job that exceeded its walltime as PBS does: SIGTERM, then SIGKILL for what is left.
    pub fn exceed_walltime(&self, job: &str) -> io::Result<()> {
        fs::write(self.file(job, "exit"), WALLTIME_EXCEEDED)?;
        self.processes_of(job).into_iter().for_each(|pid| signal(pid, Signal::TERM));
        let gone = wait::until(END_MAX, || self.processes_of(job).is_empty());
        if gone { Ok(()) } else { self.kill(job) }
    }

    /// Simulates the loss of a job's host: its processes are killed, and PBS requeues the job.
    pub fn requeue(&self, job: &str) -> io::Result<()> {
        fs::write(self.file(job, "queued"), "")?;
        self.kill(job)
    }

    /// Restarts a requeued job.
    pub fn release(&self, job: &str) -> io::Result<()> {
        let mut begin = Command::new(self.bin().join("begin-job"));
        begin.arg(job).stdin(Stdio::null()).process_group(0);
        fs::remove_file(self.file(job, "pid"))?;
        fs::remove_file(self.file(job, "queued"))?;
        let ended = wait::for_end(&mut begin.spawn()?, END_MAX)?;
        if ended.success() { Ok(()) } else { Err(io::Error::other(format!("begin-job: {ended}"))) }
    }

    /// Kills all processes of a job. The script's shell goes first, so that it can't record what
    /// ended the others.
    fn kill(&self, job: &str) -> io::Result<()> {
        let first = fs::read_to_string(self.file(job, "pid")).unwrap_or_default();
        let first = first.trim().parse().ok().and_then(Pid::from_raw);
        let gone = wait::until(END_MAX, || {
            let left = self.processes_of(job);
            first.iter().filter(|pid| left.contains(pid)).for_each(|pid| signal(*pid, Signal::KILL));
            left.iter().for_each(|pid| signal(*pid, Signal::KILL));
            left.is_empty()
        });
        if gone { Ok(()) } else { Err(io::Error::other(format!("processes of job {job} cannot be killed"))) }
    }
}

impl Drop for Pbs {
    fn drop(&mut self) {
        for problem in self.submitted().iter().filter_map(|job| self.kill(job).err()) {
            crate::note!("{problem}");
        }
    }
}
