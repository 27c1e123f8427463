//! Progress in a terminal's tab or in the taskbar: `ESC ] 9 ; 4 ; 1 ; PERCENT ESC \`, a sequence of
//! ConEmu's that other terminals have adopted.
//!
//! It is sent only to terminals that are known to understand it, because others take OSC 9 for a
//! notification. The list is that of cargo. It is cleared at the end, and before a signal ends the
//! program: the terminal would keep showing it.

use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::signals;

const CLEAR: &str = "\x1b]9;4;0\x1b\\";

/// A run's progress in a taskbar.
#[derive(Default)]
pub(super) struct Taskbar {
    /// The percentage shown last.
    percent: Option<u64>,
    /// True once nothing may be shown any more.
    is_over: Arc<AtomicBool>,
}

impl Taskbar {
    /// Returns the taskbar of the terminal that this process runs in, if it is known to have one.
    pub(super) fn of_terminal() -> Option<Self> {
        is_understood(|name| std::env::var_os(name)).then(Self::default)
    }

    /// Returns the sequence that shows a percentage, unless it is shown already.
    pub(super) fn show(&mut self, percent: u64) -> Option<String> {
        if self.percent == Some(percent) || self.is_over.load(Ordering::Relaxed) {
            return None;
        }
        if self.percent.is_none() && !self.clear_before_end() {
            return None;
        }
        self.percent = Some(percent);
        Some(format!("\x1b]9;4;1;{percent}\x1b\\"))
    }

    /// Has a signal clear the taskbar. Returns false if it can't: then nothing must be shown.
    fn clear_before_end(&self) -> bool {
        let is_over = Arc::clone(&self.is_over);
        let clear = move || {
            if !is_over.swap(true, Ordering::Relaxed) {
                // If it can't be written, neither can that error.
                io::stderr().write_all(CLEAR.as_bytes()).unwrap_or_default();
            }
        };
        let is_handled = signals::before_end(clear).is_ok();
        self.is_over.fetch_or(!is_handled, Ordering::Relaxed);
        is_handled
    }

    /// Returns the sequence that clears it, if it shows anything. It shows nothing afterwards.
    pub(super) fn clear(&mut self) -> Option<&'static str> {
        let was_over = self.is_over.swap(true, Ordering::Relaxed);
        self.percent.take().filter(|_| !was_over).map(|_| CLEAR)
    }
}

/// True if the variables of a terminal say that it understands the sequence. Within a multiplexer
/// they may be those of another terminal, or out of date.
fn is_understood(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let is = |name: &str, value: &str| variable(name).is_some_and(|set| set == value);
    let is_set = |name: &str| variable(name).is_some_and(|set| !set.is_empty());
    let is_multiplexed = is_set("TMUX") || is_set("STY");
    let is_known = is_set("WT_SESSION")
        || is("ConEmuANSI", "ON")
        || is("TERM_PROGRAM", "WezTerm")
        || is("TERM_PROGRAM", "ghostty");
    is_known && !is_multiplexed && !is("TERM", "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_terminals_get_the_sequence() {
        let understood = |variables: &[(&str, &str)]| {
            is_understood(|name| {
                let set = variables.iter().find(|(known, _)| *known == name);
                set.map(|(_, value)| OsString::from(value))
            })
        };
        for known in [
            ("WT_SESSION", "a5e1"),
            ("ConEmuANSI", "ON"),
            ("TERM_PROGRAM", "WezTerm"),
            ("TERM_PROGRAM", "ghostty"),
        ] {
            assert!(understood(&[known, ("TERM", "xterm-256color")]), "{known:?}");
            assert!(!understood(&[known, ("TERM", "dumb")]), "{known:?}");
            assert!(!understood(&[known, ("TMUX", "/tmp/tmux-0/default,1,0")]), "{known:?}");
        }
        for unknown in [
            ("TERM", "xterm-256color"),
            ("WT_SESSION", ""),
            ("ConEmuANSI", "OFF"),
            ("TERM_PROGRAM", "iTerm.app"),
        ] {
            assert!(!understood(&[unknown]), "{unknown:?}");
        }
    }

    #[test]
    fn each_percentage_is_sent_once_and_the_last_is_cleared() {
        let mut taskbar = Taskbar::default();
        assert_eq!(taskbar.show(0).as_deref(), Some("\x1b]9;4;1;0\x1b\\"));
        assert_eq!(taskbar.show(0), None);
        assert_eq!(taskbar.show(1).as_deref(), Some("\x1b]9;4;1;1\x1b\\"));
        assert_eq!(taskbar.clear(), Some("\x1b]9;4;0\x1b\\"));
        assert_eq!((taskbar.clear(), taskbar.show(2)), (None, None));
        assert_eq!(Taskbar::default().clear(), None);
    }
}
