//! Shows the findings of a study: as text, CSV, and one HTML page with plots.
//!
//! ```text
//!   findings ─► s1 ... s5: which figures, tables, claims ─► text          for a terminal
//!          │                 (in the words of `figure`)    └► html ─► bars, curves, dots ─► canvas: SVG
//!          └──────────────────────────────────────────────► csv
//! ```
//!
//! Promises: whatever is published in a document is called so wherever it stands; nothing names a folder
//! of the machine; the page needs nothing but itself.

mod bars;
mod canvas;
pub(crate) mod csv;
mod curves;
mod dots;
mod figure;
pub(crate) mod html;
mod s1;
mod s2;
mod s3;
mod s4;
mod s5;
pub(crate) mod simulated;
mod tables;
pub(crate) mod text;

use crate::run::findings::Findings;
use crate::run::study::Name;

use figure::{Claim, Figure, Table};

/// What a report shows of a study.
struct View {
    /// The study in a few words.
    title: &'static str,
    /// What it is about.
    about: &'static str,
    /// What the document says beside what came out.
    claims: Vec<Claim>,
    /// Its figures.
    figures: Vec<Figure>,
    /// The tables of the document's own form; the details come behind them.
    tables: Vec<Table>,
}

fn view(findings: &Findings) -> View {
    match findings.study {
        Name::S1 => s1::view(findings),
        Name::S2 => s2::view(findings),
        Name::S3 => s3::view(findings),
        Name::S4 => s4::view(findings),
        Name::S5 => s5::view(findings),
    }
}

/// Says what the figures were measured on and how, a sentence each.
fn facts(findings: &Findings) -> Vec<(&'static str, String)> {
    let machine = &findings.machine;
    let memory = machine.memory_bytes as f64 / f64::from(1 << 30);
    let scale = match findings.scale {
        1.0 => "the document's own size".to_owned(),
        scale => format!("{scale} times the document's"),
    };
    let elsewhere = findings.parts.iter().flat_map(|part| &part.lines).filter_map(|line| line.timed());
    let elsewhere: Vec<f64> = elsewhere.map(|figures| figures.processors_elsewhere).collect();
    let busy = elsewhere.iter().sum::<f64>() / elsewhere.len().max(1) as f64;
    vec![
        ("Date", machine.date.clone()),
        ("Kernel", format!("Linux {}", machine.kernel)),
        ("Processor", format!("{} x {}", machine.processors, machine.processor)),
        ("Memory", format!("{memory:.1} GiB")),
        ("File system", findings.place.clone()),
        ("Cache", findings.cold.clone()),
        ("Size", scale),
        ("Rounds", format!("{}, in turn, after one that is thrown away", findings.rounds)),
        ("Meanwhile", format!("the rest of the machine kept {busy:.1} processors busy on the average")),
        ("Programs", findings.versions.join("; ")),
    ]
}
