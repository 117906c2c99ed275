mod advice;
mod change;
mod congestion;
mod error;
mod flags;
mod info;
mod life;
mod lone;
mod long;
mod path;
mod open;
mod probe;
mod prr;
mod shut;
mod stamps;
mod states;
mod syn;
mod tune;
mod urgent;

use core::time::Duration;
use std::collections::VecDeque;

use proptest::prelude::*;
use wire::tcp::Options;

use super::*;
use crate::settings::{Ecn, Extensions};
use base::secret::Secret;

const MS: Duration = Duration::from_millis(1);
/// One way.
const DELAY: Duration = Duration::from_millis(10);

/// Two ends and what is between them.
struct Pair {
    now: Instant,
    ends: [Tcb; 2],
    /// Segments on their way to each end, with the time of arrival.
    wire: [VecDeque<(Instant, Header, Vec<u8>)>; 2],
    /// Losses in a thousand.
    loss: u64,
    /// Segments with more bytes vanish.
    longest: usize,
    /// Whether routers mark what arrives.
    is_marked: bool,
    luck: Secret,
    /// All that were sent.
    seen: Vec<(usize, Header, usize)>,
}

impl Pair {
    fn begin(settings: [Settings; 2], loss: u64, seed: u128) -> Self {
        let now = Instant::from_ns(1_000_000);
        let [client, server] = settings;
        let mut client = Tcb::connect(client, (4000, 80), u32::MAX - 100, Stamps::from(7), now);
        let mut syn = None;
        client.output(now, &mut |out| syn = Some(out.header));
        let syn = syn.unwrap();
        let segment = Segment { header: &syn, payload: &[], is_marked: false };
        let server = Tcb::answer(server, (80, 4000), 1000, Stamps::from(u32::MAX - 50), &segment, now);
        let wire = [VecDeque::new(), VecDeque::new()];
        let seen = vec![(0, syn, 0)];
        let mut pair = Self {
            now,
            ends: [client, server],
            wire,
            loss,
            longest: usize::MAX,
            is_marked: false,
            luck: Secret::new(seed),
            seen,
        };
        pair.flush();
        pair
    }

    fn established() -> Self {
        let mut pair = Self::begin([Settings::default(); 2], 0, 1);
        pair.run_for(3 * DELAY);
        pair.seen.clear();
        pair
    }

    fn flush(&mut self) {
        let Self { now, ends, wire, loss, longest, luck, seen, .. } = self;
        for (from, end) in ends.iter_mut().enumerate() {
            let mut wire = |out: &Out<'_>| {
                let payload = out.payload.concat();
                seen.push((from, out.header, payload.len()));
                if luck.below(1000) >= *loss && payload.len() <= *longest {
                    wire[1 - from].push_back((*now + DELAY, out.header, payload));
                }
            };
            end.output(*now, &mut wire);
            while end.goes_on() {
                end.output(*now, &mut wire);
            }
        }
    }

    /// Does the next step: a segment arrives, or a timer is due. `None` at the end.
    fn step(&mut self) -> Option<()> {
        let arrivals = self.wire.iter().filter_map(|wire| wire.front().map(|(at, ..)| *at));
        let next = arrivals.chain(self.ends.iter().map(Tcb::deadline)).min()?;
        if next == Instant::NEVER {
            return None;
        }
        self.now = self.now.max(next);
        for to in 0..2 {
            while let Some((_, header, payload)) = self.wire[to].pop_front_if(|(at, ..)| *at <= self.now) {
                let segment = Segment { header: &header, payload: &payload, is_marked: self.is_marked };
                match self.ends[to].arrive(&segment, self.now) {
                    Reply::Nothing | Reply::Withheld => {}
                    Reply::Challenge => _ = self.ends[to].challenge(self.now),
                    Reply::Reset => {
                        let reset = Header { seq: header.ack, ..self.ends[to].header(Flags::RST, Seq(0)) };
                        self.wire[1 - to].push_back((self.now + DELAY, reset, Vec::new()));
                    }
                }
            }
            self.ends[to].expire(self.now);
        }
        self.flush();
        Some(())
    }

    fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        while self.next_at() <= until && self.step().is_some() {}
        self.now = until;
    }

    fn next_at(&self) -> Instant {
        let arrivals = self.wire.iter().filter_map(|wire| wire.front().map(|(at, ..)| *at));
        arrivals.chain(self.ends.iter().map(Tcb::deadline)).min().unwrap_or(Instant::NEVER)
    }

    fn states(&self) -> [State; 2] {
        [self.ends[0].state(), self.ends[1].state()]
    }

    /// Sends `bytes` from one end and reads them at the other, until it has all and both have closed.
    fn transfer(&mut self, bytes: &[u8]) -> Vec<u8> {
        let (mut sent, mut read) = (0, Vec::new());
        for _ in 0..1_000_000 {
            sent += self.ends[0].send(&bytes[sent..]);
            // Before the connection stands, to close it is to give it up.
            if sent == bytes.len() && self.ends[0].state() >= State::Established {
                self.ends[0].close();
            }
            let mut some = [0; 3000];
            let count = self.ends[1].read(&mut some);
            let is_idle = count == 0;
            read.extend_from_slice(&some[..count]);
            if self.ends[1].is_read_to_end() {
                self.ends[1].close();
            }
            self.flush();
            if self.step().is_none() && is_idle {
                break;
            }
        }
        read
    }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

/// Flags, sequence number and acknowledgment from the beginning, and length of what was sent.
fn shown(pair: &Pair) -> Vec<String> {
    let line = |(from, header, len): &(usize, Header, usize)| {
        let (ours, theirs) = (pair.ends[*from].iss.0, pair.ends[1 - from].iss.0);
        let ack = if header.flags.ack() { header.ack.wrapping_sub(theirs) } else { 0 };
        let arrow = ['>', '<'][*from];
        format!("{arrow} {} {}({len}) ack {ack}", header.flags, header.seq.wrapping_sub(ours))
    };
    pair.seen.iter().map(line).collect()
}

#[test]
fn three_segments_make_a_connection() {
    let mut pair = Pair::begin([Settings::default(); 2], 0, 1);
    pair.run_for(3 * DELAY);
    assert_eq!(shown(&pair), ["> S 0(0) ack 0", "< S. 0(0) ack 1", "> . 1(0) ack 1"]);
    assert_eq!(pair.states(), [State::Established; 2]);
    let (_, syn, _) = pair.seen[0];
    assert_eq!((syn.window, syn.options.mss, syn.options.window_scale), (65535, Some(1460), Some(6)));
    assert!(syn.options.sack_permitted && syn.options.timestamps.is_some());
}

#[test]
fn what_one_end_does_not_know_is_not_used() {
    let plain = Settings { extensions: Extensions::Off, sack: false, ..Settings::default() };
    for settings in [[plain, Settings::default()], [Settings::default(), plain]] {
        let mut pair = Pair::begin(settings, 0, 1);
        let sent = bytes(100_000);
        assert!(pair.transfer(&sent) == sent);
        let (_, answer, _) = pair.seen[1];
        let Options { window_scale, sack_permitted, timestamps, .. } = answer.options;
        assert_eq!((window_scale, sack_permitted, timestamps), (None, false, None));
    }
}

#[test]
fn four_segments_end_it_and_the_first_to_end_waits() {
    let mut pair = Pair::established();
    pair.ends[0].close();
    pair.flush();
    pair.run_for(3 * DELAY);
    assert_eq!(pair.states(), [State::FinWait2, State::CloseWait]);
    // The other direction goes on.
    assert_eq!(pair.ends[1].send(b"more"), 4);
    pair.flush();
    pair.run_for(DELAY);
    let mut read = [0; 10];
    assert_eq!(pair.ends[0].read(&mut read), 4);
    pair.ends[1].close();
    pair.flush();
    pair.run_for(3 * DELAY);
    assert_eq!(pair.states(), [State::TimeWait, State::Closed]);
    pair.run_for(59 * Duration::from_secs(1));
    assert_eq!(pair.states()[0], State::TimeWait);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.states()[0], State::Closed);
    assert_eq!((pair.ends[0].ended(), pair.ends[1].ended()), (None, None));
}

#[test]
fn close_before_the_syn_ack_resets_the_peer() {
    let mut pair = Pair::begin([Settings::default(); 2], 0, 1);
    assert_eq!(pair.ends[0].send(b"lost"), 4);
    pair.ends[0].close();
    pair.run_for(3 * DELAY);
    assert_eq!(pair.states(), [State::Closed; 2]);
    assert_eq!((pair.ends[0].ended(), pair.ends[1].ended()), (None, Some(Ended::Reset)));
}

#[test]
fn both_may_end_at_once() {
    let mut pair = Pair::established();
    pair.ends.iter_mut().for_each(Tcb::close);
    pair.flush();
    assert_eq!(pair.states(), [State::FinWait1; 2]);
    pair.run_for(DELAY);
    assert_eq!(pair.states(), [State::Closing; 2]);
    pair.run_for(DELAY);
    assert_eq!(pair.states(), [State::TimeWait; 2]);
}

#[test]
fn a_reset_at_the_edge_ends_it_and_one_in_the_window_is_challenged() {
    for (off, insecure, ends) in
        [(0, false, true), (1, false, false), (1, true, true), (100_000, true, false)]
    {
        let settings = Settings { insecure_rst: insecure, ..Settings::default() };
        let mut pair = Pair::begin([settings; 2], 0, 1);
        pair.run_for(3 * DELAY);
        let reset = pair.ends[0].header(Flags::RST, pair.ends[0].sent.behind() + off);
        let segment = Segment { header: &reset, payload: &[], is_marked: false };
        let answer = pair.ends[1].arrive(&segment, pair.now);
        let challenged = off == 1 && !insecure;
        assert_eq!(answer, if challenged { Reply::Challenge } else { Reply::Nothing });
        assert_eq!(pair.ends[1].ended(), ends.then_some(Ended::Reset), "{off} {insecure}");
    }
}

#[test]
fn a_syn_of_a_connection_that_stands_is_challenged() {
    let mut pair = Pair::established();
    let syn =
        Header { options: Options::NONE, ..pair.ends[0].header(Flags::SYN, pair.ends[0].sent.behind()) };
    let segment = Segment { header: &syn, payload: &[], is_marked: false };
    assert_eq!(pair.ends[1].arrive(&segment, pair.now), Reply::Challenge);
    assert_eq!(pair.states(), [State::Established; 2]);
}

#[test]
fn every_second_segment_is_acknowledged_and_a_single_one_after_a_while() {
    let mut pair = Pair::established();
    pair.ends[0].send(&bytes(1448 * 4));
    pair.flush();
    pair.run_for(DELAY);
    // All came in one turn, so there is one acknowledgment for all.
    assert_eq!(shown(&pair).last().unwrap(), "< . 1(0) ack 5793");
    pair.run_for(DELAY);
    pair.seen.clear();
    pair.ends[0].send(&bytes(100));
    pair.flush();
    pair.run_for(DELAY + 39 * MS);
    assert_eq!(shown(&pair), ["> P. 5793(100) ack 1"]);
    pair.run_for(MS);
    assert_eq!(shown(&pair), ["> P. 5793(100) ack 1", "< . 1(0) ack 5893"]);
}

#[test]
fn of_segments_that_are_acknowledged_together_the_first_one_s_time_is_echoed() {
    let settings = Settings { nodelay: true, delayed_ack: 30 * MS, ..Settings::default() };
    let mut pair = Pair::begin([settings; 2], 0, 1);
    pair.run_for(3 * DELAY);
    pair.seen.clear();
    for _ in 0..2 {
        pair.ends[0].send(b"x");
        pair.flush();
        pair.run_for(20 * MS);
    }
    pair.run_for(DELAY);
    let stamps = pair.seen.iter().map(|(_, header, _)| header.options.timestamps.unwrap());
    let [(first, _), (second, _), (_, echo)] = stamps.collect::<Vec<_>>()[..] else {
        panic!("{:?}", shown(&pair))
    };
    assert_eq!((second.wrapping_sub(first), echo), (20, first));
}

#[test]
fn small_segments_wait_for_an_acknowledgment_unless_nobody_wants_to() {
    for (nodelay, count) in [(false, 1), (true, 5)] {
        let settings = Settings { nodelay, ..Settings::default() };
        let mut pair = Pair::begin([settings; 2], 0, 1);
        pair.run_for(3 * DELAY);
        pair.seen.clear();
        for _ in 0..5 {
            pair.ends[0].send(b"x");
            pair.flush();
        }
        assert_eq!(pair.seen.len(), count);
        pair.run_for(Duration::from_secs(1));
        assert_eq!(pair.ends[1].readable(), 5);
    }
}

#[test]
fn the_end_of_a_write_waits_for_no_full_segments_but_for_one_that_is_as_short() {
    let mut pair = Pair::established();
    pair.seen.clear();
    pair.ends[0].send(&bytes(2 * 1448 + 100));
    pair.flush();
    pair.ends[0].send(&bytes(100));
    pair.flush();
    let lens = |pair: &Pair| pair.seen.iter().map(|(_, _, len)| *len).collect::<Vec<_>>();
    assert_eq!(lens(&pair), [1448, 1448, 100]);
    pair.ends[0].send(&bytes(1348));
    pair.flush();
    assert_eq!(lens(&pair)[3..], [1448], "it is not short any more");
    pair.ends[0].send(&bytes(100));
    pair.flush();
    assert_eq!(pair.seen.len(), 4);
    pair.run_for(10 * DELAY);
    assert_eq!(pair.ends[1].readable(), 3 * 1448 + 300 - 100);
}

#[test]
fn a_closed_window_is_probed_until_it_opens() {
    let mut pair = Pair::established();
    let mut sent = 0;
    while sent < 70_000 {
        sent += pair.ends[0].send(&bytes(10_000));
        pair.flush();
        pair.run_for(DELAY * 5);
        if pair.ends[0].writable() == 0 {
            break;
        }
    }
    // The last bytes are too few to be sent at once.
    pair.run_for(Duration::from_secs(8));
    let full = pair.ends[1].readable();
    assert!(
        (65_637..=65_700).contains(&full),
        "{full}: as much as there is room for, in units of the window"
    );
    pair.seen.clear();
    pair.run_for(Duration::from_secs(100));
    let probes = pair.seen.iter().filter(|(from, _, len)| *from == 0 && *len == 1).count();
    // Five seconds apart while one is still taken now and then, ever more when none is.
    assert!((3..=20).contains(&probes), "{:?}", shown(&pair));
    assert_eq!(pair.states(), [State::Established; 2]);
    pair.ends[1].read(&mut [0; 65_536]);
    pair.flush();
    pair.run_for(Duration::from_secs(1));
    assert!(pair.ends[1].readable() > 0, "the window was said when it opened");
}

#[test]
fn a_probe_that_is_not_taken_is_repeated_after_five_seconds_and_then_ever_later_or_when_there_is_room() {
    let settings = Settings { tail_loss_probe: false, rack: false, ..Settings::default() };
    let mut end = lone::Lone::in_state(State::Established, settings);
    end.gets_saying(". 1:1(0) ack 1", 0);
    end.tcb.send(b"no room");
    assert!(end.sends().is_empty());
    let probe = ". 1:2(1) ack 1 win 65535".to_owned();
    let waited = end.waits(Duration::from_secs(5));
    assert_eq!(waited, [(5000, probe.clone())]);
    // The other end is there, and has still no room.
    assert!(end.gets_saying(". 1:1(0) ack 1", 0).is_empty());
    let at: Vec<_> = end.waits(Duration::from_secs(60)).into_iter().map(|(at, again)| (again, at)).collect();
    assert!(at.iter().all(|(again, _)| *again == probe), "{at:?}");
    assert!(at.windows(2).all(|pair| pair[1].1 - pair[0].1 >= 5000) && at[0].1 >= 5000, "{at:?}");
    assert!((2..=11).contains(&at.len()), "{at:?}");
    // There is room, and the byte goes again as one that was lost does, not when the next probe is due.
    end.gets_saying(". 1:1(0) ack 1", 1000);
    let rto = end.tcb.info().rto;
    let again = end.waits(rto);
    assert!(!again.is_empty(), "{rto:?}");
}

#[test]
fn a_lost_segment_is_sent_again_without_waiting_for_the_timer() {
    for sack in [true, false] {
        let settings = Settings { sack, ..Settings::default() };
        let mut pair = Pair::begin([settings; 2], 0, 1);
        pair.run_for(3 * DELAY);
        let sent = bytes(14_480);
        pair.ends[0].send(&sent);
        pair.flush();
        pair.wire[1].remove(2);
        let before = pair.now;
        while pair.ends[1].readable() < sent.len() {
            pair.step().unwrap();
        }
        let took = pair.now.since(before);
        assert!(took < Duration::from_millis(60), "{took:?}");
        assert!(pair.ends[0].congestion.window() < 14_480, "and the window is smaller");
    }
}

#[test]
fn a_segment_that_says_what_is_missing_is_no_longer_than_others() {
    let mut pair = Pair::established();
    for end in &mut pair.ends {
        end.send(&bytes(14_480));
    }
    pair.flush();
    for wire in &mut pair.wire {
        wire.remove(5);
        wire.remove(2);
    }
    pair.run_for(4 * DELAY);
    let len = |(_, header, len): &(usize, Header, usize)| header.header_len() + len;
    let says =
        |(_, header, len): &&(usize, Header, usize)| *len > 0 && !header.options.sack.as_slice().is_empty();
    assert!(pair.seen.iter().any(|segment| says(&segment)), "some say it with data");
    assert_eq!(pair.seen.iter().map(len).max(), Some(1460 + 20));
}

#[test]
fn of_a_segment_with_an_old_timestamp_nothing_is_taken() {
    for behind in [0, 50] {
        let mut pair = Pair::established();
        pair.ends[0].send(&bytes(100));
        pair.flush();
        pair.run_for(3 * DELAY);
        assert_eq!(pair.ends[1].readable(), 100);
        let old = pair.ends[0].stamps.at(pair.now).wrapping_sub(1000);
        let options = Options { timestamps: Some((old, 0)), ..Options::NONE };
        let header =
            Header { options, ..pair.ends[0].header(Flags::ACK, pair.ends[0].sent.behind() - behind) };
        let segment = Segment { header: &header, payload: &bytes(200), is_marked: false };
        let next = pair.ends[1].receive.next();
        let _ = pair.ends[1].arrive(&segment, pair.now);
        assert_eq!((pair.ends[1].readable(), pair.ends[1].receive.next()), (100, next));
    }
}

#[test]
fn retransmission_ends_with_a_timeout() {
    let mut pair = Pair::established();
    pair.loss = 1000;
    pair.ends[0].send(b"hello?");
    pair.flush();
    pair.seen.clear();
    pair.run_for(Duration::from_secs(3600));
    assert_eq!(pair.ends[0].ended(), Some(Ended::TimedOut));
    // A probe, twelve times the timer, and the reset.
    assert_eq!(pair.seen.len(), 14, "{:?}", shown(&pair));
    assert_eq!(shown(&pair).last().unwrap(), "> R. 7(0) ack 1", "in case the other end is there after all");
}

#[test]
fn a_connection_that_does_not_come_about_is_given_up() {
    let mut pair = Pair::begin([Settings::default(); 2], 1000, 1);
    pair.run_for(Duration::from_secs(181));
    assert_eq!(pair.ends[0].ended(), Some(Ended::TimedOut));
    assert_eq!(pair.ends[1].ended(), Some(Ended::TimedOut));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever gets lost, the bytes arrive, and both ends come to their end.
    #[test]
    fn all_bytes_arrive_whatever_gets_lost(
        len in 0..200_000_usize,
        loss in 0..150_u64,
        seed: u128,
        sack: bool,
        extensions: bool,
    ) {
        let extensions = if extensions { Extensions::Both } else { Extensions::Off };
        let settings = Settings { sack, extensions, ..Settings::default() };
        let mut pair = Pair::begin([settings; 2], loss, seed);
        let sent = bytes(len);
        let read = pair.transfer(&sent);
        prop_assert!(read == sent, "{} of {} bytes", read.len(), sent.len());
        prop_assert_eq!((pair.ends[0].ended(), pair.ends[1].ended()), (None, None));
        prop_assert_eq!(pair.states(), [State::Closed; 2]);
    }
}
