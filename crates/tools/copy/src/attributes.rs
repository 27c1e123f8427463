//! Sets the attributes of a copy, in the only order that works:
//!
//! ```text
//! data ─► owner ─► extended attributes ─► mode and access list ─► times
//! ```
//!
//! Changing the owner clears capabilities and set-id bits, so it comes first. The mode may remove
//! the permission to set xattrs, so it comes after them. Every step before the last changes the
//! times. A copy whose owner could not be set gets no set-id bits.
//!
//! Invariant: between creation and the last step nobody has more access to the copy than its final
//! mode grants (tests: the audit, and GNU's permission races).

use std::ffi::CStr;
use std::sync::Arc;

use haul_flow::{Context, DirCache, DirHandle, Problem};
use haul_sys::{Errno, Error, Fd, FileType, Mode, Operation, Owner, Pinned, Stat, Times, XattrNames};
use haul_sys::{change_mode, change_owner, change_times, stat};
use haul_sys::{get_xattr, list_xattrs, remove_xattr, set_xattr};

use super::Copier;
use super::CopyKind;
use super::creation_mode::CreationMode;
use super::options::{Label, Preserve};
use super::target::TargetDirectory;
use super::xattr_rules::{self, SourceXattrs, XattrAction, XattrRules};

pub(super) const ACCESS_LIST: &CStr = c"system.posix_acl_access";
pub(super) const DEFAULT_ACCESS_LIST: &CStr = c"system.posix_acl_default";

/// Xattr with a file's SELinux context.
pub(super) const SECURITY_LABEL: &CStr = c"security.selinux";

/// A file to read or set attributes of: always an object, never a name, which may lead to another
/// file by now.
#[derive(Clone, Copy)]
pub(super) enum Object<'a> {
    /// An open file or directory.
    Open(&'a Fd),
    /// A symbolic link, a special file, or a directory that can't be read.
    Pinned(&'a Pinned),
}

impl Object<'_> {
    /// Descriptor for finding out which file system it is on.
    pub(super) fn descriptor(&self) -> &Fd {
        match self {
            Object::Open(file) => file,
            Object::Pinned(pinned) => pinned.descriptor(),
        }
    }

    fn list(self) -> Result<XattrNames, Error> {
        match self {
            Object::Open(file) => list_xattrs(file),
            Object::Pinned(pinned) => pinned.list_xattrs(),
        }
    }

    pub(super) fn get(self, key: &CStr) -> Result<Vec<u8>, Error> {
        match self {
            Object::Open(file) => get_xattr(file, key),
            Object::Pinned(pinned) => pinned.get_xattr(key),
        }
    }

    pub(super) fn stat(self) -> Result<Stat, Error> {
        match self {
            Object::Open(file) => stat(file),
            Object::Pinned(pinned) => pinned.stat(),
        }
    }

    pub(super) fn set(self, key: &CStr, value: &[u8]) -> Result<(), Error> {
        match self {
            Object::Open(file) => set_xattr(file, key, value),
            Object::Pinned(pinned) => pinned.set_xattr(key, value),
        }
    }

    pub(super) fn remove(self, key: &CStr) -> Result<(), Error> {
        match self {
            Object::Open(file) => remove_xattr(file, key),
            Object::Pinned(pinned) => pinned.remove_xattr(key),
        }
    }

    pub(super) fn own(self, owner: Owner) -> Result<(), Error> {
        match self {
            Object::Open(file) => change_owner(file, owner),
            Object::Pinned(pinned) => pinned.change_owner(owner),
        }
    }

    pub(super) fn chmod(self, mode: Mode) -> Result<(), Error> {
        match self {
            Object::Open(file) => change_mode(file, mode),
            Object::Pinned(pinned) => pinned.change_mode(mode),
        }
    }

    /// Sets an xattr on a file its owner may not write. `user.*` requires write permission, which
    /// the source's mode or the umask may not grant. Not for directories, which GNU leaves alone.
    fn set_as_writer(self, key: &CStr, value: &[u8]) -> Result<(), Error> {
        let Object::Open(file) = self else { return self.set(key, value) };
        let Stat { kind, mode, .. } = haul_sys::stat(file)?;
        if kind != FileType::Regular {
            return set_xattr(file, key, value);
        }
        change_mode(file, mode.or(Mode::OWNER_WRITE))?;
        let outcome = set_xattr(file, key, value);
        change_mode(file, mode).and(outcome)
    }

    /// Adds the set-id and sticky bits a special file has now: it was created with them, and a
    /// change of owner may have cleared some.
    fn with_its_special_bits(self, mode: Mode) -> Result<Mode, Error> {
        match self {
            Object::Open(_) => Ok(mode),
            Object::Pinned(pinned) => {
                Ok(mode.without(Mode::SPECIAL).or(pinned.stat()?.mode.and(Mode::SPECIAL)))
            }
        }
    }

    pub(super) fn touch(self, times: Times) -> Result<(), Error> {
        match self {
            Object::Open(file) => change_times(file, times),
            Object::Pinned(pinned) => pinned.change_times(times),
        }
    }
}

/// A copy about to get its attributes.
pub(super) struct Subject<'a> {
    /// The copy.
    pub(super) object: Object<'a>,
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
    /// How and where the copy was created, if it is a new regular file.
    pub(super) creation_mode: Option<(CreationMode, &'a TargetDirectory)>,
    /// Path of the copy; built only for messages.
    pub(super) target_path: &'a dyn Fn() -> Vec<u8>,
}

impl Copier {
    /// Reads the source xattrs that the copy gets; one call if there are none.
    pub(super) fn read_xattrs(
        &self,
        cx: &Context<'_, Self>,
        source: Object<'_>,
        path: &dyn Fn() -> Vec<u8>,
    ) -> SourceXattrs {
        let mut found = SourceXattrs::default();
        let (xattr, mode) = (self.preserves(Preserve::XATTR), self.preserves(Preserve::MODE));
        if let Label::Source { required } = self.options.label {
            self.read_label(cx, source, path, required, &mut found);
        }
        if !xattr && !mode {
            return found;
        }
        let names = match source.list() {
            Ok(names) => names,
            Err(cause) => {
                self.xattr_problem(cx, Problem::new(CopyKind::ListingAttributes).naming(path()), cause);
                return found;
            }
        };
        for key in names.iter() {
            let access = key == ACCESS_LIST || key == DEFAULT_ACCESS_LIST;
            let action = match access {
                true => XattrAction::Permissions,
                false if key == SECURITY_LABEL && self.options.label != Label::Attribute => XattrAction::Skip,
                false => self.xattr_action(cx, key),
            };
            let wanted = match action {
                XattrAction::Copy => xattr,
                XattrAction::Skip => false,
                XattrAction::Permissions => mode,
            };
            if !wanted || self.is_account(source, key) {
                continue;
            }
            match source.get(key) {
                Ok(value) if key == ACCESS_LIST => found.access_list = Some(value),
                Ok(value) if key == DEFAULT_ACCESS_LIST => found.default_access_list = Some(value),
                Ok(value) if action == XattrAction::Permissions => {
                    found.permissions.push((key.to_owned(), value));
                }
                Ok(value) => found.plain.push((key.to_owned(), value)),
                Err(cause) if cause.is(Errno::NODATA) => {}
                Err(cause) => {
                    let problem =
                        Problem::new(CopyKind::GettingAttribute).naming(key.to_bytes()).naming(path());
                    self.xattr_problem(cx, problem, cause);
                }
            }
        }
        found
    }

    /// True if any xattr of a source is read for its copy.
    pub(super) fn reads_xattrs(&self) -> bool {
        let label = matches!(self.options.label, Label::Source { .. } | Label::Policy);
        label || self.preserves(Preserve::XATTR) || self.preserves(Preserve::MODE)
    }

    /// Like [`read_xattrs`](Self::read_xattrs), for the entry `name` of a directory, without
    /// opening it.
    pub(super) fn read_named_xattrs(
        &self,
        cx: &Context<'_, Self>,
        (directory, name): (&Fd, &CStr),
        path: &dyn Fn() -> Vec<u8>,
    ) -> SourceXattrs {
        if !self.reads_xattrs() {
            return SourceXattrs::default();
        }
        match Pinned::open(directory, name) {
            Ok(pinned) => self.read_xattrs(cx, Object::Pinned(&pinned), path),
            Err(cause) => {
                self.xattr_problem(cx, Problem::new(CopyKind::ListingAttributes).naming(path()), cause);
                SourceXattrs::default()
            }
        }
    }

    /// Reads the source's SELinux context. Without the xattr, the file system labels all
    /// files alike.
    fn read_label(
        &self,
        cx: &Context<'_, Self>,
        source: Object<'_>,
        path: &dyn Fn() -> Vec<u8>,
        required: bool,
        found: &mut SourceXattrs,
    ) {
        match source.get(SECURITY_LABEL) {
            Ok(label) => found.plain.push((SECURITY_LABEL.to_owned(), label)),
            Err(cause) if required || !(cause.is(Errno::NODATA) || cause.is(Errno::OPNOTSUPP)) => {
                let problem = Problem::new(CopyKind::GettingLabel).naming(path()).because(cause);
                cx.problem(if required { problem } else { problem.as_warning() });
            }
            Err(_) => {}
        }
    }

    /// Returns the rule in `/etc/xattr.conf` for an xattr. The file is read on first use.
    fn xattr_action(&self, cx: &Context<'_, Self>, key: &CStr) -> XattrAction {
        let rules = self.xattr_rules.get_or_init(|| {
            XattrRules::read().unwrap_or_else(|cause| {
                let lenient = self.options.reduce_diagnostics && !self.options.require_xattr;
                let telling = self.preserves(Preserve::XATTR) && !lenient;
                let problem = Problem::new(CopyKind::AttributeList).naming(xattr_rules::PATH.to_bytes());
                match telling {
                    true => cx.problem(problem.because(cause).as_warning()),
                    false => cx.report().debug(&format!("copying all attributes: {cause:#}")),
                }
                XattrRules::default()
            })
        });
        rules.action(key)
    }

    /// True if entries created in a directory inherit an ACL.
    pub(super) fn gives_access_list(&self, directory: &Arc<Fd>) -> bool {
        self.preserves(Preserve::MODE)
            && list_xattrs(directory).is_ok_and(|names| names.iter().any(|key| key == DEFAULT_ACCESS_LIST))
    }

    /// Like [`gives_access_list`](Self::gives_access_list), for a directory operands are copied to,
    /// whose handle only allows lookups.
    pub(super) fn operands_inherit_access_list(&self, cache: &DirCache, held: &Arc<DirHandle>) -> bool {
        let names = || cache.open(held).and_then(|place| Pinned::open(&*place, c".")?.list_xattrs());
        self.preserves(Preserve::MODE)
            && names().is_ok_and(|names| names.iter().any(|key| key == DEFAULT_ACCESS_LIST))
    }

    /// Sets the attributes in the order above. Returns true if nothing required failed.
    pub(super) fn give_attributes(&self, cx: &Context<'_, Self>, subject: &Subject<'_>) -> bool {
        if let Err(problem) = self.give_default_label(subject.object, subject.target_path) {
            cx.problem(problem);
        }
        if subject.creation_mode.is_some_and(|(creation_mode, _)| creation_mode.is_final) {
            return self.give_times(cx, subject);
        }
        let mut mode = subject.stat.mode;
        let mut done = true;
        if self.preserves(Preserve::OWNERSHIP) {
            match self.give_owner(cx, subject) {
                Given::Yes => {}
                Given::No => mode = mode.without(Mode::SPECIAL),
                Given::Failed => return false,
            }
        }
        if !subject.xattrs.plain.is_empty() {
            done &= self.give_xattrs(cx, subject);
        }
        if subject.stat.kind != FileType::Symlink {
            done &= self.give_mode(cx, subject, mode);
        }
        done & self.give_times(cx, subject)
    }

    fn give_times(&self, cx: &Context<'_, Self>, subject: &Subject<'_>) -> bool {
        if !self.preserves(Preserve::TIMESTAMPS) {
            return true;
        }
        let times = Times { accessed: subject.stat.accessed, modified: subject.stat.modified };
        self.required(cx, subject, CopyKind::Times, subject.object.touch(times))
    }

    fn give_owner(&self, cx: &Context<'_, Self>, subject: &Subject<'_>) -> Given {
        let wanted = (subject.stat.owner, subject.stat.group);
        let same = match (subject.before, subject.object) {
            (Some(before), _) => (before.owner, before.group) == wanted,
            // A new file of our own usually has the right owner already; checking is cheaper than
            // setting. One created with set-id bits loses them when the owner is set.
            (None, object) if self.is_own(subject.stat) => object.stat().is_ok_and(|now| {
                if let Some((creation_mode, directory)) = subject.creation_mode {
                    self.learn(directory, creation_mode, &now);
                }
                self.is_own(&now) && now.mode.and(Mode::SPECIAL).is_empty()
            }),
            (None, _) => false,
        };
        if same {
            return Given::Yes;
        }
        if let (Some(before), true) = (subject.before, self.preserves(Preserve::MODE)) {
            let narrow = before.mode.and(subject.stat.mode).and(Mode::OWNER);
            let narrowed =
                if subject.stat.kind == FileType::Symlink { Ok(()) } else { subject.object.chmod(narrow) };
            let is_foreign = narrowed.as_ref().is_err_and(|cause| self.may_fail_to_own(cause));
            // GNU sets the times first, so that is where it notices that the target belongs to
            // someone else.
            let kind = match is_foreign && self.preserves(Preserve::TIMESTAMPS) {
                true => CopyKind::Times,
                false => CopyKind::ClearingPermissions,
            };
            if !self.required(cx, subject, kind, narrowed) {
                return Given::Failed;
            }
        }
        let owner = Owner { user: Some(wanted.0), group: Some(wanted.1) };
        match subject.object.own(owner) {
            Ok(()) => Given::Yes,
            Err(cause) if self.may_fail_to_own(&cause) => {
                // Unprivileged users can't give files away; the group alone may work, and GNU
                // ignores the result.
                subject.object.own(Owner { user: None, group: owner.group }).unwrap_or_default();
                Given::No
            }
            Err(cause) => match self.required(cx, subject, CopyKind::Ownership, Err(cause)) {
                true => Given::No,
                false => Given::Failed,
            },
        }
    }

    /// True if failing to set an owner is no error: only root is expected to succeed.
    pub(super) fn may_fail_to_own(&self, cause: &Error) -> bool {
        self.process.user != 0 && matches!(cause.errno(), Errno::PERM | Errno::INVAL | Errno::ACCESS)
    }

    fn give_xattrs(&self, cx: &Context<'_, Self>, subject: &Subject<'_>) -> bool {
        let mut done = true;
        let mut unsupported = None;
        for (key, value) in &subject.xattrs.plain {
            let outcome = match subject.object.set(key, value) {
                Err(cause) if cause.is(Errno::ACCESS) => {
                    subject.object.set_as_writer(key, value).map_err(|_| cause)
                }
                outcome => outcome,
            };
            let is_required_label = key.as_c_str() == SECURITY_LABEL
                && matches!(self.options.label, Label::Source { required: true });
            match outcome {
                Ok(()) => {}
                Err(cause) if is_required_label => {
                    let problem = Problem::new(CopyKind::SettingLabel).naming((subject.target_path)());
                    cx.problem(problem.because(cause));
                    done = false;
                }
                // libattr, which does this for GNU cp, complains once per file if its file system
                // has no xattrs.
                Err(cause) if matches!(cause.errno(), Errno::OPNOTSUPP | Errno::NOSYS) => {
                    unsupported = Some(cause);
                }
                Err(cause) => {
                    let problem = Problem::new(CopyKind::SettingAttribute).naming(key.as_bytes());
                    done &= self.xattr_problem(cx, problem.naming((subject.target_path)()), cause);
                }
            }
        }
        if let Some(cause) = unsupported {
            let problem = Problem::new(CopyKind::SettingAttributes).naming((subject.target_path)());
            done &= self.xattr_problem(cx, problem, cause);
        }
        done
    }

    /// Handles an xattr that was not copied; returns true if that is acceptable.
    ///
    /// `-a` copies xattrs on a best-effort basis: what the file system or the user's permissions do
    /// not allow is skipped. Anything else is an error, which GNU hides under `-a`.
    fn xattr_problem(&self, cx: &Context<'_, Self>, problem: Problem, cause: Error) -> bool {
        // `user.*` requires write permission, which a user may lack on a copy of their own;
        // reading works.
        let may_not_write =
            self.process.user != 0 && cause.is(Errno::ACCESS) && cause.operation() == Operation::Fsetxattr;
        let cannot = may_not_write || matches!(cause.errno(), Errno::OPNOTSUPP | Errno::PERM | Errno::NOSYS);
        if cannot && !self.options.require_xattr {
            let telling = !self.options.reduce_diagnostics && !cause.is(Errno::OPNOTSUPP);
            if telling || self.options.attributes_only {
                cx.problem(problem.because(cause).as_warning());
            }
            return true;
        }
        cx.problem(problem.because(cause));
        false
    }

    fn give_mode(&self, cx: &Context<'_, Self>, subject: &Subject<'_>, mode: Mode) -> bool {
        if !self.preserves(Preserve::MODE) {
            let Some(plain) = subject.plain_mode else { return true };
            // As with GNU, a default mode overrides an inherited ACL.
            let freed = if self.options.default_mode { subject.object.remove(ACCESS_LIST) } else { Ok(()) };
            let mode = freed.and_then(|()| subject.object.with_its_special_bits(plain));
            let outcome = mode.and_then(|mode| subject.object.chmod(mode));
            return self.required(cx, subject, CopyKind::Permissions, outcome);
        }
        let outcome = self.give_access_lists(subject, mode);
        self.required(cx, subject, CopyKind::Access, outcome)
    }

    /// Sets mode and ACLs as on the source. Removes inherited ACLs the source does not have.
    fn give_access_lists(&self, subject: &Subject<'_>, mode: Mode) -> Result<(), Error> {
        let Object::Open(file) = subject.object else {
            if subject.has_access_list && subject.xattrs.access_list.is_none() {
                subject.object.remove(ACCESS_LIST)?;
            }
            subject.object.chmod(mode)?;
            subject.xattrs.permissions.iter().try_for_each(|(key, value)| subject.object.set(key, value))?;
            return match &subject.xattrs.access_list {
                Some(list) => subject.object.set(ACCESS_LIST, list),
                None => Ok(()),
            };
        };
        let (access, default) = match subject.has_access_list || subject.before.is_some() {
            true => {
                let names = list_xattrs(file)?;
                let has = |wanted: &CStr| names.iter().any(|key| key == wanted);
                (has(ACCESS_LIST), has(DEFAULT_ACCESS_LIST))
            }
            false => (false, false),
        };
        if access && subject.xattrs.access_list.is_none() {
            remove_xattr(file, ACCESS_LIST)?;
        }
        // Where owner or group change, the mode was narrowed before and set-id bits may be gone.
        let stat = subject.stat;
        let is_as_before =
            |before: &Stat| before.mode == mode && (before.owner, before.group) == (stat.owner, stat.group);
        let has_mode = !access && subject.before.is_some_and(is_as_before);
        if !has_mode {
            change_mode(file, mode)?;
        }
        subject.xattrs.permissions.iter().try_for_each(|(key, value)| set_xattr(file, key, value))?;
        if let Some(list) = &subject.xattrs.access_list {
            set_xattr(file, ACCESS_LIST, list)?;
        }
        match &subject.xattrs.default_access_list {
            Some(list) => set_xattr(file, DEFAULT_ACCESS_LIST, list),
            None if default => remove_xattr(file, DEFAULT_ACCESS_LIST),
            None => Ok(()),
        }
    }

    /// Reports an attribute that could not be set; returns true if the copy still counts as made.
    fn required(
        &self,
        cx: &Context<'_, Self>,
        subject: &Subject<'_>,
        kind: CopyKind,
        outcome: Result<(), Error>,
    ) -> bool {
        let Err(cause) = outcome else { return true };
        let problem = Problem::new(kind).naming((subject.target_path)()).because(cause);
        if self.options.require_preserve {
            cx.problem(problem);
            return false;
        }
        cx.problem(problem.as_warning());
        true
    }
}

/// Result of setting a copy's owner.
enum Given {
    Yes,
    /// Not set, but that is allowed; set-id bits are dropped.
    No,
    /// Not set, and that is an error.
    Failed,
}
