//! Time that leaps: a machine that slept, a virtual one that was stopped, a CPU that was taken away for hours. What was due
//! meanwhile is done once and in order, what has expired is gone, and what lives goes on.

use net::count::Count;
use net::tcp;
use net::time::Duration;
use sim::plan::Family;
use wire::tcp::{Flags, Header, Options};

use super::lab::CPUS;
use super::*;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// Seconds; the last is longer than milliseconds in 32 bits are.
const LEAPS: [u64; 5] = [MINUTE, HOUR, DAY, 50 * DAY, 400 * DAY];
/// Segments that a host may send of itself in the second after a leap, of the few connections that there are.
const STORM: usize = 60;
/// Turns of all CPUs in that second.
const TURNS_MAX: u64 = 5000;

/// No CPU of these turns until so much time is over; then a second passes.
fn leap(lab: &mut Lab, cpus: core::ops::Range<u16>, seconds: u64) {
    let until = lab.world.now() + Duration::from_secs(seconds);
    let host = lab.world.of(lab.host);
    host.cpus[usize::from(cpus.start)..usize::from(cpus.end)]
        .iter_mut()
        .for_each(|cpu| cpu.stall_until(until));
    lab.world.run_for(Duration::from_secs(seconds));
    lab.heard();
    let before = turns(lab);
    lab.world.run_for(SECOND);
    let (sent, turned) = (lab.heard().len(), turns(lab) - before);
    assert!(sent <= STORM && turned <= TURNS_MAX, "{sent} segments, {turned} turns behind {seconds} s");
}

fn turns(lab: &mut Lab) -> u64 {
    lab.world.of(lab.host).cpus.iter().map(|cpu| cpu.turns).sum()
}

/// A connection that is idle, one whose sender waits for an acknowledgment, one in TIME-WAIT, one half open.
fn connections(lab: &mut Lab) -> Hand {
    let (idle, _, mut over) = (lab.open(ECHO), lab.open(CHARGEN), lab.open(ECHO));
    // The end that closes first waits.
    let (at, port, id) = *lab.held.last().unwrap();
    let remote = lab.on(at, |cpu| tcp::connection(cpu, id).map(|(ends, _)| ends.remote().port()));
    assert_eq!((port, remote), (ECHO, Some(over.ports[0])));
    lab.on(at, |cpu| tcp::close(cpu, id)).unwrap();
    lab.held.pop();
    lab.run_for(2 * MS);
    over.ack = over.ack.wrapping_add(1);
    lab.ask(&over.header(Flags::ACK | Flags::FIN), &[]);
    let half = Hand { ports: [900, ECHO], seq: 5, ack: 0, window: 1000 };
    lab.send(&half.header(Flags::SYN), &[]);
    lab.run_for(2 * MS);
    idle
}

#[test]
fn time_that_leaps_for_all_cpus_or_one_expires_what_is_old_and_storms_nowhere() {
    for family in Family::BOTH {
        for (seconds, cpus) in
            LEAPS.into_iter().flat_map(|leap| [(leap, 0..CPUS), (leap, 0..1), (leap, 1..2)])
        {
            let mut lab = Lab::new("leap", family);
            let mut idle = connections(&mut lab);
            assert_eq!(lab.connections(), 4, "idle, waiting, TIME-WAIT, half open");
            leap(&mut lab, cpus, seconds);
            // Half open for a minute: its answers were not acknowledged; TIME-WAIT is a minute at the default.
            lab.world.run_for(Duration::from_secs(70));
            assert!(lab.connections() <= 2, "{} are left behind {seconds} s", lab.connections());
            let got = lab.ask(&idle.header(Flags::ACK | Flags::PSH), b"still here");
            assert_eq!(got.iter().map(|got| got.len).sum::<usize>(), 10, "behind {seconds} s: {got:?}");
            (idle.seq, idle.ack) = (idle.seq + 10, idle.ack.wrapping_add(10));
            lab.ask(&idle.header(Flags::ACK), &[]);
            lab.end();
        }
    }
}

#[test]
fn a_leap_fills_no_bucket_of_tokens_beyond_its_bound() {
    for family in Family::BOTH {
        let mut lab = Lab::new("tokens", family);
        leap(&mut lab, 0..CPUS, 400 * DAY);
        let count = |lab: &mut Lab| {
            let host = lab.world.of(lab.host);
            [Count::IcmpErrorsSent, Count::Icmp6ErrorsSent, Count::TcpResetsSent]
                .map(|event| host.count(event))
        };
        let before = count(&mut lab);
        let [to, _] = lab.addrs();
        for port in 0..5000 {
            let ip = lab.world.at(lab.foe).ip_to(to);
            lab.world.at(lab.foe).send_udp(ip, [9, 30_000 + port], b"anybody?");
            let hand = Hand { ports: [port + 1000, 30_000 + port], seq: 1, ack: 0, window: 9 };
            lab.send(&hand.header(Flags::SYN), &[]);
        }
        lab.run_for(SECOND);
        let answers = count(&mut lab).into_iter().zip(before).map(|(after, before)| after - before);
        assert!(answers.clone().all(|count| count <= 1000), "{:?}", answers.collect::<Vec<_>>());
        lab.end();
    }
}

/// Timestamps of both ends have gone round meanwhile, so that what comes looks old.
#[test]
fn a_connection_with_timestamps_goes_on_when_it_was_idle_for_25_days() {
    for family in Family::BOTH {
        let mut lab = Lab::new("idle_25_days", family);
        let stamps = |value| Options { timestamps: Some((value, 0)), ..Options::NONE };
        let hand = lab.open_with(ECHO, stamps(1), 60_000);
        lab.send(&Header { options: stamps(2), ..hand.header(Flags::ACK) }, &[]);
        lab.run_for(2 * MS);
        leap(&mut lab, 0..CPUS, 25 * DAY);
        let now = u32::try_from((25 * DAY * 1000) & u64::from(u32::MAX)).unwrap();
        let header =
            Header { options: stamps(1_u32.wrapping_add(now)), ..hand.header(Flags::ACK | Flags::PSH) };
        let got = lab.ask(&header, b"still here");
        assert_eq!(got.iter().map(|got| got.len).sum::<usize>(), 10, "{got:?}");
        lab.end();
    }
}
