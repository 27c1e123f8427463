//! Problems as Python sees them.

use haul::Problem;
use haul::flow::Severity;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

/// A problem as `(kind, names, errno, text, is_error)`.
pub(crate) struct ProblemTuple(Problem);

impl<'py> IntoPyObject<'py> for ProblemTuple {
    type Target = PyTuple;
    type Output = Bound<'py, PyTuple>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let Self(problem) = self;
        let names: Vec<_> = problem.names.iter().map(|name| PyBytes::new(py, name)).collect();
        let errno = problem.cause.as_ref().map(|cause| cause.errno().raw_os_error());
        let is_error = problem.severity == Severity::Error;
        (problem.kind.to_string(), names, errno, problem.to_string(), is_error).into_pyobject(py)
    }
}

pub(crate) fn tuples(problems: Vec<Problem>) -> Vec<ProblemTuple> {
    problems.into_iter().map(ProblemTuple).collect()
}
