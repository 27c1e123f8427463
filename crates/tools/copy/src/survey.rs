//! Counts the work of a copy while it runs, as the total that progress is measured against.
//!
//! It repeats the copy's walk with one worker and a tool that only calls `stat`. It reads no data,
//! and the inodes it fetches are the ones the copy needs a moment later.

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use haul_flow::{
    Config, Context, DirCache, DirHandle, Enter, Entry, Handled, Local, OpenDir, OpenSource, Operand, Plan,
    Reporter, RunSpec, Selection, Selector, Settings, Split, Start, Tally, Tool,
};
use haul_sys::{EntryType, FileType, Open, Stat, c_string, stat_followed, stat_path};

use super::operands;
use super::options::{CopyOptions, Operands};
use super::space::{FreeSpace, Needed};

/// Maximum number of directory handles; descriptors are needed by the copy.
const HELD: usize = 16;

/// Counts the entries that the operands name, with everything below them, and the bytes of regular
/// files.
/// Reports them to `report` as `found` and `bytes` along the way. Ends early once `stop` is set.
///
/// Problems are not reported: the copy hits them too.
///
/// Returns how many bytes the files need on the file system that `space` describes, at least.
/// Without it nothing is looked up in the target.
pub fn survey(
    (operands, options, selection): (&Operands, &CopyOptions, &Selection),
    space: Option<&FreeSpace>,
    report: &dyn Reporter,
    stop: &AtomicBool,
) -> u64 {
    let cache = DirCache::new(HELD);
    let Ok(selector) = Selector::new(selection) else { return 0 };
    let Ok(assignments) = operands::assign(operands, options, &cache) else { return 0 };
    let places = assignments.into_iter().filter_map(|assignment| {
        let split = Split::of(&assignment.text);
        let place = split.hold(&cache).ok()?;
        let is_counted = space.is_some_and(|space| {
            // The directory is on the same file system as the source, or above a mount point.
            !cache.open(&place).is_ok_and(|place| space.may_be_shared(&place))
        });
        let (held, name) = assignment.target;
        let own = match is_counted {
            true => TargetParent::There(held, Some(name)),
            false => TargetParent::Irrelevant,
        };
        Some(Operand::named(place, &c_string(split.name), own))
    });
    let settings = Settings {
        jobs: 1,
        jobs_max: 1,
        window: 1,
        cached_directories: HELD,
        ..Settings::resolve(&Config::default())
    };
    let (tool, report) = (SpaceSurvey { options, space, needed: Needed::default(), stop }, Quiet { report });
    let (cache, selector, engine) = (&cache, &selector, Mutex::default());
    let spec = RunSpec { tool: &tool, settings, cache, selector, report: &report, limits: None, engine };
    haul_flow::run(&spec, &Local::new(1), places.collect::<Vec<_>>());
    tool.needed.bytes()
}

struct SpaceSurvey<'s> {
    options: &'s CopyOptions,
    /// The free space for the counted entries.
    space: Option<&'s FreeSpace>,
    needed: Needed,
    stop: &'s AtomicBool,
}

/// The directory that the entries of a source directory are copied to.
enum TargetParent {
    /// It exists. At an operand's parent, with the name of the operand's copy.
    There(Arc<DirHandle>, Option<CString>),
    /// The copy makes it.
    Missing,
    /// Copies there take no room of interest.
    Irrelevant,
}

impl TargetParent {
    /// Stats the existing entry at the place of an entry's copy.
    fn stat(&self, cx: &Context<'_, SpaceSurvey<'_>>, name: &CStr) -> Option<Stat> {
        let Self::There(held, rename) = self else { return None };
        let directory = cx.cache().open(held).ok()?;
        stat_followed(&*directory, rename.as_deref().unwrap_or(name)).ok()
    }
}

impl SpaceSurvey<'_> {
    /// Finds the counterpart of a directory.
    fn counterpart(&self, cx: &Context<'_, Self>, entry: &Entry<Self>) -> TargetParent {
        let (above, Some(space)) = (&entry.node.own, self.space) else { return TargetParent::Irrelevant };
        let TargetParent::There(held, rename) = above else {
            return match above {
                TargetParent::Irrelevant => TargetParent::Irrelevant,
                _ => TargetParent::Missing,
            };
        };
        match above.stat(cx, entry.name()) {
            Some(there) if space.is_elsewhere(&there) => TargetParent::Irrelevant,
            Some(there) if there.kind == FileType::Directory && !space.is_new(&there) => {
                let (name, how) = (rename.as_deref().unwrap_or(entry.name()), Open::SEARCH.following());
                TargetParent::There(cx.cache().hold(held, name, how, there.identity, None), None)
            }
            _ => TargetParent::Missing,
        }
    }
}

/// Forwards counts and drops everything else.
struct Quiet<'s> {
    report: &'s dyn Reporter,
}

impl Reporter for Quiet<'_> {
    fn count(&self, more: Tally) {
        self.report.count(Tally { finished: 0, ..more });
    }
    fn problem(&self, _: haul_flow::Problem) {}
    fn line(&self, _: haul_flow::OutputLine) {}
    fn output(&self, _: haul_sys::Standard, _: &[u8]) {}
    fn debug(&self, _: &str) {}
}

impl Tool for SpaceSurvey<'_> {
    type Directory = TargetParent;
    type File = ();

    fn follow(&self, entry: &Entry<Self>) -> bool {
        self.options.dereference.follows(entry.is_operand())
    }

    fn plan(&self, _: &Context<'_, Self>, _: &Entry<Self>, kind: EntryType) -> Plan {
        match kind {
            _ if self.stop.load(Ordering::Relaxed) => Plan::Skip,
            EntryType::Directory if self.options.recursive => Plan::Enter,
            EntryType::Regular => Plan::Handle,
            _ => Plan::Skip,
        }
    }

    fn enter_dir(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenDir<'_>,
    ) -> Enter<TargetParent> {
        let own = self.counterpart(cx, entry);
        let crossing =
            entry.node.stat.is_some_and(|above| above.identity.device != opened.stat.identity.device);
        if self.options.one_file_system && crossing { Enter::Bare(own) } else { Enter::Visit(own) }
    }

    fn handle(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, _: EntryType) -> Handled {
        let follow = self.follow(entry);
        let looked = cx
            .cache()
            .open(&entry.node.source)
            .and_then(|directory| stat_path(Some(&*directory), entry.name(), follow));
        if let Ok(stat) = looked {
            cx.count(Tally { bytes: stat.size, ..Tally::default() });
            let own = &entry.node.own;
            if let (Some(space), false) = (self.space, matches!(own, TargetParent::Irrelevant)) {
                self.needed.add(self.options, space, &stat, own.stat(cx, entry.name()).as_ref());
            }
        }
        Handled::Done
    }

    fn open_file(&self, _: &Context<'_, Self>, _: &Entry<Self>, _: &OpenSource<'_>) -> Start<()> {
        Start::Done
    }
}
