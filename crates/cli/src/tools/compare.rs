//! `haul cmp`: compares two trees or two files.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::ExitCode;

use haul_compare::{Attributes, Listing, Operands, Options, Outcome};
use haul_flow::{Config, Report};

use super::{Call, Tool};
use crate::flags::Action::{Optional, Plain, Word};
use crate::flags::values::Words;
use crate::flags::{Arguments, Command, Error, Flag, Shared, Sharing};
use crate::messages::{self, Charset};
use crate::report::Console;
use crate::task::{Executors, Work};

pub(super) const TOOL: Tool = Tool {
    name: "cmp",
    programs: &[],
    about: "compare two trees or two files",
    document: || COMMAND.document(),
    main,
};

/// Exit status if the two differ.
const DIFFERENT: u8 = 1;
/// Exit status if anything could not be compared.
const TROUBLE: u8 = 2;

/// Attributes by name, as in `cp --preserve`.
const ATTRIBUTES: &Words<Attributes> = &[
    ("mode", Attributes::MODE),
    ("ownership", Attributes::OWNERSHIP),
    ("timestamps", Attributes::TIMESTAMPS),
    ("links", Attributes::LINKS),
    ("xattr", Attributes::XATTR),
    ("holes", Attributes::HOLES),
    ("all", ALL),
];

const ALL: Attributes = Attributes::all().difference(Attributes::HOLES);

static COMMAND: Command<Line> = Command {
    usage: &["[OPTION]... FIRST SECOND"],
    about: "Compare two trees or two files, and list the differences.",
    sections: &[("", FLAGS)],
    sharing: Sharing::All,
    notes: "\
Names, types, contents and targets of symbolic links are always compared. In trees, devices are compared by their numbers, \
FIFOs and sockets by their type. FIFOs and devices named on the command line are read to the end; - is standard input. \
If both are the same file, it is not read. A file compared with a directory is compared with the file of that name in it.

Exit status is 0 if both are the same, 1 if they differ, 2 if trouble.

Examples:
  haul cmp project /backup/project
  haul cmp --attributes --json source copy
  haul cmp -q a.iso b.iso && echo same",
};

static FLAGS: &[Flag<Line>] = &[
    Flag::gnu(
        "--attributes",
        Optional("LIST", |line, value| {
            match value {
                Some(value) => line.options.attributes.extend(value.choose_each(ATTRIBUTES)?),
                None => line.options.attributes |= ALL,
            }
            Ok(())
        }),
        "also compare these attributes, separated by commas: mode, ownership, timestamps, links, xattr, holes, all (all \
         but holes; the default for LIST)",
    ),
    Flag::gnu(
        "-q -s --quiet --silent",
        Plain(|line| line.listings.push(("--quiet", Listing::Nothing))),
        "list nothing, and stop at the first difference",
    ),
    Flag::gnu(
        "--brief",
        Plain(|line| line.listings.push(("--brief", Listing::Brief))),
        "list which entries differ, one per line, but not how, like 'diff -rq'",
    ),
    Flag::gnu(
        "--json",
        Plain(|line| line.listings.push(("--json", Listing::Json))),
        "list each difference as a JSON object on its own line",
    ),
    Flag::gnu("-L --dereference", Plain(|line| line.options.dereference = true), "follow symbolic links"),
    Flag::gnu(
        "-x --exclude",
        Word("PATTERN", |line, value| line.options.exclude.push(value.text())),
        "skip entries whose name matches PATTERN, on both sides",
    ),
    Flag::gnu(
        "--one-file-system",
        Plain(|line| line.options.one_file_system = true),
        "stay on the file systems of FIRST and SECOND",
    ),
    Flag::help("-h --help"),
    Flag::version("--version"),
];

#[derive(Debug, Default)]
struct Line {
    shared: Shared,
    operands: Vec<OsString>,
    options: Options,
    /// The forms of the list that are asked for, and their flags.
    listings: Vec<(&'static str, Listing)>,
}

impl Arguments for Line {
    fn shared(&mut self) -> &mut Shared {
        &mut self.shared
    }

    fn operand(&mut self, word: &OsStr) {
        self.operands.push(word.to_owned());
    }
}

impl Line {
    fn lower(self) -> Result<Comparison, Error> {
        let mut listings = self.listings.iter();
        let (flag, listing) = listings.next().copied().unwrap_or(("", Listing::Full));
        if let Some((other, _)) = listings.find(|(other, _)| *other != flag) {
            return Err(Error::Exclusive { flag, other });
        }
        let mut names = self.operands.into_iter().map(OsString::into_vec);
        let (Some(first), Some(second)) = (names.next(), names.next()) else {
            return Err(Error::Missing { operand: "operand: two names are compared" });
        };
        if let Some(operand) = names.next() {
            return Err(Error::Extra { operand });
        }
        let name = |name| CString::new(name).map_err(|_| Error::NulInName);
        let operands = Operands { first: name(first)?, second: name(second)? };
        let utf8 = Charset::of_process() == Charset::Utf8;
        Ok(Comparison { operands, options: Options { listing, utf8, ..self.options } })
    }
}

fn main(call: &Call<'_>) -> ExitCode {
    let line = match call.read(&COMMAND, call.words, TROUBLE) {
        Ok(line) => line,
        Err(status) => return status,
    };
    let run_options = line.shared.run.clone();
    match line.lower() {
        Ok(work) => call.carry_out(call.messages().saying(messages::compare::of_flow), &run_options, &work),
        Err(error) => call.refuse(&error, TROUBLE),
    }
}

struct Comparison {
    operands: Operands,
    options: Options,
}

impl Work for Comparison {
    fn done_by(&self, executor: &impl Executors, config: &Config, console: &Console) -> u8 {
        match haul_compare::run_by(executor, &self.operands, &self.options, config, console) {
            Ok(Outcome::Same) => 0,
            Ok(Outcome::Different) => DIFFERENT,
            Ok(Outcome::Failure) => TROUBLE,
            Err(problem) => {
                console.problem(problem);
                TROUBLE
            }
        }
    }

    fn exit_status(&self, status: u8, trouble: bool) -> u8 {
        if trouble { TROUBLE } else { status }
    }

    fn place(&self) -> Option<&Path> {
        Some(Path::new(OsStr::from_bytes(self.operands.second.to_bytes())))
    }
}
