//! Tables of the decisions about existing targets.

use std::cell::Cell;

use haul_sys::{Identity, Mode, Timestamp};

use super::*;

/// Builds a fake `stat`.
fn stat(inode: u64, kind: FileType, links: u32) -> Stat {
    let moment = Timestamp { seconds: 0, nanoseconds: 0 };
    Stat {
        identity: Identity { device: 1, inode },
        kind,
        mode: Mode::READ_WRITE,
        owner: 0,
        group: 0,
        size: 0,
        blocks: 0,
        block_size: 4096,
        links,
        device_number: 0,
        accessed: moment,
        modified: moment,
        changed: moment,
        born: None,
    }
}

fn file(inode: u64) -> Stat {
    stat(inode, FileType::Regular, 1)
}

fn directory(inode: u64) -> Stat {
    stat(inode, FileType::Directory, 2)
}

fn link(inode: u64) -> Stat {
    stat(inode, FileType::Symlink, 1)
}

/// Fakes a [`Details`]; each pair is `lstat` and `stat`.
#[derive(Clone)]
struct Pretended {
    source: (Stat, Stat),
    there: (Stat, Stat),
    one_entry: bool,
    older: bool,
    ours: bool,
    same: bool,
    agrees: bool,
    just_created: bool,
    backup_of_target: bool,
    asked: Cell<u32>,
}

impl Pretended {
    fn of(source: Stat, there: Stat) -> Self {
        Self {
            source: (source, source),
            there: (there, there),
            one_entry: false,
            older: true,
            ours: false,
            same: false,
            agrees: true,
            just_created: false,
            backup_of_target: false,
            asked: Cell::new(0),
        }
    }

    /// The same for an entry of a tree that is made equal to another.
    fn sync(&self, difference: UpdateRule, atomic: Atomic) -> Decision {
        let existing = Existing { update: Update::Different(difference), ..Existing::default() };
        let options = &CopyOptions { atomic, ..with(existing) };
        let ((source, _), (there, _)) = (&self.source, &self.there);
        decide(
            &TargetCase { options, source, there, follows: false, is_operand: false, is_dots: false },
            self,
        )
    }

    fn decide(&self, options: &CopyOptions, follows: bool) -> Decision {
        let seen = |(own, end): &(Stat, Stat), own_counts: bool| if own_counts { *own } else { *end };
        let source = seen(&self.source, !follows);
        let there = seen(&self.there, looks_at_link(options, source.kind));
        let case =
            TargetCase { options, source: &source, there: &there, follows, is_operand: true, is_dots: false };
        decide(&case, self)
    }
}

impl Details for Pretended {
    fn source_link(&self) -> Option<Stat> {
        Some(self.source.0)
    }
    fn there_link(&self) -> Option<Stat> {
        Some(self.there.0)
    }
    fn source_end(&self) -> Option<Stat> {
        Some(self.source.1)
    }
    fn there_end(&self) -> Option<Stat> {
        Some(self.there.1)
    }
    fn is_one_entry(&self) -> bool {
        self.one_entry
    }
    fn is_older(&self) -> bool {
        self.older
    }
    fn is_ours(&self) -> bool {
        self.ours
    }
    fn is_same(&self, _: UpdateRule) -> bool {
        self.same
    }
    fn agrees(&self) -> bool {
        self.asked.set(self.asked.get() + 1);
        self.agrees
    }
    fn is_just_created(&self) -> bool {
        self.just_created
    }
    fn is_backup_of_target(&self) -> bool {
        self.backup_of_target
    }
}

fn with(existing: Existing) -> CopyOptions {
    CopyOptions { existing, ..CopyOptions::default() }
}

fn usual() -> CopyOptions {
    CopyOptions::default()
}

fn backing_up(backup: Backup) -> CopyOptions {
    with(Existing { backup, ..Existing::default() })
}

fn removing() -> CopyOptions {
    with(Existing { remove: true, ..Existing::default() })
}

fn making(make: Make) -> CopyOptions {
    CopyOptions { make, ..CopyOptions::default() }
}

const SAME: Decision = Decision::Refuse(ReplaceRefusal::SameFile);

#[test]
fn a_file_that_the_program_writes_stays_whatever_is_asked() {
    let own = |options| CopyOptions { own_files: vec![file(2).identity], ..options };
    for options in [usual(), removing(), backing_up(Backup::Numbered), making(Make::Symlink)] {
        for source in [file(1), directory(1), link(1)] {
            let decided = Pretended::of(source, file(2)).decide(&own(options.clone()), true);
            assert_eq!(decided, Decision::Refuse(ReplaceRefusal::OwnFile));
        }
    }
    let keeping = with(Existing { update: Update::None, ..Existing::default() });
    let decided = Pretended::of(file(1), file(2)).decide(&own(keeping), true);
    assert_eq!(decided, Decision::Skip(Skip::Unwanted));
}

#[test]
fn what_is_part_of_the_source_stays_in_a_sync() {
    let existing = Existing { update: Update::Different(UpdateRule::default()), ..Existing::default() };
    let options = CopyOptions { source_parts: vec![file(2).identity], ..with(existing) };
    for (source, there) in [(file(1), file(2)), (directory(1), directory(2)), (file(1), directory(2))] {
        let decided = Pretended::of(source, there).decide(&options, true);
        assert_eq!(decided, Decision::Refuse(ReplaceRefusal::OntoSource));
    }
    for source in [file(2), directory(2)] {
        assert_eq!(Pretended::of(source, source).decide(&options, true), Decision::Done);
    }
}

#[test]
fn what_stands_there_stays_goes_or_is_kept() {
    let two_names = stat(2, FileType::Regular, 2);
    let keeping_links = CopyOptions { preserve: Preserve::LINKS, ..usual() };
    let table = [
        ("a file onto a file", usual(), true, file(1), file(2), Decision::Stays),
        ("a directory onto a directory", usual(), true, directory(1), directory(2), Decision::Stays),
        ("with backups too", backing_up(Backup::Simple), true, directory(1), directory(2), Decision::Stays),
        ("a file, kept", backing_up(Backup::Existing), true, file(1), file(2), Decision::BackUp),
        (
            "a file under a directory, kept",
            backing_up(Backup::Simple),
            true,
            directory(1),
            file(2),
            Decision::BackUp,
        ),
        ("removed as asked", removing(), true, file(1), file(2), Decision::Remove),
        ("a name of a file of others", keeping_links, true, file(1), two_names, Decision::Remove),
        ("a link replaces", usual(), false, link(1), file(2), Decision::Remove),
        (
            "a pipe does not when links are followed",
            usual(),
            true,
            stat(1, FileType::Fifo, 1),
            file(2),
            Decision::Stays,
        ),
        (
            "a directory onto a file",
            usual(),
            true,
            directory(1),
            file(2),
            Decision::Refuse(ReplaceRefusal::DirectoryOntoOther),
        ),
        (
            "a file onto a directory",
            usual(),
            true,
            file(1),
            directory(2),
            Decision::Refuse(ReplaceRefusal::OtherOntoDirectory),
        ),
        (
            "the same with removal",
            removing(),
            true,
            file(1),
            directory(2),
            Decision::Refuse(ReplaceRefusal::OtherOntoDirectory),
        ),
    ];
    for (what, options, follows, source, there, wanted) in table {
        assert_eq!(Pretended::of(source, there).decide(&options, follows), wanted, "{what}");
    }
}

#[test]
fn one_file_is_copied_onto_itself_only_where_nothing_is_lost() {
    let hard = stat(1, FileType::Regular, 2);
    let to_it = |end: Stat| (link(9), end);
    let (plain, same) = ((file(1), file(1)), (hard, hard));
    let simple = || backing_up(Backup::Simple);
    // Name, options, follow links, source, target, one entry, expected decision.
    let table = [
        ("itself", usual(), true, plain, plain, true, SAME),
        ("itself, with a backup", simple(), true, plain, plain, true, SAME),
        ("itself, removed before", removing(), true, plain, plain, true, SAME),
        ("another name", usual(), true, same, same, false, SAME),
        ("another name, with a backup", simple(), true, same, same, false, Decision::BackUp),
        ("another name, removed before", removing(), true, same, same, false, Decision::Remove),
        ("another name, linked", making(Make::HardLink), true, same, same, false, Decision::Done),
        ("a link to it", usual(), true, plain, to_it(file(1)), false, SAME),
        ("a link to it, with a backup", simple(), true, plain, to_it(file(1)), false, Decision::BackUp),
        ("a link to it, removed before", removing(), true, plain, to_it(file(1)), false, Decision::Remove),
        (
            "a link to it, made again",
            making(Make::Symlink),
            true,
            plain,
            to_it(file(1)),
            false,
            Decision::Stays,
        ),
        ("through a link, onto its end", usual(), true, to_it(file(1)), plain, false, SAME),
        ("the same with a backup", simple(), true, to_it(file(1)), plain, false, SAME),
        ("the link itself, onto its end", usual(), false, to_it(file(1)), plain, false, SAME),
        ("the same, linked", making(Make::HardLink), false, to_it(file(1)), plain, false, Decision::Done),
        ("one link, two names", usual(), false, to_it(file(1)), to_it(file(1)), false, Decision::Done),
        ("one link, itself", usual(), false, to_it(file(1)), to_it(file(1)), true, SAME),
        (
            "one link, two names, kept",
            simple(),
            false,
            to_it(file(1)),
            to_it(file(1)),
            false,
            Decision::BackUp,
        ),
    ];
    for (what, options, follows, source, there, one_entry, wanted) in table {
        let details = Pretended { source, there, one_entry, ..Pretended::of(source.0, there.0) };
        assert_eq!(details.decide(&options, follows), wanted, "{what}");
    }
}

#[test]
fn files_are_left_out_in_the_order_of_the_questions() {
    let decided = |update, ask, change: fn(&mut Pretended)| {
        let mut details = Pretended::of(file(1), file(2));
        change(&mut details);
        let options = with(Existing { update, ask, ..Existing::default() });
        (details.decide(&options, true), details.asked.get())
    };
    let newer = |details: &mut Pretended| details.older = false;
    let no = |details: &mut Pretended| details.agrees = false;
    let as_it_is = |_: &mut Pretended| {};
    let skip = Decision::Skip;
    assert_eq!(decided(Update::None, true, as_it_is), (skip(Skip::Unwanted), 0));
    assert_eq!(decided(Update::NoneFail, true, as_it_is), (skip(Skip::NotReplacing), 0));
    assert_eq!(decided(Update::Older, true, newer), (skip(Skip::NotOlder), 0));
    assert_eq!(decided(Update::Older, true, no), (skip(Skip::Declined), 1));
    assert_eq!(decided(Update::Older, true, as_it_is), (Decision::Stays, 1));
    assert_eq!(decided(Update::All, true, no), (skip(Skip::Declined), 1));
    assert_eq!(decided(Update::All, false, no), (Decision::Stays, 0));
    // A refused file is reported before the user is asked, and silently skipped if nothing
    // is replaced.
    let itself = Pretended { one_entry: true, ..Pretended::of(file(1), file(1)) };
    let ask = Existing { ask: true, ..Existing::default() };
    assert_eq!((itself.decide(&with(ask), true), itself.asked.get()), (SAME, 0));
    let none = Existing { update: Update::None, ..Existing::default() };
    assert_eq!(itself.decide(&with(none.clone()), true), skip(Skip::Unwanted));
    // Directories are entered whatever the rule for files.
    assert_eq!(Pretended::of(directory(1), directory(2)).decide(&with(none), true), Decision::Stays);
}

#[test]
fn what_this_run_has_made_and_what_it_reads_are_not_lost() {
    let made = Pretended { just_created: true, ..Pretended::of(file(1), file(2)) };
    assert_eq!(made.decide(&usual(), true), Decision::Refuse(ReplaceRefusal::JustCreated));
    let simple = backing_up(Backup::Simple);
    assert_eq!(made.decide(&simple, true), Decision::Refuse(ReplaceRefusal::JustCreated));
    assert_eq!(made.decide(&backing_up(Backup::Numbered), true), Decision::BackUp);
    let read = Pretended { backup_of_target: true, ..Pretended::of(file(1), file(2)) };
    assert_eq!(read.decide(&simple, true), Decision::Refuse(ReplaceRefusal::BackupDestroysSource));
    assert_eq!(read.decide(&backing_up(Backup::Numbered), true), Decision::BackUp);
    assert_eq!(read.decide(&usual(), true), Decision::Stays);
}

#[test]
fn what_differs_is_replaced_by_the_source_whatever_it_is() {
    let usual = UpdateRule::default();
    for (what, source, there, wanted) in [
        ("a file", file(1), file(2), Decision::Remove),
        ("a link", file(1), link(2), Decision::Remove),
        ("a file by a link", link(1), file(2), Decision::Remove),
        ("a file by a directory", directory(1), file(2), Decision::Remove),
        ("a directory by a file", file(1), directory(2), Decision::RemoveDirectory),
        ("a directory by a link", link(1), directory(2), Decision::RemoveDirectory),
        ("a directory", directory(1), directory(2), Decision::Stays),
    ] {
        assert_eq!(Pretended::of(source, there).sync(usual, Atomic::Always), wanted, "{what}");
    }
    let differing = Pretended::of(file(1), file(2));
    assert_eq!(differing.sync(usual, Atomic::Never), Decision::Stays, "in place");
    let shared = Pretended::of(file(1), stat(2, FileType::Regular, 2));
    assert_eq!(shared.sync(usual, Atomic::Never), Decision::Remove, "not in place, with other names");
    let same = Pretended { same: true, ..differing.clone() };
    assert_eq!(same.sync(usual, Atomic::Always), Decision::Skip(Skip::Unchanged));
    let newer = Stat { modified: Timestamp { seconds: 1, nanoseconds: 0 }, ..file(2) };
    let keeping = UpdateRule { keeps_newer: true, ..usual };
    let decided = |there, difference| Pretended::of(file(1), there).sync(difference, Atomic::Always);
    assert_eq!(decided(newer, usual), Decision::Remove);
    assert_eq!(decided(newer, keeping), Decision::Skip(Skip::NotOlder));
    assert_eq!(decided(file(2), keeping), Decision::Remove);
    let link = Stat { kind: FileType::Symlink, ..newer };
    assert_eq!(decided(link, keeping), Decision::Remove, "another type matters more than its age");
    // An operand is never removed for a directory: it may be a device.
    let existing = Existing { update: Update::Different(usual), ..Existing::default() };
    let refused = Decision::Refuse(ReplaceRefusal::DirectoryOntoOther);
    assert_eq!(Pretended::of(directory(1), file(2)).decide(&with(existing), false), refused);
}
