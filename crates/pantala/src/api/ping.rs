//! A running ping: sends requests at their times and reports results, until it is done or its reader is gone.

use core::convert::Infallible;
use core::pin::Pin;
use core::sync::atomic::{AtomicU16, Ordering};
use core::task::{Context, Poll};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use hyper::body::{Body, Bytes, Frame};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::server::SharedStack;
use super::stack::{Echo, EchoAnswer, EchoAnswerKind};
use super::types::{Error, ErrorKind, PingEvent, PingRequest};

/// Number of pings that run at once.
const MOST_PINGS: usize = 16;
/// Events that wait for a slow reader; then the ping waits.
const EVENTS_HELD: usize = 64;
/// Answers that wait for the ping; more are lost, like packets.
const ANSWERS_HELD: usize = 256;
/// Number of requests for which a duplicate reply is recognised.
const ANSWERS_REMEMBERED: usize = 1024;
/// The largest datagram is 65535 bytes; less the headers.
const BYTES_MAX: u16 = 65_507;

/// All running pings.
#[derive(Debug)]
pub(crate) struct Pings {
    free: Arc<Semaphore>,
    ident: AtomicU16,
}

impl Default for Pings {
    fn default() -> Self {
        Self { free: Arc::new(Semaphore::new(MOST_PINGS)), ident: AtomicU16::new(1) }
    }
}

/// Starts a ping and answers its events as lines of JSON.
///
/// # Errors
/// The request makes no sense, or too many pings run.
#[expect(
    clippy::significant_drop_tightening,
    reason = "the permit moves into the task and is held as long as it runs"
)]
pub(crate) fn start(stack: SharedStack, request: PingRequest) -> Result<Lines, Error> {
    check(&request)?;
    let busy =
        || Error::new(ErrorKind::Busy, format!("{MOST_PINGS} pings are running")).hint("try again later");
    let permit = Arc::clone(&stack.pings.free).try_acquire_owned().map_err(|_| busy())?;
    let ident = stack.pings.ident.fetch_add(1, Ordering::Relaxed);
    let (events, lines) = mpsc::channel(EVENTS_HELD);
    let answered = VecDeque::new();
    let ping = Ping { stack, request, ident, events, sent: 0, settled: 0, answered, _permit: permit };
    tokio::spawn(ping.run());
    Ok(Lines(lines))
}

fn check(request: &PingRequest) -> Result<(), Error> {
    let wrong = |what: &str| Err(Error::new(ErrorKind::Invalid, what));
    if request.interval_ms == 0 || request.count == Some(0) {
        return wrong("interval and count must not be 0");
    }
    if request.bytes > BYTES_MAX {
        return wrong("more than 65507 bytes of data do not fit a packet");
    }
    if request.source.is_some_and(|source| source.is_ipv4() != request.to.is_ipv4()) {
        return wrong("source and destination are not of one family");
    }
    Ok(())
}

struct Ping {
    stack: SharedStack,
    request: PingRequest,
    ident: u16,
    events: mpsc::Sender<PingEvent>,
    /// Requests sent, or tried to send.
    sent: u32,
    /// Requests of which nothing more is expected.
    settled: u32,
    /// The latest requests that were answered.
    answered: VecDeque<u32>,
    /// Its place among the pings that may run at once.
    _permit: OwnedSemaphorePermit,
}

/// The reader has gone.
struct Gone;

impl Ping {
    async fn run(mut self) {
        // Gone means that the reader has closed.
        if self.whole().await.is_ok() {
            let _ = self.events.send(PingEvent::Done).await;
        }
    }

    async fn whole(&mut self) -> Result<(), Gone> {
        let (tell, mut answers) = mpsc::channel(ANSWERS_HELD);
        let mut ticks = interval(Duration::from_millis(self.request.interval_ms.into()));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut end = Instant::now();
        let events = self.events.clone();
        loop {
            if self.all_sent() && self.settled >= self.sent {
                return Ok(());
            }
            tokio::select! {
                biased;
                () = events.closed() => return Err(Gone),
                Some(answer) = answers.recv() => self.answer(answer).await?,
                _ = ticks.tick(), if !self.all_sent() => {
                    self.send(tell.clone()).await?;
                    end = Instant::now() + self.timeout();
                }
                () = sleep_until(end), if self.all_sent() => return Ok(()),
            }
        }
    }

    fn all_sent(&self) -> bool {
        self.request.count.is_some_and(|count| self.sent >= count)
    }

    fn timeout(&self) -> Duration {
        Duration::from_millis(self.request.timeout_ms.into())
    }

    async fn send(&mut self, answers: mpsc::Sender<EchoAnswer>) -> Result<(), Gone> {
        let (request, seq) = (&self.request, self.sent);
        let echo = Echo {
            fib: request.fib,
            to: request.to,
            source: request.source,
            ident: self.ident,
            seq,
            bytes: request.bytes,
            ttl: request.ttl,
            dont_fragment: request.dont_fragment,
            timeout: self.timeout(),
        };
        let sent = self.stack.stack().echo(&echo, answers);
        self.sent = seq.saturating_add(1);
        match sent {
            Ok(()) => self.tell(PingEvent::Sent { seq }).await,
            Err(error) => {
                self.settled += 1;
                self.tell(PingEvent::Failed { seq, error: error.error }).await
            }
        }
    }

    async fn answer(&mut self, answer: EchoAnswer) -> Result<(), Gone> {
        let EchoAnswer { seq, from, kind } = answer;
        let duplicate = self.answered.contains(&seq);
        if !duplicate {
            self.remember(seq);
        }
        self.tell(match kind {
            EchoAnswerKind::Unreachable(what) => PingEvent::Unreachable { seq, from, what },
            EchoAnswerKind::Reply { bytes, ttl, rtt } => {
                let rtt_ns = u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX);
                PingEvent::Reply { seq, from, bytes, ttl, rtt_ns, duplicate }
            }
        })
        .await
    }

    fn remember(&mut self, seq: u32) {
        self.settled += 1;
        self.answered.push_back(seq);
        if self.answered.len() > ANSWERS_REMEMBERED {
            self.answered.pop_front();
        }
    }

    async fn tell(&self, event: PingEvent) -> Result<(), Gone> {
        self.events.send(event).await.map_err(|_| Gone)
    }
}

/// Events as an HTTP body, one JSON value a line.
pub(crate) struct Lines(mpsc::Receiver<PingEvent>);

impl Body for Lines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(line(&event)))))
    }
}

fn line(event: &PingEvent) -> Bytes {
    let mut line = serde_json::to_vec(event).unwrap_or_default();
    line.push(b'\n');
    line.into()
}
