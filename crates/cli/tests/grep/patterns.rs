//! Patterns at the limits of POSIX: GNU grep's results, and its errors.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use haul_testkit::require;

use super::words::{LOCALES, same};
use super::{Scene, needs_gnu, verdict};

/// Searches these lines for each pattern with these options, in both locales.
fn all_the_same(lines: &[u8], options: &[&str], patterns: &[&str]) {
    let scene = Scene::new();
    fs::write(scene.path().join("lines"), lines).unwrap();
    for pattern in patterns {
        for locale in LOCALES {
            same(&scene, &[&["-a"], options, &["-e", pattern, "lines"]].concat(), locale);
        }
    }
}

#[test]
fn ranges_that_ignore_case_are_gnu_greps() {
    require!(needs_gnu());
    let lines: Vec<u8> = (b' '..=b'~').flat_map(|byte| [byte, b'\n']).collect();
    let ends = ["1", "@", "B", "Z", "_", "b", "y", "{"];
    let pairs = ends.iter().flat_map(|first| ends.iter().map(move |last| format!("{first}-{last}")));
    let patterns: Vec<_> = pairs.flat_map(|pair| [format!("[{pair}]"), format!("x*[^{pair}~]")]).collect();
    all_the_same(&lines, &["-i"], &patterns.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn what_begins_a_pattern_is_gnu_greps() {
    require!(needs_gnu());
    let lines = b"*b\n^b\nb\n+b\na*b\n^a\n{1}b\n?b\n^^a\n**b\n";
    all_the_same(
        lines,
        &["-n"],
        &[
            r"^^a",
            r"\(^^a\)",
            r"a\|^^a",
            r"^^*a",
            r"\<*b",
            r"x\|\b*b",
            r"^\<*b",
            r"\b\b*b",
            r"\B*b",
            r"\`*b",
            r"\<^b",
            r"^*a",
            r"\<\+b",
            r"\b\?b",
            r"\<\{1\}b",
            r"\(\<*b\)",
            r"a\>*b",
            r"\>$*",
        ],
    );
    all_the_same(
        lines,
        &["-nE"],
        &[r"^*b", r"\<*b", r"a|\b*b", r"(\<*b)", r"^^*b", r"^+?b", r"**b", r"+*b", r"^{b", r"\b{b", r"{b"],
    );
    // What follows an interval there is no longer at the start; a reversed one is literal.
    let patterns = [
        "{1,2}*+b",
        "{1}{2}b",
        "*{1}{2}b",
        "+{1}*b",
        "^{1}{2}b",
        "^*{1}b",
        "({1}{2}b)",
        "x|{1}*{2}+b",
        "{2,1}",
        "{2,1}x",
        "^{2,1}",
        "({2,1})",
        "x|{2,1}",
        "*{2,1}",
        "{2,1}*",
        "{2,1}{1}",
        "{1}{2,1}",
        "{2,1}{2,1}",
        "b{2,1}",
        "(b){2,1}",
        "{99999,1}",
    ];
    all_the_same(b"{1}b\nb\n{2,1}\n2,1}\n{2,1}x\nb{2,1}\n{99999,1}\n", &["-nE"], &patterns);
}

#[test]
fn groups_that_found_nothing_are_asked_for_as_in_gnu_grep() {
    require!(needs_gnu());
    // Not `(b*)+a\1`: the C library copies the group and then misses lines, see `references`.
    let patterns = [r"(b*)*a\1", r"(b?)*a\1", r"(b|)*a\1", r"(a|(b*))*\2", r"(b)*a\1", r"((a)|(b*))*\3"];
    all_the_same(b"a\nba\nbba\nbab\nab\nabab\nbac\naca\n", &["-nE"], &patterns);
    all_the_same(b"a\nba\nbba\nbab\nab\nabab\nbac\naca\n", &["-nxE"], &patterns);
    all_the_same("ééé\n".as_bytes(), &["-o"], &[r"\(b*\)*\1é"]);
}

#[test]
fn what_is_no_pattern_is_refused_as_by_gnu_grep() {
    require!(needs_gnu());
    let lines = b"a\nb\nab\n\xff\n-\nz\na)\n".as_slice();
    all_the_same(
        lines,
        &["-n"],
        &[
            "[a-c-e]",
            "[a-z0-9-_]",
            "[a-c--]",
            "[]-a-c]",
            "[a-c-",
            "[-a]",
            "[--a]",
            "[^-a]",
            "[a-]",
            "[a-c-]",
            "[%--]",
            "[a-",
            "[a",
            "[[:alpha:]-]",
            "[a[.-.]z]",
            "[[.-.]-z]",
            r"\(a\)\|b\1",
            r"\(a\)\(b\|c\1\)",
            r"\(\(a\)\|b\2\)",
            r"\(a\|\(b\)\)\2",
            r"a\{+",
            r"a\{1a",
            r"a\{1,x",
            r"a\{1,2,",
            r"a\{x,1",
            r"a\{,",
            r"a\{1\",
            r"a\{+\}",
            r"a\{1,2x\}",
            r"a\{\}",
            r"\{1\}\{x",
            r"\(a\{x\)",
        ],
    );
    all_the_same(
        lines,
        &["-nE"],
        &[
            "(*)", "(+)", "(?)", "({)", "({1})", "(*|a)", "(a|*)", "(^*)", "(a$*)", "(**)", r"(\<*)", "*)",
            "(*{)", "(a*)", "(a)|b\\1",
        ],
    );
}

#[test]
fn bytes_that_are_no_characters_are_in_brackets() {
    require!(needs_gnu());
    let scene = Scene::new();
    fs::write(scene.path().join("lines"), b"a\nb\n\xff\n-\nz\n").unwrap();
    let patterns: [&[u8]; 10] = [
        b"[\xff]",
        b"[^\xff]",
        b"[a\xff]",
        b"[a-\xff]",
        b"[\xff-z]",
        b"[\xff",
        b"[^a\xff]",
        b"[\xff-]",
        b"[[=\xff=]]",
        b"[[.\xff\xfe.]]",
    ];
    for pattern in patterns {
        let words = [&b"-an"[..], b"-e", pattern, b"lines"].map(OsStr::from_bytes);
        let theirs = scene.gnu(words, "C.UTF-8").finish().unwrap();
        let ours = scene.haul(words, "C.UTF-8").finish().unwrap();
        assert_eq!(verdict(&ours, false), verdict(&theirs, false), "{}", pattern.escape_ascii());
    }
}

#[test]
fn bytes_asked_for_again_have_no_case_but_that_of_ascii() {
    require!(needs_gnu());
    let scene = Scene::new();
    fs::write(scene.path().join("lines"), b"\xc9\xe9a\nBba\n\xc3\x89\xc3\xa9a\n").unwrap();
    for locale in LOCALES {
        same(&scene, &["-ain", r"\(.\)\1a", "lines"], locale);
    }
}

#[test]
fn case_is_ignored_as_far_as_gnu_grep_does() {
    require!(needs_gnu());
    let letters: Vec<char> = "IiıİKkKSsſßẞµμΜθϑϴΘвВᲀΐΐΰΰﬅﬆǄǅǆᾀᾈᾳᾼΣσςÅåÅΩωΩιͅιΙꭰᎠ".chars().collect();
    let lines: String = letters.iter().map(|letter| format!("{letter}\n")).collect();
    let patterns: Vec<String> = letters.iter().map(char::to_string).collect();
    let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
    all_the_same(lines.as_bytes(), &["-in"], &patterns);
    all_the_same(lines.as_bytes(), &["-inF"], &patterns);
    // With many or long patterns, which are searched for as strings.
    let long = "x".repeat(2000);
    for option in ["-in", "-ion", "-iwn", "-ixn"] {
        all_the_same(lines.as_bytes(), &[option], &patterns);
        all_the_same(lines.as_bytes(), &[option, "-e", &long], &patterns);
    }
    all_the_same("Σς\nßẞ\nθϴ\nᾀᾈ\nıI\nвᲀ\n".as_bytes(), &["-in"], &[r"\(.\)\1"]);
}

#[test]
fn what_is_wrong_with_a_pattern_is_reported_once() {
    require!(needs_gnu());
    let scene = Scene::new();
    fs::write(scene.path().join("lines"), "?x\n").unwrap();
    fs::write(scene.path().join("patterns"), "?x\n?x\n*y\n?x\n").unwrap();
    for words in [
        "-E -e ?x -e ?x lines",
        "-E -e ?x -e ?y -e ?x lines",
        "-Ef patterns -e ?x lines",
        "-Ewf patterns lines",
        "-Eif patterns lines lines",
        "-P -e a -e a lines",
    ] {
        scene.same(words, false);
    }
}

#[test]
fn each_invalid_pattern_is_told_with_its_place() {
    require!(needs_gnu());
    let scene = Scene::new();
    for (name, text) in [
        ("lines", "a\n"),
        ("bad", "fine\n(x\n[z-a]\n(x\nend\\\n"),
        ("worse", "[b-a]"),
        ("late", "a\n[:space:]\n[:alpha:]\n"),
    ] {
        fs::write(scene.path().join(name), text).unwrap();
    }
    for words in [
        "-E -e [z-a] -e (x lines",
        "-E -e (x -e a -e (x lines",
        "-E -f bad lines",
        "-E -w -f bad -f worse lines",
        "-E -f worse -e (y -f bad lines",
        "-E -f bad -e (x lines",
        "-E -e (x -f bad lines",
        "-f late lines",
        "-E -f late -f bad lines",
        "-E -e a{99999} -e (x lines",
        "-e [:alpha:]\\{ -e )\\) lines",
        "-E -e [:alpha:](x -e (y lines",
        "-E -e [:alpha:][b-a] lines",
        "-e [:alpha:]* -e [^:alpha:] -e [:space:] lines",
        "-F -f bad lines",
        "-P -f bad lines",
        "-P (x lines",
    ] {
        scene.same(words, false);
    }
}

#[test]
fn numbers_may_have_blanks_and_a_sign() {
    require!(needs_gnu());
    let scene = Scene::of("seq 20 > lines");
    for number in
        ["1", " 1", "+1", " +2", "-0", "-1", " -1", "1 ", "+", "", "0x1", "1k", "9999999999999999999999"]
    {
        for flag in ["-A", "-B", "-C", "-m"] {
            same(&scene, &[flag, number, "9", "lines"], "C.UTF-8");
        }
    }
}

#[test]
fn what_is_old_is_warned_of() {
    require!(needs_gnu());
    let scene = Scene::of("echo needle > lines");
    scene.same("-ub needle lines", false);
    for color in ["1;32", ";", "", "x", "1x"] {
        for words in ["--color=always needle lines", "--color=never needle lines"] {
            let words: Vec<_> = words.split(' ').collect();
            let run =
                |run: haul_testkit::TestRun| verdict(&run.env("GREP_COLOR", color).finish().unwrap(), false);
            let (ours, theirs) = (run(scene.haul(&words, "C")), run(scene.gnu(&words, "C")));
            assert_eq!(ours, theirs, "GREP_COLOR={color} grep {words:?}");
        }
    }
}

#[test]
fn numbers_are_as_wide_as_in_gnu_grep() {
    require!(needs_gnu());
    for size in [0, 1, 8, 9, 10, 98, 99, 100, 999] {
        let lines = [b"a\n".repeat(size / 2), b"a".repeat(size % 2)].concat();
        all_the_same(&lines, &["-T"], &["a", "^"]);
        all_the_same(&lines, &["-nT"], &["a", "^"]);
        all_the_same(&lines, &["-nbT"], &["a", "^"]);
    }
}
