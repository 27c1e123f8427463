//! The order in which results come: whole for each file, as they are found, as the files were named, or sorted.
//!
//! What cannot be output yet is kept: some MiB in memory, more in a file without a name (`spill.rs`). So what grows with the
//! number of files is only what is known of each that waits, a path and some words; and while nothing waits, nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use haul_flow::{Problem, Report};
use haul_sys::Standard;

use super::options::Order;
use super::spill::{Spill, Waits};
use super::wording;

/// What was found in a file, or some of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Result {
    /// Lines were selected.
    pub(super) matched: bool,
    /// Some of them are not shown, as they are no text, which is to be told.
    pub(super) hidden: bool,
    /// More comes.
    pub(super) more: bool,
    /// It begins where the lines of another file may have ended, from which it is to be set apart.
    pub(super) apart: bool,
    /// What is output.
    pub(super) out: Vec<u8>,
}

impl Result {
    /// Packs it for [`haul_flow::Desk::tell`].
    pub(super) fn pack(mut self) -> Vec<u8> {
        let flags = [self.matched, self.hidden, self.more, self.apart];
        self.out.push(flags.iter().rev().fold(0, |byte, flag| byte << 1 | u8::from(*flag)));
        self.out
    }

    /// Unpacks it.
    pub(super) fn unpack(packed: &[u8]) -> Option<Self> {
        let (flags, out) = packed.split_last()?;
        let flag = |number: u8| flags >> number & 1 != 0;
        let out = out.to_vec();
        Some(Self { matched: flag(0), hidden: flag(1), more: flag(2), apart: flag(3), out })
    }
}

/// Where results go.
pub(super) struct Output {
    order: Order,
    separator: Vec<u8>,
    state: Mutex<State>,
}

/// The place of a file among the others: the number of what the user named, and the path split at its slashes.
type Key = (usize, Vec<Vec<u8>>);

/// A result without its output, and where that waits.
type Piece = (Result, Waits);

#[derive(Default)]
struct State {
    /// Results that wait, in pieces.
    waiting: BTreeMap<Key, Vec<Piece>>,
    spill: Spill,
    /// What the user named that is next.
    turn: usize,
    /// The file of which more comes.
    open: Option<Key>,
    /// What the user named that is over before its turn.
    over: BTreeSet<usize>,
    /// Whether lines were selected before.
    used: bool,
}

impl Output {
    /// Makes the order; `separator` is what sets files apart, if anything does.
    pub(super) fn new(order: Order, separator: Vec<u8>) -> Self {
        Self { order, separator, state: Mutex::default() }
    }

    /// Takes the result of a file, or a piece of it, below the `index`-th of what the user named.
    pub(super) fn take(&self, report: &dyn Report, (index, path): (usize, &[u8]), mut result: Result) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_next = match (self.order, &state.open) {
            (Order::Path, _) => false,
            (Order::Named, _) if index != state.turn => false,
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
        if self.order == Order::Found {
            self.write_waiting(&mut state, report);
        }
    }

    /// Hears that all below the `index`-th of what the user named is over.
    pub(super) fn end(&self, report: &dyn Report, index: usize) {
        if self.order != Order::Named {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.over.insert(index);
        while {
            let turn = state.turn;
            state.over.remove(&turn)
        } {
            state.turn += 1;
            self.write_waiting(&mut state, report);
        }
    }

    /// Outputs everything that waits.
    pub(super) fn finish(&self, report: &dyn Report) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((key, pieces)) = state.waiting.pop_first() {
            self.write_pieces(&mut state, report, &key, pieces);
        }
    }

    /// Outputs what waits and whose turn it is, until a file comes of which there will be more.
    fn write_waiting(&self, state: &mut State, report: &dyn Report) {
        while state.open.is_none() {
            let turns = match self.order {
                Order::Found => 0..usize::MAX,
                Order::Named | Order::Path => state.turn..state.turn + 1,
            };
            let has_ended = |pieces: &[Piece]| pieces.last().is_some_and(|(piece, _)| !piece.more);
            let mut next = state.waiting.range((turns.start, Vec::new())..(turns.end, Vec::new()));
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

    /// Writes what has waited of a file.
    fn write_pieces(&self, state: &mut State, report: &dyn Report, key: &Key, pieces: Vec<Piece>) {
        let path = key.1.join(&b'/');
        for (mut piece, waits) in pieces {
            match state.spill.take(waits) {
                Ok(out) => {
                    piece.out = out;
                    self.write(state, report, &path, &piece);
                }
                Err(cause) => {
                    report.problem(Problem::new(wording::RESULT_LOST).naming(path.clone()).because(cause));
                }
            }
        }
    }

    /// Writes a result; where context is shown, the lines of files are set apart.
    fn write(&self, state: &mut State, report: &dyn Report, path: &[u8], result: &Result) {
        if result.apart && state.used && !self.separator.is_empty() {
            report.output(Standard::Output, &[&self.separator, result.out.as_slice()].concat());
        } else if !result.out.is_empty() {
            report.output(Standard::Output, &result.out);
        }
        // Under `-I` lines may have been shown of a file that then turned out to have none.
        state.used |= result.matched || !result.out.is_empty();
        if result.hidden {
            report.problem(Problem::new(wording::BINARY_MATCHES).naming(path.to_vec()).as_warning());
        }
    }
}

fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/')
}
