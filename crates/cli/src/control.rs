//! `--control`: a socket through which a running command is queried and changed (`haul ctl`).
//!
//! - [`protocol`]: requests and answers, one line each.
//! - [`socket`]: the socket file, from its creation to its removal.
//! - [`server`]: the thread that answers.
//!
//! A run without the flag starts no thread and has no limits to look at.

pub(crate) mod protocol;
mod server;
mod socket;

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use haul_flow::{CancelToken, Limits};

use crate::progress::FigureSource;
use server::Server;
use socket::{BoundSocket, SocketGuard};

/// State of a run that requests read and change.
pub(crate) struct Controlled {
    pub(crate) limits: Limits,
    pub(crate) figures: Arc<dyn FigureSource>,
    /// Ends the work after the operations in flight; without it, only a signal ends the work.
    pub(crate) stop: Option<CancelToken>,
    /// Set by the request to stop.
    pub(crate) is_stopping: Arc<AtomicBool>,
}

/// A control socket that nobody answers yet.
pub(crate) struct ControlSocket(BoundSocket);

impl ControlSocket {
    /// Creates the socket. Must be called before the program has other threads that may end it.
    ///
    /// # Errors
    /// A sentence for the user.
    pub(crate) fn create(path: &Path) -> Result<Self, String> {
        socket::create(path).map(Self)
    }

    /// Starts to answer requests.
    ///
    /// # Errors
    /// If there can't be a thread for it.
    pub(crate) fn serve(self, controlled: Controlled) -> io::Result<ControlServer> {
        let BoundSocket { listener, guard } = self.0;
        let is_stopping = Arc::clone(&controlled.is_stopping);
        let (end, ended) = UnixStream::pair()?;
        let server = Server::new(listener, ended, controlled);
        let thread = Builder::new().name("control".to_owned()).spawn(move || server.run())?;
        Ok(ControlServer { guard, end: Some(end), thread: Some(thread), is_stopping })
    }
}

/// A control socket that is answered until this is dropped.
pub(crate) struct ControlServer {
    guard: SocketGuard,
    /// Closing it ends the thread.
    end: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    is_stopping: Arc<AtomicBool>,
}

impl ControlServer {
    /// True if the command was asked to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.guard.remove();
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // The thread can't fail, and if it did, only the work would count.
            thread.join().unwrap_or_default();
        }
    }
}
