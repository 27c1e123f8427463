//! Errors of a distributed run, to match on. `Display` has a default text for each.
//!
//! ```text
//! rank:            RankMismatch ── as text: another build may read it ──► JobError::Unfit
//! rank event loop: Broken ── rank 0 reports it ────────────────────────► JobError::Lost
//! launch process:  JobError ─► a problem for the user, and another attempt if it `may_pass`
//! ```

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{error, fmt, io};

use haul_flow::Problem;

use crate::kind::ClusterKind;
use crate::launch::Loss;
use crate::launch::command::LaunchRefusal;

/// Why the processes of a job can't be started, or no longer work.
#[derive(Clone, Debug)]
pub enum JobError {
    /// There is no command line that starts them.
    Launcher(LaunchRefusal),
    /// The launcher, or a thread for its pipes, can't be started.
    NotStarted {
        /// The launcher.
        program: OsString,
        /// The reason.
        cause: Arc<io::Error>,
    },
    /// They belong to another launcher, and have already ended.
    Ended,
    /// An earlier attempt to start them has failed.
    NeverStarted,
    /// This process has no current directory for them to work in.
    NoDirectory(Arc<io::Error>),
    /// The init message can't be sent.
    NotSent(Arc<io::Error>),
    /// Not all of them answered the init message in time.
    NoAnswer {
        /// The limit.
        within: Duration,
    },
    /// A host can't take part.
    Unfit {
        /// The host.
        host: String,
        /// The reason, as [`RankMismatch`] prints it there.
        why: String,
    },
    /// The launcher reports that a process or a host is lost.
    Died(Loss),
    /// Rank 0 reports that the job is lost; as [`crate::transport::Broken`] prints it there.
    Lost(String),
    /// A rank reports a kind of problem that the launch process doesn't know.
    UnknownKind {
        /// The rank's host.
        host: String,
        /// The kind.
        kind: String,
    },
    /// The link to rank 0 is closed.
    Disconnected(LinkClosed),
    /// Rank 0 is silent.
    Silent(Duration),
    /// They are still there after the shutdown.
    NotEnded {
        /// The limit.
        within: Duration,
    },
}

impl JobError {
    /// True if the cause may be gone at the next attempt.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        !matches!(self, Self::Unfit { .. })
    }

    /// Returns the problem that reports this to the user.
    pub(crate) fn into_problem(self) -> Problem {
        match self {
            Self::Unfit { host, why } => Problem::new(ClusterKind::Unfit).naming(host).naming(why),
            other => Problem::new(ClusterKind::CannotRun).naming(other.to_string()),
        }
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Launcher(refusal) => refusal.fmt(out),
            Self::NotStarted { program, cause } => write!(out, "cannot run {}: {cause}", program.display()),
            Self::Ended => out.write_str("the processes on this host have ended"),
            Self::NeverStarted => out.write_str("the processes were not started"),
            Self::NoDirectory(cause) => write!(out, "cannot find the current directory: {cause}"),
            Self::NotSent(cause) => write!(out, "the processes do not answer: {cause}"),
            Self::NoAnswer { within } => {
                write!(out, "not all processes answered within {} s", within.as_secs())
            }
            Self::Unfit { host, why } => write!(out, "host {host}: {why}"),
            Self::Died(loss) => loss.fmt(out),
            Self::Lost(why) => out.write_str(why),
            Self::UnknownKind { host, kind } => {
                write!(out, "host {host}: a message has the unknown kind {kind}")
            }
            Self::Disconnected(why) => write!(out, "the processes are gone: {why}"),
            Self::Silent(silence) => {
                write!(out, "no message from the processes for {} s", silence.as_secs())
            }
            Self::NotEnded { within } => {
                write!(out, "the processes are still running {} s after the shutdown", within.as_secs())
            }
        }
    }
}

impl error::Error for JobError {}

/// Why a link delivers nothing more.
#[derive(Clone, Debug)]
pub enum LinkClosed {
    /// The peer closed it.
    Eof,
    /// It can't be read.
    Io(Arc<io::Error>),
    /// A frame has an impossible length, in bytes.
    TooLong(u32),
    /// A frame has the wrong checksum.
    Damaged,
    /// A frame is of an unknown kind.
    UnknownKind,
    /// A frame contains no message.
    Undecodable(Undecodable),
    /// The peer is silent.
    Silent,
}

impl fmt::Display for LinkClosed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Eof => out.write_str("the link is closed"),
            Self::Io(cause) => cause.fmt(out),
            Self::TooLong(length) => write!(out, "a frame of {length} bytes"),
            Self::Damaged => out.write_str("a frame with a wrong checksum"),
            Self::UnknownKind => out.write_str("a frame of an unknown kind"),
            Self::Undecodable(why) => why.fmt(out),
            Self::Silent => out.write_str("no message from it"),
        }
    }
}

impl error::Error for LinkClosed {}

impl From<io::Error> for LinkClosed {
    fn from(cause: io::Error) -> Self {
        Self::Io(Arc::new(cause))
    }
}

/// A message that can't be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecodable {
    /// Its length, in bytes.
    pub bytes: usize,
    /// The decoder's reason.
    pub why: postcard::Error,
}

impl fmt::Display for Undecodable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a message of {} bytes: {}", self.bytes, self.why)
    }
}

impl error::Error for Undecodable {}

/// Why a rank can't take part.
#[derive(Clone, Debug)]
pub enum RankMismatch {
    /// It runs another build of the program.
    OtherBuild {
        /// Build of the launch process.
        here: String,
        /// Build of the rank.
        there: String,
    },
    /// The init message can't be decoded.
    Undecodable(Undecodable),
    /// Its program doesn't have the tool.
    NoTool(String),
    /// Its tool doesn't understand the options.
    OtherOptions,
    /// It can't change to the working directory.
    Directory {
        /// The directory.
        path: PathBuf,
        /// The reason.
        cause: Arc<io::Error>,
    },
    /// The engine isn't available.
    Engine {
        /// Its name.
        name: &'static str,
        /// The reason.
        cause: haul_sys::Error,
    },
    /// It can't create a thread.
    Thread(Arc<io::Error>),
    /// It can't lower its priority.
    Priority(Arc<io::Error>),
    /// It can't create the timer that ends it when its lease is over.
    Lease(Arc<io::Error>),
    /// It doesn't see a directory.
    Unseen {
        /// The directory.
        path: String,
        /// The reason.
        cause: haul_sys::Error,
    },
    /// It sees another directory under that name.
    OtherDirectory {
        /// The directory.
        path: String,
        /// Name of the token file.
        token: String,
        /// Why the token wasn't found.
        cause: haul_sys::Error,
    },
}

impl fmt::Display for RankMismatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherBuild { here, there } => {
                write!(out, "the program there is another build, {there}; here it is {here}")
            }
            Self::Undecodable(why) => why.fmt(out),
            Self::NoTool(tool) => write!(out, "the program there has no '{tool}'"),
            Self::OtherOptions => out.write_str("the program there is of another version"),
            Self::Directory { path, cause } => {
                write!(out, "cannot change to the directory '{}': {cause}", path.display())
            }
            Self::Engine { name, cause } => write!(out, "cannot use the engine '{name}': {cause}"),
            Self::Thread(cause) => write!(out, "cannot create a thread: {cause}"),
            Self::Priority(cause) => write!(out, "cannot lower the priority: {cause}"),
            Self::Lease(cause) => write!(out, "cannot create a timer: {cause}"),
            Self::Unseen { path, cause } => write!(out, "cannot see the directory '{path}': {cause}"),
            Self::OtherDirectory { path, token, cause } => write!(
                out,
                "the directory '{path}' is another one there: the file '{token}' is not in it: {cause}"
            ),
        }
    }
}

impl error::Error for RankMismatch {}
