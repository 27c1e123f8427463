//! Existing entries, duplicate names, and options; compared with GNU tar where it behaves the same.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use haul_testkit::{Facts, RunOutcome, Sandbox, compare::compare_paths, needs, require};

use crate::archive::{Archive, Header};
use crate::haul;

fn a() -> Archive {
    Archive::new()
}

/// Extracts an archive with GNU tar and with haul into identical directories; results and exit
/// status must match.
pub(crate) fn alike(archive: &[u8], options: &[&str], before: impl Fn(&Path)) {
    let sandbox = Sandbox::in_memory().unwrap();
    fs::write(sandbox.join("archive.tar"), archive).unwrap();
    let [theirs, ours] = ["theirs", "ours"].map(|name| sandbox.join(name));
    for folder in [&theirs, &ours] {
        fs::create_dir(folder).unwrap();
        before(folder);
        // The directories were filled one after the other, so equalise their times.
        let same_time = ["-mindepth", "1", "-exec", "touch", "-h", "-d", "@1500000000", "{}", "+"];
        assert!(Command::new("find").arg(folder).args(same_time).status().unwrap().success());
    }
    let words = |folder: &Path| {
        let mut words = vec!["-x".into(), "-f".into(), sandbox.join("archive.tar")];
        words.extend(options.iter().map(|option| (*option).into()));
        words.extend(["-C".into(), folder.to_owned()]);
        words
    };
    let their = Command::new("tar").args(words(&theirs)).env("LC_ALL", "C").output().unwrap();
    let our = haul().arg("tar").args(words(&ours)).env("LC_ALL", "C").finish().unwrap();
    let said =
        format!("{options:?}\ntheirs: {}\nours: {}", String::from_utf8_lossy(&their.stderr), our.errors());
    assert_eq!(our.status(), their.status.code(), "{said}");
    let facts = Facts::CONTENT | Facts::MODE | Facts::OWNER | Facts::MODIFIED | Facts::LINKS;
    let differences = compare_paths(&theirs, &ours, facts).unwrap();
    assert!(differences.is_empty(), "{differences}{said}");
}

pub(crate) fn extract(archive: &[u8], options: &[&str], inside: &Path) -> RunOutcome {
    haul().args(["tar", "-x", "-f", "-"]).args(options).arg("-C").arg(inside).input(archive).finish().unwrap()
}

#[test]
fn what_is_there_already_is_treated_as_by_gnu_tar() {
    require!(needs::tool("tar"));
    let archive = a()
        .directory("d/")
        .file("d/f", b"new")
        .file("f", b"new")
        .symlink("l", "new")
        .file("instead-of-directory", b"new")
        .file("instead-of-full-directory", b"new")
        .file("instead-of-link", b"new")
        .directory("directory-instead-of-file/")
        .hard_link("h", "f")
        .member(Header::new("p", b'6', 0), b"")
        .end();
    let before = |folder: &Path| {
        fs::create_dir(folder.join("d")).unwrap();
        fs::set_permissions(folder.join("d"), fs::Permissions::from_mode(0o700)).unwrap();
        for name in ["d/f", "d/other", "f", "h", "l", "p", "directory-instead-of-file"] {
            fs::write(folder.join(name), b"old and longer").unwrap();
        }
        fs::hard_link(folder.join("f"), folder.join("joined")).unwrap();
        fs::create_dir(folder.join("instead-of-directory")).unwrap();
        fs::create_dir(folder.join("instead-of-full-directory")).unwrap();
        fs::write(folder.join("instead-of-full-directory/x"), b"x").unwrap();
        symlink("f", folder.join("instead-of-link")).unwrap();
    };
    alike(&archive, &[], before);
    alike(&archive, &["--overwrite"], before);
    alike(&archive, &["--skip-old-files"], before);
    alike(&archive, &["-k"], |folder| {
        before(folder);
        fs::remove_file(folder.join("directory-instead-of-file")).unwrap();
    });
}

#[test]
fn a_root_that_is_there_is_treated_as_by_gnu_tar() {
    require!(needs::tool("tar"));
    for name in [".", "./"] {
        let root = Header::new(name, b'5', 0).mode(b"0000711");
        let archive = a().member(root, b"").file("./f", b"new").end();
        for options in [&[][..], &["--overwrite"], &["-k"], &["--skip-old-files"]] {
            alike(&archive, options, |folder| {
                fs::set_permissions(folder, fs::Permissions::from_mode(0o750)).unwrap();
            });
            // Times too: with nothing to make in it, it keeps its own.
            let sandbox = Sandbox::in_memory().unwrap();
            let there = fs::metadata(sandbox.path()).unwrap();
            let root = Header::new(name, b'5', 0).mode(b"0000711");
            assert!(extract(&a().member(root, b"").end(), options, sandbox.path()).succeeded());
            let now = fs::metadata(sandbox.path()).unwrap();
            let keeps = options.iter().any(|option| ["-k", "--skip-old-files"].contains(option));
            assert_eq!((now.mode(), now.mtime()) == (there.mode(), there.mtime()), keeps, "{options:?}");
        }
    }
}

#[test]
fn no_content_follows_links_directories_and_special_files_whatever_their_size() {
    require!(needs::tool("tar"));
    let size = ("size", &b"5"[..]);
    for kind in *b"1256" {
        let header = |size| Header::new("m", kind, size).link("before").mode(b"0000755");
        let sized = a().file("before", b"x").member(header(5), b"");
        let extended = a().file("before", b"x").extended(b'x', &[size]).member(header(0), b"");
        for archive in [sized, extended] {
            let archive = archive.file("first", b"1").file("second", b"2").end();
            alike(&archive, &[], |_| {});
            let listed = haul().args(["tar", "-t", "-f", "-"]).input(&archive).finish().unwrap();
            assert_eq!((listed.status(), listed.errors()), (Some(0), String::new()));
            assert_eq!(listed.printed(), "before\nm\nfirst\nsecond\n");
        }
    }
    // A directory by its name, or of an incremental archive, has content.
    for kind in *b"0D" {
        let directory = Header::new("m/", kind, 5).mode(b"0000755");
        let archive = a().member(directory, b"Yabc\0").file("first", b"1").end();
        let sandbox = Sandbox::in_memory().unwrap();
        let outcome = extract(&archive, &[], sandbox.path());
        assert_eq!((outcome.status(), outcome.errors()), (Some(0), String::new()));
        assert!(sandbox.join("m").is_dir());
        assert_eq!(fs::read(sandbox.join("first")).unwrap(), b"1");
    }
}

#[test]
fn names_that_come_twice_are_made_in_the_archives_order() {
    require!(needs::tool("tar"));
    let mut archive = a();
    for round in 0..50_u32 {
        for name in 0..20 {
            archive = archive.file(format!("f{name}"), &round.to_le_bytes().repeat(name + 1));
        }
        archive = archive.hard_link("h", "f3").directory("d/").file("d/x", &round.to_le_bytes());
    }
    archive = archive.file("f5", b"last").hard_link("h", "f5").file("f5", b"later than the link");
    alike(&archive.end(), &[], |_| {});
    let changing = a()
        .directory("a/")
        .file("a", b"a file now")
        .directory("a/")
        .file("a/b", b"x")
        .file("c", b"a file first")
        .directory("c/")
        .file("c/d", b"x");
    for _ in 0..20 {
        alike(&changing.clone().end(), &[], |_| {});
    }
}

#[test]
fn a_directory_that_another_member_replaces_gets_no_attributes() {
    let member = |name: &str| Header::new(name, b'5', 0).mode(b"0000711");
    // More directories than descriptors, so that none is open at the end.
    let others = (0..400)
        .fold(a().member(member("d/"), b""), |archive, number| archive.directory(format!("e{number}/")));
    for (archive, is_directory) in [
        (others.clone().file("d", b"x"), false),
        (others.clone().symlink("d", "x"), false),
        (others.clone().file("d", b"x").member(member("d/"), b""), true),
        // A new directory may get the inode number of the one that was removed.
        (others.file("d", b"x").member(member("other/"), b""), false),
    ] {
        let (archive, sandbox) = (archive.end(), Sandbox::on_disk().unwrap());
        let run = haul().args(["tar", "-xf", "-"]).in_folder(sandbox.path()).open_files(64);
        let outcome = run.input(&archive).finish().unwrap();
        assert_eq!((outcome.status(), outcome.errors().as_str()), (Some(0), ""));
        assert_eq!(sandbox.join("d").symlink_metadata().unwrap().is_dir(), is_directory);
        for name in ["d", "other"].map(|name| sandbox.join(name)).iter().filter(|path| path.is_dir()) {
            assert_eq!(fs::metadata(name).unwrap().mode() & 0o777, 0o711);
        }
    }
}

#[test]
fn large_files_are_made_in_parts_with_the_same_bytes() {
    require!(needs::tool("tar"));
    let content: Vec<u8> = (0..20_000_000_u32).map(|number| (number / 7 % 251) as u8).collect();
    let archive = a()
        .file("small", b"x")
        .file("large", &content)
        .file("of-two-parts", &content[..5 << 20])
        .file("at-the-limit", &content[..64 << 10])
        .file("beyond-the-limit", &content[..(64 << 10) + 1])
        .file("at-the-streams-limit", &content[..256 << 10])
        .file("beyond-the-streams-limit", &content[..(256 << 10) + 1])
        .file("large", &content[..3 << 20])
        .hard_link("joined", "large")
        .end();
    alike(&archive, &[], |_| {});
    alike(&archive, &["--overwrite"], |folder| fs::write(folder.join("large"), vec![1; 25_000_000]).unwrap());
    let sandbox = Sandbox::in_memory().unwrap();
    assert!(extract(&archive, &[], sandbox.path()).succeeded());
    assert_eq!(fs::read(sandbox.join("large")).unwrap(), content[..3 << 20]);
    assert_eq!(fs::metadata(sandbox.join("large")).unwrap().nlink(), 2);
}

#[test]
fn what_is_behind_a_large_file_that_stays_is_extracted() {
    require!(needs::tool("tar"));
    let content = vec![b'x'; (4 << 20) + 1];
    let before = |folder: &Path| fs::write(folder.join("large"), b"old").unwrap();
    // The large file is either the first or the last member of a piece.
    for first in [a(), a().file("before", b"x")] {
        let archive = first.file("large", &content).file("behind", b"x").directory("d/").end();
        for option in ["--skip-old-files", "-k"] {
            alike(&archive, &[option], before);
            let sandbox = Sandbox::in_memory().unwrap();
            before(sandbox.path());
            extract(&archive, &[option], sandbox.path());
            assert!(sandbox.join("behind").exists() && sandbox.join("d").exists(), "{option}, from a pipe");
            assert_eq!(fs::read(sandbox.join("large")).unwrap(), b"old");
        }
    }
}

#[test]
fn what_stands_before_a_damaged_header_belongs_to_no_other() {
    require!(needs::tool("tar"));
    let long = [b'n'; 150];
    let headers = [a().long(b'L', &long), a().extended(b'x', &[("path", b"another"), ("size", b"2")])];
    for before in headers {
        for change in [0_usize, 124] {
            // A wrong checksum, or an invalid size.
            let damaged = Header::new("lost", b'0', 0);
            let mut archive = a().file("first", b"x");
            archive.0.extend(&before.0);
            let at = archive.0.len();
            let mut archive = match change {
                0 => archive.member(damaged, b""),
                _ => archive.member(damaged.size("x"), b""),
            };
            if change == 0 {
                archive.0[at] ^= 1;
            }
            alike(&archive.file("behind", b"whose name it is").file("last", b"y").end(), &[], |_| {});
        }
    }
}

#[test]
fn members_are_chosen_stripped_and_printed() {
    let archive = a().directory("a/").file("a/b", b"1").file("a/c/d", b"2").file("e", b"3").end();
    let sandbox = Sandbox::in_memory().unwrap();
    let outcome = haul()
        .args(["tar", "-x", "-v", "-f", "-", "-C"])
        .arg(sandbox.path())
        .args(["a/c", "nothing"])
        .input(&archive)
        .finish()
        .unwrap();
    assert_eq!(outcome.status(), Some(2));
    assert_eq!(outcome.printed(), "a/c/d\n");
    assert_eq!(outcome.errors().lines().next(), Some("haul tar: nothing: Not found in archive"));
    assert!(sandbox.join("a/c/d").exists() && !sandbox.join("a/b").exists());
    assert!(extract(&archive, &["--strip-components=1"], sandbox.path()).succeeded());
    assert!(sandbox.join("b").exists() && sandbox.join("c/d").exists() && !sandbox.join("e").exists());
    let printed = haul().args(["tar", "-x", "-O", "-f", "-", "a"]).input(&archive).finish().unwrap();
    assert_eq!(printed.printed(), "12");
    let absolute = sandbox.join("deep/planted");
    let archive = a().file(absolute.to_str().unwrap(), b"x").end();
    assert!(extract(&archive, &["-P"], sandbox.path()).succeeded());
    assert_eq!(fs::read(absolute).unwrap(), b"x");
}

#[test]
fn a_default_acl_takes_no_bits_from_what_the_archive_says() {
    require!(needs::tool("setfacl"), needs::tool("tar"));
    let of = |name: &str, mode| Header::new(name, b'0', 1).mode(mode);
    let archive = a()
        .directory("d/")
        .member(of("d/a", b"0000600"), b"a")
        .member(of("d/b", b"0000644"), b"b")
        .member(of("d/c", b"0000755"), b"c")
        .member(of("d/d", b"0000000"), b"d")
        .end();
    for list in ["u::rwx,g::-,o::-", "u::rwx,g::rx,o::-", "u::rwx,u:65534:rwx,g::rwx,m::r,o::x"] {
        alike(&archive, &[], |folder| {
            let set = Command::new("setfacl").args(["-d", "-m", list]).arg(folder).status().unwrap();
            assert!(set.success());
        });
    }
}

#[test]
fn a_hard_link_to_a_name_that_is_stripped_to_nothing_is_reported() {
    require!(needs::tool("tar"));
    let archive =
        a().file("a/f", b"x").hard_link("a/b/g", "a/f").file("a/b/h", b"y").hard_link("a/b/i", "a/b/h").end();
    alike(&archive, &["--strip-components=2"], |_| {});
    let sandbox = Sandbox::in_memory().unwrap();
    let outcome = extract(&archive, &["--strip-components=2"], sandbox.path());
    let told = "haul tar: g: Cannot hard link to '': No such file or directory\n";
    assert!(outcome.errors().contains(told), "{}", outcome.errors());
}

#[test]
fn a_hard_link_to_the_directory_itself_says_why_it_is_refused() {
    let sandbox = Sandbox::in_memory().unwrap();
    let outcome = extract(&a().hard_link("b", ".").end(), &[], sandbox.path());
    assert_eq!(outcome.status(), Some(2));
    assert!(outcome.errors().contains(": Operation not permitted\n"), "{}", outcome.errors());
}

#[test]
fn users_that_cannot_exist_are_reported_and_are_never_root() {
    require!(needs::root());
    // In base 256: -1, and more than 32 bits.
    for (at, field) in [(108, "uid_t"), (116, "gid_t")] {
        for number in [[0xff; 8], [0x80, 0, 0x10, 0, 0, 0x10, 0, 0]] {
            let sandbox = Sandbox::in_memory().unwrap();
            let header = Header::new("f", b'0', 0);
            let archive = a().raw(&header, b"", |block| block[at..at + 8].copy_from_slice(&number)).end();
            let outcome = extract(&archive, &[], sandbox.path());
            let told = format!(" is out of {field} range 0..4294967295\n");
            assert!(outcome.errors().contains(&told), "{}", outcome.errors());
            assert_eq!(outcome.status(), Some(2));
            let found = fs::metadata(sandbox.join("f")).unwrap();
            let id = if field == "uid_t" { found.uid() } else { found.gid() };
            assert_eq!(id, u32::MAX - 1, "{field}");
        }
    }
}

#[test]
fn a_number_that_a_name_takes_the_place_of_does_not_matter() {
    require!(needs::tool("tar"));
    for at in [108, 116] {
        for number in [&[0xff; 8], &[0x80, 0, 0x10, 0, 0, 0x10, 0, 0], b"00zz000\0"] {
            let names = |user: &[u8], group: &[u8]| {
                let owned = |block: &mut [u8; 512]| {
                    block[at..at + 8].copy_from_slice(number);
                    block[265..265 + user.len()].copy_from_slice(user);
                    block[297..297 + group.len()].copy_from_slice(group);
                };
                a().raw(&Header::new("f", b'0', 0), b"", owned).end()
            };
            let archive = names(b"root", b"root");
            for options in [[].as_slice(), &["-O"], &["--no-same-owner"]] {
                alike(&archive, options, |_| {});
            }
            let listed = |archive: &[u8]| haul().args(["tar", "-tf", "-"]).input(archive).finish().unwrap();
            let outcome = listed(&archive);
            assert_eq!((outcome.status(), outcome.errors().as_str()), (Some(0), ""));
            let sandbox = Sandbox::in_memory().unwrap();
            assert_eq!(extract(&archive, &["--numeric-owner"], sandbox.path()).status(), Some(2));
            for (user, group) in [("", ""), ("nobody by this name", "no group by this name")] {
                assert_eq!(listed(&names(user.as_bytes(), group.as_bytes())).status(), Some(2));
            }
        }
    }
}

#[test]
fn links_are_kept_for_directories_if_that_is_where_they_lead() {
    require!(needs::tool("tar"));
    let before = |folder: &Path| {
        fs::write(folder.join("file"), b"x").unwrap();
        fs::create_dir(folder.join("folder")).unwrap();
        for (name, leads_to) in [("to-file", "file"), ("to-nowhere", "nowhere"), ("to-folder", "folder")] {
            symlink(leads_to, folder.join(name)).unwrap();
        }
    };
    let options = &["--keep-directory-symlink"];
    let archive = a().directory("to-file/").directory("to-nowhere/").directory("to-folder/").end();
    alike(&archive, options, before);
    let archive = a().file("to-file/x", b"x").file("to-folder/x", b"x").end();
    alike(&archive, options, before);
    // The target of a link is not in the archive, and is not created.
    alike(&a().file("to-nowhere/x", b"x").end(), options, before);
}

#[test]
fn what_is_written_to_standard_output_is_what_gnu_tar_writes() {
    require!(needs::tool("tar"));
    let plain = a()
        .directory("empty/")
        .file("a/b", b"1")
        .symlink("l", "x")
        .hard_link("h", "a/b")
        .file("top", &[b'x'; 3_000_000])
        .end();
    let odd = a()
        .file("../evil", b"1")
        .file("a/../b", b"2")
        .directory("../a/")
        .symlink("../l", "x")
        .hard_link("../h", "a/b")
        .member(Header::new("continued", b'M', 0), b"")
        .member(Header::new("unknown", b'Q', 1), b"3")
        .member(Header::new("label", b'V', 0), b"")
        .member(Header::new("pipe", b'6', 0), b"")
        .file("/absolute", b"4")
        .end();
    let sandbox = Sandbox::in_memory().unwrap();
    fs::write(sandbox.join("plain"), plain).unwrap();
    fs::write(sandbox.join("odd"), odd).unwrap();
    for options in [
        "plain",
        "plain -v",
        "plain empty",
        "plain --strip-components=1 -v",
        "plain -v a l",
        "plain -v --exclude=b a empty",
        "odd",
        "odd -v",
        "odd -v -P",
        "odd --strip-components=1",
        "odd -v --exclude=evil --exclude=h",
    ] {
        let words = format!("-x -O -f {options}");
        let words: Vec<_> = words.split_whitespace().collect();
        let mut tar = Command::new("tar");
        let their = tar.args(&words).current_dir(sandbox.path()).env("LC_ALL", "C").output().unwrap();
        let our = haul().arg("tar").args(&words).in_folder(sandbox.path()).finish().unwrap();
        assert_eq!(our.status(), their.status.code(), "{options}: {}", our.errors());
        let their_errors = String::from_utf8(their.stderr).unwrap();
        let their_errors =
            their_errors.replace("tar: Exiting with failure status due to previous errors\n", "");
        assert_eq!(our.errors().replace("haul tar: ", "tar: "), their_errors, "{options}");
        assert!(our.stdout == their.stdout, "{options}: {} bytes", our.stdout.len());
    }
}

#[test]
fn what_is_intact_of_a_truncated_archive_is_extracted() {
    let archive = a().file("one", &[1; 1000]).file("two", &[2; 1000]).end();
    let sandbox = Sandbox::in_memory().unwrap();
    let outcome = extract(&archive[..2600], &[], sandbox.path());
    assert_eq!(outcome.status(), Some(2));
    assert!(outcome.errors().contains("Unexpected EOF in archive"), "{}", outcome.errors());
    assert_eq!(fs::read(sandbox.join("one")).unwrap(), [1; 1000]);
    let mut damaged = archive;
    damaged[0] ^= 1;
    let outcome = extract(&damaged, &[], sandbox.path());
    assert_eq!(outcome.status(), Some(2));
    assert!(outcome.errors().contains("Skipping to next header"), "{}", outcome.errors());
    assert_eq!(fs::read(sandbox.join("two")).unwrap(), [2; 1000]);
}

/// Sizes of members that are read with their headers, by whoever makes them, and in parts.
const CUT_SIZES: [usize; 3] = [3000, 200_000, 6 << 20];

#[test]
fn a_file_that_a_truncated_archive_ends_in_gets_no_attributes_and_is_not_done() {
    for bytes in CUT_SIZES {
        let content: Vec<u8> = (0..bytes).map(|at| (at / 512) as u8).collect();
        let header = Header::new("cut", b'0', bytes as u64).mode(b"0004755");
        let archive = a().file("whole", b"whole").member(header, &content).end();
        let end = 3 * 512 + bytes / 3;
        let sandbox = Sandbox::in_memory().unwrap();
        fs::write(sandbox.join("archive"), &archive[..end]).unwrap();
        for from in ["archive", "-"] {
            sandbox.script("rm -rf out; mkdir out").unwrap();
            let run = haul().args(["tar", "-x", "--events=events", "-C", "out", "-f", from]);
            let outcome = run.input(&archive[..end]).in_folder(sandbox.path()).finish().unwrap();
            assert_eq!(outcome.status(), Some(2), "{bytes} {from}: {}", outcome.errors());
            let cut = fs::metadata(sandbox.join("out/cut")).unwrap();
            assert_eq!(fs::read(sandbox.join("out/cut")).unwrap(), content[..bytes / 3], "{bytes} {from}");
            assert_eq!(cut.mode() & 0o7077, 0, "{bytes} {from}");
            let whole = fs::metadata(sandbox.join("out/whole")).unwrap();
            assert!(cut.mtime() > whole.mtime(), "{bytes} {from}");
            let events = fs::read_to_string(sandbox.join("events")).unwrap();
            let of_cut = events.lines().filter(|line| line.contains(r#""path":"cut""#));
            let of_cut: Vec<_> = of_cut.map(|line| line.contains(r#""event":"error""#)).collect();
            assert_eq!(of_cut, [true], "{bytes} {from}: {events}");
        }
    }
}

#[test]
fn what_there_is_of_a_truncated_archive_goes_to_standard_output() {
    require!(needs::tool("tar"));
    let content: Vec<u8> = (0..1 << 20).map(|at| (at / 512) as u8).collect();
    let archive = a().file("cut", &content).end();
    let sandbox = Sandbox::in_memory().unwrap();
    fs::write(sandbox.join("archive"), &archive[..512 * 1201]).unwrap();
    let words = ["-xOf", "archive"];
    let theirs = Command::new("tar").args(words).current_dir(sandbox.path()).output().unwrap();
    let ours = haul().arg("tar").args(words).in_folder(sandbox.path()).finish().unwrap();
    assert_eq!((ours.status(), theirs.status.code()), (Some(2), Some(2)));
    assert!(ours.stdout.len() >= theirs.stdout.len() && content.starts_with(&ours.stdout));
}

#[test]
fn names_without_recursion_select_no_members_below_them() {
    require!(needs::tool("tar"));
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script("mkdir -p d; echo 1 >d/f; tar -cf archive.tar d").unwrap();
    sandbox.script("mkdir x y theirs").unwrap();
    for (line, expected) in [
        ("-C x --no-recursion d", &["x", "x/d"][..]),
        ("-C x d/f -C ../y d", &["x", "x/d", "x/d/f", "y", "y/d"]),
        ("-C x d -C ../y d/f", &["x", "x/d", "x/d/f", "y"]),
    ] {
        let words: Vec<&str> = ["-xf", "archive.tar"].into_iter().chain(line.split(' ')).collect();
        let names = || {
            let entries =
                ["x", "y"].map(|folder| walkdir::WalkDir::new(sandbox.join(folder)).sort_by_file_name());
            let paths = entries.into_iter().flatten().map(|entry| entry.unwrap().into_path());
            let below = |path: std::path::PathBuf| path.strip_prefix(sandbox.path()).unwrap().to_owned();
            let found: Vec<_> = paths.map(below).collect();
            sandbox.script("rm -r x y; mkdir x y").unwrap();
            found
        };
        let theirs = Command::new("tar").args(&words).current_dir(sandbox.path()).output().unwrap();
        let their_names = names();
        let ours = haul().arg("tar").args(&words).in_folder(sandbox.path()).finish().unwrap();
        assert_eq!(ours.status(), theirs.status.code(), "{line}: {}", ours.errors());
        assert_eq!(names(), their_names, "{line}");
        let is_expected = |path: &Path| expected.iter().any(|name| path == Path::new(name));
        assert!(
            their_names.iter().all(|path| is_expected(path) || path == Path::new("y")),
            "{line}: {their_names:?}"
        );
    }
}

/// Two names of one file: each member is written when the one before it is complete.
#[test]
fn names_of_one_file_are_overwritten_in_turn() {
    let [first, second] = [b'A', b'B'].map(|byte| vec![byte; 3_500_000]);
    let archive = a().file("a", &first).file("b", &second).file("c", &second).file("d", &first).end();
    for _ in 0..5 {
        alike(&archive, &["--overwrite"], |folder| {
            fs::write(folder.join("a"), "x").unwrap();
            ["b", "c", "d"]
                .iter()
                .for_each(|name| fs::hard_link(folder.join("a"), folder.join(name)).unwrap());
        });
    }
}
