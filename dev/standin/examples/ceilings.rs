//! Measures how much of its configured rates the stand-in delivers to a simple program, and how
//! much CPU time it uses.
//!
//! `ceilings [CLIENTS [MEGABYTES [OPTION]...]]`: each client writes a file, then reads one of
//! another client, with blocking 1 MiB calls. The defaults are 8 targets of 20 MB/s and clients of
//! 25 MB/s.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::time::Instant;

use haul_testkit::Standin;

const BLOCK: usize = 1 << 20;
const TICKS_A_SECOND: f64 = 100.0;

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number =
        |default: usize| arguments.next().map_or(default, |text| text.parse().unwrap_or(default));
    let (clients, blocks) = (number(16), number(40));
    let own: Vec<_> = arguments.collect();
    let mut options = vec!["--targets=8", "--target-rate=20MB", "--client-rate=25MB", "--latency=500us"];
    options.extend(own.iter().map(String::as_str));
    let standin = Standin::start(clients, &options)?;
    report("write", &standin, clients * blocks, |client| {
        let file = File::create(standin.client(client).join(format!("f{client}")))?;
        let block = vec![1; BLOCK];
        (0..blocks).try_for_each(|number| file.write_all_at(&block, (number * BLOCK) as u64))?;
        file.sync_all()
    })?;
    report("read", &standin, clients * blocks, |client| {
        let other = (client + clients / 2) % clients;
        let file = File::open(standin.client(client).join(format!("f{other}")))?;
        let mut block = vec![0; BLOCK];
        (0..blocks).try_for_each(|number| file.read_exact_at(&mut block, (number * BLOCK) as u64))
    })
}

/// Runs `work` for every client at once and prints the rate.
fn report(
    what: &str,
    standin: &Standin,
    blocks: usize,
    work: impl Fn(usize) -> io::Result<()> + Sync,
) -> io::Result<()> {
    let (begin, before) = (Instant::now(), ticks(standin.process()));
    let outcomes: Vec<io::Result<()>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..standin.clients())
            .map(|client| {
                scope.spawn({
                    let work = &work;
                    move || work(client)
                })
            })
            .collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended.map(|outcome| outcome.unwrap_or_else(|_| Err(io::Error::other("a client panicked")))).collect()
    });
    let seconds = begin.elapsed().as_secs_f64();
    outcomes.into_iter().collect::<io::Result<()>>()?;
    let rate = (blocks * BLOCK) as f64 / 1e6 / seconds;
    let cost = (ticks(standin.process()) - before) / TICKS_A_SECOND;
    writeln!(
        io::stdout(),
        "{what}: {rate:.1} MB/s in {seconds:.2} s, the stand-in used {cost:.2} s of processor"
    )
}

/// Returns the CPU time of a process, in ticks.
fn ticks(process: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum()
}
