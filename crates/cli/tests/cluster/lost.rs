//! Work that is done again after a rank was lost: what that one has made is recognised, and what
//! existed before isn't taken for it. The tree, the errors and the exit status are those of a copy
//! by one process.
//!
//! A limit of operations makes the copy slow, so that the rank is lost in the middle of its work.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use haul_testkit::mpi::{Mpi, MpiKind};
use haul_testkit::{CopyProgram, RunOutcome, Sandbox, TestRun, needs, program, require, wait};

use crate::kills::kill;
use crate::start::relatives;

const SOON: Duration = Duration::from_secs(60);

/// New entries of the target at which a rank is killed.
const MADE: usize = 60;

/// A command that copies `s` to `t`.
#[derive(Clone, Copy)]
struct Case {
    /// Shell script that makes the source and what is in the target before, in the working
    /// directory.
    before: &'static str,
    line: &'static str,
    user: User,
    /// True if haul reports errors: the same ones in both copies.
    has_errors: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum User {
    Root,
    Nobody,
}

const fn case(before: &'static str, line: &'static str) -> Case {
    Case { before, line, user: User::Root, has_errors: false }
}

impl Case {
    const fn as_nobody(self) -> Self {
        Self { user: User::Nobody, ..self }
    }

    const fn with_errors(self) -> Self {
        Self { has_errors: true, ..self }
    }
}

struct Scene {
    sandbox: Sandbox,
    mpi: Mpi,
    program: CopyProgram,
    mark: String,
}

impl Scene {
    /// Creates a scene; the caller has checked that this is possible.
    fn new() -> Self {
        let sandbox = Sandbox::on_disk().unwrap();
        let program = program!().publish(sandbox.path()).unwrap();
        fs::set_permissions(sandbox.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mark = sandbox.path().file_name().unwrap().to_str().unwrap().to_owned();
        Self { sandbox, mpi: Mpi::find(MpiKind::OpenMpi4).unwrap(), program, mark }
    }

    fn folder(&self) -> PathBuf {
        self.sandbox.join("folder")
    }

    fn prepare(&self, case: Case) {
        let owner = if case.user == User::Nobody { "chown -R 65534:65534 ." } else { "" };
        let script = format!("rm -rf folder; mkdir -p folder/tmp; cd folder; {}\n{owner}", case.before);
        self.sandbox.script(&script).unwrap();
    }

    fn command(&self, line: &str, user: User) -> TestRun {
        let folder = self.folder();
        let line = line.replace("PWD", folder.to_str().unwrap());
        let run = self.mpi.with(TestRun::new(self.program.path()).args(line.split(' ')));
        let run = run.env("TMPDIR", folder.join("tmp")).env("HOME", &folder).env("HAUL_TEST", &self.mark);
        let run = if user == User::Nobody { run.as_nobody() } else { run };
        run.umask(0o022).in_folder(&folder).within(SOON)
    }

    fn entries(&self) -> usize {
        walkdir::WalkDir::new(self.folder().join("t")).into_iter().flatten().count()
    }

    /// Runs a case with two ranks, one of which is killed when it has made some entries.
    fn run_with_loss(&self, case: Case) -> RunOutcome {
        self.prepare(case);
        let before = self.entries();
        let run = self.command(case.line, case.user).args(self.mpi.options(2));
        let running = run.args(["--iops-limit=200", "-j1"]).start().unwrap();
        assert!(wait::until(SOON, || self.entries() >= before + MADE), "{}", case.line);
        let victim = relatives(&self.mark).into_iter().find(|process| process.rank == Some(1)).unwrap();
        assert!(kill(victim.id));
        let outcome = running.finish().unwrap();
        let told = outcome.errors();
        assert!(told.contains("restarting the remaining work"), "{}: {told}", case.line);
        outcome
    }

    /// Names, types, modes, sizes, numbers of names and contents of everything in the target.
    fn found(&self) -> String {
        let script = "find t ! -type d -printf '%P %y %m %s %n %l\\n' -o -printf '%P %y %m\\n' | sort
            find t -type f | sort | xargs sha256sum
            find t -type f -links +1 -printf '%i %P\\n' | sort | awk '{n[$1] = n[$1] \" \" $2}
            END {for (i in n) print n[i]}' | sort";
        let shell = Command::new("bash").args(["-c", script]).current_dir(self.folder()).output().unwrap();
        String::from_utf8(shell.stdout).unwrap()
    }

    fn check(&self, case: Case) {
        let Case { line, has_errors, .. } = case;
        self.prepare(case);
        let alone = self.command(&line.replace(" --walk=ranks", ""), case.user).finish().unwrap();
        let expected = self.found();
        assert_eq!(alone.succeeded(), !has_errors, "{line}: {}", alone.errors());
        let several = self.run_with_loss(case);
        assert_eq!(errors(&alone), errors(&several), "{line}");
        assert_eq!(alone.status(), several.status(), "{line}");
        let found = self.found();
        let differ: Vec<_> = expected
            .lines()
            .zip(found.lines())
            .filter(|(expected, found)| expected != found)
            .take(5)
            .collect();
        assert!(expected == found, "{line}: {differ:?}");
    }
}

/// The errors, without what is said about the loss.
fn errors(outcome: &RunOutcome) -> BTreeSet<String> {
    let told = outcome.errors();
    let lines = told.lines().filter(|line| !line.contains("restarting the remaining work"));
    lines.map(str::to_owned).collect()
}

fn check_all(cases: &[Case]) {
    require!(needs::root(), MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let scene = Scene::new();
    cases.iter().for_each(|case| scene.check(*case));
}

const DIRECTORIES: &str = "modes=(555 700 750 511 777 2755)
    mkdir s; for n in {1..150}; do mkdir -m ${modes[n % 6]} s/$n; done";

/// The same, and some are in the target: every tenth one, and some of them have entries.
const EXISTING_DIRECTORIES: &str = "modes=(555 700 750 511 777 2755)
    mkdir s t; for n in {1..150}; do mkdir s/$n; echo $n >s/$n/f; chmod ${modes[n % 6]} s/$n; done
    for n in {5..150..10}; do mkdir t/$n; (( n % 4 > 1 )) || touch t/$n/g; chmod ${modes[n % 4]} t/$n; done";

/// Ranks make directories with the permissions that work in them takes.
#[test]
fn directories_get_their_modes() {
    check_all(&[
        case(DIRECTORIES, "cp -rT --walk=ranks s t"),
        case(DIRECTORIES, "cp -aT --walk=ranks s t"),
        case(EXISTING_DIRECTORIES, "cp -rT --walk=ranks s t"),
        case(EXISTING_DIRECTORIES, "cp -rT s t"),
        case(DIRECTORIES, "sync --no-preserve=mode --walk=ranks s t"),
        case(EXISTING_DIRECTORIES, "sync --no-preserve=mode --walk=ranks s t"),
        case(DIRECTORIES, "cp -rT --walk=ranks s t").as_nobody(),
        case(EXISTING_DIRECTORIES, "sync --no-preserve=mode --walk=ranks s t").as_nobody(),
        case(EXISTING_DIRECTORIES, "sync --walk=ranks s t").as_nobody(),
    ]);
}

const LINKS: &str = "mkdir -p s/a s/b; for n in {1..150}; do echo $n >s/a/$n; ln s/a/$n s/b/$n; done
    ln -s x s/l; ln s/l s/m";

/// The same, and some are in the target.
const EXISTING_LINKS: &str = "mkdir -p s/a s/b t/a t/b
    for n in {1..150}; do echo $n >s/a/$n; ln s/a/$n s/b/$n; done
    for n in {10..150..20}; do echo $n >t/a/$n; echo other >t/b/$((n / 2)); done";

/// Nothing that exists is replaced, but what a lost rank has made gets its other names.
#[test]
fn names_of_one_file_are_linked() {
    check_all(&[
        case(LINKS, "cp -anT s t"),
        case(LINKS, "cp -aT --update=none-fail --walk=ranks s t"),
        case(LINKS, "sync --ignore-existing s t"),
        case(LINKS, "cp -auT s t"),
        case(LINKS, "cp -aT s t"),
        case(EXISTING_LINKS, "cp -aT --update=none s t"),
        case(EXISTING_LINKS, "sync --ignore-existing s t"),
    ]);
}

const FILES: &str = "mkdir s; for n in {1..150}; do echo $n >s/$n; done";

/// The same, and some are in the target, and would count as copies.
const EXISTING_FILES: &str = "mkdir s t; for n in {1..150}; do echo $n >s/$n; done
    for n in {10..150..20}; do cp -p s/$n t; done";

const EXISTING_HARD_LINKS: &str = "mkdir s t; for n in {1..150}; do echo $n >s/$n; done
    for n in {10..150..20}; do ln s/$n t; done";

const EXISTING_SYMLINKS: &str = "mkdir s t; for n in {1..150}; do echo $n >s/$n; done
    for n in {10..150..20}; do ln -s $PWD/s/$n t; done";

const READ_ONLY: &str = "mkdir s; for n in {1..150}; do echo $n >s/$n; chmod 444 s/$n; done";

/// The same, and some are in the target.
const EXISTING_READ_ONLY: &str = "mkdir s t; for n in {1..150}; do echo $n >s/$n; chmod 444 s/$n; done
    for n in {10..150..20}; do echo other >t/$n; chmod 444 t/$n; done";

const SPECIAL: &str = "mkdir s; for n in {1..150..3}; do mkfifo s/$n; ln -s $n s/$((n + 1))
    touch -hd @$n s/$((n + 1)); mknod s/$((n + 2)) c 1 3; done";

/// What the options refuse to replace is made once.
#[test]
fn what_was_made_is_no_error() {
    check_all(&[
        case(FILES, "cp -rsT PWD/s t"),
        case(EXISTING_SYMLINKS, "cp -rsT PWD/s t").with_errors(),
        case(FILES, "cp -asT PWD/s t"),
        case(FILES, "cp -rlT s t"),
        case(FILES, "cp -rlT --update=none-fail s t"),
        case(EXISTING_HARD_LINKS, "cp -rlT --update=none-fail s t").with_errors(),
        case(FILES, "cp -rT --update=none-fail s t"),
        case(EXISTING_FILES, "cp -aT --update=none-fail s t").with_errors(),
        case(SPECIAL, "cp -aT --update=none-fail s t"),
        case(SPECIAL, "cp -anT s t"),
    ]);
}

/// A user can't open these for writing a second time.
#[test]
fn files_that_nobody_may_write_to_are_made_again() {
    check_all(&[
        case(EXISTING_READ_ONLY, "cp -rT s t").as_nobody().with_errors(),
        case(READ_ONLY, "cp -rT s t").as_nobody(),
        case(READ_ONLY, "cp -aT --walk=ranks s t").as_nobody(),
        case(READ_ONLY, "cp -rT --attributes-only s t").as_nobody(),
        case(READ_ONLY, "sync --no-preserve=timestamps s t").as_nobody(),
    ]);
}
