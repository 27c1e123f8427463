//! A move-to-front list of bytes. Sixteen share a word, so finding or moving one takes a few steps.

const WORD: usize = 16;

/// The value one in each byte.
const ONES: u128 = u128::MAX / 255;

/// A list of bytes, most recent first.
pub(crate) struct Recent([u128; 256 / WORD]);

impl Recent {
    /// Creates a list of at most 256 bytes in the given order.
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let mut words = [0; 256 / WORD];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks(WORD)) {
            *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u128::from(*byte));
        }
        Self(words)
    }

    pub(crate) fn first(&self) -> u8 {
        self.0[0] as u8
    }

    /// Moves the byte at an index below 256 to the front, and returns it.
    pub(crate) fn take(&mut self, number: usize) -> u8 {
        let byte = (self.0[number / WORD] >> (number % WORD * 8)) as u8;
        self.move_to_front(byte, number);
        byte
    }

    /// Moves a byte to the front, and returns its old index. The byte must be in the list.
    pub(crate) fn find(&mut self, byte: u8) -> usize {
        let wanted = ONES * u128::from(byte);
        for (index, word) in self.0.iter().enumerate() {
            let differs = word ^ wanted;
            // The lowest bit is exact: a borrow can only set higher ones.
            let equals = differs.wrapping_sub(ONES) & !differs & ONES << 7;
            if equals != 0 {
                let number = index * WORD + equals.trailing_zeros() as usize / 8;
                self.move_to_front(byte, number);
                return number;
            }
        }
        0
    }

    fn move_to_front(&mut self, byte: u8, number: usize) {
        let mut moved = byte;
        for word in &mut self.0[..number / WORD] {
            let next = (*word >> 120) as u8;
            *word = *word << 8 | u128::from(moved);
            moved = next;
        }
        let word = &mut self.0[number / WORD];
        let moves = u128::MAX >> (120 - number % WORD * 8);
        *word = *word & !moves | (*word << 8 | u128::from(moved)) & moves;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bytes_move_to_the_front(bytes in prop::collection::hash_set(any::<u8>(), 1..=256), numbers in prop::collection::vec(any::<u8>(), 0..99)) {
            let mut plain: Vec<_> = bytes.into_iter().collect();
            let (mut taken, mut found) = (Recent::new(&plain), Recent::new(&plain));
            for number in numbers {
                let number = usize::from(number) % plain.len();
                let byte = plain.remove(number);
                plain.insert(0, byte);
                prop_assert_eq!(taken.take(number), byte);
                prop_assert_eq!(found.find(byte), number);
                prop_assert_eq!((taken.first(), found.first()), (byte, byte));
            }
        }
    }
}
