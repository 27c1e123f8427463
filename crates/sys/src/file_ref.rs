//! A file held by a descriptor, open or pinned, for code that reads or sets attributes of both.

use std::ffi::CStr;

use crate::error::Result;
use crate::fd::Fd;
use crate::metadata::{Owner, Times, change_mode, change_owner, change_times};
use crate::pinned::Pinned;
use crate::stat::{Mode, Stat, stat};
use crate::xattr::{XattrNames, get_xattr, list_xattrs, remove_xattr, set_xattr};

/// A file to read or set attributes of: always an object, never a name, which may lead to another
/// file by now.
#[derive(Clone, Copy, Debug)]
pub enum FileRef<'a> {
    /// An open file or directory.
    Open(&'a Fd),
    /// A file of any type that is not open: a symbolic link, a special file, or a directory that
    /// can't be read.
    Pinned(&'a Pinned),
}

impl FileRef<'_> {
    /// Returns a descriptor of the file, which may be an `O_PATH` one.
    #[must_use]
    pub fn descriptor(&self) -> &Fd {
        match self {
            Self::Open(file) => file,
            Self::Pinned(pinned) => pinned.descriptor(),
        }
    }

    /// Returns its metadata.
    ///
    /// # Errors
    /// Any error from `statx(2)`.
    pub fn stat(self) -> Result<Stat> {
        match self {
            Self::Open(file) => stat(file),
            Self::Pinned(pinned) => pinned.stat(),
        }
    }

    /// Changes its owner and group.
    ///
    /// # Errors
    /// Any error from [`change_owner`] or [`Pinned::change_owner`].
    pub fn change_owner(self, owner: Owner) -> Result<()> {
        match self {
            Self::Open(file) => change_owner(file, owner),
            Self::Pinned(pinned) => pinned.change_owner(owner),
        }
    }

    /// Changes its mode.
    ///
    /// # Errors
    /// Any error from [`change_mode`] or [`Pinned::change_mode`].
    pub fn change_mode(self, mode: Mode) -> Result<()> {
        match self {
            Self::Open(file) => change_mode(file, mode),
            Self::Pinned(pinned) => pinned.change_mode(mode),
        }
    }

    /// Changes its times.
    ///
    /// # Errors
    /// Any error from [`change_times`] or [`Pinned::change_times`].
    pub fn change_times(self, times: Times) -> Result<()> {
        match self {
            Self::Open(file) => change_times(file, times),
            Self::Pinned(pinned) => pinned.change_times(times),
        }
    }

    /// Lists its extended attributes.
    ///
    /// # Errors
    /// Any error from [`list_xattrs`] or [`Pinned::list_xattrs`].
    pub fn list_xattrs(self) -> Result<XattrNames> {
        match self {
            Self::Open(file) => list_xattrs(file),
            Self::Pinned(pinned) => pinned.list_xattrs(),
        }
    }

    /// Returns the value of its extended attribute `key`.
    ///
    /// # Errors
    /// Any error from [`get_xattr`] or [`Pinned::get_xattr`].
    pub fn get_xattr(self, key: &CStr) -> Result<Vec<u8>> {
        match self {
            Self::Open(file) => get_xattr(file, key),
            Self::Pinned(pinned) => pinned.get_xattr(key),
        }
    }

    /// Sets its extended attribute `key`.
    ///
    /// # Errors
    /// Any error from [`set_xattr`] or [`Pinned::set_xattr`].
    pub fn set_xattr(self, key: &CStr, value: &[u8]) -> Result<()> {
        match self {
            Self::Open(file) => set_xattr(file, key, value),
            Self::Pinned(pinned) => pinned.set_xattr(key, value),
        }
    }

    /// Removes its extended attribute `key`, if it is there.
    ///
    /// # Errors
    /// Any error from [`remove_xattr`] or [`Pinned::remove_xattr`].
    pub fn remove_xattr(self, key: &CStr) -> Result<()> {
        match self {
            Self::Open(file) => remove_xattr(file, key),
            Self::Pinned(pinned) => pinned.remove_xattr(key),
        }
    }
}
