//! Fault sweep of the copy. It needs a build with the fault hook.

#[cfg(feature = "fault")]
mod scenes;
#[cfg(feature = "fault")]
mod sweep;

/// Reports a skip: without the hook, an empty run must not look like a passed sweep.
#[cfg(not(feature = "fault"))]
#[test]
fn the_sweep_is_built() {
    haul_testkit::skip!("needs the feature fault (cargo test --features fault)");
}
