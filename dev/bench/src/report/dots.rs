//! Draws ratios as dots on a logarithmic axis: filled if measured here, hollow if published, with a
//! line between the two. The ratio 1 gets an axis line of its own.

use super::canvas::{Anchor, At, Canvas, LETTER, WIDTH};
use super::figure::Dots;

const ROW: f64 = 18.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 36.0;

pub(crate) fn draw(dots: &Dots) -> String {
    let mut canvas = Canvas::default();
    let letters = dots.rows.iter().map(|row| row.label.chars().count()).max().unwrap_or_default();
    let left = letters as f64 * LETTER + 14.0;
    let values = || dots.rows.iter().flat_map(|row| [row.measured, row.published]).flatten();
    let least = values().fold(0.5, f64::min).log2().floor();
    let most = values().fold(2.0, f64::max).log2().ceil();
    let x = |value: f64| left + (WIDTH - 12.0 - left) * (value.log2() - least) / (most - least);
    let bottom = TOP + ROW * dots.rows.len() as f64;
    for power in least as i32..=most as i32 {
        let value = f64::from(power).exp2();
        let class = if power == 0 { "axis" } else { "grid" };
        canvas.line(At { x: x(value), y: TOP }, At { x: x(value), y: bottom + 2.0 }, class);
        let at = At { x: x(value), y: bottom + 15.0 };
        canvas.text(at, Anchor::Middle, "tick", &ratio_label(power));
    }
    canvas.text(At { x: x(1.0) - 5.0, y: 15.0 }, Anchor::End, "tick", "\u{2190} faster than cp");
    canvas.text(At { x: x(1.0) + 5.0, y: 15.0 }, Anchor::Start, "tick", "slower \u{2192}");
    canvas.text(At { x: left, y: bottom + 30.0 }, Anchor::Start, "tick", &dots.axis);
    for (index, row) in dots.rows.iter().enumerate() {
        let y = TOP + ROW * (index as f64 + 0.5);
        canvas.text(At { x: left - 10.0, y: y + 4.0 }, Anchor::End, "label", &row.label);
        if let (Some(one), Some(other)) = (row.measured, row.published) {
            canvas.line(At { x: x(one), y }, At { x: x(other), y }, "link");
        }
        if let Some(published) = row.published {
            canvas.dot(At { x: x(published), y }, 4.0, &format!("dot hollow {}", row.role.class()));
        }
        if let Some(measured) = row.measured {
            canvas.dot(At { x: x(measured), y }, 4.5, &format!("dot {}", row.role.class()));
        }
    }
    canvas.finish(bottom + BOTTOM, &dots.title)
}

fn ratio_label(power: i32) -> String {
    if power < 0 { format!("1/{}", 1_u64 << -power.max(-62)) } else { (1_u64 << power.min(62)).to_string() }
}
