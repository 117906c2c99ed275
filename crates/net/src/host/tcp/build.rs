//! From a segment to a packet.

use pkt::{Flags as Facts, Gso, Note, Pkt};
use wire::Protocol;
use wire::tcp::{CHECKSUM_OFFSET, Flags, Header};

use super::signature;
use super::tcb::Out;
use crate::base::count::Count;
use crate::firewall;
use crate::host::pcb::FourTuple;
pub use crate::ip::ip_tx::IpTxParams;
use crate::ip::{cached_route, ip_tx};
use crate::turn::cpu::Cpu;

/// In the field of congestion notification (RFC 3168 §5).
const ECT_0: u8 = 0b10;

/// Sends a segment of the conversation between `ends`, of which the last that came bore this `note`. One that finds no
/// buffer is lost, as on a wire.
pub(super) fn send(
    cpu: &mut Cpu,
    ends: &FourTuple,
    tx_params: IpTxParams,
    note: Option<Note>,
    out: &Out<'_>,
) {
    if out.header.options.signature.is_none() {
        return send_with(cpu, ends, tx_params, note, out, &out.header);
    }
    let mut header = out.header;
    match signature::sign(cpu, (ends.local, ends.remote), &mut header, out.payload) {
        Some(()) => send_with(cpu, ends, tx_params, note, out, &header),
        None => cpu.count(Count::TcpNoKey),
    }
}

/// [`send`] with a header that bears the signature that it has to bear.
fn send_with(
    cpu: &mut Cpu,
    ends: &FourTuple,
    tx_params: IpTxParams,
    note: Option<Note>,
    out: &Out<'_>,
    header: &Header,
) {
    let Some(mut pkt) = ip_tx::payload(cpu, out.payload) else { return cpu.count(Count::TcpNoBuffer) };
    let tx_params = tx_params.with_ecn(if out.may_be_marked { ECT_0 } else { 0 });
    if put_header(&mut pkt, header).is_none() {
        cpu.count(Count::TcpNoBuffer);
        return cpu.pool.give(pkt);
    }
    if out.cut > 0 {
        pkt.gso = if ends.local.is_ipv4() { Gso::Tcp4 } else { Gso::Tcp6 };
        pkt.gso_size = out.cut;
        if out.header.flags.contains(Flags::CWR) {
            pkt.flags.set(Facts::GSO_ECN);
        }
    }
    if let Some(note) = note {
        pkt.set_note(firewall::answering(note));
    }
    match cached_route::output(cpu, pkt, ends, tx_params) {
        Ok(()) => cpu.count(Count::TcpOut),
        Err(pkt) => send_the_long_way(cpu, pkt, ends, tx_params),
    }
}

#[inline(never)]
fn send_the_long_way(cpu: &mut Cpu, mut pkt: Pkt, ends: &FourTuple, tx_params: IpTxParams) {
    if ip_tx::put_network(&mut pkt, (Protocol::TCP, CHECKSUM_OFFSET), ends, tx_params, true).is_none() {
        cpu.count(Count::TcpNoBuffer);
        return cpu.pool.give(pkt);
    }
    cpu.count(Count::TcpOut);
    ip_tx::output(cpu, pkt);
    cached_route::learn(cpu, ends, tx_params);
}

/// Writes the header in front of the payload.
#[inline]
fn put_header(pkt: &mut Pkt, tcp: &Header) -> Option<()> {
    match tcp.stamped() {
        Some(bytes) => pkt.prepend_array(&bytes).ok(),
        None => tcp.emit(pkt.prepend(tcp.header_len()).ok()?).ok().map(|_| ()),
    }
}
