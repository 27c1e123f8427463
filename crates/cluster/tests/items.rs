//! Work items: what one run gives away is done once by another. The walking run is notified once,
//! and continues as if it had done the work itself.
//!
//! The other run is in this process. It receives work items as they would be sent, but
//! not serialised.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../flow/tests/recorder/mod.rs"]
mod recorder;

use std::collections::{BTreeSet, HashMap};
use std::ffi::CString;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use haul_cluster::launch::{GroupOptions, HostRanks, Launcher, ProcessGroup, Started};
use haul_cluster::link::{Arrival, Link, in_process_pair};
use haul_cluster::schedule::{FileId, ItemId};
use haul_cluster::transport::Rank;
use haul_cluster::wire::{FileOpened, ItemDone, ProgressReport as RankReport, ToLaunch, ToMaster, unpack};
use haul_cluster::{
    ClusterKind, CompletionSink, Distributed, ItemKey, ItemOutcome, ItemReceiver, ItemSpec, JobError, Joined,
    LargeFile, LargeFileRange, PackedItem, PendingItem, RemotePath, RemotePaths, WalkPlacement, WorkItem,
};
use haul_flow::{
    Config, Context, DirCache, DirNode, Driver, Entry, Executor, Feed, Job, JobSpec, Local, OpenSource,
    Problem, Reporter, RunSpec, Selector, Settings, Status,
};
use haul_sys::{Error, Open, PackedNames, Stat};
use proptest::prelude::*;

use recorder::{Event, MACHINE, Notes, Recorder, Shape, build, check, operand, shapes};

impl Distributed for Recorder {
    const KINDS: &'static [haul_flow::Kind] = &[];
    const NAME: &'static str = "recorder";

    fn init_message(&self) -> Vec<u8> {
        Vec::new()
    }
    fn from_init(_: &[u8]) -> Option<Self> {
        Some(Self::default())
    }
    fn is_distributable(&self, _: &DirNode<Self>) -> bool {
        true
    }
    fn pack(&self, own: &String) -> Vec<u8> {
        own.as_bytes().to_vec()
    }
    fn unpack(&self, packed: &[u8], _: &ItemReceiver<'_>) -> Result<String, (Vec<u8>, Error)> {
        Ok(String::from_utf8(packed.to_vec()).unwrap())
    }
    fn pack_entered(&self, own: &String) -> Vec<u8> {
        own.as_bytes().to_vec()
    }
    fn join(
        &self,
        _: &Context<'_, Self>,
        _: &Entry<Self>,
        _: &OpenSource<'_>,
        ticket: &[u8],
    ) -> Option<Joined<Mutex<u64>>> {
        let target = haul_sys::open_path(&CString::new(ticket).unwrap(), Open::READ).unwrap();
        Some(Joined { own: Mutex::new(0), target, inspect: true })
    }
    fn may_be_entered_elsewhere(&self, _: &DirNode<Self>, _: u64) -> bool {
        true
    }
    fn unpack_entered(&self, _: &Context<'_, Self>, _: &Entry<Self>, packed: &[u8]) -> Option<String> {
        Some(String::from_utf8(packed.to_vec()).unwrap())
    }
    fn decide_bounced(&self, _: &Context<'_, Self>, _: &mut Entry<Self>) -> bool {
        true
    }
    fn claim_ended(&self, _: &Context<'_, Self>, entry: &Entry<Self>, stands: bool) {
        self.claimed.lock().unwrap().push((entry.name().to_owned(), stands));
    }
}

/// Sizes of the work that a run gives away.
#[derive(Clone, Copy, Debug)]
struct Giving {
    /// Workers of the walking run and of the other.
    workers: [usize; 2],
    /// Entries of a work item, and of a job of the run that receives it.
    entries: [usize; 2],
    /// True to give directories away as well.
    directories: bool,
}

/// A work item in flight. Its feed keeps the walking run alive.
struct Sent {
    pending: PendingItem<Recorder>,
    claimed: bool,
    feed: Feed<'static, Job<Recorder>>,
}

/// State of the walking run's driver, which also receives the reports of the other run.
struct Post {
    giving: Giving,
    tool: &'static Recorder,
    notes: &'static Notes,
    /// Reports of the other run.
    notes_there: &'static Notes,
    local: &'static Local<Job<Recorder>>,
    other: Mutex<Option<Feed<'static, Job<Recorder>>>>,
    remote_paths: Arc<RemotePaths>,
    under_way: Mutex<HashMap<u64, Sent>>,
    items: AtomicU64,
    /// Entries that the other run has finished in the items reported as done.
    finished_there: AtomicU64,
    /// Items reported as done before all of their entries were counted.
    uncounted: Mutex<Vec<u64>>,
    /// Items reported as done that were not in flight.
    strays: Mutex<Vec<u64>>,
    /// Hook that runs before an item is sent.
    before: fn(&PackedItem),
}

impl Post {
    fn send(self: &Arc<Self>, pending: PendingItem<Recorder>, claimed: bool) {
        let number = self.items.fetch_add(1, Ordering::Relaxed);
        let packed = pending.pack(self.tool, ItemSpec { number, claimed, ..ItemSpec::default() });
        (self.before)(&packed);
        let sent = Sent { pending, claimed, feed: self.local.feed() };
        self.under_way.lock().unwrap().insert(number, sent);
        let (remote_paths, entries) = (Arc::clone(&self.remote_paths), self.giving.entries[1]);
        let sink = Arc::clone(self) as Arc<dyn CompletionSink<Recorder>>;
        let admit = move |cx: &Context<'_, Recorder>| {
            let receiver = ItemReceiver { cache: cx.cache(), remote_paths: &remote_paths };
            let jobs = packed.admit(&receiver, cx.tool(), sink, entries).unwrap();
            jobs.into_iter().for_each(|job| cx.share(job));
        };
        self.other.lock().unwrap().as_ref().unwrap().share(Job::Callback(Box::new(admit)));
    }
}

/// Driver of the walking run.
struct Giver(Arc<Post>);

impl Driver<Job<Recorder>> for Giver {
    fn workers(&self) -> usize {
        self.0.local.workers()
    }
    fn recruit(&self, me: usize) -> Option<usize> {
        self.0.local.recruit(me)
    }
    fn start_all(&self) {
        self.0.local.start_all();
    }
    fn not_started(&self) {
        self.0.local.not_started();
    }
    fn share(&self, me: usize, job: Job<Recorder>) {
        let claimed = matches!(job, Job::Entries(_));
        let pending = match self.0.giving.directories {
            true => {
                PendingItem::of_directories(self.0.tool, job).or_else(|job| PendingItem::of(self.0.tool, job))
            }
            false => PendingItem::of(self.0.tool, job),
        };
        match pending {
            Ok(pending) => self.0.send(pending, claimed),
            Err(job) => self.0.local.share(me, job),
        }
    }
    fn take(&self, me: usize) -> Option<Job<Recorder>> {
        self.0.local.take(me)
    }
    fn classifies_first(&self) -> bool {
        true
    }
    fn batch_entries(&self, _: usize) -> usize {
        self.0.giving.entries[0]
    }
    fn wait(&self, me: usize) -> bool {
        self.0.local.wait(me)
    }
}

/// Driver of the other run. A worker yields to the others after each entry, before it does
/// anything else.
struct Yielding<'a>(&'a Local<Job<Recorder>>);

impl Driver<Job<Recorder>> for Yielding<'_> {
    fn workers(&self) -> usize {
        self.0.workers()
    }
    fn recruit(&self, me: usize) -> Option<usize> {
        std::thread::yield_now();
        self.0.recruit(me)
    }
    fn start_all(&self) {
        self.0.start_all();
    }
    fn not_started(&self) {
        self.0.not_started();
    }
    fn share(&self, me: usize, job: Job<Recorder>) {
        self.0.share(me, job);
    }
    fn take(&self, me: usize) -> Option<Job<Recorder>> {
        self.0.take(me)
    }
    fn wait(&self, me: usize) -> bool {
        self.0.wait(me)
    }
}

impl CompletionSink<Recorder> for Post {
    fn done(&self, item: &WorkItem<Recorder>) {
        let sent = self.under_way.lock().unwrap().remove(&item.spec.number);
        let Some(Sent { pending, claimed, feed }) = sent else {
            return self.strays.lock().unwrap().push(item.spec.number);
        };
        let outcome = item.outcome();
        let here = outcome.bounced.len() + outcome.entered.len();
        let finished = (pending.entry_count() - here) as u64;
        let finished = self.finished_there.fetch_add(finished, Ordering::SeqCst) + finished;
        let counted = self.notes_there.tally.lock().unwrap().finished;
        if counted < finished {
            self.uncounted.lock().unwrap().push(item.spec.number);
        }
        feed.share(Job::Callback(Box::new(move |cx| pending.complete(cx, claimed, outcome))));
    }
    fn note(&self, _: ItemKey, problem: Problem) {
        self.notes.problem(problem);
    }
    fn seal(&self, _: &Context<'_, Recorder>, _: &Arc<DirNode<Recorder>>) {}
    fn flush(&self, _: &Context<'_, Recorder>) {}
    fn flushes(&self) -> bool {
        false
    }
    fn is_large(&self, _: u64) -> bool {
        false
    }
    fn number_large_file(&self, _: &Stat) -> Option<u64> {
        None
    }
    fn file_opened(&self, _: &Recorder, _: u64, _: LargeFile<Recorder>) {}
    fn file_closed(&self, _: &Context<'_, Recorder>, _: &Entry<Recorder>, _: u64, _: bool) {}
}

/// Result of a run that gave its files away.
struct Given {
    tool: &'static Recorder,
    notes: &'static Notes,
    /// Status of the walking run and of the other.
    statuses: [Status; 2],
    items: u64,
}

/// Runs over a tree and gives the files to another run.
fn give(root: &Path, giving: Giving, held: usize, before: fn(&PackedItem)) -> Given {
    let settings = Settings { cached_directories: held, ..Settings::within(&Config::default(), MACHINE) };
    // Entries refer to these, and there is no limit to an entry's lifetime.
    let tool: &Recorder = Box::leak(Box::default());
    let [notes, notes_there] = [(); 2].map(|()| -> &Notes { Box::leak(Box::default()) });
    let [local, other] = giving.workers.map(|workers| &*Box::leak(Box::new(Local::new(workers))));
    let [here, there] = [held; 2].map(DirCache::new);
    let post = Arc::new(Post {
        giving,
        tool,
        notes,
        notes_there,
        local,
        other: Mutex::new(Some(other.feed())),
        remote_paths: Arc::default(),
        under_way: Mutex::default(),
        items: AtomicU64::new(0),
        finished_there: AtomicU64::new(0),
        uncounted: Mutex::default(),
        strays: Mutex::default(),
        before,
    });
    let giver = Giver(Arc::clone(&post));
    let selector = &Selector::default();
    let statuses = std::thread::scope(|threads| {
        let spec = |cache, report| RunSpec {
            tool,
            settings,
            cache,
            selector,
            report,
            limits: None,
            engine: Mutex::default(),
        };
        let (here, there) = (spec(&here, notes), spec(&there, notes_there));
        let other = threads.spawn(move || haul_flow::run(&there, &Yielding(other), []));
        let status = haul_flow::run(&here, &giver, [operand(here.cache, root)]);
        // Closes the feed: nothing more is sent.
        post.other.lock().unwrap().take();
        [status, other.join().unwrap()]
    });
    assert_eq!(*post.uncounted.lock().unwrap(), [0; 0], "items were done before they were counted");
    assert_eq!(*post.strays.lock().unwrap(), [0; 0], "items were reported done twice");
    assert!(post.under_way.lock().unwrap().is_empty(), "the run is over with items under path");
    let items = post.items.load(Ordering::Relaxed);
    notes.count(*notes_there.tally.lock().unwrap());
    notes.problems.lock().unwrap().append(&mut notes_there.problems.lock().unwrap());
    Given { tool, notes, statuses, items }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn what_is_given_away_is_done_once_and_in_order(
        shape in shapes(),
        workers in (1usize..5, 1usize..5),
        entries in (1usize..80, 1usize..80),
        directories: bool,
        twins: bool,
        held in 4usize..40,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (root, mut expected) = (folder.path().join("root"), BTreeSet::new());
        build(&shape, &root, if twins { "twin" } else { "f" }, &mut expected);
        let giving = Giving { workers: workers.into(), entries: entries.into(), directories };
        let Given { tool, notes, statuses, items } = give(&root, giving, held, |_| {});
        let problems = std::mem::take(&mut *notes.problems.lock().unwrap());
        prop_assert!(problems.is_empty(), "{problems:?}");
        prop_assert_eq!(statuses, [Status::Success; 2]);
        let events = std::mem::take(&mut *tool.events.lock().unwrap());
        let files = events.iter().filter(|event| matches!(event, Event::Done(..))).count();
        prop_assert!(items >= files.div_ceil(entries.0) as u64, "{items} items");
        let claimed = std::mem::take(&mut *tool.claimed.lock().unwrap());
        prop_assert_eq!(claimed.len(), if twins { files } else { 0 }, "claimed and reported");
        prop_assert!(claimed.iter().all(|(_, stands)| *stands));
        check(&events, &expected, *notes.tally.lock().unwrap())?;
    }
}

/// Removes files that must be gone when a work item arrives; those with several names only when it
/// arrives with a hard-link claim.
fn remove_gone(item: &PackedItem) {
    let folder = String::from_utf8(item.source.path()).unwrap();
    for name in item.names.bytes().split(|byte| *byte == 0) {
        let name = std::str::from_utf8(name).unwrap();
        if name.starts_with("gone") || (name.starts_with("twin-gone") && item.spec.claimed) {
            fs::remove_file(Path::new(&folder).join(name)).unwrap();
        }
    }
}

#[test]
fn what_goes_wrong_in_a_part_is_reported_once_and_ends_nothing() {
    for directories in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (root, mut expected) = (folder.path().join("root"), BTreeSet::new());
        let shape = Shape { files: 20, directories: vec![Shape { files: 20, directories: Vec::new() }] };
        build(&shape, &root, "twin-", &mut expected);
        for name in ["gone", "d0/gone", "twin-gone", "d0/twin-gone"] {
            fs::write(root.join(name), "x").unwrap();
        }
        let giving = Giving { workers: [2, 2], entries: [8, 3], directories };
        let Given { tool, notes, statuses, .. } = give(&root, giving, 16, remove_gone);
        assert_eq!(statuses, [Status::Success, Status::Failure], "whose run met the errors");
        let problems = std::mem::take(&mut *notes.problems.lock().unwrap());
        let mut names: Vec<_> = problems.iter().flat_map(|problem| problem.names.clone()).collect();
        names.sort();
        let gone = ["d0/gone", "d0/twin-gone", "gone", "twin-gone"].map(|name| root.join(name));
        assert_eq!(names, gone.map(|path| path.into_os_string().into_encoded_bytes()));
        let claimed = std::mem::take(&mut *tool.claimed.lock().unwrap());
        assert_eq!(claimed.len(), 42);
        let fallen: Vec<_> =
            claimed.into_iter().filter(|(_, stands)| !stands).map(|(name, _)| name).collect();
        assert_eq!(fallen, vec![c"twin-gone".to_owned(); 2]);
        let happened = BTreeSet::from_iter(std::mem::take(&mut *tool.events.lock().unwrap()));
        assert_eq!(happened, expected);
    }
}

/// Records whether a range was moved.
#[derive(Default)]
struct RecordedReports {
    moved: Mutex<Vec<bool>>,
    problems: Mutex<Vec<Problem>>,
}

impl CompletionSink<Recorder> for RecordedReports {
    fn done(&self, item: &WorkItem<Recorder>) {
        self.moved.lock().unwrap().push(item.was_moved());
    }
    fn is_large(&self, _: u64) -> bool {
        false
    }
    fn number_large_file(&self, _: &Stat) -> Option<u64> {
        panic!("a member was asked to lead");
    }
    fn note(&self, _: ItemKey, problem: Problem) {
        self.problems.lock().unwrap().push(problem);
    }
    fn seal(&self, _: &Context<'_, Recorder>, _: &Arc<DirNode<Recorder>>) {}
    fn flush(&self, _: &Context<'_, Recorder>) {}
    fn flushes(&self) -> bool {
        false
    }
    fn file_opened(&self, _: &Recorder, _: u64, _: LargeFile<Recorder>) {}
    fn file_closed(&self, _: &Context<'_, Recorder>, _: &Entry<Recorder>, _: u64, _: bool) {}
}

/// Moves a range of a file of `bytes` bytes that had `size` when its leader opened it. Returns
/// whether it was reported as moved, the number of bytes moved, and the number of problems.
fn move_piece(bytes: usize, piece: std::ops::Range<u64>, size: u64) -> (Vec<bool>, u64, usize) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, vec![1; bytes]).unwrap();
    let settings = Settings::within(&Config::default(), MACHINE);
    let (tool, notes, heard, local) =
        (Recorder::default(), Notes::default(), Arc::new(RecordedReports::default()), Local::new(2));
    let cache = DirCache::new(16);
    let place = operand(&cache, &file).place;
    let piece = LargeFileRange { range: piece, size, by_kernel: false, ticket: b"/dev/null".to_vec() };
    let mut packed = PackedItem {
        spec: ItemSpec { piece: Some(piece), ..ItemSpec::default() },
        source: RemotePath::to(&place),
        own: Vec::new(),
        names: PackedNames::default(),
    };
    packed.names.push(c"file", haul_sys::EntryType::Regular);
    let spec = RunSpec {
        tool: &tool,
        settings,
        cache: &cache,
        selector: &Selector::default(),
        report: &notes,
        limits: None,
        engine: Mutex::default(),
    };
    let sink = Arc::clone(&heard) as Arc<dyn CompletionSink<Recorder>>;
    let feed = local.feed();
    feed.share(Job::Callback(Box::new(move |cx| {
        let receiver = ItemReceiver { cache: cx.cache(), remote_paths: &RemotePaths::default() };
        let jobs = packed.admit(&receiver, cx.tool(), sink, 64).unwrap();
        jobs.into_iter().for_each(|job| cx.share(job));
    })));
    drop(feed);
    haul_flow::run(&spec, &local, []);
    let moved = *tool.pieces.lock().unwrap();
    let results = heard.moved.lock().unwrap().clone();
    (results, moved, heard.problems.lock().unwrap().len())
}

#[test]
fn a_range_is_reported_moved_only_if_all_of_it_was() {
    let size = 5 << 20;
    assert_eq!(move_piece(5 << 20, 1 << 20..5 << 20, size), (vec![true], 4 << 20, 0));
    assert_eq!(move_piece(5 << 20, 0..1, size), (vec![true], 1, 0));
    // The file was replaced, or has grown or shrunk since.
    assert_eq!(move_piece(4 << 20, 0..1, size), (vec![false], 0, 1));
    // It shrinks after the leader opened it, so the last bytes of the range are missing.
    let (results, moved, problems) = move_piece(3 << 20, 2 << 20..4 << 20, 3 << 20);
    assert_eq!((results, moved, problems), (vec![false], 1 << 20, 1));
}

/// Rank 0 of a job that is lost once: the first attempt announces every entry as a large file, and
/// ends before it has reported anything else. The second completes every work item.
#[derive(Default)]
struct LostOnce {
    /// When the first attempt sent its last message.
    lost: Arc<Mutex<Option<Instant>>>,
    /// Entries of the work items of the second attempt.
    sent_again: Arc<Mutex<Vec<u32>>>,
}

impl Launcher for LostOnce {
    fn start(&self, _: &[HostRanks], _: Duration) -> Result<Started, JobError> {
        let (launch, master) = in_process_pair();
        let lost = self.lost.lock().unwrap().take();
        // A rank on another host may have a lease from then.
        assert!(lost.is_none_or(|lost| lost.elapsed() > SILENCE * 2 / 3), "started too early: {lost:?}");
        let lost = lost.is_none().then(|| Arc::clone(&self.lost));
        let sent_again = Arc::clone(&self.sent_again);
        std::thread::spawn(move || lead(master, lost.as_deref(), &sent_again));
        Ok(Started { link: launch, job: None })
    }
}

/// `lost` is set in the first attempt.
fn lead(
    mut link: Link<ToLaunch, ToMaster>,
    lost: Option<&Mutex<Option<Instant>>>,
    sent_again: &Mutex<Vec<u32>>,
) {
    let ready = ToLaunch::Ready { hosts: vec!["here".to_owned()], transport: "none".to_owned() };
    link.send(ready).unwrap();
    loop {
        let (item, entries, body) = match link.receive() {
            Some(Arrival::Message(ToMaster::Item { item, entries, body, .. })) => (item, entries, body),
            Some(Arrival::Message(ToMaster::Stop)) => {
                return link.send(ToLaunch::Stopped { messages: 0 }).unwrap();
            }
            Some(Arrival::Gone(_)) => return,
            Some(_) => continue,
            None => {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
        };
        let report = match lost {
            Some(_) => RankReport { opened: opened(item, &body), ..RankReport::default() },
            None => {
                sent_again.lock().unwrap().push(entries);
                let (outcome, problems) = (ItemOutcome::default(), Vec::new());
                let over = ItemDone { item, outcome, error_free: true, problems };
                RankReport { items: vec![over], ..RankReport::default() }
            }
        };
        let sent = Instant::now();
        link.send(ToLaunch::Report { rank: Rank(0), report: Box::new(report) }).unwrap();
        if let Some(lost) = lost {
            *lost.lock().unwrap() = Some(sent);
            return;
        }
    }
}

const SILENCE: Duration = Duration::from_secs(3);

/// Announces every entry of a work item as a large file.
fn opened(item: ItemId, body: &[u8]) -> Vec<FileOpened> {
    let packed: PackedItem = unpack(body).unwrap();
    let names = packed.names.bytes().split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let opened = |(name, number): (&[u8], u64)| FileOpened {
        file: FileId(number),
        item,
        name: CString::new(name).unwrap(),
        size: 1,
        stripe_bytes: 0,
        stripes: 1,
        done: Vec::new(),
        ticket: Vec::new(),
        member: Vec::new(),
    };
    names.zip(1..).map(opened).collect()
}

/// An item that only large files were in has no entries left when its job is lost. A rank would
/// find no directory for it.
#[test]
fn an_item_whose_entries_have_all_left_it_is_not_sent_again() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("large"), "x").unwrap();
    let (tool, notes, config) = (Recorder::default(), Notes::default(), Config::default());
    let settings = Settings::within(&config, MACHINE);
    let cache = DirCache::new(16);
    let launcher = LostOnce::default();
    let sent_again = Arc::clone(&launcher.sent_again);
    let options = GroupOptions { silence: SILENCE, range_bytes: None, walk: WalkPlacement::Launch };
    let group = ProcessGroup::new(Box::new(launcher), options, None);
    let run = RunSpec {
        tool: &tool,
        settings,
        cache: &cache,
        selector: &Selector::default(),
        report: &notes,
        limits: None,
        engine: Mutex::default(),
    };
    let operands = vec![operand(&cache, folder.path())];
    let status = group.execute(&JobSpec { run, config: &config, target_directories: Vec::new() }, operands);
    assert!(matches!(group.shut_down(&notes), Ok(0)));
    assert_eq!(status, Status::Success);
    let problems = std::mem::take(&mut *notes.problems.lock().unwrap());
    let kinds: Vec<_> = problems.iter().map(|problem| problem.kind).collect();
    assert_eq!(kinds, [ClusterKind::Restarting], "{problems:?}");
    assert_eq!(*sent_again.lock().unwrap(), [1], "entries of each item");
}
