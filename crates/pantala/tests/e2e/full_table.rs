//! A full table of BGP through twins, and what becomes of it, and of flows, when one of the daemons is killed.
//!
//! ```text
//!   BIRD    ── twin1 ┐
//!   FRR     ── twin2 ├ pantala, FRR on its twins         OSPF by two routers, BGP with all three, BFD
//!   feeder  ── twin3 ┘
//! ```
//!
//! `PANTALA_ROUTES=N` says how many IPv4 routes there are, and a quarter as many of IPv6; the times are printed, and kept in files in the
//! folder that `PANTALA_OFFICE` names.

mod flow;
mod live;

use core::fmt::Write;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use dev::sys::process::end_with_parent;
use ipnet::IpNet;
use serde_json::Value;

use self::flow::Flow;
use self::live::a_live_feed_is_followed_and_no_packet_is_lost_meanwhile;
use crate::frr::Frr;
use crate::lab::{Attach, Family, Host, Lab, Link, at};
use crate::need;
use crate::office::watch::{self, Watch};
use crate::pantala::{Folder, Pantala};
use crate::programs::Running;
use crate::routing_daemons::{self as daemons, Bird, behind, bfd, network};
use crate::wait::{PATIENCE, within};

/// IPv4 routes, unless `PANTALA_ROUTES` says how many.
const ROUTES: u64 = 20_000;
/// Longer than zebra takes for a full table.
const LONG: Duration = Duration::from_secs(240);
/// Times after which routes that zebra does not tell again are removed: of these, and of more.
const STALE_S: [u64; 2] = [30, 120];
/// The kernel silently removes the next-hop objects of a twin without carrier, which zebra 8.4 takes for installed ever after:
/// routes by them are then neither in the kernel nor told by FPM.
const ZEBRA: &str =
    "fpm address 127.0.0.1 port 2620\nno fpm use-next-hop-groups\nno zebra nexthop kernel enable\n";
const DAEMONS: [&str; 4] = ["ospfd", "ospf6d", "bgpd", "bfdd"];

/// Three neighbours of pantala, and all that runs.
struct Net {
    lab: Lab,
    folder: Folder,
    frr: Frr,
    _others: (Bird, Frr),
    feeder: Running,
    _folders: [Folder; 2],
    watches: [Watch; 2],
    /// To a network of OSPF, and to one of the table: of IPv4 and IPv6 each.
    flows: [Flow; 4],
    rows: Vec<Row>,
}

/// An event.
struct Row {
    event: &'static str,
    begun: Begun,
    took: Duration,
    /// The longest time without an answer of the network of OSPF, of each family.
    pauses: [Duration; 2],
}

/// The beginning of an event.
#[derive(Clone, Copy)]
struct Begun {
    at: Instant,
    /// Datagrams that each flow had sent.
    sent: [usize; 4],
}

/// Routes of IPv4 that are announced.
fn count() -> u64 {
    std::env::var("PANTALA_ROUTES").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUTES)
}

fn routes(source: &Value) -> u64 {
    source["routes"].as_u64().unwrap_or_default()
}

/// Keeps a table in the folder that `PANTALA_OFFICE` names.
fn keep(name: &str, text: &str) {
    if let Some(folder) = std::env::var_os("PANTALA_OFFICE") {
        std::fs::write(Path::new(&folder).join(name), text).unwrap();
    }
}

fn addrs(host: &Host) -> [IpAddr; 2] {
    Family::BOTH.map(|family| host.addr(family))
}

fn routers(host: &Host) -> [IpAddr; 2] {
    Family::BOTH.map(|family| host.router(family))
}

/// Writes the BGP of FRR on pantala: with BIRD, with FRR, which BFD watches, and with the feeder.
fn write_bgp(folder: &Folder, lab: &Lab) {
    let [bird, other, feeder] = [0, 1, 2].map(|at: usize| addrs(&lab.hosts[at]));
    let mut text =
        "router bgp 64501\n bgp router-id 1.1.1.1\n no bgp ebgp-requires-policy\n no bgp default ipv4-unicast\n".to_owned();
    for peer in bird {
        writeln!(text, " neighbor {peer} remote-as 64502\n neighbor {peer} password secret").unwrap();
        writeln!(text, " neighbor {peer} ttl-security hops 1\n neighbor {peer} timers connect 1").unwrap();
    }
    for peer in other {
        writeln!(text, " neighbor {peer} remote-as 64503\n neighbor {peer} bfd 3 100 100").unwrap();
        writeln!(text, " neighbor {peer} timers connect 1").unwrap();
    }
    writeln!(text, " neighbor {} remote-as 64504\n neighbor {} passive", feeder[0], feeder[0]).unwrap();
    for (at, word) in ["ipv4", "ipv6"].into_iter().enumerate() {
        let peers = [bird[at], other[at], feeder[0]].map(|peer| format!("  neighbor {peer} activate\n"));
        // They are no customers: the full table stays here.
        let quiet = [bird[at], other[at]].map(|peer| format!("  neighbor {peer} prefix-list none out\n"));
        let (peers, quiet) = (peers.concat(), quiet.concat());
        writeln!(text, " address-family {word} unicast\n{peers}{quiet} exit-address-family").unwrap();
    }
    text += "ip prefix-list none seq 5 deny any\nipv6 prefix-list none seq 5 deny any\n";
    std::fs::write(folder.file("bgpd.conf"), text).unwrap();
    std::fs::write(folder.file("bfdd.conf"), "bfd\n").unwrap();
}

/// Writes the BGP of the other FRR, which announces a network of its own.
fn write_other(folder: &Folder, peers: [IpAddr; 2]) {
    let mut text = "router bgp 64503\n bgp router-id 1.1.1.2\n no bgp ebgp-requires-policy\n no bgp default ipv4-unicast\n".to_owned();
    for peer in peers {
        writeln!(text, " neighbor {peer} remote-as 64501\n neighbor {peer} bfd 3 100 100").unwrap();
        writeln!(text, " neighbor {peer} timers connect 1").unwrap();
    }
    for (peer, (word, net)) in peers.into_iter().zip([("ipv4", OTHERS[0]), ("ipv6", OTHERS[1])]) {
        writeln!(text, " address-family {word} unicast\n  neighbor {peer} activate\n  network {net}\n exit-address-family").unwrap();
    }
    std::fs::write(folder.file("bgpd.conf"), text).unwrap();
    std::fs::write(folder.file("bfdd.conf"), "bfd\n").unwrap();
}

/// Networks of the other FRR, which it announces by BGP.
const OTHERS: [&str; 2] = ["198.18.2.0/24", "2001:db8:2::/48"];

fn echoes(host: &Host, own: IpAddr) {
    let socket = host.netns.run(|| UdpSocket::bind((own, 7))).unwrap().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 64];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..len], from);
        }
    });
}

/// An address in the first network of the table.
fn in_table(family: Family) -> IpAddr {
    family.pick(Ipv4Addr::new(16, 0, 0, 1).into(), Ipv6Addr::new(0x2400, 0, 0, 0, 0, 0, 0, 1).into())
}

/// Runs the feeder of a table, by two next hops that its host has.
fn feeder(host: &Host, count: u64) -> Running {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/full_table/feeder.py");
    let mut command = Command::new("python3");
    command.args([script, &host.router(Family::V4).to_string(), "64504", &count.to_string()]);
    for number in [2, 3] {
        command.args(Family::BOTH.map(|family| host.neighbour(family, number).to_string()));
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    Running(end_with_parent(host.netns.put(&mut command).unwrap()).spawn().unwrap())
}

/// Has the feeder's host be each host of the networks that it announces, and another router on its link.
fn is_all_of_its_networks(host: &Host) {
    for family in Family::BOTH {
        let other = IpNet::new_assert(host.neighbour(family, 3), family.pick(24, 64));
        host.netns.netlink().unwrap().add_address("eth0", other).unwrap();
        for net in family.pick(["16.0.0.0/4", "41.0.0.0/8"], ["2400::/16", "2402::/16"]) {
            let mut command = Command::new("ip");
            command.args([family.pick("-4", "-6"), "route", "add", "local", net, "dev", "lo"]);
            assert!(host.netns.put(&mut command).unwrap().status().unwrap().success());
        }
    }
}

impl Net {
    fn build(test: &str, count: u64) -> Option<Self> {
        if !Frr::is_there() || !["bird", "python3", "vtysh", "ip"].into_iter().all(need::program) {
            return None;
        }
        let mut lab = Lab::without_pantala(test, &[(); 3].map(|()| Link::new(Attach::Native)))?;
        let mut config =
            lab.config(&format!("[routes.fpm]\nstale_s = {}\n", STALE_S[usize::from(count > ROUTES)]));
        for number in 1..=3 {
            let name = format!("name = \"if{number}\"\n");
            config = config.replace(&name, &format!("{name}punt = \"twin{number}\"\n"));
        }
        lab.pantala = Some(Pantala::start(&lab.router, &config));
        lab.attach();
        lab.router.netlink().unwrap().set_up("lo", true).unwrap();
        for (at, family) in [(0, Family::V4), (0, Family::V6), (1, Family::V4), (1, Family::V6)] {
            daemons::announce(&lab.hosts[at], behind(family, false), network(family, false));
            echoes(&lab.hosts[at], behind(family, false));
        }
        Family::BOTH
            .into_iter()
            .for_each(|family| daemons::announce(&lab.hosts[0], behind(family, true), network(family, true)));
        for net in OTHERS {
            let net: IpNet = net.parse().unwrap();
            daemons::announce(&lab.hosts[1], net.hosts().next().unwrap(), net);
        }
        let folders = [Folder::new(), Folder::new(), Folder::new()];
        let [own, others, birds] = &folders;
        let [bird, other, feeds] = [0, 1, 2].map(|at: usize| &lab.hosts[at]);
        daemons::write(own, 1, "twin1", addrs(bird));
        std::fs::write(own.file("zebra.conf"), ZEBRA).unwrap();
        daemons::also_on(own, "twin1", "twin2");
        write_bgp(own, &lab);
        daemons::write(others, 2, "eth0", routers(other));
        write_other(others, routers(other));
        let frr_of_other = Frr::start(&other.netns, others, &DAEMONS);
        let bird_daemon = Bird::start(&bird.netns, birds, addrs(bird), routers(bird));
        let frr = Frr::start(&lab.router, own, &DAEMONS);
        is_all_of_its_networks(feeds);
        let feeder = feeder(feeds, count);
        let watches = Family::BOTH.map(|family| {
            let server = at(behind(family, false), 7);
            Watch::begin(&feeds.netns, move || watch::answers(server))
        });
        let ospf = Family::BOTH.map(|family| {
            Flow::begin(&feeds.netns, behind(family, false), &[0, 1].map(|at: usize| &lab.hosts[at].netns))
        });
        let table = Family::BOTH.map(|family| Flow::begin(&other.netns, in_table(family), &[&feeds.netns]));
        let ([first, second], [third, fourth]) = (ospf, table);
        let flows = [first, second, third, fourth];
        let [folder, others, birds] = folders;
        let (_others, _folders) = ((bird_daemon, frr_of_other), [others, birds]);
        Some(Self { lab, folder, frr, _others, feeder, _folders, watches, flows, rows: Vec::new() })
    }

    fn source(&self) -> Value {
        self.lab.pantala().json("route sources")[0].clone()
    }

    fn begin(&self) -> Begun {
        Begun { at: Instant::now(), sent: self.flows.each_ref().map(Flow::sent) }
    }

    /// Waits for what the source of routes says; notes how long it took, and how long flows were interrupted.
    fn takes(&mut self, event: &'static str, begun: Begun, is_right: impl Fn(&Value) -> bool) {
        let mut seen = Value::Null;
        let found = within(LONG, || {
            seen = self.source();
            is_right(&seen).then_some(())
        });
        assert!(found.is_some(), "{event}: {seen}");
        let ended = Instant::now();
        let pauses = self.watches.each_ref().map(|watch| watch.pause(begun.at, ended));
        self.rows.push(Row { event, begun, took: ended - begun.at, pauses });
    }

    /// Lost datagrams of each flow from one moment to another, and how many were sent.
    fn lost(&self, from: [usize; 4], to: [usize; 4]) -> [(usize, usize); 4] {
        let of = |at: usize| (self.flows[at].lost(from[at]..to[at]), to[at] - from[at]);
        [0, 1, 2, 3].map(of)
    }

    /// Lost datagrams of each flow since a moment, when all have arrived that may.
    fn lost_since(&self, begun: &Begun) -> [(usize, usize); 4] {
        let to = self.begin().sent;
        let mut lost = self.lost(begun.sent, to);
        within(PATIENCE, || {
            lost = self.lost(begun.sent, to);
            lost.iter().all(|(lost, _)| *lost == 0).then_some(())
        });
        lost
    }

    /// The time from the start of pantala to the last datagram that was lost, of each flow.
    fn recovery(&self, begun: &Begun, started: Instant) -> String {
        let to = self.begin().sent;
        // What was sent a moment ago has its time to arrive.
        self.lost_since(begun);
        let of = |at: usize| {
            let last = self.flows[at].last_lost(begun.sent[at]..to[at]);
            last.map_or(0.0, |last| last.saturating_duration_since(started).as_secs_f64())
        };
        let [a, b, c, d] = [0, 1, 2, 3].map(of);
        format!(
            "from the start of pantala to the last datagram lost: OSPF {a:.1} s (IPv4), {b:.1} s (IPv6), BGP {c:.1} s (IPv4), {d:.1} s (IPv6)"
        )
    }

    /// Events with what was lost from their beginning to that of the next.
    fn events(&self) -> Vec<(&Row, [(usize, usize); 4])> {
        let ends = self.rows.iter().skip(1).map(|row| row.begun.sent).chain([self.begin().sent]);
        self.rows.iter().zip(ends).map(|(row, end)| (row, self.lost(row.begun.sent, end))).collect()
    }

    fn text(&self) -> String {
        let mut text =
            "| event | s | s without IPv4 | s without IPv6 | OSPF IPv4 | OSPF IPv6 | BGP IPv4 | BGP IPv6 |\n\
                        |---|---|---|---|---|---|---|---|\n"
                .to_owned();
        for (row, lost) in self.events() {
            let [a, b] = row.pauses.map(|pause| pause.as_secs_f64());
            write!(text, "| {} | {:.1} | {a:.1} | {b:.1} |", row.event, row.took.as_secs_f64()).unwrap();
            lost.iter().for_each(|(lost, sent)| write!(text, " {lost} of {sent} |").unwrap());
            text.push('\n');
        }
        text
    }

    /// Both routers lead to the network of OSPF, BIRD and FRR announce one each by BGP, and BFD watches.
    fn is_whole(&self) {
        let other = &self.lab.hosts[1];
        self.lab.both(|family| {
            let hops = || {
                let said = self.lab.pantala().command(&format!("--json route get {}", behind(family, false)));
                let found: Value = serde_json::from_str(&said.out).unwrap_or_default();
                found["route"]["next_hops"].as_array().map_or(0, Vec::len)
            };
            let mut seen = String::new();
            let is_whole = within(LONG, || {
                let bfd = bfd(&self.folder, &self.lab.router, other.addr(family));
                let by = |net: &str| {
                    let address = net.split('/').next().unwrap();
                    self.lab.pantala().command(&format!("route -n get {address}")).out
                };
                let (first, second) =
                    (by(&network(family, true).to_string()), by(family.pick(OTHERS[0], OTHERS[1])));
                seen = format!("{bfd:?} {} {first} {second}", hops());
                let is_bgp = |text: &str| text.contains("protocol: bgp") && hops() == 2;
                (is_bgp(&first) && is_bgp(&second) && bfd.first().is_some_and(|state| state == "up"))
                    .then_some(())
            });
            assert!(is_whole.is_some(), "{seen}");
        });
    }
}

fn a_full_table_comes_through_twins_and_outlives_each_daemon() {
    let all = count() + count() / 4;
    let test = "full_table::a_full_table_comes_through_twins_and_outlives_each_daemon";
    let at = Instant::now();
    let Some(mut net) = Net::build(test, count()) else { return };
    net.takes(
        "FRR, BIRD and the feeder begin; all routes are in force",
        Begun { at, sent: [0; 4] },
        |source| routes(source) >= all,
    );
    net.is_whole();
    println!("{}", net.source());

    let begun = net.begin();
    net.frr.kill(Some("bgpd"));
    net.takes("`kill -9` of bgpd; its routes are gone", begun, |source| routes(source) < 100);
    let begun = net.begin();
    net.frr.begin_again(&net.lab.router, &net.folder, "bgpd");
    net.takes("bgpd is started; all routes are in force", begun, |source| routes(source) >= all);
    net.is_whole();

    let outlived = net.begin();
    net.frr.kill(Some("zebra"));
    net.takes("`kill -9` of zebra; pantala sees it", outlived, |source| source["state"] == "waiting");
    assert!(routes(&net.source()) >= all, "its routes stay");
    let begun = net.begin();
    // As watchfrr does: a zebra alone does not learn all again from daemons that have told it before.
    net.frr.kill(None);
    net.frr = Frr::start(&net.lab.router, &net.folder, &DAEMONS);
    net.takes("all of FRR is started anew, and has told all routes again", begun, |source| {
        source["state"] == "connected" && source["stale"].as_u64() == Some(0) && routes(source) >= all
    });
    net.is_whole();

    let lost = net.lost_since(&outlived);
    assert!(lost.iter().all(|(lost, _)| *lost == 0), "lost while zebra was away, of how many: {lost:?}");

    let begun = net.begin();
    let pantala = net.lab.pantala.take().unwrap();
    let pantala = pantala.killed();
    let started = Instant::now();
    net.lab.pantala = Some(pantala.started_again(&net.lab.router));
    net.takes("`kill -9` of pantala, which is started again; all routes are in force", begun, |source| {
        routes(source) >= all
    });
    net.is_whole();
    let after_kill = net.recovery(&begun, started);
    println!("{after_kill}");
    if count() > ROUTES {
        let begun = net.begin();
        net.frr.kill(None);
        net.takes("`kill -9` of all of FRR, which stays away; all routes are swept", begun, |source| {
            routes(source) == 0
        });
    }
    let text = net.text();
    println!("{all} routes\n{text}");
    keep("full_table.md", &format!("{text}\n{after_kill}\n"));
}

harness::tests![
    a_full_table_comes_through_twins_and_outlives_each_daemon,
    a_live_feed_is_followed_and_no_packet_is_lost_meanwhile,
];
