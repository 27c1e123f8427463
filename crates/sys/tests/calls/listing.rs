//! Listing directories, and the names that a listing yields.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::sync::Arc;

use haul_sys::{
    DirectoryReader, EntryType, Errno, FileType, Mode, Name, NameArena, Open, Special, make_special, open,
    remove_directory,
};

use super::Ground;

fn read_whole(ground: &Ground, reader: &mut DirectoryReader, limit: usize) -> Vec<NameArena> {
    let mut parts = Vec::new();
    loop {
        let mut names = NameArena::new();
        let more = reader.read(&ground.directory, &mut names, limit).unwrap();
        parts.push(names);
        if !more {
            return parts;
        }
    }
}

#[test]
fn a_listing_in_parts_yields_every_entry_once_with_its_type_and_inode() {
    let ground = Ground::new();
    // More than one call's worth, with names of every length and of any bytes.
    let long = "x".repeat(255);
    let names: Vec<Vec<u8>> = (0..600)
        .map(|number| [format!("{number}-").as_bytes(), &long.as_bytes()[..number % 240]].concat())
        .chain([b"\xff\n\x01".to_vec(), b" ".to_vec(), long.clone().into_bytes(), b"...".to_vec()])
        .collect();
    let path = |name: &[u8]| ground.place.path().join(OsStr::from_bytes(name));
    for (number, name) in names.iter().enumerate() {
        match number % 4 {
            0 => std::fs::write(path(name), "").unwrap(),
            1 => std::fs::create_dir(path(name)).unwrap(),
            2 => symlink("nowhere", path(name)).unwrap(),
            _ => {
                let fifo = Special { kind: FileType::Fifo, mode: Mode::new(0o600), device_number: 0 };
                make_special(&ground.directory, &CString::new(name.clone()).unwrap(), fifo).unwrap();
            }
        }
    }
    let kinds = [EntryType::Regular, EntryType::Directory, EntryType::Symlink, EntryType::Special];
    let expected: BTreeMap<Vec<u8>, (EntryType, u64)> = names
        .iter()
        .zip(kinds.into_iter().cycle())
        .map(|(name, kind)| (name.clone(), (kind, path(name).symlink_metadata().unwrap().ino())))
        .collect();
    let parts = read_whole(&ground, &mut DirectoryReader::new(), 1);
    assert!(parts.len() > 2, "read in {} parts", parts.len());
    let mut found = BTreeMap::new();
    for part in &parts {
        for index in 0..part.len() {
            let entry = part.entry(index);
            // Some file systems report no types.
            let kind = if entry.kind == EntryType::Unknown {
                expected[part.name(index).to_bytes()].0
            } else {
                entry.kind
            };
            let earlier = found.insert(part.name(index).to_bytes().to_vec(), (kind, entry.inode));
            assert!(earlier.is_none(), "{:?} twice", part.name(index));
        }
    }
    assert!(found == expected);
}

#[test]
fn one_reader_serves_several_directories_at_once() {
    let [one, other] = [Ground::new(), Ground::new()];
    for number in 0..3000 {
        std::fs::write(one.path(&format!("one{number}")), "").unwrap();
        std::fs::write(other.path(&format!("other{number}")), "").unwrap();
    }
    let mut reader = DirectoryReader::new();
    let mut counts = [0, 0];
    let mut more = [true, true];
    while more != [false, false] {
        for (index, (ground, start)) in [(&one, "one"), (&other, "other")].into_iter().enumerate() {
            let mut names = NameArena::new();
            more[index] = reader.read(&ground.directory, &mut names, 500).unwrap();
            counts[index] += names.len();
            assert!((0..names.len()).all(|at| names.name(at).to_str().unwrap().starts_with(start)));
        }
    }
    assert_eq!(counts, [3000, 3000]);
}

#[test]
fn a_removed_directory_is_empty_and_a_file_is_no_directory() {
    let ground = Ground::new();
    std::fs::create_dir(ground.path("gone")).unwrap();
    let gone = open(&ground.directory, c"gone", Open::DIRECTORY).unwrap();
    remove_directory(&ground.directory, c"gone").unwrap();
    let mut names = NameArena::new();
    assert!(!DirectoryReader::new().read(&gone, &mut names, 10).unwrap());
    assert!(names.is_empty());
    let file = ground.source("file", b"");
    assert!(DirectoryReader::new().read(&file, &mut names, 10).unwrap_err().is(Errno::NOTDIR));
    assert!(open(&ground.directory, c"file", Open::DIRECTORY).unwrap_err().is(Errno::NOTDIR));
}

#[test]
fn a_name_stays_at_its_address_as_long_as_a_clone_lives() {
    let mut names = NameArena::new();
    for number in 0..1000 {
        names.push(&CString::new(format!("name-{number}")).unwrap(), number, EntryType::Regular);
    }
    let names = Arc::new(names);
    let first = Name::new(&names, 7);
    let address = first.as_c_str().as_ptr();
    drop(names);
    let clone = first.clone();
    drop(first);
    assert_eq!(clone.as_c_str().as_ptr(), address);
    assert_eq!(clone.as_c_str(), c"name-7");
    // In another thread, as an engine that is dropped there would have it.
    let held = std::thread::spawn(move || clone.as_c_str().to_owned()).join().unwrap();
    assert_eq!(held.as_c_str(), c"name-7");
    assert_eq!(Name::from(c"alone").as_c_str(), c"alone");
}
