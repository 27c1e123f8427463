//! The races: input, participants with their command lines, check of the result, and aims.

use clap::ValueEnum;

use crate::ground::CacheState;

/// Input of a race: the content of the source's file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Material {
    /// `data`: text and binary files of this machine, concatenated; `data.bz2`: the same, by bzip2.
    Data,
    /// A tree of many small files.
    Many,
    /// A copy of a real directory.
    Share,
    /// An archive of the tree of many small files.
    ManyArchive,
    /// An archive of a real directory.
    ShareArchive,
    /// The tree of many small files, twice.
    Twins,
}

/// A participant: its name, the program it needs, and its shell command, in which `$S` is the
/// source, `$T` the directory for results, and `$HAUL` haul.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Runner {
    pub(crate) name: &'static str,
    /// Program it needs; `None` for haul.
    pub(crate) program: Option<&'static str>,
    pub(crate) line: &'static str,
}

/// An aim: the minimum ratio of another participant's time to haul's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aim {
    pub(crate) than: &'static str,
    pub(crate) times: f64,
}

/// Tools that can be raced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RacedTool {
    /// Compression
    Bzip2,
    /// Archives
    Tar,
    /// Search
    Grep,
    /// Comparison
    Cmp,
    /// Four ranks against one, on the striped stand-in
    Ranks,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ToolRace {
    pub(crate) name: &'static str,
    pub(crate) tool: RacedTool,
    pub(crate) material: Material,
    pub(crate) cache: CacheState,
    /// Participants; haul comes first.
    pub(crate) runners: &'static [Runner],
    /// Shell command that succeeds if the result is correct.
    pub(crate) check: &'static str,
    pub(crate) aims: &'static [Aim],
}

const fn haul(line: &'static str) -> Runner {
    Runner { name: "haul", program: None, line }
}

const fn rival(name: &'static str, program: &'static str, line: &'static str) -> Runner {
    Runner { name, program: Some(program), line }
}

const fn aim(than: &'static str, times: f64) -> Aim {
    Aim { than, times }
}

const COMPRESS: &[Runner] = &[
    haul(r#""$HAUL" bzip2 -c "$S/data" > "$T/out""#),
    rival("bzip2", "bzip2", r#"bzip2 -c "$S/data" > "$T/out""#),
    rival("lbzip2", "lbzip2", r#"lbzip2 -c "$S/data" > "$T/out""#),
    rival("pbzip2", "pbzip2", r#"pbzip2 -c "$S/data" > "$T/out""#),
];

const DECOMPRESS: &[Runner] = &[
    haul(r#""$HAUL" bzip2 -dc "$S/data.bz2" > "$T/out""#),
    rival("bzip2", "bzip2", r#"bzip2 -dc "$S/data.bz2" > "$T/out""#),
    rival("lbzip2", "lbzip2", r#"lbzip2 -dc "$S/data.bz2" > "$T/out""#),
    rival("pbzip2", "pbzip2", r#"pbzip2 -dc "$S/data.bz2" > "$T/out""#),
];

const CREATE: &[Runner] = &[
    haul(r#""$HAUL" tar -cf "$T/out" -C "$S" ."#),
    rival("GNU tar", "tar", r#"tar -cf "$T/out" -C "$S" ."#),
    rival("bsdtar", "bsdtar", r#"bsdtar -cf "$T/out" -C "$S" ."#),
];

const EXTRACT: &[Runner] = &[
    haul(r#"mkdir "$T/out" && "$HAUL" tar -xf "$S/archive" -C "$T/out""#),
    rival("GNU tar", "tar", r#"mkdir "$T/out" && tar -xf "$S/archive" -C "$T/out""#),
    rival("bsdtar", "bsdtar", r#"mkdir "$T/out" && bsdtar -xf "$S/archive" -C "$T/out""#),
];

/// Searches for a word that some lines of most trees contain; every file is read to its end.
const SEARCH: &[Runner] = &[
    haul(r#""$HAUL" grep -rn copyright "$S" > "$T/out"; test $? -lt 2"#),
    rival("GNU grep", "grep", r#"grep -rn copyright "$S" > "$T/out"; test $? -lt 2"#),
    rival("ripgrep", "rg", r#"rg -uuun --no-heading copyright "$S" > "$T/out"; test $? -lt 2"#),
];

const COMPARE: &[Runner] = &[
    haul(r#""$HAUL" cmp "$S/one" "$S/other" > "$T/out""#),
    rival("diff -r", "diff", r#"diff -r "$S/one" "$S/other" > "$T/out""#),
];

const IS_COMPRESSED: &str = r#"bzip2 -dc "$T/out" | cmp - "$S/data""#;
const IS_DECOMPRESSED: &str = r#"cmp "$T/out" "$S/data""#;
const IS_ARCHIVE: &str = r#"tar -df "$T/out" -C "$S""#;
const IS_EXTRACTED: &str = r#"tar -df "$S/archive" -C "$T/out""#;
/// Compares with GNU grep's output, except for files that either program calls binary: once GNU
/// grep finds non-text (in a UTF-8 locale also invalid UTF-8), it shows no further lines of the
/// file, while ripgrep stops only at a NUL and shows the lines before it.
const IS_FOUND: &str = r#"cd "$T" && grep -rn copyright "$S" > right 2> said
{ LC_ALL=C sed -n 's/^grep: \(.*\): binary file matches$/\1/p' said
    LC_ALL=C sed -n 's/: binary file matches.*//p' out; } > binary
for list in out right; do
    LC_ALL=C awk 'FILENAME == "binary" { binary[$0]; next }
        / binary file matches / { next }
        { match($0, /:[0-9]+:/) } !(substr($0, 1, RSTART - 1) in binary)' binary "$list" | LC_ALL=C sort | md5sum
done | uniq | wc -l | grep -qx 1"#;
const IS_EQUAL: &str = r#"! test -s "$T/out""#;

/// Aims of the cold search: at most a tenth slower than ripgrep.
const SEARCH_AIMS: &[Aim] = &[aim("GNU grep", 2.0), aim("ripgrep", 1.0 / 1.1)];

const fn race(
    (name, tool): (&'static str, RacedTool),
    (material, cache): (Material, CacheState),
    (runners, check): (&'static [Runner], &'static str),
    aims: &'static [Aim],
) -> ToolRace {
    ToolRace { name, tool, material, cache, runners, check, aims }
}

/// All races except those of ranks.
pub(crate) const RACES: &[ToolRace] = {
    use CacheState::{Cold, Warm};
    use Material::{Data, Many, ManyArchive, Share, ShareArchive, Twins};
    const COLD: &[Aim] = &[aim("GNU tar", 3.0)];
    const WARM: &[Aim] = &[aim("GNU tar", 1.5)];
    &[
        race(
            ("bzip2-compress", RacedTool::Bzip2),
            (Data, Warm),
            (COMPRESS, IS_COMPRESSED),
            &[aim("bzip2", 1.9), aim("lbzip2", 0.9)],
        ),
        race(
            ("bzip2-decompress", RacedTool::Bzip2),
            (Data, Warm),
            (DECOMPRESS, IS_DECOMPRESSED),
            &[aim("bzip2", 1.8), aim("lbzip2", 0.85)],
        ),
        race(("tar-create-many-cold", RacedTool::Tar), (Many, Cold), (CREATE, IS_ARCHIVE), COLD),
        race(("tar-create-many-warm", RacedTool::Tar), (Many, Warm), (CREATE, IS_ARCHIVE), WARM),
        race(("tar-create-share-cold", RacedTool::Tar), (Share, Cold), (CREATE, IS_ARCHIVE), COLD),
        race(("tar-create-share-warm", RacedTool::Tar), (Share, Warm), (CREATE, IS_ARCHIVE), WARM),
        race(("tar-extract-many-cold", RacedTool::Tar), (ManyArchive, Cold), (EXTRACT, IS_EXTRACTED), COLD),
        race(("tar-extract-many-warm", RacedTool::Tar), (ManyArchive, Warm), (EXTRACT, IS_EXTRACTED), WARM),
        race(("tar-extract-share-cold", RacedTool::Tar), (ShareArchive, Cold), (EXTRACT, IS_EXTRACTED), COLD),
        race(("tar-extract-share-warm", RacedTool::Tar), (ShareArchive, Warm), (EXTRACT, IS_EXTRACTED), WARM),
        race(("grep-cold", RacedTool::Grep), (Share, Cold), (SEARCH, IS_FOUND), SEARCH_AIMS),
        race(("grep-warm", RacedTool::Grep), (Share, Warm), (SEARCH, IS_FOUND), &[aim("ripgrep", 1.0 / 1.1)]),
        race(("cmp-cold", RacedTool::Cmp), (Twins, Cold), (COMPARE, IS_EQUAL), &[aim("diff -r", 3.0)]),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_aim_names_somebody_who_takes_part_and_haul_is_first() {
        for race in RACES {
            assert!(race.runners[0].program.is_none(), "{}", race.name);
            for aim in race.aims {
                assert!(
                    race.runners.iter().any(|runner| runner.name == aim.than),
                    "{}: {}",
                    race.name,
                    aim.than
                );
            }
        }
    }
}
