//! A man in the middle on a cable: changes segments and datagrams and fixes their checksums, so that they are believed.

use core::net::{Ipv4Addr, Ipv6Addr};

use wire::checksum::Sum;
use wire::ether::HEADER_LEN;
use wire::{ip4, ip6, tcp, udp};

use crate::random::Random;

/// Changes packets on their way.
#[derive(Debug)]
pub struct Meddler {
    /// Number of changed packets, and of changed TCP segments.
    pub changed: u64,
    /// See [`Self::changed`].
    pub segments: u64,
    /// Probability of a change, in 256.
    pub odds: u8,
    /// Decisions given in advance, byte by byte; then it decides at random.
    decided: Vec<u8>,
    random: Random,
}

/// Where the transport's part of a frame is, and what it is.
#[derive(Clone, Copy)]
struct Place {
    is_v4: bool,
    is_tcp: bool,
    /// Where it begins.
    at: usize,
}

impl Meddler {
    /// One whose decisions are these bytes, and then follow from `random`.
    #[must_use]
    pub fn new(decided: &[u8], random: Random, odds: u8) -> Self {
        Self { changed: 0, segments: 0, odds, decided: decided.iter().rev().copied().collect(), random }
    }

    /// A frame passes.
    pub fn pass(&mut self, frame: &mut Vec<u8>) {
        let Some(place) = place(frame) else { return };
        if self.byte() >= self.odds {
            return;
        }
        self.changed += 1;
        self.segments += u64::from(place.is_tcp);
        for _ in 0..=self.byte() % 3 {
            match place.is_tcp {
                true => self.change_segment(frame, place.at),
                false => self.change_datagram(frame, place.at),
            }
        }
        if self.byte().is_multiple_of(8) {
            self.resize(frame, place);
        }
        if !self.byte().is_multiple_of(16) {
            mend(frame, place);
        }
    }

    fn byte(&mut self) -> u8 {
        self.decided.pop().unwrap_or_else(|| self.random.byte())
    }

    fn word(&mut self) -> u32 {
        u32::from_be_bytes([(); 4].map(|()| self.byte()))
    }

    /// Numbers move a little or a lot, flags flip, the window closes, options become nonsense.
    fn change_segment(&mut self, frame: &mut [u8], at: usize) {
        match self.byte() % 10 {
            0 | 1 => self.shift(frame, at + 4),
            2 | 3 => self.shift(frame, at + 8),
            4 | 5 => self.flip(frame, at + 13),
            6 => self.set(frame, at + 14),
            7 => self.set(frame, at + 18),
            8 => self.flip(frame, at + 12),
            _ => {
                let offset = usize::from(self.byte()) % 40;
                self.set(frame, at + tcp::HEADER_LEN + offset);
            }
        }
    }

    fn change_datagram(&mut self, frame: &mut [u8], at: usize) {
        let offset = usize::from(self.byte()) % 16;
        self.set(frame, at + offset);
    }

    /// A number of four bytes goes on or back.
    fn shift(&mut self, frame: &mut [u8], at: usize) {
        let by = match self.byte() % 4 {
            0 => 1,
            1 => u32::from(self.byte()),
            2 => self.word() & 0xffff,
            _ => self.word(),
        };
        let by = if self.byte() & 1 == 0 { by } else { by.wrapping_neg() };
        if let Some(number) = frame.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<4>()) {
            *number = u32::from_be_bytes(*number).wrapping_add(by).to_be_bytes();
        }
    }

    fn flip(&mut self, frame: &mut [u8], at: usize) {
        let bits = self.byte();
        if let Some(byte) = frame.get_mut(at) {
            *byte ^= bits;
        }
    }

    fn set(&mut self, frame: &mut [u8], at: usize) {
        let value = self.byte();
        if let Some(byte) = frame.get_mut(at) {
            *byte = value;
        }
    }

    /// The payload becomes shorter or longer, and IP says so.
    fn resize(&mut self, frame: &mut Vec<u8>, place: Place) {
        let by = usize::from(self.byte());
        match self.byte() & 1 {
            0 => frame.truncate(frame.len().saturating_sub(by).max(place.at + udp::HEADER_LEN)),
            _ => frame.resize((frame.len() + by).min(HEADER_LEN + 1500), 0xa5),
        }
        let len = frame.len() - HEADER_LEN;
        let (field, len) = if place.is_v4 { (2, len) } else { (4, len - ip6::HEADER_LEN) };
        if let Some(said) = frame.get_mut(HEADER_LEN + field..HEADER_LEN + field + 2) {
            said.copy_from_slice(&u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes());
        }
    }
}

/// The place of a whole segment or datagram whose IP header is the shortest.
fn place(frame: &[u8]) -> Option<Place> {
    let packet = frame.get(HEADER_LEN..)?;
    let (is_v4, protocol, len) = match (*packet.first()?, frame.get(12..14)?) {
        (0x45, [8, 0]) => (true, *packet.get(9)?, ip4::HEADER_LEN),
        (first, [0x86, 0xdd]) if first >> 4 == 6 => (false, *packet.get(6)?, ip6::HEADER_LEN),
        _ => return None,
    };
    let is_fragment = is_v4 && packet.get(6..8)? != [0x40, 0] && packet.get(6..8)? != [0, 0];
    let is_tcp = protocol == wire::Protocol::TCP.0;
    let least = if is_tcp { tcp::HEADER_LEN } else { udp::HEADER_LEN };
    let is_known = is_tcp || protocol == wire::Protocol::UDP.0;
    let is_whole = !is_fragment && packet.len() >= len + least;
    (is_known && is_whole).then_some(Place { is_v4, is_tcp, at: HEADER_LEN + len })
}

/// Puts the right checksums in.
fn mend(frame: &mut [u8], place: Place) {
    let (head, body) = frame.split_at_mut(place.at);
    let field = if place.is_tcp { tcp::CHECKSUM_OFFSET } else { 6 };
    let protocol = if place.is_tcp { wire::Protocol::TCP } else { wire::Protocol::UDP };
    let len = u16::try_from(body.len()).unwrap_or(u16::MAX);
    let Some(sum) = body.get_mut(field..field + 2) else { return };
    sum.fill(0);
    let pseudo = pseudo(&head[HEADER_LEN..], place.is_v4, protocol, len);
    let sum = pseudo.bytes(body).checksum().to_be_bytes();
    body[field..field + 2].copy_from_slice(&sum);
    if place.is_v4 {
        let header = &mut head[HEADER_LEN..];
        header[10..12].fill(0);
        let sum = Sum::new().bytes(header).checksum().to_be_bytes();
        header[10..12].copy_from_slice(&sum);
    }
}

fn pseudo(ip: &[u8], is_v4: bool, protocol: wire::Protocol, len: u16) -> Sum {
    let v4 = |at: usize| ip.get(at..)?.first_chunk::<4>().map(|octets| Ipv4Addr::from(*octets));
    let v6 = |at: usize| ip.get(at..)?.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets));
    let sum = match is_v4 {
        true => v4(12).zip(v4(16)).map(|(src, dst)| Sum::pseudo_v4(src, dst, protocol, len)),
        false => v6(8).zip(v6(24)).map(|(src, dst)| Sum::pseudo_v6(src, dst, protocol, len.into())),
    };
    sum.unwrap_or_else(Sum::new)
}
