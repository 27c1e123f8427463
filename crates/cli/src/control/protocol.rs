//! The protocol of a control socket: one line with a request, one line with the answer, and the
//! command closes the connection.
//!
//! ```text
//! status | pause | resume | bwlimit RATE | iops-limit N | max-latency MS | stop
//! ok | ok JSON | error TEXT
//! ```
//!
//! `RATE`, `N` and `MS` are those of `--bwlimit`, `--iops-limit` and `--max-latency`, or `none`.
//! The answer to `status` has a JSON object, which is a [`ControlStatus`]. Lines end with a newline
//! and are at most [`LINE_BYTES_MAX`] long.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::amounts;
use crate::flags::values::{LATENCY, OPERATIONS, Value, milliseconds};

/// Maximum length of a line, in bytes.
pub(crate) const LINE_BYTES_MAX: usize = 1024;

/// A request of `haul ctl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlRequest {
    Status,
    Pause,
    Resume,
    /// Limit the bytes per second.
    Bandwidth(Option<u64>),
    /// Limit the operations per second.
    Operations(Option<u64>),
    /// Limit the latency of metadata calls.
    Latency(Option<Duration>),
    Stop,
}

impl ControlRequest {
    /// Parses the words of a request.
    ///
    /// # Errors
    /// A message for the user if the request is invalid.
    pub(crate) fn parse(words: &[&[u8]]) -> Result<Self, String> {
        let shown = |word: &[u8]| String::from_utf8_lossy(word).escape_debug().to_string();
        let Some((&name, values)) = words.split_first() else { return Err("missing command".to_owned()) };
        match (name, values) {
            (b"status", []) => Ok(Self::Status),
            (b"pause", []) => Ok(Self::Pause),
            (b"resume", []) => Ok(Self::Resume),
            (b"stop", []) => Ok(Self::Stop),
            (b"bwlimit", [b"none"]) => Ok(Self::Bandwidth(None)),
            (b"bwlimit", [rate]) => {
                let rate = Value { flag: "bwlimit", bytes: rate, word: 0 }.rate().map(Self::Bandwidth);
                rate.map_err(|_| {
                    format!("invalid rate '{}': use one like 500K or 10M, or none", shown(values[0]))
                })
            }
            (b"iops-limit", [b"none"]) => Ok(Self::Operations(None)),
            (b"iops-limit", [count]) => {
                let count = Value { flag: "iops-limit", bytes: count, word: 0 }.count(OPERATIONS);
                let limit = count.map(|count| Self::Operations((count > 0).then_some(count as u64)));
                limit.map_err(|_| {
                    format!("invalid number '{}': use a whole number, or none", shown(values[0]))
                })
            }
            (b"max-latency", [b"none"]) => Ok(Self::Latency(None)),
            (b"max-latency", [count]) => {
                let count = Value { flag: "max-latency", bytes: count, word: 0 }.count(LATENCY);
                count
                    .map(|count| Self::Latency(milliseconds(count)))
                    .map_err(|_| format!("invalid number '{}': use milliseconds, or none", shown(values[0])))
            }
            (b"bwlimit" | b"iops-limit" | b"max-latency", []) => {
                Err(format!("'{}' requires a value", shown(name)))
            }
            (
                b"status" | b"pause" | b"resume" | b"stop" | b"bwlimit" | b"iops-limit" | b"max-latency",
                [.., last],
            ) => Err(format!("extra word '{}'", shown(last))),
            _ => Err(format!("unknown command '{}'", shown(name))),
        }
    }
}

/// Activity of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RunState {
    Running,
    Paused,
    /// The target's file system is full (`--on-full=pause`).
    WaitingForRoom,
    /// It ends after the operations in flight.
    Stopping,
}

/// The answer to `status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ControlStatus {
    pub(crate) process: u32,
    pub(crate) state: RunState,
    /// Time since the beginning, in seconds.
    pub(crate) seconds: f64,
    /// Entries completed.
    pub(crate) entries: u64,
    /// Bytes of files moved.
    pub(crate) bytes: u64,
    /// Bytes moved in each of the last few seconds.
    pub(crate) bytes_per_second: u64,
    /// Workers in the process that was started, once there are any.
    pub(crate) workers: Option<usize>,
    /// Maximum bytes per second, if there is a limit.
    pub(crate) bwlimit: Option<u64>,
    /// Maximum operations per second, if there is a limit.
    pub(crate) iops_limit: Option<u64>,
    /// Maximum latency of metadata calls in milliseconds, if there is a limit.
    pub(crate) max_latency: Option<u64>,
}

impl ControlStatus {
    /// Formats the status for people, in one line.
    pub(crate) fn line(&self) -> String {
        let time = amounts::time(Duration::try_from_secs_f64(self.seconds).unwrap_or_default());
        let state = match self.state {
            RunState::Running => format!("running for {time}"),
            RunState::Paused => format!("paused, started {time} ago"),
            RunState::WaitingForRoom => format!("waiting for free space, started {time} ago"),
            RunState::Stopping => format!("stopping, started {time} ago"),
        };
        let bandwidth = self.bwlimit.map(|rate| format!("{}/s", amounts::bytes(rate)));
        let operations = self.iops_limit.map(|rate| format!("{rate} operations/s"));
        let latency = self.max_latency.map(|latency| format!("latency {latency} ms"));
        let limits: Vec<_> = [bandwidth, operations, latency].into_iter().flatten().collect();
        let limits =
            if limits.is_empty() { "no limit".to_owned() } else { format!("limit {}", limits.join(", ")) };
        format!(
            "{state}: {}, {}, {}/s, {}, {limits}\n",
            amounts::of(self.entries, "entry", "entries"),
            amounts::bytes(self.bytes),
            amounts::bytes(self.bytes_per_second),
            amounts::of(self.workers.unwrap_or_default() as u64, "worker", "workers"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<ControlRequest, String> {
        ControlRequest::parse(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    #[test]
    fn requests_are_read_as_on_the_command_line() {
        assert_eq!(parse("bwlimit 2M"), Ok(ControlRequest::Bandwidth(Some(2 << 20))));
        assert_eq!(parse("bwlimit 10"), Ok(ControlRequest::Bandwidth(Some(10 << 10))));
        assert_eq!(
            [parse("bwlimit 0"), parse("bwlimit none")],
            [Ok(ControlRequest::Bandwidth(None)), Ok(ControlRequest::Bandwidth(None))]
        );
        assert_eq!(parse("iops-limit 100"), Ok(ControlRequest::Operations(Some(100))));
        assert_eq!(parse("max-latency 20"), Ok(ControlRequest::Latency(Some(Duration::from_millis(20)))));
        assert_eq!(parse("max-latency none"), Ok(ControlRequest::Latency(None)));
        assert_eq!(parse("stop"), Ok(ControlRequest::Stop));
        for (line, why) in [
            ("bwlimit fast", "invalid rate 'fast'"),
            ("bwlimit", "'bwlimit' requires a value"),
            ("iops-limit 1K", "invalid number '1K'"),
            ("max-latency 1s", "invalid number '1s'"),
            ("max-latency", "'max-latency' requires a value"),
            ("pause now", "extra word 'now'"),
            ("Pause", "unknown command 'Pause'"),
            ("", "unknown command ''"),
        ] {
            assert!(parse(line).is_err_and(|message| message.starts_with(why)), "{line}: {:?}", parse(line));
        }
    }

    #[test]
    fn a_status_is_one_line() {
        let status = ControlStatus {
            process: 1,
            state: RunState::Running,
            seconds: 67.0,
            entries: 1234,
            bytes: 5_000_000,
            bytes_per_second: 80_000,
            workers: Some(4),
            bwlimit: Some(100_000),
            iops_limit: None,
            max_latency: None,
        };
        let line = "running for 1:07: 1.23k entries, 5.00 MB, 80.0 kB/s, 4 workers, limit 100 kB/s\n";
        assert_eq!(status.line(), line);
        let none = ControlStatus { bwlimit: None, state: RunState::WaitingForRoom, ..status };
        assert!(
            none.line().starts_with("waiting for free space, started 1:07 ago: ")
                && none.line().ends_with(", no limit\n")
        );
        let all = ControlStatus { bwlimit: Some(100_000), max_latency: Some(20), ..none };
        assert!(all.line().ends_with(", limit 100 kB/s, latency 20 ms\n"));
    }
}
