//! Formats the findings of `auto` as Markdown: the ratios, and the seconds they come from.

use crate::auto::findings::{AutoFindings, Cell, RATIO_MAX};
use crate::auto::settings;
use crate::table::{seconds, write_paragraph};

/// Shown where nothing was measured.
const NOTHING: &str = "–";

/// Mark of a ratio that comes from later runs.
const AGAIN: &str = "\u{2020}";

pub(crate) fn tables(findings: &AutoFindings) -> String {
    let mut out = String::new();
    for fact in facts(findings) {
        write_paragraph(&mut out, &format!("- {fact}"), "  ");
    }
    out.push('\n');
    write_paragraph(&mut out, &summary(findings), "");
    out.push('\n');
    write_ratios(&mut out, findings);
    let skipped: Vec<_> = findings.columns.iter().filter(|column| column.skipped.is_some()).collect();
    if !skipped.is_empty() {
        out.push('\n');
    }
    for column in skipped {
        let why = column.skipped.as_deref().unwrap_or_default();
        write_paragraph(&mut out, &format!("- {} was skipped: {why}", column.name()), "  ");
    }
    write_sets(&mut out, findings);
    for index in 0..findings.columns.len() {
        write_seconds(&mut out, findings, index);
    }
    out
}

fn facts(findings: &AutoFindings) -> Vec<String> {
    let machine = &findings.machine;
    let memory = machine.memory_bytes as f64 / f64::from(1 << 30);
    let mut facts = vec![
        format!(
            "{}; Linux {}; {} processors ({}); {memory:.1} GiB of memory; {}",
            machine.date, machine.kernel, machine.processors, machine.processor, findings.version
        ),
        format!(
            "scale {}, seed {}; every run onto a new target; medians; rounds: {}, with the settings in random order, \
             after one run of auto that doesn't count",
            findings.scale, findings.seed, findings.rounds
        ),
    ];
    if findings.rounds_again > 0 {
        facts.push(format!(
            "{AGAIN}: over {RATIO_MAX} at first, so auto and the setting that seemed best ran {} more rounds, which alone \
             count for the ratio",
            findings.rounds_again
        ));
    }
    facts.push(format!(
        "**bold**: behind, which means over {RATIO_MAX} and slower in at least eight of nine rounds"
    ));
    facts
}

/// Says in how many cells auto is behind, and where.
pub(crate) fn summary(findings: &AutoFindings) -> String {
    let (behind, count) = findings.behind();
    let head = format!("`auto` is behind in {} of {count} cells", behind.len());
    let place = |cell: &&Cell| format!("{}, {}", findings.columns[cell.column].name(), cell.set);
    match behind.is_empty() {
        true => format!("{head}."),
        false => format!("{head}: {}.", behind.iter().map(place).collect::<Vec<_>>().join("; ")),
    }
}

fn write_row(out: &mut String, cells: impl IntoIterator<Item = String>) {
    cells.into_iter().for_each(|cell| out.push_str(&format!("| {} ", cell.replace('|', "\\|"))));
    out.push_str("|\n");
}

fn write_head(out: &mut String, names: Vec<String>) {
    let rules = format!("|---|{}\n", "---:|".repeat(names.len().saturating_sub(1)));
    write_row(out, names);
    out.push_str(&rules);
}

fn write_ratios(out: &mut String, findings: &AutoFindings) {
    let names = findings.columns.iter().map(|column| column.name());
    write_head(out, std::iter::once("auto / best".to_owned()).chain(names).collect());
    for (set, _) in &findings.sets {
        let cells = (0..findings.columns.len())
            .map(|index| findings.cell(set, index).map_or_else(|| NOTHING.to_owned(), ratio));
        write_row(out, std::iter::once((*set).to_owned()).chain(cells));
    }
}

fn ratio(cell: &Cell) -> String {
    let Some(found) = cell.comparison else { return NOTHING.to_owned() };
    let again = if cell.again.is_some() { AGAIN } else { "" };
    let mark = if found.is_behind { "**" } else { "" };
    format!("{mark}{:.2}{mark}{again}", found.ratio)
}

fn write_sets(out: &mut String, findings: &AutoFindings) {
    out.push_str("\n| tree | at scale 1 |\n|---|---|\n");
    for (name, about) in &findings.sets {
        write_row(out, [(*name).to_owned(), (*about).to_owned()]);
    }
}

/// Writes the medians of one column, with those settings that were measured there.
fn write_seconds(out: &mut String, findings: &AutoFindings, column: usize) {
    let cells: Vec<&Cell> = findings.cells.iter().filter(|cell| cell.column == column).collect();
    if cells.is_empty() {
        return;
    }
    let median = |cell: &Cell, name: &str| {
        cell.timings.iter().find(|timing| timing.setting == name).and_then(|timing| timing.median())
    };
    let is_measured = |name: &&str| cells.iter().any(|cell| median(cell, name).is_some());
    let names: Vec<&str> = settings::names().into_iter().filter(is_measured).collect();
    out.push_str(&format!("\n{}, seconds:\n\n", findings.columns[column].name()));
    let heads = std::iter::once("tree").chain(names.iter().copied()).chain(["best", "auto / best"]);
    write_head(out, heads.map(str::to_owned).collect());
    for cell in cells {
        let figures = names.iter().map(|name| median(cell, name).map_or_else(String::new, seconds));
        let best = cell.comparison.map_or(NOTHING, |found| found.best);
        let ends = [best.to_owned(), ratio(cell)];
        write_row(out, std::iter::once(cell.set.to_owned()).chain(figures).chain(ends));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auto::findings::tests::example;

    #[test]
    fn every_cell_is_in_the_tables() {
        let text = tables(&example());
        assert!(text.contains("| auto / best | ext4 cold | ext4 warm | xfs cold |"), "{text}");
        assert!(text.contains("\n| many | **1.30** | 1.20 | – |\n| one | 0.80 | – | – |\n"), "{text}");
        assert!(text.contains("`auto` is behind in 1 of 3 cells: ext4 cold, many."), "{text}");
        assert!(text.contains("- xfs cold was skipped: mkfs.xfs is needed"), "{text}");
        assert!(text.contains("\n| many | 0.130 | 0.100 | sync | **1.30** |\n"), "{text}");
        assert!(!text.contains("xfs cold, seconds"), "{text}");
        let narrow = text.lines().filter(|line| !line.starts_with('|'));
        assert!(narrow.into_iter().all(|line| line.chars().count() <= 100), "{text}");
    }

    #[test]
    fn later_runs_are_marked() {
        let mut findings = example();
        let cell = &mut findings.cells[0];
        let pair = [cell.timings[0].clone(), cell.timings[1].clone()];
        cell.compare_again(pair);
        assert!(tables(&findings).contains("| many | **1.30**\u{2020} |"));
    }
}
