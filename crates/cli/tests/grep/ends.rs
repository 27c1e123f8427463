//! If nobody reads the output, the search ends at once, however large the input is.

use std::path::Path;
use std::time::Duration;

use haul_testkit::run::RunEnding;
use haul_testkit::{TestRun, libc, require};

use super::{Scene, haul, needs_gnu, verdict};

/// Searches endless input in a shell, after the command `before`.
fn endless(scene: &Scene, program: &str, before: &str) -> TestRun {
    let script = format!("{before} yes 2>&- | {{ exec {program} y; }}");
    scene.run(Path::new("/bin/bash"), ["-c", &script]).env("LC_ALL", "C")
}

#[test]
fn a_search_ends_in_silence_when_nobody_reads_it() {
    let scene =
        Scene::of("seq 1 1000000 > large; mkdir t; for f in 1 2 3 4 5 6 7 8 9; do seq 1 90000 > t/$f; done");
    for words in [
        &["1", "large"][..],
        &["-r", "1", "t"],
        &["-r", "--sort=path", "1", "t"],
        &["--line-buffered", "7", "large"],
    ] {
        let outcome = scene.haul(words, "C").stdout_to_broken_pipe().finish().unwrap();
        assert_eq!(outcome.ending, RunEnding::Signalled(libc::SIGPIPE), "{words:?}: {}", outcome.errors());
        assert_eq!(outcome.errors(), "", "{words:?}");
    }
    let outcome =
        endless(&scene, &format!("{} grep", haul().display()), "").stdout_to_broken_pipe().finish().unwrap();
    assert_eq!(outcome.errors(), "");
    assert_eq!(outcome.status(), Some(128 + libc::SIGPIPE));
}

#[test]
fn what_cannot_be_written_is_reported_and_ends_the_search() {
    require!(needs_gnu());
    let scene = Scene::new();
    let program = format!("{} grep", haul().display());
    for before in ["", "trap '' PIPE;"] {
        let run = |program: &str| {
            let run = endless(&scene, program, before);
            let run = if before.is_empty() {
                run.stdout_to(Path::new("/dev/full"))
            } else {
                run.stdout_to_broken_pipe()
            };
            verdict(&run.finish().unwrap(), false)
        };
        let (ours, theirs) = (run(&program), run("-a grep grep"));
        assert_eq!(ours, theirs, "{before}");
        assert_eq!(ours.0, Some(2), "{before}");
    }
}

#[test]
fn what_is_named_behind_a_file_with_a_line_is_not_met_where_only_the_status_counts() {
    require!(needs_gnu());
    let scene = Scene::of("echo 77 > s; echo 7 > none; mkfifo fifo silent; mkdir d; echo 77 > d/f");
    let program = format!("{} grep", haul().display());
    for line in [
        "GREP -q 77 s fifo",
        "GREP -q 77 none s fifo nofile",
        "GREP -rq 77 s fifo",
        "GREP -q 77 s nofile",
        "GREP -q 77 s nofolder/nofile",
        "GREP -q 77 s d",
        "GREP -q 77 nofile s",
        "GREP -q 77 d none nofolder/nofile s fifo",
        "GREP -q 77 none nofile d",
        "GREP -rq 77 d nofile",
        "GREP -q 77 s - <&4",
        "GREP -q 77 none s - - <&4",
        "echo 77 | GREP -q 77 none - fifo",
        "echo 7 | GREP -q 77 - none - nofile",
        "echo 77 > fifo & GREP -q 77 none fifo nofile",
    ] {
        for _ in 0..5 {
            let run = |program: &str| {
                // The shell holds the FIFO open without writing to it.
                let line = format!("exec 4<> silent; {}", line.replace("GREP", program));
                let run = scene.run(Path::new("/bin/bash"), ["-c", &line]).env("LC_ALL", "C");
                let outcome = run.within(Duration::from_secs(60)).finish().unwrap();
                let (status, lines, errors) = verdict(&outcome, false);
                (status, lines, errors.join(" ").replace("/usr/bin/grep", "grep").replace(program, "grep"))
            };
            assert_eq!(run(&program), run("/usr/bin/grep"), "{line}");
        }
    }
}

#[test]
fn large_files_that_wait_when_a_line_was_found_are_settled() {
    require!(needs_gnu());
    let scene = Scene::of("echo needle > small; for f in 1 2 3; do yes hay | head -c 7000000 > $f; done");
    for words in
        ["-q needle small 1 2", "-q needle small 1 2 3", "-q needle 1 small 2 3", "-rq needle small 1 2 3"]
    {
        for _ in 0..8 {
            scene.same(words, false);
        }
    }
}

/// A search that only prints dies of `SIGPIPE` at once, but not one that has more to do.
#[test]
fn a_socket_is_removed_and_a_log_never_ends_a_search_when_nobody_reads() {
    let scene = Scene::of("seq 300000 >large; mkfifo log");
    let outcome =
        scene.haul(["--control=socket", "1", "large"], "C").stdout_to_broken_pipe().finish().unwrap();
    assert_eq!(outcome.ending, RunEnding::Signalled(libc::SIGPIPE), "{}", outcome.errors());
    assert!(!scene.path().join("socket").exists());
    let program = haul().display().to_string();
    let line = format!("(head -c 1 log >first &); {program} grep -c --log-file=log 1 large none-1 none-2");
    let outcome = scene.run(Path::new("/bin/bash"), ["-c", &line]).env("LC_ALL", "C").finish().unwrap();
    assert_eq!(outcome.status(), Some(2), "{:?}: {}", outcome.ending, outcome.errors());
    assert!(outcome.printed().starts_with("large:"), "{}", outcome.printed());
}
