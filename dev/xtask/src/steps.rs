//! Runs other programs.

use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct StepFailure(pub(crate) String);

impl fmt::Display for StepFailure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl From<io::Error> for StepFailure {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

pub(crate) fn say(line: &str) {
    // If standard output is closed, the exit status still reports the result.
    writeln!(io::stdout(), "{line}").unwrap_or_default();
}

/// Returns true for a full run (`HAUL_FULL=1`), by the same rule as the tests.
pub(crate) fn is_full_run() -> bool {
    std::env::var_os("HAUL_FULL").is_some_and(|value| !value.is_empty() && value != "0")
}

pub(crate) fn workspace() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).map_or(here.clone(), PathBuf::from)
}

/// Returns a command for the cargo that runs this program.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(workspace());
    command
}

/// Runs a program with its output passed through.
pub(crate) fn run(command: &mut Command) -> Result<(), StepFailure> {
    say(&format!("==> {}", written(command)));
    let status = command.status().map_err(|error| cannot_run(command, &error))?;
    if status.success() { Ok(()) } else { Err(StepFailure(format!("{}: {status}", written(command)))) }
}

/// Runs a program and passes each line of its standard output to stdout and `listen`. Returns true
/// if it succeeded.
///
/// # Errors
/// If it can't be run or read, or is silent for so long that it must hang.
pub(crate) fn run_listening(
    command: &mut Command,
    mut listen: impl FnMut(&str),
) -> Result<bool, StepFailure> {
    say(&format!("==> {}", written(command)));
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| cannot_run(command, &error))?;
    let Some(output) = child.stdout.take() else { return Ok(false) };
    // A test harness prints a line for each finished test. The slowest, a fault sweep in a full
    // run, takes an hour or two.
    let silence_max = Duration::from_secs(if is_full_run() { 3 * 3600 } else { 1800 });
    let (send, lines) = mpsc::channel();
    std::thread::spawn(move || {
        // Ends at EOF, or once the receiver is gone.
        BufReader::new(output).split(b'\n').try_for_each(|line| send.send(line)).unwrap_or_default();
    });
    loop {
        match lines.recv_timeout(silence_max) {
            Ok(line) => {
                let line = line.map_err(|error| cannot_run(command, &error))?;
                let line = String::from_utf8_lossy(&line);
                say(&line);
                listen(&line);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                kill_hung(&mut child).map_err(|error| cannot_run(command, &error))?;
                let minutes = silence_max.as_secs() / 60;
                return Err(StepFailure(format!("{}: hung: silent for {minutes} minutes", written(command))));
            }
        }
    }
    let status = child.wait().map_err(|error| cannot_run(command, &error))?;
    Ok(status.success())
}

/// Kills a process and its descendants, which would otherwise keep running, after printing where
/// each of their threads waits.
fn kill_hung(child: &mut Child) -> io::Result<()> {
    let descendants = descendants_of(&child.id().to_string());
    descendants.iter().for_each(|pid| print_threads(pid));
    child.kill()?;
    Command::new("kill").arg("-KILL").args(descendants).status().map(drop)
}

fn descendants_of(pid: &str) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    // A process may end during the search.
    let children = tasks.flat_map(|task| {
        let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    });
    children.flat_map(|child| [descendants_of(&child), vec![child]].concat()).collect()
}

fn print_threads(pid: &str) {
    let read = |path: &std::path::Path| {
        let text = std::fs::read(path).unwrap_or_default();
        String::from_utf8_lossy(&text).replace('\0', " ").trim_end().to_owned()
    };
    let process = PathBuf::from(format!("/proc/{pid}"));
    say(&format!("process {pid}: {}", read(&process.join("cmdline"))));
    for task in std::fs::read_dir(process.join("task")).into_iter().flatten().flatten() {
        let [name, call, stack] = ["comm", "syscall", "stack"].map(|file| read(&task.path().join(file)));
        say(&format!("  thread {name}: system call {call}\n{stack}"));
    }
}

/// Runs a program and returns its standard output.
pub(crate) fn output_of(command: &mut Command) -> Result<Vec<u8>, StepFailure> {
    let Output { status, stdout, .. } =
        command.stderr(Stdio::inherit()).output().map_err(|error| cannot_run(command, &error))?;
    if status.success() { Ok(stdout) } else { Err(StepFailure(format!("{}: {status}", written(command)))) }
}

/// Returns the files that git knows, with paths in the workspace, without those that are removed
/// but still in the index.
pub(crate) fn known_files() -> Result<Vec<String>, StepFailure> {
    let workspace = workspace();
    let listed = output_of(Command::new("git").arg("-C").arg(&workspace).args(["ls-files", "-z"]))?;
    let paths =
        String::from_utf8_lossy(&listed).split_terminator('\0').map(str::to_owned).collect::<Vec<_>>();
    Ok(paths.into_iter().filter(|path| workspace.join(path).symlink_metadata().is_ok()).collect())
}

/// Returns true if the program is on `PATH` or in the system directories that ordinary
/// users lack there.
pub(crate) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .any(|folder| folder.join(program).is_file())
}

fn written(command: &Command) -> String {
    let name = PathBuf::from(command.get_program());
    let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
    std::iter::once(name).chain(words).collect::<Vec<_>>().join(" ")
}

pub(crate) fn cannot_run(command: &Command, error: &io::Error) -> StepFailure {
    StepFailure(format!("{}: {error}", written(command)))
}
