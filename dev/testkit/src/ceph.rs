//! A real CephFS on this machine: one monitor, several storage daemons, one metadata server, and
//! mounts by `ceph-fuse`.
//!
//! Everything listens on loopback, without authentication, and lives in a private in-memory
//! directory, data included. There is no manager daemon: nothing here needs it, except that the
//! file system reports no size.
//!
//! ```text
//! monitor ─► pools and file system made (`ceph`) ─► storage daemons ─► metadata server is active
//! ─► mounts ─► storage daemons formatted, at the same time
//! ```
//!
//! There are no fixed delays: daemons are polled through their sockets. On drop, the mounts are
//! removed and everything that was started is killed. Leftovers of a killed test are cleaned up by
//! the next one that starts a CephFS.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::Signal;

use crate::mount;
use crate::needs::{self, find_tool};
use crate::sandbox::{MEMORY, Sandbox};
use crate::slurm::{all_processes, contains, free_ports, read_of, signal};
use crate::wait;

/// Maximum wait for the daemons.
const PATIENCE: Duration = Duration::from_secs(60);
/// Prefix of the directory name. It is short because socket paths are limited to 107 bytes.
const PREFIX: &str = "hc-";
/// Name of the default data pool.
pub const POOL: &str = "data";
/// Name of the second data pool.
pub const OTHER_POOL: &str = "fast";

/// Returns the reason a CephFS can't be started and mounted, if any.
#[must_use]
pub fn needed() -> Option<String> {
    let tools = ["ceph-mon", "ceph-osd", "ceph-mds", "ceph-fuse", "ceph", "monmaptool"];
    let is_missing = tools.into_iter().any(|tool| find_tool(tool).is_none());
    needs::root()
        .or_else(|| (!Path::new("/dev/fuse").exists()).then(|| "needs /dev/fuse".to_owned()))
        .or_else(|| is_missing.then(|| "needs CephFS (HAUL_FULL=1 cargo xtask setup installs it)".to_owned()))
}

/// Configuration of the cluster to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Number of storage daemons.
    pub daemons: u32,
    /// Number of mounts.
    pub clients: usize,
    /// True to create a second pool, [`OTHER_POOL`].
    pub has_other_pool: bool,
}

impl Default for Cluster {
    fn default() -> Self {
        Self { daemons: 3, clients: 1, has_other_pool: true }
    }
}

/// A running CephFS.
#[derive(Debug)]
pub struct Ceph {
    daemons: Vec<Child>,
    mounts: Vec<Child>,
    clients: usize,
    folder: PathBuf,
}

impl Ceph {
    /// Starts a CephFS and mounts it. Check [`needed`] first. An error has the daemons' last log
    /// lines.
    pub fn start(cluster: Cluster) -> io::Result<Self> {
        let memory = Path::new(MEMORY);
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        clean_up_leftovers(&parent);
        let name = format!("{PREFIX}{}-", std::process::id());
        let folder = tempfile::Builder::new().prefix(&name).tempdir_in(&parent)?.keep();
        let mut ceph = Self { daemons: Vec::new(), mounts: Vec::new(), clients: cluster.clients, folder };
        let begun = ceph.begin(cluster);
        begun.map_err(|error| io::Error::other(format!("CephFS: {error}\n{}", ceph.said())))?;
        Ok(ceph)
    }

    /// Returns the mount point of a client, counted from 0.
    pub fn client(&self, number: usize) -> PathBuf {
        self.folder.join(format!("client{number}"))
    }

    /// Lists all mount points.
    pub fn mounts(&self) -> impl Iterator<Item = PathBuf> {
        (0..self.clients).map(|number| self.client(number))
    }

    /// Returns the number of objects in a pool that belong to the file with this inode number.
    pub fn objects(&self, pool: &str, inode: u64) -> io::Result<usize> {
        let listed = mount::run(self.command("rados").args(["--all", "--pool", pool, "ls"]))?;
        // Each line is a namespace, a tab, and an object name: the inode number, a dot, the
        // object number.
        let beginning = format!("\t{inode:x}.");
        Ok(listed.lines().filter(|line| line.contains(&beginning)).count())
    }

    fn begin(&mut self, cluster: Cluster) -> io::Result<()> {
        let port = free_ports(1)?.first().copied().unwrap_or_default();
        let id = uuid()?;
        self.write_configuration(&id, port)?;
        let monitors = self.folder.join("monitors");
        let address = format!("[v2:127.0.0.1:{port}/0]");
        let list = find_tool("monmaptool").unwrap_or_else(|| "monmaptool".into());
        mount::run(
            Command::new(list).args(["--create", "--fsid", &id, "--addv", "a", &address]).arg(&monitors),
        )?;
        ["mon", "mds"].iter().try_for_each(|name| fs::create_dir(self.folder.join(name)))?;
        mount::run(self.command("ceph-mon").args(["--mkfs", "-i", "a", "--monmap"]).arg(&monitors))?;
        self.run_daemon("ceph-mon", "a")?;
        let ids = (0..cluster.daemons).map(|_| uuid()).collect::<io::Result<Vec<_>>>()?;
        // The formatting of all daemons needs only the monitor, so it runs in the background.
        let formatting = self.format(&ids)?;
        self.run_daemon("ceph-mds", "a")?;
        self.make_file_system(&ids, cluster.has_other_pool)?;
        for mut one in formatting {
            let status = wait::for_end(&mut one, PATIENCE)?;
            if !status.success() {
                return Err(io::Error::other(format!("ceph-osd --mkfs: {status}")));
            }
        }
        (0..cluster.daemons).try_for_each(|number| self.run_daemon("ceph-osd", &number.to_string()))?;
        let socket = self.folder.join("mds.a.sock");
        if !wait::until(PATIENCE, || ask(&socket, "status").is_ok_and(|said| said.contains("\"up:active\"")))
        {
            return Err(io::Error::other("the metadata server does not become active"));
        }
        (0..cluster.clients).try_for_each(|number| self.mount(number))
    }

    fn write_configuration(&self, id: &str, port: u16) -> io::Result<()> {
        let folder = self.folder.display();
        let text = format!(
            "[global]\nfsid = {id}\nmon host = [v2:127.0.0.1:{port}/0]\nrun dir = {folder}\ncrash dir = {folder}\n\
             admin socket = {folder}/$name.sock\nlog file = {folder}/$name.log\nmon data = {folder}/mon\n\
             mds data = {folder}/mds\nosd data = {folder}/osd$id\n{SETTINGS}"
        );
        fs::write(self.folder.join("ceph.conf"), text)
    }

    fn format(&self, ids: &[String]) -> io::Result<Vec<Child>> {
        let format = |(number, id): (usize, &String)| {
            fs::create_dir(self.folder.join(format!("osd{number}")))?;
            let mut command = self.command("ceph-osd");
            command.args(["--mkfs", "-i", &number.to_string(), "--osd-uuid", id]);
            self.quietly(&mut command, "format")?.spawn()
        };
        ids.iter().enumerate().map(format).collect()
    }

    /// Creates the pools and the file system with a single `ceph` process, because that
    /// starts slowly.
    fn make_file_system(&self, ids: &[String], has_other_pool: bool) -> io::Result<()> {
        let mut orders: Vec<_> = ids.iter().map(|id| format!("osd new {id}")).collect();
        orders.extend(["osd pool create metadata 8".to_owned(), format!("osd pool create {POOL} 16")]);
        orders.push(format!("fs new cephfs metadata {POOL}"));
        if has_other_pool {
            orders.extend([
                format!("osd pool create {OTHER_POOL} 16"),
                format!("fs add_data_pool cephfs {OTHER_POOL}"),
            ]);
        }
        let mut command = self.command("ceph");
        command.args(["--connect-timeout", "30"]);
        self.quietly(&mut command, "orders")?.stdin(Stdio::piped());
        let mut running = command.spawn()?;
        if let Some(mut input) = running.stdin.take() {
            input.write_all((orders.join("\n") + "\n").as_bytes())?;
        }
        let status = wait::for_end(&mut running, PATIENCE);
        // `ceph` exits with 0 even if a command fails.
        let said = fs::read_to_string(self.folder.join("orders.log"))?;
        match status {
            Ok(status) if status.success() && !said.contains("Error ") => Ok(()),
            status => Err(io::Error::other(format!("the file system cannot be made: {status:?}: {said}"))),
        }
    }

    fn mount(&mut self, number: usize) -> io::Result<()> {
        let point = self.client(number);
        fs::create_dir(&point)?;
        let mut client = self.start_client(number)?;
        let mut failed = None;
        let has_ended = wait::until(PATIENCE, || {
            // The monitor learns after the metadata server that it is active, and rejects
            // clients until then.
            if !matches!(client.try_wait(), Ok(None)) {
                match self.start_client(number) {
                    Ok(another) => client = another,
                    Err(error) => failed = Some(error),
                }
            }
            failed.is_some() || mount::is_mounted(&point)
        });
        self.mounts.push(client);
        match failed {
            Some(error) => Err(error),
            None if has_ended => Ok(()),
            None => Err(io::Error::other(format!("ceph-fuse does not mount {}", point.display()))),
        }
    }

    fn start_client(&self, number: usize) -> io::Result<Child> {
        let mut command = self.command("ceph-fuse");
        command.arg("-f").arg(self.client(number));
        self.quietly(&mut command, &format!("client{number}"))?.spawn()
    }

    fn run_daemon(&mut self, program: &str, id: &str) -> io::Result<()> {
        let mut command = self.command(program);
        command.args(["-f", "-i", id]);
        self.daemons.push(self.quietly(&mut command, &format!("{program}-{id}"))?.spawn()?);
        Ok(())
    }

    /// Returns a command that uses this cluster's configuration.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(find_tool(program).unwrap_or_else(|| program.into()));
        command.arg("-c").arg(self.folder.join("ceph.conf")).stdin(Stdio::null());
        command
    }

    /// Redirects a command's output to a log.
    fn quietly<'a>(&self, command: &'a mut Command, name: &str) -> io::Result<&'a mut Command> {
        let path = self.folder.join(format!("{name}.log"));
        let log = File::options().create(true).append(true).open(path)?;
        Ok(command.stdout(log.try_clone()?).stderr(log))
    }

    /// Returns the last lines of every log.
    fn said(&self) -> String {
        const LINES: usize = 4;
        let mut said = String::new();
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|end| end == "log") {
                let text = fs::read(entry.path()).unwrap_or_default();
                let text = String::from_utf8_lossy(&text);
                let lines: Vec<_> = text.lines().filter(|line| !line.is_empty()).collect();
                let last = lines[lines.len().saturating_sub(LINES)..].join("\n");
                said += &format!("-- {}\n{last}\n", entry.file_name().display());
            }
        }
        said
    }
}

impl Drop for Ceph {
    fn drop(&mut self) {
        let is_free = unmount_below(&self.folder);
        for child in self.mounts.iter_mut().chain(&mut self.daemons) {
            child.kill().unwrap_or_default();
            wait::for_end(child, wait::AFTERMATH_MAX).map(drop).unwrap_or_default();
        }
        kill_all(&self.folder);
        if is_free {
            drop(Sandbox::adopt(self.folder.clone()));
        }
    }
}

/// Settings that don't depend on the directory. Data is in memory, unreplicated;
/// delays are minimal.
const SETTINGS: &str = "public addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
pid file =
log to stderr = false
err to stderr = true
osd objectstore = memstore
memstore device bytes = 4294967296
osd pool default size = 1
osd pool default min size = 1
osd pool default pg autoscale mode = off
mon allow pool size one = true
mon data avail warn = 1
mon data avail crit = 0
osd crush chooseleaf type = 0
paxos propose interval = 0.05
paxos min wait = 0.02
mon tick interval = 1
mds beacon interval = 0.5
[client]
admin socket =
log file =
";

/// Queries a daemon through its socket. The request ends with a zero byte; the reply is a four-byte
/// length and text.
fn ask(socket: &Path, order: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{{\"prefix\": \"{order}\"}}\0").as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(answer.get(4..).unwrap_or_default()).into_owned())
}

fn uuid() -> io::Result<String> {
    fs::read_to_string("/proc/sys/kernel/random/uuid").map(|id| id.trim().to_owned())
}

/// Unmounts everything below a directory. Returns true if nothing is left.
fn unmount_below(folder: &Path) -> bool {
    let points = mount::mounted_below(folder);
    points.iter().all(|point| match unmount(point, UnmountFlags::DETACH) {
        Ok(()) => true,
        Err(errno) => {
            // The caller must then keep the directory: removing it would delete the
            // contents of the mount.
            crate::note!("cannot unmount {}: {errno}", point.display());
            false
        }
    })
}

/// Kills every process configured to use a directory, until none is left.
fn kill_all(folder: &Path) {
    let mark = format!("\0{}/ceph.conf\0", folder.display()).into_bytes();
    let gone = wait::until(PATIENCE, || {
        let left: Vec<_> =
            all_processes().filter(|process| contains(&read_of(*process, "cmdline"), &mark)).collect();
        left.iter().for_each(|process| signal(*process, Signal::KILL));
        left.is_empty()
    });
    if !gone {
        crate::note!("processes of the CephFS in {} cannot be killed", folder.display());
    }
}

/// Removes leftovers of killed tests: directories whose process is gone.
fn clean_up_leftovers(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|owner| !Path::new(&format!("/proc/{owner}")).exists()) {
            let is_free = unmount_below(&entry.path());
            kill_all(&entry.path());
            if is_free {
                drop(Sandbox::adopt(entry.path()));
            }
        }
    }
}
