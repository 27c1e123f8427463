//! Report of S2: the six rows of aio-stress, buffered and direct, beside the document's table.

use super::View;
use super::figure::{
    Bar, Bars, Claim, Figure, Group, Panel, Row, Source, Table, Tone, joined, rate, winners,
};
use crate::run::findings::{Figures, Findings, Line, Measured};
use crate::run::published::{document, find};
use crate::run::s2::{DIRECT, ENGINES, ROWS};
use crate::run::study::Role;

/// The document's columns of numbers.
const PUBLISHED: [(&str, &str, Role); 4] = [
    ("vanilla", "vanilla", Role::Sync),
    ("patched", "patched (retry)", Role::Retry),
    ("vanilla/direct", "vanilla, direct", Role::Sync),
    ("patched/direct", "patched, direct", Role::Retry),
];

pub(crate) fn view(findings: &Findings) -> View {
    View {
        title: "Buffered I/O that does not wait: aio-stress, engine by engine",
        about: "One file is read and written in records of 64 KB, at random and in order, 64 of them in \
                flight, with nothing of it in memory at the start. The document compares a kernel that blocks \
                in io_submit with one that does what it can and comes back; here each of haul\u{2019}s \
                engines does the same work, through the page cache and round it.",
        claims: claims(findings),
        figures: vec![by_mode(findings), published_figure(findings)],
        tables: vec![
            table(findings, "aio-stress through the page cache, measured here: MB/s", ""),
            table(findings, "aio-stress with O_DIRECT, measured here: MB/s", DIRECT),
            published_table(findings),
        ],
    }
}

fn is_direct(line: &Line) -> bool {
    line.id.ends_with(DIRECT)
}

fn by_mode(findings: &Findings) -> Figure {
    let panel = |title: &str, direct: bool| {
        let groups = findings.parts.iter().map(|part| Group {
            heading: part.label.clone(),
            bars: part
                .lines
                .iter()
                .filter(|line| is_direct(line) == direct)
                .map(|line| Bar::of(line).called(line.id.trim_end_matches(DIRECT)))
                .collect(),
        });
        Panel::Bars(Bars {
            title: title.to_owned(),
            source: Source::Measured,
            axis: "MB/s; longer is better".to_owned(),
            groups: groups.collect(),
        })
    };
    let buffered = |part: &'_ Measured| part.lines.iter().filter(|line| !is_direct(line)).cloned().collect();
    let buffered: Vec<Vec<Line>> = findings.parts.iter().map(buffered).collect();
    let winners = winners(buffered.iter().map(|lines| lines.iter()), findings.unit);
    Figure {
        title: "Throughput of each engine".to_owned(),
        caption: format!(
            "Mean of {} runs, each on a file that was not in memory, with one sample standard deviation to each \
             side; the panels have scales of their own. Through the page cache: {winners}",
            findings.rounds
        ),
        panels: vec![panel("Through the page cache", false), panel("Round it, with O_DIRECT", true)],
    }
}

fn published_figure(findings: &Findings) -> Figure {
    let groups = ROWS.iter().map(|row| Group {
        heading: row.label.to_owned(),
        bars: PUBLISHED
            .iter()
            .filter_map(|(id, label, role)| {
                let value = find(findings.published, row.name, id)?;
                Some(Bar::published(label, Tone::of(*role), value))
            })
            .collect(),
    });
    let panel = Bars {
        title: "The document\u{2019}s table".to_owned(),
        source: Source::Published(document(findings.study).short),
        axis: "MB/s; longer is better".to_owned(),
        groups: groups.collect(),
    };
    let gain =
        findings.parts.iter().map(|part| Group { heading: part.label.clone(), bars: gains(findings, part) });
    let gains = Bars {
        title: "Gain over the blocking way".to_owned(),
        source: Source::Measured,
        axis: "times the throughput of the blocking engine; 1 is no gain".to_owned(),
        groups: gain.collect(),
    };
    Figure {
        title: "Then and now: what not waiting gains".to_owned(),
        caption:
            "Left, what the document measured with and without its patches. Right, the throughput of each \
                  engine through the page cache here, divided by that of the blocking engine."
                .to_owned(),
        panels: vec![Panel::Bars(panel), Panel::Bars(gains)],
    }
}

/// Returns each engine's rate through the page cache, relative to the blocking engine.
fn gains(findings: &Findings, part: &Measured) -> Vec<Bar> {
    let published = |id| find(findings.published, &part.name, id);
    let then = published("patched").zip(published("vanilla")).map(|(patched, vanilla)| patched / vanilla);
    ENGINES
        .iter()
        .filter(|(engine, _)| *engine != "sync")
        .filter_map(|(engine, role)| {
            let gain = part.mean(engine)? / part.mean("sync")?;
            let bar = Bar::published(engine, Tone::of(*role), gain);
            let remark = match (then, *engine) {
                (Some(then), "retry") => format!("(then {then:.1})"),
                _ => String::new(),
            };
            Some(Bar { remark, ..bar })
        })
        .collect()
}

/// Returns rows by engines: through the page cache if `mode` is empty, or with O_DIRECT.
fn table(findings: &Findings, title: &str, mode: &str) -> Table {
    let cells = |part: &Measured| {
        let engines = ENGINES.iter().map(|(engine, _)| part.line(&format!("{engine}{mode}")));
        let cells = engines.map(|line| line.and_then(Line::timed).map_or_else(|| "-".to_owned(), cell));
        cells.collect()
    };
    let rows = findings.parts.iter();
    let rows =
        rows.map(|part| Row { name: part.label.clone(), cells: Ok(cells(part)), is_auto: false }).collect();
    Table {
        title: title.to_owned(),
        note: "In parentheses: the rate when the fsync afterwards counts too.".to_owned(),
        columns: ENGINES.map(|(engine, _)| engine.to_owned()).to_vec(),
        rows,
    }
}

/// Formats a rate, followed by the rate including the fsync in parentheses, if there was one.
fn cell(figures: &Figures) -> String {
    let value = rate(figures.value.mean);
    figures.with_sync.map_or(value.clone(), |synced| format!("{value} ({})", rate(synced.mean)))
}

/// Returns the table as printed, including its numbers in parentheses.
fn published_table(findings: &Findings) -> Table {
    let value = |part: &str, id: &str| find(findings.published, part, id);
    let rows = ROWS.iter().map(|row| {
        let with_second = |id: &str| {
            let first = value(row.name, id).map(|value| format!("{value:.2}"));
            match (first, value(row.name, &format!("{id} (2)"))) {
                (Some(first), Some(second)) => format!("{first} ({second:.2})"),
                (first, _) => first.unwrap_or_default(),
            }
        };
        let direct = ["vanilla/direct", "patched/direct"]
            .iter()
            .filter_map(|id| value(row.name, id).map(|value| format!("{value:.2}")))
            .collect::<Vec<_>>();
        Row {
            name: row.label.to_owned(),
            cells: Ok(vec![with_second("vanilla"), with_second("patched"), direct.join(", ")]),
            is_auto: false,
        }
    });
    Table {
        title: "aio-stress, as published: MB/s".to_owned(),
        note: "The document does not say what the numbers in parentheses are; aio-stress prints the rate with its fsync so.".to_owned(),
        columns: ["Vanilla", "Patched", "O_DIRECT (vanilla, patched)"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}

fn claims(findings: &Findings) -> Vec<Claim> {
    let gain = |part: &str| {
        let part = findings.part(part)?;
        let of = |engine: &str| Some(part.mean(engine)? / part.mean("sync")?);
        let others = ENGINES.iter().filter(|(engine, _)| *engine != "sync");
        let said = others.filter_map(|(engine, _)| Some(format!("{engine} {:.2}", of(engine)?)));
        joined(said, ", ").map(|said| format!("times the blocking engine\u{2019}s rate: {said}"))
    };
    let beside_direct = findings.part("random-read").and_then(|part| {
        let (buffered, direct) = (part.mean("retry")?, part.mean("retry/direct")?);
        Some(format!("retry: {} MB/s buffered, {} MB/s direct", rate(buffered), rate(direct)))
    });
    vec![
        Claim::new("Random reads gain from 10.08 to 23.91 MB/s: 2.4 times.", gain("random-read")),
        Claim::new(
            "Random O_SYNC writes gain from 8.86 to 15.84 MB/s: 1.8 times.",
            gain("random-sync-write"),
        ),
        Claim::new(
            "Sequential O_SYNC writes gain from 8.68 to 32.60 MB/s: 3.8 times.",
            gain("sequential-sync-write"),
        ),
        Claim::new(
            "Sequential reads gain little (31.49 to 33.00 MB/s): read-ahead did the work already.",
            gain("sequential-read"),
        ),
        Claim::new(
            "Buffered random reads without waiting are faster than O_DIRECT (23.91 to 18.98 MB/s).",
            beside_direct,
        ),
    ]
}
