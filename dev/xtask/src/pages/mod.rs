//! `pages`: checks the Markdown pages, and makes the site of them.
//!
//! Every page has a heading, every link between files of the repository leads to a file and an
//! anchor that exist, a page that is packed links to what is packed with it, every page of `docs/`
//! is in `docs/SUMMARY.md`, and every option that a page names for a command of haul is in that
//! command's help.

pub(crate) mod book;
mod commands;
mod markdown;
mod packed;

use std::collections::{BTreeMap, BTreeSet};

use fs_err as fs;

use crate::steps::{StepFailure, known_files, say, workspace};
use markdown::Page;
pub(crate) use packed::packed;

/// The table of contents of the site.
const SUMMARY: &str = "docs/SUMMARY.md";
/// Pages that are packed with their directory alone.
const PACKED: [&str; 2] = ["node/README.md", "python/README.md"];

/// Checks links, contents and commands of all pages.
pub(crate) fn check() -> Result<(), StepFailure> {
    say("==> pages");
    let files: BTreeSet<_> = known_files()?.into_iter().collect();
    let pages = parsed(&files)?;
    let mut mistakes = without_heading(&pages);
    mistakes.extend(dead_links(&files, &pages));
    mistakes.extend(dead_in_packages(&pages));
    mistakes.extend(unlisted(&pages));
    mistakes.extend(commands::mistakes(&pages)?);
    mistakes.iter().for_each(|mistake| say(mistake));
    match mistakes.len() {
        0 => Ok(()),
        count => Err(StepFailure(format!("{count} mistakes in Markdown pages"))),
    }
}

fn parsed(files: &BTreeSet<String>) -> Result<BTreeMap<String, Page>, StepFailure> {
    let pages = files.iter().filter(|path| path.ends_with(".md"));
    let parse = |path: &String| Ok((path.clone(), Page::parse(&fs::read_to_string(workspace().join(path))?)));
    pages.map(parse).collect()
}

/// Returns the pages without a heading. Most likely they are empty.
fn without_heading(pages: &BTreeMap<String, Page>) -> Vec<String> {
    let empty = pages.iter().filter(|(_, page)| page.anchors.is_empty());
    empty.map(|(path, _)| format!("{path}: no heading")).collect()
}

/// Returns the links that lead to no file, directory or anchor.
fn dead_links(files: &BTreeSet<String>, pages: &BTreeMap<String, Page>) -> Vec<String> {
    let mut dead = Vec::new();
    for (path, page) in pages {
        for link in &page.links {
            let Some((file, anchor)) = resolved(path, &link.to) else { continue };
            let folder = format!("{file}/");
            let exists = files.contains(&file) || files.iter().any(|known| known.starts_with(&folder));
            let has_anchor = pages.get(&file).is_none_or(|page| page.anchors.contains(&anchor));
            if !exists {
                dead.push(format!("{path}: no file for the link {}", link.to));
            } else if !anchor.is_empty() && !has_anchor {
                dead.push(format!("{path}: no heading for the link {}", link.to));
            }
        }
    }
    dead
}

/// Returns the links that lead out of the directory of a package.
fn dead_in_packages(pages: &BTreeMap<String, Page>) -> Vec<String> {
    let mut dead = Vec::new();
    for (path, page) in pages.iter().filter(|(path, _)| PACKED.contains(&path.as_str())) {
        let folder = path.trim_end_matches("README.md");
        let targets = page.links.iter().filter_map(|link| Some((link, resolved(path, &link.to)?.0)));
        let outside = targets.filter(|(_, file)| !file.starts_with(folder));
        dead.extend(outside.map(|(link, _)| format!("{path}: not in the package: {}", link.to)));
    }
    dead
}

/// Returns the path in the workspace that a link leads to, and its anchor; `None` if the link leads
/// to another site.
fn resolved(page: &str, link: &str) -> Option<(String, String)> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (to, anchor) = link.split_once('#').unwrap_or((link, ""));
    if to.is_empty() {
        return Some((page.to_owned(), anchor.to_owned()));
    }
    let mut parts: Vec<_> = page.split('/').collect();
    parts.pop();
    for part in to.trim_end_matches('/').split('/') {
        match part {
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            "." => {}
            _ => parts.push(part),
        }
    }
    Some((parts.join("/"), anchor.to_owned()))
}

/// Returns the pages of `docs/` that the table of contents leaves out.
fn unlisted(pages: &BTreeMap<String, Page>) -> Vec<String> {
    let links = pages.get(SUMMARY).map(|page| page.links.as_slice()).unwrap_or_default();
    let listed: BTreeSet<_> = links.iter().filter_map(|link| resolved(SUMMARY, &link.to)).collect();
    let listed: BTreeSet<_> = listed.into_iter().map(|(file, _)| file).collect();
    let missing = pages.keys().filter(|path| path.starts_with("docs/") && *path != SUMMARY);
    let missing = missing.filter(|path| !listed.contains(*path));
    missing.map(|path| format!("{path}: not in {SUMMARY}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(texts: &[(&str, &str)]) -> (BTreeSet<String>, BTreeMap<String, Page>) {
        let pages = texts.iter().map(|(path, text)| ((*path).to_owned(), Page::parse(text))).collect();
        (texts.iter().map(|(path, _)| (*path).to_owned()).collect(), pages)
    }

    #[test]
    fn a_dead_link_is_found_and_a_good_one_is_not() {
        let (files, pages) = pages(&[
            ("README.md", "[a](docs/a.md#there) [b](docs) [c](https://example.org/x) [d](docs/b.md)"),
            ("docs/a.md", "# There\n\n[up](../README.md) [here](#there) [nowhere](#here) [e](../docs/a.md)"),
        ]);
        let expected =
            ["README.md: no file for the link docs/b.md", "docs/a.md: no heading for the link #here"];
        assert_eq!(dead_links(&files, &pages), expected);
    }

    #[test]
    fn a_link_out_of_a_package_is_found() {
        let (_, pages) = pages(&[
            ("docs/node.md", "[out](../node/index.js)"),
            ("node/README.md", "[in](index.js) [out](../docs/node.md) [site](https://example.org)"),
        ]);
        assert_eq!(dead_in_packages(&pages), ["node/README.md: not in the package: ../docs/node.md"]);
    }

    #[test]
    fn a_page_without_text_is_found() {
        let (_, pages) = pages(&[("README.md", "# haul\n"), ("CHANGELOG.md", "")]);
        assert_eq!(without_heading(&pages), ["CHANGELOG.md: no heading"]);
    }

    #[test]
    fn a_page_that_the_contents_leave_out_is_found() {
        let (_, pages) = pages(&[
            ("README.md", ""),
            ("docs/SUMMARY.md", "- [A](a.md)"),
            ("docs/a.md", ""),
            ("docs/design/b.md", ""),
        ]);
        assert_eq!(unlisted(&pages), ["docs/design/b.md: not in docs/SUMMARY.md"]);
    }
}
