//! Content of a journal after truncation, damage or an interruption, and files that are refused.

use super::*;

fn done(journal: &Journal, keys: Range<u64>) {
    journal.done(keys.map(|key| (EntryKey(key), Stamp(key + 1))));
}

fn knows(journal: &Journal, key: u64) -> bool {
    journal.stamp(EntryKey(key)) == Stamp(key + 1)
}

#[test]
fn a_record_that_is_too_long_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let journal = Journal::open(&path, 7, 1).unwrap();
    journal.file_begun(EntryKey(6), vec![0; 1 << 16]);
    assert!(matches!(journal.take_failure(), Some(JournalError::RecordTooLong)));
    assert!(journal.take_failure().is_none(), "told twice");
    drop(journal);
    assert!(Journal::open(&path, 7, 1).unwrap().begun(EntryKey(6)).is_none());
}

#[test]
fn records_are_known_to_the_next_run_up_to_where_they_were_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let journal = Journal::open(&path, 7, 1).unwrap();
    let RunId { number, epoch } = journal.run();
    assert!(!journal.has_work() && epoch == 1 && journal.cut_off() == 0);
    done(&journal, 0..5000);
    journal.flush();
    journal.file_begun(EntryKey(5), b"ticket".to_vec());
    journal.range_moved(EntryKey(5), 0..10, vec![7; 32]);
    assert!(journal.take_failure().is_none() && journal.has_work());
    drop(journal);
    let whole = std::fs::read(&path).unwrap();
    for cut in [0, 1, 5, 20] {
        std::fs::write(&path, &whole[..whole.len() - cut]).unwrap();
        let journal = Journal::open(&path, 7, 1).unwrap();
        assert_eq!(journal.run(), RunId { number, epoch: 2 });
        assert_eq!(journal.cut_off() > 0, cut > 0);
        assert!((0..5000).all(|key| knows(&journal, key)) && !knows(&journal, 5000));
        let moved = journal.begun(EntryKey(5)).map(|begun| begun.done.clone());
        assert_eq!(moved.unwrap_or_default(), Vec::from_iter((cut == 0).then_some(0..10)));
        let hashes = journal.begun(EntryKey(5)).map(|begun| begun.hashes.clone());
        assert_eq!(hashes.unwrap_or_default(), Vec::from_iter((cut == 0).then(|| (0..10, vec![7; 32]))));
        done(&journal, 5000..5001);
        drop(journal);
        let journal = Journal::open(&path, 7, 1).unwrap();
        assert!(knows(&journal, 5000) && journal.run().epoch == 3 && journal.cut_off() == 0);
    }
    assert!(Journal::open(&path, 8, 1).is_err(), "the journal of another copy was taken");
}

#[test]
fn the_last_record_of_an_entry_counts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    for stamp in 1..=3 {
        let journal = Journal::open(&path, 7, 1).unwrap();
        journal.done([(EntryKey(4), Stamp(stamp)), (EntryKey(9), Stamp(stamp * 10))]);
    }
    let journal = Journal::open(&path, 7, 1).unwrap();
    assert_eq!((journal.stamp(EntryKey(4)), journal.stamp(EntryKey(9))), (Stamp(3), Stamp(30)));
}

#[test]
fn an_entry_is_unfinished_until_the_copy_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let (made, other) = (MadeEntry(1), MadeEntry(2));
    let journal = Journal::open(&path, 7, 1).unwrap();
    journal.entry_made(made);
    assert!(journal.has_work() && !journal.is_unfinished(made));
    drop(journal);
    let journal = Journal::open(&path, 7, 1).unwrap();
    assert!(journal.is_unfinished(made) && !journal.is_unfinished(other));
    journal.complete();
    drop(journal);
    assert!(!Journal::open(&path, 7, 1).unwrap().is_unfinished(made));
}

/// What it made may not be recorded, because it was unstable or has no birth time.
#[test]
fn a_journal_that_an_earlier_run_used_may_contain_work() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    assert!(!Journal::open(&path, 7, 1).unwrap().has_work());
    assert!(Journal::open(&path, 7, 1).unwrap().has_work());
}

/// An entry stays the one that was made if it is renamed or linked, and a directory if it is
/// filled, but not if it is written to or its inode number is used again.
#[test]
fn a_made_entry_is_known_by_its_birth_and_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let made = |path: &Path| {
        let file = File::open(path).unwrap();
        MadeEntry::of(&haul_sys::stat(&file).unwrap())
    };
    std::fs::write(&first, "content").unwrap();
    let before = made(&first);
    if before.is_none() {
        return;
    }
    std::fs::rename(&first, &second).unwrap();
    std::fs::hard_link(&second, &first).unwrap();
    assert_eq!(made(&first), before);
    File::options().append(true).open(&first).unwrap().write_all(b"more").unwrap();
    assert_ne!(made(&first), before);
    let directory = made(folder.path());
    std::fs::remove_file(&first).unwrap();
    assert_eq!(made(folder.path()), directory);
}

#[test]
fn an_entry_is_written_soon() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let journal = Journal::open(&path, 7, 1).unwrap();
    let length = || std::fs::metadata(&path).unwrap().len();
    let before = length();
    done(&journal, 0..1);
    assert_eq!(length(), before);
    std::thread::sleep(WRITTEN_WITHIN);
    done(&journal, 1..2);
    assert!(length() > before);
    let before = length();
    done(&journal, 2..2 + WAITING_MAX as u64);
    assert!(length() > before);
}

#[test]
fn after_an_error_nothing_is_written() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(&folder.path().join("journal"), 7, 1).unwrap();
    journal.lock().file = File::options().write(true).open("/dev/full").unwrap();
    journal.range_moved(EntryKey(1), 0..1, Vec::new());
    assert!(matches!(journal.take_failure(), Some(JournalError::Io(_))));
    journal.lock().file = File::options().write(true).open(folder.path().join("journal")).unwrap();
    let length = || std::fs::metadata(folder.path().join("journal")).unwrap().len();
    let before = length();
    journal.range_moved(EntryKey(1), 0..1, Vec::new());
    assert!(length() == before && journal.take_failure().is_none());
}

#[test]
fn a_journal_that_was_cut_off_in_its_first_bytes_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    drop(Journal::open(&path, 7, 1).unwrap());
    let whole = std::fs::read(&path).unwrap();
    for length in 1..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        let refused = Journal::open(&path, 7, 1);
        assert!(matches!(refused, Err(JournalError::Damaged)), "cut at {length}");
        assert_eq!(std::fs::read(&path).unwrap(), whole[..length]);
    }
    for at in MAGIC.len()..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        std::fs::write(&path, &damaged).unwrap();
        assert!(matches!(Journal::open(&path, 7, 1), Err(JournalError::Damaged)), "byte {at}");
    }
}

/// A run that was killed between creating the file and writing to it leaves an empty one.
#[test]
fn an_empty_file_becomes_a_journal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    std::fs::write(&path, "").unwrap();
    assert_eq!(Journal::open(&path, 7, 1).unwrap().run().epoch, 1);
    assert_eq!(Journal::open(&path, 7, 1).unwrap().run().epoch, 2);
}

#[test]
fn a_file_that_is_no_journal_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    for content in [&b"a letter to my aunt"[..], b"haul journal 2\n"] {
        std::fs::write(&path, content).unwrap();
        assert!(Journal::open(&path, 7, 1).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), content);
    }
}

#[test]
fn what_is_no_journal_is_not_read_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let large = folder.path().join("large");
    std::fs::File::create(&large).unwrap().set_len(1 << 40).unwrap();
    for path in [Path::new("/dev/zero"), Path::new("/dev/full"), &large] {
        let refused = Journal::open(path, 7, 1);
        assert!(matches!(refused, Err(JournalError::NoJournal | JournalError::Io(_))), "{path:?}");
    }
}

#[test]
fn a_private_journal_is_a_file_of_this_user() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("journal"), folder.path().join("other"));
    std::os::unix::fs::symlink(&other, &path).unwrap();
    assert!(Journal::open_private(&path, 7, 1).is_err() && !other.exists());
    std::fs::remove_file(&path).unwrap();
    drop(Journal::open_private(&path, 7, 1).unwrap());
    let facts = std::fs::metadata(&path).unwrap();
    assert_eq!(facts.mode() & 0o777, 0o600);
    if facts.uid() == 0 {
        std::os::unix::fs::chown(&path, Some(1), None).unwrap();
        assert!(matches!(Journal::open_private(&path, 7, 1), Err(JournalError::Foreign)));
    }
}

#[test]
fn a_journal_that_is_in_use_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let journal = Journal::open(&path, 7, 1).unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = Journal::open(&path, 7, 1).err().unwrap();
    assert!(matches!(error, JournalError::InUse));
    assert_eq!(std::fs::read(&path).unwrap(), before);
    drop(journal);
    assert_eq!(Journal::open(&path, 7, 1).unwrap().run().epoch, 2);
}

#[test]
fn a_program_that_a_run_started_does_not_keep_its_journal_locked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let journal = Journal::open(&path, 7, 1).unwrap();
    // `spawn` returns after the child's `exec`.
    let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    drop(journal);
    let again = Journal::open(&path, 7, 1);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(again.unwrap().run().epoch, 2);
}

#[test]
fn a_directory_keeps_its_times_when_a_private_journal_comes_and_goes() {
    let folder = tempfile::tempdir().unwrap();
    let modified = || folder.path().metadata().unwrap().modified().unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(7);
    File::open(folder.path()).unwrap().set_times(FileTimes::new().set_modified(old)).unwrap();
    let journal = Journal::open_private(&folder.path().join("journal"), 7, 1).unwrap();
    assert_eq!(modified(), old);
    journal.remove().unwrap();
    assert_eq!(modified(), old);
    // One that stays is an entry as any other.
    drop(Journal::open(&folder.path().join("kept"), 7, 1).unwrap());
    assert!(modified() > old);
}
