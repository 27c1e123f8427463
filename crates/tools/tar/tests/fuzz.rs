//! Fuzzes the tar reader with randomly corrupted archives.
//!
//! Mutations hit bits, bytes, whole blocks and lengths. Most headers get a fresh checksum
//! afterwards, because a reader that stops at bad checksums is barely exercised. The reader must
//! not panic, must not list more members than the archive has blocks, and must exit with one of
//! tar's statuses.
//!
//! Seeds are plain numbers: `HAUL_FUZZ_RUNS` sets how many to run, `HAUL_FUZZ_SEED` the first.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../../../cli/tests/tar_extract/archive.rs"]
#[allow(dead_code)]
mod archive;

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use archive::{Archive, BLOCK, Header, summed};
use haul_flow::{OutputLine, Problem, Reporter, Tally};
use haul_sys::Standard;
use haul_tar::Options;
use haul_testkit::random::{Random, Rng, seeded};

/// Number of runs when `HAUL_FUZZ_RUNS` is not set.
const RUNS: u64 = 20_000;

/// Counts problems and output lines.
#[derive(Default)]
struct Listener {
    lines: AtomicUsize,
    problems: AtomicUsize,
}

impl Reporter for Listener {
    fn count(&self, _: Tally) {}

    fn problem(&self, _: Problem) {
        self.problems.fetch_add(1, Ordering::Relaxed);
    }

    fn line(&self, _: OutputLine) {
        self.lines.fetch_add(1, Ordering::Relaxed);
    }

    fn output(&self, _: Standard, _: &[u8]) {}

    fn debug(&self, _: &str) {}
}

/// Returns valid archives that together cover every feature the reader supports.
fn seeds() -> Vec<Vec<u8>> {
    let sparse_map = {
        let mut map = b"2\n0\n5\n1000\n5\n".to_vec();
        map.resize(BLOCK, 0);
        [map, b"0123456789".to_vec()].concat()
    };
    let old_map = |block: &mut [u8; BLOCK]| {
        for (index, (offset, length)) in [(0, 512), (4096, 0)].into_iter().enumerate() {
            let at = 386 + index * 24;
            block[at..at + 11].copy_from_slice(format!("{offset:011o}").as_bytes());
            block[at + 12..at + 23].copy_from_slice(format!("{length:011o}").as_bytes());
        }
        block[483..494].copy_from_slice(b"00000010000");
    };
    let version_1: &[(&str, &[u8])] =
        &[("GNU.sparse.major", b"1"), ("GNU.sparse.minor", b"0"), ("GNU.sparse.realsize", b"1005")];
    let version_0: &[(&str, &[u8])] =
        &[("GNU.sparse.size", b"9"), ("GNU.sparse.offset", b"1"), ("GNU.sparse.numbytes", b"2")];
    let records: &[(&str, &[u8])] = &[
        ("path", b"p"),
        ("size", b"3"),
        ("mtime", b"-1.000000001"),
        ("SCHILY.xattr.user.a%3D", b"\0v"),
        ("SCHILY.acl.access", b"user::rwx,user:5:r--,group::r-x,mask::r-x,other::---"),
    ];
    vec![
        Archive::new()
            .directory("d/")
            .file("d/f", &[7; 1300])
            .symlink("l", "d/f")
            .hard_link("h", "d/f")
            .end(),
        Archive::new()
            .file([b"x/".repeat(100), b"f".to_vec()].concat(), b"long")
            .symlink("l", "y".repeat(300))
            .end(),
        Archive::new()
            .extended(b'g', &[("uname", b"somebody"), ("mtime", b"12.5")])
            .extended(b'x', records)
            .file("f", b"abc")
            .end(),
        Archive::new()
            .extended(b'x', version_1)
            .member(Header::new("s", b'0', sparse_map.len() as u64), &sparse_map)
            .extended(b'x', &[("GNU.sparse.size", b"100"), ("GNU.sparse.map", b"0,5,50,5")])
            .file("t", b"0123456789")
            .extended(b'x', version_0)
            .file("u", b"01")
            .end(),
        Archive::new().raw(&Header::new("s", b'S', 512).magic(b"ustar  \0"), &[1; 512], old_map).end(),
    ]
}

/// Applies one random mutation.
fn change(random: &mut Random, archive: &mut Vec<u8>) {
    let at = random.random_range(0..archive.len());
    let block = at / BLOCK * BLOCK;
    let end = (block + BLOCK).min(archive.len());
    let is_whole = end - block == BLOCK;
    match random.random_range(0..9) {
        0 => archive[at] ^= 1 << random.random_range(0..8),
        1 => archive[at] = random.random(),
        2 => archive[at] = b"\0\n=/.97\x80\xff "[random.random_range(0..10)],
        3 => {
            let copy = archive[block..end].to_vec();
            let to = random.random_range(0..=archive.len() / BLOCK) * BLOCK;
            archive.splice(to..to, copy);
        }
        4 => drop(archive.drain(block..end)),
        5 => archive.truncate(at),
        6 if is_whole => archive[block + 156] = b"0123456SLKxgDMVN7\0"[random.random_range(0..18)],
        7 if is_whole => {
            let size = format!("{:011o}", random.random_range(0..5000));
            archive[block + 124..block + 135].copy_from_slice(size.as_bytes());
        }
        _ if is_whole => random.fill(&mut archive[block + 124..block + 136]),
        _ => {}
    }
}

/// Fixes the checksum of every block that looks like a header.
fn sum_again(archive: &mut [u8]) {
    for block in archive.chunks_exact_mut(BLOCK).filter(|block| block[257..262] == *b"ustar") {
        let sum = summed(<[u8; BLOCK]>::try_from(&*block).unwrap());
        block.copy_from_slice(&sum);
    }
}

#[test]
fn archives_changed_at_random_are_read_or_refused() {
    let number =
        |name: &str, default| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (runs, first) = (number("HAUL_FUZZ_RUNS", RUNS), number("HAUL_FUZZ_SEED", 1));
    let folder = if std::path::Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" };
    let file = tempfile::NamedTempFile::new_in(folder).unwrap();
    let path = CString::new(file.path().as_os_str().as_bytes()).unwrap();
    let seeds = seeds();
    let (mut fine, mut refused) = (0_u64, 0_u64);
    for seed in first..first + runs {
        let mut random = seeded(seed);
        let mut archive = seeds[random.random_range(0..seeds.len())].clone();
        for _ in 0..random.random_range(1..6) {
            if !archive.is_empty() {
                change(&mut random, &mut archive);
            }
        }
        if random.random_range(0..10) > 0 {
            sum_again(&mut archive);
        }
        std::fs::write(file.path(), &archive).unwrap();
        let listener = Listener::default();
        let options = Options {
            archive: haul_tar::ArchivePath::File(path.clone()),
            verbose: 1,
            ignore_zeros: random.random_range(0..4) == 0,
            ..Options::default()
        };
        let outcome =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| haul_tar::list(&options, &listener)));
        let status = outcome.unwrap_or_else(|_| panic!("seed {seed} panics"));
        let lines = listener.lines.into_inner();
        assert!(lines <= archive.len() / BLOCK, "seed {seed}: {lines} members in {} bytes", archive.len());
        match status {
            0 => fine += 1,
            2 => {
                refused += 1;
                assert!(listener.problems.into_inner() > 0, "seed {seed}: nothing is told");
            }
            other => panic!("seed {seed}: exit status {other}"),
        }
    }
    // Harmless and harmful mutations must both have occurred, or the test proved nothing.
    assert!(fine > runs / 20 && refused > runs / 20, "{fine} fine, {refused} refused");
}
