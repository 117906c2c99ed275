//! Bar charts as SVG, readable on light and dark pages.

use svg::Document;
use svg::node::element::{Line, Rectangle, Style, Text, Title};

/// Groups of horizontal bars above one axis.
pub struct Chart {
    pub title: &'static str,
    /// Text below the axis, with the unit.
    pub axis: &'static str,
    /// Decimals of the numbers beside the bars, at the most.
    pub decimals_max: usize,
    pub groups: Vec<Group>,
}

/// Bars below one label.
pub struct Group {
    pub label: &'static str,
    pub bars: Vec<Bar>,
}

/// A median with its quartiles.
pub struct Bar {
    pub label: &'static str,
    /// Whether the bar has pantala's colour.
    pub is_ours: bool,
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

const WIDTH: f64 = 760.0;
/// Left end of the bars.
const LEFT: f64 = 184.0;
/// Right end of the axis; numbers stand behind it.
const RIGHT: f64 = 680.0;
const TOP: f64 = 44.0;
const LABEL_HEIGHT: f64 = 22.0;
const BAR_PITCH: f64 = 19.0;
const BAR_HEIGHT: f64 = 13.0;
const GROUP_GAP: f64 = 8.0;
const AXIS_HEIGHT: f64 = 50.0;
/// Intervals of the axis, at the most.
const INTERVALS: f64 = 7.0;

const STYLE: &str = "
  .page { fill: #ffffff }
  text { font: 13px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #1f2328 }
  .group, .value { paint-order: stroke; stroke: #ffffff; stroke-width: 4px }
  .title { font-size: 15px; font-weight: 600 }
  .group { font-weight: 600 }
  .tick, .axis { font-size: 12px; fill: #57606a }
  .grid { stroke: #d0d7de }
  .spread { stroke: #1f2328; stroke-width: 1.5 }
  .ours { fill: #0969da }
  .other { fill: #9aa4b0 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 }
    text { fill: #e6edf3 }
    .group, .value { stroke: #0d1117 }
    .tick, .axis { fill: #9198a1 }
    .grid { stroke: #30363d }
    .spread { stroke: #e6edf3 }
    .ours { fill: #4493f8 }
    .other { fill: #656d76 }
  }
";

impl Chart {
    /// Draws the chart.
    pub fn svg(&self) -> String {
        let bottom = TOP + self.groups.iter().map(Group::height).sum::<f64>();
        let height = bottom + AXIS_HEIGHT;
        let page =
            Rectangle::new().set("class", "page").set("width", WIDTH).set("height", height).set("rx", 6);
        let mut document = Document::new()
            .set("viewBox", (0, 0, WIDTH, height))
            .set("width", WIDTH)
            .set("height", height)
            .set("role", "img")
            .add(Title::new(self.title))
            .add(Style::new(STYLE))
            .add(page)
            .add(text(self.title, "title", 16.0, 26.0, "start"));
        document = axis(document, self.axis, self.step(), self.end(), bottom);
        let mut y = TOP;
        for group in &self.groups {
            document = group.draw(document, y, self);
            y += group.height();
        }
        format!("{document}\n")
    }

    /// The greatest value.
    fn most(&self) -> f64 {
        let bars = self.groups.iter().flat_map(|group| &group.bars);
        bars.fold(0.0, |most, bar| bar.high.max(bar.median).max(most))
    }

    fn step(&self) -> f64 {
        step(self.most())
    }

    /// The value at the right end of the axis.
    fn end(&self) -> f64 {
        (self.most() / self.step()).ceil() * self.step()
    }
}

impl Group {
    #[expect(clippy::cast_precision_loss, reason = "a few bars")]
    fn height(&self) -> f64 {
        LABEL_HEIGHT + self.bars.len() as f64 * BAR_PITCH + GROUP_GAP
    }

    fn draw(&self, document: Document, top: f64, chart: &Chart) -> Document {
        let mut document = document.add(text(self.label, "group", 16.0, top + 15.0, "start"));
        let mut y = top + LABEL_HEIGHT;
        for bar in &self.bars {
            document = bar.draw(document, y, chart);
            y += BAR_PITCH;
        }
        document
    }
}

impl Bar {
    fn draw(&self, document: Document, top: f64, chart: &Chart) -> Document {
        let end = chart.end();
        let class = if self.is_ours { "ours" } else { "other" };
        let (middle, median) = (top + BAR_HEIGHT / 2.0, at(self.median, end));
        let bar = Rectangle::new().set("class", class).set("x", LEFT).set("y", top);
        let bar = bar.set("width", round(median - LEFT)).set("height", BAR_HEIGHT);
        let (low, high) = (at(self.low, end), at(self.high, end));
        let behind = median.max(high) + 6.0;
        document
            .add(text(self.label, "label", LEFT - 8.0, top + 11.0, "end"))
            .add(bar)
            .add(line("spread", (low, middle), (high, middle)))
            .add(line("spread", (low, middle - 3.0), (low, middle + 3.0)))
            .add(line("spread", (high, middle - 3.0), (high, middle + 3.0)))
            .add(text(&number(self.median, chart.decimals_max), "value", behind, top + 11.0, "start"))
    }
}

fn axis(mut document: Document, label: &str, step: f64, end: f64, bottom: f64) -> Document {
    let mut value = 0.0;
    while value <= end + step / 2.0 {
        let x = at(value, end);
        document = document.add(line("grid", (x, TOP), (x, bottom)));
        document = document.add(text(&plain(value), "tick", x, bottom + 16.0, "middle"));
        value += step;
    }
    document.add(text(label, "axis", f64::midpoint(LEFT, RIGHT), bottom + 36.0, "middle"))
}

/// The distance of marks: 1, 2 or 5 times a power of ten, for at most [`INTERVALS`].
fn step(most: f64) -> f64 {
    let least = most / INTERVALS;
    let power = 10_f64.powf(least.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= least);
    factor.unwrap_or(10.0) * power
}

fn at(value: f64, end: f64) -> f64 {
    round(LEFT + (RIGHT - LEFT) * value / end)
}

/// To a tenth of a pixel.
fn round(pixels: f64) -> f64 {
    (pixels * 10.0).round() / 10.0
}

/// Three digits, and no more decimals than the tables have.
fn number(value: f64, decimals_max: usize) -> String {
    let decimals = match value {
        100.0.. => 0_usize,
        10.0.. => 1,
        _ => 2,
    }
    .min(decimals_max);
    format!("{value:.decimals$}")
}

/// As few digits as the marks of an axis need.
fn plain(value: f64) -> String {
    format!("{}", (value * 1000.0).round() / 1000.0)
}

fn text(content: &str, class: &str, x: f64, y: f64, anchor: &str) -> Text {
    let text = Text::new(content).set("class", class).set("x", round(x)).set("y", round(y));
    if anchor == "start" { text } else { text.set("text-anchor", anchor) }
}

fn line(class: &str, from: (f64, f64), to: (f64, f64)) -> Line {
    let line = Line::new().set("class", class).set("x1", from.0).set("y1", from.1);
    line.set("x2", to.0).set("y2", to.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_an_axis_are_round_numbers_and_at_most_seven_intervals() {
        for (most, wanted) in
            [(60.442, 10.0), (7.0, 1.0), (7.1, 2.0), (304.0, 50.0), (0.9, 0.2), (733.0, 200.0)]
        {
            assert!((step(most) - wanted).abs() < 1e-9, "{most}: {}", step(most));
        }
    }

    #[test]
    fn a_bar_ends_at_its_median_and_its_spread_at_the_quartiles() {
        let bar = Bar { label: "a < b", is_ours: true, median: 5.0, low: 2.5, high: 10.0 };
        let chart = Chart {
            title: "t",
            axis: "x",
            decimals_max: 2,
            groups: vec![Group { label: "g", bars: vec![bar] }],
        };
        let svg = chart.svg();
        assert!(svg.contains("class=\"ours\" height=\"13\" width=\"248\" x=\"184\""), "{svg}");
        assert!(svg.contains("class=\"spread\" x1=\"308\" x2=\"680\""), "{svg}");
        assert!(svg.contains("a &lt; b"), "{svg}");
    }
}
