//! Wraps an engine so that every transfer uses a registered buffer, whatever buffers
//! the caller has.
//!
//! `submit` replaces each buffer with a registered one and copies its contents over; `reap` copies
//! the contents back and restores the caller's buffer.

use std::mem;

use haul_engine::{Call, Caps, Done, Engine, Op, Outcome, Token, Uring};
use haul_sys::{Buffer, Result};

/// Original token and buffer of an operation in flight.
struct Held {
    token: Token,
    buffer: Option<Buffer>,
}

/// Substitutes registered buffers in a ring's operations.
pub(crate) struct Registered {
    engine: Uring,
    free: Vec<Buffer>,
    /// Indexed by the token used inside.
    held: Vec<Option<Held>>,
    done: Vec<Done>,
}

impl Registered {
    /// Registers one buffer for each operation that can be in flight.
    pub(crate) fn new(mut engine: Uring, capacity: usize) -> Self {
        let depth = engine.caps().depth;
        let mut free: Vec<_> = (0..depth).map(|_| Buffer::new(capacity)).collect();
        engine.register(&mut free).unwrap();
        Self { engine, free, held: (0..depth).map(|_| None).collect(), done: Vec::new() }
    }
}

fn buffer_of(call: &mut Call) -> Option<&mut Buffer> {
    match call {
        Call::Read { buffer, .. } | Call::Write { buffer, .. } | Call::Pair { buffer, .. } => Some(buffer),
        _ => None,
    }
}

/// Copies as many bytes as fit in both.
fn copy(source: &Buffer, target: &mut Buffer) {
    let length = source.capacity().min(target.capacity());
    target.bytes_mut()[..length].copy_from_slice(&source.bytes()[..length]);
}

impl Engine for Registered {
    fn caps(&self) -> Caps {
        self.engine.caps()
    }

    fn submit(&mut self, mut op: Op) -> std::result::Result<(), Box<Op>> {
        let Some(place) = self.held.iter().position(Option::is_none) else { return Err(Box::new(op)) };
        let token = mem::replace(&mut op.token, place as Token);
        let mut held = Held { token, buffer: None };
        if let Some(buffer) = buffer_of(&mut op.call) {
            let mut registered = self.free.pop().unwrap();
            copy(buffer, &mut registered);
            held.buffer = Some(mem::replace(buffer, registered));
        }
        self.held[place] = Some(held);
        self.engine.submit(op).expect("there is a place for each");
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.engine.flush()
    }

    fn reap(&mut self, min: usize, done: &mut Vec<Done>) -> Result<()> {
        let before = self.engine.used().registered_buffers;
        let reaped = self.engine.reap(min, &mut self.done);
        assert!(self.engine.used().registered_buffers >= before);
        for mut one in self.done.drain(..) {
            let held = self.held[one.token as usize].take().expect("it is in flight");
            one.token = held.token;
            if let Some(mut original) = held.buffer
                && let Outcome::Read { buffer, .. }
                | Outcome::Wrote { buffer, .. }
                | Outcome::Paired { buffer, .. } = &mut one.outcome
            {
                copy(buffer, &mut original);
                self.free.push(mem::replace(buffer, original));
            }
            done.push(one);
        }
        reaped
    }

    fn in_flight(&self) -> usize {
        self.engine.in_flight()
    }
}

impl Drop for Registered {
    /// Checks that every transfer used a registered buffer, since the caller's never
    /// reach the ring.
    fn drop(&mut self) {
        let used = self.engine.used();
        assert!(used.registered_buffers >= used.linked_pairs * 2, "{used:?}");
    }
}
