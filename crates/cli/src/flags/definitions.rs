//! The flags as data: what completions and manual pages are generated from.

use serde::Serialize;

use super::table::TABLE;
use super::{Action, Environment, Error, Flag, Owner, Typed, help, spdcp};

/// A flag as others see it.
#[derive(Debug, Serialize)]
pub(crate) struct Definition {
    /// Its letters.
    pub(crate) letters: Vec<char>,
    /// Its long name, or nothing.
    pub(crate) long: String,
    /// Its argument.
    pub(crate) argument: Option<Argument>,
    /// What help says of it.
    pub(crate) help: String,
    /// Whether GNU cp has it too.
    pub(crate) gnu: bool,
    /// Whether it is about copying with many hosts.
    pub(crate) cluster: bool,
}

/// What a flag takes.
#[derive(Debug, Serialize)]
pub(crate) struct Argument {
    /// How help calls it.
    pub(crate) name: String,
    /// Whether it may be left out; if not, it may be a word of its own.
    pub(crate) optional: bool,
    /// The words it may be, if it can only be one of them.
    pub(crate) words: Vec<String>,
    /// Whether it may be several of them, with commas between.
    pub(crate) list: bool,
}

/// Lists the flags of `cp` in the order of the table.
pub(crate) fn definitions() -> Vec<Definition> {
    TABLE.iter().map(define).collect()
}

/// Lists the flags of `spdcp`.
pub(crate) fn definitions_of_spdcp() -> Vec<Definition> {
    spdcp::TABLE.iter().map(define).collect()
}

fn define(flag: &Flag) -> Definition {
    // Asked for the impossible, a flag that takes one of some words says which: they are written down nowhere else.
    const IMPOSSIBLE: &[u8] = b"\0";
    let mut typed = Typed::default();
    let argument = match flag.action {
        Action::Plain(_) => None,
        Action::Required(name, take) => Some((name, false, take(&mut typed, IMPOSSIBLE))),
        Action::Optional(name, take) => Some((name, true, take(&mut typed, Some(IMPOSSIBLE)))),
    };
    let argument = argument.map(|(name, optional, taken)| {
        // Some words are only looked at when all flags are known.
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
