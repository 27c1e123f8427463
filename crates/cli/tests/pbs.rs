//! `haul cp --clients` under a stand-in PBS: submitted, interrupted, and resumed from its journal.

#![allow(clippy::unwrap_used, clippy::panic)]

mod job;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use haul_testkit::mpi::{Mpi, MpiKind};
use haul_testkit::pbs::Pbs;
use haul_testkit::standin;
use haul_testkit::{Standin, program, require, wait};
use job::{FILES, Half, PATIENCE, SLOW, await_files, slow_tree};

/// A PBS with three ranks, a slow source, and a directory for the target.
struct Ground {
    pbs: Pbs,
    mpi: Mpi,
    _standin: Standin,
    source: PathBuf,
    folder: tempfile::TempDir,
}

fn needed() -> Option<String> {
    // haul prefers Slurm if both are configured.
    let slurm = Path::new("/etc/slurm/slurm.conf").exists() || std::env::var_os("SLURM_CONF").is_some();
    let without = slurm.then(|| "needs a host that is not of a Slurm".to_owned());
    without
        .or_else(|| MpiKind::OpenMpi4.needed())
        .or_else(|| program!().needs_haul())
        .or_else(standin::needed)
}

impl Ground {
    fn new() -> Self {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let standin = Standin::start(1, &[SLOW]).unwrap();
        let source = slow_tree(&standin);
        let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
        let (pbs, folder) = (Pbs::new(&[host.trim(); 3]).unwrap(), tempfile::tempdir().unwrap());
        Self { pbs, mpi, _standin: standin, source, folder }
    }

    fn copy(&self) -> PathBuf {
        self.folder.path().join("copy")
    }

    fn copying(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program!().path());
        command.args(["cp", "-a", "-T", "--clients=3"]).args(words).arg(&self.source).arg(self.copy());
        command.arg(format!("--mpi-lib={}", self.mpi.library().display()));
        command.current_dir(self.folder.path()).envs(self.mpi.environment().iter().copied());
        command.env("PATH", self.pbs.path()).env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts a copy, and waits until a third of it is done. Returns it with its job ID.
    fn begin(&self, words: &[&str]) -> (Child, String) {
        let mut child = self.copying(words).spawn().unwrap();
        await_files(&mut child, &self.copy(), FILES / 3);
        let jobs = self.pbs.submitted();
        assert_eq!(jobs.len(), 1);
        (child, jobs[0].clone())
    }

    /// Lists what haul left in the directory besides the copy.
    fn leftovers(&self) -> Vec<String> {
        let names = fs::read_dir(self.folder.path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != "copy").collect()
    }

    fn half(&self) -> Half {
        let half = Half::of(self.folder.path(), &self.copy());
        assert!(half.files.len() < FILES, "the job was over before it was ended");
        half
    }

    /// Asserts that a resumed copy is complete, leaves nothing behind, and didn't repeat the
    /// journaled files.
    fn judge(&self, half: &Half) {
        half.judge(&self.source, &self.copy());
        assert_eq!(self.leftovers(), Vec::<String>::new());
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn end_of(mut child: Child) -> Output {
    if wait::for_end(&mut child, PATIENCE).is_err() {
        child.kill().unwrap();
    }
    child.wait_with_output().unwrap()
}

#[test]
fn a_job_that_pbs_puts_back_into_the_queue_goes_on_by_its_journal() {
    require!(needed());
    let ground = Ground::new();
    let (child, job) = ground.begin(&[]);
    ground.pbs.requeue(&job).unwrap();
    let half = ground.half();
    ground.pbs.release(&job).unwrap();
    let output = end_of(child);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(ground.pbs.submitted(), [job]);
    ground.judge(&half);
}

#[test]
fn a_job_of_pbs_that_takes_too_long_can_be_submitted_again() {
    require!(needed());
    let ground = Ground::new();
    let (child, job) = ground.begin(&[]);
    ground.pbs.exceed_walltime(&job).unwrap();
    let output = end_of(child);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let told = format!("haul cp: job {job} took longer than its walltime; to resume, add ");
    let last = said.lines().last().unwrap_or_default();
    let journal = last.strip_prefix(&told).unwrap_or_else(|| panic!("{said}"));
    let half = ground.half();
    let output = end_of(ground.copying(&[journal]).spawn().unwrap());
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert_eq!(ground.pbs.submitted().len(), 2);
    ground.judge(&half);
}

/// A manifest lists every file, so a job that writes one has no journal, and skips nothing.
#[test]
fn a_job_of_pbs_with_a_manifest_begins_again() {
    require!(needed());
    let ground = Ground::new();
    let words = ["--verify", "--manifest=SUMS"];
    let (child, job) = ground.begin(&words);
    ground.pbs.requeue(&job).unwrap();
    ground.pbs.release(&job).unwrap();
    let output = end_of(child);
    assert!(output.status.success(), "{output:?}");
    let manifest = ground.folder.path().join("SUMS");
    assert_eq!(fs::read_to_string(&manifest).unwrap().lines().count(), FILES);
    let ground = Ground::new();
    let (child, job) = ground.begin(&words);
    ground.pbs.exceed_walltime(&job).unwrap();
    let output = end_of(child);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("took longer than its walltime; nothing can be resumed; its log is in "), "{said}");
    assert!(!said.contains("--journal"), "{said}");
}
