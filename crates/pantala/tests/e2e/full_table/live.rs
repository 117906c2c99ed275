//! A live feed of BGP: how far the table is behind its last message.

use core::fmt::Write as _;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::process::ChildStdout;
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Instant;

use dev::netns::Netns;

use super::{Net, count, routes};
use crate::lab::{Family, at};
use crate::wait::until_right;

/// Changes of a round, and the time between two: 10,000 a second.
const CHANGES: u32 = 1000;
const ROUND: Duration = Duration::from_millis(100);
/// Rounds, unless `PANTALA_ROUNDS` says how many.
const ROUNDS: u32 = 30;
/// UDP ports on which the networks of rounds are reached, by family.
const PORTS: [u16; 2] = [4444, 4445];
/// Time between two datagrams to a network that is not reached yet.
const PROBE: Duration = Duration::from_millis(1);

/// An address in the network that is announced as the last one of a round.
fn last_of(family: Family, round: u32) -> IpAddr {
    let v4 = Ipv4Addr::from_bits((41 << 24) + (round << 8) + 1);
    let v6 = Ipv6Addr::from_bits(0x2402 << 112 | u128::from(round) << 80 | 1);
    family.pick(v4.into(), v6.into())
}

/// Times at which the last network of each round was reached first, those of rounds that have begun.
type Reached = Mutex<Vec<Option<Instant>>>;

/// Sends to the last network of each round that has begun, until it is reached.
fn probe(from: &Netns, to: &Netns, family: Family) -> Arc<Reached> {
    let reached = Arc::<Reached>::default();
    let bind = |netns: &Netns, port| netns.run(|| UdpSocket::bind((family.any(), port))).unwrap().unwrap();
    let (sender, receiver) = (bind(from, 0), bind(to, family.pick(PORTS[0], PORTS[1])));
    let weak = Arc::downgrade(&reached);
    thread::spawn(move || send(&sender, &weak, family));
    let weak = Arc::downgrade(&reached);
    thread::spawn(move || receive(&receiver, &weak));
    reached
}

fn send(socket: &UdpSocket, reached: &Weak<Reached>, family: Family) {
    while let Some(reached) = reached.upgrade() {
        let awaited: Vec<usize> = {
            let reached = reached.lock().unwrap();
            (0..reached.len()).filter(|round| reached[*round].is_none()).collect()
        };
        for round in awaited {
            let round = u32::try_from(round).unwrap();
            let to = at(last_of(family, round), family.pick(PORTS[0], PORTS[1]));
            let _ = socket.send_to(&round.to_be_bytes(), to);
        }
        drop(reached);
        thread::sleep(PROBE);
    }
}

fn receive(socket: &UdpSocket, reached: &Weak<Reached>) {
    socket.set_read_timeout(Some(ROUND)).unwrap();
    let mut bytes = [0; 4];
    while let Some(reached) = reached.upgrade() {
        if socket.recv(&mut bytes).is_ok() {
            let mut reached = reached.lock().unwrap();
            let round = u32::from_be_bytes(bytes) as usize;
            if let Some(first) = reached.get_mut(round) {
                first.get_or_insert_with(Instant::now);
            }
        }
    }
}

/// Waits until the feeder says that a round was sent.
fn was_sent(lines: &mut BufReader<ChildStdout>, round: u32) -> Instant {
    let (mut line, wanted) = (String::new(), format!("round {round}"));
    while line.trim() != wanted {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "the feeder is there");
    }
    Instant::now()
}

fn text(all: u64, rounds: u32, delays: [Vec<Duration>; 2], lost: &[(usize, usize); 4]) -> String {
    let mut text = format!(
        "{all} routes, {rounds} rounds of {CHANGES} changes\n| | ms, median | 99 of 100 | most | lost |\n|---|---|---|---|---|\n"
    );
    for ((family, mut delays), at) in Family::BOTH.into_iter().zip(delays).zip([0, 1]) {
        delays.sort_unstable();
        let of = |share: usize| delays[(delays.len() - 1) * share / 100].as_millis();
        let (first, second) = (lost[at], lost[at + 2]);
        let (lost, sent) = (first.0 + second.0, first.1 + second.1);
        writeln!(
            text,
            "| {} | {} | {} | {} | {lost} of {sent} |",
            family.pick("IPv4", "IPv6"),
            of(50),
            of(99),
            of(100)
        )
        .unwrap();
    }
    text
}

pub(super) fn a_live_feed_is_followed_and_no_packet_is_lost_meanwhile() {
    let rounds = std::env::var("PANTALA_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let all = count() + count() / 4;
    let test = "full_table::a_live_feed_is_followed_and_no_packet_is_lost_meanwhile";
    let Some(mut net) = Net::build(test, count()) else { return };
    let begun = net.begin();
    net.takes("all routes are in force", begun, |source| routes(source) >= all);
    net.is_whole();
    let [probing, answering] = [1, 2].map(|at: usize| &net.lab.hosts[at].netns);
    let reached = Family::BOTH.map(|family| probe(probing, answering, family));
    let mut orders = net.feeder.0.stdin.take().unwrap();
    let mut lines = BufReader::new(net.feeder.0.stdout.take().unwrap());
    let before = routes(&net.source());
    let begun = net.begin();
    let mut sent = Vec::new();
    for round in 0..rounds {
        reached.iter().for_each(|reached| reached.lock().unwrap().push(None));
        writeln!(orders, "round {round} {CHANGES}").unwrap();
        sent.push(was_sent(&mut lines, round));
        thread::sleep((ROUND * (round + 1)).saturating_sub(begun.at.elapsed()));
    }
    let missing = || {
        let missing =
            |reached: &Arc<Reached>| reached.lock().unwrap().iter().filter(|at| at.is_none()).count();
        reached.iter().map(missing).sum::<usize>()
    };
    until_right("the last network of each round is reached", missing, |missing| *missing == 0);
    let expected = before + 2 * u64::from(rounds) + u64::from(rounds % 2) * u64::from(CHANGES);
    until_right("routes", || routes(&net.source()), |routes| *routes == expected);
    let delays = reached.map(|reached| {
        let reached = reached.lock().unwrap();
        reached.iter().zip(&sent).map(|(at, sent)| at.unwrap().saturating_duration_since(*sent)).collect()
    });
    let lost = net.lost_since(&begun);
    let text = text(before, rounds, delays, &lost);
    println!("{text}");
    super::keep("live_feed.md", &text);
    assert!(lost.iter().all(|(lost, _)| *lost == 0), "lost, of how many: {lost:?}");
}
