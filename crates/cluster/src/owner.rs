//! A part as the owner of its entries: what differs on a rank from a run on one machine.
//!
//! A large file is led by the process that meets it and moved in pieces by any:
//!
//! ```text
//! leader:  open, look ─► tool makes the target ─► begun(ticket) ····· pieces are over ─► tool finishes ─► closed: over
//! member:  open, look ─► tool joins by the ticket ─► moves the piece ─► closes both ─► done
//! ```

use std::any::Any;
use std::sync::Arc;

use haul_flow::{
    Desk, Failure, FileRange, Found, Holes, Node, OpenFile, OpenedDir, OpenedFile, Problem, RootOwner, Share,
    Tally, Transfer, Wording, wording,
};
use haul_sys::synchronize;

use crate::distributed::{Distributed, Joined};
use crate::entered::{self, Elsewhere};
use crate::part::{LargeFile, Part, Piece};

/// Maximum size of the results of a part together, in bytes: it is reported in one message.
const EMITTED_BYTES_MAX: usize = 64 << 20;

/// What was found out about an entry on another host is too long to be sent.
const RESULT_TOO_LONG: Wording = Wording("the output for {} is too long to be sent from one host to another");

impl<T: Distributed + 'static> RootOwner<T> for Part<T> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn is_operands_place(&self) -> bool {
        self.errand.operands
    }

    fn complete(&self, desk: &Desk<'_, T>, root: &Arc<Node<T>>) {
        desk.tool().finish_part(desk, root);
        match self.errand.stamps {
            Some(_) => self.outlet.seal(desk, root),
            None => self.outlet.done(self),
        }
    }

    fn problem(&self, problem: Problem) -> Option<Problem> {
        self.outlet.note(self.key(), problem);
        None
    }

    /// An entry whose result is too long is handed back, with nothing emitted, if the tool can do it again; if not, that is an
    /// error.
    fn emit(&self, desk: &Desk<'_, T>, found: &Found<T>, result: Vec<u8>) {
        let mut is_lost = false;
        self.change(|outcome| {
            let name = found.name();
            if outcome.returned.iter().any(|returned| returned.as_c_str() == name) {
                return;
            }
            let before: usize = outcome.told.iter().map(|(_, result)| result.len()).sum();
            if before + result.len() <= EMITTED_BYTES_MAX {
                outcome.told.push((name.to_owned(), result));
            } else if desk.tool().can_do_again(found) {
                outcome.told.retain(|(of, _)| of.as_c_str() != name);
                outcome.returned.push(name.to_owned());
            } else {
                is_lost = true;
            }
        });
        if is_lost {
            desk.problem(Problem::new(RESULT_TOO_LONG).naming(found.path()));
        }
    }

    fn hand_back(&self, desk: &Desk<'_, T>, found: &Found<T>) -> bool {
        if self.errand.claimed {
            return false;
        }
        self.give_back(desk, found);
        true
    }

    fn note_linkable(&self, found: &Found<T>) {
        self.change(|outcome| outcome.completed.push(found.name().to_owned()));
    }

    fn enter_dir(&self, desk: &Desk<'_, T>, found: &Found<T>, opened: &OpenedDir<'_>) {
        match entered::enter(desk, found, opened) {
            Elsewhere::Entered(entered) => self.change(|outcome| outcome.entered.push(*entered)),
            Elsewhere::Returned => return self.give_back(desk, found),
            Elsewhere::Over => {}
        }
        desk.release(&found.node);
    }

    fn open_file(&self, desk: &Desk<'_, T>, found: &Found<T>, opened: &OpenedFile<'_>) -> Share<T::File> {
        let Some(Piece { range, size, by_kernel, ticket }) = &self.errand.piece else { return Share::Whole };
        if opened.stat.size != *size {
            desk.problem(Problem::new(wording::REPLACED).naming(found.path()));
            return Share::Nothing;
        }
        let joined = desk.tool().join(desk, found, opened, ticket);
        let Some(Joined { own, target, inspect }) = joined else { return Share::Nothing };
        let transfer = if *by_kernel { Transfer::Kernel(Holes::Read) } else { Transfer::Blocks(Holes::Read) };
        Share::Range(FileRange { own, target, range: range.clone(), transfer, inspect })
    }

    /// Announces a large file whose target is made, and takes its entry out of the part.
    fn detach(&self, desk: &Desk<'_, T>, file: &Arc<OpenFile<T>>, transfer: Transfer) -> bool {
        if !matches!(transfer, Transfer::Blocks(Holes::Read) | Transfer::Kernel(Holes::Read)) {
            return false;
        }
        let Some(number) = self.outlet.large(&file.stat) else { return false };
        let tool = desk.tool();
        // On one target several would only be in each other's way.
        let is_striped = tool.striping(file).is_none_or(|striping| striping.stripes != 1);
        let Some(ticket) = tool.ticket(file).filter(|_| is_striped) else { return false };
        let name = file.found.name().to_owned();
        self.change(|outcome| outcome.apart.push((name, number)));
        // Before it leaves its part: whoever hears that the part is done must know of it.
        self.outlet.begun(tool, number, LargeFile { file: Arc::clone(file), transfer, ticket });
        desk.release(&file.found.node);
        true
    }

    fn finish_file(&self, desk: &Desk<'_, T>, file: &OpenFile<T>) -> bool {
        let piece = self.errand.piece.as_ref();
        let is_shared = piece.is_some() || self.apart(file.found.name()).is_some();
        if self.outlet.flushes()
            && is_shared
            && let Some(target) = &file.target
            && let Err(cause) = synchronize(&**target)
            && file.fail()
        {
            // What a journal says was moved must outlive the host.
            desk.report_failure(&file.found, Failure::WriteTarget(&cause));
        }
        let Some(piece) = piece else { return !file.has_failed() && desk.tool().finish_file(desk, file) };
        let is_whole = !file.has_failed() && file.length() >= piece.range.end;
        if !is_whole && file.fail() {
            desk.problem(Problem::new(wording::SHORTER).naming(file.found.path()));
        }
        is_whole
    }

    fn close_file(&self, desk: &Desk<'_, T>, found: &Found<T>, own: T::File, moved: bool) {
        if self.errand.piece.is_some() {
            if moved {
                self.note_moved();
            }
            return desk.settle(found);
        }
        desk.tool().close_file(desk, found, own, moved);
        let Some(number) = self.apart(found.name()) else { return desk.settle(found) };
        desk.count(Tally { finished: 1, ..Tally::default() });
        desk.flush();
        self.outlet.over(desk, found, number, moved);
    }
}

impl<T: Distributed> Part<T> {
    fn give_back(&self, desk: &Desk<'_, T>, found: &Found<T>) {
        self.change(|outcome| outcome.returned.push(found.name().to_owned()));
        desk.release(&found.node);
    }
}
