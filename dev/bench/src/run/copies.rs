//! Runs the studies that copy trees: one test bed per tree, one series of paired runs per part.
//!
//! Adjacent parts with the same tree share its test bed, so the tree is made only once.

use super::Session;
use crate::candidates::{self, Candidate, CandidateSearch, HAUL};
use crate::error::{Error, Result};
use crate::ground::{CacheState, ImageGround, ImageLayout, Workload};
use crate::programs;
use crate::series::{self, SeriesPlan, SeriesRun};
use crate::shapes::{Totals, TreeShape};
use crate::study::findings::{Collected, Measured, RunFigures, measured};
use crate::study::{PartWork, Study, StudyPart, StudySetting, Unit};
use crate::table;
use crate::verify::Digest;

const SEED: u64 = 1;

/// Runs all parts; `done` is called with each as soon as it is finished.
///
/// # Errors
///
/// [`Error::Refused`] if a program is missing, before anything is made; any failure of the
/// test bed.
pub(crate) fn run(study: &Study, session: &mut Session<'_>, done: &mut dyn FnMut(Measured)) -> Result<()> {
    let candidates = find(study, session)?;
    let copier = CopyRunner { candidates, layout: session.options.layout() };
    for parts in study.parts.chunk_by(|one, other| one.work == other.work) {
        let Some(PartWork::Copy(shape)) = parts.first().map(|part| &part.work) else { continue };
        copier.run_on_one_tree(shape, parts, session, done)?;
    }
    Ok(())
}

/// Finds GNU cp, and haul with every setting of the study.
fn find(study: &Study, session: &Session<'_>) -> Result<Vec<Candidate>> {
    let settings = || study.parts.iter().flat_map(|part| &part.settings);
    let mut haul_settings: Vec<String> =
        settings().filter_map(|one| Some(one.words.as_ref()?.join(" "))).collect();
    haul_settings.sort();
    haul_settings.dedup();
    let mut only = Vec::new();
    if !haul_settings.is_empty() {
        only.push(HAUL.to_owned());
    }
    if settings().any(|one| one.words.is_none()) {
        only.push(candidates::GNU.to_owned());
    }
    let haul = session.program.clone();
    candidates::find(&CandidateSearch {
        haul: Some(haul),
        haul_settings,
        folders: programs::path_folders(),
        only,
        ..candidates::CandidateSearch::default()
    })
}

/// Returns the label of a setting's candidate in [`candidates::find`].
fn candidate_label(setting: &StudySetting) -> String {
    match &setting.words {
        None => "GNU cp".to_owned(),
        Some(words) => {
            std::iter::once(HAUL).chain(words.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")
        }
    }
}

struct CopyRunner {
    candidates: Vec<Candidate>,
    layout: ImageLayout,
}

impl CopyRunner {
    fn run_on_one_tree(
        &self,
        shape: &TreeShape,
        parts: &[StudyPart],
        session: &mut Session<'_>,
        done: &mut dyn FnMut(Measured),
    ) -> Result<()> {
        let workload = Workload::Made { shape: shape.clone(), seed: SEED };
        let totals = shape.totals();
        let mut ground = ImageGround::new(&session.options.work, self.layout, totals)?;
        let run = ground.prepare(&workload, session.interrupt).and_then(|digest| {
            parts.iter().try_for_each(|part| {
                done(self.run_part(&mut ground, part, totals, digest, session)?);
                Ok(())
            })
        });
        Error::unless_left(run, ground.finish())
    }

    fn run_part(
        &self,
        ground: &mut ImageGround,
        part: &StudyPart,
        totals: Totals,
        digest: Digest,
        session: &mut Session<'_>,
    ) -> Result<Measured> {
        let candidates: Vec<Candidate> = part
            .settings
            .iter()
            .filter_map(|setting| {
                let label = candidate_label(setting);
                self.candidates.iter().find(|candidate| candidate.label == label).cloned()
            })
            .collect();
        let plan = SeriesPlan {
            rounds: session.rounds,
            cache: CacheState::Cold,
            limit: session.limit(),
            expected: digest,
        };
        let interrupt = session.interrupt;
        let mut logged = Ok(());
        let mut observe = |run: &SeriesRun| {
            if logged.is_ok() {
                logged = session.log(&progress_line(part, &plan, run));
            }
        };
        let runs = series::run(ground, &candidates, &plan, interrupt, &mut observe)?;
        logged?;
        let collected = part.settings.iter().zip(&candidates).map(|(setting, candidate)| Collected {
            setting,
            command: candidate.line.clone(),
            runs: runs.iter().filter(|run| run.candidate == candidate.label).map(figures).collect(),
        });
        Ok(measured(part, totals, Some(digest.to_string()), collected.collect(), Unit::Seconds))
    }
}

fn figures(run: &SeriesRun) -> RunFigures {
    RunFigures {
        round: run.round,
        value: run.usage.seconds,
        usage: run.usage,
        with_sync: Some(run.seconds_with_sync),
        failure: run.failure.clone(),
    }
}

fn progress_line(part: &StudyPart, plan: &SeriesPlan, run: &SeriesRun) -> String {
    let figure = match &run.failure {
        Some(why) => format!("out: {why}"),
        None => format!("{} s", table::seconds(run.usage.seconds)),
    };
    format!("{} {}/{} {}: {figure}", part.name, run.round, plan.rounds, run.candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_found_again_among_the_candidates() {
        assert_eq!(candidate_label(&StudySetting::gnu()), "GNU cp");
        assert_eq!(candidate_label(&StudySetting::auto()), "haul");
        let own = StudySetting::haul("x", crate::study::Role::Sync, "--engine=sync  -j 1");
        assert_eq!(candidate_label(&own), "haul --engine=sync -j 1");
    }
}
