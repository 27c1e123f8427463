//! Runs the study on a striped file system with one client per rank: the stand-in, mounted anew for
//! each part, or a file system that is already mounted once per client (`--mounts`).
//!
//! ```text
//!   haul-standin ─► client0 ... client15
//!
//!   one run:  remove target (pace off) ─► command ─► fsync on each client
//!             ─► read and compare target (pace off)
//!
//!   mpirun -n N WRAPPER ... haul cp -r shared/source shared/target
//!               └─► each rank: a mount namespace of its own, its client's mount bound to `shared`
//! ```
//!
//! Every rank therefore sees the same paths, at the speed of a node of its own. A rate covers the
//! time until the last byte is on the targets: like Lustre, the stand-in lets clients write behind,
//! and that must not count. For any other file system, the maximum rate is unknown, file placement
//! is left to it, and all clients synchronise all files of the copy.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::fs::{XattrFlags, setxattr};
use rustix::mount::{UnmountFlags, unmount};

use super::Session;
use super::{RunOptions, mounted};
use crate::error::{Error, Result};
use crate::measure::measure;
use crate::programs;
use crate::study::findings::{Measured, RunFigures, measured};
use crate::study::s5::{CLIENT_RATE, CLIENTS, TARGET_RATE, TARGETS};
use crate::study::{FileDirectory, PartWork, Study, StudyPart, StudySetting, Unit};
use crate::trees;
use crate::verify::{Digest, digest};

/// Definitions for the report: a cold cache, and a rate.
pub(crate) const COLD: &str = "cold: a client forgets what it has of a file when that is opened; every copy was read back and \
     compared; a rate is that until all of it is on the targets";
const SEED: u64 = 1;
const STRIPE_BYTES: u32 = 1 << 20;
const MEMORY: &str = "/dev/shm";
/// Attribute of the stand-in that turns its pacing on and off.
const PACE: &str = "user.standin.pace";
/// Script that starts each rank: `WRAPPER CLIENTS SHARED PROGRAM ...`.
const WRAPPER: &str = "#!/bin/sh
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${SLURM_PROCID:-0}}}
client=$1$rank shared=$2
shift 2
exec unshare --mount sh -c 'mount --bind \"$0\" \"$1\" && shift && exec \"$@\"' \"$client\" \"$shared\" \"$@\"
";
/// Environment for the launchers: allow root, allow more ranks than processors, do not spin.
const LAUNCHERS: [(&str, &str); 5] = [
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
    ("OMPI_MCA_mpi_yield_when_idle", "1"),
];

pub(crate) fn place(options: &RunOptions) -> String {
    if !options.mounts.is_empty() {
        return mounted::place(&options.mounts);
    }
    format!(
        "a striped file system that stands in for Lustre: {TARGETS} targets of {} MB/s, {} MB/s for each client, each way; \
         0.5 ms for a request, 1 ms for a metadata operation",
        TARGET_RATE / 1_000_000,
        CLIENT_RATE / 1_000_000,
    )
}

/// Refuses a machine on which the study cannot run.
pub(crate) fn check(study: &Study, options: &RunOptions) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::Refused("s5 mounts file systems: it needs root".to_owned()));
    }
    for program in ["mpirun", "unshare", "mount"] {
        programs::find(program)?;
    }
    if !options.mounts.is_empty() {
        return mounted::check(&options.mounts);
    }
    let wanted = study.largest().bytes.saturating_mul(2);
    let free = trees::bytes_free(&memory())?;
    if wanted > free {
        return Err(Error::Refused(format!(
            "s5 keeps source and target in memory: {wanted} bytes are wanted, {free} are free; see --scale"
        )));
    }
    Ok(())
}

/// Returns a directory in memory, if there is one.
pub(crate) fn memory() -> PathBuf {
    let memory = PathBuf::from(MEMORY);
    if memory.is_dir() { memory } else { std::env::temp_dir() }
}

/// Runs all parts; `done` is called with each as soon as it is finished.
pub(crate) fn run(study: &Study, session: &mut Session<'_>, done: &mut dyn FnMut(Measured)) -> Result<()> {
    let mounts = &session.options.mounts;
    let standin = if mounts.is_empty() { Some(find_standin(session)?) } else { None };
    study.parts.iter().try_for_each(|part| {
        let PartWork::Striped(directories) = &part.work else { return Ok(()) };
        let ground = match &standin {
            Some(standin) => StripedGround::start(standin)?,
            None => StripedGround::on(mounts)?,
        };
        let outcome = ground
            .prepare(directories, session)
            .and_then(|expected| run_part(&ground, part, expected, session));
        let ended = ground.end();
        done(outcome?);
        ended
    })
}

/// Finds the stand-in: at the given path, next to haul, or in PATH.
fn find_standin(session: &Session<'_>) -> Result<PathBuf> {
    let adjacent = session.program.with_file_name("haul-standin");
    match &session.options.standin {
        Some(given) => given.canonicalize().map_err(Error::doing("find", given)),
        None if programs::is_executable(&adjacent) => Ok(adjacent),
        None => programs::find("haul-standin"),
    }
}

/// A file system with a mount per client.
pub(crate) struct StripedGround {
    storage: StripedStorage,
    clients: u32,
    work: tempfile::TempDir,
}

/// Where the copied data is stored.
enum StripedStorage {
    /// The stand-in, a child process.
    StandIn(Child),
    /// An existing file system, in this directory made for the study.
    Given(PathBuf),
}

/// Makes the directory for the mount points and the wrapper script.
fn prepare_work() -> Result<tempfile::TempDir> {
    let memory = memory();
    let work = tempfile::Builder::new().prefix("haul-bench-").tempdir_in(&memory);
    let work = work.map_err(Error::doing("create a directory in", &memory))?;
    let shared = work.path().join("shared");
    fs::create_dir(&shared).map_err(Error::doing("create", &shared))?;
    let wrapper = work.path().join("wrapper");
    fs::write(&wrapper, WRAPPER).map_err(Error::doing("write", &wrapper))?;
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755))
        .map_err(Error::doing("make executable", &wrapper))?;
    Ok(work)
}

impl StripedGround {
    pub(crate) fn start(standin: &Path) -> Result<StripedGround> {
        let work = prepare_work()?;
        let clients = CLIENTS.iter().max().copied().unwrap_or(1);
        let mut child = Command::new(standin)
            .arg(work.path().join("bytes"))
            .arg(work.path().join("client"))
            .args([format!("--clients={clients}"), format!("--targets={TARGETS}")])
            .args([format!("--target-rate={TARGET_RATE}"), format!("--client-rate={CLIENT_RATE}")])
            .args(["--latency=500us", "--metadata-latency=1ms", "--write-behind=8M", "--read-ahead=8M"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Error::doing("run", standin))?;
        let mut said = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut said).map_err(Error::doing("listen to", standin))?;
        }
        let ground = StripedGround { storage: StripedStorage::StandIn(child), clients, work };
        if said.is_empty() {
            ground.end()?;
            return Err(Error::Refused(format!("{} does not mount", standin.display())));
        }
        Ok(ground)
    }

    /// Uses existing mounts of one file system: makes a directory there, and a link to it for
    /// each client.
    fn on(mounts: &[PathBuf]) -> Result<StripedGround> {
        let work = prepare_work()?;
        let made = mounted::make_directory(mounts)?;
        let storage = StripedStorage::Given(made.clone());
        let ground =
            StripedGround { storage, clients: u32::try_from(mounts.len()).unwrap_or(u32::MAX), work };
        let links = (0..).zip(mounts).try_for_each(|(number, mount)| {
            let seen = mount.join(made.file_name().unwrap_or_default());
            symlink(seen, ground.client(number)).map_err(Error::doing("link to", mount))
        });
        match links {
            Ok(()) => Ok(ground),
            Err(error) => ground.end().and(Err(error)),
        }
    }

    pub(crate) fn client(&self, number: u32) -> PathBuf {
        self.work.path().join(format!("client{number}"))
    }

    /// Returns the path under which every rank finds `name`, an entry at the top.
    pub(crate) fn shared(&self, name: &str) -> PathBuf {
        self.work.path().join("shared").join(name)
    }

    /// Turns the pacing of the stand-in on or off; does nothing on another file system.
    pub(crate) fn pace(&self, pace: &str) -> Result<()> {
        if let StripedStorage::Given(_) = self.storage {
            return Ok(());
        }
        let root = self.client(0);
        setxattr(&root, PACE, pace.as_bytes(), XattrFlags::empty())
            .map_err(|errno| Error::doing("set the pace of", &root)(errno.into()))
    }

    fn prepare(&self, directories: &[FileDirectory], session: &Session<'_>) -> Result<Digest> {
        self.pace("off")?;
        let source = self.client(0).join("source");
        fs::create_dir(&source).map_err(Error::doing("create", &source))?;
        for FileDirectory { name, shape, stripes } in directories {
            let place = source.join(name);
            fs::create_dir(&place).map_err(Error::doing("create", &place))?;
            if let StripedStorage::StandIn(_) = self.storage {
                setxattr(&place, "lustre.lov", &layout(*stripes), XattrFlags::empty())
                    .map_err(|errno| Error::doing("set the layout of", &place)(errno.into()))?;
            }
            trees::make(shape, SEED, &place, session.interrupt)?;
        }
        digest(&source, session.interrupt)
    }

    /// Drops the source from memory before a run. The clients of the stand-in do so on every open.
    fn forget(&self) -> Result<()> {
        match self.storage {
            StripedStorage::StandIn(_) => Ok(()),
            StripedStorage::Given(_) => mounted::drop_caches(),
        }
    }

    /// Waits until all written data is on the targets.
    pub(crate) fn drain(&self) -> Result<()> {
        let clients = (0..self.clients).map(|number| self.client(number));
        match self.storage {
            StripedStorage::StandIn(_) => clients.into_iter().try_for_each(|root| {
                File::open(&root).and_then(|root| root.sync_all()).map_err(Error::doing("synchronise", &root))
            }),
            StripedStorage::Given(_) => {
                mounted::synchronise(&clients.map(|root| root.join("target")).collect::<Vec<_>>())
            }
        }
    }

    /// Starts a command line for `ranks` ranks, each on the mount of its own client.
    pub(crate) fn by_ranks(&self, ranks: u32) -> Command {
        let mut command = Command::new("mpirun");
        command.args(["-n", &ranks.to_string()]).arg(self.work.path().join("wrapper"));
        self.on_clients(&mut command);
        command
    }

    /// Adds the wrapper's arguments and the environment of the launcher and haul.
    fn on_clients(&self, command: &mut Command) {
        command.arg(self.work.path().join("client")).arg(self.work.path().join("shared"));
        command.envs(LAUNCHERS).env("LC_ALL", "C");
        if let StripedStorage::StandIn(_) = self.storage {
            command.env("HAUL_TEST_STRIPED", "lustre");
        }
    }

    /// Stops the stand-in, or removes the directory made for the study.
    pub(crate) fn end(self) -> Result<()> {
        match self.storage {
            StripedStorage::StandIn(child) => end_standin(child, self.work),
            StripedStorage::Given(made) => {
                let removed = fs::remove_dir_all(&made).map_err(Error::doing("remove", &made));
                removed.and(close(self.work))
            }
        }
    }
}

fn close(work: tempfile::TempDir) -> Result<()> {
    let path = work.path().to_owned();
    work.close().map_err(Error::doing("remove", &path))
}

/// Stops the stand-in. Mounts it left behind are unmounted first, so that removing the directory
/// deletes nothing in them.
fn end_standin(mut child: Child, work: tempfile::TempDir) -> Result<()> {
    drop(child.stdin.take());
    let ended = child.wait().map_err(Error::doing("wait for", Path::new("haul-standin")));
    let mut leftovers = Vec::new();
    for entry in fs::read_dir(work.path()).into_iter().flatten().flatten() {
        let is_client = entry.file_name().to_string_lossy().starts_with("client");
        if is_client && let Err(errno) = unmount(entry.path(), UnmountFlags::DETACH) {
            leftovers.push(format!("{} ({errno}); unmount and remove it", entry.path().display()));
        }
    }
    if !leftovers.is_empty() {
        // Kept: removing it would delete the contents of the mount.
        let kept = work.keep();
        leftovers.push(format!("{}; remove it", kept.display()));
        return Err(Error::LeftBehind { leftovers, cause: None });
    }
    close(work)?;
    ended.map(drop)
}

/// Returns the value of `lustre.lov` that requests `stripes` stripes, starting on any target.
fn layout(stripes: u16) -> Vec<u8> {
    let mut value = 0x0bd1_0bd0_u32.to_le_bytes().to_vec();
    value.extend(1_u32.to_le_bytes());
    value.resize(24, 0);
    value.extend(STRIPE_BYTES.to_le_bytes());
    value.extend(stripes.to_le_bytes());
    value.extend(u16::MAX.to_le_bytes());
    value
}

fn run_part(
    ground: &StripedGround,
    part: &StudyPart,
    expected: Digest,
    session: &mut Session<'_>,
) -> Result<Measured> {
    let collected = session.run_in_turn(part, shown, |session, setting, round| {
        run_once(ground, part, setting, (round, expected), session)
    })?;
    let digest = Some(expected.to_string());
    Ok(measured(part, part.work.totals(), digest, collected, Unit::MegabytesPerSecond))
}

/// Returns the program of a setting and its number of clients.
fn program(setting: &StudySetting) -> (&str, &str) {
    match setting.words.as_deref() {
        Some([program, _, clients]) => (program, clients),
        _ => ("cp", "1"),
    }
}

/// Returns the command line of a setting, as shown in reports.
fn shown(setting: &StudySetting) -> String {
    match program(setting) {
        ("haul", clients) => format!("mpirun -n {clients} haul cp -r -T --copy-layout SOURCE TARGET"),
        ("dcp", clients) => format!("mpirun -n {clients} dcp SOURCE TARGET"),
        _ => "cp -r -T SOURCE TARGET".to_owned(),
    }
}

fn command(ground: &StripedGround, setting: &StudySetting, haul: &Path) -> Command {
    let (program, clients) = program(setting);
    let mut command = if program == "cp" {
        let mut alone = Command::new(ground.work.path().join("wrapper"));
        ground.on_clients(&mut alone);
        alone
    } else {
        // The study only contains valid numbers.
        ground.by_ranks(clients.parse().unwrap_or(1))
    };
    match program {
        "haul" => command.arg(haul).args(["cp", "-r", "-T", "--copy-layout"]),
        "dcp" => command.arg("dcp"),
        _ => command.args(["cp", "-r", "-T"]),
    };
    command.arg(ground.shared("source")).arg(ground.shared("target"));
    command
}

fn run_once(
    ground: &StripedGround,
    part: &StudyPart,
    setting: &StudySetting,
    (round, expected): (u32, Digest),
    session: &Session<'_>,
) -> Result<RunFigures> {
    let target = ground.client(0).join("target");
    ground.pace("off")?;
    if target.exists() {
        fs::remove_dir_all(&target).map_err(Error::doing("remove", &target))?;
    }
    ground.forget()?;
    ground.pace("on")?;
    let (printed, said) = (programs::scratch()?, programs::scratch()?);
    let mut command = command(ground, setting, &session.program);
    command.stdin(Stdio::null()).stdout(programs::share(&printed)?).stderr(programs::share(&said)?);
    let measured = measure(&mut command, session.limit(), session.interrupt)?;
    if target.exists() {
        ground.drain()?;
    }
    let seconds = measured.started.elapsed().as_secs_f64();
    ground.pace("off")?;
    let failure = match measured.failure(&programs::text_of(said)?) {
        Some(failure) => Some(failure),
        None if digest(&target, session.interrupt)? != expected => Some("wrong copy".to_owned()),
        None => None,
    };
    Ok(RunFigures {
        round,
        value: part.work.totals().bytes as f64 / 1e6 / seconds,
        usage: measured.usage,
        with_sync: None,
        failure,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_has_its_program_and_clients() {
        let study = crate::study::s5::study(0.001, true).unwrap();
        let lines: Vec<String> = study.parts[0].settings.iter().map(shown).collect();
        assert_eq!(lines[0], "cp -r -T SOURCE TARGET");
        assert_eq!(lines[3], "mpirun -n 4 haul cp -r -T --copy-layout SOURCE TARGET");
        assert_eq!(lines[10], "mpirun -n 16 dcp SOURCE TARGET");
        assert_eq!(program(&StudySetting::gnu()), ("cp", "1"));
    }

    #[test]
    fn the_layout_is_as_lustre_takes_it() {
        let value = layout(8);
        assert_eq!(
            (value.len(), &value[..4], &value[28..]),
            (32, &[0xd0, 0x0b, 0xd1, 0x0b][..], &[8, 0, 0xff, 0xff][..])
        );
    }
}
