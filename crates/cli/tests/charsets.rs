//! Character sets other than UTF-8: names in messages match GNU `cp` byte by byte, and `haul grep`
//! rejects such locales.
//!
//! `localedef` compiles the locales into the test's own directory.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use haul_testkit::{Sandbox, needs, require};

/// Each locale with the source and charset it is compiled from.
const LOCALES: [(&str, &str, &str); 6] = [
    ("en_US.iso88591", "en_US", "ISO-8859-1"),
    ("el_GR.iso88597", "el_GR", "ISO-8859-7"),
    ("ja_JP.eucjp", "ja_JP", "EUC-JP"),
    ("zh_HK.big5hkscs", "zh_HK", "BIG5-HKSCS"),
    ("ko_KR.euckr", "ko_KR", "EUC-KR"),
    ("zh_CN.gb18030", "zh_CN", "GB18030"),
];

fn haul() -> PathBuf {
    let named = std::env::var_os("HAUL_BIN").map(PathBuf::from);
    named.unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_haul")))
}

fn needs_locales() -> Option<String> {
    let has_maps = Path::new("/usr/share/i18n/charmaps").is_dir();
    needs::tool("localedef")
        .or_else(|| (!has_maps).then(|| "needs the character maps of `locales`".to_owned()))
}

/// Compiles a locale into `folder`, and asserts that it got there.
fn compile(folder: &Path, (name, from, charset): (&str, &str, &str)) {
    let to = folder.join(name);
    let made = Command::new("localedef").args(["-c", "-i", from, "-f", charset]).arg(&to).output().unwrap();
    // Ignore its warnings: they are about other categories.
    assert!(to.join("LC_CTYPE").exists(), "{name}: {}", String::from_utf8_lossy(&made.stderr));
}

fn run(program: &Path, words: &[&[u8]], locales: &Path, locale: &str, folder: &Path) -> Output {
    let words = words.iter().map(|word| OsStr::from_bytes(word));
    Command::new(program)
        .args(words)
        .env_remove("LC_ALL")
        .env("LC_CTYPE", locale)
        .env("LC_MESSAGES", "C")
        .env("LOCPATH", locales)
        .current_dir(folder)
        .output()
        .unwrap()
}

/// Returns names with every single byte, and with many sequences of two to five bytes.
fn names() -> Vec<Vec<u8>> {
    let special = b"'a [\\^`|~5\x7f";
    let mut names: Vec<Vec<u8>> = (1..=255_u8).map(|byte| vec![b'x', byte, b'y']).collect();
    for first in (0x80..=0xff_u8).step_by(3) {
        for second in special.iter().copied().chain((0x30..=0xff).step_by(11)) {
            names.push(vec![first, second]);
            names.push(vec![b'\'', first, second, b'1']);
            names.push(vec![first, second, 0x81, 0x35, b'z']);
        }
    }
    names.push(b"\xa1\xae\xa1\xaf'".to_vec());
    names.push(b"\x8f\xa2\xb7 \x8e\xb1".to_vec());
    names.retain(|name| !name.contains(&b'/') && !name.contains(&b'.'));
    names
}

#[test]
fn names_read_as_by_gnu_cp_in_every_character_set() {
    require!(needs_locales());
    let sandbox = Sandbox::in_memory().unwrap();
    let folder = sandbox.path();
    let all = names();
    std::fs::write(folder.join("text"), b"\xa4\xa2\n").unwrap();
    // Compiling a locale takes seconds. The last one has its own quotation marks.
    let step = if needs::is_full_run() { 1 } else { 2 };
    for locale in LOCALES.into_iter().rev().step_by(step) {
        compile(folder, locale);
        let known = Command::new("locale")
            .arg("charmap")
            .env_remove("LC_ALL")
            .env("LC_CTYPE", locale.0)
            .env("LOCPATH", folder)
            .output();
        assert_eq!(String::from_utf8_lossy(&known.unwrap().stdout).trim(), locale.2);
        // Missing files are always quoted. Many names per run, since starting a process is the
        // slow part.
        for some in all.chunks(200) {
            let mut words: Vec<&[u8]> = vec![b"--"];
            words.extend(some.iter().map(Vec::as_slice));
            words.push(b"missing/");
            let with_cp: Vec<&[u8]> = [&[b"cp".as_slice()], words.as_slice()].concat();
            let theirs = run(Path::new("cp"), &words, folder, locale.0, folder);
            let ours = run(&haul(), &with_cp, folder, locale.0, folder);
            assert_same(&ours, &theirs, locale.0);
        }
        for name in all.iter().step_by(if needs::is_full_run() { 1 } else { 97 }) {
            // Here the name is quoted inside a sentence.
            let option = [b"--sparse=", name.as_slice()].concat();
            let theirs = run(Path::new("cp"), &[&option], folder, locale.0, folder);
            assert_same(&run(&haul(), &[b"cp", &option], folder, locale.0, folder), &theirs, locale.0);
        }
        assert_grep_refuses(folder, locale.0, locale.2);
    }
}

/// Compares messages line by line. GNU's opening quote in GB 18030 has a typo (`\\a` and `e` for
/// the byte AE); ours is correct.
fn assert_same(ours: &Output, theirs: &Output, locale: &str) {
    let lines = |output: &Output| -> Vec<String> {
        let text = output
            .stderr
            .escape_ascii()
            .to_string()
            .replace("haul cp: ", "cp: ")
            .replace("haul cp --help", "cp --help");
        text.split("\\n").map(str::to_owned).collect()
    };
    let (left, right) = (lines(ours), lines(theirs));
    let right: Vec<_> = right.iter().map(|line| line.replace("\\xa1\\x07e", "\\xa1\\xae")).collect();
    assert_eq!(left.len(), right.len(), "{locale}");
    for (left, right) in left.iter().zip(&right) {
        assert_eq!(left, right, "in {locale}");
    }
    assert_eq!(ours.status.code(), theirs.status.code());
}

/// Asserts that `haul grep` rejects the locale rather than treat its characters as bytes.
fn assert_grep_refuses(folder: &Path, locale: &str, charset: &str) {
    for option in [b"-c".as_slice(), b"-cP"] {
        let outcome = run(&haul(), &[b"grep", option, b".", b"text"], folder, locale, folder);
        let said = String::from_utf8_lossy(&outcome.stderr).into_owned();
        assert_eq!(outcome.status.code(), Some(2), "{locale}: {said}");
        assert!(said.contains(charset) && said.lines().count() == 1 && outcome.stdout.is_empty(), "{said}");
    }
}
