//! The header of a datagram on a pair: its peer, and what control messages say of it.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::{ADDR_LEN, Put, Take};

/// Bytes of a header.
pub const HEAD_LEN: usize = ADDR_LEN + 1 + 1 + 1 + 1 + 4 + 17 + 4;

/// The program has received this datagram and not read it.
const RETURNED: u8 = 0x80;

/// The header of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The sender, or the receiver of one that is sent.
    pub peer: SocketAddr,
    /// The program gives it back, since its socket is about to get another pair.
    pub is_returned: bool,
    /// The control messages that the program wants, or has sent.
    pub details: Details,
    /// Time to live, or hop limit.
    pub hops: u8,
    /// Type of service, or traffic class.
    pub class: u8,
    /// The number of the interface that it came by, or is to leave by; 0: none is named.
    pub interface: u32,
    /// The address of this host that it was sent to, or is sent from; unspecified: none is named.
    pub local: IpAddr,
    /// Why an earlier datagram did not arrive: there is none behind this header then, and the daemon knows more.
    pub error: i32,
}

/// Parts of a header that control messages are about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// [`Head::local`] and [`Head::interface`].
    pub local: bool,
    /// [`Head::hops`].
    pub hops: bool,
    /// [`Head::class`].
    pub class: bool,
}

impl Details {
    const fn bits(self) -> u8 {
        self.local as u8 | (self.hops as u8) << 1 | (self.class as u8) << 2
    }

    const fn of(bits: u8) -> Self {
        Self { local: bits & 1 != 0, hops: bits & 2 != 0, class: bits & 4 != 0 }
    }

    /// Whether there are any.
    #[must_use]
    pub const fn any(self) -> bool {
        self.bits() != 0
    }
}

impl Head {
    /// A header that says nothing but the peer.
    #[must_use]
    pub const fn of(peer: SocketAddr) -> Self {
        Self {
            peer,
            is_returned: false,
            details: Details { local: false, hops: false, class: false },
            hops: 0,
            class: 0,
            interface: 0,
            local: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            error: 0,
        }
    }

    /// Writes a header.
    #[must_use]
    pub fn emit(&self) -> [u8; HEAD_LEN] {
        let Self { peer, is_returned, details, hops, class, interface, local, error } = *self;
        let put = Put::<HEAD_LEN>::default().addr(peer).byte(if is_returned { RETURNED } else { 0 });
        let put = put.byte(details.bits()).byte(hops).byte(class).bytes(&interface.to_be_bytes());
        put.ip(local).bytes(&error.to_be_bytes()).bytes
    }

    /// Reads a header; `None` if it is none.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut take = Take(bytes);
        Some(Self {
            peer: take.addr()?,
            is_returned: take.byte()? == RETURNED,
            details: Details::of(take.byte()?),
            hops: take.byte()?,
            class: take.byte()?,
            interface: u32::from_be_bytes(take.array()?),
            local: take.ip()?,
            error: i32::from_be_bytes(take.array()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_header_is_read_as_it_was_written(
            ip: [u8; 16], port: u16, four: [u8; 4], is_returned: bool, bits in 0_u8..8, hops: u8, interface: u32, error: i32,
        ) {
            for (peer, local) in [(IpAddr::from(ip), IpAddr::from(four)), (four.into(), ip.into())] {
                let peer = SocketAddr::new(peer, port);
                let details = Details::of(bits);
                let head = Head { is_returned, details, hops, class: !hops, interface, local, error, ..Head::of(peer) };
                prop_assert_eq!(Head::parse(&head.emit()), Some(head));
            }
        }

        #[test]
        fn any_bytes_are_a_header_or_none(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(head) = Head::parse(&bytes) {
                prop_assert_eq!(Head::parse(&head.emit()), Some(head));
            }
        }
    }
}
