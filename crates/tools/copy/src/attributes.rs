//! Sets the attributes of a copy, in the only order that works:
//!
//! ```text
//! data ─► owner ─► extended attributes ─► mode and access list ─► times
//! ```
//!
//! Changing the owner clears capabilities and set-id bits, so it comes first. The mode may remove
//! the permission to set xattrs, so it comes after them. Every step before the last changes the
//! times. A copy whose owner could not be set gets no set-id bits; if that is an error, it gets
//! nothing but the times. Without the capability to change other users' files, the times come
//! first: after the change of owner they can't be set any more.
//!
//! Invariant: between creation and the last step nobody has more access to the copy than its final
//! mode grants (tests: the audit, and GNU's permission races).

use std::ffi::CStr;

use haul_flow::{Context, DirHandle, Entry, Problem};
use haul_sys::{Errno, Error, FileRef, FileType, Mode, Owner, Stat, Times};
use haul_sys::{change_mode, get_xattr, list_xattrs, remove_xattr, set_xattr};

use super::creation_mode::{self, CreationMode};
use super::default_label;
use super::entry_copy::EntryCopy;
use super::mend;
use super::object::{self, ACCESS_LIST, DEFAULT_ACCESS_LIST, SECURITY_LABEL};
use super::options::{Label, Preserve};
use super::source_xattrs::report_uncopied;
use super::target::{TargetDirectory, target_path};
use super::xattr_rules::SourceXattrs;
use super::{Copier, CopyKind};

/// A copy about to get its attributes.
pub(super) struct NewAttributes<'a> {
    pub(super) copier: &'a Copier,
    pub(super) cx: &'a Context<'a, Copier>,
    /// The copy.
    pub(super) object: FileRef<'a>,
    /// The source's `stat`.
    pub(super) stat: &'a Stat,
    /// The source's xattrs.
    pub(super) xattrs: &'a SourceXattrs,
    /// The target before this run; `None` if it is new.
    pub(super) before: Option<&'a Stat>,
    /// Mode to set if the source's is not preserved; `None` if the copy already has it.
    pub(super) plain_mode: Option<Mode>,
    /// True if the copy inherited an ACL.
    pub(super) has_access_list: bool,
    /// Creation mode and directory of the copy, if it is a new regular file.
    pub(super) creation_mode: Option<(CreationMode, &'a TargetDirectory)>,
    /// The copy's name in messages.
    pub(super) place: CopyPlace<'a>,
}

/// Where a copy is; its path is built only for messages.
#[derive(Clone, Copy)]
pub(super) enum CopyPlace<'a> {
    /// The copy of an entry.
    Entry(&'a Entry<Copier>),
    /// A directory whose entries are all copied.
    Directory(&'a DirHandle),
}

impl<'a> NewAttributes<'a> {
    /// The attributes of an entry's copy that is new and already has its mode.
    pub(super) fn of(
        copy: EntryCopy<'a>,
        object: FileRef<'a>,
        stat: &'a Stat,
        xattrs: &'a SourceXattrs,
    ) -> Self {
        Self {
            copier: copy.copier,
            cx: copy.cx,
            object,
            stat,
            xattrs,
            before: None,
            plain_mode: None,
            has_access_list: copy.entry.node.own.gives_access_list,
            creation_mode: None,
            place: CopyPlace::Entry(copy.entry),
        }
    }

    fn path(&self) -> Vec<u8> {
        match self.place {
            CopyPlace::Entry(entry) => target_path(entry),
            CopyPlace::Directory(held) => held.path(),
        }
    }

    /// Sets the attributes in the order above. Returns true if nothing required failed.
    pub(super) fn give(&self) -> bool {
        if let Err(problem) = default_label::give(self.copier, self.object, &|| self.path()) {
            self.cx.problem(problem);
        }
        if self.creation_mode.is_some_and(|(creation_mode, _)| creation_mode.is_final) {
            return self.give_times();
        }
        // GNU sets the times first and goes no further if that fails, as it must for another user's
        // file: one message, not one for each attribute. Nor may they be set once it is given away.
        let has_times = self.is_or_becomes_foreign() && self.copier.options.require_preserve;
        if has_times && !self.give_times() {
            return false;
        }
        let mut mode = self.stat.mode;
        let mut done = true;
        if self.copier.options.preserves(Preserve::OWNERSHIP) {
            match self.give_owner() {
                OwnerResult::Yes => {}
                OwnerResult::No => mode = mode.without(Mode::SPECIAL),
                OwnerResult::Failed => {
                    // GNU has set them before the owner. Like GNU, leave the mode as narrow as
                    // it is.
                    if !has_times {
                        self.give_times();
                    }
                    return false;
                }
            }
        }
        if self.before.is_some() && self.copier.options.existing.update.syncs() {
            done &= self.required(CopyKind::SettingAttributes, mend::remove_extra_xattrs(self));
        }
        if !self.xattrs.plain.is_empty() {
            done &= self.give_xattrs();
        }
        if self.stat.kind != FileType::Symlink {
            // Without its ACL, the source's mode may grant more.
            done &= match self.xattrs.lacks_permissions {
                true => !self.copier.options.require_preserve,
                false => self.give_mode(mode),
            };
        }
        done & (has_times || self.give_times())
    }

    /// True if another user owns the target before or after this, whose files this process may not
    /// change.
    fn is_or_becomes_foreign(&self) -> bool {
        let is_foreign = |stat: &Stat| stat.owner != self.copier.process.user;
        let gets_owner = self.copier.options.preserves(Preserve::OWNERSHIP);
        !self.copier.capabilities.change_all()
            && (self.before.is_some_and(is_foreign) || gets_owner && is_foreign(self.stat))
    }

    fn give_times(&self) -> bool {
        if !self.copier.options.preserves(Preserve::TIMESTAMPS) {
            return true;
        }
        // Setting them changes the ctime, after which others look for changes.
        let has_them = |now: Stat| now.modified == self.stat.modified;
        let may_have_them = self.before.is_some() && self.copier.options.existing.update.syncs();
        if may_have_them && self.object.stat().is_ok_and(has_them) {
            return true;
        }
        let times = Times { accessed: self.stat.accessed, modified: self.stat.modified };
        self.required(CopyKind::Times, self.object.change_times(times))
    }

    fn give_owner(&self) -> OwnerResult {
        let wanted = (self.stat.owner, self.stat.group);
        let same = match (self.before, self.object) {
            (Some(before), _) => (before.owner, before.group) == wanted,
            // A new file of our own usually has the right owner already; checking is cheaper than
            // setting. One created with set-id bits loses them when the owner is set.
            (None, object) if self.copier.is_own(self.stat) => object.stat().is_ok_and(|now| {
                if let Some((creation_mode, directory)) = self.creation_mode {
                    creation_mode::learn(self.copier, directory, creation_mode, &now);
                }
                self.copier.is_own(&now) && now.mode.and(Mode::SPECIAL).is_empty()
            }),
            (None, _) => false,
        };
        if same {
            return OwnerResult::Yes;
        }
        if let (Some(before), true) = (self.before, self.copier.options.preserves(Preserve::MODE)) {
            let narrow = before.mode.and(self.stat.mode).and(Mode::OWNER);
            let narrowed =
                if self.stat.kind == FileType::Symlink { Ok(()) } else { self.object.change_mode(narrow) };
            if !self.required(CopyKind::ClearingPermissions, narrowed) {
                return OwnerResult::Failed;
            }
        }
        let owner = Owner { user: Some(wanted.0), group: Some(wanted.1) };
        match self.object.change_owner(owner) {
            Ok(()) => OwnerResult::Yes,
            Err(cause) if self.copier.may_fail_to_own(&cause) => {
                // Unprivileged users can't give files away; the group alone may work, and GNU
                // ignores the result.
                self.object.change_owner(Owner { user: None, group: owner.group }).unwrap_or_default();
                OwnerResult::No
            }
            Err(cause) => match self.required(CopyKind::Ownership, Err(cause)) {
                true => OwnerResult::No,
                false => OwnerResult::Failed,
            },
        }
    }

    fn give_xattrs(&self) -> bool {
        let mut done = true;
        let mut unsupported = None;
        for (key, value) in &self.xattrs.plain {
            let outcome = object::change_xattr(self.object, |file| file.set_xattr(key, value));
            let is_required_label = key.as_c_str() == SECURITY_LABEL
                && matches!(self.copier.options.label, Label::Source { required: true });
            match outcome {
                Ok(()) => {}
                Err(cause) if is_required_label => {
                    let problem = Problem::new(CopyKind::SettingLabel).naming(self.path());
                    self.cx.problem(problem.because(cause));
                    done = false;
                }
                // libattr, which does this for GNU cp, complains once per file if its file system
                // has no xattrs.
                Err(cause) if matches!(cause.errno(), Errno::OPNOTSUPP | Errno::NOSYS) => {
                    unsupported = Some(cause);
                }
                Err(cause) => {
                    let problem = Problem::new(CopyKind::SettingAttribute).naming(key.as_bytes());
                    done &= report_uncopied(self.copier, self.cx, problem.naming(self.path()), cause);
                }
            }
        }
        if let Some(cause) = unsupported {
            mend::warn_no_xattrs(self.copier, self.cx, &|| self.path());
            let problem = Problem::new(CopyKind::SettingAttributes).naming(self.path());
            done &= report_uncopied(self.copier, self.cx, problem, cause);
        }
        done
    }

    fn give_mode(&self, mode: Mode) -> bool {
        if !self.copier.options.preserves(Preserve::MODE) {
            let Some(plain) = self.plain_mode else { return true };
            // Like GNU cp: a default mode overrides an inherited ACL. An existing directory gets
            // its own mode back.
            let is_default = self.copier.options.default_mode && self.before.is_none();
            let freed = if is_default { self.object.remove_xattr(ACCESS_LIST) } else { Ok(()) };
            let mode = freed.and_then(|()| object::with_special_bits(self.object, plain));
            // GNU gives a default mode as an access list, which leaves these bits alone. Only where
            // a file system has no lists does it change the mode itself.
            let keeps_special_bits = |mode: &Mode| {
                !is_default || mode.and(Mode::SPECIAL).is_empty() || object::has_access_lists(self.object)
            };
            let mode =
                mode.map(|mode| if keeps_special_bits(&mode) { mode } else { mode.without(Mode::SPECIAL) });
            let outcome = mode.and_then(|mode| self.object.change_mode(mode));
            return self.required(CopyKind::Permissions, outcome);
        }
        let outcome = self.give_access_lists(mode);
        self.required(CopyKind::Access, outcome)
    }

    /// Sets mode and ACLs as on the source. Removes inherited ACLs the source does not have.
    fn give_access_lists(&self, mode: Mode) -> Result<(), Error> {
        let FileRef::Open(file) = self.object else {
            let may_have_one = self.has_access_list || self.before.is_some();
            if may_have_one && self.xattrs.access_list.is_none() {
                self.object.remove_xattr(ACCESS_LIST)?;
            }
            self.object.change_mode(mode)?;
            self.xattrs.permissions.iter().try_for_each(|(key, value)| self.object.set_xattr(key, value))?;
            if let Some(list) = &self.xattrs.access_list {
                self.object.set_xattr(ACCESS_LIST, list)?;
            }
            return match &self.xattrs.default_access_list {
                Some(list) => self.object.set_xattr(DEFAULT_ACCESS_LIST, list),
                None if self.stat.kind == FileType::Directory => {
                    self.object.remove_xattr(DEFAULT_ACCESS_LIST)
                }
                None => Ok(()),
            };
        };
        let (access, default) = match self.has_access_list || self.before.is_some() {
            true => {
                let names = list_xattrs(file);
                let has = |wanted: &CStr| match &names {
                    Ok(names) => Ok(names.iter().any(|key| key == wanted)),
                    Err(_) => object::access_list(self.object, wanted).map(|list| list.is_some()),
                };
                (has(ACCESS_LIST)?, has(DEFAULT_ACCESS_LIST)?)
            }
            false => (false, false),
        };
        if access && self.xattrs.access_list.is_none() {
            remove_xattr(file, ACCESS_LIST)?;
        }
        // Where owner or group change, the mode was narrowed before. The set-id bits of a file are
        // gone if it was written to by a process without CAP_FSETID.
        let stat = self.stat;
        let has_its_bits = mode.and(Mode::SET_ID).is_empty() || stat.kind == FileType::Directory;
        let is_as_before =
            |before: &Stat| before.mode == mode && (before.owner, before.group) == (stat.owner, stat.group);
        let has_mode = has_its_bits && self.before.is_some_and(is_as_before);
        let has = |key: &CStr, is_there: bool, wanted: &Option<Vec<u8>>| match wanted {
            Some(list) if is_there => get_xattr(file, key).is_ok_and(|there| there == *list),
            wanted => wanted.is_none() && !is_there,
        };
        if has_mode
            && self.xattrs.permissions.is_empty()
            && has(ACCESS_LIST, access, &self.xattrs.access_list)
            && has(DEFAULT_ACCESS_LIST, default, &self.xattrs.default_access_list)
        {
            return Ok(());
        }
        if access || !has_mode {
            change_mode(file, mode)?;
        }
        self.xattrs.permissions.iter().try_for_each(|(key, value)| set_xattr(file, key, value))?;
        if let Some(list) = &self.xattrs.access_list {
            set_xattr(file, ACCESS_LIST, list)?;
        }
        match &self.xattrs.default_access_list {
            Some(list) => set_xattr(file, DEFAULT_ACCESS_LIST, list),
            None if default => remove_xattr(file, DEFAULT_ACCESS_LIST),
            None => Ok(()),
        }
    }

    /// Reports an attribute that could not be set; returns true if the copy still counts as made.
    fn required(&self, kind: CopyKind, outcome: Result<(), Error>) -> bool {
        let Err(cause) = outcome else { return true };
        let problem = Problem::new(kind).naming(self.path()).because(cause);
        if self.copier.options.require_preserve {
            self.cx.problem(problem);
            return false;
        }
        self.cx.problem(problem.as_warning());
        true
    }
}

/// Result of setting a copy's owner.
enum OwnerResult {
    Yes,
    /// Not set, but that is allowed; set-id bits are dropped.
    No,
    /// Not set, and that is an error.
    Failed,
}
