//! `gen`: files that are generated from the code, and the check that they are.

use std::path::PathBuf;

use crate::steps::{Failure, cargo, output_of, say, workspace};

/// Each file, and the words to haul that print it.
const FILES: [(&str, &[&str]); 2] =
    [("docs/help/haul.txt", &["--help"]), ("docs/help/cp.txt", &["cp", "--help"])];

/// Writes the files.
pub(crate) fn write() -> Result<(), Failure> {
    for (file, words) in FILES {
        let path = workspace().join(file);
        let fail = |error| Failure(format!("cannot write {file}: {error}"));
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(fail)?;
        }
        std::fs::write(&path, printed(words)?).map_err(fail)?;
        say(&format!("wrote {file}"));
    }
    Ok(())
}

/// Checks that the files are what would be written.
pub(crate) fn check() -> Result<(), Failure> {
    say("==> generated files");
    for (file, words) in FILES {
        let path: PathBuf = workspace().join(file);
        let there = std::fs::read(&path).map_err(|error| Failure(format!("cannot read {file}: {error}")))?;
        if there != printed(words)? {
            return Err(Failure(format!("{file} is not what the code generates: run 'cargo xtask gen'")));
        }
    }
    Ok(())
}

fn printed(words: &[&str]) -> Result<Vec<u8>, Failure> {
    output_of(cargo(&["run", "--quiet", "--package", "haul", "--"]).args(words))
}
