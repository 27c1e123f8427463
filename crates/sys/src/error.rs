//! Failed system calls, printed as strace prints them.

use std::{fmt, io};

use crate::operation::Operation;

/// The kernel's error number.
pub use rustix::io::Errno;

/// The result of a system call.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed system call: operation, arguments and errno.
///
/// `Display` prints only the reason, in the words of glibc's `strerror` ("Permission denied"),
/// because GNU's messages end that way. `{:#}` and `Debug` print the whole call:
/// `openat(7, "name", O_RDONLY|O_NOFOLLOW) = -1 (Permission denied)`.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<FailedCall>);

#[derive(Clone, PartialEq, Eq)]
struct FailedCall {
    operation: Operation,
    arguments: String,
    errno: Errno,
}

impl Error {
    /// Creates the error for `operation`, called with the formatted `arguments`.
    #[must_use]
    pub fn new(operation: Operation, arguments: String, errno: Errno) -> Self {
        Self(Box::new(FailedCall { operation, arguments, errno }))
    }

    /// Returns the errno.
    #[must_use]
    pub fn errno(&self) -> Errno {
        self.0.errno
    }

    /// Returns the operation that failed.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.0.operation
    }

    /// Returns the formatted arguments of the call.
    #[must_use]
    pub fn arguments(&self) -> &str {
        &self.0.arguments
    }

    /// Returns true if the call failed with `errno`.
    #[must_use]
    pub fn is(&self, errno: Errno) -> bool {
        self.0.errno == errno
    }
}

/// Returns the message of an error, in the words of glibc, without Rust's "(os error N)".
#[must_use]
pub fn reason(error: &io::Error) -> String {
    #[cfg(target_env = "musl")]
    if let Some((_, words)) =
        WORDS_OF_GLIBC.iter().find(|(errno, _)| Some(*errno) == Errno::from_io_error(error))
    {
        return (*words).to_owned();
    }
    let mut text = error.to_string();
    if let Some(end) = text.rfind(" (os error") {
        text.truncate(end);
    }
    text
}

/// The messages of glibc's `strerror` that differ from musl's, for errors of file systems and of
/// the networks below them. Users and scripts of GNU cp know them.
#[cfg(any(test, target_env = "musl"))]
const WORDS_OF_GLIBC: [(Errno, &str); 26] = [
    (Errno::IO, "Input/output error"),
    (Errno::NOMEM, "Cannot allocate memory"),
    (Errno::BUSY, "Device or resource busy"),
    (Errno::XDEV, "Invalid cross-device link"),
    (Errno::MFILE, "Too many open files"),
    (Errno::NOTTY, "Inappropriate ioctl for device"),
    (Errno::SPIPE, "Illegal seek"),
    (Errno::RANGE, "Numerical result out of range"),
    (Errno::DEADLK, "Resource deadlock avoided"),
    (Errno::NAMETOOLONG, "File name too long"),
    (Errno::LOOP, "Too many levels of symbolic links"),
    (Errno::TIME, "Timer expired"),
    (Errno::NONET, "Machine is not on the network"),
    (Errno::REMOTE, "Object is remote"),
    (Errno::COMM, "Communication error on send"),
    (Errno::OVERFLOW, "Value too large for defined data type"),
    (Errno::ILSEQ, "Invalid or incomplete multibyte or wide character"),
    (Errno::OPNOTSUPP, "Operation not supported"),
    (Errno::NETUNREACH, "Network is unreachable"),
    (Errno::CONNABORTED, "Software caused connection abort"),
    (Errno::NOTCONN, "Transport endpoint is not connected"),
    (Errno::TIMEDOUT, "Connection timed out"),
    (Errno::HOSTUNREACH, "No route to host"),
    (Errno::UCLEAN, "Structure needs cleaning"),
    (Errno::DQUOT, "Disk quota exceeded"),
    (Errno::HWPOISON, "Memory page has hardware error"),
];

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = reason(&self.0.errno.into());
        if out.alternate() {
            write!(out, "{}({}) = -1 ({reason})", self.0.operation.name(), self.0.arguments)
        } else {
            out.write_str(&reason)
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self:#}")
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_reads_like_strace_and_its_reason_like_strerror() {
        let error = Error::new(Operation::Openat, r#"7, "name", O_RDONLY"#.to_owned(), Errno::ACCESS);
        assert_eq!(error.to_string(), "Permission denied");
        assert_eq!(format!("{error:#}"), r#"openat(7, "name", O_RDONLY) = -1 (Permission denied)"#);
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn the_words_of_glibc_are_its_own() {
        for (errno, words) in WORDS_OF_GLIBC {
            assert_eq!(reason(&errno.into()), words);
        }
    }
}
