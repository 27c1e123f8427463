//! Sentences of `haul each`.

use haul_each::EachKind;
use haul_flow::FlowKind;

use super::flow;

sentences! { sentence(EachKind):
    CannotRun => "cannot run {}",
    CannotRunFor => "cannot run {} for {}",
    OthersNotRun => "skipping the remaining commands",
    CommandLost => "cannot read the output of the command for {}",
    Failed => "{plain}: exit status {bare}",
    Signalled => "{plain}: ended by signal {bare}",
    NotStarted => "{plain}: not started",
    Summary => "{bare} of {bare} commands failed:",
    More => "and {bare} more",
    BadPattern => "invalid pattern {}",
    CannotStat => "cannot stat {}",
    ErrorReading => "error reading {}",
    FailedToClose => "failed to close {}",
    BadResult => "cannot read the result of the command for {}",
}

/// Returns the sentence for a kind of the framework's.
pub(crate) fn of_flow(kind: FlowKind) -> &'static str {
    match kind {
        FlowKind::Replaced => "{} was replaced while it was being examined",
        other => flow::sentence(other),
    }
}
