//! `haul tar`: archives, with the options of GNU tar.
//!
//! `flags.rs` has the options, `values.rs` parses arguments with a grammar of their own (times,
//! modes, owners), `words.rs` splits bundles of letters without a hyphen, `names.rs` has the names
//! and the lists of them in files.

mod flags;
mod names;
mod values;
mod words;

use std::ffi::{CStr, CString, OsStr, OsString};
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use haul_flow::{Config, EntryReport, Kind, OutputLine, Problem, Reporter, RunInfo, SlowRank, Tally};
use haul_sys::{Standard, Timestamp};
use haul_tar::{
    self, ArchivePath, Attributes, Compression, Confinement, Exclude, Existing, Format, Links, MemberOrder,
    ModeChange, Operation, Options, Ownership, Represented, TarKind, TarOperand,
};

use super::{AppletCall, CliTool};
use crate::cluster::stdout_is_terminal;
use crate::flags::{Arguments, SharedArguments};
use crate::messages::{self, Charset};
use crate::option_files::{is_descriptor, is_descriptor_path};
use crate::report::{Console, complain};
use crate::task::{CliTask, Executors};
use flags::COMMAND;
use names::{ListEnd, TarNames};

pub(super) const TOOL: CliTool = CliTool {
    name: "tar",
    programs: &[],
    about: "create, list or extract archives",
    document: || COMMAND.document(),
    main,
};

/// Exit status if anything failed.
const TROUBLE: u8 = 2;

#[derive(Debug, Default)]
struct TarArguments {
    shared: SharedArguments,
    create: bool,
    extract: bool,
    list: bool,
    file: Vec<OsString>,
    /// Directories to change to, names, and files with names, in order.
    steps: Vec<TarStep>,
    verbose: u8,
    /// Compression methods, in order.
    methods: Vec<CompressionMethod>,
    program: Vec<OsString>,
    /// Exclusion patterns, and files with patterns, in order.
    excluding: Vec<Excluding>,
    /// True if patterns that follow are anchored.
    anchored: bool,
    absolute_names: bool,
    xattrs: bool,
    xattrs_include: Vec<Vec<u8>>,
    xattrs_exclude: Vec<Vec<u8>>,
    acls: bool,
    sparse: bool,
    numeric_owner: bool,
    format: Option<Format>,
    /// True if a format was requested after attributes that only one format can store.
    format_is_last: bool,
    order: Option<MemberOrder>,
    dereference: bool,
    one_file_system: bool,
    owner: Option<Represented>,
    group: Option<Represented>,
    mode: Vec<ModeChange>,
    modified: Option<Timestamp>,
    index: bool,
    same_permissions: Option<bool>,
    /// Rules for existing files, each with its flag.
    existing: Vec<(&'static str, Existing)>,
    ownership: Option<Ownership>,
    touch: bool,
    strip_components: usize,
    keep_directory_symlink: bool,
    to_stdout: bool,
    ignore_zeros: bool,
}

/// Requested compression of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CompressionMethod {
    Gzip,
    Bzip2,
    Zstd,
    Xz,
    Lzma,
    Lzip,
    Compress,
    Program,
    ByName,
}

/// An exclusion pattern, or a file with patterns.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Excluding {
    text: OsString,
    is_file: bool,
    /// True if `--anchored` came before it.
    is_anchored: bool,
}

/// An argument whose position matters.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TarStep {
    Directory(OsString),
    Name(OsString),
    /// A list, and whether its exclusions are anchored.
    NamesFrom {
        file: OsString,
        is_anchored: bool,
    },
    /// `true` to archive the directories that follow with their contents.
    Recursion(bool),
    /// What the names end with in the lists that follow.
    ListEnd(ListEnd),
    /// Only in lists.
    Exclude(Excluding),
}

impl Arguments for TarArguments {
    fn shared(&mut self) -> &mut SharedArguments {
        &mut self.shared
    }

    fn operand(&mut self, word: &OsStr) {
        self.steps.push(TarStep::Name(word.to_owned()));
    }
}

fn main(call: &AppletCall<'_>) -> ExitCode {
    let words = words::unbundled(call.words, |letter| COMMAND.letter_takes_argument(letter));
    let line = match call.read(&COMMAND, &words, TROUBLE) {
        Ok(line) => line,
        Err(status) => return status,
    };
    let messages = call.messages().with_sentences(messages::flow::in_tar);
    match line.lower() {
        Ok(task) => call.run_anywhere(messages, &line.shared.run, &task),
        Err(sentence) => call.refuse_with(TROUBLE, || {
            complain(&messages.wrong_usage(&sentence));
        }),
    }
}

impl TarArguments {
    fn lower(&self) -> Result<TarTask, String> {
        let operation = self.operation()?;
        let archive = self.archive()?;
        let TarNames { named, directory, excluding, lists, with_nul, .. } =
            TarNames::of(&self.steps, operation, self.shared.files)?;
        let excluding_files = self.excluding.iter().chain(&excluding).filter(|excluding| excluding.is_file);
        let mut read = lists.iter().chain(excluding_files.map(|excluding| &excluding.text));
        let needs_descriptors =
            read.any(is_descriptor) || (archive == ArchivePath::Standard && operation != Operation::Create);
        // A list of names may be empty, like the result of a search.
        let has_list = self.steps.iter().any(|step| matches!(step, TarStep::NamesFrom { .. }));
        if operation == Operation::Create && named.is_empty() && !has_list {
            return Err(Kind::from(TarKind::EmptyArchive).sentence().to_owned());
        }
        let is_name = |step: &&TarStep| matches!(step, TarStep::Name(_) | TarStep::NamesFrom { .. });
        let mut trailing = self.steps.iter().rev().take_while(|step| !is_name(step));
        let useless = trailing.find_map(|step| match step {
            TarStep::Recursion(false) => Some("--no-recursion"),
            TarStep::ListEnd(ListEnd::Nul) => Some("--null"),
            TarStep::ListEnd(ListEnd::Newline) => Some("--no-null"),
            _ => None,
        });
        if let Some(flag) = useless.filter(|_| operation == Operation::Create) {
            return Err(format!("{flag} has no effect after the last name"));
        }
        let mut attributes = Attributes::empty();
        attributes.set(Attributes::XATTR, self.wants_xattrs());
        attributes.set(Attributes::ACL, self.acls);
        attributes.set(Attributes::HOLES, self.sparse);
        let options = Options {
            operation,
            compression: self.compression(&archive)?,
            program: self.program.clone(),
            archive,
            verbose: self.verbose,
            named,
            directory,
            excludes: self.excludes(&excluding)?,
            utf8: Charset::of_process() == Charset::Utf8,
            attributes,
            xattrs_include: self.xattrs_include.clone(),
            xattrs_exclude: self.xattrs_exclude.clone(),
            confinement: if self.absolute_names { Confinement::Absolute } else { Confinement::Confined },
            numeric_owner: self.numeric_owner,
            format: self.format()?,
            order: self.order.unwrap_or(MemberOrder::Entry),
            links: if self.dereference { Links::Followed } else { Links::Kept },
            one_file_system: self.one_file_system,
            owner: self.owner.clone(),
            group: self.group.clone(),
            mode: self.mode.clone(),
            modified: self.modified,
            index: self.index,
            several_processes: self.shared.run.hosts.clients.is_some() || crate::cluster::is_under_launcher(),
            existing: self.existing()?,
            ownership: self.ownership.unwrap_or(Ownership::ByUser),
            same_permissions: self.same_permissions,
            touch: self.touch,
            strip_components: self.strip_components,
            keep_directory_symlink: self.keep_directory_symlink,
            to_stdout: self.to_stdout,
            ignore_zeros: self.ignore_zeros,
        };
        Ok(TarTask { options, with_nul, needs_descriptors })
    }

    /// Returns the format to write. Only POSIX.1-2001 (pax) can store attributes, and hole maps as
    /// haul writes them. As in GNU tar, attributes requested after another format select pax.
    fn format(&self) -> Result<Format, String> {
        let format = self.format.unwrap_or(Format::Pax);
        let is_old = self.create && format != Format::Pax;
        let xattrs = self.wants_xattrs();
        if is_old && self.sparse {
            return Err("-S requires --format=pax: other formats cannot describe holes".to_owned());
        }
        if is_old && self.format_is_last {
            let attributes = if xattrs { "xattrs" } else { "acls" };
            return Err(format!("--{attributes} can be used only on POSIX archives"));
        }
        Ok(if xattrs || self.acls { Format::Pax } else { format })
    }

    /// Returns the patterns on the command line, and those in lists.
    fn excludes(&self, listed: &[Excluding]) -> Result<Vec<Exclude>, String> {
        let mut excludes = Vec::new();
        for Excluding { text, is_file, is_anchored } in self.excluding.iter().chain(listed) {
            let mut patterns = if *is_file {
                words::lines(self.shared.files, text)?
            } else {
                vec![text.as_bytes().to_vec()]
            };
            if *is_file {
                // White space at the end of a line, such as that of Windows, doesn't count.
                patterns.iter_mut().for_each(|line| line.truncate(line.trim_ascii_end().len()));
                patterns.retain(|line| !line.is_empty());
            }
            let exclude = |pattern: Vec<u8>| Exclude { anchored: *is_anchored, ..Exclude::of(&pattern) };
            excludes.extend(patterns.into_iter().map(exclude));
        }
        Ok(excludes)
    }

    fn operation(&self) -> Result<Operation, String> {
        match (self.create, self.extract, self.list) {
            (true, false, false) => Ok(Operation::Create),
            (false, true, false) => Ok(Operation::Extract),
            (false, false, true) => Ok(Operation::List),
            (false, false, false) => Err("You must specify one of the '-ctx' options".to_owned()),
            _ => Err("You may not specify more than one '-ctx' option".to_owned()),
        }
    }

    fn archive(&self) -> Result<ArchivePath, String> {
        if self.file.len() > 1 {
            return Err("Multiple archive files require '-M' option, which haul tar does not have".to_owned());
        }
        match self.file.first().cloned().or_else(|| std::env::var_os("TAPE")) {
            None => Ok(ArchivePath::Standard),
            Some(file) if file == "-" => Ok(ArchivePath::Standard),
            Some(file) => words::c_string(&file).map(ArchivePath::File),
        }
    }

    fn wants_xattrs(&self) -> bool {
        self.xattrs || !self.xattrs_include.is_empty() || !self.xattrs_exclude.is_empty()
    }

    /// Returns how the archive is compressed, or why that is impossible.
    fn compression(&self, archive: &ArchivePath) -> Result<Compression, String> {
        let method = self.methods.first().copied();
        if self.methods.iter().any(|other| Some(*other) != method) {
            return Err("Conflicting compression options".to_owned());
        }
        let name = match archive {
            ArchivePath::File(name) if method == Some(CompressionMethod::ByName) => name.to_bytes(),
            _ => b"",
        };
        let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending.as_bytes()));
        let unwritten = [
            (method == Some(CompressionMethod::Lzma) || ends(&[".lzma", ".tlz"]), "lzma"),
            (method == Some(CompressionMethod::Lzip) || ends(&[".lz"]), "lzip"),
            (method == Some(CompressionMethod::Compress) || ends(&[".Z", ".taZ"]), "compress"),
            (ends(&[".lzo"]), "lzop"),
        ];
        if let Some((_, program)) = unwritten.iter().find(|(is_wanted, _)| *is_wanted && self.create) {
            return Err(format!(
                "haul tar can read {program} archives, but not create them; use -I {program}"
            ));
        }
        Ok(if method == Some(CompressionMethod::Gzip) || ends(&[".gz", ".tgz", ".taz"]) {
            Compression::Gzip
        } else if method == Some(CompressionMethod::Bzip2) || ends(&[".bz2", ".tbz", ".tbz2", ".tz2"]) {
            Compression::Bzip2
        } else if method == Some(CompressionMethod::Zstd) || ends(&[".zst", ".tzst"]) {
            Compression::Zstd
        } else if method == Some(CompressionMethod::Xz) || ends(&[".xz", ".txz"]) {
            Compression::Xz
        } else {
            Compression::None
        })
    }

    fn existing(&self) -> Result<Existing, String> {
        let mut given = self.existing.iter();
        let Some((flag, existing)) = given.next() else { return Ok(Existing::Replace) };
        match given.find(|(other, _)| other != flag) {
            Some((other, _)) => Err(format!("options {flag} and {other} are mutually exclusive")),
            None => Ok(*existing),
        }
    }

    fn exclude(&mut self, text: OsString, is_file: bool) {
        self.excluding.push(Excluding { text, is_file, is_anchored: self.anchored });
    }

    /// Records that attributes are requested. They override a format requested before.
    fn wants_attributes(&mut self) {
        self.format_is_last = false;
    }
}

struct TarTask {
    options: Options,
    /// Lists of lines that have a NUL in them.
    with_nul: Vec<OsString>,
    /// True if lists, or the archive to read, come from standard input or another descriptor.
    needs_descriptors: bool,
}

impl TarTask {
    fn done(&self, executor: &impl Executors, config: &Config, report: &dyn Reporter) -> u8 {
        for list in &self.with_nul {
            report.problem(Problem::new(TarKind::NulInList).naming(list.as_bytes()).as_warning());
        }
        let standard = self.options.archive == ArchivePath::Standard;
        match self.options.operation {
            Operation::Create if standard && stdout_is_terminal() => {
                report.problem(Problem::new(TarKind::Terminal));
                TROUBLE
            }
            Operation::Extract | Operation::List if standard && io::stdin().is_terminal() => {
                report.problem(Problem::new(TarKind::TerminalInput));
                TROUBLE
            }
            Operation::Create => haul_tar::create(executor, &self.options, config, report),
            Operation::Extract => haul_tar::extract(executor, &self.options, config, report),
            Operation::List => haul_tar::list(&self.options, report),
        }
    }
}

impl CliTask for TarTask {
    fn run(&self, executor: &impl Executors, config: &Config, console: &Console) -> u8 {
        let to_standard =
            self.options.operation == Operation::Create && self.options.archive == ArchivePath::Standard;
        if to_standard || self.options.to_stdout {
            return self.done(executor, config, &LinesOnStderr(console));
        }
        self.done(executor, config, console)
    }

    fn exit_status(&self, status: u8, trouble: bool) -> u8 {
        if trouble { TROUBLE } else { status }
    }

    fn needs_descriptors(&self) -> bool {
        self.needs_descriptors
            || self.operands().into_iter().any(|operand| is_descriptor_path(operand.to_bytes()))
    }

    fn operands(&self) -> Vec<&CStr> {
        let archive = match &self.options.archive {
            ArchivePath::File(path) => Some(path.as_c_str()),
            ArchivePath::Standard => None,
        };
        archive.into_iter().chain(self.options.named.iter().map(|named| named.name.as_c_str())).collect()
    }

    fn shared_path(&self) -> Option<&Path> {
        let first = self.options.named.first().map(|named: &TarOperand| &named.name);
        let path: Option<&CString> = match &self.options.archive {
            ArchivePath::File(path) => Some(path),
            ArchivePath::Standard => first,
        };
        path.map(|path| Path::new(std::ffi::OsStr::from_bytes(path.to_bytes())))
    }
}

/// Sends lines to standard error, because standard output has the archive or the members' content.
struct LinesOnStderr<'a>(&'a Console);

impl Reporter for LinesOnStderr<'_> {
    fn started(&self, info: RunInfo) {
        self.0.started(info);
    }

    fn count(&self, more: Tally) {
        self.0.count(more);
    }

    fn problem(&self, problem: Problem) {
        self.0.problem(problem);
    }

    fn line(&self, line: OutputLine) {
        self.0.line_on_stderr(&line);
    }

    fn output(&self, stream: Standard, bytes: &[u8]) {
        self.0.output(stream, bytes);
    }

    fn has_lost_output(&self) -> bool {
        self.0.has_lost_output()
    }

    fn entry(&self, entry: EntryReport) {
        self.0.entry(entry);
    }

    fn wants_entries(&self) -> bool {
        self.0.wants_entries()
    }

    fn slow_ranks(&self, slow: Vec<SlowRank>) {
        self.0.slow_ranks(slow);
    }

    fn note(&self, printed: &[u8]) {
        self.0.note(printed);
    }

    fn debug(&self, text: &str) {
        self.0.debug(text);
    }

    fn wants_debug(&self) -> bool {
        self.0.wants_debug()
    }
}
