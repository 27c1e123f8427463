//! `spdcp`: the copy of `haul cp`, with the options of the program of that name.
//!
//! It accepts exactly `-h -V -d -v -p -r -R -c -n -b F -s M -A P -w T -q Q`, `--help` and
//! `--version`. Apart from the letters, it differs from `cp` in three ways: new files get their
//! source's layout over storage targets; `-d` lists what a copy would create; and in a batch job
//! all tasks copy, if there is an MPI library for them, unless `-s` gives a number.

mod targets;

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use haul_cluster::launch::command::Surroundings;
use haul_cluster::mpi::{library_of, library_there};

use crate::cluster;
use crate::copy::{self, Processes};
use crate::flags::spdcp::{COMMAND, SpdcpCommand, parse};
use crate::flags::{Environment, Information};
use crate::messages::Messages;
use crate::output::LineSink;
use crate::report::{Console, complain_of_usage, print_information};

/// Copies, or prints the requested information. Messages begin with `program`.
pub(crate) fn main(program: &str, words: &[OsString]) -> ExitCode {
    let messages = Messages::in_locale(program);
    match parse(words, &Environment::of_process()) {
        Ok(SpdcpCommand::Copy(mut request)) => {
            request.run.hosts.clients = request.run.hosts.clients.or_else(clients_at_hand);
            copy::copy(messages, &request, Processes::AsRequested)
        }
        Ok(SpdcpCommand::Targets(_) | SpdcpCommand::Print(_)) if !cluster::prints_messages() => {
            ExitCode::SUCCESS
        }
        Ok(SpdcpCommand::Targets(request)) => {
            let console = Console::new(messages, LineSink::standard());
            targets::list(&request, &console);
            console.finish()
        }
        Ok(SpdcpCommand::Print(Information::Help)) => print_information(messages, &COMMAND.help(program)),
        Ok(SpdcpCommand::Print(Information::Version)) => print_information(messages, &versions()),
        Err(error) => cluster::refuse(ExitCode::FAILURE, || complain_of_usage(&messages, &error)),
    }
}

/// Returns the default number of clients: all that a batch job has room for.
fn clients_at_hand() -> Option<u32> {
    let ranks = Surroundings::of_process().ranks_at_hand()?;
    (ranks > 1 && library_there(None).is_ok()).then_some(ranks)
}

/// Returns the versions of this command, of the agent that its ranks run (the same program, unless
/// `HAUL_AGENT` names another) and of the MPI library.
fn versions() -> String {
    const OWN: &str = concat!("haul ", env!("CARGO_PKG_VERSION"));
    let agent = std::env::var_os("HAUL_AGENT").filter(|agent| !agent.is_empty());
    let agent = agent.map_or_else(|| OWN.to_owned(), |agent| version_of(&agent));
    let launcher = Surroundings::of_process().launcher();
    let library = match &launcher {
        Some((launcher, family)) => library_of(launcher, *family),
        None => library_there(None),
    };
    let library =
        library.map_or_else(|refusal| refusal.to_string(), |library| library.escape_debug().to_string());
    let launcher = launcher.map_or_else(|| "none found".to_owned(), |(path, _)| path.display().to_string());
    format!("spdcp ({OWN})\nagent: {agent}\nMPI: {library}\nlauncher: {}\n", launcher.escape_debug())
}

/// Returns the first line that a program prints for `--version`.
fn version_of(program: &OsString) -> String {
    let shown = program.to_string_lossy().escape_debug().to_string();
    let answer = match Command::new(program).arg("--version").output() {
        Ok(output) if output.status.success() => output.stdout,
        Ok(output) => return format!("{shown}: prints no version ({})", output.status),
        Err(error) => return format!("{shown}: {error}"),
    };
    let line = String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().escape_debug().to_string();
    format!("{line} ({shown})")
}
