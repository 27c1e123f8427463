//! The progress line of a terminal.

use std::io::Write;

use super::taskbar::Taskbar;
use super::view::{Picture, STEPS};

/// Width of the bar, in columns.
const BAR: usize = 6;
/// Shown in turn while the total is not known.
const SPINNER: [&str; 4] = ["-", "\\", "|", "/"];
/// Clears a terminal's current line from the cursor on (ECMA-48, EL).
const CLEAR: &str = "\r\x1b[K";
/// Clears also the lines below it (ECMA-48, ED).
const CLEAR_BELOW: &str = "\r\x1b[J";

/// One line of a terminal, redrawn in place, with others below it if there is more to say. If it
/// can't be written, neither can that error.
pub(super) struct TerminalLine {
    terminal: Box<dyn Write + Send>,
    /// Returns the terminal's width, which may change at any time.
    columns: fn() -> usize,
    drawings: usize,
    taskbar: Option<Taskbar>,
    /// Text on the line; empty before the first drawing and after the last.
    text: String,
    /// The same for a terminal that is too narrow.
    short: String,
    /// Lines below it.
    below: Vec<String>,
}

impl TerminalLine {
    pub(super) fn new(terminal: Box<dyn Write + Send>, columns: fn() -> usize) -> Self {
        let (text, short, below) = (String::new(), String::new(), Vec::new());
        Self { terminal, columns, drawings: 0, taskbar: None, text, short, below }
    }

    /// Also shows the percentage in a taskbar.
    pub(super) fn with_taskbar(self, taskbar: Option<Taskbar>) -> Self {
        Self { taskbar, ..self }
    }

    pub(super) fn draw(&mut self, picture: &Picture) {
        let begin = match picture.steps {
            Some(steps) => bar(steps),
            None => SPINNER[self.drawings % SPINNER.len()].to_owned(),
        };
        self.drawings += 1;
        self.text = format!("{begin} {}", picture.text);
        self.short = format!("{begin} {}", picture.short);
        if !self.below.is_empty() {
            // There may be fewer now.
            self.clear();
        }
        self.below.clone_from(&picture.below);
        self.redraw();
        let percent = picture.steps.map(|steps| steps * 100 / STEPS);
        let sequence =
            self.taskbar.as_mut().zip(percent).and_then(|(taskbar, percent)| taskbar.show(percent));
        if let Some(sequence) = sequence {
            self.write(&sequence);
        }
    }

    pub(super) fn while_hidden<R>(&mut self, write: impl FnOnce() -> R) -> R {
        self.clear();
        let written = write();
        self.redraw();
        written
    }

    /// Removes the line for good.
    pub(super) fn end(&mut self) {
        self.clear();
        self.text.clear();
        self.below.clear();
        if let Some(sequence) = self.taskbar.as_mut().and_then(Taskbar::clear) {
            self.write(sequence);
        }
    }

    fn redraw(&mut self) {
        if !self.text.is_empty() {
            // In the last column some terminals begin the next line.
            let columns = (self.columns)().saturating_sub(1);
            let fits = self.text.chars().count() <= columns;
            let text = if fits { &self.text } else { &self.short };
            let cut = |text: &str| text.chars().take(columns).collect::<String>();
            let mut drawn = format!("{CLEAR}{}", cut(text));
            for line in &self.below {
                drawn += &format!("\n{CLEAR}{}", cut(line));
            }
            if !self.below.is_empty() {
                // The cursor goes back up (ECMA-48, CUU).
                drawn += &format!("\r\x1b[{}A", self.below.len());
            }
            self.write(&drawn);
        }
    }

    pub(super) fn clear(&mut self) {
        if !self.text.is_empty() {
            self.write(if self.below.is_empty() { CLEAR } else { CLEAR_BELOW });
        }
    }

    fn write(&mut self, text: &str) {
        self.terminal.write_all(text.as_bytes()).and_then(|()| self.terminal.flush()).unwrap_or_default();
    }
}

/// Returns a bar that is full at [`STEPS`].
fn bar(steps: u64) -> String {
    let full = usize::try_from(steps).unwrap_or_default() * BAR / STEPS as usize;
    let tip = if full < BAR { ">" } else { "" };
    format!("{:<BAR$}", "=".repeat(full.min(BAR)) + tip)
}

#[cfg(test)]
mod tests {
    use indicatif::{InMemoryTerm, TermLike as _};

    use super::super::tests::InMemory;
    use super::*;

    #[test]
    fn a_line_is_no_longer_than_the_terminal_is_wide() {
        let terminal = InMemoryTerm::new(10, 20);
        let mut line = TerminalLine::new(Box::new(InMemory(terminal.clone())), || 20);
        let mut draw = |steps, text: &str, short: &str| {
            line.draw(&Picture { steps, text: text.to_owned(), short: short.to_owned(), below: Vec::new() });
        };
        draw(None, &"a".repeat(30), &"b".repeat(30));
        assert_eq!(terminal.contents(), format!("- {}", "b".repeat(17)));
        draw(Some(500), "half", "");
        assert_eq!(terminal.contents(), "===>   half");
        draw(Some(STEPS), "all", "");
        assert_eq!(terminal.contents(), "====== all");
        line.clear();
        assert_eq!(terminal.contents(), "");
    }

    #[test]
    fn lines_below_go_with_the_line() {
        let terminal = InMemoryTerm::new(4, 20);
        let mut line = TerminalLine::new(Box::new(InMemory(terminal.clone())), || 20);
        let mut draw = |below: &[&str]| {
            let below = below.iter().map(|&line| line.to_owned()).collect();
            line.draw(&Picture { steps: Some(500), text: "half".to_owned(), short: String::new(), below });
            terminal.contents()
        };
        terminal.write_str("a\r\nb\r\n").unwrap();
        // At the bottom the terminal scrolls.
        assert_eq!(draw(&["one that is much too long", "two"]), "b\n===>   half\none that is much to\ntwo");
        assert_eq!(draw(&["two"]), "b\n===>   half\ntwo");
        assert_eq!(draw(&["one", "two"]), "b\n===>   half\none\ntwo");
        line.while_hidden(|| terminal.write_str("c\r\n").unwrap());
        assert_eq!(terminal.contents(), "c\n===>   half\none\ntwo");
        line.end();
        assert_eq!(terminal.contents(), "c");
    }
}
