//! What the sweep copies, and how: trees of one entry of each kind, and options that reach
//! different code.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use haul_testkit::everything::ACCESS_ACL;
use haul_testkit::spec::{EntrySpec, PieceSpec, Spec, SpecKind, acl};

/// Initial state and options of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scene {
    FreshAlone,
    FreshTogether,
    OntoOlder,
    OntoOlderRemoved,
    OntoOlderKept,
    OntoOlderReplaced,
    Staged,
    Verified,
    Resumed,
    Synced,
    Switched,
}

pub(crate) const SCENES: [Scene; 11] = [
    Scene::FreshAlone,
    Scene::FreshTogether,
    Scene::OntoOlder,
    Scene::OntoOlderRemoved,
    Scene::OntoOlderKept,
    Scene::OntoOlderReplaced,
    Scene::Staged,
    Scene::Verified,
    Scene::Resumed,
    Scene::Synced,
    Scene::Switched,
];

impl Scene {
    /// Options of the scene. Long files are copied in the kernel, unless `--reflink=never` leaves
    /// them to the engine.
    pub(crate) fn options(self) -> &'static [&'static str] {
        match self {
            Self::FreshAlone => &["-j1"],
            Self::FreshTogether => &["-j4", "--reflink=never"],
            Self::OntoOlder => &["-j1", "--reflink=never"],
            Self::OntoOlderRemoved => &["-j1", "--reflink=never", "--remove-destination"],
            Self::OntoOlderKept => &["-j1", "--reflink=never", "--backup=simple"],
            Self::OntoOlderReplaced => &["-j1", "--reflink=never", "--atomic", "--fsync=each"],
            Self::Staged => &["-j1", "--reflink=never", "--atomic", "--fsync"],
            Self::Verified => &["-j4", "--verify=both", "--if-changed=retry"],
            Self::Resumed => &["-j1", "--reflink=never", "--resume"],
            Self::Synced => &["-j1", "--reflink=never", "--delete"],
            Self::Switched => &["-j1", "--reflink=never", "--fallocate", "--drop-cache"],
        }
    }

    pub(crate) fn is_onto_older(self) -> bool {
        let scenes = [Self::OntoOlder, Self::OntoOlderRemoved, Self::OntoOlderKept, Self::OntoOlderReplaced];
        scenes.contains(&self) || self == Self::Synced
    }
}

/// The source tree: about a dozen entries, one of each kind that a copier can damage.
pub(crate) fn tree() -> Spec {
    let data = |bytes| PieceSpec::Data { seed: 3, bytes };
    let sparse = vec![data(5000), PieceSpec::Hole(1 << 20), data(70_000), PieceSpec::Hole(300_000)];
    let acl_bytes = acl(0o640, 1, 6);
    Spec {
        nodes: vec![
            EntrySpec::new(0, "outer", SpecKind::Directory).mode(0o750).modified(1_000_000_000, 1),
            EntrySpec::new(1, "inner", SpecKind::Directory)
                .mode(0o1777)
                .modified(1_000_000_001, 2)
                .attribute("user.d", "dir"),
            EntrySpec::new(0, "bare", SpecKind::Directory).mode(0o555),
            EntrySpec::new(2, "sparse", SpecKind::File(sparse)),
            EntrySpec::file(1, "blocks", 4, 300_001).owner(1, 2),
            EntrySpec::file(0, "setuid", 5, 100).mode(0o6755).owner(3, 4),
            EntrySpec::file(2, "attributes", 6, 4096)
                .mode(0o640)
                .attribute("user.a", "b")
                .attribute(ACCESS_ACL, acl_bytes),
            EntrySpec::file(0, b"not-\xff-text".to_vec(), 7, 10),
            EntrySpec::file(0, "nothing", 7, 0).mode(0o400),
            EntrySpec::new(0, "pipe", SpecKind::Fifo).mode(0o620),
            EntrySpec::new(2, "symlink", SpecKind::Symlink(b"../blocks".to_vec())).owner(5, 6),
            EntrySpec::new(0, "socket", SpecKind::Socket),
            EntrySpec::new(2, "linked", SpecKind::HardLink(2)),
            EntrySpec::new(0, "linked-too", SpecKind::HardLink(1)),
        ],
    }
}

/// The older copy in the target: other contents, other modes, and incomplete.
pub(crate) fn older() -> Spec {
    let mut nodes = tree().nodes;
    nodes.retain(|node| !matches!(node.kind, SpecKind::HardLink(_) | SpecKind::Fifo | SpecKind::Socket));
    for node in &mut nodes {
        node.mode = 0o700;
        node.attributes.clear();
        node.owner = None;
        if let SpecKind::File(pieces) = &mut node.kind {
            *pieces = vec![PieceSpec::Data { seed: 99, bytes: 9000 }];
        }
    }
    Spec { nodes }
}

/// A target of which some files only need other attributes, with more than the source has. A
/// directory is where a FIFO is to be.
pub(crate) fn mostly_same() -> Spec {
    let mut nodes = tree().nodes;
    let contents = older().nodes;
    nodes.retain(|node| !matches!(node.kind, SpecKind::HardLink(_) | SpecKind::Fifo | SpecKind::Socket));
    for (node, other) in nodes.iter_mut().zip(contents) {
        node.mode = 0o700;
        node.owner = None;
        node.attributes = match node.kind {
            SpecKind::File(_) | SpecKind::Directory => vec![(b"user.extra".to_vec(), b"x".to_vec())],
            _ => Vec::new(),
        };
        if [&b"sparse"[..], b"blocks"].contains(&node.name.as_slice()) {
            node.kind = other.kind;
        }
    }
    // The fourth and fifth directories, after the root and those of the source.
    nodes.extend(["extra", "pipe"].map(|name| EntrySpec::new(0, name, SpecKind::Directory)));
    nodes.extend([4, 5].map(|parent| EntrySpec::file(parent, "in", 8, 10)));
    nodes.push(EntrySpec::file(1, "extra", 8, 10));
    Spec { nodes }
}

/// Builds a tree, with the directory itself as old as its entries.
pub(crate) fn build_with_age(tree: &Spec, root: &Path) -> io::Result<()> {
    tree.build(root)?;
    fs::File::open(root)?.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000))
}
