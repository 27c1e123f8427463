//! Hashes of trees for Python.

use std::os::unix::ffi::OsStringExt;

use haul::{Algorithm, CancelToken, Config, Selection, Sum};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::problem::{self, ProblemTuple};
use crate::supervise::{TallySum, supervise};
use crate::{path, problems_of};

/// Arguments of a hash run: the attributes of `_HashRequest` in `haul/_sync.py`.
#[derive(FromPyObject)]
pub(crate) struct HashRequest {
    path: Vec<u8>,
    algorithm: String,
    follow_symlinks: bool,
    jobs: Option<usize>,
    exclude: Vec<String>,
}

/// A file: its path, its length if it is known, and its hash in hexadecimal.
type HashedFile = (Vec<u8>, Option<u64>, String);

/// Returns the hash of each file, if all can be read, and a tuple for each problem.
///
/// # Errors
/// `ValueError` for an invalid request, and whatever `progress` or a signal handler raises.
#[pyfunction]
pub(crate) fn hash_tree(
    py: Python<'_>,
    request: HashRequest,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Vec<HashedFile>, Vec<ProblemTuple>)> {
    let cancel = CancelToken::default();
    let sum = builder(request)?.cancel_with(&cancel);
    match supervise(py, &cancel, progress, move |counts: &TallySum| sum.run_with(counts))? {
        Ok(hashes) => {
            let files = hashes.files.into_iter();
            let files = files
                .map(|file| (file.path.into_os_string().into_vec(), file.bytes, file.digest.to_string()));
            Ok((files.collect(), problem::tuples(hashes.summary.problems)))
        }
        Err(error) => Ok((Vec::new(), problems_of(error)?)),
    }
}

fn builder(request: HashRequest) -> PyResult<Sum> {
    let selection = Selection { rules: request.exclude, ..Selection::default() };
    let config = Config { jobs: request.jobs, selection, ..Config::default() };
    let sum = Sum::new([path(request.path)]).algorithm(algorithm(&request.algorithm)?).config(config);
    Ok(if request.follow_symlinks { sum.follow_links() } else { sum })
}

fn algorithm(name: &str) -> PyResult<Algorithm> {
    let known = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name);
    known.ok_or_else(|| PyValueError::new_err(format!("unknown algorithm '{name}'")))
}
