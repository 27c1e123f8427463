//! One line of a `.gitignore` file, as git reads it (`git_decides` in the tests of the command
//! line).
//!
//! The patterns of the crate `globset` differ from git's: braces are alternatives, bracket
//! expressions have neither backslashes nor named classes and may match a slash, and two stars
//! within a name are not one.

/// A parsed line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// True if the line begins with `!`.
    pub(super) is_inclusion: bool,
    pub(super) directories_only: bool,
    pub(super) pattern: RulePattern,
}

/// The entries that a rule matches.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RulePattern {
    /// Entries of this name, in any directory.
    Name(Vec<u8>),
    /// The entry with this path.
    Path(Vec<u8>),
    /// Entries whose name this glob matches.
    NameGlob(String),
    /// Entries whose path this glob matches.
    PathGlob(String),
}

/// Why a line has no effect.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoRule {
    /// It is empty, or a comment.
    Nothing,
    /// It can't match anything.
    Invalid,
}

impl Rule {
    /// Parses a line. One that is not UTF-8 can have no wildcards.
    pub(super) fn parse(line: &[u8]) -> Result<Self, NoRule> {
        if line.contains(&0) && !line.starts_with(b"#") {
            return Err(NoRule::Invalid);
        }
        match str::from_utf8(line) {
            Ok(line) => Self::parse_text(line, String::into_bytes),
            Err(_) => {
                // All special characters are ASCII, so the line can be read as Latin-1.
                let line: String = line.iter().copied().map(char::from).collect();
                let rule = Self::parse_text(&line, |text| {
                    text.chars().filter_map(|character| u8::try_from(character).ok()).collect()
                })?;
                let is_glob = matches!(rule.pattern, RulePattern::NameGlob(_) | RulePattern::PathGlob(_));
                if is_glob { Err(NoRule::Invalid) } else { Ok(rule) }
            }
        }
    }

    /// Parses text, of which `bytes` returns the bytes.
    fn parse_text(line: &str, bytes: impl FnOnce(String) -> Vec<u8>) -> Result<Self, NoRule> {
        let line = trimmed(line.strip_suffix('\r').unwrap_or(line));
        if line.is_empty() || line.starts_with('#') {
            return Err(NoRule::Nothing);
        }
        let (is_inclusion, line) = line.strip_prefix('!').map_or((false, line), |line| (true, line));
        let (directories_only, line) = line.strip_suffix('/').map_or((false, line), |line| (true, line));
        let (is_path, line) = (line.contains('/'), line.strip_prefix('/').unwrap_or(line));
        // No path has such a component. Git ignores the line silently; haul reports it.
        if line.split('/').any(|component| matches!(component, "" | "." | "..")) {
            return Err(NoRule::Invalid);
        }
        let (text, has_wildcards) = translate(line).ok_or(NoRule::Invalid)?;
        let pattern = match (is_path, has_wildcards) {
            (false, false) => RulePattern::Name(bytes(text)),
            (true, false) => RulePattern::Path(bytes(text)),
            (false, true) => RulePattern::NameGlob(text),
            (true, true) => RulePattern::PathGlob(text),
        };
        Ok(Self { is_inclusion, directories_only, pattern })
    }
}

/// Translates a pattern. Returns the text that it matches, or else the glob, and true if it is a
/// glob. `None` if it can't match anything.
fn translate(pattern: &str) -> Option<(String, bool)> {
    let (mut text, mut glob) = (String::with_capacity(pattern.len()), String::with_capacity(pattern.len()));
    let (mut rest, mut has_wildcards) = (pattern, false);
    while let Some(next) = rest.chars().next() {
        let begins_component =
            rest.len() == pattern.len() || pattern[..pattern.len() - rest.len()].ends_with('/');
        rest = &rest[next.len_utf8()..];
        let literal = match next {
            '\\' => {
                let quoted = rest.chars().next()?;
                rest = &rest[quoted.len_utf8()..];
                quoted
            }
            '*' => {
                let after = rest.trim_start_matches('*');
                let is_component = begins_component && (after.is_empty() || after.starts_with('/'));
                glob.push_str(if is_component && after.len() < rest.len() { "**" } else { "*" });
                (rest, has_wildcards) = (after, true);
                continue;
            }
            '?' => {
                glob.push('?');
                has_wildcards = true;
                continue;
            }
            '[' => {
                let (bracket, after) = Bracket::parse(rest)?;
                bracket.print(&mut glob)?;
                (rest, has_wildcards) = (after, true);
                continue;
            }
            literal => literal,
        };
        text.push(literal);
        glob.extend(matches!(literal, '\\' | '*' | '?' | '[' | ']' | '{' | '}' | '!').then_some('\\'));
        glob.push(literal);
    }
    if glob.ends_with("/**") {
        // All that is below a directory, but not the directory.
        glob.push_str("/*");
    }
    Some(if has_wildcards { (glob, true) } else { (text, false) })
}

/// Bytes of the named classes in git's wildmatch.c, which are those of the C locale.
const CLASSES: &[(&str, &[(char, char)])] = &[
    ("alnum", &[('0', '9'), ('A', 'Z'), ('a', 'z')]),
    ("alpha", &[('A', 'Z'), ('a', 'z')]),
    ("blank", &[('\t', '\t'), (' ', ' ')]),
    ("cntrl", &[('\0', '\x1f'), ('\x7f', '\x7f')]),
    ("digit", &[('0', '9')]),
    ("graph", &[('!', '~')]),
    ("lower", &[('a', 'z')]),
    ("print", &[(' ', '~')]),
    ("punct", &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')]),
    ("space", &[('\t', '\r'), (' ', ' ')]),
    ("upper", &[('A', 'Z')]),
    ("xdigit", &[('0', '9'), ('A', 'F'), ('a', 'f')]),
];

/// Removes the spaces at the end that no backslash quotes.
fn trimmed(line: &str) -> &str {
    let kept = line.trim_end_matches(' ');
    let is_quoted = kept.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1;
    if is_quoted && kept.len() < line.len() { &line[..=kept.len()] } else { kept }
}

/// A bracket expression.
struct Bracket {
    is_negated: bool,
    ranges: Vec<(char, char)>,
}

impl Bracket {
    /// Parses the text after the opening bracket. Returns the text after the closing one.
    fn parse(text: &str) -> Option<(Self, &str)> {
        let body = text.strip_prefix(['!', '^']).unwrap_or(text);
        let (mut rest, mut ranges) = (body, Vec::new());
        loop {
            if let Some(after) = rest.strip_prefix(']')
                && rest.len() < body.len()
            {
                return Some((Self { is_negated: body.len() < text.len(), ranges }, after));
            }
            if let Some(named) = rest.strip_prefix("[:")
                && let Some((name, after)) = named.split_once(":]")
                && !name.contains(']')
            {
                ranges.extend(CLASSES.iter().find(|(known, _)| *known == name)?.1);
                rest = after;
                continue;
            }
            let (first, after) = character(rest)?;
            rest = after;
            let until = rest.strip_prefix('-').filter(|after| !after.starts_with(']')).map(character);
            let last = match until {
                Some(end) => {
                    let (last, after) = end?;
                    rest = after;
                    last
                }
                None => first,
            };
            // For git a range that ends before its start is its first character.
            ranges.push((first, last.max(first)));
        }
    }

    /// Prints the expression so that it never matches a slash. `None` if it matches nothing.
    fn print(mut self, out: &mut String) -> Option<()> {
        if self.is_negated {
            self.ranges.push(('/', '/'));
        } else {
            self.ranges = self.ranges.into_iter().flat_map(|range| without(range, '/')).collect();
        }
        // These are special in most positions, and are printed where they are literal.
        let mut singles = Vec::new();
        let mut plain = self.ranges;
        for special in [']', '-', '!', '^'] {
            let before = plain.iter().any(|(first, last)| (*first..=*last).contains(&special));
            plain = plain.into_iter().flat_map(|range| without(range, special)).collect();
            singles.extend(before.then_some(special));
        }
        if !self.is_negated && plain.is_empty() && !singles.contains(&']') {
            let quoted: Vec<_> = singles.iter().map(|single| format!("\\{single}")).collect();
            out.push_str(&match quoted.as_slice() {
                [] => return None,
                [one] => one.clone(),
                several => format!("{{{}}}", several.join(",")),
            });
            return Some(());
        }
        out.push('[');
        out.extend(self.is_negated.then_some('!'));
        out.extend(singles.iter().filter(|single| **single == ']'));
        for (first, last) in plain {
            out.push(first);
            if first < last {
                out.extend(['-', last]);
            }
        }
        out.extend(singles.iter().filter(|single| matches!(single, '!' | '^')));
        out.extend(singles.iter().filter(|single| **single == '-'));
        out.push(']');
        Some(())
    }
}

/// Parses one character, which may be quoted.
fn character(text: &str) -> Option<(char, &str)> {
    let text = text.strip_prefix('\\').unwrap_or(text);
    let mut letters = text.chars();
    letters.next().map(|letter| (letter, letters.as_str()))
}

/// Removes a character from a range: one range, two, or none are left.
fn without((first, last): (char, char), taken: char) -> impl Iterator<Item = (char, char)> {
    let is_in = (first..=last).contains(&taken);
    let below = char::from_u32(u32::from(taken) - 1).filter(|below| is_in && first <= *below);
    let above = char::from_u32(u32::from(taken) + 1).filter(|above| is_in && *above <= last);
    let whole = (!is_in).then_some((first, last));
    let parts = [whole, below.map(|below| (first, below)), above.map(|above| (above, last))];
    parts.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_names_paths_or_globs() {
        let name = |text: &str| RulePattern::Name(text.as_bytes().to_owned());
        let path = |text: &str| RulePattern::Path(text.as_bytes().to_owned());
        let name_glob = |text: &str| RulePattern::NameGlob(text.to_owned());
        let path_glob = |text: &str| RulePattern::PathGlob(text.to_owned());
        let cases = [
            ("a", name("a")),
            ("a  ", name("a")),
            ("a\\  ", name("a ")),
            ("a\\\\ ", name("a\\")),
            ("a\r", name("a")),
            ("a\t", name("a\t")),
            ("\\#a", name("#a")),
            ("{a,b}", name("{a,b}")),
            ("/a", path("a")),
            ("a/b", path("a/b")),
            ("a*b", name_glob("a*b")),
            ("a**b", name_glob("a*b")),
            ("**", name_glob("**")),
            ("{a*", name_glob("\\{a*")),
            ("a/***/b", path_glob("a/**/b")),
            ("a/**", path_glob("a/**/*")),
            ("[a-c]", name_glob("[a-c]")),
            ("[!a]", name_glob("[!a/]")),
            ("[^a]", name_glob("[!a/]")),
            ("[]a]", name_glob("[]a]")),
            ("[a\\]]", name_glob("[]a]")),
            ("[a-]", name_glob("[a-]")),
            ("[!-a]", name_glob("[!a/-]")),
            ("[[:digit:]x]", name_glob("[0-9x]")),
            ("[\\!^]", name_glob("{\\!,\\^}")),
            ("[-]", name_glob("\\-")),
            ("[.-0]", name_glob("[.0]")),
            ("[c-ax]", name_glob("[cx]")),
            ("[c-a]", name_glob("[c]")),
        ];
        for (line, pattern) in cases {
            assert_eq!(Rule::parse(line.as_bytes()).map(|rule| rule.pattern), Ok(pattern), "{line:?}");
        }
        let rule = Rule::parse(b"!/a/").unwrap();
        assert_eq!((rule.is_inclusion, rule.directories_only, rule.pattern), (true, true, path("a")));
    }

    #[test]
    fn a_line_that_is_not_text_stands_for_its_bytes() {
        let rule = Rule::parse(b"!d/\\#\xe9/ ").unwrap();
        assert_eq!((rule.is_inclusion, rule.directories_only), (true, true));
        assert_eq!(rule.pattern, RulePattern::Path(b"d/#\xe9".to_vec()));
        assert_eq!(Rule::parse(b"\xe9*"), Err(NoRule::Invalid));
    }

    #[test]
    fn lines_that_match_nothing_are_invalid() {
        for line in
            ["[", "[a", "[/]", "[[:what:]]", "a[]", "a\\", "/", "!", "!/", ".", "./a", "../a", "a//b", "a\0b"]
        {
            assert_eq!(Rule::parse(line.as_bytes()), Err(NoRule::Invalid), "{line:?}");
        }
        for line in ["", " ", "# a", "#", "\r"] {
            assert_eq!(Rule::parse(line.as_bytes()), Err(NoRule::Nothing), "{line:?}");
        }
    }
}
