//! The licences of the packages that are linked into the program: who distributes it has to include
//! them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::sbom::Components;
use crate::steps::StepFailure;

/// What the names of files with licences begin with, in small letters.
const NAMES: [&str; 5] = ["licen", "copying", "copyright", "unlicense", "notice"];

/// Files of sources whose licence is only in a comment at their beginning, by package.
const COMMENTS: [(&str, &str); 2] = [
    ("pcre2-sys", "upstream/src/pcre2_compile.c"),
    ("pcre2-sys", "upstream/deps/sljit/sljit_src/sljitLir.c"),
];

/// Returns the licences, each text once, below the packages that have it.
///
/// # Errors
/// If a package has none.
pub(super) fn notices(components: &Components) -> Result<String, StepFailure> {
    let mut by_text = BTreeMap::<String, Vec<String>>::new();
    for package in components.foreign() {
        let [name, version] = ["name", "version"].map(|key| package[key].as_str().unwrap_or_default());
        let texts = licences_of(package, name)?;
        if texts.is_empty() {
            return Err(StepFailure(format!("{name} {version} has no text of its licence")));
        }
        for text in texts {
            let owners = by_text.entry(text).or_default();
            owners.push(format!("{name} {version}"));
            owners.dedup();
        }
    }
    let mut groups: Vec<_> = by_text.into_iter().map(|(text, owners)| (owners.join(", "), text)).collect();
    groups.sort();
    let head = "haul contains these packages of others, under these licences.\n";
    let rule = "=".repeat(80);
    let parts = groups.into_iter().map(|(owners, text)| format!("\n{rule}\n{owners}\n{rule}\n\n{text}\n"));
    Ok(head.to_owned() + &parts.collect::<String>())
}

fn licences_of(package: &Value, name: &str) -> Result<Vec<String>, StepFailure> {
    let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
    let folder = manifest.parent().unwrap_or(manifest);
    let mut texts = Vec::new();
    for file in files_below(folder)? {
        texts.push(String::from_utf8_lossy(&fs_err::read(file)?).trim().to_owned());
    }
    // zstd may also be used under it.
    texts.retain(|text| !text.starts_with("GNU GENERAL PUBLIC LICENSE"));
    for (_, file) in COMMENTS.iter().filter(|(of, _)| *of == name) {
        texts.push(licence_in_comment(&fs_err::read_to_string(folder.join(file))?)?);
    }
    texts.sort();
    texts.dedup();
    Ok(texts)
}

/// Returns the files with licences in a directory and those below it.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>, StepFailure> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().to_lowercase();
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else if NAMES.iter().any(|begin| name.starts_with(begin)) && !name.ends_with(".rs") {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}

/// Returns the comment of a C file that has its licence.
fn licence_in_comment(text: &str) -> Result<String, StepFailure> {
    let comments = text.split("/*").skip(1).filter_map(|rest| rest.split_once("*/"));
    let licence = comments.map(|(comment, _)| comment).find(|comment| comment.contains("Redistribution"));
    let licence = licence.ok_or_else(|| StepFailure("no licence at the beginning of a file".to_owned()))?;
    Ok(licence.trim().to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn the_licences_of_libraries_in_c_are_among_them() {
        let text = notices(&Components::read().unwrap()).unwrap();
        for part in ["University of Cambridge", "Zoltan Herczeg", "Facebook", "libc 0.2"] {
            assert!(text.contains(part), "{part}");
        }
    }
}
