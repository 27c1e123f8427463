//! Which characters are the same where case is ignored: those that the C library has one capital for, as far as GNU grep looks.
//!
//! Unicode folds more than that: what is a capital of its own, such as `ẞ`, and small letters that came late. From a letter,
//! GNU grep goes to its capital, from there to the capital's own small letter, and to small letters from a list.

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

/// Small letters with a capital that has another one; from GNU's `localeinfo.c`.
const LONESOME: [char; 19] = [
    '\u{b5}', 'ı', 'ſ', '\u{1c5}', '\u{1c8}', '\u{1cb}', '\u{1f2}', '\u{345}', 'ς', 'ϐ', 'ϑ', 'ϕ', 'ϖ', 'ϰ',
    'ϱ', 'ϵ', 'ẛ', '\u{1fbe}', '\u{3f2}',
];

/// Returns the capital of a character, or itself.
pub(super) fn capital(character: char) -> char {
    let after = |count: u32| char::from_u32(u32::from(character) + count).unwrap_or(character);
    match character {
        // In full these have two capitals, and alone a letter in titlecase.
        '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => after(8),
        '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => after(9),
        _ => only(character.to_uppercase()).unwrap_or(character),
    }
}

fn only(mut characters: impl Iterator<Item = char>) -> Option<char> {
    let first = characters.next();
    first.filter(|_| characters.next().is_none())
}

/// Tells whether a character of a text is the same as one of a pattern.
fn is_found_by(found: char, sought: char) -> bool {
    let high = capital(sought);
    let low = || only(high.to_lowercase()).filter(|low| capital(*low) == high);
    found == sought
        || found == high
        || capital(found) == high && (low() == Some(found) || LONESOME.contains(&found))
}

/// Returns the character that stands for all that are the same as this one, so that two are the same if one stands for both.
/// `None` if that cannot be: others are found by it that it is not found by.
pub(super) fn representative(character: char) -> Option<char> {
    let high = capital(character);
    match character {
        'ı' => Some('I'),
        // Letters of Unicode 17, which the regex engine's tables do not have yet.
        '\u{a7ce}' | '\u{a7cf}' | '\u{a7d2}'..='\u{a7d5}' | '\u{16ea0}'..='\u{16ed3}' => None,
        _ if character == high || only(high.to_lowercase()) == Some(character) => Some(high),
        _ => LONESOME.contains(&character).then_some(high),
    }
}

/// Adds what is the same as a set's characters to it.
pub(super) fn fold(set: &mut ClassUnicode) {
    let one = |character| ClassUnicode::new([ClassUnicodeRange::new(character, character)]);
    let has = |set: &ClassUnicode, character| {
        set.iter().any(|range| (range.start()..=range.end()).contains(&character))
    };
    let sought = set.clone();
    // The tables are compiled in; without them case would not be ignored.
    set.try_case_fold_simple().unwrap_or_default();
    let mut added = set.clone();
    added.difference(&sought);
    let is_foreign = |found: &char| {
        let mut like = one(*found);
        like.try_case_fold_simple().unwrap_or_default();
        like.intersect(&sought);
        !like.iter().flat_map(|range| range.start()..=range.end()).any(|sought| is_found_by(*found, sought))
    };
    let foreign = added.iter().flat_map(|range| range.start()..=range.end()).filter(is_foreign);
    set.difference(&ClassUnicode::new(foreign.map(|foreign| ClassUnicodeRange::new(foreign, foreign))));
    // To Unicode, the letter without a dot is the same as no other.
    let plain = ['I', 'i'];
    if plain.iter().any(|letter| has(&sought, *letter)) {
        set.union(&one('ı'));
    }
    if has(&sought, 'ı') {
        plain.iter().for_each(|letter| set.union(&one(*letter)));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn a_representative_stands_for_what_a_character_is_folded_to() {
        let mut same: HashMap<char, Vec<char>> = HashMap::new();
        for character in '\0'..=char::MAX {
            representative(character)
                .into_iter()
                .for_each(|one| same.entry(one).or_default().push(character));
        }
        let mut wrong = Vec::new();
        for characters in same.values() {
            for character in characters {
                let mut set = ClassUnicode::new([ClassUnicodeRange::new(*character, *character)]);
                // Most have one case only: then nothing has to be asked.
                if characters.len() > 1 || character.is_lowercase() || character.is_uppercase() {
                    fold(&mut set);
                }
                let folded: Vec<char> = set.iter().flat_map(|range| range.start()..=range.end()).collect();
                wrong.extend((folded != *characters).then(|| (*character, folded, characters.clone())));
            }
        }
        assert!(wrong.is_empty(), "{} of them: {:?}", wrong.len(), &wrong[..wrong.len().min(20)]);
    }
}
