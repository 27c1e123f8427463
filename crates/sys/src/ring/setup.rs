//! Making a ring: which flags and operations this kernel takes.
//!
//! Flags are asked for all at once and, when the kernel answers `EINVAL`, taken back one by one, the newest first, so
//! that every kernel gives the best ring it has. Operations are asked after, not guessed from a version number, because
//! distributions move them between versions and sandboxes take them away.

use io_uring::{Builder, IoUring, Probe, opcode};
use rustix::io::Errno;

use crate::error::Result;
use crate::gate;
use crate::operation::Operation;

pub(super) type Flag = (&'static str, fn(&mut Builder) -> &mut Builder);

/// Every flag worth having, the newest first. Each may be missing, but one may need a later one in this list:
/// `DEFER_TASKRUN` needs `SINGLE_ISSUER`, so the order is also that of dependence.
///
/// - `DEFER_TASKRUN`: completions are prepared when this thread asks for them, not by interrupting it.
/// - `TASKRUN_FLAG`: the kernel shows in shared memory that there is something to ask for.
/// - `SUBMIT_ALL`: one entry that fails at once does not keep those behind it waiting.
/// - `R_DISABLED`: the ring is bound to the thread that first submits, not to the one that made it.
pub(super) const FLAGS: [Flag; 6] = [
    ("NO_SQARRAY", Builder::setup_no_sqarray),
    ("DEFER_TASKRUN", Builder::setup_defer_taskrun),
    ("SINGLE_ISSUER", Builder::setup_single_issuer),
    ("COOP_TASKRUN|TASKRUN_FLAG", |builder| builder.setup_coop_taskrun().setup_taskrun_flag()),
    ("SUBMIT_ALL", Builder::setup_submit_all),
    ("R_DISABLED", Builder::setup_r_disabled),
];

/// A ring as the kernel made it.
pub(super) struct Setup {
    pub(super) ring: IoUring,
    /// Which operations it takes, in the order of [`OPERATIONS`].
    pub(super) supported: [bool; OPERATIONS.len()],
    /// How many of [`FLAGS`] the kernel refused, from the front.
    refused: usize,
}

impl Setup {
    /// Names the flags that this kernel does not know.
    pub(super) fn refused_flags(&self) -> impl Iterator<Item = &'static str> {
        FLAGS[..self.refused].iter().map(|(name, _)| *name)
    }

    /// Tells whether the ring waits to be enabled by the thread that will use it.
    pub(super) fn starts_disabled(&self) -> bool {
        self.refused < FLAGS.len()
    }
}

/// The operations a ring is asked for.
pub(super) const OPERATIONS: [(Operation, u8); 6] = [
    (Operation::Openat, opcode::OpenAt::CODE),
    (Operation::Statx, opcode::Statx::CODE),
    (Operation::Read, opcode::Read::CODE),
    (Operation::Write, opcode::Write::CODE),
    (Operation::Fsync, opcode::Fsync::CODE),
    (Operation::Close, opcode::Close::CODE),
];

/// Makes a ring of at least `entries` submission entries (fewer only where the kernel allows no more).
///
/// The completion queue has twice as many, which is the kernel's default.
///
/// # Errors
/// The kernel's: `EPERM` or `ENOSYS` where rings are forbidden or unknown, `ENOMEM` where memory is limited.
pub(super) fn make(entries: u32) -> Result<Setup> {
    make_without(entries, 0)
}

/// Makes a ring as a kernel does that knows none of the first `refused` flags of [`FLAGS`].
pub(super) fn make_without(entries: u32, mut refused: usize) -> Result<Setup> {
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
    Ok(Setup { ring, supported, refused })
}

fn setup(entries: u32, flags: &[Flag]) -> Result<IoUring> {
    let mut builder = IoUring::builder();
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

/// Takes the kernel's number out of an error of the `io-uring` crate.
pub(super) fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
