//! Routers and bridges over interfaces that stand on others: a VLAN, a tunnel, a VXLAN, a bridge.

use core::net::IpAddr;
use std::sync::Arc;

use net::bridge::{Bridge, Port};
use net::fdb::{self, Behind, Static};
use net::fib::{Prefix, Route, To};
use net::logical::{Kind, Vlan};
use net::tables::{Config, IfAddr, IfIndex, Ifnet, Tables};
use net::tunnel::{Encap, Tunnel};
use net::vxlan::{self, Vxlan};
use wire::EtherType;
use wire::ether::Mac;

use crate::frames::{DESTINATIONS, FRAME_LEN, Family, GATEWAY};
use crate::router::{GATEWAYS, OUT, OUT_NET, Router, config};
use crate::wire::{Sink, Source, Supply};

/// The interface that stands on the others.
const OVER: IfIndex = 3;
/// Its network.
const OVER_NET: u8 = OUT_NET + 1;
/// The bridge's own link address.
const BRIDGE: Mac = Mac([2, 0, 0, 0, 0, 9]);

/// The kinds, as they are named in a table.
pub const KINDS: [&str; 4] = ["vlan", "gif", "vxlan", "bridge"];

/// A router whose routes lead through an interface of this kind, which stands on the second device; `bridge` is a bridge of
/// both devices, which has learnt behind which of them the receiver is. The source and the sink are as in [`Router::new`].
/// `None` if there is no such kind.
///
/// # Errors
///
/// When there is no memory for the buffers.
pub fn router(kind: &str, family: Family) -> Option<Result<Router, pkt::ArenaError>> {
    let over = match kind {
        "vlan" => Kind::Vlan(Vlan { parent: OUT, tpid: EtherType::VLAN, vid: 10, pcp: 0 }),
        "gif" => Kind::Tunnel(Tunnel::between(
            family.addr(OUT_NET, 1),
            family.addr(OUT_NET, GATEWAYS[0]),
            Encap::Ip,
        )),
        "vxlan" => Kind::Vxlan(Vxlan {
            vni: 42,
            local: family.addr(OUT_NET, 1),
            remote: Some(family.addr(OUT_NET, GATEWAYS[0])),
            port: vxlan::PORT,
        }),
        "bridge" => Kind::Bridge(Bridge::default()),
        _ => return None,
    };
    Some(with(over, family))
}

fn with(over: Kind, family: Family) -> Result<Router, pkt::ArenaError> {
    let (supply, sent) = (Supply::default(), Arc::default());
    let is_bridge = matches!(over, Kind::Bridge(_));
    let mut frames = family.frames();
    if is_bridge {
        frames
            .iter_mut()
            .for_each(|frame: &mut [u8; FRAME_LEN]| frame[..6].copy_from_slice(&GATEWAY.octets()));
    }
    let source = Box::new(Source::new(frames, Arc::clone(&supply)));
    let sink = Box::new(Sink::new(Arc::clone(&sent)));
    let mut router = Router::on(family, tables(over, family), source, sink)?;
    router.set_neighbour(OVER, family.addr(OVER_NET, GATEWAYS[0]), GATEWAY);
    Ok(router.counting(supply, sent))
}

fn tables(over: Kind, family: Family) -> Tables {
    let mut config = config(family);
    let behind = match over {
        Kind::Bridge(_) => Behind::Port(OUT),
        _ => Behind::Vtep(family.addr(OUT_NET, GATEWAYS[0])),
    };
    let statics = Arc::new([Static { mac: GATEWAY, behind }]);
    let has_fdb = over.learns();
    let net = if matches!(over, Kind::Bridge(_)) { 0 } else { OVER_NET };
    let own = Ifnet {
        index: OVER,
        name: "over".to_owned(),
        kind: over,
        mac: if has_fdb { BRIDGE } else { config.ifs[1].mac },
        mtu: 1400,
        addrs: vec![IfAddr { addr: family.addr(net, 1), prefix_len: family.prefix_len() }],
        fdb: if has_fdb {
            fdb::Settings { statics, ..fdb::Settings::default() }
        } else {
            fdb::Settings::default()
        },
        ..config.ifs[1].clone()
    };
    if matches!(over, Kind::Bridge(_)) {
        for port in &mut config.ifs {
            (port.addrs, port.port) = (Vec::new(), Some(Port { bridge: OVER, ..Port::default() }));
        }
    }
    config.ifs.push(own);
    let via = family.addr(OVER_NET, GATEWAYS[0]);
    let to = |net: u8| -> Option<Route> {
        let to: IpAddr = family.addr(net, 0);
        Some(Route::new(Prefix::new(to, family.prefix_len())?, To::Gateway { ifindex: OVER, via }))
    };
    config.routes = (1..=DESTINATIONS).filter_map(to).collect();
    Tables::new(Config { ..config })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_frames_leave_by_each_kind_of_interface_and_all_buffers_come_back() {
        for family in [Family::Ip4, Family::Ip6] {
            for kind in KINDS {
                let mut router = router(kind, family).unwrap().unwrap();
                let before = router.forward(0, 0);
                assert_eq!(router.forward(3, 256) - before, 3 * 256, "{kind}, {family:?}");
                assert_eq!(router.buffers_out(), 0);
            }
        }
    }
}
