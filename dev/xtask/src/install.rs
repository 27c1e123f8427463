//! `install`: builds haul and installs it below a prefix; `--remove` takes it away again.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser;

use crate::setup::target_folder;
use crate::steps::{StepFailure, cargo, run, say, workspace};

/// Name of the list of installed files, below the prefix.
const LIST: &str = "share/haul/installed";

const BASH_COMPLETIONS: &str = "share/bash-completion/completions";
const FISH_COMPLETIONS: &str = "share/fish/vendor_completions.d";

/// Builds haul and installs it below a prefix, or removes it.
#[derive(Parser)]
#[command(name = "cargo xtask install")]
struct InstallArguments {
    /// Directory that gets bin and share.
    #[arg(long)]
    prefix: PathBuf,
    /// Installs below this directory instead of the root directory.
    #[arg(long)]
    destdir: Option<PathBuf>,
    /// Links haul to this name too.
    #[arg(long = "as", value_name = "NAME", value_delimiter = ',', value_parser = ["cp", "bzip2", "bunzip2", "bzcat"])]
    names: Vec<String>,
    /// Removes all that earlier calls installed, the links too.
    #[arg(long, conflicts_with = "names")]
    remove: bool,
}

/// Where files go in a tree of installed files, and in which form.
pub(crate) struct InstallLayout {
    /// Directory of the functions of zsh, below the prefix.
    pub(crate) zsh: &'static str,
    /// True to compress manual pages.
    pub(crate) is_compressed: bool,
}

pub(crate) fn install(words: &[String]) -> Result<(), StepFailure> {
    let arguments =
        InstallArguments::parse_from(std::iter::once("install").chain(words.iter().map(String::as_str)));
    if !arguments.prefix.is_absolute() {
        return Err(StepFailure("--prefix needs an absolute path".to_owned()));
    }
    let root = match &arguments.destdir {
        Some(folder) => folder.join(arguments.prefix.strip_prefix("/").unwrap_or(&arguments.prefix)),
        None => arguments.prefix.clone(),
    };
    if arguments.remove { remove(&root) } else { install_below(&root, &arguments.names) }
}

fn install_below(root: &Path, names: &[String]) -> Result<(), StepFailure> {
    let names = with_earlier(root, names)?;
    // Before it takes minutes to compile.
    for name in names.iter().map(String::as_str).chain(["spdcp"]) {
        is_linked(root, &format!("bin/{name}"), "haul")?;
    }
    run(&mut cargo(&["build", "--locked", "--release", "--package", "haul-cli"]))?;
    let built = target_folder()?.join("release/haul");
    // Not where it is installed: a program that runs must not change.
    let stripped = built.with_extension("stripped");
    run(Command::new("strip").arg("-o").args([&stripped, &built]))?;
    let count = replace(&stripped, root, &names)?;
    say(&format!("{count} files below {}", root.display()));
    Ok(())
}

/// Returns the links to make: those with these names, and those of earlier installations.
fn with_earlier(root: &Path, names: &[String]) -> Result<Vec<String>, StepFailure> {
    let mut names = names.to_owned();
    for file in installed(root)? {
        let Some(name) = file.strip_prefix("bin/") else { continue };
        // A name that is no longer a link belongs to somebody else.
        if !["haul", "spdcp"].contains(&name) && is_linked(root, &file, "haul").unwrap_or_default() {
            names.push(name.to_owned());
        }
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// Installs all files, and removes those of an earlier installation that this one doesn't have.
/// Returns how many there are now.
fn replace(binary: &Path, root: &Path, names: &[String]) -> Result<usize, StepFailure> {
    let layout = InstallLayout { zsh: "share/zsh/site-functions", is_compressed: false };
    let mut files = lay_out(binary, root, &layout)?;
    for name in names {
        link(root, &format!("bin/{name}"), "haul")?;
        files.push(format!("bin/{name}"));
        files.extend(complete(root, name, &layout)?);
    }
    files.push(LIST.to_owned());
    for file in installed(root)?.iter().filter(|file| !files.contains(file)) {
        remove_installed(root, file)?;
    }
    put(files.join("\n").as_bytes(), &root.join(LIST), 0o644)?;
    Ok(files.len())
}

/// Returns the files that an earlier installation has listed.
fn installed(root: &Path) -> Result<Vec<String>, StepFailure> {
    match fs_err::read_to_string(root.join(LIST)) {
        Ok(list) => Ok(list.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// Removes the listed files, and the list last, so that an interrupted removal can be repeated.
fn remove(root: &Path) -> Result<(), StepFailure> {
    let list = fs_err::read_to_string(root.join(LIST))?;
    for file in list.lines() {
        remove_installed(root, file)?;
    }
    // Fails if somebody else put a file there; then it stays.
    fs_err::remove_dir(root.join("share/haul")).unwrap_or_default();
    Ok(())
}

/// Removes an installed file, unless it is gone, or another program has replaced a link to haul.
fn remove_installed(root: &Path, file: &str) -> Result<(), StepFailure> {
    if link_target(file).is_some_and(|target| is_linked(root, file, target).is_err()) {
        say(&format!("left {file}, which is not a link to haul"));
        return Ok(());
    }
    match fs_err::remove_file(root.join(file)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Returns what an installed file is a link to, if it is one.
fn link_target(file: &str) -> Option<&'static str> {
    let (folder, name) = file.rsplit_once('/')?;
    match folder {
        "bin" | BASH_COMPLETIONS => (name != "haul").then_some("haul"),
        FISH_COMPLETIONS => (name != "haul.fish").then_some("haul.fish"),
        _ => None,
    }
}

/// Puts the program, its link `spdcp`, manual pages and completions below `root`. Returns their
/// paths below it.
pub(crate) fn lay_out(
    binary: &Path,
    root: &Path,
    layout: &InstallLayout,
) -> Result<Vec<String>, StepFailure> {
    let mut files = vec!["bin/haul".to_owned(), "bin/spdcp".to_owned()];
    put(&fs_err::read(binary)?, &root.join("bin/haul"), 0o755)?;
    link(root, "bin/spdcp", "haul")?;
    let top = workspace();
    for name in names_in(&top.join("docs/man"))? {
        // The benchmark is another program.
        if name == "haul-bench.1" {
            continue;
        }
        let file = format!("share/man/man1/{name}");
        put(&fs_err::read(top.join("docs/man").join(&name))?, &root.join(&file), 0o644)?;
        if layout.is_compressed {
            run(Command::new("gzip").args(["-9nf"]).arg(root.join(&file)))?;
            files.push(format!("{file}.gz"));
        } else {
            files.push(file);
        }
    }
    for (name, file) in [
        ("haul.bash", format!("{BASH_COMPLETIONS}/haul")),
        ("_haul", format!("{}/_haul", layout.zsh)),
        ("haul.fish", format!("{FISH_COMPLETIONS}/haul.fish")),
    ] {
        put(&fs_err::read(top.join("completions").join(name))?, &root.join(&file), 0o644)?;
        files.push(file);
    }
    files.extend(complete(root, "spdcp", layout)?);
    Ok(files)
}

/// Puts completions for another name of haul below `root`: shells look for a command's completion
/// by its name. Returns their paths below it.
pub(crate) fn complete(root: &Path, name: &str, layout: &InstallLayout) -> Result<Vec<String>, StepFailure> {
    let mut files = Vec::new();
    for file in [format!("{BASH_COMPLETIONS}/{name}"), format!("{FISH_COMPLETIONS}/{name}.fish")] {
        // A package may have a completion for the program that haul replaces.
        match link(root, &file, link_target(&file).unwrap_or_default()) {
            Ok(()) => files.push(file),
            Err(failure) => say(&failure.to_string()),
        }
    }
    let file = format!("{}/_haul-{name}", layout.zsh);
    let text = format!("#compdef {name}\n# {name} is haul here.\n_haul \"$@\"\n");
    put(text.as_bytes(), &root.join(&file), 0o644)?;
    files.push(file);
    Ok(files)
}

fn link(root: &Path, file: &str, target: &str) -> Result<(), StepFailure> {
    if !is_linked(root, file, target)? {
        let path = root.join(file);
        path.parent().map_or(Ok(()), create_readable)?;
        symlink(target, path)?;
    }
    Ok(())
}

/// Returns true if a file is a link to haul already, false if there is nothing.
///
/// # Errors
/// If it is anything else: nobody could bring that back.
fn is_linked(root: &Path, file: &str, target: &str) -> Result<bool, StepFailure> {
    let path = root.join(file);
    match fs_err::symlink_metadata(&path) {
        Ok(_) if std::fs::read_link(&path).is_ok_and(|end| end == Path::new(target)) => Ok(true),
        Ok(_) => Err(StepFailure(format!("{} exists, and is not a link to haul", path.display()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Writes a file under a temporary name and renames it: a running program can't be overwritten.
pub(crate) fn put(bytes: &[u8], path: &Path, mode: u32) -> Result<(), StepFailure> {
    if let Some(folder) = path.parent() {
        create_readable(folder)?;
    }
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    fs_err::write(&temporary, bytes)?;
    fs_err::set_permissions(&temporary, Permissions::from_mode(mode))?;
    Ok(fs_err::rename(&temporary, path)?)
}

/// Creates a directory and those above it that are missing, for all users whatever the umask is.
pub(crate) fn create_readable(folder: &Path) -> Result<(), StepFailure> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(above) = folder.parent() {
        create_readable(above)?;
    }
    fs_err::create_dir(folder)?;
    Ok(fs_err::set_permissions(folder, Permissions::from_mode(0o755))?)
}

/// Returns the names in a directory, sorted.
pub(crate) fn names_in(folder: &Path) -> Result<Vec<String>, StepFailure> {
    let entries = fs_err::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let mut names: Vec<_> =
        entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::steps::output_of;

    #[test]
    fn manual_pages_refer_to_pages_that_are_installed() {
        let folder = tempfile::tempdir().unwrap();
        install_as(folder.path(), &[]).unwrap();
        let pages = folder.path().join("share/man/man1");
        for name in names_in(&pages).unwrap() {
            let page = fs_err::read_to_string(pages.join(&name)).unwrap();
            let others = page.lines().filter_map(|line| line.strip_prefix(".BR ")?.split_once(" (1)"));
            let others = others.map(|(other, _)| other.replace('\\', ""));
            for other in others.filter(|other| other.starts_with("haul") || other == "spdcp") {
                assert!(pages.join(format!("{other}.1")).exists(), "{name}: {other}(1)");
            }
        }
    }

    #[test]
    fn one_link_cant_be_removed_alone() {
        let parse = |line: &str| InstallArguments::try_parse_from(line.split(' '));
        assert!(parse("install --prefix /p --remove").unwrap().remove);
        assert_eq!(parse("install --prefix /p --as cp,bzcat").unwrap().names, ["cp", "bzcat"]);
        // It would remove everything.
        parse("install --prefix /p --remove --as cp").map(drop).unwrap_err();
    }

    fn install_as(root: &Path, names: &[&str]) -> Result<(), StepFailure> {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        replace(Path::new("/bin/true"), root, &with_earlier(root, &names)?).map(drop)
    }

    #[test]
    fn links_of_earlier_installations_stay_until_all_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        install_as(root, &["cp"]).unwrap();
        // Pretend that the earlier release had one more file.
        let stale = root.join("share/man/man1/haul-old.1");
        fs_err::write(&stale, "").unwrap();
        let list = fs_err::read_to_string(root.join(LIST)).unwrap();
        fs_err::write(root.join(LIST), format!("share/man/man1/haul-old.1\n{list}")).unwrap();
        install_as(root, &["bzcat"]).unwrap();
        assert!(!stale.exists());
        for name in ["cp", "bzcat", "spdcp"] {
            assert!(is_linked(root, &format!("bin/{name}"), "haul").unwrap(), "{name}");
        }
        remove(root).unwrap();
        let left = output_of(Command::new("find").arg(root).args(["-not", "-type", "d"])).unwrap();
        assert_eq!(String::from_utf8_lossy(&left), "");
    }

    #[test]
    fn every_name_of_haul_has_completions_unless_another_program_has_them() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let of_bzip2 = root.join(BASH_COMPLETIONS).join("bzip2");
        put(b"another", &of_bzip2, 0o644).unwrap();
        install_as(root, &["cp", "bzip2"]).unwrap();
        for name in ["spdcp", "cp"] {
            let bash = fs_err::read_to_string(root.join(BASH_COMPLETIONS).join(name)).unwrap();
            let fish =
                fs_err::read_to_string(root.join(FISH_COMPLETIONS).join(format!("{name}.fish"))).unwrap();
            let zsh = root.join(format!("share/zsh/site-functions/_haul-{name}"));
            let zsh = fs_err::read_to_string(zsh).unwrap();
            assert!(bash.contains(" -F _haul ") && fish.contains("complete -c haul "), "{name}");
            assert!(zsh.starts_with(&format!("#compdef {name}\n")), "{zsh}");
        }
        assert_eq!(fs_err::read_to_string(&of_bzip2).unwrap(), "another");
        remove(root).unwrap();
        assert_eq!(names_in(&root.join(BASH_COMPLETIONS)).unwrap(), ["bzip2"]);
        assert!(names_in(&root.join(FISH_COMPLETIONS)).unwrap().is_empty());
    }

    #[test]
    fn another_program_is_neither_replaced_nor_removed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let cp = root.join("bin/cp");
        install_as(root, &["cp"]).unwrap();
        fs_err::remove_file(&cp).unwrap();
        fs_err::write(&cp, "another").unwrap();
        let refused = install_as(root, &["cp"]).unwrap_err();
        assert!(refused.0.ends_with("/bin/cp exists, and is not a link to haul"), "{refused}");
        remove(root).unwrap();
        assert_eq!(names_in(&root.join("bin")).unwrap(), ["cp"]);
        assert_eq!(fs_err::read_to_string(&cp).unwrap(), "another");
        // The same for the name that is always linked.
        fs_err::rename(&cp, root.join("bin/spdcp")).unwrap();
        install_as(root, &[]).unwrap_err();
        assert_eq!(fs_err::read_to_string(root.join("bin/spdcp")).unwrap(), "another");
    }
}
