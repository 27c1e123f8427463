//! The link between launch process and rank 0: frames over two pipes, or two channels where both are one process.
//!
//! The pipes are the standard input and output of what starts the job (`mpirun`, `srun`), which passes them on to rank 0 and
//! back; libraries and start-up files of users may print there too. So a frame begins with a mark that no text has:
//!
//! ```text
//! mark: 8 bytes | length: u32, little endian | XXH3 of the payload: u64 | payload
//! ```
//!
//! What stands between frames is not ours and is passed to the user. A frame whose sum is wrong breaks the link.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::Builder;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::xxh3_64;

use crate::wire::{pack, unpack};

/// What a frame begins with.
const MARK: [u8; 8] = *b"\xffhaul\x00\xfe\x01";

/// The longest payload that is believed, in bytes: a part of 256 names of 255 bytes is far below.
const PAYLOAD_MAX: u32 = 256 << 20;

/// What comes over a link.
#[derive(Debug)]
pub enum Arrival<M> {
    /// A message.
    Message(M),
    /// Bytes that are not the other side's.
    Stray(Vec<u8>),
    /// Nothing any more: why.
    Gone(String),
}

type Post<S> = Box<dyn FnMut(S) -> io::Result<()> + Send>;

/// One end of a link: sends `S`, receives `R`.
pub struct Link<S, R> {
    post: Post<S>,
    arrivals: Receiver<Arrival<R>>,
}

impl<S: Serialize + Send + 'static, R: DeserializeOwned + Send + 'static> Link<S, R> {
    /// Makes an end over two streams; a thread reads `input` until it ends.
    ///
    /// # Errors
    /// When the thread cannot be made.
    pub fn over(
        input: impl Read + Send + 'static,
        mut output: impl Write + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, arrivals) = channel();
        Builder::new().name("link".to_owned()).spawn(move || read(input, &sender))?;
        let post = move |message: S| {
            output.write_all(&frame(&pack(&message)))?;
            output.flush()
        };
        Ok(Self { post: Box::new(post), arrivals })
    }

    /// Sends a message.
    ///
    /// # Errors
    /// When the other side is gone.
    pub fn send(&mut self, message: S) -> io::Result<()> {
        (self.post)(message)
    }

    /// Takes what has arrived, if anything has.
    pub fn receive(&self) -> Option<Arrival<R>> {
        match self.arrivals.try_recv() {
            Ok(arrival) => Some(arrival),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Arrival::Gone("the link is closed".to_owned())),
        }
    }

    /// Takes apart what sends and what receives, for two threads.
    pub fn split(self) -> (Outgoing<S>, Incoming<R>) {
        (Outgoing { post: self.post }, Incoming { arrivals: self.arrivals })
    }
}

/// The sending half of an end.
pub struct Outgoing<S> {
    post: Post<S>,
}

impl<S> Outgoing<S> {
    /// Sends a message.
    ///
    /// # Errors
    /// When the other side is gone.
    pub fn send(&mut self, message: S) -> io::Result<()> {
        (self.post)(message)
    }
}

/// The receiving half of an end.
pub struct Incoming<R> {
    arrivals: Receiver<Arrival<R>>,
}

impl<R> Incoming<R> {
    /// Waits for what arrives, as long as `patience` lasts.
    pub fn wait(&self, patience: Duration) -> Option<Arrival<R>> {
        match self.arrivals.recv_timeout(patience) {
            Ok(arrival) => Some(arrival),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Arrival::Gone("the link is closed".to_owned())),
        }
    }
}

/// Makes both ends of a link inside one process.
#[must_use]
pub fn inside<A: Send + 'static, B: Send + 'static>() -> (Link<A, B>, Link<B, A>) {
    fn post<M: Send + 'static>(sender: Sender<Arrival<M>>) -> Post<M> {
        let gone = |_| io::Error::from(ErrorKind::BrokenPipe);
        Box::new(move |message| sender.send(Arrival::Message(message)).map_err(gone))
    }
    let ((to_right, from_left), (to_left, from_right)) = (channel(), channel());
    (Link { post: post(to_right), arrivals: from_right }, Link { post: post(to_left), arrivals: from_left })
}

fn frame(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(payload.len() + 20);
    bytes.extend_from_slice(&MARK);
    bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&xxh3_64(payload).to_le_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// Reads frames until the stream ends or is broken.
fn read<R: DeserializeOwned>(input: impl Read, arrivals: &Sender<Arrival<R>>) {
    let mut input = io::BufReader::with_capacity(1 << 16, input);
    let why = loop {
        match read_frame(&mut input) {
            Ok((stray, payload)) => {
                if !stray.is_empty() && arrivals.send(Arrival::Stray(stray)).is_err() {
                    return;
                }
                let Some(payload) = payload else { break "the link is closed".to_owned() };
                let arrival = unpack(&payload).map_or_else(Arrival::Gone, Arrival::Message);
                // Nobody listens any more: nothing is left to do.
                if arrivals.send(arrival).is_err() {
                    return;
                }
            }
            Err(error) => break error.to_string(),
        }
    };
    // If nobody listens, nobody has to know.
    arrivals.send(Arrival::Gone(why)).unwrap_or_default();
}

/// Reads up to the next frame and the frame; `None` for it at the end of the stream.
fn read_frame(input: &mut impl Read) -> io::Result<(Vec<u8>, Option<Vec<u8>>)> {
    let (mut stray, mut matched) = (Vec::new(), 0);
    let mut byte = [0];
    while matched < MARK.len() {
        if input.read(&mut byte)? == 0 {
            stray.extend_from_slice(&MARK[..matched]);
            return Ok((stray, None));
        }
        if byte[0] == MARK[matched] {
            matched += 1;
        } else {
            // The mark's first byte is in it only once, so what was matched cannot begin another.
            stray.extend_from_slice(&MARK[..matched]);
            matched = usize::from(byte[0] == MARK[0]);
            if matched == 0 {
                stray.push(byte[0]);
            }
        }
    }
    let (mut length, mut sum) = ([0; 4], [0; 8]);
    input.read_exact(&mut length)?;
    input.read_exact(&mut sum)?;
    let length = u32::from_le_bytes(length);
    if length > PAYLOAD_MAX {
        return Err(io::Error::new(ErrorKind::InvalidData, format!("a frame of {length} bytes")));
    }
    let mut payload = vec![0; length as usize];
    input.read_exact(&mut payload)?;
    if xxh3_64(&payload) != u64::from_le_bytes(sum) {
        return Err(io::Error::new(ErrorKind::InvalidData, "a frame with a wrong sum"));
    }
    Ok((stray, Some(payload)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arrivals(bytes: Vec<u8>) -> Vec<Arrival<Vec<u8>>> {
        let (sender, receiver) = channel();
        read(io::Cursor::new(bytes), &sender);
        drop(sender);
        receiver.into_iter().collect()
    }

    proptest! {
        #[test]
        fn frames_come_through_among_strangers_prints(
            messages in proptest::collection::vec(
                (proptest::collection::vec(any::<u8>(), 0..300), "[ -~\n\u{ff}]{0,20}"), 0..8),
        ) {
            let (mut bytes, mut printed) = (Vec::new(), Vec::new());
            for (payload, stray) in &messages {
                bytes.extend_from_slice(stray.as_bytes());
                printed.extend_from_slice(stray.as_bytes());
                bytes.extend_from_slice(&frame(&pack(payload)));
            }
            let (mut received, mut strays, mut ended) = (Vec::new(), Vec::new(), 0);
            for arrival in arrivals(bytes) {
                match arrival {
                    Arrival::Message(message) => received.push(message),
                    Arrival::Stray(stray) => strays.extend(stray),
                    Arrival::Gone(_) => ended += 1,
                }
            }
            let sent: Vec<_> = messages.into_iter().map(|(payload, _)| payload).collect();
            prop_assert_eq!(received, sent);
            prop_assert_eq!(strays, printed);
            prop_assert_eq!(ended, 1);
        }

        #[test]
        fn a_damaged_frame_is_never_taken_for_a_message(at in 0usize..40, bit in 0u8..8) {
            let payload = vec![7u8; 20];
            let mut bytes = frame(&pack(&payload));
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            let taken = arrivals(bytes).into_iter().any(|arrival| matches!(arrival, Arrival::Message(_)));
            prop_assert!(!taken);
        }
    }
}
