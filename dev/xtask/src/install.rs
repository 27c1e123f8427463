//! `install`: builds haul and installs it below a prefix; `--remove` takes it away again.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser;

use crate::setup::target_folder;
use crate::steps::{Failure, cargo, run, say, workspace};

/// Name of the list of installed files, below the prefix.
const LIST: &str = "share/haul/installed";

/// Arguments of `cargo xtask install`.
#[derive(Parser)]
#[command(name = "cargo xtask install")]
struct Arguments {
    /// Directory that gets bin and share.
    #[arg(long)]
    prefix: PathBuf,
    /// Installs below this directory instead of the root directory.
    #[arg(long)]
    destdir: Option<PathBuf>,
    /// Links haul to this name too.
    #[arg(long = "as", value_name = "NAME", value_delimiter = ',', value_parser = ["cp", "bzip2", "bunzip2", "bzcat"])]
    names: Vec<String>,
    /// Removes what an earlier call installed.
    #[arg(long)]
    remove: bool,
}

/// Where files go in a tree of installed files, and in which form.
pub(crate) struct Layout {
    /// Directory of the functions of zsh, below the prefix.
    pub(crate) zsh: &'static str,
    /// True to compress manual pages.
    pub(crate) is_compressed: bool,
}

pub(crate) fn install(words: &[String]) -> Result<(), Failure> {
    let program = std::iter::once("install").chain(words.iter().map(String::as_str));
    let arguments = Arguments::try_parse_from(program).map_err(|error| Failure(error.to_string()))?;
    if !arguments.prefix.is_absolute() {
        return Err(Failure("--prefix needs an absolute path".to_owned()));
    }
    let root = match &arguments.destdir {
        Some(folder) => folder.join(arguments.prefix.strip_prefix("/").unwrap_or(&arguments.prefix)),
        None => arguments.prefix.clone(),
    };
    if arguments.remove { remove(&root) } else { install_below(&root, &arguments.names) }
}

fn install_below(root: &Path, names: &[String]) -> Result<(), Failure> {
    run(&mut cargo(&["build", "--locked", "--release", "--package", "haul-cli"]))?;
    let binary = target_folder()?.join("release/haul");
    let layout = Layout { zsh: "share/zsh/site-functions", is_compressed: false };
    let mut files = lay_out(&binary, root, &layout)?;
    run(Command::new("strip").arg(root.join("bin/haul")))?;
    for name in names {
        link(root, name)?;
        files.push(format!("bin/{name}"));
    }
    files.push(LIST.to_owned());
    put(files.join("\n").as_bytes(), &root.join(LIST), 0o644)?;
    say(&format!("{} files below {}", files.len(), root.display()));
    Ok(())
}

/// Removes the listed files, and the list last, so that an interrupted removal can be repeated.
fn remove(root: &Path) -> Result<(), Failure> {
    let list = fs_err::read_to_string(root.join(LIST))?;
    for file in list.lines() {
        match fs_err::remove_file(root.join(file)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    // Fails if somebody else put a file there; then it stays.
    fs_err::remove_dir(root.join("share/haul")).unwrap_or_default();
    Ok(())
}

/// Puts the program, its link `spdcp`, manual pages and completions below `root`. Returns their
/// paths below it.
pub(crate) fn lay_out(binary: &Path, root: &Path, layout: &Layout) -> Result<Vec<String>, Failure> {
    let mut files = vec!["bin/haul".to_owned(), "bin/spdcp".to_owned()];
    put(&fs_err::read(binary)?, &root.join("bin/haul"), 0o755)?;
    link(root, "spdcp")?;
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
        ("haul.bash", "share/bash-completion/completions/haul".to_owned()),
        ("_haul", format!("{}/_haul", layout.zsh)),
        ("haul.fish", "share/fish/vendor_completions.d/haul.fish".to_owned()),
    ] {
        put(&fs_err::read(top.join("completions").join(name))?, &root.join(&file), 0o644)?;
        files.push(file);
    }
    Ok(files)
}

fn link(root: &Path, name: &str) -> Result<(), Failure> {
    let path = root.join("bin").join(name);
    match fs_err::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    symlink("haul", path)?;
    Ok(())
}

/// Writes a file under a temporary name and renames it: a running program can't be overwritten.
pub(crate) fn put(bytes: &[u8], path: &Path, mode: u32) -> Result<(), Failure> {
    if let Some(folder) = path.parent() {
        fs_err::create_dir_all(folder)?;
    }
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    fs_err::write(&temporary, bytes)?;
    fs_err::set_permissions(&temporary, Permissions::from_mode(mode))?;
    Ok(fs_err::rename(&temporary, path)?)
}

/// Returns the names in a directory, sorted.
pub(crate) fn names_in(folder: &Path) -> Result<Vec<String>, Failure> {
    let entries = fs_err::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let mut names: Vec<_> =
        entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}
