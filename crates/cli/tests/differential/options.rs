//! Random options: all of GNU cp's, in any order, with valid and invalid arguments.

use haul_testkit::Release;
use proptest::collection::vec;
use proptest::prelude::*;

/// First release whose `--update` accepts an argument with today's meaning, and that has the
/// newest flags.
const UPDATE_TAKES_A_WORD: Release = Release(9, 5);
/// First release that leaves no file behind if `--reflink=always` fails.
const FAILED_CLONE_LEAVES_NOTHING: Release = Release(9, 2);

/// Options with an effect of their own. Those that interact most are listed more than once.
const OPTIONS: [&str; 61] = [
    "-p",
    "-d",
    "-P",
    "-L",
    "-H",
    "-f",
    "-f",
    "-n",
    "-v",
    "-v",
    "-x",
    "-T",
    "-l",
    "-s",
    "-b",
    "-i",
    "-i",
    "-u",
    "-u",
    "-Z",
    "--preserve",
    "--preserve=mode",
    "--preserve=ownership",
    "--preserve=timestamps",
    "--preserve=links",
    "--preserve=xattr",
    "--preserve=all",
    "--no-preserve=mode",
    "--no-preserve=ownership",
    "--no-preserve=timestamps",
    "--no-preserve=links",
    "--no-preserve=xattr",
    "--no-preserve=all",
    "--sparse=auto",
    "--sparse=always",
    "--sparse=never",
    "--reflink=auto",
    "--reflink=never",
    "--no-dereference",
    "--backup",
    "--backup=none",
    "--backup=off",
    "--backup=numbered",
    "--backup=t",
    "--backup=existing",
    "--backup=nil",
    "-S.bak",
    "--suffix=.~1~",
    "--suffix=",
    "-S/slash",
    "--update",
    "--remove-destination",
    "--remove-destination",
    "--remove-destination",
    "--attributes-only",
    "--attributes-only",
    "--copy-contents",
    "--strip-trailing-slashes",
    "--strip-trailing-slashes",
    "--context",
    "--context=some:label",
];

/// First release that makes simple backups beside the file, and not in the working directory.
const SIMPLE_BACKUPS_STAY: Release = Release(9, 3);
const SIMPLE: [&str; 2] = ["--backup=simple", "--backup=nev"];

/// Options that are new, or changed meaning, in the newest releases.
const NEWEST: [&str; 7] = [
    "--update=all",
    "--update=none",
    "--update=none-fail",
    "--update=older",
    "--update=old",
    "--keep-directory-symlink",
    "--keep-directory-symlink",
];

const BAD: [&str; 7] = [
    "--backup=bogus",
    "--backup=n",
    "--preserve=context",
    "--preserve=mode,bogus",
    "--sparse=a",
    "--no-such-option",
    "--re",
];

const RECURSIONS: [&str; 7] = ["-r", "-R", "-a", "-a", "-dr", "-rL", "-rp"];

/// Values of VERSION_CONTROL; "bogus" is invalid, and "simple" is like [`SIMPLE`].
const VERSION_CONTROLS: [&str; 7] = ["none", "numbered", "nil", "num", "", "bogus", "simple"];
const SUFFIXES: [&str; 3] = [".old", "", "a/b"];

const ANSWERS: [&str; 7] = ["y", "Y", "yes", "n", "no", "", " y"];

/// The command line without operands, and its surroundings.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    pub(crate) options: Vec<&'static str>,
    pub(crate) environment: Vec<(&'static str, &'static str)>,
    /// Lines on standard input, and how often they repeat.
    pub(crate) answers: (Vec<&'static str>, usize),
}

impl Choices {
    /// True if one of these options is given.
    pub(crate) fn any(&self, wanted: &[&str]) -> bool {
        self.options.iter().any(|option| wanted.contains(option))
    }

    pub(crate) fn is_recursive(&self) -> bool {
        self.any(&RECURSIONS)
    }

    pub(crate) fn follows(&self) -> bool {
        self.any(&["-L", "-H", "-rL"])
    }

    pub(crate) fn backs_up(&self) -> bool {
        self.options.iter().any(|option| {
            *option == "-b" || ["--backup", "-S", "--suffix"].iter().any(|flag| option.starts_with(flag))
        })
    }

    /// True if no existing file is opened for writing, so a FIFO there can't block.
    pub(crate) fn opens_no_target(&self) -> bool {
        let skips = self.any(&["-n"]) && !self.any(&["-i"]);
        skips || self.any(&["--remove-destination", "-l", "-s"])
    }

    pub(crate) fn input(&self) -> Vec<u8> {
        let once: Vec<u8> =
            self.answers.0.iter().flat_map(|answer| [answer.as_bytes(), b"\n"].concat()).collect();
        once.repeat(self.answers.1)
    }
}

/// Returns the options that a run must see succeed.
pub(crate) fn expected_to_succeed(release: Release) -> impl Iterator<Item = &'static str> {
    let newest = if release >= UPDATE_TAKES_A_WORD { &NEWEST[..] } else { &[] };
    let simple = if release >= SIMPLE_BACKUPS_STAY { &SIMPLE[..] } else { &[] };
    OPTIONS.iter().chain(newest).chain(simple).copied()
}

fn option(release: Release) -> impl Strategy<Value = &'static str> {
    let newest = if release >= UPDATE_TAKES_A_WORD { 10 } else { 0 };
    let simple = if release >= SIMPLE_BACKUPS_STAY { 4 } else { 0 };
    let clones = if release >= FAILED_CLONE_LEAVES_NOTHING { 2 } else { 0 };
    prop_oneof![
        100 => prop::sample::select(&OPTIONS[..]),
        newest => prop::sample::select(&NEWEST[..]),
        simple => prop::sample::select(&SIMPLE[..]),
        clones => Just("--reflink=always"),
        1 => prop::sample::select(&BAD[..]),
    ]
}

fn environment(release: Release) -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    let set = |name: &'static str, values: &'static [&'static str]| {
        let value = prop::sample::select(values).prop_map(move |value| (name, value));
        prop::option::weighted(0.15, value)
    };
    let controls = if release >= SIMPLE_BACKUPS_STAY { 7 } else { 6 };
    (
        set("VERSION_CONTROL", &VERSION_CONTROLS[..controls]),
        set("SIMPLE_BACKUP_SUFFIX", &SUFFIXES),
        prop::option::weighted(0.05, Just(("POSIXLY_CORRECT", "1"))),
    )
        .prop_map(|(control, suffix, posix)| control.into_iter().chain(suffix).chain(posix).collect())
}

/// Generates answers: all the same if a tree is copied, since the order of prompts is that of
/// the directory.
fn answers(recursive: bool) -> BoxedStrategy<(Vec<&'static str>, usize)> {
    const MANY: usize = 200;
    let uniform =
        prop_oneof![Just(vec![]), Just(vec!["y"]), Just(vec!["n"])].prop_map(|answer| (answer, MANY));
    let mixed = vec(prop::sample::select(&ANSWERS[..]), 0..5).prop_map(|answers| (answers, 1));
    if recursive { uniform.boxed() } else { mixed.boxed() }
}

/// Generates options, environment and answers for a release of GNU cp.
pub(crate) fn choices(release: Release) -> impl Strategy<Value = Choices> {
    (
        prop::option::weighted(0.85, prop::sample::select(&RECURSIONS[..])),
        vec(option(release), 0..6),
        prop::option::weighted(0.15, Just("--parents")),
        environment(release),
    )
        .prop_flat_map(|(recursion, options, parents, environment)| {
            let options: Vec<_> = recursion.into_iter().chain(options).chain(parents).collect();
            (Just(options).prop_shuffle(), Just(environment), answers(recursion.is_some()))
        })
        .prop_map(|(options, environment, answers)| Choices { options, environment, answers })
}
