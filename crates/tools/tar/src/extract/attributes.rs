//! Sets the attributes of extracted files, in the only order that works:
//!
//! ```text
//! content ─► owner ─► extended attributes ─► mode ─► access lists ─► times
//! ```
//!
//! Changing the owner clears set-id bits and capabilities, so it comes first. The mode may take
//! away the right to set attributes. An access list is more precise than a mode, so it comes later.
//! Set-id bits are left out if the owner could not be set.

use std::ffi::{CStr, CString};

use haul_flow::{Context, Creation, Problem};
use haul_sys::{Credentials, Error, Fd, FileRef, FileType, Mode, Owner, Special, Times, Timestamp};

use super::Extractor;
use super::owners::Owners;
use crate::acl;
use crate::format::MemberKind;
use crate::read::member::{Extras, Member};
use crate::xattrs::XattrSelection;
use crate::{Attributes, Options, Ownership, TarKind};

const ACCESS_LIST: &CStr = c"system.posix_acl_access";
const DEFAULT_ACCESS_LIST: &CStr = c"system.posix_acl_default";

/// Maps members' attributes to this system, by the options and the identity of the process.
#[derive(Debug)]
pub(super) struct Rights {
    owners: Owners,
    same_owner: bool,
    same_permissions: bool,
    /// Umask of the process that started the run.
    pub(super) umask: Mode,
    process: Credentials,
    touch: bool,
    attributes: Attributes,
    xattrs: XattrSelection,
    /// Start of the run; everything that the run makes is born later.
    start: Creation,
}

/// Attributes that a member is to get, without its name.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Wanted {
    kind: MemberKind,
    pub(super) mode: Mode,
    /// Numbers of user and group, if they are to be set.
    owner: Option<(u32, u32)>,
    modified: Timestamp,
    extras: Option<Box<Extras>>,
}

impl Rights {
    /// Reads the options, for a process with this umask.
    pub(super) fn new(options: &Options, umask: Mode) -> Self {
        let process = haul_sys::effective_identity();
        let is_root = process.user == 0;
        Self {
            owners: Owners::new(options.numeric_owner),
            same_owner: match options.ownership {
                Ownership::ByUser => is_root,
                Ownership::Same => true,
                Ownership::Own => false,
            },
            same_permissions: options.same_permissions.unwrap_or(is_root),
            umask,
            process,
            touch: options.touch,
            attributes: options.attributes,
            xattrs: XattrSelection::new(options),
            start: Creation::begin(
                Special { kind: FileType::Regular, mode: Mode::ALL, device_number: 0 },
                true,
            ),
        }
    }

    /// Returns the attributes that a member is to get, and moves its extras there.
    pub(super) fn wanted(&self, member: &mut Member) -> Wanted {
        let mode = match self.same_permissions {
            true => member.mode,
            false => member.mode.and(Mode::ALL).without(self.umask),
        };
        let owner = self.same_owner.then(|| self.owners.of(member));
        let wants_extras = !self.attributes.is_empty();
        let extras = member.extras.take().filter(|_| wants_extras);
        Wanted { kind: member.kind, mode, owner, modified: member.modified, extras }
    }

    /// True if a file needs no change after its creation, provided that it was created with this
    /// process's owner and group, and with the mode that was requested.
    pub(super) fn can_have_final_mode(&self, wanted: &Wanted) -> bool {
        let ours = (self.process.user, self.process.group);
        wanted.owner.is_none_or(|owner| owner == ours)
            // The umask would take bits away, and writing may clear set-id bits: these need a call
            // afterwards.
            && wanted.mode.and(self.umask.or(Mode::SPECIAL)).is_empty()
            && wanted.extras.is_none()
    }

    /// Checks that a file that root is about to hard-link was made by this run. Used where others
    /// may exchange entries: an older file of root's may be private.
    ///
    /// # Errors
    /// `ESTALE` if it is older.
    pub(super) fn check_linked(&self, directory: &Fd, source: &haul_sys::Stat) -> Result<(), Error> {
        if self.process.user != 0 || source.owner != 0 {
            return Ok(());
        }
        // Any file type and link count will do, but the check expects a new regular file.
        let alike = haul_sys::Stat { kind: FileType::Regular, links: 1, ..*source };
        self.start.check(directory, &alike)
    }

    /// True if an entry has the user's owner and group, and this mode.
    pub(super) fn is_ours(&self, made: &haul_sys::Stat, mode: Mode) -> bool {
        (made.owner, made.group) == (self.process.user, self.process.group) && made.mode == mode
    }
}

impl Extractor {
    /// Sets attributes of an object; owner and mode only if it was not created with
    /// them (`has_final_mode`).
    pub(super) fn give(
        &self,
        cx: &Context<'_, Self>,
        object: FileRef<'_>,
        wanted: &Wanted,
        path: &[u8],
        has_final_mode: bool,
    ) {
        let check = |kind: TarKind, outcome: Result<(), Error>| match outcome {
            Ok(()) => true,
            Err(cause) => {
                cx.problem(Problem::new(kind).naming(path).because(cause));
                false
            }
        };
        if !has_final_mode {
            let mut mode = wanted.mode;
            if let Some((user, group)) = wanted.owner
                && !check(
                    TarKind::CannotOwn,
                    object.change_owner(Owner { user: Some(user), group: Some(group) }),
                )
            {
                // Set-id bits would act for the wrong owner.
                mode = mode.and(Mode::ALL);
            }
            // After the owner, whose change removes file capabilities, and before the mode, which
            // may take away the permission to write that these need (xattr(7)).
            self.give_xattrs(cx, object, wanted, path);
            // The kernel refuses to change the mode of a link (`EOPNOTSUPP`), and nothing uses it.
            if wanted.kind != MemberKind::Symlink {
                check(TarKind::CannotChangeMode, object.change_mode(mode));
                // After the mode, which would change the list's mask (acl(5)).
                self.give_access_lists(cx, object, wanted, path);
            }
        }
        if !self.rights.touch {
            let times = Times { accessed: Timestamp::UNCHANGED, modified: wanted.modified };
            check(TarKind::CannotTouch, object.change_times(times));
        }
    }

    fn give_xattrs(&self, cx: &Context<'_, Self>, object: FileRef<'_>, wanted: &Wanted, path: &[u8]) {
        let Some(extras) = &wanted.extras else { return };
        if !self.rights.attributes.contains(Attributes::XATTR) {
            return;
        }
        for (key, value) in &extras.xattrs {
            let Ok(name) = CString::new(key.as_slice()) else { continue };
            // Access lists have records of their own.
            if !self.rights.xattrs.sets(key) || key.starts_with(b"system.") {
                continue;
            }
            if let Err(cause) = object.set_xattr(&name, value) {
                let problem = Problem::new(TarKind::CannotSetXattr).naming(path).naming(key.as_slice());
                // A warning, as in GNU tar: the file system may not support attributes at all.
                cx.problem(problem.because(cause).as_warning());
            }
        }
    }

    fn give_access_lists(&self, cx: &Context<'_, Self>, object: FileRef<'_>, wanted: &Wanted, path: &[u8]) {
        let Some(extras) = &wanted.extras else { return };
        if !self.rights.attributes.contains(Attributes::ACL) {
            return;
        }
        let default = extras.default_access_list.as_ref().filter(|_| wanted.kind == MemberKind::Directory);
        for (key, text) in [(ACCESS_LIST, extras.access_list.as_ref()), (DEFAULT_ACCESS_LIST, default)] {
            let Some(text) = text else { continue };
            let problem = Problem::new(TarKind::CannotSetAccessList).naming(path);
            let outcome = match acl::kernel_form(text, &self.rights.owners) {
                Some(list) => object.set_xattr(key, &list).map_err(|cause| problem.because(cause)),
                None => Err(problem),
            };
            if let Err(problem) = outcome {
                cx.problem(problem.as_warning());
            }
        }
    }
}
