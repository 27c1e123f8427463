//! Report of S4: broad, fat, deep and practical against cp -r, with the t-tests, and the ablations.

use super::StudyView;
use super::figure::{
    Bar, Claim, Figure, FigureRow, Group, Panel, Table, joined, number, or_dash, probability,
};
use crate::names::ValueName;
use crate::study::findings::{Measured, SettingOutcome, SettingResult, StudyFindings};
use crate::study::published::document;
use crate::study::s4::{AS_DCP, TREES};
use crate::study::{AUTO, CP, Role, Unit};
use crate::table;

const COLUMNS: [&str; 8] = ["s", "\u{b1}", "MB/s", "times as fast", "t", "degrees", "p Welch", "p pooled"];

const AXIS: &str = "seconds to return; shorter is better";

pub(crate) fn view(findings: &StudyFindings) -> StudyView {
    let mut figures = vec![against_cp(findings)];
    figures.extend(ablations(findings));
    StudyView {
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

fn trees(findings: &StudyFindings) -> impl Iterator<Item = &Measured> {
    TREES.iter().filter_map(|kind| findings.part(&kind.name()))
}

fn remark(line: &SettingResult) -> String {
    let test = line.timed().and_then(|figures| figures.test.as_ref());
    let welch = test.and_then(|test| test.welch);
    welch.map_or_else(String::new, |welch| format!("p {}", probability(welch.p)))
}

fn against_cp(findings: &StudyFindings) -> Figure {
    let panel = |part: &Measured| {
        let totals = part.totals;
        let bars = part.lines.iter().map(|line| Bar { remark: remark(line), ..Bar::of(line) });
        let size = format!("{} files, {:.0} MB", totals.files, totals.bytes as f64 / 1e6);
        Panel::bars(format!("{}: {size}", part.label), AXIS, [Group::new("", bars)])
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

fn published_factors(findings: &StudyFindings) -> Panel {
    let groups = ["broad", "fat", "deep"].map(|name| {
        let bars = findings.published.iter().filter(|one| one.part == name && one.unit == "x");
        let bars = bars.map(|one| Bar::published(one.id, Role::PosixAio, one.value));
        Group::new(name, bars)
    });
    let axis = "times as fast as cp -r (the text names these pairs only)";
    Panel::bars("dcp, times as fast as cp -r", axis, groups).published(document(findings.study).short)
}

fn published_practical(findings: &StudyFindings) -> Panel {
    let bars = [("cp", "cp -r", Role::Reference), ("dcp", "dcp", Role::PosixAio)];
    let bars = bars.iter().filter_map(|(id, label, role)| {
        let mut bar = Bar::published(label, *role, findings.published_value("practical", id)?);
        if *id == "dcp" {
            bar.remark = "p < 0.01".to_owned();
        }
        Some(bar)
    });
    Panel::bars("practical: 5.7 GB", "seconds (deviation: 5 s)", [Group::new("", bars)])
        .published("hdd to hdd")
}

fn ablations(findings: &StudyFindings) -> Option<Figure> {
    let panels: Vec<Panel> = findings
        .group("ablations")
        .map(|part| {
            let bars = part.lines.iter().map(|line| Bar { remark: remark(line), ..Bar::of(line) });
            Panel::bars(&part.label, AXIS, [Group::new("", bars)])
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
fn tests(findings: &StudyFindings) -> Table {
    let rows = trees(findings).flat_map(|part| part.lines.iter().map(move |line| test_row(part, line)));
    let title = "Against cp -r: mean, sample standard deviation, one-tailed unpaired t-tests";
    let note = "MB/s: bytes of the tree over the mean time. p Welch is the probability in the plots and beside the claims; \
               p pooled is that of the document\u{2019}s test, which assumes equal variances.";
    Table::new(title, note, COLUMNS, rows)
}

fn test_row(part: &Measured, line: &SettingResult) -> FigureRow {
    let cells = match &line.outcome {
        SettingOutcome::Failed(why) => Err(why.clone()),
        SettingOutcome::Timed(figures) => {
            let test = figures.test.as_ref();
            let welch = test.and_then(|test| test.welch);
            Ok(vec![
                number(figures.value.mean, Unit::Seconds),
                or_dash(figures.value.deviation, table::seconds),
                format!("{:.0}", part.totals.bytes as f64 / 1e6 / figures.value.mean),
                or_dash(test, |test| format!("{:.2}", test.times_as_good)),
                or_dash(welch, |welch| format!("{:.2}", welch.t)),
                or_dash(welch, |welch| format!("{:.1}", welch.degrees)),
                or_dash(welch, |welch| probability(welch.p)),
                or_dash(test.and_then(|test| test.pooled), |pooled| probability(pooled.p)),
            ])
        }
    };
    FigureRow { name: format!("{}: {}", part.label, line.label), cells, is_auto: line.id == AUTO }
}

fn ablation_tables(findings: &StudyFindings) -> Vec<Table> {
    let table = |part: &Measured| {
        let row = |line: &SettingResult| FigureRow { name: line.label.clone(), ..test_row(part, line) };
        Table::new(
            format!("{}: one optimisation less", part.label),
            "Tested for being slower than the whole program.",
            COLUMNS,
            part.lines.iter().map(row),
        )
    };
    findings.group("ablations").map(table).collect()
}

fn claims(findings: &StudyFindings) -> Vec<Claim> {
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
