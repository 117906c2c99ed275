//! Prefetches the memory that segments will need, for a whole chunk at once: among many connections each
//! segment would wait for memory several times, and now all of a chunk wait together.

use pkt::{Pkt, PktVec};

use super::{Found, Id, Pcbs, Tables};
use crate::host::pcb::FourTuple;
use crate::ip::l4;
use crate::turn::cpu::Cpu;
use crate::turn::netisr::CHUNK;

/// Fewer lie in a cache that is near enough: of connections that stand, and of what they are found by, those in TIME-WAIT too.
const MANY: usize = 1000;

/// Fetches the connections of packets that are about to be taken in: where they are found, where they stand, they
/// themselves. A prefetch for a packet of another protocol is wasted.
pub(crate) fn fetch(cpu: &Cpu, pkts: &PktVec) {
    if let Some(pcbs) = cpu.tcp.as_deref().filter(|pcbs| pcbs.len() >= MANY) {
        fetch_of_many(pcbs, pkts);
    }
}

impl Pcbs {
    /// Fetches where the number of what is between `ends` stands; answers the hash.
    #[inline]
    fn fetch_bucket(&self, ends: &FourTuple) -> u64 {
        let hash = ends.hash(&self.secret);
        self.index.prefetch(hash);
        hash
    }

    /// Fetches what most likely has this hash, or where it is.
    #[inline]
    fn fetch_place(&self, hash: u64) {
        let Tables { conns, halves, waits } = &self.tables;
        match self.index.likely(hash).map(Found::from) {
            Some(Found::Conn(at)) => _ = conns.get(at).map(pkt::prefetch_ref),
            Some(Found::Half(at)) => _ = halves.get(at).map(pkt::prefetch_whole),
            Some(Found::Wait(at)) => _ = waits.get(at).map(pkt::prefetch_whole),
            None => {}
        }
    }

    /// Fetches the connection of this name.
    #[inline]
    pub(in crate::host::tcp) fn fetch(&self, id: Id) {
        self.conn_at(id.at).inspect(|conn| pkt::prefetch_whole(*conn));
    }

    /// Fetches the connection that most likely has this hash.
    #[inline]
    fn fetch_connection(&self, hash: u64) {
        if let Some(Found::Conn(at)) = self.index.likely(hash).map(Found::from)
            && let Some(conn) = self.conn_at(at)
        {
            pkt::prefetch_whole(conn);
        }
    }
}

#[inline(never)]
fn fetch_of_many(pcbs: &Pcbs, pkts: &PktVec) {
    let mut hashes = [0; CHUNK];
    let mut count = 0;
    for (pkt, hash) in pkts.iter().zip(&mut hashes) {
        *hash = pcbs.fetch_bucket(&ends(pkt));
        count += 1;
    }
    let hashes = &hashes[..count];
    hashes.iter().for_each(|hash| pcbs.fetch_place(*hash));
    if pcbs.standing() >= MANY {
        hashes.iter().for_each(|hash| pcbs.fetch_connection(*hash));
    }
}

/// Returns the four-tuple of a segment, if it is one.
fn ends(pkt: &Pkt) -> FourTuple {
    let &[src_hi, src_lo, dst_hi, dst_lo, ..] = pkt.window(usize::from(pkt.l4));
    let (src, dst) = l4::ends(pkt);
    let (remote_port, local_port) =
        (u16::from_be_bytes([src_hi, src_lo]), u16::from_be_bytes([dst_hi, dst_lo]));
    FourTuple::new((dst, local_port).into(), (src, remote_port).into(), pkt.rcvif)
}
