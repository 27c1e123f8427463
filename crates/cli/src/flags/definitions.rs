//! The flags as data, from which completions and manual pages are generated.

use serde::Serialize;

use super::{AppletCommand, Arguments, Configurable, FlagError, FlagOrigin, Spec, Value, help, shared};

/// A command and its arguments, for generators.
#[derive(Default, Serialize)]
pub(crate) struct Documented {
    pub(crate) name: String,
    /// Programs it can stand in for.
    pub(crate) programs: Vec<String>,
    pub(crate) about: String,
    pub(crate) description: String,
    /// Usage, one line per form.
    pub(crate) synopsis: Vec<String>,
    /// Help after the flags: paragraphs under headings that end in a colon.
    pub(crate) notes: String,
    pub(crate) flags: Vec<Definition>,
    pub(crate) operands: Vec<Argument>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Definition {
    pub(crate) letters: Vec<char>,
    /// Its long name, or empty.
    pub(crate) long: String,
    aliases: Vec<String>,
    pub(crate) argument: Option<Argument>,
    help: String,
    /// True if the GNU program has it too.
    gnu: bool,
    /// True if it is about many hosts.
    cluster: bool,
    /// True if all applets have it.
    shared: bool,
    /// Ways in which configuration files and `HAUL_OPTIONS` may set it.
    pub(crate) configurable: Configurable,
}

/// A flag's argument, or an operand.
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

impl<T: Arguments + Default> AppletCommand<T> {
    /// Describes the command for generators.
    pub(crate) fn document(&self) -> Documented {
        let listed = self.specs().into_iter().filter(|spec| !spec.help.is_empty() && spec.names != "-NUM");
        Documented {
            description: self.about.to_owned(),
            synopsis: self.usage.iter().map(|&form| form.to_owned()).collect(),
            notes: self.notes.to_owned(),
            flags: listed.map(|spec| self.define(&spec)).collect(),
            ..Documented::default()
        }
    }

    fn define(&self, spec: &Spec) -> Definition {
        let argument = spec.argument.map(|(name, optional)| Argument {
            name: name.to_owned(),
            optional,
            words: self.words(spec),
            list: name.ends_with("LIST"),
        });
        let letters = spec.listed().filter(|name| !name.starts_with("--"));
        let mut longs = spec.listed().filter_map(|name| name.strip_prefix("--")).map(str::to_owned);
        Definition {
            letters: letters.filter_map(|name| name.chars().nth(1)).collect(),
            long: longs.next().unwrap_or_default(),
            aliases: longs.collect(),
            argument,
            help: help::text(spec),
            gnu: spec.owner == FlagOrigin::Gnu,
            cluster: spec.section == shared::HOSTS,
            shared: matches!(spec.place, super::FlagPosition::Shared(..)),
            configurable: spec.configurable,
        }
    }

    /// Returns the keywords of a flag. Given an impossible value, it answers with the valid ones,
    /// which are listed nowhere else.
    fn words(&self, spec: &Spec) -> Vec<String> {
        let mut line = T::default();
        let impossible = Value { flag: spec.name(), bytes: b"\0", word: 0 };
        match self.set(spec.place, &mut line, Some(impossible)).and_then(|()| line.deferred()) {
            Err(FlagError::Value { valid, .. }) => valid.into_iter().flatten().map(str::to_owned).collect(),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn words_are_those_that_are_accepted() {
        let words = |long: &str| {
            let flags = super::super::COMMAND.document().flags;
            let flag = flags.into_iter().find(|flag| flag.long == long).unwrap();
            flag.argument.unwrap().words
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
