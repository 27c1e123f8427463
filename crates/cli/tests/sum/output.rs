//! Formats, the file of `--output`, and command lines that make no sense.

use std::fs;

use haul_testkit::mount::Mount;
use haul_testkit::{needs, require};

use super::{ODD_NAMES, Scene, TREE};

#[test]
fn what_is_written_in_any_format_is_checked() {
    let scene = Scene::of(TREE);
    scene.script(ODD_NAMES);
    for format in ["b3sum", "bsd", "json"] {
        for hash in ["blake3", "xxh128", "xxh64", "sha256", "md5"] {
            scene.script(&format!(
                "$HAUL sum --manifest-format={format} --hash={hash} -o SUMS t; $HAUL sum -c --hash={hash} --strict SUMS > out; \
                 test $(grep -c 'OK$' out) = $(find t -type f | tr -cd '\\n' | wc -c || true) || test $(grep -c 'OK$' out) -ge 25"
            ));
        }
    }
    scene.script("rm -r t; mkdir -p t/ä; printf x > $'t/ä/a\\nb'; printf y > 't/<&>'; $HAUL sum --manifest-format=mhl --hash=xxh64 -o M.mhl t");
    assert_eq!(scene.script("$HAUL sum -c M.mhl"), "t/<&>: OK\n\\t/ä/a\\nb: OK\n");
    scene.script("printf z > $'t/\\377'");
    let outcome = scene.shell("$HAUL sum --manifest-format=mhl --hash=xxh64 -o M.mhl t");
    assert_eq!(outcome.status(), Some(1));
    assert_eq!(outcome.errors(), "haul sum: 't/'$'\\377': cannot be listed in an MHL file\n");
    assert_eq!(scene.script("$HAUL sum -c --quiet M.mhl"), "");
}

#[test]
fn the_output_is_replaced_whole_and_is_not_listed() {
    let scene = Scene::of("mkdir t; echo a > t/a; echo old > t/SUMS; chmod 640 t/SUMS");
    for _ in 0..2 {
        scene.script("$HAUL sum -o t/SUMS t; $HAUL sum -c --quiet t/SUMS; test $(wc -l < t/SUMS) = 1; test $(stat -c %a t/SUMS) = 640");
        assert_eq!(scene.script("ls -A t"), "SUMS\na\n");
    }
    let outcome = scene.summed("-o SUMS t/a missing");
    assert_eq!(outcome.status(), Some(1));
    assert_eq!(scene.script("wc -l < SUMS"), "1\n");
}

/// By whatever name it is reached: its hash would be that of what it replaces.
#[test]
fn the_output_is_not_listed_under_other_names() {
    let scene = Scene::of(
        "mkdir t t/d; echo a > t/a; echo old > t/SUMS; ln -s SUMS t/link; ln -s t/SUMS link; ln -s t tree; ln -s . t/here; \
         ln t/SUMS t/hard; ln t/SUMS t/d/SUMS; cp -a t copy",
    );
    let told = |name: &str| format!("haul sum: warning: leaving out '{name}', as haul is writing to it\n");
    for (words, left_out, listed) in [
        ("-o t/SUMS t", &[][..], "t/a t/d/SUMS t/hard "),
        ("-L -o t/SUMS t/link t/a", &["t/link"], "t/a "),
        ("-o t/SUMS link t/a", &["link"], "t/a "),
        ("-o t/SUMS tree/SUMS t/a", &["tree/SUMS"], "t/a "),
        ("-o tree/SUMS t/d/../SUMS t/a t/hard", &["t/d/../SUMS"], "t/a t/hard "),
        ("-o t/SUMS t/SUMS", &["t/SUMS"], ""),
    ] {
        scene.script("rm -r t; cp -a copy t");
        let outcome = scene.summed(words);
        let errors: String = left_out.iter().map(|name| told(name)).collect();
        assert_eq!((outcome.status(), outcome.errors()), (Some(0), errors), "{words}");
        let names = scene.script("sed 's/.*  //' t/SUMS | tr '\\n' ' '");
        assert_eq!(names, listed, "{words}");
        scene.script("[ ! -s t/SUMS ] || $HAUL sum -c --quiet t/SUMS");
    }
}

#[test]
fn an_output_that_cannot_be_written_is_an_error_and_leaves_nothing() {
    let scene = Scene::of("echo a > a; mkdir d; echo kept > kept; ln -s kept link");
    for (path, errors) in [
        ("link", "haul sum: cannot write 'link': not a regular file\n"),
        ("d", "haul sum: cannot write 'd': not a regular file\n"),
        ("/dev/full", "haul sum: cannot write '/dev/full': not a regular file\n"),
        ("d/", "haul sum: cannot write 'd/': Is a directory\n"),
        ("no/where", "haul sum: cannot write 'no/where': No such file or directory\n"),
        ("a/b", "haul sum: cannot write 'a/b': Not a directory\n"),
    ] {
        let outcome = scene.summed(&format!("-o {path} a"));
        assert_eq!(
            (outcome.status(), outcome.errors().as_str(), outcome.printed().as_str()),
            (Some(1), errors, "")
        );
    }
    assert_eq!(scene.script("ls -A; cat kept"), "a\nd\nkept\nlink\nkept\n");
    let full = scene.shell("$HAUL sum a > /dev/full");
    assert_eq!(
        (full.status(), full.errors().as_str()),
        (Some(1), "haul sum: write error: No space left on device\n")
    );
    require!(needs::root());
    scene.script("chmod 711 .; chmod 755 d; chmod 644 a");
    let outcome = scene.sum(["-o", "d/SUMS", "a"]).as_nobody().finish().unwrap();
    assert_eq!(
        (outcome.status(), outcome.errors().as_str()),
        (Some(1), "haul sum: cannot write 'd/SUMS': Permission denied\n")
    );
}

#[test]
fn a_full_disk_keeps_the_old_output() {
    require!(needs::root());
    let scene = Scene::of("mkdir t; for n in $(seq 1 4000); do : > t/$n; done");
    let disk = Mount::memory(128 << 10).unwrap();
    let sums = disk.join("SUMS");
    fs::write(&sums, "old").unwrap();
    let outcome = scene.sum(["-o".as_ref(), sums.as_os_str(), "t".as_ref()]).finish().unwrap();
    let expected = format!("haul sum: cannot write '{}': No space left on device\n", sums.display());
    assert_eq!((outcome.status(), outcome.errors()), (Some(1), expected));
    assert_eq!(fs::read(&sums).unwrap(), b"old");
    assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 1);
}

#[test]
fn a_signal_leaves_no_temporary_file() {
    let scene = Scene::of("mkfifo fifo; mkdir d");
    let outcome = scene.shell(
        "$HAUL sum -o d/SUMS fifo & pid=$!; exec 3> fifo; while [ -z \"$(ls -A d)\" ]; do sleep 0.01; done; kill -TERM $pid; wait $pid; \
         echo $?; ls -A d",
    );
    assert_eq!(outcome.printed(), "143\n");
}

#[test]
fn lines_that_make_no_sense_are_refused() {
    let scene = Scene::of("echo a > a");
    for (words, error) in [
        ("--quiet a", "option '--quiet' has no effect without '--check'"),
        ("--ignore-missing a", "option '--ignore-missing' has no effect without '--check'"),
        ("-w a", "option '--warn' has no effect without '--check'"),
        ("-c --tag a", "option '--tag' has no effect with '--check'"),
        ("-c -z a", "option '--zero' has no effect with '--check'"),
        ("-c -o x a", "option '--output' has no effect with '--check'"),
        ("-c -L a", "option '--dereference' has no effect with '--check'"),
        (
            "-z --manifest-format=mhl --hash=md5 a",
            "option '--zero' has no effect with '--manifest-format=mhl'",
        ),
        ("--tag --manifest-format=json a", "options --tag and --manifest-format are mutually exclusive"),
        ("--manifest-format=mhl a", "an MHL file cannot have blake3 hashes: use --hash=xxh128, xxh64 or md5"),
        (
            "--manifest-format=mhl --hash=sha256 a",
            "an MHL file cannot have sha256 hashes: use --hash=xxh128, xxh64 or md5",
        ),
        ("--hash=sha1 a", "invalid argument 'sha1' for '--hash'"),
    ] {
        let outcome = scene.summed(words);
        assert_eq!(outcome.status(), Some(1), "{words}");
        assert!(
            outcome.errors().starts_with(&format!("haul sum: {error}\n")),
            "{words}: {}",
            outcome.errors()
        );
        assert!(outcome.printed().is_empty());
    }
}
