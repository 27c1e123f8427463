//! haul as a library: copies file trees on all of the machine's processors, and reports progress.
//!
//! This crate only gathers what a library user needs. [`tools`] has the operations on trees.
//! [`flow`] is the framework beneath them, with the [`Report`](flow::Report) through which a run
//! informs its caller. The program `haul` is one user of it.
//!
//! Copying a tree takes a few lines. This report prints how far the copy is:
//!
//! ```
//! use haul::flow::{Config, Line, Problem, Report, Standard, Tally};
//! use haul::tools::copy::{CopyOptions, Dereference, Operands, Outcome, run};
//!
//! struct Watch;
//!
//! impl Report for Watch {
//!     fn count(&self, more: Tally) {
//!         println!("{} more files, {} more bytes", more.files, more.bytes);
//!     }
//!     fn problem(&self, problem: Problem) {
//!         eprintln!("{problem:?}");
//!     }
//!     fn line(&self, _: Line) {}
//!     fn output(&self, _: Standard, _: &[u8]) {}
//!     fn debug(&self, _: &str) {}
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # std::fs::create_dir_all(folder.path().join("source/below"))?;
//! # std::fs::write(folder.path().join("source/below/file"), "content")?;
//! # std::env::set_current_dir(&folder)?;
//! let operands = Operands { names: vec![c"source".into(), c"target".into()], ..Operands::default() };
//! let options = CopyOptions { recursive: true, dereference: Dereference::Never, ..CopyOptions::default() };
//! let outcome = run(&operands, &options, &Config::default(), &Watch);
//! assert!(matches!(outcome, Outcome::Success));
//! # assert_eq!(std::fs::read("target/below/file")?, b"content");
//! # Ok(())
//! # }
//! ```

pub use haul_flow as flow;

/// What can be done with trees: one module per tool.
pub mod tools {
    pub use haul_bzip2 as bzip2;
    pub use haul_compare as compare;
    pub use haul_copy as copy;
    pub use haul_each as each;
    pub use haul_grep as grep;
    pub use haul_tar as tar;
}
