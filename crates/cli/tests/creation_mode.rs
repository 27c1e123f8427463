//! Files created with their final mode, since they are created with their final owner: the result
//! stays the same.
//!
//! Each directory has many files, since its first file decides how the rest are created. Some
//! directories, umasks and mounts give new files an owner, mode or ACL other than the
//! requested one.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use haul_testkit::compare::compare_paths;
use haul_testkit::duel::Duel;
use haul_testkit::everything::{ACCESS_ACL, DEFAULT_ACL};
use haul_testkit::mount::Mount;
use haul_testkit::sandbox::remove_tree;
use haul_testkit::spec::{EntrySpec, Spec, SpecKind, acl};
use haul_testkit::strace::record;
use haul_testkit::{CopyProgram, Facts, Sandbox, needs, program, require};

/// File modes, used in turn in each directory.
const MODES: [u32; 10] = [0o644, 0o600, 0o755, 0o664, 0o444, 0o777, 0, 0o4755, 0o2711, 0o640];

/// One directory of each kind that affects creation, all with the same files.
fn tree() -> Spec {
    let directory = |name: &str, mode| EntrySpec::new(0, name, SpecKind::Directory).mode(mode);
    let directories = vec![
        directory("plain", 0o755),
        directory("set-group-id", 0o2775).owner(0, 7),
        directory("of-somebody-else", 0o755).owner(5, 6),
        directory("with-default-list", 0o755).attribute(DEFAULT_ACL, acl(0o750, 8, 7)),
    ];
    let count = directories.len();
    let mut nodes = directories;
    for parent in 1..=count {
        for (index, mode) in MODES.into_iter().cycle().take(30).enumerate() {
            let node = EntrySpec::file(parent, format!("file-{index:02}"), index as u64, 100).mode(mode);
            nodes.push(match index {
                14 => node.owner(0, 7),
                15 => node.owner(5, 6),
                16 => node.attribute(ACCESS_ACL, acl(mode, 7, 5)),
                17 => node.attribute("user.kept", "value"),
                _ => node,
            });
        }
    }
    Spec { nodes }
}

/// Copies the tree with each umask and set of options, and compares the result.
fn copies_are_right(source: &Path, target: &Path) {
    for mask in [0, 0o022, 0o077, 0o777] {
        for options in [["-a", "-j1"], ["-a", "-j4"], ["-rp", "-j1"], ["-rp", "--engine=io-uring"]] {
            remove_tree(target);
            let run = program!().run().args(options).arg("-T").args([source, target]).umask(mask);
            let outcome = run.finish().unwrap();
            assert!(outcome.succeeded(), "{options:?} umask {mask:o}: {}", outcome.errors());
            let facts =
                if options[0] == "-a" { Facts::PRESERVED } else { Facts::PRESERVED - Facts::ATTRIBUTES };
            let differences = compare_paths(source, target, facts).unwrap();
            assert!(differences.is_empty(), "{options:?} umask {mask:o}: {differences}");
        }
    }
}

#[test]
fn attributes_are_right_wherever_files_are_born() {
    require!(needs::root(), program!().needs_haul());
    let sandbox = Sandbox::on_disk().unwrap();
    let source = sandbox.join("source");
    tree().build(&source).unwrap();
    copies_are_right(&source, &sandbox.join("target"));
    // One target directory passes its group on to new files, another a default ACL.
    for (name, node) in [
        ("of-a-group", EntrySpec::new(0, "of-a-group", SpecKind::Directory).mode(0o2777).owner(0, 9)),
        (
            "with-a-list",
            EntrySpec::new(0, "with-a-list", SpecKind::Directory)
                .mode(0o755)
                .attribute(DEFAULT_ACL, acl(0o770, 4, 7)),
        ),
    ] {
        Spec { nodes: vec![node] }.build(sandbox.path()).unwrap();
        copies_are_right(&source, &sandbox.join(name).join("target"));
    }
    require!(needs::loop_mount("ext4"));
    // With `grpid`, files get their directory's group.
    let disk = Mount::image("ext4", 64 << 20).unwrap();
    disk.remount("grpid").unwrap();
    Spec { nodes: vec![EntrySpec::new(0, "top", SpecKind::Directory).owner(0, 9)] }
        .build(disk.path())
        .unwrap();
    copies_are_right(&source, &disk.join("top/target"));
}

/// No mode is set twice, and a file of another owner stays private until it is chowned.
#[test]
fn born_files_need_no_chmod() {
    require!(needs::tool("strace"), needs::root(), program!().needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    let (source, target) = (sandbox.join("source"), sandbox.join("target"));
    let file = |index: u64| EntrySpec::file(1, format!("file-{index}"), index, 100).mode(0o644);
    let mut nodes = vec![EntrySpec::new(0, "directory", SpecKind::Directory)];
    nodes.extend((0..50).map(|index| if index % 5 == 4 { file(index).owner(1, 1) } else { file(index) }));
    Spec { nodes }.build(&source).unwrap();
    let run = program!().run().args(["-a", "-j1", "-T"]).args([&source, &target]).umask(0o022);
    let (outcome, calls) = record(run, "openat,fchmod,fchown", &sandbox.join("log")).unwrap();
    assert!(outcome.succeeded(), "{}", outcome.errors());
    let made: Vec<_> = calls
        .iter()
        .filter(|call| {
            call.has_flag(2, "O_CREAT") && call.path(1).is_some_and(|path| path.starts_with(b"file-"))
        })
        .map(|call| call.octal(3).unwrap())
        .collect();
    // The first file is the probe; the other files of our own are created with their final mode.
    let (open, closed) = (
        made.iter().filter(|mode| **mode == 0o644).count(),
        made.iter().filter(|mode| **mode == 0o600).count(),
    );
    assert_eq!((open, closed), (39, 11), "{made:?}");
    let changed = calls.iter().filter(|call| call.name == "fchmod").count();
    // Eleven files and two directories.
    assert_eq!(changed, 13, "calls of fchmod");
}

/// An ACL that is inherited may deny the owner more than the umask does.
#[test]
fn special_files_get_no_more_than_their_directory_grants() {
    require!(CopyProgram::needs_gnu(), needs::root(), needs::tool("setfacl"));
    let mut duel = Duel::with_gnu(program!()).unwrap();
    duel.umask = 0o027;
    let scene = "mkdir g s; setfacl -d -m u::r,g::r,o::r g; mkfifo s/p; chmod 666 s/p; mknod s/n c 1 3
        chmod 1660 s/n; mkfifo s/q; chmod 400 s/q; ln -s p s/l";
    for options in ["-r", "-r --preserve=ownership", "-r --preserve=mode", "-r --no-preserve=mode", "-a"] {
        let verdict = duel.run_script(&|_| Ok(()), &format!("{scene}\ncp {options} s g/t"), &[]).unwrap();
        assert!(verdict.complaints.is_empty(), "{options}\n{}", verdict.report());
    }
}

/// GNU cp gives a default mode as an access list, which leaves these bits alone, or as a mode where
/// there are no lists.
#[test]
fn a_default_mode_leaves_special_bits_only_where_there_are_access_lists() {
    require!(CopyProgram::needs_gnu(), needs::root(), needs::tool("unshare"));
    let duel = Duel::with_gnu(program!()).unwrap();
    let scene = "umask 022; mkdir -p s/d r; echo x >s/f; mkfifo s/p; mknod s/n c 1 3
        chmod 1755 s/d; chmod 1660 s/n s/p; chmod 2755 s";
    for file_system in ["ramfs", "tmpfs"] {
        for options in ["--no-preserve=all", "--no-preserve=mode"] {
            let inner = format!("cp -r {options} s r/t && stat -c \"%n %a\" r/t r/t/*");
            let script = format!("{scene}\nunshare -m sh -c 'mount -t {file_system} none r && {inner}'");
            let verdict = duel.run_script(&|_| Ok(()), &script, &[]).unwrap();
            assert!(verdict.judged.printed().contains("r/t/d "), "{}", verdict.judged.errors());
            assert!(verdict.complaints.is_empty(), "{file_system} {options}\n{}", verdict.report());
        }
    }
}
