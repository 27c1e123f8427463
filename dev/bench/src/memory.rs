//! Takes free memory back from the host of a virtual machine before a run.
//!
//! A host can take back the pages that a guest frees (free page reporting of the balloon, in Linux
//! `mm/page_reporting.c`). The next use of such a page waits for the host, up to two seconds per
//! gigabyte, and the guest counts that as its own processor time. Which run has to wait depends on
//! what ran before it: the same copy of 5.7 GB took 2.5 s in one place of a series and 5.5 s in
//! another (`docs/measurements/README.md`).
//!
//! So [`touch_free`] uses and frees as much memory before each run as the run will need. The kernel
//! hands out pages that were just freed first, and every two seconds reports at most a sixteenth of
//! the free ones. Only huge pages help: small ones are merged when they are freed, and end up
//! behind the pages that the host has taken (a copy took 6 s after them, instead of 2.3).

use std::fs;
use std::hint::black_box;

use memmap2::{Advice, MmapMut};

/// Memory for all but the contents of source and target: inodes, buffers, the programs.
const SPARE_BYTES: u64 = 512 << 20;

/// Size of the smallest page, in bytes.
const PAGE_BYTES: usize = 4096;

/// Uses as much memory as a copy of `content_bytes` fills, and frees it again. Takes at most nine
/// tenths of the free memory, so nothing is dropped from the page cache.
pub(crate) fn touch_free(content_bytes: u64) {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let wanted = content_bytes.saturating_mul(2).saturating_add(SPARE_BYTES);
    touch(wanted.min(free_bytes(&meminfo) / 10 * 9) as usize);
}

/// Returns the memory that nothing uses, not even the page cache, or 0 if unknown.
fn free_bytes(meminfo: &str) -> u64 {
    let kilobytes = meminfo.lines().find_map(|line| line.strip_prefix("MemFree:"));
    let kilobytes = kilobytes.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1024
}

fn touch(bytes: usize) {
    // An aid to the measurement: without memory, or huge pages, it is less exact.
    let Ok(mut memory) = MmapMut::map_anon(bytes) else { return };
    memory.advise(Advice::HugePage).unwrap_or_default();
    memory.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 1);
    black_box(&memory);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_read_in_bytes() {
        assert_eq!(free_bytes("MemTotal:       24682416 kB\nMemFree:     1000 kB\n"), 1_024_000);
        assert_eq!(free_bytes("unknown"), 0);
    }

    #[test]
    fn every_page_is_used() {
        let faults = || {
            let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
            let (_, fields) = stat.rsplit_once(')').unwrap();
            fields.split_whitespace().nth(7).unwrap().parse::<u64>().unwrap()
        };
        let before = faults();
        touch(64 << 20);
        assert!(faults() - before >= 32, "64 MiB are 32 pages of the largest usual size");
    }
}
