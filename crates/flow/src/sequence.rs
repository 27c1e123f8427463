//! A sequence: work on the pieces of one thing by all workers, with the results taken in order.
//!
//! ```text
//!         next (one at a time)      work (all workers)       put (one at a time, in the order of next)
//! input ─► piece 0, 1, 2 ... ──────► piece ─► result ───────► output
//!              ▲                                              │
//!              └──────────────── a token returns ◄────────────┘
//! ```
//!
//! There are as many tokens as pieces may be under way. A token is a job that any worker can do: it takes the next piece,
//! works on it, and lays the result in the row. Whoever lays down the result that is next puts it, and all that follow it
//! in the row; with each result that was put, its token is shared again. So no worker waits for another's result, and no
//! more pieces are in memory than there are tokens.
//!
//! Termination: once `next` has returned `None`, every token that comes to take a piece is taken out; tokens are finite, and
//! each returns after its result was put. The last that is taken out ends the sequence.
//!
//! Invariant: every piece is put once, in order, and `end` comes once, after the last (tests: by property).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::run::{Context, Job};
use crate::tool::Tool;

/// What is done at the three places of a sequence.
pub trait Stages<T: Tool>: Send + Sync + 'static {
    /// What `next` cuts off.
    type Piece: Send + 'static;
    /// What `work` makes of it.
    type Made: Send + 'static;

    /// Cuts off the next piece; `None` when there are no more. Called by one worker at a time, and not again after `None`.
    fn next(&self, cx: &Context<'_, T>) -> Option<Self::Piece>;

    /// Works on a piece. Called by many workers at once.
    fn work(&self, cx: &Context<'_, T>, piece: Self::Piece) -> Self::Made;

    /// Takes what was made of a piece. Called by one worker at a time, in the order in which the pieces were cut off.
    fn put(&self, cx: &Context<'_, T>, made: Self::Made);

    /// Hears, once, that everything was put. An entry that was kept for the sequence is settled here.
    fn end(&self, cx: &Context<'_, T>);
}

/// A sequence under way.
struct Sequence<T: Tool, S: Stages<T>> {
    stages: Arc<S>,
    input: Mutex<Input>,
    row: Mutex<Row<S::Made>>,
    /// Tokens that were not taken out.
    tokens: AtomicUsize,
}

/// How far the input is.
struct Input {
    /// The number of the next piece.
    next: u64,
    over: bool,
}

/// Results that wait for their turn.
struct Row<M> {
    /// The number of the piece to be put next.
    next: u64,
    waiting: BTreeMap<u64, M>,
    /// Whether somebody is putting: whoever lays down a result meanwhile leaves it to them.
    putting: bool,
}

fn lock<V>(mutex: &Mutex<V>) -> MutexGuard<'_, V> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Tool + 'static> Context<'_, T> {
    /// Begins a sequence of which at most `in_flight` pieces are under way, at least one.
    ///
    /// The workers of the run do it beside their other jobs. What it is for, an entry that the tool has kept, keeps the run
    /// from ending.
    pub fn begin_sequence<S: Stages<T>>(&self, stages: Arc<S>, in_flight: usize) {
        let tokens = in_flight.max(1);
        let sequence = Arc::new(Sequence {
            stages,
            input: Mutex::new(Input { next: 0, over: false }),
            row: Mutex::new(Row { next: 0, waiting: BTreeMap::new(), putting: false }),
            tokens: AtomicUsize::new(tokens),
        });
        (0..tokens).for_each(|_| share(self, &sequence));
    }
}

/// Shares a token.
fn share<T: Tool + 'static, S: Stages<T>>(cx: &Context<'_, T>, sequence: &Arc<Sequence<T, S>>) {
    let sequence = Arc::clone(sequence);
    cx.share(Job::Visit(Box::new(move |cx| step(cx, &sequence))));
}

/// Does what a token is for: a piece.
fn step<T: Tool + 'static, S: Stages<T>>(cx: &Context<'_, T>, sequence: &Arc<Sequence<T, S>>) {
    let Some((number, piece)) = sequence.cut_off(cx) else {
        if sequence.tokens.fetch_sub(1, Ordering::AcqRel) == 1 {
            sequence.stages.end(cx);
        }
        return;
    };
    let made = sequence.stages.work(cx, piece);
    let mut row = lock(&sequence.row);
    row.waiting.insert(number, made);
    if row.putting {
        return;
    }
    row.putting = true;
    loop {
        let next = row.next;
        let Some(made) = row.waiting.remove(&next) else { break };
        row.next += 1;
        drop(row);
        sequence.stages.put(cx, made);
        share(cx, sequence);
        row = lock(&sequence.row);
    }
    row.putting = false;
}

impl<T: Tool, S: Stages<T>> Sequence<T, S> {
    fn cut_off(&self, cx: &Context<'_, T>) -> Option<(u64, S::Piece)> {
        let mut input = lock(&self.input);
        if input.over {
            return None;
        }
        let piece = self.stages.next(cx);
        input.over = piece.is_none();
        let number = input.next;
        input.next += 1;
        Some((number, piece?))
    }
}
