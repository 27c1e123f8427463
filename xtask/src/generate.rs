//! `gen`: generates files from the code, and checks that they are up to date.
//!
//! Help is haul's own output. Completions and manual pages are generated from its command and
//! option definitions (`haul --definitions`), so that each option is defined in one place.

mod bash;
mod definitions;
mod fish;
mod man;
mod zsh;

use crate::steps::{Failure, cargo, output_of, say, workspace};
use definitions::Command;

/// Path in the workspace, and contents.
type Generated = (String, Vec<u8>);

/// Writes all generated files.
pub(crate) fn write() -> Result<(), Failure> {
    for (file, content) in generated()? {
        let path = workspace().join(&file);
        let fail = |error| Failure(format!("cannot write {file}: {error}"));
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(fail)?;
        }
        std::fs::write(&path, content).map_err(fail)?;
        say(&format!("wrote {file}"));
    }
    Ok(())
}

/// Checks that all generated files are up to date.
pub(crate) fn check() -> Result<(), Failure> {
    say("==> generated files");
    for (file, content) in generated()? {
        let path = workspace().join(&file);
        let there = std::fs::read(&path).map_err(|error| Failure(format!("cannot read {file}: {error}")))?;
        if there != content {
            return Err(Failure(format!("{file} is not what the code generates: run 'cargo xtask gen'")));
        }
    }
    Ok(())
}

fn generated() -> Result<Vec<Generated>, Failure> {
    let definitions = printed(&["--definitions"])?;
    let commands: Vec<Command> = serde_json::from_slice(&definitions)
        .map_err(|error| Failure(format!("haul --definitions: {error}")))?;
    let mut generated = [
        ("docs/help/haul.txt", printed(&["--help"])?),
        ("docs/help/cp.txt", printed(&["cp", "--help"])?),
        ("docs/help/spdcp.txt", printed(&["spdcp", "-h"])?),
        ("docs/man/haul.1", man::haul(&commands).into_bytes()),
        ("docs/man/haul-cp.1", man::cp(&commands).into_bytes()),
        ("docs/man/spdcp.1", man::spdcp(&commands).into_bytes()),
        ("docs/man/haul-bench.1", man::bench(&commands).into_bytes()),
        ("completions/haul.bash", bash::completion(&commands).into_bytes()),
        ("completions/_haul", zsh::completion(&commands).into_bytes()),
        ("completions/haul.fish", fish::completion(&commands).into_bytes()),
    ]
    .map(|(file, content)| (file.to_owned(), content))
    .to_vec();
    // Commands documented entirely by their definition.
    for command in
        commands.iter().filter(|command| !command.synopsis.is_empty() && command.commands.is_empty())
    {
        let name = &command.name;
        generated.push((format!("docs/help/{name}.txt"), printed(&[name, "--help"])?));
        generated.push((format!("docs/man/haul-{name}.1"), man::tool(command).into_bytes()));
    }
    Ok(generated)
}

fn printed(words: &[&str]) -> Result<Vec<u8>, Failure> {
    output_of(cargo(&["run", "--quiet", "--package", "haul", "--"]).args(words))
}
