//! Formats results for people: plain text or Markdown, wrapped at 100 columns.
//!
//! Both formats come from the same rows, so they cannot disagree. No directory of the machine is
//! named, so the output can be published as it is.

use crate::candidates::{Candidate, HAUL};
use crate::ground::{ImageLayout, Sides};
use crate::machine::MachineFacts;
use crate::names::ValueName;
use crate::results::{CompareReport, Series, SeriesFigures, SeriesOutcome, Timed, best_rival};
use crate::statistics::Summary;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Columns, for a terminal.
    Text,
    /// Markdown tables, for a document.
    Markdown,
}

impl Style {
    /// Returns the indent of continuation lines after a line that begins with `mark`.
    fn indent(self, mark: &str) -> &'static str {
        match self {
            Style::Text => "    ",
            Style::Markdown if mark.is_empty() => "",
            Style::Markdown => "  ",
        }
    }
}

/// Maximum width of running text, in columns.
pub(crate) const WIDTH: usize = 100;

const NAME_WIDTH: usize = 30;

const HEADINGS: [&str; 6] = ["seconds", "min–max", "with sync", "CPU s", "peak MB", "GNU cp/x"];

const WIDTHS: [usize; 6] = [9, 15, 11, 9, 9, 10];

/// Formats the table of one series and its conclusions about haul.
pub(crate) fn series(series: &Series, layout: ImageLayout, rounds: u32, style: Style) -> String {
    let mut out = heading(series, layout, rounds, style);
    match style {
        Style::Text => text_table(&series.outcomes, &mut out),
        Style::Markdown => markdown_table(&series.outcomes, &mut out),
    }
    out.push('\n');
    let elsewhere =
        format!("Meanwhile the rest of the machine used {:.1} processors.", series.processors_elsewhere());
    for sentence in sentences(&series.outcomes).into_iter().chain([elsewhere]) {
        write_paragraph(&mut out, &sentence, style.indent(""));
    }
    out
}

fn heading(series: &Series, layout: ImageLayout, rounds: u32, style: Style) -> String {
    let (tree, cache) = (&series.workload, series.cache.name());
    let totals = tree.totals;
    let seed = tree.seed.map_or_else(String::new, |seed| format!(", seed {seed}"));
    let size = format!(
        "{}, {}, {}{seed}",
        counted(totals.files, "file", "files"),
        counted(totals.directories, "directory", "directories"),
        counted(totals.bytes, "byte", "bytes")
    );
    let where_to = match layout.sides {
        Sides::Two => format!("{} image to {} image", layout.source.name(), layout.target.name()),
        Sides::One => format!("within one {} image", layout.target.name()),
    };
    let how = format!("{cache} cache, {where_to}, median of {}", counted(rounds.into(), "round", "rounds"));
    match style {
        Style::Text => format!("{}: {size}\n{how}\n\n", tree.name),
        Style::Markdown => {
            let mut out = format!("### {}, {cache}\n\n", tree.name);
            write_paragraph(&mut out, &format!("{size}; {how}."), style.indent(""));
            out.push('\n');
            out
        }
    }
}

/// Returns the cells after the name.
fn cells(timed: &Timed) -> [String; 6] {
    let Summary { median, min, max, .. } = timed.seconds;
    [
        seconds(median),
        format!("{}–{}", seconds(min), seconds(max)),
        seconds(timed.seconds_with_sync.median),
        seconds(timed.cpu_seconds.median),
        peak(timed.memory_peak_bytes, timed.memory_floor_bytes, |megabytes| format!("{megabytes:.1}")),
        timed.ratio_to_gnu.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
    ]
}

/// Formats peak memory in megabytes, as an upper bound if it only shows the benchmark's own.
pub(crate) fn peak(bytes: u64, floor_bytes: u64, number: fn(f64) -> String) -> String {
    let bound = if bytes <= floor_bytes + 200_000 { "\u{2264}" } else { "" };
    format!("{bound}{}", number(bytes as f64 / 1e6))
}

fn text_table(outcomes: &[SeriesOutcome], out: &mut String) {
    let row = |name: &str, cells: &[String; 6]| {
        let mut line = format!("{name:NAME_WIDTH$}");
        for (cell, width) in cells.iter().zip(WIDTHS) {
            line.push_str(&format!("{cell:>width$}"));
        }
        line.push('\n');
        line
    };
    out.push_str(&row("", &HEADINGS.map(str::to_owned)));
    for outcome in outcomes {
        let name = outcome.candidate.as_str();
        match &outcome.figures {
            SeriesFigures::Timed(timed) if name.chars().count() < NAME_WIDTH => {
                out.push_str(&row(name, &cells(timed)))
            }
            // A name with many settings gets a line of its own.
            SeriesFigures::Timed(timed) => {
                write_paragraph(out, name, Style::Text.indent(""));
                out.push_str(&row("", &cells(timed)));
            }
            SeriesFigures::Failed(why) => {
                write_paragraph(out, &format!("{name:NAME_WIDTH$} no time: {why}"), Style::Text.indent(""));
            }
        }
    }
}

fn markdown_table(outcomes: &[SeriesOutcome], out: &mut String) {
    out.push_str(&format!(
        "| candidate | {} |\n|---|{}\n",
        HEADINGS.join(" | "),
        "---:|".repeat(HEADINGS.len())
    ));
    for outcome in outcomes {
        let name = &outcome.candidate;
        match &outcome.figures {
            SeriesFigures::Timed(timed) => {
                out.push_str(&format!("| {name} | {} |\n", cells(timed).join(" | ")));
            }
            SeriesFigures::Failed(why) => {
                let why = why.replace('|', "\\|");
                out.push_str(&format!("| {name} | no time: {why} |{}\n", " |".repeat(HEADINGS.len() - 1)));
            }
        }
    }
}

/// Compares haul, with each of its settings, to GNU cp and to the best of the others.
fn sentences(outcomes: &[SeriesOutcome]) -> Vec<String> {
    let best = best_rival(outcomes);
    let of_haul = outcomes.iter().filter(|outcome| outcome.id == HAUL);
    of_haul
        .filter_map(|outcome| {
            let timed = outcome.timed()?;
            let gnu = timed.ratio_to_gnu.map(|ratio| format!("{ratio:.2} times as fast as GNU cp"));
            let other = best.map(|(name, median)| {
                let ratio = median / timed.seconds.median;
                format!("{ratio:.2} times as fast as {name}, the best of the others")
            });
            let said = [gnu, other].into_iter().flatten().collect::<Vec<_>>().join(" and ");
            (!said.is_empty()).then(|| format!("{} is {said}.", outcome.candidate))
        })
        .collect()
}

/// Lists the machine, the method and the candidates.
pub(crate) fn facts(report: &CompareReport, style: Style) -> String {
    let MachineFacts { kernel, processor, processors, memory_bytes, date } = &report.machine;
    let memory = *memory_bytes as f64 / f64::from(1 << 30);
    let mut lines = vec![
        format!("{date}; Linux {kernel}; {processors} processors ({processor}); {memory:.1} GiB of memory"),
        "every run on a target made anew; candidates in turn; one more round was run first and thrown away; \
         every copy verified"
            .to_owned(),
    ];
    lines.extend(
        report
            .candidates
            .iter()
            .map(|Candidate { label, version, line, .. }| format!("{label}: {line} ({version})")),
    );
    let mark = if style == Style::Markdown { "- " } else { "" };
    let mut out = String::new();
    lines.iter().for_each(|line| write_paragraph(&mut out, &format!("{mark}{line}"), style.indent(mark)));
    out
}

/// Appends a paragraph wrapped at spaces, with continuation lines indented.
pub(crate) fn write_paragraph(out: &mut String, text: &str, indent: &str) {
    let mut column = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > WIDTH {
            out.push('\n');
            out.push_str(indent);
            column = indent.len();
        } else if column > 0 || word.is_empty() {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out.push('\n');
}

/// Formats seconds with about three significant digits.
pub(crate) fn seconds(value: f64) -> String {
    let decimals = match value {
        100.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// Formats a count with thousands separators and its unit.
fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { many })
}

/// Formats a count with thousands separators.
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidates::GNU;
    use crate::ground::CacheState;
    use crate::image::FileSystem;
    use crate::results::tests::{candidate, run};
    use crate::results::{MeasuredTree, outcomes};
    use crate::shapes::Totals;
    use crate::verify::Digest;

    const LAYOUT: ImageLayout =
        ImageLayout { source: FileSystem::Ext4, target: FileSystem::Xfs, sides: Sides::Two };

    const SETTINGS: &str = "haul -j 4 --engine=io-uring --queue-depth 128";

    fn example() -> Series {
        let candidates = [
            candidate(HAUL, "haul"),
            candidate(HAUL, SETTINGS),
            candidate(GNU, "GNU cp"),
            candidate("xcp", "xcp"),
            candidate("cpz", "cpz"),
        ];
        let mut runs = vec![
            run("haul", 1, 1.5),
            run(SETTINGS, 1, 0.75),
            run("GNU cp", 1, 6.0),
            run("xcp", 1, 3.0),
            run("cpz", 1, 1.0),
        ];
        runs[4].failure = Some(format!("wrong copy: {}", "d000/f00000 has other content; ".repeat(5)));
        Series {
            workload: MeasuredTree {
                name: "many".to_owned(),
                totals: Totals { files: 50_000, directories: 500, bytes: 204_800_000 },
                seed: Some(1),
                digest: Digest::default(),
            },
            cache: CacheState::Cold,
            outcomes: outcomes(&candidates, &runs),
            runs,
        }
    }

    #[test]
    fn text_fits_in_a_hundred_columns_and_its_columns_are_straight() {
        let text = series(&example(), LAYOUT, 3, Style::Text);
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
        let ends =
            |start: &str| text.lines().find(|line| line.starts_with(start)).map(|line| line.chars().count());
        assert_eq!(ends("haul  "), ends("GNU cp  "));
        assert!(text.contains("50,000 files, 500 directories, 204,800,000 bytes, seed 1"), "{text}");
        assert!(text.contains("cold cache, ext4 image to xfs image, median of 3 rounds"), "{text}");
    }

    #[test]
    fn ratios_are_of_the_same_series() {
        let text = series(&example(), LAYOUT, 3, Style::Text);
        let row = text.lines().find(|line| line.starts_with("haul  ")).unwrap();
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words, ["haul", "1.50", "1.50–1.50", "3.00", "0.750", "5.0", "4.00"]);
        let sentence =
            "haul is 4.00 times as fast as GNU cp and 2.00 times as fast as xcp, the best of the others.";
        assert!(text.contains(sentence), "{text}");
        assert!(text.contains("the rest of the machine used 0.1 processors."), "{text}");
    }

    #[test]
    fn who_has_no_time_has_a_reason() {
        for style in [Style::Text, Style::Markdown] {
            let text = series(&example(), LAYOUT, 3, style);
            let row = text.lines().find(|line| line.contains("no time")).unwrap();
            assert!(row.contains("cpz") && row.contains("wrong copy: d000/f00000"), "{row}");
        }
    }

    #[test]
    fn every_markdown_row_has_as_many_cells() {
        let text = series(&example(), LAYOUT, 3, Style::Markdown);
        let rows: Vec<usize> =
            text.lines().filter(|line| line.starts_with('|')).map(|line| line.matches('|').count()).collect();
        assert_eq!(rows, [8; 7], "{text}");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.0691, 0.6972, 6.604, 65.0, 651.23].map(seconds),
            ["0.069", "0.697", "6.60", "65.00", "651.2"]
        );
        assert_eq!([0, 999, 1_000, 204_800_000].map(grouped), ["0", "999", "1,000", "204,800,000"]);
    }
}
