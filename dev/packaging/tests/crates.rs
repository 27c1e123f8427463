//! The crates: what is needed to publish them, and the Rust version that they name.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::process::Command;

use haul_packaging::{run, workspace};
use haul_testkit::{needs, require};
use serde_json::Value;

/// Crates that are published, as cargo describes them.
fn published() -> Vec<Value> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(workspace()).args(["metadata", "--format-version=1", "--no-deps", "--offline"]);
    let metadata: Value = serde_json::from_str(&run(&mut cargo).unwrap()).unwrap();
    let packages = metadata["packages"].as_array().unwrap().clone();
    // `publish = false` is an empty list of registries.
    packages.into_iter().filter(|package| package["publish"].is_null()).collect()
}

#[test]
fn published_crates_say_what_they_are_and_need_only_what_is_published() {
    let crates = published();
    let names: Vec<_> = crates.iter().map(|package| package["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"haul") && names.contains(&"haul-cli") && names.contains(&"haul-capi"));
    assert!(!names.contains(&"haul-testkit"), "{names:?}");
    for package in &crates {
        let name = package["name"].as_str().unwrap();
        for field in ["description", "license", "readme", "rust_version"] {
            assert!(package[field].is_string(), "{name} has no {field}");
        }
        // The registry's limits.
        for field in ["keywords", "categories"] {
            assert!((1..=5).contains(&package[field].as_array().unwrap().len()), "{name}: {field}");
        }
        for dependency in package["dependencies"].as_array().unwrap() {
            let (needed, version) =
                (dependency["name"].as_str().unwrap(), dependency["req"].as_str().unwrap());
            let is_ours = dependency["path"].is_string();
            // Cargo leaves out what only tests need, if it has a path and no version.
            let is_left_out = dependency["kind"] == "dev" && version == "*";
            assert!(!is_ours || is_left_out || version != "*", "{name}: {needed} has no version");
            assert!(!is_ours || is_left_out || names.contains(&needed), "{name}: {needed} isn't published");
            assert!(is_left_out || needed != name, "{name} needs itself to be published");
        }
    }
}

/// Returns a command of cargo-deny, or the reason why it isn't available.
fn deny(what: &[&str]) -> Result<Command, String> {
    let program = workspace().join("target/mpi/cargo-deny/bin/cargo-deny");
    if !program.is_file() {
        return Err("needs cargo-deny (cargo xtask setup installs it)".to_owned());
    }
    let mut command = Command::new(program);
    command.current_dir(workspace()).env("CARGO", env!("CARGO")).args(what);
    Ok(command)
}

#[test]
fn licences_sources_and_versions_of_dependencies_are_allowed() {
    let deny = deny(&["check", "licenses", "bans", "sources"]);
    require!(deny.as_ref().err().cloned());
    run(&mut deny.unwrap()).unwrap();
}

#[test]
fn no_advisory_warns_of_a_dependency() {
    require!(needs::full_run());
    let deny = deny(&["check", "advisories"]);
    require!(deny.as_ref().err().cloned());
    let checked = run(&mut deny.unwrap());
    let is_out_of_reach =
        checked.as_ref().is_err_and(|text| text.contains("failed to fetch advisory database"));
    require!(is_out_of_reach.then(|| "needs the database of advisories on github.com".to_owned()));
    checked.unwrap();
}

#[test]
fn every_published_crate_builds_from_its_package() {
    require!(needs::full_run());
    let mut cargo = Command::new(env!("CARGO"));
    // With what is not committed. Cargo builds each from its package, with those of the others.
    cargo.current_dir(workspace()).args(["package", "--allow-dirty", "--quiet"]);
    for package in published() {
        cargo.args(["--package", package["name"].as_str().unwrap()]);
    }
    run(&mut cargo).unwrap();
}

#[test]
fn the_rust_version_that_the_crates_name_is_enough() {
    let crates = published();
    let version = crates[0]["rust_version"].as_str().unwrap();
    let mut rustup = Command::new("rustup");
    let has_it = rustup.args(["run", version, "cargo", "--version"]).output();
    let missing = !has_it.is_ok_and(|output| output.status.success());
    require!(missing.then(|| format!("needs the Rust toolchain {version}")));
    let mut cargo = Command::new("rustup");
    cargo.args(["run", version, "cargo", "check", "--quiet", "--package=haul-cli", "--package=haul"]);
    cargo.current_dir(workspace()).env("CARGO_TARGET_DIR", workspace().join("target/oldest-rust"));
    cargo.env_remove("RUSTC").env_remove("RUSTDOC").env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN");
    run(&mut cargo).unwrap();
}
