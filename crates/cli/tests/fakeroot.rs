//! Runs under preloaded libraries that wrap the C library: `fakeroot`, `eatmydata`, `faketime`.
//!
//! Each session does the same work with GNU cp and with haul, then lists the result as seen
//! from inside.

#![allow(clippy::unwrap_used)]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use haul_testkit::program::ENGINES;
use haul_testkit::{CopyProgram, RunOutcome, Sandbox, TestRun, needs, program, require};

/// Builds a tree `s` with entries that only fakeroot lets an ordinary user create. `$@` is the
/// copy command.
const BUILD: &str = r#"
set -e
umask 022
mkdir -p s/d/e s/many
echo text >s/a; ln s/a s/a2; chown 7:8 s/a; chmod 4755 s/a
mkfifo s/fifo; chown 3:4 s/fifo; chmod 640 s/fifo
ln -s nowhere s/link; chown -h 9:10 s/link
chown 11:12 s/d; chmod 2775 s/d
mknod s/null c 1 3; chown 13:14 s/null; chmod 600 s/null; ln s/null s/null2
mknod s/disk b 8 1; mknod s/d/e/tty c 5 0
echo read >s/read; chmod 444 s/read; chown 1:2 s/read
echo none >s/none; chmod 0 s/none
setfattr -n user.kept -v 1 s/a; setfattr -n trusted.kept -v 2 s/d; setfattr -n security.kept -v 3 s/read
for n in $(seq 60); do echo $n >s/many/$n; chown $((n + 100)):$n s/many/$n; done
find s -exec touch -h -d @1000000000 {} +
times() { (cd "$1"; find . -mindepth 1 -printf '%p %U:%G %M %y %n %s %l %T@\n'; stat -c '%n %t,%T' * */*/* 2>/dev/null) | sort; }
facts() { (cd "$1"; find . -printf '%p %U:%G %M %y %n %s %l\n'; stat -c '%n %t,%T' * */*/*) | sort; }
attributes() { (cd "$1"; getfattr -R -h -d -m - . 2>&1 | grep -v '^$') | LC_ALL=C sort; }
set +e
"#;

/// Copies with every option that preserves attributes.
const COPIES: &str = r#"
"$@" -a s t; times t; attributes t
"$@" -r s u; facts u
"$@" -rp s v; times v
"$@" -r --preserve=mode,ownership s w; facts w
"$@" -r --preserve=all --no-preserve=ownership s x; times x; attributes x
mkdir y; "$@" -a --parents s/d/e y; times y
"$@" -al s z; facts z
chown 50:51 s/read s/null; "$@" -af s/null s/link t; "$@" -a --remove-destination s/read t; times t
"$@" -a --backup=numbered s/a t/read; times t
mkfifo q; touch -d @5 q; ln q t/q; mkdir z2; ln -s ../s/a z2/fifo; "$@" -af s/fifo s/disk s/read t; "$@" -a s/fifo s/null z2; times t; facts z2
"$@" -a --attributes-only s/read s/none; times s
touch f; chown 5:6 f; mknod n c 1 3; "$@" -a f g; "$@" -a n n2; stat -c '%n %u:%g %F' g n2
"$@" s/null u/null; "$@" -u s/a u/; facts u
"#;

/// Packs and unpacks with `$@`, and checks the result with GNU tar.
const ARCHIVES: &str = r#"
rm s/null2 # GNU tar keeps hard links of files and symbolic links only
"$@" -cf made.tar s; mkdir made kept plain same
tar -xpf made.tar -C made; times made/s
tar --sort=name -cf gnu.tar s
"$@" -xpf gnu.tar -C kept; times kept/s
"$@" -xf gnu.tar -C plain; facts plain/s
"$@" -xpf gnu.tar --no-same-owner -C same; facts same/s
"#;

/// Runs a script as an ordinary user in one fakeroot session, in an empty directory; `command`
/// becomes `$@`.
fn session(sandbox: &Sandbox, script: &str, command: &[&str]) -> RunOutcome {
    let folder = sandbox.join("work");
    haul_testkit::sandbox::remove_tree(&folder);
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
    let script = format!("{BUILD}{script}");
    let run =
        TestRun::new(Path::new("/usr/bin/fakeroot")).args(["bash", "-c", &script, "bash"]).args(command);
    let run = run.in_folder(&folder);
    let run = if needs::root().is_none() { run.as_nobody() } else { run };
    run.finish().unwrap()
}

/// Asserts that two sessions printed the same, naming the first line that differs.
fn same_words(found: &RunOutcome, expected: &RunOutcome, what: &str) {
    let (found, expected) = (words(found), words(expected));
    assert_eq!(found.1, expected.1, "{what}");
    for (number, (found, expected)) in found.0.lines().zip(expected.0.lines()).enumerate() {
        assert_eq!(found, expected, "{what}, line {number}");
    }
    assert_eq!(found.0.lines().count(), expected.0.lines().count(), "{what}");
}

/// Strips the program name from messages: it differs by design.
fn words(outcome: &RunOutcome) -> (String, String) {
    let bare = |line: &str| line.split_once(": ").map_or(line, |(_, rest)| rest).to_owned();
    let errors: Vec<_> = outcome.errors().lines().map(bare).collect();
    (outcome.printed(), errors.join("\n"))
}

fn needs_fakeroot() -> Option<String> {
    needs::tool("fakeroot").or_else(|| needs::tool("setfattr"))
}

#[test]
fn what_fakeroot_keeps_is_copied_as_by_gnu_cp() {
    require!(needs_fakeroot(), CopyProgram::needs_gnu());
    let sandbox = Sandbox::in_memory().unwrap();
    let program = program!().publish(sandbox.path()).unwrap();
    let haul = program.path().to_str().unwrap();
    let gnu = CopyProgram::gnu().unwrap();
    let expected = session(&sandbox, COPIES, &[gnu.path().to_str().unwrap()]);
    assert!(expected.printed().contains("g 5:6 regular empty file\nn2 0:0 character special file"));
    let mut commands = vec![vec![haul, "cp"], vec![haul, "cp", "-j8"]];
    commands.extend(ENGINES.map(|engine| vec![haul, "cp", engine]));
    for command in commands {
        let command = if program.is_haul() { &command[..] } else { &command[..1] };
        let outcome = session(&sandbox, COPIES, command);
        same_words(&outcome, &expected, &format!("{command:?}"));
    }
}

#[test]
fn what_fakeroot_keeps_is_archived_as_by_gnu_tar() {
    require!(needs_fakeroot(), needs::tool("tar"));
    let sandbox = Sandbox::in_memory().unwrap();
    let program = program!().publish(sandbox.path()).unwrap();
    require!(program.needs_haul());
    let expected = session(&sandbox, ARCHIVES, &["tar", "--sort=name"]);
    assert!(expected.printed().contains("./null 13:14"), "{}", expected.errors());
    let outcome = session(&sandbox, ARCHIVES, &[program.path().to_str().unwrap(), "tar"]);
    same_words(&outcome, &expected, "tar");
}

#[test]
fn a_preloaded_library_keeps_auto_from_the_ring_and_is_named() {
    require!(needs::tool("fakeroot"), program!().needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    std::fs::write(sandbox.join("f"), "text").unwrap();
    let debug = |wrapper: &[&str], options: &[&str]| {
        let program = program!();
        let (first, rest) = wrapper.split_first().unwrap();
        let run = TestRun::new(&needs::find_tool(first).unwrap()).args(rest).arg(program.path());
        let outcome = run.args(["cp", "--debug"]).args(options).args(["f", "g"]).in_folder(sandbox.path());
        let outcome = outcome.succeed().unwrap();
        outcome.printed() + &outcome.errors()
    };
    let words = debug(&["fakeroot"], &[]);
    assert!(words.contains("libfakeroot") && words.contains("not changing from sync to io-uring"), "{words}");
    let words = debug(&["fakeroot"], &["--engine=posix-aio"]);
    assert!(words.contains("it does not see the reads and writes of this engine"), "{words}");
    assert!(!debug(&["env"], &[]).contains("is preloaded"));
    for wrapper in [&["eatmydata"][..], &["faketime", "2010-01-01 00:00:00"]] {
        require!(needs::tool(wrapper[0]));
        assert!(debug(wrapper, &[]).contains("is preloaded"), "{wrapper:?}");
    }
}

/// Times faked by a library must match those that GNU cp sets.
#[test]
fn times_under_faketime_are_those_of_gnu_cp() {
    require!(needs::tool("faketime"), CopyProgram::needs_gnu());
    const SCRIPT: &str = r#"
        mkdir s s/d; echo text >s/f; mkfifo s/p; ln -s x s/l; find s -exec touch -h -d @1000000000 {} +
        now=$1; shift
        faketime -f "$now" "$@" -a s t; echo more >>s/f; touch -d @1100000000 s/f
        faketime -f "$now" "$@" -pu s/f t/; faketime -f "$now" "$@" -pu --backup=numbered s/f t/
        find t -printf '%p %T@ %s\n' | sort
    "#;
    let sandbox = Sandbox::in_memory().unwrap();
    let haul = program!();
    let gnu = CopyProgram::gnu().unwrap();
    for variable in ["NO_FAKE_STAT", "DONT_FAKE_MONOTONIC"] {
        for now in ["2010-01-01 00:00:00", "@2001-01-01 00:00:00", "+10d"] {
            let run = |command: &[&str]| {
                let folder = sandbox.join("work");
                haul_testkit::sandbox::remove_tree(&folder);
                std::fs::create_dir(&folder).unwrap();
                let run = TestRun::new(Path::new("/bin/sh")).args(["-ec", SCRIPT, "sh", now]).args(command);
                let outcome = run.env(variable, "1").in_folder(&folder).finish().unwrap();
                assert!(outcome.succeeded(), "{command:?}: {}", outcome.errors());
                outcome.printed()
            };
            let expected = run(&[gnu.path().to_str().unwrap()]);
            let command = [haul.path().to_str().unwrap(), "cp"];
            let words = if haul.is_haul() { 2 } else { 1 };
            assert_eq!(run(&command[..words]), expected, "{variable} {now}");
        }
    }
}

/// fakeroot's `mknodat` makes a file that anyone may read, whatever its mode is to be.
#[test]
fn files_without_data_are_as_closed_under_fakeroot_as_those_of_gnu_cp() {
    require!(needs_fakeroot(), CopyProgram::needs_gnu());
    const SCRIPT: &str = r#"
        mkdir m; for mode in 444 600 755 0 700; do echo x >m/$mode; chmod $mode m/$mode; done
        "$@" --attributes-only -r m n
    "#;
    let sandbox = Sandbox::in_memory().unwrap();
    let program = program!().publish(sandbox.path()).unwrap();
    let (ours, gnu) = (program.path().to_str().unwrap(), CopyProgram::gnu().unwrap());
    let modes = |command: &[&str]| {
        let outcome = session(&sandbox, SCRIPT, command);
        assert!(outcome.succeeded(), "{}", outcome.errors());
        // From outside: the modes that the kernel knows.
        ["444", "600", "755", "0", "700"].map(|name| {
            let made = std::fs::symlink_metadata(sandbox.join("work/n").join(name)).unwrap();
            format!("{:o}", made.permissions().mode())
        })
    };
    let command = if program.is_haul() { vec![ours, "cp"] } else { vec![ours] };
    assert_eq!(modes(&command), modes(&[gnu.path().to_str().unwrap()]));
}
