//! The native half of the Python package `haul`: runs a copy and waits for it.
//!
//! `haul/__init__.py` has the semantics of `shutil`, and calls [`copy`] with everything decided.
//!
//! ```text
//! calling thread   holds the GIL only to check for signals and to call `progress`,
//!                  a few times per second; waits without it
//!   └─ haul        runs the copy, with all signals blocked, and never takes the GIL
//!        └─ workers
//! ```
//!
//! Whatever the calling thread raises cancels the copy: no more entries begin, files in flight are
//! completed, and then the exception propagates. Nothing is kept between two calls, so that several
//! threads can copy at once, and a process can fork.

mod hashes;
mod problem;
mod supervise;
mod sync;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

use haul::flow::{Contents, NameList, RefusedName, Selector};
use haul::options::{Atomic, Dereference, IfChanged, Preserve, Reflink, Verify};
use haul::{CancelToken, Config, Copy, CopyOptions, Error, FlowKind, Selection};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use problem::ProblemTuple;
use supervise::{TallySum, supervise};

/// Maximum repetitions of a copy whose source changed during it, if copies are verified.
const CHANGED_RETRIES: u32 = 3;

/// Arguments of a copy: the attributes of `_Request` in `haul/_copytree.py`.
#[derive(FromPyObject)]
struct CopyTreeRequest {
    source: Vec<u8>,
    target: Vec<u8>,
    symlinks: bool,
    jobs: Option<usize>,
    reflink: String,
    verify: bool,
    exclude: Vec<String>,
    /// NUL-terminated names below the source; `None` for all.
    names: Option<Vec<u8>>,
}

/// Copies the contents of a directory into an existing one. Returns a tuple for each problem.
///
/// # Errors
/// `ValueError` for an invalid request, and whatever `progress` or a signal handler raises.
#[pyfunction]
fn copy(
    py: Python<'_>,
    request: CopyTreeRequest,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<ProblemTuple>> {
    let cancel = CancelToken::default();
    let copy = builder(request)?.cancel_with(&cancel);
    let work = move |counts: &TallySum| copy.run_with(counts);
    supervise(py, &cancel, progress, work)?
        .map_or_else(problems_of, |summary| Ok(problem::tuples(summary.problems)))
}

/// Returns the problems of a run that isn't complete.
///
/// # Errors
/// `ValueError` for invalid arguments.
fn problems_of(error: Error) -> PyResult<Vec<ProblemTuple>> {
    match error {
        Error::Incomplete(summary) | Error::Cancelled(summary) => Ok(problem::tuples(summary.problems)),
        Error::NotStarted(problem) if problem.cause.is_none() || problem.kind == FlowKind::BadPattern => {
            Err(PyValueError::new_err(problem.to_string()))
        }
        Error::NotStarted(problem) => Ok(problem::tuples(vec![problem])),
        Error::NulInPath(_) => Err(PyValueError::new_err(error.to_string())),
        error => Err(PyRuntimeError::new_err(error.to_string())),
    }
}

/// Rules by which names are left out.
#[pyclass(frozen, name = "Rules")]
struct ExclusionRules(Selector);

#[pymethods]
impl ExclusionRules {
    /// # Errors
    /// `ValueError` for the first that is invalid.
    #[new]
    fn new(rules: Vec<Vec<u8>>) -> PyResult<Self> {
        let mut valid = Vec::with_capacity(rules.len());
        for rule in rules {
            let invalid = || {
                let shown = String::from_utf8_lossy(&rule);
                PyValueError::new_err(format!("exclude has an invalid rule: {shown:?}"))
            };
            let text = String::from_utf8(rule.clone()).map_err(|_| invalid())?;
            let alone = Selection { rules: vec![text.clone()], ..Selection::default() };
            // Nobody would notice that an empty line or a comment excludes nothing.
            if !Selector::new(&alone).is_ok_and(|alone| alone.has_rules()) {
                return Err(invalid());
            }
            valid.push(text);
        }
        let all = Selection { rules: valid, ..Selection::default() };
        Selector::new(&all).map(Self).map_err(|problem| PyValueError::new_err(problem.to_string()))
    }

    /// Returns true if they leave out the entry with this path below the source. Doesn't look at
    /// the directories above it.
    fn exclude(&self, path: &[u8], is_directory: bool) -> bool {
        self.0.rules_exclude(path, is_directory)
    }
}

fn path(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

fn builder(request: CopyTreeRequest) -> PyResult<Copy> {
    let reflink = reflink(&request.reflink)?;
    let list = request.names.map(name_list).transpose()?;
    let selection = Selection { rules: request.exclude, list, ..Selection::default() };
    let config = Config { jobs: request.jobs, selection, ..Config::default() };
    let [source, target] = [request.source, request.target].map(path);
    let change = |options: &mut CopyOptions| {
        options.recursive = true;
        // Like `shutil`: the source itself may be a link in any case.
        options.dereference = if request.symlinks { Dereference::Operands } else { Dereference::Always };
        // `shutil.copystat` knows neither owners nor hard links, and ignores xattrs that the
        // target's file system refuses.
        options.preserve = Preserve::MODE | Preserve::TIMESTAMPS | Preserve::XATTR;
        options.require_preserve = true;
        options.reduce_diagnostics = true;
        // One that doesn't fit is an error there, too.
        options.report_lost_xattrs = true;
        options.refuse_special = true;
        options.existing.keep_directory_symlink = true;
        options.through_dangling = true;
        options.atomic = Atomic::LargeFiles;
        options.reflink = reflink;
        if request.verify {
            options.verify = Verify::Target;
            options.if_changed = IfChanged::Retry(CHANGED_RETRIES);
        }
    };
    Ok(Copy::exactly(source, target).options(change).config(config))
}

fn reflink(word: &str) -> PyResult<Reflink> {
    match word {
        "auto" => Ok(Reflink::Auto),
        "always" => Ok(Reflink::Always),
        "never" => Ok(Reflink::Never),
        _ => Err(PyValueError::new_err(format!("reflink must be 'auto', 'always' or 'never', not '{word}'"))),
    }
}

fn name_list(text: Vec<u8>) -> PyResult<Arc<NameList>> {
    let refused = |refused: RefusedName| {
        PyValueError::new_err(format!("{}: {:?}", String::from_utf8_lossy(&refused.name), refused.why))
    };
    NameList::parse(text, 0, Contents::Listed).map(Arc::new).map_err(refused)
}

/// The module `haul._haul`.
#[pymodule]
fn _haul(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<ExclusionRules>()?;
    module.add_function(wrap_pyfunction!(copy, module)?)?;
    module.add_function(wrap_pyfunction!(sync::sync, module)?)?;
    module.add_function(wrap_pyfunction!(hashes::hash_tree, module)?)
}
