//! The recipes in `packaging/`: their syntax, their version, what they install, and what the
//! environment modules set. packaging/README.md says what else was checked by hand.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use haul_packaging::{run, workspace};
use haul_testkit::{needs, require};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Recipes that build haul, with the line that has its version.
const RECIPES: [(&str, &str); 6] = [
    ("spack/package.py", "version(\"VERSION\", "),
    ("easybuild/haul-VERSION-GCCcore-14.3.0.eb", "version = 'VERSION'\n"),
    ("nix/flake.nix", "version = \"VERSION\";\n"),
    ("homebrew/haul.rb", "/haul-VERSION.tar.gz\"\n"),
    ("conda/recipe.yaml", "  version: \"VERSION\"\n"),
    ("arch/PKGBUILD", "pkgver=VERSION\n"),
];

/// Other files with the version, and the text that has it.
const OTHERS: [(&str, &str); 5] = [
    ("../CITATION.cff", "\nversion: VERSION\n"),
    ("../CHANGELOG.md", "\n## VERSION"),
    ("../README.md", " haul-VERSION-x86_64-linux.tar.gz "),
    ("../docs/library.md", "@|VERSION|\" crates/capi/"),
    ("../node/package.json", "\n  \"version\": \"VERSION\",\n"),
];

/// Environment modules of an installed haul.
const LMOD: &str = "modules/lmod/haul/VERSION.lua";
const TCL: &str = "modules/tcl/haul/VERSION";

/// Files that recipes may expect to be installed, each with the source file it comes from.
const INSTALLED: [(&str, &str); 4] = [
    ("share/man/man1/haul.1", "docs/man/haul.1"),
    ("share/bash-completion/completions/haul", "completions/haul.bash"),
    ("share/fish/vendor_completions.d/haul.fish", "completions/haul.fish"),
    ("share/zsh/site-functions/_haul", "completions/_haul"),
];

/// Prints the arguments of each function that a module file calls.
const LMOD_SHOW: &str = "
    function show(name) return function(...) print(name, ...) end end
    help, whatis = show('help'), show('whatis')
    prepend_path, append_path = show('prepend'), show('append')
    function pathJoin(...) return table.concat({...}, '/') end
    dofile(arg[1])";
const TCL_SHOW: &str = "
    foreach {word name} {module-whatis whatis prepend-path prepend append-path append} {
        proc $word args \"puts \\[join \\[linsert \\$args 0 $name] \\\\t]\"
    }
    source [lindex $argv 0]
    ModulesHelp";

fn path(name: &str) -> PathBuf {
    workspace().join("packaging").join(name.replace("VERSION", VERSION))
}

fn text(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name} of version {VERSION}: {error}"))
}

#[test]
fn the_version_is_that_of_the_workspace() {
    for (name, line) in RECIPES {
        let text = text(name);
        assert!(text.contains(&line.replace("VERSION", VERSION)), "{name} is of another version");
        for (at, begin) in text.match_indices("haul-") {
            let rest = &text[at + begin.len()..];
            let is_version = rest.starts_with(|first: char| first.is_ascii_digit());
            assert!(!is_version || rest.starts_with(VERSION), "{name} names another version");
        }
    }
    for name in [LMOD, TCL] {
        assert!(text(name).contains(&format!("Version: {VERSION}\"")), "{name}");
    }
    for (name, version) in OTHERS {
        assert!(text(name).contains(&version.replace("VERSION", VERSION)), "{name} is of another version");
    }
}

#[test]
fn the_address_of_the_source_is_in_one_place() {
    for (name, _) in RECIPES {
        let text = text(name);
        assert_eq!(text.matches("@SOURCE_ADDRESS@").count(), 1, "{name}");
        // Nix keeps the checksum in flake.lock.
        let checksums = usize::from(!name.starts_with("nix"));
        assert_eq!(text.matches("@SOURCE_SHA256@").count(), checksums, "{name}");
        assert!(!text.contains("://"), "{name} has an address of its own");
    }
    for name in [LMOD, TCL] {
        assert_eq!(text(name).matches("@PREFIX@").count(), 1, "{name}");
    }
}

#[test]
fn every_recipe_installs_by_the_same_command_what_exists() {
    for (installed, source) in INSTALLED {
        assert!(workspace().join(source).is_file(), "{source}, which becomes {installed}");
    }
    for (name, _) in RECIPES {
        let text = text(name).replace(['"', ','], "");
        assert!(text.contains("xtask install --prefix"), "{name}");
        assert!(text.contains("--locked"), "{name}");
        let words = text.split(|letter: char| letter.is_whitespace() || letter == '\'');
        for word in words.filter(|word| word.starts_with("share/")) {
            assert!(INSTALLED.iter().any(|(installed, _)| word == *installed), "{name}: {word}");
        }
    }
}

#[test]
fn the_smoke_test_passes_with_haul_and_not_with_another_program() {
    let haul = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("haul");
    require!((!haul.is_file()).then(|| "needs haul, which cargo test --workspace builds".to_owned()));
    let smoke = |program: &Path| run(Command::new("sh").arg(path("smoke.sh")).arg(program));
    assert!(smoke(&haul).unwrap().ends_with("haul works\n"));
    smoke(Path::new("/bin/true")).unwrap_err();
}

#[test]
fn python_understands_the_recipes_of_spack_and_easybuild() {
    require!(needs::tool("python3"));
    for (name, _) in [RECIPES[0], RECIPES[1]] {
        let compile = "import sys; compile(open(sys.argv[1]).read(), sys.argv[1], 'exec')";
        run(Command::new("python3").args(["-c", compile]).arg(path(name))).unwrap();
    }
}

#[test]
fn ruby_understands_the_formula() {
    require!(needs::tool("ruby"));
    run(Command::new("ruby").arg("-c").arg(path("homebrew/haul.rb"))).unwrap();
}

#[test]
fn nix_understands_the_flake() {
    require!(needs::tool("nix-instantiate"));
    run(Command::new("nix-instantiate").arg("--parse").arg(path("nix/flake.nix"))).unwrap();
}

/// A function in place of cargo prints its arguments.
#[test]
fn the_arch_package_installs_below_its_directory() {
    let folder = tempfile::tempdir().unwrap();
    let sources = folder.path().join(format!("haul-{VERSION}"));
    fs::create_dir(&sources).unwrap();
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(workspace().join(licence), sources.join(licence)).unwrap();
    }
    let script = "set -eu; cargo() { echo cargo \"$@\"; }; source \"$1\"; pkgdir=$PWD/package
        for step in prepare build package; do (\"$step\"); done";
    let mut bash = Command::new("bash");
    bash.args(["-c", script, "bash"]).arg(path("arch/PKGBUILD")).current_dir(folder.path());
    let printed = run(&mut bash).unwrap();
    let package = folder.path().join("package");
    let install = format!("cargo --frozen xtask install --prefix /usr --destdir {}", package.display());
    let build = "cargo build --frozen --release --package haul-cli";
    assert_eq!(printed.lines().collect::<Vec<_>>(), ["cargo fetch --locked", build, &install]);
    assert!(package.join("usr/share/licenses/haul/LICENSE-MIT").is_file());
}

#[test]
fn lmod_sets_the_paths() {
    require!(needs::tool("lua5.4"));
    let folder = tempfile::tempdir().unwrap();
    let show = folder.path().join("show.lua");
    fs::write(&show, LMOD_SHOW).unwrap();
    assert_paths(&run(Command::new("lua5.4").arg(&show).arg(path(LMOD))).unwrap());
}

#[test]
fn tcl_modules_set_the_paths() {
    require!(needs::tool("tclsh"));
    let folder = tempfile::tempdir().unwrap();
    let show = folder.path().join("show.tcl");
    fs::write(&show, TCL_SHOW).unwrap();
    assert_paths(&run(Command::new("tclsh").arg(&show).arg(path(TCL))).unwrap());
    assert!(text(TCL).starts_with("#%Module\n"));
}

fn assert_paths(printed: &str) {
    let set: Vec<_> = printed.lines().filter(|line| line.contains("PATH\t")).collect();
    let wanted = ["prepend\tPATH\t@PREFIX@/bin", "prepend\tMANPATH\t@PREFIX@/share/man", "append\tMANPATH\t"];
    assert_eq!(set, wanted, "{printed}");
}
