//! Preparation of a file before its first byte moves: reserves space, advises the kernel, chooses
//! the cache policy, and cuts the file into ranges.

use std::ops::Range;

use haul_sys::{Advice, Error, Fd, Stat};
use haul_sys::{advise, allocate, is_local};

use super::io::Io;
use crate::cache_policy::CachePolicy;
use crate::context::Context;
use crate::decision::{Holes, Transfer};
use crate::limits::Limits;
use crate::plan;
use crate::settings::Settings;
use crate::tool::{Entry, Tool};

/// Minimum size of a file that is announced to the kernel as read sequentially, in bytes.
const SEQUENTIAL_BYTES: u64 = 1 << 20;

/// Maximum bytes of a large file requested ahead. The kernel's own read-ahead continues from there.
pub(super) const FETCH_AHEAD_BYTES: u64 = 2 << 20;

/// Minimum length of one worker's share of a range, in bytes: a typical stripe of a parallel
/// file system.
const SHARE_BYTES_MIN: u64 = 1 << 20;

/// Maximum bytes per `copy_file_range`: enough to hide its cost, few enough to show progress.
const KERNEL_COPY_BYTES: u64 = 8 << 20;

/// Minimum of the same in a run with a limit on bytes per second.
const KERNEL_COPY_BYTES_MIN: u64 = 64 << 10;

/// Prepares a copy. Returns how its content moves, and its cache policy.
pub(super) fn copy<T: Tool>(
    cx: &Context<'_, T>,
    io: &Io,
    entry: &Entry<T>,
    (source, target): (&Fd, &Fd),
    stat: &Stat,
    transfer: Transfer,
) -> (Transfer, CachePolicy) {
    let switches = &io.settings.switches;
    if transfer == Transfer::Nothing {
        return (transfer, CachePolicy::cached());
    }
    // Reserved space would fill holes. A length of 0 is `EINVAL` (fallocate(2)).
    if switches.allocate
        && stat.size > 0
        && !transfer.skips_holes()
        && let Err(cause) = reserve(cx, entry, (target, stat.size))
    {
        cx.remark(entry, &format!("cannot preallocate: {cause:#}"));
    }
    if switches.advise && stat.size >= SEQUENTIAL_BYTES {
        // Only a hint: the kernel reads further ahead, or does not.
        advise(source, Advice::Sequential, 0).unwrap_or_default();
    }
    choose_policy(cx, io, entry, (source, target), (stat.size, transfer))
}

/// Reserves space for a target. Waits for free space if that is the policy.
fn reserve<T: Tool>(cx: &Context<'_, T>, entry: &Entry<T>, (target, bytes): (&Fd, u64)) -> Result<(), Error> {
    let reserve = || allocate(target, bytes);
    match &cx.run.policy.room {
        None => reserve(),
        Some(room) => room.retry_reporting(cx.report(), &|cause| cx.report_no_room(entry, cause), reserve),
    }
}

/// Chooses the cache policy of a file of so many bytes.
pub(super) fn choose_policy<T: Tool>(
    cx: &Context<'_, T>,
    io: &Io,
    entry: &Entry<T>,
    (source, target): (&Fd, &Fd),
    (bytes, transfer): (u64, Transfer),
) -> (Transfer, CachePolicy) {
    let switches = &io.settings.switches;
    if transfer == Transfer::Nothing {
        return (transfer, CachePolicy::cached());
    }
    if !(switches.direct || switches.drop_cache) {
        // A server that copies by itself needs no pages on this machine.
        let is_for_kernel = || matches!(transfer, Transfer::Kernel(_)) && !is_local(target).unwrap_or(false);
        return match io.outgrows_cache(bytes) && !is_for_kernel() {
            true => (transfer.in_blocks(), CachePolicy::dropping()),
            false => (transfer, CachePolicy::cached()),
        };
    }
    // A copy inside the kernel goes through the page cache.
    let transfer = transfer.in_blocks();
    if switches.direct && transfer != Transfer::Blocks(Holes::Read) {
        cx.remark(entry, "has holes: using the page cache");
        return (transfer, CachePolicy::cached());
    }
    let note = |why: &str| cx.remark(entry, &format!("goes through the page cache: {why}"));
    let (block_bytes, drops) = (io.settings.block_bytes, io.caps.drops_cache);
    (transfer, CachePolicy::choose(switches, (source, target), block_bytes, drops, note))
}

/// Returns the ranges that workers move.
pub(super) fn ranges_of(settings: &Settings, stat: &Stat) -> impl Iterator<Item = Range<u64>> + use<> {
    // The end of a file that reports no size is unknown.
    let unknown = (stat.size == 0).then_some(0..u64::MAX);
    let known = (stat.size > 0).then(|| ranges_in(settings, stat, &(0..stat.size)));
    unknown.into_iter().chain(known.into_iter().flatten())
}

/// Returns the ranges of a part of a file that workers move.
pub(super) fn ranges_in(
    settings: &Settings,
    stat: &Stat,
    part: &Range<u64>,
) -> impl Iterator<Item = Range<u64>> + use<> {
    let range_bytes = settings.range_bytes.max(settings.block_bytes as u64);
    let start = part.start;
    let ranges = plan::ranges(part.end - start, range_bytes, u64::from(stat.block_size));
    ranges.map(move |range| start + range.start..start + range.end)
}

/// Cuts a range for the workers of this process, so that one reads while another writes.
pub(super) fn shares_of(settings: &Settings, range: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let (start, length) = (range.start, range.end - range.start);
    let share = (length / settings.jobs.max(1) as u64).max(SHARE_BYTES_MIN);
    plan::ranges(length, share, SHARE_BYTES_MIN).map(move |part| start + part.start..start + part.end)
}

/// Returns the maximum bytes per `copy_file_range`: with a limit, an eighth of a second's, so that
/// the disk isn't used in bursts.
pub(super) fn kernel_copy_bytes<T: Tool>(cx: &Context<'_, T>) -> u64 {
    let limited = |rate: f64| ((rate / 8.0) as u64).clamp(KERNEL_COPY_BYTES_MIN, KERNEL_COPY_BYTES);
    cx.run.limits.and_then(Limits::bytes_per_second).map_or(KERNEL_COPY_BYTES, limited)
}
