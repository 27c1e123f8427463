//! Runs the study that reads and writes one file, with `haul-bench aio` on a freshly made image.
//!
//! The program runs itself: the engines that are measured are those it is built with, whichever
//! haul takes part in the other studies.
//!
//! ```text
//!   round 0 (discarded)  sync kernel-aio posix-aio ... sync/direct ...
//!   round 1              the same
//!
//!   one run:  format and mount ─► haul-bench aio ─► unmount
//! ```
//!
//! The figure is the rate that the inner loop reports for itself, which excludes the creation of
//! its file. CPU time and memory are those of the whole command.

use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::Session;
use crate::error::{Error, Result};
use crate::image::{Access, Image, Room};
use crate::measure::measure;
use crate::programs;
use crate::study::findings::{Measured, RunFigures, measured};
use crate::study::{PartWork, Study, StudyPart, StudySetting, Unit};

/// The output of `haul-bench aio`, as far as it is used.
#[derive(Deserialize)]
struct Printed {
    results: Vec<EngineRate>,
    #[serde(default)]
    refused: Vec<RefusedEngine>,
}

/// Result of one engine.
#[derive(Deserialize)]
struct EngineRate {
    megabytes_per_second: f64,
    #[serde(default)]
    fsync_seconds: Vec<f64>,
}

/// An engine that the kernel refused.
#[derive(Deserialize)]
struct RefusedEngine {
    why: String,
}

/// A rate, and the rate including the fsync.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rate {
    value: f64,
    with_sync: Option<f64>,
}

/// Runs all parts; `done` is called with each as soon as it is finished.
pub(crate) fn run(study: &Study, session: &mut Session<'_>, done: &mut dyn FnMut(Measured)) -> Result<()> {
    let room = Room { bytes: study.largest().bytes, entries: 16 };
    let work = tempfile::Builder::new()
        .prefix("haul-bench-")
        .tempdir_in(&session.options.work)
        .map_err(Error::doing("create a directory in", &session.options.work))?;
    let place = work.path().canonicalize().map_err(Error::doing("resolve", work.path()))?;
    let mut image = Image::new(&place, "file", session.options.fs, room);
    let run = image.attach().and_then(|()| {
        study.parts.iter().try_for_each(|part| {
            done(run_part(&mut image, part, session)?);
            Ok(())
        })
    });
    let mut leftovers = image.close();
    if image.is_mounted() {
        leftovers.push(format!("the image in {}; remove it", work.keep().display()));
    } else if let Err(error) = work.close() {
        leftovers.push(format!("{} ({error}); remove it", place.display()));
    }
    Error::unless_left(run, leftovers)
}

fn run_part(image: &mut Image, part: &StudyPart, session: &mut Session<'_>) -> Result<Measured> {
    let command = |setting: &StudySetting| format!("haul-bench {} DIRECTORY", words(part, setting).join(" "));
    let collected = session.run_in_turn(part, command, |session, setting, round| {
        image.format()?;
        image.mount(Access::ReadWrite)?;
        let run = run_once(image.mount_point(), part, setting, round, session)?;
        image.unmount()?;
        Ok(run)
    })?;
    Ok(measured(part, part.work.totals(), None, collected, Unit::MegabytesPerSecond))
}

/// Returns the arguments after `haul-bench` for a setting, up to the directory.
fn words(part: &StudyPart, setting: &StudySetting) -> Vec<String> {
    let shared = match &part.work {
        PartWork::Rate { words, .. } => words.as_slice(),
        PartWork::Copy(_) | PartWork::Striped(_) => &[],
    };
    let own = setting.words.as_deref().unwrap_or_default();
    ["aio", "--json"].into_iter().map(str::to_owned).chain(shared.to_vec()).chain(own.to_vec()).collect()
}

fn run_once(
    directory: &Path,
    part: &StudyPart,
    setting: &StudySetting,
    round: u32,
    session: &Session<'_>,
) -> Result<RunFigures> {
    let (printed, said) = (programs::scratch()?, programs::scratch()?);
    let mut command = Command::new(&session.program);
    command.args(words(part, setting)).arg(directory).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(programs::share(&printed)?).stderr(programs::share(&said)?);
    let measured = measure(&mut command, session.limit(), session.interrupt)?;
    let rate = match measured.failure(&programs::text_of(said)?) {
        Some(failure) => Err(failure),
        None => read_rate(&programs::text_of(printed)?, part.work.totals().bytes),
    };
    Ok(RunFigures {
        round,
        value: rate.as_ref().map_or(0.0, |rate| rate.value),
        usage: measured.usage,
        with_sync: rate.as_ref().ok().and_then(|rate| rate.with_sync),
        failure: rate.err(),
    })
}

/// Reads the rate of the single engine from the output, for a file of `bytes` bytes.
fn read_rate(printed: &str, bytes: u64) -> std::result::Result<Rate, String> {
    let printed: Printed =
        serde_json::from_str(printed).map_err(|error| format!("it printed no rate: {error}"))?;
    match (printed.results.as_slice(), printed.refused.first()) {
        ([EngineRate { megabytes_per_second: value, fsync_seconds }], _) if *value > 0.0 => {
            let megabytes = bytes as f64 / 1e6;
            let synced = |seconds: &f64| megabytes / (megabytes / value + seconds);
            Ok(Rate { value: *value, with_sync: fsync_seconds.first().map(synced) })
        }
        ([], Some(RefusedEngine { why })) => Err(why.clone()),
        _ => Err("it printed no rate, or several".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::{Ablate, StudyName, study};

    #[test]
    fn a_rate_is_read_among_other_figures_and_must_be_one() {
        let plain =
            "{\"machine\": {}, \"results\": [{\"engine\": \"sync\", \"megabytes_per_second\": 12.5}]}";
        assert_eq!(read_rate(plain, 1_000_000), Ok(Rate { value: 12.5, with_sync: None }));
        // One megabyte in a tenth of a second, and nine tenths for the fsync.
        let synced =
            "{\"results\": [{\"megabytes_per_second\": 10, \"fsync_seconds\": [0.9]}], \"refused\": []}";
        assert_eq!(read_rate(synced, 1_000_000), Ok(Rate { value: 10.0, with_sync: Some(1.0) }));
        let refused = "{\"results\": [], \"refused\": [{\"engine\": \"retry\", \"why\": \"no such call\"}]}";
        assert_eq!(read_rate(refused, 1), Err("no such call".to_owned()));
        for wrong in ["", "{}", "{\"results\": []}", "{\"results\": [{\"megabytes_per_second\": 0}]}"] {
            assert!(read_rate(wrong, 1).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_inner_loop_gets_the_rows_words_and_the_engines() {
        let study = study(StudyName::S2, 0.125, Ablate::No);
        let part = &study.unwrap().parts[0];
        let line = words(part, &part.settings[6]).join(" ");
        assert_eq!(
            line,
            "aio --json --pattern random --kind read --file-size 134217728 --record-size 65536 \
             --depth 64 --per-iteration 8 --max-submit 8 --alignment 4096 --rounds 1 --engine kernel-aio --direct"
        );
    }
}
