//! Reads the extended attributes of a source that its copy gets.

use std::ffi::CStr;

use haul_flow::{Context, Problem};
use haul_sys::{Errno, Error, Fd, Operation, Pinned};

use super::entry_copy::EntryCopy;
use super::object::{ACCESS_LIST, DEFAULT_ACCESS_LIST, Object, SECURITY_LABEL};
use super::options::{Label, Preserve};
use super::xattr_rules::{self, SourceXattrs, XattrAction, XattrRules};
use super::{Copier, CopyKind};

/// Reads the xattrs from an entry's open source; one call if there are none.
pub(super) fn read(copy: EntryCopy<'_>, source: Object<'_>) -> SourceXattrs {
    let mut found = SourceXattrs::default();
    let (xattr, mode) = (copy.options.preserves(Preserve::XATTR), copy.options.preserves(Preserve::MODE));
    if let Label::Source { required } = copy.options.label {
        read_label(&mut found, copy, source, required);
    }
    if !xattr && !mode {
        return found;
    }
    let names = match source.list() {
        Ok(names) => names,
        Err(cause) => {
            cannot_list(copy, cause);
            return found;
        }
    };
    for key in names.iter() {
        let access = key == ACCESS_LIST || key == DEFAULT_ACCESS_LIST;
        let action = match access {
            true => XattrAction::Permissions,
            false if key == SECURITY_LABEL && copy.options.label != Label::Attribute => XattrAction::Skip,
            false => rules(copy).action(key),
        };
        let wanted = match action {
            XattrAction::Copy => xattr,
            XattrAction::Skip => false,
            XattrAction::Permissions => mode,
        };
        if !wanted || copy.copier.layouts.is_account(source, key) {
            continue;
        }
        match source.get(key) {
            Ok(value) if key == ACCESS_LIST => found.access_list = Some(value),
            Ok(value) if key == DEFAULT_ACCESS_LIST => found.default_access_list = Some(value),
            Ok(value) if action == XattrAction::Permissions => {
                found.permissions.push((key.to_owned(), value));
            }
            Ok(value) => found.plain.push((key.to_owned(), value)),
            // Removed since it was listed.
            Err(cause) if cause.is(Errno::NODATA) => {}
            Err(cause) => {
                let problem = Problem::new(CopyKind::GettingAttribute).naming(key.to_bytes());
                tell_uncopied(copy.copier, copy.cx, problem.naming(copy.entry.path()), cause);
            }
        }
    }
    found
}

/// Reads them without opening the source, which is `name` in `directory`.
pub(super) fn read_named(copy: EntryCopy<'_>, (directory, name): (&Fd, &CStr)) -> SourceXattrs {
    if !copy.options.reads_xattrs() {
        return SourceXattrs::default();
    }
    match Pinned::open(directory, name) {
        Ok(pinned) => read(copy, Object::Pinned(&pinned)),
        Err(cause) => {
            cannot_list(copy, cause);
            SourceXattrs::default()
        }
    }
}

/// Reads the SELinux context. Without the xattr, the file system labels all files alike.
fn read_label(found: &mut SourceXattrs, copy: EntryCopy<'_>, source: Object<'_>, required: bool) {
    match source.get(SECURITY_LABEL) {
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
    tell_uncopied(copy.copier, copy.cx, problem, cause);
}

/// Returns the rules in `/etc/xattr.conf`, which is read on first use.
fn rules(copy: EntryCopy<'_>) -> &XattrRules {
    copy.copier.xattr_rules.get_or_init(|| {
        XattrRules::read().unwrap_or_else(|cause| {
            let lenient = copy.options.reduce_diagnostics && !copy.options.require_xattr;
            let telling = copy.options.preserves(Preserve::XATTR) && !lenient;
            let problem = Problem::new(CopyKind::AttributeList).naming(xattr_rules::PATH.to_bytes());
            match telling {
                true => copy.cx.problem(problem.because(cause).as_warning()),
                false => copy.cx.report().debug(&format!("copying all attributes: {cause:#}")),
            }
            XattrRules::default()
        })
    })
}

/// Reports an xattr that was not copied; returns true if the copy still counts as made.
///
/// `-a` copies xattrs on a best-effort basis: what the file system or the user's permissions do
/// not allow is skipped. Anything else is an error, which GNU hides under `-a`.
pub(super) fn tell_uncopied(
    copier: &Copier,
    cx: &Context<'_, Copier>,
    problem: Problem,
    cause: Error,
) -> bool {
    // `user.*` requires write permission, which a user may lack on a copy of their own;
    // reading works.
    let may_not_write =
        copier.process.user != 0 && cause.is(Errno::ACCESS) && cause.operation() == Operation::Fsetxattr;
    let cannot = may_not_write || matches!(cause.errno(), Errno::OPNOTSUPP | Errno::PERM | Errno::NOSYS);
    if cannot && !copier.options.require_xattr {
        let telling = !copier.options.reduce_diagnostics && !cause.is(Errno::OPNOTSUPP);
        if telling || copier.options.attributes_only {
            cx.problem(problem.because(cause).as_warning());
        }
        return true;
    }
    cx.problem(problem.because(cause));
    false
}
