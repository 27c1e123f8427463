//! Hashes of trees as values.

use std::path::{Path, PathBuf};

use haul_flow::{Alone, CancelToken, Config, Reporter};
use haul_sum::{Algorithm, FileHash, Options, SumOperand, SumOutcome};

use crate::outcome::{Collector, Error, Quiet, Summary, c_path};
use crate::share::DescriptorShare;

/// Returns the BLAKE3 hash of each regular file at or below `path`, sorted by path.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # std::fs::write(folder.path().join("file"), "")?;
/// let files = haul::hash_tree(folder.path())?;
/// assert_eq!(files[0].path, folder.path().join("file"));
/// assert!(files[0].digest.to_string().starts_with("af1349b9"));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// See [`Error`]. Also if a single file can't be read.
pub fn hash_tree(path: impl AsRef<Path>) -> Result<Vec<FileHash>, Error> {
    Sum::new([path]).run().map(|hashes| hashes.files)
}

/// Hashes to compute, of files and trees (`haul sum`).
///
/// Directories are entered recursively. Below them only regular files are hashed, and symbolic
/// links are not followed.
#[derive(Clone, Debug)]
#[must_use = "nothing is hashed until it is run"]
pub struct Sum {
    paths: Vec<PathBuf>,
    options: Options,
    config: Config,
    cancel: CancelToken,
}

/// The hashes of a run, and its counts.
#[derive(Clone, Debug)]
pub struct Hashes {
    /// The files in the order of the paths that were given, and below each sorted by path.
    pub files: Vec<FileHash>,
    /// Counts, and warnings.
    pub summary: Summary,
}

impl Sum {
    /// Hashes files and all files below directories.
    pub fn new<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Self {
        Self {
            paths: paths.into_iter().map(|path| path.as_ref().into()).collect(),
            options: Options::default(),
            config: Config::default(),
            cancel: CancelToken::default(),
        }
    }

    /// Sets the algorithm. BLAKE3 is the default, and the only one that several workers compute for
    /// one file.
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.options.algorithm = algorithm;
        self
    }

    /// Follows symbolic links below directories.
    pub fn follow_links(mut self) -> Self {
        self.options.dereference = true;
        self
    }

    /// Sets the use of the machine, and the selection. By default haul decides, and nothing is left
    /// out.
    pub fn config(self, config: Config) -> Self {
        Self { config, ..self }
    }

    /// Lets `token` cancel the run. Once it is cancelled no more files are begun.
    pub fn cancel_with(self, token: &CancelToken) -> Self {
        Self { cancel: token.clone(), ..self }
    }

    /// Computes the hashes.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn run(&self) -> Result<Hashes, Error> {
        self.run_with(&Quiet)
    }

    /// Computes the hashes, and calls `report` as it goes.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn run_with(&self, report: &dyn Reporter) -> Result<Hashes, Error> {
        let Self { options, config, cancel, .. } = self;
        let named = self.paths.iter().map(|path| c_path(path).map(SumOperand::Path));
        let named = named.collect::<Result<Vec<_>, _>>()?;
        let share = DescriptorShare::take();
        let config = &share.limit(config);
        let collector = Collector::new(report);
        let (outcome, files) = haul_sum::hashes_by(&Alone, &named, options, cancel, config, &collector)
            .map_err(Error::NotStarted)?;
        let summary = collector.into_summary();
        match outcome {
            _ if cancel.is_cancelled() => Err(Error::Cancelled(Box::new(summary))),
            SumOutcome::Success => Ok(Hashes { files, summary }),
            SumOutcome::Failure => Err(Error::Incomplete(Box::new(summary))),
        }
    }
}
