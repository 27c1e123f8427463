//! Perl's patterns in the words of the regex engine's parser.
//!
//! The two languages are close to each other but for the corners: the engine's knows operations on sets, sets in sets, and more
//! escapes and flags than Perl's, where the same characters are themselves or an error; repetitions of repetitions, which are
//! an error or never give back in Perl's; and characters where text is of bytes. A pattern is rewritten such that the parser
//! takes it as PCRE would. What is left as it is is the same in both or refused by the parser.

use super::pattern::Refused;

/// The most often that something can be repeated.
const REPETITIONS_MAX: u32 = 65_535;

const CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

const NOT_GIVEN_BACK: Refused =
    Refused("this Perl-compatible pattern is not supported: it has a repetition that gives nothing back");
const NOT_A_GROUP: Refused = Refused(
    "this Perl-compatible pattern is not supported: it has an unknown kind of group, or a flag beside imsU",
);
const NO_SUCH_ESCAPE: Refused = Refused("PCRE2 does not support \\F, \\L, \\l, \\N{name}, \\U, or \\u");
const TOO_LARGE: Refused = Refused("character code point value in \\x{} or \\o{} is too large");
const NOT_REPEATABLE: Refused = Refused("quantifier does not follow a repeatable item");

/// Rewrites a pattern.
///
/// # Errors
/// When it is none, or what the parser does not know.
pub(super) fn rewritten(text: &[char], utf8: bool) -> Result<String, Refused> {
    let mut writer = Writer { text, at: 0, utf8, out: String::with_capacity(text.len()) };
    let mut before = Before::Nothing;
    while writer.at < text.len() {
        before = writer.item(before)?;
    }
    Ok(writer.out)
}

/// What stands before a place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Nothing that could be repeated.
    Nothing,
    /// Something that could.
    Item,
}

/// What stands before a place in brackets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Member {
    /// Nothing, or a range.
    None,
    /// A character, at which a range can begin.
    Character,
    /// A class, at which none can.
    Class,
}

struct Writer<'a> {
    text: &'a [char],
    at: usize,
    utf8: bool,
    out: String,
}

impl Writer<'_> {
    fn rest(&self) -> &[char] {
        &self.text[self.at..]
    }

    /// Takes so many characters as they are.
    fn copy(&mut self, count: usize) {
        self.out.extend(&self.text[self.at..self.at + count]);
        self.at += count;
    }

    /// Takes one character for itself.
    fn literal(&mut self) {
        let character = self.text[self.at];
        if !character.is_ascii() && self.utf8 || character.is_ascii_alphanumeric() {
            self.out.push(character);
        } else {
            self.out.push_str(&format!("\\x{:02x}", u32::from(character)));
        }
        self.at += 1;
    }

    /// Rewrites what stands outside of brackets; returns what that is to what follows.
    fn item(&mut self, before: Before) -> Result<Before, Refused> {
        match *self.rest() {
            ['\\', ..] => return self.escape(),
            ['[', ..] => self.brackets()?,
            ['(', '?', ..] => return self.group(),
            ['(' | '|' | '^' | '$', ..] => {
                self.copy(1);
                return Ok(Before::Nothing);
            }
            ['.' | ')', ..] => self.copy(1),
            ['*' | '+' | '?', ..] => return self.repetition(1, before),
            ['{', ..] => match self.interval()? {
                Some(length) => return self.repetition(length, before),
                None => self.literal(),
            },
            _ => self.literal(),
        }
        Ok(Before::Item)
    }

    /// Takes a repetition. One that never gives back is refused: no automaton can do that.
    fn repetition(&mut self, length: usize, before: Before) -> Result<Before, Refused> {
        if before == Before::Nothing {
            return Err(NOT_REPEATABLE);
        }
        self.copy(length);
        match self.rest().first() {
            Some('?') => self.copy(1),
            Some('+') => return Err(NOT_GIVEN_BACK),
            _ => {}
        }
        Ok(Before::Nothing)
    }

    /// Returns how long the interval is that stands here, if one does.
    fn interval(&self) -> Result<Option<usize>, Refused> {
        let Some(end) = self.rest().iter().position(|character| *character == '}') else { return Ok(None) };
        let inner: String = self.rest()[1..end].iter().collect();
        let (least, most) = inner.split_once(',').unwrap_or((inner.as_str(), inner.as_str()));
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if least.is_empty() || !is_number(least) || !is_number(most) {
            return Ok(None);
        }
        let fits = |text: &str| text.parse::<u32>().is_ok_and(|often| often <= REPETITIONS_MAX);
        if !fits(least) || !(most.is_empty() || fits(most)) {
            return Err(Refused("number too big in {} quantifier"));
        }
        Ok(Some(end + 1))
    }

    /// Takes what begins with `(?`: flags that both languages have, or another kind of group.
    fn group(&mut self) -> Result<Before, Refused> {
        let flags = self.rest()[2..].iter().take_while(|character| !":)<>='!#|&(P".contains(**character));
        let flags: Vec<char> = flags.copied().collect();
        if !flags.iter().all(|flag| "imsU-".contains(*flag)) {
            return Err(NOT_A_GROUP);
        }
        self.copy(2 + flags.len());
        if let (Some(')'), false) = (self.rest().first(), flags.is_empty()) {
            self.copy(1);
        }
        if self.rest().first() == Some(&'P') || self.rest().first() == Some(&'<') {
            let name = self.rest().iter().take_while(|character| **character != '>').count();
            self.copy(name);
        }
        if let Some(':' | '>') = self.rest().first() {
            self.copy(1);
        }
        Ok(Before::Nothing)
    }

    fn escape(&mut self) -> Result<Before, Refused> {
        match *self.rest() {
            // A character of the two languages' own, or one that only the other has.
            [_, 'v', ..] => {
                self.out.push_str(&format!("[{}]", self.vertical()));
                self.at += 2;
            }
            [_, 'u' | 'U', ..] => return Err(NO_SUCH_ESCAPE),
            [_, 'b' | 'B' | 'A' | 'z', ..] => {
                self.copy(2);
                return Ok(Before::Nothing);
            }
            [_, character, ..] => self.escaped(character)?,
            _ => return Err(Refused("\\ at end of pattern")),
        }
        Ok(Before::Item)
    }

    /// Takes an escaped character for itself, or what it begins as it is.
    fn escaped(&mut self, character: char) -> Result<(), Refused> {
        if !character.is_ascii_alphanumeric() {
            self.at += 1;
            self.literal();
            return Ok(());
        }
        let rest = &self.rest()[2..];
        let count = match (character, rest.first()) {
            ('x' | 'p' | 'P', Some('{')) => {
                rest.iter().position(|character| *character == '}').map_or(0, |end| end + 1)
            }
            ('x', _) => rest.iter().take(2).take_while(|digit| digit.is_ascii_hexdigit()).count(),
            _ => 0,
        };
        if character == 'x' && !self.utf8 {
            let digits: String = rest[..count].iter().filter(|digit| digit.is_ascii_hexdigit()).collect();
            let byte = u8::from_str_radix(&digits, 16).map_err(|_| TOO_LARGE)?;
            self.out.push_str(&format!("\\x{byte:02x}"));
            self.at += 2 + count;
        } else {
            self.copy(2 + count);
        }
        Ok(())
    }

    fn vertical(&self) -> &'static str {
        if self.utf8 { r"\n-\r\x{85}\x{2028}\x{2029}" } else { r"\n-\r\x85" }
    }

    /// Rewrites a set: what means more in it than in PCRE's is escaped.
    fn brackets(&mut self) -> Result<(), Refused> {
        if self.named().is_some() {
            self.check_symbol()?;
            return Err(Refused("POSIX named classes are supported only within a class"));
        }
        self.copy(1);
        if let Some('^') = self.rest().first() {
            self.copy(1);
        }
        let begin = self.at;
        let mut before = Member::None;
        loop {
            match *self.rest() {
                [] => return Err(Refused("missing terminating ] for character class")),
                [']', ..] if self.at > begin => break,
                ['-', after, ..] if before != Member::None && after != ']' => {
                    if before == Member::Class {
                        return Err(Refused("invalid range in character class"));
                    }
                    self.copy(1);
                    if self.member()? == Member::Class {
                        return Err(Refused("invalid range in character class"));
                    }
                    before = Member::None;
                }
                _ => before = self.member()?,
            }
        }
        self.copy(1);
        Ok(())
    }

    /// Rewrites one character or class in brackets.
    fn member(&mut self) -> Result<Member, Refused> {
        match *self.rest() {
            ['[', ..] => {
                let Some(length) = self.named() else {
                    self.literal();
                    return Ok(Member::Character);
                };
                let name: String = self.rest()[2..length - 2].iter().collect();
                self.check_symbol()?;
                if !CLASSES.contains(&name.strip_prefix('^').unwrap_or(&name)) {
                    return Err(Refused("unknown POSIX class name"));
                }
                self.copy(length);
                Ok(Member::Class)
            }
            ['\\', 'v', ..] => {
                self.out.push_str(self.vertical());
                self.at += 2;
                Ok(Member::Class)
            }
            ['\\', 'u' | 'U', ..] => Err(NO_SUCH_ESCAPE),
            ['\\', character, ..] => {
                self.escaped(character)?;
                Ok(if "dDsSwWpP".contains(character) { Member::Class } else { Member::Character })
            }
            _ => {
                self.literal();
                Ok(Member::Character)
            }
        }
    }

    /// Checks that what stands here is no `[....]` or `[=...=]`.
    fn check_symbol(&self) -> Result<(), Refused> {
        match self.rest().get(1) {
            Some('.' | '=') => Err(Refused("POSIX collating elements are not supported")),
            _ => Ok(()),
        }
    }

    /// Returns how long what stands here is if it is `[:...:]`, `[....]` or `[=...=]`.
    fn named(&self) -> Option<usize> {
        let (Some('['), Some(kind @ (':' | '.' | '='))) = (self.rest().first(), self.rest().get(1)) else {
            return None;
        };
        let mut at = 2;
        loop {
            match self.rest().get(at..)? {
                [first, ']', ..] if first == kind => return Some(at + 2),
                ['\\', ']' | '\\', ..] => at += 2,
                [']', ..] | [] => return None,
                ['[', next, ..] if next == kind => return None,
                _ => at += 1,
            }
        }
    }
}
