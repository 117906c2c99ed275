//! The pane, the sort column, and the keys that change them.

use core::time::Duration;

const DELAY_MIN: Duration = Duration::from_millis(100);
const DELAY_MAX: Duration = Duration::from_secs(60);

/// A pane of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Pane {
    /// CPUs, interfaces and drops
    Overview,
    /// Interfaces
    Interfaces,
    /// Drops by reason
    Drops,
    /// Flows that the firewall keeps a state of
    Flows,
    /// Rules of the firewall
    Rules,
    /// TCP connections of this host
    Connections,
}

impl Pane {
    pub(super) const ALL: [Self; 6] =
        [Self::Overview, Self::Interfaces, Self::Drops, Self::Flows, Self::Rules, Self::Connections];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Overview => "overview",
            Self::Interfaces => "interfaces",
            Self::Drops => "drops",
            Self::Flows => "flows",
            Self::Rules => "rules",
            Self::Connections => "connections",
        }
    }

    fn next(self) -> Self {
        let at = Self::ALL.iter().position(|pane| *pane == self).unwrap_or_default();
        Self::ALL[(at + 1) % Self::ALL.len()]
    }
}

/// A key, as far as it means something here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Tab,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    Escape,
}

/// The state of the screen: pane, order, interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View {
    pub(super) pane: Pane,
    pub(super) delay: Duration,
    /// The first row that is shown.
    pub(super) scroll: usize,
    /// Position among the columns that can be sorted by.
    pub(super) sort: usize,
    pub(super) reverse: bool,
    pub(super) bytes: bool,
    pub(super) paused: bool,
    pub(super) help: bool,
    pub(super) ended: bool,
}

impl View {
    pub(super) const fn new(pane: Pane, delay: Duration) -> Self {
        let (scroll, sort) = (0, 0);
        Self {
            pane,
            delay,
            scroll,
            sort,
            reverse: false,
            bytes: false,
            paused: false,
            help: false,
            ended: false,
        }
    }

    /// Does what a key asks for. `columns` can be sorted by, and there are `rows`.
    pub(super) fn press(&mut self, key: Key, columns: usize, rows: usize) {
        const PAGE: usize = 10;
        let last = rows.saturating_sub(1);
        match key {
            Key::Char('q') => self.ended = true,
            Key::Escape if !self.help => self.ended = true,
            Key::Escape => self.help = false,
            Key::Char('h' | '?') => self.help = !self.help,
            Key::Char(' ' | 'p') => self.paused = !self.paused,
            Key::Char('b') => self.bytes = !self.bytes,
            Key::Char('r') => self.reverse = !self.reverse,
            Key::Char('<') => {
                self.sort = self.sort.checked_sub(1).unwrap_or_else(|| columns.saturating_sub(1))
            }
            Key::Char('>') => self.sort = (self.sort + 1) % columns.max(1),
            Key::Char('+') => self.delay = (self.delay * 2).min(DELAY_MAX),
            Key::Char('-') => self.delay = (self.delay / 2).max(DELAY_MIN),
            Key::Char(digit @ '1'..='6') => self.show(Pane::ALL[digit as usize - '1' as usize]),
            Key::Tab => self.show(self.pane.next()),
            Key::Up => self.scroll = self.scroll.saturating_sub(1),
            Key::PageUp => self.scroll = self.scroll.saturating_sub(PAGE),
            Key::Down => self.scroll = (self.scroll + 1).min(last),
            Key::PageDown => self.scroll = (self.scroll + PAGE).min(last),
            Key::Home => self.scroll = 0,
            Key::Char(_) => {}
        }
    }

    fn show(&mut self, pane: Pane) {
        (self.pane, self.scroll, self.sort, self.reverse) = (pane, 0, 0, false);
    }
}
