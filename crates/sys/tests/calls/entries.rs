//! Opening, creating, linking, renaming and removing entries of an open directory.

use std::os::unix::fs::{MetadataExt, symlink};

use haul_sys::{
    Errno, FileType, Mode, Open, Special, link, link_at_path, make_directory, make_special, make_symlink,
    may_write, open, open_parent, open_path_without_links, read_link, remove, remove_directory, rename,
    rename_to_new, stat, stat_at, stat_path,
};

use super::{Ground, c_string};

#[test]
fn a_symbolic_link_is_followed_only_when_asked_to() {
    let ground = Ground::new();
    std::fs::write(ground.path("file"), "12345").unwrap();
    symlink("file", ground.path("link")).unwrap();
    symlink("nowhere", ground.path("dangling")).unwrap();
    let directory = &ground.directory;
    assert!(open(directory, c"link", Open::READ).unwrap_err().is(Errno::LOOP));
    assert!(open(directory, c"link", Open::WRITE).unwrap_err().is(Errno::LOOP));
    assert!(open(directory, c"dangling", Open::create(Mode::new(0o600))).unwrap_err().is(Errno::EXIST));
    let followed = open(directory, c"link", Open::READ.following()).unwrap();
    assert_eq!(stat(&followed).unwrap().size, 5);
    let itself = open(directory, c"link", Open::PATH).unwrap();
    assert_eq!(stat(&itself).unwrap().kind, FileType::Symlink);
    assert_eq!(stat_at(directory, c"link").unwrap().kind, FileType::Symlink);
    let path = c_string(&ground.path("link"));
    let none: Option<&haul_sys::Fd> = None;
    assert_eq!(stat_path(none, &path, true).unwrap().kind, FileType::Regular);
    assert_eq!(stat_path(none, &path, false).unwrap().kind, FileType::Symlink);
    assert_eq!(read_link(directory, c"link").unwrap().as_c_str(), c"file");
    assert!(read_link(directory, c"file").unwrap_err().is(Errno::INVAL));
    open(directory, c"dangling", Open::create_through(Mode::new(0o600))).unwrap().close().unwrap();
    assert!(ground.path("nowhere").is_file());
}

#[test]
fn a_fifo_without_a_peer_blocks_nobody() {
    let ground = Ground::new();
    let fifo = Special { kind: FileType::Fifo, mode: Mode::new(0o600), device_number: 0 };
    make_special(&ground.directory, c"fifo", fifo).unwrap();
    assert!(make_special(&ground.directory, c"fifo", fifo).unwrap_err().is(Errno::EXIST));
    let opened = open(&ground.directory, c"fifo", Open::READ).unwrap();
    assert_eq!(stat(&opened).unwrap().kind, FileType::Fifo);
    opened.close().unwrap();
    assert!(open(&ground.directory, c"fifo", Open::WRITE).unwrap_err().is(Errno::NXIO));
    let directory = Special { kind: FileType::Directory, ..fifo };
    assert!(make_special(&ground.directory, c"directory", directory).unwrap_err().is(Errno::INVAL));
}

#[test]
fn what_exists_is_never_taken_for_new() {
    let ground = Ground::new();
    let directory = &ground.directory;
    std::fs::write(ground.path("one"), "one").unwrap();
    std::fs::write(ground.path("other"), "other").unwrap();
    assert!(open(directory, c"one", Open::create(Mode::new(0o600))).unwrap_err().is(Errno::EXIST));
    assert!(make_directory(directory, c"one", Mode::new(0o700)).unwrap_err().is(Errno::EXIST));
    assert!(make_symlink(c"x", directory, c"one").unwrap_err().is(Errno::EXIST));
    assert!(link(directory, c"other", directory, c"one").unwrap_err().is(Errno::EXIST));
    assert!(rename_to_new(directory, c"other", c"one").unwrap_err().is(Errno::EXIST));
    assert_eq!(std::fs::read(ground.path("one")).unwrap(), b"one");
    rename_to_new(directory, c"other", c"new").unwrap();
    assert!(!ground.path("other").exists());
    rename(directory, c"new", c"one").unwrap();
    assert_eq!(std::fs::read(ground.path("one")).unwrap(), b"other");
}

#[test]
fn names_are_removed_as_what_they_are() {
    let ground = Ground::new();
    let directory = &ground.directory;
    make_directory(directory, c"directory", Mode::new(0o700)).unwrap();
    std::fs::write(ground.path("directory/file"), "").unwrap();
    assert!(remove(directory, c"directory").unwrap_err().is(Errno::ISDIR));
    assert!(remove_directory(directory, c"directory").unwrap_err().is(Errno::NOTEMPTY));
    let inner = open(directory, c"directory", Open::SEARCH).unwrap();
    assert!(remove_directory(&inner, c"file").unwrap_err().is(Errno::NOTDIR));
    remove(&inner, c"file").unwrap();
    assert!(remove(&inner, c"file").unwrap_err().is(Errno::NOENT));
    remove_directory(directory, c"directory").unwrap();
    assert!(stat_at(directory, c"directory").unwrap_err().is(Errno::NOENT));
}

#[test]
fn a_hard_link_is_to_the_link_or_to_its_end_as_asked() {
    let ground = Ground::new();
    let directory = &ground.directory;
    std::fs::write(ground.path("file"), "").unwrap();
    symlink("file", ground.path("link")).unwrap();
    link(directory, c"link", directory, c"to-link").unwrap();
    assert!(ground.path("to-link").symlink_metadata().unwrap().is_symlink());
    let path = c_string(&ground.path("link"));
    let none: Option<&haul_sys::Fd> = None;
    link_at_path(none, &path, true, directory, c"to-file").unwrap();
    link_at_path(Some(directory), c"link", false, directory, c"to-link-again").unwrap();
    let inode = |name: &str| ground.path(name).symlink_metadata().unwrap().ino();
    assert_eq!(inode("to-file"), inode("file"));
    assert_eq!([inode("to-link"), inode("to-link-again")], [inode("link"); 2]);
    assert_eq!(stat_at(directory, c"file").unwrap().links, 2);
}

#[test]
fn a_path_without_links_leads_through_none() {
    let ground = Ground::new();
    std::fs::create_dir_all(ground.path("a/b")).unwrap();
    symlink("a", ground.path("link")).unwrap();
    // The place itself may be behind a link.
    let place = std::fs::canonicalize(ground.place.path()).unwrap();
    let opened = open_path_without_links(&c_string(&place.join("a/b"))).unwrap();
    let parent = open_parent(&opened).unwrap();
    let ours = stat_at(&ground.directory, c"a").unwrap();
    assert_eq!(stat(&parent).unwrap().identity, ours.identity);
    assert!(open_path_without_links(&c_string(&place.join("link/b"))).is_err());
    assert!(open_path_without_links(&c_string(&place.join("link"))).is_err());
}

#[test]
fn an_error_names_the_call_and_its_arguments() {
    let ground = Ground::new();
    let error = open(&ground.directory, c"missing", Open::READ).unwrap_err();
    assert_eq!(error.to_string(), "No such file or directory");
    assert!(format!("{error:?}").starts_with("openat("), "{error:?}");
    assert!(error.arguments().contains("\"missing\""), "{error:?}");
    std::fs::write(ground.path("mine"), "").unwrap();
    assert!(may_write(&ground.directory, c"mine") && !may_write(&ground.directory, c"missing"));
}
