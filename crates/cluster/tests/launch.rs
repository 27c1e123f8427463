//! Jobs under real launchers: what passes through rank 0's pipes, and that an ended job leaves
//! nothing behind.
//!
//! The ranks are shells, because the launcher is tested, not MPI.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ChildStdin;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use haul_cluster::launch::LauncherFamily;
use haul_cluster::launch::command::{LaunchRefusal, StartLine, Surroundings, Wanted, start_line};
use haul_cluster::launch::job::{GRACE, LaunchedJob};
use haul_testkit::needs::find_tool;
use haul_testkit::{needs, note, random, require, rustix, skip, wait};
use rustix::process::{Pid, Signal, kill_process};

const PATIENCE: Duration = Duration::from_secs(30);

/// Determines the rank, under any launcher.
const RANK: &str = "rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$SLURM_PROCID}}; ";

/// Launchers known to these tests, by their program names on Debian.
const LAUNCHERS: [&str; 2] = ["mpirun.openmpi", "mpiexec.mpich"];

/// Returns the command line for ranks that are shells.
fn shells(launcher: &Path, ranks: u32, script: &str) -> StartLine {
    let arguments = ["-c".into(), OsString::from(format!("{RANK}{script}"))];
    let launcher = [launcher.as_os_str().to_owned()];
    let environment = [("HAUL_TEST", OsString::from("two words"))];
    let wanted = Wanted {
        ranks,
        program: Path::new("/bin/sh"),
        arguments: &arguments,
        environment: &environment,
        launcher: Some(&launcher),
        library: None,
        places: &[],
    };
    start_line(&Surroundings::of_process(), &wanted).unwrap()
}

/// Starts a job, and collects the lines of its standard error.
fn start(line: &StartLine) -> (LaunchedJob, Receiver<String>) {
    let (sender, said) = channel();
    let tell = move |line: &[u8]| sender.send(String::from_utf8_lossy(line).into_owned()).unwrap_or_default();
    (LaunchedJob::start(line, tell).unwrap(), said)
}

fn under_each(test: impl Fn(&Path)) {
    let found: Vec<PathBuf> = LAUNCHERS.iter().filter_map(find_tool).collect();
    if found.is_empty() {
        skip!("needs one of the commands {}", LAUNCHERS.join(", "));
    }
    for launcher in found {
        note!("under {}", launcher.display());
        test(&launcher);
    }
}

/// Number of bytes that came back, and those who wait for more.
#[derive(Default)]
struct Echoed(Mutex<usize>, Condvar);

impl Echoed {
    fn add(&self, more: usize) {
        *self.0.lock().unwrap() += more;
        self.1.notify_all();
    }

    /// Waits until fewer than `window` bytes are outstanding. Returns how many more may be sent.
    fn wait_for_room(&self, sent: usize, window: usize) -> usize {
        let guard = self.0.lock().unwrap();
        let (back, timeout) =
            self.1.wait_timeout_while(guard, PATIENCE, |back| sent - *back >= window).unwrap();
        assert!(!timeout.timed_out(), "{sent} bytes sent and only {} back", *back);
        window - (sent - *back)
    }
}

fn send(mut input: ChildStdin, data: &[u8], window: usize, echoed: &Echoed) {
    let mut sent = 0;
    while sent < data.len() {
        let room = echoed.wait_for_room(sent, window);
        sent += input.write(&data[sent..data.len().min(sent + room)]).unwrap();
    }
}

#[test]
fn any_bytes_pass_through_rank_0() {
    const BYTES: usize = 50_000_000;
    let data = random::bytes(1, BYTES as u64);
    under_each(|launcher| {
        let line = shells(launcher, 3, "if [ $rank = 0 ]; then exec cat; else echo rank $rank >&2; fi");
        let (mut job, said) = start(&line);
        let (input, mut output) = (job.take_input().unwrap(), job.take_output().unwrap());
        let echoed = Arc::new(Echoed::default());
        let counted = Arc::clone(&echoed);
        let reader = thread::spawn(move || {
            let (mut all, mut piece) = (Vec::with_capacity(BYTES), vec![0; 1 << 16]);
            loop {
                let read = output.read(&mut piece).unwrap();
                if read == 0 {
                    return all;
                }
                all.extend_from_slice(&piece[..read]);
                counted.add(read);
            }
        });
        let began = Instant::now();
        send(input, &data, line.stdin_window.unwrap_or(BYTES), &echoed);
        assert!(reader.join().unwrap() == data, "{line:?}: other bytes came back");
        note!("{BYTES} bytes there and back in {:?}", began.elapsed());
        assert!(job.wait(PATIENCE).unwrap().unwrap().success());
        drop(job);
        let mut said: Vec<_> = said.into_iter().collect();
        said.sort();
        assert_eq!(said, ["rank 1", "rank 2"]);
    });
}

#[test]
fn output_that_is_read_late_is_whole() {
    under_each(|launcher| {
        let line = shells(launcher, 2, "[ $rank = 0 ] || exit 0; head -c 3000000 /dev/zero; echo end");
        let (mut job, _said) = start(&line);
        drop(job.take_input());
        let mut output = job.take_output().unwrap();
        // Wait until output piles up. How full a pipe gets depends on the sizes of the writes.
        assert!(wait::until(PATIENCE, || rustix::io::ioctl_fionread(&output).unwrap() >= 16_000));
        let mut all = Vec::new();
        output.read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), 3_000_004);
        assert!(all.ends_with(b"\0end\n"));
        assert!(job.wait(PATIENCE).unwrap().unwrap().success());
    });
}

#[test]
fn ranks_get_their_environment_and_their_number() {
    under_each(|launcher| {
        // More ranks than this machine has processors.
        let (mut job, said) = start(&shells(launcher, 9, "echo \"$HAUL_TEST $rank\" >&2"));
        drop(job.take_input());
        assert!(job.wait(PATIENCE).unwrap().unwrap().success());
        drop(job);
        let mut said: Vec<_> = said.into_iter().collect();
        said.sort();
        assert_eq!(said, (0..9).map(|rank| format!("two words {rank}")).collect::<Vec<_>>());
    });
}

#[test]
fn a_failing_rank_is_a_failing_job() {
    under_each(|launcher| {
        let (mut job, _said) = start(&shells(launcher, 2, "[ $rank = 0 ] && exit 7; exit 0"));
        drop(job.take_input());
        assert_eq!(job.wait(PATIENCE).unwrap().unwrap().code(), Some(7));
    });
}

/// Waits until each rank of a job has printed its process id, and returns the ids.
fn processes(said: &Receiver<String>, ranks: usize) -> Vec<u32> {
    let mut pids = Vec::new();
    while pids.len() < ranks {
        let line = said.recv_timeout(PATIENCE).unwrap();
        pids.extend(line.strip_prefix("pid ").and_then(|pid| pid.parse::<u32>().ok()));
    }
    pids
}

/// Returns true if a process still runs; a zombie doesn't.
fn runs(pid: &u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

#[test]
fn an_ended_job_leaves_nothing() {
    under_each(|launcher| {
        // Each rank also has a child, and ignores the signals it can.
        let script = "trap '' TERM INT HUP; echo pid $$ >&2; sleep 1000 & echo pid $! >&2; wait; sleep 1000";
        for by_drop in [false, true] {
            let (mut job, said) = start(&shells(launcher, 3, script));
            let pids = processes(&said, 6);
            assert!(pids.iter().all(runs));
            let began = Instant::now();
            if by_drop {
                drop(job);
            } else {
                assert!(!job.end().unwrap().unwrap().success());
            }
            note!("ended in {:?}", began.elapsed());
            assert!(began.elapsed() < GRACE + Duration::from_secs(5));
            assert!(!pids.iter().any(runs));
        }
    });
}

#[test]
fn a_launcher_that_was_killed_leaves_nothing_either() {
    under_each(|launcher| {
        let script = "trap '' TERM HUP; echo pid $$ >&2; sleep 1000; sleep 1000";
        let (mut job, said) = start(&shells(launcher, 3, script));
        let pids = processes(&said, 3);
        signal(job.id(), Signal::KILL);
        assert!(wait::until(PATIENCE, || job.ended().unwrap().is_some()));
        job.end().unwrap();
        assert!(!pids.iter().any(runs));
    });
}

#[test]
fn a_stopped_launcher_is_ended_all_the_same() {
    under_each(|launcher| {
        let (mut job, said) = start(&shells(launcher, 2, "echo pid $$ >&2; sleep 1000"));
        let pids = processes(&said, 2);
        signal(job.id(), Signal::STOP);
        job.end().unwrap();
        assert!(!pids.iter().any(runs));
    });
}

#[test]
fn a_rank_that_is_killed_ends_the_job() {
    under_each(|launcher| {
        let (mut job, said) = start(&shells(launcher, 3, "echo pid $$ >&2; exec sleep 1000"));
        let pids = processes(&said, 3);
        signal(pids[1], Signal::KILL);
        let status = job.wait(PATIENCE).unwrap();
        assert!(status.is_some_and(|status| !status.success()), "{status:?}");
        assert!(!pids.iter().any(runs));
    });
}

#[test]
fn an_allocation_is_not_overfilled() {
    require!(needs::tool(LAUNCHERS[0]));
    let path = std::env::var_os("PATH");
    let surroundings = Surroundings::of(|name| match name {
        "SLURM_JOB_ID" => Some("5".into()),
        "SLURM_TASKS_PER_NODE" => Some("2(x2)".into()),
        "PATH" => path.clone(),
        _ => None,
    });
    let wanted = |ranks| Wanted {
        ranks,
        program: Path::new("/bin/true"),
        arguments: &[],
        environment: &[],
        launcher: None,
        library: None,
        places: &[],
    };
    let line = start_line(&surroundings, &wanted(4)).unwrap();
    assert!(line.family != LauncherFamily::Other && !line.words.contains(&"--oversubscribe".into()));
    let refusal = start_line(&surroundings, &wanted(5)).unwrap_err();
    assert_eq!(refusal, LaunchRefusal::TooManyClients { clients: 5, slots: 4, job: "5".to_owned() });
}
