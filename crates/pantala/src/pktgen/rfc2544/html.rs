//! A report as one HTML page: no script, no file beside it, light or dark as the reader's system is.

use core::fmt::Write;

use super::chart::{self, Bar, Flow, Range, Series, escape};
use super::markdown::{self, Table};
use super::plan::Test;
use super::record::{Load, Report, SizeResult, Trial};
use super::{float, show};

const STYLE: &str = include_str!("report.css");

/// The whole page.
pub(super) fn page(report: &Report) -> String {
    let title = escape(&format!("RFC 2544: {}", report.plan.dut));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<main>\n<header>\n<h1>{title}</h1>\n<p>{}</p>\n</header>\n",
        escape(&markdown::head_line(report))
    );
    facts(report, &mut page);
    for table in markdown::all(report) {
        let _ = writeln!(page, "<section>\n<h2>{}</h2>\n<p>{}</p>", escape(table.title), escape(&table.note));
        if let Some(test) = table.test {
            plots(report, test, &mut page);
        }
        grid(&table, &mut page);
        page += "</section>\n";
    }
    trials(report, &mut page);
    let _ = writeln!(
        page,
        "<footer>Made by pantala {} (<code>pantala rfc2544</code>).</footer>",
        escape(&report.pantala)
    );
    page + "</main>\n</body>\n</html>\n"
}

fn facts(report: &Report, page: &mut String) {
    *page += "<dl>\n";
    for (name, value) in markdown::facts(report) {
        let _ = writeln!(page, "<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(&value));
    }
    *page += "</dl>\n";
    let deviations = report.plan.deviations();
    if !deviations.is_empty() {
        *page += "<aside>\n<h2>What differs from the standard</h2>\n<ul>\n";
        for what in deviations {
            let _ = writeln!(page, "<li>{}</li>", escape(&what));
        }
        *page += "</ul>\n</aside>\n";
    }
}

fn grid(table: &Table, page: &mut String) {
    *page += "<div class=\"scroll\"><table>\n<thead><tr>";
    for head in &table.heads {
        let _ = write!(page, "<th>{}</th>", escape(head));
    }
    *page += "</tr></thead>\n<tbody>\n";
    for row in &table.rows {
        *page += "<tr>";
        for cell in row {
            let _ = write!(page, "<td>{}</td>", escape(cell));
        }
        *page += "</tr>\n";
    }
    *page += "</tbody>\n</table></div>\n";
}

fn plots(report: &Report, test: Test, page: &mut String) {
    match test {
        Test::Throughput => throughput(report, page),
        Test::Latency => latency(report, page),
        Test::Loss => loss(report, page),
        Test::BackToBack => back_to_back(report, page),
        Test::Recovery | Test::Reset => courses(report, test, page),
    }
}

/// Bars of one number of each size that has it.
fn bars(
    report: &Report,
    title: &str,
    unit: &str,
    of: impl Fn(&SizeResult) -> Option<(f64, Option<f64>, String)>,
) -> String {
    let bar = |result: &SizeResult| {
        of(result).map(|(value, limit, shown)| Bar { label: result.size.to_string(), value, limit, shown })
    };
    let bars: Vec<Bar> = report.sizes.iter().filter_map(bar).collect();
    figure(&chart::bars(title, "frame size, bytes", unit, &bars), title)
}

fn figure(plot: &str, caption: &str) -> String {
    format!("<figure>\n{plot}<figcaption>{}</figcaption>\n</figure>\n", escape(caption))
}

fn throughput(report: &Report, page: &mut String) {
    let rate = |result: &SizeResult| result.throughput.map(|found| float(found.rate) / 1000.0);
    let limit = |result: &SizeResult| result.top;
    *page += &bars(report, "Frames per second; the mark is the highest rate tried", "pps", |result| {
        let rate = rate(result)?;
        Some((rate, Some(float(limit(result)) / 1000.0), number(rate)))
    });
    *page +=
        &bars(report, "Bits per second of frames; the mark is the highest rate tried", "bit/s", |result| {
            let bits = f64::from(result.size) * 8.0;
            let rate = rate(result)? * bits;
            Some((rate, Some(float(limit(result)) / 1000.0 * bits), number(rate)))
        });
}

/// Three digits and a prefix.
fn number(value: f64) -> String {
    crate::pktgen::show::scaled(value, "").trim_end().to_owned()
}

fn latency(report: &Report, page: &mut String) {
    let range = |result: &SizeResult| {
        let all: Vec<_> = result.latency.iter().flat_map(|run| &run.directions).collect();
        let count = float(all.len() as u64);
        let mean =
            |of: fn(&crate::api::Latency) -> u64| all.iter().map(|one| float(of(one))).sum::<f64>() / count;
        let most = all.iter().map(|one| one.max).max()?;
        let least = all.iter().map(|one| one.min).min()?;
        let values = [float(least), mean(|one| one.p50), mean(|one| one.p99), float(most)];
        Some(Range { label: result.size.to_string(), values })
    };
    let ranges: Vec<Range> = report.sizes.iter().filter_map(range).collect();
    let title = "Latency: least, median, 99 % and most, of all trials";
    *page += &figure(&chart::ranges(title, "frame size, bytes", &ranges), title);
}

fn loss(report: &Report, page: &mut String) {
    let series = report.sizes.iter().filter(|result| !result.loss.is_empty()).map(|result| Series {
        name: format!("{} bytes", result.size),
        points: result
            .loss
            .iter()
            .map(|point| (f64::from(point.percent_of_top), point.loss_percent))
            .collect(),
    });
    let series: Vec<Series> = series.collect();
    let title = "Frames lost, by load";
    *page += &figure(&chart::lines(title, "load, of the highest rate tried", &series), title);
}

fn back_to_back(report: &Report, page: &mut String) {
    *page += &bars(report, "Frames of the longest burst without loss, on average", "", |result| {
        let found = result.back_to_back.as_ref()?;
        let least = if found.is_unlimited { "≥ " } else { "" };
        Some((found.average, None, format!("{least}{}", number(found.average))))
    });
}

/// The course of the first trial of each size.
fn courses(report: &Report, test: Test, page: &mut String) {
    let of_test = |trial: &&Trial| trial.spec.test == test && trial.spec.repeat == 0;
    for trial in report.trials.iter().filter(of_test) {
        let Some(course) = trial.outcome.directions.iter().find_map(|counts| counts.course.as_ref()) else {
            continue;
        };
        let (ms, what) = match trial.spec.load {
            Load::Steps { time_ms, .. } => (float(time_ms), "reduced"),
            _ => (course.reset_ms.unwrap_or(0.0), "reset"),
        };
        let flow = Flow {
            part_ms: course.part_ms,
            sent: &course.sent,
            received: &course.received,
            mark: Some((ms, what)),
        };
        let title =
            format!("{} bytes: frames per second by the time at which they were sent", trial.spec.size);
        *page += &figure(&chart::flow(&title, &flow), &title);
    }
}

/// Every trial, folded.
fn trials(report: &Report, page: &mut String) {
    let row = |(number, trial): (usize, &Trial)| {
        let Trial { spec, outcome } = trial;
        let load = match spec.load {
            Load::Unlimited { .. } => "as fast as it goes".to_owned(),
            Load::Steady { rate, .. } | Load::Reset { rate, .. } => show::rate(rate),
            Load::Burst { frames, .. } => format!("{frames} frames"),
            Load::Steps { first, then, .. } => format!("{}, {}", show::rate(first), show::rate(then)),
        };
        let sum = |of: fn(&super::record::Counts) -> u64| outcome.sum(of).to_string();
        vec![
            number.to_string(),
            spec.test.name().to_owned(),
            spec.size.to_string(),
            load,
            sum(|counts| counts.sent),
            sum(|counts| counts.received),
            sum(|counts| counts.lost),
            sum(|counts| counts.duplicated),
            sum(|counts| counts.reordered),
            sum(|counts| counts.tester_dropped),
        ]
    };
    let table = Table {
        test: None,
        title: "Trials",
        note: String::new(),
        heads: vec![
            "",
            "test",
            "bytes",
            "load",
            "sent",
            "received",
            "lost",
            "duplicated",
            "reordered",
            "tester dropped",
        ],
        rows: (1..).zip(&report.trials).map(row).collect(),
    };
    let _ = writeln!(page, "<details>\n<summary>All {} trials</summary>", table.rows.len());
    grid(&table, page);
    *page += "</details>\n";
}

#[cfg(test)]
mod tests;
