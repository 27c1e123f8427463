//! Finds the end of the longest match from a given start. POSIX wants the longest, the regex engine
//! prefers the first alternative.

use std::ops::Range;

use regex_automata::hybrid::dfa;
use regex_automata::nfa::thompson::pikevm::{self, PikeVM};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_automata::util::look::LookMatcher;
use regex_automata::{Anchored, Input, MatchKind};
use regex_syntax::hir::Hir;

use super::automaton::{CACHE_BYTES, SIZE_MAX, too_big};
use haul_patterns::InvalidPattern;

/// Finds the last place where a match with a given start can end.
pub(super) struct Longest {
    automaton: dfa::DFA,
    /// Fallback where the lazy DFA gives up: at word boundaries next to non-ASCII characters.
    machine: PikeVM,
}

/// A worker's scratch space for a [`Longest`].
#[derive(Default)]
pub(super) struct LongestCache {
    automaton: Option<dfa::Cache>,
    machine: Option<pikevm::Cache>,
}

impl Longest {
    pub(super) fn new(hir: &Hir, looks: &LookMatcher) -> Result<Self, InvalidPattern> {
        let config = thompson::Config::new()
            // The text may be anything, not only UTF-8.
            .utf8(false)
            .nfa_size_limit(Some(SIZE_MAX))
            .look_matcher(looks.clone())
            .which_captures(WhichCaptures::Implicit);
        let nfa = NFA::compiler().configure(config).build_from_hir(hir).map_err(too_big)?;
        let config = dfa::Config::new()
            .match_kind(MatchKind::All)
            // Without this, patterns with word boundaries would be refused; with it, the search
            // gives up only at bytes beyond ASCII.
            .unicode_word_boundary(true)
            // A pattern that needs more gets its minimum.
            .skip_cache_capacity_check(true)
            .cache_capacity(CACHE_BYTES);
        let automaton = dfa::Builder::new().configure(config).build_from_nfa(nfa.clone()).map_err(too_big)?;
        let config = PikeVM::config().match_kind(MatchKind::All);
        let machine = PikeVM::builder().configure(config).build_from_nfa(nfa).map_err(too_big)?;
        Ok(Self { automaton, machine })
    }

    /// Returns the last end of a match that starts where the range does.
    pub(super) fn end(&self, cache: &mut LongestCache, text: &[u8], within: Range<usize>) -> Option<usize> {
        let input = Input::new(text).range(within).anchored(Anchored::Yes);
        let automaton = cache.automaton.get_or_insert_with(|| self.automaton.create_cache());
        if let Ok(found) = self.automaton.try_search_fwd(automaton, &input) {
            return found.map(|found| found.offset());
        }
        let machine = cache.machine.get_or_insert_with(|| self.machine.create_cache());
        let mut slots = [None; 2];
        self.machine.search_slots(machine, &input, &mut slots)?;
        slots[1].map(|end| end.get())
    }
}
