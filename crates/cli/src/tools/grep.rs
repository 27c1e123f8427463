//! `haul grep`: GNU grep's command line (`flags.rs`), lowered and run.

mod flags;

use std::collections::{HashSet, VecDeque};
use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::ExitCode;
use std::{io, iter};

use haul_flow::{Config, EntryReport, OutputLine, Problem, Reporter, RunInfo, Severity, SlowRank, Tally};
use haul_grep::{
    Binary, Colors, Devices, Directories, Extent, Grep, GrepKind, GrepOperand, GrepOptions, NamePrefix,
    Query, ResultOrder, Rule, Show, Syntax,
};
use haul_sys::{Standard, reason};

use super::{AppletCall, CliTool};
use crate::cluster::stdout_is_terminal;
use crate::flags::When;
use crate::messages::{self, Charset};
use crate::option_files::{is_descriptor, is_descriptor_path};
use crate::report::{Console, complain};
use crate::task::{CliTask, Executors};
use flags::{COMMAND, FileChoice, GrepArguments, PatternSource};

/// Exit status of a search with an error.
const TROUBLE: u8 = 2;

pub(super) const TOOL: CliTool = CliTool {
    name: "grep",
    programs: &[],
    about: "search files and trees for lines that match patterns, as grep does",
    document: || COMMAND.document(),
    main,
};

fn main(call: &AppletCall<'_>) -> ExitCode {
    let line = match call.read(&COMMAND, call.words, TROUBLE) {
        Ok(line) => line,
        Err(status) => return status,
    };
    let messages = call.messages().with_sentences(messages::flow::in_grep);
    let refuse = |reasons: &[String]| {
        call.refuse_with(TROUBLE, || {
            for why in reasons {
                complain(&messages.debug(why));
            }
        })
    };
    let mut search = match line.lower() {
        Ok(search) => search,
        Err(GrepUsageError::Value(why)) => return refuse(&[why]),
        Err(GrepUsageError::Nothing) => {
            return call.refuse_with(TROUBLE, || {
                complain(&messages.wrong_usage("no pattern is given"));
            });
        }
    };
    if selects_nothing(&search.options) {
        // Ranks that have not read the patterns join the run, so all have to.
        let is_rank = !call.stands_in && crate::cluster::is_under_launcher();
        if !is_rank || search.options.max == Some(0) || line.option_files().next().is_none() {
            return ExitCode::from(1);
        }
        search.named.clear();
    }
    let warn = |warning: &str| {
        if call.prints_messages() {
            complain(&messages.debug(warning));
        }
    };
    line.warnings().iter().for_each(|warning| warn(warning));
    let mut warnings = Vec::new();
    let grep = match Grep::new(search.options.clone(), &mut warnings) {
        Ok(grep) => grep,
        Err(error) => {
            let place = |index: usize| search.places.get(index)?.clone();
            return refuse(&messages::grep::invalid_patterns(&error, place));
        }
    };
    warnings.iter().for_each(|warning| warn(messages::grep::of_warning(*warning)));
    let run_options = &line.shared.run;
    // Dying of a broken pipe would abandon a process group.
    let is_alone = run_options.hosts.clients.is_none() && !crate::cluster::is_under_launcher();
    // A reader of events or of a log may go before the end, and a socket has to be removed at it.
    let writes_aside = run_options.events.is_some() || run_options.log_file.is_some();
    if is_alone && !writes_aside && run_options.control.is_none() {
        haul_sys::end_at_broken_pipe();
    }
    call.run_anywhere(messages, run_options, &GrepTask { grep, search })
}

/// True if no line can be selected. Then, as in GNU grep, no file is examined, patterns are not
/// parsed, and not even counts are printed.
fn selects_nothing(options: &GrepOptions) -> bool {
    let Query { patterns, extent, .. } = &options.query;
    let by_patterns = if patterns.is_empty() {
        !options.invert
    } else {
        options.invert && *extent == Extent::Part && patterns.iter().all(Vec::is_empty)
    };
    (options.max == Some(0) || by_patterns) && options.show != Show::FilesWithout
}

/// Why a command line is rejected.
enum GrepUsageError {
    /// A value is invalid.
    Value(String),
    /// There is no pattern.
    Nothing,
}

/// A lowered command line.
#[derive(Clone)]
struct GrepRequest {
    options: GrepOptions,
    /// File and line of each pattern that comes from a file.
    places: Vec<Option<String>>,
    named: Vec<GrepOperand>,
    no_messages: bool,
    /// True if standard input or another descriptor is read.
    needs_descriptors: bool,
}

impl GrepArguments {
    fn lower(&self) -> Result<GrepRequest, GrepUsageError> {
        let mut operands: VecDeque<&OsString> = self.operands.iter().collect();
        let mut given = Vec::new();
        for source in &self.patterns {
            match source {
                PatternSource::Text(text) => {
                    given.extend(lines(text.as_bytes()).into_iter().zip(iter::repeat(None)))
                }
                PatternSource::File(path) => {
                    let places = (1..).map(|number| Some(format!("{}:{number}", path.to_string_lossy())));
                    given.extend(self.contents(path).map_err(GrepUsageError::Value)?.into_iter().zip(places));
                }
            }
        }
        if self.patterns.is_empty() {
            let text = operands.pop_front().ok_or(GrepUsageError::Nothing)?;
            given.extend(lines(text.as_bytes()).into_iter().zip(iter::repeat(None)));
        }
        // As in GNU grep, so that a pattern is warned about or refused once.
        let mut seen = HashSet::new();
        given.retain(|(pattern, _)| seen.insert(pattern.clone()));
        let (patterns, places) = given.into_iter().unzip();
        let mut options = self.options(patterns, operands.len()).map_err(GrepUsageError::Value)?;
        options.files = self.rules().map_err(GrepUsageError::Value)?;
        let named = operands.iter().map(|operand| named(operand)).collect::<Result<Vec<_>, _>>();
        let mut named = named.map_err(GrepUsageError::Value)?;
        if named.is_empty() {
            let recurses = options.directories == Directories::Recurse;
            named.push(if recurses { GrepOperand::Here } else { GrepOperand::Input });
        }
        let needs_descriptors = named.contains(&GrepOperand::Input) || self.option_files().any(is_descriptor);
        Ok(GrepRequest { options, places, named, no_messages: self.no_messages, needs_descriptors })
    }

    /// Returns the files that options name.
    fn option_files(&self) -> impl Iterator<Item = &OsStr> {
        let patterns = self.patterns.iter().filter_map(|source| match source {
            PatternSource::File(path) => Some(path.as_os_str()),
            PatternSource::Text(_) => None,
        });
        let rules = self.choices.iter().filter(|(choice, _)| matches!(choice, FileChoice::ExcludeFrom));
        patterns.chain(rules.map(|(_, path)| path.as_os_str()))
    }

    /// Reads the lines of a file, or of standard input.
    fn contents(&self, path: &OsStr) -> Result<Vec<Vec<u8>>, String> {
        let read = self.shared.files.read(Path::new(path));
        let text = read.map_err(|error| format!("{}: {}", path.to_string_lossy(), reason(&error)))?;
        let text = text.strip_suffix(b"\n").map_or((text.as_slice(), !text.is_empty()), |text| (text, true));
        Ok(if text.1 { lines(text.0) } else { Vec::new() })
    }

    fn rules(&self) -> Result<Vec<Rule>, String> {
        let mut rules = Vec::new();
        for (choice, value) in &self.choices {
            match choice {
                FileChoice::Include => rules.push(rule(value, true)),
                FileChoice::Exclude => rules.push(rule(value, false)),
                FileChoice::ExcludeFrom => {
                    // White space at the end of a line doesn't count.
                    let globs = self.contents(value)?.into_iter().map(|glob| glob.trim_ascii_end().to_vec());
                    let globs = globs.filter(|glob| !glob.is_empty());
                    rules.extend(globs.map(|glob| Rule { glob, include: false }));
                }
            }
        }
        Ok(rules)
    }

    fn options(&self, patterns: Vec<Vec<u8>>, operands: usize) -> Result<GrepOptions, String> {
        let utf8 = match Charset::of_process() {
            Charset::Utf8 => true,
            Charset::Ascii => false,
            // Read as bytes, characters would match in parts, and classes and case would be wrong.
            Charset::Other(_) => {
                let name = haul_sys::character_set();
                return Err(format!(
                    "the locale's character set {name} is not supported: use UTF-8, or LC_ALL=C for bytes"
                ));
            }
        };
        let query = Query {
            patterns,
            syntax: self.syntax()?,
            ignore_case: self.ignore_case,
            extent: match (self.line_regexp, self.word_regexp) {
                (true, _) => Extent::Line,
                (false, true) => Extent::Words,
                (false, false) => Extent::Part,
            },
            utf8,
            null_data: self.null_data,
        };
        let directories = self.directories.unwrap_or(Directories::Read);
        let recurses = directories == Directories::Recurse;
        let both = context(self.context.as_deref())?;
        Ok(GrepOptions {
            query,
            show: self.show(),
            goes_nowhere: !self.quiet && goes_nowhere(),
            invert: self.invert_match,
            max: self.max_count()?,
            names: match (self.with_filename, operands) {
                (Some(true), _) | (None, 2..) => NamePrefix::Always,
                (Some(false), _) => NamePrefix::Never,
                _ if recurses => NamePrefix::InDirectories,
                _ => NamePrefix::Never,
            },
            numbers: self.line_number,
            offsets: self.byte_offset,
            initial_tab: self.initial_tab,
            null_names: self.null,
            only_matching: self.only_matching,
            before: context(self.before_context.as_deref())?.or(both),
            after: context(self.after_context.as_deref())?.or(both),
            separator: match &self.group_separator {
                Some(separator) => separator.as_ref().map(|separator| separator.as_bytes().to_vec()),
                None => Some(b"--".to_vec()),
            },
            colors: self.colors(),
            binary: self.binary.unwrap_or(Binary::Report),
            directories,
            dereference: self.dereference,
            devices: self.devices(recurses)?,
            files: Vec::new(),
            directories_excluded: self.exclude_dir.iter().map(|glob| rule(glob, false)).collect(),
            label: self.label.as_deref().unwrap_or(OsStr::new("(standard input)")).as_bytes().to_vec(),
            line_buffered: self.line_buffered,
            order: match (self.sorted, recurses) {
                (true, _) => ResultOrder::Path,
                (false, true) => ResultOrder::Entry,
                (false, false) => ResultOrder::Named,
            },
            output: haul_sys::stat(io::stdout()).ok().map(|stat| (stat.identity.device, stat.identity.inode)),
        })
    }

    fn syntax(&self) -> Result<Syntax, String> {
        let mut matchers = self.matchers.iter().copied();
        let syntax = matchers.next().unwrap_or(Syntax::Basic);
        if matchers.any(|other| other != syntax) {
            return Err("conflicting matchers specified".to_owned());
        }
        Ok(syntax)
    }

    fn show(&self) -> Show {
        if self.quiet {
            Show::Nothing
        } else if goes_nowhere() {
            // Output that nobody sees need not be complete: the exit status is known after the
            // first line.
            Show::FilesWith
        } else if let Some(list) = self.list {
            list
        } else if self.count {
            Show::Count
        } else {
            Show::Lines
        }
    }

    fn max_count(&self) -> Result<Option<u64>, String> {
        let Some(text) = self.max_count.as_deref() else { return Ok(None) };
        let number = number(&text.to_string_lossy()).ok_or("invalid max count")?;
        Ok(u64::try_from(number).ok())
    }

    fn devices(&self, recurses: bool) -> Result<Devices, String> {
        match self.devices.as_deref().and_then(OsStr::to_str) {
            Some("read") => Ok(Devices::Read),
            Some("skip") => Ok(Devices::Skip),
            None if self.devices.is_none() => {
                Ok(if recurses && !self.dereference { Devices::ReadNamed } else { Devices::Read })
            }
            _ => Err("unknown devices method".to_owned()),
        }
    }

    /// Returns warnings about what GNU grep calls old.
    fn warnings(&self) -> Vec<String> {
        let offsets = "warning: --unix-byte-offsets (-u) is obsolete".to_owned();
        let color = old_color().filter(|_| self.colors().is_some()).map(|color| {
            format!("warning: GREP_COLOR='{color}' is deprecated; use GREP_COLORS='mt={color}'")
        });
        self.unix_byte_offsets.then_some(offsets).into_iter().chain(color).collect()
    }

    fn colors(&self) -> Option<Colors> {
        let on_terminal = || {
            let is_able = std::env::var_os("TERM").is_some_and(|name| name != "dumb");
            // https://no-color.org: an empty value does not count. --color=always takes precedence.
            let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            is_able && !is_unwanted && stdout_is_terminal()
        };
        let wanted = match self.color? {
            When::Always => true,
            When::Auto => on_terminal(),
            When::Never => false,
        };
        wanted.then(|| {
            let mut colors = Colors::default();
            if let Some(color) = old_color() {
                colors.change(&format!("mt={color}"));
            }
            if let Ok(variable) = std::env::var("GREP_COLORS") {
                colors.change(&variable);
            }
            colors
        })
    }
}

/// Returns the colour of matches that an old variable sets.
fn old_color() -> Option<String> {
    let color = std::env::var("GREP_COLOR").ok()?;
    let is_color = color.bytes().all(|byte| byte == b';' || byte.is_ascii_digit());
    (is_color && !color.is_empty()).then_some(color)
}

fn rule(glob: &OsStr, include: bool) -> Rule {
    Rule { glob: glob.as_bytes().to_vec(), include }
}

fn named(operand: &OsStr) -> Result<GrepOperand, String> {
    if operand == "-" {
        return Ok(GrepOperand::Input);
    }
    // Arguments contain no NUL.
    CString::new(operand.as_bytes()).map(GrepOperand::Path).map_err(|error| error.to_string())
}

/// Splits a text at its newlines.
fn lines(text: &[u8]) -> Vec<Vec<u8>> {
    text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

fn context(text: Option<&OsStr>) -> Result<Option<u64>, String> {
    let Some(text) = text else { return Ok(None) };
    let text = text.to_string_lossy();
    let number = number(&text).and_then(|number| u64::try_from(number).ok());
    let number = number.ok_or_else(|| format!("{}: invalid context length argument", text.escape_debug()))?;
    Ok(Some(number))
}

/// Parses a number as the C library does: behind blanks and a sign. A large one is the largest.
fn number(text: &str) -> Option<i64> {
    let text = text.trim_ascii_start();
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let largest = if text.starts_with('-') { i64::MIN } else { i64::MAX };
    is_number.then(|| text.parse().unwrap_or(largest))
}

/// True if standard output is the null device.
fn goes_nowhere() -> bool {
    let identity = |metadata: std::fs::Metadata| {
        use std::os::unix::fs::MetadataExt;
        metadata.file_type().is_char_device().then(|| metadata.rdev())
    };
    let output = io::stdout().as_fd().try_clone_to_owned().and_then(|fd| std::fs::File::from(fd).metadata());
    let null = std::fs::metadata("/dev/null");
    output.ok().and_then(identity).is_some_and(|device| null.ok().and_then(identity) == Some(device))
}

struct GrepTask {
    grep: Grep,
    search: GrepRequest,
}

impl CliTask for GrepTask {
    fn run(&self, executor: &impl Executors, config: &Config, console: &Console) -> u8 {
        let options = &self.search.options;
        let (silent, at_once) = (self.search.no_messages, options.line_buffered);
        let is_here = self.search.named == [GrepOperand::Here];
        let listener = GrepReport { console, grep: &self.grep, silent, at_once, is_here };
        match self.grep.run(executor, &self.search.named, config, &listener) {
            Ok(outcome) => u8::from(!outcome.matched),
            Err(problem) => {
                console.problem(problem);
                TROUBLE
            }
        }
    }

    fn exit_status(&self, status: u8, trouble: bool) -> u8 {
        match (self.search.options.show, status, trouble) {
            (Show::Nothing, 0, _) => 0,
            (_, _, true) => TROUBLE,
            _ => status,
        }
    }

    fn needs_descriptors(&self) -> bool {
        self.search.needs_descriptors
            || self.operands().into_iter().any(|operand| is_descriptor_path(operand.to_bytes()))
    }

    fn operands(&self) -> Vec<&CStr> {
        let paths = self.search.named.iter().filter_map(|named| match named {
            GrepOperand::Path(path) => Some(path.as_c_str()),
            GrepOperand::Here | GrepOperand::Input => None,
        });
        paths.collect()
    }

    fn shared_path(&self) -> Option<&Path> {
        let path = self.search.named.iter().find_map(|named| match named {
            GrepOperand::Path(path) => Some(Path::new(OsStr::from_bytes(path.to_bytes()))),
            GrepOperand::Here => Some(Path::new(".")),
            GrepOperand::Input => None,
        });
        path.or(Some(Path::new(".")))
    }
}

/// Filters a search's reports: drops what `-s` suppresses, flushes lines if requested, and stops
/// the search once output fails.
struct GrepReport<'a> {
    console: &'a Console,
    grep: &'a Grep,
    silent: bool,
    at_once: bool,
    /// True if no file was named.
    is_here: bool,
}

impl Reporter for GrepReport<'_> {
    fn started(&self, info: RunInfo) {
        self.console.started(info);
    }

    fn count(&self, more: Tally) {
        self.console.count(more);
    }

    fn problem(&self, mut problem: Problem) {
        let is_silenced = matches!(
            GrepKind::of(problem.kind),
            Some(GrepKind::IsADirectory | GrepKind::IsOutput | GrepKind::Loop)
        );
        let is_about_a_file = problem.cause.is_some() || is_silenced;
        if self.silent && is_about_a_file {
            if problem.severity == Severity::Error {
                self.console.fail();
            }
            self.console.record(problem);
            return;
        }
        if self.is_here {
            // If no file was named, names are shown relative to the current directory, the
            // framework's too.
            problem.names.iter_mut().filter(|name| name.starts_with(b"./")).for_each(|name| {
                name.drain(..2);
            });
        }
        // Matches found earlier must be seen earlier.
        self.console.print_now(&[]);
        self.console.problem(problem);
    }

    fn line(&self, line: OutputLine) {
        self.console.line(line);
    }

    fn output(&self, stream: Standard, bytes: &[u8]) {
        match stream {
            Standard::Output if self.at_once => self.console.print_now(bytes),
            _ => self.console.output(stream, bytes),
        }
        if self.console.has_lost_output() {
            self.grep.stop();
        }
    }

    fn entry(&self, entry: EntryReport) {
        self.console.entry(entry);
    }

    fn slow_ranks(&self, slow: Vec<SlowRank>) {
        self.console.slow_ranks(slow);
    }

    fn wants_entries(&self) -> bool {
        self.console.wants_entries()
    }

    fn note(&self, printed: &[u8]) {
        self.console.note(printed);
    }

    fn debug(&self, text: &str) {
        self.console.debug(text);
    }

    fn wants_debug(&self) -> bool {
        self.console.wants_debug()
    }
}
