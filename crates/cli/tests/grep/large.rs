//! Files that all workers search in pieces: line numbers, context and limits cross the boundaries.

use std::fmt::Write as _;
use std::path::Path;

use haul_testkit::require;

use super::{Scene, needs_gnu};

/// Writes a file of some twenty pieces: short lines, optionally one line that spans several pieces,
/// and rare clusters of matches.
fn write(scene: &Scene, name: &str, long_line: bool, end: &[u8]) {
    let mut text = String::new();
    for line in 0..600_000_u32 {
        let word = if line % 9_973 < 3 { "needle" } else { "hay" };
        writeln!(text, "{line} {word} {}", line.wrapping_mul(2_654_435_761) % 97).unwrap();
        if long_line && line == 100_000 {
            text.push_str(&"long needle ".repeat(200_000));
            text.push('\n');
        }
    }
    let text = [text.as_bytes(), end].concat();
    assert!(text.len() > 8_000_000, "{}", text.len());
    std::fs::write(scene.path().join(name), text).unwrap();
}

#[test]
fn pieces_come_to_the_same_as_the_whole() {
    require!(needs_gnu());
    let scene = Scene::new();
    write(&scene, "large", true, b"the needle without an end");
    write(&scene, "other", true, b"");
    for words in [
        "-c needle large",
        "-n needle large",
        "-nb -A3 -B2 needle large",
        "-no needle large",
        "-vc hay large",
        "-m7 -n -C1 needle large",
        "-m2 -v hay large",
        "-l needle large",
        "-L needle large",
        "-q needle large",
        "-c needle large other",
        "-n needle large other",
        "-B99999 -m31 1.*needle large",
        "-A70000 -m1 needle large",
        "-ob 99.*needle large other",
        "-c ^ large",
        "-vn -A1 hay large other",
        "-c -z needle large",
    ] {
        scene.same(words, false);
    }
}

#[test]
fn a_line_is_read_a_few_times_however_long_it_is() {
    require!(needs_gnu());
    let scene = Scene::of(
        "{ echo a b; head -c 30000000 /dev/zero | tr '\\0' a; echo b; echo a b; } > line; \
         { head -c 20000000 /dev/zero | tr '\\0' a; } > unended; yes 'some words' | head -c 20000000 > words",
    );
    for words in
        ["-c b line", "-c x line", "-c a unended", "-zc words words", "-zc nothing words", "-nob b line"]
    {
        scene.same(words, false);
    }
    // The kernel adds the reads of a child to those of its parent once it has been waited for.
    let counted = |script: &str| -> u64 {
        let script = format!("{script}; read -r name bytes < /proc/$$/io; echo $name $bytes");
        let outcome = scene.run(Path::new("/bin/bash"), ["-c", &script]).env("LC_ALL", "C").finish().unwrap();
        let printed = outcome.printed();
        let bytes = printed
            .lines()
            .find_map(|line| line.strip_prefix("rchar: "))
            .unwrap_or_else(|| panic!("{printed}"));
        bytes.parse().unwrap()
    };
    let program = super::haul();
    let most = [
        ("-c b line", 3 * 30_000_000),
        ("-zc nothing words", 3 * 20_000_000),
        ("-c b < line", 2 * 30_000_000),
    ];
    for (words, most) in most {
        let bytes = counted(&format!("{} grep {words}", program.display()));
        assert!((20_000_000..most + (1 << 20)).contains(&bytes), "{words}: {bytes}");
    }
    let outcome = scene.haul(["-c", "b", "line"], "C").finish().unwrap();
    assert!(outcome.peak_bytes < 150 << 20, "{}", outcome.peak_bytes);
}

#[test]
fn a_late_nul_makes_a_file_binary_where_gnu_grep_sees_it() {
    require!(needs_gnu());
    let scene = Scene::new();
    // A long line would make GNU grep grow its buffer.
    write(&scene, "large", false, b"the needle\0in a binary\0needle\nneedle\n");
    for words in [
        "-n needle large",
        "-c needle large",
        "-a needle large",
        "-v hay large",
        "-m3 needle large",
        "-I needle large",
    ] {
        scene.same(words, false);
    }
}

#[test]
fn large_files_in_a_tree_are_whole() {
    let scene = Scene::new();
    std::fs::create_dir(scene.path().join("t")).unwrap();
    for name in ["t/1", "t/2", "t/3"] {
        write(&scene, name, true, b"");
    }
    scene.same("-rn needle t", true);
    let found = scene.haul(["-r", "hay", "t", "-j4"], "C").finish().unwrap().printed();
    let mut files: Vec<&str> = found.lines().map(|line| line.split(':').next().unwrap()).collect();
    files.dedup();
    assert_eq!(files.len(), 3, "results of files are mixed: {files:?}");
}

#[test]
fn deserts_of_nuls_are_no_lines_of_any_length() {
    require!(needs_gnu());
    let scene = Scene::of(
        "{ echo first needle; printf 'a needle'; } > holes; truncate -s 20M holes; \
         printf 'needle\\0needle' >> holes; cp --sparse=never holes nuls; \
         { echo needle; printf needle; } > late; truncate -s 3G late; echo needle >> late",
    );
    for words in [
        "-c needle holes nuls",
        "-vc needle holes nuls",
        "-c ^ holes",
        "-n needle nuls",
        "-l t$ holes",
        "-c needle late",
    ] {
        scene.same(words, false);
    }
}
