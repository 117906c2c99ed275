//! From a datagram to a packet, on the CPU that its answers will come to.

use pkt::Pkt;
use wire::Protocol;
use wire::udp::{HEADER_LEN, Header};

use super::calls::socket;
use super::socket::Id;
use crate::base::count::Count;
use crate::host::dgram::{Aim, To};
use crate::host::pcb::FourTuple;
use crate::host::sock::Error;
use crate::ip::ip_tx::{self, IpTxParams};
use crate::turn::cpu::Cpu;

/// Where UDP's checksum stands in its header.
const CHECKSUM_AT: usize = 6;

/// Sends a datagram from a connected socket. Those of one turn leave together; for many at once there is
/// [`send_batch`](super::send_batch).
///
/// # Errors
///
/// [`Error::NotConnected`], [`Error::TooLong`], [`Error::TooBig`] for the link if it must not be cut,
/// [`Error::NoBuffer`], [`Error::NotFound`]; what became of an earlier one.
pub fn send(cpu: &mut Cpu, id: Id, bytes: &[u8]) -> Result<(), Error> {
    socket(cpu, id)?.check()?;
    let aim = aimed(cpu, id, None)?;
    put(cpu, &aim, bytes, 0)
}

/// Sends a datagram to whomever.
///
/// # Errors
///
/// [`Error::BadAddress`], [`Error::NetworkUnreachable`], [`Error::AddrNotAvailable`] if the local address is not ours,
/// [`Error::NotPermitted`] towards everybody on a link without leave, and as [`send`].
pub fn send_to(cpu: &mut Cpu, id: Id, to: impl Into<To>, bytes: &[u8]) -> Result<(), Error> {
    socket(cpu, id)?.check()?;
    let aim = aimed(cpu, id, Some(to.into()))?;
    put(cpu, &aim, bytes, 0)
}

/// Finds out from where a datagram goes; without `to` it is for the other end of a connected socket.
#[inline]
pub(super) fn aimed(cpu: &mut Cpu, id: Id, to: Option<To>) -> Result<Aim, Error> {
    let socket = socket(cpu, id)?;
    let (bound, settings, ends) = (socket.bound(), socket.base.settings, socket.ends);
    match to {
        Some(to) if to.remote.port() == 0 => Err(Error::BadAddress),
        to => Aim::of(cpu, &bound, settings, ends, to),
    }
}

/// Makes the packet, and sends it. If `segment` is not 0 it is a super-packet of datagrams that long.
pub(super) fn put(cpu: &mut Cpu, aim: &Aim, bytes: &[u8], segment: u16) -> Result<(), Error> {
    let (ends, dont_fragment) = (&aim.ends, aim.settings.dont_fragment);
    aim.launch(cpu, bytes, segment, Count::UdpOut, |pkt, tx_params| {
        put_headers(pkt, ends, tx_params, dont_fragment)
    })
}

/// Writes both headers in front of a datagram's bytes. `None` if it is too long.
pub(in crate::host) fn put_headers(
    pkt: &mut Pkt,
    ends: &FourTuple,
    tx_params: IpTxParams,
    dont_fragment: bool,
) -> Option<()> {
    let len = u16::try_from(HEADER_LEN + pkt.len()).ok()?;
    let header = Header { src_port: ends.local_port, dst_port: ends.remote_port, len, checksum: 0 };
    pkt.prepend(HEADER_LEN).ok()?.copy_from_slice(&header.to_bytes());
    ip_tx::put_network(pkt, (Protocol::UDP, CHECKSUM_AT), ends, tx_params, dont_fragment)
}
