//! Large files in a run of parts: led by the process that meets them, moved in pieces by any.
//!
//! ```text
//! leader:  open, look ─► tool makes the target ─► begun(ticket) ····· pieces are over ─► tool finishes ─► closed: over
//! member:  open, look ─► tool joins by the ticket ─► moves the piece ─► closes both ─► done
//! ```
//!
//! Both keep to the states of `file.rs`: a leader's file has no lane, and a member's no beginning and no end.

use std::ops::Range;
use std::sync::Arc;

use haul_sys::{Advice, Stat, advise};

use super::Job;
use super::file::Looked;
use super::lane::Lane;
use super::worker::Worker;
use crate::node::Found;
use crate::part::LargeFile;
use crate::plan;
use crate::report::{Problem, Tally};
use crate::tool::{Holes, OpenFile, OpenedFile, Role, Tool, Transfer};
use crate::wording;

/// The least that a worker of a member moves of a piece: a stripe, as parallel file systems usually have them.
const SHARE_BYTES_MIN: u64 = 1 << 20;

impl<T: Tool> Worker<'_, T> {
    /// Says whether this process does a file by itself.
    pub(super) fn role(&self, stat: &Stat, transfer: Transfer) -> Role {
        let cuttable = matches!(transfer, Transfer::Blocks(Holes::Read) | Transfer::Kernel(Holes::Read));
        let outlet = self.desk.run.outlet.filter(|_| cuttable);
        outlet.and_then(|outlet| outlet.large(stat)).map_or(Role::Whole, Role::Leader)
    }

    /// Announces a large file whose target is made, and takes its entry out of its part. Returns whether it did: if not, this
    /// process does the file by itself after all.
    pub(super) fn leads(&self, file: &mut Arc<OpenFile<T>>, transfer: Transfer) -> bool {
        let (Role::Leader(number), Some(outlet)) = (file.role, self.desk.run.outlet) else { return false };
        let tool = self.desk.tool();
        // On one target several would only be in each other's way.
        let is_striped = tool.striping(file).is_none_or(|striping| striping.stripes != 1);
        let Some(ticket) = tool.ticket(file).filter(|_| is_striped) else {
            if let Some(file) = Arc::get_mut(file) {
                file.role = Role::Whole;
            }
            return false;
        };
        // Before it leaves its part: whoever hears that the part is done must know of it.
        outlet.begun(tool, number, LargeFile { file: Arc::clone(file), transfer, ticket });
        self.desk.set_apart(&file.found, number);
        true
    }

    /// Ends a large file that this process led.
    pub(super) fn large_is_over(&self, found: &Found<T>, number: u64, moved: bool) {
        self.desk.count(Tally { finished: 1, ..Tally::default() });
        self.desk.flush();
        if let Some(outlet) = self.desk.run.outlet {
            outlet.over(&self.desk, found, number, moved);
        }
    }

    /// Begins a piece of a file that another process leads.
    pub(super) fn join(&mut self, slot: usize, look: Looked<T>) {
        let Looked { found, source, stat } = look;
        let Some(piece) = found.node.piece().cloned() else { return self.abandon(slot, found, source) };
        if stat.size != piece.size {
            self.desk.problem(Problem::new(wording::REPLACED).naming(found.path()));
            return self.abandon(slot, found, source);
        }
        let opened = OpenedFile { source: &source, stat: &stat, first: None };
        let joined = self.desk.tool().join(&self.desk, &found, &opened, &piece.ticket);
        let Some((own, target)) = joined else { return self.abandon(slot, found, source) };
        // Only advice: reading ahead of a piece is reading what others read, and its parts are read at once anyway.
        advise(&source, Advice::Random, 0).unwrap_or_default();
        let how = if piece.by_kernel { Transfer::Kernel(Holes::Read) } else { Transfer::Blocks(Holes::Read) };
        let (transfer, route) = self.route_of(&found, (&source, &target), how);
        let file = OpenFile::new(found, source, stat, Some(target), own, (route, Role::Member));
        let lane = self.share_piece(Arc::new(file), piece.range, transfer);
        self.move_range(slot, lane, None);
    }

    /// Cuts a piece for the workers of this process, so that one reads while another writes, and returns the lane of the
    /// first part.
    fn share_piece(&self, file: Arc<OpenFile<T>>, piece: Range<u64>, transfer: Transfer) -> Lane<T> {
        let length = piece.end - piece.start;
        let share = (length / self.desk.run.settings.jobs.max(1) as u64).max(SHARE_BYTES_MIN);
        let mut shares = plan::ranges(length, share, SHARE_BYTES_MIN)
            .map(|range| piece.start + range.start..piece.start + range.end);
        let first = shares.next().unwrap_or(piece.clone());
        for share in shares {
            self.desk.share(Job::Range(Arc::clone(&file), share, transfer));
        }
        Lane::new(file, first, transfer)
    }

    /// Tells whether a member has found all bytes of its piece; if not, the file has become shorter, and that is told.
    pub(super) fn is_all_there(&self, file: &OpenFile<T>) -> bool {
        let Some(piece) = file.found.node.piece() else { return true };
        let whole = !file.has_failed() && file.length() >= piece.range.end;
        if !whole && file.fail() {
            self.desk.problem(Problem::new(wording::SHORTER).naming(file.found.path()));
        }
        whole
    }
}
