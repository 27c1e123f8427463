//! Files without a name (`O_TMPFILE`), which the `fuser` crate doesn't know.
//!
//! The kernel asks for such a file with `FUSE_TMPFILE`, whose arguments are those of `FUSE_CREATE`,
//! with `/` as the name. So a thread between the kernel and the session changes the one into the
//! other. No other request has that name.
//!
//! ```text
//! /dev/fuse ──► kernel's requests, FUSE_TMPFILE as FUSE_CREATE ──► socket ──► session
//!           ◄── replies ◄──────────────────────────────────────── socket ◄──
//! ```
//!
//! Every message is copied once more, so this is an option.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::Arc;

use rustix::mount::{MountFlags, mount};
use rustix::net::sockopt::set_socket_send_buffer_size_force;

/// Name of a file that is created without one.
pub(crate) const UNNAMED: &str = "/";

/// Room for a message: a data request and its header.
const MESSAGE_BYTES: usize = (1 << 20) + (64 << 10);
/// Room in a socket, in bytes.
const SOCKET_BYTES: usize = 16 << 20;

/// Position of the operation in a request, and two operations (`linux/fuse.h`).
const OPERATION: std::ops::Range<usize> = 4..8;
const FUSE_CREATE: u32 = 35;
const FUSE_TMPFILE: u32 = 51;

/// Mounts a FUSE file system at `point`. Returns the descriptor for its session. Needs root.
pub(crate) fn mount_relayed(name: &str, point: &Path) -> io::Result<OwnedFd> {
    let device = File::options().read(true).write(true).open("/dev/fuse")?;
    let data = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other\0",
        device.as_raw_fd()
    );
    let data = std::ffi::CString::from_vec_with_nul(data.into_bytes()).map_err(io::Error::other)?;
    mount(name, point, "fuse", MountFlags::empty(), data.as_c_str())?;
    let (ours, theirs) = UnixDatagram::pair()?;
    for socket in [&ours, &theirs] {
        set_socket_send_buffer_size_force(socket, SOCKET_BYTES)?;
    }
    let (device, ours) = (Arc::new(device), Arc::new(ours));
    let requests = (Arc::clone(&device), Arc::clone(&ours));
    spawn("requests", move || pass_requests(&requests.0, &requests.1))?;
    spawn("replies", move || pass_replies(&ours, &device))?;
    Ok(theirs.into())
}

/// Starts a thread that ends with its mount.
fn spawn(name: &str, pass: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
    let run = move || pass().unwrap_or_default();
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
}

fn pass_requests(mut device: &File, session: &UnixDatagram) -> io::Result<()> {
    let mut message = vec![0; MESSAGE_BYTES];
    loop {
        match device.read(&mut message) {
            Ok(length) => {
                rename_operation(&mut message[..length]);
                session.send(&message[..length])?;
            }
            // `ENOENT`: the request was interrupted before it was read.
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
    }
}

fn pass_replies(session: &UnixDatagram, mut device: &File) -> io::Result<()> {
    let mut message = vec![0; MESSAGE_BYTES];
    loop {
        let length = session.recv(&mut message)?;
        match device.write(&message[..length]) {
            Ok(_) => {}
            // `ENOENT`: nobody waits for the reply any more.
            Err(error) if is_passing(&error) => {}
            // The session has no other way to learn that the kernel refuses a reply.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            Err(error) => return Err(error),
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR | libc::EAGAIN))
}

/// Makes `FUSE_CREATE` of `FUSE_TMPFILE`.
fn rename_operation(request: &mut [u8]) {
    if let Some(operation) = request.get_mut(OPERATION)
        && *operation == FUSE_TMPFILE.to_ne_bytes()
    {
        operation.copy_from_slice(&FUSE_CREATE.to_ne_bytes());
    }
}
