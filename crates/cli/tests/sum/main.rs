//! `haul sum` compared with `b3sum`, `sha256sum`, `md5sum` and `xxhsum`, and on its own where they
//! have no answer.
//!
//! - [`rivals`]: the same lines for the same files, and each checks what the other wrote.
//! - [`checks`]: `-c` prints the same lines and messages as `sha256sum -c`, with the same status.
//! - [`deep`]: paths longer than `PATH_MAX`.
//! - [`content`]: engines, workers, holes, large files, special files, files that can't be read.
//! - [`output`]: formats, and the file of `--output`.
//! - [`ranks`]: several processes.

#![allow(clippy::unwrap_used, clippy::panic)]

mod checks;
mod content;
mod deep;
mod output;
mod ranks;
mod rivals;
#[path = "../scene/mod.rs"]
mod scene;

use haul_testkit::{RunOutcome, TestRun};
use scene::{Scene, haul};

/// A tree with files of many sizes, and typical and odd entries.
const TREE: &str = "mkdir -p t/a/b t/c t/empty-dir; seq 1 2000 > t/a/1; seq 2 2000 > t/a/b/2; : > t/empty; printf x > t/one; \
    for n in 1023 1024 1025 2048 4095 262143 262144 262145 1048577 4194304 4194305; do \
    seq 1 999999 | head -c $n > t/c/size-$n; done; seq 3 2999999 > t/large; \
    ln -s a t/dirlink; ln -s one t/link; ln -s nowhere t/dangling; ln t/one t/twin; mkfifo t/fifo";

/// Names of any bytes.
const ODD_NAMES: &str = "printf 1 > $'t/new\\nline'; printf 2 > $'t/cr\\rx'; printf 3 > 't/back\\slash'; printf 4 > $'t/\\377'; \
    printf 5 > 't/ blank '; printf 6 > 't/*star'; printf 7 > 't/a) = b'; printf 8 > t/-dash; printf 9 > 't/\"quote\"'; printf a > $'t/\\001'";

impl Scene {
    fn sum<S: AsRef<std::ffi::OsStr>>(&self, words: impl IntoIterator<Item = S>) -> TestRun {
        self.applet("sum", words).env("LC_ALL", "C")
    }

    /// Runs `haul sum` with `words`, separated by spaces.
    fn summed(&self, words: &str) -> RunOutcome {
        self.sum(words.split_whitespace()).finish().unwrap()
    }
}

fn sorted_lines(text: &[u8], end: u8) -> Vec<String> {
    let lines = text.split_inclusive(|byte| *byte == end);
    let mut lines: Vec<_> = lines.map(|line| line.escape_ascii().to_string()).collect();
    lines.sort_unstable();
    lines
}
