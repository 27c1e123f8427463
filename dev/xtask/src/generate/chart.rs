//! The pictures in README: the figures of `docs/measurements/comparison.md`.
//!
//! One has the seconds for the two trees of small files, the other the times for all trees, divided
//! by those of GNU cp. The page is the only place where the figures are, so pictures and page can't
//! differ.

use std::fmt::Write as _;

use crate::steps::StepFailure;

/// Who is in the picture, from top to bottom.
const CANDIDATES: [&str; 5] = ["haul", "xcp", "fcp", "cpz", "GNU cp"];
const TREES: [(&str, &str); 6] = [
    ("many", "50,000 x 4 KB, 500 dirs"),
    ("flat", "50,000 x 1 KB, one dir"),
    ("fat", "3,783 x 200 KB"),
    ("broad", "1,687 x 300 KB"),
    ("deep", "7 x 20 MB"),
    ("large", "1 x 1.5 GB"),
];
const CACHES: [(&str, &str); 2] = [("cold", "from the disk"), ("warm", "from memory")];
/// Trees whose seconds are shown.
const SMALL_FILES: usize = 2;

const WIDTH: f64 = 440.0;
const LEFT: f64 = 66.0;
const MARGIN: f64 = 14.0;
/// Where the axis of the lower part begins, and the ratio at its end.
const AXIS: f64 = 200.0;
const RATIO_MAX: f64 = 1.2;

const STYLE: &str = "\
:root { --paper: #fdfdfb; --ink: #1c1e21; --soft: #5b616a; --rule: #d9dbde; --haul: #c2410c; \
--other: #9aa3ad; --gnu: #5f6b78; } \
@media (prefers-color-scheme: dark) { :root { --paper: #15171a; --ink: #e9eaec; --soft: #a2a8b1; \
--rule: #33373d; --haul: #fb923c; --other: #6b7480; --gnu: #9aa5b1; } } \
text { font: 12.5px system-ui, -apple-system, \"Segoe UI\", Roboto, \"Noto Sans\", \"DejaVu Sans\", \
sans-serif; fill: var(--ink); font-variant-numeric: tabular-nums; } \
.heading { font-weight: 650; font-size: 14px; } .soft { fill: var(--soft); } .strong { font-weight: 700; } \
.paper { fill: var(--paper); } .haul { fill: var(--haul); } .other { fill: var(--other); } \
.gnu { fill: var(--gnu); } .rule { stroke: var(--rule); } .line { stroke: var(--gnu); } \
.mark { stroke: var(--paper); stroke-width: 1; }";

/// One series: a tree with a cold or warm cache, and the seconds of each candidate.
#[derive(Debug)]
struct Series {
    tree: String,
    cache: String,
    seconds: Vec<(String, f64)>,
}

impl Series {
    fn of(&self, candidate: &str) -> Result<f64, StepFailure> {
        let found = self.seconds.iter().find(|(name, _)| name == candidate).map(|(_, seconds)| *seconds);
        found.ok_or_else(|| {
            StepFailure(format!("no seconds of {candidate} for {}, {}", self.tree, self.cache))
        })
    }
}

/// Draws the pictures from the text of the page: seconds for small files, ratios for all trees.
pub(super) fn drawn(page: &str) -> Result<[String; 2], StepFailure> {
    let all = read(page);
    let find = |tree: &str, cache: &str| {
        let found = all.iter().find(|series| series.tree == tree && series.cache == cache);
        found.ok_or_else(|| StepFailure(format!("the page has no table for {tree}, {cache}")))
    };
    let mut seconds = String::new();
    let mut y = heading(&mut seconds, 26.0, "Seconds to copy small files, ext4 to ext4");
    for (tree, about) in TREES.iter().take(SMALL_FILES) {
        for (cache, place) in CACHES {
            y = bars(&mut seconds, y, &format!("{about}, {place}"), find(tree, cache)?)?;
        }
    }
    let mut ratios = String::new();
    let height = y + 10.0;
    let top = heading(&mut ratios, 26.0, "Time of every tree measured, GNU cp = 1");
    let top = legend(&mut ratios, top) + 6.0;
    let (mut y, mut rows) = (top, String::new());
    for (cache, place) in CACHES {
        text(&mut rows, MARGIN, y + 14.0, "start", "strong", place);
        y += 24.0;
        for (tree, about) in TREES {
            row(&mut rows, y, about, find(tree, cache)?)?;
            y += 22.0;
        }
        y += 6.0;
    }
    axis(&mut ratios, top, y);
    ratios.push_str(&rows);
    Ok([
        framed("Seconds to copy small files: haul, xcp, fcp, cpz and GNU cp", height, &seconds),
        framed("Times of haul, xcp, fcp and cpz, divided by those of GNU cp", height, &ratios),
    ])
}

fn framed(title: &str, height: f64, content: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\"><title>{title}</title><style>{STYLE}</style>\
         <rect width=\"{WIDTH}\" height=\"{height}\" rx=\"6\" class=\"paper\"/>\n{content}</svg>\n"
    )
}

/// Reads the tables: a heading `### many, cold`, and rows that begin with a name and seconds.
fn read(page: &str) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for line in page.lines() {
        if let Some((tree, cache)) = line.strip_prefix("### ").and_then(|heading| heading.split_once(", ")) {
            all.push(Series { tree: tree.to_owned(), cache: cache.to_owned(), seconds: Vec::new() });
        }
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        if let (Some(series), ["", name, seconds, ..]) = (all.last_mut(), cells.as_slice())
            && let Ok(seconds) = seconds.parse()
        {
            series.seconds.push(((*name).to_owned(), seconds));
        }
    }
    all
}

fn class(candidate: &str) -> &'static str {
    match candidate {
        "haul" => "haul",
        "GNU cp" => "gnu",
        _ => "other",
    }
}

fn heading(out: &mut String, y: f64, words: &str) -> f64 {
    text(out, MARGIN, y, "start", "heading", words);
    y + 10.0
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, class: &str, words: &str) {
    // Writing to a string can't fail.
    writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{words}</text>"
    )
    .unwrap_or_default();
}

fn bars(out: &mut String, y: f64, about: &str, series: &Series) -> Result<f64, StepFailure> {
    text(out, MARGIN, y + 16.0, "start", "strong", about);
    let mut y = y + 23.0;
    let slowest = series.seconds.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
    for candidate in CANDIDATES {
        let seconds = series.of(candidate)?;
        let width = seconds / slowest * (WIDTH - LEFT - MARGIN - 42.0);
        let weight = if candidate == "haul" { "strong" } else { "" };
        text(out, LEFT - 6.0, y + 11.0, "end", weight, candidate);
        let class = class(candidate);
        writeln!(
            out,
            "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"12\" rx=\"1.5\" class=\"{class}\"/>"
        )
        .unwrap_or_default();
        text(out, LEFT + width + 5.0, y + 11.0, "start", weight, &format!("{seconds:.2}"));
        y += 15.0;
    }
    Ok(y + 4.0)
}

fn legend(out: &mut String, y: f64) -> f64 {
    let mut x = MARGIN + 6.0;
    for candidate in CANDIDATES {
        mark(out, candidate, x, y + 12.0);
        text(out, x + 9.0, y + 16.0, "start", "", candidate);
        x += 64.0;
    }
    y + 26.0
}

fn place(ratio: f64) -> f64 {
    AXIS + ratio / RATIO_MAX * (WIDTH - MARGIN - 16.0 - AXIS)
}

fn axis(out: &mut String, top: f64, bottom: f64) {
    for step in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let (x, class) = (place(step), if step < 1.0 { "rule" } else { "line" });
        writeln!(out, "<path d=\"M{x:.1} {top:.1}V{bottom:.1}\" class=\"{class}\"/>").unwrap_or_default();
        text(out, x, bottom + 13.0, "middle", "soft", &format!("{step}"));
    }
}

/// A row of marks. One that is beyond the axis is at its end, with its ratio.
fn row(out: &mut String, y: f64, about: &str, series: &Series) -> Result<(), StepFailure> {
    text(out, MARGIN + 8.0, y + 12.0, "start", "soft", about);
    let gnu = series.of("GNU cp")?;
    // haul's mark is the largest, and below the others, so that it hides none.
    for candidate in CANDIDATES {
        let ratio = series.of(candidate)? / gnu;
        if ratio > RATIO_MAX {
            text(out, place(RATIO_MAX) + 22.0, y + 12.0, "end", "soft", &format!("{ratio:.1}"));
            mark(out, candidate, place(RATIO_MAX) - 8.0, y + 8.0);
        } else {
            mark(out, candidate, place(ratio), y + 8.0);
        }
    }
    Ok(())
}

/// A mark whose shape says whose it is, also without colour.
fn mark(out: &mut String, candidate: &str, x: f64, y: f64) {
    let shape = match candidate {
        "haul" => format!("M{:.1} {y:.1}a7 7 0 1 0 14 0a7 7 0 1 0 -14 0z", x - 7.0),
        "xcp" => format!("M{:.1} {:.1}h9v9h-9z", x - 4.5, y - 4.5),
        "fcp" => format!("M{:.1} {:.1}l5.5 -9.5l5.5 9.5z", x - 5.5, y + 4.5),
        "cpz" => format!("M{:.1} {y:.1}l5.5 -5.5l5.5 5.5l-5.5 5.5z", x - 5.5),
        _ => format!("M{:.1} {:.1}h3v12h-3z", x - 1.5, y - 6.0),
    };
    writeln!(out, "<path d=\"{shape}\" class=\"mark {}\"/>", class(candidate)).unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_the_page_are_read() {
        let page = "### many, cold\n\n| candidate | seconds | min |\n|---|---:|---:|\n| haul | 0.650 | 1 |\n\
                    | GNU cp | 5.11 | 5 |\n";
        let all = read(page);
        assert_eq!(all.len(), 1);
        assert!((all[0].tree.as_str(), all[0].cache.as_str()) == ("many", "cold"));
        assert_eq!(all[0].seconds, [("haul".to_owned(), 0.65), ("GNU cp".to_owned(), 5.11)]);
        assert!(all[0].of("xcp").is_err() && drawn(page).is_err());
    }
}
