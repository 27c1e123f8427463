//! A copy as a builder.

use std::path::{Path, PathBuf};

use haul_copy::{Atomic, CopyOptions, CopyRequest, Dereference, Operands, Preserve};
use haul_flow::{Alone, CancelToken, Config, Reporter};

use crate::outcome::{Collector, Error, Quiet, Summary, c_path};
use crate::share::DescriptorShare;

/// A copy to run: sources, a target, and how to copy.
///
/// Without options it is `cp SOURCE TARGET`: files only, links followed, nothing preserved but
/// the mode.
#[derive(Clone, Debug)]
#[must_use = "a copy does nothing until it is run"]
pub struct Copy {
    sources: Vec<PathBuf>,
    target: CopyTarget,
    options: CopyOptions,
    config: Config,
    cancel: CancelToken,
}

/// Where the copies go.
#[derive(Clone, Debug)]
enum CopyTarget {
    /// To this path, or into it if it is a directory.
    To(PathBuf),
    /// To this path, even if it is a directory.
    Exactly(PathBuf),
    /// Into this directory.
    Into(PathBuf),
}

impl Copy {
    /// Copies `source` to `target`, or into `target` if that is a directory, as `cp` does.
    pub fn new(source: impl AsRef<Path>, target: impl AsRef<Path>) -> Self {
        Self::with([source], CopyTarget::To(target.as_ref().into()))
    }

    /// Copies `source` to `target`: the contents of a directory go into an existing `target`
    /// (`cp -T`).
    pub fn exactly(source: impl AsRef<Path>, target: impl AsRef<Path>) -> Self {
        Self::with([source], CopyTarget::Exactly(target.as_ref().into()))
    }

    /// Copies each source into an existing directory (`cp -t`).
    pub fn into_directory<P: AsRef<Path>>(
        sources: impl IntoIterator<Item = P>,
        directory: impl AsRef<Path>,
    ) -> Self {
        Self::with(sources, CopyTarget::Into(directory.as_ref().into()))
    }

    fn with<P: AsRef<Path>>(sources: impl IntoIterator<Item = P>, target: CopyTarget) -> Self {
        Self {
            sources: sources.into_iter().map(|source| source.as_ref().into()).collect(),
            target,
            options: CopyOptions::default(),
            config: Config::default(),
            cancel: CancelToken::default(),
        }
    }

    /// Copies directories with their content, and symbolic links as links (`cp -r`). Large files
    /// get their names when they are complete ([`Atomic::LargeFiles`]).
    pub fn recursive(self) -> Self {
        let atomic =
            if self.options.atomic == Atomic::Never { Atomic::LargeFiles } else { self.options.atomic };
        let options =
            CopyOptions { recursive: true, dereference: Dereference::Never, atomic, ..self.options };
        Self { options, ..self }
    }

    /// Preserves all attributes and hard links, and reports those it can't (`cp --preserve=all`,
    /// without the SELinux context). If the target's file system has no extended attributes, that
    /// is one warning.
    pub fn preserve_all(self) -> Self {
        let options = CopyOptions {
            preserve: Preserve::all(),
            require_preserve: true,
            report_lost_xattrs: true,
            ..self.options
        };
        Self { options, ..self }
    }

    /// Changes any of the options.
    pub fn options(mut self, change: impl FnOnce(&mut CopyOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// Sets how the machine is used: workers, engine, block size. By default haul decides.
    pub fn config(self, config: Config) -> Self {
        Self { config, ..self }
    }

    /// Lets `token` cancel the copy. Once it is cancelled no more entries begin; files that are
    /// being copied are completed.
    pub fn cancel_with(self, token: &CancelToken) -> Self {
        Self { cancel: token.clone(), ..self }
    }

    /// Runs the copy and collects its problems.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn run(&self) -> Result<Summary, Error> {
        self.run_with(&Quiet)
    }

    /// Runs the copy, and calls `report` as it goes. The summary has the problems too.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn run_with(&self, report: &dyn Reporter) -> Result<Summary, Error> {
        let operands = self.operands()?;
        let Self { options, config, cancel, .. } = self;
        let share = DescriptorShare::take();
        let config = &share.limit(config);
        let collector = Collector::new(report);
        let request = CopyRequest {
            operands: &operands,
            options,
            config,
            cancel,
            digests: None,
            journal: None,
            deletion: None,
        };
        let outcome = haul_copy::run(&Alone, request, &collector);
        collector.finish(outcome)
    }

    fn operands(&self) -> Result<Operands, Error> {
        let mut names = self.sources.iter().map(|path| c_path(path)).collect::<Result<Vec<_>, _>>()?;
        let (target_directory, no_target_directory) = match &self.target {
            CopyTarget::Into(directory) => (Some(c_path(directory)?), false),
            CopyTarget::To(target) | CopyTarget::Exactly(target) => {
                names.push(c_path(target)?);
                (None, matches!(self.target, CopyTarget::Exactly(_)))
            }
        };
        Ok(Operands { names, target_directory, no_target_directory, ..Operands::default() })
    }
}
