//! Messages of DHCPv6 that are sent. Those that come are read by [`wire::dhcp6`].

use core::net::Ipv6Addr;

use ipnet::Ipv6Net;
use wire::dhcp6::{Kind, option};

/// A message, or a part of one, that grows by options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Builder(Vec<u8>);

impl Builder {
    /// Begins a message between a client and a server.
    pub(crate) fn new(kind: Kind, xid: u32) -> Self {
        let [_, a, b, c] = xid.to_be_bytes();
        Self(vec![kind as u8, a, b, c])
    }

    /// Begins a message of a relay.
    pub(crate) fn relay(kind: Kind, hops: u8, link: Ipv6Addr, peer: Ipv6Addr) -> Self {
        Self([&[kind as u8, hops][..], &link.octets(), &peer.octets()].concat())
    }

    /// Adds an option; one that is too long for its length field is left out.
    #[must_use]
    pub(crate) fn with(mut self, code: u16, value: &[u8]) -> Self {
        if let Ok(len) = u16::try_from(value.len()) {
            self.0.extend(code.to_be_bytes().into_iter().chain(len.to_be_bytes()));
            self.0.extend(value);
        }
        self
    }

    /// Adds an option if there is a value for it.
    #[must_use]
    pub(crate) fn with_some(self, code: u16, value: &[u8]) -> Self {
        if value.is_empty() { self } else { self.with(code, value) }
    }

    /// Adds a list of addresses, if there are any.
    #[must_use]
    pub(crate) fn with_addrs(self, code: u16, addrs: &[Ipv6Addr]) -> Self {
        let bytes: Vec<u8> = addrs.iter().flat_map(Ipv6Addr::octets).collect();
        self.with_some(code, &bytes)
    }

    /// Adds an identity association with these addresses or prefixes, by their first address and length.
    #[must_use]
    pub(crate) fn with_association(self, code: u16, iaid: u32, leased: &[(Ipv6Addr, u8)]) -> Self {
        let mut fixed = [0; 12];
        fixed[..4].copy_from_slice(&iaid.to_be_bytes());
        let ia = leased.iter().fold(Self(fixed.into()), |ia, (addr, len)| {
            // Lifetimes of zero leave them to the server.
            if code == option::IA_NA {
                ia.with(option::IA_ADDR, &[&addr.octets()[..], &[0; 8]].concat())
            } else {
                ia.with(option::IA_PREFIX, &[&[0; 8][..], &[*len], &addr.octets()].concat())
            }
        });
        self.with(code, &ia.0)
    }

    /// Adds an identity association with delegated prefixes, and their preferred and valid lifetimes in seconds.
    #[must_use]
    pub(crate) fn with_delegated(self, iaid: u32, prefixes: &[(Ipv6Net, [u32; 2])]) -> Self {
        let shortest =
            prefixes.iter().map(|(_, [preferred, _])| *preferred).filter(|seconds| *seconds > 0).min();
        //= https://www.rfc-editor.org/rfc/rfc8415#section-21.21
        let (renew, rebind) = shortest.map_or((0, 0), |seconds| (seconds / 2, seconds / 5 * 4));
        let fixed = [iaid, renew, rebind].map(u32::to_be_bytes).concat();
        let ia = prefixes.iter().fold(Self(fixed), |ia, (net, lifetimes)| {
            let lifetimes = lifetimes.map(u32::to_be_bytes).concat();
            ia.with(
                option::IA_PREFIX,
                &[&lifetimes[..], &[net.prefix_len()], &net.network().octets()].concat(),
            )
        });
        self.with(option::IA_PD, &ia.0)
    }

    /// Adds an identity association that has nothing but a status.
    #[must_use]
    pub(crate) fn with_refusal(self, code: u16, iaid: u32, status: u16, why: &str) -> Self {
        let fixed = [iaid, 0, 0].map(u32::to_be_bytes).concat();
        self.with(code, &Self(fixed).with_status(status, why).0)
    }

    /// Adds a status.
    #[must_use]
    pub(crate) fn with_status(self, status: u16, why: &str) -> Self {
        self.with(option::STATUS, &[&status.to_be_bytes()[..], why.as_bytes()].concat())
    }

    /// The bytes on the wire.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}
