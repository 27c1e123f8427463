//! Checks manifests: reads them, and prints the verdicts in the order of their lines, in the words
//! of `sha256sum -c`.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::{Arc, Mutex};

use haul_digest::manifest::{ExpectedHash, ManifestEntry, ManifestLine, ParseError, Parser};
use haul_flow::{FlowKind, Operand, Problem, Reporter, Session, Split, Standard, lock};
use haul_sys::{
    EntryType, Errno, Error, Fd, NameArena, Open, c_string, open_path, read_stream, standard_input,
};

use super::options::{CheckOptions, Printed, SumOperand};
use super::place::{DirectoryRole, Group};
use super::task::CheckVerdict;
use super::{SumKind, Summer};

/// Bytes read from a manifest at once.
const BLOCK_BYTES: usize = 128 << 10;

/// Name of standard input in messages.
const INPUT: &[u8] = b"standard input";

/// The records of all manifests, and the verdicts on them.
pub(super) struct Checks {
    options: CheckOptions,
    /// True if missing files are passed over.
    ignores_missing: bool,
    manifests: Vec<Manifest>,
    state: Mutex<CheckState>,
    /// Verdicts, if they are kept.
    collected: Option<Mutex<Vec<(u64, CheckVerdict)>>>,
}

/// A manifest that was read.
pub(super) struct Manifest {
    name: Vec<u8>,
    /// True if it comes from standard input, which then can't be a file that it lists.
    is_input: bool,
    records: Vec<CheckRecord>,
    /// Number of lines that can't be used.
    bad_lines: u64,
    /// False if it could not be read to its end.
    is_whole: bool,
}

struct CheckRecord {
    path: Box<[u8]>,
    expected: ExpectedHash,
}

#[derive(Default)]
struct CheckState {
    /// Verdicts that wait for those before them.
    waiting: BTreeMap<u64, CheckVerdict>,
    /// The manifest, and the record in it, that is due next; and the number of that record.
    manifest: usize,
    index: usize,
    number: u64,
    counts: VerdictCounts,
    has_failed: bool,
}

/// Verdicts on the records of one manifest.
#[derive(Clone, Copy, Default)]
struct VerdictCounts {
    same: u64,
    differ: u64,
    unreadable: u64,
}

impl Checks {
    /// Reads the manifests.
    pub(super) fn read(
        named: &[SumOperand],
        options: CheckOptions,
        ignores_missing: bool,
        report: &dyn Reporter,
    ) -> Self {
        let manifests = named.iter().map(|named| read_manifest(named, &options, report)).collect();
        Self { options, ignores_missing, manifests, state: Mutex::default(), collected: None }
    }

    /// Prints nothing, and keeps the verdicts. Files that don't exist are
    /// [`CheckVerdict::Missing`].
    pub(super) fn collecting(manifest: Manifest) -> Self {
        Self {
            options: CheckOptions { printed: Printed::Nothing, ..CheckOptions::default() },
            ignores_missing: true,
            manifests: vec![manifest],
            state: Mutex::default(),
            collected: Some(Mutex::default()),
        }
    }

    /// Returns the verdicts that were kept, with their files.
    pub(super) fn collected(&self) -> Vec<(Vec<u8>, CheckVerdict)> {
        let collected = self.collected.iter().flat_map(|collected| std::mem::take(&mut *lock(collected)));
        collected.filter_map(|(number, verdict)| Some((self.path(number)?, verdict))).collect()
    }

    /// Returns the files of all records as operands of a run, in order. The verdict is decided here
    /// on those whose directory can't be opened.
    pub(super) fn operands(&self, session: &Session<'_>) -> Vec<Operand<DirectoryRole>> {
        let mut open: Option<(Vec<u8>, Group, NameArena)> = None;
        let mut operands = Vec::new();
        let mut close = |(place, group, names): (Vec<u8>, Group, NameArena)| {
            operands.extend(self.operand(session, &place, group, names));
        };
        let records = self.manifests.iter().flat_map(|manifest| &manifest.records);
        for (number, record) in records.enumerate() {
            let number = number as u64;
            let path = c_string(&record.path);
            let split = Split::of(&path);
            let name = c_string(split.name);
            if *record.path == *b"-" {
                open.take().into_iter().for_each(&mut close);
                let mut group = Group::default();
                group.add(c".", number, &record.expected);
                group.is_input = true;
                close((Vec::new(), group, NameArena::of(c".", EntryType::Unknown)));
                continue;
            }
            if let Some((place, group, names)) = &mut open
                && place == split.display
                && group.add(&name, number, &record.expected)
            {
                names.push(&name, 0, EntryType::Unknown);
                continue;
            }
            open.take().into_iter().for_each(&mut close);
            let mut group = Group::default();
            group.add(&name, number, &record.expected);
            open = Some((split.display.to_vec(), group, NameArena::of(&name, EntryType::Unknown)));
        }
        open.take().into_iter().for_each(&mut close);
        operands
    }

    fn operand(
        &self,
        session: &Session<'_>,
        place: &[u8],
        group: Group,
        names: NameArena,
    ) -> Option<Operand<DirectoryRole>> {
        let path = c_string(&[place, b"."].concat());
        match Split::of(&path).hold(&session.cache) {
            Ok(place) => Some(Operand { place, names, own: DirectoryRole::Listed(Arc::new(group)) }),
            Err(cause) => {
                let is_missing = self.ignores_missing && is_missing(&cause);
                for number in group.numbers() {
                    if !is_missing && let Some(path) = self.path(number) {
                        let problem = Problem::new(FlowKind::CannotStat).naming(path);
                        session.report.problem(problem.because(cause.clone()));
                    }
                    let verdict = if is_missing { CheckVerdict::Missing } else { CheckVerdict::Unreadable };
                    self.take(session.report, number, verdict);
                }
                None
            }
        }
    }

    /// Returns the path of a record.
    fn path(&self, number: u64) -> Option<Vec<u8>> {
        let mut index = usize::try_from(number).ok()?;
        for manifest in &self.manifests {
            match manifest.records.get(index) {
                Some(record) => return Some(record.path.to_vec()),
                None => index -= manifest.records.len(),
            }
        }
        None
    }

    /// True if a file with this verdict counts as done. A difference is what a comparison looks
    /// for; in a check it is a failure.
    pub(super) fn is_done(&self, verdict: CheckVerdict) -> bool {
        match verdict {
            CheckVerdict::Same => true,
            CheckVerdict::Differs => self.collected.is_some(),
            CheckVerdict::Unreadable | CheckVerdict::Missing => false,
        }
    }

    /// Accepts the verdict on a record, and prints all that are due.
    pub(super) fn take(&self, report: &dyn Reporter, number: u64, verdict: CheckVerdict) {
        if verdict == CheckVerdict::Differs && !self.is_done(verdict) {
            let path = self.path(number).unwrap_or_default();
            report.record(Problem::new(SumKind::Mismatch).naming(path));
        }
        let mut state = lock(&self.state);
        state.waiting.insert(number, verdict);
        let mut text = Vec::new();
        loop {
            self.pass_ends(&mut state, report, &mut text);
            let due = state.number;
            let Some(verdict) = state.waiting.remove(&due) else { break };
            let Some(manifest) = self.manifests.get(state.manifest) else { break };
            self.print(&mut text, &manifest.records[state.index].path, verdict);
            if let Some(collected) = &self.collected {
                lock(collected).push((due, verdict));
            }
            match verdict {
                CheckVerdict::Same => state.counts.same += 1,
                CheckVerdict::Differs => state.counts.differ += 1,
                CheckVerdict::Unreadable => state.counts.unreadable += 1,
                CheckVerdict::Missing => {}
            }
            state.index += 1;
            state.number += 1;
        }
        Self::pass_on(report, &mut text);
    }

    fn pass_on(report: &dyn Reporter, text: &mut Vec<u8>) {
        if !text.is_empty() {
            report.output(Standard::Output, text);
            text.clear();
        }
    }

    /// Sums up the manifests of which every record has its verdict.
    fn pass_ends(&self, state: &mut CheckState, report: &dyn Reporter, text: &mut Vec<u8>) {
        while let Some(manifest) = self.manifests.get(state.manifest)
            && state.index >= manifest.records.len()
        {
            Self::pass_on(report, text);
            state.has_failed |= !self.sum_up(manifest, state.counts, report);
            (state.manifest, state.index, state.counts) = (state.manifest + 1, 0, VerdictCounts::default());
        }
    }

    /// Prints the verdict on a file, as `sha256sum -c` does: a name with a line end is escaped.
    fn print(&self, text: &mut Vec<u8>, path: &[u8], verdict: CheckVerdict) {
        let word: &[u8] = match verdict {
            _ if self.options.printed == Printed::Nothing => return,
            CheckVerdict::Missing => return,
            CheckVerdict::Same if self.options.printed == Printed::Failures => return,
            CheckVerdict::Same => b"OK",
            CheckVerdict::Differs => b"FAILED",
            CheckVerdict::Unreadable => b"FAILED open or read",
        };
        haul_digest::manifest::append_escaped(text, path);
        text.extend([b": ", word, b"\n"].concat());
    }

    /// Reports the defects of a manifest and of its files. Returns false if the check failed.
    fn sum_up(&self, manifest: &Manifest, counts: VerdictCounts, report: &dyn Reporter) -> bool {
        if manifest.records.is_empty() {
            if manifest.is_whole {
                report.problem(Problem::new(SumKind::NoLines).naming(manifest.name.clone()).as_warning());
            }
            return false;
        }
        if self.options.printed != Printed::Nothing {
            let counted = [
                (manifest.bad_lines, SumKind::BadLineCount, SumKind::BadLinesCount),
                (counts.unreadable, SumKind::UnreadableCount, SumKind::UnreadablesCount),
                (counts.differ, SumKind::MismatchCount, SumKind::MismatchesCount),
            ];
            for (count, one, several) in counted {
                match count {
                    0 => {}
                    1 => report.problem(Problem::new(one).as_warning()),
                    _ => report.problem(Problem::new(several).naming(count.to_string()).as_warning()),
                }
            }
            if self.ignores_missing && counts.same == 0 {
                report
                    .problem(Problem::new(SumKind::NoneVerified).naming(manifest.name.clone()).as_warning());
            }
        }
        let is_strict = self.options.strict && manifest.bad_lines > 0;
        manifest.is_whole && counts.same > 0 && counts.differ == 0 && counts.unreadable == 0 && !is_strict
    }

    /// Prints the remaining summaries. Returns true if all files of all manifests are right.
    pub(super) fn finish(&self, report: &dyn Reporter) -> bool {
        let mut state = lock(&self.state);
        self.pass_ends(&mut state, report, &mut Vec::new());
        let is_whole = state.manifest == self.manifests.len();
        is_whole && !state.has_failed
    }
}

/// True if a file doesn't exist.
pub(super) fn is_missing(cause: &Error) -> bool {
    cause.is(Errno::NOENT)
}

/// Reads a manifest. What can't be read is reported.
pub(super) fn read_manifest(named: &SumOperand, options: &CheckOptions, report: &dyn Reporter) -> Manifest {
    let name = match named {
        SumOperand::Input => INPUT.to_vec(),
        SumOperand::Path(path) => path.to_bytes().to_vec(),
    };
    let is_input = matches!(named, SumOperand::Input);
    let mut manifest = Manifest { name, is_input, records: Vec::new(), bad_lines: 0, is_whole: true };
    let opened = match named {
        SumOperand::Input => standard_input(),
        SumOperand::Path(path) => open_manifest(path),
    };
    let read = opened.and_then(|file| {
        let (mut parser, mut buffer) = (Parser::new(options.hint), vec![0; BLOCK_BYTES]);
        loop {
            let length = read_stream(&file, &mut buffer)?;
            if length == 0 {
                break;
            }
            parser.feed(&buffer[..length], |parsed| manifest.add(parsed, options, report));
        }
        parser.finish(|parsed| manifest.add(parsed, options, report));
        file.close()
    });
    if let Err(cause) = read {
        manifest.is_whole = false;
        report.problem(Summer::unread(manifest.name.clone(), cause));
    }
    manifest
}

fn open_manifest(path: &CStr) -> Result<Fd, Error> {
    open_path(path, Open::READ.following().blocking())
}

impl Manifest {
    /// Returns the paths of the records.
    pub(super) fn paths(&self) -> impl Iterator<Item = &[u8]> {
        self.records.iter().map(|record| &*record.path)
    }

    /// True if it was read to its end and every line can be used.
    pub(super) fn is_usable(&self) -> bool {
        self.is_whole && self.bad_lines == 0
    }

    /// Changes the paths of the records. Removes those for which there is no other, and returns
    /// their paths.
    pub(super) fn rename(&mut self, name: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Vec<Vec<u8>> {
        let mut removed = Vec::new();
        self.records.retain_mut(|record| match name(&record.path) {
            Some(path) => {
                record.path = path.into();
                true
            }
            None => {
                removed.push(record.path.to_vec());
                false
            }
        });
        removed
    }

    fn add(
        &mut self,
        ManifestLine { line, listed }: ManifestLine,
        options: &CheckOptions,
        report: &dyn Reporter,
    ) {
        match listed {
            Ok(ManifestEntry { path, expected, .. }) if !self.is_input || path != b"-" => {
                self.records.push(CheckRecord { path: path.into(), expected });
            }
            // Nobody reads the file that it lists.
            Err(ParseError::TooLong) => {
                self.is_whole = false;
                let problem = Problem::new(SumKind::LineTooLong).naming(self.name.clone());
                report.problem(problem.naming(line.to_string()));
            }
            _ => {
                self.bad_lines += 1;
                if options.printed == Printed::BadLines {
                    let algorithm = options.hint.map(|hint| format!("{} ", hint.tag())).unwrap_or_default();
                    let problem = Problem::new(SumKind::BadLine).naming(self.name.clone());
                    report.problem(problem.naming(line.to_string()).naming(algorithm).as_warning());
                }
            }
        }
    }
}
