//! Thousands of operations in flight, with thousands of failures, for every engine in the list.
//!
//! Several workers drive each engine at once; all are full before the first reaps. Everything
//! accepted completes exactly once, with its buffer. Engines dropped while full release everything,
//! no descriptor stays open, and a watchdog checks that it all ends.
//!
//! Also meant for `AddressSanitizer`, which detects use after free by this process. It can't
//! see the kernel's accesses to user pages; for those, the tests check the content of each
//! returned buffer:
//!
//! ```text
//! RUSTFLAGS=-Zsanitizer=address cargo +nightly test --target x86_64-unknown-linux-gnu -p
//! haul-engine --test storm
//! ```

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod ground;

use std::collections::HashMap;
use std::ffi::CString;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use ground::{Ground, address, operation_of, pattern, say};
use haul_engine::{
    Call, Done, ENGINES, Engine, EngineChoice, EngineSetup, FaultRates, Faulty, Op, Outcome, Wait,
};
use haul_sys::{Buffer, CacheMode, Error, Fd, Name, Open, Operation, Pipe};
use haul_testkit::random::{self, Random, Rng, seeded};

const WORKERS: usize = 4;
/// Queue depth of each worker's engine.
const DEPTH: usize = 1024;
/// Number of operations per worker, not counting those dropped at the end.
const OPERATIONS: u64 = 8000;
const INJECTED_MIN: usize = 2000;
const FILES: usize = 16;
const FILE_BYTES: usize = 20_000;
const BUFFER_BYTES: usize = 4096;
/// Watchdog timeout, longer than any machine needs.
const PATIENCE: Duration = Duration::from_secs(300);

macro_rules! storms {
    ($($module:ident $engine:ident $about:literal;)+) => {
        $(#[test]
        fn $module() {
            crate::storm(haul_engine::EngineChoice::$engine);
        })+
    };
}

haul_engine::engines!(storms);

/// State shared by all workers of one engine.
struct Sea {
    ground: Ground,
    names: Vec<CString>,
    sources: Vec<Arc<Fd>>,
    targets: Vec<Arc<Fd>>,
    /// Passed once every worker's engine is full.
    full: Barrier,
    in_flight: AtomicUsize,
    injected: AtomicUsize,
}

fn storm(choice: EngineChoice) {
    let listed = ENGINES.iter().find(|listed| listed.choice == choice).unwrap();
    let limit = haul_sys::raise_descriptor_limit(65_536);
    assert!(limit > 8192, "{limit} descriptors are not enough");
    let (sender, receiver) = mpsc::channel();
    let seed = random::seed(listed.name, None);
    let worker = thread::spawn(move || {
        all_workers(choice, seed);
        sender.send(()).unwrap();
    });
    match receiver.recv_timeout(PATIENCE) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{} hangs", listed.name),
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => worker.join().unwrap(),
    }
}

fn all_workers(choice: EngineChoice, seed: u64) {
    let ground = Ground::new();
    let place = ground.place.path().to_owned();
    let names = |what| (0..FILES).map(move |n| CString::new(format!("{what}{n}")).unwrap());
    let sources = names("source").enumerate().map(|(n, name)| ground.file(&name, n as u64, FILE_BYTES));
    let sources: Vec<_> = sources.collect();
    let targets: Vec<_> = names("target").map(|name| ground.target(&name)).collect();
    let sea = Arc::new(Sea {
        names: names("source").collect(),
        sources,
        targets,
        ground,
        full: Barrier::new(WORKERS),
        in_flight: AtomicUsize::new(0),
        injected: AtomicUsize::new(0),
    });
    let made: Vec<_> = (0..WORKERS).map(|_| make(choice)).collect();
    let Some(engines) = made.into_iter().collect::<Option<Vec<_>>>() else { return };
    let depth = engines[0].caps().depth;
    assert!(depth == DEPTH || choice == EngineChoice::Sync, "made for {DEPTH}, takes {depth}");
    let workers: Vec<_> = engines
        .into_iter()
        .enumerate()
        .map(|(number, engine)| {
            let sea = Arc::clone(&sea);
            let seed = seed.wrapping_add(number as u64);
            thread::spawn(move || Worker::new(&sea, engine, seed).run())
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    let (in_flight, injected) = (sea.in_flight.load(Ordering::Relaxed), sea.injected.load(Ordering::Relaxed));
    assert_eq!(in_flight, WORKERS * depth, "were in flight at once");
    assert!(injected >= INJECTED_MIN, "{injected} failures");
    say(&format!("{choice:?}: {in_flight} operations in flight at once, {injected} failures injected"));
    assert!(sea.sources.iter().chain(&sea.targets).all(|file| Arc::strong_count(file) == 1));
    assert_eq!(open_below(&place), 1 + 2 * FILES, "the directory and our own files are open");
    drop(sea);
    assert_eq!(open_below(&place), 0);
}

fn make(choice: EngineChoice) -> Option<Box<dyn Engine>> {
    let listed = ENGINES.iter().find(|listed| listed.choice == choice).unwrap();
    haul_testkit::or_skip!(
        listed.choice.create(&EngineSetup::of_depth(DEPTH)),
        format_args!("the kernel refuses {}", listed.name)
    )
}

/// Counts this process's open descriptors for the directory, which may be deleted, and
/// files below it.
fn open_below(place: &Path) -> usize {
    let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    links.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|file| file.starts_with(place))).count()
}

/// The operation, buffer address, file index, offset and length of a request.
type Asked = (Operation, usize, usize, usize, usize);

struct Worker<'a> {
    sea: &'a Sea,
    engine: Faulty<Box<dyn Engine>>,
    random: Random,
    outstanding: HashMap<u64, Asked>,
    buffers: Vec<Buffer>,
}

impl<'a> Worker<'a> {
    fn new(sea: &'a Sea, engine: Box<dyn Engine>, seed: u64) -> Self {
        let rates = FaultRates { seed, errors: 100, shorts: 200, delays: 300, reorder: true };
        let engine = Faulty::new(engine, rates);
        let random = seeded(!seed);
        Self { sea, engine, random, outstanding: HashMap::new(), buffers: Vec::new() }
    }

    fn run(mut self) {
        let depth = self.engine.caps().depth;
        let mut done = Vec::new();
        let mut next = 0;
        self.fill(&mut next);
        self.engine.flush().unwrap();
        self.sea.in_flight.fetch_add(self.engine.in_flight(), Ordering::Relaxed);
        self.sea.full.wait();
        while next < OPERATIONS {
            let min = self.random.random_range(0..=depth);
            self.engine.reap(min, &mut done).unwrap();
            assert!(done.len() >= min);
            self.retire(&mut done);
            self.fill(&mut next);
            if self.random.random_bool(0.5) {
                self.engine.flush().unwrap();
            }
        }
        self.engine.reap(self.engine.in_flight(), &mut done).unwrap();
        self.retire(&mut done);
        assert!(self.outstanding.is_empty(), "never came back: {:?}", self.outstanding);
        assert_eq!(self.engine.in_flight(), 0);
        // Fill it once more and drop it while full.
        self.fill(&mut next);
        self.engine.flush().unwrap();
        drop(self.engine);
    }

    /// Submits until the engine is full.
    fn fill(&mut self, next: &mut u64) {
        while self.engine.in_flight() < self.engine.caps().depth {
            let (call, asked) = self.call();
            assert!(self.outstanding.insert(*next, asked).is_none());
            self.engine.submit(Op { token: *next, call }).expect("it is not full");
            *next += 1;
        }
    }

    /// Returns a random operation and its request.
    fn call(&mut self) -> (Call, Asked) {
        let random = &mut self.random;
        let which = random.random_range(0..FILES);
        let at = random.random_range(0..FILE_BYTES + 100);
        let (offset, length) = (at as u64, random.random_range(0..=BUFFER_BYTES));
        let (source, target) = (Arc::clone(&self.sea.sources[which]), Arc::clone(&self.sea.targets[which]));
        let (directory, name) = (Arc::clone(&self.sea.ground.directory), self.sea.names[which].as_c_str());
        let kind = random.random_range(0..200);
        let mut buffer = || self.buffers.pop().unwrap_or_else(|| Buffer::new(BUFFER_BYTES));
        let cache = CacheMode::Keep;
        let call = match kind {
            0 => Call::Synchronize { file: target },
            1..10 => Call::Stat { file: source },
            10..20 => Call::Open { directory, name: Name::from(name), how: Open::READ },
            20..30 => Call::Close { file: haul_sys::open(&*directory, name, Open::READ).unwrap() },
            30..40 => {
                let pipe = (kind % 2 == 0).then(|| Pipe::new(1 << 16).unwrap());
                Call::CopyRange { source, target, offset, length, pipe }
            }
            40..80 => Call::Write { file: target, offset, buffer: buffer(), range: 0..length, cache },
            80..130 => Call::Pair { source, target, offset, buffer: buffer(), length, cache },
            _ => {
                let wait = if kind % 2 == 0 { Wait::Allowed } else { Wait::Never };
                Call::Read { file: source, offset, buffer: buffer(), length, wait, cache }
            }
        };
        let mark = match &call {
            Call::Read { buffer, .. } | Call::Write { buffer, .. } | Call::Pair { buffer, .. } => {
                address(buffer)
            }
            _ => 0,
        };
        let asked = (call.operation(), mark, which, at, length);
        (call, asked)
    }

    /// Checks the completions.
    fn retire(&mut self, done: &mut Vec<Done>) {
        for Done { token, outcome } in done.drain(..) {
            let asked = self.outstanding.remove(&token).expect("a token came back twice, or was never given");
            assert_eq!(operation_of(&outcome), asked.0);
            match outcome {
                Outcome::Opened(Ok(file)) => file.close().unwrap(),
                Outcome::Stated(Ok(stat)) => assert_eq!(stat.size, FILE_BYTES as u64),
                Outcome::Opened(Err(error))
                | Outcome::Stated(Err(error))
                | Outcome::Copied { result: Err(error), .. }
                | Outcome::Synchronized(Err(error))
                | Outcome::Closed(Err(error)) => self.injected(&error),
                Outcome::Copied { .. } | Outcome::Synchronized(Ok(())) | Outcome::Closed(Ok(())) => {}
                Outcome::Read { buffer, result } => {
                    let got = result.map(|length| length.unwrap_or(0));
                    self.has_read(buffer, got, asked);
                }
                Outcome::Paired { buffer, read, written } => {
                    assert!(written.unwrap() <= *read.as_ref().unwrap_or(&0));
                    self.has_read(buffer, read, asked);
                }
                Outcome::Wrote { buffer, result } => {
                    assert_eq!(address(&buffer), asked.1, "another buffer came back");
                    if let Err(error) = result {
                        self.injected(&error);
                    }
                    self.buffers.push(buffer);
                }
            }
        }
    }

    fn has_read(&mut self, buffer: Buffer, got: haul_sys::Result<usize>, asked: Asked) {
        let (_, mark, which, at, length) = asked;
        assert_eq!(address(&buffer), mark, "another buffer came back");
        match got {
            Ok(got) => {
                assert!(got <= length.min(FILE_BYTES.saturating_sub(at)));
                assert_eq!(buffer.bytes()[..got], pattern(which as u64, at, got));
            }
            Err(error) => self.injected(&error),
        }
        self.buffers.push(buffer);
    }

    /// Counts a failure. Only injected failures are allowed.
    fn injected(&self, error: &Error) {
        assert!(format!("{error:#}").contains("(injected fault)"), "{error:#}");
        self.sea.injected.fetch_add(1, Ordering::Relaxed);
    }
}
