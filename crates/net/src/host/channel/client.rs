//! The program's end of a channel. It has no thread and no lock: programs with several threads add those.

use std::collections::VecDeque;

use pkt::byte_channel::{Broken, Near, Reader, Writer};

use super::bytes::{RECORD, Record};
use super::record::{Command, Event};
use crate::turn::msg::Notifier;

/// The program's end.
pub struct Client {
    /// Gone before the last knock.
    commands: Option<Writer>,
    events: Reader,
    lanes: Near,
    /// Lanes that were used and are free; those from `unused` on have not been used yet.
    free: Vec<u32>,
    unused: u32,
    /// Commands that there was no room for.
    waiting: VecDeque<Record>,
    has_news: bool,
    notifier: Option<Notifier>,
}

impl Client {
    pub(super) fn new((commands, events): (Writer, Reader), lanes: Near) -> Self {
        Self {
            commands: Some(commands),
            events,
            lanes,
            free: Vec::new(),
            unused: 0,
            waiting: VecDeque::new(),
            has_news: false,
            notifier: None,
        }
    }

    /// The other end has this notifier from now on.
    pub fn attach(&mut self, notifier: Notifier) {
        notifier.knock();
        self.notifier = Some(notifier);
    }

    /// A free lane, and both halves of its near end. The one that was used last is the first to be used again.
    pub fn take_lane(&mut self) -> Option<(Writer, Reader)> {
        if let Some(taken) = self.free.pop().and_then(|lane| self.lanes.take(lane)) {
            return Some(taken);
        }
        let taken = self.lanes.take(self.unused)?;
        self.unused += 1;
        Some(taken)
    }

    /// A lane is free, as the other end says; its halves have been dropped before that was asked for.
    pub fn free_lane(&mut self, lane: u32) {
        self.lanes.tidy(lane);
        self.free.push(lane);
    }

    /// Says something; it is heard after [`Self::publish`]. What there is no room for waits here.
    pub fn push(&mut self, command: &Command) {
        self.waiting.push_back(command.encode());
    }

    /// Lets the other end hear what was said, as much as there is room for, and knocks once.
    ///
    /// # Errors
    ///
    /// [`Broken`].
    pub fn publish(&mut self) -> Result<(), Broken> {
        let Some(commands) = &mut self.commands else { return Ok(()) };
        let mut has_news = core::mem::take(&mut self.has_news);
        while let Some(record) = self.waiting.front() {
            if commands.free()? < RECORD {
                if commands.waits()? {
                    break;
                }
                continue;
            }
            commands.write(record)?;
            self.waiting.pop_front();
            has_news = true;
        }
        // This stream has no waiting reader: the netisr is notified by a flag.
        let _ = commands.publish();
        if has_news && let Some(notifier) = &self.notifier {
            notifier.knock();
        }
        Ok(())
    }

    /// The next event.
    ///
    /// # Errors
    ///
    /// [`Broken`].
    pub fn next_event(&mut self) -> Result<Option<Event>, Broken> {
        if self.events.len()? < RECORD {
            // Read space is given back, and a writer waiting for room is told with the next commands.
            self.has_news |= self.events.release()?;
            return Ok(None);
        }
        let mut record = [0; RECORD];
        self.events.read(&mut record)?;
        Event::decode(&record).map(Some).ok_or(Broken)
    }

    /// Whether there is nothing to do: no event, and no command that there is room for. What is asked once more before
    /// sleeping.
    #[must_use]
    pub fn is_idle(&mut self) -> bool {
        let has_room =
            self.commands.as_ref().is_some_and(|commands| commands.free().is_ok_and(|free| free >= RECORD));
        let may_say = self.has_news || !self.waiting.is_empty() && has_room;
        !may_say && self.events.len().is_ok_and(|len| len < RECORD) && !self.is_over()
    }

    /// Whether the other end is gone: nothing that was begun goes on.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.events.is_abandoned()
    }

    /// Makes of it what a hostile program would have: its rings, to write what it likes to.
    #[must_use]
    pub fn dissolve(mut self) -> Option<(Writer, Notifier)> {
        Some((self.commands.take()?, self.notifier.take()?))
    }
}

/// The other end closes what was left open.
impl Drop for Client {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(notifier) = &self.notifier {
            notifier.knock();
        }
    }
}
