//! Emits results in order: as found, in operand order, or sorted. Each file's result is one unit.
//!
//! Results that can't be emitted yet wait: the first few MiB in memory, the rest in an unnamed file
//! (`spill.rs`). So only a path and a few words per waiting file grow with the number of files, and
//! nothing does while nothing waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use haul_flow::{Problem, Reporter, lock};
use haul_sys::Standard;

use super::GrepKind;
use super::options::ResultOrder;
use super::spill::{Spill, WaitingResult};

/// The result of searching a file, or a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SearchResult {
    pub(super) matched: bool,
    /// True if some of them are binary and not shown, which must be reported.
    pub(super) hidden: bool,
    /// True if more of this file's result follows.
    pub(super) more: bool,
    /// True if it starts a group of lines with context, so that a separator may be needed
    /// before it.
    pub(super) apart: bool,
    pub(super) out: Vec<u8>,
}

impl SearchResult {
    /// Serialises the result for [`haul_flow::Context::emit`]: the output, then a byte of flags.
    pub(super) fn pack(mut self) -> Vec<u8> {
        let flags = [self.matched, self.hidden, self.more, self.apart];
        self.out.push(flags.iter().rev().fold(0, |byte, flag| byte << 1 | u8::from(*flag)));
        self.out
    }

    pub(super) fn unpack(packed: &[u8]) -> Option<Self> {
        let (flags, out) = packed.split_last()?;
        let flag = |number: u8| flags >> number & 1 != 0;
        let out = out.to_vec();
        Some(Self { matched: flag(0), hidden: flag(1), more: flag(2), apart: flag(3), out })
    }
}

/// Orders results on their way to the reporter.
pub(super) struct ResultQueue {
    order: ResultOrder,
    separator: Vec<u8>,
    state: Mutex<QueueState>,
}

/// Sort key of a file: the operand's index, and the components of the path.
type Key = (usize, Vec<Vec<u8>>);

/// A waiting result, with its output stored separately.
type Piece = (SearchResult, WaitingResult);

#[derive(Default)]
struct QueueState {
    /// Waiting results, in pieces.
    waiting: BTreeMap<Key, Vec<Piece>>,
    spill: Spill,
    /// Index of the operand whose results are emitted now.
    turn: usize,
    /// The file whose result has begun but not ended.
    open: Option<Key>,
    /// Operands completed before their turn.
    over: BTreeSet<usize>,
    /// True if lines were emitted before.
    used: bool,
}

impl ResultQueue {
    /// Creates an empty output. `separator` goes between groups of context lines; it may be empty.
    pub(super) fn new(order: ResultOrder, separator: Vec<u8>) -> Self {
        Self { order, separator, state: Mutex::default() }
    }

    /// Accepts a file's result, or a piece of it, and emits it now or when its turn comes.
    pub(super) fn take(
        &self,
        report: &dyn Reporter,
        (index, path): (usize, &[u8]),
        mut result: SearchResult,
    ) {
        let mut state = lock(&self.state);
        let is_next = match (self.order, &state.open) {
            (ResultOrder::Path, _) => false,
            (ResultOrder::Named, _) if index != state.turn => false,
            (_, None) => true,
            (_, Some((of, open))) => *of == index && open.iter().eq(components(path)),
        };
        let key = || (index, components(path).map(<[u8]>::to_vec).collect());
        if !is_next {
            let waits = state.spill.keep(std::mem::take(&mut result.out));
            return state.waiting.entry(key()).or_default().push((result, waits));
        }
        state.open = match (result.more, state.open.take()) {
            (false, _) => None,
            (true, Some(open)) => Some(open),
            (true, None) => Some(key()),
        };
        self.write(&mut state, report, path, &result);
        if self.order == ResultOrder::Entry {
            self.write_waiting(&mut state, report);
        }
    }

    /// Called when everything below an operand is complete.
    pub(super) fn end(&self, report: &dyn Reporter, index: usize) {
        if self.order != ResultOrder::Named {
            return;
        }
        let mut state = lock(&self.state);
        state.over.insert(index);
        while {
            let turn = state.turn;
            state.over.remove(&turn)
        } {
            state.turn += 1;
            self.write_waiting(&mut state, report);
        }
    }

    pub(super) fn finish(&self, report: &dyn Reporter) {
        let mut state = lock(&self.state);
        while let Some((key, pieces)) = state.waiting.pop_first() {
            self.write_pieces(&mut state, report, &key, pieces);
        }
    }

    /// Emits waiting results whose turn it is, until one has more to follow.
    fn write_waiting(&self, state: &mut QueueState, report: &dyn Reporter) {
        while state.open.is_none() {
            let turns = match self.order {
                ResultOrder::Entry => 0..usize::MAX,
                ResultOrder::Named | ResultOrder::Path => state.turn..state.turn + 1,
            };
            let has_ended = |pieces: &[Piece]| pieces.last().is_some_and(|(piece, _)| !piece.more);
            let mut next = state.waiting.range((turns.start, Vec::new())..(turns.end, Vec::new()));
            // One that is complete does not hold up others.
            let chosen = next.clone().find(|(_, pieces)| has_ended(pieces)).or_else(|| next.next());
            let Some(key) = chosen.map(|(key, _)| key.clone()) else { return };
            let pieces = state.waiting.remove(&key).unwrap_or_default();
            let has_ended = has_ended(&pieces);
            self.write_pieces(state, report, &key, pieces);
            if !has_ended {
                state.open = Some(key);
            }
        }
    }

    /// Emits all waiting pieces of a file.
    fn write_pieces(&self, state: &mut QueueState, report: &dyn Reporter, key: &Key, pieces: Vec<Piece>) {
        let path = key.1.join(&b'/');
        for (mut piece, waits) in pieces {
            match state.spill.take(waits) {
                Ok(out) => {
                    piece.out = out;
                    self.write(state, report, &path, &piece);
                }
                Err(cause) => {
                    report.problem(Problem::new(GrepKind::ResultLost).naming(path.clone()).because(cause));
                }
            }
        }
    }

    /// Emits a result, with the separator before it if needed.
    fn write(&self, state: &mut QueueState, report: &dyn Reporter, path: &[u8], result: &SearchResult) {
        if result.apart && state.used && !self.separator.is_empty() {
            report.output(Standard::Output, &[&self.separator, result.out.as_slice()].concat());
        } else if !result.out.is_empty() {
            report.output(Standard::Output, &result.out);
        }
        // Under `-I`, lines may have been shown before the file turned out to be binary.
        state.used |= result.matched || !result.out.is_empty();
        if result.hidden {
            report.problem(Problem::new(GrepKind::BinaryMatches).naming(path.to_vec()).as_warning());
        }
    }
}

fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/')
}
