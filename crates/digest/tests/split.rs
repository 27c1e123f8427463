//! The hash of a file doesn't depend on how its content was cut, in which order the blocks came, or
//! which process hashed them.
//!
//! A full run (`HAUL_FULL=1`) tries 10,000 random cases, others 1,000.

#![allow(clippy::unwrap_used)]

use std::sync::LazyLock;

use haul_digest::{Algorithm, PIECE_BYTES, Pieces, Subtrees, TreeHash};
use haul_testkit::needs;
use proptest::prelude::*;
use proptest::sample::Index;

const CONTENT_BYTES: usize = 6 << 20;

/// Content without repetitions that a wrong offset could hide behind.
static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(next).take(CONTENT_BYTES / 8).flatten().collect()
});

fn cases() -> ProptestConfig {
    ProptestConfig::with_cases(if needs::is_full_run() { 10_000 } else { 1_000 })
}

fn expected(content: &[u8]) -> String {
    blake3::hash(content).to_string()
}

/// Sizes around those at which the tree changes, and others.
fn sizes() -> impl Strategy<Value = usize> {
    let edges = [0, 1, 1023, 1024, 1025, 2047, 2048, 2049, 3072, 4096, 1 << 20, 2 << 20, 4 << 20];
    prop_oneof![
        2 => (prop::sample::select(edges.to_vec()), 0usize..3)
            .prop_map(|(edge, more)| (edge + more).saturating_sub(1)),
        6 => 0usize..20_000,
        2 => 0usize..600_000,
        1 => 0usize..CONTENT_BYTES,
    ]
}

/// A file in blocks, in the order in which they come.
#[derive(Clone, Debug)]
struct Case {
    size: usize,
    blocks: Vec<(usize, usize)>,
}

impl Case {
    fn content(&self) -> &'static [u8] {
        &CONTENT[..self.size]
    }

    fn insert(&self, hash: &TreeHash, number: usize) {
        let (start, end) = self.blocks[number];
        hash.insert(start as u64, &self.content()[start..end]);
    }
}

/// Cuts at any position, or at multiples of a power of two.
fn cases_of(cuts_max: usize) -> impl Strategy<Value = Case> {
    let cuts = prop::collection::vec(any::<Index>(), 0..cuts_max);
    (sizes(), cuts, prop_oneof![Just(0u32), Just(10), 6u32..21]).prop_flat_map(|(size, cuts, alignment)| {
        let cut = |index: Index| index.index(size + 1) >> alignment << alignment;
        let mut cuts: Vec<_> = [0, size].into_iter().chain(cuts.into_iter().map(cut)).collect();
        cuts.sort_unstable();
        let blocks: Vec<_> = cuts.windows(2).map(|pair| (pair[0], pair[1])).collect();
        Just(blocks).prop_shuffle().prop_map(move |blocks| Case { size, blocks })
    })
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn any_split_in_any_order_gives_the_hash_of_the_whole(case in cases_of(40)) {
        let hash = TreeHash::new();
        (0..case.blocks.len()).for_each(|number| case.insert(&hash, number));
        let digest = hash.finish(case.size as u64).unwrap();
        prop_assert_eq!(digest.to_string(), expected(case.content()));
        prop_assert_eq!(digest, Algorithm::Blake3.hash(case.content()));
    }

    #[test]
    fn what_is_left_out_is_zeros(case in cases_of(20), kinds in prop::collection::vec(0..3, 22)) {
        let mut content = case.content().to_vec();
        let (hash, with_pieces) = (TreeHash::new(), TreeHash::with_pieces());
        for (number, &(start, end)) in case.blocks.iter().enumerate() {
            match kinds[number] {
                0 => [&hash, &with_pieces].into_iter().for_each(|hash| case.insert(hash, number)),
                kind => {
                    content[start..end].fill(0);
                    let range = start as u64..end as u64;
                    if kind == 1 {
                        hash.insert_zeros(range.clone());
                        with_pieces.insert_zeros(range);
                    }
                }
            }
        }
        let digest = hash.finish(case.size as u64).unwrap();
        prop_assert_eq!(digest.to_string(), expected(&content));
        prop_assert_eq!(with_pieces.finish(case.size as u64), Some(digest));
        prop_assert_eq!(with_pieces.finish_pieces(case.size as u64).unwrap().unwrap().digest(), digest);
    }

    #[test]
    fn partial_hashes_are_merged_in_any_order(
        case in cases_of(30), owners in prop::collection::vec(0usize..4, 32), order in Just([0, 1, 2, 3]).prop_shuffle(),
        pieces in any::<bool>(),
    ) {
        let ranks: Vec<_> = (0..4).map(|_| new_tree(pieces)).collect();
        (0..case.blocks.len()).for_each(|number| case.insert(&ranks[owners[number]], number));
        let leader = new_tree(pieces);
        for rank in order {
            let sent = postcard::to_allocvec(&ranks[rank].take()).unwrap();
            leader.merge(postcard::from_bytes(&sent).unwrap()).unwrap();
        }
        prop_assert_eq!(leader.finish(case.size as u64).unwrap().to_string(), expected(case.content()));
    }

    #[test]
    fn blocks_may_come_twice_and_overlap(case in cases_of(12), more in prop::collection::vec(any::<(Index, Index)>(), 0..12)) {
        let hash = TreeHash::new();
        let mut more = more.into_iter();
        for number in 0..case.blocks.len() {
            case.insert(&hash, number);
            if let Some((one, other)) = more.next() {
                let (one, other) = (one.index(case.size + 1), other.index(case.size + 1));
                let (start, end) = (one.min(other), one.max(other));
                hash.insert(start as u64, &case.content()[start..end]);
            }
        }
        prop_assert_eq!(hash.finish(case.size as u64).unwrap().to_string(), expected(case.content()));
    }

    #[test]
    fn damaged_subtrees_never_break_a_hash(
        case in cases_of(6), pieces in any::<bool>(), damage in prop::collection::vec((any::<Index>(), any::<u8>()), 0..4),
        length in any::<u16>(),
    ) {
        let (hash, sender) = (new_tree(pieces), new_tree(pieces));
        (0..case.blocks.len()).skip(1).for_each(|number| case.insert(&sender, number));
        let mut sent = postcard::to_allocvec(&sender.take()).unwrap();
        for (index, byte) in damage {
            *index.get_mut(&mut sent) = byte;
        }
        hash.insert(0, &CONTENT[..5000]);
        if let Ok(subtrees) = postcard::from_bytes::<Subtrees>(&sent)
            && hash.merge(subtrees).is_err()
        {
            prop_assert_eq!(hash.finish(5000).unwrap().to_string(), expected(&CONTENT[..5000]));
        }
        // Hashing a large hole takes long, so only a short file is finished. It may have no hash.
        let digest = hash.finish(length.into());
        prop_assert!(digest.is_none() || length >= 5000);
    }
}

fn new_tree(pieces: bool) -> TreeHash {
    if pieces { TreeHash::with_pieces() } else { TreeHash::new() }
}

fn pieces_of(content: &[u8], block: usize) -> Option<Pieces> {
    let hash = TreeHash::with_pieces();
    for (number, part) in content.chunks(block).enumerate().collect::<Vec<_>>().into_iter().rev() {
        hash.insert((number * block) as u64, part);
    }
    hash.finish_pieces(content.len() as u64).unwrap()
}

#[test]
fn pieces_say_where_contents_differ() {
    let size = 3 * PIECE_BYTES as usize + 5;
    let mut content = CONTENT[..size].to_vec();
    let pieces = pieces_of(&content, 7777).unwrap();
    assert_eq!(pieces, pieces_of(&content, 1 << 19).unwrap());
    assert_eq!(pieces.digest().to_string(), expected(&content));
    assert_eq!(pieces.mismatches(&pieces).next(), None);
    content[PIECE_BYTES as usize + 1] ^= 1;
    content[size - 1] ^= 1;
    let other = pieces_of(&content, 4096).unwrap();
    let wrong: Vec<_> = pieces.mismatches(&other).collect();
    assert_eq!(wrong, [PIECE_BYTES..2 * PIECE_BYTES, 3 * PIECE_BYTES..size as u64]);
    let shorter = pieces_of(&CONTENT[..2 * PIECE_BYTES as usize], 4096).unwrap();
    let wrong: Vec<_> = pieces.mismatches(&shorter).collect();
    assert_eq!(wrong, [2 * PIECE_BYTES..3 * PIECE_BYTES, 3 * PIECE_BYTES..size as u64]);
}

#[test]
fn a_piece_is_distinguished_from_any_other_without_the_rest_of_the_file() {
    let piece = PIECE_BYTES as usize;
    // A range in the middle, the first one, and a last one that ends anywhere.
    for (start, end) in [(2 * piece, 4 * piece), (0, piece), (3 * piece, 4 * piece + 777), (0, 5)] {
        let hash = TreeHash::with_pieces();
        for offset in (start..end).step_by(12_345) {
            hash.insert(offset as u64, &CONTENT[offset..end.min(offset + 12_345)]);
        }
        for first in (start..end).step_by(piece) {
            let mut bytes = CONTENT[first..end.min(first + piece)].to_vec();
            assert!(hash.has_piece(first as u64, &bytes), "{start}..{end} {first}");
            assert!(!hash.has_piece(first as u64, &bytes[1..]), "{start}..{end} {first}");
            for changed in [0, bytes.len() / 2, bytes.len() - 1] {
                bytes[changed] ^= 1;
                assert!(!hash.has_piece(first as u64, &bytes), "{start}..{end} {first} {changed}");
                bytes[changed] ^= 1;
            }
        }
    }
}

#[test]
fn pieces_and_whole_hashes_agree_at_every_edge() {
    for edge in [0, 1, 1024, 2048, 1 << 20, 2 << 20, 3 << 20, 5 << 20] {
        for size in [edge - 1, edge, edge + 1].into_iter().filter(|size| *size >= 0) {
            let content = &CONTENT[..size as usize];
            let pieces = pieces_of(content, 100_000).unwrap();
            assert_eq!(pieces.digest().to_string(), expected(content), "{size}");
            assert_eq!(pieces.length(), size as u64);
        }
    }
}

#[test]
fn threads_hash_one_file_together() {
    let hash = TreeHash::new();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let hash = &hash;
            scope.spawn(move || {
                let parts = CONTENT.chunks(50_001).enumerate().filter(|(number, _)| number % 4 == thread);
                parts.for_each(|(number, part)| hash.insert(number as u64 * 50_001, part));
            });
        }
    });
    assert_eq!(hash.finish(CONTENT.len() as u64).unwrap().to_string(), expected(&CONTENT));
}

#[test]
fn bytes_after_the_end_leave_no_hash() {
    for size in [0, 1024, 1025, 3 << 20] {
        let hash = TreeHash::with_pieces();
        hash.insert(0, &CONTENT[..size + 1]);
        assert_eq!(hash.finish(size as u64), None);
        assert_eq!(hash.finish_pieces(size as u64), Ok(None));
    }
}

#[test]
fn a_hash_read_in_order_stays_small() {
    let hash = TreeHash::new();
    for (number, part) in CONTENT.chunks(256 << 10).enumerate() {
        hash.insert(number as u64 * (256 << 10), part);
    }
    let sent = postcard::to_allocvec(&hash.take()).unwrap();
    assert!(sent.len() < 2048, "{}", sent.len());
}

/// Pieces that were hashed before are as good as their bytes, in any mixture.
#[test]
fn pieces_may_be_added_by_their_values() {
    let size = 5 * PIECE_BYTES as usize + 77;
    let content = &CONTENT[..size];
    let piece =
        |number: usize| number * PIECE_BYTES as usize..((number + 1) * PIECE_BYTES as usize).min(size);
    let before = TreeHash::with_pieces();
    before.insert(0, content);
    let values = before.pieces_in(0..size as u64);
    assert_eq!(values.len(), 6);
    for by_value in 0..1 << 5_u32 {
        let hash = TreeHash::with_pieces();
        for number in 0..6 {
            match by_value >> number & 1 == 1 {
                true => hash.insert_pieces(piece(number).start as u64, &values[number..=number]),
                false => hash.insert(piece(number).start as u64, &content[piece(number)]),
            }
        }
        let pieces = hash.finish_pieces(size as u64).unwrap().unwrap();
        assert_eq!(pieces.digest().to_string(), expected(content), "{by_value:b}");
        assert_eq!(Some(pieces), pieces_of(content, 100_000));
    }
}

#[test]
fn folded_subtrees_have_no_pieces() {
    let (folded, with_pieces) = (TreeHash::new(), TreeHash::with_pieces());
    folded.insert(0, &CONTENT);
    assert!(with_pieces.merge(folded.take()).is_err());
}
