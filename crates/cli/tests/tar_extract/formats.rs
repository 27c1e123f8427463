//! Archives written by GNU tar, bsdtar and Python's tarfile: haul and GNU tar extract the
//! same trees.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use haul_testkit::{Facts, Sandbox, compare::compare_paths, everything, needs, require};

use crate::archive::{Archive, Header};
use crate::haul;

/// Runs another program, which must succeed.
fn run(program: &str, arguments: &[&str], folder: &Path) {
    let output =
        Command::new(program).args(arguments).current_dir(folder).env("LC_ALL", "C").output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Extracts an archive with haul, from a file and from a pipe, with one worker and with four, and
/// compares the results with GNU tar's.
fn extracted_alike(folder: &Path, options: &[&str], facts: Facts) {
    let theirs = folder.join("theirs");
    fs::create_dir(&theirs).unwrap();
    let known = ["--delay-directory-restore", "--xattrs", "--xattrs-include=*", "--acls"];
    let theirs_options = if options.contains(&"--xattrs") { &known[..] } else { &known[..1] };
    // GNU tar complains about records that it doesn't know and extracts the rest.
    Command::new("tar")
        .args(["-x", "-f", "archive", "-C", "theirs"])
        .args(theirs_options)
        .current_dir(folder)
        .output()
        .unwrap();
    for (number, jobs) in ["--jobs=1", "--jobs=4"].into_iter().enumerate() {
        let ours = folder.join(format!("ours-{number}"));
        fs::create_dir(&ours).unwrap();
        let run = haul().args(["tar", "-x", jobs]).args(options).arg("-C").arg(&ours).in_folder(folder);
        let run = match number {
            0 => run.args(["-f", "archive"]),
            _ => run.args(["-f", "-"]).input(&fs::read(folder.join("archive")).unwrap()),
        };
        let outcome = run.finish().unwrap();
        assert!(outcome.succeeded(), "{jobs}: {}", outcome.errors());
        let differences = compare_paths(&theirs.join("tree"), &ours.join("tree"), facts).unwrap();
        assert!(differences.is_empty(), "{jobs}: {differences}");
    }
}

/// Builds a tree of everything, except for what no archive can hold: sockets, and, unless `whole`,
/// a hole too large for programs that don't detect it.
fn tree(folder: &Path, whole: bool) {
    everything::spec().build(&folder.join("tree")).unwrap();
    for name in ["socket", "sub/sub/deep/twin-socket"] {
        fs::remove_file(folder.join("tree").join(name)).unwrap();
    }
    if !whole {
        fs::remove_file(folder.join("tree/sub/sub/deep/hole-huge")).unwrap();
    }
}

const COMMON: Facts = Facts::CONTENT
    .union(Facts::MODE)
    .union(Facts::OWNER)
    .union(Facts::MODIFIED)
    .union(Facts::DIRECTORY_MODIFIED)
    .union(Facts::LINKS);

/// Archives the tree with a program in several formats, and extracts the results.
fn extracted_in_formats(program: &str, formats: &[&str]) {
    for format in formats {
        let sandbox = Sandbox::in_memory().unwrap();
        tree(sandbox.path(), false);
        let option = format!("--format={format}");
        // The program reports and skips what the format can't hold.
        Command::new(program)
            .args(["-c", "-f", "archive", &option, "tree"])
            .current_dir(sandbox.path())
            .output()
            .unwrap();
        extracted_alike(sandbox.path(), &[], COMMON);
    }
}

#[test]
fn what_gnu_tar_writes_in_any_format_is_extracted_as_by_itself() {
    require!(needs::root(), needs::tool("tar"));
    extracted_in_formats("tar", &["gnu", "oldgnu", "pax", "posix", "ustar", "v7"]);
}

#[test]
fn attributes_lists_and_holes_are_extracted_as_by_gnu_tar() {
    require!(needs::root(), needs::tool("tar"));
    let sparse = ["--format=gnu", "--sparse-version=0.0", "--sparse-version=0.1", "--sparse-version=1.0"];
    for option in sparse {
        let sandbox = Sandbox::in_memory().unwrap();
        tree(sandbox.path(), true);
        let mut words = vec!["-c", "-S", "-f", "archive", option];
        if option != "--format=gnu" {
            words.extend(["--format=pax", "--xattrs", "--xattrs-include=*", "--acls"]);
        }
        words.push("tree");
        run("tar", &words, sandbox.path());
        let options = ["--xattrs", "--xattrs-include=*", "--acls"];
        extracted_alike(sandbox.path(), &options, COMMON | Facts::HOLES | Facts::ATTRIBUTES);
    }
}

#[test]
fn what_bsdtar_writes_is_extracted() {
    require!(needs::root(), needs::tool("tar"), needs::tool("bsdtar"));
    extracted_in_formats("bsdtar", &["gnutar", "pax", "ustar"]);
}

#[test]
fn what_pythons_tarfile_writes_is_extracted() {
    require!(needs::root(), needs::tool("tar"), needs::tool("python3"));
    for format in ["GNU_FORMAT", "PAX_FORMAT", "USTAR_FORMAT"] {
        let sandbox = Sandbox::in_memory().unwrap();
        tree(sandbox.path(), false);
        let script = format!(
            "import tarfile\nt = tarfile.open('archive', 'w', format=tarfile.{format})\n\
             def keep(i): return i if len(i.linkname) < 99 and '{format}' != 'USTAR_FORMAT' or len(i.name) < 90 and len(i.linkname) < 90 and 0 <= i.mtime < 8**11 else None\n\
             t.add('tree', filter=keep)\nt.close()"
        );
        run("python3", &["-c", &script], sandbox.path());
        extracted_alike(sandbox.path(), &[], COMMON);
    }
}

#[test]
fn compressed_archives_are_known_by_their_first_bytes() {
    require!(needs::tool("tar"));
    for program in ["gzip", "bzip2", "zstd"] {
        require!(needs::tool(program));
        let sandbox = Sandbox::in_memory().unwrap();
        let tree = sandbox.join("tree");
        fs::create_dir(&tree).unwrap();
        for number in 0..300_u32 {
            fs::write(tree.join(format!("f{number}")), number.to_le_bytes().repeat(number as usize * 7))
                .unwrap();
        }
        run("tar", &["-c", "-f", "plain", "tree"], sandbox.path());
        let packed =
            Command::new(program).args(["-c", "plain"]).current_dir(sandbox.path()).output().unwrap().stdout;
        fs::write(sandbox.join("archive"), &packed).unwrap();
        extracted_alike(sandbox.path(), &[], Facts::CONTENT | Facts::MODE | Facts::MODIFIED);
    }
}

#[test]
fn nothing_that_is_compressed_is_an_archive_without_members() {
    require!(needs::tool("tar"));
    let sandbox = Sandbox::in_memory().unwrap();
    let bytes = |bytes: &[u8]| fs::write(sandbox.join("archive"), bytes).unwrap();
    let same = |words: &[&str]| {
        let theirs = Command::new("tar").args(words).current_dir(sandbox.path()).output().unwrap();
        let ours = haul().arg("tar").args(words).in_folder(sandbox.path()).finish().unwrap();
        assert_eq!(ours.status(), theirs.status.code(), "{words:?}: {}", ours.errors());
        assert_eq!(ours.stderr.is_empty(), theirs.stderr.is_empty(), "{words:?}: {}", ours.errors());
    };
    for (program, flag) in [("gzip", "-z"), ("bzip2", "-j"), ("xz", "-J")] {
        require!(needs::tool(program));
        bytes(&Command::new(program).arg("-c").stdin(Stdio::null()).output().unwrap().stdout);
        for words in
            [&["-x", flag][..], &["-t", flag], &["-t"], &["-t", "-I", program], &["-x", flag, "name"]]
        {
            same(&[words, &["-f", "archive"]].concat());
        }
    }
    bytes(b"");
    for words in [&["-tf", "archive"][..], &["-xf", "archive"], &["-tzf", "archive"]] {
        same(words);
    }
}

#[test]
fn zeros_behind_what_is_compressed_are_no_damage_and_anything_else_is_to_gzip() {
    require!(needs::tool("tar"));
    for (option, program, garbage) in [("-z", "gzip", 2), ("-j", "bzip2", 0)] {
        require!(needs::tool(program));
        let sandbox = Sandbox::in_memory().unwrap();
        let folder = sandbox.path();
        fs::write(folder.join("a"), vec![b'a'; 300_000]).unwrap();
        run("tar", &["-c", option, "-f", "first", "a"], folder);
        let part = fs::read(folder.join("first")).unwrap();
        let zeros = vec![0; 700_000];
        let cases = [
            ([part.as_slice(), &zeros].concat(), 0),
            ([part.as_slice(), &part].concat(), 0),
            ([part.as_slice(), b"something"].concat(), garbage),
            ([part.as_slice(), &zeros, &part].concat(), garbage),
        ];
        for (archive, status) in cases {
            fs::write(folder.join("archive"), &archive).unwrap();
            fs::write(folder.join("a"), "").unwrap();
            let outcome = haul().args(["tar", "-xf", "archive"]).in_folder(folder).finish().unwrap();
            assert_eq!(
                outcome.status(),
                Some(status),
                "{option}, {} bytes: {}",
                archive.len(),
                outcome.errors()
            );
            assert_eq!(fs::read(folder.join("a")).unwrap(), vec![b'a'; 300_000]);
        }
    }
}

#[test]
fn listings_are_gnu_tars() {
    require!(needs::root(), needs::tool("tar"));
    let sandbox = Sandbox::in_memory().unwrap();
    tree(sandbox.path(), true);
    for format in ["--format=gnu", "--format=pax", "--format=v7"] {
        Command::new("tar")
            .args(["-c", "-S", "-f", "archive", format, "tree"])
            .current_dir(sandbox.path())
            .output()
            .unwrap();
        for (locale, zone) in [("C", "UTC"), ("C.UTF-8", "America/St_Johns")] {
            for words in [
                &["-tf", "archive"][..],
                &["-tvf", "archive"],
                &["-tvf", "archive", "--numeric-owner"],
                &["-tf", "archive", "tree/odd", "tree/sub/sub"],
            ] {
                let theirs = Command::new("tar")
                    .args(words)
                    .current_dir(sandbox.path())
                    .env("LC_ALL", locale)
                    .env("TZ", zone)
                    .output()
                    .unwrap();
                let ours = haul()
                    .arg("tar")
                    .args(words)
                    .in_folder(sandbox.path())
                    .env("LC_ALL", locale)
                    .env("TZ", zone)
                    .finish()
                    .unwrap();
                assert!(ours.succeeded(), "{words:?}: {}", ours.errors());
                let lines = |bytes: &[u8]| {
                    bytes
                        .split(|byte| *byte == b'\n')
                        .map(|line| line.escape_ascii().to_string())
                        .collect::<Vec<_>>()
                };
                for (our, their) in lines(&ours.stdout).iter().zip(&lines(&theirs.stdout)) {
                    assert_eq!(our, their, "{format} {words:?} {locale}");
                }
                assert_eq!(ours.stdout.len(), theirs.stdout.len(), "{words:?}");
            }
        }
    }
}

#[test]
fn every_type_of_member_is_listed_as_by_gnu_tar() {
    require!(needs::tool("tar"));
    let sandbox = Sandbox::in_memory().unwrap();
    for kind in *b"\x0001234567ADIVZ" {
        let mut archive = Archive::new();
        for name in ["name", "name/"] {
            archive = archive.member(Header::new(name, kind, 0).link("leads-to"), b"");
        }
        fs::write(sandbox.path().join("archive"), archive.end()).unwrap();
        for words in [&["-tf", "archive"][..], &["-tvf", "archive"]] {
            let theirs = Command::new("tar")
                .args(words)
                .current_dir(sandbox.path())
                .env("LC_ALL", "C")
                .output()
                .unwrap();
            let ours =
                haul().arg("tar").args(words).in_folder(sandbox.path()).env("LC_ALL", "C").finish().unwrap();
            let [ours, theirs] = [ours.stdout, theirs.stdout].map(|bytes| bytes.escape_ascii().to_string());
            assert_eq!(ours, theirs, "{words:?}, type {:?}", char::from(kind));
        }
    }
}
