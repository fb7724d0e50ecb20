//! A chart of one value for each extrinsic, or of several on top of each other.

use super::{
    axis::{step, tick_label, ticks, Unit},
    number::place,
    svg::{text_width, Anchor, Canvas, Color, Layout},
};
use std::fmt::Write;

/// Values side by side, in layers on top of each other.
#[derive(Clone, Debug)]
pub(super) struct Plot {
    /// From the bottom up, all of one length.
    pub(super) layers: Vec<Layer>,
    /// The name of the horizontal axis.
    pub(super) places: String,
    /// The number of the first place.
    pub(super) first: u32,
    pub(super) unit: Unit,
    /// Whether a line in the background's colour separates layers whose values change little between places.
    pub(super) parted: bool,
    /// From the lowest to the highest.
    pub(super) limits: Vec<Limit>,
    /// The highest value shown, if the chart does not show all. Higher values are marked.
    pub(super) cut: Option<f64>,
}

/// A value for each place.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    pub(super) name: String,
    pub(super) color: Color,
    pub(super) values: Vec<f64>,
}

/// A line that values should stay below.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    pub(super) name: String,
    pub(super) color: Color,
    pub(super) value: f64,
    /// The first place above it, and the label there.
    pub(super) crossed: Option<(usize, String)>,
}

/// Most steps in a chart. If there are more places, several share a step, which shows the highest.
const MOST_STEPS: usize = 760;

/// The place and scale of the values in a chart.
struct Frame {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
    places: usize,
    most: f64,
}

impl Frame {
    fn x(&self, place_at: usize) -> f64 {
        self.left + self.width * place(place_at as u64) / place(self.places.max(1) as u64)
    }

    fn y(&self, value: f64) -> f64 {
        self.top + self.height * (1.0 - value.clamp(0.0, self.most) / self.most)
    }
}

impl Plot {
    /// Draws from `top` downwards and returns the lower end.
    pub(super) fn draw(&self, canvas: &mut Canvas, layout: Layout, top: f64) -> f64 {
        let mut keys: Vec<_> = self.layers.iter().rev().map(Layer::key).collect();
        // A single layer needs no key, because the title names it.
        keys.retain(|_| self.layers.len() > 1 || !self.limits.is_empty());
        let limits = self.limits.iter().rev();
        keys.extend(limits.map(|limit| (limit.color, limit.name.clone())));
        let top = canvas.legend(layout, top, &keys);
        let sums = self.sums();
        let most = self.most(&sums) / self.unit.size;
        let mut ticks = ticks(most, if layout == Layout::Wide { 5.0 } else { 4.0 });
        // The axis ends at the cut, so that exactly the marked values leave it.
        if self.cut.is_some() {
            ticks.retain(|tick| *tick <= most * (1.0 + f64::EPSILON));
        }
        let apart = ticks.get(1).copied().unwrap_or(1.0);
        let labels: Vec<_> = ticks.iter().map(|tick| tick_label(*tick, apart)).collect();
        let widest = labels.iter().map(|label| text_width(label));
        let widest = widest.chain([text_width(self.unit.name)]);
        let left = widest.fold(20.0, f64::max) + 8.0;
        let frame = Frame {
            left,
            // The name of the unit is above.
            top: top + 20.0,
            width: layout.width() - left - 10.0,
            height: if layout == Layout::Wide { 230.0 } else { 200.0 },
            places: sums.first().map_or(0, Vec::len),
            most: match self.cut {
                Some(_) => most * self.unit.size,
                None => ticks.last().copied().unwrap_or(1.0).max(apart) * self.unit.size,
            },
        };
        canvas.text(Anchor::End, "", (left - 6.0, top + 8.0), self.unit.name);
        for (tick, label) in ticks.iter().zip(&labels) {
            let y = frame.y(tick * self.unit.size);
            canvas.path("grid", &format!("M{left:.1} {y:.1}h{:.1}", frame.width));
            canvas.text(Anchor::End, "", (left - 6.0, y + 4.0), label);
        }
        self.layers(canvas, &frame, &sums);
        let bottom = self.places(canvas, &frame, layout);
        self.limits(canvas, &frame);
        bottom
    }

    /// The layers, each added to those below it.
    fn sums(&self) -> Vec<Vec<f64>> {
        let mut below: Vec<f64> = Vec::new();
        let layers = self.layers.iter().map(|layer| {
            let values = layer.values.iter().enumerate();
            let sums = values.map(|(place, value)| value + below.get(place).unwrap_or(&0.0));
            below = sums.collect();
            below.clone()
        });
        layers.collect()
    }

    /// The highest value that the chart shows.
    fn most(&self, sums: &[Vec<f64>]) -> f64 {
        let sums = sums.last().into_iter().flatten();
        let most = sums.fold(0.0, |most, sum| f64::max(most, *sum));
        let shown = self.cut.map_or(most, |cut| cut.min(most));
        let limits = self.limits.iter().map(|limit| limit.value);
        limits.fold(shown, f64::max)
    }

    fn layers(&self, canvas: &mut Canvas, frame: &Frame, sums: &[Vec<f64>]) {
        let together = frame.places.div_ceil(MOST_STEPS).max(1);
        let Some(top) = sums.last() else { return };
        // A step shows the highest of the places that share it.
        let shown: Vec<usize> = (0..frame.places)
            .step_by(together)
            .filter_map(|from| {
                let until = (from + together).min(frame.places);
                (from..until).max_by(|a, b| top[*a].total_cmp(&top[*b]))
            })
            .collect();
        let outline = |sums: &[f64]| -> Vec<(f64, f64, f64)> {
            let steps = shown.iter().enumerate();
            let steps = steps.map(|(step, place)| {
                let until = ((step + 1) * together).min(frame.places);
                (
                    frame.x(step * together),
                    frame.x(until),
                    frame.y(sums[*place]),
                )
            });
            steps.collect()
        };
        let ground = vec![0.0; frame.places];
        let below = std::iter::once(&ground).chain(sums);
        for ((layer, sums), below) in self.layers.iter().zip(sums).zip(below) {
            let parted = if self.parted { "parted " } else { "" };
            let class = format!("{parted}{}", layer.color.class());
            canvas.path(&class, &area(&outline(sums), &outline(below)));
        }
        if let Some(cut) = self.cut {
            let above = shown
                .iter()
                .enumerate()
                .filter(|(_, place)| top[**place] > cut);
            let marks = above.fold(String::new(), |mut marks, (step, _)| {
                let x = (frame.x(step * together) + frame.x((step + 1) * together)) / 2.0;
                let _ = write!(marks, "M{x:.1} {:.1}l4 7h-8z", frame.top - 9.0);
                marks
            });
            canvas.path("mark", &marks);
        }
    }

    /// Draws the horizontal axis and returns its lower end.
    fn places(&self, canvas: &mut Canvas, frame: &Frame, layout: Layout) -> f64 {
        let bottom = frame.top + frame.height;
        canvas.path(
            "axis",
            &format!("M{:.1} {bottom:.1}h{:.1}", frame.left, frame.width),
        );
        let first = f64::from(self.first);
        let last = first + place(frame.places.saturating_sub(1) as u64);
        let wanted = if layout == Layout::Wide { 8.0 } else { 5.0 };
        let apart = step(last, wanted).max(1.0);
        for tick in 0.. {
            let at = f64::from(tick) * apart;
            if at > last || frame.places == 0 {
                break;
            }
            if at < first {
                continue;
            }
            let x = frame.left + frame.width * (at - first + 0.5) / place(frame.places as u64);
            canvas.path("axis", &format!("M{x:.1} {bottom:.1}v4"));
            let label = tick_label(at, apart);
            canvas.text(Anchor::Middle, "", (x, bottom + 17.0), &label);
        }
        let end = frame.left + frame.width;
        canvas.text(Anchor::End, "", (end, bottom + 36.0), &self.places);
        bottom + 44.0
    }

    fn limits(&self, canvas: &mut Canvas, frame: &Frame) {
        for limit in &self.limits {
            let y = frame.y(limit.value);
            let line = format!("M{:.1} {y:.1}h{:.1}", frame.left, frame.width);
            canvas.path(limit.color.class(), &line);
            let Some((at, said)) = &limit.crossed else {
                continue;
            };
            let x = frame.x(*at);
            let dot = format!("M{:.1} {y:.1}a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z", x - 5.0);
            canvas.path("mark", &dot);
            let right = x - frame.left < text_width(said) + 12.0;
            let (anchor, x) = if right {
                (Anchor::Start, x + 8.0)
            } else {
                (Anchor::End, x - 8.0)
            };
            // Below the line if another one is where the label would be.
            let is_free = |limit: &Limit| {
                let above = y - frame.y(limit.value);
                !(2.0..24.0).contains(&above)
            };
            let below = if self.limits.iter().all(is_free) {
                -9.0
            } else {
                18.0
            };
            canvas.text(anchor, "ink halo", (x, y + below), said);
        }
    }
}

impl Layer {
    fn key(&self) -> (Color, String) {
        (self.color, self.name.clone())
    }
}

/// The path around the area between two outlines. Each step is from, until, height.
fn area(upper: &[(f64, f64, f64)], lower: &[(f64, f64, f64)]) -> String {
    let mut commands = String::new();
    let mut height = f64::NAN;
    let mut go = |(at, until, y): (f64, f64, f64), first: bool| {
        // Many small steps are a large one, so a step that is left out leaves the height as it is drawn.
        if first || (y - height).abs() >= 0.05 {
            height = y;
            // Writing to a string does not fail.
            let _ = match first {
                true => write!(commands, "M{at:.1} {y:.1}"),
                false => write!(commands, "H{at:.1}V{y:.1}"),
            };
        }
        until
    };
    let mut end = 0.0;
    for (index, step) in upper.iter().enumerate() {
        end = go(*step, index == 0);
    }
    for (from, until, y) in lower.iter().rev() {
        end = go((*until, *from, *y), false);
    }
    let _ = write!(commands, "H{end:.1}Z");
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_is_closed_around_what_lies_between() {
        let upper = [(0.0, 1.0, 5.0), (1.0, 2.0, 3.0), (2.0, 3.0, 3.0)];
        let lower = [(0.0, 1.0, 9.0), (1.0, 2.0, 9.0), (2.0, 3.0, 9.0)];
        assert_eq!(area(&upper, &lower), "M0.0 5.0H1.0V3.0H3.0V9.0H0.0Z");
    }

    /// Each step is too small to be drawn.
    #[test]
    fn an_area_rises_in_small_steps() {
        let steps = |by: f64| -> Vec<_> {
            let places = (0..100).map(f64::from);
            let steps = places.map(|at| (at, at + 1.0, 100.0 - by * at));
            steps.collect()
        };
        let path = area(&steps(0.04), &steps(0.0));
        let heights = path.split('V').skip(1);
        let heights = heights.map(|rest| rest.split('H').next().unwrap().parse::<f64>().unwrap());
        let highest = heights.fold(100.0, f64::min);
        // Within one step and the rounding of what the area really reaches.
        assert!((highest - 96.04).abs() <= 0.1, "{path}");
        assert!(path.ends_with("V100.0H0.0Z"), "{path}");
    }

    fn plot(values: Vec<f64>, cut: Option<f64>, limits: Vec<Limit>) -> String {
        let plot = Plot {
            layers: vec![Layer {
                name: "reads".to_owned(),
                color: Color::Blue,
                values,
            }],
            places: "extrinsic".to_owned(),
            first: 0,
            unit: Unit::of_bytes(100.0),
            parted: false,
            limits,
            cut,
        };
        let mut canvas = Canvas::default();
        plot.draw(&mut canvas, Layout::Narrow, 0.0);
        canvas.into_string()
    }

    #[test]
    fn what_is_cut_is_marked() {
        assert!(!plot(vec![1.0, 50.0, 2.0], None, Vec::new()).contains("mark"));
        let cut = plot(vec![1.0, 50.0, 2.0], Some(10.0), Vec::new());
        let mark = cut.lines().find(|line| line.contains("mark")).unwrap();
        assert_eq!(mark.matches("l4 7").count(), 1);
        // The axis ends at the cut.
        assert!(cut.contains(">10<") && !cut.contains(">50<"), "{cut}");
    }

    #[test]
    fn a_limit_is_in_the_picture_with_the_place_that_crosses_it() {
        let limit = |crossed| Limit {
            name: "limit 80 B".to_owned(),
            color: Color::Limit,
            value: 80.0,
            crossed,
        };
        let below = plot(vec![1.0, 50.0], None, vec![limit(None)]);
        assert!(below.contains(">80<") && !below.contains("mark"), "{below}");
        let crossed = Some((1, "crossed at extrinsic 1".to_owned()));
        let above = plot(vec![1.0, 90.0], None, vec![limit(crossed)]);
        assert!(above.contains("crossed at extrinsic 1") && above.contains("mark"));
    }

    /// The place of the label `text`, from the top.
    fn height_of(svg: &str, text: &str) -> f64 {
        let line = svg.lines().find(|line| line.contains(text)).unwrap();
        let (_, y) = line.split_once(" y=\"").unwrap();
        y.split_once('"').unwrap().0.parse().unwrap()
    }

    #[test]
    fn a_label_lies_on_no_line_of_another_limit() {
        let limit = |value, crossed: Option<&str>| Limit {
            name: format!("limit {value} B"),
            color: Color::Limit,
            value,
            crossed: crossed.map(|said| (1, said.to_owned())),
        };
        let label = |other| {
            let limits = vec![limit(40.0, Some("crossed")), limit(other, None)];
            height_of(&plot(vec![1.0, 100.0], None, limits), ">crossed<")
        };
        // The charts are the same but for the second limit: far above, and right above.
        assert_eq!(label(90.0) + 27.0, label(44.0));
    }

    #[test]
    fn places_are_counted_from_the_first() {
        let labels = |first| {
            let plot = Plot {
                layers: vec![Layer {
                    name: "time".to_owned(),
                    color: Color::Blue,
                    values: vec![1.0; 4],
                }],
                places: "block".to_owned(),
                first,
                unit: Unit::of_bytes(1.0),
                parted: false,
                limits: Vec::new(),
                cut: None,
            };
            let mut canvas = Canvas::default();
            plot.draw(&mut canvas, Layout::Wide, 0.0);
            let svg = canvas.into_string();
            let labels = svg.lines().filter(|line| line.contains("class=\"mid"));
            let number = |line: &str| {
                let (before, _) = line.rsplit_once('<').unwrap();
                before.rsplit_once('>').unwrap().1.parse::<u32>().unwrap()
            };
            labels.map(number).collect::<Vec<_>>()
        };
        assert_eq!(labels(0), [0, 1, 2, 3]);
        assert_eq!(labels(1), [1, 2, 3, 4]);
    }

    #[test]
    fn no_values_and_many() {
        assert!(plot(Vec::new(), None, Vec::new()).contains("extrinsic"));
        assert!(plot(vec![0.0], None, Vec::new()).contains("H"));
        let many: Vec<f64> = (0..100_000).map(f64::from).collect();
        assert!(plot(many, None, Vec::new()).len() < 20_000);
    }
}
