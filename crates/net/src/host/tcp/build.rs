//! From a segment to a packet.

use pkt::{Flags as Facts, Gso, Note, Pkt};
use wire::Protocol;
use wire::tcp::{CHECKSUM_OFFSET, Flags, Header};

use super::signature;
use super::tcb::Out;
use crate::base::count::Count;
use crate::firewall;
use crate::host::pcb::FourTuple;
use crate::ip::ip_tx;
pub use crate::ip::ip_tx::IpTxParams;
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
    let marks = if out.may_be_marked { ECT_0 } else { 0 };
    if put_headers(&mut pkt, header, ends, tx_params.with_ecn(marks)).is_none() {
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
    cpu.count(Count::TcpOut);
    ip_tx::output(cpu, pkt);
}

/// Writes both headers in front of the payload.
fn put_headers(pkt: &mut Pkt, tcp: &Header, ends: &FourTuple, tx_params: IpTxParams) -> Option<()> {
    match tcp.stamped() {
        Some(bytes) => pkt.prepend_array(&bytes).ok()?,
        None => _ = tcp.emit(pkt.prepend(tcp.header_len()).ok()?).ok()?,
    }
    ip_tx::put_network(pkt, (Protocol::TCP, CHECKSUM_OFFSET), ends, tx_params, true)
}
