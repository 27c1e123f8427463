//! Completions in real shells, and rendered manual pages.
//!
//! bash and zsh run in a terminal: the test types a line, TAB, then Enter. The command is a shell
//! function that prints its arguments. So a unique completion shows up there, and a list of
//! candidates before it. fish can list completions without a terminal. The files under test are
//! those that `cargo xtask gen` wrote.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use haul_testkit::{Sandbox, needs, program, require};

const PATIENCE: Duration = Duration::from_secs(60);

/// Typed text, completions that must be offered, and completions that must not.
type Line = (&'static str, &'static [&'static str], &'static [&'static str]);

/// For every shell. The working directory holds the file `plain` and the directories `folder`
/// and `forum`.
const LINES: &[Line] = &[
    ("haul ", &["cp", "spdcp", "bench", "help"], &["plain"]),
    ("haul cp --arch", &["--archive"], &[]),
    ("haul cp --ver", &["--verbose", "--version"], &["--archive"]),
    ("haul cp --no-t", &["--no-target-directory"], &[]),
    ("haul cp --queue-d", &["--queue-depth="], &[]),
    ("haul cp -a pl", &["plain"], &[]),
    ("haul cp -t ", &["folder/", "forum/"], &["plain"]),
    ("haul cp -rvt ", &["folder/", "forum/"], &["plain"]),
    ("haul cp plain fold", &["folder/"], &[]),
    ("haul bench ", &["make", "compare", "run", "aio"], &["plain"]),
    ("haul bench make ", &["many", "practical"], &[]),
    ("haul bench compare --ro", &["--rounds="], &[]),
    ("haul spdcp -r pl", &["plain"], &[]),
    ("haul spdcp plain fold", &["folder/"], &[]),
    ("haul help ", &["cp", "bench"], &["plain"]),
    ("haul ctl pl", &["plain"], &["status"]),
    ("haul ctl plain ", &["status", "pause", "bwlimit", "max-latency"], &["plain/", "folder/"]),
    ("haul ctl plain iops", &["iops-limit"], &[]),
    ("cp --arch", &["--archive"], &[]),
    ("cp plain fold", &["folder/"], &[]),
    ("haul tar -tf pl", &["plain"], &[]),
    ("haul tar --file pl", &["plain"], &[]),
    ("haul tar --mtime pl", &["plain"], &[]),
    ("haul cp --control pl", &["plain"], &[]),
    ("haul cp --newer-than pl", &["plain"], &[]),
    ("haul tar -I mkfif", &["mkfifo"], &[]),
    ("haul cp --launcher mkfif", &["mkfifo"], &[]),
    ("haul tar --owner ", &[], &["plain"]),
];

/// Values of options, also for every shell. The shells differ in whether they list the bare value
/// or the whole option.
const WORDS: &[Line] = &[
    ("haul cp --sparse=", &["never", "auto", "always"], &["plain"]),
    ("haul cp --sparse ", &["never", "auto", "always"], &["plain"]),
    ("haul cp --reflink=al", &["always"], &["auto"]),
    ("haul cp --engine=", &["auto", "sync", "io-uring", "kernel-aio", "posix-aio", "retry"], &["plain"]),
    ("haul cp --backup=nu", &["numbered"], &["simple"]),
    ("haul cp --update=", &["all", "none", "none-fail", "older"], &["plain"]),
    ("haul cp --preserve=", &["mode", "ownership", "timestamps", "links", "xattr", "all"], &["plain"]),
    ("haul cp --preserve=mode,ti", &["mode,timestamps"], &["links"]),
    ("haul cp --no-preserve=ow", &["ownership"], &[]),
    ("haul cp --walk=", &["launch", "ranks"], &["plain"]),
    ("haul cp --target-directory=fol", &["folder/"], &[]),
    ("haul bench aio --kind=", &["read", "write", "sync-write"], &[]),
    ("cp --progress=", &["auto", "always", "never"], &["plain"]),
];

/// Returns the path of a file in the workspace.
fn generated(file: &str) -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)).unwrap()
}

/// Creates a working directory, and beside it a directory with haul under both its names.
fn ground() -> (Sandbox, PathBuf, PathBuf) {
    let sandbox = Sandbox::on_disk().unwrap();
    let (work, tools) = (sandbox.join("work"), sandbox.join("tools"));
    for folder in [&work, &tools, &work.join("folder"), &work.join("forum")] {
        fs::create_dir(folder).unwrap();
    }
    fs::write(work.join("plain"), "").unwrap();
    for name in ["haul", "cp"] {
        symlink(fs::canonicalize(program!().path()).unwrap(), tools.join(name)).unwrap();
    }
    (sandbox, work, tools)
}

fn command(program: &str, work: &Path, tools: &Path) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(program);
    command
        .current_dir(work)
        .env("PATH", format!("{}:{path}", tools.display()))
        .env("HOME", work.parent().unwrap())
        .envs([("TERM", "dumb"), ("LC_ALL", "C"), ("INPUTRC", "/dev/null"), ("HISTFILE", "/dev/null")])
        .env("SHELL", "/bin/sh");
    command
}

struct Terminal {
    child: Child,
    keys: ChildStdin,
    output: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    fn open(shell: &str, work: &Path, tools: &Path) -> Self {
        let mut command = command("script", work, tools);
        command.args(["-q", "-e", "-c", shell, "/dev/null"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let keys = child.stdin.take().unwrap();
        let mut screen = child.stdout.take().unwrap();
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { child, keys, output, seen: String::new() }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until `mark` is on the screen, and returns the output since the previous mark.
    fn until(&mut self, mark: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.seen.find(mark) {
                let before = self.seen[..at].to_owned();
                self.seen.drain(..at + mark.len());
                return before;
            }
            match self.output.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(error) => panic!("{error}: no {mark:?} in {:?}", self.seen),
            }
        }
    }

    /// Types a line and TAB, and discards the line. Returns what is on the screen.
    fn complete_and_discard(&mut self, line: &str) -> String {
        self.press(line);
        // Ctrl-U, after any question about many candidates.
        self.press("\t\u{15}haul\n");
        let screen = self.until("<END>");
        self.until("READY> ");
        screen
    }

    /// Types a line, TAB and Enter, and returns the words on the screen once the command has run.
    fn complete(&mut self, line: &str) -> Vec<String> {
        self.press(line);
        self.press("\t\n");
        let screen = self.until("<END>");
        self.until("READY> ");
        let apart = |sign: char| sign.is_whitespace() || matches!(sign, '<' | '>' | '\u{7}' | '\u{8}');
        screen.split(apart).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Killing `script` closes the terminal, which ends the shell.
        self.child.kill().unwrap_or_default();
        self.child.wait().map(drop).unwrap_or_default();
    }
}

/// Records what is missing from, or wrong in, the completions of a line.
fn judge(line: &Line, offered: &[String], fails: &mut Vec<String>) {
    let (typed, wanted, unwanted) = line;
    // An option's value may be listed bare or behind its option.
    let has = |word: &&&str| {
        offered
            .iter()
            .any(|offer| offer == *word || offer.split_once('=').is_some_and(|(_, end)| end == **word))
    };
    let missing: Vec<_> = wanted.iter().filter(|word| !has(word)).collect();
    let wrong: Vec<_> = unwanted.iter().filter(has).collect();
    if !missing.is_empty() || !wrong.is_empty() {
        fails.push(format!("{typed:?}: not offered {missing:?}, wrongly offered {wrong:?}, of {offered:?}"));
    }
}

fn try_lines(terminal: &mut Terminal) {
    let mut fails = Vec::new();
    for line in LINES.iter().chain(WORDS) {
        let offered = terminal.complete(line.0);
        judge(line, &offered, &mut fails);
    }
    assert!(fails.is_empty(), "{}", fails.join("\n"));
}

/// Returns a line for each option with an argument of each command: the option, with an argument
/// that has begun.
fn options_with(argument: &str) -> Vec<String> {
    let definitions = Command::new(program!().path()).arg("--definitions").output().unwrap().stdout;
    let definitions: serde_json::Value = serde_json::from_slice(&definitions).unwrap();
    let mut lines = Vec::new();
    for command in definitions.as_array().unwrap() {
        for flag in command["flags"].as_array().unwrap() {
            let (name, long) = (command["name"].as_str().unwrap(), flag["long"].as_str().unwrap());
            if !flag["argument"].is_null() && !long.is_empty() {
                lines.push(format!("haul {name} --{long}={argument}"));
            }
        }
    }
    assert!(lines.len() > 100, "{lines:?}");
    lines
}

/// Completes every option, with nothing and with something that must not be run.
fn try_options(terminal: &mut Terminal, work: &Path) {
    let mut fails = Vec::new();
    for line in options_with("").into_iter().chain(options_with("$(>RAN),")) {
        let screen = terminal.complete_and_discard(&line);
        let is_error = ["not found", "compvalues:", "comparguments:", "_arguments:", "bad "];
        if is_error.iter().any(|error| screen.contains(error)) {
            fails.push(format!("{line}: {screen:?}"));
        }
        if work.join("RAN").exists() {
            fails.push(format!("{line} was run"));
            fs::remove_file(work.join("RAN")).unwrap();
        }
    }
    assert!(fails.is_empty(), "{}", fails.join("\n"));
}

/// Functions that print their arguments. The marks are split, so that the typed line doesn't
/// contain them.
const FUNCTIONS: &str = "haul() { printf '<%s>' \"$@\"; echo '<E''ND>'; }; cp() { haul \"$@\"; }";

#[test]
fn bash_completes() {
    require!(program!().needs_haul(), needs::tool("script"), needs::tool("bash"));
    let (_sandbox, work, tools) = ground();
    let mut terminal = Terminal::open("bash --norc --noprofile -i", &work, &tools);
    let settings = [
        "show-all-if-ambiguous on",
        "bell-style none",
        "page-completions off",
        "completion-query-items 0",
        "enable-bracketed-paste off",
    ];
    let settings = settings.map(|setting| format!("bind 'set {setting}'; ")).concat();
    let file = generated("completions/haul.bash");
    terminal.press(&format!(
        "stty cols 300; {settings} source '{}'; {FUNCTIONS}; PS1='REA''DY> '\n",
        file.display()
    ));
    terminal.until("READY> ");
    try_lines(&mut terminal);
    try_options(&mut terminal, &work);
}

#[test]
fn zsh_completes() {
    require!(program!().needs_haul(), needs::tool("script"), needs::tool("zsh"));
    let (_sandbox, work, tools) = ground();
    let mut terminal = Terminal::open("zsh -f -i", &work, &tools);
    // As `cargo xtask install` puts them.
    let folder = work.parent().unwrap().join("site-functions");
    fs::create_dir(&folder).unwrap();
    fs::copy(generated("completions/_haul"), folder.join("_haul")).unwrap();
    fs::write(folder.join("_haul-cp"), "#compdef cp\n_haul \"$@\"\n").unwrap();
    let folder = folder.display();
    // Unlike expand-or-complete, complete-word doesn't itself run what is on the line.
    let settings = "bindkey '^I' complete-word; unsetopt auto_menu list_ambiguous prompt_sp prompt_cr beep; \
                    LISTMAX=10000; unset zle_bracketed_paste";
    let load = "autoload -Uz compinit; compinit -u -D";
    terminal.press(&format!(
        "stty cols 300; fpath=('{folder}' $fpath); {load}; {settings}; {FUNCTIONS}; PS1='REA''DY> '\n"
    ));
    terminal.until("READY> ");
    try_lines(&mut terminal);
    try_options(&mut terminal, &work);
}

#[test]
fn fish_completes() {
    require!(program!().needs_haul(), needs::tool("fish"));
    let (_sandbox, work, tools) = ground();
    let mut fails = Vec::new();
    let file = generated("completions/haul.fish");
    let run = |script: &str| {
        let output = command("fish", &work, &tools).args(["--no-config", "-c", script]).output().unwrap();
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        output
    };
    let each = options_with("").into_iter().chain(options_with("(touch RAN),"));
    let each: String = each.map(|line| format!("complete -C '{line}'\n")).collect();
    run(&format!("source '{}'\n{each}", file.display()));
    assert!(!work.join("RAN").exists());
    for line in LINES.iter().chain(WORDS) {
        let output = run(&format!("source '{}'; complete -C '{}'", file.display(), line.0));
        let offered: Vec<_> = String::from_utf8_lossy(&output.stdout)
            .lines()
            .map(|line| line.split('\t').next().unwrap_or_default().to_owned())
            // fish appends `=` to an option itself.
            .flat_map(|word| [format!("{word}="), word])
            .collect();
        judge(line, &offered, &mut fails);
    }
    assert!(fails.is_empty(), "{}", fails.join("\n"));
}

fn pages() -> Vec<String> {
    let folder = generated("docs/man");
    let entries =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let pages: Vec<_> = entries.collect();
    assert!(pages.len() >= 4, "{pages:?}");
    pages
}

#[test]
fn manual_pages_are_shown_without_a_warning() {
    let render = [("groff", &["-man", "-ww", "-Tutf8"][..]), ("mandoc", &["-Tlint", "-W", "style"][..])];
    for (program, arguments) in render {
        require!(needs::tool(program));
        for page in pages() {
            let page = generated(&format!("docs/man/{page}"));
            let output = Command::new(program).args(arguments).arg(&page).output().unwrap();
            // mandoc reports on stdout; groff's stdout is the page itself.
            let said = if program == "mandoc" { &output.stdout } else { &output.stderr };
            let said = String::from_utf8_lossy(said);
            assert!(output.status.success() && said.is_empty(), "{program} {}: {said}", page.display());
        }
    }
}

#[test]
fn every_option_is_in_every_completion_and_in_the_manual() {
    let ours = program!();
    require!(ours.needs_haul());
    let definitions = Command::new(ours.path()).arg("--definitions").output().unwrap().stdout;
    let definitions: serde_json::Value = serde_json::from_slice(&definitions).unwrap();
    let flags = definitions[0]["flags"].as_array().unwrap();
    let [bash, zsh, fish, manual] =
        ["completions/haul.bash", "completions/_haul", "completions/haul.fish", "docs/man/haul-cp.1"]
            .map(|file| fs::read_to_string(generated(file)).unwrap());
    assert!(flags.len() > 40);
    for flag in flags {
        let long = flag["long"].as_str().unwrap();
        let letters = flag["letters"].as_array().unwrap();
        for letter in letters.iter().map(|letter| letter.as_str().unwrap()) {
            assert!(
                bash.contains(&format!(" -{letter} ")) || bash.contains(&format!("'-{letter} ")),
                "bash: -{letter}"
            );
            assert!(
                zsh.contains(&format!("-{letter}")) && fish.contains(&format!(" -s {letter} ")),
                "-{letter}"
            );
            assert!(manual.contains(&format!("\\fB\\-{letter}\\fR")), "manual: -{letter}");
        }
        if !long.is_empty() {
            assert!(bash.contains(&format!(" --{long}")) && zsh.contains(&format!("--{long}")), "--{long}");
            assert!(fish.contains(&format!(" -l {long} ")), "fish: --{long}");
            assert!(
                manual.contains(&format!("\\fB\\-\\-{}\\fR", long.replace('-', "\\-"))),
                "manual: --{long}"
            );
        }
    }
}

#[test]
fn every_option_of_spdcp_is_in_every_completion_and_in_the_manual() {
    let [bash, zsh, fish, manual] =
        ["completions/haul.bash", "completions/_haul", "completions/haul.fish", "docs/man/spdcp.1"]
            .map(|file| fs::read_to_string(generated(file)).unwrap());
    let of_bash =
        bash.lines().find(|line| line.contains("haul_spdcp) words=")).expect("options of spdcp in bash");
    let of_zsh = zsh.split("_haul_spdcp() {").nth(1).and_then(|rest| rest.split("\n}\n").next()).unwrap();
    let of_fish = fish
        .split("function __haul_complete_spdcp")
        .nth(1)
        .and_then(|rest| rest.split("\nend").next())
        .unwrap();
    for letter in "hVdvprRcnbsAwq".chars() {
        assert!(of_bash.contains(&format!("-{letter}")), "bash: -{letter}");
        assert!(of_zsh.contains(&format!("-{letter}")), "zsh: -{letter}");
        assert!(of_fish.contains(&format!(" -s {letter} ")), "fish: -{letter}");
        assert!(manual.contains(&format!("\\fB\\-{letter}\\fR")), "manual: -{letter}");
    }
}
