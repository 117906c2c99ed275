//! Attacks by silent, or nearly silent, peers.

use net::count::Count;
use sim::plan::Family;
use wire::tcp::{Flags, Header, Options};

use super::*;

/// Connections that are opened by the hundred.
const MANY: usize = 500;

#[test]
fn zero_window_peers_hold_no_more_than_the_send_buffers() {
    for family in Family::BOTH {
        let mut lab = Lab::new("sockstress", family);
        let options = Options { mss: Some(1460), ..Options::NONE };
        let mut hands: Vec<Hand> = (0..MANY).map(|_| lab.open_with(CHARGEN, options, 0)).collect();
        lab.run_for(10 * MS);
        assert_eq!(lab.held.len(), MANY);
        let each = lab.memory() / MANY;
        assert!(each <= 80_000, "{each} bytes for each: a buffer, and what is known of the connection");
        // As long as probes are answered, the connections stand (RFC 9293 §3.8.6.1, MUST-37).
        for _ in 0..120 {
            lab.run_for(SECOND);
            let got = lab.heard();
            for hand in &mut hands {
                if got.iter().any(|got| got.ports == hand.ports) {
                    lab.send(&hand.header(Flags::ACK), &[]);
                }
            }
        }
        assert_eq!(lab.connections(), MANY);
        let probes = lab.heard().len();
        assert!(probes <= MANY, "{probes}");
        // The connection gives up after its last timeout; `end` checks that.
        lab.end();
    }
}

#[test]
fn a_program_that_has_gone_waits_for_a_shut_window_no_longer_than_for_an_answer() {
    for family in Family::BOTH {
        let mut lab = Lab::new("orphans", family);
        let options = Options { mss: Some(1460), ..Options::NONE };
        let mut hands: Vec<Hand> = (0..20).map(|_| lab.open_with(CHARGEN, options, 0)).collect();
        lab.run_for(10 * MS);
        lab.close_all();
        // Each probe is answered: the window stays shut.
        for _ in 0..900 {
            lab.world.run_for(SECOND);
            let got = lab.heard();
            for hand in &mut hands {
                if got.iter().any(|got| got.ports == hand.ports && !got.flags.rst()) {
                    lab.send(&hand.header(Flags::ACK), &[]);
                }
            }
        }
        assert_eq!(lab.connections(), 0, "what nobody waits for does not stay because of who holds it");
        lab.end();
    }
}

#[test]
fn connections_that_are_opened_and_left_alone_end_with_their_programs() {
    for family in Family::BOTH {
        let mut lab = Lab::new("naptha", family);
        for _ in 0..MANY {
            lab.open_with(DISCARD, Options::NONE, 1024);
        }
        lab.run_for(10 * MS);
        assert_eq!(lab.connections(), MANY);
        let each = lab.memory() / MANY;
        assert!(each <= 4096, "{each} bytes for each");
        lab.end();
    }
}

#[test]
fn what_was_opened_and_is_not_accepted_is_no_more_than_the_backlog() {
    for family in Family::BOTH {
        let mut lab = Lab::new("backlog", family);
        for n in 0..1000_u16 {
            let mut hand = Hand { ports: [4000 + n, DISCARD], seq: 1, ack: 0, window: 1024 };
            lab.heard();
            lab.send(&hand.header(Flags::SYN), &[]);
            // Without the programs that would accept.
            lab.world.run_for(2 * MS);
            let got = lab.heard();
            (hand.seq, hand.ack) = (2, got[0].seq.wrapping_add(1));
            lab.send(&hand.header(Flags::ACK), &[]);
        }
        lab.world.run_for(10 * MS);
        assert_eq!(count(&mut lab, Count::TcpAccepts), 128, "64 on each of two CPUs");
        // The others are half-open, and are forgotten.
        lab.world.run_for(60 * SECOND);
        assert_eq!(lab.connections(), 128);
        lab.end();
    }
}

fn count(lab: &mut Lab, event: Count) -> u64 {
    lab.world.of(lab.host).count(event)
}

#[test]
fn an_old_duplicate_ends_no_time_wait_and_a_new_beginning_does() {
    for family in Family::BOTH {
        let mut lab = Lab::new("time_wait", family);
        let mut hand = lab.open(DISCARD);
        lab.close_all();
        lab.world.run_for(2 * MS);
        hand.ack = hand.ack.wrapping_add(1);
        lab.ask(&hand.header(Flags::ACK | Flags::FIN), &[]);
        hand.seq += 1;
        let resets = [hand.seq, hand.seq + 1, hand.seq - 1, hand.seq + 30_000];
        for seq in resets {
            assert_eq!(lab.ask(&Header { seq, ..hand.header(Flags::RST) }, &[]), []);
        }
        for seq in [hand.seq - 2, hand.seq.wrapping_sub(1 << 20)] {
            let old = Header { seq, ..hand.header(Flags::SYN) };
            let got = lab.ask(&old, &[]);
            assert_eq!((got.len(), got[0].flags), (1, Flags::ACK), "an old SYN is acknowledged and no more");
        }
        assert_eq!(lab.connections(), 1, "TIME-WAIT lasts");
        let again = Header { seq: hand.seq + 100, ..hand.header(Flags::SYN) };
        let got = lab.ask(&again, &[]);
        assert_eq!(got[0].flags, Flags::SYN | Flags::ACK, "a SYN behind all that was sent begins anew");
        lab.end();
    }
}

#[test]
fn an_acknowledgment_loop_dies_out() {
    for family in Family::BOTH {
        for is_waiting in [false, true] {
            let mut lab = Lab::new("ack_storm", family);
            let mut hand = lab.open(DISCARD);
            if is_waiting {
                lab.close_all();
                lab.world.run_for(2 * MS);
                hand.ack = hand.ack.wrapping_add(1);
                lab.ask(&hand.header(Flags::ACK | Flags::FIN), &[]);
            }
            // Both ends were told lies: what each acknowledges is nothing to the other, which says so, and so on.
            hand.seq += 100_000;
            lab.heard();
            let mut answers = 0;
            for _ in 0..2000 {
                lab.send(&hand.header(Flags::ACK), &[]);
                lab.run_for(MS);
                answers += lab.heard().len();
            }
            assert!((1..=20).contains(&answers), "{answers} answers in two seconds");
            lab.run_for(2 * SECOND);
            lab.end();
        }
    }
}
