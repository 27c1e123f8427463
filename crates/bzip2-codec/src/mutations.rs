//! Fuzzes decompression with damaged streams. It must not panic, must not emit a byte with a wrong
//! checksum, and must behave the same however the input is cut into pieces.
//!
//! `HAUL_FUZZ_RUNS` sets the number of runs. A run's number is its seed, printed on failure.

use haul_testkit::random::{Random, Rng, seeded};

use super::bits::{BLOCK_MAGIC, BitWriter, END_MAGIC};
use super::crc::{self, Crc};
use super::cut::Cutter;
use super::decode::Decoder;
use super::encode::Encoder;
use super::runs;
use super::unpack::{Stop, Unpacker};

/// Number of runs when `HAUL_FUZZ_RUNS` is not set.
const RUNS: u64 = 3000;

/// Compresses each byte string to a block and joins the blocks to a stream.
fn stream(level: u8, blocks: &[Vec<u8>]) -> Vec<u8> {
    let (mut bits, mut encoder, mut sum) = (BitWriter::default(), Encoder::default(), 0);
    b"BZh".iter().chain([&(b'0' + level)]).for_each(|byte| bits.push(u32::from(*byte), 8));
    for bytes in blocks {
        let (mut crc, mut block) = (Crc::new(), Vec::new());
        crc.update(bytes);
        runs::count(bytes, &mut block);
        sum = crc::combine(sum, crc.finish());
        bits.append(&encoder.encode(&block, crc.finish()));
    }
    bits.push_magic(END_MAGIC);
    bits.push(sum, 32);
    bits.finish().bytes
}

/// The output, how decompression ended, and true if trailing garbage followed.
type Unpacked = (Vec<u8>, Result<(), Stop>, bool);

/// Decompresses input that arrives `at_once` bytes at a time. If `ahead`, decodes candidates
/// speculatively.
fn unpack(bytes: &[u8], at_once: usize, ahead: bool) -> Unpacked {
    let (mut cutter, mut unpacker, mut decoder) =
        (Cutter::default(), Unpacker::new(false), Decoder::default());
    let (mut output, mut chunks) = (Vec::new(), bytes.chunks(at_once.max(1)));
    loop {
        let (piece, last) = match cutter.cut_next() {
            Some(piece) => (piece, false),
            None => match chunks.next() {
                Some(chunk) => {
                    cutter.forget();
                    cutter.take(chunk);
                    continue;
                }
                None => (cutter.last(), true),
            },
        };
        let candidate = piece.candidate.filter(|_| ahead);
        let made = candidate.map(|bit| decoder.decode(&piece.bytes, bit));
        let mut pass =
            |content: super::decode::BlockContent| content.pass(&mut |more| output.extend_from_slice(more));
        let outcome = unpacker.take(&piece, made, &mut pass);
        if outcome.is_err() || last || unpacker.has_met_garbage() {
            return (output, outcome, unpacker.has_met_garbage());
        }
    }
}

/// Returns random text, noise or runs.
fn some_bytes(random: &mut Random) -> Vec<u8> {
    let length = random.random_range(1..400);
    match random.random_range(0..3) {
        0 => (0..length).map(|_| b"etaoin shrdlu"[random.random_range(0..13)]).collect(),
        1 => (0..length).map(|_| random.random()).collect(),
        _ => (0..length / 20 + 1).flat_map(|_| vec![random.random(); random.random_range(1..300)]).collect(),
    }
}

/// Returns a file of one or more streams, and its decompressed content.
fn file(random: &mut Random) -> (Vec<u8>, Vec<u8>) {
    let (mut packed, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..random.random_range(1..4) {
        let blocks: Vec<_> = (0..random.random_range(0..4)).map(|_| some_bytes(random)).collect();
        packed.extend(stream(random.random_range(1..=9), &blocks));
        plain.extend(blocks.concat());
    }
    (packed, plain)
}

fn damage(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..random.random_range(1..4) {
        let place = random.random_range(0..bytes.len().max(1)).min(bytes.len());
        match random.random_range(0..7) {
            0 => bytes.truncate(place),
            1 => bytes.extend((0..random.random_range(1..30)).map(|_| random.random::<u8>())),
            2 => {
                let copied = bytes[place..].to_vec();
                bytes.splice(place..place, copied);
            }
            3 => {
                let mut magic = BitWriter::default();
                magic.push(0, random.random_range(1..9));
                magic.push_magic(if random.random() { BLOCK_MAGIC } else { END_MAGIC });
                bytes.splice(place..place, magic.finish().bytes);
            }
            4 => drop(bytes.drain(place..(place + random.random_range(0..9)).min(bytes.len()))),
            _ => {
                if let Some(byte) = bytes.get_mut(place) {
                    *byte ^= 1 << random.random_range(0..8);
                }
            }
        }
    }
}

#[test]
fn whole_files_are_unpacked_however_they_come() {
    for seed in 0..200 {
        let mut random = seeded(seed);
        let (packed, plain) = file(&mut random);
        for at_once in [1, 7, 100, usize::MAX] {
            assert_eq!(unpack(&packed, at_once, true), (plain.clone(), Ok(()), false), "seed {seed}");
        }
        assert_eq!(
            unpack(&[packed, b"garbage".to_vec()].concat(), 9, true),
            (plain, Ok(()), true),
            "seed {seed}"
        );
    }
}

#[test]
fn damaged_files_end_in_the_same_way_however_they_are_cut() {
    let runs = std::env::var("HAUL_FUZZ_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(RUNS);
    let mut wrong = 0;
    for seed in 0..runs {
        let mut random = seeded(seed);
        let (mut packed, _) = file(&mut random);
        damage(&mut random, &mut packed);
        let at_once = random.random_range(1..2000);
        let ahead = unpack(&packed, at_once, true);
        let serial = unpack(&packed, usize::MAX, false);
        assert_eq!(ahead, serial, "seed {seed}");
        wrong += u64::from(ahead.1.is_err());
    }
    assert!(wrong > runs / 4, "only {wrong} of {runs} were wrong");
}

#[test]
fn a_magic_number_inside_a_block_does_no_harm() {
    // A false magic number only cuts the block in two, so cut it anywhere.
    let mut random = seeded(1);
    let blocks: Vec<_> = (0..3).map(|_| (0..5000).map(|_| random.random()).collect::<Vec<u8>>()).collect();
    let packed = stream(9, &blocks);
    let (mut decoder, plain) = (Decoder::default(), blocks.concat());
    for cut in (40..packed.len()).step_by(617) {
        let mut unpacker = Unpacker::new(false);
        let mut output = Vec::new();
        let parts = [(0, &packed[..cut], false), (cut, &packed[cut..], true)];
        for (start, bytes, last) in parts {
            let piece = super::unpack::InputPiece {
                start: start as u64,
                bytes: bytes.to_vec(),
                candidate: Some(if start == 0 { 32 } else { 3 }),
                last,
            };
            let made = piece.candidate.map(|bit| decoder.decode(bytes, bit));
            let mut pass = |content: super::decode::BlockContent| {
                content.pass(&mut |more| output.extend_from_slice(more))
            };
            unpacker.take(&piece, made, &mut pass).unwrap();
        }
        assert!(output == plain, "cut at {cut}");
    }
}
