//! A page with the results of a command, and its HTML.

use super::{
    chart::{Chart, THEME},
    origin::Origin,
    svg::escape,
};
use std::fmt::Write;

/// Marks a page that a report wrote, so that the next report may replace it.
pub(super) const PAGE_MARK: &str = "<meta name=\"generator\" content=\"povmeter ";

const LAYOUT: &str = include_str!("page.css");

/// A page that a command fills.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(super) title: String,
    /// What was done, in one line.
    pub(super) lead: String,
    /// The numbers that matter most.
    pub(super) facts: Vec<Fact>,
    pub(super) sections: Vec<Section>,
}

/// One number with its name.
#[derive(Clone, Debug)]
pub(super) struct Fact {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) note: String,
    /// Whether the number is highlighted as a problem.
    pub(super) bad: bool,
}

/// Parts below a heading.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(super) heading: String,
    pub(super) parts: Vec<Part>,
}

/// A part of a section.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// A paragraph.
    Note(String),
    Chart(Chart),
    Table(Table),
    /// An SVG element, such as a flame graph. It goes into the page unchanged, so all text in it must
    /// be escaped. Scripts in it do not run.
    Picture {
        svg: String,
        caption: String,
    },
}

/// Rows of texts.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(super) caption: String,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Vec<String>>,
    /// Whether it is hidden until the reader unfolds it.
    pub(super) folded: bool,
}

/// A column with its name.
#[derive(Clone, Debug)]
pub(super) enum Column {
    Text(&'static str),
    Number(&'static str),
    /// Whether a check holds; a failed one is highlighted.
    Verdict(&'static str),
}

/// The cell of a check that failed.
pub(super) const FAILED: &str = "FAILED";

/// The most rows that a table shows, because people read a page, and the JSON has all numbers.
const MOST_ROWS: usize = 2_000;

impl Section {
    pub(super) fn new(heading: impl Into<String>, parts: Vec<Part>) -> Self {
        let heading = heading.into();
        Self { heading, parts }
    }
}

impl Fact {
    pub(super) fn new(name: &str, value: impl Into<String>, note: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            value: value.into(),
            note: note.into(),
            bad: false,
        }
    }
}

impl Table {
    pub(super) fn new(columns: Vec<Column>, rows: Vec<Vec<String>>) -> Self {
        let (caption, folded) = Default::default();
        Self {
            caption,
            columns,
            rows,
            folded,
        }
    }

    /// A table of checks: name, whether it holds, detail.
    pub(super) fn checks<'a>(checks: impl IntoIterator<Item = (&'a str, bool, String)>) -> Self {
        let columns = vec![
            Column::Text("check"),
            Column::Verdict(""),
            Column::Text("detail"),
        ];
        let rows = checks.into_iter().map(|(name, holds, detail)| {
            let verdict = if holds { "holds" } else { FAILED };
            vec![name.to_owned(), verdict.to_owned(), detail]
        });
        Self::new(columns, rows.collect())
    }
}

impl Page {
    pub(super) fn new(title: impl Into<String>, lead: impl Into<String>) -> Self {
        let (facts, sections) = Default::default();
        Self {
            title: title.into(),
            lead: lead.into(),
            facts,
            sections,
        }
    }

    /// Adds a section below the others.
    pub(super) fn section(&mut self, heading: impl Into<String>, parts: Vec<Part>) {
        self.sections.push(Section::new(heading, parts));
    }

    /// All charts, from the top.
    pub(super) fn charts(&self) -> impl Iterator<Item = &Chart> {
        let parts = self.sections.iter().flat_map(|section| &section.parts);
        parts.filter_map(|part| match part {
            Part::Chart(chart) => Some(chart),
            _ => None,
        })
    }

    /// The page as one file that fetches nothing and runs no script.
    pub(super) fn html(&self, origin: &Origin) -> String {
        let (title, lead) = (escape(&self.title), escape(&self.lead));
        let version = env!("CARGO_PKG_VERSION");
        let mut html = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             {PAGE_MARK}{version}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src 'unsafe-inline'\">\n\
             <title>{title}</title>\n<style>{THEME}{LAYOUT}</style>\n</head>\n<body>\n<main>\n\
             <h1>{title}</h1>\n<p class=\"lead\">{lead}</p>\n"
        );
        facts(&mut html, &self.facts);
        let origin = Section::new(
            "Where these numbers come from",
            vec![Part::Table(origin.table())],
        );
        for section in self.sections.iter().chain([&origin]) {
            line(
                &mut html,
                format_args!("<section>\n<h2>{}</h2>", escape(&section.heading)),
            );
            let are_notes = |a: &Part, b: &Part| a.is_note() && b.is_note();
            for parts in section.parts.chunk_by(are_notes) {
                // Notes that follow each other stand together.
                let said = parts.iter().all(Part::is_note);
                html.push_str(if said { "<div class=\"said\">\n" } else { "" });
                parts.iter().for_each(|part| part.html(&mut html));
                html.push_str(if said { "</div>\n" } else { "" });
            }
            html.push_str("</section>\n");
        }
        html.push_str("</main>\n</body>\n</html>\n");
        html
    }
}

fn facts(html: &mut String, facts: &[Fact]) {
    if facts.is_empty() {
        return;
    }
    html.push_str("<dl class=\"facts\">\n");
    for fact in facts {
        let class = if fact.bad { " class=\"bad\"" } else { "" };
        let (name, value, note) = (escape(&fact.name), escape(&fact.value), escape(&fact.note));
        line(
            html,
            format_args!("<div><dt>{name}</dt><dd{class}>{value}<small>{note}</small></dd></div>"),
        );
    }
    html.push_str("</dl>\n");
}

impl Part {
    fn is_note(&self) -> bool {
        matches!(self, Self::Note(_))
    }

    fn html(&self, html: &mut String) {
        match self {
            Self::Note(text) => line(html, format_args!("<p>{}</p>", escape(text))),
            Self::Chart(chart) => {
                let (title, drawing) = (escape(&chart.title), chart.inline());
                line(
                    html,
                    format_args!("<figure>\n<figcaption>{title}</figcaption>\n{drawing}</figure>"),
                );
            }
            Self::Table(table) => table.html(html),
            Self::Picture { svg, caption } => line(
                html,
                format_args!(
                    "<figure class=\"picture\"><div class=\"scroll\" tabindex=\"0\">{svg}</div>\
                     <figcaption>{}</figcaption></figure>",
                    escape(caption)
                ),
            ),
        }
    }
}

impl Table {
    fn html(&self, html: &mut String) {
        let caption = escape(&self.caption);
        let element = if self.folded { "details" } else { "div" };
        line(html, format_args!("<{element} class=\"table\">"));
        if self.folded {
            line(html, format_args!("<summary>{caption}</summary>"));
        } else if !caption.is_empty() {
            line(html, format_args!("<p class=\"caption\">{caption}</p>"));
        }
        // The table scrolls by itself, also with the keyboard, so that the page does not.
        // Its name is unique on the page, for readers who go from table to table.
        let number = html.matches("role=\"region\"").count() + 1;
        let name = match caption.is_empty() {
            true => format!("Table {number}"),
            false => format!("Table {number}: {caption}"),
        };
        line(
            html,
            format_args!(
                "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{name}\">\n<table>"
            ),
        );
        if self.columns.iter().any(|column| !column.name().is_empty()) {
            html.push_str("<thead><tr>");
            for column in &self.columns {
                let (class, name) = (column.class(""), escape(column.name()));
                // Writing to a string does not fail.
                let _ = match name.is_empty() {
                    true => write!(html, "<td></td>"),
                    false => write!(html, "<th scope=\"col\" class=\"{class}\">{name}</th>"),
                };
            }
            html.push_str("</tr></thead>\n");
        }
        html.push_str("<tbody>\n");
        for row in self.rows.iter().take(MOST_ROWS) {
            html.push_str("<tr>");
            for (column, cell) in self.columns.iter().zip(row) {
                let (class, cell) = (column.class(cell), escape(cell));
                let _ = write!(html, "<td class=\"{class}\">{cell}</td>");
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody>\n</table>\n</div>\n");
        if let Some(more @ 1..) = self.rows.len().checked_sub(MOST_ROWS) {
            let more = super::number::count(more as u64);
            line(
                html,
                format_args!("<p>{more} more rows are in the JSON.</p>"),
            );
        }
        line(html, format_args!("</{element}>"));
    }
}

impl Column {
    fn name(&self) -> &'static str {
        let (Self::Text(name) | Self::Number(name) | Self::Verdict(name)) = self;
        name
    }

    fn class(&self, cell: &str) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Number(_) => "number",
            Self::Verdict(_) if cell == FAILED => "bad",
            Self::Verdict(_) => "",
        }
    }
}

fn line(html: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(html, "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin() -> Origin {
        Origin::of(["/somewhere/povmeter", "block", "--db", "<script>&\u{7}"].map(Into::into))
    }

    #[test]
    fn nothing_that_is_said_is_markup() {
        let evil = "<script>alert('x')</script>\" onload=\"x\u{0}";
        let mut page = Page::new(evil, evil);
        page.facts.push(Fact::new(evil, evil, evil));
        let mut table = Table::new(
            vec![Column::Text("a"), Column::Number("b")],
            vec![vec![evil.into(); 2]],
        );
        table.caption = evil.to_owned();
        page.section(evil, vec![Part::Note(evil.to_owned()), Part::Table(table)]);
        let html = page.html(&origin());
        assert!(
            !html.contains("<script") && !html.contains("\" onload"),
            "{html}"
        );
        assert!(!html.contains(['\u{0}', '\u{7}']));
        assert_eq!(html.matches("&lt;script&gt;alert(&#39;x&#39;)").count(), 12);
    }

    #[test]
    fn a_page_says_who_made_it_and_fetches_nothing() {
        let html = Page::new("a", "b").html(&origin());
        let head = &html[..512];
        assert!(
            head.contains(PAGE_MARK) && head.contains("viewport"),
            "{head}"
        );
        for part in [
            "src=", "href=", "url(", "@import", "<script", "http://", "https://",
        ] {
            assert!(!html.contains(part), "{part}");
        }
    }

    #[test]
    fn a_picture_goes_in_as_it_is() {
        let mut page = Page::new("a", "b");
        let (svg, caption) = ("<svg><g/></svg>".to_owned(), "bytes < all".to_owned());
        page.section("c", vec![Part::Picture { svg, caption }]);
        let html = page.html(&origin());
        assert!(html.contains("><svg><g/></svg></div>") && html.contains("bytes &lt; all"));
    }

    #[test]
    fn rows_beyond_what_a_page_holds_are_counted() {
        let rows = vec![vec!["1".to_owned()]; MOST_ROWS + 1_234];
        let mut page = Page::new("a", "b");
        page.section(
            "c",
            vec![Part::Table(Table::new(vec![Column::Number("n")], rows))],
        );
        let html = page.html(&origin());
        assert!(html.contains("1,234 more rows"));
        assert_eq!(html.matches("<td class=\"number\">").count(), MOST_ROWS);
    }

    #[test]
    fn what_fails_stands_out() {
        let table = Table::checks([
            ("one", true, String::new()),
            ("two", false, "why".to_owned()),
        ]);
        let mut html = String::new();
        table.html(&mut html);
        assert_eq!(html.matches("class=\"bad\">FAILED<").count(), 1);
        assert!(html.contains(">holds<"));
    }
}
