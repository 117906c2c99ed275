//! A report in Markdown; its tables are also what the terminal shows.

use core::fmt::Write;

use super::plan::Test;
use super::record::{Limit, Load, Report, Reset, SizeResult};
use super::show;
use crate::pktgen::show::time;

/// The results for a terminal.
pub(super) fn summary(report: &Report) -> String {
    let mut text = head_line(report) + "\n\n";
    tables(report, &mut text);
    text
}

/// The whole report.
pub(super) fn report(report: &Report) -> String {
    let plan = &report.plan;
    let mut text = format!("# RFC 2544: {}\n\n{}\n\n", plan.dut, head_line(report));
    for (name, value) in facts(report) {
        let _ = writeln!(text, "- {name}: {value}");
    }
    let deviations = plan.deviations();
    if !deviations.is_empty() {
        text += "\nWhat differs from the standard:\n\n";
        for what in deviations {
            let _ = writeln!(text, "- {what}");
        }
    }
    text += "\n## Results\n\n";
    tables(report, &mut text);
    text
}

/// One sentence about the run.
pub(super) fn head_line(report: &Report) -> String {
    let plan = &report.plan;
    let devices: Vec<&str> = plan.ends.iter().map(|end| &*end.device).collect();
    let arrow = if plan.mesh || plan.both_ways { " ⇄ " } else { " ▶ " };
    let mesh = if plan.mesh { ", full mesh" } else { "" };
    let family = if plan.is_v4() { "IPv4" } else { "IPv6" };
    let ended = if report.interrupted { ", interrupted: tests are missing" } else { "" };
    format!(
        "{}{mesh}, {family} UDP, {} flow{}{}, {} trials{ended}",
        devices.join(arrow),
        plan.flows,
        if plan.flows == 1 { "" } else { "s" },
        if plan.mesh { " for each pair" } else { "" },
        report.trials.len()
    )
}

/// The facts of a run beside its results.
pub(super) fn facts(report: &Report) -> Vec<(&'static str, String)> {
    let plan = &report.plan;
    let line = if plan.line > 0 {
        crate::pktgen::show::scaled(super::float(plan.line), "bit/s")
    } else {
        "not known".to_owned()
    };
    vec![
        ("device under test", plan.dut.clone()),
        ("date", format!("{} to {}", show::date(report.begun_s), show::date(report.ended_s))),
        (
            "tester",
            format!(
                "pantala {}, {}, {} ({} CPUs)",
                report.pantala, report.machine.kernel, report.machine.processor, report.machine.cpus
            ),
        ),
        (
            "addresses",
            plan.ends
                .iter()
                .map(|end| format!("{} by {}", end.addr, end.gateway))
                .collect::<Vec<_>>()
                .join(", "),
        ),
        ("line", line),
        (
            "trial",
            format!(
                "{}, resolution {} %, loss tolerance {} %",
                show::seconds(plan.trial_ms),
                f64::from(plan.resolution) / 1000.0,
                f64::from(plan.loss_tolerance) / 1000.0
            ),
        ),
    ]
}

/// A table of the report: title, note, column heads, rows.
pub(super) struct Table {
    /// The test whose plots stand before it.
    pub(super) test: Option<Test>,
    pub(super) title: &'static str,
    pub(super) note: String,
    pub(super) heads: Vec<&'static str>,
    pub(super) rows: Vec<Vec<String>>,
}

fn tables(report: &Report, text: &mut String) {
    for table in all(report) {
        let _ = writeln!(text, "### {}\n\n{}\n", table.title, table.note);
        text.push_str(&aligned(&table));
        text.push('\n');
    }
}

/// A Markdown table whose columns are as wide as their longest cell, so that it is a table on a terminal, too.
fn aligned(table: &Table) -> String {
    let width = |at: usize| {
        let cells = table.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
        cells.chain(table.heads.get(at).map(|head| head.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..table.heads.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells = cells.zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect::<Vec<_>>();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut text = line(&mut table.heads.iter().copied());
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(width + 1) + ":").collect();
    let _ = writeln!(text, "|{}|", rule.join("|"));
    for row in &table.rows {
        text += &line(&mut row.iter().map(String::as_str));
    }
    text
}

/// All tables that there are results for.
pub(super) fn all(report: &Report) -> Vec<Table> {
    let with = |test: Test| report.plan.has(test);
    let tables = [
        with(Test::Throughput).then(|| throughput(report)),
        with(Test::Latency).then(|| latency(report)),
        report.plan.mesh.then(|| mesh(report)),
        with(Test::Loss).then(|| loss(report)),
        with(Test::BackToBack).then(|| back_to_back(report)),
        with(Test::Recovery).then(|| recovery(report)),
        with(Test::Reset).then(|| reset(report)),
    ];
    tables.into_iter().flatten().filter(|table| !table.rows.is_empty()).collect()
}

fn rows(report: &Report, of: impl Fn(&SizeResult) -> Vec<Vec<String>>) -> Vec<Vec<String>> {
    report.sizes.iter().flat_map(of).collect()
}

fn throughput(report: &Report) -> Table {
    let row = |result: &SizeResult| -> Option<Vec<String>> {
        let found = result.throughput?;
        let line = report.plan.line_rate(result.size).map(|line| show::percent(found.rate, line));
        let limit = match found.limit {
            _ if found.rate == 0 => "nothing passes",
            Limit::Device => "the device",
            Limit::Tester => "the tester",
            Limit::Top if report.plan.max_rate.is_some() => "the highest rate asked for",
            Limit::Top => "the line",
        };
        Some(vec![
            result.size.to_string(),
            show::rate(found.rate),
            show::bits(found.rate, result.size),
            line.unwrap_or_else(|| "–".to_owned()),
            show::rate(result.top),
            found.trials.to_string(),
            limit.to_owned(),
        ])
    };
    let ways = match report.plan.senders() {
        1 => "",
        _ if report.plan.mesh => {
            " Rates are of each port, which sends to all others in turn (RFC 2889 §5.1)."
        }
        _ => " Rates are of each of the two directions, loaded at once.",
    };
    Table {
        test: Some(Test::Throughput),
        title: "Throughput",
        note: format!(
            "The highest rate at which no more than {} % of the frames were lost (RFC 2544 §26.1).{ways}",
            f64::from(report.plan.loss_tolerance) / 1000.0
        ),
        heads: vec![
            "bytes",
            "throughput",
            "of frames",
            "of the line",
            "highest tried",
            "trials",
            "limited by",
        ],
        rows: rows(report, |result| row(result).into_iter().collect()),
    }
}

fn latency(report: &Report) -> Table {
    let row = |result: &SizeResult| {
        let rate = result.throughput.map_or(0, |found| found.rate);
        let mut all = Vec::new();
        for (number, run) in (1..).zip(&result.latency) {
            for (at, latency) in run.directions.iter().enumerate() {
                let repeat = match report.plan.senders() {
                    1 => number.to_string(),
                    _ if report.plan.mesh => format!("{number} from {}", report.plan.ends[at].device),
                    _ => format!("{number} {}", ["▶", "◀"][at.min(1)]),
                };
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "nanoseconds")]
                let mean = latency.mean as u64;
                let times = [latency.min, latency.p50, mean, latency.p99, latency.max].map(time);
                let head = [result.size.to_string(), show::rate(rate), repeat];
                all.push(head.into_iter().chain(times).chain([run.lost.to_string()]).collect());
            }
        }
        all
    };
    Table {
        test: Some(Test::Latency),
        title: "Latency",
        note: "Of every frame of a trial at the throughput (RFC 2544 §26.2).".to_owned(),
        heads: vec!["bytes", "rate", "trial", "least", "median", "mean", "99 %", "most", "lost"],
        rows: rows(report, row),
    }
}

/// The pairs of a mesh, in the trial at the throughput that says most: that of latency, else the last one without loss.
fn mesh(report: &Report) -> Table {
    let name = |port: usize| report.plan.ends.get(port).map_or("", |end| &*end.device).to_owned();
    let of_size = |result: &SizeResult| {
        let of = |test: Test| {
            let mut trials = report.trials.iter().rev();
            trials.find(|trial| {
                let spec = &trial.spec;
                let is_steady = matches!(spec.load, Load::Steady { .. });
                let is_within = trial.outcome.is_within(report.plan.loss_tolerance);
                spec.size == result.size
                    && spec.test == test
                    && is_steady
                    && (test == Test::Latency || is_within)
            })
        };
        let mut rows = Vec::new();
        let directions =
            of(Test::Latency).or_else(|| of(Test::Throughput)).map(|trial| &trial.outcome.directions);
        for (from, counts) in directions.into_iter().flatten().enumerate() {
            for pair in &counts.pairs {
                let counts = [pair.sent, pair.received, pair.lost].map(|count| count.to_string());
                let times =
                    pair.latency_ns.map_or_else(Default::default, |all| [time(all.p50), time(all.p99)]);
                let head = [result.size.to_string(), name(from), name(pair.to)];
                rows.push(head.into_iter().chain(counts).chain(times).collect());
            }
        }
        rows
    };
    Table {
        test: None,
        title: "Between the ports",
        note: "Frames from each port to each other, in the last trial of the latency at the throughput, or of the throughput."
            .to_owned(),
        heads: vec!["bytes", "from", "to", "sent", "received", "lost", "median", "99 %"],
        rows: rows(report, of_size),
    }
}

fn loss(report: &Report) -> Table {
    let row = |result: &SizeResult| {
        let points = result.loss.iter().map(|point| {
            vec![
                result.size.to_string(),
                format!("{} %", point.percent_of_top),
                show::rate(point.offered),
                show::rate(point.forwarded),
                format!("{:.3} %", point.loss_percent),
            ]
        });
        points.collect()
    };
    Table {
        test: Some(Test::Loss),
        title: "Frame loss rate",
        note: "From the highest rate down in steps of 10 %, until two trials lose nothing (RFC 2544 §26.3)."
            .to_owned(),
        heads: vec!["bytes", "load", "offered", "forwarded", "lost"],
        rows: rows(report, row),
    }
}

fn back_to_back(report: &Report) -> Table {
    let row = |result: &SizeResult| -> Option<Vec<String>> {
        let found = result.back_to_back.as_ref()?;
        let buffer = |ms: f64| if found.is_unlimited { "–".to_owned() } else { show::ms(ms) };
        Some(vec![
            result.size.to_string(),
            show::rate(found.rate),
            if found.is_unlimited { format!("≥ {}", found.max) } else { format!("{:.0}", found.average) },
            found.min.to_string(),
            found.max.to_string(),
            format!("{:.0}", found.deviation),
            found.bursts.len().to_string(),
            buffer(found.buffer_ms),
            buffer(found.corrected_buffer_ms),
        ])
    };
    Table {
        test: Some(Test::BackToBack),
        title: "Back-to-back frames",
        note: "The longest burst at the highest rate of which nothing is lost, and the buffer that it implies: as it is, and \
               without what was forwarded in the meantime (RFC 9004). Bursts of two seconds are the longest that are tried."
            .to_owned(),
        heads: vec!["bytes", "rate", "frames", "least", "most", "deviation", "repeats", "buffer", "corrected"],
        rows: rows(report, |result| row(result).into_iter().collect()),
    }
}

fn recovery(report: &Report) -> Table {
    let row = |result: &SizeResult| {
        let found = result.recovery.iter().map(|found| {
            let time = match found {
                found if found.is_lasting => "not recovered".to_owned(),
                found if found.overload_lost == 0 => "no overload".to_owned(),
                found => show::ms(found.time_ms),
            };
            vec![
                result.size.to_string(),
                show::rate(found.overload),
                show::rate(found.reduced),
                found.overload_lost.to_string(),
                time,
            ]
        });
        found.collect()
    };
    Table {
        test: Some(Test::Recovery),
        title: "System recovery",
        note: "From the reduction of an overload (110 % of the throughput, or the highest rate) to half the throughput, to the last \
               frame that is lost (RFC 2544 §26.5)."
            .to_owned(),
        heads: vec!["bytes", "overload", "then", "lost", "recovered after"],
        rows: rows(report, row),
    }
}

fn reset(report: &Report) -> Table {
    let row = match &report.reset {
        None => None,
        Some(Reset::Skipped { why }) => {
            Some(vec!["skipped".to_owned(), why.clone(), String::new(), String::new(), String::new()])
        }
        Some(Reset::Measured { size, rate, time_ms, by_loss_ms, lost, is_back }) => Some(vec![
            size.to_string(),
            show::rate(*rate),
            if *is_back { show::ms(*time_ms) } else { "did not come back".to_owned() },
            show::ms(*by_loss_ms),
            lost.to_string(),
        ]),
    };
    Table {
        test: Some(Test::Reset),
        title: "Reset",
        note: "From the last frame before a reset to the first after it, by time stamps and by the number of frames lost \
               (RFC 2544 §26.6, RFC 6201)."
            .to_owned(),
        heads: vec!["bytes", "rate", "by time stamps", "by loss", "lost"],
        rows: row.into_iter().collect(),
    }
}
