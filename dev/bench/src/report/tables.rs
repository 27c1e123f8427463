//! Tables of details: every figure of every setting of a part.

use super::figure::{FigureRow, Table, number, or_dash, probability, rate};
use crate::student::TTest;
use crate::study::findings::{Measured, SettingFigures, SettingOutcome, SettingResult, StudyFindings, Test};
use crate::study::{AUTO, Unit};
use crate::table;

pub(crate) fn details(findings: &StudyFindings) -> Vec<Table> {
    findings.parts.iter().map(|part| part_table(part, findings.unit)).collect()
}

fn part_table(part: &Measured, unit: Unit) -> Table {
    let totals = part.totals;
    let size = match totals.files {
        1 => format!("one file of {:.1} MB", totals.bytes as f64 / 1e6),
        _ => {
            format!(
                "{} files, {} directories, {:.1} MB",
                totals.files,
                totals.directories,
                totals.bytes as f64 / 1e6
            )
        }
    };
    let columns = [
        unit.symbol(),
        "\u{b1}",
        "median",
        "synced",
        "CPU/GiB",
        "CPU/1000",
        "peak MB",
        "x",
        "p Welch",
        "p pooled",
    ];
    let rows = part.lines.iter().map(|line| row(line, unit));
    Table::new(format!("{}: {size}", part.name), note(part), columns, rows)
}

/// Names the setting the others were tested against.
fn note(part: &Measured) -> String {
    let tests: Vec<&Test> = part
        .lines
        .iter()
        .filter_map(SettingResult::timed)
        .filter_map(|figures| figures.test.as_ref())
        .collect();
    let Some(first) = tests.first() else { return String::new() };
    if tests.iter().all(|test| test.against == first.against) {
        format!("x: times as fast as {}.", first.against)
    } else {
        "x: times as fast as the reference of its kind.".to_owned()
    }
}

fn row(line: &SettingResult, unit: Unit) -> FigureRow {
    let cells = match &line.outcome {
        SettingOutcome::Timed(figures) => Ok(cells(figures, unit)),
        SettingOutcome::Failed(why) => Err(why.clone()),
    };
    FigureRow { name: line.label.clone(), cells, is_auto: line.id == AUTO }
}

fn cells(figures: &SettingFigures, unit: Unit) -> Vec<String> {
    let number = |value: f64| number(value, unit);
    let test = figures.test.as_ref();
    let p = |pick: fn(&Test) -> Option<TTest>| or_dash(test.and_then(pick), |test| probability(test.p));
    vec![
        number(figures.value.mean),
        or_dash(figures.value.deviation, number),
        number(figures.value.median),
        or_dash(figures.with_sync, |synced| number(synced.mean)),
        table::seconds(figures.cpu_seconds_per_gib),
        or_dash(figures.cpu_seconds_per_thousand_files, table::seconds),
        table::peak(figures.memory_peak_bytes, figures.memory_floor_bytes, rate),
        or_dash(test, |test| format!("{:.2}", test.times_as_good)),
        p(|test| test.welch),
        p(|test| test.pooled),
    ]
}

pub(crate) const LEGEND: &str = "Means of the counted rounds, with the sample standard deviation (\u{b1}) and the median. \
    synced: the same when the sync that follows counts too. CPU/GiB and CPU/1000: \
    processor seconds, of user and kernel together, for each GiB and for every thousand files. peak MB: \
    the largest resident set in any run. p: how likely a difference as large, in the direction expected, is \
    by chance, by Welch's test and by the pooled t-test, both one-tailed and unpaired.";
