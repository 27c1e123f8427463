//! Extended headers (pax): empty values, global headers and malformed records; targets of links.
//! Compared with GNU tar.

use std::fs;
use std::process::Output;

use haul_testkit::{Sandbox, needs, require};

use crate::archive::{Archive, Header, pax};
use crate::compressed::{run, tar};

/// Runs GNU tar and haul on an archive.
fn both(archive: Archive, words: &[&str]) -> [Output; 2] {
    let archive = archive.end();
    [false, true].map(|is_ours| {
        let sandbox = Sandbox::in_memory().unwrap();
        fs::write(sandbox.join("archive"), &archive).unwrap();
        run(tar(is_ours, &[words, &["-f", "archive"]].concat()), sandbox.path(), b"")
    })
}

fn listed(archive: Archive) -> [Output; 2] {
    both(archive, &["-tv"])
}

fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes).lines().map(|line| line.replace("haul tar: ", "tar: ")).collect()
}

/// Returns what a program says about malformed headers, without its name.
fn malformed(output: &Output) -> Vec<String> {
    let parts = lines(&output.stderr);
    let found = parts.iter().filter_map(|line| Some(line.split_once("Malformed extended header")?.1));
    found.map(str::to_owned).collect()
}

/// A file or link whose header names its owners.
fn owned(archive: Archive, name: &str) -> Archive {
    let header = Header::new(name, b'2', 0).link("target");
    archive.raw(&header, b"", |block| {
        block[265..270].copy_from_slice(b"owner");
        block[297..302].copy_from_slice(b"group");
    })
}

#[test]
fn a_global_header_takes_the_place_of_the_last_one_and_empty_values_delete() {
    require!(needs::tool("tar"));
    for (key, value) in
        [("uname", "all"), ("gname", "all"), ("linkpath", "all"), ("mtime", "5"), ("path", "all")]
    {
        let all = |kind: u8, value: &str| Archive::new().extended(kind, &[(key, value.as_bytes())]).0;
        let mut tries = vec![
            vec![all(b'g', value)],
            vec![all(b'g', value), all(b'x', value)],
            vec![all(b'g', value), all(b'g', value)],
            vec![all(b'g', value), Archive::new().extended(b'g', &[("comment", b"none")]).0],
        ];
        // GNU tar takes an empty number or path for a defect.
        if !["mtime", "path"].contains(&key) {
            tries.push(vec![all(b'g', value), all(b'g', "")]);
            tries.push(vec![all(b'g', value), all(b'x', "")]);
            tries.push(vec![all(b'x', "")]);
        }
        for headers in tries {
            let archive = headers.iter().fold(Archive::new(), |archive, header| {
                owned(Archive([archive.0, header.clone()].concat()), "member")
            });
            let [theirs, ours] = listed(owned(archive, "last"));
            assert_eq!(lines(&ours.stdout), lines(&theirs.stdout), "{key} {headers:?}");
        }
    }
    for key in ["mtime", "path", "size", "uid"] {
        let archive = Archive::new().extended(b'g', &[(key, b"5")]).extended(b'g', &[(key, b"")]);
        let [_, deleted] = listed(owned(archive, "member"));
        let [_, plain] = listed(owned(Archive::new(), "member"));
        assert_eq!((deleted.status.code(), deleted.stdout), (Some(0), plain.stdout), "{key}");
    }
}

#[test]
fn malformed_records_are_reported_as_by_gnu_tar() {
    require!(needs::tool("tar"));
    let values = [
        ("size", &b"x"[..]),
        ("size", b"5x"),
        ("uid", b"x"),
        ("mtime", b"x"),
        ("SCHILY.xattr.", b"v"),
        ("GNU.sparse.size", b"x"),
    ];
    let values = values.map(|(key, value)| pax(&[(key, value)]));
    let raw: [&[u8]; 12] = [
        b"junk",
        b"-6 a=b\n",
        b"6 a=b\n\n",
        b"6 a=b\n\0\0",
        b"  8 a=b\n",
        b"6\ta=b\n",
        b"0 a=b\n",
        b"3 \n",
        b"2\n",
        b"6  a=b",
        b"06 a=b\n",
        b"5 =b\n",
    ];
    for records in raw.into_iter().chain(values.iter().map(Vec::as_slice)) {
        let archive = Archive::new().extended_raw(b'x', records).file("file", b"content").file("next", b"");
        let [theirs, ours] = listed(archive);
        let facts = |output: &Output| (output.status.code(), malformed(output));
        assert_eq!(facts(&ours), facts(&theirs), "{}", records.escape_ascii());
        assert_eq!(lines(&ours.stdout).len(), 2);
    }
    // Too large for a file: the header's own size counts, and the next member is found.
    for size in ["9223372036854775808", "18446744073709551615", "99999999999999999999"] {
        let archive = Archive::new().extended(b'x', &[("size", size.as_bytes())]);
        let [theirs, ours] = listed(archive.file("file", b"content").file("next", b""));
        let facts = |output: &Output| (output.status.code(), lines(&output.stdout).len());
        assert_eq!(facts(&ours), facts(&theirs), "{size}");
    }
}

#[test]
fn targets_of_hard_links_are_shown_without_what_is_stripped() {
    require!(needs::tool("tar"));
    for words in [
        "-t",
        "-tv",
        "-tvP",
        "-tv --strip-components=1",
        "-tv --strip-components=9",
        "-xv",
        "-xvv",
        "-xvv --strip-components=1",
        "-xOvv",
        "-xOvv --strip-components=2",
    ] {
        let words: Vec<_> = words.split(' ').collect();
        let archive = Archive::new().directory("/a").directory("/a/b").file("/a/b/file", b"content");
        let archive = archive.hard_link("/a/b/link", "/a/b/file").hard_link("a/b/up", "../../a/b/file");
        let archive = archive.symlink("a/b/symlink", "/a/b/file").hard_link("a/b/other", "a/b/file");
        let [theirs, ours] = both(archive, &words).map(|output| {
            let mut errors = lines(&output.stderr);
            errors.sort();
            // GNU tar also tells of directories that it makes without being asked.
            let made = lines(&output.stdout).into_iter().filter(|line| !line.contains("Creating directory"));
            (output.status.code(), made.collect::<Vec<_>>(), errors)
        });
        assert_eq!(ours, theirs, "{words:?}");
    }
}
