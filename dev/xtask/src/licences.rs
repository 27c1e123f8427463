//! Checks the licences of dependencies: each must be compatible with distributing haul
//! under its own.

use std::process::Command;

use serde_json::Value;
use spdx::{Expression, ParseMode};

use crate::steps::{StepFailure, cargo, output_of, say};

/// Licences that require no more than a notice.
const ALLOWED: [&str; 14] = [
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSL-1.0",
    "bzip2-1.0.6",
    "BSD-1-Clause",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    "CC0-1.0",
];

/// Checks every package that is built on this platform.
pub(crate) fn check() -> Result<(), StepFailure> {
    say("==> licences");
    let text =
        output_of(&mut cargo(&["metadata", "--format-version", "1", "--filter-platform", &platform()?]))?;
    let metadata: Value =
        serde_json::from_slice(&text).map_err(|error| StepFailure(format!("cargo metadata: {error}")))?;
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let refused: Vec<_> = packages.iter().filter_map(refusal).collect();
    if packages.is_empty() {
        return Err(StepFailure("cargo metadata lists no packages".to_owned()));
    }
    if !refused.is_empty() {
        return Err(StepFailure(format!("licences that are not on the list:\n{}", refused.join("\n"))));
    }
    say(&format!("{} packages, all under licences on the list", packages.len()));
    Ok(())
}

/// Returns the target platform. Dependencies of other platforms don't matter.
fn platform() -> Result<String, StepFailure> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let text = output_of(Command::new(rustc).arg("-vV"))?;
    let text = String::from_utf8_lossy(&text);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| StepFailure("rustc -vV names no host".to_owned()))
}

/// Returns a description of a package whose licence is not allowed.
fn refusal(package: &Value) -> Option<String> {
    let licence = package["license"].as_str().unwrap_or_default();
    let name = package["name"].as_str().unwrap_or_default();
    (!is_allowed(licence)).then(|| format!("  {name}: '{licence}'"))
}

/// Returns true if an SPDX expression can be satisfied by licences on the list. An invalid
/// expression can't.
fn is_allowed(expression: &str) -> bool {
    // Old packages have `/` for `OR`.
    let parsed = Expression::parse_mode(expression, ParseMode::LAX);
    parsed.is_ok_and(|parsed| parsed.evaluate(|licence| ALLOWED.contains(&licence.to_string().as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_met_by_licences_on_the_list() {
        for fine in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0-only OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0-only",
            "GPL-2.0-only OR (Zlib AND ISC)",
        ] {
            assert!(is_allowed(fine), "{fine}");
        }
        for bad in [
            "",
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "MIT OR",
            "(MIT",
            "MIT)",
            "MIT WITH strings",
            "GPL-2.0-only AND MIT OR LGPL-2.1",
        ] {
            assert!(!is_allowed(bad), "{bad}");
        }
    }
}
