//! The same lines as other programs print, and each checks what the other wrote.

use haul_testkit::{needs, require};

use super::{ODD_NAMES, Scene, TREE, sorted_lines};

/// Compares with a program that is given every regular file of the tree.
fn alike(scene: &Scene, program: &str, hash: &str) {
    let theirs = scene.shell(&format!("find t -type f -print0 | xargs -0 {program}"));
    let ours = scene.summed(&format!("--hash={hash} t"));
    assert!(ours.succeeded() && theirs.succeeded(), "{}{}", ours.errors(), theirs.errors());
    let end = if program.ends_with("-z") { 0 } else { b'\n' };
    assert_eq!(sorted_lines(&ours.stdout, end), sorted_lines(&theirs.stdout, end), "{program}");
}

#[test]
fn coreutils_prints_and_checks_the_same() {
    let scene = Scene::of(TREE);
    scene.script(ODD_NAMES);
    for (program, hash) in [("sha256sum", "sha256"), ("md5sum", "md5")] {
        alike(&scene, program, hash);
        alike(&scene, &format!("{program} --tag"), &format!("{hash} --tag"));
        alike(&scene, &format!("{program} -z"), &format!("{hash} -z"));
        for form in ["", "--tag"] {
            // Up to 9.1, what `-c` prints escapes only names with a line feed.
            scene.script(&format!(
                "$HAUL sum --hash={hash} {form} -o SUMS t; {program} -c --quiet SUMS; \
                 find t -type f -print0 | xargs -0 {program} {form} > SUMS; $HAUL sum -c --quiet SUMS; \
                 $HAUL sum -c --quiet --hash={hash} SUMS; \
                 $HAUL sum -c SUMS | grep -v 'slash\\|cr' > ours; {program} -c SUMS | grep -v 'slash\\|cr' > theirs; cmp ours theirs"
            ));
        }
    }
}

#[test]
fn b3sum_prints_and_checks_the_same() {
    require!(needs::tool("b3sum"));
    let scene = Scene::of(TREE);
    // b3sum replaces what isn't UTF-8, and older releases don't escape a carriage return.
    scene.script(&format!("{ODD_NAMES}; rm $'t/\\377' $'t/cr\\rx'"));
    alike(&scene, "b3sum", "blake3");
    scene.script(
        "$HAUL sum -o SUMS t; b3sum -c --quiet SUMS; find t -type f -print0 | xargs -0 b3sum > SUMS; \
         $HAUL sum -c --quiet SUMS",
    );
}

#[test]
fn xxhsum_prints_and_checks_the_same() {
    require!(needs::tool("xxhsum"));
    let scene = Scene::of(TREE);
    for (program, hash) in [("xxhsum -H1", "xxh64"), ("xxhsum -H2", "xxh128")] {
        alike(&scene, program, hash);
        alike(&scene, &format!("{program} --tag"), &format!("{hash} --tag"));
        scene.script(&format!(
            "$HAUL sum --hash={hash} -o SUMS t; {program} -c -q SUMS; \
             find t -type f -print0 | xargs -0 {program} > SUMS; $HAUL sum -c --hash={hash} --quiet SUMS"
        ));
    }
}

#[test]
fn a_real_tree_comes_to_the_same() {
    let scene = Scene::new();
    let find = "find /usr/include/linux /usr/share/doc/bash -type f -print0 | xargs -0 sha256sum | LC_ALL=C sort > theirs";
    scene.script(&format!(
        "{find}; $HAUL sum --hash=sha256 /usr/include/linux /usr/share/doc/bash | LC_ALL=C sort > ours; cmp ours theirs; \
         test $(wc -l < ours) -gt 100"
    ));
}
