//! Finds the programs that take part: haul, possibly with several settings, and its rivals.
//!
//! A rival is looked up by name, first in the given directories and then in PATH, and is asked for
//! its version. The version also distinguishes it from other programs of the same name (there are
//! several `cp`s and several `rcp`s). Every candidate copies a directory to a name that does not
//! exist yet, so the copy *is* the directory; rsync and wcp need a slash after the source for that.
//!
//! To add a rival, add an entry to [`RIVALS`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Serialize;

use crate::error::{Error, Result};
use crate::programs;

pub(crate) const HAUL: &str = "haul";

/// Environment variable in which `haul bench` passes its own path (`crates/cli/src/bench.rs`).
const CALLED: &str = "HAUL_BENCH_HAUL";

/// ID of the candidate all others are compared with.
pub(crate) const GNU: &str = "cp";

/// Prefix of the IDs of the bounds, which aren't rivals.
pub(crate) const BOUND: &str = "bound";

/// Label of the other build of haul, from `--before`.
const BEFORE: &str = "before";

/// A rival: the ways to find and call it.
struct Rival {
    /// Name for `--only`.
    id: &'static str,
    /// Name in the tables.
    label: &'static str,
    /// Names of its executable.
    programs: &'static [&'static str],
    /// True if the version line belongs to this program.
    is_it: fn(&str) -> bool,
    /// Arguments before source and target.
    words: &'static [&'static str],
    /// True if it accepts the options of GNU cp in place of `-r`.
    is_cp: bool,
}

const RIVALS: [Rival; 11] = [
    Rival {
        id: GNU,
        label: "GNU cp",
        programs: &["cp", "gcp"],
        is_it: |version| version.contains("GNU coreutils"),
        words: &["-r"],
        is_cp: true,
    },
    Rival { id: "cpz", label: "cpz", programs: &["cpz"], is_it: |_| true, words: &[], is_cp: false },
    Rival { id: "fcp", label: "fcp", programs: &["fcp"], is_it: |_| true, words: &[], is_cp: false },
    Rival {
        id: "xcp",
        label: "xcp",
        programs: &["xcp"],
        is_it: |version| version.starts_with("xcp"),
        words: &["-r", "--no-progress"],
        is_cp: false,
    },
    Rival {
        id: "rsync",
        label: "rsync",
        programs: &["rsync"],
        is_it: |version| version.starts_with("rsync"),
        words: &["-a"],
        is_cp: false,
    },
    Rival { id: "wcp", label: "wcp", programs: &["wcp"], is_it: |_| true, words: &[], is_cp: false },
    Rival {
        id: "rcp",
        label: "rcp",
        programs: &["rcp"],
        // inetutils and ssh install the old remote copier under this name.
        is_it: |version| version.starts_with("rcp") && !version.contains("inetutils"),
        words: &[],
        is_cp: false,
    },
    Rival {
        id: "bound",
        label: "bound",
        programs: &["haul-bound"],
        is_it: |_| true,
        words: &[],
        is_cp: false,
    },
    Rival {
        id: "bound-ahead",
        label: "bound, look-ahead",
        programs: &["haul-bound"],
        is_it: |_| true,
        words: &["--ahead"],
        is_cp: false,
    },
    Rival {
        id: "uutils",
        label: "uutils cp",
        programs: &["uu_cp", "uu-cp", "cp"],
        is_it: |version| version.contains("uutils"),
        words: &["-r"],
        is_cp: true,
    },
    Rival {
        id: "uutils",
        label: "uutils cp",
        programs: &["coreutils"],
        is_it: |version| version.contains("uutils") || version.starts_with("coreutils"),
        words: &["cp", "-r"],
        is_cp: true,
    },
];

/// A program that copies a tree, with its settings.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Candidate {
    /// Name for `--only`, shared by all settings of haul.
    pub(crate) id: &'static str,
    /// Name in the tables, unique.
    pub(crate) label: String,
    /// First line of its `--version` output.
    pub(crate) version: String,
    /// Command line, without the directory of the program.
    pub(crate) line: String,
    #[serde(skip)]
    program: PathBuf,
    #[serde(skip)]
    words: Vec<OsString>,
}

impl Candidate {
    fn new(
        id: &'static str,
        label: String,
        version: String,
        program: PathBuf,
        words: Vec<OsString>,
    ) -> Candidate {
        let name = program.file_name().unwrap_or_default().display().to_string();
        let slash = if needs_slash(id) { "/" } else { "" };
        let mut line = words.iter().fold(name, |line, word| format!("{line} {}", word.display()));
        line.push_str(&format!(" SOURCE{slash} TARGET"));
        Candidate { id, label, version, line, program, words }
    }

    /// Makes a candidate that cannot be run.
    #[cfg(test)]
    pub(crate) fn unreal(id: &'static str, label: &str) -> Candidate {
        Candidate::new(id, label.to_owned(), format!("{label} 1.0"), PathBuf::from(id), Vec::new())
    }

    /// Returns the command that copies `source` to `target`, which must not exist.
    pub(crate) fn command(&self, source: &Path, target: &Path) -> Command {
        let mut source = source.as_os_str().to_owned();
        if needs_slash(self.id) {
            source.push("/");
        }
        let mut command = Command::new(&self.program);
        command.args(&self.words).arg(source).arg(target).env("LC_ALL", "C");
        command
    }
}

/// rsync and wcp copy `a` into `b`, but `a/` to `b`.
fn needs_slash(id: &str) -> bool {
    ["rsync", "wcp"].contains(&id)
}

/// Parameters of the search for candidates.
#[derive(Clone, Debug, Default)]
pub(crate) struct CandidateSearch {
    /// Path given for haul.
    pub(crate) haul: Option<PathBuf>,
    /// Another build of haul to compare it with.
    pub(crate) before: Option<PathBuf>,
    /// Options for haul and for the rivals that accept GNU cp's options, in place of `-r`. All
    /// other rivals are then excluded.
    pub(crate) options: Option<String>,
    /// Settings of haul to compare, one candidate each.
    pub(crate) haul_settings: Vec<String>,
    /// Directories to search for rivals; the first match wins.
    pub(crate) folders: Vec<PathBuf>,
    /// IDs of the candidates wanted; empty means all that can be found.
    pub(crate) only: Vec<String>,
}

/// Returns the canonical path of the haul binary: the given one, the one that was called as
/// `haul bench`, the one next to this program, or the one in PATH.
///
/// # Errors
///
/// [`Error::Io`] if the given one does not exist, [`Error::Refused`] if none is found.
pub(crate) fn haul_binary(given: Option<&Path>) -> Result<PathBuf> {
    let called = || std::env::var_os(CALLED).map(PathBuf::from);
    let adjacent = || {
        let haul = std::env::current_exe().ok()?.with_file_name(HAUL);
        programs::is_executable(&haul).then_some(haul)
    };
    let on_path = || programs::find_in(&programs::path_folders(), HAUL).next();
    let haul = given.map(Path::to_owned).or_else(called).or_else(adjacent).or_else(on_path);
    let haul = haul.ok_or_else(|| {
        let missing = "haul is neither beside haul-bench nor on PATH; give its binary with --haul";
        Error::Refused(missing.to_owned())
    })?;
    // A bare name would be looked up in PATH when it is run.
    haul.canonicalize().map_err(Error::doing("find", &haul))
}

/// Finds the candidates: haul first, then the rivals in the order of [`RIVALS`].
///
/// # Errors
///
/// [`Error::Refused`] if a candidate asked for by name is missing, or no candidate is found.
pub(crate) fn find(search: &CandidateSearch) -> Result<Vec<Candidate>> {
    let mut known: Vec<&str> = RIVALS.iter().map(|rival| rival.id).collect();
    known.insert(0, HAUL);
    known.dedup();
    if let Some(unknown) = search.only.iter().find(|id| !known.contains(&id.as_str())) {
        return Err(Error::Refused(format!("--only: '{unknown}' is none of {}", known.join(", "))));
    }
    let wanted = |id: &str| search.only.is_empty() || search.only.iter().any(|only| only == id);
    let mut found = Vec::new();
    if wanted(HAUL) {
        found.extend(find_haul(search)?);
    }
    let plays = |rival: &&Rival| wanted(rival.id) && (search.options.is_none() || rival.is_cp);
    for rival in RIVALS.iter().filter(plays) {
        if found.iter().all(|candidate: &Candidate| candidate.id != rival.id) {
            found.extend(find_rival(rival, &search.folders, search.options.as_deref()));
        }
    }
    let missing = |id: &&String| found.iter().all(|candidate| candidate.id != id.as_str());
    match search.only.iter().find(missing) {
        Some(absent) => Err(Error::Refused(format!("--only: {absent} was not found on this machine"))),
        None if found.is_empty() => Err(Error::Refused("no candidate was found on this machine".to_owned())),
        None => Ok(found),
    }
}

/// Returns the version lines of haul and GNU cp, as far as they are found.
pub(crate) fn versions(haul: &Path) -> Vec<String> {
    let gnu = RIVALS.iter().find(|rival| rival.id == GNU);
    let gnu = gnu.and_then(|rival| find_rival(rival, &programs::path_folders(), None));
    version_of(haul).into_iter().chain(gnu.map(|candidate| candidate.version)).collect()
}

/// Returns one candidate per setting of haul, for each of the builds to compare.
fn find_haul(search: &CandidateSearch) -> Result<Vec<Candidate>> {
    let mut found = settings_of(HAUL, &haul_binary(search.haul.as_deref())?, search)?;
    if let Some(before) = &search.before {
        let before = before.canonicalize().map_err(Error::doing("find", before))?;
        found.extend(settings_of(BEFORE, &before, search)?);
    }
    Ok(found)
}

/// Returns one candidate per setting, for the build `haul`. `name` begins their labels.
fn settings_of(name: &str, haul: &Path, search: &CandidateSearch) -> Result<Vec<Candidate>> {
    let version = version_of(haul).filter(|version| version.starts_with(HAUL));
    let Some(version) = version else {
        return Err(Error::Refused(format!(
            "{} is not haul; give its binary with --haul, or name others with --only",
            haul.display()
        )));
    };
    let plain = [String::new()];
    let settings = if search.haul_settings.is_empty() { &plain[..] } else { &search.haul_settings };
    let mut found: Vec<Candidate> = Vec::new();
    for setting in settings {
        let words: Vec<&str> = setting.split_whitespace().collect();
        let label = [&[name], &words[..]].concat().join(" ");
        if found.iter().any(|candidate| candidate.label == label) {
            return Err(Error::Refused(format!("--haul-args: '{setting}' is given twice")));
        }
        let options = search.options.as_deref().unwrap_or("-r").split_whitespace();
        let words = ["cp"].into_iter().chain(words).chain(options).map(OsString::from).collect();
        found.push(Candidate::new(HAUL, label, version.clone(), haul.to_owned(), words));
    }
    Ok(found)
}

/// Finds a rival; `options` replace its `-r`.
fn find_rival(rival: &Rival, folders: &[PathBuf], options: Option<&str>) -> Option<Candidate> {
    rival.programs.iter().flat_map(|name| programs::find_in(folders, name)).find_map(|program| {
        let version = version_of(&program)?;
        let words = match options {
            None => rival.words.iter().map(OsString::from).collect(),
            Some(options) => {
                let own = rival.words.iter().copied().filter(|word| *word != "-r");
                own.chain(options.split_whitespace()).map(OsString::from).collect()
            }
        };
        (rival.is_it)(&version)
            .then(|| Candidate::new(rival.id, rival.label.to_owned(), version, program, words))
    })
}

/// Returns the first line of the `--version` output, on either stream, that contains a version: fcp
/// prints it to standard error and fails. Returns `None` if the program does not run.
fn version_of(program: &Path) -> Option<String> {
    let output =
        Command::new(program).arg("--version").env("LC_ALL", "C").stdin(Stdio::null()).output().ok()?;
    let [said, complained] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let line = said.lines().chain(complained.lines()).map(str::trim).find(|line| has_version(line));
    Some(line.unwrap_or("version unknown").to_owned())
}

/// Returns true if a word of the line is a version: 9.1, v1.36.1, (0.24.9-beta).
fn has_version(line: &str) -> bool {
    line.split_whitespace().any(|word| {
        let word = word.trim_start_matches(['v', '(']);
        word.starts_with(|letter: char| letter.is_ascii_digit()) && word.contains('.')
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_testkit::program::write_script;

    /// Makes a directory of programs that only print a version.
    fn folder(programs: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, version) in programs {
            let path = folder.path().join(name);
            write_script(&path, &format!("#!/bin/sh\necho '{version}'\n")).unwrap();
        }
        folder
    }

    fn search(folder: &Path, only: &[&str]) -> CandidateSearch {
        CandidateSearch {
            haul: Some(folder.join("haul")),
            folders: vec![folder.to_owned()],
            only: only.iter().map(|id| (*id).to_owned()).collect(),
            ..CandidateSearch::default()
        }
    }

    #[test]
    fn another_build_of_haul_is_a_candidate_for_each_setting() {
        let builds = folder(&[("haul", "haul 0.2.0"), ("haul-before", "haul 0.1.0")]);
        let search = CandidateSearch {
            before: Some(builds.path().join("haul-before")),
            haul_settings: vec![String::new(), "-j 4".to_owned()],
            ..search(builds.path(), &["haul"])
        };
        let found = find(&search).unwrap();
        let labels: Vec<&str> = found.iter().map(|candidate| candidate.label.as_str()).collect();
        assert_eq!(labels, ["haul", "haul -j 4", "before", "before -j 4"]);
        assert_eq!(found[2].version, "haul 0.1.0");
    }

    #[test]
    fn a_program_is_distinguished_from_another_of_its_name() {
        let impostors = folder(&[("rcp", "rcp (GNU inetutils) 2.5")]);
        let search = search(impostors.path(), &[]);
        let rival = |id: &str| RIVALS.iter().find(|rival| rival.id == id).unwrap();
        assert!(find_rival(rival("rcp"), &search.folders, None).is_none());
        let busybox = folder(&[("cp", "BusyBox v1.36.1")]);
        let real = folder(&[("cp", "cp (GNU coreutils) 9.9")]);
        let folders = [busybox.path().to_owned(), real.path().to_owned()];
        let found = find_rival(rival(GNU), &folders, None).unwrap();
        assert_eq!(
            (found.version.as_str(), found.program),
            ("cp (GNU coreutils) 9.9", real.path().join("cp"))
        );
    }

    #[test]
    fn every_setting_of_haul_is_a_candidate() {
        let programs = folder(&[("haul", "haul 0.1.0")]);
        let mut search = search(programs.path(), &[HAUL]);
        search.haul_settings = vec![String::new(), "-j 4  --engine=sync".to_owned()];
        let found = find(&search).unwrap();
        let seen: Vec<(&str, &str)> =
            found.iter().map(|one| (one.label.as_str(), one.line.as_str())).collect();
        assert_eq!(
            seen,
            [
                ("haul", "haul cp -r SOURCE TARGET"),
                ("haul -j 4 --engine=sync", "haul cp -j 4 --engine=sync -r SOURCE TARGET"),
            ]
        );
        search.haul_settings = vec!["-j 4".to_owned(), "-j  4".to_owned()];
        assert!(find(&search).unwrap_err().to_string().contains("given twice"));
    }

    #[test]
    fn other_options_than_r_are_for_those_who_know_them() {
        let programs = folder(&[
            ("haul", "haul 0.1.0"),
            ("cp", "cp (GNU coreutils) 9.9"),
            ("cpz", "cpz 1.0"),
            ("xcp", "xcp 0.24.9"),
        ]);
        let search = CandidateSearch { options: Some("-a -l".to_owned()), ..search(programs.path(), &[]) };
        let lines: Vec<_> = find(&search).unwrap().into_iter().map(|one| one.line).collect();
        assert_eq!(lines, ["haul cp -a -l SOURCE TARGET", "cp -a -l SOURCE TARGET"]);
    }

    #[test]
    fn a_version_is_a_number_with_a_point() {
        for line in ["9.1", "cp (GNU coreutils) 9.1", "BusyBox v1.36.1 (2024)", "xcp 0.24.9"] {
            assert!(has_version(line), "{line}");
        }
        for line in ["", "usage: rcp [-p] file1 file2", "unrecognized option", "8-bit"] {
            assert!(!has_version(line), "{line}");
        }
    }

    #[test]
    fn another_program_is_not_taken_for_haul() {
        let programs = folder(&[("haul", "something else")]);
        let refusal = find(&search(programs.path(), &[HAUL])).unwrap_err().to_string();
        assert!(refusal.contains("is not haul"), "{refusal}");
    }

    #[test]
    fn who_is_asked_for_must_be_known_and_there() {
        let programs = folder(&[("haul", "haul 0.1.0")]);
        let refusal = |id: &str| find(&search(programs.path(), &[id])).unwrap_err().to_string();
        assert!(
            refusal("robocopy").contains("'robocopy' is none of haul, cp, cpz"),
            "{}",
            refusal("robocopy")
        );
        assert!(refusal("xcp").contains("xcp was not found"), "{}", refusal("xcp"));
    }

    #[test]
    fn only_rsync_and_wcp_get_a_slash() {
        let programs = folder(&[("rsync", "rsync  version 3.2.7"), ("xcp", "xcp 0.24.9"), ("wcp", "")]);
        for candidate in find(&search(programs.path(), &["rsync", "xcp", "wcp"])).unwrap() {
            let command = candidate.command(Path::new("/a/tree"), Path::new("/b/copy"));
            let words: Vec<_> = command.get_args().collect();
            let expected: &[&str] = match candidate.id {
                "rsync" => &["-a", "/a/tree/", "/b/copy"],
                "wcp" => &["/a/tree/", "/b/copy"],
                _ => &["-r", "--no-progress", "/a/tree", "/b/copy"],
            };
            assert_eq!(words, expected, "{}", candidate.line);
        }
    }
}
