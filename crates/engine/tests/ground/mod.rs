//! Files and engine drivers for the contract tests.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(unsafe_code, reason = "what is forbidden or set here, haul itself never forbids or sets")]
#![allow(dead_code, reason = "each test binary uses a part")]

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use haul_engine::{Call, Done, Engine, Op, Outcome, Token, Wait};
use haul_sys::{Buffer, CacheMode, Fd, FileType, Mode, Name, Open, Operation, Special};
use tempfile::TempDir;

/// A temporary directory and its open descriptor.
pub(crate) struct Ground {
    pub(crate) place: TempDir,
    pub(crate) directory: Arc<Fd>,
}

impl Ground {
    pub(crate) fn new() -> Self {
        Self::at(&std::env::temp_dir())
    }

    /// Creates one on another file system.
    pub(crate) fn at(parent: &Path) -> Self {
        let place = TempDir::new_in(parent).unwrap();
        let path = CString::new(place.path().as_os_str().as_encoded_bytes()).unwrap();
        let directory = Arc::new(haul_sys::open_path(&path, Open::DIRECTORY).unwrap());
        Self { place, directory }
    }

    /// Creates a file filled with [`pattern`] and opens it for reading.
    pub(crate) fn file(&self, name: &CStr, seed: u64, length: usize) -> Arc<Fd> {
        let mut file = File::create(self.place.path().join(name.to_str().unwrap())).unwrap();
        file.write_all(&pattern(seed, 0, length)).unwrap();
        Arc::new(haul_sys::open(&*self.directory, name, Open::READ).unwrap())
    }

    /// Creates an empty file and opens it for writing.
    pub(crate) fn target(&self, name: &CStr) -> Arc<Fd> {
        Arc::new(self.target_alone(name))
    }

    pub(crate) fn target_alone(&self, name: &CStr) -> Fd {
        haul_sys::open(&*self.directory, name, Open::create(Mode::READ_WRITE)).unwrap()
    }

    pub(crate) fn remove(&self, name: &str) {
        std::fs::remove_file(self.place.path().join(name)).unwrap();
    }

    pub(crate) fn content(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.place.path().join(name)).unwrap()
    }

    /// Creates a FIFO and opens both ends in nonblocking mode.
    pub(crate) fn fifo(&self, name: &CStr) -> Fifo {
        let special = Special { kind: FileType::Fifo, mode: Mode::READ_WRITE, device_number: 0 };
        haul_sys::make_special(&*self.directory, name, special).unwrap();
        let reader = haul_sys::open(&*self.directory, name, Open::READ).unwrap();
        let writer = haul_sys::open(&*self.directory, name, Open::WRITE).unwrap();
        Fifo { reader, writer }
    }

    pub(crate) fn open(&self, token: Token, name: &CStr, how: Open) -> Op {
        let call = Call::Open { directory: Arc::clone(&self.directory), name: Name::from(name), how };
        Op { token, call }
    }
}

/// The two ends of a FIFO.
pub(crate) struct Fifo {
    pub(crate) reader: Fd,
    pub(crate) writer: Fd,
}

/// Duplicates a descriptor for use with the standard library.
pub(crate) fn duplicate(file: &Fd) -> File {
    let owned: OwnedFd = file.as_fd().try_clone_to_owned().unwrap();
    File::from(owned)
}

/// Returns bytes that depend on the file (by `seed`) and on the offset.
pub(crate) fn pattern(seed: u64, offset: usize, length: usize) -> Vec<u8> {
    let byte = |at: usize| (at as u64).wrapping_mul(0x9e37_79b9).wrapping_add(seed * 131).to_le_bytes()[2];
    (offset..offset + length).map(byte).collect()
}

/// A read that may wait for the disk, into a buffer of its length.
pub(crate) fn read(token: Token, file: &Arc<Fd>, offset: usize, length: usize) -> Op {
    Op { token, call: read_into(Buffer::new(length), file, offset, length) }
}

pub(crate) fn read_into(buffer: Buffer, file: &Arc<Fd>, offset: usize, length: usize) -> Call {
    let (file, offset) = (Arc::clone(file), offset as u64);
    Call::Read { file, offset, buffer, length, wait: Wait::Allowed, cache: CacheMode::Keep }
}

pub(crate) fn write(buffer: Buffer, range: Range<usize>, file: &Arc<Fd>, offset: usize) -> Call {
    Call::Write { file: Arc::clone(file), offset: offset as u64, buffer, range, cache: CacheMode::Keep }
}

/// A pair with its offset as its token. Its filler exposes a write that overtakes the read.
pub(crate) fn pair(source: &Arc<Fd>, target: &Arc<Fd>, offset: usize, length: usize) -> Op {
    let mut buffer = Buffer::new(length);
    buffer.bytes_mut().fill(0xaa);
    Op { token: offset as u64, call: pair_through(buffer, source, target, offset, length) }
}

pub(crate) fn pair_through(
    buffer: Buffer,
    source: &Arc<Fd>,
    target: &Arc<Fd>,
    offset: usize,
    length: usize,
) -> Call {
    let (source, target) = (Arc::clone(source), Arc::clone(target));
    Call::Pair { source, target, offset: offset as u64, buffer, length, cache: CacheMode::Keep }
}

/// Submits everything, reaping whenever the engine is full, then reaps until nothing is in flight.
pub(crate) fn run(engine: &mut dyn Engine, ops: impl IntoIterator<Item = Op>) -> Vec<Done> {
    let mut done = Vec::new();
    for op in ops {
        let mut op = op;
        while let Err(refused) = engine.submit(op) {
            op = *refused;
            engine.reap(1, &mut done).unwrap();
        }
    }
    engine.flush().unwrap();
    let left = engine.in_flight();
    engine.reap(left, &mut done).unwrap();
    assert_eq!(engine.in_flight(), 0, "a reap for all of them leaves some");
    done
}

/// Runs one operation.
pub(crate) fn run_one(engine: &mut dyn Engine, call: Call) -> Outcome {
    let mut done = run(engine, [Op { token: 0, call }]);
    assert_eq!(done.len(), 1);
    done.pop().unwrap().outcome
}

/// Repeats one operation until `accept` returns a value, as a caller does after transient failures.
pub(crate) fn insist<T>(
    engine: &mut dyn Engine,
    mut call: impl FnMut() -> Call,
    mut accept: impl FnMut(Outcome) -> Option<T>,
) -> T {
    let mut last = String::new();
    for _ in 0..200 {
        let outcome = run_one(engine, call());
        last = format!("{outcome:?}");
        if let Some(value) = accept(outcome) {
            return value;
        }
    }
    panic!("never succeeded, at last: {last}");
}

/// Returns the operation that has this kind of outcome.
pub(crate) fn operation_of(outcome: &Outcome) -> Operation {
    match outcome {
        Outcome::Opened(_) => Operation::Openat,
        Outcome::Stated(_) => Operation::Statx,
        Outcome::Read { .. } | Outcome::Paired { .. } => Operation::Read,
        Outcome::Wrote { .. } => Operation::Write,
        Outcome::Copied { .. } => Operation::CopyFileRange,
        Outcome::Synchronized(_) => Operation::Fsync,
        Outcome::Closed(_) => Operation::Close,
    }
}

/// Returns the address of a buffer's memory, which identifies the buffer.
pub(crate) fn address(buffer: &Buffer) -> usize {
    buffer.bytes().as_ptr().addr()
}

/// Writes directly to stderr, which the test harness doesn't capture.
pub(crate) fn say(text: &str) {
    std::io::stderr().write_all(format!("{text}\n").as_bytes()).unwrap();
}

/// Returns the descriptor number.
pub(crate) fn number(file: &Fd) -> i32 {
    file.as_raw_fd()
}

/// Installs a seccomp filter that makes `call` fail with `errno` in this thread, as a sandbox does.
pub(crate) fn forbid(call: libc::c_long, errno: i32) {
    let instruction = |code: u32, jump_false, constant: u32| libc::sock_filter {
        code: u16::try_from(code).unwrap(),
        jt: 0,
        jf: jump_false,
        k: constant,
    };
    let mut filter = [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, u32::try_from(call).unwrap()),
        instruction(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | errno.cast_unsigned()),
        instruction(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
    // SAFETY: the call takes no pointers.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    // SAFETY: `program` and the filter it points to outlive the call, and its length
    // is the filter's.
    let outcome =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) };
    assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
}

/// Sets `O_DIRECT` on the descriptor.
pub(crate) fn set_direct(file: &Fd) {
    // SAFETY: the call takes no pointers, and the descriptor is open.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    assert_ne!(flags, -1);
    // SAFETY: same as above.
    let outcome = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags | libc::O_DIRECT) };
    assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
}
