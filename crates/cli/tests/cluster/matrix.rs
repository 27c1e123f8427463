//! Everything that can be copied, in every way, compared with one process.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use haul_testkit::duel::Duel;
use haul_testkit::everything;
use haul_testkit::mpi::{Mpi, MpiKind};
use haul_testkit::needs::{self, is_full_run};
use haul_testkit::program::CopyProgram;
use haul_testkit::{Facts, Sandbox, Snapshot, compare, message, note, program, require, tests};

use crate::start::{Way, script};

/// Copies everything; every way to start runs it.
const ALL: &str = "-a from to";

/// Command lines. `from` is a tree of everything; `there` is an older copy of a part of it.
const LINES: [&str; 61] = [
    ALL,
    "-a from/. there",
    "-av from there",
    "-r from to",
    "-R --preserve=mode,timestamps from to",
    "-rp from there",
    "-rd from to",
    "-rP from/sub from/odd there",
    "-dp from/sub/link-file from/sub/owner-link there",
    "-rL from/odd to",
    "-rL from/sub/sub from/sub/link-directory from/sub/link-dangling there",
    "-rH from/sub/link-up/empty from/acl-default there",
    "-ru from/. there",
    "-rn from/. there",
    "-ruv from/. there",
    "-rnv from/. there",
    "-rT from there",
    "-r -t there from/odd from/sub from/size-4097",
    "-a --parents from/sub/sub/deep from/odd there",
    "--parents from/sub/sub/deep/hole-many from/size-511 there",
    "-al from to",
    "-s from/size-1 from/sub/owner .",
    "-rs from to",
    "-a --attributes-only from to",
    "--attributes-only --preserve=all from/capability from/acl there",
    "-r --sparse=always from to",
    "-a --sparse=always from/. there",
    "-a --walk=ranks from to",
    "-av --walk=ranks from/. there",
    "-r --walk=ranks from to",
    "-ru --walk=ranks from/. there",
    "-rH --walk=ranks from/odd to",
    "-a --exclude=sub/* --include=sub/sub --exclude=size-1* from to",
    "-a --walk=ranks --exclude=sub/* --include=sub/sub --exclude=size-1* from to",
    "-a --gitignore --max-size=8K --newer-than=@1000 from to",
    "-a --walk=ranks --gitignore --exclude-caches --min-size=100 from to",
    "-a --files-from=list --exclude=size-4096 from to",
    "-ar --walk=ranks --files0-from=list0 from there",
    "-a --files-from=through from to",
    "-a --walk=ranks --files-from=through from to",
    "-r --files-from=through from to",
    "-r --exclude=size-4* --max-size=1K from/size-4095 from/size-511 from/size-4097 from/odd there",
    "-r --preserve=links,xattr from to",
    "-r --preserve=all --no-preserve=links,timestamps from to",
    "-r --no-preserve=mode from to",
    "-r --reflink=never from to",
    "-rf from/. there",
    "-r --remove-destination from/. there",
    "-rb from/. there",
    "-r --backup=numbered from/. there",
    "-ax from there",
    "from/size-1048577 to",
    "-p from/size-1048577 from/sub/twin-1 from/attributes there",
    "from/size-0 from/size-1 from/missing there",
    "-v from/size-4095 from/odd there",
    "from/size-4095 from/size-4096 missing/place",
    "-a from/size-1 from/size-1 from/odd from/odd there",
    "-r from from/new",
    "-a from there from",
    "-r there there/size-1",
    "-p --parents from/closed/inside from/sub/../size-1 there",
];

/// Lines tried with every installation.
const FEW: [&str; 6] = [
    ALL,
    "-a --walk=ranks --gitignore --exclude-caches --min-size=100 from to",
    "-rL from/sub/sub there",
    "-a --walk=ranks from to",
    "-ruv from/. there",
    "-r from from/new",
];

fn prepare(folder: &Path) -> io::Result<()> {
    let spec = everything::spec();
    spec.build(&folder.join("from"))?;
    fs::write(folder.join("from/sub/.gitignore"), "mode-*\n!mode-0644\n")?;
    let list = "sub/sub/deep\nsize-511\nsize-4096\nodd\nsub/missing\nsub/mode-0644\n";
    fs::write(folder.join("list"), list)?;
    fs::write(folder.join("list0"), list.replace('\n', "\0"))?;
    // Names that lead through files and links, and one that is missing in a directory.
    fs::write(
        folder.join("through"),
        "size-0/x\nsize-511\nsize-511/x\nsize-511/y/z\nsub/link-up/size-1\nsub/link-up\nodd\nodd/nothing\n",
    )?;
    let there = folder.join("there");
    fs::create_dir_all(there.join("sub"))?;
    fs::create_dir_all(there.join("odd"))?;
    for name in ["size-0", "size-4096", "size-65536", "sub/mode-0644", "odd/~", "attributes"] {
        fs::write(there.join(name), "what was there before")?;
    }
    // Older than its source, which dates from 2009.
    let old = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1000));
    fs::File::options().append(true).open(there.join("size-4096"))?.set_times(old)
}

/// Builds a directory with fewer files than ranks.
fn prepare_little(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder.join("from"))?;
    (0..2).try_for_each(|number| fs::write(folder.join(format!("from/{number}")), format!("{number}\n")))
}

fn duel(sandbox: &Sandbox, mpi: &Mpi, way: Way) -> Duel {
    Duel {
        standard: program!(),
        judged: script(sandbox, mpi, way, &[]),
        facts: Facts::PRESERVED,
        limit: Duration::from_secs(60),
        input: Vec::new(),
        environment: vec![("HAUL_SILENCE".into(), "30".into())],
        umask: 0o022,
        as_nobody: false,
    }
}

/// Runs command lines with one process and with several; returns the differences.
fn differences(
    mpi: &Mpi,
    way: Way,
    lines: &[&str],
    prepare: &dyn Fn(&Path) -> io::Result<()>,
) -> Vec<String> {
    let sandbox = Sandbox::in_memory().unwrap();
    let duel = duel(&sandbox, mpi, way);
    let mut failures = Vec::new();
    for line in lines {
        // --walk needs ranks, so only the judged program gets it.
        let (own, words): (Vec<_>, Vec<_>) = line.split(' ').partition(|word| word.starts_with("--walk"));
        let own: Vec<_> = own.into_iter().map(OsString::from).collect();
        let verdict = duel.run(prepare, &words, &own).unwrap();
        if !verdict.complaints.is_empty() {
            failures.push(format!("{} {way:?}: {line}\n{}", mpi.kind().name(), verdict.report()));
        }
    }
    failures
}

fn judge(failures: &[String], runs: usize) {
    assert!(failures.is_empty(), "{} of {runs} runs differ:\n{}", failures.len(), failures.join("\n"));
}

/// Uses two threads, since each launcher spends most of its time waiting.
fn in_two_threads(lines: &[&str], run: impl Fn(&[&str]) -> Vec<String> + Sync) -> Vec<String> {
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for half in lines.chunks(lines.len().div_ceil(2)) {
            let (failures, run) = (&failures, &run);
            scope.spawn(move || failures.lock().unwrap().extend(run(half)));
        }
    });
    failures.into_inner().unwrap()
}

/// Returns all lines in a full run, or else a third of them.
fn share(part: usize) -> Vec<&'static str> {
    let chosen = LINES.iter().enumerate().filter(|(index, _)| is_full_run() || index % 3 == part);
    chosen.map(|(_, line)| *line).collect()
}

fn every_line(kind: MpiKind, way: Way, part: usize) {
    require!(needs::root(), kind.needed(), program!().needs_haul());
    let mpi = Mpi::find(kind).unwrap();
    let lines = share(part);
    let failures = in_two_threads(&lines, |lines| differences(&mpi, way, lines, &prepare));
    judge(&failures, lines.len());
}

tests! {
    every_line_by_clients_is_as_by_one_process => every_line(MpiKind::OpenMpi4, Way::Clients(2), 0);
    every_line_by_more_clients_is_as_by_one_process => every_line(MpiKind::OpenMpi4, Way::Clients(4), 1);
    every_line_under_a_launcher_is_as_by_one_process => every_line(MpiKind::OpenMpi4, Way::Ranks(3), 2);
}

/// Tries several numbers of ranks, including ones where rank 0 doesn't copy.
#[test]
fn any_number_of_ranks_makes_the_same_copy() {
    require!(needs::root(), MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    let mut failures = Vec::new();
    let ways = [1, 2, 8].map(Way::Clients).into_iter().chain([1, 4, 17].map(Way::Ranks));
    for way in ways {
        failures.extend(differences(&mpi, way, &[ALL], &prepare));
        failures.extend(differences(&mpi, way, &["-r from to"], &prepare_little));
    }
    judge(&failures, 12);
}

/// Runs a few lines, or all in a full run.
fn under(kind: MpiKind) {
    require!(needs::root(), kind.needed(), program!().needs_haul());
    let mpi = Mpi::find(kind).unwrap();
    let lines: &[&str] = if is_full_run() { &LINES } else { &FEW };
    let ways = [Way::Clients(3), Way::Ranks(2)];
    let failures = in_two_threads(lines, |lines| {
        ways.into_iter().flat_map(|way| differences(&mpi, way, lines, &prepare)).collect()
    });
    judge(&failures, 2 * lines.len());
}

/// Launchers accept the user's mapping and binding options together with those that haul adds: Open
/// MPI 5 rejects an option given twice.
#[test]
fn a_launchers_words_on_mapping_and_binding_are_taken() {
    require!(
        needs::root(),
        MpiKind::OpenMpi4.needed().or_else(|| MpiKind::OpenMpi5.needed()),
        program!().needs_haul()
    );
    for kind in [MpiKind::OpenMpi4, MpiKind::OpenMpi5] {
        let mpi = Mpi::find(kind).unwrap();
        let mut words =
            vec!["--map-by slot", "--map-by slot --bind-to none", "--bind-to none --oversubscribe"];
        words.push("--bind-to core:overload-allowed");
        if kind == MpiKind::OpenMpi5 {
            words.push("--map-by slot:OVERSUBSCRIBE");
        }
        for words in words {
            let sandbox = Sandbox::in_memory().unwrap();
            fs::write(sandbox.join("source"), "content").unwrap();
            let launcher = format!("--launcher={} {words}", mpi.launcher().display());
            let run = program!().run().args(["--clients=4", &launcher, "source", "target"]);
            // Drop the tests' usual settings: haul itself must allow more ranks than processors.
            let run = mpi
                .environment()
                .iter()
                .filter(|(name, _)| !name.contains("rmaps"))
                .fold(run, |run, (name, value)| run.env(name, value));
            let outcome = run.in_folder(sandbox.path()).within(Duration::from_secs(60)).finish().unwrap();
            let told = outcome.errors();
            assert!(outcome.succeeded() && told.is_empty(), "{} {words}: {told}", kind.name());
            assert_eq!(fs::read(sandbox.join("target")).unwrap(), b"content");
        }
    }
}

tests! {
    under_open_mpi_5 => under(MpiKind::OpenMpi5);
    under_mpich_4 => under(MpiKind::Mpich4);
    under_mpich_5 => under(MpiKind::Mpich5);
    under_the_standard_abi => under(MpiKind::Standard);
}

/// An unprivileged user gets the same messages for unreadable entries, and the rest is copied.
#[test]
fn what_cannot_be_read_is_reported_as_by_one_process() {
    require!(needs::root(), MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    let sandbox = Sandbox::in_memory().unwrap();
    let published = program!().publish(sandbox.path()).unwrap();
    let from = sandbox.join("from");
    everything::spec().build(&from).unwrap();
    let mut told = Vec::new();
    for own in [vec![], vec!["--clients=2".to_owned(), format!("--launcher={}", mpi.launcher().display())]] {
        let folder = sandbox.join(format!("by-{}", own.len()));
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let run = published.run_with(&own).args(["-r", "../from", "to"]).in_folder(&folder).as_nobody();
        let run = run.env("TMPDIR", "/tmp").env("HOME", "/tmp");
        let outcome = mpi.with(run).finish().unwrap();
        let tree = Snapshot::take(&folder.join("to"), Facts::CONTENT | Facts::MODE).unwrap();
        told.push((outcome.status(), message::normalise(&outcome.stderr), tree));
    }
    let [(status, lines, alone), (found_status, found_lines, found)] = &told[..] else { unreachable!() };
    assert_eq!((status, lines), (found_status, found_lines));
    assert!(*status == Some(1) && lines.len() > 3, "{lines:?}");
    let differences = compare(alone, found, Facts::CONTENT | Facts::MODE | Facts::LINKS).unwrap();
    assert!(differences.is_empty(), "{differences}");
}

#[test]
fn a_thousand_small_files_cost_ten_messages() {
    const FILES: usize = 20_000;
    require!(MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    let sandbox = Sandbox::in_memory().unwrap();
    for directory in 0..FILES / 1000 {
        let folder = sandbox.join(format!("from/{directory}"));
        fs::create_dir_all(&folder).unwrap();
        (0..1000).for_each(|number| fs::write(folder.join(number.to_string()), "small").unwrap());
    }
    let copy: CopyProgram = script(&sandbox, &mpi, Way::Clients(4), &["--debug"]);
    let outcome = copy.run().args(["-r", "from", "to"]).in_folder(sandbox.path()).finish().unwrap();
    let told = outcome.errors();
    assert!(outcome.succeeded(), "{told}");
    let line = told.lines().find_map(|line| line.strip_suffix(" messages between the processes"));
    let messages: usize = line.and_then(|line| line.rsplit(' ').next()).unwrap().parse().unwrap();
    note!("{messages} messages for {FILES} small files");
    assert!(messages <= FILES / 100, "{messages} messages");
}
