//! Command arguments, output, failures and termination.

use std::fs;
use std::time::{Duration, Instant};

use haul_testkit::rustix::process::{Pid, Signal, kill_process};
use haul_testkit::wait;
use haul_testkit::{needs, require};

use super::{Scene, runs, sorted};

#[test]
fn places_in_words_are_filled_without_a_shell() {
    let scene = Scene::of("mkdir -p 't/a b'; touch 't/a b/$(touch pwned);x.tar.gz'");
    let outcome = scene.each(["t", "--", "printf", "<%s>", "{}", "{.}", "{/}", "{//}", "{/.}", "-{}-", "*"]);
    assert_eq!(
        outcome.finish().unwrap().printed(),
        "<t/a b/$(touch pwned);x.tar.gz><t/a b/$(touch pwned);x.tar><$(touch pwned);x.tar.gz><t/a b><$(touch pwned);x.tar>\
         <-t/a b/$(touch pwned);x.tar.gz-><*>"
    );
    let outcome =
        scene.each(["--shell", "t", "--", "echo {/.} | tr a-z A-Z; echo", "$((1+1))"]).finish().unwrap();
    assert_eq!(outcome.printed(), "$(TOUCH PWNED);X.TAR\n2\n");
    assert!(!scene.path().join("pwned").exists());
}

/// Names of files that a shell would run, split or expand.
const ODD_NAMES: [&str; 7] =
    ["$(touch pwned)", "`touch pwned`", "a b", "it's\"; touch pwned; '", "\n touch pwned\n", "*", "\\$x{}"];

#[test]
fn a_path_in_a_script_is_one_word_and_is_never_run() {
    let scene = Scene::of("mkdir t");
    for name in ODD_NAMES {
        fs::write(scene.path().join("t").join(name), "").unwrap();
    }
    let wrapped = |before: &str, after: &str| {
        let mut lines: Vec<_> = ODD_NAMES.map(|name| format!("<{before}{name}{after}>")).to_vec();
        lines.sort();
        lines.concat()
    };
    for (script, before, after) in [
        ("printf '<%s>' {/}", "", ""),
        ("printf '<%s>' \"{/}\"", "", ""),
        ("printf '<%s>' '{/}'", "", ""),
        ("printf '<{/}>'", "", ""),
        ("printf '<%s>' x{/}y", "x", "y"),
        ("printf '<%s>' \"x{/}y\"", "x", "y"),
        ("printf '<%s>' 'x'{/}'y'", "x", "y"),
        ("printf '<%s>' \"$(printf '%s.' \"{/}\")\"", "", "."),
        ("printf '<%s>' \"$(printf '%s.' {/})\"", "", "."),
        ("printf '<%s>' \"$(printf '%s.' '{/}')\"", "", "."),
        ("f() { printf '<%s>' {/}; }; set -- x y; f z # don't {}", "", ""),
        ("# it's {}\nprintf '<%s>' \"{/}\"", "", ""),
        ("# a ` isn't special\nprintf '<%s>' '{/}'", "", ""),
        ("`true # it's`\nprintf '<%s>' '{/}'", "", ""),
        ("printf '<%s>' \"${x:-{/}}\"", "", ""),
        ("name={/}; cat <<E\n<$name>\nE\n", "", "\n"),
    ] {
        let outcome = scene.each(["--sort=path", "--shell", "t", "--", script]).finish().unwrap();
        let printed = outcome.printed();
        let mut parts: Vec<_> = printed.split_inclusive('>').map(str::to_owned).collect();
        parts.sort();
        // `printf` formats, and lines, are not what this is about.
        if !script.contains("<{/}>") && !script.contains("<<E") {
            assert_eq!(parts.concat(), wrapped(before, after), "{script}: {}", outcome.errors());
        }
        assert_eq!(outcome.status(), Some(0), "{script}: {}", outcome.errors());
        assert!(!scene.path().join("pwned").exists(), "{script}");
    }
    let batch = ["--batch=9", "--shell", "t", "--", "printf '<%s>' \"x{/}\" '{/}'"];
    let printed = scene.each(batch).finish().unwrap().printed();
    assert_eq!(printed.matches('<').count(), 2 * ODD_NAMES.len(), "{printed}");
    assert!(!scene.path().join("pwned").exists());
    for (script, told) in [
        ("echo \\{}", "after a backslash"),
        ("echo $((1 + {}))", "in an arithmetic expansion"),
        ("cat <<E\n{}\nE", "after the beginning of a here-document"),
        ("echo $'it\\'s' '{}'", "after $'"),
    ] {
        let outcome = scene.each(["--shell", "t", "--", script]).finish().unwrap();
        let told = format!("haul each: cannot put a path in the place of '{{}}' {told}\n");
        assert_eq!((outcome.status(), outcome.errors()), (Some(2), told));
    }
}

#[test]
fn a_path_of_plain_characters_is_a_word_to_the_shell_too() {
    // Numbers of descriptors, assignments, and a reserved word.
    let names = ["1", "10", "A=b", "A=B/c", "done"];
    let scene = Scene::of("mkdir A=B; for name in 1 10 A=b A=B/c done; do echo x >$name; done");
    for (script, wanted) in [
        ("printf '%s\n' {}>{}.out; cat {}.out", names),
        ("{} 2>/dev/null || printf '%s\n' {}", names),
        ("cd ./{//}; printf '%s\n' {/}>{/}.out; cat {/}.out", ["1", "10", "A=b", "c", "done"]),
    ] {
        let words = ["--shell"].into_iter().chain(names).chain(["--", script]);
        let outcome = scene.each(words).finish().unwrap();
        let printed = outcome.printed();
        let mut lines: Vec<_> = printed.lines().collect();
        lines.sort_unstable();
        let mut wanted = wanted.to_vec();
        wanted.sort_unstable();
        assert_eq!(lines, wanted, "{script}: {}", outcome.errors());
    }
}

/// Only in a rank are they its own.
#[test]
fn a_command_has_the_settings_for_mpi_that_the_user_has() {
    let scene =
        Scene::of("echo hello >f; printf '%s\\n' '#!/bin/sh' 'env >seen; exec cat' >own; chmod +x own");
    let names = [
        "OMPI_CC",
        "OMPI_MCA_btl",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "PMIX_MCA_ptl",
        "PMI_DEBUG",
        "PRTE_MCA_plm",
        "HYDI_X",
        "MPI_LOCAL",
        "MV2_COMM_WORLD_SIZE",
        "SLURM_PROCID",
        "SLURM_LOCALID",
    ];
    for words in
        ["each f -- ./own", "each --block=1K f -- ./own", "tar -I ./own -cf a f", "tar -I ./own -xf a"]
    {
        let mut run = scene.run(&super::scene::haul(), words.split(' '));
        for name in names {
            run = run.env(name, "mine");
        }
        run.succeed().unwrap();
        let seen = scene.script("cat seen; rm seen");
        let is_seen = |name: &&&str| seen.lines().any(|line| line == format!("{name}=mine"));
        assert_eq!(names.iter().filter(is_seen).count(), names.len(), "{words}: {seen}");
    }
}

#[test]
fn what_is_shown_is_what_would_be_run() {
    let scene = Scene::of("mkdir t; touch \"t/it's\" t/b");
    let outcome = scene.each(["--dry-run", "--sort=path", "t", "--", "rm", "a b", "{}"]).finish().unwrap();
    assert_eq!(outcome.printed(), "rm 'a b' t/b\nrm 'a b' 't/it'\\''s'\n");
    assert!(scene.path().join("t/b").exists());
}

#[test]
fn a_nice_run_and_its_commands_let_others_go_first() {
    require!(needs::tool("ionice"));
    let scene = Scene::of("mkdir t; touch t/a t/b");
    let usual = scene.each(["t", "--", "sh", "-c", "nice; ionice"]).finish().unwrap();
    assert!(!usual.printed().contains("idle"), "{}", usual.printed());
    // On workers' threads, too, which inherit it.
    let nice = scene.each(["--nice", "-j2", "t", "--", "sh", "-c", "nice; ionice"]).finish().unwrap();
    assert_eq!(nice.printed(), "19\nidle\n".repeat(2));
}

#[test]
fn output_is_whole_and_complete() {
    let scene = Scene::of("mkdir t; for i in $(seq 60); do echo $i > t/$i; done");
    // Each command writes slowly and in pieces, so that outputs would mix if they could.
    let script = "for n in 1 2 3 4 5; do printf '%s ' $(cat {}) ; printf '%s\n' $(cat {}) >&2; done; echo";
    let outcome = scene.each(["-j8", "--shell", "t", "--", script]).finish().unwrap();
    let wanted: Vec<String> = (1..=60).map(|number| format!("{number} ").repeat(5)).collect();
    let mut lines: Vec<_> = outcome.printed().lines().map(str::to_owned).collect();
    lines.sort_by_key(|line| line.split(' ').next().unwrap().parse::<u32>().unwrap());
    assert_eq!(lines, wanted);
    let errors: Vec<_> = outcome.errors().lines().map(str::to_owned).collect();
    assert_eq!(errors.len(), 300);
    assert!(errors.chunks(5).all(|five| five.iter().all(|line| *line == five[0])), "{errors:?}");
    let ordered = scene.each(["-j8", "--sort=path", "--shell", "t", "--", "echo {}"]).finish().unwrap();
    let ordered: Vec<_> = ordered.printed().lines().map(str::to_owned).collect();
    assert_eq!(ordered.len(), 60);
    assert!(ordered.is_sorted());
}

#[test]
fn much_output_on_both_streams_ends() {
    let scene = Scene::of("mkdir t; touch t/a t/b t/c");
    let script = "head -c 3000000 /dev/zero >&2; head -c 3000000 /dev/zero | tr '\\0' x";
    let outcome = scene.each(["--shell", "t", "--", script, "#"]).finish().unwrap();
    assert_eq!(
        (outcome.status(), outcome.stdout.len(), outcome.stderr.len()),
        (Some(0), 9_000_000, 9_000_000)
    );
}

#[test]
fn commands_that_fail_are_listed_at_the_end() {
    let scene = Scene::of("mkdir t; touch t/1 t/2 t/3 't/b c'; echo 5 > t/4");
    let script = "case {/} in 1) exit 3;; 'b c') kill -9 $$;; 2) echo said >&2;; esac; read x; echo {}$x";
    let outcome = scene.each(["--sort=path", "--shell", "t", "--", script]).finish().unwrap();
    assert_eq!(outcome.status(), Some(1));
    assert_eq!(outcome.printed(), "t/2\nt/3\nt/4\n", "standard input is empty");
    assert_eq!(
        outcome.errors(),
        "said\nhaul each: 2 of 5 commands failed:\nhaul each: t/1: exit status 3\nhaul each: 't/b c': ended by signal 9\n"
    );
}

#[test]
fn all_files_of_a_batch_that_fails_are_listed() {
    let scene = Scene::of("mkdir t; touch t/1 t/2 t/3 t/4 t/5");
    let outcome = scene.each(["--batch=5", "t", "--", "sh", "-c", "exit 3", "x"]).finish().unwrap();
    assert_eq!((outcome.status(), outcome.printed().as_str()), (Some(1), ""));
    let listed: String = (1..=5).map(|file| format!("haul each: t/{file}: exit status 3\n")).collect();
    assert_eq!(outcome.errors(), format!("haul each: 1 of 1 commands failed:\n{listed}"));
    // Each file counts, if there are too many to list.
    let scene = Scene::of("mkdir t; cd t; touch $(seq -w 1500)");
    let outcome = scene.each(["-j1", "--batch=700", "t", "--", "false"]).finish().unwrap();
    let errors = outcome.errors();
    assert!(errors.starts_with("haul each: 3 of 3 commands failed:\n"), "{errors}");
    assert_eq!(errors.matches(": exit status 1\n").count(), 1000);
    assert!(errors.ends_with("haul each: and 500 more\n"), "{errors}");
}

#[test]
fn a_command_there_is_not_is_reported_once() {
    let scene = Scene::of(
        "mkdir t; touch t/1 t/2 t/3 t/4; printf '#!/no/such/interpreter\\n' > t/run; chmod +x t/run",
    );
    for (command, told) in [
        ("no-such-command", "haul each: cannot run 'no-such-command': No such file or directory\n"),
        ("./no-such-command", "haul each: cannot run './no-such-command': No such file or directory\n"),
        (
            "t/1",
            "haul each: cannot run 't/1': Permission denied\nhaul each: skipping the remaining commands\n",
        ),
        ("/tmp", "haul each: cannot run '/tmp': Permission denied\n"),
        ("t/1/x", "haul each: cannot run 't/1/x': Not a directory\n"),
        (
            "t/run",
            "haul each: cannot run 't/run': No such file or directory\nhaul each: skipping the remaining commands\n",
        ),
    ] {
        let outcome = scene.outcome(&format!("-j4 t -- {command} {{}}"));
        assert_eq!((outcome.status(), outcome.errors().as_str()), (Some(2), told));
    }
    assert_eq!(scene.outcome("t -- {}").status(), Some(2));
    for wrong in [
        "t",
        "-- true",
        "--name [ t -- true",
        "--size big t -- true",
        "--batch 0 t -- true",
        "--batch 2 --sort=path t -- true",
        "--newer none t -- true",
        "--block 1K --type=d t -- true",
        "--block 1K --type=f,l t -- true",
    ] {
        let outcome = scene.outcome(wrong);
        assert_eq!(outcome.status(), Some(2), "{wrong}");
        assert!(outcome.errors().starts_with("haul each: "), "{wrong}: {}", outcome.errors());
    }
}

#[test]
fn a_program_that_cannot_be_run_keeps_no_other_from_it() {
    let scene = Scene::of(
        "mkdir p; for i in 1 2 3 4 5 6; do printf '#!/bin/sh\necho %s\n' $i > p/$i.sh; done; chmod +x p/*; chmod -x p/3.sh",
    );
    let outcome = scene.outcome("-j1 --sort=path p -- {}");
    assert_eq!((outcome.status(), outcome.printed().as_str()), (Some(2), "1\n2\n4\n5\n6\n"));
    assert_eq!(
        outcome.errors(),
        "haul each: cannot run 'p/3.sh': Permission denied\nhaul each: 1 of 6 commands failed:\n\
         haul each: p/3.sh: not started\n"
    );
    let outcome = scene.outcome("-j1 --sort=path --halt=soon p -- {}");
    assert_eq!(outcome.status(), Some(2));
    assert!(outcome.printed().lines().count() < 6, "{}", outcome.printed());
}

#[test]
fn a_batch_too_long_for_one_command_is_run_by_several() {
    let scene =
        Scene::of("mkdir t; cd t; long=$(printf '%0200d' 0); for i in $(seq 15000); do : > $long$i; done");
    let outcome = scene.outcome("--batch 30000 t -- printf %s\\n");
    assert_eq!((outcome.status(), outcome.errors()), (Some(0), String::new()));
    let lines = sorted(&outcome.printed());
    assert_eq!(lines.len(), 15_000);
    assert!(lines.windows(2).all(|two| two[0] != two[1]));
    // An argument list that is too long is reported for each path.
    let scene = Scene::of("mkdir t; touch t/a t/b");
    let script = format!("case {{/}} in a) : {} ;; b) echo b ;; esac", "{}".repeat(60_000));
    let outcome = scene.each(["--shell", "--batch=2", "t", "--", &script]).finish().unwrap();
    assert_eq!(outcome.status(), Some(2));
    let told = ["t/a", "t/b"].map(|path| format!("cannot run 'sh' for '{path}': Argument list too long"));
    assert!(told.iter().all(|told| outcome.errors().contains(told)), "{}", outcome.errors());
}

#[test]
fn a_failure_ends_the_run_if_that_is_asked() {
    let scene = Scene::of("mkdir t; for i in $(seq -w 200); do touch t/$i; done");
    let soon =
        scene.each(["-j2", "--halt=soon", "--shell", "t", "--", "echo ran {}; false"]).finish().unwrap();
    let ran = soon.printed().lines().count();
    assert!((1..=2).contains(&ran), "{ran} commands were run");
    assert_eq!(soon.status(), Some(1));
    let begun = Instant::now();
    // The second command fails while the first one runs.
    let script = "mkdir first 2>/dev/null && { sleep 500.5; exit; }; until test -d first; do :; done; exit 1";
    let now = scene.each(["-j2", "--halt=now", "--shell", "t", "--", script, "#"]).finish().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert_eq!(now.status(), Some(1));
    assert!(
        now.errors().contains("exit status 1") && now.errors().contains("ended by signal 15"),
        "{}",
        now.errors()
    );
}

#[test]
fn no_command_outlives_the_run() {
    require!(needs::tool("pgrep"));
    let scene = Scene::of("mkdir t; touch t/1 t/2");
    for signal in [haul_testkit::libc::SIGTERM, haul_testkit::libc::SIGKILL, haul_testkit::libc::SIGINT] {
        let mark = format!("{}.{}", 400 + signal, std::process::id());
        let running = scene.each(["-j2", "--shell", "t", "--", "exec sleep", &mark, "#"]);
        let running = Run::started(running, &mark);
        running.signal(signal).unwrap();
        running.finish().unwrap();
        assert!(
            wait::until(Duration::from_secs(20), || !runs(&format!("^sleep {mark}"))),
            "after signal {signal}"
        );
    }
}

#[test]
fn what_a_command_has_started_does_not_outlive_a_run_that_is_stopped() {
    require!(needs::tool("pgrep"));
    let scene = Scene::of("mkdir t; touch t/1 t/2");
    for signal in [Signal::TERM, Signal::HUP] {
        let mark = format!("{}.{}", 600 + signal.as_raw(), std::process::id());
        let running = scene.each(["-j2", "t", "--", "sh", "-c", &format!("sleep {mark}; echo x")]);
        let running = Run::started(running, &mark);
        // Signal only this process, not the process group.
        let process = i32::try_from(running.process()).unwrap();
        kill_process(Pid::from_raw(process).unwrap(), signal).unwrap();
        let outcome = running.finish().unwrap();
        assert_eq!(outcome.status(), None, "{:?}: {}", outcome.ending, outcome.errors());
        assert!(
            wait::until(Duration::from_secs(20), || !runs(&format!("^sleep {mark}"))),
            "after signal {signal:?}"
        );
    }
}

#[test]
fn several_files_share_a_command_if_that_is_asked() {
    let scene = Scene::of("mkdir -p t/d; for i in $(seq 25); do touch t/d/$i; done");
    let outcome = scene.outcome("--batch 10 t -- echo");
    let lines: Vec<_> = outcome.printed().lines().map(|line| line.split(' ').count()).collect();
    assert_eq!(sorted(&outcome.printed().replace([' ', '\n'], "\n")).len(), 25);
    assert_eq!((lines.len(), lines.iter().sum::<usize>()), (3, 25), "{lines:?}");
    let outcome = scene.outcome("--batch 100 t -- echo x{/} end");
    assert_eq!(outcome.printed().split_whitespace().count(), 26);
    let script = ["--batch=100", "--shell", "t", "--", "ls {} | wc -l"];
    let outcome = scene.each(script).finish().unwrap();
    assert_eq!(
        (outcome.status(), outcome.errors(), outcome.printed().trim()),
        (Some(0), String::new(), "25")
    );
}

#[test]
fn a_long_list_of_files_is_run_once_each() {
    let scene = Scene::of("mkdir t; (cd t; for d in $(seq 20); do mkdir $d; (cd $d; touch $(seq 20)); done)");
    let outcome = scene.outcome("-j4 t -- mv {} {}.done");
    assert_eq!((outcome.status(), outcome.errors()), (Some(0), String::new()));
    let count = |end: &str| {
        let names = (1..=20).flat_map(|d| fs::read_dir(scene.path().join(format!("t/{d}"))).unwrap());
        names.filter(|name| name.as_ref().unwrap().file_name().to_string_lossy().ends_with(end)).count()
    };
    assert_eq!(count(".done"), 400);
}

/// Namespace for starting a run and waiting for its command.
struct Run;

impl Run {
    fn started(run: haul_testkit::TestRun, mark: &str) -> haul_testkit::run::Running {
        let running = run.start().unwrap();
        assert!(wait::until(Duration::from_secs(20), || runs(&format!("^sleep {mark}"))), "never started");
        running
    }
}
