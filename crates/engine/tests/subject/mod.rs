//! The engines that the contract is tested on: as listed, in every configuration of the ring, and
//! wrapped in `faulty`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_engine::{ENGINES, Engine, EngineChoice, EngineSetup, FaultRates, Faulty, Ops, Placement, Uring};
use haul_sys::Result;
use haul_testkit::random;

use crate::pairs::PAIRED_BLOCK;
use crate::registered::Registered;

/// An engine under test.
pub(crate) struct Subject {
    pub(crate) engine: Box<dyn Engine>,
    /// Number of injected faults; `None` for a plain engine.
    pub(crate) struck: Option<Arc<AtomicU64>>,
    pub(crate) seed: u64,
}

pub(crate) fn subject(made: Result<Box<dyn Engine>>, faulty: bool, line: &str) -> Option<Subject> {
    let engine = haul_testkit::or_skip!(made, "the kernel refuses the engine")?;
    let seed = random::seed(line, None);
    if !faulty {
        return Some(Subject { engine, struck: None, seed });
    }
    let engine =
        Faulty::new(engine, FaultRates { seed, errors: 200, shorts: 300, delays: 300, reorder: true });
    let struck = Some(engine.fault_count());
    Some(Subject { engine: Box::new(engine), struck, seed })
}

impl Subject {
    pub(crate) fn is_plain(&self) -> bool {
        self.struck.is_none()
    }

    /// Checks that `faulty` injected at least one fault: without any, the test proves nothing.
    pub(crate) fn assert_faults_were_injected(&self) {
        if let Some(struck) = &self.struck {
            assert!(struck.load(Ordering::Relaxed) > 0, "faulty never struck");
        }
    }
}

pub(crate) fn listed(choice: EngineChoice, depth: usize) -> Result<Box<dyn Engine>> {
    let listed = ENGINES.iter().find(|listed| listed.choice == choice).expect("the list has every choice");
    let engine = listed.choice.create(&EngineSetup::of_depth(depth))?;
    let caps = engine.caps();
    assert_eq!(caps.name, listed.name, "the engine in use is the one asked for");
    assert!(caps.depth == depth || choice == EngineChoice::Sync, "made for {depth}, takes {}", caps.depth);
    Ok(engine)
}

pub(crate) fn placed(placement: Placement) -> Result<Box<dyn Engine>> {
    let engine = Uring::with_placement(16, placement)?;
    assert_eq!(engine.placement(), placement, "this kernel does not take every operation in a ring");
    Ok(Box::new(engine))
}

pub(crate) fn registered() -> Result<Box<dyn Engine>> {
    let engine = Uring::with_placement(16, Placement::EVERYTHING.with_pairs())?;
    Ok(Box::new(Registered::new(engine, PAIRED_BLOCK)))
}

pub(crate) fn direct(placement: Placement) -> Result<Box<dyn Engine>> {
    let mut engine = Uring::with_placement(16, placement)?;
    engine.use_direct_descriptors()?;
    Ok(Box::new(engine))
}

pub(crate) fn asked_for() -> Result<Box<dyn Engine>> {
    let setup = EngineSetup { ops: Some(Ops::Multi), direct_descriptors: true, ..EngineSetup::of_depth(16) };
    let engine =
        ENGINES.iter().find(|listed| listed.choice == EngineChoice::Uring).unwrap().choice.create(&setup)?;
    assert!(engine.caps().pairs, "this kernel takes no pairs");
    Ok(engine)
}
