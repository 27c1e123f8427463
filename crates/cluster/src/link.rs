//! The link between launch process and rank 0: frames over two pipes, or two channels if both are
//! one process.
//!
//! The pipes are standard input and output of the program that starts the job (`mpirun`, `srun`),
//! which forwards them to and from rank 0. Libraries and the user's startup files may print there
//! too, so a frame begins with a mark that can't occur in text:
//!
//! ```text
//! mark: 8 bytes | length: u32 LE | XXH3 of payload: u64 | payload: kind, content | newline
//! ```
//!
//! Bytes between frames are stray output and are passed to the user. A frame with a wrong checksum
//! breaks the link. The newline is for programs that forward output line by line (srun). MPICH's
//! launcher kills a job whose rank 0 reads too slowly, so rank 0 acknowledges the bytes it
//! has read, and at most a window of bytes is in flight.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::xxh3_64;

use haul_flow::lock;
use haul_sys::{Errno, write_all_within};

use crate::error::LinkClosed;
use crate::suspend_detector::Deadline;
use crate::wire::{pack, unpack};

/// First bytes of a frame.
const MARK: [u8; 8] = *b"\xffhaul\x00\xfe\x01";

/// Size of a frame's header, in bytes.
const HEAD: usize = MARK.len() + 4 + 8;

/// Maximum payload, in bytes. A bundle of 1,024 names of 255 bytes is far below it, and so is a
/// report: the results in it are limited where they are made (`owner.rs`, `send_queue.rs`).
const PAYLOAD_MAX: u32 = 256 << 20;

/// Something received over a link.
#[derive(Debug)]
pub enum Arrival<M> {
    /// A message.
    Message(M),
    /// Stray output from something other than the peer.
    Stray(Vec<u8>),
    /// The link is closed, for this reason.
    Gone(LinkClosed),
}

type SendFn<S> = Box<dyn FnMut(S) -> io::Result<()> + Send>;

/// One end of a link: sends `S`, receives `R`.
pub struct Link<S, R> {
    send: SendFn<S>,
    receiver: Receiver<Arrival<R>>,
}

impl<S: Serialize + Send + 'static, R: DeserializeOwned + Send + 'static> Link<S, R> {
    /// Creates the launch process's end over the pipes to rank 0. `window` limits the bytes in
    /// flight, for launchers that need it. Sending fails if the peer takes nothing for `silence`.
    ///
    /// # Errors
    /// If a thread can't be created.
    pub fn to_rank(
        input: impl Read + Send + 'static,
        output: impl AsFd + Send + 'static,
        window: Option<usize>,
        silence: Duration,
    ) -> io::Result<Self> {
        let progress = Arc::new(ReadProgress::default());
        let acknowledged = Arc::clone(&progress);
        let receiver = spawn(input, move |count| acknowledged.note(count))?;
        let mut paced = Paced { output, progress, sent: 0, window, silence };
        let send = move |message: S| paced.write_all(&frame(MESSAGE, &pack(&message))?);
        Ok(Self { send: Box::new(send), receiver })
    }

    /// Creates rank 0's end, which acknowledges the bytes it has read.
    ///
    /// # Errors
    /// If a thread can't be created.
    pub fn to_launch(
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
    ) -> io::Result<Self> {
        let output = Arc::new(Mutex::new(output));
        let answers = Arc::clone(&output);
        let mut acknowledged = 0;
        let acknowledge = move |count: u64| {
            if count >= acknowledged + ACKNOWLEDGED_EVERY {
                acknowledged = count;
                // If the write fails, the reader will find the link closed.
                let answer = frame(ACKNOWLEDGEMENT, &pack(&count));
                answer.and_then(|answer| write_whole(&answers, &answer)).unwrap_or_default();
            }
        };
        let receiver = spawn(Counted { input, count: 0, acknowledge }, |_| ())?;
        let send = move |message: S| write_whole(&output, &frame(MESSAGE, &pack(&message))?);
        Ok(Self { send: Box::new(send), receiver })
    }

    /// Sends a message.
    ///
    /// # Errors
    /// If the peer is gone, or reads nothing.
    pub fn send(&mut self, message: S) -> io::Result<()> {
        (self.send)(message)
    }

    /// Returns the next arrival, if there is one.
    pub fn receive(&self) -> Option<Arrival<R>> {
        match self.receiver.try_recv() {
            Ok(arrival) => Some(arrival),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Arrival::Gone(LinkClosed::Eof)),
        }
    }

    /// Splits the end into a sending and a receiving half, for two threads.
    pub fn split(self) -> (LinkSender<S>, LinkReceiver<R>) {
        (LinkSender { send: self.send }, LinkReceiver { receiver: self.receiver })
    }
}

/// The sending half of an end.
pub struct LinkSender<S> {
    send: SendFn<S>,
}

impl<S> LinkSender<S> {
    /// Sends a message.
    ///
    /// # Errors
    /// If the peer is gone, or takes nothing.
    pub fn send(&mut self, message: S) -> io::Result<()> {
        (self.send)(message)
    }
}

/// The receiving half of an end.
pub struct LinkReceiver<R> {
    receiver: Receiver<Arrival<R>>,
}

impl<R> LinkReceiver<R> {
    /// Waits up to `timeout` for an arrival.
    pub fn wait(&self, timeout: Duration) -> Option<Arrival<R>> {
        match self.receiver.recv_timeout(timeout) {
            Ok(arrival) => Some(arrival),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Arrival::Gone(LinkClosed::Eof)),
        }
    }
}

/// Creates both ends of a link within one process.
#[must_use]
pub fn in_process_pair<A: Send + 'static, B: Send + 'static>() -> (Link<A, B>, Link<B, A>) {
    fn send<M: Send + 'static>(sender: Sender<Arrival<M>>) -> SendFn<M> {
        let gone = |_| io::Error::from(ErrorKind::BrokenPipe);
        Box::new(move |message| sender.send(Arrival::Message(message)).map_err(gone))
    }
    let ((to_right, from_left), (to_left, from_right)) = (channel(), channel());
    (Link { send: send(to_right), receiver: from_right }, Link { send: send(to_left), receiver: from_left })
}

/// Frame kinds: a message, or the number of bytes its sender has read so far.
const MESSAGE: u8 = 0;
const ACKNOWLEDGEMENT: u8 = 1;

/// Bytes written at a time: `PIPE_BUF`, as `write_all_within` demands.
const PIECE_MAX: usize = 4096;

/// Interval at which the deadline is checked while the peer reads nothing.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Rank 0 acknowledges at least this many bytes at a time.
const ACKNOWLEDGED_EVERY: u64 = 2 << 10;

/// Number of bytes that the peer has read, and `true` once it will read no more.
#[derive(Default)]
struct ReadProgress {
    read: Mutex<(u64, bool)>,
    changed: Condvar,
}

impl ReadProgress {
    /// Records the number of bytes read; `None` if the peer will read no more.
    fn note(&self, count: Option<u64>) {
        let mut read = lock(&self.read);
        *read = count.map_or((read.0, true), |count| (count, read.1));
        self.changed.notify_all();
    }

    /// Waits until at most `unread` of `sent` bytes are unread, but no longer than `silence`.
    fn wait(&self, sent: u64, unread: u64, silence: Duration) -> io::Result<()> {
        let mut deadline = Deadline::new(Instant::now(), silence);
        let mut read = lock(&self.read);
        while sent > read.0 + unread {
            if read.1 {
                return Err(ErrorKind::BrokenPipe.into());
            }
            if deadline.has_passed(Instant::now()) {
                return Err(ErrorKind::TimedOut.into());
            }
            let waited = self.changed.wait_timeout(read, CHECK_INTERVAL.min(silence));
            read = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}

/// A pipe written no faster than the peer reads.
struct Paced<W> {
    output: W,
    progress: Arc<ReadProgress>,
    sent: u64,
    window: Option<usize>,
    silence: Duration,
}

impl<W: AsFd> Paced<W> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        // A piece larger than the window would wait forever: it counts as in flight itself.
        let piece = self.window.map_or(PIECE_MAX, |window| (window / 4).clamp(1, PIECE_MAX));
        for piece in bytes.chunks(piece) {
            self.sent += piece.len() as u64;
            if let Some(window) = self.window {
                self.progress.wait(self.sent, window as u64, self.silence)?;
            }
            self.write_piece(piece)?;
        }
        Ok(())
    }

    fn write_piece(&self, piece: &[u8]) -> io::Result<()> {
        let mut deadline = Deadline::new(Instant::now(), self.silence);
        loop {
            // A write of so few bytes is atomic (pipe(7)): after a timeout, none was written.
            match write_all_within(&self.output, piece, CHECK_INTERVAL.min(self.silence)) {
                Err(cause) if cause.is(Errno::TIMEDOUT) && !deadline.has_passed(Instant::now()) => {}
                outcome => return outcome.map_err(|cause| cause.errno().into()),
            }
        }
    }
}

/// A stream that reports how many bytes were read from it.
struct Counted<R, F> {
    input: R,
    count: u64,
    acknowledge: F,
}

impl<R: Read, F: FnMut(u64)> Read for Counted<R, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.count += read as u64;
        (self.acknowledge)(self.count);
        Ok(read)
    }
}

fn write_whole(output: &Mutex<impl Write>, bytes: &[u8]) -> io::Result<()> {
    let mut output = lock(output);
    output.write_all(bytes)?;
    output.flush()
}

fn frame(kind: u8, payload: &[u8]) -> io::Result<Vec<u8>> {
    // Checked by the sender too: the peer could only close the link.
    let length = u32::try_from(payload.len() + 1).ok().filter(|length| *length <= PAYLOAD_MAX);
    let Some(length) = length else {
        let why = format!("a message of {} bytes is too long", payload.len());
        return Err(io::Error::new(ErrorKind::InvalidInput, why));
    };
    let mut bytes = Vec::with_capacity(payload.len() + 22);
    bytes.extend_from_slice(&MARK);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes.push(kind);
    bytes.extend_from_slice(payload);
    let sum = xxh3_64(&bytes[HEAD..]);
    bytes[HEAD - 8..HEAD].copy_from_slice(&sum.to_le_bytes());
    bytes.push(b'\n');
    Ok(bytes)
}

/// Reads frames in a thread. `note` is called with the peer's acknowledgements, and with `None` at
/// the end.
fn spawn<R: DeserializeOwned + Send + 'static>(
    input: impl Read + Send + 'static,
    mut note: impl FnMut(Option<u64>) + Send + 'static,
) -> io::Result<Receiver<Arrival<R>>> {
    let (sender, receiver) = channel();
    Builder::new().name("link".to_owned()).spawn(move || {
        read(input, &sender, &mut note);
        note(None);
    })?;
    Ok(receiver)
}

/// Reads frames until the stream ends or breaks, or the receiver is dropped.
fn read<R: DeserializeOwned>(
    input: impl Read,
    receiver: &Sender<Arrival<R>>,
    note: &mut impl FnMut(Option<u64>),
) {
    let mut input = io::BufReader::with_capacity(1 << 16, input);
    let mut after_frame = false;
    let why = loop {
        let (stray, payload) = match read_frame(&mut input, after_frame) {
            Ok(read) => read,
            Err(why) => break why,
        };
        after_frame = true;
        if !stray.is_empty() && receiver.send(Arrival::Stray(stray)).is_err() {
            return;
        }
        let Some(payload) = payload else { break LinkClosed::Eof };
        let arrival = match payload.split_first() {
            Some((&ACKNOWLEDGEMENT, count)) => {
                note(unpack(count).ok());
                continue;
            }
            Some((&MESSAGE, message)) => unpack(message)
                .map_or_else(|why| Arrival::Gone(LinkClosed::Undecodable(why)), Arrival::Message),
            _ => break LinkClosed::UnknownKind,
        };
        if receiver.send(arrival).is_err() {
            return;
        }
    };
    // The receiver may have been dropped; nobody needs the reason then.
    receiver.send(Arrival::Gone(why)).unwrap_or_default();
}

/// Reads stray bytes and the frame after them; no frame at EOF.
fn read_frame(input: &mut impl Read, after_frame: bool) -> Result<(Vec<u8>, Option<Vec<u8>>), LinkClosed> {
    let (mut stray, mut matched, mut is_first) = (Vec::new(), 0, after_frame);
    let mut byte = [0];
    while matched < MARK.len() {
        if input.read(&mut byte)? == 0 {
            stray.extend_from_slice(&MARK[..matched]);
            return Ok((stray, None));
        }
        // The newline after the previous frame.
        if std::mem::take(&mut is_first) && byte == *b"\n" {
            continue;
        }
        if byte[0] == MARK[matched] {
            matched += 1;
        } else {
            // The mark's first byte occurs only once in it, so the bytes matched can't start
            // another mark.
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
    // Checked before memory is reserved for it.
    if length > PAYLOAD_MAX {
        return Err(LinkClosed::TooLong(length));
    }
    let mut payload = vec![0; length as usize];
    input.read_exact(&mut payload)?;
    if xxh3_64(&payload) != u64::from_le_bytes(sum) {
        return Err(LinkClosed::Damaged);
    }
    Ok((stray, Some(payload)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WINDOW: usize = 4096;

    /// Asserts that no more than the window is in the pipe.
    struct Watched(io::PipeReader);

    impl Read for Watched {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let unread = rustix::io::ioctl_fionread(&self.0)?;
            assert!(unread <= WINDOW as u64, "{unread} bytes are on their way");
            self.0.read(buffer)
        }
    }

    fn receiver(bytes: Vec<u8>) -> Vec<Arrival<Vec<u8>>> {
        let (sender, receiver) = channel();
        read(io::Cursor::new(bytes), &sender, &mut |_| ());
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
                bytes.extend_from_slice(&frame(MESSAGE, &pack(payload)).unwrap());
            }
            let (mut received, mut strays, mut ended) = (Vec::new(), Vec::new(), 0);
            for arrival in receiver(bytes) {
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
        fn a_window_is_never_exceeded(lengths in proptest::collection::vec(0usize..9000, 1..20)) {
            let (launch_reads, rank_writes) = io::pipe().unwrap();
            let (rank_reads, launch_writes) = io::pipe().unwrap();
            let rank_reads = Watched(rank_reads);
            let mut launch = Link::<Vec<u8>, Vec<u8>>::to_rank(launch_reads, launch_writes, Some(WINDOW), Duration::from_secs(60)).unwrap();
            let rank = Link::<Vec<u8>, Vec<u8>>::to_launch(rank_reads, rank_writes).unwrap();
            let (_outgoing, incoming) = rank.split();
            for length in &lengths {
                launch.send(vec![3; *length]).unwrap();
            }
            for length in lengths {
                let arrival = incoming.wait(Duration::from_secs(10));
                prop_assert!(matches!(&arrival, Some(Arrival::Message(message)) if message.len() == length), "{arrival:?}");
            }
        }

        #[test]
        fn a_damaged_frame_is_never_taken_for_a_message(at in 0usize..42, bit in 0u8..8) {
            let payload = vec![7u8; 20];
            let mut bytes = frame(MESSAGE, &pack(&payload)).unwrap();
            let at = at % (bytes.len() - 1);
            bytes[at] ^= 1 << bit;
            let taken = receiver(bytes).into_iter().any(|arrival| matches!(arrival, Arrival::Message(_)));
            prop_assert!(!taken);
        }
    }

    #[test]
    fn a_peer_that_takes_nothing_does_not_block_the_sender_for_good() {
        for window in [None, Some(WINDOW)] {
            let (reads, _kept) = io::pipe().unwrap();
            let (_unread, writes) = io::pipe().unwrap();
            let silence = Duration::from_millis(50);
            let mut launch = Link::<Vec<u8>, Vec<u8>>::to_rank(reads, writes, window, silence).unwrap();
            let failed = launch.send(vec![3; 4 << 20]).unwrap_err();
            assert_eq!(failed.kind(), ErrorKind::TimedOut, "{window:?}");
        }
    }

    #[test]
    fn a_message_that_the_peer_would_refuse_is_not_sent() {
        assert!(frame(MESSAGE, &vec![0; PAYLOAD_MAX as usize]).is_err());
        assert!(frame(MESSAGE, &[0; 1000]).is_ok());
    }
}
