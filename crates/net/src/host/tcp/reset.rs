//! Resets: the answers of closed ports, and of connections that there are not.

use core::net::IpAddr;

use pkt::{Flags as Facts, Pkt};
use wire::Protocol;
use wire::tcp::{Flags, Header, Options, SIGNATURE_LEN, View};

use super::signature;
use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::ip::icmp::{defines_one_host, is_one_host};
use crate::ip::ip_tx::{IpTxParams, put_segment};
use crate::ip::{ip4 as inet4, ip6 as inet6, l4, output};
use crate::turn::cpu::Cpu;

/// Ends a segment that the firewall rejects as a closed port does; anything else than
/// TCP just ends. It need not be for this host.
///
/// Drops  [`DropReason::FirewallReject`].
pub fn refuse(cpu: &mut Cpu, pkt: Pkt) {
    let segment = (pkt.proto == Protocol::TCP.0).then(|| segment(&pkt).ok()).flatten();
    if let Some(segment) = segment.filter(|segment| !segment.flags.rst())
        && is_between_two_hosts(cpu, &pkt)
    {
        answer(cpu, &pkt, &segment.reset(None), IpTxParams::default(), Facts::GENERATED);
    }
    cpu.drop_pkt(pkt, DropReason::FirewallReject);
}

/// The parts of a segment that a closed port reads.
struct Segment {
    ports: (u16, u16),
    seq: u32,
    ack: u32,
    flags: Flags,
    /// In sequence space.
    len: u32,
}

/// A segment whose header is as long as it says.
fn segment(pkt: &Pkt) -> Result<Segment, DropReason> {
    let range = l4::range(pkt);
    let view = View::new(pkt.head().get(range.start..).unwrap_or_default());
    let view = view.map_err(|_| DropReason::TcpMalformed)?;
    let flags = view.flags();
    let payload = range.len() - view.header_len();
    let len = payload + usize::from(flags.syn()) + usize::from(flags.fin());
    Ok(Segment {
        ports: (view.src_port(), view.dst_port()),
        seq: view.seq(),
        ack: view.ack(),
        flags,
        len: u32::try_from(len).unwrap_or(u32::MAX),
    })
}

/// Answers a segment to a port that is closed, or of a connection that there is not, with one that looks so.
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.1
//# An incoming segment containing a RST is
//# discarded.  An incoming segment not containing a RST causes a RST to be sent
//# in response.
pub(super) fn closed(cpu: &mut Cpu, pkt: Pkt, tx_params: IpTxParams) {
    let signature = match signature::of_answer(cpu, &pkt) {
        Ok(signature) => signature,
        Err(reason) => return cpu.drop_pkt(pkt, reason),
    };
    if let Ok(segment) = segment(&pkt)
        && !segment.flags.rst()
        && is_between_two_hosts(cpu, &pkt)
    {
        answer(cpu, &pkt, &segment.reset(signature), tx_params.with_ecn(0), Facts::NONE);
    }
    cpu.drop_pkt(pkt, DropReason::NoPort);
}

//= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.2.3
//# A TCP implementation MUST silently discard an incoming segment that is
//# addressed to a broadcast or multicast address
pub(super) fn is_between_two_hosts(cpu: &Cpu, pkt: &Pkt) -> bool {
    let (from, to) = l4::ends(pkt);
    let for_group = pkt.flags.any(Facts::BROADCAST.with(Facts::MULTICAST)) || !is_one_host(cpu, to);
    !for_group && defines_one_host(cpu, from)
}

fn answer(cpu: &mut Cpu, pkt: &Pkt, header: &Header, tx_params: IpTxParams, facts: Facts) {
    let (to, from) = l4::ends(pkt);
    let tx_params = IpTxParams { fib: cpu.tables.fib_of(pkt), ..tx_params };
    let mut header = *header;
    if header.options.signature.is_some()
        && signature::sign(cpu, (from, to), &mut header, [&[], &[]]).is_none()
    {
        return cpu.count(Count::TcpNoKey);
    }
    if !cpu.icmp.resets.allows(cpu.now, to, &mut cpu.secret) {
        return cpu.count(Count::TcpResetsLimited);
    }
    let Some(mut reset) = cpu.pool.take() else { return cpu.count(Count::TcpResetsNoBuffer) };
    if put_segment(&mut reset, &header, (from, to), tx_params).is_none() {
        cpu.count(Count::TcpResetsNoBuffer);
        return cpu.pool.give(reset);
    }
    reset.outif = output::answers_by(pkt.rcvif, to);
    reset.flags.set(facts);
    cpu.count(Count::TcpResetsSent);
    match to {
        IpAddr::V4(_) => inet4::output::output(cpu, reset),
        IpAddr::V6(_) => inet6::output::output(cpu, reset),
    }
}

impl Segment {
    /// The header of the reset that answers this segment.
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.1
    //# If the ACK bit is off, sequence number zero is used,
    //#
    //#   <SEQ=0><ACK=SEG.SEQ+SEG.LEN><CTL=RST,ACK>
    //#
    //# If the ACK bit is on,
    //#
    //#   <SEQ=SEG.ACK><CTL=RST>
    const fn reset(&self, signature: Option<[u8; SIGNATURE_LEN]>) -> Header {
        let (seq, ack, flags) = if self.flags.ack() {
            (self.ack, 0, Flags::RST)
        } else {
            (0, self.seq.wrapping_add(self.len), Flags(Flags::RST.0 | Flags::ACK.0))
        };
        let (dst_port, src_port) = self.ports;
        let options = Options { signature, ..Options::NONE };
        Header { src_port, dst_port, seq, ack, flags, window: 0, urgent: 0, options }
    }
}

#[cfg(test)]
mod tests;
