//! The screen.

use std::collections::{HashMap, VecDeque};

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table, Widget, Wrap};

use super::panes::{self, Column, Grid};
use super::sample::ROWS_MAX;
use super::view::{Pane, View};
use crate::api::rates::Rates;

/// Readings that the history of an interface keeps.
const HISTORY: usize = 8;
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const KEYS: &str = "1-6 pane  ↑↓ scroll  <> sort  r reverse  b bytes  +- delay  space pause  h help";

/// The last rates, and the history of interfaces.
#[derive(Default)]
pub(super) struct Screen {
    rates: Rates,
    history: HashMap<String, VecDeque<[f64; 2]>>,
    /// Why the stack does not answer at the moment.
    trouble: Option<String>,
}

impl Screen {
    /// Takes the rates of a new reading.
    pub(super) fn take(&mut self, rates: Rates) {
        self.history.retain(|name, _| rates.interfaces.iter().any(|row| row.name == *name));
        for row in &rates.interfaces {
            let history = self.history.entry(row.name.clone()).or_default();
            if history.len() == HISTORY {
                history.pop_front();
            }
            history.push_back([row.rx_bytes, row.tx_bytes]);
        }
        (self.rates, self.trouble) = (rates, None);
    }

    /// Notes that there was no reading, and why.
    pub(super) fn fail(&mut self, why: String) {
        self.trouble = Some(why);
    }

    pub(super) fn rates(&self) -> &Rates {
        &self.rates
    }

    /// The pane's table.
    pub(super) fn grid(&self, view: &View) -> Grid {
        panes::grid(&self.rates, view, &|name, rx| self.sparkline(name, rx))
    }

    /// Draws the screen as text.
    pub(super) fn text(&self, view: &View, columns: u16, lines: u16) -> String {
        let area = Rect::new(0, 0, columns, lines);
        let mut buffer = Buffer::empty(area);
        self.draw(view, area, &mut buffer);
        let line = |y| (0..columns).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..lines).map(|y| line(y).trim_end().to_owned() + "\n").collect()
    }

    /// Draws the screen.
    pub(super) fn draw(&self, view: &View, area: Rect, buffer: &mut Buffer) {
        let [head, body, foot] =
            Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)]).areas(area);
        Line::from(self.head(view)).bold().render(head, buffer);
        match (&self.trouble, view.help, view.pane) {
            (Some(trouble), ..) => {
                Paragraph::new(trouble.as_str()).wrap(Wrap { trim: true }).red().render(body, buffer)
            }
            (None, true, pane) => {
                Paragraph::new(Text::from(help(pane))).wrap(Wrap { trim: true }).render(body, buffer)
            }
            (None, false, Pane::Overview) => self.overview(view, body, buffer),
            (None, false, _) => table(&self.grid(view), view.scroll, body, buffer),
        }
        Line::from(KEYS).style(Modifier::DIM).render(foot, buffer);
    }

    fn head(&self, view: &View) -> String {
        let Rates { version, pid, cpus, cut, .. } = &self.rates;
        let plural = if cpus.len() == 1 { "" } else { "s" };
        let paused = if view.paused { "  PAUSED" } else { "" };
        let cut = if *cut { format!("  first {ROWS_MAX} rows") } else { String::new() };
        let delay = view.delay.as_secs_f64();
        let (pane, count) = (view.pane.name(), cpus.len());
        format!("pantala {version}  pid {pid}  {count} CPU{plural}  every {delay} s  [{pane}]{cut}{paused}")
    }

    fn overview(&self, view: &View, area: Rect, buffer: &mut Buffer) {
        let cpus = panes::cpus(&self.rates);
        let interfaces = self.grid(view);
        let third = area.height / 3;
        let cpu_lines = lines(&cpus).min(third.max(2));
        let interface_lines = lines(&interfaces).min(third.max(2));
        let parts = [Constraint::Length(cpu_lines), Constraint::Length(interface_lines), Constraint::Fill(1)];
        let [first, second, third] = Layout::vertical(parts).spacing(1).areas(area);
        table(&cpus, 0, first, buffer);
        table(&interfaces, view.scroll, second, buffer);
        table(&panes::drops(&self.rates), 0, third, buffer);
    }

    /// The last readings of an interface, the highest one as a full block.
    fn sparkline(&self, name: &str, rx: bool) -> String {
        let Some(history) = self.history.get(name) else { return String::new() };
        let values: Vec<f64> =
            history.iter().map(|[received, sent]| if rx { *received } else { *sent }).collect();
        let highest = values.iter().copied().fold(0.0, f64::max);
        values.iter().map(|value| level(*value, highest)).collect()
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 7")]
fn level(value: f64, highest: f64) -> char {
    if highest <= 0.0 { LEVELS[0] } else { LEVELS[((value / highest * 7.0).round() as usize).min(7)] }
}

/// Lines of a table with its heading.
fn lines(grid: &Grid) -> u16 {
    u16::try_from(grid.rows.len().max(1) + 1).unwrap_or(u16::MAX)
}

fn table(grid: &Grid, scroll: usize, area: Rect, buffer: &mut Buffer) {
    let widths = grid.columns.iter().map(|column| match column.width {
        0 => Constraint::Fill(1),
        width => Constraint::Length(width),
    });
    let head = grid.columns.iter().enumerate().map(|(at, column)| {
        let style =
            if grid.sorted_by == Some(at) { Style::new().bold().reversed() } else { Style::new().bold() };
        cell(column, column.head).style(style)
    });
    let room = usize::from(area.height.saturating_sub(1));
    let rows = grid.rows.iter().zip(&grid.alarming).skip(scroll).take(room).map(|(cells, alarming)| {
        let cells = grid.columns.iter().zip(cells).map(|(column, text)| cell(column, text));
        Row::new(cells).style(if *alarming { Style::new().red() } else { Style::new() })
    });
    Table::new(rows, widths).header(Row::new(head)).render(area, buffer);
    if grid.rows.is_empty() && area.height > 1 {
        let below = Rect { y: area.y + 1, height: 1, ..area };
        Line::from(grid.empty).style(Modifier::DIM).render(below, buffer);
    }
}

fn cell<'a>(column: &Column, text: &'a str) -> Cell<'a> {
    let line = Line::from(text);
    Cell::from(if column.number { line.right_aligned() } else { line })
}

fn help(pane: Pane) -> &'static str {
    match pane {
        Pane::Overview => {
            "CPUs: share of the time in turns that found work, packets taken from rings and other CPUs,\n\
             packets in each such turn, packets handed over from and to other CPUs, free buffers.\n\n\
             Interfaces: rates and their last 8 readings, frames lost, packets in output queues.\n\n\
             Drops: the reasons for which packets were dropped, those that happen now first and in red."
        }
        Pane::Interfaces => {
            "Rates in and out with their last 8 readings; lost: errors and drops of the device and of\n\
             the output queue; queued: packets in the output queues now. Red: down, or losing frames."
        }
        Pane::Drops => {
            "Each reason for which a packet was dropped since the start: now, in total, and its meaning.\n\
             `pantala netstat -s` has the same numbers, docs/reference/COUNTERS.md all reasons."
        }
        Pane::Flows => {
            "Flows that the firewall has a state of, both directions together. Flows without a state\n\
             are counted by interfaces and rules alone."
        }
        Pane::Rules => {
            "Rules in the order of what they match now. Red: rules that deny and match packets now."
        }
        Pane::Connections => {
            "TCP connections of this host: bytes received in order and acknowledged by the peer,\n\
             smoothed round-trip time, congestion window, retransmitted segments, owning CPU."
        }
    }
}
