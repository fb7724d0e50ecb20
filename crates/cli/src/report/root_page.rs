//! The page of root updates.

use super::{
    bars::{Bar, Bars, Group, Scale},
    chart::{Chart, Drawing},
    number::{count, decimal, short},
    page::{Column, Fact, Page, Part, Table},
    svg::Color,
};
use crate::{
    compare_root_report::{RootReport, STATES_AGREE, UPDATES_AGREE},
    counted::counted,
};
use povmeter_dev_measure::RootRow;

/// The charts on the page, one for each size of the parent state. Files beyond the fourth are checked
/// only when the page is written.
pub(crate) const CHARTS: [&str; 4] = ["roots-1", "roots-2", "roots-3", "roots-4"];

impl RootReport {
    /// The report as a page.
    pub(crate) fn page(&self) -> Page {
        let lead = format!(
            "{} random blocks of each state version from seed {}, in modes {}",
            count(self.cases),
            self.seed,
            self.modes.join(", ")
        );
        let mut page = Page::new("Root updates beside sp-state-machine’s", lead);
        let ours = self.rows.iter().filter(|row| is_ours(row));
        let ratios: Vec<_> = ours.map(|row| row.ratio_to_peer_node).collect();
        let (least, most) = (
            ratios.iter().copied().fold(f64::INFINITY, f64::min),
            ratios.iter().copied().fold(0.0, f64::max),
        );
        page.facts.push(Fact::new(
            "times as fast",
            format!("{}–{}", short(least), short(most)),
            "beside sp-state-machine as nodes run it",
        ));
        let differ = self.checks.updates_differ + self.checks.known_states_differ;
        let compared = self.cases * 2 + self.known_states as u64;
        page.facts.push(Fact {
            bad: differ > 0,
            ..Fact::new(
                "updates that differ",
                count(differ as u64),
                format!("of {}", count(compared)),
            )
        });
        let mut sizes: Vec<_> = self.rows.iter().map(|row| row.keys).collect();
        sizes.dedup();
        let charts = sizes
            .iter()
            .enumerate()
            .map(|(index, keys)| Part::Chart(self.chart(index, *keys)));
        let note = "How many times as long sp-state-machine takes for the same changes, as nodes run it: \
                    with a recorder and a warm cache. Processor time; on threads, wall time of both.";
        let mut parts = vec![Part::Note(note.to_owned())];
        parts.extend(charts);
        page.section("Ratios", parts);
        page.section(
            "The numbers",
            vec![
                Part::Table(self.speed_table()),
                Part::Table(self.hashing_table()),
            ],
        );
        let differ = |count: usize, of: u64| {
            format!(
                "{} of {} differ",
                self::count(count as u64),
                self::count(of)
            )
        };
        let (updates, states) = (self.checks.updates_differ, self.checks.known_states_differ);
        let of_updates = (UPDATES_AGREE, updates == 0, differ(updates, self.cases * 2));
        let known = self.known_states as u64;
        // Without data, nothing was checked.
        let of_states = (known > 0).then(|| (STATES_AGREE, states == 0, differ(states, known)));
        let checks = [of_updates].into_iter().chain(of_states);
        page.section(
            "Checks",
            vec![
                Part::Table(Table::checks(checks)),
                Part::Table(self.blocks_table()),
            ],
        );
        page
    }

    /// All modes on a parent state of `keys` accounts.
    fn chart(&self, index: usize, keys: usize) -> Chart {
        let rows = || self.rows.iter().filter(move |row| row.keys == keys);
        let mut changes: Vec<_> = rows().map(|row| row.changes).collect();
        changes.dedup();
        let groups = changes.iter().map(|changes| {
            let rows = rows().filter(|row| row.changes == *changes);
            let shown = rows.filter(|row| row.mode != RootRow::PEER_NODE);
            let bars = shown.map(|row| Bar {
                name: row.mode.clone(),
                value: row.ratio_to_peer_node,
                text: format!("{}×", decimal(row.ratio_to_peer_node, 2)),
                color: if is_ours(row) {
                    Color::Green
                } else {
                    Color::Grey
                },
            });
            Group {
                name: Some(format!("{} changes", count(*changes as u64))),
                bars: bars.collect(),
            }
        });
        let keys = count(keys as u64);
        let words = rows().map(|row| {
            let ratio = decimal(row.ratio_to_peer_node, 2);
            format!("{} with {} changes: {ratio}", row.mode, row.changes)
        });
        Chart {
            name: format!("roots-{}", index + 1),
            title: format!("Root updates over {keys} accounts: times as fast as sp-state-machine"),
            desc: words.collect::<Vec<_>>().join(", "),
            drawing: Drawing::Bars(Bars {
                groups: groups.collect(),
                scale: Scale::FromZero { compare_with: 1.0 },
                unit: "×",
                keys: vec![
                    (Color::Green, format!("povmeter, {keys} accounts")),
                    (
                        Color::Grey,
                        "sp-state-machine without recorder and cache".to_owned(),
                    ),
                ],
            }),
        }
    }

    fn speed_table(&self) -> Table {
        let columns = vec![
            Column::Number("accounts"),
            Column::Number("changes"),
            Column::Text("mode"),
            Column::Number("µs"),
            Column::Number("× peer_plain"),
            Column::Number("× peer_node"),
            Column::Number("allocations per change"),
        ];
        let rows = self.rows.iter().map(|row| {
            vec![
                count(row.keys as u64),
                count(row.changes as u64),
                row.mode.clone(),
                decimal(row.us, 1),
                decimal(row.ratio_to_peer_plain, 2),
                decimal(row.ratio_to_peer_node, 2),
                row.allocations_per_change
                    .map_or_else(|| "–".to_owned(), |number| decimal(number, 3)),
            ]
        });
        Table {
            caption: format!(
                "One update, medians of {}",
                counted(self.rounds as u64, "round")
            ),
            ..Table::new(columns, rows.collect())
        }
    }

    fn hashing_table(&self) -> Table {
        let columns = vec![
            Column::Number("accounts"),
            Column::Number("changes"),
            Column::Text("mode"),
            Column::Number("µs"),
            Column::Number("nodes"),
            Column::Number("compressions"),
        ];
        let rows = self.hashing.iter().map(|row| {
            vec![
                count(row.keys as u64),
                count(row.changes as u64),
                row.mode.clone(),
                decimal(row.us, 1),
                count(row.nodes as u64),
                count(row.compressions as u64),
            ]
        });
        Table {
            caption: "Hashing alone, for all new nodes of an update".to_owned(),
            ..Table::new(columns, rows.collect())
        }
    }

    fn blocks_table(&self) -> Table {
        let columns = vec![
            Column::Text("state version"),
            Column::Number("blocks"),
            Column::Number("changes"),
            Column::Number("nodes inserted"),
            Column::Number("nodes removed"),
        ];
        let rows = self.versions.iter().map(|of| {
            let mut row = vec![of.state_version.to_string()];
            row.extend([of.blocks, of.changes, of.inserted, of.removed].map(count));
            row
        });
        Table {
            caption: "Random blocks that agree".to_owned(),
            ..Table::new(columns, rows.collect())
        }
    }
}

fn is_ours(row: &RootRow) -> bool {
    ![RootRow::PEER_NODE, RootRow::PEER_PLAIN].contains(&&*row.mode)
}
