//! Addresses of interfaces.

use ipnet::IpNet;

use super::message::{Message, attr, ip, u32_at};
use super::{NetlinkError, Rtnetlink};

/// An address on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Address {
    /// The interface.
    pub ifindex: u32,
    /// The address with the prefix it is in.
    pub net: IpNet,
    /// IPv6: duplicate address detection has not ended, so that the kernel does not use it yet.
    pub tentative: bool,
}

impl Rtnetlink {
    /// Adds an address; for IPv6 without duplicate address detection, so that it may be used at once.
    ///
    /// # Errors
    /// [`NetlinkError::NoSuchLink`], [`NetlinkError::Exists`].
    pub fn add_address(&mut self, link: &str, net: IpNet) -> Result<(), NetlinkError> {
        self.new_address(link, net, libc::IFA_F_NODAD)
    }

    /// Adds an address as an operator would: IPv6 ones are tentative for a second or two.
    ///
    /// # Errors
    /// [`NetlinkError::NoSuchLink`], [`NetlinkError::Exists`].
    pub fn add_address_with_dad(&mut self, link: &str, net: IpNet) -> Result<(), NetlinkError> {
        self.new_address(link, net, 0)
    }

    /// Removes an address.
    ///
    /// # Errors
    /// [`NetlinkError::NoSuchLink`]; [`NetlinkError::Refused`] if the address is not there.
    pub fn delete_address(&mut self, link: &str, net: IpNet) -> Result<(), NetlinkError> {
        let index = self.link(link)?.index;
        let ask = Message::new(libc::RTM_DELADDR, libc::NLM_F_ACK, &ifaddr(net, index))
            .ip(libc::IFA_LOCAL, net.addr());
        self.request(ask, || format!("remove {net} from {link}"))
    }

    /// All addresses of the namespace.
    ///
    /// # Errors
    /// [`NetlinkError`].
    pub fn addresses(&mut self) -> Result<Vec<Address>, NetlinkError> {
        let mut found = Vec::new();
        let ask = Message::new(libc::RTM_GETADDR, libc::NLM_F_DUMP, &[0; IFADDR]);
        self.dump(ask, "list addresses", |body| found.extend(parse(body)))?;
        Ok(found)
    }

    fn new_address(&mut self, link: &str, net: IpNet, flags: u32) -> Result<(), NetlinkError> {
        let index = self.link(link)?.index;
        let how = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let ask = Message::new(libc::RTM_NEWADDR, how, &ifaddr(net, index))
            .ip(libc::IFA_LOCAL, net.addr())
            .ip(libc::IFA_ADDRESS, net.addr())
            .u32(libc::IFA_FLAGS, flags);
        let ask = match net {
            IpNet::V4(v4) if v4.prefix_len() < 31 => ask.ip(libc::IFA_BROADCAST, v4.broadcast().into()),
            _ => ask,
        };
        self.request(ask, || format!("add {net} to {link}"))
    }
}

/// `struct ifaddrmsg`: family, prefix length, flags, scope, index.
fn ifaddr(net: IpNet, index: u32) -> [u8; IFADDR] {
    let mut bytes = [super::route::family(net.addr()), net.prefix_len(), 0, 0, 0, 0, 0, 0];
    bytes[4..].copy_from_slice(&index.to_ne_bytes());
    bytes
}

fn parse(body: &[u8]) -> Option<Address> {
    let rest = body.get(IFADDR..)?;
    // On a point-to-point link IFA_ADDRESS is the peer; the local one is in IFA_LOCAL, which IPv6 may omit.
    let addr = attr(rest, libc::IFA_LOCAL).or_else(|| attr(rest, libc::IFA_ADDRESS)).and_then(ip)?;
    let flags = attr(rest, libc::IFA_FLAGS).and_then(|v| u32_at(v, 0)).unwrap_or_else(|| u32::from(body[2]));
    Some(Address {
        ifindex: u32_at(body, 4)?,
        net: IpNet::new(addr, *body.get(1)?).ok()?,
        tentative: flags & libc::IFA_F_TENTATIVE != 0,
    })
}

/// Length of `struct ifaddrmsg`.
const IFADDR: usize = 8;
