//! `haul sync` for Python.

use haul::options::{IfChanged, Verify};
use haul::{CancelToken, Config, Selection, Sync};
use pyo3::prelude::*;

use crate::problem::{self, ProblemTuple};
use crate::supervise::{TallySum, supervise};
use crate::{CHANGED_RETRIES, path, problems_of, reflink};

/// Arguments of a sync: the attributes of `_SyncRequest` in `haul/_sync.py`.
#[derive(FromPyObject)]
pub(crate) struct SyncRequest {
    source: Vec<u8>,
    target: Vec<u8>,
    delete: bool,
    checksum: bool,
    dry_run: bool,
    jobs: Option<usize>,
    reflink: String,
    verify: bool,
    exclude: Vec<String>,
}

/// Counts of a sync: files, directories, symlinks, bytes, unchanged, mended, deleted.
type SyncCounts = (u64, u64, u64, u64, u64, u64, u64);

/// Makes a directory equal to another. Returns counts, if it succeeds, and a tuple for each
/// problem.
///
/// # Errors
/// `ValueError` for an invalid request, and whatever `progress` or a signal handler raises.
#[pyfunction]
pub(crate) fn sync(
    py: Python<'_>,
    request: SyncRequest,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Option<SyncCounts>, Vec<ProblemTuple>)> {
    let cancel = CancelToken::default();
    let sync = builder(request)?.cancel_with(&cancel);
    match supervise(py, &cancel, progress, move |counts: &TallySum| sync.run_with(counts))? {
        Ok(summary) => {
            let tally = summary.tally;
            let counts = (
                tally.files,
                tally.directories,
                tally.symlinks,
                tally.bytes,
                tally.unchanged,
                tally.mended,
                tally.deleted,
            );
            Ok((Some(counts), problem::tuples(summary.problems)))
        }
        Err(error) => Ok((None, problems_of(error)?)),
    }
}

fn builder(request: SyncRequest) -> PyResult<Sync> {
    let reflink = reflink(&request.reflink)?;
    let selection = Selection { rules: request.exclude, ..Selection::default() };
    let config = Config { jobs: request.jobs, selection, ..Config::default() };
    let mut sync = Sync::new(path(request.source), path(request.target)).config(config).options(|options| {
        options.reflink = reflink;
        if request.verify {
            options.verify = Verify::Target;
            options.if_changed = IfChanged::Retry(CHANGED_RETRIES);
        }
    });
    if request.delete {
        sync = sync.delete();
    }
    if request.checksum {
        sync = sync.by_content();
    }
    Ok(if request.dry_run { sync.dry_run() } else { sync })
}
