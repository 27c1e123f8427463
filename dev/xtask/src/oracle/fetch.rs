//! Downloads the suite: the source package of GNU coreutils from Debian, for the running release
//! and every later one, including the one in preparation.
//!
//! The machine's package sources provide the archive's address and signing key. From these, a
//! private configuration of apt-get that includes source packages is written below the target
//! directory. So nothing on the machine changes, root isn't needed, and downloads are verified.
//!
//! Downloads are kept and reused without checking for updates. Delete the directory to
//! download again.

use std::path::{Path, PathBuf};
use std::process::Command;

use fs_err as fs;

use crate::steps::{StepFailure, is_installed, output_of, say};

/// A version of the suite and its archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Package {
    /// GNU's version number, such as `9.7`.
    pub(crate) version: String,
    /// The source archive.
    pub(crate) archive: PathBuf,
}

const SUITE: &str = "coreutils";

/// Marker file that records a completed download.
const DONE: &str = "fetched";

/// Returns the versions of the suite, oldest first. `Err` is the reason there are none.
pub(crate) fn packages(folder: &Path) -> Result<Vec<Package>, String> {
    let folder = folder.join("archive");
    if folder.join(DONE).exists() {
        let packages = packages_in(&folder);
        if !packages.is_empty() {
            return Ok(packages);
        }
    }
    if !is_installed("apt-get") {
        return Err("needs apt-get, and a Debian archive".to_owned());
    }
    let archive = DebianArchive::of_this_machine()?;
    let fetched = fetch(&folder, &archive);
    let packages = packages_in(&folder);
    match fetched {
        Err(StepFailure(reason)) if packages.is_empty() => Err(format!("cannot fetch the suite: {reason}")),
        Err(StepFailure(reason)) => {
            say(&format!("only what was fetched before is run: {reason}"));
            Ok(packages)
        }
        Ok(()) if packages.is_empty() => {
            Err(format!("nothing like coreutils_9.1.orig.tar.xz arrived in {}", folder.display()))
        }
        Ok(()) => {
            fs::write(folder.join(DONE), "").map_err(|error| error.to_string())?;
            Ok(packages)
        }
    }
}

/// Downloads another source package of the running release, once, and returns its description
/// (`.dsc`). The suite must already be in the same directory.
pub(crate) fn source(folder: &Path, name: &str) -> Result<PathBuf, String> {
    let folder = folder.join("archive");
    let description = || {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let is_it = |file: &str| file.starts_with(&format!("{name}_")) && file.ends_with(".dsc");
        entries
            .map(|entry| entry.path())
            .find(|path| path.file_name().and_then(|file| file.to_str()).is_some_and(is_it))
    };
    if let Some(path) = description() {
        return Ok(path);
    }
    let release = DebianArchive::of_this_machine()?.release;
    run_apt_get(&folder, &source_of(name, &release)).map_err(|StepFailure(reason)| reason)?;
    description().ok_or_else(|| format!("no {name}.dsc arrived in {}", folder.display()))
}

/// The Debian archive this machine installs from.
#[derive(Debug, PartialEq, Eq)]
struct DebianArchive {
    address: String,
    /// Code name of the running release.
    release: String,
    /// Path of the archive's key, if the package sources name one.
    key: Option<String>,
}

impl DebianArchive {
    fn of_this_machine() -> Result<Self, String> {
        let format = "$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(CODENAME)|$(REPO_URI)|$(SOURCESENTRY)";
        let listed = output_of(Command::new("apt-get").args(["indextargets", "--format", format]))
            .map_err(|StepFailure(reason)| reason)?;
        Self::in_targets(&String::from_utf8_lossy(&listed), |file| {
            fs::read_to_string(file).unwrap_or_default()
        })
        .ok_or_else(|| "needs a machine that installs from a Debian archive".to_owned())
    }

    /// Finds the archive in apt-get's index targets. `read` returns the contents of a
    /// package source file.
    fn in_targets(listed: &str, read: impl Fn(&str) -> String) -> Option<Self> {
        listed.lines().find_map(|line| {
            let fields: Vec<&str> = line.split('|').collect();
            let ["Debian", "Debian", "main", release, address, entry] = fields.as_slice() else {
                return None;
            };
            if release.contains('-') {
                return None;
            }
            let (file, _) = entry.rsplit_once(':')?;
            Some(Self {
                address: (*address).to_owned(),
                release: (*release).to_owned(),
                key: key_in(&read(file)),
            })
        })
    }

    /// Formats the package source line for one release.
    fn source_line(&self, release: &str) -> String {
        let key = self.key.as_ref().map(|key| format!("[signed-by={key}] ")).unwrap_or_default();
        format!("deb-src {key}{} {release} main\n", self.address)
    }
}

/// Finds the path of a key in a package source file, of the old format or the new.
fn key_in(sources: &str) -> Option<String> {
    let lower = sources.to_ascii_lowercase();
    let place = lower.find("signed-by")? + "signed-by".len();
    let after = sources.get(place..)?.trim_start_matches([':', '=', ' ']);
    let end = after.find(|letter: char| letter.is_whitespace() || letter == ']' || letter == ',');
    let key = after.get(..end.unwrap_or(after.len()))?;
    key.starts_with('/').then(|| key.to_owned())
}

/// Debian's releases, oldest first. A later one has a later version of the suite.
const AGES: [&str; 4] = ["oldoldstable", "oldstable", "stable", "testing"];

/// Returns the releases after this one.
fn later_than(age: &str) -> &'static [&'static str] {
    let place = AGES.iter().position(|known| *known == age);
    place.and_then(|place| AGES.get(place + 1..)).unwrap_or_default()
}

/// Downloads the source package of the running release, and of all later ones.
fn fetch(folder: &Path, archive: &DebianArchive) -> Result<(), StepFailure> {
    for name in ["state/lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(folder.join(name))?;
    }
    let list = folder.join("sources.list");
    let write = |text: &str| fs::write(&list, text).map_err(|error| StepFailure(error.to_string()));
    let here = archive.source_line(&archive.release);
    write(&here)?;
    run_apt_get(folder, &["update"])?;
    run_apt_get(folder, &source_of(SUITE, &archive.release))?;

    // Only the archive knows which of these the running release is now.
    let ages = output_of(apt_get(folder).args(["indextargets", "--format", "$(SUITE)"]))?;
    let ages = String::from_utf8_lossy(&ages).into_owned();
    let later = ages.lines().map(later_than).find(|later| !later.is_empty()).unwrap_or_default();
    if later.is_empty() {
        say(&format!("no release of Debian follows {}: only its suite is run", archive.release));
        return Ok(());
    }
    let lines: String = later.iter().map(|release| archive.source_line(release)).collect();
    write(&format!("{here}{lines}"))?;
    run_apt_get(folder, &["update"])?;
    later.iter().try_for_each(|release| run_apt_get(folder, &source_of(SUITE, release)))
}

fn source_of<'a>(name: &'a str, release: &'a str) -> [&'a str; 6] {
    ["source", name, "--download-only", "--only-source", "--target-release", release]
}

/// Returns a command for apt-get with the private configuration, which also downloads to
/// the directory.
fn apt_get(folder: &Path) -> Command {
    let mut command = Command::new("apt-get");
    command.current_dir(folder).arg("--quiet=2");
    for (name, value) in
        [("Dir::Etc::sourcelist", "sources.list"), ("Dir::State", "state"), ("Dir::Cache", "cache")]
    {
        command.arg("--option").arg(format!("{name}={}", folder.join(value).display()));
    }
    for setting in [
        "Dir::Etc::sourceparts=/dev/null",
        "Dir::State::status=/var/lib/dpkg/status",
        // The user that apt-get switches to for downloads may not have access to the directory.
        "APT::Sandbox::User=root",
        "Acquire::Languages=none",
    ] {
        command.args(["--option", setting]);
    }
    command
}

/// Runs apt-get and prints its output.
fn run_apt_get(folder: &Path, words: &[&str]) -> Result<(), StepFailure> {
    let fail = |_| StepFailure(format!("apt-get {} failed, for the reason above", words.join(" ")));
    let output = output_of(apt_get(folder).args(words)).map_err(fail)?;
    String::from_utf8_lossy(&output).lines().for_each(say);
    Ok(())
}

/// Lists the versions whose archives are in a directory, oldest first.
fn packages_in(folder: &Path) -> Vec<Package> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut packages: Vec<_> = entries
        .filter_map(|entry| {
            let version = version_of(entry.file_name().to_str()?)?.to_owned();
            Some(Package { version, archive: entry.path() })
        })
        .collect();
    packages.sort_by_key(|package| numbers_of(&package.version));
    packages
}

/// Parses the version from an archive's name: `coreutils_9.7.orig.tar.xz`.
fn version_of(name: &str) -> Option<&str> {
    let (version, packing) = name.strip_prefix("coreutils_")?.split_once(".orig.tar.")?;
    matches!(packing, "xz" | "gz" | "bz2").then_some(version)
}

fn numbers_of(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGETS: &str = "\
Debian|Debian-Security|main|trixie-security|http://archive/security/|/etc/apt/sources.list.d/debian.sources:7
Debian|Debian|main|trixie-updates|http://archive/debian/|/etc/apt/sources.list.d/debian.sources:1
Other|Debian|main|trixie|http://other/|/etc/apt/sources.list.d/other.list:1
Debian|Debian|contrib|trixie|http://archive/debian/|/etc/apt/sources.list.d/debian.sources:1
Debian|Debian|main|trixie|http://archive/debian/|/etc/apt/sources.list.d/debian.sources:1
";

    #[test]
    fn the_archive_is_the_one_the_machine_installs_from() {
        let read = |file: &str| {
            assert_eq!(file, "/etc/apt/sources.list.d/debian.sources");
            "Types: deb\nSigned-By: /usr/share/keyrings/archive.pgp\n".to_owned()
        };
        let archive = DebianArchive::in_targets(TARGETS, read).unwrap();
        assert_eq!(archive.release, "trixie");
        assert_eq!(
            archive.source_line("testing"),
            "deb-src [signed-by=/usr/share/keyrings/archive.pgp] http://archive/debian/ testing main\n"
        );
        assert_eq!(DebianArchive::in_targets("", |_| String::new()), None);
    }

    #[test]
    fn every_later_release_is_fetched_but_never_an_earlier_one() {
        assert_eq!(later_than("oldstable"), ["stable", "testing"]);
        assert_eq!(later_than("stable"), ["testing"]);
        assert!(later_than("testing").is_empty() && later_than("stable-updates").is_empty());
    }

    #[test]
    fn keys_are_found_in_both_forms_of_lists() {
        let old = "# a comment\ndeb [arch=amd64 signed-by=/usr/share/keyrings/a.gpg] http://archive/ x main";
        assert_eq!(key_in(old).as_deref(), Some("/usr/share/keyrings/a.gpg"));
        assert_eq!(key_in("Signed-By:   /k.asc").as_deref(), Some("/k.asc"));
        assert_eq!(key_in("Signed-By:\n -----BEGIN PGP"), None);
        assert_eq!(key_in("deb http://archive/ x main"), None);
    }

    #[test]
    fn versions_are_read_from_names_and_sorted_by_number() {
        assert_eq!(version_of("coreutils_9.7.orig.tar.xz"), Some("9.7"));
        assert_eq!(version_of("coreutils_9.7.orig.tar.xz.asc"), None);
        assert_eq!(version_of("coreutils_9.7-3.debian.tar.xz"), None);
        assert!(numbers_of("9.10") > numbers_of("9.7"));
    }
}
