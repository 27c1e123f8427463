//! A run that ends with an entry deferred and never completed has failed, and reports it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::ffi::CStr;
use std::sync::Mutex;

use haul_flow::{
    Config, Context, Enter, Entry, FlowKind, Kind, OpenDir, OpenSource, OutputLine, Plan, Probe, Problem,
    Reporter, Session, Start, Status, Tally, Tool,
};
use haul_sys::{EntryType, Standard};

#[derive(Default)]
struct Notes(Mutex<Vec<Kind>>);

impl Reporter for Notes {
    fn problem(&self, problem: Problem) {
        self.0.lock().unwrap().push(problem.kind);
    }
    fn line(&self, _: OutputLine) {}
    fn count(&self, _: Tally) {}
    fn output(&self, _: Standard, _: &[u8]) {}
    fn debug(&self, _: &str) {}
}

/// Defers every file if `keeps` is set, and never completes it.
struct Keeper {
    keeps: bool,
}

impl Tool for Keeper {
    type Directory = ();
    type File = ();

    fn plan(&self, _: &Context<'_, Self>, _: &Entry<Self>, kind: EntryType) -> Plan {
        if kind == EntryType::Directory { Plan::Enter } else { Plan::Read(Probe::ALWAYS) }
    }

    fn enter_dir(&self, _: &Context<'_, Self>, _: &Entry<Self>, _: &OpenDir<'_>) -> Enter<()> {
        Enter::Visit(())
    }

    fn open_file(&self, _: &Context<'_, Self>, _: &Entry<Self>, _: &OpenSource<'_>) -> Start<()> {
        if self.keeps { Start::Deferred } else { Start::Done }
    }
}

#[test]
fn what_is_never_settled_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("below")).unwrap();
    std::fs::write(folder.path().join("below/file"), "text").unwrap();
    let path = [folder.path().to_str().unwrap().as_bytes(), b"\0"].concat();
    for keeps in [false, true] {
        let (config, notes) = (Config::default(), Notes::default());
        let session = Session::begin(&config, &notes).unwrap_or_else(|_| panic!("no session"));
        let operand = session.operand(CStr::from_bytes_with_nul(&path).unwrap(), ());
        let operand = operand.unwrap_or_else(|_| panic!("no operand"));
        let status = session.run_alone(&Keeper { keeps }, [operand]);
        let problems = notes.0.into_inner().unwrap();
        assert_eq!(status == Status::Failure, keeps);
        assert_eq!(problems, if keeps { vec![FlowKind::Unfinished] } else { vec![] });
    }
}
