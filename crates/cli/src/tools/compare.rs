//! `haul cmp`: compares two trees or two files.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use haul_compare::{Attributes, Listing, Operands, Options, Outcome};
use haul_flow::{Config, Report};

use super::{Call, Tool};
use crate::messages;
use crate::report::{Console, complain};
use crate::shared::{Read, Shared};
use crate::work::{Executors, RunOptions, Work};

pub(super) const TOOL: Tool =
    Tool { name: "cmp", programs: &[], about: "compare two trees or two files", flags: Line::command, main };

/// Exit status if the two differ.
const DIFFERENT: u8 = 1;
/// Exit status if anything could not be compared.
const TROUBLE: u8 = 2;

/// Attributes by name, as in `cp --preserve`.
const ATTRIBUTES: [(&str, Attributes); 7] = [
    ("mode", Attributes::MODE),
    ("ownership", Attributes::OWNERSHIP),
    ("timestamps", Attributes::TIMESTAMPS),
    ("links", Attributes::LINKS),
    ("xattr", Attributes::XATTR),
    ("holes", Attributes::HOLES),
    ("all", Attributes::all().difference(Attributes::HOLES)),
];

/// Compare two trees or two files, and list what differs.
#[derive(Debug, Parser)]
#[command(
    name = "haul cmp",
    args_override_self = true,
    disable_version_flag = true,
    version,
    after_help = "\
Names, types, contents and where symbolic links lead are compared always. In trees nothing else is opened: devices are
compared by their numbers, FIFOs and sockets by their type. FIFOs and devices that are named are read to their ends, and
- is standard input; only what is one and the same file is not read.
A file that is compared with a directory is compared with the file of its name in there.

Exit status is 0 if all is the same, 1 if anything differs, 2 if anything could not be compared.

Examples:
  haul cmp project /backup/project
  haul cmp --attributes --json source copy
  haul cmp -q a.iso b.iso && echo same"
)]
struct Line {
    /// The first of the two
    #[arg(value_name = "FIRST", required = true)]
    first: OsString,
    /// The second of the two
    #[arg(value_name = "SECOND", required = true)]
    second: OsString,
    /// Compare these attributes as well, all but holes if none are named
    #[arg(long, value_name = "LIST", num_args = 0..=1, require_equals = true, default_missing_value = "all",
        value_delimiter = ',', value_parser = ATTRIBUTES.map(|(name, _)| name))]
    attributes: Vec<String>,
    /// List nothing, and end with the first difference
    #[arg(short = 'q', long, visible_short_alias = 's', alias = "silent", conflicts_with_all = ["brief", "json"])]
    quiet: bool,
    /// List in one line each what differs, without what it differs in, as 'diff -rq' does
    #[arg(long, conflicts_with = "json")]
    brief: bool,
    /// List each difference as a JSON object on a line
    #[arg(long)]
    json: bool,
    /// Follow symbolic links
    #[arg(short = 'L', long)]
    dereference: bool,
    /// Leave out what has a name that matches PATTERN, on both sides
    #[arg(short = 'x', long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Stay on the file systems where the two are
    #[arg(long)]
    one_file_system: bool,
    #[command(flatten)]
    shared: Shared,
    /// Print the version
    #[arg(long, action = clap::ArgAction::Version)]
    version: Option<bool>,
}

impl Line {
    fn options(&self) -> Options {
        let named = |name: &String| ATTRIBUTES.iter().find(|(known, _)| known == name);
        let attributes =
            self.attributes.iter().filter_map(named).map(|(_, attributes)| *attributes).collect();
        let listing = match (self.quiet, self.brief, self.json) {
            (true, ..) => Listing::Nothing,
            (_, true, _) => Listing::Brief,
            (_, _, true) => Listing::Json,
            _ => Listing::Full,
        };
        Options {
            attributes,
            listing,
            dereference: self.dereference,
            one_file_system: self.one_file_system,
            exclude: self.exclude.clone(),
        }
    }

    /// Returns the operands; `None` if one contains a NUL.
    fn operands(&self) -> Option<Operands> {
        let name = |name: &OsString| CString::new(name.clone().into_vec()).ok();
        Some(Operands { first: name(&self.first)?, second: name(&self.second)? })
    }
}

fn main(call: &Call<'_>) -> ExitCode {
    let line = match call.read::<Line>(TROUBLE) {
        Read::Asked(line) => line,
        Read::Over(status) => return status,
    };
    let messages = call.messages().saying(messages::compare::of_flow);
    let Some(operands) = line.operands() else {
        complain(&messages.wrong_usage("a name contains a NUL byte"));
        return ExitCode::from(TROUBLE);
    };
    let work = Comparison { operands, options: line.options() };
    call.carry_out(messages, &RunOptions::from(&line.shared), &work)
}

/// A comparison as [`Work`].
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
