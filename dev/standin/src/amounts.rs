//! Parses amounts on the command line: `20MB`, `1M`, `500us`.

use std::time::Duration;

/// Parses a number of bytes. `K`, `M`, `G` are powers of 1024, and `KB`, `MB`, `GB` powers of 1000.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let factor: u64 = match unit {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return Err(format!("'{text}' is no number of bytes")),
    };
    number.checked_mul(factor).ok_or_else(|| format!("'{text}' is too much"))
}

/// Parses a duration with a unit of `s`, `ms`, `us` or `ns`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text)?;
    match unit {
        "s" => Ok(Duration::from_secs(number)),
        "ms" => Ok(Duration::from_millis(number)),
        "us" => Ok(Duration::from_micros(number)),
        "ns" => Ok(Duration::from_nanos(number)),
        "" if number == 0 => Ok(Duration::ZERO),
        _ => Err(format!("'{text}' is no duration")),
    }
}

fn split(text: &str) -> Result<(u64, &str), String> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    number.parse().map(|number| (number, unit)).map_err(|_| format!("'{text}' does not begin with a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_the_usual_units() {
        assert_eq!(bytes("20MB"), Ok(20_000_000));
        assert_eq!(bytes("1M"), Ok(1 << 20));
        assert_eq!(bytes("7"), Ok(7));
        assert!(bytes("M").is_err());
        assert!(bytes("99999999999G").is_err());
        assert_eq!(duration("500us"), Ok(Duration::from_micros(500)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert!(duration("5").is_err());
    }
}
