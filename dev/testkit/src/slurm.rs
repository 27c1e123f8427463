//! A real Slurm on this machine: munged, the controller and several node daemons, in a
//! private directory.
//!
//! The node daemons listen on ports of this host, and the controller sees them as nodes with four
//! CPUs. The machine's own Slurm and munge are not touched: programs find this one by `SLURM_CONF`,
//! which [`Slurm::environment`] returns.
//!
//! On drop, everything it started is killed, including jobs, and the directory is removed.
//! Leftovers of a killed test are cleaned up by the next one that starts a Slurm.

use std::fs::{self, File};
use std::io::{self, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::hosts::Hosts;
use crate::needs::{self, find_tool};
use crate::{Sandbox, wait};

/// Maximum wait for the daemons.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum run time of a command, which may be a job.
const JOB_MAX: Duration = Duration::from_secs(600);
/// Prefix of the directory name. It is short because socket paths are limited to 107 bytes.
const PREFIX: &str = "hs-";

/// Returns the reason a Slurm can't be started, if any.
#[must_use]
pub fn needed() -> Option<String> {
    let tools = ["munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel", "srun"];
    needs::root().or_else(|| tools.into_iter().find_map(needs::tool))
}

/// A node whose daemon is to be started.
#[derive(Clone, Debug)]
pub struct SlurmNode {
    /// The node's name.
    pub name: String,
    /// Address at which it is reached.
    pub address: String,
    /// Command prefix that runs a program on the node's host; empty for this host.
    pub agent: Vec<String>,
}

impl SlurmNode {
    /// Describes nodes on this host: `n1`, `n2`, ...
    pub fn local(count: usize) -> Vec<Self> {
        let node =
            |number| Self { name: format!("n{number}"), address: "127.0.0.1".to_owned(), agent: Vec::new() };
        (1..=count).map(node).collect()
    }

    /// Describes one node per host, with the same name.
    pub fn on(hosts: &Hosts) -> Vec<Self> {
        let node = |(number, name): (usize, String)| Self {
            address: format!("10.99.0.{}", number + 1),
            agent: hosts.way_to(&name),
            name,
        };
        hosts.names().enumerate().map(node).collect()
    }
}

/// A running Slurm.
#[derive(Debug)]
pub struct Slurm {
    folder: PathBuf,
    nodes: Vec<SlurmNode>,
    daemons: Vec<Child>,
    _root: Sandbox,
}

impl Slurm {
    /// Starts a Slurm with `count` nodes on this host, and waits until they are idle.
    pub fn start(count: usize) -> io::Result<Self> {
        Self::start_on(SlurmNode::local(count), "127.0.0.1", &[])
    }

    /// Starts a Slurm with one node per host and its controller on the first. Its commands must run
    /// on one of these hosts.
    pub fn start_over(hosts: &Hosts) -> io::Result<Self> {
        let nodes = SlurmNode::on(hosts);
        let (address, agent) =
            nodes.first().map(|node| (node.address.clone(), node.agent.clone())).unwrap_or_default();
        Self::start_on(nodes, &address, &agent)
    }

    /// Starts a Slurm with these nodes. The controller listens at `address` and is started with the
    /// command prefix `agent`.
    pub fn start_on(nodes: Vec<SlurmNode>, address: &str, agent: &[String]) -> io::Result<Self> {
        clean_up_leftovers();
        let name = format!("{PREFIX}{}-", std::process::id());
        let folder = tempfile::Builder::new().prefix(&name).tempdir_in("/tmp")?.keep();
        let root = Sandbox::adopt(folder.clone());
        let mut slurm = Self { folder, nodes, daemons: Vec::new(), _root: root };
        slurm.write_configuration(address, agent)?;
        slurm.start_munge(agent)?;
        slurm.run_daemon(agent, "slurmctld", &["-D".to_owned(), "-c".to_owned()])?;
        for node in slurm.nodes.clone() {
            fs::create_dir(slurm.folder.join(&node.name))?;
            slurm.start_node(&node)?;
        }
        let count = slurm.nodes.len().to_string();
        if wait::until(PATIENCE, || slurm.said(&["sinfo", "-h", "-t", "idle", "-o", "%D"]).trim() == count) {
            return Ok(slurm);
        }
        let log = fs::read_to_string(slurm.folder.join("slurmctld.log")).unwrap_or_default();
        Err(io::Error::other(format!("the nodes of Slurm did not come up:\n{log}")))
    }

    /// Returns the environment variable with which programs find this Slurm.
    pub fn environment(&self) -> (&'static str, PathBuf) {
        ("SLURM_CONF", self.folder.join("slurm.conf"))
    }

    /// Returns a directory visible to all nodes, for use by tests.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns a command for this Slurm, to run on the first node's host.
    pub fn command(&self, words: &[&str]) -> Command {
        let agent = self.nodes.first().map_or(&[][..], |node| &node.agent);
        let (name, value) = self.environment();
        let mut command = command_of(agent, words.first().copied().unwrap_or_default());
        command.args(words.iter().skip(1)).env(name, value).stdin(Stdio::null());
        command
    }

    /// Runs a command for this Slurm.
    pub fn run(&self, words: &[&str]) -> io::Result<Output> {
        wait::for_output(&mut self.command(words), JOB_MAX)
    }

    /// Returns the output of a command, or an empty string.
    pub fn said(&self, words: &[&str]) -> String {
        let output = self.run(words).map(|output| output.stdout).unwrap_or_default();
        String::from_utf8_lossy(&output).into_owned()
    }

    /// Returns a job's state in Slurm's terms, or an empty string if the job is unknown.
    pub fn state(&self, job: &str) -> String {
        self.said(&["squeue", "-h", "-t", "all", "-o", "%T", "-j", job]).trim().to_owned()
    }

    /// Kills a node and everything running on it, like a power cut. Returns the
    /// number of processes.
    pub fn kill_node(&self, name: &str) -> usize {
        let pids = self.processes_of(name);
        // Stop them all first, so that none can report the death of another.
        pids.iter().for_each(|pid| signal(*pid, Signal::STOP));
        let pids = self.processes_of(name);
        pids.iter().for_each(|pid| signal(*pid, Signal::KILL));
        pids.len()
    }

    /// Declares a node lost to the controller, instead of waiting until it notices.
    pub fn declare_lost(&self, name: &str) -> io::Result<()> {
        self.run(&["scontrol", "update", &format!("NodeName={name}"), "State=DOWN", "Reason=lost"]).map(drop)
    }

    /// Starts a job soon that Slurm requeued with a delay. Not immediately, because a node daemon
    /// ignores a job that is started within the second in which it was ordered to terminate it.
    pub fn release(&self, job: &str) -> io::Result<()> {
        self.run(&["scontrol", "update", &format!("JobId={job}"), "StartTime=now+2"]).map(drop)
    }

    /// Lists the running processes of all jobs.
    pub fn processes_of_jobs(&self) -> Vec<Pid> {
        let of_job = |pid: &Pid| {
            let environment = read_of(*pid, "environ");
            contains(&environment, &self.mark()) && contains(&environment, b"SLURM_JOB_ID=")
        };
        all_processes().filter(of_job).collect()
    }

    /// Lists a node's processes. Daemons have its log open; their children have its name in
    /// the environment.
    fn processes_of(&self, name: &str) -> Vec<Pid> {
        let log = self.folder.join(format!("{name}.log"));
        let variable = format!("SLURMD_NODENAME={name}\0");
        let belongs = |pid: &Pid| {
            let environment = read_of(*pid, "environ");
            (contains(&environment, variable.as_bytes()) && contains(&environment, &self.mark()))
                || has_open(*pid, &log)
        };
        all_processes().filter(belongs).collect()
    }

    fn mark(&self) -> Vec<u8> {
        mark_of(&self.folder)
    }

    fn start_node(&mut self, node: &SlurmNode) -> io::Result<()> {
        let agent = node.agent.clone();
        self.run_daemon(&agent, "slurmd", &["-D".to_owned(), "-N".to_owned(), node.name.clone()])
    }

    fn start_munge(&mut self, agent: &[String]) -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt;
        let key = self.folder.join("key");
        io::copy(&mut File::open("/dev/urandom")?.take(64), &mut File::create(&key)?)?;
        fs::set_permissions(&key, fs::Permissions::from_mode(0o400))?;
        let option = |name: &str, file: &str| format!("--{name}={}", self.folder.join(file).display());
        let options = [
            "--foreground".to_owned(),
            "--force".to_owned(),
            option("key-file", "key"),
            option("socket", "munge.sock"),
            option("pid-file", "munge.pid"),
            option("log-file", "munge.log"),
            option("seed-file", "munge.seed"),
        ];
        self.run_daemon(agent, "munged", &options)?;
        let socket = self.folder.join("munge.sock");
        if wait::until(PATIENCE, || socket.exists()) {
            return Ok(());
        }
        Err(io::Error::other("munged made no socket"))
    }

    fn run_daemon(&mut self, agent: &[String], program: &str, options: &[String]) -> io::Result<()> {
        let path = find_tool(program).unwrap_or_else(|| PathBuf::from(program));
        let (name, value) = self.environment();
        let daemon = command_of(agent, path)
            .args(options)
            .env(name, value)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        self.daemons.push(daemon);
        Ok(())
    }

    fn write_configuration(&self, address: &str, agent: &[String]) -> io::Result<()> {
        let folder = self.folder.display();
        fs::create_dir(self.folder.join("state"))?;
        let host = wait::for_output(&mut command_of(agent, "hostname"), PATIENCE)?.stdout;
        let host = String::from_utf8_lossy(&host).trim().to_owned();
        let mut ports = free_ports(self.nodes.len() + 1)?.into_iter();
        let controller_port = ports.next().unwrap_or_default();
        let mut text = format!(
            "ClusterName=haul\nSlurmctldHost={host}({address})\nSlurmctldPort={controller_port}\n\
             AuthInfo=socket={folder}/munge.sock\nStateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/%n\n\
             SlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/%n.pid\n\
             SlurmctldLogFile={folder}/slurmctld.log\nSlurmdLogFile={folder}/%n.log\n{SETTINGS}"
        );
        for (node, port) in self.nodes.iter().zip(ports) {
            let SlurmNode { name, address, agent } = node;
            let host = wait::for_output(&mut command_of(agent, "hostname"), PATIENCE)?.stdout;
            let host = String::from_utf8_lossy(&host).trim().to_owned();
            text += &format!(
                "NodeName={name} NodeHostname={host} NodeAddr={address} Port={port} CPUs=4 State=UNKNOWN\n"
            );
        }
        let names = self.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>().join(",");
        text += &format!("PartitionName=main Nodes={names} Default=YES MaxTime=INFINITE State=UP\n");
        text += &format!("PartitionName=closed Nodes={names} MaxTime=INFINITE State=INACTIVE\n");
        fs::write(self.folder.join("slurm.conf"), text)?;
        fs::write(self.folder.join("cgroup.conf"), "CgroupPlugin=cgroup/v1\n")
    }
}

/// Settings that don't depend on the directory. No cgroups, no accounting; short timeouts.
const SETTINGS: &str = "SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SlurmdParameters=config_overrides
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,sched_min_interval=0,bf_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdTimeout=2
KillWait=2
";

impl Drop for Slurm {
    fn drop(&mut self) {
        kill_all(&self.mark(), &self.folder);
        for daemon in &mut self.daemons {
            daemon.kill().unwrap_or_default();
            wait::for_end(daemon, wait::AFTERMATH_MAX).map(drop).unwrap_or_default();
        }
    }
}

/// Returns the environment entry that identifies this Slurm's processes.
fn mark_of(folder: &Path) -> Vec<u8> {
    format!("SLURM_CONF={}/slurm.conf\0", folder.display()).into_bytes()
}

/// Kills everything that belongs to the Slurm in `folder`, until nothing is left. Spares this
/// process, which may have the same environment entry.
fn kill_all(mark: &[u8], folder: &Path) {
    let own = rustix::process::getpid();
    let left = || -> Vec<Pid> {
        let belongs = |pid: &Pid| {
            *pid != own && (contains(&read_of(*pid, "environ"), mark) || has_open_below(*pid, folder))
        };
        all_processes().filter(belongs).collect()
    };
    let gone = wait::until(PATIENCE, || {
        let left = left();
        left.iter().for_each(|pid| signal(*pid, Signal::KILL));
        left.is_empty()
    });
    if !gone {
        crate::note!("processes of the Slurm in {} cannot be killed", folder.display());
    }
}

/// Removes leftovers of killed tests: directories whose process is gone.
fn clean_up_leftovers() {
    for entry in fs::read_dir("/tmp").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        let Some(owner) = owner else { continue };
        if !Path::new(&format!("/proc/{owner}")).exists() {
            let folder = entry.path();
            kill_all(&mark_of(&folder), &folder);
            drop(Sandbox::adopt(folder));
        }
    }
}

fn command_of(agent: &[String], program: impl AsRef<std::ffi::OsStr>) -> Command {
    match agent.split_first() {
        None => Command::new(program),
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    }
}

/// Finds ports without a listener, outside the range from which the kernel takes the ports of
/// connections: no connection can take one of them before its daemon does.
pub(crate) fn free_ports(count: usize) -> io::Result<Vec<u16>> {
    const FIRST: u16 = 10_000;
    /// Each call starts elsewhere, so that daemons just stopped are not in the way.
    static CALLS: AtomicU16 = AtomicU16::new(0);
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")?;
    let end = range.split_whitespace().next().and_then(|end| end.parse().ok()).unwrap_or(FIRST);
    let ports = if end > FIRST + 1000 { FIRST..end } else { 1025..FIRST };
    let calls = usize::from(CALLS.fetch_add(1, Ordering::Relaxed));
    let skipped = (std::process::id() as usize * 16 + calls * 64) % ports.len();
    // All stay bound until the last is found, so that they differ.
    let listeners: Vec<_> = (ports.clone().skip(skipped).chain(ports))
        .filter_map(|port| TcpListener::bind(("127.0.0.1", port)).ok())
        .take(count)
        .collect();
    if listeners.len() < count {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    listeners.iter().map(|listener| listener.local_addr().map(|address| address.port())).collect()
}

/// Lists all processes on this machine.
pub(crate) fn all_processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw))
}

/// Reads a file in `/proc/PID`; empty if the process is gone.
pub(crate) fn read_of(pid: Pid, file: &str) -> Vec<u8> {
    fs::read(format!("/proc/{}/{file}", pid.as_raw_nonzero())).unwrap_or_default()
}

fn links_of(pid: Pid) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).into_iter().flatten().flatten();
    entries.filter_map(|entry| fs::read_link(entry.path()).ok())
}

fn has_open(pid: Pid, file: &Path) -> bool {
    links_of(pid).any(|link| link == file)
}

/// Returns true if the process has a daemon's log in `folder` open.
fn has_open_below(pid: Pid, folder: &Path) -> bool {
    links_of(pid)
        .any(|link| link.parent() == Some(folder) && link.extension().is_some_and(|end| end == "log"))
}

pub(crate) fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

pub(crate) fn signal(pid: Pid, signal: Signal) {
    // It may already have exited.
    kill_process(pid, signal).unwrap_or_default();
}
