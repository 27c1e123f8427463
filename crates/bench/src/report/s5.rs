//! Shows S5: rates over the number of clients, below the ceiling of the file system.

use super::View;
use super::figure::{
    Bar, Bars, Claim, Curve, Curves, Figure, Group, Level, Panel, Row, Source, Table, Tone, Value, rate,
};
use crate::run::findings::{Findings, Line, Measured};
use crate::run::published::document;
use crate::run::s5::{CLIENT_RATE, CLIENTS, TARGET_RATE, TARGETS, ceiling, dcp_id, haul_id};
use crate::run::study::{CP, Role};

/// Says what to show.
pub(crate) fn view(findings: &Findings) -> View {
    View {
        title: "spdcp: one copy by many clients of a striped file system",
        about: "Many files of 100 MB, a few of 24,000 MB, and both at once, copied by 1 to 16 clients, each a process with a \
                mount of its own of a file system whose rates are known; GNU cp on one client beside them.",
        claims: claims(findings),
        figures: findings.parts.iter().map(figure).chain(beside(findings)).collect(),
        tables: vec![table(findings)],
    }
}

fn figure(part: &Measured) -> Figure {
    let best = CLIENTS.iter().filter_map(|count| Some((*count, part.mean(&haul_id(*count))?)));
    let best =
        best.max_by(|one, other| one.1.total_cmp(&other.1)).map_or_else(String::new, |(count, mean)| {
            format!(
                " The most is {} MB/s, by {count} clients: {:.0}% of what they could.",
                rate(mean),
                share(count, mean)
            )
        });
    Figure {
        title: part.label.clone(),
        caption: format!(
            "Mean rate of {:.0} MB in {} files, until everything is on the targets; whiskers are one sample deviation. \
             The ceiling is {} MB/s for each client, and {TARGETS} targets of {} MB/s, reading and writing each.{best}",
            part.totals.bytes as f64 / 1e6,
            part.totals.files,
            CLIENT_RATE / 1_000_000,
            TARGET_RATE / 1_000_000,
        ),
        panels: vec![Panel::Curves(curves(part))],
    }
}

fn share(clients: u32, mean: f64) -> f64 {
    100.0 * mean / ceiling(clients)
}

fn curves(part: &Measured) -> Curves {
    let of = |label: &str, role, id: fn(u32) -> String| {
        let point = |count: &u32| {
            let line = part.line(&id(*count))?;
            Some((f64::from(*count), Value::of(line.timed()?)))
        };
        let points: Vec<_> = CLIENTS.iter().filter_map(point).collect();
        Curve { label: label.to_owned(), tone: Tone::of(role), points }
    };
    let limit = CLIENTS.iter().map(|count| (f64::from(*count), Value::exactly(ceiling(*count))));
    let ceiling =
        Curve { label: "ceiling".to_owned(), tone: Tone::of(Role::Ablation), points: limit.collect() };
    let mut curves = vec![ceiling, of("haul", Role::Auto, haul_id), of("dcp", Role::Rival, dcp_id)];
    curves.retain(|curve| !curve.points.is_empty());
    let level = |line: &Line| {
        Some(Level { label: "cp -r, 1 client".to_owned(), tone: Tone::of(line.role), value: line.mean()? })
    };
    Curves {
        title: "Rate over clients".to_owned(),
        axis: "MB/s; higher is better".to_owned(),
        x_axis: "clients".to_owned(),
        curves,
        levels: part.line(CP).and_then(level).into_iter().collect(),
    }
}

/// How many times as fast as `cp -r` the most clients are, here and in the document.
fn beside(findings: &Findings) -> Option<Figure> {
    let most = CLIENTS.last().copied()?;
    let measured = findings.parts.iter().filter_map(|part| {
        let (many, alone) = (part.mean(&haul_id(most))?, part.mean(CP)?);
        Some(Bar::published(&part.label, Tone::of(Role::Auto), many / alone))
    });
    let published = findings.published.iter().filter(|one| one.unit == "x");
    let published = published.map(|one| Bar::published(one.part, Tone::of(Role::Rival), one.value));
    let panel = |title: String, source, bars| {
        let groups = vec![Group { heading: String::new(), bars }];
        Panel::Bars(Bars { title, source, axis: "times as fast as cp -r".to_owned(), groups })
    };
    let document = document(findings.study);
    Some(Figure {
        title: "Beside one client with cp -r".to_owned(),
        caption: format!(
            "How many times as fast as cp -r on one client: here, haul by {most} clients, whose ceiling is {:.1} times that of \
             one; there, spdcp at its peak, by 160 to 256 clients.",
            ceiling(most) / ceiling(1),
        ),
        panels: vec![
            panel(format!("haul, {most} clients"), Source::Measured, measured.collect()),
            panel("spdcp, the document".to_owned(), Source::Published(document.short), published.collect()),
        ],
    })
}

fn table(findings: &Findings) -> Table {
    let row = |part: &Measured| {
        let cell = |count: &u32| match part.mean(&haul_id(*count)) {
            Some(mean) => format!("{} ({:.0}%)", rate(mean), share(*count, mean)),
            None => "-".to_owned(),
        };
        let alone = part.mean(CP).map_or_else(|| "-".to_owned(), rate);
        let cells = std::iter::once(alone).chain(CLIENTS.iter().map(cell)).collect();
        Row { name: part.label.clone(), cells: Ok(cells), is_auto: false }
    };
    let clients = CLIENTS.iter().map(|count| format!("haul, {count}"));
    Table {
        title: "MB/s, and the share of what so many clients could".to_owned(),
        note: "Behind haul, the number of clients.".to_owned(),
        columns: std::iter::once("cp -r".to_owned()).chain(clients).collect(),
        rows: findings.parts.iter().map(row).collect(),
    }
}

fn claims(findings: &Findings) -> Vec<Claim> {
    let measured = |name: &str| {
        let part = findings.part(name)?;
        let most = CLIENTS.last().copied()?;
        let mean = part.mean(&haul_id(most))?;
        let times = part.mean(CP).map_or_else(String::new, |alone| format!(", {:.1} times cp", mean / alone));
        Some(format!(
            "{} MB/s by {most} clients{times}, {:.0}% of the ceiling",
            rate(mean),
            share(most, mean)
        ))
    };
    vec![
        Claim::new(
            "Workload 1: 7300 MB/s at most, 22 times cp; 73% of the peak of the file system.",
            measured("workload-1"),
        ),
        Claim::new("Workload 2: 9300 MB/s at most, 73 times cp; 93% of the peak.", measured("workload-2")),
        Claim::new("Workload 3: 9100 MB/s at most, 51 times cp.", measured("workload-3")),
    ]
}
