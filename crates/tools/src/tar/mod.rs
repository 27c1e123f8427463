//! The tar tool: archives made, listed and extracted with every member in flight at once.
//!
//! `options.rs` says what can be asked for, `wording.rs` what users read. Semantics, messages and exit statuses are those of
//! GNU tar 1.34.
//!
//! Making (`create.rs`): `survey.rs` looks at everything, `plan.rs` puts it in order and gives every member its place, `fill.rs`
//! reads the content and writes it there, `output.rs`.

mod compress;
mod create;
mod entry;
mod exclude;
mod extract;
mod fill;
pub mod format;
mod list;
mod look;
mod naming;
mod options;
mod order;
mod output;
mod plan;
mod read;
mod segment;
mod stow;
mod survey;
mod tail;
mod telling;
pub mod wording;
mod xattrs;

pub use create::create;
pub use exclude::Excludes;
pub use extract::{Extractor, extract};
pub use fill::Fill;
pub use list::list;
pub use options::{
    Archive, Attributes, Compression, Confinement, Exclude, Existing, Format, Links, MemberOrder, ModeChange,
    Named, Operation, Options, Ownership, Represented,
};
