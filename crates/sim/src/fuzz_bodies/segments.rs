//! Segments, calls and time, in any order, to a connection in each state.

use net::tcp::scoreboard::PIECES_MAX;
use net::tcp::settings::{Extensions, Settings};
use net::tcp::tcb::{Reply, Segment, Stamps, State, Tcb};
use net::time::{Duration, Instant};
use wire::tcp::{Flags, Header, Options, SackBlock};

use super::Bytes;

/// The connection's initial sequence number, and the other end's: both run round soon.
const OURS: u32 = u32::MAX - 3000;
const THEIRS: u32 = u32::MAX - 70_000;
const PORTS: (u16, u16) = (4000, 80);
/// Segments that one call sends at the most: a window of the largest buffer, in the shortest segments.
const SENT_MAX: usize = (2 << 20) / 24 + 16;
/// The largest buffers, as powers of two, and what is known of what is under way.
const MEMORY_MAX: usize = 2 * (4 << 20) + 2 * PIECES_MAX * 64;
/// Longest life of an orphaned connection without any segment from its peer.
const LIFE_MAX: Duration = Duration::from_secs(60 * 60);

/// A connection is brought into a state, and then gets what `data` says. Whatever that is, it stays within its bounds, answers
/// each call with a bounded number of segments, waits for times that lie ahead, and ends when its program has gone.
pub fn segments(data: &[u8]) {
    let mut bytes = Bytes { rest: data };
    let mut end = End::new(bytes.byte());
    end.go_to(bytes.byte() % 11);
    while !bytes.is_empty() {
        match bytes.byte() % 16 {
            0 => end.wait(Duration::from_millis(bytes.half().into())),
            1 => _ = end.tcb.send(&vec![b'x'; usize::from(bytes.half())]),
            2 => _ = end.tcb.read(&mut vec![0; usize::from(bytes.half())]),
            3 if bytes.byte().is_multiple_of(4) => end.tcb.close(),
            4 => end.time_out(),
            _ => end.take(&mut bytes),
        }
        end.output();
    }
    end.ends();
}

struct End {
    tcb: Tcb,
    now: Instant,
}

impl End {
    /// A connection that begins, or one that answers.
    fn new(how: u8) -> Self {
        let now = Instant::from_ns(1_000_000_000);
        let is_plain = how & 2 != 0;
        let settings = Settings {
            extensions: if is_plain { Extensions::Off } else { Extensions::Both },
            sack: how & 4 == 0,
            nodelay: how & 8 != 0,
            keepalive: how & 16 != 0,
            ..Settings::default()
        };
        let stamps = Stamps::from(7);
        let tcb = match how & 1 {
            0 => Tcb::connect(settings, PORTS, OURS, stamps, now),
            _ => {
                let syn = header(Flags::SYN, THEIRS, 0, offers());
                let segment = Segment { header: &syn, payload: &[], is_marked: false };
                Tcb::answer(settings, PORTS, OURS, stamps, &segment, now)
            }
        };
        let mut end = Self { tcb, now };
        end.output();
        end
    }

    /// Steps towards each of the states: a handshake, ends of both streams, in both orders; or it is aborted.
    fn go_to(&mut self, state: u8) {
        let stamps = Options { timestamps: Some((1, 7)), ..Options::NONE };
        let steps: &[&str] = match state {
            0 => &[],
            1 => &["S"],
            2 => &["S."],
            3 => &["S.", "F"],
            4 => &["S.", "close"],
            5 => &["S.", "close", "a"],
            6 => &["S.", "close", "F"],
            7 => &["S.", "F", "close"],
            8 => &["S.", "close", "a", "F"],
            9 => &["S.", "F", "close", "a"],
            _ => &["abort"],
        };
        for step in steps {
            let info = self.tcb.info();
            let (next, una, sent) = (info.rcv_nxt, info.snd_una, info.snd_nxt);
            let begins = self.tcb.state() == State::SynSent;
            match *step {
                "close" => self.tcb.close(),
                "abort" => _ = self.tcb.abort(self.now),
                "S" => self.arrive(&header(Flags::SYN, THEIRS, 0, offers()), &[]),
                "S." if begins => {
                    self.arrive(&header(Flags::SYN | Flags::ACK, THEIRS, sent, offers()), &[]);
                }
                "F" => self.arrive(&header(Flags::FIN | Flags::ACK, next, una, stamps), &[]),
                _ => self.arrive(&header(Flags::ACK, next, sent, stamps), &[]),
            }
            self.output();
        }
    }

    /// Takes a segment that is near where it could be.
    fn take(&mut self, bytes: &mut Bytes<'_>) {
        let info = self.tcb.info();
        let kind = bytes.byte();
        let flags = if kind & 1 == 0 { Flags::ACK } else { Flags(bytes.byte()) };
        let seq = [info.rcv_nxt, info.rcv_nxt.wrapping_add(info.rcv_wnd)][usize::from(kind >> 1 & 1)];
        let ack = [info.snd_una, info.snd_nxt][usize::from(kind >> 2 & 1)];
        let seq = near(seq, kind >> 3 & 3, bytes);
        let ack = near(ack, kind >> 5 & 3, bytes);
        let mut options = Options::NONE;
        let said = bytes.byte();
        if said & 1 != 0 {
            options.timestamps = Some((u32::from(bytes.half()), bytes.word()));
        }
        for _ in 0..(said >> 1 & 3) {
            let left = info.snd_una.wrapping_add(bytes.half().into());
            options.sack.push(SackBlock { left, right: left.wrapping_add(bytes.half().into()) });
        }
        if said & 8 != 0 {
            options.mss = Some(bytes.half());
            options.window_scale = Some(bytes.byte());
            options.sack_permitted = said & 16 != 0;
        }
        let len = if said & 32 != 0 { usize::from(bytes.half()) % 3000 } else { 0 };
        let window = if said & 64 != 0 { bytes.half() } else { u16::MAX };
        let urgent = if said & 128 != 0 { bytes.half() } else { 0 };
        let header = Header { window, urgent, ..header(flags, seq, ack, options) };
        self.arrive(&header, &vec![b'y'; len]);
    }

    fn arrive(&mut self, header: &Header, payload: &[u8]) {
        // Nothing comes in no time.
        self.now = self.now + Duration::from_micros(10);
        let segment = Segment { header, payload, is_marked: header.window & 7 == 7 };
        if self.tcb.arrive(&segment, self.now) == Reply::Challenge {
            // Or it is kept back: there were enough of them.
            _ = self.tcb.challenge(self.now);
        }
    }

    /// Hands out what there is to send, and holds all to its bounds.
    fn output(&mut self) {
        if self.tcb.deadline() <= self.now {
            self.tcb.expire(self.now);
        }
        let mut sent = 0;
        self.tcb.output(self.now, &mut |out| {
            sent += 1;
            assert!(sent <= SENT_MAX, "it does not stop to send");
            assert!(out.header.header_len() <= wire::tcp::HEADER_MAX, "{:?}", out.header);
        });
        assert!(self.tcb.memory() <= MEMORY_MAX, "{} bytes", self.tcb.memory());
        assert!(self.tcb.deadline() > self.now, "looked at again and again: {:?}", self.tcb.info());
        let info = self.tcb.info();
        assert!(info.sacked + info.lost <= info.unacknowledged, "{info:?}");
    }

    fn wait(&mut self, span: Duration) {
        let until = self.now + span;
        while self.tcb.deadline() <= until {
            self.time_out();
            self.output();
        }
        self.now = until;
    }

    /// The next time that it waits for comes.
    fn time_out(&mut self) {
        if self.tcb.deadline() < Instant::NEVER {
            self.now = self.tcb.deadline();
            self.tcb.expire(self.now);
        }
    }

    /// The program goes, and the other end is silent.
    fn ends(mut self) {
        self.tcb.release(self.now);
        self.output();
        let until = self.now + LIFE_MAX;
        while self.tcb.state() != State::Closed {
            assert!(self.tcb.deadline() <= until, "it does not end: {:?}", self.tcb.info());
            self.time_out();
            self.output();
        }
    }
}

fn header(flags: Flags, seq: u32, ack: u32, options: Options) -> Header {
    let (dst_port, src_port) = PORTS;
    let ack = if flags.ack() { ack } else { 0 };
    Header { src_port, dst_port, seq, ack, flags, window: u16::MAX, urgent: 0, options }
}

fn offers() -> Options {
    let (mss, window_scale) = (Some(1460), Some(7));
    Options { mss, window_scale, sack_permitted: true, timestamps: Some((1, 0)), ..Options::NONE }
}

/// A number at another one, or some way before or behind it.
fn near(number: u32, how: u8, bytes: &mut Bytes<'_>) -> u32 {
    match how {
        0 => number,
        1 => number.wrapping_add(bytes.byte().cast_signed().into_unsigned()),
        2 => number.wrapping_add(bytes.half().into()),
        _ => bytes.word(),
    }
}

/// Sign-extended, to be added to what runs round.
trait Unsigned {
    fn into_unsigned(self) -> u32;
}

impl Unsigned for i8 {
    fn into_unsigned(self) -> u32 {
        i32::from(self).cast_unsigned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn whatever_comes_to_a_connection_it_stays_within_its_bounds_and_ends() {
        for seed in 0..4000 {
            let mut random = Random::new(seed);
            let len = random.between(2, 1500);
            let data: Vec<u8> = (0..len).map(|_| random.byte()).collect();
            segments(&data);
        }
    }

    #[test]
    fn each_state_is_reached() {
        let mut reached = Vec::new();
        for (how, state) in [0, 1].into_iter().flat_map(|how| (0..11).map(move |state| (how, state))) {
            let mut end = End::new(how);
            end.go_to(state);
            reached.push(end.tcb.state());
        }
        use State::*;
        for state in [
            Closed,
            SynSent,
            SynReceived,
            Established,
            CloseWait,
            FinWait1,
            FinWait2,
            Closing,
            LastAck,
            TimeWait,
        ] {
            assert!(reached.contains(&state), "{state:?}: {reached:?}");
        }
    }
}
