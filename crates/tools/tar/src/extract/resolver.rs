//! Directories that members are made in: found or created one component at a time, never through a
//! symbolic link.
//!
//! Members of one directory follow each other, so the path to the last one is kept, as a stack of
//! directory handles; the next member shares most of it. No path is resolved twice, and the kernel
//! only gets single components.
//!
//! ```text
//! member a/b/c          stack: root ─ a ─ b        name: c
//! member a/d/e          stack: root ─ a ─ d        name: e      (b was left, d opened or made)
//! ```
//!
//! With `--keep-directory-symlink` or `-h`, a link in the place of a directory is followed if it
//! stays below the root: its text is split like a member's name, and a `..` in it pops the stack.
//! With `-h --overwrite` the same holds for a link in the place of a file. With `-P`, names may
//! lead anywhere.
//!
//! Where others may exchange the entries of a directory, a new one is checked to be the one that
//! was made ([`Creation`]), and its name has to lead to the same one from then on
//! ([`NewDirectories`]).
//!
//! Invariant: without `-P`, every directory on the stack was found in the one before it by a single
//! component without following a link, or is the root (tests: the hostile archives).

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use haul_flow::{Creation, DirCache, DirHandle, is_shared, lock};
use haul_sys::{
    Errno, Error, Fd, FileType, Identity, Mode, Open, Operation, Special, Stat, effective_identity,
    make_directory, open, read_link, stat,
};

use super::in_flight::{InFlight, PathHash};

/// Maximum links followed on the path to one member, as in the kernel.
const LINKS_MAX: usize = 40;

/// A directory that members are made in.
#[derive(Debug)]
pub(super) struct MemberDir {
    pub(super) held: Arc<DirHandle>,
    /// Hash of its path, for the names in flight.
    pub(super) path_hash: PathHash,
    /// True if its attributes can be set through its descriptor.
    pub(super) is_readable: bool,
    pub(super) is_new: bool,
    /// Modes of new files in it: the bits that were requested and granted, and the two flags below.
    granted: AtomicU32,
    shared: OnceLock<bool>,
}

/// Directories that a run made where others may exchange them, by path below one root.
///
/// Bound: one record for each such directory.
#[derive(Debug, Default)]
pub(super) struct NewDirectories(Mutex<NewDirectoryTable>);

#[derive(Debug, Default)]
struct NewDirectoryTable {
    /// `None` is a name that led to another directory than was made.
    ways: HashMap<PathHash, Option<Identity>>,
    /// With their birth times, because inode numbers are reused.
    all: HashSet<(Identity, Option<(i64, u32)>)>,
}

impl NewDirectories {
    /// Records a directory; returns false if it was made under another name.
    fn record(&self, way: PathHash, made: &Stat) -> bool {
        let mut known = lock(&self.0);
        let is_another =
            known.all.insert((made.identity, made.born.map(|born| (born.seconds, born.nanoseconds))));
        known.ways.insert(way, is_another.then_some(made.identity));
        is_another
    }

    /// Records that a name leads to something else than was made.
    fn refuse(&self, way: PathHash) {
        lock(&self.0).ways.insert(way, None);
    }

    /// True if a name may lead to this directory.
    fn admits(&self, way: PathHash, found: Identity) -> bool {
        lock(&self.0).ways.get(&way).is_none_or(|known| *known == Some(found))
    }
}

/// A new file was examined.
const EXAMINED: u32 = 1 << 16;
/// It did not get the requested owner, group or mode.
const REFUSED: u32 = 1 << 17;

impl MemberDir {
    fn new(held: Arc<DirHandle>, path_hash: PathHash, is_readable: bool, is_new: bool) -> Arc<Self> {
        let granted = if is_new { 0 } else { REFUSED };
        Arc::new(Self {
            held,
            path_hash,
            is_readable,
            is_new,
            granted: AtomicU32::new(granted),
            shared: OnceLock::new(),
        })
    }

    /// Creates one for a directory that another process found; `is_new` is true if the run
    /// made it.
    pub(super) fn of_another(held: Arc<DirHandle>, is_new: bool) -> Arc<Self> {
        Self::new(held, PathHash::ROOT, false, is_new)
    }

    /// True if others may exchange its entries; `directory` is its descriptor.
    pub(super) fn is_shared(&self, directory: &Fd) -> bool {
        // If it cannot be examined, check all the more.
        let look = || stat(directory).map_or(true, |seen| is_shared(&seen, effective_identity().user));
        *self.shared.get_or_init(look)
    }

    /// True if new files in it may get the user's owner and group, and the requested mode.
    pub(super) fn may_grant_modes(&self) -> bool {
        // Relaxed, here and below: whoever sees it late examines one more file.
        self.granted.load(Ordering::Relaxed) & REFUSED == 0
    }

    /// True if a new file of this mode is known to get it. A default ACL clears some bits and keeps
    /// others, so the mode of one file proves nothing about bits that it did not request.
    pub(super) fn grants_mode(&self, mode: Mode) -> bool {
        let known = self.granted.load(Ordering::Relaxed);
        known & (REFUSED | EXAMINED) == EXAMINED && mode.without(Mode::new(known)).is_empty()
    }

    /// Records whether a new file of this mode got it. One mismatch is final.
    pub(super) fn learn(&self, mode: Mode, as_asked: bool) {
        let found = if as_asked { EXAMINED | mode.bits() } else { REFUSED };
        self.granted.fetch_or(found, Ordering::Relaxed);
    }
}

pub(super) enum Resolved {
    /// A name in a directory.
    To(Arc<MemberDir>, CString),
    Root(Arc<MemberDir>),
    /// Something on the path is in flight.
    Busy,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// Make them, subject to the umask.
    Make,
    Fail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Following {
    Never,
    /// Follow them within the root (`--keep-directory-symlink`).
    Within,
    /// Follow them, and `..` too (`-P`).
    Anywhere,
}

/// Resolver of paths, which keeps the directories on the path to the last member.
pub(super) struct Resolver {
    following: Following,
    new: Arc<NewDirectories>,
    root: Arc<MemberDir>,
    stack: Vec<(Vec<u8>, Arc<MemberDir>)>,
}

impl Resolver {
    pub(super) fn new(root: &Arc<DirHandle>, following: Following, new: &Arc<NewDirectories>) -> Self {
        let root = MemberDir::new(Arc::clone(root), PathHash::ROOT, false, false);
        Self { following, new: Arc::clone(new), root, stack: Vec::new() }
    }

    /// Returns to the root, because directories on the path may have changed.
    pub(super) fn reset(&mut self) {
        self.leave(0);
    }

    /// Leaves directories until `depth` are on the stack, deepest first, because each holds
    /// its parent.
    fn leave(&mut self, depth: usize) {
        while self.stack.len() > depth {
            self.stack.pop();
        }
    }

    fn here(&self) -> &Arc<MemberDir> {
        self.stack.last().map_or(&self.root, |(_, member_dir)| member_dir)
    }

    /// Resolves a path to its directory and its last component. With `flight`, stops at a name
    /// in flight.
    ///
    /// # Errors
    /// The kernel's, for a directory on the path; `ENOTDIR` for a link in its place; `EXDEV` for a
    /// path that leads out.
    pub(super) fn find(
        &mut self,
        cache: &DirCache,
        path: &[u8],
        missing: Missing,
        flight: Option<&InFlight>,
    ) -> Result<Resolved, Error> {
        let mut components: VecDeque<&[u8]> = path.split(|byte| *byte == b'/').collect();
        components.retain(|component| !component.is_empty() && *component != b".");
        let Some(last) = components.pop_back() else { return self.start(cache, path).map(Resolved::Root) };
        if self.following == Following::Anywhere {
            return self.find_anywhere(cache, path, &components, last, missing);
        }
        if last == b".." || components.contains(&&b".."[..]) {
            return Err(refused(path));
        }
        let common = self
            .stack
            .iter()
            .zip(&components)
            .take_while(|((name, _), component)| name == *component)
            .count();
        self.leave(common);
        let rest = components.iter().skip(common).map(|name| (name.to_vec(), missing)).collect();
        Ok(match self.walk(cache, rest, path, flight)? {
            true => Resolved::To(Arc::clone(self.here()), c_string(last)?),
            false => Resolved::Busy,
        })
    }

    /// Goes on through `rest`, a part of `path` or of a link on it. Returns false at a name in
    /// flight.
    fn walk(
        &mut self,
        cache: &DirCache,
        mut rest: VecDeque<(Vec<u8>, Missing)>,
        path: &[u8],
        flight: Option<&InFlight>,
    ) -> Result<bool, Error> {
        let mut links = 0;
        while let Some((component, missing)) = rest.pop_front() {
            if component == b".." {
                // Only a link's text can have one.
                if self.stack.pop().is_none() {
                    return Err(refused(path));
                }
                continue;
            }
            let path_hash = self.here().path_hash.of(&component);
            if flight.is_some_and(|flight| flight.has(path_hash)) {
                return Ok(false);
            }
            let name = c_string(&component)?;
            match self.enter(cache, &name, missing, path_hash) {
                Ok(member_dir) => self.stack.push((component, member_dir)),
                // With `O_DIRECTORY` the kernel reports a link as `ENOTDIR`, not `ELOOP`.
                Err(cause) if cause.is(Errno::NOTDIR) && self.following == Following::Within => {
                    links += 1;
                    if links > LINKS_MAX {
                        return Err(cause);
                    }
                    let text = read_link(cache.open(&self.here().held)?, &name).map_err(|_| cause)?;
                    let parts = parts_within(&text, path)?.into_iter().rev();
                    // Not made if missing: the archive does not name it, the link does.
                    parts.for_each(|part| rest.push_front((part.to_vec(), Missing::Fail)));
                }
                Err(cause) => return Err(cause),
            }
        }
        Ok(true)
    }

    /// Resolves the path of a file like [`Resolver::find`], and follows a link in its last
    /// component as far as it stays below the root. With `-P`, whoever opens the file follows it.
    pub(super) fn find_behind_links(&mut self, cache: &DirCache, path: &[u8]) -> Result<Resolved, Error> {
        let mut found = self.find(cache, path, Missing::Make, None)?;
        for _ in 0..LINKS_MAX {
            let Resolved::To(member_dir, name) = &found else { return Ok(found) };
            if self.following != Following::Within {
                return Ok(found);
            }
            let Ok(text) = read_link(cache.open(&member_dir.held)?, name) else { return Ok(found) };
            let parts = parts_within(&text, path)?;
            // What ends like this is a directory, and so not a file that could be written to.
            let Some(last) = parts.last().filter(|last| **last != b"..") else { return Ok(found) };
            let above = parts[..parts.len() - 1].iter().map(|part| (part.to_vec(), Missing::Fail));
            self.walk(cache, above.collect(), path, None)?;
            found = Resolved::To(Arc::clone(self.here()), c_string(last)?);
        }
        Err(Error::new(Operation::Openat, path.escape_ascii().to_string(), Errno::LOOP))
    }

    /// Resolves the path of a directory that is a link.
    pub(super) fn find_directory(&mut self, cache: &DirCache, path: &[u8]) -> Result<Arc<MemberDir>, Error> {
        match self.find(cache, &[path, b"/x"].concat(), Missing::Fail, None)? {
            Resolved::To(member_dir, _) | Resolved::Root(member_dir) => Ok(member_dir),
            Resolved::Busy => Err(refused(path)),
        }
    }

    /// Returns the directory that a path starts from: the root, or with `-P` `/` if it begins with
    /// a slash.
    fn start(&self, cache: &DirCache, path: &[u8]) -> Result<Arc<MemberDir>, Error> {
        if self.following != Following::Anywhere || !path.starts_with(b"/") {
            return Ok(Arc::clone(&self.root));
        }
        let root = cache.hold_operand(c"/", Open::SEARCH, b"/".to_vec())?;
        Ok(MemberDir::new(root, PathHash::ROOT, false, false))
    }

    /// Resolves a path that may lead anywhere.
    fn find_anywhere(
        &mut self,
        cache: &DirCache,
        path: &[u8],
        components: &VecDeque<&[u8]>,
        last: &[u8],
        missing: Missing,
    ) -> Result<Resolved, Error> {
        // With `..` and followed links, equal components needn't lead to the same directory.
        self.reset();
        if path.starts_with(b"/") {
            self.stack.push((b"/".to_vec(), self.start(cache, path)?));
        }
        for component in components {
            let member_dir = self.enter(cache, &c_string(component)?, missing, PathHash::ROOT)?;
            self.stack.push((component.to_vec(), member_dir));
        }
        Ok(Resolved::To(Arc::clone(self.here()), c_string(last)?))
    }

    /// Opens a directory in the current one, or makes it.
    fn enter(
        &self,
        cache: &DirCache,
        name: &CStr,
        missing: Missing,
        path_hash: PathHash,
    ) -> Result<Arc<MemberDir>, Error> {
        let here = self.here();
        let above = cache.open(&here.held)?;
        match open_directory(&above, name, self.following) {
            Err(cause) if cause.is(Errno::NOENT) && missing == Missing::Make => {
                let creation = Creation::begin(directory_request(Mode::ALL), here.is_shared(&above));
                match make_directory(&*above, name, Mode::ALL) {
                    Ok(()) => self.hold_new(cache, (here, &above), name, path_hash, creation),
                    // Another process was faster.
                    Err(cause) if cause.is(Errno::EXIST) => {
                        let opened = open_directory(&above, name, self.following)?;
                        self.hold(cache, &here.held, name, opened, path_hash)
                    }
                    Err(cause) => Err(cause),
                }
            }
            opened => self.hold(cache, &here.held, name, opened?, path_hash),
        }
    }

    /// Returns a handle of a directory that was just made.
    fn hold_new(
        &self,
        cache: &DirCache,
        (above, directory): (&Arc<MemberDir>, &Fd),
        name: &CStr,
        path_hash: PathHash,
        creation: Creation,
    ) -> Result<Arc<MemberDir>, Error> {
        let is_shared = above.is_shared(directory);
        let is_traced = is_shared && self.following != Following::Anywhere;
        let (fd, how, made) = creation.open_directory(directory, name, is_shared).inspect_err(|cause| {
            if is_traced && cause.is(Errno::STALE) {
                self.new.refuse(path_hash);
            }
        })?;
        if is_traced && !self.new.record(path_hash, &made) {
            return Err(stale(name));
        }
        let held = cache.hold(&above.held, name, how, made.identity, Some(Arc::new(fd)));
        Ok(MemberDir::new(held, path_hash, !how.is_reference(), true))
    }

    /// Returns a handle of an existing directory.
    fn hold(
        &self,
        cache: &DirCache,
        above: &Arc<DirHandle>,
        name: &CStr,
        (fd, how): (Fd, Open),
        path_hash: PathHash,
    ) -> Result<Arc<MemberDir>, Error> {
        let identity = stat(&fd)?.identity;
        // With -P, a hash does not stand for one name.
        if self.following != Following::Anywhere && !self.new.admits(path_hash, identity) {
            return Err(stale(name));
        }
        let held = cache.hold(above, name, how, identity, Some(Arc::new(fd)));
        Ok(MemberDir::new(held, path_hash, !how.is_reference(), false))
    }

    /// Enters a directory that was just made or found in `above`: the next members may be in it.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(super) fn take(
        &mut self,
        cache: &DirCache,
        above: &Arc<MemberDir>,
        name: &CStr,
        new: Option<Creation>,
    ) -> Result<Arc<MemberDir>, Error> {
        let (directory, path_hash) = (cache.open(&above.held)?, above.path_hash.of(name.to_bytes()));
        let member_dir = match new {
            Some(creation) => self.hold_new(cache, (above, &directory), name, path_hash, creation)?,
            None => {
                let opened = open_directory(&directory, name, self.following)?;
                self.hold(cache, &above.held, name, opened, path_hash)?
            }
        };
        if Arc::ptr_eq(above, self.here()) {
            self.stack.push((name.to_bytes().to_vec(), Arc::clone(&member_dir)));
        }
        Ok(member_dir)
    }
}

fn stale(name: &CStr) -> Error {
    Error::new(Operation::Openat, format!("{name:?}, not the directory that was created"), Errno::STALE)
}

impl Drop for Resolver {
    fn drop(&mut self) {
        self.leave(0);
    }
}

/// Opens a directory for reading, so that attributes can be set through the descriptor; falls back
/// to one that only resolves names.
fn open_directory(above: &Fd, name: &CStr, following: Following) -> Result<(Fd, Open), Error> {
    let follow = |how: Open| if following == Following::Anywhere { how.following() } else { how };
    let (read, search) = (follow(Open::DIRECTORY), follow(Open::SEARCH));
    match open(above, name, read) {
        Err(cause) if cause.is(Errno::ACCESS) => Ok((open(above, name, search)?, search)),
        outcome => Ok((outcome?, read)),
    }
}

pub(super) fn directory_request(mode: Mode) -> Special {
    Special { kind: FileType::Directory, mode, device_number: 0 }
}

/// Makes a name for the kernel. Names with a NUL never get here: the reader refuses them.
pub(super) fn c_string(name: &[u8]) -> Result<CString, Error> {
    CString::new(name).map_err(|_| refused(name))
}

/// Splits the text of a link on a path into components.
///
/// # Errors
/// If it is absolute: then it leads out of the root, wherever it leads.
fn parts_within<'a>(text: &'a CStr, path: &[u8]) -> Result<Vec<&'a [u8]>, Error> {
    if text.to_bytes().starts_with(b"/") {
        return Err(refused(path));
    }
    let parts = text.to_bytes().split(|byte| *byte == b'/');
    Ok(parts.filter(|part| !part.is_empty() && *part != b".").collect())
}

fn refused(path: &[u8]) -> Error {
    Error::new(Operation::Openat, path.escape_ascii().to_string(), Errno::XDEV)
}

#[cfg(test)]
mod tests {
    use haul_sys::{Fd, stat_path};

    use super::*;

    fn resolver(cache: &DirCache, root: &CStr, following: Following) -> Resolver {
        let root = cache.hold_operand(root, Open::SEARCH, Vec::new()).unwrap();
        Resolver::new(&root, following, &Arc::default())
    }

    /// Whoever resolves a root gives it attributes, so no test extracts a member with this name.
    #[test]
    fn the_root_of_the_file_system_is_not_the_extraction_directory() {
        let (cache, below) = (DirCache::new(8), tempfile::tempdir().unwrap());
        let place = CString::new(below.path().as_os_str().as_encoded_bytes()).unwrap();
        let identity = |path: &CStr| stat_path::<&Fd>(None, path, true).unwrap().identity;
        let (here, slash) = (identity(&place), identity(c"/"));
        for (following, path, expected) in [
            (Following::Anywhere, &b"/"[..], slash),
            (Following::Anywhere, b"//", slash),
            (Following::Anywhere, b"/./.", slash),
            (Following::Anywhere, b".", here),
            (Following::Anywhere, b"./", here),
            (Following::Within, b"/", here),
            (Following::Never, b"/", here),
        ] {
            let found = resolver(&cache, &place, following).find(&cache, path, Missing::Fail, None).unwrap();
            let Resolved::Root(found) = found else { panic!("{}", path.escape_ascii()) };
            assert_eq!(found.held.identity(), expected, "{following:?} {}", path.escape_ascii());
        }
    }
}
