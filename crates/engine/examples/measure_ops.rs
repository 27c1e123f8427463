//! Measures the cost of each operation, synchronously or through a ring.
//!
//! Usage: `measure_ops place|ring DEPTH inode|shuffled SOURCE TARGET`. Runs one operation after
//! another over all regular files in the directory SOURCE, in inode or random order: open, stat,
//! read, close. Then it creates as many files in the directory TARGET and writes, syncs (every
//! twentieth) and closes them. For each operation it prints wall-clock and CPU time per file, in
//! microseconds. CPU time is that of this process, including the kernel threads of its ring.
//!
//! Cold figures require remounting SOURCE before each run: see `docs/measurements/engine-ops.md`.

use std::collections::VecDeque;
use std::error::Error;
use std::ffi::CString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Instant;

use haul_engine::{Call, Engine, Op, Outcome, Placement, Uring, Wait};
use haul_sys::{Buffer, CacheMode, DirectoryReader, EntryType, Fd, Mode, Name, NameArena, Open};
use haul_testkit::random::{SliceRandom, seeded};

/// Number of bytes read from and written to each file.
const FILE_BYTES: usize = 4096;

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args_os().skip(1);
    let mut next =
        || arguments.next().ok_or("usage: measure_ops place|ring DEPTH inode|shuffled SOURCE TARGET");
    let placement = match next()?.as_bytes() {
        b"place" => Placement::NOTHING,
        b"ring" => Placement::EVERYTHING,
        _ => return Err("the first argument is `place` or `ring`".into()),
    };
    let depth: usize = next()?.to_str().and_then(|text| text.parse().ok()).ok_or("DEPTH is a number")?;
    let shuffled = match next()?.as_bytes() {
        b"inode" => false,
        b"shuffled" => true,
        _ => return Err("the order is `inode` or `shuffled`".into()),
    };
    let source = open_directory(&CString::new(next()?.as_bytes())?)?;
    let target = open_directory(&CString::new(next()?.as_bytes())?)?;
    let files = list(&source, shuffled)?;
    let limit = haul_sys::raise_descriptor_limit(files.len() + 100);
    if limit < files.len() + 100 {
        return Err(format!("{} files need more descriptors than {limit}", files.len()).into());
    }
    let mut bench = Bench { engine: Uring::with_placement(depth, placement)?, buffers: VecDeque::new() };
    bench.buffers.extend((0..depth).map(|_| Buffer::new(FILE_BYTES)));
    bench.pass(&source, &target, &files)
}

fn open_directory(path: &std::ffi::CStr) -> Result<Arc<Fd>, Failure> {
    Ok(Arc::new(haul_sys::open_path(path, Open::DIRECTORY)?))
}

/// Lists the regular files, in inode order or in a fixed random order.
fn list(directory: &Fd, shuffled: bool) -> Result<Vec<Name>, Failure> {
    let mut names = NameArena::new();
    DirectoryReader::new().read(directory, &mut names, usize::MAX)?;
    let _others = names.split_off(|entry| entry.kind == EntryType::Regular);
    names.sort_by_inode();
    let names = Arc::new(names);
    let mut files: Vec<Name> = (0..names.len()).map(|index| Name::new(&names, index)).collect();
    if shuffled {
        files.shuffle(&mut seeded(1));
    }
    Ok(files)
}

struct Bench {
    engine: Uring,
    buffers: VecDeque<Buffer>,
}

impl Bench {
    fn pass(&mut self, source: &Arc<Fd>, target: &Arc<Fd>, names: &[Name]) -> Result<(), Failure> {
        let open = |directory: &Arc<Fd>, how| {
            let directory = Arc::clone(directory);
            move |index: usize, _: &mut VecDeque<Buffer>| {
                let name = names[index].clone();
                Some(Call::Open { directory: Arc::clone(&directory), name, how })
            }
        };
        let files = self.opened("open", names.len(), open(source, Open::READ))?;
        let file = |index: usize| Arc::clone(&files[index]);
        self.phase("stat", files.len(), |index, _| Some(Call::Stat { file: file(index) }))?;
        self.phase("read", files.len(), |index, buffers| {
            let (buffer, wait) = (buffers.pop_front()?, Wait::Allowed);
            Some(Call::Read {
                file: file(index),
                offset: 0,
                buffer,
                length: FILE_BYTES,
                wait,
                cache: CacheMode::Keep,
            })
        })?;
        self.close("close", files)?;
        let files = self.opened("create", names.len(), open(target, Open::create(Mode::READ_WRITE)))?;
        let file = |index: usize| Arc::clone(&files[index]);
        self.phase("write", files.len(), |index, buffers| {
            let (buffer, range) = (buffers.pop_front()?, 0..FILE_BYTES);
            Some(Call::Write { file: file(index), offset: 0, buffer, range, cache: CacheMode::Keep })
        })?;
        self.phase("fsync", files.len() / 20, |index, _| Some(Call::Synchronize { file: file(index) }))?;
        self.close("close written", files)
    }

    fn opened(
        &mut self,
        what: &str,
        count: usize,
        call: impl FnMut(usize, &mut VecDeque<Buffer>) -> Option<Call>,
    ) -> Result<Vec<Arc<Fd>>, Failure> {
        let mut files: Vec<Option<Arc<Fd>>> = vec![None; count];
        for (index, outcome) in self.phase(what, count, call)? {
            if let Outcome::Opened(file) = outcome {
                files[index] = Some(Arc::new(file?));
            }
        }
        Ok(files.into_iter().flatten().collect())
    }

    fn close(&mut self, what: &str, files: Vec<Arc<Fd>>) -> Result<(), Failure> {
        let mut files = files.into_iter();
        self.phase(what, files.len(), |_, _| Some(Call::Close { file: Arc::into_inner(files.next()?)? }))?;
        Ok(())
    }

    /// Runs one kind of operation over all files, keeping the engine full, and prints its cost.
    fn phase(
        &mut self,
        what: &str,
        count: usize,
        mut call: impl FnMut(usize, &mut VecDeque<Buffer>) -> Option<Call>,
    ) -> Result<Vec<(usize, Outcome)>, Failure> {
        let (began, processor) = (Instant::now(), processor_time()?);
        let (mut submitted, mut done) = (0, Vec::with_capacity(self.engine.caps().depth));
        let mut outcomes = Vec::with_capacity(count);
        while outcomes.len() < count {
            while submitted < count && self.engine.in_flight() < self.engine.caps().depth {
                let Some(call) = call(submitted, &mut self.buffers) else { break };
                self.engine.submit(Op { token: submitted as u64, call }).map_err(|_| "the engine is full")?;
                submitted += 1;
            }
            self.engine.reap(1, &mut done)?;
            for done in done.drain(..) {
                let index = usize::try_from(done.token)?;
                outcomes.push((index, self.keep(done.outcome)?));
            }
        }
        let wall = began.elapsed().as_secs_f64();
        let processor = processor_time()? - processor;
        let each = 1e6 / count.max(1) as f64;
        writeln!(std::io::stdout(), "{what}\t{:.2}\t{:.2}", wall * each, processor * each)?;
        Ok(outcomes)
    }

    /// Recycles the buffer. Any error fails the run, because the cost of a failed operation
    /// means nothing.
    fn keep(&mut self, outcome: Outcome) -> Result<Outcome, Failure> {
        match outcome {
            Outcome::Read { buffer, result } => {
                result?;
                self.buffers.push_back(buffer);
                Ok(Outcome::Synchronized(Ok(())))
            }
            Outcome::Wrote { buffer, result } => {
                result?;
                self.buffers.push_back(buffer);
                Ok(Outcome::Synchronized(Ok(())))
            }
            Outcome::Stated(result) => Ok(Outcome::Stated(Ok(result?))),
            Outcome::Closed(result) | Outcome::Synchronized(result) => Ok(Outcome::Closed(Ok(result?))),
            outcome => Ok(outcome),
        }
    }
}

/// Returns the CPU time of this process in seconds: fields 14 and 15 of its `stat` (proc(5)),
/// in hundredths.
fn processor_time() -> Result<f64, Failure> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = text.rsplit_once(") ").ok_or("no command name")?;
    let ticks: u64 = fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(ticks as f64 / 100.0)
}
