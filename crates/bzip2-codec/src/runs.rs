//! The outer run-length encoding, applied first and undone last: four equal bytes are followed by a
//! count of how many more there are.

/// Number of equal bytes after which a count follows.
const RUN: usize = 4;

/// Maximum value of a count.
const MORE_MAX: usize = 255;

/// The block ends after four equal bytes, without their count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoCount;

/// Returns the start of the next four equal bytes.
fn next_run(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    // Tests eight positions at once: a zero byte in `different` marks the start of a run.
    while let Some(window) = bytes[at..].first_chunk::<{ 8 + RUN - 1 }>() {
        let word = |from: usize| {
            u64::from_le_bytes([
                window[from],
                window[from + 1],
                window[from + 2],
                window[from + 3],
                window[from + 4],
                window[from + 5],
                window[from + 6],
                window[from + 7],
            ])
        };
        let (zero, one, two, three) = (word(0), word(1), word(2), word(3));
        let different = (zero ^ one) | (one ^ two) | (two ^ three);
        let zeros = different.wrapping_sub(0x0101_0101_0101_0101) & !different & 0x8080_8080_8080_8080;
        if zeros != 0 {
            return Some(at + zeros.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    bytes[at..].windows(RUN).position(|four| four.iter().all(|byte| *byte == four[0])).map(|place| at + place)
}

/// Returns the length of the run at the start, up to `most`.
fn equal(bytes: &[u8], most: usize) -> usize {
    bytes.iter().take(most).take_while(|byte| **byte == bytes[0]).count()
}

/// Returns how many input bytes fit into `room` encoded bytes, and how many encoded bytes
/// they take.
pub fn fitting(bytes: &[u8], room: usize) -> (usize, usize) {
    let (mut at, mut taken) = (0, 0);
    loop {
        let plain = next_run(&bytes[at..]).unwrap_or(bytes.len() - at);
        if taken + plain > room || at + plain == bytes.len() {
            let plain = plain.min(room - taken);
            return (at + plain, taken + plain);
        }
        (at, taken) = (at + plain, taken + plain);
        if taken + RUN + 1 > room {
            return (at, taken);
        }
        at += equal(&bytes[at..], RUN + MORE_MAX);
        taken += RUN + 1;
    }
}

/// Encodes bytes and appends them to `block`.
pub fn count(bytes: &[u8], block: &mut Vec<u8>) {
    let mut rest = bytes;
    while let Some(at) = next_run(rest) {
        let run = equal(&rest[at..], RUN + MORE_MAX);
        block.extend_from_slice(&rest[..at + RUN]);
        block.push((run - RUN) as u8);
        rest = &rest[at + run..];
    }
    block.extend_from_slice(rest);
}

/// Decodes a block and passes on the content in parts.
///
/// # Errors
///
/// If the last count is missing. Everything before it has been passed on.
pub fn expand(block: &[u8], take: &mut impl FnMut(&[u8])) -> Result<(), NoCount> {
    let mut rest = block;
    while let Some(at) = next_run(rest) {
        take(&rest[..at + RUN]);
        let more = *rest.get(at + RUN).ok_or(NoCount)?;
        if more > 0 {
            take(&[rest[at]; MORE_MAX][..usize::from(more)]);
        }
        rest = &rest[at + RUN + 1..];
    }
    take(rest);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn runs() -> impl Strategy<Value = Vec<u8>> {
        let lengths = prop_oneof![1..4_usize, 4..6_usize, 250..270_usize, 500..530_usize];
        prop::collection::vec((0..3_u8, lengths), 0..12)
            .prop_map(|runs| runs.into_iter().flat_map(|(byte, times)| vec![byte; times]).collect())
    }

    fn expanded(block: &[u8]) -> Result<Vec<u8>, NoCount> {
        let mut bytes = Vec::new();
        expand(block, &mut |more| bytes.extend_from_slice(more))?;
        Ok(bytes)
    }

    #[test]
    fn a_run_is_counted_from_four_on() {
        let counted = |bytes: &[u8]| {
            let mut block = Vec::new();
            count(bytes, &mut block);
            block
        };
        assert_eq!(counted(b"aaab"), b"aaab");
        assert_eq!(counted(b"aaaab"), b"aaaa\0b");
        assert_eq!(counted(&[b'a'; 260]), b"aaaa\xffa");
    }

    #[test]
    fn a_missing_count_is_an_error() {
        assert_eq!(expanded(b"baaaa"), Err(NoCount));
        assert_eq!(expanded(b"aaaaaaaaa"), Err(NoCount));
    }

    proptest! {
        #[test]
        fn what_is_counted_is_expanded(bytes in runs(), before in runs()) {
            let mut block = before.clone();
            count(&bytes, &mut block);
            prop_assert_eq!(expanded(&block[before.len()..]), Ok(bytes));
        }

        #[test]
        fn as_much_fits_as_is_said(bytes in runs(), room in 0..60_usize) {
            let (fits, takes) = fitting(&bytes, room);
            let mut block = Vec::new();
            count(&bytes[..fits], &mut block);
            prop_assert_eq!(block.len(), takes);
            prop_assert!(takes <= room && (fits == bytes.len() || takes + 5 > room));
        }
    }
}
