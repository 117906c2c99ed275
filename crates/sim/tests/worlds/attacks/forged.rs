//! Off-path attacks and guesses.

use net::count::Count;
use net::tcp::{self, Id};
use sim::builder::{self, Ip};
use sim::plan::Family;
use sim::station::Content;
use wire::tcp::{Flags, Header, Options};
use wire::{icmp4, icmp6};

use super::*;

/// The host's end of the only connection.
fn held(lab: &Lab) -> (usize, Id) {
    (lab.held[0].0, lab.held[0].2)
}

fn state(lab: &mut Lab) -> Option<tcp::tcb::State> {
    let (at, id) = held(lab);
    lab.on(at, |cpu| tcp::connection(cpu, id).map(|(_, tcb)| tcb.state()))
}

/// The connection stands, and bytes go both ways on it.
fn works(lab: &mut Lab, hand: &mut Hand) {
    let got = lab.ask(&hand.header(Flags::ACK | Flags::PSH), b"still?");
    assert_eq!(got.iter().map(|got| got.len).sum::<usize>(), 6, "{got:?}");
    (hand.seq, hand.ack) = (hand.seq + 6, hand.ack.wrapping_add(6));
    lab.send(&hand.header(Flags::ACK), &[]);
    lab.run_for(50 * MS);
}

#[test]
fn resets_and_syns_that_are_guessed_end_nothing() {
    for family in Family::BOTH {
        let mut lab = Lab::new("blind", family);
        let mut hand = lab.open(ECHO);
        for step in 1..2000_u32 {
            let seq = hand.seq.wrapping_add(step.wrapping_mul(2_147_479));
            lab.send(&Header { seq, ..hand.header(Flags::RST) }, &[]);
            lab.send(&Header { seq, ..hand.header(Flags::RST | Flags::ACK) }, &[]);
            lab.send(&Header { seq, ..hand.header(Flags::SYN) }, &[]);
            if step % 50 == 0 {
                lab.run_for(MS);
            }
        }
        assert_eq!(state(&mut lab), Some(tcp::tcb::State::Established));
        let challenges = lab.heard().len();
        assert!(challenges < 300, "{challenges} challenges");
        lab.run_for(2 * SECOND);
        works(&mut lab, &mut hand);
        // The right number ends it at once.
        lab.ask(&hand.header(Flags::RST), &[]);
        assert!(lab.held.is_empty());
        lab.end();
    }
}

#[test]
fn data_with_an_acknowledgment_that_is_guessed_is_not_taken() {
    for family in Family::BOTH {
        let mut lab = Lab::new("blind_data", family);
        let mut hand = lab.open(ECHO);
        // The window was never wider than 65,535 bytes: older than that, or never sent, is discarded (RFC 5961 §5.2).
        for ack in [hand.ack.wrapping_add(1), hand.ack.wrapping_sub(70_000), hand.ack.wrapping_add(1 << 31)] {
            let got = lab.ask(&Header { ack, ..hand.header(Flags::ACK) }, b"forged");
            assert_eq!((got.len(), got[0].len, got[0].ack), (1, 0, hand.seq), "a challenge");
        }
        works(&mut lab, &mut hand);
        lab.end();
    }
}

/// Challenges counted at one connection reveal nothing of another (CVE-2016-5696).
#[test]
fn challenges_to_one_say_nothing_of_challenges_to_another() {
    for family in Family::BOTH {
        let mut heard = [false, true].map(|others_too| {
            let mut lab = Lab::new("challenges", family);
            let (hand, other) = (lab.open(ECHO), lab.open(ECHO));
            lab.heard();
            for _ in 0..(if others_too { 200 } else { 0 }) {
                // Of another host: it is another account.
                let [to, _] = lab.addrs();
                let from = lab.family.addr(1, 3);
                let header = Header { seq: other.seq + 5, ..other.header(Flags::RST) };
                lab.throw(&builder::tcp(Ip::new(from, to), &header, &[]));
            }
            for _ in 0..50 {
                lab.send(&Header { seq: hand.seq + 5, ..hand.header(Flags::RST) }, &[]);
                lab.run_for(20 * MS);
            }
            let count = lab.heard().iter().filter(|got| got.ports == hand.ports).count();
            lab.end();
            count
        });
        heard.sort_unstable();
        // Five in this second, whatever the other connection is asked.
        assert_eq!(heard, [5, 5]);
    }
}

#[test]
fn errors_of_icmp_whose_quote_is_guessed_are_not_believed_and_none_makes_segments_tiny() {
    for family in Family::BOTH {
        let mut lab = Lab::new("icmp_lies", family);
        let mut hand = lab.open(ECHO);
        // A segment that is not acknowledged is under way.
        lab.send(&hand.header(Flags::ACK | Flags::PSH), b"hello");
        lab.run_for(5 * MS);
        let mss = |lab: &mut Lab| {
            let (at, id) = held(lab);
            lab.on(at, |cpu| tcp::connection(cpu, id).unwrap().1.info().snd_mss)
        };
        let before = mss(&mut lab);
        let quote = |seq: u32| Header {
            seq,
            ..Hand { ports: [hand.ports[1], hand.ports[0]], seq, ack: hand.seq, window: 9 }.header(Flags::ACK)
        };
        for seq in [hand.ack.wrapping_sub(1), hand.ack.wrapping_add(5), hand.ack.wrapping_add(1 << 30)] {
            for mtu in [0, 68, 576, 1280, 1400] {
                too_big(&mut lab, &quote(seq), mtu);
            }
            unreachable(&mut lab, &quote(seq));
        }
        lab.run_for(10 * MS);
        assert_eq!(mss(&mut lab), before, "what was not under way");
        assert_eq!(state(&mut lab), Some(tcp::tcb::State::Established));
        unreachable(&mut lab, &quote(hand.ack));
        for mtu in [0, 67, 68, 100] {
            too_big(&mut lab, &quote(hand.ack), mtu);
        }
        lab.run_for(10 * MS);
        assert_eq!(
            state(&mut lab),
            Some(tcp::tcb::State::Established),
            "an error that may be true ends nothing"
        );
        let least = if family == Family::V4 { 216 } else { 1220 };
        assert!(mss(&mut lab) >= least, "{}", mss(&mut lab));
        (hand.seq, hand.ack) = (hand.seq + 5, hand.ack.wrapping_add(5));
        lab.send(&hand.header(Flags::ACK), &[]);
        lab.run_for(2 * SECOND);
        works(&mut lab, &mut hand);
        lab.end();
    }
}

/// An error about a segment of the host, from its router.
fn error(lab: &mut Lab, quoted: &Header, v4: icmp4::Message, v6: icmp6::Message) {
    let [host, foe] = lab.addrs();
    let quoted = builder::tcp(Ip::new(host, foe), quoted, b"hello");
    let packet = match (foe, host) {
        (core::net::IpAddr::V6(src), core::net::IpAddr::V6(dst)) => {
            let header = v6.to_bytes(src, dst, &quoted);
            builder::packet(Ip::new(foe, host), wire::Protocol::ICMP6, &[&header, &quoted[..]].concat())
        }
        _ => {
            let header = v4.to_bytes(&quoted);
            builder::packet(Ip::new(foe, host), wire::Protocol::ICMP, &[&header, &quoted[..]].concat())
        }
    };
    lab.throw(&packet);
}

fn too_big(lab: &mut Lab, quoted: &Header, mtu: u16) {
    let v4 = icmp4::Message::Unreachable { code: icmp4::unreachable::FRAGMENTATION_NEEDED, mtu };
    error(lab, quoted, v4, icmp6::Message::PacketTooBig { mtu: mtu.into() });
}

fn unreachable(lab: &mut Lab, quoted: &Header) {
    let v4 = icmp4::Message::Unreachable { code: icmp4::unreachable::PORT, mtu: 0 };
    error(lab, quoted, v4, icmp6::Message::Unreachable { code: icmp6::unreachable::PORT });
}

#[test]
fn old_and_missing_timestamps_are_not_taken_and_a_reset_needs_none() {
    for family in Family::BOTH {
        let mut lab = Lab::new("timestamps", family);
        let stamped = |value| Options { timestamps: Some((value, 0)), ..Options::NONE };
        let syn = Options { mss: Some(1460), ..stamped(u32::MAX - 5) };
        let mut hand = lab.open_with(ECHO, syn, 65_535);
        lab.run_for(2 * MS);
        // The stamps run round.
        for value in [u32::MAX - 1, 3, 7] {
            let got = lab.ask(&Header { options: stamped(value), ..hand.header(Flags::ACK) }, b"new");
            assert_eq!(got.iter().map(|got| got.len).sum::<usize>(), 3, "{value}: {got:?}");
            (hand.seq, hand.ack) = (hand.seq + 3, hand.ack.wrapping_add(3));
            lab.send(&Header { options: stamped(value), ..hand.header(Flags::ACK) }, &[]);
            lab.run_for(50 * MS);
        }
        for options in [stamped(6), stamped(u32::MAX), stamped(0), Options::NONE] {
            let got = lab.ask(&Header { options, ..hand.header(Flags::ACK) }, b"old");
            assert!(got.iter().all(|got| got.len == 0 && got.ack == hand.seq), "{options:?}: {got:?}");
        }
        lab.ask(&Header { options: stamped(1), ..hand.header(Flags::RST) }, &[]);
        assert!(lab.held.is_empty(), "a reset with the right number counts, whatever its stamp");
        lab.end();
    }
}

/// The identification of IPv4 packets that are not cut must not tell how many were sent to others (RFC 6864 §4.1).
#[test]
fn identifications_count_nothing() {
    let mut lab = Lab::new("ip_id", Family::V4);
    let mut ids = Vec::new();
    let cable = sim::world::CableId(0);
    for n in 0..100 {
        lab.ask(&Hand { ports: [4000 + n, 4321], seq: 1, ack: 0, window: 1 }.header(Flags::SYN), &[]);
        lab.run_for(20 * MS);
    }
    for (_, frame) in lab.world.on(cable).tape.frames() {
        if let Some(packet) = frame.get(14..).filter(|packet| packet[0] == 0x45 && packet[15] == 1) {
            ids.push((u16::from_be_bytes([packet[4], packet[5]]), packet[6] & 0x40 != 0));
        }
    }
    assert!(ids.len() >= 100, "{}", ids.len());
    assert!(ids.iter().all(|(id, is_whole)| *is_whole && *id == 0), "{ids:?}");
    lab.end();
}

#[test]
fn datagrams_that_cannot_be_are_dropped_and_closed_ports_answer_few() {
    for family in Family::BOTH {
        let mut lab = Lab::new("datagrams", family);
        let [to, from] = lab.addrs();
        let at = if family == Family::V4 { 20 } else { 40 };
        let whole = builder::udp(Ip::new(from, to), [9, ECHO], b"hello");
        // Shorter than a header, longer than the packet, no sum, a wrong sum, no port.
        let changes: [(usize, [u8; 2]); 5] =
            [(4, [0, 7]), (4, [0, 99]), (4, [0, 0]), (6, [1, 1]), (2, [0, 0])];
        lab.world.at(lab.foe).heard.clear();
        for (field, bytes) in changes {
            let mut packet = whole.clone();
            packet[at + field..at + field + 2].copy_from_slice(&bytes);
            lab.throw(&packet);
        }
        lab.run_for(10 * MS);
        let is_udp = |heard: &sim::station::ReceivedPacket| matches!(heard.what, Content::Udp { .. });
        assert!(!lab.world.at(lab.foe).has_heard(is_udp));
        assert!(lab.world.of(lab.host).dropped_in_all() >= 5);
        for n in 0..5000_u16 {
            let packet = builder::udp(Ip::new(from, to), [n + 1, 4321], b"anybody?");
            lab.throw(&packet);
            if n % 50 == 0 {
                lab.run_for(MS);
            }
        }
        let errors = lab.world.at(lab.foe).errors().count();
        assert!((20..100).contains(&errors), "{errors} errors");
        let limited = [Count::IcmpErrorsLimited, Count::Icmp6ErrorsLimited];
        assert!(limited.iter().any(|event| lab.world.of(lab.host).count(*event) > 1000));
        lab.run_for(2 * SECOND);
        lab.end();
    }
}
