//! `pantala top`: the running stack in a terminal, second by second.
//!
//! | module | subject |
//! |---|---|
//! | [`sample`] | a reading of the admin API |
//! | [`view`] | the pane, the sort column, and the keys that change them |
//! | [`panes`] | each pane as a table of text |
//! | [`draw`] | the screen |
//! | [`live`] | the terminal |

mod draw;
mod live;
mod panes;
mod sample;
mod view;

use core::time::Duration;
use std::time::Instant;

use crate::api::client::{Client, ClientError};
use crate::api::rates::{Rates, Sample};
use crate::cli::{Failure, Session};
use crate::interrupt::Stop;

use self::draw::Screen;
use self::view::{Pane, View};

pub(crate) const HELP: &str = "\
Keys: 1 to 6 or Tab choose the pane, Up and Down scroll, < and > choose the
sort column, r reverses the order, b switches between bits and bytes, + and -
change the interval, Space pauses, h explains the pane, q ends.

Examples:
  pantala top
  pantala top --pane drops -d 0.5
  pantala top -b -n 1
  pantala top --json -n 10 | jq .interfaces";

const DELAY_MIN_S: f64 = 0.1;
const DELAY_MAX_S: f64 = 3600.0;
/// The screen of `-b`, as terminals are at the least.
const BATCH_COLUMNS: u16 = 80;
const BATCH_LINES: u16 = 24;

/// The options of `pantala top`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// Seconds between two readings, fractions allowed
    #[arg(short, long, value_name = "SECONDS", default_value_t = 1.0)]
    delay: f64,
    /// Stop after so many readings
    #[arg(short = 'n', long, value_name = "COUNT")]
    count: Option<u64>,
    /// Print screens as text instead of drawing on the terminal
    #[arg(short, long)]
    batch: bool,
    /// The pane to begin with
    #[arg(long, value_enum, default_value_t = Pane::Overview)]
    pane: Pane,
}

impl Args {
    /// Shows the stack until the user or `-n` ends it.
    pub(crate) fn run(&self, session: &mut Session<'_>) -> Result<(), Failure> {
        if !(DELAY_MIN_S..=DELAY_MAX_S).contains(&self.delay) {
            return Err(Failure::usage("top: -d takes 0.1 to 3600 seconds"));
        }
        let view = View::new(self.pane, Duration::from_secs_f64(self.delay));
        if session.json || self.batch {
            return self.print(&view, session);
        }
        if !session.term.is_live() {
            let hint = "print text with -b, or JSON with --json";
            return Err(Failure::Failed(format!("top: standard output is not a terminal; {hint}")));
        }
        live::run(view, self.count, &session.client)
    }

    /// Prints one JSON object a line, or one screen of text, for each reading.
    fn print(&self, view: &View, session: &mut Session<'_>) -> Result<(), Failure> {
        let stop = Stop::on_signals()?;
        let panes: &[Pane] = if session.json { &Pane::ALL } else { &[view.pane] };
        let mut readings = Readings::begin(&session.client, panes)?;
        let mut screen = Screen::default();
        let mut shown = 0;
        while self.count.is_none_or(|count| shown < count) && wait(view.delay, &stop) {
            let rates = readings.next(&session.client, panes)?;
            screen.take(rates);
            let text = if session.json {
                let line = serde_json::to_string(screen.rates());
                line.map_err(|why| Failure::Failed(why.to_string()))? + "\n"
            } else {
                screen.text(view, BATCH_COLUMNS, BATCH_LINES)
            };
            session.term.show(&text)?;
            shown += 1;
        }
        Ok(())
    }
}

/// Waits for `delay`; false if the user ends the command before.
fn wait(delay: Duration, stop: &Stop) -> bool {
    const STEP: Duration = Duration::from_millis(50);
    let until = Instant::now() + delay;
    while !stop.is_set() {
        match until.checked_duration_since(Instant::now()) {
            Some(left) => std::thread::sleep(left.min(STEP)),
            None => return true,
        }
    }
    false
}

/// The last reading, from which the next one's rates are counted.
struct Readings {
    last: Sample,
}

impl Readings {
    fn begin(client: &Client, panes: &[Pane]) -> Result<Self, ClientError> {
        Ok(Self { last: sample::take(client, panes)? })
    }

    fn next(&mut self, client: &Client, panes: &[Pane]) -> Result<Rates, ClientError> {
        let now = sample::take(client, panes)?;
        let rates = Rates::between(&self.last, &now);
        self.last = now;
        Ok(rates)
    }
}

#[cfg(test)]
mod tests;
