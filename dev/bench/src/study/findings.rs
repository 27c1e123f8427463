//! Findings of a study. This is the content of the JSON, and everything that tables and plots are
//! made from: a report can be recreated from the JSON, on another machine.

use serde::{Deserialize, Serialize};

use super::published::Published;
use super::{Against, Role, StudyName, StudyPart, StudySetting, Unit};
use crate::machine::MachineFacts;
use crate::measure::Usage;
use crate::shapes::Totals;
use crate::statistics::Summary;
use crate::student::{Samples, TTest};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StudyFindings {
    pub(crate) study: StudyName,
    pub(crate) unit: Unit,
    pub(crate) machine: MachineFacts,
    pub(crate) place: String,
    /// Description of how a cold cache was ensured.
    pub(crate) cold: String,
    /// True if the maximum rate of the file system is known (s5).
    #[serde(default = "yes")]
    pub(crate) has_ceiling: bool,
    /// Size relative to the document's.
    pub(crate) scale: f64,
    pub(crate) rounds: u32,
    pub(crate) versions: Vec<String>,
    pub(crate) parts: Vec<Measured>,
    /// Figures in the document.
    #[serde(skip_deserializing)]
    pub(crate) published: Vec<Published>,
}

/// Default for JSON written before `--mounts`, when the only file system had a known ceiling.
fn yes() -> bool {
    true
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) name: String,
    /// Heading of several parts in a table or plot.
    pub(crate) group: String,
    /// Name of the part under that heading.
    pub(crate) label: String,
    /// Totals of the tree that was copied; for rates, of the single file.
    pub(crate) totals: Totals,
    /// Digest of the tree; `None` for rates.
    pub(crate) digest: Option<String>,
    pub(crate) lines: Vec<SettingResult>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SettingResult {
    pub(crate) id: String,
    pub(crate) label: String,
    pub(crate) role: Role,
    pub(crate) x: Option<f64>,
    pub(crate) command: String,
    /// Its figures, or the reason it has none.
    #[serde(flatten)]
    pub(crate) outcome: SettingOutcome,
    /// Every run, including round 0.
    pub(crate) runs: Vec<RunFigures>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SettingOutcome {
    Timed(Box<SettingFigures>),
    Failed(String),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RunFigures {
    /// Round number; round 0 does not count.
    pub(crate) round: u32,
    /// The figure, in the study's unit.
    pub(crate) value: f64,
    pub(crate) usage: Usage,
    /// The figure including the sync after the command; `None` if there was none.
    pub(crate) with_sync: Option<f64>,
    pub(crate) failure: Option<String>,
}

/// Figures of a setting over its counted runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SettingFigures {
    /// The figure, in the study's unit.
    pub(crate) value: Summary,
    /// The figure including the sync after the command; `None` if there was none.
    pub(crate) with_sync: Option<Summary>,
    pub(crate) cpu_seconds: Summary,
    pub(crate) cpu_seconds_per_gib: f64,
    /// Mean CPU seconds per thousand files; `None` for rates.
    pub(crate) cpu_seconds_per_thousand_files: Option<f64>,
    pub(crate) memory_peak_bytes: u64,
    /// Lowest peak that could have been measured.
    pub(crate) memory_floor_bytes: u64,
    /// Processors that the rest of the machine kept busy during the run.
    pub(crate) processors_elsewhere: f64,
    pub(crate) test: Option<Test>,
}

/// Comparison of a setting with another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Test {
    /// ID of the other setting.
    pub(crate) against: String,
    pub(crate) expected: ExpectedDirection,
    /// Ratio of its mean to the other's: 2 is twice as fast.
    pub(crate) times_as_good: f64,
    /// Welch's test, one-tailed; `None` if it cannot be done.
    pub(crate) welch: Option<TTest>,
    /// The pooled test, one-tailed; `None` if it cannot be done.
    pub(crate) pooled: Option<TTest>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ExpectedDirection {
    Better,
    Worse,
}

impl SettingResult {
    pub(crate) fn timed(&self) -> Option<&SettingFigures> {
        match &self.outcome {
            SettingOutcome::Timed(figures) => Some(figures),
            SettingOutcome::Failed(_) => None,
        }
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        self.timed().map(|figures| figures.value.mean)
    }
}

impl Measured {
    pub(crate) fn line(&self, id: &str) -> Option<&SettingResult> {
        self.lines.iter().find(|line| line.id == id)
    }

    pub(crate) fn mean(&self, id: &str) -> Option<f64> {
        self.line(id)?.mean()
    }
}

impl StudyFindings {
    /// Returns the figure that the document gives for a setting of a part.
    pub(crate) fn published_value(&self, part: &str, id: &str) -> Option<f64> {
        self.published.iter().find(|one| one.part == part && one.id == id).map(|one| one.value)
    }

    pub(crate) fn part(&self, name: &str) -> Option<&Measured> {
        self.parts.iter().find(|part| part.name == name)
    }

    pub(crate) fn group<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a Measured> {
        self.parts.iter().filter(move |part| part.group == group)
    }
}

/// Runs of a setting, before they are summarised.
pub(crate) struct Collected<'a> {
    pub(crate) setting: &'a StudySetting,
    pub(crate) command: String,
    pub(crate) runs: Vec<RunFigures>,
}

/// Summarises the runs of a part and performs the tests.
pub(crate) fn measured(
    part: &StudyPart,
    totals: Totals,
    digest: Option<String>,
    collected: Vec<Collected<'_>>,
    unit: Unit,
) -> Measured {
    let against: Vec<Against> = collected.iter().map(|one| one.setting.against.clone()).collect();
    let lines: Vec<SettingResult> = collected
        .into_iter()
        .map(|Collected { setting, command, runs }| SettingResult {
            id: setting.id.clone(),
            label: setting.label.clone(),
            role: setting.role,
            x: setting.x,
            command,
            outcome: sum_up(&runs, totals, unit),
            runs,
        })
        .collect();
    let tests: Vec<Option<Test>> =
        lines.iter().zip(&against).map(|(line, against)| test(line, against, &lines, unit)).collect();
    let mut measured = Measured {
        name: part.name.clone(),
        group: part.group.clone(),
        label: part.label.clone(),
        totals,
        digest,
        lines,
    };
    for (line, test) in measured.lines.iter_mut().zip(tests) {
        if let SettingOutcome::Timed(figures) = &mut line.outcome {
            figures.test = test;
        }
    }
    measured
}

fn sum_up(runs: &[RunFigures], totals: Totals, unit: Unit) -> SettingOutcome {
    if let Some(failure) = runs.iter().find_map(|run| run.failure.clone()) {
        return SettingOutcome::Failed(failure);
    }
    let counted = || runs.iter().filter(|run| run.round > 0);
    let summary = |value: fn(&RunFigures) -> f64| Summary::of(counted().map(value));
    let cpu = summary(|run| run.usage.user_seconds + run.usage.system_seconds);
    let (Some(value), Some(cpu_seconds)) = (summary(|run| run.value), cpu) else {
        return SettingOutcome::Failed("it was not run".to_owned());
    };
    let gibibytes = totals.bytes.max(1) as f64 / f64::from(1 << 30);
    let sum = |value: fn(&RunFigures) -> f64| counted().map(value).sum::<f64>();
    let most = |value: fn(&RunFigures) -> u64| counted().map(value).max().unwrap_or_default();
    SettingOutcome::Timed(Box::new(SettingFigures {
        value,
        with_sync: Summary::of(counted().filter_map(|run| run.with_sync)),
        cpu_seconds,
        cpu_seconds_per_gib: cpu_seconds.mean / gibibytes,
        cpu_seconds_per_thousand_files: (unit == Unit::Seconds)
            .then(|| cpu_seconds.mean * 1000.0 / totals.files.max(1) as f64),
        memory_peak_bytes: most(|run| run.usage.memory_peak_bytes),
        memory_floor_bytes: most(|run| run.usage.memory_floor_bytes),
        processors_elsewhere: sum(|run| run.usage.elsewhere_seconds) / sum(|run| run.usage.seconds).max(1e-9),
        test: None,
    }))
}

fn test(line: &SettingResult, against: &Against, lines: &[SettingResult], unit: Unit) -> Option<Test> {
    let (id, expected) = match against {
        Against::BetterThan(id) => (*id, ExpectedDirection::Better),
        Against::WorseThan(id) => (*id, ExpectedDirection::Worse),
        Against::Nobody => return None,
    };
    let own = &line.timed()?.value;
    let other = &lines.iter().find(|line| line.id == id)?.timed()?.value;
    // Lower is better for seconds, higher for rates.
    let samples = if (expected == ExpectedDirection::Better) == (unit == Unit::Seconds) {
        Samples { smaller: own, larger: other }
    } else {
        Samples { smaller: other, larger: own }
    };
    let times_as_good = match unit {
        Unit::Seconds => other.mean / own.mean,
        Unit::MegabytesPerSecond => own.mean / other.mean,
    };
    Some(Test {
        against: id.to_owned(),
        expected,
        times_as_good,
        welch: samples.welch(),
        pooled: samples.pooled(),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::study::{Ablate, study};

    pub(crate) fn run(round: u32, value: f64) -> RunFigures {
        let usage = Usage {
            seconds: value,
            user_seconds: value / 4.0,
            system_seconds: value / 4.0,
            memory_peak_bytes: 5_000_000,
            memory_floor_bytes: 600_000,
            elsewhere_seconds: value / 10.0,
        };
        RunFigures { round, value, usage, with_sync: Some(value * 2.0), failure: None }
    }

    /// Makes up findings of a whole study: every setting has figures, except the second of the
    /// first part, which has a reason.
    pub(crate) fn example(name: StudyName) -> StudyFindings {
        let laid_out = study(name, 1.0, Ablate::Yes).unwrap();
        let parts = laid_out.parts.iter().enumerate().map(|(number, part)| {
            let collected = part.settings.iter().enumerate().map(|(index, setting)| {
                let base = 1.0 + number as f64 / 4.0 + ((index * 7) % 5) as f64 / 5.0;
                let mut runs = vec![run(0, 9.0), run(1, base), run(2, base * 1.1), run(3, base * 0.95)];
                if number == 0 && setting.id == part.settings[1].id {
                    runs.truncate(1);
                    runs[0].failure = Some("exit status 1: no <such> engine & more".to_owned());
                }
                Collected { setting, command: format!("haul cp {} SOURCE TARGET", setting.id), runs }
            });
            let totals = Totals { files: 128, directories: 3, bytes: 1 << 27 };
            measured(part, totals, Some("0123".to_owned()), collected.collect(), laid_out.unit)
        });
        StudyFindings {
            study: name,
            unit: laid_out.unit,
            machine: MachineFacts::look(),
            place: "ext4 image to ext4 image".to_owned(),
            cold: "invented".to_owned(),
            has_ceiling: true,
            scale: 1.0,
            rounds: 3,
            versions: vec!["haul 0.1.0".to_owned(), "cp (GNU coreutils) 9.1".to_owned()],
            parts: parts.collect(),
            published: crate::study::published::of(name),
        }
    }

    #[test]
    fn processor_time_is_given_for_each_gibibyte_and_for_a_thousand_files() {
        let totals = Totals { files: 500, directories: 0, bytes: 1 << 29 };
        let SettingOutcome::Timed(figures) =
            sum_up(&[run(0, 50.0), run(1, 2.0), run(2, 4.0)], totals, Unit::Seconds)
        else {
            panic!()
        };
        assert_eq!(figures.value.mean, 3.0);
        assert_eq!(figures.cpu_seconds.mean, 1.5);
        assert_eq!(figures.cpu_seconds_per_gib, 3.0);
        assert_eq!(figures.cpu_seconds_per_thousand_files, Some(3.0));
        assert!((figures.processors_elsewhere - 0.1).abs() < 1e-12);
    }

    #[test]
    fn a_test_points_to_the_side_that_is_better_in_its_unit() {
        for (unit, own, other) in [(Unit::Seconds, 1.0, 2.0), (Unit::MegabytesPerSecond, 2.0, 1.0)] {
            let runs = |value: f64| vec![run(1, value), run(2, value * 1.01), run(3, value * 0.99)];
            let totals = Totals::default();
            let line = |id: &str, value| SettingResult {
                id: id.to_owned(),
                label: id.to_owned(),
                role: Role::Auto,
                x: None,
                command: String::new(),
                outcome: sum_up(&runs(value), totals, unit),
                runs: runs(value),
            };
            let lines = [line("other", other), line("own", own)];
            let better = test(&lines[1], &Against::BetterThan("other"), &lines, unit).unwrap();
            assert!((better.times_as_good - 2.0).abs() < 1e-9);
            assert!(better.welch.unwrap().p < 0.001, "{unit:?} {better:?}");
            let worse = test(&lines[1], &Against::WorseThan("other"), &lines, unit).unwrap();
            assert!(worse.pooled.unwrap().p > 0.999, "{unit:?} {worse:?}");
        }
    }

    #[test]
    fn findings_survive_their_json() {
        for name in [StudyName::S1, StudyName::S2, StudyName::S3, StudyName::S4, StudyName::S5] {
            let findings = example(name);
            let text = serde_json::to_string(&findings).unwrap();
            assert!(text.contains("\"published\":[{"), "{name:?}");
            let back: StudyFindings = serde_json::from_str(&text).unwrap();
            assert_eq!(back.parts.len(), findings.parts.len());
            let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
            value["published"] = serde_json::json!([]);
            assert_eq!(serde_json::to_value(&back).unwrap(), value);
        }
    }
}
