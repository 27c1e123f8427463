//! A rank's agent: work items and ranges arrive as messages and are processed by the same workers
//! as on a single machine.
//!
//! ```text
//! messages ─► Agent::handle ─► feed ─► Local (threads) ─► SendQueue ─► messages
//! ```
//!
//! The thread that handles messages never touches a file, so a hanging file system doesn't silence
//! the rank. Workers never send.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haul_flow::plan::BATCH_ENTRIES;
use haul_flow::{
    CancelToken, Context, DirCache, Feed, Job, Limits, Local, Problem, RunSpec, Selector, Settings,
};

use crate::distributed::Distributed;
use crate::item::{CompletionSink, ItemKey, LargeFileRange, PackedItem};
use crate::kind::ClusterKind;
use crate::remote_path::{ItemReceiver, RemotePaths};
use crate::schedule::{FileId, ItemId};
use crate::send_queue::SendQueue;
use crate::transport::Rank;
use crate::wire::{Message, RangeDone, unpack};

/// Turns a rank's messages into jobs.
pub(crate) struct Agent<'a, T: Distributed + 'static> {
    pub(crate) remote_paths: Arc<RemotePaths>,
    pub(crate) send_queue: Arc<SendQueue<T>>,
    pub(crate) feed: Feed<'a, Job<T>>,
    pub(crate) rank: Rank,
    pub(crate) tool: &'a T,
    /// Cancelled when the run need not continue.
    pub(crate) cancel: CancelToken,
    pub(crate) limits: Option<&'a Limits>,
}

impl<T: Distributed + 'static> Agent<'_, T> {
    /// Handles a message that concerns the work; returns any other.
    pub(crate) fn handle(&self, message: Message) -> Option<Message> {
        match message {
            Message::Items(items) => {
                // Register all of them before the first can complete, so that one report covers
                // the bundle.
                self.send_queue.begin_bundle(items.iter().map(|(item, _)| *item));
                let items = items.into_iter().map(|(item, body)| (item, unpacked(&body))).collect();
                let directory = |(_, packed): &(_, Result<PackedItem, _>)| {
                    packed.as_ref().map_or(0, |packed| packed.source.inode())
                };
                let items = interleave(items, directory);
                items.into_iter().for_each(|(item, packed)| self.begin_item(item, packed));
            }
            Message::Range { file, leader, range, ticket } => {
                let done = RangeDone {
                    rank: self.rank,
                    file,
                    range,
                    took: Duration::ZERO,
                    moved: false,
                    bytes: 0,
                    result: Vec::new(),
                    problems: Vec::new(),
                };
                self.begin_range(done, leader, ticket);
            }
            Message::Moved(done) => {
                // Must come before the file can complete.
                self.send_queue.forward(done.clone());
                self.count(&done);
            }
            Message::RangesDone { file, moved } => self.finish(file, moved),
            Message::Cancelled => self.cancel.cancel(),
            Message::Limits(values) => {
                if let Some(limits) = self.limits {
                    limits.change(|own| *own = values);
                }
            }
            Message::Grant(load) => {
                if let Some(limits) = self.limits {
                    limits.grant(load);
                }
            }
            other => return Some(other),
        }
        None
    }

    fn begin_item(&self, item: ItemId, packed: Result<PackedItem, Problem>) {
        let (remote_paths, send_queue) = (Arc::clone(&self.remote_paths), Arc::clone(&self.send_queue));
        // There may be many more by now than at the beginning.
        let workers = self.feed.working();
        self.feed.share(Job::Callback(Box::new(move |cx| {
            let batch_entries = batch_entries(workers, send_queue.items_in_hand());
            match packed.and_then(|packed| admit(cx, &remote_paths, &send_queue, packed, batch_entries)) {
                Ok(jobs) => jobs.into_iter().for_each(|job| cx.share(job)),
                Err(problem) => send_queue.refuse_item(item, problem),
            }
        })));
    }

    fn begin_range(&self, done: RangeDone, leader: Rank, ticket: Vec<u8>) {
        let range = done.range.clone();
        let number = self.send_queue.begin_range(done, leader);
        let (remote_paths, send_queue) = (Arc::clone(&self.remote_paths), Arc::clone(&self.send_queue));
        self.feed.share(Job::Callback(Box::new(move |cx| {
            let job = unpacked(&ticket).and_then(|mut packed| {
                packed.spec.number = number;
                packed.spec.piece = packed.spec.piece.map(|piece| LargeFileRange { range, ..piece });
                admit(cx, &remote_paths, &send_queue, packed, 1)
            });
            match job {
                Ok(jobs) => jobs.into_iter().for_each(|job| cx.share(job)),
                Err(problem) => {
                    CompletionSink::note(&*send_queue, ItemKey::Range(number), problem);
                    send_queue.range_done(number, false, Vec::new());
                }
            }
        })));
    }

    /// Counts a range of a file led by this rank, and finishes the file after the last one.
    fn count(&self, done: &RangeDone) {
        let mut led = self.send_queue.led();
        let Some(file) = led.get_mut(&done.file) else { return };
        file.left = file.left.saturating_sub(done.range.end - done.range.start);
        file.failed |= !done.moved || !self.tool.add_ranges(&file.file, std::slice::from_ref(&done.result));
        // A failed file is finished at once. Other ranks then write to a file that is removed.
        if file.left > 0 && !file.failed {
            return;
        }
        let moved = !file.failed;
        // `finish` takes the lock again.
        drop(led);
        self.finish(done.file, moved);
    }

    fn finish(&self, file: FileId, moved: bool) {
        if let Some(led) = self.send_queue.led().remove(&file) {
            self.feed.share(Job::finish(led.file, moved && !led.failed));
        }
    }
}

/// Reorders the work items of a bundle: one of each directory, then the second of each, and so on.
///
/// The kernel lets only one process of a host at a time create or rename a file in a directory, and
/// workers take items in this order, so neighbours should be in different directories.
fn interleave<P>(items: Vec<P>, directory: impl Fn(&P) -> u64) -> Vec<P> {
    let mut turns = HashMap::new();
    let mut items: Vec<_> = items
        .into_iter()
        .map(|item| {
            let turn: &mut usize = turns.entry(directory(&item)).or_default();
            *turn += 1;
            (*turn, item)
        })
        .collect();
    items.sort_by_key(|(turn, _)| *turn);
    items.into_iter().map(|(_, item)| item).collect()
}

fn unpacked(body: &[u8]) -> Result<PackedItem, Problem> {
    unpack(body).map_err(|why| Problem::new(ClusterKind::CannotDecode).naming(why.to_string()))
}

/// Returns how many entries of a work item to give to one worker, so that all `workers` are busy
/// while the rank holds `items` items.
fn batch_entries(workers: usize, items: usize) -> usize {
    BATCH_ENTRIES.div_ceil(workers.div_ceil(items.max(1)))
}

fn admit<T: Distributed + 'static>(
    cx: &Context<'_, T>,
    remote_paths: &RemotePaths,
    send_queue: &Arc<SendQueue<T>>,
    packed: PackedItem,
    batch_entries: usize,
) -> Result<Vec<Job<T>>, Problem> {
    let receiver = ItemReceiver { cache: cx.cache(), remote_paths };
    let cannot =
        |(path, cause): (Vec<u8>, _)| Problem::new(ClusterKind::CannotReach).naming(path).because(cause);
    let sink = Arc::clone(send_queue) as Arc<dyn CompletionSink<T>>;
    packed.admit(&receiver, cx.tool(), sink, batch_entries).map_err(cannot)
}

/// Processes work items and ranges until the last feed of the driver is dropped.
pub(crate) fn work<T: Distributed + 'static>(pool: &WorkerPool<T>, send_queue: &SendQueue<T>) {
    let WorkerPool { tool, settings, cache, selector, driver, limits } = pool;
    let (settings, engine) = (*settings, Mutex::default());
    let spec =
        RunSpec { tool, settings, cache, selector, report: send_queue, limits: limits.as_ref(), engine };
    // Failures are in the reports.
    haul_flow::run(&spec, driver, []);
}

/// State shared by a rank's workers.
pub(crate) struct WorkerPool<T: Distributed> {
    pub(crate) tool: T,
    pub(crate) settings: Settings,
    pub(crate) cache: DirCache,
    pub(crate) selector: Selector,
    pub(crate) driver: Local<Job<T>>,
    pub(crate) limits: Option<Limits>,
}

#[cfg(test)]
mod tests {
    use super::{batch_entries, interleave};

    #[test]
    fn neighbours_are_of_different_directories() {
        let items = vec![(1, 'a'), (1, 'b'), (1, 'c'), (2, 'd'), (2, 'e'), (3, 'f')];
        let order: String =
            interleave(items, |(directory, _)| *directory).into_iter().map(|(_, item)| item).collect();
        assert_eq!(order, "adfbec");
    }

    #[test]
    fn few_parts_are_cut_for_all_workers() {
        assert_eq!([0, 1, 2, 3, 7, 8, 100].map(|items| batch_entries(8, items)), [8, 8, 16, 22, 32, 64, 64]);
    }
}
