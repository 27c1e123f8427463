//! Damaged files: bzip2's exit status, and exactly the content that is intact before the damage.

use std::fs;
use std::process::{Command, Stdio};

use haul_testkit::{Sandbox, needs, require};

use crate::scene::{haul, noise};

/// Size of a level 1 block. bzip2 writes the start of a damaged block, so outputs may differ by up
/// to this much.
const BLOCK_BYTES: usize = 100_000;

/// Decompresses a file with a program; returns the exit status and the output.
fn decompress(program: &mut Command, file: &std::path::Path) -> (Option<i32>, Vec<u8>) {
    let input = fs::File::open(file).unwrap();
    let done = program.stdin(input).stderr(Stdio::null()).output().unwrap();
    (done.status.code(), done.stdout)
}

#[test]
fn damaged_files_end_as_they_end_with_bzip2() {
    require!(needs::tool("bzip2"));
    let sandbox = Sandbox::in_memory().unwrap();
    let plain = noise(1, 450_000);
    fs::write(sandbox.join("plain"), &plain).unwrap();
    let packed = Command::new("bzip2").arg("-1c").arg(sandbox.join("plain")).output().unwrap().stdout;
    let file = sandbox.join("damaged");
    let mut failed = 0;
    for number in 0..60 {
        let place = (number * 7919 + 13) % packed.len();
        let mut damaged = packed.clone();
        match number % 6 {
            0 => damaged.truncate(place),
            1 => drop(damaged.drain(place..place + 3)),
            2 => damaged.extend_from_slice(&packed[..place]),
            3 => damaged[number / 6] ^= 1,
            4 => drop(damaged.splice(place..place, *b"\x31\x41\x59\x26\x53\x59")),
            _ => damaged[place] ^= 1 << (number % 8),
        }
        fs::write(&file, &damaged).unwrap();
        let (status, theirs) = decompress(Command::new("bzip2").arg("-dc"), &file);
        let (our_status, ours) = decompress(Command::new(haul()).args(["bzip2", "-dc"]), &file);
        assert_eq!(our_status, status, "number {number}");
        if status == Some(0) {
            assert!(ours == theirs, "number {number}: other output");
            continue;
        }
        failed += 1;
        let doubled = [&plain[..], &plain].concat();
        assert!(doubled.starts_with(&ours), "number {number}: output that is damaged");
        // bzip2 writes what it decodes of the damaged block before it detects the damage.
        let intact = theirs.iter().zip(&doubled).take_while(|(one, other)| one == other).count();
        assert!(ours.len() + BLOCK_BYTES > intact, "number {number}: {} of {intact}", ours.len());
    }
    assert!(failed > 30, "only {failed} were damaged");
}

#[test]
fn nothing_is_left_of_an_output_that_is_not_whole_and_the_input_stays() {
    let sandbox = Sandbox::in_memory().unwrap();
    let bad = sandbox.join("bad.bz2");
    fs::write(&bad, b"BZh9\x31\x41\x59\x26\x53\x59 and nothing more that makes sense").unwrap();
    let good = sandbox.join("good");
    fs::write(&good, b"text").unwrap();
    let run = |words: &[&str]| {
        Command::new(haul())
            .arg("bzip2")
            .args(words)
            .current_dir(sandbox.path())
            .stderr(Stdio::null())
            .status()
            .unwrap()
            .code()
    };
    assert_eq!(run(&["good"]), Some(0));
    assert_eq!(run(&["-d", "bad.bz2", "good.bz2"]), Some(2));
    let mut names: Vec<_> =
        fs::read_dir(sandbox.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["bad.bz2", "good"]);
}

#[test]
fn a_bomb_takes_little_memory() {
    require!(needs::tool("bzip2"));
    let sandbox = Sandbox::in_memory().unwrap();
    // A level 9 block holds up to 45 MB of zeros, in 45 bytes.
    let one =
        Command::new("sh").args(["-c", "head -c 45000000 /dev/zero | bzip2 -9"]).output().unwrap().stdout;
    let bomb = sandbox.join("bomb.bz2");
    fs::write(&bomb, one.repeat(8)).unwrap();
    let line = format!("ulimit -v 400000; exec '{}' bzip2 -j2 -tv '{}'", haul().display(), bomb.display());
    let done = Command::new("sh").args(["-c", &line]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
