//! Fault sweep of the applets other than `cp`. It needs a build with the fault hook.

#[cfg(feature = "fault")]
mod scenes;
#[cfg(feature = "fault")]
mod sweep;
#[cfg(feature = "fault")]
mod verdict;

#[cfg(feature = "fault")]
pub(crate) use sweep::shell;

/// Reports a skip: without the hook, an empty run must not look like a passed sweep.
#[cfg(not(feature = "fault"))]
#[test]
fn the_sweep_is_built() {
    haul_testkit::skip!("needs the feature fault (cargo test --features fault)");
}
