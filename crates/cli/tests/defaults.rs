//! Configuration files and `HAUL_OPTIONS`: what they set, what they may not set, and where they
//! don't count.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use haul_testkit::strace::{TracedCall, record};
use haul_testkit::{Sandbox, TestRun, needs, require};
use serde_json::Value;

fn built() -> PathBuf {
    fs::canonicalize(env!("CARGO_BIN_EXE_haul")).unwrap()
}

/// A user's directory with a configuration file and something to copy.
struct Home(Sandbox);

impl Home {
    fn new() -> Self {
        let sandbox = Sandbox::in_memory().unwrap();
        fs::create_dir_all(sandbox.join("config/haul")).unwrap();
        fs::write(sandbox.join("a"), "text\n").unwrap();
        Self(sandbox)
    }

    fn file(&self) -> PathBuf {
        self.0.join("config/haul/config.toml")
    }

    fn with_file(self, text: &str) -> Self {
        fs::write(self.file(), text).unwrap();
        fs::set_permissions(self.file(), Permissions::from_mode(0o644)).unwrap();
        self
    }

    /// Returns a command in the user's directory.
    fn command(&self, program: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(words).current_dir(self.0.path()).stdin(Stdio::null());
        command.env("LC_ALL", "C").env("XDG_CONFIG_HOME", self.0.join("config"));
        command.env_remove("HAUL_OPTIONS").env_remove("HAUL_PROGRESS");
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(&built(), words).output().unwrap()
    }

    fn run_with(&self, options: &str, words: &[&str]) -> Output {
        self.command(&built(), words).env("HAUL_OPTIONS", options).output().unwrap()
    }
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the number of workers that `--stats` names.
fn jobs(output: &Output) -> String {
    let errors = errors(output);
    let line = errors.lines().find_map(|line| line.strip_prefix("jobs ").map(str::trim));
    line.unwrap_or_else(|| panic!("no jobs: {errors}")).to_owned()
}

/// Returns the applets with flags of their own.
fn applets() -> Vec<Value> {
    let printed = Command::new(built()).arg("--definitions").output().unwrap().stdout;
    let commands: Vec<Value> = serde_json::from_slice(&printed).unwrap();
    commands.into_iter().filter(|command| !command["synopsis"].as_array().unwrap().is_empty()).collect()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap()
}

/// Returns a line that sets a flag in a file, and the word that does in the variable.
fn setting(flag: &Value) -> (String, String) {
    let long = text(flag, "long");
    let argument = flag["argument"].as_object();
    match argument.filter(|_| text(flag, "configurable") == "yes") {
        None => (format!("{long} = true"), format!("--{long}")),
        Some(argument) => {
            let word = argument["words"].as_array().unwrap().first().and_then(Value::as_str);
            let own = if long == "block-size" { "4K" } else { "1" };
            let value = word.unwrap_or(own);
            (format!("{long} = '{value}'"), format!("--{long}={value}"))
        }
    }
}

#[test]
fn the_last_of_file_variable_and_command_line_counts() {
    let home = Home::new().with_file("jobs = 2\nstats = true\n");
    assert_eq!(jobs(&home.run(&["cp", "a", "b"])), "2");
    assert_eq!(jobs(&home.run_with("-j3", &["cp", "a", "b"])), "3");
    assert_eq!(jobs(&home.run_with("-j3", &["cp", "--jobs=4", "a", "b"])), "4");
    let home = home.with_file("jobs = 2\nstats = true\n[sync]\njobs = 5\n[tar]\njobs = 6\n");
    fs::create_dir_all(home.0.join("from")).unwrap();
    assert_eq!(jobs(&home.run(&["cp", "a", "b"])), "2");
    assert_eq!(jobs(&home.run(&["sync", "from", "to"])), "5");
    assert_eq!(jobs(&home.run_with("-j3", &["sync", "from", "to"])), "3");
}

#[test]
fn the_user_s_file_is_below_home_unless_a_variable_says_where() {
    let home = Home::new().with_file("jobs = 2\nstats = true\n");
    fs::create_dir_all(home.0.join(".config/haul")).unwrap();
    let file = home.0.join(".config/haul/config.toml");
    fs::write(&file, "jobs = 3\nstats = true\n").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let mut command = home.command(&built(), &["cp", "a", "b"]);
    assert_eq!(jobs(&command.env("HOME", home.0.path()).output().unwrap()), "2");
    for other in ["", "config"] {
        // A relative path does not count.
        assert_eq!(jobs(&command.env("XDG_CONFIG_HOME", other).output().unwrap()), "3", "{other:?}");
    }
}

/// Every flag of every command: those that the tables mark are accepted, all others refused, in a
/// file and in the variable.
#[test]
fn only_flags_that_do_not_change_results_are_accepted() {
    let home = Home::new();
    let (mut accepted, mut refused) = (0, 0);
    // Settings that no command line could express, so nothing is done.
    let status = |name: &str| if matches!(name, "cmp" | "each" | "grep" | "tar") { 2 } else { 1 };
    let applets = applets();
    let flags = applets.iter().flat_map(|applet| {
        let flags = applet["flags"].as_array().unwrap().iter();
        flags.map(move |flag| (text(applet, "name"), flag)).filter(|(_, flag)| !text(flag, "long").is_empty())
    });
    // They have no flag that may be set, so they read nothing.
    for (name, flag) in flags.filter(|(name, _)| !["spdcp", "ctl"].contains(name)) {
        let (line, word) = setting(flag);
        let long = text(flag, "long");
        let command = [name, "--no-such-option"];
        fs::write(home.file(), format!("# A comment\n[{name}]\n{line}\n")).unwrap();
        let by_file = home.run(&command);
        fs::remove_file(home.file()).unwrap();
        let by_variable = home.run_with(&word, &command);
        assert_eq!(by_file.status.code(), Some(status(name)), "{name} {line}");
        assert!(by_file.stdout.is_empty() && by_variable.stdout.is_empty());
        let why = "changes what a command does, so it can only be given on the command line";
        if text(flag, "configurable") == "no" {
            refused += 1;
            let place = format!("haul {name}: {}:3", home.file().display());
            assert_eq!(errors(&by_file), format!("{place}: {long} {why}\n"));
        } else {
            accepted += 1;
            assert!(errors(&by_file).contains("unrecognized option '--no-such-option'"), "{name} {line}");
        }
        // The same name may be another flag of another command.
        let is_set_elsewhere = applets.iter().flat_map(|applet| applet["flags"].as_array().unwrap());
        let mut same_name = is_set_elsewhere.filter(|flag| text(flag, "long") == long);
        match same_name.any(|flag| text(flag, "configurable") != "no") {
            true => assert!(!errors(&by_variable).contains("HAUL_OPTIONS"), "{}", errors(&by_variable)),
            false => {
                let told = errors(&by_variable);
                assert_eq!(told, format!("haul {name}: HAUL_OPTIONS: --{long} {why}\n"));
                assert_eq!(by_variable.status.code(), Some(status(name)), "{name} {word}");
            }
        }
    }
    assert!(accepted > 60 && refused > 200, "{accepted} {refused}");
}

#[test]
fn flags_that_choose_what_is_written_are_not_marked() {
    for applet in applets() {
        for flag in applet["flags"].as_array().unwrap() {
            let is_marked = text(flag, "configurable") != "no";
            let is_safe = [
                "jobs",
                "engine",
                "queue-depth",
                "look-ahead",
                "nice",
                "progress",
                "stats",
                "bwlimit",
                "iops-limit",
                "max-latency",
                "block-size",
                "ops",
                "direct",
                "registered-buffers",
                "direct-descriptors",
                "no-readahead",
                "no-advise",
                "drop-cache",
                "no-directory-first",
                "no-inode-order",
            ];
            assert!(!is_marked || is_safe.contains(&text(flag, "long")), "{flag}");
        }
    }
}

#[test]
fn a_wrong_setting_is_an_error_with_its_place_and_copies_nothing() {
    let home = Home::new().with_file("jobs = 2\nengine = 'none'\n");
    let place = home.file().display().to_string();
    let output = home.run(&["cp", "a", "b"]);
    assert_eq!(output.status.code(), Some(1));
    let wanted =
        format!("haul cp: {place}:2: invalid argument 'none' for '--engine'\nValid arguments are:\n");
    assert!(errors(&output).starts_with(&wanted), "{}", errors(&output));
    assert!(!errors(&output).contains("--help") && !home.0.join("b").exists());
    // Another command has another table, but the file has to be right for it too.
    let home = home.with_file("[tar]\nbwlimit = 1\n");
    let output = home.run(&["cp", "a", "b"]);
    assert_eq!(errors(&output), format!("haul cp: {place}:2: haul tar has no option bwlimit\n"));
    // The requested help is printed all the same.
    let output = home.run(&["cp", "--help"]);
    assert!(output.status.success() && output.stderr.is_empty() && !output.stdout.is_empty());
    fs::set_permissions(home.file(), Permissions::from_mode(0o666)).unwrap();
    let output = home.run(&["grep", "text", "a"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    let wanted = format!("haul grep: {place}: refused: it is writable by others (chmod go-w)\n");
    assert_eq!(errors(&output), wanted);
}

#[test]
fn a_flag_of_other_commands_is_no_error_in_the_variable_or_for_all() {
    let home = Home::new().with_file("bwlimit = '10M'\n");
    let output = home.run_with("--block-size=4K", &["grep", "text", "a"]);
    assert_eq!((output.stdout.as_slice(), errors(&output)), (&b"text\n"[..], String::new()));
}

/// Scripts that call `cp` know nothing of haul: neither a setting nor a mistake reaches them.
#[test]
fn programs_called_by_their_own_name_read_none_of_it() {
    let home = Home::new().with_file("this is wrong\n");
    for (name, words) in [
        ("cp", &["a", "b"][..]),
        ("spdcp", &["a", "c"]),
        ("bzip2", &["-k", "a"]),
        ("bzcat", &["a.bz2"]),
        ("bunzip2", &["-f", "a.bz2"]),
    ] {
        let link = home.0.join(name);
        symlink(built(), &link).unwrap();
        let output = home.command(&link, words).env("HAUL_OPTIONS", "--no-such-option").output().unwrap();
        assert!(output.status.success(), "{name}: {}", errors(&output));
        assert_eq!(errors(&output), "", "{name}");
    }
    let home = home.with_file("stats = true\njobs = 2\n");
    let output = home.command(&home.0.join("cp"), &["a", "b"]).env("HAUL_OPTIONS", "--stats").output();
    assert_eq!(errors(&output.unwrap()), "");
}

/// A command that is slowed down or stopped may have been started elsewhere, with other settings.
#[test]
fn a_running_command_is_controlled_whatever_the_settings_say() {
    let home = Home::new().with_file("this is wrong\n");
    let mut command = home.command(&built(), &["ctl", "socket", "status"]);
    let output = command.env("HAUL_OPTIONS", "--no-such-option").env("HAUL_PROGRESS", "sometimes").output();
    let wanted = "haul ctl: 'socket': cannot connect: No such file or directory\n";
    assert_eq!(errors(&output.unwrap()), wanted);
}

#[test]
fn missing_files_cost_one_call_each() {
    require!(needs::tool("strace"));
    let home = Home::new();
    let run = TestRun::new(&built()).args(["cp", "a", "b"]).in_folder(home.0.path());
    let run = run.env("XDG_CONFIG_HOME", home.0.join("config"));
    let (outcome, calls) = record(run, "all", &home.0.join("log")).unwrap();
    assert!(outcome.succeeded(), "{}", outcome.errors());
    let about = |name: &str| {
        let is_about = |call: &&TracedCall| call.arguments.iter().any(|word| word.contains(name));
        calls.iter().filter(is_about).map(|call| call.name.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(about("haul/config.toml"), ["openat"]);
    assert_eq!(about("/etc/haul.toml"), ["openat"]);
}
