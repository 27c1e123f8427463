//! Event loop of a rank: its only thread that sends and receives, shared by rank 0's master and the
//! agent of every rank.
//!
//! ```text
//! RankLoop::wait ─► init message ─► ReadyRank::serve ─► turns ... ─► Stop ─► Bye ─► done
//!                                           ▲                      └─► init message ─┐
//!                                           └──── for the next tool ─────────────────┘
//! ```
//!
//! A turn receives and sends the messages that are ready, and sleeps briefly if there were none,
//! because the waiting calls of MPI burn a processor that a worker needs. The loop ends when the
//! master stops it, when a message can't be delivered, or when the master has been silent for too
//! long, so that no rank is left behind a broken link. A rank that lives on a lease (`lease.rs`) is
//! killed before that, even if it is stopped.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

use haul_flow::{Config, DirCache, Limits, Local, Policy, Selector, Settings};
use haul_sys::{Lease, since_boot};

use crate::agent::{Agent, WorkerPool, work};
use crate::distributed::Distributed;
use crate::error::RankMismatch;
use crate::launch::is_same_host;
use crate::lease;
use crate::master::Master;
use crate::remote_path::RemotePaths;
use crate::send_queue::SendQueue;
use crate::suspend_detector::SuspendDetector;
use crate::token;
use crate::transport::{Broken, Rank, Transport};
use crate::wire::{Hello, InitMessage, Message, PackedInit, pack, unpack};

/// Minimum and maximum sleep of an idle rank. It starts short so that an answer isn't delayed, and
/// grows so that an idle rank leaves the processor to the workers.
const PAUSES: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(2));

/// Maximum wait for the init message.
const INIT_WITHIN: Duration = Duration::from_secs(120);

/// Size of a read or write, in bytes.
const BLOCK_BYTES: usize = 1 << 20;

/// Maximum messages received in one turn.
const TURN: usize = 256;

/// A rank before its init message.
pub struct RankLoop<X: Transport> {
    transport: X,
    master: Option<Master>,
    host: String,
    last_received: Instant,
    /// When the last heartbeat was sent.
    last_alive: Instant,
    silence: Duration,
    /// `None` if the launch process can kill this one, and while there is no work.
    lease: Option<Lease>,
    pause: Duration,
    suspend_detector: SuspendDetector,
}

/// Result of [`RankLoop::wait`] or [`ReadyRank::serve`].
pub enum WaitOutcome<X: Transport> {
    /// The init message arrived.
    InitMessage(Box<ReadyRank<X>>),
    /// There is nothing to do.
    Nothing(X),
}

/// A rank after its init message.
pub struct ReadyRank<X: Transport> {
    event_loop: RankLoop<X>,
    init_message: InitMessage,
}

enum Turn {
    Continue,
    InitMessage(PackedInit),
    Stop,
}

impl<X: Transport> RankLoop<X> {
    /// Creates the event loop of a rank on `host`; rank 0 passes the master.
    pub fn new(transport: X, host: String, master: Option<Master>) -> Self {
        let now = Instant::now();
        Self {
            transport,
            master,
            host,
            last_received: now,
            last_alive: now,
            silence: INIT_WITHIN,
            lease: None,
            pause: PAUSES.0,
            suspend_detector: SuspendDetector::new(now),
        }
    }

    /// Waits for the init message.
    ///
    /// # Errors
    /// If none comes.
    pub fn wait(mut self) -> Result<WaitOutcome<X>, Broken> {
        loop {
            match self.turn(&mut |message| Some(message))? {
                Turn::InitMessage(packed) => return self.begin(&packed),
                Turn::Stop => return self.shut_down().map(WaitOutcome::Nothing),
                Turn::Continue => {}
            }
        }
    }

    fn begin(mut self, packed: &PackedInit) -> Result<WaitOutcome<X>, Broken> {
        let init_message = match packed.unpack() {
            Ok(init_message) => init_message,
            Err(why) => return self.decline(why).map(WaitOutcome::Nothing),
        };
        self.silence = init_message.silence;
        Ok(WaitOutcome::InitMessage(Box::new(ReadyRank { event_loop: self, init_message })))
    }

    /// Receives and sends the messages that are ready. `work` handles messages that concern the
    /// work and returns the others.
    fn turn(&mut self, work: &mut dyn FnMut(Message) -> Option<Message>) -> Result<Turn, Broken> {
        let outcome = self.try_turn(work);
        if let (Err(broken), Some(master)) = (&outcome, &mut self.master) {
            master.report_lost(broken);
        }
        outcome
    }

    fn try_turn(&mut self, work: &mut dyn FnMut(Message) -> Option<Message>) -> Result<Turn, Broken> {
        let (mut turn, mut busy) = (Turn::Continue, false);
        for _ in 0..TURN {
            let Some((from, bytes)) = self.transport.receive()? else { break };
            busy = true;
            if from == Rank::MASTER {
                self.last_received = Instant::now();
            }
            match work(unpack(&bytes).map_err(Broken::Undecodable)?) {
                Some(Message::InitMessage(init_message)) => turn = Turn::InitMessage(init_message),
                Some(Message::Stop) => turn = Turn::Stop,
                Some(Message::Lease { sent_at, lasts }) => {
                    if let Some(lease) = &mut self.lease {
                        // If that fails, the lease ends this process too early, never too late.
                        lease.extend(sent_at + lasts).unwrap_or_default();
                    }
                }
                Some(message) => {
                    if let Some(master) = &mut self.master {
                        master.handle(from, message)?;
                    }
                }
                None => {}
            }
            // The messages after this one are for the code that takes over.
            if !matches!(turn, Turn::Continue) {
                break;
            }
        }
        busy |= self.run_master()?;
        self.check_heartbeats()?;
        let idle = self.transport.advance_sends()? && !busy;
        self.sleep_if_idle(idle);
        Ok(turn)
    }

    /// Runs the master for one turn. Returns true if there was something to do.
    fn run_master(&mut self) -> Result<bool, Broken> {
        let Some(master) = &mut self.master else { return Ok(false) };
        let mut busy = master.receive_from_launch()?;
        master.dispatch()?;
        let now = Instant::now();
        master.grant(now)?;
        master.tick(now)?;
        for (to, message) in master.outgoing() {
            busy = true;
            self.transport.send(to, pack(&message))?;
        }
        Ok(busy)
    }

    /// Sends the master a heartbeat, and checks for the master's own.
    fn check_heartbeats(&mut self) -> Result<(), Broken> {
        if self.transport.rank() == Rank::MASTER {
            return Ok(());
        }
        let now = Instant::now();
        // Time during which this process was suspended doesn't count as silence of a peer.
        self.last_received += self.suspend_detector.tick(now);
        let silent = now.saturating_duration_since(self.last_received);
        if silent > self.silence {
            return Err(Broken::LostMaster(silent));
        }
        if now.saturating_duration_since(self.last_alive) > lease::interval(self.silence) {
            self.last_alive = now;
            self.send(Rank::MASTER, &Message::Alive(since_boot()))?;
        }
        Ok(())
    }

    /// Begins the lease, or extends it for the next tool, if this rank lives on one.
    fn begin_lease(&mut self, init_message: &InitMessage) -> io::Result<()> {
        // The launch process receives `Ready` after this, so that it knows when the lease is over.
        let end = since_boot() + lease::duration(init_message.silence);
        match &mut self.lease {
            Some(lease) => lease.extend(end),
            None => {
                let launch_host = init_message.lease_unless_on.as_deref();
                let is_needed = launch_host.is_some_and(|host| !is_same_host(host, &self.host));
                self.lease = is_needed.then(|| Lease::until(end)).transpose()?;
                Ok(())
            }
        }
    }

    fn send(&mut self, to: Rank, message: &Message) -> Result<(), Broken> {
        // An answer may come soon.
        self.pause = PAUSES.0;
        self.transport.send(to, pack(message))
    }

    fn sleep_if_idle(&mut self, idle: bool) {
        if !idle {
            self.pause = PAUSES.0;
            return;
        }
        std::thread::sleep(self.pause);
        self.pause = (self.pause + self.pause / 4).min(PAUSES.1);
    }
}

impl<X: Transport> ReadyRank<X> {
    /// Returns the name of the requested tool.
    #[must_use]
    pub fn tool(&self) -> &str {
        &self.init_message.tool
    }

    /// Refuses the work.
    ///
    /// # Errors
    /// If the refusal can't be sent.
    pub fn refuse(self, why: RankMismatch) -> Result<X, Broken> {
        self.event_loop.decline(why)
    }

    /// Processes work until a message stops this rank or switches it to another tool.
    ///
    /// # Errors
    /// If the job ends before that.
    pub fn serve<T: Distributed + 'static>(mut self) -> Result<WaitOutcome<X>, Broken> {
        let (cache, remote_paths, settings) = match self.prepare() {
            Ok(ready) => ready,
            Err(why) => return self.event_loop.decline(why).map(WaitOutcome::Nothing),
        };
        let Some(tool) = T::from_init(&self.init_message.options) else {
            return self.event_loop.decline(RankMismatch::OtherOptions).map(WaitOutcome::Nothing);
        };
        // The launch process has compiled the same rules.
        let Ok(selector) = Selector::new(&self.init_message.config.selection) else {
            return self.event_loop.decline(RankMismatch::OtherOptions).map(WaitOutcome::Nothing);
        };
        let Self { mut event_loop, init_message } = self;
        let rank = event_loop.transport.rank();
        let send_queue = Arc::new(SendQueue::<T>::new(rank, &init_message));
        let limits = init_message.config.limits.clone();
        let driver = Local::of(&settings, &Policy::default()).limited(limits.as_ref());
        // If the job is lost, nobody waits for a worker that hangs in the file system, so the
        // worker's data must live as long as the process, which serves only a few tools.
        let pool = WorkerPool { tool, settings, cache, selector, driver, limits };
        let pool: &'static WorkerPool<T> = Box::leak(Box::new(pool));
        // Without a feed the workers would find nothing to do and end.
        let feed = pool.driver.feed();
        let workers_queue = Arc::clone(&send_queue);
        let workers = Builder::new().name("work".to_owned()).spawn(move || work(pool, &workers_queue));
        let workers = match workers {
            Ok(workers) => workers,
            Err(error) => {
                return event_loop.decline(RankMismatch::Thread(Arc::new(error))).map(WaitOutcome::Nothing);
            }
        };
        let cancel = pool.tool.policy().cancel;
        let (remote_paths, tool) = (Arc::new(remote_paths), &pool.tool);
        let limits = pool.limits.as_ref();
        if let Some(limits) = limits {
            limits.depend_on_grants();
        }
        let agent =
            Agent { remote_paths, send_queue: Arc::clone(&send_queue), feed, rank, tool, cancel, limits };
        event_loop.send_hello(None)?;
        let next = event_loop.serve_until_stop(&agent)?;
        if let Some(limits) = limits {
            // The master may grant nothing more.
            limits.use_own_clocks();
        }
        // With its feed, the last one, so that the workers end.
        drop(agent);
        // A worker's panic aborts the process, so `join` can't fail.
        workers.join().unwrap_or_default();
        // The workers have ended, so nothing is added after this.
        for report in send_queue.take_all() {
            event_loop.send(Rank::MASTER, &Message::Report(Box::new(report)))?;
        }
        match next {
            Some(init_message) => event_loop.begin(&init_message),
            None => event_loop.shut_down().map(WaitOutcome::Nothing),
        }
    }

    /// Sets working directory, umask and priority, checks the engine and the tokens, and begins the
    /// lease.
    fn prepare(&mut self) -> Result<(DirCache, RemotePaths, Settings), RankMismatch> {
        let init_message = &self.init_message;
        let directory = OsStr::from_bytes(&init_message.working_directory);
        std::env::set_current_dir(directory)
            .map_err(|cause| RankMismatch::Directory { path: directory.into(), cause: Arc::new(cause) })?;
        haul_sys::set_umask(haul_sys::Mode::new(init_message.umask));
        if init_message.config.nice {
            haul_sys::lower_priority().map_err(|cause| RankMismatch::Priority(Arc::new(cause)))?;
        }
        let settings = Settings::resolve(&for_many_hosts(&init_message.config));
        // Created only to find out whether that is possible: the workers create their own.
        if let Err((name, cause)) = settings.first_engine() {
            return Err(RankMismatch::Engine { name, cause });
        }
        let (cache, remote_paths) = (DirCache::new(settings.cached_directories), RemotePaths::default());
        for token in &init_message.tokens {
            token::check(&cache, &remote_paths, token)?;
        }
        self.event_loop.begin_lease(init_message).map_err(|cause| RankMismatch::Lease(Arc::new(cause)))?;
        Ok((cache, remote_paths, settings))
    }
}

/// Fills in settings the user left open. Many hosts share a parallel file system, which prefers
/// large transfers (1 MiB, as the authors of spdcp found for Lustre).
fn for_many_hosts(config: &Config) -> Config {
    Config { block_bytes: Some(config.block_bytes.unwrap_or(BLOCK_BYTES)), ..config.clone() }
}

impl<X: Transport> RankLoop<X> {
    fn send_hello(&mut self, unfit: Option<String>) -> Result<(), Broken> {
        let hello = Hello { host: self.host.clone(), process: std::process::id(), unfit };
        self.send(Rank::MASTER, &Message::Hello(hello))
    }

    /// Serves until a stop message. Returns the init message of the next tool, if there is one.
    fn serve_until_stop<T: Distributed + 'static>(
        &mut self,
        agent: &Agent<'_, T>,
    ) -> Result<Option<PackedInit>, Broken> {
        let mut is_cancelled = false;
        loop {
            match self.turn(&mut |message| agent.handle(message))? {
                Turn::Stop => return Ok(None),
                Turn::InitMessage(init_message) => return Ok(Some(init_message)),
                Turn::Continue => {}
            }
            if !is_cancelled && agent.cancel.is_cancelled() {
                is_cancelled = true;
                agent.send_queue.note_cancelled();
            }
            for (leader, over) in agent.send_queue.take_moved() {
                self.send(leader, &Message::Moved(over))?;
            }
            if let Some(load) = agent.limits.and_then(Limits::ask) {
                self.send(Rank::MASTER, &Message::Request(load))?;
            }
            if let Some(report) = agent.send_queue.take_if_due() {
                self.send(Rank::MASTER, &Message::Report(Box::new(report)))?;
            }
        }
    }

    /// Reports why this rank can't work, and waits for the end.
    fn decline(mut self, why: RankMismatch) -> Result<X, Broken> {
        self.send_hello(Some(why.to_string()))?;
        while !matches!(self.turn(&mut Some)?, Turn::Stop) {}
        self.shut_down()
    }

    /// Sends the last message. The master waits until it has one from every rank.
    fn shut_down(mut self) -> Result<X, Broken> {
        // No worker is left that could change a file.
        if let Some(lease) = self.lease.take() {
            lease.release();
        }
        self.send(Rank::MASTER, &Message::Bye)?;
        while self.master.as_ref().is_some_and(|master| !master.is_over()) {
            self.turn(&mut Some)?;
        }
        if let Some(master) = &mut self.master {
            master.report_stopped();
        }
        while !self.transport.advance_sends()? {
            std::thread::sleep(PAUSES.0);
        }
        Ok(self.transport)
    }
}
