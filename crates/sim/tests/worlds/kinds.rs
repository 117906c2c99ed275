//! Fair queueing, the firewall, address translation, the flow cache and captures over each kind of interface.
//!
//! docs/reference/INTERFACE-KINDS.md has these tests as a table; a test of the house holds the two together.

mod pairs;

use net::driver::Caps;
use net::logical::Vlan;
use net::pppoe::Control;
use net::time::Duration;
use net::tunnel::{Encap, Tunnel};
use net::vxlan::{PORT, Vxlan};
use sim::cable;
use sim::host::{Port, Spec};
use sim::plan::{self, Family};
use sim::world::{HostId, StationId, World};
use wire::EtherType;

use crate::common::{BOOT, Shape, station};

/// A kind of interface, and the family of its outer headers if it has any.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Ethernet,
    Tun,
    Vlan,
    Qinq,
    Bridge,
    Gif(Family),
    Gre(Family),
    Vxlan(Family),
    Pppoe,
}

/// Defines the tests of each kind.
macro_rules! kinds {
    ($($name:ident: $($kind:expr),+;)+) => {
        $(mod $name {
            use super::{Kind, pairs};
            use sim::plan::Family::{self, *};

            /// Each family of outer headers.
            fn each(test: fn(Kind)) {
                // Kinds without outer headers name none.
                let _: [Family; 2] = [V4, V6];
                [$($kind),+].into_iter().for_each(test);
            }

            #[test]
            fn two_greedy_flows_share_it_and_a_sparse_one_is_not_delayed() {
                each(pairs::fair_queueing);
            }

            #[test]
            fn rules_name_it_and_states_let_answers_in() {
                each(pairs::firewall);
            }

            #[test]
            fn addresses_are_translated_on_it_and_answers_come_home() {
                each(pairs::translation);
            }

            #[test]
            fn its_flows_hit_the_cache_and_new_rules_make_it_stale() {
                each(pairs::flow_cache);
            }

            #[test]
            fn its_packets_are_captured_without_outer_headers_and_tags() {
                each(pairs::capture);
            }
        })+
    };
}

kinds! {
    ethernet: Kind::Ethernet;
    tun: Kind::Tun;
    vlan: Kind::Vlan;
    qinq: Kind::Qinq;
    bridge: Kind::Bridge;
    gif: Kind::Gif(V4), Kind::Gif(V6);
    gre: Kind::Gre(V4), Kind::Gre(V6);
    vxlan: Kind::Vxlan(V4), Kind::Vxlan(V6);
    pppoe: Kind::Pppoe;
}

impl Kind {
    /// The name of the routers' interface in network 4.
    fn name(self) -> &'static str {
        match self {
            Self::Ethernet | Self::Tun => "mem1",
            Self::Vlan => "vlan2",
            Self::Qinq => "vlan3",
            Self::Bridge => "bridge0",
            Self::Gif(_) | Self::Gre(_) => "gif0",
            Self::Vxlan(_) => "vxlan0",
            Self::Pppoe => "pppoe0",
        }
    }

    /// The network of the port below.
    fn port_net(self) -> u8 {
        match self {
            Self::Ethernet | Self::Tun => 4,
            Self::Bridge => 102,
            _ => 2,
        }
    }

    /// Whether its packets have no link header: a capture has one of zeros.
    const fn is_bare(self) -> bool {
        matches!(self, Self::Tun | Self::Gif(_) | Self::Gre(_) | Self::Pppoe)
    }

    /// Bytes that each packet gets on its way by this kind of interface, the Ethernet header included.
    fn overhead(self) -> u64 {
        let outer = |family, behind: u64| behind + if family == Family::V4 { 20 } else { 40 };
        14 + match self {
            Self::Ethernet | Self::Tun | Self::Bridge => 0,
            Self::Vlan => 4,
            Self::Qinq | Self::Pppoe => 8,
            Self::Gif(family) => outer(family, 0),
            Self::Gre(family) => outer(family, 8),
            Self::Vxlan(family) => outer(family, 30),
        }
    }

    /// Router `here`, with its end of the link.
    fn end(self, router: Spec, here: u8) -> Spec {
        let there = 3 - here;
        let vlan = |parent, tpid, vid| Vlan { parent, tpid, vid, pcp: 0 };
        let tunnel =
            |family: Family, encap| Tunnel::between(family.addr(2, here), family.addr(2, there), encap);
        match self {
            Self::Ethernet | Self::Tun => router,
            Self::Vlan => router.vlan(vlan(2, EtherType::VLAN, 10), 4, here),
            Self::Qinq => {
                let router = router.vlan(vlan(2, EtherType::QINQ, 100), 5, here);
                router.vlan(vlan(3, EtherType::VLAN, 7), 4, here)
            }
            Self::Bridge => router.bridge(&[2, 3], 0, 4, here),
            Self::Gif(family) => router.tunnel(tunnel(family, Encap::Ip), 4, here),
            Self::Gre(family) => router.tunnel(tunnel(family, Encap::Gre { key: Some(7) }), 4, here),
            Self::Vxlan(family) => router.vxlan(vxlan(family, here), 4, here),
            Self::Pppoe => router.session(2, plan::mac(2, there), 4, here),
        }
    }
}

fn vxlan(outer: Family, here: u8) -> Vxlan {
    Vxlan { vni: 7, local: outer.addr(2, here), remote: Some(outer.addr(2, 3 - here)), port: PORT }
}

/// Networks 1 and 3 with a router and a station each; between the routers a link of a kind (network 4), over a cable.
struct Link {
    world: World,
    routers: [HostId; 2],
    a: StationId,
    b: StationId,
}

/// A link of a kind, whose neighbours are known.
fn link(name: &str, kind: Kind, shape: Shape, flows: Option<usize>, middle: cable::Spec) -> Link {
    let mut world = World::new(name, 1);
    let cables = [cable::Spec::default(), middle, cable::Spec::default()].map(|spec| world.cable(spec));
    let idle = [(); 2].map(|()| world.cable(cable::Spec::default()));
    let routers = [(1, 1, 3), (3, 2, 1)].map(|(own, here, behind): (u8, u8, u8)| {
        let port = |cable, net: u8, host: u8| {
            let port = Port::new(cable, net, host).rings(shape.rings, shape.rss);
            port.card(|card| (card.allowance, card.caps) = (1024, Caps { buffers_max: 4, ..Caps::default() }))
        };
        let lower = port(cables[1], kind.port_net(), here).card(|card| card.promiscuous = true);
        let lower = if matches!(kind, Kind::Tun) { lower.tun() } else { lower };
        let router = Spec::router(&format!("router{here}")).cpus(shape.cpus).buffers(8192);
        let mut router = router.port(port(cables[usize::from(own - 1)], own, 1)).port(lower);
        if matches!(kind, Kind::Bridge) {
            let second = port(idle[usize::from(here - 1)], 103, here);
            router = router.port(second.card(|card| card.promiscuous = true));
        }
        let router = Family::BOTH.into_iter().fold(kind.end(router, here), |router, family| {
            let router = router.via(family.prefix(behind), family.addr(4, 3 - here));
            // What network 1 is translated to.
            if here == 2 { router.via(family.prefix(9), family.addr(4, 1)) } else { router }
        });
        let host = world.host(Spec { flows, ..router });
        if matches!(kind, Kind::Pppoe) {
            for cpu in &mut world.of(host).cpus {
                cpu.netisr.cpu.pppoe = Some(Box::new(Control::new(vec![2], Box::new(|_| true))));
            }
        }
        host
    });
    let [a, b] = [(0, 1), (2, 3)].map(|(cable, net)| world.station(cables[cable], station(net, 2)));
    world.run_for(BOOT);
    for (at, family) in [1, 2].into_iter().zip(Family::BOTH) {
        world.at(a).ping(family.addr(3, 2), [9, at], 8);
    }
    // What neighbours ask each other later, they ask five seconds after their first packet (RFC 4861 §7.3.3).
    world.run_for(Duration::from_secs(7));
    assert_eq!(world.at(a).replies(9), 2, "{kind:?} {}", world.drops());
    Link { world, routers, a, b }
}
