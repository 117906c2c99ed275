use core::time::Duration;

use super::draw::Screen;
use super::panes;
use super::view::{Key, Pane, View};
use crate::api::rates::{CpuRates, DropRates, FlowRates, InterfaceRates, Rates, RuleRates};

fn view(pane: Pane) -> View {
    View::new(pane, Duration::from_secs(1))
}

fn cpu(cpu: u32, busy_percent: f64) -> CpuRates {
    CpuRates {
        cpu,
        busy_percent,
        packets: 1.234e6,
        packets_per_turn: 31.5,
        buffers: 8192,
        ..CpuRates::default()
    }
}

fn interface(name: &str, rx_bytes: f64) -> InterfaceRates {
    InterfaceRates {
        name: name.into(),
        up: true,
        rx_bytes,
        rx_packets: rx_bytes / 100.0,
        ..Default::default()
    }
}

fn drops(reason: &str, packets: f64, total: u64) -> DropRates {
    DropRates {
        reason: reason.into(),
        sentence: format!("{reason} in words"),
        packets,
        total,
        ..Default::default()
    }
}

fn flow(from: &str, bytes: f64) -> FlowRates {
    let (src, dst) = (from.parse().unwrap(), "[2001:db8::2]:443".parse().unwrap());
    FlowRates { proto: 6, src, dst, cpu: 1, rule: 300, packets: 10.0, bytes, bytes_total: 5_000_000 }
}

fn loaded() -> Rates {
    Rates {
        pid: 4711,
        version: "0.1.0".into(),
        interval_s: 1.0,
        cpus: vec![cpu(0, 50.0), cpu(1, 100.0)],
        interfaces: vec![interface("lan", 1.25e8), interface("wan", 10.0)],
        drops: vec![drops("no_route", 0.0, 900), drops("tcp_bad_checksum", 12.0, 12)],
        flows: vec![flow("192.0.2.1:4000", 10.0), flow("192.0.2.1:4001", 1e6)],
        rules: vec![RuleRates {
            number: 65535,
            rule: "deny ip from any to any".into(),
            ..Default::default()
        }],
        ..Rates::default()
    }
}

fn screen(rates: Rates) -> Screen {
    let mut screen = Screen::default();
    screen.take(rates);
    screen
}

#[test]
fn the_overview_fits_80_columns_and_24_lines() {
    let text = screen(loaded()).text(&view(Pane::Overview), 80, 24);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 24);
    assert_eq!(lines[0], "pantala 0.1.0  pid 4711  2 CPUs  every 1 s  [overview]");
    assert!(lines[2].starts_with("  0 ████████░░░░░░░░   50      1.23M   31.5"), "{text}");
    assert!(text.contains("lan          1.00Gb  1.25M █"), "{text}");
    let at = |word: &str| lines.iter().position(|line| line.contains(word)).unwrap();
    assert!(at("tcp_bad_checksum") < at("no_route"), "drops that happen now come first\n{text}");
    assert!(lines[23].starts_with("1-6 pane") && lines[23].ends_with("h help"), "{text}");
}

#[test]
fn every_pane_says_what_it_means_that_it_is_empty() {
    for pane in Pane::ALL {
        let text = screen(Rates::default()).text(&view(pane), 80, 24);
        assert!(text.contains("no "), "{pane:?}:\n{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}

#[test]
fn every_pane_is_drawn_on_any_size_of_terminal() {
    let screen = screen(loaded());
    for pane in Pane::ALL {
        for (columns, lines) in [(1, 1), (10, 3), (80, 24), (300, 100)] {
            let text = screen.text(&view(pane), columns, lines);
            assert_eq!(text.lines().count(), usize::from(lines));
        }
    }
}

#[test]
fn rows_are_sorted_by_the_chosen_column_and_reversed() {
    let screen = screen(loaded());
    let mut view = view(Pane::Flows);
    let first = |view: &View| screen.grid(view).rows[0].last().unwrap().clone();
    assert!(first(&view).contains("192.0.2.1:4001 → [2001:db8::2]:443"), "{}", first(&view));
    view.press(Key::Char('r'), 3, 2);
    assert!(first(&view).contains("192.0.2.1:4000"));
}

#[test]
fn keys_choose_panes_and_stay_within_rows_and_columns() {
    let mut view = view(Pane::Overview);
    view.press(Key::Char('4'), 0, 0);
    assert_eq!(view.pane, Pane::Flows);
    view.press(Key::Char('<'), 3, 2);
    assert_eq!(view.sort, 2);
    view.press(Key::Char('>'), 3, 2);
    assert_eq!(view.sort, 0);
    for _ in 0..9 {
        view.press(Key::Down, 3, 2);
    }
    assert_eq!(view.scroll, 1);
    view.press(Key::Tab, 3, 2);
    assert_eq!((view.pane, view.scroll), (Pane::Rules, 0));
    view.press(Key::Char('h'), 3, 2);
    view.press(Key::Escape, 3, 2);
    assert!(!view.help && !view.ended, "Escape leaves the help first");
    view.press(Key::Char('q'), 3, 2);
    assert!(view.ended);
}

#[test]
fn the_interval_is_bounded() {
    let mut view = view(Pane::Overview);
    for _ in 0..20 {
        view.press(Key::Char('+'), 0, 0);
    }
    assert_eq!(view.delay, Duration::from_secs(60));
    for _ in 0..20 {
        view.press(Key::Char('-'), 0, 0);
    }
    assert_eq!(view.delay, Duration::from_millis(100));
}

#[test]
fn numbers_have_at_most_five_characters() {
    for (value, text) in [
        (0.0, "0"),
        (999.0, "999"),
        (999.6, "1.00k"),
        (9_994.0, "9.99k"),
        (12_345.0, "12.3k"),
        (999_600.0, "1.00M"),
        (1.5e9, "1.50G"),
        (7e15, "7000T"),
    ] {
        assert_eq!(panes::short(value), text);
    }
}

#[test]
fn the_history_of_an_interface_ends_with_it() {
    let mut screen = screen(loaded());
    screen.take(Rates { interfaces: vec![interface("lan", 0.0)], ..loaded() });
    let text = screen.text(&view(Pane::Interfaces), 80, 24);
    assert!(text.contains("█▁"), "{text}");
    assert!(!text.contains("wan"), "{text}");
}
