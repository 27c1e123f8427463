//! Tests the settings of files and of the variable, and which files are trusted.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use super::*;

/// Returns settings as words of a command line.
fn words(settings: &[DefaultSetting]) -> String {
    as_variable(settings).into_string().unwrap().replace('\'', "")
}

/// Returns the settings of files with these texts for `haul COMMAND`, as words of a command line.
fn set_by(command: &str, texts: &[&str]) -> Result<String, String> {
    let commands = Commands { all: definitions::commands(), command };
    let mut settings = Vec::new();
    for text in texts {
        file::parse(Path::new("/f"), text, &commands, &mut settings)?;
    }
    Ok(words(&settings))
}

fn set_by_variable(text: &[u8]) -> Result<Vec<DefaultSetting>, String> {
    variable::parse(text, &Commands { all: definitions::commands(), command: "cp" })
}

#[test]
fn the_last_setting_counts_and_a_table_precedes_what_is_for_all() {
    let system = "jobs = 1\nnice = true\n[cp]\njobs = 2\nprogress = 'never'\n";
    assert_eq!(set_by("cp", &[system]).unwrap(), "--nice --jobs=2 --progress=never");
    assert_eq!(set_by("tar", &[system]).unwrap(), "--jobs=1 --nice");
    let user = "jobs = 3\nnice = false\n";
    assert_eq!(set_by("cp", &[system, user]).unwrap(), "--progress=never --jobs=3");
    assert_eq!(set_by("cp", &["cp.jobs = 4\n"]).unwrap(), "--jobs=4");
    assert_eq!(set_by("cp", &["", "# nothing\n"]).unwrap(), "");
    assert_eq!(set_by("cp", &["jobs = 0x10\nbwlimit = '2 M'"]).unwrap(), "--jobs=16 --bwlimit=2 M");
}

#[test]
fn wrong_files_are_refused_with_the_line_and_the_key() {
    for (text, wanted) in [
        ("\njbos = 4", "/f:2: no command has an option jbos"),
        ("[tar]\nbwlimit = 1", "/f:2: haul tar has no option bwlimit"),
        ("[tra]\njobs = 1", "/f:1: haul has no command tra"),
        ("cp = 1", "/f:1: cp is a command: begin its settings with [cp]"),
        ("nice = 1", "/f:1: nice: must be true or false, not a number"),
        ("nice = 'yes'", "/f:1: nice: must be true or false, not a string"),
        ("jobs = true", "/f:1: jobs: must be a string or a whole number, not true or false"),
        ("jobs = 1.5", "/f:1: jobs: must be a string or a whole number, not a fraction"),
        ("jobs = [1]", "/f:1: jobs: must be a string or a whole number, not an array"),
        ("[cp]\njobs = 2026-01-01", "/f:2: jobs: must be a string or a whole number, not a date"),
        ("[cp.jobs]\n", "/f:1: jobs: must be a string or a whole number, not a table"),
        ("jobs = 99999999999999999999", "/f:1: jobs: invalid number: number too large to fit in target type"),
        ("stats = 'json'", "/f:1: stats: must be true or false, not a string"),
    ] {
        assert_eq!(set_by("cp", &[text]).expect_err(text), wanted);
    }
    for text in ["jobs", "jobs = ", "jobs = 1\njobs = 2", "[cp\n", "jobs = 1 2", "\u{0}"] {
        let message = set_by("cp", &[&format!("# a comment\n{text}")]).expect_err(text);
        assert!(message.starts_with("/f:2: ") || message.starts_with("/f:3: "), "{text}: {message}");
    }
}

#[test]
fn the_variable_is_split_as_a_shell_does() {
    let set = set_by_variable(b"-j2 --nice '--engine=sync' --bwlimit \"10M\" -gj 3").unwrap();
    assert_eq!(words(&set), "--nice --engine=sync --bwlimit=10M --progress --jobs=3");
    assert_eq!(set_by_variable(b" ").unwrap(), []);
    for (text, wanted) in [
        ("'", "an unclosed quote or a trailing backslash"),
        ("--jobs", "option '--jobs' requires an argument"),
        ("-j", "option '-j' requires an argument"),
        ("--nice=1", "option '--nice' doesn't allow an argument"),
        ("--job=1", "no command has an option --job"),
        ("--stats=json", "--stats: with an argument, this option can only be given on the command line"),
        ("-y", "no command has an option -y"),
        ("--", "'--' is not an option"),
        ("a", "'a' is not an option"),
    ] {
        assert_eq!(set_by_variable(text.as_bytes()).expect_err(text), format!("HAUL_OPTIONS: {wanted}"));
    }
}

#[test]
fn what_was_set_can_be_passed_on_in_the_variable() {
    let set = set_by_variable(b"--nice --bwlimit='it'\\''s $5'").unwrap();
    let text = as_variable(&set).into_vec();
    assert_eq!(set_by_variable(&text).unwrap(), set);
}

#[test]
fn only_files_that_nobody_else_can_write_are_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    let read = |owner| file::read(&path, owner).map_err(|why| why.replace(&shown(&path), "FILE"));
    assert_eq!(read(AllowedOwner::RootOrUser), Ok(None));
    fs::write(&path, "jobs = 1").unwrap();
    for (mode, is_used) in [(0o600, true), (0o644, true), (0o620, false), (0o602, false), (0o666, false)] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let wanted = match is_used {
            true => Ok(Some("jobs = 1".to_owned())),
            false => Err("FILE: refused: it is writable by others (chmod go-w)".to_owned()),
        };
        assert_eq!(read(AllowedOwner::RootOrUser), wanted, "{mode:o}");
    }
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let user = haul_sys::effective_identity().user;
    // Root gives the file to somebody else; anybody else isn't root.
    let other = if chown(&path, Some(user + 1), None).is_ok() { user + 1 } else { user };
    let refused = |wanted| Err(format!("FILE: refused, because user {other} owns it, not {wanted} (chown)"));
    assert_eq!(read(AllowedOwner::Root), refused("root"));
    if other != user {
        assert_eq!(read(AllowedOwner::RootOrUser), refused("root or you"));
    }
}

#[test]
fn files_that_cannot_be_what_is_meant_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    let read = || file::read(&path, AllowedOwner::RootOrUser);
    fs::create_dir(&path).unwrap();
    assert_eq!(read(), Err(format!("{}: not a regular file", shown(&path))));
    fs::remove_dir(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    assert_eq!(read(), Err(format!("{}: not a regular file", shown(&path))));
    fs::remove_file(&path).unwrap();
    fs::write(&path, b"jobs = '\xff'").unwrap();
    assert_eq!(read(), Err(format!("{}: not UTF-8", shown(&path))));
    fs::write(&path, vec![b'\n'; (1 << 20) + 1]).unwrap();
    assert_eq!(read(), Err(format!("{}: larger than 1 MiB", shown(&path))));
    fs::write(&path, vec![b'\n'; 1 << 20]).unwrap();
    assert!(read().is_ok());
    // A file in the place of a directory.
    assert_eq!(file::read(&path.join("config.toml"), AllowedOwner::RootOrUser), Ok(None));
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
