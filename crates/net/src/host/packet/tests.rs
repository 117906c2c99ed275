use core::net::IpAddr;
use core::time::Duration;
use std::sync::Arc;

use wire::bpf::{Insn, Program};
use wire::ether::EtherType;

use super::*;
use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::host::app::{App, AppContext, Handle};
use crate::host::sock::Error;
use crate::ip::neigh;
use crate::link::logical::{Kind, Vlan};
use crate::link::tables::{IfIndex, Ifnet};
use crate::testkit::build::{echo_request, ether, frame, ip};
use crate::testkit::{Bench, addr4, addr6, ifnet, mac, peer_mac};

/// An Ethernet type for experiments, which the stack does not speak (IEEE 802, 9.2.3).
const EXPERIMENT: u16 = 0x88b5;

/// Our address, and a neighbour's, of both families.
fn families() -> [(IpAddr, IpAddr); 2] {
    [(addr4(1, 1).into(), addr4(1, 9).into()), (addr6(1, 1).into(), addr6(1, 9).into())]
}

/// Two interfaces, and a neighbour that is known.
fn bench(peer: IpAddr) -> Bench {
    let mut bench = Bench::new(2);
    assert!(neigh::set_static(bench.cpu(), neigh::Key { ifindex: 1, addr: peer }, peer_mac(peer)));
    bench
}

fn on(ifindex: IfIndex) -> Open {
    Open { ifindex, ..Open::default() }
}

/// Frames of one Ethernet type, and so many bytes of each.
fn of_type(ethertype: u16, bytes: u32) -> Option<Arc<Program<Box<[Insn]>>>> {
    let insn = |code, jt, jf, k| Insn { code, jt, jf, k };
    let insns =
        [insn(0x28, 0, 0, 12), insn(0x15, 0, 1, ethertype.into()), insn(6, 0, 0, bytes), insn(6, 0, 0, 0)];
    Some(Arc::new(Program::new(Box::from(insns)).unwrap()))
}

fn experiment(from: u8, len: usize) -> Vec<u8> {
    let source = peer_mac(addr4(1, from).into());
    ether(mac(1), source, EXPERIMENT, &vec![from; len])
}

/// Returns the queue of a socket: interface, direction, bytes of the frame, and those that are there.
fn heard(bench: &mut Bench, id: Id) -> Vec<(IfIndex, bool, usize, Vec<u8>)> {
    let mut into = [0; 4000];
    let next = || {
        let got = recv(bench.cpu(), id, &mut into).ok()?;
        Some((got.ifindex, got.is_outgoing, got.frame_len, into[..got.len].to_vec()))
    };
    core::iter::from_fn(next).collect()
}

#[test]
fn a_socket_is_shown_frames_and_the_stack_goes_on_with_them() {
    for (ours, peer) in families() {
        let mut bench = bench(peer);
        let id = open(bench.cpu(), on(1)).unwrap();
        let elsewhere = open(bench.cpu(), on(2)).unwrap();
        let request = frame(1, &echo_request(peer, ours, 7, 1, b"who"));
        bench.inject(1, request.clone());
        bench.run();
        assert_eq!(heard(&mut bench, id), [(1, false, request.len(), request)]);
        assert_eq!(heard(&mut bench, elsewhere), []);
        assert_eq!(bench.sent(1).len(), 1, "the answer");
        assert_eq!(bench.counted(Count::PacketSocketIn), 1);
    }
}

#[test]
fn of_all_devices_in_both_directions_a_socket_is_shown_each_frame_once() {
    for (ours, peer) in families() {
        let mut bench = bench(peer);
        let id = open(bench.cpu(), Open { tx: true, ..on(0) }).unwrap();
        let sent_only = open(bench.cpu(), Open { rx: false, tx: true, ..on(1) }).unwrap();
        let request = frame(1, &echo_request(peer, ours, 7, 1, b"who"));
        bench.inject(1, request.clone());
        bench.inject(2, ether(mac(2), mac(9), EXPERIMENT, &[1; 46]));
        bench.run();
        let answer = bench.sent(1).remove(0);
        let mut seen = heard(&mut bench, id);
        seen.sort();
        let other = ether(mac(2), mac(9), EXPERIMENT, &[1; 46]);
        assert_eq!(
            seen,
            [
                (1, false, request.len(), request),
                (1, true, answer.len(), answer.clone()),
                (2, false, other.len(), other)
            ]
        );
        assert_eq!(heard(&mut bench, sent_only), [(1, true, answer.len(), answer)]);
    }
}

#[test]
fn a_filter_selects_frames_and_says_how_much_of_each() {
    let mut bench = Bench::new(1);
    let id = open(bench.cpu(), Open { filter: of_type(EXPERIMENT, 20), ..on(1) }).unwrap();
    let short = Open { filter: of_type(EXPERIMENT, 20), snap_len: 15, ..on(1) };
    let short = open(bench.cpu(), short).unwrap();
    for (ours, peer) in families() {
        bench.inject(1, frame(1, &echo_request(peer, ours, 7, 1, b"who")));
    }
    bench.inject(1, experiment(7, 100));
    bench.run();
    assert_eq!(heard(&mut bench, id), [(1, false, 114, experiment(7, 100)[..20].to_vec())]);
    assert_eq!(heard(&mut bench, short), [(1, false, 114, experiment(7, 100)[..15].to_vec())]);
    assert_eq!(bench.dropped(DropReason::EtherUnknownType), 1, "the stack goes on with it");
}

#[test]
fn what_a_socket_takes_the_stack_does_not_see() {
    for (ours, peer) in families() {
        let mut bench = Bench::new(1);
        let ethertype = if ours.is_ipv4() { 0x0800 } else { 0x86dd };
        let wanted = Open { takes: true, filter: of_type(ethertype, u32::MAX), queue_bytes: 300, ..on(1) };
        let id = open(bench.cpu(), wanted).unwrap();
        let request = frame(1, &echo_request(peer, ours, 7, 1, &[1; 80]));
        for _ in 0..4 {
            bench.inject(1, request.clone());
        }
        bench.inject(1, experiment(7, 100));
        bench.run();
        let fit = 300 / request.len();
        assert_eq!(bench.sent(1), [[]; 0], "no answer");
        assert_eq!(heard(&mut bench, id), vec![(1, false, request.len(), request.clone()); fit]);
        assert_eq!(bench.counted(Count::PacketSocketTaken), fit as u64);
        let full = (DropReason::PacketSocketFull, 4 - fit as u64);
        assert_eq!(bench.drops(), [(DropReason::EtherUnknownType, 1), full]);
        assert_eq!(bench.counted(Count::RxPackets), 5);
        close(bench.cpu(), id).unwrap();
        bench.inject(1, request);
        bench.run();
        assert_eq!(bench.sent(1).len(), 1, "answered again");
        assert_eq!(bench.buffers_out(), 0);
    }
}

#[test]
fn frames_of_a_vlan_come_without_their_tags_and_get_them_when_they_are_sent() {
    let vlan = |index, parent, tpid, vid| Ifnet {
        kind: Kind::Vlan(Vlan { parent, tpid, vid, pcp: 0 }),
        ..ifnet(index)
    };
    let mut bench = Bench::with(2, 1, |config| {
        config.ifs.push(vlan(3, 1, EtherType::VLAN, 10));
        config.ifs.push(vlan(4, 2, EtherType::QINQ, 100));
        config.ifs.push(vlan(5, 4, EtherType::VLAN, 7));
    });
    let tagged = |tags: &[u8]| {
        let plain = experiment(7, 50);
        [&plain[..12], tags, &plain[12..]].concat()
    };
    let cases = [
        (3, 1, vec![0x81, 0, 0, 10]),
        (4, 2, vec![0x88, 0xa8, 0, 100]),
        (5, 2, vec![0x88, 0xa8, 0, 100, 0x81, 0, 0, 7]),
    ];
    for (ifindex, device, tags) in cases {
        let id = open(bench.cpu(), on(ifindex)).unwrap();
        let below = open(bench.cpu(), on(device)).unwrap();
        let frame = tagged(&tags);
        bench.inject(device, frame.clone());
        bench.inject(device, experiment(7, 50));
        bench.inject(device, tagged(&[0x81, 0, 0, 11]));
        bench.run();
        let plain = experiment(7, 50);
        assert_eq!(heard(&mut bench, id)[0], (ifindex, false, plain.len(), plain.clone()));
        assert_eq!(heard(&mut bench, below)[0], (device, false, frame.len(), frame.clone()));
        assert_eq!(heard(&mut bench, id), []);
        bench.forget_sent();
        send(bench.cpu(), id, &plain).unwrap();
        bench.run();
        assert_eq!(bench.sent(device), [frame]);
        close(bench.cpu(), id).unwrap();
        close(bench.cpu(), below).unwrap();
    }
}

#[test]
fn frames_are_sent_as_they_are_made_and_bad_ones_refused() {
    let mut bench = Bench::with(3, 1, |config| config.ifs[2].up = false);
    let id = open(bench.cpu(), on(1)).unwrap();
    let any = open(bench.cpu(), on(0)).unwrap();
    let long = experiment(9, 1500);
    send(bench.cpu(), id, &long).unwrap();
    send_by(bench.cpu(), any, 2, &experiment(8, 0)).unwrap();
    bench.run();
    assert_eq!((bench.sent(1), bench.sent(2)), (vec![long], vec![experiment(8, 0)]));
    assert_eq!(bench.counted(Count::PacketSocketOut), 2);
    assert_eq!(send(bench.cpu(), id, &experiment(9, 1501)), Err(Error::TooBig { mtu: 1500 }));
    assert_eq!(send(bench.cpu(), id, &[0; 13]), Err(Error::BadFrame));
    assert_eq!(send(bench.cpu(), any, &experiment(9, 5)), Err(Error::NotConnected));
    assert_eq!(send_by(bench.cpu(), any, 77, &experiment(9, 5)), Err(Error::NoInterface));
    assert_eq!(send_by(bench.cpu(), any, 3, &experiment(9, 5)), Err(Error::InterfaceDown));
    assert_eq!(open(bench.cpu(), on(77)), Err(Error::NoInterface));
    close(bench.cpu(), id).unwrap();
    assert_eq!(send(bench.cpu(), id, &experiment(9, 5)), Err(Error::NotFound));
    assert_eq!(close(bench.cpu(), id), Err(Error::NotFound));
}

#[test]
fn a_long_frame_of_several_buffers_arrives_whole() {
    let mut bench = Bench::with(1, 1, |config| {
        config.ifs[0].mtu = 9000;
        config.ifs[0].caps.buffers_max = 8;
    });
    let id = open(bench.cpu(), Open { tx: true, ..on(1) }).unwrap();
    let long: Vec<u8> =
        experiment(9, 8990).iter().zip((0..=255).cycle()).map(|(byte, at): (_, u8)| byte ^ at).collect();
    send(bench.cpu(), id, &long).unwrap();
    bench.run();
    assert_eq!(bench.sent(1), core::slice::from_ref(&long));
    let mut into = vec![0; 9100];
    let got = recv(bench.cpu(), id, &mut into).unwrap();
    assert_eq!((got.len, got.is_outgoing, &into[..got.len]), (long.len(), true, &long[..]));
}

#[test]
fn what_nobody_reads_takes_a_bounded_place() {
    for (ours, peer) in families() {
        let mut bench = Bench::new(1);
        let id = open(bench.cpu(), Open { filter: of_type(EXPERIMENT, u32::MAX), ..on(1) }).unwrap();
        let fit = QUEUE_BYTES / 1014;
        for _ in 0..fit + 5 {
            bench.inject(1, experiment(3, 1000));
            bench.run();
        }
        bench.inject(1, frame(1, &ip(peer, ours, wire::Protocol(253), 9, &[0; 10])));
        bench.run();
        assert_eq!(ready(bench.cpu(), id), Ready { frames: fit, bytes: fit * 1014 });
        assert_eq!(bench.counted(Count::PacketSocketFull), 5);
        let ids: Vec<_> = (1..SOCKETS_MAX).map(|_| open(bench.cpu(), on(1)).unwrap()).collect();
        assert_eq!(open(bench.cpu(), on(1)), Err(Error::TooMany));
        close(bench.cpu(), ids[3]).unwrap();
        assert!(open(bench.cpu(), on(1)).is_ok_and(|id| id != ids[3]), "the place, under another name");
    }
}

#[test]
fn without_a_socket_frames_are_not_looked_at() {
    let mut bench = Bench::new(1);
    let ids = [open(bench.cpu(), on(1)).unwrap(), open(bench.cpu(), on(0)).unwrap()];
    assert!(bench.cpu().watched);
    ids.into_iter().for_each(|id| close(bench.cpu(), id).unwrap());
    assert!(!bench.cpu().watched && bench.cpu().packets.is_none());
}

#[test]
fn a_socket_of_a_program_is_told_of_and_closed_with_it() {
    struct Reads(std::sync::mpsc::Sender<(u32, u8)>);
    impl App for Reads {
        fn begin(&mut self, cx: &mut AppContext<'_>) -> Result<(), Error> {
            let socket = open(cx.cpu, Open { filter: of_type(EXPERIMENT, u32::MAX), ..on(1) })?;
            cx.hold_packet(socket, 9);
            Ok(())
        }
        fn frames(&mut self, cx: &mut AppContext<'_>, socket: Handle<Id>) {
            // One at a time, to see that what is left is not forgotten.
            let last = show(cx.cpu, socket.id, |_, [bytes, more]| {
                (true, *more.last().unwrap_or(&bytes[bytes.len() - 1]))
            });
            if let Ok(last) = last {
                self.0.send((socket.key, last)).unwrap();
                cx.again_packet(socket.id);
            }
        }
    }
    let mut bench = Bench::new(1);
    let (sender, told) = std::sync::mpsc::channel();
    let program = bench.netisrs[0].begin(Box::new(Reads(sender))).unwrap();
    for from in 1..=3 {
        bench.inject(1, experiment(from, 40));
    }
    bench.advance(Duration::from_millis(1));
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [(9, 1), (9, 2), (9, 3)]);
    bench.netisrs[0].end(program);
    bench.run();
    assert!(bench.cpu().packets.is_none());
}
