//! Jobs that can't start are refused in one message, before anything is touched.

use std::fs;
use std::path::Path;
use std::time::Duration;

use haul_testkit::mpi::{Mpi, MpiKind};
use haul_testkit::program::write_script;
use haul_testkit::run::{RunEnding, RunOutcome, TestRun};
use haul_testkit::{Sandbox, libc, message, program, require, wait};

use crate::start::relatives;

/// A refusal must not take longer.
const LIMIT: Duration = Duration::from_secs(60);

/// A directory with a file to copy.
struct Scene(Sandbox);

impl Scene {
    fn new() -> Self {
        let sandbox = Sandbox::in_memory().unwrap();
        fs::write(sandbox.join("a"), "a").unwrap();
        Self(sandbox)
    }

    fn names(&self) -> Vec<String> {
        let names = fs::read_dir(self.0.path()).unwrap().flatten();
        names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    fn finish(&self, run: TestRun) -> RunOutcome {
        let mark = self.0.path().display().to_string();
        let run = run.in_folder(self.0.path()).env("HAUL_TEST", &mark).env("HAUL_SILENCE", "10");
        let outcome = run.within(LIMIT).finish().unwrap();
        assert_eq!(relatives(&mark), []);
        assert_eq!(self.names(), ["a"], "{}", outcome.errors());
        outcome
    }

    /// Asserts that the run fails with status 1 and one line of haul's that contains `words`.
    fn refused(&self, run: TestRun, words: &[&str]) {
        let outcome = self.finish(run);
        let told = outcome.errors();
        let lines: Vec<_> = message::normalise(&outcome.stderr)
            .into_iter()
            .filter(|line| line.starts_with("cp: ") || line.starts_with("haul: "))
            .collect();
        assert_eq!((outcome.status(), lines.len()), (Some(1), 1), "{told}");
        assert!(words.iter().all(|word| lines[0].contains(word)), "{words:?}: {told}");
    }
}

#[test]
fn without_mpi_there_are_no_clients() {
    require!(program!().needs_haul());
    let scene = Scene::new();
    let copy = || program!().run().args(["--clients=2", "a", "b"]);
    scene.refused(copy().env("PATH", ""), &["mpirun", "PATH"]);
    scene.refused(copy().arg("--launcher=/no/such/program"), &["/no/such/program", "No such file"]);
    scene.refused(copy().arg("--launcher=true"), &[]);
    scene.refused(copy().arg("--launcher=false"), &[]);
}

/// The token is there while the launcher, which never starts a rank here, runs.
#[test]
fn a_signal_while_the_ranks_start_leaves_nothing() {
    require!(program!().needs_haul());
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
        let scene = Scene::new();
        let launcher = Sandbox::in_memory().unwrap();
        let script = launcher.join("launcher");
        write_script(&script, "#!/bin/sh\n[ \"$1\" = --version ] || exec sleep 1000\n").unwrap();
        let modified = || fs::metadata(scene.0.path()).unwrap().modified().unwrap();
        let before = modified();
        let mark = scene.0.path().display().to_string();
        let run =
            program!().run().args(["--clients=2", "a", "b"]).arg(format!("--launcher={}", script.display()));
        let running = run.in_folder(scene.0.path()).env("HAUL_TEST", &mark).within(LIMIT).start().unwrap();
        let has_token = || scene.names().iter().any(|name| name.starts_with(".haul-token-"));
        assert!(wait::until(LIMIT, has_token), "{:?}", scene.names());
        running.signal(signal).unwrap();
        assert_eq!(running.finish().unwrap().ending, RunEnding::Signalled(signal));
        assert_eq!((scene.names(), modified()), (vec!["a".to_owned()], before));
    }
}

#[test]
fn numbers_of_clients_that_make_no_sense_are_refused() {
    require!(program!().needs_haul());
    let scene = Scene::new();
    for number in ["0", "-1", "x", "", "1048577", "99999999999999999999999"] {
        let run = program!().run().args([&format!("--clients={number}"), "a", "b"]);
        scene.refused(run, &["--clients"]);
    }
    scene.refused(program!().run().args(["--range-size=1M", "a", "b"]), &["--range-size", "--clients"]);
    scene.refused(program!().run().args(["--clients=2", "--range-size=1", "a", "b"]), &["--range-size"]);
}

/// In every applet, a batch option is an error if there is no batch system.
#[test]
fn options_for_a_batch_job_need_a_batch_system() {
    require!(program!().needs_haul());
    let scene = Scene::new();
    for option in ["--account=p", "--queue=q", "--walltime=60"] {
        let name = option.split('=').next().unwrap();
        let copy = program!().run().args(["--clients=2", option, "a", "b"]);
        scene.refused(copy.env("PATH", ""), &[name, "no batch system"]);
        for line in ["tar -cf b.tar a", "grep x a", "cmp a a", "each a -- cat", "bzip2 -k a"] {
            let mut words = line.split(' ');
            let run = TestRun::new(program!().path()).args(words.next()).args(["--clients=2", option]);
            let outcome = scene.finish(run.args(words).env("PATH", ""));
            let told = outcome.errors();
            assert!(outcome.status().is_some_and(|status| status > 0), "{line} {option}: {told}");
            assert!(told.contains(name) && told.contains("no batch system"), "{line} {option}: {told}");
        }
    }
}

#[test]
fn libraries_that_are_none_are_refused() {
    require!(MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let (scene, mpi) = (Scene::new(), Mpi::find(MpiKind::OpenMpi4).unwrap());
    let launcher = format!("--launcher={}", mpi.launcher().display());
    let copy = |library: &str| {
        let run = program!().run().args(["--clients=2", &launcher, "a", "b"]);
        mpi.with(run.arg(format!("--mpi-lib={library}")))
    };
    scene.refused(copy("/no/such/library"), &["/no/such/library", "No such file"]);
    scene.refused(copy("libc.so.6"), &["libc.so.6"]);
    scene.refused(copy("/dev/null"), &["/dev/null"]);
    scene.refused(copy("/"), &["'/'"]);
}

/// Each rank would take itself for rank 0 of 1, and copy everything.
#[test]
fn a_library_of_another_family_than_the_launcher_is_refused() {
    require!(MpiKind::OpenMpi4.needed(), MpiKind::Mpich4.needed(), program!().needs_haul());
    let scene = Scene::new();
    let [first, second] = [MpiKind::OpenMpi4, MpiKind::Mpich4].map(|kind| Mpi::find(kind).unwrap());
    for (launcher, library) in [(&first, &second), (&second, &first)] {
        let library = format!("--mpi-lib={}", library.library().display());
        let start = format!("--launcher={}", launcher.launcher().display());
        let run = program!().run().args(["--clients=2", &start, &library, "a", "b"]);
        scene.refused(launcher.with(run), &["2 ranks", "another MPI"]);
        let run = launcher.job(2, program!().path()).args(["cp", &library, "a", "b"]);
        scene.refused(run, &["2 ranks", "another MPI"]);
    }
}

/// Only one rank reports a bad command line.
#[test]
fn ranks_report_a_wrong_command_line_once() {
    require!(MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let (scene, mpi) = (Scene::new(), Mpi::find(MpiKind::OpenMpi4).unwrap());
    let job = |words: &[&str]| mpi.job(3, program!().path()).arg("cp").args(words);
    scene.refused(job(&["--nonsense", "a", "b"]), &["--nonsense"]);
    scene.refused(job(&["a"]), &["missing destination"]);
    scene.refused(job(&["a", "a", "b"]), &["b'"]);
    scene.refused(job(&["--clients=2", "a", "b"]), &["one of 3 ranks"]);
    scene.refused(job(&["missing", "b"]), &["missing", "No such file"]);
    scene.refused(job(&["--journal=/no/such/place", "a", "b"]), &["/no/such/place"]);
    let outcome = scene.finish(job(&["--version"]));
    assert_eq!((outcome.status(), outcome.printed().matches("cp (haul)").count()), (Some(0), 1));
}

/// Only rank 0 reads streams, configuration files and the journal, and writes logs. What it refuses
/// there must end the others too, which have joined by then.
#[test]
fn what_only_rank_0_can_refuse_ends_all_ranks() {
    require!(MpiKind::OpenMpi4.needed(), MpiKind::Mpich4.needed(), program!().needs_haul());
    let scene = Scene::new();
    for (line, input, options, word) in [
        ("grep -f - a", "a\\(\n", "", "Unmatched"),
        ("cp --files-from=- -r . b", "../a\n", "", "leads out of SOURCE"),
        ("cp --exclude-from=/dev/stdin -r . b", "[\n", "", "invalid pattern"),
        ("tar -cf b -T -", "--bogus\n", "", "--bogus"),
        ("cp a b", "", "--bogus", "HAUL_OPTIONS"),
        ("cp --journal=/no/such/place a b", "", "", "/no/such/place"),
        ("cp --log-file=/no/such/place a b", "", "", "/no/such/place"),
        ("sum --events=/no/such/place a", "", "", "/no/such/place"),
        ("cp --control=/no/such/place a b", "", "", "/no/such/place"),
        ("nonsense", "", "", "nonsense"),
    ] {
        for kind in [MpiKind::OpenMpi4, MpiKind::Mpich4] {
            let run = Mpi::find(kind).unwrap().job(2, program!().path()).args(line.split(' '));
            let outcome = scene.finish(run.input(input.as_bytes()).env("HAUL_OPTIONS", options));
            let (told, what) = (outcome.errors(), format!("{line}: {}", kind.name()));
            let reports = told.lines().filter(|told| told.starts_with("haul") && told.contains(word)).count();
            assert_eq!(reports, 1, "{what}: {told}");
            assert!(outcome.status().is_some_and(|status| status > 0), "{what}: {:?}", outcome.ending);
        }
    }
}

/// Most launchers kill the job when one rank fails: none may before rank 0 has reported.
#[test]
fn a_refusal_is_reported_by_a_slow_rank_0() {
    require!(MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let (scene, mpi) = (Scene::new(), Mpi::find(MpiKind::OpenMpi4).unwrap());
    let script = format!(
        "if [ $OMPI_COMM_WORLD_RANK = 0 ]; then sleep 1; fi; exec {} \"$@\"",
        fs::canonicalize(program!().path()).unwrap().display()
    );
    for line in [
        "cp --nonsense a b",
        "cp --files-from=/no/such/list a b",
        "cp --clients=2 a b",
        "sync --nonsense a b",
        "sync a b",
        "spdcp --nonsense a b",
        "tar --nonsense",
        "tar -f b.tar",
        "grep --nonsense",
        "grep",
        "grep a(b -E a",
        "cmp a",
        "sum --nonsense a",
        "each a",
        "bzip2 --nonsense a",
    ] {
        let words = ["-c", &script, "sh"].into_iter().chain(line.split(' '));
        let outcome = scene.finish(mpi.job(3, Path::new("/bin/sh")).args(words));
        let said = outcome.errors();
        let program = line.split(' ').next().unwrap();
        let starts = [format!("{program}: "), format!("haul {program}: "), "haul: ".to_owned()];
        let reports =
            said.lines().filter(|line| starts.iter().any(|start| line.starts_with(start.as_str()))).count();
        assert!(reports == 1 && outcome.status().is_some_and(|status| status > 0), "{line}: {said}");
    }
}

/// A script that runs `cp` in each of its processes wants each of them to copy.
#[test]
fn cp_joins_no_job() {
    require!(MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let (scene, mpi) = (Scene::new(), Mpi::find(MpiKind::OpenMpi4).unwrap());
    let folder = Sandbox::in_memory().unwrap();
    std::os::unix::fs::symlink(fs::canonicalize(program!().path()).unwrap(), folder.join("cp")).unwrap();
    let script =
        format!("{} a {}/copy-$OMPI_COMM_WORLD_RANK", folder.join("cp").display(), folder.path().display());
    let job = mpi.job(3, Path::new("/bin/sh")).args(["-c", &script]);
    let outcome = scene.finish(job);
    assert!(outcome.succeeded(), "{}", outcome.errors());
    assert!((0..3).all(|rank| folder.join(format!("copy-{rank}")).is_file()));
}

/// Ranks of another build with the same version number are refused by name, before anything
/// is copied.
#[test]
fn ranks_of_another_build_are_refused() {
    require!(MpiKind::OpenMpi4.needed(), MpiKind::Mpich4.needed(), program!().needs_haul());
    let (scene, other) = (Scene::new(), Sandbox::in_memory().unwrap());
    let agent = other.join("haul");
    for more in ["", "x"] {
        // Another process writes it: a concurrent fork in this one could inherit the descriptor and
        // cause ETXTBSY.
        let made = std::process::Command::new("sh")
            .args(["-c", "cp \"$0\" \"$1\" && printf %s \"$2\" >>\"$1\""])
            .args([program!().path(), &agent])
            .arg(more)
            .status();
        assert!(made.unwrap().success());
        for kind in [MpiKind::OpenMpi4, MpiKind::Mpich4] {
            let mpi = Mpi::find(kind).unwrap();
            let launcher = format!("--launcher={}", mpi.launcher().display());
            let library = format!("--mpi-lib={}", mpi.library().display());
            let run = mpi.with(program!().run()).env("HAUL_AGENT", agent.to_str().unwrap());
            let run = run.args(["--clients=2", &launcher, &library, "a"]);
            if more.is_empty() {
                // A copy of the same build elsewhere is fine.
                let target = other.join("b");
                let outcome = scene.finish(run.arg(target.to_str().unwrap()));
                assert!(outcome.succeeded() && target.exists(), "{}", outcome.errors());
            } else {
                scene.refused(run.arg("b"), &["host", "another build"]);
            }
        }
    }
}

/// Under the name `cp`, a process joins no job, so options for ranks make no sense.
#[test]
fn options_for_ranks_are_refused_where_there_are_none() {
    require!(MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let (scene, mpi) = (Scene::new(), Mpi::find(MpiKind::OpenMpi4).unwrap());
    for word in ["--mpi-lib=x", "--walk=ranks", "--range-size=1M"] {
        let flag = word.split('=').next().unwrap();
        scene.refused(program!().run().args([word, "a", "b"]), &[flag, "--clients"]);
    }
    let folder = Sandbox::in_memory().unwrap();
    std::os::unix::fs::symlink(fs::canonicalize(program!().path()).unwrap(), folder.join("cp")).unwrap();
    let job = mpi.job(2, &folder.join("cp")).args(["--walk=ranks", "a", "b"]);
    let outcome = scene.finish(job);
    assert!(!outcome.succeeded() && outcome.errors().contains("--clients"), "{}", outcome.errors());
}
