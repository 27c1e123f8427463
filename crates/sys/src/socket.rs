//! Unix stream sockets, through which other processes on this host control this one.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, fchmod};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};

use crate::error::Result;
use crate::gate;
use crate::operation::Operation;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 16;

/// Creates a socket at `path` that only this user can connect to, and listens there. It doesn't
/// block.
///
/// # Errors
/// Any error from `bind(2)`: `EADDRINUSE` if there is anything at that path, `ENAMETOOLONG` if it
/// is longer than 107 bytes.
pub fn listen_path(path: &CStr) -> Result<OwnedFd> {
    let show = || format!("{:?}", path.to_string_lossy());
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = gate::call(
        Operation::Socket,
        || socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None),
        || "AF_UNIX, SOCK_STREAM".to_owned(),
    )?;
    // The socket file gets the mode of the socket, less the umask (`unix_bind_bsd`,
    // net/unix/af_unix.c): there is no moment in which others could connect.
    gate::call(
        Operation::Fchmod,
        || fchmod(&socket, Mode::RUSR | Mode::WUSR),
        || format!("{}, 0600", socket.as_raw_fd()),
    )?;
    gate::call(
        Operation::Bind,
        || bind(&socket, &SocketAddrUnix::new(path)?),
        || format!("{}, {}", socket.as_raw_fd(), show()),
    )?;
    gate::call(
        Operation::Listen,
        || listen(&socket, BACKLOG),
        || format!("{}, {BACKLOG}", socket.as_raw_fd()),
    )?;
    Ok(socket)
}

/// Returns the effective user of the process that connected a socket.
///
/// # Errors
/// Any error from `getsockopt(2)`.
pub fn peer_user(socket: impl AsFd) -> Result<u32> {
    let socket = socket.as_fd();
    let peer = gate::call(
        Operation::Getsockopt,
        || socket_peercred(socket),
        || format!("{}, SOL_SOCKET, SO_PEERCRED", socket.as_raw_fd()),
    )?;
    Ok(peer.uid.as_raw())
}

/// Waits until one of the descriptors can be read without blocking, is closed by its peer, or has
/// failed, but not longer than `limit`. Returns which ones.
///
/// # Errors
/// Any error from `poll(2)`.
pub fn wait_until_readable(descriptors: &[BorrowedFd<'_>], limit: Duration) -> Result<Vec<bool>> {
    let mut polled: Vec<_> =
        descriptors.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let limit = Timespec::try_from(limit).ok();
    gate::call(
        Operation::Poll,
        || poll(&mut polled, limit.as_ref()),
        || format!("{} descriptors", descriptors.len()),
    )?;
    Ok(polled.iter().map(|polled| !polled.revents().is_empty()).collect())
}
