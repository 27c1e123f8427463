//! Report of S4: broad, fat, deep and practical against cp -r, with the t-tests, and the ablations.

use super::View;
use super::figure::{
    Bar, Bars, Claim, Figure, Group, Panel, Row, Source, Table, Tone, joined, number, probability,
};
use crate::run::findings::{Findings, Line, Measured, Outcome};
use crate::run::published::document;
use crate::run::s4::{AS_DCP, TREES};
use crate::run::study::{AUTO, CP, Role, Unit};
use crate::table;

const COLUMNS: [&str; 8] = ["s", "\u{b1}", "MB/s", "times as fast", "t", "degrees", "p Welch", "p pooled"];

pub(crate) fn view(findings: &Findings) -> View {
    let mut figures = vec![against_cp(findings)];
    figures.extend(ablations(findings));
    View {
        title: "Fast recursive copy: broad, fat and deep trees against cp -r",
        about: "Three trees made to be hard in different ways, and a few large files as a backup of videos has \
                them, copied with nothing in memory: by GNU cp -r, by haul with the settings of the \
                document\u{2019}s program (POSIX AIO, a buffer of 512 KiB, targets allocated), and by haul left \
                to its own choice.",
        claims: claims(findings),
        figures,
        tables: [vec![tests(findings)], ablation_tables(findings)].concat(),
    }
}

fn trees(findings: &Findings) -> impl Iterator<Item = &Measured> {
    TREES.iter().filter_map(|kind| findings.part(kind.name()))
}

/// Returns the p-value of Welch's test, as a remark.
fn remark(line: &Line) -> String {
    let test = line.timed().and_then(|figures| figures.test.as_ref());
    let welch = test.and_then(|test| test.welch);
    welch.map_or_else(String::new, |welch| format!("p {}", probability(welch.p)))
}

fn against_cp(findings: &Findings) -> Figure {
    let panel = |part: &Measured| {
        let totals = part.totals;
        let bars = part.lines.iter().map(|line| Bar { remark: remark(line), ..Bar::of(line) });
        Panel::Bars(Bars {
            title: format!("{}: {} files, {:.0} MB", part.label, totals.files, totals.bytes as f64 / 1e6),
            source: Source::Measured,
            axis: "seconds to return; shorter is better".to_owned(),
            groups: vec![Group { heading: String::new(), bars: bars.collect() }],
        })
    };
    let mut panels: Vec<Panel> = trees(findings).map(panel).collect();
    panels.push(published_factors(findings));
    panels.push(published_practical(findings));
    let better = trees(findings).filter_map(|part| {
        let times = part.line(AUTO)?.timed()?.test.as_ref()?.times_as_good;
        Some(format!("{} {times:.2}", part.label))
    });
    let better = joined(better, ", ");
    Figure {
        title: "Time to copy each tree".to_owned(),
        caption: format!(
            "Mean time of {} cold copies with one sample standard deviation to each side; p is how likely a \
             mean so much below that of cp -r is by chance (Welch\u{2019}s test, one-tailed). haul\u{2019}s own \
             choice is so many times as fast as cp -r: {}.",
            findings.rounds,
            better.as_deref().unwrap_or("not measured")
        ),
        panels,
    }
}

fn published_factors(findings: &Findings) -> Panel {
    let groups = ["broad", "fat", "deep"].map(|name| {
        let bars = findings.published.iter().filter(|one| one.part == name && one.unit == "x");
        let bars = bars.map(|one| Bar::published(one.id, Tone::of(Role::PosixAio), one.value));
        Group { heading: name.to_owned(), bars: bars.collect() }
    });
    Panel::Bars(Bars {
        title: "dcp, times as fast as cp -r".to_owned(),
        source: Source::Published(document(findings.study).short),
        axis: "times as fast as cp -r (the text names these pairs only)".to_owned(),
        groups: groups.to_vec(),
    })
}

fn published_practical(findings: &Findings) -> Panel {
    let is_time = |id: &str| {
        let of_practical = findings.published.iter().filter(|one| one.part == "practical");
        of_practical
            .filter(|one| one.quantity == "completion time")
            .find(|one| one.id == id)
            .map(|one| one.value)
    };
    let bars = [("cp", "cp -r", Role::Reference), ("dcp", "dcp", Role::PosixAio)];
    let bars = bars.iter().filter_map(|(id, label, role)| {
        let mut bar = Bar::published(label, Tone::of(*role), is_time(id)?);
        if *id == "dcp" {
            bar.remark = "p < 0.01".to_owned();
        }
        Some(bar)
    });
    Panel::Bars(Bars {
        title: "practical: 5.7 GB".to_owned(),
        source: Source::Published("hdd to hdd"),
        axis: "seconds (deviation: 5 s)".to_owned(),
        groups: vec![Group { heading: String::new(), bars: bars.collect() }],
    })
}

fn ablations(findings: &Findings) -> Option<Figure> {
    let panels: Vec<Panel> = findings
        .group("ablations")
        .map(|part| {
            let bars = part.lines.iter().map(|line| Bar { remark: remark(line), ..Bar::of(line) });
            Panel::Bars(Bars {
                title: part.label.clone(),
                source: Source::Measured,
                axis: "seconds to return; shorter is better".to_owned(),
                groups: vec![Group { heading: String::new(), bars: bars.collect() }],
            })
        })
        .collect();
    (!panels.is_empty()).then(|| Figure {
        title: "One optimisation less: what each is worth".to_owned(),
        caption: "haul\u{2019}s own choice, and the same with one optimisation turned off; p is how likely a mean \
                  so much above the whole program\u{2019}s is by chance (Welch\u{2019}s test, one-tailed). Where \
                  a bar is no longer, the optimisation gains nothing on this tree and this disk."
            .to_owned(),
        panels,
    })
}

/// Returns the table a paper would print: mean, deviation, and the tests.
fn tests(findings: &Findings) -> Table {
    let rows = trees(findings).flat_map(|part| part.lines.iter().map(move |line| test_row(part, line)));
    Table {
        title: "Against cp -r: mean, sample standard deviation, one-tailed unpaired t-tests".to_owned(),
        note: "MB/s: bytes of the tree over the mean time. p Welch is the probability in the plots and beside the claims; \
               p pooled is that of the document\u{2019}s test, which assumes equal variances."
            .to_owned(),
        columns: COLUMNS.map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}

fn test_row(part: &Measured, line: &Line) -> Row {
    let cells = match &line.outcome {
        Outcome::Failed(why) => Err(why.clone()),
        Outcome::Timed(figures) => {
            let none = || "-".to_owned();
            let test = figures.test.as_ref();
            let welch = test.and_then(|test| test.welch);
            Ok(vec![
                number(figures.value.mean, Unit::Seconds),
                figures.value.deviation.map_or_else(none, table::seconds),
                format!("{:.0}", part.totals.bytes as f64 / 1e6 / figures.value.mean),
                test.map_or_else(none, |test| format!("{:.2}", test.times_as_good)),
                welch.map_or_else(none, |welch| format!("{:.2}", welch.t)),
                welch.map_or_else(none, |welch| format!("{:.1}", welch.degrees)),
                welch.map_or_else(none, |welch| probability(welch.p)),
                test.and_then(|test| test.pooled).map_or_else(none, |pooled| probability(pooled.p)),
            ])
        }
    };
    Row { name: format!("{}: {}", part.label, line.label), cells, is_auto: line.id == AUTO }
}

fn ablation_tables(findings: &Findings) -> Vec<Table> {
    let table = |part: &Measured| Table {
        title: format!("{}: one optimisation less", part.label),
        note: "Tested for being slower than the whole program.".to_owned(),
        columns: COLUMNS.map(str::to_owned).to_vec(),
        rows: part
            .lines
            .iter()
            .map(|line| Row { name: line.label.clone(), ..test_row(part, line) })
            .collect(),
    };
    findings.group("ablations").map(table).collect()
}

fn claims(findings: &Findings) -> Vec<Claim> {
    let stands = |part: &str, id: &str| {
        let line = findings.part(part)?.line(id)?;
        let test = line.timed()?.test.as_ref()?;
        let p = test.welch.map_or_else(|| "no test".to_owned(), |it| format!("p = {}", probability(it.p)));
        Some(format!("{:.2} times as fast ({p})", test.times_as_good))
    };
    let both = |part: &str| {
        let (auto, dcp) = (stands(part, AUTO), stands(part, AS_DCP));
        let said = [auto.map(|it| format!("haul {it}")), dcp.map(|it| format!("as dcp {it}"))];
        joined(said.into_iter().flatten(), "; ")
    };
    let ablated = |part: &str| {
        let said = ["1-thread", "12-thread", "no-fadvise", "no-readahead"].iter().filter_map(|id| {
            let line = findings.part(part)?.line(id)?;
            let test = line.timed()?.test.as_ref()?;
            Some(format!("{}: p = {}", line.label, probability(test.welch?.p)))
        });
        joined(said, ", ")
    };
    let practical = findings.part("practical").and_then(|part| {
        let rate = |id: &str| Some(part.totals.bytes as f64 / 1e6 / part.mean(id)?);
        Some(format!("haul {:.0} MB/s, cp -r {:.0} MB/s; {}", rate(AUTO)?, rate(CP)?, both("practical")?))
    });
    vec![
        Claim::new(
            "broad: dcp is 1.9 times as fast as cp -r from disk to disk, 1.7 from SSD to disk; p < 0.005 everywhere.",
            both("broad"),
        ),
        Claim::new(
            "fat: 1.8 times from disk to disk, 1.5 from SSD to disk; p < 0.005 everywhere.",
            both("fat"),
        ),
        Claim::new("deep: 1.7 times from SSD to an external disk; p < 0.005 everywhere.", both("deep")),
        Claim::new("practical: 1:50 beside 2:10 minutes, 53 beside 45 MB/s, p < 0.01.", practical),
        Claim::new(
            "broad: of the ablations 1 thread (p = 0.002) and no fadvise (p = 0.04) are significantly slower.",
            ablated("broad-ablated"),
        ),
        Claim::new(
            "fat: 1 thread (p = 2e-7), 12 threads (p = 0.04) and no read-ahead (p = 0.009) are.",
            ablated("fat-ablated"),
        ),
        Claim::new("deep: only 1 thread (p < 0.001) is.", ablated("deep-ablated")),
    ]
}
