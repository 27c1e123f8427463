//! Links the program so that it starts quickly (docs/measurements/start.md).
//!
//! - Without the shared library of the C compiler's runtime. The standard library asks the linker
//!   for `libgcc_s.so`, of which the program needs only the unwinder. A linker script of that name
//!   names the static libraries instead.
//! - At a fixed address. Otherwise the dynamic loader applies eleven thousand relocations on sixty
//!   pages, nearly all of them in panic messages. Stack, heap and libraries still get random
//!   addresses. `RUSTFLAGS=-Crelocation-model=pie` keeps the program position-independent
//!   (docs/security.md).
//! - With the functions of a small copy side by side (`start.ld`), in releases.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    let target = |part: &str| env::var(format!("CARGO_CFG_TARGET_{part}")).unwrap_or_default();
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    // A linker that is chosen by name may not accept such a script: mold doesn't.
    if target("OS") == "linux" && is_release() && !flags.contains("-fuse-ld=") {
        println!("cargo:rerun-if-changed=start.ld");
        let script = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("start.ld");
        println!("cargo:rustc-link-arg-bins=-Wl,-T,{}", script.display());
    }
    if target("OS") != "linux" || target("ENV") != "gnu" || env::var("HOST") != env::var("TARGET") {
        return Ok(());
    }
    // The sanitizers need a position-independent program.
    if !["relocation-model", "sanitizer", "crt-static"].iter().any(|flag| flags.contains(flag)) {
        println!("cargo:rustc-link-arg-bins=-no-pie");
        // Code and constants may share a page: fewer mappings.
        println!("cargo:rustc-link-arg-bins=-Wl,-z,noseparate-code");
    }
    // The compiler answers with the bare name if it has no such library.
    let told = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output();
    if told.is_ok_and(|told| String::from_utf8_lossy(&told.stdout).contains('/')) {
        let directory = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
        fs::write(directory.join("libgcc_s.so"), "INPUT(-lgcc_eh -lgcc)\n")?;
        println!("cargo:rustc-link-search=native={}", directory.display());
    }
    Ok(())
}

/// True for optimised builds: in others, the linker would compare names in vain.
fn is_release() -> bool {
    env::var("PROFILE").is_ok_and(|profile| profile == "release")
}
