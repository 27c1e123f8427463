//! Usage counters of an asynchronous I/O interface: its optional features and its system calls.

use std::fmt;

/// Counts so far. Counters of features that an interface lacks stay 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Pairs submitted with their read and write linked.
    pub linked_pairs: u64,
    /// Reads and writes, including those of pairs, through a registered buffer.
    pub registered_buffers: u64,
    /// Reads and writes, including those of pairs, of a file in the ring's own table.
    pub direct_descriptors: u64,
    /// System calls that submit operations or wait for them: `io_uring_enter`; `io_submit`,
    /// `io_getevents` and reads of the eventfd; `lio_listio`. POSIX AIO operations submitted one by
    /// one are not counted.
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
