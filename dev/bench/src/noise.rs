//! File contents: one stream of pseudo-random bytes per file.
//!
//! The generator is xoshiro256++ (Blackman and Vigna, "Scrambled Linear Pseudorandom Number
//! Generators", 2019), seeded with splitmix64 as its authors advise. It is implemented here because
//! a workload must have the same bytes on every machine and in every later release; the small
//! generators of the usual crate guarantee neither.
//!
//! Promises: the same (seed, stream) pair always gives the same bytes, however the stream is split
//! into slices, provided that all slices but the last are multiples of eight bytes. Not
//! cryptographically secure.

pub(crate) struct Noise {
    state: [u64; 4],
}

impl Noise {
    /// Starts stream number `stream` of the workload seeded with `seed`.
    pub(crate) fn new(seed: u64, stream: u64) -> Noise {
        // Mix the two numbers one after the other, so that stream 1 of seed 0 and stream 0 of seed
        // 1 are unrelated.
        let mut mixer = seed;
        let mut mixer = split_mix(&mut mixer) ^ stream;
        Noise { state: std::array::from_fn(|_| split_mix(&mut mixer)) }
    }

    pub(crate) fn fill(&mut self, out: &mut [u8]) {
        let mut words = out.chunks_exact_mut(8);
        for word in &mut words {
            word.copy_from_slice(&self.next().to_le_bytes());
        }
        let tail = words.into_remainder();
        if !tail.is_empty() {
            let last = self.next().to_le_bytes();
            tail.copy_from_slice(&last[..tail.len()]);
        }
    }

    pub(crate) fn next(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let c = c ^ a;
        let d = d ^ b;
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published first outputs of xoshiro256++ from the state 1, 2, 3, 4.
    #[test]
    fn is_xoshiro256_plus_plus() {
        let mut noise = Noise { state: [1, 2, 3, 4] };
        let first: Vec<u64> = (0..6).map(|_| noise.next()).collect();
        assert_eq!(
            first,
            [
                41_943_041,
                58_720_359,
                3_588_806_011_781_223,
                3_591_011_842_654_386,
                9_228_616_714_210_784_205,
                9_973_669_472_204_895_162,
            ]
        );
    }

    #[test]
    fn slices_of_whole_words_do_not_change_the_stream() {
        let mut whole = [0; 100];
        Noise::new(7, 3).fill(&mut whole);
        let mut parts = [0; 100];
        let mut noise = Noise::new(7, 3);
        noise.fill(&mut parts[..64]);
        noise.fill(&mut parts[64..]);
        assert_eq!(whole, parts);
    }

    #[test]
    fn seeds_and_streams_differ() {
        let bytes = |seed, stream| {
            let mut out = [0; 32];
            Noise::new(seed, stream).fill(&mut out);
            out
        };
        assert_ne!(bytes(0, 1), bytes(1, 0));
        assert_ne!(bytes(1, 1), bytes(1, 2));
        assert_ne!(bytes(1, 1), bytes(2, 1));
    }
}
