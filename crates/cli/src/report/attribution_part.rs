//! The part of a page on the attribution of a proof's bytes.

use super::{
    axis::Unit,
    bars::{Bar, Bars, Group, Scale},
    chart::{Chart, Drawing},
    number::{bytes, count, decimal, place},
    page::{Column, Part, Table},
    plot::{Layer, Plot},
    svg::Color,
};
use crate::attribution_report::AttributionReport;

/// The charts in this part.
pub(super) const CHARTS: [&str; 2] = ["causes", "division"];

/// Causes as bars, bytes by extrinsic as a plot, items and depths as tables, and the flame graph, if there is
/// one.
pub(super) fn parts(attribution: &AttributionReport) -> Vec<Part> {
    let note = format!(
        "Each of the {} belongs to one cause, one storage item and one extrinsic: the first that needed \
         it. Nodes that several items or extrinsics need are shared.",
        bytes(attribution.recorded())
    );
    let mut parts = vec![Part::Note(note), Part::Chart(causes(attribution))];
    if let Some(words) = attribution.division() {
        parts.push(Part::Note(words.clone()));
        parts.push(Part::Chart(division(attribution, words)));
    }
    parts.push(Part::Table(items(attribution)));
    parts.push(Part::Table(depths(attribution)));
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

/// The bytes of each extrinsic.
fn division(attribution: &AttributionReport, desc: String) -> Chart {
    let (alone, share): (Vec<f64>, Vec<f64>) = attribution
        .by_index()
        .into_iter()
        .map(|(alone, share)| (place(alone), place(share)))
        .unzip();
    let sums = alone.iter().zip(&share).map(|(alone, share)| alone + share);
    let most = sums.fold(0.0, f64::max);
    let layer = |name: &str, color, values| Layer {
        name: name.to_owned(),
        color,
        values,
    };
    Chart {
        name: CHARTS[1].to_owned(),
        title: "Bytes of the proof by extrinsic".to_owned(),
        desc,
        drawing: Drawing::Plot(Plot {
            layers: vec![
                layer("needed by it alone", Color::Blue, alone),
                layer("its part of what it shares", Color::Orange, share),
            ],
            places: "extrinsic".to_owned(),
            first: 0,
            unit: Unit::of_bytes(most),
            parted: false,
            limits: Vec::new(),
            cut: None,
        }),
    }
}

fn depths(attribution: &AttributionReport) -> Table {
    let columns = vec![
        Column::Number("nodes above it"),
        Column::Number("bytes"),
        Column::Number("%"),
        Column::Number("nodes"),
        Column::Number("shared, B"),
        Column::Number("parts that need a node, mean"),
    ];
    let rows = attribution.by_depth().iter().map(|row| {
        let percent = 100.0 * place(row.bytes) / place(attribution.recorded().max(1));
        vec![
            count(row.depth as u64),
            count(row.bytes),
            decimal(percent, 1),
            count(row.nodes),
            count(row.shared),
            decimal(row.needed_by, 1),
        ]
    });
    Table {
        caption: "By depth in the trie: the upper nodes are those that many share".to_owned(),
        ..Table::new(columns, rows.collect())
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
        // No chart of extrinsics, because there are none.
        assert_eq!(parts(&attribution).len(), 4);
        attribution.draw(&tally);
        assert!(attribution
            .picture()
            .is_some_and(|svg| svg.starts_with("<svg") && !svg.contains("<script")));
        let parts = parts(&attribution);
        assert_eq!(parts.len(), 5);
        let mut page = Page::new("a", "b");
        page.section("c", parts);
        let names: Vec<_> = page.charts().map(|chart| chart.name.as_str()).collect();
        assert_eq!(names, CHARTS[..1]);
    }
}
