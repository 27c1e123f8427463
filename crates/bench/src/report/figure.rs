//! What a report shows, before it is drawn: figures of panels, tables, and claims.
//!
//! The four studies say what to show in these words (`s1` to `s4`); `bars`, `curves` and `dots` draw the
//! panels, `text` and `html` write the rest.

use crate::run::findings::{Figures, Line, Outcome};
use crate::run::study::{Role, Unit};
use crate::table;

/// A row of panels with a sentence below.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    /// What it is about.
    pub(crate) title: String,
    /// What it shows, in a sentence or two.
    pub(crate) caption: String,
    /// Its panels; on a phone they stand below each other.
    pub(crate) panels: Vec<Panel>,
}

/// One plot.
#[derive(Clone, Debug)]
pub(crate) enum Panel {
    /// Horizontal bars in groups.
    Bars(Bars),
    /// Curves over a number that is varied.
    Curves(Curves),
    /// Dots on a line of ratios.
    Dots(Dots),
}

/// Says whether a figure comes from here or from the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Measured by this run.
    Measured,
    /// Given by the document, measured on what is named.
    Published(&'static str),
}

/// Horizontal bars.
#[derive(Clone, Debug)]
pub(crate) struct Bars {
    /// What is above them.
    pub(crate) title: String,
    /// Where they come from.
    pub(crate) source: Source,
    /// What stands at the axis.
    pub(crate) axis: String,
    /// The groups, from above.
    pub(crate) groups: Vec<Group>,
}

/// A group of bars.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// What stands above it; empty for nothing.
    pub(crate) heading: String,
    /// The bars, from above.
    pub(crate) bars: Vec<Bar>,
}

/// One bar.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    /// What stands before it.
    pub(crate) label: String,
    /// Its colour.
    pub(crate) tone: Tone,
    /// Its length, or why it has none.
    pub(crate) value: std::result::Result<Value, String>,
    /// What stands behind it, after the number.
    pub(crate) remark: String,
}

/// A number with its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Value {
    /// The mean.
    pub(crate) mean: f64,
    /// The sample deviation; 0 for none.
    pub(crate) deviation: f64,
}

/// Curves.
#[derive(Clone, Debug)]
pub(crate) struct Curves {
    /// What is above them.
    pub(crate) title: String,
    /// What stands at the axis of values.
    pub(crate) axis: String,
    /// What stands at the axis of the number that is varied, by powers of two.
    pub(crate) x_axis: String,
    /// The curves.
    pub(crate) curves: Vec<Curve>,
    /// Values that do not depend on the number, as lines across.
    pub(crate) levels: Vec<Level>,
}

/// One curve.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    /// What stands at its end.
    pub(crate) label: String,
    /// Its colour.
    pub(crate) tone: Tone,
    /// Its points, from the left.
    pub(crate) points: Vec<(f64, Value)>,
}

/// A line across.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    /// What stands at its end.
    pub(crate) label: String,
    /// Its colour.
    pub(crate) tone: Tone,
    /// Where it is.
    pub(crate) value: f64,
}

/// Dots on a logarithmic line of ratios.
#[derive(Clone, Debug)]
pub(crate) struct Dots {
    /// What is above them.
    pub(crate) title: String,
    /// What stands at the axis.
    pub(crate) axis: String,
    /// The rows, from above.
    pub(crate) rows: Vec<DotRow>,
}

/// A row of dots.
#[derive(Clone, Debug)]
pub(crate) struct DotRow {
    /// What stands before it.
    pub(crate) label: String,
    /// The colour of what was measured.
    pub(crate) tone: Tone,
    /// The ratio measured here.
    pub(crate) measured: Option<f64>,
    /// The ratio in the document.
    pub(crate) published: Option<f64>,
}

/// The colour of a bar or curve, by what it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tone(&'static str);

impl Tone {
    /// Returns the colour of a role.
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

    /// Returns the class the style sheet knows it by.
    pub(crate) fn class(self) -> &'static str {
        self.0
    }

    /// Says whether it is haul's own choice, which is set off from the others.
    pub(crate) fn is_auto(self) -> bool {
        self.0 == "auto"
    }
}

impl Value {
    /// Takes the mean and the deviation of figures.
    pub(crate) fn of(figures: &Figures) -> Value {
        Value { mean: figures.value.mean, deviation: figures.value.deviation.unwrap_or_default() }
    }

    /// Takes a number of a document, which has no spread.
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

    /// Makes the bar of a number of a document.
    pub(crate) fn published(label: &str, tone: Tone, value: f64) -> Bar {
        Bar { label: label.to_owned(), tone, value: Ok(Value::exactly(value)), remark: String::new() }
    }

    /// Changes what stands before it.
    pub(crate) fn called(self, label: &str) -> Bar {
        Bar { label: label.to_owned(), ..self }
    }
}

/// A table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// What is above it.
    pub(crate) title: String,
    /// What there is to say about it.
    pub(crate) note: String,
    /// Its columns behind the name, left to right.
    pub(crate) columns: Vec<String>,
    /// Its rows.
    pub(crate) rows: Vec<Row>,
}

/// A row of a table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Its name.
    pub(crate) name: String,
    /// Its cells, or why there are none.
    pub(crate) cells: std::result::Result<Vec<String>, String>,
    /// Whether it is haul's own choice.
    pub(crate) is_auto: bool,
}

/// What a document says, and what came out here.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    /// What the document says.
    pub(crate) said: String,
    /// What was measured; "not measured" where it was not.
    pub(crate) measured: String,
}

impl Claim {
    /// Puts a claim beside what was measured, if it was.
    pub(crate) fn new(said: &str, measured: Option<String>) -> Claim {
        Claim { said: said.to_owned(), measured: measured.unwrap_or_else(|| "not measured".to_owned()) }
    }
}

/// Writes a value of a study without its unit.
pub(crate) fn number(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds => table::seconds(value),
        Unit::MegabytesPerSecond => rate(value),
    }
}

/// Writes a rate with three digits that mean something.
pub(crate) fn rate(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Writes any number with three digits that mean something, as the documents do.
pub(crate) fn digits(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Writes a probability.
pub(crate) fn probability(p: f64) -> String {
    match p {
        0.0001.. => format!("{p:.4}"),
        _ => format!("{p:.0e}"),
    }
}

/// Says for each setting that is the best of a part in how many of them it is, the most frequent first.
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
