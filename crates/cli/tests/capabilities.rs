//! Root without all its capabilities, as in a container: permission decides, not the user.

#![allow(clippy::unwrap_used, clippy::panic)]

mod scene;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use haul_testkit::duel::Duel;
use haul_testkit::program::each_engine;
use haul_testkit::{CopyProgram, Facts, Release, Sandbox, needs, program, require};

use scene::Scene;

/// Sets of capabilities that root lacks.
const LACKS: [&str; 3] = ["-dac_override,-dac_read_search", "-fowner", "-all"];

/// First release seen to leave existing and inherited ACLs in place.
const LISTS_STAY: Release = Release(9, 7);

/// Scenes and the command lines that run in each.
const CASES: [(&str, &str); 9] = [
    // An existing directory that can't be read.
    (
        "mkdir -p s/d t/s; echo x >s/d/f; chmod 755 s; touch -d @5 s; chmod 300 t/s",
        "-a s t | -rp s t | -r --preserve=mode s t | -r s t",
    ),
    // One that can't be searched, with ACLs.
    (
        "mkdir -p s/d t/s/d; setfacl -m u:8:r s/d; setfacl -d -m u:7:r t/s/d; touch -d @5 s/d; chmod 0 t/s/d",
        "-a s t | -rp s t | -r --preserve=mode s t",
    ),
    ("echo x >s; chmod 0 s", "--attributes-only s t | --attributes-only -p s t | -p s t"),
    ("echo x >s; chown 7:7 s; chmod 640 s", "--attributes-only s t | --attributes-only -p s t | -p s t"),
    ("mkdir -p s t/s; setfattr -n user.k -v v s; chmod 555 t/s", "-a s t | -rp s t"),
    (
        "mkdir s t; echo a >s/a; touch -d @5 s/a; echo b >t/a; chown 7 t/a; chmod 666 t/a",
        "-p s/a t/a | -a s/a t/a | --preserve=mode s/a t/a | --preserve=timestamps s/a t/a",
    ),
    (
        "mkdir -p s/d t/d; touch -d @5 s/d; chown 7 t/d; chmod 777 t/d",
        "-a s/d t | -rp s/d t | -r --preserve=mode s/d t",
    ),
    ("echo a >s; echo b >t; chmod 444 t", "s t | -f s t"),
    // A source that can't be read.
    (
        "mkdir s; echo x >s/f; setfacl -m u::-wx,u:33:rwx,g::---,o::--- s; setfacl -d -m u:34:r s",
        "-a s t | -rp s t | -r --preserve=mode s t | -r s t",
    ),
];

#[test]
fn root_without_capabilities_copies_as_gnu_does() {
    require!(CopyProgram::needs_gnu(), needs::root(), needs::tool("setpriv"), needs::tool("setfacl"));
    let mut duel = Duel::with_gnu(program!()).unwrap();
    if duel.standard.release().is_some_and(|release| release >= LISTS_STAY) {
        duel.facts -= Facts::ATTRIBUTES;
    }
    let mut failures = Vec::new();
    for (scene, lines) in CASES {
        for line in lines.split(" | ") {
            for lacks in LACKS {
                let script = format!("{scene}\nexec setpriv --bounding-set={lacks} cp {line}");
                let verdict = duel.run_script(&|_| Ok(()), &script, &[]).unwrap();
                if !verdict.complaints.is_empty() {
                    failures.push(format!("{lacks}: {scene}; cp {line}\n{}", verdict.report()));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// As the kernel clears the bits of a file that such a process writes to.
#[test]
fn a_replaced_file_keeps_its_set_id_bits_only_if_this_process_may_set_them() {
    require!(program!().needs_haul(), needs::root(), needs::tool("setpriv"));
    for (lacks, mode) in [("-all", 0o755), ("-fsetid", 0o755), ("-dac_override", 0o4755)] {
        // Writing to the new file would clear them too.
        for (option, content) in [("", "a"), ("--atomic", "a"), ("", ""), ("--atomic", "")] {
            let scene = Scene::of(&format!("printf '{content}' >s; echo b >t; chmod 4755 t"));
            scene.script(&format!("setpriv --bounding-set={lacks} \"$HAUL\" cp {option} s t"));
            let there = fs::metadata(scene.path().join("t")).unwrap().permissions().mode();
            assert_eq!(there & 0o7777, mode, "{lacks} {option} {content:?}");
        }
    }
}

/// Without CAP_FSETID, the kernel clears them when a file is written to.
#[test]
fn preserved_set_id_bits_are_set_again_in_existing_files() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("setpriv"));
    let place = Sandbox::in_memory().unwrap();
    let ours = ours.publish(place.path()).unwrap();
    let lines = [
        "cp -a -T s t",
        "cp -af -T s t",
        "cp -r --preserve=mode -T s t",
        "cp -r --preserve=mode --atomic -T s t",
        "cp -r --preserve=mode --no-atomic -T s t",
        "cp -r --preserve=mode --sparse=always --verify -T s t",
        "cp -r --preserve=mode --resume -T s t",
        "cp -r --preserve=mode --attributes-only -T s t",
        "sync s t",
        "sync --inplace s t",
    ];
    let engines = each_engine().into_iter().map(|way| format!("cp -rp {} -T s t", way.join(" ")));
    let users =
        [("65534:65534", "--reuid=65534 --regid=65534 --clear-groups"), ("0:0", "--bounding-set=-fsetid")];
    for line in lines.map(str::to_owned).into_iter().chain(engines) {
        for (owner, limits) in users {
            let scene = Scene::of(&format!(
                "umask 022; mkdir s t; for mode in 755 2755 4755 6755 2645; do for size in 0 9 3000000; do
                    name=$mode-$size; head -c $size /dev/zero >s/$name; echo old >t/$name
                    chown {owner} s/$name t/$name; chmod $mode s/$name t/$name
                done; done; chown {owner} s t"
            ));
            scene.script(&format!("setpriv {limits} {} {line}", ours.path().display()));
            let modes = |tree: &str| scene.script(&format!("cd {tree}; stat -c '%n %a' *"));
            assert_eq!(modes("s"), modes("t"), "{limits} {line}");
        }
    }
}

/// Only the owner of a directory may set its mode then.
#[test]
fn root_without_rights_over_the_files_of_others_makes_backups() {
    require!(program!().needs_haul(), needs::root(), needs::tool("setpriv"));
    let scene = Scene::of(
        "mkdir -p s/d t/d; echo new >s/d/f; echo older >t/d/f; chmod 2775 t/d; chown -R 7:8 s/d t/d",
    );
    let outcome = scene.shell("setpriv --bounding-set=-fowner \"$HAUL\" sync --backup-dir=../kept s t");
    assert!(!outcome.errors().contains("cannot backup"), "{}", outcome.errors());
    assert_eq!(scene.script("cat kept/d/f; stat -c '%a %u:%g' kept/d"), "older\n2775 7:8\n");
}

#[test]
fn root_without_capabilities_keeps_trees_equal() {
    require!(program!().needs_haul(), needs::root(), needs::tool("setpriv"), needs::tool("setcap"));
    for (scene, lacks, line) in [
        ("mkdir -p s/d t/d; echo 1 >s/d/f; chmod 555 s/d t/d", "-dac_override", "s t"),
        (
            "mkdir -p s/d t/d; echo 1 >s/d/f; chmod 755 s/d; chmod 0 t/d",
            "-dac_override,-dac_read_search",
            "s t",
        ),
        // What can't be set is no difference.
        ("mkdir s; echo 1 >s/f; setcap cap_chown=p s/f", "-setfcap", "s t"),
        ("mkdir s; echo 1 >s/f; setfattr -n security.k -v v s/f", "-sys_admin", "s t"),
        // Nor does a backup depend on its owner.
        (
            "mkdir -p s/d t/d; echo 1 >t/d/f; echo 22 >s/d/f; chmod 777 t/d; chown 7:7 t/d",
            "-chown",
            "--no-preserve=ownership --backup-dir=../kept s t",
        ),
    ] {
        let scene = Scene::of(scene);
        let sync = format!("setpriv --bounding-set={lacks} \"$HAUL\" sync -i {line}");
        assert!(!scene.script(&sync).is_empty(), "{lacks}");
        assert_eq!(scene.script("diff -r s t"), "");
        assert_eq!(scene.script(&sync), "", "{lacks}");
    }
}

/// In a user namespace capabilities don't reach files whose group has no number there.
#[test]
fn capabilities_of_a_user_namespace_are_not_enough() {
    require!(program!().needs_haul(), needs::root(), needs::tool("setpriv"), needs::tool("unshare"));
    let folder = Sandbox::in_memory().unwrap();
    let ours = program!().publish(folder.path()).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let namespace = format!(
        "setpriv --reuid=65534 --regid=65534 --groups=65534,2000 unshare --map-root-user {}",
        ours.path().display()
    );
    for (mode, line) in [("555", "sync"), ("555", "sync --delete"), ("0", "sync"), ("0", "sync --delete")] {
        let scene = Scene::of(
            "mkdir -p s/d t/d; echo 1 >s/d/f; echo 2 >t/d/extra; chown -R 65534:65534 .; chgrp 2000 t/d",
        );
        scene.script(&format!("chmod {mode} t/d"));
        assert_eq!(scene.script(&format!("{namespace} {line} s t")), "", "{mode} {line}");
        let extra = if line.contains("delete") { "" } else { "extra\n" };
        assert_eq!(scene.script("ls t/d"), format!("{extra}f\n"), "{mode} {line}");
    }
}
