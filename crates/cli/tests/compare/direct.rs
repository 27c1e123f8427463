//! Files compared from the device.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use haul_testkit::mount::Mount;
use haul_testkit::{needs, require};

use super::Scene;

/// Changes a byte of a file on the device, behind the mounted file system.
fn flip_behind(disk: &Mount, content: &[u8], at: usize) {
    let image = disk.path().parent().unwrap().join("image");
    let bytes = fs::read(&image).unwrap();
    let found = bytes.windows(64).position(|window| *window == content[at..at + 64]).unwrap();
    let file = File::options().write(true).open(&image).unwrap();
    file.write_all_at(&[bytes[found] ^ 1], found as u64).unwrap();
    file.sync_all().unwrap();
}

/// Returns content that is nowhere else on the disk.
fn content(scene: &Scene, bytes: usize) -> Vec<u8> {
    scene.script(&format!("head -c {bytes} /dev/urandom > random"));
    fs::read(scene.path().join("random")).unwrap()
}

#[test]
fn only_direct_reads_see_what_is_on_the_device() {
    require!(needs::loop_mount("ext4"));
    let scene = Scene::new();
    for (bytes, at) in [(100, 0), (4096, 4000), (300_001, 262_144), (6_000_001, 5_999_900)] {
        let disk = Mount::image("ext4", 64 << 20).unwrap();
        let content = content(&scene, bytes);
        for name in ["a/f", "b/f"] {
            fs::create_dir(disk.join(name).parent().unwrap()).unwrap();
            fs::write(disk.join(name), &content).unwrap();
        }
        let compare = |words: &[&str]| {
            let paths = ["a", "b"].map(|name| disk.join(name).display().to_string());
            scene.cmp(words.iter().copied().chain(paths.iter().map(String::as_str))).finish().unwrap()
        };
        // Also writes to the device what is still in memory only.
        let same = compare(&["--direct"]);
        assert_eq!((same.status(), same.errors().as_str()), (Some(0), ""), "{bytes}");
        flip_behind(&disk, &content, at);
        assert_eq!(compare(&[]).status(), Some(0), "{bytes}");
        let differs = compare(&["--direct"]);
        assert_eq!(differs.status(), Some(1), "{bytes}");
        assert!(differs.printed().contains(" differ: "), "{}", differs.printed());
        let files = ["a/f", "b/f"].map(|name| disk.join(name).display().to_string());
        let named = scene.cmp(["--direct", &files[0], &files[1]]).finish().unwrap();
        assert_eq!(named.status(), Some(1));
        assert!(named.printed().contains(&format!("byte {}", at + 1)), "{}", named.printed());
    }
}

#[test]
fn direct_reads_find_what_others_find() {
    let scene = Scene::on_disk(
        "mkdir a; for n in 0 1 511 512 513 4095 4096 4097 262143 262144 262145 4194303 4194304 4194305 9000001; do seq 1 9999999 | head -c $n > a/$n; done; \
         truncate -s 5000001 a/holes; printf x | dd of=a/holes bs=1 seek=3000001 conv=notrunc status=none; cp -a a b; ln -s 1 a/link; ln -s 1 b/link",
    );
    let same = scene.compare("--direct a b");
    require!(
        (same.errors().contains("past the page cache"))
            .then(|| "needs direct I/O in the temporary directory".to_owned())
    );
    assert_eq!((same.status(), same.errors().as_str(), same.printed().as_str()), (Some(0), "", ""));
    scene.script("for n in 1 513 4097 262145 4194305 9000001; do printf y | dd of=b/$n bs=1 seek=$((n-1)) conv=notrunc status=none; done; echo >> b/512; truncate -s 4000000 b/holes");
    for words in [
        "a b",
        "--attributes a b",
        "-j1 a b",
        "--json a b",
        "a/9000001 b/9000001",
        "a/holes b/holes",
        "a/512 b/512",
    ] {
        let (cached, direct) = (scene.compare(words), scene.compare(&format!("--direct {words}")));
        assert_eq!(
            (direct.status(), direct.printed(), direct.errors()),
            (Some(1), cached.printed(), cached.errors()),
            "{words}"
        );
    }
}

#[test]
fn what_cannot_be_read_from_a_device_is_trouble() {
    let scene = Scene::of("echo a > a");
    for (words, error) in [
        ("--direct a -", "haul cmp: --direct compares files and trees, not pipes or devices\n"),
        ("--direct --manifest=a .", "haul cmp: option '--direct' has no effect with '--manifest'\n"),
    ] {
        let outcome = scene.compare(words);
        assert_eq!(outcome.status(), Some(2));
        assert!(outcome.errors().starts_with(error), "{}", outcome.errors());
    }
    // A file system that has content, but no device.
    let files = Path::new("/sys/kernel/mm/transparent_hugepage/enabled");
    require!((!files.exists()).then(|| "needs sysfs".to_owned()));
    scene.script("cp /sys/kernel/mm/transparent_hugepage/enabled b");
    let outcome = scene.compare("--direct /sys/kernel/mm/transparent_hugepage/enabled b");
    assert_eq!(outcome.status(), Some(2));
    assert!(outcome.errors().contains("past the page cache"), "{}", outcome.errors());
}
