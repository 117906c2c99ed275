//! A message came: a copy for each socket that wants it.

use core::net::IpAddr;

use pkt::Pkt;
use wire::icmp6::kind;

use crate::base::count::Count;
use crate::host::dgram::Received;
use crate::host::pcb::FourTuple;
use crate::ip::group::Key;
use crate::ip::icmp::Quoted;
use crate::ip::ip_tx::IpTxParams;
use crate::ip::{group, l4};
use crate::link::tables::IfIndex;
use crate::turn::cpu::Cpu;

/// Shows a message for this host, which is intact, to the sockets of this CPU; answers whether one has taken it. `pkt`
/// starts with its network header, `pkt.l4` is where ICMP starts.
///
/// A socket that has as much to read as it may is not shown it: [`Count::IcmpRawFull`].
#[inline]
pub(crate) fn show(cpu: &mut Cpu, pkt: &Pkt) -> bool {
    cpu.raw.is_some() && show_to_all(cpu, pkt)
}

#[cold]
fn show_to_all(cpu: &mut Cpu, pkt: &Pkt) -> bool {
    let (src, dst) = l4::ends(pkt);
    let key = Key { ifindex: pkt.rcvif, group: dst };
    let is_own = !dst.is_multicast() || group::is_followed(cpu, key);
    let fib = cpu.tables.fib_of(pkt);
    let Cpu { raw: Some(sockets), counters, .. } = cpu else { return false };
    let ends = FourTuple::new((dst, 0).into(), (src, 0).into(), pkt.rcvif);
    let range = l4::range(pkt);
    let kind = pkt.head().get(range.start).copied().unwrap_or_default();
    let (from, to, tx_params) = (ends.remote(), ends.local, IpTxParams { fib, ..l4::tx_params(pkt) });
    let received = Received { len: range.len(), from, to, ifindex: pkt.rcvif, tx_params };
    let mut is_taken = false;
    sockets.each(|socket| {
        if !socket.wants(&ends, kind) || !socket.hears(key, src, is_own || is_of_groups(src, kind)) {
            return false;
        }
        let has_room = socket.base.queue.has_room(received.len, socket.base.settings.queue_bytes);
        if has_room {
            socket.base.queue.push(received, l4::pieces(pkt, range.clone()));
        }
        counters.add(if has_room { Count::IcmpRawTaken } else { Count::IcmpRawFull }, 1);
        is_taken |= has_room;
        has_room
    });
    is_taken
}

/// Whether a socket can have sent the quoted message.
pub(crate) fn can_have_sent(cpu: &Cpu, rcvif: IfIndex, quoted: &Quoted) -> bool {
    let ends = FourTuple::new((quoted.local, 0).into(), (quoted.remote, 0).into(), rcvif);
    cpu.raw.as_ref().is_some_and(|sockets| sockets.has(&ends))
}

/// Whether a message is one by which hosts and routers speak of groups (MLD): it is sent to the group that it is about.
const fn is_of_groups(src: IpAddr, of: u8) -> bool {
    src.is_ipv6() && matches!(of, kind::MLD_QUERY | kind::MLD_REPORT | kind::MLD_DONE | kind::MLD2_REPORT)
}
