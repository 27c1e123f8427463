//! The C library: `include/libhaul.h` describes it.
//!
//! This module converts between C and Rust; `job.rs` has the jobs themselves. No panic crosses the
//! boundary: each function catches it.

#![allow(unsafe_code, reason = "a boundary to C")]

mod job;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use haul::flow::Selector;
use haul::{Selection, Tally};

use job::{Job, JobKind, JobSetup, ListedProblem, Status, path};

/// Maximum of `HAUL_JOBS`.
const JOBS_MAX: i64 = 1024;

/// `haul_counts`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Counts {
    size: usize,
    values: [u64; 8],
}

/// `haul_problem`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ProblemFields {
    size: usize,
    message: *const c_char,
    kind: *const c_char,
    path: *const c_char,
    path_length: usize,
    error_number: c_int,
    is_warning: c_int,
}

/// `haul_progress`.
pub type Progress = Option<extern "C" fn(*const Counts, *mut c_void) -> c_int>;

/// A job with the C part: a function and its argument.
#[derive(Debug)]
pub struct CJob {
    job: Job,
    progress: std::sync::Mutex<(Progress, Data)>,
}

/// The argument of a progress function.
#[derive(Clone, Copy, Debug)]
struct Data(*mut c_void);

// SAFETY: it is only passed back to the caller's function, in the thread that runs the job. The
// header says that only one thread at a time uses a job.
unsafe impl Send for Data {}

/// Runs `body`, and returns `otherwise` if it panics.
fn guarded<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

/// Returns the job at an address.
///
/// # Safety
/// It is null, or from `haul_new` and not freed.
unsafe fn job_at<'a>(job: *const CJob) -> Option<&'a CJob> {
    // SAFETY: as the caller promises.
    unsafe { job.as_ref() }
}

/// Returns the bytes of a string.
///
/// # Safety
/// It is null, or ends with NUL and stays as it is for `'a`.
unsafe fn bytes_at<'a>(string: *const c_char) -> Option<&'a [u8]> {
    if string.is_null() {
        return None;
    }
    // SAFETY: it is a string, as the caller promises.
    Some(unsafe { CStr::from_ptr(string) }.to_bytes())
}

/// Copies as much of `from` as the caller's structure has. That begins with its size.
///
/// # Safety
/// `to` is null, or a structure as long as it says.
unsafe fn fill<T>(to: *mut T, mut from: T, set_size: impl FnOnce(&mut T, usize)) -> Status {
    if to.is_null() {
        return Status::Invalid;
    }
    // SAFETY: the caller's structure begins with its size.
    let size = unsafe { to.cast::<usize>().read() };
    if size < size_of::<usize>() {
        return Status::Invalid;
    }
    set_size(&mut from, size);
    // SAFETY: both have so many bytes, and `from` is a local variable.
    unsafe { ptr::copy_nonoverlapping((&raw const from).cast::<u8>(), to.cast(), size.min(size_of::<T>())) };
    Status::Ok
}

fn counts(tally: Tally) -> Counts {
    let Tally { discovered, finished, files, directories, bytes, unchanged, deleted, excluded, .. } = tally;
    let values = [discovered, finished, files, directories, bytes, unchanged, deleted, excluded];
    Counts { size: size_of::<Counts>(), values }
}

/// `haul_version`
#[unsafe(no_mangle)]
pub extern "C" fn haul_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// `haul_new`
#[unsafe(no_mangle)]
pub extern "C" fn haul_new(tool: c_int) -> *mut CJob {
    let tool = match tool {
        0 => JobKind::Copy,
        1 => JobKind::Sync,
        _ => return ptr::null_mut(),
    };
    guarded(ptr::null_mut(), || {
        let progress = std::sync::Mutex::new((None, Data(ptr::null_mut())));
        Box::into_raw(Box::new(CJob { job: Job::new(tool), progress }))
    })
}

/// `haul_free`
///
/// # Safety
/// The job is null, or from `haul_new`, not freed, and not running.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn haul_free(job: *mut CJob) {
    if !job.is_null() {
        // SAFETY: it is from `Box::into_raw`, and nobody else uses it, as the caller promises.
        let owned = unsafe { Box::from_raw(job) };
        guarded((), || drop(owned));
    }
}

/// Changes a job's settings, with a string.
///
/// # Safety
/// The requirements of [`job_at`] and [`bytes_at`].
unsafe fn change_with(
    job: *mut CJob,
    string: *const c_char,
    change: impl FnOnce(&mut JobSetup, &[u8]) -> Option<()>,
) -> Status {
    // SAFETY: as the caller promises.
    let job = unsafe { job_at(job) };
    // SAFETY: as the caller promises.
    let bytes = unsafe { bytes_at(string) };
    let (Some(job), Some(bytes)) = (job, bytes) else { return Status::Invalid };
    guarded(Status::Internal, || job.job.change(|setup| change(setup, bytes)))
}

/// `haul_source`
///
/// # Safety
/// See the header: a job, and a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn haul_source(job: *mut CJob, source: *const c_char) -> Status {
    let add = |setup: &mut JobSetup, bytes: &[u8]| {
        setup.sources.push(path(bytes));
        Some(())
    };
    // SAFETY: as the caller promises.
    unsafe { change_with(job, source, add) }
}

/// `haul_target`
///
/// # Safety
/// See the header: a job, and a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn haul_target(job: *mut CJob, target: *const c_char) -> Status {
    let set = |setup: &mut JobSetup, bytes: &[u8]| {
        setup.target = Some(path(bytes));
        Some(())
    };
    // SAFETY: as the caller promises.
    unsafe { change_with(job, target, set) }
}

/// `haul_exclude`
///
/// # Safety
/// See the header: a job, and a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn haul_exclude(job: *mut CJob, rule: *const c_char) -> Status {
    let add = |setup: &mut JobSetup, bytes: &[u8]| {
        let rules = vec![String::from_utf8(bytes.to_vec()).ok()?];
        let alone = Selection { rules, ..Selection::default() };
        // Nobody would notice that an empty line or a comment excludes nothing.
        Selector::new(&alone).ok().filter(Selector::has_rules)?;
        setup.config.selection.rules.extend(alone.rules);
        Some(())
    };
    // SAFETY: as the caller promises.
    unsafe { change_with(job, rule, add) }
}

/// `haul_set`
///
/// # Safety
/// See the header: a job.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn haul_set(job: *mut CJob, option: c_int, value: i64) -> Status {
    // SAFETY: as the caller promises.
    let Some(job) = (unsafe { job_at(job) }) else { return Status::Invalid };
    let set = |setup: &mut JobSetup| {
        let switch = match option {
            1 => &mut setup.recursive,
            2 => &mut setup.preserve,
            3 => &mut setup.exact,
            4 => &mut setup.delete,
            5 => {
                setup.delete_max = Some(u64::try_from(value).ok()?);
                return Some(());
            }
            6 => &mut setup.really,
            7 => &mut setup.by_content,
            8 => &mut setup.dry_run,
            9 => &mut setup.verify,
            10 => &mut setup.fsync,
            11 => {
                let jobs = (1..=JOBS_MAX).contains(&value).then_some(value)?;
                setup.config.jobs = Some(usize::try_from(jobs).ok()?);
                return Some(());
            }
            _ => return None,
        };
        *switch = match value {
            0 => false,
            1 => true,
            _ => return None,
        };
        Some(())
    };
    guarded(Status::Internal, || job.job.change(set))
}

/// `haul_on_progress`
///
/// # Safety
/// See the header: a job, and a function that may be called with `data` as long as the job runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn haul_on_progress(job: *mut CJob, progress: Progress, data: *mut c_void) -> Status {
    // SAFETY: as the caller promises.
    let Some(job) = (unsafe { job_at(job) }) else { return Status::Invalid };
    guarded(Status::Internal, || {
        job.job.change(|_| {
            *haul::flow::lock(&job.progress) = (progress, Data(data));
            Some(())
        })
    })
}

/// `haul_run`
///
/// # Safety
/// See the header: a job.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn haul_run(job: *mut CJob) -> Status {
    // SAFETY: as the caller promises.
    let Some(job) = (unsafe { job_at(job) }) else { return Status::Invalid };
    guarded(Status::Internal, || {
        let (progress, Data(data)) = *haul::flow::lock(&job.progress);
        job.job.run(|tally| {
            let counts = counts(tally);
            progress.is_none_or(|progress| progress(&counts, data) == 0)
        })
    })
}

/// `haul_cancel`: stores to one atomic variable, which a signal handler may.
///
/// # Safety
/// See the header: a job.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn haul_cancel(job: *mut CJob) {
    // SAFETY: as the caller promises.
    if let Some(job) = unsafe { job_at(job) } {
        job.job.cancel();
    }
}

/// `haul_counts_of`
///
/// # Safety
/// See the header: a job, and a structure as long as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn haul_counts_of(job: *const CJob, to: *mut Counts) -> Status {
    // SAFETY: as the caller promises.
    let Some(job) = (unsafe { job_at(job) }) else { return Status::Invalid };
    let counts = guarded(counts(Tally::default()), || counts(job.job.tally()));
    // SAFETY: as the caller promises.
    unsafe { fill(to, counts, |counts, size| counts.size = size) }
}

/// `haul_problem_count`
///
/// # Safety
/// See the header: a job.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn haul_problem_count(job: *const CJob) -> usize {
    // SAFETY: as the caller promises.
    unsafe { job_at(job) }.map_or(0, |job| job.job.problem_count())
}

/// `haul_problem_at`
///
/// # Safety
/// See the header: a job, and a structure as long as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn haul_problem_at(job: *const CJob, index: usize, to: *mut ProblemFields) -> Status {
    // SAFETY: as the caller promises.
    let Some(job) = (unsafe { job_at(job) }) else { return Status::Invalid };
    let fields = |problem: &ListedProblem| ProblemFields {
        size: 0,
        message: problem.message.as_ptr(),
        kind: problem.kind.as_ptr(),
        path: problem.path.as_ref().map_or(ptr::null(), |path| path.as_ptr()),
        path_length: problem.path.as_ref().map_or(0, |path| path.as_bytes().len()),
        error_number: problem.error_number,
        is_warning: problem.is_warning.into(),
    };
    let Some(fields) = job.job.problem_at(index, fields) else { return Status::Invalid };
    // SAFETY: as the caller promises.
    unsafe { fill(to, fields, |fields, size| fields.size = size) }
}
