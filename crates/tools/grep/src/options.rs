//! Search options, lowered once from the command line.

use haul_sys::Identity;
use serde::{Deserialize, Serialize};

use super::exclude::Rule;
use super::query::Query;

/// The output for each file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Show {
    /// The selected lines.
    Lines,
    /// The number of selected lines (`-c`).
    Count,
    /// The file's name, if any line is selected (`-l`).
    FilesWith,
    /// The file's name, if no line is selected (`-L`).
    FilesWithout,
    /// Nothing; only the exit status reports a match (`-q`).
    Nothing,
}

/// The output lines that are prefixed with the file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NamePrefix {
    /// All lines.
    Always,
    /// Lines of files found by recursion, but not of operands.
    InDirectories,
    /// No lines.
    Never,
}

/// Treatment of files with binary content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Binary {
    /// Report that the file matches, without showing lines.
    Report,
    /// Treat it as text (`-a`).
    Text,
    /// Treat it as not matching (`-I`).
    WithoutMatch,
}

/// Treatment of directory operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Directories {
    /// Read like a file, which fails.
    Read,
    /// Skip.
    Skip,
    /// Search recursively (`-r`).
    Recurse,
}

/// Treatment of devices, FIFOs and sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Devices {
    /// Read.
    Read,
    /// Read only if they are operands.
    ReadNamed,
    /// Skip.
    Skip,
}

/// The order of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResultOrder {
    /// The order in which they are found.
    Entry,
    /// In operand order.
    Named,
    /// In operand order, sorted by name within directories.
    Path,
}

/// Colours of the output, as the numbers of SGR escape sequences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Colors {
    /// Match in a selected line.
    pub selected_match: String,
    /// Match in a context line.
    pub context_match: String,
    /// Selected line.
    pub selected_line: String,
    /// Context line.
    pub context_line: String,
    /// Swaps the two line colours under `-v`.
    pub reversed: bool,
    /// File name.
    pub name: String,
    /// Line number.
    pub number: String,
    /// Byte offset.
    pub offset: String,
    /// Separators.
    pub separator: String,
    /// Omits the sequence that clears the rest of the line.
    pub no_clear: bool,
}

impl Default for Colors {
    fn default() -> Self {
        Self {
            selected_match: "01;31".to_owned(),
            context_match: "01;31".to_owned(),
            selected_line: String::new(),
            context_line: String::new(),
            reversed: false,
            name: "35".to_owned(),
            number: "32".to_owned(),
            offset: "32".to_owned(),
            separator: "36".to_owned(),
            no_clear: false,
        }
    }
}

impl Colors {
    /// Applies a `GREP_COLORS` value, up to its first malformed item.
    pub fn change(&mut self, query: &str) {
        for part in query.split(':') {
            let (name, value) =
                part.split_once('=').map_or((part, None), |(name, value)| (name, Some(value)));
            let is_color = |value: &str| value.bytes().all(|byte| byte == b';' || byte.is_ascii_digit());
            if value.is_some_and(|value| name.is_empty() || !is_color(value)) {
                return;
            }
            let field = match name {
                "rv" => {
                    self.reversed = true;
                    continue;
                }
                "ne" => {
                    self.no_clear = true;
                    continue;
                }
                "mt" | "ms" => &mut self.selected_match,
                "mc" => &mut self.context_match,
                "sl" => &mut self.selected_line,
                "cx" => &mut self.context_line,
                "fn" => &mut self.name,
                "ln" => &mut self.number,
                "bn" => &mut self.offset,
                "se" => &mut self.separator,
                // It may be meant for another program.
                _ => continue,
            };
            if let Some(value) = value {
                *field = value.to_owned();
            }
            // In GNU grep even without a value.
            if name == "mt" {
                self.context_match.clone_from(&self.selected_match);
            }
        }
    }
}

/// Options of a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrepOptions {
    /// The patterns and how they match.
    pub query: Query,
    /// The output for each file.
    pub show: Show,
    /// True if the output is the null device, so that only the exit status matters.
    pub goes_nowhere: bool,
    /// Selects lines without a match (`-v`).
    pub invert: bool,
    /// Maximum number of selected lines per file (`-m`).
    pub max: Option<u64>,
    /// The output lines that are prefixed with the file's name.
    pub names: NamePrefix,
    /// Prefixes lines with their numbers (`-n`).
    pub numbers: bool,
    /// Prefixes lines with their byte offsets (`-b`).
    pub offsets: bool,
    /// Aligns line content to a tab stop (`-T`).
    pub initial_tab: bool,
    /// Ends file names with NUL (`-Z`).
    pub null_names: bool,
    /// Shows only the matching parts of lines (`-o`).
    pub only_matching: bool,
    /// Lines of leading context (`-B`).
    pub before: Option<u64>,
    /// Lines of trailing context (`-A`).
    pub after: Option<u64>,
    /// Line between groups that are not adjacent, if context is shown.
    pub separator: Option<Vec<u8>>,
    /// Colours, if enabled.
    pub colors: Option<Colors>,
    /// Treatment of binary files.
    pub binary: Binary,
    /// Treatment of directory operands.
    pub directories: Directories,
    /// Follows symbolic links during recursion (`-R`).
    pub dereference: bool,
    /// Treatment of devices.
    pub devices: Devices,
    /// Rules for files (`--include`, `--exclude`).
    pub files: Vec<Rule>,
    /// Rules for directories (`--exclude-dir`).
    pub directories_excluded: Vec<Rule>,
    /// Name shown for standard input (`--label`).
    pub label: Vec<u8>,
    /// Flushes after every line (`--line-buffered`).
    pub line_buffered: bool,
    /// Order of the results.
    pub order: ResultOrder,
    /// Device and inode of the regular file that output goes to, which must not be searched.
    pub output: Option<(u64, u64)>,
}

impl GrepOptions {
    pub(super) fn shows_context(&self) -> bool {
        self.show == Show::Lines && (self.before.is_some() || self.after.is_some())
    }

    /// True if the file is also the output.
    pub(super) fn is_output(&self, identity: Identity) -> bool {
        self.output == Some((identity.device, identity.inode))
    }

    /// True if the end of the last requested line matters: the next reader of standard input must
    /// continue from there.
    pub(super) fn notes_end(&self) -> bool {
        match self.show {
            Show::Lines | Show::Count => self.max.is_some(),
            // The first match ends the search. It is the last requested line only under `-m 1`
            // or `-v`.
            _ => self.goes_nowhere && self.max.is_some_and(|max| max == 1 || self.invert),
        }
    }

    /// True if standard input is read to its end once the result is known. GNU grep does not drain
    /// it for `-l`, `-L` and `-q`.
    pub(super) fn drains(&self) -> bool {
        matches!(self.show, Show::Lines | Show::Count) || self.goes_nowhere
    }

    /// Returns how many selected lines of a file must be found.
    pub(super) fn limit(&self) -> u64 {
        let max = self.max.unwrap_or(u64::MAX);
        match self.show {
            Show::Lines | Show::Count => max,
            _ if self.invert && self.notes_end() => max,
            Show::FilesWith | Show::FilesWithout | Show::Nothing => max.min(1),
        }
    }
}
