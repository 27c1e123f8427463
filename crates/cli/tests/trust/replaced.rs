//! `--atomic` over existing files: what is kept of them, and what is refused.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use haul_testkit::mount::Mount;
use haul_testkit::rustix::fs::{XattrFlags, setxattr};
use haul_testkit::sandbox::remove_tree;
use haul_testkit::snapshot::read_attributes;
use haul_testkit::{CopyProgram, Facts, Sandbox, TestRun, compare, needs, program, require};

use super::{contents, temporary_names};

/// Options of a copy, and what is prepared in the target.
const LINES: [&[&str]; 7] = [
    &["-r"],
    &["-a"],
    &["-p"],
    &["-rf"],
    &["-r", "--remove-destination"],
    &["-r", "--no-preserve=mode"],
    &["-au"],
];

fn build(root: &Path) {
    remove_tree(root);
    for folder in ["source", "target/source"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    for (index, mode) in [0o644, 0o600, 0o4755, 0o666].into_iter().enumerate() {
        let [source, target] =
            ["source", "target/source"].map(|folder| root.join(folder).join(index.to_string()));
        fs::write(&source, format!("new {index}")).unwrap();
        fs::write(&target, format!("old {index}")).unwrap();
        fs::set_permissions(&source, Permissions::from_mode(0o640)).unwrap();
        fs::set_permissions(&target, Permissions::from_mode(mode)).unwrap();
        setxattr(&target, "user.kept", b"yes", XattrFlags::empty()).unwrap();
    }
    symlink("new target", root.join("source/link")).unwrap();
    symlink("old target", root.join("target/source/link")).unwrap();
}

fn copy(program: &CopyProgram, root: &Path, options: &[&str]) -> (Option<i32>, String) {
    let source = if options.contains(&"-p") { "source/0" } else { "source" };
    let target = if options.contains(&"-p") { "target/source" } else { "target" };
    let outcome = program.run().args(options).args([source, target]).in_folder(root).finish().unwrap();
    (outcome.status(), outcome.errors())
}

/// To a user, a copy with `--atomic` differs from one without in the file's number only.
#[test]
fn replaced_files_look_like_overwritten_ones() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::on_disk().unwrap();
    let [plain, atomic] = ["plain", "atomic"].map(|name| sandbox.join(name));
    for line in LINES {
        build(&plain);
        build(&atomic);
        let before = fs::metadata(atomic.join("target/source/0")).unwrap().ino();
        let expected = copy(&ours, &plain, line);
        let found = copy(&ours, &atomic, &[line, &["--atomic"]].concat());
        assert_eq!(found, expected, "{line:?}");
        let facts = Facts::CONTENT | Facts::MODE | Facts::OWNER | Facts::ATTRIBUTES;
        let differences =
            compare::compare_paths(&plain.join("target"), &atomic.join("target"), facts).unwrap();
        assert!(differences.is_empty(), "{line:?}: {differences}");
        if !line.contains(&"-au") {
            assert_ne!(fs::metadata(atomic.join("target/source/0")).unwrap().ino(), before, "{line:?}");
        }
    }
    assert!(!read_attributes(&atomic.join("target/source/1")).unwrap().is_empty());
}

/// A user may write to a file of somebody else, but can't make another one like it.
#[test]
fn what_cannot_be_kept_is_refused_before_anything_is_copied() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::on_disk().unwrap();
    fs::write(sandbox.join("source"), "new").unwrap();
    fs::write(sandbox.join("old"), "old").unwrap();
    fs::hard_link(sandbox.join("old"), sandbox.join("other")).unwrap();
    fs::write(sandbox.join("alone"), "old").unwrap();
    symlink("alone", sandbox.join("link")).unwrap();
    let refused = |target: &str, options: &[&str]| {
        let run = ours.run().arg("--atomic").args(options).args(["source", target]);
        let outcome = run.in_folder(sandbox.path()).finish().unwrap();
        assert_eq!(outcome.status(), Some(1), "{target}");
        outcome.errors()
    };
    let said = refused("old", &[]);
    assert!(said.ends_with("not replacing 'old' atomically, as it has other hard links\n"), "{said}");
    let said = refused("link", &[]);
    assert!(said.ends_with("not replacing 'link' atomically, as it is a symbolic link\n"), "{said}");
    for option in ["--backup", "--attributes-only"] {
        let said = refused("alone", &[option]);
        assert!(said.contains("--atomic") && said.contains(option), "{said}");
    }
    for name in ["old", "other", "alone", "link"] {
        assert_eq!(fs::read_to_string(sandbox.join(name)).unwrap(), "old", "{name}");
    }
    // With --remove-destination the name alone is replaced, as without --atomic.
    let replace = |target: &str| {
        let run = ours.run().args(["-v", "--atomic", "--remove-destination", "source", target]);
        let outcome = run.in_folder(sandbox.path()).succeed().unwrap();
        assert_eq!(outcome.printed(), format!("removed '{target}'\n'source' -> '{target}'\n"));
        assert_eq!(fs::read_to_string(sandbox.join(target)).unwrap(), "new");
    };
    replace("old");
    replace("link");
    assert_eq!(fs::read_to_string(sandbox.join("other")).unwrap(), "old");
    assert_eq!(fs::read_to_string(sandbox.join("alone")).unwrap(), "old");
    assert!(!fs::symlink_metadata(sandbox.join("link")).unwrap().is_symlink());
}

#[test]
fn a_file_of_another_user_is_not_replaced_by_ones_own() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root());
    let sandbox = Sandbox::in_memory().unwrap();
    fs::set_permissions(sandbox.path(), Permissions::from_mode(0o777)).unwrap();
    let ours = ours.publish(sandbox.path()).unwrap();
    fs::write(sandbox.join("source"), "new").unwrap();
    fs::write(sandbox.join("old"), "old").unwrap();
    fs::set_permissions(sandbox.join("old"), Permissions::from_mode(0o666)).unwrap();
    let run = ours.run().args(["--atomic", "source", "old"]).in_folder(sandbox.path()).as_nobody();
    let outcome = run.finish().unwrap();
    assert_eq!(outcome.status(), Some(1));
    assert!(outcome.errors().contains("cannot replace 'old' atomically"), "{}", outcome.errors());
    assert_eq!(fs::read_to_string(sandbox.join("old")).unwrap(), "old");
    let left = fs::read_dir(sandbox.path()).unwrap().filter(|entry| {
        entry.as_ref().is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with(super::TEMPORARY))
    });
    assert_eq!(left.count(), 0);
}

/// Whichever descriptor can't be closed: nothing is left of the copy but the copy.
#[test]
fn a_failed_close_leaves_no_temporary_name() {
    let ours = program!();
    require!(ours.needs_haul(), needs::tool("strace"));
    let strace = needs::find_tool("strace").unwrap();
    let mut replacements_refused = 0;
    for number in 1..40 {
        let sandbox = Sandbox::in_memory().unwrap();
        sandbox.script("mkdir s t; echo new >s/a; echo old >t/a").unwrap();
        let inject = format!("inject=close:error=EIO:when={number}");
        let arguments = ["-f", "-qq", "-o", "/dev/null", "-e", "trace=close", "-e", &inject, "--"];
        let run = ours.run().args(["-rT", "--jobs=1", "--engine=sync", "--atomic", "--fsync", "s", "t"]);
        let run = run.in_folder(sandbox.path()).behind(&strace, arguments.map(OsString::from).to_vec());
        let errors = run.finish().unwrap().errors();
        replacements_refused += usize::from(errors.contains("cannot replace 't/a' atomically"));
        assert_eq!(temporary_names(&contents(&sandbox.join("t"))), 0, "close {number}: {errors}");
    }
    assert!(replacements_refused > 0);
}

/// Nothing can be renamed or removed there.
#[test]
fn in_an_append_only_directory_nothing_is_left_without_a_word() {
    let ours = program!();
    require!(ours.needs_haul(), needs::loop_mount("ext4"), needs::tool("chattr"));
    let mount = Mount::image("ext4", 64 << 20).unwrap();
    let target = mount.join("t");
    let make = "mkdir s; head -c 3000000 /dev/zero >s/g; ln -s new s/link
        mkdir $T; echo old >$T/g; ln -s old $T/link; chattr +a $T";
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox.script(&make.replace("$T", &target.display().to_string())).unwrap();
    let was_left = |errors: &str| {
        let names = fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = names.filter_map(|name| name.into_string().ok()).collect();
        let left = left.into_iter().filter(|name| name.starts_with(".haul-"));
        left.inspect(|name| assert!(errors.contains(name), "{name}: {errors}")).count()
    };
    for words in
        [["sync"].as_slice(), &["cp", "-rT", "--atomic"], &["cp", "-rT", "--remove-destination", "--atomic"]]
    {
        fs::remove_file(sandbox.join("s/link")).unwrap_or_default();
        let run = TestRun::new(ours.path()).args(words).arg("s").arg(&target).in_folder(sandbox.path());
        let outcome = run.finish().unwrap();
        let errors = outcome.errors();
        assert!(
            outcome.status() == Some(1) && errors.contains("Operation not permitted"),
            "{words:?}: {errors}"
        );
        assert_eq!(was_left(&errors), 0, "{words:?}: {errors}");
        assert_eq!(fs::read(target.join("g")).unwrap(), b"old\n");
    }
    // A link has no content that would have been copied for nothing: it is made first.
    sandbox.script("ln -s new s/link; rm s/g").unwrap();
    let run = TestRun::new(ours.path()).args(["sync", "s"]).arg(&target).in_folder(sandbox.path());
    let errors = run.finish().unwrap().errors();
    assert_eq!(was_left(&errors), 1, "{errors}");
    assert!(errors.contains("cannot remove"), "{errors}");
}

/// Until a large file has its name, that is free for the backup of another.
#[test]
fn a_new_file_never_replaces_the_backup_of_another() {
    let ours = program!();
    require!(ours.needs_haul());
    for (backup, options) in [("f~", "-rb"), ("f.~1~", "-r --backup=numbered")] {
        for _ in 0..5 {
            let sandbox = Sandbox::in_memory().unwrap();
            let make =
                format!("mkdir s t; head -c 40000000 /dev/zero >s/{backup}; echo new >s/f; echo old >t/f");
            sandbox.script(&make).unwrap();
            let run = ours.run().args(options.split(' ')).arg("-j2");
            let run = run.args([&format!("s/{backup}"), "s/f", "t"]).in_folder(sandbox.path());
            run.succeed().unwrap();
            let found = contents(&sandbox.join("t"));
            let old = found.values().filter(|content| *content == b"old\n").count();
            assert_eq!(old, 1, "{options}: {:?}", found.keys());
        }
    }
}
