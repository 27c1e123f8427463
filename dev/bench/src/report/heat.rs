//! Draws the findings of `auto` as one picture: a row for each tree, a column for each file system
//! and cache state, coloured by how far haul's own choice is behind.
//!
//! The picture is an SVG file of its own, with light and dark colours and without scripts. Colour
//! is never the only sign: every cell has its number, and those behind have an edge and bold text.

use std::ops::Range;

use super::canvas::{Anchor, At, Canvas, WIDTH};
use crate::auto::findings::{AutoFindings, ForcedComparison, RATIO_MAX};

const STYLE: &str = include_str!("heat.css");

/// Ratio below which haul's own choice counts as faster, and above which it is far behind.
const RATIO_FASTER: f64 = 0.95;
const RATIO_FAR: f64 = 1.2;

const MILLISECONDS: &str = " ms";

/// Width of the trees' names.
const NAMES: f64 = 78.0;
/// Width of a column, if there are few of them.
const COLUMN_MAX: f64 = 46.0;
const ROW: f64 = 17.0;
/// Space between cells, and between file systems.
const GAP: f64 = 1.5;
const GAP_BETWEEN: f64 = 5.0;
const TOP: f64 = 58.0;
const LEGEND_ROW: f64 = 18.0;
const MARGIN: f64 = 6.0;

/// The legend: class, text, and where it begins.
const LEGEND: [[(&str, &str, f64); 3]; 2] = [
    [
        ("faster", "faster", MARGIN),
        ("level", "within 5 %", 104.0),
        ("noise", "slower, within the noise", 222.0),
    ],
    [("behind", "behind", MARGIN), ("far", "by over 20 %", 104.0), ("nothing", "not measured", 222.0)],
];

pub(crate) fn picture(findings: &AutoFindings) -> String {
    let mut canvas = Canvas::default();
    let bottom = TOP + ROW * findings.sets.len() as f64;
    let height = bottom + 10.0 + LEGEND_ROW * LEGEND.len() as f64 + MARGIN;
    canvas.rectangle(At { x: 0.0, y: 0.0 }, At { x: WIDTH, y: height }, "paper");
    let head = "Time without options / with the best forced setting";
    canvas.text(At { x: MARGIN, y: 18.0 }, Anchor::Start, "heading", head);
    let columns = columns(findings);
    draw_heads(&mut canvas, findings, &columns);
    for (row, (set, _)) in findings.sets.iter().enumerate() {
        let y = TOP + ROW * row as f64;
        canvas.text(At { x: NAMES - 4.0, y: y + 12.0 }, Anchor::End, "name", set);
        for (index, column) in columns.iter().enumerate() {
            let found = findings.cell(set, index).and_then(|cell| cell.comparison);
            draw_cell(&mut canvas, column, y, found);
        }
    }
    draw_legend(&mut canvas, bottom + 10.0);
    let (behind, count) = findings.behind();
    let title = format!("haul without options is behind in {} of {count} cells", behind.len());
    canvas.finish_alone(height, &title, STYLE)
}

/// Returns from where to where each column goes.
fn columns(findings: &AutoFindings) -> Vec<Range<f64>> {
    let begins = |index: &usize| {
        *index > 0 && findings.columns[*index].file_system != findings.columns[index - 1].file_system
    };
    let count = findings.columns.len();
    let gaps = (0..count).filter(|index| begins(index)).count() as f64 * GAP_BETWEEN;
    let width = ((WIDTH - NAMES - MARGIN - gaps) / count.max(1) as f64).min(COLUMN_MAX);
    let mut left = NAMES;
    (0..count)
        .map(|index| {
            if begins(&index) {
                left += GAP_BETWEEN;
            }
            left += width;
            left - width..left
        })
        .collect()
}

fn draw_heads(canvas: &mut Canvas, findings: &AutoFindings, columns: &[Range<f64>]) {
    let heads: Vec<_> = findings.columns.iter().zip(columns).collect();
    for group in heads.chunk_by(|one, other| one.0.file_system == other.0.file_system) {
        if let [first, .., last] | [first @ last] = group {
            let middle = f64::midpoint(first.1.start, last.1.end);
            // A column is too narrow for a unit.
            let unit = if first.0.state.ends_with(MILLISECONDS) { ", ms" } else { "" };
            let head = format!("{}{unit}", first.0.file_system);
            canvas.text(At { x: middle, y: 37.0 }, Anchor::Middle, "strong", &head);
        }
    }
    for (column, range) in heads {
        let middle = f64::midpoint(range.start, range.end);
        let state = column.state.trim_end_matches(MILLISECONDS);
        canvas.text(At { x: middle, y: 52.0 }, Anchor::Middle, "soft", state);
    }
}

fn draw_cell(canvas: &mut Canvas, column: &Range<f64>, y: f64, found: Option<ForcedComparison>) {
    let corner = At { x: column.start + GAP / 2.0, y: y + GAP / 2.0 };
    let size = At { x: column.end - column.start - GAP, y: ROW - GAP };
    canvas.rectangle(corner, size, found.map_or("nothing", class));
    let text = found.map_or_else(|| "–".to_owned(), |found| format!("{:.2}", found.ratio));
    let style = match found {
        None => "soft",
        Some(found) if found.is_behind => "strong",
        Some(_) => "number",
    };
    let at = At { x: f64::midpoint(column.start, column.end), y: y + 12.0 };
    canvas.text(at, Anchor::Middle, style, &text);
}

fn class(found: ForcedComparison) -> &'static str {
    match found.ratio {
        RATIO_FAR.. if found.is_behind => "far",
        _ if found.is_behind => "behind",
        ratio if ratio > RATIO_MAX => "noise",
        ratio if ratio < RATIO_FASTER => "faster",
        _ => "level",
    }
}

fn draw_legend(canvas: &mut Canvas, top: f64) {
    for (row, entries) in LEGEND.iter().enumerate() {
        let y = top + LEGEND_ROW * row as f64;
        for (class, text, x) in entries {
            canvas.rectangle(At { x: *x, y }, At { x: 16.0, y: 12.0 }, class);
            canvas.text(At { x: x + 21.0, y: y + 10.0 }, Anchor::Start, "soft", text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auto::findings::tests::example;

    #[test]
    fn every_cell_has_its_number_and_its_colour() {
        let picture = picture(&example());
        let document = roxmltree::Document::parse(&picture).unwrap();
        let texts: Vec<&str> = document.descendants().filter_map(|node| node.text()).collect();
        for text in ["1.30", "1.20", "0.80", "many", "one", "ext4", "cold", "warm", "xfs"] {
            assert!(texts.contains(&text), "{text}: {picture}");
        }
        let count = |class: &str| {
            let is_it = |node: &roxmltree::Node<'_, '_>| {
                node.has_tag_name("rect") && node.attribute("class") == Some(class)
            };
            document.descendants().filter(is_it).count()
        };
        // One of each is in the legend.
        assert_eq!(["far", "noise", "faster", "nothing", "behind"].map(count), [2, 2, 2, 4, 1]);
        assert!(picture.contains("prefers-color-scheme: dark") && !picture.contains("<script"));
    }

    #[test]
    fn nothing_is_outside_the_picture() {
        let mut findings = example();
        while findings.columns.len() < 10 {
            let column = findings.columns[findings.columns.len() % 2].clone();
            findings.columns.push(column);
        }
        assert!(columns(&findings).iter().all(|column| column.end <= WIDTH - MARGIN + 0.001));
    }
}
