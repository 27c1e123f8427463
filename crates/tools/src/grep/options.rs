//! What a search is asked for: plain data, lowered once from what the user typed.

use haul_sys::Identity;
use serde::{Deserialize, Serialize};

use super::exclude::Rule;
use super::matcher::Wanted;

/// What is shown of each file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Show {
    /// The selected lines.
    Lines,
    /// How many they are (`-c`).
    Count,
    /// The file's name, if there are any (`-l`).
    FilesWith,
    /// The file's name, if there are none (`-L`).
    FilesWithout,
    /// Nothing: whether there are any is the exit status (`-q`).
    Nothing,
}

/// Which lines have the file's name before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Names {
    /// All.
    Always,
    /// Those of files that were found in a directory.
    InDirectories,
    /// None.
    Never,
}

/// What a file is taken for that has bytes which are no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Binary {
    /// For one of which only is told whether it matches.
    Tell,
    /// For text (`-a`).
    Text,
    /// For one that does not match (`-I`).
    WithoutMatch,
}

/// What becomes of a directory that was named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Directories {
    /// It is read, which fails.
    Read,
    /// It is passed over.
    Skip,
    /// What is in it is searched (`-r`).
    Recurse,
}

/// What becomes of devices, FIFOs and sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Devices {
    /// They are read.
    Read,
    /// Only those that were named are.
    ReadNamed,
    /// They are passed over.
    Skip,
}

/// In which order results come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// As they are found.
    Found,
    /// As the files were named.
    Named,
    /// As the files were named, and in directories by their names.
    Path,
}

/// The colours of what is shown, as sequences of numbers for terminals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Colors {
    /// A match in a selected line.
    pub selected_match: String,
    /// A match in a line of context.
    pub context_match: String,
    /// A selected line.
    pub selected_line: String,
    /// A line of context.
    pub context_line: String,
    /// The two change places where lines without a match are selected.
    pub reversed: bool,
    /// A file's name.
    pub name: String,
    /// A line's number.
    pub number: String,
    /// A byte's offset.
    pub offset: String,
    /// What stands between.
    pub separator: String,
    /// The rest of a line is not cleared.
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
    /// Changes colours as the variable `GREP_COLORS` asks, as far as it is understood.
    pub fn change(&mut self, wanted: &str) {
        for part in wanted.split(':') {
            let (name, value) =
                part.split_once('=').map_or((part, None), |(name, value)| (name, Some(value)));
            let colors =
                value.filter(|value| value.bytes().all(|byte| byte == b';' || byte.is_ascii_digit()));
            match (name, colors) {
                ("rv", None) if value.is_none() => self.reversed = true,
                ("ne", None) if value.is_none() => self.no_clear = true,
                ("mt", Some(colors)) => {
                    self.selected_match = colors.to_owned();
                    self.context_match = colors.to_owned();
                }
                ("ms", Some(colors)) => self.selected_match = colors.to_owned(),
                ("mc", Some(colors)) => self.context_match = colors.to_owned(),
                ("sl", Some(colors)) => self.selected_line = colors.to_owned(),
                ("cx", Some(colors)) => self.context_line = colors.to_owned(),
                ("fn", Some(colors)) => self.name = colors.to_owned(),
                ("ln", Some(colors)) => self.number = colors.to_owned(),
                ("bn", Some(colors)) => self.offset = colors.to_owned(),
                ("se", Some(colors)) => self.separator = colors.to_owned(),
                // Names of other programs are passed over; what is misspelt ends the list.
                (_, None) if value.is_some() || name.is_empty() => return,
                _ => {}
            }
        }
    }
}

/// What a search is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrepOptions {
    /// What is looked for.
    pub wanted: Wanted,
    /// What is shown of each file.
    pub show: Show,
    /// Nobody sees what is shown, but for the exit status: the output is the null device.
    pub goes_nowhere: bool,
    /// Lines without a match are selected (`-v`).
    pub invert: bool,
    /// So many selected lines of a file are enough (`-m`).
    pub max: Option<u64>,
    /// Which lines have the file's name before them.
    pub names: Names,
    /// Lines have their numbers before them (`-n`).
    pub numbers: bool,
    /// Lines have their offsets before them (`-b`).
    pub offsets: bool,
    /// Lines begin at a tab stop (`-T`).
    pub initial_tab: bool,
    /// Names end with NUL (`-Z`).
    pub null_names: bool,
    /// Only the parts of lines that match are shown (`-o`).
    pub only_matching: bool,
    /// Lines of context before (`-B`).
    pub before: Option<u64>,
    /// Lines of context after (`-A`).
    pub after: Option<u64>,
    /// The line between lines that are apart, where context is shown.
    pub separator: Option<Vec<u8>>,
    /// Colours, if there are any.
    pub colors: Option<Colors>,
    /// What binary files are taken for.
    pub binary: Binary,
    /// What becomes of directories.
    pub directories: Directories,
    /// Symbolic links in directories are followed (`-R`).
    pub dereference: bool,
    /// What becomes of devices.
    pub devices: Devices,
    /// Which files are searched.
    pub files: Vec<Rule>,
    /// Which directories are not.
    pub directories_excluded: Vec<Rule>,
    /// What standard input is called (`--label`).
    pub label: Vec<u8>,
    /// Every line is output at once (`--line-buffered`).
    pub line_buffered: bool,
    /// The order of results.
    pub order: Order,
    /// The regular file that is output to, which is not to be searched.
    pub output: Option<(u64, u64)>,
}

impl GrepOptions {
    /// Tells whether context is shown.
    pub(super) fn shows_context(&self) -> bool {
        self.show == Show::Lines && (self.before.is_some() || self.after.is_some())
    }

    /// Tells whether the file is the one that is output to.
    pub(super) fn is_output(&self, identity: Identity) -> bool {
        self.output == Some((identity.device, identity.inode))
    }

    /// Tells whether it matters where in a file the last line that was asked for ends: whoever reads standard input next goes on
    /// from there.
    pub(super) fn notes_end(&self) -> bool {
        match self.show {
            Show::Lines | Show::Count => self.max.is_some(),
            // The first match ends the search. It is the last line asked for only if no more are, or if those without one are.
            _ => self.goes_nowhere && self.max.is_some_and(|max| max == 1 || self.invert),
        }
    }

    /// Tells whether standard input is left at its end where nothing more of it has to be known. As in GNU grep, it is not where
    /// names of files or nothing are shown.
    pub(super) fn drains(&self) -> bool {
        matches!(self.show, Show::Lines | Show::Count) || self.goes_nowhere
    }

    /// Returns how many selected lines of a file have to be found.
    pub(super) fn limit(&self) -> u64 {
        let max = self.max.unwrap_or(u64::MAX);
        match self.show {
            Show::Lines | Show::Count => max,
            _ if self.invert && self.notes_end() => max,
            Show::FilesWith | Show::FilesWithout | Show::Nothing => max.min(1),
        }
    }
}
