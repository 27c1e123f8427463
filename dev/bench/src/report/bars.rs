//! Draws horizontal bars: a label to the left, the number to the right, a whisker for the spread.
//!
//! Published bars are hollow, and haul's own choice has a bold label. A setting without a figure
//! shows the reason in place of its bar. Bars start at 0.

use super::canvas::{Anchor, At, Canvas, LETTER, WIDTH, shortened, tick_label, ticks};
use super::figure::{Bar, Bars, FigureOrigin, Group, Value, digits};
use crate::study::Role;

const ROW: f64 = 18.0;
const BAR: f64 = 11.0;
const HEADING: f64 = 22.0;
const TOP: f64 = 6.0;
const BOTTOM: f64 = 36.0;
/// Space for the number after the longest bar.
const NUMBER: f64 = 52.0;

struct Frame {
    left: f64,
    right: f64,
    most: f64,
}

impl Frame {
    fn new(bars: &Bars) -> Frame {
        let all = || bars.groups.iter().flat_map(|group| &group.bars);
        let letters = all().map(|bar| bar.label.chars().count()).max().unwrap_or_default();
        let remark = all().map(|bar| bar.remark.chars().count()).max().unwrap_or_default();
        let left = (letters as f64 * LETTER + 8.0).clamp(30.0, 170.0);
        let ends = all().filter_map(|bar| bar.value.as_ref().ok()).map(|value| value.mean + value.deviation);
        let most = ends.fold(0.0, f64::max);
        let right = WIDTH - NUMBER - if remark > 0 { remark as f64 * LETTER + 7.0 } else { 0.0 };
        Frame { left, right, most: ticks(most).last().copied().unwrap_or(1.0) }
    }

    fn x(&self, value: f64) -> f64 {
        self.left + (self.right - self.left) * (value / self.most).clamp(0.0, 1.0)
    }
}

pub(crate) fn draw(bars: &Bars) -> String {
    let mut canvas = Canvas::default();
    let frame = Frame::new(bars);
    let bottom = TOP + bars.groups.iter().map(height_of).sum::<f64>();
    draw_grid(&mut canvas, &frame, bottom, &bars.axis);
    let mut y = TOP;
    for group in &bars.groups {
        if !group.heading.is_empty() {
            canvas.text(At { x: 0.0, y: y + 15.0 }, Anchor::Start, "heading", &group.heading);
            y += HEADING;
        }
        for bar in &group.bars {
            draw_bar(&mut canvas, &frame, y, bar, bars.source);
            y += ROW;
        }
    }
    canvas.finish(bottom + BOTTOM, &bars.title)
}

fn height_of(group: &Group) -> f64 {
    let heading = if group.heading.is_empty() { 0.0 } else { HEADING };
    heading + ROW * group.bars.len() as f64
}

fn draw_grid(canvas: &mut Canvas, frame: &Frame, bottom: f64, axis: &str) {
    for tick in ticks(frame.most) {
        let x = frame.x(tick);
        let class = if tick == 0.0 { "axis" } else { "grid" };
        canvas.line(At { x, y: TOP }, At { x, y: bottom + 2.0 }, class);
        canvas.text(At { x, y: bottom + 14.0 }, Anchor::Middle, "tick", &tick_label(tick));
    }
    canvas.text(At { x: frame.left, y: bottom + 29.0 }, Anchor::Start, "tick", axis);
}

fn draw_bar(canvas: &mut Canvas, frame: &Frame, y: f64, bar: &Bar, source: FigureOrigin) {
    let emphasis = if bar.role == Role::Auto { "label strong" } else { "label" };
    let label = shortened(&bar.label, ((frame.left - 4.0) / LETTER * 1.05) as usize);
    canvas.text(At { x: frame.left - 6.0, y: y + 12.5 }, Anchor::End, emphasis, &label);
    match &bar.value {
        Err(why) => {
            let room = ((WIDTH - frame.left - 6.0) / LETTER) as usize;
            let why = shortened(&format!("no figure: {why}"), room);
            canvas.text(At { x: frame.left + 5.0, y: y + 12.5 }, Anchor::Start, "missing", &why);
        }
        Ok(value) => {
            let class = match source {
                FigureOrigin::Measured => format!("bar {}", bar.role.class()),
                FigureOrigin::Published(_) => format!("bar hollow {}", bar.role.class()),
            };
            let end = frame.x(value.mean);
            let corner = At { x: frame.left, y: y + (ROW - BAR) / 2.0 };
            canvas.rectangle(corner, At { x: end - frame.left, y: BAR }, &class);
            draw_number(canvas, frame, y, *value, bar);
        }
    }
}

fn draw_number(canvas: &mut Canvas, frame: &Frame, y: f64, value: Value, bar: &Bar) {
    let middle = y + ROW / 2.0;
    if value.deviation > 0.0 {
        let from = At { x: frame.x(value.mean - value.deviation), y: middle };
        canvas.whisker(from, At { x: frame.x(value.mean + value.deviation), y: middle });
    }
    let behind = frame.x(value.mean + value.deviation) + 6.0;
    let number = digits(value.mean);
    let emphasis = if bar.role == Role::Auto { "number strong" } else { "number" };
    canvas.text(At { x: behind, y: y + 12.5 }, Anchor::Start, emphasis, &number);
    // Bold digits are wider.
    let letter = if bar.role == Role::Auto { LETTER * 1.2 } else { LETTER };
    let after = behind + number.len() as f64 * letter + 7.0;
    canvas.text(At { x: after, y: y + 12.5 }, Anchor::Start, "number tick", &bar.remark);
}
