//! Cache policy: whether a file's data goes through the page cache or past it, and what it
//! leaves there.
//!
//! By default data goes through the cache, and the kernel decides which pages stay. Two switches
//! change that:
//! - [`Switches::direct`] bypasses the cache. It falls back to the cache if a file system has no
//!   direct I/O, or has none for these two files. Direct transfers are whole sectors, so the last
//!   bytes of a file are read with the rest of their sector, kept ([`Tail`]), and written through
//!   the cache after everything else. `O_DIRECT` belongs to the open file, so clearing it earlier
//!   would affect the other streams.
//! - [`Switches::drop_cache`] leaves the cache as it was found. Each transfer drops the pages it
//!   brought in, if the engine and the file system can. At the end the file's pages are dropped,
//!   the source's only if none were cached before.
//!
//! Invariant: a policy only ever falls back, and a transfer is retried only if it began before the
//! fallback, so each is retried finitely often (test:
//! `each_transfer_refused_for_the_same_reason_is_tried_again_once`).

use std::mem;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::lock::lock;
use haul_sys::{Advice, Buffer, CacheMode, Errno, Error, Fd};
use haul_sys::{advise, bypass_cache, cached_bytes, direct_alignment, use_cache, write_back};

use crate::config::Switches;

/// Cache policy of one file.
#[derive(Debug)]
pub(crate) struct CachePolicy {
    /// Direct transfers are multiples of this many bytes; 0 if data goes through the cache.
    sector_bytes: AtomicU64,
    /// True if each transfer drops the pages it brings into the cache.
    drops: AtomicBool,
    dropped_pages: DroppedPages,
    /// Bytes kept to be written last, through the cache.
    tail: Mutex<Option<Tail>>,
}

/// Last bytes of a file, which don't fill a sector.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    /// Offset in the file.
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
}

/// The next write of a range of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Writable {
    /// Write this range now.
    Now(Range<usize>),
    /// Write nothing: the bytes were kept, to be written last.
    Last,
}

/// Pages to drop from the page cache when the file is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DroppedPages {
    /// Drop nothing: the kernel decides which pages stay.
    Nothing,
    /// The target's. Some of the source's were cached before.
    Target,
    /// The source's and the target's.
    Both,
}

/// Mode of a transfer when it began. A file may have several transfers in flight, and one may be
/// refused after another has already made the policy fall back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TransferMode {
    direct: bool,
    drops: bool,
}

impl CachePolicy {
    /// Returns the default policy: through the cache.
    pub(crate) fn cached() -> Self {
        Self {
            sector_bytes: AtomicU64::new(0),
            drops: AtomicBool::new(false),
            dropped_pages: DroppedPages::Nothing,
            tail: Mutex::new(None),
        }
    }

    /// Returns the policy for files too large for the cache: each transfer drops its pages, if the
    /// file systems can.
    pub(crate) fn dropping() -> Self {
        Self { drops: AtomicBool::new(true), ..Self::cached() }
    }

    /// Returns the policy that the switches ask for, as far as both files support it. Must be
    /// called before any data moves. `note` receives the reason for a fallback.
    pub(crate) fn choose(
        switches: &Switches,
        (source, target): (&Fd, &Fd),
        block_bytes: usize,
        engine_drops: bool,
        note: impl FnOnce(&str),
    ) -> Self {
        let cache_policy = Self::cached();
        if switches.direct {
            match open_direct(source, target, block_bytes) {
                Ok(sector_bytes) => {
                    cache_policy.sector_bytes.store(sector_bytes, Ordering::Relaxed);
                    return cache_policy;
                }
                Err(why) => note(&why),
            }
        }
        if !switches.drop_cache {
            return cache_policy;
        }
        // If the kernel can't say, assume the source was cached, and leave its pages alone.
        let found = cached_bytes(source).map_or(true, |bytes| bytes > 0);
        let dropped_pages = if found { DroppedPages::Target } else { DroppedPages::Both };
        Self { drops: AtomicBool::new(engine_drops), dropped_pages, ..cache_policy }
    }

    /// Returns whether a transfer should leave its pages in the cache.
    pub(crate) fn cache(&self) -> CacheMode {
        if self.drops.load(Ordering::Relaxed) { CacheMode::Drop } else { CacheMode::Keep }
    }

    /// Returns true if data goes through the cache, and stays there while the file is moved.
    pub(crate) fn uses_cache(&self) -> bool {
        self.sector_bytes() == 0 && self.cache() == CacheMode::Keep
    }

    /// Rounds `length` down to whole sectors. Returns it unchanged if data goes through the cache.
    pub(crate) fn whole_sectors(&self, length: usize) -> usize {
        match self.sector_bytes() {
            0 => length,
            sector => length - length % sector,
        }
    }

    /// Rounds `length` up to whole sectors, the least a read may ask for. Returns it unchanged if
    /// data goes through the cache.
    pub(crate) fn sectors_around(&self, length: usize) -> usize {
        match self.sector_bytes() {
            0 => length,
            sector => length.next_multiple_of(sector),
        }
    }

    /// Returns the part of `bytes[range]` that can be written at `offset` now. Keeps bytes that
    /// don't fill a sector.
    ///
    /// # Errors
    /// If `O_DIRECT` can't be cleared on the target.
    pub(crate) fn writable(
        &self,
        target: &Fd,
        offset: u64,
        (bytes, range): (&[u8], Range<usize>),
    ) -> Result<Writable, Error> {
        let sector = self.sector_bytes();
        if sector == 0 {
            return Ok(Writable::Now(range));
        }
        let starts_whole = offset.is_multiple_of(sector as u64) && range.start.is_multiple_of(sector);
        let whole = if starts_whole { self.whole_sectors(range.len()) } else { 0 };
        if whole > 0 {
            return Ok(Writable::Now(range.start..range.start + whole));
        }
        if range.len() < sector && self.keep(offset, &bytes[range.clone()]) {
            return Ok(Writable::Last);
        }
        // A short write ended inside a sector, so the rest is not aligned for direct I/O.
        use_cache(target)?;
        Ok(Writable::Now(range))
    }

    /// Keeps the bytes to be written last. Returns false if others are kept already.
    fn keep(&self, offset: u64, bytes: &[u8]) -> bool {
        let mut tail = lock(&self.tail);
        let free = tail.is_none();
        if free {
            *tail = Some(Tail { offset, bytes: bytes.to_vec() });
        }
        free
    }

    /// Clears `O_DIRECT` on both files and returns the bytes kept to be written last, if any. No
    /// other transfer of the file may be in flight.
    pub(crate) fn take_tail(&mut self, source: &Fd, target: &Fd) -> Option<Result<Tail, Error>> {
        let kept = self.tail.get_mut().unwrap_or_else(PoisonError::into_inner);
        let tail = mem::take(kept)?;
        self.sector_bytes.store(0, Ordering::Relaxed);
        // The source's too: if it has changed, it is read again, no longer in whole sectors.
        Some(use_cache(source).and_then(|()| use_cache(target)).map(|()| tail))
    }

    pub(crate) fn mode(&self) -> TransferMode {
        TransferMode { direct: self.sector_bytes() > 0, drops: self.drops.load(Ordering::Relaxed) }
    }

    /// Falls back if `cause` means that the mode of the transfer was refused. Returns true if the
    /// transfer should be retried.
    pub(crate) fn fall_back(
        &self,
        cause: &Error,
        tried: TransferMode,
        source: &Fd,
        target: Option<&Arc<Fd>>,
    ) -> bool {
        // `EOPNOTSUPP` is the file system's answer. The others come from a filter (seccomp) that
        // forbids the call that can drop pages.
        let refusals = [Errno::OPNOTSUPP, Errno::NOSYS, Errno::PERM];
        if tried.drops && refusals.into_iter().any(|errno| cause.is(errno)) {
            // Relaxed, here and below: a stream that hasn't seen it yet has its own transfer
            // refused, and falls back too.
            self.drops.store(false, Ordering::Relaxed);
            return true;
        }
        // `EINVAL` is how the kernel refuses direct I/O (open(2), `O_DIRECT`).
        if !cause.is(Errno::INVAL) || !tried.direct {
            return false;
        }
        self.sector_bytes.store(0, Ordering::Relaxed);
        // On both: transfers are no longer multiples of a sector.
        use_cache(source).is_ok() && target.is_none_or(|target| use_cache(&**target).is_ok())
    }

    /// Drops the file's pages after the last of its data was written. If the kernel refuses, pages
    /// stay in the cache, which affects nothing but the speed of others.
    ///
    /// # Errors
    /// If the data did not reach the disk. The kernel reports that once, and this call consumed
    /// the report.
    pub(crate) fn drop_pages(&self, source: &Fd, target: Option<&Arc<Fd>>) -> Result<(), Error> {
        if self.dropped_pages == DroppedPages::Nothing {
            return Ok(());
        }
        if self.dropped_pages == DroppedPages::Both {
            advise(source, Advice::DontNeed, 0).unwrap_or_default();
        }
        let Some(target) = target else { return Ok(()) };
        // Only clean pages can be dropped.
        match write_back(&**target) {
            Ok(()) => advise(&**target, Advice::DontNeed, 0).unwrap_or_default(),
            // The others mean that the call isn't possible here, not that data is lost
            // (sync_file_range(2)).
            Err(cause) if matches!(cause.errno(), Errno::IO | Errno::NOSPC | Errno::DQUOT) => {
                return Err(cause);
            }
            Err(_) => {}
        }
        Ok(())
    }

    fn sector_bytes(&self) -> usize {
        usize::try_from(self.sector_bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }
}

/// Sets `O_DIRECT` on both files. Returns the sector size for their transfers, or why it
/// isn't possible.
fn open_direct(source: &Fd, target: &Fd, block_bytes: usize) -> Result<u64, String> {
    let alignment = |file: &Fd, which: &str| match direct_alignment(file) {
        Ok(Some(alignment)) => Ok(alignment),
        Ok(None) => Err(format!("the {which}'s file system has no direct I/O")),
        Err(cause) => Err(format!("{cause:#}")),
    };
    let (from, to) = (alignment(source, "source")?, alignment(target, "target")?);
    // Both are powers of two, so the larger is a multiple of the other.
    let sector = from.offset.max(to.offset);
    // Buffers are page-aligned; blocks must be whole sectors.
    if from.memory.max(to.memory) > Buffer::ALIGNMENT || !block_bytes.is_multiple_of(sector) {
        return Err(format!("direct transfers have to be multiples of {sector} bytes"));
    }
    bypass_cache(source).map_err(|cause| format!("{cause:#}"))?;
    if let Err(cause) = bypass_cache(target) {
        return match use_cache(source) {
            Ok(()) => Err(format!("{cause:#}")),
            Err(worse) => Err(format!("{worse:#}")),
        };
    }
    Ok(sector as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_sectors_are_moved_directly_and_the_rest_is_not() {
        let cache_policy = CachePolicy { sector_bytes: AtomicU64::new(512), ..CachePolicy::cached() };
        assert_eq!((cache_policy.whole_sectors(1300), cache_policy.sectors_around(1300)), (1024, 1536));
        assert_eq!((cache_policy.whole_sectors(511), cache_policy.sectors_around(1)), (0, 512));
        assert_eq!(
            (CachePolicy::cached().whole_sectors(1300), CachePolicy::cached().sectors_around(1300)),
            (1300, 1300)
        );
    }

    #[test]
    fn what_fills_no_sector_is_written_last() {
        let target = haul_sys::open_path(c".", haul_sys::Open::DIRECTORY).unwrap();
        let mut cache_policy = CachePolicy { sector_bytes: AtomicU64::new(512), ..CachePolicy::cached() };
        let bytes: Vec<u8> = (0..=255).cycle().take(1300).collect();
        let writable = |cache_policy: &CachePolicy, range: Range<usize>| {
            cache_policy.writable(&target, range.start as u64, (&bytes, range)).unwrap()
        };
        assert_eq!(writable(&cache_policy, 0..1300), Writable::Now(0..1024));
        assert_eq!(writable(&cache_policy, 1024..1300), Writable::Last);
        // Only one tail is kept.
        assert_eq!(writable(&cache_policy, 512..600), Writable::Now(512..600));
        let tail = cache_policy.take_tail(&target, &target).unwrap().unwrap();
        assert_eq!(tail, Tail { offset: 1024, bytes: bytes[1024..].to_vec() });
        assert_eq!(writable(&cache_policy, 1024..1300), Writable::Now(1024..1300));
        assert!(cache_policy.take_tail(&target, &target).is_none());
    }

    #[test]
    fn each_transfer_refused_for_the_same_reason_is_tried_again_once() {
        let open = || haul_sys::open_path(c".", haul_sys::Open::DIRECTORY).unwrap();
        let (source, target) = (open(), Arc::new(open()));
        let refused = |errno| Error::new(haul_sys::Operation::Read, String::new(), errno);
        let dropping = CachePolicy { drops: AtomicBool::new(true), ..CachePolicy::cached() };
        let direct = CachePolicy { sector_bytes: AtomicU64::new(512), ..CachePolicy::cached() };
        for (cache_policy, errno) in [(dropping, Errno::OPNOTSUPP), (direct, Errno::INVAL)] {
            let tried = cache_policy.mode();
            // Two streams had a transfer in flight.
            for _ in 0..2 {
                assert!(cache_policy.fall_back(&refused(errno), tried, &source, Some(&target)));
            }
            assert_eq!(cache_policy.mode(), TransferMode::default());
            assert!(!cache_policy.fall_back(&refused(errno), cache_policy.mode(), &source, Some(&target)));
            assert!(!cache_policy.fall_back(&refused(Errno::IO), tried, &source, Some(&target)));
        }
    }
}
