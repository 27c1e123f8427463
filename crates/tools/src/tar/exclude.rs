//! What is left out: patterns of `--exclude`, as GNU tar matches them.
//!
//! A pattern is matched against a member's name, and unless it is anchored against what follows any slash in it. `*` and `?`
//! match slashes too. A pattern that matches a name leaves out what is below it as well: where a tree is walked by not
//! entering it, where an archive is read because a pattern may also match any beginning of a name that ends before a slash.

use super::options::Exclude;

/// The patterns of a run.
#[derive(Clone, Debug, Default)]
pub struct Excludes(Vec<Exclude>);

impl Excludes {
    /// Takes the patterns.
    #[must_use]
    pub fn new(patterns: &[Exclude]) -> Self {
        Self(patterns.to_vec())
    }

    /// Tells whether there is no pattern.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Tells whether a member of this name is left out, by itself or with a directory above it.
    #[must_use]
    pub fn leaves_out(&self, name: &[u8]) -> bool {
        self.0.iter().any(|pattern| pattern.matches(name))
    }
}

impl Exclude {
    /// Makes a pattern as `--exclude` has it: a shell's, matched behind any slash.
    #[must_use]
    pub fn of(pattern: &[u8]) -> Self {
        Self { pattern: pattern.to_vec(), anchored: false, literal: false }
    }

    fn matches(&self, name: &[u8]) -> bool {
        let name = name.strip_suffix(b"/").unwrap_or(name);
        let pattern = &self.pattern;
        let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let ends: Vec<usize> = slashes.clone().chain([name.len()]).collect();
        let starts = [0].into_iter().chain(slashes.map(|slash| slash + 1).filter(|_| !self.anchored));
        starts.into_iter().any(|start| {
            ends.iter().any(|end| {
                *end > start
                    && if self.literal {
                        name[start..*end] == *pattern
                    } else {
                        glob(pattern, &name[start..*end])
                    }
            })
        })
    }
}

/// Matches a name against a shell's pattern: `*`, `?`, `[...]` with ranges, classes, `!` or `^`, and `\` before what means itself.
#[must_use]
fn glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut in_name) = (0, 0);
    // Where to go on if what follows a star does not match: the star takes one byte more. Earlier stars need not be tried
    // again, so the time is bounded by the product of the lengths.
    let mut star = None;
    loop {
        let taken = match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, in_name));
                at += 1;
                continue;
            }
            None if in_name == name.len() => return true,
            None => None,
            Some(_) => name.get(in_name).and_then(|byte| one(&pattern[at..], *byte)),
        };
        match (taken, star) {
            (Some(taken), _) => {
                at += taken;
                in_name += 1;
            }
            (None, Some((star_at, from))) if from < name.len() => {
                star = Some((star_at, from + 1));
                (at, in_name) = (star_at + 1, from + 1);
            }
            (None, _) => return false,
        }
    }
}

/// Matches one byte; returns how much of the pattern that took.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', set @ ..] => match in_set(set, byte) {
            Some((true, taken)) => Some(taken + 1),
            Some((false, _)) => None,
            None => (byte == b'[').then_some(1),
        },
        [first, ..] => (*first == byte).then_some(1),
        [] => None,
    }
}

/// Tells whether a byte is in what a name between brackets stands for, which begins the rest of a set, and how long that is: a class,
/// `[:alpha:]`, or one byte, `[=a=]` or `[.a.]`.
fn named(set: &[u8], byte: u8) -> Option<(bool, usize)> {
    let [b'[', kind @ (b':' | b'=' | b'.'), rest @ ..] = set else { return None };
    let length = rest.windows(2).position(|pair| pair == [*kind, b']'])?;
    let is_in = match (kind, &rest[..length]) {
        (b':', b"alnum") => byte.is_ascii_alphanumeric(),
        (b':', b"alpha") => byte.is_ascii_alphabetic(),
        (b':', b"blank") => matches!(byte, b' ' | b'\t'),
        (b':', b"cntrl") => byte.is_ascii_control(),
        (b':', b"digit") => byte.is_ascii_digit(),
        (b':', b"graph") => byte.is_ascii_graphic(),
        (b':', b"lower") => byte.is_ascii_lowercase(),
        (b':', b"print") => byte.is_ascii_graphic() || byte == b' ',
        (b':', b"punct") => byte.is_ascii_punctuation(),
        (b':', b"space") => byte.is_ascii_whitespace() || byte == 0x0b,
        (b':', b"upper") => byte.is_ascii_uppercase(),
        (b':', b"xdigit") => byte.is_ascii_hexdigit(),
        (b'=' | b'.', [one]) => byte == *one,
        _ => return None,
    };
    Some((is_in, length + 4))
}

/// Tells whether a byte is in a set, and how long the set is; `None` if it does not end.
fn in_set(set: &[u8], byte: u8) -> Option<(bool, usize)> {
    let negated = matches!(set.first(), Some(b'!' | b'^'));
    let mut at = usize::from(negated);
    let (mut found, first) = (false, at);
    loop {
        if let Some((is_in, length)) = set.get(at..).and_then(|set| named(set, byte)) {
            found |= is_in;
            at += length;
            continue;
        }
        let low = match set.get(at)? {
            b']' if at > first => return Some((found != negated, at + 1)),
            b'\\' => {
                at += 1;
                *set.get(at)?
            }
            low => *low,
        };
        at += 1;
        let is_range = set.get(at) == Some(&b'-') && set.get(at + 1).is_some_and(|high| *high != b']');
        let high = if is_range { *set.get(at + 1)? } else { low };
        at += if is_range { 2 } else { 0 };
        found |= (low..=high).contains(&byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_matches_as_a_shells() {
        for (pattern, name, wanted) in [
            ("*.o", "a.o", true),
            ("*.o", "a/b.o", true),
            ("*.o", "a.oo", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("?", "", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]x]", "]", true),
            ("[[:alpha:]_]x", "_x", true),
            ("[[:alpha:]_]x", "qx", true),
            ("[![:digit:]]x", "1x", false),
            ("[[:none:]]", ":]", true),
            ("[[=a=][.b.]]", "b", true),
            ("[a", "[a", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("", "", true),
            ("***", "", true),
        ] {
            assert_eq!(glob(pattern.as_bytes(), name.as_bytes()), wanted, "{pattern} {name}");
        }
    }

    #[test]
    fn a_pattern_is_matched_behind_any_slash_and_leaves_out_what_is_below() {
        let leaves_out = |pattern: &str, name: &str| Exclude::of(pattern.as_bytes()).matches(name.as_bytes());
        assert!(leaves_out("b", "a/b"));
        assert!(leaves_out("b", "a/b/c"));
        assert!(leaves_out("a/b", "x/a/b/"));
        // As for GNU tar: no name that is matched ends with a slash.
        assert!(!leaves_out("b/", "a/b/") && !leaves_out("b/", "a/b/c"));
        assert!(!leaves_out("b", "a/bc"));
        assert!(leaves_out("*.git", "x/.git/config"));
        let anchored = Exclude { anchored: true, ..Exclude::of(b"b") };
        assert!(!anchored.matches(b"a/b"));
        assert!(anchored.matches(b"b/a"));
        let literal = Exclude { literal: true, ..Exclude::of(b"*") };
        assert!(literal.matches(b"a/*") && !literal.matches(b"a/b"));
    }
}
