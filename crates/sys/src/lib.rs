//! Every system call haul makes.
//!
//! This is haul's only path to the kernel and, apart from the MPI loader, the only crate with
//! `unsafe`. It deals in descriptors, single names, bytes and metadata. Options, policy and
//! multi-component paths belong to its callers.
//!
//! Each call is one small function that passes through [`gate`]. The gate retries interrupted
//! calls, turns failures into an [`Error`] that prints like a line of strace and, with the feature
//! `fault`, injects failures. Completions of asynchronous operations pass through it too.
//!
//! Promises:
//! - no result of a call is dropped, not even that of `close`: see [`Fd::close`];
//! - no function resolves a name of more than one component, unless its own name ends in `_path`;
//! - memory that the kernel may still write to is owned by the type that gave it to the kernel.
//!
//! Invariant: every call and every completion passes `gate`, so a fault can be injected into any of
//! them (tests: the fault sweep).

#![allow(unsafe_code)]

mod buffer;
mod cached;
mod child;
mod data;
mod direct;
mod directory;
mod error;
mod fd;
mod file_ref;
mod file_system;
mod gate;
mod inherited;
mod interposer;
mod kernel_aio;
mod lease;
mod local_time;
mod locale;
pub mod magic;
mod magic_link;
mod make;
mod memory;
mod metadata;
mod names;
mod open;
mod operation;
pub mod pcre2;
mod pinned;
mod pipe;
mod posix_aio;
mod process;
mod process_stat;
mod process_tree;
mod raw_result;
mod ring;
mod selinux;
mod socket;
mod standard;
mod stat;
mod temporary;
mod transfer;
mod used;
mod users;
mod xattr;

#[cfg(feature = "fault")]
pub mod fault;

pub use buffer::Buffer;
pub use cached::cached_bytes;
pub use child::{ChildOutput, Failed, Filter, IsOwn, Started, TerminationHandle};
pub use data::{
    Advice, CacheMode, Seek, advise, advise_range, allocate, copy_range, is_direct, make_blocking, position,
    punch_hole, read, read_all, read_cached, read_path, read_rest, read_stream, reflink, seek, seek_to,
    seek_to_end, synchronize, truncate, try_read, with_readable, write, write_all, write_all_stream,
    write_stream,
};
pub use direct::{Alignment, bypass_cache, direct_alignment, start_write_back, use_cache, write_back};
pub use directory::DirectoryReader;
pub use error::{Errno, Error, Result, reason};
pub use fd::{Fd, flush_as_close_does};
pub use file_ref::FileRef;
pub use file_system::{
    file_system_id, file_system_type, free_bytes, has_coarse_locks, is_generated_by_kernel, is_in_memory,
    is_local, is_read_ahead_costly, mount_type, suits_two_workers, synchronize_file_system, time_resolution,
};
pub use inherited::{inherited_for_writing, keep_from_children, write_all_within};
pub use interposer::interposer;
pub use kernel_aio::{Gather, KernelAio};
pub use lease::{Lease, since_boot};
pub use local_time::{LocalTime, local_time, seconds_of, utc_time};
pub use locale::{character_set, first_character, use_character_set};
pub use magic_link::{leads_to_closed_stream, leads_to_descriptor};
pub use make::{
    Special, link, link_at_path, link_unnamed, make_directory, make_special, make_symlink, read_link, remove,
    remove_directory, rename, rename_across, rename_to_new,
};
pub use memory::dirty_limit;
pub use metadata::{Owner, Times, change_mode, change_owner, change_times};
pub use names::{EntryType, ListedEntry, Name, NameArena, PackedNames, c_string};
pub use open::{NONBLOCK, Open, open, open_parent, open_path, open_path_without_links};
pub use operation::Operation;
pub use pinned::{Pinned, has_xattrs_at};
pub use pipe::Pipe;
pub use posix_aio::{AioSubmission, PosixAio};
pub use process::{
    Capabilities, Credentials, Usage, address_space_limit, block_signals, clock, descriptor_limit,
    effective_identity, is_in_group, lower_priority, precise_clock, raise_descriptor_limit,
    set_creation_label, set_umask, umask, usage, widen_descriptor_table,
};
pub use ring::{Ring, RingReply, RingRequest};
pub use selinux::{FileContexts, LIBSELINUX};
pub use socket::{listen_path, peer_user, wait_until_readable};
pub use standard::{
    Standard, end_at_broken_pipe, ends_at_broken_pipe, ignores_signal, standard_input, standard_stream,
    take_standard_streams, terminal_columns, was_closed,
};
pub use stat::{
    FileType, Identity, Mode, Stat, Timestamp, device_number, device_of, device_parts, is_append_only,
    is_mount_root, may_write, stat, stat_at, stat_followed, stat_path,
};
pub use temporary::{TEMPORARY_PREFIX, is_left_behind, run_of, temporary_name, temporary_name_of_run};
pub use transfer::{TransferRequest, Transferred};
pub use used::Used;
pub use users::{group_name, group_number, user_home, user_name, user_number};
pub use xattr::{XattrNames, get_xattr, list_xattrs, matches_pattern, remove_xattr, set_xattr};
