//! State that a tool shares with the workers of its run: a backpressure gauge and a cancel token.

use crate::lock::lock;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// An amount that a tool keeps up to date, with a limit above which workers hold back.
#[derive(Clone, Debug)]
pub struct Gauge {
    amount: Arc<AtomicU64>,
    limit: u64,
}

impl Gauge {
    /// Creates a gauge with a limit. It is over its limit while the amount is more than `limit`.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self { amount: Arc::default(), limit }
    }

    /// Sets the amount.
    pub fn set(&self, amount: u64) {
        // Relaxed: workers that see it late hold back late, and check again.
        self.amount.store(amount, Ordering::Relaxed);
    }

    /// Returns true while the amount is over the limit.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.amount.load(Ordering::Relaxed) > self.limit
    }
}

/// Called once when a token is cancelled.
type OnCancel = Box<dyn FnOnce() + Send>;

/// Signals that a run need not go on. Clones share one token.
#[derive(Clone, Default)]
pub struct CancelToken {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    is_cancelled: AtomicBool,
    on_cancel: Mutex<Vec<OnCancel>>,
}

impl CancelToken {
    /// Cancels the token. The first time, calls the registered functions.
    pub fn cancel(&self) {
        let mut on_cancel = lock(&self.inner.on_cancel);
        // Under the lock: a function registered concurrently is either in the list or sees the
        // cancellation.
        self.inner.is_cancelled.store(true, Ordering::Release);
        let calls = std::mem::take(&mut *on_cancel);
        // A function may use the token itself.
        drop(on_cancel);
        calls.into_iter().for_each(|call| call());
    }

    /// Returns true once the token is cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.inner.is_cancelled.load(Ordering::Acquire)
    }

    /// Registers a function to call on cancellation; calls it at once if that has happened. It must
    /// not block.
    pub fn on_cancel(&self, call: impl FnOnce() + Send + 'static) {
        let mut on_cancel = lock(&self.inner.on_cancel);
        if !self.is_cancelled() {
            return on_cancel.push(Box::new(call));
        }
        drop(on_cancel);
        call();
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("CancelToken").field(&self.is_cancelled()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_made_once_whenever_they_were_registered() {
        let (token, calls) = (CancelToken::default(), Arc::new(AtomicU64::new(0)));
        let count = || {
            let calls = Arc::clone(&calls);
            move || {
                calls.fetch_add(1, Ordering::Relaxed);
            }
        };
        token.on_cancel(count());
        assert_eq!((token.is_cancelled(), calls.load(Ordering::Relaxed)), (false, 0));
        token.clone().cancel();
        token.on_cancel(count());
        token.cancel();
        assert_eq!((token.is_cancelled(), calls.load(Ordering::Relaxed)), (true, 2));
    }
}
