//! The README as it is packed: without links to pages and pictures that the package doesn't have.

use std::collections::BTreeMap;

use super::markdown::Page;
use super::resolved;

/// Where the pictures of the README begin and end.
const PICTURE: [&str; 2] = ["<p align=\"center\">\n", "</p>\n\n"];

/// Returns a page of the top directory for a package that has only `packed` of its files: other
/// links become their text, and pictures are left out.
pub(crate) fn packed(text: &str, packed: &[&str]) -> String {
    let text = without_pictures(text);
    let page = Page::parse(&text);
    let mut changes = BTreeMap::new();
    for link in &page.links {
        let is_missing = |(file, _): (String, String)| !packed.contains(&file.as_str());
        // In the top directory, what a page refers to in itself has its name.
        let is_dead = !link.to.starts_with('#') && resolved("README.md", &link.to).is_some_and(is_missing);
        let piece = text.get(link.span.clone()).unwrap_or_default();
        let label = piece.strip_prefix('[').and_then(|rest| rest.strip_suffix(&format!("]({})", link.to)));
        if let Some(label) = label.filter(|_| is_dead) {
            changes.insert(link.span.start, (link.span.clone(), label.to_owned()));
        }
    }
    let mut text = text;
    for (span, label) in changes.into_values().rev() {
        text.replace_range(span, &label);
    }
    text
}

fn without_pictures(text: &str) -> String {
    let [begin, end] = PICTURE;
    let mut parts = text.split(begin);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |kept, part| kept + part.split_once(end).map_or(part, |(_, after)| after))
}

#[cfg(test)]
mod tests {
    use super::super::markdown::Page;
    use super::*;
    use crate::steps::workspace;

    #[test]
    fn links_to_what_is_packed_stay_and_others_become_text() {
        let text = "<p align=\"center\">\n<img src=\"docs/a.svg\"\nalt=\"\">\n</p>\n\n# A\n\n\
                    [kept](CHANGELOG.md) [`x`](docs/a.md#b), [two\nlines](docs/a.md) [here](#a) [c](https://x.org)\n";
        let expected = "# A\n\n[kept](CHANGELOG.md) `x`, two\nlines [here](#a) [c](https://x.org)\n";
        assert_eq!(packed(text, &["CHANGELOG.md"]), expected);
    }

    #[test]
    fn the_readme_has_no_dead_link_in_a_package() {
        let readme = fs_err::read_to_string(workspace().join("README.md")).unwrap_or_default();
        let files = ["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];
        let page = Page::parse(&packed(&readme, &files));
        let links: Vec<_> = page.links.iter().map(|link| link.to.as_str()).collect();
        assert!(links.contains(&"LICENSE-MIT") && links.contains(&"CHANGELOG.md"), "{links:?}");
        assert!(links.iter().all(|link| link.contains("://") || files.contains(link)), "{links:?}");
    }
}
