//! `dist`: builds haul as it is shipped, into `target/dist`.
//!
//! - static programs (musl) in archives, for x86_64 and aarch64, where there are compilers;
//! - a program for glibc, which can load MPI, in packages for dpkg and rpm;
//! - the symbols of each in a file of its own, a list of components (CycloneDX), and checksums.
//!
//! The same commit gives the same bytes wherever it is built with the same tools: paths are mapped
//! to fixed ones, all times are that of the commit, and archives are sorted.

mod notices;
mod package;
mod sbom;

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser;

use crate::install::{InstallLayout, create_readable, lay_out, names_in, put};
use crate::pages::packed;
use crate::setup::target_folder;
use crate::steps::{StepFailure, cargo, output_of, run, say, workspace};
use sbom::{Components, sbom};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const GLIBC: &str = "x86_64-unknown-linux-gnu";
/// Name of the file with the licences of what is linked into the program.
const NOTICES: &str = "THIRD-PARTY";

/// Static builds: architecture, target, C compiler. The one for aarch64 comes with glibc's headers,
/// which do for the C parts (zstd, PCRE2, BLAKE3): all they use has the same form in musl.
pub(crate) const STATIC: [(&str, &str, &str); 2] = [
    ("x86_64", "x86_64-unknown-linux-musl", "musl-gcc"),
    ("aarch64", "aarch64-unknown-linux-musl", "aarch64-linux-gnu-gcc"),
];

/// Builds archives and packages of haul in target/dist.
#[derive(Parser)]
#[command(name = "cargo xtask dist")]
struct DistArguments {
    /// Builds with little optimisation, for tests.
    #[arg(long)]
    quick: bool,
}

/// Context of all steps of a run.
struct Dist {
    is_quick: bool,
    /// Time of the commit, in seconds since 1970.
    epoch: String,
    target: PathBuf,
    /// Where the results go.
    output: PathBuf,
    /// The licences of what is linked into the program.
    notices: String,
}

pub(crate) fn dist(words: &[String]) -> Result<(), StepFailure> {
    let arguments =
        DistArguments::parse_from(std::iter::once("dist").chain(words.iter().map(String::as_str)));
    let epoch = output_of(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(workspace()))?;
    let target = target_folder()?;
    let components = Components::read()?;
    let dist = Dist {
        is_quick: arguments.quick,
        epoch: String::from_utf8_lossy(&epoch).trim().to_owned(),
        output: target.join("dist"),
        target,
        notices: notices::notices(&components)?,
    };
    if dist.output.exists() {
        fs_err::remove_dir_all(&dist.output)?;
    }
    fs_err::create_dir_all(&dist.output)?;
    for (architecture, triple, compiler) in STATIC {
        if !can_compile(compiler) || !has_target(triple)? {
            say(&format!(
                "left out: {architecture}, which needs {compiler}, C headers and Rust's target {triple}"
            ));
            continue;
        }
        let binary = dist.build(triple, compiler)?;
        dist.archive(&binary, architecture)?;
    }
    let binary = dist.build(GLIBC, "cc")?;
    package::packages(&dist, &binary)?;
    let list = sbom(&components, &dist.epoch)?;
    put(list.as_bytes(), &dist.output.join(format!("haul-{VERSION}.cdx.json")), 0o644)?;
    dist.checksums()
}

/// Returns true if a C compiler is installed, and finds headers.
fn can_compile(compiler: &str) -> bool {
    let mut preprocess = Command::new(compiler);
    preprocess.args(["-E", "-include", "stdlib.h", "-x", "c", "/dev/null"]);
    preprocess.output().is_ok_and(|output| output.status.success())
}

/// Returns true if Rust's standard library is installed for a target.
fn has_target(triple: &str) -> Result<bool, StepFailure> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let folder = output_of(Command::new(rustc).args(["--print", "target-libdir", "--target", triple]))?;
    Ok(Path::new(String::from_utf8_lossy(&folder).trim()).is_dir())
}

/// Returns a file of the top directory as it is packed beside `others`.
fn document(file: &str, others: &[&str]) -> Result<String, StepFailure> {
    let text = fs_err::read_to_string(workspace().join(file))?;
    Ok(if file.ends_with(".md") { packed(&text, others) } else { text })
}

impl Dist {
    /// Builds the program for a target, and moves its symbols to a file among the results.
    fn build(&self, triple: &str, compiler: &str) -> Result<PathBuf, StepFailure> {
        let profile = if self.is_quick { "packages" } else { "release" };
        let home = std::env::var("CARGO_HOME")
            .or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")))
            .map_err(|error| StepFailure(format!("HOME: {error}")))?;
        let maps = [
            (self.target.display().to_string(), "/haul/target"),
            (workspace().display().to_string(), "/haul"),
            (home, "/cargo"),
        ];
        // Of several mappings that fit, rustc takes the last, gcc too.
        let maps = || maps.iter().rev();
        let mut flags: Vec<_> = maps().map(|(from, to)| format!("--remap-path-prefix={from}={to}")).collect();
        // These replace the flags of .cargo/config.toml, so this one is repeated.
        flags.push("-Csymbol-mangling-version=v0".to_owned());
        if triple != GLIBC {
            // At a fixed address, as crates/cli/build.rs links for glibc.
            flags.push("-Crelocation-model=static".to_owned());
        }
        let name = triple.replace('-', "_");
        let mut c_flags: Vec<_> = maps().map(|(from, to)| format!("-ffile-prefix-map={from}={to}")).collect();
        if triple.starts_with("aarch64") {
            flags.push(format!("-Clinker={compiler}"));
            // pcre2-sys leaves out PCRE2's compiler for this target, because what Rust links lacks
            // `__clear_cache`. libgcc has it.
            c_flags.push("-DSUPPORT_JIT=1".to_owned());
            flags.push("-Clink-arg=-lgcc".to_owned());
        }
        run(cargo(&[
            "build",
            "--locked",
            "--package",
            "haul-cli",
            "--profile",
            profile,
            "--target",
            triple,
        ])
        .env("SOURCE_DATE_EPOCH", &self.epoch)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_TARGET_DIR", &self.target)
        .env(format!("CC_{name}"), compiler)
        .env(format!("CFLAGS_{name}"), c_flags.join(" ")))?;
        self.split(&self.target.join(triple).join(profile).join("haul"), triple)
    }

    /// Copies a program without its symbols, which go to `haul-TARGET.debug`. gdb and perf find
    /// that by the link in the program, if it is next to it.
    fn split(&self, built: &Path, triple: &str) -> Result<PathBuf, StepFailure> {
        let folder = self.target.join("dist-work").join(triple);
        if folder.exists() {
            fs_err::remove_dir_all(&folder)?;
        }
        fs_err::create_dir_all(&folder)?;
        let symbols = format!("haul-{VERSION}-{triple}.debug");
        let tool = match triple.split('-').next() {
            Some("aarch64") => "aarch64-linux-gnu-objcopy",
            _ => "objcopy",
        };
        let objcopy = |words: &[&str]| run(Command::new(tool).args(words).current_dir(&folder));
        let built = built.to_string_lossy();
        objcopy(&["--only-keep-debug", "--compress-debug-sections", &built, &symbols])?;
        objcopy(&[
            "--strip-all",
            "--remove-section=.comment",
            &format!("--add-gnu-debuglink={symbols}"),
            &built,
            "haul",
        ])?;
        fs_err::rename(folder.join(&symbols), self.output.join(&symbols))?;
        Ok(folder.join("haul"))
    }

    /// Makes the archive that a user unpacks below a prefix. It has no directories: those that are
    /// there keep their modes, and links to others stay.
    fn archive(&self, binary: &Path, architecture: &str) -> Result<(), StepFailure> {
        let name = format!("haul-{VERSION}-{architecture}-linux");
        let parent = self.target.join("dist-work").join(architecture);
        let stage = self.stage(&parent, &name)?;
        let layout = InstallLayout { zsh: "share/zsh/site-functions", is_compressed: false };
        let mut files = lay_out(binary, &stage, &layout)?;
        let documents = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];
        for file in documents {
            let path = format!("share/doc/haul/{file}");
            put(document(file, &documents)?.as_bytes(), &stage.join(&path), 0o644)?;
            files.push(path);
        }
        put(self.notices.as_bytes(), &stage.join("share/doc/haul").join(NOTICES), 0o644)?;
        files.push(format!("share/doc/haul/{NOTICES}"));
        files.sort();
        let archive = self.output.join(format!("{name}.tar.gz"));
        run(Command::new("tar")
            .args(["--no-recursion", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"])
            .args([
                "--mode=u+rw,go+r-w",
                &format!("--mtime=@{}", self.epoch),
                "--use-compress-program=gzip -9n",
            ])
            .arg("-cf")
            .arg(archive)
            .arg("-C")
            .arg(parent)
            .args(files.iter().map(|file| format!("{name}/{file}"))))
    }

    /// Creates an empty directory for the files of a package.
    fn stage(&self, parent: &Path, name: &str) -> Result<PathBuf, StepFailure> {
        let stage = parent.join(name);
        if stage.exists() {
            fs_err::remove_dir_all(&stage)?;
        }
        create_readable(&stage)?;
        Ok(stage)
    }

    fn checksums(&self) -> Result<(), StepFailure> {
        let names = names_in(&self.output)?;
        let sums = output_of(Command::new("sha256sum").args(&names).current_dir(&self.output))?;
        put(&sums, &self.output.join("SHA256SUMS"), 0o644)?;
        for name in names {
            let bytes = fs_err::metadata(self.output.join(&name))?.len();
            say(&format!("{:>6.1} MB  {name}", bytes as f64 / 1e6));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn unpacking_the_archive_changes_no_directory() {
        let folder = tempfile::tempdir().unwrap();
        let [target, output, prefix] = ["target", "output", "prefix"].map(|name| folder.path().join(name));
        for path in [output.clone(), prefix.join("bin"), prefix.join("share"), folder.path().join("man")] {
            fs_err::create_dir_all(path).unwrap();
        }
        let shared = std::fs::Permissions::from_mode(0o2775);
        fs_err::set_permissions(prefix.join("bin"), shared).unwrap();
        symlink("../../man", prefix.join("share/man")).unwrap();

        let (epoch, notices) = ("1".to_owned(), "notices".to_owned());
        let dist = Dist { is_quick: true, epoch, target, output: output.clone(), notices };
        dist.archive(Path::new("/bin/true"), "any").unwrap();
        let archive = output.join(format!("haul-{VERSION}-any-linux.tar.gz"));
        // The command of the README.
        let mut tar = Command::new("tar");
        tar.arg("-xf").arg(archive).arg("--strip-components=1").arg("-C").arg(&prefix);
        run(&mut tar).unwrap();
        let mode = |path: PathBuf| fs_err::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(prefix.join("bin")), mode(prefix.join("bin/haul"))), (0o2775, 0o755));
        assert!(prefix.join("share/man").is_symlink() && folder.path().join("man/man1/haul-cp.1").exists());
        assert!(prefix.join("bin/spdcp").is_symlink());
        let readme = fs_err::read_to_string(prefix.join("share/doc/haul/README.md")).unwrap();
        assert!(readme.contains("](CHANGELOG.md)") && !readme.contains("](docs/"), "{readme}");
        let notices = fs_err::read_to_string(prefix.join("share/doc/haul/THIRD-PARTY")).unwrap();
        assert_eq!(notices, "notices");
    }
}
