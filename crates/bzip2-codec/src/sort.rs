//! The Burrows-Wheeler transform: sorts the rotations of a block and keeps their last bytes.
//!
//! bzip2 sorts *rotations*, but *suffixes* are faster to sort. In a text that is its own least
//! rotation, both have the same order: where one suffix is a prefix of another, the rotation
//! continues with the start of the text, which is least, so the shorter one comes first either way.
//! So the block is rotated to its least rotation, its suffixes are sorted, and the row of the
//! original rotation is looked up.
//!
//! A suffix *rises* if it is less than the next one; otherwise it *falls*. A *low* is a rising
//! suffix after a falling one (LMS suffix in the literature). At most every second suffix is a low,
//! usually every third. The order of the lows induces that of all others in two passes over the
//! array (Ko and Aluru, "Space Efficient Linear Time Construction of Suffix Arrays", 2003). Lows
//! are sorted by the text up to the next low, and ties are broken by the ranks of the lows one,
//! two, four, ... further on (Larsson and Sadakane, "Faster Suffix Sorting", 1999). So a block of
//! `n` bytes takes at most `n log² n` steps, whatever its content.

use std::cmp::Ordering;
use std::ops::Range;

/// Bits of a low's number: a block has fewer than 900,000 bytes.
const NUMBER_BITS: u32 = 24;

/// Number of bytes after the first that form a low's sort key; they share a word with its number.
const KEY_BYTES: usize = 5;

/// A sorter with reusable memory.
#[derive(Default)]
pub(crate) struct Sorter {
    /// The block, rotated.
    text: Vec<u8>,
    /// The suffix array under construction. A positive entry is a position to induce from in this
    /// pass. A negative one is a complemented position that this pass skips.
    suffixes: Vec<i32>,
    lows: Lows,
}

impl Sorter {
    /// Transforms a block: writes the last bytes of its sorted rotations to `last`, and returns the
    /// row of the block itself.
    pub(crate) fn transform(&mut self, block: &[u8], last: &mut Vec<u8>) -> usize {
        last.clear();
        let Some(end) = block.len().checked_sub(1) else { return 0 };
        let turn = least_rotation(block);
        self.text.clear();
        self.text.extend_from_slice(&block[turn..]);
        self.text.extend_from_slice(&block[..turn]);
        self.suffixes.clear();
        self.suffixes.resize(block.len(), 0);
        let mut buckets = Buckets::of(&self.text);
        self.lows.sort(&self.text);
        buckets.go_to_ends();
        for &low in self.lows.sorted.iter().rev() {
            let place = self.lows.places[low as usize];
            self.suffixes[buckets.before(self.text[place as usize])] = place as i32;
        }
        induce(&self.text, &mut self.suffixes, &mut buckets);
        let began = if turn == 0 { 0 } else { block.len() - turn };
        let mut row = 0;
        last.extend(self.suffixes.iter().enumerate().map(|(index, &place)| {
            let place = place as usize;
            if place == began {
                row = index;
            }
            self.text[if place == 0 { end } else { place - 1 }]
        }));
        row
    }
}

/// Finds the start of the least rotation. Of two candidates, the greater one moves past everything
/// it has lost with.
fn least_rotation(block: &[u8]) -> usize {
    let length = block.len();
    let least = block.iter().min().copied().unwrap_or_default();
    // Only a rotation that begins with the least byte can be least.
    let from = |place: usize| match block.get(place..) {
        Some(rest) => rest.iter().position(|byte| *byte == least).map_or(length, |ahead| place + ahead),
        None => length,
    };
    let at = |place: usize| block[if place < length { place } else { place - length }];
    let mut one = from(0);
    let mut other = from(one + 1);
    let mut equal = 0;
    while one < length && other < length && equal < length {
        match at(one + equal).cmp(&at(other + equal)) {
            Ordering::Equal => {
                equal += 1;
                continue;
            }
            Ordering::Greater => one = from(one + equal + 1),
            Ordering::Less => other = from(other + equal + 1),
        }
        if one == other {
            other = from(other + 1);
        }
        equal = 0;
    }
    one.min(other)
}

/// The lows of a text, numbered in text order.
#[derive(Default)]
struct Lows {
    places: Vec<u32>,
    /// Numbers of the lows, in sorted order.
    sorted: Vec<u32>,
    /// Rank of each low: the last row in `sorted` of its group of ties.
    ranks: Vec<u32>,
    /// Row ranges of ties.
    alike: Vec<Range<u32>>,
    keys: Vec<u64>,
}

impl Lows {
    fn sort(&mut self, text: &[u8]) {
        self.find(text);
        self.sort_by_keys(text);
        let mut distance = 1;
        while !self.alike.is_empty() {
            self.refine(distance);
            distance *= 2;
        }
    }

    fn find(&mut self, text: &[u8]) {
        self.places.clear();
        // The last suffix falls, as if before an end mark less than all letters.
        let (mut next, mut next_falls) = (text[text.len() - 1], true);
        for place in (0..text.len() - 1).rev() {
            let letter = text[place];
            let falls = letter > next || (letter == next && next_falls);
            if falls && !next_falls {
                self.places.push(place as u32 + 1);
            }
            (next, next_falls) = (letter, falls);
        }
        self.places.reverse();
    }

    /// Sorts the lows by their substrings, most of them by a key of the first bytes.
    fn sort_by_keys(&mut self, text: &[u8]) {
        let mut counts = [0; 256];
        self.places.iter().for_each(|place| counts[usize::from(text[*place as usize])] += 1);
        self.keys.clear();
        self.keys.resize(self.places.len(), 0);
        let mut bounds = sums(&counts);
        for (number, &place) in self.places.iter().enumerate() {
            let bound = &mut bounds[usize::from(text[place as usize])];
            self.keys[*bound] = key(text, place as usize + 1) << NUMBER_BITS | number as u64;
            *bound += 1;
        }
        self.sorted.clear();
        self.sorted.resize(self.places.len(), 0);
        self.ranks.clear();
        self.ranks.resize(self.places.len(), 0);
        let mut start = 0;
        for end in bounds {
            self.keys[start..end].sort_unstable();
            self.take_keys(start..end, start);
            start = end;
        }
        for rows in std::mem::take(&mut self.alike) {
            self.compare_rest(text, rows);
        }
    }

    /// Splits rows with equal keys by their whole substrings.
    fn compare_rest(&mut self, text: &[u8], rows: Range<u32>) {
        let Self { places, sorted, ranks, alike, .. } = self;
        let substrings = Substrings { text, places };
        let group = &mut sorted[rows.start as usize..rows.end as usize];
        if substrings.are_in_key(group) {
            return alike.push(rows);
        }
        group.sort_unstable_by(|one, other| substrings.compare(*one, *other));
        let mut start = rows.start;
        for part in group.chunk_by(|one, other| substrings.compare(*one, *other) == Ordering::Equal) {
            let end = start + part.len() as u32;
            part.iter().for_each(|low| ranks[*low as usize] = end - 1);
            if part.len() > 1 {
                alike.push(start..end);
            }
            start = end;
        }
    }

    /// Breaks ties by the ranks of the lows `distance` further on.
    fn refine(&mut self, distance: usize) {
        for Range { start, end } in std::mem::take(&mut self.alike) {
            let rows = start as usize..end as usize;
            self.keys.clear();
            self.keys.extend(self.sorted[rows].iter().map(|&low| {
                // Only the last low has none after it, and it is never in a tie.
                let rank = self.ranks.get(low as usize + distance).copied().unwrap_or_default();
                u64::from(rank) << NUMBER_BITS | u64::from(low)
            }));
            self.keys.sort_unstable();
            self.take_keys(0..(end - start) as usize, start as usize);
        }
    }

    /// Copies the order of some rows, starting at `row`, from sorted keys, and records ties.
    fn take_keys(&mut self, keys: Range<usize>, row: usize) {
        let mut start = row;
        for part in self.keys[keys].chunk_by(|one, other| one >> NUMBER_BITS == other >> NUMBER_BITS) {
            let end = start + part.len();
            for (row, key) in (start..end).zip(part) {
                let low = (key & ((1 << NUMBER_BITS) - 1)) as u32;
                self.sorted[row] = low;
                self.ranks[low as usize] = end as u32 - 1;
            }
            if part.len() > 1 {
                self.alike.push(start as u32..end as u32);
            }
            start = end;
        }
    }
}

/// The text between consecutive lows.
#[derive(Clone, Copy)]
struct Substrings<'t> {
    text: &'t [u8],
    places: &'t [u32],
}

impl<'t> Substrings<'t> {
    /// Returns the text from a low up to and including the next low's first byte, and true if there
    /// is a next low.
    fn get(self, low: u32) -> (&'t [u8], bool) {
        let start = self.places[low as usize] as usize;
        match self.places.get(low as usize + 1) {
            Some(next) => (&self.text[start..=*next as usize], true),
            None => (&self.text[start..], false),
        }
    }

    /// True if lows with equal keys have equal substrings.
    fn are_in_key(self, lows: &[u32]) -> bool {
        let length = self.get(lows[0]).0.len();
        length <= 1 + KEY_BYTES
            && lows.iter().all(|low| matches!(self.get(*low), (text, true) if text.len() == length))
    }

    /// Compares lows by their substrings. If one is a prefix of the other, both continue with the
    /// same letter, but the suffix after the shorter one rises and is therefore greater, unless the
    /// text ends.
    fn compare(self, one: u32, other: u32) -> Ordering {
        let ((first, first_goes_on), (second, second_goes_on)) = (self.get(one), self.get(other));
        let shared = first.len().min(second.len());
        first[..shared].cmp(&second[..shared]).then_with(|| match (first_goes_on, second_goes_on) {
            (true, true) => second.len().cmp(&first.len()),
            _ => first_goes_on.cmp(&second_goes_on),
        })
    }
}

/// Returns the [`KEY_BYTES`] bytes at a position as a number, zero-padded at the end.
fn key(text: &[u8], place: usize) -> u64 {
    let bytes = match text[place..].first_chunk::<8>() {
        Some(bytes) => *bytes,
        None => {
            let mut bytes = [0; 8];
            bytes[..text.len() - place].copy_from_slice(&text[place..]);
            bytes
        }
    };
    u64::from_be_bytes(bytes) >> (64 - 8 * KEY_BYTES)
}

/// Returns the exclusive prefix sums of the counts.
fn sums(counts: &[usize; 256]) -> [usize; 256] {
    let mut sum = 0;
    counts.map(|count| {
        sum += count;
        sum - count
    })
}

/// Ranges of the suffixes that begin with each letter.
struct Buckets {
    starts: [usize; 256],
    counts: [usize; 256],
    bounds: [usize; 256],
}

impl Buckets {
    fn of(text: &[u8]) -> Self {
        let mut counts = [0; 256];
        text.iter().for_each(|letter| counts[usize::from(*letter)] += 1);
        let starts = sums(&counts);
        Self { starts, counts, bounds: starts }
    }

    fn go_to_starts(&mut self) {
        self.bounds = self.starts;
    }

    fn go_to_ends(&mut self) {
        self.bounds = std::array::from_fn(|letter| self.starts[letter] + self.counts[letter]);
    }

    /// Allocates the next row from the start of a letter's bucket.
    fn next(&mut self, letter: u8) -> usize {
        let bound = &mut self.bounds[usize::from(letter)];
        *bound += 1;
        *bound - 1
    }

    /// Allocates the next row from the end of a letter's bucket.
    fn before(&mut self, letter: u8) -> usize {
        let bound = &mut self.bounds[usize::from(letter)];
        *bound -= 1;
        *bound
    }
}

/// Induces the order of all suffixes from the lows, which are at the ends of their buckets: falling
/// suffixes in an upward pass, then rising ones in a downward pass.
fn induce(text: &[u8], array: &mut [i32], buckets: &mut Buckets) {
    buckets.go_to_starts();
    let last = text.len() - 1;
    let rises_before = last > 0 && text[last - 1] < text[last];
    array[buckets.next(text[last])] = if rises_before { !(last as i32) } else { last as i32 };
    for index in 0..array.len() {
        let place = array[index];
        array[index] = !place;
        if place > 0 {
            let letter = text[place as usize - 1];
            let rises_before = place > 1 && text[place as usize - 2] < letter;
            array[buckets.next(letter)] = if rises_before { !(place - 1) } else { place - 1 };
        }
    }
    buckets.go_to_ends();
    for index in (0..array.len()).rev() {
        let place = array[index];
        if place > 0 {
            let letter = text[place as usize - 1];
            let falls_before = place == 1 || text[place as usize - 2] > letter;
            array[buckets.before(letter)] = if falls_before { !(place - 1) } else { place - 1 };
        } else {
            array[index] = !place;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reference implementation: sorts the rotations one by one.
    fn plainly(block: &[u8]) -> Vec<u8> {
        let doubled = [block, block].concat();
        let mut rows: Vec<_> = (0..block.len()).collect();
        rows.sort_by_key(|&row| &doubled[row..row + block.len()]);
        rows.into_iter().map(|row| doubled[row + block.len() - 1]).collect()
    }

    /// Inverts the transform by its definition.
    fn back(last: &[u8], row: usize) -> Vec<u8> {
        let mut order: Vec<_> = (0..last.len()).collect();
        order.sort_by_key(|&index| last[index]);
        let mut row = row;
        let mut follow = || {
            row = order[row];
            last[row]
        };
        (0..last.len()).map(|_| follow()).collect()
    }

    fn check(block: &[u8]) {
        let mut last = Vec::new();
        let row = Sorter::default().transform(block, &mut last);
        assert_eq!(last, plainly(block), "{block:?}");
        assert_eq!(back(&last, row), block, "{block:?}");
    }

    #[test]
    fn all_short_blocks_of_three_letters_are_transformed() {
        for length in 1..=9 {
            for number in 0..3_usize.pow(length) {
                let block: Vec<_> =
                    (0..length).map(|digit| (number / 3_usize.pow(digit) % 3) as u8).collect();
                check(&block);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn blocks_of_few_letters_are_transformed(block in prop::collection::vec(0..4_u8, 1..200)) {
            check(&block);
        }

        #[test]
        fn any_blocks_are_transformed(block in prop::collection::vec(any::<u8>(), 1..300)) {
            check(&block);
        }

        #[test]
        fn repetitions_are_transformed(word in prop::collection::vec(0..3_u8, 1..9), times in 1..40_usize) {
            check(&word.repeat(times));
        }
    }
}
