//! The packages that `cargo xtask dist` makes, installed in systems of their own.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use haul_packaging::{run, workspace};
use haul_testkit::{needs, require};

/// Builds the packages once, and returns their directory.
fn dist() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        run(Command::new(cargo).args(["xtask", "dist", "--quick"]).current_dir(workspace())).unwrap();
        target().join("dist")
    })
}

/// Checks that the static program can be built.
fn static_builds() -> Option<String> {
    needs::tool("musl-gcc").or_else(|| rust_target("x86_64-unknown-linux-musl"))
}

/// Checks that the program for aarch64 can be built, and started here.
fn aarch64_runs() -> Option<String> {
    let mut compiler = Command::new("aarch64-linux-gnu-gcc");
    let has_headers = run(compiler.args(["-E", "-include", "stdlib.h", "-x", "c", "/dev/null"])).is_ok();
    needs::tool("aarch64-linux-gnu-gcc")
        .or_else(|| (!has_headers).then(|| "needs C headers for aarch64".to_owned()))
        .or_else(|| rust_target("aarch64-unknown-linux-musl"))
        .or_else(|| needs::tool("qemu-aarch64"))
}

fn rust_target(name: &str) -> Option<String> {
    let folder = run(Command::new("rustc").args(["--print", "target-libdir", "--target", name]));
    let is_there = folder.is_ok_and(|folder| Path::new(folder.trim()).is_dir());
    (!is_there).then(|| format!("needs Rust's target {name}"))
}

fn target() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    // `target/debug/deps/packages-…`
    program.ancestors().nth(3).unwrap().to_owned()
}

fn found(ending: &str) -> PathBuf {
    let mut entries = std::fs::read_dir(dist()).unwrap().map(|entry| entry.unwrap().path());
    entries
        .find(|path| path.to_string_lossy().ends_with(ending))
        .unwrap_or_else(|| panic!("dist made no *{ending}"))
}

/// Returns a fresh copy of a minimal Debian, without Rust, in a temporary directory.
fn debian() -> (tempfile::TempDir, PathBuf) {
    static BASE: OnceLock<PathBuf> = OnceLock::new();
    let base = BASE.get_or_init(|| {
        let base = target().join("debian-12");
        if !base.is_dir() {
            let new = target().join("debian-12.new");
            run(Command::new("rm").arg("-rf").arg(&new)).unwrap();
            let mut debootstrap = Command::new("debootstrap");
            debootstrap.args(["--variant=minbase", "bookworm"]).arg(&new).args(mirror());
            run(&mut debootstrap).unwrap();
            std::fs::rename(new, &base).unwrap();
        }
        base
    });
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    run(Command::new("cp").arg("-a").arg(base).arg(&root)).unwrap();
    (folder, root)
}

/// Returns the archive from which apt installs on this machine, if apt says so.
fn mirror() -> Option<String> {
    let words = ["indextargets", "--format", "$(SITE)", "Created-By: Packages"];
    let text = run(Command::new("apt-get").args(words)).ok()?;
    text.lines().find(|site| !site.contains("security")).map(str::to_owned)
}

/// Runs a script in the root directory, with a `/proc` that goes away with it.
fn in_root(root: &Path, script: &str) -> Result<String, String> {
    let mut command = Command::new("unshare");
    let mut proc = std::ffi::OsString::from("--mount-proc=");
    proc.push(root.join("proc"));
    command.args(["--mount", "--pid", "--fork"]).arg(proc).arg("chroot").arg(root);
    command.args(["/bin/sh", "-ec", script]).env_clear();
    command.env("PATH", "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C");
    run(&mut command)
}

/// Puts the Debian packages in the root directory.
fn with_packages(root: &Path) {
    for package in ["haul", "haul-cp"] {
        let file = found(&format!("/{package}_{}_amd64.deb", env!("CARGO_PKG_VERSION")));
        std::fs::copy(file, root.join(format!("{package}.deb"))).unwrap();
    }
}

/// Copies a small tree and compares content, modes and links.
const COPY_AND_COMPARE: &str = "mkdir -p /tree/sub; echo text >/tree/file; ln -s file /tree/link
    head -c 300000 /dev/urandom >/tree/sub/large; chmod 640 /tree/sub/large
    haul cp -a /tree /copy; diff -r --no-dereference /tree /copy
    [ \"$(stat -c %a /copy/sub/large)\" = 640 ]; [ \"$(readlink /copy/link)\" = file ]";

#[test]
fn packages_install_copy_and_give_cp_back() {
    require!(needs::root(), needs::tool("debootstrap"), needs::tool("dpkg-deb"), static_builds());
    let (_folder, root) = debian();
    with_packages(&root);
    in_root(&root, "dpkg -i /haul.deb").unwrap();
    in_root(&root, COPY_AND_COMPARE).unwrap();
    let gnu = in_root(&root, "cp --version; sha256sum </bin/cp").unwrap();
    assert!(gnu.contains("GNU coreutils"), "{gnu}");

    in_root(&root, "dpkg -i /haul-cp.deb").unwrap();
    let haul = in_root(&root, "cp --version; readlink /bin/cp").unwrap();
    assert!(haul.contains("haul") && haul.ends_with("/usr/bin/haul\n"), "{haul}");
    // Installing it again changes nothing.
    in_root(&root, "dpkg -i /haul-cp.deb; cp.gnu --version | grep -q GNU").unwrap();
    in_root(&root, "dpkg --remove haul-cp").unwrap();
    assert_eq!(in_root(&root, "cp --version; sha256sum </bin/cp").unwrap(), gnu);
    in_root(&root, "test -z \"$(dpkg-divert --list '*cp*')\"; test ! -e /bin/cp.gnu").unwrap();
}

#[test]
fn an_interrupted_removal_leaves_a_cp_and_can_be_repeated() {
    require!(needs::root(), needs::tool("debootstrap"), needs::tool("dpkg-deb"), static_builds());
    let (_folder, root) = debian();
    with_packages(&root);
    let gnu = in_root(&root, "sha256sum </bin/cp").unwrap();
    in_root(&root, "dpkg -i /haul.deb /haul-cp.deb").unwrap();
    // Ends the script before each of its steps, as if it had been killed there.
    for step in ["rm -f", "mv -fT", "dpkg-divert --package"] {
        let script = format!(
            "sed 's|^ *{step}|exit 9; &|' /var/lib/dpkg/info/haul-cp.prerm >/broken
             status=0; sh /broken remove || status=$?; [ $status = 9 ]; cp /haul.deb /somewhere"
        );
        in_root(&root, &script).unwrap();
    }
    in_root(&root, "dpkg --remove haul-cp").unwrap();
    assert_eq!(in_root(&root, "sha256sum </bin/cp").unwrap(), gnu);
    in_root(&root, "test -z \"$(dpkg-divert --list '*cp*')\"; test ! -e /bin/cp.gnu").unwrap();
}

#[test]
fn a_cp_that_is_a_link_comes_back() {
    require!(needs::root(), needs::tool("debootstrap"), needs::tool("dpkg-deb"), static_builds());
    let (_folder, root) = debian();
    with_packages(&root);
    let move_away = "mkdir /usr/lib/multi; mv /bin/cp /usr/lib/multi; ln -s ../lib/multi/cp /usr/bin/cp";
    in_root(&root, move_away).unwrap();
    in_root(&root, "dpkg -i /haul.deb /haul-cp.deb; dpkg -i /haul-cp.deb").unwrap();
    let links = in_root(&root, "readlink /bin/cp; readlink /bin/cp.gnu").unwrap();
    assert_eq!(links, "/usr/bin/haul\n../lib/multi/cp\n");
    in_root(&root, "dpkg --remove haul-cp").unwrap();
    assert_eq!(in_root(&root, "readlink /bin/cp").unwrap(), "../lib/multi/cp\n");
    in_root(&root, "cp --version | grep -q GNU; test ! -L /bin/cp.gnu").unwrap();
}

#[test]
fn a_removal_that_fails_leaves_haul_as_cp() {
    require!(needs::root(), needs::tool("debootstrap"), needs::tool("dpkg-deb"), static_builds());
    let (_folder, root) = debian();
    with_packages(&root);
    in_root(&root, "dpkg -i /haul.deb /haul-cp.deb").unwrap();
    let is_haul = "[ $(readlink /bin/cp) = /usr/bin/haul ]; dpkg-divert --list '*cp' | grep -q haul-cp";
    let refused = in_root(&root, "mv /bin/cp.gnu /gnu; dpkg --remove haul-cp").unwrap_err();
    assert!(refused.contains("/bin/cp.gnu is missing"), "{refused}");
    in_root(&root, is_haul).unwrap();
    // dpkg runs the other script after a failure, here of the last step.
    let script = "mv /gnu /bin/cp.gnu; cd /var/lib/dpkg/info; cp.gnu haul-cp.prerm /prerm
        sed 's|^ *dpkg-divert --package|exit 9; &|' /prerm >haul-cp.prerm";
    in_root(&root, script).unwrap();
    in_root(&root, "dpkg --remove haul-cp").unwrap_err();
    in_root(&root, is_haul).unwrap();
    in_root(&root, "cp.gnu --version | grep -q GNU").unwrap();
    in_root(&root, "cat /prerm >/var/lib/dpkg/info/haul-cp.prerm; dpkg --remove haul-cp").unwrap();
    in_root(&root, "cp --version | grep -q GNU").unwrap();
}

#[test]
fn a_cp_gnu_of_somebody_else_stays() {
    require!(needs::root(), needs::tool("debootstrap"), needs::tool("dpkg-deb"), static_builds());
    let (_folder, root) = debian();
    with_packages(&root);
    in_root(&root, "dpkg -i /haul.deb; cp /bin/cp /saved").unwrap();
    // What the administrator has done, what haul-cp says, what must hold afterwards, and how the
    // administrator takes it back.
    let cases = [
        (
            "mv /bin/cp /bin/cp.gnu; ln -s haul /bin/cp",
            "/bin/cp.gnu exists",
            "cmp /bin/cp.gnu /saved; [ $(readlink /bin/cp) = haul ]",
            "mv -T /bin/cp.gnu /bin/cp",
        ),
        (
            "echo own >/bin/cp.gnu",
            "/bin/cp.gnu exists",
            "[ $(cat /bin/cp.gnu) = own ]; cmp /bin/cp /saved",
            "rm /bin/cp.gnu",
        ),
        (
            "ln -s nowhere /bin/cp.gnu",
            "/bin/cp.gnu exists",
            "[ $(readlink /bin/cp.gnu) = nowhere ]; cmp /bin/cp /saved",
            "rm /bin/cp.gnu",
        ),
        (
            "ln -sf haul /bin/cp",
            "/bin/cp is haul already",
            "[ $(readlink /bin/cp) = haul ]; test ! -e /bin/cp.gnu",
            "rm /bin/cp; cat /saved >/bin/cp; chmod 755 /bin/cp",
        ),
        (
            "dpkg-divert --package other --no-rename --divert /bin/cp.other --add /bin/cp",
            "clashes with",
            "test ! -e /bin/cp.gnu; cmp /bin/cp /saved",
            "dpkg-divert --package other --no-rename --remove /bin/cp",
        ),
    ];
    for (change, message, holds, take_back) in cases {
        in_root(&root, change).unwrap();
        let refused = in_root(&root, "dpkg -i /haul-cp.deb").unwrap_err();
        assert!(refused.contains(message), "{change}: {refused}");
        in_root(&root, holds).unwrap_or_else(|error| panic!("{change}: {error}"));
        in_root(&root, "dpkg --purge haul-cp").unwrap();
        in_root(&root, holds).unwrap_or_else(|error| panic!("{change}, purged: {error}"));
        in_root(&root, take_back).unwrap();
    }
    in_root(&root, "dpkg -i /haul-cp.deb; dpkg --purge haul-cp; cmp /bin/cp /saved").unwrap();
}

/// Packs the coreutils of a system again, with all that is in `/bin` in `/usr/bin`. Debian has
/// moved it so between two releases.
const PACK_MOVED: &str = "root=$1 stage=$2
    mkdir -p $stage/DEBIAN
    chroot $root dpkg -L coreutils | sed -e 's|^/||' -e '/^[.]$/d' -e '/^bin$/d' >$stage.list
    tar -C $root --no-recursion --transform='flags=r;s|^bin/|usr/bin/|' -c -T $stage.list |
        tar -C $stage -x
    printf '%s\n' 'Package: coreutils' 'Version: 99' 'Essential: yes' 'Architecture: amd64' \
        'Maintainer: Nobody <nobody@localhost>' 'Description: moved' >$stage/DEBIAN/control
    dpkg-deb --root-owner-group --build $stage $root/coreutils.deb";

#[test]
fn an_upgrade_that_moves_cp_keeps_haul_as_cp() {
    require!(needs::root(), needs::tool("debootstrap"), needs::tool("dpkg-deb"), static_builds());
    let (folder, root) = debian();
    with_packages(&root);
    let mut pack = Command::new("sh");
    run(pack.args(["-ec", PACK_MOVED, "sh"]).arg(&root).arg(folder.path().join("stage"))).unwrap();
    in_root(&root, "dpkg -i /haul.deb /haul-cp.deb; dpkg-query -S /bin/cp; dpkg -i /coreutils.deb").unwrap();
    let now = in_root(&root, "readlink /bin/cp; dpkg-divert --list '*cp'").unwrap();
    assert_eq!(now, "/usr/bin/haul\ndiversion of /usr/bin/cp to /usr/bin/cp.gnu by haul-cp\n");
    in_root(&root, "cp.gnu --version | grep -q GNU; dpkg --remove haul-cp").unwrap();
    in_root(&root, "cp --version | grep -q GNU; test ! -e /bin/cp.gnu").unwrap();
    in_root(&root, "test -z \"$(dpkg-divert --list '*cp*')\"").unwrap();
}

#[test]
fn the_archive_runs_where_nothing_is_installed() {
    require!(needs::root(), needs::tool("debootstrap"), static_builds());
    let (_folder, root) = debian();
    let archive = found("-x86_64-linux.tar.gz");
    let mut tar = Command::new("tar");
    tar.args(["--strip-components=1", "-xf"]).arg(archive).arg("-C").arg(root.join("usr/local"));
    run(&mut tar).unwrap();
    in_root(&root, COPY_AND_COMPARE).unwrap();
    let refused = in_root(&root, "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 haul cp /tree/file /b");
    let why = "this build of haul is static and can't load MPI; use the build for glibc";
    assert!(refused.as_ref().is_err_and(|text| text.contains(why)), "{refused:?}");
    // Not in the words of the C library that it is linked with.
    let refused = in_root(&root, "ln -s loop /loop; haul cp /loop /b");
    let why = "cannot stat '/loop': Too many levels of symbolic links";
    assert!(refused.as_ref().is_err_and(|text| text.contains(why)), "{refused:?}");
}

#[test]
fn the_program_for_aarch64_copies_in_an_emulator() {
    require!(static_builds(), aarch64_runs());
    let folder = tempfile::tempdir().unwrap();
    let mut tar = Command::new("tar");
    run(tar.arg("-xf").arg(found("-aarch64-linux.tar.gz")).arg("-C").arg(folder.path())).unwrap();
    let program = folder.path().join(format!("haul-{}-aarch64-linux/bin/haul", env!("CARGO_PKG_VERSION")));
    // Without an interpreter, so no library of aarch64 is needed here.
    let headers = run(Command::new("readelf").args(["-lh", "-W"]).arg(&program)).unwrap();
    assert!(headers.contains("AArch64") && !headers.contains("INTERP"), "{headers}");
    let haul = |words: &str| {
        let mut command = Command::new("qemu-aarch64");
        run(command.arg(&program).args(words.split(' ')).current_dir(folder.path()))
    };
    assert!(haul("--version").unwrap().starts_with("haul "));

    let tree = folder.path().join("tree");
    std::fs::create_dir_all(tree.join("sub")).unwrap();
    std::fs::write(tree.join("sub/large"), vec![7; 3_000_001]).unwrap();
    std::fs::write(tree.join("small"), "text").unwrap();
    std::os::unix::fs::symlink("small", tree.join("link")).unwrap();
    haul("cp -a tree copy").unwrap();
    let mut diff = Command::new("diff");
    run(diff.args(["-r", "--no-dereference", "tree", "copy"]).current_dir(folder.path())).unwrap();
    haul("cmp tree/sub/large copy/sub/large").unwrap();
    assert!(haul("cmp tree/small copy/sub/large").is_err());
    // Needs PCRE2's compiler: its interpreter exceeds the limit of memory here.
    std::fs::write(tree.join("line"), "ab".repeat(1 << 19)).unwrap();
    assert_eq!(haul("grep -cP ^(a|b)+$ tree/line").unwrap(), "1\n");
    // The emulator has no io_uring.
    let refused = haul("cp --engine=io-uring tree/small new").unwrap_err();
    assert!(refused.contains("cannot use the engine 'io-uring'"), "{refused}");
}

#[test]
fn functions_of_a_small_copy_are_side_by_side() {
    require!(needs::tool("dpkg-deb"), needs::tool("readelf"), static_builds());
    let folder = tempfile::tempdir().unwrap();
    let package = found(&format!("/haul_{}_amd64.deb", env!("CARGO_PKG_VERSION")));
    run(Command::new("dpkg-deb").arg("-x").arg(package).arg(folder.path())).unwrap();
    let archive = found("-x86_64-linux.tar.gz");
    let mut tar = Command::new("tar");
    run(tar.args(["--strip-components=1", "-xf"]).arg(archive).arg("-C").arg(folder.path())).unwrap();
    for program in ["usr/bin/haul", "bin/haul"] {
        let program = folder.path().join(program);
        let sections = run(Command::new("readelf").args(["--sections", "--wide"]).arg(&program)).unwrap();
        // Type, address, offset and size follow the name.
        let section =
            sections.lines().find_map(|line| line.split_once(" .text.start ")).map(|(_, rest)| rest);
        let size = section.and_then(|rest| rest.split_whitespace().nth(3)).unwrap_or("0");
        let size = u64::from_str_radix(size, 16).unwrap();
        // Half a megabyte in a release. Most names match in a build with little optimisation, too.
        assert!(size > 200_000, "{}: {size} bytes", program.display());
    }
}

#[test]
fn shells_find_completions_by_every_name_of_haul() {
    require!(needs::tool("dpkg-deb"), needs::tool("zsh"), needs::tool("fish"), static_builds());
    let folder = tempfile::tempdir().unwrap();
    for package in ["haul", "haul-cp"] {
        let package = found(&format!("/{package}_{}_amd64.deb", env!("CARGO_PKG_VERSION")));
        run(Command::new("dpkg-deb").arg("-x").arg(package).arg(folder.path())).unwrap();
    }
    let user = folder.path().join("usr");
    std::os::unix::fs::symlink("haul", user.join("bin/cp")).unwrap();
    let zsh = "fpath=($1 $fpath); autoload -Uz compinit; compinit -u -D
        print -r -- $_comps[haul] $_comps[cp] $_comps[spdcp]";
    let mut zsh_shell = Command::new("zsh");
    zsh_shell.args(["-f", "-c", zsh, "zsh"]).arg(user.join("share/zsh/vendor-completions"));
    assert_eq!(run(&mut zsh_shell).unwrap(), "_haul _haul-cp _haul-spdcp\n");

    let path = std::env::var("PATH").unwrap();
    for (line, option) in [("cp --bwl", "--bwlimit"), ("haul cp --bwl", "--bwlimit")] {
        let mut fish = Command::new("fish");
        let script = format!("set fish_complete_path $argv[1] $fish_complete_path; complete -C '{line}'");
        fish.args(["--no-config", "-c", &script]).arg(user.join("share/fish/vendor_completions.d"));
        fish.env("PATH", format!("{}:{path}", user.join("bin").display())).env("HOME", folder.path());
        let offered = run(&mut fish).unwrap();
        assert!(offered.starts_with(option), "{line}: {offered}");
    }
    for name in ["cp", "spdcp"] {
        let bash = std::fs::read_to_string(user.join("share/bash-completion/completions").join(name));
        assert!(bash.unwrap().contains(&format!("_haul {name}\n")), "{name}");
    }
}

#[test]
fn the_rpm_installs_runs_and_goes() {
    require!(needs::root(), needs::tool("debootstrap"), needs::tool("rpmbuild"), static_builds());
    let (_folder, root) = debian();
    let rpm = |words: &[&str]| {
        let mut command = Command::new("rpm");
        command.arg("--root").arg(&root).args(["--dbpath", "/var/lib/rpm"]).args(words);
        command
    };
    run(rpm(&["--nodeps", "--install"]).arg(found(".rpm"))).unwrap();
    in_root(&root, COPY_AND_COMPARE).unwrap();
    run(&mut rpm(&["--erase", "haul"])).unwrap();
    in_root(&root, "test ! -e /usr/bin/haul; test ! -e /usr/share/doc/haul").unwrap();
}

#[test]
fn lintian_finds_nothing() {
    require!(needs::tool("lintian"), needs::tool("dpkg-deb"), static_builds());
    let packages = ["haul", "haul-cp"]
        .map(|package| found(&format!("/{package}_{}_amd64.deb", env!("CARGO_PKG_VERSION"))));
    let words = ["--allow-root", "--fail-on", "error,warning"];
    run(Command::new("lintian").args(words).args(packages)).unwrap();
}

#[test]
fn checksums_and_components_are_complete() {
    require!(needs::tool("python3"), static_builds());
    run(Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(dist())).unwrap();
    let read = "import json, sys
sbom = json.load(open(sys.argv[1]))
assert (sbom['bomFormat'], sbom['specVersion']) == ('CycloneDX', '1.5')
names = {c['name'] for c in sbom['components']}
assert {'haul-copy', 'libc', 'zstd-sys'} <= names, names
assert all(c['type'] and c['name'] and c['licenses'] for c in sbom['components'])
refs = {c['bom-ref'] for c in sbom['components']} | {sbom['metadata']['component']['bom-ref']}
assert len(refs) == len(sbom['components']) + 1
assert all(d['ref'] in refs and set(d['dependsOn']) <= refs for d in sbom['dependencies'])";
    run(Command::new("python3").args(["-c", read]).arg(found(".cdx.json"))).unwrap();
}

#[test]
fn another_checkout_of_the_same_commit_gives_the_same_bytes() {
    require!(needs::full_run());
    require!(static_builds());
    let changes = run(Command::new("git").args(["status", "--porcelain"]).current_dir(workspace())).unwrap();
    require!((!changes.is_empty()).then(|| "needs a checkout without changes".to_owned()));
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("elsewhere");
    run(Command::new("git").args(["clone", "--quiet"]).arg(workspace()).arg(&other)).unwrap();
    let mut dist_there = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    dist_there.args(["xtask", "dist", "--quick"]).current_dir(&other);
    run(dist_there.env("CARGO_TARGET_DIR", other.join("target"))).unwrap();
    let sums = |folder: &Path| std::fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    assert_eq!(sums(dist()), sums(&other.join("target/dist")));
}
