//! The sentences of a search, in GNU grep's words.

use haul_flow::Wording;

/// A file could not be read.
pub const CANNOT_READ: Wording = Wording("{bare}");
/// A directory was to be read like a file.
pub const IS_A_DIRECTORY: Wording = Wording("{bare}: Is a directory");
/// Lines of a file were selected that are no text.
pub const BINARY_MATCHES: Wording = Wording("{bare}: binary file matches");
/// A file was to be searched into which the result goes.
pub const IS_OUTPUT: Wording = Wording("{bare}: input file is also the output");
/// What was found in a file waited in a temporary file, which cannot be read.
pub const RESULT_LOST: Wording = Wording("{bare}: cannot read the result again");
/// A directory is above itself, through a link.
pub const LOOP: Wording = Wording("{bare}: warning: recursive directory loop");
/// Trying every way for a line took too long.
pub const EXHAUSTED: Wording = Wording("{bare}: a line takes too long with back-references");
/// A search by PCRE2 reached its limit of steps.
pub const PERL_MATCH_LIMIT: Wording = Wording("{bare}: exceeded PCRE's backtracking limit");
/// A search by PCRE2 reached its limit of nesting.
pub const PERL_DEPTH_LIMIT: Wording = Wording("{bare}: exceeded PCRE's nested backtracking limit");
/// A search by PCRE2 reached its limit of memory.
pub const PERL_HEAP_LIMIT: Wording = Wording("{bare}: exceeded PCRE's heap limit");
/// A search by PCRE2's compiled code reached its limit of memory.
pub const PERL_STACK_LIMIT: Wording = Wording("{bare}: exhausted PCRE JIT stack");
/// A search by PCRE2 found no memory.
pub const PERL_MEMORY: Wording = Wording("{bare}: memory exhausted");
/// A pattern of Perl's refers to itself without end.
pub const PERL_LOOP: Wording = Wording("{bare}: PCRE detected recurse loop");
/// PCRE2 met an error that it has no name for here.
pub const PERL_INTERNAL: Wording = Wording("{bare}: internal PCRE error");
