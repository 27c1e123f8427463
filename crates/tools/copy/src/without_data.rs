//! `--attributes-only`: creates files, or leaves them in place, and sets attributes only.
//!
//! No data is read, so the source is opened only if that alone can show that it is readable (which
//! GNU cp demands) or what its attributes are. A new file costs two calls, statx and mknodat. Under
//! `-a`, where files are known to be created with their final mode (`creation_mode.rs`), it costs
//! seven: statx, openat, listxattr and close of the source, openat, utimensat and close of the
//! target. They are opened because a name may lead to something else by the next call.

use haul_flow::{Context, Entry, FlowKind, Problem, Tally};
use haul_sys::{Error, Fd, FileType, Mode, Open, Special, Stat, make_special, open};

use super::Copier;
use super::attributes::{Object, Subject};
use super::creation_mode::CreationMode;
use super::layouts::Original;
use super::open_target::{OpenTarget, Target};
use super::options::Preserve;
use super::place::Made;
use super::target::{open_directory, target_name, target_path};
use super::xattr_rules::SourceXattrs;

impl Copier {
    /// Creates a file like the source, without its content.
    pub(super) fn copy_without_data(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        directory: &Fd,
        source: &Stat,
    ) -> Result<Made, Problem> {
        let opened = match self.must_open(entry, source).map(|how| open(directory, entry.name(), how)) {
            Some(Ok(opened)) => Some(opened),
            Some(Err(cause)) => {
                // GNU opens the source after it has looked at the target and printed the line of
                // -v.
                if let Some(refusal) = self.refuses(cx, entry, source) {
                    return Err(refusal);
                }
                self.tell_copied(cx, entry);
                let unreadable = Problem::new(FlowKind::CannotOpen).naming(entry.path());
                return Err(unreadable.because(cause));
            }
            None => None,
        };
        let path = || entry.path();
        let xattrs = match &opened {
            Some(opened) => self.read_xattrs(cx, Object::Open(opened), &path),
            None => self.read_named_xattrs(cx, (directory, entry.name()), &path),
        };
        let made = match self.make_at_once(cx, entry, source) {
            Some(made) => Ok(made),
            None => self.make_by_opening(cx, entry, source, &xattrs),
        };
        match opened.map(Fd::close) {
            Some(Err(cause)) => made.and(Err(unclosed(entry.path(), cause))),
            _ => made,
        }
    }

    /// Creates a file that gets no attributes but its creation mode, without opening it. `None` if
    /// it needs more or can't be created; opening it then reports why.
    fn make_at_once(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, source: &Stat) -> Option<Made> {
        let keeps = self.options.preserve.difference(Preserve::LINKS);
        if !keeps.is_empty() || self.reads_xattrs() || self.plain_file_mode(source, None).is_some() {
            return None;
        }
        let directory = open_directory(cx, entry).ok()?;
        let mode = self.private_birth(source).mode;
        let file = Special { kind: FileType::Regular, mode, device_number: 0 };
        make_special(&directory, target_name(entry), file).ok()?;
        self.tell_copied(cx, entry);
        cx.count(Tally { files: 1, ..Tally::default() });
        Some(Made::Whole)
    }

    /// Creates or opens a file and sets its attributes.
    fn make_by_opening(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        source: &Stat,
        xattrs: &SourceXattrs,
    ) -> Result<Made, Problem> {
        let creation_mode = match xattrs.is_empty() && self.is_born_final(&entry.node.own, source) {
            true => CreationMode { mode: source.mode, is_final: true },
            false => self.private_birth(source),
        };
        let target = match self.open_target(cx, entry, Original::of(source), creation_mode)? {
            Target::Open(target) => target,
            Target::Left(left) => return Ok(Made::Left(left)),
        };
        let OpenTarget { file, before, creation_mode, .. } = target;
        let object = Object::Open(&file);
        let made =
            self.finish_without_data(cx, entry, source, (object, before.as_ref(), creation_mode, xattrs));
        file.close().map_err(|cause| unclosed(target_path(entry), cause))?;
        Ok(made)
    }

    fn finish_without_data(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        source: &Stat,
        (object, before, creation_mode, xattrs): (
            Object<'_>,
            Option<&Stat>,
            Option<CreationMode>,
            &SourceXattrs,
        ),
    ) -> Made {
        let subject = Subject {
            object,
            stat: source,
            xattrs,
            before,
            plain_mode: self.plain_file_mode(source, before),
            has_access_list: entry.node.own.gives_access_list,
            creation_mode: creation_mode.map(|creation_mode| (creation_mode, &entry.node.own)),
            target_path: &|| target_path(entry),
        };
        let done = self.give_attributes(cx, &subject);
        if done {
            cx.count(Tally { files: 1, ..Tally::default() });
        }
        Made::whole_if(done)
    }

    /// Returns how to open the source, if it must be opened.
    fn must_open(&self, entry: &Entry<Self>, source: &Stat) -> Option<Open> {
        let follows = self.follows_here(entry);
        let how = if follows { Open::READ.following() } else { Open::READ };
        // By name, these would be the symbolic link's own attributes.
        let looks = follows && (self.preserves(Preserve::MODE) || self.preserves(Preserve::XATTR));
        let must = match source.kind {
            FileType::Regular => looks || !self.may_surely_read(source),
            // Fails, as with GNU.
            FileType::Socket => true,
            // Opening a FIFO waits for a writer, and opening a device may do anything.
            _ => false,
        };
        must.then_some(how)
    }

    /// True if the mode alone shows that this process may read a file.
    fn may_surely_read(&self, source: &Stat) -> bool {
        let own = source.owner == self.process.user && source.mode.contains(Mode::OWNER_READ);
        self.process.user == 0 || own || source.mode.contains(Mode::READ)
    }
}

fn unclosed(path: Vec<u8>, cause: Error) -> Problem {
    Problem::new(FlowKind::FailedToClose).naming(path).because(cause)
}
