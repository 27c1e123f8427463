//! What a run is asked to do with the machine: plain data, lowered once from what the user typed.

use haul_engine::{Choice, Ops};

/// How a run uses the machine. Fields left `None` are chosen by the run and told under `--debug`.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Config {
    /// Workers at once.
    pub jobs: Option<usize>,
    /// Which engine each worker has.
    pub engine: Choice,
    /// Operations in flight per worker, for engines that have several.
    pub queue_depth: Option<usize>,
    /// Bytes of one read or write.
    pub block_bytes: Option<usize>,
    /// Files a worker keeps open ahead of the one it copies, so that the disk is busy with them.
    pub look_ahead: Option<usize>,
    /// How engines that can have several operations in flight use them.
    pub ops: Option<Ops>,
    /// What is done to be fast, each for itself.
    pub switches: Switches,
}

/// What a run does to be fast, and can be told to do or to leave each for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Switches {
    /// Data goes past the page cache, where both file systems can.
    pub direct: bool,
    /// The buffers are made known to the kernel once, by engines that can.
    pub registered_buffers: bool,
    /// Files are made known to the kernel once, by engines that can.
    pub direct_descriptors: bool,
    /// A target's space is reserved before it is written.
    pub allocate: bool,
    /// Data is asked for before it is needed.
    pub read_ahead: bool,
    /// The kernel is told that large files are read in order.
    pub advise: bool,
    /// The page cache is left as it was found.
    pub drop_cache: bool,
    /// Directories go before files, within a bound.
    pub directory_first: bool,
    /// Entries of a directory go in the order of their inode numbers, rather than that of the listing.
    pub inode_order: bool,
}

impl Default for Switches {
    /// What measurements found best (docs/measurements/).
    fn default() -> Self {
        Self {
            direct: false,
            registered_buffers: false,
            direct_descriptors: false,
            allocate: false,
            read_ahead: true,
            advise: true,
            drop_cache: false,
            directory_first: true,
            inode_order: true,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            jobs: None,
            engine: Choice::Auto,
            queue_depth: None,
            block_bytes: None,
            look_ahead: None,
            ops: None,
            switches: Switches::default(),
        }
    }
}
