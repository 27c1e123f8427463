//! Page-aligned memory for data in flight.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ptr::NonNull;

/// Alignment of every buffer, in bytes: a page, which satisfies direct I/O on every device haul has met.
const ALIGNMENT: usize = 4096;

/// A block of bytes of fixed capacity, aligned to a page, that engines pass to the kernel and back.
///
/// All of it is always initialised (it starts as zeros); which part is meaningful is the operation's business.
/// Zeroed pages are not touched until used, so capacity that a small file does not need costs no memory.
pub struct Buffer {
    start: NonNull<u8>,
    capacity: usize,
}

impl Buffer {
    /// Makes a buffer of at least `capacity` bytes, rounded up to whole pages.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1).next_multiple_of(ALIGNMENT);
        let layout = Self::layout(capacity);
        // SAFETY: the layout's size is not zero, as `capacity` is at least one page.
        let start = unsafe { alloc_zeroed(layout) };
        match NonNull::new(start) {
            Some(start) => Self { start, capacity },
            None => handle_alloc_error(layout),
        }
    }

    fn layout(capacity: usize) -> Layout {
        match Layout::from_size_align(capacity, ALIGNMENT) {
            Ok(layout) => layout,
            Err(_) => handle_alloc_error(Layout::new::<u8>()),
        }
    }

    /// Returns how many bytes the buffer holds.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns all of the bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `start` points to `capacity` initialised bytes that `self` owns and nobody writes while borrowed.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.capacity) }
    }

    /// Returns all of the bytes, for writing.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`, and `&mut self` makes the borrow the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.capacity) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: `start` came from the allocator with this very layout and is freed once, here.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.capacity)) }
    }
}

// SAFETY: the buffer owns its memory alone; moving it to another thread moves that ownership.
unsafe impl Send for Buffer {}
// SAFETY: a shared buffer can only be read.
unsafe impl Sync for Buffer {}

impl fmt::Debug for Buffer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Buffer({} bytes)", self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_aligned_zeroed_and_rounded_up() {
        let mut buffer = Buffer::new(5000);
        assert_eq!(buffer.capacity(), 8192);
        assert_eq!(buffer.bytes().as_ptr() as usize % ALIGNMENT, 0);
        assert!(buffer.bytes().iter().all(|byte| *byte == 0));
        buffer.bytes_mut()[4999] = 7;
        assert_eq!(buffer.bytes()[4999], 7);
    }
}
