//! Tests that cannot run here end early, and are counted.
//!
//! A skipped test looks like a passed one to the test harness. So each skip prints one line `SKIPPED name: reason` on the
//! real standard error (the harness does not capture it), and appends the same line to the file named by `HAUL_SKIPS`, from
//! which the run prints how many were skipped and why.

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

/// Records that a part of the calling test cannot run, and goes on with the rest. The test counts as skipped.
#[macro_export]
macro_rules! record_skip {
    ($($reason:tt)*) => {
        $crate::skip::record(&$crate::test_name!(), &format!($($reason)*))
    };
}

/// Gives what a `Result` holds as an `Option`; an error is recorded as the reason for a skip, and gives `None`.
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

/// Ends the calling test when one of [`needs`](crate::needs) names a reason why it cannot run.
#[macro_export]
macro_rules! require {
    ($need:expr) => {
        if let Some(reason) = $need {
            $crate::skip!("{reason}");
        }
    };
}

/// Names the running test, as `package/crate::test`, also from a function that several tests share.
#[macro_export]
macro_rules! test_name {
    () => {{
        fn here() {}
        // Test files of several packages have the same name.
        format!("{}/{}", env!("CARGO_PKG_NAME"), $crate::skip::test_around(&here))
    }};
}

/// Prints one line that the test harness does not capture: totals, seeds, figures.
#[macro_export]
macro_rules! note {
    ($($text:tt)*) => {
        $crate::skip::print_line(&format!($($text)*))
    };
}

/// Gives the name of the test that runs now. Used by [`test_name!`](crate::test_name).
///
/// The harness names each test's thread after it, except when it runs all tests in the main thread: then the name is that of the
/// function that contains the item `marker`.
#[must_use]
pub fn test_around<T>(marker: &T) -> String {
    let function = std::any::type_name_of_val(marker);
    let function = function.strip_suffix("::here").unwrap_or(function);
    match std::thread::current().name() {
        None | Some("main") => function.to_owned(),
        Some(test) => format!("{}::{test}", function.split("::").next().unwrap_or_default()),
    }
}

/// Records one skipped test. A test says `skip!` instead.
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

/// Writes one whole line to standard error, past the capture of the test harness. Tests say `note!` instead.
pub fn print_line(text: &str) {
    // One write per line keeps the lines of parallel tests whole. A failing standard error leaves nowhere to complain to.
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
