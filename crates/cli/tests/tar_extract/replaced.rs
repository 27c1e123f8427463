//! Root extracts into a directory whose owner exchanges each new entry for a private one of root's.
//!
//! The owner of a directory may rename its entries, whoever owns them. Nothing that the run didn't
//! create may change, whatever the kind of member. An exchange noticed in time is reported and sets
//! exit status 2. GNU tar runs in the same races and must fail in one, or they prove nothing.
//!
//! `HAUL_RACE_RUNS` sets the number of runs of each kind (20, with `HAUL_FULL=1` 300).

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use haul_testkit::flip::{Exchanger, FileState};
use haul_testkit::{Sandbox, needs, note, require, skip};

use crate::archive::{Archive, Header};
use crate::built;

const ATTACKER: u32 = 4_242;

/// Maximum runs of GNU tar to see one fail.
const GNU_RUNS_MAX: usize = 2_000;

/// A kind of member, and root's private entry of the same kind.
struct Attack {
    name: &'static str,
    kind: u8,
    mode: &'static [u8],
    private: fn(&Path),
}

const ATTACKS: [Attack; 6] = [
    Attack { name: "FIFO", kind: b'6', mode: b"0000666", private: |path| node(path, &["p"]) },
    Attack { name: "device", kind: b'3', mode: b"0000666", private: |path| node(path, &["c", "1", "3"]) },
    Attack { name: "link", kind: b'2', mode: b"0000777", private: |path| symlink("nowhere", path).unwrap() },
    Attack { name: "directory", kind: b'5', mode: b"0000777", private: private_directory },
    // Not in the archive, but created as the parent of its members.
    Attack { name: "directory on the way", kind: b'd', mode: b"0000777", private: private_directory },
    // The archive also has hard links to this file.
    Attack { name: "file", kind: b'0', mode: b"0000666", private: private_file },
];

fn node(path: &Path, what: &[&str]) {
    assert!(Command::new("mknod").args(["-m", "600"]).arg(path).args(what).status().unwrap().success());
}

fn private_directory(path: &Path) {
    fs::create_dir(path).unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(0o700)).unwrap();
}

fn private_file(path: &Path) {
    fs::write(path, "private").unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
}

impl Attack {
    fn archive(&self) -> Vec<u8> {
        let member = |archive: Archive, name: &str, kind: u8, content: &[u8]| {
            let header = Header::new(name, kind, content.len() as u64).mode(self.mode).link("elsewhere");
            let header = if kind == b'1' { header.link("entry") } else { header };
            archive.raw(&header, content, |block| {
                // Owner, group and device numbers.
                block[108..115].copy_from_slice(b"0010222");
                block[116..123].copy_from_slice(b"0010222");
                block[329..336].copy_from_slice(b"0000001");
                block[337..344].copy_from_slice(b"0000003");
            })
        };
        let mut archive = Archive::new();
        if self.kind != b'd' {
            archive = member(archive, "entry", self.kind, b"");
        }
        for number in 0..20 {
            archive = match self.kind {
                b'5' | b'd' => member(archive, &format!("entry/{number}"), b'0', b"content"),
                b'0' => member(archive, &format!("link-{number}"), b'1', b""),
                _ => archive,
            };
        }
        archive.end()
    }
}

/// Extracts once; returns how the private entry changed, if it did, and whether the
/// program refused.
fn run(sandbox: &Sandbox, attack: &Attack, ours: bool) -> (Option<String>, bool) {
    let target = sandbox.join("target");
    fs::remove_dir_all(&target).unwrap_or_default();
    fs::create_dir(&target).unwrap();
    chown(&target, Some(ATTACKER), Some(ATTACKER)).unwrap();
    let names = [target.join("private"), target.join("entry")];
    (attack.private)(&names[0]);
    let before = FileState::of(&names[0]).unwrap();
    let exchanger = Exchanger::start(&names[0], &names[1]).unwrap();
    let mut command = if ours { Command::new(built()) } else { Command::new("tar") };
    command.args(ours.then_some("tar")).args(["-x", "-f"]).arg(sandbox.join("archive"));
    let output = command.arg("-C").arg(&target).env("LC_ALL", "C").output().unwrap();
    let swaps = exchanger.stop();
    let after = before.find_again(&target).unwrap();
    let changed = (after.as_ref() != Some(&before)).then(|| format!("{before:?} {after:?}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    let refused = errors.contains("Replaced while it was being extracted");
    if ours {
        assert_eq!(output.status.code(), Some(if errors.is_empty() { 0 } else { 2 }), "{errors}");
    }
    (changed, refused && swaps > 0)
}

#[test]
fn what_the_run_did_not_make_is_never_changed() {
    require!(needs::root());
    let runs = needs::count_from("HAUL_RACE_RUNS", if needs::is_full_run() { 300 } else { 20 });
    let sandbox = Sandbox::in_memory().unwrap();
    let mut theirs = 0;
    for attack in &ATTACKS {
        fs::write(sandbox.join("archive"), attack.archive()).unwrap();
        let mut refused = 0;
        for _ in 0..runs {
            let (changed, was_refused) = run(&sandbox, attack, true);
            assert_eq!(changed, None, "{}", attack.name);
            refused += usize::from(was_refused);
        }
        let failed = (0..runs).filter(|_| run(&sandbox, attack, false).0.is_some()).count();
        note!("{}: refused in {refused} of {runs} runs; GNU tar changed it in {failed}", attack.name);
        theirs += failed;
    }
    fs::write(sandbox.join("archive"), ATTACKS[0].archive()).unwrap();
    if theirs == 0 && !(0..GNU_RUNS_MAX).any(|_| run(&sandbox, &ATTACKS[0], false).0.is_some()) {
        skip!("GNU tar was never interrupted in {GNU_RUNS_MAX} runs, so the race proves nothing");
    }
}
