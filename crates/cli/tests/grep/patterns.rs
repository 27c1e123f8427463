//! Patterns on the border of what POSIX says: GNU grep's answers, and its refusals.

use std::fs;

use haul_testkit::require;

use super::words::{LOCALES, same};
use super::{Scene, needs_gnu};

/// Searches these lines for each of the patterns in both locales, written as these options say.
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
}

#[test]
fn groups_that_found_nothing_are_asked_for_as_in_gnu_grep() {
    require!(needs_gnu());
    let patterns =
        [r"(b*)*a\1", r"(b*)+a\1", r"(b?)*a\1", r"(b|)*a\1", r"(a|(b*))*\2", r"(b)*a\1", r"((a)|(b*))*\3"];
    all_the_same(b"a\nba\nbba\nbab\nab\nabab\nbac\naca\n", &["-nE"], &patterns);
    all_the_same(b"a\nba\nbba\nbab\nab\nabab\nbac\naca\n", &["-nxE"], &patterns);
    all_the_same("ééé\n".as_bytes(), &["-o"], &[r"\(b*\)*\1é"]);
}
