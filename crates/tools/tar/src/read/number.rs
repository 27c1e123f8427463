//! Numbers in header fields: octal digits, or two's complement in base 256 for those that do
//! not fit.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    Is(i64),
    Blank,
    /// Anything else, or more than 63 bits.
    Bad,
}

impl Number {
    /// Returns the number if there is one that is not negative; 0 for a blank field.
    pub(crate) fn natural(self) -> Option<u64> {
        match self {
            Number::Is(value) => u64::try_from(value).ok(),
            Number::Blank => Some(0),
            Number::Bad => None,
        }
    }
}

pub(crate) fn number(field: &[u8]) -> Number {
    match field.first() {
        Some(first) if first & 0x80 != 0 => base_256(field),
        _ => octal(field),
    }
}

/// Reads octal digits, after any blanks and before a blank or the end.
fn octal(field: &[u8]) -> Number {
    let is_blank = |byte: &u8| matches!(byte, b' ' | 0 | b'\t');
    let Some(start) = field.iter().position(|byte| !is_blank(byte)) else { return Number::Blank };
    let digits = field[start..].iter().take_while(|byte| matches!(byte, b'0'..=b'7'));
    let mut value = 0_i64;
    let mut length = 0;
    for digit in digits {
        length += 1;
        match value.checked_mul(8).and_then(|value| value.checked_add(i64::from(digit - b'0'))) {
            Some(more) => value = more,
            None => return Number::Bad,
        }
    }
    match field.get(start + length) {
        None | Some(b' ' | 0) if length > 0 => Number::Is(value),
        _ => Number::Bad,
    }
}

/// Reads two's complement. The highest bit only marks the encoding; the next one is the sign.
fn base_256(field: &[u8]) -> Number {
    let negative = field[0] & 0x40 != 0;
    let first = i64::from(field[0] & 0x3f) - if negative { 0x40 } else { 0 };
    let value = field[1..].iter().try_fold(first, |value, byte| {
        value.checked_mul(256).and_then(|value| value.checked_add(i64::from(*byte)))
    });
    value.map_or(Number::Bad, Number::Is)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octal_fields_are_read_as_every_tar_has_written_them() {
        for (field, expected) in [
            (&b"0000644\0"[..], Number::Is(0o644)),
            (b"   644 \0", Number::Is(0o644)),
            (b"77777777", Number::Is(0o77_777_777)),
            (b"77777777777\0", Number::Is(0o77_777_777_777)),
            (b"\0\0\0\0", Number::Blank),
            (b"        ", Number::Blank),
            (b"0000648\0", Number::Bad),
            (b"-1\0", Number::Bad),
            (b"7777777777777777777777777", Number::Bad),
            (b"", Number::Blank),
        ] {
            assert_eq!(number(field), expected, "{}", field.escape_ascii());
        }
    }

    #[test]
    fn base_256_fields_have_a_sign() {
        assert_eq!(number(&[0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0]), Number::Is(2 << 24));
        assert_eq!(number(&[0xff; 12]), Number::Is(-1));
        assert_eq!(number(&[0xff, 0xff, 0xff, 0xfe]), Number::Is(-2));
        assert_eq!(number(&[0x80, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0]), Number::Bad);
        assert_eq!(number(&[0xbf; 12]), Number::Bad);
    }
}
