//! The flags as data, from which completions and manual pages are generated.

use serde::Serialize;

use super::table::TABLE;
use super::{Action, Environment, Error, Flag, Owner, Typed, help, spdcp};

/// A flag's definition for generators.
#[derive(Debug, Serialize)]
pub(crate) struct Definition {
    /// Its letters.
    pub(crate) letters: Vec<char>,
    /// Its long name, or empty.
    pub(crate) long: String,
    /// Its argument.
    pub(crate) argument: Option<Argument>,
    /// Its help text.
    pub(crate) help: String,
    /// True if GNU cp has it too.
    pub(crate) gnu: bool,
    /// True if it is about copying with many hosts.
    pub(crate) cluster: bool,
}

/// A flag's argument.
#[derive(Debug, Serialize)]
pub(crate) struct Argument {
    /// Its name in help.
    pub(crate) name: String,
    /// True if it may be omitted. If not, it may be a separate word.
    pub(crate) optional: bool,
    /// Its keywords, if nothing else is accepted.
    pub(crate) words: Vec<String>,
    /// True if it may be several keywords separated by commas.
    pub(crate) list: bool,
}

/// Returns the flags of `cp`, in table order.
pub(crate) fn definitions() -> Vec<Definition> {
    TABLE.iter().map(define).collect()
}

/// Returns the flags of `spdcp`.
pub(crate) fn definitions_of_spdcp() -> Vec<Definition> {
    spdcp::TABLE.iter().map(define).collect()
}

fn define(flag: &Flag) -> Definition {
    // Given an impossible value, a flag with keywords answers with the valid ones, which are listed
    // nowhere else.
    const IMPOSSIBLE: &[u8] = b"\0";
    let mut typed = Typed::default();
    let argument = match flag.action {
        Action::Plain(_) => None,
        Action::Required(name, take) => Some((name, false, take(&mut typed, IMPOSSIBLE))),
        Action::Optional(name, take) => Some((name, true, take(&mut typed, Some(IMPOSSIBLE)))),
    };
    let argument = argument.map(|(name, optional, taken)| {
        // Some keywords are only checked once all flags are known.
        let settled = taken.and_then(|()| typed.lower(Vec::new(), &Environment::default()).map(drop));
        Argument { name: name.to_owned(), optional, words: words(settled), list: name.ends_with("_LIST") }
    });
    Definition {
        letters: flag.letters.chars().collect(),
        long: flag.long.to_owned(),
        argument,
        help: help::text(flag),
        gnu: flag.owner == Owner::Gnu,
        cluster: flag.cluster,
    }
}

fn words(answer: Result<(), Error>) -> Vec<String> {
    match answer {
        Err(Error::Value { valid, .. }) => valid.into_iter().flatten().map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_that_are_accepted() {
        let words = |long: &str| {
            let definitions = definitions();
            let flag = definitions.iter().find(|flag| flag.long == long).unwrap();
            flag.argument.as_ref().unwrap().words.clone()
        };
        assert_eq!(words("sparse"), ["never", "auto", "always"]);
        assert_eq!(words("reflink"), ["auto", "always", "never"]);
        assert!(words("preserve").contains(&"timestamps".to_owned()));
        assert!(words("engine").contains(&"io-uring".to_owned()));
        assert_eq!(words("stats"), ["json"]);
        assert!(words("backup").contains(&"numbered".to_owned()));
        assert_eq!(words("walk"), ["launch", "ranks"]);
        assert!(words("jobs").is_empty() && words("target-directory").is_empty());
    }
}
