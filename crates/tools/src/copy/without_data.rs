//! `--attributes-only`: files are made, or stay as they are, and only get attributes.
//!
//! No data is read, so the source is not opened either, unless only that can tell whether it may be read, which GNU cp
//! demands, or what its attributes are. A new file costs three calls: statx, openat, close.

use haul_flow::{Desk, Found, Problem, Tally};
use haul_sys::{Fd, FileType, Mode, Open, Stat, open};

use super::Copier;
use super::attributes::{Object, Subject};
use super::options::Preserve;
use super::place::Made;
use super::regular::{OpenTarget, Target};
use super::target::target_path;

impl Copier {
    /// Makes a file like the source, without its content; returns what came of it.
    pub(super) fn copy_without_data(
        &self,
        desk: &Desk<'_, Self>,
        found: &Found<Self>,
        directory: &Fd,
        source: &Stat,
    ) -> Result<Made, Problem> {
        let unreadable =
            |cause| Problem::new(haul_flow::wording::CANNOT_OPEN).naming(found.path()).because(cause);
        let opened = match self.must_open(found, source) {
            Some(how) => Some(open(directory, found.name(), how).map_err(unreadable)?),
            None => None,
        };
        let target = match self.open_target(desk, found, source, self.private_birth(source))? {
            Target::Open(target) => target,
            Target::Left(left) => return Ok(Made::Left(left)),
        };
        let OpenTarget { file, before, .. } = target;
        let looked_at = match &opened {
            Some(opened) => Object::Open(opened),
            None => Object::Named(directory, found.name()),
        };
        let xattrs = self.read_xattrs(desk, looked_at, &|| found.path());
        let done = self.give_attributes(
            desk,
            &Subject {
                object: Object::Open(&file),
                stat: source,
                xattrs: &xattrs,
                before: before.as_ref(),
                plain_mode: self.plain_file_mode(source, before.as_ref()),
                has_access_list: found.node.own.gives_access_list,
                birth: None,
                target_path: &|| target_path(found),
            },
        );
        let lost = |path: Vec<u8>| {
            move |cause| Problem::new(haul_flow::wording::FAILED_TO_CLOSE).naming(path).because(cause)
        };
        file.close().map_err(lost(target_path(found)))?;
        if let Some(opened) = opened {
            opened.close().map_err(lost(found.path()))?;
        }
        if done {
            desk.count(Tally { files: 1, ..Tally::default() });
        }
        Ok(Made::whole_if(done))
    }

    /// Says how the source is opened, if it has to be.
    fn must_open(&self, found: &Found<Self>, source: &Stat) -> Option<Open> {
        let follows = self.follows_here(found);
        let how = if follows { Open::READ.following() } else { Open::READ };
        // By its name, the attributes of a link would be those of the link itself.
        let looks = follows && (self.preserves(Preserve::MODE) || self.preserves(Preserve::XATTR));
        let must = match source.kind {
            FileType::Regular => looks || !self.may_surely_read(source),
            // Fails, as it does for GNU.
            FileType::Socket => true,
            // Opening a FIFO waits for a writer, and opening a device may do anything.
            _ => false,
        };
        must.then_some(how)
    }

    /// Tells whether the mode alone shows that this process may read a file.
    fn may_surely_read(&self, source: &Stat) -> bool {
        let own = source.owner == self.process.user && source.mode.contains(Mode::OWNER_READ);
        self.process.user == 0 || own || source.mode.contains(Mode::READ)
    }
}
