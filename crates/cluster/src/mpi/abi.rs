//! The three binary interfaces that MPI libraries have, as a table.
//!
//! MPI fixed its functions for C long ago, but not what the handles and constants are in memory. One family has pointers
//! to objects of its own, another has numbers, and MPI 5.0 has standardised a third way. The values are those of the headers
//! that were released: Open MPI 4.1 and 5.0 `mpi.h`, MPICH 4.0 and 5.0 `mpi.h`, MPICH 5.0 `mpi_abi.h`.
//!
//! Handles are kept as `usize`, also where a library has `int`: on the platforms haul runs on (64 bits, arguments in
//! registers, little-endian) an `int` is the lower half of the register, or of the variable, that holds the `usize`.

use std::ffi::{CStr, c_int};

#[cfg(not(all(target_pointer_width = "64", target_endian = "little")))]
compile_error!("handles of MPI libraries are passed as 64 bits, little-endian");

/// What is the same in all libraries of a family.
#[derive(Debug)]
pub(super) struct Abi {
    /// The family, for people.
    pub(super) name: &'static str,
    /// The communicator of all ranks.
    pub(super) world: Handle,
    /// The data type of messages that are bytes.
    pub(super) byte: Handle,
    /// The handler of errors that returns them.
    pub(super) errors_return: Handle,
    /// The rank that stands for all when asking for a message.
    pub(super) any_source: c_int,
    /// The level at which one thread of several calls MPI.
    pub(super) thread_funneled: c_int,
    /// Where a status has the rank that a message came from, counted in `int`s.
    pub(super) status_source: usize,
}

/// What a predefined object is called by.
#[derive(Clone, Copy, Debug)]
pub(super) enum Handle {
    /// The address of a symbol of the library.
    Symbol(&'static CStr),
    /// A number that all libraries of the family have.
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

/// MPICH and what descends from it: Intel MPI, Cray MPICH, MVAPICH.
pub(super) const MPICH: Abi = Abi {
    name: "MPICH",
    world: Handle::Number(0x4400_0000),
    byte: Handle::Number(0x4c00_010d),
    errors_return: Handle::Number(0x5400_0001),
    any_source: -2,
    thread_funneled: 1,
    status_source: 2,
};

/// The binary interface of MPI 5.0, chapter 20.
pub(super) const STANDARD: Abi = Abi {
    name: "the standard ABI",
    world: Handle::Number(0x101),
    byte: Handle::Number(0x247),
    errors_return: Handle::Number(0x143),
    any_source: -1,
    thread_funneled: 1024,
    status_source: 0,
};

/// A status of any family: none is longer than 32 bytes, so there is room to spare.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(8))]
pub(super) struct Status(pub(super) [c_int; 16]);
