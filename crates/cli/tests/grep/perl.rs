//! Perl patterns, compared with GNU grep: both use PCRE2, so lines, matched parts and messages
//! must match.
//!
//! Excluded are differences between the PCRE2 of Debian 12 (10.42) and ours: `{,2}`, spaces in
//! `{}`, look-behind of variable length, and negated classes beside non-ASCII characters, which
//! 10.42 misses (its issue 224).

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_testkit::require;

use super::words::LOCALES;
use super::{Scene, needs_gnu, verdict};

/// Searches a text with these options and pattern, and asserts that both programs find the same.
fn same_parts(scene: &Scene, text: &[u8], words: &[&[u8]], locale: &str) {
    let words: Vec<_> = words.iter().map(|word| OsStr::from_bytes(word)).collect();
    fs::write(scene.path().join("text"), text).unwrap();
    let theirs = scene.gnu(&words, locale).arg("text").finish().unwrap();
    let ours = scene.haul(&words, locale).arg("text").finish().unwrap();
    let found = |outcome: &haul_testkit::RunOutcome| (outcome.status(), outcome.stdout.clone());
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
        // Invalid patterns.
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
fn what_is_not_regular_matches_as_by_gnu_grep() {
    require!(needs_gnu());
    let scene = Scene::new();
    let text = "a+ab foobar foo bar aab abab xyzzy\nb1 \t2 éa Ωδ日本 ſK k ٣\n\n  (a(b)c) \"q\" a.b a*b\nABC abc\nend";
    let patterns = [
        r"foo(?=bar)",
        r"foo(?!bar)",
        r"(?<=foo)bar",
        r"(?<!foo)bar",
        r"(?<=^a)\+",
        r"(?<=é)a",
        r"(a)(b)\1\2",
        r"(.)\1",
        r"(?<n>a)b\k<n>",
        r"(?P<n>a)b(?P=n)",
        r"foo\Kbar",
        r"a++b",
        r"a*+b",
        r"a?+ab",
        r"a{2}+b",
        r"(?>a+)b",
        r"\Qa.b\E",
        r"(?x) f o o",
        r"(?#c)a",
        r"\h+",
        r"\R",
        r"\X",
        r"\N+",
        r"\p{Greek}+",
        r"\p{L}+",
        r"\d",
        r"\w+",
        r"\bfoo\b",
        r"\((?:[^()]|(?R))*\)",
        r"(a)?(?(1)b|x)",
        r"(?|(a)b|(x)y)\1?",
        r"\Ga",
        r"\w+(*SKIP)(*FAIL)|o",
        r"(*UCP)\w+",
        r"(?i)ABC",
        r"k",
        r"k*",
        r"",
        r"^$",
        r"\x{e9}",
        r"[[:<:]]a",
    ];
    for pattern in patterns {
        for option in ["-noP", "-cP", "-xP", "-ownP", "-ioP", "-vP", "-zoP", "-boP"] {
            for locale in LOCALES {
                let words: [&[u8]; 4] = [b"-a", option.as_bytes(), b"-e", pattern.as_bytes()];
                same_parts(&scene, text.as_bytes(), &words, locale);
            }
        }
    }
}

#[test]
fn text_between_bytes_that_are_no_characters_matches() {
    require!(needs_gnu());
    let scene = Scene::new();
    let text = b"kk\x82kk\n\xffab\nab\xff\na\xc3b\n\xe2\x82\nk\xf0\x9f\x98k\xed\xa0\x80k\n\x80\n";
    for pattern in ["k*", "k+$", "^k", "b$", "^", "$", "^$", "a.b", "(?<=k)k", ".", r"\bk", "", "x*"] {
        for option in ["-aoP", "-acP", "-aobP", "-cP", "-awoP", "-axP", "-avP"] {
            for locale in LOCALES {
                same_parts(&scene, text, &[option.as_bytes(), b"-e", pattern.as_bytes()], locale);
            }
        }
    }
    let outcome = scene.haul(["-aoP", "k*", "text"], "C.UTF-8").finish().unwrap();
    assert_eq!(outcome.printed().matches("kk\n").count(), 2);
}

#[test]
fn what_is_none_is_reported_in_the_same_words() {
    require!(needs_gnu());
    let scene = Scene::of("echo a > lines");
    let patterns = [
        "(",
        ")",
        "[",
        "*a",
        "+",
        "(?<n",
        "\\",
        r"\1",
        "[z-a]",
        "[[:foo:]]",
        r"\p{Foo}",
        "(?z)",
        r"\u0041",
        r"\g{5}",
        "(?R",
        "(?1)",
        r"\k<z>",
        "a{65536}",
        "(?&x)",
        "a\nb",
        "(?(9)a)",
    ];
    for pattern in patterns {
        let theirs =
            scene.run(Path::new("grep"), ["-P", pattern, "lines"]).env("LC_ALL", "C.UTF-8").finish().unwrap();
        let ours = scene.haul(["-P", pattern, "lines"], "C.UTF-8").finish().unwrap();
        assert_eq!(theirs.status(), Some(2), "{pattern}");
        assert_eq!(verdict(&ours, false), verdict(&theirs, false), "{pattern}");
    }
}

#[test]
fn a_limit_of_pcre2_is_an_error_and_not_a_line_without_a_match() {
    require!(needs_gnu());
    let scene = Scene::new();
    fs::write(scene.path().join("lines"), "a".repeat(60) + "b\n").unwrap();
    let words = ["-P", "(a+)+$", "lines"];
    let theirs = scene.run(Path::new("grep"), words).env("LC_ALL", "C.UTF-8").finish().unwrap();
    let ours = scene.haul(words, "C.UTF-8").finish().unwrap();
    assert_eq!(theirs.errors(), "grep: lines: exceeded PCRE's backtracking limit\n");
    assert_eq!(verdict(&ours, false), verdict(&theirs, false));
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

/// PCRE2 refuses `\K` only where it stands in the look-behind itself.
#[test]
fn a_match_that_begins_before_its_search_ends() {
    let scene = Scene::of("echo bbb >b; echo 'b x' >bx");
    for words in [
        ["--color=always", "-P", "(?<=(?1))b(?(DEFINE)(\\Kb))", "b"],
        ["-o", "-P", "(?<=(?1))(?(DEFINE)(\\Kb))", "bx"],
        ["-o", "-P", "(?<=(?1))b(?(DEFINE)(\\Kb))", "b"],
    ] {
        let outcome = scene.haul(words, "C.UTF-8").finish().unwrap();
        assert!(!outcome.crashed(), "{words:?}: {:?} {}", outcome.ending, outcome.errors());
        assert!(outcome.stdout.len() < 1000, "{words:?}");
    }
}
