//! Failed system calls, printed as strace prints them.

use std::fmt;

use crate::operation::Operation;

/// The kernel's error number.
pub use rustix::io::Errno;

/// The result of a system call.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed system call: operation, arguments and errno.
///
/// `Display` prints only the reason, in the words of `strerror` ("Permission denied"), because
/// GNU's messages end that way. `{:#}` and `Debug` print the whole call:
/// `openat(7, "name", O_RDONLY|O_NOFOLLOW) = -1 (Permission denied)`.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Failure>);

#[derive(Clone, PartialEq, Eq)]
struct Failure {
    operation: Operation,
    arguments: String,
    errno: Errno,
}

impl Error {
    /// Creates the error for `operation`, called with the formatted `arguments`.
    #[must_use]
    pub fn new(operation: Operation, arguments: String, errno: Errno) -> Self {
        Self(Box::new(Failure { operation, arguments, errno }))
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

/// Returns the C library's message for an errno, without Rust's "(os error N)".
fn reason(errno: Errno) -> String {
    let mut text = std::io::Error::from_raw_os_error(errno.raw_os_error()).to_string();
    if let Some(end) = text.rfind(" (os error") {
        text.truncate(end);
    }
    text
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = reason(self.0.errno);
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
}
