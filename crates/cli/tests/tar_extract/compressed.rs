//! Compressed archives, read and written; attributes and times in archives. Compared with GNU tar.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use haul_testkit::random::{Rng, seeded};
use haul_testkit::{Sandbox, needs, require};

use crate::archive::Archive;
use crate::built;

/// Runs a program in a directory with `input` as standard input.
pub(crate) fn run(mut command: Command, folder: &Path, input: &[u8]) -> Output {
    command.current_dir(folder).env("LC_ALL", "C").env("TZ", "UTC");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // Ignore EPIPE: the program may not read everything.
        scope.spawn(move || stdin.write_all(input).unwrap_or_default());
        child.wait_with_output().unwrap()
    })
}

pub(crate) fn tar(is_ours: bool, words: &[&str]) -> Command {
    let mut command = if is_ours { Command::new(built()) } else { Command::new("tar") };
    command.args(is_ours.then_some("tar")).args(words);
    command
}

/// Runs both programs, each in a new directory; returns exit statuses, directories and messages.
fn both(folder: &Path, words: &[&str]) -> [(Option<i32>, std::path::PathBuf, String); 2] {
    [(false, "theirs"), (true, "ours")].map(|(is_ours, name)| {
        let place = folder.join(name);
        fs::remove_dir_all(&place).unwrap_or_default();
        fs::create_dir(&place).unwrap();
        let output = run(tar(is_ours, words), &place, b"");
        (output.status.code(), place, String::from_utf8_lossy(&output.stderr).into_owned())
    })
}

fn compressed(program: &str, bytes: &[u8]) -> Vec<u8> {
    let mut command = Command::new(program);
    command.arg("-c");
    let output = run(command, Path::new("/"), bytes);
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Content that compresses well and needs codes of every length.
fn content() -> Vec<u8> {
    let mut random = seeded(1);
    let mut words = Vec::new();
    while words.len() < 2 << 20 {
        words.extend_from_slice(format!("{} ", random.random_range(0..1 << 14)).as_bytes());
    }
    words
}

fn archive(content: &[u8]) -> Vec<u8> {
    Archive::new().file("file", content).end()
}

const PROGRAMS: [&str; 7] = ["gzip", "bzip2", "zstd", "xz", "lzip", "lzma", "compress"];

#[test]
fn what_any_compressor_has_made_is_read_from_files_and_pipes() {
    let content = content();
    for program in PROGRAMS {
        require!(needs::tool(program));
        let sandbox = Sandbox::in_memory().unwrap();
        let packed = compressed(program, &archive(&content));
        fs::write(sandbox.join("archive"), &packed).unwrap();
        for (words, input) in [(&["-xf", "archive"][..], &b""[..]), (&["-x"], &packed)] {
            let output = run(tar(true, words), sandbox.path(), input);
            assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
            assert!(fs::read(sandbox.join("file")).unwrap() == content, "{program}");
            fs::remove_file(sandbox.join("file")).unwrap();
        }
        // A truncated archive must not pass for a whole one.
        let output = run(tar(true, &["-t"]), sandbox.path(), &packed[..packed.len() / 2]);
        assert_eq!(output.status.code(), Some(2), "{program}");
    }
}

#[test]
fn what_precedes_the_end_of_a_truncated_archive_is_extracted() {
    let mut random = seeded(2);
    let contents: Vec<Vec<u8>> =
        (0..40).map(|_| (0..3000).map(|_| random.random_range(b' '..=b'~')).collect()).collect();
    let members = contents.iter().enumerate();
    let archive =
        members.fold(Archive::new(), |all, (number, content)| all.file(number.to_string(), content));
    let archive = archive.end();
    for program in PROGRAMS {
        require!(needs::tool(program));
        let sandbox = Sandbox::in_memory().unwrap();
        let packed = compressed(program, &archive);
        for part in [packed.len() / 2, packed.len() - 100] {
            fs::write(sandbox.join("archive"), &packed[..part]).unwrap();
            let [theirs, ours] = both(sandbox.path(), &["-xf", "../archive"]);
            let bytes = |place: &Path| {
                let read = |number: usize| fs::read(place.join(number.to_string())).unwrap_or_default();
                let made: Vec<_> = (0..contents.len()).map(read).collect();
                let made = made.iter().zip(&contents).filter(|(made, content)| content.starts_with(made));
                made.map(|(made, _)| made.len()).sum::<usize>()
            };
            let [their_bytes, our_bytes] = [bytes(&theirs.1), bytes(&ours.1)];
            let what = format!("{program}: {our_bytes} of {their_bytes} bytes: {}", ours.2);
            assert_eq!((ours.0, theirs.0), (Some(2), Some(2)), "{what}");
            // A decoder buffers less than a block of the archive.
            assert!(our_bytes + 512 > their_bytes, "{what}");
        }
    }
}

#[test]
fn garbage_behind_a_compressed_stream_counts_as_for_the_formats_own_program() {
    let ends: [&[u8]; 9] = [
        b"garbage at the end",
        &[0; 1000],
        b"\0\0\0\0garbage",
        b"x",
        b"\0",
        b"L",
        b"LZIPgarbage",
        b"\x1f",
        b"\x1f\x8bgarbage",
    ];
    for program in PROGRAMS {
        require!(needs::tool(program));
        for garbage in ends {
            let sandbox = Sandbox::in_memory().unwrap();
            let mut packed = compressed(program, &archive(b"content"));
            packed.extend_from_slice(garbage);
            fs::write(sandbox.join("archive"), &packed).unwrap();
            let [theirs, ours] = both(sandbox.path(), &["-xf", "../archive"]);
            let what = format!("{program} {}: {} {}", garbage.escape_ascii(), theirs.2, ours.2);
            assert_eq!(ours.0, theirs.0, "{what}");
            assert_eq!(fs::read(ours.1.join("file")).unwrap(), b"content", "{what}");
            if program == "bzip2" && garbage[0] != 0 {
                assert!(ours.2.contains("trailing garbage after EOF ignored"), "{what}");
            }
            if program == "gzip" && ours.0 == Some(2) && garbage[0] != 0x1f {
                assert!(ours.2.contains("decompression OK, trailing garbage ignored"), "{what}");
            }
        }
    }
}

#[test]
fn what_is_no_archive_is_named_with_its_compression() {
    let sandbox = Sandbox::in_memory().unwrap();
    let lzop = b"\x89LZO\0\r\n\x1a\n and more";
    for (name, bytes) in [("gzip", compressed("gzip", b"text")), ("lzop", lzop.to_vec())] {
        let output = run(tar(true, &["-t"]), sandbox.path(), &bytes);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains("does not look like a tar archive") && errors.contains(name), "{errors}");
    }
    // A member's name may start like compressed data.
    let plain = Archive::new().file("BZh9 file", b"content").end();
    let output = run(tar(true, &["-t"]), sandbox.path(), &plain);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "BZh9 file\n");
}

#[test]
fn archives_pass_through_xz_and_through_any_program_both_ways() {
    require!(needs::tool("xz"));
    let sandbox = Sandbox::in_memory().unwrap();
    let content = content();
    fs::write(sandbox.join("file"), &content).unwrap();
    fs::create_dir(sandbox.join("out")).unwrap();
    for (made, read_by, read) in [
        (&["-cJf", "archive", "file"][..], false, &["-xJf", "archive", "-C", "out"][..]),
        (&["-caf", "archive.txz", "file"], true, &["-xf", "archive.txz", "-C", "out"]),
        (&["-cf", "archive", "-I", "gzip -9", "file"], false, &["-xzf", "archive", "-C", "out"]),
        (&["-cf", "archive", "-I", "xz -0", "file"], true, &["xfI", "archive", "xz", "-C", "out"]),
    ] {
        for (is_ours, words) in [(true, made), (read_by, read)] {
            let output = run(tar(is_ours, words), sandbox.path(), b"");
            assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        assert!(fs::read(sandbox.join("out/file")).unwrap() == content, "{made:?}");
        fs::remove_file(sandbox.join("out/file")).unwrap();
    }
}

#[test]
fn a_program_that_fails_fails_the_archive() {
    let sandbox = Sandbox::in_memory().unwrap();
    fs::write(sandbox.join("file"), "content").unwrap();
    for words in [
        &["-cf", "archive", "-I", "false", "file"][..],
        &["-cf", "archive", "-I", "/no/such/program", "file"],
        &["-tf", "file", "-I", "false"],
        &["-tf", "file", "-I", "/no/such/program"],
        &["-cf", "archive", "--lzip", "file"],
        &["-caf", "archive.tar.Z", "file"],
    ] {
        let output = run(tar(true, words), sandbox.path(), b"");
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(!output.stderr.is_empty(), "{words:?}");
    }
}

#[test]
fn times_of_extended_headers_are_read_as_gnu_tar_reads_them() {
    require!(needs::tool("tar"));
    let sandbox = Sandbox::in_memory().unwrap();
    let least = i64::MIN.to_string();
    let forms = [
        "0",
        "-0",
        "-0.0",
        "-1",
        "-1.5",
        ".5",
        "-.5",
        "1.",
        "+1",
        " 1",
        "1 ",
        "1.5x",
        "1,5",
        "x",
        "-",
        ".",
        "1e3",
        "1.-5",
        "--1",
        "1.5.5",
        "0.0000000001",
        "-0.0000000001",
        "00000000000000000012",
        "1.9999999999",
        "9223372036854775807",
        "9223372036854775808",
        "99999999999999999999999",
        least.as_str(),
        "-9223372036854775808.5",
        "-9223372036854775809",
    ];
    for form in forms {
        let archive =
            Archive::new().extended(b'x', &[("mtime", form.as_bytes())]).file("file", b"content").end();
        fs::write(sandbox.join("archive"), archive).unwrap();
        let [theirs, ours] = both(sandbox.path(), &["-xf", "../archive"]).map(|(status, place, _)| {
            let made = place.join("file").metadata().unwrap();
            (status, made.mtime(), made.mtime_nsec())
        });
        assert_eq!(ours, theirs, "{form:?}");
    }
}

#[test]
fn attributes_outside_of_user_are_set_only_when_a_pattern_asks_for_them() {
    require!(needs::root(), needs::tool("getfattr"));
    let sandbox = Sandbox::on_disk().unwrap();
    let attributes: [(&str, &[u8]); 3] =
        [("SCHILY.xattr.user.a", b"1"), ("SCHILY.xattr.trusted.b", b"2"), ("SCHILY.xattr.security.c", b"3")];
    let archive = Archive::new().extended(b'x', &attributes).file("file", b"content").end();
    fs::write(sandbox.join("archive"), archive).unwrap();
    for options in [
        &["--xattrs"][..],
        &["--xattrs-include=*"],
        &["--xattrs-include=trusted.*"],
        &["--xattrs", "--xattrs-exclude=user.*"],
        &["--xattrs-exclude=trusted.*"],
        &["--xattrs-include=*", "--xattrs-exclude=*.b"],
    ] {
        let words: Vec<_> = options.iter().copied().chain(["-xf", "../archive"]).collect();
        let [theirs, ours] = both(sandbox.path(), &words).map(|(status, place, errors)| {
            let mut command = Command::new("getfattr");
            command.args(["-d", "-m-", "file"]);
            (status, run(command, &place, b"").stdout, errors)
        });
        assert_eq!(theirs.0, Some(0), "{options:?}: {}", theirs.2);
        assert_eq!(
            (ours.0, ours.1.escape_ascii().to_string()),
            (Some(0), theirs.1.escape_ascii().to_string())
        );
    }
}

#[test]
fn an_access_list_that_cannot_be_set_is_a_warning() {
    require!(needs::tool("tar"));
    let sandbox = Sandbox::in_memory().unwrap();
    let list: (&str, &[u8]) = ("SCHILY.acl.access", b"user::q,group::r--,other::r--");
    let archive = Archive::new().extended(b'x', &[list]).file("file", b"content").end();
    fs::write(sandbox.join("archive"), archive).unwrap();
    let [theirs, ours] = both(sandbox.path(), &["--acls", "-xf", "../archive"]);
    assert_eq!((ours.0, theirs.0), (Some(0), Some(0)), "{} {}", ours.2, theirs.2);
    assert!(ours.2.contains("access list"), "{}", ours.2);
}
