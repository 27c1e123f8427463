//! The content of a report before it is drawn: figures with panels, tables, and claims.
//!
//! The studies (`s1` to `s5`) and `simulated` describe what to show with these types. `bars`,
//! `curves` and `dots` draw the panels; `text` and `html` write the rest.

use crate::run::findings::{Figures, Line, Outcome};
use crate::run::study::{Role, Unit};
use crate::table;

/// A row of panels with a caption.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) title: String,
    /// One or two sentences below the panels.
    pub(crate) caption: String,
    /// Plots; on a phone they stack.
    pub(crate) panels: Vec<Panel>,
}

/// One plot.
#[derive(Clone, Debug)]
pub(crate) enum Panel {
    /// Horizontal bars, in groups.
    Bars(Bars),
    /// Curves over a varied parameter.
    Curves(Curves),
    /// Dots on an axis of ratios.
    Dots(Dots),
}

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Measured,
    /// Published in the document, measured on the machine named here.
    Published(&'static str),
}

/// A plot of horizontal bars.
#[derive(Clone, Debug)]
pub(crate) struct Bars {
    pub(crate) title: String,
    pub(crate) source: Source,
    /// Label of the axis.
    pub(crate) axis: String,
    /// Groups, from top to bottom.
    pub(crate) groups: Vec<Group>,
}

#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// Heading above the group; may be empty.
    pub(crate) heading: String,
    /// Bars, from top to bottom.
    pub(crate) bars: Vec<Bar>,
}

#[derive(Clone, Debug)]
pub(crate) struct Bar {
    /// Text to the left of the bar.
    pub(crate) label: String,
    pub(crate) tone: Tone,
    /// Length of the bar, or why there is none.
    pub(crate) value: std::result::Result<Value, String>,
    /// Text after the number.
    pub(crate) remark: String,
}

/// A mean with its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Value {
    pub(crate) mean: f64,
    /// Sample standard deviation; 0 if there is none.
    pub(crate) deviation: f64,
}

/// A plot of curves.
#[derive(Clone, Debug)]
pub(crate) struct Curves {
    pub(crate) title: String,
    /// Label of the y axis.
    pub(crate) axis: String,
    /// Label of the x axis, the varied parameter, on a scale of powers of two.
    pub(crate) x_axis: String,
    pub(crate) curves: Vec<Curve>,
    /// Values that do not depend on the parameter, drawn as horizontal lines.
    pub(crate) levels: Vec<Level>,
}

#[derive(Clone, Debug)]
pub(crate) struct Curve {
    /// Text at the end of the curve.
    pub(crate) label: String,
    pub(crate) tone: Tone,
    /// Points, from left to right.
    pub(crate) points: Vec<(f64, Value)>,
}

/// A horizontal line.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    /// Text at the end of the line.
    pub(crate) label: String,
    pub(crate) tone: Tone,
    pub(crate) value: f64,
}

/// Dots on a logarithmic axis of ratios.
#[derive(Clone, Debug)]
pub(crate) struct Dots {
    pub(crate) title: String,
    /// Label of the axis.
    pub(crate) axis: String,
    /// Rows, from top to bottom.
    pub(crate) rows: Vec<DotRow>,
}

#[derive(Clone, Debug)]
pub(crate) struct DotRow {
    /// Text to the left of the row.
    pub(crate) label: String,
    /// Colour of the measured dot.
    pub(crate) tone: Tone,
    /// Ratio measured here.
    pub(crate) measured: Option<f64>,
    /// Ratio in the document.
    pub(crate) published: Option<f64>,
}

/// Colour of a bar or curve, named after what it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tone(&'static str);

impl Tone {
    pub(crate) fn of(role: Role) -> Tone {
        Tone(match role {
            Role::Reference => "reference",
            Role::Auto => "auto",
            Role::Sync => "sync",
            Role::IoUring => "uring",
            Role::IoUringRegistered => "uring-rb",
            Role::PosixAio => "posix",
            Role::KernelAio => "kernel",
            Role::Retry => "retry",
            Role::Ablation => "ablation",
            Role::Rival => "posix",
        })
    }

    /// Returns its class in the style sheet.
    pub(crate) fn class(self) -> &'static str {
        self.0
    }

    /// True for haul's own choice, which is highlighted.
    pub(crate) fn is_auto(self) -> bool {
        self.0 == "auto"
    }
}

impl Value {
    /// Returns the mean and deviation of `figures`.
    pub(crate) fn of(figures: &Figures) -> Value {
        Value { mean: figures.value.mean, deviation: figures.value.deviation.unwrap_or_default() }
    }

    /// Returns a published number, which has no spread.
    pub(crate) fn exactly(mean: f64) -> Value {
        Value { mean, deviation: 0.0 }
    }
}

impl Bar {
    /// Makes the bar of a setting.
    pub(crate) fn of(line: &Line) -> Bar {
        let value = match &line.outcome {
            Outcome::Timed(figures) => Ok(Value::of(figures)),
            Outcome::Failed(why) => Err(why.clone()),
        };
        Bar { label: line.label.clone(), tone: Tone::of(line.role), value, remark: String::new() }
    }

    pub(crate) fn published(label: &str, tone: Tone, value: f64) -> Bar {
        Bar { label: label.to_owned(), tone, value: Ok(Value::exactly(value)), remark: String::new() }
    }

    /// Replaces the label.
    pub(crate) fn called(self, label: &str) -> Bar {
        Bar { label: label.to_owned(), ..self }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) title: String,
    /// Note below the table.
    pub(crate) note: String,
    /// Columns after the name, from left to right.
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// Cells, or why there are none.
    pub(crate) cells: std::result::Result<Vec<String>, String>,
    /// True for haul's own choice.
    pub(crate) is_auto: bool,
}

/// A claim of a document, with what was measured here.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    /// Statement of the document.
    pub(crate) said: String,
    /// Our result, or "not measured".
    pub(crate) measured: String,
}

impl Claim {
    /// Pairs a claim with its measurement.
    pub(crate) fn new(said: &str, measured: Option<String>) -> Claim {
        Claim { said: said.to_owned(), measured: measured.unwrap_or_else(|| "not measured".to_owned()) }
    }
}

/// Formats a value of a study without its unit.
pub(crate) fn number(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds => table::seconds(value),
        Unit::MegabytesPerSecond => rate(value),
    }
}

/// Formats a rate with about three significant digits.
pub(crate) fn rate(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Formats any number with about three significant digits, as the documents do.
pub(crate) fn digits(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

pub(crate) fn probability(p: f64) -> String {
    match p {
        0.0001.. => format!("{p:.4}"),
        _ => format!("{p:.0e}"),
    }
}

/// Joins parts of a sentence; `None` if there are none.
pub(crate) fn joined(parts: impl IntoIterator<Item = String>, separator: &str) -> Option<String> {
    parts.into_iter().reduce(|said, part| said + separator + &part)
}

/// Describes how often each setting is the best of a part, the most frequent first.
pub(crate) fn winners<'a>(parts: impl Iterator<Item = impl Iterator<Item = &'a Line>>, unit: Unit) -> String {
    let mut wins: Vec<(String, usize)> = Vec::new();
    let mut count = 0;
    for lines in parts {
        let timed = lines.filter_map(|line| Some((line, line.mean()?)));
        let best = match unit {
            Unit::Seconds => timed.min_by(|one, other| one.1.total_cmp(&other.1)),
            Unit::MegabytesPerSecond => timed.max_by(|one, other| one.1.total_cmp(&other.1)),
        };
        let Some((line, _)) = best else { continue };
        count += 1;
        match wins.iter_mut().find(|(label, _)| *label == line.label) {
            Some((_, wins)) => *wins += 1,
            None => wins.push((line.label.clone(), 1)),
        }
    }
    wins.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    match (wins.as_slice(), count) {
        ([], _) => "Nothing was measured here.".to_owned(),
        ([(label, _)], 1) => format!("The fastest is {label}."),
        (wins, _) => {
            let said: Vec<String> = wins.iter().map(|(label, wins)| format!("{label} in {wins}")).collect();
            format!("Fastest, of {count}: {}.", said.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::findings::tests::example;
    use crate::run::study::Name;

    #[test]
    fn numbers_are_short() {
        assert_eq!([1_234.5, 12.345, 1.2345].map(rate), ["1234", "12.3", "1.23"]);
        assert_eq!([130.0, 10.3, 1.2, 0.19].map(digits), ["130", "10.3", "1.20", "0.190"]);
        assert_eq!([0.5, 0.00123, 0.0000002].map(probability), ["0.5000", "0.0012", "2e-7"]);
    }

    #[test]
    fn the_best_of_each_part_is_counted_in_the_units_own_direction() {
        let findings = example(Name::S1);
        let lines = || findings.parts.iter().map(|part| part.lines.iter());
        let (least, most) = (winners(lines(), Unit::Seconds), winners(lines(), Unit::MegabytesPerSecond));
        assert!(least.starts_with("Fastest, of 15: cp -r in 15"), "{least}");
        assert_ne!(least, most);
        assert_eq!(winners(lines().take(0), Unit::Seconds), "Nothing was measured here.");
    }
}
