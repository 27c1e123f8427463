//! Report of S5: rates over the number of clients, below the ceiling of the file system.

use super::StudyView;
use super::figure::{Bar, Claim, Curve, Figure, FigureRow, Group, Level, Panel, Table, Value, or_dash, rate};
use crate::study::findings::{Measured, SettingResult, StudyFindings};
use crate::study::published::document;
use crate::study::s5::{CLIENT_RATE, CLIENTS, TARGET_RATE, TARGETS, ceiling, dcp_id, haul_id};
use crate::study::{CP, Role};

pub(crate) fn view(findings: &StudyFindings) -> StudyView {
    let of = Ceilings { known: findings.has_ceiling };
    StudyView {
        title: "spdcp: one copy by many clients of a striped file system",
        about: if of.known {
            "Many files of 100 MB, a few of 24,000 MB, and both at once, copied by 1 to 16 clients, each a process with a \
             mount of its own of a file system whose rates are known; GNU cp on one client beside them."
        } else {
            "Many files of 100 MB, a few of 24,000 MB, and both at once, copied by more and more clients, each a process with \
             a mount of its own of one file system; GNU cp on one client beside them. What the file system can do at most is \
             not known."
        },
        claims: claims(findings, of),
        figures: findings.parts.iter().map(|part| figure(part, of)).chain(compared(findings, of)).collect(),
        tables: vec![table(findings, of)],
    }
}

/// Maximum rate of the clients, where it is known.
#[derive(Clone, Copy)]
struct Ceilings {
    known: bool,
}

impl Ceilings {
    /// Formats a rate as a share of the ceiling, as in `: 90% of what they could`.
    fn share(self, (before, after): (&str, &str), clients: u32, mean: f64) -> String {
        if !self.known {
            return String::new();
        }
        format!("{before}{:.0}{after}", 100.0 * mean / ceiling(clients))
    }
}

fn figure(part: &Measured, of: Ceilings) -> Figure {
    let best = CLIENTS.iter().filter_map(|count| Some((*count, part.mean(&haul_id(*count))?)));
    let best =
        best.max_by(|one, other| one.1.total_cmp(&other.1)).map_or_else(String::new, |(count, mean)| {
            let share = of.share((": ", "% of what they could"), count, mean);
            format!(" The most is {} MB/s, by {count} clients{share}.", rate(mean))
        });
    let limit = if of.known {
        format!(
            " The ceiling is {} MB/s for each client, and {TARGETS} targets of {} MB/s, reading and writing each.",
            CLIENT_RATE / 1_000_000,
            TARGET_RATE / 1_000_000,
        )
    } else {
        String::new()
    };
    Figure {
        title: part.label.clone(),
        caption: format!(
            "Mean rate of {:.0} MB in {} files, until everything is on the targets; whiskers are one sample deviation.\
             {limit}{best}",
            part.totals.bytes as f64 / 1e6,
            part.totals.files,
        ),
        panels: vec![curves(part, of)],
    }
}

fn curves(part: &Measured, of: Ceilings) -> Panel {
    let curve = |label: &str, role, id: fn(u32) -> String| {
        let point = |count: &u32| {
            let line = part.line(&id(*count))?;
            Some((f64::from(*count), Value::of(line.timed()?)))
        };
        Curve::new(label, role, CLIENTS.iter().filter_map(point))
    };
    let limit = CLIENTS.iter().map(|count| (f64::from(*count), Value::exactly(ceiling(*count))));
    let ceiling = Curve::new("ceiling", Role::Ablation, limit);
    let measured = [curve("haul", Role::Auto, haul_id), curve("dcp", Role::Rival, dcp_id)];
    let curves = of.known.then_some(ceiling).into_iter().chain(measured);
    let level = |line: &SettingResult| Some(Level::new("cp -r, 1 client", line.role, line.mean()?));
    let levels = part.line(CP).and_then(level);
    Panel::curves("Rate over clients", "MB/s; higher is better", "clients", curves, levels)
}

fn most_clients(findings: &StudyFindings) -> Option<u32> {
    let is_measured = |count: &u32| findings.parts.iter().any(|part| part.mean(&haul_id(*count)).is_some());
    CLIENTS.into_iter().rev().find(is_measured)
}

/// Compares the largest number of clients with `cp -r`, here and in the document.
fn compared(findings: &StudyFindings, of: Ceilings) -> Option<Figure> {
    let most = most_clients(findings)?;
    let measured = findings.parts.iter().filter_map(|part| {
        let (many, alone) = (part.mean(&haul_id(most))?, part.mean(CP)?);
        Some(Bar::published(&part.label, Role::Auto, many / alone))
    });
    let published = findings.published.iter().filter(|one| one.unit == "x");
    let published = published.map(|one| Bar::published(&one.part, Role::Rival, one.value));
    let panel =
        |title: String, bars: Vec<Bar>| Panel::bars(title, "times as fast as cp -r", [Group::new("", bars)]);
    Some(Figure {
        title: "Beside one client with cp -r".to_owned(),
        caption: format!(
            "How many times as fast as cp -r on one client: here, haul by {most} clients{}; there, spdcp at its peak, by 160 to \
             256 clients.",
            if of.known {
                format!(", whose ceiling is {:.1} times that of one", ceiling(most) / ceiling(1))
            } else {
                String::new()
            },
        ),
        panels: vec![
            panel(format!("haul, {most} clients"), measured.collect()),
            panel("spdcp, the document".to_owned(), published.collect())
                .published(document(findings.study).short),
        ],
    })
}

fn table(findings: &StudyFindings, of: Ceilings) -> Table {
    let row = |part: &Measured| {
        let cell = |count: &u32| {
            or_dash(part.mean(&haul_id(*count)), |mean| {
                format!("{}{}", rate(mean), of.share((" (", "%)"), *count, mean))
            })
        };
        FigureRow::new(
            &part.label,
            std::iter::once(or_dash(part.mean(CP), rate)).chain(CLIENTS.iter().map(cell)),
        )
    };
    let clients = CLIENTS.iter().map(|count| format!("haul, {count}"));
    let columns = std::iter::once("cp -r".to_owned()).chain(clients);
    let title = if of.known { "MB/s, and the share of what so many clients could" } else { "MB/s" };
    Table::new(title, "Behind haul, the number of clients.", columns, findings.parts.iter().map(row))
}

fn claims(findings: &StudyFindings, of: Ceilings) -> Vec<Claim> {
    let measured = |name: &str| {
        let part = findings.part(name)?;
        let most = most_clients(findings)?;
        let mean = part.mean(&haul_id(most))?;
        let times = part.mean(CP).map_or_else(String::new, |alone| format!(", {:.1} times cp", mean / alone));
        let share = of.share((", ", "% of the ceiling"), most, mean);
        Some(format!("{} MB/s by {most} clients{times}{share}", rate(mean)))
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
