//! Options of IPCP: both addresses (RFC 1332 §3.3), and name servers (RFC 1877 §1).

use core::net::Ipv4Addr;

use wire::ppp::{Options, ipcp};

use super::automaton::{Protocol, Verdict, option};

/// Both sides of IPCP.
#[derive(Clone, Debug)]
pub(crate) struct Ipcp {
    /// Our address; 0.0.0.0 until the peer has given one.
    pub(crate) addr: Ipv4Addr,
    /// That of the peer, if it tells.
    pub(crate) peer: Option<Ipv4Addr>,
    /// Name servers, by their options; those that the peer rejects are not asked for.
    dns: Vec<(u8, Ipv4Addr)>,
}

impl Ipcp {
    pub(crate) fn new(asks_for_dns: bool) -> Self {
        let dns = [ipcp::DNS1, ipcp::DNS2].map(|kind| (kind, Ipv4Addr::UNSPECIFIED));
        let dns = if asks_for_dns { dns.to_vec() } else { Vec::new() };
        Self { addr: Ipv4Addr::UNSPECIFIED, peer: None, dns }
    }

    /// Name servers that the peer has told of.
    pub(crate) fn servers(&self) -> Vec<Ipv4Addr> {
        let mut all: Vec<_> = self.dns.iter().map(|(_, addr)| *addr).filter(|addr| is_host(*addr)).collect();
        all.dedup();
        all
    }
}

/// Whether it can be the address of a host.
pub(crate) fn is_host(addr: Ipv4Addr) -> bool {
    !(addr.octets()[0] == 0 || addr.is_loopback() || addr.octets()[0] >= 224)
}

fn read(value: &[u8]) -> Option<Ipv4Addr> {
    <[u8; 4]>::try_from(value).ok().map(Ipv4Addr::from)
}

impl Protocol for Ipcp {
    fn wanted(&self) -> Vec<u8> {
        let dns = self.dns.iter().flat_map(|(kind, addr)| option(*kind, &addr.octets()));
        option(ipcp::ADDRESS, &self.addr.octets()).into_iter().chain(dns).collect()
    }

    fn judge(&mut self, options: Options<'_>) -> Verdict {
        let mut reject = Vec::new();
        let mut peer = None;
        for (kind, value) in options.iter() {
            match read(value) {
                // We have none to give.
                Some(addr) if kind == ipcp::ADDRESS && is_host(addr) => peer = Some(addr),
                _ => reject.extend(option(kind, value)),
            }
        }
        if !reject.is_empty() {
            return Verdict::Reject(reject);
        }
        self.peer = peer;
        Verdict::Ack
    }

    fn nak(&mut self, options: Options<'_>) -> bool {
        for (kind, value) in options.iter() {
            let Some(addr) = read(value) else { return false };
            if kind == ipcp::ADDRESS {
                if !is_host(addr) {
                    return false;
                }
                self.addr = addr;
            }
            self.dns.iter_mut().filter(|(known, _)| *known == kind).for_each(|(_, own)| *own = addr);
        }
        true
    }

    fn reject(&mut self, options: Options<'_>) -> bool {
        self.dns.retain(|(kind, _)| options.get(*kind).is_none());
        options.get(ipcp::ADDRESS).is_none()
    }
}
