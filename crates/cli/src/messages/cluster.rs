//! Sentences about runs of several processes, other than those of the kinds of `haul-cluster`.

use std::fmt::Display;
use std::path::Path;

use haul_cluster::batch::{BatchEvent, BatchOutcome, Over};
use haul_journal::JournalError;

/// A process group of `clients` processes can't be started.
pub(crate) fn not_started(clients: u32, why: &dyn Display) -> String {
    format!("cannot start {clients} clients: {why}")
}

/// The processes of a job are not known to have ended.
pub(crate) fn not_shut_down(why: &dyn Display) -> String {
    format!("the processes did not shut down cleanly: {why}")
}

/// The journal at `path` can't be used.
pub(crate) fn journal(path: &Path, error: &JournalError) -> String {
    let hint = match error {
        JournalError::OtherRelease => "; remove it to copy everything again",
        // It also recorded if the interrupted run has made the target.
        JournalError::Damaged => {
            "; remove it to copy everything again, with -T if the target directory is the copy itself"
        }
        _ => "",
    };
    format!("cannot use the journal {}: {error}{hint}", path.display())
}

/// Something happened to the batch job `job`.
pub(crate) fn event(job: &str, event: &BatchEvent) -> String {
    match event {
        BatchEvent::Submitted(job) => format!("submitted job {job}"),
        BatchEvent::Waiting(reason) => format!("job {job} is waiting: {reason}"),
        BatchEvent::Requeued(reason) => format!("job {job} was requeued and is waiting: {reason}"),
        BatchEvent::Running => format!("job {job} is running"),
        BatchEvent::Unanswered(error) => format!("cannot query job {job}, trying again: {error}"),
        BatchEvent::Cancelling => format!("cancelling job {job}"),
        BatchEvent::NotCancelled(error) => format!("cannot cancel job {job}, trying again: {error}"),
    }
}

/// Message about the end of a batch job; `None` if its command's exit status is enough.
pub(crate) fn outcome(outcome: &BatchOutcome) -> Option<String> {
    Some(match outcome {
        BatchOutcome::Finished(_) => return None,
        BatchOutcome::GivenUp { job, job_directory, .. } => {
            format!("job {job} gave up; {}", resume(job_directory))
        }
        BatchOutcome::Lost { job, over, job_directory } => {
            format!("job {job} {}; {}", ended(over), resume(job_directory))
        }
        BatchOutcome::Interrupted { job, gone: true, .. } => format!("job {job} was cancelled"),
        BatchOutcome::Interrupted { job, gone: false, .. } => {
            format!("cannot confirm that job {job} was cancelled; it may still be running")
        }
    })
}

fn ended(over: &Over) -> String {
    match over {
        Over::Well => "ended without a result".to_owned(),
        Over::Cancelled => "was cancelled".to_owned(),
        Over::TimedOut => "took longer than its walltime".to_owned(),
        Over::HostFailed => "lost a host".to_owned(),
        Over::Failed(how) => format!("failed: {how}"),
    }
}

/// Hint for resuming a copy that a job did not finish. A job has no journal if it never began, or
/// writes a manifest.
fn resume(job_directory: &Path) -> String {
    let journal = job_directory.join("journal");
    match journal.exists() {
        true => format!("to resume, add --journal={}", journal.display()),
        false => format!("nothing can be resumed; its log is in {}", job_directory.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_job_says_how_to_resume() {
        let folder = tempfile::tempdir().unwrap();
        let (job_directory, journal) = (folder.path(), folder.path().join("journal"));
        let lost =
            |over| BatchOutcome::Lost { job: "7".to_owned(), over, job_directory: job_directory.to_owned() };
        let text = |over| outcome(&lost(over)).unwrap_or_default();
        let log =
            format!("job 7 was cancelled; nothing can be resumed; its log is in {}", job_directory.display());
        assert_eq!(text(Over::Cancelled), log);
        std::fs::write(&journal, "").unwrap();
        let hint = format!("to resume, add --journal={}", journal.display());
        assert_eq!(text(Over::Cancelled), format!("job 7 was cancelled; {hint}"));
        assert_eq!(text(Over::Failed("x".to_owned())), format!("job 7 failed: x; {hint}"));
        assert_eq!(outcome(&BatchOutcome::Finished(3)), None);
    }

    #[test]
    fn only_a_journal_that_no_run_can_use_is_to_be_removed() {
        let text = |error| journal(Path::new("j"), &error);
        assert_eq!(text(JournalError::NoJournal), "cannot use the journal j: it is not a journal");
        assert!(text(JournalError::OtherRelease).ends_with("; remove it to copy everything again"));
        assert!(text(JournalError::Damaged).contains("; remove it to copy everything again, with -T"));
    }
}
