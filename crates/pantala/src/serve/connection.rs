//! The state of one connection.

use core::ops::Range;
use std::fs::File;
use std::sync::Arc;

use net::tcp;
use net::time::{Duration, Instant};

use super::budget::{Client, Pace};
use super::file_reader::{FIRST, PIECE, PIECE_LEAST, Page, Ticket};
use super::request::Request;
use super::response::{HEAD_USUAL, Head};

/// Records of answers that are kept: more are seldom on their way at once, and each is half a kilobyte.
const SPARE_MAX: usize = 1024;

/// A connection.
pub(super) struct HttpConn {
    pub(super) id: tcp::Id,
    pub(super) stage: Stage,
    /// When it is given up, if nothing happens.
    pub(super) deadline: Instant,
    /// Questions to the library so far, of this and of those that had its place.
    pub(super) serial: u32,
    pub(super) client: Client,
    /// Bytes that it counts for in the budget.
    pub(super) charged: u64,
    /// Something was sent since the budget was looked at.
    pub(super) has_moved: bool,
    /// Bytes that were given to TCP.
    pub(super) sent: u64,
    pub(super) pace: Pace,
}

impl HttpConn {
    /// Bytes that it holds besides TCP's. What several hold, each holds a part of.
    pub(super) fn held(&self) -> u64 {
        match &self.stage {
            Stage::Sends(sending) => sending.held(),
            Stage::Asks(asking) => match &**asking {
                Asking::Piece(sending) => sending.piece,
                Asking::Page(_) => 0,
            },
            Stage::Reads { .. } | Stage::Ends => 0,
        }
    }
}

pub(super) enum Stage {
    /// Waits for a head; whether a part of it has come.
    Reads { has_begun: bool },
    /// Waits for the library.
    Asks(Box<Asking>),
    /// An answer is on its way.
    Sends(Box<Sending>),
    /// All is sent. The other end may still send, and must not be reset before it has read.
    Ends,
}

/// The pending request to the file thread.
pub(super) enum Asking {
    /// A page.
    Page(Request),
    /// The next piece of a file that is being sent.
    Piece(Box<Sending>),
}

/// An answer.
#[derive(Default)]
pub(super) struct Sending {
    pub(super) head: String,
    /// Bytes of the head that are sent.
    pub(super) head_sent: usize,
    pub(super) bytes: Option<Arc<[u8]>>,
    /// Which of these bytes are still to be sent.
    pub(super) left: Range<usize>,
    /// The part that follows.
    pub(super) rest: Option<(Arc<File>, Range<u64>)>,
    /// Whether the connection is kept.
    pub(super) keeps: bool,
    /// Bytes of the last piece, or of the one that was asked for.
    piece: u64,
    /// When its reader could begin to take it.
    pub(super) since: Option<Instant>,
}

/// A reader that takes a piece within this time gets more at once.
const QUICK: Duration = Duration::from_millis(250);

impl Sending {
    /// Begins an answer: a head, and `range` of a page. What was sent by this before is sent.
    pub(super) fn begin(&mut self, head: &Head<'_>, page: &Page, range: Range<u64>) {
        head.put(&mut self.head);
        let first = page.first.len() as u64;
        let clamped = |at: u64| usize::try_from(at.min(first)).unwrap_or(0);
        let left = clamped(range.start)..clamped(range.end);
        let behind = range.start.max(first)..range.end;
        self.rest = page.file.clone().filter(|_| behind.start < behind.end).map(|file| (file, behind));
        self.bytes = Some(Arc::clone(&page.first));
        (self.head_sent, self.left, self.keeps, self.piece) = (0, left, head.keeps, FIRST);
    }

    /// Bytes of the next piece, which is asked for when the last is taken: twice as many for a quick reader, half of them for a
    /// slow one, as few as may be where memory is short. Those of the last are let go.
    pub(super) fn next_piece(&mut self, now: Instant, is_tight: bool) -> u64 {
        let is_quick = self.since.is_some_and(|since| now.since(since) < QUICK);
        self.piece = match (is_tight, is_quick) {
            (true, _) => PIECE_LEAST,
            (false, true) => (self.piece * 2).min(PIECE),
            (false, false) => (self.piece / 2).max(PIECE_LEAST),
        };
        self.bytes = None;
        self.piece
    }

    fn held(&self) -> u64 {
        self.bytes.as_ref().map_or(0, |bytes| (bytes.len() / Arc::strong_count(bytes).max(1)) as u64)
    }

    /// Returns the bytes to be sent next; none if the rest has to be read first, or all is sent.
    pub(super) fn next(&self) -> &[u8] {
        match self.head.as_bytes().get(self.head_sent..) {
            Some(head @ [_, ..]) => head,
            _ => self.bytes.as_ref().and_then(|bytes| bytes.get(self.left.clone())).unwrap_or_default(),
        }
    }

    /// Advances by a number of sent bytes of [`Self::next`].
    pub(super) fn advance(&mut self, count: usize) {
        if self.head_sent < self.head.len() {
            self.head_sent += count;
        } else {
            self.left.start += count;
        }
    }

    /// A piece of the rest has been read; false if there is none, though there should be.
    pub(super) fn refill(&mut self, piece: Arc<[u8]>) -> bool {
        let Some((file, rest)) = self.rest.take() else { return false };
        let len = (piece.len() as u64).min(rest.end - rest.start);
        self.left = 0..usize::try_from(len).unwrap_or(0);
        self.bytes = Some(piece);
        let behind = rest.start + len..rest.end;
        if behind.start < behind.end {
            self.rest = Some((file, behind));
        }
        len > 0
    }
}

/// Records of answers that are sent, for those that follow: their memory is asked for once.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "connections hold them boxed, and what is moved is the box")]
pub(super) struct Spare(Vec<Box<Sending>>);

impl Spare {
    pub(super) fn take(&mut self) -> Box<Sending> {
        self.0.pop().unwrap_or_default()
    }

    /// Keeps one, if there are not enough. It holds no file any more.
    pub(super) fn give(&mut self, mut sending: Box<Sending>) {
        if self.0.len() < SPARE_MAX {
            (sending.bytes, sending.rest) = (None, None);
            sending.head.shrink_to(HEAD_USUAL);
            self.0.push(sending);
        }
    }
}

/// The connections of a CPU, by number. Numbers are used again.
#[derive(Default)]
pub(super) struct HttpConns {
    places: Vec<Place>,
    free: Vec<u32>,
}

struct Place {
    visit: Option<HttpConn>,
    /// [`HttpConn::serial`] of the last user of this place.
    serial: u32,
}

impl HttpConns {
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Numbers are below this.
    pub(super) fn end(&self) -> usize {
        self.places.len()
    }

    pub(super) fn add(&mut self, id: tcp::Id, client: Client, now: Instant, deadline: Instant) -> u32 {
        let key = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { visit: None, serial: 0 });
            u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
        });
        if let Some(place) = self.places.get_mut(key as usize) {
            let serial = place.serial;
            place.visit = Some(HttpConn {
                id,
                stage: Stage::Reads { has_begun: false },
                deadline,
                serial,
                client,
                charged: 0,
                has_moved: false,
                sent: 0,
                pace: Pace::new(0, now),
            });
        }
        key
    }

    pub(super) fn get_mut(&mut self, key: u32) -> Option<&mut HttpConn> {
        self.places.get_mut(key as usize)?.visit.as_mut()
    }

    pub(super) fn remove(&mut self, key: u32) {
        if let Some(place) = self.places.get_mut(key as usize)
            && let Some(visit) = place.visit.take()
        {
            place.serial = visit.serial;
            self.free.push(key);
        }
    }

    /// The connection that an answer is for, if it still waits for it.
    pub(super) fn waiting(&mut self, ticket: Ticket) -> Option<(tcp::Id, Asking)> {
        let visit = self.get_mut(ticket.key).filter(|visit| visit.serial == ticket.serial)?;
        match core::mem::replace(&mut visit.stage, Stage::Ends) {
            Stage::Asks(asking) => Some((visit.id, *asking)),
            other => {
                visit.stage = other;
                None
            }
        }
    }
}
