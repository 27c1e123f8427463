//! Page-aligned memory for data in flight.

use std::alloc::{Layout, handle_alloc_error};
use std::fmt;
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, Weak};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Alignment of every buffer, in bytes: a page, which satisfies direct I/O on every device haul has met.
const ALIGNMENT: usize = 4096;

/// A block of bytes of fixed capacity, aligned to a page, that engines pass to the kernel and back.
///
/// All of it is always initialised (it starts as zeros); which part is meaningful is the operation's business.
/// Zeroed pages are not touched until used, so capacity that a small file does not need costs no memory.
///
/// A ring can make buffers known to the kernel ([`Ring::register`](crate::Ring::register)). The kernel then holds on to
/// the pages themselves, so a buffer may be dropped before its ring: the pages go when both are gone.
pub struct Buffer {
    start: NonNull<u8>,
    capacity: usize,
    registration: Option<Registration>,
}

/// Under which number which ring knows a buffer.
struct Registration {
    /// The ring's identity; as long as this is held, no other ring can have the same.
    ring: Weak<()>,
    index: u16,
}

impl Buffer {
    /// What every buffer's start is a multiple of, in bytes: a page of the machines there are.
    pub const ALIGNMENT: usize = ALIGNMENT;

    /// Makes a buffer of at least `capacity` bytes, rounded up to whole pages.
    ///
    /// The memory comes from the kernel directly: an allocator would touch all of it to make it zero.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1).next_multiple_of(ALIGNMENT);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: asks for new memory at an address of the kernel's choice, so no memory in use is affected.
        let mapped = unsafe { mmap_anonymous(null_mut(), capacity, access, MapFlags::PRIVATE) };
        match mapped.ok().and_then(|start| NonNull::new(start.cast())) {
            Some(start) => Self { start, capacity, registration: None },
            None => match Layout::from_size_align(capacity, ALIGNMENT) {
                Ok(layout) => handle_alloc_error(layout),
                Err(_) => handle_alloc_error(Layout::new::<u8>()),
            },
        }
    }

    /// Returns how many bytes the buffer holds.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the number under which this ring has made it known to the kernel.
    pub(crate) fn index_in(&self, ring: &Arc<()>) -> Option<u16> {
        let registration = self.registration.as_ref()?;
        std::ptr::eq(registration.ring.as_ptr(), Arc::as_ptr(ring)).then_some(registration.index)
    }

    /// Notes that this ring has made it known to the kernel under a number.
    pub(crate) fn note_registration(&mut self, ring: &Arc<()>, index: u16) {
        self.registration = Some(Registration { ring: Arc::downgrade(ring), index });
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
        // SAFETY: `start` and `capacity` are the mapping made in `new`, which nobody uses any more.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.capacity) };
        debug_assert!(unmapped.is_ok(), "a mapping of our own could not be unmapped");
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
