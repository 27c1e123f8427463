//! Archives built byte by byte, valid and invalid.

pub(crate) const BLOCK: usize = 512;

#[derive(Clone, Debug, Default)]
pub(crate) struct Archive(pub(crate) Vec<u8>);

/// Fields of a header. Numbers are text, so that they can be invalid.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub(crate) name: Vec<u8>,
    pub(crate) kind: u8,
    pub(crate) mode: &'static [u8],
    pub(crate) size: Vec<u8>,
    pub(crate) link: Vec<u8>,
    pub(crate) magic: &'static [u8],
}

impl Header {
    pub(crate) fn new(name: impl AsRef<[u8]>, kind: u8, size: u64) -> Self {
        Self {
            name: name.as_ref().to_vec(),
            kind,
            mode: b"0000644",
            size: format!("{size:011o}").into_bytes(),
            link: Vec::new(),
            magic: b"ustar\x0000",
        }
    }

    pub(crate) fn link(self, link: impl AsRef<[u8]>) -> Self {
        Self { link: link.as_ref().to_vec(), ..self }
    }

    pub(crate) fn mode(self, mode: &'static [u8]) -> Self {
        Self { mode, ..self }
    }

    pub(crate) fn size(self, size: impl AsRef<[u8]>) -> Self {
        Self { size: size.as_ref().to_vec(), ..self }
    }

    pub(crate) fn magic(self, magic: &'static [u8]) -> Self {
        Self { magic, ..self }
    }

    fn block(&self) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.name[..self.name.len().min(100)]);
        put(100, self.mode);
        put(108, b"0000000");
        put(116, b"0000000");
        put(124, &self.size);
        put(136, b"07346545000");
        put(156, &[self.kind]);
        put(157, &self.link[..self.link.len().min(100)]);
        put(257, self.magic);
        block
    }
}

pub(crate) fn summed(mut block: [u8; BLOCK]) -> [u8; BLOCK] {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

impl Archive {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a header, modified by `change` before the checksum is computed, and raw content.
    pub(crate) fn raw(
        mut self,
        header: &Header,
        content: &[u8],
        change: impl FnOnce(&mut [u8; BLOCK]),
    ) -> Self {
        let mut block = header.block();
        change(&mut block);
        self.0.extend_from_slice(&summed(block));
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(BLOCK), 0);
        self
    }

    pub(crate) fn member(self, header: Header, content: &[u8]) -> Self {
        let long = header.name.len() > 100;
        let before = if long { self.long(b'L', &header.name.clone()) } else { self };
        let before = if header.link.len() > 100 { before.long(b'K', &header.link.clone()) } else { before };
        before.raw(&header, content, |_| {})
    }

    pub(crate) fn file(self, name: impl AsRef<[u8]>, content: &[u8]) -> Self {
        self.member(Header::new(name, b'0', content.len() as u64), content)
    }

    pub(crate) fn directory(self, name: impl AsRef<[u8]>) -> Self {
        self.member(Header::new(name, b'5', 0).mode(b"0000755"), b"")
    }

    pub(crate) fn symlink(self, name: impl AsRef<[u8]>, leads_to: impl AsRef<[u8]>) -> Self {
        self.member(Header::new(name, b'2', 0).link(leads_to).mode(b"0000777"), b"")
    }

    pub(crate) fn hard_link(self, name: impl AsRef<[u8]>, leads_to: impl AsRef<[u8]>) -> Self {
        self.member(Header::new(name, b'1', 0).link(leads_to), b"")
    }

    /// Adds a long name (`L`) or long link (`K`).
    pub(crate) fn long(self, kind: u8, text: &[u8]) -> Self {
        let content = [text, b"\0"].concat();
        let header = Header::new("././@LongLink", kind, content.len() as u64).magic(b"ustar  \0");
        self.raw(&header, &content, |_| {})
    }

    /// Adds an extended header of records (`x`, `g`).
    pub(crate) fn extended(self, kind: u8, records: &[(&str, &[u8])]) -> Self {
        let content = pax(records);
        self.extended_raw(kind, &content)
    }

    /// Adds an extended header with arbitrary content.
    pub(crate) fn extended_raw(self, kind: u8, content: &[u8]) -> Self {
        self.raw(&Header::new("./PaxHeaders/x", kind, content.len() as u64), content, |_| {})
    }

    pub(crate) fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(&[0; 2 * BLOCK]);
        self.0
    }
}

/// Encodes the records of an extended header.
pub(crate) fn pax(records: &[(&str, &[u8])]) -> Vec<u8> {
    let mut text = Vec::new();
    for (key, value) in records {
        let body = key.len() + value.len() + 3;
        let mut length = body;
        while length != body + length.to_string().len() {
            length = body + length.to_string().len();
        }
        text.extend_from_slice(format!("{length} {key}=").as_bytes());
        text.extend_from_slice(value);
        text.push(b'\n');
    }
    text
}
