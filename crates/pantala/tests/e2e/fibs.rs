//! Several routing tables: uplinks that rules choose, and customers with the same addresses.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::io::Write;
use std::net::TcpListener;

use dev::netlink::Route;
use ipnet::IpNet;

use crate::firewall::section;
use crate::lab::{Attach, Family, Host, Lab, Link};
use crate::need;
use crate::pantala::{Folder, Pantala, Said};
use crate::programs::{build_the_library, on_pantala};
use crate::socket::{datagram_arrives, ping, stream_arrives};

/// A network behind both uplinks.
fn far(family: Family) -> IpNet {
    family.pick("198.18.0.0/24", "2001:db8::/48").parse().unwrap()
}

/// The address that both uplinks have there.
fn behind(family: Family) -> IpAddr {
    family.pick("198.18.0.1", "2001:db8::1").parse().unwrap()
}

/// Host `host` of network `net`, which each customer has.
fn customers(family: Family, net: u8, host: u8) -> IpNet {
    let v4 = Ipv4Addr::new(172, 16, net, host);
    let v6 = Ipv6Addr::new(0xfd99, 0, 0, net.into(), 0, 0, 0, host.into());
    IpNet::new_assert(family.pick(v4.into(), v6.into()), family.pick(24, 64))
}

/// A static route in the configuration.
fn route(fib: u8, to: IpNet, target: &str) -> String {
    format!("[[route]]\nfib = {fib}\nto = \"{to}\"\n{target}\n")
}

fn announce(host: &Host, own: IpAddr) {
    let net = IpNet::new_assert(own, far(Family::of(own)).prefix_len());
    host.netns.netlink().unwrap().add_address("lo", net).unwrap();
}

fn links() -> Vec<Link> {
    [Attach::Native, Attach::Native, Attach::Tap].map(Link::new).to_vec()
}

fn a_rule_chooses_the_uplink_of_another_table() {
    let test = "fibs::a_rule_chooses_the_uplink_of_another_table";
    let Some(mut lab) = Lab::without_pantala(test, &links()) else { return };
    let mut more = String::new();
    for family in Family::BOTH {
        let [first, second] = [1, 2].map(|at: usize| format!("via = [\"{}\"]", lab.hosts[at].addr(family)));
        let lan = IpNet::new_assert(lab.hosts[0].router(family), family.pick(24, 64)).trunc();
        more += &(route(0, far(family), &first) + &route(1, far(family), &second));
        more += &route(1, lan, "dev = \"if1\"");
        (1..3).for_each(|at| announce(&lab.hosts[at], behind(family)));
    }
    let uplink = "name = \"if3\"\n";
    let config = lab.config(&(more + &section("allow", ""))).replace(uplink, &format!("{uplink}fib = 1\n"));
    lab.pantala = Some(Pantala::start(&lab.router, &format!("fibs = 2\n{config}")));
    lab.attach();
    let [lan, first, second] = [0, 1, 2].map(|at: usize| &lab.hosts[at].netns);
    let pantala = lab.pantala();
    lab.both(|family| {
        assert!(datagram_arrives(lan, first, behind(family), 100), "table 0");
        let other = lab.hosts[1].addr(family);
        assert_eq!(
            (ping(lan, other, 1), ping(second, other, 1)),
            (1, 0),
            "table 1, of if3, does not lead there"
        );
    });
    pantala.shows("ipfw add 10 setfib 1 ip from any to any in recv if1");
    lab.both(|family| {
        assert!(datagram_arrives(lan, second, behind(family), 100), "table 1");
        assert!(stream_arrives(lan, second, behind(family), 100_000).unwrap(), "and its answers come back");
        let source = lab.hosts[0].addr(family);
        let why = pantala.shows(&format!("why {source} {} udp 9 from if1", behind(family)));
        assert!(why.contains("(fib 1)") && why.contains("if3"), "{why}");
        // Of its own packets, it says so itself.
        let own = pantala.shows(&format!("ping -F 1 -c 1 {}", behind(family)));
        assert!(own.contains(" 0.0% packet loss") || own.contains(" 0% packet loss"), "{own}");
        let listed = pantala.json("netstat -rn -F 1");
        let of = |to: IpNet| listed.as_array().unwrap().iter().find(|route| route["to"] == to.to_string());
        assert_eq!(of(far(family)).unwrap()["fib"], 1);
        // A route by hand, and away again: only table 1 has it.
        let host = IpNet::from(behind(family));
        let via = lab.hosts[1].addr(family);
        pantala.shows(&format!("route add -fib 1 {host} {via}"));
        assert!(datagram_arrives(lan, first, behind(family), 100), "the longer prefix of table 1");
        let get = |fib: u8| {
            pantala.json(&format!("route get -fib {fib} {}", behind(family)))["route"]["to"].clone()
        };
        assert_eq!((get(1), get(0)), (host.to_string().into(), far(family).to_string().into()));
        pantala.shows(&format!("route delete -fib 1 {host}"));
        assert!(datagram_arrives(lan, second, behind(family), 100));
    });
    let said = pantala.command("route add -fib 9 192.0.2.0/24 -blackhole");
    assert!(said.code != Some(0) && said.err.contains("no routing table 9"), "{said:?}");
    assert!(pantala.shows("ifconfig if3").contains("\tfib: 1\n"));
}

fn two_customers_have_the_same_addresses_in_two_tables() {
    let test = "fibs::two_customers_have_the_same_addresses_in_two_tables";
    let attached = [Attach::Native, Attach::Tap, Attach::Native, Attach::Tap];
    let Some(mut lab) = Lab::without_pantala(test, &attached.map(Link::new)) else { return };
    let mut config = lab.config("");
    for (number, fib, net) in [(1_u8, 1, 1), (2, 1, 2), (3, 2, 1), (4, 2, 2)] {
        let own = Family::BOTH.map(|family| format!("\"{}\"", customers(family, net, 1))).join(", ");
        let (name, address) = (format!("name = \"if{number}\"\n"), "address = [");
        let section = config.find(&name).unwrap();
        let at = section + config[section..].find(address).unwrap() + address.len();
        config.insert_str(at, &format!("{own}, "));
        config = config.replace(&name, &format!("{name}fib = {fib}\n"));
    }
    lab.pantala = Some(Pantala::start(&lab.router, &format!("fibs = 3\n{config}")));
    lab.attach();
    for (host, net) in lab.hosts.iter().zip([1, 2, 1, 2]) {
        let mut netlink = host.netns.netlink().unwrap();
        for family in Family::BOTH {
            netlink.add_address("eth0", customers(family, net, 2)).unwrap();
            let (to, via) = (customers(family, 3 - net, 0), customers(family, net, 1).addr());
            netlink.add_route(&Route { to, via: Some(via), ifindex: None }).unwrap();
        }
    }
    lab.both(|family| {
        let there = customers(family, 2, 2).addr();
        for (from, to) in [(0, 1), (2, 3)] {
            let [from, to] = [from, to].map(|at: usize| &lab.hosts[at].netns);
            assert!(datagram_arrives(from, to, there, 100), "to the customer's own host");
            assert!(stream_arrives(from, to, there, 100_000).unwrap());
            let own = customers(family, 1, 1).addr();
            assert_eq!(ping(from, own, 1), 1, "the router answers by the customer's table");
        }
    });
}

/// Connects, and prints what comes; or the number of the error.
const CLIENT: &str = "
import socket, sys
try:
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 20)
    print(s.makefile().read())
except OSError as why:
    print(why.errno)
";

/// A server at the address behind both uplinks, which says whose it is.
fn greets(host: &Host, family: Family, name: &'static str) {
    let listener = host.netns.run(|| TcpListener::bind((behind(family), 7000))).unwrap().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.unwrap().write_all(name.as_bytes());
        }
    });
}

fn programs_and_interfaces_get_another_table_while_it_runs() {
    let test = "fibs::programs_and_interfaces_get_another_table_while_it_runs";
    if !need::program("python3") {
        return;
    }
    let Some(mut lab) = Lab::without_pantala(test, &links()) else { return };
    build_the_library();
    let folder = Folder::new();
    let mut more = String::new();
    for family in Family::BOTH {
        let [first, second] = [1, 2].map(|at: usize| format!("via = [\"{}\"]", lab.hosts[at].addr(family)));
        more += &(route(0, far(family), &first) + &route(1, far(family), &second));
        for (at, name) in [(1, "table 0"), (2, "table 1")] {
            announce(&lab.hosts[at], behind(family));
            greets(&lab.hosts[at], family, name);
        }
    }
    more += &format!("[programs]\nsocket = \"{}\"\nmode = \"0666\"\n", folder.file("app.sock").display());
    lab.pantala = Some(Pantala::start(&lab.router, &format!("fibs = 2\n{}", lab.config(&more))));
    lab.attach();
    let [lan, first, second] = [0, 1, 2].map(|at: usize| &lab.hosts[at].netns);
    let pantala = lab.pantala();
    lab.both(|family| assert!(datagram_arrives(lan, first, behind(family), 100), "table 0"));
    assert!(pantala.shows("ifconfig if1 fib 1").is_empty());
    assert!(pantala.shows("ifconfig if1").contains("\tfib: 1\n"));
    lab.both(|family| assert!(datagram_arrives(lan, second, behind(family), 100), "table 1"));
    let wrong = pantala.command("ifconfig if1 fib 2");
    assert!(wrong.code != Some(0) && wrong.err.contains("fib"), "{wrong:?}");
    pantala.shows("ifconfig if1 fib 0");
    lab.both(|family| assert!(datagram_arrives(lan, first, behind(family), 100), "table 0 again"));
    // A program's own sockets.
    pantala.shows("ifconfig if3 fib 1");
    lab.both(|family| {
        let to = behind(family).to_string();
        let says = |options: &[&str]| {
            let mut command = on_pantala(&folder, &[]);
            command.args(options).args(["--", "python3", "-c", CLIENT, &to, "7000"]);
            let said: Said = command.output().unwrap().into();
            assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{said:?}");
            said.out.trim().to_owned()
        };
        assert_eq!(says(&[]), "table 0");
        assert_eq!(says(&["--fib", "1"]), "table 1");
        assert_eq!(says(&["--fib", "7"]), "22", "there is no such table: EINVAL");
    });
    let said: Said = on_pantala(&folder, &[]).args(["--fib", "77", "--", "true"]).output().unwrap().into();
    assert!(said.code != Some(0), "{said:?}");
}

harness::tests![
    programs_and_interfaces_get_another_table_while_it_runs,
    a_rule_chooses_the_uplink_of_another_table,
    two_customers_have_the_same_addresses_in_two_tables,
];
