//! The part of a page on the attribution of a proof's bytes.

use super::{
    bars::{Bar, Bars, Group, Scale},
    chart::{Chart, Drawing},
    number::{bytes, count, decimal},
    page::{Column, Part, Table},
    svg::Color,
};
use crate::attribution_report::AttributionReport;

/// The charts in this part.
pub(super) const CHARTS: [&str; 1] = ["causes"];

/// Causes as bars, items as a table, and both as a flame graph, if there is one.
pub(super) fn parts(attribution: &AttributionReport) -> Vec<Part> {
    let note = format!(
        "Each of the {} belongs to one cause, one storage item and one extrinsic: the first that needed \
         it. Nodes that several items or extrinsics need are shared.",
        bytes(attribution.recorded())
    );
    let mut parts = vec![
        Part::Note(note),
        Part::Chart(causes(attribution)),
        Part::Table(items(attribution)),
    ];
    parts.extend(attribution.picture().map(|svg| Part::Picture {
        svg: svg.to_owned(),
        caption: "Bytes by pallet, storage item and cause: the wider, the more.".to_owned(),
    }));
    parts
}

fn causes(attribution: &AttributionReport) -> Chart {
    let rows = attribution.causes_with_words();
    let percent = |number: u64| {
        let (part, whole) = (number as f64, attribution.recorded().max(1) as f64);
        100.0 * part / whole
    };
    let bars = rows.map(|(name, number, _)| Bar {
        name: name.to_owned(),
        value: percent(number),
        text: format!("{} %", decimal(percent(number), 1)),
        color: Color::Blue,
    });
    let words = rows.map(|(name, number, what)| format!("{name}, {what}: {}", bytes(number)));
    Chart {
        name: "causes".to_owned(),
        title: "Why the bytes are in the proof".to_owned(),
        desc: words.join("; "),
        drawing: Drawing::Bars(Bars {
            groups: vec![Group {
                name: None,
                bars: bars.to_vec(),
            }],
            scale: Scale::FromZero {
                compare_with: 100.0,
            },
            unit: " %",
            keys: Vec::new(),
        }),
    }
}

fn items(attribution: &AttributionReport) -> Table {
    let columns = vec![
        Column::Text("storage item"),
        Column::Number("bytes"),
        Column::Number("%"),
        Column::Number("nodes"),
    ];
    let rows = attribution.items().map(|(name, number, nodes)| {
        let percent = 100.0 * number as f64 / attribution.recorded().max(1) as f64;
        vec![
            name.to_owned(),
            count(number),
            decimal(percent, 1),
            count(nodes),
        ]
    });
    Table {
        caption: "By storage item".to_owned(),
        ..Table::new(columns, rows.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::page::Page;
    use povmeter_attribution::ByteTally;

    #[test]
    fn a_block_without_a_proof_has_a_section_all_the_same() {
        let tally = ByteTally::default();
        let mut attribution = AttributionReport::new(&tally, 3);
        assert_eq!(parts(&attribution).len(), 3);
        attribution.draw(&tally);
        assert!(attribution
            .picture()
            .is_some_and(|svg| svg.starts_with("<svg") && !svg.contains("<script")));
        let parts = parts(&attribution);
        assert_eq!(parts.len(), 4);
        let mut page = Page::new("a", "b");
        page.section("c", parts);
        let names: Vec<_> = page.charts().map(|chart| chart.name.as_str()).collect();
        assert_eq!(names, CHARTS);
    }
}
