//! The launch process: walks, creates directories, cuts work items, and waits at the limit
//! in flight.

use std::collections::{HashMap, VecDeque};

use haul_flow::plan;

use super::clock::{Time, nanoseconds};
use super::storage::{Served, StorageModel};
use super::{Scenario, WalkModel, Workload};
use haul_cluster::schedule::{ItemId, QueuedItem};

/// Metadata operations per directory: create the target, open and read the source, set the times.
const DIRECTORY_OPERATIONS: u64 = 4;

/// Weight of a listing, in small files.
const LISTING_ENTRIES: u32 = 64;

/// Content of a work item.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ItemContent {
    /// Files, by number.
    Files { first: u64, entries: u32, directory: u64 },
    /// A directory to be listed.
    Listing { directory: u64 },
    /// A large file that an earlier attempt has begun.
    Large { file: u64, directory: u64 },
}

/// Next step of the launch process.
pub(crate) enum LaunchStep {
    /// Sends a work item at this time.
    Item(QueuedItem, Time),
    /// Nothing more to send.
    Closed,
    /// Waits for work items to complete.
    Wait,
}

/// State of the launch process.
#[derive(Debug)]
pub(crate) struct Launch {
    served: Served,
    /// Directories not yet visited, and the number of entries in each.
    directories: std::ops::Range<u64>,
    directory_entries: u64,
    files: u64,
    /// Directories listed, with the files not yet cut into work items.
    listed: VecDeque<(u64, std::ops::Range<u64>)>,
    listings: u64,
    seen: u64,
    outstanding: u64,
    items: HashMap<ItemId, ItemContent>,
    /// Work items lost with an attempt, to be sent again.
    again: VecDeque<QueuedItem>,
    next: u64,
    closed: bool,
}

impl Launch {
    pub(crate) fn new(workload: &Workload) -> Self {
        let files = workload.files();
        let directory_entries = match workload {
            Workload::Files(_) => files,
            Workload::Small { directory_entries, .. } => *directory_entries,
        }
        .max(1);
        Self {
            served: Served::default(),
            directories: 0..files.div_ceil(directory_entries),
            directory_entries,
            files,
            listed: VecDeque::new(),
            listings: 0,
            seen: 0,
            outstanding: 0,
            items: HashMap::new(),
            again: VecDeque::new(),
            next: 0,
            closed: false,
        }
    }

    /// Returns the files of a directory.
    pub(crate) fn files_of(&self, directory: u64) -> std::ops::Range<u64> {
        let first = directory * self.directory_entries;
        first..(first + self.directory_entries).min(self.files)
    }

    /// Returns the content of a work item in flight.
    pub(crate) fn content(&self, item: ItemId) -> Option<ItemContent> {
        self.items.get(&item).copied()
    }

    /// Returns first file and number of files of a work item, if it consists of whole files.
    pub(crate) fn files_in(&self, item: ItemId) -> Option<(u64, u64)> {
        match self.content(item)? {
            ItemContent::Files { first, entries, .. } => Some((first, u64::from(entries))),
            ItemContent::Listing { .. } | ItemContent::Large { .. } => None,
        }
    }

    /// Returns the fraction of the time it was busy.
    pub(crate) fn item_busy(&self, end: Time) -> f64 {
        self.served.item_busy(end)
    }

    /// True if it has announced that nothing more will come.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Completes a work item. A completed listing becomes files to cut.
    pub(crate) fn done(&mut self, item: ItemId) {
        match self.items.remove(&item) {
            Some(ItemContent::Files { entries, .. }) => self.outstanding -= u64::from(entries),
            Some(ItemContent::Listing { directory }) => {
                self.listings -= 1;
                let files = self.files_of(directory);
                self.outstanding -= files.end - files.start;
                self.seen += files.end - files.start;
                self.listed.push_back((directory, files));
            }
            Some(ItemContent::Large { .. }) => self.outstanding -= 1,
            None => {}
        }
    }

    /// Prepares another attempt: incomplete items are sent again in their order. `large` are the
    /// large files in progress.
    pub(crate) fn begin_attempt(&mut self, large: impl IntoIterator<Item = u64>) {
        let begun = self.items.extract_if(|_, content| matches!(content, ItemContent::Large { .. })).count();
        self.outstanding -= begun as u64;
        let item = |(&id, &content): (&ItemId, &ItemContent)| {
            let (entries, directory) = match content {
                ItemContent::Files { entries, directory, .. } => (entries, directory),
                ItemContent::Listing { directory } => (LISTING_ENTRIES, directory),
                ItemContent::Large { directory, .. } => (1, directory),
            };
            QueuedItem { id, directory, entries, body: Vec::new() }
        };
        let mut again: Vec<QueuedItem> = self.items.iter().map(item).collect();
        again.sort_unstable_by_key(|item| item.id);
        for file in large {
            self.outstanding += 1;
            let directory = file / self.directory_entries;
            again.push(self.item(ItemContent::Large { file, directory }, 1));
        }
        self.again = again.into();
        self.closed = false;
    }

    /// Performs the next step.
    pub(crate) fn step(&mut self, now: Time, scene: &Scenario, storage: &mut StorageModel) -> LaunchStep {
        let machine = &scene.machine;
        if let Some(item) = self.again.pop_front() {
            return LaunchStep::Item(item, self.served.serve(now, nanoseconds(machine.launch_item_cost)));
        }
        if self.outstanding >= machine.outstanding_entries {
            return LaunchStep::Wait;
        }
        let mut cost = nanoseconds(machine.launch_item_cost);
        let mut begin = now;
        if self.listed.is_empty()
            && let Some(directory) = self.directories.next()
        {
            let open_files = u64::from(scene.clients) * u64::from(machine.files_in_flight);
            let made = storage.metadata_between(now, directory, DIRECTORY_OPERATIONS, open_files);
            begin += (made - now) / u64::from(machine.launch_workers.max(1));
            let files = self.files_of(directory);
            let entries = files.end - files.start;
            if scene.walk == WalkModel::Ranks {
                self.listings += 1;
                self.outstanding += entries;
                let item = self.item(ItemContent::Listing { directory }, LISTING_ENTRIES);
                return LaunchStep::Item(item, self.served.serve(begin, cost));
            }
            cost += entries * nanoseconds(machine.list_cost);
            self.seen += entries;
            self.listed.push_back((directory, files));
        }
        let Some((directory, files)) = self.listed.front_mut() else {
            let over = self.listings == 0 && !self.closed;
            self.closed |= over;
            return if over { LaunchStep::Closed } else { LaunchStep::Wait };
        };
        let most = plan::item_entries(self.seen, scene.clients as usize) as u64;
        let entries = most.min(files.end - files.start) as u32;
        let content = ItemContent::Files { first: files.start, entries, directory: *directory };
        files.start += u64::from(entries);
        if files.is_empty() {
            self.listed.pop_front();
        }
        self.outstanding += u64::from(entries);
        let item = self.item(content, entries);
        LaunchStep::Item(item, self.served.serve(begin, cost))
    }

    fn item(&mut self, content: ItemContent, entries: u32) -> QueuedItem {
        let id = ItemId(self.next);
        self.next += 1;
        let (ItemContent::Files { directory, .. }
        | ItemContent::Listing { directory }
        | ItemContent::Large { directory, .. }) = content;
        self.items.insert(id, content);
        QueuedItem { id, directory, entries, body: Vec::new() }
    }
}
