//! Configuration of a run: its use of the machine and its selection of entries. Plain data, lowered
//! once from the command line.

use haul_engine::{EngineChoice, Ops};

use crate::limits::Limits;
use crate::selection::Selection;

/// A run's use of the machine, and its selection. Values for fields left `None` are chosen by the
/// run and logged under `--debug`.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Config {
    /// Number of workers.
    pub jobs: Option<usize>,
    /// Engine of each worker. `EngineChoice` implements `FromStr` for the names of `--engine`.
    pub engine: EngineChoice,
    /// Number of descriptors to work within, five of which are not the run's. The process's limit
    /// by default.
    pub descriptors: Option<usize>,
    /// Operations in flight per worker, for asynchronous engines.
    pub queue_depth: Option<usize>,
    /// Size of one read or write, in bytes.
    pub block_bytes: Option<usize>,
    /// Files a worker keeps open ahead of the one it copies, to keep the disk busy.
    pub look_ahead: Option<usize>,
    /// Mode of submission of asynchronous engines.
    pub ops: Option<Ops>,
    /// Optimisations, each on or off.
    pub switches: Switches,
    /// True if other programs go first. A run doesn't change its process: the program must lower
    /// the priority of each of its processes (`haul_sys::lower_priority`).
    pub nice: bool,
    /// Rate limits of all workers and ranks together. `None` if there are none, and none will
    /// be set during the run. Runs with clones of one configuration share its limits.
    pub limits: Option<Limits>,
    /// The entries to skip.
    pub selection: Selection,
}

/// Optimisations of a run, each of which can be turned on or off by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Switches {
    /// Bypass the page cache, if both file systems can.
    pub direct: bool,
    /// Register the buffers with the kernel once, if the engine can.
    pub registered_buffers: bool,
    /// Register files with the kernel once, if the engine can.
    pub direct_descriptors: bool,
    /// Reserve a target's space before it is written.
    pub allocate: bool,
    /// Request data before it is needed.
    pub read_ahead: bool,
    /// Advise the kernel that large files are read sequentially.
    pub advise: bool,
    /// Leave the page cache as it was found.
    pub drop_cache: bool,
    /// Directories go before files, within a bound.
    pub directory_first: bool,
    /// Do the entries of a directory in inode order, not in listing order.
    pub inode_order: bool,
}

impl Default for Switches {
    /// The best values in measurements (docs/measurements/).
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
            descriptors: None,
            engine: EngineChoice::Auto,
            queue_depth: None,
            block_bytes: None,
            look_ahead: None,
            ops: None,
            switches: Switches::default(),
            nice: false,
            limits: None,
            selection: Selection::default(),
        }
    }
}
