//! The terminal: keys in, screens out.

use core::time::Duration;
use std::io;
use std::time::Instant;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::Readings;
use super::draw::Screen;
use super::panes;
use super::view::{Key, View};
use crate::api::client::{Client, ClientError};
use crate::cli::Failure;
use crate::interrupt::Stop;

/// The longest wait for a key, so that a signal is noticed.
const WAIT_MAX: Duration = Duration::from_millis(200);

/// Draws until the user ends it, and gives the terminal back as it was.
pub(super) fn run(view: View, count: Option<u64>, client: &Client) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    // A stack that does not run is told before the screen is taken.
    let readings = Readings::begin(client, &[view.pane])?;
    let mut terminal = ratatui::try_init()?;
    let mut session = Live { view, readings: Some(readings), screen: Screen::default(), taken: 0 };
    let ended = session.run(&mut terminal, count, client, &stop);
    ratatui::try_restore()?;
    Ok(ended?)
}

struct Live {
    view: View,
    /// `None` after a reading failed.
    readings: Option<Readings>,
    screen: Screen,
    taken: u64,
}

impl Live {
    fn run(
        &mut self,
        terminal: &mut DefaultTerminal,
        count: Option<u64>,
        client: &Client,
        stop: &Stop,
    ) -> io::Result<()> {
        let mut due = Instant::now() + self.view.delay.min(Duration::from_millis(250));
        while !self.view.ended && !stop.is_set() && count.is_none_or(|count| self.taken < count) {
            terminal.draw(|frame| self.screen.draw(&self.view, frame.area(), frame.buffer_mut()))?;
            let left = due.saturating_duration_since(Instant::now());
            if event::poll(left.min(WAIT_MAX))? {
                self.handle(&event::read()?);
            } else if left.is_zero() {
                if !self.view.paused {
                    self.read(client);
                }
                due = Instant::now() + self.view.delay;
            }
        }
        Ok(())
    }

    /// Takes a reading. A stack that has gone is waited for.
    fn read(&mut self, client: &Client) {
        let panes = [self.view.pane];
        let rates: Result<_, ClientError> = match &mut self.readings {
            Some(readings) => readings.next(client, &panes).map(Some),
            None => Readings::begin(client, &panes).map(|readings| {
                self.readings = Some(readings);
                None
            }),
        };
        match rates {
            Ok(Some(rates)) => {
                self.screen.take(rates);
                self.taken += 1;
            }
            Ok(None) => {}
            Err(why) => {
                self.readings = None;
                self.screen.fail(format!("{why}\n\ntrying again every {} s", self.view.delay.as_secs_f64()));
            }
        }
    }

    fn handle(&mut self, event: &Event) {
        let Event::Key(key) = event else { return };
        let Some(key) = key_of(key) else { return };
        let columns = panes::sort_columns(self.view.pane).len();
        let rows = self.screen.grid(&self.view).rows.len();
        self.view.press(key, columns, rows);
    }
}

fn key_of(event: &KeyEvent) -> Option<Key> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    match event.code {
        // In raw mode, Ctrl-C is a key.
        KeyCode::Char('c') if event.modifiers.contains(KeyModifiers::CONTROL) => Some(Key::Char('q')),
        KeyCode::Char(char) => Some(Key::Char(char)),
        KeyCode::Tab => Some(Key::Tab),
        KeyCode::Up => Some(Key::Up),
        KeyCode::Down => Some(Key::Down),
        KeyCode::PageUp => Some(Key::PageUp),
        KeyCode::PageDown => Some(Key::PageDown),
        KeyCode::Home => Some(Key::Home),
        KeyCode::Esc => Some(Key::Escape),
        _ => None,
    }
}
