//! The page of blocks on several threads.

use super::{
    bars::{Bar, Bars, Group, Scale},
    chart::{Chart, Drawing},
    lines::{Curve, Lines, ValueUnit},
    number::{count, decimal},
    page::{Column, Fact, Page, Part, Table},
    svg::Color,
};
use crate::parallel::{limit, Report, MODEL_NOTE};
use povmeter_dev_parallel::{Mode, ModelRow, Row, Shape, Workload};

/// The charts on the page: one for each workload, one of the model, one of the stores.
pub(crate) const CHARTS: [&str; 9] = [
    "parallel-random-100",
    "parallel-random-10000",
    "parallel-no-conflict",
    "parallel-worst",
    "parallel-iterate",
    "parallel-same-value",
    "parallel-existence",
    "parallel-model",
    "parallel-stores",
];

const COLORS: [Color; 4] = [Color::Grey, Color::Orange, Color::Blue, Color::Green];

/// The workloads that the chart of the model shows, from the one that gains most.
const MODELLED: [Workload; 4] = [
    Workload::NoConflict,
    Workload::Random10000,
    Workload::Random100,
    Workload::Worst,
];

impl Report {
    /// The report as a page.
    pub(crate) fn page(&self) -> Page {
        let report = &self.0;
        let mut page = Page::new("Blocks on several threads", self.lead());
        if let Some((row, speedup)) = self.fastest() {
            let note = format!(
                "{}, {} us, {} workers",
                row.workload.name(),
                row.cost_us,
                row.workers
            );
            let speedup = format!("{}×", decimal(speedup, 2));
            page.facts
                .push(Fact::new("most times as fast", speedup, note));
        }
        let met = report.targets.iter().filter(|target| target.met).count();
        if !report.targets.is_empty() {
            let targets = count(report.targets.len() as u64);
            let value = format!("{} of {targets}", count(met as u64));
            page.facts.push(Fact::new("targets met", value, ""));
        }
        let note = "Times as fast as the same transactions one after the other on a plain block, by workers. \
                    A curve for each of the first four costs, in microseconds, of what a transaction computes besides its reads and \
                    writes; the committer repeats only these. Workers beyond the number of cores can gain nothing. \
                    Wall time: another program on the same cores changes it.";
        let mut parts = vec![Part::Note(note.to_owned())];
        let shown = Workload::ALL.iter().zip(CHARTS);
        let shown = shown.filter(|(workload, _)| report.options.workloads.contains(workload));
        parts.extend(shown.map(|(workload, name)| Part::Chart(self.speed_chart(name, *workload))));
        page.section("Speed", parts);
        if !report.model.is_empty() {
            let parts = vec![
                Part::Note(format!("A model: {MODEL_NOTE}.")),
                Part::Chart(self.model_chart()),
                Part::Table(self.model_table()),
            ];
            page.section("A model of more processors", parts);
        }
        let note = "The store of what transactions write, alone: one thread reads and publishes. Beside stores of \
                    the shapes used elsewhere: a tree of versions for each key behind a map in parts, the same \
                    with each version in a cell of 128 bytes, one tree of keys and versions behind a lock, a roaring bitmap of writers for each key.";
        let parts = vec![
            Part::Note(note.to_owned()),
            Part::Chart(self.stores_chart()),
            Part::Table(self.stores_table()),
        ];
        page.section("Multi-version stores", parts);
        if !report.targets.is_empty() {
            let note =
                "They are those of blocks of 10,000 transactions. A missed one is no failed check.";
            let parts = vec![
                Part::Note(note.to_owned()),
                Part::Table(self.targets_table()),
            ];
            page.section("Targets", parts);
        }
        page.section("The numbers", vec![Part::Table(self.rows_table())]);
        let checks = self.named_checks();
        let checks = checks.map(|(name, holds, detail)| (name, holds, detail.to_owned()));
        page.section("Checks", vec![Part::Table(Table::checks(checks))]);
        page
    }

    /// The row with the largest speedup over its plain block, and the speedup.
    fn fastest(&self) -> Option<(&Row, f64)> {
        let parallel = self.0.rows.iter();
        let parallel = parallel.filter(|row| row.mode == Mode::Adaptive && row.workers > 1);
        let speeds = parallel.filter_map(|row| Some((row, self.0.speedup(row)?)));
        speeds.max_by(|one, other| one.1.total_cmp(&other.1))
    }

    fn speed_chart(&self, name: &str, workload: Workload) -> Chart {
        let options = &self.0.options;
        let costs = options.costs_us.iter().zip(COLORS);
        let curves = costs.map(|(&cost_us, color)| Curve {
            name: format!("{cost_us} µs"),
            color,
            values: (options.workers.iter())
                .map(|&workers| {
                    let row = self.0.row(workload, cost_us, workers, Mode::Adaptive);
                    row.and_then(|row| self.0.speedup(row)).unwrap_or(0.0)
                })
                .collect(),
        });
        let title = format!("Times as fast as in order, {}", workload.name());
        let workers = options.workers.iter().map(u32::to_string);
        chart(name, title, workers.collect(), curves.collect())
    }

    /// The cost that the chart of the model shows: the one in the middle.
    fn shown_cost(&self) -> u32 {
        let costs = &self.0.options.costs_us;
        costs.get(costs.len() / 2).copied().unwrap_or(0)
    }

    fn model_chart(&self) -> Chart {
        let cost_us = self.shown_cost();
        let rows = MODELLED.into_iter().zip(COLORS.into_iter().rev());
        let rows = rows.filter_map(|(workload, color)| {
            let of = |row: &&ModelRow| (row.workload, row.cost_us) == (workload, cost_us);
            Some((self.0.model.iter().find(of)?, color))
        });
        let rows: Vec<_> = rows.collect();
        let places = rows.first().map_or(&[][..], |(row, _)| &row.curve);
        let places = places.iter().map(|point| point.workers.to_string());
        let curves = rows.iter().map(|(row, color)| Curve {
            name: row.workload.name().to_owned(),
            color: *color,
            values: row.curve.iter().map(|point| point.speedup).collect(),
        });
        let title = format!("Times as fast as in order, by the model, {cost_us} µs");
        chart(CHARTS[7], title, places.collect(), curves.collect())
    }

    fn stores_chart(&self) -> Chart {
        let options = &self.0.options;
        let groups = options.workloads.iter().map(|&workload| {
            let tree = self.0.shape(workload, Shape::TreePerKey);
            let bars = Shape::ALL.into_iter().filter_map(|shape| {
                let ours = shape == Shape::Writers;
                let color = if ours { Color::Green } else { Color::Grey };
                let percent = self.0.shape(workload, shape)?.bytes as f64 * 100.0
                    / tree.map_or(1.0, |tree| tree.bytes.max(1) as f64);
                Some(Bar {
                    name: shape.name().to_owned(),
                    value: percent,
                    text: format!("{} %", decimal(percent, 0)),
                    color,
                })
            });
            Group {
                name: Some(workload.name().to_owned()),
                bars: bars.collect(),
            }
        });
        let groups: Vec<Group> = groups.collect();
        let words = groups.iter().map(|group| {
            let bars = group
                .bars
                .iter()
                .map(|bar| format!("{} {}", bar.name, bar.text));
            let name = group.name.as_deref().unwrap_or_default();
            format!("{name}: {}", bars.collect::<Vec<_>>().join(", "))
        });
        Chart {
            name: CHARTS[8].to_owned(),
            title: "Bytes of the store, percent of those of a tree for each key".to_owned(),
            desc: words.collect::<Vec<_>>().join("; "),
            drawing: Drawing::Bars(Bars {
                groups,
                scale: Scale::FromZero {
                    compare_with: 100.0,
                },
                unit: " %",
                keys: Vec::new(),
            }),
        }
    }

    fn stores_table(&self) -> Table {
        let columns = vec![
            Column::Text("workload"),
            Column::Text("store"),
            Column::Number("ms"),
            Column::Number("bytes per transaction"),
            Column::Number("allocations per transaction"),
        ];
        let rows = self.0.shapes.iter().map(|row| {
            vec![
                row.workload.name().to_owned(),
                row.shape.name().to_owned(),
                decimal(row.ms, 2),
                decimal(self.per_transaction(row.bytes), 0),
                decimal(self.per_transaction(row.allocations), 1),
            ]
        });
        Table::new(columns, rows.collect())
    }

    fn model_table(&self) -> Table {
        let columns = vec![
            Column::Text("workload"),
            Column::Number("cost, µs"),
            Column::Number("in order, µs"),
            Column::Number("ahead, µs"),
            Column::Number("commit, µs"),
            Column::Text("times as fast, by workers"),
        ];
        let rows = self.0.model.iter().map(|row| {
            let curve = row
                .curve
                .iter()
                .map(|point| format!("{}: {}", point.workers, decimal(point.speedup, 2)));
            vec![
                row.workload.name().to_owned(),
                row.cost_us.to_string(),
                decimal(row.costs.in_order_us, 2),
                decimal(row.costs.ahead_us, 2),
                decimal(row.costs.commit_us, 2),
                curve.collect::<Vec<_>>().join(", "),
            ]
        });
        Table {
            caption: "The model, and the measured costs of a transaction that it is fed with"
                .to_owned(),
            folded: true,
            ..Table::new(columns, rows.collect())
        }
    }

    fn targets_table(&self) -> Table {
        let columns = vec![
            Column::Text("target"),
            Column::Text("workload"),
            Column::Number("found"),
            Column::Text("limit"),
            Column::Text(""),
        ];
        let rows = self.0.targets.iter().map(|target| {
            vec![
                target.name.clone(),
                target.workload.name().to_owned(),
                decimal(target.found, 2),
                limit(target),
                if target.met { "met" } else { "missed" }.to_owned(),
            ]
        });
        Table::new(columns, rows.collect())
    }

    fn rows_table(&self) -> Table {
        let columns = vec![
            Column::Text("workload"),
            Column::Number("cost, µs"),
            Column::Number("workers"),
            Column::Text("mode"),
            Column::Number("ms"),
            Column::Number("times as fast"),
            Column::Number("bytes per transaction"),
            Column::Number("allocations per transaction"),
            Column::Number("executions per transaction"),
            Column::Number("validations per transaction"),
        ];
        let rows = self.0.rows.iter().map(|row| {
            vec![
                row.workload.name().to_owned(),
                row.cost_us.to_string(),
                row.workers.to_string(),
                row.mode.name().to_owned(),
                decimal(row.ms, 2),
                decimal(self.0.speedup(row).unwrap_or(f64::NAN), 2),
                decimal(self.per_transaction(row.bytes), 0),
                decimal(self.per_transaction(row.allocations), 1),
                decimal(row.executions_per_tx, 2),
                decimal(row.validations_per_tx, 2),
            ]
        });
        Table {
            caption: "Each block in each way".to_owned(),
            folded: true,
            ..Table::new(columns, rows.collect())
        }
    }
}

/// Curves of speeds by workers.
fn chart(name: &str, title: String, places: Vec<String>, curves: Vec<Curve>) -> Chart {
    let words = curves.iter().map(|curve| {
        let values: Vec<_> = curve
            .values
            .iter()
            .map(|value| decimal(*value, 2))
            .collect();
        format!("{}: {}", curve.name, values.join(", "))
    });
    Chart {
        name: name.to_owned(),
        title,
        desc: words.collect::<Vec<_>>().join("; "),
        drawing: Drawing::Lines(Lines {
            places,
            axis: "workers".to_owned(),
            unit: ValueUnit::Times,
            curves,
        }),
    }
}
