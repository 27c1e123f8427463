//! A sync as a builder.

use std::path::{Path, PathBuf};

use haul_copy::{CopyOptions, CopyRequest, Operands, Update, UpdateRule};
use haul_flow::{Alone, CancelToken, Config, Reporter};
use haul_sync::{DeletionOptions, Options};

use crate::outcome::{Collector, Error, Quiet, Summary, c_path};
use crate::share::DescriptorShare;

/// A sync to run: makes a target directory equal to a source directory (`haul sync`).
///
/// Entries that are missing or differ are copied with all attributes; identical ones are left
/// alone. Entries that only the target has stay, unless [`Sync::delete`] is called.
///
/// The rules of the command hold here too, and a sync that breaks one is [`Error::NotStarted`] with
/// a [`SyncKind`](crate::SyncKind): neither directory is inside the other, and nothing is deleted
/// from the home directory or from the root of a mounted file system. Nothing is deleted after an
/// error, if the source is empty, or if it would be more than [`DeletionOptions::limit`]; these are
/// [`Error::Incomplete`] with a [`DeleteKind`](crate::DeleteKind).
#[derive(Clone, Debug)]
#[must_use = "a sync does nothing until it is run"]
pub struct Sync {
    source: PathBuf,
    target: PathBuf,
    copy: CopyOptions,
    options: Options,
    config: Config,
    cancel: CancelToken,
}

impl Sync {
    /// Makes `target` equal to `source`. A missing target is created.
    pub fn new(source: impl AsRef<Path>, target: impl AsRef<Path>) -> Self {
        Self {
            source: source.as_ref().into(),
            target: target.as_ref().into(),
            copy: haul_sync::copy_options(),
            options: Options::default(),
            config: Config::default(),
            cancel: CancelToken::default(),
        }
    }

    /// Deletes entries that only the target has, once everything else has succeeded. Entries that
    /// the selection leaves out stay, and by default at most half of a target with more than 1,000
    /// entries is deleted.
    pub fn delete(self) -> Self {
        self.delete_with(DeletionOptions::default())
    }

    /// Like [`Sync::delete`], with other limits.
    pub fn delete_with(mut self, deletion: DeletionOptions) -> Self {
        self.options.deletion = Some(deletion);
        self
    }

    /// Keeps files that are replaced or deleted in a directory outside of the target, under the
    /// paths that they had there. A relative path is relative to the target.
    pub fn backup_dir(mut self, directory: impl AsRef<Path>) -> Self {
        self.options.backup_dir = Some(directory.as_ref().into());
        self
    }

    /// Hard-links files to those in an earlier copy if they are the same, instead of copying them.
    /// May be called several times. A relative path is relative to the target.
    pub fn link_dest(mut self, earlier: impl AsRef<Path>) -> Self {
        self.options.link_dest.push(earlier.as_ref().into());
        self
    }

    /// Changes which files are taken to differ.
    pub fn difference(mut self, change: impl FnOnce(&mut UpdateRule)) -> Self {
        if let Update::Different(difference) = &mut self.copy.existing.update {
            change(difference);
        }
        self
    }

    /// Finds files that have changed by comparing contents, not by size and modification time.
    pub fn by_content(self) -> Self {
        self.difference(|difference| difference.by_content = true)
    }

    /// Changes nothing, and reports and counts the steps that a run would take.
    pub fn dry_run(self) -> Self {
        self.options(|copy| (copy.dry_run, copy.verbose) = (true, true))
    }

    /// Changes how files are copied. What doesn't make the target equal is refused by the run.
    pub fn options(mut self, change: impl FnOnce(&mut CopyOptions)) -> Self {
        change(&mut self.copy);
        self
    }

    /// Sets the use of the machine, and the selection. By default haul decides, and nothing is left
    /// out.
    pub fn config(self, config: Config) -> Self {
        Self { config, ..self }
    }

    /// Lets `token` cancel the sync. Once it is cancelled nothing more is begun; files that are
    /// being copied are completed.
    pub fn cancel_with(self, token: &CancelToken) -> Self {
        Self { cancel: token.clone(), ..self }
    }

    /// Runs the sync and collects its problems.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn run(&self) -> Result<Summary, Error> {
        self.run_with(&Quiet)
    }

    /// Runs the sync, and calls `report` as it goes. The summary has the problems too.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn run_with(&self, report: &dyn Reporter) -> Result<Summary, Error> {
        let Self { options, config, cancel, .. } = self;
        let mut copy = self.copy.clone();
        let names = vec![c_path(&self.source)?, c_path(&self.target)?];
        let mut operands = Operands { names, ..Operands::default() };
        let share = DescriptorShare::take();
        let config = &share.limit(config);
        let collector = Collector::new(report);
        let mut warn = |warning| collector.problem(warning);
        let deletion = haul_sync::prepare(&mut operands, &mut copy, options, &config.selection, &mut warn)
            .map_err(Error::NotStarted)?;
        let request = CopyRequest {
            operands: &operands,
            options: &copy,
            config,
            cancel,
            digests: None,
            journal: None,
            deletion: None,
        };
        let has_failed = || collector.has_failed();
        let outcome = haul_sync::run(&Alone, request, deletion.as_ref(), &has_failed, &collector);
        collector.finish(outcome)
    }
}
