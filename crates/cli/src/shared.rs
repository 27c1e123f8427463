//! The flags that all tools except the copy share: machine, hosts and what is shown.
//!
//! Each tool's command line is a clap struct with [`Shared`] flattened into it, so a flag is
//! defined once, and help, completions and manual pages follow. [`parse`] words errors as the other
//! commands do.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::{ContextKind, ErrorKind};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use haul_engine::Choice;
use haul_flow::Config;
use haul_sys::Fd;

use crate::copy::tell;
use crate::flags::cluster::{CLIENTS, name, walltime};
use crate::flags::values::{self, Bounds};
use crate::flags::{Error, JOBS, LOOK_AHEAD, QUEUE_DEPTH, StatisticsForm, When};
use crate::messages::Messages;
use crate::report::complain;

/// Help heading of these flags.
const MACHINE: &str = "Options of haul";
/// Help heading of the flags for many hosts.
pub(crate) const HOSTS: &str = "To work with many hosts, by MPI";

/// What all tools can be told about the machine.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Shared {
    /// Work with N workers at once
    #[arg(short = 'j', long, value_name = "N", value_parser = jobs, help_heading = MACHINE)]
    pub(crate) jobs: Option<usize>,
    /// Read and write through the engine named
    #[arg(long, value_name = "NAME", value_parser = engine_names(), help_heading = MACHINE)]
    engine: Option<String>,
    /// Keep up to N operations of a worker in flight, in engines that can
    #[arg(long, value_name = "N", value_parser = queue_depth, help_heading = MACHINE)]
    queue_depth: Option<usize>,
    /// Keep up to N files of a worker open ahead, so that the disk is busy with them
    #[arg(long, value_name = "N", value_parser = look_ahead, help_heading = MACHINE)]
    look_ahead: Option<usize>,
    /// Show progress on standard error: on a terminal only, always, or never
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "auto",
        value_parser = ["auto", "always", "never"], help_heading = MACHINE)]
    progress: Option<String>,
    /// At the end tell counts, times and memory on standard error, or as one JSON object on
    /// standard output
    #[arg(long, value_name = "json", num_args = 0..=1, require_equals = true, default_missing_value = "table",
        value_parser = ["json", "table"], hide_possible_values = true, help_heading = MACHINE)]
    stats: Option<String>,
    /// Tell what was chosen for the run, and why
    #[arg(long, help_heading = MACHINE)]
    pub(crate) debug: bool,
    /// Work with M ranks of an MPI job: in an allocation on its hosts, where a batch system is by a
    /// job that is submitted and followed to its end, elsewhere on this host
    #[arg(long, value_name = "M", value_parser = clients, help_heading = HOSTS)]
    pub(crate) clients: Option<u32>,
    /// Charge a batch job to P
    #[arg(long, value_name = "P", value_parser = account, requires = "clients", help_heading = HOSTS)]
    account: Option<String>,
    // Brackets in a doc comment would be a link.
    #[arg(help = "End a batch job after TIME, in seconds or as [HH:]MM:SS, at the latest", long, value_name = "TIME", value_parser = time, requires = "clients", help_heading = HOSTS)]
    walltime: Option<Duration>,
    /// Send a batch job to QUEUE
    #[arg(long, value_name = "QUEUE", value_parser = queue, requires = "clients", help_heading = HOSTS)]
    queue: Option<String>,
    /// Start the ranks with COMMAND, its words separated by spaces, instead of the mpirun or srun
    /// that is found
    #[arg(long, value_name = "COMMAND", value_parser = launcher, requires = "clients",
        conflicts_with_all = ["account", "walltime", "queue"], help_heading = HOSTS)]
    launcher: Option<Words>,
    /// Use the MPI library PATH instead of the one that fits the launcher
    #[arg(long, value_name = "PATH", help_heading = HOSTS)]
    mpi_lib: Option<PathBuf>,
}

#[derive(Clone, Debug)]
struct Words(Vec<OsString>);

impl Shared {
    /// Returns how the machine is used.
    pub(crate) fn config(&self) -> Config {
        let named = |name: &String| values::engines().into_iter().find(|(known, _)| known == name);
        Config {
            jobs: self.jobs,
            engine: self.engine.as_ref().and_then(named).map_or(Choice::Auto, |(_, choice)| choice),
            queue_depth: self.queue_depth,
            look_ahead: self.look_ahead,
            ..Config::default()
        }
    }

    /// Returns which hosts are used.
    pub(crate) fn hosts(&self) -> haul_cluster::Options {
        haul_cluster::Options {
            clients: self.clients,
            account: self.account.clone(),
            walltime: self.walltime,
            queue: self.queue.clone(),
            launcher: self.launcher.clone().map(|Words(words)| words),
            mpi_library: self.mpi_lib.clone(),
            ..haul_cluster::Options::default()
        }
    }

    /// Returns when progress is shown.
    pub(crate) fn progress(&self) -> When {
        match self.progress.as_deref() {
            Some("always") => When::Always,
            Some("never") => When::Never,
            _ => When::Auto,
        }
    }

    /// Returns the form of the statistics printed at the end, if any.
    pub(crate) fn statistics(&self) -> Option<StatisticsForm> {
        self.stats.as_deref().map(|form| match form {
            "json" => StatisticsForm::Json,
            _ => StatisticsForm::Table,
        })
    }
}

/// Reads standard input to EOF.
///
/// # Errors
/// The kernel's; also if standard input was closed when the process started, as it would
/// seem empty.
pub(crate) fn standard_input_to_end() -> io::Result<Vec<u8>> {
    haul_sys::standard_input().and_then(Fd::close).map_err(|cause| io::Error::from(cause.errno()))?;
    let mut text = Vec::new();
    io::stdin().read_to_end(&mut text)?;
    Ok(text)
}

/// Result of parsing a command line.
pub(crate) enum Read<A> {
    /// The parsed flags.
    Asked(A),
    /// Nothing is left to do: help was printed, or an error was reported.
    Over(ExitCode),
}

/// Parses a tool's arguments. Errors are reported like the other commands', with exit
/// status `trouble`.
pub(crate) fn parse<A: FromArgMatches>(
    command: Command,
    messages: &Messages,
    (words, is_rank): (&[OsString], bool),
    trouble: u8,
) -> Read<A> {
    let name = OsString::from(command.get_name());
    let call = std::iter::once(name).chain(words.iter().cloned());
    let read = command.infer_long_args(true).try_get_matches_from(call);
    if let Some(why) = read.as_ref().ok().and_then(|matches| useless(matches, is_rank)) {
        if crate::cluster::speaks() {
            complain(&messages.wrong_usage(&why));
        }
        return Read::Over(ExitCode::from(trouble));
    }
    match read.and_then(|mut matches| A::from_arg_matches_mut(&mut matches)) {
        Ok(asked) => Read::Asked(asked),
        Err(answer) if matches!(answer.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            Read::Over(tell(messages.clone(), &answer.render().to_string()))
        }
        Err(error) => {
            if crate::cluster::speaks() {
                complain(&messages.wrong_usage(&sentence(&error)));
            }
            Read::Over(ExitCode::from(trouble))
        }
    }
}

/// Returns why a flag has no effect, if one has none: only ranks open a library.
fn useless(matches: &ArgMatches, is_rank: bool) -> Option<String> {
    let given = |flag| matches.try_contains_id(flag).unwrap_or(false);
    let is_useless = given("mpi_lib") && !given("clients") && !is_rank;
    is_useless.then(|| "option '--mpi-lib' has no effect without '--clients'".to_owned())
}

/// Words a command-line error, with GNU's sentence where there is one.
fn sentence(error: &clap::Error) -> String {
    let argument = error.get(ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
    let flag = argument.split(['=', ' ', '[', '<']).next().unwrap_or_default();
    let value = error.get(ContextKind::InvalidValue).map(ToString::to_string).unwrap_or_default();
    match error.kind() {
        ErrorKind::UnknownArgument => match argument.strip_prefix("--") {
            Some(_) => format!("unrecognized option '{argument}'"),
            None if argument.starts_with('-') => {
                format!("invalid option -- '{}'", argument.trim_start_matches('-'))
            }
            None => format!("extra operand '{argument}'"),
        },
        ErrorKind::InvalidValue | ErrorKind::NoEquals if value.is_empty() => {
            format!("option '{flag}' requires an argument")
        }
        ErrorKind::TooManyValues => format!("option '{flag}' doesn't allow an argument"),
        ErrorKind::MissingRequiredArgument if error.get(ContextKind::InvalidArg).is_some() => {
            format!("missing {argument}")
        }
        _ => first_sentence(error),
    }
}

/// Returns clap's own sentence, without its prefix and what follows it.
fn first_sentence(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let sentence: Vec<_> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
    sentence.join(" ").trim_start_matches("error: ").to_owned()
}

/// Reduces an error to what the value has to be.
fn wanted<T>(read: Result<T, Error>) -> Result<T, String> {
    read.map_err(|error| match error {
        Error::Number { wanted, .. } => format!("must be {wanted}"),
        _ => "is not understood".to_owned(),
    })
}

fn count(text: &str, bounds: Bounds) -> Result<usize, String> {
    wanted(values::count("", text.as_bytes(), bounds))
}

fn jobs(text: &str) -> Result<usize, String> {
    count(text, JOBS)
}

fn queue_depth(text: &str) -> Result<usize, String> {
    count(text, QUEUE_DEPTH)
}

fn look_ahead(text: &str) -> Result<usize, String> {
    count(text, LOOK_AHEAD)
}

fn clients(text: &str) -> Result<u32, String> {
    count(text, CLIENTS).and_then(|clients| u32::try_from(clients).map_err(|error| error.to_string()))
}

fn account(text: &str) -> Result<String, String> {
    wanted(name("--account", text.as_bytes()))
}

fn queue(text: &str) -> Result<String, String> {
    wanted(name("--queue", text.as_bytes()))
}

fn time(text: &str) -> Result<Duration, String> {
    wanted(walltime("--walltime", text.as_bytes()))
}

fn launcher(text: &str) -> Result<Words, String> {
    let words: Vec<_> = text.split_ascii_whitespace().map(OsString::from).collect();
    if words.is_empty() {
        Err("must be a command line, like 'mpirun --host a,b'".to_owned())
    } else {
        Ok(Words(words))
    }
}

fn engine_names() -> Vec<&'static str> {
    values::engines().into_iter().map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::messages::Charset;

    #[derive(clap::Parser, Debug)]
    #[command(name = "haul each")]
    struct Line {
        #[command(flatten)]
        shared: Shared,
        #[arg(value_name = "FILE", required = true)]
        files: Vec<OsString>,
    }

    fn read(words: &[&str]) -> Result<Line, String> {
        let call = std::iter::once("haul each").chain(words.iter().copied());
        let matches = Line::command().infer_long_args(true).try_get_matches_from(call);
        matches.and_then(|matches| Line::from_arg_matches(&matches)).map_err(|error| sentence(&error))
    }

    #[test]
    fn flags_say_how_the_machine_is_used() {
        let words =
            ["-j3", "--engine=sync", "--stats=json", "--progress", "--cl", "4", "--launcher=srun  -n", "x"];
        let line = read(&words).unwrap();
        assert_eq!(line.files, ["x"]);
        let config = line.shared.config();
        assert_eq!((config.jobs, config.engine), (Some(3), Choice::Sync));
        assert_eq!(line.shared.statistics(), Some(StatisticsForm::Json));
        let hosts = line.shared.hosts();
        assert_eq!((hosts.clients, hosts.launcher), (Some(4), Some(vec!["srun".into(), "-n".into()])));
        assert_eq!(read(&["--stats", "x"]).unwrap().shared.statistics(), Some(StatisticsForm::Table));
        assert_eq!(read(&["x"]).unwrap().shared.progress(), When::Auto);
    }

    #[test]
    fn what_is_wrong_is_said_in_one_sentence() {
        let wrong = |words: &[&str]| read(words).unwrap_err();
        assert_eq!(wrong(&["--foo", "x"]), "unrecognized option '--foo'");
        assert_eq!(wrong(&["-y", "x"]), "invalid option -- 'y'");
        assert_eq!(wrong(&["x", "--jobs"]), "option '--jobs' requires an argument");
        assert_eq!(wrong(&["--debug=1", "x"]), "option '--debug' doesn't allow an argument");
        for words in
            [&["-j0", "x"][..], &["--engine=none", "x"], &["--queue=q", "x"], &[], &["--launcher= ", "x"]]
        {
            let sentence = wrong(words);
            assert!(
                !sentence.contains('\n') && !sentence.contains("Usage") && sentence.len() > 10,
                "{sentence}"
            );
        }
        assert!(wrong(&["-j0", "x"]).contains("1 to 1024"));
    }

    #[test]
    fn messages_end_in_a_pointer_to_help() {
        let told = Messages::new("haul each", Charset::Utf8).wrong_usage("missing CMD");
        assert_eq!(
            String::from_utf8(told).unwrap(),
            "haul each: missing CMD\nTry 'haul each --help' for more information.\n"
        );
    }
}
