//! Root copies into a directory whose owner exchanges each new entry for a private one of root's.
//!
//! The owner of a directory may rename its entries, whoever owns them. So the attacker loops
//! `renameat2(RENAME_EXCHANGE)` between a private entry of root's and the name that root is about
//! to create. Metadata that root then sets by name lands on the private entry: it is given away, or
//! opened up. Nothing that this run didn't create may change, whatever the kind of entry and the
//! engine. Each test runs GNU cp in the same race, which must fail at least once, or the race
//! proves nothing.
//!
//! Each kind runs with every engine, at natural speed and with a pause after the call that creates
//! the entry (strace delays it), in which the exchange is certain to happen. `HAUL_RACE_RUNS` sets
//! the number of runs of each kind at natural speed (300; with `HAUL_FULL=1`, per engine).

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, lchown};
use std::path::Path;

use haul_testkit::flip::{Exchanger, FileState};
use haul_testkit::rustix::fs::{
    AtFlags, CWD, FileType, Mode, Timespec, Timestamps, makedev, mknodat, utimensat,
};
use haul_testkit::sandbox::remove_tree;
use haul_testkit::{CopyProgram, Sandbox, needs, note, program, require};

const ENGINES: [&str; 5] = ["sync", "io-uring", "posix-aio", "kernel-aio", "retry"];

/// User who owns the target directory and the source's entries.
const ATTACKER: u32 = 4_242;

/// A kind of entry: how to create it and root's private one, and what root runs.
#[derive(Clone, Copy)]
struct Attack {
    name: &'static str,
    make: fn(&Path),
    mode: u32,
    private_mode: u32,
    options: &'static [&'static str],
    source: &'static str,
    /// System call after which strace pauses.
    call: &'static str,
    further_names: usize,
    gnu_fails: bool,
}

fn node(path: &Path, kind: FileType, device: u64) {
    mknodat(CWD, path, kind, Mode::from_raw_mode(0o600), device).unwrap();
}

const FIFO: Attack = Attack {
    name: "FIFO",
    make: |path| node(path, FileType::Fifo, 0),
    mode: 0o666,
    private_mode: 0o600,
    options: &["-a"],
    source: "source/.",
    call: "mknodat",
    further_names: 0,
    gnu_fails: true,
};
const SOCKET: Attack = Attack { name: "socket", make: |path| node(path, FileType::Socket, 0), ..FIFO };
const DEVICE: Attack =
    Attack { name: "device", make: |path| node(path, FileType::CharacterDevice, makedev(1, 3)), ..FIFO };
const LINK: Attack = Attack {
    name: "link",
    make: |path| std::os::unix::fs::symlink("nowhere", path).unwrap(),
    mode: 0,
    private_mode: 0,
    call: "symlinkat",
    ..FIFO
};
const DIRECTORY: Attack = Attack {
    name: "directory",
    make: |path| fs::create_dir(path).unwrap(),
    mode: 0o777,
    private_mode: 0o700,
    call: "mkdirat",
    ..FIFO
};
const MODE_ONLY: Attack = Attack { name: "FIFO, mode only", options: &["-r", "--preserve=mode"], ..FIFO };
const TIMES_OF_LINK: Attack =
    Attack { name: "link, times only", options: &["-r", "--preserve=timestamps"], ..LINK };
const PARENT: Attack = Attack {
    name: "directory of --parents",
    options: &["-a", "--parents"],
    source: "./entry/below",
    ..DIRECTORY
};
const EMPTY_FILE: Attack = Attack {
    name: "file without data",
    make: |path| fs::write(path, "").unwrap(),
    options: &["-a", "--attributes-only"],
    call: "openat",
    // GNU cp sets everything through the descriptor that created the file.
    gnu_fails: false,
    ..FIFO
};
const HARD_LINKS: Attack = Attack {
    name: "file with several names",
    make: |path| fs::write(path, "content").unwrap(),
    call: "linkat",
    further_names: 30,
    ..FIFO
};
const REPLACED_LINK: Attack =
    Attack { name: "replaced link", options: &["-a", "--remove-destination"], ..LINK };
const BACKED_UP_FIFO: Attack =
    Attack { name: "backed up FIFO", options: &["-a", "--backup=numbered"], ..FIFO };

impl Attack {
    fn build(&self, root: &Path) {
        let (source, target) = (root.join("source"), root.join("target"));
        fs::create_dir_all(&source).unwrap();
        self.make_as(&source.join("entry"), self.mode, ATTACKER);
        for number in 0..self.further_names {
            fs::hard_link(source.join("entry"), source.join(format!("further-{number}"))).unwrap();
        }
        if self.further_names > 0 {
            // tmpfs lists the newest name first, and the other names are linked to the first
            // one listed.
            fs::remove_file(source.join("entry")).unwrap();
            fs::hard_link(source.join("further-0"), source.join("entry")).unwrap();
        }
        let old = Timespec { tv_sec: 1_000_000_000, tv_nsec: 0 };
        let times = Timestamps { last_access: old, last_modification: old };
        utimensat(CWD, source.join("entry"), &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
        if self.source.contains("below") {
            fs::write(source.join("entry/below"), "content").unwrap();
        }
        fs::create_dir(&target).unwrap();
        chown(&target, Some(ATTACKER), Some(ATTACKER)).unwrap();
        self.make_as(&target.join("private"), self.private_mode, 0);
        if ["--remove-destination", "--backup=numbered"].iter().any(|flag| self.options.contains(flag)) {
            self.make_as(&target.join("entry"), self.mode, ATTACKER);
        }
    }

    fn make_as(&self, path: &Path, mode: u32, owner: u32) {
        (self.make)(path);
        lchown(path, Some(owner), Some(owner)).unwrap();
        if mode != 0 {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
    }

    /// Runs one copy while the names are exchanged. Returns how root's private entry changed, if it
    /// did, and the number of exchanges.
    fn run_once(
        &self,
        program: &CopyProgram,
        own: &[&str],
        held: bool,
        root: &Path,
    ) -> (Option<String>, u64) {
        remove_tree(root);
        self.build(root);
        let target = root.join("target");
        let (private, entry) = (target.join("private"), target.join("entry"));
        let before = FileState::of(&private).unwrap();
        let mut run = program.run_with(own).args(self.options).args([self.source, "../target"]);
        run = run.in_folder(&root.join("source"));
        if self.source == "source/." {
            run = program.run_with(own).args(self.options).args(["source/.", "target"]).in_folder(root);
        }
        if held {
            let strace = needs::find_tool("strace").unwrap();
            let inject = format!("inject={}:delay_exit=3000", self.call);
            let log = root.join("log");
            let trace = format!("trace={}", self.call);
            let head = ["-f", "-qq", "-e", &trace, "-e", &inject, "-o", log.to_str().unwrap(), "--"];
            run = run.behind(&strace, head.map(OsString::from).into());
        }
        let exchanger = Exchanger::start(&private, &entry).unwrap();
        let outcome = run.finish().unwrap();
        let hits = exchanger.stop();
        assert!(!outcome.crashed(), "{} {own:?}: {:?} {}", self.name, outcome.ending, outcome.errors());
        let after = before.find_again(&target).unwrap();
        let failure = match after {
            Some(after) if after == before => None,
            Some(after) => Some(format!("{before:?} became {after:?}")),
            // An entry that the directory's owner puts in place of one to be removed is his
            // own loss.
            None if self.options.contains(&"--remove-destination") => None,
            None => Some("it is gone".to_owned()),
        };
        (failure, hits)
    }

    fn hold(&self) {
        require!(needs::root(), CopyProgram::needs_gnu());
        let (ours, gnu) = (program!(), CopyProgram::gnu().unwrap());
        let sandbox = Sandbox::in_memory().unwrap();
        let root = sandbox.join("root");
        let runs = needs::count_from("HAUL_RACE_RUNS", 300);
        let each = if needs::is_full_run() { runs } else { runs.div_ceil(ENGINES.len()) };
        let (mut failures, mut hits) = (Vec::new(), 0);
        for engine in ENGINES.map(|engine| format!("--engine={engine}")) {
            for jobs in (0..each).map(|index| if index % 2 == 0 { "-j1" } else { "-j4" }) {
                let (failure, swapped) = self.run_once(&ours, &[&engine, jobs], false, &root);
                failures.extend(failure.map(|failure| format!("{engine} {jobs}: {failure}")));
                hits += swapped;
            }
        }
        let held = needs::tool("strace").is_none();
        for engine in ENGINES.map(|engine| format!("--engine={engine}")).iter().filter(|_| held) {
            let (failure, swapped) = self.run_once(&ours, &[engine], true, &root);
            failures.extend(failure.map(|failure| format!("{engine}, held: {failure}")));
            hits += swapped;
        }
        let mut gnu_failures = 0;
        for index in 0..runs {
            let (failure, _) = self.run_once(&gnu, &[], held && index % 4 == 0, &root);
            gnu_failures += usize::from(failure.is_some());
            if gnu_failures >= 3 {
                break;
            }
        }
        let tried = each * ENGINES.len();
        note!(
            "{}: {tried} runs: {} changed; {hits} exchanges; GNU cp: {gnu_failures}",
            self.name,
            failures.len()
        );
        assert!(hits > 0, "the race did not run");
        assert!(gnu_failures > 0 || !self.gnu_fails, "GNU cp held: the race is too weak");
        if ours.is_haul() {
            assert!(failures.is_empty(), "{}: {}", self.name, failures.join("\n"));
        }
    }
}

macro_rules! attacks {
    ($($test:ident: $attack:ident;)+) => {
        $(#[test]
        fn $test() {
            $attack.hold();
        })+
    };
}

attacks! {
    a_new_fifo_exchanged: FIFO;
    a_new_socket_exchanged: SOCKET;
    a_new_device_exchanged: DEVICE;
    a_new_link_exchanged: LINK;
    a_new_directory_exchanged: DIRECTORY;
    a_new_fifo_that_gets_its_mode_exchanged: MODE_ONLY;
    a_new_link_that_gets_its_times_exchanged: TIMES_OF_LINK;
    a_new_parent_directory_exchanged: PARENT;
    a_new_file_without_data_exchanged: EMPTY_FILE;
    a_file_with_several_names_exchanged: HARD_LINKS;
    a_link_made_anew_exchanged: REPLACED_LINK;
    a_fifo_made_beside_its_backup_exchanged: BACKED_UP_FIFO;
}
