//! Large files that have to be read from btrfs, which an idle worker fetches ahead.

use std::fs::{self, File};
use std::time::Duration;

use haul_sys::{Advice, advise, cached_bytes, synchronize_file_system};
use haul_testkit::mount::Mount;
use haul_testkit::strace::{TracedCall, record};
use haul_testkit::{Sandbox, needs, program, random, require};

const BYTES: u64 = (64 << 20) + 12_345;

#[test]
fn an_idle_worker_fetches_a_large_file_from_btrfs() {
    require!(needs::tool("strace"), needs::loop_mount("btrfs"), needs::loop_mount("ext4"));
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let content = random::bytes(9, BYTES);
    for (file_system, suits) in [("btrfs", processors > 1), ("ext4", false)] {
        let disk = Mount::image(file_system, 512 << 20).unwrap();
        let source = disk.join("source");
        fs::write(&source, &content).unwrap();
        let file = File::open(&source).unwrap();
        require!(cached_bytes(&file).err().map(|error| format!("needs cachestat: {error}")));
        synchronize_file_system(&file).unwrap();
        let cases: [(&[&str], bool, bool); 6] = [
            (&[], true, suits),
            (&["-j1"], true, false),
            (&["--bwlimit=10G"], true, false),
            (&["--engine=posix-aio"], true, false),
            (&[], false, false),
            (&["--verify=stream"], true, suits),
        ];
        for (options, is_cold, helps) in cases {
            match is_cold {
                true => advise(&file, Advice::DontNeed, 0).unwrap(),
                false => drop(fs::read(&source).unwrap()),
            }
            let run = ours.run().args(options).args([&source, &sandbox.join("target")]);
            let run = run.within(Duration::from_secs(60));
            let (outcome, calls) = record(run, "fadvise64", &sandbox.join("log")).unwrap();
            let what = format!("{file_system}, {options:?}, cold: {is_cold}");
            assert!(outcome.succeeded(), "{what}: {}", outcome.errors());
            assert!(fs::read(sandbox.join("target")).unwrap() == content, "{what}: another content");
            let is_ahead = |call: &&TracedCall| {
                call.argument(3) == "POSIX_FADV_WILLNEED" && call.argument(1).parse::<u64>().unwrap() > 0
            };
            let fetched = calls.iter().filter(is_ahead).count();
            assert_eq!(fetched > 0, helps, "{what}: {fetched} ranges were fetched");
            fs::remove_file(sandbox.join("target")).unwrap();
        }
    }
}
