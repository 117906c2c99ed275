//! A stream of a test, and the thread that sends or receives it.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use super::control::is_late;
use super::pace::Pace;
use super::protocol::{DATAGRAM_MAX, Params};
use crate::sockets::PktInfo;
use crate::sockets::blocking::{TcpStream, UdpSocket};

/// Longest wait of a thread before it looks whether the test has ended.
const LOOK: Duration = Duration::from_millis(100);

/// Counters of a stream, written by its thread and read by the one that reports.
#[derive(Default)]
pub(super) struct Counters {
    bytes: AtomicU64,
    packets: AtomicU64,
    lost: AtomicU64,
    out_of_order: AtomicU64,
    jitter_ns: AtomicU64,
    failure: Mutex<Option<io::Error>>,
}

/// Values of the counters at one time, or within one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) bytes: u64,
    /// Datagrams: the number of those sent, or the highest number received.
    pub(super) packets: u64,
    pub(super) lost: u64,
    pub(super) out_of_order: u64,
    /// The smoothed jitter of RFC 1889, which is no sum.
    pub(super) jitter_ns: u64,
}

impl Counts {
    pub(super) const fn since(self, before: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(before.bytes),
            packets: self.packets.saturating_sub(before.packets),
            lost: self.lost.saturating_sub(before.lost),
            out_of_order: self.out_of_order.saturating_sub(before.out_of_order),
            jitter_ns: self.jitter_ns,
        }
    }
}

impl Counters {
    pub(super) fn counts(&self) -> Counts {
        Counts {
            bytes: self.bytes.load(Relaxed),
            packets: self.packets.load(Relaxed),
            lost: self.lost.load(Relaxed),
            out_of_order: self.out_of_order.load(Relaxed),
            jitter_ns: self.jitter_ns.load(Relaxed),
        }
    }

    /// Takes the error that has ended the stream's thread.
    pub(super) fn take_failure(&self) -> Option<io::Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn fail(&self, why: io::Error) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }
}

/// State that the threads of a test share.
#[derive(Default)]
pub(super) struct Switch {
    has_ended: AtomicBool,
    /// Bytes that senders have taken on.
    taken: AtomicU64,
    /// Bytes after which senders stop, if not 0.
    limit: u64,
}

impl Switch {
    pub(super) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, ..Self::default() })
    }

    pub(super) fn end(&self) {
        self.has_ended.store(true, Relaxed);
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Relaxed)
    }

    /// Returns how many of so many bytes a sender may send.
    fn take(&self, bytes: usize) -> usize {
        if self.limit == 0 {
            return bytes;
        }
        let share = |taken: u64| self.limit.saturating_sub(taken).min(bytes as u64);
        let taken = self.taken.fetch_update(Relaxed, Relaxed, |taken| Some(taken + share(taken)));
        usize::try_from(share(taken.unwrap_or(u64::MAX))).unwrap_or(bytes)
    }

    fn give_back(&self, bytes: usize) {
        if self.limit > 0 {
            self.taken.fetch_sub(bytes as u64, Relaxed);
        }
    }
}

/// Socket of a stream.
pub(super) enum Socket {
    Tcp(TcpStream),
    Udp(UdpSocket, PktInfo),
    /// The test has ended.
    Closed,
}

pub(super) struct Flow {
    /// Its number in results: 1, 3, 4, 5, … as iperf3 counts.
    pub(super) id: u32,
    pub(super) sends: bool,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) counters: Arc<Counters>,
    pub(super) socket: Socket,
}

impl Flow {
    /// Makes the stream that is the `nth` of its test, from 0.
    pub(super) fn new(nth: usize, sends: bool, ends: (SocketAddr, SocketAddr), socket: Socket) -> Self {
        let id = u32::try_from(if nth == 0 { 1 } else { nth + 2 }).unwrap_or(u32::MAX);
        let (local, remote) = ends;
        Self { id, sends, local, remote, counters: Arc::default(), socket }
    }

    /// Begins to send.
    fn send(&self, params: &Params, switch: &Arc<Switch>) -> io::Result<JoinHandle<()>> {
        let sender = Sender {
            block: vec![b'p'; params.block as usize],
            pace: Pace::new(params.rate, Instant::now()),
            counters: Arc::clone(&self.counters),
            switch: Arc::clone(switch),
        };
        match &self.socket {
            Socket::Closed => Err(io::ErrorKind::NotConnected.into()),
            Socket::Tcp(stream) => {
                stream.set_write_timeout(Some(LOOK))?;
                let stream = stream.clone();
                spawn(move || sender.stream(&stream))
            }
            Socket::Udp(socket, info) => {
                socket.set_write_timeout(Some(LOOK))?;
                let (socket, to, info, wide) = (socket.clone(), self.remote, *info, params.wide_numbers);
                spawn(move || sender.datagrams(&socket, to, info, wide))
            }
        }
    }
}

/// Begins to receive on all streams that do. Streams of UDP that share a socket have one thread.
pub(super) fn receive(
    flows: &[Flow],
    params: &Params,
    switch: &Arc<Switch>,
) -> io::Result<Vec<JoinHandle<()>>> {
    let mut threads = Vec::new();
    let mut sockets: HashMap<SocketAddr, (UdpSocket, Readers)> = HashMap::new();
    for flow in flows.iter().filter(|flow| !flow.sends) {
        let (counters, switch) = (Arc::clone(&flow.counters), Arc::clone(switch));
        match &flow.socket {
            Socket::Closed => {}
            Socket::Tcp(stream) => {
                stream.set_read_timeout(Some(LOOK))?;
                let (stream, len) = (stream.clone(), params.block as usize);
                threads.push(spawn(move || read(&stream, len, &counters, &switch))?);
            }
            Socket::Udp(socket, _) => {
                socket.set_read_timeout(Some(LOOK))?;
                let (_, readers) =
                    sockets.entry(socket.local_addr()?).or_insert_with(|| (socket.clone(), Readers::new()));
                readers.insert(flow.remote, Reader::new(counters));
            }
        }
    }
    for (socket, readers) in sockets.into_values() {
        let (switch, wide) = (Arc::clone(switch), params.wide_numbers);
        threads.push(spawn(move || read_datagrams(&socket, readers, wide, &switch))?);
    }
    Ok(threads)
}

/// Begins to send on all streams that do.
pub(super) fn send(flows: &[Flow], params: &Params, switch: &Arc<Switch>) -> io::Result<Vec<JoinHandle<()>>> {
    flows.iter().filter(|flow| flow.sends).map(|flow| flow.send(params, switch)).collect()
}

fn spawn(body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("iperf".to_owned()).spawn(body)
}

struct Sender {
    block: Vec<u8>,
    pace: Pace,
    counters: Arc<Counters>,
    switch: Arc<Switch>,
}

impl Sender {
    /// Whether a block is due; waits a while if none is.
    fn is_due(&self) -> bool {
        let wait = self.pace.wait(Instant::now());
        if !wait.is_zero() {
            std::thread::sleep(wait.min(LOOK));
        }
        wait <= LOOK
    }

    /// Takes on a block; waits a moment if all bytes of the test are taken, as another sender may give some back.
    fn take(&self) -> usize {
        let len = self.switch.take(self.block.len());
        if len == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        len
    }

    fn stream(mut self, mut stream: &TcpStream) {
        while !self.switch.has_ended() {
            if !self.is_due() {
                continue;
            }
            let len = self.take();
            if len == 0 {
                continue;
            }
            let sent = match stream.write(self.block.get(..len).unwrap_or_default()) {
                Ok(sent) => sent,
                Err(why) if is_late(&why) => 0,
                Err(why) => return self.counters.fail(why),
            };
            self.switch.give_back(len - sent);
            self.counters.bytes.fetch_add(sent as u64, Relaxed);
            self.pace.sent(sent, Instant::now());
        }
    }

    fn datagrams(mut self, socket: &UdpSocket, to: SocketAddr, info: PktInfo, wide: bool) {
        let (begun, mut number) = (Instant::now(), 0_u64);
        // A socket that is connected needs no destination.
        let is_connected = socket.peer_addr().is_ok();
        while !self.switch.has_ended() {
            if !self.is_due() {
                continue;
            }
            let (len, taken) = (self.block.len(), self.take());
            if taken == 0 {
                continue;
            }
            stamp(&mut self.block, begun.elapsed(), number + 1, wide);
            let sent = match is_connected {
                true => socket.send(&self.block),
                false => socket.send_datagram(&self.block, to, info),
            };
            match sent {
                Ok(_) => {
                    number += 1;
                    self.counters.bytes.fetch_add(len as u64, Relaxed);
                    self.counters.packets.store(number, Relaxed);
                    self.pace.sent(len, Instant::now());
                }
                Err(why) if is_late(&why) => self.switch.give_back(taken),
                Err(why) => return self.counters.fail(why),
            }
        }
    }
}

/// Writes the header of a datagram.
fn stamp(block: &mut [u8], at: Duration, number: u64, wide: bool) {
    let mut header = [0; 16];
    let seconds = u32::try_from(at.as_secs()).unwrap_or(u32::MAX);
    header[..4].copy_from_slice(&seconds.to_be_bytes());
    header[4..8].copy_from_slice(&at.subsec_micros().to_be_bytes());
    let len = if wide {
        header[8..].copy_from_slice(&number.to_be_bytes());
        16
    } else {
        header[8..12].copy_from_slice(&number.to_be_bytes()[4..]);
        12
    };
    if let Some(start) = block.get_mut(..len) {
        start.copy_from_slice(&header[..len]);
    }
}

/// Reads the header of a datagram.
fn stamped(bytes: &[u8], wide: bool) -> Option<(Duration, u64)> {
    let word = |at: usize| bytes.get(at..)?.first_chunk().copied().map(u32::from_be_bytes);
    let at = Duration::new(word(0)?.into(), word(4)?.min(999_999) * 1000);
    let number = if wide { u64::from(word(8)?) << 32 | u64::from(word(12)?) } else { word(8)?.into() };
    Some((at, number))
}

fn read(mut stream: &TcpStream, len: usize, counters: &Counters, switch: &Switch) {
    let mut block = vec![0; len];
    while !switch.has_ended() {
        match stream.read(&mut block) {
            // The sender has ended.
            Ok(0) => return,
            Ok(len) => {
                counters.bytes.fetch_add(len as u64, Relaxed);
            }
            Err(why) if is_late(&why) => {}
            Err(why) => return counters.fail(why),
        }
    }
}

/// Receivers by the address of their sender.
type Readers = HashMap<SocketAddr, Reader>;

/// Loss, order and jitter of a stream of datagrams.
struct Reader {
    counters: Arc<Counters>,
    counts: Counts,
    /// Difference of the clocks and the time under way, of the last datagram.
    transit_ns: Option<i128>,
}

impl Reader {
    fn new(counters: Arc<Counters>) -> Self {
        Self { counters, counts: Counts::default(), transit_ns: None }
    }

    fn datagram(&mut self, len: usize, sent: Duration, number: u64, at: Duration) {
        let counts = &mut self.counts;
        counts.bytes += len as u64;
        if number > counts.packets {
            counts.lost += number - 1 - counts.packets;
            counts.packets = number;
        } else {
            // It was taken for lost.
            counts.out_of_order += 1;
            counts.lost = counts.lost.saturating_sub(1);
        }
        let to_ns = |time: Duration| i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
        let transit = to_ns(at) - to_ns(sent);
        let before = self.transit_ns.replace(transit).unwrap_or(transit);
        //= https://www.rfc-editor.org/rfc/rfc1889#section-6.3.1
        let difference = u64::try_from((transit - before).abs()).unwrap_or(u64::MAX);
        counts.jitter_ns = if difference >= counts.jitter_ns {
            counts.jitter_ns + (difference - counts.jitter_ns) / 16
        } else {
            counts.jitter_ns - (counts.jitter_ns - difference) / 16
        };
        self.publish();
    }

    fn publish(&self) {
        let (to, from) = (&self.counters, &self.counts);
        let pairs = [
            (&to.bytes, from.bytes),
            (&to.packets, from.packets),
            (&to.lost, from.lost),
            (&to.out_of_order, from.out_of_order),
            (&to.jitter_ns, from.jitter_ns),
        ];
        pairs.into_iter().for_each(|(to, from)| to.store(from, Relaxed));
    }
}

fn read_datagrams(socket: &UdpSocket, mut readers: Readers, wide: bool, switch: &Switch) {
    let begun = Instant::now();
    let mut buffer = vec![0; DATAGRAM_MAX as usize];
    while !switch.has_ended() {
        match socket.recv_from(&mut buffer) {
            Ok((len, from)) => {
                // Datagrams of others are none of the test's, and too short ones are greetings.
                let header = buffer.get(..len).and_then(|bytes| stamped(bytes, wide));
                if let (Some(reader), Some((sent, number))) = (readers.get_mut(&from), header) {
                    reader.datagram(len, sent, number, begun.elapsed());
                }
            }
            Err(why) if is_late(&why) => {}
            Err(why) => {
                if let Some(reader) = readers.values().next() {
                    reader.counters.fail(why);
                }
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_of_a_datagram_are_read_as_they_were_written() {
        for (wide, number) in [(false, 7), (true, 1 << 40)] {
            let mut block = [0; 20];
            stamp(&mut block, Duration::from_micros(3_000_005), number, wide);
            assert_eq!(stamped(&block, wide), Some((Duration::from_micros(3_000_005), number)));
        }
        assert_eq!(stamped(&[0; 11], false), None);
    }

    #[test]
    fn gaps_are_losses_until_the_missing_datagram_comes() {
        let mut reader = Reader::new(Arc::default());
        let ms = Duration::from_millis;
        for (number, sent, at) in [(1, 0, 5), (2, 1, 6), (5, 4, 9), (3, 2, 10)] {
            reader.datagram(100, ms(sent), number, ms(at));
        }
        let counts = reader.counters.counts();
        assert_eq!((counts.bytes, counts.packets, counts.lost, counts.out_of_order), (400, 5, 1, 1));
        // One difference of 3 ms, a sixteenth of it.
        assert_eq!(counts.jitter_ns, 3_000_000 / 16);
    }
}
