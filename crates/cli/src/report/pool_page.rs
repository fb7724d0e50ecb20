//! The page of blocks that reuse the memory of earlier ones.

use super::{
    bars::{Bar, Bars, Group, Scale},
    chart::{Chart, Drawing},
    number::{count, decimal},
    page::{Column, Fact, Page, Part, Table},
    svg::Color,
};
use crate::pool::Report;

/// The charts on the page.
pub(crate) const CHARTS: [&str; 1] = ["pool"];

impl Report {
    /// The report as a page.
    pub(crate) fn page(&self) -> Page {
        let measured = &self.0;
        let lead = format!(
            "{} transfers, replayed call by call, with the proof size after each",
            count(u64::from(measured.extrinsics))
        );
        let mut page = Page::new("A block in the memory of earlier ones", lead);
        page.facts.push(Fact::new(
            "allocations in the block",
            decimal(measured.pooled.allocations, 0),
            format!("in fresh memory {}", decimal(measured.fresh.allocations, 0)),
        ));
        page.facts.push(Fact::new(
            "bytes, with sealing",
            format!("{} %", decimal(measured.bytes_percent, 2)),
            "of what fresh memory takes",
        ));
        let note = "What the block allocates in memory of earlier blocks, in percent of what it allocates \
                    in fresh memory, if the sealed block is handed back. Where a store keeps the new nodes, \
                    the memory that they are in stays with it.";
        page.section(
            "Allocations",
            vec![Part::Note(note.to_owned()), Part::Chart(self.chart())],
        );
        page.section("The numbers", vec![Part::Table(self.rows_table())]);
        let checks = self.named_checks();
        let checks = checks.map(|(name, holds, detail)| (name, holds, detail.to_owned()));
        page.section("Checks", vec![Part::Table(Table::checks(checks))]);
        page
    }

    fn chart(&self) -> Chart {
        let (fresh, pooled) = (&self.0.fresh, &self.0.pooled);
        let numbers = [
            (
                "allocations until sealed",
                fresh.allocations,
                pooled.allocations,
            ),
            ("bytes until sealed", fresh.bytes, pooled.bytes),
            (
                "bytes of sealing",
                fresh.bytes_of_sealing,
                pooled.bytes_of_sealing,
            ),
        ];
        let percent = numbers.map(|(name, fresh, pooled)| (name, pooled / fresh.max(1.0) * 100.0));
        let bars = percent.map(|(name, percent)| Bar {
            name: name.to_owned(),
            value: percent,
            text: format!("{} %", decimal(percent, 2)),
            color: Color::Green,
        });
        let words = percent.map(|(name, percent)| format!("{name}: {} %", decimal(percent, 2)));
        Chart {
            name: "pool".to_owned(),
            title: "Memory of earlier blocks: allocations in percent of fresh memory".to_owned(),
            desc: words.join(", "),
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

    fn rows_table(&self) -> Table {
        let columns = vec![
            Column::Text("memory"),
            Column::Number("allocations per extrinsic"),
            Column::Number("allocations"),
            Column::Number("bytes"),
            Column::Number("bytes of sealing"),
        ];
        let rows = [
            ("fresh", &self.0.fresh),
            ("pooled", &self.0.pooled),
            ("pooled, store keeps the nodes", &self.0.kept),
        ];
        let rows = rows.map(|(name, row)| {
            vec![
                name.to_owned(),
                decimal(row.allocations_per_extrinsic, 3),
                decimal(row.allocations, 0),
                decimal(row.bytes, 0),
                decimal(row.bytes_of_sealing, 0),
            ]
        });
        Table::new(columns, rows.to_vec())
    }
}
