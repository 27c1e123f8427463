//! Scratch memory that workers recycle.

use std::sync::Mutex;

use crate::lock::lock;

/// Recycled values: as many as were in use at once.
#[derive(Debug)]
pub struct Pool<M>(Mutex<Vec<M>>);

impl<M> Default for Pool<M> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<M> Pool<M> {
    /// Lends a recycled value, or one that `new` makes, to `work`.
    pub fn with<R>(&self, new: impl FnOnce() -> M, work: impl FnOnce(&mut M) -> R) -> R {
        let mut value = self.take().unwrap_or_else(new);
        let result = work(&mut value);
        self.give(value);
        result
    }

    /// Returns a recycled value, if there is one.
    pub fn take(&self) -> Option<M> {
        lock(&self.0).pop()
    }

    /// Recycles a value.
    pub fn give(&self, value: M) {
        lock(&self.0).push(value);
    }
}
