//! Attacks by the other end of a connection that stands.

use net::tcp::receive::BLOCKS_MAX;
use net::tcp::scoreboard::PIECES_MAX;
use net::tcp::{self, Id};
use sim::plan::Family;
use wire::tcp::{Flags, Header, Options, SackBlock};

use super::*;

/// The host's end of the only connection that a program holds.
fn held(lab: &Lab) -> (usize, Id) {
    let (at, _, id) = lab.held[0];
    (at, id)
}

/// Something about it.
fn of<R>(lab: &mut Lab, what: impl FnOnce(&tcp::tcb::Tcb) -> R) -> R {
    let (at, id) = held(lab);
    lab.on(at, |cpu| what(tcp::connection(cpu, id).unwrap().1))
}

/// A connection to a program that sends without end, with windows of 2^20 bytes.
fn wide(lab: &mut Lab, mss: u16) -> Hand {
    let options = Options { mss: Some(mss), sack_permitted: true, window_scale: Some(10), ..Options::NONE };
    let hand = lab.open_with(CHARGEN, options, 1024);
    lab.run_for(2 * MS);
    hand
}

/// Acknowledges all that has come, so that ever more does.
fn takes(lab: &mut Lab, hand: &mut Hand, rounds: usize) {
    for _ in 0..rounds {
        let got = lab.heard();
        let mine = got.iter().filter(|got| got.ports == hand.ports && got.len > 0);
        let end = mine.map(|got| got.seq.wrapping_add(u32::try_from(got.len).unwrap()));
        hand.ack = end.fold(hand.ack, |ack, end| if before(ack, end) { end } else { ack });
        lab.send(&hand.header(Flags::ACK), &[]);
        lab.run_for(2 * MS);
    }
}

fn before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) > u32::MAX / 2
}

#[test]
fn tiny_segments_out_of_order_take_a_bounded_place() {
    for family in Family::BOTH {
        let mut lab = Lab::new("segment_smack", family);
        let mut hand = lab.open(DISCARD);
        for n in 1..=20_000_u32 {
            // Every second byte, from behind: each would be a block of its own.
            let header = Header { seq: hand.seq + 2 * (30_000 - n % 30_000), ..hand.header(Flags::ACK) };
            lab.send(&header, b"x");
            if n % 100 == 0 {
                lab.run_for(MS);
            }
        }
        let memory = of(&mut lab, tcp::tcb::Tcb::memory);
        assert!(memory <= 65_536 + BLOCKS_MAX * 16, "{memory} bytes");
        assert_eq!(of(&mut lab, tcp::tcb::Tcb::readable), 0);
        // What is missing in front of a block still counts.
        let (start, bytes) = (hand.seq, [b'y'; 1000]);
        for n in 0..60 {
            hand.seq = start + n * 1000;
            lab.send(&hand.header(Flags::ACK), &bytes);
        }
        lab.run_for(10 * MS);
        assert!(of(&mut lab, tcp::tcb::Tcb::readable) >= 60_000);
        lab.end();
    }
}

#[test]
fn blocks_of_sack_without_end_cut_what_is_under_way_into_a_bounded_number_of_pieces() {
    for family in Family::BOTH {
        for mss in [1460, 48, 1, 0] {
            let mut lab = Lab::new("sack_slowness", family);
            let mut hand = wide(&mut lab, mss);
            takes(&mut lab, &mut hand, 20);
            let under_way = of(&mut lab, |tcb| tcb.info().unacknowledged);
            for n in 0..5000_u32 {
                let mut options = Options::NONE;
                for block in 0..4 {
                    let left = hand.ack.wrapping_add(1 + (n * 4 + block) * 2 % under_way.max(8));
                    options.sack.push(SackBlock { left, right: left.wrapping_add(1) });
                }
                lab.send(&Header { options, ..hand.header(Flags::ACK) }, &[]);
                if n % 100 == 0 {
                    lab.run_for(MS);
                }
            }
            lab.run_for(10 * MS);
            let memory = of(&mut lab, tcp::tcb::Tcb::memory);
            assert!(memory <= (2 << 20) + 2 * PIECES_MAX * 32, "{memory} bytes");
            // It goes on as if nothing had been said.
            let was = hand.ack;
            takes(&mut lab, &mut hand, 10);
            assert!(before(was, hand.ack), "MSS {mss}");
            lab.send(&Header { seq: hand.seq, ..hand.header(Flags::RST) }, &[]);
            lab.end();
        }
    }
}

#[test]
fn what_was_never_sent_cannot_be_acknowledged() {
    for family in Family::BOTH {
        let mut lab = Lab::new("optimistic", family);
        let hand = wide(&mut lab, 1460);
        lab.heard();
        let (behind, window) = of(&mut lab, |tcb| {
            let info = tcb.info();
            (info.unacknowledged, info.snd_cwnd)
        });
        for ahead in [1, 1460, 1 << 20, 1 << 31] {
            let ack = hand.ack.wrapping_add(behind).wrapping_add(ahead);
            let got = lab.ask(&Header { ack, ..hand.header(Flags::ACK) }, &[]);
            assert!(got.iter().filter(|got| got.len == 0).count() <= 1, "one challenge at the most: {got:?}");
        }
        assert_eq!(of(&mut lab, |tcb| tcb.info().snd_cwnd), window, "which lets nothing out");
        lab.end();
    }
}

#[test]
fn split_acknowledgments_do_not_grow_the_window_faster() {
    for family in Family::BOTH {
        let mut windows = [20, 1460].map(|step| {
            let mut lab = Lab::new("division", family);
            let hand = wide(&mut lab, 1460);
            let before = of(&mut lab, |tcb| tcb.info().snd_cwnd);
            for at in (step..=2920).step_by(step) {
                let ack = hand.ack.wrapping_add(u32::try_from(at).unwrap());
                lab.send(&Header { ack, ..hand.header(Flags::ACK) }, &[]);
            }
            lab.run_for(2 * MS);
            let grown = of(&mut lab, |tcb| tcb.info().snd_cwnd) - before;
            lab.end();
            grown
        });
        windows.sort_unstable();
        assert_eq!(windows, [2920, 2920], "a byte for a byte");
    }
}

#[test]
fn data_that_the_peer_reneged_on_is_sent_again() {
    for family in Family::BOTH {
        let mut lab = Lab::new("reneging", family);
        let mut hand = wide(&mut lab, 1460);
        lab.heard();
        let mut options = Options::NONE;
        options
            .sack
            .push(SackBlock { left: hand.ack.wrapping_add(1460), right: hand.ack.wrapping_add(14_600) });
        lab.send(&Header { options, ..hand.header(Flags::ACK) }, &[]);
        lab.run_for(20 * MS);
        lab.heard();
        // Only the first segment has come, after all; and no block is said any more.
        hand.ack = hand.ack.wrapping_add(1460);
        lab.send(&hand.header(Flags::ACK), &[]);
        lab.run_for(3 * SECOND);
        assert!(lab.heard().iter().any(|got| got.seq == hand.ack && got.len > 0), "all of it comes again");
        lab.end();
    }
}

#[test]
fn blocks_that_lie_about_what_came_twice_change_nothing() {
    for family in Family::BOTH {
        let mut lab = Lab::new("dsack_lies", family);
        let mut hand = wide(&mut lab, 1460);
        takes(&mut lab, &mut hand, 4);
        let window = of(&mut lab, |tcb| tcb.info().snd_cwnd);
        for n in 0..1000_u32 {
            let mut options = Options::NONE;
            let left = hand.ack.wrapping_sub(1460 * (n % 50 + 1));
            options.sack.push(SackBlock { left, right: left.wrapping_add(1460) });
            lab.send(&Header { options, ..hand.header(Flags::ACK) }, &[]);
        }
        lab.run_for(10 * MS);
        assert_eq!(of(&mut lab, |tcb| tcb.info().snd_cwnd), window);
        lab.end();
    }
}

#[test]
fn a_window_that_shrinks_closes_or_cannot_be_is_taken_for_what_it_is() {
    for family in Family::BOTH {
        let mut lab = Lab::new("windows", family);
        let options = Options { mss: Some(1460), window_scale: Some(200), ..Options::NONE };
        let mut hand = lab.open_with(CHARGEN, options, 4);
        lab.run_for(2 * MS);
        // A shift of 14 at the most: four times 2^14 bytes.
        takes(&mut lab, &mut hand, 12);
        let sent = of(&mut lab, |tcb| tcb.info().unacknowledged);
        assert!(sent <= 65_536 && sent > 32_768, "{sent}");
        // The right edge moves back to the left: nothing is sent until it is free again.
        hand.window = 1;
        lab.heard();
        lab.send(&hand.header(Flags::ACK), &[]);
        lab.run_for(5 * MS);
        let behind = hand.ack.wrapping_add(sent);
        let new = |got: &Got| before(behind, got.seq.wrapping_add(1)) && got.len > 0;
        assert!(!lab.heard().iter().any(new));
        hand.window = 0;
        takes(&mut lab, &mut hand, 3);
        lab.heard();
        lab.run_for(20 * SECOND);
        // RFC 9293 §3.8.6: what was sent may be sent again, though it does not fit any more; nothing new is.
        let probes = lab.heard();
        assert!(!probes.is_empty() && probes.len() < 20 && !probes.iter().any(new), "{probes:?}");
        hand.window = 4;
        takes(&mut lab, &mut hand, 3);
        assert!(of(&mut lab, |tcb| tcb.info().unacknowledged) > 1460, "and it goes on");
        lab.end();
    }
}

#[test]
fn urgent_pointers_that_point_nowhere_take_nothing_from_the_stream() {
    for family in Family::BOTH {
        let mut lab = Lab::new("urgent", family);
        let mut hand = lab.open(DISCARD);
        let cases = [(Flags::ACK, 9), (Flags::ACK | Flags::URG, 0), (Flags::ACK | Flags::URG, u16::MAX)];
        for (flags, urgent) in cases {
            lab.send(&Header { urgent, ..hand.header(flags) }, b"stream");
            hand.seq += 6;
        }
        lab.run_for(10 * MS);
        assert_eq!(of(&mut lab, tcp::tcb::Tcb::readable), 18, "it is all in the stream");
        // Of the next connection nothing is known of it.
        lab.answers();
        lab.end();
    }
}
