//! Progress in the taskbar of terminals that have one: shown, and cleared at the end or by a
//! signal.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use haul_testkit::rustix::process::{Pid, Signal, kill_process};
use haul_testkit::{Sandbox, needs, require, signals, wait};

/// Bytes of the source. At 1 MiB a second the copy takes at least two seconds, and progress is
/// shown after one.
const BYTES: usize = 3 << 20;

const SHOWN_MAX: Duration = Duration::from_secs(60);

const SHOWS: &str = "\x1b]9;4;1;";
const CLEARS: &str = "\x1b]9;4;0\x1b\\";

/// A slow copy on a terminal whose output goes to a file.
struct Terminal {
    sandbox: Sandbox,
    script: Child,
}

impl Terminal {
    /// Starts the copy, with a variable that names the terminal.
    fn start(variable: (&str, &str)) -> Self {
        signals::restore_for_children().unwrap();
        let sandbox = Sandbox::in_memory().unwrap();
        fs::write(sandbox.join("source"), vec![1; BYTES]).unwrap();
        let haul = env!("CARGO_BIN_EXE_haul");
        let line = format!("echo $$ >id; exec '{haul}' cp --progress --bwlimit=1M source target");
        let mut script = Command::new("script");
        script.args(["-qefc", &line, "log"]).current_dir(sandbox.path());
        script.env("SHELL", "/bin/sh").env("TERM", "xterm").stdin(Stdio::null()).stdout(Stdio::null());
        for name in ["WT_SESSION", "ConEmuANSI", "TERM_PROGRAM", "TMUX", "STY", "HAUL_PROGRESS"] {
            script.env_remove(name);
        }
        let script = script.env(variable.0, variable.1).spawn().unwrap();
        Self { sandbox, script }
    }

    /// Returns what was printed so far.
    fn printed(&self) -> String {
        let printed = fs::read(self.sandbox.join("log")).unwrap_or_default();
        String::from_utf8_lossy(&printed).into_owned()
    }

    fn finish(mut self) -> String {
        self.script.wait().unwrap();
        self.printed()
    }
}

#[test]
fn a_known_terminal_shows_percentages_until_the_end() {
    require!(needs::tool("script"));
    let printed = Terminal::start(("WT_SESSION", "a5e1")).finish();
    let shown: Vec<u64> = printed
        .split(SHOWS)
        .skip(1)
        .map(|rest| rest.split_once("\x1b\\").unwrap().0.parse().unwrap())
        .collect();
    assert!(!shown.is_empty(), "{printed:?}");
    assert!(shown.is_sorted_by(|one, next| one < next) && shown.iter().all(|&percent| percent <= 100));
    assert_eq!(printed.matches(CLEARS).count(), 1, "{printed:?}");
    assert!(printed.rfind(SHOWS) < printed.rfind(CLEARS), "{printed:?}");
}

#[test]
fn other_terminals_get_only_the_line() {
    require!(needs::tool("script"));
    let printed = Terminal::start(("TERM_PROGRAM", "iTerm.app")).finish();
    assert!(printed.contains("% ") && !printed.contains("\x1b]"), "{printed:?}");
}

#[test]
fn a_signal_clears_the_taskbar() {
    require!(needs::tool("script"));
    let terminal = Terminal::start(("TERM_PROGRAM", "ghostty"));
    assert!(wait::until(SHOWN_MAX, || terminal.printed().contains(SHOWS)), "{:?}", terminal.printed());
    let id = fs::read_to_string(terminal.sandbox.join("id")).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(id).unwrap(), Signal::TERM).unwrap();
    let printed = terminal.finish();
    assert_eq!(printed.matches(CLEARS).count(), 1, "{printed:?}");
}
