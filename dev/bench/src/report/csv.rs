//! Writes one CSV record per figure, measured and published, as in RFC 4180.

use crate::names::ValueName;
use crate::study::findings::{Measured, SettingFigures, SettingOutcome, SettingResult, StudyFindings, Test};

const COLUMNS: [&str; 28] = [
    "study",
    "source",
    "part",
    "group",
    "label",
    "setting",
    "command",
    "quantity",
    "unit",
    "count",
    "mean",
    "deviation",
    "median",
    "min",
    "max",
    "synced_mean",
    "cpu_seconds_mean",
    "cpu_seconds_per_gib",
    "cpu_seconds_per_1000_files",
    "memory_peak_bytes",
    "against",
    "expected",
    "times_as_good",
    "welch_t",
    "welch_degrees",
    "welch_p",
    "pooled_p",
    "failure",
];

pub(crate) fn whole(findings: &StudyFindings) -> String {
    let mut out = String::new();
    record(&mut out, COLUMNS.map(str::to_owned));
    for part in &findings.parts {
        for line in &part.lines {
            record(&mut out, measured(findings, part, line));
        }
    }
    for one in &findings.published {
        let mut fields: [String; 28] = Default::default();
        let study = findings.study.name();
        let known = [(0, study.as_str()), (1, "published"), (2, one.part.as_ref()), (5, one.id)];
        let known = known.into_iter().chain([(7, one.quantity), (8, one.unit)]);
        known.for_each(|(field, value)| fields[field] = value.to_owned());
        fields[10] = one.value.to_string();
        record(&mut out, fields);
    }
    out
}

fn measured(findings: &StudyFindings, part: &Measured, line: &SettingResult) -> [String; 28] {
    let (figures, failure) = match &line.outcome {
        SettingOutcome::Timed(figures) => (Some(figures), ""),
        SettingOutcome::Failed(why) => (None, why.as_str()),
    };
    let test = figures.and_then(|figures| figures.test.as_ref());
    let some = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let figure = |value: fn(&SettingFigures) -> Option<f64>| some(figures.and_then(|figures| value(figures)));
    let tested = |value: fn(&Test) -> Option<f64>| some(test.and_then(value));
    [
        findings.study.name(),
        "measured".to_owned(),
        part.name.clone(),
        part.group.clone(),
        part.label.clone(),
        line.id.clone(),
        line.command.clone(),
        "mean of the counted rounds".to_owned(),
        findings.unit.symbol().to_owned(),
        figure(|it| Some(it.value.count as f64)),
        figure(|it| Some(it.value.mean)),
        figure(|it| it.value.deviation),
        figure(|it| Some(it.value.median)),
        figure(|it| Some(it.value.min)),
        figure(|it| Some(it.value.max)),
        figure(|it| it.with_sync.map(|synced| synced.mean)),
        figure(|it| Some(it.cpu_seconds.mean)),
        figure(|it| Some(it.cpu_seconds_per_gib)),
        figure(|it| it.cpu_seconds_per_thousand_files),
        figure(|it| Some(it.memory_peak_bytes as f64)),
        test.map(|test| test.against.clone()).unwrap_or_default(),
        test.map(|test| format!("{:?}", test.expected).to_lowercase()).unwrap_or_default(),
        tested(|it| Some(it.times_as_good)),
        tested(|it| it.welch.map(|test| test.t)),
        tested(|it| it.welch.map(|test| test.degrees)),
        tested(|it| it.welch.map(|test| test.p)),
        tested(|it| it.pooled.map(|test| test.p)),
        failure.to_owned(),
    ]
}

fn record(out: &mut String, fields: [String; 28]) {
    let quoted = fields.map(|field| {
        if field.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            field
        }
    });
    out.push_str(&quoted.join(","));
    out.push_str("\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::StudyName;
    use crate::study::findings::tests::example;

    /// Splits a record into its fields, like an RFC 4180 reader.
    fn fields(record: &str) -> Vec<String> {
        let mut fields = vec![String::new()];
        let mut quoted = false;
        let mut letters = record.chars().peekable();
        while let Some(letter) = letters.next() {
            let last = fields.last_mut().unwrap();
            match letter {
                '"' if quoted && letters.peek() == Some(&'"') => last.push(letters.next().unwrap()),
                '"' => quoted = !quoted,
                ',' if !quoted => fields.push(String::new()),
                _ => last.push(letter),
            }
        }
        assert!(!quoted, "{record}");
        fields
    }

    #[test]
    fn every_record_has_all_fields_and_every_figure_a_record() {
        for name in [StudyName::S1, StudyName::S2, StudyName::S3, StudyName::S4, StudyName::S5] {
            let mut findings = example(name);
            findings.parts[0].lines[0].command = "cp \"a, b\" SOURCE TARGET".to_owned();
            let text = whole(&findings);
            let records: Vec<Vec<String>> = text.trim_end().split("\r\n").map(fields).collect();
            let lines: usize = findings.parts.iter().map(|part| part.lines.len()).sum();
            assert_eq!(records.len(), 1 + lines + findings.published.len());
            assert!(records.iter().all(|record| record.len() == COLUMNS.len()));
            assert_eq!(records[0], COLUMNS);
            assert_eq!(records[1][6], "cp \"a, b\" SOURCE TARGET");
            assert_eq!(records[2][27], "exit status 1: no <such> engine & more");
            assert_eq!(records.iter().filter(|one| one[1] == "published").count(), findings.published.len());
        }
    }

    #[test]
    fn a_mean_is_written_whole() {
        let findings = example(StudyName::S1);
        let text = whole(&findings);
        let record = fields(text.lines().nth(1).unwrap());
        let mean = findings.parts[0].lines[0].mean().unwrap();
        assert_eq!(record[10].parse::<f64>().unwrap(), mean);
        assert_eq!(record[20], "");
    }
}
