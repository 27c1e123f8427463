//! Makes a backup of a directory, and prints the hashes of its files.

#![allow(clippy::print_stdout)]

use haul::{Copy, Error, Sync, hash_tree};

fn main() -> Result<(), Error> {
    let summary = Copy::exactly("project", "backup").recursive().preserve_all().run()?;
    println!("{} files, {} bytes", summary.tally.files, summary.tally.bytes);

    // Make it equal, and delete entries that only the backup has.
    Sync::new("project", "backup").delete().run()?;

    for file in hash_tree("backup")? {
        println!("{}  {}", file.digest, file.path.display());
    }
    Ok(())
}
