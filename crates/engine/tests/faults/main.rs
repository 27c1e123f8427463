//! Fault sweep over the engines. Needs a build with the fault hook.

#[cfg(feature = "fault")]
#[path = "../ground/mod.rs"]
mod ground;
#[cfg(feature = "fault")]
mod sweep;

/// Skipped visibly, so that a build without the hook doesn't look like a sweep that passed.
#[cfg(not(feature = "fault"))]
#[test]
fn the_sweep_is_built() {
    haul_testkit::skip!("needs the feature fault (cargo test --features fault)");
}
