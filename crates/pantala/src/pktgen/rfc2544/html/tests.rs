use super::*;
use crate::pktgen::rfc2544::args::Args;
use crate::pktgen::rfc2544::plan::Plan;
use crate::pktgen::rfc2544::record::{
    BackToBack, Counts, Course, LatencyRun, Limit, LossPoint, Machine, Outcome, Recovery, Reset, Spec,
    Throughput,
};

/// A report with all results, of a device with an unfriendly name.
fn report() -> Report {
    let words = "tap:a tap:b --line 1gbit --name <script>&".split(' ').collect::<Vec<_>>();
    let plan = Plan::new(Args::read(&words).unwrap()).unwrap();
    let course = Course {
        part_ms: 10.0,
        sent: vec![10; 20],
        received: vec![8; 20],
        reset_ms: Some(50.0),
        ..Course::default()
    };
    let counts = Counts { sent: 200, received: 160, lost: 40, course: Some(course), ..Counts::default() };
    let trial = |test, load| Trial {
        spec: Spec { test, size: 64, repeat: 0, load },
        outcome: Outcome { directions: vec![counts.clone()] },
    };
    let sizes = plan.sizes.iter().map(|size| result(&plan, *size));
    Report {
        pantala: "0".into(),
        sizes: sizes.collect(),
        plan,
        begun_s: 0,
        ended_s: 60,
        interrupted: false,
        machine: Machine::default(),
        reset: Some(Reset::Measured {
            size: 64,
            rate: 1,
            time_ms: 250.0,
            by_loss_ms: 240.0,
            lost: 3,
            is_back: true,
        }),
        trials: vec![
            trial(Test::Recovery, Load::Steps { first: 2, then: 1, time_ms: 100 }),
            trial(Test::Reset, Load::Reset { rate: 2, at_ms: 50, time_ms: 200 }),
        ],
    }
}

/// All results of a size.
fn result(plan: &Plan, size: u16) -> SizeResult {
    let latency = crate::api::Latency {
        min: 900,
        mean: 2e4,
        p50: 15_000,
        p90: 30_000,
        p99: 80_000,
        p999: 90_000,
        max: 2_000_000,
    };
    SizeResult {
        size,
        top: plan.line_rate(size).unwrap(),
        top_is_given: true,
        throughput: Some(Throughput { rate: 700_000_000, limit: Limit::Device, trials: 9 }),
        latency: vec![LatencyRun { lost: 0, directions: vec![latency] }],
        loss: vec![LossPoint {
            percent_of_top: 100,
            intended: 1,
            offered: 1,
            forwarded: 1,
            loss_percent: 12.5,
        }],
        back_to_back: Some(BackToBack {
            rate: 1,
            bursts: vec![1000],
            average: 1000.0,
            min: 1000,
            max: 1000,
            deviation: 0.0,
            is_unlimited: false,
            buffer_ms: 2.0,
            corrected_buffer_ms: 1.0,
        }),
        recovery: vec![Recovery {
            overload: 2,
            reduced: 1,
            overload_lost: 5,
            time_ms: 1.5,
            is_lasting: false,
        }],
    }
}

#[test]
fn the_page_has_a_plot_of_each_test_and_every_element_ends() {
    let page = page(&report());
    for title in
        ["Throughput", "Latency", "Frame loss rate", "Back-to-back frames", "System recovery", "Reset"]
    {
        assert!(page.contains(&format!("<h2>{title}</h2>")), "{title}");
    }
    assert_eq!(page.matches("<svg ").count(), 7);
    for name in [
        "html", "main", "section", "figure", "svg", "table", "tr", "td", "th", "text", "p", "dl", "dd",
        "details",
    ] {
        let opened = page.matches(&format!("<{name}>")).count() + page.matches(&format!("<{name} ")).count();
        assert_eq!(opened, page.matches(&format!("</{name}>")).count(), "{name}");
    }
    assert!(!page.contains("NaN") && !page.contains("inf\""));
}

#[test]
fn the_page_needs_nothing_else_and_names_are_only_text() {
    let page = page(&report());
    for foreign in ["<script", "http:", "https:", "url(", "@import", "<link", "<img"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert!(page.contains("&lt;script&gt;&amp;") && page.contains("prefers-color-scheme: dark"));
}

#[test]
fn a_report_is_read_as_it_was_written() {
    let report = report();
    assert_eq!(serde_json::from_str::<Report>(&serde_json::to_string(&report).unwrap()).unwrap(), report);
    let markdown = markdown::report(&report);
    for part in ["# RFC 2544: <script>&", "| 700.00 kpps |", "| the device |", "250.0 ms"] {
        assert!(markdown.contains(part), "{part}: {markdown}");
    }
}
