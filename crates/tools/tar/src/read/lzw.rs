//! Decompresses `.Z`, the format of compress(1): LZW with codes of 9 to 16 bits, lowest bit first.
//!
//! The compressor writes codes in groups of eight, so a group is as many bytes as a code has bits.
//! When the width changes or the table is cleared, the rest of the group is padding.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

/// Code that clears the table, in streams that have one ("block mode").
const CLEAR: usize = 256;
const WIDTH_MIN: u32 = 9;
const WIDTH_MAX: u32 = 16;

pub(super) struct Lzw<R: Read> {
    source: BufReader<R>,
    width: u32,
    width_max: u32,
    has_clear: bool,
    /// Bits read ahead, next code lowest, and their number.
    bits: u32,
    bit_count: u32,
    /// Bytes read since the current group of codes began.
    group_bytes: u32,
    /// For each code, its prefix code and its last byte.
    table: Vec<(u16, u8)>,
    /// Index of the next entry of the table.
    next: usize,
    last: Option<(usize, u8)>,
    /// Decompressed bytes that were not returned yet, in reverse order.
    waiting: Vec<u8>,
    /// Reason that no more bytes follow.
    failure: Option<io::Error>,
}

impl<R: Read> Lzw<R> {
    /// Reads the header of a stream.
    ///
    /// # Errors
    /// When it cannot be read, or asks for codes longer than the format allows.
    pub(super) fn new(source: R) -> io::Result<Self> {
        let mut source = BufReader::new(source);
        let mut header = [0; 3];
        source.read_exact(&mut header)?;
        let width_max = u32::from(header[2] & 0x1f);
        if !(WIDTH_MIN..=WIDTH_MAX).contains(&width_max) || header[2] & 0x60 != 0 {
            return Err(damaged());
        }
        let has_clear = header[2] & 0x80 != 0;
        Ok(Self {
            source,
            width: WIDTH_MIN,
            width_max,
            has_clear,
            bits: 0,
            bit_count: 0,
            group_bytes: 0,
            table: vec![(0, 0); 1 << width_max],
            next: if has_clear { CLEAR + 1 } else { CLEAR },
            last: None,
            waiting: Vec::new(),
            failure: None,
        })
    }

    fn byte(&mut self) -> io::Result<Option<u8>> {
        let byte = self.source.fill_buf()?.first().copied();
        self.source.consume(usize::from(byte.is_some()));
        self.group_bytes += u32::from(byte.is_some());
        Ok(byte)
    }

    /// Reads a code; `None` at EOF, where less than a code may be left.
    fn code(&mut self) -> io::Result<Option<usize>> {
        while self.bit_count < self.width {
            let Some(byte) = self.byte()? else { return Ok(None) };
            self.bits |= u32::from(byte) << self.bit_count;
            self.bit_count += 8;
        }
        let code = self.bits & ((1 << self.width) - 1);
        self.bits >>= self.width;
        self.bit_count -= self.width;
        Ok(Some(code as usize))
    }

    /// Skips the rest of the group, and continues with codes of another width.
    fn change_width(&mut self, width: u32) -> io::Result<()> {
        while !self.group_bytes.is_multiple_of(self.width) && self.byte()?.is_some() {}
        (self.bits, self.bit_count, self.group_bytes, self.width) = (0, 0, 0, width);
        Ok(())
    }

    /// Decompresses the next code; returns false at EOF.
    fn step(&mut self) -> io::Result<bool> {
        if self.next >= 1 << self.width && self.width < self.width_max {
            self.change_width(self.width + 1)?;
        }
        let Some(code) = self.code()? else { return Ok(false) };
        if self.has_clear && code == CLEAR {
            self.change_width(WIDTH_MIN)?;
            // The next code adds an entry at the index of CLEAR, which no code can refer to.
            self.next = CLEAR;
            return Ok(true);
        }
        let Some((before, first)) = self.last else {
            let byte = u8::try_from(code).map_err(|_| damaged())?;
            self.last = Some((code, byte));
            self.waiting.push(byte);
            return Ok(true);
        };
        let mut at = code;
        if code >= self.next {
            // The one code that may precede its entry: the last string, followed by its own
            // first byte.
            if code > self.next {
                return Err(damaged());
            }
            self.waiting.push(first);
            at = before;
        }
        while at >= CLEAR {
            let (prefix, byte) = self.table[at];
            self.waiting.push(byte);
            at = usize::from(prefix);
        }
        let first = at as u8;
        self.waiting.push(first);
        if self.next < 1 << self.width_max {
            self.table[self.next] = (before as u16, first);
            self.next += 1;
        }
        self.last = Some((code, first));
        Ok(true)
    }
}

impl<R: Read> Read for Lzw<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if let Some(cause) = self.failure.take() {
            return Err(cause);
        }
        let mut done = 0;
        while done < bytes.len() {
            if let Some(byte) = self.waiting.pop() {
                bytes[done] = byte;
                done += 1;
                continue;
            }
            match self.step() {
                Ok(true) => {}
                Ok(false) => break,
                // The bytes before the damage are not lost.
                Err(cause) if done > 0 => {
                    self.failure = Some(cause);
                    break;
                }
                Err(cause) => return Err(cause),
            }
        }
        Ok(done)
    }
}

fn damaged() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "compress: damaged data")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packs codes with their widths, each group of one width padded.
    fn packed(header: u8, groups: &[(u32, &[u32])]) -> Vec<u8> {
        let mut stream = vec![0x1f, 0x9d, header];
        for (width, codes) in groups {
            let mut bits: Vec<bool> = Vec::new();
            for code in *codes {
                bits.extend((0..*width).map(|bit| code >> bit & 1 == 1));
            }
            bits.resize(bits.len().next_multiple_of(*width as usize * 8), false);
            stream.extend(
                bits.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit))),
            );
        }
        stream
    }

    fn read(stream: &[u8]) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        Lzw::new(stream)?.read_to_end(&mut content)?;
        Ok(content)
    }

    #[test]
    fn a_code_may_come_before_its_entry_and_a_clear_fills_its_group() {
        let a = u32::from(b'a');
        // 257 is "aa", made by the very code that uses it.
        let mut stream = packed(0x90, &[(9, &[a, 257, 256]), (9, &[a, a])]);
        // The padding of the last group is not a code.
        stream.truncate(3 + 9 + 3);
        assert_eq!(read(&stream).unwrap(), b"aaaaa");
    }

    #[test]
    fn what_cannot_be_is_an_error() {
        for stream in [
            packed(0x88, &[]),
            packed(0x91, &[]),
            packed(0xf0, &[]),
            packed(0x90, &[(9, &[300])]),
            packed(0x90, &[(9, &[97, 400])]),
            vec![0x1f, 0x9d],
        ] {
            assert!(read(&stream).is_err(), "{stream:?}");
        }
    }
}
