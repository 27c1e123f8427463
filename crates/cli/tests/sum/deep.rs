//! Manifests of trees whose paths no system call accepts.

use std::fs;

use super::Scene;

/// Two halves of a path that is longer than `PATH_MAX` as a whole.
const TREE: &str = "n=$(printf '%0250d' 1); p=$n; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13; do p=$p/$n; done
    mkdir -p t/$p half/$p; echo 1 > t/$p/1; echo 2 > half/$p/2; mv half t/$p";

#[test]
fn a_manifest_of_a_deep_tree_is_checked_and_compared() {
    let scene = Scene::of(TREE);
    for format in ["b3sum", "bsd", "json"] {
        scene.script(&format!("$HAUL sum --manifest-format={format} -o M t"));
        let outcome = scene.summed("-c --strict M");
        assert!(outcome.succeeded(), "{format}: {}", outcome.errors());
        assert_eq!(outcome.printed().matches(": OK\n").count(), 2, "{format}");
        let outcome = scene.applet("cmp", ["--manifest=M", "t"]).finish().unwrap();
        assert_eq!((outcome.status(), outcome.printed()), (Some(0), String::new()), "{}", outcome.errors());
    }
}

/// Nobody has read the file that it lists, whatever else is right.
#[test]
fn a_line_that_is_too_long_fails_the_check() {
    let scene = Scene::of("echo 1 > good; $HAUL sum good > M");
    let mut manifest = fs::read(scene.path().join("M")).unwrap();
    let hash = manifest[..64].to_vec();
    manifest.extend([&hash[..], b"  ", &vec![b'x'; (64 << 20) + 1], b"\n"].concat());
    scene.write("M", &manifest);
    let outcome = scene.summed("-c M");
    assert_eq!(outcome.status(), Some(1));
    assert_eq!(
        (outcome.printed().as_str(), outcome.errors().as_str()),
        ("good: OK\n", "haul sum: M: 2: the line is too long\n")
    );
}
