//! FRR on the twin of an interface of pantala's, with FRR on a plain kernel at the other end of the link.

use core::net::IpAddr;
use core::time::Duration;
use std::process::{Child, Command, Stdio};

use dev::netns::Netns;
use dev::sys::process::end_with_parent;
use ipnet::IpNet;

use crate::frr::Frr;
use crate::lab::{Attach, Family, Host, Lab, Link};
use crate::need;
use crate::pantala::{Folder, Pantala};
use crate::socket::{Ping, ping};
use crate::wait::within;

/// Adjacencies and sessions come up within their timers.
const LONG: Duration = Duration::from_secs(60);

/// Ten times the detection time of BFD here: far from any timer of BGP.
const SILENCE: Duration = Duration::from_secs(3);

/// A network behind the other router, which it announces by OSPF alone, or by BGP, too.
pub(crate) fn network(family: Family, is_bgps: bool) -> IpNet {
    let number = u8::from(is_bgps);
    family.pick(format!("198.18.{number}.0/24"), format!("2001:db8:{number}::/48")).parse().unwrap()
}

/// The other router's address in it.
pub(crate) fn behind(family: Family, is_bgps: bool) -> IpAddr {
    let number = u8::from(is_bgps);
    family.pick(format!("198.18.{number}.1"), format!("2001:db8:{number}::1")).parse().unwrap()
}

/// Writes the configurations of a router: its number, its interface, and its peer's addresses. The second one announces.
pub(crate) fn write(folder: &Folder, number: u8, interface: &str, peers: [IpAddr; 2]) {
    let [v4, v6] = peers;
    let (id, other) = (64_500 + u32::from(number), 64_503 - u32::from(number));
    let announces = number == 2;
    let connected = if announces { " redistribute connected\n" } else { "" };
    let ospf = format!(
        "interface {interface}\n ip ospf hello-interval 1\n ip ospf dead-interval 4\n ip ospf authentication message-digest\n \
         ip ospf message-digest-key 1 md5 secret\nrouter ospf\n ospf router-id 1.1.1.{number}\n{connected} \
         network 10.77.0.0/16 area 0\n"
    );
    let ospf6 = format!(
        "interface {interface}\n ipv6 ospf6 hello-interval 1\n ipv6 ospf6 dead-interval 4\n ipv6 ospf6 area 0\n\
         router ospf6\n ospf6 router-id 1.1.1.{number}\n{connected}"
    );
    let neighbour = |peer: IpAddr| {
        format!(
            " neighbor {peer} remote-as {other}\n neighbor {peer} password secret\n neighbor {peer} ttl-security hops 1\n \
             neighbor {peer} timers 1 3\n neighbor {peer} timers connect 1\n neighbor {peer} advertisement-interval 0\n"
        )
    };
    let family = |word: &str, peer: IpAddr, net: IpNet| {
        let network = if announces { format!("  network {net}\n") } else { String::new() };
        format!(" address-family {word} unicast\n  neighbor {peer} activate\n{network} exit-address-family\n")
    };
    let bgp = [
        format!(
            "router bgp {id}\n bgp router-id 1.1.1.{number}\n no bgp ebgp-requires-policy\n no bgp default ipv4-unicast\n"
        ),
        neighbour(v4),
        neighbour(v6),
        family("ipv4", v4, network(Family::V4, true)),
        family("ipv6", v6, network(Family::V6, true)),
    ];
    let zebra = if announces { "" } else { "fpm address 127.0.0.1 port 2620\n" };
    let files = [("zebra", zebra.to_owned()), ("ospfd", ospf), ("ospf6d", ospf6), ("bgpd", bgp.concat())];
    for (name, text) in files {
        std::fs::write(folder.file(&format!("{name}.conf")), text).unwrap();
    }
}

const DAEMONS: [&str; 3] = ["ospfd", "ospf6d", "bgpd"];

/// The protocol of pantala's route to a network.
fn protocol(lab: &Lab, net: IpNet) -> Option<String> {
    let listed = lab.pantala().json("netstat -rn");
    let found = listed.as_array().unwrap().iter().find(|route| route["to"] == net.to_string())?.clone();
    Some(found["protocol"].as_str()?.to_owned())
}

#[track_caller]
fn is_by(lab: &Lab, family: Family, is_bgps: bool, wanted: Option<&str>) {
    let net = network(family, is_bgps);
    let mut seen = None;
    let is_right = within(LONG, || {
        seen = protocol(lab, net);
        (seen.as_deref() == wanted).then_some(())
    });
    assert!(
        is_right.is_some(),
        "{net}: {seen:?}, and not {wanted:?}\n{}",
        lab.pantala().shows("route sources")
    );
}

fn ospf_and_bgp_run_through_a_twin_and_their_routes_carry() {
    if !Frr::is_there() {
        return;
    }
    for attach in [Attach::Native, Attach::Tap] {
        let test = "routing_daemons::ospf_and_bgp_run_through_a_twin_and_their_routes_carry";
        let links = [Link::new(Attach::Native), Link::new(attach)];
        let more = "punt = \"twin2\"\n[routes.fpm]\nstale_s = 15\n";
        let Some(lab) = Lab::start_with(test, &links, more) else { return };
        let (a, b) = lab.pair();
        lab.router.netlink().unwrap().set_up("lo", true).unwrap();
        let mut netlink = b.netns.netlink().unwrap();
        for (family, is_bgps) in Family::BOTH.into_iter().flat_map(|family| [(family, false), (family, true)])
        {
            let own = IpNet::new_assert(behind(family, is_bgps), network(family, is_bgps).prefix_len());
            netlink.add_address("lo", own).unwrap();
        }
        let folders = [Folder::new(), Folder::new()];
        write(&folders[0], 1, "twin2", Family::BOTH.map(|family| b.addr(family)));
        write(&folders[1], 2, "eth0", Family::BOTH.map(|family| b.router(family)));
        let _other = Frr::start(&b.netns, &folders[1], &DAEMONS);
        let mut frr = Frr::start(&lab.router, &folders[0], &DAEMONS);
        lab.both(|family| {
            is_by(&lab, family, false, Some("ospf"));
            is_by(&lab, family, true, Some("bgp"));
            for is_bgps in [false, true] {
                assert_eq!(ping(&a.netns, behind(family, is_bgps), 3), 3, "forwarded by the route");
                assert!(
                    Ping::open(&lab.router, behind(family, is_bgps)).ask(1, 56),
                    "the kernel has it, too"
                );
            }
        });
        // What BGP has said goes with bgpd; OSPF knows the networks, too.
        frr.kill(Some("bgpd"));
        lab.both(|family| {
            is_by(&lab, family, true, Some("ospf"));
            assert_eq!(ping(&a.netns, behind(family, true), 3), 3, "forwarded by another protocol's route");
        });
        frr.kill(None);
        lab.both(|family| {
            assert_eq!(protocol(&lab, network(family, false)).as_deref(), Some("ospf"), "it outlives zebra");
            assert_eq!(ping(&a.netns, behind(family, false), 3), 3);
        });
        let _frr = Frr::start(&lab.router, &folders[0], &DAEMONS);
        lab.both(|family| {
            is_by(&lab, family, true, Some("bgp"));
            assert_eq!(ping(&a.netns, behind(family, true), 3), 3, "all is there again");
        });
    }
}

/// Has OSPF of a configuration that was written run on a second interface, too.
pub(crate) fn also_on(folder: &Folder, first: &str, second: &str) {
    for daemon in ["ospfd", "ospf6d"] {
        let file = folder.file(&format!("{daemon}.conf"));
        let text = std::fs::read_to_string(&file).unwrap();
        let (interface, rest) = text.split_at(text.find("router ospf").unwrap());
        let both = format!("{interface}{}{rest}", interface.replace(first, second));
        std::fs::write(&file, both).unwrap();
    }
}

/// BIRD in a namespace, killed when dropped.
pub(crate) struct Bird(Child);

impl Bird {
    /// Speaks on `eth0` with the router at these addresses; announces the networks of `lo` by OSPF, and one of each family by BGP.
    pub(crate) fn start(
        netns: &Netns,
        folder: &Folder,
        [own4, own6]: [IpAddr; 2],
        [peer4, peer6]: [IpAddr; 2],
    ) -> Self {
        let [net4, net6] = Family::BOTH.map(|family| network(family, true));
        let bgp = |family: &str, own: IpAddr, peer: IpAddr, net: IpNet| {
            format!(
                "protocol bgp {{ local {own} as 64502; neighbor {peer} as 64501; password \"secret\"; ttl security on; direct;\n\
                 connect retry time 1; hold time 9; {family} {{ import all; export where net = {net}; }}; }}\n"
            )
        };
        let export = "import all; export filter { if source = RTS_DEVICE then { ospf_metric2 = 20; accept; } reject; };";
        let text = [
            "router id 1.1.1.3;\nprotocol device { scan time 1; }\n".to_owned(),
            "protocol direct { ipv4; ipv6; interface \"lo\"; }\n".to_owned(),
            format!(
                "protocol ospf v2 {{ ipv4 {{ {export} }}; area 0 {{ interface \"eth0\" {{ hello 1; dead 4; authentication cryptographic; \
                 password \"secret\"; }}; }}; }}\n"
            ),
            format!(
                "protocol ospf v3 {{ ipv6 {{ {export} }}; area 0 {{ interface \"eth0\" {{ hello 1; dead 4; }}; }}; }}\n"
            ),
            bgp("ipv4", own4, peer4, net4),
            bgp("ipv6", own6, peer6, net6),
        ];
        Self::run(netns, folder, &text.concat())
    }

    /// Runs with a configuration.
    pub(crate) fn run(netns: &Netns, folder: &Folder, config: &str) -> Self {
        std::fs::write(folder.file("bird.conf"), config).unwrap();
        let mut command = Command::new("bird");
        command.arg("-f").arg("-c").arg(folder.file("bird.conf")).arg("-s").arg(folder.file("bird.ctl"));
        command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null());
        end_with_parent(&mut command);
        Self(netns.put(&mut command).unwrap().spawn().unwrap())
    }
}

impl Drop for Bird {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sets an address in a network on a host's loopback interface.
pub(crate) fn announce(host: &Host, own: IpAddr, net: IpNet) {
    host.netns.netlink().unwrap().add_address("lo", IpNet::new_assert(own, net.prefix_len())).unwrap();
}

fn flows_go_by_two_routers_and_by_the_other_when_a_wire_is_pulled() {
    if !Frr::is_there() || !need::program("bird") {
        return;
    }
    let test = "routing_daemons::flows_go_by_two_routers_and_by_the_other_when_a_wire_is_pulled";
    let Some(mut lab) = Lab::without_pantala(test, &[(); 3].map(|()| Link::new(Attach::Native))) else {
        return;
    };
    let twins = |text: &str| {
        let twin = |text: String, number: u8| {
            let name = format!("name = \"if{number}\"\n");
            text.replace(&name, &format!("{name}punt = \"twin{number}\"\n"))
        };
        twin(twin(text.to_owned(), 1), 2)
    };
    lab.pantala = Some(Pantala::start(&lab.router, &twins(&lab.config("[routes.fpm]\n"))));
    lab.attach();
    lab.router.netlink().unwrap().set_up("lo", true).unwrap();
    let (bird, other) = lab.pair();
    for family in Family::BOTH {
        // Both have the first network, and BIRD alone the second one.
        for host in [bird, other] {
            announce(host, behind(family, false), network(family, false));
        }
        announce(bird, behind(family, true), network(family, true));
    }
    let folders = [Folder::new(), Folder::new(), Folder::new()];
    write(&folders[1], 2, "eth0", Family::BOTH.map(|family| other.router(family)));
    write(&folders[0], 1, "twin1", Family::BOTH.map(|family| bird.addr(family)));
    also_on(&folders[0], "twin1", "twin2");
    let _frr = Frr::start(&other.netns, &folders[1], &["ospfd", "ospf6d"]);
    let _ours = Frr::start(&lab.router, &folders[0], &DAEMONS);
    let [own, peer] =
        [Family::BOTH.map(|family| bird.addr(family)), Family::BOTH.map(|family| bird.router(family))];
    let _bird = Bird::start(&bird.netns, &folders[2], own, peer);
    let hops = |family| {
        let listed = lab.pantala().json("netstat -rn");
        let to = network(family, false).to_string();
        let found = listed.as_array().unwrap().iter().find(|route| route["to"] == to).cloned();
        found.map_or(0, |found| found["next_hops"].as_array().map_or(0, Vec::len))
    };
    let are = |family, count| {
        let is_right = within(LONG, || (hops(family) == count).then_some(()));
        assert!(is_right.is_some(), "{count} next hops: {}", lab.pantala().shows("netstat -rn"));
    };
    let asks = |family, is_bgps| (0..4).all(|_| ping(&lab.hosts[2].netns, behind(family, is_bgps), 1) == 1);
    lab.both(|family| {
        are(family, 2);
        assert!(asks(family, false), "by two routers");
        is_by(&lab, family, true, Some("bgp"));
        assert!(asks(family, true), "by BIRD");
    });
    bird.netns.netlink().unwrap().set_up("eth0", false).unwrap();
    lab.both(|family| {
        are(family, 1);
        assert!(asks(family, false), "by the other router");
    });
}

/// Milliseconds between BFD's packets, of which three that are missing end a session.
const BFD_MS: u32 = 100;

/// Writes the configurations of a router whose BGP sessions BFD watches, and whose own timers are much longer.
fn write_bfd(folder: &Folder, number: u8, interface: &str, peers: [IpAddr; 2]) {
    let (id, other) = (64_500 + u32::from(number), 64_503 - u32::from(number));
    let bfd = |peer: IpAddr| {
        format!(
            " peer {peer} interface {interface}\n  detect-multiplier 3\n  receive-interval {BFD_MS}\n  \
             transmit-interval {BFD_MS}\n  no shutdown\n"
        )
    };
    let bgp = |peer: IpAddr| {
        format!(
            " neighbor {peer} remote-as {other}\n neighbor {peer} timers connect 1\n \
             neighbor {peer} advertisement-interval 0\n neighbor {peer} bfd 3 {BFD_MS} {BFD_MS}\n"
        )
    };
    let network = |word: &str, peer: IpAddr, family| {
        let network =
            if number == 2 { format!("  network {}\n", network(family, true)) } else { String::new() };
        format!(" address-family {word} unicast\n  neighbor {peer} activate\n{network} exit-address-family\n")
    };
    let head = format!("router bgp {id}\n bgp router-id 1.1.1.{number}\n no bgp ebgp-requires-policy\n");
    let bgp = [
        head + " no bgp default ipv4-unicast\n",
        peers.map(bgp).concat(),
        network("ipv4", peers[0], Family::V4),
        network("ipv6", peers[1], Family::V6),
    ];
    let zebra = if number == 1 { "fpm address 127.0.0.1 port 2620\n" } else { "" };
    let bfd = format!("bfd\n{}", peers.map(bfd).concat());
    for (name, text) in [("zebra", zebra.to_owned()), ("bfdd", bfd), ("bgpd", bgp.concat())] {
        std::fs::write(folder.file(&format!("{name}.conf")), text).unwrap();
    }
}

/// States of the BFD sessions with a peer, as bfdd has them.
pub(crate) fn bfd(folder: &Folder, netns: &Netns, peer: IpAddr) -> Vec<String> {
    let mut command = Command::new("vtysh");
    command.arg("--vty_socket").arg(folder.path()).args(["-c", "show bfd peers json"]);
    let said = netns.put(&mut command).unwrap().output().unwrap();
    let peers: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap_or_default();
    let of_peer = |own: &&serde_json::Value| own["peer"] == peer.to_string();
    let status = |own: &serde_json::Value| own["status"].as_str().unwrap_or_default().to_owned();
    peers.as_array().into_iter().flatten().filter(of_peer).map(status).collect()
}

fn bfd_watches_sessions_through_a_twin_and_ends_them_in_its_detection_time() {
    if !Frr::is_there() || !need::program("vtysh") {
        return;
    }
    for attach in [Attach::Native, Attach::Tap] {
        let test = "routing_daemons::bfd_watches_sessions_through_a_twin_and_ends_them_in_its_detection_time";
        let links = [Link::new(Attach::Native), Link::new(attach)];
        let Some(lab) = Lab::start_with(test, &links, "punt = \"twin2\"\n[routes.fpm]\n") else { return };
        let (_, b) = lab.pair();
        lab.router.netlink().unwrap().set_up("lo", true).unwrap();
        Family::BOTH.into_iter().for_each(|family| announce(b, behind(family, true), network(family, true)));
        let folders = [Folder::new(), Folder::new()];
        write_bfd(&folders[0], 1, "twin2", Family::BOTH.map(|family| b.addr(family)));
        write_bfd(&folders[1], 2, "eth0", Family::BOTH.map(|family| b.router(family)));
        let daemons = ["bfdd", "bgpd"];
        let mut other = Frr::start(&b.netns, &folders[1], &daemons);
        let _frr = Frr::start(&lab.router, &folders[0], &daemons);
        let are = |family: Family, status: &str, limit| {
            let mut seen = Vec::new();
            let is_right = within(limit, || {
                seen = bfd(&folders[0], &lab.router, b.addr(family));
                (!seen.is_empty() && seen.iter().all(|own| own == status)).then_some(())
            });
            assert!(is_right.is_some(), "{status}, {attach:?}: {seen:?}");
        };
        lab.both(|family| {
            are(family, "up", LONG);
            is_by(&lab, family, true, Some("bgp"));
        });
        // The other bfdd falls silent, and says nothing of it; BGP's own timers would take minutes.
        other.kill(Some("bfdd"));
        lab.both(|family| {
            are(family, "down", SILENCE);
            let gone = within(SILENCE, || protocol(&lab, network(family, true)).is_none().then_some(()));
            assert!(gone.is_some(), "the routes go with the session");
        });
        drop(other);
        let _other = Frr::start(&b.netns, &folders[1], &daemons);
        lab.both(|family| are(family, "up", LONG));
        // The wire is cut.
        b.netns.netlink().unwrap().set_up("eth0", false).unwrap();
        lab.both(|family| are(family, "down", SILENCE));
    }
}

harness::tests![
    bfd_watches_sessions_through_a_twin_and_ends_them_in_its_detection_time,
    ospf_and_bgp_run_through_a_twin_and_their_routes_carry,
    flows_go_by_two_routers_and_by_the_other_when_a_wire_is_pulled,
];
