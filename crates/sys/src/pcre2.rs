//! Bindings for PCRE2, the library behind `grep -P`: pattern compilation and matching, bounded in
//! time and memory.
//!
//! A [`CompiledPattern`] is immutable and shared by all workers. Each worker owns a [`Matching`],
//! which holds what PCRE2 writes to. Patterns are JIT-compiled if the processor and the system
//! allow it; otherwise PCRE2 interprets them.
//!
//! Limits: PCRE2's own match limit bounds the time of a search, [`MEMORY_MAX`] the memory of a
//! worker. A search that exceeds a limit is a [`MatchFailure`], never reported as "no match".

use std::ffi::c_int;
use std::fmt;
use std::ops::Range;
use std::ptr::{NonNull, null, null_mut};

use pcre2_sys as sys;

/// Maximum backtracking memory of a search, in bytes.
pub const MEMORY_MAX: usize = 256 << 20;

/// Size of PCRE2's own JIT stack, in bytes. The stacks allocated here are larger.
const FIRST_STACK: usize = 32 << 10;

/// Maximum length of a PCRE2 error message, in bytes.
const MESSAGE_MAX: usize = 256;

/// Options for compiling a pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatternOptions {
    /// Treats text as UTF-8: a character is a code point, and an invalid sequence never matches.
    /// Otherwise a byte is a character, classified by the process's locale.
    pub utf8: bool,
    /// Ignores case.
    pub ignore_case: bool,
    /// Requires the whole subject to match.
    pub whole: bool,
}

/// Why a search was aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchFailure {
    /// Match limit exceeded.
    MatchLimit,
    /// Backtracking depth limit exceeded.
    DepthLimit,
    /// [`MEMORY_MAX`] exceeded in the interpreter.
    HeapLimit,
    /// [`MEMORY_MAX`] exceeded in JIT code.
    StackLimit,
    /// Out of memory.
    Memory,
    /// Infinite recursion in the pattern.
    RecurseLoop,
    /// Another PCRE2 error, by number.
    Other(i32),
}

/// Why a pattern can't be compiled: an error number of PCRE2's. `Display` prints PCRE2's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// The number.
    pub code: c_int,
}

impl fmt::Display for CompileError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&message(self.code))
    }
}

impl std::error::Error for CompileError {}

/// A compiled pattern.
#[derive(Debug)]
pub struct CompiledPattern {
    code: NonNull<sys::pcre2_code_8>,
    /// Character tables of the locale, which the code refers to; null for PCRE2's own.
    tables: *const u8,
}

// SAFETY: PCRE2 documents compiled code and tables as read-only after compilation, and any thread
// may free them.
unsafe impl Send for CompiledPattern {}
// SAFETY: as above; a search writes only to its `Matching`.
unsafe impl Sync for CompiledPattern {}

impl CompiledPattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// If PCRE2 rejects the pattern, or memory is short.
    pub fn new(text: &[u8], options: PatternOptions) -> Result<Self, CompileError> {
        let mut context = CompileContext::new(options)?;
        let mut flags = sys::PCRE2_DOLLAR_ENDONLY;
        if options.ignore_case {
            flags |= sys::PCRE2_CASELESS;
        }
        if options.utf8 {
            flags |= sys::PCRE2_UTF | sys::PCRE2_MATCH_INVALID_UTF;
        }
        let (mut code, mut offset): (c_int, usize) = (0, 0);
        // SAFETY: the text is readable for its length, the two results are writable, and the
        // context is alive.
        let compiled = unsafe {
            sys::pcre2_compile_8(
                text.as_ptr(),
                text.len(),
                flags,
                &raw mut code,
                &raw mut offset,
                context.context.as_ptr(),
            )
        };
        let compiled = NonNull::new(compiled).ok_or(CompileError { code })?;
        // On failure PCRE2 interprets the pattern, with the same results, so the result is ignored.
        // SAFETY: the code was compiled above, and nobody else has it yet.
        unsafe { sys::pcre2_jit_compile_8(compiled.as_ptr(), sys::PCRE2_JIT_COMPLETE) };
        Ok(Self { code: compiled, tables: std::mem::replace(&mut context.tables, null()) })
    }

    /// Finds the first match in `subject` at or after `from`. Look-behind can see what precedes
    /// `from`. If `not_bol`, the start of the subject is not the start of a line.
    ///
    /// # Errors
    /// Why the search was aborted.
    pub fn find(
        &self,
        matching: &mut Matching,
        subject: &[u8],
        from: usize,
        not_bol: bool,
    ) -> Result<Option<Range<usize>>, MatchFailure> {
        if from > subject.len() {
            return Ok(None);
        }
        let options = if not_bol { sys::PCRE2_NOTBOL } else { 0 };
        loop {
            // SAFETY: the code and the match data are alive, the data was made for this code, and
            // the subject is readable for its length.
            let result = unsafe {
                sys::pcre2_match_8(
                    self.code.as_ptr(),
                    subject.as_ptr(),
                    subject.len(),
                    from,
                    options,
                    matching.data.as_ptr(),
                    matching.context.as_ptr(),
                )
            };
            return match result {
                sys::PCRE2_ERROR_NOMATCH => Ok(None),
                sys::PCRE2_ERROR_JIT_STACKLIMIT if matching.grow() => continue,
                result if result < 0 => Err(MatchFailure::of(result)),
                _ => Ok(Some(matching.found())),
            };
        }
    }
}

impl Drop for CompiledPattern {
    fn drop(&mut self) {
        // SAFETY: PCRE2 made the code, and nobody else uses it.
        unsafe { sys::pcre2_code_free_8(self.code.as_ptr()) };
        free_tables(self.tables);
    }
}

/// Frees character tables that nothing refers to any more.
fn free_tables(tables: *const u8) {
    if !tables.is_null() {
        // SAFETY: `pcre2_maketables_8` made the tables with the same (null) context.
        unsafe { sys::pcre2_maketables_free_8(null_mut(), tables) };
    }
}

/// A compile context, and the character tables set in it.
struct CompileContext {
    context: NonNull<sys::pcre2_compile_context_8>,
    tables: *const u8,
}

impl CompileContext {
    fn new(options: PatternOptions) -> Result<Self, CompileError> {
        let no_memory = CompileError { code: sys::PCRE2_ERROR_NOMEMORY };
        // SAFETY: a null context selects the C library's allocator.
        let context = unsafe { sys::pcre2_compile_context_create_8(null_mut()) };
        let mut context = Self { context: NonNull::new(context).ok_or(no_memory)?, tables: null() };
        if options.whole {
            // SAFETY: the context was made above.
            unsafe {
                sys::pcre2_set_compile_extra_options_8(context.context.as_ptr(), sys::PCRE2_EXTRA_MATCH_LINE)
            };
        }
        if options.utf8 {
            return Ok(context);
        }
        // SAFETY: a null context selects the C library's allocator. The locale is set once, before
        // threads start.
        context.tables = unsafe { sys::pcre2_maketables_8(null_mut()) };
        if context.tables.is_null() {
            return Err(no_memory);
        }
        // SAFETY: both are alive; the tables live as long as the code that refers to them.
        unsafe { sys::pcre2_set_character_tables_8(context.context.as_ptr(), context.tables) };
        Ok(context)
    }
}

impl Drop for CompileContext {
    fn drop(&mut self) {
        // SAFETY: PCRE2 made the context, and nobody else uses it; code keeps no reference to it.
        unsafe { sys::pcre2_compile_context_free_8(self.context.as_ptr()) };
        free_tables(self.tables);
    }
}

/// Per-worker state of searches for one pattern.
#[derive(Debug)]
pub struct Matching {
    data: NonNull<sys::pcre2_match_data_8>,
    context: NonNull<sys::pcre2_match_context_8>,
    /// JIT stack; null for PCRE2's own.
    stack: *mut sys::pcre2_jit_stack_8,
    stack_bytes: usize,
}

// SAFETY: only the owner uses the pointers, and PCRE2 ties none of them to a thread.
unsafe impl Send for Matching {}

impl Matching {
    /// Allocates the state for searching with `pattern`. `None` if out of memory.
    pub fn new(pattern: &CompiledPattern) -> Option<Self> {
        // SAFETY: a null context selects the C library's allocator.
        let context = NonNull::new(unsafe { sys::pcre2_match_context_create_8(null_mut()) })?;
        let kibibytes = u32::try_from(MEMORY_MAX >> 10).unwrap_or(u32::MAX);
        // SAFETY: the context was made above.
        unsafe { sys::pcre2_set_heap_limit_8(context.as_ptr(), kibibytes) };
        // SAFETY: the code is alive; a null context selects the C library's allocator.
        let data = unsafe { sys::pcre2_match_data_create_from_pattern_8(pattern.code.as_ptr(), null_mut()) };
        let Some(data) = NonNull::new(data) else {
            // SAFETY: the context was made above, and nobody uses it.
            unsafe { sys::pcre2_match_context_free_8(context.as_ptr()) };
            return None;
        };
        Some(Self { data, context, stack: null_mut(), stack_bytes: FIRST_STACK })
    }

    /// Doubles the JIT stack. Returns false if it would exceed the limit, or memory is short.
    fn grow(&mut self) -> bool {
        let bytes = self.stack_bytes * 2;
        if bytes > MEMORY_MAX {
            return false;
        }
        // SAFETY: a null context selects the C library's allocator.
        let stack = unsafe { sys::pcre2_jit_stack_create_8(self.stack_bytes, bytes, null_mut()) };
        if stack.is_null() {
            return false;
        }
        // SAFETY: both are alive; without a callback, the last argument is the stack to use.
        unsafe { sys::pcre2_jit_stack_assign_8(self.context.as_ptr(), None, stack.cast()) };
        let old = std::mem::replace(&mut self.stack, stack);
        // SAFETY: nothing refers to the old stack any more; PCRE2 ignores null.
        unsafe { sys::pcre2_jit_stack_free_8(old) };
        self.stack_bytes = bytes;
        true
    }

    /// Returns the range of the last match.
    fn found(&self) -> Range<usize> {
        // SAFETY: the data is alive, and a successful search has written at least one pair to
        // its vector.
        let vector = unsafe { sys::pcre2_get_ovector_pointer_8(self.data.as_ptr()) };
        // SAFETY: as above.
        let start = unsafe { vector.read() };
        // SAFETY: as above; the pair is the first two elements.
        let end = unsafe { vector.add(1) };
        // SAFETY: as above.
        let end = unsafe { end.read() };
        // `\K` in a look-ahead can put the start after the end.
        start.min(end)..end
    }
}

impl Drop for Matching {
    fn drop(&mut self) {
        // SAFETY: PCRE2 made it, and nobody else uses it.
        unsafe { sys::pcre2_match_data_free_8(self.data.as_ptr()) };
        // SAFETY: as above; the context only refers to the stack.
        unsafe { sys::pcre2_match_context_free_8(self.context.as_ptr()) };
        // SAFETY: as above; PCRE2 ignores null.
        unsafe { sys::pcre2_jit_stack_free_8(self.stack) };
    }
}

impl MatchFailure {
    fn of(code: c_int) -> Self {
        match code {
            sys::PCRE2_ERROR_MATCHLIMIT => Self::MatchLimit,
            sys::PCRE2_ERROR_DEPTHLIMIT => Self::DepthLimit,
            sys::PCRE2_ERROR_HEAPLIMIT => Self::HeapLimit,
            sys::PCRE2_ERROR_JIT_STACKLIMIT => Self::StackLimit,
            sys::PCRE2_ERROR_NOMEMORY => Self::Memory,
            sys::PCRE2_ERROR_RECURSELOOP => Self::RecurseLoop,
            other => Self::Other(other),
        }
    }
}

/// Returns PCRE2's message for an error code.
fn message(code: c_int) -> String {
    let mut text = [0_u8; MESSAGE_MAX];
    // SAFETY: the buffer is writable for its length; PCRE2 truncates a longer text.
    let length = unsafe { sys::pcre2_get_error_message_8(code, text.as_mut_ptr(), text.len()) };
    let length = usize::try_from(length).unwrap_or(0).min(text.len());
    String::from_utf8_lossy(&text[..length]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UTF8: PatternOptions = PatternOptions { utf8: true, ignore_case: false, whole: false };

    fn find(
        pattern: &str,
        options: PatternOptions,
        text: &[u8],
    ) -> Result<Option<Range<usize>>, MatchFailure> {
        let pattern = CompiledPattern::new(pattern.as_bytes(), options).unwrap();
        pattern.find(&mut Matching::new(&pattern).unwrap(), text, 0, false)
    }

    #[test]
    fn a_byte_that_is_not_utf8_ends_a_match() {
        assert_eq!(find("a.", UTF8, b"a\xffab"), Ok(Some(2..4)));
        assert_eq!(find("^b", UTF8, b"\xffb"), Ok(None));
        assert_eq!(find("a.", PatternOptions::default(), b"a\xffab"), Ok(Some(0..2)));
    }

    #[test]
    fn a_search_ends_at_the_match_limit() {
        let text = [b"a".repeat(60), b"b".to_vec()].concat();
        assert_eq!(find("(a+)+$", UTF8, &text), Err(MatchFailure::MatchLimit));
    }

    #[test]
    fn a_stack_grows_up_to_its_limit() {
        let text = b"ab".repeat(1 << 19);
        assert_eq!(find("^(a|b)+$", UTF8, &text), Ok(Some(0..text.len())));
        let pattern = CompiledPattern::new(b"^(a|b)+$", UTF8).unwrap();
        let mut matching = Matching::new(&pattern).unwrap();
        matching.stack_bytes = MEMORY_MAX;
        assert_eq!(pattern.find(&mut matching, &text, 0, false), Err(MatchFailure::StackLimit));
    }

    #[test]
    fn an_invalid_pattern_has_the_message_of_pcre2() {
        assert_eq!(CompiledPattern::new(b"(", UTF8).unwrap_err().to_string(), "missing closing parenthesis");
    }
}
