//! Through an instance on several CPUs, or a pair of prefixes, there and back: packets, and errors about them.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipfw::command::{NatConfig, Nptv6Config};
use pkt::{Arena, Pool};

use super::super::Nat;
use super::super::headers::Shape;
use super::super::instance::{Here, Verdict};
use super::super::nptv6::Nptv6;
use super::super::spec::Spec;
use super::super::table::BindingDirection;
use super::packets::{self, PacketKind, error, fragment, mirrored};
use super::{is_intact, is_same};
use crate::base::count::Counters;
use crate::base::secret::Secret;
use crate::base::time::{Duration, Instant};
use crate::link::tables::Tables;
use crate::turn::cpu::CpuId;
use crate::turn::rss::{Placement, hash4};

const ALIAS: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const ROUTER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);
const PAYLOAD_MAX: usize = 400;

/// One instance, on all its CPUs.
struct Lab {
    pool: Pool,
    nats: Vec<Nat>,
    secrets: Vec<Secret>,
    placement: Placement,
    counters: Counters,
}

/// The choices common to both families.
#[derive(Clone, Copy)]
pub(super) struct Choice<'d> {
    pub(super) what: PacketKind,
    pub(super) ports: [u16; 2],
    /// Whether a bit of it was changed on the way: what is broken stays broken.
    pub(super) is_broken: bool,
    pub(super) cut: usize,
    pub(super) payload: &'d [u8],
}

/// IPv4 packets of any kind go out by an instance and their replies come back, each as if there were no translation, on
/// the CPU that it is placed on; so do errors about either. Of fragments the whole is asked for.
pub fn nat(data: &[u8]) {
    let Some(([cpus, options], mut data)) = data.split_first_chunk() else { return };
    let Some(mut lab) = Lab::new(1 + u16::from(cpus % 8), options & 1 == 0) else { return };
    while let Some(([len, a, b, c, d, e], rest)) = data.split_first_chunk() {
        let len = usize::from(*len).min(rest.len());
        let (one, rest) = rest.split_at(len);
        let (inside, far) = (IpAddr::from([10, 0, *a, *b]), IpAddr::from([192, *c, *d, *e]));
        if let Some(choice) = Choice::read(one) {
            lab.there_and_back(&choice, inside, far);
        }
        data = rest;
    }
}

/// Checks IPv6 with NPTv6: untranslatable packets stay as they are. Of fragments each is changed.
pub fn prefixes(data: &[u8]) {
    let Some((inside, data)) = data.split_first_chunk::<16>() else { return };
    let Some((outside, data)) = data.split_first_chunk::<16>() else { return };
    let Some((far, data)) = data.split_first_chunk::<16>() else { return };
    let Some(([len], data)) = data.split_first_chunk() else { return };
    let Some(choice) = Choice::read(data) else { return };
    let [inside, outside, far] = [inside, outside, far].map(|octets| Ipv6Addr::from(*octets));
    let prefix_len = 1 + len % 128;
    let config = Nptv6Config { internal: inside, external: Some(outside), external_if: None, prefix_len };
    let Ok(nptv6) = Nptv6::new(&config, &Tables::default()) else { return };
    let is_in = |addr: Ipv6Addr, of: Ipv6Addr| (addr.to_bits() ^ of.to_bits()) >> (128 - prefix_len) == 0;
    if is_in(inside, outside) || is_in(far, inside) || is_in(far, outside) {
        return;
    }
    let Some(mut pool) = pool() else { return };
    let mut pass = |packet: &[u8]| exchange(&nptv6, &mut pool, packet);
    let packet = choice.packet(inside.into(), far.into());
    let Some(out) = pass(&packet) else { return };
    assert!(Shape::read(&out).is_some_and(|shape| is_in(Ipv6Addr::from_bits(shape.src.addr), outside)));
    let Some(back) = pass(&mirrored(&out)) else { unreachable!("what has gone out comes back") };
    assert!(is_same(&back, &mirrored(&packet)), "{packet:x?}\n{out:x?}\n{back:x?}");
    let cut = (48 + choice.cut % 64 * 2).min(packet.len());
    let seen = Shape::read(&out).map_or(0, |shape| shape.src.addr);
    let told = pass(&error(far.into(), Ipv6Addr::from_bits(seen).into(), &out[..cut]));
    assert!(told.is_some_and(|told| is_same(&told, &error(far.into(), inside.into(), &packet[..cut]))));
    let cut = 8 * (choice.cut % (packet.len() - 40)).div_ceil(8).max(1);
    for is_first in [true, false].into_iter().filter(|_| cut + 40 < packet.len()) {
        let part = fragment(&packet, cut, is_first);
        let Some(out) = pass(&part).filter(|_| Shape::read(&part).is_some()) else { continue };
        assert!(pass(&mirrored(&out)).is_some_and(|back| is_same(&back, &mirrored(&part))));
    }
}

impl<'d> Choice<'d> {
    pub(super) fn read(data: &'d [u8]) -> Option<Self> {
        let ([what, a, b, c, d, cut, broken], payload) = data.split_first_chunk()?;
        let what =
            [PacketKind::Tcp, PacketKind::Udp, PacketKind::UdpBare, PacketKind::Echo][usize::from(what % 4)];
        let ports = [u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])];
        let payload = &payload[..payload.len().min(PAYLOAD_MAX)];
        Some(Self { what, ports, is_broken: *broken == 1, cut: (*cut).into(), payload })
    }

    pub(super) fn packet(&self, src: IpAddr, dst: IpAddr) -> Vec<u8> {
        self.packet_from(self.ports[0], src, dst)
    }

    /// Makes one from another port.
    pub(super) fn packet_from(&self, from: u16, src: IpAddr, dst: IpAddr) -> Vec<u8> {
        let [_, to] = self.ports;
        let mut packet = packets::packet(self.what, (src, from), (dst, to), self.payload);
        if let Some(last) = packet.last_mut().filter(|_| self.is_broken && !self.payload.is_empty()) {
            *last ^= 1;
        }
        packet
    }
}

impl Lab {
    fn new(cpus: u16, same_ports: bool) -> Option<Self> {
        let config = NatConfig { ip: Some(ALIAS), same_ports, ..NatConfig::default() };
        let spec = Arc::new(Spec::new(1, &config, &Tables::default(), 77).ok()?);
        let mut secrets: Vec<_> = (0..cpus).map(|cpu| Secret::new(cpu.into())).collect();
        let nats = secrets.iter_mut().map(|secret| {
            let mut nat = Nat::default();
            nat.configure(Arc::clone(&spec), secret).then_some(nat)
        });
        let nats = nats.collect::<Option<_>>()?;
        let (placement, counters) = (Placement::new(cpus), Counters::default());
        Some(Self { pool: pool()?, nats, secrets, placement, counters })
    }

    fn there_and_back(&mut self, choice: &Choice<'_>, inside: IpAddr, far: IpAddr) {
        let packet = choice.packet(inside, far);
        let (out, owner) = self.pass(&packet, BindingDirection::Out);
        let shape = Shape::read(&out);
        assert_eq!(shape.map(|shape| shape.src.addr), Some(ALIAS.to_bits().into()));
        let (back, at) = self.pass(&mirrored(&out), BindingDirection::In);
        assert_eq!(at, owner, "answers come to the CPU that has the binding");
        assert!(is_same(&back, &mirrored(&packet)), "{packet:x?}\n{out:x?}\n{back:x?}");
        // Of half a checksum the other half cannot be known.
        let cut = (28 + choice.cut % 64 * 2).min(packet.len());
        let (told, _) = self.pass(&error(ROUTER.into(), ALIAS.into(), &out[..cut]), BindingDirection::In);
        assert!(is_same(&told, &error(ROUTER.into(), inside, &packet[..cut])), "{packet:x?}\n{told:x?}");
        let (tells, _) = self.pass(&error(inside, far, &back[..cut]), BindingDirection::Out);
        assert!(
            is_same(&tells, &error(ALIAS.into(), far, &mirrored(&out)[..cut])),
            "{packet:x?}\n{tells:x?}"
        );
        let cut = 8 * (choice.cut % (packet.len() - 20)).div_ceil(8).max(1);
        for is_first in [true, false].into_iter().filter(|_| cut + 20 < packet.len()) {
            let verdict = self.go(&fragment(&packet, cut, is_first), BindingDirection::Out).0;
            assert!(matches!(verdict, Verdict::Reassemble | Verdict::Drop(_)), "{verdict:?}");
        }
    }

    /// A packet that must be translated, and stay as intact as it was; and on which CPU it was.
    fn pass(&mut self, packet: &[u8], direction: BindingDirection) -> (Vec<u8>, CpuId) {
        let (verdict, bytes, at) = self.go(packet, direction);
        assert_eq!(verdict, Verdict::Translated, "{packet:x?}");
        check_sums(packet, &bytes);
        (bytes, at)
    }

    fn go(&mut self, packet: &[u8], direction: BindingDirection) -> (Verdict, Vec<u8>, CpuId) {
        let Some(mut pkt) = self.pool.take() else { unreachable!("all are given back") };
        if let Ok(room) = pkt.append(packet.len()) {
            room.copy_from_slice(packet);
        }
        let mut at = self.placement.owner(hash4(pkt.window(0)));
        let mut handed_over = false;
        loop {
            let here = Here {
                now: Instant::START + Duration::from_secs(1000),
                cpu: at,
                placement: self.placement,
                secret: &mut self.secrets[at.index()],
                counters: &mut self.counters,
            };
            let verdict = self.nats[at.index()].translate(1, &mut { here }, &mut pkt, direction);
            let bytes = pkt.head().to_vec();
            if let Verdict::Owner(owner) = verdict {
                assert!(!handed_over && bytes == packet, "once, and as it is");
                (handed_over, at) = (true, owner);
                continue;
            }
            self.pool.give(pkt);
            return (verdict, bytes, at);
        }
    }
}

/// Translates a packet; `None` if it cannot be translated, and then it is unchanged.
fn exchange(nptv6: &Nptv6, pool: &mut Pool, packet: &[u8]) -> Option<Vec<u8>> {
    let mut pkt = pool.take()?;
    pkt.append(packet.len()).ok()?.copy_from_slice(packet);
    let verdict = nptv6.translate(&mut pkt);
    let bytes = pkt.head().to_vec();
    pool.give(pkt);
    if let Verdict::Refuse(_) = verdict {
        assert_eq!(bytes, packet);
        return None;
    }
    assert_eq!(verdict, Verdict::Translated, "{packet:x?}");
    check_sums(packet, &bytes);
    Some(bytes)
}

fn check_sums(before: &[u8], after: &[u8]) {
    if let (Some(was), Some(is)) = (Shape::read(before), Shape::read(after)) {
        assert_eq!(is_intact(after, &is), is_intact(before, &was), "{before:x?}\n{after:x?}");
    }
}

fn pool() -> Option<Pool> {
    Arena::carve(1, 4, false).ok()?.pop()
}
