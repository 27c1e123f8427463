//! Report of S3: kinds of operations for three file sizes, fallocate, queue depths, and memory.

use super::StudyView;
use super::figure::{
    Bar, Claim, Curve, Figure, FigureRow, Group, Level, Panel, Table, Value, joined, number, or_dash, winners,
};
use crate::study::findings::{Measured, SettingResult, StudyFindings};
use crate::study::s3::{
    ALLOCATING, ALLOCATION, DEPTHS, ENGINES, MODES, OPS, SIZES, blocking_id, depth_id, id,
};
use crate::study::{AUTO, CP, Role, Unit};

pub(crate) fn view(findings: &StudyFindings) -> StudyView {
    let mut figures: Vec<Figure> = SIZES.iter().filter_map(|(name, _)| kinds(findings, name)).collect();
    figures.extend(depths(findings));
    figures.extend(fallocate(findings));
    figures.extend(memory(findings));
    StudyView {
        title: "aio, io_uring and cp: which operations, how many, how deep",
        about: "128 files of 32 KB, of 1 MB and of 100 MB, copied with one operation for each file in flight \
                (single), with several (multi), and with batches of them; through the page cache and round it; \
                with registered buffers, with targets allocated beforehand, and with 1 to 256 files in flight.",
        claims: claims(findings),
        figures,
        tables: SIZES.iter().filter_map(|(name, _)| table(findings, name)).collect(),
    }
}

const SECONDS: &str = "seconds to return; shorter is better";

fn kinds(findings: &StudyFindings, name: &str) -> Option<Figure> {
    let part = findings.part(name)?;
    let panel = |mode: &str, title: &str| {
        let bar = |id: &str, label: &str| part.line(id).map(|line| Bar::of(line).called(label));
        let compared = [bar(CP, "cp -r"), bar(&blocking_id(mode), "sync"), bar(AUTO, "haul (auto)")];
        let others = Group::new("blocking, and haul\u{2019}s own choice", compared.into_iter().flatten());
        let engines = OPS.iter().map(|ops| {
            let bars = ENGINES.iter().filter_map(|(engine, ..)| bar(&id(engine, ops, mode), engine));
            Group::new(*ops, bars)
        });
        let groups = std::iter::once(others).chain(engines).filter(|group| !group.bars.is_empty());
        Panel::bars(title, SECONDS, groups)
    };
    let winner = winners(std::iter::once(part.lines.iter()), findings.unit);
    Some(Figure {
        title: format!("{} files: engines and kinds of operations", capital(&part.label)),
        caption: format!(
            "Mean time of {} cold copies of {} files, with one sample standard deviation to each side; rb: \
             with registered buffers. cp and haul\u{2019}s own choice go through the page cache in both \
             panels. {winner} The document gives its figures for this in plots only.",
            findings.rounds, part.totals.files
        ),
        panels: vec![
            panel(MODES[0].0, "Through the page cache"),
            panel(MODES[1].0, "Round it, with O_DIRECT"),
        ],
    })
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn depths(findings: &StudyFindings) -> Option<Figure> {
    let panels: Vec<Panel> = MODES
        .iter()
        .filter_map(|(mode, _)| {
            let part = findings.part(&format!("depth-{mode}"))?;
            Some(depth_panel(
                part,
                if *mode == "direct" { "With O_DIRECT" } else { "Through the page cache" },
            ))
        })
        .collect();
    let best = MODES.iter().filter_map(|(mode, _)| {
        let part = findings.part(&format!("depth-{mode}"))?;
        Some(format!("{mode}: {}", best_depths(part)?))
    });
    let best = joined(best, "; ");
    (!panels.is_empty()).then(|| Figure {
        title: "Queue depth: how many files in flight".to_owned(),
        caption: format!(
            "Mean time to copy the medium files with one worker and 1 to 256 files in flight, one operation \
             each; whiskers are one sample standard deviation, dashed lines do not depend on the depth. Least \
             times: {}.",
            best.as_deref().unwrap_or("none were measured")
        ),
        panels,
    })
}

fn depth_panel(part: &Measured, title: &str) -> Panel {
    let curves = [&ENGINES[0], &ENGINES[1]].map(|(engine, role, _)| {
        let point = |depth: &u32| {
            let line = part.line(&depth_id(engine, *depth))?;
            Some((f64::from(*depth), Value::of(line.timed()?)))
        };
        Curve::new(*engine, *role, DEPTHS.iter().filter_map(point))
    });
    let levels = [(CP, "cp -r"), (AUTO, "haul (auto)")].into_iter().filter_map(|(id, label)| {
        let line = part.line(id)?;
        Some(Level::new(label, line.role, line.mean()?))
    });
    Panel::curves(title, "seconds", "files in flight", curves, levels)
}

fn best_depths(part: &Measured) -> Option<String> {
    let best = [ENGINES[0].0, ENGINES[1].0].into_iter().filter_map(|engine| {
        let timed = DEPTHS.iter().filter_map(|depth| Some((*depth, part.mean(&depth_id(engine, *depth))?)));
        let (depth, _) = timed.min_by(|one, other| one.1.total_cmp(&other.1))?;
        Some(format!("{engine} at {depth}"))
    });
    joined(best, ", ")
}

fn fallocate(findings: &StudyFindings) -> Option<Figure> {
    let part = findings.part("fallocate")?;
    let panels = MODES.map(|(mode, _)| {
        let groups = ALLOCATING.iter().map(|(engine, ..)| {
            let bar = |which| Some(Bar::of(part.line(&id(engine, which, mode))?).called(which));
            Group::new(*engine, ALLOCATION.iter().filter_map(|(which, _)| bar(which)))
        });
        let theirs = findings.published.iter().filter(|one| one.part == "fallocate");
        let theirs = theirs.filter_map(|one| {
            let engine = one.id.strip_suffix(mode)?.trim_end_matches('/');
            let role = ALLOCATING.iter().find(|(name, ..)| *name == engine)?.1;
            Some(Bar::published(engine, role, one.value))
        });
        let title = format!("less time with fallocate, {mode}");
        [
            Panel::bars(format!("fallocate, {mode}"), SECONDS, groups),
            Panel::bars(title, "% of the time saved", [Group::new("", theirs)]).published("2022, laptop"),
        ]
    });
    Some(Figure {
        title: "Allocating the target beforehand".to_owned(),
        caption:
            "Mean time to copy the medium files with and without fallocate of each target, one operation \
                  for each file; and the savings the document gives. (Its aio saved nothing through the page \
                  cache; its cp is a copier of its own, as sync is here.)"
                .to_owned(),
        panels: panels.into_iter().flatten().collect(),
    })
}

fn memory(findings: &StudyFindings) -> Option<Figure> {
    let panels: Vec<Panel> = MODES
        .iter()
        .map(|(mode, _)| {
            let groups = SIZES.iter().filter_map(|(name, _)| {
                let part = findings.part(name)?;
                let ids = ENGINES.iter().map(|(engine, ..)| id(engine, OPS[0], mode));
                let ids = [CP.to_owned()].into_iter().chain(ids).chain([AUTO.to_owned()]);
                let bars = ids.filter_map(|id| memory_bar(part.line(&id)?));
                Some(Group::new(&part.label, bars))
            });
            let groups = groups.filter(|group| !group.bars.is_empty());
            Panel::bars(format!("Peak memory, {mode}"), "MB, largest resident set of any run", groups)
        })
        .collect();
    let has_bars = panels.iter().any(|panel| matches!(panel, Panel::Bars(bars) if !bars.groups.is_empty()));
    has_bars.then(|| Figure {
        title: "Memory".to_owned(),
        caption: "The largest resident set of each program in any of its runs, one operation for each file. The \
                  document says that cp\u{2019}s does not depend on the size of the files, that io_uring\u{2019}s \
                  grows from small to medium files and not from medium to large, and that aio\u{2019}s is the \
                  largest."
            .to_owned(),
        panels,
    })
}

fn memory_bar(line: &SettingResult) -> Option<Bar> {
    let engine = line.id.split('/').next().unwrap_or(&line.id);
    let label = if line.id.contains('/') { engine } else { line.label.as_str() };
    let megabytes = line.timed()?.memory_peak_bytes as f64 / 1e6;
    Some(Bar::published(label, line.role, megabytes))
}

/// Returns a table of engines by kinds of operations, for one file size.
fn table(findings: &StudyFindings, name: &str) -> Option<Table> {
    let part = findings.part(name)?;
    let columns = ["", "D:"].into_iter().flat_map(|mode| OPS.iter().map(move |ops| format!("{mode}{ops}")));
    let cell = |id: &str| or_dash(part.mean(id), |mean| number(mean, Unit::Seconds));
    let mut rows: Vec<FigureRow> = ENGINES
        .iter()
        .map(|(engine, ..)| {
            let ids = MODES.iter().flat_map(|(mode, _)| OPS.iter().map(move |ops| id(engine, ops, mode)));
            FigureRow::new(*engine, ids.map(|id| cell(&id)))
        })
        .collect();
    let once = |name: &str, buffered: String, direct: String, role: Role| {
        let none = || "-".to_owned();
        let cells = [buffered, none(), none(), direct, none(), none()];
        FigureRow { is_auto: role == Role::Auto, ..FigureRow::new(name, cells) }
    };
    rows.push(once("sync", cell(&blocking_id("buffered")), cell(&blocking_id("direct")), Role::Sync));
    rows.push(once("cp -r", cell(CP), "-".to_owned(), Role::Reference));
    rows.push(once("haul (auto)", cell(AUTO), "-".to_owned(), Role::Auto));
    let note = "D: with O_DIRECT; rb: with registered buffers. Who knows only one kind of operation stands in the first column.";
    Some(Table::new(format!("{}: seconds", part.label), note, columns, rows))
}

fn claims(findings: &StudyFindings) -> Vec<Claim> {
    let less = |part: &str, id: &str, than: &str| {
        let part = findings.part(part)?;
        let (own, other) = (part.mean(id)?, part.mean(than)?);
        let percent = 100.0 * (1.0 - own / other);
        Some(if percent < 0.0 {
            format!("{:.1}% more time", -percent)
        } else {
            format!("{percent:.1}% less time")
        })
    };
    let allocating = |mode: &str| {
        let said = ALLOCATING.iter().filter_map(|(engine, ..)| {
            let saved = less("fallocate", &id(engine, "fallocate", mode), &id(engine, "without", mode))?;
            Some(format!("{engine} {saved}"))
        });
        joined(said, ", ")
    };
    let single = |engine: &str, mode: &str| id(engine, "single", mode);
    let registered = |mode: &str| less("medium", &single("io-uring-rb", mode), &single("io-uring", mode));
    let both = registered("direct").zip(registered("buffered"));
    let best = |mode: &str| findings.part(&format!("depth-{mode}")).and_then(best_depths);
    vec![
        Claim::new(
            "Small files through the page cache: io_uring beats cp by close to 30%.",
            less("small", &single("io-uring", "buffered"), CP),
        ),
        Claim::new(
            "Medium files through the page cache: io_uring beats cp by close to 15%.",
            less("medium", &single("io-uring", "buffered"), CP),
        ),
        Claim::new(
            "Through the page cache aio is the worst of all, by a large margin for small files.",
            less("small", &single("posix-aio", "buffered"), CP).map(|it| format!("beside cp: {it}")),
        ),
        Claim::new(
            "With O_DIRECT and small files io_uring outperforms aio.",
            less("small", &single("io-uring", "direct"), &single("posix-aio", "direct")),
        ),
        Claim::new(
            "fallocate with O_DIRECT saves aio 10.1%, cp 11.5%, io_uring 16.2%.",
            allocating("direct"),
        ),
        Claim::new(
            "fallocate through the page cache saves cp 13.8%, io_uring 17.4%, aio nothing.",
            allocating("buffered"),
        ),
        Claim::new(
            "Registered buffers save 15.4% with O_DIRECT, and cost a little through the page cache.",
            both.map(|(direct, buffered)| format!("direct: {direct}; buffered: {buffered}")),
        ),
        Claim::new("Through the page cache a queue depth of 8 is the best.", best("buffered")),
        Claim::new("With O_DIRECT both are the fastest at a depth of about 64.", best("direct")),
    ]
}
