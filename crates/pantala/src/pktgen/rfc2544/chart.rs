//! Plots as SVG inside of a page, whose style sheet has their colours.

use core::fmt::Write;

use super::float;
use crate::pktgen::show::time;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 264.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 692.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 216.0;
/// Intervals of an axis, at the most.
const INTERVALS: f64 = 5.0;
/// Colours of the style sheet.
pub(super) const SERIES: usize = 8;

/// A bar: label, value, and what it could have been.
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) value: f64,
    pub(super) limit: Option<f64>,
    pub(super) shown: String,
}

/// A line with a name, through points.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// A range on a logarithmic axis of time: least, median, 99 %, most; nanoseconds.
pub(super) struct Range {
    pub(super) label: String,
    pub(super) values: [f64; 4],
}

/// Frames sent and received in each part of a trial, with a vertical mark.
pub(super) struct Flow<'a> {
    pub(super) part_ms: f64,
    pub(super) sent: &'a [u64],
    pub(super) received: &'a [u64],
    pub(super) mark: Option<(f64, &'a str)>,
}

/// Replaces what has a meaning in HTML.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A plot under way: its text, and how values become places.
struct Plot {
    text: String,
    most: f64,
}

impl Plot {
    /// Begins a plot whose vertical axis goes from 0 to `most` or a little more.
    fn new(title: &str, most: f64, unit: &str) -> Self {
        let mut plot = Self::bare(title);
        let step = step(most);
        plot.most = (most / step).ceil().max(1.0) * step;
        let mut value = 0.0;
        while value <= plot.most + step / 2.0 {
            let y = plot.y(value);
            plot.rule(y);
            plot.text("tick", LEFT - 8.0, y + 4.0, "end", &number(value, unit));
            value += step;
        }
        plot
    }

    fn bare(title: &str) -> Self {
        let title = escape(title);
        let text = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\"><title>{title}</title>\n"
        );
        Self { text, most: 1.0 }
    }

    fn y(&self, value: f64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * (value / self.most).clamp(0.0, 1.0)
    }

    fn rule(&mut self, y: f64) {
        let _ = writeln!(
            self.text,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
        );
    }

    fn text(&mut self, class: &str, x: f64, y: f64, anchor: &str, content: &str) {
        let content = escape(content);
        let _ = writeln!(
            self.text,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{content}</text>"
        );
    }

    fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let _ = writeln!(
            self.text,
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        );
    }

    fn rect(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        let _ = writeln!(
            self.text,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"2\"/>"
        );
    }

    fn points(&mut self, class: &str, points: &[(f64, f64)]) {
        let places: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(self.text, "<polyline class=\"{class}\" points=\"{}\"/>", places.join(" "));
    }

    fn end(mut self, axis: &str) -> String {
        self.text("axis", f64::midpoint(LEFT, RIGHT), HEIGHT - 6.0, "middle", axis);
        self.text + "</svg>\n"
    }
}

/// Bars beside each other.
pub(super) fn bars(title: &str, axis: &str, unit: &str, bars: &[Bar]) -> String {
    let most = bars.iter().map(|bar| bar.limit.unwrap_or(0.0).max(bar.value)).fold(0.0, f64::max);
    let mut plot = Plot::new(title, most, unit);
    let pitch = (RIGHT - LEFT) / float(bars.len().max(1) as u64);
    let width = (pitch * 0.6).min(72.0);
    for (at, bar) in (0..).zip(bars) {
        let middle = LEFT + pitch * (float(at) + 0.5);
        let (x, y) = (middle - width / 2.0, plot.y(bar.value));
        plot.rect("bar", (x, y), (width, BOTTOM - y));
        if let Some(limit) = bar.limit {
            let y = plot.y(limit);
            plot.line("limit", (x - 5.0, y), (x + width + 5.0, y));
        }
        plot.text("value", middle, (y - 6.0).max(TOP + 8.0), "middle", &bar.shown);
        plot.text("tick", middle, BOTTOM + 18.0, "middle", &bar.label);
    }
    plot.end(axis)
}

/// Lines over a horizontal axis from 0 to 100 %.
pub(super) fn lines(title: &str, axis: &str, series: &[Series]) -> String {
    let values = series.iter().flat_map(|series| &series.points).map(|(_, value)| *value);
    let mut plot = Plot::new(title, values.fold(0.0, f64::max), "%");
    let x = |percent: f64| LEFT + (RIGHT - LEFT) * percent / 100.0;
    for percent in (0_u32..=100).step_by(20) {
        plot.text("tick", x(percent.into()), BOTTOM + 18.0, "middle", &format!("{percent} %"));
    }
    for (at, series) in series.iter().enumerate() {
        let at = at % SERIES;
        let points: Vec<_> = series.points.iter().map(|(at, value)| (x(*at), plot.y(*value))).collect();
        plot.points(&format!("curve s{at}"), &points);
        for (x, y) in points {
            let _ = writeln!(plot.text, "<circle class=\"dot s{at}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>");
        }
    }
    let mut text = plot.end(axis);
    text += "<p class=\"legend\">";
    for (at, series) in series.iter().enumerate() {
        let _ = write!(text, "<span><i class=\"s{}\"></i>{}</span> ", at % SERIES, escape(&series.name));
    }
    text + "</p>\n"
}

/// Ranges beside each other, on a logarithmic axis of time.
pub(super) fn ranges(title: &str, axis: &str, ranges: &[Range]) -> String {
    let all = || ranges.iter().flat_map(|range| range.values).map(|ns| ns.max(1.0));
    let low = all().fold(f64::MAX, f64::min).log10().floor().clamp(0.0, 12.0);
    let high = all().fold(1.0, f64::max).log10().ceil().clamp(low + 1.0, 13.0);
    let mut plot = Plot::bare(title);
    let y = |ns: f64| BOTTOM - (BOTTOM - TOP) * ((ns.max(1.0).log10() - low) / (high - low)).clamp(0.0, 1.0);
    let mut power = low;
    while power <= high {
        let ns = 10_f64.powf(power);
        plot.rule(y(ns));
        plot.text("tick", LEFT - 8.0, y(ns) + 4.0, "end", &power_of_ten(ns));
        power += 1.0;
    }
    let pitch = (RIGHT - LEFT) / float(ranges.len().max(1) as u64);
    for (at, range) in (0..).zip(ranges) {
        let middle = LEFT + pitch * (float(at) + 0.5);
        let [least, median, high, most] = range.values.map(y);
        plot.line("spread", (middle, least), (middle, most));
        [least, most].iter().for_each(|y| plot.line("spread", (middle - 6.0, *y), (middle + 6.0, *y)));
        plot.rect("bar", (middle - 9.0, high), (18.0, (median - high).max(1.0)));
        plot.line("median", (middle - 13.0, median), (middle + 13.0, median));
        plot.text("value", middle + 18.0, median + 4.0, "start", &short(range.values[1]));
        plot.text("tick", middle, BOTTOM + 18.0, "middle", &range.label);
    }
    plot.end(axis)
}

/// Rates over the time of a trial.
pub(super) fn flow(title: &str, flow: &Flow<'_>) -> String {
    let rate = |count: &u64| float(*count) * 1000.0 / flow.part_ms.max(1e-3);
    let most = flow.sent.iter().chain(flow.received).map(rate).fold(0.0, f64::max);
    let mut plot = Plot::new(title, most, "pps");
    let total_ms = (flow.part_ms * float(flow.sent.len() as u64)).max(1e-3);
    let x = |ms: f64| LEFT + (RIGHT - LEFT) * (ms / total_ms).clamp(0.0, 1.0);
    let step = step(total_ms / 1000.0);
    let mut at = 0.0;
    while at * 1000.0 <= total_ms * 1.001 {
        plot.text("tick", x(at * 1000.0), BOTTOM + 18.0, "middle", &format!("{} s", plain(at)));
        at += step;
    }
    for (class, counts) in [("curve sent", flow.sent), ("curve got", flow.received)] {
        let points =
            (0..).zip(counts).map(|(at, count)| (x((float(at) + 0.5) * flow.part_ms), plot.y(rate(count))));
        let points: Vec<_> = points.collect();
        plot.points(class, &points);
    }
    if let Some((ms, what)) = flow.mark {
        plot.line("mark", (x(ms), TOP), (x(ms), BOTTOM));
        let (dx, anchor) = if x(ms) > 500.0 { (-5.0, "end") } else { (5.0, "start") };
        plot.text("value", x(ms) + dx, TOP + 10.0, anchor, what);
    }
    plot.end("time of sending")
        + "<p class=\"legend\"><span><i class=\"sent\"></i>sent</span> <span><i class=\"got\"></i>of these, received</span></p>\n"
}

/// The distance of marks: 1, 2 or 5 times a power of ten.
fn step(most: f64) -> f64 {
    if !most.is_normal() || most < 0.0 {
        return 1.0;
    }
    let least = most / INTERVALS;
    let power = 10_f64.powf(least.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= least * 0.999);
    factor.unwrap_or(10.0) * power
}

/// As few digits as needed.
fn plain(value: f64) -> String {
    format!("{}", (value * 1000.0).round() / 1000.0)
}

fn number(value: f64, unit: &str) -> String {
    let (value, prefix) = match value {
        value if unit == "%" => (value, ""),
        value if value >= 1e9 => (value / 1e9, "G"),
        value if value >= 1e6 => (value / 1e6, "M"),
        value if value >= 1e3 => (value / 1e3, "k"),
        value => (value, ""),
    };
    format!("{} {prefix}{unit}", plain(value))
}

fn power_of_ten(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns >= 1e9 => (ns / 1e9, "s"),
        ns if ns >= 1e6 => (ns / 1e6, "ms"),
        ns if ns >= 1e3 => (ns / 1e3, "us"),
        ns => (ns, "ns"),
    };
    format!("{value:.0} {unit}")
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "nanoseconds")]
fn short(ns: f64) -> String {
    time(ns.max(0.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether all elements end that begin; the plots have no others that stand alone.
    fn is_whole(svg: &str) -> bool {
        ["svg", "text", "title", "p", "span", "i"].iter().all(|name| {
            let opened =
                svg.matches(&format!("<{name}>")).count() + svg.matches(&format!("<{name} ")).count();
            opened == svg.matches(&format!("</{name}>")).count()
        })
    }

    #[test]
    fn a_bar_reaches_its_value_and_its_limit_is_above() {
        let bar = Bar { label: "64".into(), value: 50.0, limit: Some(100.0), shown: "<50>".into() };
        let svg = bars("t & t", "bytes", "pps", &[bar]);
        let half = f64::midpoint(TOP, BOTTOM);
        assert!(svg.contains(&format!("y=\"{half:.1}\" width")), "{svg}");
        assert!(svg.contains(&format!("class=\"limit\" x1=\"343.0\" y1=\"{TOP:.1}\"")), "{svg}");
        assert!(svg.contains("&lt;50&gt;") && svg.contains("t &amp; t") && is_whole(&svg), "{svg}");
    }

    #[test]
    fn plots_of_nothing_are_plots() {
        let flow = Flow { part_ms: 0.0, sent: &[], received: &[], mark: None };
        for svg in
            [bars("t", "x", "pps", &[]), lines("t", "x", &[]), ranges("t", "x", &[]), super::flow("t", &flow)]
        {
            assert!(is_whole(&svg) && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn each_decade_of_a_range_is_as_high_as_the_others() {
        let range = Range { label: "64".into(), values: [1e3, 1e4, 1e5, 1e6] };
        let svg = ranges("t", "bytes", &[range]);
        let third = (BOTTOM - TOP) / 3.0;
        assert!(
            svg.contains(&format!("class=\"median\" x1=\"371.0\" y1=\"{:.1}\"", BOTTOM - third)),
            "{svg}"
        );
        assert!(svg.contains(&format!(
            "class=\"spread\" x1=\"384.0\" y1=\"{BOTTOM:.1}\" x2=\"384.0\" y2=\"{TOP:.1}\""
        )));
    }
}
