//! Kinds of problems and lines: values to match on, and their sentences.
//!
//! Each crate has an enum of its own kinds, which [`kinds!`](crate::kinds) defines. [`Kind`] holds
//! a variant of any of them, so that problems of all crates have one type. `Display` of a problem
//! fills names in the kind's sentence; a program may have sentences of its own for some kinds.
//!
//! ```
//! use haul_flow::{FlowKind, Problem};
//!
//! fn is_missing(problem: &Problem) -> bool {
//!     matches!(FlowKind::of(problem.kind), Some(FlowKind::CannotAccess | FlowKind::CannotStat))
//! }
//! let problem = Problem::new(FlowKind::CannotStat).naming("missing");
//! assert!(is_missing(&problem));
//! assert_eq!(problem.kind.to_string(), "cannot-stat");
//! assert_eq!(problem.to_string(), "cannot stat 'missing'");
//! ```

use std::fmt;
use std::hash::{Hash, Hasher};

/// A variant of some crate's enum of kinds. Convert it to the enum with the enum's `of`.
///
/// Two kinds are equal if family and name are.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    family: &'static str,
    name: &'static str,
    sentence: &'static str,
}

impl Kind {
    /// Creates the kind for a variant. Only [`kinds!`](crate::kinds) does.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(family: &'static str, name: &'static str, sentence: &'static str) -> Self {
        Self { family, name, sentence }
    }

    /// Returns the name of the enum's family, such as `copy`.
    #[must_use]
    pub fn family(self) -> &'static str {
        self.family
    }

    /// Returns the variant's name, such as `CannotStat`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Returns the variant's sentence, such as `cannot stat {}`. Its placeholders stand for the
    /// names of a problem, in order: see [`Quoting`](crate::Quoting).
    #[must_use]
    pub fn sentence(self) -> &'static str {
        self.sentence
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        (self.family, self.name) == (other.family, other.name)
    }
}

impl Eq for Kind {}

impl Hash for Kind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.family, self.name).hash(state);
    }
}

/// Prints the variant's name in lower case with hyphens: `cannot-stat`.
impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, letter) in self.name.char_indices() {
            if letter.is_ascii_uppercase() && at > 0 {
                out.write_str("-")?;
            }
            write!(out, "{}", letter.to_ascii_lowercase())?;
        }
        Ok(())
    }
}

/// Defines a crate's enum of kinds, with the name of its family, a sentence for each, and its
/// conversions to and from [`Kind`]. The sentences are in the documentation, so that a variant
/// needs no other if its sentence says it all.
#[macro_export]
macro_rules! kinds {
    (
        $family:literal
        $(#[$doc:meta])*
        $visibility:vis enum $name:ident {
            $($(#[$variant_doc:meta])* $variant:ident = $sentence:literal,)+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $visibility enum $name {
            $(
                $(#[$variant_doc])*
                #[doc = ""]
                #[doc = concat!("```text\n", $sentence, "\n```")]
                $variant,
            )+
        }

        #[allow(dead_code, reason = "an enum that is private to a crate may need less")]
        impl $name {
            /// Every kind of this enum.
            $visibility const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Every kind of this enum, as [`Kind`]($crate::Kind)s in the same order.
            $visibility const KINDS: &'static [$crate::Kind] =
                &[$($crate::Kind::new($family, stringify!($variant), $sentence)),+];

            /// Returns the variant that `kind` holds, or `None` if it is of another enum.
            #[must_use]
            $visibility fn of(kind: $crate::Kind) -> Option<Self> {
                // Most kinds are of another enum: look no further than the family then.
                let at = (kind.family() == $family)
                    .then(|| Self::KINDS.iter().position(|known| *known == kind))??;
                Self::ALL.get(at).copied()
            }
        }

        impl From<$name> for $crate::Kind {
            fn from(kind: $name) -> Self {
                $name::KINDS[kind as usize]
            }
        }

        impl PartialEq<$name> for $crate::Kind {
            fn eq(&self, kind: &$name) -> bool {
                *self == Self::from(*kind)
            }
        }
    };
}

kinds! {
    "flow"
    /// Kinds of problems of the walk and the core loop.
    pub enum FlowKind {
        /// A directory could not be listed.
        CannotAccess = "cannot access {}",
        /// An entry doesn't exist, or can't be stat'ed.
        CannotStat = "cannot stat {}",
        CannotOpen = "cannot open {} for reading",
        /// An open file could not be stat'ed.
        CannotFstat = "cannot fstat {}",
        Replaced = "skipping file {}, as it was replaced while being copied",
        /// A file that is read in ranges has shrunk.
        Shorter = "file {} became shorter while being copied",
        ErrorReading = "error reading {}",
        ErrorWriting = "error writing {}",
        /// Closing failed, so data may be lost.
        FailedToClose = "failed to close {}",
        /// A run ended with incomplete entries. It must not pass for a success.
        Unfinished = "some entries were left unfinished; this is a bug",
        CannotUseEngine = "cannot use the engine {}",
        /// A rule of the selection is invalid.
        BadPattern = "invalid pattern {}",
        /// A line of a `.gitignore` file is invalid, and has no effect.
        BadIgnoreLine = "{}: ignoring the invalid pattern {}",
        /// A `.gitignore` file can't be read, and has no effect.
        UnreadableIgnoreFile = "cannot read the patterns in {}",
        /// A `.gitignore` isn't a regular file, and has no effect.
        BadIgnoreFile = "ignoring {}: it is not a regular file",
        /// A `.gitignore` file is larger than 16 MiB, and has no effect.
        LargeIgnoreFile = "ignoring {}: it is larger than 16 MiB",
        OwnFile = "warning: leaving out {}, as haul is writing to it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    kinds! {
        "other"
        /// Has a variant with the name of one in another family.
        enum OtherKind {
            /// The same name as in `FlowKind`.
            CannotStat = "cannot examine {}",
        }
    }

    #[test]
    fn a_kind_converts_back_to_its_own_enum_only() {
        for (&own, &kind) in FlowKind::ALL.iter().zip(FlowKind::KINDS) {
            assert_eq!(Kind::from(own), kind);
            assert_eq!(FlowKind::of(kind), Some(own));
            assert_eq!(OtherKind::of(kind), None);
        }
        assert_eq!(OtherKind::of(OtherKind::CannotStat.into()), Some(OtherKind::CannotStat));
        assert_ne!(Kind::from(FlowKind::CannotStat), Kind::from(OtherKind::CannotStat));
        assert_eq!(OtherKind::ALL.len(), OtherKind::KINDS.len());
    }

    #[test]
    fn kinds_are_equal_by_family_and_name() {
        let kind = Kind::from(FlowKind::CannotStat);
        assert_eq!(kind, Kind::new("flow", "CannotStat", "in other words"));
        assert_eq!(
            (kind.sentence(), Kind::from(OtherKind::CannotStat).sentence()),
            ("cannot stat {}", "cannot examine {}")
        );
    }

    #[test]
    fn a_kind_prints_as_lower_case_words() {
        assert_eq!(Kind::from(FlowKind::CannotUseEngine).to_string(), "cannot-use-engine");
    }
}
