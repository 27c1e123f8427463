//! Formats a report for a terminal: the document's own tables, its claims, and the details. Text
//! wraps at 100 columns; a table may be wider.

use super::figure::{FigureRow, Table};
use super::tables::{LEGEND, details};
use super::{facts, view};
use crate::names::ValueName;
use crate::study::findings::StudyFindings;
use crate::study::published::document;
use crate::table::write_paragraph;

/// Maximum width of the row names, in columns; a longer name gets a line of its own.
const NAME_WIDTH: usize = 22;

pub(crate) fn whole(findings: &StudyFindings) -> String {
    let view = view(findings);
    let document = document(findings.study);
    let mut out = format!("{}: {}\n", findings.study.name(), view.title);
    paragraph(&mut out, &format!("Published figures: {}; {}.", document.title, document.machine));
    for table in &view.tables {
        write_table(&mut out, table);
    }
    if !view.claims.is_empty() {
        out.push_str("\nWhat the document says, and what came out here\n");
        for claim in &view.claims {
            paragraph(&mut out, &format!("- {}", claim.said));
            paragraph(&mut out, &format!("    here: {}", claim.measured));
        }
    }
    for table in details(findings) {
        write_table(&mut out, &table);
    }
    out.push('\n');
    paragraph(&mut out, LEGEND);
    for (name, fact) in facts(findings) {
        paragraph(&mut out, &format!("{name}: {fact}"));
    }
    out
}

fn write_table(out: &mut String, table: &Table) {
    out.push('\n');
    paragraph(out, &table.title);
    let rows = || table.rows.iter().filter_map(|row| row.cells.as_ref().ok());
    let widths: Vec<usize> = table
        .columns
        .iter()
        .enumerate()
        .map(|(index, column)| {
            let cells = rows().filter_map(|cells| cells.get(index));
            cells.chain([column]).map(|cell| cell.chars().count()).max().unwrap_or_default() + 2
        })
        .collect();
    let names = table.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or_default();
    let name_width = (names + 1).min(NAME_WIDTH);
    write_cells(out, "", name_width, &table.columns, &widths);
    for row in &table.rows {
        write_row(out, row, name_width, &widths);
    }
    if !table.note.is_empty() {
        paragraph(out, &table.note);
    }
}

fn write_row(out: &mut String, row: &FigureRow, name_width: usize, widths: &[usize]) {
    match &row.cells {
        Ok(cells) if row.name.chars().count() < name_width => {
            write_cells(out, &row.name, name_width, cells, widths);
        }
        Ok(cells) => {
            out.push_str(&row.name);
            out.push('\n');
            write_cells(out, "", name_width, cells, widths);
        }
        Err(why) => paragraph(out, &format!("{:name_width$} no figure: {why}", row.name)),
    }
}

fn write_cells(out: &mut String, name: &str, name_width: usize, cells: &[String], widths: &[usize]) {
    let mut line = format!("{name:name_width$}");
    for (cell, width) in cells.iter().zip(widths) {
        line.push_str(&format!("{cell:>width$}"));
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

fn paragraph(out: &mut String, text: &str) {
    write_paragraph(out, text, "    ");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::StudyName;
    use crate::study::findings::tests::example;
    use crate::table::WIDTH;

    #[test]
    fn every_study_fits_into_a_terminal() {
        for name in [StudyName::S1, StudyName::S2, StudyName::S3, StudyName::S4, StudyName::S5] {
            let text = whole(&example(name));
            for line in text.lines() {
                assert!(line.chars().count() <= WIDTH + 6, "{name:?}: {} {line}", line.chars().count());
            }
            assert!(text.contains("no figure: exit status 1: no <such> engine & more"), "{text}");
            assert!(text.contains("Published figures: "), "{text}");
        }
    }

    #[test]
    fn columns_are_straight() {
        let table = Table {
            title: "title".to_owned(),
            note: String::new(),
            columns: vec!["s".to_owned(), "median".to_owned()],
            rows: [("one", "1.00"), ("a name that is longer than it may be", "100.00")]
                .map(|(name, cell)| FigureRow {
                    name: name.to_owned(),
                    cells: Ok(vec![cell.to_owned(), "2".to_owned()]),
                    is_auto: false,
                })
                .to_vec(),
        };
        let mut out = String::new();
        write_table(&mut out, &table);
        let ends: Vec<usize> = out.lines().filter(|line| line.ends_with(" 2")).map(str::len).collect();
        assert_eq!(ends.len(), 2);
        assert_eq!(ends[0], ends[1], "{out}");
    }
}
