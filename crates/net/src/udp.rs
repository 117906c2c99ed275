//! UDP.

use pkt::Pkt;
use wire::Protocol;
use wire::udp::{HEADER_LEN, Header};

use crate::count::Count;
use crate::cpu::Cpu;
use crate::drop::DropReason;
use crate::icmp::Problem;
use crate::netisr::dispatch;
use crate::next::Next;
use crate::upper;

/// Takes a datagram for this host in. `pkt` starts with its network header, `pkt.l4` is where UDP starts.
///
/// Next   [`Problem::PortUnreachable`], as nobody can listen yet.
/// Drops  [`DropReason::UdpMalformed`], [`DropReason::UdpBadChecksum`].
///
/// # Spec
/// RFC 768; RFC 1122 §4.1; RFC 8200 §8.1.
pub fn input(cpu: &mut Cpu, pkt: Pkt) {
    cpu.count(Count::UdpIn);
    match judge(cpu, &pkt) {
        // Here the port's owner is looked up.
        //= https://www.rfc-editor.org/rfc/rfc1122#section-4.1.3.1
        //# If a datagram arrives addressed to a UDP port for which
        //# there is no pending LISTEN call, UDP SHOULD send an ICMP
        //# Port Unreachable message.
        Ok(_) => dispatch(cpu, pkt, Next::Answer(Problem::PortUnreachable)),
        Err(reason) => cpu.bury(pkt, reason),
    }
}

/// The header of a datagram that is as long as it says, intact, and for a port that there can be.
fn judge(cpu: &Cpu, pkt: &Pkt) -> Result<Header, DropReason> {
    let range = upper::range(pkt);
    let bytes = pkt.head().get(range.start..).and_then(<[u8]>::first_chunk::<HEADER_LEN>);
    let header = Header::from_bytes(bytes.ok_or(DropReason::UdpMalformed)?);
    let len = usize::from(header.len);
    if !(HEADER_LEN..=range.len()).contains(&len) || header.dst_port == 0 {
        return Err(DropReason::UdpMalformed);
    }
    let intact = match header.checksum {
        //= https://www.rfc-editor.org/rfc/rfc768
        //# An all zero transmitted checksum value means that the
        //# transmitter generated no checksum
        //= https://www.rfc-editor.org/rfc/rfc8200#section-8.1
        //# IPv6 receivers must discard UDP packets containing a
        //# zero checksum
        0 => upper::is_ip4(pkt),
        _ => upper::is_intact(cpu, pkt, Protocol::UDP, range.start..range.start + len),
    };
    if intact { Ok(header) } else { Err(DropReason::UdpBadChecksum) }
}

#[cfg(test)]
mod tests;
