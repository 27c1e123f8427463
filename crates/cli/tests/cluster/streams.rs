//! Standard input, other descriptors, and children of ranks: with several processes the same
//! results as with one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use haul_testkit::mpi::{Mpi, MpiKind};
use haul_testkit::run::TestRun;
use haul_testkit::{RunOutcome, Sandbox, program, require, skip};

/// A rank that waits for an end that never comes must fail the test.
const LIMIT: Duration = Duration::from_secs(60);

/// Creates files, archives and links to standard input.
const SCENE: &str = "mkdir t; echo one >t/x; echo two >t/y; cp -a t other; printf 'foo\\npiped\\n' >f; echo one >piped; \
                     ln -s /dev/stdin link; tar -cf x.tar t; tar -cjf x.tbz t; printf 't\\n' >names; \
                     printf 'x\\n' >list; b3sum t/x >sums 2>/dev/null || $HAUL sum t/x >sums";

fn scene() -> Sandbox {
    let sandbox = Sandbox::in_memory().unwrap();
    shell(&sandbox, SCENE, &[]);
    sandbox
}

fn bash(sandbox: &Sandbox, script: &str) -> TestRun {
    let bash = TestRun::new(Path::new("/bin/bash")).args(["-c", script]).in_folder(sandbox.path());
    bash.env("HAUL", program!().path()).env("LC_ALL", "C").within(LIMIT)
}

/// Runs a script that must succeed; `$1` and so on are `words`.
fn shell(sandbox: &Sandbox, script: &str, words: &[String]) -> RunOutcome {
    let outcome = bash(sandbox, script).arg("bash").args(words).finish().unwrap();
    assert!(outcome.succeeded(), "{script}: {:?} {}", outcome.ending, outcome.errors());
    outcome
}

/// Every way to name standard input or another descriptor. `$@` are the options for several
/// processes; the results are printed.
const STREAMS: &[&str] = &[
    "echo piped | $HAUL cp \"$@\" /dev/stdin n; cat n",
    "$HAUL cp \"$@\" /dev/stdin n <f; cat n",
    "echo piped | $HAUL cp -L \"$@\" link n; cat n",
    "mkdir n; echo piped | $HAUL cp -rL --copy-contents \"$@\" link t n; cat n/link n/t/x",
    "mkdir n; echo piped | $HAUL cp \"$@\" f /dev/fd/0 n; cat n/f n/0",
    "mkdir n; $HAUL cp \"$@\" <(echo piped) n; cat n/*",
    "mkfifo n; echo piped >n & $HAUL cp \"$@\" n m; cat m; rm m",
    "$HAUL cp \"$@\" f /dev/stdout | cat",
    "$HAUL cp -r \"$@\" /dev/fd/9/t n 9<.; cat n/x n/y",
    "$HAUL cp -r \"$@\" /dev/fd/9/. n 9<t; cat n/x n/y",
    "mkdir n; $HAUL cp \"$@\" /dev/fd/9/x t/y n 9<t; cat n/x n/y",
    "ln -s /dev/fd/9/t n; $HAUL cp -rL \"$@\" n m 9<.; cat m/x m/y; rm -r m",
    "$HAUL sync \"$@\" /dev/fd/9/t n 9<.; cat n/x n/y",
    "$HAUL grep -r \"$@\" one /dev/fd/9/t 9<.",
    "$HAUL sum \"$@\" /dev/fd/9/t 9<.",
    "$HAUL tar --sort=name -cf n -C /dev/fd/9 t \"$@\" 9<.; tar -tf n",
    "$HAUL each \"$@\" /dev/fd/9/t -- cat 9<. | sort",
    "echo piped | $HAUL grep \"$@\" piped /dev/stdin",
    "echo piped | $HAUL grep \"$@\" piped -",
    "$HAUL grep \"$@\" piped link <f",
    "$HAUL grep -h \"$@\" piped f <(echo piped)",
    "echo piped | $HAUL grep \"$@\" -f - f",
    "echo piped | $HAUL sum \"$@\"",
    "echo piped | $HAUL sum \"$@\" /dev/stdin t/x",
    "$HAUL sum \"$@\" - <f",
    "$HAUL sum -c \"$@\" /dev/stdin <sums",
    "$HAUL cmp \"$@\" - f <f; echo same",
    "$HAUL cmp \"$@\" /dev/stdin f <f; echo same",
    "mkdir n; $HAUL tar -C n -xf - \"$@\" <x.tar; cat n/t/x n/t/y",
    "mkdir n; cat x.tar | $HAUL tar -C n -xf - \"$@\"; cat n/t/x n/t/y",
    "mkdir n; $HAUL tar -C n -xf /dev/stdin \"$@\" <x.tar; cat n/t/x n/t/y",
    "mkdir n; cat x.tar | $HAUL tar -C n -xf /dev/stdin \"$@\"; cat n/t/x n/t/y",
    "mkdir n; $HAUL tar -C n -xf /dev/fd/9 \"$@\" 9<x.tar; cat n/t/x n/t/y",
    "mkdir n; $HAUL tar -C n -xf - \"$@\" <x.tbz; cat n/t/x n/t/y",
    "$HAUL tar --sort=name -cf /dev/stdout \"$@\" t >n; tar -tf n",
    "$HAUL tar --sort=name -cf - \"$@\" t >n; tar -tf n",
    "$HAUL tar --sort=name -cf n -T - \"$@\" <names; tar -tf n",
    "$HAUL cp -r --files-from=- \"$@\" t n <list; ls n",
    "$HAUL cp -r --exclude-from=/dev/stdin \"$@\" t n <list; ls n",
];

/// Lines wait for their reader, as for a user of `less`, for longer than `HAUL_SILENCE`. There are
/// so many that they fill each buffer on the way.
#[test]
fn ranks_live_on_while_nobody_reads_the_lines() {
    require!(program!().needs_haul());
    let installed = Mpi::installed();
    if installed.is_empty() {
        skip!("needs an MPI installation");
    }
    let sandbox = Sandbox::in_memory().unwrap();
    let name = "x".repeat(200);
    shell(&sandbox, &format!("mkdir t; cd t; for i in {{1..5000}}; do : >{name}$i; done"), &[]);
    let script = "set -eo pipefail; $HAUL cp -rv \"$@\" t n | { sleep 10; wc -l; }; rm -r n";
    for mpi in &installed {
        let run = bash(&sandbox, script).env("HAUL_SILENCE", "3").arg("bash").args(mpi.options(2));
        let outcome = mpi.with(run).finish().unwrap();
        let (kind, printed) = (mpi.kind().name(), outcome.printed());
        assert_eq!((printed.trim(), outcome.errors().as_str()), ("5001", ""), "{kind}");
    }
}

#[test]
fn descriptors_are_those_of_the_launch_process() {
    require!(program!().needs_haul());
    let installed = Mpi::installed();
    if installed.is_empty() {
        skip!("needs an MPI installation");
    }
    let sandbox = scene();
    for script in STREAMS {
        // As `pipefail` does, a failure before the last command counts.
        let script = format!("set -eo pipefail; {script}; rm -rf n");
        let alone = shell(&sandbox, &script, &[]);
        for mpi in &installed {
            for ranks in [2, 5] {
                let run = bash(&sandbox, &script).arg("bash").args(mpi.options(ranks));
                let outcome = mpi.with(run).finish().unwrap();
                assert_eq!(
                    (outcome.status(), outcome.printed()),
                    (alone.status(), alone.printed()),
                    "{script} by {ranks} of {}: {}",
                    mpi.kind().name(),
                    outcome.errors()
                );
            }
        }
        assert!(!alone.printed().is_empty(), "{script}");
    }
}

/// Lists and rules from standard input, as arguments of haul.
const LISTS: &[(&str, &str, &str)] = &[
    ("cp -r --files-from=- t n", "x\n", "ls n"),
    ("cp -r --files-from=/dev/stdin t n", "x\n", "ls n"),
    ("cp -r --exclude-from=- t n", "x\n", "ls n"),
    ("sync --exclude-from=- t n", "x\n", "ls n"),
    ("tar -T - -cf n", "t/x\n", "tar -tf n"),
    ("tar -X - --sort=name -cf n t", "x\n", "tar -tf n"),
    ("grep -f - f", "piped\n", "true"),
    ("grep -v -f - f", "", "true"),
    ("grep --exclude-from=- -r piped f t", "x\n", "true"),
    ("sum --files-from=- t", "x\n", "true"),
];

#[test]
fn only_the_first_of_several_ranks_reads_a_list_from_a_stream() {
    require!(program!().needs_haul());
    let installed = Mpi::installed();
    if installed.is_empty() {
        skip!("needs an MPI installation");
    }
    let sandbox = scene();
    for (words, input, shown) in LISTS {
        let results = |run: TestRun| {
            let run = run.args(words.split(' ')).in_folder(sandbox.path()).env("LC_ALL", "C").within(LIMIT);
            let outcome = run.input(input.as_bytes()).finish().unwrap();
            assert!(outcome.succeeded(), "{words}: {:?} {}", outcome.ending, outcome.errors());
            let shown = shell(&sandbox, &format!("{shown}; rm -rf n"), &[]);
            (outcome.printed(), shown.printed())
        };
        let alone = results(TestRun::new(program!().path()));
        assert!(!alone.0.is_empty() || !alone.1.is_empty(), "{words}");
        // The launcher of Open MPI 5 doesn't pass on the end of its input: even `cat` hangs.
        for mpi in installed.iter().filter(|mpi| mpi.kind() != MpiKind::OpenMpi5) {
            assert_eq!(results(mpi.job(2, program!().path())), alone, "{words}: {}", mpi.kind().name());
        }
    }
}

#[test]
fn the_command_of_a_rank_is_no_rank() {
    require!(program!().needs_haul());
    let installed = Mpi::installed();
    if installed.is_empty() {
        skip!("needs an MPI installation");
    }
    let sandbox = scene();
    // Not the settings of the test kit, nor the parameters of PMIx: they are the user's.
    let own = "env | grep -E '^(OMPI_|PMIX?_|HYDI_|MPI_LOCAL|HAUL_SPOOL)' | grep -Ev '^OMPI_ALLOW_|^PMIX_MCA_|\
               ^OMPI_MCA_(rmaps_base_oversubscribe|mpi_yield_when_idle|pml|btl)='; echo seen";
    for mpi in &installed {
        let clients = mpi.options(2);
        let mut words = clients.to_vec();
        words.push(own.to_owned());
        let variables =
            "HAUL_SPOOL=$PWD $HAUL each --sort=path \"${@:1:3}\" t -- sh -c \"$4\" | grep -v seen || true";
        let run = |script: &str, words: &[String]| {
            let outcome = mpi.with(bash(&sandbox, script).arg("bash").args(words)).finish().unwrap();
            assert!(outcome.succeeded(), "{script}: {:?} {}", outcome.ending, outcome.errors());
            outcome.printed()
        };
        assert_eq!(run(variables, &words), "", "{}", mpi.kind().name());
        let kept = "export OMPI_CC=mine OMPI_MCA_coll_base_verbose=0; \
                    $HAUL each --batch=9 --jobs=1 \"$@\" t/x -- sh -c 'echo $OMPI_CC $OMPI_MCA_coll_base_verbose'";
        assert_eq!(run(kept, &clients), "mine 0\n", "{}", mpi.kind().name());
        let nested =
            format!("$HAUL each --sort=path \"$@\" t -- {} -n 1 echo rank", mpi.launcher().display());
        assert_eq!(run(&nested, &clients), "rank t/x\nrank t/y\n", "{}", mpi.kind().name());
        let hashes = run("$HAUL each --sort=path \"$@\" t -- $HAUL sum", &clients);
        assert_eq!(hashes.lines().count(), 2, "{hashes}");
        run("$HAUL each --batch=1 \"$@\" t -- sh -c \"$HAUL cp {} {}.copy\"; ls t/x.copy t/y.copy", &clients);
        let launcher = [mpi.launcher().display().to_string()];
        let archive = "set -e; $1 -n 2 $HAUL tar -I \"$HAUL bzip2\" -cf y.tar other; mkdir -p n; \
                       $1 -n 2 $HAUL tar -I \"$HAUL bzip2\" -C n -xf y.tar; cat n/other/x; rm -r n";
        assert_eq!(run(archive, &launcher), "one\n", "{}", mpi.kind().name());
        run("rm t/*.copy", &[]);
    }
}

#[test]
fn a_batch_job_with_descriptors_is_refused_before_it_is_submitted() {
    require!(program!().needs_haul());
    let sandbox = scene();
    let sbatch = sandbox.join("bin/sbatch");
    fs::create_dir(sandbox.join("bin")).unwrap();
    fs::write(&sbatch, "#!/bin/sh\n[ \"$1\" = --version ] || touch submitted\nexit 1\n").unwrap();
    fs::set_permissions(&sbatch, fs::Permissions::from_mode(0o755)).unwrap();
    let scontrol = sandbox.join("bin/scontrol");
    fs::write(&scontrol, "#!/bin/sh\necho 'Slurmctld(primary) at localhost is UP'\n").unwrap();
    fs::set_permissions(&scontrol, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", sandbox.join("bin").display(), std::env::var("PATH").unwrap());
    let outcome = |script: &str| bash(&sandbox, script).env("PATH", &path).finish().unwrap();
    for words in [
        "tar -cf n -T -",
        "tar -cf n -X - t",
        "tar -cf n -T /dev/stdin",
        "tar -cf n --exclude-from=/dev/fd/0 t",
        "tar -C other -xf - t",
        "tar -xf /dev/stdin t",
        "sum ",
        "sum -",
        "sum /dev/stdin",
        "sum -c -",
        "grep hello - f",
        "grep hello link",
        "grep -f - f",
        "grep --exclude-from=- hello f",
        "cmp - f",
        "cmp f /proc/self/fd/0",
        "cmp --manifest=/dev/stdin t",
        "cp /dev/stdin n",
        "cp --files-from=/dev/stdin t n",
        "cp -r --exclude-from=<(echo x) t n",
        "sync --exclude-from=/dev/stdin t n",
        "cp -r --newer-than=/dev/stdin t n",
        "sync --older-than /dev/fd/0 t n",
        "each --newer /dev/stdin t -- cat",
        "tar -cf n --mtime=/dev/stdin t",
        "cp --manifest=/dev/stdout f n",
        "cp --log-file=/dev/stderr f n",
        "sum -o /dev/stdout t",
        "cp -r /dev/fd/0/t n",
    ] {
        let words = words.replacen(' ', " --clients=2 --account=x ", 1);
        let run = outcome(&format!("$HAUL {words} <list"));
        let told = run.errors();
        assert!(told.contains("a batch job has no standard input"), "{words}: {told}");
        assert!(!run.succeeded() && !sandbox.join("submitted").exists(), "{words}");
        assert!(!sandbox.join("n").exists(), "{words}");
    }
    // Without one, it is submitted.
    let run = outcome("$HAUL cp f n --clients=2 --account=x <list");
    assert!(sandbox.join("submitted").exists(), "{}", run.errors());
}
