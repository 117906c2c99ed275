//! The client.

use core::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use hdrhistogram::Histogram;
use net::app::{App, AppContext, Handle};
use net::sock::Error;
use net::tcp::settings::Settings;
use net::tcp::{self, Connect, Id, IpTxParams};
use net::time::Instant;

use super::{Behind, Serves};

/// Connections that begin in a turn at the most, until there are as many as there are to be: no more than fit the ways between
/// the two.
const BEGIN_MAX: usize = 32;

/// Concurrency of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// A number at a time: one that has ended makes room for the next.
    Concurrent(usize),
    /// A number begins in each turn.
    EachTurn(usize),
}

/// Results of a client, to be taken by the benchmark.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Connections that were begun.
    pub begun: usize,
    /// Answers that came.
    pub answered: usize,
    /// Connections that ended without their answer.
    pub failed: usize,
    /// Latency of responses, in nanoseconds: from `connect`, or the request, to the turn that brought
    /// the last of it.
    pub latency: Histogram<u32>,
}

/// A client on one CPU.
pub struct Client {
    server: SocketAddr,
    addrs: Vec<IpAddr>,
    settings: Settings,
    pace: Pace,
    behind: Behind,
    /// The request.
    question: &'static [u8],
    /// After how many bytes it has its answer.
    enough: usize,
    talks: Vec<Talk>,
    free: Vec<u32>,
    seen: Seen,
    shown: Arc<Mutex<Seen>>,
}

/// A connection, and how much of its answer has come.
#[derive(Clone, Copy)]
struct Talk {
    since: Instant,
    got: usize,
}

impl Default for Seen {
    fn default() -> Self {
        // Three digits of up to a minute.
        let latency = Histogram::new_with_bounds(1, 60_000_000_000, 3);
        #[expect(clippy::expect_used, reason = "these bounds are good ones")]
        let latency = latency.expect("a histogram");
        Self { begun: 0, answered: 0, failed: 0, latency }
    }
}

impl Client {
    /// Asks `server` from these addresses in turn; what it has seen is in `shown` when it was called.
    #[must_use]
    pub fn new(
        server: SocketAddr,
        addrs: &[IpAddr],
        settings: Settings,
        (pace, behind, serves): (Pace, Behind, Serves),
        shown: Arc<Mutex<Seen>>,
    ) -> Self {
        let (talks, free) = (Vec::new(), Vec::new());
        let (addrs, seen) = (addrs.to_vec(), Seen::default());
        let (question, enough) = serves.talk(behind);
        Self { server, addrs, settings, pace, behind, question, enough, talks, free, seen, shown }
    }

    fn connect(&mut self, cx: &mut AppContext<'_>) {
        let Some(local) = self.addrs.get(self.seen.begun % self.addrs.len().max(1)).copied() else { return };
        self.seen.begun += 1;
        let &mut Self { server: remote, settings, .. } = self;
        let tx_params = IpTxParams::default();
        let connect = Connect { remote, local: Some(local), port: None, zone: 0, settings, tx_params };
        let key = self.place(cx.now());
        if cx.connect(&connect, key).is_err() {
            self.seen.failed += 1;
            self.free.push(key);
        }
    }

    /// A place for a connection that begins now.
    fn place(&mut self, since: Instant) -> u32 {
        let talk = Talk { since, got: 0 };
        match self.free.pop() {
            Some(key) => {
                self.talks[key as usize] = talk;
                key
            }
            None => {
                self.talks.push(talk);
                u32::try_from(self.talks.len() - 1).unwrap_or(u32::MAX)
            }
        }
    }

    fn ask(&mut self, cx: &mut AppContext<'_>, conn: Handle<Id>) {
        if tcp::send(cx.cpu, conn.id, self.question) != Ok(self.question.len()) {
            self.over(cx, conn);
        }
    }

    /// Takes in some or all of the response.
    fn take(&mut self, cx: &mut AppContext<'_>, conn: Handle<Id>) {
        let all = |[first, second]: [&[u8]; 2]| (first.len() + second.len(), first.len() + second.len());
        let Ok(Some(got)) = tcp::read_in_place(cx.cpu, conn.id, all) else { return self.over(cx, conn) };
        let talk = &mut self.talks[conn.key as usize];
        let before = talk.got;
        talk.got += got;
        if before >= self.enough || talk.got < self.enough {
            return;
        }
        let took = cx.now().since(talk.since).as_nanos();
        self.seen.latency.saturating_record(u64::try_from(took).unwrap_or(u64::MAX));
        self.seen.answered += 1;
        if self.behind == Behind::Ask {
            *talk = Talk { since: cx.now(), got: 0 };
            self.ask(cx, conn);
        }
    }

    /// The other end has ended the connection.
    fn over(&mut self, cx: &mut AppContext<'_>, conn: Handle<Id>) {
        // What has ended meanwhile needs no closing.
        let _ = tcp::close(cx.cpu, conn.id);
        self.seen.failed += usize::from(self.talks[conn.key as usize].got < self.enough);
        self.free.push(conn.key);
        if matches!(self.pace, Pace::Concurrent(_)) {
            self.connect(cx);
        }
    }
}

impl App for Client {
    fn begin(&mut self, cx: &mut AppContext<'_>) -> Result<(), Error> {
        cx.wake_at(cx.now());
        Ok(())
    }

    fn time(&mut self, cx: &mut AppContext<'_>) {
        let (new, is_last) = match self.pace {
            Pace::EachTurn(new) => (new, false),
            Pace::Concurrent(most) => {
                let left = most.saturating_sub(self.talks.len() - self.free.len());
                (left.min(BEGIN_MAX), left <= BEGIN_MAX)
            }
        };
        (0..new).for_each(|_| self.connect(cx));
        if !is_last {
            cx.wake_at(cx.now());
        }
    }

    fn writable(&mut self, cx: &mut AppContext<'_>, conn: Handle<Id>) {
        self.ask(cx, conn);
    }

    fn readable(&mut self, cx: &mut AppContext<'_>, conn: Handle<Id>) {
        self.take(cx, conn);
    }

    fn closed(&mut self, cx: &mut AppContext<'_>, conn: Handle<Id>, _: Option<Error>) {
        self.over(cx, conn);
    }

    fn called(&mut self, _: &mut AppContext<'_>) {
        if let Ok(mut shown) = self.shown.lock() {
            *shown = core::mem::take(&mut self.seen);
        }
    }
}
