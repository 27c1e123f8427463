//! One tree with every kind of object that a Linux file system can hold.
//!
//! It is copied on every file system by every engine, and compared with GNU cp's copy. Each node is
//! here because some copier got it wrong: holes at the start, middle and end; sizes around a block
//! and a buffer; hard links across directories and to special files; set-ID and sticky bits;
//! unreadable modes; capabilities; ACLs and default ACLs; times before 1970 and after 2038; names
//! of arbitrary bytes.

use crate::spec::{EntrySpec, PieceSpec, Spec, SpecKind, acl};

/// Attribute that holds a POSIX ACL.
pub const ACCESS_ACL: &str = "system.posix_acl_access";
/// Attribute that holds a directory's default ACL, inherited by new entries.
pub const DEFAULT_ACL: &str = "system.posix_acl_default";
/// Attribute that holds file capabilities.
pub const CAPABILITY: &str = "security.capability";

/// Describes the tree.
pub fn spec() -> Spec {
    let mut nodes = directories();
    nodes.extend(regular_files());
    nodes.extend(sparse_files());
    nodes.extend(modes_and_owners());
    nodes.extend(special_files());
    nodes.extend(attributes());
    nodes.extend(odd_names());
    nodes.extend(times());
    nodes.extend(hard_links());
    Spec { nodes }
}

/// Returns names that break programs that treat names as text.
pub fn odd_name_list() -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = vec![
        b"-rf".to_vec(),
        b"--help".to_vec(),
        b" leading and trailing ".to_vec(),
        b"new\nline".to_vec(),
        b"tab\tand\rreturn".to_vec(),
        b"escape\x1b[31mred".to_vec(),
        b"quote'quote".to_vec(),
        b"double\"quote".to_vec(),
        b"back\\slash".to_vec(),
        b"$HOME `id` *?[a]".to_vec(),
        b"...".to_vec(),
        b"~".to_vec(),
        b"not-\xff\xfe-utf8".to_vec(),
        b"\xc3\x28".to_vec(),
        "unicode \u{202e} \u{1f600} e\u{301}".as_bytes().to_vec(),
        b"\x01\x7f".to_vec(),
        vec![b'n'; 255],
        vec![0xfe; 255],
    ];
    // Every byte that a name can contain (254 of them), in two names. Each ends in a letter: GNU cp
    // 9.1 misprints a name that contains an apostrophe and ends in an escaped byte.
    let all: Vec<u8> = (1..=255).filter(|byte| *byte != b'/').collect();
    names.extend(all.chunks(127).map(|bytes| [bytes, b"z"].concat()));
    names
}

// Directories are numbered from 1 in this order; the root is 0.
const SUB: usize = 1;
const DEEP: usize = 3;
const ODD: usize = 4;

fn directories() -> Vec<EntrySpec> {
    vec![
        EntrySpec::new(0, "sub", SpecKind::Directory).modified(1_111_111_111, 1),
        EntrySpec::new(SUB, "sub", SpecKind::Directory).mode(0o700),
        EntrySpec::new(2, "deep", SpecKind::Directory).modified(999_999_999, 999_999_999),
        EntrySpec::new(0, "odd", SpecKind::Directory),
        EntrySpec::new(0, "empty", SpecKind::Directory).modified(1, 2),
        EntrySpec::new(0, "sticky", SpecKind::Directory).mode(0o1777),
        EntrySpec::new(0, "setgid", SpecKind::Directory).mode(0o2750).owner(3, 4),
        EntrySpec::new(0, "closed", SpecKind::Directory).mode(0),
        EntrySpec::file(8, "inside", 77, 100).mode(0),
    ]
}

fn regular_files() -> Vec<EntrySpec> {
    const SIZES: [u64; 15] = [
        0, 1, 511, 512, 4095, 4096, 4097, 65_535, 65_536, 131_071, 131_073, 262_144, 1_048_575, 1_048_577,
        3_000_001,
    ];
    SIZES.iter().map(|&bytes| EntrySpec::file(0, format!("size-{bytes}"), bytes + 5, bytes)).collect()
}

fn sparse_files() -> Vec<EntrySpec> {
    let data = |bytes| PieceSpec::Data { seed: 9, bytes };
    let file = |name: &str, pieces: &[PieceSpec]| EntrySpec::new(DEEP, name, SpecKind::File(pieces.to_vec()));
    vec![
        file("hole-only", &[PieceSpec::Hole(5_000_000)]),
        file("hole-huge", &[data(10), PieceSpec::Hole(100 << 30), data(10)]),
        file("hole-first", &[PieceSpec::Hole(1 << 20), data(5000)]),
        file("hole-last", &[data(5000), PieceSpec::Hole(1 << 20)]),
        file("hole-last-unaligned", &[data(70_000), PieceSpec::Hole(77_777)]),
        file(
            "hole-middle",
            &[data(65_536), PieceSpec::Hole(1 << 20), data(65_536), PieceSpec::Hole(1 << 20), data(1)],
        ),
        file("hole-many", &[[data(4096), PieceSpec::Hole(65_536)]; 20].concat()),
        file("zeros-not-holes", &[PieceSpec::Zeros(300_000), data(3)]),
    ]
}

fn modes_and_owners() -> Vec<EntrySpec> {
    let mut nodes: Vec<EntrySpec> =
        [0, 0o111, 0o200, 0o400, 0o644, 0o666, 0o777, 0o1644, 0o2755, 0o4711, 0o6777, 0o7000]
            .iter()
            .map(|&mode| EntrySpec::file(SUB, format!("mode-{mode:04o}"), 3, 40).mode(mode))
            .collect();
    nodes.push(EntrySpec::file(SUB, "owner", 4, 40).owner(65_534, 7).mode(0o640));
    nodes.push(EntrySpec::file(SUB, "owner-setuid", 4, 40).owner(12_345, 54_321).mode(0o6755));
    nodes.push(EntrySpec::new(SUB, "owner-link", SpecKind::Symlink(b"owner".to_vec())).owner(8, 9));
    nodes
}

fn special_files() -> Vec<EntrySpec> {
    let link = |name: &str, leads_to: &[u8]| EntrySpec::new(SUB, name, SpecKind::Symlink(leads_to.to_vec()));
    vec![
        EntrySpec::new(0, "fifo", SpecKind::Fifo).mode(0o620),
        EntrySpec::new(0, "socket", SpecKind::Socket).mode(0o755),
        EntrySpec::new(0, "character", SpecKind::CharacterDevice(1, 3)).mode(0o666).owner(0, 6),
        EntrySpec::new(0, "block", SpecKind::BlockDevice(7, 200)).mode(0o660),
        link("link-file", b"../size-4096").modified(1_500_000_000, 5),
        link("link-directory", b"sub/deep"),
        link("link-dangling", b"no/such/thing"),
        link("link-absolute", b"/etc/hostname"),
        link("link-self", b"link-self"),
        link("link-up", b"../.."),
        link("link-bytes", b"\xff\n'\x01"),
        link("link-long", &[b'x'; 1000]),
    ]
}

fn attributes() -> Vec<EntrySpec> {
    // The kernel's format of `cap_net_raw+ep`, revision 2.
    let capability: [u8; 20] = [1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    vec![
        EntrySpec::file(0, "attributes", 6, 100)
            .attribute("user.plain", "value")
            .attribute("user.empty", "")
            .attribute("user.binary", (0..=255).collect::<Vec<u8>>())
            .attribute("user.long", vec![b'v'; 2000])
            .attribute("trusted.haul", "only root sees this"),
        EntrySpec::file(0, "capability", 7, 100).mode(0o755).owner(5, 5).attribute(CAPABILITY, capability),
        EntrySpec::file(0, "acl", 8, 100).mode(0o640).attribute(ACCESS_ACL, acl(0o640, 1, 6)),
        EntrySpec::file(0, "acl-closed", 8, 100).mode(0o600).attribute(ACCESS_ACL, acl(0o600, 65_534, 4)),
        EntrySpec::new(0, "acl-default", SpecKind::Directory)
            .mode(0o750)
            .attribute(ACCESS_ACL, acl(0o750, 2, 5))
            .attribute(DEFAULT_ACL, acl(0o750, 3, 7)),
        // The ninth directory. Entries copied into it must not inherit its default ACL.
        EntrySpec::file(9, "below-default", 8, 100).mode(0o600),
        EntrySpec::new(9, "directory", SpecKind::Directory).mode(0o700),
        EntrySpec::new(9, "fifo", SpecKind::Fifo).mode(0o600),
        EntrySpec::new(0, "attributes-directory", SpecKind::Directory).attribute("user.directory", "yes"),
        EntrySpec::new(0, "attributes-link", SpecKind::Symlink(b"attributes".to_vec()))
            .attribute("trusted.link", "yes"),
        EntrySpec::file(0, "attributes-read-only", 6, 100)
            .mode(0o444)
            .attribute("user.kept", "although read-only"),
    ]
}

fn odd_names() -> Vec<EntrySpec> {
    let names = odd_name_list();
    let mut nodes: Vec<EntrySpec> =
        names.iter().zip(100..).map(|(name, seed)| EntrySpec::file(ODD, name.clone(), seed, 33)).collect();
    // Nested directories with names of maximum length, to overflow fixed-size path buffers.
    nodes.push(EntrySpec::new(DEEP, vec![b'd'; 255], SpecKind::Directory));
    nodes.push(EntrySpec::new(12, vec![0xff; 255], SpecKind::Directory));
    nodes.push(EntrySpec::file(13, b"-\xff\n", 5, 5));
    nodes
}

fn times() -> Vec<EntrySpec> {
    let file =
        |name: &str, seconds, nanoseconds| EntrySpec::file(DEEP, name, 2, 20).modified(seconds, nanoseconds);
    vec![
        file("time-epoch", 0, 0),
        file("time-before-epoch", -86_400, 500_000_000),
        file("time-old", -2_000_000_000, 999_999_999),
        file("time-2038", 2_147_483_648, 1),
        file("time-2100", 4_102_444_800, 999_999_999),
    ]
}

fn hard_links() -> Vec<EntrySpec> {
    let link = |parent, name: &str, which| EntrySpec::new(parent, name, SpecKind::HardLink(which));
    vec![
        // 0 is `closed/inside`, 15 is `size-3000001`; see the order of the lists above.
        link(0, "twin-0", 0),
        link(SUB, "twin-1", 3),
        link(DEEP, "twin-2", 3),
        link(6, "twin-3", 3),
        link(ODD, "twin-large", 15),
        link(0, "twin-sparse", 20),
        link(ODD, "twin-setuid", 33),
        link(SUB, "twin-fifo", 39),
        link(DEEP, "twin-socket", 40),
        link(DEEP, "twin-link", 43),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Facts, SnapshotKind as Found};
    use crate::{Sandbox, Snapshot};

    #[test]
    fn the_tree_holds_what_its_description_promises() {
        let sandbox = Sandbox::in_memory().unwrap();
        let root = sandbox.join("tree");
        spec().build(&root).unwrap();
        if crate::needs::root().is_some() {
            return;
        }
        let snapshot = Snapshot::take(&root, Facts::all()).unwrap();
        let kinds: std::collections::BTreeSet<_> =
            snapshot.entries().values().map(|entry| entry.kind).collect();
        assert_eq!(kinds.len(), 7, "{kinds:?}");
        let linked =
            |kind| snapshot.entries().values().filter(|e| e.kind == kind && e.group.is_some()).count();
        assert_eq!(linked(Found::Fifo), 2);
        assert_eq!(linked(Found::Socket), 2);
        assert_eq!(linked(Found::Symlink), 2);
        assert!(linked(Found::File) >= 10);
        assert!(snapshot.entries()[b"acl-default/below-default".as_slice()].attributes.is_empty());
        assert!(snapshot.entries()[b"acl".as_slice()].attributes.contains_key(ACCESS_ACL.as_bytes()));
        assert_eq!(snapshot.entries()[b"sub/mode-6777".as_slice()].mode, 0o6777);
        assert!(snapshot.entries()[b"sub/sub/deep/hole-many".as_slice()].extents.len() >= 20);
    }
}
