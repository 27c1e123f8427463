//! The fault sweep of the other tools, which needs a build with the fault hook compiled in.

#[cfg(feature = "fault")]
mod scenes;
#[cfg(feature = "fault")]
mod sweep;
#[cfg(feature = "fault")]
mod verdict;

#[cfg(feature = "fault")]
pub(crate) use sweep::shell;

/// Without the hook there is nothing to sweep: that must not look like a sweep that passed.
#[cfg(not(feature = "fault"))]
#[test]
fn the_sweep_is_built() {
    haul_testkit::skip!("needs the feature fault (cargo test --features fault)");
}
