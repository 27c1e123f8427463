//! Reports the findings of a study as text, CSV, and one HTML page with plots.
//!
//! ```text
//!   findings ─► s1 ... s5: which figures, tables, claims ─► text      for a terminal
//!          │                 (as types of `figure`)       └► html ─► bars, curves, dots ─► canvas
//!          └──────────────────────────────────────────────► csv
//!   the findings of `auto` ─► ratios (Markdown), heat (one picture)
//! ```
//!
//! Promises: published figures are labelled as such wherever they appear; no directory of the
//! machine is named; the page is self-contained.

mod bars;
mod canvas;
pub(crate) mod csv;
mod curves;
mod dots;
mod figure;
pub(crate) mod heat;
pub(crate) mod html;
pub(crate) mod ratios;
mod s1;
mod s2;
mod s3;
mod s4;
mod s5;
pub(crate) mod simulated;
mod tables;
pub(crate) mod text;

use crate::study::StudyName;
use crate::study::findings::StudyFindings;

use figure::{Claim, Figure, Table};

struct StudyView {
    title: &'static str,
    about: &'static str,
    /// Claims of the document, each with our measurement.
    claims: Vec<Claim>,
    figures: Vec<Figure>,
    /// Tables in the form of the document; the tables of details come after them.
    tables: Vec<Table>,
}

fn view(findings: &StudyFindings) -> StudyView {
    match findings.study {
        StudyName::S1 => s1::view(findings),
        StudyName::S2 => s2::view(findings),
        StudyName::S3 => s3::view(findings),
        StudyName::S4 => s4::view(findings),
        StudyName::S5 => s5::view(findings),
    }
}

/// Returns what the figures were measured on and how, as (name, fact) pairs.
fn facts(findings: &StudyFindings) -> Vec<(&'static str, String)> {
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
