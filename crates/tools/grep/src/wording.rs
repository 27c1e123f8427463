//! Messages of a search, in GNU grep's words.

use haul_flow::Wording;

/// A file can't be read.
pub const CANNOT_READ: Wording = Wording("{bare}");
/// A directory operand was read like a file.
pub const IS_A_DIRECTORY: Wording = Wording("{bare}: Is a directory");
/// Lines were selected in a binary file.
pub const BINARY_MATCHES: Wording = Wording("{bare}: binary file matches");
/// An input file is also the output.
pub const IS_OUTPUT: Wording = Wording("{bare}: input file is also the output");
/// A file's result was spilled to a temporary file that can't be read back.
pub const RESULT_LOST: Wording = Wording("{bare}: cannot read the result again");
/// Following symbolic links led back to a parent directory.
pub const LOOP: Wording = Wording("{bare}: warning: recursive directory loop");
/// The backtracker exceeded its bounds on a line.
pub const EXHAUSTED: Wording = Wording("{bare}: a line takes too long with back-references");
/// PCRE2 exceeded its match limit.
pub const PERL_MATCH_LIMIT: Wording = Wording("{bare}: exceeded PCRE's backtracking limit");
/// PCRE2 exceeded its depth limit.
pub const PERL_DEPTH_LIMIT: Wording = Wording("{bare}: exceeded PCRE's nested backtracking limit");
/// PCRE2 exceeded its heap limit.
pub const PERL_HEAP_LIMIT: Wording = Wording("{bare}: exceeded PCRE's heap limit");
/// PCRE2's JIT code exhausted its stack.
pub const PERL_STACK_LIMIT: Wording = Wording("{bare}: exhausted PCRE JIT stack");
/// PCRE2 ran out of memory.
pub const PERL_MEMORY: Wording = Wording("{bare}: memory exhausted");
/// A Perl pattern recurses endlessly.
pub const PERL_LOOP: Wording = Wording("{bare}: PCRE detected recurse loop");
/// PCRE2 failed with an error that has no message of its own.
pub const PERL_INTERNAL: Wording = Wording("{bare}: internal PCRE error");
