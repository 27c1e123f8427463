//! Gives the shared library its name.

use std::io::{self, Write as _};

fn main() -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "cargo::rustc-cdylib-link-arg=-Wl,-soname,libhaul.so.0")?;
    writeln!(out, "cargo::rerun-if-changed=build.rs")
}
