//! Devices that several words describe: bridges, VXLANs, the key of a GRE tunnel.

use core::net::IpAddr;

use super::{Reader, Seen};

/// The words of a VXLAN.
#[derive(Default)]
pub(super) struct Vxlan {
    id: Option<u32>,
    local: Option<IpAddr>,
    remote: Option<IpAddr>,
    port: Option<u16>,
}

impl Reader<'_> {
    /// Reads a word about a VXLAN; false if it is none.
    pub(super) fn vxlan(&mut self, word: &str) -> Result<bool, String> {
        match word {
            "vxlanid" => self.seen.vxlan.id = Some(self.number(word, "the identifier of a VXLAN")?),
            "vxlanlocal" => self.seen.vxlan.local = Some(self.number(word, "an address")?),
            "vxlanremote" => self.seen.vxlan.remote = Some(self.number(word, "an address")?),
            "vxlangroup" => {
                let group: IpAddr = self.number(word, "a multicast address")?;
                if !group.is_multicast() {
                    return Err(format!("{group} is no multicast address"));
                }
                self.seen.vxlan.remote = Some(group);
            }
            "vxlanport" | "vxlanlocalport" | "vxlanremoteport" => {
                self.seen.vxlan.port = Some(self.number(word, "a port")?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The device that words of a bridge or VXLAN describe, or a key gives to a tunnel.
    pub(super) fn of_parts(&self) -> Result<Option<String>, String> {
        let Seen { device, vxlan, members, gre_key, .. } = &self.seen;
        let vxlan = vxlan.device()?;
        match (vxlan, &**members, gre_key) {
            (Some(device), [], None) => Ok(Some(device)),
            (None, [], None) => Ok(None),
            (None, [], Some(key)) => match device.as_deref().filter(|device| device.starts_with("gre:")) {
                Some(_) => Ok(None),
                None => Err(format!("`grekey {key}` needs both ends of a GRE tunnel: `tunnel LOCAL REMOTE`")),
            },
            (None, members, None) => Ok(Some(format!("bridge:{}", members.join(",")))),
            _ => Err("an interface has one device".to_owned()),
        }
    }
}

impl Vxlan {
    fn device(&self) -> Result<Option<String>, String> {
        let Self { id, local, remote, port } = self;
        let (id, local) = match (id, local) {
            (Some(id), Some(local)) => (id, local),
            (None, None) if remote.is_none() && port.is_none() => return Ok(None),
            _ => return Err("a VXLAN needs both: `vxlanid N vxlanlocal ADDRESS`".to_owned()),
        };
        let remote = remote.map(|remote| format!(",{remote}")).unwrap_or_default();
        let port = port.map(|port| format!(",port={port}")).unwrap_or_default();
        Ok(Some(format!("vxlan:{id},{local}{remote}{port}")))
    }
}
