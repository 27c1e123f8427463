//! Character classes and words as in the C library and GNU grep: beyond ASCII, and for patterns
//! that may match nothing.

use haul_testkit::{RunOutcome, require};

use super::{Scene, needs_gnu, verdict};

pub(super) const LOCALES: [&str; 2] = ["C", "C.UTF-8"];

/// Runs both programs with `words`, asserts the same result, and returns haul's outcome.
pub(super) fn same(scene: &Scene, words: &[&str], locale: &str) -> RunOutcome {
    let theirs = scene.gnu(words, locale).finish().unwrap();
    let ours = scene.haul(words, locale).finish().unwrap();
    assert_eq!(verdict(&ours, false), verdict(&theirs, false), "LC_ALL={locale} grep {words:?}");
    ours
}

#[test]
fn classes_have_the_c_librarys_characters() {
    require!(needs_gnu());
    let scene = Scene::new();
    // Blocks that Unicode hasn't changed for long: Latin, spaces and marks, titlecase letters, and
    // some other scripts.
    let blocks = [0x20..=0x7e, 0xa0..=0x2ff, 0x300..=0x33f, 0x410..=0x44f, 0x660..=0x669, 0x1f88..=0x1faf];
    let others = [0x2000..=0x206f, 0x2160..=0x2182, 0x3000..=0x3020, 0x4e00..=0x4e10, 0xe000..=0xe002];
    let characters = blocks.into_iter().chain(others).flatten().filter_map(char::from_u32);
    let lines: String = characters.map(|character| format!("{character}\n")).collect();
    std::fs::write(scene.path().join("characters"), lines).unwrap();
    for name in
        "alpha digit alnum upper lower space blank punct graph print cntrl xdigit".split_ascii_whitespace()
    {
        for pattern in [format!("[[:{name}:]]"), format!("[^[:{name}:]]")] {
            for option in ["-n", "-ni"] {
                same(&scene, &[option, &pattern, "characters"], "C.UTF-8");
            }
        }
    }
    for pattern in ["\\w", "\\W", "\\s", "\\S"] {
        same(&scene, &["-n", pattern, "characters"], "C.UTF-8");
    }
}

#[test]
fn words_are_made_of_the_c_librarys_letters() {
    require!(needs_gnu());
    let scene = Scene::new();
    let lines = "e\u{301}\néfoo\nfoo\u{301}\nfoo\u{203f}bar\nfoo\u{a0}bar\n日foo\nfoo٣\nfoo_\nx foo\n";
    std::fs::write(scene.path().join("lines"), lines).unwrap();
    for words in [
        &["-nw", "foo"][..],
        &["-now", "foo\\|e"],
        &["-nwv", "e"],
        &["-nwE", "(o)\\1|(f)oo"],
        &["-nwF", "-e", "foo", "-e", "e"],
        &["-nwP", "foo"],
        &["-nwE", "f?o*|e"],
    ] {
        for locale in LOCALES {
            same(&scene, &[words, &["-a", "lines"]].concat(), locale);
        }
    }
    let found = same(&scene, &["-cw", "foo", "lines"], "C.UTF-8");
    assert_eq!(found.printed(), "4\n");
}

#[test]
fn words_that_can_be_empty_are_gnu_greps() {
    require!(needs_gnu());
    let scene = Scene::new();
    let lines = [
        "", " ", "ab", "ab ", " ab", "a", "aa b", "b aa", "b  c", "b c", "éa", "a-b", "xay", "-", "ab-", "_",
    ];
    let lines = lines.map(|line| format!("{line}\n")).concat();
    std::fs::write(scene.path().join("lines"), lines).unwrap();
    let patterns: [&[&str]; 14] = [
        &["a*"],
        &[""],
        &["x*"],
        &["a?b?"],
        &["(a|ab)*"],
        &["(ab)*-?"],
        &["^"],
        &["a*", "-e", "b*"],
        &["", "-e", "c"],
        &["(a|b|x)\\1*"],
        &["(a?)\\1"],
        &["(-a)?"],
        &["(-a)?", "-e", "(b)\\1"],
        &["(-a)?", "-e", "(b)\\1", "-e", "( )?"],
    ];
    for pattern in patterns {
        for options in ["-n", "-on", "-vn", "-c", "-xn", "-in"] {
            for locale in LOCALES {
                same(&scene, &[&["-Ew", options, "-e"][..], pattern, &["lines"]].concat(), locale);
            }
        }
    }
}

#[test]
fn what_can_select_nothing_looks_at_no_file() {
    require!(needs_gnu());
    let scene = Scene::of("echo a > a; : > none");
    for words in [
        "-vc  a missing",
        "-v  -e  missing",
        "-vL  a",
        "-vcx  a",
        "-vcw  a",
        "-c -f none missing",
        "-cw -f none a",
        "-L -f none a",
        "-vc -f none a",
    ] {
        let words: Vec<_> = words.split(' ').collect();
        same(&scene, &words, "C.UTF-8");
    }
}
