//! `haul cp --clients` under a stand-in PBS: submitted, interrupted, and resumed from its journal.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use haul_testkit::compare::compare_paths;
use haul_testkit::mpi::{Kind, Mpi};
use haul_testkit::pbs::Pbs;
use haul_testkit::standin;
use haul_testkit::{Facts, Standin, program, require, wait};

const PATIENCE: Duration = Duration::from_secs(60);

/// Slows down the copy: maximum metadata operations per second on the stand-in filesystem.
const SLOW: &str = "--client-metadata-rate=1500";
const FILES: usize = 300;

/// A PBS with three ranks, a slow source, and a directory for the target.
struct Ground {
    pbs: Pbs,
    mpi: Mpi,
    standin: Standin,
    folder: tempfile::TempDir,
}

fn needed() -> Option<String> {
    // haul prefers Slurm if both are configured.
    let slurm = Path::new("/etc/slurm/slurm.conf").exists() || std::env::var_os("SLURM_CONF").is_some();
    let without = slurm.then(|| "needs a host that is not of a Slurm".to_owned());
    without.or_else(|| Kind::OpenMpi4.needed()).or_else(|| program!().needs_haul()).or_else(standin::needed)
}

impl Ground {
    fn new() -> Self {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let standin = Standin::start(1, &[SLOW]).unwrap();
        // One file per directory, so that each journaled batch is one file.
        for file in 0..FILES {
            let folder = standin.client(0).join(format!("source/folder{file}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("file"), [b'a'; 4096]).unwrap();
        }
        let mpi = Mpi::find(Kind::OpenMpi4).unwrap();
        Self { pbs: Pbs::new(&[host.trim(); 3]).unwrap(), mpi, standin, folder: tempfile::tempdir().unwrap() }
    }

    fn source(&self) -> PathBuf {
        self.standin.client(0).join("source")
    }

    fn copy(&self) -> PathBuf {
        self.folder.path().join("copy")
    }

    fn copying(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program!().path());
        command.args(["cp", "-a", "-T", "--clients=3"]).args(words).arg(self.source()).arg(self.copy());
        command.arg(format!("--mpi-lib={}", self.mpi.library().display()));
        command.current_dir(self.folder.path()).envs(self.mpi.environment().iter().copied());
        command.env("PATH", self.pbs.path()).env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts a copy, and waits until a third of it is done. Returns it with its job ID.
    fn begin(&self) -> (Child, String) {
        let mut child = self.copying(&[]).spawn().unwrap();
        if !wait::until(PATIENCE, || self.files().len() > FILES / 3) {
            child.kill().unwrap();
            panic!("nothing is copied: {:?}", child.wait_with_output().unwrap());
        }
        let jobs = self.pbs.submitted();
        assert_eq!(jobs.len(), 1);
        (child, jobs[0].clone())
    }

    /// Lists the files of the copy that have their final names, with inode and ctime: a file copied
    /// again has another inode.
    fn files(&self) -> BTreeMap<PathBuf, (u64, i64, i64)> {
        let folders = fs::read_dir(self.copy()).into_iter().flatten().flatten();
        let files = folders.map(|folder| folder.path().join("file"));
        let known = |path: PathBuf| {
            let facts = path.metadata().ok()?;
            Some((path, (facts.ino(), facts.ctime(), facts.ctime_nsec())))
        };
        files.filter_map(known).collect()
    }

    /// Lists what haul left in the directory besides the copy.
    fn leftovers(&self) -> Vec<String> {
        let names = fs::read_dir(self.folder.path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != "copy").collect()
    }

    /// Asserts that a resumed copy is complete, leaves nothing behind, and didn't repeat the
    /// journaled files.
    fn judge(&self, before: &BTreeMap<PathBuf, (u64, i64, i64)>, recorded: usize) {
        // The stand-in has attributes of its own.
        let facts = Facts::PRESERVED.difference(Facts::ATTRIBUTES | Facts::HOLES);
        let found = compare_paths(&self.source(), &self.copy(), facts).unwrap();
        assert!(found.list.is_empty(), "{:?}", found.list);
        let after = self.files();
        assert_eq!(after.len(), FILES);
        let kept = before.iter().filter(|(path, file)| after.get(*path) == Some(*file)).count();
        assert!(recorded > 0 && kept >= recorded, "{recorded} recorded, {kept} of {} kept", before.len());
        assert_eq!(self.leftovers(), Vec::<String>::new());
    }

    /// Counts the completed batches in the journal beside the copy.
    fn recorded(&self) -> usize {
        let spools = self.leftovers();
        let spool = spools.iter().find(|name| name.starts_with(".haul-job-")).unwrap();
        parts_in(&fs::read(self.folder.path().join(spool).join("journal")).unwrap())
    }
}

/// Counts the completed batches in a journal: a header line, then records of a length (2 bytes), a
/// checksum (4) and a payload that starts with its kind.
fn parts_in(journal: &[u8]) -> usize {
    const PART: u8 = 2;
    let mut journal = journal.strip_prefix(b"haul journal 2\n").unwrap();
    let mut parts = 0;
    while let Some((head, rest)) = journal.split_at_checked(6) {
        let length = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let Some((payload, rest)) = rest.split_at_checked(length) else { break };
        parts += usize::from(payload.first() == Some(&PART));
        journal = rest;
    }
    parts
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
    let (child, job) = ground.begin();
    ground.pbs.requeue(&job).unwrap();
    let (before, recorded) = (ground.files(), ground.recorded());
    assert!(before.len() < FILES, "the job was over before its host was lost");
    ground.pbs.release(&job).unwrap();
    let output = end_of(child);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(ground.pbs.submitted(), [job]);
    ground.judge(&before, recorded);
}

#[test]
fn a_job_of_pbs_that_takes_too_long_can_be_submitted_again() {
    require!(needed());
    let ground = Ground::new();
    let (child, job) = ground.begin();
    ground.pbs.exceed_walltime(&job).unwrap();
    let output = end_of(child);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let told = format!("haul cp: job {job} took longer than its walltime; to resume, add ");
    let last = said.lines().last().unwrap_or_default();
    let journal = last.strip_prefix(&told).unwrap_or_else(|| panic!("{said}"));
    let (before, recorded) = (ground.files(), ground.recorded());
    assert!(before.len() < FILES, "the job was over before its time");
    let output = end_of(ground.copying(&[journal]).spawn().unwrap());
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert_eq!(ground.pbs.submitted().len(), 2);
    ground.judge(&before, recorded);
}
