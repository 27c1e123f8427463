//! The reader: goes through the members, makes directories as they come, and cuts the rest
//! into pieces.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_flow::{Context, Problem, Reporter, lock};
use haul_sys::{Errno, Error, Operation, Standard};

use super::attributes::Wanted;
use super::content::Map;
use super::in_flight::PathHash;
use super::make::{CreateOutcome, When, path_problem};
use super::piece::{At, ExtractItem, ExtractPiece, LargeMember, LargePart, Load, PartBytes};
use super::resolver::{Following, Missing, Resolved, Resolver};
use super::{ExtractState, Extractor, FAILED, Roots};
use crate::format::MemberKind;
use crate::list::MemberLines;
use crate::prefix::PrefixReporter;
use crate::read::archive;
use crate::read::input::{self, BUFFER_BYTES};
use crate::read::member::Member;
use crate::read::members::Members;
use crate::read::select::{MemberSelection, confined, link_target, stripped};
use crate::{Confinement, Options, TarKind};

const MEMBERS_MAX: usize = 256;
/// Memory that content and members of a full piece take, in bytes.
const PIECE_BYTES: usize = 1 << 20;
/// Maximum content that the reader reads along with the headers around it, in bytes.
const SMALL_BYTES: usize = 64 << 10;
/// Files longer than this are made in parts of this length, in bytes.
const RANGE_BYTES: u64 = 4 << 20;

/// Reader of a member's content.
enum Reading {
    /// The archive's reader: this many bytes.
    Here(usize),
    /// Whoever makes the member. The archive has this many bytes from there on.
    There(u64),
    InParts,
}

/// Decides which members are extracted, to files or to standard output.
struct Admission {
    selection: MemberSelection,
    prefixes: PrefixReporter,
    lines: MemberLines,
}

impl Admission {
    fn new(options: &Options) -> Self {
        Self {
            selection: MemberSelection::new(options),
            prefixes: PrefixReporter::new(options.confinement),
            lines: MemberLines::new(options.verbose, options.numeric_owner),
        }
    }

    /// Returns a member's operand, if there are operands, and its path below the root; `None` if it
    /// is not extracted. With `-v`, prints its name.
    fn admit(
        &mut self,
        options: &Options,
        member: &mut Member,
        problems: &mut Vec<Problem>,
        report: &dyn Reporter,
    ) -> Option<(Option<usize>, Vec<u8>)> {
        let operand = self.selection.wants(&member.name)?;
        if member.refused {
            return None;
        }
        let name = match member.name.is_empty() {
            true => &b"."[..],
            false => confined(&self.prefixes, options, &member.name, TarKind::RemovingPrefix, report),
        };
        let leads_up = member.name.split(|byte| *byte == b'/').any(|component| component == b"..");
        if leads_up && options.confinement == Confinement::Confined {
            problems.push(Problem::new(TarKind::DotDot).naming(member.name.as_slice()));
            return None;
        }
        let path = stripped(name, options.strip_components)?;
        if member.kind == MemberKind::HardLink {
            member.link = link_target(&self.prefixes, options, &member.link, report);
        }
        if options.verbose > 0 {
            report.line(self.lines.line(member));
        }
        match member.kind {
            MemberKind::Volume => return None,
            MemberKind::Continued => {
                problems.push(Problem::new(TarKind::Continued).naming(member.name.as_slice()));
                return None;
            }
            MemberKind::Unknown(letter) => {
                let problem = Problem::new(TarKind::UnknownKind).naming(member.name.as_slice());
                problems.push(problem.naming([letter]).as_warning());
            }
            _ => {}
        }
        Some((operand, path))
    }
}

pub(super) struct MemberReader {
    members: Members,
    options: Arc<Options>,
    admission: Admission,
    roots: Roots,
    /// Resolvers by root, for members and for the targets of hard links.
    places: [Vec<Resolver>; 2],
    /// True if everything is made in turn, because links on the path make two names one.
    pub(super) in_turn: bool,
    large: Option<(Arc<LargeMember>, Vec<PathHash>, u64, u64)>,
    over: bool,
}

impl MemberReader {
    pub(super) fn new(
        members: Members,
        options: &Arc<Options>,
        places: [Vec<Resolver>; 2],
        roots: Roots,
        following: Following,
    ) -> Self {
        Self {
            members,
            admission: Admission::new(options),
            options: Arc::clone(options),
            roots,
            places,
            in_turn: following != Following::Never,
            large: None,
            over: false,
        }
    }

    /// Reports operands that were not found; returns true if there are any.
    pub(super) fn report_missing(&self, report: &dyn Reporter) -> bool {
        self.admission.selection.report_missing(report)
    }

    pub(super) fn next(&mut self, cx: &Context<'_, Extractor>, state: &ExtractState) -> Option<ExtractPiece> {
        if self.large.is_some() {
            return self.next_part(cx, state);
        }
        // When groups are sent, whoever makes a member reads its content.
        let (goes_out, mut weight) = (state.remote.is_open(), 0_usize);
        let (mut items, mut names) = (Vec::new(), Vec::new());
        while !self.over && items.len() < MEMBERS_MAX && weight < PIECE_BYTES {
            let Some(member) = self.next_member(cx, state) else { break };
            let is_directory = member.kind == MemberKind::Directory;
            let Some(mut item) = self.prepare(cx, state, member) else {
                // The next members are in another directory, so another worker can start on them.
                if is_directory && (weight >= PIECE_BYTES / 4 || items.len() >= MEMBERS_MAX / 4) {
                    break;
                }
                continue;
            };
            item.names.iter().for_each(|name| state.flight.begin(*name));
            match self.reading(&item.member, goes_out) {
                Reading::Here(length) => {
                    let (chunk, outcome) = self.members.chunk(length);
                    if let Err(failure) = outcome {
                        self.broken(cx, state, failure);
                        cut(cx, &mut item);
                    }
                    item.content = Some(chunk);
                }
                Reading::InParts => {
                    self.begin_large(cx, state, item);
                    if self.large.is_some() {
                        break;
                    }
                    // It was skipped or cannot be made: go on after it.
                    continue;
                }
                // A shortfall at the end is reported when the reader gets there.
                Reading::There(there) if there < item.member.stored => {
                    item.member.stored = there;
                    cut(cx, &mut item);
                }
                Reading::There(_) => {}
            }
            if !goes_out {
                names.append(&mut item.names);
            }
            let stored = usize::try_from(item.member.stored).unwrap_or(PIECE_BYTES);
            weight = weight.saturating_add(stored).saturating_add(item.member.weight());
            items.push(item);
        }
        match items.is_empty() {
            false => Some(ExtractPiece { load: Load::Members(items), names }),
            true if self.large.is_some() => self.next_part(cx, state),
            true => None,
        }
    }

    fn reading(&self, member: &Member, goes_out: bool) -> Reading {
        let input = self.members.input();
        match (usize::try_from(member.stored), input.size()) {
            _ if !member.is_file() => Reading::Here(0),
            (_, Some(size)) if goes_out => Reading::There(size.saturating_sub(member.content_at)),
            // Buffered bytes cost nothing more. Longer content would be read under the reader's
            // lock, while the other workers wait (docs/measurements/tools.md).
            (Ok(stored), _) if stored <= input.ready().max(SMALL_BYTES) => Reading::Here(stored),
            (Ok(stored), None) if stored <= BUFFER_BYTES => Reading::Here(stored),
            (_, Some(size)) if member.stored <= RANGE_BYTES => {
                Reading::There(size.saturating_sub(member.content_at))
            }
            _ => Reading::InParts,
        }
    }

    fn next_member(&mut self, cx: &Context<'_, Extractor>, state: &ExtractState) -> Option<Member> {
        let mut problems = Vec::new();
        let next = self.members.next(&mut problems);
        problems.into_iter().for_each(|problem| cx.problem(problem));
        match next {
            Ok(Some(member)) => return Some(member),
            Ok(None) => {
                self.over = true;
                match archive::finish(&mut self.members, &self.options) {
                    Ok(warning) => warning.into_iter().for_each(|warning| cx.problem(warning)),
                    Err(failure) => self.broken(cx, state, failure),
                }
            }
            Err(failure) => self.broken(cx, state, failure),
        }
        None
    }

    /// Ends reading an archive that cannot be read further.
    fn broken(&mut self, cx: &Context<'_, Extractor>, state: &ExtractState, failure: input::ReadFailure) {
        self.over = true;
        state.broken.store(true, Ordering::Relaxed);
        cx.problem(archive::problem(&self.options, failure));
    }

    /// Prepares a member: decides what to make and which names that touches. Directories are made
    /// immediately, if possible.
    fn prepare(
        &mut self,
        cx: &Context<'_, Extractor>,
        state: &ExtractState,
        mut member: Member,
    ) -> Option<ExtractItem> {
        let mut problems = Vec::new();
        let admitted = self.admission.admit(&self.options, &mut member, &mut problems, cx.report());
        problems.into_iter().for_each(|problem| cx.problem(problem));
        let (operand, path) = admitted?;
        if member.kind == MemberKind::HardLink && member.link.is_empty() {
            // It leads to a member whose name was stripped completely, so there is no such file.
            let absent = Error::new(Operation::Linkat, String::new(), Errno::NOENT);
            cx.problem(Problem::new(TarKind::CannotLink).naming(path).naming("").because(absent));
            return None;
        }
        let root = self.roots.of(&self.options, operand);
        let wanted = cx.tool().rights.wanted(&mut member);
        let item =
            ExtractItem { member, wanted, path, root, at: At::InTurn, content: None, names: Vec::new() };
        if self.in_turn {
            return Some(item);
        }
        self.place(cx, state, item)
    }

    /// Resolves the path of a member. A directory is made immediately, if possible.
    fn place(
        &mut self,
        cx: &Context<'_, Extractor>,
        state: &ExtractState,
        mut item: ExtractItem,
    ) -> Option<ExtractItem> {
        let (cache, flight) = (cx.cache(), Some(&state.flight));
        let [members, links] = &mut self.places;
        let places = &mut members[item.root];
        let (member_dir, name) = match places.find(cache, &item.path, Missing::Make, flight) {
            Ok(Resolved::To(member_dir, name)) => (member_dir, name),
            Ok(Resolved::Root(member_dir)) => {
                root_is(cx, state, &item, member_dir);
                return None;
            }
            Ok(Resolved::Busy) => return Some(in_turn(item)),
            Err(cause) => {
                cx.problem(path_problem(&item.path, cause));
                return None;
            }
        };
        let path_hash = member_dir.path_hash.of(name.to_bytes());
        if state.flight.has(path_hash) {
            return Some(in_turn(item));
        }
        match item.member.kind {
            MemberKind::Directory => {
                cx.tool().make_directory_member(
                    cx,
                    (places, &state.directories),
                    &item,
                    (&member_dir, &name),
                );
                None
            }
            MemberKind::HardLink => {
                match links[item.root].find(cache, &item.member.link, Missing::Fail, flight) {
                    Ok(Resolved::To(above, leads_to)) => {
                        item.names = vec![path_hash, above.path_hash.of(leads_to.to_bytes())];
                        item.at = At::Link(member_dir, name, above, leads_to);
                        Some(item)
                    }
                    // The source may be a member in flight; in its turn a failure is real.
                    Ok(Resolved::Busy | Resolved::Root(_)) | Err(_) => Some(in_turn(item)),
                }
            }
            _ => {
                item.at = At::Here(member_dir, name);
                item.names = vec![path_hash];
                Some(item)
            }
        }
    }

    /// Creates a large file, to be handed out in parts.
    fn begin_large(&mut self, cx: &Context<'_, Extractor>, state: &ExtractState, mut item: ExtractItem) {
        let names = std::mem::take(&mut item.names);
        let early = match &item.at {
            At::Here(member_dir, name) => {
                cx.tool().make_large(cx, &item, (Arc::clone(member_dir), name.clone()), When::Early)
            }
            _ => Some(CreateOutcome::Waits),
        };
        let (file, in_turn) = match early {
            Some(CreateOutcome::New(file)) => (Some(Arc::new(file)), false),
            Some(CreateOutcome::Waits) => (None, true),
            Some(CreateOutcome::Kept) | None => return state.flight.end(&names),
        };
        let map = item.member.map.take().map(Map::new);
        let wanted: Wanted = item.wanted.clone();
        let stored = item.member.stored;
        let large =
            LargeMember { item: item.into(), wanted, map, file: file.into(), failed: None.into(), in_turn };
        self.large = Some((Arc::new(large), names, 0, stored));
    }

    fn next_part(&mut self, cx: &Context<'_, Extractor>, state: &ExtractState) -> Option<ExtractPiece> {
        let (large, names, start, stored) = self.large.take()?;
        let left = stored - start;
        let (bytes, length) = match self.members.input().size() {
            Some(size) => {
                let at = lock(&large.item).member.content_at + start;
                // A header may claim more than there is.
                let there = size.saturating_sub(at).min(left).min(RANGE_BYTES);
                if there == 0 {
                    self.broken(cx, state, input::ReadFailure::Ended);
                    cut(cx, &mut lock(&large.item));
                }
                (PartBytes::InArchive(at..at + there), there)
            }
            None => {
                let (chunk, outcome) = self.members.chunk(BUFFER_BYTES);
                if let Err(failure) = outcome {
                    self.broken(cx, state, failure);
                    cut(cx, &mut lock(&large.item));
                }
                let length = chunk.len() as u64;
                (PartBytes::Read(chunk), length)
            }
        };
        let is_last = length == left || self.over;
        let part = LargePart { large: Arc::clone(&large), start, bytes, is_first: start == 0, is_last };
        let mut piece = ExtractPiece { load: Load::Part(part), names: Vec::new() };
        match is_last {
            true => piece.names = names,
            false => self.large = Some((large, names, start + length, stored)),
        }
        Some(piece)
    }
}

/// Records the archive's attributes for the root itself. Only a directory can be there, and it
/// keeps its attributes if existing files are kept.
pub(super) fn root_is(
    cx: &Context<'_, Extractor>,
    state: &ExtractState,
    item: &ExtractItem,
    member_dir: Arc<super::resolver::MemberDir>,
) {
    match item.member.kind {
        MemberKind::Directory if !cx.tool().options.existing.is_replaced() => {}
        MemberKind::Directory => {
            lock(&state.directories).record(member_dir, item.wanted.clone(), item.path.clone())
        }
        _ => cx.problem(Problem::new(TarKind::IsRoot).naming(item.path.as_slice())),
    }
}

/// Marks a member whose content ends too early, which was reported, or will be, without its name.
fn cut(cx: &Context<'_, Extractor>, item: &mut ExtractItem) {
    item.member.is_cut = true;
    cx.report().record(Problem::new(TarKind::UnexpectedEnd).naming(item.path.as_slice()));
}

/// Leaves a member to its turn: every name on its path is in flight until then.
fn in_turn(mut item: ExtractItem) -> ExtractItem {
    let names = &mut item.names;
    let mut record = |path: &[u8]| {
        let mut path_hash = PathHash::ROOT;
        for component in path.split(|byte| *byte == b'/') {
            if !component.is_empty() && component != b"." {
                path_hash = path_hash.of(component);
                names.push(path_hash);
            }
        }
    };
    record(&item.path);
    if item.member.kind == MemberKind::HardLink {
        record(&item.member.link);
    }
    item
}

/// Writes the content of regular files to standard output, one after the other (`-O`). Ends once
/// that fails: whoever wrote the archive to a pipe sees that it isn't read.
pub(super) fn to_standard_output(mut members: Members, options: &Options, report: &dyn Reporter) -> u8 {
    let mut admission = Admission::new(options);
    let (mut problems, mut failed) = (Vec::new(), false);
    loop {
        let next = members.next(&mut problems);
        failed |= archive::report_all(&mut problems, report);
        let outcome = match next {
            Ok(Some(mut member)) => {
                let admitted = admission.admit(options, &mut member, &mut problems, report);
                failed |= archive::report_all(&mut problems, report);
                match admitted.is_some() && member.is_file() {
                    true => put_out(&mut members, &member, report),
                    false => Ok(()),
                }
            }
            Ok(None) => break,
            Err(failure) => Err(failure),
        };
        if let Err(failure) = outcome {
            report.problem(archive::problem(options, failure));
            return FAILED;
        }
        if report.has_lost_output() {
            return FAILED;
        }
    }
    failed |= archive::end(&mut members, options, report);
    failed |= admission.selection.report_missing(report);
    if failed { FAILED } else { 0 }
}

/// Writes one file to standard output, with zeros for its holes.
fn put_out(members: &mut Members, member: &Member, report: &dyn Reporter) -> Result<(), input::ReadFailure> {
    let copy = |members: &mut Members, mut length: u64| {
        while length > 0 && !report.has_lost_output() {
            let (chunk, outcome) = members.chunk(usize::try_from(length).unwrap_or(PIECE_BYTES));
            // Also what precedes damage: it may be all that is left of the file.
            report.output(Standard::Output, &chunk);
            outcome?;
            if chunk.is_empty() {
                return Err(input::ReadFailure::Ended);
            }
            length -= chunk.len() as u64;
        }
        Ok(())
    };
    let Some(map) = &member.map else { return copy(members, member.stored) };
    let mut at = 0;
    let zeros = |mut length: u64| {
        while length > 0 && !report.has_lost_output() {
            let part = length.min(PIECE_BYTES as u64);
            report.output(Standard::Output, &vec![0; part as usize]);
            length -= part;
        }
    };
    for extent in map {
        zeros(extent.offset - at);
        copy(members, extent.length)?;
        at = extent.offset + extent.length;
    }
    zeros(member.size - at);
    Ok(())
}
