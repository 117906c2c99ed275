//! `GET /v1/stream`: readings of the stack as server-sent events, one a second for all readers together.
//!
//! The stack is read only while there is a reader, and the text of a reading is made once. A reader that falls behind is told
//! so by the last event of its stream, and may begin another.

use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CACHE_CONTROL;
use serde::Serialize;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{MissedTickBehavior, interval};

use super::SharedStack;
use super::http::HttpEvent;
use super::requests::{Requests, about};
use super::routes::{Answer, typed};
use crate::api::parts::Parts;
use crate::api::rates::{ConnectionRates, Rates, Sample};
use crate::api::stack::Stack;
use crate::api::types::{Error, ErrorKind, Interface, Latencies, Version};

/// Readers at a time.
const READERS_MAX: usize = 16;
/// Readings that a reader may be behind; then its stream ends.
const READINGS_HELD: usize = 4;
/// Time between two readings.
const PERIOD: Duration = Duration::from_secs(1);
/// Rows that are read of states and of connections.
const ROWS_MAX: usize = 1000;
/// Rows of flows, of rules and of connections in a reading: the busiest.
const SHOWN_MAX: usize = 100;

pub(super) fn requests() -> Requests {
    let stream = about("Readings of the stack: an event `reading` a second, or `trouble` with an error");
    Requests::default().get("/v1/stream", start_stream, stream.streams::<Reading<'_>>("text/event-stream"))
}

/// The readers, and whether the stack is read for them.
#[derive(Default)]
pub(super) struct Readers(Mutex<Audience>);

#[derive(Default)]
struct Audience {
    readers: Vec<Sender<Bytes>>,
    is_read: bool,
    /// The last reading, for readers that come between two.
    last: Option<Bytes>,
}

/// A reading of the stack: rates since the reading before, and what they are of.
#[derive(Serialize, schemars::JsonSchema)]
pub(in crate::api) struct Reading<'a> {
    /// Milliseconds since 1970.
    time_ms: u64,
    #[serde(flatten)]
    rates: &'a Rates,
    /// Interfaces, with what they are connected to.
    links: Vec<Node>,
    /// States of the firewall.
    states: u64,
    /// Frames of `pantala pktgen` since the reading before, by latency, of each interface in monitor mode.
    latencies: Vec<Latencies>,
}

/// An interface in the topology.
#[derive(Serialize, schemars::JsonSchema)]
struct Node {
    /// The name of the interface.
    name: String,
    /// Its device, as in the configuration.
    device: Option<String>,
    /// Its addresses, with their prefix lengths.
    addresses: Vec<String>,
    /// The names of its ports, if it is a bridge.
    ports: Vec<String>,
}

impl Readers {
    fn locked(&self) -> MutexGuard<'_, Audience> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a reader; whether the stack is not read yet.
    fn add(&self) -> Result<(Receiver<Bytes>, bool), Error> {
        let mut state = self.locked();
        state.readers.retain(|reader| !reader.is_closed());
        if state.readers.len() >= READERS_MAX {
            let error = Error::new(ErrorKind::Busy, format!("{READERS_MAX} streams are running"));
            return Err(error.hint("close a page of the dashboard"));
        }
        // One more for the word that ends the stream.
        let (reader, readings) = channel(READINGS_HELD + 1);
        if let Some(last) = &state.last {
            // There is room in a new channel.
            let _ = reader.try_send(last.clone());
        }
        state.readers.push(reader);
        Ok((readings, !core::mem::replace(&mut state.is_read, true)))
    }

    /// Gives a reading to all readers; returns how many fell behind, whose streams end.
    fn publish(&self, reading: &Bytes) -> usize {
        let mut state = self.locked();
        let (mut slow, mut too_slow) = (0, None);
        state.readers.retain(|reader| {
            if reader.capacity() > 1 {
                return reader.try_send(reading.clone()).is_ok();
            }
            if !reader.is_closed() {
                slow += 1;
                // There is room for one.
                let _ = reader.try_send(too_slow.get_or_insert_with(too_slow_event).clone());
            }
            false
        });
        state.last = Some(reading.clone());
        slow
    }

    /// Notes that nothing is read any more if no reader is left.
    fn is_over(&self) -> bool {
        let mut state = self.locked();
        state.readers.retain(|reader| !reader.is_closed());
        if !state.readers.is_empty() {
            return false;
        }
        *state = Audience::default();
        true
    }
}

async fn start_stream(State(stack): State<SharedStack>) -> Answer {
    let (readings, is_first) = stack.readers.add()?;
    stack.counters.add(HttpEvent::Streams);
    if is_first {
        tokio::spawn(read(stack));
    }
    let mut answer = typed("text/event-stream", axum::body::Body::new(Parts(readings)));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(answer)
}

/// Reads the stack until no reader is left.
async fn read(stack: SharedStack) {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before: Option<Before> = None;
    loop {
        ticks.tick().await;
        if stack.readers.is_over() {
            return;
        }
        let event = match read_once(&mut *stack.stack(), &mut before) {
            Ok(reading) => event("reading", &reading),
            Err(why) => event("trouble", serde_json::to_string(&why).as_deref().unwrap_or_default()),
        };
        for _ in 0..stack.readers.publish(&event) {
            stack.counters.add(HttpEvent::SlowStreams);
        }
    }
}

/// Values of the reading before.
struct Before {
    sample: Sample,
    latencies: Vec<Latencies>,
}

/// Returns the text of a reading. Rates of the first one are zero.
fn read_once(stack: &mut dyn Stack, before: &mut Option<Before>) -> Result<String, Error> {
    let states = stack.firewall_status()?.states;
    let now = Before { latencies: stack.latencies()?, sample: sample(stack)? };
    let earlier = before.as_ref().unwrap_or(&now);
    let mut rates = Rates::between(&earlier.sample, &now.sample);
    keep_busiest(&mut rates);
    let links = now.sample.interfaces.iter().map(node).collect();
    let latencies = now.latencies.iter().map(|all| since(all, &earlier.latencies)).collect();
    let reading = Reading { time_ms: wall_ms(), rates: &rates, links, states, latencies };
    let text = serde_json::to_string(&reading);
    *before = Some(now);
    text.map_err(|why| Error::new(ErrorKind::Failed, why.to_string()))
}

/// Returns the frames that were measured since the reading before; all of them if it was not in that, or began anew.
fn since(now: &Latencies, before: &[Latencies]) -> Latencies {
    let before = before.iter().find(|other| other.interface == now.interface);
    let is_anew = before.is_some_and(|before| before.counts.iter().sum::<u64>() > now.counts.iter().sum());
    let before = before.filter(|_| !is_anew).map_or(&[][..], |before| &before.counts);
    let at = |at: usize| before.get(at).copied().unwrap_or(0);
    let counts = now.counts.iter().enumerate().map(|(band, count)| count.saturating_sub(at(band))).collect();
    Latencies { interface: now.interface.clone(), counts }
}

fn sample(stack: &mut dyn Stack) -> Result<Sample, Error> {
    let states = stack.firewall_states(None, ROWS_MAX, false)?;
    let connections = stack.tcp_connections(None, ROWS_MAX, true)?;
    Ok(Sample {
        version: Version { version: env!("CARGO_PKG_VERSION").to_owned(), pid: std::process::id() },
        interfaces: stack.interfaces()?,
        pools: stack.pools()?,
        counters: stack.counters()?,
        rules: Some(stack.firewall_rules()?),
        cut: states.next.is_some() || connections.next.is_some(),
        states: Some(states.states),
        connections: Some(connections.connections),
        netisrs: stack.netisrs()?,
        at: Instant::now(),
    })
}

fn keep_busiest(rates: &mut Rates) {
    rates.flows.sort_by(|a, b| b.bytes.total_cmp(&a.bytes).then(b.bytes_total.cmp(&a.bytes_total)));
    let moved = |row: &ConnectionRates| row.rx_bytes + row.tx_bytes;
    rates.connections.sort_by(|a, b| moved(b).total_cmp(&moved(a)));
    rates.cut |= rates.flows.len().max(rates.rules.len()).max(rates.connections.len()) > SHOWN_MAX;
    rates.flows.truncate(SHOWN_MAX);
    rates.rules.truncate(SHOWN_MAX);
    rates.connections.truncate(SHOWN_MAX);
}

fn node(interface: &Interface) -> Node {
    let device = interface.device.as_ref();
    let ports = device.and_then(|device| device.bridge.as_ref()).map(|bridge| &bridge.members);
    Node {
        name: interface.name.clone(),
        device: device.map(|device| device.device.clone()),
        addresses: interface
            .addresses
            .iter()
            .map(|address| format!("{}/{}", address.address, address.prefix_len))
            .collect(),
        ports: ports.into_iter().flatten().map(|port| port.name.clone()).collect(),
    }
}

fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The last event of a stream whose reader falls behind.
fn too_slow_event() -> Bytes {
    let error = Error::new(
        ErrorKind::Busy,
        format!("the reader is {READINGS_HELD} readings behind; its stream ends"),
    );
    event("trouble", serde_json::to_string(&error.hint("begin another")).as_deref().unwrap_or_default())
}

/// A server-sent event. JSON has no line breaks.
fn event(name: &str, json: &str) -> Bytes {
    format!("event: {name}\ndata: {json}\n\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_falls_behind_loses_its_stream_and_others_do_not() {
        let readers = Readers::default();
        let (mut slow, is_first) = readers.add().unwrap();
        let (mut quick, is_second_first) = readers.add().unwrap();
        assert!(is_first && !is_second_first);
        for number in 0..READINGS_HELD {
            assert_eq!(readers.publish(&Bytes::from(number.to_string())), 0);
            assert_eq!(quick.try_recv().unwrap(), number.to_string());
        }
        assert_eq!(readers.publish(&Bytes::from("one more")), 1);
        assert_eq!(quick.try_recv().unwrap(), "one more");
        let held: Vec<Bytes> = core::iter::from_fn(|| slow.try_recv().ok()).collect();
        assert_eq!(held.len(), READINGS_HELD + 1, "and then its stream ends");
        let last = String::from_utf8_lossy(&held[READINGS_HELD]);
        assert!(last.starts_with("event: trouble\n") && last.contains("4 readings behind"), "{last}");
        assert!(slow.is_closed() && !quick.is_closed());
    }

    #[test]
    fn latencies_of_a_reading_are_those_since_the_one_before() {
        let all = |counts: &[u64]| Latencies { interface: "mon".to_owned(), counts: counts.to_vec() };
        let (first, second) = (all(&[1, 0, 5]), all(&[1, 2, 7]));
        assert_eq!(since(&second, core::slice::from_ref(&first)), all(&[0, 2, 2]));
        assert_eq!(since(&first, &[]), first);
        // It has begun to monitor again.
        assert_eq!(since(&first, &[second]), first);
    }

    #[test]
    fn streams_are_bounded_and_the_stack_is_read_only_for_readers() {
        let readers = Readers::default();
        let mut all: Vec<_> = (0..READERS_MAX).map(|_| readers.add().unwrap().0).collect();
        assert_eq!(readers.add().unwrap_err().kind, ErrorKind::Busy);
        all.pop();
        readers.publish(&Bytes::from("the last"));
        let (mut late, is_first) = readers.add().unwrap();
        assert!(!is_first);
        assert_eq!(late.try_recv().unwrap(), "the last", "there is no wait for the first reading");
        assert!(!readers.is_over());
        drop((all, late));
        assert!(readers.is_over());
        assert!(readers.add().unwrap().1, "the next reader begins anew");
    }
}
