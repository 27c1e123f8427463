//! Options of `cp` that exclude or require one another.

use haul_copy::{Atomic, Reflink, Sparse, Update};
use haul_digest::Algorithm;
use haul_engine::Ops;

use super::FlagError;
use super::cluster::Interactive;
use super::lower::Typed;
use super::values;

/// Smallest sector size, in bytes: direct I/O uses multiples of it.
const SECTOR_BYTES: usize = 512;

impl Typed {
    /// Checks that the options don't contradict each other. `update` is the rule for existing
    /// targets.
    ///
    /// # Errors
    /// The first contradiction, in GNU's order.
    pub(super) fn check_conflicts(&self, update: Update) -> Result<(), FlagError> {
        if self.hard_link && self.symbolic_link {
            return Err(FlagError::HardAndSymbolicLinks);
        }
        if self.backs_up() && matches!(update, Update::None | Update::NoneFail) {
            return Err(FlagError::BackupOfNothing);
        }
        if self.reflink == Reflink::Always && self.sparse != Sparse::Auto {
            return Err(FlagError::ReflinkWithSparse);
        }
        if let Some(other) = self.dry_run.then(|| self.not_dry()).flatten() {
            return Err(FlagError::Exclusive { flag: "--dry-run", other });
        }
        if self.interactive == Interactive::Ask && self.shared.run.reads_input {
            // It was read to its end, so every question would be answered with no.
            return Err(FlagError::Sentence(
                "--interactive needs standard input, from which a list is read".to_owned(),
            ));
        }
        self.check_manifest()?;
        // The files that are linked aren't read.
        if !self.link_dest.is_empty() && self.manifest.is_some() {
            return Err(FlagError::Exclusive { flag: "--link-dest", other: "--manifest" });
        }
        if let Some((flag, other)) = self.not_journaled(update) {
            return Err(FlagError::Exclusive { flag, other });
        }
        Ok(())
    }

    /// Returns a given option that needs a real copy.
    fn not_dry(&self) -> Option<&'static str> {
        let real = [("--resume", self.resume), ("--journal", self.shared.run.hosts.journal.is_some())];
        real.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }

    /// Checks the options of a manifest against each other.
    fn check_manifest(&self) -> Result<(), FlagError> {
        let options =
            [("--manifest-format", self.manifest_format.is_some()), ("--hash", self.hash.is_some())];
        if let (None, Some((flag, _))) = (&self.manifest, options.iter().find(|(_, given)| *given)) {
            return Err(FlagError::Requires { flag, other: "--manifest" });
        }
        let algorithm = self.hash.unwrap_or_default();
        if self.manifest.is_some() {
            values::check_manifest(self.manifest_format.unwrap_or_default(), algorithm)?;
        }
        // Several blocks of a file in flight arrive in any order.
        match self.shared.run.config.ops {
            Some(Ops::Multi | Ops::Batch) if algorithm != Algorithm::Blake3 => {
                let name = algorithm.name();
                Err(FlagError::Sentence(format!(
                    "--hash={name} needs a file's blocks in order: use --ops=single"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Returns the algorithm of the manifest, if one is wanted.
    pub(super) fn listed_hash(&self) -> Option<Algorithm> {
        self.manifest.as_ref().map(|_| self.hash.unwrap_or_default())
    }

    /// Returns the option that asks for a journal, and a given one that rules it out.
    fn not_journaled(&self, update: Update) -> Option<(&'static str, &'static str)> {
        let journal = self.shared.run.hosts.journal.is_some();
        let flag = if self.resume { "--resume" } else { "--journal" };
        let useless = [
            ("--journal", self.resume && journal),
            // The hashes of skipped files would be missing.
            ("--manifest", self.manifest.is_some()),
            // A part of a file under its own name would be left alone.
            ("--no-atomic", self.atomic == Some(Atomic::Never) && update != Update::All),
        ];
        let given = useless.into_iter().find(|(_, given)| *given && (self.resume || journal));
        given.map(|(other, _)| (flag, other))
    }

    /// Checks that blocks for direct I/O are whole sectors.
    pub(super) fn check_sectors(&self) -> Result<(), FlagError> {
        match self.shared.run.config.block_bytes {
            Some(bytes) if self.shared.run.config.switches.direct && !bytes.is_multiple_of(SECTOR_BYTES) => {
                Err(FlagError::Number {
                    value: bytes.to_string().into_bytes(),
                    flag: "--block-size",
                    wanted: format!("a multiple of {SECTOR_BYTES} with --direct"),
                })
            }
            _ => Ok(()),
        }
    }
}
