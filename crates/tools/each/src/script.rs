//! The script of `--shell`, with placeholders for paths.
//!
//! A path is never part of the script's text, unless it is bare (`is_bare`): it is the value of a
//! variable that the script begins with, and a placeholder stands for the variable. So nothing in a
//! path is run, wherever the placeholder is. It also has to be one word there:
//!
//! ```text
//! cat {}      cat "${haul_path1}"
//! cat "a{}"   cat "a${haul_path1}"
//! cat 'a{}'   cat 'a'"${haul_path1}"''
//! ```
//!
//! For that the script is scanned once for its quotes. This is not the shell's whole grammar; a
//! placeholder in an ambiguous place is refused.

use haul_flow::Problem;

use super::EachKind;
use super::command::{PLACES, PathPart, is_plain, quoted};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Script(Vec<ScriptPart>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum ScriptPart {
    Text(Vec<u8>),
    Place(PathPart, Quotes),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Quotes {
    #[default]
    Unquoted,
    Single,
    Double,
    Comment,
}

impl Script {
    /// Joins the words with spaces.
    ///
    /// # Errors
    /// [`EachKind::CannotSubstitute`].
    pub(super) fn new(words: &[Vec<u8>]) -> Result<Self, Problem> {
        let script = words.join(&b' ');
        let (mut pieces, mut text, mut scanner, mut at) = (Vec::new(), Vec::new(), Scanner::default(), 0);
        while at < script.len() {
            match PLACES.iter().find(|(mark, _)| script[at..].starts_with(mark)) {
                Some((mark, place)) => {
                    let quotes = scanner.placeholder().map_err(|here| {
                        Problem::new(EachKind::CannotSubstitute).naming(*mark).naming(here)
                    })?;
                    pieces.push(ScriptPart::Text(std::mem::take(&mut text)));
                    pieces.push(ScriptPart::Place(*place, quotes));
                    at += mark.len();
                }
                None => {
                    scanner.step(&script[at..]);
                    text.push(script[at]);
                    at += 1;
                }
            }
        }
        pieces.push(ScriptPart::Text(text));
        Ok(Self(pieces))
    }

    /// Returns the text of the script for these paths.
    pub(super) fn for_paths(&self, paths: &[Vec<u8>]) -> Vec<u8> {
        let (mut variables, mut text, mut assigned) = (Vec::new(), Vec::new(), Vec::new());
        for piece in &self.0 {
            let (place, quotes) = match piece {
                ScriptPart::Text(piece) => {
                    text.extend_from_slice(piece);
                    continue;
                }
                ScriptPart::Place(place, quotes) => (*place, *quotes),
            };
            let is_new = !assigned.contains(&place);
            let mut words = Vec::with_capacity(paths.len());
            for (path, number) in paths.iter().zip(1..) {
                let value = place.of(path);
                if is_bare(&value) {
                    words.push(value);
                    continue;
                }
                let variable = format!("haul_{}{number}", name(place));
                words.push(quotes.expansion(&variable));
                if is_new {
                    variables.extend_from_slice(variable.as_bytes());
                    variables.extend([&b"="[..], &quoted(&value), b"; "].concat());
                }
            }
            assigned.push(place);
            text.extend(words.join(quotes.between()));
        }
        [variables, text].concat()
    }
}

/// True if a value is only ever a word to the shell. Without a slash it may be a reserved word, or
/// the number of a descriptor (`{}>out`); with `=` it may be an assignment.
fn is_bare(value: &[u8]) -> bool {
    is_plain(value) && value.contains(&b'/') && !value.contains(&b'=')
}

fn name(place: PathPart) -> &'static str {
    match place {
        PathPart::Path => "path",
        PathPart::WithoutExtension => "path_stem",
        PathPart::Name => "name",
        PathPart::Directory => "directory",
        PathPart::NameWithoutExtension => "name_stem",
    }
}

impl Quotes {
    fn expansion(self, variable: &str) -> Vec<u8> {
        let text = match self {
            Self::Unquoted | Self::Comment => format!("\"${{{variable}}}\""),
            Self::Double => format!("${{{variable}}}"),
            Self::Single => format!("'\"${{{variable}}}\"'"),
        };
        text.into_bytes()
    }

    /// Returns the separator of two words.
    fn between(self) -> &'static [u8] {
        match self {
            Self::Unquoted | Self::Comment => b" ",
            Self::Double => b"\" \"",
            Self::Single => b"' '",
        }
    }
}

/// The end of a part of a script that has its own quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartEnd {
    /// The closing parenthesis of `$(`, when this many are open with it.
    Parenthesis(usize),
    /// The second closing parenthesis of `$((`, likewise.
    Arithmetic(usize),
    Backquote,
    /// The closing brace of `${` in double quotes.
    Brace,
}

/// Follows the quotes of a script, byte by byte.
#[derive(Debug, Default)]
struct Scanner {
    quotes: Quotes,
    /// Substitutions that are open, with the quotes around each.
    open: Vec<(PartEnd, Quotes)>,
    /// True if the last byte was a backslash that quotes the next.
    is_escaped: bool,
    last: Option<u8>,
    /// True if a here-document begins in the next line.
    expects_document: bool,
    /// Why the quotes of the rest are unknown; `None` if they are known.
    lost: Option<&'static str>,
}

impl Scanner {
    /// Returns the quotes around a placeholder.
    ///
    /// # Errors
    /// Where it cannot be; for a message.
    fn placeholder(&mut self) -> Result<Quotes, &'static str> {
        if let Some(lost) = self.lost {
            return Err(lost);
        }
        let is_code = matches!(self.quotes, Quotes::Unquoted | Quotes::Double);
        match self.open.last() {
            _ if self.is_escaped => return Err("after a backslash"),
            _ if is_code && self.last == Some(b'$') => return Err("after a dollar sign"),
            // Some shells run substitutions in the values of variables there.
            Some((PartEnd::Arithmetic(_), _)) => return Err("in an arithmetic expansion"),
            // Quotes may be escaped there.
            _ if self.is_in_double(|end| end == PartEnd::Backquote) => {
                return Err("in backquotes in double quotes");
            }
            _ => {}
        }
        self.last = Some(b'}');
        Ok(self.quotes)
    }

    /// Consumes the first byte of the rest of a script.
    fn step(&mut self, rest: &[u8]) {
        let Some(byte) = rest.first().copied() else { return };
        let last = self.last.replace(byte);
        if std::mem::take(&mut self.is_escaped) {
            // It begins no word and no expansion.
            self.last = Some(b'\\');
            return;
        }
        match self.quotes {
            Quotes::Single => {
                if byte == b'\'' {
                    self.quotes = Quotes::Unquoted;
                }
            }
            Quotes::Comment => match byte {
                b'\n' => {
                    self.quotes = Quotes::Unquoted;
                    self.line_end();
                }
                // A comment ends with the substitution that it is in, and begins none.
                b'`' if self.open.iter().any(|(end, _)| *end == PartEnd::Backquote) => self.backquote(),
                _ => {}
            },
            Quotes::Double => self.in_double(byte, rest),
            Quotes::Unquoted => self.in_code(byte, rest, last),
        }
    }

    fn in_double(&mut self, byte: u8, rest: &[u8]) {
        let is_in_braces = self.open.last().is_some_and(|(end, _)| *end == PartEnd::Brace);
        match byte {
            b'\\' => self.is_escaped = true,
            // Shells disagree on the quoting then.
            b'"' | b'\'' if is_in_braces => self.lost = Some("after quotes in ${...} in double quotes"),
            b'"' => self.quotes = Quotes::Unquoted,
            b'}' if is_in_braces => self.close(),
            b'`' => self.backquote(),
            b'$' if rest.starts_with(b"${") => self.open.push((PartEnd::Brace, self.quotes)),
            b'$' => self.substitution(rest),
            _ => {}
        }
    }

    fn in_code(&mut self, byte: u8, rest: &[u8], last: Option<u8>) {
        let begins_word = last.is_none_or(|last| b" \t\n;&|()<>`".contains(&last));
        let is_arithmetic = matches!(self.open.last(), Some((PartEnd::Arithmetic(_), _)));
        let is_case = begins_word && begins_case(rest) && self.is_in_double(|_| true);
        match (byte, self.open.last_mut()) {
            (b'\\', _) => self.is_escaped = true,
            (b'\'', _) => {
                if last == Some(b'$') {
                    // In some shells a backslash can quote its closing quote.
                    self.lost = Some("after $'");
                }
                self.quotes = Quotes::Single;
            }
            (b'"', _) => self.quotes = Quotes::Double,
            (b'`', _) => self.backquote(),
            (b'$', _) => self.substitution(rest),
            (b'\n', _) => self.line_end(),
            (b'#', _) if begins_word && !is_arithmetic => self.quotes = Quotes::Comment,
            (b'<', _) if rest.starts_with(b"<<") && !is_arithmetic => self.expects_document = true,
            (b'(', Some((PartEnd::Parenthesis(depth) | PartEnd::Arithmetic(depth), _))) => *depth += 1,
            (b')', Some((PartEnd::Parenthesis(0 | 1) | PartEnd::Arithmetic(0 | 1), _))) => self.close(),
            (b')', Some((PartEnd::Parenthesis(depth) | PartEnd::Arithmetic(depth), _))) => *depth -= 1,
            // The parentheses of its patterns have no beginning.
            _ if is_case => {
                self.lost = Some("after 'case' in a substitution in double quotes");
            }
            _ => {}
        }
    }

    /// True if a substitution of one of these kinds is open in double quotes.
    fn is_in_double(&self, kinds: impl Fn(PartEnd) -> bool) -> bool {
        self.open.iter().any(|(end, quotes)| *quotes == Quotes::Double && kinds(*end))
    }

    fn line_end(&mut self) {
        if self.expects_document {
            self.lost = Some("after the beginning of a here-document");
        }
    }

    /// Opens an expansion that begins with a dollar sign, if there is one.
    fn substitution(&mut self, rest: &[u8]) {
        let end = if rest.starts_with(b"$((") {
            PartEnd::Arithmetic(0)
        } else if rest.starts_with(b"$(") {
            PartEnd::Parenthesis(0)
        } else {
            return;
        };
        self.open.push((end, self.quotes));
        // The first parenthesis, which is still to come, is counted by `in_code`.
        self.quotes = Quotes::Unquoted;
    }

    fn backquote(&mut self) {
        match self.open.iter().rposition(|(end, _)| *end == PartEnd::Backquote) {
            Some(at) => {
                self.open.truncate(at + 1);
                self.close();
            }
            None => {
                self.open.push((PartEnd::Backquote, self.quotes));
                self.quotes = Quotes::Unquoted;
            }
        }
    }

    fn close(&mut self) {
        if let Some((_, quotes)) = self.open.pop() {
            self.quotes = quotes;
        }
    }
}

fn begins_case(rest: &[u8]) -> bool {
    rest.starts_with(b"case") && rest.get(4).is_some_and(u8::is_ascii_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(script: &str, paths: &[&str]) -> Result<String, Vec<Vec<u8>>> {
        let paths: Vec<_> = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
        let script = Script::new(&[script.as_bytes().to_vec()]).map_err(|problem| problem.names)?;
        Ok(String::from_utf8(script.for_paths(&paths)).unwrap())
    }

    #[test]
    fn a_bare_path_is_text_and_another_a_variable() {
        assert_eq!(text("cat {} '{}' x{}", &["d/a.b"]).unwrap(), "cat d/a.b 'd/a.b' xd/a.b");
        for path in ["1", "done", "a", "A=b", "A=b/c"] {
            let script = format!("haul_path1={path}; cat \"${{haul_path1}}\"");
            assert_eq!(text("cat {}", &[path]).unwrap(), script);
        }
        assert_eq!(
            text("cat {} '{}' \"{/}\"", &["d/a b"]).unwrap(),
            "haul_path1='d/a b'; haul_name1='a b'; \
             cat \"${haul_path1}\" ''\"${haul_path1}\"'' \"${haul_name1}\""
        );
        assert_eq!(
            text("cat \"x{}y\" '{}' {}", &["a b", "d/c"]).unwrap(),
            "haul_path1='a b'; \
             cat \"x${haul_path1}\" \"d/cy\" ''\"${haul_path1}\"'' 'd/c' \"${haul_path1}\" d/c"
        );
    }

    #[test]
    fn a_placeholder_where_the_quotes_are_unknown_is_refused() {
        for fine in [
            "echo \"$(cat \"{}\" (x) )\" {}",
            "echo $((1 << (2)))\n{}",
            "echo $(( $(cat {}) + 1 ))",
            "echo `cat {}` {}",
            "case {} in x) echo {};; esac",
            "echo $(case x in x) echo {};; esac)",
            "echo \\\\{} '\\'{} # don't\necho {}",
            "echo \"${x:-{}}\" ${#x} ${x##{/}} {}",
            "# a ` isn't special\ncat '{}'",
            "echo `true # it's` '{}'",
            "echo \\$'{}' \"$'{}'\"",
            "cat <<E {}",
        ] {
            assert!(text(fine, &["a b"]).is_ok(), "{fine}");
        }
        for refused in [
            "echo \\{}",
            "echo \"\\{}\"",
            "echo ${}",
            "echo \"${/}\"",
            "echo $(( {} + 1 ))",
            "cat <<E\n{}\nE",
            "echo \"$(case x in x) echo {};; esac)\"",
            "echo \"`cat {}`\"",
            "echo \"${x:-\"{}\"}\"",
            "echo $'{}'",
            "echo $'it\\'s' '{}'",
        ] {
            assert!(text(refused, &["a b"]).is_err(), "{refused}");
        }
    }
}
