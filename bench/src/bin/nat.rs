//! Translates packets: `nat out|in|none BINDINGS PACKETS`, each by the next of so many bindings of one address, on one CPU of
//! eight. `none` only makes the packets.
//!
//! It says the nanoseconds of a packet; run it with two numbers of packets under `valgrind --tool=callgrind` and divide the
//! difference for the instructions.

use core::hint::black_box;
use core::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use bench::program::{self, Misused};
use ipfw::command::NatConfig;
use net::count::Counters;
use net::firewall::nat::Nat;
use net::firewall::nat::instance::{Here, Verdict};
use net::firewall::nat::spec::Spec;
use net::firewall::nat::table::BindingDirection;
use net::rss::{Placement, hash4};
use net::secret::Secret;
use net::tables::Tables;
use pkt::{Arena, Pkt, Pool};
use wire::{Protocol, ip4, udp};

const OUTSIDE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// Bytes of a packet's payload.
const PAYLOAD: [u8; 18] = [0; 18];
/// Bytes of its headers.
const HEADERS: usize = ip4::HEADER_LEN + udp::HEADER_LEN;

fn main() -> ExitCode {
    program::run("nat out|in|none BINDINGS PACKETS", run)
}

/// Where the next packet goes.
#[derive(Clone, Copy)]
struct Flow {
    src: (Ipv4Addr, u16),
    dst: (Ipv4Addr, u16),
}

/// A CPU with an instance.
struct Bench {
    nat: Nat,
    secret: Secret,
    counters: Counters,
    placement: Placement,
    pool: Pool,
}

fn run(args: &[&str]) -> Result<String> {
    let [way, bindings, packets] = args else { return Err(Misused.into()) };
    let (bindings, packets): (u32, usize) = (program::read(bindings)?, program::read(packets)?);
    let pool = Arena::carve(1, 64, false)?.pop().context("no memory")?;
    let (secret, placement) = (Secret::new(1), Placement::new(8));
    let mut bench = Bench { nat: Nat::default(), secret, counters: Counters::default(), placement, pool };
    let config = NatConfig { ip: Some(OUTSIDE), ..NatConfig::default() };
    let mut spec = Spec::new(1, &config, &Tables::default(), 42)?;
    spec.max = usize::MAX;
    bench.nat.configure(Arc::new(spec), &mut bench.secret);
    let mut pkt = bench.pool.take().context("no buffer")?;
    let flows = bench.flows(&mut pkt, bindings, *way == "in");
    let is_empty = *way == "none";
    let way = if *way == "in" { BindingDirection::In } else { BindingDirection::Out };
    let (began, mut translated) = (Instant::now(), 0);
    for flow in flows.iter().cycle().take(packets) {
        write(&mut pkt, black_box(*flow));
        if !is_empty {
            translated += u64::from(bench.translate(&mut pkt, way) == Verdict::Translated);
        }
        black_box(pkt.window(0));
    }
    let ns = began.elapsed().as_nanos() / packets.max(1) as u128;
    bench.pool.give(pkt);
    Ok(format!("bindings {} translated {translated} ns {ns}", flows.len()))
}

impl Bench {
    /// The CPU that works.
    const CPU: net::cpu::CpuId = net::cpu::CpuId(3);

    fn translate(&mut self, pkt: &mut Pkt, way: BindingDirection) -> Verdict {
        let Self { secret, counters, placement, nat, .. } = self;
        let now = net::time::Instant::from_ns(1 << 40);
        nat.translate(1, &mut Here { now, cpu: Self::CPU, placement: *placement, secret, counters }, pkt, way)
    }

    /// Flows of this CPU, one for each binding, in an order that is not that of memory; or their replies.
    fn flows(&mut self, pkt: &mut Pkt, bindings: u32, is_answer: bool) -> Vec<Flow> {
        let mut flows = Vec::new();
        for n in (0_u32..).take_while(|n| n >> 8 < bindings.max(1)) {
            let [a, b, c, d] = n.wrapping_mul(0x9e37_79b1).to_be_bytes();
            let src = (Ipv4Addr::new(10, a, b, c), 1024 + u16::from(d));
            let flow = Flow { src, dst: (Ipv4Addr::new(198, 51, c, d), 53) };
            write(pkt, flow);
            if self.placement.owner(hash4(pkt.window(0))) != Self::CPU {
                continue;
            }
            if self.translate(pkt, BindingDirection::Out) == Verdict::Translated {
                let port = u16::from_be_bytes([pkt.window(0)[20], pkt.window(0)[21]]);
                let answer = Flow { src: flow.dst, dst: (OUTSIDE, port) };
                flows.push(if is_answer { answer } else { flow });
            }
            if u32::try_from(flows.len()).is_ok_and(|len| len >= bindings) {
                break;
            }
        }
        flows
    }
}

/// Makes the packet one of a flow.
fn write(pkt: &mut Pkt, flow: Flow) {
    pkt.reset();
    let len = u16::try_from(udp::HEADER_LEN + PAYLOAD.len()).unwrap_or(0);
    let header = ip4::Header::new(flow.src.0, flow.dst.0, Protocol::UDP, len);
    let upper = udp::Header { src_port: flow.src.1, dst_port: flow.dst.1, len, checksum: 0x1234 };
    if let Ok(bytes) = pkt.append(HEADERS + PAYLOAD.len())
        && header.emit(bytes).is_ok()
        && let Some(place) = bytes.get_mut(ip4::HEADER_LEN..HEADERS)
    {
        place.copy_from_slice(&upper.to_bytes());
    }
}
