//! The order of a run, whoever does what when: every entry once, parents before children, directories left last.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;

use haul_flow::{
    Begin, Block, Config, Desk, Driver, Enter, Found, Handled, HeldCache, Holes, Job, Line, Local, Machine,
    Need, Node, OpenFile, Opened, OpenedFile, Operand, Problem, Report, Settings, Setup, Sim, Status, Tally,
    Tool, Transfer,
};
use haul_sys::{EntryType, Open, Stat};
use proptest::prelude::*;

const MACHINE: Machine = Machine { processors: 2, descriptors: 256, address_space: None };

/// What happened to which path, in order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Entered(String),
    Left(String),
    Done(String, u64),
}

/// A tool that reads every file and writes down what it sees.
#[derive(Default)]
struct Recorder {
    events: Mutex<Vec<Event>>,
}

impl Recorder {
    fn record(&self, event: Event) {
        self.events.lock().unwrap().push(event);
    }
}

fn text(path: Vec<u8>) -> String {
    String::from_utf8(path).unwrap()
}

impl Tool for Recorder {
    type Directory = String;
    type File = Mutex<u64>;

    fn follows(&self, _: &Found<Self>) -> bool {
        false
    }
    fn needs(&self, _: &Desk<'_, Self>, _: &Found<Self>, kind: EntryType) -> Need {
        match kind {
            EntryType::Directory => Need::Enter,
            EntryType::Regular => Need::Read,
            _ => Need::Handle,
        }
    }
    fn enter(&self, _: &Desk<'_, Self>, found: &Found<Self>, _: &Opened<'_>) -> Enter<String> {
        let path = text(found.path());
        self.record(Event::Entered(path.clone()));
        Enter::Visit(path)
    }
    fn leave(&self, _: &Desk<'_, Self>, node: &Node<Self>) {
        if !node.is_operands_place() {
            self.record(Event::Left(node.own.clone()));
        }
    }
    fn handle(&self, _: &Desk<'_, Self>, found: &Found<Self>, _: EntryType) -> Handled {
        self.record(Event::Done(text(found.path()), 0));
        Handled::Over
    }
    fn reads_first(&self, _: &Found<Self>, stat: &Stat) -> bool {
        stat.size.is_multiple_of(2)
    }
    fn begin(&self, _: &Desk<'_, Self>, _: &Found<Self>, _: &OpenedFile<'_>) -> Begin<Mutex<u64>> {
        Begin::Move { own: Mutex::new(0), target: None, transfer: Transfer::Blocks(Holes::Read) }
    }
    fn looks_at_blocks(&self, _: &OpenFile<Self>) -> bool {
        true
    }

    fn block(&self, file: &OpenFile<Self>, _: u64, bytes: &[u8]) -> Block {
        *file.own.lock().unwrap() += bytes.len() as u64;
        Block::Taken
    }
    fn finish(&self, _: &Desk<'_, Self>, _: &OpenFile<Self>) -> bool {
        true
    }
    fn end(&self, _: &Desk<'_, Self>, found: &Found<Self>, own: Mutex<u64>, moved: bool) {
        assert!(moved);
        self.record(Event::Done(text(found.path()), own.into_inner().unwrap()));
    }
    fn target_path(&self, found: &Found<Self>) -> Vec<u8> {
        found.path()
    }
}

#[derive(Default)]
struct Counts(Mutex<Tally>);

impl Report for Counts {
    fn count(&self, more: Tally) {
        *self.0.lock().unwrap() += more;
    }
    fn problem(&self, problem: Problem) {
        panic!("{problem:?}");
    }
    fn line(&self, _: Line) {}
    fn debug(&self, _: &str) {}
}

/// A tree as nested directories, each with a number of files; the shape decides everything else.
#[derive(Clone, Debug)]
struct Shape {
    files: usize,
    directories: Vec<Shape>,
}

fn shapes() -> impl Strategy<Value = Shape> {
    let leaf = (0usize..5).prop_map(|files| Shape { files, directories: Vec::new() });
    leaf.prop_recursive(5, 40, 6, |inner| {
        (0usize..150, prop::collection::vec(inner, 0..6))
            .prop_map(|(files, directories)| Shape { files, directories })
    })
}

fn build(shape: &Shape, at: &Path, expected: &mut BTreeSet<Event>) {
    std::fs::create_dir(at).unwrap();
    let path = |name: &Path| name.to_str().unwrap().to_owned();
    expected.insert(Event::Entered(path(at)));
    expected.insert(Event::Left(path(at)));
    for number in 0..shape.files {
        let file = at.join(format!("f{number}"));
        let size = number * 37 % 9000;
        std::fs::write(&file, vec![1; size]).unwrap();
        expected.insert(Event::Done(path(&file), size as u64));
    }
    for (number, inner) in shape.directories.iter().enumerate() {
        build(inner, &at.join(format!("d{number}")), expected);
    }
}

fn record(root: &Path, settings: Settings, driver: &dyn Driver<Job<Recorder>>) -> (Vec<Event>, Tally) {
    let cache = HeldCache::new(settings.held);
    let c_string = |path: &Path| CString::new(path.as_os_str().as_bytes()).unwrap();
    let parent = root.parent().unwrap();
    let display = [parent.as_os_str().as_bytes(), b"/"].concat();
    let place = cache.hold_operand(&c_string(parent), Open::SEARCH, display).unwrap();
    let name = c_string(Path::new(root.file_name().unwrap()));
    let (tool, counts) = (Recorder::default(), Counts::default());
    let setup =
        Setup { settings, cache: &cache, report: &counts, driver, outlet: None, engine: Mutex::default() };
    let status = haul_flow::run(&tool, [Operand { place, name, own: String::new() }], &setup);
    assert_eq!(status, Status::Success);
    (tool.events.into_inner().unwrap(), counts.0.into_inner().unwrap())
}

/// Every event is expected and happens once; nothing happens in a directory before it is entered or after it is left.
fn check(events: &[Event], expected: &BTreeSet<Event>, tally: Tally) -> Result<(), TestCaseError> {
    let happened: BTreeSet<Event> = events.iter().cloned().collect();
    prop_assert_eq!(happened.len(), events.len(), "something happened twice");
    prop_assert_eq!(&happened, expected);
    let position = |event: &Event| events.iter().position(|other| other == event).unwrap();
    for (index, event) in events.iter().enumerate() {
        let (Event::Entered(path) | Event::Left(path) | Event::Done(path, _)) = event;
        let parent = Path::new(path).parent().unwrap().to_str().unwrap().to_owned();
        if expected.contains(&Event::Entered(parent.clone())) {
            prop_assert!(position(&Event::Entered(parent.clone())) < index, "{event:?} before its parent");
            prop_assert!(position(&Event::Left(parent)) > index, "{event:?} after its parent was left");
        }
    }
    let entries = expected.iter().filter(|event| !matches!(event, Event::Left(_))).count() as u64;
    prop_assert_eq!((tally.found, tally.finished), (entries, entries));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_pretended_run_does_everything_once_and_in_order(
        shape in shapes(), workers in 1usize..6, seed: u64, held in 4usize..40, window in 1usize..9,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (root, mut expected) = (folder.path().join("root"), BTreeSet::new());
        build(&shape, &root, &mut expected);
        let settings = Settings { window, held, ..Settings::within(&Config::default(), MACHINE) };
        let (events, tally) = record(&root, settings, &Sim::new(workers, seed));
        check(&events, &expected, tally)?;
        let again = record(&root, settings, &Sim::new(workers, seed));
        prop_assert_eq!(events, again.0, "the same seed gave another order");
    }

    #[test]
    fn a_real_run_does_everything_once_and_in_order(
        shape in shapes(), workers in 1usize..6, held in 4usize..40, window in 1usize..9,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (root, mut expected) = (folder.path().join("root"), BTreeSet::new());
        build(&shape, &root, &mut expected);
        let settings = Settings { window, held, ..Settings::within(&Config::default(), MACHINE) };
        let (events, tally) = record(&root, settings, &Local::new(workers));
        check(&events, &expected, tally)?;
    }
}
