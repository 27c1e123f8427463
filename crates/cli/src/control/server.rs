//! The thread that answers at a control socket.
//!
//! It serves all connections by itself and never waits for one of them, so an idle client blocks
//! nobody. Only this user and root are served (SO_PEERCRED).
//!
//! Bounds: [`CONNECTIONS_MAX`] connections, of which the oldest goes first, and
//! [`LINE_BYTES_MAX`] bytes of each.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use haul_flow::LimitValues;
use haul_sys::{effective_identity, peer_user, wait_until_readable};
use signal_hook::consts::SIGINT;

use super::Controlled;
use super::protocol::{ControlRequest, ControlStatus, LINE_BYTES_MAX, RunState};
use crate::signals;

/// Maximum connections that have not sent their request.
const CONNECTIONS_MAX: usize = 32;

/// Interval between two samples of the bytes moved, for the rate.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// Samples that the rate is taken from.
const SAMPLES: usize = 5;

/// A connection whose request has not arrived yet.
struct Connection {
    stream: UnixStream,
    received: Vec<u8>,
}

/// Outcome of reading from a connection.
enum ReadOutcome {
    /// There may be more.
    Incomplete,
    /// A line without its end.
    Line(Vec<u8>),
    TooLong,
    Closed,
}

pub(super) struct Server {
    listener: UnixListener,
    /// Readable when the thread is to end.
    ended: UnixStream,
    controlled: Controlled,
    connections: VecDeque<Connection>,
    began: Instant,
    samples: VecDeque<(Instant, u64)>,
    /// True after `accept` has failed: it is tried again with the next sample.
    accept_failed: bool,
}

impl Server {
    pub(super) fn new(listener: UnixListener, ended: UnixStream, controlled: Controlled) -> Self {
        let began = Instant::now();
        let samples = VecDeque::from([(began, 0)]);
        Self {
            listener,
            ended,
            controlled,
            connections: VecDeque::new(),
            began,
            samples,
            accept_failed: false,
        }
    }

    /// Answers until the other end of `ended` is closed.
    pub(super) fn run(mut self) {
        loop {
            let since = self.samples.back().map_or(self.began, |(at, _)| *at);
            let left = SAMPLE_INTERVAL.saturating_sub(since.elapsed());
            if left.is_zero() {
                self.sample();
                continue;
            }
            let fixed = [self.ended.as_fd(), self.listener.as_fd()];
            let fixed = if self.accept_failed { &fixed[..1] } else { &fixed[..] };
            let streams = self.connections.iter().map(|connection| connection.stream.as_fd());
            let polled: Vec<_> = fixed.iter().copied().chain(streams).collect();
            // Without poll there is no way to wait, so the socket isn't answered any more.
            let Ok(ready) = wait_until_readable(&polled, left) else { return };
            let (fixed, streams) = ready.split_at(fixed.len());
            if fixed[0] {
                return;
            }
            let (may_accept, streams) = (fixed.get(1) == Some(&true), streams.to_vec());
            self.read_from(&streams);
            if may_accept {
                self.accept();
            }
        }
    }

    fn sample(&mut self) {
        self.accept_failed = false;
        self.samples.push_back((Instant::now(), self.controlled.figures.done().bytes));
        while self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
    }

    /// Accepts the waiting connections.
    fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => self.admit(stream),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error)
                    if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                // Out of descriptors: poll would report the same connection at once.
                Err(_) => {
                    self.accept_failed = true;
                    return;
                }
            }
        }
    }

    fn admit(&mut self, stream: UnixStream) {
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        let own = effective_identity().user;
        match peer_user(&stream) {
            Ok(user) if user == own || user == 0 => {}
            _ => return answer(&stream, "error only the same user and root may do that\n"),
        }
        if self.connections.len() >= CONNECTIONS_MAX {
            self.connections.pop_front();
        }
        self.connections.push_back(Connection { stream, received: Vec::new() });
    }

    /// Reads from the connections that have something, and answers whole requests.
    fn read_from(&mut self, are_ready: &[bool]) {
        let connections = std::mem::take(&mut self.connections);
        for (mut connection, is_ready) in connections.into_iter().zip(are_ready) {
            match if *is_ready { connection.read() } else { ReadOutcome::Incomplete } {
                ReadOutcome::Incomplete => self.connections.push_back(connection),
                ReadOutcome::Line(line) => self.handle_request(&connection.stream, &line),
                ReadOutcome::TooLong => answer(&connection.stream, "error the request is too long\n"),
                ReadOutcome::Closed => {}
            }
        }
    }

    fn handle_request(&mut self, stream: &UnixStream, line: &[u8]) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let words: Vec<_> = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).collect();
        let Controlled { limits, is_stopping, .. } = &self.controlled;
        match ControlRequest::parse(&words) {
            Err(why) => return answer(stream, &format!("error {why}\n")),
            Ok(ControlRequest::Status) => {
                let status = serde_json::to_string(&self.status()).unwrap_or_default();
                return answer(stream, &format!("ok {status}\n"));
            }
            Ok(ControlRequest::Stop) => {
                // Before the program ends.
                answer(stream, "ok\n");
                return self.stop();
            }
            Ok(_) if is_stopping.load(Ordering::Relaxed) => {
                return answer(stream, "error the command is stopping\n");
            }
            Ok(ControlRequest::Pause) => limits.change(|limits| limits.is_paused = true),
            Ok(ControlRequest::Resume) => limits.change(|limits| limits.is_paused = false),
            Ok(ControlRequest::Bandwidth(rate)) => limits.change(|limits| limits.bytes_per_second = rate),
            Ok(ControlRequest::Operations(rate)) => {
                limits.change(|limits| limits.operations_per_second = rate)
            }
            Ok(ControlRequest::Latency(latency)) => limits.change(|limits| limits.latency = latency),
        }
        answer(stream, "ok\n");
    }

    fn stop(&self) {
        self.controlled.is_stopping.store(true, Ordering::Relaxed);
        match &self.controlled.stop {
            Some(stop) => {
                stop.cancel();
                // Operations in flight are finished at full speed, also by processes that don't
                // have the token.
                self.controlled.limits.change(|limits| *limits = LimitValues::default());
            }
            None => signals::end_by(SIGINT),
        }
    }

    fn status(&self) -> ControlStatus {
        let Controlled { limits, figures, is_stopping, .. } = &self.controlled;
        let (values, done, now) = (limits.values(), figures.done(), Instant::now());
        let (at, before) = self.samples.front().copied().unwrap_or((self.began, 0));
        let seconds = now.duration_since(at).as_secs_f64().max(0.001);
        let state = match () {
            () if is_stopping.load(Ordering::Relaxed) => RunState::Stopping,
            () if values.is_paused => RunState::Paused,
            () if figures.is_paused() => RunState::WaitingForRoom,
            () => RunState::Running,
        };
        ControlStatus {
            process: std::process::id(),
            state,
            seconds: self.began.elapsed().as_secs_f64(),
            entries: done.finished,
            bytes: done.bytes,
            bytes_per_second: (done.bytes.saturating_sub(before) as f64 / seconds) as u64,
            workers: figures.workers(),
            bwlimit: values.bytes_per_second,
            iops_limit: values.operations_per_second,
            max_latency: values.latency.map(|latency| latency.as_millis() as u64),
        }
    }
}

impl Connection {
    fn read(&mut self) -> ReadOutcome {
        let mut bytes = [0; LINE_BYTES_MAX];
        let read = match self.stream.read(&mut bytes) {
            Ok(0) => return ReadOutcome::Closed,
            Ok(read) => read,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return ReadOutcome::Incomplete;
            }
            Err(_) => return ReadOutcome::Closed,
        };
        self.received.extend_from_slice(&bytes[..read]);
        match self.received.iter().position(|byte| *byte == b'\n') {
            Some(end) => ReadOutcome::Line(self.received[..end].to_vec()),
            None if self.received.len() >= LINE_BYTES_MAX => ReadOutcome::TooLong,
            None => ReadOutcome::Incomplete,
        }
    }
}

/// Sends an answer. It fits the buffer of a new connection, so this doesn't block. A peer that has
/// gone doesn't get one.
fn answer(mut stream: &UnixStream, line: &str) {
    stream.write_all(line.as_bytes()).unwrap_or_default();
}
