//! How often an asynchronous way to the kernel did what it does only on request, and what it cost in calls.

use std::fmt;

/// What was used so far. What a way does not have stays at zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Pairs whose read and write were given to the kernel bound together.
    pub linked_pairs: u64,
    /// Reads and writes, those of pairs included, through a registered buffer.
    pub registered_buffers: u64,
    /// Reads and writes, those of pairs included, of a file in the ring's own table.
    pub direct_descriptors: u64,
    /// Calls that passed operations on or waited for them: `io_uring_enter`; `io_submit`, `io_getevents` and the reads of
    /// the eventfd that stands for both contexts; `lio_listio`. Operations of POSIX AIO that go one by one are not counted.
    pub calls: u64,
}

impl fmt::Display for Used {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { linked_pairs, registered_buffers, direct_descriptors, calls } = self;
        write!(
            out,
            "{linked_pairs} linked pairs, {registered_buffers} transfers by registered buffers, \
             {direct_descriptors} by direct descriptors, {calls} calls"
        )
    }
}
