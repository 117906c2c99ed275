//! The probe header behind the UDP or TCP header of a measured frame.
//!
//! ```text
//!  0       2         4        8        12                18
//!  ├ magic ┼ session ┼─ flow ─┼─ seq ──┼─ stamp ─────────┤  then zeros
//! ```
//!
//! All fields are big-endian. `magic` is 0x7067 ("pg"). `session` is drawn at random for each run and never 0, so that
//! frames of another run are not taken for ours; 0 marks learning frames, which are not measured. `seq` counts the
//! frames of one flow from 0 and wraps. `stamp` is the sender's CLOCK_MONOTONIC in nanoseconds, of which 48 bits go
//! round in 78 hours: latencies mean something where sender and receiver share that clock.
//!
//! Eighteen bytes fit the smallest Ethernet frame with IPv4 and UDP, and no other combination.

use core::net::IpAddr;

use wire::ether::{self, EtherType};
use wire::{Protocol, ip4, ip6, tcp, udp};

/// Bytes of the header.
pub(crate) const LEN: usize = 18;
/// Bits of a stamp.
const STAMP_BITS: u32 = 48;
const STAMP_MASK: u64 = (1 << STAMP_BITS) - 1;
/// The session of frames that are there to be learnt from.
pub(crate) const LEARNING: u16 = 0;
pub(crate) const MAGIC: u16 = 0x7067;

/// The header as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    pub(crate) session: u16,
    pub(crate) flow: u32,
    pub(crate) seq: u32,
    /// Nanoseconds, 48 bits of them.
    pub(crate) stamp: u64,
}

/// The kind of a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It carries the header.
    Probe(Probe),
    /// UDP or TCP to this address, without a header.
    Plain(IpAddr),
    /// Anything else.
    Other,
}

impl Probe {
    /// Reads the header at the front of a payload.
    pub(crate) fn parse(payload: &[u8]) -> Option<Self> {
        let [m0, m1, s0, s1, f0, f1, f2, f3, q0, q1, q2, q3, t0, t1, t2, t3, t4, t5] =
            *payload.first_chunk::<LEN>()?;
        if u16::from_be_bytes([m0, m1]) != MAGIC {
            return None;
        }
        Some(Self {
            session: u16::from_be_bytes([s0, s1]),
            flow: u32::from_be_bytes([f0, f1, f2, f3]),
            seq: u32::from_be_bytes([q0, q1, q2, q3]),
            stamp: u64::from_be_bytes([0, 0, t0, t1, t2, t3, t4, t5]),
        })
    }

    /// The bytes of the header; of the stamp, its lower 48 bits.
    #[inline]
    pub(crate) fn to_bytes(self) -> [u8; LEN] {
        let [m0, m1] = MAGIC.to_be_bytes();
        let [s0, s1] = self.session.to_be_bytes();
        let [f0, f1, f2, f3] = self.flow.to_be_bytes();
        let [q0, q1, q2, q3] = self.seq.to_be_bytes();
        let [_, _, t0, t1, t2, t3, t4, t5] = self.stamp.to_be_bytes();
        [m0, m1, s0, s1, f0, f1, f2, f3, q0, q1, q2, q3, t0, t1, t2, t3, t4, t5]
    }

    /// Nanoseconds from the stamp to `now`; 0 if the stamp is of the future, as a clock that differs makes it.
    pub(crate) fn latency(&self, now: u64) -> u64 {
        let passed = now.wrapping_sub(self.stamp) & STAMP_MASK;
        if passed >> (STAMP_BITS - 1) == 0 { passed } else { 0 }
    }
}

/// Looks into a received frame. Checksums are not verified, extension headers and fragments not followed.
pub(crate) fn look(frame: &[u8]) -> Seen {
    transport(frame)
        .map_or(Seen::Other, |(dst, payload)| Probe::parse(payload).map_or(Seen::Plain(dst), Seen::Probe))
}

/// The destination of a UDP or TCP packet, and what follows its header.
fn transport(frame: &[u8]) -> Option<(IpAddr, &[u8])> {
    let header = ether::Header::parse(frame).ok()?;
    let packet = frame.get(ether::HEADER_LEN..)?;
    let (dst, protocol, segment) = match header.ethertype {
        EtherType::IPV4 => {
            let view = ip4::View::new(packet).ok().filter(|view| !view.is_fragment())?;
            (view.dst().into(), view.protocol(), view.payload())
        }
        EtherType::IPV6 => {
            let view = ip6::View::new(packet).ok()?;
            (view.dst().into(), view.next_header(), view.payload())
        }
        _ => return None,
    };
    let payload = match protocol {
        Protocol::UDP => segment.get(udp::HEADER_LEN..)?,
        Protocol::TCP => tcp::View::new(segment).ok()?.payload(),
        _ => return None,
    };
    Some((dst, payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBE: Probe = Probe { session: 7, flow: 70_000, seq: u32::MAX, stamp: STAMP_MASK - 10 };

    #[test]
    fn a_header_is_read_as_it_was_written() {
        assert_eq!(Probe::parse(&PROBE.to_bytes()), Some(PROBE));
    }

    #[test]
    fn what_is_short_or_has_another_magic_is_no_header() {
        let bytes = PROBE.to_bytes();
        assert_eq!(Probe::parse(&bytes[..LEN - 1]), None);
        let other = [&[0x70, 0x68], &bytes[2..]].concat();
        assert_eq!(Probe::parse(&other), None);
    }

    #[test]
    fn latency_survives_the_wrap_of_the_stamp_and_never_is_before_zero() {
        assert_eq!(PROBE.latency(1 << STAMP_BITS | 4), 15);
        assert_eq!(PROBE.latency(STAMP_MASK - 11), 0, "a stamp of the future");
    }

    #[test]
    fn nothing_is_found_in_what_is_no_udp_or_tcp() {
        for len in 0..80 {
            assert_eq!(look(&vec![0; len]), Seen::Other);
        }
    }
}
