//! Sequences, emitted results and operands with several names: what tools other than copy rely on.

#![allow(clippy::unwrap_used)]

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use haul_flow::{
    Alone, Config, Context, DirNode, Enter, Entry, Handled, OpenDir, OpenSource, Operand, OutputLine, Plan,
    Problem, Reporter, Session, Split, Stages, Start, Status, Tally, Tool,
};
use haul_sys::{EntryType, NameArena, Standard};
use proptest::prelude::*;

/// Reporter that keeps everything.
#[derive(Default)]
struct Notes {
    output: Mutex<Vec<u8>>,
    problems: Mutex<Vec<Problem>>,
    tally: Mutex<Tally>,
}

impl Reporter for Notes {
    fn count(&self, more: Tally) {
        *self.tally.lock().unwrap() += more;
    }
    fn problem(&self, problem: Problem) {
        self.problems.lock().unwrap().push(problem);
    }
    fn line(&self, _: OutputLine) {}
    fn output(&self, _: Standard, bytes: &[u8]) {
        self.output.lock().unwrap().extend_from_slice(bytes);
    }
    fn debug(&self, _: &str) {}
}

/// A sequence of numbers.
struct Numbers {
    entry: Entry<Keeper>,
    pieces: u64,
    next: AtomicUsize,
    under_way: AtomicUsize,
    most_under_way: AtomicUsize,
    putting: AtomicUsize,
    put: Mutex<Vec<u64>>,
}

impl Stages<Keeper> for Numbers {
    type Piece = u64;
    type Output = u64;

    fn next(&self, _: &Context<'_, Keeper>) -> Option<u64> {
        let number = self.next.fetch_add(1, Ordering::SeqCst) as u64;
        let now = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_under_way.fetch_max(now, Ordering::SeqCst);
        if number >= self.pieces {
            self.under_way.fetch_sub(1, Ordering::SeqCst);
            return None;
        }
        Some(number)
    }

    fn work(&self, _: &Context<'_, Keeper>, piece: u64) -> u64 {
        // Uneven work, so that results come out of order.
        (0..(piece % 7) * 500).fold(piece, |sum, turn| std::hint::black_box(sum ^ turn));
        piece
    }

    fn put(&self, _: &Context<'_, Keeper>, made: u64) {
        assert_eq!(self.putting.fetch_add(1, Ordering::SeqCst), 0, "two put at once");
        self.put.lock().unwrap().push(made);
        self.putting.fetch_sub(1, Ordering::SeqCst);
        self.under_way.fetch_sub(1, Ordering::SeqCst);
    }

    fn end(&self, cx: &Context<'_, Keeper>) {
        *cx.tool().ended.lock().unwrap() += 1;
        let put = std::mem::take(&mut *self.put.lock().unwrap());
        cx.tool().put.lock().unwrap().push((put, self.most_under_way.load(Ordering::SeqCst)));
        cx.emit(&self.entry, self.entry.name().to_bytes().to_vec());
        cx.complete(&self.entry);
    }
}

/// Defers every file for a sequence.
#[derive(Default)]
struct Keeper {
    pieces: u64,
    in_flight: usize,
    ended: Mutex<usize>,
    put: Mutex<Vec<(Vec<u64>, usize)>>,
    left: Mutex<Vec<String>>,
    more: Mutex<Option<Operand<String>>>,
}

impl Tool for Keeper {
    type Directory = String;
    type File = ();

    fn plan(&self, _: &Context<'_, Self>, _: &Entry<Self>, kind: EntryType) -> Plan {
        if kind == EntryType::Directory { Plan::Enter } else { Plan::Handle }
    }

    fn enter_dir(&self, _: &Context<'_, Self>, entry: &Entry<Self>, _: &OpenDir<'_>) -> Enter<String> {
        Enter::Visit(format!("in {}", String::from_utf8_lossy(entry.name().to_bytes())))
    }

    fn finish_dir(&self, cx: &Context<'_, Self>, node: &DirNode<Self>) {
        self.left.lock().unwrap().push(node.own.clone());
        if let Some(operand) = self.more.lock().unwrap().take() {
            cx.offer(operand);
        }
    }

    fn handle(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, _: EntryType) -> Handled {
        let numbers = Numbers {
            entry: entry.clone(),
            pieces: self.pieces,
            next: AtomicUsize::new(0),
            under_way: AtomicUsize::new(0),
            most_under_way: AtomicUsize::new(0),
            putting: AtomicUsize::new(0),
            put: Mutex::default(),
        };
        cx.begin_sequence(Arc::new(numbers), self.in_flight);
        Handled::Deferred
    }

    fn open_file(&self, _: &Context<'_, Self>, _: &Entry<Self>, _: &OpenSource<'_>) -> Start<()> {
        Start::Done
    }
}

fn path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn every_piece_is_put_once_in_order_and_the_end_comes_last(
        pieces in 0u64..200, in_flight in 0usize..9, jobs in 1usize..6, files in 1usize..4,
    ) {
        let root = tempfile::tempdir().unwrap();
        (0..files).for_each(|file| std::fs::write(root.path().join(file.to_string()), "").unwrap());
        let notes = Notes::default();
        let config = Config { jobs: Some(jobs), ..Config::default() };
        let session = Session::begin(&config, &notes).unwrap();
        let keeper = Keeper { pieces, in_flight, ..Keeper::default() };
        let operand = session.operand(&path(root.path()), "top".into()).unwrap();
        prop_assert_eq!(session.run(&Alone, &keeper, Vec::new(), [operand]), Status::Success);
        prop_assert_eq!(*keeper.ended.lock().unwrap(), files);
        for (put, most) in &*keeper.put.lock().unwrap() {
            prop_assert!(put.iter().copied().eq(0..pieces), "{:?}", put);
            prop_assert!(*most <= in_flight.max(1), "{} pieces were under way", most);
        }
        let mut output = notes.output.lock().unwrap().clone();
        output.sort_unstable();
        prop_assert_eq!(output, (0..files).map(|file| b'0' + file as u8).collect::<Vec<_>>());
    }
}

#[test]
fn operands_of_several_names_are_left_once_and_more_can_be_offered_meanwhile() {
    let root = tempfile::tempdir().unwrap();
    ["a", "b", "c"].iter().for_each(|name| std::fs::write(root.path().join(name), "").unwrap());
    let notes = Notes::default();
    let config = Config::default();
    let session = Session::begin(&config, &notes).unwrap();
    let place = || Split::of(&path(&root.path().join("a"))).hold(&session.cache).unwrap();
    let names = |of: &[&str]| {
        let mut names = NameArena::new();
        for name in of {
            names.push(&CString::new(*name).unwrap(), 0, EntryType::Regular);
        }
        names
    };
    let later = Operand { place: place(), names: names(&["c"]), own: "later".into() };
    let keeper = Keeper { pieces: 3, in_flight: 2, more: Mutex::new(Some(later)), ..Keeper::default() };
    let first = Operand { place: place(), names: names(&["a", "b"]), own: "first".into() };
    let none = Operand { place: place(), names: names(&[]), own: "none".into() };
    assert_eq!(session.run(&Alone, &keeper, Vec::new(), [none, first]), Status::Success);
    assert_eq!(*keeper.left.lock().unwrap(), ["first", "later"]);
    let tally = *notes.tally.lock().unwrap();
    assert_eq!((tally.discovered, tally.finished), (3, 3));
    assert!(notes.problems.lock().unwrap().is_empty());
}
