//! The three ABIs of MPI libraries, as tables.
//!
//! MPI fixed its C functions long ago, but not the representation of handles and constants. One
//! family uses pointers to its own objects, another uses numbers, and MPI 5.0 has standardised a
//! third ABI. The values are those of the released headers: `mpi.h` of Open MPI 4.1 and 5.0,
//! `mpi.h` of MPICH 4.0 and 5.0, `mpi_abi.h` of MPICH 5.0.
//!
//! Handles are kept as `usize`, even where a library has `int`: on the platforms haul runs on (64
//! bits, arguments in registers, little-endian) an `int` is the lower half of the register, or of
//! the variable, that holds the `usize`.

use std::ffi::{CStr, c_int};

#[cfg(not(all(target_pointer_width = "64", target_endian = "little")))]
compile_error!("handles of MPI libraries are passed as 64 bits, little-endian");

/// Properties common to all libraries of a family.
#[derive(Debug)]
pub(super) struct Abi {
    /// Name of the family, for messages.
    pub(super) name: &'static str,
    /// The communicator of all ranks.
    pub(super) world: Handle,
    /// The data type of bytes.
    pub(super) byte: Handle,
    /// The error handler that returns errors.
    pub(super) errors_return: Handle,
    /// `MPI_ANY_SOURCE`.
    pub(super) any_source: c_int,
    /// `MPI_THREAD_FUNNELED`: only one of several threads calls MPI.
    pub(super) thread_funneled: c_int,
    /// Index of the source rank in a status, in `int`s.
    pub(super) status_source: usize,
}

/// Identifier of a predefined object.
#[derive(Clone, Copy, Debug)]
pub(super) enum Handle {
    /// Address of a symbol of the library.
    Symbol(&'static CStr),
    /// A number fixed for the family.
    Number(usize),
}

/// Open MPI, whose objects are symbols.
pub(super) const OPEN_MPI: Abi = Abi {
    name: "Open MPI",
    world: Handle::Symbol(c"ompi_mpi_comm_world"),
    byte: Handle::Symbol(c"ompi_mpi_byte"),
    errors_return: Handle::Symbol(c"ompi_mpi_errors_return"),
    any_source: -1,
    thread_funneled: 1,
    status_source: 0,
};

/// MPICH and its descendants: Intel MPI, Cray MPICH, MVAPICH.
pub(super) const MPICH: Abi = Abi {
    name: "MPICH",
    world: Handle::Number(0x4400_0000),
    byte: Handle::Number(0x4c00_010d),
    errors_return: Handle::Number(0x5400_0001),
    any_source: -2,
    thread_funneled: 1,
    status_source: 2,
};

/// The ABI of MPI 5.0, chapter 20.
pub(super) const STANDARD: Abi = Abi {
    name: "the standard ABI",
    world: Handle::Number(0x101),
    byte: Handle::Number(0x247),
    errors_return: Handle::Number(0x143),
    any_source: -1,
    thread_funneled: 1024,
    status_source: 0,
};

/// Room for a status of any family: none is longer than 32 bytes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(8))]
pub(super) struct StatusBuffer(pub(super) [c_int; 16]);
