//! Targets that are one file under two names, and whether a copy onto them has mixed its sources.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Number of pairs of targets.
const PAIRS: usize = 20;

/// Sizes of the sources of a pair. They need several blocks each.
const SOURCE_BYTES: [(u8, usize); 2] = [(b'a', 1_500_000), (b'b', 2_500_000)];

/// Builds sources in `s`, two for each pair of targets in `t/s`: half of the pairs are hard links,
/// the others symbolic links to one file. What `t/s` already has is replaced.
///
/// # Errors
/// Those of the system calls.
pub fn build(folder: &Path) -> io::Result<()> {
    let (sources, targets) = (folder.join("s"), folder.join("t/s"));
    for directory in [&sources, &targets] {
        if directory.exists() {
            fs::remove_dir_all(directory)?;
        }
        fs::create_dir_all(directory)?;
    }
    for pair in 0..PAIRS {
        for (byte, bytes) in SOURCE_BYTES {
            fs::write(sources.join(name(byte, pair)), vec![byte; bytes])?;
        }
        let [first, second] = SOURCE_BYTES.map(|(byte, _)| targets.join(name(byte, pair)));
        if pair % 2 == 0 {
            fs::write(&first, "")?;
            fs::hard_link(&first, &second)?;
        } else {
            let file = folder.join(format!("t/{pair}"));
            fs::write(&file, "")?;
            symlink(&file, &first)?;
            symlink(&file, &second)?;
        }
    }
    Ok(())
}

/// Returns the names of targets whose content is not that of one source.
///
/// # Errors
/// Those of the system calls.
pub fn mixed(folder: &Path) -> io::Result<Vec<String>> {
    let mut mixed = Vec::new();
    for pair in 0..PAIRS {
        for (byte, _) in SOURCE_BYTES {
            let name = name(byte, pair);
            let content = fs::read(folder.join("t/s").join(&name))?;
            let is_of = |(byte, bytes): (u8, usize)| {
                content.len() == bytes && content.iter().all(|found| *found == byte)
            };
            if !SOURCE_BYTES.into_iter().any(is_of) {
                mixed.push(name);
            }
        }
    }
    Ok(mixed)
}

fn name(byte: u8, pair: usize) -> String {
    format!("{}{pair}", char::from(byte))
}
