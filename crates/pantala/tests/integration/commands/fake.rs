//! A stack of a few vectors.

use core::net::IpAddr;
use core::time::Duration;
use std::sync::{Arc, Mutex};

use ipnet::IpNet;
use pantala::Mac;
use pantala::api::stack::{Echo, EchoAnswer, EchoAnswerKind, Stack};
use pantala::api::*;
use tokio::sync::mpsc;

mod firewall;
mod sockets;

#[derive(Default)]
pub(crate) struct Fake {
    pub(crate) told: Arc<Mutex<Vec<String>>>,
    /// Number of looks at the interfaces; ten packets come in between two of them.
    looks: u64,
}

impl Fake {
    fn edit_route(&self, edit: &RouteEdit) -> Answer<()> {
        if let RouteEdit::Add(route) = edit
            && routes().iter().any(|known| known.to == route.to)
        {
            let error = Error::new(ErrorKind::Exists, format!("there is a route to {}", route.to));
            return Err(error.hint("delete it first"));
        }
        self.tell(match edit {
            RouteEdit::Add(route) => format!("add {route:?}"),
            RouteEdit::Change(route) => format!("change {route:?}"),
            RouteEdit::Delete { to, via, .. } => format!("delete {to} via {via:?}"),
        });
        Ok(())
    }

    fn tell(&self, what: String) {
        self.told.lock().unwrap().push(what);
    }
}

type Answer<T> = Result<T, Error>;

impl Stack for Fake {
    fn interfaces(&mut self) -> Answer<Vec<Interface>> {
        let mut lan = lan();
        lan.counters.rx_packets += self.looks * 10;
        lan.counters.rx_bytes += self.looks * 1000;
        self.looks += 1;
        Ok(vec![loopback(), lan, wan()])
    }

    fn change_interface(&mut self, name: &str, change: &InterfaceChange) -> Answer<()> {
        if name == "nosuch" {
            return Err(
                Error::new(ErrorKind::NotFound, "there is no interface `nosuch`").hint("known are lan, wan")
            );
        }
        match change.monitor {
            None => self.tell(format!("{name} up={:?}", change.up)),
            Some(on) => self.tell(format!("{name} monitor={on}")),
        }
        Ok(())
    }

    fn rings(&mut self) -> Answer<Vec<Ring>> {
        let ring = |ring, cpu| Ring {
            interface: "lan".into(),
            ring,
            device: "af_xdp:eth0".into(),
            queue: ring + 4,
            cpu,
            steering: Steering::Nic,
            rx_packets: 42,
            tx_packets: 40,
            doorbells: 7,
            rx_drops: 2,
            polls: 1000,
            busy_polls: 9,
            burst: 256,
            bursts_used_up: 3,
        };
        let wan = Ring {
            interface: "wan".into(),
            device: "tap:wan0".into(),
            steering: Steering::HandOff,
            queue: 0,
            ..ring(0, 1)
        };
        Ok(vec![ring(0, 0), ring(1, 1), wan])
    }

    fn move_ring(&mut self, interface: &str, ring: u32, change: RingChange) -> Answer<()> {
        if change.cpu > 1 {
            let error = format!("no netisr runs on CPU {}", change.cpu);
            return Err(Error::new(ErrorKind::NotFound, error).hint("known are 0, 1"));
        }
        self.tell(format!("ring {ring} of {interface} to CPU {}", change.cpu));
        Ok(())
    }

    fn monitored(&mut self, name: &str) -> Answer<Monitored> {
        if name != "wan" {
            let error = Error::new(ErrorKind::Invalid, format!("interface {name} is not in monitor mode"));
            return Err(error.hint(format!("pantala ifconfig {name} monitor")));
        }
        let latency = Latency {
            min: 900,
            mean: 1500.0,
            p50: 1000,
            p90: 2000,
            p99: 30_000,
            p999: 4_000_000,
            max: 5_000_000,
        };
        Ok(Monitored {
            interface: name.to_owned(),
            frames: 1000,
            bytes: 64_000,
            measured: 998,
            flows: 10,
            lost: 3,
            duplicated: 1,
            reordered: 2,
            displacement_max: 7,
            untracked: 0,
            latency_ns: Some(latency),
            jitter_ns: Some(Jitter { mean: 120.5, max: 900 }),
        })
    }

    fn routes(&mut self, page: &RoutePage) -> Answer<Vec<Route>> {
        let key = |route: &Route| (route.to.addr(), route.to.prefix_len());
        let behind = page.after.map(|after| (after.addr(), after.prefix_len()));
        let routes = routes().into_iter().filter(|route| behind.is_none_or(|behind| key(route) > behind));
        let family = |route: &Route| page.family.is_none_or(|family| family == Family::of(route.to.addr()));
        Ok(routes.filter(family).take(page.limit.unwrap_or(usize::MAX).min(3)).collect())
    }

    fn route_to(&mut self, _fib: u8, to: IpAddr) -> Answer<RouteAnswer> {
        let best =
            routes().into_iter().filter(|route| route.to.contains(&to)).max_by_key(|r| r.to.prefix_len());
        let route = best.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("no route leads to {to}")))?;
        Ok(RouteAnswer { to, route, source: Some(ip("192.0.2.1")), mtu: Some(1500) })
    }

    fn edit_routes(&mut self, edits: &[RouteEdit]) -> Answer<Vec<Answer<()>>> {
        Ok(edits.iter().map(|edit| self.edit_route(edit)).collect())
    }

    fn flush_routes(&mut self, _fib: u8, family: Option<Family>) -> Answer<u64> {
        self.tell(format!("flush {family:?}"));
        Ok(7)
    }

    fn neighbours(&mut self) -> Answer<Vec<Neighbour>> {
        Ok(neighbours())
    }

    fn links(&mut self) -> Answer<Vec<LearnedLink>> {
        Ok(vec![learned()])
    }

    fn set_neighbour(&mut self, address: IpAddr, request: &NeighbourRequest) -> Answer<()> {
        self.tell(format!(
            "{address} is {} on {:?}",
            request.mac.map_or_else(String::new, |mac| mac.to_string()),
            request.interface
        ));
        Ok(())
    }

    fn delete_neighbour(&mut self, address: IpAddr) -> Answer<()> {
        self.tell(format!("forget {address}"));
        Ok(())
    }

    fn flush_neighbours(&mut self, family: Family) -> Answer<u64> {
        self.tell(format!("forget {family}"));
        Ok(3)
    }

    fn forget_learned(&mut self, what: Learned) -> Answer<u64> {
        self.tell(format!("forget {what}"));
        Ok(2)
    }

    fn forget_stations(&mut self, interface: &str, mac: Option<Mac>) -> Answer<u64> {
        self.tell(format!(
            "forget {} on {interface}",
            mac.map_or_else(|| "all".to_owned(), |mac| mac.to_string())
        ));
        Ok(3)
    }

    fn netisrs(&mut self) -> Answer<Vec<Netisr>> {
        let one = Netisr {
            cpu: 0,
            turns: 1000,
            busy_turns: 100,
            packets: 6400,
            handoffs_in: 7,
            handoffs_out: 8,
            messages: 9,
            sleeps: 10,
            wakeups: 11,
            busy_ns: 1_500_000_000,
            burst: 256,
            long_turns: 12,
            user_frac: 50,
            user_ns: 1_400_000_000,
        };
        Ok(vec![one, Netisr { cpu: 1, ..Netisr::default() }])
    }

    fn pools(&mut self) -> Answer<Vec<Pool>> {
        let pool =
            |cpu, free| Pool { cpu, buffers: 4096, free, in_rings: 1024, buffer_bytes: 2048, denied: 2 };
        Ok(vec![pool(0, 3000), pool(1, 3072)])
    }

    fn counters(&mut self) -> Answer<Counters> {
        let counter = |name: &str, node: &str, sentence: &str, per_cpu: [u64; 2]| Counter {
            name: name.into(),
            node: node.into(),
            sentence: sentence.into(),
            count: per_cpu.iter().sum(),
            per_cpu: per_cpu.to_vec(),
        };
        let drop = |reason: &str, node: &str, sentence: &str, per_cpu: [u64; 2]| DropCount {
            reason: reason.into(),
            node: node.into(),
            sentence: sentence.into(),
            count: per_cpu.iter().sum(),
            per_cpu: per_cpu.to_vec(),
        };
        Ok(Counters {
            counters: vec![
                counter("turns", "netisr", "netisr turns", [500, 500]),
                counter("ip4_in", "ip4", "IPv4 packets received", [30, 12]),
                counter("ip4_forwarded", "ip4", "IPv4 packets forwarded", [0, 0]),
                counter("ip6_in", "ip6", "IPv6 packets received", [5, 0]),
                counter("icmp6_echo_answered", "icmp6", "ICMPv6 echo requests answered", [1, 0]),
            ],
            drops: vec![
                drop("ip4_bad_checksum", "ip4", "bad IPv4 header checksum", [0, 3]),
                drop("no_route", "forward", "no route to host", [0, 0]),
            ],
        })
    }

    fn sysctls(&mut self) -> Answer<Vec<Sysctl>> {
        let variable = |name: &str, value: &str, unit: &str, words: &[&str], writable| Sysctl {
            name: name.into(),
            value: value.into(),
            default: if writable { "cubic".into() } else { value.into() },
            unit: unit.into(),
            min: 1,
            max: 499,
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            writable,
            description: "something".into(),
        };
        Ok(vec![
            variable("net.inet.tcp.cc.algorithm", "newreno", "", &["newreno", "cubic"], true),
            Sysctl { default: "40".into(), ..variable("net.inet.tcp.delacktime", "20", "ms", &[], true) },
            variable("net.inet.udp.checksum", "1", "", &[], false),
        ])
    }

    fn change_sysctl(&mut self, name: &str, change: &SysctlChange) -> Answer<SysctlChanged> {
        if change.value == "500" {
            let error = Error::new(ErrorKind::Invalid, format!("{name} cannot be 500"));
            return Err(error.hint("it is a number from 1 to 499"));
        }
        self.tell(format!("{name}={}", change.value));
        Ok(SysctlChanged { name: name.into(), old: "20".into(), new: change.value.clone() })
    }

    fn echo(&mut self, echo: &Echo, answers: mpsc::Sender<EchoAnswer>) -> Answer<()> {
        let answer = |kind| EchoAnswer { seq: echo.seq, from: echo.to, kind };
        let rtt = Duration::from_micros(u64::from(echo.seq + 1) * 100);
        let reply = answer(EchoAnswerKind::Reply { bytes: u32::from(echo.bytes) + 8, ttl: 64, rtt });
        let unreachable = answer(EchoAnswerKind::Unreachable("Destination Host Unreachable".into()));
        match echo.to.to_string().as_str() {
            "192.0.2.66" => {}
            "192.0.2.99" => return Err(Error::new(ErrorKind::NotFound, "no route to host")),
            "192.0.2.77" => drop(answers.try_send(unreachable)),
            "192.0.2.22" => {
                let _ = answers.try_send(reply.clone());
                let _ = answers.try_send(reply);
            }
            _ => drop(answers.try_send(reply)),
        }
        self.tell(format!("echo {} {} bytes df={}", echo.to, echo.bytes, echo.dont_fragment));
        Ok(())
    }

    fn reload(&mut self) -> Answer<Reloaded> {
        Ok(Reloaded { changes: vec!["lan: mtu 1500 -> 9000".into()] })
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn address(text: &str, state: AddressState) -> Address {
    let net: IpNet = text.parse().unwrap();
    let (autoconf, temporary, preferred_s, valid_s) = (false, false, None, None);
    let (address, prefix_len) = (net.addr(), net.prefix_len());
    Address { address, prefix_len, state, autoconf, temporary, preferred_s, valid_s }
}

/// An address that a router's prefix made.
fn autoconf(text: &str, state: AddressState, temporary: bool, life: [Option<u64>; 2]) -> Address {
    let [preferred_s, valid_s] = life;
    Address { autoconf: true, temporary, preferred_s, valid_s, ..address(text, state) }
}

fn learned() -> LearnedLink {
    let router = |address: &str, preference, reachable, chosen| DefaultRouter {
        address: address.parse().unwrap(),
        preference,
        expires_s: 1790,
        reachable,
        chosen,
    };
    let prefix =
        |prefix: &str, expires_s| OnLinkPrefix { prefix: prefix.parse().unwrap(), expires_s, refused: false };
    LearnedLink {
        interface: "lan".into(),
        routers: vec![
            router("fe80::7", Preference::Medium, true, true),
            router("fe80::8", Preference::High, false, false),
        ],
        prefixes: vec![prefix("2001:db8::/64", Some(86_398)), prefix("2001:db8:7::/64", None)],
        mtu: Some(1480),
        hop_limit: None,
        reachable_ms: 30_000,
        retrans_ms: 1000,
    }
}

const ETHERNET: &[InterfaceFlag] = &[
    InterfaceFlag::Up,
    InterfaceFlag::Broadcast,
    InterfaceFlag::Running,
    InterfaceFlag::Simplex,
    InterfaceFlag::Multicast,
];

fn loopback() -> Interface {
    Interface {
        fib: 0,
        metric: 0,
        twin: None,
        twin_of: None,
        name: "lo0".into(),
        index: 1,
        flags: vec![
            InterfaceFlag::Up,
            InterfaceFlag::Loopback,
            InterfaceFlag::Running,
            InterfaceFlag::Multicast,
        ],
        description: None,
        options: vec![],
        mtu: 16384,
        mac: None,
        groups: Vec::new(),
        fdb: Vec::new(),
        addresses: vec![
            address("127.0.0.1/8", AddressState::Preferred),
            address("::1/128", AddressState::Preferred),
        ],
        device: None,
        link: Link { active: true, media: String::new() },
        rings: vec![],
        queues: vec![],
        counters: InterfaceCounters::default(),
    }
}

fn queue(cpu: u32, discipline: &str, packets: u64) -> OutputQueue {
    OutputQueue {
        cpu,
        discipline: discipline.into(),
        packets,
        bytes: packets * 100,
        flows: packets.min(2),
        packets_max: 10240,
        bytes_max: 1 << 25,
        byte_limit: (cpu == 0).then_some(3028),
        in_flight: 1514,
    }
}

fn lan() -> Interface {
    let ring = |ring, cpu, rx_packets| RingInfo {
        ring,
        cpu,
        counters: InterfaceCounters { rx_packets, ..InterfaceCounters::default() },
    };
    Interface {
        fib: 0,
        metric: 0,
        twin: None,
        twin_of: None,
        name: "lan".into(),
        index: 2,
        flags: ETHERNET.to_vec(),
        description: None,
        options: vec![InterfaceOption::Rxcsum, InterfaceOption::Txcsum],
        mtu: 1500,
        mac: Some(Mac([2, 0, 0, 0, 0, 1].into())),
        groups: Vec::new(),
        fdb: Vec::new(),
        addresses: vec![
            address("192.0.2.1/24", AddressState::Preferred),
            address("2001:db8::1/64", AddressState::Tentative),
            address("fe80::1/64", AddressState::Preferred),
            autoconf("2001:db8:7::5/64", AddressState::Deprecated, false, [Some(0), Some(3600)]),
            autoconf("2001:db8:7::9/64", AddressState::Preferred, true, [Some(60), None]),
        ],
        device: Some(DeviceInfo {
            device: "af_xdp:eth0,mode=native".into(),
            mode: DeviceMode::Native,
            copy: Some(CopyMode::Copy),
            need_wakeup: true,
            offload: None,
            xdp: None,
            umem: Some(Umem { chunks: 4096, chunk_bytes: 2048 }),
            queues: 2,
            memif: None,
            bridge: None,
            vlanpcp: None,
            pppoe: None,
        }),
        link: Link { active: true, media: "Ethernet autoselect".into() },
        rings: vec![ring(0, 0, 40), ring(1, 1, 2)],
        queues: vec![queue(0, "fq_codel", 3), queue(1, "fq_codel", 0)],
        counters: InterfaceCounters {
            rx_packets: 42,
            rx_bytes: 4200,
            rx_errors: 1,
            rx_drops: 2,
            tx_packets: 40,
            tx_bytes: 4000,
            tx_errors: 3,
            tx_drops: 4,
            tx_marks: 6,
            tx_pushed_back: 7,
            tx_flushes: 8,
            doorbells: 5,
        },
    }
}

fn wan() -> Interface {
    Interface {
        fib: 0,
        metric: 0,
        twin: None,
        twin_of: None,
        name: "wan".into(),
        index: 3,
        flags: vec![InterfaceFlag::Broadcast, InterfaceFlag::Simplex, InterfaceFlag::Multicast],
        description: None,
        options: vec![],
        mac: Some(Mac([2, 0, 0, 0, 0, 2].into())),
        groups: vec![ip("224.0.0.2"), ip("ff02::1:ff00:1")],
        fdb: vec![],
        addresses: vec![address("198.51.100.0/31", AddressState::Duplicated)],
        device: Some(DeviceInfo {
            device: "tap:wan0".into(),
            mode: DeviceMode::Tap,
            copy: None,
            need_wakeup: false,
            offload: None,
            xdp: None,
            umem: None,
            queues: 1,
            memif: None,
            bridge: None,
            vlanpcp: None,
            pppoe: None,
        }),
        link: Link { active: false, media: String::new() },
        rings: vec![],
        queues: vec![],
        counters: InterfaceCounters::default(),
        ..lan()
    }
}

fn routes() -> Vec<Route> {
    let hop = |gateway: Option<&str>, interface: &str| NextHop {
        gateway: gateway.map(ip),
        interface: interface.into(),
        weight: 1,
    };
    let route = |to: &str, action, origin, next_hops| Route {
        fib: 0,
        to: to.parse().unwrap(),
        action,
        next_hops,
        metrics: RouteMetrics::default(),
        origin,
        in_force: true,
        expires_s: None,
        protocol: None,
        distance: None,
        age_s: None,
    };
    let (connected, fixed) = (RouteOrigin::Connected, RouteOrigin::Static);
    let two = vec![hop(Some("192.0.2.254"), "lan"), hop(Some("192.0.2.253"), "lan")];
    vec![
        route("0.0.0.0/0", RouteAction::Forward, fixed, two),
        route("10.0.0.0/8", RouteAction::Reject, fixed, vec![]),
        route("192.0.2.0/24", RouteAction::Forward, connected, vec![hop(None, "lan")]),
        route("192.0.2.1/32", RouteAction::Local, connected, vec![hop(None, "lo0")]),
        route("2001:db8::/64", RouteAction::Forward, connected, vec![hop(None, "lan")]),
        Route {
            expires_s: Some(300),
            ..route("2001:db8:1::/48", RouteAction::Forward, fixed, vec![hop(Some("fe80::2"), "lan")])
        },
        route("2001:db8:dead::/48", RouteAction::Blackhole, fixed, vec![]),
    ]
}

fn neighbours() -> Vec<Neighbour> {
    let neighbour = |address: &str, last: u8, state, expires_s| Neighbour {
        address: ip(address),
        mac: Some(Mac([2, 0, 0, 0, 0, last].into())),
        interface: "lan".into(),
        state,
        expires_s,
        permanent: expires_s.is_none(),
        router: false,
        published: false,
    };
    vec![
        neighbour("192.0.2.1", 1, NeighbourState::Reachable, None),
        neighbour("192.0.2.7", 7, NeighbourState::Reachable, Some(1187)),
        Neighbour { mac: None, ..neighbour("192.0.2.9", 0, NeighbourState::Incomplete, Some(2)) },
        neighbour("2001:db8::1", 1, NeighbourState::Reachable, None),
        Neighbour { router: true, ..neighbour("fe80::7", 7, NeighbourState::Stale, Some(86_398)) },
        Neighbour { mac: None, ..neighbour("2001:db8::9", 0, NeighbourState::Incomplete, Some(1)) },
    ]
}
