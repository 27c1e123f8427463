//! `--events`: every line has the form that docs/events.schema.json says, and the lines add up to
//! what `--stats=json` prints. Whatever happens to them, the copy is made. `--log-file` has what
//! the user reads.

#![allow(clippy::unwrap_used, clippy::panic)]

mod scene;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use haul_testkit::mpi::Mpi;
use haul_testkit::{needs, require, skip};
use scene::Scene;
use serde_json::Value;

/// Validates the lines of the files that are named, after the schema.
const VALIDATOR: &str = "
import json, sys
from jsonschema import Draft202012Validator as Validator
schema = json.load(open(sys.argv[1]))
Validator.check_schema(schema)
validator = Validator(schema)
for path in sys.argv[2:]:
    for line in open(path, 'rb').read().splitlines(keepends=True):
        assert line.endswith(b'\\n'), line
        validator.validate(json.loads(line))
";

const TREE: &str = "
    mkdir -p s/d s/e t; echo a >s/a; ln s/a s/b; ln -s a s/link; mkfifo s/d/pipe; echo x >s/d/x
    head -c 3000000 /dev/zero >s/large; echo odd >$'s/odd\\n\\xff'; echo old >s/kept; echo new >t/kept
    ln -s nowhere s/e/dangling";

fn events(scene: &Scene, file: &str) -> Vec<Value> {
    let text = fs::read_to_string(scene.path().join(file)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn word<'a>(event: &'a Value, key: &str) -> &'a str {
    event[key].as_str().unwrap_or_default()
}

/// Checks that events add up to the statistics in the last of them, and these are those printed.
fn check_counts(events: &[Value], printed: &str, line: &str) {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for event in events {
        let count = match (word(event, "event"), word(event, "status"), word(event, "type")) {
            ("file", "done", "directory") => "directories",
            ("file", "done", "file") => "files",
            ("file", "done", "symlink") => "symlinks",
            ("file", "done", "special") => "specials",
            ("file", "done", "hard_link") => "hard_links",
            ("file", status, _) => status,
            ("warning" | "error", ..) => "problems",
            _ => continue,
        };
        *counts.entry(count.to_owned()).or_default() += 1;
    }
    let statistics = &events.last().unwrap()["statistics"];
    assert_eq!(*statistics, serde_json::from_str::<Value>(printed.lines().last().unwrap()).unwrap());
    for name in [
        "files",
        "directories",
        "symlinks",
        "specials",
        "hard_links",
        "skipped",
        "unchanged",
        "mended",
        "verified",
        "deleted",
        "problems",
    ] {
        let counted = counts.get(name).copied().unwrap_or_default();
        assert_eq!(Some(counted), statistics[name].as_u64(), "{name}: {line}: {events:#?}");
    }
}

/// Runs a command line with events, and checks them. Returns them.
fn follow(scene: &Scene, line: &str, ranks: &[String]) -> Vec<Value> {
    fs::remove_file(scene.path().join("events")).unwrap_or_default();
    let (command, rest) = line.split_once(' ').unwrap();
    let own = [command, "--events=events", "--stats=json"]
        .map(str::to_owned)
        .into_iter()
        .chain(ranks.iter().cloned());
    let words = own.chain(rest.split(' ').map(str::to_owned));
    let run = scene.run(&scene::haul(), words);
    let outcome = match Mpi::installed().into_iter().next().filter(|_| !ranks.is_empty()) {
        Some(mpi) => mpi.with(run).finish().unwrap(),
        None => run.finish().unwrap(),
    };
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/events.schema.json");
    let words = ["-c", VALIDATOR, schema.to_str().unwrap(), "events"];
    let validated = scene.run(Path::new("python3"), words).finish().unwrap();
    assert!(validated.succeeded(), "{line}: {}", validated.errors());
    let events = events(scene, "events");
    assert_eq!(word(&events[0], "event"), "start", "{line}");
    let end = events.last().unwrap();
    assert_eq!(end["status"].as_i64(), outcome.status().map(i64::from), "{line}: {}", outcome.errors());
    check_counts(&events, &outcome.printed(), line);
    events
}

/// Returns the paths of the events with a status, sorted.
fn paths<'a>(events: &'a [Value], status: &str) -> Vec<&'a str> {
    let with_status = events.iter().filter(|event| word(event, "status") == status);
    let mut paths: Vec<_> = with_status.map(|event| word(event, "path")).collect();
    paths.sort_unstable();
    paths
}

#[test]
fn every_line_fits_the_schema_and_all_add_up_to_the_statistics() {
    require!(needs::python_module("jsonschema"));
    let scene = Scene::of(TREE);
    let copied = follow(&scene, "cp -aT --verify --update=none s t", &[]);
    assert_eq!(paths(&copied, "skipped"), ["s/kept"]);
    let odd = copied.iter().find(|event| event["path_b64"] != Value::Null).unwrap();
    assert_eq!((word(odd, "path_b64"), word(odd, "target_b64")), ("cy9vZGQK/w==", "dC9vZGQK/w=="));
    let large =
        copied.iter().find(|event| word(event, "target") == "t/large" && event["bytes"] != Value::Null);
    assert_eq!(large.unwrap()["bytes"], 3_000_000);
    scene.script("rm s/d/x; mkdir t/extra; echo 1 >t/extra/file; chmod 600 s/large; echo more >>s/a");
    let synced = follow(&scene, "sync --delete s t", &[]);
    assert_eq!(paths(&synced, "deleted"), ["t/d/x", "t/extra", "t/extra/file"]);
    assert_eq!(paths(&synced, "mended"), ["s/large"]);
    for line in
        ["cp -r missing s/link s/a other", "cp -aT s t/a", "cp s", "cp -rL s followed", "cp -n s/a t/a"]
    {
        follow(&scene, line, &[]);
    }
    let failed = follow(&scene, "cp missing t", &[]);
    let error = &failed[1];
    assert_eq!((word(error, "kind"), word(error, "path")), ("cannot-stat", "missing"));
    assert_eq!((word(error, "call"), error["errno"].as_i64()), ("statx", Some(2)));
}

#[test]
fn other_commands_have_events_too() {
    require!(needs::python_module("jsonschema"));
    let scene = Scene::of(TREE);
    scene.script("rm s/d/pipe; cp -a s u; echo more >>u/large; mkdir out");
    for line in [
        "cmp s u",
        "sum s",
        "tar -cf a.tar s",
        "tar -xf a.tar -C out",
        "grep -r a s",
        "each s -- true",
        "bzip2 -k s/d/x",
    ] {
        let events = follow(&scene, line, &[]);
        assert!(!paths(&events, "done").is_empty(), "{line}");
    }
}

/// Runs a command line, and checks that these files failed: each has an error and isn't done.
fn check_failed(scene: &Scene, line: &str, (done, failed): (&[&str], &[&str])) {
    let events = follow(scene, line, &[]);
    assert_eq!(paths(&events, "done"), done, "{line}: {events:#?}");
    let errors = events.iter().filter(|event| word(event, "event") == "error");
    let mut errors: Vec<_> = errors.map(|event| word(event, "path")).collect();
    errors.sort_unstable();
    assert_eq!(errors, failed, "{line}: {events:#?}");
    assert_ne!(events.last().unwrap()["status"], 0, "{line}");
}

const FAILING: [(&str, &[&str], &[&str]); 12] = [
    ("sum -c S", &["q/a"], &["q/b", "q/gone"]),
    ("sum -c --status S", &["q/a"], &["q/b", "q/gone"]),
    ("sum -c --ignore-missing S", &["q/a"], &["q/b"]),
    ("each q -- test {/} = a", &["q/a"], &["q/b"]),
    ("each --batch=2 q -- false", &[], &["q/a", "q/b"]),
    ("each --block=1k q -- grep -q one", &["q/a"], &["q/b"]),
    ("each q -- /dev/null", &[], &["/dev/null"]),
    ("grep -s one q/a missing", &["q/a"], &["missing"]),
    ("cmp -L u v", &["u", "u/a"], &["v/b"]),
    ("bzip2 -tv q/a.bz2 q/bad.bz2", &["q/a.bz2"], &["q/bad.bz2"]),
    ("bzip2 -tq q/a.bz2 q/a", &["q/a.bz2"], &["q/a"]),
    ("bzip2 -d q/bad.bz2", &[], &["q/bad.bz2"]),
];

#[test]
fn what_failed_has_an_error_and_is_not_done() {
    require!(needs::python_module("jsonschema"));
    let scene = Scene::of(
        "mkdir q; echo one >q/a; echo two >q/b; echo x >q/gone; $HAUL sum q >S; rm q/gone; echo twx >q/b
        mkdir u v; echo 1 | tee u/a u/b >v/a; ln -s b v/b",
    );
    for (line, done, failed) in FAILING {
        if line.starts_with("bzip2") {
            scene.script("$HAUL bzip2 -kf q/a; head -c 20 q/a.bz2 >q/bad.bz2");
        }
        check_failed(&scene, line, (done, failed));
    }
}

#[test]
fn ranks_report_what_one_process_reports() {
    require!(needs::python_module("jsonschema"));
    let Some(mpi) = Mpi::installed().into_iter().next() else { skip!("needs an MPI installation") };
    let scene = Scene::of(TREE);
    let sorted = |events: &[Value]| {
        let members = ["status", "type", "path", "target", "path_b64", "bytes"];
        let of_files = events.iter().filter(|event| word(event, "event") == "file");
        let mut lines: Vec<_> =
            of_files.map(|event| members.map(|member| event[member].to_string())).collect();
        lines.sort_unstable();
        lines
    };
    let commands = ["cp -rT --preserve=mode s out", "sync --delete s t", "cp -rT s/missing out"];
    for line in commands {
        let restore = "rm -rf out t; mkdir t; echo new >t/kept; mkdir t/extra; rm -f s/b";
        scene.script(restore);
        let alone = sorted(&follow(&scene, line, &[]));
        scene.script(restore);
        let own = mpi.options(2);
        assert_eq!(sorted(&follow(&scene, line, &own)), alone, "{line}");
    }
}

#[test]
fn a_lost_reader_or_a_full_disk_changes_the_exit_status_only() {
    let scene = Scene::of("mkdir s; for n in $(seq 500); do echo $n >s/$n; done");
    for (line, why) in [
        ("$HAUL sync --delete --events=/dev/full s t", "events: No space left on device"),
        ("$HAUL sync --delete --log-file=/dev/full s t", "to '/dev/full': No space left on device"),
        ("$HAUL sync --delete --events=fd:5 s t 5>&1 >out", "events: Broken pipe"),
        ("$HAUL grep -r 1 s --events=fd:5 5>&1 >out", "events: Broken pipe"),
    ] {
        scene.script("rm -rf t; mkdir -p t/extra");
        let shell = scene.run(Path::new("/bin/bash"), ["-c", line]).env("HAUL", scene::haul());
        let outcome = shell.stdout_to_broken_pipe().finish().unwrap();
        let is_copy = line.contains("sync");
        assert_eq!(outcome.status(), Some(if is_copy { 1 } else { 2 }), "{line}: {}", outcome.errors());
        assert_eq!(outcome.errors().matches("cannot write ").count(), 1, "{line}: {}", outcome.errors());
        assert!(outcome.errors().contains(why), "{line}: {}", outcome.errors());
        if is_copy {
            scene.script("diff -r s t");
        }
    }
}

#[test]
fn a_slow_reader_gets_everything() {
    require!(needs::tool("python3"));
    let scene = Scene::of("mkdir s; for n in $(seq 3000); do echo $n >s/$n; done; mkfifo pipe");
    // The descriptor doesn't block, and a pipe holds less than there is to say.
    scene.script(
        "python3 -c '
import fcntl, os, subprocess, sys
reader, writer = os.pipe()
fcntl.fcntl(writer, fcntl.F_SETFL, os.O_NONBLOCK)
os.set_inheritable(writer, True)
command = [os.environ[\"HAUL\"], \"cp\", \"-r\", \"--events=fd:%d\" % writer, \"s\", \"t\"]
child = subprocess.Popen(command, pass_fds=[writer])
os.close(writer)
lines = open(reader).read().splitlines()
assert child.wait() == 0
assert len(lines) == 3003, len(lines)
'; diff -r s t",
    );
}

#[test]
fn what_cannot_be_written_to_is_refused_before_anything_is_done() {
    let scene = Scene::of("echo data >a; mkdir d");
    for (line, told) in [
        ("--events=a a b", "cannot write events to 'a': it is also an operand"),
        ("--log-file=a a b", "cannot write the log to 'a': it is also an operand"),
        ("--events=d a b", "cannot write events to 'd': Is a directory"),
        ("--events=no/file a b", "cannot write events to 'no/file': No such file or directory"),
        ("--events=e --log-file=e a b", "--events and --log-file name the same file"),
        ("--events=fd:9 a b", "invalid argument 'fd:9' for '--events'"),
        ("--events=fd:9 a b 9<a", "invalid argument 'fd:9' for '--events'"),
        ("--events=fd:1 a b", "invalid argument 'fd:1' for '--events'"),
        ("--events=fd:-1 a b", "invalid argument 'fd:-1' for '--events'"),
    ] {
        let outcome = scene.shell(&format!("LC_ALL=C $HAUL cp {line}"));
        assert_eq!(outcome.status(), Some(1), "{line}");
        assert!(outcome.errors().starts_with(&format!("haul cp: {told}")), "{line}: {}", outcome.errors());
        assert_eq!(scene.script("cat a; ls"), scene.script("echo data; ls"), "{line}");
        assert!(!scene.path().join("b").exists(), "{line}");
    }
}

#[test]
fn a_mirror_keeps_the_files_that_it_writes() {
    let scene = Scene::of("mkdir s t; echo 1 >s/1; echo x >t/x");
    scene.script("$HAUL sync --delete --events=t/events --log-file=t/log s t; ls t >names");
    assert_eq!(fs::read_to_string(scene.path().join("names")).unwrap(), "1\nevents\nlog\n");
    assert_eq!(word(events(&scene, "t/events").last().unwrap(), "event"), "end");
}

#[test]
fn a_log_has_the_messages_with_the_time() {
    let scene = Scene::of("echo data >a");
    for _ in 0..2 {
        let outcome = scene.shell("$HAUL cp -v --log-file=log a missing .//b");
        assert_eq!(outcome.status(), Some(1));
        scene.script("$HAUL cp -v --log-file=log a b");
    }
    let text = fs::read_to_string(scene.path().join("log")).unwrap();
    let lines: Vec<_> = text.lines().map(|line| line.split_once("Z ").unwrap()).collect();
    let told: Vec<_> = lines.iter().map(|(_, text)| *text).collect();
    assert!(lines.iter().all(|(time, _)| time.len() == "2001-09-09T01:46:40".len()), "{text}");
    assert!(told[0].starts_with("started: ") && told[0].contains(" cp -v "), "{text}");
    let second = told.iter().position(|line| *line == "'a' -> 'b'").unwrap();
    assert!(told[second + 1].starts_with("finished: exit status: 0, files: 1, bytes: 5, "), "{text}");
    assert!(told[1..second].iter().any(|line| line.starts_with("haul cp: ")), "{text}");
    assert!(told[..second].iter().any(|line| line.starts_with("finished: exit status: 1, ")), "{text}");
}

/// A warning about an option comes up before the run begins.
#[test]
fn the_logs_of_a_sync_have_its_first_warnings() {
    let scene = Scene::of("mkdir s; echo data >s/a");
    let line = "$HAUL sync --link-dest=../none --log-file=log --events=events s t";
    let outcome = scene.shell(line);
    let warning = "haul sync: warning: --link-dest: ";
    assert!(outcome.succeeded() && outcome.errors().matches(warning).count() == 1, "{}", outcome.errors());
    assert!(fs::read_to_string(scene.path().join("log")).unwrap().contains(warning));
    let warned = events(&scene, "events").iter().filter(|event| word(event, "event") == "warning").count();
    assert_eq!(warned, 1);
}
