//! Messages of IPFIX: a header, templates now and then, records.

use core::net::IpAddr;

/// Bytes of a message that fit any path of Ethernet, behind the headers of IPv6 and UDP.
//= https://www.rfc-editor.org/rfc/rfc7011#section-10.3.3
const MESSAGE_MAX: usize = 1400;
const VERSION: u16 = 10;
const TEMPLATE_SET: u16 = 2;
const HEADER_LEN: usize = 16;
const SET_HEADER_LEN: usize = 4;

/// Reasons for the end of a record (`flowEndReason`, RFC 5102 §5.11.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Reason {
    IdleTimeout = 1,
    ActiveTimeout = 2,
    EndOfFlow = 3,
    ForcedEnd = 4,
}

/// Source and destination of a flow behind NAT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PostNat {
    pub(crate) src: [u8; 4],
    pub(crate) dst: [u8; 4],
    pub(crate) src_port: u16,
    pub(crate) dst_port: u16,
}

/// A record: a flow, or the part of it since its last record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
    pub(crate) src_port: u16,
    pub(crate) dst_port: u16,
    pub(crate) proto: u8,
    pub(crate) tcp_flags: u8,
    pub(crate) reason: Reason,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Milliseconds since 1970.
    pub(crate) start_ms: u64,
    pub(crate) end_ms: u64,
    pub(crate) nat: Option<PostNat>,
}

/// Kinds of records, each with its template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    V4,
    V6,
    Nat,
}

/// Information elements that all records end with: number and length.
const COMMON: [(u16, u16); 9] = [
    (7, 2),   // sourceTransportPort
    (11, 2),  // destinationTransportPort
    (6, 2),   // tcpControlBits
    (4, 1),   // protocolIdentifier
    (136, 1), // flowEndReason
    (2, 8),   // packetDeltaCount
    (1, 8),   // octetDeltaCount
    (152, 8), // flowStartMilliseconds
    (153, 8), // flowEndMilliseconds
];
/// `sourceIPv4Address`, `destinationIPv4Address`.
const V4: &[(u16, u16)] = &[(8, 4), (12, 4)];
/// `sourceIPv6Address`, `destinationIPv6Address`.
const V6: &[(u16, u16)] = &[(27, 16), (28, 16)];
/// `postNATSourceIPv4Address`, `postNATDestinationIPv4Address`, `postNAPTSourceTransportPort`,
/// `postNAPTDestinationTransportPort` before the addresses.
const NAT: &[(u16, u16)] = &[(225, 4), (226, 4), (227, 2), (228, 2), (8, 4), (12, 4)];

impl Kind {
    const ALL: [Self; 3] = [Self::V4, Self::V6, Self::Nat];

    /// Number of the template, and of sets of its records.
    const fn set(self) -> u16 {
        256 + self as u16
    }

    fn fields(self) -> impl Iterator<Item = (u16, u16)> + Clone {
        let own = match self {
            Self::V4 => V4,
            Self::V6 => V6,
            Self::Nat => NAT,
        };
        own.iter().copied().chain(COMMON)
    }

    fn len(self) -> usize {
        self.fields().map(|(_, len)| usize::from(len)).sum()
    }
}

impl Record {
    fn kind(&self) -> Kind {
        match (self.src, self.nat) {
            (IpAddr::V6(_), _) => Kind::V6,
            (IpAddr::V4(_), Some(_)) => Kind::Nat,
            (IpAddr::V4(_), None) => Kind::V4,
        }
    }

    fn write(&self, to: &mut Vec<u8>) {
        if let Some(nat) = self.nat.filter(|_| self.src.is_ipv4()) {
            to.extend(nat.src);
            to.extend(nat.dst);
            to.extend(nat.src_port.to_be_bytes());
            to.extend(nat.dst_port.to_be_bytes());
        }
        for address in [self.src, self.dst] {
            match address {
                IpAddr::V4(address) => to.extend(address.octets()),
                IpAddr::V6(address) => to.extend(address.octets()),
            }
        }
        to.extend(self.src_port.to_be_bytes());
        to.extend(self.dst_port.to_be_bytes());
        to.extend([0, self.tcp_flags, self.proto, self.reason as u8]);
        for number in [self.packets, self.bytes, self.start_ms, self.end_ms] {
            to.extend(number.to_be_bytes());
        }
    }
}

/// Where messages come from, and how many records they had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) domain: u32,
    /// Records in all messages so far.
    //= https://www.rfc-editor.org/rfc/rfc7011#section-3.1
    //# Incremental sequence counter modulo 2^32 of all IPFIX Data Records
    //# sent in the current stream from the current Observation Domain by
    //# the Exporting Process.
    pub(crate) sequence: u32,
}

impl Stream {
    /// Takes as many records from the front as one message has room for, and returns it.
    pub(crate) fn message(&mut self, now_s: u32, templates: bool, records: &mut &[Record]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_LEN];
        if templates {
            write_templates(&mut bytes);
        }
        let (mut kind, mut set_at, mut count) = (None, 0, 0_u32);
        while let Some((record, rest)) = records.split_first() {
            let head = if kind == Some(record.kind()) { 0 } else { SET_HEADER_LEN };
            if bytes.len() + head + record.kind().len() > MESSAGE_MAX {
                break;
            }
            if head > 0 {
                end_set(&mut bytes, set_at);
                (kind, set_at) = (Some(record.kind()), bytes.len());
                bytes.extend(record.kind().set().to_be_bytes());
                bytes.extend([0; 2]);
            }
            record.write(&mut bytes);
            (count, *records) = (count + 1, rest);
        }
        end_set(&mut bytes, set_at);
        let header = [
            &VERSION.to_be_bytes()[..],
            &short(bytes.len()).to_be_bytes(),
            &now_s.to_be_bytes(),
            &self.sequence.to_be_bytes(),
            &self.domain.to_be_bytes(),
        ];
        bytes.splice(..HEADER_LEN, header.concat());
        self.sequence = self.sequence.wrapping_add(count);
        bytes
    }
}

fn write_templates(bytes: &mut Vec<u8>) {
    let at = bytes.len();
    bytes.extend(TEMPLATE_SET.to_be_bytes());
    bytes.extend([0; 2]);
    for kind in Kind::ALL {
        bytes.extend(kind.set().to_be_bytes());
        bytes.extend(short(kind.fields().count()).to_be_bytes());
        for (number, len) in kind.fields() {
            bytes.extend(number.to_be_bytes());
            bytes.extend(len.to_be_bytes());
        }
    }
    end_set(bytes, at);
}

/// Writes the length of the set that begins at `at`, if one does.
fn end_set(bytes: &mut [u8], at: usize) {
    let len = short(bytes.len() - at);
    if at >= HEADER_LEN
        && let Some(field) = bytes.get_mut(at + 2..at + 4)
    {
        field.copy_from_slice(&len.to_be_bytes());
    }
}

/// A length within a message, which is short.
fn short(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(src: &str, dst: &str) -> Record {
        Record {
            src: src.parse().unwrap(),
            dst: dst.parse().unwrap(),
            src_port: 1,
            dst_port: 443,
            proto: 6,
            tcp_flags: 27,
            reason: Reason::EndOfFlow,
            packets: 3,
            bytes: 180,
            start_ms: 1000,
            end_ms: 2000,
            nat: None,
        }
    }

    /// Numbers and bodies of the sets of a message.
    fn sets(message: &[u8]) -> Vec<(u16, &[u8])> {
        let word = |at: usize| u16::from_be_bytes([message[at], message[at + 1]]);
        assert_eq!((word(0), usize::from(word(2))), (VERSION, message.len()));
        let (mut at, mut sets) = (HEADER_LEN, Vec::new());
        while at < message.len() {
            let len = usize::from(word(at + 2));
            sets.push((word(at), &message[at + 4..at + len]));
            at += len;
        }
        sets
    }

    #[test]
    fn messages_are_short_and_count_the_records_before_them() {
        let mut all = vec![record("192.0.2.1", "192.0.2.2"); 40];
        all.extend([record("2001:db8::1", "2001:db8::2"); 40]);
        let nat = PostNat { src: [198, 51, 100, 1], dst: [192, 0, 2, 2], src_port: 5, dst_port: 6 };
        all.extend([Record { nat: Some(nat), ..record("10.0.0.1", "192.0.2.2") }; 5]);
        let (mut stream, mut rest, mut seen) =
            (Stream { domain: 7, sequence: u32::MAX - 1 }, &all[..], [0; 3]);
        while !rest.is_empty() {
            let before = stream.sequence;
            let message = stream.message(9, before == u32::MAX - 1, &mut rest);
            assert!(message.len() <= MESSAGE_MAX);
            assert_eq!(message[4..16], [[0, 0, 0, 9], before.to_be_bytes(), [0, 0, 0, 7]].concat());
            let mut count = 0;
            for (number, body) in sets(&message) {
                if let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.set() == number) {
                    assert_eq!(body.len() % kind.len(), 0);
                    seen[kind as usize] += body.len() / kind.len();
                    count += body.len() / kind.len();
                } else {
                    assert_eq!(number, TEMPLATE_SET);
                }
            }
            assert_eq!(stream.sequence, before.wrapping_add(u32::try_from(count).unwrap()));
        }
        assert_eq!((seen, stream.sequence), ([40, 40, 5], 83));
    }
}
