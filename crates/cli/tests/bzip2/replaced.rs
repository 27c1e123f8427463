//! Root compresses a file in a directory whose owner exchanges the output for a private file
//! of root's.
//!
//! The private file must keep its mode, owner, times and contents. bzip2 itself sets them by name
//! after it closes the output, so it must fail at least once, or the race proves nothing.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use haul_testkit::flip::{Exchanger, FileState};
use haul_testkit::{Sandbox, needs, note, require};

use crate::scene::haul;

const ATTACKER: u32 = 4_242;

/// Maximum runs of bzip2 to see one fail.
const THEIR_RUNS_MAX: usize = 100;

/// Compresses once; returns how the private file changed, if it did.
fn run(target: &Path, program: &mut Command) -> Option<String> {
    fs::remove_dir_all(target).unwrap_or_default();
    fs::create_dir(target).unwrap();
    chown(target, Some(ATTACKER), Some(ATTACKER)).unwrap();
    let [private, input, output] = ["private", "entry", "entry.bz2"].map(|name| target.join(name));
    for (path, mode, owner) in [(&private, 0o600, 0), (&input, 0o666, ATTACKER)] {
        fs::write(path, "content").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        chown(path, Some(owner), Some(owner)).unwrap();
    }
    let before = FileState::of(&private).unwrap();
    let exchanger = Exchanger::start(&private, &output).unwrap();
    let status = program.args(["-k", "-f"]).arg(&input).output().unwrap().status;
    let exchanges = exchanger.stop();
    assert!(status.code().is_some(), "{status}");
    let after = before.find_again(target).unwrap();
    // -f deletes an existing output, so a file that the directory's owner puts there is his
    // own loss.
    (after.is_some() && after.as_ref() != Some(&before))
        .then(|| format!("{exchanges} exchanges: {before:?} {after:?}"))
}

/// bzip2, delayed by strace before it sets times.
fn held_bzip2() -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=utime,utimes,utimensat"]);
    command.args(["-e", "inject=utime,utimes,utimensat:delay_enter=3000", "--", "/usr/bin/bzip2"]);
    command
}

#[test]
fn what_takes_the_place_of_an_output_is_never_changed() {
    require!(needs::root(), needs::tool("bzip2"), needs::tool("strace"));
    let runs = needs::count_from("HAUL_RACE_RUNS", if needs::is_full_run() { 300 } else { 60 });
    let sandbox = Sandbox::in_memory().unwrap();
    let target = sandbox.join("target");
    for _ in 0..runs {
        assert_eq!(run(&target, Command::new(haul()).arg("bzip2")), None);
    }
    let theirs = (0..THEIR_RUNS_MAX).position(|_| run(&target, &mut held_bzip2()).is_some());
    note!("{runs} runs: nothing changed; bzip2 changed it in run {theirs:?}");
    assert!(theirs.is_some(), "bzip2 held: the race is too weak");
}
