//! Tests that can't run here end early, and are counted.
//!
//! To the test harness, a skipped test looks like one that passed. So each skip prints a line
//! `SKIPPED name: reason` directly to standard error (which the harness doesn't capture), and
//! appends it to the file named by `HAUL_SKIPS`. From that file the run prints how many tests were
//! skipped, and why.

use std::fs::OpenOptions;
use std::io::{self, Write};

/// Ends the calling test with a reason, after recording it.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)*) => {{
        $crate::record_skip!($($reason)*);
        return;
    }};
}

/// Records that part of the calling test can't run, and continues. The test counts as skipped.
#[macro_export]
macro_rules! record_skip {
    ($($reason:tt)*) => {
        $crate::skip::record(&$crate::test_name!(), &format!($($reason)*))
    };
}

/// Converts a `Result` to an `Option`. An error is recorded as a skip.
#[macro_export]
macro_rules! or_skip {
    ($result:expr, $what:expr) => {
        match $result {
            Ok(value) => Some(value),
            Err(error) => {
                $crate::record_skip!("{}: {error:#}", $what);
                None
            }
        }
    };
}

/// Ends the calling test if one of these [`needs`](crate::needs) returns a reason why it can't run.
#[macro_export]
macro_rules! require {
    ($($need:expr),+) => {$(
        if let Some(reason) = $need {
            $crate::skip!("{reason}");
        }
    )+};
}

/// Makes a test of each call: `name => call;`, or `name [needs] => call;`.
#[macro_export]
macro_rules! tests {
    ($($(#[$doc:meta])* $name:ident $([$($need:expr),+])? => $call:expr;)+) => {$(
        $(#[$doc])*
        #[test]
        fn $name() {
            $($crate::require!($($need),+);)?
            $call;
        }
    )+};
}

/// Returns the name of the running test, as `package/crate::test`. Also works in a function shared
/// by several tests.
#[macro_export]
macro_rules! test_name {
    () => {{
        fn here() {}
        // Test files in several packages have the same name.
        format!("{}/{}", env!("CARGO_PKG_NAME"), $crate::skip::test_around(&here))
    }};
}

/// Prints a line that the test harness doesn't capture: totals, seeds, figures.
#[macro_export]
macro_rules! note {
    ($($text:tt)*) => {
        $crate::skip::print_line(&format!($($text)*))
    };
}

/// Returns the name of the running test. Used by [`test_name!`](crate::test_name).
///
/// The harness names each test's thread after the test, unless it runs all tests in the main
/// thread. Then the name is that of the function that contains the item `marker`.
pub fn test_around<T>(marker: &T) -> String {
    let function = std::any::type_name_of_val(marker);
    let function = function.strip_suffix("::here").unwrap_or(function);
    match std::thread::current().name() {
        None | Some("main") => function.to_owned(),
        Some(test) => format!("{}::{test}", function.split("::").next().unwrap_or_default()),
    }
}

/// Records a skipped test. Tests use `skip!` instead.
pub fn record(test: &str, reason: &str) {
    let line = format!("SKIPPED {test}: {reason}");
    print_line(&line);
    let Some(path) = std::env::var_os("HAUL_SKIPS") else { return };
    let written = OpenOptions::new()
        .append(true)
        .create(true)
        .open(&path)
        .and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    if let Err(error) = written {
        print_line(&format!("cannot record the skip in {}: {error}", path.display()));
    }
}

/// Writes a line to standard error, bypassing the harness's capture. Tests use `note!` instead.
pub fn print_line(text: &str) {
    // A single write keeps the lines of parallel tests intact. If it fails, there is
    // nowhere to report it.
    io::stderr().lock().write_all(format!("{text}\n").as_bytes()).unwrap_or_default();
}

#[cfg(test)]
mod tests {
    fn shared() -> String {
        test_name!()
    }

    #[test]
    fn a_test_knows_its_name() {
        let name = "haul-testkit/haul_testkit::skip::tests::a_test_knows_its_name";
        assert_eq!(test_name!(), name);
        if std::thread::current().name() != Some("main") {
            assert_eq!(shared(), name);
        }
    }
}
