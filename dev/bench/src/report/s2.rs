//! Report of S2: the six rows of aio-stress, buffered and direct, next to the document's table.

use super::StudyView;
use super::figure::{Bar, Claim, Figure, FigureRow, Group, Panel, Table, joined, or_dash, rate, winners};
use crate::study::Role;
use crate::study::findings::{Measured, SettingFigures, SettingResult, StudyFindings};
use crate::study::published::document;
use crate::study::s2::{DIRECT, ENGINES, ROWS};

const PUBLISHED: [(&str, &str, Role); 4] = [
    ("vanilla", "vanilla", Role::Sync),
    ("patched", "patched (retry)", Role::Retry),
    ("vanilla/direct", "vanilla, direct", Role::Sync),
    ("patched/direct", "patched, direct", Role::Retry),
];

pub(crate) fn view(findings: &StudyFindings) -> StudyView {
    StudyView {
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

fn is_direct(line: &SettingResult) -> bool {
    line.id.ends_with(DIRECT)
}

fn by_mode(findings: &StudyFindings) -> Figure {
    let panel = |title: &str, direct: bool| {
        let groups = findings.parts.iter().map(|part| {
            let lines = part.lines.iter().filter(|line| is_direct(line) == direct);
            let bars = lines.map(|line| Bar::of(line).called(line.id.trim_end_matches(DIRECT)));
            Group::new(&part.label, bars)
        });
        Panel::bars(title, "MB/s; longer is better", groups)
    };
    let buffered = |part: &'_ Measured| part.lines.iter().filter(|line| !is_direct(line)).cloned().collect();
    let buffered: Vec<Vec<SettingResult>> = findings.parts.iter().map(buffered).collect();
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

fn published_figure(findings: &StudyFindings) -> Figure {
    let groups = ROWS.iter().map(|row| {
        let bars = PUBLISHED.iter().filter_map(|(id, label, role)| {
            Some(Bar::published(label, *role, findings.published_value(row.name, id)?))
        });
        Group::new(row.label, bars)
    });
    let then = Panel::bars("The document\u{2019}s table", "MB/s; longer is better", groups)
        .published(document(findings.study).short);
    let gains = Panel::bars(
        "Gain over the blocking way",
        "times the throughput of the blocking engine; 1 is no gain",
        findings.parts.iter().map(|part| Group::new(&part.label, gains(findings, part))),
    );
    Figure {
        title: "Then and now: what not waiting gains".to_owned(),
        caption:
            "Left, what the document measured with and without its patches. Right, the throughput of each \
                  engine through the page cache here, divided by that of the blocking engine."
                .to_owned(),
        panels: vec![then, gains],
    }
}

/// Returns each engine's rate through the page cache, relative to the blocking engine.
fn gains(findings: &StudyFindings, part: &Measured) -> Vec<Bar> {
    let published = |id| findings.published_value(&part.name, id);
    let then = published("patched").zip(published("vanilla")).map(|(patched, vanilla)| patched / vanilla);
    ENGINES
        .iter()
        .filter(|(engine, _)| *engine != "sync")
        .filter_map(|(engine, role)| {
            let gain = part.mean(engine)? / part.mean("sync")?;
            let bar = Bar::published(engine, *role, gain);
            let remark = match (then, *engine) {
                (Some(then), "retry") => format!("(then {then:.1})"),
                _ => String::new(),
            };
            Some(Bar { remark, ..bar })
        })
        .collect()
}

/// Returns rows by engines: through the page cache if `mode` is empty, or with O_DIRECT.
fn table(findings: &StudyFindings, title: &str, mode: &str) -> Table {
    let row = |part: &Measured| {
        let engines = ENGINES.iter().map(|(engine, _)| part.line(&format!("{engine}{mode}")));
        FigureRow::new(&part.label, engines.map(|line| or_dash(line.and_then(SettingResult::timed), cell)))
    };
    let note = "In parentheses: the rate when the fsync afterwards counts too.";
    Table::new(title, note, ENGINES.map(|(engine, _)| engine), findings.parts.iter().map(row))
}

/// Formats a rate, followed by the rate including the fsync in parentheses, if there was one.
fn cell(figures: &SettingFigures) -> String {
    let value = rate(figures.value.mean);
    figures.with_sync.map_or(value.clone(), |synced| format!("{value} ({})", rate(synced.mean)))
}

/// Returns the table as printed, including its numbers in parentheses.
fn published_table(findings: &StudyFindings) -> Table {
    let value = |part: &str, id: &str| findings.published_value(part, id);
    let rows = ROWS.iter().map(|row| {
        let with_second = |id: &str| {
            let first = value(row.name, id).map(|value| format!("{value:.2}"));
            match (first, value(row.name, &format!("{id} (2)"))) {
                (Some(first), Some(second)) => format!("{first} ({second:.2})"),
                (first, _) => first.unwrap_or_default(),
            }
        };
        let direct = ["vanilla/direct", "patched/direct"].into_iter();
        let direct = direct.filter_map(|id| value(row.name, id).map(|value| format!("{value:.2}")));
        let direct = joined(direct, ", ").unwrap_or_default();
        FigureRow::new(row.label, [with_second("vanilla"), with_second("patched"), direct])
    });
    let note = "The document does not say what the numbers in parentheses are; aio-stress prints the rate with its fsync so.";
    let columns = ["Vanilla", "Patched", "O_DIRECT (vanilla, patched)"];
    Table::new("aio-stress, as published: MB/s", note, columns, rows)
}

fn claims(findings: &StudyFindings) -> Vec<Claim> {
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
