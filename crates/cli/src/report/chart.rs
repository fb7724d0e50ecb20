//! A chart, inside a page and as a file of its own.

use super::{
    bars::Bars,
    lines::Lines,
    plot::Plot,
    svg::{escape, Anchor, Canvas, Layout},
};

/// Colours and shapes, for pages and for charts that stand alone.
pub(super) const THEME: &str = include_str!("theme.css");

/// Marks the beginning of a file that a report wrote, so that the next report may replace it.
pub(super) const FILE_MARK: &str = "<!-- povmeter ";

/// A chart, with a description in words.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    /// The name of its file, without the ending.
    pub(super) name: String,
    pub(super) title: String,
    /// The description, for readers who can't see the chart.
    pub(super) desc: String,
    pub(super) drawing: Drawing,
}

/// What is drawn.
#[derive(Clone, Debug)]
pub(super) enum Drawing {
    Plot(Plot),
    Bars(Bars),
    Lines(Lines),
}

impl Drawing {
    /// Draws from `top` downwards and returns the lower end.
    fn draw(&self, canvas: &mut Canvas, layout: Layout, top: f64) -> f64 {
        match self {
            Self::Plot(plot) => plot.draw(canvas, layout, top),
            Self::Bars(bars) => bars.draw(canvas, layout, top),
            Self::Lines(lines) => lines.draw(canvas, layout, top),
        }
    }
}

/// The style with a fixed colour before each colour variable, because programs other than browsers do not
/// know variables and would paint everything black. The fixed colour is that of the light theme.
fn with_fixed_colors(style: &str) -> String {
    let mut names = Vec::new();
    let mut fixed = style.to_owned();
    let definitions = style.split([';', '{']).filter_map(|part| {
        let (name, color) = part.trim().strip_prefix("--")?.split_once(": ")?;
        Some((name, color))
    });
    for (name, color) in definitions {
        if names.contains(&name) {
            continue;
        }
        names.push(name);
        for property in ["fill", "stroke"] {
            let variable = format!("{property}: var(--{name})");
            fixed = fixed.replace(&variable, &format!("{property}: {color}; {variable}"));
        }
    }
    fixed
}

impl Chart {
    /// The chart twice, for wide and for narrow screens. The page shows one of them.
    pub(super) fn inline(&self) -> String {
        let drawings = [Layout::Wide, Layout::Narrow].map(|layout| {
            let mut canvas = Canvas::default();
            let height = self.drawing.draw(&mut canvas, layout, 0.0);
            let view = format!("0 0 {} {height:.0}", layout.width());
            self.element(layout.class(), &view, "", &canvas.into_string())
        });
        drawings.concat()
    }

    /// A part of every page that shows the chart of this name.
    pub(super) fn trace(name: &str) -> String {
        format!(
            "<title id=\"{}-{}-title\">",
            escape(name),
            Layout::Wide.class()
        )
    }

    /// The chart as a file: with its title, and with the style of the page.
    pub(super) fn file(&self) -> String {
        const PADDING: f64 = 20.0;
        let layout = Layout::Wide;
        let mut canvas = Canvas::default();
        canvas.text(Anchor::Start, "ink title", (0.0, 15.0), &self.title);
        let height = self.drawing.draw(&mut canvas, layout, 36.0) + 2.0 * PADDING;
        let width = layout.width() + 2.0 * PADDING;
        let before = format!(
            "<style>{}</style>\n<rect class=\"ground\" width=\"{width}\" height=\"{height:.0}\" rx=\"8\"/>\n\
             <g transform=\"translate({PADDING} {PADDING})\">\n",
            with_fixed_colors(THEME)
        );
        let body = canvas.into_string() + "</g>\n";
        // A size for programs that choose none.
        let view = format!("0 0 {width} {height:.0}\" width=\"{width}\" height=\"{height:.0}");
        let svg = self.element("alone", &view, &before, &body);
        format!("{FILE_MARK}{} -->\n{svg}", env!("CARGO_PKG_VERSION"))
    }

    fn element(&self, class: &str, view: &str, before: &str, body: &str) -> String {
        let (name, title, desc) = (escape(&self.name), escape(&self.title), escape(&self.desc));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart {class}\" viewBox=\"{view}\" role=\"img\" \
             aria-labelledby=\"{name}-{class}-title {name}-{class}-desc\">\n\
             <title id=\"{name}-{class}-title\">{title}</title>\n\
             <desc id=\"{name}-{class}-desc\">{desc}</desc>\n{before}{body}</svg>\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_color_is_there_for_those_who_know_no_variables() {
        let fixed = with_fixed_colors(THEME);
        assert!(
            fixed.contains("fill: #0072b2; fill: var(--blue);"),
            "{fixed}"
        );
        for (at, _) in fixed.match_indices("var(--") {
            let before = &fixed[..at];
            let rule = &before[before.rfind('{').unwrap_or(0)..];
            assert!(rule.contains('#'), "{rule}");
        }
    }
}
