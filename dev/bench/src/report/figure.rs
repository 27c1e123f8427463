//! The content of a report before it is drawn: figures with panels, tables, and claims.
//!
//! The studies (`s1` to `s5`) and `simulated` describe what to show with these types. `bars`,
//! `curves` and `dots` draw the panels; `text` and `html` write the rest.

use crate::study::findings::{SettingFigures, SettingOutcome, SettingResult};
use crate::study::{Role, Unit};
use crate::table;

/// A row of panels with a caption.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) title: String,
    /// One or two sentences below the panels.
    pub(crate) caption: String,
    pub(crate) panels: Vec<Panel>,
}

#[derive(Clone, Debug)]
pub(crate) enum Panel {
    Bars(Bars),
    Curves(Curves),
    Dots(Dots),
}

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FigureOrigin {
    Measured,
    /// Published in the document, measured on the machine named here.
    Published(&'static str),
}

#[derive(Clone, Debug)]
pub(crate) struct Bars {
    pub(crate) title: String,
    pub(crate) source: FigureOrigin,
    pub(crate) axis: String,
    pub(crate) groups: Vec<Group>,
}

#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// Heading above the group; may be empty.
    pub(crate) heading: String,
    pub(crate) bars: Vec<Bar>,
}

#[derive(Clone, Debug)]
pub(crate) struct Bar {
    /// Text to the left of the bar.
    pub(crate) label: String,
    pub(crate) role: Role,
    /// Length of the bar, or the reason why it is missing.
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

#[derive(Clone, Debug)]
pub(crate) struct Curves {
    pub(crate) title: String,
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
    pub(crate) role: Role,
    pub(crate) points: Vec<(f64, Value)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Level {
    /// Text at the end of the line.
    pub(crate) label: String,
    pub(crate) role: Role,
    pub(crate) value: f64,
}

/// Dots on a logarithmic axis of ratios.
#[derive(Clone, Debug)]
pub(crate) struct Dots {
    pub(crate) title: String,
    pub(crate) axis: String,
    pub(crate) rows: Vec<DotRow>,
}

#[derive(Clone, Debug)]
pub(crate) struct DotRow {
    /// Text to the left of the row.
    pub(crate) label: String,
    pub(crate) role: Role,
    pub(crate) measured: Option<f64>,
    pub(crate) published: Option<f64>,
}

impl Role {
    /// Returns the class in the style sheet that gives the role its colour.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Role::Reference => "reference",
            Role::Auto => "auto",
            Role::Sync => "sync",
            Role::IoUring => "uring",
            Role::IoUringRegistered => "uring-rb",
            Role::PosixAio | Role::Rival => "posix",
            Role::KernelAio => "kernel",
            Role::Retry => "retry",
            Role::Ablation => "ablation",
        }
    }
}

impl Value {
    pub(crate) fn of(figures: &SettingFigures) -> Value {
        Value { mean: figures.value.mean, deviation: figures.value.deviation.unwrap_or_default() }
    }

    /// Returns a published number, which has no spread.
    pub(crate) fn exactly(mean: f64) -> Value {
        Value { mean, deviation: 0.0 }
    }
}

impl Bar {
    pub(crate) fn of(line: &SettingResult) -> Bar {
        let value = match &line.outcome {
            SettingOutcome::Timed(figures) => Ok(Value::of(figures)),
            SettingOutcome::Failed(why) => Err(why.clone()),
        };
        Bar { label: line.label.clone(), role: line.role, value, remark: String::new() }
    }

    pub(crate) fn published(label: &str, role: Role, value: f64) -> Bar {
        Bar { label: label.to_owned(), role, value: Ok(Value::exactly(value)), remark: String::new() }
    }

    pub(crate) fn called(self, label: &str) -> Bar {
        Bar { label: label.to_owned(), ..self }
    }
}

impl Panel {
    /// Makes a panel of bars that were measured here.
    pub(crate) fn bars(
        title: impl Into<String>,
        axis: &str,
        groups: impl IntoIterator<Item = Group>,
    ) -> Panel {
        let groups = groups.into_iter().collect();
        Panel::Bars(Bars {
            title: title.into(),
            source: FigureOrigin::Measured,
            axis: axis.to_owned(),
            groups,
        })
    }

    pub(crate) fn curves(
        title: impl Into<String>,
        axis: &str,
        x_axis: &str,
        curves: impl IntoIterator<Item = Curve>,
        levels: impl IntoIterator<Item = Level>,
    ) -> Panel {
        Panel::Curves(Curves {
            title: title.into(),
            axis: axis.to_owned(),
            x_axis: x_axis.to_owned(),
            curves: curves.into_iter().filter(|curve| !curve.points.is_empty()).collect(),
            levels: levels.into_iter().collect(),
        })
    }

    /// Names the machine on which the bars were measured for the document.
    pub(crate) fn published(self, machine: &'static str) -> Panel {
        match self {
            Panel::Bars(bars) => Panel::Bars(Bars { source: FigureOrigin::Published(machine), ..bars }),
            other => other,
        }
    }
}

impl Group {
    pub(crate) fn new(heading: impl Into<String>, bars: impl IntoIterator<Item = Bar>) -> Group {
        Group { heading: heading.into(), bars: bars.into_iter().collect() }
    }
}

impl Level {
    pub(crate) fn new(label: &str, role: Role, value: f64) -> Level {
        Level { label: label.to_owned(), role, value }
    }
}

impl Curve {
    pub(crate) fn new(
        label: impl Into<String>,
        role: Role,
        points: impl IntoIterator<Item = (f64, Value)>,
    ) -> Curve {
        Curve { label: label.into(), role, points: points.into_iter().collect() }
    }
}

impl FigureRow {
    pub(crate) fn new(name: impl Into<String>, cells: impl IntoIterator<Item = String>) -> FigureRow {
        FigureRow { name: name.into(), cells: Ok(cells.into_iter().collect()), is_auto: false }
    }
}

impl Table {
    pub(crate) fn new(
        title: impl Into<String>,
        note: impl Into<String>,
        columns: impl IntoIterator<Item: Into<String>>,
        rows: impl IntoIterator<Item = FigureRow>,
    ) -> Table {
        let columns = columns.into_iter().map(Into::into).collect();
        Table { title: title.into(), note: note.into(), columns, rows: rows.into_iter().collect() }
    }
}

/// Formats a value, or a dash if it is missing.
pub(crate) fn or_dash<T>(value: Option<T>, format: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), format)
}

#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) note: String,
    /// Columns after the name, from left to right.
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<FigureRow>,
}

#[derive(Clone, Debug)]
pub(crate) struct FigureRow {
    pub(crate) name: String,
    /// Cells, or why there are none.
    pub(crate) cells: std::result::Result<Vec<String>, String>,
    pub(crate) is_auto: bool,
}

/// A claim of a document, with what was measured here.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) said: String,
    /// Our result, or "not measured".
    pub(crate) measured: String,
}

impl Claim {
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
pub(crate) fn winners<'a>(
    parts: impl Iterator<Item = impl Iterator<Item = &'a SettingResult>>,
    unit: Unit,
) -> String {
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
    use crate::study::StudyName;
    use crate::study::findings::tests::example;

    #[test]
    fn numbers_are_short() {
        assert_eq!([1_234.5, 12.345, 1.2345].map(rate), ["1234", "12.3", "1.23"]);
        assert_eq!([130.0, 10.3, 1.2, 0.19].map(digits), ["130", "10.3", "1.20", "0.190"]);
        assert_eq!([0.5, 0.00123, 0.0000002].map(probability), ["0.5000", "0.0012", "2e-7"]);
    }

    #[test]
    fn the_best_of_each_part_is_counted_in_the_units_own_direction() {
        let findings = example(StudyName::S1);
        let lines = || findings.parts.iter().map(|part| part.lines.iter());
        let (least, most) = (winners(lines(), Unit::Seconds), winners(lines(), Unit::MegabytesPerSecond));
        assert!(least.starts_with("Fastest, of 15: cp -r in 15"), "{least}");
        assert_ne!(least, most);
        assert_eq!(winners(lines().take(0), Unit::Seconds), "Nothing was measured here.");
    }
}
