//! Counts the lines of every file below the paths it is given, on all processors.

use std::ffi::CString;
use std::io::Write as _;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_flow::{
    Alone, Block, Config, Context, Enter, Entry, Holes, OpenDir, OpenFile, OpenSource, OutputLine, Plan,
    Probe, Problem, Reporter, Session, Standard, Start, Status, Tally, Tool, Transfer, Write,
};
use haul_sys::EntryType;

/// The tool. It keeps nothing for a directory, and for a file its lines so far.
struct Lines;

impl Tool for Lines {
    type Directory = ();
    type File = AtomicU64;

    fn plan(&self, _: &Context<'_, Self>, _: &Entry<Self>, kind: EntryType) -> Plan {
        match kind {
            EntryType::Directory => Plan::Enter,
            EntryType::Regular => Plan::Read(Probe::ALWAYS),
            _ => Plan::Skip,
        }
    }

    fn enter_dir(&self, _: &Context<'_, Self>, _: &Entry<Self>, _: &OpenDir<'_>) -> Enter<()> {
        Enter::Visit(())
    }

    fn open_file(&self, _: &Context<'_, Self>, _: &Entry<Self>, _: &OpenSource<'_>) -> Start<AtomicU64> {
        Start::Inspect { own: AtomicU64::new(0), transfer: Transfer::Blocks(Holes::Skip) }
    }

    fn block(&self, file: &OpenFile<Self>, block: Block<'_>) -> Write {
        let lines = block.bytes.iter().filter(|byte| **byte == b'\n').count();
        file.own.fetch_add(lines as u64, Ordering::Relaxed);
        Write::Nothing
    }

    fn close_file(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, lines: AtomicU64, was_read: bool) {
        cx.count(Tally { files: 1, ..Tally::default() });
        if was_read {
            let count = format!("{} ", lines.into_inner());
            cx.emit(entry, [count.as_bytes(), &entry.path(), b"\n"].concat());
        }
    }
}

/// Prints problems and results. If that fails, there is nowhere left to report it.
struct Console;

impl Reporter for Console {
    fn count(&self, _: Tally) {}

    fn problem(&self, problem: Problem) {
        self.output(Standard::Error, format!("lines: {problem}\n").as_bytes());
    }

    fn line(&self, _: OutputLine) {}

    fn output(&self, stream: Standard, bytes: &[u8]) {
        match stream {
            Standard::Output => std::io::stdout().write_all(bytes),
            Standard::Error => std::io::stderr().write_all(bytes),
        }
        .unwrap_or_default();
    }

    fn debug(&self, _: &str) {}
}

fn main() -> ExitCode {
    let config = Config::default();
    let count = || -> Result<Status, Problem> {
        let session = Session::begin(&config, &Console)?;
        let paths = std::env::args_os().skip(1).filter_map(|path| CString::new(path.into_vec()).ok());
        let operands = paths.map(|path| session.operand(&path, ())).collect::<Result<Vec<_>, _>>()?;
        Ok(session.run(&Alone, &Lines, Vec::new(), operands))
    };
    match count() {
        Ok(Status::Success) => ExitCode::SUCCESS,
        Ok(Status::Failure) => ExitCode::FAILURE,
        Err(problem) => {
            Console.problem(problem);
            ExitCode::FAILURE
        }
    }
}
