//! Attacks by silent, or nearly silent, peers.

use net::count::Count;
use sim::plan::Family;
use wire::tcp::{Flags, Header, Options};

use super::*;

/// Connections that are opened by the hundred.
const MANY: usize = 500;

#[test]
fn who_opens_connections_and_keeps_their_windows_shut_holds_no_more_than_their_programs_do() {
    for family in Family::BOTH {
        let mut siege = Siege::new("sockstress", family);
        let options = Options { mss: Some(1460), ..Options::NONE };
        let mut hands: Vec<Hand> = (0..MANY).map(|_| siege.open_with(CHARGEN, options, 0)).collect();
        siege.run_for(10 * MS);
        assert_eq!(siege.held.len(), MANY);
        let each = siege.memory() / MANY;
        assert!(each <= 80_000, "{each} bytes for each: a buffer, and what is known of the connection");
        // As long as probes are answered, the connections stand (RFC 9293 §3.8.6.1, MUST-37).
        for _ in 0..120 {
            siege.run_for(SECOND);
            let got = siege.heard();
            for hand in &mut hands {
                if got.iter().any(|got| got.ports == hand.ports) {
                    siege.send(&hand.header(Flags::ACK), &[]);
                }
            }
        }
        assert_eq!(siege.connections(), MANY);
        let probes = siege.heard().len();
        assert!(probes <= MANY, "{probes}");
        // The connection gives up after its last timeout; `end` checks that.
        siege.end();
    }
}

#[test]
fn a_program_that_has_gone_waits_for_a_shut_window_no_longer_than_for_an_answer() {
    for family in Family::BOTH {
        let mut siege = Siege::new("orphans", family);
        let options = Options { mss: Some(1460), ..Options::NONE };
        let mut hands: Vec<Hand> = (0..20).map(|_| siege.open_with(CHARGEN, options, 0)).collect();
        siege.run_for(10 * MS);
        siege.close_all();
        // Each probe is answered: the window stays shut.
        for _ in 0..900 {
            siege.world.run_for(SECOND);
            let got = siege.heard();
            for hand in &mut hands {
                if got.iter().any(|got| got.ports == hand.ports && !got.flags.rst()) {
                    siege.send(&hand.header(Flags::ACK), &[]);
                }
            }
        }
        assert_eq!(siege.connections(), 0, "what nobody waits for does not stay because of who holds it");
        siege.end();
    }
}

#[test]
fn connections_that_are_opened_and_left_alone_end_with_their_programs() {
    for family in Family::BOTH {
        let mut siege = Siege::new("naptha", family);
        for _ in 0..MANY {
            siege.open_with(DISCARD, Options::NONE, 1024);
        }
        siege.run_for(10 * MS);
        assert_eq!(siege.connections(), MANY);
        let each = siege.memory() / MANY;
        assert!(each <= 4096, "{each} bytes for each");
        siege.end();
    }
}

#[test]
fn what_was_opened_and_is_not_accepted_is_no_more_than_the_backlog() {
    for family in Family::BOTH {
        let mut siege = Siege::new("backlog", family);
        for n in 0..1000_u16 {
            let mut hand = Hand { ports: [4000 + n, DISCARD], seq: 1, ack: 0, window: 1024 };
            siege.heard();
            siege.send(&hand.header(Flags::SYN), &[]);
            // Without the programs that would accept.
            siege.world.run_for(2 * MS);
            let got = siege.heard();
            (hand.seq, hand.ack) = (2, got[0].seq.wrapping_add(1));
            siege.send(&hand.header(Flags::ACK), &[]);
        }
        siege.world.run_for(10 * MS);
        assert_eq!(count(&mut siege, Count::TcpAccepts), 128, "64 on each of two CPUs");
        // The others are half-open, and are forgotten.
        siege.world.run_for(60 * SECOND);
        assert_eq!(siege.connections(), 128);
        siege.end();
    }
}

fn count(siege: &mut Siege, event: Count) -> u64 {
    siege.world.of(siege.host).count(event)
}

#[test]
fn an_old_duplicate_ends_no_time_wait_and_a_new_beginning_does() {
    for family in Family::BOTH {
        let mut siege = Siege::new("time_wait", family);
        let mut hand = siege.open(DISCARD);
        siege.close_all();
        siege.world.run_for(2 * MS);
        hand.ack = hand.ack.wrapping_add(1);
        siege.ask(&hand.header(Flags::ACK | Flags::FIN), &[]);
        hand.seq += 1;
        let resets = [hand.seq, hand.seq + 1, hand.seq - 1, hand.seq + 30_000];
        for seq in resets {
            assert_eq!(siege.ask(&Header { seq, ..hand.header(Flags::RST) }, &[]), []);
        }
        for seq in [hand.seq - 2, hand.seq.wrapping_sub(1 << 20)] {
            let old = Header { seq, ..hand.header(Flags::SYN) };
            let got = siege.ask(&old, &[]);
            assert_eq!((got.len(), got[0].flags), (1, Flags::ACK), "an old SYN is acknowledged and no more");
        }
        assert_eq!(siege.connections(), 1, "TIME-WAIT lasts");
        let again = Header { seq: hand.seq + 100, ..hand.header(Flags::SYN) };
        let got = siege.ask(&again, &[]);
        assert_eq!(got[0].flags, Flags::SYN | Flags::ACK, "a SYN behind all that was sent begins anew");
        siege.end();
    }
}

#[test]
fn a_loop_of_acknowledgments_that_nobody_expects_runs_down() {
    for family in Family::BOTH {
        for is_waiting in [false, true] {
            let mut siege = Siege::new("ack_storm", family);
            let mut hand = siege.open(DISCARD);
            if is_waiting {
                siege.close_all();
                siege.world.run_for(2 * MS);
                hand.ack = hand.ack.wrapping_add(1);
                siege.ask(&hand.header(Flags::ACK | Flags::FIN), &[]);
            }
            // Both ends were told lies: what each acknowledges is nothing to the other, which says so, and so on.
            hand.seq += 100_000;
            siege.heard();
            let mut answers = 0;
            for _ in 0..2000 {
                siege.send(&hand.header(Flags::ACK), &[]);
                siege.run_for(MS);
                answers += siege.heard().len();
            }
            assert!((1..=20).contains(&answers), "{answers} answers in two seconds");
            siege.run_for(2 * SECOND);
            siege.end();
        }
    }
}
