//! Every attribute difference is reported if requested, and nothing else is.

use std::path::Path;

use haul_testkit::{TestRun, everything, libc, needs, require};
use serde_json::Value;

use super::{Scene, haul};

/// Change to one entry of `b`, requested attribute, and the reported line.
const CHANGES: [(&str, &str, &str); 12] = [
    ("chmod 640 b/d/f", "mode", "Files a/d/f and b/d/f differ: mode 0644, 0640"),
    ("chmod 700 b/d", "mode", "Files a/d and b/d differ: mode 0755, 0700"),
    (
        "touch -d @1.5 b/d/f",
        "timestamps",
        "Files a/d/f and b/d/f differ: modified 1000000000.000000000, 1.500000000",
    ),
    (
        "touch -h -d @7 b/l",
        "timestamps",
        "Files a/l and b/l differ: modified 1000000000.000000000, 7.000000000",
    ),
    ("setfattr -n user.k -v 2 b/d/f", "xattr", "Files a/d/f and b/d/f differ: xattr user.k"),
    ("setfattr -n user.new -v 2 b/d", "xattr", "Files a/d and b/d differ: xattr user.new of the second only"),
    ("setfattr -x user.k b/d/f", "xattr", "Files a/d/f and b/d/f differ: xattr user.k of the first only"),
    ("cp --remove-destination -p b/h1 x; mv x b/h2", "links", "Files a/h2 and b/h2 differ: hard links"),
    ("ln -f b/d/f b/d/g", "links", "Files a/d/g and b/d/g differ: hard links"),
    (
        "fallocate -p -o 65536 -l 65536 b/zeros",
        "holes",
        "Files a/zeros and b/zeros differ: holes from byte 65537",
    ),
    (
        "printf x | dd of=b/hole bs=1 seek=70000 conv=notrunc status=none",
        "holes",
        "Files a/hole and b/hole differ: byte 70001",
    ),
    ("chown 1:2 b/d/f", "ownership", "Files a/d/f and b/d/f differ: ownership 0:0, 1:2"),
];

/// A tree in which each attribute can change.
const TREE: &str = "mkdir -p a/d; printf same > a/d/f; cp a/d/f a/d/g; ln -s to a/l; echo 1 > a/h1; ln a/h1 a/h2; \
    head -c 200000 /dev/zero > a/zeros; truncate -s 200000 a/hole; setfattr -n user.k -v 1 a/d/f; \
    chmod 644 a/d/f; chmod 755 a/d; find a -exec touch -h -d @1000000000 {} +; cp -a --sparse=auto a b";

/// Returns why attributes can't be set here, if they can't.
fn needs_attributes() -> Option<String> {
    needs::root().or_else(|| needs::tool("setfattr")).or_else(|| {
        let scene = Scene::of("echo > f");
        let set = std::process::Command::new("setfattr")
            .args(["-n", "user.k", "-v", "1", "f"])
            .current_dir(scene.path())
            .status();
        (!set.is_ok_and(|status| status.success())).then(|| "needs extended attributes in memory".to_owned())
    })
}

#[test]
fn a_change_is_reported_if_it_is_asked_for() {
    require!(needs_attributes());
    for (script, attribute, told) in CHANGES {
        let scene = Scene::of(TREE);
        let equal = scene.compare("--attributes=all,holes a b");
        assert_eq!((equal.status(), equal.printed()), (Some(0), String::new()), "before {script}");
        scene.script(script);
        let outcome = scene.compare(&format!("--attributes={attribute} a b"));
        let lines = outcome.printed();
        assert!(lines.lines().any(|line| line == told), "{script}: {lines}{}", outcome.errors());
        assert_eq!(outcome.status(), Some(1), "{script}");
        if !told.contains(": byte") {
            let others = ["mode", "ownership", "timestamps", "links", "xattr", "holes"];
            let others = others.into_iter().filter(|other| *other != attribute && *other != "timestamps");
            let without = others
                .filter(|other| !(attribute == "links" && *other == "mode"))
                .collect::<Vec<_>>()
                .join(",");
            // Skip timestamps: replacing a name changes the directory's.
            let outcome = scene.compare(&format!("--attributes={without} a b"));
            assert!(!outcome.printed().contains(told), "{script}: {}", outcome.printed());
            assert_eq!(scene.compare("a b").status(), Some(0), "{script}");
        }
    }
}

#[test]
fn attributes_that_cannot_be_listed_are_not_equal() {
    require!(needs_attributes());
    let scene = Scene::of("mkdir a b; echo 1 | tee a/f >b/f; setfattr -n user.k -v 1 a/f; cp a/f g");
    let list = [libc::SYS_flistxattr, libc::SYS_listxattr, libc::SYS_llistxattr];
    for words in [["a", "b"], ["b", "a"], ["a/f", "b/f"], ["g", "b/f"]] {
        for error in [libc::ENOSYS, libc::EIO] {
            let run = scene.applet("cmp", ["--attributes=xattr"]).args(words).refusing(&list, error);
            let outcome = run.finish().unwrap();
            assert_eq!(outcome.status(), Some(2), "{words:?} {error}: {}", outcome.errors());
        }
    }
}

#[test]
fn a_copy_of_everything_is_the_same() {
    let scene = Scene::new();
    let root = scene.path().to_owned();
    everything::spec().build(&root.join("a")).unwrap();
    let copied = TestRun::new(&haul()).args(["cp", "-a", "a", "b"]).in_folder(&root).finish().unwrap();
    assert!(copied.succeeded(), "{}", copied.errors());
    for words in
        ["a b", "--attributes a b", "--attributes -j1 --engine=sync b a", "--attributes=all,holes a b"]
    {
        let outcome = scene.compare(words);
        let told = (outcome.status(), outcome.printed(), outcome.errors());
        assert_eq!(told, (Some(0), String::new(), String::new()), "{words}");
    }
    let plain = TestRun::new(&haul()).args(["cp", "-R", "a", "c"]).in_folder(&root).finish().unwrap();
    assert!(plain.succeeded(), "{}", plain.errors());
    assert_eq!(scene.compare("a c").status(), Some(0));
    assert_eq!(scene.compare("--attributes a c").status(), Some(1));
}

#[test]
fn names_that_share_files_with_the_other_tree_are_compared_as_links() {
    // Like snapshots, in which unchanged files are hard links to those of the day before.
    let scene = Scene::of(
        "mkdir a b; echo 1 > a/x; ln a/x a/y; ln a/x b/x; cp -p a/y b/y; ln -s z a/l; ln -P a/l b/l",
    );
    let outcome = scene.compare("--attributes=links a b");
    let wanted = "Files a/y and b/y differ: hard links\n";
    assert_eq!((outcome.status(), outcome.printed().as_str()), (Some(1), wanted));
    let other = scene.compare("--attributes=links b a");
    assert_eq!(
        (other.status(), other.printed().as_str()),
        (Some(1), "Files b/y and a/y differ: hard links\n")
    );
    scene.script("ln -f a/x b/y");
    assert_eq!(scene.compare("--attributes=links a b").status(), Some(0));
    assert_eq!(scene.compare("--attributes=links a a").status(), Some(0));
}

#[test]
fn what_is_in_the_second_only_has_its_place_in_the_order() {
    let scene = Scene::of("mkdir a b; echo 1 > a/f; echo 2 > b/f; touch b/g; echo 1 > a/h; echo 2 > b/h");
    let outcome = scene.compare("a/ b//");
    let wanted = "Files a/f and b/f differ: byte 1\nOnly in b//: g\nFiles a/h and b/h differ: byte 1\n";
    assert_eq!((outcome.status(), outcome.printed().as_str()), (Some(1), wanted));
}

#[test]
fn json_has_an_object_for_each_difference() {
    let scene = Scene::of(
        "mkdir a b; echo 1 > a/f; echo 2 > b/f; printf 12 > b/g; printf 1 > a/g; ln -s x a/l; ln -s y b/l; \
         touch a/$'n\\n\\xff'; mkdir b/t; touch a/t; chmod 600 a/f; chmod 644 b/f",
    );
    let outcome = scene.compare("--json --attributes=mode a b");
    let objects: Vec<Value> =
        outcome.printed().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |differ: &str| objects.iter().find(|object| object["differ"] == differ).unwrap().clone();
    assert_eq!(objects.len(), 6, "{objects:?}");
    assert_eq!((&of("content")["first"], &of("content")["byte"]), (&"a/f".into(), &1.into()));
    assert_eq!(of("mode")["values"], serde_json::json!(["0600", "0644"]));
    assert_eq!(of("size")["values"], serde_json::json!([1, 2]));
    assert_eq!(of("target")["values"], serde_json::json!(["x", "y"]));
    assert_eq!(of("only")["in"], "first");
    assert_eq!(of("only")["first"][2], 110);
    assert_eq!(of("type")["values"], serde_json::json!(["regular empty file", "directory"]));
}

#[test]
fn what_is_left_out_is_left_out_on_both_sides() {
    let scene = Scene::of("mkdir -p a/x.o b/sub; echo 1 > a/f.o; echo 2 > b/f.o; touch b/sub/only.o b/y.o");
    assert_eq!(scene.compare("a b").status(), Some(1));
    let outcome = scene.compare("-x *.o --exclude=sub a b");
    assert_eq!((outcome.status(), outcome.printed()), (Some(0), String::new()));
    let wrong = scene.compare("-x [ a b");
    assert_eq!((wrong.status(), wrong.errors().as_str()), (Some(2), "haul cmp: invalid pattern '['\n"));
}

#[test]
fn other_file_systems_are_left_out_if_that_is_asked() {
    require!(needs::root());
    let scene = Scene::of("mkdir -p a/m b/m");
    let mount = haul_testkit::mount::Mount::memory(1 << 20).unwrap();
    std::fs::write(mount.join("f"), "x").unwrap();
    let bind = |on: bool| {
        let place = scene.path().join("a/m");
        let mut command = std::process::Command::new(if on { "mount" } else { "umount" });
        if on {
            command.arg("--bind").arg(mount.path());
        }
        assert!(command.arg(&place as &Path).status().unwrap().success());
    };
    bind(true);
    let (all, some) = (scene.compare("a b"), scene.compare("--one-file-system a b"));
    bind(false);
    assert_eq!((all.status(), all.printed().as_str()), (Some(1), "Only in a/m: f\n"));
    assert_eq!(some.status(), Some(0));
}

#[test]
fn flags_that_are_repeated_count_once() {
    let scene = Scene::of("mkdir a b; echo x > a/f; echo y > b/f");
    let outcome = scene.compare("--json --json -LL -j1 -j2 a b");
    assert_eq!((outcome.status(), outcome.errors()), (Some(1), String::new()));
    assert_eq!(scene.compare("-q -q a a").status(), Some(0));
}
