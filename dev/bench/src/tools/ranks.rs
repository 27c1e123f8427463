//! Races four ranks against one on the striped stand-in, where the latency of requests dominates
//! and processors do not matter. Covers the tools that handle many files.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use super::races::{Aim, RacedTool};
use super::{MatchDay, companion};
use crate::error::{Error, Result};
use crate::measure::measure;
use crate::programs;
use crate::run::striped::StripedGround;
use crate::shapes::{ShapeKind, ShapeOptions, TreeShape};
use crate::trees;

const RANKS: u32 = 4;

const FEW_AND_MANY: [(&str, u32); 2] = [("4 ranks", RANKS), ("1 rank", 1)];

const AIMS: &[Aim] = &[Aim { than: "1 rank", times: 3.0 }];

/// Number of files at scale 1, and bytes per file: so small that only the file system's
/// time counts.
const FILES: f64 = 4000.0;
const FILE_BYTES: u64 = 4 << 10;
const FILES_IN_DIRECTORY: u64 = 100;

/// A race of ranks: its name, and the arguments of haul, in which `S` is the source and `T` the
/// directory for results.
type RankRace = (&'static str, &'static [&'static str]);

const RACES: [RankRace; 3] = [
    ("ranks-bzip2", &["bzip2", "-r", "-k", "S"]),
    ("ranks-tar", &["tar", "-c", "-f", "T/archive", "S"]),
    ("ranks-grep", &["grep", "-r", "-a", "-c", "", "S"]),
];

pub(super) const NAMES: [&str; 3] = [RACES[0].0, RACES[1].0, RACES[2].0];

impl MatchDay<'_> {
    pub(super) fn ranks(&mut self) -> Result<()> {
        let wanted: Vec<_> =
            RACES.iter().filter(|(name, _)| self.options.wants(RacedTool::Ranks, name)).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        for program in ["mpirun", "unshare"] {
            programs::find(program)?;
        }
        let standin = match &self.options.standin {
            Some(given) => given.canonicalize().map_err(Error::doing("find", given))?,
            None => companion(&self.haul, "haul-standin")?,
        };
        wanted.into_iter().try_for_each(|race| {
            let ground = StripedGround::start(&standin)?;
            let raced = self.rank_race(&ground, race);
            let ended = ground.end();
            raced.and(ended)
        })
    }

    fn rank_race(&mut self, ground: &StripedGround, (name, words): &RankRace) -> Result<()> {
        let files = (FILES * self.makings.scale).ceil() as u64;
        let directories = files.div_ceil(FILES_IN_DIRECTORY);
        let options = ShapeOptions {
            files: Some(files),
            size: Some(FILE_BYTES),
            directories: Some(directories),
            ..ShapeOptions::default()
        };
        let shape = TreeShape::new(ShapeKind::Many, &options)?;
        self.in_turn(name, FEW_AND_MANY.into_iter(), AIMS, |day, ranks| {
            // Created anew for each run: leftovers of the previous run must not be there.
            ground.pace("off")?;
            let [source, target] = ["source", "target"].map(|place| ground.client(0).join(place));
            for place in [&source, &target] {
                if place.exists() {
                    fs::remove_dir_all(place).map_err(Error::doing("remove", place))?;
                }
            }
            trees::make(&shape, 1, &source, day.interrupt)?;
            fs::create_dir(&target).map_err(Error::doing("create", &target))?;
            ground.drain()?;
            ground.pace("on")?;
            let outcome = day.run_ranks(ground, *ranks, words);
            ground.pace("off")?;
            Ok(outcome?.and_then(|(seconds, lines)| made(ground, name, files, lines).map(|()| seconds)))
        })
    }

    /// Runs haul on `ranks` ranks. Returns the seconds until everything is on the targets and the
    /// number of lines printed, or why there are none.
    fn run_ranks(
        &self,
        ground: &StripedGround,
        ranks: u32,
        words: &[&str],
    ) -> Result<std::result::Result<(f64, u64), String>> {
        let (printed, said) = (programs::scratch()?, programs::scratch()?);
        let mut command = ground.by_ranks(ranks);
        command.arg(&self.haul);
        command.args(words.iter().map(|word| match word.split_once('/') {
            _ if *word == "S" => ground.shared("source"),
            Some(("T", rest)) => ground.shared("target").join(rest),
            _ => Path::new(word).to_owned(),
        }));
        command.stdin(Stdio::null()).stdout(programs::share(&printed)?).stderr(programs::share(&said)?);
        let limit = Duration::from_secs(self.options.time_limit.into());
        let measured = measure(&mut command, limit, self.interrupt)?;
        ground.drain()?;
        let seconds = measured.started.elapsed().as_secs_f64();
        let lines = programs::text_of(printed)?.lines().count() as u64;
        Ok(measured.failure(&programs::text_of(said)?).map_or(Ok((seconds, lines)), Err))
    }
}

/// Checks that a run produced the right result for `files` files; for a search, one line per file.
fn made(ground: &StripedGround, race: &str, files: u64, lines: u64) -> std::result::Result<(), String> {
    let line = match race {
        "ranks-bzip2" => format!(
            "test $(find source -name '*.bz2' | wc -l) = {files} && find source -name '*.bz2' -exec bzip2 -t {{}} +"
        ),
        "ranks-tar" => format!("test $(tar -tf target/archive | grep -vc '/$') = {files}"),
        _ if lines == files => return Ok(()),
        _ => return Err(format!("{lines} lines for {files} files")),
    };
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &line]).current_dir(ground.client(0)).stdin(Stdio::null());
    match command.stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("wrong result".to_owned()),
        Err(error) => Err(format!("cannot be checked: {error}")),
    }
}
