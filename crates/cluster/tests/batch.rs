//! Batch jobs in a real Slurm (submitted, followed, cancelled, lost and restarted), and in a PBS of
//! stand-in programs.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use haul_cluster::batch::follow::Signals;
use haul_cluster::batch::{BatchError, BatchEvent, BatchListener, BatchOrder, BatchOutcome, Over, run};
use haul_cluster::launch::command::{StartLine, Surroundings, System, Wanted, start_line};
use haul_cluster::launch::job::LaunchedJob;
use haul_testkit::hosts::{self, Hosts};
use haul_testkit::pbs::Pbs;
use haul_testkit::slurm::{self, Slurm};
use haul_testkit::{needs, note, random, require, rustix, signals, wait};

const PATIENCE: Duration = Duration::from_secs(60);
const INTERRUPT: i32 = 2;

/// Records a job's output and events, and reacts to them.
struct RecordedEvents<'a> {
    output: Vec<u8>,
    error: Vec<u8>,
    progress: Vec<String>,
    events: Vec<BatchEvent>,
    react: Box<dyn FnMut(&str) + 'a>,
}

impl<'a> RecordedEvents<'a> {
    fn reacting(react: impl FnMut(&str) + 'a) -> Self {
        RecordedEvents {
            output: Vec::new(),
            error: Vec::new(),
            progress: Vec::new(),
            events: Vec::new(),
            react: Box::new(react),
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }
}

impl BatchListener for RecordedEvents<'_> {
    fn output(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
        (self.react)(&String::from_utf8_lossy(bytes));
    }
    fn error(&mut self, bytes: &[u8]) {
        self.error.extend_from_slice(bytes);
    }
    fn progress(&mut self, content: &[u8]) {
        self.progress.push(String::from_utf8_lossy(content).into_owned());
    }
    fn event(&mut self, event: BatchEvent) {
        if let BatchEvent::Submitted(job) = &event {
            (self.react)(&format!("submitted job {job}"));
        }
        self.events.push(event);
    }
}

/// Orders a shell to run a script.
fn order(system: System, folder: &Path, environment: (&str, PathBuf), script: &str) -> BatchOrder {
    BatchOrder {
        system,
        words: ["/bin/sh", "-c", script].map(OsString::from).to_vec(),
        directory: folder.to_owned(),
        shared: vec![folder.to_owned()],
        clients: 2,
        account: None,
        walltime: None,
        queue: None,
        umask: 0o022,
        environment: vec![(environment.0.into(), environment.1.into_os_string())],
        exports: Vec::new(),
    }
}

fn in_slurm(slurm: &Slurm, folder: &Path, script: &str) -> BatchOrder {
    order(System::Slurm, folder, slurm.environment(), script)
}

/// Lists a directory: a job directory that was left shows up.
fn names_in(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Returns the job's id from the event that it was submitted.
fn submitted(remark: &str) -> Option<String> {
    remark.strip_prefix("submitted job ").map(str::to_owned)
}

#[test]
fn a_job_is_followed_to_its_status() {
    require!(slurm::needed());
    let slurm = Slurm::start(2).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let data = random::bytes(1, 3_000_000);
    fs::write(folder.path().join("data"), &data).unwrap();
    let script = "echo \"$SLURM_NTASKS $SLURM_JOB_PARTITION\" >&2; printf '{\"files\":7}' >\"$HAUL_SPOOL/p\"; \
                  mv \"$HAUL_SPOOL/p\" \"$HAUL_SPOOL/progress\"; cat data; rm data; exit 3";
    let wanted = BatchOrder {
        walltime: Some(Duration::from_secs(600)),
        queue: Some("main".to_owned()),
        clients: 3,
        ..in_slurm(&slurm, folder.path(), script)
    };
    let mut heard = RecordedEvents::reacting(|_| ());
    let began = Instant::now();
    let outcome = run(&wanted, &Signals::none(), &mut heard).unwrap();
    note!("a job of Slurm in {:?}: {:?}", began.elapsed(), heard.events);
    assert_eq!(outcome, BatchOutcome::Finished(3));
    assert!(heard.output == data);
    assert_eq!(String::from_utf8_lossy(&heard.error), "3 main\n");
    assert_eq!(heard.progress, ["{\"files\":7}"]);
    assert_eq!(names_in(folder.path()), Vec::<String>::new());
}

#[test]
fn what_a_command_leaves_for_a_later_one_is_kept() {
    require!(slurm::needed());
    let slurm = Slurm::start(1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let half = "echo half >\"$HAUL_SPOOL/journal\"";
    for (end, expected) in [(": >\"$HAUL_SPOOL/unfinished\"; exit 1", 1), ("kill -9 $$", 128 + 9)] {
        let wanted = in_slurm(&slurm, folder.path(), &format!("{half}; {end}"));
        let outcome = run(&wanted, &Signals::none(), &mut RecordedEvents::reacting(|_| ())).unwrap();
        let BatchOutcome::GivenUp { status, job_directory, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(status, expected);
        assert_eq!(fs::read_to_string(job_directory.join("journal")).unwrap(), "half\n");
    }
}

#[test]
fn a_queue_that_refuses_is_reported() {
    require!(slurm::needed());
    let slurm = Slurm::start(1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (queue, reason) in [("closed", "not available"), ("missing", "invalid partition specified: missing")]
    {
        let wanted = BatchOrder { queue: Some(queue.to_owned()), ..in_slurm(&slurm, folder.path(), "true") };
        let error = run(&wanted, &Signals::none(), &mut RecordedEvents::reacting(|_| ())).unwrap_err();
        assert!(matches!(&error, BatchError::Refused(why) if why.contains(reason)), "{error:?}");
        assert_eq!(names_in(folder.path()), Vec::<String>::new());
    }
}

#[test]
fn a_job_cancelled_from_outside_is_lost() {
    require!(slurm::needed());
    let slurm = Slurm::start(1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    // One script that the signal kills, and one that turns it into an exit status. The latter also
    // exits with 143 if the sleep ends before the shell handles the signal.
    let with_status = "trap 'exit 143' TERM; echo begun; sleep 1000 & wait; exit 143";
    for script in ["echo begun; exec sleep 1000", with_status] {
        let mut job = String::new();
        let mut heard = RecordedEvents::reacting(|text| {
            job = submitted(text).unwrap_or_else(|| job.clone());
            if text == "begun\n" {
                slurm.run(&["scancel", "--full", &job]).unwrap();
            }
        });
        let outcome = run(&in_slurm(&slurm, folder.path(), script), &Signals::none(), &mut heard).unwrap();
        assert_eq!(heard.text(), "begun\n");
        let BatchOutcome::Lost { over: Over::Cancelled, job_directory, .. } = outcome else {
            panic!("{outcome:?}")
        };
        assert!(job_directory.join("out").exists());
        fs::remove_dir_all(job_directory).unwrap();
    }
}

#[test]
fn a_signal_cancels_the_job() {
    require!(slurm::needed());
    let slurm = Slurm::start(1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let signals = Signals::none();
    let mut heard = RecordedEvents::reacting(|text| {
        if text == "begun\n" {
            signals.raise(INTERRUPT);
        }
    });
    let outcome =
        run(&in_slurm(&slurm, folder.path(), "echo begun; exec sleep 1000"), &signals, &mut heard).unwrap();
    let BatchOutcome::Interrupted { job, signal: INTERRUPT, gone: true } = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(slurm.state(&job), "CANCELLED");
    assert!(wait::until(PATIENCE, || slurm.processes_of_jobs().is_empty()));
    assert_eq!(names_in(folder.path()), Vec::<String>::new());
}

/// The process that the next test interrupts.
#[test]
#[ignore = "run by `real_signals_cancel_the_job`, in a process of its own"]
fn follower() {
    let folder = std::env::var_os("HAUL_TEST_FOLLOWER").unwrap();
    let configuration = PathBuf::from(std::env::var_os("SLURM_CONF").unwrap());
    let script = "echo begun >begun; exec sleep 1000";
    let wanted = order(System::Slurm, Path::new(&folder), ("SLURM_CONF", configuration), script);
    let outcome = run(&wanted, &Signals::listen().unwrap(), &mut RecordedEvents::reacting(|_| ())).unwrap();
    fs::write(Path::new(&folder).join("outcome"), format!("{outcome:?}")).unwrap();
}

#[test]
fn real_signals_cancel_the_job() {
    require!(slurm::needed());
    signals::restore_for_children().unwrap();
    let slurm = Slurm::start(1).unwrap();
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let folder = tempfile::tempdir().unwrap();
        let (name, value) = slurm.environment();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["follower", "--exact", "--ignored"])
            .env("HAUL_TEST_FOLLOWER", folder.path())
            .env(name, value)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        assert!(wait::until(PATIENCE, || folder.path().join("begun").exists()));
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
        assert!(wait::for_end(&mut child, PATIENCE).unwrap().success());
        let outcome = fs::read_to_string(folder.path().join("outcome")).unwrap();
        let wanted = format!("signal: {}, gone: true", signal.as_raw());
        assert!(outcome.starts_with("Interrupted") && outcome.contains(&wanted), "{outcome}");
        assert!(wait::until(PATIENCE, || slurm.processes_of_jobs().is_empty()));
    }
}

#[test]
fn a_job_whose_node_is_killed_is_followed_when_it_begins_again() {
    require!(slurm::needed());
    let slurm = Slurm::start(2).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let script = "if [ -e \"$HAUL_SPOOL/journal\" ]; then echo again; else \
                  echo half >\"$HAUL_SPOOL/journal\"; echo \"on $SLURMD_NODENAME\"; sleep 1000; fi";
    let mut job = String::new();
    let mut killed = 0;
    let mut heard = RecordedEvents::reacting(|text| {
        job = submitted(text).unwrap_or_else(|| job.clone());
        if let Some(node) = text.strip_prefix("on ") {
            killed = slurm.kill_node(node.trim());
            slurm.declare_lost(node.trim()).unwrap();
        }
        if text.contains("was put back into the queue") {
            // Slurm would wait two minutes before it restarts the job.
            slurm.release(&job).unwrap();
        }
    });
    let began = Instant::now();
    let outcome = run(&in_slurm(&slurm, folder.path(), script), &Signals::none(), &mut heard).unwrap();
    note!("restarted in {:?}: {:?}", began.elapsed(), heard.events);
    assert_eq!(outcome, BatchOutcome::Finished(0));
    let text = heard.text();
    assert!(text.starts_with("on n") && text.ends_with("\nagain\n"), "{text}");
    drop(heard);
    assert!(killed >= 3, "{killed} processes on the node");
    assert_eq!(names_in(folder.path()), Vec::<String>::new());
}

#[test]
fn a_job_that_takes_too_long_is_lost() {
    require!(slurm::needed());
    // Slurm's limits are in minutes, and it checks them every half minute.
    require!(needs::full_run());
    let slurm = Slurm::start(1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let wanted = BatchOrder {
        walltime: Some(Duration::from_secs(1)),
        ..in_slurm(&slurm, folder.path(), "exec sleep 1000")
    };
    let outcome = run(&wanted, &Signals::none(), &mut RecordedEvents::reacting(|_| ())).unwrap();
    assert!(matches!(outcome, BatchOutcome::Lost { over: Over::TimedOut, .. }), "{outcome:?}");
}

#[test]
fn in_an_allocation_srun_links_rank_0() {
    require!(slurm::needed());
    let slurm = Slurm::start(3).unwrap();
    let said = slurm.run(&["salloc", "--no-shell", "-N3", "-n3"]).unwrap();
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    let id: String =
        said.split("job allocation ").nth(1).unwrap().chars().take_while(char::is_ascii_digit).collect();
    // The environment of a process in the allocation; only srun is on its PATH.
    let tools = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(needs::find_tool("srun").unwrap(), tools.path().join("srun")).unwrap();
    let surroundings = Surroundings::of(|name| match name {
        "SLURM_JOB_ID" => Some(OsString::from(&id)),
        "SLURM_TASKS_PER_NODE" => Some("1(x3)".into()),
        "PATH" => Some(tools.path().into()),
        _ => None,
    });
    let script = "echo \"$SLURMD_NODENAME\" >&2; if [ $SLURM_PROCID = 0 ]; then exec cat; fi";
    let arguments = ["-c", script].map(OsString::from);
    let (name, value) = slurm.environment();
    let environment = [(name, value.into_os_string()), ("SLURM_JOB_ID", OsString::from(&id))];
    let wanted = Wanted {
        ranks: 3,
        program: Path::new("/bin/sh"),
        arguments: &arguments,
        environment: &environment,
        launcher: None,
        library: None,
        places: &[],
    };
    let line = start_line(&surroundings, &wanted).unwrap();
    echo_through(&line);
    assert!(start_line(&surroundings, &Wanted { ranks: 4, ..wanted }).is_err());
}

/// Sends bytes without newlines through rank 0 and back, then ends the job.
fn echo_through(line: &StartLine) {
    use std::io::{Read, Write};
    let (sender, said) = channel();
    let mut job = LaunchedJob::start(line, move |line| {
        sender.send(String::from_utf8_lossy(line).into_owned()).unwrap()
    })
    .unwrap();
    let (mut input, mut output) = (job.take_input().unwrap(), job.take_output().unwrap());
    for size in [1, 100, 4096, 200_000] {
        let data: Vec<u8> =
            (0..size).map(|index| if index % 251 == 10 { 13 } else { (index % 251) as u8 }).collect();
        let copy = data.clone();
        let mut writer = input;
        let thread = std::thread::spawn(move || {
            writer.write_all(&copy).unwrap();
            writer
        });
        let mut back = vec![0; data.len()];
        output.read_exact(&mut back).unwrap();
        assert!(back == data, "{size} bytes");
        input = thread.join().unwrap();
    }
    drop(input);
    let mut rest = Vec::new();
    output.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
    job.wait(PATIENCE).unwrap().unwrap();
    drop(job);
    let mut said: Vec<_> = said.into_iter().filter(|line| line.starts_with('n')).collect();
    said.sort();
    assert_eq!(said, ["n1", "n2", "n3"]);
}

#[test]
fn in_a_job_each_launcher_reaches_all_nodes() {
    require!(slurm::needed());
    let slurm = Slurm::start(3).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let surroundings = Surroundings::of(|name| match name {
        "SLURM_JOB_ID" => Some("1".into()),
        "PATH" => std::env::var_os("PATH"),
        _ => None,
    });
    // Hydra gives ranks the environment of mpiexec, even on other nodes; its proxies have the
    // right one.
    let rank = "node=$(tr '\\0' '\\n' </proc/$PPID/environ | sed -n 's/^SLURMD_NODENAME=//p'); \
                echo \"${node:-$SLURMD_NODENAME} ${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$SLURM_PROCID}}\"";
    let arguments = ["-c", rank].map(OsString::from);
    let found = ["mpirun.openmpi", "mpiexec.mpich", "srun"].into_iter().filter_map(needs::find_tool);
    for launcher in found {
        let words = [launcher.clone().into_os_string()];
        let wanted = Wanted {
            ranks: 3,
            program: Path::new("/bin/sh"),
            arguments: &arguments,
            environment: &[],
            launcher: Some(&words),
            library: None,
            places: &[],
        };
        let mut line = start_line(&surroundings, &wanted).unwrap();
        // The launch process, which doesn't run here, adds this when it is root.
        if launcher.ends_with("mpirun.openmpi") {
            line.words.insert(1, "--allow-run-as-root".into());
        }
        let order = BatchOrder { words: line.words, clients: 3, ..in_slurm(&slurm, folder.path(), "") };
        let mut heard = RecordedEvents::reacting(|_| ());
        let outcome = run(&order, &Signals::none(), &mut heard).unwrap();
        let text = heard.text();
        let error = String::from_utf8_lossy(&heard.error).into_owned();
        assert_eq!(outcome, BatchOutcome::Finished(0), "{}: {text}{error}", launcher.display());
        let mut ranks: Vec<_> = text.lines().filter_map(|line| line.split(' ').nth(1)).collect();
        ranks.sort_unstable();
        assert_eq!(ranks, ["0", "1", "2"], "{}: {text}{error}", launcher.display());
        let mut nodes: Vec<_> = text.lines().filter_map(|line| line.split(' ').next()).collect();
        nodes.sort_unstable();
        assert_eq!(nodes, ["n1", "n2", "n3"], "{}: {text}{error}", launcher.display());
    }
}

#[test]
fn hosts_of_their_own_are_nodes_too() {
    require!(slurm::needed(), hosts::needed());
    let hosts = Hosts::new(3).unwrap();
    let slurm = Slurm::start_over(&hosts).unwrap();
    let mut names: Vec<_> = slurm.said(&["srun", "-N3", "hostname"]).lines().map(str::to_owned).collect();
    names.sort();
    assert_eq!(names, ["h1", "h2", "h3"]);
}

fn in_pbs(pbs: &Pbs, folder: &Path, script: &str) -> BatchOrder {
    order(System::Pbs, folder, ("PATH", pbs.path().into()), script)
}

#[test]
fn a_job_of_pbs_is_described_and_followed() {
    let (pbs, folder) = (Pbs::new(&[]).unwrap(), tempfile::tempdir().unwrap());
    let wanted = BatchOrder {
        account: Some("project".to_owned()),
        walltime: Some(Duration::from_secs(3723)),
        queue: Some("batch".to_owned()),
        clients: 5,
        ..in_pbs(&pbs, folder.path(), "echo out; echo err >&2; exit 4")
    };
    let mut heard = RecordedEvents::reacting(|_| ());
    assert_eq!(run(&wanted, &Signals::none(), &mut heard).unwrap(), BatchOutcome::Finished(4));
    assert_eq!((heard.text().as_str(), heard.error.as_slice()), ("out\n", &b"err\n"[..]));
    let script = pbs.script("1.standin");
    for line in [
        "#PBS -N haul",
        "#PBS -S /bin/sh",
        "#PBS -l select=5:ncpus=1:mpiprocs=1",
        "#PBS -l walltime=1:02:03",
        "#PBS -A project",
        "#PBS -q batch",
    ] {
        assert!(script.lines().any(|written| written == line), "{line}\n{script}");
    }
    assert!(script.starts_with("#!/bin/sh\n#PBS "));
    assert_eq!(names_in(folder.path()), Vec::<String>::new());
}

#[test]
fn pbs_refuses_cancels_and_is_interrupted() {
    let (pbs, folder) = (Pbs::new(&[]).unwrap(), tempfile::tempdir().unwrap());
    let wanted = in_pbs(&pbs, folder.path(), "echo begun; exec sleep 1000");
    let refused = BatchOrder { queue: Some("closed".to_owned()), ..wanted.clone() };
    let error = run(&refused, &Signals::none(), &mut RecordedEvents::reacting(|_| ())).unwrap_err();
    assert!(matches!(&error, BatchError::Refused(why) if why == "qsub: Queue is not enabled"), "{error:?}");

    let qdel = pbs.bin().join("qdel");
    let mut heard = RecordedEvents::reacting(|text| {
        if text == "begun\n" {
            assert!(Command::new(&qdel).arg("1.standin").status().unwrap().success());
        }
    });
    let outcome = run(&wanted, &Signals::none(), &mut heard).unwrap();
    let BatchOutcome::Lost { over: Over::Cancelled, job_directory, .. } = outcome else {
        panic!("{outcome:?}")
    };
    fs::remove_dir_all(job_directory).unwrap();

    let signals = Signals::none();
    let mut heard = RecordedEvents::reacting(|text| {
        if text == "begun\n" {
            signals.raise(INTERRUPT);
        }
    });
    let outcome = run(&wanted, &signals, &mut heard).unwrap();
    assert!(
        matches!(outcome, BatchOutcome::Interrupted { gone: true, signal: INTERRUPT, .. }),
        "{outcome:?}"
    );
    assert_eq!(names_in(folder.path()), Vec::<String>::new());
}
