//! Layouts: how a file is spread over the servers of a striped file system.
//!
//! A layout is read from a file ([`FileLayout::of`]), changed as the user wants it, and set on a
//! new file before its first byte ([`create`]), because it can't be changed later. It is always
//! read back: a file system with fewer targets, or without the pool, sets something else and
//! reports success.
//!
//! | | attribute | on a new file |
//! |---|---|---|
//! | Lustre | `lustre.lov` ([`LustreLayout`]) | created without a layout, which is set first |
//! | CephFS | `ceph.file.layout` ([`CephLayout`]) | set while it is empty, unless inherited |
//!
//! A layout that can't be read or set is not an error: the file gets the file system's default, and
//! `--debug` reports it.

mod ceph;
mod lustre;
mod systems;

use std::ffi::CStr;
use std::fmt;

use haul_sys::{
    Errno, Error, Fd, Mode, Open, Operation, change_mode, get_xattr, open, remove_xattr, set_xattr, stat,
    synchronize,
};

pub use ceph::CephLayout;
pub use lustre::{LustreComponent, LustreLayout, Stripes, Unknown};
pub use systems::{FileSystems, Striped};

/// Striping of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Striping {
    /// Size of a stripe, in bytes.
    pub stripe_bytes: u64,
    /// Number of targets.
    pub stripes: u32,
}

/// Attribute that holds a Lustre layout.
const LOV: &CStr = c"lustre.lov";

/// Lustre's attributes that describe where the bytes are, by name or, ending in a dot, by prefix.
///
/// They are listed among the extended attributes, but don't belong to the file: set on another
/// file, they would do nothing at best. Lustre ignores `lustre.lov` on a file that has a layout.
/// The `trusted.` attributes of its servers describe one inode (its number, its links, its
/// archive); Lustre refuses them, or accepts and ignores them.
const OF_LUSTRE: [&[u8]; 9] = [
    b"lustre.",
    b"trusted.lov",
    b"trusted.lma",
    b"trusted.lmv",
    b"trusted.link",
    b"trusted.fid",
    b"trusted.som",
    b"trusted.hsm",
    b"trusted.dmv",
];

/// The same for CephFS. Lustre's names mean nothing there: such an attribute is the user's.
const OF_CEPH: [&[u8]; 1] = [b"ceph."];

/// Returns true if an extended attribute describes where the file's bytes are on a file system, and
/// so must not be copied.
#[must_use]
pub fn is_placement(how: Striped, key: &CStr) -> bool {
    let names: &[&[u8]] = match how {
        Striped::No => &[],
        Striped::Lustre => &OF_LUSTRE,
        Striped::Ceph => &OF_CEPH,
    };
    let key = key.to_bytes();
    names.iter().any(|known| if known.ends_with(b".") { key.starts_with(known) } else { key == *known })
}

/// A layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileLayout {
    /// Of Lustre.
    Lustre(LustreLayout),
    /// Of CephFS.
    Ceph(CephLayout),
}

/// Reason why a layout was not read or not set.
#[derive(Clone, Debug)]
pub enum LayoutError {
    /// A call failed.
    Failed(Error),
    /// The layout is of an unknown kind.
    Unknown(&'static str),
    /// Something else was set, described in words.
    Otherwise(Vec<String>),
    /// The target's file system has no layouts of this kind.
    Elsewhere,
}

impl fmt::Display for LayoutError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutError::Failed(cause) => write!(out, "{cause:#}"),
            LayoutError::Unknown(why) => out.write_str(why),
            LayoutError::Otherwise(what) => out.write_str(&what.join(", ")),
            LayoutError::Elsewhere => out.write_str("the file system has no such layouts"),
        }
    }
}

/// Kind of inode that has a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bearer {
    /// A file.
    File,
    /// A directory, whose new files get the layout.
    Directory,
}

/// A new file, and why it does not have the requested layout, if so.
pub struct Created {
    /// The file, open for writing.
    pub file: Fd,
    /// Why the layout is missing or another one, if so.
    pub refusal: Option<LayoutError>,
}

impl FileLayout {
    /// Reads the layout of an open file or directory; `None` if it has none of its own.
    ///
    /// # Errors
    /// If it can't be read or isn't understood. The file can be copied all the same.
    pub fn of(file: &Fd, how: Striped, bearer: Bearer) -> Result<Option<Self>, LayoutError> {
        let key = match (how, bearer) {
            (Striped::No, _) => return Ok(None),
            (Striped::Lustre, _) => LOV,
            (Striped::Ceph, Bearer::File) => ceph::OF_FILE,
            (Striped::Ceph, Bearer::Directory) => ceph::OF_DIRECTORY,
        };
        let value = match get_xattr(file, key) {
            Ok(value) => value,
            Err(cause) if matches!(cause.errno(), Errno::NODATA | Errno::OPNOTSUPP) => return Ok(None),
            Err(cause) => return Err(LayoutError::Failed(cause)),
        };
        let layout = match how {
            Striped::Lustre => LustreLayout::decode(&value)
                .map(FileLayout::Lustre)
                .map_err(|why| LayoutError::Unknown(why.reason()))?,
            _ => CephLayout::decode(&value)
                .map(FileLayout::Ceph)
                .ok_or(LayoutError::Unknown("its layout is of an unknown kind"))?,
        };
        Ok(Some(layout))
    }

    /// Reduces the stripe count to the number of stripes that `size` bytes use, at least one.
    #[must_use]
    pub fn reduced(self, size: u64) -> Self {
        match self {
            FileLayout::Lustre(layout) => FileLayout::Lustre(layout.reduced(size)),
            FileLayout::Ceph(layout) => FileLayout::Ceph(layout.reduced(size)),
        }
    }

    /// Leaves the first target to the file system. CephFS chooses it anyway.
    #[must_use]
    pub fn with_any_first_target(self) -> Self {
        match self {
            FileLayout::Lustre(layout) => FileLayout::Lustre(layout.with_any_first_target()),
            other @ FileLayout::Ceph(_) => other,
        }
    }

    /// Returns how a file of `size` bytes with this layout is striped; `None` if it isn't.
    #[must_use]
    pub fn striping(&self, size: u64) -> Option<Striping> {
        let (stripe_bytes, stripes) = match self {
            FileLayout::Lustre(layout) => layout.main_stripes(size)?,
            FileLayout::Ceph(layout) => layout.main_stripes(size),
        };
        Some(Striping { stripe_bytes, stripes })
    }

    /// Returns true if a file system has layouts of this kind.
    #[must_use]
    pub fn is_of(&self, how: Striped) -> bool {
        matches!((self, how), (FileLayout::Lustre(_), Striped::Lustre) | (FileLayout::Ceph(_), Striped::Ceph))
    }

    /// Sets the layout on a file without layout and data, or on a directory, and reads it back.
    /// If it is refused, retries without the properties that the file system may not have: the
    /// first target, or the pool.
    ///
    /// # Errors
    /// If the layout is refused, or another one was set. Only after [`LayoutError::Failed`] may
    /// there be no layout at all.
    pub fn give(&self, file: &Fd, bearer: Bearer) -> Result<(), LayoutError> {
        if let (FileLayout::Ceph(_), Bearer::File) = (self, bearer) {
            return self.give_on_ceph(file);
        }
        self.give_anyhow(file, bearer)
    }

    /// Sets the layout of a file on CephFS, unless it was inherited from the directory.
    ///
    /// A metadata server that has changed a layout blocks writes to the file until the change is in
    /// its journal. The journal is written every five seconds, or when someone syncs the file,
    /// which takes milliseconds.
    fn give_on_ceph(&self, file: &Fd) -> Result<(), LayoutError> {
        if Self::of(file, Striped::Ceph, Bearer::File)?.as_ref() == Some(self) {
            return Ok(());
        }
        let given = self.give_anyhow(file, Bearer::File);
        // Also if it was refused: another one may have been set.
        match (synchronize(file), given) {
            (Ok(()), given) => given,
            (Err(cause), Ok(())) => Err(LayoutError::Otherwise(vec![format!("{cause:#}")])),
            (Err(_), refused) => refused,
        }
    }

    fn give_anyhow(&self, file: &Fd, bearer: Bearer) -> Result<(), LayoutError> {
        let refusal = match self.set(file, bearer) {
            Err(refusal @ LayoutError::Failed(_)) => refusal,
            outcome => return outcome,
        };
        let (anywhere, otherwise) = match self.clone() {
            FileLayout::Lustre(layout) => {
                (FileLayout::Lustre(layout.with_any_first_target()), "another first target")
            }
            FileLayout::Ceph(layout) => (FileLayout::Ceph(layout.with_any_pool()), "another pool"),
        };
        if anywhere == *self {
            return Err(refusal);
        }
        anywhere.set(file, bearer)?;
        Err(LayoutError::Otherwise(vec![otherwise.to_owned()]))
    }

    fn set(&self, file: &Fd, bearer: Bearer) -> Result<(), LayoutError> {
        let (how, key, value) = match (self, bearer) {
            (FileLayout::Lustre(layout), _) => (Striped::Lustre, LOV, layout.encode()),
            (FileLayout::Ceph(layout), Bearer::File) => (Striped::Ceph, ceph::OF_FILE, layout.encode()),
            (FileLayout::Ceph(layout), Bearer::Directory) => {
                (Striped::Ceph, ceph::OF_DIRECTORY, layout.encode())
            }
        };
        set_xattr(file, key, &value).map_err(LayoutError::Failed)?;
        let mut given = Self::of(file, how, bearer)?;
        let mut failed = None;
        if let (FileLayout::Ceph(asked), Some(FileLayout::Ceph(read))) = (self, &given)
            && asked.misses_removal(read)
        {
            failed = remove_namespace(file, bearer).err();
            given = Self::of(file, how, bearer)?;
        }
        let mut differences = match (self, given) {
            (FileLayout::Lustre(asked), Some(FileLayout::Lustre(given))) => asked.differences(&given),
            (FileLayout::Ceph(asked), Some(FileLayout::Ceph(given))) => asked.differences(&given),
            _ => vec!["none".to_owned()],
        };
        differences.extend(failed.map(|cause| format!("{cause:#}")));
        if differences.is_empty() { Ok(()) } else { Err(LayoutError::Otherwise(differences)) }
    }
}

/// Removes the namespace that a file or directory on CephFS has inherited from its directory.
fn remove_namespace(file: &Fd, bearer: Bearer) -> Result<(), Error> {
    match bearer {
        Bearer::File => remove_xattr(file, ceph::NAMESPACE_OF_FILE),
        Bearer::Directory => remove_xattr(file, ceph::NAMESPACE_OF_DIRECTORY),
    }
}

/// Creates the file `name` in `directory` with a layout, as far as its file system allows.
///
/// # Errors
/// Any error from creating the file; never one from its layout.
pub fn create(
    directory: &Fd,
    name: &CStr,
    mode: Mode,
    layout: &FileLayout,
    there: Striped,
) -> Result<Created, Error> {
    if !layout.is_of(there) {
        let file = open(directory, name, Open::create(mode))?;
        return Ok(Created { file, refusal: Some(LayoutError::Elsewhere) });
    }
    let how = match there {
        Striped::Lustre => Open::create(mode).without_layout(),
        Striped::Ceph | Striped::No => Open::create(mode),
    };
    let file = open(directory, name, how)?;
    match layout.give(&file, Bearer::File) {
        Err(refusal @ LayoutError::Failed(_)) if there == Striped::Lustre => {
            let file = reopen(directory, name, file)?;
            Ok(Created { file, refusal: Some(refusal) })
        }
        outcome => Ok(Created { file, refusal: outcome.err() }),
    }
}

/// Reopens a file without a layout, which gives it the default one: before that, nothing can be
/// written to it. Refuses another file that was put in its place.
fn reopen(directory: &Fd, name: &CStr, file: Fd) -> Result<Fd, Error> {
    let made = stat(&file)?;
    let is_closed = !made.mode.contains(Mode::OWNER_WRITE);
    if is_closed {
        // Creating a file needs no permission to write it, but opening it does.
        change_mode(&file, made.mode.or(Mode::OWNER_WRITE))?;
    }
    file.close()?;
    let file = open(directory, name, Open::WRITE)?;
    if stat(&file)?.identity != made.identity {
        return Err(Error::new(Operation::Openat, format!("{name:?}"), Errno::STALE));
    }
    if is_closed {
        change_mode(&file, made.mode)?;
    }
    Ok(file)
}

/// Returns how an open file is striped; `None` if the file system doesn't say.
#[must_use]
pub fn striping(systems: &FileSystems, file: &Fd, device: u64, size: u64) -> Option<Striping> {
    let how = systems.striped(file, device);
    FileLayout::of(file, how, Bearer::File).ok().flatten()?.striping(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_about_the_place_are_known() {
        for key in [c"lustre.lov", c"lustre.lmv", c"trusted.lov", c"trusted.link"] {
            assert!(is_placement(Striped::Lustre, key), "{key:?}");
            assert!(!is_placement(Striped::Ceph, key) && !is_placement(Striped::No, key), "{key:?}");
        }
        assert!(is_placement(Striped::Ceph, c"ceph.file.layout"));
        for key in [c"user.lustre.lov", c"trusted.lover", c"trusted.overlay.opaque", c"security.capability"] {
            assert!(![Striped::Lustre, Striped::Ceph].iter().any(|how| is_placement(*how, key)), "{key:?}");
        }
    }
}
