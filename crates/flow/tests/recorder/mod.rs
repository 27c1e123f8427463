//! A tool that records every file and directory it sees, random trees for it, and a check of
//! its record.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::collections::BTreeSet;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;

use haul_flow::{
    Block, Context, DirCache, DirNode, Enter, Entry, Handled, Holes, Machine, OpenDir, OpenFile, OpenSource,
    Operand, OutputLine, Plan, Probe, Problem, Reporter, Start, Tally, Tool, Transfer, Write,
};
use haul_sys::{EntryType, Open};
use proptest::prelude::*;

pub(crate) const MACHINE: Machine = Machine { processors: 2, descriptors: 256, address_space: None };

/// An event and its path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    Entered(String),
    Left(String),
    Done(String, u64),
}

/// The tool. In a process that was sent entries by another, it hands back files named `twin*`.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) events: Mutex<Vec<Event>>,
    /// Bytes of the ranges it was shown.
    pub(crate) pieces: Mutex<u64>,
    /// The claimed entries reported to the run that walks the tree, and whether they stand.
    pub(crate) claimed: Mutex<Vec<(CString, bool)>>,
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

    fn plan(&self, _: &Context<'_, Self>, _: &Entry<Self>, kind: EntryType) -> Plan {
        match kind {
            EntryType::Directory => Plan::Enter,
            EntryType::Regular => Plan::Read(Probe { bytes_max: 4000, ..Probe::ALWAYS }),
            _ => Plan::Handle,
        }
    }
    fn enter_dir(&self, _: &Context<'_, Self>, entry: &Entry<Self>, _: &OpenDir<'_>) -> Enter<String> {
        let path = text(entry.path());
        self.record(Event::Entered(path.clone()));
        Enter::Visit(path)
    }
    fn finish_dir(&self, _: &Context<'_, Self>, node: &DirNode<Self>) {
        if !node.holds_operands() {
            self.record(Event::Left(node.own.clone()));
        }
    }
    fn handle(&self, _: &Context<'_, Self>, entry: &Entry<Self>, _: EntryType) -> Handled {
        self.record(Event::Done(text(entry.path()), 0));
        Handled::Done
    }
    fn open_file(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        _: &OpenSource<'_>,
    ) -> Start<Mutex<u64>> {
        if is_twin(entry) && cx.hand_back(entry) {
            return Start::Deferred;
        }
        Start::Inspect { own: Mutex::new(0), transfer: Transfer::Blocks(Holes::Read) }
    }
    fn block(&self, file: &OpenFile<Self>, block: Block<'_>) -> Write {
        *file.own.lock().unwrap() += block.bytes.len() as u64;
        if file.target.is_some() {
            *self.pieces.lock().unwrap() += block.bytes.len() as u64;
        }
        Write::Nothing
    }
    fn close_file(&self, _: &Context<'_, Self>, entry: &Entry<Self>, own: Mutex<u64>, moved: bool) {
        assert!(moved);
        if let Some(owner) = entry.node.owner.as_ref().filter(|_| is_twin(entry)) {
            owner.note_linkable(entry);
        }
        self.record(Event::Done(text(entry.path()), own.into_inner().unwrap()));
    }
}

fn is_twin(entry: &Entry<Recorder>) -> bool {
    entry.name().to_bytes().starts_with(b"twin")
}

/// Reporter that counts, and keeps the problems.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) tally: Mutex<Tally>,
    pub(crate) problems: Mutex<Vec<Problem>>,
}

impl Reporter for Notes {
    fn count(&self, more: Tally) {
        *self.tally.lock().unwrap() += more;
    }
    fn problem(&self, problem: Problem) {
        self.problems.lock().unwrap().push(problem);
    }
    fn output(&self, _: haul_sys::Standard, _: &[u8]) {}

    fn line(&self, _: OutputLine) {}
    fn debug(&self, _: &str) {}
}

/// A tree of nested directories, each with a number of files. The shape decides everything else.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) files: usize,
    pub(crate) directories: Vec<Shape>,
}

pub(crate) fn shapes() -> impl Strategy<Value = Shape> {
    let leaf = (0usize..5).prop_map(|files| Shape { files, directories: Vec::new() });
    leaf.prop_recursive(5, 40, 6, |inner| {
        (0usize..150, prop::collection::vec(inner, 0..6))
            .prop_map(|(files, directories)| Shape { files, directories })
    })
}

/// Creates a tree whose file names begin with `prefix`, and adds the expected events.
pub(crate) fn build(shape: &Shape, at: &Path, prefix: &str, expected: &mut BTreeSet<Event>) {
    std::fs::create_dir(at).unwrap();
    let path = |name: &Path| name.to_str().unwrap().to_owned();
    expected.insert(Event::Entered(path(at)));
    expected.insert(Event::Left(path(at)));
    for number in 0..shape.files {
        let file = at.join(format!("{prefix}{number}"));
        let size = number * 37 % 9000;
        std::fs::write(&file, vec![1; size]).unwrap();
        expected.insert(Event::Done(path(&file), size as u64));
    }
    for (number, inner) in shape.directories.iter().enumerate() {
        build(inner, &at.join(format!("d{number}")), prefix, expected);
    }
}

/// Returns the operand for a tree, as if the user had named it.
pub(crate) fn operand(cache: &DirCache, root: &Path) -> Operand<String> {
    let c_string = |path: &Path| CString::new(path.as_os_str().as_bytes()).unwrap();
    let parent = root.parent().unwrap();
    let display = [parent.as_os_str().as_bytes(), b"/"].concat();
    let place = cache.hold_operand(&c_string(parent), Open::SEARCH, display).unwrap();
    Operand::named(place, &c_string(Path::new(root.file_name().unwrap())), String::new())
}

/// Checks that every event is expected and happens once, and that nothing happens in a directory
/// before it is entered or after it is finished.
pub(crate) fn check(events: &[Event], expected: &BTreeSet<Event>, tally: Tally) -> Result<(), TestCaseError> {
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
    prop_assert_eq!((tally.discovered, tally.finished), (entries, entries));
    Ok(())
}
