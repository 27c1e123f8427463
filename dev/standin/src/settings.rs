//! Command line: size and speed of the file system.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::amounts::{bytes, duration};

/// Sharing of a rate between reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Directions {
    /// Each has the full rate, as on a network
    Apart,
    /// They share it, as on a disk
    Together,
}

/// A named set of targets that layouts can request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Name, at most 15 characters.
    pub name: String,
    /// Numbers of its targets.
    pub targets: Vec<u16>,
}

impl std::str::FromStr for Pool {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, range) = text.split_once('=').ok_or("a pool is given as NAME=FIRST-LAST")?;
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number =
            |text: &str| text.parse::<u16>().map_err(|_| format!("'{text}' is no number of a target"));
        let targets: Vec<_> = (number(first)?..=number(last)?).collect();
        if name.is_empty() || name.len() > 15 || targets.is_empty() {
            return Err(format!("'{text}' is no pool"));
        }
        Ok(Self { name: name.to_owned(), targets })
    }
}

/// Command-line options. Rates are in bytes per second; a missing rate means no limit.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "haul-standin",
    about = "Mounts a striped file system of stated speed, until SIGTERM or the end of input"
)]
pub struct StandInSettings {
    /// Directory for file contents, ideally in memory
    pub backing: PathBuf,
    /// Path of the mount points, to which the client's number is appended
    pub mount_prefix: PathBuf,
    /// Number of clients
    #[arg(long, default_value_t = 1)]
    pub clients: usize,
    /// Number of targets
    #[arg(long, default_value_t = 4)]
    pub targets: u16,
    /// Rate of each target, in bytes per second
    #[arg(long, value_parser = bytes)]
    pub target_rate: Option<u64>,
    /// Rate of each client, in bytes per second
    #[arg(long, value_parser = bytes)]
    pub client_rate: Option<u64>,
    /// Let reads and writes share these rates, or give each the full rate
    #[arg(long, value_enum, default_value = "apart")]
    pub directions: Directions,
    /// Maximum idle time whose unused rate can be used later
    #[arg(long, value_parser = duration, default_value = "10ms")]
    pub burst: Duration,
    /// Latency added to each data request
    #[arg(long, value_parser = duration, default_value = "0")]
    pub latency: Duration,
    /// Latency of each metadata operation
    #[arg(long, value_parser = duration, default_value = "0")]
    pub metadata_latency: Duration,
    /// Metadata operations per second of each client
    #[arg(long)]
    pub client_metadata_rate: Option<u64>,
    /// Metadata operations per second of all clients together
    #[arg(long)]
    pub metadata_rate: Option<u64>,
    /// Bytes each client may have written that are not on the targets yet; such writes return
    /// at once
    #[arg(long, value_parser = bytes, default_value = "0")]
    pub write_behind: u64,
    /// Read-ahead of each client (needs root; the kernel's default otherwise)
    #[arg(long, value_parser = bytes)]
    pub read_ahead: Option<u64>,
    /// Maximum time that clients may cache names and attributes
    #[arg(long, value_parser = duration, default_value = "0")]
    pub cache_time: Duration,
    /// Keep cached pages of a file whose times change, as a file system on one machine does
    #[arg(long)]
    pub keep_pages: bool,
    /// Let files be created without a name (`O_TMPFILE`), as local file systems do and most
    /// parallel ones don't (needs root)
    #[arg(long)]
    pub unnamed_files: bool,
    /// Default stripe size
    #[arg(long, value_parser = bytes, default_value = "1M")]
    pub stripe_bytes: u64,
    /// Default stripe count
    #[arg(long, default_value_t = 1)]
    pub stripe_count: u16,
    /// Pools, as NAME=FIRST-LAST
    #[arg(long = "pool")]
    pub pools: Vec<Pool>,
    /// Number of threads that send replies
    #[arg(long, default_value_t = 2)]
    pub timers: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let line = "haul-standin /b /m --clients 3 --target-rate 20MB --latency 500us --pool fast=0-2";
        let settings = StandInSettings::try_parse_from(line.split(' ')).unwrap();
        assert_eq!(settings.target_rate, Some(20_000_000));
        assert_eq!(settings.latency, Duration::from_micros(500));
        assert_eq!(settings.pools, [Pool { name: "fast".to_owned(), targets: vec![0, 1, 2] }]);
        assert!("fast=2-1".parse::<Pool>().is_err());
    }
}
