//! Random trees from a seed.
//!
//! The same seed and shape give the same tree everywhere. Names come from a small pool, so that
//! two trees collide, from a pool of odd names, and at random. Symbolic links stay inside the
//! tree or dangle: if a link left the tree, the result of a copy that follows it would depend on
//! what is outside.

use crate::everything::{ACCESS_ACL, DEFAULT_ACL, odd_name_list};
use crate::random::{IndexedRandom, Random, Rng, seeded};
use crate::spec::{EntrySpec, PieceSpec, Spec, SpecKind, acl};

/// Limits of a random tree.
#[derive(Clone, Copy, Debug)]
pub struct RandomTreeLimits {
    /// Maximum number of entries; duplicate names are skipped.
    pub entries: usize,
    /// Maximum size of a file, in bytes.
    pub file_bytes_max: u64,
}

impl Default for RandomTreeLimits {
    fn default() -> Self {
        Self { entries: 40, file_bytes_max: 300_000 }
    }
}

/// Returns the tree for a seed.
pub fn tree(seed: u64, shape: RandomTreeLimits) -> Spec {
    let mut random = seeded(seed);
    let odd = odd_name_list();
    let nodes = (0..shape.entries).map(|_| node(&mut random, &odd, shape)).collect();
    Spec { nodes }
}

fn node(random: &mut Random, odd: &[Vec<u8>], shape: RandomTreeLimits) -> EntrySpec {
    let name = match random.random_range(0..10) {
        0..7 => format!("n{}", random.random_range(0..30)).into_bytes(),
        7 => odd.choose(random).cloned().unwrap_or_default(),
        _ => random_name(random),
    };
    let mut node = EntrySpec::new(random.random_range(0..64), name, kind(random, shape));
    if random.random_range(0..4) == 0 {
        node.mode = random.random_range(0..=0o7777);
    }
    if random.random_range(0..4) == 0 {
        node.owner = Some((random.random_range(0..70_000), random.random_range(0..70_000)));
    }
    node.modified =
        (random.random_range(-1_000_000_000..1_600_000_000), random.random_range(0..1_000_000_000));
    if !matches!(node.kind, SpecKind::Symlink(_) | SpecKind::HardLink(_)) {
        decorate(random, &mut node);
    }
    node
}

fn kind(random: &mut Random, shape: RandomTreeLimits) -> SpecKind {
    match random.random_range(0..100) {
        0..25 => SpecKind::Directory,
        25..65 => SpecKind::File(pieces(random, shape.file_bytes_max)),
        65..78 => SpecKind::Symlink(link(random)),
        78..90 => SpecKind::HardLink(random.random_range(0..64)),
        90..93 => SpecKind::Fifo,
        93..96 => SpecKind::Socket,
        96..98 => SpecKind::CharacterDevice(1, random.random_range(3..10)),
        _ => SpecKind::BlockDevice(7, random.random_range(100..120)),
    }
}

fn pieces(random: &mut Random, bytes_max: u64) -> Vec<PieceSpec> {
    let mut left = match random.random_range(0..6) {
        0 => 0,
        1..4 => random.random_range(0..=bytes_max.min(6000)),
        _ => random.random_range(0..=bytes_max),
    };
    let mut pieces = Vec::new();
    while left > 0 {
        let length = if random.random_bool(0.5) { left } else { random.random_range(1..=left) };
        pieces.push(match random.random_range(0..5) {
            0 => PieceSpec::Hole(length),
            1 => PieceSpec::Zeros(length),
            _ => PieceSpec::Data { seed: random.random(), bytes: length },
        });
        left -= length;
    }
    pieces
}

fn link(random: &mut Random) -> Vec<u8> {
    match random.random_range(0..8) {
        0 => b"no/such/name".to_vec(),
        1 => random_name(random),
        _ => format!("n{}", random.random_range(0..30)).into_bytes(),
    }
}

fn random_name(random: &mut Random) -> Vec<u8> {
    let length = random.random_range(1..=40);
    let name: Vec<u8> = (0..length)
        .map(|_| {
            loop {
                let byte = random.random_range(1..=255u8);
                if byte != b'/' {
                    break byte;
                }
            }
        })
        .collect();
    if name == b"." || name == b".." { b"dots".to_vec() } else { name }
}

fn decorate(random: &mut Random, node: &mut EntrySpec) {
    let plain = matches!(node.kind, SpecKind::File(_) | SpecKind::Directory);
    if plain && random.random_range(0..6) == 0 {
        let value: Vec<u8> = (0..random.random_range(0..100)).map(|_| random.random()).collect();
        node.attributes.push((format!("user.a{}", random.random_range(0..5)).into_bytes(), value));
    }
    if plain && random.random_range(0..10) == 0 {
        let raw = acl(node.mode, random.random_range(1..100), random.random_range(0..8));
        node.attributes.push((ACCESS_ACL.into(), raw));
    }
    if node.kind == SpecKind::Directory && random.random_range(0..8) == 0 {
        let raw = acl(0o750, random.random_range(1..100), random.random_range(0..8));
        node.attributes.push((DEFAULT_ACL.into(), raw));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compare_paths;
    use crate::{Facts, Sandbox};

    #[test]
    fn a_seed_is_a_tree() {
        let sandbox = Sandbox::in_memory().unwrap();
        for seed in 0..8 {
            let (a, b) = (sandbox.join(format!("a{seed}")), sandbox.join(format!("b{seed}")));
            tree(seed, RandomTreeLimits::default()).build(&a).unwrap();
            tree(seed, RandomTreeLimits::default()).build(&b).unwrap();
            let facts = Facts::PRESERVED - Facts::DIRECTORY_MODIFIED;
            assert!(compare_paths(&a, &b, facts).unwrap().is_empty(), "seed {seed}");
        }
        assert_ne!(tree(1, RandomTreeLimits::default()), tree(2, RandomTreeLimits::default()));
    }
}
