//! Runs the benchmark over tiny files with every engine, and the inner loop with faulty engines.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use haul_engine::{
    Call, Caps, CountingEngine, Done, FaultRates, Faulty, Null, Op, OperationTally, Sync, Uring,
};
use haul_sys::{Errno, Operation};
use haul_testkit::mount::Mount;
use haul_testkit::{needs, require, skip, wait};
use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::aio::settings::tests::options;

/// Creates a work directory on disk: the usual temporary directory may be in memory.
fn work() -> TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

fn run(line: &str, directory: &Path) -> (Result<CompareVerdict>, String, String) {
    run_until(line, directory, &Interrupt::never())
}

fn run_until(
    line: &str,
    directory: &Path,
    interrupt: &Interrupt,
) -> (Result<CompareVerdict>, String, String) {
    let options = options(&format!("{line} {}", directory.display())).unwrap();
    let (mut output, mut progress) = (Vec::new(), Vec::new());
    let result = aio(&options, &mut output, &mut progress, interrupt);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (result, text(output), text(progress))
}

fn refusal(line: &str, directory: &Path) -> String {
    let (result, output, _) = run(line, directory);
    assert_eq!(output, "");
    result.unwrap_err().to_string()
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

/// Asserts that there is exactly one result, and returns it.
fn only_result(document: &str) -> Value {
    let mut value: Value = serde_json::from_str(document).unwrap();
    let results = value["results"].take();
    assert_eq!(results.as_array().unwrap().len(), 1, "{results}");
    results[0].clone()
}

#[test]
fn every_engine_does_everything_and_leaves_nothing() {
    let work = work();
    let (result, table, progress) = run("--file-size 1M --rounds 2", work.path());
    assert_eq!(result.unwrap(), CompareVerdict::Good, "{progress}");
    for engine in ENGINES {
        let rows: Vec<&str> =
            table.lines().filter(|row| row.starts_with(&format!("{} ", engine.name))).collect();
        let refused = table.contains(&format!("{}: not measured", engine.name));
        assert_eq!(rows.len(), if refused { 0 } else { 6 }, "{table}");
    }
    assert!(table.lines().filter(|row| row.contains("buffered ")).count() >= 6, "{table}");
    assert!(is_empty(work.path()));
}

#[test]
fn every_engine_goes_past_the_page_cache_where_that_can_be() {
    let work = work();
    for engine in ENGINES {
        let line = format!("--file-size 1M --rounds 1 --direct --json --engine {}", engine.name);
        let (result, output, _) = run(&line, work.path());
        match result {
            Ok(verdict) => assert_eq!(verdict, CompareVerdict::Good),
            Err(Error::Refused(why)) => skip!("{why}"),
            Err(error) => std::panic::panic_any(error),
        }
        let report: Value = serde_json::from_str(&output).unwrap();
        let results = report["results"].as_array().unwrap();
        assert_eq!(results.len(), 6);
        assert!(results.iter().all(|result| result["direct"] == true && result["engine"] == engine.name));
    }
    assert!(is_empty(work.path()));
}

#[test]
fn the_json_has_the_figures_and_the_settings() {
    let work = work();
    let line = "--engine sync --pattern random --kind write --file-size 100K --record-size 16K --rounds 3 \
                --per-iteration 2 --max-submit 3 --seed 5 --json";
    let (result, output, progress) = run(line, work.path());
    assert_eq!(result.unwrap(), CompareVerdict::Good);
    let logged: Vec<&str> = progress.lines().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(logged, [0, 1, 2, 3].map(|round| format!("sync random write {round}/3")));
    let one = only_result(&output);
    assert_eq!(
        (&one["engine"], &one["pattern"], &one["kind"]),
        (&"sync".into(), &"random".into(), &"write".into())
    );
    assert_eq!((&one["direct"], &one["in_flight_max"]), (&false.into(), &1.into()));
    let rounds: Vec<f64> =
        one["rounds"].as_array().unwrap().iter().map(|round| round.as_f64().unwrap()).collect();
    assert_eq!((rounds.len(), one["fsync_seconds"].as_array().unwrap().len()), (3, 3));
    let mean = one["megabytes_per_second"].as_f64().unwrap();
    assert!((mean - rounds.iter().sum::<f64>() / 3.0).abs() < mean * 1e-9 && mean > 0.0, "{output}");
    let report: Value = serde_json::from_str(&output).unwrap();
    let settings = &report["settings"];
    for (name, expected) in [
        ("file_bytes", 6 * 16_384),
        ("record_bytes", 16_384),
        ("records", 6),
        ("depth", 64),
        ("per_iteration", 2),
        ("max_submit", 3),
        ("alignment", 4_096),
        ("seed", 5),
        ("rounds", 3),
    ] {
        assert_eq!(settings[name], expected, "{name}");
    }
    assert!(report["machine"]["kernel"].is_string() && report["cache_checked"].is_boolean());
}

#[test]
fn what_cannot_be_done_is_said_before_anything_is_written() {
    let work = work();
    assert!(refusal("--depth 0", work.path()).contains("1 to 32768"));
    assert!(refusal("--file-size 10 --record-size 4K", work.path()).contains("4096 to"));
    assert!(is_empty(work.path()));
    let nowhere = work.path().join("nowhere");
    assert!(refusal("--file-size 1M", &nowhere).contains("cannot make a file in"));
}

/// Asserts that `bytes` bytes are free. Waits first: a child forked by another test may still hold
/// inherited descriptors.
fn assert_is_free(mount: &Mount, bytes: u64) {
    let mut free = 0;
    let as_before = wait::until(Duration::from_secs(60), || {
        rustix::fs::syncfs(fs::File::open(mount.path()).unwrap()).unwrap();
        free = mount.free_bytes().unwrap();
        free == bytes
    });
    assert!(as_before, "{free} bytes are free and not {bytes}");
}

#[test]
fn a_file_system_in_memory_is_no_disk() {
    require!(needs::root());
    let memory = Mount::memory(8 << 20).unwrap();
    let said = refusal("--file-size 1M --direct", memory.path());
    assert!(said.contains("tmpfs") && said.contains("nothing was written"), "{said}");
    let (result, _, _) = run("--file-size 1M --kind read", memory.path());
    let said = result.unwrap_err().to_string();
    assert!(said.contains("cannot be dropped from the page cache"), "{said}");
    assert_is_free(&memory, 8 << 20);
}

#[test]
fn a_full_disk_is_an_error_and_empty_afterwards() {
    require!(needs::loop_mount("ext4"));
    let disk = Mount::image("ext4", 24 << 20).unwrap();
    let free = disk.free_bytes().unwrap();
    let said = refusal("--file-size 64M --kind write", disk.path());
    assert!(
        said.contains("cannot write the file of 67108864 bytes") && said.contains("No space left"),
        "{said}"
    );
    assert_is_free(&disk, free);
    assert!(fs::read_dir(disk.path()).unwrap().all(|entry| entry.unwrap().file_name() == "lost+found"));
}

#[test]
fn a_signal_ends_it_and_leaves_nothing() {
    let work = work();
    let interrupt = Interrupt::never();
    interrupt.raise();
    let (result, _, _) = run_until("--file-size 1M", work.path(), &interrupt);
    assert!(result.unwrap_err().is_interruption());
    assert!(is_empty(work.path()));
}

/// Drives `engine` over a file of sixteen records of 16 KiB.
fn driven(engine: &mut dyn Engine, transfer: TransferKind, line: &str) -> Result<drive::Timing> {
    let work = work();
    let line = format!("--file-size 256K --record-size 16K {line} {}", work.path().display());
    let settings = AioSettings::new(&options(&line).unwrap()).unwrap();
    let mut file = TestFile::make(work.path(), settings, &Interrupt::never()).unwrap();
    if transfer != TransferKind::Read {
        file.begin_generation();
    }
    let order = RecordOrder::new(AccessPattern::Random, settings.records, 1, 0);
    let job = AioJob { file: &file, settings, transfer, order: &order };
    let timing = drive::run(engine, &job, &Interrupt::never())?;
    if transfer != TransferKind::Read {
        file.verify()?;
    }
    Ok(timing)
}

#[test]
fn an_engine_that_reads_nothing_is_found_out() {
    let said = driven(&mut Null::new(8, 1 << 30), TransferKind::Read, "").unwrap_err().to_string();
    assert!(said.contains("where it was written: other bytes are there"), "{said}");
}

#[test]
fn an_engine_that_writes_nothing_is_found_out() {
    let said = driven(&mut Null::new(8, 1 << 30), TransferKind::Write, "").unwrap_err().to_string();
    assert!(said.contains("cannot find record 0 where it was written"), "{said}");
}

#[test]
fn short_transfers_are_gone_on_with() {
    for transfer in [TransferKind::Read, TransferKind::Write] {
        let rates = FaultRates { seed: 3, errors: 0, shorts: 500, delays: 200, reorder: true };
        let mut engine = Faulty::new(Sync::new(), rates);
        let struck = engine.fault_count();
        driven(&mut engine, transfer, "").unwrap();
        assert!(struck.load(Ordering::Relaxed) >= 5, "{struck:?}");
    }
}

#[test]
fn an_error_is_the_end() {
    let rates = FaultRates { seed: 3, errors: 1000, shorts: 0, delays: 0, reorder: false };
    for (transfer, verb) in
        [(TransferKind::Read, "cannot read the file"), (TransferKind::Write, "cannot write the file")]
    {
        let said = driven(&mut Faulty::new(Sync::new(), rates), transfer, "").unwrap_err().to_string();
        assert!(said.starts_with(verb) && said.contains("os error"), "{said}");
    }
}

/// An engine that records how it is driven.
struct Watched {
    engine: CountingEngine<Null>,
    tally: Arc<OperationTally>,
    /// Submissions since the last flush, and their maximum.
    submitted: usize,
    submitted_max: usize,
    in_flight_max: usize,
    /// Maximum number of completions waited for at once.
    waited_max: usize,
}

impl Watched {
    fn new(depth: usize) -> Watched {
        let engine = CountingEngine::new(Null::new(depth, 1 << 30));
        let tally = engine.tally();
        Watched { engine, tally, submitted: 0, submitted_max: 0, in_flight_max: 0, waited_max: 0 }
    }
}

impl Engine for Watched {
    fn caps(&self) -> Caps {
        self.engine.caps()
    }

    fn submit(&mut self, op: Op) -> std::result::Result<(), Box<Op>> {
        assert!(matches!(op.call, Call::Write { .. }));
        self.submitted += 1;
        self.submitted_max = self.submitted_max.max(self.submitted);
        self.engine.submit(op)?;
        self.in_flight_max = self.in_flight_max.max(self.engine.in_flight());
        Ok(())
    }

    fn flush(&mut self) -> haul_sys::Result<()> {
        self.submitted = 0;
        self.engine.flush()
    }

    fn reap(&mut self, min: usize, done: &mut Vec<Done>) -> haul_sys::Result<()> {
        assert_eq!(self.submitted, 0, "waiting for what the kernel was not given");
        self.waited_max = self.waited_max.max(min);
        self.engine.reap(min, done)
    }

    fn in_flight(&self) -> usize {
        self.engine.in_flight()
    }
}

#[test]
fn depth_iterations_and_submissions_are_kept_to() {
    // The options; the engine's depth; the maxima in flight, in a submission, and waited for.
    for (line, own, expected) in [
        ("--depth 8 --per-iteration 4 --max-submit 3", 64, (8, 3, 4)),
        ("--depth 10 --per-iteration 4 --max-submit 8", 64, (8, 4, 4)),
        ("--depth 64 --per-iteration 8 --max-submit 8", 64, (16, 8, 8)),
        ("--depth 64 --per-iteration 8 --max-submit 2", 6, (6, 2, 6)),
        ("--depth 1", 64, (1, 1, 1)),
        ("", 1, (1, 1, 1)),
    ] {
        let mut engine = Watched::new(own);
        // The null engine writes nothing, which the final check detects.
        driven(&mut engine, TransferKind::Write, line).unwrap_err();
        assert_eq!(engine.tally.taken(Operation::Write), 16, "{line}");
        assert_eq!((engine.in_flight_max, engine.submitted_max, engine.waited_max), expected, "{line}");
    }
}

#[test]
fn an_asynchronous_engine_has_many_in_flight() {
    require!(needs::io_uring());
    let mut engine = match Uring::new(8) {
        Ok(engine) => engine,
        Err(error) if error.is(Errno::PERM) || error.is(Errno::NOSYS) => skip!("{error:#}"),
        Err(error) => std::panic::panic_any(error),
    };
    let timing = driven(&mut engine, TransferKind::Read, "--per-iteration 4").unwrap();
    assert_eq!(timing.in_flight_max, 8);
}
