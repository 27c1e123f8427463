//! Standard input and its next reader, files that grow during the search, and delayed results.

use std::fs;
use std::path::Path;

use haul_testkit::{RunOutcome, require};

use super::{Scene, haul, needs_gnu, verdict};

/// Runs a shell line with `GREP` replaced by a program.
fn shell(scene: &Scene, line: &str, program: &str) -> RunOutcome {
    let line = line.replace("GREP", program);
    scene.run(Path::new("/bin/bash"), ["-c", &line]).env("LC_ALL", "C.UTF-8").finish().unwrap()
}

#[test]
fn who_reads_standard_input_next_goes_on_after_the_last_line_asked_for() {
    require!(needs_gnu());
    let scene = Scene::of(
        "seq 30000 > seq; printf '1\\n2' > unended; printf 'a\\n\\0b\\n1\\nc\\n1\\nd\\n' > binary; : > empty",
    );
    let program = format!("{} grep", haul().display());
    for name in ["seq", "unended", "binary", "empty"] {
        for words in [
            "-m1 2",
            "-m3 -c 1",
            "-m2 -v 2",
            "-l -m1 1",
            "-m1 -A2 1",
            "-m9 x",
            "-m1 -o 1",
            "-m1 -I 1",
            "-m1 -z 1",
            "-m2 29",
            "-m1 2 - -",
            "-m2 -n 1 - seq -",
            "-c 1 - - seq -",
            "-m1 -c 2 - - - -",
        ] {
            for line in [
                format!("(GREP {words}; echo $?; head -c 40) < {name}"),
                format!("(read line; GREP {words}; cat | head -n 3) < {name}"),
                format!("cat {name} | GREP {words}"),
            ] {
                let (theirs, ours) = (shell(&scene, &line, "/usr/bin/grep"), shell(&scene, &line, &program));
                let clean = |outcome: &RunOutcome| {
                    let (status, lines, errors) = verdict(outcome, false);
                    (
                        status,
                        lines,
                        errors.join(" ").replace("/usr/bin/grep", "grep").replace(&program, "grep"),
                    )
                };
                assert_eq!(clean(&ours), clean(&theirs), "{line}");
            }
        }
    }
}

#[test]
fn standard_input_of_which_nothing_more_has_to_be_known_is_left_as_by_gnu_grep() {
    require!(needs_gnu());
    let scene = Scene::of("seq 300000 > seq; (printf 'a\\0b\\n77\\n'; seq 300000) > binary");
    let program = format!("{} grep", haul().display());
    for words in [
        "77",
        "-m1 77",
        "-m3 77",
        "-I 77",
        "-l 77",
        "-l -m1 77",
        "-L 77",
        "-L -m1 77",
        "-c 77",
        "-c -m1 77",
        "-c -m2 77",
        "-q 77",
        "-v 77",
        "-m2 -v 77",
        "-m1 -A2 77",
        "-m2 x",
        "-a -m1 77",
        "-m0 77",
    ] {
        for name in ["seq", "binary"] {
            for line in [
                format!("(GREP {words} > /dev/null; echo $?; head -c 40) < {name}"),
                format!("(GREP {words} > out; echo $?; head -c 40) < {name}"),
                // Does the writer die of SIGPIPE?
                format!("set -o pipefail; cat {name} | GREP {words} > /dev/null"),
                format!("set -o pipefail; cat {name} | GREP {words} > out"),
            ] {
                let (theirs, ours) = (shell(&scene, &line, "/usr/bin/grep"), shell(&scene, &line, &program));
                assert_eq!((ours.status(), ours.printed()), (theirs.status(), theirs.printed()), "{line}");
            }
        }
    }
}

#[test]
fn a_closed_standard_input_is_no_empty_one() {
    require!(needs_gnu());
    let scene = Scene::of("echo a > f");
    let program = format!("{} grep", haul().display());
    for words in ["a", "a f -", "-f - f", "-c a - -", "-q a -", "-s a", "a f"] {
        let run = |program: &str| {
            let outcome = shell(&scene, &format!("GREP {words} <&-"), program);
            let (status, lines, errors) = verdict(&outcome, false);
            (status, lines, errors.join(" ").replace("/usr/bin/grep", "grep").replace(program, "grep"))
        };
        assert_eq!(run(&program), run("/usr/bin/grep"), "{words}");
    }
    // Every applet that reads standard input reports this.
    for (words, status) in [("bzip2 > out", 1), ("tar -xf -", 2), ("tar -cf /dev/null -T -", 2)] {
        let outcome = shell(&scene, &format!("GREP {words} <&-"), &haul().display().to_string());
        assert_eq!(outcome.status(), Some(status), "{words}: {}", outcome.errors());
        assert!(outcome.errors().contains("Bad file descriptor"), "{words}: {}", outcome.errors());
    }
}

#[test]
fn a_file_that_grows_is_searched_as_far_as_it_went() {
    // Matches are appended to the searched file: a program that reads to EOF would never end.
    let scene = Scene::new();
    let program = format!("{} grep", haul().display());
    for (lines, words) in [
        (50_000, "--line-buffered needle file"),
        (50_000, "-rh --line-buffered needle file"),
        (50_000, "--line-buffered needle < file"),
        (1_500_000, "needle file"),
        (1_500_000, "needle < file"),
    ] {
        let path = scene.path().join("file");
        fs::write(&path, "needle\n".repeat(lines)).unwrap();
        let outcome = shell(&scene, &format!("GREP {words} | cat >> file"), &program);
        assert_eq!((outcome.status(), outcome.errors().as_str()), (Some(0), ""), "{words}");
        assert_eq!(fs::metadata(&path).unwrap().len(), 2 * 7 * lines as u64, "{words}");
    }
}

#[test]
fn context_that_is_not_shown_does_not_fill_the_memory() {
    require!(needs_gnu());
    let scene = Scene::of("seq 20000000 > numbers");
    for line in ["GREP -C3 x < numbers", "GREP -B20000 x numbers", "GREP -B20000 -A1 x < numbers"] {
        let words = line.replace("GREP", &format!("exec {} grep", haul().display()));
        let outcome = scene.run(Path::new("/bin/bash"), ["-c", &words]).env("LC_ALL", "C").finish().unwrap();
        assert_eq!((outcome.status(), outcome.printed().as_str()), (Some(1), ""), "{line}");
        assert!(outcome.peak_bytes < 80 << 20, "{line}: {}", outcome.peak_bytes);
    }
    for words in ["-B20000 -m3 00000$ numbers", "-n -B100000 999999 numbers", "-bC3 00000$ numbers"] {
        scene.same(words, false);
    }
}

#[test]
fn in_a_binary_stream_zeros_end_lines() {
    require!(needs_gnu());
    let scene = Scene::of(
        "truncate -s 40M zeros; echo x >> zeros; (head -c 200000 /dev/zero; echo y) > small; \
         (head -c 100000 /dev/zero | tr '\\0' a; head -c 300000 /dev/zero; printf 'x\\n\\0x') > mixed; mkfifo fifo",
    );
    let run = |line: &str, program: &str| {
        let line = line.replace("GREP", program);
        let bash = scene.run(Path::new("/bin/bash"), ["-c", &line]).env("LC_ALL", "C.UTF-8");
        bash.finish().unwrap()
    };
    let program = format!("{} grep", haul().display());
    let same = |line: &str| {
        let (theirs, ours) = (run(line, "/usr/bin/grep"), run(line, &program));
        let found = (ours.status(), ours.printed(), ours.errors().replace("haul grep: ", "/usr/bin/grep: "));
        assert_eq!(found, (theirs.status(), theirs.printed(), theirs.errors()), "{line}");
        // Lines that only newlines end would be as long as the stream.
        assert!(ours.peak_bytes < 38 << 20, "{line}: {}", ours.peak_bytes);
    };
    for words in
        ["-q ''", "-l ''", "-m1 ''", "-c -m1 ''", "-c -m3 ''", "''", "-v x", "-L -v x", "-I ''", "-o -m1 ''"]
    {
        same(&format!("exec GREP {words} /dev/zero"));
        same(&format!("exec GREP {words} < /dev/zero"));
        // The writer is never done.
        same(&format!("exec 3<> fifo; head -c 3000 /dev/zero >&3; exec GREP {words} fifo"));
    }
    for words in ["-c x", "x", "-c -v x", "-C2 x"] {
        same(&format!("exec GREP {words} < zeros"));
        same(&format!("exec GREP {words} < <(cat zeros)"));
    }
    for words in ["-c x", "x", "-l x", "-n x", "-c -v x", "-C2 x", "-m1 -c x", "-c ^x$", "-b -a -o x"] {
        for name in ["small", "mixed"] {
            same(&format!("exec GREP {words} {name}"));
            same(&format!("exec GREP {words} < {name}"));
            same(&format!("cat {name} | dd bs=1000 status=none | GREP {words}"));
        }
    }
}

#[test]
fn results_that_wait_do_not_fill_the_memory() {
    let scene = Scene::of(
        "mkdir t; for file in {100..131}; do yes $file-needle | head -n 450000 > t/$file; done; : > all",
    );
    let all = scene.path().join("all");
    let mut expected = Vec::new();
    for file in 100..132 {
        expected.extend(fs::read(scene.path().join(format!("t/{file}"))).unwrap());
    }
    assert!(expected.len() > 150 << 20, "{}", expected.len());
    // Without a directory for temporary files, everything stays in memory and nothing is lost.
    for (folder, is_bounded) in [("/dev/shm", true), ("/nowhere", false)] {
        let sorted = scene.haul(["-rh", "--sort=path", "needle", "t"], "C").env("TMPDIR", folder);
        let outcome = sorted.stdout_to(&all).finish().unwrap();
        assert_eq!((outcome.status(), outcome.errors().as_str()), (Some(0), ""));
        assert!(fs::read(&all).unwrap() == expected, "the result is another");
        assert!(!is_bounded || outcome.peak_bytes < 100 << 20, "{}", outcome.peak_bytes);
    }
}

#[test]
fn a_file_that_turns_binary_keeps_no_result_of_another_back() {
    let scene = Scene::of("mkfifo one two; : >out");
    let program = format!("{} grep", haul().display());
    // Each line is waited for before the next is written.
    let line = "GREP -I --line-buffered abc one two >out &
        until_there() { until [ \"$(cat out)\" = \"$1\" ]; do sleep 0.01; done; }
        exec 3>one; echo abc >&3; until_there one:abc; printf '\\0\\n' >&3; exec 3>&-
        exec 4>two; echo abc >&4; until_there $'one:abc\\ntwo:abc'; exec 4>&-; wait $!";
    let outcome = shell(&scene, line, &program);
    assert_eq!(outcome.status(), Some(0), "{:?}: {}", outcome.ending, outcome.errors());
}

#[test]
fn holes_of_standard_input_are_nuls_from_where_it_stands() {
    require!(needs_gnu());
    let scene = Scene::of(
        "seq 100000 >s; truncate -s +1M s; truncate -s 1M front; seq 100000 >>front; seq 50000 >plain",
    );
    let program = format!("{} grep", haul().display());
    for line in [
        "GREP -c 99 <s",
        "GREP 99 <s | tail -n 1",
        "GREP -I 99 <s",
        "(head -c 1048576 >/dev/null; GREP -c 99) <front",
        "(read x; GREP -I 99 | wc -l) <plain",
    ] {
        let (theirs, ours) = (shell(&scene, line, "/usr/bin/grep"), shell(&scene, line, &program));
        let printed = |outcome: &RunOutcome| (outcome.status(), outcome.printed());
        assert_eq!(printed(&ours), printed(&theirs), "{line}");
    }
}
