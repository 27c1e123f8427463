//! Creating a ring: negotiating flags and operations with the kernel.
//!
//! All flags are requested at first. If the kernel answers `EINVAL`, they are dropped one by one,
//! newest first, so that every kernel gives the best ring it can. Supported operations are probed,
//! not derived from a version number: distributions backport them and sandboxes take them away.

use io_uring::{Builder, IoUring, Probe, opcode};
use rustix::io::Errno;

use crate::error::Result;
use crate::gate;
use crate::operation::Operation;

pub(super) type SetupFlag = (&'static str, fn(&mut Builder) -> &mut Builder);

/// Every useful flag, newest first. Each may be missing. A flag may depend on a later one
/// (`DEFER_TASKRUN` needs `SINGLE_ISSUER`), so dropping them from the front never leaves a flag
/// without its prerequisites.
///
/// - `DEFER_TASKRUN`: completions are processed when this thread asks for them instead of
///   interrupting it.
/// - `TASKRUN_FLAG`: the kernel shows in shared memory that there are completions to ask for.
/// - `SUBMIT_ALL`: an entry that fails at once doesn't hold up those behind it.
/// - `R_DISABLED`: the ring is bound to the first thread that submits, not to the one that
///   created it.
pub(super) const FLAGS: [SetupFlag; 6] = [
    ("NO_SQARRAY", Builder::setup_no_sqarray),
    ("DEFER_TASKRUN", Builder::setup_defer_taskrun),
    ("SINGLE_ISSUER", Builder::setup_single_issuer),
    ("COOP_TASKRUN|TASKRUN_FLAG", |builder| builder.setup_coop_taskrun().setup_taskrun_flag()),
    ("SUBMIT_ALL", Builder::setup_submit_all),
    ("R_DISABLED", Builder::setup_r_disabled),
];

/// A ring, and the operations that the kernel supports.
pub(super) struct RingSetup {
    pub(super) ring: IoUring,
    /// Supported operations, in the order of [`OPERATIONS`].
    pub(super) supported: [bool; OPERATIONS.len()],
    /// Number of [`FLAGS`] that the kernel refused, from the front.
    refused: usize,
}

impl RingSetup {
    /// Returns the names of the flags that this kernel refused.
    pub(super) fn refused_flags(&self) -> impl Iterator<Item = &'static str> {
        FLAGS[..self.refused].iter().map(|(name, _)| *name)
    }

    /// True if the ring must be enabled by the thread that will use it.
    pub(super) fn starts_disabled(&self) -> bool {
        self.refused < FLAGS.len()
    }
}

/// The operations to probe for.
pub(super) const OPERATIONS: [(Operation, u8); 6] = [
    (Operation::Openat, opcode::OpenAt::CODE),
    (Operation::Statx, opcode::Statx::CODE),
    (Operation::Read, opcode::Read::CODE),
    (Operation::Write, opcode::Write::CODE),
    (Operation::Fsync, opcode::Fsync::CODE),
    (Operation::Close, opcode::Close::CODE),
];

/// Creates a ring of at least `entries` submission entries (fewer only if the kernel allows
/// no more).
///
/// The completion queue has twice as many, the kernel's default.
///
/// # Errors
/// Any error from `io_uring_setup(2)`: `EPERM` or `ENOSYS` if io_uring is forbidden or missing,
/// `ENOMEM` if memory is limited.
pub(super) fn make(entries: u32) -> Result<RingSetup> {
    make_without(entries, 0)
}

/// Creates a ring without the first `refused` flags of [`FLAGS`], as on an older kernel.
pub(super) fn make_without(entries: u32, mut refused: usize) -> Result<RingSetup> {
    let ring = loop {
        match setup(entries, &FLAGS[refused..]) {
            Err(error) if error.is(Errno::INVAL) && refused < FLAGS.len() => refused += 1,
            outcome => break outcome?,
        }
    };
    let mut probe = Probe::new();
    gate::call(
        Operation::RingRegister,
        || ring.submitter().register_probe(&mut probe).map_err(|error| errno(&error)),
        || "IORING_REGISTER_PROBE".to_owned(),
    )?;
    let supported = OPERATIONS.map(|(_, code)| probe.is_supported(code));
    Ok(RingSetup { ring, supported, refused })
}

fn setup(entries: u32, flags: &[SetupFlag]) -> Result<IoUring> {
    let mut builder = IoUring::builder();
    // Without it, more entries than the kernel allows are `EINVAL`, not fewer entries.
    builder.setup_clamp();
    for (_, set) in flags {
        set(&mut builder);
    }
    gate::call(
        Operation::RingSetup,
        || builder.build(entries).map_err(|error| errno(&error)),
        || {
            let names: Vec<&str> = flags.iter().map(|(name, _)| *name).collect();
            format!("{entries}, CLAMP|{}", names.join("|"))
        },
    )
}

/// Returns the errno of an error from the `io-uring` crate.
pub(super) fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
