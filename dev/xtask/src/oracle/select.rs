//! Selects the tests of a suite that test `cp`.

use std::collections::BTreeSet;
use std::path::Path;

use fs_err as fs;

use crate::steps::StepFailure;

/// Tests outside of the `cp` directory that run `cp` and check its result, but name other programs
/// as their subject.
const ALSO: [&str; 2] = ["misc/close-stdout.sh", "mv/trailing-slash.sh"];

/// Tests of all programs; their directory depends on the version. They run with `cp` as the only
/// program.
const EVERY_PROGRAM: [&str; 3] = ["help-version.sh", "usage_vs_getopt.sh", "invalid-opt.pl"];

/// Tests that take ten seconds or more. They don't depend on user, file system or engine, so one
/// run with each `cp` is enough.
const LONG: [&str; 3] = ["cp/copy-FMR.sh", "cp/link-heap.sh", "cp/perm.sh"];

/// Parts of the names of tests that depend on the file system.
const ABOUT_FILE_SYSTEMS: [&str; 6] = ["reflink", "sparse", "xattr", "acl", "attr-", "capability"];

/// Tests whose failure says nothing about haul, with the suite's version (`*` for all)
/// and the reason.
const NOT_APPLICABLE: [(&str, &str, &str); 2] = [
    (
        "9.1",
        "cp/cp-i.sh",
        "since 9.2 GNU's cp -i exits with 1 when the user declines, and so does haul; the test of 9.7 demands it",
    ),
    (
        "*",
        "cp/nfs-removal-race.sh",
        "it replaces stat and fstatat of the C library; haul looks at its target by statx",
    ),
];

/// Lists a suite's tests of `cp`, in the form `cp/link.sh`.
pub(crate) fn tests(suite: &Path) -> Result<Vec<String>, StepFailure> {
    let folder = suite.join("tests");
    let mut names = BTreeSet::new();
    for group in fs::read_dir(&folder)? {
        let group = group?;
        if !group.file_type()?.is_dir() {
            continue;
        }
        for test in fs::read_dir(group.path())? {
            let test = test?;
            let (group, name) = (group.file_name(), test.file_name());
            let (Some(group), Some(name)) = (group.to_str(), name.to_str()) else { continue };
            let text = fs::read(test.path()).unwrap_or_default();
            let name = format!("{group}/{name}");
            if is_about_cp(&name, &String::from_utf8_lossy(&text)) {
                names.insert(name);
            }
        }
    }
    Ok(names.into_iter().collect())
}

/// Returns true if a test tests `cp`: it is in the `cp` directory, or prints the version of `cp`.
fn is_about_cp(name: &str, text: &str) -> bool {
    let is_test = name.ends_with(".sh") || name.ends_with(".pl");
    let says_so = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("print_ver_ "))
        .any(|programs| programs.split_whitespace().any(|program| program == "cp"));
    is_test && (name.starts_with("cp/") || says_so || ALSO.contains(&name) || tries_every_program(name))
}

pub(crate) fn tries_every_program(test: &str) -> bool {
    test.split_once('/').is_some_and(|(_, name)| EVERY_PROGRAM.contains(&name))
}

/// Returns true if a test takes so long that it should run once.
pub(crate) fn is_long(test: &str) -> bool {
    LONG.contains(&test)
}

/// Returns true if a test depends on the file system.
pub(crate) fn is_about_file_systems(test: &str) -> bool {
    ABOUT_FILE_SYSTEMS.iter().any(|part| test.contains(part))
}

/// Returns the reason a test says nothing about haul, if any.
pub(crate) fn why_not_applicable(version: &str, test: &str) -> Option<&'static str> {
    let exempt = NOT_APPLICABLE.iter().find(|exempt| [version, "*"].contains(&exempt.0) && exempt.1 == test);
    exempt.map(|(.., reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_of_cp_are_known_by_folder_or_by_what_they_say() {
        assert!(is_about_cp("cp/anything.sh", ""));
        assert!(is_about_cp("mv/update.sh", "# Test\nprint_ver_ cp mv\n"));
        assert!(is_about_cp("misc/close-stdout.sh", "print_ver_ rm\n"));
        assert!(!is_about_cp("mv/acl.sh", "print_ver_ mv\ncp a b\n"));
        assert!(!is_about_cp("cp/local.mk", "print_ver_ cp\n"));
        assert!(!is_about_cp("ls/x.sh", "print_ver_ cpio\n"));
        assert!(!is_about_cp("touch/trailing-slash.sh", "print_ver_ touch\n"));
        assert!(is_about_cp("help/help-version.sh", ""));
        assert!(tries_every_program("help/help-version.sh") && !tries_every_program("cp/link.sh"));
        assert!(is_about_file_systems("cp/sparse-2.sh") && !is_about_file_systems("cp/link.sh"));
    }

    #[test]
    fn a_test_is_exempt_in_the_versions_it_is_listed_for() {
        assert!(why_not_applicable("9.1", "cp/cp-i.sh").is_some());
        assert!(why_not_applicable("9.10", "cp/cp-i.sh").is_none());
        assert!(why_not_applicable("9.12", "cp/nfs-removal-race.sh").is_some());
    }
}
