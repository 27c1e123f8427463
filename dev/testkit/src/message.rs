//! Normalizes program output for comparison.
//!
//! GNU cp prefixes each message with its own name, haul with `cp: ` or `haul cp: `. [`normalise`]
//! changes both to `cp: `, and puts each prompt on its own line, since prompts don't end with a
//! newline. [`quoted_names`] extracts the names from a message and undoes GNU's shell quoting, so
//! that a test can check which entries were reported.

/// Splits output into sorted lines, with any program name replaced by `cp: `.
///
/// The order of messages doesn't matter, because workers finish in any order.
pub fn normalise(output: &[u8]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let line = String::from_utf8_lossy(line);
        lines.extend(prompts_apart(&line).into_iter().map(under_one_name));
    }
    lines.sort();
    lines
}

/// Returns true if a line from [`normalise`] asks what to do with an existing file.
pub fn is_prompt(line: &str) -> bool {
    let asks = ["overwrite ", "replace ", "unwritable "];
    line.ends_with('?') && said_by_cp(line).is_some_and(|text| asks.iter().any(|ask| text.starts_with(ask)))
}

/// Splits a line after each prompt that another message follows.
fn prompts_apart(line: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = line;
    let mut searched = 0;
    while let Some(at) = rest[searched..].find("? ").map(|at| searched + at) {
        let after = &rest[at + 2..];
        if after.is_empty() || said_by_cp(after).is_some() {
            parts.push(&rest[..=at]);
            (rest, searched) = (after, 0);
        } else {
            searched = at + 2;
        }
    }
    if !rest.is_empty() {
        parts.push(rest);
    }
    parts
}

/// Returns the text after the program name, if that is cp's.
fn said_by_cp(line: &str) -> Option<&str> {
    let (name, text) = line.split_once(": ")?;
    let called_cp = ["haul cp", "haul sync"].contains(&name)
        || name == "cp"
        || (name.starts_with('/') && name.ends_with("/cp"));
    (called_cp && !name.contains('\'')).then_some(text)
}

/// Replaces the program name by `cp`, at the start of the line and in the pointer to `--help`.
fn under_one_name(line: &str) -> String {
    let line = said_by_cp(line).map_or_else(|| line.to_owned(), |text| format!("cp: {text}"));
    let pointer = line.strip_prefix("Try '").and_then(|rest| rest.split_once(" --help' "));
    match pointer {
        Some((name, rest)) if ["haul cp", "haul sync"].contains(&name) || name.ends_with("/cp") => {
            format!("Try 'cp --help' {rest}")
        }
        _ => line,
    }
}

/// Returns the names quoted in a message, as bytes.
pub fn quoted_names(message: &str) -> Vec<Vec<u8>> {
    let bytes = message.as_bytes();
    let mut names = Vec::new();
    let mut position = 0;
    while position < bytes.len() {
        match quoted_word(bytes, position) {
            Some((name, end)) => {
                names.push(name);
                position = end;
            }
            None => position += 1,
        }
    }
    names
}

/// Decodes the octal escapes of a name quoted as prose; `None` if there are none.
pub fn unescaped(name: &[u8]) -> Option<Vec<u8>> {
    let with_end = [name, b"'"].concat();
    let (bytes, _) = name.contains(&b'\\').then(|| escaped(&with_end)).flatten()?;
    Some(bytes)
}

/// Reads one shell word of adjacent quoted parts: `'...'`, `$'...'`, `"..."`, `\'`.
fn quoted_word(bytes: &[u8], start: usize) -> Option<(Vec<u8>, usize)> {
    let mut name = Vec::new();
    let mut position = start;
    loop {
        let rest = &bytes[position..];
        let (part, length) = match rest {
            [b'\'', inside @ ..] => {
                let end = inside.iter().position(|byte| *byte == b'\'')?;
                (inside[..end].to_vec(), end + 2)
            }
            [b'$', b'\'', inside @ ..] => {
                let (part, end) = escaped(inside)?;
                (part, end + 2)
            }
            [b'"', inside @ ..] => {
                let end = inside.iter().position(|byte| *byte == b'"')?;
                (inside[..end].to_vec(), end + 2)
            }
            [b'\\', b'\'', ..] if position > start => (b"'".to_vec(), 2),
            _ => return (position > start).then_some((name, position)),
        };
        name.extend(part);
        position += length;
    }
}

/// Decodes the escapes of `$'...'`. Also returns the length up to and including the closing quote.
fn escaped(inside: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut part = Vec::new();
    let mut position = 0;
    loop {
        match inside.get(position..)? {
            [b'\'', ..] => return Some((part, position + 1)),
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] => {
                part.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
                position += 4;
            }
            [b'\\', letter, ..] => {
                let byte = match letter {
                    b'a' => 7,
                    b'b' => 8,
                    b't' => 9,
                    b'n' => 10,
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => 13,
                    other => *other,
                };
                part.push(byte);
                position += 2;
            }
            [byte, ..] => {
                part.push(*byte);
                position += 1;
            }
            [] => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_become_one() {
        let ours = normalise(b"haul cp: cannot stat 'b': No such file\nhaul cp: a\n");
        let theirs = normalise(b"/usr/bin/cp: a\ncp: cannot stat 'b': No such file\n");
        assert_eq!(ours, theirs);
    }

    #[test]
    fn questions_are_lines_of_their_own() {
        let theirs = normalise(b"/opt/cp: overwrite 'a? b'? /opt/cp: overwrite 'b'? ");
        assert_eq!(theirs, ["cp: overwrite 'a? b'?", "cp: overwrite 'b'?"]);
        assert!(theirs.iter().all(|line| is_prompt(line)));
        let ours = normalise(
            b"haul cp: replace 'a', overriding mode 0444 (r--r--r--)? haul cp: x\nTry 'haul cp --help' y",
        );
        assert_eq!(ours[0], "Try 'cp --help' y");
        assert_eq!(ours[1..], ["cp: replace 'a', overriding mode 0444 (r--r--r--)?", "cp: x"]);
        assert!(!is_prompt("cp: cannot stat 'x'?") && !is_prompt("'overwrite a' -> 'b?'"));
    }

    #[test]
    fn names_are_unquoted() {
        assert_eq!(quoted_names("cp: cannot stat 'a b': No such file"), [b"a b".to_vec()]);
        assert_eq!(quoted_names(r"x 'a'$'\377\n''b' to 'c'"), [b"a\xff\nb".to_vec(), b"c".to_vec()]);
        assert_eq!(quoted_names(r#"cp: "it's": x"#), [b"it's".to_vec()]);
        assert_eq!(quoted_names(r"'it'\''s'"), [b"it's".to_vec()]);
        assert_eq!(quoted_names(r"''$'\001\177'"), [vec![1, 127]]);
        assert!(quoted_names("cp: memory exhausted").is_empty());
        assert_eq!(unescaped(br"a\377b\n"), Some(b"a\xffb\n".to_vec()));
        assert_eq!(unescaped(b"plain"), None);
    }
}
