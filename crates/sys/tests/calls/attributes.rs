//! Owner, mode, times and extended attributes, of open files and of pinned ones.

use std::ffi::CString;
use std::os::unix::fs::{MetadataExt, symlink};

use haul_sys::{
    Errno, Fd, Mode, Open, Owner, Pinned, Times, Timestamp, change_mode, change_owner, change_times,
    get_xattr, list_xattrs, matches_pattern, open, remove_xattr, set_xattr, stat,
};
use haul_testkit::skip;

use super::Ground;

fn moment(seconds: i64) -> Times {
    let time = |nanoseconds| Timestamp { seconds, nanoseconds };
    Times { accessed: time(1), modified: time(999_999_999) }
}

/// Opens a file, unless this file system has no extended attributes.
fn attributed(ground: &Ground) -> Option<Fd> {
    let file = ground.source("file", b"");
    match set_xattr(&file, c"user.probe", b"") {
        Ok(()) => remove_xattr(&file, c"user.probe").map(|()| Some(file)).unwrap(),
        Err(error) if error.is(Errno::OPNOTSUPP) => None,
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn mode_owner_and_times_are_set_on_the_open_file() {
    let ground = Ground::new();
    let file = ground.source("file", b"");
    std::fs::rename(ground.path("file"), ground.path("moved")).unwrap();
    std::fs::write(ground.path("file"), "another").unwrap();
    change_mode(&file, Mode::new(0o4751)).unwrap();
    change_times(&file, moment(-5)).unwrap();
    change_owner(&file, Owner { user: None, group: None }).unwrap();
    let (found, moved) = (stat(&file).unwrap(), ground.path("moved").metadata().unwrap());
    assert_eq!((found.mode.bits() & 0o777, moved.mode() & 0o777), (0o751, 0o751));
    assert_eq!((found.modified.seconds, found.modified.nanoseconds), (-5, 999_999_999));
    assert_eq!((found.accessed.seconds, found.accessed.nanoseconds), (-5, 1));
    assert_ne!(ground.path("file").metadata().unwrap().mtime(), -5);
}

#[test]
fn extended_attributes_come_back_as_they_were_set() {
    let ground = Ground::new();
    let Some(file) = attributed(&ground) else { skip!("needs extended attributes") };
    // Longer than the first try of a read, and of any bytes.
    let long: Vec<u8> = (0..1500_u32).map(|number| number as u8).collect();
    for (key, value) in [(c"user.empty", &b""[..]), (c"user.\xff", b"\0\n"), (c"user.long", &long)] {
        set_xattr(&file, key, value).unwrap();
        assert_eq!(get_xattr(&file, key).unwrap(), value, "{key:?}");
    }
    let names = list_xattrs(&file).unwrap();
    let mut names: Vec<_> = names.iter().filter(|name| matches_pattern(c"user.*", name)).collect();
    names.sort();
    assert_eq!(names, [c"user.empty", c"user.long", c"user.\xff"]);
    set_xattr(&file, c"user.long", b"short").unwrap();
    assert_eq!(get_xattr(&file, c"user.long").unwrap(), b"short");
    remove_xattr(&file, c"user.long").unwrap();
    assert!(get_xattr(&file, c"user.long").unwrap_err().is(Errno::NODATA));
    // To remove what isn't there is no error.
    remove_xattr(&file, c"user.long").unwrap();
}

#[test]
fn a_list_longer_than_the_first_buffer_is_whole() {
    let ground = Ground::new();
    let Some(file) = attributed(&ground) else { skip!("needs extended attributes") };
    let name = |number: u32| CString::new(format!("user.a-rather-long-name-{number:02}")).unwrap();
    let keys: Vec<_> = (0..20).map(name).collect();
    keys.iter().for_each(|key| set_xattr(&file, key, b"x").unwrap());
    let names = list_xattrs(&file).unwrap();
    let mut names: Vec<_> = names.iter().filter(|name| matches_pattern(c"user.*", name)).collect();
    names.sort();
    assert!(names.iter().copied().eq(keys.iter().map(|key| key.as_c_str())), "{names:?}");
}

#[test]
fn a_pinned_file_has_the_attributes_of_its_open_form() {
    let ground = Ground::new();
    let Some(file) = attributed(&ground) else { skip!("needs extended attributes") };
    let pinned = Pinned::open(&ground.directory, c"file").unwrap();
    // Whoever takes the name afterwards gets nothing.
    std::fs::rename(ground.path("file"), ground.path("moved")).unwrap();
    std::fs::write(ground.path("file"), "").unwrap();
    pinned.set_xattr(c"user.key", b"value").unwrap();
    assert_eq!(get_xattr(&file, c"user.key").unwrap(), b"value");
    assert_eq!(pinned.get_xattr(c"user.key").unwrap(), b"value");
    assert!(pinned.list_xattrs().unwrap().iter().any(|name| name == c"user.key"));
    let usurper = open(&ground.directory, c"file", Open::READ).unwrap();
    assert!(get_xattr(&usurper, c"user.key").unwrap_err().is(Errno::NODATA));
    pinned.remove_xattr(c"user.key").unwrap();
    assert!(get_xattr(&file, c"user.key").unwrap_err().is(Errno::NODATA));
    assert_eq!(pinned.stat().unwrap().identity, stat(&file).unwrap().identity);
}

#[test]
fn a_pinned_link_is_the_link_unless_followed() {
    let ground = Ground::new();
    std::fs::write(ground.path("end"), "").unwrap();
    symlink("end", ground.path("link")).unwrap();
    let pinned = Pinned::open(&ground.directory, c"link").unwrap();
    pinned.change_times(moment(70)).unwrap();
    let followed = Pinned::follow(&ground.directory, c"link").unwrap();
    followed.change_times(moment(80)).unwrap();
    followed.change_mode(Mode::new(0o640)).unwrap();
    let (link, end) =
        (ground.path("link").symlink_metadata().unwrap(), ground.path("end").metadata().unwrap());
    assert_eq!((link.mtime(), end.mtime(), end.mode() & 0o777), (70, 80, 0o640));
    assert!(Pinned::open(&ground.directory, c"missing").unwrap_err().is(Errno::NOENT));
}
