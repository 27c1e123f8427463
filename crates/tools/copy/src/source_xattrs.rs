//! Reads the extended attributes of a source that its copy gets.

use std::ffi::CStr;

use haul_flow::{Context, Problem};
use haul_sys::{Errno, Error, Fd, FileRef, FileType, Open, Operation, Pinned};
use haul_sys::{has_xattrs_at, open, stat, stat_at};

use super::entry_copy::EntryCopy;
use super::object::{self, ACCESS_LIST, DEFAULT_ACCESS_LIST, SECURITY_LABEL};
use super::options::{Label, Preserve};
use super::xattr_rules::{self, SourceXattrs, XattrAction, XattrRules};
use super::{Copier, CopyKind};

/// Reads the xattrs from an entry's open source; one call if there are none.
pub(super) fn read(copy: EntryCopy<'_>, source: FileRef<'_>) -> SourceXattrs {
    let mut found = SourceXattrs::default();
    if let Label::Source { required } = copy.options.label {
        read_label(&mut found, copy, source, required);
    }
    if !copy.options.preserves(Preserve::XATTR) && !copy.options.preserves(Preserve::MODE) {
        return found;
    }
    let names = match source.list_xattrs() {
        Ok(names) => names,
        Err(cause) => {
            // Without `/proc` nothing is listed through an `O_PATH` descriptor.
            let may_lack_proc = cause.is(Errno::BADF) || cause.is(Errno::NOENT);
            if may_lack_proc && let Some(found) = read_without_proc(copy, source) {
                return found;
            }
            // GNU cp doesn't list the ACLs, nor does it mind if a sandbox lacks the call.
            let is_refused = matches!(cause.errno(), Errno::NOSYS | Errno::PERM);
            found.is_incomplete = true;
            read_access_lists(&mut found, copy, source);
            if !is_refused || (cause.is(Errno::PERM) && copy.options.preserves(Preserve::XATTR)) {
                cannot_list(copy, cause);
            }
            return found;
        }
    };
    for key in names.iter() {
        let Some(action) = is_copied(copy.copier, copy.cx, source, key) else { continue };
        match source.get_xattr(key) {
            Ok(value) if key == ACCESS_LIST => found.access_list = Some(value),
            Ok(value) if key == DEFAULT_ACCESS_LIST => found.default_access_list = Some(value),
            Ok(value) if action == XattrAction::Permissions => {
                found.permissions.push((key.to_owned(), value));
            }
            Ok(value) => found.plain.push((key.to_owned(), value)),
            // Removed since it was listed.
            Err(cause) if cause.is(Errno::NODATA) => {}
            Err(cause) if action == XattrAction::Permissions && !cause.is(Errno::OPNOTSUPP) => {
                lack_permissions(&mut found, copy, cause);
            }
            Err(cause) => {
                found.is_incomplete = true;
                let problem = Problem::new(CopyKind::GettingAttribute).naming(key.to_bytes());
                report_uncopied(copy.copier, copy.cx, problem.naming(copy.entry.path()), cause);
            }
        }
    }
    found
}

/// Reads the ACLs of a source whose xattrs can't be listed.
fn read_access_lists(found: &mut SourceXattrs, copy: EntryCopy<'_>, source: FileRef<'_>) {
    // A symbolic link has none.
    let is_link = || {
        let FileRef::Pinned(pinned) = source else { return false };
        pinned.stat().is_ok_and(|stat| stat.kind == FileType::Symlink)
    };
    if !copy.options.preserves(Preserve::MODE) || is_link() {
        return;
    }
    let lists = object::access_list(source, ACCESS_LIST).and_then(|access| {
        found.access_list = access;
        object::access_list(source, DEFAULT_ACCESS_LIST)
    });
    match lists {
        Ok(default) => found.default_access_list = default,
        Err(cause) => lack_permissions(found, copy, cause),
    }
}

/// Reports that an ACL can't be read, once per entry.
fn lack_permissions(found: &mut SourceXattrs, copy: EntryCopy<'_>, cause: Error) {
    found.is_incomplete = true;
    if !std::mem::replace(&mut found.lacks_permissions, true) {
        let problem = Problem::new(CopyKind::ReadingAccess).naming(copy.entry.path()).because(cause);
        copy.cx.problem(if copy.options.require_preserve { problem } else { problem.as_warning() });
    }
}

/// Reads the xattrs of a pinned source by its name, if that is still the source's. `None` if it
/// isn't, or if the source has xattrs and can't be opened.
fn read_without_proc(copy: EntryCopy<'_>, source: FileRef<'_>) -> Option<SourceXattrs> {
    let FileRef::Pinned(pinned) = source else { return None };
    let own = pinned.stat().ok()?;
    let directory = copy.cx.cache().open(&copy.entry.node.source).ok()?;
    let name = copy.entry.name();
    if own.kind == FileType::Regular {
        let file = open(&*directory, name, Open::READ).ok()?;
        let is_source = stat(&file).ok()?.identity == own.identity;
        return is_source.then(|| read(copy, FileRef::Open(&file)));
    }
    let has_none = !has_xattrs_at(&*directory, name, |_| false).ok()?;
    let is_source = stat_at(&*directory, name).ok()?.identity == own.identity;
    (has_none && is_source).then(SourceXattrs::default)
}

/// Returns how an xattr is copied, if it is.
pub(super) fn is_copied(
    copier: &Copier,
    cx: &Context<'_, Copier>,
    file: FileRef<'_>,
    key: &CStr,
) -> Option<XattrAction> {
    let options = &copier.options;
    let action = match key {
        _ if key == ACCESS_LIST || key == DEFAULT_ACCESS_LIST => XattrAction::Permissions,
        _ if key == SECURITY_LABEL && options.label != Label::Attribute => XattrAction::Skip,
        _ => rules(copier, cx).action(key),
    };
    let is_wanted = match action {
        XattrAction::Copy => options.preserves(Preserve::XATTR),
        XattrAction::Skip => false,
        XattrAction::Permissions => options.preserves(Preserve::MODE),
    };
    (is_wanted && !copier.layouts.is_account(file, key)).then_some(action)
}

/// Pins an entry's source, which takes no permission to read it. Whoever has its directory open
/// passes it: there may be no descriptor left for another.
pub(super) fn pin(copy: EntryCopy<'_>, directory: Option<&Fd>) -> Result<Pinned, Error> {
    let Some(directory) = directory else {
        return pin(copy, Some(&*copy.cx.cache().open(&copy.entry.node.source)?));
    };
    let name = copy.entry.name();
    if copy.follows() { Pinned::follow(directory, name) } else { Pinned::open(directory, name) }
}

/// Reads them without opening the source.
pub(super) fn read_named(copy: EntryCopy<'_>, directory: Option<&Fd>) -> SourceXattrs {
    if !copy.options.reads_xattrs() {
        return SourceXattrs::default();
    }
    match pin(copy, directory) {
        Ok(pinned) => read(copy, FileRef::Pinned(&pinned)),
        Err(cause) => {
            let mut found = SourceXattrs { is_incomplete: true, ..SourceXattrs::default() };
            if copy.options.preserves(Preserve::MODE) {
                lack_permissions(&mut found, copy, cause);
            } else {
                cannot_list(copy, cause);
            }
            found
        }
    }
}

/// Reads the SELinux context. Without the xattr, the file system labels all files alike.
fn read_label(found: &mut SourceXattrs, copy: EntryCopy<'_>, source: FileRef<'_>, required: bool) {
    match source.get_xattr(SECURITY_LABEL) {
        Ok(label) => found.plain.push((SECURITY_LABEL.to_owned(), label)),
        Err(cause) if required || !(cause.is(Errno::NODATA) || cause.is(Errno::OPNOTSUPP)) => {
            let problem = Problem::new(CopyKind::GettingLabel).naming(copy.entry.path()).because(cause);
            copy.cx.problem(if required { problem } else { problem.as_warning() });
        }
        Err(_) => {}
    }
}

fn cannot_list(copy: EntryCopy<'_>, cause: Error) {
    let problem = Problem::new(CopyKind::ListingAttributes).naming(copy.entry.path());
    report_uncopied(copy.copier, copy.cx, problem, cause);
}

/// Returns the rules in `/etc/xattr.conf`, which is read on first use.
fn rules<'a>(copier: &'a Copier, cx: &Context<'_, Copier>) -> &'a XattrRules {
    copier.xattr_rules.get_or_init(|| {
        XattrRules::read().unwrap_or_else(|cause| {
            let options = &copier.options;
            let lenient = options.reduce_diagnostics && !options.require_xattr;
            let telling = options.preserves(Preserve::XATTR) && !lenient;
            let problem = Problem::new(CopyKind::AttributeList).naming(xattr_rules::PATH.to_bytes());
            match telling {
                true => cx.problem(problem.because(cause).as_warning()),
                false => cx.report().debug(&format!("copying all attributes: {cause:#}")),
            }
            XattrRules::default()
        })
    })
}

/// Reports an xattr that was not copied; returns true if the copy still counts as made.
///
/// `-a` copies xattrs on a best-effort basis: what the file system can't store or the user's
/// permissions do not allow is skipped. Anything else is an error, which GNU hides under `-a`. With
/// `report_lost_xattrs`, so is what doesn't fit.
pub(super) fn report_uncopied(
    copier: &Copier,
    cx: &Context<'_, Copier>,
    problem: Problem,
    cause: Error,
) -> bool {
    // `user.*` requires write permission, which a user may lack on a copy of their own, and read
    // permission, which a directory may lack that is copied without its entries.
    let may_not = cause.is(Errno::ACCESS)
        && cause.operation() != Operation::Flistxattr
        && !copier.capabilities.write_all();
    let is_unsupported = matches!(cause.errno(), Errno::OPNOTSUPP | Errno::PERM | Errno::NOSYS);
    let cannot_hold = cause.operation() == Operation::Fsetxattr
        && matches!(cause.errno(), Errno::NOSPC | Errno::DQUOT | Errno::INVAL | Errno::RANGE | Errno::TOOBIG)
        && !copier.options.report_lost_xattrs;
    if (may_not || is_unsupported || cannot_hold) && !copier.options.require_xattr {
        let telling = !copier.options.reduce_diagnostics && !cause.is(Errno::OPNOTSUPP);
        if telling || copier.options.attributes_only {
            cx.problem(problem.because(cause).as_warning());
        }
        return true;
    }
    cx.problem(problem.because(cause));
    false
}
