//! Stages of an extraction: pieces are cut off, made by all workers, and members that had to wait
//! are made in turn.

use std::ffi::CString;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use haul_flow::{Context, Problem, Stages, lock};
use haul_sys::{Errno, Error, Operation, truncate};

use super::content::{self, StoredContent};
use super::directories::Directories;
use super::make::{CreateOutcome, MemberOutcome, MemberPlace, NewFile, When, path_problem};
use super::piece::{At, ExtractItem, ExtractPiece, LargeMember, LargePart, Load, PartBytes};
use super::reader::root_is;
use super::resolver::{MemberDir, Missing, Resolved, Resolver};
use super::{ExtractState, Extractor};
use crate::TarKind;
use crate::format::MemberKind;

impl Stages<Extractor> for ExtractState {
    type Piece = ExtractPiece;
    type Output = ExtractPiece;

    fn next(&self, cx: &Context<'_, Extractor>) -> Option<ExtractPiece> {
        lock(&self.reader).next(cx, self)
    }

    fn work(&self, cx: &Context<'_, Extractor>, piece: ExtractPiece) -> ExtractPiece {
        let ExtractPiece { load, names } = piece;
        let load = match load {
            Load::Members(items) if self.remote.is_open() => {
                let (rest, names) = self.send(cx, items);
                return ExtractPiece { load: Load::Members(rest), names };
            }
            Load::Members(mut items) => {
                items.retain_mut(|item| cx.tool().make_early(cx, item) == MemberOutcome::Waits);
                Load::Members(items)
            }
            Load::Part(mut part) => {
                if !part.large.in_turn {
                    self.put_part(cx, &part);
                    part.bytes = PartBytes::Put;
                }
                Load::Part(part)
            }
        };
        ExtractPiece { load, names }
    }

    fn put(&self, cx: &Context<'_, Extractor>, made: ExtractPiece) {
        match made.load {
            Load::Members(items) if self.remote.is_open() => {
                if !items.is_empty() {
                    self.make_waiting(cx, Some((items, made.names)), false);
                }
                return;
            }
            Load::Members(items) => {
                if !items.is_empty() {
                    // Members made since then may have replaced directories on their paths.
                    lock(&self.late_resolvers).iter_mut().for_each(Resolver::reset);
                }
                items.into_iter().for_each(|item| self.make_in_turn(cx, item));
            }
            Load::Part(part) => self.end_part(cx, &part),
        }
        self.flight.end(&made.names);
    }

    fn end(&self, cx: &Context<'_, Extractor>) {
        match self.remote.is_open() {
            true => self.make_waiting(cx, None, true),
            false => self.finish(cx),
        }
    }
}

impl ExtractState {
    /// Finishes the directories, once everything else is complete.
    pub(super) fn finish(&self, cx: &Context<'_, Extractor>) {
        cx.tool().finish_directories(cx, &self.directories);
        if let Some(entry) = lock(&self.entry).take() {
            cx.complete(&entry);
        }
    }

    /// Makes a member after all earlier ones.
    pub(super) fn make_in_turn(&self, cx: &Context<'_, Extractor>, mut item: ExtractItem) {
        let at = std::mem::replace(&mut item.at, At::InTurn);
        match at {
            At::Here(member_dir, name) => {
                cx.tool().make(cx, &mut item, (&member_dir, &name), When::InTurn);
            }
            At::Link(member_dir, name, above, leads_to) => {
                self.link(cx, &item, (&member_dir, &name), (&above, &leads_to));
            }
            At::InTurn => {
                let Some((member_dir, name)) = self.find(cx, &mut item) else { return };
                match item.member.kind {
                    MemberKind::HardLink => self.find_and_link(cx, &item, (&member_dir, &name)),
                    MemberKind::Directory => {
                        let places = &mut lock(&self.late_resolvers)[item.root];
                        cx.tool().make_directory_member(
                            cx,
                            (places, &self.directories),
                            &item,
                            (&member_dir, &name),
                        );
                    }
                    _ => {
                        cx.tool().make(cx, &mut item, (&member_dir, &name), When::InTurn);
                    }
                }
            }
        }
    }

    /// Resolves the path of a member, once nothing on it is in flight.
    fn find(&self, cx: &Context<'_, Extractor>, item: &mut ExtractItem) -> Option<(Arc<MemberDir>, CString)> {
        let follows = item.member.is_file() && cx.tool().options.follows_to_files();
        let mut resolvers = lock(&self.late_resolvers);
        let found = match follows {
            true => resolvers[item.root].find_behind_links(cx.cache(), &item.path),
            false => resolvers[item.root].find(cx.cache(), &item.path, Missing::Make, None),
        };
        drop(resolvers);
        match found {
            Ok(Resolved::To(member_dir, name)) => return Some((member_dir, name)),
            Ok(Resolved::Root(member_dir)) => root_is(cx, self, item, member_dir),
            // Never: no names in flight were passed.
            Ok(Resolved::Busy) => {}
            Err(cause) => cx.problem(path_problem(&item.path, cause)),
        }
        None
    }

    /// Resolves the source of a hard link, and makes it.
    fn find_and_link(
        &self,
        cx: &Context<'_, Extractor>,
        item: &ExtractItem,
        (member_dir, name): (&Arc<MemberDir>, &CString),
    ) {
        let found =
            lock(&self.late_resolvers)[item.root].find(cx.cache(), &item.member.link, Missing::Fail, None);
        match found {
            Ok(Resolved::To(above, leads_to)) => self.link(cx, item, (member_dir, name), (&above, &leads_to)),
            outcome => {
                let problem = Problem::new(TarKind::CannotLink)
                    .naming(item.path.as_slice())
                    .naming(item.member.link.as_slice());
                cx.problem(match outcome {
                    Err(cause) => problem.because(cause),
                    // A directory.
                    Ok(_) => problem.because(Error::new(
                        Operation::Linkat,
                        format!("{:?}", item.path),
                        Errno::PERM,
                    )),
                });
            }
        }
    }

    fn link(
        &self,
        cx: &Context<'_, Extractor>,
        item: &ExtractItem,
        (member_dir, name): (&Arc<MemberDir>, &CString),
        (above, leads_to): (&Arc<MemberDir>, &CString),
    ) {
        let opened =
            cx.cache().open(&member_dir.held).and_then(|one| Ok((one, cx.cache().open(&above.held)?)));
        match opened {
            Ok((directory, opened)) => {
                let place = MemberPlace { member_dir, directory: &directory, name };
                let source = MemberPlace { member_dir: above, directory: &opened, name: leads_to };
                cx.tool().make_link(cx, item, place, source, When::InTurn);
            }
            Err(cause) => cx.problem(path_problem(&item.path, cause)),
        }
    }

    fn put_part(&self, cx: &Context<'_, Extractor>, part: &LargePart) {
        let large = &part.large;
        let Some(file) = lock(&large.file).clone() else { return };
        let stored = match (&part.bytes, cx.tool().archive.get()) {
            (PartBytes::Read(chunk), _) => StoredContent::Bytes(chunk),
            (PartBytes::InArchive(range), Some(archive)) => {
                StoredContent::Archive(archive, range.start, range.end - range.start)
            }
            _ => return,
        };
        let outcome = content::put(&file.fd, &stored, part.start, large.map.as_ref());
        if let Err(failure) = outcome {
            lock(&large.failed).get_or_insert(failure);
        }
    }

    /// Ends a part in its turn; the last one finishes the file.
    fn end_part(&self, cx: &Context<'_, Extractor>, part: &LargePart) {
        let large = &part.large;
        if large.in_turn {
            if part.is_first {
                *lock(&large.file) = self.begin_in_turn(cx, large);
            }
            self.put_part(cx, part);
        }
        if !part.is_last {
            return;
        }
        // The last reference: a part is put only after it was written, and this one is the last.
        let Some(file) = lock(&large.file).take().and_then(Arc::into_inner) else { return };
        let failed = lock(&large.failed).take();
        if matches!(failed, Some(content::ContentFailure::Ended)) {
            self.broken.store(true, Ordering::Relaxed);
        }
        let item = lock(&large.item);
        let outcome = failed.map_or(Ok(()), Err);
        cx.tool().end_file(cx, file, (&item.member, &large.wanted, &item.path), outcome);
    }

    fn begin_in_turn(&self, cx: &Context<'_, Extractor>, large: &LargeMember) -> Option<Arc<NewFile>> {
        let mut item = lock(&large.item);
        let place = match std::mem::replace(&mut item.at, At::InTurn) {
            At::Here(member_dir, name) => Some((member_dir, name)),
            _ => {
                lock(&self.late_resolvers).iter_mut().for_each(Resolver::reset);
                self.find(cx, &mut item)
            }
        };
        match cx.tool().make_large(cx, &item, place?, When::InTurn)? {
            CreateOutcome::New(file) => Some(Arc::new(file)),
            CreateOutcome::Kept | CreateOutcome::Waits => None,
        }
    }
}

impl Extractor {
    /// Makes a member in parallel with others.
    pub(super) fn make_early(&self, cx: &Context<'_, Self>, item: &mut ExtractItem) -> MemberOutcome {
        // Moved out so that the item can be changed, and restored in case it has to wait.
        let at = std::mem::replace(&mut item.at, At::InTurn);
        let made = match &at {
            At::InTurn => MemberOutcome::Waits,
            // Its source may be in flight, for example in this very piece.
            At::Link(..) => MemberOutcome::Waits,
            At::Here(member_dir, name) => self.make(cx, item, (member_dir, name), When::Early),
        };
        item.at = at;
        made
    }

    /// Makes any member but a directory or a hard link.
    fn make(
        &self,
        cx: &Context<'_, Self>,
        item: &mut ExtractItem,
        (member_dir, name): (&Arc<MemberDir>, &CString),
        when: When,
    ) -> MemberOutcome {
        let directory = match cx.cache().open(&member_dir.held) {
            Ok(directory) => directory,
            Err(cause) => return super::make::fail(cx, path_problem(&item.path, cause)),
        };
        let place = MemberPlace { member_dir, directory: &directory, name };
        let ExtractItem { member, wanted, path, content, .. } = item;
        if !member.is_file() {
            return self.make_other(cx, place, (member, wanted, path), when);
        }
        let stored = match (content, self.archive.get()) {
            (Some(chunk), _) => StoredContent::Bytes(chunk),
            (None, Some(archive)) => StoredContent::Archive(archive, member.content_at, member.stored),
            (None, None) => {
                let problem = self.content_problem(content::ContentFailure::Ended, path);
                return super::make::fail(cx, problem);
            }
        };
        self.make_file(cx, place, (member, wanted, path), &stored, when)
    }

    /// Creates the file of a large member, at full length if it has holes. `None` if that fails,
    /// which is reported.
    pub(super) fn make_large(
        &self,
        cx: &Context<'_, Self>,
        item: &ExtractItem,
        (member_dir, name): (Arc<MemberDir>, CString),
        when: When,
    ) -> Option<CreateOutcome<NewFile>> {
        let made = cx.cache().open(&member_dir.held).and_then(|directory| {
            let place = MemberPlace { member_dir: &member_dir, directory: &directory, name: &name };
            let outcome = self.new_file(place, &item.wanted, when)?;
            if let (CreateOutcome::New(file), Some(_)) = (&outcome, &item.member.map) {
                truncate(&file.fd, item.member.size)?;
            }
            Ok(outcome)
        });
        made.map_err(|cause| {
            cx.problem(Problem::new(TarKind::CannotOpen).naming(item.path.as_slice()).because(cause));
        })
        .ok()
    }

    /// Makes a directory of the archive, and records it to get its attributes at the end.
    pub(super) fn make_directory_member(
        &self,
        cx: &Context<'_, Self>,
        (places, directories): (&mut Resolver, &Mutex<Directories>),
        item: &ExtractItem,
        (member_dir, name): (&Arc<MemberDir>, &CString),
    ) {
        let directory = match cx.cache().open(&member_dir.held) {
            Ok(directory) => directory,
            Err(cause) => return cx.problem(path_problem(&item.path, cause)),
        };
        let Some(new) = self.make_directory_at(cx, (&directory, name), &item.path) else { return };
        let taken = match places.take(cx.cache(), member_dir, name, new) {
            // A link to a directory.
            Err(cause) if cause.is(Errno::NOTDIR) && self.options.follows_to_directories() => {
                places.find_directory(cx.cache(), &item.path)
            }
            taken => taken,
        };
        match taken {
            Ok(made) => lock(directories).record(made, item.wanted.clone(), item.path.clone()),
            Err(cause) => cx.problem(path_problem(&item.path, cause)),
        }
    }
}
