//! `vxlan:VNI,LOCAL[,REMOTE][,port=N]`.

use core::fmt;
use core::net::IpAddr;

use net::vxlan::{PORT, VNI_MAX};

use crate::config::problem::Wrong;

const GRAMMAR: &str = "write vxlan:VNI,LOCAL[,REMOTE][,port=N], as in vxlan:42,192.0.2.1,198.51.100.1 or \
                       vxlan:42,2001:db8::1,ff05::42";

/// Ethernet frames of a network identifier in UDP datagrams.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Vxlan {
    /// VXLAN network identifier.
    pub vni: u32,
    /// The outer address of this end.
    pub local: IpAddr,
    /// The remote end, or group, that gets what is flooded.
    pub remote: Option<IpAddr>,
    /// UDP port of both ends.
    pub port: u16,
}

impl Vxlan {
    pub(super) fn parse(rest: &str) -> Result<Self, Wrong> {
        let wrong = |message: String| Wrong::new(message, GRAMMAR);
        let mut words = rest.split(',');
        let vni = words.next().unwrap_or_default();
        let vni = vni.parse().ok().filter(|vni| *vni <= VNI_MAX).ok_or_else(|| {
            Wrong::new(format!("`{vni}` is no VXLAN network identifier"), format!("use 0 to {VNI_MAX}"))
        })?;
        let local = words.next().ok_or_else(|| wrong(format!("`vxlan:{rest}` has no local address")))?;
        let local = end(local)?;
        if local.is_multicast() {
            return Err(wrong(format!("{local} is a group, which cannot be the local address")));
        }
        let mut vxlan = Self { vni, local, remote: None, port: PORT };
        for (at, word) in words.enumerate() {
            match word.split_once('=') {
                Some(("port", port)) => {
                    let port = port.parse().ok().filter(|port| *port > 0);
                    vxlan.port =
                        port.ok_or_else(|| Wrong::new(format!("`{word}` is no port"), "use 1 to 65535"))?;
                }
                None if at == 0 => vxlan.remote = Some(end(word)?),
                _ => return Err(wrong(format!("unknown option `{word}` of vxlan"))),
            }
        }
        match vxlan.remote {
            Some(remote) if remote.is_ipv4() != local.is_ipv4() => {
                Err(wrong(format!("{local} and {remote} are of two address families")))
            }
            Some(remote) if remote == local => Err(wrong(format!("both ends of the VXLAN are {local}"))),
            _ => Ok(vxlan),
        }
    }

    /// Returns the VXLAN as the netisrs want it.
    pub(crate) const fn to_net(&self) -> net::vxlan::Vxlan {
        net::vxlan::Vxlan { vni: self.vni, local: self.local, remote: self.remote, port: self.port }
    }
}

/// An outer address, or a group.
pub(crate) fn end(text: &str) -> Result<IpAddr, Wrong> {
    match text.parse::<IpAddr>() {
        Ok(addr) if addr.is_unspecified() || addr.is_loopback() => {
            Err(Wrong::new(format!("{addr} cannot be the end of a VXLAN"), GRAMMAR))
        }
        Ok(addr) => Ok(addr),
        Err(_) => Err(Wrong::new(format!("`{text}` is no address"), GRAMMAR)),
    }
}

impl fmt::Display for Vxlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { vni, local, remote, port } = self;
        write!(f, "vxlan:{vni},{local}")?;
        if let Some(remote) = remote {
            write!(f, ",{remote}")?;
        }
        if *port == PORT { Ok(()) } else { write!(f, ",port={port}") }
    }
}
