//! `haul ctl`: queries and changes a running command through its control socket.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use haul_sys::{Errno, reason};

use super::{AppletCall, CliTool};
use crate::control::protocol::{ControlRequest, ControlStatus, LINE_BYTES_MAX};
use crate::flags::Action::Plain;
use crate::flags::{
    AppletCommand, Argument, Arguments, Documented, FlagError, FlagSpec, SharedArguments, Sharing,
};
use crate::report::{complain, print_information};

pub(super) const TOOL: CliTool = CliTool {
    name: "ctl",
    programs: &[],
    about: "query, pause, throttle or stop a running command",
    document: || Documented { operands: operands(), ..COMMAND.document() },
    main,
};

/// Exit status if anything went wrong.
const TROUBLE: u8 = 1;

/// Maximum wait for the answer. The thread that answers does nothing else.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Maximum wait for a command that doesn't listen on its socket yet.
const SOCKET_WAIT_MAX: Duration = Duration::from_millis(100);

static COMMAND: AppletCommand<CtlArguments> = AppletCommand {
    usage: &[
        "[OPTION]... SOCKET status",
        "SOCKET pause | resume | stop",
        "SOCKET bwlimit RATE",
        "SOCKET iops-limit N",
        "SOCKET max-latency MS",
    ],
    about: "Query or control a command that was started with --control=SOCKET.",
    sections: &[("", FLAGS)],
    sharing: Sharing::Nothing,
    notes: "\
Commands:
  status          print what it has done so far, its rate and its limits
  pause           start nothing new; workers stop after the current block
  resume          continue after a pause
  bwlimit RATE    move at most RATE of data per second; 0 or none: no limit
  iops-limit N    do at most N operations per second; 0 or none: no limit
  max-latency MS  use fewer workers while metadata calls take longer;
                  0 or none: no limit
  stop            end the command like SIGINT, but finish the files in progress

Permissions:
Only the user who started the command and root can connect.

Ranks:
All ranks follow the process that was started.

Stopping a copy:
The copy finishes the files in progress, ignoring all limits, and starts no others. A signal then ends it at once.

Exit status:
0 if the command did what was asked, 1 if not.

Examples:
  haul cp -a --control=/run/nightly.sock /srv /mnt/backup
  haul ctl /run/nightly.sock status
  haul ctl /run/nightly.sock bwlimit 20M",
};

const COMMANDS: [&str; 7] = ["status", "pause", "resume", "stop", "bwlimit", "iops-limit", "max-latency"];

/// Describes the first two operands, for completions.
fn operands() -> Vec<Argument> {
    let operand = |name: &str, words: &[&str]| Argument {
        name: name.to_owned(),
        optional: false,
        words: words.iter().map(|&word| word.to_owned()).collect(),
        list: false,
    };
    vec![operand("FILE", &[]), operand("COMMAND", &COMMANDS)]
}

static FLAGS: &[FlagSpec<CtlArguments>] = &[
    FlagSpec::gnu("--json", Plain(|line| line.json = true), "print the status as a JSON object"),
    FlagSpec::help("-h --help"),
    FlagSpec::version("--version"),
];

#[derive(Debug, Default)]
struct CtlArguments {
    shared: SharedArguments,
    words: Vec<OsString>,
    json: bool,
}

impl Arguments for CtlArguments {
    fn shared(&mut self) -> &mut SharedArguments {
        &mut self.shared
    }

    fn operand(&mut self, word: &OsStr) {
        self.words.push(word.to_owned());
    }
}

fn main(call: &AppletCall<'_>) -> ExitCode {
    let line = match call.read(&COMMAND, call.words, TROUBLE) {
        Ok(line) => line,
        Err(status) => return status,
    };
    let (socket, request, words) = match parse(&line) {
        Ok(parsed) => parsed,
        Err(error) => return call.refuse(&error, TROUBLE),
    };
    match ask(socket, &words).and_then(|answer| shown(request, &answer, line.json)) {
        Ok(text) => print_information(call.messages(), &text),
        Err(why) => {
            let socket = socket.to_string_lossy();
            complain(&call.messages().debug(&format!("'{}': {why}", socket.escape_debug())));
            ExitCode::from(TROUBLE)
        }
    }
}

/// Returns the socket, the request, and its words as they are sent.
fn parse(line: &CtlArguments) -> Result<(&OsStr, ControlRequest, Vec<u8>), FlagError> {
    let Some((socket, words)) = line.words.split_first() else {
        return Err(FlagError::Missing { operand: "SOCKET" });
    };
    if words.is_empty() {
        return Err(FlagError::Missing { operand: "COMMAND" });
    }
    let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
    let request = ControlRequest::parse(&words).map_err(FlagError::Sentence)?;
    if line.json && request != ControlRequest::Status {
        return Err(FlagError::Sentence("option '--json' is for the command 'status'".to_owned()));
    }
    Ok((socket, request, words.join(b" ".as_slice())))
}

/// Connects. A socket has its name a moment before the command listens on it.
fn connect(socket: &OsStr) -> std::io::Result<UnixStream> {
    let is_refused = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionRefused;
    match UnixStream::connect(socket) {
        Err(error) if is_refused(&error) => {
            std::thread::sleep(SOCKET_WAIT_MAX);
            UnixStream::connect(socket)
        }
        outcome => outcome,
    }
}

/// Sends a request, and returns the line that answers it.
fn ask(socket: &OsStr, words: &[u8]) -> Result<String, String> {
    let cannot_connect = |error: std::io::Error| {
        // The library refuses a long path before the kernel does, in words of its own.
        let is_too_long = error.kind() == std::io::ErrorKind::InvalidInput;
        let error = if is_too_long { Errno::NAMETOOLONG.into() } else { error };
        format!("cannot connect: {}", reason(&error))
    };
    let mut stream = connect(socket).map_err(cannot_connect)?;
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => "no answer".to_owned(),
        _ => reason(&error),
    };
    stream.set_read_timeout(Some(ANSWER_WITHIN)).map_err(failed)?;
    stream.set_write_timeout(Some(ANSWER_WITHIN)).map_err(failed)?;
    let sent = stream.write_all(&[words, b"\n"].concat());
    let mut answer = String::new();
    let read = BufReader::new(stream).take(LINE_BYTES_MAX as u64).read_line(&mut answer);
    // Another user is refused before the request is read, and the write may have failed by then.
    if answer.is_empty() {
        sent.and(read.map(drop)).map_err(failed)?;
    }
    match answer.strip_suffix('\n') {
        Some(line) => Ok(line.to_owned()),
        None => Err("the command has ended".to_owned()),
    }
}

/// Returns what is printed of an answer.
fn shown(request: ControlRequest, answer: &str, json: bool) -> Result<String, String> {
    if let Some(why) = answer.strip_prefix("error ") {
        return Err(why.chars().filter(|character| !character.is_control()).collect());
    }
    let unknown = || format!("unknown answer '{}': is it a control socket of haul?", answer.escape_debug());
    match (request, answer.strip_prefix("ok")) {
        (ControlRequest::Status, Some(object)) => {
            let status: ControlStatus = serde_json::from_str(object).map_err(|_| unknown())?;
            Ok(if json { format!("{}\n", object.trim()) } else { status.line() })
        }
        (_, Some("")) => Ok(String::new()),
        _ => Err(unknown()),
    }
}
