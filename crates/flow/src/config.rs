//! What a run is asked to do with the machine: plain data, lowered once from what the user typed.

use haul_engine::Choice;

/// How a run uses the machine. Fields left `None` are chosen by the run and told under `--debug`.
#[derive(Clone, Debug)]
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
}

impl Default for Config {
    fn default() -> Self {
        Self { jobs: None, engine: Choice::Auto, queue_depth: None, block_bytes: None, look_ahead: None }
    }
}
