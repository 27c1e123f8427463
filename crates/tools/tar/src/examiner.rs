//! Examines the files to archive: the values of their headers, and whatever keeps them from
//! being archived.

use std::ffi::CStr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use haul_flow::{
    Context, Enter, Entry, EntryFailure, EntryOutcome, EntryReport, OpenDir, Plan, Problem, Reported, Tool,
};
use haul_sys::{
    Capabilities, Credentials, EntryType, Errno, Error, Fd, FileType, Identity, Mode, Open, Pinned, Seek,
    Stat, open, read_link, seek, stat, stat_at, stat_path,
};

use super::TarKind;
use super::acl;
use super::entry::{DirectoryListing, Extra, OwnerNames, TarEntry};
use super::exclude::Excludes;
use super::format::{FormatMisfit, MemberKind, SparseMap};
use super::options::{Attributes, Confinement, Links, Options, TarOperand};
use super::prefix::{PrefixReporter, unsafe_prefix};
use super::xattrs::XattrSelection;

/// Exit status so far: 0, 1 if a file changed, 2 if something failed.
#[derive(Debug, Default)]
pub(super) struct ExitStatus(AtomicU8);

impl ExitStatus {
    pub(super) fn at_least(&self, status: u8) {
        self.0.fetch_max(status, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Examines entries, for the passes that archive them.
pub(super) struct Examiner {
    pub(super) options: Arc<Options>,
    pub(super) owners: Arc<OwnerNames>,
    pub(super) status: Arc<ExitStatus>,
    excludes: Excludes,
    xattrs: XattrSelection,
    pub(super) prefixes: PrefixReporter,
    process: Credentials,
    capabilities: Capabilities,
    archive: Option<Identity>,
}

impl Examiner {
    /// `archive` is the file that the archive goes to, if it is one.
    pub(super) fn new(options: Arc<Options>, archive: Option<Identity>) -> Self {
        Self {
            owners: Arc::new(OwnerNames::new(&options)),
            status: Arc::default(),
            excludes: Excludes::new(&options),
            xattrs: XattrSelection::new(&options),
            prefixes: PrefixReporter::new(options.confinement),
            process: haul_sys::effective_identity(),
            capabilities: Capabilities::effective(),
            archive,
            options,
        }
    }

    /// Reports a problem and raises the exit status to `status`; below 2 the problem is a warning.
    pub(super) fn report<T: Tool>(&self, cx: &Context<'_, T>, problem: Problem, status: u8) {
        self.status.at_least(status);
        cx.problem(if status < 2 { problem.as_warning() } else { problem });
    }

    /// Reports that an entry cannot be archived because a call failed.
    fn report_failed<T: Tool<Directory = Arc<DirectoryListing>>>(
        &self,
        cx: &Context<'_, T>,
        entry: &Entry<T>,
        kind: TarKind,
        cause: Error,
    ) {
        if !cause.is(Errno::NOENT) || !self.report_removed(cx, entry) {
            self.report(cx, Problem::new(kind).naming(entry.path()).because(cause), 2);
        }
    }

    /// True if this is the archive, which is reported.
    pub(super) fn is_the_archive<T: Tool>(&self, cx: &Context<'_, T>, entry: &Entry<T>, stat: &Stat) -> bool {
        let is_it = self.archive == Some(stat.identity);
        if is_it {
            self.report(cx, Problem::new(TarKind::IsTheArchive).naming(entry.path()), 0);
        }
        is_it
    }

    /// Examines an entry that is not a directory.
    fn examine<T: Tool<Directory = Arc<DirectoryListing>>>(
        &self,
        cx: &Context<'_, T>,
        entry: &Entry<T>,
    ) -> Result<Option<TarEntry>, (TarKind, Error)> {
        let directory = cx.cache().open(&entry.node.source).map_err(|cause| (TarKind::CannotStat, cause))?;
        let followed = self.options.links == Links::Followed && entry.kind != EntryType::Regular;
        let stat = stat_path(Some(&*directory), entry.name(), followed)
            .map_err(|cause| (TarKind::CannotStat, cause))?;
        if self.is_the_archive(cx, entry, &stat) {
            return Ok(None);
        }
        let Some(mut member) = TarEntry::new(entry.name().to_owned(), stat) else {
            let is_socket = stat.kind == FileType::Socket;
            let kind = if is_socket { TarKind::SocketIgnored } else { TarKind::UnknownIgnored };
            self.report(cx, Problem::new(kind).naming(entry.path()), 0);
            return Ok(None);
        };
        member.followed = followed;
        if member.kind == MemberKind::Symlink {
            let link =
                read_link(&*directory, entry.name()).map_err(|cause| (TarKind::CannotReadLink, cause))?;
            member.extra = Some(Box::new(Extra { link: link.into_bytes(), ..Extra::default() }));
        }
        let sparse = self.options.attributes.contains(Attributes::HOLES) && stat.is_sparse();
        let opened = if member.kind == MemberKind::Regular && (sparse || self.may_be_unreadable(&stat)) {
            let how = if followed { Open::READ.following() } else { Open::READ };
            let opened =
                open(&*directory, entry.name(), how).map_err(|cause| (TarKind::CannotOpen, cause))?;
            Some(opened)
        } else {
            None
        };
        if let (true, Some(file)) = (sparse, &opened) {
            let map = map_of(file, &stat).map_err(|cause| (TarKind::CannotSeek, cause))?;
            let text = map.text();
            member.extra.get_or_insert_default().map = Some((map, text));
        }
        self.add_records(cx, entry, &directory, &mut member)?;
        // Nothing was written to it, so closing it cannot lose anything.
        drop(opened);
        Ok(Some(member))
    }

    /// True if the mode suggests that the file is unreadable, so that opening it is worth a call:
    /// by its owner bits if it is ours, else by those of group and others.
    fn may_be_unreadable(&self, stat: &Stat) -> bool {
        let readable = if stat.owner == self.process.user { Mode::new(0o400) } else { Mode::new(0o044) };
        !self.capabilities.read_all() && !stat.mode.contains(readable)
    }

    /// Reads the extended attributes and access lists that were requested.
    pub(super) fn add_records<T: Tool<Directory = Arc<DirectoryListing>>>(
        &self,
        cx: &Context<'_, T>,
        entry: &Entry<T>,
        directory: &Fd,
        member: &mut TarEntry,
    ) -> Result<(), (TarKind, Error)> {
        let (wanted, name) = (self.options.attributes, entry.name());
        if !wanted.intersects(Attributes::XATTR | Attributes::ACL) {
            return Ok(());
        }
        if member.followed && !matches!(member.kind, MemberKind::Regular | MemberKind::Directory) {
            // Opening a device can have side effects.
            return Ok(());
        }
        let pinned = match member.followed {
            true => Pinned::follow(directory, name),
            false => Pinned::open(directory, name),
        };
        let pinned = pinned.map_err(|cause| (TarKind::CannotOpen, cause))?;
        let keys = match pinned.list_xattrs() {
            Ok(keys) => keys,
            Err(cause) if cause.is(Errno::NOENT) => return Err((TarKind::CannotListAttributes, cause)),
            Err(cause) => {
                // Archive the entry without them: leaving out a directory would leave out
                // everything below it.
                let problem = Problem::new(TarKind::CannotListAttributes).naming(entry.path());
                self.report(cx, problem.because(cause), 2);
                return Ok(());
            }
        };
        let mut records = Vec::new();
        for key in keys.iter() {
            match pinned.get_xattr(key) {
                Ok(value) => records.extend(self.record(key.to_bytes(), value)),
                // It was removed since it was listed.
                Err(cause) if cause.is(Errno::NODATA) => {}
                Err(cause) => {
                    let problem = Problem::new(TarKind::CannotReadAttribute).naming(entry.path());
                    self.report(cx, problem.naming(key.to_bytes()).because(cause), 0);
                }
            }
        }
        // A reproducible archive needs an order, and the file system gives none.
        records.sort_unstable();
        if !records.is_empty() {
            member.extra.get_or_insert_default().records = records;
        }
        Ok(())
    }

    /// Returns the record of an attribute, if it is wanted.
    fn record(&self, key: &[u8], value: Vec<u8>) -> Option<(Vec<u8>, Vec<u8>)> {
        let wanted = self.options.attributes;
        let list: &[u8] = match key {
            b"system.posix_acl_access" => b"SCHILY.acl.access",
            b"system.posix_acl_default" => b"SCHILY.acl.default",
            // A file's security context depends on the machine's policy.
            b"security.selinux" => return None,
            _ if wanted.contains(Attributes::XATTR) && self.xattrs.archives(key) => {
                // A key ends at the first equals sign, so GNU tar escapes one inside it.
                let mut name = b"SCHILY.xattr.".to_vec();
                for byte in key {
                    match byte {
                        b'%' => name.extend_from_slice(b"%25"),
                        b'=' => name.extend_from_slice(b"%3D"),
                        byte => name.push(*byte),
                    }
                }
                return Some((name, value));
            }
            _ => return None,
        };
        if !wanted.contains(Attributes::ACL) {
            return None;
        }
        let user = |number| (!self.options.numeric_owner).then(|| haul_sys::user_name(number)).flatten();
        let group = |number| (!self.options.numeric_owner).then(|| haul_sys::group_name(number)).flatten();
        Some((list.to_vec(), acl::access_text(&value, user, group)?))
    }

    /// Examines a directory that was opened and passes it to `keep`, unless it does not become
    /// a member.
    pub(super) fn enter<T: Tool<Directory = Arc<DirectoryListing>>>(
        &self,
        cx: &Context<'_, T>,
        entry: &Entry<T>,
        opened: &OpenDir<'_>,
        keep: impl FnOnce(&Arc<DirectoryListing>, TarEntry),
    ) -> Enter<Arc<DirectoryListing>> {
        let (stat, parent) = (opened.stat, &entry.node.own);
        // Like GNU tar: a directory that can't be opened isn't archived at all.
        if let Err(cause) = opened.source {
            self.report_failed(cx, entry, TarKind::CannotOpen, cause.clone());
            return Enter::Done;
        }
        if self.options.links == Links::Followed && entry.node.is_within(stat.identity) {
            self.report(cx, Problem::new(TarKind::Loop).naming(entry.path()), 1);
            return Enter::Done;
        }
        let Some(mut member) = TarEntry::new(entry.name().to_owned(), *stat) else { return Enter::Done };
        member.followed = self.options.links == Links::Followed;
        let directory = cx.cache().open(&entry.node.source).map_err(|cause| (TarKind::CannotStat, cause));
        let records = directory.and_then(|directory| self.add_records(cx, entry, &directory, &mut member));
        if let Err((kind, cause)) = records {
            self.report_failed(cx, entry, kind, cause);
            return Enter::Done;
        }
        let mut listing = parent.below(entry.name(), &self.options);
        let device = *parent.device.get_or_init(|| stat.identity.device);
        listing.device = device.into();
        if parent.stripped.is_none() {
            self.prefixes.report_stripped(&listing.prefix, TarKind::RemovingPrefix, cx.report());
        }
        let listing = Arc::new(listing);
        member.listing = Some(Arc::clone(&listing));
        cx.count_entry(EntryOutcome::Directory, |outcome| EntryReport::new(outcome, entry.path()));
        keep(parent, member);
        let elsewhere = self.options.one_file_system && device != stat.identity.device;
        if elsewhere && self.options.verbose > 0 {
            self.report(cx, Problem::new(TarKind::OtherFileSystem).naming(entry.path()), 0);
        }
        if elsewhere || parent.no_recursion { Enter::Bare(listing) } else { Enter::Visit(listing) }
    }

    pub(super) fn examine_open<T: Tool<Directory = Arc<DirectoryListing>>>(
        &self,
        cx: &Context<'_, T>,
        entry: &Entry<T>,
        stat: &Stat,
    ) -> Option<TarEntry> {
        if self.is_the_archive(cx, entry, stat) {
            return None;
        }
        let mut member = TarEntry::new(entry.name().to_owned(), *stat)?;
        member.followed = self.options.links == Links::Followed && entry.kind != EntryType::Regular;
        if self.options.attributes.intersects(Attributes::XATTR | Attributes::ACL) {
            let directory = cx.cache().open(&entry.node.source).map_err(|cause| (TarKind::CannotStat, cause));
            let records =
                directory.and_then(|directory| self.add_records(cx, entry, &directory, &mut member));
            if let Err((kind, cause)) = records {
                self.report_failed(cx, entry, kind, cause);
                return None;
            }
        }
        self.report_stripped(cx, &entry.node.own, &member);
        Some(member)
    }

    /// Examines an entry that is not a directory and passes it to `keep`, unless it does not become
    /// a member. Counts it if `keep` returns true.
    pub(super) fn handle<T: Tool<Directory = Arc<DirectoryListing>>>(
        &self,
        cx: &Context<'_, T>,
        entry: &Entry<T>,
        keep: impl FnOnce(&Arc<DirectoryListing>, TarEntry) -> bool,
    ) {
        match self.examine(cx, entry) {
            Ok(Some(member)) => {
                self.report_stripped(cx, &entry.node.own, &member);
                let outcome = outcome_of(member.kind);
                if let (true, Some(outcome)) = (keep(&entry.node.own, member), outcome) {
                    cx.count_entry(outcome, |outcome| EntryReport::new(outcome, entry.path()));
                }
            }
            Ok(None) => {}
            Err((kind, cause)) => self.report_failed(cx, entry, kind, cause),
        }
    }

    /// Reports the prefix that is stripped from an operand's name.
    pub(super) fn report_stripped<T: Tool>(
        &self,
        cx: &Context<'_, T>,
        listing: &DirectoryListing,
        member: &TarEntry,
    ) {
        if listing.stripped.is_none() {
            self.prefixes.report_stripped(&listing.path(member), TarKind::RemovingPrefix, cx.report());
        }
    }

    /// Reports that a member is left out because it does not fit the format.
    pub(super) fn report_unfit<T: Tool>(&self, cx: &Context<'_, T>, path: &[u8], why: &FormatMisfit) {
        self.report(cx, unfit_problem(path, why), 2);
    }

    /// Plans an entry: it is skipped if it is excluded, and `otherwise` is for what is not a
    /// directory.
    pub(super) fn plan<T: Tool<Directory = Arc<DirectoryListing>>>(
        &self,
        entry: &Entry<T>,
        kind: EntryType,
        otherwise: Plan,
    ) -> Plan {
        if !self.excludes.is_empty() {
            let path = [entry.node.own.prefix.as_slice(), entry.name().to_bytes()].concat();
            if self.excludes.leaves_out(&path) {
                return Plan::Skip;
            }
        }
        if kind == EntryType::Directory { Plan::Enter } else { otherwise }
    }

    /// True if an operand is excluded, so that it need not even exist.
    pub(super) fn leaves_out(&self, named: &TarOperand) -> bool {
        self.excludes.leaves_out(without_slashes(named.name.to_bytes()))
    }

    /// Reports that a listed entry is gone. Returns false for an operand: the user named it, so
    /// that is an error for the caller to report.
    fn report_removed<T: Tool>(&self, cx: &Context<'_, T>, entry: &Entry<T>) -> bool {
        if !entry.is_operand() {
            self.report(cx, Problem::new(TarKind::Removed).naming(entry.path()), 1);
        }
        !entry.is_operand()
    }

    /// Called when the framework failed with an entry. Reports it here if it is gone, or cannot
    /// even be looked up.
    pub(super) fn failed<T: Tool>(
        &self,
        cx: &Context<'_, T>,
        entry: &Entry<T>,
        failure: EntryFailure<'_>,
    ) -> Reported {
        let is_reported = match failure {
            EntryFailure::Classify(cause) | EntryFailure::OpenDir(cause) | EntryFailure::OpenFile(cause)
                if cause.is(Errno::NOENT) =>
            {
                self.report_removed(cx, entry)
            }
            EntryFailure::OpenDir(_) | EntryFailure::OpenFile(_) => self.report_refused(cx, entry),
            _ => false,
        };
        if is_reported { Reported::Yes } else { Reported::No }
    }

    /// Reports an entry that cannot even be looked up. Returns false if it can.
    fn report_refused<T: Tool>(&self, cx: &Context<'_, T>, entry: &Entry<T>) -> bool {
        let directory = cx.cache().open(&entry.node.source);
        let looked = directory.and_then(|directory| stat_at(&*directory, entry.name()));
        let refused = looked.err();
        let is_refused = refused.is_some();
        if let Some(cause) = refused {
            self.report(cx, Problem::new(TarKind::CannotStat).naming(entry.path()).because(cause), 2);
        }
        is_refused
    }
}

/// True if an open file was changed since it was examined, or can no longer be examined.
pub(super) fn was_changed(file: &Fd, before: &Stat) -> bool {
    stat(file).map_or(true, |now| has_changed(before, &now))
}

/// True if the file was replaced or changed. The device number does not count: the same device has
/// another number on another host.
fn has_changed(before: &Stat, now: &Stat) -> bool {
    let facts =
        |stat: &Stat| (stat.identity.inode, stat.size, stat.modified, stat.owner, stat.group, stat.mode);
    facts(before) != facts(now)
}

/// Returns the problem of a file that changed, or shrank by `missing` bytes; `None` if it
/// did neither.
pub(super) fn difference<T: Tool>(entry: &Entry<T>, missing: u64, changed: bool) -> Option<Problem> {
    match (missing, changed) {
        (0, false) => None,
        (0, true) => Some(Problem::new(TarKind::Changed).naming(entry.path())),
        (missing, _) => Some(Problem::new(TarKind::Shrank).naming(entry.path()).naming(missing.to_string())),
    }
}

pub(super) fn unfit_problem(path: &[u8], unfit: &FormatMisfit) -> Problem {
    match unfit {
        FormatMisfit::Name => Problem::new(TarKind::NameTooLong).naming(path),
        FormatMisfit::Link => Problem::new(TarKind::LinkTooLong).naming(path),
        FormatMisfit::Number(what, number, largest) => Problem::new(TarKind::NumberTooLarge)
            .naming(path)
            .naming(number.to_string())
            .naming(*what)
            .naming(largest.to_string()),
    }
}

fn map_of(file: &Fd, stat: &Stat) -> Result<SparseMap, Error> {
    let mut data: Vec<Range<u64>> = Vec::new();
    let mut at = 0;
    while at < stat.size {
        let Some(start) = seek(file, Seek::Data, at)?.filter(|start| *start < stat.size) else { break };
        // At least one byte further each time, even if the file changes at the same time.
        let end = seek(file, Seek::Hole, start)?.unwrap_or(stat.size).clamp(start + 1, stat.size);
        data.push(start..end);
        at = end;
    }
    Ok(SparseMap { data, size: stat.size })
}

impl DirectoryListing {
    /// Creates the listing of a directory in this one.
    fn below(&self, name: &CStr, options: &Options) -> Self {
        let mut prefix = [self.prefix.as_slice(), without_slashes(name.to_bytes())].concat();
        if !prefix.ends_with(b"/") {
            prefix.push(b'/');
        }
        let confined = options.confinement == Confinement::Confined;
        let stripped = if confined { unsafe_prefix(&prefix) } else { 0 };
        Self { stripped: Some(self.stripped.unwrap_or(stripped)), ..Self::operand_parent(&prefix) }
    }

    /// Returns the path of an entry, as the user would write it.
    pub(super) fn path(&self, member: &TarEntry) -> Vec<u8> {
        [self.prefix.as_slice(), without_slashes(member.name.to_bytes())].concat()
    }

    /// The same with a slash after the name of a directory.
    pub(super) fn path_with_slash(&self, member: &TarEntry) -> Vec<u8> {
        let mut path = self.path(member);
        if member.kind == MemberKind::Directory && !path.ends_with(b"/") {
            path.push(b'/');
        }
        path
    }

    pub(super) fn member_path(&self, member: &TarEntry, options: &Options) -> Vec<u8> {
        let mut path = self.path(member);
        let stripped = match (self.stripped, options.confinement) {
            (Some(stripped), _) => stripped,
            (None, Confinement::Confined) => unsafe_prefix(&path),
            (None, Confinement::Absolute) => 0,
        };
        path.drain(..stripped.min(path.len()));
        if path.is_empty() {
            path.push(b'.');
        }
        if member.kind == MemberKind::Directory && !path.ends_with(b"/") {
            path.push(b'/');
        }
        path
    }
}

/// Returns a name without trailing slashes; the root is one slash.
pub(super) fn without_slashes(name: &[u8]) -> &[u8] {
    let end = name.iter().rposition(|byte| *byte != b'/').map_or(1, |last| last + 1);
    &name[..end.min(name.len())]
}

/// Returns the outcome of an entry that is done once it was examined. Regular files count when they
/// are read, directories when they are entered.
fn outcome_of(kind: MemberKind) -> Option<EntryOutcome> {
    match kind {
        MemberKind::Symlink => Some(EntryOutcome::Symlink),
        MemberKind::CharacterDevice | MemberKind::BlockDevice | MemberKind::Fifo => {
            Some(EntryOutcome::Special)
        }
        _ => None,
    }
}
