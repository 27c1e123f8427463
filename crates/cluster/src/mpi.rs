//! Transport over MPI, using a library that is opened at run time.
//!
//! One binary serves any MPI: none is needed to build it, and none is linked. [`launched()`] reads
//! the launcher's environment variables. [`World::open`] finds the library that belongs to the
//! launcher, determines its ABI (`abi`), initialises it, and compares its view of the job with the
//! launcher's: a library that doesn't understand the launcher takes each process for the only one.
//!
//! Sends and receives are non-blocking, because the blocking calls spin. A message's bytes belong
//! to its `Flight` until the library is done with them. Errors are returned, but a library that
//! loses a rank may still end the process, as MPI libraries do.
//!
//! Guarantees: messages of a rank arrive once, whole, and in order. The library is called by one
//! thread. Received messages that wait here are bounded; the sender bounds messages that have not
//! left (see [`Transport::advance_sends`]).

mod abi;
mod flight;
mod launched;
mod library;
mod one_host;
mod refusal;
mod shutdown;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flight::Flight;
use library::{Library, NotOpened};

use crate::launch::LauncherFamily;
use crate::suspend_detector::Deadline;
use crate::transport::{Broken, Rank, Transport};
pub use launched::{LAUNCHER_VARIABLES, Launched, is_of_process, launched};
pub use refusal::{MpiRefusal, Unusable};

/// Tag of all messages.
const TAG: i32 = 0;

/// Maximum time a rank waits for the others to reach the end.
pub const SHUTDOWN_MAX: Duration = Duration::from_secs(60);

/// Maximum time for a library to finalize, once all ranks have reached the end.
pub const FINALIZE_MAX: Duration = Duration::from_secs(2);

/// Maximum messages being received at a time.
const RECEIVING_MAX: usize = 32;

/// Maximum bytes being received at a time; a single message may be longer.
const RECEIVING_BYTES_MAX: usize = 64 << 20;

/// Outgoing messages tested on each receive.
const SENDING_LOOKS: usize = 4;

/// The ranks of the job that this process belongs to.
///
/// Dropping it does not finalize MPI: to the others, a process that exits then is a lost rank,
/// which is right for one that failed.
pub struct World {
    library: Library,
    version: String,
    host: String,
    rank: Rank,
    size: u32,
    /// Oldest first.
    sending: VecDeque<Flight>,
    /// In the order of matching, which preserves the order of each sender.
    receiving: VecDeque<Flight>,
    /// Messages to oneself.
    own: VecDeque<Vec<u8>>,
    /// True to look at one's own messages first next time, so that neither kind starves.
    own_first: bool,
}

impl World {
    /// Opens the library `explicit`, or the one that belongs to the launcher, and joins the job.
    ///
    /// From then on only the calling thread may use MPI. A process can do this once.
    ///
    /// # Errors
    /// If there is no library, or if it is not usable, doesn't start, or doesn't know the
    /// launcher's ranks.
    pub fn open(explicit: Option<&Path>) -> Result<Self, MpiRefusal> {
        let launched = launched();
        launched::keep_launcher_socket();
        one_host::set(launched.as_ref());
        let library = match explicit {
            Some(path) => open_this(path)?,
            None => find(launched.as_ref())?,
        };
        let version = describe(&library);
        let not_started = |why| MpiRefusal::NotStarted { library: version.clone(), why };
        library.start().map_err(not_started)?;
        let (size, rank) = (library.size().map_err(not_started)?, library.rank().map_err(not_started)?);
        if let Some(refusal) = launched.and_then(|launched| disagreement(&launched, size, rank, &version)) {
            // The refusal matters more than whether the wrong library finalizes cleanly.
            library.finish().unwrap_or_default();
            return Err(refusal);
        }
        let host = library.host().unwrap_or_default();
        Ok(Self {
            library,
            version,
            host,
            rank: Rank(rank),
            size,
            sending: VecDeque::new(),
            receiving: VecDeque::new(),
            own: VecDeque::new(),
            own_first: true,
        })
    }

    /// Returns the library's name, version and path.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the path of the library, or the name that the dynamic loader resolved.
    #[must_use]
    pub fn library(&self) -> &Path {
        self.library.path()
    }

    /// Returns the name of the library's ABI.
    #[must_use]
    pub fn abi(&self) -> &'static str {
        self.library.abi()
    }

    /// Returns the name of this host.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Leaves the job: waits, without spinning, until all ranks do, and finalizes MPI.
    ///
    /// Libraries have been seen to hang at that point, after all work is done, while they tear down
    /// connections (MPICH 4.0, and Open MPI 4 over UCX on TCP). If the library doesn't return
    /// within [`FINALIZE_MAX`], the process exits with `status`.
    ///
    /// # Errors
    /// If other ranks don't reach the end or don't receive their messages within [`SHUTDOWN_MAX`],
    /// if received messages were not taken, or if the library fails.
    pub fn finish_or_exit(mut self, status: u8) -> Result<(), Broken> {
        let mut deadline = Deadline::new(Instant::now(), SHUTDOWN_MAX);
        shutdown::until(&mut deadline, || self.advance_sends())?;
        if !self.receiving.is_empty() {
            return Err(Broken::Transport {
                doing: "ending MPI",
                why: "some received messages were never processed".to_owned(),
            });
        }
        // Before `MPI_Finalize`, in which some libraries stop moving messages that others still
        // wait for (`shutdown.rs`).
        shutdown::agree(&self.library, self.rank, self.size, &mut deadline)?;
        shutdown::guarded(&self.library, FINALIZE_MAX, status)
    }

    /// Ends the processes of all ranks, as far as the library can, and this one.
    pub fn abort(self, status: i32) -> ! {
        self.library.abort(status);
        std::process::exit(status)
    }

    /// Drops some of the messages that have left, to free memory while more are sent.
    fn look_at_sending(&mut self) -> Result<(), Broken> {
        for _ in 0..SENDING_LOOKS.min(self.sending.len()) {
            let Some(mut flight) = self.sending.pop_front() else { break };
            if !flight.is_done(&self.library)? {
                // Move it to the back: a message that its receiver doesn't take must not hide
                // the others.
                self.sending.push_back(flight);
            }
        }
        Ok(())
    }

    /// Starts to receive announced messages, up to the limits.
    fn look_for_messages(&mut self) -> Result<(), Broken> {
        let mut bytes: usize = self.receiving.iter().map(Flight::len).sum();
        while self.receiving.len() < RECEIVING_MAX && bytes < RECEIVING_BYTES_MAX {
            let Some(matched) = self.library.probe(TAG)? else { break };
            bytes += matched.bytes;
            self.receiving.push_back(Flight::receive(&self.library, matched)?);
        }
        Ok(())
    }

    /// Returns the first complete message that no earlier one of its sender precedes.
    fn take_received(&mut self) -> Result<Option<(Rank, Vec<u8>)>, Broken> {
        let mut waiting: Vec<Rank> = Vec::new();
        for index in 0..self.receiving.len() {
            let Some(flight) = self.receiving.get_mut(index) else { break };
            let from = flight.peer;
            if flight.is_done(&self.library)? && !waiting.contains(&from) {
                let flight = self.receiving.remove(index);
                return Ok(flight.and_then(Flight::into_bytes).map(|bytes| (from, bytes)));
            }
            waiting.push(from);
        }
        Ok(None)
    }

    fn take_own(&mut self) -> Option<(Rank, Vec<u8>)> {
        let message = self.own.pop_front()?;
        self.own_first = false;
        Some((self.rank, message))
    }
}

impl Transport for World {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn send(&mut self, to: Rank, message: Vec<u8>) -> Result<(), Broken> {
        if to.0 >= self.size {
            let why = format!("there is no rank {} among {}", to.0, self.size);
            return Err(Broken::Transport { doing: "sending a message", why });
        }
        if to == self.rank {
            self.own.push_back(message);
        } else {
            self.sending.push_back(Flight::send(&self.library, to, TAG, message)?);
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<Option<(Rank, Vec<u8>)>, Broken> {
        if self.own_first
            && let Some(own) = self.take_own()
        {
            return Ok(Some(own));
        }
        self.own_first = true;
        self.look_at_sending()?;
        if let Some(received) = self.take_received()? {
            return Ok(Some(received));
        }
        self.look_for_messages()?;
        Ok(self.take_received()?.or_else(|| self.take_own()))
    }

    fn advance_sends(&mut self) -> Result<bool, Broken> {
        for _ in 0..self.sending.len() {
            let Some(mut flight) = self.sending.pop_front() else { break };
            if !flight.is_done(&self.library)? {
                self.sending.push_back(flight);
            }
        }
        Ok(self.sending.is_empty())
    }
}

/// Returns name, version and path of the library that ranks are likely to open: `explicit`, or the
/// first one found. MPI is not initialised for it, which the standard allows.
///
/// # Errors
/// If there is no library, or if it is not usable.
pub fn library_there(explicit: Option<&Path>) -> Result<String, MpiRefusal> {
    let library = match explicit {
        Some(path) => open_this(path)?,
        None => find(None)?,
    };
    Ok(describe(&library))
}

/// Returns a refusal if library and launcher disagree about the job.
fn disagreement(launched: &Launched, size: u32, rank: u32, library: &str) -> Option<MpiRefusal> {
    let library = library.to_owned();
    match launched.ranks {
        Some(ranks) if ranks != size => Some(MpiRefusal::OtherSize { launcher: ranks, size, library }),
        // If both know the size, libraries may number ranks in an order of their own, as Cray's
        // does on request.
        None if launched.rank != rank => {
            Some(MpiRefusal::OtherRank { launcher: launched.rank, rank, library })
        }
        _ => None,
    }
}

fn open_this(path: &Path) -> Result<Library, MpiRefusal> {
    if cfg!(target_feature = "crt-static") {
        return Err(MpiRefusal::Static);
    }
    Library::open(path).map_err(|error| match error {
        NotOpened::Useless(refusal) => refusal,
        NotOpened::Missing => {
            MpiRefusal::NotOpened { library: path.to_owned(), why: "No such file or directory".to_owned() }
        }
    })
}

/// Opens the launcher's library: one installed next to it, or one that the dynamic loader finds.
fn find(launched: Option<&Launched>) -> Result<Library, MpiRefusal> {
    let names =
        launched::library_names(launched.map_or(launched::LibraryFamily::Any, |launched| launched.family));
    let folders = match launched {
        Some(_) => launched::library_folders(launched::launcher().as_deref()),
        None => Vec::new(),
    };
    open_first(names, &folders)
}

/// Describes the library that ranks of a launcher would open.
///
/// # Errors
/// If there is no library, or if it is not usable.
pub fn library_of(launcher: &Path, family: LauncherFamily) -> Result<String, MpiRefusal> {
    let program = launcher.canonicalize().unwrap_or_else(|_| launcher.to_owned());
    let folders = launched::library_folders(Some(&program));
    open_first(launched::library_names(family.into()), &folders).map(|library| describe(&library))
}

impl From<LauncherFamily> for launched::LibraryFamily {
    fn from(family: LauncherFamily) -> Self {
        match family {
            LauncherFamily::OpenMpi4 | LauncherFamily::OpenMpi5 => Self::OpenMpi,
            LauncherFamily::Mpich => Self::Mpich,
            LauncherFamily::Srun | LauncherFamily::Other => Self::Any,
        }
    }
}

/// Opens the first library found.
fn open_first(names: &[&str], folders: &[PathBuf]) -> Result<Library, MpiRefusal> {
    if cfg!(target_feature = "crt-static") {
        return Err(MpiRefusal::Static);
    }
    let adjacent = folders.iter().flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    let mut useless = None;
    for path in adjacent.filter(|path| path.exists()).chain(names.iter().map(PathBuf::from)) {
        match Library::open(&path) {
            Ok(library) => return Ok(library),
            Err(NotOpened::Missing) => {}
            // Another one may work. If none does, report the first, which was probably the
            // one meant.
            Err(NotOpened::Useless(refusal)) => useless = useless.or(Some(refusal)),
        }
    }
    let tried = names.iter().map(|&name| name.to_owned()).collect();
    Err(useless.unwrap_or(MpiRefusal::NotFound { tried }))
}

/// Describes a library to users: its own version string and its path.
fn describe(library: &Library) -> String {
    let version = library.version();
    let path = library.path().display();
    if version.is_empty() { path.to_string() } else { format!("{version} ({path})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_no_library_the_names_that_were_tried_are_reported() {
        let names = ["libhaul-one.so.1", "libhaul-two.so.2"];
        let Err(refusal) = open_first(&names, &[PathBuf::from("/nowhere")]) else { unreachable!() };
        let expected = "no MPI library found (tried libhaul-one.so.1, libhaul-two.so.2)";
        assert_eq!(refusal.to_string(), expected);
    }

    #[test]
    fn a_file_that_is_no_library_hides_none_and_is_reported_if_there_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let bad = folder.path().join("libhaul-one.so.1");
        std::fs::write(&bad, "text").unwrap();
        let folders = [folder.path().to_owned()];
        let Err(refusal) = open_first(&["libhaul-one.so.1", "libm.so.6"], &folders) else { unreachable!() };
        assert_eq!(refusal, MpiRefusal::NotOpened { library: bad, why: "file too short".to_owned() });
        // Opening succeeds with the system's libm, but it is not MPI.
        let Err(refusal) = open_first(&["libm.so.6"], &folders) else { unreachable!() };
        assert!(matches!(refusal, MpiRefusal::NotMpi { .. }), "{refusal}");
    }

    #[test]
    fn sizes_must_be_the_same_and_ranks_too_where_the_launcher_gives_no_size() {
        let launched = |ranks| {
            let family = launched::LibraryFamily::Any;
            Launched { ranks, rank: 2, on_one_host: false, by: "a test", family }
        };
        let text = |ranks, size, rank| {
            disagreement(&launched(ranks), size, rank, "X").map(|refusal| refusal.to_string())
        };
        assert_eq!(text(Some(3), 3, 1), None);
        let expected = "the launcher says 3 ranks, but X says 1: it belongs to another MPI";
        assert_eq!(text(Some(3), 1, 0).as_deref(), Some(expected));
        assert_eq!(text(None, 3, 2), None);
        let expected = "the launcher says rank 2, but X says 0: it belongs to another MPI";
        assert_eq!(text(None, 1, 0).as_deref(), Some(expected));
    }
}
