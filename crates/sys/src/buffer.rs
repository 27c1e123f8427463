//! Page-aligned buffers for data in flight.

use std::alloc::{Layout, handle_alloc_error};
use std::fmt;
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, Weak};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Alignment of every buffer, in bytes: a page, enough for direct I/O on every device haul has met.
const ALIGNMENT: usize = 4096;

/// A page-aligned block of bytes of fixed capacity that engines pass to the kernel and back.
///
/// All of it is always initialised, to zeros at first; which part is meaningful depends on the
/// operation. The kernel allocates zero pages on first use, so capacity that a small file doesn't
/// need costs no memory.
///
/// A ring can register buffers with the kernel ([`Ring::register`](crate::Ring::register)). The
/// kernel then pins the pages themselves, so a buffer may be dropped before its ring: the pages are
/// freed when both are gone.
pub struct Buffer {
    start: NonNull<u8>,
    capacity: usize,
    registration: Option<Registration>,
}

/// The ring that a buffer is registered with, and the buffer's index there.
struct Registration {
    /// The ring's identity. While this is held, no other ring can have the same.
    ring: Weak<()>,
    index: u16,
}

impl Buffer {
    /// Alignment of every buffer's start, in bytes: one page.
    pub const ALIGNMENT: usize = ALIGNMENT;

    /// Creates a buffer of at least `capacity` bytes, rounded up to whole pages.
    ///
    /// The memory is mapped from the kernel directly: an allocator would touch all of it to
    /// zero it.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        // `mmap` refuses a length of 0 (`EINVAL`).
        let capacity = capacity.max(1).next_multiple_of(ALIGNMENT);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: maps new memory at an address of the kernel's choice, so no memory in use
        // is affected.
        let mapped = unsafe { mmap_anonymous(null_mut(), capacity, access, MapFlags::PRIVATE) };
        match mapped.ok().and_then(|start| NonNull::new(start.cast())) {
            Some(start) => Self { start, capacity, registration: None },
            None => match Layout::from_size_align(capacity, ALIGNMENT) {
                Ok(layout) => handle_alloc_error(layout),
                Err(_) => handle_alloc_error(Layout::new::<u8>()),
            },
        }
    }

    /// Returns the capacity in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the buffer's index in this ring, if it is registered there.
    pub(crate) fn index_in(&self, ring: &Arc<()>) -> Option<u16> {
        let registration = self.registration.as_ref()?;
        std::ptr::eq(registration.ring.as_ptr(), Arc::as_ptr(ring)).then_some(registration.index)
    }

    /// Records the buffer's index in this ring.
    pub(crate) fn note_registration(&mut self, ring: &Arc<()>, index: u16) {
        self.registration = Some(Registration { ring: Arc::downgrade(ring), index });
    }

    /// Returns all bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `start` points to `capacity` initialised bytes that `self` owns and nobody writes
        // while they are borrowed.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.capacity) }
    }

    /// Returns all bytes, for writing.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`, and `&mut self` makes the borrow the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.capacity) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: `start` and `capacity` are the mapping made in `new`, and nothing uses it
        // any more.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.capacity) };
        debug_assert!(unmapped.is_ok(), "a mapping of our own could not be unmapped");
    }
}

// SAFETY: the buffer exclusively owns its memory; moving it to another thread moves that ownership.
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
