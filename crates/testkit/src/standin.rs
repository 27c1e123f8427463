//! The striped stand-in file system (`haul-standin`), running for as long as a value lives.
//!
//! Built on first use by cargo, in the profile of the tests, unless `HAUL_STANDIN` names the program. Its bytes are kept in a
//! [`Sandbox`] in memory, where its mounts are as well. It ends when its standard input does, so also when the test's process is
//! killed.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use crate::needs;
use crate::sandbox::Sandbox;
use crate::wait;

/// The time the program has to mount, and to end.
const TIME_MAX: Duration = Duration::from_secs(20);
/// The attribute of the root that tells what happened so far.
const STATISTICS: &str = "user.standin.statistics";
/// The attribute of the root that sets what is to fail.
const FAULTS: &str = "user.standin.faults";

/// Checks that file systems can be mounted through FUSE.
#[must_use]
pub fn needed() -> Option<String> {
    needs::root().or_else(|| (!Path::new("/dev/fuse").exists()).then(|| "needs /dev/fuse".to_owned()))
}

/// A running stand-in, unmounted on drop.
#[derive(Debug)]
pub struct Standin {
    child: Child,
    clients: usize,
    // Removed last, when nothing is mounted in it any more.
    place: Sandbox,
}

impl Standin {
    /// Mounts a stand-in with these options (`--targets`, `--target-rate`, ...: see `haul-standin --help`). Check [`needed`]
    /// first.
    ///
    /// # Errors
    /// When it cannot be built or started, or does not mount in time.
    pub fn start(clients: usize, options: &[&str]) -> io::Result<Self> {
        Self::start_program(&program()?, clients, options)
    }

    /// Does the same with a program that was built already.
    ///
    /// # Errors
    /// When it cannot be started, or does not mount in time.
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
                // Nobody listens any more after a time-out.
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

    /// Gives the mount of a client, counted from 0.
    #[must_use]
    pub fn client(&self, number: usize) -> PathBuf {
        self.place.join(format!("client{number}"))
    }

    /// Gives the number of clients.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.clients
    }

    /// Gives the process number, to tell what the stand-in itself costs.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Gives a counter, e.g. `target.0.written`, `client.1.read_requests`, `metadata.create`; 0 for one that is not there.
    ///
    /// # Errors
    /// When the stand-in does not tell.
    pub fn count(&self, name: &str) -> io::Result<u64> {
        let mut room = vec![0; 64 << 10];
        let length = rustix::fs::getxattr(self.client(0), STATISTICS, &mut room[..])?;
        room.truncate(length);
        let told = String::from_utf8_lossy(&room);
        let value = told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(value.and_then(|value| value.parse().ok()).unwrap_or(0))
    }

    /// Has operations fail from now on: lines `CLIENT OPERATION NAME ERRNO`, e.g. `1 write * EIO`; none for no more.
    ///
    /// # Errors
    /// When the stand-in does not understand them.
    pub fn fail(&self, faults: &str) -> io::Result<()> {
        Ok(rustix::fs::setxattr(self.client(0), FAULTS, faults.as_bytes(), rustix::fs::XattrFlags::empty())?)
    }

    fn end(&mut self) -> io::Result<()> {
        // The end of its input is what it ends at.
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
            // Only there if the stand-in could not unmount: what is mounted would else be emptied with the folder.
            if self.client(number).exists()
                && let Err(errno) =
                    rustix::mount::unmount(self.client(number), rustix::mount::UnmountFlags::DETACH)
            {
                crate::note!("cannot unmount {}: {errno}", self.client(number).display());
            }
        }
    }
}

/// Finds the program, and builds it if need be.
///
/// # Errors
/// When it cannot be built.
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

/// Finds the program beside the test that runs, if it is newer than what it is built of: who tests everything has built it
/// with the rest, and asking cargo for it alone would build its dependencies again, with other features.
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
