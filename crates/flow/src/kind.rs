//! Kinds: what a problem or a line is, as a value to match on.
//!
//! Each crate has an enum of its own kinds, which [`kinds!`](crate::kinds) defines. [`Kind`] holds
//! a variant of any of them, so that problems of all crates have one type. The sentence for a kind
//! is up to the program that prints it.
//!
//! ```
//! use haul_flow::{FlowKind, Problem};
//!
//! fn is_missing(problem: &Problem) -> bool {
//!     matches!(FlowKind::of(problem.kind), Some(FlowKind::CannotAccess | FlowKind::CannotStat))
//! }
//! assert!(is_missing(&Problem::new(FlowKind::CannotStat).naming("missing")));
//! ```

use std::fmt;

/// A variant of some crate's enum of kinds. Convert it to the enum with the enum's `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    family: &'static str,
    name: &'static str,
}

impl Kind {
    /// Creates the kind for a variant. Only [`kinds!`](crate::kinds) does.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(family: &'static str, name: &'static str) -> Self {
        Self { family, name }
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

/// Defines a crate's enum of kinds, with the name of its family, and its conversions to and from
/// [`Kind`].
#[macro_export]
macro_rules! kinds {
    (
        $family:literal
        $(#[$doc:meta])*
        $visibility:vis enum $name:ident { $($(#[$variant_doc:meta])* $variant:ident,)+ }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $visibility enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// Every kind of this enum.
            $visibility const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Every kind of this enum, as [`Kind`]($crate::Kind)s in the same order.
            $visibility const KINDS: &'static [$crate::Kind] =
                &[$($crate::Kind::new($family, stringify!($variant))),+];

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
        CannotAccess,
        /// An entry doesn't exist, or can't be stat'ed.
        CannotStat,
        /// A file could not be opened.
        CannotOpen,
        /// An open file could not be stat'ed.
        CannotFstat,
        /// Another file has taken the place of the listed one.
        Replaced,
        /// A file that is read in ranges has shrunk.
        Shorter,
        /// Reading failed.
        ErrorReading,
        /// Writing failed.
        ErrorWriting,
        /// Closing failed, so data may be lost.
        FailedToClose,
        /// A run ended with incomplete entries. It must not pass for a success.
        Unfinished,
        /// The requested engine isn't available.
        CannotUseEngine,
        /// A rule of the selection is invalid.
        BadPattern,
        /// A line of a `.gitignore` file is invalid, and has no effect.
        BadIgnoreLine,
        /// A `.gitignore` file can't be read, and has no effect.
        UnreadableIgnoreFile,
        /// A `.gitignore` isn't a regular file, and has no effect.
        BadIgnoreFile,
        /// A `.gitignore` file is larger than 16 MiB, and has no effect.
        LargeIgnoreFile,
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
            CannotStat,
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
    fn a_kind_prints_as_lower_case_words() {
        assert_eq!(Kind::from(FlowKind::CannotUseEngine).to_string(), "cannot-use-engine");
    }
}
