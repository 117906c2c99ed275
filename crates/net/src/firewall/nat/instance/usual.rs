//! The usual packet: TCP or UDP over IPv4, whole, without options, of a flow that is bound. A test holds this to what the
//! careful way does.

use pkt::{Flags, Pkt, WINDOW};
use wire::{Protocol, ip4, tcp, udp};

use super::{Here, Instance};
use crate::count::Count;
use crate::firewall::nat::rewrite::rewrite_usual;
use crate::firewall::nat::shape::{End, Kind, Side};
use crate::firewall::nat::table::{By, Key, Tick, Way};

/// The first byte of a header without options.
const NO_OPTIONS: u8 = 0x45;

impl Instance {
    /// Translates a usual packet; false, and nothing has changed, if it is not one.
    #[inline]
    pub(super) fn is_bound(&mut self, here: &mut Here<'_>, pkt: &mut Pkt, way: Way) -> bool {
        let spec = &*self.spec;
        let Some(outside) =
            spec.addr.filter(|_| !(spec.reverse || spec.proxy_only) && spec.redirects.is_empty())
        else {
            return false;
        };
        let ip = pkt.window(0);
        let (src, dst) = (addr(ip, 12), addr(ip, 16));
        let is_ours = match way {
            Way::Out => dst != outside && spec.has_source(src.into()),
            Way::In => dst == outside && !spec.is_from_inside(pkt.rcvif),
        };
        if !is_ours || !is_usual(pkt, ip) {
            return false;
        }
        let (src, dst) =
            (End { addr: src.into(), port: port(ip, 20) }, End { addr: dst.into(), port: port(ip, 22) });
        let kind = if ip[9] == Protocol::TCP.0 { Kind::Tcp(ip[33]) } else { Kind::Udp };
        let protocol = ip[9];
        let (by, key, side, count) = match way {
            Way::Out => (By::Inside, Key { end: src, remote: dst, protocol }, Side::Src, Count::NatOut),
            Way::In => (By::Outside, Key { end: dst, remote: src, protocol }, Side::Dst, Count::NatIn),
        };
        let now = Tick::at(here.now);
        let Some(id) = self.table.find(by, &key, now) else { return false };
        let binding = self.table.get_mut(id);
        binding.pass(way, kind, now, &spec.lifetimes);
        let to = match way {
            Way::Out => binding.outside(),
            Way::In => binding.inside(),
        };
        rewrite_usual(pkt.window_mut(0), side, u32::try_from(to.addr).unwrap_or_default(), to.port);
        pkt.flags.clear(Flags::HASH);
        here.counters.add(count, 1);
        true
    }
}

/// Whether all that is changed stands where it does in a usual packet.
#[inline]
fn is_usual(pkt: &Pkt, ip: &[u8; WINDOW]) -> bool {
    let is_fragment = ip[6] & 0x3f | ip[7] != 0;
    let len = match Protocol(ip[9]) {
        Protocol::TCP => ip4::HEADER_LEN + tcp::HEADER_LEN,
        Protocol::UDP => ip4::HEADER_LEN + udp::HEADER_LEN,
        _ => return false,
    };
    ip[0] == NO_OPTIONS && !is_fragment && pkt.head_len() >= len && !pkt.flags.has(Flags::CSUM_PARTIAL)
}

#[inline]
const fn addr(ip: &[u8; WINDOW], at: usize) -> u32 {
    u32::from_be_bytes([ip[at], ip[at + 1], ip[at + 2], ip[at + 3]])
}

#[inline]
const fn port(ip: &[u8; WINDOW], at: usize) -> u16 {
    u16::from_be_bytes([ip[at], ip[at + 1]])
}
