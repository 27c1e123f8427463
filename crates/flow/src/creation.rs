//! Proof that an entry is the one this process has just created.
//!
//! `mkdirat`, `mknodat` and `symlinkat` return no descriptor, so the new entry has to be opened by
//! name. Anyone who may write to the directory can exchange it for another entry first
//! (`renameat2(RENAME_EXCHANGE)`): a private file of root's, say, which root would then give away.
//! So where others may write, a new entry is pinned and checked before anything is changed, and it
//! is only changed through that descriptor:
//!
//! ```text
//! clock ─► create ─► pin (O_PATH) ─► type, device number, owner, mode, links,  ─► change
//!                                    birth time not before the clock
//! ```
//!
//! The owner of a directory can't create a file that belongs to somebody else, and root's older
//! files have earlier birth times. The kernel stamps a new file with the time of the last tick, or
//! with the latest precise time that any file has received since (multigrain timestamps, Linux
//! 6.13). That may be ahead of the next tick, but never of the real time. So before its first entry
//! where others may write, a process waits until the ticks have passed the time at which the wait
//! began. An entry that passes was created by this user just now. The caller must check that no two
//! names of a run lead to the same new directory.
//!
//! Some file systems map owners (vfat, `root_squash`), ignore modes, or stamp files by another
//! host's clock or in whole seconds. There an entry that fails the check is compared with a regular
//! file created for the purpose: creating one returns a descriptor, so nobody can put another file
//! in its place.
//!
//! Invariant: an entry created by another user, or before the call, is refused wherever a file
//! system keeps owners and times (tests: the races on targets, and those below).

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haul_sys::{
    DirectoryReader, Errno, Error, Fd, FileType, Mode, NameArena, Open, Operation, Pinned, Result, Special,
    Stat, Timestamp, change_mode, clock, effective_identity, open, precise_clock, remove, stat,
    temporary_name,
};

use crate::interruption::uninterrupted;

/// Maximum rounding error of a file's times, in seconds (vfat).
const GRANULARITY_SECONDS: i64 = 2;

/// Returns true if anyone other than `user` or root may exchange entries of a directory.
///
/// An access list that lets others write shows in the group bits of the mode. In a sticky directory
/// only its owner, root, and the owner of an entry may rename or remove the entry.
#[must_use]
pub fn is_shared(directory: &Stat, user: u32) -> bool {
    const STICKY: Mode = Mode::new(0o1000);
    let trusted = directory.owner == user || directory.owner == 0;
    let closed = directory.mode.and(Mode::GROUP_AND_OTHER_WRITE).is_empty();
    !(trusted && (closed || directory.mode.contains(STICKY)))
}

/// Creation of one entry: begin before the system call, then check what the name leads to.
#[derive(Clone, Copy, Debug)]
pub struct Creation {
    began: Timestamp,
    asked: Special,
}

impl Creation {
    /// Must be called before an entry of this type, mode and device number is created. Where others
    /// may write (`is_shared`), the first call of a process waits a few milliseconds, so that all
    /// existing entries are older.
    #[must_use]
    pub fn begin(asked: Special, is_shared: bool) -> Self {
        // No lock, which would stay locked in a process that was forked meanwhile.
        static HAS_WAITED: AtomicBool = AtomicBool::new(false);
        // Once per process: an entry older than the first one created is older than all of them.
        if is_shared && !HAS_WAITED.load(Ordering::Relaxed) {
            await_tick();
            HAS_WAITED.store(true, Ordering::Relaxed);
        }
        Self { began: clock(), asked }
    }

    /// Pins the entry created as `name` in `directory`, and checks it if others may write there.
    ///
    /// # Errors
    /// `ESTALE` if it is another entry; any other error from the kernel.
    pub fn pin(&self, directory: &Fd, name: &CStr, is_shared: bool) -> Result<Pinned> {
        let pinned = Pinned::open(directory, name)?;
        if is_shared {
            self.check(directory, &pinned.stat()?)?;
        }
        Ok(pinned)
    }

    /// Opens the directory created as `name` in `directory` and gives its owner full access.
    /// Returns it with how it was opened, and its `stat` from before. Where others may write, it is
    /// checked and must be empty.
    ///
    /// # Errors
    /// `ESTALE` if it is another entry; any other error from the kernel.
    pub fn open_directory(&self, directory: &Fd, name: &CStr, is_shared: bool) -> Result<(Fd, Open, Stat)> {
        match open(directory, name, Open::DIRECTORY) {
            // The umask, or a default access list, took away read permission.
            Err(cause) if cause.is(Errno::ACCESS) => {
                let pinned = self.pin(directory, name, is_shared)?;
                let made = pinned.stat()?;
                pinned.change_mode(made.mode.or(Mode::OWNER))?;
                // `.` of the pinned directory: its name may lead elsewhere by now.
                match open(&pinned, c".", Open::DIRECTORY) {
                    // Landlock or another security module lets nobody list it. Where others may
                    // write, only a listing shows that it is new.
                    Err(cause) if cause.is(Errno::ACCESS) && !is_shared => {
                        Ok((pinned.into_descriptor(), Open::SEARCH, made))
                    }
                    Ok(file) if is_shared && !is_empty(&file)? => Err(stale(&made)),
                    opened => Ok((opened?, Open::DIRECTORY, made)),
                }
            }
            outcome => {
                let file = outcome?;
                let made = stat(&file)?;
                if is_shared {
                    self.check(directory, &made)?;
                    // Before anything is changed: a directory of root's with entries in it isn't
                    // the new one.
                    if !is_empty(&file)? {
                        return Err(stale(&made));
                    }
                }
                if !made.mode.contains(Mode::OWNER) {
                    change_mode(&file, made.mode.or(Mode::OWNER))?;
                }
                Ok((file, Open::DIRECTORY, made))
            }
        }
    }

    /// Checks that an open entry of `directory` is the one created.
    ///
    /// # Errors
    /// `ESTALE` if it is another entry; any other error from the kernel if the check can't be done.
    pub fn check(&self, directory: &Fd, made: &Stat) -> Result<()> {
        let Special { kind, device_number, .. } = self.asked;
        // A new entry has one name; a new directory also has its own `.`. More links mean that it
        // is older.
        let links_max = if kind == FileType::Directory { 2 } else { 1 };
        let is_device = matches!(kind, FileType::CharacterDevice | FileType::BlockDevice);
        let has_number = !is_device || made.device_number == device_number;
        let is_alike = made.kind == kind && has_number && made.links <= links_max;
        if is_alike && (self.is_ours(made) || self.is_like(&reference(directory)?, made)) {
            return Ok(());
        }
        Err(stale(made))
    }

    fn is_ours(&self, made: &Stat) -> bool {
        made.owner == effective_identity().user
            // The umask and access lists only remove bits, but set-group-ID comes from the
            // directory above (mkdir(2)).
            && made.mode.without(self.asked.mode).without(Mode::SPECIAL).is_empty()
            && first_seen(made) >= self.began
    }

    /// Compares an entry with a file that is certainly ours and was created later.
    fn is_like(&self, reference: &Stat, made: &Stat) -> bool {
        // A file system without modes (vfat) shows more bits than the reference was created with.
        let keeps_modes = reference.mode.without(Mode::OWNER).is_empty();
        let has_mode = made.mode.without(self.asked.mode).without(Mode::SPECIAL).is_empty();
        let reference_seen = first_seen(reference);
        let is_recent = if reference_seen >= self.began {
            first_seen(made) >= self.began
        } else {
            // Stamped by a clock that is behind this one, or rounded down.
            let behind = clock().seconds.saturating_sub(reference_seen.seconds);
            let seen = first_seen(made).seconds.saturating_add(behind);
            seen.saturating_add(GRANULARITY_SECONDS) >= self.began.seconds
        };
        made.owner == reference.owner && (has_mode || !keeps_modes) && is_recent
    }
}

/// Waits until no new file can get a timestamp that an older file may have. Ticks are up to 10 ms
/// apart, more if the host of a virtual machine is busy. Gives up after about a second on a clock
/// that stands still (`faketime`).
fn await_tick() {
    const PAUSE: Duration = Duration::from_micros(200);
    const PAUSES_MAX: usize = 5000;
    let began = precise_clock();
    for _ in 0..PAUSES_MAX {
        if clock() > began {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

fn stale(found: &Stat) -> Error {
    Error::new(Operation::Openat, format!("{found:?}"), Errno::STALE)
}

fn is_empty(directory: &Fd) -> Result<bool> {
    let mut names = NameArena::new();
    // A read may bring nothing but `.` and `..` although more entries follow.
    while names.is_empty() && DirectoryReader::new().read(directory, &mut names, 1)? {}
    Ok(names.is_empty())
}

/// Returns the birth time, or without one the time of the last modification, which renaming and
/// exchanging leave alone.
fn first_seen(file: &Stat) -> Timestamp {
    file.born.unwrap_or(file.modified)
}

/// Creates a file in `directory`, stats it, and removes it.
fn reference(directory: &Fd) -> Result<Stat> {
    // Without a name there is nothing to remove, and nothing to exchange.
    if let Ok(file) = open(directory, c".", Open::unnamed(Mode::OWNER)) {
        return stat(&file);
    }
    uninterrupted(|| {
        let name = temporary_name();
        let file = open(directory, &name, Open::create(Mode::OWNER)).inspect_err(|cause| {
            if !cause.is(Errno::EXIST) {
                // If a sandbox (Landlock) refuses the open, the kernel has already created the
                // file.
                remove(directory, &name).unwrap_or_default();
            }
        })?;
        // Checked last: the file must go even if this failed.
        let looked = stat(&file);
        remove(directory, &name)?;
        file.close()?;
        looked
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use super::*;

    const USER: u32 = 1000;

    fn directory(owner: u32, mode: u32) -> Stat {
        let now = clock();
        Stat {
            identity: haul_sys::Identity { device: 1, inode: 2 },
            kind: FileType::Directory,
            mode: Mode::new(mode),
            owner,
            group: 0,
            size: 0,
            blocks: 0,
            block_size: 4096,
            links: 2,
            device_number: 0,
            accessed: now,
            modified: now,
            changed: now,
            born: Some(now),
        }
    }

    #[test]
    fn a_directory_is_shared_if_others_may_exchange_its_entries() {
        for (owner, mode, shared) in [
            (USER, 0o755, false),
            (USER, 0o700, false),
            (USER, 0o775, true),
            (USER, 0o757, true),
            (0, 0o1777, false),
            (USER, 0o1777, false),
            (0, 0o777, true),
            (1001, 0o755, true),
            (1001, 0o1777, true),
        ] {
            assert_eq!(is_shared(&directory(owner, mode), USER), shared, "{owner} {mode:o}");
        }
    }

    #[test]
    fn an_entry_passes_only_if_it_was_made_by_this_user_just_now() {
        let folder = std::env::temp_dir().join(format!("haul-creation-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let path = std::ffi::CString::new(folder.to_str().unwrap()).unwrap();
        let place = haul_sys::open_path(&path, Open::DIRECTORY).unwrap();
        let asked = Special { kind: FileType::Directory, mode: Mode::OWNER, device_number: 0 };
        let creation = Creation::begin(asked, true);
        haul_sys::make_directory(&place, c"new", Mode::OWNER).unwrap();
        let made = creation.pin(&place, c"new", true).unwrap().stat().unwrap();
        let refuses = |other: Stat| creation.check(&place, &other).unwrap_err().is(Errno::STALE);
        let early = Timestamp { seconds: creation.began.seconds - 3600, ..creation.began };
        assert!(refuses(Stat { born: Some(early), ..made }));
        assert!(refuses(Stat { born: None, modified: early, ..made }));
        assert!(refuses(Stat { owner: made.owner + 1, ..made }));
        assert!(refuses(Stat { mode: Mode::new(0o755), ..made }));
        assert!(refuses(Stat { kind: FileType::Fifo, ..made }));
        assert!(refuses(Stat { links: 3, ..made }));
        assert!(creation.check(&place, &Stat { born: None, ..made }).is_ok());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// A directory created just after another file got a precise time gets the same time, which is
    /// ahead of the next tick (multigrain timestamps).
    #[test]
    fn what_was_made_before_the_wait_is_older_than_what_is_made_after_it() {
        use std::io::Write;
        let folder = std::env::temp_dir().join(format!("haul-tick-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let path = CString::new(folder.to_str().unwrap()).unwrap();
        let place = haul_sys::open_path(&path, Open::DIRECTORY).unwrap();
        let mut busy = std::fs::File::create(folder.join("busy")).unwrap();
        for round in 0..50 {
            std::thread::sleep(Duration::from_micros(round * 97 % 4000));
            for _ in 0..2 {
                // Querying a file's times makes the kernel stamp its next change precisely.
                busy.metadata().unwrap();
                busy.write_all(b"x").unwrap();
            }
            haul_sys::make_directory(&place, c"before", Mode::OWNER).unwrap();
            await_tick();
            let began = clock();
            let before = haul_sys::stat_at(&place, c"before").unwrap();
            assert!(first_seen(&before) < began, "round {round}: {:?} is not before {began:?}", before.born);
            haul_sys::make_directory(&place, c"after", Mode::OWNER).unwrap();
            assert!(first_seen(&haul_sys::stat_at(&place, c"after").unwrap()) >= began);
            for name in ["before", "after"] {
                std::fs::remove_dir(folder.join(name)).unwrap();
            }
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn where_files_are_stamped_or_owned_otherwise_a_file_made_since_decides() {
        let asked = Special { kind: FileType::Directory, mode: Mode::OWNER, device_number: 0 };
        let creation = Creation::begin(asked, true);
        let at = |seconds: i64| Some(Timestamp { seconds: creation.began.seconds + seconds, nanoseconds: 0 });
        let like = |reference: Stat, made: Stat| creation.is_like(&reference, &made);
        let file = |owner, mode, seconds| Stat { born: at(seconds), ..directory(owner, mode) };
        // The server's clock is a minute behind.
        assert!(like(file(0, 0o600, -60), file(0, 0o700, -60)));
        assert!(!like(file(0, 0o600, -60), file(0, 0o700, -600)));
        // Everything belongs to the user who mounted it and has one mode.
        assert!(like(file(7, 0o777, 1), file(7, 0o777, 1)));
        assert!(!like(file(7, 0o777, 1), file(8, 0o777, 1)));
        assert!(!like(file(7, 0o600, 1), file(7, 0o777, 1)));
    }
}
