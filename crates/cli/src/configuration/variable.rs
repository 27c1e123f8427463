//! Parses `HAUL_OPTIONS`: flags for every command, quoted as for a shell.
//!
//! Names are the same whichever command runs: `-j` is `--jobs`, also for `haul tar`, where it is
//! something else on the command line. Long names aren't abbreviated, because a later release may
//! have more of them.

use super::{Commands, VARIABLE, set};
use crate::flags::{Configurable, DefaultSetting, Definition};

/// Parses the variable's text.
///
/// # Errors
/// A sentence for the user that begins with the variable's name.
pub(super) fn parse(text: &[u8], commands: &Commands<'_>) -> Result<Vec<DefaultSetting>, String> {
    parse_words(text, commands).map_err(|why| format!("{VARIABLE}: {why}"))
}

fn parse_words(text: &[u8], commands: &Commands<'_>) -> Result<Vec<DefaultSetting>, String> {
    let words = shlex::bytes::split(text).ok_or("an unclosed quote or a trailing backslash")?;
    let mut words = words.into_iter();
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        match word.as_slice() {
            [b'-', b'-', long @ ..] if !long.is_empty() => {
                let (name, value) = match long.iter().position(|&byte| byte == b'=') {
                    Some(equals) => (&long[..equals], Some(long[equals + 1..].to_vec())),
                    None => (long, None),
                };
                let name = String::from_utf8_lossy(name);
                let shown = format!("--{}", name.escape_debug());
                let flag = commands.flag(None, &shown, |flag| flag.long == name)?;
                set(&mut settings, setting(flag, &shown, value, &mut words)?);
            }
            [b'-', letters @ ..] if !letters.is_empty() && letters != b"-" => {
                parse_letters(letters, commands, &mut words, &mut settings)?;
            }
            _ => return Err(format!("'{}' is not an option", word.escape_ascii())),
        }
    }
    Ok(settings)
}

/// Parses a bundle of letters. The rest of it is the argument of the first that requires one.
fn parse_letters(
    mut letters: &[u8],
    commands: &Commands<'_>,
    words: &mut impl Iterator<Item = Vec<u8>>,
    settings: &mut Vec<DefaultSetting>,
) -> Result<(), String> {
    while let Some((&letter, rest)) = letters.split_first() {
        let shown = format!("-{}", letter.escape_ascii());
        let flag = commands.flag(None, &shown, |flag| {
            flag.letters.contains(&char::from(letter))
                && (flag.configurable != Configurable::No || flag.long.is_empty())
        });
        // A letter means different things to different commands, but only one of them is here.
        let flag =
            flag.or_else(|_| commands.flag(None, &shown, |flag| flag.letters.contains(&char::from(letter))))?;
        let takes_rest = requires_argument(flag) && !rest.is_empty();
        let value = takes_rest.then(|| rest.to_vec());
        set(settings, setting(flag, &shown, value, words)?);
        letters = if takes_rest { &[] } else { rest };
    }
    Ok(())
}

fn requires_argument(flag: &Definition) -> bool {
    flag.argument.as_ref().is_some_and(|argument| !argument.optional)
}

fn setting(
    flag: &Definition,
    shown: &str,
    value: Option<Vec<u8>>,
    words: &mut impl Iterator<Item = Vec<u8>>,
) -> Result<DefaultSetting, String> {
    let value = match value {
        None if requires_argument(flag) => {
            Some(words.next().ok_or_else(|| format!("option '{shown}' requires an argument"))?)
        }
        Some(_) if flag.argument.is_none() => {
            return Err(format!("option '{shown}' doesn't allow an argument"));
        }
        Some(_) if flag.configurable == Configurable::Switch => {
            return Err(format!(
                "{shown}: with an argument, this option can only be given on the command line"
            ));
        }
        value => value,
    };
    Ok(DefaultSetting { name: flag.long.clone(), value, origin: VARIABLE.to_owned() })
}
