//! Runs the striped stand-in file system (`haul-standin`) as long as a value lives.
//!
//! Cargo builds it on first use, in the tests' profile, unless `HAUL_STANDIN` names a program. Its
//! data and mounts are in an in-memory [`Sandbox`]. It exits when its standard input is closed, and
//! thus also when the test process is killed.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use crate::needs;
use crate::sandbox::Sandbox;
use crate::wait;

/// Maximum time for the program to mount, and to exit.
const TIME_MAX: Duration = Duration::from_secs(20);
/// Attribute of the root that contains the statistics.
const STATISTICS: &str = "user.standin.statistics";
/// Attribute of the root that configures faults.
const FAULTS: &str = "user.standin.faults";

/// Returns the reason FUSE file systems can't be mounted, if any.
#[must_use]
pub fn needed() -> Option<String> {
    needs::root().or_else(|| (!Path::new("/dev/fuse").exists()).then(|| "needs /dev/fuse".to_owned()))
}

/// A running stand-in, unmounted on drop.
#[derive(Debug)]
pub struct Standin {
    child: Child,
    clients: usize,
    // Dropped last, once nothing is mounted in it.
    place: Sandbox,
}

impl Standin {
    /// Mounts a stand-in with these options (`--targets`, `--target-rate`, ...: see
    /// `haul-standin --help`). Check [`needed`] first.
    pub fn start(clients: usize, options: &[&str]) -> io::Result<Self> {
        Self::start_program(&program()?, clients, options)
    }

    /// Same as [`Standin::start`], with a program that is already built.
    pub fn start_program(program: &Path, clients: usize, options: &[&str]) -> io::Result<Self> {
        let place = Sandbox::in_memory()?;
        let mut child = Command::new(program)
            .arg(place.join("bytes"))
            .arg(place.join("client"))
            .arg(format!("--clients={clients}"))
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (send, line) = mpsc::channel();
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || {
                let mut said = String::new();
                let read = BufReader::new(output).read_line(&mut said).map(|_| said);
                // The receiver is gone after a timeout.
                send.send(read).unwrap_or_default();
            });
        }
        let standin = Self { child, clients, place };
        let said = line.recv_timeout(TIME_MAX).map_err(io::Error::other)??;
        if said.starts_with("mounted") {
            return Ok(standin);
        }
        Err(io::Error::other("haul-standin did not mount; its standard error says why"))
    }

    /// Returns the mount point of a client, counted from 0.
    pub fn client(&self, number: usize) -> PathBuf {
        self.place.join(format!("client{number}"))
    }

    /// Returns the number of clients.
    pub fn clients(&self) -> usize {
        self.clients
    }

    /// Returns the process ID, to measure the cost of the stand-in itself.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Returns a counter, e.g. `target.0.written`, `client.1.read_requests`, `metadata.create`; 0
    /// if it doesn't exist.
    pub fn count(&self, name: &str) -> io::Result<u64> {
        let mut room = vec![0; 64 << 10];
        let length = rustix::fs::getxattr(self.client(0), STATISTICS, &mut room[..])?;
        room.truncate(length);
        let text = String::from_utf8_lossy(&room);
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(value.and_then(|value| value.parse().ok()).unwrap_or(0))
    }

    /// Makes operations fail from now on. Each line is `CLIENT OPERATION NAME ERRNO`, e.g.
    /// `1 write * EIO`; an empty string stops all faults. With `FLIP` or `FLIP_ONCE` a write stores
    /// wrong bytes.
    pub fn fail(&self, faults: &str) -> io::Result<()> {
        Ok(rustix::fs::setxattr(self.client(0), FAULTS, faults.as_bytes(), rustix::fs::XattrFlags::empty())?)
    }

    fn end(&mut self) -> io::Result<()> {
        // It exits when its input is closed.
        drop(self.child.stdin.take());
        let mut ended = Ok(None);
        let in_time = wait::until(TIME_MAX, || {
            ended = self.child.try_wait();
            !matches!(ended, Ok(None))
        });
        if !in_time {
            self.child.kill()?;
            wait::for_end(&mut self.child, wait::AFTERMATH_MAX)?;
        }
        match ended? {
            Some(status) if status.success() => Ok(()),
            status => Err(io::Error::other(format!("haul-standin ended badly: {status:?}"))),
        }
    }
}

impl Drop for Standin {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            crate::note!("{error}");
        }
        for number in 0..self.clients {
            // Exists only if the stand-in failed to unmount it. Removing the directory would then
            // delete what is mounted there.
            if self.client(number).exists()
                && let Err(errno) =
                    rustix::mount::unmount(self.client(number), rustix::mount::UnmountFlags::DETACH)
            {
                crate::note!("cannot unmount {}: {errno}", self.client(number).display());
            }
        }
    }
}

/// Finds the program, building it if necessary.
pub fn program() -> io::Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    if let Some(named) = std::env::var_os("HAUL_STANDIN") {
        return Ok(named.into());
    }
    BUILT.get_or_init(|| build().map_err(|error| error.to_string())).clone().map_err(io::Error::other)
}

fn build() -> io::Result<PathBuf> {
    let folder = fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../standin"))?;
    if let Some(built) = built_already(&folder)? {
        return Ok(built);
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--profile=test", "--message-format=json", "--bin=haul-standin"]);
    let output = command.arg("--manifest-path").arg(folder.join("Cargo.toml")).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let path = said.split("\"executable\":\"").skip(1).filter_map(|rest| rest.split('"').next()).last();
    path.map(PathBuf::from).filter(|_| output.status.success()).ok_or_else(|| {
        io::Error::other(format!("cannot build haul-standin: {}", String::from_utf8_lossy(&output.stderr)))
    })
}

/// Finds the program next to the running test, if it is newer than its sources. A run of all tests
/// has already built it; building it alone would rebuild its dependencies with other features.
fn built_already(folder: &Path) -> io::Result<Option<PathBuf>> {
    let test = std::env::current_exe()?;
    let Some(built) = test.parent().and_then(Path::parent).map(|folder| folder.join("haul-standin")) else {
        return Ok(None);
    };
    let Ok(age) = fs::metadata(&built).and_then(|found| found.modified()) else { return Ok(None) };
    let mut sources = vec![folder.join("Cargo.toml")];
    for entry in fs::read_dir(folder.join("src"))? {
        sources.push(entry?.path());
    }
    for source in sources {
        if fs::metadata(source)?.modified()? > age {
            return Ok(None);
        }
    }
    Ok(Some(built))
}
