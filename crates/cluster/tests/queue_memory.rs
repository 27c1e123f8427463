//! Ten million entries queued at rank 0 take less than 200 MB. This is the only test of its
//! process, whose peak memory it measures.

#![expect(clippy::unwrap_used, reason = "a test stops at whatever it did not expect, its own items included")]

use std::time::Duration;

use haul_cluster::schedule::{ItemId, Limits, QueuedItem, Scheduler, SchedulerEvent, SchedulerOrder};
use haul_cluster::transport::Rank;

const ENTRIES: u64 = 10_000_000;

/// Returns the peak memory of this process, in bytes.
fn memory_max() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// Creates a body as it is sent: the directory's data, then type, length and name of each entry.
fn body(entries: u32, directory_bytes: usize) -> Vec<u8> {
    let mut body = vec![b'/'; directory_bytes];
    for entry in 0..entries {
        body.extend([8, 10]);
        body.extend(format!("file{entry:06}").bytes());
    }
    body
}

/// Queues ten million entries in items of `entries`, has one worker process all of them, and
/// returns the peak memory.
fn queue(entries: u32) -> u64 {
    let mut scheduler = Scheduler::new(vec![Rank(1)], Limits::default());
    let mut orders = Vec::new();
    let items = ENTRIES / u64::from(entries);
    for id in 0..items {
        let item = QueuedItem {
            id: ItemId(1 << 40 | id),
            directory: 0x1_0000_0000 | (id / 8),
            entries,
            body: body(entries, 60),
        };
        scheduler.take(SchedulerEvent::Item(item), Duration::ZERO, &mut orders);
    }
    assert!(
        scheduler.queued_entries() >= ENTRIES - 2048,
        "two bundles are in the worker's hands, all else is queued"
    );
    let memory = memory_max();
    let mut done = 0;
    scheduler.take(SchedulerEvent::Closed, Duration::ZERO, &mut orders);
    while let Some(order) = orders.pop() {
        if let SchedulerOrder::Items { to, items } = order {
            for item in items {
                done += u64::from(item.entries);
                scheduler.take(
                    SchedulerEvent::ItemDone { rank: to, item: item.id },
                    Duration::ZERO,
                    &mut orders,
                );
            }
        }
    }
    assert_eq!((done, scheduler.is_over()), (ENTRIES, true));
    memory
}

#[test]
fn ten_million_entries_take_less_than_200_mb() {
    for entries in [64, 16] {
        let memory = queue(entries);
        assert!(memory < 200_000_000, "items of {entries} entries: {memory} bytes");
    }
}
