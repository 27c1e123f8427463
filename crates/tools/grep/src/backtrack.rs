//! Matches patterns with back-references by trying every path, each once.
//!
//! The state of a search is the program counter, the position in the text, and the groups and
//! counters that are still live. States at branch points are remembered, and a second arrival is
//! dropped. That terminates empty repetitions and makes the time polynomial. It can still be long,
//! so states and steps are bounded; exceeding a bound is reported as an error, never taken for a
//! line without a match. The regex engine has already selected candidate lines, with a pattern in
//! which a back-reference matches whatever its group could.
//!
//! An iteration that matches nothing sets its group to the empty string, however the repetition is
//! written. GNU grep agrees, except where the C library has duplicated the group: in `(b*)+` it may
//! see only one of the two copies, and then `(b*)+a\1` does not match `ba`, though `(b*)*a\1` does.

use std::ops::Range;

use regex_automata::util::look::{Look, LookMatcher};
use regex_syntax::hir::Class;

use super::program::{Instruction, PatternProgram};
use super::word_chars::WordChars;
use haul_patterns::bracket::Alphabet;
use haul_patterns::case;

/// Maximum number of steps per line, equivalent to some seconds.
const STEPS_MAX: u64 = 100_000_000;

/// Maximum number of integers in remembered states: 64 MiB.
const REMEMBERED_MAX: usize = 16 << 20;

/// Maximum number of integers carried over to the next start position.
const REMEMBERED_KEPT: usize = 64 << 10;

/// Sentinel for a group that is unset.
const NONE: u32 = u32::MAX;

/// Indices of the program counter, the position and the first slot in a state.
const STEP: usize = 0;
const PLACE: usize = 1;
const SLOTS: usize = 2;

/// The search exceeded its bound on steps or memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exhausted;

/// Evaluates zero-width assertions.
#[derive(Clone, Copy)]
pub(super) struct Places<'a> {
    pub(super) looks: &'a LookMatcher,
    pub(super) letters: &'a WordChars,
    /// True if a match must be a whole word.
    pub(super) by_words: bool,
}

impl Places<'_> {
    fn matches(&self, look: regex_syntax::hir::Look, text: &[u8], at: usize) -> bool {
        // Both crates use the same numbering.
        let other = || Look::from_repr(look.as_repr()).is_some_and(|look| self.looks.matches(look, text, at));
        self.letters.are_at(look, text, at).unwrap_or_else(other)
    }
}

/// A set of states: an open-addressing hash table of indices into a flat list.
#[derive(Default)]
struct Remembered {
    numbers: Vec<u32>,
    table: Vec<u32>,
    /// Number of integers per state.
    width: usize,
}

impl Remembered {
    fn clear(&mut self, width: usize) {
        *self = Self { width, ..Self::default() };
    }

    fn state(&self, index: u32) -> &[u32] {
        let begin = index as usize * self.width;
        &self.numbers[begin..begin + self.width]
    }

    /// Returns the table slot that holds a state, or where it would go.
    fn place(&self, state: &[u32]) -> usize {
        let mix = |hash: u64, number: &u32| {
            (hash.rotate_left(5) ^ u64::from(*number)).wrapping_mul(0x517c_c1b7_2722_0a95)
        };
        let hash = state.iter().fold(0, mix);
        let mask = self.table.len() - 1;
        // A multiplication mixes into the high bits.
        let mut at = (hash >> 32) as usize & mask;
        while self.table[at] != NONE && self.state(self.table[at]) != state {
            at = (at + 1) & mask;
        }
        at
    }

    /// Inserts a state and returns its index, or `None` if it was already there.
    fn insert(&mut self, state: &[u32]) -> Result<Option<u32>, Exhausted> {
        let count = self.numbers.len() / self.width;
        if count * 2 >= self.table.len() {
            self.table = vec![NONE; (self.table.len() * 2).max(64)];
            for index in 0..count {
                let index = u32::try_from(index).map_err(|_| Exhausted)?;
                let at = self.place(self.state(index));
                self.table[at] = index;
            }
        }
        let at = self.place(state);
        if self.table[at] != NONE {
            return Ok(None);
        }
        if self.numbers.len() + self.width > REMEMBERED_MAX {
            return Err(Exhausted);
        }
        let index = u32::try_from(count).map_err(|_| Exhausted)?;
        self.numbers.extend_from_slice(state);
        self.table[at] = index;
        Ok(Some(index))
    }
}

/// Matches programs against one line.
pub(super) struct Backtracker<'a> {
    text: &'a [u8],
    end: usize,
    alphabet: Alphabet,
    places: Places<'a>,
    steps: u64,
    remembered: Remembered,
    /// Paths still to try: the instruction to resume at, and the index of the saved state.
    left: Vec<(usize, u32)>,
    /// Text offset that positions in states are relative to.
    base: usize,
}

impl<'a> Backtracker<'a> {
    /// Prepares a search of the text up to `end`, where a line ends.
    pub(super) fn new(text: &'a [u8], end: usize, places: Places<'a>, alphabet: Alphabet) -> Self {
        let remembered = Remembered::default();
        Self { text, end, alphabet, places, steps: 0, remembered, left: Vec::new(), base: 0 }
    }

    /// Finds the leftmost match at or after `from`; the longest of these if `longest`, else any.
    pub(super) fn find(
        &mut self,
        programs: &[PatternProgram],
        from: usize,
        longest: bool,
    ) -> Result<Option<Range<usize>>, Exhausted> {
        self.base = from;
        let mut start = from;
        loop {
            let mut found = None;
            for program in programs {
                // A state that failed from one start fails from every later one, so remembered
                // states carry over. That breaks if there are several programs, whose states
                // differ, or under `-w`, where accepting an empty word depends on the start.
                let is_kept = programs.len() == 1
                    && !self.places.by_words
                    && start > from
                    // On a long line they would add up.
                    && self.remembered.numbers.len() < REMEMBERED_KEPT;
                if !is_kept {
                    self.remembered.clear(SLOTS + 2 * program.slots + program.counters);
                }
                found = found.max(self.last_end(program, start, longest)?);
            }
            if let Some(end) = found {
                return Ok(Some(start..end));
            }
            if start >= self.end {
                return Ok(None);
            }
            start += self.alphabet.first(&self.text[start..self.end]).map_or(1, |(_, length)| length);
        }
    }

    /// Returns the end of the longest match that begins at `start`; of any match unless `longest`.
    fn last_end(
        &mut self,
        program: &PatternProgram,
        start: usize,
        longest: bool,
    ) -> Result<Option<usize>, Exhausted> {
        let Places { letters, by_words, .. } = self.places;
        if by_words && letters.are_before(self.text, start) {
            return Ok(None);
        }
        let (mut found, mut is_only) = (None, true);
        self.left.clear();
        let mut state = vec![NONE; SLOTS + 2 * program.slots];
        state.resize(state.len() + program.counters, 0);
        state[STEP] = 0;
        state[PLACE] = self.offset(start)?;
        loop {
            if let Some(at) = self.run(program, &mut state)? {
                is_only &= at == start;
                if !(by_words && letters.are_after(self.text, at)) {
                    found = found.max(Some(at));
                    if at == self.end || (!longest && (at > start || !by_words)) {
                        break;
                    }
                }
            }
            let Some((step, index)) = self.left.pop() else { break };
            state.copy_from_slice(self.remembered.state(index));
            self.enter(program, &mut state, step);
        }
        // An empty word counts only if nothing else matches here.
        Ok(found.filter(|end| *end > start || !by_words || is_only))
    }

    fn offset(&self, at: usize) -> Result<u32, Exhausted> {
        u32::try_from(at - self.base).ok().filter(|offset| *offset != NONE).ok_or(Exhausted)
    }

    /// Moves a state to an instruction that follows its current one.
    fn enter(&self, program: &PatternProgram, state: &mut [u32], step: usize) {
        if let Instruction::Loop { counter, out, .. } = program.steps[state[STEP] as usize]
            && step == out
        {
            // A counter is meaningless outside its loop; zeroing it merges equal states.
            state[SLOTS + 2 * program.slots + counter] = 0;
        }
        state[STEP] = u32::try_from(step).unwrap_or(NONE);
    }

    /// Follows one path until it fails or matches. Pushes alternatives for later. Returns the end
    /// of the match.
    fn run(&mut self, program: &PatternProgram, state: &mut [u32]) -> Result<Option<usize>, Exhausted> {
        loop {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return Err(Exhausted);
            }
            let (step, at) = (state[STEP] as usize, self.base + state[PLACE] as usize);
            let mut next = step + 1;
            let after = match &program.steps[step] {
                Instruction::Match => return Ok(Some(at)),
                node @ (Instruction::Set(_) | Instruction::Byte(_)) => self.one(node, at),
                Instruction::Look(look) => self.places.matches(*look, self.text, at).then_some(at),
                Instruction::Jump(to) => {
                    next = *to;
                    Some(at)
                }
                Instruction::Open(slot) => {
                    state[SLOTS + 2 * slot] = state[PLACE];
                    state[SLOTS + 2 * slot + 1] = NONE;
                    Some(at)
                }
                Instruction::Close(slot) => {
                    state[SLOTS + 2 * slot + 1] = state[PLACE];
                    Some(at)
                }
                Instruction::Back(slot) => match (state[SLOTS + 2 * slot], state[SLOTS + 2 * slot + 1]) {
                    (_, NONE) => None,
                    (start, end) => self.again(self.base + start as usize..self.base + end as usize, at),
                },
                Instruction::Split(_) | Instruction::Branch(_) | Instruction::Loop { .. } => {
                    match self.part_ways(program, state)? {
                        Some(first) => {
                            next = first;
                            Some(at)
                        }
                        None => None,
                    }
                }
            };
            let Some(after) = after else { return Ok(None) };
            state[PLACE] = self.offset(after)?;
            self.enter(program, state, next);
        }
    }

    /// Branches: returns the first path unless this state was seen before, and pushes the others.
    fn part_ways(&mut self, program: &PatternProgram, state: &mut [u32]) -> Result<Option<usize>, Exhausted> {
        let step = state[STEP] as usize;
        // Slots that are never read again must not distinguish states.
        for slot in (0..program.slots).filter(|slot| program.live[step] & (1 << slot) == 0) {
            state[SLOTS + 2 * slot..][..2].fill(NONE);
        }
        let mut is_counted = false;
        if let Instruction::Loop { counter, least, most, out } = program.steps[step] {
            let count = &mut state[SLOTS + 2 * program.slots + counter];
            if most.is_some_and(|most| *count >= most) {
                return Ok(Some(out));
            }
            // Without a maximum, counts matter only up to the minimum.
            is_counted = *count < most.unwrap_or(least);
            if *count < least {
                *count += 1;
                return Ok(Some(step + 1));
            }
        }
        let Some(index) = self.remembered.insert(state)? else { return Ok(None) };
        match &program.steps[step] {
            Instruction::Branch(ways) => {
                let Some((first, others)) = ways.split_first() else { return Ok(None) };
                self.left.extend(others.iter().rev().map(|way| (*way, index)));
                Ok(Some(*first))
            }
            Instruction::Loop { counter, out, .. } => {
                self.left.push((*out, index));
                state[SLOTS + 2 * program.slots + counter] += u32::from(is_counted);
                Ok(Some(step + 1))
            }
            Instruction::Split(out) => {
                self.left.push((*out, index));
                Ok(Some(step + 1))
            }
            _ => Ok(None),
        }
    }

    /// Consumes one character and returns the position after it.
    fn one(&self, step: &Instruction, at: usize) -> Option<usize> {
        let (first, length) = self.alphabet.first(&self.text[at..self.end])?;
        let is_in = match (step, first) {
            (Instruction::Set(Class::Unicode(set)), Ok(character)) => {
                let after = set.ranges().partition_point(|range| range.end() < character);
                set.ranges().get(after).is_some_and(|range| range.start() <= character)
            }
            (Instruction::Set(Class::Bytes(set)), _) => {
                set.iter().any(|range| (range.start()..=range.end()).contains(&self.text[at]))
            }
            (Instruction::Byte(byte), _) if self.text[at] == *byte => return Some(at + 1),
            _ => false,
        };
        is_in.then_some(at + length)
    }

    /// Consumes a repeat of a group's text and returns the position after it.
    fn again(&self, group: Range<usize>, at: usize) -> Option<usize> {
        let (text, rest) = (&self.text[group], &self.text[at..self.end]);
        if rest.starts_with(text) {
            return Some(at + text.len());
        }
        if !self.alphabet.ignore_case {
            return None;
        }
        let (mut left, mut after) = (text, at);
        while let Some((first, length)) = self.alphabet.first(left) {
            let (other, other_length) = self.alphabet.first(&self.text[after..self.end])?;
            let same = match (first, other) {
                (Ok(first), Ok(other)) if self.alphabet.utf8 => case::capital(first) == case::capital(other),
                (Ok(first), Ok(other)) => first.eq_ignore_ascii_case(&other),
                (first, other) => first == other,
            };
            if !same {
                return None;
            }
            left = &left[length..];
            after += other_length;
        }
        Some(after)
    }
}
