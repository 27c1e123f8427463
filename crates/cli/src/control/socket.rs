//! The socket file: created for this user alone, and removed at the end, also by a signal.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use haul_flow::lock;
use haul_sys::{Errno, Fd, FileType, Identity, effective_identity, listen_path, reason, stat_path};

use crate::signals::{self, SignalGuard};

/// A socket that others can connect to.
pub(super) struct BoundSocket {
    pub(super) listener: UnixListener,
    pub(super) guard: SocketGuard,
}

/// A socket file, removed when this is dropped or a signal ends the program.
pub(super) struct SocketGuard {
    file: Arc<SocketFile>,
    _signal_guard: SignalGuard,
}

struct SocketFile {
    path: CString,
    /// Identity of the file while it exists. Locked while it is created.
    identity: Mutex<Option<Identity>>,
}

impl SocketFile {
    /// Removes the file, if it is still the one that was created.
    fn remove(&self) {
        let Some(identity) = lock(&self.identity).take() else { return };
        if identity_of(&self.path) == Some(identity) {
            // Somebody else may have removed it. What remains refuses connections.
            remove(&self.path).unwrap_or_default();
        }
    }
}

impl SocketGuard {
    pub(super) fn remove(&self) {
        self.file.remove();
    }
}

impl Drop for SocketGuard {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Creates a socket at `path`. A socket of this user that nobody listens on is replaced.
///
/// # Errors
/// A sentence for the user.
pub(super) fn create(path: &Path) -> Result<BoundSocket, String> {
    let shown = path.display().to_string();
    let failed = |why: &str| format!("cannot create the control socket '{}': {why}", shown.escape_debug());
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| failed(&error.to_string()))?;
    let file = Arc::new(SocketFile { path: name, identity: Mutex::default() });
    let removed = Arc::clone(&file);
    // Before the socket exists: a signal waits for the lock, and then finds the path to remove.
    let mut identity = lock(&file.identity);
    let signal_guard =
        signals::before_end(move || removed.remove()).map_err(|error| failed(&reason(&error)))?;
    let socket = listen_path(&file.path).or_else(|cause| {
        if cause.is(Errno::ADDRINUSE) {
            remove_dead(path, &file.path)?;
            return listen_path(&file.path).map_err(|cause| cause.to_string());
        }
        Err(cause.to_string())
    });
    if socket.is_ok() {
        *identity = identity_of(&file.path);
    }
    // Before the guard, if that is dropped: it may wait for a signal that waits for this lock.
    drop(identity);
    let socket = socket.map_err(|why| failed(&why))?;
    Ok(BoundSocket {
        listener: UnixListener::from(socket),
        guard: SocketGuard { file, _signal_guard: signal_guard },
    })
}

/// Removes a socket of this user that nobody listens on.
fn remove_dead(path: &Path, name: &CString) -> Result<(), String> {
    let there = stat_path::<&Fd>(None, name, false).map_err(|cause| cause.to_string())?;
    if there.kind != FileType::Socket {
        return Err("the file exists and is not a socket".to_owned());
    }
    if there.owner != effective_identity().user {
        return Err("the file is another user's socket".to_owned());
    }
    match UnixStream::connect(path) {
        Ok(_) => Err("another command is listening on it".to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            // Two commands that find it dead at the same time may both get here. The one that is
            // late must not remove the socket of the other.
            if identity_of(name) == Some(there.identity) {
                remove(name)?;
            }
            Ok(())
        }
        Err(error) => Err(reason(&error)),
    }
}

fn identity_of(path: &CString) -> Option<Identity> {
    let there = stat_path::<&Fd>(None, path, false).ok()?;
    (there.kind == FileType::Socket).then_some(there.identity)
}

fn remove(path: &CString) -> Result<(), String> {
    std::fs::remove_file(Path::new(std::ffi::OsStr::from_bytes(path.as_bytes())))
        .map_err(|error| reason(&error))
}
