//! Rule 10 of the contract: a pair never writes what it hasn't read, and reports both byte counts.

use std::ffi::CString;

use haul_engine::{Op, Outcome};
use haul_sys::Buffer;

use crate::Subject;
use crate::ground::{Ground, pair_through, pattern, run};

/// The file length is not a multiple of the block, and its last block is not a multiple of a page.
const PAIRED_BYTES: usize = 200_000;
pub(crate) const PAIRED_BLOCK: usize = 64 << 10;

pub(crate) fn line_10_a_pair_writes_what_it_has_read(mut subject: Subject) {
    let ground = Ground::new();
    let engine = &mut *subject.engine;
    for round in 0..12 {
        let (from, to) = (format!("source{round}"), format!("target{round}"));
        let source = ground.file(&CString::new(from).unwrap(), round, PAIRED_BYTES);
        let target = ground.target(&CString::new(to.as_str()).unwrap());
        let pair = |offset: usize, length: usize| {
            // Filler that exposes a write that overtakes its read.
            let mut buffer = Buffer::new(PAIRED_BLOCK);
            buffer.bytes_mut().fill(0xaa);
            pair_through(buffer, &source, &target, offset, length)
        };
        // The first pair is beyond EOF and must write nothing.
        let mut pieces: Vec<_> = (0..PAIRED_BYTES + PAIRED_BLOCK)
            .step_by(PAIRED_BLOCK)
            .rev()
            .map(|offset| (offset, PAIRED_BLOCK))
            .collect();
        while !pieces.is_empty() {
            let asked = std::mem::take(&mut pieces);
            let op = |(token, piece): (usize, &(usize, usize))| Op {
                token: token as u64,
                call: pair(piece.0, piece.1),
            };
            for done in run(engine, asked.iter().enumerate().map(op)) {
                let (offset, length) = asked[done.token as usize];
                let Outcome::Paired { buffer, read, written } = done.outcome else { panic!("not a pair") };
                let left = PAIRED_BYTES.saturating_sub(offset);
                let read = read.ok();
                let written = written.unwrap_or(0);
                assert!(written <= read.unwrap_or(0), "{written} of {read:?}");
                assert_eq!(buffer.bytes()[..read.unwrap_or(0)], pattern(round, offset, read.unwrap_or(0)));
                let content = ground.content(&to);
                assert!(content.len() <= PAIRED_BYTES);
                assert_eq!(content[offset.min(content.len())..][..written], pattern(round, offset, written));
                // After a short read, a short or cancelled write, or a failure, submit the
                // remainder. Data read but not written gets a pair of exactly that length: a pair
                // may skip its write if the read is short.
                let rest = match read {
                    Some(read) if written < read => read - written,
                    _ => length,
                };
                if written < left && read != Some(0) {
                    pieces.push((offset + written, rest));
                }
            }
        }
        assert!(ground.content(&to) == pattern(round, 0, PAIRED_BYTES), "round {round}");
    }
    subject.assert_faults_were_injected();
}
