//! `Sync`: its effects, and the rules that protect the user's data, in the library.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use haul::flow::{EntryOutcome, EntryReport, OutputLine, Reporter, Standard, Tally};
use haul::options::{Backup, Update};
use haul::{CancelToken, Config, CopyKind, DeleteKind, DeletionOptions, Error, Limit, LimitValues, Limits};
use haul::{Problem, Selection, Summary, Sync, SyncKind};

/// Two trees: `same` is in both, `new` only in the source, `extra/one` and `two` only in the
/// target.
struct Trees {
    folder: tempfile::TempDir,
    source: PathBuf,
    target: PathBuf,
}

fn trees() -> Trees {
    let folder = tempfile::tempdir().unwrap();
    let [source, target] = ["source", "target"].map(|name| folder.path().join(name));
    for tree in [&source, &target] {
        fs::create_dir_all(tree).unwrap();
        fs::write(tree.join("same"), "same").unwrap();
    }
    fs::create_dir(target.join("extra")).unwrap();
    fs::write(target.join("extra/one"), "1").unwrap();
    fs::write(target.join("two"), "2").unwrap();
    fs::write(source.join("new"), "new").unwrap();
    Trees { folder, source, target }
}

impl Trees {
    fn sync(&self) -> Sync {
        Sync::new(&self.source, &self.target)
    }

    /// True if nothing that only the target has was deleted.
    fn has_extras(&self) -> bool {
        self.target.join("extra/one").exists() && self.target.join("two").exists()
    }
}

fn not_started(outcome: Result<Summary, Error>) -> SyncKind {
    match outcome {
        Err(Error::NotStarted(problem)) => SyncKind::of(problem.kind).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn incomplete(outcome: Result<Summary, Error>) -> DeleteKind {
    match outcome {
        Err(Error::Incomplete(summary)) => DeleteKind::of(summary.problems.last().unwrap().kind).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_target_becomes_equal_and_loses_its_own_only_if_asked() {
    let trees = trees();
    let summary = trees.sync().run().unwrap();
    assert_eq!(summary.tally.deleted, 0);
    assert_eq!(fs::read(trees.target.join("new")).unwrap(), b"new");
    assert!(trees.has_extras());

    let summary = trees.sync().delete().dry_run().run().unwrap();
    assert_eq!(summary.tally.deleted, 3);
    assert!(trees.has_extras());

    let summary = trees.sync().delete().run().unwrap();
    assert_eq!((summary.tally.files, summary.tally.deleted), (0, 3));
    assert!(!trees.target.join("extra").exists() && !trees.target.join("two").exists());
}

#[test]
fn trees_inside_each_other_and_files_are_refused() {
    let trees = trees();
    let below = trees.source.join("below");
    let file = trees.source.join("same");
    assert_eq!(not_started(Sync::new(&trees.source, &below).delete().run()), SyncKind::Nested);
    assert_eq!(not_started(Sync::new(&trees.source, &trees.source).run()), SyncKind::Nested);
    assert_eq!(not_started(Sync::new(&trees.source, "/").delete().run()), SyncKind::Nested);
    assert_eq!(not_started(Sync::new(&file, &trees.target).run()), SyncKind::NotADirectory);
    assert_eq!(not_started(Sync::new(&trees.source, &file).run()), SyncKind::NotADirectory);
    assert!(!below.exists());
}

#[test]
fn nothing_is_deleted_after_an_error_or_for_an_empty_source() {
    let trees = trees();
    // A directory in the source, and a file in the target that is in the way of nothing else.
    let missing = trees.folder.path().join("missing");
    assert_eq!(incomplete(Sync::new(&missing, &trees.target).delete().run()), DeleteKind::AfterErrors);
    let empty = trees.folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let onto = Sync::new(&empty, &trees.target);
    assert_eq!(incomplete(onto.clone().delete().run()), DeleteKind::EmptySource);
    assert!(trees.has_extras() && trees.target.join("same").exists());
    let really = DeletionOptions { really: true, ..DeletionOptions::default() };
    assert_eq!(onto.delete_with(really).run().unwrap().tally.deleted, 4);
}

#[test]
fn no_more_is_deleted_than_allowed_and_nothing_that_is_left_out() {
    let trees = trees();
    let limit = |limit| DeletionOptions { limit, ..DeletionOptions::default() };
    let few = trees.sync().delete_with(limit(Limit::Entries(2)));
    assert_eq!(incomplete(few.run()), DeleteKind::TooMany);
    assert!(trees.has_extras());
    let selection = Selection { rules: vec!["two".into(), "extra".into()], ..Selection::default() };
    let config = Config { selection, ..Config::default() };
    let left_out = trees.sync().config(config).delete_with(limit(Limit::Entries(0)));
    assert_eq!(left_out.run().unwrap().tally.deleted, 0);
    assert!(trees.has_extras());
}

#[test]
fn options_that_would_not_make_the_trees_equal_are_refused() {
    let trees = trees();
    let sync = trees.sync().delete();
    let changed = [
        sync.clone().options(|copy| copy.recursive = false),
        sync.clone().options(|copy| copy.existing.update = Update::All),
        sync.clone().options(|copy| copy.existing.backup = Backup::Simple),
        sync.clone().backup_dir("../kept").options(|copy| copy.atomic = haul::options::Atomic::Never),
    ];
    for sync in changed {
        assert_eq!(not_started(sync.run()), SyncKind::Conflict);
    }
    assert_eq!(not_started(sync.backup_dir("inside").run()), SyncKind::BackupInside);
    assert!(trees.has_extras() && !trees.target.join("new").exists());
}

#[test]
fn what_is_deleted_can_be_kept_and_what_is_the_same_be_linked() {
    let trees = trees();
    let summary = trees.sync().delete().backup_dir("../kept").run().unwrap();
    assert_eq!(summary.tally.deleted, 3);
    assert_eq!(fs::read(trees.folder.path().join("kept/extra/one")).unwrap(), b"1");

    let [next, none] = ["next", "none"].map(|name| trees.folder.path().join(name));
    let linked = Sync::new(&trees.source, &next).link_dest(&trees.target).link_dest(&none).run().unwrap();
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
    assert_eq!(inode(&next.join("same")), inode(&trees.target.join("same")));
    let kinds = linked.problems.iter().map(|problem| SyncKind::of(problem.kind)).collect::<Vec<_>>();
    assert_eq!(kinds, [Some(SyncKind::EarlierMissing)]);
}

/// What a comparison reads counts for the limits as what a copy moves does.
#[test]
fn a_comparison_asks_for_the_bytes_that_it_reads() {
    const BYTES: usize = 1_000_000;
    let folder = tempfile::tempdir().unwrap();
    let [source, target] = ["s", "t"].map(|name| folder.path().join(name));
    for tree in [&source, &target] {
        fs::create_dir(tree).unwrap();
        fs::write(tree.join("f"), vec![7; BYTES]).unwrap();
    }
    let limits = Limits::from(LimitValues { bytes_per_second: Some(1 << 40), ..LimitValues::default() });
    limits.depend_on_grants();
    let config = Config { limits: Some(limits.clone()), ..Config::default() };
    let sync = Sync::new(&source, &target).by_content().config(config);
    let mut asked = 0;
    let summary = std::thread::scope(|threads| {
        let run = threads.spawn(|| sync.run());
        while !run.is_finished() {
            if let Some(load) = limits.ask() {
                asked += load.bytes;
                limits.grant(load);
            }
            std::thread::yield_now();
        }
        run.join().unwrap()
    });
    assert_eq!(summary.unwrap().tally.files, 0);
    assert!(asked >= BYTES as u64, "{asked}");
}

/// Cancels a token when the first entry is reported.
struct Canceller(CancelToken, EntryOutcome);

impl Reporter for Canceller {
    fn count(&self, _: Tally) {}
    fn problem(&self, _: Problem) {}
    fn line(&self, _: OutputLine) {}
    fn entry(&self, entry: EntryReport) {
        if entry.outcome == self.1 {
            self.0.cancel();
        }
    }
    fn wants_entries(&self) -> bool {
        true
    }
    fn output(&self, _: Standard, _: &[u8]) {}
    fn debug(&self, _: &str) {}
}

#[test]
fn a_cancelled_sync_deletes_no_more() {
    let trees = trees();
    let token = CancelToken::default();
    let cancelled = trees.sync().delete().cancel_with(&token);
    let outcome = cancelled.run_with(&Canceller(token.clone(), EntryOutcome::File));
    assert!(matches!(outcome, Err(Error::Cancelled(_))), "{outcome:?}");
    assert!(trees.has_extras());

    // While it deletes: of many files, most are left.
    for number in 0..600 {
        fs::write(trees.target.join(format!("extra/{number}")), "").unwrap();
    }
    let token = CancelToken::default();
    let really = DeletionOptions { limit: Limit::Percent(100), ..DeletionOptions::default() };
    let config = Config { jobs: Some(1), ..Config::default() };
    let cancelled = trees.sync().config(config).delete_with(really).cancel_with(&token);
    let outcome = cancelled.run_with(&Canceller(token.clone(), EntryOutcome::Deleted));
    let Err(Error::Cancelled(summary)) = outcome else { panic!("{outcome:?}") };
    assert!((1..600).contains(&summary.tally.deleted), "{:?}", summary.tally);
    assert!(summary.problems.is_empty(), "{:?}", summary.problems);
}

#[test]
fn the_copy_reports_its_own_problems() {
    let trees = trees();
    fs::create_dir(trees.source.join("two")).unwrap();
    fs::create_dir(trees.target.join("new")).unwrap();
    fs::write(trees.target.join("new/inside"), "").unwrap();
    let Err(Error::Incomplete(summary)) = trees.sync().run() else { panic!("a full directory is replaced") };
    let kinds = summary.problems.iter().map(|problem| CopyKind::of(problem.kind)).collect::<Vec<_>>();
    assert_eq!(kinds, [Some(CopyKind::OtherOntoDirectory)], "{summary:?}");
    // A deletion makes way.
    trees.sync().delete().run().unwrap();
    assert_eq!(fs::read(trees.target.join("new")).unwrap(), b"new");
    assert!(trees.target.join("two").is_dir());
}

/// Set for the process that is run with another home directory.
const HOME_TEST: &str = "HAUL_TEST_TREES";

#[test]
fn nothing_is_deleted_from_the_home_directory() {
    if let Some(folder) = std::env::var_os(HOME_TEST) {
        let folder = Path::new(&folder);
        let sync = Sync::new(folder.join("source"), folder.join("target"));
        assert_eq!(not_started(sync.clone().delete().run()), SyncKind::HomeDirectory);
        assert!(folder.join("target/two").exists());
        sync.run().unwrap();
        sync.delete_with(DeletionOptions { really: true, ..DeletionOptions::default() }).run().unwrap();
        assert!(!folder.join("target/two").exists());
        return;
    }
    let trees = trees();
    let mut itself = Command::new(std::env::current_exe().unwrap());
    itself.args(["--exact", "nothing_is_deleted_from_the_home_directory"]);
    let ran = itself.env(HOME_TEST, trees.folder.path()).env("HOME", &trees.target).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
    assert!(!trees.target.join("two").exists());
}
