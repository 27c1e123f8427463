//! The npm package: it is packed, installed elsewhere, and passes its tests there.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use haul_packaging::{run, workspace};
use haul_testkit::examples::in_language;
use haul_testkit::{needs, require};
use tempfile::TempDir;

/// Copies what `npm pack` would pack to where `npm install` would install it.
const INSTALL_WITHOUT_NPM: &str = "
    const { cpSync } = require('node:fs');
    const target = process.argv[1];
    for (const name of ['package.json', 'README.md', ...require('./package.json').files]) {
        cpSync(name, `${target}/node_modules/haul-copy/${name}`, { recursive: true });
    }";

#[test]
fn the_installed_package_passes_its_tests() {
    require!(node(), built());
    let (_scratch, user) = installed();
    let files = ["copy.test.cjs", "control.test.cjs"];
    let mut tests = Command::new("node");
    let printed = run(tests.args(["--test", "--test-reporter=tap"]).args(files).current_dir(&user)).unwrap();
    assert!(printed.contains("\n# fail 0\n") && !printed.contains("\n# pass 0\n"), "{printed}");
}

#[test]
fn a_program_of_another_version_or_architecture_is_not_packed() {
    require!(node(), built(), needs::tool("cc"));
    let (scratch, _) = installed();
    let (root, package) = (scratch.path(), scratch.path().join("node"));
    let pack = |binary: Option<&Path>| {
        let mut node = Command::new("node");
        node.arg("scripts/prepack.mjs").current_dir(&package).env("CARGO_TARGET_DIR", root.join("target"));
        // In place of cargo, which would build for minutes.
        let path = std::env::var("PATH").unwrap();
        node.env("PATH", format!("{}:{path}", root.display()));
        if let Some(binary) = binary {
            node.env("HAUL_BINARY", binary);
        }
        fs::remove_dir_all(package.join("bin")).unwrap_or_default();
        run(&mut node)
    };
    fs::write(root.join("cargo"), "#!/bin/sh\necho building >&2\nexit 1\n").unwrap();
    run(Command::new("chmod").arg("+x").arg(root.join("cargo"))).unwrap();
    pack(Some(&root.join("haul"))).unwrap();

    let refused = pack(Some(Path::new("/bin/true"))).unwrap_err();
    assert!(refused.contains("/bin/true is not haul"), "{refused}");
    let mut foreign = fs::read(root.join("haul")).unwrap();
    // `e_machine`: that of SPARC.
    foreign[18..20].copy_from_slice(&2_u16.to_le_bytes());
    let other = root.join("other");
    fs::write(&other, foreign).unwrap();
    let refused = pack(Some(&other)).unwrap_err();
    assert!(refused.contains("/other is not a program for"), "{refused}");
    assert!(!package.join("bin").exists());

    // A static program that `cargo xtask dist` has left: another version.
    let work = root.join("target/dist-work/x");
    fs::create_dir_all(&work).unwrap();
    let source = root.join("old.c");
    fs::write(&source, "#include <stdio.h>\nint main(void) { puts(\"haul 0.0.1\"); }\n").unwrap();
    run(Command::new("cc").arg("-static").arg("-o").arg(work.join("haul")).arg(source)).unwrap();
    let refused = pack(None).unwrap_err();
    assert!(refused.contains("building"), "{refused}");
}

#[test]
fn the_examples_of_the_pages_copy_a_tree() {
    require!(node(), built());
    let (_scratch, user) = installed();
    for page in ["docs/node.md", "node/README.md"] {
        let text = fs::read_to_string(workspace().join(page)).unwrap();
        let examples = in_language(&text, "js");
        assert_eq!(examples.len(), 1, "{page}");
        for example in examples {
            let clone = user.join("clone");
            if clone.exists() {
                fs::remove_dir_all(&clone).unwrap();
            }
            fs::create_dir_all(user.join("project/node_modules/module")).unwrap();
            fs::write(user.join("project/index.js"), "content").unwrap();
            fs::write(user.join("example.mjs"), example).unwrap();
            run(Command::new("node").arg("example.mjs").current_dir(&user)).unwrap();
            let entries = fs::read_dir(&clone).unwrap();
            let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(names, ["index.js"], "{page}");
        }
    }
}

#[test]
fn the_declarations_fit_their_use() {
    require!(node(), typescript());
    let scratch = TempDir::new().unwrap();
    let user = scratch.path();
    fs::create_dir(user.join("node_modules")).unwrap();
    symlink(workspace().join("node"), user.join("node_modules/haul-copy")).unwrap();
    symlink(typescript_modules().join("@types"), user.join("node_modules/@types")).unwrap();
    copy_tests(user);
    let wrong = "import { copyTree } from 'haul-copy';\ncopyTree('a', 'b', { job: 1 });\n";
    fs::write(user.join("wrong.ts"), wrong).unwrap();
    let check = |names: &[&str]| {
        let mut compiler = Command::new("node");
        compiler.arg(typescript_modules().join("typescript/bin/tsc")).current_dir(user);
        run(compiler.args(["--strict", "--noEmit", "--target", "es2022", "--module", "node16"]).args(names))
    };
    check(&["types.ts", "types.cts", "types.mts"]).unwrap();
    // A check that finds no mistake may check nothing.
    let complaint = check(&["wrong.ts"]).unwrap_err();
    assert!(complaint.contains("'job' does not exist"), "{complaint}");
}

/// Installs the package with the haul that was built, and copies its tests next to it. Returns the
/// directory that it is all in, and that of the package's user.
fn installed() -> (TempDir, PathBuf) {
    let scratch = TempDir::new().unwrap();
    let root = scratch.path();
    // The script that npm runs before it packs looks for the licences above the package.
    run(Command::new("cp").arg("-r").arg(workspace().join("node")).arg(root)).unwrap();
    let package = root.join("node");
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(workspace().join(licence), root.join(licence)).unwrap();
    }
    if package.join("bin").exists() {
        fs::remove_dir_all(package.join("bin")).unwrap();
    }
    // Most of a debug build is symbols.
    let program = root.join("haul");
    run(Command::new("strip").arg("-o").arg(&program).arg(haul())).unwrap();
    let user = root.join("user");
    fs::create_dir(&user).unwrap();
    if needs::tool("npm").is_none() {
        install_with_npm(&package, &user, &program);
    } else {
        let prepack = ["scripts/prepack.mjs"];
        run(Command::new("node").args(prepack).env("HAUL_BINARY", &program).current_dir(&package)).unwrap();
        let install = ["-e", INSTALL_WITHOUT_NPM];
        run(Command::new("node").args(install).arg(&user).current_dir(&package)).unwrap();
    }
    copy_tests(&user);
    (scratch, user)
}

fn copy_tests(user: &Path) {
    for entry in fs::read_dir(workspace().join("node/test")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, user.join(path.file_name().unwrap())).unwrap();
    }
}

fn install_with_npm(package: &Path, user: &Path, program: &Path) {
    let npm = |words: &[&str], folder: &Path| {
        let mut npm = Command::new("npm");
        npm.arg("--cache").arg(user.join(".npm")).args(words).current_dir(folder);
        run(npm.env("HAUL_BINARY", program)).unwrap()
    };
    let packed = npm(&["pack", "--silent", "--pack-destination", ".."], package);
    let archive = format!("../{}", packed.lines().last().unwrap());
    fs::write(user.join("package.json"), "{}").unwrap();
    npm(&["install", "--offline", "--no-audit", "--no-fund", &archive], user);
}

/// The haul that cargo builds for the tests of its package, next to the directory of the tests.
fn haul() -> PathBuf {
    std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("haul")
}

fn built() -> Option<String> {
    (!haul().is_file()).then(|| "needs haul, which cargo test --workspace builds".to_owned())
}

/// Checks that Node.js is installed, in a release that the package supports.
fn node() -> Option<String> {
    needs::tool("node").or_else(|| {
        let version = run(Command::new("node").args(["-p", "process.versions.node"])).ok()?;
        let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        (major < Some(18)).then(|| format!("needs Node.js 18 or later, not {}", version.trim()))
    })
}

/// Where `cargo xtask setup` installs the TypeScript compiler.
fn typescript_modules() -> PathBuf {
    haul().ancestors().nth(2).unwrap().join("npm/node_modules")
}

fn typescript() -> Option<String> {
    let compiler = typescript_modules().join("typescript/bin/tsc");
    (!compiler.is_file()).then(|| "needs TypeScript, which cargo xtask setup installs by npm".to_owned())
}
