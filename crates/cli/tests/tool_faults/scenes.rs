//! Command lines of the sweep, and the tree they work on.

use haul_testkit::spec::{EntrySpec, PieceSpec, Spec, SpecKind};

/// Result of a scene. It decides how the run is judged: see `verdict.rs`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Product {
    /// Lines on standard output about differing pairs of entries, in any order.
    Differences,
    /// Lines on standard output, each starting with its file's name.
    Matches,
    /// Lines on standard output, each a hash and the name of its file.
    Hashes,
    /// The same in the file `SUMS`.
    Manifest,
    /// Verdicts on files on standard output, each a line.
    Verdicts,
    /// The contents of these files on standard output, in this order.
    Contents(&'static [&'static str]),
    /// The blocks of this file on standard output, in order, split at line ends.
    Blocks(&'static str),
    /// One stream on standard output, made from this file.
    Stream(&'static str),
    /// The archive `a.tar` of `tree`.
    Archive,
    /// The same archive on standard output.
    ArchiveStream,
    /// The tree `out`, extracted from this archive.
    Extracted(&'static str),
    /// The files of `packed`, each replaced by its output. The suffix of the outputs, or empty if
    /// the inputs have it.
    Replaced(&'static str),
}

/// A command line and its expected result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    pub(crate) words: &'static [&'static str],
    pub(crate) product: Product,
    /// Exit status without a fault.
    pub(crate) status: i32,
    /// Shell command that prepares the working directory, which has only the tree.
    pub(crate) before: &'static str,
}

impl Scene {
    /// Returns the exit statuses that report a failure, as in GNU's programs.
    pub(crate) fn failed(&self) -> &'static [i32] {
        match self.words[0] {
            "bzip2" | "sum" => &[1],
            // 1: a file changed as it was read.
            "tar" => &[1, 2],
            _ => &[2],
        }
    }
}

const BLOCKS: &str = "tree/outer/inner/blocks";
const CHANGED: &str = "cp -a tree other; for file in one outer/two outer/inner/blocks; do printf x >> other/$file; done; \
                       printf y | dd of=other/outer/sparse bs=1 seek=70000 conv=notrunc; rm other/nothing; \
                       touch other/outer/new; ln -sf elsewhere other/link";

pub(crate) const SCENES: &[Scene] = &[
    Scene {
        name: "cmp of two equal trees",
        words: &["cmp", "--attributes", "tree", "other"],
        product: Product::Differences,
        status: 0,
        before: "cp -a tree other",
    },
    Scene {
        name: "cmp of two whose files all differ",
        words: &["cmp", "-j1", "tree", "other"],
        product: Product::Differences,
        status: 1,
        before: CHANGED,
    },
    Scene {
        name: "cmp of two whose attributes differ",
        words: &["cmp", "-j2", "--attributes", "tree", "other"],
        product: Product::Differences,
        status: 1,
        before: "cp -a tree other; find other -type f -exec chmod 600 {} + -exec setfattr -n user.k -v v {} +; \
                 chmod 711 other/outer other/outer/inner",
    },
    Scene {
        name: "cmp of two files, in ranges",
        words: &["cmp", BLOCKS, "other"],
        product: Product::Differences,
        status: 1,
        before: "cp tree/outer/inner/blocks other; printf y | dd of=other bs=1 seek=600000 conv=notrunc",
    },
    Scene {
        name: "each file through a command",
        words: &["each", "--sort=path", "--size=+10", "tree", "--", "cat", "{}"],
        product: Product::Contents(&[
            "tree/one",
            BLOCKS,
            "tree/outer/inner/twin",
            "tree/outer/sparse",
            "tree/outer/two",
        ]),
        status: 0,
        before: "true",
    },
    Scene {
        name: "each block of a file through a command",
        words: &["each", "--block=64K", BLOCKS, "--", "cat"],
        product: Product::Blocks(BLOCKS),
        status: 0,
        before: "true",
    },
    Scene {
        name: "a search of a tree",
        words: &["grep", "-rna", "word", "tree"],
        product: Product::Matches,
        status: 0,
        before: "true",
    },
    Scene {
        name: "a search of a large file, in pieces, after one of another",
        words: &["grep", "-nC1", "99999$", "tree/one", "large"],
        product: Product::Matches,
        status: 0,
        before: "seq 1 1000000 > large; echo 99999 >> tree/one",
    },
    Scene {
        name: "the hashes of a tree",
        words: &["sum", "tree"],
        product: Product::Hashes,
        status: 0,
        before: "seq 1 1000000 > tree/outer/large",
    },
    Scene {
        name: "the hashes of a tree, in order, by one worker",
        words: &["sum", "-j1", "--hash=md5", "tree", "tree/one"],
        product: Product::Hashes,
        status: 0,
        before: "seq 1 1000000 > tree/outer/large",
    },
    Scene {
        name: "the hashes of a tree, in a file",
        words: &["sum", "-o", "SUMS", "tree"],
        product: Product::Manifest,
        status: 0,
        before: "true",
    },
    Scene {
        name: "a manifest that is checked",
        words: &["sum", "-c", "sums"],
        product: Product::Verdicts,
        status: 0,
        before: "seq 1 1000000 > tree/outer/large; find tree -type f | sort | xargs sha256sum > sums",
    },
    Scene {
        name: "an archive that is made, in places",
        words: &["tar", "--sort=name", "--xattrs", "-Scf", "a.tar", "tree"],
        product: Product::Archive,
        status: 0,
        before: "mkdir tree/more; seq 1 400000 > tree/more/large",
    },
    Scene {
        name: "an archive that is made in one run",
        words: &["tar", "--jobs=2", "--xattrs", "-cf", "a.tar", "tree"],
        product: Product::Archive,
        status: 0,
        before: "mkdir tree/more; seq 1 400000 > tree/more/large; seq 1 900000 > tree/larger",
    },
    Scene {
        name: "an archive that is made, as a stream",
        words: &["tar", "--sort=name", "--jobs=1", "-c", "tree"],
        product: Product::ArchiveStream,
        status: 0,
        before: "true",
    },
    Scene {
        name: "bzip2 of a tree",
        words: &["bzip2", "-r1", "-j2", "packed"],
        product: Product::Replaced(".bz2"),
        status: 0,
        before: "cp -a tree packed; find packed -type f -links +1 -delete",
    },
    Scene {
        name: "bzip2 -d of a tree",
        words: &["bzip2", "-dr", "-j2", "packed"],
        product: Product::Replaced(""),
        status: 0,
        before: "cp -a tree packed; find packed -type f -links +1 -delete; find packed -type f -exec bzip2 -1 {} +",
    },
    Scene {
        name: "bzip2 of a file of several blocks, to standard output",
        words: &["bzip2", "-1c", "-j2", BLOCKS],
        product: Product::Stream(BLOCKS),
        status: 0,
        before: "true",
    },
    Scene {
        name: "bzip2 -d of a file of several blocks, to standard output",
        words: &["bzip2", "-dc", "-j2", "packed.bz2"],
        product: Product::Stream("packed.bz2"),
        status: 0,
        before: "bzip2 -1c tree/outer/inner/blocks > packed.bz2",
    },
    Scene {
        name: "an archive that is unpacked, in places",
        words: &["tar", "-xpf", "a.tar", "-C", "out"],
        product: Product::Extracted("a.tar"),
        status: 0,
        before: "tar -cSf a.tar tree; mkdir out",
    },
    Scene {
        name: "an archive that is unpacked, as a stream",
        words: &["tar", "-xz", "-f", "a.tgz", "-C", "out"],
        product: Product::Extracted("a.tgz"),
        status: 0,
        before: "tar -cSzf a.tgz tree; mkdir out",
    },
    Scene {
        name: "an archive that is listed",
        words: &["tar", "-tvf", "a.tar"],
        product: Product::Stream("a.tar"),
        status: 0,
        before: "tar -cSf a.tar tree",
    },
];

/// Tree for all scenes: a few text files, one of several blocks, one with holes, and entries of
/// other kinds.
pub(crate) fn tree() -> Spec {
    let data = |bytes| PieceSpec::Data { seed: 3, bytes };
    Spec {
        nodes: vec![
            EntrySpec::new(0, "outer", SpecKind::Directory).mode(0o755),
            EntrySpec::new(1, "inner", SpecKind::Directory).mode(0o700),
            EntrySpec::file(2, "blocks", 4, 700_001),
            EntrySpec::new(
                1,
                "sparse",
                SpecKind::File(vec![data(5000), PieceSpec::Hole(1 << 20), data(70_000)]),
            ),
            EntrySpec::file(0, "one", 5, 100),
            EntrySpec::file(1, "two", 6, 4096).mode(0o640),
            EntrySpec::file(0, "nothing", 7, 0),
            EntrySpec::new(0, "link", SpecKind::Symlink(b"one".to_vec())),
            EntrySpec::new(2, "twin", SpecKind::HardLink(3)),
            EntrySpec::new(1, "pipe", SpecKind::Fifo),
        ],
    }
}
