//! `haul sync --delete`: a copy that deletes what only the target has.

use std::ffi::CStr;
use std::io;
use std::os::fd::AsFd;

use haul_copy::{CopyRequest, Deletion};
use haul_delete::{DeleteRequest, Options};
use haul_flow::{Report, Status};
use haul_sys::Identity;

use crate::report::Console;

/// Runs `copy` with the deletion. Returns the exit status.
pub(crate) fn run(
    request: CopyRequest<'_>,
    options: &Options,
    console: &Console,
    copy: impl FnOnce(CopyRequest<'_>) -> u8,
) -> u8 {
    let [source, target] = request.operands.names.as_slice() else { return copy(request) };
    let (source, target): (&CStr, &CStr) = (source, target);
    let options = Options { own_files: own_files(console), ..options.clone() };
    let whole = DeleteRequest { source, target, options: &options, config: request.config };
    let ran = haul_delete::run(whole, console, |delete| {
        let deletion = UnlessFailed { console, delete };
        copy(CopyRequest { deletion: Some(&deletion), ..request })
    });
    ran.unwrap_or_else(|problem| {
        console.problem(problem);
        1
    })
}

/// Returns the files that this run writes messages to, which may be in the target.
fn own_files(console: &Console) -> Vec<Identity> {
    let identity = |stream: &dyn AsFd| haul_sys::stat(stream.as_fd()).ok().map(|stat| stat.identity);
    let streams = [identity(&io::stdout()), identity(&io::stderr())];
    streams.into_iter().flatten().chain(console.log_files()).collect()
}

/// Deletes unless an error was reported, by the copy or by anything else in the program.
struct UnlessFailed<'a> {
    console: &'a Console,
    delete: &'a dyn Fn(Status) -> Status,
}

impl Deletion for UnlessFailed<'_> {
    fn delete(&self, copied: Status) -> Status {
        (self.delete)(if self.console.has_failed() { Status::Failure } else { copied })
    }
}
