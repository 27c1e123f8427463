//! The structure of a study of the documents, as data: parts, each with its work and the settings
//! that take turns at it.
//!
//! ```text
//!   Study ─► Part "depth-2/4K" ─► Work: a tree to copy, or a file to read and write
//!              │                └► Settings: cp, k-D, k-N, posix, haul   in turn, each round
//!              └ group "depth 2", label "4 KB": its place in tables and plots
//! ```
//!
//! - `s1` to `s5`: the five studies, which `run` measures and `report` shows.
//! - [`findings`]: what was measured; [`published`]: the figures in the documents.

pub(crate) mod findings;
pub(crate) mod published;
pub(crate) mod s1;
pub(crate) mod s2;
pub(crate) mod s3;
pub(crate) mod s4;
pub(crate) mod s5;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::names::ValueName;
use crate::programs;
use crate::shapes::{Totals, TreeShape};

/// Files of one size, in a directory of the source.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FileDirectory {
    pub(crate) name: &'static str,
    pub(crate) shape: TreeShape,
    /// Number of targets each file is striped over.
    pub(crate) stripes: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StudyName {
    /// Linux AIO copies (2014): 5 file sizes x 3 depths x 4 programs, Table 1
    S1,
    /// Buffered AIO by retry (aio-stress): random and sequential reads and writes, MB/s
    S2,
    /// aio, io_uring and cp (2022): 128 files of 3 sizes, kinds of operations, queue depths, memory
    S3,
    /// DCP (2014): broad, fat, deep and a practical test against cp -r, with t-tests
    S4,
    /// spdcp: many files, few large files, and both, by 1 to 16 clients of a striped file system
    S5,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Unit {
    /// Seconds to the return of the command: lower is better.
    #[serde(rename = "s")]
    Seconds,
    /// 10^6 bytes per second: higher is better.
    #[serde(rename = "MB/s")]
    MegabytesPerSecond,
}

impl Unit {
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Unit::Seconds => "s",
            Unit::MegabytesPerSecond => "MB/s",
        }
    }
}

/// Selects the runs with one optimisation turned off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ablate {
    Yes,
    No,
}

#[derive(Clone, Debug)]
pub(crate) struct Study {
    pub(crate) name: StudyName,
    pub(crate) unit: Unit,
    pub(crate) rounds: u32,
    pub(crate) parts: Vec<StudyPart>,
}

/// Some work, and the settings that take turns at it. Figures are only compared within a part.
#[derive(Clone, Debug)]
pub(crate) struct StudyPart {
    /// Name for `--only`.
    pub(crate) name: String,
    /// Heading of several parts in a table or plot.
    pub(crate) group: String,
    /// Name of the part under that heading.
    pub(crate) label: String,
    pub(crate) work: PartWork,
    /// Who does the work; IDs and command lines are unique.
    pub(crate) settings: Vec<StudySetting>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PartWork {
    Copy(TreeShape),
    Striped(Vec<FileDirectory>),
    /// Reads or writes a file with `haul-bench aio`.
    Rate {
        file_bytes: u64,
        /// Arguments that all settings share.
        words: Vec<String>,
    },
}

impl PartWork {
    /// Returns the totals; a single file counts as a tree of one.
    pub(crate) fn totals(&self) -> Totals {
        match self {
            PartWork::Copy(shape) => shape.totals(),
            PartWork::Striped(directories) => {
                let totals = directories.iter().map(|directory| directory.shape.totals());
                totals.fold(Totals::default(), |sum, one| Totals {
                    files: sum.files + one.files,
                    directories: sum.directories + one.directories,
                    bytes: sum.bytes + one.bytes,
                })
            }
            PartWork::Rate { file_bytes, .. } => Totals { files: 1, directories: 0, bytes: *file_bytes },
        }
    }
}

/// Role of a setting in the study: haul with one of its engines, or a program compared with it.
/// Plots give each role a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    /// GNU cp, or whatever the others are compared with.
    Reference,
    Auto,
    Sync,
    IoUring,
    IoUringRegistered,
    PosixAio,
    KernelAio,
    Retry,
    Ablation,
    Rival,
}

/// The setting to test against, and the expected result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Against {
    /// Expected to be better than the setting with this ID.
    BetterThan(&'static str),
    /// Expected to be worse than the setting with this ID.
    WorseThan(&'static str),
    Nobody,
}

#[derive(Clone, Debug)]
pub(crate) struct StudySetting {
    /// Name for `--only` and in the CSV.
    pub(crate) id: String,
    /// Name in plots and tables.
    pub(crate) label: String,
    pub(crate) role: Role,
    /// Options of haul; `None` for GNU cp.
    pub(crate) words: Option<Vec<String>>,
    /// The varied parameter, in a part that varies one.
    pub(crate) x: Option<f64>,
    pub(crate) against: Against,
}

/// ID of GNU cp in every study.
pub(crate) const CP: &str = "cp";

/// ID of haul's own choice in every study.
pub(crate) const AUTO: &str = "haul";

impl StudySetting {
    pub(crate) fn gnu() -> StudySetting {
        StudySetting {
            id: CP.to_owned(),
            label: "cp -r".to_owned(),
            role: Role::Reference,
            words: None,
            x: None,
            against: Against::Nobody,
        }
    }

    pub(crate) fn auto() -> StudySetting {
        StudySetting { label: "haul (auto)".to_owned(), ..StudySetting::haul(AUTO, Role::Auto, "") }
    }

    /// Returns a setting of haul with options, split at spaces. Its ID is also its label, and it is
    /// tested against GNU cp.
    pub(crate) fn haul(id: &str, role: Role, words: &str) -> StudySetting {
        StudySetting {
            id: id.to_owned(),
            label: id.to_owned(),
            role,
            words: Some(words.split_whitespace().map(str::to_owned).collect()),
            x: None,
            against: Against::BetterThan(CP),
        }
    }

    pub(crate) fn called(self, label: &str) -> StudySetting {
        StudySetting { label: label.to_owned(), ..self }
    }
}

pub(crate) fn study(name: StudyName, scale: f64, ablate: Ablate) -> Result<Study> {
    if !(scale.is_finite() && scale > 0.0) {
        return Err(Error::Refused("--scale must be greater than 0".to_owned()));
    }
    match name {
        StudyName::S1 => s1::study(scale),
        StudyName::S2 => s2::study(scale),
        StudyName::S3 => s3::study(scale),
        StudyName::S4 => s4::study(scale, ablate),
        StudyName::S5 => s5::study(scale, programs::find("dcp").is_ok()),
    }
}

impl Study {
    /// Keeps the parts and settings named in `only`. If no part is named, all parts stay; likewise
    /// for settings. The start of a part's name, up to a `/`, also names the part.
    pub(crate) fn keep(&mut self, only: &[String]) -> Result<()> {
        let is_part = |part: &StudyPart, name: &str| {
            part.name == name || part.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'))
        };
        let (parts, settings): (Vec<&String>, Vec<&String>) =
            only.iter().partition(|name| self.parts.iter().any(|part| is_part(part, name)));
        let ids = self.setting_ids();
        if let Some(unknown) = settings.iter().find(|id| !ids.contains(&id.as_str())) {
            return Err(Error::Refused(format!(
                "--only: '{unknown}' is neither a part of {} ({}) nor a setting ({})",
                self.name.name(),
                self.part_names().join(", "),
                ids.join(", ")
            )));
        }
        self.parts.retain(|part| parts.is_empty() || parts.iter().any(|name| is_part(part, name)));
        for part in &mut self.parts {
            part.settings
                .retain(|setting| settings.is_empty() || settings.iter().any(|id| setting.id == **id));
        }
        self.parts.retain(|part| !part.settings.is_empty());
        if self.parts.is_empty() {
            return Err(Error::Refused("--only leaves nothing to run".to_owned()));
        }
        Ok(())
    }

    /// Returns what must fit on the disk: the maximum of each total over all parts.
    pub(crate) fn largest(&self) -> Totals {
        self.parts.iter().map(|part| part.work.totals()).fold(Totals::default(), |most, one| Totals {
            files: most.files.max(one.files),
            directories: most.directories.max(one.directories),
            bytes: most.bytes.max(one.bytes),
        })
    }

    fn part_names(&self) -> Vec<&str> {
        self.parts.iter().map(|part| part.name.as_str()).collect()
    }

    fn setting_ids(&self) -> Vec<&str> {
        let mut ids: Vec<&str> = Vec::new();
        for setting in self.parts.iter().flat_map(|part| &part.settings) {
            if !ids.contains(&setting.id.as_str()) {
                ids.push(&setting.id);
            }
        }
        ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn names(only: &[&str]) -> Result<Vec<(String, usize)>> {
        let mut study = study(StudyName::S1, 1.0, Ablate::No)?;
        study.keep(&only.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())?;
        Ok(study.parts.iter().map(|part| (part.name.clone(), part.settings.len())).collect())
    }

    #[test]
    fn parts_and_settings_are_chosen_apart() {
        assert_eq!(names(&[]).unwrap().len(), 15);
        assert_eq!(names(&["depth-2"]).unwrap().len(), 5);
        assert_eq!(names(&["depth-4/8K", "cp", "haul"]).unwrap(), [("depth-4/8K".to_owned(), 2)]);
        assert_eq!(names(&["k-D"]).unwrap().len(), 15);
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let refusal = names(&["depth-3"]).unwrap_err().to_string();
        assert!(refusal.contains("'depth-3' is neither a part of s1 (depth-2/4K, "), "{refusal}");
        assert!(refusal.contains("nor a setting (cp, k-D, k-N, posix, haul)"), "{refusal}");
    }

    #[test]
    fn no_two_settings_of_a_part_are_alike_and_tests_find_their_partner() {
        for name in [StudyName::S1, StudyName::S2, StudyName::S3, StudyName::S4, StudyName::S5] {
            let study = study(name, 1.0, Ablate::Yes).unwrap();
            let parts: BTreeSet<&str> = study.part_names().into_iter().collect();
            assert_eq!(parts.len(), study.parts.len(), "{name:?}");
            for part in &study.parts {
                let ids: BTreeSet<&str> = part.settings.iter().map(|setting| setting.id.as_str()).collect();
                let lines: BTreeSet<_> = part.settings.iter().map(|setting| &setting.words).collect();
                assert_eq!(ids.len(), part.settings.len(), "{} {:?}", part.name, part.settings);
                assert_eq!(lines.len(), part.settings.len(), "{} {:?}", part.name, part.settings);
                for setting in &part.settings {
                    if let Against::BetterThan(id) | Against::WorseThan(id) = setting.against {
                        assert!(ids.contains(id) && id != setting.id, "{} {}", part.name, setting.id);
                    }
                }
            }
        }
    }
}
