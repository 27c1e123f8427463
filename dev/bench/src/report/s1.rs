//! Report of S1: the document's three plots, its Table 1 and its conclusions, each next to ours.

use super::StudyView;
use super::figure::{
    Bar, Claim, DotRow, Dots, Figure, FigureRow, Group, Panel, Table, digits, number, or_dash, winners,
};
use crate::study::findings::{Measured, SettingResult, StudyFindings};
use crate::study::published::document;
use crate::study::s1::{COLUMNS, DEPTHS, SIZES, group, label};
use crate::study::{AUTO, CP, Role};

/// The asynchronous programs, with their names in the document, and haul's own choice, which is not
/// in the document.
const PROGRAMS: [(&str, Role, &str); 4] = [
    ("k-D", Role::KernelAio, "k-D: kernel AIO, O_DIRECT"),
    ("k-N", Role::KernelAio, "k-N: kernel AIO, buffered"),
    ("posix", Role::PosixAio, "posix: POSIX AIO"),
    (AUTO, Role::Auto, "haul (auto)"),
];

pub(crate) fn view(findings: &StudyFindings) -> StudyView {
    let mut figures: Vec<Figure> = DEPTHS.iter().filter_map(|(levels, _)| depth(findings, *levels)).collect();
    figures.push(then_and_now(findings));
    StudyView {
        title: "cp -r over Linux AIO, ten years and more later",
        about: "Trees of directories with files of one size, copied with nothing in memory by GNU cp, by \
                kernel AIO with O_DIRECT (k-D) and without (k-N), by POSIX AIO, and by haul left to its own \
                choice. The asynchronous programs are haul\u{2019}s engines with the document\u{2019}s \
                settings: a buffer of one page, the target allocated beforehand, the source announced.",
        claims: claims(findings),
        figures,
        tables: vec![table_1(findings), published_table(findings)],
    }
}

fn depth(findings: &StudyFindings, levels: u32) -> Option<Figure> {
    let group_name = group(levels);
    let parts: Vec<&Measured> = findings.group(&group_name).collect();
    let files = parts.first()?.totals.files;
    let ours = parts.iter().map(|part| Group::new(&part.label, part.lines.iter().map(Bar::of)));
    let theirs = parts.iter().map(|part| {
        let bar = |line: &SettingResult| {
            let value = findings.published_value(&part.name, &line.id)?;
            Some(Bar::published(&line.label, line.role, value))
        };
        Group::new(&part.label, part.lines.iter().filter_map(bar))
    });
    let axis = "seconds to return; shorter is better";
    let title = format!("{levels} levels, {files} files");
    let winners = winners(parts.iter().map(|part| part.lines.iter()), findings.unit);
    Some(Figure {
        title: format!("Depth {levels}: time to copy the tree, by size of file"),
        caption: format!(
            "Mean time of {} cold copies of {files} files in a binary tree of {levels} levels, with one sample \
             standard deviation to each side, beside what the document gives for its own (on a scale of its \
             own). {winners}",
            findings.rounds
        ),
        panels: vec![
            Panel::bars(&title, axis, ours),
            Panel::bars(&title, axis, theirs).published(document(findings.study).short),
        ],
    })
}

fn then_and_now(findings: &StudyFindings) -> Figure {
    let panels = PROGRAMS.map(|(id, role, title)| {
        let rows = findings.parts.iter().map(|part| {
            let published = |id| findings.published_value(&part.name, id);
            DotRow {
                label: format!("{}, {}", part.group, part.label),
                role,
                measured: ratio(part.mean(id), part.mean(CP)),
                published: ratio(published(id), published(CP)),
            }
        });
        Panel::Dots(Dots {
            title: title.to_owned(),
            axis: "time divided by that of cp -r".to_owned(),
            rows: rows.collect(),
        })
    });
    Figure {
        title: "Then and now: each program beside the cp of its own machine".to_owned(),
        caption:
            "Time of each asynchronous copy divided by that of cp -r on the same machine, which is what \
                  can be compared across the years: filled here, hollow as published. Left of 1 is faster \
                  than cp."
                .to_owned(),
        panels: panels.to_vec(),
    }
}

fn ratio(value: Option<f64>, base: Option<f64>) -> Option<f64> {
    Some(value? / base?).filter(|ratio| ratio.is_finite() && *ratio > 0.0)
}

/// Returns Table 1 with our measurements, with an extra column for haul's own choice.
fn table_1(findings: &StudyFindings) -> Table {
    let cell = |levels: u32, kilobytes: u64, id: &str| {
        let part = findings.part(&format!("depth-{levels}/{kilobytes}K"))?;
        part.mean(id).map(|mean| number(mean, findings.unit))
    };
    form("Table 1, measured here: completion time in seconds", &COLUMNS, &cell)
}

fn published_table(findings: &StudyFindings) -> Table {
    let cell = |levels: u32, kilobytes: u64, id: &str| {
        let value = findings.published_value(&format!("depth-{levels}/{kilobytes}K"), id)?;
        Some(digits(value))
    };
    form("Table 1, as published: completion time in seconds", &COLUMNS[..4], &cell)
}

fn form(title: &str, columns: &[&str], cell: &dyn Fn(u32, u64, &str) -> Option<String>) -> Table {
    let headings =
        DEPTHS.iter().flat_map(|(levels, _)| {
            columns.iter().enumerate().map(move |(index, id)| {
                if index == 0 { format!("d{levels}: {id}") } else { (*id).to_owned() }
            })
        });
    let rows = SIZES.iter().map(|kilobytes| {
        let cells = DEPTHS.iter().flat_map(|(levels, _)| {
            columns.iter().map(|id| or_dash(cell(*levels, *kilobytes, id), |cell| cell))
        });
        FigureRow::new(label(*kilobytes), cells)
    });
    Table::new(title, "d2, d4, d8: levels of directories.", headings, rows)
}

fn claims(findings: &StudyFindings) -> Vec<Claim> {
    let ratios = |id: &str| -> Vec<f64> {
        findings.parts.iter().filter_map(|part| ratio(part.mean(id), part.mean(CP))).collect()
    };
    let beside_cp = |id: &str| {
        let ratios = ratios(id);
        let faster = ratios.iter().filter(|ratio| **ratio < 1.0).count();
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ratios.iter().copied().fold(0.0, f64::max);
        (!ratios.is_empty()).then(|| {
            format!("faster than cp in {faster} of {}; {:.2} to {:.2} of its time", ratios.len(), least, most)
        })
    };
    let of_4k = findings.part("depth-2/4K").and_then(|part| ratio(part.mean("k-D"), part.mean(CP)));
    vec![
        Claim::new(
            "The POSIX implementation \u{201c}has the best performance of all the tested programs\u{201d}, \
             nearly 8\u{2013}23% better than cp.",
            beside_cp("posix"),
        ),
        Claim::new(
            "The kernel implementation with O_DIRECT \u{201c}is the slowest\u{201d}.",
            beside_cp("k-D"),
        ),
        Claim::new(
            "Without O_DIRECT the kernel implementation \u{201c}is also mostly faster than cp\u{201d}.",
            beside_cp("k-N"),
        ),
        Claim::new(
            "At depth 2 with files of 4 KB, k-D is faster than cp (0.127 s to 0.194 s).",
            of_4k.map(|ratio| format!("k-D takes {ratio:.2} of cp\u{2019}s time")),
        ),
    ]
}
