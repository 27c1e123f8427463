//! Parser for the parts of a Markdown page: links, anchors, code, and cells of tables.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// A link or picture, as it stands in the text.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) to: String,
    /// Bytes of the text that the whole link takes.
    pub(super) span: Range<usize>,
}

/// A piece of code.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Code {
    pub(super) text: String,
    /// Column of the table that it is in, from 0.
    pub(super) column: Option<usize>,
}

#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) links: Vec<Link>,
    pub(super) anchors: Vec<String>,
    /// Code within lines, and each line of blocks that are shell commands or have no language.
    pub(super) code: Vec<Code>,
}

impl Page {
    pub(super) fn parse(text: &str) -> Self {
        let mut page = Self::default();
        let (mut heading, mut column, mut is_shell) = (None::<String>, None, false);
        for (event, span) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(Link { to: dest_url.into_string(), span });
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => page.anchors.extend(heading.take().map(|it| anchor(&it))),
                Event::Start(Tag::TableHead | Tag::TableRow) => column = Some(0),
                Event::End(TagEnd::TableCell) => column = column.map(|column| column + 1),
                Event::End(TagEnd::TableHead | TagEnd::TableRow) => column = None,
                Event::Start(Tag::CodeBlock(kind)) => is_shell = is_shell_code(&kind),
                Event::End(TagEnd::CodeBlock) => is_shell = false,
                Event::Text(block) if is_shell => {
                    let lines = block.lines().map(|line| Code { text: line.to_owned(), column: None });
                    page.code.extend(lines);
                }
                Event::Code(piece) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&piece);
                    }
                    page.code.push(Code { text: piece.into_string(), column });
                }
                Event::Text(piece) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&piece);
                    }
                }
                Event::Html(piece) | Event::InlineHtml(piece) => page.links.extend(sources(&piece, &span)),
                _ => {}
            }
        }
        page
    }
}

fn is_shell_code(kind: &CodeBlockKind<'_>) -> bool {
    match kind {
        CodeBlockKind::Indented => true,
        CodeBlockKind::Fenced(language) => matches!(&**language, "" | "sh" | "console" | "ini"),
    }
}

/// Returns what `src` and `href` of a piece of HTML lead to.
fn sources(html: &str, span: &Range<usize>) -> Vec<Link> {
    let values = ["src=\"", "srcset=\"", "href=\""].into_iter().flat_map(|name| html.split(name).skip(1));
    let values = values.filter_map(|rest| rest.split_once('"'));
    values.map(|(to, _)| Link { to: to.to_owned(), span: span.clone() }).collect()
}

/// Returns the anchor that GitHub and mdBook give to a heading.
fn anchor(heading: &str) -> String {
    let kept = |letter: char| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        _ => letter.is_alphanumeric().then_some(letter),
    };
    heading.trim().to_lowercase().chars().filter_map(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_anchors_and_commands_are_found_where_they_count() {
        let text = "# The `cp` of *GNU*, 9.1\n\n[a](b.md#c) `haul cp -a`\n<img src=\"d.svg\" alt=\"\">\n\n\
                    | x | y |\n|---|---|\n| `-z` | [e](f) `--direct` |\n\n```rust\n[no](link)\n```\n\
                    ```sh\nhaul sum A\n```\n";
        let page = Page::parse(text);
        assert_eq!(page.anchors, ["the-cp-of-gnu-91"]);
        assert_eq!(page.links.iter().map(|link| &*link.to).collect::<Vec<_>>(), ["b.md#c", "d.svg", "f"]);
        assert!(text.get(page.links[0].span.clone()) == Some("[a](b.md#c)"));
        let code: Vec<_> = page.code.iter().map(|code| (&*code.text, code.column)).collect();
        let expected = [
            ("cp", None),
            ("haul cp -a", None),
            ("-z", Some(0)),
            ("--direct", Some(1)),
            ("haul sum A", None),
        ];
        assert_eq!(code, expected);
    }
}
