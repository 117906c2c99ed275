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

/// The words of a PPPoE session, as OpenBSD's ifconfig(8) has them.
#[derive(Default)]
pub(super) struct Pppoe {
    parent: Option<String>,
    service: Option<String>,
    ac: Option<String>,
}

impl Reader<'_> {
    /// Reads a word about a PPPoE session; false if it is none.
    pub(super) fn pppoe(&mut self, word: &str) -> Result<bool, String> {
        let key = match word {
            "pppoedev" => {
                self.seen.pppoe.parent = Some(self.value(word, "an interface")?.to_owned());
                return Ok(true);
            }
            "pppoesvc" => {
                self.seen.pppoe.service = Some(self.value(word, "the name of a service")?.to_owned());
                return Ok(true);
            }
            "pppoeac" => {
                self.seen.pppoe.ac = Some(self.value(word, "the name of an access concentrator")?.to_owned());
                return Ok(true);
            }
            "authname" => "ppp.user",
            "authkey" => "ppp.password",
            "authproto" => "ppp.auth",
            _ => return Ok(false),
        };
        let value = self.value(word, "a value")?.to_owned();
        self.set(key, value);
        Ok(true)
    }

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
        let Seen { device, vxlan, pppoe, members, gre_key, .. } = &self.seen;
        if let Some(session) = pppoe.device()? {
            let is_alone = vxlan.device()?.is_none() && members.is_empty() && gre_key.is_none();
            return if is_alone { Ok(Some(session)) } else { Err("an interface has one device".to_owned()) };
        }
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

impl Pppoe {
    fn device(&self) -> Result<Option<String>, String> {
        let Self { parent, service, ac } = self;
        let Some(parent) = parent else {
            let is_empty = service.is_none() && ac.is_none();
            return if is_empty {
                Ok(None)
            } else {
                Err("a PPPoE session needs `pppoedev INTERFACE`".to_owned())
            };
        };
        let option =
            |key: &str, value: &Option<String>| value.as_ref().map(|value| format!(",{key}={value}"));
        let (service, ac) = (option("service", service), option("ac", ac));
        Ok(Some(format!("pppoe:{parent}{}{}", service.unwrap_or_default(), ac.unwrap_or_default())))
    }
}
