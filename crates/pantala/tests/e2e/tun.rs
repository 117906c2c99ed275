//! TUN: packets without frames, with a kernel at the other end.

use core::net::IpAddr;

use ipnet::IpNet;
use pantala::api::InterfaceFlag;

use crate::lab::{Attach, Family, Lab, Link};
use crate::pantala::Folder;
use crate::socket::{datagram_arrives, ping, stream_arrives};
use crate::wait::until;

const BYTES: u64 = 4 << 20;
/// Link type of IP packets in a capture.
const RAW: u16 = 101;

fn a_tun_carries_packets_of_both_families_and_forwards_to_a_tap() {
    const TEST: &str = "tun::a_tun_carries_packets_of_both_families_and_forwards_to_a_tap";
    for rings in [1, 2] {
        let links = [Link::new(Attach::Tun).rings(rings), Link::new(Attach::Tap)];
        let Some(lab) = Lab::start(TEST, &links) else { return };
        let (tun, tap) = lab.pair();
        let name = tun.ifname();
        assert!(lab.pantala().interface(&name).is(InterfaceFlag::PointToPoint));
        lab.both(|family| {
            assert_eq!(ping(&tun.netns, tun.router(family), 10), 10, "the stack answers");
            let out = lab.pantala().shows(&format!("ping -c 3 -i 0.1 {}", tun.addr(family)));
            assert!(out.contains("3 packets received"), "{out}");
            assert_eq!(ping(&tun.netns, tap.addr(family), 10), 10, "from the TUN to the TAP");
            assert_eq!(ping(&tap.netns, tun.addr(family), 10), 10, "from the TAP to the TUN");
            for (from, to) in [(tun, tap), (tap, tun)] {
                assert!(stream_arrives(&from.netns, &to.netns, to.addr(family), BYTES).unwrap());
                assert!(datagram_arrives(&from.netns, &to.netns, to.addr(family), 5000));
            }
        });
        let counters = lab.pantala().interface(&name).counters;
        assert_eq!((counters.rx_errors, counters.tx_errors), (0, 0));
        assert!(counters.rx_bytes > BYTES && counters.tx_bytes > BYTES, "{counters:?}");
    }
}

fn a_tun_is_created_used_and_destroyed_while_packets_flow() {
    const TEST: &str = "tun::a_tun_is_created_used_and_destroyed_while_packets_flow";
    let Some(lab) = Lab::start(TEST, &[Link::new(Attach::Tap)]) else { return };
    let (host, pantala) = (&lab.hosts[0], lab.pantala());
    let addr = |family: Family, host: u8| -> IpAddr {
        family.pick(format!("10.98.0.{host}"), format!("fd98::{host}")).parse().unwrap()
    };
    for _ in 0..2 {
        pantala.shows("ifconfig tun7 create");
        pantala.shows("ifconfig tun7 inet 10.98.0.1/24");
        pantala.shows("ifconfig tun7 inet6 fd98::1/64");
        let shown = pantala.shows("ifconfig tun7");
        assert!(shown.contains("POINTOPOINT") && !shown.contains("ether "), "{shown}");
        lab.router.netlink().unwrap().move_to("tun7", &host.netns).unwrap();
        let mut netlink = host.netns.netlink().unwrap();
        netlink.set_up("tun7", true).unwrap();
        for family in Family::BOTH {
            netlink.add_address("tun7", IpNet::new_assert(addr(family, 2), family.pick(24, 64))).unwrap();
        }
        lab.both(|family| {
            // The kernel has its route some time after its interface is up.
            until("the first answer", || (ping(&host.netns, addr(family, 1), 1) == 1).then_some(()));
            assert_eq!(ping(&host.netns, addr(family, 1), 5), 5);
        });
        pantala.shows("ifconfig tun7 destroy");
        until("the kernel's end goes, too", || netlink.link("tun7").is_err().then_some(()));
    }
    lab.both(|family| assert_eq!(ping(&host.netns, host.router(family), 5), 5));
}

fn a_capture_on_a_tun_has_packets_without_frames() {
    const TEST: &str = "tun::a_capture_on_a_tun_has_packets_without_frames";
    let Some(lab) = Lab::start(TEST, &[Link::new(Attach::Tun), Link::new(Attach::Tap)]) else { return };
    let (tun, pantala) = (&lab.hosts[0], lab.pantala());
    let folder = Folder::new();
    let file = folder.file("tun.pcapng");
    lab.both(|family| {
        let _ = std::fs::remove_file(&file);
        let line = format!("tcpdump -n -i {} -Q in -c 2 -w {}", tun.ifname(), file.display());
        std::thread::scope(|scope| {
            let captured = scope.spawn(|| pantala.command(&line));
            until("the capture has what it wants", || {
                ping(&tun.netns, tun.router(family), 1);
                captured.is_finished().then_some(())
            });
            let said = captured.join().unwrap();
            assert!(said.err.contains("link-type RAW (Raw IP)"), "{said:?}");
        });
        let bytes = std::fs::read(&file).unwrap();
        let blocks: Vec<_> = wire::pcap::Blocks::new(&bytes).map(|(_, block)| block).collect();
        let is_raw = |block: &wire::pcap::Block<'_>| matches!(block, wire::pcap::Block::Interface(RAW, _));
        assert!(blocks.iter().any(is_raw), "{blocks:?}");
        let packets = blocks.iter().filter_map(|block| match block {
            wire::pcap::Block::Packet(packet) => Some(packet),
            _ => None,
        });
        let versions: Vec<u8> = packets.map(|packet| packet.bytes[0] >> 4).collect();
        assert!(versions.iter().all(|version| [4, 6].contains(version)), "{versions:?}");
        assert!(versions.contains(&family.pick(4, 6)), "{versions:?}");
    });
}

harness::tests![
    a_tun_carries_packets_of_both_families_and_forwards_to_a_tap,
    a_tun_is_created_used_and_destroyed_while_packets_flow,
    a_capture_on_a_tun_has_packets_without_frames,
];
