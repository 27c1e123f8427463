//! Counts the work of a copy while it runs, as the total that progress is measured against.
//!
//! It repeats the copy's walk with one worker and a tool that only calls `stat`. It reads no data,
//! and the inodes it fetches are the ones the copy needs a moment later.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_flow::{
    Config, Context, DirCache, Enter, Entry, Handled, Local, OpenDir, OpenSource, Operand, Plan, Report,
    RunSpec, Settings, Split, Start, Tally, Tool,
};
use haul_sys::{EntryType, c_string, stat_path};

use super::operands;
use super::options::{CopyOptions, Dereference, Operands};

/// Maximum number of directory handles; descriptors are needed by the copy.
const HELD: usize = 16;

/// Counts the entries `operands` name, with everything below them, and the bytes of regular files.
/// Reports them to `report` as `found` and `bytes` along the way. Ends early once `stop` is set.
///
/// Problems are not reported: the copy hits them too.
pub fn survey(operands: &Operands, options: &CopyOptions, report: &dyn Report, stop: &AtomicBool) {
    let cache = DirCache::new(HELD);
    let Ok(assignments) = operands::assign(operands, options, &cache) else { return };
    let places = assignments.iter().filter_map(|assignment| {
        let split = Split::of(&assignment.text);
        let place = split.hold(&cache).ok()?;
        Some(Operand::named(place, &c_string(split.name), ()))
    });
    let settings = Settings { jobs: 1, window: 1, held: HELD, ..Settings::resolve(&Config::default()) };
    let (tool, report) = (Survey { options, stop }, Quiet { report });
    let spec = RunSpec { tool: &tool, settings, cache: &cache, report: &report, engine: Mutex::default() };
    haul_flow::run(&spec, &Local::new(1), places.collect::<Vec<_>>());
}

struct Survey<'s> {
    options: &'s CopyOptions,
    stop: &'s AtomicBool,
}

/// Forwards counts and drops everything else.
struct Quiet<'s> {
    report: &'s dyn Report,
}

impl Report for Quiet<'_> {
    fn count(&self, more: Tally) {
        self.report.count(Tally { finished: 0, ..more });
    }
    fn problem(&self, _: haul_flow::Problem) {}
    fn line(&self, _: haul_flow::Line) {}
    fn output(&self, _: haul_sys::Standard, _: &[u8]) {}
    fn debug(&self, _: &str) {}
}

impl Tool for Survey<'_> {
    type Directory = ();
    type File = ();

    fn follow(&self, entry: &Entry<Self>) -> bool {
        match self.options.dereference {
            Dereference::Never => false,
            Dereference::Operands => entry.is_operand(),
            Dereference::Always => true,
        }
    }

    fn plan(&self, _: &Context<'_, Self>, _: &Entry<Self>, kind: EntryType) -> Plan {
        match kind {
            _ if self.stop.load(Ordering::Relaxed) => Plan::Skip,
            EntryType::Directory if self.options.recursive => Plan::Enter,
            EntryType::Regular => Plan::Handle,
            _ => Plan::Skip,
        }
    }

    fn enter_dir(&self, _: &Context<'_, Self>, entry: &Entry<Self>, opened: &OpenDir<'_>) -> Enter<()> {
        let crossing =
            entry.node.stat.is_some_and(|above| above.identity.device != opened.stat.identity.device);
        if self.options.one_file_system && crossing { Enter::Bare(()) } else { Enter::Visit(()) }
    }

    fn handle(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, _: EntryType) -> Handled {
        let follow = self.follow(entry);
        let looked = cx
            .cache()
            .open(&entry.node.source)
            .and_then(|directory| stat_path(Some(&*directory), entry.name(), follow));
        if let Ok(stat) = looked {
            cx.count(Tally { bytes: stat.size, ..Tally::default() });
        }
        Handled::Over
    }

    fn open_file(&self, _: &Context<'_, Self>, _: &Entry<Self>, _: &OpenSource<'_>) -> Start<()> {
        Start::Done
    }
}
