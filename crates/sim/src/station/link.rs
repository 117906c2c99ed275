//! A station's neighbours: its requests and replies.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::EtherType;
use wire::arp;
use wire::ether::Mac;
use wire::icmp6::{self, kind};
use wire::ip6;
use wire::protocol::Protocol;

use super::{ASK_AGAIN, ASKED_MAX, Station};
use crate::frame::Frame;

/// Option types of neighbour discovery (RFC 4861 §4.6): source and target link-layer address.
const SOURCE_LINK_ADDR: u8 = 1;
const TARGET_LINK_ADDR: u8 = 2;
/// Flags of an advertisement (RFC 4861 §4.4).
const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

impl Station {
    /// The link address to send to, if it is known.
    pub(super) fn neighbour(&self, next_hop: IpAddr) -> Option<Mac> {
        match next_hop {
            IpAddr::V4(Ipv4Addr::BROADCAST) => Some(Mac::BROADCAST),
            IpAddr::V4(addr) if addr.is_multicast() => wire::addr::multicast_mac_v4(addr),
            IpAddr::V6(addr) if addr.is_multicast() => wire::addr::multicast_mac_v6(addr),
            _ => self.neighbours.get(&next_hop).copied(),
        }
    }

    /// Forgets all neighbours.
    pub fn forget_neighbours(&mut self) {
        self.neighbours.clear();
    }

    /// Takes a link address for known, as if by hand.
    pub fn learn(&mut self, addr: IpAddr, mac: Mac) {
        self.neighbours.insert(addr, mac);
        let (ready, waiting): (Vec<_>, _) = self.waiting.drain(..).partition(|(hop, _)| *hop == addr);
        self.waiting = waiting.into();
        for (_, packet) in ready {
            self.out.push(self.frame(mac, &packet));
        }
        if self.waiting.is_empty() {
            (self.ask_at, self.asked) = (None, 0);
        }
    }

    pub(super) fn ask(&mut self, target: IpAddr) {
        if self.ask_at.is_some() && self.waiting.iter().filter(|(hop, _)| *hop == target).count() > 1 {
            return;
        }
        self.ask_at = Some(self.now + ASK_AGAIN);
        self.question(target);
    }

    pub(super) fn ask_again(&mut self) {
        self.asked += 1;
        if self.asked >= ASKED_MAX {
            self.lost += self.waiting.len() as u64;
            self.waiting.clear();
            (self.ask_at, self.asked) = (None, 0);
            return;
        }
        self.ask_at = Some(self.now + ASK_AGAIN);
        let mut targets: Vec<_> = self.waiting.iter().map(|(hop, _)| *hop).collect();
        targets.dedup();
        targets.into_iter().for_each(|target| self.question(target));
    }

    fn question(&mut self, target: IpAddr) {
        match (self.addr_for(target), target) {
            (Some(IpAddr::V4(own)), IpAddr::V4(target)) => {
                let request = arp::Packet::request(self.mac, own, target);
                let frame = Frame::around(self.mac, Mac::BROADCAST, EtherType::ARP, &request.to_bytes());
                self.out.push(frame);
            }
            (Some(IpAddr::V6(own)), IpAddr::V6(target)) => {
                let group = wire::addr::solicited_node_multicast(target);
                let packet =
                    nd_packet(own, group, [kind::NEIGHBOR_SOLICIT, 0], target, (SOURCE_LINK_ADDR, self.mac));
                let mac = wire::addr::multicast_mac_v6(group).unwrap_or(Mac::BROADCAST);
                self.out.push(self.frame(mac, &packet));
            }
            _ => {}
        }
    }

    pub(super) fn arp(&mut self, packet: &[u8]) {
        let Ok(packet) = arp::Packet::parse(packet) else { return self.complain("malformed ARP") };
        let credible = !packet.sender_ip.is_unspecified() && packet.sender_mac.is_unicast();
        if credible && (self.cares_for(packet.sender_ip.into()) || self.has(packet.target_ip.into())) {
            self.learn(packet.sender_ip.into(), packet.sender_mac);
        }
        if packet.operation == arp::Operation::Request && self.has(packet.target_ip.into()) {
            let reply = packet.reply(self.mac).to_bytes();
            self.out.push(Frame::around(self.mac, packet.sender_mac, EtherType::ARP, &reply));
        }
    }

    /// Takes a message of neighbour discovery; its checksum is right.
    pub(super) fn nd(&mut self, src: Ipv6Addr, message: &[u8], link_src: Mac) {
        if matches!(message, [kind::ROUTER_SOLICIT | kind::ROUTER_ADVERT, _, ..]) {
            // It has its addresses and gateways already.
            return;
        }
        let target = message.get(8..).and_then(|rest| rest.first_chunk::<16>()).copied();
        let Some(target) = target.map(Ipv6Addr::from) else { return self.complain("short ND message") };
        match message[0] {
            kind::NEIGHBOR_ADVERT if self.cares_for(target.into()) => {
                let mac = link_addr(message, TARGET_LINK_ADDR).unwrap_or(link_src);
                self.learn(target.into(), mac);
            }
            kind::NEIGHBOR_SOLICIT if self.claims_all || self.has(target.into()) => {
                self.advertise(src, target, message)
            }
            _ => {}
        }
    }

    /// Whether it knows or looks for a neighbour.
    fn cares_for(&self, addr: IpAddr) -> bool {
        self.neighbours.contains_key(&addr) || self.waiting.iter().any(|(hop, _)| *hop == addr)
    }

    fn advertise(&mut self, src: Ipv6Addr, target: Ipv6Addr, solicit: &[u8]) {
        let asker = link_addr(solicit, SOURCE_LINK_ADDR);
        let option = (TARGET_LINK_ADDR, self.mac);
        let router = if self.is_router { ROUTER } else { 0 };
        if src.is_unspecified() {
            let all = wire::addr::ALL_NODES;
            let packet = nd_packet(target, all, [kind::NEIGHBOR_ADVERT, router | OVERRIDE], target, option);
            let mac = wire::addr::multicast_mac_v6(all).unwrap_or(Mac::BROADCAST);
            return self.out.push(self.frame(mac, &packet));
        }
        if let Some(mac) = asker {
            self.learn(src.into(), mac);
        }
        let flags = router | SOLICITED | OVERRIDE;
        let packet = nd_packet(target, src, [kind::NEIGHBOR_ADVERT, flags], target, option);
        self.send_via(src.into(), packet);
    }
}

/// The link address in an option of a message of neighbour discovery.
fn link_addr(message: &[u8], wanted: u8) -> Option<Mac> {
    let mut options = message.get(24..)?;
    while let [kind, units, rest @ ..] = options {
        if *kind == wanted {
            return rest.first_chunk::<6>().map(|octets| Mac(*octets));
        }
        options = options.get(usize::from((*units).max(1)) * 8..)?;
    }
    None
}

/// A solicitation or advertisement with one option.
#[must_use]
pub(crate) fn nd_packet(
    src: Ipv6Addr,
    dst: Ipv6Addr,
    [kind, flags]: [u8; 2],
    target: Ipv6Addr,
    (option, mac): (u8, Mac),
) -> Vec<u8> {
    let body = [&target.octets()[..], &[option, 1], &mac.octets()].concat();
    let message = icmp6::Message::Other { kind, code: 0, rest: [flags, 0, 0, 0] };
    let icmp = message.to_bytes(src, dst, &body);
    let payload_len = u16::try_from(icmp.len() + body.len()).unwrap_or(0);
    let header = ip6::Header::new(src, dst, Protocol::ICMP6, payload_len);
    let header = ip6::Header { hop_limit: wire::nd::HOP_LIMIT, ..header };
    [&header.to_bytes()[..], &icmp, &body].concat()
}
