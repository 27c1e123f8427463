//! Properties of the own process: limits, credentials, clocks, standard streams, characters.

use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

use haul_sys::{
    Errno, Mode, Open, Standard, address_space_limit, character_set, clock, descriptor_limit,
    effective_identity, end_at_broken_pipe, file_system_id, first_character, open, precise_clock,
    raise_descriptor_limit, set_creation_label, set_umask, standard_input, standard_stream, stat,
    synchronize_file_system, umask, use_character_set, was_closed, widen_descriptor_table,
};
use haul_testkit::rustix;

use super::Ground;

#[test]
fn the_descriptor_limit_is_only_raised() {
    let before = descriptor_limit();
    assert_eq!(raise_descriptor_limit(1), before);
    let raised = raise_descriptor_limit(before + 1);
    assert!(raised == before || raised == before + 1, "{before} became {raised}");
    // More than the limit is no more than the limit.
    widen_descriptor_table(usize::MAX);
    assert_eq!(descriptor_limit(), raised);
    assert_eq!(address_space_limit(), rustix::process::getrlimit(rustix::process::Resource::As).current);
}

#[test]
fn no_new_file_is_older_than_the_clock() {
    let ground = Ground::new();
    let before = clock();
    let file = open(&ground.directory, c"file", Open::create(Mode::new(0o600))).unwrap();
    let (made, after) = (stat(&file).unwrap(), precise_clock());
    let at = |time: haul_sys::Timestamp| (time.seconds, time.nanoseconds);
    assert!(at(before) <= at(made.modified) && at(made.modified) <= at(after), "{before:?} {made:?}");
    let identity = effective_identity();
    assert_eq!((made.owner, made.group), (identity.user, identity.group));
}

#[test]
fn standard_streams_are_duplicated() {
    assert!(!was_closed(Standard::Output) && !was_closed(Standard::Error));
    for (duplicate, original) in [
        (standard_stream(Standard::Output).unwrap(), rustix::stdio::stdout()),
        (standard_stream(Standard::Error).unwrap(), rustix::stdio::stderr()),
        (standard_input().unwrap(), rustix::stdio::stdin()),
    ] {
        assert!(duplicate.as_raw_fd() > 2);
        assert_eq!(stat(&duplicate).unwrap().identity, stat(original).unwrap().identity);
        duplicate.close().unwrap();
        assert!(rustix::io::fcntl_getfd(original).is_ok());
    }
}

#[test]
fn files_of_one_file_system_have_its_id() {
    let ground = Ground::new();
    let [one, other] = ["one", "other"].map(|name| ground.source(name, b""));
    assert_eq!(file_system_id(&one).unwrap(), file_system_id(&other).unwrap());
    synchronize_file_system(&one).unwrap();
}

#[test]
fn characters_of_the_c_locale_are_bytes() {
    // The test process has set no locale.
    assert_eq!(first_character(b"ab"), (1, true));
    assert_eq!(first_character(b"\nb"), (1, false));
    assert_eq!(first_character(b"\xc3\xa4"), (1, false));
    assert!(!character_set().is_empty());
}

#[test]
fn a_label_that_no_policy_knows_is_refused() {
    // With SELinux the kernel checks the context; without it no label can be set at all.
    let refused = set_creation_label(c"of no policy").unwrap_err();
    assert!(matches!(refused.errno(), Errno::INVAL | Errno::NOENT), "{refused:?}");
}

/// Environment variable that tells a child which process-wide call to make.
const CALL: &str = "HAUL_TEST_CALL";

/// Runs [`calls_that_change_the_process`] alone in a child.
fn in_child(call: &str) -> Output {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "process::calls_that_change_the_process", "--include-ignored", "--nocapture"]);
    child.env(CALL, call).env("LC_ALL", "C.UTF-8").stdin(Stdio::null()).output().unwrap()
}

#[test]
#[ignore = "run by the tests below, in processes of their own"]
fn calls_that_change_the_process() {
    match std::env::var(CALL).unwrap().as_str() {
        "umask" => {
            set_umask(Mode::new(0o027));
            assert_eq!(umask(), Mode::new(0o027));
            let ground = Ground::new();
            let file = open(&ground.directory, c"file", Open::create(Mode::new(0o666))).unwrap();
            assert_eq!(stat(&file).unwrap().mode, Mode::new(0o640));
        }
        "characters" => {
            use_character_set();
            assert_eq!(character_set(), "UTF-8");
            assert_eq!(first_character("\u{e4}b".as_bytes()), (2, true));
            assert_eq!(first_character(b"\xc3b"), (1, false));
        }
        "broken pipe" => {
            end_at_broken_pipe();
            let (reader, writer) = rustix::pipe::pipe().unwrap();
            drop(reader);
            let outcome = rustix::io::write(&writer, b"nobody reads this");
            panic!("still running: {outcome:?}");
        }
        other => panic!("no call '{other}'"),
    }
}

#[test]
fn the_umask_and_the_character_set_hold_for_the_process() {
    for call in ["umask", "characters"] {
        let output = in_child(call);
        assert!(output.status.success(), "{call}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn a_broken_pipe_ends_the_process() {
    let output = in_child("broken pipe");
    assert_eq!(output.status.signal(), Some(13), "{}", String::from_utf8_lossy(&output.stdout));
}
