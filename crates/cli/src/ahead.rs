//! Counting ahead: how much a copy will have to do, found out while it goes on, for percent and time left.
//!
//! It is a tool on haul's own framework that enters the directories the copy enters and looks at what stands in them, with
//! one worker, and is silent: what it cannot see, the copy will tell of. It spends none of the copy's descriptors: where
//! these are few, nothing is counted.
//!
//! What it does not do: foresee files that are left as they are (`-n`) or that change meanwhile.
//!
//! Invariant: entries are counted as the copy counts them (test: `the_whole_is_what_a_copy_finishes`).

use std::ffi::{CStr, CString};
use std::sync::Mutex;
use std::sync::PoisonError;

use haul_engine::Choice;
use haul_flow::{
    Begin, Block, Desk, Enter, Found, Handled, HeldCache, Line, Local, Need, Node, OpenFile, Opened,
    OpenedFile, Operand, Problem, Report, Settings, Setup, Tally, Tool,
};
use haul_sys::{EntryType, Open, Stat, stat_path};
use haul_tools::copy::{CopyOptions, Dereference, Make};

use crate::flags::Request;
use crate::progress::Whole;

/// Directories the count keeps open.
const HELD: usize = 16;

/// Descriptors that must be left over for the count: its directories, the one it lists and those on the way there.
const DESCRIPTORS: usize = HELD + 16;

/// More than the descriptors of one worker of the copy apart from its files.
const DESCRIPTORS_PER_WORKER: usize = 8;

/// Counts what a request will copy, or nothing when that cannot be known or `is_over` says that nobody asks any more.
pub(crate) fn count(request: &Request, is_over: &(dyn Fn() -> bool + Sync)) -> Option<Whole> {
    let copy = Settings::resolve(&request.config);
    let spent = copy.held + copy.jobs * (DESCRIPTORS_PER_WORKER + 2 * copy.window);
    if spent + DESCRIPTORS > haul_sys::descriptor_limit() {
        return None;
    }
    let settings = Settings { jobs: 1, engine: Choice::Sync, window: 1, held: HELD, ..copy };
    let cache = HeldCache::new(settings.held);
    let operands = sources(request).iter().filter_map(|name| operand(name, &cache));
    let count = Count { options: &request.options, is_over };
    let sum = Sum::default();
    let driver = Local::new(settings.jobs);
    haul_flow::run(&count, operands, &Setup { settings, cache: &cache, report: &sum, driver: &driver });
    let Tally { found, bytes, .. } = sum.0.into_inner().unwrap_or_else(PoisonError::into_inner);
    (!is_over()).then_some(Whole { entries: found, bytes })
}

/// The names that are copied: all but the target.
fn sources(request: &Request) -> &[CString] {
    let names = &request.operands.names;
    match names.split_last() {
        Some((_, sources)) if request.operands.target_directory.is_none() => sources,
        _ => names,
    }
}

/// Holds the directory in which a source stands.
fn operand<'a>(name: &CStr, cache: &HeldCache) -> Option<Operand<Count<'a>>> {
    let bytes = name.to_bytes();
    let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let start = bytes[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    // The root, which has no last component, stands in the current directory by its own name.
    let (place, last) = if end == 0 || start == 0 { (&b"."[..], bytes) } else { bytes.split_at(start) };
    let place = cache.hold_operand(&CString::new(place).ok()?, Open::SEARCH.following(), Vec::new()).ok()?;
    Some(Operand { place, name: CString::new(last).ok()?, own: () })
}

/// The tool.
struct Count<'a> {
    options: &'a CopyOptions,
    is_over: &'a (dyn Fn() -> bool + Sync),
}

impl Tool for Count<'_> {
    type Directory = ();
    type File = ();

    fn follows(&self, found: &Found<Self>) -> bool {
        match self.options.dereference {
            Dereference::Never => false,
            Dereference::Operands => found.is_operand(),
            Dereference::Always => true,
        }
    }

    fn needs(&self, _desk: &Desk<'_, Self>, _found: &Found<Self>, kind: EntryType) -> Need {
        match kind {
            _ if (self.is_over)() => Need::Nothing,
            EntryType::Directory if self.options.recursive => Need::Enter,
            EntryType::Regular if self.options.make == Make::Copy => Need::Handle,
            _ => Need::Nothing,
        }
    }

    fn enter(&self, _desk: &Desk<'_, Self>, found: &Found<Self>, opened: &Opened<'_>) -> Enter<()> {
        let mut above = Some(&found.node);
        while let Some(node) = above {
            if node.stat.is_some_and(|stat| stat.identity == opened.stat.identity) {
                // A symbolic link has led back to a directory it is in.
                return Enter::Over;
            }
            above = node.parent.as_ref();
        }
        let crossing =
            found.node.stat.is_some_and(|stat| stat.identity.device != opened.stat.identity.device);
        if self.options.one_file_system && crossing { Enter::Bare(()) } else { Enter::Visit(()) }
    }

    fn leave(&self, _desk: &Desk<'_, Self>, _node: &Node<Self>) {}

    fn handle(&self, desk: &Desk<'_, Self>, found: &Found<Self>, _kind: EntryType) -> Handled {
        let stat = desk
            .cache()
            .open(&found.node.source)
            .and_then(|directory| stat_path(Some(&*directory), found.name(), self.follows(found)));
        if let Ok(stat) = stat {
            desk.count(Tally { bytes: stat.size, ..Tally::default() });
        }
        Handled::Over
    }

    fn reads_first(&self, _found: &Found<Self>, _stat: &Stat) -> bool {
        false
    }

    fn begin(&self, _desk: &Desk<'_, Self>, _found: &Found<Self>, _opened: &OpenedFile<'_>) -> Begin<()> {
        Begin::Over
    }

    fn block(&self, _file: &OpenFile<Self>, _offset: u64, _bytes: &[u8]) -> Block {
        Block::Taken
    }

    fn finish(&self, _desk: &Desk<'_, Self>, _file: &OpenFile<Self>) -> bool {
        true
    }

    fn end(&self, _desk: &Desk<'_, Self>, _found: &Found<Self>, _own: (), _moved: bool) {}

    fn target_path(&self, found: &Found<Self>) -> Vec<u8> {
        found.path()
    }
}

/// Adds up, and keeps silent.
#[derive(Default)]
struct Sum(Mutex<Tally>);

impl Report for Sum {
    fn count(&self, more: Tally) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += more;
    }

    fn problem(&self, _problem: Problem) {}

    fn line(&self, _line: Line) {}

    fn debug(&self, _text: &str) {}
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use haul_tools::copy::Outcome;

    use super::*;
    use crate::flags::{self, Environment, Parsed};

    fn request(words: &[&str], folder: &Path) -> Request {
        let words: Vec<_> = words
            .iter()
            .map(|word| match word.strip_prefix("./") {
                Some(name) => folder.join(name).into_os_string(),
                None => OsString::from(word),
            })
            .collect();
        match flags::parse(&words, Environment::default()) {
            Ok(Parsed::Copy(request)) => *request,
            other => panic!("{other:?}"),
        }
    }

    fn tree() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        std::fs::create_dir_all(source.join("a/b")).unwrap();
        std::fs::write(source.join("a/b/file"), [0; 3000]).unwrap();
        std::fs::write(source.join("a/file"), [0; 500]).unwrap();
        std::fs::write(folder.path().join("lone"), [0; 70]).unwrap();
        symlink("file", source.join("a/link")).unwrap();
        symlink("..", source.join("a/b/up")).unwrap();
        folder
    }

    #[test]
    fn the_whole_is_what_a_copy_finishes() {
        let lines: [&[&str]; 6] = [
            &["-r", "./source", "./target"],
            &["-a", "./source/", "./lone", "-t", "./into"],
            &["./lone", "./target"],
            &["-rL", "./source/a/file", "./lone", "./into"],
            &["-rl", "./source", "./target"],
            &["-r", "-j1", "./missing", "./lone", "./into"],
        ];
        for line in lines {
            let folder = tree();
            std::fs::create_dir(folder.path().join("into")).unwrap();
            let request = request(line, folder.path());
            let whole = count(&request, &|| false).unwrap();
            let copied = Sum::default();
            let outcome =
                haul_tools::copy::run(&request.operands, &request.options, &request.config, &copied);
            assert!(matches!(outcome, Outcome::Success | Outcome::Failure), "{line:?}: {outcome:?}");
            let copied = copied.0.into_inner().unwrap();
            assert_eq!(whole, Whole { entries: copied.finished, bytes: copied.bytes }, "{line:?}");
        }
    }

    #[test]
    fn a_link_that_leads_back_up_ends_the_count() {
        let folder = tree();
        let whole = count(&request(&["-rL", "./source", "./target"], folder.path()), &|| false).unwrap();
        assert_eq!(whole, Whole { entries: 7, bytes: 3000 + 500 + 500 });
    }

    #[test]
    fn a_count_nobody_asks_for_any_more_is_none() {
        let folder = tree();
        assert_eq!(count(&request(&["-r", "./source", "./target"], folder.path()), &|| true), None);
    }
}
