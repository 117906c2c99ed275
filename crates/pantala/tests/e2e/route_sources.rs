//! Routes of others: of a kernel in another namespace, of FRR, and of a feeder that speaks as FRR's zebra does.

mod feeder;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Instant;

use dev::netlink::Veth;
use dev::netns::ScopedNetns;
use ipnet::IpNet;
use serde_json::Value;

use self::feeder::{Feeder, Nets};
use crate::frr::Frr;
use crate::lab::{Attach, Family, Lab, Link, at};
use crate::need;
use crate::pantala::{Folder, Pantala};
use crate::routing_daemons::Bird;
use crate::socket::udp;
use crate::wait::{until, until_right, within};

/// Where the host behind the routes listens.
const PORTS: [u16; 2] = [7788, 7789];
/// Routes of the large table, IPv4 and IPv6, unless `PANTALA_ROUTES=N` says how many IPv4 ones, and a quarter of IPv6.
const ROUTES: u32 = 40_000;

/// A namespace whose kernel has routes: beside pantala, with an interface `up0` that stands for pantala's `if2`.
struct Beside {
    netns: ScopedNetns,
}

impl Beside {
    fn new(lab: &Lab) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let netns = ScopedNetns::create(&format!("pt-routes-{}-{number}", std::process::id())).unwrap();
        let mut netlink = netns.netlink().unwrap();
        netlink.add_veth(&Veth::new("up0", "peer0")).unwrap();
        for link in ["lo", "up0", "peer0"] {
            netlink.set_up(link, true).unwrap();
        }
        let beside = Self { netns };
        beside.address(lab);
        beside
    }

    fn address(&self, lab: &Lab) {
        let mut netlink = self.netns.netlink().unwrap();
        for family in Family::BOTH {
            let own = lab.hosts[1].neighbour(family, 9);
            let _ = netlink.add_address("up0", IpNet::new_assert(own, family.pick(24, 64)));
        }
    }

    fn ip(&self, words: &str) {
        let mut command = Command::new("ip");
        let said = self.netns.put(command.args(words.split(' '))).unwrap().output().unwrap();
        assert!(said.status.success(), "ip {words}: {said:?}");
    }

    fn section(&self, kind: &str, more: &str) -> String {
        let name = self.netns.name();
        format!("[routes.{kind}]\nnamespace = \"{name}\"\ninterfaces = [\"up0 if2\"]\n{more}\n")
    }
}

/// An address behind the routes.
fn behind(family: Family) -> IpAddr {
    family.pick(
        Ipv4Addr::new(203, 0, 113, 1).into(),
        Ipv6Addr::new(0x2001, 0xdb8, 0xcafe, 0, 0, 0, 0, 1).into(),
    )
}

fn network(family: Family) -> &'static str {
    family.pick("203.0.113.0/24", "2001:db8:cafe::/48")
}

fn port(family: Family) -> u16 {
    family.pick(PORTS[0], PORTS[1])
}

/// The route to a network, as it is shown.
fn route(lab: &Lab, family: Family) -> Option<Value> {
    let listed = lab.pantala().json("netstat -rn");
    listed.as_array().unwrap().iter().find(|route| route["to"] == network(family)).cloned()
}

fn source(lab: &Lab) -> Value {
    lab.pantala().json("route sources")[0].clone()
}

/// Whether a datagram of the first host reaches the second one, which has the address behind the routes.
struct Path {
    listener: UdpSocket,
    sender: UdpSocket,
}

impl Path {
    fn new(lab: &Lab, family: Family) -> Self {
        let (a, b) = lab.pair();
        b.netns.netlink().unwrap().add_address("lo", IpNet::from(behind(family))).unwrap();
        let listener = b.netns.run(|| UdpSocket::bind((family.any(), port(family)))).unwrap().unwrap();
        listener.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        Self { listener, sender: udp(&a.netns, behind(family)) }
    }

    fn carries(&self, family: Family) -> bool {
        // An error of the datagram before is not one of this.
        let _ = self.sender.send_to(b"route", at(behind(family), port(family)));
        self.listener.recv(&mut [0; 16]).is_ok()
    }
}

fn lab_with(test: &str, kind: &str, more: &str) -> Option<(Lab, Beside)> {
    let links = [Link::new(Attach::Native), Link::new(Attach::Native)];
    let mut lab = Lab::without_pantala(test, &links)?;
    let beside = Beside::new(&lab);
    lab.run_pantala(&beside.section(kind, more));
    Some((lab, beside))
}

fn routes_of_the_kernel_are_taken_and_go_when_its_interface_goes_down() {
    if !need::program("ip") {
        return;
    }
    let test = "route_sources::routes_of_the_kernel_are_taken_and_go_when_its_interface_goes_down";
    let Some((lab, beside)) = lab_with(test, "kernel", "") else { return };
    lab.both(|family| {
        let path = Path::new(&lab, family);
        let (to, via) = (network(family), lab.hosts[1].addr(family));
        assert!(!path.carries(family), "nothing leads there yet");
        beside.ip(&format!("route add {to} via {via} metric 50"));
        let found = until("the route is there", || route(&lab, family));
        assert_eq!((&found["protocol"], &found["distance"]), (&"boot".into(), &1.into()));
        assert!(found["age_s"].is_u64() && found["next_hops"][0]["interface"] == "if2", "{found}");
        until("it carries", || path.carries(family).then_some(()));
        // The kernel says nothing of routes that go with an interface.
        beside.ip("link set up0 down");
        until("the route is gone", || route(&lab, family).is_none().then_some(()));
        beside.ip("link set up0 up");
        beside.address(&lab);
        beside.ip(&format!("route add {to} via {via} proto bgp"));
        // Until the table is read again, the route of before may show up.
        until("it is back", || {
            let found = route(&lab, family)?;
            (found["protocol"] == "bgp" && found["distance"] == 20).then_some(())
        });
        // What is configured here is stronger, and leaves the other behind when it ends.
        lab.pantala().shows(&format!("route add {to} -blackhole"));
        assert_eq!(route(&lab, family).unwrap()["origin"], "static");
        lab.pantala().shows(&format!("route delete {to}"));
        assert_eq!(route(&lab, family).unwrap()["protocol"], "bgp");
        until("it carries again", || path.carries(family).then_some(()));
        beside.ip(&format!("route del {to}"));
        until("it is deleted", || route(&lab, family).is_none().then_some(()));
    });
    // It may be reading the table again.
    until("the table is followed", || {
        let shown = lab.pantala().shows("route sources");
        shown.contains("kernel: table 254, following").then_some(())
    });
}

fn routes_that_bird_gives_the_kernel_are_taken_and_outlive_bird_when_it_is_killed() {
    if !need::program("bird") {
        return;
    }
    let test =
        "route_sources::routes_that_bird_gives_the_kernel_are_taken_and_outlive_bird_when_it_is_killed";
    let Some((lab, beside)) = lab_with(test, "kernel", "table = 100") else { return };
    let of = |family: Family| {
        let (channel, to, via) = (family.pick("ipv4", "ipv6"), network(family), lab.hosts[1].addr(family));
        format!(
            "protocol static {{ {channel}; route {to} via {via}; }}\n\
             protocol kernel {{ kernel table 100; {channel} {{ export all; }}; }}\n"
        )
    };
    let config =
        format!("router id 1.1.1.9;\nprotocol device {{ scan time 1; }}\n{}", Family::BOTH.map(of).concat());
    let folder = Folder::new();
    let bird = Bird::run(&beside.netns, &folder, &config);
    let paths = Family::BOTH.map(|family| Path::new(&lab, family));
    lab.both(|family| {
        let found = until("the route is there", || route(&lab, family));
        assert_eq!((&found["protocol"], &found["distance"]), (&"bird".into(), &100.into()), "{found}");
        until("it carries", || paths[usize::from(family == Family::V6)].carries(family).then_some(()));
    });
    drop(bird);
    lab.both(|family| {
        assert!(paths[usize::from(family == Family::V6)].carries(family), "the kernel has it still");
    });
    beside.ip("route flush table 100");
    beside.ip("-6 route flush table 100");
    lab.both(|family| until("it goes", || route(&lab, family).is_none().then_some(())));
}

fn routes_of_others_stay_over_a_reload_and_follow_its_distances() {
    if !need::program("ip") {
        return;
    }
    let test = "route_sources::routes_of_others_stay_over_a_reload_and_follow_its_distances";
    let Some((lab, beside)) = lab_with(test, "kernel", "") else { return };
    for family in Family::BOTH {
        beside.ip(&format!("route add {} via {}", network(family), lab.hosts[1].addr(family)));
    }
    let distances = || Family::BOTH.map(|family| route(&lab, family).map(|found| found["distance"].clone()));
    let all_are = |distance: u8| {
        until_right("distance", distances, |all| *all == [Some(distance.into()), Some(distance.into())]);
    };
    all_are(1);
    let section = beside.section("kernel", "");
    let reload = |more: &str| {
        lab.pantala().rewrite_config(&lab.config(more));
        lab.pantala().shows("reload");
    };
    // Another static route makes another table, which has the routes of others from the beginning.
    let fixed = "[[route]]\nto = \"192.0.2.0/24\"\nblackhole = true\n";
    reload(&format!("{fixed}{section}"));
    assert_eq!(distances(), [Some(1.into()), Some(1.into())]);
    reload(&format!("{fixed}{section}[routes.distance]\nboot = 77\n"));
    all_are(77);
    reload(&format!("{section}[routes.distance]\nboot = 78\n"));
    all_are(78);
    beside.ip("link set up0 down");
    until_right("all are gone", distances, |all| *all == [None, None]);
    reload("");
    assert_eq!(lab.pantala().json("route sources"), serde_json::json!([]));
}

fn many_routes_of_the_kernel_are_read_and_changes_that_it_loses_are_read_again() {
    const MANY: u32 = 3000;
    if !need::program("ip") {
        return;
    }
    let test = "route_sources::many_routes_of_the_kernel_are_read_and_changes_that_it_loses_are_read_again";
    let Some((lab, beside)) = lab_with(test, "kernel", "") else { return };
    let via = lab.hosts[1].addr(Family::V4);
    let folder = Folder::new();
    let batch = |verb: &str| {
        let line = |n: u32| format!("route {verb} 20.{}.{}.0/24 via {via}\n", n / 256, n % 256);
        let file = folder.file("batch");
        std::fs::write(&file, (0..MANY).map(line).collect::<String>()).unwrap();
        beside.ip(&format!("-batch {}", file.display()));
    };
    batch("add");
    until_right("all are there", || source(&lab)["routes"].as_u64(), |routes| *routes >= Some(MANY.into()));
    assert!(lab.pantala().shows("route -n get 20.1.2.3").contains("protocol: boot, distance 1"));
    batch("del");
    until_right("all are gone", || source(&lab)["routes"].as_u64(), |routes| *routes == Some(0));
}

fn zebra_feeds_a_table_whose_stale_routes_go_when_it_does_not_come_back() {
    let test = "route_sources::zebra_feeds_a_table_whose_stale_routes_go_when_it_does_not_come_back";
    let count = std::env::var("PANTALA_ROUTES").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUTES);
    let Some((lab, beside)) = lab_with(test, "fpm", "stale_s = 3") else { return };
    let [v4, v6] = Family::BOTH.map(|family| lab.hosts[1].addr(family));
    let all = count + count / 4;
    let nets = Nets { v4: count, v6: count / 4 };
    let routes = |at_least: u64| {
        let routes = || source(&lab)["routes"].as_u64().unwrap();
        until_right("all are there", routes, |routes| *routes >= at_least);
    };
    let bytes = nets.announced(v4, v6, false);
    let begun = Instant::now();
    let mut feeder = Feeder::connect(&beside.netns);
    feeder.send(&bytes);
    routes(all.into());
    println!("{all} routes are in force {:?} after the connect", begun.elapsed());
    let shown = lab.pantala().shows(&format!("route -n get {}", nets.last()));
    assert!(shown.contains("protocol: bgp, distance 20"), "{shown}");
    // Killed, it leaves its routes for a while. One half of them comes back.
    drop(feeder);
    until_right("it is seen", || source(&lab)["state"].clone(), |state| state == "waiting");
    assert_eq!(source(&lab)["stale"].as_u64(), Some(all.into()));
    let half = Nets { v4: count / 2, v6: count / 8 };
    let mut feeder = Feeder::connect(&beside.netns);
    feeder.send(&half.announced(v4, v6, true));
    let left = || source(&lab)["routes"].as_u64().unwrap();
    until_right("the others are swept", left, |left| *left == u64::from(count / 2 + count / 8));
    let source = source(&lab);
    assert_eq!((source["stale"].as_u64(), source["resyncs"].as_u64()), (Some(0), Some(2)), "{source}");
    let gone = lab.pantala().command(&format!("route -n get {}", nets.last()));
    assert_eq!(gone.code, Some(1), "{gone:?}");
    drop(feeder);
    until_right("and all go", left, |left| *left == 0);
}

fn no_packet_is_lost_while_other_routes_come_and_go() {
    const ROUNDS: u32 = 40;
    const CHANGES: u32 = 1000;
    let test = "route_sources::no_packet_is_lost_while_other_routes_come_and_go";
    let Some((lab, beside)) = lab_with(test, "fpm", "") else { return };
    let [v4, v6] = Family::BOTH.map(|family| lab.hosts[1].addr(family));
    let mut feeder = Feeder::connect(&beside.netns);
    let paths = Family::BOTH.map(|family| Path::new(&lab, family));
    for family in Family::BOTH {
        feeder.send(&feeder::route(network(family).parse().unwrap(), family.pick(v4, v6)));
    }
    for (path, family) in paths.iter().zip(Family::BOTH) {
        until("it carries", || path.carries(family).then_some(()));
    }
    let nets = Nets { v4: CHANGES, v6: CHANGES / 4 };
    let [come, go] = [nets.announced(v4, v6, true), nets.withdrawn()];
    let begun = Instant::now();
    for round in 1..=ROUNDS {
        feeder.send(if round % 2 == 1 { &come } else { &go });
        // The route of the flow is told again in another way, as zebra replaces those of IPv6: deleted and made in one frame.
        for family in Family::BOTH {
            feeder.send(&feeder::replaced(network(family).parse().unwrap(), family.pick(v4, v6)));
        }
        for (path, family) in paths.iter().zip(Family::BOTH) {
            (0..10).for_each(|_| assert!(path.carries(family), "{family:?}: lost in round {round}"));
        }
        let due = Duration::from_millis(100) * round;
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
    }
    let routes = || source(&lab)["routes"].as_u64();
    until_right("only the two are left", routes, |routes| *routes == Some(2));
}

fn routes_of_frr_are_taken_and_outlive_a_killed_zebra() {
    if !Frr::is_there() {
        return;
    }
    for groups in ["", "no fpm use-next-hop-groups\n"] {
        let test = "route_sources::routes_of_frr_are_taken_and_outlive_a_killed_zebra";
        let Some((lab, beside)) = lab_with(test, "fpm", "stale_s = 15") else { return };
        let folder = Folder::new();
        let zebra = format!("fpm address 127.0.0.1 port 2620\n{groups}");
        std::fs::write(folder.file("zebra.conf"), zebra).unwrap();
        let line = |family: Family| {
            let (ip, to, via) = (family.pick("ip", "ipv6"), network(family), lab.hosts[1].addr(family));
            format!("{ip} route {to} {via}\n{ip} route {to} {}\n", lab.hosts[1].neighbour(family, 7))
        };
        let text: String = Family::BOTH.into_iter().map(line).collect();
        std::fs::write(folder.file("staticd.conf"), text).unwrap();
        let mut frr = Frr::start(&beside.netns, &folder, &["staticd"]);
        let hops =
            |family| route(&lab, family).map_or(0, |found| found["next_hops"].as_array().unwrap().len());
        for family in Family::BOTH {
            until_right("both next hops are there", || hops(family), |hops| *hops == 2);
            let found = route(&lab, family).unwrap();
            assert_eq!((&found["protocol"], &found["distance"]), (&"static".into(), &1.into()), "{found}");
        }
        frr.kill(None);
        until_right("it is seen", || source(&lab)["state"].clone(), |state| state == "waiting");
        assert!(Family::BOTH.iter().all(|family| hops(*family) == 2), "its routes stay");
        let _frr = Frr::start(&beside.netns, &folder, &["staticd"]);
        let told_again = || {
            let source = source(&lab);
            (source["state"].clone(), source["stale"].as_u64(), source["resyncs"].as_u64())
        };
        until_right("all is told again", told_again, |(state, stale, resyncs)| {
            state == "connected" && *stale == Some(0) && *resyncs >= Some(2)
        });
        assert!(Family::BOTH.iter().all(|family| hops(*family) == 2));
    }
}

/// FRR, whose static routes are in table 100, which is table 1 here.
fn table_of_frr(test: &str, more: &str) -> Option<(Lab, Beside, Frr, Folder)> {
    if !Frr::is_there() {
        return None;
    }
    let mut lab = Lab::without_pantala(test, &[Link::new(Attach::Native), Link::new(Attach::Native)])?;
    let beside = Beside::new(&lab);
    let config = lab.config(&beside.section("fpm", &format!("tables = [\"100 1\"]\n{more}")));
    lab.pantala = Some(Pantala::start(&lab.router, &format!("fibs = 2\n{config}")));
    lab.attach();
    let folder = Folder::new();
    std::fs::write(folder.file("zebra.conf"), "fpm address 127.0.0.1 port 2620\n").unwrap();
    let line = |family: Family| {
        let (ip, to, via) = (family.pick("ip", "ipv6"), network(family), lab.hosts[1].addr(family));
        format!("{ip} route {to} {via} table 100\n")
    };
    let text: String = Family::BOTH.into_iter().map(line).collect();
    std::fs::write(folder.file("staticd.conf"), text).unwrap();
    // Tables but the main one come as they change: FRR does not tell them again.
    until_right("it waits", || source(&lab)["state"].clone(), |state| state == "waiting");
    let mut frr = Frr::start(&beside.netns, &folder, &[]);
    until_right("zebra is there", || source(&lab)["state"].clone(), |state| state == "connected");
    frr.begin_again(&beside.netns, &folder, "staticd");
    Some((lab, beside, frr, folder))
}

/// Longer than zebra takes to connect again, and stale routes last.
const SWEPT: Duration = Duration::from_secs(30);

/// The route to the network in table 1.
fn in_table_1(lab: &Lab, family: Family) -> Option<Value> {
    let listed = lab.pantala().json("netstat -rn -F 1");
    listed.as_array()?.iter().find(|route| route["to"] == network(family)).cloned()
}

fn a_table_that_zebra_does_not_tell_again_outlives_a_broken_session_and_our_own_end() {
    let test =
        "route_sources::a_table_that_zebra_does_not_tell_again_outlives_a_broken_session_and_our_own_end";
    let Some((mut lab, beside, _frr, _folder)) = table_of_frr(test, "stale_s = 8") else { return };
    lab.both(|family| drop(until("it is in table 1", || in_table_1(&lab, family))));
    // Another configuration breaks the session, and zebra connects again, which tells the main table.
    let kernel = "table = 100\ntables = [\"100 1\"]";
    let sections =
        [beside.section("fpm", "tables = [\"100 1\"]\nstale_s = 7"), beside.section("kernel", kernel)];
    let config = |sections: &str| format!("fibs = 2\n{}", lab.config(sections));
    lab.pantala().rewrite_config(&config(&sections[0]));
    lab.pantala().shows("reload");
    let mut seen = Value::Null;
    let is_swept = within(SWEPT, || {
        seen = source(&lab);
        let is_told = seen["state"] == "connected" && seen["resyncs"].as_u64() == Some(2);
        (is_told && seen["stale"].as_u64() == Some(0)).then_some(())
    });
    assert!(is_swept.is_some(), "{seen}");
    lab.both(|family| {
        let hops = in_table_1(&lab, family).map(|route| route["next_hops"].clone());
        assert!(hops.is_some_and(|hops| hops[0]["interface"] == "if2"), "it is there");
    });
    // After an end of ours the kernel's own table has it.
    lab.pantala().rewrite_config(&config(&sections.concat()));
    let pantala = lab.pantala.take().unwrap();
    lab.pantala = Some(pantala.killed_and_started_again(&lab.router));
    lab.both(|family| drop(until("it is in table 1 again", || in_table_1(&lab, family))));
    lab.both(|family| assert!(route(&lab, family).is_none(), "and not in table 0"));
}

fn a_table_of_frr_feeds_a_routing_table_of_ours_by_which_an_interface_leads() {
    let test = "route_sources::a_table_of_frr_feeds_a_routing_table_of_ours_by_which_an_interface_leads";
    let Some((lab, _beside, mut frr, _folder)) = table_of_frr(test, "") else { return };
    let [v4, v6] = Family::BOTH.map(|family| Path::new(&lab, family));
    lab.both(|family| {
        let found = until("it is in table 1", || in_table_1(&lab, family));
        assert_eq!((&found["protocol"], &found["fib"]), (&"static".into(), &1.into()), "{found}");
        assert!(route(&lab, family).is_none(), "and not in table 0");
        assert!(!family.pick(&v4, &v6).carries(family), "the first host's packets go by table 0");
    });
    lab.pantala().shows("ifconfig if1 fib 1");
    lab.both(|family| {
        until("they go by table 1", || family.pick(&v4, &v6).carries(family).then_some(()));
    });
    frr.kill(Some("staticd"));
    lab.both(|family| {
        until_right(
            "its routes go",
            || lab.pantala().shows("netstat -rn -F 1").contains(network(family)),
            |is_there| !is_there,
        );
    });
}

harness::tests![
    a_table_that_zebra_does_not_tell_again_outlives_a_broken_session_and_our_own_end,
    a_table_of_frr_feeds_a_routing_table_of_ours_by_which_an_interface_leads,
    routes_that_bird_gives_the_kernel_are_taken_and_outlive_bird_when_it_is_killed,
    routes_of_the_kernel_are_taken_and_go_when_its_interface_goes_down,
    routes_of_others_stay_over_a_reload_and_follow_its_distances,
    many_routes_of_the_kernel_are_read_and_changes_that_it_loses_are_read_again,
    zebra_feeds_a_table_whose_stale_routes_go_when_it_does_not_come_back,
    no_packet_is_lost_while_other_routes_come_and_go,
    routes_of_frr_are_taken_and_outlive_a_killed_zebra,
];
