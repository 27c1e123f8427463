//! Options of `cargo xtask oracle`.
//!
//! A flag accepts all words up to the next flag: `--only cp/link.sh cp/sparse.sh --user root`.

use crate::steps::Failure;

/// The user who runs a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    Root,
    /// An unprivileged user.
    Plain,
}

impl User {
    /// Returns its name on the command line and in the report.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Plain => "plain",
        }
    }
}

/// Selection of what to run. If a list is empty, the task chooses.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Versions of the suite.
    pub(crate) suites: Vec<String>,
    /// Tests, by their name in the report, or part of it.
    pub(crate) tests: Vec<String>,
    /// haul's engines; `auto` is haul's own choice, `all` is all of them.
    pub(crate) engines: Vec<String>,
    /// Users who run the tests.
    pub(crate) users: Vec<User>,
    pub(crate) file_systems: Vec<String>,
    /// True to only list the tests.
    pub(crate) list: bool,
}

/// Syntax of the command line.
pub(crate) const USAGE: &str = "cargo xtask oracle [--suite VERSION...] [--only NAME...] [--engine NAME...|all] \
                                [--user root|plain] [--fs ext4|btrfs|xfs...] [--list]";

impl Options {
    /// Parses the words after the task's name.
    pub(crate) fn parse(words: &[String]) -> Result<Self, Failure> {
        let mut options = Self::default();
        let mut flag = String::new();
        for word in words {
            let Some(name) = word.strip_prefix("--") else {
                options.take(&flag, word)?;
                continue;
            };
            let (name, value) =
                name.split_once('=').map_or((name, None), |(name, value)| (name, Some(value)));
            name.clone_into(&mut flag);
            match (name, value) {
                ("list", None) => options.list = true,
                ("suite" | "only" | "engine" | "engines" | "user" | "fs", None) => {}
                (_, Some(value)) => options.take(&flag, value)?,
                _ => return Err(unknown(word)),
            }
        }
        Ok(options)
    }

    fn take(&mut self, flag: &str, value: &str) -> Result<(), Failure> {
        let list = match flag {
            "suite" => &mut self.suites,
            "only" => &mut self.tests,
            "engine" | "engines" => &mut self.engines,
            "fs" => &mut self.file_systems,
            "user" => {
                let user = [User::Root, User::Plain].into_iter().find(|user| user.name() == value);
                self.users.push(user.ok_or_else(|| unknown(value))?);
                return Ok(());
            }
            _ => return Err(unknown(value)),
        };
        list.push(value.to_owned());
        Ok(())
    }

    /// Returns true if this version of the suite is selected.
    pub(crate) fn wants_suite(&self, version: &str) -> bool {
        self.suites.is_empty() || self.suites.iter().any(|wanted| wanted == version)
    }

    /// Returns true if this test is selected.
    pub(crate) fn wants_test(&self, name: &str) -> bool {
        self.tests.is_empty() || self.tests.iter().any(|wanted| name.contains(wanted.as_str()))
    }

    /// Returns true if this user is selected.
    pub(crate) fn wants_user(&self, user: User) -> bool {
        self.users.is_empty() || self.users.contains(&user)
    }

    /// Returns true if this file system is selected.
    pub(crate) fn wants_file_system(&self, name: &str) -> bool {
        self.file_systems.is_empty() || self.file_systems.iter().any(|wanted| wanted == name)
    }
}

fn unknown(word: &str) -> Failure {
    Failure(format!("'{word}' is not understood: {USAGE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, Failure> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_flag_takes_the_words_that_follow() {
        let options = parse("--only cp/link sparse --user root --suite=9.1 --suite 9.7 --list").unwrap();
        assert_eq!(options.tests, ["cp/link", "sparse"]);
        assert_eq!(options.users, [User::Root]);
        assert_eq!(options.suites, ["9.1", "9.7"]);
        assert!(options.list && options.engines.is_empty());
        assert!(options.wants_test("cp/sparse-2.sh") && !options.wants_test("cp/acl.sh"));
        assert!(options.wants_suite("9.7") && !options.wants_suite("9"));
        assert!(!options.wants_user(User::Plain) && options.wants_file_system("xfs"));
    }

    #[test]
    fn what_is_no_flag_and_no_value_is_refused() {
        for line in ["cp/link", "--quick", "--user nobody", "--list yes", "--list=yes"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
