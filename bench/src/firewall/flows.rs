//! Frames of as many flows as one likes, in an order that is not that in which their states lie in memory.

use core::net::IpAddr;

use pkt::{HEADROOM, Pkt};

use crate::changed::Changed;
use crate::frames::{DESTINATIONS, FRAME_LEN, Family};
use crate::wire::{Source, Supply};

/// Frames that the source writes before they are changed.
const FRAMES: usize = 64;
/// The first port that flows have.
const PORTS: u32 = 1024;

/// Where in a frame a flow's number stands.
#[derive(Clone, Copy)]
struct Places {
    /// Half of it: the end of the source address.
    source: usize,
    /// Its complement, so that the header's checksum stays right; none in IPv6, whose header has no checksum.
    complement: Option<usize>,
    /// The other half: the source port.
    port: usize,
}

/// A source of so many flows, up to 2²⁰: each of them has a frame before the first has another.
#[must_use]
pub fn source(family: Family, flows: u32, supply: Supply) -> Changed<impl FnMut(&mut Pkt) + Send> {
    let (mut next, stride) = (0, stride(flows));
    changed(family, supply, move || {
        let flow = next;
        next += stride;
        if next >= flows {
            next -= flows;
        }
        flow
    })
}

/// A source of these flows, in turn. There must be at least one.
#[must_use]
pub fn source_of(family: Family, flows: Vec<u32>, supply: Supply) -> Changed<impl FnMut(&mut Pkt) + Send> {
    let mut at = 0;
    changed(family, supply, move || {
        at = if at + 1 < flows.len() { at + 1 } else { 0 };
        flows[at]
    })
}

fn changed(
    family: Family,
    supply: Supply,
    mut next: impl FnMut() -> u32 + Send,
) -> Changed<impl FnMut(&mut Pkt) + Send> {
    let template = family.frame_between(family.source_of_flows(), destination(family));
    let frames = template.map_or_else(Vec::new, |frame| vec![frame; FRAMES]);
    let places = Places::of(family);
    Changed::new(Source::new(frames, supply), move |pkt| places.write(pkt, next()))
}

/// Where all flows go.
#[must_use]
pub const fn destination(family: Family) -> IpAddr {
    family.addr(DESTINATIONS, 2)
}

/// Where a flow comes from: address and port.
#[must_use]
pub fn origin(family: Family, flow: u32) -> (IpAddr, u16) {
    let [low, port] = halves(flow);
    let addr = match family.source_of_flows() {
        IpAddr::V4(last) => IpAddr::V4((last.to_bits() & !0xffff | u32::from(low)).into()),
        IpAddr::V6(last) => IpAddr::V6((last.to_bits() & !0xffff | u128::from(low)).into()),
    };
    (addr, port)
}

/// The end of a flow's source address, and its port.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a flow's number is cut in two")]
const fn halves(flow: u32) -> [u16; 2] {
    [flow as u16, (PORTS + (flow >> 16)) as u16]
}

/// Steps from a flow to the next: far, and without a divisor in common with their number.
fn stride(flows: u32) -> u32 {
    let golden = u64::from(flows) * 618 / 1000;
    let from = u32::try_from(golden).unwrap_or(0).max(1);
    (from..flows).find(|step| divisor(*step, flows) == 1).unwrap_or(1)
}

const fn divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { divisor(b, a % b) }
}

impl Places {
    const fn of(family: Family) -> Self {
        match family {
            Family::Ip4 => Self { source: 28, complement: Some(18), port: 34 },
            Family::Ip6 => Self { source: 36, complement: None, port: 54 },
        }
    }

    #[inline]
    fn write(self, pkt: &mut Pkt, flow: u32) {
        let Some(frame) = pkt.buffer_mut()[HEADROOM..].first_chunk_mut::<FRAME_LEN>() else { return };
        let [low, port] = halves(flow);
        frame[self.source..self.source + 2].copy_from_slice(&low.to_be_bytes());
        if let Some(at) = self.complement {
            frame[at..at + 2].copy_from_slice(&(!low).to_be_bytes());
        }
        frame[self.port..self.port + 2].copy_from_slice(&port.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use net::driver::Driver;
    use pkt::{Arena, PktVec};
    use wire::ip4;

    use super::*;

    #[test]
    fn all_flows_come_before_one_comes_again_and_their_headers_are_right() {
        for (family, flows) in [(Family::Ip4, 1), (Family::Ip4, 1000), (Family::Ip6, 100_000)] {
            let supply = Supply::default();
            let mut source = source(family, flows, supply.clone());
            let mut pools = Arena::carve(1, 64, false).unwrap();
            let (mut seen, mut pkts) = (HashSet::new(), PktVec::new());
            while seen.len() < flows as usize {
                supply.store(1, core::sync::atomic::Ordering::Relaxed);
                assert_eq!(source.rx(&mut pools[0], &mut pkts, 1), 1);
                let frame = pkts.iter().next().unwrap().head().to_vec();
                if family == Family::Ip4 {
                    assert!(ip4::Header::parse(&frame[14..]).is_ok(), "its checksum is right");
                }
                assert!(seen.insert(frame), "{} of {flows}", seen.len());
                pkts.drain().for_each(|pkt| pools[0].give(pkt));
            }
        }
    }
}
