//! Files that the options ask for: `--json`, `--csv`, `--html`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::{Error, Result};

/// A file to write results to, or none if the option was not given.
#[derive(Default)]
pub(crate) struct OutFile(Option<(File, PathBuf)>);

impl OutFile {
    /// Creates the file. Call it before measuring: an unwritable path should not cost an hour.
    pub(crate) fn create(path: Option<&Path>) -> Result<OutFile> {
        let create = |path: &Path| {
            File::create(path).map(|file| (file, path.to_owned())).map_err(Error::doing("create", path))
        };
        path.map(create).transpose().map(OutFile)
    }

    pub(crate) fn write_text(self, make: impl FnOnce() -> String) -> Result<()> {
        let Some((mut file, path)) = self.0 else { return Ok(()) };
        file.write_all(make().as_bytes()).map_err(Error::doing("write", &path))
    }

    pub(crate) fn write_json(self, value: &impl Serialize) -> Result<()> {
        let Some((file, path)) = self.0 else { return Ok(()) };
        let mut file = BufWriter::new(file);
        let written = serde_json::to_writer_pretty(&mut file, value).map_err(std::io::Error::from);
        written.and_then(|()| file.flush()).map_err(Error::doing("write", &path))
    }
}
