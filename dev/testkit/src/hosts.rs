//! Several hosts on one machine: network namespaces with their own host names,
//! connected by a switch.
//!
//! ```text
//!  ID-h1 ┌─────────┐      ┌──────────────┐ ID-switch
//!        │ eth0 ───┼──────┼─ port1 ┐     │
//!        │10.99.0.1│      │        │     │
//!  ID-h2 ├─────────┤      │        ├ br0 │
//!        │ eth0 ───┼──────┼─ port2 ┘     │
//!        │10.99.0.2│      │              │
//!        └─────────┘      └──────────────┘
//! ```
//!
//! The switch is in a namespace too. So the machine's own network is not touched, and concurrent
//! tests can use the same addresses. A process on a host sees the host's name and an `/etc/hosts`
//! with all of them. Files and processes are the machine's, as if all hosts shared a file system.
//! Dropping [`Hosts`] kills the processes on them and removes them. Leftovers of a killed test are
//! removed when the next hosts are created.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::mpi::{LauncherFamily, Mpi};
use crate::needs::{self, find_tool};
use crate::run::TestRun;
use crate::{mount, wait};

const PREFIX: &str = "haul-";

/// Suffix of the switch's namespace, after the prefix and process ID.
const SWITCH: &str = "switch";

/// Directory in which `ip` keeps namespace names.
const NAMES: &str = "/run/netns";

/// Maximum wait for killed processes.
const DYING_MAX: Duration = Duration::from_secs(10);

/// Number of sets of hosts made by this process, for unique names.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Executes a command on a host: `enter HOST PROGRAM ARGUMENTS`. `ip` gives it a mount namespace.
const ENTER: &str = r#"#!/bin/sh
host=$1; shift
exec ip netns exec "ID-$host" unshare --uts -- /bin/sh -c '
    echo "$1" > /proc/sys/kernel/hostname &&
    mount --bind "FOLDER/hosts" /etc/hosts &&
    shift && exec "$@"' sh "$host" "$@"
"#;

/// Runs a command on a host like `ssh`: options, the host, and words for a shell there.
const AGENT: &str = r#"#!/bin/sh
while :; do
    case $1 in
        -[bcDeFIiJLlmOopQRSWw]) shift 2 ;;
        -*) shift ;;
        *) break ;;
    esac
done
host=$1; shift
exec "FOLDER/enter" "$host" /bin/sh -c "$*"
"#;

/// Hosts `h1`, `h2` and so on, removed on drop.
#[derive(Debug)]
pub struct Hosts {
    id: String,
    count: u32,
    folder: PathBuf,
}

/// Returns the reason to skip a test on several hosts, for [`require!`](crate::require).
#[must_use]
pub fn needed() -> Option<String> {
    let tools = || ["ip", "unshare"].into_iter().find_map(needs::tool);
    needs::root().or_else(tools).or_else(|| {
        let allowed = mount::run(Command::new("unshare").args(["--net", "--uts", "true"]));
        allowed.err().map(|_| "needs to be allowed to make namespaces".to_owned())
    })
}

impl Hosts {
    /// Creates `count` hosts.
    pub fn new(count: u32) -> io::Result<Self> {
        remove_orphans();
        let id = format!("{PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(&id);
        fs::create_dir_all(&folder)?;
        // From here on, a failure removes what has been created.
        let hosts = Self { id, count, folder };
        hosts.write_files()?;
        hosts.connect()?;
        Ok(hosts)
    }

    /// Returns the names of the hosts.
    pub fn names(&self) -> impl Iterator<Item = String> + use<> {
        (1..=self.count).map(|number| format!("h{number}"))
    }

    /// Returns a command that runs on a host.
    pub fn on(&self, host: &str, program: impl AsRef<OsStr>) -> TestRun {
        let run = TestRun::new(&self.folder.join("enter")).arg(host).arg(program.as_ref());
        // Temporary files of MPI libraries are removed with the hosts.
        run.env("TMPDIR", &self.folder)
    }

    /// Returns the command prefix that runs a program on a host.
    pub fn way_to(&self, host: &str) -> Vec<String> {
        vec![self.folder.join("enter").display().to_string(), host.to_owned()]
    }

    /// Returns the path of a program with the interface of `ssh` that runs commands on these hosts.
    pub fn agent(&self) -> PathBuf {
        self.folder.join("agent")
    }

    /// Returns the environment, in addition to [`Mpi::environment`], with which a launcher starts a
    /// job on all hosts, with `each` slots per host.
    pub fn environment(&self, mpi: &Mpi, each: u32) -> io::Result<Vec<(&'static str, String)>> {
        let agent = self.agent().display().to_string();
        let list = self.folder.join(format!("list-{:?}-{each}", mpi.kind().family()));
        let line = |name: String| match mpi.kind().family() {
            LauncherFamily::OpenMpi => format!("{name} slots={each}\n"),
            LauncherFamily::Mpich => format!("{name}:{each}\n"),
        };
        fs::write(&list, self.names().map(line).collect::<String>())?;
        let list = list.display().to_string();
        let device = "eth0".to_owned();
        Ok(match mpi.kind().family() {
            LauncherFamily::OpenMpi => vec![
                ("OMPI_MCA_plm_rsh_agent", agent.clone()),
                ("PRTE_MCA_plm_ssh_agent", agent),
                ("OMPI_MCA_orte_default_hostfile", list.clone()),
                ("PRTE_MCA_prte_default_hostfile", list),
                // If oversubscription were allowed, all ranks would go to the first host.
                ("PRTE_MCA_rmaps_default_mapping_policy", "slot".to_owned()),
                ("OMPI_MCA_oob_tcp_if_include", device.clone()),
                ("PRTE_MCA_prte_if_include", device.clone()),
                ("OMPI_MCA_btl_tcp_if_include", device),
                // Inside a Slurm job, the launcher would start its helpers with `srun`.
                ("OMPI_MCA_plm", "rsh".to_owned()),
                ("PRTE_MCA_plm", "ssh".to_owned()),
            ],
            LauncherFamily::Mpich => vec![
                ("HYDRA_LAUNCHER", "ssh".to_owned()),
                ("HYDRA_LAUNCHER_EXEC", agent),
                ("HYDRA_HOST_FILE", list),
                ("HYDRA_IFACE", device),
                // All hosts are one machine, so UCX would use shared memory instead of the network.
                ("UCX_TLS", "tcp,self".to_owned()),
                ("FI_PROVIDER", "tcp".to_owned()),
            ],
        })
    }

    /// Returns the command line of a job on all hosts, started on the first:
    /// `mpirun -n RANKS PROGRAM`.
    pub fn job(&self, mpi: &Mpi, ranks: u32, program: &Path) -> io::Result<TestRun> {
        let each = ranks.div_ceil(self.count);
        let run = self.on("h1", mpi.launcher());
        let run = mpi.environment().iter().fold(run, |run, (name, value)| run.env(name, value));
        let across = self.environment(mpi, each)?;
        let run = across.iter().fold(run, |run, (name, value)| run.env(name, value));
        Ok(run.args(["-n", &ranks.to_string()]).arg(program))
    }

    /// Disconnects a host: none of its packets arrive, and none reach it.
    pub fn cut(&self, host: &str) -> io::Result<()> {
        self.set_port(host, "down")
    }

    /// Reconnects a host.
    pub fn mend(&self, host: &str) -> io::Result<()> {
        self.set_port(host, "up")
    }

    /// Lists the processes on a host, without zombies.
    pub fn processes(&self, host: &str) -> io::Result<Vec<u32>> {
        processes_in(named(&self.namespace(host))?)
    }

    /// Kills every process on a host, like a power failure, and waits until all are gone.
    pub fn kill_all(&self, host: &str) -> io::Result<()> {
        kill_all_in(named(&self.namespace(host))?)
    }

    fn namespace(&self, host: &str) -> String {
        format!("{}-{host}", self.id)
    }

    fn set_port(&self, host: &str, state: &str) -> io::Result<()> {
        let port = host.replacen('h', "port", 1);
        ip(["-n", &self.namespace(SWITCH), "link", "set", &port, state])
    }

    fn write_files(&self) -> io::Result<()> {
        let addresses = (1..).zip(self.names()).map(|(number, name)| format!("10.99.0.{number} {name}\n"));
        let addresses: String =
            std::iter::once("127.0.0.1 localhost\n".to_owned()).chain(addresses).collect();
        fs::write(self.folder.join("hosts"), addresses)?;
        for (name, script) in [("enter", ENTER), ("agent", AGENT)] {
            let path = self.folder.join(name);
            let script = script.replace("ID", &self.id).replace("FOLDER", &self.folder.display().to_string());
            fs::write(&path, script)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        Ok(())
    }

    fn connect(&self) -> io::Result<()> {
        let switch = self.namespace(SWITCH);
        ip(["netns", "add", &switch])?;
        ip_lines(&switch, "link add br0 type bridge\nlink set br0 up\n")?;
        for (number, name) in (1..).zip(self.names()) {
            let host = self.namespace(&name);
            ip(["netns", "add", &host])?;
            ip_lines(
                &host,
                &format!(
                    "link add eth0 type veth peer name port{number} netns {switch}\n\
                     address add 10.99.0.{number}/24 dev eth0\nlink set lo up\nlink set eth0 up\n"
                ),
            )?;
            ip_lines(&switch, &format!("link set port{number} master br0 up\n"))?;
        }
        Ok(())
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        take_down(&self.id);
    }
}

fn ip<const N: usize>(arguments: [&str; N]) -> io::Result<()> {
    mount::run(Command::new(tool()).args(arguments)).map(drop)
}

/// Runs several `ip` commands in a namespace.
fn ip_lines(namespace: &str, lines: &str) -> io::Result<()> {
    let script = "printf %s \"$2\" | \"$0\" -n \"$1\" -batch -";
    let mut shell = Command::new("sh");
    mount::run(shell.args(["-c", script]).arg(tool()).args([namespace, lines])).map(drop)
}

fn tool() -> PathBuf {
    find_tool("ip").unwrap_or_else(|| PathBuf::from("ip"))
}

/// Identifies a namespace even after its name is deleted.
#[derive(Clone, Copy, PartialEq, Eq)]
struct NamespaceId {
    device: u64,
    inode: u64,
}

fn identity(of: &Path) -> io::Result<NamespaceId> {
    let facts = fs::metadata(of)?;
    Ok(NamespaceId { device: facts.dev(), inode: facts.ino() })
}

fn named(namespace: &str) -> io::Result<NamespaceId> {
    identity(&Path::new(NAMES).join(namespace))
}

fn processes_in(namespace: NamespaceId) -> io::Result<Vec<u32>> {
    let pids = fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // Processes that have exited, or exit during the search, are in no namespace.
    let is_in =
        |pid: &u32| identity(Path::new(&format!("/proc/{pid}/ns/net"))).is_ok_and(|own| own == namespace);
    Ok(pids.filter(is_in).collect())
}

fn kill_all_in(namespace: NamespaceId) -> io::Result<()> {
    let mut failure = None;
    // Repeat, because survivors may start others.
    let all_gone = wait::until(DYING_MAX, || match processes_in(namespace) {
        Ok(processes) => {
            let pids = processes.iter().filter_map(|&pid| Pid::from_raw(i32::try_from(pid).ok()?));
            for pid in pids {
                // An error means that the process has already exited.
                rustix::process::kill_process(pid, Signal::KILL).unwrap_or_default();
            }
            processes.is_empty()
        }
        Err(error) => {
            failure = Some(error);
            true
        }
    });
    match failure {
        Some(error) => Err(error),
        None if all_gone => Ok(()),
        None => Err(io::Error::other("processes of a host do not die")),
    }
}

/// Kills and removes everything that belongs to a set of hosts.
fn take_down(id: &str) {
    let of_it = format!("{id}-");
    for name in names().filter(|name| name.starts_with(&of_it)) {
        // Another test may be removing the same leftovers.
        let Ok(namespace) = named(&name) else { continue };
        let removed = kill_all_in(namespace).and_then(|()| ip(["netns", "delete", &name]));
        // A process may have entered before the name was deleted.
        let ended = kill_all_in(namespace);
        if let (Err(error), true) = (removed.and(ended), Path::new(NAMES).join(&name).exists()) {
            crate::note!("cannot remove {name}: {error}");
        }
    }
    let folder = std::env::temp_dir().join(id);
    if folder.exists() {
        crate::sandbox::remove_tree(&folder);
    }
}

fn names() -> impl Iterator<Item = String> {
    let entries = fs::read_dir(NAMES).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

/// Removes hosts whose test process is gone.
fn remove_orphans() {
    let owner = |name: &str| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok();
    for name in names() {
        let gone = owner(&name).is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists());
        if let (true, Some((id, _))) = (gone, name.rsplit_once('-')) {
            take_down(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    fn said(run: TestRun) -> String {
        let outcome = run.finish().unwrap();
        assert!(outcome.succeeded(), "{}", outcome.errors());
        outcome.printed()
    }

    #[test]
    fn hosts_have_names_and_reach_each_other_until_cut() {
        crate::require!(needed());
        let hosts = Hosts::new(2).unwrap();
        assert_eq!(hosts.names().collect::<Vec<_>>(), ["h1", "h2"]);
        assert_eq!(said(hosts.on("h2", "uname").arg("-n")), "h2\n");
        let by_agent =
            TestRun::new(&hosts.agent()).args(["-x", "-p", "22", "h1", "uname -n;", "echo 'a  b'"]);
        assert_eq!(said(by_agent), "h1\na  b\n");
        let state = |host: &str| said(hosts.on(host, "cat").arg("/sys/class/net/eth0/carrier"));
        assert_eq!(state("h1"), "1\n");
        hosts.cut("h2").unwrap();
        assert_eq!((state("h1"), state("h2")), ("1\n".to_owned(), "0\n".to_owned()));
        hosts.mend("h2").unwrap();
        assert_eq!(state("h2"), "1\n");
    }

    #[test]
    fn what_runs_on_a_host_is_known_and_ends_with_it() {
        crate::require!(needed());
        let hosts = Hosts::new(2).unwrap();
        let running = hosts.on("h1", "sleep").arg("1000").start().unwrap();
        assert!(wait::until(DYING_MAX, || hosts.processes("h1").unwrap().contains(&running.process())));
        assert_eq!(hosts.processes("h2").unwrap(), []);
        hosts.kill_all("h1").unwrap();
        assert_eq!(hosts.processes("h1").unwrap(), []);
        assert!(running.finish().unwrap().crashed());
        let other = hosts.on("h2", "sleep").arg("1000").start().unwrap();
        assert!(wait::until(DYING_MAX, || hosts.processes("h2").unwrap().contains(&other.process())));
        let (id, folder) = (hosts.id.clone(), hosts.folder.clone());
        drop(hosts);
        assert!(other.finish().unwrap().crashed());
        assert!(!folder.exists() && !names().any(|name| name.starts_with(&id)));
    }

    #[test]
    fn what_a_killed_test_left_behind_goes() {
        crate::require!(needed());
        let mut owner = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let left = format!("{PREFIX}{}-7-h1", owner.id());
        ip(["netns", "add", &left]).unwrap();
        let mut process =
            Command::new(tool()).args(["netns", "exec", &left, "sleep", "1000"]).spawn().unwrap();
        let namespace = named(&left).unwrap();
        let is_inside = || processes_in(namespace).unwrap().contains(&process.id());
        assert!(wait::until(DYING_MAX, is_inside));
        owner.kill().unwrap();
        owner.wait().unwrap();
        let hosts = Hosts::new(1).unwrap();
        // Another test may be removing them, and not be done yet.
        assert!(wait::until(DYING_MAX, || !names().any(|name| name == left)));
        assert!(!process.wait().unwrap().success());
        assert!(hosts.processes("h1").unwrap().is_empty());
    }
}
