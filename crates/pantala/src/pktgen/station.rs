//! The generator as a neighbour: it resolves the gateway's Ethernet address, and answers requests for its own.
//!
//! Frames in, frames out; no device, no clock.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::ether::{self, EtherType, Mac};
use wire::nd::{self, Envelope, Message, NeighborAdvert, Opt};
use wire::{Protocol, addr, arp, icmp6, ip6};

use super::grammar::Addrs;

/// Bytes of the longest frame that is made here.
pub(crate) const FRAME_MAX: usize = 96;

/// One end of the test: an Ethernet address and the IP addresses that are reached there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Station {
    pub(crate) mac: Mac,
    pub(crate) addresses: Vec<Addrs>,
    /// An address in one of them that another station has.
    pub(crate) except: Option<IpAddr>,
}

/// A frame that was made here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    bytes: [u8; FRAME_MAX],
    len: usize,
}

impl Frame {
    fn new(dst: Mac, src: Mac, ethertype: EtherType) -> Self {
        let mut frame = Self { bytes: [0; FRAME_MAX], len: 0 };
        frame.put(&ether::Header { dst, src, ethertype }.to_bytes());
        frame
    }

    fn put(&mut self, bytes: &[u8]) {
        if let Some(room) = self.bytes.get_mut(self.len..self.len + bytes.len()) {
            room.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    /// The frame, as long as Ethernet wants it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len.clamp(ether::MIN_FRAME_LEN, FRAME_MAX)]
    }
}

impl Station {
    fn has(&self, address: IpAddr) -> bool {
        self.except != Some(address) && self.addresses.iter().any(|addrs| addrs.contains(address))
    }

    /// The answer to a received frame, if it asks for one of our addresses.
    ///
    /// Probes for duplicates (RFC 5227, RFC 4862) get no answer: our ranges may
    /// include their own.
    pub(crate) fn answer(&self, frame: &[u8]) -> Option<Frame> {
        let header = ether::Header::parse(frame).ok()?;
        let packet = frame.get(ether::HEADER_LEN..)?;
        match header.ethertype {
            EtherType::ARP => self.answer_arp(packet),
            EtherType::IPV6 => self.answer_solicitation(&header, packet),
            _ => None,
        }
    }

    fn answer_arp(&self, packet: &[u8]) -> Option<Frame> {
        let asked = arp::Packet::parse(packet).ok()?;
        let wants_us = asked.operation == arp::Operation::Request && self.has(asked.target_ip.into());
        if !wants_us || asked.is_probe() || asked.is_announcement() || !asked.is_sender_credible() {
            return None;
        }
        let mut frame = Frame::new(asked.sender_mac, self.mac, EtherType::ARP);
        frame.put(&asked.reply(self.mac).to_bytes());
        Some(frame)
    }

    fn answer_solicitation(&self, header: &ether::Header, packet: &[u8]) -> Option<Frame> {
        let (envelope, message, from) = discovery(packet)?;
        let Message::NeighborSolicit { target } = message else { return None };
        if envelope.src.is_unspecified() || !self.has(target.into()) {
            return None;
        }
        let advert = NeighborAdvert { router: false, solicited: true, replace: true, target };
        let to = from.unwrap_or(header.src);
        Some(self.discovery(
            to,
            (target, envelope.src),
            &Message::NeighborAdvert(advert),
            Opt::TargetLinkAddr(self.mac),
        ))
    }

    /// Builds a request for `target`, from our address `own`.
    pub(crate) fn ask(&self, own: IpAddr, target: IpAddr) -> Option<Frame> {
        match (own, target) {
            (IpAddr::V4(own), IpAddr::V4(target)) => Some(self.ask_arp(own, target)),
            (IpAddr::V6(own), IpAddr::V6(target)) => Some(self.solicit(own, target)),
            _ => None,
        }
    }

    fn ask_arp(&self, own: Ipv4Addr, target: Ipv4Addr) -> Frame {
        let mut frame = Frame::new(Mac::BROADCAST, self.mac, EtherType::ARP);
        frame.put(&arp::Packet::request(self.mac, own, target).to_bytes());
        frame
    }

    //= https://www.rfc-editor.org/rfc/rfc4861#section-4.3
    fn solicit(&self, own: Ipv6Addr, target: Ipv6Addr) -> Frame {
        let group = addr::solicited_node_multicast(target);
        let to = addr::multicast_mac_v6(group).unwrap_or(Mac::BROADCAST);
        self.discovery(to, (own, group), &Message::NeighborSolicit { target }, Opt::SourceLinkAddr(self.mac))
    }

    fn discovery(
        &self,
        to: Mac,
        (src, dst): (Ipv6Addr, Ipv6Addr),
        message: &Message,
        option: Opt<'_>,
    ) -> Frame {
        let mut body = [0; FRAME_MAX];
        // The longest message with one option has 32 bytes.
        let len = message.emit(src, dst, [option], &mut body).unwrap_or(0);
        let payload_len = u16::try_from(len).unwrap_or(0);
        let header = ip6::Header {
            hop_limit: nd::HOP_LIMIT,
            ..ip6::Header::new(src, dst, Protocol::ICMP6, payload_len)
        };
        let mut frame = Frame::new(to, self.mac, EtherType::IPV6);
        frame.put(&header.to_bytes());
        frame.put(&body[..len]);
        frame
    }
}

/// The Ethernet address of `target`, if a received frame says it.
pub(crate) fn learned(frame: &[u8], target: IpAddr) -> Option<Mac> {
    let header = ether::Header::parse(frame).ok()?;
    let packet = frame.get(ether::HEADER_LEN..)?;
    let mac = match header.ethertype {
        EtherType::ARP => {
            let said = arp::Packet::parse(packet).ok()?;
            let is_it = said.operation == arp::Operation::Reply && IpAddr::from(said.sender_ip) == target;
            (is_it && said.is_sender_credible()).then_some(said.sender_mac)
        }
        EtherType::IPV6 => match discovery(packet)? {
            (_, Message::NeighborAdvert(advert), option) if IpAddr::from(advert.target) == target => {
                Some(option.unwrap_or(header.src))
            }
            _ => None,
        },
        _ => None,
    };
    mac.filter(|mac| mac.is_unicast())
}

/// A message of neighbour discovery, if it is valid, and the link-layer address that goes with its kind.
fn discovery(packet: &[u8]) -> Option<(Envelope, Message, Option<Mac>)> {
    let view = ip6::View::new(packet).ok()?;
    let (src, dst, payload) = (view.src(), view.dst(), view.payload());
    if view.next_header() != Protocol::ICMP6 || !icmp6::verify(src, dst, payload) {
        return None;
    }
    let envelope = Envelope { src, dst, hop_limit: view.hop_limit() };
    let (message, options) = Message::parse(&envelope, payload).ok()?;
    let mac = match message {
        Message::NeighborAdvert(_) => options.target_link_addr(),
        _ => options.source_link_addr(),
    };
    Some((envelope, message, mac))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const THERE: Mac = Mac([2, 0, 0, 0, 0, 2]);

    /// The test in each family: two addresses of the first station, one of the other.
    const FAMILIES: [(&str, &str, &str); 2] = [
        ("192.0.2.10-192.0.2.20", "192.0.2.12", "192.0.2.1"),
        ("2001:db8::10-2001:db8::20", "2001:db8::12", "2001:db8::1"),
    ];

    fn station(mac: Mac, range: &str) -> Station {
        Station { mac, addresses: vec![Addrs::parse(range).unwrap()], except: None }
    }

    fn addr(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn two_stations_find_each_other() {
        for (range, one, other) in FAMILIES {
            let (here, there) = (station(HERE, range), station(THERE, other));
            let question = there.ask(addr(other), addr(one)).unwrap();
            let answer = here.answer(question.bytes()).unwrap();
            assert_eq!(learned(answer.bytes(), addr(one)), Some(HERE), "{one}");
            assert_eq!(learned(answer.bytes(), addr(other)), None);
            assert_eq!(ether::Header::parse(answer.bytes()).unwrap().dst, THERE);
            assert_eq!(there.answer(answer.bytes()), None, "an answer is not answered");
            assert_eq!(learned(question.bytes(), addr(one)), None, "a question teaches nothing");
        }
    }

    #[test]
    fn a_question_for_an_address_that_is_not_ours_gets_no_answer() {
        for (range, one, other) in FAMILIES {
            let there = station(THERE, other);
            let question = there.ask(addr(other), addr(one)).unwrap();
            assert_eq!(there.answer(question.bytes()), None);
            let except = Station { except: Some(addr(one)), ..station(HERE, range) };
            assert_eq!(except.answer(question.bytes()), None, "{one} is somebody else's");
        }
    }

    #[test]
    fn an_arp_probe_is_not_answered() {
        let any = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
        for ((range, one, other), unspecified) in FAMILIES.into_iter().zip(any) {
            let question = station(THERE, other).ask(unspecified, addr(one)).unwrap();
            assert_eq!(station(HERE, range).answer(question.bytes()), None);
        }
    }

    #[test]
    fn what_is_cut_off_or_changed_is_not_answered_and_nothing_panics() {
        for (range, one, other) in FAMILIES {
            let here = station(HERE, range);
            let question = station(THERE, other).ask(addr(other), addr(one)).unwrap();
            // as long as the message is; behind it an ARP frame is padded
            let whole = question.len;
            for len in 0..whole {
                assert_eq!(here.answer(&question.bytes()[..len]), None, "{len} bytes");
            }
            for at in 0..whole {
                let mut bytes = question.bytes().to_vec();
                bytes[at] ^= 0x40;
                // whatever comes of it
                let _ = (here.answer(&bytes), learned(&bytes, addr(one)));
            }
        }
    }

    #[test]
    fn a_question_in_one_family_about_the_other_is_not_asked() {
        assert_eq!(station(HERE, "192.0.2.1").ask(addr("192.0.2.1"), addr("2001:db8::1")), None);
    }
}
