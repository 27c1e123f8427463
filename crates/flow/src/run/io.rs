//! A worker's resources for its files in flight: buffers, a pipe, and the engine's capabilities.

use std::cell::OnceCell;

use haul_engine::{Caps, EngineChoice, Ops};
use haul_sys::{Buffer, CacheMode, Fd, Pipe, cached_bytes, dirty_limit};

use crate::settings::{Settings, processors};

/// Minimum bytes to copy through a pipe. Fewer are as fast in a block
/// (docs/measurements/choices.md).
const PIPE_BYTES_MIN: usize = 64 << 10;

/// Maximum size of a small file, in bytes. Larger files fill the disk's queue by themselves
/// when fetched ahead: a ring gains nothing for them, and every operation in it has a
/// buffer (docs/measurements/choices.md).
pub(super) const SMALL_BYTES: u64 = 64 << 10;

/// Sizes of the buffers of small files, in bytes. Most files fit into the first. Each is a page
/// larger than its largest file: one byte more than the file has is read, to detect EOF.
const SMALL_BUFFERS: [usize; 2] = [(16 << 10) + Buffer::ALIGNMENT, SMALL_BYTES as usize + Buffer::ALIGNMENT];

/// Maximum unused buffers of a whole block that a worker keeps, unless they are registered, or each
/// file uses several. In a directory of larger files all that are in flight may need one; later
/// they would only take memory (docs/measurements/tools.md, "cmp").
const LARGE_KEPT: usize = 8;

/// Number of cached small files that outweigh one uncached file: a ring pays off if more than one
/// file in five is uncached (docs/measurements/choices.md).
const UNCACHED_SCORE: usize = 4;

/// Score at which a ring pays for itself: 32 uncached small files in a row. Creating one costs
/// about as much as copying a few dozen files.
const RING_SCORE_MIN: usize = 32 * UNCACHED_SCORE;

/// Files up to this size always leave their pages in the cache: looking up the memory limit isn't
/// worth it for them.
const CACHED_BYTES_MAX: u64 = 64 << 20;

/// A worker's resources for its files in flight.
pub(super) struct Io {
    pub(super) settings: Settings,
    pub(super) caps: Caps,
    /// Maximum files in flight.
    pub(super) window: usize,
    /// True if a file's first block is looked for in the page cache before `Tool::open_file`.
    pub(super) probes: bool,
    /// The last device where a probe missed, and whether it is a tmpfs, where it always does.
    pub(super) probed_device: Option<(u64, bool)>,
    /// Free space in the engine's queue, in operations; at least one.
    pub(super) queue_space: usize,
    /// Score in favour of a ring ([`Io::note_uncached`]).
    ring_score: usize,
    /// Buffers that are not in use: of a whole block, and of each size in [`SMALL_BUFFERS`].
    pub(super) large_buffers: Vec<Buffer>,
    small_buffers: [Vec<Buffer>; SMALL_BUFFERS.len()],
    /// True if copies may go through a pipe.
    uses_pipe: bool,
    /// The pipe, while it is not in use.
    pipe: Option<Pipe>,
    /// The kernel's limit of dirty data, once it was asked for.
    dirty_limit: OnceCell<u64>,
    /// Number of processors, once it was needed.
    processors: OnceCell<usize>,
}

impl Io {
    pub(super) fn new(settings: Settings, caps: Caps) -> Self {
        let window = if caps.blocks { settings.window } else { settings.window.min(caps.depth) };
        let mut io = Self {
            settings,
            caps,
            window,
            probes: false,
            probed_device: None,
            queue_space: 1,
            ring_score: 0,
            large_buffers: Vec::new(),
            small_buffers: Default::default(),
            uses_pipe: false,
            pipe: None,
            dirty_limit: OnceCell::new(),
            processors: OnceCell::new(),
        };
        io.adapt(caps);
        io
    }

    /// Adapts to a new engine.
    pub(super) fn adapt(&mut self, caps: Caps) {
        let switches = self.settings.switches;
        self.caps = caps;
        // Direct I/O and `drop_cache` don't want the block in the cache, and a pair would read
        // it twice.
        self.probes = switches.read_ahead && !switches.direct && !switches.drop_cache && !caps.pairs;
        // An engine that was asked for does what its name says, a preloaded library sees reads and
        // writes only, and a pipe needs descriptors.
        self.uses_pipe = self.settings.engine == EngineChoice::Auto
            && caps.blocks
            && !switches.direct
            && !switches.drop_cache
            && self.settings.cached_directories > 0
            && haul_sys::interposer().is_none();
        self.pipe = None;
    }

    /// Counts a small file whose first block was not in the page cache.
    pub(super) fn note_uncached(&mut self) {
        self.ring_score += UNCACHED_SCORE;
    }

    /// Counts a file of so many bytes whose first block was in the page cache.
    pub(super) fn note_cached(&mut self, bytes: u64) {
        self.ring_score = match bytes {
            ..=SMALL_BYTES => self.ring_score.saturating_sub(1),
            // A ring would copy larger ones much slower.
            _ => 0,
        };
    }

    /// Returns true if the small files have to be fetched often enough to be worth a ring.
    pub(super) fn suits_ring(&self) -> bool {
        self.ring_score >= RING_SCORE_MIN
    }

    /// Returns true if a source of this size should be copied through a pipe, because nearly all of
    /// it is in the page cache. Uncached data should not go through one: `splice` activates its
    /// pages, and they displace those that others use (docs/measurements/choices.md).
    pub(super) fn suits_pipe(&self, source: &Fd, bytes: u64) -> bool {
        let cached = || cached_bytes(source).unwrap_or(0);
        self.may_use_pipe(bytes) && cached() >= bytes / 10 * 9
    }

    /// Returns true if so many bytes are enough for a pipe, and the worker may have one.
    fn may_use_pipe(&self, bytes: u64) -> bool {
        self.uses_pipe && self.length_of_block(bytes, CacheMode::Keep) >= PIPE_BYTES_MIN
    }

    /// Returns the worker's pipe to copy so many bytes, or `None` if they don't go through one.
    pub(super) fn take_pipe(&mut self, bytes: u64) -> Option<Pipe> {
        if !self.may_use_pipe(bytes) {
            return None;
        }
        let pipe = self.pipe.take().map_or_else(|| Pipe::new(self.settings.block_bytes), Ok);
        // Without one, the data goes in blocks.
        self.uses_pipe = pipe.is_ok();
        pipe.ok()
    }

    /// Keeps the pipe for the next copy, if it is empty. Otherwise that gets a new one.
    pub(super) fn return_pipe(&mut self, pipe: Option<Pipe>) {
        self.pipe = pipe;
    }

    /// Returns true if the copy of a file of so many bytes should drop its pages: the kernel would
    /// make it wait for the disk in any case, and the pages would displace those that others use
    /// (docs/measurements/choices.md).
    pub(super) fn outgrows_cache(&self, bytes: u64) -> bool {
        self.settings.engine == EngineChoice::Auto
            && self.caps.drops_cache
            && bytes > CACHED_BYTES_MAX
            && bytes > *self.dirty_limit.get_or_init(|| dirty_limit().unwrap_or(u64::MAX))
    }

    /// Returns the number of processors that this process may use.
    pub(super) fn processors(&self) -> usize {
        *self.processors.get_or_init(processors)
    }

    pub(super) fn new_buffer(&self) -> Buffer {
        // An engine that blocks has one in use. Others may pin all of them.
        let large = if self.caps.blocks { self.settings.uncached_block_bytes } else { 0 };
        Buffer::new(self.settings.block_bytes.max(large))
    }

    /// Returns a buffer for so many bytes, or for a block if they are more. A small file gets a
    /// small one: those of a ring's many reads would all grow to a block as soon as some larger
    /// file has used each of them.
    pub(super) fn take_buffer(&mut self, bytes: usize) -> Buffer {
        match self.small_size(bytes) {
            Some(size) => self.small_buffers[size].pop().unwrap_or_else(|| Buffer::new(SMALL_BUFFERS[size])),
            None => self.large_buffers.pop().unwrap_or_else(|| self.new_buffer()),
        }
    }

    /// Recycles a buffer.
    pub(super) fn return_buffer(&mut self, buffer: Buffer) {
        match self.small_size(buffer.capacity()) {
            Some(size) => self.small_buffers[size].push(buffer),
            None if self.large_buffers.len() < LARGE_KEPT || self.keeps_all_buffers() => {
                self.large_buffers.push(buffer);
            }
            None => {}
        }
    }

    fn keeps_all_buffers(&self) -> bool {
        let uses_several = matches!(self.settings.ops, Some(Ops::Multi | Ops::Batch));
        uses_several || self.has_registered_buffers()
    }

    /// Returns the index of the smallest of [`SMALL_BUFFERS`] that so many bytes fit into, if there
    /// is one. Registered buffers are all large.
    fn small_size(&self, bytes: usize) -> Option<usize> {
        let fits = |size: &usize| bytes <= *size && !self.has_registered_buffers();
        SMALL_BUFFERS.iter().position(fits)
    }

    fn has_registered_buffers(&self) -> bool {
        self.settings.switches.registered_buffers
    }

    /// Recycles the buffer of a block that isn't needed.
    pub(super) fn recycle(&mut self, block: Option<(Buffer, usize)>) {
        if let Some((buffer, _)) = block {
            self.return_buffer(buffer);
        }
    }

    /// Returns how many of so many bytes are read or written at once.
    pub(super) fn length_of_block(&self, bytes: u64, cache: CacheMode) -> usize {
        let block_bytes = match cache {
            CacheMode::Drop if self.caps.blocks => self.settings.uncached_block_bytes,
            _ => self.settings.block_bytes,
        };
        usize::try_from(bytes).unwrap_or(usize::MAX).min(block_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn io() -> Io {
        let caps = Caps { name: "test", depth: 1, blocks: true, pairs: false, drops_cache: true };
        Io::new(Settings::resolve(&Config::default()), caps)
    }

    /// Returns after how many small files a ring is worth it, if one of `period` has to be fetched.
    fn files_before_ring(period: usize) -> Option<usize> {
        let mut io = io();
        (1..10_000).find(|count| {
            if count % period == 0 {
                io.note_uncached()
            } else {
                io.note_cached(1000)
            }
            io.suits_ring()
        })
    }

    #[test]
    fn a_ring_is_worth_it_if_more_than_a_fifth_of_the_small_files_has_to_be_fetched() {
        assert_eq!(files_before_ring(1), Some(32));
        assert!(files_before_ring(2).is_some_and(|count| count < 100));
        assert!(files_before_ring(4).is_some());
        assert_eq!(files_before_ring(5), None);
        assert_eq!(files_before_ring(50), None);
    }

    #[test]
    fn small_files_have_small_buffers_unless_they_are_registered() {
        let mut io = io();
        let capacities = [1, 16_385, 20_481, 65_537, 69_633].map(|bytes| {
            let buffer = io.take_buffer(bytes);
            let capacity = buffer.capacity();
            io.return_buffer(buffer);
            capacity
        });
        assert_eq!(capacities[..4], [20_480, 20_480, 69_632, 69_632]);
        assert!(capacities[4] >= io.settings.block_bytes);
        // The second one of each size used the first one's.
        assert_eq!(io.small_buffers.each_ref().map(Vec::len), [1, 1]);
        assert_eq!(io.large_buffers.len(), 1);
        io.settings.switches.registered_buffers = true;
        assert!(io.take_buffer(1).capacity() >= io.settings.block_bytes);
    }

    #[test]
    fn few_unused_large_buffers_are_kept_unless_they_are_registered() {
        for (is_registered, kept) in [(false, LARGE_KEPT), (true, 50)] {
            let mut io = io();
            io.settings.switches.registered_buffers = is_registered;
            let taken: Vec<_> = (0..50).map(|_| io.take_buffer(100_000)).collect();
            taken.into_iter().for_each(|buffer| io.return_buffer(buffer));
            assert_eq!(io.large_buffers.len(), kept);
        }
    }

    #[test]
    fn a_larger_cached_file_speaks_against_a_ring() {
        let mut io = io();
        (0..31).for_each(|_| io.note_uncached());
        io.note_cached(SMALL_BYTES + 1);
        io.note_uncached();
        assert!(!io.suits_ring());
    }
}
