//! Determines what this machine lacks, which excuses skipped tests.
//!
//! The tests have their own probes (`haul_testkit::needs`). These are deliberately separate: a
//! wrong probe in the tests shows up here as a skip without an excuse.

use std::path::Path;

use crate::steps::is_full_run;
use crate::steps::{StepFailure, is_installed, workspace};

/// Number of AIO operations that the tests need.
const AIO_OPERATIONS: u64 = 16_384;

/// Returns true if a condition from the skip list holds here. A condition is a word; `missing` and
/// `no-filesystem` are followed by a name.
pub(crate) fn holds(condition: &str) -> Result<bool, StepFailure> {
    let (word, name) = condition.split_once(' ').unwrap_or((condition, ""));
    match (word, name) {
        ("always", "") => Ok(true),
        ("root", "") => Ok(is_root()),
        ("not-root", "") => Ok(!is_root()),
        ("not-full", "") => Ok(!is_full_run()),
        ("no-io_uring", "") => Ok(io_uring::IoUring::new(1).is_err()),
        ("no-kernel-aio", "") => Ok(!has_kernel_aio()),
        ("no-network", "") => Ok(!has_network()),
        ("stand-in", "") => Ok(std::env::var_os("HAUL_BIN").is_some()),
        ("missing", name) if !name.is_empty() => Ok(!is_there(name)),
        ("no-filesystem", name) if !name.is_empty() => {
            Ok(!words("/proc/filesystems").any(|word| word == name))
        }
        _ => Err(StepFailure(format!("the skip list has an unknown condition: '{condition}'"))),
    }
}

pub(crate) fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().nth(1));
    effective == Some("0")
}

fn has_kernel_aio() -> bool {
    let number = |name: &str| words(&format!("/proc/sys/fs/{name}")).next()?.parse::<u64>().ok();
    number("aio-max-nr").zip(number("aio-nr")).is_some_and(|(max, taken)| max >= taken + AIO_OPERATIONS)
}

/// Returns true if there is a default route.
fn has_network() -> bool {
    let is_default = |line: &str| line.split_whitespace().nth(1) == Some("00000000");
    let old = std::fs::read_to_string("/proc/net/route").unwrap_or_default().lines().any(is_default);
    // IPv6 routes to the unspecified address with a 0-bit prefix, on an interface other
    // than loopback.
    let routes = std::fs::read_to_string("/proc/net/ipv6_route").unwrap_or_default();
    let is_default = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        matches!(fields[..], [to, "00", .., interface] if to.bytes().all(|byte| byte == b'0') && interface != "lo")
    };
    old || routes.lines().any(is_default)
}

/// Returns true if a program is installed, or a path exists. Relative paths with a slash are
/// relative to the workspace.
fn is_there(name: &str) -> bool {
    if name.contains('/') { workspace().join(Path::new(name)).exists() } else { is_installed(name) }
}

fn words(path: &str) -> impl Iterator<Item = String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_about_this_machine() {
        let holds = |condition| holds(condition).map_err(|failure| failure.to_string());
        assert_eq!(holds("always"), Ok(true));
        assert_ne!(holds("root"), holds("not-root"));
        assert_eq!((holds("missing sh"), holds("missing no-such-program")), (Ok(false), Ok(true)));
        assert_eq!(
            (holds("missing Cargo.toml"), holds("missing dev/xtask/Cargo.toml")),
            (Ok(true), Ok(false))
        );
        assert_eq!((holds("no-filesystem proc"), holds("no-filesystem nofs")), (Ok(false), Ok(true)));
        assert!(holds("missing").is_err() && holds("roots").is_err() && holds("root x").is_err());
    }
}
