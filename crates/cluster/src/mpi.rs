//! Ranks of an MPI job, by an MPI library that is opened at run time.
//!
//! One binary serves any MPI: nothing of MPI is needed to build it, and nothing is linked. [`launched()`] reads what the launcher
//! put into the environment; [`World::open`] finds the library that belongs to the launcher, knows its binary interface (`abi`),
//! starts it, and compares its idea of the job with the launcher's, because a library that does not understand the launcher
//! takes each process for the only one.
//!
//! Messages are sent and received without waiting: the calls that wait spin. The bytes of a message on its way belong to its
//! flight until the library is done with them. Errors are returned; a library that loses a rank may still end the process, as
//! MPI libraries do.
//!
//! Promises: messages of a rank arrive once, whole, in the order it sent them. The library is called by one thread. What is
//! received and not yet asked for is bounded; what is sent and has not left is bounded by whoever sends, see
//! [`Transport::settle`].

mod abi;
mod flight;
mod goodbye;
mod launched;
mod library;
mod one_host;
mod refusal;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flight::Flight;
use library::{Library, NotOpened};

use crate::launch::command;
use crate::transport::{Broken, Rank, Transport};
pub use launched::{LAUNCHER_VARIABLES, Launched, launched};
pub use refusal::Refusal;

/// The tag of all messages.
const TAG: i32 = 0;

/// Bounds how long a rank waits at its end for the others.
pub const GOODBYE_MAX: Duration = Duration::from_secs(60);

/// Bounds how long a library may take to end, once all ranks have come to their end.
pub const FINALIZE_MAX: Duration = Duration::from_secs(2);

/// Bounds the messages that are being received at a time.
const RECEIVING_MAX: usize = 32;

/// Bounds their bytes; a single message may be longer.
const RECEIVING_BYTES_MAX: usize = 64 << 20;

/// How many of the messages on their way out are looked at while messages are received.
const SENDING_LOOKS: usize = 4;

/// The ranks of the job this process belongs to.
///
/// Dropping it does not end MPI: a process that ends then is a lost rank to the others, which is right for one that failed.
pub struct World {
    library: Library,
    version: String,
    host: String,
    rank: Rank,
    size: u32,
    /// Oldest first.
    sending: VecDeque<Flight>,
    /// In the order in which they were matched, which is the order of each sender.
    receiving: VecDeque<Flight>,
    /// Messages to oneself.
    own: VecDeque<Vec<u8>>,
    /// Whether the next look goes to one's own messages first, so that neither kind waits for ever.
    own_first: bool,
}

impl World {
    /// Opens the library `explicit`, or the one that belongs to the launcher, and joins the job.
    ///
    /// The calling thread is the one that uses MPI from then on. A process can do this once.
    ///
    /// # Errors
    /// When there is no library, when it is none, does not start, or does not know of the launcher's ranks.
    pub fn open(explicit: Option<&Path>) -> Result<Self, Refusal> {
        let launched = launched();
        one_host::tell(launched.as_ref());
        let library = match explicit {
            Some(path) => open_this(path)?,
            None => find(launched.as_ref())?,
        };
        let version = describe(&library);
        let not_started = |why| Refusal::NotStarted { library: version.clone(), why };
        library.start().map_err(not_started)?;
        let (size, rank) = (library.size().map_err(not_started)?, library.rank().map_err(not_started)?);
        if let Some(refusal) = launched.and_then(|launched| disagreement(&launched, size, rank, &version)) {
            // The refusal is what counts; that the wrong library does not end well either adds nothing.
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

    /// Returns the path of the library, or the name by which the system's loader found it.
    #[must_use]
    pub fn library(&self) -> &Path {
        self.library.path()
    }

    /// Returns the name of the library's binary interface.
    #[must_use]
    pub fn abi(&self) -> &'static str {
        self.library.abi()
    }

    /// Returns the name of the host this process is on.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Leaves the job: waits, without spinning, until all ranks do, and ends MPI.
    ///
    /// Libraries have been seen to hang at that point (MPICH 4.0 and Open MPI 4 over UCX on TCP), when all is done and only
    /// connections are taken down. So a library that is not back within [`FINALIZE_MAX`] is left there: the process ends
    /// itself with `status`.
    ///
    /// # Errors
    /// When others do not come to their end within [`GOODBYE_MAX`], or what was sent to them is not taken; when messages were
    /// received and not asked for; when the library fails.
    pub fn finish_or_exit(mut self, status: u8) -> Result<(), Broken> {
        let deadline = Instant::now() + GOODBYE_MAX;
        goodbye::until(deadline, || self.settle())?;
        if !self.receiving.is_empty() {
            return Err(Broken { doing: "ending MPI", why: "not all messages were asked for".to_owned() });
        }
        goodbye::agree(&self.library, self.rank, self.size, deadline)?;
        goodbye::guarded(&self.library, FINALIZE_MAX, status)
    }

    /// Ends the processes of all ranks, as far as the library can, and this one.
    pub fn abort(self, status: i32) -> ! {
        self.library.abort(status);
        std::process::exit(status)
    }

    /// Forgets some of the messages that have left, so that their memory goes while more are sent.
    fn look_at_sending(&mut self) -> Result<(), Broken> {
        for _ in 0..SENDING_LOOKS.min(self.sending.len()) {
            let Some(mut flight) = self.sending.pop_front() else { break };
            if !flight.is_done(&self.library)? {
                // To the back: one that its receiver does not take must not hide the others.
                self.sending.push_back(flight);
            }
        }
        Ok(())
    }

    /// Begins to receive what has announced itself, up to the bounds.
    fn look_for_messages(&mut self) -> Result<(), Broken> {
        let mut bytes: usize = self.receiving.iter().map(Flight::len).sum();
        while self.receiving.len() < RECEIVING_MAX && bytes < RECEIVING_BYTES_MAX {
            let Some(matched) = self.library.probe(TAG)? else { break };
            bytes += matched.bytes;
            self.receiving.push_back(Flight::receive(&self.library, matched)?);
        }
        Ok(())
    }

    /// Takes the first message that is here whole and has no earlier one of its sender before it.
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
            return Err(Broken { doing: "sending a message", why });
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

    fn settle(&mut self) -> Result<bool, Broken> {
        for _ in 0..self.sending.len() {
            let Some(mut flight) = self.sending.pop_front() else { break };
            if !flight.is_done(&self.library)? {
                self.sending.push_back(flight);
            }
        }
        Ok(self.sending.is_empty())
    }
}

/// Tells name, version and path of the library that ranks are likely to open: `explicit`, or the first that there is. MPI is
/// not started for it, which its standard allows.
///
/// # Errors
/// When there is no library, or it is none.
pub fn library_there(explicit: Option<&Path>) -> Result<String, Refusal> {
    let library = match explicit {
        Some(path) => open_this(path)?,
        None => find(None)?,
    };
    Ok(describe(&library))
}

/// Says what the library and the launcher do not agree on.
fn disagreement(launched: &Launched, size: u32, rank: u32, library: &str) -> Option<Refusal> {
    let library = library.to_owned();
    match launched.ranks {
        Some(ranks) if ranks != size => Some(Refusal::OtherSize { launcher: ranks, size, library }),
        // Where both know the number, libraries may number the ranks in an order of their own, as Cray's does on request.
        None if launched.rank != rank => Some(Refusal::OtherRank { launcher: launched.rank, rank, library }),
        _ => None,
    }
}

fn open_this(path: &Path) -> Result<Library, Refusal> {
    Library::open(path).map_err(|error| match error {
        NotOpened::Useless(refusal) => refusal,
        NotOpened::Missing => {
            Refusal::NotOpened { library: path.to_owned(), why: "No such file or directory".to_owned() }
        }
    })
}

/// Opens the library that belongs to the launcher: one beside it, or one that the system's loader finds.
fn find(launched: Option<&Launched>) -> Result<Library, Refusal> {
    let names = launched::library_names(launched.map_or(launched::Family::Any, |launched| launched.family));
    let folders = match launched {
        Some(_) => launched::library_folders(launched::launcher().as_deref()),
        None => Vec::new(),
    };
    open_first(names, &folders)
}

/// Describes the library that ranks of a launcher would open.
///
/// # Errors
/// When there is no library, or it is none.
pub fn library_of(launcher: &Path, family: command::Family) -> Result<String, Refusal> {
    let program = launcher.canonicalize().unwrap_or_else(|_| launcher.to_owned());
    let folders = launched::library_folders(Some(&program));
    open_first(launched::library_names(family.into()), &folders).map(|library| describe(&library))
}

impl From<command::Family> for launched::Family {
    fn from(family: command::Family) -> Self {
        match family {
            command::Family::OpenMpi4 | command::Family::OpenMpi5 => Self::OpenMpi,
            command::Family::Mpich => Self::Mpich,
            command::Family::Srun | command::Family::Other => Self::Any,
        }
    }
}

/// Opens the first library that there is.
fn open_first(names: &[&str], folders: &[PathBuf]) -> Result<Library, Refusal> {
    let beside = folders.iter().flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    let mut useless = None;
    for path in beside.filter(|path| path.exists()).chain(names.iter().map(PathBuf::from)) {
        match Library::open(&path) {
            Ok(library) => return Ok(library),
            Err(NotOpened::Missing) => {}
            // Another one may do; if not, the first that there is was meant.
            Err(NotOpened::Useless(refusal)) => useless = useless.or(Some(refusal)),
        }
    }
    let tried = names.iter().map(|&name| name.to_owned()).collect();
    Err(useless.unwrap_or(Refusal::NotFound { tried }))
}

/// Names a library for people: what it says of itself, and where it is.
fn describe(library: &Library) -> String {
    let version = library.version();
    let path = library.path().display();
    if version.is_empty() { path.to_string() } else { format!("{version} ({path})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_no_library_the_names_that_were_tried_are_told() {
        let names = ["libhaul-one.so.1", "libhaul-two.so.2"];
        let Err(refusal) = open_first(&names, &[PathBuf::from("/nowhere")]) else { unreachable!() };
        let expected = "no MPI library found (tried libhaul-one.so.1, libhaul-two.so.2)";
        assert_eq!(refusal.to_string(), expected);
    }

    #[test]
    fn a_file_that_is_no_library_hides_none_and_is_told_if_there_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let bad = folder.path().join("libhaul-one.so.1");
        std::fs::write(&bad, "text").unwrap();
        let folders = [folder.path().to_owned()];
        let Err(refusal) = open_first(&["libhaul-one.so.1", "libm.so.6"], &folders) else { unreachable!() };
        assert_eq!(refusal, Refusal::NotOpened { library: bad, why: "file too short".to_owned() });
        // The loader's own libm was opened after it, and is no MPI.
        let Err(refusal) = open_first(&["libm.so.6"], &folders) else { unreachable!() };
        assert!(matches!(refusal, Refusal::NotMpi { .. }), "{refusal}");
    }

    #[test]
    fn sizes_must_be_the_same_and_ranks_too_where_the_launcher_tells_no_size() {
        let launched = |ranks| {
            let family = launched::Family::Any;
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
