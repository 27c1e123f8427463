//! Code blocks of the documentation, for the tests that run them.

/// A code block between lines of three backquotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The `##` heading above it, empty before the first.
    pub section: String,
    /// Language after the backquotes, for instance `sh`.
    pub language: String,
    /// Its lines.
    pub text: String,
}

/// Returns the code blocks of a page in Markdown, in their order.
#[must_use]
pub fn examples(page: &str) -> Vec<Example> {
    let (mut examples, mut section) = (Vec::new(), "");
    let mut open: Option<Example> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), open.take()) {
            (Some(_), Some(example)) => examples.push(example),
            (Some(language), None) => {
                let (section, language) = (section.to_owned(), language.to_owned());
                open = Some(Example { section, language, text: String::new() });
            }
            (None, Some(mut example)) => {
                example.text.push_str(line);
                example.text.push('\n');
                open = Some(example);
            }
            (None, None) => section = line.strip_prefix("## ").unwrap_or(section),
        }
    }
    examples
}

/// Returns the text of the code blocks in one language.
#[must_use]
pub fn in_language(page: &str, language: &str) -> Vec<String> {
    let examples = examples(page).into_iter();
    examples.filter(|example| example.language == language).map(|example| example.text).collect()
}

#[cfg(test)]
mod tests {
    use super::{examples, in_language};

    #[test]
    fn blocks_have_their_section_and_language() {
        let page =
            "```sh\na\n```\n# T\n## One\ntext\n```\n## no heading\n```\n\n```sh\nb\n\nc\n```\n```c\nopen";
        let found: Vec<_> = examples(page)
            .into_iter()
            .map(|example| [example.section, example.language, example.text])
            .collect();
        let expected = [["", "sh", "a\n"], ["One", "", "## no heading\n"], ["One", "sh", "b\n\nc\n"]];
        assert_eq!(found, expected);
        assert_eq!(in_language(page, "sh"), ["a\n", "b\n\nc\n"]);
    }
}
