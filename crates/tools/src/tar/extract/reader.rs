//! The reader: goes over the members, makes directories as they come, and cuts the rest in pieces.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_flow::{Desk, Problem, Report, Wording};
use haul_sys::{Errno, Error, Operation, Standard};

use super::attributes::Wanted;
use super::content::Map;
use super::flight::Trace;
use super::make::{Place, When, way_problem};
use super::piece::{At, Item, Large, Load, Part, PartBytes, Piece};
use super::places::{Following, Missing, Places, Way};
use super::{Extractor, FAILED, Roots, State, lock};
use crate::tar::list::Lines;
use crate::tar::naming::Naming;
use crate::tar::read::archive;
use crate::tar::read::input::{self, BUFFER_BYTES};
use crate::tar::read::member::{Kind, Member};
use crate::tar::read::members::Members;
use crate::tar::read::select::{Selection, confined};
use crate::tar::{Confinement, Options, wording};

/// Members of one piece at most.
const MEMBERS_MAX: usize = 256;
/// A piece is full when its content and its members take so much memory.
const PIECE_BYTES: usize = 1 << 20;
/// Content up to this is read by the reader, with the headers around it.
const SMALL_BYTES: usize = 64 << 10;
/// Files are made in parts of this, if they are longer.
const RANGE_BYTES: u64 = 4 << 20;

/// Who reads the content of a member.
enum Reading {
    /// The reader: so many bytes.
    Here(usize),
    /// Whoever makes it: of the archive, which has so many bytes from there on.
    There(u64),
    /// It is cut in parts.
    InParts,
}

/// Goes over an archive.
pub(super) struct Reader {
    members: Members,
    options: Arc<Options>,
    selection: Selection,
    naming: Naming,
    lines: Lines,
    roots: Roots,
    /// The ways to members, and to what further names lead to, by root.
    places: [Vec<Places>; 2],
    /// Whether everything is made in turn, as links on the way make two names one.
    in_turn: bool,
    large: Option<(Arc<Large>, Vec<Trace>, u64, u64)>,
    over: bool,
}

impl Reader {
    /// Begins with the first member.
    pub(super) fn new(
        members: Members,
        options: &Arc<Options>,
        places: [Vec<Places>; 2],
        roots: Roots,
        following: Following,
    ) -> Self {
        Self {
            members,
            selection: Selection::new(options),
            naming: Naming::new(options.confinement),
            lines: Lines::new(options.verbose, options.numeric_owner),
            options: Arc::clone(options),
            roots,
            places,
            in_turn: following != Following::Never,
            large: None,
            over: false,
        }
    }

    /// Tells whether everything is made in turn.
    pub(super) fn is_in_turn(&self) -> bool {
        self.in_turn
    }

    /// Tells of operands that were not found; returns whether there are any.
    pub(super) fn tell_missing(&self, report: &dyn Report) -> bool {
        self.selection.tell_missing(report)
    }

    /// Cuts off the next piece.
    pub(super) fn next(&mut self, desk: &Desk<'_, Extractor>, state: &State) -> Option<Piece> {
        if self.large.is_some() {
            return self.next_part(desk, state);
        }
        // Whoever makes a member elsewhere reads its content there.
        let (goes_out, mut weight) = (state.out.is_open(), 0_usize);
        let (mut items, mut names) = (Vec::new(), Vec::new());
        while !self.over && items.len() < MEMBERS_MAX && weight < PIECE_BYTES {
            let Some(member) = self.next_member(desk, state) else { break };
            let is_directory = member.kind == Kind::Directory;
            let Some(mut item) = self.prepare(desk, state, member) else {
                // What comes next is in another directory, which another worker need not wait for.
                if is_directory && (weight >= PIECE_BYTES / 4 || items.len() >= MEMBERS_MAX / 4) {
                    break;
                }
                continue;
            };
            item.names.iter().for_each(|name| state.flight.begin(*name));
            match self.reading(&item.member, goes_out) {
                Reading::Here(length) => {
                    let (chunk, outcome) = self.members.chunk(length);
                    outcome.unwrap_or_else(|failure| self.broken(desk, state, failure));
                    item.content = Some(chunk);
                }
                Reading::InParts => {
                    self.begin_large(desk, state, item);
                    if self.large.is_some() {
                        break;
                    }
                    // It is kept as it is, or cannot be made: the archive goes on behind it.
                    continue;
                }
                // What is missing at the end is told when the reader comes there.
                Reading::There(there) => item.member.stored = item.member.stored.min(there),
            }
            if !goes_out {
                names.append(&mut item.names);
            }
            let stored = usize::try_from(item.member.stored).unwrap_or(PIECE_BYTES);
            weight = weight.saturating_add(stored).saturating_add(item.member.weight());
            items.push(item);
        }
        match items.is_empty() {
            false => Some(Piece { load: Load::Members(items), names }),
            true if self.large.is_some() => self.next_part(desk, state),
            true => None,
        }
    }

    /// Says who reads the content of a member.
    fn reading(&self, member: &Member, goes_out: bool) -> Reading {
        let input = self.members.input();
        match (usize::try_from(member.stored), input.size()) {
            _ if !member.is_file() => Reading::Here(0),
            (_, Some(size)) if goes_out => Reading::There(size.saturating_sub(member.content_at)),
            (Ok(stored), _) if stored <= input.ready().max(SMALL_BYTES) => Reading::Here(stored),
            (Ok(stored), None) if stored <= BUFFER_BYTES => Reading::Here(stored),
            (_, Some(size)) if member.stored <= RANGE_BYTES => {
                Reading::There(size.saturating_sub(member.content_at))
            }
            _ => Reading::InParts,
        }
    }

    /// Reads the next member's header.
    fn next_member(&mut self, desk: &Desk<'_, Extractor>, state: &State) -> Option<Member> {
        let mut problems = Vec::new();
        let next = self.members.next(&mut problems);
        problems.into_iter().for_each(|problem| desk.problem(problem));
        match next {
            Ok(Some(member)) => return Some(member),
            Ok(None) => {
                self.over = true;
                match archive::finish(&mut self.members, &self.options) {
                    Ok(warning) => warning.into_iter().for_each(|warning| desk.problem(warning)),
                    Err(failure) => self.broken(desk, state, failure),
                }
            }
            Err(failure) => self.broken(desk, state, failure),
        }
        None
    }

    /// Ends the reading of an archive that cannot be read on.
    fn broken(&mut self, desk: &Desk<'_, Extractor>, state: &State, failure: input::Failure) {
        self.over = true;
        state.broken.store(true, Ordering::Relaxed);
        desk.problem(archive::problem(&self.options, failure));
    }

    /// Says what is to be made of a member, and which names that touches. Directories are made at once, if they can be.
    fn prepare(&mut self, desk: &Desk<'_, Extractor>, state: &State, mut member: Member) -> Option<Item> {
        let operand = self.selection.wants(&member.name)?;
        if member.refused || member.kind == Kind::Volume {
            return None;
        }
        if member.kind == Kind::Continued {
            let problem = Problem::new(wording::CONTINUED).naming(member.name.as_slice());
            desk.problem(problem);
            return None;
        }
        let path = self.path(desk, &member.name)?;
        if self.options.verbose > 0 {
            desk.report().line(self.lines.line(&member));
        }
        if let Kind::Unknown(letter) = member.kind {
            let problem = Problem::new(wording::UNKNOWN_KIND).naming(member.name.as_slice()).naming([letter]);
            desk.problem(problem.as_warning());
        }
        if member.kind == Kind::HardLink {
            let link = self.confined(desk, &member.link, wording::REMOVING_LINK_PREFIX);
            let Some(link) = stripped(link, self.options.strip_components) else {
                // It leads to a member that has no name left, and is nowhere.
                let absent = Error::new(Operation::Linkat, String::new(), Errno::NOENT);
                desk.problem(Problem::new(wording::CANNOT_LINK).naming(path).naming("").because(absent));
                return None;
            };
            member.link = link;
        }
        let root = self.roots.of(&self.options, operand);
        let wanted = desk.tool().rights.wanted(&mut member);
        let item = Item { member, wanted, path, root, at: At::InTurn, content: None, names: Vec::new() };
        if self.in_turn {
            return Some(item);
        }
        self.place(desk, state, item)
    }

    fn confined<'a>(&self, desk: &Desk<'_, Extractor>, name: &'a [u8], wording: Wording) -> &'a [u8] {
        confined(&self.naming, &self.options, name, wording, desk.report())
    }

    /// Returns the path of a member below the root; `None` if it is not to be extracted.
    fn path(&self, desk: &Desk<'_, Extractor>, name: &[u8]) -> Option<Vec<u8>> {
        let path = match name.is_empty() {
            true => &b"."[..],
            false => self.confined(desk, name, wording::REMOVING_PREFIX),
        };
        let leads_up = name.split(|byte| *byte == b'/').any(|component| component == b"..");
        if leads_up && self.options.confinement == Confinement::Confined {
            desk.problem(Problem::new(wording::DOT_DOT).naming(name));
            return None;
        }
        stripped(path, self.options.strip_components)
    }

    /// Finds where a member belongs. What can be made at once, is.
    fn place(&mut self, desk: &Desk<'_, Extractor>, state: &State, mut item: Item) -> Option<Item> {
        let (cache, flight) = (desk.cache(), Some(&state.flight));
        let [members, links] = &mut self.places;
        let places = &mut members[item.root];
        let (spot, name) = match places.find(cache, &item.path, Missing::Make, flight) {
            Ok(Way::To(spot, name)) => (spot, name),
            Ok(Way::Root(spot)) => {
                root_is(desk, state, &item, spot);
                return None;
            }
            Ok(Way::Busy) => return Some(in_turn(item)),
            Err(cause) => {
                desk.problem(way_problem(&item.path, cause));
                return None;
            }
        };
        let trace = spot.trace.of(name.to_bytes());
        if state.flight.has(trace) {
            return Some(in_turn(item));
        }
        match item.member.kind {
            Kind::Directory => {
                desk.tool().make_directory_member(desk, (places, &state.directories), &item, (&spot, &name));
                None
            }
            Kind::HardLink => match links[item.root].find(cache, &item.member.link, Missing::Fail, flight) {
                Ok(Way::To(above, leads_to)) => {
                    item.names = vec![trace, above.trace.of(leads_to.to_bytes())];
                    item.at = At::Link(spot, name, above, leads_to);
                    Some(item)
                }
                Ok(Way::Busy | Way::Root(_)) | Err(_) => Some(in_turn(item)),
            },
            _ => {
                item.at = At::Here(spot, name);
                item.names = vec![trace];
                Some(item)
            }
        }
    }

    /// Makes a large file, and hands it out in parts.
    fn begin_large(&mut self, desk: &Desk<'_, Extractor>, state: &State, mut item: Item) {
        let names = std::mem::take(&mut item.names);
        let early = match &item.at {
            At::Here(spot, name) => {
                desk.tool().make_large(desk, &item, (Arc::clone(spot), name.clone()), When::Early)
            }
            _ => Some(Place::Waits),
        };
        let (file, in_turn) = match early {
            Some(Place::New(file)) => (Some(Arc::new(file)), false),
            Some(Place::Waits) => (None, true),
            Some(Place::Kept) | None => return state.flight.end(&names),
        };
        let map = item.member.map.take().map(Map::new);
        let wanted: Wanted = item.wanted.clone();
        let stored = item.member.stored;
        let large = Large { item: item.into(), wanted, map, file: file.into(), failed: None.into(), in_turn };
        self.large = Some((Arc::new(large), names, 0, stored));
    }

    /// Cuts off the next part of a large file.
    fn next_part(&mut self, desk: &Desk<'_, Extractor>, state: &State) -> Option<Piece> {
        let (large, names, start, stored) = self.large.take()?;
        let left = stored - start;
        let (bytes, length) = match self.members.input().size() {
            Some(size) => {
                let at = lock(&large.item).member.content_at + start;
                // A header may say more than there is.
                let there = size.saturating_sub(at).min(left).min(RANGE_BYTES);
                if there == 0 {
                    self.broken(desk, state, input::Failure::Ended);
                }
                (PartBytes::InArchive(at..at + there), there)
            }
            None => {
                let (chunk, outcome) = self.members.chunk(BUFFER_BYTES);
                outcome.unwrap_or_else(|failure| self.broken(desk, state, failure));
                let length = chunk.len() as u64;
                (PartBytes::Read(chunk), length)
            }
        };
        let is_last = length == left || self.over;
        let part = Part { large: Arc::clone(&large), start, bytes, is_first: start == 0, is_last };
        let mut piece = Piece { load: Load::Part(part), names: Vec::new() };
        match is_last {
            true => piece.names = names,
            false => self.large = Some((large, names, start + length, stored)),
        }
        Some(piece)
    }
}

/// Records what the archive says of the root itself; nothing but a directory can be there.
pub(super) fn root_is(
    desk: &Desk<'_, Extractor>,
    state: &State,
    item: &Item,
    spot: Arc<super::places::Spot>,
) {
    match item.member.kind {
        Kind::Directory => lock(&state.directories).record(spot, item.wanted.clone(), item.path.clone()),
        _ => desk.problem(Problem::new(wording::IS_ROOT).naming(item.path.as_slice())),
    }
}

/// Leaves a member to its turn: everything on the way to it is under way until then.
fn in_turn(mut item: Item) -> Item {
    let names = &mut item.names;
    let mut record = |path: &[u8]| {
        let mut trace = Trace::ROOT;
        for component in path.split(|byte| *byte == b'/') {
            if !component.is_empty() && component != b"." {
                trace = trace.of(component);
                names.push(trace);
            }
        }
    };
    record(&item.path);
    if item.member.kind == Kind::HardLink {
        record(&item.member.link);
    }
    item
}

/// Takes leading components away; `None` if nothing is left.
fn stripped(path: &[u8], count: usize) -> Option<Vec<u8>> {
    let mut rest = path;
    for _ in 0..count {
        let slash = rest.iter().position(|byte| *byte == b'/')?;
        let behind = rest[slash..].iter().position(|byte| *byte != b'/')?;
        rest = &rest[slash + behind..];
    }
    Some(rest.to_vec())
}

/// Writes the content of regular files to standard output, one after the other (`-O`).
pub(super) fn to_standard_output(mut members: Members, options: &Options, report: &dyn Report) -> u8 {
    let (selection, mut lines) =
        (Selection::new(options), Lines::new(options.verbose, options.numeric_owner));
    let (mut problems, mut failed) = (Vec::new(), false);
    loop {
        let next = members.next(&mut problems);
        failed |= archive::tell(&mut problems, report);
        let outcome = match next {
            Ok(Some(member)) => {
                let is_wanted = selection.wants(&member.name).is_some()
                    && stripped(&member.name, options.strip_components).is_some();
                if is_wanted && options.verbose > 0 {
                    report.line(lines.line(&member));
                }
                match is_wanted && member.is_file() && !member.refused {
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
    }
    failed |= archive::end(&mut members, options, report);
    failed |= selection.tell_missing(report);
    if failed { FAILED } else { 0 }
}

/// Writes one file to standard output, with zeros for its holes.
fn put_out(members: &mut Members, member: &Member, report: &dyn Report) -> Result<(), input::Failure> {
    let copy = |members: &mut Members, mut length: u64| {
        while length > 0 {
            let mut bytes = Vec::new();
            members.content(PIECE_BYTES.min(usize::try_from(length).unwrap_or(PIECE_BYTES)), &mut bytes)?;
            if bytes.is_empty() {
                return Err(input::Failure::Ended);
            }
            length -= bytes.len() as u64;
            report.output(Standard::Output, &bytes);
        }
        Ok(())
    };
    let Some(map) = &member.map else { return copy(members, member.stored) };
    let mut at = 0;
    let zeros = |mut length: u64| {
        while length > 0 {
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
