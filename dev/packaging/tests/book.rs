//! The site of `docs/`: mdBook makes it, and no link in it is dead.

use std::process::Command;

use haul_packaging::{run, workspace};
use haul_testkit::require;

#[test]
fn the_site_is_made_and_its_links_lead_somewhere() {
    let mdbook = workspace().join("target/mpi/mdbook/bin/mdbook");
    require!((!mdbook.is_file()).then(|| "needs mdBook (cargo xtask setup installs it)".to_owned()));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let made = run(Command::new(cargo).args(["xtask", "book"]).current_dir(workspace()));
    assert!(made.as_ref().is_ok_and(|printed| printed.contains(" pages: ")), "{made:?}");
    let page = std::fs::read_to_string(workspace().join("target/book/from-rsync.html")).unwrap_or_default();
    assert!(page.contains("--itemize-changes"), "the page is not what docs/from-rsync.md says");
}
