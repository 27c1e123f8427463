//! Draws curves over powers of two, each labelled at its end, and horizontal lines for values that
//! do not depend on the varied parameter.

use super::canvas::{Anchor, At, Canvas, LETTER, WIDTH, tick_label, ticks};
use super::figure::Curves;
use crate::study::Role;

const HEIGHT: f64 = 300.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 252.0;
const LEFT: f64 = 38.0;
/// Minimum distance between two labels.
const LINE: f64 = 14.0;

struct Frame {
    right: f64,
    most: f64,
    first: f64,
    last: f64,
}

impl Frame {
    fn new(curves: &Curves) -> Frame {
        let points = || curves.curves.iter().flat_map(|curve| &curve.points);
        let ends = points().map(|(_, value)| value.mean + value.deviation);
        let most = ends.chain(curves.levels.iter().map(|level| level.value)).fold(0.0, f64::max);
        let labels = curves.curves.iter().map(|curve| &curve.label);
        let letters = labels.chain(curves.levels.iter().map(|level| &level.label));
        let letters = letters.map(|label| label.chars().count()).max().unwrap_or_default();
        Frame {
            right: WIDTH - letters as f64 * LETTER - 10.0,
            most: ticks(most).last().copied().unwrap_or(1.0),
            first: points().map(|(x, _)| x.log2()).fold(f64::INFINITY, f64::min),
            last: points().map(|(x, _)| x.log2()).fold(f64::NEG_INFINITY, f64::max),
        }
    }

    fn x(&self, x: f64) -> f64 {
        let whole = self.last - self.first;
        if whole > 0.0 { LEFT + (self.right - LEFT) * (x.log2() - self.first) / whole } else { LEFT }
    }

    fn y(&self, value: f64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * (value / self.most).clamp(0.0, 1.0)
    }
}

/// A label at the end of a curve or line.
struct CurveLabel<'a> {
    y: f64,
    label: &'a str,
    role: Role,
}

pub(crate) fn draw(curves: &Curves) -> String {
    let mut canvas = Canvas::default();
    let frame = Frame::new(curves);
    draw_grid(&mut canvas, &frame, curves);
    let mut names = Vec::new();
    for level in &curves.levels {
        let y = frame.y(level.value);
        let class = format!("level {}", level.role.class());
        canvas.line(At { x: LEFT, y }, At { x: frame.right, y }, &class);
        names.push(CurveLabel { y, label: &level.label, role: level.role });
    }
    for curve in &curves.curves {
        let class = curve.role.class();
        let points: Vec<At> =
            curve.points.iter().map(|(x, value)| At { x: frame.x(*x), y: frame.y(value.mean) }).collect();
        for ((_, value), at) in curve.points.iter().zip(&points) {
            if value.deviation > 0.0 {
                let end = |y: f64| At { x: at.x, y: frame.y(y) };
                canvas.whisker(end(value.mean - value.deviation), end(value.mean + value.deviation));
            }
        }
        canvas.path(&points, &format!("curve {class}"));
        for at in &points {
            canvas.dot(*at, 3.0, &format!("dot {class}"));
        }
        if let Some(end) = points.last() {
            names.push(CurveLabel { y: end.y, label: &curve.label, role: curve.role });
        }
    }
    draw_names(&mut canvas, &frame, names);
    canvas.finish(HEIGHT, &curves.title)
}

fn draw_grid(canvas: &mut Canvas, frame: &Frame, curves: &Curves) {
    for tick in ticks(frame.most) {
        let y = frame.y(tick);
        let class = if tick == 0.0 { "axis" } else { "grid" };
        canvas.line(At { x: LEFT, y }, At { x: frame.right, y }, class);
        canvas.text(At { x: LEFT - 5.0, y: y + 4.0 }, Anchor::End, "tick", &tick_label(tick));
    }
    canvas.text(At { x: 0.0, y: 10.0 }, Anchor::Start, "tick", &curves.axis);
    if frame.first.is_finite() {
        for power in frame.first as i32..=frame.last as i32 {
            let x = f64::from(power).exp2();
            let at = At { x: frame.x(x), y: BOTTOM + 16.0 };
            canvas.text(at, Anchor::Middle, "tick", &tick_label(x));
        }
    }
    let middle = At { x: f64::midpoint(LEFT, frame.right), y: BOTTOM + 36.0 };
    canvas.text(middle, Anchor::Middle, "tick", &curves.x_axis);
}

/// Writes the labels at the ends, pushed apart where they would overlap.
fn draw_names(canvas: &mut Canvas, frame: &Frame, mut names: Vec<CurveLabel<'_>>) {
    names.sort_by(|one, other| one.y.total_cmp(&other.y));
    let mut free = TOP - LINE;
    for name in &mut names {
        name.y = name.y.max(free);
        free = name.y + LINE;
    }
    // Labels pushed out at the bottom move back up.
    let mut limit = BOTTOM + 4.0;
    for name in names.iter_mut().rev() {
        name.y = name.y.min(limit);
        limit = name.y - LINE;
    }
    for name in &names {
        let strong = if name.role == Role::Auto { " strong" } else { "" };
        let class = format!("name {}{strong}", name.role.class());
        canvas.text(At { x: frame.right + 7.0, y: name.y + 4.0 }, Anchor::Start, &class, name.label);
    }
}
