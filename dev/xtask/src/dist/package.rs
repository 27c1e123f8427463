//! Packages for dpkg and rpm, made without root from the recipes in `packaging`.

use std::path::Path;
use std::process::Command;

use super::{Dist, NOTICES, VERSION, document};
use crate::install::{InstallLayout, complete, lay_out, put};
use crate::steps::{StepFailure, is_installed, output_of, run, say, workspace};

const DEB_LAYOUT: InstallLayout = InstallLayout { zsh: "share/zsh/vendor-completions", is_compressed: true };

/// Makes each kind of package whose tools are installed.
pub(super) fn packages(dist: &Dist, binary: &Path) -> Result<(), StepFailure> {
    if is_installed("dpkg-deb") {
        haul_deb(dist, binary)?;
        haul_cp_deb(dist)?;
    } else {
        say("left out: .deb, which needs dpkg-deb");
    }
    if is_installed("rpmbuild") {
        rpm(dist, binary)
    } else {
        say("left out: .rpm, which needs rpmbuild");
        Ok(())
    }
}

fn recipe(name: &str) -> Result<String, StepFailure> {
    Ok(fs_err::read_to_string(workspace().join("packaging").join(name))?)
}

fn haul_deb(dist: &Dist, binary: &Path) -> Result<(), StepFailure> {
    let stage = dist.stage(&dist.target.join("dist-work"), "deb-haul")?;
    lay_out(binary, &stage.join("usr"), &DEB_LAYOUT)?;
    put(dist.notices.as_bytes(), &stage.join("usr/share/doc/haul").join(NOTICES), 0o644)?;
    let control = recipe("debian/haul.control")?.replace("@GLIBC@", &glibc_of(binary)?);
    deb(dist, &stage, "haul", &control)
}

fn haul_cp_deb(dist: &Dist) -> Result<(), StepFailure> {
    let stage = dist.stage(&dist.target.join("dist-work"), "deb-haul-cp")?;
    for script in ["postinst", "prerm"] {
        let text = recipe(&format!("debian/haul-cp.{script}"))?;
        put(text.as_bytes(), &stage.join("DEBIAN").join(script), 0o755)?;
    }
    put(recipe("debian/haul-cp.triggers")?.as_bytes(), &stage.join("DEBIAN/triggers"), 0o644)?;
    complete(&stage.join("usr"), "cp", &DEB_LAYOUT)?;
    deb(dist, &stage, "haul-cp", &recipe("debian/haul-cp.control")?)
}

/// Adds what every package has, and builds it.
fn deb(dist: &Dist, stage: &Path, package: &str, control: &str) -> Result<(), StepFailure> {
    let documents = stage.join("usr/share/doc").join(package);
    let licence = fs_err::read_to_string(workspace().join("LICENSE-MIT"))?;
    let lines = licence.lines().map(|line| if line.is_empty() { " .".into() } else { format!(" {line}") });
    let licence = lines.collect::<Vec<_>>().join("\n");
    let copyright = recipe("debian/copyright")?.replace("@MIT@", &licence);
    put(copyright.as_bytes(), &documents.join("copyright"), 0o644)?;
    let overrides = recipe(&format!("debian/{package}.lintian-overrides"))?;
    put(overrides.as_bytes(), &stage.join("usr/share/lintian/overrides").join(package), 0o644)?;
    let date = output_of(Command::new("date").args(["-uR", "-d", &format!("@{}", dist.epoch)]))?;
    let date = String::from_utf8_lossy(&date).trim().to_owned();
    let maintainer = control.lines().find_map(|line| line.strip_prefix("Maintainer: ")).unwrap_or_default();
    let changes = format!(
        "haul ({VERSION}) unstable; urgency=medium\n\n  * Release {VERSION}.\n\n -- {maintainer}  {date}\n"
    );
    put(changes.as_bytes(), &documents.join("changelog"), 0o644)?;
    run(Command::new("gzip").arg("-9n").arg(documents.join("changelog")))?;
    let size = output_of(Command::new("du").args(["-sk", "--apparent-size"]).arg(stage))?;
    let size = String::from_utf8_lossy(&size);
    let control = control
        .replace("@VERSION@", VERSION)
        .replace("@ARCH@", "amd64")
        .replace("@SIZE@", size.split_whitespace().next().unwrap_or("0"));
    put(control.as_bytes(), &stage.join("DEBIAN/control"), 0o644)?;
    let sums = "find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum";
    let sums = output_of(Command::new("sh").args(["-c", sums]).current_dir(stage))?;
    put(&sums, &stage.join("DEBIAN/md5sums"), 0o644)?;
    run(Command::new("chmod").args(["-R", "u+rwX,go+rX,go-w"]).arg(stage))?;
    run(Command::new("dpkg-deb")
        .env("SOURCE_DATE_EPOCH", &dist.epoch)
        .args(["--root-owner-group", "-Zxz", "--build"])
        .arg(stage)
        .arg(dist.output.join(format!("{package}_{VERSION}_amd64.deb"))))
}

/// Returns the oldest glibc that has all symbols the program needs.
fn glibc_of(binary: &Path) -> Result<String, StepFailure> {
    let text = output_of(Command::new("objdump").arg("-T").arg(binary))?;
    let text = String::from_utf8_lossy(&text);
    let versions = text.split("GLIBC_").skip(1).filter_map(|rest| {
        let version = rest.split(|letter: char| letter != '.' && !letter.is_ascii_digit()).next()?;
        version.split('.').map(|part| part.parse::<u32>().ok()).collect::<Option<Vec<_>>>()
    });
    let newest = versions.max().ok_or_else(|| StepFailure("the program needs no glibc".to_owned()))?;
    Ok(newest.iter().map(u32::to_string).collect::<Vec<_>>().join("."))
}

fn rpm(dist: &Dist, binary: &Path) -> Result<(), StepFailure> {
    let top = dist.stage(&dist.target.join("dist-work"), "rpm")?;
    let stage = top.join("stage");
    let layout = InstallLayout { zsh: "share/zsh/site-functions", is_compressed: true };
    lay_out(binary, &stage.join("usr"), &layout)?;
    for (file, folder) in [
        ("README.md", "doc"),
        ("CHANGELOG.md", "doc"),
        ("LICENSE-APACHE", "licenses"),
        ("LICENSE-MIT", "licenses"),
    ] {
        let path = stage.join("usr/share").join(folder).join("haul").join(file);
        // The licences are elsewhere.
        put(document(file, &["README.md", "CHANGELOG.md"])?.as_bytes(), &path, 0o644)?;
    }
    put(dist.notices.as_bytes(), &stage.join("usr/share/licenses/haul").join(NOTICES), 0o644)?;
    let define = |name: &str, value: &str| [String::from("--define"), format!("{name} {value}")];
    run(Command::new("rpmbuild")
        .env("SOURCE_DATE_EPOCH", &dist.epoch)
        .arg("-bb")
        .args(define("_topdir", &top.to_string_lossy()))
        .args(define("_rpmdir", &dist.output.to_string_lossy()))
        .args(define("_build_name_fmt", "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm"))
        .args(define("stage", &stage.to_string_lossy()))
        .args(define("haul_version", VERSION))
        .arg(workspace().join("packaging/rpm/haul.spec")))
}
