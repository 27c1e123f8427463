//! Report of the simulations: progress lines, tables for a terminal, and a page with plots.

use haul_simulation::{Faults, MachineModel, WalkModel};

use super::StudyView;
use super::figure::{Claim, Curve, Figure, FigureRow, Level, Panel, Table, Value, digits, rate};
use super::html;
use crate::simulate::published::{self, PEAK, Published};
use crate::simulate::scenes::{
    COMPRESSED_BYTES, COMPRESSION, COMPRESSION_RATE, ClientModel, FAULTS_CLIENTS, LIST_RATES, RANKS_SERVERS,
    SMALL_CLIENTS,
};
use crate::simulate::{Point, Simulated};
use crate::study::Role;

pub(crate) fn line(point: &Point) -> String {
    let (bottleneck, busy) = point.outcome.busy.bottleneck();
    let what = format!("workload {}, {} clients", point.workload, point.clients);
    let end = format!("{:.1} s, busiest: {bottleneck} {:.0}%", point.outcome.seconds, 100.0 * busy);
    let what = if point.case.is_empty() { what } else { format!("{what}, {}", point.case) };
    match (point.workload, point.client) {
        ("small" | "ranks", _) => {
            let (servers, walk) = (point.metadata_servers, walk_name(point.walk));
            format!(
                "{what}, {servers} metadata servers, {} files a directory, {walk}: {:.0} files/s, {end}",
                point.directory_entries,
                point.outcome.files_rate()
            )
        }
        (COMPRESSION, _) => {
            format!("{}, {} clients: {:.0} MB/s, {end}", point.workload, point.clients, point.rate())
        }
        (_, ClientModel::OneRequest) => {
            format!("{what}, one request in flight: {:.0} MB/s, {end}", point.rate())
        }
        (_, ClientModel::Haul) => format!("{what}: {:.0} MB/s, {end}", point.rate()),
    }
}

fn walk_name(walk: WalkModel) -> &'static str {
    match walk {
        WalkModel::Launch => "--walk=launch",
        WalkModel::Ranks => "--walk=ranks",
    }
}

pub(crate) fn text(simulated: &Simulated) -> String {
    let mut out = String::from("Simulated, not measured: the assumptions are in docs/scale.md.\n");
    for table in tables(simulated) {
        out.push_str(&format!("\n{}\n{:>12}", table.title, ""));
        table.columns.iter().for_each(|column| out.push_str(&format!(" {column:>16}")));
        out.push('\n');
        for row in &table.rows {
            out.push_str(&format!("{:>12}", row.name));
            row.cells.iter().flatten().for_each(|cell| out.push_str(&format!(" {cell:>16}")));
            out.push('\n');
        }
    }
    out
}

pub(crate) fn page(simulated: &Simulated) -> String {
    let facts = vec![
        (
            "What this is",
            "a discrete-event simulation; nothing here was measured but the rate of listing".to_owned(),
        ),
        ("What is real in it", "the scheduler of rank 0, the planner, the model of teams".to_owned()),
        ("Seed", simulated.seed.to_string()),
        ("What goes wrong, but where a table says so", faults_text(&simulated.faults)),
        ("Assumptions", "docs/scale.md; the constants are in the tables below".to_owned()),
    ];
    let view = StudyView {
        title: "Copying with 1 to 512 clients, and 10\u{2079} small files",
        about: "The scheduler that a job runs, over a modelled file system: the three workloads of the document at their \
                full size of 240 GB each, and small files on 1,000 ranks.",
        claims: claims(simulated),
        figures: figures(simulated),
        tables: tables(simulated),
    };
    html::simulated(&view, &facts)
}

fn claims(simulated: &Simulated) -> Vec<Claim> {
    let best = |workload: &str, client| {
        let points =
            simulated.points.iter().filter(|point| point.workload == workload && point.client == client);
        points.max_by(|one, other| one.rate().total_cmp(&other.rate()))
    };
    let levels = |client| {
        let found = published::ALL.iter().filter_map(|published| {
            let best = best(published.workload, client)?.rate();
            let enough = |point: &&Point| {
                point.workload == published.workload && point.client == client && point.rate() >= 0.9 * best
            };
            Some(simulated.points.iter().find(enough)?.clients.to_string())
        });
        found.collect::<Vec<_>>().join(", ")
    };
    let mut claims: Vec<Claim> = published::ALL
        .iter()
        .map(|Published { workload, cp, spdcp }| {
            let said = format!(
                "Workload {workload}: {cp} MB/s with cp, {spdcp} MB/s at 160 to 256 clients with spdcp"
            );
            let found = best(workload, ClientModel::Haul).zip(best(workload, ClientModel::OneRequest)).map(
                |(haul, one)| {
                    format!(
                        "at best {:.0} MB/s with {} clients; with one request in flight {:.0} MB/s with {}",
                        haul.rate(),
                        haul.clients,
                        one.rate(),
                        one.clients
                    )
                },
            );
            Claim::new(&said, found)
        })
        .collect();
    let found = format!(
        "workloads 1, 2, 3 reach 90% of their best with {} clients; with one request in flight with {}",
        levels(ClientModel::Haul),
        levels(ClientModel::OneRequest)
    );
    claims.push(Claim::new(
        "\u{201c}the scaling of performance levels off at around 100 clients\u{201d}",
        Some(found),
    ));
    claims.push(compression_claim(simulated));
    claims
}

/// Bytes that bzip2 compresses as one block at its default level.
const BLOCK_BYTES: u64 = 900_000;

fn compression_claim(simulated: &Simulated) -> Claim {
    let of = |clients| {
        simulated.points.iter().find(|point| point.workload == COMPRESSION && point.clients == clients)
    };
    let found = of(64).zip(of(1)).map(|(many, one)| {
        format!(
            "of {} files of {} MB, {:.1} times with 64 clients. One such file has {} blocks, which the processors of one host \
             share: that many times at most, and it is not cut over hosts",
            many.outcome.files,
            COMPRESSED_BYTES / 1_000_000,
            many.rate() / one.rate(),
            COMPRESSED_BYTES.div_ceil(BLOCK_BYTES)
        )
    });
    Claim::new(
        "\u{201c}64 processors with a 20 MB file [...] 15 times more performance for compression\u{201d}",
        found,
    )
}

fn figures(simulated: &Simulated) -> Vec<Figure> {
    let rates = published::ALL.iter().map(|published| rate_panel(simulated, published)).collect();
    let mut figures = vec![
        Figure {
            title: "MB/s against clients".to_owned(),
            caption: "Each workload is 240 GB on 80 targets that give 10,000 MB/s in all (dashed). haul: 32 requests in \
                      flight for each client, whose link is modelled with 324 MB/s. One request: the same scheduler, clients \
                      that read a buffer and then write it. Lines across are the document\u{2019}s: GNU cp, and the peak of \
                      spdcp at 160 to 256 clients."
                .to_owned(),
            panels: rates,
        },
        Figure {
            title: "Efficiency against clients".to_owned(),
            caption: "The rate as a part of what the modelled hardware allows: the links of the clients, or the targets, \
                      whichever is less. Workload 1 loses some because its files lie on four targets each, by chance more on \
                      one than on another."
                .to_owned(),
            panels: vec![
                efficiency_panel(simulated, ClientModel::Haul, "haul"),
                efficiency_panel(simulated, ClientModel::OneRequest, "One request in flight"),
            ],
        },
    ];
    if simulated.files > 0 {
        figures.push(small_figure(simulated));
        figures.push(ranks_figure(simulated));
    }
    figures.retain(|figure| {
        figure.panels.iter().any(|panel| matches!(panel, Panel::Curves(curves) if !curves.curves.is_empty()))
    });
    figures
}

fn rate_panel(simulated: &Simulated, published: &Published) -> Panel {
    let curve = |client, label: &str, role| {
        Curve::new(label, role, points(simulated, published.workload, client, Point::rate))
    };
    let title = match published.workload {
        "1" => "Workload 1: 2400 files of 100 MB",
        "2" => "Workload 2: 10 files of 24,000 MB",
        _ => "Workload 3: 1200 of 100 MB, 5 of 24,000 MB",
    };
    let curves = [
        curve(ClientModel::Haul, "haul", Role::Auto),
        curve(ClientModel::OneRequest, "one request", Role::IoUring),
    ];
    let levels = [
        Level::new("targets", Role::Ablation, PEAK),
        Level::new("spdcp, published", Role::Sync, published.spdcp),
        Level::new("cp, published", Role::Reference, published.cp),
    ];
    Panel::curves(title, "MB/s, simulated", "clients", curves, levels)
}

fn points(
    simulated: &Simulated,
    workload: &str,
    client: ClientModel,
    of: fn(&Point) -> f64,
) -> Vec<(f64, Value)> {
    let of_it = simulated.points.iter().filter(|point| point.workload == workload && point.client == client);
    of_it.map(|point| (f64::from(point.clients), Value::exactly(of(point)))).collect()
}

fn efficiency_panel(simulated: &Simulated, client: ClientModel, title: &str) -> Panel {
    let roles = [Role::IoUring, Role::PosixAio, Role::KernelAio];
    let curves = published::ALL.iter().zip(roles).map(|(published, role)| {
        let points = points(simulated, published.workload, client, |point| 100.0 * point.efficiency());
        Curve::new(format!("workload {}", published.workload), role, points)
    });
    let all = Level::new("all of it", Role::Ablation, 100.0);
    Panel::curves(title, "% of what the hardware allows", "clients", curves, [all])
}

fn small_figure(simulated: &Simulated) -> Figure {
    let panel = |title, axis, value: fn(&Point) -> f64| {
        let curves =
            [(WalkModel::Launch, Role::IoUring), (WalkModel::Ranks, Role::Auto)].map(|(walk, role)| {
                let points =
                    simulated.points.iter().filter(|point| point.workload == "small" && point.walk == walk);
                let point = |point: &Point| (f64::from(point.metadata_servers), Value::exactly(value(point)));
                Curve::new(walk_name(walk), role, points.map(point))
            });
        Panel::curves(title, axis, "metadata servers", curves, [])
    };
    Figure {
        title: format!("{} small files on {SMALL_CLIENTS} ranks", simulated.files),
        caption: "Files of 4 KiB, a thousand in a directory; each costs five operations on a metadata server that does \
                  50,000 a second."
            .to_owned(),
        panels: vec![
            panel("Files a second", "thousand files/s, simulated", |point| point.outcome.files_rate() / 1e3),
            panel("The launch process", "% of the time busy", |point| 100.0 * point.outcome.busy.launch),
        ],
    }
}

fn ranks_figure(simulated: &Simulated) -> Figure {
    let curve = |walk, role, entries| {
        let is_of = |point: &&Point| point.walk == walk && point.directory_entries == entries;
        let point =
            |point: &Point| (f64::from(point.clients), Value::exactly(point.outcome.files_rate() / 1e3));
        Curve::new(walk_name(walk), role, simulated.by_ranks.iter().filter(is_of).map(point))
    };
    let panel = |(entries, rate): (u64, f64)| {
        let title = format!("{entries} files a directory: one process lists {rate:.0} a second");
        let curves =
            [curve(WalkModel::Launch, Role::IoUring, entries), curve(WalkModel::Ranks, Role::Auto, entries)];
        Panel::curves(title, "thousand files/s, simulated", "ranks", curves, [])
    };
    Figure {
        title: "Who lists: the launch process or the ranks".to_owned(),
        caption: format!(
            "Small files on {RANKS_SERVERS} metadata servers. What one process lists in a second was measured on the stand-in \
             with 0.5 ms a metadata operation (docs/measurements/cluster.md)."
        ),
        panels: LIST_RATES.map(panel).into(),
    }
}

fn tables(simulated: &Simulated) -> Vec<Table> {
    let mut tables = Vec::new();
    let rates = |point: &Point| FigureRow::new(point.clients.to_string(), rate_cells(point));
    let of = |workload: &'static str| move |point: &&Point| point.workload == workload;
    let points = || simulated.points.iter();
    for published in &published::ALL {
        for (client, name) in
            [(ClientModel::Haul, "haul"), (ClientModel::OneRequest, "one request in flight")]
        {
            let rows = points().filter(of(published.workload)).filter(|point| point.client == client);
            let title = format!("Workload {}, {name}", published.workload);
            tables.push(table(title, &["MB/s", "efficiency"], rows.map(rates)));
        }
    }
    let title = format!("Compression by clients of one processor, {} MB/s each", COMPRESSION_RATE / 1e6);
    tables.push(table(title, &["MB/s", "efficiency"], points().filter(of(COMPRESSION)).map(rates)));
    for walk in [WalkModel::Launch, WalkModel::Ranks] {
        let rows = points().filter(of("small")).filter(|point| point.walk == walk);
        let rows = rows.map(|point| FigureRow::new(point.metadata_servers.to_string(), small_cells(point)));
        let title = format!("{} small files, {}, by metadata servers", simulated.files, walk_name(walk));
        tables.push(table(title, &["files/s", "messages/1000"], rows));
    }
    for (entries, _) in LIST_RATES {
        for walk in [WalkModel::Launch, WalkModel::Ranks] {
            let rows = simulated.by_ranks.iter();
            let rows = rows.filter(|point| point.walk == walk && point.directory_entries == entries);
            let rows = rows.map(|point| FigureRow::new(point.clients.to_string(), small_cells(point)));
            let title = format!(
                "Small files, {entries} a directory, {}, {RANKS_SERVERS} metadata servers, by ranks",
                walk_name(walk)
            );
            tables.push(table(title, &["files/s", "messages/1000"], rows));
        }
    }
    tables.retain(|table: &Table| !table.rows.is_empty());
    tables.extend(cases_tables(simulated));
    tables.extend(simulated.machines.iter().map(|(name, machine)| machine_table(name, machine)));
    tables
}

/// Makes a table of jobs: these columns first, then what was busy.
fn table(title: String, first: &[&str], rows: impl Iterator<Item = FigureRow>) -> Table {
    let rest = [
        "seconds",
        "busiest",
        "targets %",
        "busiest target %",
        "links %",
        "metadata %",
        "rank 0 %",
        "launch %",
    ];
    Table::new(title, "", first.iter().chain(&rest).copied(), rows)
}

fn faults_text(faults: &Faults) -> String {
    let mut parts = Vec::new();
    if faults.lost_ranks > 0 {
        parts
            .push(format!("{} ranks lost, {:?} each to start again", faults.lost_ranks, faults.restart_time));
    }
    if faults.stragglers > 0.0 && faults.straggler_speed < 1.0 {
        let (part, speed) = (100.0 * faults.stragglers, 100.0 * faults.straggler_speed);
        parts.push(format!("{part:.0}% of the ranks at {speed:.0}% of the speed"));
    }
    if faults.target_spread > 0.0 {
        parts.push(format!("targets up to {:.0}% slower or faster", 100.0 * faults.target_spread));
    }
    if parts.is_empty() { "nothing".to_owned() } else { parts.join("; ") }
}

/// Lists what each job loses to each fault.
fn cases_tables(simulated: &Simulated) -> Vec<Table> {
    let of = |workload: &'static str| simulated.cases.iter().filter(move |point| point.workload == workload);
    let table = |workload: &'static str, title: String| {
        let plain = of(workload).next()?.outcome.seconds;
        let rows = of(workload).map(|point| {
            let outcome = &point.outcome;
            let again = (outcome.bytes_written - outcome.bytes) as f64 / outcome.bytes.max(1) as f64;
            let cells = [
                rate(outcome.seconds),
                format!("{:+.0}%", 100.0 * (outcome.seconds / plain - 1.0)),
                if workload == "small" { format!("{:.0}", outcome.files_rate()) } else { rate(point.rate()) },
                format!("{:.1}%", 100.0 * again),
                outcome.attempts.to_string(),
            ];
            FigureRow::new(point.case, cells)
        });
        let columns = ["seconds", "longer", if workload == "small" { "files/s" } else { "MB/s" }];
        Some(Table::new(title, "", columns.into_iter().chain(["copied again", "attempts"]), rows))
    };
    let documents = published::ALL.iter().filter_map(|published| {
        let workload = published.workload;
        table(workload, format!("Workload {workload} with {FAULTS_CLIENTS} clients: what goes wrong"))
    });
    let title = format!(
        "Small files on {SMALL_CLIENTS} ranks, --walk=ranks, {RANKS_SERVERS} metadata servers: what goes wrong"
    );
    documents.chain(table("small", title)).collect()
}

fn rate_cells(point: &Point) -> Vec<String> {
    let mut cells = vec![rate(point.rate()), format!("{:.0}%", 100.0 * point.efficiency())];
    cells.extend(busy_cells(point));
    cells
}

fn small_cells(point: &Point) -> Vec<String> {
    let messages = point.outcome.messages as f64 * 1000.0 / point.outcome.files.max(1) as f64;
    let mut cells = vec![format!("{:.0}", point.outcome.files_rate()), digits(messages)];
    cells.extend(busy_cells(point));
    cells
}

fn busy_cells(point: &Point) -> Vec<String> {
    let busy = &point.outcome.busy;
    let parts = [busy.targets, busy.busiest_target, busy.links, busy.metadata, busy.rank_0, busy.launch];
    let mut cells = vec![rate(point.outcome.seconds), busy.bottleneck().0.to_owned()];
    cells.extend(parts.map(|part| format!("{:.1}", 100.0 * part)));
    cells
}

fn machine_table(name: &str, machine: &MachineModel) -> Table {
    let rate = |rate: f64| format!("{:.0} MB/s", rate / 1e6);
    let rows = [
        ("storage targets", format!("{}, of {} each way", machine.targets, rate(machine.target_rate))),
        ("a request beside its bytes", format!("{:?}", machine.target_overhead)),
        ("way to a target and back", format!("{:?}", machine.target_latency)),
        ("a metadata server", format!("{:.0} operations/s", machine.metadata_rate)),
        ("a metadata operation alone", format!("{:?}", machine.metadata_latency)),
        ("a client's link", format!("{} each way", rate(machine.link_rate))),
        ("requests in flight a client", machine.requests_in_flight.to_string()),
        ("files moved at once a client", machine.streams.to_string()),
        ("files open a client", machine.files_in_flight.to_string()),
        ("a small file's processor time", format!("{:?}", machine.file_cost)),
        ("a message on its way", format!("{:?}", machine.message_latency)),
        ("a message, for rank 0", format!("{:?}", machine.message_cost)),
        ("a work item, for rank 0", format!("{:?}", machine.item_cost)),
        ("an entry, for who lists it", format!("{:?}", machine.list_cost)),
        ("a work item, for the launch process", format!("{:?}", machine.launch_item_cost)),
        ("directories the launch process makes at once", machine.launch_workers.to_string()),
        ("entries under way at most", machine.outstanding_entries.to_string()),
    ];
    let rows = rows.into_iter().map(|(name, value)| FigureRow::new(name, [value]));
    Table::new(format!("The modelled machine: {name}"), "", ["value"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::scenes::{self, Assumptions, Planned};

    fn example() -> Simulated {
        let assumed = Assumptions { files: 50_000, faults: Faults::default(), list_rate: None, seed: 1 };
        let simulate = |planned: Vec<Planned>| planned.iter().map(Point::simulate).collect();
        let machines = vec![("a machine", scenes::document_machine())];
        Simulated {
            seed: 1,
            files: 50_000,
            machines,
            published: published::ALL.to_vec(),
            faults: assumed.faults,
            points: simulate(scenes::all(&[64, 100], &assumed)),
            by_ranks: simulate(scenes::by_ranks(&assumed)),
            cases: simulate(scenes::with_faults(&assumed)),
        }
    }

    #[test]
    fn the_page_is_whole_and_says_what_it_is() {
        let simulated = example();
        let page = page(&simulated);
        let body = page.strip_prefix("<!DOCTYPE html>\n").unwrap();
        let document = roxmltree::Document::parse(body).unwrap();
        let plots = document.descendants().filter(|node| node.tag_name().name() == "svg").count();
        assert_eq!(plots, 3 + 2 + 2 + 2);
        assert!(!page.contains("NaN") && !page.contains("\"inf"));
        assert!(page.contains("nothing here was measured") && page.contains("spdcp, published"));
        let text = text(&simulated);
        assert!(text.starts_with("Simulated, not measured"), "{text}");
        // Close to the document's rates, and never above the targets' total.
        for (workload, least) in [("1", 6000.0), ("2", 9000.0), ("3", 7000.0)] {
            let of_it = |point: &&Point| point.workload == workload && point.client == ClientModel::Haul;
            for point in simulated.points.iter().filter(of_it) {
                assert!((least..PEAK).contains(&point.rate()), "{}", line(point));
                assert_eq!(
                    (point.outcome.bytes, point.outcome.busy.bottleneck().0),
                    (240_000_000_000, "storage targets")
                );
            }
        }
    }
}
