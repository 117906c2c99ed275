//! The usual packet: TCP or UDP over IPv4, whole, without options, of a flow that is bound. A test holds this to what the
//! careful way does.

use pkt::{Flags, Pkt, WINDOW};
use wire::{Protocol, ip4, tcp, udp};

use super::{Here, Instance};
use crate::base::count::{Count, Counters};
use crate::base::time::Instant;
use crate::firewall::nat::headers::{End, Kind, Side};
use crate::firewall::nat::rewrite::rewrite_usual;
use crate::firewall::nat::table::{BindingDirection, By, Id, Key, Tick};
use crate::firewall::state::Mark;

/// The first byte of a header without options.
const NO_OPTIONS: u8 = 0x45;

impl Instance {
    /// Translates a usual packet, and answers its binding; `None`, and nothing has changed, if it is not one.
    #[inline]
    pub(super) fn translate_bound(
        &mut self,
        here: &mut Here<'_>,
        pkt: &mut Pkt,
        direction: BindingDirection,
    ) -> Option<Id> {
        let spec = &*self.spec;
        let outside =
            spec.addr.filter(|_| !(spec.reverse || spec.proxy_only) && spec.redirects.is_empty())?;
        let ip = pkt.window(0);
        let (src, dst) = (addr(ip, 12), addr(ip, 16));
        let is_ours = match direction {
            BindingDirection::Out => dst != outside && spec.has_source(src.into()),
            BindingDirection::In => dst == outside && !spec.is_from_inside(pkt.rcvif),
        };
        if !is_ours || !is_usual(pkt, ip) {
            return None;
        }
        let (src, dst) =
            (End { addr: src.into(), port: port(ip, 20) }, End { addr: dst.into(), port: port(ip, 22) });
        let protocol = ip[9];
        let (by, key) = match direction {
            BindingDirection::Out => (By::Inside, Key { end: src, remote: dst, protocol }),
            BindingDirection::In => (By::Outside, Key { end: dst, remote: src, protocol }),
        };
        let id = self.table.find(by, &key, Tick::at(here.now))?;
        self.pass_usual(here.counters, here.now, pkt, id, direction);
        Some(id)
    }

    /// Translates another packet of a flow whose last one had this binding, and differs in nothing that names the flow.
    /// False, and nothing has changed, if the binding is another one's now, or the packet does not `hit` its state.
    #[inline]
    pub(in super::super) fn translate_again(
        &mut self,
        counters: &mut Counters,
        now: Instant,
        pkt: &mut Pkt,
        (binding, direction): (Mark, BindingDirection),
        hits: impl FnOnce(&Pkt) -> bool,
    ) -> bool {
        let marked = self.table.marked(binding, Tick::at(now));
        let id = marked.filter(|_| !pkt.flags.has(Flags::CSUM_PARTIAL) && hits(pkt));
        id.inspect(|id| self.pass_usual(counters, now, pkt, *id, direction)).is_some()
    }

    /// Whether the binding of this mark is alive.
    pub(in super::super) fn is_bound(&self, binding: Mark, now: Instant) -> bool {
        self.table.marked(binding, Tick::at(now)).is_some()
    }

    /// Keeps a binding alive whose packets go where only their number is known; false if it is gone.
    pub(in super::super) fn forwarded(
        &mut self,
        (binding, direction): (Mark, BindingDirection),
        is_tcp: bool,
        packets: u64,
        now: Instant,
    ) -> bool {
        let Some(id) = self.table.marked(binding, Tick::at(now)) else { return false };
        if packets > 0 {
            let kind = if is_tcp { Kind::Tcp(tcp::Flags::ACK.0) } else { Kind::Udp };
            self.table.get_mut(id).pass(direction, kind, Tick::at(now), &self.spec.lifetimes);
        }
        true
    }

    #[inline]
    fn pass_usual(
        &mut self,
        counters: &mut Counters,
        now: Instant,
        pkt: &mut Pkt,
        id: Id,
        direction: BindingDirection,
    ) {
        let ip = pkt.window(0);
        let kind = if ip[9] == Protocol::TCP.0 { Kind::Tcp(ip[33]) } else { Kind::Udp };
        let binding = self.table.get_mut(id);
        binding.pass(direction, kind, Tick::at(now), &self.spec.lifetimes);
        let (to, side, count) = match direction {
            BindingDirection::Out => (binding.outside(), Side::Src, Count::NatOut),
            BindingDirection::In => (binding.inside(), Side::Dst, Count::NatIn),
        };
        rewrite_usual(pkt.window_mut(0), side, u32::try_from(to.addr).unwrap_or_default(), to.port);
        pkt.flags.clear(Flags::HASH.with(Flags::KNOWN));
        counters.add(count, 1);
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
