//! Decompression in stages: cut the input at candidate block boundaries, decode each block alone,
//! and reassemble the verified blocks.

use std::sync::Mutex;

use haul_flow::{Context, Stages, lock};

use super::Bzip2;
use super::job::FileJob;
use haul_bzip2_codec::cut::Cutter;
use haul_bzip2_codec::decode::{BlockContent, DecodeError, DecodedBlock, Decoder};
use haul_bzip2_codec::unpack::{InputPiece, Stop, Unpacker};

const READ_BYTES: usize = 1 << 20;

pub(super) struct Decompress {
    job: FileJob,
    /// The cutter, and whether the last piece was cut off.
    cutter: Mutex<(Cutter, bool)>,
    unpacker: Mutex<(Unpacker, Option<Stop>)>,
}

impl Decompress {
    pub(super) fn new(job: FileJob, passes_foreign: bool) -> Self {
        Self { job, cutter: Mutex::default(), unpacker: Mutex::new((Unpacker::new(passes_foreign), None)) }
    }
}

impl Stages<Bzip2> for Decompress {
    type Piece = InputPiece;
    type Output = (InputPiece, Option<Result<DecodedBlock, DecodeError>>);

    fn next(&self, cx: &Context<'_, Bzip2>) -> Option<InputPiece> {
        let mut cutter = lock(&self.cutter);
        let (cutter, is_over) = &mut *cutter;
        if *is_over {
            return None;
        }
        loop {
            if let Some(piece) = cutter.cut_next() {
                return Some(piece);
            }
            cutter.forget();
            let held = cutter.input().len();
            self.job.read(cx, cutter.input(), held + READ_BYTES)?;
            if cutter.input().len() == held {
                *is_over = true;
                return Some(cutter.last());
            }
        }
    }

    fn work(&self, cx: &Context<'_, Bzip2>, piece: InputPiece) -> Self::Output {
        let decode =
            |bit| cx.tool().decoders.with(Decoder::default, |decoder| decoder.decode(&piece.bytes, bit));
        let made = piece.candidate.map(decode);
        (piece, made)
    }

    fn put(&self, cx: &Context<'_, Bzip2>, (piece, made): Self::Output) {
        let mut unpacker = lock(&self.unpacker);
        let (unpacker, stop) = &mut *unpacker;
        if stop.is_some() {
            return;
        }
        self.job.took(cx, piece.bytes.len());
        let mut pass = |content: BlockContent| content.pass(&mut |bytes| self.job.write(cx, bytes));
        if let Err(why) = unpacker.take(&piece, made, &mut pass) {
            *stop = Some(why);
        }
        if stop.is_some() || unpacker.has_met_garbage() {
            self.job.stop_reading();
        }
    }

    fn end(&self, cx: &Context<'_, Bzip2>) {
        let unpacker = lock(&self.unpacker);
        let (unpacker, stop) = &*unpacker;
        if unpacker.has_met_garbage() {
            self.job.met_garbage(cx);
        }
        self.job.finish(cx, *stop);
    }
}
