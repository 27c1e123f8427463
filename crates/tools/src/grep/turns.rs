//! Whose turn it is: large files are searched one at a time, and named ones in the order in which they were named.
//!
//! A large file whose turn it is not is closed and kept by name; when its turn comes it is opened anew. Standard input that was
//! named more than once is read in the order in which it was: who comes later reads what is left. Where the first selected line
//! ends the search, what may never end waits until all that was named before it is over, and so does what is to be told of it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haul_flow::{Found, Problem};

use super::Grep;
use super::options::Order;

pub(super) struct Turns {
    order: Order,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: Vec<Found<Grep>>,
    /// Whether one is being searched, or is to be.
    busy: bool,
    /// The one that is to be: it was given the turn, and is being opened.
    given: Option<Found<Grep>>,
    /// The number of what the user named that is next.
    index: usize,
    /// The numbers of others that are over.
    over: BTreeSet<usize>,
    /// Those that wait until all before them are over.
    held: Vec<Found<Grep>>,
    /// What is to be told of some of them then, with their numbers.
    problems: Vec<(usize, Problem)>,
}

/// What comes next when something that the user named is over.
#[derive(Default)]
pub(super) struct Ended {
    /// What has waited and is to be tried again.
    pub(super) next: Vec<Found<Grep>>,
    /// What can be told now, with the numbers of what it is about.
    pub(super) problems: Vec<(usize, Problem)>,
}

impl Turns {
    pub(super) fn new(order: Order) -> Self {
        Self { order, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whether a large file can begin. If not, it is kept.
    pub(super) fn begins(&self, found: &Found<Grep>) -> bool {
        let mut state = self.lock();
        if state.is_given_to(found) {
            state.given = None;
            return true;
        }
        if state.busy || !self.is_next(&state, found) {
            state.waiting.push(found.clone());
            return false;
        }
        state.busy = true;
        true
    }

    /// Hears that a file is not searched as a large one. Returns the one whose turn it is, if the turn was this file's.
    pub(super) fn not_begun(&self, found: &Found<Grep>) -> Option<Found<Grep>> {
        let mut state = self.lock();
        if !state.is_given_to(found) {
            return None;
        }
        state.given = None;
        state.busy = false;
        self.give(&mut state)
    }

    /// Hears that a large file is over; returns the next.
    pub(super) fn over(&self) -> Option<Found<Grep>> {
        let mut state = self.lock();
        state.busy = false;
        self.give(&mut state)
    }

    /// Tells whether all that was named before a file is over. If not, the file is kept until it is.
    pub(super) fn comes_next(&self, found: &Found<Grep>) -> bool {
        let mut state = self.lock();
        let is_next = found.node.own.index <= state.index;
        if !is_next {
            state.held.push(found.clone());
        }
        is_next
    }

    /// Gives a problem with the `index`-th of what the user named back if all before is over, and keeps it otherwise.
    pub(super) fn tells_now(&self, index: usize, problem: Problem) -> Option<Problem> {
        let mut state = self.lock();
        if index <= state.index {
            return Some(problem);
        }
        state.problems.push((index, problem));
        None
    }

    /// Hears that all below the `index`-th of what the user named is over; returns what comes then.
    pub(super) fn end(&self, index: usize) -> Ended {
        let mut state = self.lock();
        state.over.insert(index);
        while {
            let next = state.index;
            state.over.remove(&next)
        } {
            state.index += 1;
        }
        let index = state.index;
        let is_held_no_more = |found: &mut Found<Grep>| found.node.own.index <= index;
        let mut next: Vec<_> = state.held.extract_if(.., is_held_no_more).collect();
        let problems = state.problems.extract_if(.., |(of, _)| *of <= index).collect();
        next.extend(self.give(&mut state));
        Ended { next, problems }
    }

    fn is_next(&self, state: &State, found: &Found<Grep>) -> bool {
        // Another process does not know what is over elsewhere.
        self.order != Order::Named || found.node.owner.is_some() || found.node.own.index == state.index
    }

    fn give(&self, state: &mut State) -> Option<Found<Grep>> {
        if state.busy {
            return None;
        }
        let at = state.waiting.iter().position(|found| self.is_next(state, found))?;
        let found = state.waiting.remove(at);
        state.busy = true;
        state.given = Some(found.clone());
        Some(found)
    }
}

impl State {
    fn is_given_to(&self, found: &Found<Grep>) -> bool {
        self.given
            .as_ref()
            .is_some_and(|given| Arc::ptr_eq(&given.node, &found.node) && given.name() == found.name())
    }
}

/// The turns of standard input.
#[derive(Default)]
pub(super) struct Inputs(Mutex<Readers>);

#[derive(Default)]
struct Readers {
    /// The numbers of what the user named that were not read, in order.
    order: VecDeque<usize>,
    waiting: Vec<Found<Grep>>,
}

impl Inputs {
    fn lock(&self) -> MutexGuard<'_, Readers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the `index`-th of what the user named is standard input.
    pub(super) fn named(&self, index: usize) {
        self.lock().order.push_back(index);
    }

    /// Tells whether it can be read now. If not, it is kept.
    pub(super) fn begins(&self, found: &Found<Grep>) -> bool {
        let mut readers = self.lock();
        let is_first = readers.order.front() == Some(&found.node.own.index);
        if !is_first {
            readers.waiting.push(found.clone());
        }
        is_first
    }

    /// Hears that it was read; returns who waits for that.
    pub(super) fn over(&self) -> Option<Found<Grep>> {
        let mut readers = self.lock();
        readers.order.pop_front();
        let next = *readers.order.front()?;
        let at = readers.waiting.iter().position(|found| found.node.own.index == next)?;
        Some(readers.waiting.swap_remove(at))
    }
}
