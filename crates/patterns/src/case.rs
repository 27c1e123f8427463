//! Case folding as GNU grep does it: by the C library's upper-case mapping, with one-character
//! results only.
//!
//! Unicode folds more, such as `ẞ` and letters added recently. GNU grep maps a letter to its upper
//! case, that to its own lower case, and adds further lower-case letters from a list.

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

/// Lower-case letters whose upper case has a different lower case; from GNU's `localeinfo.c`.
const LONESOME: [char; 19] = [
    '\u{b5}', 'ı', 'ſ', '\u{1c5}', '\u{1c8}', '\u{1cb}', '\u{1f2}', '\u{345}', 'ς', 'ϐ', 'ϑ', 'ϕ', 'ϖ', 'ϰ',
    'ϱ', 'ϵ', 'ẛ', '\u{1fbe}', '\u{3f2}',
];

/// Returns the upper case of a character, or the character itself.
pub fn capital(character: char) -> char {
    let after = |count: u32| char::from_u32(u32::from(character) + count).unwrap_or(character);
    match character {
        // Their full mapping is two letters; the single-letter one is titlecase.
        '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => after(8),
        '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => after(9),
        _ => only(character.to_uppercase()).unwrap_or(character),
    }
}

/// Returns the ranges of the characters between two whose capital is between them too.
pub(crate) fn by_capital(first: char, last: char) -> Vec<(char, char)> {
    let mut ranges: Vec<(char, char)> = Vec::new();
    let mut is_adjacent = false;
    for character in first..=last {
        let is_member = (first..=last).contains(&capital(character));
        match ranges.last_mut().filter(|_| is_adjacent) {
            Some((_, end)) if is_member => *end = character,
            _ if is_member => ranges.push((character, character)),
            _ => {}
        }
        is_adjacent = is_member;
    }
    ranges
}

fn only(mut characters: impl Iterator<Item = char>) -> Option<char> {
    let first = characters.next();
    first.filter(|_| characters.next().is_none())
}

/// True if a character in the text matches one in the pattern.
fn is_found_by(found: char, sought: char) -> bool {
    let high = capital(sought);
    let low = || only(high.to_lowercase()).filter(|low| capital(*low) == high);
    found == sought
        || found == high
        || capital(found) == high && (low() == Some(found) || LONESOME.contains(&found))
}

/// Returns the canonical character of a case class: two characters match if they share it. Returns
/// `None` if matching is not symmetric for this character, so that no class exists.
pub fn representative(character: char) -> Option<char> {
    let high = capital(character);
    match character {
        'ı' => Some('I'),
        // Unicode 17 letters, which the regex engine's tables don't have yet.
        '\u{a7ce}' | '\u{a7cf}' | '\u{a7d2}'..='\u{a7d5}' | '\u{16ea0}'..='\u{16ed3}' => None,
        _ if character == high || only(high.to_lowercase()) == Some(character) => Some(high),
        _ => LONESOME.contains(&character).then_some(high),
    }
}

/// Adds to a set everything that matches its characters when case is ignored.
pub fn fold(set: &mut ClassUnicode) {
    let one = |character| ClassUnicode::new([ClassUnicodeRange::new(character, character)]);
    let has = |set: &ClassUnicode, character| {
        set.iter().any(|range| (range.start()..=range.end()).contains(&character))
    };
    let sought = set.clone();
    // Infallible: the case tables are compiled in.
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
    // Unicode folds the dotless letter with no other.
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
                // Most characters have one case only, so there is nothing to check.
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
