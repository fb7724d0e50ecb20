//! The growth of a block's proof by extrinsic, and the time that each extrinsic takes.

use super::{
    axis::{ticks, Unit},
    chart::{Chart, Drawing},
    number::{self, bytes, count, decimal, place, quantile, short},
    page::{Column, Fact, Page, Part, Table},
    plot::{Layer, Limit, Plot},
    svg::Color,
};
use povmeter_dev_runtime::{BoundarySize, ExtrinsicTimes, Spent};

/// One extrinsic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// The size of the proof after it.
    size: BoundarySize,
    /// Microseconds of processor time.
    execute: f64,
    estimate: f64,
}

impl Step {
    pub(crate) fn new(size: BoundarySize, times: ExtrinsicTimes) -> Self {
        let micros = |spent: Spent| spent.cpu.as_secs_f64() * 1e6;
        Self {
            size,
            execute: micros(times.execute),
            estimate: micros(times.estimate),
        }
    }
}

/// A block, extrinsic by extrinsic.
#[derive(Clone, Debug)]
pub(crate) struct Growth {
    /// Distinguishes its charts from those of other blocks on the page; empty if there are none.
    pub(super) suffix: String,
    /// From extrinsic 0 on, inherents included.
    pub(super) steps: Vec<Step>,
    /// Bytes of the whole proof, recorded when the block was final.
    pub(super) recorded: u64,
    pub(super) limit: Option<u64>,
    /// Whether the root's share is known. sp-state-machine does not tell it.
    pub(super) estimated: bool,
}

/// Where the limit is crossed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crossing {
    Never,
    /// The extrinsic after which the proof is too large.
    At(usize),
    /// Finalizing the block makes it too large.
    Finalizing,
}

impl Growth {
    /// A block whose sizes after each extrinsic include the root.
    pub(crate) fn new(steps: Vec<Step>, recorded: u64, limit: Option<u64>) -> Self {
        Self {
            suffix: String::new(),
            steps,
            recorded,
            limit,
            estimated: true,
        }
    }

    /// The same block on sp-state-machine, which does not know the root's share.
    #[cfg(feature = "wasm")]
    pub(crate) fn without_estimates(self) -> Self {
        Self {
            estimated: false,
            ..self
        }
    }

    /// The size after the last extrinsic.
    fn last(&self) -> BoundarySize {
        let nothing = BoundarySize {
            recorded: 0,
            root_adds: 0,
        };
        self.steps.last().map_or(nothing, |step| step.size)
    }

    /// Where a size of the proof is above `limit` for the first time.
    fn crossing(&self, limit: u64, size: impl Fn(&BoundarySize) -> u64) -> Crossing {
        let at = self.steps.iter().position(|step| size(&step.size) > limit);
        match at {
            Some(at) => Crossing::At(at),
            None if self.recorded > limit => Crossing::Finalizing,
            None => Crossing::Never,
        }
    }

    /// Adds the final size of the proof and its limit to the facts of `page`.
    pub(super) fn facts(&self, page: &mut Page) {
        let note = match self.limit {
            Some(limit) => format!("limit {}", number::limit(limit)),
            None => "recorded".to_owned(),
        };
        page.facts
            .push(Fact::new("proof", bytes(self.recorded), note));
        if self.estimated {
            let last = self.last();
            let share = percent(last.root_adds, last.total());
            let note = format!("{share} after the last extrinsic");
            page.facts
                .push(Fact::new("root’s share", bytes(last.root_adds), note));
        }
        let Some(limit) = self.limit else { return };
        let crossing = self.crossing(limit, BoundarySize::total);
        let (name, size) = match self.recorded.checked_sub(limit) {
            Some(over @ 1..) => ("over the limit", over),
            _ => ("left to the limit", limit - self.recorded.min(limit)),
        };
        page.facts.push(Fact {
            bad: crossing != Crossing::Never,
            ..Fact::new(
                name,
                bytes(size),
                match crossing {
                    Crossing::Never => format!("{} of it", percent(size, limit)),
                    Crossing::At(at) => format!("crossed at extrinsic {}", count(at as u64)),
                    Crossing::Finalizing => "crossed by finalizing the block".to_owned(),
                },
            )
        });
    }

    /// The growth as a chart, with notes on it and on the limit.
    pub(super) fn growth_parts(&self) -> Vec<Part> {
        let mut parts = vec![Part::Note(self.in_words())];
        parts.extend(
            self.limit
                .map(|limit| Part::Note(self.limit_in_words(limit))),
        );
        parts.push(Part::Chart(self.growth_chart()));
        parts
    }

    fn in_words(&self) -> String {
        let last = self.last();
        if !self.estimated {
            return format!(
                "After the last extrinsic {} have been read. What the root adds is not known until \
                 the block is final; then the proof has {}.",
                bytes(last.recorded),
                bytes(self.recorded)
            );
        }
        let more = match self.recorded.checked_sub(last.total()) {
            Some(more @ 1..) => format!(" Finalizing the block adds {}.", bytes(more)),
            _ => String::new(),
        };
        format!(
            "After the last extrinsic the proof has {}: {} for what was read, and {} that only the \
             computation of the root needs.{more}",
            bytes(last.total()),
            bytes(last.recorded),
            bytes(last.root_adds),
        )
    }

    fn limit_in_words(&self, limit: u64) -> String {
        let crossing = self.crossing(limit, BoundarySize::total);
        let by_reads = self.crossing(limit, |size| size.recorded);
        let name = number::limit(limit);
        let first = match crossing {
            Crossing::Never => format!("The limit of {name} is not crossed."),
            Crossing::At(at) => {
                format!(
                    "The limit of {name} is crossed at extrinsic {}.",
                    count(at as u64)
                )
            }
            Crossing::Finalizing => {
                format!("The limit of {name} is crossed when the block is finalized.")
            }
        };
        let end = match self.recorded.checked_sub(limit) {
            Some(over @ 1..) => format!("In the end the proof is {} too large.", bytes(over)),
            _ => {
                let left = limit - self.recorded.min(limit);
                format!("{} are left, {} of it.", bytes(left), percent(left, limit))
            }
        };
        let blind = match (crossing, by_reads) {
            (Crossing::At(at), Crossing::At(later)) if later > at => format!(
                " A count of reads alone crosses it {} extrinsics later.",
                count((later - at) as u64)
            ),
            (Crossing::At(_), Crossing::Finalizing | Crossing::Never) => {
                " A count of reads alone does not cross it before the block is finalized."
                    .to_owned()
            }
            _ => String::new(),
        };
        let outside = if self.shown_limit().is_none() {
            " The limit is far above the chart."
        } else {
            ""
        };
        format!("{first} {end}{blind}{outside}")
    }

    /// The limit, if the growth can be seen beside it.
    fn shown_limit(&self) -> Option<u64> {
        let highest = self.steps.iter().map(|step| step.size.total()).max();
        let highest = highest.unwrap_or(0).max(1);
        self.limit.filter(|limit| *limit / 4 <= highest)
    }

    fn growth_chart(&self) -> Chart {
        let layer = |name: &str, color, size: fn(&BoundarySize) -> u64| Layer {
            name: name.to_owned(),
            color,
            values: self
                .steps
                .iter()
                .map(|step| place(size(&step.size)))
                .collect(),
        };
        let mut layers = vec![layer("reads", Color::Blue, |size| size.recorded)];
        if self.estimated {
            layers.push(layer("the root’s share", Color::Orange, |size| {
                size.root_adds
            }));
        }
        let limit = self.shown_limit().map(|limit| Limit {
            name: format!("limit {}", number::limit(limit)),
            value: place(limit),
            crossed: match self.crossing(limit, BoundarySize::total) {
                Crossing::At(at) => {
                    Some((at, format!("crossed at extrinsic {}", count(at as u64))))
                }
                _ => None,
            },
        });
        let highest = self.steps.iter().map(|step| step.size.total()).max();
        let most = place(highest.unwrap_or(0).max(self.shown_limit().unwrap_or(0)));
        let mut desc = self.in_words();
        if let Some(limit) = self.limit {
            desc = format!("{desc} {}", self.limit_in_words(limit));
        }
        Chart {
            name: self.named("growth"),
            title: format!(
                "Size of the proof after each of {} extrinsics",
                count(self.steps.len() as u64)
            ),
            desc,
            drawing: Drawing::Plot(Plot {
                layers,
                places: "extrinsic".to_owned(),
                unit: Unit::of_bytes(most),
                limit,
                cut: None,
            }),
        }
    }

    /// How long extrinsics, and estimates after them, take.
    pub(super) fn time_parts(&self) -> Vec<Part> {
        let execute: Vec<_> = self.steps.iter().map(|step| step.execute).collect();
        let mut parts = time("execute", "Executing", Color::Blue, execute, self);
        if self.estimated {
            let estimate = self.steps.iter().map(|step| step.estimate).collect();
            let what = "Estimating after";
            parts.extend(time("estimate", what, Color::Orange, estimate, self));
        }
        parts.push(Part::Note(
            "Processor time of the thread. Each time includes a fraction of a microsecond for reading \
             the clock."
                .to_owned(),
        ));
        parts
    }

    /// All numbers.
    pub(super) fn table(&self) -> Table {
        let mut columns = vec![
            Column::Number("extrinsic"),
            Column::Number("reads, B"),
            Column::Number("execute, µs"),
        ];
        if self.estimated {
            columns.extend([
                Column::Number("root’s share, B"),
                Column::Number("proof, B"),
                Column::Number("adds, B"),
                Column::Number("estimate, µs"),
            ]);
        }
        let mut before = 0;
        let rows = self.steps.iter().enumerate().map(|(index, step)| {
            let mut row = vec![
                count(index as u64),
                count(step.size.recorded),
                decimal(step.execute, 1),
            ];
            if self.estimated {
                let total = step.size.total();
                row.extend([
                    count(step.size.root_adds),
                    count(total),
                    // A refused extrinsic takes back what it read.
                    count(total.saturating_sub(before)),
                    decimal(step.estimate, 2),
                ]);
                before = total;
            }
            row
        });
        Table {
            caption: format!("Each of {} extrinsics", count(self.steps.len() as u64)),
            folded: true,
            ..Table::new(columns, rows.collect())
        }
    }

    fn named(&self, name: &str) -> String {
        format!("{name}{}", self.suffix)
    }
}

/// A chart of times in microseconds, and a note with the median and the longest.
fn time(name: &str, what: &str, color: Color, values: Vec<f64>, of: &Growth) -> Vec<Part> {
    let most = values.iter().copied().fold(0.0, f64::max);
    let (median, high) = (quantile(&values, 0.5), quantile(&values, 0.98));
    // Cut the chart, because a few very long times would flatten all others.
    // At a round number, where the axis ends.
    let cut = axis_end((high * 2.0).max(median * 4.0));
    let cut = (most > cut && values.len() > 10).then_some(cut);
    let longest = values.iter().position(|value| *value >= most).unwrap_or(0);
    let unit = Unit::of_microseconds(cut.unwrap_or(most));
    let said = |value: f64| format!("{} {}", short(value / unit.size), unit.name);
    let above = cut.map_or(0, |cut| values.iter().filter(|value| **value > cut).count());
    let marked = match above {
        0 => String::new(),
        1 => " It is marked where it leaves the picture.".to_owned(),
        above => format!(" Marks show the {above} that leave the picture."),
    };
    let words = format!(
        "{what} an extrinsic takes {} in the median and {} at most, for extrinsic {}.{marked}",
        said(median),
        said(most),
        count(longest as u64)
    );
    let chart = Chart {
        name: of.named(name),
        title: format!("{what} each extrinsic, {}", unit.name),
        desc: words.clone(),
        drawing: Drawing::Plot(Plot {
            layers: vec![Layer {
                name: format!("{} each extrinsic", what.to_lowercase()),
                color,
                values,
            }],
            places: "extrinsic".to_owned(),
            unit,
            limit: None,
            cut,
        }),
    };
    vec![Part::Note(words), Part::Chart(chart)]
}

/// The round number of microseconds at which an axis for values up to `most` ends.
fn axis_end(most: f64) -> f64 {
    let unit = Unit::of_microseconds(most).size;
    ticks(most / unit, 5.0)
        .last()
        .map_or(most, |tick| tick * unit)
}

/// `part` in percent of `whole`.
fn percent(part: u64, whole: u64) -> String {
    format!(
        "{} %",
        decimal(place(part) / place(whole.max(1)) * 100.0, 1)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block in which each extrinsic reads 100 bytes and the root adds 10 for each.
    fn growth(extrinsics: u64, recorded: u64, limit: u64) -> Growth {
        let steps = (1..=extrinsics).map(|done| {
            let (recorded, root_adds) = (done * 100, done * 10);
            let size = BoundarySize {
                recorded,
                root_adds,
            };
            Step::new(size, ExtrinsicTimes::default())
        });
        Growth::new(steps.collect(), recorded, Some(limit))
    }

    fn words(growth: &Growth) -> String {
        growth.limit_in_words(growth.limit.unwrap())
    }

    #[test]
    fn a_limit_is_crossed_by_the_first_size_above_it() {
        let total = BoundarySize::total;
        for (limit, crossing) in [
            (2_000, Crossing::Never),
            (1_100, Crossing::Never),
            (1_099, Crossing::At(9)),
            (990, Crossing::At(9)),
            (989, Crossing::At(8)),
            (109, Crossing::At(0)),
        ] {
            let growth = growth(10, 1_100, limit);
            assert_eq!(growth.crossing(limit, total), crossing, "{limit}");
        }
        let late = growth(10, 1_250, 1_200);
        assert_eq!(late.crossing(1_200, total), Crossing::Finalizing);
        assert!(
            words(&late).contains("when the block is finalized. In the end the proof is 50 B too")
        );
    }

    #[test]
    fn what_is_left_and_what_is_too_much() {
        let said = words(&growth(10, 1_100, 2_000));
        assert_eq!(
            said,
            "The limit of 2,000 B is not crossed. 900 B are left, 45.0 % of it."
        );
        let said = words(&growth(10, 1_100, 1_100));
        assert!(said.contains("0 B are left"), "{said}");
        let said = words(&growth(10, 1_100, 800));
        assert!(said.contains("crossed at extrinsic 7. In the end the proof is 300 B too large"));
        assert!(
            said.contains("reads alone crosses it 1 extrinsics later"),
            "{said}"
        );
        let said = words(&growth(10, 1_100, 1_050));
        assert!(said.contains("reads alone does not cross it"), "{said}");
    }

    #[test]
    fn a_limit_far_away_does_not_press_the_growth_to_the_ground() {
        let far = growth(10, 1_100, 5_242_880);
        assert!(words(&far).contains("5,241,780 B are left, 100.0 % of it. The limit is far above"));
        assert!(!far.growth_chart().file().contains("class=\"limit\""));
        let near = growth(10, 1_100, 4_000);
        assert!(near.growth_chart().file().contains("class=\"limit\""));
    }

    #[test]
    fn a_block_without_extrinsics() {
        let mut page = Page::new("a", "b");
        let empty = growth(0, 0, 100);
        empty.facts(&mut page);
        page.section("c", empty.growth_parts());
        page.section("d", empty.time_parts());
        assert_eq!(page.facts.len(), 3);
        assert_eq!(page.charts().count(), 3);
    }

    #[test]
    fn extrinsics_that_take_very_long_are_marked() {
        let mut values = vec![10.0; 100];
        values[7] = 900.0;
        let parts = time(
            "execute",
            "Executing",
            Color::Blue,
            values,
            &growth(1, 1, 1),
        );
        let Part::Note(words) = &parts[0] else {
            unreachable!("a note first")
        };
        assert!(
            words.contains("10.0 µs in the median and 900 µs at most, for extrinsic 7"),
            "{words}"
        );
        assert!(words.contains("marked"));
    }
}
