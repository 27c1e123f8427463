//! Describes the machine a figure was measured on.

use std::fs;
use std::thread;

use serde::{Deserialize, Serialize};

use crate::programs;

/// The properties of a machine that matter to a copy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MachineFacts {
    pub(crate) kernel: String,
    /// Model name of the processors.
    pub(crate) processor: String,
    pub(crate) processors: usize,
    pub(crate) memory_bytes: u64,
    /// When the measurement was made, in UTC.
    pub(crate) date: String,
}

impl MachineFacts {
    /// Reads the facts of this machine; unavailable ones are "unknown" or 0.
    pub(crate) fn look() -> MachineFacts {
        let date = programs::run("date", &["--utc".as_ref(), "+%Y-%m-%d %H:%M UTC".as_ref()]);
        MachineFacts {
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            processor: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".to_owned()),
            processors: thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: memory_bytes(&read("/proc/meminfo")),
            date: date.map_or_else(|_| "unknown".to_owned(), |date| date.trim().to_owned()),
        }
    }
}

fn read(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_else(|_| "unknown".to_owned())
}

/// Returns the value of the first line that starts with `name`, after its colon.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim().to_owned())
}

fn memory_bytes(text: &str) -> u64 {
    let kilobytes = field(text, "MemTotal");
    kilobytes.and_then(|value| value.strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or_default() * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(memory_bytes("MemTotal:       24682416 kB\nMemFree: 1 kB\n"), 24_682_416 * 1024);
        assert_eq!(memory_bytes("unknown"), 0);
    }

    #[test]
    fn this_machine_has_a_kernel_and_a_processor() {
        let machine = MachineFacts::look();
        assert!(machine.kernel.contains('.'), "{machine:?}");
        assert!(machine.processors > 0 && machine.memory_bytes > 0, "{machine:?}");
    }
}
