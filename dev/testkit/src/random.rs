//! The random generator of the tests, and its seed.
//!
//! Tests draw from [`Random`] and from nothing else, so that a printed seed repeats a failure.
//! Generators that the product itself needs (names, the simulated cluster) are not this one.

use std::fmt;

use rand::SeedableRng;
use rand::rngs::StdRng;

pub use rand::Rng;
pub use rand::seq::{IndexedRandom, SliceRandom};

/// The generator.
pub type Random = StdRng;

/// Creates the generator for a seed.
pub fn seeded(seed: u64) -> Random {
    Random::seed_from_u64(seed)
}

/// Returns the seed of a test run and prints it: `HAUL_SEED`, or else `usual`. Without a usual
/// seed, or with `HAUL_SEED=new`, every run gets another one.
pub fn seed(test: impl fmt::Display, usual: Option<u64>) -> u64 {
    let given = std::env::var("HAUL_SEED").ok();
    let seed = match given.as_deref() {
        Some("new") => None,
        Some(text) => text.parse().ok().or(usual),
        None => usual,
    };
    let seed = seed.unwrap_or_else(|| rand::random::<u32>().into());
    crate::note!("{test}: HAUL_SEED={seed}");
    seed
}

/// Generates `length` bytes, none of them zero, so that they aren't taken for a hole.
pub fn bytes(seed: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    seeded(seed).fill(&mut bytes[..]);
    bytes.iter_mut().for_each(|byte| *byte |= 1);
    bytes
}

/// Picks `count` items at random, spread over the groups: none gives a second item before every
/// other one has given its first.
pub fn choose<T>(mut groups: Vec<Vec<T>>, count: usize, random: &mut Random) -> Vec<T> {
    groups.shuffle(random);
    groups.iter_mut().for_each(|group| group.shuffle(random));
    let mut chosen = Vec::new();
    while !groups.is_empty() {
        groups.retain_mut(|group| {
            chosen.extend(group.pop());
            !group.is_empty()
        });
    }
    chosen.truncate(count);
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_spread_and_repeats_with_its_seed() {
        let groups = || vec![vec![10, 11, 12], vec![20], vec![30, 31]];
        for seed in 0..20 {
            let chosen = choose(groups(), 4, &mut seeded(seed));
            assert_eq!(chosen, choose(groups(), 4, &mut seeded(seed)));
            let mut first: Vec<_> = chosen[..3].iter().map(|item| item / 10).collect();
            first.sort_unstable();
            assert_eq!(first, [1, 2, 3], "seed {seed}");
            assert_ne!(chosen[3] / 10, 2, "seed {seed}");
        }
        assert_eq!(choose(groups(), 100, &mut seeded(1)).len(), 6);
    }

    #[test]
    fn bytes_are_no_hole_and_differ_by_seed() {
        assert!(bytes(7, 5000).iter().all(|byte| *byte != 0));
        assert_eq!(bytes(7, 5000)[..100], bytes(7, 100));
        assert_ne!(bytes(7, 100), bytes(8, 100));
    }
}
