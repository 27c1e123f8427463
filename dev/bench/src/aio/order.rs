//! The order in which the records of a file are processed.
//!
//! Promises: every record comes exactly once; the same (seed, round) pair gives the same order on
//! every machine.

use crate::aio::settings::AccessPattern;
use crate::noise::Noise;

/// Separates the streams of random orders from those of the records' contents, which start at 0.
const STREAMS: u64 = 1 << 32;

/// An order of the records `0..count`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordOrder {
    count: u32,
    /// The record at each position; not needed for a sequential order.
    shuffled: Option<Vec<u32>>,
}

impl RecordOrder {
    pub(crate) fn new(pattern: AccessPattern, count: u32, seed: u64, round: u32) -> RecordOrder {
        let shuffled = match pattern {
            AccessPattern::Sequential => None,
            AccessPattern::Random => Some(shuffle(count, Noise::new(seed, STREAMS + u64::from(round)))),
        };
        RecordOrder { count, shuffled }
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Returns the record at `position`, counted from 0, or `None` after the last.
    pub(crate) fn record(&self, position: u32) -> Option<u32> {
        match &self.shuffled {
            Some(shuffled) => shuffled.get(position as usize).copied(),
            None => (position < self.count).then_some(position),
        }
    }
}

/// Shuffles the numbers `0..count` (Durstenfeld's version of the Fisher-Yates shuffle).
fn shuffle(count: u32, mut noise: Noise) -> Vec<u32> {
    let mut records: Vec<u32> = (0..count).collect();
    for last in (1..records.len()).rev() {
        let mut word = [0; 8];
        noise.fill(&mut word);
        // The multiplication is biased by one in 2^37: it maps 64 random bits to at most
        // 2^27 places.
        let chosen = (u128::from(u64::from_le_bytes(word)) * (last as u128 + 1)) >> 64;
        records.swap(last, chosen as usize);
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(order: &RecordOrder) -> Vec<u32> {
        (0..=order.count()).filter_map(|position| order.record(position)).collect()
    }

    #[test]
    fn every_order_takes_each_record_once() {
        for pattern in [AccessPattern::Sequential, AccessPattern::Random] {
            for count in [1, 2, 3, 16, 1_000] {
                let mut records = taken(&RecordOrder::new(pattern, count, 7, 0));
                if pattern == AccessPattern::Random && count == 1_000 {
                    assert!(!records.is_sorted());
                }
                records.sort_unstable();
                assert_eq!(records, (0..count).collect::<Vec<u32>>(), "{pattern:?} {count}");
            }
        }
    }

    #[test]
    fn sequential_is_sequential() {
        assert_eq!(taken(&RecordOrder::new(AccessPattern::Sequential, 5, 7, 3)), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn seeds_and_rounds_make_orders_and_nothing_else_does() {
        let order = |seed, round| taken(&RecordOrder::new(AccessPattern::Random, 100, seed, round));
        assert_eq!(order(1, 0), order(1, 0));
        assert_ne!(order(1, 0), order(1, 1));
        assert_ne!(order(1, 0), order(2, 0));
    }

    #[test]
    fn every_place_is_as_likely() {
        // Record 0 of 4 in 4,000 orders: each position 1,000 times, within five
        // standard deviations.
        let mut places = [0_i32; 4];
        for seed in 0..4_000 {
            let order = RecordOrder::new(AccessPattern::Random, 4, seed, 0);
            let place = (0..4).find(|position| order.record(*position) == Some(0)).unwrap();
            places[place as usize] += 1;
        }
        assert!(places.iter().all(|count| (count - 1_000).abs() < 137), "{places:?}");
    }
}
