//! haul as a library: copies file trees on all of the machine's processors.
//!
//! A [`Copy`](struct@Copy) is built from paths and options, run, and gives a [`Summary`] or an
//! [`Error`]:
//!
//! ```
//! use haul::{Copy, Error};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let (source, target) = (folder.path().join("source"), folder.path().join("target"));
//! # std::fs::create_dir_all(source.join("below"))?;
//! # std::fs::write(source.join("below/file"), "content")?;
//! let summary = Copy::new(&source, &target).recursive().preserve_all().run()?;
//! assert_eq!((summary.tally.files, summary.tally.bytes), (1, 7));
//!
//! match Copy::new("/no/such/file", &target).run() {
//!     Err(Error::Incomplete(summary)) => {
//!         let problem = &summary.problems[0];
//!         assert_eq!(problem.kind.to_string(), "cannot-stat");
//!         assert_eq!(problem.to_string(), "cannot stat '/no/such/file': No such file or directory");
//!     }
//!     other => panic!("{other:?}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Copy::run_with`] calls a [`Reporter`] for every problem and with the counts as they grow, and
//! [`Copy::cancel_with`] takes a [`CancelToken`]. [`CopyOptions`] has everything that `cp` can do,
//! and a [`Selection`] leaves entries out:
//!
//! ```no_run
//! # fn main() -> Result<(), haul::Error> {
//! let selection = haul::Selection { rules: vec!["*.o".into(), "/build".into()], ..Default::default() };
//! let config = haul::Config { selection, ..Default::default() };
//! haul::Copy::new("project", "backup").recursive().config(config).run()?;
//! # Ok(())
//! # }
//! ```
//!
//! A [`Sync`](struct@Sync) makes a directory equal to another, with the rules of `haul sync`:
//!
//! ```
//! use haul::{SyncKind, Sync};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let (source, target) = (folder.path().join("source"), folder.path().join("target"));
//! # std::fs::create_dir_all(&source)?;
//! # std::fs::create_dir_all(&target)?;
//! # std::fs::write(source.join("file"), "content")?;
//! # std::fs::write(target.join("old"), "")?;
//! let summary = Sync::new(&source, &target).delete().run()?;
//! assert_eq!((summary.tally.files, summary.tally.deleted), (1, 1));
//!
//! match Sync::new(&source, source.join("below")).run() {
//!     Err(haul::Error::NotStarted(problem)) => assert_eq!(problem.kind, SyncKind::Nested),
//!     other => panic!("{other:?}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! With the feature `sum`, [`hash_tree`] returns the hashes of all files of a tree, and [`Sum`]
//! has more to choose.
//!
//! The library prints nothing, asks nothing and doesn't change its process: no limit, no umask, no
//! signal handler. One exception is [`Label::Given`], which sets the SELinux context for new files
//! of the calling thread. A run uses at most half of the descriptors that the limit leaves, and
//! runs at the same time share them ([`Config::descriptors`]); raise the limit for the fastest walk
//! of a wide tree.
//!
//! The default features have the copy alone. The other tools are features, with a module each:
//! `bzip2`, `compare`, `each`, `grep`, `sum`, `tar`. A tool of your own needs [`flow`] only.

mod copy;
mod outcome;
mod share;
#[cfg(feature = "sum")]
mod sum_tree;
mod sync;

pub use haul_copy as options;
pub use haul_copy::{CopyKind, CopyOptions, Label};
pub use haul_delete::DeleteKind;
pub use haul_flow as flow;
pub use haul_flow::{
    CancelToken, Config, FlowKind, Kind, LimitValues, Limits, Problem, Reporter, Selection, Tally,
};

pub use haul_sync::{DeletionOptions, Limit, SyncKind};

pub use copy::Copy;
pub use outcome::{Error, Summary};
pub use sync::Sync;

#[cfg(feature = "bzip2")]
pub use haul_bzip2 as bzip2;
#[cfg(feature = "compare")]
pub use haul_compare as compare;
#[cfg(feature = "each")]
pub use haul_each as each;
#[cfg(feature = "grep")]
pub use haul_grep as grep;
#[cfg(feature = "sum")]
pub use haul_sum as sum;
#[cfg(feature = "sum")]
pub use haul_sum::{Algorithm, Digest, FileHash};
#[cfg(feature = "tar")]
pub use haul_tar as tar;
#[cfg(feature = "sum")]
pub use sum_tree::{Hashes, Sum, hash_tree};
