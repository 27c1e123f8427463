//! The flags of `spdcp`: single letters, and the long names of help and version. They have the
//! meanings of `cp`'s equivalents.

use std::ffi::OsString;

use super::Action::{Plain, Required};
use super::lower::Typed;
use super::{AppletCommand, Environment, FlagError, FlagSpec, Information, LoweredCopy, Sharing};

pub(crate) static COMMAND: AppletCommand<Typed> = AppletCommand {
    usage: &["[options] SRC DEST", "[options] SRC... DIRECTORY"],
    about: "Copy SRC to DEST, or each SRC into DIRECTORY, and stripe the copies over storage targets like their sources \
            where the file system can. With -s, clients on many hosts copy together, by MPI; in a batch job, all its \
            tasks are clients. If only a batch system can provide hosts, -s submits a job and follows it to its end.",
    sections: &[("", FLAGS)],
    sharing: Sharing::Nothing,
    notes: "",
};

static FLAGS: &[FlagSpec<Typed>] = &[
    FlagSpec::help("-h --help"),
    FlagSpec::version("-V --version"),
    FlagSpec::gnu("-d", Plain(|typed| typed.targets_only = true), "list the targets and copy nothing"),
    FlagSpec::gnu(
        "-v",
        Plain(|typed| typed.verbosity = typed.verbosity.saturating_add(1)),
        "print each file name as it is copied; twice, also how",
    ),
    FlagSpec::gnu("-p", Plain(Typed::preserve_usual), "preserve mode, ownership and timestamps"),
    FlagSpec::gnu("-r -R", Plain(|typed| typed.recursive = true), "copy directories and their contents"),
    FlagSpec::gnu(
        "-c",
        Plain(|typed| typed.layout.reduce = true),
        "use no more storage targets than the source's data takes up",
    ),
    FlagSpec::gnu(
        "-n",
        Plain(|typed| typed.layout.no_offset = true),
        "let the file system choose the first storage target of a file",
    ),
    FlagSpec::gnu("-b", Required("F", Typed::set_io_factor), "make I/O requests F times as large"),
    FlagSpec::gnu(
        "-s",
        Required("M", |typed, value| typed.shared.set_clients(value)),
        "copy with M clients in parallel",
    ),
    FlagSpec::gnu(
        "-A",
        Required("P", |typed, value| typed.shared.set_account(value)),
        "charge the batch job to project P",
    ),
    FlagSpec::gnu(
        "-w",
        Required("T", |typed, value| typed.shared.set_walltime(value)),
        "limit the batch job to T seconds (or [HH:]MM:SS)",
    ),
    FlagSpec::gnu(
        "-q",
        Required("Q", |typed, value| typed.shared.set_queue(value)),
        "submit the batch job to queue Q",
    ),
];

/// The request of a `spdcp` command line.
#[derive(Debug)]
pub(crate) enum SpdcpCommand {
    Copy(Box<LoweredCopy>),
    /// A list of the names a copy would create.
    Targets(Box<LoweredCopy>),
    /// Help or version.
    Print(Information),
}

/// Parses the arguments.
///
/// # Errors
/// The first error.
pub(crate) fn parse(words: &[OsString], environment: &Environment) -> Result<SpdcpCommand, FlagError> {
    let mut typed = Typed::default();
    typed.shared.set_progress(environment)?;
    // A copy gets its source's layout too.
    typed.layout.copy = true;
    if let Some(information) = COMMAND.parse(&mut typed, words, environment.posixly_correct)? {
        return Ok(SpdcpCommand::Print(information));
    }
    typed.verbose = typed.verbosity > 0;
    typed.debug = typed.verbosity > 1;
    typed.check_job("-s", false)?;
    let targets_only = typed.targets_only;
    let request = Box::new(typed.lower(environment)?);
    Ok(if targets_only { SpdcpCommand::Targets(request) } else { SpdcpCommand::Copy(request) })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use haul_copy::{Dereference, LayoutRule, Preserve};

    use super::*;
    use crate::messages::{Charset, Messages};

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    fn request(line: &str) -> LoweredCopy {
        match parse(&words(line), &Environment::default()) {
            Ok(SpdcpCommand::Copy(request)) => *request,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn refusal(line: &str) -> String {
        let error = parse(&words(line), &Environment::default()).expect_err(line);
        let text = Messages::new("spdcp", Charset::Ascii).wrong_flags(&error);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn letters_mean_what_they_mean_to_cp() {
        let plain = request("a b");
        assert!(!plain.options.recursive && !plain.options.verbose && plain.options.preserve.is_empty());
        assert_eq!(plain.run.hosts, haul_cluster::Options::default());
        let all = request("-rpv -s 16 a -A project -w3600 -q debug b -b 4");
        assert!(all.options.recursive && all.options.verbose && !all.options.debug);
        assert_eq!(all.options.dereference, Dereference::Never);
        let usual = Preserve::MODE | Preserve::OWNERSHIP | Preserve::TIMESTAMPS;
        assert!(all.options.preserve == usual && all.options.require_preserve);
        assert_eq!(all.run.hosts.clients, Some(16));
        assert_eq!(all.run.hosts.account.as_deref(), Some("project"));
        assert_eq!(all.run.hosts.queue.as_deref(), Some("debug"));
        assert_eq!(all.run.hosts.walltime, Some(Duration::from_secs(3600)));
        assert_eq!(all.run.config.block_bytes, Some(4 * haul_flow::BLOCK_BYTES));
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
    fn what_copies_nothing_is_distinguished() {
        let parsed = |line: &str| parse(&words(line), &Environment::default());
        assert!(matches!(parsed("-rd a b"), Ok(SpdcpCommand::Targets(_))));
        assert!(matches!(parsed("-d -h"), Ok(SpdcpCommand::Print(Information::Help))));
        assert!(matches!(parsed("-Vx"), Ok(SpdcpCommand::Print(Information::Version))));
    }

    #[test]
    fn the_options_are_those_and_no_others() {
        let names: Vec<_> = FLAGS.iter().map(|flag| flag.names).collect();
        let wanted = "-h --help -V --version -d -v -p -r -R -c -n -b -s -A -w -q";
        assert_eq!(names.join(" "), wanted);
        let pointer = "Try 'spdcp --help' for more information.\n";
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
        let text = COMMAND.help("spdcp");
        assert!(text.starts_with("Usage: spdcp [options] SRC DEST\n"));
        assert!(text.lines().all(|line| line.len() < 80), "{text}");
        for flag in FLAGS {
            assert!(text.contains(&format!("\n  {}", &flag.names[..2])), "{}", flag.names);
        }
    }
}
