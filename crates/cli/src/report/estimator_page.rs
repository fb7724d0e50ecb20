//! The page of estimates.

use super::{
    bars::{Bar, Bars, Group, Scale},
    chart::{Chart, Drawing},
    number::{count, decimal, short},
    page::{Column, Fact, Page, Part, Table},
    svg::Color,
};
use crate::{counted::counted, estimator_report::EstimatorReport};
use povmeter_dev_measure::SpeedRow;

/// The charts on the page.
pub(crate) const CHARTS: [&str; 1] = ["estimates"];

impl EstimatorReport {
    /// The report as a page.
    pub(crate) fn page(&self) -> Page {
        let lead = format!(
            "{} random blocks of each flavour from seed {}, in both accountings",
            count(self.cases),
            self.seed
        );
        let mut page = Page::new("Estimates beside sp-state-machine’s roots", lead);
        let under = self.checks.under as u64;
        page.facts.push(Fact {
            bad: under > 0,
            ..Fact::new(
                "blocks with an estimate too low",
                count(under),
                format!("{} estimates in all others", count(self.checks.boundaries)),
            )
        });
        let over = format!("{} %", decimal(self.checks.over_bytes_percent, 3));
        page.facts
            .push(Fact::new("too high by", over, "bytes, in mixed blocks"));
        let note = format!(
            "How many times as long trie-db takes to look up a changed key at a boundary, with {} keys \
             per boundary; a longer bar is better. Each step of the axis is ten times the last.",
            count(self.dirty_keys as u64)
        );
        page.section("Ratios", vec![Part::Note(note), Part::Chart(self.chart())]);
        page.section(
            "The numbers",
            vec![
                Part::Table(self.speed_table()),
                Part::Table(self.block_table()),
            ],
        );
        let checks = self.named_checks();
        let checks = checks.map(|(blocks, name)| {
            (
                name,
                blocks == 0,
                format!("{} blocks differ", count(blocks as u64)),
            )
        });
        page.section(
            "Checks",
            vec![
                Part::Table(Table::checks(checks)),
                Part::Table(self.flavours_table()),
            ],
        );
        page
    }

    fn chart(&self) -> Chart {
        let mut sizes: Vec<_> = self.rows.iter().map(|row| row.keys).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let groups = sizes.iter().map(|keys| {
            let rows = self.rows.iter().filter(|row| row.keys == *keys);
            let bars = rows.filter_map(|row| {
                let ratio = ratio(row)?;
                Some(Bar {
                    name: row.case.name().to_owned(),
                    value: ratio,
                    text: format!("{}×", short(ratio)),
                    color: Color::Green,
                })
            });
            Group {
                name: Some(format!("{} accounts", count(*keys as u64))),
                bars: bars.collect(),
            }
        });
        let words = self.rows.iter().filter_map(|row| {
            let ratio = short(ratio(row)?);
            Some(format!(
                "{} over {} accounts: {ratio}",
                row.case.name(),
                count(row.keys as u64)
            ))
        });
        Chart {
            name: "estimates".to_owned(),
            title: "Estimates: times as fast as trie-db, for each changed key".to_owned(),
            desc: words.collect::<Vec<_>>().join(", "),
            drawing: Drawing::Bars(Bars {
                groups: groups.collect(),
                scale: Scale::Times,
                unit: "×",
                keys: Vec::new(),
            }),
        }
    }

    fn speed_table(&self) -> Table {
        let columns = vec![
            Column::Text("case"),
            Column::Number("accounts"),
            Column::Number("trie-db, ns"),
            Column::Number("povmeter, ns"),
            Column::Number("times"),
            Column::Number("allocations per key"),
        ];
        let or_none = |number: Option<f64>| {
            number.map_or_else(|| "–".to_owned(), |number| decimal(number, 1))
        };
        let rows = self.rows.iter().map(|row| {
            vec![
                row.case.name().to_owned(),
                count(row.keys as u64),
                or_none(row.peer_ns),
                decimal(row.ours_ns, 1),
                or_none(ratio(row)),
                decimal(row.allocations_per_key, 4),
            ]
        });
        Table {
            caption: format!(
                "Processor time for each changed key, medians of {}",
                counted(self.rounds as u64, "round")
            ),
            ..Table::new(columns, rows.collect())
        }
    }

    /// Estimates in a growing block.
    fn block_table(&self) -> Table {
        let columns = vec![
            Column::Number("accounts"),
            Column::Number("ns after the 50th transfer"),
            Column::Number("ns after the 5,000th"),
            Column::Number("times as long"),
            Column::Number("nodes loaded at the end"),
            Column::Number("arena bytes per node"),
        ];
        let rows = self.flatness.iter().zip(&self.memory);
        let rows = rows.map(|(flat, memory)| {
            vec![
                count(flat.keys as u64),
                decimal(flat.after_50_ns, 0),
                decimal(flat.after_5000_ns, 0),
                decimal(flat.ratio, 2),
                count(memory.loaded_nodes as u64),
                decimal(memory.arena_bytes_per_node, 0),
            ]
        });
        Table {
            caption: "Estimates in a block of transfers that grows".to_owned(),
            ..Table::new(columns, rows.collect())
        }
    }

    fn flavours_table(&self) -> Table {
        let columns = vec![
            Column::Text("flavour"),
            Column::Number("blocks"),
            Column::Number("boundaries"),
            Column::Number("bytes over, %"),
            Column::Number("in consensus accounting"),
            Column::Number("in advisory accounting"),
            Column::Number("due to the rule"),
            Column::Number("nodes over, %"),
            Column::Number("a fresh trie is too low at"),
            Column::Number("of"),
        ];
        let rows = self.flavours.iter().map(|of| {
            vec![
                of.flavour.clone(),
                count(of.blocks),
                count(of.boundaries),
                decimal(of.over_bytes_percent, 4),
                decimal(of.consensus_over_bytes_percent, 4),
                decimal(of.advisory_over_bytes_percent, 4),
                decimal(of.rule_over_bytes_percent, 4),
                decimal(of.over_nodes_percent, 4),
                count(of.upstream_under),
                count(of.upstream_boundaries),
            ]
        });
        Table {
            caption: "Random blocks".to_owned(),
            ..Table::new(columns, rows.collect())
        }
    }
}

/// How many times as long the peer takes; `None` if it has no such case.
fn ratio(row: &SpeedRow) -> Option<f64> {
    row.peer_ns.map(|peer| peer / row.ours_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        estimator_report::{Checks, OfFlavour},
        report::origin::Origin,
    };
    use povmeter_dev_measure::SpeedCase;

    #[test]
    fn ratios_and_checks_are_on_the_page() {
        let row = |case, peer_ns| SpeedRow {
            case,
            keys: 10_000,
            peer_ns,
            ours_ns: 250.0,
            allocations_per_key: 0.002,
        };
        let report = EstimatorReport {
            cases: 2_000,
            seed: 1,
            checks: Checks {
                boundaries: 12_345,
                under: 1,
                over_bytes_percent: 0.25,
                over_nodes_percent: 1.0,
                upstream_under: 5,
                roles_differ: 0,
                compact_differs: 0,
                others_differ: 0,
            },
            flavours: ["adversarial", "mixed", "delete_heavy"].map(|flavour| OfFlavour {
                flavour: flavour.to_owned(),
                blocks: 40,
                boundaries: 328,
                over_bytes_percent: 0.1,
                consensus_over_bytes_percent: 0.15,
                advisory_over_bytes_percent: 0.05,
                rule_over_bytes_percent: 0.01,
                over_nodes_percent: 0.2,
                left_out: 0,
                upstream_boundaries: 300,
                upstream_under: 16,
                upstream_under_blocks: 4,
            }),
            failures: Vec::new(),
            dirty_keys: 2_000,
            rounds: 20,
            rows: vec![
                row(SpeedCase::Cold, Some(1_500.0)),
                row(SpeedCase::Rollback, None),
            ],
            flatness: Vec::new(),
            memory: Vec::new(),
        };
        let html = report.page().html(&Origin::of(["povmeter".into()]));
        for part in [
            "6.00×",
            ">10,000 accounts<",
            "12,345 estimates in all others",
            "class=\"bad\">FAILED<",
            "delete_heavy",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        // A case that the peer does not have gets a row and no bar.
        assert_eq!(html.matches(">rollback<").count(), 1);
    }
}
