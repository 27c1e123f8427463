//! What a program printed, made comparable.
//!
//! GNU cp begins each message with its own name, haul with `cp: ` or `haul cp: `. [`normalise`] brings both to `cp: `.
//! [`quoted_names`] takes the names out of a message, undoing GNU's shell quoting, so that a test can ask which entries were
//! complained about.

/// Splits output into lines that begin with `cp: ` whatever the program's own name is, and sorts them.
///
/// The order of messages is not compared: workers finish in any order.
#[must_use]
pub fn normalise(output: &[u8]) -> Vec<String> {
    let mut lines: Vec<String> = output
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| {
            let line = String::from_utf8_lossy(line).into_owned();
            let known = ["haul cp: ", "/usr/bin/cp: ", "/bin/cp: "];
            let stripped = known.iter().find_map(|prefix| line.strip_prefix(prefix));
            let line = stripped.map_or_else(|| line.clone(), |rest| format!("cp: {rest}"));
            // Releases from 9.2 on name the source too.
            let line = line
                .split_once(" with non-directory ")
                .map_or(line.clone(), |(before, _)| format!("{before} with non-directory"));
            ["'haul cp --help'", "'/usr/bin/cp --help'", "'/bin/cp --help'"]
                .iter()
                .fold(line, |line, command| line.replace(command, "'cp --help'"))
        })
        .collect();
    lines.sort();
    lines
}

/// Gives the names that a message quotes, as bytes.
#[must_use]
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

/// Reads one shell word of quoted parts that stand side by side: `'...'`, `$'...'`, `"..."`, `\'`.
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

/// Undoes the escapes of `$'...'`, and gives the length up to and with the closing quote.
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
    fn names_are_unquoted() {
        assert_eq!(quoted_names("cp: cannot stat 'a b': No such file"), [b"a b".to_vec()]);
        assert_eq!(quoted_names(r"x 'a'$'\377\n''b' to 'c'"), [b"a\xff\nb".to_vec(), b"c".to_vec()]);
        assert_eq!(quoted_names(r#"cp: "it's": x"#), [b"it's".to_vec()]);
        assert_eq!(quoted_names(r"'it'\''s'"), [b"it's".to_vec()]);
        assert_eq!(quoted_names(r"''$'\001\177'"), [vec![1, 127]]);
        assert!(quoted_names("cp: memory exhausted").is_empty());
    }
}
