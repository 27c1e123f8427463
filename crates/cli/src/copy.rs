//! `haul cp`, from the words of the command line to the exit status.

use std::ffi::OsString;
use std::process::ExitCode;
use std::thread::Scope;
use std::time::{Duration, Instant};

use haul_flow::Report;
use haul_tools::copy::{self, Outcome};

use haul_cluster::launch::Crew;

use crate::ahead;
use crate::batch::{self, Teller};
use crate::cluster;
use crate::flags::{self, Environment, Information, Parsed, Request, StatisticsForm};
use crate::messages::{Charset, Messages};
use crate::output::Output;
use crate::report::{Console, complain};
use crate::statistics::Statistics;

/// Copies as the words after the program's name ask. Messages begin with `program`.
pub(crate) fn main(program: &str, words: &[OsString]) -> ExitCode {
    let messages = Messages::new(program, Charset::of_process());
    let mut told = true;
    // A script under mpirun that says `cp` means that each of its processes copies what it names, and talks.
    let speaks = program == "cp" || cluster::speaks();
    let mut warn = |warning| told &= !speaks || complain(&messages.warning(warning));
    let status = match flags::parse(words, Environment::of_process(), &mut warn) {
        Ok(Parsed::Copy(request)) if program == "cp" && request.cluster.clients.is_none() => {
            copy_by(messages, &request, None)
        }
        Ok(Parsed::Copy(request)) => copy(messages, &request),
        Ok(Parsed::Tell(_)) if !speaks => ExitCode::SUCCESS,
        Ok(Parsed::Tell(Information::Help)) => tell(messages, &flags::help(program)),
        Ok(Parsed::Tell(Information::Version)) => {
            tell(messages, concat!("cp (haul) ", env!("CARGO_PKG_VERSION"), "\n"))
        }
        Err(error) => {
            if speaks {
                complain(&messages.wrong_flags(&error));
            }
            ExitCode::FAILURE
        }
    };
    if told { status } else { ExitCode::FAILURE }
}

/// Runs one copy, here or by several processes, and tells what became of it.
pub(crate) fn copy(messages: Messages, request: &Request) -> ExitCode {
    if let Some(system) = batch::system(request) {
        return batch::copy(messages, request, system);
    }
    let journal = match cluster::journal(request) {
        Ok(journal) => journal,
        Err(why) => {
            complain(&messages.debug(&why));
            return ExitCode::FAILURE;
        }
    };
    let request = &cluster::going_on(request, journal.as_ref());
    if cluster::is_under_launcher() && request.cluster.clients.is_none() {
        return cluster::under_launcher(&request.cluster, journal, |crew| {
            copy_by(messages, request, Some(crew))
        });
    }
    let Some(clients) = request.cluster.clients else { return copy_by(messages, request, None) };
    match cluster::crew(clients, &request.cluster, journal) {
        Ok(crew) => copy_by(messages, request, Some(&crew)),
        Err(why) => {
            if cluster::speaks() {
                complain(&messages.debug(&format!("cannot copy with {clients} clients: {why}")));
            }
            ExitCode::FAILURE
        }
    }
}

/// Runs one copy by a crew, or by this process alone.
pub(crate) fn copy_by(messages: Messages, request: &Request, crew: Option<&Crew>) -> ExitCode {
    let began = Instant::now();
    let console = Console::new(messages, Output::standard())
        .with_debug(request.options.debug)
        .with_progress(batch::shown_here(request.progress));
    let teller = Teller::begin(request.progress, console.figures());
    let outcome = std::thread::scope(|scope| {
        count_meanwhile(scope, &console, request);
        let Request { operands, options, config, .. } = request;
        let outcome = match crew {
            Some(crew) => {
                let outcome = copy::run_by(crew, operands, options, config, &console);
                dismiss(crew, &console);
                batch::keep_what_is_left(crew, &console);
                outcome
            }
            None => copy::run(operands, options, config, &console),
        };
        console.end_progress();
        outcome
    });
    drop(teller);
    match outcome {
        Outcome::Success => tell_statistics(&console, request, began.elapsed()),
        Outcome::Failure => {
            console.fail();
            tell_statistics(&console, request, began.elapsed());
        }
        Outcome::Usage(problem) => console.wrong_operands(&problem),
        Outcome::Fatal(problem) => console.problem(problem),
    }
    console.finish()
}

/// Counts what there is to do while it is done, if that is shown.
pub(crate) fn count_meanwhile<'a>(scope: &'a Scope<'a, '_>, console: &'a Console, request: &'a Request) {
    if console.shows_progress() {
        let count = || console.count_ahead(|over| ahead::count(request, over));
        // Without a thread to count there is no percent, and that is all.
        std::thread::Builder::new().name("count".to_owned()).spawn_scoped(scope, count).ok();
    }
}

/// Lets a crew go, and tells how much it talked.
fn dismiss(crew: &Crew, console: &Console) {
    match crew.dismiss(console) {
        Ok(messages) => console.debug(&format!("{messages} messages between the processes")),
        Err(why) => console.debug(&format!("the processes did not end as they should: {why}")),
    }
}

fn tell_statistics(console: &Console, request: &Request, took: Duration) {
    let Some(form) = request.statistics else { return };
    let (tally, problems) = console.counted();
    let statistics = Statistics::of_run(tally, problems, took, console.means());
    match form {
        StatisticsForm::Table => console.complain(statistics.table().as_bytes()),
        StatisticsForm::Json => console.tell(statistics.json().as_bytes()),
    }
}

/// Writes what was asked for instead of a copy.
pub(crate) fn tell(messages: Messages, text: &str) -> ExitCode {
    let console = Console::new(messages, Output::standard());
    console.tell(text.as_bytes());
    console.finish()
}
