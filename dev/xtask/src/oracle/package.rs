//! Builds Debian packages under `fakeroot` with haul as `cp`, and compares them with
//! builds using GNU cp.
//!
//! `fakeroot` replaces functions of the C library and remembers owners, modes and device numbers
//! that an ordinary user can't set. A `cp` that bypasses the library copies what is really on disk,
//! and exits with 0. So an ordinary user builds two packages: one of Debian's, and one whose rules
//! copy what exists only under fakeroot.
//!
//! Promise: haul was called as often as GNU cp, and the packages are identical byte for byte.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use fs_err as fs;

use super::build::quietly;
use super::fetch;
use super::ground::become_user;
use super::options::User;
use crate::steps::{StepFailure, is_installed, output_of, run, say};

pub(crate) const NAME: &str = "package";

/// The Debian package. Its build compiles nothing, and copies with `cp -a`.
const DEBIANS: &str = "base-files";

/// Programs needed for the build, from the Debian packages fakeroot, dpkg-dev and debhelper.
const NEEDS: [&str; 4] = ["fakeroot", "dpkg-source", "dpkg-deb", "dh"];

/// Rules of a package whose files have owners and types that only fakeroot can provide.
const RULES: &str = r"#!/bin/sh
set -e
mkdir -p stage/usr/bin stage/dev stage/var/mail stage/home package/DEBIAN
echo tool >stage/usr/bin/tool && chown 0:42 stage/usr/bin/tool && chmod 2755 stage/usr/bin/tool
echo daemon >stage/usr/bin/daemon && chown 5:6 stage/usr/bin/daemon && chmod 4750 stage/usr/bin/daemon
ln stage/usr/bin/tool stage/usr/bin/linked
ln -s tool stage/usr/bin/named && chown -h 7:8 stage/usr/bin/named
mknod stage/dev/null c 1 3 && mknod stage/dev/disk b 8 0 && mkfifo stage/dev/pipe && chown 9:10 stage/dev/*
chown 0:8 stage/var/mail && chmod 2775 stage/var/mail && chown 1000:1000 stage/home && chmod 700 stage/home
touch -d @1000000000 stage/usr/bin/* stage/dev/*
cp -a stage/. package
cp -p stage/usr/bin/daemon package/usr/bin/again
cp -a stage/dev/null package/dev/zero
cp -rp stage/dev package/home
cp --preserve=mode,ownership -R stage/var package/home
cp -a package/usr package/home
cp stage/usr/bin/tool package/home/plain
cat >package/DEBIAN/control <<END
Package: made
Version: 1
Architecture: all
Maintainer: nobody <nobody@localhost>
Description: files that only fakeroot can make
END
dpkg-deb --build package ../made_1_all.deb
";

/// Where the packages are built, and with which programs.
pub(crate) struct Builder<'a> {
    /// Directory for the builds, accessible to an ordinary user.
    pub(crate) folder: PathBuf,
    pub(crate) baseline: &'a Path,
    pub(crate) haul: &'a Path,
}

struct Built {
    file: PathBuf,
    calls: usize,
}

impl Builder<'_> {
    /// Builds and compares both packages. Sources are fetched to `archive`.
    pub(crate) fn check(&self, archive: &Path) -> Result<(), StepFailure> {
        let missing: Vec<_> = NEEDS.into_iter().filter(|program| !is_installed(program)).collect();
        if !missing.is_empty() {
            say(&format!("SKIPPED {NAME}: needs the commands {}", missing.join(", ")));
            return Ok(());
        }
        self.compare("made", &|source| {
            fs::create_dir_all(source.join("debian"))?;
            fs::write(source.join("debian/rules"), RULES)?;
            fs::set_permissions(source.join("debian/rules"), Permissions::from_mode(0o755))?;
            Ok(())
        })?;
        match fetch::source(archive, DEBIANS) {
            Ok(description) => self.compare(DEBIANS, &|source| {
                let mut unpack = Command::new("dpkg-source");
                unpack.args(["--no-check", "--extract"]).arg(&description).arg(source);
                quietly(&mut unpack, &source.with_extension("log"))
            }),
            Err(reason) => {
                say(&format!("SKIPPED {NAME} {DEBIANS}: {reason}"));
                Ok(())
            }
        }
    }

    fn compare(
        &self,
        name: &str,
        unpack: &dyn Fn(&Path) -> Result<(), StepFailure>,
    ) -> Result<(), StepFailure> {
        let baseline = self.build(name, "baseline", self.baseline, unpack)?;
        let haul = self.build(name, "haul", self.haul, unpack)?;
        if baseline.calls == 0 || haul.calls != baseline.calls {
            let calls = format!("{} calls of cp, {} with GNU's", haul.calls, baseline.calls);
            return Err(StepFailure(format!("package {name}: {calls}")));
        }
        if fs::read(&baseline.file)? == fs::read(&haul.file)? {
            say(&format!("package {name}: the same with haul and with GNU cp, {} calls each", haul.calls));
            return Ok(());
        }
        let (expected, found) = (listing(&baseline.file)?, listing(&haul.file)?);
        let only = |these: &[String], those: &[String]| {
            these.iter().filter(|line| !those.contains(line)).cloned().collect::<Vec<_>>().join("\n    ")
        };
        let (missing, extra) = (only(&expected, &found), only(&found, &expected));
        say(&format!("package {name}, only with GNU cp:\n    {missing}\n  only with haul:\n    {extra}"));
        Err(StepFailure(format!("package {name}: {} differs from GNU's", haul.file.display())))
    }

    /// Builds a package at the same path for every `cp`, then moves it away.
    fn build(
        &self,
        name: &str,
        program_name: &str,
        program: &Path,
        unpack: &dyn Fn(&Path) -> Result<(), StepFailure>,
    ) -> Result<Built, StepFailure> {
        let place = self.folder.join(name);
        if place.exists() {
            fs::remove_dir_all(&place)?;
        }
        let (tools, calls) = (place.join("tools"), place.join("calls"));
        fs::create_dir_all(&tools)?;
        let wrapper = format!(
            "#!/bin/bash\necho \"$*\" >>'{}'\nexec -a cp '{}' \"$@\"\n",
            calls.display(),
            program.display()
        );
        fs::write(tools.join("cp"), wrapper)?;
        fs::set_permissions(tools.join("cp"), Permissions::from_mode(0o755))?;
        let source = place.join("source");
        unpack(&source)?;
        let mut words = become_user(User::Plain);
        if !words.is_empty() {
            run(Command::new("chown").args(["-R", "65534:65534"]).arg(&place))?;
        }
        words.extend(["fakeroot", "debian/rules", "binary"]);
        let Some((first, rest)) = words.split_first() else { return Err(StepFailure(String::new())) };
        let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", tools.display());
        let mut command = Command::new(first);
        command.args(rest).current_dir(&source).env_clear();
        command.envs([("PATH", path.as_str()), ("HOME", "/"), ("LC_ALL", "C")]);
        command.env("SOURCE_DATE_EPOCH", "1500000000");
        quietly(&mut command, &self.folder.join(format!("{name}-{program_name}.log")))?;
        let calls = fs::read_to_string(&calls).unwrap_or_default().lines().count();
        let file = self.folder.join(format!("{name}-{program_name}.deb"));
        fs::rename(package_in(&place)?, &file)?;
        Ok(Built { file, calls })
    }
}

/// Finds the package that was built in a directory.
fn package_in(folder: &Path) -> Result<PathBuf, StepFailure> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            return Ok(path);
        }
    }
    Err(StepFailure(format!("no package was built in {}", folder.display())))
}

/// Lists a package's control fields and files, with owners, modes and times.
fn listing(package: &Path) -> Result<Vec<String>, StepFailure> {
    let mut lines = Vec::new();
    for what in ["--field", "--contents"] {
        let text = output_of(Command::new("dpkg-deb").arg(what).arg(package))?;
        lines.extend(String::from_utf8_lossy(&text).lines().map(str::to_owned));
    }
    Ok(lines)
}
