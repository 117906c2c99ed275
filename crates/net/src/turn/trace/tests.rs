use core::net::IpAddr;
use core::time::Duration;
use std::sync::Arc;

use ipfw::rule::Hook;
use wire::Protocol;
use wire::tcp::Flags;

use super::dry::{Question, Stage};
use super::*;
use crate::base::drop::DropReason;
use crate::firewall::Shared;
use crate::testkit::rules::rules;
use crate::testkit::{Bench, addr4, addr6, build, peer_mac};

/// A clock that stands still.
const CLOCK: fn() -> u64 = || 0;

/// The families: a host on the link of interface 1, one on that of interface 2.
fn hosts() -> [[IpAddr; 2]; 2] {
    [[addr4(1, 2).into(), addr4(2, 2).into()], [addr6(1, 2).into(), addr6(2, 2).into()]]
}

fn udp([src, dst]: [IpAddr; 2], ports: (u16, u16)) -> Vec<u8> {
    build::udp(src, dst, ports, &[7; 40])
}

fn tcp([src, dst]: [IpAddr; 2], ports: (u16, u16), flags: Flags) -> Vec<u8> {
    let options = wire::tcp::Options::default();
    let (src_port, dst_port) = ports;
    let header =
        wire::tcp::Header { src_port, dst_port, seq: 0, ack: 0, flags, window: 1000, urgent: 0, options };
    build::tcp(src, dst, &header, &[])
}

fn receive(bench: &mut Bench, packet: &[u8], from: IpAddr) {
    bench.inject(1, build::frame_from(1, from, packet));
    bench.run();
}

/// A bench whose neighbours are known.
fn warm(cpus: u16, text: &str) -> (Bench, Shared) {
    let mut bench = Bench::with(2, cpus, |_| ());
    for [src, dst] in hosts() {
        receive(&mut bench, &udp([src, dst], (1, 2)), src);
    }
    bench.forget_sent();
    let tables = Arc::clone(&bench.cpu().tables);
    let shared = rules(text).shared(&tables, bench.netisrs.len());
    bench.netisrs.iter_mut().for_each(|netisr| netisr.set_firewall(&shared));
    (bench, shared)
}

fn steps(trace: &Trace) -> Vec<&Step> {
    trace.steps.iter().map(|(step, _)| step).collect()
}

/// The last step but for what was counted.
fn last(trace: &Trace) -> Step {
    steps(trace).into_iter().rfind(|step| !matches!(step, Step::Counted(_))).unwrap().clone()
}

fn ask(bench: &mut Bench, shared: &Shared, bytes: &[u8], from: Option<IfIndex>) -> Trace {
    let (cpus, now) = (u16::try_from(bench.netisrs.len()).unwrap(), bench.cpu().now);
    let stage = Stage::new(Some(shared), CpuId(0), cpus, 3, now);
    let question = Question { bytes: bytes.to_vec(), from };
    dry::run(&mut bench.netisrs[0], &question, stage, CLOCK).0.unwrap()
}

#[test]
fn a_forwarded_packet_is_traced_from_its_interface_to_the_queue() {
    for [src, dst] in hosts() {
        let (mut bench, _) = warm(1, "add count udp from any to any\nadd allow ip from any to any\n");
        attach(bench.cpu(), None, 1, CLOCK).unwrap();
        assert_eq!(attach(bench.cpu(), None, 1, CLOCK), Err(Busy));
        for _ in 0..2 {
            receive(&mut bench, &udp([src, dst], (5, 6)), src);
        }
        assert_eq!(bench.sent(2).len(), 2);
        let (traces, lost) = take(bench.cpu()).unwrap();
        let [trace] = traces.as_slice() else { panic!("one is wanted: {traces:?}") };
        assert_eq!((trace.rcvif, trace.is_frame, lost), (1, true, 0));
        let steps = steps(trace);
        let hooks: Vec<Hook> = steps
            .iter()
            .filter_map(|step| match step {
                Step::Hook(asked) => Some((asked.hook, asked.rules.len(), asked.next)),
                _ => None,
            })
            .map(|(hook, rules, next)| {
                assert_eq!((rules, next), (2, None), "{hook:?}");
                hook
            })
            .collect();
        assert_eq!(hooks, [Hook::Ingress, Hook::Egress]);
        assert!(steps.contains(&&Step::Route { fib: 0, dst, to: To::OnLink { ifindex: 2 } }), "{steps:?}");
        assert!(steps.contains(&&Step::Queued { outif: 2, packets: 1 }), "{steps:?}");
        detach(bench.cpu());
        assert!(!bench.cpu().watched);
    }
}

#[test]
fn a_dropped_packet_ends_with_its_reason_and_a_filter_chooses() {
    for [src, dst] in hosts() {
        let (mut bench, _) = warm(1, "add allow udp from any to any 6\n");
        // Frames of 14 + 20 + 28 bytes and more, of which the last byte is 9.
        let insns = [
            (0x80, 0, 0, 0),
            (0x14, 0, 0, 1),
            (0x07, 0, 0, 0),
            (0x50, 0, 0, 0),
            (0x15, 0, 1, 9),
            (6, 0, 0, 1),
            (6, 0, 0, 0),
        ];
        let insns: Box<[Insn]> = insns.map(|(code, jt, jf, k)| Insn { code, jt, jf, k }).into();
        attach(bench.cpu(), Some(Program::new(insns).unwrap()), 10, CLOCK).unwrap();
        receive(&mut bench, &udp([src, dst], (5, 7)), src);
        receive(&mut bench, &build::udp(src, dst, (5, 7), &[9; 30]), src);
        let (traces, _) = take(bench.cpu()).unwrap();
        assert_eq!(traces.len(), 1);
        assert_eq!(last(&traces[0]), Step::Dropped(DropReason::FirewallDeny));
    }
}

#[test]
fn a_packet_for_this_host_is_traced_to_what_takes_it() {
    for (own, peer) in [(addr4(1, 1).into(), addr4(1, 2).into()), (addr6(1, 1).into(), addr6(1, 2).into())] {
        let mut bench = Bench::new(2);
        receive(&mut bench, &udp([peer, own], (5, 7)), peer);
        attach(bench.cpu(), None, 1, CLOCK).unwrap();
        receive(&mut bench, &udp([peer, own], (5, 7)), peer);
        let (traces, _) = take(bench.cpu()).unwrap();
        let headers = Headers { src: peer, dst: own, protocol: Protocol::UDP, ports: Some((5, 7)) };
        let local = Step::Local { headers, recipient: Recipient::None };
        assert!(steps(&traces[0]).contains(&&local), "{:?}", traces[0]);
    }
}

/// All that a CPU has counted, and what it remembers.
fn memory(bench: &mut Bench) -> (Vec<u64>, [usize; 3], usize) {
    let out = bench.buffers_out();
    let cpu = bench.cpu();
    let firewall = cpu.firewall.as_ref().unwrap();
    let bindings = firewall.nat().iter().map(|instance| instance.table().len()).sum();
    let sizes = [firewall.states().len(), bindings, firewall.states().tracks()];
    let mut all = counts(cpu);
    all.extend(DropReason::ALL.iter().map(|reason| cpu.counters.dropped(*reason)));
    (all, sizes, out)
}

const RULES: &str = "nat 1 config if mem2\n\
    add allow udp from any to any 53 keep-state\n\
    add allow tcp from any to any 80 setup limit src-addr 1\n\
    add nat 1 ip4 from any to any 99 out xmit mem2\n\
    add deny ip from any to any 666\n\
    add check-state\n\
    add allow ip from any to any 99\n\
    add allow ip from any to any 7\n\
    add allow icmp from any to any\n\
    add allow ipv6-icmp from any to any\n";

#[test]
fn a_dry_run_ends_as_the_packet_then_does_and_leaves_nothing_behind() {
    for [src, dst] in hosts() {
        let (mut bench, shared) = warm(1, RULES);
        let syn = |ports| tcp([src, dst], ports, Flags::SYN);
        let far =
            if src.is_ipv4() { IpAddr::from([203, 0, 113, 9]) } else { "2001:db8:ffff::9".parse().unwrap() };
        let questions = [
            udp([src, dst], (5, 53)),
            udp([src, dst], (5, 53)),
            syn((5, 80)),
            syn((6, 80)),
            udp([src, dst], (5, 99)),
            udp([src, dst], (5, 99)),
            udp([src, dst], (5, 666)),
            udp([src, far], (5, 7)),
            syn((5, 7)),
        ];
        for packet in questions {
            let before = memory(&mut bench);
            let trace = ask(&mut bench, &shared, &packet, Some(1));
            assert_eq!(memory(&mut bench), before, "{trace:?}");
            let drops = bench.drops();
            receive(&mut bench, &packet, src);
            let now = bench.drops();
            let dropped =
                now.iter().find(|(reason, count)| drops.iter().all(|was| was != &(*reason, *count)));
            let sent: Vec<Vec<u8>> = bench.sent(2);
            match last(&trace) {
                Step::Frame { outif: 2, dst: mac, headers: Some(headers), .. } => {
                    assert_eq!((sent.len(), mac), (1, peer_mac(dst)), "{trace:?} {:?}", bench.drops());
                    let left = Headers::of_frame(&sent[0]);
                    // A port of NAT is drawn anew.
                    let ports = if headers.src == src { headers.ports } else { left.ports };
                    assert_eq!(Headers { ports, ..headers }, left);
                }
                Step::Dropped(reason) => {
                    assert_eq!(
                        (sent.len(), dropped.map(|(reason, _)| *reason)),
                        (0, Some(reason)),
                        "{trace:?}"
                    );
                }
                Step::Next(Next::Answer(problem)) => {
                    assert!(sent.is_empty(), "{problem:?}");
                    assert_eq!(bench.sent(1).len(), 1, "{problem:?}");
                }
                other => panic!("{other:?} of {trace:?}"),
            }
        }
    }
}

#[test]
fn a_dry_run_sees_the_state_of_its_flow() {
    for [src, dst] in hosts() {
        let (mut bench, shared) = warm(1, RULES);
        let packet = udp([src, dst], (5, 53));
        let asked = |trace: &Trace| {
            let mut asked = trace.steps.iter().filter_map(|(step, _)| match step {
                Step::Hook(asked) if asked.hook == Hook::Ingress => Some(asked.clone()),
                _ => None,
            });
            asked.next().unwrap()
        };
        let first = asked(&ask(&mut bench, &shared, &packet, Some(1)));
        assert!(first.installs && first.hit.is_none(), "{first:?}");
        receive(&mut bench, &packet, src);
        let again = asked(&ask(&mut bench, &shared, &packet, Some(1)));
        let hit = again.hit.clone().unwrap_or_else(|| panic!("{again:?}"));
        assert!(!again.installs && hit.is_forward, "{again:?}");
        let back = asked(&ask(&mut bench, &shared, &udp([dst, src], (53, 5)), Some(2)));
        assert!(back.hit.is_some_and(|hit| !hit.is_forward));
    }
}

impl Headers {
    fn of_frame(frame: &[u8]) -> Self {
        let mut pool = pkt::Arena::carve(1, 4, false).unwrap().remove(0);
        let mut pkt = pool.take().unwrap();
        pkt.append(frame.len() - HEADER_LEN).unwrap().copy_from_slice(&frame[HEADER_LEN..]);
        let headers = Self::read(&pkt).unwrap();
        pool.give(pkt);
        headers
    }
}

#[test]
fn a_dry_run_of_a_packet_of_this_host_goes_out() {
    for (own, peer) in [(addr4(1, 1).into(), addr4(1, 2).into()), (addr6(1, 1).into(), addr6(1, 2).into())] {
        let (mut bench, shared) = warm(1, "add count ip from any to any\nadd allow ip from any to any\n");
        let held = ask(&mut bench, &shared, &udp([own, peer], (5, 7)), None);
        assert_eq!(last(&held), Step::Held { ifindex: 1, next_hop: peer });
        // Our answer makes the neighbour known.
        receive(&mut bench, &udp([peer, own], (5, 7)), peer);
        bench.forget_sent();
        let trace = ask(&mut bench, &shared, &udp([own, peer], (5, 7)), None);
        let hooks = steps(&trace).into_iter().filter(|step| matches!(step, Step::Hook(_))).count();
        let is_sent = steps(&trace).iter().any(|step| matches!(step, Step::Frame { outif: 1, .. }));
        assert!(hooks > 0 && is_sent, "{trace:?}");
        assert!(bench.sent(1).is_empty());
    }
}

#[test]
fn a_dry_run_goes_through_pipes_without_waiting() {
    for [src, dst] in hosts() {
        let (mut bench, shared) =
            warm(1, "pipe 1 config bw 1Mbit/s delay 100\nadd pipe 1 ip from any to any\n");
        let before = memory(&mut bench);
        let trace = ask(&mut bench, &shared, &udp([src, dst], (5, 7)), Some(1));
        assert!(steps(&trace).iter().any(|step| matches!(step, Step::Next(Next::Shape(_)))), "{trace:?}");
        assert!(steps(&trace).iter().any(|step| matches!(step, Step::Frame { outif: 2, .. })), "{trace:?}");
        assert_eq!(memory(&mut bench), before);
        assert_eq!(bench.cpu().firewall.as_ref().unwrap().deadline(), Instant::NEVER);
    }
}

#[test]
fn traces_that_nobody_reads_are_lost_and_counted() {
    let [src, dst] = hosts()[0];
    let (mut bench, _) = warm(1, "add allow ip from any to any\n");
    attach(bench.cpu(), None, u32::MAX, CLOCK).unwrap();
    for _ in 0..TRACES_MAX + 7 {
        receive(&mut bench, &udp([src, dst], (5, 6)), src);
    }
    let (traces, lost) = take(bench.cpu()).unwrap();
    assert_eq!((traces.len(), lost), (TRACES_MAX, 7));
    assert!(traces.iter().all(|trace| trace.bytes.len() <= SNAP_MAX && trace.steps.len() <= STEPS_MAX));
}

#[test]
fn a_dry_run_does_not_make_a_stale_neighbour_be_probed() {
    for [src, dst] in hosts() {
        let (mut bench, shared) = warm(1, "add count ip from any to any\nadd allow ip from any to any\n");
        bench.advance(Duration::from_secs(60));
        bench.forget_sent();
        let packet = udp([src, dst], (5, 7));
        let trace = ask(&mut bench, &shared, &packet, Some(1));
        assert!(matches!(last(&trace), Step::Frame { outif: 2, .. }), "{trace:?}");
        let probes =
            |bench: &Bench| [Count::ArpRequestsSent, Count::NdSolicitsSent].map(|count| bench.counted(count));
        let before = probes(&bench);
        bench.run();
        bench.advance(Duration::from_secs(10));
        assert_eq!(probes(&bench), before, "{src}");
        // A packet does.
        receive(&mut bench, &packet, src);
        bench.advance(Duration::from_secs(10));
        assert_ne!(probes(&bench), before, "{src}");
    }
}

#[test]
fn headers_are_found_behind_vlan_tags() {
    let tags: [&[u8]; 3] = [&[], &[0x81, 0, 0, 10], &[0x88, 0xa8, 0, 100, 0x81, 0, 0, 10]];
    for (hosts, ethertype) in hosts().into_iter().zip([EtherType::IPV4, EtherType::IPV6]) {
        for tags in tags {
            let of_frame = |len: usize| {
                let packet = udp(hosts, (5, 6));
                let link = [&[2; 12], tags, &ethertype.0.to_be_bytes(), &packet].concat();
                let bytes = link.into_iter().take(len).collect();
                let (cpu, at, rcvif, steps) = (CpuId(0), Instant::START, 1, Vec::new());
                Trace { cpu, at, rcvif, is_frame: true, is_handed_over: false, bytes, len, steps, began: 0 }
            };
            let headers = of_frame(SNAP_MAX).headers().unwrap();
            assert_eq!((headers.src, headers.dst, headers.ports), (hosts[0], hosts[1], Some((5, 6))));
            for len in 0..12 + tags.len() + 2 {
                assert_eq!(of_frame(len).network(), None, "{len} bytes");
            }
            assert_eq!(of_frame(12 + tags.len() + 2).network(), Some((ethertype, [].as_slice())));
            assert_eq!(of_frame(12 + tags.len() + 2).headers(), None);
        }
    }
}
