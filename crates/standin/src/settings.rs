//! How large and how fast the file system is: the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::amounts::{bytes, duration};

/// Whether reading and writing share a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Directions {
    /// Each has the whole rate, as on a network.
    Apart,
    /// They share it, as on a disk.
    Together,
}

/// Some targets with a name, from which layouts can ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its name, up to fifteen letters.
    pub name: String,
    /// Its targets.
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

/// The options. Rates are in bytes a second; without one there is no limit.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "haul-standin",
    about = "Mounts a striped file system of stated speed, until SIGTERM or the end of input"
)]
pub struct Settings {
    /// The directory in which the bytes are kept, best in memory
    pub backing: PathBuf,
    /// The path of the mount points, to which the client's number is added
    pub mount_prefix: PathBuf,
    /// How many clients
    #[arg(long, default_value_t = 1)]
    pub clients: usize,
    /// How many targets
    #[arg(long, default_value_t = 4)]
    pub targets: u16,
    /// Bytes a second of each target
    #[arg(long, value_parser = bytes)]
    pub target_rate: Option<u64>,
    /// Bytes a second of each client
    #[arg(long, value_parser = bytes)]
    pub client_rate: Option<u64>,
    /// Whether reads and writes share these rates
    #[arg(long, value_enum, default_value = "apart")]
    pub directions: Directions,
    /// How long what was not used of a rate can be made up for
    #[arg(long, value_parser = duration, default_value = "10ms")]
    pub burst: Duration,
    /// What each request for data takes besides
    #[arg(long, value_parser = duration, default_value = "0")]
    pub latency: Duration,
    /// What each metadata operation takes
    #[arg(long, value_parser = duration, default_value = "0")]
    pub metadata_latency: Duration,
    /// Metadata operations a second of each client
    #[arg(long)]
    pub client_metadata_rate: Option<u64>,
    /// Metadata operations a second of all clients
    #[arg(long)]
    pub metadata_rate: Option<u64>,
    /// Bytes that each client may have written without their being on the targets yet: such writes return at once
    #[arg(long, value_parser = bytes, default_value = "0")]
    pub write_behind: u64,
    /// How far each client reads ahead (as root; without, the kernel's own choice)
    #[arg(long, value_parser = bytes)]
    pub read_ahead: Option<u64>,
    /// How long clients may trust what they know of names and attributes
    #[arg(long, value_parser = duration, default_value = "0")]
    pub cache_time: Duration,
    /// The stripe size of files that nothing else is said of
    #[arg(long, value_parser = bytes, default_value = "1M")]
    pub stripe_bytes: u64,
    /// Their stripe count
    #[arg(long, default_value_t = 1)]
    pub stripe_count: u16,
    /// Pools, as NAME=FIRST-LAST
    #[arg(long = "pool")]
    pub pools: Vec<Pool>,
    /// Threads that answer
    #[arg(long, default_value_t = 2)]
    pub timers: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let line = "haul-standin /b /m --clients 3 --target-rate 20MB --latency 500us --pool fast=0-2";
        let settings = Settings::try_parse_from(line.split(' ')).unwrap();
        assert_eq!(settings.target_rate, Some(20_000_000));
        assert_eq!(settings.latency, Duration::from_micros(500));
        assert_eq!(settings.pools, [Pool { name: "fast".to_owned(), targets: vec![0, 1, 2] }]);
        assert!("fast=2-1".parse::<Pool>().is_err());
    }
}
