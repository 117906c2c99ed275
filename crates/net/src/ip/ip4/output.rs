//! The way out for IPv4 packets, whole or in pieces.

use core::net::IpAddr;

use pkt::{Flags, Gso, Pkt};
use wire::checksum::{Sum, verify_header_20};
use wire::ip4::{HEADER_LEN, HEADER_MAX, View};

use super::{Ip4, header, src};
use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::ip::output::{self, Source};
use crate::link::tables::Learned;
use crate::out::offload;
use crate::turn::cpu::Cpu;
use crate::turn::next::Resume;

/// In the word of flags and offset: don't fragment.
const DF: u16 = 0x4000;
/// More fragments.
const MF: u16 = 0x2000;
/// Offset, in units of eight bytes.
const OFFSET: u16 = 0x1fff;
/// Set in the type of an option that every fragment has a copy of.
const COPIED: u8 = 0x80;

/// Sends a packet that was made here: `pkt` starts with a whole IPv4 header, whose checksum is filled in here; so is
/// the identification if it is 0 and the packet may be fragmented. See [`output::send`].
pub fn output(cpu: &mut Cpu, pkt: Pkt) {
    output::send::<Ip4>(cpu, pkt);
}

impl Source for Ip4 {
    const AGAIN: Resume = Resume::Ip4;
    const SENT: Count = Count::Ip4Out;
    const HEADER_LEN: usize = HEADER_LEN;
    const LEAST: usize = crate::ip::pmtu::LEAST_V4;

    fn src(pkt: &Pkt) -> IpAddr {
        src(pkt).into()
    }

    fn finish(cpu: &mut Cpu, pkt: &mut Pkt) {
        let (len, fixed) = (usize::from(header(pkt)[0] & 0xf) * 4, header(pkt));
        let needs_id = fixed[6] & 0x40 == 0 && fixed[4..6] == [0, 0];
        if !needs_id && len == HEADER_LEN && verify_header_20(fixed) {
            return;
        }
        let id = if needs_id { identification(cpu) } else { [fixed[4], fixed[5]] };
        let Some(header) = pkt.head_mut().get_mut(..len.max(HEADER_LEN)) else { return };
        header[4..6].copy_from_slice(&id);
        write_checksum(header);
    }

    fn suit(_: &mut Pkt, _: &Learned) {}

    fn cut(cpu: &mut Cpu, pkt: Pkt, mtu: u32, next_hop: IpAddr) {
        if header(&pkt)[6] & 0x40 != 0 {
            return cpu.drop_pkt(pkt, DropReason::TooBig);
        }
        cut(cpu, pkt, mtu, next_hop);
    }
}

/// Drawn, not counted: a counter would tell strangers how much is sent. Two fragmented datagrams under way to the
/// same host then share one with a chance of 1 to 65 535, and what becomes of that, checksums find.
//= https://www.rfc-editor.org/rfc/rfc6864#section-4.3
fn identification(cpu: &mut Cpu) -> [u8; 2] {
    let [a, b, ..] = cpu.secret.draw().to_be_bytes();
    if [a, b] == [0, 0] { [0, 1] } else { [a, b] }
}

fn write_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let checksum = Sum::new().bytes(header).checksum();
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
}

/// Sends a packet in pieces, all or none.
///
/// A partial checksum covers the whole datagram, so it is completed first. A TCP super-packet is one datagram like
/// any other; one of UDP is many.
fn cut(cpu: &mut Cpu, mut pkt: Pkt, mtu: u32, next_hop: IpAddr) {
    if pkt.gso == Gso::Udp {
        return cpu.drop_pkt(pkt, DropReason::TooBig);
    }
    if pkt.flags.has(Flags::CSUM_PARTIAL) && !offload::complete(&mut pkt) {
        return cpu.drop_pkt(pkt, DropReason::OffloadMalformed);
    }
    let pieces = match pieces(cpu, &pkt, mtu) {
        Ok(pieces) => pieces,
        Err(reason) => return cpu.drop_pkt(pkt, reason),
    };
    cpu.pool.give(pkt);
    cpu.count(Count::Ip4Fragmented);
    cpu.counters.add(Count::Ip4FragmentsMade, pieces.len() as u64);
    pieces.into_iter().for_each(|piece| output::link(cpu, piece, next_hop));
}

/// The pieces of a packet, each at most `mtu` bytes long.
//= https://www.rfc-editor.org/rfc/rfc791#section-3.2
fn pieces(cpu: &mut Cpu, pkt: &Pkt, mtu: u32) -> Result<Vec<Pkt>, DropReason> {
    let view = View::new_quoted(pkt.head()).map_err(|_| DropReason::Ip4BadHeaderLen)?;
    let (mut first, mut later) = (Header::whole(&view), Header::copied(&view));
    let total = pkt.len() - first.bytes().len();
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < total {
        let header = if at == 0 { &mut first } else { &mut later };
        let room = (mtu as usize).saturating_sub(header.bytes().len()) & !7;
        if room == 0 {
            break;
        }
        let len = room.min(total - at);
        header.describe(at, len, at + len < total);
        match offload::copy(cpu, pkt, header.bytes(), view.header_len() + at, len) {
            Some(piece) => pieces.push(piece),
            None => break,
        }
        at += len;
    }
    if at == total {
        return Ok(pieces);
    }
    pieces.into_iter().for_each(|piece| cpu.pool.give(piece));
    Err(DropReason::NoBuffer)
}

/// The header of pieces.
struct Header {
    bytes: [u8; HEADER_MAX],
    len: usize,
    /// The word of flags and offset that the whole packet had, which may be a fragment itself.
    word: u16,
}

impl Header {
    /// The header of the first piece: as it was.
    fn whole(view: &View<'_>) -> Self {
        Self::with(view, view.option_bytes())
    }

    /// The header of the other pieces: of the options only those that say so.
    //= https://www.rfc-editor.org/rfc/rfc791#section-3.1
    fn copied(view: &View<'_>) -> Self {
        let mut options = Vec::with_capacity(HEADER_MAX);
        let mut rest = view.option_bytes();
        while let [kind, tail @ ..] = rest {
            let len = match (kind, tail) {
                (0, _) => break,
                (1, _) => 1,
                (_, [len, ..]) => usize::from(*len).max(2),
                _ => break,
            };
            let Some((option, behind)) = rest.split_at_checked(len) else { break };
            if kind & COPIED != 0 {
                options.extend_from_slice(option);
            }
            rest = behind;
        }
        options.resize(options.len().next_multiple_of(4), 0);
        Self::with(view, &options)
    }

    fn with(view: &View<'_>, options: &[u8]) -> Self {
        let len = HEADER_LEN + options.len();
        let mut bytes = [0; HEADER_MAX];
        bytes[..HEADER_LEN].copy_from_slice(&view.header()[..HEADER_LEN]);
        bytes[HEADER_LEN..len].copy_from_slice(options);
        bytes[0] = 0x40 | u8::try_from(len / 4).unwrap_or(5);
        Self { bytes, len, word: u16::from_be_bytes([bytes[6], bytes[7]]) }
    }

    /// Makes it the header of the `len` bytes at `at`. Behind the last piece of a fragment more may come all the same.
    fn describe(&mut self, at: usize, len: usize, more: bool) {
        let total = u16::try_from(self.len + len).unwrap_or(u16::MAX);
        let offset = u16::try_from(at / 8).unwrap_or(u16::MAX).saturating_add(self.word & OFFSET) & OFFSET;
        let more = if more { MF } else { self.word & MF };
        self.bytes[2..4].copy_from_slice(&total.to_be_bytes());
        self.bytes[6..8].copy_from_slice(&(self.word & DF | more | offset).to_be_bytes());
        write_checksum(&mut self.bytes[..self.len]);
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests;
