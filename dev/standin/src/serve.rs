//! Mounts all clients, waits for a request to stop, and unmounts them.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;

use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::mount::{UnmountFlags, unmount};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::client::MountClient;
use crate::model::Model;
use crate::relay::mount_relayed;
use crate::settings::StandInSettings;

/// The line printed when all clients are mounted.
const READY: &str = "mounted";

struct Mounted {
    point: PathBuf,
    /// Serves the kernel's requests until the mount goes away.
    _session: BackgroundSession,
}

impl Mounted {
    fn new(model: &Arc<Model>, number: usize) -> io::Result<Self> {
        let point = mount_point(&model.settings, number);
        fs::create_dir_all(&point)?;
        let mut config = Config::default();
        let name = |what: &str| format!("{what}-{number}");
        config.mount_options = vec![
            MountOption::FSName(name("standin")),
            MountOption::DefaultPermissions,
            MountOption::Dev,
            MountOption::Suid,
        ];
        config.acl = SessionACL::All;
        let client = MountClient::new(Arc::clone(model), number);
        let session = if model.settings.unnamed_files {
            let device = mount_relayed(&name("standin"), &point)?;
            Session::from_fd(client, device, config.acl, config)?
        } else {
            Session::new(client, &point, &config)?
        };
        let mounted = Self { point, _session: session.spawn()? };
        if let Some(bytes) = model.settings.read_ahead {
            mounted.read_ahead(bytes)?;
        }
        Ok(mounted)
    }

    /// Sets the kernel's read-ahead, which FUSE limits by default.
    fn read_ahead(&self, bytes: u64) -> io::Result<()> {
        let device = rustix::fs::stat(&self.point)?.st_dev;
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        fs::write(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"), (bytes >> 10).to_string())
    }
}

fn mount_point(settings: &StandInSettings, number: usize) -> PathBuf {
    let mut point = settings.mount_prefix.clone().into_os_string();
    point.push(number.to_string());
    point.into()
}

/// Mounts all clients, prints [`READY`], waits for SIGTERM, SIGINT or EOF on standard input, and
/// unmounts all clients.
///
/// # Errors
/// If a client cannot be mounted or unmounted; all mounted clients are unmounted all the same.
pub fn serve(settings: StandInSettings) -> io::Result<()> {
    fs::create_dir_all(&settings.backing)?;
    // Let timers fire on time instead of together; an older kernel carries on with its default.
    fs::write("/proc/self/timerslack_ns", "1000").unwrap_or_default();
    let clients = settings.clients;
    let model = Arc::new(Model::new(settings)?);
    let (end, ended) = mpsc::channel();
    listen(end)?;
    let mut mounted = Vec::new();
    let mut outcome = Ok(());
    for number in 0..clients {
        match Mounted::new(&model, number) {
            Ok(client) => mounted.push(client),
            Err(error) => {
                outcome = Err(error);
                break;
            }
        }
    }
    if outcome.is_ok() {
        outcome = writeln!(io::stdout(), "{READY} {clients}").and_then(|()| io::stdout().flush());
    }
    if outcome.is_ok() {
        // The senders live as long as the process, so this cannot fail.
        ended.recv().unwrap_or_default();
    }
    mounted.iter().map(|client| take_down(&client.point)).fold(outcome, io::Result::and)
}

/// Detaches the mount from the tree at once. It goes away with its last user, or with this process.
fn take_down(point: &Path) -> io::Result<()> {
    let path = std::ffi::CString::new(point.as_os_str().as_bytes())?;
    unmount(path.as_c_str(), UnmountFlags::DETACH)?;
    fs::remove_dir(point)
}

/// Starts threads that send to `end` on a signal and on EOF of standard input.
fn listen(end: mpsc::Sender<()>) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    let at_signal = end.clone();
    // If the receiver is gone, the process is already stopping.
    let tell = |end: &mpsc::Sender<()>| end.send(()).unwrap_or_default();
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for _ in signals.forever() {
            tell(&at_signal);
        }
    })?;
    std::thread::Builder::new().name("input".to_owned()).spawn(move || {
        let mut room = [0; 64];
        let mut input = io::stdin().lock();
        while matches!(input.read(&mut room), Ok(read) if read > 0) {}
        tell(&end);
    })?;
    Ok(())
}
