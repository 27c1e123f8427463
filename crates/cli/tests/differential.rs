//! Random trees, random options: the same as GNU cp.
//!
//! Each case is a source tree, a place to copy to, one or two operands and a handful of options. GNU cp and the program under
//! test run on it side by side; status, messages and the folders afterwards must be the same. A failing case is shrunk by
//! leaving entries and options out. The seed is printed; `HAUL_SEED` repeats a run or, as
//! `new`, makes one nobody has seen; `HAUL_CASES` sets the number of cases.
//!
//! Left out on purpose, because GNU cp gives no answer to compare with:
//! - FIFOs and devices in the target, and as operands without `-r`: GNU cp waits for a partner, or reads for ever.
//! - Two names of the target that lead to one file (links), and hard links in a source copied onto what is there: what is
//!   printed and kept then depends on the order in which a directory is read.
//! - Two operands of which one is in the other: GNU cp copies or refuses directories by the order in which it meets them.
//! - Symbolic links that lead out of the source: under `-L` they may reach the target while it grows.
//!
//! And because GNU cp is wrong:
//! - Set-id and sticky bits in the target: GNU cp 9.1 leaves them on a file it writes over with `--preserve=mode`, which gives
//!   the new content the old one's rights.
//! - Attributes of directories behind links (`-L`, `-H`): GNU cp looks for them on the link and finds none.
//! - `--reflink=always` where it fails: GNU cp left an empty file until release 9.2.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::cell::Cell;
use std::ffi::OsString;
use std::io;
use std::path::Path;

use haul_testkit::duel::Duel;
use haul_testkit::everything::{ACCESS_ACL, DEFAULT_ACL};
use haul_testkit::program::matrix;
use haul_testkit::spec::{Kind, Node, Piece, Spec, acl};
use haul_testkit::{Facts, Program, needs, note, program, require};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

/// One situation.
#[derive(Clone, Debug)]
struct Case {
    source: Vec<Node>,
    second: Vec<Node>,
    target: Target,
    recursion: Option<&'static str>,
    options: Vec<&'static str>,
    operands: Vec<&'static str>,
    destination: Destination,
    way: Vec<&'static str>,
}

#[derive(Clone, Debug)]
enum Target {
    Absent,
    File(Node),
    Tree(Vec<Node>),
}

/// How the target stands on the command line.
#[derive(Clone, Copy, Debug)]
enum Destination {
    Last,
    LastWithSlash,
    Option,
}

const NAMES: [&[u8]; 9] = [b"a", b"b", b"c", b"d", b"e", b"f", b"-r", b"\xff\xfe", b"new\nline"];
const MODES: [u32; 10] = [0o644, 0o600, 0o755, 0o700, 0o444, 0o777, 0, 0o4755, 0o2775, 0o1777];

const RECURSIONS: [&str; 7] = ["-r", "-R", "-a", "-a", "-dr", "-rL", "-rp"];

const OPTIONS: [&str; 32] = [
    "-p",
    "-d",
    "-P",
    "-L",
    "-H",
    "-f",
    "-n",
    "-v",
    "-v",
    "-x",
    "-T",
    "-l",
    "-s",
    "--preserve",
    "--preserve=mode",
    "--preserve=ownership",
    "--preserve=timestamps",
    "--preserve=links",
    "--preserve=xattr",
    "--preserve=all",
    "--no-preserve=mode",
    "--no-preserve=ownership",
    "--no-preserve=timestamps",
    "--no-preserve=links",
    "--no-preserve=xattr",
    "--no-preserve=all",
    "--sparse=auto",
    "--sparse=always",
    "--sparse=never",
    "--reflink=auto",
    "--reflink=never",
    "--no-dereference",
];

const OPERANDS: [&str; 8] = ["src/", "src/.", "second", "second/.", "src/a", "second/b", "file", "link"];

/// Gives the ways to run haul, of which each case has one: every engine in every way of its operations, and some switches.
/// Blocks are short, so that files have several.
fn ways() -> Vec<Vec<&'static str>> {
    let usual = [
        &["--engine=sync", "-j1"][..],
        &["--engine=sync", "-j4"],
        &["--engine=io-uring", "-j1"],
        &["--engine=io-uring", "-j4", "--look-ahead=3"],
        &["--drop-cache", "--fallocate", "--no-advise", "--no-readahead", "--block-size=4K"],
        &["--direct", "--no-directory-first", "--no-inode-order"],
        &["--engine=io-uring", "--registered-buffers", "--direct-descriptors", "--block-size=4K"],
        &["--engine=kernel-aio", "--ops=multi", "--drop-cache", "--block-size=4K"],
    ];
    matrix().into_iter().chain(usual.map(<[_]>::to_vec)).collect()
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(&NAMES[..]).prop_map(<[u8]>::to_vec)
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let piece = prop_oneof![
        4 => (any::<u64>(), 1..20_000u64).prop_map(|(seed, bytes)| Piece::Data { seed, bytes }),
        1 => (1..300_000u64).prop_map(Piece::Hole),
        1 => (1..100_000u64).prop_map(Piece::Zeros),
    ];
    vec(piece, 0..4)
}

/// Gives the kinds a tree may hold, with the names they may have.
///
/// Special files and hard links have names of their own, so that neither an operand nor a symbolic link leads to one.
fn kind(links: bool) -> impl Strategy<Value = (Kind, Vec<u8>)> {
    let leads_to = ["a", "b", "a/b", "c/d", "../b", "../e", ".", "nowhere", "f"];
    let own_name = |letter: &'static str| (0..4).prop_map(move |n| format!("{letter}{n}").into_bytes());
    prop_oneof![
        6 => name().prop_map(|name| (Kind::Directory, name)),
        9 => (pieces(), name()).prop_map(|(pieces, name)| (Kind::File(pieces), name)),
        3 => (prop::sample::select(leads_to.to_vec()), name())
            .prop_map(|(to, name)| (Kind::Symlink(to.into()), name)),
        if links { 3 } else { 0 } => (0..20usize, own_name("h")).prop_map(|(which, name)| (Kind::HardLink(which), name)),
        1 => own_name("p").prop_map(|name| (Kind::Fifo, name)),
        1 => own_name("s").prop_map(|name| (Kind::Socket, name)),
        1 => own_name("c").prop_map(|name| (Kind::CharacterDevice(1, 3), name)),
        1 => own_name("d").prop_map(|name| (Kind::BlockDevice(7, 200), name)),
    ]
}

fn node(kind: impl Strategy<Value = (Kind, Vec<u8>)>) -> impl Strategy<Value = Node> {
    let mode = prop::sample::select(&MODES[..]);
    let owner = prop::option::weighted(0.3, (0..3u32, 0..3u32));
    let modified = (-1_000_000..1_600_000_000i64, 0..1_000_000_000u32);
    (0..8usize, kind, mode, owner, modified, 0..12u32).prop_map(
        |(parent, (kind, name), mode, owner, modified, extra)| {
            let plain = matches!(kind, Kind::File(_) | Kind::Directory);
            let directory = kind == Kind::Directory;
            let mut node = Node::new(parent, name, kind).mode(mode).modified(modified.0, modified.1);
            node.owner = owner;
            match extra {
                0 if plain => node.attribute("user.kept", "value"),
                1 if plain => node.attribute(ACCESS_ACL, acl(mode, 7, 5)),
                2 if directory => node.attribute(DEFAULT_ACL, acl(0o750, 8, 7)),
                _ => node,
            }
        },
    )
}

/// Gives what may lie in the target: links lead to a file each, outside of the target, or nowhere.
fn target_tree() -> impl Strategy<Value = Vec<Node>> {
    let kind = prop_oneof![
        4 => name().prop_map(|name| (Kind::Directory, name)),
        6 => (pieces(), name()).prop_map(|(pieces, name)| (Kind::File(pieces), name)),
        1 => name().prop_map(|name| (Kind::Symlink(b"dangling".to_vec()), name)),
        2 => name().prop_map(|name| (Kind::Symlink(Vec::new()), name)),
    ];
    vec(node(kind), 0..10).prop_map(|mut nodes| {
        for (index, node) in nodes.iter_mut().enumerate() {
            node.mode &= 0o777;
            if node.kind == Kind::Symlink(Vec::new()) {
                // In the target's own directory, so that the link needs no knowledge of its depth.
                node.parent = 0;
                node.kind = Kind::Symlink(format!("../outside-{index}").into_bytes());
            }
        }
        nodes
    })
}

fn operands() -> impl Strategy<Value = Vec<&'static str>> {
    prop_oneof![
        6 => Just(vec!["src"]),
        4 => vec(prop::sample::select(&OPERANDS[..]), 1),
        4 => vec(prop::sample::select(&OPERANDS[..]), 2),
        1 => Just(vec!["missing"]),
        1 => Just(vec!["missing", "src"]),
    ]
}

fn case() -> impl Strategy<Value = Case> {
    let fresh = (
        vec(node(kind(true)), 0..16),
        vec(node(kind(true)), 0..5),
        prop_oneof![Just(Target::Absent), Just(Target::Tree(Vec::new()))],
    );
    let target = prop_oneof![
        1 => (pieces(), prop::sample::select(&MODES[..])).prop_map(|(pieces, mode)| {
            Target::File(Node::new(0, "target", Kind::File(pieces)).mode(mode & 0o777))
        }),
        4 => target_tree().prop_map(Target::Tree),
    ];
    let onto = (vec(node(kind(false)), 0..16), vec(node(kind(false)), 0..5), target);
    let places = vec![
        Destination::Last,
        Destination::Last,
        Destination::Last,
        Destination::LastWithSlash,
        Destination::Option,
    ];
    (
        prop_oneof![fresh.boxed(), onto.boxed()],
        prop::option::weighted(0.9, prop::sample::select(&RECURSIONS[..])),
        vec(prop::sample::select(&OPTIONS[..]), 0..5),
        operands(),
        prop::sample::select(places),
        prop::sample::select(ways()),
    )
        .prop_map(|((source, second, target), recursion, options, operands, destination, way)| Case {
            source,
            second,
            target,
            recursion,
            options,
            operands,
            destination,
            way,
        })
        .prop_filter("one source is in another", |case| !case.overlaps())
}

impl Case {
    /// Tells whether two operands name parts of one tree.
    fn overlaps(&self) -> bool {
        let tops: Vec<_> = self.operands.iter().map(|operand| operand.split('/').next()).collect();
        tops.len() > 1 && tops.iter().any(|top| tops.iter().filter(|other| *other == top).count() > 1)
    }

    fn prepare(&self, folder: &Path) -> io::Result<()> {
        let mut around = vec![
            Node::file(0, "file", 1, 5000).mode(0o640).owner(1, 2),
            Node::new(0, "link", Kind::Symlink(b"file".to_vec())),
        ];
        around.extend((0..10).map(|index| match index % 3 {
            0 => Node::new(0, format!("outside-{index}"), Kind::Directory),
            _ => Node::file(0, format!("outside-{index}"), index, 100 * index),
        }));
        Spec { nodes: around }.build(folder)?;
        Spec { nodes: self.source.clone() }.build(&folder.join("src"))?;
        Spec { nodes: self.second.clone() }.build(&folder.join("second"))?;
        match &self.target {
            Target::Absent => Ok(()),
            Target::File(node) => Spec { nodes: vec![node.clone()] }.build(folder),
            Target::Tree(nodes) => Spec { nodes: nodes.clone() }.build(&folder.join("target")),
        }
    }

    /// Says what counts for this case.
    fn facts(&self) -> Facts {
        let follows =
            self.recursion.iter().chain(&self.options).any(|option| ["-L", "-H", "-rL"].contains(option));
        if follows { Facts::PRESERVED - Facts::ATTRIBUTES } else { Facts::PRESERVED }
    }

    fn arguments(&self) -> Vec<OsString> {
        let mut words: Vec<&str> = self.recursion.into_iter().chain(self.options.iter().copied()).collect();
        match self.destination {
            Destination::Option => {
                words.extend(["-t", "target"]);
                words.extend(&self.operands);
            }
            Destination::Last => {
                words.extend(&self.operands);
                words.push("target");
            }
            Destination::LastWithSlash => {
                words.extend(&self.operands);
                words.push("target/");
            }
        }
        words.into_iter().map(OsString::from).collect()
    }
}

/// The seed of a run for which none is given: the same every time, so that a change is judged and not chance.
const SEED: u64 = 20_260_901;

/// Gives the seed of this run: `HAUL_SEED`, which may be `new`.
fn seed() -> u64 {
    let given = std::env::var("HAUL_SEED").unwrap_or_else(|_| SEED.to_string());
    given.parse().unwrap_or_else(|_| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        u64::from(now.subsec_nanos()) ^ (now.as_secs() << 20)
    })
}

fn runner(seed: u64, cases: usize) -> TestRunner {
    let mut bytes = [0u8; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: u32::try_from(cases).unwrap(),
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..Config::default()
    };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

#[test]
fn random_copies_are_the_same_as_gnu_cps() {
    require!(Program::needs_gnu());
    require!(needs::root());
    let duel = Duel::with_gnu(program!()).unwrap();
    let cases = needs::count_from("HAUL_CASES", if needs::is_full_run() { 5000 } else { 400 });
    let seed = seed();
    note!("differential test: HAUL_SEED={seed} HAUL_CASES={cases}");
    let (compared, clean, no_answer) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let result = runner(seed, cases).run(&case(), |case| {
        let own: Vec<OsString> = case.way.iter().map(OsString::from).collect();
        let duel = Duel { facts: case.facts(), ..duel.clone() };
        let verdict = duel.run(&|folder| case.prepare(folder), &case.arguments(), &own);
        let verdict = verdict.map_err(|error| TestCaseError::fail(error.to_string()))?;
        if verdict.standard_hung() {
            no_answer.set(no_answer.get() + 1);
            return Ok(());
        }
        compared.set(compared.get() + 1);
        clean.set(clean.get() + usize::from(verdict.standard.succeeded()));
        if verdict.complaints.is_empty() {
            return Ok(());
        }
        Err(TestCaseError::fail(format!("cp {:?}\n{}", case.arguments(), verdict.report())))
    });
    note!(
        "differential test: {} cases compared, {} of them without an error of GNU cp; in {} GNU cp hung",
        compared.get(),
        clean.get(),
        no_answer.get()
    );
    if let Err(TestError::Fail(reason, case)) = &result {
        panic!("HAUL_SEED={seed}\n{}\nsmallest case: {case:#?}", reason.message());
    }
    result.unwrap();
    assert!(compared.get() >= cases * 9 / 10, "too few cases had an answer");
    assert!(clean.get() * 5 >= cases, "too few cases copied without an error");
}
