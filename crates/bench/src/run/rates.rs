//! Runs the study that reads and writes one file: `haul bench aio`, in turn, on an image made anew.
//!
//! ```text
//!   round 0 (thrown away)   sync kernel-aio posix-aio ... sync/direct ...     one run:  format and mount ─►
//!   round 1                 the same                                          haul bench aio ─► unmount
//! ```
//!
//! What is measured is the rate the inner loop gives for itself, without the laying out of its file;
//! processor time and memory are those of the whole command.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;

use super::Session;
use super::findings::{Collected, Measured, RunFigures, measured};
use super::study::{Part, Setting, Study, Unit, Work};
use crate::error::{Error, Result};
use crate::ground::check_place;
use crate::image::{Access, Image, Room};
use crate::measure::measure;
use crate::programs;
use crate::shapes::Totals;

/// What is wanted of what `haul bench aio` prints.
#[derive(Deserialize)]
struct Rate {
    megabytes_per_second: f64,
}

/// Runs all parts; `done` gets each as soon as it is finished.
///
/// # Errors
///
/// [`Error::Refused`] when the disk is too small; then whatever makes an image useless.
pub(crate) fn run(study: &Study, session: &mut Session<'_>, done: &mut dyn FnMut(Measured)) -> Result<()> {
    let bytes = study.parts.iter().map(|part| totals(part).bytes).max().unwrap_or_default();
    let totals = Totals { files: 1, directories: 0, bytes };
    let (room, _) = check_place(&session.options.work, session.options.layout(), totals)?;
    let work = tempfile::Builder::new()
        .prefix("haul-bench-")
        .tempdir_in(&session.options.work)
        .map_err(Error::doing("create a directory in", &session.options.work))?;
    let place = work.path().canonicalize().map_err(Error::doing("resolve", work.path()))?;
    let mut image = Image::new(&place, "file", session.options.fs, Room { bytes: room.bytes, entries: 16 });
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
    if leftovers.is_empty() {
        return run;
    }
    Err(Error::LeftBehind { leftovers, cause: run.err().map(Box::new) })
}

fn totals(part: &Part) -> Totals {
    match &part.work {
        Work::Rate { file_bytes, .. } => Totals { files: 1, directories: 0, bytes: *file_bytes },
        Work::Copy(shape) => shape.totals(),
    }
}

fn run_part(image: &mut Image, part: &Part, session: &mut Session<'_>) -> Result<Measured> {
    let mut collected: Vec<Collected<'_>> = part
        .settings
        .iter()
        .map(|setting| {
            let command = format!("haul {} DIRECTORY", words(part, setting).join(" "));
            Collected { setting, command, runs: Vec::new() }
        })
        .collect();
    for round in 0..=session.rounds {
        for one in &mut collected {
            if one.runs.iter().any(|run| run.failure.is_some()) {
                continue;
            }
            image.format()?;
            image.mount(Access::ReadWrite)?;
            let run = run_once(image.mount_point(), part, one.setting, round, session)?;
            image.unmount()?;
            let figure = match &run.failure {
                Some(why) => format!("out: {why}"),
                None => format!("{:.1} MB/s", run.value),
            };
            session
                .tell(&format!("{} {round}/{} {}: {figure}", part.name, session.rounds, one.setting.id))?;
            one.runs.push(run);
        }
    }
    Ok(measured(part, totals(part), None, collected, Unit::MegabytesPerSecond))
}

/// Returns the words behind `haul` for a setting, up to the directory.
fn words(part: &Part, setting: &Setting) -> Vec<String> {
    let shared = match &part.work {
        Work::Rate { words, .. } => words.as_slice(),
        Work::Copy(_) => &[],
    };
    let own = setting.words.as_deref().unwrap_or_default();
    ["bench", "aio", "--json"]
        .into_iter()
        .map(str::to_owned)
        .chain(shared.to_vec())
        .chain(own.to_vec())
        .collect()
}

fn run_once(
    directory: &Path,
    part: &Part,
    setting: &Setting,
    round: u32,
    session: &Session<'_>,
) -> Result<RunFigures> {
    let (printed, said) = (programs::scratch()?, programs::scratch()?);
    let mut command = Command::new(&session.haul);
    command.args(words(part, setting)).arg(directory).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(programs::share(&printed)?).stderr(programs::share(&said)?);
    let limit = Duration::from_secs(session.options.time_limit.into());
    let measured = measure(&mut command, limit, session.interrupt)?;
    let said = programs::text_of(said)?;
    let complaint = said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let rate = match measured.ending.failure() {
        Some(failure) if complaint.is_empty() => Err(failure),
        Some(failure) => Err(format!("{failure}: {complaint}")),
        None => read_rate(&programs::text_of(printed)?),
    };
    Ok(RunFigures {
        round,
        value: rate.as_ref().copied().unwrap_or_default(),
        usage: measured.usage,
        seconds_with_sync: None,
        failure: rate.err(),
    })
}

fn read_rate(printed: &str) -> std::result::Result<f64, String> {
    match serde_json::from_str::<Rate>(printed) {
        Ok(Rate { megabytes_per_second }) if megabytes_per_second > 0.0 => Ok(megabytes_per_second),
        Ok(_) => Err("it gives a rate of nothing".to_owned()),
        Err(error) => Err(format!("it printed no rate: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_read_among_other_figures_and_must_be_one() {
        assert_eq!(read_rate("{\"engine\": \"sync\", \"megabytes_per_second\": 12.5}"), Ok(12.5));
        for wrong in ["", "{}", "{\"megabytes_per_second\": 0}", "{\"megabytes_per_second\": \"x\"}"] {
            assert!(read_rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_inner_loop_gets_the_rows_words_and_the_engines() {
        let study = super::super::study(super::super::study::Name::S2, 0.125, super::super::Ablate::No);
        let part = &study.unwrap().parts[0];
        let line = words(part, &part.settings[6]).join(" ");
        assert_eq!(
            line,
            "bench aio --json --pattern random --kind read --file-size 134217728 --record-size 65536 \
             --depth 64 --per-iteration 8 --max-submit 8 --alignment 4096 --engine kernel-aio --direct"
        );
    }
}
