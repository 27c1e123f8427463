//! Fuzzing against GNU cp: random command lines beyond what the other tests cover.
//!
//! [`differential`](../differential/main.rs) varies options; this test varies their surroundings:
//! the umask (0 to 0777), the user, the spelling of operands (slashes, `.`, `..`, absolute),
//! operands inside one another and inside the target, targets of every kind, default ACLs, devices,
//! and modes that deny access to the owner. `HAUL_SEED` and `HAUL_CASES` choose the cases. Every
//! difference is listed with its number, and `HAUL_CASE` runs that case alone.
//!
//! Known differences (COVERAGE.md) are recognised by the case and by what GNU cp did, never by what
//! haul did alone: see [`Case::facts`], [`Case::has_answer`] and [`is_order`].

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::time::Duration;

use haul_testkit::duel::{Duel, DuelVerdict};
use haul_testkit::everything::{ACCESS_ACL, DEFAULT_ACL};
use haul_testkit::random::{self, IndexedRandom, Random, Rng, seeded};
use haul_testkit::spec::{EntrySpec, PieceSpec, Spec, SpecKind, acl};
use haul_testkit::{CopyProgram, Facts, Release, Sandbox, needs, note, program, require};

/// First release seen to leave existing and inherited ACLs in place.
const LISTS_STAY: Release = Release(9, 7);
/// First release whose backups move targets of another kind out of the way.
const BACKS_UP_ACROSS_KINDS: Release = Release(9, 5);
/// First release seen to clear set-ID and sticky bits of an existing target if the source has none.
const SPECIAL_BITS_GO: Release = Release(9, 10);
/// First release seen to treat an empty target as the current directory.
const EMPTY_IS_HERE: Release = Release(9, 10);

const SEED: u64 = 20_261_123;

const NAMES: [&[u8]; 11] =
    [b"a", b"b", b"n", b"d", b"l", b"x y", b"$(x)", b"\xff\xfe", b"new\nline", b"-r", "é".as_bytes()];
const MODES: [u32; 11] = [0o644, 0o600, 0o755, 0o444, 0, 0o640, 0o777, 0o400, 0o555, 0o6711, 0o2640];
const DIRECTORY_MODES: [u32; 6] = [0o755, 0o700, 0o777, 0o750, 0o2775, 0o1777];
const UMASKS: [u32; 13] =
    [0o022, 0o022, 0o022, 0o077, 0o002, 0, 0o027, 0o777, 0o277, 0o200, 0o700, 0o111, 0o133];
const RECURSIONS: [&str; 6] = ["-r", "-a", "-a", "-R", "-rp", "-dr"];
const OPTIONS: [&str; 28] = [
    "-p",
    "-d",
    "-P",
    "-L",
    "-H",
    "-f",
    "-n",
    "-v",
    "-x",
    "-T",
    "-l",
    "-s",
    "-u",
    "-i",
    "--preserve=mode",
    "--preserve=xattr",
    "--preserve=links",
    "--preserve=all",
    "--preserve=timestamps",
    "--preserve=ownership",
    "--no-preserve=mode",
    "--remove-destination",
    "--attributes-only",
    "--strip-trailing-slashes",
    "--parents",
    "-b",
    "--backup=numbered",
    "--suffix=.kept",
];
const TARGETS: [&str; 12] = [
    "new",
    "new/",
    "i",
    "i/.",
    "i/sub",
    "out",
    "i/missing/x",
    "dangling",
    "to-file",
    "to-out",
    "device",
    "socket",
];
const ODD_OPERANDS: [&str; 6] = [".", "n/..", "missing", "file/.", "file/..", ""];

#[derive(Debug)]
struct Case {
    source: Spec,
    target: Spec,
    target_gives_list: bool,
    as_nobody: bool,
    umask: u32,
    words: Vec<OsString>,
    goes_to: Vec<u8>,
}

fn node(random: &mut Random) -> EntrySpec {
    let name = *NAMES.choose(random).unwrap();
    let parent = random.random_range(0..6);
    let kind = match random.random_range(0..24) {
        0..7 => SpecKind::Directory,
        7..15 => SpecKind::File(vec![PieceSpec::Data {
            seed: random.random(),
            bytes: random.random_range(0..3000),
        }]),
        15..18 => {
            let leads_to = [&b"a"[..], b"b", b"../a", b"nowhere", b".", b"d", b"n/a"];
            SpecKind::Symlink(leads_to.choose(random).unwrap().to_vec())
        }
        18..20 => SpecKind::HardLink(random.random_range(0..9)),
        20 => SpecKind::Fifo,
        21 => SpecKind::Socket,
        22 => SpecKind::CharacterDevice(1, 3),
        _ => SpecKind::BlockDevice(7, 200),
    };
    let is_directory = kind == SpecKind::Directory;
    let is_file = matches!(kind, SpecKind::File(_));
    let modes = if is_directory { &DIRECTORY_MODES[..] } else { &MODES[..] };
    let mode = *modes.choose(random).unwrap();
    let node =
        EntrySpec::new(parent, name, kind).mode(mode).modified(random.random_range(1..1_500_000_000), 5);
    match random.random_range(0..8) {
        0 | 1 if is_file => node.attribute("user.kept", "value"),
        2 if is_file => node.attribute(ACCESS_ACL, acl(mode, 7, 5)),
        0 if is_directory => node.attribute(DEFAULT_ACL, acl(0o750, 7, 5)),
        1 if is_directory => node.attribute("user.kept", "value"),
        _ => node,
    }
}

fn tree(random: &mut Random, most: usize) -> Spec {
    Spec { nodes: (0..random.random_range(0..=most)).map(|_| node(random)).collect() }
}

/// Returns the paths of a tree's entries, as the builder creates them.
fn paths(spec: &Spec) -> Vec<Vec<u8>> {
    let mut directories = vec![Vec::new()];
    let mut paths = Vec::new();
    for node in &spec.nodes {
        let above = &directories[node.parent % directories.len()];
        let path = if above.is_empty() { node.name.clone() } else { [above, &b"/"[..], &node.name].concat() };
        if !paths.contains(&path) {
            if node.kind == SpecKind::Directory {
                directories.push(path.clone());
            }
            paths.push(path);
        }
    }
    paths
}

/// Spells the name of a source entry in one of many ways.
fn operand(random: &mut Random, paths: &[Vec<u8>]) -> Vec<u8> {
    if paths.is_empty() || random.random_range(0..14) == 0 {
        return ODD_OPERANDS.choose(random).unwrap().as_bytes().to_vec();
    }
    let name = paths.choose(random).unwrap();
    let (before, after): (&[u8], &[u8]) = match random.random_range(0..20) {
        0 | 1 => (b"", b"/"),
        2 | 3 => (b"", b"/."),
        4 => (b"", b"//"),
        5 => (b"./", b""),
        6 => (b"out/../", b""),
        7 => (b"", b"/.."),
        _ => (b"", b""),
    };
    [before, name, after].concat()
}

impl Case {
    fn new(seed: u64) -> Self {
        let random = &mut seeded(seed);
        let (source, target) = (tree(random, 16), tree(random, 6));
        let mut words: Vec<Vec<u8>> = Vec::new();
        if random.random_range(0..8) > 0 {
            words.push(RECURSIONS.choose(random).unwrap().as_bytes().to_vec());
        }
        for _ in 0..*[0, 0, 1, 1, 2, 3].choose(random).unwrap() {
            words.push(OPTIONS.choose(random).unwrap().as_bytes().to_vec());
        }
        let paths = paths(&source);
        let operands = (0..*[1, 1, 1, 2, 3].choose(random).unwrap()).map(|_| operand(random, &paths));
        let operands: Vec<_> = operands.collect();
        let goes_to = match random.random_range(0..3) {
            0 => operand(random, &paths),
            _ => TARGETS.choose(random).unwrap().as_bytes().to_vec(),
        };
        if random.random_range(0..10) == 0 {
            words.extend([b"-t".to_vec(), goes_to.clone(), b"--".to_vec()]);
            words.extend(operands);
        } else {
            words.push(b"--".to_vec());
            words.extend(operands);
            words.push(goes_to.clone());
        }
        Self {
            source,
            target,
            target_gives_list: random.random_range(0..6) == 0,
            as_nobody: random.random_range(0..5) < 2,
            umask: *UMASKS.choose(random).unwrap(),
            words: words.into_iter().map(OsString::from_vec).collect(),
            goes_to,
        }
    }

    fn prepare(&self, folder: &Path) -> io::Result<()> {
        let link = |name: &str, leads_to: &str| EntrySpec::new(0, name, SpecKind::Symlink(leads_to.into()));
        let mut inner = EntrySpec::new(0, "i", SpecKind::Directory);
        if self.target_gives_list {
            inner = inner.attribute(DEFAULT_ACL, acl(0o770, 7, 7));
        }
        let around = vec![
            EntrySpec::new(0, "out", SpecKind::Directory),
            EntrySpec::file(0, "file", 1, 900).mode(0o640),
            link("dangling", "gone"),
            link("to-file", "file"),
            link("to-out", "out"),
            EntrySpec::new(0, "device", SpecKind::CharacterDevice(1, 5)),
            EntrySpec::new(0, "socket", SpecKind::Socket),
            inner,
        ];
        self.source.build(folder)?;
        Spec { nodes: around }.build(folder)?;
        self.target.build(&folder.join("i"))
    }

    fn has(&self, options: &[&str]) -> bool {
        self.words.iter().any(|word| options.iter().any(|option| word.as_os_str() == OsStr::new(option)))
    }

    /// Returns the facts to compare. GNU cp doesn't see attributes of directories behind links.
    /// Newer releases leave ACLs that are inherited, or that an overwritten file has. If the umask
    /// denies the owner write access, GNU cp drops some attributes. With `--parents`, it keeps the
    /// times of a directory shared by several operands only for the first.
    fn facts(&self, facts: Facts, release: Release) -> Facts {
        let is_read_only = self.as_nobody && self.umask & 0o200 != 0;
        let mut facts = facts;
        if self.has(&["-L", "-H"]) || is_read_only || release >= LISTS_STAY {
            facts -= Facts::ATTRIBUTES;
        }
        if release < SPECIAL_BITS_GO && self.any_before(|node| node.mode & 0o7000 != 0) {
            facts -= Facts::SPECIAL_BITS;
        }
        if self.has(&["--parents"]) {
            facts -= Facts::DIRECTORY_MODIFIED;
        }
        facts
    }

    /// True if a file may be written to a device or FIFO, to which GNU cp then applies the
    /// file's attributes.
    fn writes_to_devices(&self) -> bool {
        let special = |node: &EntrySpec| {
            matches!(node.kind, SpecKind::Fifo | SpecKind::CharacterDevice(..) | SpecKind::BlockDevice(..))
        };
        self.goes_to == b"device" || self.any_before(special)
    }

    /// True if a matching entry exists where copies go.
    fn any_before(&self, is_such: impl Fn(&EntrySpec) -> bool) -> bool {
        let is_in_source = !TARGETS.iter().any(|name| name.as_bytes() == self.goes_to);
        self.target.nodes.iter().any(&is_such) || (is_in_source && self.source.nodes.iter().any(is_such))
    }

    /// True if this release of GNU cp gives the answer that haul must give: not if haul follows a
    /// newer release or 9.1, or differs for a reason in COVERAGE.md.
    fn has_answer(&self, verdict: &DuelVerdict, release: Release) -> bool {
        let told = verdict.standard.errors();
        let backs_up = self.has(&["-b", "--backup=numbered", "--suffix=.kept"]);
        let across_kinds = backs_up && release < BACKS_UP_ACROSS_KINDS && told.contains("cannot overwrite ");
        let to_nowhere = self.goes_to.is_empty() && release >= EMPTY_IS_HERE;
        // With `--parents`, it creates directories that it can't write to.
        let shuts_out = self.as_nobody && self.umask & 0o300 != 0 && self.has(&["--parents"]);
        // Older releases notice a target behind a symlink loop only when they create the copy.
        let by_a_loop = release < Release(9, 5) && told.contains("Too many levels of symbolic links");
        // If setting an attribute fails, GNU cp names the attribute twice and the file not at all.
        let names_no_file = told.contains("setting attribute ");
        !(verdict.standard_hung() || across_kinds || to_nowhere || shuts_out || by_a_loop || names_no_file)
    }
}

/// True if the result depends on the order of a directory, since a copy reaches its own source.
/// GNU cp leaves such a directory once it notices, and calls it a hard link if a symbolic link
/// led there.
fn is_order(verdict: &DuelVerdict) -> bool {
    [&verdict.standard, &verdict.judged].iter().any(|outcome| outcome.errors().contains("into itself, "))
}

fn differences(duel: &Duel, case: &Case) -> Option<String> {
    let release = duel.standard.release()?;
    let mut verdict = Duel {
        umask: case.umask,
        as_nobody: case.as_nobody,
        facts: case.facts(duel.facts, release),
        limit: Duration::from_secs(5),
        ..duel.clone()
    }
    .run(&|folder| case.prepare(folder), &case.words, &[])
    .unwrap();
    if !case.has_answer(&verdict, release) {
        return None;
    }
    if is_order(&verdict) {
        let told = verdict.judged.errors().contains("into itself, ");
        let same = told && verdict.standard.status() == Some(1) && verdict.judged.status() == Some(1);
        return (!same).then(|| verdict.report());
    }
    let keeps = case.has(&["--remove-destination"]) && verdict.standard.errors().contains(" for reading: ");
    if case.writes_to_devices() || keeps {
        verdict.compare_words_only();
    }
    (!verdict.complaints.is_empty()).then(|| verdict.report())
}

#[test]
fn foreign_command_lines_do_as_with_gnu_cp() {
    require!(CopyProgram::needs_gnu(), needs::root());
    let tools = Sandbox::on_disk().unwrap();
    let mut duel = Duel::with_gnu(program!()).unwrap();
    duel.judged = duel.judged.publish(tools.path()).unwrap();
    let seed = random::seed("foreign command lines", Some(SEED));
    let cases = needs::count_from("HAUL_CASES", if needs::is_full_run() { 7000 } else { 300 });
    let only = std::env::var("HAUL_CASE").ok().and_then(|number| number.parse().ok());
    let numbers = only.map_or(0..cases as u64, |number: u64| number..number + 1);
    let mut different = Vec::new();
    for number in numbers {
        let case = Case::new(seed.wrapping_mul(1_000_003).wrapping_add(number));
        if let Some(report) = differences(&duel, &case) {
            different.push(format!("case {number}: {case:?}\n{report}"));
        }
    }
    note!("{cases} foreign command lines, {} different from GNU cp", different.len());
    assert!(different.is_empty(), "HAUL_SEED={seed}\n{}", different.join("\n"));
}
