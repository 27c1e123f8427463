//! Stages of an extraction: pieces are cut off, made by all workers, and members that had to wait
//! are made in turn.

use std::ffi::CString;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use haul_flow::{Desk, Problem, Stages};
use haul_sys::truncate;

use super::content::{self, Stored};
use super::directories::Directories;
use super::make::{Made, NewFile, Place, When, way_problem};
use super::piece::{At, Item, Large, Load, Part, PartBytes, Piece};
use super::places::{Missing, Places, Spot, Way};
use super::reader::root_is;
use super::{Extractor, State, lock};
use crate::tar::read::member::Kind;
use crate::tar::wording;

impl Stages<Extractor> for State {
    type Piece = Piece;
    type Made = Piece;

    fn next(&self, desk: &Desk<'_, Extractor>) -> Option<Piece> {
        lock(&self.reader).next(desk, self)
    }

    fn work(&self, desk: &Desk<'_, Extractor>, piece: Piece) -> Piece {
        let Piece { load, names } = piece;
        let load = match load {
            Load::Members(items) if self.out.is_open() => {
                let (rest, names) = self.send(desk, items);
                return Piece { load: Load::Members(rest), names };
            }
            Load::Members(mut items) => {
                items.retain_mut(|item| self.make_early(desk, item) == Made::Waits);
                Load::Members(items)
            }
            Load::Part(mut part) => {
                if !part.large.in_turn {
                    self.put_part(desk, &part);
                    part.bytes = PartBytes::Put;
                }
                Load::Part(part)
            }
        };
        Piece { load, names }
    }

    fn put(&self, desk: &Desk<'_, Extractor>, made: Piece) {
        match made.load {
            Load::Members(items) if self.out.is_open() => {
                if !items.is_empty() {
                    self.make_waiting(desk, Some((items, made.names)), false);
                }
                return;
            }
            Load::Members(items) => {
                if !items.is_empty() {
                    lock(&self.late).iter_mut().for_each(Places::reset);
                }
                items.into_iter().for_each(|item| self.make_in_turn(desk, item));
            }
            Load::Part(part) => self.end_part(desk, &part),
        }
        self.flight.end(&made.names);
    }

    fn end(&self, desk: &Desk<'_, Extractor>) {
        match self.out.is_open() {
            true => self.make_waiting(desk, None, true),
            false => self.finish(desk),
        }
    }
}

impl State {
    /// Finishes the directories, once everything else is complete.
    pub(super) fn finish(&self, desk: &Desk<'_, Extractor>) {
        desk.tool().finish_directories(desk, &self.directories);
        if let Some(found) = lock(&self.found).take() {
            desk.settle(&found);
        }
    }

    /// Makes a member in parallel with others.
    fn make_early(&self, desk: &Desk<'_, Extractor>, item: &mut Item) -> Made {
        // Moved out so that the item can be changed, and restored in case it has to wait.
        let at = std::mem::replace(&mut item.at, At::InTurn);
        let made = match &at {
            At::InTurn => Made::Waits,
            // Its source may be in flight, for example in this very piece.
            At::Link(..) => Made::Waits,
            At::Here(spot, name) => self.make(desk, item, (spot, name), When::Early),
        };
        item.at = at;
        made
    }

    /// Makes a member after all earlier ones.
    pub(super) fn make_in_turn(&self, desk: &Desk<'_, Extractor>, mut item: Item) {
        let at = std::mem::replace(&mut item.at, At::InTurn);
        match at {
            At::Here(spot, name) => {
                self.make(desk, &mut item, (&spot, &name), When::InTurn);
            }
            At::Link(spot, name, above, leads_to) => {
                self.link(desk, &item, (&spot, &name), (&above, &leads_to));
            }
            At::InTurn => {
                let Some((spot, name)) = self.find(desk, &mut item) else { return };
                match item.member.kind {
                    Kind::HardLink => self.find_and_link(desk, &item, (&spot, &name)),
                    Kind::Directory => {
                        let places = &mut lock(&self.late)[item.root];
                        desk.tool().make_directory_member(
                            desk,
                            (places, &self.directories),
                            &item,
                            (&spot, &name),
                        );
                    }
                    _ => {
                        self.make(desk, &mut item, (&spot, &name), When::InTurn);
                    }
                }
            }
        }
    }

    /// Resolves the path of a member, once nothing on it is in flight.
    fn find(&self, desk: &Desk<'_, Extractor>, item: &mut Item) -> Option<(Arc<Spot>, CString)> {
        let found = lock(&self.late)[item.root].find(desk.cache(), &item.path, Missing::Make, None);
        match found {
            Ok(Way::To(spot, name)) => return Some((spot, name)),
            Ok(Way::Root(spot)) => root_is(desk, self, item, spot),
            // Never: no names in flight were passed.
            Ok(Way::Busy) => {}
            Err(cause) => desk.problem(way_problem(&item.path, cause)),
        }
        None
    }

    /// Makes any member but a directory or a hard link.
    fn make(
        &self,
        desk: &Desk<'_, Extractor>,
        item: &mut Item,
        (spot, name): (&Arc<Spot>, &CString),
        when: When,
    ) -> Made {
        let directory = match desk.cache().open(&spot.held) {
            Ok(directory) => directory,
            Err(cause) => return super::make::fail(desk, way_problem(&item.path, cause)),
        };
        let (extractor, Item { member, wanted, path, content, .. }) = (desk.tool(), item);
        if !member.is_file() {
            return extractor.make_other(desk, (spot, &directory, name), (member, wanted, path), when);
        }
        let stored = match (content, extractor.archive.get()) {
            (Some(chunk), _) => Stored::Bytes(chunk),
            (None, Some(archive)) => Stored::Archive(archive, member.content_at, member.stored),
            (None, None) => {
                let problem = extractor.content_problem(content::Failure::Ended, path);
                return super::make::fail(desk, problem);
            }
        };
        extractor.make_file(desk, (spot, &directory, name), (member, wanted, path), &stored, when)
    }

    /// Resolves the source of a hard link, and makes it.
    fn find_and_link(&self, desk: &Desk<'_, Extractor>, item: &Item, (spot, name): (&Arc<Spot>, &CString)) {
        let found = lock(&self.late)[item.root].find(desk.cache(), &item.member.link, Missing::Fail, None);
        match found {
            Ok(Way::To(above, leads_to)) => self.link(desk, item, (spot, name), (&above, &leads_to)),
            outcome => {
                let problem = Problem::new(wording::CANNOT_LINK)
                    .naming(item.path.as_slice())
                    .naming(item.member.link.as_slice());
                desk.problem(match outcome {
                    Err(cause) => problem.because(cause),
                    Ok(_) => problem,
                });
            }
        }
    }

    fn link(
        &self,
        desk: &Desk<'_, Extractor>,
        item: &Item,
        (spot, name): (&Arc<Spot>, &CString),
        (above, leads_to): (&Arc<Spot>, &CString),
    ) {
        let opened = desk.cache().open(&spot.held).and_then(|one| Ok((one, desk.cache().open(&above.held)?)));
        match opened {
            Ok((directory, opened)) => {
                let shown = (item.path.as_slice(), item.member.link.as_slice());
                let source = (&**above, &*opened, leads_to.as_c_str());
                desk.tool().make_link(desk, (&directory, name), source, shown, When::InTurn);
            }
            Err(cause) => desk.problem(way_problem(&item.path, cause)),
        }
    }

    fn put_part(&self, desk: &Desk<'_, Extractor>, part: &Part) {
        let large = &part.large;
        let Some(file) = lock(&large.file).clone() else { return };
        let stored = match (&part.bytes, desk.tool().archive.get()) {
            (PartBytes::Read(chunk), _) => Stored::Bytes(chunk),
            (PartBytes::InArchive(range), Some(archive)) => {
                Stored::Archive(archive, range.start, range.end - range.start)
            }
            _ => return,
        };
        let outcome = content::put(&file.fd, &stored, part.start, large.map.as_ref());
        if let Err(failure) = outcome {
            lock(&large.failed).get_or_insert(failure);
        }
    }

    /// Takes a part in its turn; the last one finishes the file.
    fn end_part(&self, desk: &Desk<'_, Extractor>, part: &Part) {
        let large = &part.large;
        if large.in_turn {
            if part.is_first {
                *lock(&large.file) = self.begin_in_turn(desk, large);
            }
            self.put_part(desk, part);
        }
        if !part.is_last {
            return;
        }
        let Some(file) = lock(&large.file).take().and_then(Arc::into_inner) else { return };
        let failed = lock(&large.failed).take();
        if matches!(failed, Some(content::Failure::Ended)) {
            self.broken.store(true, Ordering::Relaxed);
        }
        let item = lock(&large.item);
        let outcome = failed.map_or(Ok(()), Err);
        desk.tool().end_file(desk, file, &large.wanted, &item.path, outcome, item.member.size);
    }

    fn begin_in_turn(&self, desk: &Desk<'_, Extractor>, large: &Large) -> Option<Arc<NewFile>> {
        let mut item = lock(&large.item);
        let place = match std::mem::replace(&mut item.at, At::InTurn) {
            At::Here(spot, name) => Some((spot, name)),
            _ => {
                lock(&self.late).iter_mut().for_each(Places::reset);
                self.find(desk, &mut item)
            }
        };
        match desk.tool().make_large(desk, &item, place?, When::InTurn)? {
            Place::New(file) => Some(Arc::new(file)),
            Place::Kept | Place::Waits => None,
        }
    }
}

impl Extractor {
    /// Creates the file of a large member, at full length if it has holes. `None` if that fails,
    /// which is reported.
    pub(super) fn make_large(
        &self,
        desk: &Desk<'_, Self>,
        item: &Item,
        (spot, name): (Arc<Spot>, CString),
        when: When,
    ) -> Option<Place<NewFile>> {
        let made = desk.cache().open(&spot.held).and_then(|directory| {
            let place = self.new_file((&spot, &directory), &name, &item.wanted, when)?;
            if let (Place::New(file), Some(_)) = (&place, &item.member.map) {
                truncate(&file.fd, item.member.size)?;
            }
            Ok(place)
        });
        made.map_err(|cause| {
            desk.problem(Problem::new(wording::CANNOT_OPEN).naming(item.path.as_slice()).because(cause));
        })
        .ok()
    }

    /// Makes a directory of the archive, and records it to get its attributes at the end.
    pub(super) fn make_directory_member(
        &self,
        desk: &Desk<'_, Self>,
        (places, directories): (&mut Places, &Mutex<Directories>),
        item: &Item,
        (spot, name): (&Arc<Spot>, &CString),
    ) {
        let directory = match desk.cache().open(&spot.held) {
            Ok(directory) => directory,
            Err(cause) => return desk.problem(way_problem(&item.path, cause)),
        };
        let Some(new) = self.make_directory_at(desk, (&directory, name), &item.path) else { return };
        match places.take(desk.cache(), spot, name, new) {
            Ok(made) => lock(directories).record(made, item.wanted.clone(), item.path.clone()),
            Err(cause) => desk.problem(way_problem(&item.path, cause)),
        }
    }
}
