//! Through an instance of NAT64 on several CPUs, there and back: packets, and errors about them; and any bytes at all.

use core::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipfw::command::Nat64Config;
use pkt::{Arena, Pool};
use wire::icmp4;

use super::super::headers::Shape;
use super::super::instance::{Here, Verdict};
use super::super::nat64::Nat64;
use super::super::nat64::spec::Spec;
use super::packets::{PacketKind, fragment, mirrored};
use super::round_trip::Choice;
use super::{is_intact, is_same, packets};
use crate::base::count::Counters;
use crate::base::secret::Secret;
use crate::base::time::{Duration, Instant};
use crate::link::tables::Tables;
use crate::turn::cpu::CpuId;
use crate::turn::rss::{Placement, hash4, hash6};

const POOL: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 0);
const ROUTER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);
const PREFIXES: [u8; 6] = [32, 40, 48, 56, 64, 96];

/// One instance, on all its CPUs.
struct Lab {
    pool: Pool,
    spec: Arc<Spec>,
    nats: Vec<Nat64>,
    secrets: Vec<Secret>,
    placement: Placement,
    counters: Counters,
}

/// Packets of any kind from hosts of IPv6 become ones of IPv4 with the same upper layer, and their answers come back as if
/// no translation had happened, on the CPU that they are placed on; so do errors about either.
pub fn families(data: &[u8]) {
    let Some(([cpus, prefix], mut data)) = data.split_first_chunk() else { return };
    let Some(mut lab) = Lab::new(1 + u16::from(cpus % 8), PREFIXES[usize::from(prefix % 6)]) else { return };
    while let Some(([len, a, b, c, d, e], rest)) = data.split_first_chunk() {
        let (one, rest) = rest.split_at(usize::from(*len).min(rest.len()));
        let inside = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, u16::from(*a), 0, u16::from(*b));
        if let Some(choice) = Choice::read(one) {
            lab.there_and_back(&choice, inside, Ipv4Addr::from([192, *c, *d, *e]));
        }
        data = rest;
    }
}

/// Bytes that say that they are a packet for the other family: they become one that is in order, or die with a name.
pub fn families_of_any(data: &[u8]) {
    let Some(([choice, port @ ..], data)) = data.split_first_chunk::<3>() else { return };
    let Some(mut lab) = Lab::new(1, 96) else { return };
    let (inside, far) = (Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 5), Ipv4Addr::new(192, 0, 2, 9));
    let port = u16::from_be_bytes(*port);
    let begun =
        packets::packet(PacketKind::Udp, (inside.into(), port), (lab.put(far).into(), port), &[7; 16]);
    let (_, begun, _) = lab.go(&begun);
    let mut bytes = data.to_vec();
    let is_ip4 = choice & 1 == 0;
    let (at, dst) = if is_ip4 { (16, begun[12..16].to_vec()) } else { (24, lab.put(far).octets().to_vec()) };
    let (Some(first), true) = (bytes.first().copied(), bytes.len() >= 40) else { return };
    bytes[0] = if is_ip4 { 0x40 | first & 0xf } else { 0x60 | first & 0xf };
    bytes[at..at + dst.len()].copy_from_slice(&dst);
    if let (Verdict::Translated, after, _) = lab.go(&bytes) {
        let Some(shape) = Shape::read(&after) else { unreachable!("it is a packet: {after:x?}") };
        assert!(shape.is_ip4 != is_ip4 && (!shape.is_ip4 || is_intact(&after, &shape).0), "{after:x?}");
    }
}

impl Lab {
    fn new(cpus: u16, len: u8) -> Option<Self> {
        let prefix6 = (Ipv6Addr::new(0x2001, 0xdb8, 0x6400, 0, 0, 0, 0, 0), len);
        let config = Nat64Config { prefix4: (POOL, 30), prefix6, allow_private: false };
        // The shortest prefix has the hosts in it, too.
        let config = match len {
            32 => Nat64Config { prefix6: (Ipv6Addr::new(0x2001, 0xdb9, 0, 0, 0, 0, 0, 0), len), ..config },
            _ => config,
        };
        let spec = Arc::new(Spec::new("gate", &config, 77)?);
        let mut secrets: Vec<_> = (0..cpus).map(|cpu| Secret::new(cpu.into())).collect();
        let nats = secrets.iter_mut().map(|secret| {
            let mut nat = Nat64::default();
            nat.configure(&[Arc::clone(&spec)], secret);
            nat
        });
        let (nats, placement) = (nats.collect(), Placement::new(cpus));
        let pool = Arena::carve(1, 4, false).ok()?.pop()?;
        Some(Self { pool, spec, nats, secrets, placement, counters: Counters::default() })
    }

    fn put(&self, addr: Ipv4Addr) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.spec.prefix.put(addr.to_bits()))
    }

    fn there_and_back(&mut self, choice: &Choice<'_>, inside: Ipv6Addr, far: Ipv4Addr) {
        let there = self.put(far);
        let packet = choice.packet(inside.into(), there.into());
        let (out, owner) = self.pass(&packet);
        let seen = self.seen(&out, far);
        let is_bare = choice.what == PacketKind::UdpBare;
        // IPv6 has none without a checksum.
        let plain = Choice { what: if is_bare { PacketKind::Udp } else { choice.what }, ..*choice };
        let expected = plain.packet_from(seen.1, seen.0.into(), far.into());
        assert!(is_same(&out[20..], &expected[20..]), "{packet:x?}\n{out:x?}\n{expected:x?}");
        let mut answer = mirrored(&out);
        if is_bare {
            answer[26..28].fill(0);
        }
        let (back, at) = self.pass(&answer);
        assert_eq!(at, owner, "answers come to the CPU that has the binding");
        assert!(
            is_bare && choice.is_broken || is_same(&back, &mirrored(&packet)),
            "{packet:x?}\n{out:x?}\n{back:x?}"
        );
        self.errors(choice, (&packet, &out, &back), (inside, seen.0, far));
        let cut = 8 * (choice.cut % (packet.len() - 40)).div_ceil(8).max(1);
        for is_first in [true, false].into_iter().filter(|_| cut + 40 < packet.len()) {
            let verdict = self.go(&fragment(&packet, cut, is_first)).0;
            assert!(matches!(verdict, Verdict::Reassemble | Verdict::Drop(_)), "{verdict:?}");
        }
    }

    /// Returns the translated source of a packet.
    fn seen(&self, out: &[u8], far: Ipv4Addr) -> (Ipv4Addr, u16) {
        let Some(shape) = Shape::read(out) else { unreachable!("it was translated: {out:x?}") };
        let addr = Ipv4Addr::from_bits(u32::try_from(shape.src.addr).unwrap_or(0));
        assert!(shape.is_ip4 && self.spec.is_outside(addr.to_bits()));
        assert_eq!(shape.dst.addr, far.to_bits().into());
        (addr, shape.src.port)
    }

    /// Errors about a packet, and about its answer, each as if it were about what its receiver has sent.
    fn errors(
        &mut self,
        choice: &Choice<'_>,
        (packet, out, back): (&[u8], &[u8], &[u8]),
        (inside, seen, far): (Ipv6Addr, Ipv4Addr, Ipv4Addr),
    ) {
        let cut = (28 + choice.cut % 64 * 2).min(out.len());
        let told = self.pass(&packets::error(ROUTER.into(), seen.into(), &out[..cut])).0;
        let expected = packets::error(self.put(ROUTER).into(), inside.into(), &packet[..cut + 20]);
        assert!(is_same(&told, &expected), "{told:x?}\n{expected:x?}");
        let tells = packets::error(inside.into(), self.put(far).into(), &back[..cut + 20]);
        let tells = self.pass(&tells).0;
        let head = icmp4::Message::Unreachable { code: 4, mtu: 1260 };
        assert_eq!(icmp4::Message::parse(&tells[20..]).map(|(head, _)| head), Ok(head));
        let (quote, sent) = (&tells[28..], &mirrored(out)[..cut]);
        // In a header that was made of one of IPv6 there is no identification.
        assert!(quote[12..20] == sent[12..20] && quote[..4] == sent[..4], "{quote:x?}\n{sent:x?}");
        let is_summed_anew = choice.what == PacketKind::UdpBare && choice.is_broken;
        assert!(is_summed_anew || is_same(&quote[20..], &sent[20..]), "{quote:x?}\n{sent:x?}");
    }

    /// A packet that must be translated, and stay as intact as it was; and on which CPU it was.
    fn pass(&mut self, packet: &[u8]) -> (Vec<u8>, CpuId) {
        let (verdict, bytes, at) = self.go(packet);
        assert_eq!(verdict, Verdict::Translated, "{packet:x?}");
        let (Some(was), Some(is)) = (Shape::read(packet), Shape::read(&bytes)) else { return (bytes, at) };
        assert!(!is.is_ip4 || is_intact(&bytes, &is).0, "{bytes:x?}");
        assert_eq!(was.is_ip4, !is.is_ip4);
        (bytes, at)
    }

    fn go(&mut self, packet: &[u8]) -> (Verdict, Vec<u8>, CpuId) {
        let Some(mut pkt) = self.pool.take() else { unreachable!("all are given back") };
        if let Ok(room) = pkt.append(packet.len()) {
            room.copy_from_slice(packet);
        }
        let ip = pkt.window(0);
        let mut at = self.placement.owner(if ip[0] >> 4 == 4 { hash4(ip) } else { hash6(ip) });
        let mut handed_over = false;
        loop {
            let mut here = Here {
                now: Instant::START + Duration::from_secs(1000),
                cpu: at,
                placement: self.placement,
                secret: &mut self.secrets[at.index()],
                counters: &mut self.counters,
            };
            let verdict = self.nats[at.index()].translate("gate", &mut here, &Tables::default(), &mut pkt);
            if let Verdict::Owner(owner) = verdict {
                assert!(!handed_over, "once");
                (handed_over, at) = (true, owner);
                continue;
            }
            let bytes = pkt.head().to_vec();
            self.pool.give(pkt);
            return (verdict, bytes, at);
        }
    }
}
