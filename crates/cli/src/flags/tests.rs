//! Tests the meaning of command lines, compared with the installed GNU cp where that has the flags.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::Command;

use haul_copy::{
    Backup, CopyOptions, Dereference, Existing, Label, Make, OnFull, Preserve, Reflink, Sparse, Update,
};
use haul_digest::Algorithm;
use haul_digest::manifest::Format;
use haul_engine::EngineChoice;
use haul_testkit::{CopyProgram, require};
use proptest::prelude::*;

use super::*;
use crate::messages::{Charset, Messages};

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

fn parse(words: &[OsString], environment: Environment) -> Result<CopyCommand, FlagError> {
    super::parse(words, environment, &mut |_| {})
}

fn request(line: &str) -> LoweredCopy {
    match parse(&words(line), Environment::default()) {
        Ok(CopyCommand::Copy(request)) => *request,
        other => panic!("{line}: {other:?}"),
    }
}

fn options(line: &str) -> CopyOptions {
    request(line).options
}

fn names(line: &str) -> Vec<String> {
    request(line).operands.names.into_iter().map(|name| name.into_string().unwrap()).collect()
}

/// Returns the message for a rejected command line.
fn refusal(words: &[OsString], charset: Charset) -> Option<String> {
    let error = parse(words, Environment::default()).err()?;
    Some(Messages::new("cp", charset).wrong_flags(&error).escape_ascii().to_string())
}

/// Returns the first line of that message.
fn first_line(line: &str) -> String {
    let error = parse(&words(line), Environment::default()).expect_err(line);
    let text = Messages::new("cp", Charset::Ascii).wrong_flags(&error);
    String::from_utf8(text).unwrap().lines().next().unwrap().to_owned()
}

fn said_by_gnu(words: &[OsString], locale: &str) -> String {
    // Run it in an empty directory, where no operand of the tests exists.
    let empty = tempfile::tempdir().unwrap();
    let mut gnu = Command::new("cp");
    gnu.args(words).env("LC_ALL", locale).env_remove("POSIXLY_CORRECT").current_dir(&empty);
    gnu.output().unwrap().stderr.escape_ascii().to_string()
}

const USUAL: Preserve = Preserve::MODE.union(Preserve::OWNERSHIP).union(Preserve::TIMESTAMPS);

#[test]
fn progress_is_shown_as_the_environment_says_unless_a_flag_does() {
    let progress = |line: &str, when: &str| {
        let progress = Some(when.as_bytes().to_vec());
        match parse(&words(line), Environment { progress, ..Environment::default() }) {
            Ok(CopyCommand::Copy(request)) => Ok(request.run.progress.when),
            Ok(CopyCommand::Print(_)) => panic!("{line}"),
            Err(error) => Err(format!("{error:?}")),
        }
    };
    assert_eq!(progress("a b", "auto"), Ok(When::Auto));
    assert_eq!(progress("a b", "always"), Ok(When::Always));
    assert_eq!(progress("--progress=never a b", "always"), Ok(When::Never));
    assert!(progress("a b", "sometimes").unwrap_err().contains("$HAUL_PROGRESS"));
    let slow_ranks = |line| request(line).run.progress.slow_ranks;
    assert!(!slow_ranks("-g a b") && slow_ranks("-gg a b") && slow_ranks("--progress=always -g a b"));
}

#[test]
fn flags_may_stand_anywhere_and_bundled() {
    assert_eq!(names("-r a --verbose b -- -c --d"), ["a", "b", "-c", "--d"]);
    assert_eq!(names("- -v"), ["-"]);
    let bundle = request("-rvtdirectory a");
    assert!(bundle.options.recursive && bundle.options.verbose);
    assert_eq!(bundle.operands.target_directory.unwrap().as_bytes(), b"directory");
    assert_eq!(request("-t directory").operands.target_directory.unwrap().as_bytes(), b"directory");
    assert_eq!(request("--target-directory=a=b").operands.target_directory.unwrap().as_bytes(), b"a=b");
    assert!(request("-T a b").operands.no_target_directory);
}

#[test]
fn posixly_correct_ends_flags_at_the_first_operand() {
    let environment = Environment { posixly_correct: true, ..Environment::default() };
    let parsed = parse(&words("-v a -r b -- c"), environment);
    let Ok(CopyCommand::Copy(request)) = parsed else { panic!("{parsed:?}") };
    assert!(request.options.verbose && !request.options.recursive && request.options.through_dangling);
    let names: Vec<_> = request.operands.names.iter().map(|name| name.to_str().unwrap()).collect();
    assert_eq!(names, ["a", "-r", "b", "--", "c"]);
}

#[test]
fn the_last_of_h_l_and_p_decides_about_links() {
    assert_eq!(options("a b").dereference, Dereference::Always);
    assert_eq!(options("-r a b").dereference, Dereference::Never);
    assert_eq!(options("-rl a b").dereference, Dereference::Always);
    assert_eq!(options("-rH a b").dereference, Dereference::Operands);
    assert_eq!(options("-HLP a b").dereference, Dereference::Never);
    assert_eq!(options("-aL a b").dereference, Dereference::Always);
    assert_eq!(options("-La a b").dereference, Dereference::Never);
    assert_eq!(options("--no-dereference --dereference a b").dereference, Dereference::Always);
}

#[test]
fn archive_is_d_r_and_everything_preserved() {
    let archive = options("-a a b");
    assert!(archive.recursive && archive.require_preserve && archive.reduce_diagnostics);
    assert!(!archive.require_xattr && !archive.default_mode);
    assert_eq!((archive.dereference, archive.preserve), (Dereference::Never, Preserve::all()));
    let link = options("-d a b");
    assert!(!link.recursive && !link.require_preserve);
    assert_eq!((link.dereference, link.preserve), (Dereference::Never, Preserve::LINKS));
}

#[test]
fn attribute_lists_add_and_take_away() {
    let preserved = |line: &str| {
        let options = options(line);
        (options.preserve, options.require_preserve, options.require_xattr, options.default_mode)
    };
    let nothing = Preserve::empty();
    assert_eq!(preserved("a b"), (nothing, false, false, false));
    assert_eq!(preserved("-p a b"), (USUAL, true, false, false));
    assert_eq!(preserved("--preserve a b"), (USUAL, true, false, false));
    assert_eq!(preserved("--preserve=mo,xattr a b"), (Preserve::MODE | Preserve::XATTR, true, true, false));
    assert_eq!(preserved("--preserve=all a b"), (Preserve::all(), true, false, false));
    assert_eq!(preserved("--preserve=xattr,all a b"), (Preserve::all(), true, true, false));
    assert_eq!(preserved("--preserve=xattr --no-preserve=xattr a b"), (nothing, true, false, false));
    assert_eq!(preserved("-p --no-preserve=m a b"), (USUAL - Preserve::MODE, true, false, true));
    assert_eq!(preserved("--no-preserve=mode -p a b"), (USUAL, true, false, false));
    assert_eq!(preserved("--no-preserve=mode a b"), (nothing, false, false, true));
    assert_eq!(preserved("-a --no-preserve=all a b"), (nothing, true, false, true));
    assert_eq!(preserved("--preserve=context --no-preserve=context a b"), (nothing, true, false, false));
}

#[test]
fn the_last_word_on_what_exists_counts_and_n_beats_update() {
    let existing = |line| options(line).existing;
    let usual = Existing::default();
    assert_eq!(existing("a b"), usual);
    assert_eq!(existing("-f a b"), Existing { force: true, ..usual.clone() });
    assert_eq!(existing("--remove-destination a b"), Existing { remove: true, ..usual.clone() });
    for (line, update, ask) in [
        ("-fn a b", Update::None, false),
        ("-n --force a b", Update::None, false),
        ("-in a b", Update::None, false),
        ("-ni a b", Update::All, true),
        ("-nu a b", Update::None, false),
        ("-u a b", Update::Older, false),
        ("-ui a b", Update::Older, true),
        ("--update a b", Update::Older, false),
        ("-u --update=all a b", Update::All, false),
        ("--update=none-fail a b", Update::NoneFail, false),
        ("--update=none-fail -n a b", Update::None, false),
        ("-n --update=none-fail a b", Update::None, false),
        ("-ni --update=none a b", Update::None, true),
        ("--update=o a b", Update::Older, false),
    ] {
        let existing = existing(line);
        assert_eq!((existing.update, existing.ask), (update, ask), "{line}");
    }
}

#[test]
fn backups_are_made_as_the_line_says_else_the_environment() {
    let backup = |line: &str, control: Option<&str>, suffix: Option<&str>| {
        let bytes = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec());
        let environment = Environment {
            version_control: bytes(control),
            backup_suffix: bytes(suffix),
            ..Environment::default()
        };
        match parse(&words(line), environment) {
            Ok(CopyCommand::Copy(request)) => {
                let existing = request.options.existing;
                Ok((existing.backup, existing.suffix.to_str().unwrap().to_owned()))
            }
            other => Err(format!("{other:?}")),
        }
    };
    let made = |backup, suffix: &str| Ok((backup, suffix.to_owned()));
    assert_eq!(backup("a b", Some("numbered"), None), made(Backup::None, "~"));
    assert_eq!(backup("-b a b", None, None), made(Backup::Existing, "~"));
    assert_eq!(backup("--backup a b", Some("t"), None), made(Backup::Numbered, "~"));
    assert_eq!(backup("--backup= a b", Some("never"), None), made(Backup::Simple, "~"));
    assert_eq!(backup("--backup=si a b", Some("bogus"), None), made(Backup::Simple, "~"));
    assert_eq!(backup("--backup=off a b", None, None), made(Backup::None, "~"));
    assert_eq!(backup("--backup=nil -b a b", None, None), made(Backup::Existing, "~"));
    assert_eq!(backup("-S .old a b", None, Some(".env")), made(Backup::Existing, ".old"));
    assert_eq!(backup("-b a b", None, Some(".env")), made(Backup::Existing, ".env"));
    assert_eq!(backup("-b a b", Some(""), Some("a/b")), made(Backup::Existing, "~"));
    assert_eq!(backup("-S d/x a b", None, Some(".env")), made(Backup::Existing, "~"));
    assert_eq!(backup("--suffix= a b", None, Some(".env")), made(Backup::Existing, "~"));
    assert!(backup("-b a b", Some("bogus"), None).unwrap_err().contains("$VERSION_CONTROL"));
    assert!(backup("-bn a b", None, None).unwrap_err().contains("BackupOfNothing"));
    assert!(backup("--backup=none --update=none-fail a b", None, None).is_err());
}

#[test]
fn a_wrong_kind_of_backup_is_reported_with_the_equivalents() {
    let said = refusal(&words("--backup=n a b"), Charset::Ascii).unwrap();
    let wanted = "cp: ambiguous argument 'n' for 'backup type'\nValid arguments are:\n  - 'none', 'off'\n  \
                  - 'simple', 'never'\n  - 'existing', 'nil'\n  - 'numbered', 't'\n\
                  Try 'cp --help' for more information.\n";
    assert_eq!(said, wanted.replace('\'', "\\'").replace('\n', "\\n"));
    assert_eq!(first_line("-bn a b"), "cp: --backup is mutually exclusive with -n or --update=none-fail");
}

#[test]
fn links_can_be_made_instead_of_copies() {
    assert_eq!(options("a b").make, Make::Copy);
    assert_eq!(options("-l a b").make, Make::HardLink);
    assert_eq!(options("--symbolic-link a b").make, Make::Symlink);
}

#[test]
fn holes_and_shared_blocks_bear_on_each_other() {
    let both = |line: &str| (options(line).reflink, options(line).sparse);
    assert_eq!(both("a b"), (Reflink::Auto, Sparse::Auto));
    assert_eq!(both("--reflink a b"), (Reflink::Always, Sparse::Auto));
    assert_eq!(both("--reflink=never --sparse=al a b"), (Reflink::Never, Sparse::Always));
    assert_eq!(both("--reflink=auto --sparse=always a b"), (Reflink::Auto, Sparse::Always));
    assert_eq!(both("--reflink=auto --sparse=never a b"), (Reflink::Auto, Sparse::Never));
    assert_eq!(both("--sparse never --sparse always a b"), (Reflink::Auto, Sparse::Always));
}

#[test]
fn debug_implies_verbose() {
    assert!(options("--debug a b").verbose && options("--debug a b").debug);
    assert!(options("-v a b").verbose && !options("-v a b").debug);
    assert!(options("-x a b").one_file_system);
}

#[test]
fn own_flags_set_how_the_machine_is_used() {
    let request = request(
        "-j3 --engine=io-uring --queue-depth 7 --block-size=1M --look-ahead=9 --stats=json --progress=always a b",
    );
    let config = &request.run.config;
    assert_eq!((config.jobs, config.engine, config.queue_depth), (Some(3), EngineChoice::Uring, Some(7)));
    assert_eq!((config.block_bytes, config.look_ahead), (Some(1 << 20), Some(9)));
    assert_eq!(
        (request.run.statistics, request.run.progress.when),
        (Some(StatisticsForm::Json), When::Always)
    );
    let usual = super::tests::request("-g --stats --engine=s a b");
    assert_eq!((usual.run.statistics, usual.run.progress.when), (Some(StatisticsForm::Table), When::Auto));
    assert_eq!(usual.run.config.engine, EngineChoice::Sync);
    assert_eq!(super::tests::request("a b").run.progress.when, When::Never);
}

#[test]
fn letters_of_optional_arguments_can_be_bundled() {
    let request = request("-grv a b");
    assert!(request.options.recursive && request.options.verbose);
    assert_eq!(request.run.progress.when, When::Auto);
}

#[test]
fn sizes_have_gnu_units() {
    let size = |text: &str| request(&format!("--block-size={text} a b")).run.config.block_bytes.unwrap();
    let written = ["512", "1K", "1k", "2KB", "2kB", "3KiB", "1M", "1MB", "1MiB", "1G", "001K"].map(size);
    let wanted = [512, 1024, 1024, 2000, 2000, 3072, 1 << 20, 1_000_000, 1 << 20, 1 << 30, 1024];
    assert_eq!(written, wanted);
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    for bad in
        ["0", "1025", "-1", "+1", "1.5", "x", "4k", "99999999999999999999999999999999999999999", "0x4", " 4"]
    {
        let refused = parse(&[OsString::from(format!("--jobs={bad}"))], Environment::default());
        assert!(matches!(refused, Err(FlagError::Number { flag: "--jobs", .. })), "{bad}");
    }
    for bad in [
        "0",
        "511",
        "1025M",
        "2G",
        "1Q",
        "340282366920938463463374607431768211455Q",
        "M",
        "1X",
        "1Ki",
        "1KiBB",
        "1 K",
    ] {
        let refused = parse(&[OsString::from(format!("--block-size={bad}"))], Environment::default());
        assert!(matches!(refused, Err(FlagError::Number { flag: "--block-size", .. })), "{bad}");
    }
    assert_eq!(
        first_line("-j 0"),
        "cp: invalid argument '0' for '--jobs': must be a whole number from 1 to 1024"
    );
    assert_eq!(
        first_line("--block-size=1"),
        "cp: invalid argument '1' for '--block-size': must be a size from 512 to 1G, like 65536, 64K or 1MiB"
    );
    assert_eq!(first_line("--engine=aio"), "cp: invalid argument 'aio' for '--engine'");
}

#[test]
fn names_of_our_own_never_touch_an_abbreviation_of_gnu() {
    // Each abbreviation means the same with haul's names in the table as among GNU's alone.
    let specs = COMMAND.specs();
    let gnu: Vec<_> = specs.iter().filter(|spec| spec.owner == FlagOrigin::Gnu).collect();
    for long in gnu.iter().flat_map(|spec| spec.longs()) {
        for abbreviation in (1..long.len()).map(|end| &long[..end]) {
            let begins = |spec: &&&Spec| spec.longs().any(|long| long.starts_with(abbreviation));
            let targets: Vec<_> = gnu.iter().filter(begins).map(|spec| spec.name()).collect();
            let exact = specs.iter().find(|spec| spec.longs().any(|long| long == abbreviation));
            let line = [OsString::from(format!("--{abbreviation}")), "x".into()];
            let found = getopt::Scanner::new(&specs, &line, false).next_item();
            match (exact, targets.as_slice(), found) {
                (Some(exact), _, Ok(Some(GetoptItem::Flag(spec, _)))) => {
                    assert_eq!(spec.name(), exact.name())
                }
                (None, [target], Ok(Some(GetoptItem::Flag(spec, _)))) => assert_eq!(spec.name(), *target),
                (None, [_, _, ..], Err(FlagError::Ambiguous { possibilities, .. })) => {
                    let of = |target: &str| possibilities.iter().any(|long| target[2..] == **long);
                    assert!(targets.iter().all(|target| of(target)), "--{abbreviation}");
                }
                (_, _, found) => panic!("--{abbreviation}: {:?}", found.err()),
            }
        }
    }
    assert!(options("--b a b").existing.backs_up());
    assert!(request("--st a b").operands.strip_trailing_slashes);
    assert_eq!(options("--pr a b").preserve, USUAL);
}

#[test]
fn our_own_names_can_be_abbreviated_where_gnu_has_none() {
    assert_eq!(request("--job 2 a b").run.config.jobs, Some(2));
    assert_eq!(request("--en=sync a b").run.config.engine, EngineChoice::Sync);
    assert_eq!(request("--sta a b").run.statistics, Some(StatisticsForm::Table));
}

#[test]
fn labels_are_kept_or_given_where_there_are_any() {
    let label = |line: &str, selinux| {
        let environment = Environment { selinux, ..Environment::default() };
        match parse(&words(line), environment) {
            Ok(CopyCommand::Copy(request)) => Ok(request.options.label),
            Ok(_) => panic!("{line}"),
            Err(error) => Err(error),
        }
    };
    let kept = |required| Ok(Label::Source { required });
    assert_eq!(label("-r a b", true), Ok(Label::Attribute));
    assert_eq!(label("--preserve=xattr a b", true), Ok(Label::Attribute));
    assert_eq!(label("-a a b", true), kept(false));
    assert_eq!(label("--preserve=all a b", true), kept(false));
    assert_eq!(label("-a --no-preserve=context a b", true), Ok(Label::Attribute));
    assert_eq!(label("--preserve=context a b", true), kept(true));
    assert_eq!(label("-a --context=u:r:t a b", true), Ok(Label::Given(c"u:r:t".into())));
    for line in ["--preserve=context --context=u:r:t a b", "--preserve=context -Z a b"] {
        assert_eq!(label(line, true), Err(FlagError::ContextSetAndPreserved), "{line}");
        assert_eq!(label(line, false), Err(FlagError::NoContexts), "{line}");
    }
    for line in ["-Z a b", "--context a b", "-aZ a b"] {
        assert_eq!(label(line, true), Ok(Label::Policy), "{line}");
        assert_eq!(label(line, false), Ok(Label::Attribute), "{line}");
    }
    assert_eq!(label("-a --context=u:r:t a b", false), Ok(Label::Attribute));
}

#[test]
fn help_and_version_end_the_command_line() {
    let printed = |line: &str| match parse(&words(line), Environment::default()) {
        Ok(CopyCommand::Print(information)) => information,
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(printed("-v --help --nonsense"), Information::Help);
    assert_eq!(printed("--vers a b"), Information::Version);
    assert_eq!(first_line("--nonsense --help"), "cp: unrecognized option '--nonsense'");
}

#[test]
fn help_lists_what_the_table_holds_and_fits_a_terminal() {
    let text = COMMAND.help("haul cp");
    assert!(text.lines().all(|line| line.len() < 80), "{text}");
    for spec in COMMAND.specs() {
        assert!(spec.listed().all(|name| text.contains(name)), "{}", spec.names);
        assert!(!spec.help.is_empty(), "{}", spec.names);
    }
    assert!(!text.contains("--path"), "{text}");
    let flowing = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        flowing.contains("the I/O engine NAME: auto, sync, io-uring, posix-aio, kernel-aio or retry"),
        "{text}"
    );
}

/// Lines that GNU cp rejects for the same reason.
const REFUSED: &[&str] = &[
    "--=",
    "--=x",
    "--re",
    "--re=3",
    "--no",
    "--s",
    "--pre=x --p",
    "--foo",
    "--foo=bar",
    "--sparse",
    "--recursive=x",
    "--rec=x",
    "--help=3",
    "--version=",
    "-y",
    "-vy",
    "-t",
    "-vt",
    "-r-",
    "-:",
    "-;",
    "-?",
    "-W",
    "-Wfoo",
    "--target-directory",
    "--no-preserve",
    "--sparse=x",
    "--sparse=",
    "--sparse=a",
    "--sparse=a'b",
    "--sparse=\\\u{e9}",
    "--preserve=foo",
    "--preserve=mode,foo",
    "--preserve=",
    "--preserve=mode,",
    "--no-preserve=y",
    "--preserve=context",
    "--preserve=context a b",
    "--preserve=context --no-preserve=all",
    "--reflink=x",
    "--reflink=a",
    "--reflink=",
    "-l -s",
    "-ls a b",
    "--reflink --sparse=always",
    "--reflink --sparse=never",
    "-t a -t b",
    "-ta --target-directory=b c",
    "-ls --reflink --sparse=always --preserve=context",
    "--preserve=context -t a -T b",
    "--preserve=context --reflink --sparse=always",
    "--reflink=x --foo",
    "a --foo b",
    "-r a b -y",
];

/// Removes names from a list of possibilities that only newer releases of GNU cp have.
fn in_every_release(message: String) -> String {
    message.replace(" \\'--debug\\'", "").replace(" \\'--keep-directory-symlink\\'", "")
}

#[test]
fn errors_are_worded_as_by_gnu() {
    require!(CopyProgram::needs_gnu());
    for line in REFUSED {
        for (locale, charset) in [("C", Charset::Ascii), ("C.UTF-8", Charset::Utf8)] {
            let ours = refusal(&words(line), charset).expect(line);
            let theirs = said_by_gnu(&words(line), locale);
            assert_eq!(in_every_release(ours), in_every_release(theirs), "cp {line} in {locale}");
        }
    }
}

#[test]
fn a_letter_may_be_any_byte() {
    require!(CopyProgram::needs_gnu());
    for byte in 1..=255u8 {
        let line = [OsString::from_vec(vec![b'-', byte]), OsString::from("--nonsense")];
        if b"biuSZjgt-".contains(&byte) {
            continue;
        }
        let ours = refusal(&line, Charset::Ascii).unwrap();
        assert_eq!(ours, said_by_gnu(&line, "C"), "-{}", byte.escape_ascii());
    }
}

/// Generates parts of command lines. No operand exists, and every flag is in all releases of
/// GNU cp.
fn word() -> impl Strategy<Value = String> {
    let flag = prop::sample::select(
        "--archive --dereference --force --link --no-clobber --no-dereference --no-preserve --no-target-directory \
         --one-file-system --preserve --recursive --sparse --reflink --symbolic-link --target-directory --verbose"
            .split(' ')
            .collect::<Vec<_>>(),
    );
    let value =
        prop::sample::select(vec!["", "=", "=auto", "=never", "=mode", "=xat,al", "=x", "=links,", "=a=b"]);
    prop_oneof![
        3 => (flag, 3..22usize, value).prop_map(|(flag, length, value)| format!("{}{value}", &flag[..length.min(flag.len())])),
        3 => "-[adfHlnprtvxPRLTsy:]{1,4}",
        3 => prop::sample::select(vec!["a", "b", "-", "--", "auto", "mode", "never"]).prop_map(str::to_owned),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn random_lines_are_understood_as_by_gnu(line in prop::collection::vec(word(), 1..6), posixly_correct: bool) {
        if CopyProgram::needs_gnu().is_none() {
            let line: Vec<_> = line.iter().map(OsString::from).collect();
            let empty = tempfile::tempdir().unwrap();
            let mut gnu = Command::new("cp");
            gnu.args(&line).env("LC_ALL", "C").env_remove("POSIXLY_CORRECT").current_dir(&empty);
            if posixly_correct {
                gnu.env("POSIXLY_CORRECT", "1");
            }
            let theirs = gnu.output().unwrap().stderr.escape_ascii().to_string();
            let messages = Messages::new("cp", Charset::Ascii);
            match parse(&line, Environment { posixly_correct, ..Environment::default() }) {
                Err(FlagError::Ambiguous { possibilities, .. }) if possibilities.contains(&"debug") => {}
                Err(error) => prop_assert_eq!(messages.wrong_flags(&error).escape_ascii().to_string(), theirs),
                Ok(CopyCommand::Copy(request)) => prop_assert!(agrees(&request, &theirs), "{:?}: {}", request, theirs),
                Ok(CopyCommand::Print(_)) => prop_assert!(theirs.is_empty()),
            }
        }
    }
}

/// True if GNU cp saw the operands that we see: it names the first bad one.
fn agrees(request: &LoweredCopy, theirs: &str) -> bool {
    let operands = &request.operands;
    let names: Vec<_> = operands.names.iter().map(|name| name.to_str().unwrap()).collect();
    let wanted = match (names.as_slice(), operands.target_directory.as_deref(), operands.no_target_directory)
    {
        ([], _, _) => "missing file operand".to_owned(),
        (_, Some(_), true) => "cannot combine".to_owned(),
        (_, Some(directory), false) => format!("target directory '{}'", directory.to_str().unwrap()),
        ([only], None, _) => format!("missing destination file operand after '{only}'"),
        ([_, _, third, ..], None, true) => format!("extra operand '{third}'"),
        ([first, _], None, _) => format!("cannot stat '{first}'"),
        ([.., last], None, false) => format!("target '{last}'"),
    };
    theirs.starts_with(&format!("cp: {wanted}").replace('\'', "\\'"))
}

#[test]
fn a_mistyped_option_is_recognised() {
    let meant = |line: &str| match parse(&words(line), Environment::default()) {
        Err(error @ FlagError::Unrecognized { .. }) => {
            String::from_utf8(Messages::new("cp", Charset::Ascii).suggestion(&error)).unwrap()
        }
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(meant("--recusrive a b"), "Did you mean '--recursive'?\n");
    assert_eq!(meant("--jbos=3 a b"), "Did you mean '--jobs'?\n");
    assert_eq!(meant("--nonsense a b"), "");
    assert_eq!(meant("--xx a b"), "");
}

#[test]
fn a_full_disk_is_an_error_by_default() {
    assert_eq!(options("a b").on_full, OnFull::Stop);
    assert_eq!(options("--on-full=pause a b").on_full, OnFull::Pause);
    assert_eq!(options("--on-full=pause --on-full=stop a b").on_full, OnFull::Stop);
    assert_eq!(first_line("--on-full=wait a b"), "cp: invalid argument 'wait' for '--on-full'");
    assert_eq!(first_line("--on-full"), "cp: option '--on-full' requires an argument");
}

#[test]
fn a_manifest_has_the_hashes_that_are_asked_for() {
    let manifest = |line: &str| request(line).manifest.map(|manifest| (manifest.format, manifest.algorithm));
    assert_eq!(manifest("a b"), None);
    assert_eq!(manifest("--manifest=m a b"), Some((Format::B3sum, Algorithm::Blake3)));
    assert_eq!(manifest("--manifest=m --hash=md5 a b"), Some((Format::B3sum, Algorithm::Md5)));
    assert_eq!(
        manifest("--manifest=m --hash=xxh64 --manifest-format=mhl a b"),
        Some((Format::Mhl, Algorithm::Xxh64))
    );
    for line in [
        "--manifest=- a b",
        "--hash=md5 a b",
        "--manifest=m --hash=sha1 a b",
        "--manifest=m --manifest-format=mhl a b",
    ] {
        assert!(parse(&words(line), Environment::default()).is_err(), "{line}");
    }
    let several = |hash: &str| first_line(&format!("--manifest=m --hash={hash} --ops=multi a b"));
    assert_eq!(several("xxh128"), "cp: --hash=xxh128 needs a file's blocks in order: use --ops=single");
    assert!(parse(&words("--manifest=m --ops=multi a b"), Environment::default()).is_ok());
}
