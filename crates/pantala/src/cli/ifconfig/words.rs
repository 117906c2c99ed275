//! The words that change an interface, in BSD's grammar.

use core::net::IpAddr;

use ipnet::IpNet;

use self::devices::{Pppoe, Vxlan};
use crate::api::{ConfigEdit, InterfaceChange};
use diagnostic::nearest;
use wire::ether::Mac;

mod bridge;
mod devices;

/// Words behind the name of an interface.
pub(super) const WORDS: &[&str] = &[
    "up",
    "down",
    "monitor",
    "-monitor",
    "create",
    "destroy",
    "inet",
    "inet6",
    "alias",
    "-alias",
    "delete",
    "mtu",
    "ether",
    "lladdr",
    "vlan",
    "vlandev",
    "vlanproto",
    "vlanpcp",
    "metric",
    "fib",
    "pppoedev",
    "pppoesvc",
    "pppoeac",
    "authname",
    "authkey",
    "authproto",
    "tunnel",
    "device",
    "netmask",
    "prefixlen",
    "description",
    "-description",
    "grekey",
    "vxlanid",
    "vxlanlocal",
    "vxlanremote",
    "vxlangroup",
    "vxlanport",
    "addm",
    "deletem",
    "private",
    "-private",
    "span",
    "-span",
    "static",
    "deladdr",
    "flush",
    "flushall",
    "addr",
    "maxaddr",
    "timeout",
    "storm",
    "stp",
    "-stp",
    "proto",
    "priority",
    "hellotime",
    "maxage",
    "fwddelay",
    "holdcnt",
    "ifpriority",
    "ifpathcost",
    "edge",
    "-edge",
    "autoedge",
    "-autoedge",
    "ptp",
    "-ptp",
];
/// Words of BSD that have no meaning here, and what to use.
const FOREIGN: &[(&str, &str)] = &[
    ("media", "`ethtool` sets it on the device"),
    ("promisc", "a bridge and `tcpdump` set it as they need it"),
    ("arp", "neighbours are always resolved"),
    ("-arp", "neighbours are always resolved"),
    ("rxcsum", "`rxcsum` in the configuration file"),
    ("group", "name several interfaces in the rules: `{ recv a or recv b }`"),
    ("deletetunnel", "`destroy` the tunnel"),
    ("name", "`destroy` the interface and create another"),
];

/// Changes of one command line, made together.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// Edits of the running configuration.
    pub(super) edits: Vec<ConfigEdit>,
    /// Changes of the interface's state.
    pub(super) state: InterfaceChange,
    /// Learnt link addresses to be forgotten.
    pub(super) stations: Vec<Forget>,
    /// Link addresses are shown, and nothing is changed.
    pub(super) lists_stations: bool,
}

/// Learnt link addresses to be forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Forget {
    /// All of the interface.
    All,
    /// One, also if it is static.
    One(Mac),
}

/// Reads the words behind the name of an interface.
pub(super) fn read(interface: &str, words: &[String]) -> Result<Changes, String> {
    let mut reader =
        Reader { interface, words: words.iter(), seen: Seen::default(), changes: Changes::default() };
    while let Some(word) = reader.words.next() {
        reader.word(word)?;
    }
    reader.finish()
}

/// Parts of a device that several words give.
#[derive(Default)]
struct Seen {
    creates: bool,
    device: Option<String>,
    vlan: Option<u16>,
    parent: Option<String>,
    is_qinq: bool,
    members: Vec<String>,
    vxlan: Vxlan,
    pppoe: Pppoe,
    gre_key: Option<u32>,
}

struct Reader<'w> {
    interface: &'w str,
    words: core::slice::Iter<'w, String>,
    seen: Seen,
    changes: Changes,
}

impl<'w> Reader<'w> {
    fn word(&mut self, word: &'w str) -> Result<(), String> {
        match word {
            "up" => self.changes.state.up = Some(true),
            "down" => self.changes.state.up = Some(false),
            "monitor" => self.changes.state.monitor = Some(true),
            "-monitor" => self.changes.state.monitor = Some(false),
            "create" | "plumb" => self.seen.creates = true,
            "destroy" | "unplumb" => {
                let interface = self.interface.to_owned();
                self.changes.edits.push(ConfigEdit::Destroy { interface });
            }
            "device" => {
                self.seen.device =
                    Some(self.value("device", "a device, as in the configuration file")?.to_owned())
            }
            "vlan" => self.seen.vlan = Some(self.number("vlan", "a VLAN identifier")?),
            "vlandev" => self.seen.parent = Some(self.value("vlandev", "an interface")?.to_owned()),
            "vlanproto" => self.seen.is_qinq = is_qinq(self.value("vlanproto", "802.1q or 802.1ad")?)?,
            "tunnel" => self.tunnel()?,
            "vlanpcp" | "metric" | "mtu" | "fib" => self.set_number(word)?,
            "ether" | "lladdr" | "link" => self.set_mac(word)?,
            "inet" => self.address(true)?,
            "inet6" => self.address(false)?,
            "grekey" => self.seen.gre_key = Some(self.number("grekey", "a key")?),
            "description" | "descr" => {
                let text = self.value(word, "a text")?.to_owned();
                self.set("description", text);
            }
            "-description" | "-descr" => self.unset("description"),
            word if self.vxlan(word)? || self.pppoe(word)? || self.bridge(word)? => {}
            word if word.parse::<IpNet>().is_ok() || word.parse::<IpAddr>().is_ok() => {
                self.address_is(word)?
            }
            word => return Err(unknown(word)),
        }
        Ok(())
    }

    fn value(&mut self, word: &str, what: &str) -> Result<&'w str, String> {
        self.words.next().map(String::as_str).ok_or_else(|| format!("`{word}` needs {what} behind it"))
    }

    fn number<T: core::str::FromStr>(&mut self, word: &str, what: &str) -> Result<T, String> {
        let text = self.value(word, what)?;
        text.parse().map_err(|_| format!("`{text}` is not {what}"))
    }

    fn set(&mut self, key: &str, value: String) {
        let interface = self.interface.to_owned();
        self.changes.edits.push(ConfigEdit::Set { interface, key: key.to_owned(), value });
    }

    fn set_number(&mut self, word: &str) -> Result<(), String> {
        let number: u32 = self.number(word, "a number")?;
        self.set(word, number.to_string());
        Ok(())
    }

    fn set_mac(&mut self, word: &str) -> Result<(), String> {
        let text = self.value(word, "an Ethernet address")?;
        let mac: Mac = text.parse().map_err(|_| format!("`{text}` is not an Ethernet address"))?;
        self.set("mac", mac.to_string());
        Ok(())
    }

    fn unset(&mut self, key: &str) {
        let interface = self.interface.to_owned();
        self.changes.edits.push(ConfigEdit::Unset { interface, key: key.to_owned() });
    }

    fn tunnel(&mut self) -> Result<(), String> {
        let what = "the local and the remote address";
        let local: IpAddr = self.number("tunnel", what)?;
        let remote: IpAddr = self.number("tunnel", what)?;
        let has_key = self.seen.gre_key.is_some() || self.words.clone().any(|word| word == "grekey");
        let is_gre = has_key || self.interface.starts_with("gre");
        let kind = if is_gre { "gre" } else { "gif" };
        self.seen.device = Some(format!("{kind}:{local},{remote}"));
        Ok(())
    }

    fn address(&mut self, is_ip4: bool) -> Result<(), String> {
        let family = if is_ip4 { "inet" } else { "inet6" };
        let text = self.value(family, "an address")?;
        let is_other = text
            .split('/')
            .next()
            .and_then(|ip| ip.parse::<IpAddr>().ok())
            .is_some_and(|ip| ip.is_ipv4() != is_ip4);
        if is_other {
            return Err(format!("`{text}` is not an address of the family {family}"));
        }
        self.address_is(text)
    }

    /// An address, the words that give its length, and whether it comes or goes.
    fn address_is(&mut self, text: &str) -> Result<(), String> {
        let mut length = None;
        let mut action = "";
        while let Some(next) = self.words.as_slice().first() {
            match next.as_str() {
                "netmask" | "prefixlen" => {
                    self.words.next();
                    let text = self.value(next, "the length of the prefix")?;
                    length = Some(prefix_len(text)?);
                }
                word @ ("alias" | "add" | "-alias" | "delete" | "remove") => {
                    self.words.next();
                    action = word;
                }
                _ => break,
            }
        }
        let removes = matches!(action, "-alias" | "delete" | "remove");
        let address = address(text, length, removes)?;
        let interface = self.interface.to_owned();
        // On BSD, too, a second IPv6 address is never the end of the first one.
        let replaces = action.is_empty() && address.addr().is_ipv4();
        self.changes.edits.push(if removes {
            ConfigEdit::RemoveAddress { interface, address }
        } else if replaces {
            ConfigEdit::ReplaceAddress { interface, address }
        } else {
            ConfigEdit::AddAddress { interface, address }
        });
        Ok(())
    }

    fn finish(mut self) -> Result<Changes, String> {
        let device = self.device()?;
        let interface = self.interface.to_owned();
        match (self.seen.creates, device) {
            (true, Some(device)) => self.changes.edits.insert(0, ConfigEdit::Create { interface, device }),
            (true, None) => return Err(without_device(self.interface)),
            (false, Some(device)) => self
                .changes
                .edits
                .insert(0, ConfigEdit::Set { interface, key: "device".to_owned(), value: device }),
            (false, None) => {}
        }
        let is_all = self.changes.edits.is_empty() && self.changes.stations.is_empty();
        if self.changes.lists_stations && !(is_all && self.changes.state == InterfaceChange::default()) {
            return Err("`addr` stands alone".to_owned());
        }
        let destroys = self.changes.edits.iter().any(|edit| matches!(edit, ConfigEdit::Destroy { .. }));
        if destroys && (self.changes.edits.len() > 1 || self.changes.state != InterfaceChange::default()) {
            return Err("`destroy` stands alone".to_owned());
        }
        Ok(self.changes)
    }

    fn device(&self) -> Result<Option<String>, String> {
        let Seen { device, vlan, parent, is_qinq, creates, .. } = &self.seen;
        if let Some(made) = self.of_parts()? {
            let is_alone = device.is_none() && vlan.is_none() && parent.is_none();
            return if is_alone { Ok(Some(made)) } else { Err("an interface has one device".to_owned()) };
        }
        match (device, vlan, parent) {
            (None, Some(vlan), Some(parent)) => {
                Ok(Some(format!("{}:{parent},{vlan}", if *is_qinq { "qinq" } else { "vlan" })))
            }
            (None, None, None) if *creates && self.interface.starts_with("tap") => {
                Ok(Some(format!("tap:{}", self.interface)))
            }
            (None, None, None) if *creates && self.interface.starts_with("tun") => {
                Ok(Some(format!("tun:{}", self.interface)))
            }
            (None, None, None) if *creates && self.interface.starts_with("bridge") => {
                Ok(Some("bridge:".to_owned()))
            }
            (None, None, None) if *creates && kind_of(self.interface) == "lo" => Ok(Some("lo".to_owned())),
            (Some(device), None, None) => {
                let key = self.seen.gre_key.map(|key| format!(",key={key}")).unwrap_or_default();
                Ok(Some(format!("{device}{key}")))
            }
            (None, None, None) => Ok(None),
            (Some(_), ..) => Err("an interface has one device".to_owned()),
            _ => Err("a VLAN needs both: `vlan ID vlandev INTERFACE`".to_owned()),
        }
    }
}

fn is_qinq(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "802.1q" => Ok(false),
        "802.1ad" => Ok(true),
        _ => Err(format!("unknown vlanproto `{text}`; it is 802.1q or 802.1ad")),
    }
}

/// The name of an interface without its number.
fn kind_of(interface: &str) -> &str {
    interface.trim_end_matches(|c: char| c.is_ascii_digit())
}

fn without_device(interface: &str) -> String {
    let words = match kind_of(interface) {
        "vlan" => "vlan ID vlandev INTERFACE",
        "gif" | "gre" => "tunnel LOCAL REMOTE",
        "vxlan" => "vxlanid N vxlanlocal ADDRESS",
        "pppoe" => "pppoedev INTERFACE",
        _ => "device DEVICE",
    };
    format!("`create` needs its device: `ifconfig {interface} create {words}`")
}

/// The length of a prefix: `24`, `255.255.255.0`, `0xffffff00`.
fn prefix_len(text: &str) -> Result<u8, String> {
    let bad = || format!("`{text}` is not the mask of a prefix");
    if let Ok(len) = text.parse() {
        return Ok(len);
    }
    let hex = text.strip_prefix("0x").and_then(|hex| u32::from_str_radix(hex, 16).ok());
    let mask = hex.map(core::net::Ipv4Addr::from).or_else(|| text.parse().ok()).ok_or_else(bad)?;
    ipnet::ipv4_mask_to_prefix(mask).map_err(|_| bad())
}

fn address(text: &str, length: Option<u8>, removes: bool) -> Result<IpNet, String> {
    let bad = || format!("`{text}` is not an address");
    if let Ok(net) = text.parse::<IpNet>() {
        return match length {
            Some(_) => Err(format!("{text} has its prefix length already")),
            None => Ok(net),
        };
    }
    let ip: IpAddr = text.parse().map_err(|_| bad())?;
    let host = if ip.is_ipv4() { 32 } else { 128 };
    let length = match length {
        Some(length) => length,
        None if removes => host,
        None => {
            return Err(format!(
                "{text} has no prefix length; write it as in {text}/{}",
                if ip.is_ipv4() { 24 } else { 64 }
            ));
        }
    };
    IpNet::new(ip, length).map_err(|_| format!("a prefix of {length} bits is too long for {text}"))
}

fn unknown(word: &str) -> String {
    if let Some((_, instead)) = FOREIGN.iter().find(|(foreign, _)| *foreign == word) {
        return format!("`{word}` has no meaning here: {instead}");
    }
    let help = nearest(word, WORDS.iter().copied())
        .map_or_else(|| format!("known are {}", WORDS.join(", ")), |near| format!("did you mean `{near}`?"));
    format!("unknown word `{word}`; {help}")
}

#[cfg(test)]
mod tests;
