//! Failures of system calls, printed as strace prints them.

use std::fmt;

use crate::operation::Operation;

/// The kernel's error number.
pub use rustix::io::Errno;

/// The result of a system call.
pub type Result<T> = std::result::Result<T, Error>;

/// One failed system call: which, with what, and why.
///
/// `Display` gives the reason alone, as `strerror` words it ("Permission denied"), because that is what GNU's messages
/// end in; `{:#}` and `Debug` give the whole call: `openat(7, "name", O_RDONLY|O_NOFOLLOW) = -1 (Permission denied)`.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Failure>);

#[derive(Clone, PartialEq, Eq)]
struct Failure {
    operation: Operation,
    arguments: String,
    errno: Errno,
}

impl Error {
    /// Makes the failure of `operation`, called with `arguments` (already worded), for `errno`.
    #[must_use]
    pub fn new(operation: Operation, arguments: String, errno: Errno) -> Self {
        Self(Box::new(Failure { operation, arguments, errno }))
    }

    /// Returns the kernel's reason.
    #[must_use]
    pub fn errno(&self) -> Errno {
        self.0.errno
    }

    /// Returns the operation that failed.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.0.operation
    }

    /// Returns what the operation was called with, worded.
    #[must_use]
    pub fn arguments(&self) -> &str {
        &self.0.arguments
    }

    /// Tells whether the call failed for `errno`.
    #[must_use]
    pub fn is(&self, errno: Errno) -> bool {
        self.0.errno == errno
    }
}

/// Words an error number as the C library does, without Rust's "(os error N)".
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
