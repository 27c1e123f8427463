//! S5, spdcp (Matney, Canon and Oral): many files of 100 MB, a few of 24,000 MB, and both, copied
//! by an increasing number of clients.
//!
//! The document's file system gave 10 GB/s and its workloads were 240 GB each. Here the file system
//! is the stand-in, whose ceilings are known: [`TARGETS`] targets of [`TARGET_RATE`], clients of
//! [`CLIENT_RATE`], each way. The scale's square root applies to both the number and the size of
//! the many files; the few files only get smaller. That keeps what is hard about the workloads.
//! Each client is a process with a mount of its own. GNU cp is one client; dcp takes part if it is
//! installed. On another file system (`--mounts`) there are as many clients as mounts, and no
//! ceiling is known.

use super::{Against, CP, FileDirectory, PartWork, Role, Study, StudyName, StudyPart, StudySetting, Unit};
use crate::error::Result;
use crate::shapes::{ShapeKind, ShapeOptions, TreeShape};

pub(crate) const CLIENTS: [u32; 5] = [1, 2, 4, 8, 16];

pub(crate) const TARGETS: u32 = 8;

/// Rate of each target, each way, in bytes per second.
pub(crate) const TARGET_RATE: u64 = 20_000_000;

/// Rate of each client, each way, in bytes per second.
pub(crate) const CLIENT_RATE: u64 = 25_000_000;

/// Workloads: name, label, and number of files of 100 MB and of 24,000 MB.
pub(crate) const WORKLOADS: [(&str, &str, u64, u64); 3] = [
    ("workload-1", "2400 files of 100 MB", 2400, 0),
    ("workload-2", "10 files of 24,000 MB", 0, 10),
    ("workload-3", "1200 files of 100 MB and 5 of 24,000 MB", 1200, 5),
];

/// Returns the maximum rate of `clients` clients, in MB/s.
pub(crate) fn ceiling(clients: u32) -> f64 {
    let bytes = (u64::from(clients) * CLIENT_RATE).min(u64::from(TARGETS) * TARGET_RATE);
    bytes as f64 / 1e6
}

pub(crate) fn haul_id(clients: u32) -> String {
    format!("haul-{clients}")
}

pub(crate) fn dcp_id(clients: u32) -> String {
    format!("dcp-{clients}")
}

/// Builds the study; `dcp` says whether dcp takes part.
pub(crate) fn study(scale: f64, dcp: bool) -> Result<Study> {
    let parts = WORKLOADS.iter().map(|(name, label, many, few)| {
        Ok(StudyPart {
            name: (*name).to_owned(),
            group: "clients".to_owned(),
            label: (*label).to_owned(),
            work: PartWork::Striped(source(scale, *many, *few)?),
            settings: settings(dcp),
        })
    });
    Ok(Study {
        name: StudyName::S5,
        unit: Unit::MegabytesPerSecond,
        rounds: 2,
        parts: parts.collect::<Result<_>>()?,
    })
}

/// Drops settings with more clients than available.
pub(crate) fn keep_clients(study: &mut Study, clients: usize) {
    for part in &mut study.parts {
        part.settings.retain(|setting| setting.x.is_none_or(|wanted| wanted <= clients as f64));
    }
}

fn source(scale: f64, many: u64, few: u64) -> Result<Vec<FileDirectory>> {
    let scaled = |value: f64, factor: f64| (value * factor).round().max(1.0) as u64;
    let root = scale.sqrt();
    let files = |name, count, size, stripes| {
        let options = ShapeOptions { files: Some(count), size: Some(size), ..ShapeOptions::default() };
        Ok(FileDirectory { name, shape: TreeShape::new(ShapeKind::Large, &options)?, stripes })
    };
    let mut directories = Vec::new();
    if many > 0 {
        directories.push(files("many", scaled(many as f64, root), scaled(1e8, root), 1)?);
    }
    if few > 0 {
        directories.push(files("few", few, scaled(24e9, scale), TARGETS as u16)?);
    }
    Ok(directories)
}

fn settings(dcp: bool) -> Vec<StudySetting> {
    let by = |id: String, role, program: &str, clients: u32| StudySetting {
        x: Some(f64::from(clients)),
        against: Against::BetterThan(CP),
        ..StudySetting::haul(&id, role, &format!("{program} -n {clients}"))
            .called(&format!("{program}, {clients}"))
    };
    let haul = CLIENTS.iter().map(|count| by(haul_id(*count), Role::Auto, "haul", *count));
    let rivals = CLIENTS.iter().filter(|_| dcp).map(|count| by(dcp_id(*count), Role::Rival, "dcp", *count));
    std::iter::once(StudySetting::gnu()).chain(haul).chain(rivals).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(scale: f64) -> Vec<(u64, u64)> {
        let study = study(scale, false).unwrap();
        let totals = |part: &StudyPart| (part.work.totals().files, part.work.totals().bytes);
        study.parts.iter().map(totals).collect()
    }

    #[test]
    fn the_workloads_are_the_documents() {
        assert_eq!(totals(1.0), [(2400, 240_000_000_000), (10, 240_000_000_000), (1205, 240_000_000_000)]);
        // A hundredth: a tenth of the many files, each a tenth as long; the few are all there.
        assert_eq!(totals(0.01), [(240, 2_400_000_000), (10, 2_400_000_000), (125, 2_400_000_000)]);
    }

    #[test]
    fn there_are_no_more_clients_than_mounts() {
        let mut study = study(0.01, true).unwrap();
        keep_clients(&mut study, 3);
        let ids: Vec<_> = study.parts[2].settings.iter().map(|setting| setting.id.as_str()).collect();
        assert_eq!(ids, ["cp", "haul-1", "haul-2", "dcp-1", "dcp-2"]);
    }

    #[test]
    fn ceilings_are_the_clients_first_and_then_the_targets() {
        assert_eq!(CLIENTS.map(ceiling), [25.0, 50.0, 100.0, 160.0, 160.0]);
    }
}
