//! A chart of curves over few places, such as hits over sizes.

use super::{
    axis::{tick_label, ticks},
    number::place,
    svg::{Anchor, Canvas, Color, Layout},
};
use std::fmt::Write;

/// Curves with a value at each place, in percent. The places are equally far apart.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    pub(super) places: Vec<String>,
    /// The name of the horizontal axis.
    pub(super) axis: String,
    pub(super) curves: Vec<Curve>,
}

/// One curve.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) color: Color,
    pub(super) values: Vec<f64>,
}

const LEFT: f64 = 42.0;
const MOST: f64 = 100.0;

impl Lines {
    /// Draws from `top` downwards and returns the lower end.
    pub(super) fn draw(&self, canvas: &mut Canvas, layout: Layout, top: f64) -> f64 {
        let keys = self
            .curves
            .iter()
            .map(|curve| (curve.color, curve.name.clone()));
        let top = canvas.legend(layout, top, &keys.collect::<Vec<_>>()) + 20.0;
        let (width, height) = (layout.width() - LEFT - 24.0, 220.0);
        let y = |value: f64| top + height * (1.0 - value.clamp(0.0, MOST) / MOST);
        let last = place(self.places.len().saturating_sub(1).max(1) as u64);
        let x = |at: usize| LEFT + 12.0 + (width - 12.0) * place(at as u64) / last;
        canvas.text(Anchor::End, "", (LEFT - 6.0, top - 12.0), "%");
        for tick in ticks(MOST, 5.0) {
            let y = y(tick);
            canvas.path("grid", &format!("M{LEFT:.1} {y:.1}h{width:.1}"));
            canvas.text(
                Anchor::End,
                "",
                (LEFT - 6.0, y + 4.0),
                &tick_label(tick, 20.0),
            );
        }
        for curve in &self.curves {
            let mut commands = String::new();
            for (at, value) in curve.values.iter().enumerate() {
                let command = if at == 0 { 'M' } else { 'L' };
                // Writing to a string does not fail.
                let _ = write!(commands, "{command}{:.1} {:.1}", x(at), y(*value));
            }
            canvas.path(&format!("curve {}", curve.color.class()), &commands);
            for (at, value) in curve.values.iter().enumerate() {
                let title = format!("{}, {}: {value:.1} %", curve.name, self.places[at]);
                canvas.rect(
                    curve.color.class(),
                    [x(at) - 3.5, y(*value) - 3.5, 7.0, 7.0],
                    &title,
                );
            }
        }
        let bottom = top + height;
        canvas.path("axis", &format!("M{LEFT:.1} {bottom:.1}h{width:.1}"));
        for (at, name) in self.places.iter().enumerate() {
            canvas.path("axis", &format!("M{:.1} {bottom:.1}v4", x(at)));
            canvas.text(Anchor::Middle, "", (x(at), bottom + 17.0), name);
        }
        canvas.text(Anchor::End, "", (LEFT + width, bottom + 36.0), &self.axis);
        bottom + 44.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_a_point() {
        let curve = |name: &str, color, values| Curve {
            name: name.to_owned(),
            color,
            values,
        };
        let lines = Lines {
            places: ["1 %", "5 %"].map(str::to_owned).to_vec(),
            axis: "memory".to_owned(),
            curves: vec![
                curve("povmeter", Color::Green, vec![50.0, 100.0]),
                curve("other", Color::Grey, vec![0.0, 250.0]),
            ],
        };
        for layout in [Layout::Wide, Layout::Narrow] {
            let mut canvas = Canvas::default();
            assert!(lines.draw(&mut canvas, layout, 0.0) < 350.0);
            let svg = canvas.into_string();
            for part in [
                "povmeter, 5 %: 100.0 %",
                "other, 1 %: 0.0 %",
                ">memory<",
                "curve green",
            ] {
                assert!(svg.contains(part), "{part}: {svg}");
            }
            assert_eq!(svg.matches("class=\"curve ").count(), 2);
        }
        let nothing = Lines {
            places: Vec::new(),
            axis: String::new(),
            curves: Vec::new(),
        };
        nothing.draw(&mut Canvas::default(), Layout::Wide, 0.0);
    }
}
