//! Formats a report as one self-contained HTML page without scripts. The page is also well-formed
//! XML, so that tests can parse it.
//!
//! Every plot is as wide as a phone screen, and its text is never scaled down; on a wider page,
//! several plots stand side by side. Colours are custom properties of the page: one set for light
//! mode, one for dark, and light for print.

use super::canvas::escaped;
use super::figure::{Bars, Claim, Dots, Figure, FigureOrigin, FigureRow, Panel, Table};
use super::tables::{LEGEND, details};
use super::{StudyView, bars, curves, dots, facts, view};
use crate::names::ValueName;
use crate::simulate::published::{MACHINE, TITLE};
use crate::study::findings::StudyFindings;
use crate::study::published::document;

const STYLE: &str = include_str!("style.css");

pub(crate) fn whole(findings: &StudyFindings) -> String {
    let view = view(findings);
    let document = document(findings.study);
    let name = findings.study.name();
    let mut out = String::new();
    write_head(&mut out, &format!("haul bench run {name}"), &view, [document.title, document.machine]);
    write_body(&mut out, &view, &facts(findings), "The document\u{2019}s tables");
    out.push_str(&format!("</section>\n<section><h2>All figures</h2><p>{}</p>\n", escaped(LEGEND)));
    details(findings).iter().for_each(|table| write_table(&mut out, table));
    out.push_str("</section>\n");
    write_commands(&mut out, findings);
    out.push_str("</main></body></html>\n");
    out
}

pub(super) fn simulated(view: &StudyView, facts: &[(&'static str, String)]) -> String {
    let mut out = String::new();
    write_head(&mut out, "haul bench simulate", view, [TITLE, MACHINE]);
    write_body(&mut out, view, facts, "All figures");
    out.push_str("</section>\n</main></body></html>\n");
    out
}

fn write_head(out: &mut String, command: &str, view: &StudyView, [document, machine]: [&str; 2]) {
    let title = escaped(view.title);
    out.push_str(&format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <meta name=\"color-scheme\" content=\"light dark\"/>\
         <title>{command}: {title}</title><style>{STYLE}</style></head><body>\n"
    ));
    out.push_str(&format!(
        "<header><p class=\"kicker\">{command}</p><h1>{title}</h1><p class=\"lede\">{}</p>\
         <p class=\"source\">After {}. <span class=\"tag\">published</span> figures were measured on: {}.</p>",
        escaped(view.about),
        escaped(document),
        escaped(machine)
    ));
}

/// Writes facts, claims, figures and tables; leaves the section with the tables open.
fn write_body(out: &mut String, view: &StudyView, facts: &[(&'static str, String)], tables: &str) {
    write_facts(out, facts);
    out.push_str("</header>\n<main>\n");
    write_claims(out, &view.claims);
    for (index, figure) in view.figures.iter().enumerate() {
        write_figure(out, index + 1, figure);
    }
    out.push_str(&format!("<section><h2>{}</h2>\n", escaped(tables)));
    view.tables.iter().for_each(|table| write_table(out, table));
}

fn write_facts(out: &mut String, facts: &[(&'static str, String)]) {
    out.push_str("<dl class=\"facts\">");
    for (name, fact) in facts {
        out.push_str(&format!("<div><dt>{name}</dt><dd>{}</dd></div>", escaped(fact)));
    }
    out.push_str("</dl>");
}

fn write_claims(out: &mut String, claims: &[Claim]) {
    if claims.is_empty() {
        return;
    }
    out.push_str("<section><h2>What the document says, and what came out here</h2><div class=\"claims\">\n");
    for Claim { said, measured } in claims {
        out.push_str(&format!(
            "<div><p class=\"said\"><span class=\"tag\">published</span> {}</p><p class=\"found\">{}</p></div>\n",
            escaped(said),
            escaped(measured)
        ));
    }
    out.push_str("</div></section>\n");
}

fn write_figure(out: &mut String, number: usize, figure: &Figure) {
    out.push_str(&format!("<figure><h2>{}</h2><div class=\"panels\">\n", escaped(&figure.title)));
    for panel in &figure.panels {
        let (title, tag, plot) = match panel {
            Panel::Bars(panel) => (&panel.title, bars_tag(panel), bars::draw(panel)),
            Panel::Curves(panel) => (&panel.title, String::new(), curves::draw(panel)),
            Panel::Dots(panel) => (&panel.title, dots_tag(panel), dots::draw(panel)),
        };
        out.push_str(&format!("<div class=\"panel\"><h3>{}{tag}</h3>{plot}</div>\n", escaped(title)));
    }
    let caption = escaped(&figure.caption);
    out.push_str(&format!("</div><figcaption><b>Figure {number}.</b> {caption}</figcaption></figure>\n"));
}

fn bars_tag(panel: &Bars) -> String {
    match panel.source {
        FigureOrigin::Measured => String::new(),
        FigureOrigin::Published(short) => {
            format!(" <span class=\"tag\">published: {}</span>", escaped(short))
        }
    }
}

fn dots_tag(panel: &Dots) -> String {
    let has_published = panel.rows.iter().any(|row| row.published.is_some());
    let published = if has_published { " <span class=\"tag\">published</span>" } else { "" };
    format!(" <span class=\"tag filled\">here</span>{published}")
}

fn write_table(out: &mut String, table: &Table) {
    out.push_str(&format!(
        "<h3>{}</h3><div class=\"scroll\"><table><thead><tr><th></th>",
        escaped(&table.title)
    ));
    for column in &table.columns {
        out.push_str(&format!("<th>{}</th>", escaped(column)));
    }
    out.push_str("</tr></thead><tbody>\n");
    for FigureRow { name, cells, is_auto } in &table.rows {
        let class = if *is_auto { " class=\"auto\"" } else { "" };
        out.push_str(&format!("<tr{class}><th>{}</th>", escaped(name)));
        match cells {
            Ok(cells) => cells.iter().for_each(|cell| out.push_str(&format!("<td>{}</td>", escaped(cell)))),
            Err(why) => out.push_str(&format!(
                "<td colspan=\"{}\" class=\"missing\">no figure: {}</td>",
                table.columns.len(),
                escaped(why)
            )),
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    if !table.note.is_empty() {
        out.push_str(&format!("<p class=\"note\">{}</p>\n", escaped(&table.note)));
    }
}

fn write_commands(out: &mut String, findings: &StudyFindings) {
    let mut commands: Vec<(&str, &str)> = Vec::new();
    for line in findings.parts.iter().flat_map(|part| &part.lines) {
        let pair = (line.label.as_str(), line.command.as_str());
        if !commands.contains(&pair) {
            commands.push(pair);
        }
    }
    out.push_str("<section class=\"commands\"><h2>The command lines</h2><dl>\n");
    for (label, command) in commands {
        let (label, command) = (escaped(label), escaped(command));
        out.push_str(&format!("<div><dt>{label}</dt><dd><code>{command}</code></dd></div>\n"));
    }
    out.push_str("</dl></section>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::StudyName;
    use crate::study::findings::SettingOutcome;
    use crate::study::findings::tests::example;

    const STUDIES: [StudyName; 5] =
        [StudyName::S1, StudyName::S2, StudyName::S3, StudyName::S4, StudyName::S5];

    fn parsed(page: &str) -> roxmltree::Document<'_> {
        let body = page.strip_prefix("<!DOCTYPE html>\n").unwrap();
        roxmltree::Document::parse(body).unwrap()
    }

    #[test]
    fn every_page_is_well_formed_and_has_its_plots() {
        for name in STUDIES {
            let page = whole(&example(name));
            let document = parsed(&page);
            let count = |tag: &str| document.descendants().filter(|node| node.has_tag_name(tag)).count();
            let plots = document
                .descendants()
                .filter(|node| node.tag_name().name() == "svg" && node.tag_name().namespace().is_some());
            assert!(plots.clone().count() >= 4, "{name:?}");
            for plot in plots {
                let title = plot.first_element_child().unwrap();
                assert!(!title.text().unwrap().is_empty(), "{name:?}");
                assert!(plot.descendants().any(|node| node.tag_name().name() == "text"));
            }
            assert_eq!(count("figure"), count("figcaption"));
            assert!(count("figure") >= 2, "{name:?}");
        }
    }

    #[test]
    fn a_page_needs_nothing_but_itself() {
        for name in STUDIES {
            let page = whole(&example(name));
            let document = parsed(&page);
            for node in document.descendants().filter(roxmltree::Node::is_element) {
                let tag = node.tag_name().name();
                assert!(!["script", "link", "img", "iframe", "object"].contains(&tag), "{tag}");
                for attribute in node.attributes() {
                    assert!(!["src", "href"].contains(&attribute.name()), "{tag} {}", attribute.value());
                }
            }
            assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
        }
    }

    #[test]
    fn no_number_in_a_plot_is_undefined() {
        for name in STUDIES {
            let mut findings = example(name);
            // The second round has nothing measured at all.
            for round in 0..2 {
                let page = whole(&findings);
                assert!(
                    !page.contains("NaN") && !page.contains("\"inf") && !page.contains("\"-inf"),
                    "{name:?}"
                );
                parsed(&page);
                if round == 0 {
                    for line in findings.parts.iter_mut().flat_map(|part| &mut part.lines) {
                        line.outcome = SettingOutcome::Failed("exit status 1".to_owned());
                    }
                }
            }
            findings.parts.clear();
            parsed(&whole(&findings));
        }
    }

    #[test]
    fn what_is_published_is_called_so_and_hauls_choice_is_set_off() {
        let page = whole(&example(StudyName::S1));
        let document = parsed(&page);
        let hollow = |node: &roxmltree::Node<'_, '_>| {
            node.attribute("class").is_some_and(|class| class.split(' ').any(|word| word == "hollow"))
        };
        for node in document.descendants().filter(hollow) {
            let panel = node.ancestors().find(|one| one.attribute("class") == Some("panel")).unwrap();
            let heading = panel.first_element_child().unwrap();
            let text: String = heading.descendants().filter_map(|one| one.text()).collect();
            assert!(text.contains("published"), "{text}");
        }
        assert!(page.contains("class=\"label strong\">haul (auto)"), "{page}");
        assert!(page.contains("<tr class=\"auto\">"));
    }
}
