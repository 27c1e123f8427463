//! No temporary names after a signal that a program can handle.

use std::os::unix::fs::symlink;
use std::time::Duration;

use haul_testkit::random::{Rng, seed, seeded};
use haul_testkit::run::RunEnding;
use haul_testkit::sandbox::remove_tree;
use haul_testkit::{CopyProgram, Sandbox, TestRun, libc, needs, note, program, require};

use super::{build, contents, temporary_names};

/// Maximum time from a signal to the end of the program. On a busy machine it may take longer to
/// begin.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

const SIGNALS: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Command lines that replace what is in the target, or give files their names only after a flush.
/// `BACKUP` is a directory.
const LINES: [&[&str]; 6] = [
    &["cp", "-aT", "--atomic"],
    &["cp", "-aT", "--atomic", "--fsync"],
    &["cp", "-aT", "--atomic", "--verify"],
    &["cp", "-aTf", "--remove-destination", "--atomic", "--engine=io-uring"],
    &["sync", "--checksum"],
    &["sync", "--backup-dir=BACKUP"],
];

/// Sizes of many small files and some large ones.
fn sizes() -> Vec<u64> {
    let small = (0..400).map(|index| [0, 100, 4096, 20_000, 70_000][index % 5]);
    small.chain([2 << 20; 8]).collect()
}

struct Scene {
    sandbox: Sandbox,
}

impl Scene {
    fn new() -> Self {
        let sandbox = Sandbox::in_memory().unwrap();
        let scene = Self { sandbox };
        scene.make("source", 1);
        scene
    }

    fn make(&self, name: &str, seed: u64) {
        let root = self.sandbox.join(name);
        build(&root, &sizes(), seed);
        for index in 0..50_u32 {
            let folder = index % 4;
            let leads_to = format!("file-{}", u64::from(folder) + 4 * seed);
            symlink(leads_to, root.join(format!("folder-{folder}/link-{index}"))).unwrap();
        }
    }

    /// Makes the target anew, with other contents under the same names.
    fn restore(&self) {
        for name in ["target", "backup"] {
            remove_tree(&self.sandbox.join(name));
        }
        self.make("target", 2);
    }

    fn run(&self, ours: &CopyProgram, line: &[&str]) -> TestRun {
        let backup = self.sandbox.join("backup");
        let words = line.iter().map(|word| word.replace("BACKUP", backup.to_str().unwrap()));
        TestRun::new(ours.path()).args(words).args(["source", "target"].map(|name| self.sandbox.join(name)))
    }

    /// Ends a run by a signal after a part of the time it usually takes. Returns how many
    /// temporary names are left, and whether the signal ended it.
    fn ended(&self, run: TestRun, signal: i32, after: Duration) -> (usize, bool) {
        let running = run.within(after + ENDS_WITHIN).start().unwrap();
        std::thread::sleep(after);
        // It may have ended already.
        running.signal(signal).unwrap_or_default();
        let outcome = running.finish().unwrap();
        let ended = outcome.ending == RunEnding::Signalled(signal);
        assert!(ended || outcome.succeeded(), "{:?}: {}", outcome.ending, outcome.errors());
        // `--verify` warns that this file system has no device.
        let errors = outcome.errors();
        assert!(errors.lines().all(|line| line.contains(" from memory")), "{errors}");
        let left = |name: &str| {
            let root = self.sandbox.join(name);
            if root.is_dir() { temporary_names(&contents(&root)) } else { 0 }
        };
        (left("target") + left("backup"), ended)
    }
}

#[test]
fn a_signal_leaves_no_temporary_names() {
    let ours = program!();
    require!(ours.needs_haul());
    let scene = Scene::new();
    let runs = needs::count_from("HAUL_KILLS", if needs::is_full_run() { 300 } else { 30 });
    let mut random = seeded(seed("temporary names after a signal", None));
    let unnamed = libc::O_TMPFILE as u32 & !(libc::O_DIRECTORY as u32);
    let mut left_by_kill = 0;
    for line in LINES {
        for has_unnamed in [true, false] {
            let run = || match has_unnamed {
                true => scene.run(&ours, line),
                false => scene.run(&ours, line).refusing_bits(libc::SYS_openat, 2, unnamed, libc::EOPNOTSUPP),
            };
            scene.restore();
            let usual = run().succeed().unwrap().took;
            let mut ended = 0;
            for round in 0..runs.div_ceil(LINES.len()).max(5) {
                // SIGKILL shows that there is something to remove.
                let signal = if round == 0 { libc::SIGKILL } else { SIGNALS[round % SIGNALS.len()] };
                scene.restore();
                let after = usual.mul_f64(random.random_range(0.2..0.9));
                let (left, by_signal) = scene.ended(run(), signal, after);
                ended += usize::from(by_signal);
                match signal {
                    libc::SIGKILL => left_by_kill += left,
                    _ => assert_eq!(left, 0, "{line:?}, signal {signal} after {after:?}"),
                }
            }
            note!("{line:?}: {ended} runs ended by a signal");
        }
    }
    assert!(left_by_kill > 0, "no run was killed at the right moment");
}
