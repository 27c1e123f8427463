//! `gen`: generates files from the code, and checks that they are up to date.
//!
//! Help is haul's own output. Completions and manual pages are generated from the command and
//! option definitions of haul and haul-bench (`--definitions`), so that each option is defined in
//! one place. clap_mangen and clap_complete need clap definitions, which haul does not have: clap
//! can't parse as GNU does (order of errors, ambiguous abbreviations, attached arguments).

mod bash;
mod chart;
mod definitions;
mod fish;
mod man;
mod path;
mod zsh;

use std::mem;

use fs_err as fs;
use serde::de::DeserializeOwned;

use crate::steps::{StepFailure, cargo, output_of, say, workspace};
use definitions::CommandDefinition;

/// Path in the workspace, and contents.
type Generated = (String, Vec<u8>);

/// Writes all generated files.
pub(crate) fn write() -> Result<(), StepFailure> {
    for (file, content) in generated()? {
        let path = workspace().join(&file);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&path, content)?;
        say(&format!("wrote {file}"));
    }
    Ok(())
}

/// Checks that all generated files are up to date.
pub(crate) fn check() -> Result<(), StepFailure> {
    say("==> generated files");
    for (file, content) in generated()? {
        if fs::read(workspace().join(&file))? != content {
            return Err(StepFailure(format!("{file} is not what the code generates: run 'cargo xtask gen'")));
        }
    }
    Ok(())
}

fn generated() -> Result<Vec<Generated>, StepFailure> {
    let mut commands: Vec<CommandDefinition> = definitions("haul-cli")?;
    let bench: CommandDefinition = definitions("haul-bench")?;
    if let Some(command) = commands.iter_mut().find(|command| command.name == "bench") {
        // Name and summary remain those of `haul --help`.
        let CommandDefinition { name, about, .. } = command;
        *command = CommandDefinition { name: mem::take(name), about: mem::take(about), ..bench };
    }
    definitions::check_names(&commands)?;
    let mut generated = [
        ("docs/help/haul.txt", printed(&["--help"])?),
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
    for command in commands.iter().filter(|command| !command.synopsis.is_empty()) {
        let name = command.name.as_str();
        generated.push((format!("docs/help/{name}.txt"), printed(&[name, "--help"])?));
        // The pages of the others have more than their definition.
        if !matches!(name, "cp" | "spdcp") {
            generated.push((format!("docs/man/haul-{name}.1"), man::tool(command).into_bytes()));
        }
    }
    let figures = fs::read_to_string(workspace().join("docs/measurements/comparison.md"))?;
    let pictures = ["small-files", "trees"].into_iter().zip(chart::drawn(&figures)?);
    let pictures =
        pictures.map(|(name, picture)| (format!("docs/pictures/{name}.svg"), picture.into_bytes()));
    generated.extend(pictures);
    let map = "ARCHITECTURE.md";
    let text = fs::read_to_string(workspace().join(map))?;
    generated.push((map.to_owned(), path::counted(&text, &workspace().join("crates"))?.into_bytes()));
    Ok(generated)
}

fn definitions<T: DeserializeOwned>(package: &str) -> Result<T, StepFailure> {
    let printed = output_of(&mut cargo(&["run", "--quiet", "--package", package, "--", "--definitions"]))?;
    serde_json::from_slice(&printed).map_err(|error| StepFailure(format!("{package} --definitions: {error}")))
}

fn printed(words: &[&str]) -> Result<Vec<u8>, StepFailure> {
    output_of(cargo(&["run", "--quiet", "--package", "haul-cli", "--"]).args(words))
}

/// Replaces each line `@name@` of a template with the generated part of that name.
fn inserted(template: &str, parts: impl IntoIterator<Item = (&'static str, String)>) -> String {
    let insert = |text: String, (name, part): (&str, String)| text.replace(&format!("@{name}@\n"), &part);
    parts.into_iter().fold(template.to_owned(), insert)
}
