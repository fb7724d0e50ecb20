//! The page of blocks in memory of earlier ones.

use super::{
    bars::{Bar, Bars, Group, Scale},
    chart::{Chart, Drawing},
    number::{count, decimal, place},
    page::{Column, Fact, Page, Part, Table},
    svg::Color,
};
use crate::pool::Report;

/// The charts on it.
pub(crate) const CHARTS: [&str; 1] = ["pool"];

impl Report {
    /// The report as a page.
    pub(crate) fn page(&self) -> Page {
        let measured = &self.measured;
        let lead = format!(
            "{} transfers, replayed call by call, a size after each",
            count(u64::from(measured.extrinsics))
        );
        let mut page = Page::new("A block in the memory of earlier ones", lead);
        page.facts.push(Fact::new(
            "allocations in the block",
            count(measured.pooled.allocations),
            format!("in fresh memory {}", count(measured.fresh.allocations)),
        ));
        page.facts.push(Fact::new(
            "bytes until sealed",
            format!("{} %", decimal(measured.bytes_percent, 2)),
            "of what fresh memory takes",
        ));
        let note = "What the block allocates in memory of earlier blocks, in percent of what it allocates \
                    in fresh memory. Sealing makes what leaves the block for good: root, changes, proof.";
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
        let (fresh, pooled) = (&self.measured.fresh, &self.measured.pooled);
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
        let percent = numbers
            .map(|(name, fresh, pooled)| (name, place(pooled) / place(fresh.max(1)) * 100.0));
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
            Column::Number("allocations an extrinsic"),
            Column::Number("allocations"),
            Column::Number("bytes"),
            Column::Number("bytes of sealing"),
        ];
        let rows = [
            ("fresh", &self.measured.fresh),
            ("pooled", &self.measured.pooled),
        ];
        let rows = rows.map(|(name, row)| {
            vec![
                name.to_owned(),
                decimal(row.allocations_per_extrinsic, 3),
                count(row.allocations),
                count(row.bytes),
                count(row.bytes_of_sealing),
            ]
        });
        Table::new(columns, rows.to_vec())
    }
}
