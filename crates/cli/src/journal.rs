//! `--resume` and `--journal`: finds the journal of a copy, continues from its records, and removes
//! or keeps it at the end.
//!
//! The journal of `--resume` is a hidden file in the directory the copy goes to: the target
//! directory if that was there when the copy began, otherwise the directory above. A fingerprint of
//! the command is part of its name, so two copies to one directory have two journals.

use std::ffi::OsStr;
use std::hash::{Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_cluster::batch::job_directory::JobDirectory;
use haul_copy::{Atomic, CopyKind, CopyOptions, Fsync, OnFull, Operands, TemporaryNames, Update};
use haul_flow::{Problem, Reporter};
use haul_journal::{Journal, RunId};
use xxhash_rust::xxh3::Xxh3;

use crate::cluster::{is_under_launcher, prints_messages};
use crate::flags::{LoweredCopy, StatisticsForm};
use crate::messages;
use crate::report::Console;

/// Opens the journal of a copy, if it has one: the user's, or that of the batch job this process
/// runs in.
pub(crate) fn open(request: &LoweredCopy) -> Result<Option<Arc<Journal>>, String> {
    if !prints_messages() {
        return Ok(None);
    }
    let LoweredCopy { operands, run, resume, .. } = request;
    let has_ranks = run.hosts.clients.is_some() || is_under_launcher();
    // A requeued job's manifest would lack the hashes of the files that it skips.
    let is_kept = has_ranks && request.manifest.is_none() && !request.options.dry_run;
    let of_job =
        || is_kept.then(JobDirectory::of_process).flatten().map(|job_directory| job_directory.journal());
    let hidden = resume.then(|| hidden_path(operands, fingerprint(request))).flatten();
    let given = run.hosts.journal.clone();
    let Some(path) = hidden.clone().or(given).or_else(of_job) else { return Ok(None) };
    let fingerprint = fingerprint(request);
    let note = u8::from(copies_to_a_name(operands));
    let open = if hidden.is_some() { Journal::open_private } else { Journal::open };
    let journal = open(&path, fingerprint, note);
    journal.map(Arc::new).map(Some).map_err(|error| messages::cluster::journal(&path, &error))
}

/// Returns the path of the journal of `--resume`; `None` if the operands are wrong, which is
/// reported later.
fn hidden_path(operands: &Operands, fingerprint: u64) -> Option<PathBuf> {
    let target = match (&operands.target_directory, operands.names.as_slice()) {
        (Some(target), [_, ..]) => target,
        (None, [_, .., target]) => target,
        _ => return None,
    };
    let target = Path::new(OsStr::from_bytes(target.to_bytes()));
    let name = format!("{}resume-{fingerprint:016x}", haul_sys::TEMPORARY_PREFIX);
    let above = target.parent().map(|above| above.join(&name));
    match target.is_dir() {
        // A target that the interrupted run has made has its journal above.
        true => Some(above.filter(|above| above.exists()).unwrap_or_else(|| target.join(&name))),
        false => above,
    }
}

/// Returns a hash that identifies a copy: operands, current directory and options.
fn fingerprint(request: &LoweredCopy) -> u64 {
    let directory = std::env::current_dir().unwrap_or_default();
    let LoweredCopy { operands, options, .. } = request;
    // These don't change the copies.
    let on_full = OnFull::Stop;
    let options = CopyOptions { verbose: false, itemize: false, debug: false, on_full, ..options.clone() };
    let mut hasher = Xxh3::new();
    format!("{directory:?} {operands:?} {options:?}").hash(&mut hasher);
    hasher.finish()
}

/// True if the second of two names is the copy's own name because no directory has it. When the
/// copy is resumed a directory has it, and the name is still the copy's.
fn copies_to_a_name(operands: &Operands) -> bool {
    match (operands.names.as_slice(), &operands.target_directory) {
        ([_, target], None) => !Path::new(OsStr::from_bytes(target.to_bytes())).is_dir(),
        _ => false,
    }
}

/// Adapts a request to the run that its journal records.
pub(crate) fn resumed_request(request: &LoweredCopy, journal: Option<&Journal>) -> LoweredCopy {
    let mut request = request.clone();
    let Some(journal) = journal else { return request };
    let RunId { number, epoch } = journal.run();
    request.options.temporary_names = Some(TemporaryNames { number, epoch });
    request.operands.no_target_directory |= journal.note() == 1;
    if request.options.existing.update != Update::All && !request.options.attributes_only {
        // An interrupted run must not leave a part under a name that the next run skips.
        request.options.atomic = Atomic::Always;
        if request.options.fsync == Fsync::Never {
            request.options.fsync = Fsync::End;
        }
    }
    request
}

/// Reports irregularities of a journal that was opened.
pub(crate) fn remark(journal: &Journal, console: &Console) {
    if let Some(error) = journal.not_locked() {
        console.remark(&format!(
            "warning: the journal cannot be locked ({error}): make sure that no other run uses it"
        ));
    }
    if journal.cut_off() > 0 {
        console.remark(&format!(
            "warning: the last {} bytes of the journal {} were damaged; what they recorded is copied again",
            journal.cut_off(),
            journal.path().display()
        ));
    }
}

/// Ends a run with a journal. Returns false if the journal lacks something, which is reported.
pub(crate) fn finish(journal: &Journal, request: &LoweredCopy, succeeded: bool, console: &Console) -> bool {
    if succeeded {
        journal.complete();
    }
    journal.flush();
    let failed = |kind, cause: String| {
        let path = journal.path().as_os_str().as_bytes();
        console.problem(Problem::new(kind).naming(path).naming(cause));
        false
    };
    let is_written = match journal.take_failure() {
        Some(error) => failed(CopyKind::JournalLost, error.to_string()),
        None => true,
    };
    let (tally, _) = console.counted();
    let copied = tally.files + tally.symlinks + tally.specials + tally.hard_links;
    // Programs read the JSON object on standard output.
    let is_for_people = request.run.statistics != Some(StatisticsForm::Json);
    if succeeded && copied == 0 && tally.unchanged > 0 && is_for_people {
        let entries = match tally.unchanged {
            1 => "the one entry is".to_owned(),
            many => format!("all {many} entries are"),
        };
        let journal = journal.path().display();
        console.print(format!("nothing to copy: {entries} as recorded in {journal}\n").as_bytes());
    }
    // The journal of a run that never began is of no use either. A target that couldn't be
    // recorded, because it has no birth time, is known by the note: it is the copy itself.
    let has_target = || journal.note() == 1 && !copies_to_a_name(&request.operands);
    if request.resume
        && (succeeded || !journal.has_work() && !has_target())
        && let Err(error) = journal.remove()
    {
        return failed(CopyKind::JournalLeft, error.to_string());
    }
    is_written
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::fs;

    use super::*;

    fn operands(names: &[&Path]) -> Operands {
        let name = |path: &&Path| CString::new(path.as_os_str().as_bytes()).unwrap();
        Operands { names: names.iter().map(name).collect(), ..Operands::default() }
    }

    #[test]
    fn the_hidden_journal_is_found_again_in_the_directory_that_was_there_first() {
        let folder = tempfile::tempdir().unwrap();
        let (source, target) = (folder.path().join("source"), folder.path().join("target"));
        let copy = operands(&[&source, &target]);
        let above = hidden_path(&copy, 7).unwrap();
        assert_eq!(above.parent(), Some(folder.path()));
        assert!(copies_to_a_name(&copy));
        fs::write(&above, "").unwrap();
        // The interrupted run has made the target.
        fs::create_dir(&target).unwrap();
        assert_eq!(hidden_path(&copy, 7), Some(above));
        let inside = hidden_path(&copy, 8).unwrap();
        assert_eq!(inside.parent(), Some(&*target));
        assert!(inside.file_name().unwrap().to_str().unwrap().starts_with(".haul-"));
        assert_eq!(hidden_path(&operands(&[&source]), 7), None);
        let relative = hidden_path(&operands(&[&source, Path::new("nothing-here")]), 7).unwrap();
        assert_eq!(relative.parent(), Some(Path::new("")));
    }
}
