//! `gif:LOCAL,REMOTE`.

use core::fmt;
use core::net::IpAddr;

use net::tunnel::Encap;

use crate::config::problem::Wrong;

const GRAMMAR: &str =
    "write gif:LOCAL,REMOTE, as in gif:192.0.2.1,198.51.100.1 or gif:2001:db8::1,2001:db8:1::1";

/// Packets between two addresses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tunnel {
    /// The outer address of this end.
    pub local: IpAddr,
    /// The outer address of the other end.
    pub remote: IpAddr,
}

impl Tunnel {
    pub(super) fn parse(rest: &str) -> Result<Self, Wrong> {
        let wrong = |message: String| Wrong::new(message, GRAMMAR);
        let Some((local, remote)) = rest.split_once(',') else {
            return Err(wrong(format!("`gif:{rest}` names no other end")));
        };
        let end = |text: &str| match text.parse::<IpAddr>() {
            Ok(addr) if addr.is_unspecified() || addr.is_multicast() || addr.is_loopback() => {
                Err(wrong(format!("{addr} cannot be the end of a tunnel")))
            }
            Ok(addr) => Ok(addr),
            Err(_) => Err(wrong(format!("`{text}` is no address"))),
        };
        let (local, remote) = (end(local)?, end(remote)?);
        if local.is_ipv4() != remote.is_ipv4() {
            return Err(wrong(format!("{local} and {remote} are of two address families")));
        }
        if local == remote {
            return Err(wrong(format!("both ends of the tunnel are {local}")));
        }
        Ok(Self { local, remote })
    }

    /// Returns the tunnel as the netisrs want it.
    pub(crate) const fn to_net(&self) -> net::tunnel::Tunnel {
        net::tunnel::Tunnel { local: self.local, remote: self.remote, encap: Encap::Ip }
    }
}

impl fmt::Display for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gif:{},{}", self.local, self.remote)
    }
}
