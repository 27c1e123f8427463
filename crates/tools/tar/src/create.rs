//! Creates an archive, from the operands to the blocks of zeros at its end.

use std::collections::HashSet;
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use haul_flow::{Alone, Config, Executor, Operand, Problem, Reporter, Session, Split, Status, processors};
use haul_sys::{Open, stat_path};

use super::TarKind;
use super::append_writer::AppendWriter;
use super::entry::DirectoryListing;
use super::examiner::{Examiner, without_slashes};
use super::format::{Indexed, archive_bytes, write_index};
use super::layout::{ItemLayout, PlacedMember};
use super::options::{Attributes, Links, MemberOrder, Options, TarOperand};
use super::output::ArchiveOutput;
use super::positioned_writer::PositionedWriter;
use super::survey::ArchiveSurvey;

/// Spans in memory per worker: one being filled, one being written, and some whose files are
/// being fetched.
const SPANS_PER_WORKER: usize = 4;

/// Maximum spans in flight to other processes, which make them: they take no memory here.
const REMOTE_SPANS_MAX: usize = 4096;

/// Creates an archive. Returns the exit status: 0, 1 if a file changed while it was read, 2 if
/// something failed.
pub fn create(
    executor: &impl Executor<PositionedWriter>,
    options: &Options,
    config: &Config,
    report: &dyn Reporter,
) -> u8 {
    match try_create(executor, options, config, report) {
        Ok(status) => status,
        Err(problem) => {
            report.problem(problem);
            report.problem(Problem::new(TarKind::NotRecoverable).as_warning());
            2
        }
    }
}

/// Creates an archive, or returns the problem that prevents it.
fn try_create(
    executor: &impl Executor<PositionedWriter>,
    options: &Options,
    config: &Config,
    report: &dyn Reporter,
) -> Result<u8, Problem> {
    let mut session = Session::begin(config, report)?;
    let output = ArchiveOutput::create(options)?;
    if options.index && !output.is_positioned {
        return Err(Problem::new(TarKind::IndexWantsFile));
    }
    let options = Arc::new(options.clone());
    let examiner = Examiner::new(Arc::clone(&options), output.identity);
    let status = Arc::clone(&examiner.status);
    let ran = if output.is_positioned && fits_one_pass(&options) {
        if session.config.jobs.is_none() {
            session.settings.jobs = session.settings.jobs.min(append_workers());
        }
        append(&session, &options, examiner, output)?
    } else {
        survey_and_write(&session, executor, &options, examiner, output)?
    };
    if ran == Status::Failure {
        status.at_least(2);
    }
    if status.get() == 2 {
        report.problem(Problem::new(TarKind::Exiting).as_warning());
    }
    Ok(status.get())
}

/// True if members can be written as they are found: no order, index or hole map was requested, no
/// other process needs to find its part, and no file is found twice except by its hard links.
fn fits_one_pass(options: &Options) -> bool {
    options.order == MemberOrder::Entry
        && !options.index
        && !options.several_processes
        && !options.attributes.contains(Attributes::HOLES)
        && options.links == Links::Kept
        && !overlap(&options.named)
}

/// Returns the number of workers that begin to append to one archive: one per processor. More would
/// wait for each other, and each keeps many reads in flight (docs/measurements/tools.md).
fn append_workers() -> usize {
    processors().max(2)
}

/// True if one operand contains another. Both then find the same files, in an unpredictable order.
fn overlap(named: &[TarOperand]) -> bool {
    if named.len() < 2 {
        return false;
    }
    let real = |named: &TarOperand| {
        let path = path_of(named, named.name.to_bytes());
        std::fs::canonicalize(OsStr::from_bytes(path.to_bytes())).ok()
    };
    // Without absolute paths, as in a deleted current directory, they may overlap. What is missing
    // is reported later.
    let Some(mut paths) = named.iter().map(real).collect::<Option<Vec<_>>>() else { return true };
    paths.sort_unstable();
    paths.windows(2).any(|pair| pair[1].starts_with(&pair[0]))
}

/// Creates an archive in one pass.
fn append(
    session: &Session<'_>,
    options: &Arc<Options>,
    examiner: Examiner,
    output: ArchiveOutput,
) -> Result<Status, Problem> {
    let operands = operands(session, &examiner)?;
    let writer = AppendWriter::new(examiner, output);
    let parents = operands.iter().enumerate();
    parents.for_each(|(position, operand): (_, &Operand<Arc<DirectoryListing>>)| {
        writer.begin_operand(position, &operand.own)
    });
    let ran = session.run_alone(&writer, operands);
    let (members, output) = writer.finish(session.report);
    write_trailer(output, members, Vec::new(), options)?;
    Ok(ran)
}

/// Creates an archive in two passes; the first one computes the layout.
fn survey_and_write(
    session: &Session<'_>,
    executor: &impl Executor<PositionedWriter>,
    options: &Arc<Options>,
    examiner: Examiner,
    output: ArchiveOutput,
) -> Result<Status, Problem> {
    let report = session.report;
    let operands = operands(session, &examiner)?;
    let parents = operands.iter().map(|operand| Arc::clone(&operand.own)).collect();
    let survey = ArchiveSurvey(examiner);
    let mut surveyed = session.run_alone(&survey, operands);
    let Examiner { owners, status, .. } = survey.0;
    let span_bytes = options.compression.frame_bytes();
    let (layout, all_fit) = ItemLayout::new(parents, options, &owners, span_bytes, report);
    if !all_fit {
        surveyed = Status::Failure;
    }
    let mut writer = PositionedWriter::new(layout, Arc::clone(options), owners, status, output);
    let shared = if options.several_processes { writer.share(&session.cache) } else { None };
    let written = match shared {
        Some(directory) => {
            let first = writer.first(REMOTE_SPANS_MAX, report);
            session.run(executor, &writer, vec![directory], first)
        }
        None => {
            if options.several_processes {
                report.debug("the archive is not a regular file: creating it in this process alone");
            }
            let first = writer.first(SPANS_PER_WORKER * session.settings.jobs, report);
            session.run(&Alone, &writer, Vec::new(), first)
        }
    };
    let Some((layout, left_out, output)) = writer.finish() else { return Ok(Status::Failure) };
    let members = layout.end();
    let index = if options.index { index(&layout, left_out, options, members)? } else { Vec::new() };
    write_trailer(output, members, index, options)?;
    Ok(surveyed.max(written))
}

/// Returns the index of the members that made it into the archive.
fn index(
    layout: &ItemLayout,
    left_out: Vec<usize>,
    options: &Options,
    members: u64,
) -> Result<Vec<u8>, Problem> {
    let left_out: HashSet<usize> = left_out.into_iter().collect();
    let there = layout.members.iter().enumerate().filter(|(index, _)| !left_out.contains(index));
    let indexed =
        |member: &PlacedMember| Indexed { offset: member.offset, path: layout.member_path(member, options) };
    let index: Vec<_> = there.map(|(_, member)| indexed(member)).collect();
    write_index(&index, members).map_err(|why| Problem::new(TarKind::NoIndex).naming(why.to_string()))
}

/// Ends an archive: zeros after the members, and the index behind them.
fn write_trailer(
    output: ArchiveOutput,
    members: u64,
    index: Vec<u8>,
    options: &Options,
) -> Result<(), Problem> {
    let mut last = vec![0; (archive_bytes(members) - members) as usize];
    last.extend(index);
    match options.compression.frame(last) {
        Ok(last) => output.finish(members, &last),
        Err(why) => Err(Problem::new(TarKind::CannotCompress).naming(why.to_string())),
    }
}

/// Makes the operands that the user named. Missing ones are reported.
fn operands(
    session: &Session<'_>,
    examiner: &Examiner,
) -> Result<Vec<Operand<Arc<DirectoryListing>>>, Problem> {
    let mut operands = Vec::new();
    // The last -C directory must exist even if no name follows it.
    examiner.options.directory.iter().try_for_each(|directory| check_directory(session, directory))?;
    for named in &examiner.options.named {
        named.directory.iter().try_for_each(|directory| check_directory(session, directory))?;
        if examiner.leaves_out(named) {
            continue;
        }
        match operand(session, named, &examiner.options) {
            Ok(operand) => operands.push(operand),
            Err(problem) => {
                examiner.status.at_least(2);
                session.report.problem(problem);
            }
        }
    }
    Ok(operands)
}

/// Checks that a directory of `-C` exists: otherwise nothing is archived.
fn check_directory(session: &Session<'_>, directory: &CStr) -> Result<(), Problem> {
    let there = session.cache.hold_operand(directory, Open::SEARCH.following(), Vec::new());
    let cannot_open = |cause| Problem::new(TarKind::CannotOpen).naming(directory.to_bytes()).because(cause);
    there.map(drop).map_err(cannot_open)
}

/// Makes an operand. Trailing slashes mean nothing, as in GNU tar: a link is archived as a link.
fn operand(
    session: &Session<'_>,
    named: &TarOperand,
    options: &Options,
) -> Result<Operand<Arc<DirectoryListing>>, Problem> {
    let whole = c_string(without_slashes(named.name.to_bytes()));
    let split = Split::of(&whole);
    let (path, name) = (path_of(named, split.display), c_string(split.name));
    let cannot_stat = |cause| Problem::new(TarKind::CannotStat).naming(named.name.to_bytes()).because(cause);
    let place = session
        .cache
        .hold_operand(&path, Open::SEARCH.following(), split.display.to_vec())
        .map_err(cannot_stat)?;
    let directory = session.cache.open(&place).map_err(cannot_stat)?;
    stat_path(Some(&*directory), &name, options.links == Links::Followed).map_err(cannot_stat)?;
    let parent = DirectoryListing {
        no_recursion: named.no_recursion,
        ..DirectoryListing::operand_parent(split.display)
    };
    Ok(Operand::named(place, &name, Arc::new(parent)))
}

/// Returns the path of the directory that contains a name.
fn path_of(named: &TarOperand, display: &[u8]) -> CString {
    let path = match &named.directory {
        _ if display.starts_with(b"/") => display.to_vec(),
        Some(directory) => [directory.to_bytes(), b"/", display].concat(),
        None if display.is_empty() => b".".to_vec(),
        None => display.to_vec(),
    };
    c_string(&path)
}

/// Makes a C string from parts of C strings, which contain no NUL.
fn c_string(bytes: &[u8]) -> CString {
    CString::new(bytes).unwrap_or_default()
}
