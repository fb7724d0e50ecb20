//! The page of one block.

use super::{
    attribution_part,
    growth::Growth,
    number::{bytes, count, decimal},
    page::{Column, Fact, Page, Part, Table},
};
use crate::{block_report::BlockReport, checks};

/// The charts on the page.
pub(crate) const CHARTS: [&str; 4] = ["growth", "execute", "estimate", attribution_part::CHARTS[0]];

impl BlockReport {
    /// The report as a page, with the growth by extrinsic.
    pub(crate) fn page(&self, growth: &Growth) -> Page {
        let mut page = Page::new("One block", self.options.line());
        growth.facts(&mut page);
        let proof = &self.proof_bytes;
        page.facts.extend([
            Fact::new(
                "compact proof",
                bytes(proof.compact),
                "as it goes over the network",
            ),
            Fact::new(
                "processor time",
                format!("{} ms", decimal(self.phases.total.cpu_ms, 1)),
                "the whole block",
            ),
            Fact::new(
                "extrinsics",
                count(self.extrinsics.applied as u64),
                format!(
                    "{} failed, {} refused",
                    self.extrinsics.failed, self.extrinsics.refused
                ),
            ),
        ]);
        let failed = checks::failed(&self.checks).len();
        if failed > 0 {
            page.facts.push(Fact {
                bad: true,
                ..Fact::new("checks", format!("{failed} failed"), "see below")
            });
        }
        page.section("How the proof grows", growth.growth_parts());
        if let Some(attribution) = &proof.attribution {
            page.section(
                "Attribution of the bytes",
                attribution_part::parts(attribution),
            );
        }
        page.section("Time for each extrinsic", growth.time_parts());
        page.section(
            "The numbers",
            vec![
                Part::Table(self.sizes_table()),
                Part::Table(self.phases_table()),
                Part::Table(growth.table()),
            ],
        );
        let checks = self.checks.iter();
        let checks = checks.map(|check| (&*check.name, check.holds, check.detail.clone()));
        page.section("Checks", vec![Part::Table(Table::checks(checks))]);
        page
    }

    fn sizes_table(&self) -> Table {
        let proof = &self.proof_bytes;
        let rows = [
            (
                "estimate after the last extrinsic, B",
                proof.estimate_after_last,
            ),
            (
                "of which only the root needs, B",
                proof.root_adds_after_last,
            ),
            ("proof recorded, B", proof.recorded),
            ("proof encoded, B", proof.encoded),
            ("proof compact, B", proof.compact),
            ("nodes in the proof", proof.nodes),
        ];
        let mut rows: Vec<_> = rows
            .map(|(name, value)| vec![name.to_owned(), count(value)])
            .into();
        for (name, root) in [("parent root", &self.parent_root), ("root", &self.root)] {
            rows.push(vec![name.to_owned(), root.to_string()]);
        }
        Table {
            caption: "Sizes".to_owned(),
            ..Table::new(vec![Column::Text(""), Column::Text("")], rows)
        }
    }

    fn phases_table(&self) -> Table {
        let columns = vec![
            Column::Text("phase"),
            Column::Number("cpu ms"),
            Column::Number("wall ms"),
        ];
        let rows = self.phases.named().map(|(name, time)| {
            vec![
                name.to_owned(),
                decimal(time.cpu_ms, 3),
                decimal(time.wall_ms, 3),
            ]
        });
        Table {
            caption: "Where the time of the block went".to_owned(),
            ..Table::new(columns, rows.to_vec())
        }
    }
}
