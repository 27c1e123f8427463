//! Random cases: the contents of the directory, and the operands.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use haul_testkit::everything::{ACCESS_ACL, DEFAULT_ACL};
use haul_testkit::program::matrix;
use haul_testkit::spec::{EntrySpec, PieceSpec, Spec, SpecKind, acl};
use haul_testkit::{Facts, Release};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::options::{Choices, choices};

#[derive(Clone, Debug)]
pub(crate) struct Case {
    source: Vec<EntrySpec>,
    second: Vec<EntrySpec>,
    target: Target,
    pub(crate) choices: Choices,
    operands: Vec<&'static str>,
    destination: Destination,
    pub(crate) way: Vec<&'static str>,
}

#[derive(Clone, Debug)]
enum Target {
    /// `target`, which doesn't exist.
    Absent,
    /// `target`, a file.
    File(EntrySpec),
    /// `target`, a directory.
    Tree(Vec<EntrySpec>),
    /// `target`, a directory of hard links to the source's entries, as if it had been copied into
    /// and onto it.
    Linked,
    /// A name of a source, or of a link to one.
    Source(&'static str),
}

#[derive(Clone, Copy, Debug)]
enum Destination {
    Last,
    LastWithSlash,
    Option,
}

const NAMES: [&[u8]; 9] = [b"a", b"b", b"c", b"d", b"e", b"f", b"-r", b"\xff\xfe", b"new\nline"];
const BACKUPS: [&[u8]; 7] = [b"a~", b"b~", b"a.~1~", b"b.~7~", b"c.~10~", b"a.bak", b"d.~1~~"];
const MODES: [u32; 10] = [0o644, 0o600, 0o755, 0o700, 0o444, 0o777, 0, 0o4755, 0o2775, 0o1777];

const OPERANDS: [&str; 13] = [
    "src/",
    "src/.",
    "second",
    "second/.",
    "src/a",
    "second/b",
    "src/a/b",
    "src/a/",
    "second//c/d",
    "file",
    "file/",
    "link",
    "file~",
];
/// Entries of one tree, for `--parents`.
const PARTS: [&str; 7] = ["src/a", "src/b", "src/a/b", "src/c/d/e", "./src/d", "src/./e", "src/f/../f"];
/// Names of the files copied in this kind of case, and of links to them.
const SAME: [&str; 8] = ["file", "./file", "hard", "link", "hard-link", "link-to-link", "file~", "dangling"];

/// Modification time that entries share, so that some targets are as old as their source.
const USUAL_TIME: (i64, u32) = (1_234_567_890, 123_456_789);

/// Returns option sets for haul, one of which is chosen per case: every engine with every kind of
/// operation, and some switches. Small blocks give files several.
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

fn pieces() -> impl Strategy<Value = Vec<PieceSpec>> {
    let piece = prop_oneof![
        4 => (any::<u64>(), 1..20_000u64).prop_map(|(seed, bytes)| PieceSpec::Data { seed, bytes }),
        1 => (1..300_000u64).prop_map(PieceSpec::Hole),
        1 => (1..100_000u64).prop_map(PieceSpec::Zeros),
    ];
    vec(piece, 0..4)
}

/// Kinds of entries in a tree, with possible names.
///
/// Special files and hard links have names of their own, so that no operand or symbolic link leads
/// to one.
fn kind(links: bool) -> impl Strategy<Value = (SpecKind, Vec<u8>)> {
    let leads_to = ["a", "b", "a/b", "c/d", "../b", "../e", ".", "nowhere", "f"];
    let own_name = |letter: &'static str| (0..4).prop_map(move |n| format!("{letter}{n}").into_bytes());
    prop_oneof![
        6 => name().prop_map(|name| (SpecKind::Directory, name)),
        9 => (pieces(), name()).prop_map(|(pieces, name)| (SpecKind::File(pieces), name)),
        3 => (prop::sample::select(leads_to.to_vec()), name())
            .prop_map(|(to, name)| (SpecKind::Symlink(to.into()), name)),
        if links { 3 } else { 0 } => (0..20usize, own_name("h")).prop_map(|(which, name)| (SpecKind::HardLink(which), name)),
        1 => own_name("p").prop_map(|name| (SpecKind::Fifo, name)),
        1 => own_name("s").prop_map(|name| (SpecKind::Socket, name)),
        1 => own_name("c").prop_map(|name| (SpecKind::CharacterDevice(1, 3), name)),
        1 => own_name("d").prop_map(|name| (SpecKind::BlockDevice(7, 200), name)),
    ]
}

fn node(kind: impl Strategy<Value = (SpecKind, Vec<u8>)>) -> impl Strategy<Value = EntrySpec> {
    let mode = prop::sample::select(&MODES[..]);
    let owner = prop::option::weighted(0.3, (0..3u32, 0..3u32));
    // A shared time makes some targets as old as their source.
    let modified = prop_oneof![
        1 => Just(USUAL_TIME),
        2 => (-1_000_000..1_600_000_000i64, 0..1_000_000_000u32),
    ];
    (0..8usize, kind, mode, owner, modified, 0..12u32).prop_map(
        |(parent, (kind, name), mode, owner, modified, extra)| {
            let plain = matches!(kind, SpecKind::File(_) | SpecKind::Directory);
            let directory = kind == SpecKind::Directory;
            let mut node = EntrySpec::new(parent, name, kind).mode(mode).modified(modified.0, modified.1);
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

/// Entries of a target tree: each link leads to a file of its own outside the target, or nowhere.
fn target_tree() -> impl Strategy<Value = Vec<EntrySpec>> {
    let backup = || prop::sample::select(&BACKUPS[..]).prop_map(<[u8]>::to_vec);
    let kind = prop_oneof![
        8 => name().prop_map(|name| (SpecKind::Directory, name)),
        12 => (pieces(), name()).prop_map(|(pieces, name)| (SpecKind::File(pieces), name)),
        4 => (pieces(), backup()).prop_map(|(pieces, name)| (SpecKind::File(pieces), name)),
        1 => backup().prop_map(|name| (SpecKind::Directory, name)),
        2 => name().prop_map(|name| (SpecKind::Symlink(b"dangling".to_vec()), name)),
        4 => name().prop_map(|name| (SpecKind::Symlink(Vec::new()), name)),
        1 => name().prop_map(|name| (SpecKind::Fifo, name)),
        1 => name().prop_map(|name| (SpecKind::Socket, name)),
        1 => name().prop_map(|name| (SpecKind::CharacterDevice(1, 3), name)),
    ];
    vec(node(kind), 0..10).prop_map(|mut nodes| {
        for (index, node) in nodes.iter_mut().enumerate() {
            node.mode &= 0o777;
            if node.kind == SpecKind::Symlink(Vec::new()) {
                // A relative link works at the top level only.
                node.parent = 0;
                node.kind = SpecKind::Symlink(format!("../outside-{index}").into_bytes());
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
        2 => vec(prop::sample::select(&OPERANDS[..]), 3),
        2 => vec(prop::sample::select(&PARTS[..]), 1..4),
        1 => Just(vec!["missing"]),
        1 => Just(vec!["missing", "src"]),
    ]
}

/// Source, second source, target and operands.
type Ground = (Vec<EntrySpec>, Vec<EntrySpec>, Target, Vec<&'static str>);

fn ground() -> impl Strategy<Value = Ground> {
    let fresh = (
        vec(node(kind(true)), 0..16),
        vec(node(kind(true)), 0..5),
        prop_oneof![Just(Target::Absent), Just(Target::Tree(Vec::new()))],
        operands(),
    );
    let target = prop_oneof![
        1 => (pieces(), prop::sample::select(&MODES[..])).prop_map(|(pieces, mode)| {
            Target::File(EntrySpec::new(0, "target", SpecKind::File(pieces)).mode(mode & 0o777))
        }),
        5 => target_tree().prop_map(Target::Tree),
    ];
    let onto = (vec(node(kind(false)), 0..16), vec(node(kind(false)), 0..5), target, operands());
    // Nothing else is copied: a write through one name would change what is read through another.
    let onto_links = (
        vec(node(kind(false)), 1..16),
        Just(Vec::new()),
        Just(Target::Linked),
        prop::sample::select(&["src", "src/.", "src/a"][..]).prop_map(|operand| vec![operand]),
    );
    let onto_itself = (
        Just(Vec::new()),
        Just(Vec::new()),
        prop_oneof![3 => prop::sample::select(&SAME[..]), 1 => Just(".")].prop_map(Target::Source),
        vec(prop::sample::select(&SAME[..]), 1..3),
    );
    prop_oneof![
        5 => fresh,
        6 => onto,
        1 => onto_links,
        2 => onto_itself,
    ]
}

/// Generates cases for which this release of GNU cp has an answer.
pub(crate) fn case(release: Release) -> impl Strategy<Value = Case> {
    let places = vec![
        Destination::Last,
        Destination::Last,
        Destination::Last,
        Destination::LastWithSlash,
        Destination::Option,
    ];
    (ground(), choices(release), prop::sample::select(places), prop::sample::select(ways()))
        .prop_map(|((source, second, target, operands), choices, destination, way)| {
            let mut case = Case { source, second, target, choices, operands, destination, way };
            case.leave_out_special_files();
            if matches!(case.target, Target::Source("dangling")) {
                // Under `-f`, GNU cp reports the failure of its fallback if the name can't be
                // created at all.
                case.destination = Destination::Last;
            }
            case
        })
        .prop_filter("one source is in another", |case| !case.overlaps())
}

impl Case {
    /// True if one operand may lie inside another.
    fn overlaps(&self) -> bool {
        let count_alike = |key: &dyn Fn(&str) -> Vec<String>| {
            let keys: Vec<_> = self.operands.iter().map(|operand| key(operand)).collect();
            keys.iter().enumerate().any(|(index, one)| {
                keys[index + 1..].iter().any(|other| one.starts_with(other) || other.starts_with(one))
            })
        };
        let parts = |operand: &str| {
            let mut parts: Vec<String> = Vec::new();
            for part in operand.split('/').filter(|part| !matches!(*part, "" | ".")) {
                if part == ".." {
                    parts.truncate(parts.len().saturating_sub(1))
                } else {
                    parts.push(part.to_owned())
                }
            }
            parts
        };
        let top = |operand: &str| parts(operand).into_iter().take(1).collect();
        match self.target {
            // These are files, so nothing lies inside them.
            Target::Source(_) => false,
            // A component may be a link into another operand.
            _ if self.choices.follows() || !self.choices.is_recursive() => count_alike(&top),
            _ => count_alike(&parts),
        }
    }

    /// True if making room may remove what is to be copied: through a link, or by the second of two
    /// equal operands.
    pub(crate) fn loses_its_source(&self) -> bool {
        let names_a_link = |operand: &&str| operand.contains("link");
        let onto_itself = matches!(self.target, Target::Source(_));
        onto_itself
            && (self.choices.backs_up() || self.choices.any(&["--remove-destination"]))
            && (self.operands.len() > 1 || self.operands.iter().any(names_a_link))
    }

    /// Removes special files that would block the copy, or that GNU cp would give a
    /// file's attributes.
    fn leave_out_special_files(&mut self) {
        let leave_out =
            |nodes: &mut Vec<EntrySpec>, kinds: &[SpecKind]| nodes.retain(|node| !kinds.contains(&node.kind));
        if self.choices.any(&["--copy-contents"]) {
            let all = [
                SpecKind::Fifo,
                SpecKind::Socket,
                SpecKind::CharacterDevice(1, 3),
                SpecKind::BlockDevice(7, 200),
            ];
            let kinds = if matches!(self.target, Target::Linked) { &all[..] } else { &all[..1] };
            leave_out(&mut self.source, kinds);
            leave_out(&mut self.second, kinds);
        }
        match &mut self.target {
            Target::Tree(nodes) if !self.choices.opens_no_target() => {
                leave_out(nodes, &[SpecKind::Fifo, SpecKind::CharacterDevice(1, 3)]);
            }
            _ => {}
        }
    }

    pub(crate) fn prepare(&self, folder: &Path) -> io::Result<()> {
        let link = |name: &str, leads_to: &str| EntrySpec::new(0, name, SpecKind::Symlink(leads_to.into()));
        let mut around = vec![
            EntrySpec::file(0, "file", 1, 5000).mode(0o640).owner(1, 2),
            link("link", "file"),
            EntrySpec::new(0, "hard", SpecKind::HardLink(0)),
            EntrySpec::new(0, "hard-link", SpecKind::HardLink(1)),
            link("link-to-link", "link"),
            link("dangling", "not-there"),
            EntrySpec::file(0, "file~", 2, 4000),
        ];
        around.extend((0..10).map(|index| match index % 3 {
            0 => EntrySpec::new(0, format!("outside-{index}"), SpecKind::Directory),
            _ => EntrySpec::file(0, format!("outside-{index}"), index, 100 * index),
        }));
        Spec { nodes: around }.build(folder)?;
        Spec { nodes: self.source.clone() }.build(&folder.join("src"))?;
        Spec { nodes: self.second.clone() }.build(&folder.join("second"))?;
        match &self.target {
            Target::Absent | Target::Source(_) => Ok(()),
            Target::File(node) => Spec { nodes: vec![node.clone()] }.build(folder),
            Target::Tree(nodes) => Spec { nodes: nodes.clone() }.build(&folder.join("target")),
            Target::Linked => {
                let target = folder.join("target");
                link_all(&folder.join("src"), &target)?;
                if self.operands != ["src"] {
                    return Ok(());
                }
                link_all(&folder.join("src"), &target.join("src"))
            }
        }
    }

    /// True if a dry run can say what the copy will do.
    pub(crate) fn can_be_foreseen(&self) -> bool {
        let excluded = ["-i", "--reflink=always", "--copy-contents"];
        self.operands.len() == 1 && !self.choices.any(&excluded) && !self.loses_its_source()
    }

    /// Returns the facts to compare. With `lists_stay`, one of the programs keeps the ACLs of files
    /// that it overwrites.
    pub(crate) fn facts(&self, lists_stay: bool) -> Facts {
        let has_list =
            |node: &EntrySpec| node.attributes.iter().any(|(name, _)| name == ACCESS_ACL.as_bytes());
        let list_in_target = match &self.target {
            Target::Tree(nodes) => nodes.iter().any(has_list),
            Target::File(node) => has_list(node),
            _ => false,
        };
        let unlike = self.choices.follows() || (lists_stay && list_in_target);
        if unlike { Facts::PRESERVED - Facts::ATTRIBUTES } else { Facts::PRESERVED }
    }

    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let target = match self.target {
            Target::Source(name) => name.to_owned(),
            _ => "target".to_owned(),
        };
        let mut words: Vec<String> = self.choices.options.iter().map(|&option| option.to_owned()).collect();
        let operands = self.operands.iter().map(|&operand| operand.to_owned());
        match self.destination {
            Destination::Option => {
                words.extend(["-t".to_owned(), target]);
                words.extend(operands);
            }
            Destination::Last => words.extend(operands.chain([target])),
            Destination::LastWithSlash => words.extend(operands.chain([format!("{target}/")])),
        }
        words.into_iter().map(OsString::from).collect()
    }
}

/// Recreates the directories of `source` in a new `target`, with hard links to all other entries.
fn link_all(source: &Path, target: &Path) -> io::Result<()> {
    fs::create_dir(target)?;
    for entry in fs::read_dir(source)? {
        let entry = entry?;
        let to = target.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            link_all(&entry.path(), &to)?;
        } else {
            fs::hard_link(entry.path(), &to)?;
        }
    }
    Ok(())
}
