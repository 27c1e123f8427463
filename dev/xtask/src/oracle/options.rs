//! Options of `cargo xtask oracle`.

use clap::{Parser, ValueEnum};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum User {
    Root,
    /// Unprivileged
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

/// Runs GNU's own tests of cp with haul as cp. Without a selection, the task chooses.
#[derive(Debug, Default, Parser)]
#[command(name = "cargo xtask oracle", disable_help_subcommand = true)]
pub(crate) struct OracleOptions {
    /// Versions of the suite
    #[arg(long = "suite", value_name = "VERSION", num_args = 1..)]
    pub(crate) suites: Vec<String>,
    /// Tests, by their name in the report, or part of it
    #[arg(long = "only", value_name = "NAME", num_args = 1..)]
    pub(crate) tests: Vec<String>,
    /// haul's engines; 'auto' is haul's own choice, 'all' is all of them
    #[arg(long = "engine", alias = "engines", value_name = "NAME", num_args = 1..)]
    pub(crate) engines: Vec<String>,
    /// Users who run the tests
    #[arg(long = "user", value_enum, num_args = 1..)]
    pub(crate) users: Vec<User>,
    /// File systems: ext4, btrfs, xfs
    #[arg(long = "fs", value_name = "NAME", num_args = 1..)]
    pub(crate) file_systems: Vec<String>,
    /// Only list the tests
    #[arg(long)]
    pub(crate) list: bool,
}

impl OracleOptions {
    pub(crate) fn wants_suite(&self, version: &str) -> bool {
        self.suites.is_empty() || self.suites.iter().any(|wanted| wanted == version)
    }

    pub(crate) fn wants_test(&self, name: &str) -> bool {
        self.tests.is_empty() || self.tests.iter().any(|wanted| name.contains(wanted.as_str()))
    }

    pub(crate) fn wants_user(&self, user: User) -> bool {
        self.users.is_empty() || self.users.contains(&user)
    }

    pub(crate) fn wants_file_system(&self, name: &str) -> bool {
        self.file_systems.is_empty() || self.file_systems.iter().any(|wanted| wanted == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<OracleOptions, clap::Error> {
        OracleOptions::try_parse_from(["oracle"].into_iter().chain(line.split_whitespace()))
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
