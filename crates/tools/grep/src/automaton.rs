//! Builds the automata of the regex engine, within limits on their size.

use haul_patterns::InvalidPattern;
use haul_patterns::bracket::Alphabet;
use regex_automata::meta;
use regex_automata::nfa::thompson::WhichCaptures;
use regex_syntax::hir::Hir;

/// Maximum size of a compiled pattern, in bytes.
pub(super) const SIZE_MAX: usize = 256 << 20;

/// Maximum size of a lazy DFA's cache, in bytes.
pub(super) const CACHE_BYTES: usize = 8 << 20;

pub(super) fn too_big<E>(_: E) -> InvalidPattern {
    InvalidPattern::TooBig
}

pub(super) fn regex(hir: &Hir, alphabet: Alphabet) -> Result<meta::Regex, InvalidPattern> {
    let config = meta::Config::new()
        // The text may be anything, not only UTF-8.
        .utf8_empty(false)
        .line_terminator(alphabet.terminator)
        .nfa_size_limit(Some(SIZE_MAX))
        .hybrid_cache_capacity(CACHE_BYTES)
        .which_captures(WhichCaptures::Implicit);
    meta::Builder::new().configure(config).build_from_hir(hir).map_err(too_big)
}
