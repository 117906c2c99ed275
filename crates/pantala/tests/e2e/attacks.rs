//! Packets that no kernel would send: they die of the reason that is theirs, and everything else goes on.

use core::net::{IpAddr, Ipv4Addr};

use sim::builder::{self, Ip};
use wire::arp::{Operation, Packet};
use wire::ether::{EtherType, Mac};

use crate::lab::{Attach, Family, Lab, Link};
use crate::raw::{DEVICE, Raw, addresses};
use crate::socket::ping;
use crate::wait::until_right;

/// The attacker's link: pantala is 1, the attacker is 2.
fn on_link(family: Family, host: u8) -> IpAddr {
    let v4 = format!("10.88.0.{host}");
    family.pick(v4, format!("fd88::{host}")).parse().unwrap()
}

/// A lab with one honest host, and an attacker.
struct Flood {
    lab: Lab,
    raw: Raw,
    /// pantala's link address where the attacker is.
    router: Mac,
}

impl Flood {
    fn lay(test: &str) -> Option<Self> {
        let mut lab = Lab::without_pantala(&format!("attacks::{test}"), &[Link::new(Attach::Native)])?;
        let raw = Raw::plug_in(&lab.router);
        lab.run_pantala(&format!(
            "[[interface]]\nname = \"raw\"\ndevice = \"af_xdp:{DEVICE},mode=generic,queues=1\"\n\
             address = [\"10.88.0.1/24\", \"fd88::1/64\"]\n"
        ));
        let router = Mac(lab.router.netlink().unwrap().link(DEVICE).unwrap().mac.unwrap());
        Some(Self { lab, raw, router })
    }

    fn dropped(&self, reason: &str) -> u64 {
        self.lab.pantala().dropped(reason)
    }

    /// The attacker asks for pantala, so that pantala knows where to answer.
    fn introduce(&self) {
        let [IpAddr::V4(own), IpAddr::V4(router)] = [2, 1].map(|host| on_link(Family::V4, host)) else {
            return;
        };
        let question = Packet::request(self.raw.mac, own, router);
        self.raw.send(Mac::BROADCAST, EtherType::ARP, &question.to_bytes());
        let answer = self.raw.await_frame(|header, payload| {
            let arp = (header.ethertype == EtherType::ARP).then(|| Packet::parse(payload).ok()).flatten()?;
            (arp.operation == Operation::Reply && arp.sender_ip == router).then_some(arp.sender_mac)
        });
        assert_eq!(answer, Some(self.router));
    }

    /// The honest host is served as if nothing had happened.
    fn all_is_well(&self) {
        let host = &self.lab.hosts[0];
        self.lab.both(|family| assert_eq!(ping(&host.netns, host.router(family), 3), 3));
    }

    /// IP packets that came back to the attacker and have nothing to do with neighbour discovery.
    fn answers(&self) -> Vec<(IpAddr, IpAddr)> {
        let frames = self.raw.drain();
        let pairs = frames.iter().filter_map(|frame| addresses(frame.get(14..)?));
        pairs.filter(|(_, to)| !to.is_multicast()).collect()
    }
}

fn land_and_martians_are_dropped_each_by_its_name() {
    let Some(flood) = Flood::lay("land_and_martians_are_dropped_each_by_its_name") else { return };
    flood.introduce();
    flood.lab.both(|family| {
        let router = on_link(family, 1);
        let far = flood.lab.hosts[0].addr(family);
        let [own, martian] =
            family.pick(["ip4_own_source", "ip4_martian_source"], ["ip6_own_source", "ip6_martian_source"]);
        for target in [router, far] {
            let before = flood.dropped(own);
            flood.raw.send_ip(flood.router, &builder::udp(Ip::new(router, target), [7, 7], b"land"));
            until_right("land is dropped", || flood.dropped(own), |now| *now == before + 1);
        }
        let sources =
            family.pick(&["127.0.0.1", "240.0.0.1", "224.0.0.1", "255.255.255.255"][..], &["::1", "ff02::1"]);
        for source in sources {
            let before = flood.dropped(martian);
            let packet = builder::udp(Ip::new(source.parse().unwrap(), far), [7, 7], b"martian");
            flood.raw.send_ip(flood.router, &packet);
            until_right(source, || flood.dropped(martian), |now| *now == before + 1);
        }
        assert_eq!(flood.answers(), []);
    });
    flood.all_is_well();
}

fn echo_to_a_broadcast_or_a_group_is_not_answered() {
    let Some(flood) = Flood::lay("echo_to_a_broadcast_or_a_group_is_not_answered") else { return };
    flood.introduce();
    let smurf = |to: &str, mac: Mac| {
        let ip = Ip::new(on_link(Family::V4, 2), to.parse().unwrap());
        flood.raw.send_ip(mac, &builder::echo(ip, false, [1, 1], b"smurf"));
    };
    smurf("10.88.0.255", Mac::BROADCAST);
    smurf("255.255.255.255", Mac::BROADCAST);
    smurf("224.0.0.1", Mac([1, 0, 0x5e, 0, 0, 1]));
    // (RFC 4443 §4.2 wants an answer to an IPv6 group, whose members are all on the link.)
    until_right("echo to many is dropped", || flood.dropped("icmp_broadcast_echo"), |count| *count == 3);
    // Of the other link: it would be answered by all hosts there.
    smurf("10.77.1.255", flood.router);
    until_right("it is not forwarded", || flood.dropped("forward_broadcast"), |count| *count == 1);
    assert_eq!(flood.answers(), []);
    flood.all_is_well();
}

fn forged_arp_teaches_nothing_and_our_address_is_defended() {
    let Some(flood) = Flood::lay("forged_arp_teaches_nothing_and_our_address_is_defended") else { return };
    flood.introduce();
    let known = || flood.lab.pantala().json("arp -an").to_string();
    let forge = |mac: Mac, ip: Ipv4Addr| Packet {
        operation: Operation::Reply,
        sender_mac: mac,
        sender_ip: ip,
        target_mac: flood.router,
        target_ip: Ipv4Addr::new(10, 88, 0, 1),
    };
    let replies = || flood.lab.pantala().counter("arp_replies_in");
    // Unsolicited.
    let unasked = forge(flood.raw.mac, Ipv4Addr::new(10, 88, 0, 50));
    flood.raw.send(flood.router, EtherType::ARP, &unasked.to_bytes());
    until_right("the reply is seen", replies, |count| *count >= 1);
    assert!(!known().contains("10.88.0.50"), "{}", known());
    // A group address as a link address.
    let broadcast = forge(Mac::BROADCAST, Ipv4Addr::new(10, 88, 0, 2));
    let before = flood.dropped("arp_not_credible");
    flood.raw.send(flood.router, EtherType::ARP, &broadcast.to_bytes());
    until_right("it is not believed", || flood.dropped("arp_not_credible"), |count| *count > before);
    assert!(known().contains(&flood.raw.mac.to_string()), "{}", known());
    // Ours.
    flood.raw.drain();
    let theft = forge(flood.raw.mac, Ipv4Addr::new(10, 88, 0, 1));
    flood.raw.send(flood.router, EtherType::ARP, &theft.to_bytes());
    let conflicts = || flood.lab.pantala().counter("arp_conflicts");
    until_right("the conflict is counted", conflicts, |count| *count >= 1);
    let defended = flood.raw.await_frame(|header, payload| {
        let arp = (header.ethertype == EtherType::ARP).then(|| Packet::parse(payload).ok()).flatten()?;
        (arp.is_announcement() && arp.sender_mac == flood.router).then_some(())
    });
    assert_eq!(defended, Some(()), "pantala says that the address is its own");
    flood.all_is_well();
}

fn overlapping_fragments_discard_the_datagram() {
    let Some(flood) = Flood::lay("overlapping_fragments_discard_the_datagram") else { return };
    flood.introduce();
    flood.lab.both(|family| {
        let ip = Ip::new(on_link(family, 2), on_link(family, 1)).may_fragment(7);
        let data = [0x5a; 3000];
        let [first, second] =
            [1280, 1000].map(|mtu| builder::fragments(&builder::echo(ip, false, [1, 1], &data), mtu, 7));
        let before = flood.dropped("reass_overlap");
        // The second piece of the other cut begins inside of the first piece of this one.
        flood.raw.send_ip(flood.router, &first[0]);
        flood.raw.send_ip(flood.router, &second[1]);
        until_right("the overlap is seen", || flood.dropped("reass_overlap"), |now| *now > before);
        first[1..].iter().for_each(|piece| flood.raw.send_ip(flood.router, piece));
    });
    flood.all_is_well();
    assert_eq!(flood.answers(), []);
}

fn fifty_thousand_damaged_packets_change_nothing() {
    let Some(mut flood) = Flood::lay("fifty_thousand_damaged_packets_change_nothing") else { return };
    flood.introduce();
    let mut random = sim::random::Random::new(0x7061_6e74);
    let far = flood.lab.hosts[0].addr(Family::V4);
    let good: Vec<Vec<u8>> = Family::BOTH
        .into_iter()
        .flat_map(|family| {
            let ip = Ip::new(on_link(family, 2), on_link(family, 1));
            let echo = builder::echo(ip, false, [1, 1], &[0x77; 64]);
            let large = builder::echo(ip.may_fragment(9), false, [1, 2], &[0x77; 2500]);
            let mut all = vec![echo, builder::udp(ip, [9, 9], &[1; 40])];
            all.extend(builder::fragments(&large, 1280, 9));
            all
        })
        .chain([builder::udp(Ip::new(on_link(Family::V4, 2), far), [9, 9], &[1; 40])])
        .collect();
    for round in 0..50_000 {
        let mut packet = good[round % good.len()].clone();
        let header = packet.len().min(64);
        for _ in 0..=random.below(3) {
            packet[random.below(header)] = random.byte();
        }
        packet.truncate(packet.len() - random.below(20));
        let ethertype = if round % 2 == 0 { EtherType::IPV4 } else { EtherType::IPV6 };
        flood.raw.send(flood.router, ethertype, &packet);
        if round % 64 == 0 {
            flood.raw.drain();
        }
    }
    flood.all_is_well();
    assert!(flood.lab.pantala_mut().is_alive());
    assert!(!flood.lab.pantala().stderr().contains("panicked"));
    assert!(flood.dropped("ip4_bad_checksum") > 0 && flood.dropped("ip6_bad_version") > 0);
}

harness::tests![
    land_and_martians_are_dropped_each_by_its_name,
    echo_to_a_broadcast_or_a_group_is_not_answered,
    forged_arp_teaches_nothing_and_our_address_is_defended,
    overlapping_fragments_discard_the_datagram,
    fifty_thousand_damaged_packets_change_nothing,
];
