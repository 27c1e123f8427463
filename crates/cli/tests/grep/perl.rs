//! Perl's patterns as GNU grep takes them, as far as they are regular, and what is refused rather than taken for another.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_testkit::require;

use super::words::LOCALES;
use super::{Scene, needs_gnu, verdict};

/// Searches a text for a pattern with these options, and has both programs find the same.
fn same_parts(scene: &Scene, text: &[u8], words: &[&[u8]], locale: &str) {
    let words: Vec<_> = words.iter().map(|word| OsStr::from_bytes(word)).collect();
    fs::write(scene.path().join("text"), text).unwrap();
    let theirs = scene.run(Path::new("/usr/bin/grep"), &words, locale).arg("text").finish().unwrap();
    let ours = scene.haul(&words, locale).arg("text").finish().unwrap();
    let found = |outcome: &haul_testkit::Outcome| (outcome.status(), outcome.stdout.clone());
    assert_eq!(found(&ours), found(&theirs), "LC_ALL={locale} grep {words:?}: {:?}", verdict(&ours, false));
}

#[test]
fn what_the_engine_knows_and_perl_does_not_is_taken_as_perls() {
    require!(needs_gnu());
    let scene = Scene::new();
    let text = b"a+ab[]cz-\\x5c.& <b> b{ 1}\x0b\rb{start}_\"/%%~~c] aB\nb{,3}\n";
    let patterns = [
        r"\<b",
        r"b\>",
        r"[\<\>]+",
        r"[[]",
        r"[^[]a",
        r"[a[b]c]",
        r"[a--b]",
        r"[+--]",
        r"[--b]",
        r"[&&b]",
        r"[a&&b]",
        r"[~~b]",
        r"[a-c--e]",
        r"[]-a]",
        r"[[:a]",
        r"[a\]",
        r"[\w-]",
        r"[[:alpha:]_-]+",
        r"b{ 1}",
        r"b{,3}",
        r"b{1,a}",
        r"b{a}",
        r"b{1,2}?",
        r"\b{start}b",
        r"\v",
        r"[\v]",
        r"[^\v]+",
        r"\x41?",
        r"[\x61-c]",
        r"\/",
        r"\%",
        r"#",
        r"(?i:AB)",
        r"(?U)a+",
        r"(?P<n>a)b",
        // What is none.
        r"a**",
        r"a{1}{2}",
        r"^*a",
        r"\b+a",
        r"(?i)*a",
        r"(*)a",
        r"a{65536}",
        r"[\d-z]",
        r"[[:alpha:]-c]",
        r"[a-\d]",
        r"[:alpha:]",
        r"[.a.]",
        r"[[.b.]]",
        r"[[=b=]]",
        r"[[:foo:]]",
        r"(?u)a",
        r"\u0062",
        r"[",
        r"[]",
    ];
    for pattern in patterns {
        for (option, locale) in [("-aoP", "C.UTF-8"), ("-acwP", "C.UTF-8"), ("-aoP", "C")] {
            same_parts(&scene, text, &[option.as_bytes(), b"-e", pattern.as_bytes()], locale);
        }
    }
}

#[test]
fn what_gives_nothing_back_is_refused() {
    let scene = Scene::of("echo aab > lines");
    for pattern in ["a++ab", "a*+ab", "a?+ab", "a{2}+b", "(?x)a b", "(?R)", "[[:<:]]a"] {
        let outcome = scene.haul(["-P", pattern, "lines"], "C.UTF-8").finish().unwrap();
        assert_eq!((outcome.status(), &*outcome.printed()), (Some(2), ""), "{pattern}");
        assert!(!outcome.errors().is_empty());
    }
}

#[test]
fn bytes_are_characters_where_text_is_not_utf_8() {
    require!(needs_gnu());
    let scene = Scene::new();
    let text = b"\xd1\x8f\x8f\n\xff\n\xc3\xa9\n\x85\n";
    let patterns: [&[u8]; 8] = [
        b"^\xd1\x8f*$",
        b"\xff",
        b"[\xc3\xa9]",
        b"[^\xc3\xa9]",
        b"\\x{c3}.",
        b"\\xc3.",
        b"\\v",
        b"\xc3?\xa9",
    ];
    for pattern in patterns {
        same_parts(&scene, text, &[b"-aoP", b"-e", pattern], "C");
    }
}

#[test]
fn nothing_is_found_inside_of_a_character() {
    require!(needs_gnu());
    let scene = Scene::new();
    let text = "aéb\n日本\né é\n\n-\n".as_bytes();
    for pattern in ["", "x*", r"\B", "x*$", "^"] {
        for option in ["-nP", "-nwP", "-nxP"] {
            for locale in LOCALES {
                same_parts(&scene, text, &[b"-a", option.as_bytes(), b"-e", pattern.as_bytes()], locale);
            }
        }
    }
}

#[test]
fn newlines_in_a_line_that_ends_with_nul_are_perls() {
    require!(needs_gnu());
    let scene = Scene::new();
    let text = b"foo\nbar\nbaz\n\0a\nb\0\nb\0ab\0b\n\0\0a\r\nb\0";
    let patterns = [
        r"foo.*\nb.*",
        r"a.b",
        r"(?m)^b",
        r"(?m)a$",
        r"(?m)^ba.$",
        r"^b",
        r"b$",
        r"(?s)a.b",
        r"[^a]",
        r"\nb",
        r"(?m)^a|^b",
        r"(?m:^b)|^a",
        r"^a(?m)$",
        r"(?m)^.*$",
        r"(?m)\Ab",
        r"(?m)b\z",
        r"(?m)a$\n^b",
        r"(?m)\r$",
        r"(?i)(?m)^B",
        r"\x00",
        r"a[^x]b",
        r"(?m)^(foo|baz)$",
    ];
    for pattern in patterns {
        for option in ["-zoP", "-zP", "-zwoP", "-zxP", "-zcP"] {
            for locale in LOCALES {
                same_parts(&scene, text, &[b"-a", option.as_bytes(), b"-e", pattern.as_bytes()], locale);
            }
        }
    }
}
