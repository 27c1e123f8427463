//! Hard links to a file while names come and go, and to a target that has links of its own.
//!
//! Where names change, the run is stopped without a race. One operand is a FIFO that is read
//! (`--copy-contents`), and `-i` makes the program copy the operands in order. While it waits for
//! the FIFO's writer, the test changes the source or target.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::time::Duration;

use haul_testkit::aliases;
use haul_testkit::duel::{Complaint, Duel};
use haul_testkit::mount::Mount;
use haul_testkit::random::{self, IndexedRandom, Random, Rng, seeded};
use haul_testkit::{CopyProgram, RunOutcome, Sandbox, needs, program, require, skip};

const BOUND: Duration = Duration::from_secs(20);

/// Copies `a`, a FIFO and `late` from `s` to `t`, calling `meanwhile` after the first and before
/// the last.
fn copy(program: &CopyProgram, engine: &str, folder: &Path, meanwhile: impl FnOnce()) -> RunOutcome {
    let run = if program.is_haul() { program.run().arg(engine) } else { program.run() };
    let words = ["-i", "-R", "--preserve=links", "--copy-contents", "s/a", "s/fifo", "s/late", "t"];
    let running = run.args(words).in_folder(folder).within(BOUND).start().unwrap();
    // Blocks until the program has opened the other end, hence after it copied `a`.
    let mut fifo = OpenOptions::new().write(true).open(folder.join("s/fifo")).unwrap();
    meanwhile();
    fifo.write_all(b"go on").unwrap();
    drop(fifo);
    running.finish().unwrap()
}

fn prepare(folder: &Path) {
    fs::create_dir(folder).unwrap();
    fs::create_dir(folder.join("s")).unwrap();
    fs::create_dir(folder.join("t")).unwrap();
    fs::write(folder.join("s/a"), "FIRST").unwrap();
    fs::hard_link(folder.join("s/a"), folder.join("s/b")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(folder.join("s/fifo")).status().unwrap();
    assert!(made.success());
}

/// Deletes both names of a file and creates files until one reuses its inode; returns false if
/// none does.
fn reuse_inode(folder: &Path) -> bool {
    let inode = fs::metadata(folder.join("s/a")).unwrap().ino();
    fs::remove_file(folder.join("s/a")).unwrap();
    fs::remove_file(folder.join("s/b")).unwrap();
    for number in 0..1000 {
        let path = folder.join(format!("s/try-{number}"));
        let mut file = File::create_new(&path).unwrap();
        file.write_all(b"SECOND").unwrap();
        if file.metadata().unwrap().ino() == inode {
            fs::rename(&path, folder.join("s/late")).unwrap();
            fs::hard_link(folder.join("s/late"), folder.join("s/late-too")).unwrap();
            return true;
        }
    }
    false
}

/// Name and action of a change to the first copy.
type Replacement = (&'static str, fn(&Path));

#[test]
fn a_file_with_the_inode_of_a_deleted_one_is_copied() {
    require!(needs::loop_mount("ext4"));
    let ours = program!();
    let disk = Mount::image("ext4", 32 << 20).unwrap();
    for engine in ["--engine=sync", "--engine=io-uring"] {
        let folder = disk.join(engine);
        prepare(&folder);
        let mut reused = false;
        let outcome = copy(&ours, engine, &folder, || reused = reuse_inode(&folder));
        if !reused {
            skip!("ext4 gave no new file the inode of the deleted one");
        }
        assert!(outcome.succeeded(), "{engine}: {}", outcome.errors());
        assert_eq!(fs::read_to_string(folder.join("t/a")).unwrap(), "FIRST", "{engine}");
        assert_eq!(fs::read_to_string(folder.join("t/late")).unwrap(), "SECOND", "{engine}");
    }
}

#[test]
fn a_further_name_is_not_linked_to_what_replaced_the_first_copy() {
    let ours = program!();
    let sandbox = Sandbox::on_disk().unwrap();
    let replacements: [Replacement; 3] = [
        ("replaced", |copy| {
            fs::write(copy.with_extension("new"), "FOREIGN").unwrap();
            fs::rename(copy.with_extension("new"), copy).unwrap();
        }),
        ("removed", |copy| fs::remove_file(copy).unwrap()),
        ("link", |copy| {
            fs::remove_file(copy).unwrap();
            std::os::unix::fs::symlink("fifo", copy).unwrap();
        }),
    ];
    for engine in ["--engine=sync", "--engine=io-uring"] {
        for (name, replace) in replacements {
            let folder = sandbox.join(format!("{engine}-{name}"));
            prepare(&folder);
            fs::hard_link(folder.join("s/a"), folder.join("s/late")).unwrap();
            let outcome = copy(&ours, engine, &folder, || replace(&folder.join("t/a")));
            assert!(outcome.succeeded(), "{engine}, {name}: {}", outcome.errors());
            let copy = fs::read_to_string(folder.join("t/late")).unwrap();
            assert_eq!(copy, "FIRST", "{engine}, {name}");
            assert!(fs::symlink_metadata(folder.join("t/late")).unwrap().is_file());
        }
    }
}

#[test]
fn names_of_one_file_stay_one_file() {
    let ours = program!();
    let sandbox = Sandbox::on_disk().unwrap();
    for engine in ["--engine=sync", "--engine=io-uring"] {
        let folder = sandbox.join(engine);
        prepare(&folder);
        fs::hard_link(folder.join("s/a"), folder.join("s/late")).unwrap();
        let outcome = copy(&ours, engine, &folder, || {
            // Losing one name doesn't make it another file.
            fs::remove_file(folder.join("s/b")).unwrap();
        });
        assert!(outcome.succeeded(), "{engine}: {}", outcome.errors());
        let inode = |name| fs::metadata(folder.join(name)).unwrap().ino();
        assert_eq!(inode("t/a"), inode("t/late"), "{engine}");
    }
}

/// Creates a directory of files, hard links and symbolic links, all of them between six names.
fn entangled(folder: &Path, random: &mut Random) -> io::Result<()> {
    const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
    fs::create_dir(folder)?;
    let mut files: Vec<&str> = Vec::new();
    for name in NAMES {
        let path = folder.join(name);
        match (random.random_range(0..20), files.choose(random)) {
            (0..7, _) => fs::write(&path, format!("{}", random.random_range(0..1_000_000)))?,
            (7..15, _) => symlink(NAMES.choose(random).ok_or(io::ErrorKind::Other)?, &path)?,
            (15..18, Some(file)) => fs::hard_link(folder.join(file), &path)?,
            _ => continue,
        }
        if path.symlink_metadata()?.is_file() {
            files.push(name);
        }
    }
    Ok(())
}

#[test]
fn links_in_source_and_target_lead_to_what_gnu_cp_makes_of_them() {
    const OPTIONS: [&[&str]; 10] = [
        &["-aL"],
        &["-rL", "--preserve=links"],
        &["-aLf"],
        &["-aLb"],
        &["-aLn"],
        &["-aLu"],
        &["-a"],
        &["-aH"],
        &["-aL", "--remove-destination"],
        &["-avL"],
    ];
    require!(CopyProgram::needs_gnu());
    let duel = Duel::with_gnu(program!()).unwrap();
    let seed = random::seed("entangled links", Some(1));
    let cases = if needs::is_full_run() { 2000 } else { 100 };
    for case in 0..cases {
        let prepare = |folder: &Path| {
            let mut random = seeded(seed + case);
            entangled(&folder.join("s"), &mut random)?;
            entangled(&folder.join("t"), &mut random)
        };
        let mut random = seeded(seed ^ case);
        let options = OPTIONS.choose(&mut random).unwrap();
        // In the order of the names: which of them is copied first matters.
        let names = ["s/a", "s/b", "s/c", "s/d", "s/e", "s/f", "t"];
        let line: Vec<&str> = options.iter().copied().chain(names).collect();
        let own = ["-j1", "--engine=sync"].map(OsString::from);
        let verdict = duel.run(&prepare, &line, &own).unwrap();
        // GNU cp has removed an existing name by then.
        let fails = verdict.standard.errors().contains("cannot create hard link");
        let is_known = |complaint: &Complaint| fails && *complaint == Complaint::Tree;
        let all_known = verdict.complaints.iter().all(|(complaint, _)| is_known(complaint));
        assert!(all_known, "case {case} {line:?}\n{}", verdict.report());
    }
}

/// Options with which many files are in flight at the same time.
const IN_FLIGHT: [&[&str]; 5] = [
    &["-r", "-j1", "--engine=io-uring", "--direct"],
    &["-r", "-j4", "--engine=io-uring", "--direct", "--block-size=64K"],
    &["-r", "-j8"],
    &["-r", "-j8", "--engine=sync", "--reflink=never"],
    &["-rL", "--preserve=all", "-j8", "--direct"],
];

#[test]
fn targets_that_are_one_file_get_the_content_of_one_source() {
    let ours = program!();
    let sandbox = Sandbox::on_disk().unwrap();
    for options in IN_FLIGHT {
        aliases::build(sandbox.path()).unwrap();
        let run = ours.run().args(options).args(["s", "t"]).in_folder(sandbox.path()).within(BOUND);
        let outcome = run.finish().unwrap();
        assert!(outcome.succeeded(), "{options:?}: {}", outcome.errors());
        assert_eq!(aliases::mixed(sandbox.path()).unwrap(), [""; 0], "{options:?}");
    }
}

/// Attributes are set one after the other, and all of them are those of one source.
#[test]
fn targets_that_are_one_file_get_the_attributes_of_one_source() {
    let ours = program!();
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox
        .script(
            "mkdir -p s/1 s/2 s/3 s/4; for d in 1 2 3 4; do (cd s/$d; touch $(seq 500)); chmod 60$d s/$d/*
                touch -d @${d}000 s/$d/*; done",
        )
        .unwrap();
    for round in 0..3 {
        sandbox
            .script(
                "rm -rf t; mkdir -p t/1 t/2 t/3 t/4; (cd t/1; touch $(seq 500)); for d in 2 3; do
                    ln t/1/* t/$d; done; for n in $(seq 500); do ln -s ../1/$n t/4; done",
            )
            .unwrap();
        let words = ["-rT", "--attributes-only", "--preserve=mode,timestamps", "-j8", "s", "t"];
        let run = ours.run().args(words).in_folder(sandbox.path()).within(BOUND);
        let outcome = run.finish().unwrap();
        assert!(outcome.succeeded(), "{}", outcome.errors());
        for number in 1..=500 {
            let made = fs::metadata(sandbox.join(format!("t/1/{number}"))).unwrap();
            let by_mode = i64::from(made.mode() & 7) * 1000;
            assert_eq!(made.mtime(), by_mode, "round {round}: {number} has attributes of two sources");
        }
    }
}

/// `cp a b t`, where `t/b` leads to `a`: the copy of `a` has what was there before or after, but
/// never a part.
#[test]
fn a_source_that_is_also_a_target_is_never_read_in_part() {
    const FILES: u64 = 12;
    const BYTES: u64 = 3 << 20;
    let ours = program!();
    let sandbox = Sandbox::on_disk().unwrap();
    let content = |seed: u64| random::bytes(seed, BYTES + seed * 4096);
    for (options, link) in IN_FLIGHT.iter().flat_map(|options| [(options, "ln -s"), (options, "ln")]) {
        sandbox.script("rm -rf s t; mkdir s t").unwrap();
        for seed in 0..2 * FILES {
            fs::write(sandbox.join(format!("s/{seed}")), content(seed)).unwrap();
        }
        for seed in FILES..2 * FILES {
            // Onto the source of another entry.
            let leads_to = format!("{}/s/{}", sandbox.path().display(), seed - FILES);
            sandbox.script(&format!("{link} {leads_to} t/{seed}")).unwrap();
        }
        let run = ours.run().args(*options).args(["-T", "s", "t"]).in_folder(sandbox.path()).within(BOUND);
        let outcome = run.finish().unwrap();
        assert!(outcome.succeeded(), "{options:?} {link}: {}", outcome.errors());
        for seed in 0..FILES {
            let (before, after) = (content(seed), content(seed + FILES));
            let copy = fs::read(sandbox.join(format!("t/{seed}"))).unwrap();
            assert!(copy == before || copy == after, "{options:?} {link}: t/{seed} is mixed");
        }
    }
}

/// A target that is new, and reached by a second name: the entry that comes last has written all
/// of it.
#[test]
fn a_new_target_with_two_names_gets_the_content_of_one_source() {
    let ours = program!();
    let sandbox = Sandbox::on_disk().unwrap();
    let runs: [(&str, &[&str]); 4] = [
        // Links that dangle until the other target is there.
        ("for i in $(seq 40); do ln -s a$i t/b$i; done", &["-j8", "s/a*", "s/b*", "t"]),
        ("ln -s a1 t/b1", &["--no-atomic", "--reflink=never", "-j4", "s/a1", "s/b1", "t"]),
        ("mkdir t/a; ln -s a t/b", &["-rT", "--keep-directory-symlink", "-j8", "d", "t"]),
        ("mkdir t/a; ln -s a t/b", &["-rT", "--keep-directory-symlink", "-j8", "deep", "t"]),
    ];
    sandbox
        .script(
            "mkdir s d d/a d/b deep; for i in $(seq 40); do
                head -c 1000000 /dev/zero | tr '\\0' A >s/a$i; head -c 700000 /dev/zero | tr '\\0' B >s/b$i
                cp s/a$i d/a/$i; cp s/b$i d/b/$i; done
            mkdir deep/a deep/b; cp -r d/a deep/a/x; cp -r d/b deep/b/x",
        )
        .unwrap();
    for (before, words) in runs {
        for _ in 0..3 {
            let program = format!("{} {}", ours.path().display(), if ours.is_haul() { "cp" } else { "" });
            let copy = format!("rm -rf t; mkdir t; {before}; {program} {}", words.join(" "));
            sandbox.script(&copy).unwrap();
            let mixed = "for f in $(find t -type f); do
                n=$(tr -d '\\n' <$f | fold -w 1 | sort -u | wc -l); [ $n = 1 ] || { echo $f; exit 1; }; done";
            sandbox.script(&mixed.replace("fold -w 1 | sort -u | wc -l", "tr -s AB | wc -c")).unwrap();
        }
    }
}

/// What operands do to each other happens in their order.
#[test]
fn operands_that_meet_are_copied_in_order() {
    require!(CopyProgram::needs_gnu());
    let duel = Duel::with_gnu(program!()).unwrap();
    let scene = "mkdir s d d/d a d/a; printf old >d/x; printf new >s/x; printf precious >s/x~
        mkdir p q d/p l d/l; ln -s p d/q; printf p >p/x; printf q >q/x; ln -s ../s/y l/x; printf l >d/l/x
        ln -s ../d/x s/link; printf other >s/y; ln d/x d/y; printf 1 >a/x; printf 2 >d/a/x; ln -s x d/z
        printf z >s/z; sync -f s; dd if=s/x iflag=nocache count=0 2>d/null; rm d/null";
    for line in [
        "-f s/x s/link d",
        "s/link s/x d",
        "s/x s/y d",
        "s/y s/x d",
        "s/x s/z d",
        "s/z s/x d",
        "-r s/x a s/z s/y d",
        "--parents a/x d/a/x d",
        "--parents d/a/x a/x d",
        "--parents s/y d/s/y d",
        "--parents d/s/y s/y d",
        "--parents s/y s/z d/s/y d/s/z d/d/s/y d",
        "-P --parents l/x d/l/x d",
        "-P --parents l/x d/l/x a/x d/a/x d",
        "--parents p/x q/x d",
        "--parents q/x p/x d",
        "-r --parents a d/a d",
        "-r --parents s d/s d",
        "-f --parents a/x d/a/x d",
        "-b --parents a/x d/a/x d",
        "-v --parents a/x missing d/a/x d",
    ] {
        let verdict = duel.run_script(&|_| Ok(()), &format!("{scene}\ncp {line}"), &[]).unwrap();
        assert!(verdict.complaints.is_empty(), "{line}\n{}", verdict.report());
    }
    // GNU cp 9.1 moves a second backup to the current directory.
    let ours = program!();
    let sandbox = Sandbox::on_disk().unwrap();
    let program = format!("{} {}", ours.path().display(), if ours.is_haul() { "cp" } else { "" });
    let copy = format!("{program} --backup=simple --reflink=never s/x s/x~ d");
    let contents = "[ $(cat d/x) = new ]; [ $(cat d/x~) = precious ]; [ $(cat d/x~~) = old ]";
    sandbox.script(&format!("{scene}\n{copy}\n{contents}")).unwrap();
}
