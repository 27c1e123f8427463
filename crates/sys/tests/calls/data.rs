//! Bytes: reading, writing, copying in the kernel, holes and positions.

use haul_sys::{
    Advice, CacheMode, Errno, Fd, Open, Pipe, Seek, advise, advise_range, allocate, copy_range, is_direct,
    open, open_path, position, punch_hole, read, read_all, read_cached, read_path, read_stream, reflink,
    seek, seek_to, seek_to_end, stat, synchronize, truncate, try_read, write, write_all, write_all_stream,
    write_stream,
};
use haul_testkit::random;

use super::{Ground, c_string};

#[test]
fn bytes_are_read_and_written_at_their_offsets() {
    let ground = Ground::new();
    let target = ground.target("file");
    assert_eq!(write(&target, 10, b"world", CacheMode::Keep).unwrap(), 5);
    write_all(&target, 0, b"hello").unwrap();
    synchronize(&target).unwrap();
    target.close().unwrap();
    let source = open(&ground.directory, c"file", Open::READ).unwrap();
    let mut bytes = [b'?'; 20];
    assert_eq!(read(&source, 0, &mut bytes, CacheMode::Keep).unwrap(), 15);
    assert_eq!(&bytes[..15], b"hello\0\0\0\0\0world");
    // Only 0 is the end.
    assert_eq!(read(&source, 15, &mut bytes, CacheMode::Keep).unwrap(), 0);
    assert_eq!(read_all(&source, 3, &mut bytes).unwrap(), 12);
    assert_eq!(read_path(&c_string(&ground.path("file")), 1 << 20).unwrap().len(), 15);
    assert!(write(&source, 0, b"x", CacheMode::Keep).unwrap_err().is(Errno::BADF));
    advise(&source, Advice::Sequential, 0).unwrap();
    assert!(!is_direct(&source).unwrap());
}

#[test]
fn what_has_no_room_is_not_written() {
    let full = open_path(c"/dev/full", Open::WRITE).unwrap();
    assert!(write_all(&full, 0, b"x").unwrap_err().is(Errno::NOSPC));
    assert!(write_all_stream(&full, b"x").unwrap_err().is(Errno::NOSPC));
}

#[test]
fn what_was_just_written_is_read_without_waiting() {
    let ground = Ground::new();
    let content = random::bytes(1, 100_000);
    let file = ground.source("file", &content);
    let mut bytes = vec![0; content.len()];
    match try_read(&file, 0, &mut bytes, CacheMode::Keep) {
        // tmpfs can't.
        Err(error) => assert!(error.is(Errno::OPNOTSUPP), "{error:?}"),
        Ok(None) => panic!("nothing is cached of what was just written"),
        Ok(Some(length)) => assert_eq!(bytes[..length], content[..length]),
    }
}

#[test]
fn the_kernel_copies_a_range_to_the_same_offset() {
    let ground = Ground::new();
    let content = random::bytes(2, 50_000);
    let (source, target) = (ground.source("source", &content), ground.target("target"));
    let mut offset = 0;
    loop {
        match copy_range(&source, &target, offset, 1 << 20) {
            Ok(0) => break,
            Ok(copied) => offset += copied as u64,
            Err(error) if error.is(Errno::OPNOTSUPP) || error.is(Errno::XDEV) => return,
            Err(error) => panic!("{error:?}"),
        }
    }
    assert!(std::fs::read(ground.path("target")).unwrap() == content);
}

#[test]
fn what_goes_through_a_pipe_arrives_at_the_same_offset() {
    let ground = Ground::new();
    let content = random::bytes(3, 3_000_001);
    let (source, target) = (ground.source("source", &content), ground.target("target"));
    // Begins and ends within a page.
    let (mut offset, mut pipe) = (1001, Pipe::new(1 << 16).unwrap());
    while offset < 2_900_000 {
        let (empty, copied) = pipe.copy(&source, &target, offset, 2_900_000 - offset as usize);
        offset += copied.unwrap() as u64;
        pipe = empty.unwrap();
    }
    assert_eq!(offset, 2_900_000);
    let found = std::fs::read(ground.path("target")).unwrap();
    assert!(found[..1001].iter().all(|byte| *byte == 0));
    assert!(found[1001..] == content[1001..2_900_000]);
    // At EOF, and for what can't be read this way, nothing is copied.
    let (pipe, copied) = pipe.copy(&source, &target, 3_000_001, 1000);
    assert_eq!(copied, Ok(0));
    let folder = open_path(c"/", Open::DIRECTORY).unwrap();
    let (pipe, copied) = pipe.unwrap().copy(&folder, &target, 0, 1000);
    assert_eq!(copied, Ok(0));
    // A failed write reports the target's error and leaves the bytes in the pipe.
    let (pipe, copied) = pipe.unwrap().copy(&source, &source, 0, 1000);
    assert!(copied.unwrap_err().is(Errno::BADF));
    assert!(pipe.is_none());
}

#[test]
fn what_is_not_cached_is_fetched_without_waiting() {
    let ground = Ground::new();
    let content = random::bytes(4, 100_000);
    let file = ground.source("file", &content);
    // A hint, which the kernel may not follow.
    advise_range(&file, Advice::DontNeed, 0, 0).unwrap();
    let mut bytes = vec![0; content.len()];
    if let Some(length) = read_cached(&file, 0, &mut bytes, CacheMode::Keep).unwrap() {
        assert_eq!(bytes[..length], content[..length]);
    }
}

#[test]
fn a_reflink_is_whole_or_refused() {
    let ground = Ground::new();
    let content = random::bytes(5, 40_000);
    let (source, target) = (ground.source("source", &content), ground.target("target"));
    match reflink(&source, &target) {
        Ok(()) => assert!(std::fs::read(ground.path("target")).unwrap() == content),
        Err(error) => {
            let refusals = [Errno::OPNOTSUPP, Errno::XDEV, Errno::INVAL, Errno::NOTTY];
            assert!(refusals.contains(&error.errno()), "{error:?}");
        }
    }
}

#[test]
fn holes_are_found_and_made() {
    let ground = Ground::new();
    let target = ground.target("file");
    write(&target, 1 << 20, &[1; 1 << 16], CacheMode::Keep).unwrap();
    truncate(&target, 3 << 20).unwrap();
    let source = open(&ground.directory, c"file", Open::READ).unwrap();
    assert_eq!(stat(&source).unwrap().size, 3 << 20);
    let data = seek(&source, Seek::Data, 0).unwrap().unwrap();
    assert!(data <= 1 << 20);
    let hole = seek(&source, Seek::Hole, 1 << 20).unwrap().unwrap();
    assert!(hole >= (1 << 20) + (1 << 16));
    assert_eq!(seek(&source, Seek::Data, 3 << 20).unwrap(), None);
    match punch_hole(&target, 1 << 20, 1 << 16) {
        Err(error) => assert!(error.is(Errno::OPNOTSUPP), "{error:?}"),
        Ok(()) => {
            let mut bytes = [9; 10];
            assert_eq!(read_all(&source, 1 << 20, &mut bytes).unwrap(), 10);
            assert_eq!(bytes, [0; 10]);
        }
    }
    match allocate(&target, 5 << 20) {
        Err(error) => assert!(error.is(Errno::OPNOTSUPP), "{error:?}"),
        Ok(()) => assert!(stat(&target).unwrap().blocks * 512 >= 5 << 20),
    }
}

#[test]
fn a_descriptor_keeps_its_own_position() {
    let ground = Ground::new();
    let target = ground.target("file");
    assert_eq!(write_stream(&target, b"abc").unwrap(), 3);
    assert_eq!(position(&target).unwrap(), 3);
    // Writing at an offset leaves it where it is.
    write(&target, 10, b"x", CacheMode::Keep).unwrap();
    assert_eq!(position(&target).unwrap(), 3);
    seek_to_end(&target).unwrap();
    assert_eq!(position(&target).unwrap(), 11);
    seek_to(&target, 1).unwrap();
    write_stream(&target, b"B").unwrap();
    let source = open(&ground.directory, c"file", Open::READ).unwrap();
    let mut bytes = [0; 2];
    assert_eq!(read_stream(&source, &mut bytes).unwrap(), 2);
    assert_eq!(&bytes, b"aB");
    let (reader, _writer) = std::io::pipe().unwrap();
    assert!(position(&reader).unwrap_err().is(Errno::SPIPE));
    // The current directory is no file, and to close it is nothing.
    Fd::current_directory().close().unwrap();
}
