//! Interoperability with other bzip2 programs, streams, trees, and runs that end early.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use haul_testkit::rustix::process::{Pid, Signal, kill_process};
use haul_testkit::{Sandbox, TestRun, needs, require, signals, wait};

use crate::scene::{haul, noise};

/// Other implementations of the format.
const RIVALS: [&str; 3] = ["bzip2", "lbzip2", "pbzip2"];

fn run(program: &mut Command) -> Output {
    let done = program.output().unwrap();
    assert!(done.status.success(), "{program:?}: {}", String::from_utf8_lossy(&done.stderr));
    done
}

fn ours(words: &[&str]) -> Command {
    let mut command = Command::new(haul());
    command.arg("bzip2").args(words);
    command
}

/// Inputs of zero, one and several blocks, and some that are hard to sort or to run-length encode.
fn inputs() -> Vec<Vec<u8>> {
    let long = noise(7, 1_300_000);
    vec![
        Vec::new(),
        b"a".to_vec(),
        noise(2, 99_981),
        noise(3, 99_982),
        noise(4, 350_000),
        vec![0; 2_000_000],
        b"aaaab".repeat(60_000),
        b"ab".repeat(150_000),
        [&long[..], &long[..700_000]].concat(),
    ]
}

/// Calls `check` with each program, compression level and input, and a path for the
/// compressed output.
fn with_rivals(check: impl Fn(&str, &str, (&Path, &[u8]), &Path)) {
    let sandbox = Sandbox::in_memory().unwrap();
    let (file, packed) = (sandbox.join("file"), sandbox.join("packed.bz2"));
    for program in RIVALS {
        require!(needs::tool(program));
    }
    for input in inputs() {
        fs::write(&file, &input).unwrap();
        for flags in ["-1c", "-9c"] {
            for program in RIVALS {
                check(program, flags, (&file, &input), &packed);
            }
        }
    }
}

#[test]
fn other_programs_read_what_is_written() {
    with_rivals(|program, flags, (file, input), packed| {
        fs::write(packed, run(ours(&[flags, "-j3"]).arg(file)).stdout).unwrap();
        run(Command::new(program).arg("-t").arg(packed));
        let back = run(Command::new(program).arg("-dc").arg(packed)).stdout;
        assert!(back == input, "{program} reads {} bytes, {flags}, otherwise", input.len());
    });
}

#[test]
fn what_other_programs_write_is_read() {
    with_rivals(|program, flags, (file, input), packed| {
        fs::write(packed, run(Command::new(program).arg(flags).arg(file)).stdout).unwrap();
        run(ours(&["-t"]).arg(packed));
        let back = run(ours(&["-dc", "-j3"]).arg(packed)).stdout;
        assert!(back == input, "{} bytes, {flags}, of {program} are read otherwise", input.len());
        let back = run(ours(&["-d", "-j1"]).stdin(fs::File::open(packed).unwrap())).stdout;
        assert!(
            back == input,
            "{} bytes, {flags}, of {program} are read otherwise from a stream",
            input.len()
        );
    });
}

#[test]
fn what_is_no_stream_is_passed_on_as_it_is() {
    let sandbox = Sandbox::in_memory().unwrap();
    let (file, packed) = (sandbox.join("file"), sandbox.join("foreign"));
    require!(needs::tool("bzip2"));
    fs::write(&file, noise(8, 250_000)).unwrap();
    let stream = run(Command::new("bzip2").arg("-1c").arg(&file)).stdout;
    // The bytes contain block magics outside of any stream.
    let foreign = [b"no stream", &stream[..], b"between", &stream[..]].concat();
    fs::write(&packed, &foreign).unwrap();
    for jobs in ["-j1", "-j3"] {
        let passed = run(ours(&["-dcf", jobs]).arg(&packed)).stdout;
        assert!(passed == foreign, "{} bytes of {}", passed.len(), foreign.len());
        let passed = run(ours(&["-dcf", jobs]).stdin(fs::File::open(&packed).unwrap())).stdout;
        assert!(passed == foreign, "{} bytes of {} from a stream", passed.len(), foreign.len());
    }
}

#[test]
fn it_does_not_matter_how_many_workers_there_are() {
    let input = noise(5, 700_000);
    let sandbox = Sandbox::in_memory().unwrap();
    let file = sandbox.join("file");
    fs::write(&file, input).unwrap();
    let by = |jobs: &str| run(ours(&["-1c", jobs]).arg(&file)).stdout;
    let one = by("-j1");
    assert!(one == by("-j4") && one.len() > 100_000);
}

#[test]
fn a_tree_is_compressed_and_decompressed() {
    let sandbox = Sandbox::in_memory().unwrap();
    let top = sandbox.join("tree");
    fs::create_dir_all(top.join("deep/er")).unwrap();
    let names: Vec<_> = (0..40)
        .map(|number| top.join(if number % 2 == 0 { "deep/er" } else { "" }).join(number.to_string()))
        .collect();
    for (number, name) in names.iter().enumerate() {
        fs::write(name, noise(number as u64, number * 10_000)).unwrap();
        fs::set_permissions(name, fs::Permissions::from_mode(0o640)).unwrap();
    }
    let before: Vec<_> =
        names.iter().map(|name| (fs::read(name).unwrap(), fs::metadata(name).unwrap())).collect();
    run(ours(&["-r", "-1"]).arg(&top));
    assert!(names.iter().all(|name| !name.exists() && packed(name).exists()));
    // A second run finds nothing to do.
    run(ours(&["-r"]).arg(&top));
    run(ours(&["-tr"]).arg(&top));
    run(ours(&["-dr"]).arg(&top));
    for (name, (content, meta)) in names.iter().zip(before) {
        let now = fs::metadata(name).unwrap();
        assert!(fs::read(name).unwrap() == content && !packed(name).exists(), "{}", name.display());
        assert_eq!(
            (now.mode(), now.mtime(), now.mtime_nsec()),
            (meta.mode(), meta.mtime(), meta.mtime_nsec())
        );
    }
}

#[test]
fn large_files_that_go_away_while_they_wait_hold_up_no_other() {
    let sandbox = Sandbox::in_memory().unwrap();
    let names: Vec<_> = (0..40).map(|number| sandbox.join(format!("{number:02}"))).collect();
    let content = noise(11, 1_000_000);
    names.iter().for_each(|name| fs::write(name, &content).unwrap());
    let run = TestRun::new(&haul()).args(["bzip2", "-9", "-j4"]).args(&names).within(Duration::from_secs(60));
    let running = run.start().unwrap();
    // The first files are being compressed, and the others wait.
    assert!(wait::until(Duration::from_secs(60), || names.iter().any(|name| packed(name).exists())));
    names[8..39].iter().for_each(|name| fs::remove_file(name).unwrap_or_default());
    let outcome = running.finish().unwrap();
    assert_eq!(outcome.status(), Some(1), "{:?}: {}", outcome.ending, outcome.errors());
    let left: Vec<_> = names.iter().filter(|name| name.exists()).collect();
    assert!(left.is_empty() && packed(&names[39]).exists(), "{left:?}: {}", outcome.errors());
    let told = |name: &PathBuf| packed(name).exists() || outcome.errors().contains(&*name.to_string_lossy());
    assert!(names.iter().all(told), "{}", outcome.errors());
}

fn packed(name: &Path) -> PathBuf {
    name.with_extension("bz2")
}

#[test]
fn an_input_that_is_written_to_during_the_run_stays() {
    let sandbox = Sandbox::in_memory().unwrap();
    let name = sandbox.join("log");
    fs::write(&name, noise(12, 6_000_000)).unwrap();
    let running = TestRun::new(&haul()).args(["bzip2", "-1"]).arg(&name).start().unwrap();
    assert!(wait::until(Duration::from_secs(60), || packed(&name).exists()));
    fs::File::options().append(true).open(&name).unwrap().write_all(b"a line\n").unwrap();
    let outcome = running.finish().unwrap();
    assert_eq!(outcome.status(), Some(1), "{}", outcome.errors());
    assert!(outcome.errors().contains("changed in the meantime"), "{}", outcome.errors());
    assert!(fs::read(&name).unwrap().ends_with(b"a line\n"));
}

#[test]
fn an_input_that_is_named_twice_is_not_lost() {
    for (length, rounds) in [(6_000_000, 3), (50_000, 20)] {
        let sandbox = Sandbox::in_memory().unwrap();
        fs::create_dir(sandbox.join("folder")).unwrap();
        let name = sandbox.join("folder/log");
        let content = noise(13, length);
        for _ in 0..rounds {
            fs::write(&name, &content).unwrap();
            let run =
                TestRun::new(&haul()).args(["bzip2", "-1", "-j4", "-r", "-f"]).in_folder(sandbox.path());
            let outcome = run.args(["folder", "folder/../folder/log", "folder/log"]).finish().unwrap();
            assert!(!name.exists(), "{}", outcome.errors());
            assert!(run_back(&packed(&name)) == content, "{}", outcome.errors());
            fs::remove_file(packed(&name)).unwrap();
        }
    }
}

#[test]
fn a_run_that_is_ended_when_an_input_is_gone_leaves_its_output() {
    let sandbox = Sandbox::in_memory().unwrap();
    let (name, later) = (sandbox.join("log"), sandbox.join("later"));
    let content = noise(14, 4_000_000);
    fs::write(&name, &content).unwrap();
    // Keeps the run busy for a while.
    fs::write(&later, noise(15, 40_000_000)).unwrap();
    let mut child = ours(&["-1", "-f", "-j3"]).args([&name, &name, &later]).spawn().unwrap();
    assert!(wait::until(Duration::from_secs(60), || !name.exists()));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(wait::for_end(&mut child, wait::AFTERMATH_MAX).unwrap().signal(), Some(15));
    assert!(later.exists() && !packed(&later).exists(), "it was over too soon");
    assert!(run_back(&packed(&name)) == content);
}

fn run_back(packed: &Path) -> Vec<u8> {
    run(ours(&["-dc"]).arg(packed)).stdout
}

#[test]
fn an_interrupted_run_leaves_no_part_of_an_output() {
    signals::restore_for_children().unwrap();
    let sandbox = Sandbox::in_memory().unwrap();
    let (file, packed) = (sandbox.join("file"), sandbox.join("file.bz2"));
    let content = noise(9, 60_000_000);
    fs::write(&file, &content).unwrap();
    let mut child = ours(&["-1"]).arg(&file).spawn().unwrap();
    let began = wait::until(Duration::from_secs(60), || packed.exists());
    assert!(began && child.try_wait().unwrap().is_none(), "it was over too soon");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let status = wait::for_end(&mut child, wait::AFTERMATH_MAX).unwrap();
    assert_eq!(status.signal(), Some(2), "{status}");
    assert!(!packed.exists() && fs::read(&file).unwrap() == content);
}

#[test]
fn signals_that_are_ignored_end_nothing() {
    signals::restore_for_children().unwrap();
    let sandbox = Sandbox::in_memory().unwrap();
    let content = noise(16, 20_000_000);
    let out = sandbox.join("file.bz2");
    for line in ["exec \"$0\" bzip2 -1c file > file.bz2", "exec \"$0\" bzip2 -1 file"] {
        fs::write(sandbox.join("file"), &content).unwrap();
        let mut child = Command::new("sh")
            .args(["-c", &format!("trap '' HUP; {line}")])
            .arg(haul())
            .current_dir(sandbox.path())
            .spawn()
            .unwrap();
        let began = || fs::metadata(&out).is_ok_and(|packed| packed.len() > 0);
        assert!(wait::until(Duration::from_secs(60), began));
        assert!(child.try_wait().unwrap().is_none(), "it was over too soon");
        kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
        assert_eq!(wait::for_end(&mut child, wait::AFTERMATH_MAX).unwrap().code(), Some(0), "{line}");
        assert!(run_back(&out) == content, "{line}");
        fs::remove_file(&out).unwrap();
    }
}

#[test]
fn a_pipe_with_a_name_is_read_like_any_stream() {
    require!(needs::tool("bzip2"));
    let sandbox = Sandbox::in_memory().unwrap();
    let line = "mkfifo pipe && (echo text | bzip2 > pipe &) && exec \"$0\" bzip2 -dc pipe";
    let done = run(Command::new("sh").args(["-c", line]).arg(haul()).current_dir(sandbox.path()));
    assert_eq!(done.stdout, b"text\n");
    // A pipe can't be replaced by its compressed form.
    let done = ours(&["pipe"]).current_dir(sandbox.path()).output().unwrap();
    assert_eq!(done.status.code(), Some(1));
}

#[test]
fn a_run_that_nobody_reads_from_ends_without_a_word() {
    let sandbox = Sandbox::in_memory().unwrap();
    let file = sandbox.join("file");
    fs::write(&file, noise(10, 5_000_000)).unwrap();
    let mut child = ours(&["-1c"]).arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let done = child.wait_with_output().unwrap();
    assert_eq!((done.status.code(), String::from_utf8(done.stderr).unwrap()), (Some(141), String::new()));
}

#[test]
fn an_output_that_is_full_is_reported_once() {
    let sandbox = Sandbox::in_memory().unwrap();
    let file = sandbox.join("file");
    fs::write(&file, noise(11, 1_000_000)).unwrap();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let done = ours(&["-1c"]).arg(&file).stdout(full).output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(said, "haul bzip2: error writing '(stdout)': No space left on device\n");
}

#[test]
fn what_makes_no_sense_is_refused() {
    for words in [
        &["-c", "-t", "x"][..],
        &["-rc", "x"],
        &["-c", "--clients=2", "x"],
        &["--clients=2"],
        &["--nonsense"],
    ] {
        let done = ours(words).stdin(Stdio::null()).output().unwrap();
        assert_eq!(done.status.code(), Some(1), "{words:?}");
        assert!(done.stdout.is_empty() && done.stderr.starts_with(b"haul bzip2: "), "{words:?}");
    }
}

/// They keep the processors busy, and more of them would only take memory.
#[test]
fn there_is_one_worker_per_processor_unless_a_number_is_given() {
    let sandbox = Sandbox::in_memory().unwrap();
    let input = sandbox.join("input");
    fs::write(&input, noise(1, 1000)).unwrap();
    let workers = |options: &[&str]| {
        let done = run(ours(&["--debug", "-kc"]).args(options).arg(&input));
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        let before = said.split_once(" workers, ").unwrap().0;
        before.rsplit(' ').next().unwrap().parse::<usize>().unwrap()
    };
    let processors = std::thread::available_parallelism().unwrap().get();
    assert_eq!((workers(&[]), workers(&["-j3"])), (processors.clamp(2, 64), 3));
}
