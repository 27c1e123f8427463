//! `haul tar`: archives, with the options of GNU tar.
//!
//! `values.rs` parses arguments with a grammar of their own (times, modes, owners), `words.rs` the
//! other spellings of options: bundles without a hyphen, and lists of names in files.

mod values;
mod words;

use std::ffi::{CString, OsString};
use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};
use haul_flow::{Config, Line as Said, Problem, Report, RunInfo, Tally};
use haul_sys::Standard;
use haul_tar::{
    self, Archive, Attributes, Compression, Confinement, Exclude, Existing, Format, Links, MemberOrder,
    Named, Operation, Options, Ownership, TarKind,
};

use super::{Call, Tool};
use crate::messages::{self, Charset};
use crate::report::{Console, complain};
use crate::shared::{Read, Shared};
use crate::work::{Executors, RunOptions, Work};

pub(super) const TOOL: Tool = Tool {
    name: "tar",
    programs: &[],
    about: "make, list or extract archives",
    // In tar, -j means bzip2.
    flags: || Line::command().mut_arg("jobs", |flag| flag.short(None)),
    main,
};

/// Exit status if anything failed.
const TROUBLE: u8 = 2;

/// Make, list or extract archives, with every member in flight at once.
#[derive(Debug, Parser)]
#[command(
    name = "haul tar",
    disable_help_flag = true,
    disable_version_flag = true,
    version,
    args_override_self = true,
    override_usage = "haul tar -c|-x|-t [OPTION]... [-f ARCHIVE] [-C DIR] [NAME]...",
    after_help = "\
The first word may be a bundle of letters without a hyphen, as in 'haul tar cvf ARCHIVE NAME'.
Archives are in the format of POSIX.1-2001 and are read and written by every other tar. Without -f, the archive is what the
environment variable TAPE names, or standard input or output.

Exit status is 0 if all went well, 1 if a file changed while it was archived, 2 if anything failed.

Examples:
  haul tar -cf project.tar project
  haul tar -c --sort=name --owner=0 --group=0 --mtime=@0 --zstd -f project.tar.zst project
  haul tar -xf project.tar -C /srv
  haul tar tvf project.tar"
)]
struct Line {
    /// Make an archive of NAMEs
    #[arg(short = 'c', long)]
    create: bool,
    /// Extract members, all if none are named
    #[arg(short = 'x', long, visible_alias = "get")]
    extract: bool,
    /// List members, all if none are named
    #[arg(short = 't', long)]
    list: bool,
    /// Use ARCHIVE; - is standard input or output
    #[arg(short = 'f', long, value_name = "ARCHIVE")]
    file: Vec<OsString>,
    /// Go to DIR before the NAMEs that follow
    #[arg(short = 'C', long, value_name = "DIR")]
    directory: Vec<OsString>,
    /// Name the members as they are done; twice, with all about them
    #[arg(short = 'v', long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Compress with gzip
    #[arg(short = 'z', long, visible_aliases = ["gunzip", "ungzip"], group = "compressed")]
    gzip: bool,
    /// Compress with bzip2
    #[arg(short = 'j', long, group = "compressed")]
    bzip2: bool,
    /// Compress with zstd
    #[arg(long, group = "compressed")]
    zstd: bool,
    /// Compress with xz
    #[arg(short = 'J', long, group = "compressed")]
    xz: bool,
    /// Read an archive that lzma has compressed; any is recognized without the option
    #[arg(long, group = "compressed")]
    lzma: bool,
    /// Read an archive that lzip has compressed
    #[arg(long, group = "compressed")]
    lzip: bool,
    /// Read an archive that compress has compressed
    #[arg(short = 'Z', long, visible_alias = "uncompress", group = "compressed")]
    compress: bool,
    /// Compress with PROGRAM, and decompress with PROGRAM -d; its arguments follow it
    #[arg(short = 'I', long, value_name = "PROGRAM", group = "compressed")]
    use_compress_program: Option<String>,
    /// Compress as the name of the archive says
    #[arg(short = 'a', long, group = "compressed")]
    auto_compress: bool,
    /// Leave out what has a name that matches PATTERN
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<OsString>,
    /// Leave out what matches a pattern in FILE
    #[arg(short = 'X', long, value_name = "FILE")]
    exclude_from: Vec<OsString>,
    /// Match patterns that follow from the beginning of names only
    #[arg(long)]
    anchored: bool,
    /// Take NAMEs from FILE, one a line
    #[arg(short = 'T', long, value_name = "FILE")]
    files_from: Vec<OsString>,
    /// End names in files of -T with NUL
    #[arg(long)]
    null: bool,
    /// Keep slashes at the beginning of names, and '..' in them
    #[arg(short = 'P', long)]
    absolute_names: bool,
    /// Archive and set extended attributes
    #[arg(long)]
    xattrs: bool,
    /// Archive and set extended attributes that match PATTERN; without, only those of 'user.' are
    /// set
    #[arg(long, value_name = "PATTERN")]
    xattrs_include: Vec<OsString>,
    /// Archive and set no extended attributes that match PATTERN
    #[arg(long, value_name = "PATTERN")]
    xattrs_exclude: Vec<OsString>,
    /// Archive and set access lists
    #[arg(long)]
    acls: bool,
    /// Archive files with holes without them
    #[arg(short = 'S', long)]
    sparse: bool,
    /// Use the numbers of users and groups, not their names
    #[arg(long)]
    numeric_owner: bool,

    /// Write the format NAME
    #[arg(long, value_name = "NAME", value_parser = ["pax", "posix", "gnu", "ustar"], default_value = "pax",
        hide_default_value = true, help_heading = "To make archives")]
    format: String,
    /// Order members in each directory as they are found, by inode, or by name: the same archive in
    /// every run and over ranks
    #[arg(long, value_name = "ORDER", value_parser = ["none", "inode", "name"], default_value = "none",
        hide_default_value = true, help_heading = "To make archives")]
    sort: String,
    /// Archive what symbolic links lead to
    #[arg(short = 'h', long, help_heading = "To make archives")]
    dereference: bool,
    /// Stay on the file systems of the NAMEs
    #[arg(long, help_heading = "To make archives")]
    one_file_system: bool,
    /// Archive directories without what is in them
    #[arg(long, help_heading = "To make archives")]
    no_recursion: bool,
    /// Make members belong to NAME, a number, or NAME:NUMBER
    #[arg(long, value_name = "NAME[:UID]", help_heading = "To make archives")]
    owner: Option<OsString>,
    /// Give members the group NAME, a number, or NAME:NUMBER
    #[arg(long, value_name = "NAME[:GID]", help_heading = "To make archives")]
    group: Option<OsString>,
    /// Change members' modes as chmod would
    #[arg(long, value_name = "CHANGES", value_parser = values::mode, help_heading = "To make archives")]
    mode: Option<values::Modes>,
    #[arg(
        help = "Give members the time DATE: @SECONDS, YYYY-MM-DD [HH:MM[:SS]] with UTC or not, or that of the file of a path",
        long,
        value_name = "DATE",
        help_heading = "To make archives"
    )]
    mtime: Option<OsString>,
    /// Append an index, by which haul finds members faster; other tars do not see it
    #[arg(long, help_heading = "To make archives")]
    index: bool,

    /// Set modes as they are archived, without regard to the umask (what root does anyway)
    #[arg(short = 'p', long, visible_alias = "same-permissions", help_heading = "To extract archives")]
    preserve_permissions: bool,
    /// Apply the umask to modes (what others than root do anyway)
    #[arg(long, conflicts_with = "preserve_permissions", help_heading = "To extract archives")]
    no_same_permissions: bool,
    /// Keep files that are there; that is an error
    #[arg(short = 'k', long, group = "there", help_heading = "To extract archives")]
    keep_old_files: bool,
    /// Keep files that are there
    #[arg(long, group = "there", help_heading = "To extract archives")]
    skip_old_files: bool,
    /// Overwrite files that are there in place
    #[arg(long, group = "there", help_heading = "To extract archives")]
    overwrite: bool,
    /// Give files to the owners they had (what root does anyway)
    #[arg(long, help_heading = "To extract archives")]
    same_owner: bool,
    /// Keep files for yourself (what others than root do anyway)
    #[arg(short = 'o', long, conflicts_with = "same_owner", help_heading = "To extract archives")]
    no_same_owner: bool,
    /// Leave the times of the extraction
    #[arg(short = 'm', long, help_heading = "To extract archives")]
    touch: bool,
    /// Take N leading components of names away
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        hide_default_value = true,
        help_heading = "To extract archives"
    )]
    strip_components: usize,
    /// Extract below links to directories that stand where a directory belongs
    #[arg(long, help_heading = "To extract archives")]
    keep_directory_symlink: bool,
    /// Write the content of members to standard output
    #[arg(short = 'O', long, help_heading = "To extract archives")]
    to_stdout: bool,
    /// Go on behind blocks of zeros
    #[arg(short = 'i', long, help_heading = "To extract archives")]
    ignore_zeros: bool,

    /// What to archive; which members to extract or list
    #[arg(value_name = "NAME")]
    names: Vec<OsString>,
    #[command(flatten)]
    shared: Shared,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// Print the version
    #[arg(long, action = clap::ArgAction::Version)]
    version: Option<bool>,
}

/// A command line, with the order of what depends on it.
#[derive(Debug)]
struct Asked {
    line: Line,
    /// Directories to change to, names, and files with names, in order.
    steps: Vec<Step>,
    /// Exclusion patterns, and files with patterns.
    excluding: Vec<Excluding>,
    /// True if a format is requested after attributes that only one format has room for.
    format_is_last: bool,
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
enum Step {
    Directory(OsString),
    Name(OsString),
    NamesFrom(OsString),
}

impl FromArgMatches for Asked {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut steps = Vec::new();
        let mut add = |id: &str, step: fn(OsString) -> Step| {
            let places = matches.indices_of(id).into_iter().flatten();
            let values = matches.get_many::<OsString>(id).into_iter().flatten().cloned();
            steps.extend(places.zip(values.map(step)));
        };
        add("directory", Step::Directory);
        add("names", Step::Name);
        add("files_from", Step::NamesFrom);
        steps.sort_by_key(|(place, _)| *place);
        let steps = steps.into_iter().map(|(_, step)| step).collect();
        let line = Line::from_arg_matches(matches)?;
        let anchored_from = matches.index_of("anchored").filter(|_| line.anchored);
        let mut excluding = Vec::new();
        for (id, is_file) in [("exclude", false), ("exclude_from", true)] {
            let places = matches.indices_of(id).into_iter().flatten();
            let texts = matches.get_many::<OsString>(id).into_iter().flatten().cloned();
            excluding.extend(places.zip(texts).map(|(place, text)| {
                let is_anchored = anchored_from.is_some_and(|from| from < place);
                Excluding { text, is_file, is_anchored }
            }));
        }
        let last_of = |id, is_given: bool| matches.indices_of(id).filter(|_| is_given)?.next_back();
        let patterns = ["xattrs_include", "xattrs_exclude"].map(|id| last_of(id, line.wants_xattrs()));
        let xattrs = last_of("xattrs", line.xattrs).max(patterns[0]).max(patterns[1]);
        let attributes = xattrs.max(last_of("acls", line.acls));
        let format_is_last = attributes.is_some() && attributes < last_of("format", true);
        Ok(Self { line, steps, excluding, format_is_last })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn main(call: &Call<'_>) -> ExitCode {
    let words = words::unbundled(call.words);
    let asked = match call.read_words::<Asked>(&words, TROUBLE) {
        Read::Asked(asked) => asked,
        Read::Over(status) => return status,
    };
    let messages = call.messages().saying(messages::tar::of_flow);
    let options = match asked.options() {
        Ok(options) => options,
        Err(sentence) => {
            complain(&messages.wrong_usage(&sentence));
            return ExitCode::from(TROUBLE);
        }
    };
    call.carry_out(messages, &RunOptions::from(&asked.line.shared), &Archiving { options })
}

impl Asked {
    /// Lowers the command line.
    fn options(&self) -> Result<Options, String> {
        let line = &self.line;
        let operation = line.operation()?;
        let archive = line.archive()?;
        let (named, directory) = words::named(&self.steps, line.null)?;
        // A list of names may be empty, like the result of a search.
        if operation == Operation::Create && named.is_empty() && line.files_from.is_empty() {
            return Err(messages::tar::sentence(TarKind::EmptyArchive).to_owned());
        }
        let mut attributes = Attributes::empty();
        attributes.set(Attributes::XATTR, line.wants_xattrs());
        attributes.set(Attributes::ACL, line.acls);
        attributes.set(Attributes::HOLES, line.sparse);
        Ok(Options {
            operation,
            compression: line.compression(&archive)?,
            program: line.program(),
            archive,
            verbose: line.verbose,
            named,
            directory,
            excludes: self.excludes()?,
            utf8: Charset::of_process() == Charset::Utf8,
            attributes,
            xattrs_include: bytes(&line.xattrs_include),
            xattrs_exclude: bytes(&line.xattrs_exclude),
            confinement: if line.absolute_names { Confinement::Absolute } else { Confinement::Confined },
            numeric_owner: line.numeric_owner,
            format: self.format()?,
            order: match line.sort.as_str() {
                "name" => MemberOrder::Name,
                "inode" => MemberOrder::Inode,
                _ => MemberOrder::Entry,
            },
            links: if line.dereference { Links::Followed } else { Links::Kept },
            one_file_system: line.one_file_system,
            recursive: !line.no_recursion,
            owner: line.owner.as_deref().map(values::owner).transpose()?,
            group: line.group.as_deref().map(values::group).transpose()?,
            mode: line.mode.clone().map(|values::Modes(changes)| changes).unwrap_or_default(),
            modified: line.mtime.as_deref().map(values::time).transpose()?,
            index: line.index,
            several_processes: line.shared.clients.is_some() || crate::cluster::is_under_launcher(),
            existing: line.existing(),
            ownership: match (line.same_owner, line.no_same_owner) {
                (true, _) => Ownership::Same,
                (_, true) => Ownership::Own,
                _ => Ownership::ByUser,
            },
            same_permissions: match (line.preserve_permissions, line.no_same_permissions) {
                (true, _) => Some(true),
                (_, true) => Some(false),
                _ => None,
            },
            touch: line.touch,
            strip_components: line.strip_components,
            keep_directory_symlink: line.keep_directory_symlink,
            to_stdout: line.to_stdout,
            ignore_zeros: line.ignore_zeros,
        })
    }

    /// Returns the format to write. Only POSIX.1-2001 (pax) has room for attributes, and for
    /// hole maps as haul writes them. As in GNU tar, attributes requested after another format
    /// select pax.
    fn format(&self) -> Result<Format, String> {
        let Line { create, sparse, acls, .. } = self.line;
        let xattrs = self.line.wants_xattrs();
        match self.line.format.as_str() {
            "gnu" | "ustar" if create && sparse => {
                Err("-S wants --format=pax: others have no room for the map of a file".to_owned())
            }
            "gnu" | "ustar" if create && self.format_is_last => {
                let attributes = if xattrs { "xattrs" } else { "acls" };
                Err(format!("--{attributes} can be used only on POSIX archives"))
            }
            _ if xattrs || acls => Ok(Format::Pax),
            "gnu" => Ok(Format::Gnu),
            "ustar" => Ok(Format::Ustar),
            _ => Ok(Format::Pax),
        }
    }

    fn excludes(&self) -> Result<Vec<Exclude>, String> {
        let mut excludes = Vec::new();
        for Excluding { text, is_file, is_anchored } in &self.excluding {
            let patterns = if *is_file { words::lines(text, b'\n')? } else { vec![text.as_bytes().to_vec()] };
            let exclude = |pattern: Vec<u8>| Exclude { anchored: *is_anchored, ..Exclude::of(&pattern) };
            excludes.extend(patterns.into_iter().map(exclude));
        }
        Ok(excludes)
    }
}

fn bytes(words: &[OsString]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

impl Line {
    fn operation(&self) -> Result<Operation, String> {
        match (self.create, self.extract, self.list) {
            (true, false, false) => Ok(Operation::Create),
            (false, true, false) => Ok(Operation::Extract),
            (false, false, true) => Ok(Operation::List),
            (false, false, false) => Err("You must specify one of the '-ctx' options".to_owned()),
            _ => Err("You may not specify more than one '-ctx' option".to_owned()),
        }
    }

    fn archive(&self) -> Result<Archive, String> {
        if self.file.len() > 1 {
            return Err("Multiple archive files require '-M' option, which haul tar has not".to_owned());
        }
        match self.file.first().cloned().or_else(|| std::env::var_os("TAPE")) {
            None => Ok(Archive::Standard),
            Some(file) if file == "-" => Ok(Archive::Standard),
            Some(file) => words::c_string(&file).map(Archive::File),
        }
    }

    fn wants_xattrs(&self) -> bool {
        self.xattrs || !self.xattrs_include.is_empty() || !self.xattrs_exclude.is_empty()
    }

    /// Splits the program of -I and its arguments at blanks.
    fn program(&self) -> Vec<OsString> {
        let text = self.use_compress_program.as_deref().unwrap_or_default();
        text.split_ascii_whitespace().map(OsString::from).collect()
    }

    /// Returns how the archive is compressed, or why that is impossible.
    fn compression(&self, archive: &Archive) -> Result<Compression, String> {
        let name = match archive {
            Archive::File(name) if self.auto_compress => name.to_bytes(),
            _ => b"",
        };
        let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending.as_bytes()));
        let unwritten = [
            (self.lzma || ends(&[".lzma", ".tlz"]), "lzma"),
            (self.lzip || ends(&[".lz"]), "lzip"),
            (self.compress || ends(&[".Z", ".taZ"]), "compress"),
            (ends(&[".lzo"]), "lzop"),
        ];
        if let Some((_, program)) = unwritten.iter().find(|(is_wanted, _)| *is_wanted && self.create) {
            return Err(format!(
                "haul tar reads archives of {program}, but does not make them; use -I {program}"
            ));
        }
        Ok(if self.gzip || ends(&[".gz", ".tgz", ".taz"]) {
            Compression::Gzip
        } else if self.bzip2 || ends(&[".bz2", ".tbz", ".tbz2", ".tz2"]) {
            Compression::Bzip2
        } else if self.zstd || ends(&[".zst", ".tzst"]) {
            Compression::Zstd
        } else if self.xz || ends(&[".xz", ".txz"]) {
            Compression::Xz
        } else {
            Compression::None
        })
    }

    fn existing(&self) -> Existing {
        match (self.keep_old_files, self.skip_old_files, self.overwrite) {
            (true, ..) => Existing::Keep,
            (_, true, _) => Existing::Skip,
            (_, _, true) => Existing::Overwrite,
            _ => Existing::Replace,
        }
    }
}

/// An archive operation as [`Work`].
struct Archiving {
    options: Options,
}

impl Archiving {
    fn done(&self, executor: &impl Executors, config: &Config, report: &dyn Report) -> u8 {
        let standard = self.options.archive == Archive::Standard;
        match self.options.operation {
            Operation::Create if standard && std::io::stdout().is_terminal() => {
                report.problem(Problem::new(TarKind::Terminal));
                TROUBLE
            }
            Operation::Create => haul_tar::create(executor, &self.options, config, report),
            Operation::Extract => haul_tar::extract(executor, &self.options, config, report),
            Operation::List => haul_tar::list(&self.options, report),
        }
    }
}

impl Work for Archiving {
    fn done_by(&self, executor: &impl Executors, config: &Config, console: &Console) -> u8 {
        let to_standard =
            self.options.operation == Operation::Create && self.options.archive == Archive::Standard;
        if to_standard || self.options.to_stdout {
            return self.done(executor, config, &Aside(console));
        }
        self.done(executor, config, console)
    }

    fn exit_status(&self, status: u8, trouble: bool) -> u8 {
        if trouble { TROUBLE } else { status }
    }

    fn place(&self) -> Option<&Path> {
        let first = self.options.named.first().map(|named: &Named| &named.name);
        let path: Option<&CString> = match &self.options.archive {
            Archive::File(path) => Some(path),
            Archive::Standard => first,
        };
        path.map(|path| Path::new(std::ffi::OsStr::from_bytes(path.to_bytes())))
    }
}

/// Sends lines to standard error, because standard output has the archive or the members' content.
struct Aside<'a>(&'a Console);

impl Report for Aside<'_> {
    fn started(&self, info: RunInfo) {
        self.0.started(info);
    }

    fn count(&self, more: Tally) {
        self.0.count(more);
    }

    fn problem(&self, problem: Problem) {
        self.0.problem(problem);
    }

    fn line(&self, line: Said) {
        self.0.line_aside(&line);
    }

    fn output(&self, stream: Standard, bytes: &[u8]) {
        self.0.output(stream, bytes);
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
