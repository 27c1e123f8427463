//! `haul cp --clients` and `spdcp -s` with a real Slurm: submitted from outside, inside an
//! allocation, cancelled, requeued.

#![allow(clippy::unwrap_used, clippy::panic)]

mod job;

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use haul_testkit::compare::compare_paths;
use haul_testkit::hosts::{self, Hosts};
use haul_testkit::mpi::Mpi;
use haul_testkit::rustix::process::{Pid, Signal, kill_process};
use haul_testkit::slurm::{self, Slurm};
use haul_testkit::standin;
use haul_testkit::{Facts, Standin, everything, mpi, needs, note, program, require, signals, tests, wait};
use job::{FILES, Half, PATIENCE, SLOW, assert_whole, await_files, files_in, slow_tree};

const NONE: [String; 0] = [];

/// A Slurm whose nodes are processes of this host, and a directory that they all see.
struct Ground {
    slurm: Slurm,
    mpi: Mpi,
    library: String,
    folder: tempfile::TempDir,
}

impl Ground {
    fn new(nodes: usize, kind: mpi::MpiKind) -> Self {
        let mpi = Mpi::find(kind).unwrap();
        let library = format!("--mpi-lib={}", mpi.library().display());
        Self { slurm: Slurm::start(nodes).unwrap(), mpi, library, folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Begins a command line with the environment to find this Slurm and its MPI.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.slurm.command(words);
        command.current_dir(self.folder.path()).envs(self.mpi.environment().iter().copied());
        command.env("LC_ALL", "C").stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Begins a `haul cp`, with this MPI's library if it asks for clients.
    fn copying(&self, words: &[&str]) -> Command {
        let mut command = self.command(&[program!().path().to_str().unwrap(), "cp"]);
        if words.iter().any(|word| word.starts_with("--clients")) {
            command.arg(&self.library);
        }
        command.args(words);
        command
    }

    fn copy(&self, words: &[&str]) -> Output {
        self.copying(words).output().unwrap()
    }

    /// Creates a directory with `spdcp` and the MPI's launcher, and a `PATH` that starts with it:
    /// `spdcp` has no option for either.
    fn spdcp(&self) -> (tempfile::TempDir, OsString) {
        let tools = tempfile::tempdir().unwrap();
        symlink(program!().path(), tools.path().join("spdcp")).unwrap();
        symlink(self.mpi.launcher(), tools.path().join("mpirun")).unwrap();
        symlink(needs::find_tool("orted").unwrap(), tools.path().join("orted")).unwrap();
        let mut path = tools.path().as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap());
        (tools, path)
    }

    /// Lists what haul left in the directory: job directories and token files.
    fn leftovers(&self) -> Vec<String> {
        let names = fs::read_dir(self.folder.path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with('.')).collect()
    }

    /// Waits for all jobs to end, and returns their states.
    fn jobs(&self) -> Vec<String> {
        let states = || lines(self.slurm.said(&["squeue", "-h", "-t", "all", "-o", "%T"]).as_bytes());
        let is_over = |state: &String| !["RUNNING", "COMPLETING"].contains(&state.as_str());
        wait::until(PATIENCE, || states().iter().all(is_over)).then(states).unwrap_or_default()
    }

    fn differences(&self, expected: &str, found: &str) -> Vec<String> {
        let differences = compare_paths(&self.path(expected), &self.path(found), Facts::PRESERVED).unwrap();
        differences.list.iter().map(|difference| format!("{difference:?}")).collect()
    }

    fn is_quiet(&self) -> bool {
        wait::until(PATIENCE, || self.slurm.processes_of_jobs().is_empty())
    }
}

fn needed() -> Option<String> {
    slurm::needed().or_else(|| mpi::MpiKind::OpenMpi4.needed()).or_else(|| program!().needs_haul())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the lines of a text, sorted: several processes print them in any order.
fn lines(bytes: &[u8]) -> Vec<String> {
    let mut lines: Vec<_> = text(bytes).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Returns the files of a copy that have their final names but are incomplete.
fn not_whole(source: &Path, copy: &Path) -> Vec<PathBuf> {
    let files = files_in(copy).into_keys();
    let is_whole = |file: &PathBuf| {
        let original = source.join(file.strip_prefix(copy).unwrap());
        fs::read(file).unwrap() == fs::read(original).unwrap()
    };
    files.filter(|file| !is_whole(file)).collect()
}

/// Starts a copy of the slow tree to `copy`, and waits until a third of it is done.
fn begin_slowly(ground: &Ground, source: &Path, words: &[&str]) -> Child {
    let mut copying = ground.copying(&["-a", "--clients=3"]);
    copying.args(words).arg(source).arg(ground.path("copy"));
    let mut child = copying.spawn().unwrap();
    await_files(&mut child, &ground.path("copy"), FILES / 3);
    child
}

fn job(ground: &Ground) -> String {
    ground.slurm.said(&["squeue", "-h", "-o", "%i"]).trim().to_owned()
}

#[test]
fn a_copy_from_outside_is_that_of_one_process() {
    require!(needed());
    let ground = Ground::new(3, mpi::MpiKind::OpenMpi4);
    everything::spec().build(&ground.path("source")).unwrap();
    fs::create_dir(ground.path("local")).unwrap();
    fs::create_dir(ground.path("batch")).unwrap();
    let local = ground.copy(&["-av", "source", "missing", "local"]);
    let batch = ground.copy(&["-av", "source", "missing", "batch", "--clients=3"]);
    assert_eq!((local.status.code(), batch.status.code()), (Some(1), Some(1)), "{batch:?}");
    assert_eq!(text(&batch.stderr), text(&local.stderr));
    let said = text(&batch.stdout).replace("batch/", "local/");
    assert_eq!(lines(said.as_bytes()), lines(&local.stdout));
    assert_eq!(ground.differences("local/source", "batch/source"), NONE);
    assert_eq!(ground.jobs(), ["FAILED"]);
    assert_eq!(ground.leftovers(), NONE);
}

#[test]
fn a_copy_from_outside_is_reported_once_and_made_with_the_callers_umask() {
    require!(needed().or_else(|| mpi::MpiKind::Mpich4.needed()));
    let ground = Ground::new(2, mpi::MpiKind::Mpich4);
    fs::create_dir(ground.path("source")).unwrap();
    fs::write(ground.path("source/file"), "content").unwrap();
    fs::set_permissions(ground.path("source/file"), fs::Permissions::from_mode(0o666)).unwrap();
    let haul = program!().path().display().to_string();
    let masked = |rest: &str| {
        let script = format!("umask 027; exec {haul} cp {} {rest}", ground.library);
        ground.command(&["sh", "-c", &script]).output().unwrap()
    };
    let copied = masked("-r --clients=2 --stats=json --walltime=600 --queue=main source target");
    assert!(copied.status.success() && copied.stderr.is_empty(), "{copied:?}");
    let told = text(&copied.stdout);
    assert!(told.lines().count() == 1 && told.contains("\"files\":1"), "{told}");
    assert_eq!(fs::metadata(ground.path("target/file")).unwrap().permissions().mode() & 0o777, 0o640);
    // With --debug, the job is reported too.
    let copied = masked("-rT --clients=2 --debug source target");
    let told = text(&copied.stderr);
    assert!(
        copied.status.success()
            && told.contains("haul cp: submitted job ")
            && told.contains("2 processes on ")
    );
    assert_eq!(ground.jobs(), ["COMPLETED", "COMPLETED"]);
}

#[test]
fn spdcp_submits_itself_by_its_name() {
    require!(needed());
    let ground = Ground::new(2, mpi::MpiKind::OpenMpi4);
    fs::create_dir(ground.path("source")).unwrap();
    fs::write(ground.path("source/file"), "content").unwrap();
    let (_tools, path) = ground.spdcp();
    let mut spdcp =
        ground.command(&["/usr/bin/env", "spdcp", "-rp", "-s", "2", "source", "missing", "target"]);
    fs::create_dir(ground.path("target")).unwrap();
    let output = spdcp.env("PATH", &path).output().unwrap();
    assert_eq!(text(&output.stderr), "spdcp: cannot stat 'missing': No such file or directory\n");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(ground.differences("source", "target/source"), NONE);
    // A closed queue is reported as such; usage errors need no job.
    for (words, said) in [
        (&["-r", "-s2", "-q", "closed", "source", "there"][..], "spdcp: the batch system refused the job: "),
        (&["-r", "-s2", "source"][..], "spdcp: missing destination file operand after 'source'"),
    ] {
        let refused = ground
            .command(&[&["/usr/bin/env", "spdcp"], words].concat())
            .env("PATH", &path)
            .output()
            .unwrap();
        assert!(refused.status.code() == Some(1) && text(&refused.stderr).starts_with(said), "{refused:?}");
    }
    assert!(!ground.path("there").exists());
    assert_eq!(ground.jobs(), ["FAILED"]);
    assert_eq!(ground.leftovers(), NONE);
}

#[test]
fn in_an_allocation_its_hosts_copy_and_no_job_is_submitted() {
    require!(needed());
    let ground = Ground::new(3, mpi::MpiKind::OpenMpi4);
    everything::spec().build(&ground.path("source")).unwrap();
    assert!(ground.copy(&["-a", "source", "local"]).status.success());
    let haul = program!().path().display().to_string();
    let inside = |target: &str, clients: u32| {
        format!("exec {haul} cp -a {} --clients={clients} source {target}", ground.library)
    };
    let allocated =
        ground.command(&["salloc", "-Q", "-N3", "-n3", "sh", "-c", &inside("one", 3)]).output().unwrap();
    assert!(allocated.status.success() && allocated.stderr.is_empty(), "{allocated:?}");
    assert_eq!(ground.differences("local", "one"), NONE);
    fs::write(ground.path("script"), format!("#!/bin/sh\n{}\n", inside("two", 3))).unwrap();
    let submitted = ground.command(&["sbatch", "-W", "-N3", "-n3", "-o", "log", "script"]).output().unwrap();
    assert!(submitted.status.success(), "{submitted:?} {:?}", fs::read_to_string(ground.path("log")));
    assert_eq!(ground.differences("local", "two"), NONE);
    let crowded = ground.command(&["salloc", "-Q", "-n2", "sh", "-c", &inside("three", 4)]).output().unwrap();
    let said = text(&crowded.stderr);
    assert!(crowded.status.code() == Some(1) && !ground.path("three").exists());
    assert!(said.starts_with("haul cp: cannot start 4 clients: 4 clients are too many: job "), "{said}");
    assert!(said.ends_with(" has room for 2\n"), "{said}");
    assert_eq!(ground.jobs().len(), 3);
}

#[test]
fn spdcp_in_an_allocation_copies_with_all_its_tasks() {
    require!(needed());
    let ground = Ground::new(3, mpi::MpiKind::OpenMpi4);
    fs::create_dir(ground.path("source")).unwrap();
    fs::write(ground.path("source/file"), "content").unwrap();
    let (_tools, path) = ground.spdcp();
    let copy = |words: &[&str]| {
        let output = ground.command(words).env("PATH", &path).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        text(&output.stderr)
    };
    let told = copy(&["salloc", "-Q", "-N3", "-n3", "/usr/bin/env", "spdcp", "-rpvv", "source", "one"]);
    assert!(told.contains("spdcp: 3 processes on "), "{told}");
    assert_eq!(ground.differences("source", "one"), NONE);
    // -s limits the number of tasks. A task of srun copies alone, since a nested step would wait
    // for it to end.
    let told =
        copy(&["salloc", "-Q", "-N3", "-n3", "/usr/bin/env", "spdcp", "-rpvv", "-s", "2", "source", "two"]);
    assert!(told.contains("spdcp: 2 processes on "), "{told}");
    let told = copy(&["srun", "-Q", "-n1", "/usr/bin/env", "spdcp", "-rpvv", "source", "three"]);
    assert!(!told.contains("processes"), "{told}");
    assert_eq!(ground.differences("source", "three"), NONE);
}

#[test]
fn an_interrupt_ends_the_job_and_progress_is_shown_until_then() {
    require!(needed().or_else(standin::needed));
    signals::restore_for_children().unwrap();
    let ground = Ground::new(3, mpi::MpiKind::OpenMpi4);
    let standin = Standin::start(1, &[SLOW]).unwrap();
    let source = slow_tree(&standin);
    let mut child = begin_slowly(&ground, &source, &["--progress=always"]);
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let shows = |line: &str| line.contains(" files ") && !line.contains(" 0 files ");
    let mut shown = String::new();
    while !shown.lines().any(shows) {
        assert!(said.read_line(&mut shown).unwrap() > 0, "{shown}");
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    said.read_to_string(&mut shown).unwrap();
    note!("{shown}");
    let status = wait::for_end(&mut child, PATIENCE).unwrap();
    assert_eq!(status.code(), Some(130), "{shown}");
    assert!(shown.contains("haul cp: job ") && shown.ends_with(" was cancelled\n"), "{shown}");
    assert!(ground.is_quiet());
    assert_eq!(ground.jobs(), ["CANCELLED"]);
    assert_eq!(not_whole(&source, &ground.path("copy")), Vec::<PathBuf>::new());
    assert!(files_in(&ground.path("copy")).len() < FILES);
    assert_eq!(ground.leftovers(), NONE);
}

#[test]
fn a_job_cancelled_by_others_is_reported_and_its_journal_lets_the_copy_go_on() {
    require!(needed().or_else(standin::needed));
    let ground = Ground::new(3, mpi::MpiKind::OpenMpi4);
    let standin = Standin::start(1, &[SLOW]).unwrap();
    let source = slow_tree(&standin);
    let child = begin_slowly(&ground, &source, &[]);
    let id = job(&ground);
    ground.slurm.run(&["scancel", &id]).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let told = format!("haul cp: job {id} was cancelled; to resume, add ");
    let last = said.lines().last().unwrap_or_default();
    let journal = last.strip_prefix(&told).unwrap_or_else(|| panic!("{said}"));
    assert!(ground.is_quiet());
    assert_eq!(not_whole(&source, &ground.path("copy")), Vec::<PathBuf>::new());
    let half = Half::of(ground.folder.path(), &ground.path("copy"));
    let target = ground.path("copy");
    let words = ["-a", "--clients=3", journal, source.to_str().unwrap(), target.to_str().unwrap()];
    let again = ground.copy(&words);
    assert!(again.status.success() && again.stderr.is_empty(), "{again:?}");
    half.judge(&source, &ground.path("copy"));
}

/// Starts a copy, kills a node of its job, and checks the copy after the job has been requeued.
fn lose_node(pick: impl Fn(&[String]) -> String) {
    let ground = Ground::new(4, mpi::MpiKind::OpenMpi4);
    let standin = Standin::start(1, &[SLOW]).unwrap();
    let source = slow_tree(&standin);
    let mut child = begin_slowly(&ground, &source, &[]);
    let id = job(&ground);
    let nodes = ground.slurm.said(&["squeue", "-h", "-o", "%N", "-j", &id]);
    let nodes = lines(ground.slurm.said(&["scontrol", "show", "hostnames", nodes.trim()]).as_bytes());
    let node = pick(&nodes);
    assert!(ground.slurm.kill_node(&node) > 2);
    let half = Half::of(ground.folder.path(), &ground.path("copy"));
    ground.slurm.declare_lost(&node).unwrap();
    let pending = || ground.slurm.state(&id) == "PENDING";
    let goes_on = wait::until(PATIENCE, || pending() || !matches!(child.try_wait(), Ok(None)));
    assert!(goes_on && pending(), "{:?}", child.wait_with_output());
    // Slurm would wait two minutes before it restarts the job.
    ground.slurm.release(&id).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    half.judge(&source, &ground.path("copy"));
    assert!(ground.is_quiet());
    assert_eq!(ground.leftovers(), NONE);
}

tests! {
    a_job_whose_first_node_is_killed_goes_on_when_it_begins_again [needed().or_else(standin::needed)]
        => lose_node(|nodes| nodes.first().unwrap().clone());
    a_job_whose_last_node_is_killed_goes_on_when_it_begins_again [needed().or_else(standin::needed)]
        => lose_node(|nodes| nodes.last().unwrap().clone());
}

/// Copies inside an allocation that survives the loss of a node. With this `launcher`, the copy
/// goes on without the hosts in `without`, and reports them.
fn lose_node_of_allocation(kind: mpi::MpiKind, launcher: Option<&str>, without: &str) {
    let hosts = Hosts::new(3).unwrap();
    let standin = Standin::start(1, &[SLOW]).unwrap();
    let source = slow_tree(&standin);
    let mpi = Mpi::find(kind).unwrap();
    // Keep only the variables that choose the network; Slurm starts the processes.
    let networks = hosts.environment(&mpi, 1).unwrap().into_iter().filter(|(name, _)| {
        name.contains("_if_include") || name.starts_with("UCX") || name.starts_with("FI_")
    });
    let library = format!("--mpi-lib={}", mpi.library().display());
    let slurm = Slurm::start_over(&hosts).unwrap();
    let ground = Ground { slurm, mpi, library, folder: tempfile::tempdir().unwrap() };
    let mut copying = ground.command(&["salloc", "-Q", "--no-kill", "-N3", "-n3"]);
    copying.arg(program!().path()).args(["cp", "-a", "--clients=3", &ground.library]);
    copying.args(launcher.map(|launcher| format!("--launcher={launcher}")));
    copying.arg(&source).arg(ground.path("copy")).envs(networks).env("HAUL_SILENCE", "4");
    let mut child = copying.spawn().unwrap();
    await_files(&mut child, &ground.path("copy"), FILES / 4);
    hosts.kill_all("h3").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    note!("{}: {said}", kind.name());
    assert!(output.status.success(), "{said}");
    assert!(said.contains(&format!("; restarting the remaining work without {without}\n")), "{said}");
    assert_whole(&source, &ground.path("copy"));
    assert_eq!(ground.leftovers(), NONE);
}

#[test]
fn a_node_that_is_lost_within_an_allocation_is_left_out() {
    require!(needed().or_else(standin::needed).or_else(hosts::needed));
    lose_node_of_allocation(mpi::MpiKind::OpenMpi4, None, "h3");
}

/// srun doesn't name the lost host, and waits until Slurm has given it up, so the copy ends on the
/// launch process's own host.
#[test]
fn where_nobody_names_the_node_that_is_lost_the_copy_ends_on_one_host() {
    require!(
        needs::full_run(),
        needed().or_else(standin::needed).or_else(hosts::needed).or_else(|| mpi::MpiKind::Mpich4.needed())
    );
    lose_node_of_allocation(mpi::MpiKind::Mpich4, Some("srun --mpi=pmi2"), "h2, h3");
}
