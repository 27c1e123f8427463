//! Sources that can't be opened, some of which needn't be.

use haul_flow::Reported;
use haul_sys::{FileType, Stat};

use super::entry_copy::EntryCopy;
use super::links::{self, NameClaim};
use super::options::Update;
use super::place::{self, Foreseen};
use super::regular;

/// Called when a source can't be opened. GNU cp opens it only after checking the target and
/// printing the `--verbose` line; rsync prints no line.
pub(super) fn not_opened(copy: EntryCopy<'_>) -> Reported {
    let refusal = match copy.stat_source() {
        Ok(stat) => match leave_unopened(copy, &stat) {
            Reported::No => place::refuses(copy, &stat),
            reported => return reported,
        },
        // GNU looks at a source before anything else. Below a directory that may be listed but not
        // searched, that is what fails.
        Err(cause) => Some(copy.cannot_stat_source(cause)),
    };
    match refusal {
        Some(problem) => {
            copy.cx.problem(problem);
            Reported::Yes
        }
        None => {
            if !copy.options.existing.update.syncs() {
                copy.print_copied();
            }
            Reported::No
        }
    }
}

/// Leaves the target of a file that can't be opened, if nothing has to be copied. For files with
/// one name, `place::leaves` has decided that; the other names of this one wait for the outcome.
fn leave_unopened(copy: EntryCopy<'_>, source: &Stat) -> Reported {
    let existing = &copy.options.existing;
    if existing.update == Update::All || existing.ask || source.kind != FileType::Regular {
        return Reported::No;
    }
    let link = match links::claim(copy, source) {
        NameClaim::First(link) => link,
        NameClaim::Waits => return Reported::Deferred,
        NameClaim::Over => return Reported::Yes,
    };
    match place::foresee(copy, source) {
        Ok(Foreseen::Left(left)) => {
            regular::end_left(copy, source, left, link);
            Reported::Yes
        }
        _ => {
            links::abandon(copy, link);
            Reported::No
        }
    }
}
