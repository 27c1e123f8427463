//! A file that appears under its name whole, or not at all.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use haul_digest::{AtomicFile, CreateError};

fn create(path: &Path) -> Result<AtomicFile, CreateError> {
    AtomicFile::create(&CString::new(path.as_os_str().as_bytes()).unwrap_or_default())
}

fn names(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).into_iter().flatten().flatten();
    names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn it_has_its_name_when_it_is_committed() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("sums");
    let mut file = create(&path).unwrap();
    file.write(b"one").unwrap();
    file.write(&[b'x'; 1 << 20]).unwrap();
    assert!(!path.exists());
    assert_eq!(names(place.path()).len(), 1);
    file.commit().unwrap();
    assert_eq!(fs::read(&path).unwrap().len(), 3 + (1 << 20));
    assert_eq!(names(place.path()), ["sums"]);
}

#[test]
fn an_abandoned_one_leaves_nothing_and_the_old_one() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("sums");
    fs::write(&path, "old").unwrap();
    let mut file = create(&path).unwrap();
    file.write(b"new").unwrap();
    drop(file);
    assert_eq!(names(place.path()), ["sums"]);
    assert_eq!(fs::read(&path).unwrap(), b"old");
}

#[test]
fn a_replaced_file_passes_on_its_permissions() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("sums");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let seen = fs::metadata(&path).unwrap();
    let file = create(&path).unwrap();
    let identity = haul_sys::Identity { device: seen.dev(), inode: seen.ino() };
    assert_eq!(file.files().nth(1), Some((c"sums", identity)));
    assert_eq!(file.files().count(), 2);
    file.commit().unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
    assert_ne!(fs::metadata(&path).unwrap().ino(), seen.ino());
}

#[test]
fn only_a_regular_file_is_replaced() {
    let place = tempfile::tempdir().unwrap();
    let victim = place.path().join("victim");
    fs::write(&victim, "kept").unwrap();
    symlink(&victim, place.path().join("link")).unwrap();
    symlink("nowhere", place.path().join("dangling")).unwrap();
    fs::create_dir(place.path().join("directory")).unwrap();
    for name in ["link", "dangling", "directory"] {
        assert!(matches!(create(&place.path().join(name)), Err(CreateError::NotRegular)), "{name}");
    }
    for name in ["directory/", "missing/sums", "victim/sums"] {
        assert!(matches!(create(&place.path().join(name)), Err(CreateError::Failed(_))), "{name}");
    }
    assert_eq!(names(place.path()).len(), 4);
}

#[test]
fn a_link_that_takes_the_name_during_the_run_is_not_followed() {
    let place = tempfile::tempdir().unwrap();
    let (victim, path) = (place.path().join("victim"), place.path().join("sums"));
    fs::write(&victim, "kept").unwrap();
    let mut file = create(&path).unwrap();
    file.write(b"new").unwrap();
    symlink(&victim, &path).unwrap();
    file.commit().unwrap();
    assert_eq!(fs::read(&victim).unwrap(), b"kept");
    assert!(fs::symlink_metadata(&path).unwrap().is_file());
    assert_eq!(fs::read(&path).unwrap(), b"new");
}

#[test]
fn another_file_under_the_temporary_name_is_neither_named_nor_removed() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("sums");
    let file = create(&path).unwrap();
    let temporary = place.path().join(&names(place.path())[0]);
    fs::remove_file(&temporary).unwrap();
    fs::write(&temporary, "foreign").unwrap();
    assert!(file.commit().is_err());
    assert!(!path.exists());
    assert_eq!(fs::read(&temporary).unwrap(), b"foreign");
}
