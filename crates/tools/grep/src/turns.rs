//! Scheduling: large files are searched one at a time, and operands in order.
//!
//! A large file whose turn has not come is closed and queued by name, and reopened later. If
//! standard input is named several times, its readers run in operand order, and later ones read
//! what is left. Under `-q`, inputs that may never end wait until all earlier operands are
//! complete, and so do problem reports.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use haul_flow::{Entry, Problem, lock};

use super::Grep;
use super::options::ResultOrder;

pub(super) struct Turns {
    order: ResultOrder,
    state: Mutex<TurnState>,
}

#[derive(Default)]
struct TurnState {
    waiting: Vec<Entry<Grep>>,
    /// True while a large file is being searched or is about to be.
    busy: bool,
    /// The file that was given the turn and is being reopened.
    given: Option<Entry<Grep>>,
    /// Index of the first operand that is not complete.
    index: usize,
    /// Completed operands after `index`.
    over: BTreeSet<usize>,
    /// Entries that wait until all earlier operands are complete.
    held: Vec<Entry<Grep>>,
    /// Problems that wait likewise, with their operands.
    problems: Vec<(usize, Problem)>,
}

/// Entries and problems that become ready when an operand completes.
#[derive(Default)]
pub(super) struct CompletedOperand {
    pub(super) next: Vec<Entry<Grep>>,
    /// Problems to report, with their operands.
    pub(super) problems: Vec<(usize, Problem)>,
}

impl Turns {
    pub(super) fn new(order: ResultOrder) -> Self {
        Self { order, state: Mutex::default() }
    }

    /// Returns true if a large file may begin; otherwise queues it.
    pub(super) fn begins(&self, entry: &Entry<Grep>) -> bool {
        let mut state = lock(&self.state);
        if state.is_given_to(entry) {
            state.given = None;
            return true;
        }
        if state.busy || !self.is_next(&state, entry) {
            state.waiting.push(entry.clone());
            return false;
        }
        state.busy = true;
        true
    }

    /// Called when a file is not searched as a large one after all. If it held the turn, passes it
    /// on and returns the new holder.
    pub(super) fn not_begun(&self, entry: &Entry<Grep>) -> Option<Entry<Grep>> {
        let mut state = lock(&self.state);
        if !state.is_given_to(entry) {
            return None;
        }
        state.given = None;
        state.busy = false;
        self.give(&mut state)
    }

    /// Called when a large file is complete. Returns the next one.
    pub(super) fn over(&self) -> Option<Entry<Grep>> {
        let mut state = lock(&self.state);
        state.busy = false;
        self.give(&mut state)
    }

    /// Returns true if all earlier operands are complete; otherwise holds the entry until they are.
    pub(super) fn comes_next(&self, entry: &Entry<Grep>) -> bool {
        let mut state = lock(&self.state);
        let is_next = entry.node.own.index <= state.index;
        if !is_next {
            state.held.push(entry.clone());
        }
        is_next
    }

    /// Returns the problem if all earlier operands are complete; otherwise holds it until they are.
    pub(super) fn reports_now(&self, index: usize, problem: Problem) -> Option<Problem> {
        let mut state = lock(&self.state);
        if index <= state.index {
            return Some(problem);
        }
        state.problems.push((index, problem));
        None
    }

    /// Called when everything below an operand is complete. Returns what becomes ready.
    pub(super) fn end(&self, index: usize) -> CompletedOperand {
        let mut state = lock(&self.state);
        state.over.insert(index);
        while {
            let next = state.index;
            state.over.remove(&next)
        } {
            state.index += 1;
        }
        let index = state.index;
        let is_held_no_more = |entry: &mut Entry<Grep>| entry.node.own.index <= index;
        let mut next: Vec<_> = state.held.extract_if(.., is_held_no_more).collect();
        let problems = state.problems.extract_if(.., |(of, _)| *of <= index).collect();
        next.extend(self.give(&mut state));
        CompletedOperand { next, problems }
    }

    fn is_next(&self, state: &TurnState, entry: &Entry<Grep>) -> bool {
        // A rank can't know which operands are complete elsewhere, so it doesn't wait.
        self.order != ResultOrder::Named || entry.node.owner.is_some() || entry.node.own.index == state.index
    }

    fn give(&self, state: &mut TurnState) -> Option<Entry<Grep>> {
        if state.busy {
            return None;
        }
        let at = state.waiting.iter().position(|entry| self.is_next(state, entry))?;
        let entry = state.waiting.remove(at);
        state.busy = true;
        state.given = Some(entry.clone());
        Some(entry)
    }
}

impl TurnState {
    fn is_given_to(&self, entry: &Entry<Grep>) -> bool {
        self.given
            .as_ref()
            .is_some_and(|given| Arc::ptr_eq(&given.node, &entry.node) && given.name() == entry.name())
    }
}

/// Schedules the readers of standard input.
#[derive(Default)]
pub(super) struct Inputs(Mutex<Readers>);

#[derive(Default)]
struct Readers {
    /// Operands that have yet to be read, in order.
    order: VecDeque<usize>,
    waiting: Vec<Entry<Grep>>,
}

impl Inputs {
    /// Records that an operand is standard input.
    pub(super) fn named(&self, index: usize) {
        lock(&self.0).order.push_back(index);
    }

    /// Returns true if this reader is next; otherwise queues it.
    pub(super) fn begins(&self, entry: &Entry<Grep>) -> bool {
        let mut readers = lock(&self.0);
        let is_first = readers.order.front() == Some(&entry.node.own.index);
        if !is_first {
            readers.waiting.push(entry.clone());
        }
        is_first
    }

    /// Called when a reader is done. Returns the next one, if it is waiting.
    pub(super) fn over(&self) -> Option<Entry<Grep>> {
        let mut readers = lock(&self.0);
        readers.order.pop_front();
        let next = *readers.order.front()?;
        let at = readers.waiting.iter().position(|entry| entry.node.own.index == next)?;
        Some(readers.waiting.swap_remove(at))
    }
}
