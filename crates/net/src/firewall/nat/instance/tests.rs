use core::net::{IpAddr, Ipv4Addr};
use std::collections::HashMap;

use ipfw::command::{NatConfig, NatRedirect};
use pkt::Flags;
use wire::{icmp4, ip4, tcp, udp};

use super::*;
use crate::base::time::Duration;
use crate::firewall::nat::Nat;
use crate::firewall::nat::table::ByProtocol;
use crate::link::tables::{IfIndex, Tables};
use crate::testkit::build::{echo_request, fix_ip4_checksum, ip, udp};
use crate::testkit::{Bench, load};
use crate::turn::rss::hash4;

mod flows;
mod icmp;
mod inside;
mod redirects;
mod settings;

/// The outside interface has [`ALIAS`], the inside one is another.
const OUTSIDE: IfIndex = 1;
const INSIDE: IfIndex = 2;
const ALIAS: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
const CPUS: [u16; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 24, 64];

fn host(n: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a63_0000 + n)
}

fn far(n: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0xc633_6400 + n)
}

/// An instance on several CPUs, and packets brought to the CPU that they are placed on.
struct World {
    bench: Bench,
    nats: Vec<Nat>,
    placement: Placement,
    secrets: Vec<Secret>,
    now: Instant,
    /// Number of hand-offs.
    handoffs: u32,
}

/// The fate of a packet, and its CPU.
#[derive(Debug)]
struct Fate {
    verdict: Verdict,
    cpu: CpuId,
    bytes: Vec<u8>,
}

impl World {
    fn new(cpus: u16, config: &NatConfig) -> Self {
        let tables = Tables::new(crate::link::tables::Config {
            ifs: vec![crate::testkit::ifnet(OUTSIDE), crate::testkit::ifnet(INSIDE)],
            ..Default::default()
        });
        let config = NatConfig { ip: config.ip.or(Some(ALIAS)), ..config.clone() };
        let spec =
            Arc::new(Spec::new(1, &config, &tables, 0x1234_5678_9abc_def0_0fed_cba9_8765_4321).unwrap());
        let mut secrets: Vec<_> = (0..cpus).map(|n| Secret::new(n.into())).collect();
        let nats = secrets.iter_mut().map(|secret| {
            let mut nat = Nat::default();
            assert!(nat.configure(Arc::clone(&spec), secret));
            nat
        });
        let nats = nats.collect();
        let now = Instant::START + Duration::from_secs(1000);
        Self { bench: Bench::new(1), nats, placement: Placement::new(cpus), secrets, now, handoffs: 0 }
    }

    fn go(&mut self, packet: &[u8], direction: BindingDirection, rcvif: IfIndex) -> Fate {
        let cpu = &mut self.bench.netisrs[0].cpu;
        let mut pkt = load(&mut cpu.pool, &packet.to_vec().into()).unwrap();
        pkt.rcvif = rcvif;
        pkt.flags.set(Flags::HASH);
        let mut at = self.placement.owner(hash4(pkt.window(0)));
        for _ in 0..2 {
            let mut here = Here {
                now: self.now,
                cpu: at,
                placement: self.placement,
                secret: &mut self.secrets[at.index()],
                counters: &mut cpu.counters,
            };
            let verdict = self.nats[at.index()].translate(1, &mut here, &mut pkt, direction);
            if let Verdict::Owner(owner) = verdict {
                assert_eq!(pkt.head(), packet, "it is handed over as it is");
                assert_ne!(owner, at);
                self.handoffs += 1;
                at = owner;
                continue;
            }
            assert_eq!(pkt.flags.has(Flags::HASH), verdict != Verdict::Translated);
            let bytes = pkt.head().to_vec();
            cpu.pool.give(pkt);
            if verdict != Verdict::Translated {
                assert_eq!(bytes, packet);
            }
            return Fate { verdict, cpu: at, bytes };
        }
        panic!("it is handed on and on");
    }

    /// Through the outside interface, from inside.
    fn out(&mut self, packet: &[u8]) -> Fate {
        self.go(packet, BindingDirection::Out, INSIDE)
    }

    /// In by the outside interface.
    fn back(&mut self, packet: &[u8]) -> Fate {
        self.go(packet, BindingDirection::In, OUTSIDE)
    }

    /// Out, and translated.
    fn sent(&mut self, packet: &[u8]) -> Vec<u8> {
        translated(self.out(packet))
    }

    /// In, and translated.
    fn received(&mut self, packet: &[u8]) -> Vec<u8> {
        translated(self.back(packet))
    }

    /// In by the inside interface, to an outside address, and translated.
    fn turned(&mut self, packet: &[u8]) -> Vec<u8> {
        translated(self.go(packet, BindingDirection::In, INSIDE))
    }

    fn wait(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
    }

    fn bindings(&self) -> usize {
        self.nats.iter().map(|nat| nat.get(1).unwrap().table().len()).sum()
    }

    fn count(&self, count: Count) -> u64 {
        self.bench.counted(count)
    }
}

fn translated(fate: Fate) -> Vec<u8> {
    assert_eq!(fate.verdict, Verdict::Translated);
    assert!(is_intact(&fate.bytes), "{:x?}", fate.bytes);
    fate.bytes
}

fn is_intact(packet: &[u8]) -> bool {
    let view = ip4::View::new(packet).unwrap();
    let body = view.payload();
    view.verify_checksum()
        && match view.protocol() {
            Protocol::UDP => udp::verify_v4(view.src(), view.dst(), body),
            Protocol::TCP => tcp::View::new(body).unwrap().verify_v4(view.src(), view.dst()),
            Protocol::GRE => true,
            _ => icmp4::Message::parse(body).is_ok(),
        }
}

/// Ends of a packet.
fn ends(packet: &[u8]) -> [(Ipv4Addr, u16); 2] {
    let shape = Shape::read(packet).unwrap();
    [shape.src, shape.dst].map(|end| (Ipv4Addr::from_bits(u32::try_from(end.addr).unwrap()), end.port))
}

fn datagram(src: (Ipv4Addr, u16), dst: (Ipv4Addr, u16)) -> Vec<u8> {
    udp(src.0.into(), dst.0.into(), (src.1, dst.1), b"some bytes")
}

fn segment(src: (Ipv4Addr, u16), dst: (Ipv4Addr, u16), flags: tcp::Flags) -> Vec<u8> {
    let header = tcp::Header {
        src_port: src.1,
        dst_port: dst.1,
        seq: 7,
        ack: 9,
        flags,
        window: 5,
        urgent: 0,
        options: tcp::Options::NONE,
    };
    crate::testkit::build::tcp(src.0.into(), dst.0.into(), &header, b"data")
}

/// The answer to a packet of UDP.
fn answer(packet: &[u8]) -> Vec<u8> {
    let [src, dst] = ends(packet);
    datagram(dst, src)
}

fn error(src: Ipv4Addr, dst: Ipv4Addr, quote: &[u8]) -> Vec<u8> {
    let header = icmp4::Message::Unreachable { code: 4, mtu: 1400 }.to_bytes(quote);
    ip(src.into(), dst.into(), Protocol::ICMP, 64, &[&header, quote].concat())
}

fn echo_reply(request: &[u8]) -> Vec<u8> {
    let view = ip4::View::new(request).unwrap();
    let (message, data) = icmp4::Message::parse(view.payload()).unwrap();
    let icmp4::Message::EchoRequest { id, seq } = message else { panic!("{message:?}") };
    let header = icmp4::Message::EchoReply { id, seq }.to_bytes(data);
    ip(view.dst().into(), view.src().into(), Protocol::ICMP, 64, &[&header, data].concat())
}
