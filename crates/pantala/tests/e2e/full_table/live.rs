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

use dev::netlink::{Heard, RouteMonitor};
use dev::netns::Netns;
use wire::rtnetlink::{Content, Route, messages};

use super::{LONG, Net, count, routes};
use crate::lab::{Family, at};
use crate::wait::{until_right, within};

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

/// Notes when the kernel in which FRR runs has the last network of each round.
fn watch_kernel(netns: &Netns) -> [Arc<Reached>; 2] {
    let told = [(); 2].map(|()| Arc::<Reached>::default());
    let weak = told.each_ref().map(Arc::downgrade);
    let mut monitor = netns.run(RouteMonitor::open).unwrap().unwrap();
    thread::spawn(move || {
        while let [Some(v4), Some(v6)] = weak.each_ref().map(Weak::upgrade) {
            match monitor.read() {
                Ok(Heard::Messages(bytes)) => {
                    let heard = messages(bytes).flatten().filter_map(|message| message.content().ok());
                    for content in heard {
                        let Content::NewRoute(Route { to, .. }) = content else { continue };
                        let (told, round) = (Family::of(to).pick(&v4, &v6), round_of(to));
                        let Some(round) = round else { continue };
                        if let Some(first) = told.lock().unwrap().get_mut(round) {
                            first.get_or_insert_with(Instant::now);
                        }
                    }
                }
                _ => thread::sleep(PROBE),
            }
        }
    });
    told
}

/// The round whose last network begins with an address.
fn round_of(to: IpAddr) -> Option<usize> {
    let round = match to {
        IpAddr::V4(to) => {
            Some(to.to_bits()).filter(|bits| bits >> 24 == 41).map(|bits| bits >> 8 & 0xffff)?
        }
        IpAddr::V6(to) => {
            let bits = Some(to.to_bits()).filter(|bits| bits >> 112 == 0x2402)?;
            u32::try_from(bits >> 80 & 0xffff_ffff).ok()?
        }
    };
    usize::try_from(round).ok()
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

/// Times of a round: until the kernel of FRR has its last network, and until packets go there.
type Delays = Vec<(Option<Duration>, Duration)>;

fn delays(sent: &[Instant], kernel: &Reached, reached: &Reached) -> Delays {
    let (kernel, reached) = (kernel.lock().unwrap(), reached.lock().unwrap());
    let since = |sent: &Instant, at: Instant| at.saturating_duration_since(*sent);
    let times = sent.iter().zip(kernel.iter()).zip(reached.iter());
    times.map(|((sent, told), at)| (told.map(|told| since(sent, told)), since(sent, at.unwrap()))).collect()
}

fn text(all: u64, delays: [Delays; 2], lost: &[(usize, usize); 4]) -> String {
    let mut text = format!(
        "{all} routes, {} rounds of {CHANGES} changes; ms: median, 99 of 100, most\n\
         | | kernel of FRR | packets go there | from the one to the other | lost |\n|---|---|---|---|---|\n",
        delays[0].len()
    );
    for ((family, delays), at) in Family::BOTH.into_iter().zip(delays).zip([0, 1]) {
        let of = |mut delays: Vec<Duration>| {
            delays.sort_unstable();
            [50, 99, 100]
                .map(|share| delays[(delays.len() - 1) * share / 100].as_millis().to_string())
                .join(", ")
        };
        // What overflowed the monitor's buffer is not known.
        let kernel = of(delays.iter().filter_map(|(told, _)| *told).collect());
        let all = of(delays.iter().map(|(_, at)| *at).collect());
        let own = of(delays.iter().filter_map(|(told, at)| Some(at.saturating_sub((*told)?))).collect());
        let (first, second) = (lost[at], lost[at + 2]);
        let (lost, sent) = (first.0 + second.0, first.1 + second.1);
        let name = family.pick("IPv4", "IPv6");
        writeln!(text, "| {name} | {kernel} | {all} | {own} | {lost} of {sent} |").unwrap();
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
    let told = watch_kernel(&net.lab.router);
    let mut orders = net.feeder.0.stdin.take().unwrap();
    let mut lines = BufReader::new(net.feeder.0.stdout.take().unwrap());
    let before = routes(&net.source());
    let begun = net.begin();
    let mut sent = Vec::new();
    for round in 0..rounds {
        reached.iter().chain(&told).for_each(|times| times.lock().unwrap().push(None));
        writeln!(orders, "round {round} {CHANGES}").unwrap();
        sent.push(was_sent(&mut lines, round));
        thread::sleep((ROUND * (round + 1)).saturating_sub(begun.at.elapsed()));
    }
    let missing = || {
        let missing =
            |reached: &Arc<Reached>| reached.lock().unwrap().iter().filter(|at| at.is_none()).count();
        reached.iter().map(missing).sum::<usize>()
    };
    // FRR takes its time where others use the processors as well.
    let is_reached = within(LONG, || (missing() == 0).then_some(()));
    assert!(is_reached.is_some(), "the last networks of {} rounds are not reached", missing());
    let expected = before + 2 * u64::from(rounds) + u64::from(rounds % 2) * u64::from(CHANGES);
    until_right("routes", || routes(&net.source()), |routes| *routes == expected);
    let lost = net.lost_since(&begun);
    let delays = [0, 1].map(|at: usize| delays(&sent, &told[at], &reached[at]));
    println!("of each round, IPv4: {:?}", delays[0]);
    let text = text(before, delays, &lost);
    println!("{text}");
    super::keep("live_feed.md", &text);
    assert!(lost.iter().all(|(lost, _)| *lost == 0), "lost, of how many: {lost:?}");
}
