//! The flags of `spdcp`: single letters and nothing else. They mean what `cp`'s equivalents mean.

use std::ffi::OsString;

use super::Action::{Plain, Required};
use super::help::wrap;
use super::lower::{Information, Typed};
use super::{Action, Environment, Error, Flag, Request};

/// The flags, in help order.
pub(super) static TABLE: &[Flag] = &[
    letter(
        "h",
        Plain(|typed| typed.information = Some(Information::Help)),
        "show this help (copies nothing)",
    ),
    letter(
        "V",
        Plain(|typed| typed.information = Some(Information::Version)),
        "show the versions of command and agent (copies nothing)",
    ),
    letter("d", Plain(|typed| typed.targets_only = true), "list the targets (copies nothing)"),
    letter(
        "v",
        Plain(|typed| typed.verbosity = typed.verbosity.saturating_add(1)),
        "tell of each file as it is copied; twice, also how",
    ),
    letter("p", Plain(Typed::preserve_usual), "preserve mode, ownership and timestamps"),
    letter("rR", Plain(|typed| typed.recursive = true), "copy directories with everything in them"),
    letter(
        "c",
        Plain(|typed| typed.layout.reduce = true),
        "use no more storage targets than the source's data takes up",
    ),
    letter(
        "n",
        Plain(|typed| typed.layout.no_offset = true),
        "leave the first storage target of a file to the file system",
    ),
    letter(
        "b",
        Required("F", |typed, value| typed.set_io_factor("-b", value)),
        "make I/O requests F times as large",
    ),
    letter(
        "s",
        Required("M", |typed, value| typed.set_clients("-s", value)),
        "copy with M clients in parallel",
    ),
    letter(
        "A",
        Required("P", |typed, value| typed.set_account("-A", value)),
        "charge a batch job to project P",
    ),
    letter(
        "w",
        Required("T", |typed, value| typed.set_walltime("-w", value)),
        "end a batch job after T seconds (or [HH:]MM:SS) at the latest",
    ),
    letter("q", Required("Q", |typed, value| typed.set_queue("-q", value)), "send a batch job to queue Q"),
];

const fn letter(letters: &'static str, action: Action, help: &'static str) -> Flag {
    Flag::own(letters, "", action, help)
}

/// The request of a `spdcp` command line.
#[derive(Debug)]
pub(crate) enum Parsed {
    /// A copy.
    Copy(Box<Request>),
    /// A list of the names a copy would create.
    Targets(Box<Request>),
    /// Help or version.
    Tell(Information),
}

/// Parses the arguments.
///
/// # Errors
/// The first error.
pub(crate) fn parse(words: &[OsString], environment: &Environment) -> Result<Parsed, Error> {
    let mut typed = Typed::default();
    // A copy gets its source's layout too.
    typed.layout.copy = true;
    let names = match typed.take_words(TABLE, words, environment, &mut |_| {})? {
        super::Taken::Operands(names) => names,
        super::Taken::Information(information) => return Ok(Parsed::Tell(information)),
    };
    typed.verbose = typed.verbosity > 0;
    typed.debug = typed.verbosity > 1;
    typed.check_job("-s", false)?;
    let targets_only = typed.targets_only;
    let request = Box::new(typed.lower(names, environment)?);
    Ok(if targets_only { Parsed::Targets(request) } else { Parsed::Copy(request) })
}

/// Returns the help of `spdcp`, called as `program`.
pub(crate) fn help(program: &str) -> String {
    const TEXT_COLUMN: usize = 14;
    let mut text =
        format!("Usage: {program} [options] SRC DEST\n  or:  {program} [options] SRC... DIRECTORY\n\n");
    text.push_str(&wrap(ABOUT, 0, 0));
    text.push('\n');
    for flag in TABLE {
        let letters = flag.letters.chars().map(|letter| format!("-{letter}")).collect::<Vec<_>>().join(", ");
        let argument = match flag.action {
            Action::Required(name, _) => format!(" {{{name}}}"),
            _ => String::new(),
        };
        let head = format!("  {letters}{argument}");
        text.push_str(&format!("{head:<TEXT_COLUMN$}{}", wrap(flag.help, TEXT_COLUMN, TEXT_COLUMN)));
    }
    text
}

const ABOUT: &str = "Copies the file SRC to DEST, or each SRC into DIRECTORY, and lays the copies out over storage targets like \
    their sources where the file system can. With -s the copy is made by clients on many hosts, which work together by MPI; \
    in a batch job all its tasks are clients. Where hosts can only be had from a batch system, a job is submitted for -s and \
    followed to its end.";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use haul_copy::{Dereference, LayoutRule, Preserve};

    use super::*;
    use crate::messages::{Charset, Messages};

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    fn request(line: &str) -> Request {
        match parse(&words(line), &Environment::default()) {
            Ok(Parsed::Copy(request)) => *request,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn refusal(line: &str) -> String {
        let error = parse(&words(line), &Environment::default()).expect_err(line);
        let text = Messages::new("spdcp", Charset::Ascii).pointing_to("-h").wrong_flags(&error);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn letters_mean_what_they_mean_to_cp() {
        let plain = request("a b");
        assert!(!plain.options.recursive && !plain.options.verbose && plain.options.preserve.is_empty());
        assert_eq!(plain.cluster, haul_cluster::Options::default());
        let all = request("-rpv -s 16 a -A project -w3600 -q debug b -b 4");
        assert!(all.options.recursive && all.options.verbose && !all.options.debug);
        assert_eq!(all.options.dereference, Dereference::Never);
        let usual = Preserve::MODE | Preserve::OWNERSHIP | Preserve::TIMESTAMPS;
        assert!(all.options.preserve == usual && all.options.require_preserve);
        assert_eq!(all.cluster.clients, Some(16));
        assert_eq!(all.cluster.account.as_deref(), Some("project"));
        assert_eq!(all.cluster.queue.as_deref(), Some("debug"));
        assert_eq!(all.cluster.walltime, Some(Duration::from_secs(3600)));
        assert_eq!(all.config.block_bytes, Some(4 * haul_flow::BLOCK_BYTES));
        assert!(request("-vv a b").options.debug && request("-vvv a b").options.debug);
        assert_eq!(request("-R -- -r b").operands.names, [c"-r".to_owned(), c"b".to_owned()]);
    }

    #[test]
    fn layouts_are_copied_as_c_and_n_say() {
        let rule = |line: &str| match request(line).options.layout {
            LayoutRule::Copy { reduce, keep_first_target } => (reduce, keep_first_target),
            LayoutRule::Inherit => panic!("{line}"),
        };
        assert_eq!(rule("a b"), (false, true));
        assert_eq!(rule("-c a b"), (true, true));
        assert_eq!(rule("-cn a b"), (true, false));
        assert_eq!(rule("-n a b"), (false, false));
    }

    #[test]
    fn what_copies_nothing_is_told_apart() {
        let parsed = |line: &str| parse(&words(line), &Environment::default());
        assert!(matches!(parsed("-rd a b"), Ok(Parsed::Targets(_))));
        assert!(matches!(parsed("-d -h"), Ok(Parsed::Tell(Information::Help))));
        assert!(matches!(parsed("-Vx"), Ok(Parsed::Tell(Information::Version))));
    }

    #[test]
    fn the_options_are_those_and_no_others() {
        let letters: String = TABLE.iter().map(|flag| flag.letters).collect();
        assert_eq!(letters, "hVdvprRcnbsAwq");
        assert!(TABLE.iter().all(|flag| flag.long.is_empty()));
        let pointer = "Try 'spdcp -h' for more information.\n";
        assert_eq!(refusal("-a a b"), format!("spdcp: invalid option -- 'a'\n{pointer}"));
        assert_eq!(refusal("--archive a b"), format!("spdcp: unrecognized option '--archive'\n{pointer}"));
        assert_eq!(refusal("a b -s"), format!("spdcp: option requires an argument -- 's'\n{pointer}"));
        assert_eq!(
            refusal("-s 0 a b"),
            format!(
                "spdcp: invalid argument '0' for '-s': must be a whole number from 1 to 1048576\n{pointer}"
            )
        );
        assert_eq!(
            refusal("-s 2 -w 1h a b"),
            format!(
                "spdcp: invalid argument '1h' for '-w': must be a time of up to a year, like 3600, 60:00 or 1:00:00\n{pointer}"
            )
        );
        assert_eq!(refusal("-q x a b"), format!("spdcp: option '-q' has no effect without '-s'\n{pointer}"));
    }

    #[test]
    fn help_lists_each_option_and_fits_a_terminal() {
        let text = help("spdcp");
        assert!(text.starts_with("Usage: spdcp [options] SRC DEST\n"));
        assert!(text.lines().all(|line| line.len() < 80), "{text}");
        for flag in TABLE {
            let letter = flag.letters.chars().next().unwrap();
            assert!(text.contains(&format!("\n  -{letter}")), "-{letter}");
        }
    }
}
