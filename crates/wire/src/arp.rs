//! ARP for IPv4 over Ethernet (RFC 826, RFC 5227).

use crate::ether::{EtherType, Mac};
use core::fmt;
use core::net::Ipv4Addr;

/// Length of an ARP packet for IPv4 over Ethernet, in bytes.
pub const PACKET_LEN: usize = 28;

/// Hardware type 1, protocol type IPv4, address lengths 6 and 4: the only kind there is here.
const PREFIX: [u8; 6] = [0, 1, 0x08, 0x00, 6, 4];

/// The operation of an ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Asks for the station that has the target address.
    Request,
    /// The sender has.
    Reply,
}

/// An ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    /// Question or answer.
    pub operation: Operation,
    /// Ethernet address of the sender.
    pub sender_mac: Mac,
    /// IPv4 address of the sender; unspecified in a probe.
    pub sender_ip: Ipv4Addr,
    /// Ethernet address of the target; says nothing in a request.
    pub target_mac: Mac,
    /// IPv4 address asked for.
    pub target_ip: Ipv4Addr,
}

impl Packet {
    /// Builds a request for `target`, sent by `mac` with address `ip`.
    #[must_use]
    pub const fn request(mac: Mac, ip: Ipv4Addr, target: Ipv4Addr) -> Self {
        Self {
            operation: Operation::Request,
            sender_mac: mac,
            sender_ip: ip,
            target_mac: Mac::ZERO,
            target_ip: target,
        }
    }

    /// The answer to this packet, for the owner `mac` of the target address.
    #[must_use]
    pub const fn reply(&self, mac: Mac) -> Self {
        Self {
            operation: Operation::Reply,
            sender_mac: mac,
            sender_ip: self.target_ip,
            target_mac: self.sender_mac,
            target_ip: self.sender_ip,
        }
    }

    /// Reads an ARP packet; bytes behind it (Ethernet padding) are ignored.
    ///
    /// # Errors
    /// The first of the five questions of RFC 826 "Packet Reception" that is answered with no.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let b: &[u8; PACKET_LEN] =
            bytes.first_chunk().ok_or(Error::Short { need: PACKET_LEN, have: bytes.len() })?;
        check_prefix(b)?;
        Ok(Self {
            operation: operation(u16::from_be_bytes([b[6], b[7]]))?,
            sender_mac: Mac([b[8], b[9], b[10], b[11], b[12], b[13]]),
            sender_ip: Ipv4Addr::new(b[14], b[15], b[16], b[17]),
            target_mac: Mac([b[18], b[19], b[20], b[21], b[22], b[23]]),
            target_ip: Ipv4Addr::new(b[24], b[25], b[26], b[27]),
        })
    }

    /// The packet as it stands on the wire, behind an Ethernet header of type [`EtherType::ARP`].
    #[must_use]
    pub const fn to_bytes(&self) -> [u8; PACKET_LEN] {
        let [h0, h1, p0, p1, hl, pl] = PREFIX;
        let op = match self.operation {
            Operation::Request => 1,
            Operation::Reply => 2,
        };
        let [s0, s1, s2, s3, s4, s5] = self.sender_mac.0;
        let [si0, si1, si2, si3] = self.sender_ip.octets();
        let [t0, t1, t2, t3, t4, t5] = self.target_mac.0;
        let [ti0, ti1, ti2, ti3] = self.target_ip.octets();
        [
            h0, h1, p0, p1, hl, pl, 0, op, s0, s1, s2, s3, s4, s5, si0, si1, si2, si3, t0, t1, t2, t3, t4,
            t5, ti0, ti1, ti2, ti3,
        ]
    }

    /// Asks whether a host has the target address before the asker takes it.
    //= https://www.rfc-editor.org/rfc/rfc5227#section-1.1
    //# In this document, the term 'ARP Probe' is used to refer to an ARP
    //# Request packet, broadcast on the local link, with an all-zero 'sender
    //# IP address'.
    #[must_use]
    pub const fn is_probe(&self) -> bool {
        matches!(self.operation, Operation::Request) && self.sender_ip.is_unspecified()
    }

    /// Tells everybody about the sender's own address: sender and target address are the same ("gratuitous").
    #[must_use]
    pub fn is_announcement(&self) -> bool {
        self.sender_ip == self.target_ip && !self.sender_ip.is_unspecified()
    }

    /// Whether what the sender says about itself can be true.
    //= https://www.rfc-editor.org/rfc/rfc1812#section-3.3.2
    //# A router MUST not believe any ARP reply that claims that the Link
    //# Layer address of another host or router is a broadcast or multicast
    //# address.
    #[must_use]
    pub const fn is_sender_credible(&self) -> bool {
        self.sender_mac.is_unicast() && !self.sender_ip.is_multicast() && !self.sender_ip.is_broadcast()
    }
}

fn check_prefix(b: &[u8; PACKET_LEN]) -> Result<(), Error> {
    let hardware = u16::from_be_bytes([b[0], b[1]]);
    let protocol = u16::from_be_bytes([b[2], b[3]]);
    let lengths = (b[4], b[5]);
    if hardware != 1 {
        return Err(Error::HardwareType { value: hardware });
    }
    if protocol != EtherType::IPV4.0 {
        return Err(Error::ProtocolType { value: protocol });
    }
    match lengths {
        (6, 4) => Ok(()),
        (6, value) => Err(Error::ProtocolLength { value }),
        (value, _) => Err(Error::HardwareLength { value }),
    }
}

const fn operation(value: u16) -> Result<Operation, Error> {
    match value {
        1 => Ok(Operation::Request),
        2 => Ok(Operation::Reply),
        _ => Err(Error::Operation { value }),
    }
}

/// An error in an ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The frame ends inside the packet.
    Short {
        /// Bytes the packet takes.
        need: usize,
        /// Bytes there were.
        have: usize,
    },
    /// The hardware is not Ethernet.
    HardwareType {
        /// The field.
        value: u16,
    },
    /// The protocol is not IPv4.
    ProtocolType {
        /// The field.
        value: u16,
    },
    /// Hardware addresses are not six bytes long.
    HardwareLength {
        /// The field.
        value: u8,
    },
    /// Protocol addresses are not four bytes long.
    ProtocolLength {
        /// The field.
        value: u8,
    },
    /// Neither request nor reply.
    Operation {
        /// The field.
        value: u16,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { need, have } => write!(f, "the packet has {have} bytes, ARP takes {need}"),
            Self::HardwareType { value } => write!(f, "hardware type {value} is not Ethernet (1)"),
            Self::ProtocolType { value } => write!(f, "protocol type {value:#06x} is not IPv4 (0x0800)"),
            Self::HardwareLength { value } => write!(f, "hardware addresses of {value} bytes instead of 6"),
            Self::ProtocolLength { value } => write!(f, "protocol addresses of {value} bytes instead of 4"),
            Self::Operation { value } => write!(f, "operation {value} is neither request nor reply"),
        }
    }
}

impl core::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn packets()(request: bool, s: [u8; 6], si: [u8; 4], t: [u8; 6], ti: [u8; 4]) -> Packet {
            Packet {
                operation: if request { Operation::Request } else { Operation::Reply },
                sender_mac: Mac(s),
                sender_ip: si.into(),
                target_mac: Mac(t),
                target_ip: ti.into(),
            }
        }
    }

    proptest! {
        #[test]
        fn a_packet_survives_the_wire(packet in packets()) {
            prop_assert_eq!(Packet::parse(&packet.to_bytes()), Ok(packet));
        }

        #[test]
        fn etherparse_reads_what_we_write(packet in packets()) {
            let bytes = packet.to_bytes();
            let theirs = etherparse::ArpPacketSlice::from_slice(&bytes).unwrap();
            prop_assert_eq!(theirs.sender_hw_addr(), &packet.sender_mac.0);
            prop_assert_eq!(theirs.sender_protocol_addr(), packet.sender_ip.octets());
            prop_assert_eq!(theirs.target_hw_addr(), &packet.target_mac.0);
            prop_assert_eq!(theirs.target_protocol_addr(), packet.target_ip.octets());
        }
    }

    fn question() -> Packet {
        Packet::request(Mac([2, 0, 0, 0, 0, 1]), Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2))
    }

    #[test]
    fn an_answer_goes_back_to_the_asker() {
        let answer = question().reply(Mac([2, 0, 0, 0, 0, 2]));
        assert_eq!(answer.operation, Operation::Reply);
        assert_eq!(answer.target_mac, question().sender_mac);
        assert_eq!(answer.target_ip, question().sender_ip);
        assert_eq!(answer.sender_ip, question().target_ip);
    }

    #[test]
    fn each_field_of_the_prefix_has_its_own_error() {
        let spoiled = |at: usize, value: u8| {
            let mut bytes = question().to_bytes();
            bytes[at] = value;
            Packet::parse(&bytes)
        };
        assert_eq!(spoiled(1, 6), Err(Error::HardwareType { value: 6 }));
        assert_eq!(spoiled(3, 6), Err(Error::ProtocolType { value: 0x0806 }));
        assert_eq!(spoiled(4, 8), Err(Error::HardwareLength { value: 8 }));
        assert_eq!(spoiled(5, 16), Err(Error::ProtocolLength { value: 16 }));
        assert_eq!(spoiled(7, 3), Err(Error::Operation { value: 3 }));
        assert_eq!(Packet::parse(&[0; 27]), Err(Error::Short { need: 28, have: 27 }));
    }

    #[test]
    fn probes_announcements_and_liars_are_told_apart() {
        let probe = Packet { sender_ip: Ipv4Addr::UNSPECIFIED, ..question() };
        let announcement = Packet { target_ip: question().sender_ip, ..question() };
        let liar = Packet { sender_mac: Mac::BROADCAST, ..question() };
        assert!(probe.is_probe() && !probe.is_announcement());
        assert!(announcement.is_announcement() && !announcement.is_probe());
        assert!(question().is_sender_credible() && !liar.is_sender_credible());
    }
}
