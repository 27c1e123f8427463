//! Trees deeper than any path can express.
//!
//! A chain of directories, each with one small file, built and checked one level at a time with a
//! single descriptor.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};

const LEVEL: &str = "d";
const LEAF: &str = "f";

/// Creates a chain of `levels` directories below the new directory `root`. Each contains a file
/// with the number of its level.
pub fn build(root: &Path, levels: usize) -> io::Result<()> {
    std::fs::create_dir(root)?;
    let mut here = open_directory(CWD, root)?;
    for level in 0..levels {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let leaf = rustix::fs::openat(&here, LEAF, flags, Mode::from_raw_mode(0o600))?;
        rustix::io::write(&leaf, level.to_string().as_bytes())?;
        rustix::fs::mkdirat(&here, LEVEL, Mode::from_raw_mode(0o755))?;
        here = open_directory(&here, LEVEL)?;
    }
    Ok(())
}

/// Returns how many levels of the chain exist, each with the right file.
pub fn measure(root: &Path) -> io::Result<usize> {
    let mut here = open_directory(CWD, root)?;
    for level in 0.. {
        let leaf = match rustix::fs::openat(&here, LEAF, OFlags::RDONLY | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(leaf) => leaf,
            Err(rustix::io::Errno::NOENT) => return Ok(level),
            Err(error) => return Err(error.into()),
        };
        let mut buffer = [0u8; 32];
        let length = rustix::io::read(&leaf, &mut buffer)?;
        if buffer[..length] != *level.to_string().as_bytes() {
            return Err(io::Error::other(format!("level {level} holds {:?}", &buffer[..length])));
        }
        here = open_directory(&here, LEVEL)?;
    }
    Ok(0)
}

fn open_directory(parent: impl std::os::fd::AsFd, name: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(parent, name, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sandbox;

    #[test]
    fn a_chain_is_as_deep_as_it_was_made() {
        let sandbox = Sandbox::in_memory().unwrap();
        build(&sandbox.join("chain"), 3000).unwrap();
        assert_eq!(measure(&sandbox.join("chain")).unwrap(), 3000);
    }
}
