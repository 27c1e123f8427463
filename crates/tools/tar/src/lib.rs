//! The tar applet: creates, lists and extracts archives, with all workers on the members at once.
//!
//! Semantics, messages and exit statuses are those of GNU tar 1.34. `options.rs` has the options,
//! `kind.rs` the kinds of problems.
//!
//! - Create (`create.rs`): in one pass where the output and the options allow it (`stow.rs`,
//!   `tail.rs`, `order.rs`). Otherwise in two: `survey.rs` examines everything, `plan.rs` orders
//!   the members and assigns offsets, `fill/` reads the content and writes it through `output.rs`.
//! - List (`list.rs`) and extract (`extract/`): both read through `read/`.

mod compress;
mod create;
mod entry;
mod exclude;
mod extract;
mod fill;
pub mod format;
mod kind;
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
mod xattrs;

pub use create::create;
pub use exclude::Excludes;
pub use extract::{Extractor, extract};
pub use fill::Fill;
pub use kind::TarKind;
pub use list::list;
pub use options::{
    Archive, Attributes, Compression, Confinement, Exclude, Existing, Format, Links, MemberOrder, ModeChange,
    Named, Operation, Options, Ownership, Represented,
};
