//! System calls that fail in the program that is run, by seccomp filters.
//!
//! A filter is per thread and inherited, so the program is started from a short-lived thread that
//! has installed the filters on itself.

use std::collections::BTreeMap;
use std::io;
use std::process::{Child, Command};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// System calls that fail without being made.
#[derive(Clone, Debug)]
pub(super) struct RefusedCalls {
    pub(super) calls: Vec<i64>,
    /// Argument number, from 0, and the bits that must all be set in it.
    pub(super) with_bits: Option<(u8, u32)>,
    pub(super) error: i32,
}

impl RefusedCalls {
    fn filter(&self) -> io::Result<BpfProgram> {
        let condition = |(argument, bits): (u8, u32)| {
            let bits = u64::from(bits);
            let how = SeccompCmpOp::MaskedEq(bits);
            let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, how, bits)?;
            SeccompRule::new(vec![condition])
        };
        let rule = self.with_bits.map(condition).transpose().map_err(io::Error::other)?;
        let rules: Vec<SeccompRule> = rule.into_iter().collect();
        let rules: BTreeMap<i64, _> = self.calls.iter().map(|call| (*call, rules.clone())).collect();
        let architecture = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
        let refuse = SeccompAction::Errno(self.error.unsigned_abs());
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture);
        BpfProgram::try_from(filter.map_err(io::Error::other)?).map_err(io::Error::other)
    }
}

/// Starts the command from a thread that installs the filters on itself. The new process
/// inherits them.
pub(super) fn spawn_refused(command: &mut Command, refused: &[RefusedCalls]) -> io::Result<Child> {
    let filters: Vec<BpfProgram> = refused.iter().map(RefusedCalls::filter).collect::<io::Result<_>>()?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            for filter in &filters {
                seccompiler::apply_filter(filter).map_err(io::Error::other)?;
            }
            command.spawn()
        });
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the starting thread died")))
    })
}
