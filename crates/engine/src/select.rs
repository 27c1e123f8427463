//! Selects an engine by name, and falls back if the kernel refuses it.
//!
//! There is a single list, [`engines!`](crate::engines). The choices, their names for `--engine`,
//! the help text and the contract tests are all generated from it. To add an engine, write its
//! module, add a line, and create it in [`EngineChoice::create`].
//!
//! Promise: every choice yields an engine. If the kernel refuses it, `sync` replaces it and a note
//! explains why. No fallback is silent.

use std::fmt;
use std::str::FromStr;

use haul_sys::{Gather, Result};

use crate::{Engine, KernelAio, PosixAio, Retry, Sync, Uring};

/// Passes the list of engines to another macro, one line each: the identifier of its tests,
/// its type, and its description in `--help`. The type has a `NAME` and is also a variant
/// of [`EngineChoice`].
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
        /// Selects an engine.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum EngineChoice {
            /// The fastest in measurements.
            #[default]
            Auto,
            $(#[doc = $about] $engine),+
        }

        /// All engines, as the user can select them.
        pub const ENGINES: &[EngineEntry] = &[
            $(EngineEntry {
                name: $engine::NAME,
                about: $about,
                choice: EngineChoice::$engine,
            }),+
        ];
    };
}

engines!(choices);

/// An entry in [`ENGINES`].
#[derive(Clone, Copy, Debug)]
pub struct EngineEntry {
    /// Name, as accepted by `--engine`.
    pub name: &'static str,
    /// Description for the help text.
    pub about: &'static str,
    /// The corresponding choice.
    pub choice: EngineChoice,
}

/// Mode of submission, for engines that can have several operations in flight: how many of them
/// per file, and in which calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Ops {
    /// One pair of a read and a write per file, several files.
    Single,
    /// Several pairs per file, several files.
    Multi,
    /// Like `Multi`, but operations are submitted together and waited for together.
    Batch,
}

/// Options for creating an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineSetup {
    /// Number of operations the worker wants in flight, if the engine can have several.
    pub queue_depth: usize,
    /// Mode of submission; `None` selects the engine's fastest mode in measurements.
    pub ops: Option<Ops>,
    /// True to register files with the kernel once, instead of passing them with each operation.
    pub direct_descriptors: bool,
}

impl EngineSetup {
    /// Creates the default setup for `queue_depth` operations in flight.
    #[must_use]
    pub fn of_depth(queue_depth: usize) -> Self {
        Self { queue_depth, ops: None, direct_descriptors: false }
    }
}

impl EngineChoice {
    /// Name of the automatic choice.
    pub const AUTO: &'static str = "auto";

    /// Returns the names of all choices, `auto` first.
    pub fn names() -> impl Iterator<Item = &'static str> {
        std::iter::once(Self::AUTO).chain(ENGINES.iter().map(|listed| listed.name))
    }

    /// Creates the engine.
    ///
    /// # Errors
    /// If the kernel refuses a feature that the engine needs.
    pub fn create(self, setup: &EngineSetup) -> Result<Box<dyn Engine>> {
        Ok(match self {
            // Each worker begins with blocking calls and changes to a ring once small files aren't
            // cached (docs/measurements/choices.md, "Blocking calls with look-ahead, or a ring").
            Self::Auto | Self::Sync => Box::new(Sync::new()),
            Self::Uring => Box::new(Uring::with_setup(setup)?),
            Self::PosixAio => Box::new(PosixAio::new(setup)?),
            Self::KernelAio => {
                let gather = match setup.ops {
                    Some(Ops::Batch) => Gather::Wanted,
                    Some(Ops::Single | Ops::Multi) | None => Gather::One,
                };
                Box::new(KernelAio::new(setup.queue_depth, gather)?)
            }
            Self::Retry => Box::new(Retry::new(setup.queue_depth)),
        })
    }
}

/// Error for an unknown engine name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownEngine(String);

impl fmt::Display for UnknownEngine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "unknown engine '{}'; there are", self.0)?;
        EngineChoice::names().try_for_each(|name| write!(out, " {name}"))
    }
}

impl std::error::Error for UnknownEngine {}

impl FromStr for EngineChoice {
    type Err = UnknownEngine;

    fn from_str(name: &str) -> std::result::Result<Self, UnknownEngine> {
        if name == Self::AUTO {
            return Ok(Self::Auto);
        }
        let listed = ENGINES.iter().find(|listed| listed.name == name);
        listed.map(|listed| listed.choice).ok_or_else(|| UnknownEngine(name.to_owned()))
    }
}

/// A created engine, and a note if it is a fallback.
pub struct NewEngine {
    /// The engine.
    pub engine: Box<dyn Engine>,
    /// Why it differs from the chosen engine, for `--debug`; `None` if it doesn't.
    pub note: Option<String>,
}

/// Creates the chosen engine, or `sync` if the kernel refuses it.
///
/// Each worker creates its own, on its own thread.
#[must_use]
pub fn make(choice: EngineChoice, setup: &EngineSetup) -> NewEngine {
    match choice.create(setup) {
        Ok(engine) => NewEngine { engine, note: None },
        Err(error) => {
            let name = ENGINES.iter().find(|listed| listed.choice == choice).map_or("", |listed| listed.name);
            NewEngine {
                engine: Box::new(Sync::new()),
                note: Some(format!("engine {name} refused, using {}: {error:#}", Sync::NAME)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_name_is_a_choice_and_no_other_is() {
        for name in EngineChoice::names().skip(1) {
            let choice: EngineChoice = name.parse().unwrap();
            assert!(ENGINES.iter().any(|listed| (listed.name, listed.choice) == (name, choice)), "{name}");
        }
        assert_eq!("auto".parse(), Ok(EngineChoice::Auto));
        let unknown = "aio".parse::<EngineChoice>().unwrap_err();
        let names = "auto sync io-uring posix-aio kernel-aio retry";
        assert_eq!(unknown.to_string(), format!("unknown engine 'aio'; there are {names}"));
    }

    #[test]
    fn sync_is_made_without_a_note() {
        let made = make(EngineChoice::Sync, &EngineSetup::of_depth(64));
        assert_eq!((made.engine.caps().name, made.note), ("sync", None));
    }
}
