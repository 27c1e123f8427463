//! Choosing an engine by name, and what to do when the kernel refuses it.
//!
//! There is one list, in [`engines!`](crate::engines): the choices, their names for `--engine`, the help text and the
//! contract tests are all made from it. To add an engine, write its module and add its line.
//!
//! Promise: a choice always yields an engine. One that the kernel refuses is replaced by `sync`, and the note says so;
//! nothing falls back in silence.

use std::fmt;
use std::str::FromStr;

use haul_sys::{Gather, Result};

use crate::{Engine, KernelAio, PosixAio, Retry, Sync, Uring};

/// Passes the list of engines to another macro, a line each: the identifier of its tests, the type, and what `--help`
/// says of it. The type has a `NAME`, and is also a variant of [`Choice`].
#[macro_export]
macro_rules! engines {
    ($then:ident) => {
        $then! {
            sync Sync "blocking calls, with other files opened and advised ahead";
            io_uring Uring "reads in flight in an io_uring; where the kernel refuses one, sync";
            posix_aio PosixAio "reads and writes in flight in the C library's threads";
            kernel_aio KernelAio "the kernel's AIO, which is asynchronous past the page cache; where refused, sync";
            retry Retry "reads that do not wait, tried again when the kernel has fetched the data";
        }
    };
}

macro_rules! choices {
    ($($module:ident $engine:ident $about:literal;)+) => {
        /// Which engine to use.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum Choice {
            /// The one that measurements found best.
            #[default]
            Auto,
            $(#[doc = $about] $engine),+
        }

        /// Every engine that can be asked for.
        pub const ENGINES: &[Listed] = &[
            $(Listed {
                name: $engine::NAME,
                about: $about,
                choice: Choice::$engine,
                make: <$engine as Make>::make,
            }),+
        ];
    };
}

engines!(choices);

/// An engine in the list.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// Its name, as `--engine` takes it.
    pub name: &'static str,
    /// What it is, for the help text.
    pub about: &'static str,
    /// The choice that stands for it.
    pub choice: Choice,
    make: fn(&Setup) -> Result<Box<dyn Engine>>,
}

impl Listed {
    /// Makes the engine.
    ///
    /// # Errors
    /// When the kernel refuses what the engine is built on.
    pub fn make(&self, setup: &Setup) -> Result<Box<dyn Engine>> {
        (self.make)(setup)
    }
}

/// How many operations are in flight for one file, and how they reach the kernel: the three ways of the engines that
/// have several in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Ops {
    /// One pair of a read and a write for each file, several files.
    Single,
    /// Several pairs for each file, several files.
    Multi,
    /// As `Multi`, but gathered: passed to the kernel together, and waited for together.
    Batch,
}

/// How an engine is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// How many operations the worker means to keep in flight, as far as the engine can have several.
    pub queue_depth: usize,
    /// How it uses them; `None` for what measurements found best for the engine.
    pub ops: Option<Ops>,
    /// Whether files should be made known to the kernel once, rather than with each operation.
    pub direct_descriptors: bool,
}

impl Setup {
    /// Makes the plain setup for so many operations in flight.
    #[must_use]
    pub fn of_depth(queue_depth: usize) -> Self {
        Self { queue_depth, ops: None, direct_descriptors: false }
    }
}

/// An engine that the list can make.
trait Make {
    fn make(setup: &Setup) -> Result<Box<dyn Engine>>;
}

impl Make for Sync {
    fn make(_setup: &Setup) -> Result<Box<dyn Engine>> {
        Ok(Box::new(Sync::new()))
    }
}

impl Make for Uring {
    fn make(setup: &Setup) -> Result<Box<dyn Engine>> {
        Ok(Box::new(Uring::with_setup(setup)?))
    }
}

impl Make for PosixAio {
    fn make(setup: &Setup) -> Result<Box<dyn Engine>> {
        Ok(Box::new(PosixAio::new(setup)?))
    }
}

impl Make for KernelAio {
    fn make(setup: &Setup) -> Result<Box<dyn Engine>> {
        let gather = match setup.ops {
            Some(Ops::Batch) => Gather::Wanted,
            Some(Ops::Single | Ops::Multi) | None => Gather::One,
        };
        Ok(Box::new(KernelAio::new(setup.queue_depth, gather)?))
    }
}

impl Make for Retry {
    fn make(setup: &Setup) -> Result<Box<dyn Engine>> {
        Ok(Box::new(Retry::new(setup.queue_depth)))
    }
}

impl Choice {
    /// The name for leaving the choice to haul.
    pub const AUTO: &'static str = "auto";

    /// Names every choice, `auto` first.
    pub fn names() -> impl Iterator<Item = &'static str> {
        std::iter::once(Self::AUTO).chain(ENGINES.iter().map(|listed| listed.name))
    }

    /// Returns the engine in the list that this choice means.
    fn listed(self) -> Option<&'static Listed> {
        let wanted = match self {
            Self::Auto => Self::Sync,
            choice => choice,
        };
        ENGINES.iter().find(|listed| listed.choice == wanted)
    }
}

/// A name that is not an engine's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownEngine(String);

impl fmt::Display for UnknownEngine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "unknown engine '{}'; there are", self.0)?;
        Choice::names().try_for_each(|name| write!(out, " {name}"))
    }
}

impl std::error::Error for UnknownEngine {}

impl FromStr for Choice {
    type Err = UnknownEngine;

    fn from_str(name: &str) -> std::result::Result<Self, UnknownEngine> {
        if name == Self::AUTO {
            return Ok(Self::Auto);
        }
        let listed = ENGINES.iter().find(|listed| listed.name == name);
        listed.map(|listed| listed.choice).ok_or_else(|| UnknownEngine(name.to_owned()))
    }
}

/// An engine, and what there is to say about how it was chosen.
pub struct Made {
    /// The engine.
    pub engine: Box<dyn Engine>,
    /// Why it is not the one that was asked for, for `--debug`; `None` if it is.
    pub note: Option<String>,
}

/// Makes the chosen engine, or `sync` where the kernel refuses it.
///
/// Every worker makes its own, on its own thread.
#[must_use]
pub fn make(choice: Choice, setup: &Setup) -> Made {
    match choice.listed().map(|listed| (listed.name, listed.make(setup))) {
        Some((_, Ok(engine))) => Made { engine, note: None },
        Some((name, Err(error))) => Made {
            engine: Box::new(Sync::new()),
            note: Some(format!("engine {name} refused, using {}: {error:#}", Sync::NAME)),
        },
        None => Made { engine: Box::new(Sync::new()), note: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_name_is_a_choice_and_no_other_is() {
        for name in Choice::names().skip(1) {
            let choice: Choice = name.parse().unwrap();
            assert_eq!(choice.listed().unwrap().name, name);
        }
        assert_eq!("auto".parse(), Ok(Choice::Auto));
        let unknown = "aio".parse::<Choice>().unwrap_err();
        let names = "auto sync io-uring posix-aio kernel-aio retry";
        assert_eq!(unknown.to_string(), format!("unknown engine 'aio'; there are {names}"));
    }

    #[test]
    fn sync_is_made_without_a_note() {
        let made = make(Choice::Sync, &Setup::of_depth(64));
        assert_eq!((made.engine.caps().name, made.note), ("sync", None));
    }
}
