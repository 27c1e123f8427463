//! Which way a file's data goes: through the page cache or past it, and what it leaves there.
//!
//! The usual way is through the cache, and what is left there is the kernel's affair. Two switches change that:
//! - [`Switches::direct`]: past the cache. Where a file system has no such way, or not for these two files, the data goes
//!   through the cache after all. Direct transfers are made of whole sectors, so the last bytes of a file are read with
//!   the rest of their sector, kept ([`Tail`]), and written through the cache when the rest of the file is on its way: the
//!   flag that bypasses the cache belongs to the open file, so to clear it earlier would take the other streams along.
//! - [`Switches::drop_cache`]: the cache is left as it was found. Where the engine and the file system can, each transfer
//!   drops what it brought in; elsewhere the file's pages are dropped at its end, those of the source only if none of
//!   them was there before.
//!
//! Invariant: a cache-policy only ever becomes plainer, and a transfer is tried again only if it was begun on a cache-policy that was less
//! plain; so each is tried again finitely often.

use std::mem;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use haul_sys::{Advice, Buffer, Cache, Errno, Error, Fd};
use haul_sys::{advise, bypass_cache, cached_pages, direct_alignment, use_cache, write_back};

use crate::config::Switches;

/// The way of one file's data.
#[derive(Debug)]
pub(crate) struct CachePolicy {
    /// Bytes of which direct transfers are multiples; 0 through the cache.
    sector_bytes: AtomicU64,
    /// Whether each transfer drops what it brings into the cache.
    drops: AtomicBool,
    tidies: Tidies,
    /// What is written last, and through the cache.
    tail: Mutex<Option<Tail>>,
}

/// Bytes that fill no sector.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    /// Where they belong.
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
}

/// How the bytes of a block are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Writable {
    /// This range at once.
    Now(Range<usize>),
    /// None of them: they are kept, to be written last.
    Last,
}

/// What of the page cache is to be put in order when the file is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tidies {
    /// Nothing: the kernel keeps what it sees fit.
    Nothing,
    /// The target's pages; some of the source's were there before.
    Target,
    /// The pages of both.
    Both,
}

/// What was special about a transfer when it was begun. Of several in flight for one file, one may be refused after another
/// has made the cache-policy plainer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Special {
    direct: bool,
    drops: bool,
}

impl CachePolicy {
    /// Makes the usual cache-policy.
    pub(crate) fn usual() -> Self {
        Self {
            sector_bytes: AtomicU64::new(0),
            drops: AtomicBool::new(false),
            tidies: Tidies::Nothing,
            tail: Mutex::new(None),
        }
    }

    /// Makes the cache-policy that the switches ask for, as far as the files can take it, before any data has moved. `note` is
    /// told why not better.
    pub(crate) fn choose(
        switches: &Switches,
        (source, target): (&Fd, &Fd),
        block_bytes: usize,
        engine_drops: bool,
        note: impl FnOnce(&str),
    ) -> Self {
        let cache_policy = Self::usual();
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
        // A kernel that cannot tell counts as one that has the file: what is there is left.
        let found = cached_pages(source).map_or(true, |pages| pages > 0);
        let tidies = if found { Tidies::Target } else { Tidies::Both };
        Self { drops: AtomicBool::new(engine_drops), tidies, ..cache_policy }
    }

    /// Returns what a transfer is to leave in the cache.
    pub(crate) fn cache(&self) -> Cache {
        if self.drops.load(Ordering::Relaxed) { Cache::Drop } else { Cache::Keep }
    }

    /// Returns how much of `length` bytes from a sector's start are whole sectors: all of it through the cache.
    pub(crate) fn whole_sectors(&self, length: usize) -> usize {
        match self.sector_bytes() {
            0 => length,
            sector => length - length % sector,
        }
    }

    /// Returns how many bytes have to be asked for to read `length` bytes from a sector's start.
    pub(crate) fn sectors_around(&self, length: usize) -> usize {
        match self.sector_bytes() {
            0 => length,
            sector => length.next_multiple_of(sector),
        }
    }

    /// Says what of `bytes`' `range` can be written at `offset` at once; keeps what fills no sector.
    ///
    /// # Errors
    /// When the target cannot be opened to the cache.
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
        // A write that ended within a sector: what follows it cannot go directly.
        use_cache(target)?;
        Ok(Writable::Now(range))
    }

    /// Keeps the bytes to be written last, unless others are kept already; returns whether it does.
    fn keep(&self, offset: u64, bytes: &[u8]) -> bool {
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let free = tail.is_none();
        if free {
            *tail = Some(Tail { offset, bytes: bytes.to_vec() });
        }
        free
    }

    /// Opens the target to the cache and gives what was kept to be written last, if anything. No other transfer of the file
    /// may be in flight.
    pub(crate) fn take_tail(&mut self, target: &Fd) -> Option<Result<Tail, Error>> {
        let kept = self.tail.get_mut().unwrap_or_else(PoisonError::into_inner);
        let tail = mem::take(kept)?;
        self.sector_bytes.store(0, Ordering::Relaxed);
        Some(use_cache(target).map(|()| tail))
    }

    /// Returns what is special about a transfer that begins now.
    pub(crate) fn special(&self) -> Special {
        Special { direct: self.sector_bytes() > 0, drops: self.drops.load(Ordering::Relaxed) }
    }

    /// Becomes plainer, if `cause` is the refusal of what was special about a transfer; returns whether to try it again.
    pub(crate) fn becomes_plainer(
        &self,
        cause: &Error,
        tried: Special,
        source: &Fd,
        target: Option<&Arc<Fd>>,
    ) -> bool {
        // What is no file system's answer is that of a filter, which forbids the call that can drop.
        let refusals = [Errno::OPNOTSUPP, Errno::NOSYS, Errno::PERM];
        if tried.drops && refusals.into_iter().any(|errno| cause.is(errno)) {
            self.drops.store(false, Ordering::Relaxed);
            return true;
        }
        if !cause.is(Errno::INVAL) || !tried.direct {
            return false;
        }
        self.sector_bytes.store(0, Ordering::Relaxed);
        use_cache(source).is_ok() && target.is_none_or(|target| use_cache(&**target).is_ok())
    }

    /// Puts the page cache in order after the last of the file's data was written. A kernel that refuses leaves something
    /// in the cache, which changes nothing but the speed of others.
    ///
    /// # Errors
    /// When the data did not reach the disk: the kernel tells of that once, and this was the asking.
    pub(crate) fn tidy(&self, source: &Fd, target: Option<&Arc<Fd>>) -> Result<(), Error> {
        if self.tidies == Tidies::Nothing {
            return Ok(());
        }
        if self.tidies == Tidies::Both {
            advise(source, Advice::DontNeed, 0).unwrap_or_default();
        }
        let Some(target) = target else { return Ok(()) };
        // Dirty pages cannot be dropped.
        match write_back(&**target) {
            Ok(()) => advise(&**target, Advice::DontNeed, 0).unwrap_or_default(),
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

/// Makes both files direct; returns the bytes of which their transfers have to be multiples, or why it cannot be.
fn open_direct(source: &Fd, target: &Fd, block_bytes: usize) -> Result<u64, String> {
    let alignment = |file: &Fd, which: &str| match direct_alignment(file) {
        Ok(Some(alignment)) => Ok(alignment),
        Ok(None) => Err(format!("the {which}'s file system has no direct I/O")),
        Err(cause) => Err(format!("{cause:#}")),
    };
    let (from, to) = (alignment(source, "source")?, alignment(target, "target")?);
    let sector = from.offset.max(to.offset);
    // Buffers begin on a page; blocks have to end on a sector.
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
        let cache_policy = CachePolicy { sector_bytes: AtomicU64::new(512), ..CachePolicy::usual() };
        assert_eq!((cache_policy.whole_sectors(1300), cache_policy.sectors_around(1300)), (1024, 1536));
        assert_eq!((cache_policy.whole_sectors(511), cache_policy.sectors_around(1)), (0, 512));
        assert_eq!(
            (CachePolicy::usual().whole_sectors(1300), CachePolicy::usual().sectors_around(1300)),
            (1300, 1300)
        );
    }

    #[test]
    fn what_fills_no_sector_is_written_last() {
        let target = haul_sys::open_path(c".", haul_sys::Open::DIRECTORY).unwrap();
        let mut cache_policy = CachePolicy { sector_bytes: AtomicU64::new(512), ..CachePolicy::usual() };
        let bytes: Vec<u8> = (0..=255).cycle().take(1300).collect();
        let writable = |cache_policy: &CachePolicy, range: Range<usize>| {
            cache_policy.writable(&target, range.start as u64, (&bytes, range)).unwrap()
        };
        assert_eq!(writable(&cache_policy, 0..1300), Writable::Now(0..1024));
        assert_eq!(writable(&cache_policy, 1024..1300), Writable::Last);
        // One tail is kept, not any number of them.
        assert_eq!(writable(&cache_policy, 512..600), Writable::Now(512..600));
        let tail = cache_policy.take_tail(&target).unwrap().unwrap();
        assert_eq!(tail, Tail { offset: 1024, bytes: bytes[1024..].to_vec() });
        assert_eq!(writable(&cache_policy, 1024..1300), Writable::Now(1024..1300));
        assert!(cache_policy.take_tail(&target).is_none());
    }

    #[test]
    fn each_transfer_refused_for_the_same_reason_is_tried_again_once() {
        let open = || haul_sys::open_path(c".", haul_sys::Open::DIRECTORY).unwrap();
        let (source, target) = (open(), Arc::new(open()));
        let refused = |errno| Error::new(haul_sys::Operation::Read, String::new(), errno);
        let dropping = CachePolicy { drops: AtomicBool::new(true), ..CachePolicy::usual() };
        let direct = CachePolicy { sector_bytes: AtomicU64::new(512), ..CachePolicy::usual() };
        for (cache_policy, errno) in [(dropping, Errno::OPNOTSUPP), (direct, Errno::INVAL)] {
            let tried = cache_policy.special();
            // Two streams had a transfer in flight.
            for _ in 0..2 {
                assert!(cache_policy.becomes_plainer(&refused(errno), tried, &source, Some(&target)));
            }
            assert_eq!(cache_policy.special(), Special::default());
            assert!(!cache_policy.becomes_plainer(
                &refused(errno),
                cache_policy.special(),
                &source,
                Some(&target)
            ));
            assert!(!cache_policy.becomes_plainer(&refused(Errno::IO), tried, &source, Some(&target)));
        }
    }
}
