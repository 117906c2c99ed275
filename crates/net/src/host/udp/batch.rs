//! Several datagrams in one call, to one and to many.

use super::calls::socket;
use super::output::{aimed, put};
use super::socket::Id;
use crate::host::dgram::{Aim, Received, To};
use crate::host::sock::Error;
use crate::ip::output::{self, Route};
use crate::ip::pmtu::{self, Flow};
use crate::turn::cpu::Cpu;

/// Payload of a super-packet at the most: with its headers it still has a length that IP can say.
const SUPER_BYTES: usize = 65_000;
/// Datagrams of a super-packet at the most: what devices are known to cut.
const SEGMENTS_MAX: usize = 64;

/// One of several that are sent in one call.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Destination, if not the peer of a connected socket.
    pub to: Option<To>,
    /// Payload.
    pub bytes: &'a [u8],
    /// If it is not 0: the bytes are as many datagrams as they fill, each so long but the last. A device that can
    /// (USO) cuts them itself.
    pub segment: u16,
}

/// Sends several datagrams, to one or to many, and answers how many were sent of `batch`; `failed` is told of each that
/// was not, by its place, and why. Of one with segments those before the failure may have been sent.
///
/// # Errors
///
/// [`Error::NotFound`], and of a connected socket what became of an earlier one: then nothing is sent.
pub fn send_batch(
    cpu: &mut Cpu,
    id: Id,
    batch: &[Datagram<'_>],
    mut failed: impl FnMut(usize, Error),
) -> Result<usize, Error> {
    socket(cpu, id)?.check()?;
    let mut sent = 0;
    let mut last: Option<(Option<To>, Result<Aim, Error>)> = None;
    for (place, datagram) in batch.iter().enumerate() {
        let aim = match &last {
            Some((to, aim)) if *to == datagram.to => *aim,
            _ => last.insert((datagram.to, aimed(cpu, id, datagram.to))).1,
        };
        match aim.and_then(|aim| put_all(cpu, &aim, datagram)) {
            Ok(()) => sent += 1,
            Err(error) => failed(place, error),
        }
    }
    Ok(sent)
}

fn put_all(cpu: &mut Cpu, aim: &Aim, datagram: &Datagram<'_>) -> Result<(), Error> {
    let &Datagram { bytes, segment, .. } = datagram;
    if segment == 0 || bytes.len() <= segment.into() {
        return put(cpu, aim, bytes, 0);
    }
    let step = usize::from(segment) * in_one_packet(cpu, aim, segment);
    bytes.chunks(step).try_for_each(|some| {
        let segment = if some.len() > segment.into() { segment } else { 0 };
        put(cpu, aim, some, segment)
    })
}

/// Returns the number of datagrams of that length in a super-packet: one, if the device takes none.
fn in_one_packet(cpu: &Cpu, aim: &Aim, segment: u16) -> usize {
    let fib = aim.settings.tx_params.fib;
    let way = output::path(cpu, fib, aim.ends.remote, aim.outif, || 0);
    let Ok(Route::Link { ifindex, metrics, .. }) = way else {
        return 1;
    };
    let Some(ifnet) = cpu.tables.ifnet(ifindex) else { return 1 };
    let headers = if aim.ends.remote.is_ipv4() { 28 } else { 48 };
    let fits = usize::from(segment) + headers
        <= pmtu::of_flow(cpu, &Flow::udp(aim.ends), metrics).mtu_over(ifnet.mtu) as usize;
    match ifnet.caps.uso && ifnet.caps.tx_csum && fits {
        true => (SUPER_BYTES / usize::from(segment)).clamp(1, SEGMENTS_MAX),
        false => 1,
    }
}

/// Reads as many datagrams as are there and `into` has room for, each whole but perhaps the first, and answers how many;
/// `each` has them one by one.
///
/// # Errors
///
/// As [`recv`](super::recv).
pub fn recv_batch(
    cpu: &mut Cpu,
    id: Id,
    into: &mut [u8],
    mut each: impl FnMut(&Received, &[u8]),
) -> Result<usize, Error> {
    let socket = socket(cpu, id)?;
    socket.check()?;
    let mut count = 0;
    let mut room = into;
    while socket.base.queue.next_len().is_some_and(|len| count == 0 || len <= room.len())
        && let Some(received) = socket.base.queue.pop(room)
    {
        let (bytes, rest) = room.split_at_mut(received.len.min(room.len()));
        each(&received, bytes);
        (room, count) = (rest, count + 1);
    }
    if count == 0 { Err(Error::WouldBlock) } else { Ok(count) }
}

#[cfg(test)]
mod tests;
