//! `--dry-run`: prints what the copy then does, and changes nothing.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use haul_testkit::random::{IndexedRandom, Rng, seeded};
use haul_testkit::strace::{TracedCall, record};
use haul_testkit::{
    CopyProgram, Facts, RunOutcome, Sandbox, Snapshot, TestRun, compare, needs, program, require,
};

/// A source with everything that can be in a tree, and a target that has a part of it.
const SCENE: &str = "
    mkdir -p s/a/b s/c s/empty t/s/a t/s/c d
    for n in 1 2 3; do echo $n >s/a/$n; echo $n >s/a/b/$n; done
    ln -s 1 s/a/link; ln -s nowhere s/dangling; ln -s a s/to-a; ln s/a/1 s/twin; mkfifo s/fifo
    echo old >t/s/a/1; echo old >t/s/a/2; touch -d @1000 t/s/a/2; touch -d '2100-01-01' t/s/a/1
    ln -s elsewhere t/s/dangling; mkdir t/s/twin; echo x >t/s/empty; ln s/a/3 t/s/a/3; echo y >t/s/fifo
    echo backup >t/s/a/1~; echo one >f; ln -s f l; ln f g; echo other >t/f
    echo many >h; ln h i; mkdir -p t/dirs/h t/links; ln -s nowhere t/links/g; ln -s nowhere t/links/f
    touch -h -d @1000 t/links/g; ln -s a/2 t/s/to-2
    python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'";

/// Command lines, each tried on a scene of its own.
const LINES: &[&str] = &[
    "f t",
    "f new",
    "f g",
    "f l",
    "l f",
    "f f",
    "s t",
    "missing f t",
    "f missing/new",
    "f missing/new/",
    "-r s missing/new",
    "-rT s ./missing/new/",
    "-rT s t/missing/../new",
    "-l f missing/new",
    "-s /dev/null missing/new",
    "-a s/fifo missing/new",
    "-a s/dangling missing/new",
    "-ub f missing/new",
    "--atomic f missing/new",
    "-r s new",
    "-r s t",
    "-a s t",
    "-a s/. d",
    "-rT s t/s",
    "-rL s/a s/to-a new",
    "-rL s/to-a d",
    "-ru s t",
    "-rn s t",
    "-r --update=none-fail s t",
    "-rb s t",
    "-a --backup=numbered s t",
    "-a --backup=numbered -j1 s/a/1 s/twin t/s",
    "-a -u -j1 s/a/1 s/twin t/s",
    "-rf s t",
    "-r --remove-destination s t",
    "-a --remove-destination s/a/. t/s/a",
    "-rl s new",
    "-rlf s t",
    "-a --attributes-only s new",
    "-a --attributes-only -u s/dangling t/s",
    "-a --attributes-only -uT s/dangling t/links/g",
    "-a --atomic s/a/. t/s/a",
    "-a --atomic -T s/a t/s/a",
    "-a --atomic -T f h",
    "--atomic f h",
    "--atomic -f f h",
    "--atomic s/a/1 t/s/to-2",
    "--atomic -u s/a/1 h",
    "-a -s --atomic -T /dev/null t/f",
    "-a -sf --atomic -T /dev/null t/f",
    "-a -l --atomic -T f t/f",
    "-r --atomic -T s t/s",
    "-a -f -j1 f g t/links",
    "-a -j1 h i t/dirs",
    "-a -j1 i h t/dirs",
    "-au -j1 h i t/dirs",
    "-au -j1 i h t/dirs",
    "-auf -j1 h i t/dirs",
    "-aub -j1 h i t/dirs",
    "--parents s/a/b/1 f d",
    "-a --parents s/a/b s/c d",
    "--parents s/a/b/1 s/a/b/2 t",
    "-r s s/inside",
    "-r s/a s/a/b",
    "-r s s/a/b/new",
    "-r s s d",
    "-r f s/a/1 s/a/2 d",
    "-a --exclude=b --include=1 s new",
    "-r s/a/1 s/a/b t/f/x",
    "-r s t/f",
    "-rP s/to-a s/dangling d",
    "-r --keep-directory-symlink s t",
    "-rs s new",
    "-s f t/s/dangling",
    "f t/s/dangling",
    "-f f t/s/dangling",
    "-l f t/s/dangling",
    "-l f t/f",
    "-lf f t/f",
    "-u f t/f",
    "-ru s/a t/f",
    "--atomic f t/s/dangling",
    "--strict f t/s/dangling",
    "-r --keep-directory-symlink s/a t/s/dangling",
    "--parents s/./a/1 d",
    "socket new",
    "-r socket new",
    "-r --no-special s/fifo new",
];

/// The lines that an outcome printed, sorted. Workers copy in any order.
fn lines(bytes: &[u8]) -> Vec<String> {
    let mut lines: Vec<_> = String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn run(ours: &CopyProgram, folder: &Path, own: &[&str], line: &str) -> RunOutcome {
    ours.run().args(own).args(line.split(' ')).in_folder(folder).finish().unwrap()
}

#[test]
fn a_dry_run_says_what_the_copy_then_does() {
    let ours = program!();
    require!(ours.needs_haul(), needs::tool("python3"));
    let mut failures = Vec::new();
    for line in LINES {
        let sandbox = Sandbox::in_memory().unwrap();
        let folder = sandbox.join("work");
        std::fs::create_dir(&folder).unwrap();
        sandbox.script(&format!("cd work; {SCENE}")).unwrap();
        let facts = Facts::PRESERVED;
        let before = Snapshot::take(&folder, facts).unwrap();
        let dry = run(&ours, &folder, &["--dry-run"], line);
        let after = Snapshot::take(&folder, facts).unwrap();
        let changes = compare(&before, &after, facts).unwrap();
        if !changes.is_empty() {
            failures.push(format!("{line}: changed {changes}"));
        }
        let real = run(&ours, &folder, &["-v"], line);
        let (dry_shown, real_shown) = (
            (dry.status(), lines(&dry.stdout), lines(&dry.stderr)),
            (real.status(), lines(&real.stdout), lines(&real.stderr)),
        );
        if dry_shown != real_shown {
            failures.push(format!("{line}:\n  dry  {dry_shown:#?}\n  real {real_shown:#?}"));
        }
    }
    assert!(failures.is_empty(), "{} of {} differ:\n{}", failures.len(), LINES.len(), failures.join("\n"));
}

/// True if a call may change a file system.
fn writes(call: &TracedCall) -> bool {
    let name = call.name.as_str();
    let opens = name == "openat"
        && ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TMPFILE"].iter().any(|flag| call.has_flag(2, flag));
    let changes = [
        "mkdir",
        "mknod",
        "unlink",
        "rmdir",
        "rename",
        "link",
        "symlink",
        "chmod",
        "fchmod",
        "chown",
        "fchown",
        "lchown",
        "utime",
        "setxattr",
        "fsetxattr",
        "lsetxattr",
        "removexattr",
        "fremovexattr",
        "truncate",
        "ftruncate",
        "fallocate",
        "copy_file_range",
        "sendfile",
        "pwrite",
        "fsync",
        "fdatasync",
        "sync",
    ];
    // Others ask if standard output is a terminal.
    let clones = name == "ioctl" && call.argument(1).contains("CLONE");
    opens || clones || changes.iter().any(|change| name.starts_with(change))
}

#[test]
fn a_dry_run_makes_no_call_that_writes() {
    require!(needs::tool("strace"));
    let ours = program!();
    require!(ours.needs_haul());
    let filter = "file,desc,fsync,fdatasync,sync,syncfs";
    let traced = |own: &[&str], line: &str| {
        let sandbox = Sandbox::in_memory().unwrap();
        sandbox.script(SCENE).unwrap();
        let run = ours.run_with(own).args(line.split(' ')).in_folder(sandbox.path());
        let (_, calls) = record(run, filter, &sandbox.join("log")).unwrap();
        calls
    };
    for line in ["-a s t", "-a --fsync --verify --atomic s new", "--parents s/a/b/1 d", "-rb --context=x s t"]
    {
        let calls = traced(&["--dry-run"], line);
        assert!(calls.iter().any(|call| call.name == "statx"), "the trace shows what is looked at");
        let wrong: Vec<_> = calls.iter().filter(|call| writes(call)).map(TracedCall::line).collect();
        assert!(wrong.is_empty(), "{line}: {wrong:#?}");
    }
    assert!(traced(&[], "-a s new").iter().any(writes), "a real copy writes");
}

#[test]
fn what_needs_a_real_copy_is_refused_with_a_dry_run() {
    let ours = program!();
    require!(ours.needs_haul());
    for other in ["--resume", "--journal=j", "--manifest=m", "--interactive"] {
        let sandbox = Sandbox::in_memory().unwrap();
        sandbox.script(SCENE).unwrap();
        let run = ours.run_with(&["--dry-run", other]).args(["-r", "s", "new"]).in_folder(sandbox.path());
        let outcome = run.finish().unwrap();
        assert_eq!(outcome.status(), Some(1), "{other}");
        assert!(outcome.errors().contains("--dry-run"), "{other}: {}", outcome.errors());
        assert!(!sandbox.join("j").exists() && !sandbox.join("m").exists());
    }
}

/// Returns the events about entries, sorted, without their times.
fn events(ours: &CopyProgram, sandbox: &Sandbox, options: &str) -> Vec<String> {
    let line = format!("sync --events=events {options} s t");
    TestRun::new(ours.path()).args(line.split_whitespace()).in_folder(sandbox.path()).finish().unwrap();
    let text = std::fs::read_to_string(sandbox.join("events")).unwrap();
    let entries = text.lines().filter(|line| line.contains("\"event\":\"file\""));
    let mut entries: Vec<_> =
        entries.filter_map(|line| line.split_once("\"event\"").map(|(_, rest)| rest.to_owned())).collect();
    entries.sort_unstable();
    entries
}

#[test]
fn a_sync_has_the_events_of_its_dry_run() {
    let ours = program!();
    require!(ours.needs_haul());
    let names = ["a", "b", "d/c", "d/e"];
    for case in 0..if needs::is_full_run() { 2000 } else { 100 } {
        let mut random = seeded(20_261_128 + case);
        let sandbox = Sandbox::in_memory().unwrap();
        let mut script = "mkdir -p s/d t/d".to_owned();
        for name in names {
            script += &match random.random_range(0..4) {
                0 => String::new(),
                1 if name != "a" => format!("; test -e s/a && ln s/a s/{name}"),
                _ => format!("; echo {name} >s/{name}"),
            };
            script += &match random.random_range(0..6) {
                0 => format!("; mkdir -p t/{name}/in; touch t/{name}/x"),
                1 => format!("; mkdir t/{name}"),
                2 => format!("; echo other and longer >t/{name}"),
                3 => format!("; test -e s/{name} && cp -p s/{name} t/{name}"),
                4 if name != "a" => format!("; test -f t/a && ln t/a t/{name}"),
                _ => String::new(),
            };
        }
        sandbox.script(&format!("{script}; cp -a s m; echo m >m/b; true")).unwrap();
        let limit = ["", "--delete", "--delete", "--delete --max-delete=1"].choose(&mut random).unwrap();
        let earlier = ["", "--link-dest=../m"].choose(&mut random).unwrap();
        let options = format!("{limit} {earlier}");
        let foreseen = events(&ours, &sandbox, &format!("-n {options}"));
        let real = events(&ours, &sandbox, &options);
        assert_eq!(foreseen, real, "case {case}, {options}: {script}");
        let mut paths: Vec<_> = real.iter().filter_map(|line| line.split("\"path\":").nth(1)).collect();
        let count = paths.len();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), count, "case {case}, {options}: an entry has two events: {real:#?}");
    }
}
