//! Sentences with placeholders for names.
//!
//! A name is any sequence of bytes. The program decides how it is shown: one in a terminal quotes
//! names for its locale; the others use [`quoted`].
//!
//! Invariant: a name fills one placeholder, whatever it contains
//! (test: `a_name_with_a_placeholder_in_it_is_left_alone`).

/// Form of a name in a sentence, as its placeholder asks for.
///
/// The placeholder `{cause}` is not for a name, but for a reason that doesn't belong at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quoting {
    /// `{}`: in quotes.
    Always,
    /// `{plain}`: in quotes only if it would be unclear where it begins and ends.
    IfNeeded,
    /// `{prose}`: in quotes, as a word of a sentence.
    Word,
    /// `{escape}`: without quotes, and escaped.
    Escape,
    /// `{itemized}`: without quotes, and escaped as rsync does.
    Itemize,
    /// `{bare}`: as it is. It is haul's own word, or a name that GNU doesn't quote.
    Bare,
}

impl Quoting {
    fn of(placeholder: &str) -> Self {
        match placeholder {
            "plain" => Self::IfNeeded,
            "prose" => Self::Word,
            "escape" => Self::Escape,
            "itemized" => Self::Itemize,
            "bare" => Self::Bare,
            _ => Self::Always,
        }
    }
}

/// Fills the placeholders of a sentence with names in order, formatted by `show`. The reason
/// replaces `{cause}`, or else follows the sentence after a colon.
pub(crate) fn fill(
    sentence: &str,
    names: &[Vec<u8>],
    mut reason: Option<&str>,
    show: impl Fn(Quoting, &[u8]) -> Vec<u8>,
) -> Vec<u8> {
    let mut text = Vec::new();
    let mut names = names.iter();
    let mut rest = sentence;
    while let Some((before, (placeholder, after))) =
        rest.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    {
        let shown = match placeholder {
            "cause" => reason.take().map(|reason| reason.as_bytes().to_vec()),
            _ => names.next().map(|name| show(Quoting::of(placeholder), name)),
        };
        let Some(shown) = shown else { break };
        text.extend_from_slice(before.as_bytes());
        text.extend(shown);
        rest = after;
    }
    text.extend_from_slice(rest.as_bytes());
    if let Some(reason) = reason {
        text.extend_from_slice(format!(": {reason}").as_bytes());
    }
    text
}

/// Shows a name in UTF-8, in single quotes where quotes are asked for, and on one line.
///
/// Bytes that are not UTF-8, and characters that would break the line or change its direction, are
/// escaped as in a string of C, and so are backslashes and quotes where they would be ambiguous.
pub(crate) fn quoted(quoting: Quoting, name: &[u8]) -> Vec<u8> {
    let in_quotes = escaped(name, &['\\', '\'']);
    let is_clear = || in_quotes.as_bytes() == name && !in_quotes.is_empty();
    match quoting {
        Quoting::IfNeeded if is_clear() && !in_quotes.contains(char::is_whitespace) => name.to_vec(),
        Quoting::Always | Quoting::IfNeeded | Quoting::Word => format!("'{in_quotes}'").into_bytes(),
        Quoting::Escape | Quoting::Itemize => escaped(name, &['\\']).into_bytes(),
        Quoting::Bare => escaped(name, &[]).into_bytes(),
    }
}

/// Escapes unprintable characters, and the characters `special`.
fn escaped(name: &[u8], special: &[char]) -> String {
    let mut text = String::with_capacity(name.len());
    let escape = |bytes: &[u8], text: &mut String| text.extend(bytes.escape_ascii().map(char::from));
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                _ if special.contains(&character) => text.extend(['\\', character]),
                _ if moves_cursor(character) => {
                    escape(character.encode_utf8(&mut [0; 4]).as_bytes(), &mut text);
                }
                _ => text.push(character),
            }
        }
        escape(chunk.invalid(), &mut text);
    }
    text
}

/// True for controls, line separators, and marks that change the direction of the following text.
fn moves_cursor(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(sentence: &str, names: &[&[u8]], reason: Option<&str>) -> String {
        let names = names.iter().map(|name| name.to_vec()).collect::<Vec<_>>();
        String::from_utf8(fill(sentence, &names, reason, quoted)).unwrap()
    }

    #[test]
    fn names_fill_placeholders_in_order() {
        assert_eq!(shown("{} and {}", &[b"a", b"b"], None), "'a' and 'b'");
        assert_eq!(shown("nothing", &[b"a"], None), "nothing");
        assert_eq!(shown("{} and {}", &[b"a"], None), "'a' and {}");
    }

    #[test]
    fn a_name_with_a_placeholder_in_it_is_left_alone() {
        let name = b"{}{cause}".as_slice();
        assert_eq!(shown("{} -> {}", &[name, b"b"], Some("why")), "'{}{cause}' -> 'b': why");
        assert_eq!(shown("{bare} ({cause}) {}", &[name, b"b"], Some("why")), "{}{cause} (why) 'b'");
    }

    #[test]
    fn a_reason_is_where_the_sentence_wants_it() {
        assert_eq!(shown("no {}", &[b"a"], Some("{}")), "no 'a': {}");
        assert_eq!(shown("no {}: {cause}.", &[b"a"], Some("why")), "no 'a': why.");
        assert_eq!(shown("{cause} is why not {}", &[b"a"], Some("It")), "It is why not 'a'");
    }

    #[test]
    fn names_are_shown_as_their_placeholders_ask() {
        let all = "{} {plain} {prose} {escape} {itemized} {bare}";
        let each = |name: &[u8]| shown(all, &[name; 6], None);
        assert_eq!(each(b"a/b.c"), "'a/b.c' a/b.c 'a/b.c' a/b.c a/b.c a/b.c");
        assert_eq!(each(b"it's"), r"'it\'s' 'it\'s' 'it\'s' it's it's it's");
        assert_eq!(each(br"a\b"), r"'a\\b' 'a\\b' 'a\\b' a\\b a\\b a\b");
        assert_eq!(each(b"a b"), "'a b' 'a b' 'a b' a b a b a b");
        assert_eq!(each(b""), "'' '' ''   ");
    }

    #[test]
    fn no_name_breaks_the_line_or_is_lost() {
        let one = |name: &[u8]| shown("{}", &[name], None);
        assert_eq!(one(b"a\n\t\r\x1b[2J\x7f\0"), r"'a\n\t\r\x1b[2J\x7f\x00'");
        assert_eq!(one(b"\xff\xc3("), r"'\xff\xc3('");
        assert_eq!(one("e\u{301} \u{fc} \u{1f600} \"".as_bytes()), "'e\u{301} \u{fc} \u{1f600} \"'");
        assert_eq!(one("\u{202e}\u{85}\u{2028}".as_bytes()), r"'\xe2\x80\xae\xc2\x85\xe2\x80\xa8'");
        assert_eq!(shown("{bare}", &[b"a\n\xff"], None), r"a\n\xff");
    }
}
