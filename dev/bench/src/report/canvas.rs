//! Builds the SVG text of a plot. Colours come from the style sheet, by class.

/// Width of every plot, in its own units: that of a phone, so text is never scaled down.
pub(crate) const WIDTH: f64 = 400.0;

/// Average width of a letter in a label, rounded up.
pub(crate) const LETTER: f64 = 6.3;

/// Part of a text that is at the given point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Canvas {
    body: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct At {
    pub(crate) x: f64,
    pub(crate) y: f64,
}

impl Canvas {
    pub(crate) fn text(&mut self, at: At, anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escaped(text);
        self.body.push_str(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{text}</text>",
            at.x, at.y
        ));
    }

    /// Adds a rectangle with the given top left corner.
    pub(crate) fn rectangle(&mut self, corner: At, size: At, class: &str) {
        self.body.push_str(&format!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"1.5\" class=\"{class}\"/>",
            corner.x,
            corner.y,
            size.x.max(0.0),
            size.y
        ));
    }

    pub(crate) fn line(&mut self, from: At, to: At, class: &str) {
        self.body.push_str(&format!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" class=\"{class}\"/>",
            from.x, from.y, to.x, to.y
        ));
    }

    pub(crate) fn path(&mut self, points: &[At], class: &str) {
        let points: Vec<String> = points.iter().map(|at| format!("{:.1},{:.1}", at.x, at.y)).collect();
        self.body.push_str(&format!("<polyline points=\"{}\" class=\"{class}\"/>", points.join(" ")));
    }

    pub(crate) fn dot(&mut self, at: At, radius: f64, class: &str) {
        self.body.push_str(&format!(
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius:.1}\" class=\"{class}\"/>",
            at.x, at.y
        ));
    }

    /// Adds a whisker, which shows a spread: a line with a short bar across each end.
    pub(crate) fn whisker(&mut self, from: At, to: At) {
        let across = if from.y == to.y { At { x: 0.0, y: 2.5 } } else { At { x: 2.5, y: 0.0 } };
        self.line(from, to, "whisker");
        for end in [from, to] {
            let (one, other) = (
                At { x: end.x - across.x, y: end.y - across.y },
                At { x: end.x + across.x, y: end.y + across.y },
            );
            self.line(one, other, "whisker");
        }
    }

    /// Returns the finished SVG element of this height. `title` describes it to screen readers.
    pub(crate) fn finish(self, height: f64, title: &str) -> String {
        self.element(height, title, "")
    }

    /// Like [`Self::finish`], for a file of its own with this style sheet.
    pub(crate) fn finish_alone(self, height: f64, title: &str, style: &str) -> String {
        self.element(height, title, &format!("<style>{}</style>", escaped(style)))
    }

    fn element(self, height: f64, title: &str, style: &str) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" role=\"img\">\
             <title>{}</title>{style}{}</svg>",
            escaped(title),
            self.body
        )
    }
}

/// Escapes a text for XML and HTML and drops control characters, which XML does not allow.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' => out.push(' '),
            _ if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => {}
            _ => out.push(letter),
        }
    }
    out
}

/// Truncates a text to at most `letters` characters, with an ellipsis.
pub(crate) fn shortened(text: &str, letters: usize) -> String {
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    let kept: String = text.chars().take(letters.saturating_sub(1)).collect();
    format!("{}\u{2026}", kept.trim_end())
}

/// Returns about four round numbers from 0 to at least `most`.
pub(crate) fn ticks(most: f64) -> Vec<f64> {
    if !(most > 0.0 && most.is_finite()) {
        return vec![0.0, 1.0];
    }
    let rough = most / 4.0;
    let power = 10.0_f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(10.0 * power);
    // Tolerate rounding errors just above a multiple: callers pass the last tick to `ticks` again.
    let count = (most / step - 1e-9).ceil() as u32;
    (0..=count).map(|index| f64::from(index) * step).collect()
}

/// Formats a round number without trailing zeros.
pub(crate) fn tick_label(value: f64) -> String {
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_reach_far_enough() {
        assert_eq!(ticks(10.0), [0.0, 5.0, 10.0]);
        assert_eq!(ticks(0.19).len(), 5);
        for most in [0.001, 0.13, 0.4, 1.0, 3.9, 77.0, 12_345.0] {
            let ticks = ticks(most);
            assert!(*ticks.last().unwrap() >= most && ticks.len() <= 6, "{most}: {ticks:?}");
        }
        for most in [0.13, 0.6, 0.7, 3.0] {
            let reached = ticks(most);
            assert_eq!(ticks(*reached.last().unwrap()).len(), reached.len(), "{most}");
        }
        assert_eq!(ticks(0.0), [0.0, 1.0]);
        assert_eq!([0.0, 0.05, 2.5, 100.0].map(tick_label), ["0", "0.05", "2.5", "100"]);
    }

    #[test]
    fn what_xml_cannot_hold_is_written_otherwise() {
        assert_eq!(escaped("a<b> & \"c\"\u{1b}[0m\n"), "a&lt;b&gt; &amp; &quot;c&quot;[0m ");
    }

    #[test]
    fn long_texts_end_in_an_ellipsis() {
        assert_eq!(shortened("short", 5), "short");
        assert_eq!(shortened("much too long", 6), "much\u{2026}");
    }
}
