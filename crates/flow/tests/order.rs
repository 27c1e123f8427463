//! The order of a run, whichever worker does what when: every entry once, parents before children,
//! directories finished last.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod recorder;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use haul_flow::{Config, DirCache, Local, Operand, RunSpec, Selector, Settings, Sim, Status, Tally};
use haul_flow::{run, simulate};
use proptest::prelude::*;

use recorder::{Event, MACHINE, Notes, Recorder, build, check, operand, shapes};

fn record(
    root: &Path,
    settings: Settings,
    run: impl FnOnce(&RunSpec<'_, Recorder>, [Operand<String>; 1]) -> Status,
) -> (Vec<Event>, Tally) {
    let cache = DirCache::new(settings.cached_directories);
    let (tool, notes) = (Recorder::default(), Notes::default());
    let spec = RunSpec {
        tool: &tool,
        settings,
        cache: &cache,
        selector: &Selector::default(),
        report: &notes,
        limits: None,
        engine: Mutex::default(),
    };
    let status = run(&spec, [operand(&cache, root)]);
    let problems = notes.problems.into_inner().unwrap();
    assert!(status == Status::Success && problems.is_empty(), "{problems:?}");
    (tool.events.into_inner().unwrap(), notes.tally.into_inner().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_pretended_run_does_everything_once_and_in_order(
        shape in shapes(), workers in 1usize..6, seed: u64, held in 4usize..40, window in 1usize..9,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (root, mut expected) = (folder.path().join("root"), BTreeSet::new());
        build(&shape, &root, "f", &mut expected);
        let settings = Settings { window, cached_directories: held, ..Settings::within(&Config::default(), MACHINE) };
        let simulated = || record(&root, settings, |spec, operands| simulate(spec, &Sim::new(workers, seed), operands));
        let (events, tally) = simulated();
        check(&events, &expected, tally)?;
        let again = simulated();
        prop_assert_eq!(events, again.0, "the same seed gave another order");
    }

    #[test]
    fn a_real_run_does_everything_once_and_in_order(
        shape in shapes(), workers in 1usize..6, held in 4usize..40, window in 1usize..9,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (root, mut expected) = (folder.path().join("root"), BTreeSet::new());
        build(&shape, &root, "f", &mut expected);
        let settings = Settings { window, cached_directories: held, ..Settings::within(&Config::default(), MACHINE) };
        let (events, tally) = record(&root, settings, |spec, operands| run(spec, &Local::new(workers), operands));
        check(&events, &expected, tally)?;
    }
}
