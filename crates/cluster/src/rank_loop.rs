//! A rank's one thread that sends and receives: rank 0's master, and the agent that every rank has, share it.
//!
//! ```text
//! rank-event-loop::wait ─► (init-message) ─► initialised-rank::serve ─► turns ... ─► Stop ─► Bye ─► over
//! ```
//!
//! A turn takes what has arrived, sends what is ready, and pauses a little if there was neither: MPI's own waiting burns a
//! processor that a worker needs. It ends when the master says so, when a message cannot be carried, or when the master has
//! been silent too long, so that no rank is left behind a link that is down.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

use haul_flow::{Config, DirCache, Local, Settings};

use crate::agent::{Agent, WorkerPool, work};
use crate::distributed::Distributed;
use crate::master::Master;
use crate::remote_path::RemotePaths;
use crate::send_queue::SendQueue;
use crate::standstill::Standstill;
use crate::token;
use crate::transport::{Broken, Rank, Transport};
use crate::wire::{Hello, InitMessage, Message, PackedInit, pack, unpack};

/// The pauses of a rank that has nothing to send or receive: short at first, so that an answer is not waited for; long when
/// nothing has happened for a while, so that workers have the processor.
const PAUSES: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(2));

/// How long a rank waits for the init-message.
const BRIEF_WITHIN: Duration = Duration::from_secs(120);

/// Bytes of one read or write.
const BLOCK_BYTES: usize = 1 << 20;

/// Workers of a rank: each waits for the metadata servers most of the time.
const WORKERS: std::ops::RangeInclusive<usize> = 8..=16;

/// Messages taken in one turn.
const TURN: usize = 256;

/// A rank that waits to hear what it is about.
pub struct RankLoop<X: Transport> {
    transport: X,
    master: Option<Master>,
    host: String,
    heard: Instant,
    told: Instant,
    silence: Duration,
    pause: Duration,
    standstill: Standstill,
}

/// What a rank has heard.
pub enum Word<X: Transport> {
    /// What it is about.
    InitMessage(Box<ReadyRank<X>>),
    /// There is nothing to do.
    Nothing(X),
}

/// A rank that knows.
pub struct ReadyRank<X: Transport> {
    station: RankLoop<X>,
    init_message: InitMessage,
}

/// What a turn came to.
enum Turn {
    On,
    InitMessage(PackedInit),
    Stop,
}

impl<X: Transport> RankLoop<X> {
    /// Makes the station of a rank on `host`; rank 0's has the master.
    pub fn new(transport: X, host: String, master: Option<Master>) -> Self {
        let now = Instant::now();
        Self {
            transport,
            master,
            host,
            heard: now,
            told: now,
            silence: BRIEF_WITHIN,
            pause: PAUSES.0,
            standstill: Standstill::new(now),
        }
    }

    /// Waits for the init-message.
    ///
    /// # Errors
    /// When none comes.
    pub fn wait(mut self) -> Result<Word<X>, Broken> {
        loop {
            match self.turn(&mut |message| Some(message))? {
                Turn::InitMessage(packed) => {
                    let init_message = match packed.unpack() {
                        Ok(init_message) => init_message,
                        Err(why) => return self.sit_out(why).map(Word::Nothing),
                    };
                    self.silence = init_message.silence;
                    return Ok(Word::InitMessage(Box::new(ReadyRank { station: self, init_message })));
                }
                Turn::Stop => return self.leave().map(Word::Nothing),
                Turn::On => {}
            }
        }
    }

    /// Takes what has arrived and sends what is ready. `work` takes messages of the work.
    fn turn(&mut self, work: &mut dyn FnMut(Message) -> Option<Message>) -> Result<Turn, Broken> {
        let outcome = self.try_turn(work);
        if let (Err(broken), Some(master)) = (&outcome, &mut self.master) {
            master.lament(broken);
        }
        outcome
    }

    fn try_turn(&mut self, work: &mut dyn FnMut(Message) -> Option<Message>) -> Result<Turn, Broken> {
        let (mut turn, mut busy) = (Turn::On, false);
        for _ in 0..TURN {
            let Some((from, bytes)) = self.transport.receive()? else { break };
            busy = true;
            if from == Rank::MASTER {
                self.heard = Instant::now();
            }
            let garbled = |why| Broken { doing: "reading a message", why };
            match work(unpack(&bytes).map_err(garbled)?) {
                Some(Message::InitMessage(init_message)) => turn = Turn::InitMessage(init_message),
                Some(Message::Stop) => turn = Turn::Stop,
                Some(message) => {
                    if let Some(master) = &mut self.master {
                        master.take(from, message)?;
                    }
                }
                None => {}
            }
            if !matches!(turn, Turn::On) {
                break;
            }
        }
        busy |= self.lead()?;
        self.show_life()?;
        let idle = self.transport.settle()? && !busy;
        self.rest(idle);
        Ok(turn)
    }

    /// Does the master's part. Returns whether there was something to do.
    fn lead(&mut self) -> Result<bool, Broken> {
        let Some(master) = &mut self.master else { return Ok(false) };
        let mut busy = master.hear_link()?;
        master.give()?;
        master.tick(Instant::now())?;
        for (to, message) in master.outgoing() {
            busy = true;
            self.transport.send(to, pack(&message))?;
        }
        Ok(busy)
    }

    /// Gives the master a sign of life, and looks for its.
    fn show_life(&mut self) -> Result<(), Broken> {
        if self.transport.rank() == Rank::MASTER {
            return Ok(());
        }
        let now = Instant::now();
        self.heard += self.standstill.turn(now);
        let silent = now.saturating_duration_since(self.heard);
        if silent > self.silence {
            let why = format!("nothing was heard from rank 0 for {} s", silent.as_secs());
            return Err(Broken { doing: "lost the master", why });
        }
        if now.saturating_duration_since(self.told) > self.silence / 6 {
            self.send(Rank::MASTER, &Message::Alive)?;
        }
        Ok(())
    }

    fn send(&mut self, to: Rank, message: &Message) -> Result<(), Broken> {
        if to == Rank::MASTER {
            self.told = Instant::now();
        }
        self.pause = PAUSES.0;
        self.transport.send(to, pack(message))
    }

    fn rest(&mut self, idle: bool) {
        if !idle {
            self.pause = PAUSES.0;
            return;
        }
        std::thread::sleep(self.pause);
        self.pause = (self.pause + self.pause / 4).min(PAUSES.1);
    }
}

impl<X: Transport> ReadyRank<X> {
    /// Says which tool is wanted.
    #[must_use]
    pub fn tool(&self) -> &str {
        &self.init_message.tool
    }

    /// Refuses to do the work.
    ///
    /// # Errors
    /// When that cannot be told either.
    pub fn refuse(self, why: String) -> Result<X, Broken> {
        self.station.sit_out(why)
    }

    /// Does what is to be done until the end; returns the transport.
    ///
    /// # Errors
    /// When the job is over before that.
    pub fn serve<T: Distributed + 'static>(mut self) -> Result<X, Broken> {
        let (cache, ways, settings) = match self.prepare() {
            Ok(ready) => ready,
            Err(why) => return self.station.sit_out(why),
        };
        let Some(tool) = T::from_init(&self.init_message.options) else {
            return self.station.sit_out("the program there is of another version".to_owned());
        };
        let Self { mut station, init_message } = self;
        let rank = station.transport.rank();
        let send_queue = Arc::new(SendQueue::<T>::new(rank, &init_message));
        let driver = Local::new(settings.jobs).preferring(settings.precedence());
        // A worker that hangs in the file system when the job is lost is never waited for, so what it works with lives as
        // long as the process, which serves once.
        let pool: &'static WorkerPool<T> = Box::leak(Box::new(WorkerPool { tool, settings, cache, driver }));
        let feed = pool.driver.feed();
        let workers_outbox = Arc::clone(&send_queue);
        let workers = Builder::new().name("work".to_owned()).spawn(move || work(pool, &workers_outbox));
        let workers = match workers {
            Ok(workers) => workers,
            Err(error) => return station.sit_out(format!("no thread can be made: {error}")),
        };
        let cancel = pool.tool.policy().cancel;
        let agent = Agent { ways: Arc::new(ways), send_queue: Arc::clone(&send_queue), feed, rank, cancel };
        station.greet(None)?;
        station.serve_until_stop(&agent)?;
        drop(agent);
        // A panic ends the process before this.
        workers.join().unwrap_or_default();
        station.send(Rank::MASTER, &Message::Report(Box::new(send_queue.take_all())))?;
        station.leave()
    }

    /// Gets this process ready: where names start, and what it must see.
    fn prepare(&mut self) -> Result<(DirCache, RemotePaths, Settings), String> {
        let init_message = &self.init_message;
        let directory = OsStr::from_bytes(&init_message.working_directory);
        std::env::set_current_dir(directory)
            .map_err(|error| format!("cannot work in '{}': {error}", directory.to_string_lossy()))?;
        haul_sys::set_umask(haul_sys::Mode::new(init_message.umask));
        let settings = Settings::resolve(&for_many_hosts(&init_message.config));
        if let Err((name, cause)) = settings.first_engine() {
            return Err(format!("cannot use the engine '{name}': {cause}"));
        }
        let (cache, ways) = (DirCache::new(settings.held), RemotePaths::default());
        for token in &init_message.tokens {
            token::check(&cache, &ways, token)?;
        }
        Ok((cache, ways, settings))
    }
}

/// Says how a process that is one of many uses its host where the user does not: what many hosts share is a parallel file
/// system, which likes large transfers (1 MiB, as the authors of spdcp found for Lustre), and whose metadata is far away.
fn for_many_hosts(config: &Config) -> Config {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let jobs = config.jobs.unwrap_or((2 * processors).clamp(*WORKERS.start(), *WORKERS.end()));
    let block_bytes = config.block_bytes.unwrap_or(BLOCK_BYTES);
    Config { jobs: Some(jobs), block_bytes: Some(block_bytes), ..config.clone() }
}

impl<X: Transport> RankLoop<X> {
    fn greet(&mut self, unfit: Option<String>) -> Result<(), Broken> {
        let hello = Hello { host: self.host.clone(), process: std::process::id(), unfit };
        self.send(Rank::MASTER, &Message::Hello(hello))
    }

    fn serve_until_stop<T: Distributed + 'static>(&mut self, agent: &Agent<'_, T>) -> Result<(), Broken> {
        let mut is_cancelled = false;
        loop {
            if let Turn::Stop = self.turn(&mut |message| agent.take(message))? {
                return Ok(());
            }
            if !is_cancelled && agent.cancel.is_cancelled() {
                is_cancelled = true;
                agent.send_queue.note_cancelled();
            }
            for (leader, over) in agent.send_queue.take_moved() {
                self.send(leader, &Message::Moved(over))?;
            }
            if let Some(report) = agent.send_queue.take_if_due() {
                self.send(Rank::MASTER, &Message::Report(Box::new(report)))?;
            }
        }
    }

    /// Says why this rank cannot work, and waits for the end.
    fn sit_out(mut self, why: String) -> Result<X, Broken> {
        self.greet(Some(why))?;
        while !matches!(self.turn(&mut Some)?, Turn::Stop) {}
        self.leave()
    }

    /// Says good-bye; the master when all have.
    fn leave(mut self) -> Result<X, Broken> {
        self.send(Rank::MASTER, &Message::Bye)?;
        while self.master.as_ref().is_some_and(|master| !master.is_over()) {
            self.turn(&mut Some)?;
        }
        if let Some(master) = &mut self.master {
            master.farewell();
        }
        while !self.transport.settle()? {
            std::thread::sleep(PAUSES.0);
        }
        Ok(self.transport)
    }
}
