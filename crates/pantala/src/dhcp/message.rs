//! DHCP messages: bytes to values and back (RFC 2131 §2, RFC 2132).

use core::net::Ipv4Addr;

use ipnet::Ipv4Net;
use wire::ether::Mac;

/// Length of the fixed part, and of the cookie behind it.
const FIXED: usize = 236;
const COOKIE: [u8; 4] = [99, 130, 83, 99];
/// The shortest message that BOOTP relays and clients accept (RFC 1542 §2.1).
const LEN_MIN: usize = 300;
const SNAME: core::ops::Range<usize> = 44..108;
const FILE: core::ops::Range<usize> = 108..236;
const BROADCAST: u16 = 0x8000;
const ETHERNET: u8 = 1;
const REQUEST: u8 = 1;
const REPLY: u8 = 2;

/// Codes of options.
pub(crate) mod option {
    pub(crate) const PAD: u8 = 0;
    pub(crate) const SUBNET_MASK: u8 = 1;
    pub(crate) const ROUTER: u8 = 3;
    pub(crate) const DNS: u8 = 6;
    pub(crate) const HOST_NAME: u8 = 12;
    pub(crate) const DOMAIN: u8 = 15;
    pub(crate) const MTU: u8 = 26;
    pub(crate) const BROADCAST_ADDRESS: u8 = 28;
    pub(crate) const NTP: u8 = 42;
    pub(crate) const REQUESTED_ADDRESS: u8 = 50;
    pub(crate) const LEASE_TIME: u8 = 51;
    pub(crate) const OVERLOAD: u8 = 52;
    pub(crate) const MESSAGE_TYPE: u8 = 53;
    pub(crate) const SERVER: u8 = 54;
    pub(crate) const PARAMETERS: u8 = 55;
    pub(crate) const MESSAGE: u8 = 56;
    pub(crate) const RENEWAL_TIME: u8 = 58;
    pub(crate) const REBINDING_TIME: u8 = 59;
    pub(crate) const CLIENT_ID: u8 = 61;
    pub(crate) const RELAY_AGENT: u8 = 82;
    pub(crate) const CLASSLESS_ROUTES: u8 = 121;
    pub(crate) const END: u8 = 255;
}

/// The type of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Discover = 1,
    Offer,
    Request,
    Decline,
    Ack,
    Nak,
    Release,
    Inform,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Discover,
        Self::Offer,
        Self::Request,
        Self::Decline,
        Self::Ack,
        Self::Nak,
        Self::Release,
        Self::Inform,
    ];
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// From a server.
    pub(crate) is_reply: bool,
    pub(crate) hops: u8,
    pub(crate) xid: u32,
    pub(crate) secs: u16,
    /// The client can receive only what is broadcast.
    pub(crate) broadcast: bool,
    /// The client's address, if it has one.
    pub(crate) ciaddr: Ipv4Addr,
    /// The address that the server gives it.
    pub(crate) yiaddr: Ipv4Addr,
    pub(crate) siaddr: Ipv4Addr,
    /// The relay's address.
    pub(crate) giaddr: Ipv4Addr,
    pub(crate) chaddr: Mac,
    /// Options; those of the same code are one (RFC 3396).
    pub(crate) options: Vec<(u8, Vec<u8>)>,
}

/// Why bytes are no DHCP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// Shorter than its fixed part, or without the cookie.
    Short,
    /// For another link than Ethernet, or neither request nor reply.
    Foreign,
    /// An option ends beyond its field.
    Option,
    /// Without a known type.
    Kind,
}

impl Message {
    /// A message of a client.
    pub(crate) const fn request(xid: u32, chaddr: Mac) -> Self {
        let none = Ipv4Addr::UNSPECIFIED;
        Self {
            is_reply: false,
            hops: 0,
            xid,
            secs: 0,
            broadcast: false,
            ciaddr: none,
            yiaddr: none,
            siaddr: none,
            giaddr: none,
            chaddr,
            options: Vec::new(),
        }
    }

    /// An answer to this message.
    pub(crate) fn reply(&self, kind: Kind) -> Self {
        let mut reply = Self {
            is_reply: true,
            hops: 0,
            broadcast: self.broadcast,
            giaddr: self.giaddr,
            ..Self::request(self.xid, self.chaddr)
        };
        reply.put(option::MESSAGE_TYPE, &[kind as u8]);
        reply
    }

    /// Reads a message, and its type.
    pub(crate) fn parse(bytes: &[u8]) -> Result<(Self, Kind), Malformed> {
        let (fixed, rest) = bytes.split_at_checked(FIXED).ok_or(Malformed::Short)?;
        let options = rest.strip_prefix(&COOKIE).ok_or(Malformed::Short)?;
        let [op, htype, hlen, hops, ..] = *fixed else { return Err(Malformed::Short) };
        if (htype, hlen) != (ETHERNET, 6) || !matches!(op, REQUEST | REPLY) {
            return Err(Malformed::Foreign);
        }
        let word =
            |at: usize| fixed.get(at..at + 4).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
        let half = |at: usize| {
            let bytes = fixed.get(at..at + 2).and_then(<[u8]>::first_chunk).copied();
            u16::from_be_bytes(bytes.unwrap_or_default())
        };
        let mut message = Self {
            is_reply: op == REPLY,
            hops,
            xid: u32::from_be_bytes(word(4)),
            secs: half(8),
            broadcast: half(10) & BROADCAST != 0,
            ciaddr: word(12).into(),
            yiaddr: word(16).into(),
            siaddr: word(20).into(),
            giaddr: word(24).into(),
            chaddr: Mac(fixed.get(28..34).and_then(<[u8]>::first_chunk).copied().unwrap_or_default()),
            options: Vec::new(),
        };
        message.read_options(options)?;
        let overload = message.get(option::OVERLOAD).and_then(|value| value.first().copied()).unwrap_or(0);
        for (bit, field) in [(1, FILE), (2, SNAME)] {
            if overload & bit != 0 {
                message.read_options(fixed.get(field).unwrap_or_default())?;
            }
        }
        let kind = message.get(option::MESSAGE_TYPE).unwrap_or_default();
        let kind = Kind::ALL.into_iter().find(|known| kind == [*known as u8]).ok_or(Malformed::Kind)?;
        Ok((message, kind))
    }

    fn read_options(&mut self, mut bytes: &[u8]) -> Result<(), Malformed> {
        while let Some((code, rest)) = bytes.split_first() {
            match *code {
                option::END => return Ok(()),
                option::PAD => bytes = rest,
                code => {
                    let (len, rest) = rest.split_first().ok_or(Malformed::Option)?;
                    let (value, rest) = rest.split_at_checked(usize::from(*len)).ok_or(Malformed::Option)?;
                    match self.options.iter_mut().find(|(known, _)| *known == code) {
                        Some((_, all)) => all.extend_from_slice(value),
                        None => self.options.push((code, value.to_vec())),
                    }
                    bytes = rest;
                }
            }
        }
        Ok(())
    }

    /// The bytes on the wire.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; FIXED];
        let op = if self.is_reply { REPLY } else { REQUEST };
        bytes[..4].copy_from_slice(&[op, ETHERNET, 6, self.hops]);
        bytes[4..8].copy_from_slice(&self.xid.to_be_bytes());
        bytes[8..10].copy_from_slice(&self.secs.to_be_bytes());
        bytes[10..12].copy_from_slice(&if self.broadcast { BROADCAST } else { 0 }.to_be_bytes());
        for (at, addr) in [(12, self.ciaddr), (16, self.yiaddr), (20, self.siaddr), (24, self.giaddr)] {
            bytes[at..at + 4].copy_from_slice(&addr.octets());
        }
        bytes[28..34].copy_from_slice(&self.chaddr.octets());
        bytes.extend(COOKIE);
        // The relay's own stands last (RFC 3046 §2.1).
        let (last, first): (Vec<_>, Vec<_>) =
            self.options.iter().partition(|(code, _)| *code == option::RELAY_AGENT);
        for (code, value) in first.into_iter().chain(last) {
            let parts = value.chunks(usize::from(u8::MAX));
            for part in parts.chain(value.is_empty().then_some(&[][..])) {
                bytes.extend([*code, u8::try_from(part.len()).unwrap_or(u8::MAX)]);
                bytes.extend(part);
            }
        }
        bytes.push(option::END);
        bytes.resize(bytes.len().max(LEN_MIN), option::PAD);
        bytes
    }

    /// Adds an option.
    pub(crate) fn put(&mut self, code: u8, value: &[u8]) {
        self.options.push((code, value.to_vec()));
    }

    /// An option's value.
    pub(crate) fn get(&self, code: u8) -> Option<&[u8]> {
        self.options.iter().find(|(known, _)| *known == code).map(|(_, value)| value.as_slice())
    }

    /// An option of one address.
    pub(crate) fn addr(&self, code: u8) -> Option<Ipv4Addr> {
        <[u8; 4]>::try_from(self.get(code)?).ok().map(Ipv4Addr::from)
    }

    /// An option of addresses.
    pub(crate) fn addrs(&self, code: u8) -> Vec<Ipv4Addr> {
        let (addrs, _) = self.get(code).unwrap_or_default().as_chunks::<4>();
        addrs.iter().copied().map(Ipv4Addr::from).collect()
    }

    /// An option of 32 bits.
    pub(crate) fn number(&self, code: u8) -> Option<u32> {
        self.get(code)?.try_into().ok().map(u32::from_be_bytes)
    }

    /// An option of text: what can be shown of it.
    pub(crate) fn text(&self, code: u8) -> Option<String> {
        let text = String::from_utf8_lossy(self.get(code)?);
        let plain: String = text.chars().filter(|c| c.is_ascii_graphic()).collect();
        Some(plain).filter(|text| !text.is_empty())
    }

    /// Classless routes, each with its router: 0.0.0.0 if the destination is on the link. `None` if there are none, or one breaks off
    /// (RFC 3442).
    pub(crate) fn routes(&self) -> Option<Vec<(Ipv4Net, Ipv4Addr)>> {
        let mut bytes = self.get(option::CLASSLESS_ROUTES)?;
        let mut routes = Vec::new();
        while let Some((len, rest)) = bytes.split_first() {
            let (significant, rest) = rest.split_at_checked(usize::from(len.div_ceil(8)))?;
            let (router, rest) = rest.split_first_chunk::<4>()?;
            let mut to = [0; 4];
            to.get_mut(..significant.len())?.copy_from_slice(significant);
            routes.push((Ipv4Net::new(to.into(), *len).ok()?.trunc(), (*router).into()));
            bytes = rest;
        }
        Some(routes)
    }

    /// The client: by its identifier, else by its link address.
    //= https://www.rfc-editor.org/rfc/rfc2131#section-4.2
    pub(crate) fn client(&self) -> Vec<u8> {
        match self.get(option::CLIENT_ID) {
            Some(id) if !id.is_empty() => id.to_vec(),
            _ => core::iter::once(ETHERNET).chain(self.chaddr.octets()).collect(),
        }
    }
}

/// The bytes of the option that says classless routes.
pub(crate) fn classless_routes(routes: &[(Ipv4Net, Ipv4Addr)]) -> Vec<u8> {
    let one = |(to, router): &(Ipv4Net, Ipv4Addr)| {
        let significant = usize::from(to.prefix_len().div_ceil(8));
        let to_octets = to.network().octets().into_iter().take(significant);
        core::iter::once(to.prefix_len()).chain(to_octets).chain(router.octets()).collect::<Vec<u8>>()
    };
    routes.iter().flat_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Message {
        let mut message = Message::request(0x1234_5678, Mac([2, 0, 0, 0, 0, 7]));
        message.put(option::MESSAGE_TYPE, &[1]);
        message.put(option::RELAY_AGENT, b"port");
        message.put(option::HOST_NAME, b"host");
        message.put(200, &[7; 600]);
        Message { broadcast: true, secs: 3, hops: 1, giaddr: [192, 0, 2, 1].into(), ..message }
    }

    #[test]
    fn a_message_survives_its_bytes_which_are_not_too_few_and_end_with_the_relays_option() {
        let mut message = full();
        let bytes = message.to_bytes();
        message.options.swap(1, 3);
        message.options.swap(1, 2);
        assert_eq!(Message::parse(&bytes), Ok((message, Kind::Discover)));
        assert!(bytes.ends_with(b"port\xff"));
        let mut short = Message::request(1, Mac::ZERO);
        short.put(option::MESSAGE_TYPE, &[8]);
        assert_eq!(short.to_bytes().len(), LEN_MIN);
    }

    #[test]
    fn classless_routes_survive_their_bytes_and_those_that_break_off_are_none() {
        let router = Ipv4Addr::new(192, 0, 2, 254);
        let routes: Vec<(Ipv4Net, Ipv4Addr)> =
            ["0.0.0.0/0", "10.0.0.0/8", "10.17.0.0/16", "10.229.0.128/25", "198.51.100.7/32"]
                .map(|net| (net.parse().unwrap(), router))
                .into();
        let bytes = classless_routes(&routes);
        // The example of RFC 3442 for 10.17.0.0/16 and 10.229.0.128/25.
        assert_eq!(bytes[11..18], [16, 10, 17, 192, 0, 2, 254]);
        assert_eq!(bytes[18..27], [25, 10, 229, 0, 128, 192, 0, 2, 254]);
        let ends = [0, 5, 11, 18, 27, 36];
        for cut in 0..=bytes.len() {
            let mut message = Message::request(1, Mac::ZERO);
            message.put(option::CLASSLESS_ROUTES, &bytes[..cut]);
            let count = ends.iter().position(|end| *end == cut);
            assert_eq!(message.routes(), count.map(|count| routes[..count].to_vec()), "{cut}");
        }
        let mut long = Message::request(1, Mac::ZERO);
        long.put(option::CLASSLESS_ROUTES, &[33, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!((long.routes(), Message::request(1, Mac::ZERO).routes()), (None, None));
    }

    #[test]
    fn options_in_the_fields_of_names_are_read_if_the_message_says_that_they_are_there() {
        let mut message = Message::request(1, Mac::ZERO);
        message.put(option::MESSAGE_TYPE, &[3]);
        message.put(option::OVERLOAD, &[3]);
        let mut bytes = message.to_bytes();
        bytes[108..116].copy_from_slice(&[12, 5, b'h', b'o', b's', b't', b's', 255]);
        bytes[44..51].copy_from_slice(&[54, 4, 192, 0, 2, 9, 255]);
        let (read, kind) = Message::parse(&bytes).unwrap();
        assert_eq!(kind, Kind::Request);
        assert_eq!(read.text(option::HOST_NAME).as_deref(), Some("hosts"));
        assert_eq!(read.addr(option::SERVER), Some([192, 0, 2, 9].into()));
    }

    #[test]
    fn any_bytes_are_read_or_refused_and_what_is_read_is_read_again() {
        let good = full().to_bytes();
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = |below: usize| {
            seed ^= seed >> 12;
            seed ^= seed << 25;
            seed ^= seed >> 27;
            usize::try_from(seed % below as u64).unwrap()
        };
        let mut read = 0;
        for round in 0..20_000 {
            let mut bytes = good.clone();
            for _ in 0..next(6) {
                let at = FIXED + next(40);
                bytes[at] = u8::try_from(next(256)).unwrap();
            }
            bytes.truncate(if round % 3 == 0 { next(bytes.len()) } else { bytes.len() });
            if let Ok((message, kind)) = Message::parse(&bytes) {
                read += 1;
                let again = Message::parse(&message.to_bytes());
                // Two fields may hold options, and are written as one.
                assert_eq!(again.map(|(_, kind)| kind), Ok(kind));
            }
        }
        assert!(read > 1000, "{read}");
        (0..good.len()).for_each(|cut| drop(Message::parse(&good[..cut])));
    }
}
