//! `sync`: makes a target tree equal to a source tree. It copies the entries that differ, and then,
//! if requested, deletes the entries that only the target has.
//!
//! ```text
//! prepare  before anything is touched: may these two be made equal? (prepare.rs)
//! run      survey the target, copy, delete (haul-copy, haul-delete)
//! ```
//!
//! Promises: neither tree is inside the other, unless the copy leaves that part out; the home
//! directory and the root of a mounted file system lose nothing unless the caller insists; nothing
//! is deleted after an error. The promises of `haul-delete` hold too: entries that the selection
//! leaves out stay, an empty source deletes nothing, and no more is deleted than the limit allows.

mod kind;
mod mounts;
mod options;
mod prepare;

use std::ffi::CStr;
use std::io;
use std::os::fd::AsFd;

use haul_copy::{Copier, CopyOutcome, CopyRefusal, CopyRequest};
use haul_delete::{DeleteRequest, Deleter};
use haul_flow::{Executor, Reporter, Status};
use haul_sys::Identity;

pub use haul_delete::Limit;
pub use kind::SyncKind;
pub use options::{Conflict, DeletionOptions, Options, copy_options};
pub use prepare::prepare;

/// Runs a prepared copy with its deletion. Nothing is deleted if `has_failed` returns true when
/// everything else is copied, or if `report` got an error from the copy.
///
/// `deletion` is the result of [`prepare()`]. The files that are standard output and standard error
/// are added to its own files, which stay even if they are in the target.
///
/// # Errors
/// If it can't start. What fails later goes to `report`.
pub fn run(
    executor: &(impl Executor<Copier> + Executor<Deleter>),
    request: CopyRequest<'_>,
    deletion: Option<&haul_delete::Options>,
    has_failed: &dyn Fn() -> bool,
    report: &dyn Reporter,
) -> Result<CopyOutcome, CopyRefusal> {
    let copy = |request: CopyRequest<'_>| haul_copy::run(executor, request, report);
    let (Some(options), [source, target]) = (deletion, request.operands.names.as_slice()) else {
        return copy(request);
    };
    let (source, target): (&CStr, &CStr) = (source, target);
    let own_files = options.own_files.iter().copied().chain(standard_streams()).collect();
    let options = haul_delete::Options { own_files, ..options.clone() };
    let CopyRequest { config, cancel, .. } = request;
    let whole = DeleteRequest { source, target, options: &options, config, cancel };
    let ran = haul_delete::run(executor, whole, report, |delete| {
        let deletion = UnlessFailed { has_failed, delete };
        copy(CopyRequest { deletion: Some(&deletion), ..request })
    });
    ran.unwrap_or_else(|problem| Err(CopyRefusal::Fatal(problem)))
}

/// Returns the files that are standard output and standard error.
fn standard_streams() -> impl Iterator<Item = Identity> {
    let identity = |stream: &dyn AsFd| haul_sys::stat(stream.as_fd()).ok().map(|stat| stat.identity);
    [identity(&io::stdout()), identity(&io::stderr())].into_iter().flatten()
}

/// Deletes unless an error was reported, by the copy or by anything else in the program.
struct UnlessFailed<'a> {
    has_failed: &'a dyn Fn() -> bool,
    delete: &'a dyn Fn(Status) -> Status,
}

impl haul_copy::DeletionStep for UnlessFailed<'_> {
    fn delete(&self, copied: Status) -> Status {
        (self.delete)(if (self.has_failed)() { Status::Failure } else { copied })
    }
}
