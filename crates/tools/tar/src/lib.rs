//! The tar applet: creates, lists and extracts archives, with all workers on the members at once.
//!
//! Semantics, messages and exit statuses are those of GNU tar 1.34. `options.rs` has the options,
//! `kind.rs` the kinds of problems.
//!
//! - Create (`create.rs`): see below.
//! - List (`list.rs`) and extract (`extract/`): both read through `read/`.
//!
//! # Two writers
//!
//! ```text
//! append writer       walk ─► examine, read, append ─────────────────────────────────► trailer
//! positioned writer   walk ─► examine ─► layout: order, offsets ─► read, write spans ─► trailer
//! ```
//!
//! The append writer (`append_writer.rs`, `allocator.rs`, `order.rs`) opens and examines each file
//! once, and appends it as it is found. That took 0.33 to 0.41 s for 50,000 small files in the page
//! cache, two passes 0.44 to 0.51 s (docs/measurements/tools.md). It needs a plain file as archive,
//! and it knows a member's offset only when its turn in the walk comes.
//!
//! The positioned writer (`survey.rs`, `layout.rs`, `positioned_writer/`) examines everything
//! first, so it knows every offset before it reads any content. That is what these need:
//!
//! - ranks: each writes its spans at their offsets, without asking any other;
//! - pipes and compression: spans of known size are made in parallel and written in order;
//! - `--sort`: a directory's members are in order only once all of them are known;
//! - `--index`: it lists the members with their offsets;
//! - `-S`: the hole map precedes the content, which is then not read from start to end;
//! - `-h` and overlapping operands: the same file is found on several paths, and its first name in
//!   the archive has to be known before the others become hard links to it.
//!
//! Both share the rest but hard links: `examiner.rs` looks attributes up, `entry.rs` and
//! `format/` make headers, `verbose.rs` prints members, `output.rs` writes.

mod acl;
mod allocator;
mod append_writer;
mod compress;
mod create;
mod entry;
mod examiner;
mod exclude;
mod extract;
pub mod format;
mod kind;
mod layout;
mod list;
mod options;
mod order;
mod output;
mod positioned_writer;
mod prefix;
mod read;
mod segment;
mod survey;
mod verbose;
mod xattrs;

pub use create::create;
pub use exclude::Excludes;
pub use extract::{Extractor, extract};
pub use kind::TarKind;
pub use list::list;
pub use options::{
    ArchivePath, Attributes, Compression, Confinement, Exclude, Existing, Format, Links, MemberOrder,
    ModeChange, ModeOperator, ModePermissions, Operation, Options, Ownership, Represented, TarOperand,
};
pub use positioned_writer::PositionedWriter;
