//! The fault hook: fails or shortens the k-th occurrence of one operation, counted over
//! all threads.
//!
//! Compiled only with the feature `fault`, for the fault sweep. Controlled by environment
//! variables, so that the sweep can run the real binary:
//! - `HAUL_FAULT=OPERATION:K:ERRNO` fails the K-th occurrence (from 1), e.g. `write:3:ENOSPC`;
//! - `HAUL_FAULT=OPERATION:K:short=N` limits it to N bytes; `short=-1` means one less
//!   than requested;
//! - `HAUL_FAULT=count` changes nothing and counts;
//! - `HAUL_FAULT_LOG=FILE`: [`write_log`] writes `OPERATION COUNT` lines, and `fired OPERATION K`
//!   if the fault fired.
//!
//! Invariant: at most one fault per run.

use std::fmt::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::io::Errno;

use crate::gate::FaultDecision;
use crate::operation::Operation;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Fail(Errno),
    AtMost(usize),
    OneLess,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FaultPlan {
    operation: Operation,
    occurrence: u64,
    effect: Effect,
}

/// The plan from the environment, and the occurrences so far.
struct Hook {
    plan: Option<FaultPlan>,
    counts: [AtomicU64; Operation::ALL.len()],
    fired: AtomicBool,
}

fn hook() -> &'static Hook {
    static HOOK: OnceLock<Hook> = OnceLock::new();
    HOOK.get_or_init(|| Hook {
        plan: std::env::var("HAUL_FAULT").ok().and_then(|text| parse(&text)),
        counts: std::array::from_fn(|_| AtomicU64::new(0)),
        fired: AtomicBool::new(false),
    })
}

fn parse(text: &str) -> Option<FaultPlan> {
    let mut parts = text.splitn(3, ':');
    let (name, occurrence, effect) = (parts.next()?, parts.next()?, parts.next()?);
    let operation = Operation::ALL.iter().copied().find(|operation| operation.name() == name)?;
    let effect = match effect.strip_prefix("short=") {
        Some("-1") => Effect::OneLess,
        Some(bytes) => Effect::AtMost(bytes.parse().ok()?),
        None => Effect::Fail(errno(effect)?),
    };
    Some(FaultPlan { operation, occurrence: occurrence.parse().ok()?, effect })
}

fn errno(name: &str) -> Option<Errno> {
    Some(match name {
        "EIO" => Errno::IO,
        "ENOSPC" => Errno::NOSPC,
        "EINTR" => Errno::INTR,
        "EAGAIN" => Errno::AGAIN,
        "EBUSY" => Errno::BUSY,
        "ENOMEM" => Errno::NOMEM,
        "EACCES" => Errno::ACCESS,
        "EPERM" => Errno::PERM,
        "EMFILE" => Errno::MFILE,
        "EDQUOT" => Errno::DQUOT,
        "ENOSYS" => Errno::NOSYS,
        "EINVAL" => Errno::INVAL,
        "EOPNOTSUPP" => Errno::OPNOTSUPP,
        _ => return None,
    })
}

/// Counts one occurrence and decides its effect.
pub(crate) fn verdict(operation: Operation, length: usize) -> FaultDecision {
    let hook = hook();
    // Relaxed: a thread needs only a number that no other has; no data goes with it.
    let occurrence = hook.counts[operation as usize].fetch_add(1, Ordering::Relaxed) + 1;
    let Some(plan) = hook.plan else { return FaultDecision::Pass };
    if plan.operation != operation || plan.occurrence != occurrence {
        return FaultDecision::Pass;
    }
    hook.fired.store(true, Ordering::Relaxed);
    match plan.effect {
        Effect::Fail(errno) => FaultDecision::Fail(errno),
        Effect::AtMost(bytes) => FaultDecision::Shorten(bytes.min(length)),
        Effect::OneLess => FaultDecision::Shorten(length.saturating_sub(1)),
    }
}

/// Writes the log to the file named by `HAUL_FAULT_LOG`, if set.
///
/// # Errors
/// If the file can't be written: the sweep must not mistake a missing log for a run without faults.
pub fn write_log() -> std::io::Result<()> {
    let Some(path) = std::env::var_os("HAUL_FAULT_LOG") else { return Ok(()) };
    let hook = hook();
    let mut text = String::new();
    for operation in Operation::ALL {
        let count = hook.counts[*operation as usize].load(Ordering::Relaxed);
        if count > 0 {
            writeln!(text, "{} {count}", operation.name()).map_err(std::io::Error::other)?;
        }
    }
    if let (Some(plan), true) = (hook.plan, hook.fired.load(Ordering::Relaxed)) {
        writeln!(text, "fired {} {}", plan.operation.name(), plan.occurrence)
            .map_err(std::io::Error::other)?;
    }
    std::fs::write(path, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_names_operation_occurrence_and_effect() {
        let plan = parse("write:3:ENOSPC").unwrap();
        assert_eq!(
            plan,
            FaultPlan { operation: Operation::Write, occurrence: 3, effect: Effect::Fail(Errno::NOSPC) }
        );
        assert_eq!(parse("read:1:short=-1").unwrap().effect, Effect::OneLess);
        assert_eq!(parse("read:1:short=0").unwrap().effect, Effect::AtMost(0));
        assert_eq!(parse("nothing:1:EIO"), None);
        assert_eq!(parse("count"), None);
    }
}
