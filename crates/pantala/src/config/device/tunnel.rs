//! `gif:LOCAL,REMOTE` and `gre:LOCAL,REMOTE[,key=N]`.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use net::tunnel::Encap;

use crate::config::problem::Wrong;

const GIF: &str = "write gif:LOCAL,REMOTE, as in gif:192.0.2.1,198.51.100.1 or gif:2001:db8::1,2001:db8:1::1";
const GRE: &str =
    "write gre:LOCAL,REMOTE[,key=N], as in gre:192.0.2.1,198.51.100.1 or gre:2001:db8::1,2001:db8:1::1,key=7";

/// Packets between two addresses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tunnel {
    /// The outer address of this end.
    pub local: IpAddr,
    /// The outer address of the other end, or the prefix of several: only one of a whole address takes packets to send.
    pub remote: IpNet,
    /// GRE with this key, or none; without GRE, packets are carried as they are.
    pub gre: Option<Option<u32>>,
}

impl Tunnel {
    /// Parses what stands behind `gif:`.
    pub(super) fn parse(rest: &str) -> Result<Self, Wrong> {
        Self::ends(rest, "gif", GIF)
    }

    /// Parses what stands behind `gre:`.
    pub(super) fn parse_gre(rest: &str) -> Result<Self, Wrong> {
        let (ends, key) = match rest.rsplit_once(",key=") {
            None => (rest, None),
            Some((ends, text)) => match text.parse::<u32>() {
                Ok(key) => (ends, Some(key)),
                Err(_) => return Err(Wrong::new(format!("`{text}` is no key from 0 to {}", u32::MAX), GRE)),
            },
        };
        Ok(Self { gre: Some(key), ..Self::ends(ends, "gre", GRE)? })
    }

    fn ends(rest: &str, word: &str, grammar: &'static str) -> Result<Self, Wrong> {
        let wrong = |message: String| Wrong::new(message, grammar);
        let Some((local, remote)) = rest.split_once(',') else {
            return Err(wrong(format!("`{word}:{rest}` names no other end")));
        };
        let end = |text: &str| match text.parse::<IpAddr>() {
            Ok(addr) if addr.is_unspecified() || addr.is_multicast() || addr.is_loopback() => {
                Err(wrong(format!("{addr} cannot be the end of a tunnel")))
            }
            Ok(addr) => Ok(addr),
            Err(_) => Err(wrong(format!("`{text}` is no address"))),
        };
        let local = end(local)?;
        let remote = match (remote, remote.contains('/')) {
            ("any", _) if local.is_ipv4() => IpNet::new_assert(Ipv4Addr::UNSPECIFIED.into(), 0),
            ("any", _) => IpNet::new_assert(Ipv6Addr::UNSPECIFIED.into(), 0),
            (text, true) => match text.parse::<IpNet>() {
                Ok(net) => net.trunc(),
                Err(_) => return Err(wrong(format!("`{text}` is no prefix"))),
            },
            (text, false) => IpNet::from(end(text)?),
        };
        if local.is_ipv4() != remote.addr().is_ipv4() {
            return Err(wrong(format!("{local} and {} are of two address families", remote.addr())));
        }
        if IpNet::from(local) == remote {
            return Err(wrong(format!("both ends of the tunnel are {local}")));
        }
        Ok(Self { local, remote, gre: None })
    }

    /// The driver's word: `gif` or `gre`.
    pub(super) const fn word(&self) -> &'static str {
        if self.gre.is_some() { "gre" } else { "gif" }
    }

    /// Returns the tunnel as the netisrs want it.
    pub(crate) fn to_net(&self) -> net::tunnel::Tunnel {
        let encap = match self.gre {
            None => Encap::Ip,
            Some(key) => Encap::Gre { key },
        };
        net::tunnel::Tunnel {
            local: self.local,
            remote: self.remote.addr(),
            remote_len: self.remote.prefix_len(),
            encap,
        }
    }
}

impl fmt::Display for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{},", self.word(), self.local)?;
        match self.remote.prefix_len() {
            0 => f.write_str("any")?,
            len if len == self.remote.max_prefix_len() => write!(f, "{}", self.remote.addr())?,
            _ => write!(f, "{}", self.remote)?,
        }
        self.gre.flatten().map_or(Ok(()), |key| write!(f, ",key={key}"))
    }
}
