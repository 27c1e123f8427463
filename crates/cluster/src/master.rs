//! Rank 0's master: distributes the work that arrives over the link, returns the results, and gives
//! up ranks that are silent too long.
//!
//! ```text
//! link ─► init message ─► all ─► Hello ... ─► Ready ─► Item ... ─► Scheduler ─► ranks
//!                                               Report ◄──────────────── ranks
//! link ─► Stop ─► all ─► Bye ... ─► Stopped
//! ```
//!
//! When the work of a tool is done, another init message may come instead of `Stop`.
//!
//! It ends when all ranks have shut down, or with [`Broken`] when the link or a rank is lost. It
//! sends the reason to the launch process if possible.

use std::time::{Duration, Instant};

use haul_flow::Granter;
use haul_sys::since_boot;

use crate::error::LinkClosed;
use crate::lease;
use crate::link::{Arrival, Link};
use crate::schedule::{CountedBy, LargeFile, Limits, QueuedItem, Scheduler, SchedulerEvent, SchedulerOrder};
use crate::suspend_detector::SuspendDetector;
use crate::transport::{Broken, Rank};
use crate::wire::{
    FileOpened, Hello, InitMessage, Message, PackedInit, ProgressReport, ToLaunch, ToMaster, counted_by,
};

/// Maximum messages received from the link in one turn, so that the ranks' messages aren't starved.
const LINK_TURN: usize = 256;

/// Minimum number of ranks for rank 0 to run only the master. With fewer ranks, that would waste
/// its host.
const DEDICATED_MASTER_RANKS_MIN: u32 = 16;

/// Interval between two lists of slow ranks.
const SLOW_RANKS_INTERVAL: Duration = Duration::from_secs(1);

/// State of a rank.
struct Peer {
    host: Option<String>,
    last_received: Instant,
    gone: bool,
}

/// Master of a job, on rank 0.
pub struct Master {
    link: Link<ToLaunch, ToMaster>,
    transport: String,
    peers: Vec<Peer>,
    scheduler: Option<Scheduler>,
    counted_by: CountedBy,
    silence: Duration,
    began: Instant,
    link_last_received: Instant,
    /// When the last heartbeat was sent to the launch process.
    last_alive: Instant,
    /// End of the launch process's lease.
    lease_end: Duration,
    unfit: Vec<(String, String)>,
    orders: Vec<SchedulerOrder>,
    /// True if the scheduler got an event since work was last given out.
    noted: bool,
    outgoing: Vec<(Rank, Message)>,
    messages: u64,
    stopping: bool,
    suspend_detector: SuspendDetector,
    /// When the slow ranks were last looked for, and whether there were any.
    slow_ranks_sent: (Instant, bool),
    /// The clocks of the limits. The launch process's requests are those of `None`.
    granter: Granter<Option<Rank>>,
}

impl Master {
    /// Creates the master of `size` ranks; `transport` names the message transport.
    #[must_use]
    pub fn new(link: Link<ToLaunch, ToMaster>, size: u32, transport: String) -> Self {
        let now = Instant::now();
        let peer = || Peer { host: None, last_received: now, gone: false };
        Self {
            link,
            transport,
            peers: (0..size).map(|_| peer()).collect(),
            scheduler: None,
            counted_by: CountedBy::Leader,
            silence: Duration::MAX,
            began: now,
            link_last_received: now,
            last_alive: now,
            lease_end: Duration::ZERO,
            unfit: Vec::new(),
            orders: Vec::new(),
            noted: false,
            outgoing: Vec::new(),
            messages: 0,
            stopping: false,
            suspend_detector: SuspendDetector::new(now),
            slow_ranks_sent: (now, false),
            granter: Granter::default(),
        }
    }

    /// Returns the messages to send.
    pub(crate) fn outgoing(&mut self) -> impl Iterator<Item = (Rank, Message)> {
        self.messages += self.outgoing.iter().filter(|(_, message)| counts(message)).count() as u64;
        std::mem::take(&mut self.outgoing).into_iter()
    }

    /// True if all ranks have shut down.
    pub(crate) fn is_over(&self) -> bool {
        self.peers.iter().all(|peer| peer.gone)
    }

    /// Reports to the launch process that all ranks have shut down.
    pub(crate) fn report_stopped(&mut self) {
        // A launch process that didn't wait for this has everything it needs.
        self.send_to_launch(ToLaunch::Stopped { messages: self.messages }).unwrap_or_default();
    }

    /// Reports to the launch process why the job is lost, if possible.
    pub(crate) fn report_lost(&mut self, why: &Broken) {
        // If this fails, the launch process will find the link closed.
        self.send_to_launch(ToLaunch::Lost { why: why.to_string() }).unwrap_or_default();
    }

    fn send_to_launch(&mut self, message: ToLaunch) -> Result<(), Broken> {
        self.link.send(message).map_err(|cause| Broken::Link(cause.into()))
    }

    fn queue_for_all(&mut self, message: &Message) {
        for rank in 0..self.peers.len() as u32 {
            self.outgoing.push((Rank(rank), message.clone()));
        }
    }

    /// Handles the messages that have arrived over the link. Returns true if there were any.
    pub(crate) fn receive_from_launch(&mut self) -> Result<bool, Broken> {
        let mut last_received = false;
        for _ in 0..LINK_TURN {
            let Some(arrival) = self.link.receive() else { break };
            (last_received, self.link_last_received) = (true, Instant::now());
            match arrival {
                Arrival::Message(message) => self.handle_from_launch(message)?,
                Arrival::Stray(_) => {}
                // After `Stop` the launch process need not wait for the last messages.
                Arrival::Gone(_) if self.stopping => break,
                Arrival::Gone(why) => return Err(Broken::Link(why)),
            }
        }
        Ok(last_received)
    }

    fn handle_from_launch(&mut self, message: ToMaster) -> Result<(), Broken> {
        match message {
            ToMaster::InitMessage(init_message) => self.begin(init_message),
            ToMaster::Item { item, directory, entries, body } => {
                self.event(SchedulerEvent::Item(QueuedItem { id: item, directory, entries, body }));
            }
            ToMaster::Closed => self.event(SchedulerEvent::Closed),
            ToMaster::Cancel => self.queue_for_all(&Message::Cancelled),
            ToMaster::Limits(values) => {
                self.granter.set(values, Instant::now());
                self.queue_for_all(&Message::Limits(values));
            }
            ToMaster::Request(load) => self.granter.ask(None, load, Instant::now()),
            ToMaster::Lease(sent_at) => {
                self.lease_end = sent_at + lease::duration(self.silence);
                self.extend_lease(Rank::MASTER, sent_at);
            }
            ToMaster::Stop => {
                self.stopping = true;
                self.queue_for_all(&Message::Stop);
            }
        }
        Ok(())
    }

    /// Forwards the init message. If it is of another build, every rank refuses it, including the
    /// agent on this one.
    ///
    /// Invariant: the launch process sends another one only when nothing is outstanding, so nothing
    /// that may still arrive of the previous tool concerns the new scheduler.
    fn begin(&mut self, packed: PackedInit) {
        self.peers.iter_mut().for_each(|peer| peer.host = None);
        self.began = Instant::now();
        if let Ok(init_message) = packed.unpack() {
            let size = self.peers.len() as u32;
            self.silence = init_message.silence;
            let values = init_message.config.limits.as_ref().map(haul_flow::Limits::values);
            self.granter.set(values.unwrap_or_default(), Instant::now());
            self.counted_by = counted_by(init_message.leader_counts);
            let limits = limits(&init_message);
            self.scheduler = Some(Scheduler::new(workers(size).map(Rank).collect(), limits));
        }
        self.queue_for_all(&Message::InitMessage(packed));
    }

    /// Handles a message from a rank.
    pub(crate) fn handle(&mut self, from: Rank, message: Message) -> Result<(), Broken> {
        self.peers[from.index()].last_received = Instant::now();
        self.messages += u64::from(counts(&message));
        match message {
            Message::Hello(hello) => self.handle_hello(from, hello)?,
            Message::Report(report) => self.report(from, *report)?,
            Message::Request(load) => self.granter.ask(Some(from), load, Instant::now()),
            Message::Bye => self.peers[from.index()].gone = true,
            Message::Alive(sent_at) => self.extend_lease(from, sent_at),
            _ => {}
        }
        Ok(())
    }

    /// Answers a heartbeat of a rank. After `Stop` it receives nothing more.
    fn extend_lease(&mut self, to: Rank, sent_at: Duration) {
        if !self.stopping {
            let lasts = self.lease_end.saturating_sub(since_boot());
            self.outgoing.push((to, Message::Lease { sent_at, lasts }));
        }
    }

    fn handle_hello(&mut self, from: Rank, hello: Hello) -> Result<(), Broken> {
        if let Some(why) = hello.unfit {
            self.unfit.push((hello.host.clone(), why));
        }
        self.peers[from.index()].host = Some(hello.host);
        let hosts: Option<Vec<_>> = self.peers.iter().map(|peer| peer.host.clone()).collect();
        let Some(hosts) = hosts else { return Ok(()) };
        if !self.unfit.is_empty() {
            let mut reasons = std::mem::take(&mut self.unfit);
            // All ranks of a host give the same reason.
            reasons.sort();
            reasons.dedup();
            return self.send_to_launch(ToLaunch::Unfit { reasons });
        }
        let transport = self.transport.clone();
        self.send_to_launch(ToLaunch::Ready { hosts, transport })
    }

    /// Passes a report to the scheduler and to the launch process.
    fn report(&mut self, from: Rank, report: ProgressReport) -> Result<(), Broken> {
        for opened in &report.opened {
            self.event(SchedulerEvent::Open(large_file(from, self.counted_by, opened)));
        }
        for done in &report.items {
            self.event(SchedulerEvent::ItemDone { rank: from, item: done.item });
        }
        for done in report.ranges.iter().cloned() {
            let crate::wire::RangeDone { rank, file, range, took, moved, .. } = done;
            self.event(SchedulerEvent::RangeDone { rank, file, range, took, moved });
        }
        for done in &report.files {
            self.event(SchedulerEvent::FileDone { file: done.file });
        }
        if report.cancelled {
            self.queue_for_all(&Message::Cancelled);
        }
        self.send_to_launch(ToLaunch::Report { rank: from, report: Box::new(report) })
    }

    /// Passes an event to the scheduler. Work is given out later, after all events of a turn, in
    /// fuller messages.
    fn event(&mut self, event: SchedulerEvent) {
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.note(event, self.began.elapsed(), &mut self.orders);
            self.noted = true;
        }
    }

    /// Queues messages for the scheduler's orders.
    pub(crate) fn dispatch(&mut self) -> Result<(), Broken> {
        let Some(scheduler) = self.scheduler.as_mut().filter(|_| std::mem::take(&mut self.noted)) else {
            return Ok(());
        };
        scheduler.give(self.began.elapsed(), &mut self.orders);
        for order in std::mem::take(&mut self.orders) {
            match order {
                SchedulerOrder::Items { to, items } => {
                    let items = items.into_iter().map(|item| (item.id, item.body)).collect();
                    self.outgoing.push((to, Message::Items(items)));
                }
                // Ranks know from the init message who counts ranges, so `report_to` needn't
                // be sent.
                SchedulerOrder::Range { to, file, leader, range, report_to: _, ticket } => {
                    let ticket = ticket.to_vec();
                    self.outgoing.push((to, Message::Range { file, leader, range, ticket }));
                }
                SchedulerOrder::RangesDone { to, file, moved } => {
                    self.outgoing.push((to, Message::RangesDone { file, moved }));
                }
                SchedulerOrder::Remark(text) => self.send_to_launch(ToLaunch::Remark(text))?,
                // The launch process decides when the job is done: bounced entries may have to go
                // out again.
                SchedulerOrder::Over => {}
            }
        }
        Ok(())
    }

    /// Grants the load that the limits allow. After `Stop` nobody needs it, and a rank that has
    /// shut down receives nothing.
    pub(crate) fn grant(&mut self, now: Instant) -> Result<(), Broken> {
        if self.stopping {
            return Ok(());
        }
        for (to, load) in self.granter.due(now) {
            match to {
                Some(rank) => self.outgoing.push((rank, Message::Grant(load))),
                None => self.send_to_launch(ToLaunch::Grant(load))?,
            }
        }
        Ok(())
    }

    /// Sends the launch process a heartbeat, and checks for those of the ranks and for its answers.
    pub(crate) fn tick(&mut self, now: Instant) -> Result<(), Broken> {
        if self.scheduler.is_none() {
            return Ok(());
        }
        // Time during which this process was suspended doesn't count as silence of a peer.
        let stood_still = self.suspend_detector.tick(now);
        self.link_last_received += stood_still;
        self.peers.iter_mut().for_each(|peer| peer.last_received += stood_still);
        // Skips rank 0, which is this process.
        for (index, peer) in self.peers.iter().enumerate().skip(1).filter(|(_, peer)| !peer.gone) {
            let silent = now.saturating_duration_since(peer.last_received);
            if silent > self.silence {
                let (rank, host) = (Rank(index as u32), peer.host.clone());
                return Err(Broken::LostRank { rank, host, silence: silent });
            }
        }
        if self.stopping {
            return Ok(());
        }
        if now.saturating_duration_since(self.link_last_received) > self.silence {
            return Err(Broken::Link(LinkClosed::Silent));
        }
        if now.saturating_duration_since(self.last_alive) > lease::interval(self.silence) {
            self.last_alive = now;
            self.send_to_launch(ToLaunch::Alive(since_boot()))?;
        }
        self.send_slow_ranks(now)
    }

    /// Sends the launch process the slow ranks, for as long as there are any.
    fn send_slow_ranks(&mut self, now: Instant) -> Result<(), Broken> {
        let (last_sent, were_slow) = self.slow_ranks_sent;
        let Some(scheduler) = &self.scheduler else { return Ok(()) };
        if now.saturating_duration_since(last_sent) < SLOW_RANKS_INTERVAL {
            return Ok(());
        }
        let slow = scheduler.slow_ranks(self.began.elapsed());
        self.slow_ranks_sent = (now, !slow.is_empty());
        if slow.is_empty() && !were_slow { Ok(()) } else { self.send_to_launch(ToLaunch::SlowRanks(slow)) }
    }
}

/// Returns the ranks that copy, of `size` in all.
pub(crate) fn workers(size: u32) -> std::ops::Range<u32> {
    u32::from(size >= DEDICATED_MASTER_RANKS_MIN)..size
}

/// True if a message concerns the work, not heartbeat, lease, startup or shutdown.
fn counts(message: &Message) -> bool {
    !matches!(
        message,
        Message::Alive(_)
            | Message::Lease { .. }
            | Message::InitMessage(_)
            | Message::Hello(_)
            | Message::Stop
            | Message::Bye
    )
}

/// Returns the scheduler limits for an init message.
pub(crate) fn limits(init_message: &InitMessage) -> Limits {
    let usual = Limits { remarks: init_message.debug, ..Limits::default() };
    match init_message.range_bytes {
        Some(bytes) => Limits { range_bytes_min: bytes, range_bytes_max: bytes, ..usual },
        None => usual,
    }
}

fn large_file(leader: Rank, counted_by: CountedBy, opened: &FileOpened) -> LargeFile {
    LargeFile {
        id: opened.file,
        leader,
        size: opened.size,
        stripe_bytes: opened.stripe_bytes,
        stripes: opened.stripes,
        counted_by,
        done: opened.done.clone(),
        ticket: opened.member.clone(),
    }
}
