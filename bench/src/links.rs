//! Routers and bridges over interfaces that stand on others: a VLAN, a tunnel, a VXLAN, a bridge.

use core::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use net::bridge::{Bridge, Port};
use net::fdb::{self, Behind, Static};
use net::fib::{Prefix, Route, To};
use net::logical::{Kind, Vlan};
use net::tables::{Config, IfAddr, IfIndex, Ifnet, Tables};
use net::tunnel::{Encap, Tunnel};
use net::vxlan::{self, Vxlan};
use wire::ether::{HEADER_LEN, Mac};
use wire::{EtherType, Protocol, ip4};

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
pub const KINDS: [&str; 6] = ["vlan", "gif", "vxlan", "bridge", "gifin", "gifin1000x"];
/// Tunnels beside that of `gifin1000x`.
const OTHERS: u16 = 999;

/// A router whose routes lead through an interface of this kind, which stands on the second device; `bridge` is a bridge of
/// both devices, which has learnt behind which of them the receiver is. To `gifin` packets come in a tunnel, and leave by the second device;
/// `gifin1000x` has a thousand tunnels, of which one is used; both are of IPv4 alone. The source and the sink are as in [`Router::new`].
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
        "gifin" => return Some(from_tunnel(0, family)),
        "gifin1000x" => return Some(from_tunnel(OTHERS, family)),
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

/// A router that receives its packets in a tunnel, beside which there are `others`.
fn from_tunnel(others: u16, family: Family) -> Result<Router, pkt::ArenaError> {
    let mut config = config(family);
    let (local, host) = (family.addr(0, 1), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)));
    let other = |n: u16| IpAddr::V4(Ipv4Addr::from_bits(0xc612_8000 + u32::from(n)));
    let ends = [host].into_iter().chain((0..others).map(other));
    for (index, remote) in (OVER..).zip(ends) {
        config.ifs.push(Ifnet {
            index,
            name: format!("gif{index}"),
            kind: Kind::Tunnel(Tunnel::between(local, remote, Encap::Ip)),
            addrs: Vec::new(),
            ..config.ifs[1].clone()
        });
    }
    let to = |net: u8| {
        let via = family.addr(OUT_NET, GATEWAYS[0]);
        let to = Prefix::new(family.addr(net, 0), family.prefix_len())?;
        Some(Route::new(to, To::Gateway { ifindex: OUT, via }))
    };
    config.routes = (1..=DESTINATIONS).filter_map(to).collect();
    let (supply, sent) = (Supply::default(), Arc::default());
    let mut frames = family.frames();
    if let (IpAddr::V4(dst), IpAddr::V4(src)) = (local, host) {
        frames
            .iter_mut()
            .for_each(|frame| encapsulate(frame, ip4::Header::new(src, dst, Protocol::IPIP, INNER)));
    }
    let source = Box::new(Source::new(frames, Arc::clone(&supply)));
    let sink = Box::new(Sink::new(Arc::clone(&sent)));
    Ok(Router::on(family, Tables::new(config), source, sink)?.counting(supply, sent))
}

/// Bytes of a packet that has room in a tunnel, in a frame of the usual length.
#[expect(clippy::cast_possible_truncation, reason = "30")]
const INNER: u16 = (FRAME_LEN - HEADER_LEN - ip4::HEADER_LEN) as u16;

/// Shortens the packet in a frame, and puts a header in front of it.
fn encapsulate(frame: &mut [u8; FRAME_LEN], outer: ip4::Header) {
    const LEN: usize = ip4::HEADER_LEN;
    let packet = &mut frame[HEADER_LEN..];
    let Ok(inner) = ip4::Header::parse(packet) else { return };
    packet.copy_within(..usize::from(INNER), LEN);
    let payload_len = u16::try_from(usize::from(INNER) - LEN).unwrap_or(0);
    let inner = ip4::Header { payload_len, ..inner };
    for (at, header) in [(0, outer), (LEN, inner)] {
        // Both have no options, and room.
        header.emit(&mut packet[at..][..LEN]).unwrap_or(0);
    }
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
            // A frame of 64 bytes has no room for two headers of IPv6.
            let kinds = KINDS.iter().filter(|kind| family == Family::Ip4 || !kind.starts_with("gifin"));
            for kind in kinds {
                let mut router = router(kind, family).unwrap().unwrap();
                let before = router.forward(0, 0);
                assert_eq!(router.forward(3, 256) - before, 3 * 256, "{kind}, {family:?}");
                assert_eq!(router.buffers_out(), 0);
            }
        }
    }
}
