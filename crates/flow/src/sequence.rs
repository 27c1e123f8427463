//! A sequence: all workers process pieces of one input, and the results are output in order.
//!
//! ```text
//!         next (one at a time)     work (all workers)    put (one at a time, in the order of next)
//! input ─► piece 0, 1, 2 ... ─────► piece ─► result ────► output
//!              ▲                                          │
//!              └─────────── the token is shared again ◄───┘
//! ```
//!
//! There are as many tokens as pieces may be in flight. A token is a job that any worker can do: it
//! takes the next piece, works on it, and stores the result in the reorder buffer. The worker that
//! stores the result due next puts it, and all consecutive results after it. With each result put,
//! its token is shared again. So no worker waits for another's result, and no more pieces are in
//! memory than there are tokens.
//!
//! Termination: once `next` has returned `None`, every token that comes for a piece is retired.
//! Tokens are finite, and each is shared again only after its result was put. Retiring the last one
//! ends the sequence.
//!
//! Invariant: every piece is put once, in order, and `end` is called once, after the last (property
//! test: `tests/sequence.rs`).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::context::Context;
use crate::lock::lock;
use crate::tool::{Job, Tool};

/// The stages of a sequence.
pub trait Stages<T: Tool>: Send + Sync + 'static {
    /// A piece of the input.
    type Piece: Send + 'static;
    /// Result of `work`.
    type Output: Send + 'static;

    /// Returns the next piece; `None` at the end. Called by one worker at a time, and not again
    /// after `None`.
    fn next(&self, cx: &Context<'_, T>) -> Option<Self::Piece>;

    /// Processes a piece. Called by many workers at once.
    fn work(&self, cx: &Context<'_, T>, piece: Self::Piece) -> Self::Output;

    /// Outputs a result. Called by one worker at a time, in the order of the pieces.
    fn put(&self, cx: &Context<'_, T>, made: Self::Output);

    /// Called once, after everything was put. Completes an entry that was deferred for
    /// the sequence.
    fn end(&self, cx: &Context<'_, T>);
}

struct Sequence<T: Tool, S: Stages<T>> {
    stages: Arc<S>,
    input: Mutex<InputPosition>,
    results: Mutex<ReorderBuffer<S::Output>>,
    /// Number of tokens that are not retired.
    tokens: AtomicUsize,
}

/// Position in the input.
struct InputPosition {
    /// Number of the next piece.
    next: u64,
    over: bool,
}

/// Reorder buffer: results that wait for their turn.
struct ReorderBuffer<M> {
    /// Number of the piece to be put next.
    next: u64,
    waiting: BTreeMap<u64, M>,
    /// True while a worker is putting. Others only store their results.
    putting: bool,
}

impl<T: Tool + 'static> Context<'_, T> {
    /// Begins a sequence of which at most `in_flight` pieces are in flight, at least one.
    ///
    /// The run's workers process it along with their other jobs. The entry it is for must be
    /// deferred, which keeps the run from ending.
    pub fn begin_sequence<S: Stages<T>>(&self, stages: Arc<S>, in_flight: usize) {
        let tokens = in_flight.max(1);
        let sequence = Arc::new(Sequence {
            stages,
            input: Mutex::new(InputPosition { next: 0, over: false }),
            results: Mutex::new(ReorderBuffer { next: 0, waiting: BTreeMap::new(), putting: false }),
            tokens: AtomicUsize::new(tokens),
        });
        (0..tokens).for_each(|_| share(self, &sequence));
    }
}

fn share<T: Tool + 'static, S: Stages<T>>(cx: &Context<'_, T>, sequence: &Arc<Sequence<T, S>>) {
    let sequence = Arc::clone(sequence);
    cx.share(Job::Callback(Box::new(move |cx| step(cx, &sequence))));
}

/// Spends a token: processes one piece, and puts all results that are due.
fn step<T: Tool + 'static, S: Stages<T>>(cx: &Context<'_, T>, sequence: &Arc<Sequence<T, S>>) {
    let Some((number, piece)) = sequence.next_piece(cx) else {
        // Release publishes the results that were put; Acquire lets the last token, which ends the
        // sequence, see all of that.
        if sequence.tokens.fetch_sub(1, Ordering::AcqRel) == 1 {
            sequence.stages.end(cx);
        }
        return;
    };
    let made = sequence.stages.work(cx, piece);
    let mut results = lock(&sequence.results);
    results.waiting.insert(number, made);
    // The worker that is putting looks for it, under this lock, before it stops.
    if results.putting {
        return;
    }
    results.putting = true;
    loop {
        let next = results.next;
        let Some(made) = results.waiting.remove(&next) else { break };
        results.next += 1;
        // Others must be able to store their results while this one is written.
        drop(results);
        sequence.stages.put(cx, made);
        // Only now: the tokens bound the pieces in memory.
        share(cx, sequence);
        results = lock(&sequence.results);
    }
    results.putting = false;
}

impl<T: Tool, S: Stages<T>> Sequence<T, S> {
    fn next_piece(&self, cx: &Context<'_, T>) -> Option<(u64, S::Piece)> {
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
