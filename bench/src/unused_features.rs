//! A router with all that can be configured, and none of it for the packets that are counted: they must cost no more.

use core::net::IpAddr;
use std::sync::Arc;

use net::fib::{Hop, Metrics, Prefix, Route, To};
use net::ifq::QueueSpec;
use net::logical::{Kind, Vlan};
use net::tables::{Config, IfAddr, IfIndex, Ifnet, Tables};
use wire::EtherType;

use crate::frames::{DESTINATIONS, Family};
use crate::router::{GATEWAYS, OUT, Router, config, gateway};
use crate::wire::{Sink, Source, Supply};

/// Interfaces in all.
const INTERFACES: IfIndex = 16;
/// The first of the networks that nothing is sent to: behind those of the frames.
const NETS: u8 = 150;
/// Size of the flow cache before it was switched off.
const FLOWS: usize = 4096;

/// [`Router::new`] beside 14 other interfaces: one that only monitors, one that is down, one with a plain queue, VLANs on those
/// that the packets take, all with addresses and routes. There are routes over several gateways, with an MTU, a segment lifetime and an initial window of
/// their own, and such that refuse. The flow cache was on, and is off again.
///
/// # Errors
///
/// When there is no memory for the buffers.
pub fn router(family: Family) -> Result<Router, pkt::ArenaError> {
    let (supply, sent) = (Supply::default(), Arc::default());
    let source = Box::new(Source::new(family.frames(), Arc::clone(&supply)));
    let sink = Box::new(Sink::new(Arc::clone(&sent)));
    let mut router = Router::on(family, tables(family), source, sink)?.counting(supply, sent);
    router.cache_flows(Some(FLOWS));
    router.forward(1, 64);
    router.cache_flows(None);
    Ok(router)
}

fn tables(family: Family) -> Tables {
    let plain = config(family);
    let others =
        (OUT + 1..=INTERFACES).zip(NETS..).map(|(index, net)| ifnet(family, &plain.ifs[0], index, net));
    let others: Vec<_> = others.collect();
    let used =
        (1..=DESTINATIONS).filter_map(|net| route(family, net, vec![gateway(family, GATEWAYS[0]).into()]));
    let routes = used.chain(unused(family)).collect();
    Tables::new(Config { ifs: plain.ifs.into_iter().chain(others).collect(), routes, ..config(family) })
}

/// Another interface, with something about it that is not usual.
fn ifnet(family: Family, usual: &Ifnet, index: IfIndex, net: u8) -> Ifnet {
    let addrs = vec![IfAddr { addr: family.addr(net, 1), prefix_len: family.prefix_len() }];
    let other = Ifnet { index, name: format!("other{index}"), addrs, ..usual.clone() };
    match index % 5 {
        0 => Ifnet { monitor: true, ..other },
        1 => Ifnet { queue: QueueSpec::FIFO, ..other },
        2 => Ifnet { up: false, ..other },
        3 => Ifnet { kind: vlan(index), ..other },
        _ => Ifnet { mtu: 9000, ..other },
    }
}

/// A VLAN on an interface that the counted packets take.
const fn vlan(index: IfIndex) -> Kind {
    Kind::Vlan(Vlan { parent: index % OUT + 1, tpid: EtherType::VLAN, vid: index, pcp: 0 })
}

/// Routes to unused destinations.
fn unused(family: Family) -> impl Iterator<Item = Route> {
    let to = |host| Hop::from(gateway(family, host));
    let metrics = Metrics { mtu: 1280, msl_ms: 1000, initial_window: 4 };
    let hops = [
        vec![to(GATEWAYS[0]), to(GATEWAYS[1])],
        vec![Hop { metrics, ..to(GATEWAYS[1]) }],
        vec![To::Reject.into()],
        vec![To::Blackhole.into()],
        vec![To::OnLink { ifindex: OUT + 1 }.into()],
    ];
    (NETS + 50..).zip(hops).filter_map(move |(net, hops)| route(family, net, hops))
}

fn route(family: Family, net: u8, hops: Vec<Hop>) -> Option<Route> {
    let to: IpAddr = family.addr(net, 0);
    Some(Route { fib: 0, to: Prefix::new(to, family.prefix_len())?, hops })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_configured_elsewhere_changes_nothing() {
        for family in [Family::Ip4, Family::Ip6] {
            let mut router = router(family).unwrap();
            let before = router.forward(0, 0);
            assert_eq!(router.forward(3, 256) - before, 3 * 256, "{family:?}");
            assert_eq!(router.buffers_out(), 0);
        }
    }
}
